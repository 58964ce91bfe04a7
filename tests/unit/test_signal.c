/* Fourier transforms and windows against their definitions in f64, on the CPU backend. */
#include "support/world.h"
#include "base/rng.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

static const double tau = 6.28318530717958647692;

static ls_tensor *must(world *w, ls_tensor *x) {
    world_ok(w, x ? LS_OK : ls_session_error(w->session)->code);
    assert_non_null(x);
    return x;
}

static void read_f64(world *w, ls_tensor *x, double *out, size_t n) {
    x = must(w, ls_cast(w->session, must(w, x), LS_F64));
    world_ok(w, ls_read(w->session, x, out, n * sizeof *out));
}

static void assert_close(const double *got, const double *want, int n, double bound) {
    for (int i = 0; i < n; i++) {
        if (!(fabs(got[i] - want[i]) <= bound)) {
            fail_msg("element %d is %.17g, expected %.17g", i, got[i], want[i]);
        }
    }
}

static void fill(double *x, int n, uint64_t key) {
    ls_rng rng = {.key = key};
    for (int i = 0; i < n; i++) {
        x[i] = 2 * ls_rng_unit(&rng) - 1;
    }
}

enum { ROWS = 2, MOST = 24 };

/* y[b, k] of x[b, n] (re, im), by the definition. */
static void transform(const double *x, int extent, int parts, int length, int bins, bool inverse, double *y) {
    for (int b = 0; b < ROWS; b++) {
        for (int k = 0; k < bins; k++) {
            double re = 0, im = 0;
            for (int n = 0; n < extent && n < length; n++) {
                double a = (inverse ? tau : -tau) * (double)(n * k % length) / length, c = cos(a), s = sin(a);
                double xr = x[(b * extent + n) * parts],
                       xi = parts == 2 ? x[(b * extent + n) * parts + 1] : 0;
                re += xr * c - xi * s;
                im += xr * s + xi * c;
            }
            y[(b * bins + k) * 2] = inverse ? re / length : re;
            y[(b * bins + k) * 2 + 1] = inverse ? im / length : im;
        }
    }
}

static void one_transform(world *w, ls_dtype dtype, int extent, int parts, int length, bool inverse,
                          bool onesided, double bound) {
    double x[ROWS * MOST * 2], want[ROWS * MOST * 2], got[ROWS * MOST * 2];
    int full = length ? length : extent, bins = onesided ? full / 2 + 1 : full;
    fill(x, ROWS * extent * parts, (uint64_t)(extent * 100 + length));
    for (int i = 0; i < ROWS * extent * parts; i++) {
        x[i] = (double)(float)x[i];
    }
    ls_tensor *t = ls_tensor_from(w->session, LS_F64, LS_SHAPE(ROWS, extent, parts), x);
    ls_dft_spec spec = {.axis = 1, .length = length, .inverse = inverse, .onesided = onesided};
    ls_tensor *y = must(w, ls_dft(w->session, ls_cast(w->session, t, dtype), &spec));
    transform(x, extent, parts, full, bins, inverse, want);
    read_f64(w, y, got, (size_t)(ROWS * bins * 2));
    assert_close(got, want, ROWS * bins * 2, bound);
    spec.matrix = ls_dft_matrix(w->session, dtype, extent, parts, &spec);
    assert_ptr_equal(must(w, ls_dft(w->session, ls_cast(w->session, t, dtype), &spec)), y);
}

static void transforms_are_their_definition(void **state) {
    (void)state;
    world w = world_open("cpu");
    for (int extent = 1; extent <= 16; extent += extent < 6 ? 1 : 5) {
        for (int parts = 1; parts <= 2; parts++) {
            one_transform(&w, LS_F64, extent, parts, 0, false, false, 1e-14 * extent);
            one_transform(&w, LS_F64, extent, parts, 0, true, false, 1e-14);
            one_transform(&w, LS_F32, extent, parts, 0, false, false, 1e-6 * extent);
        }
        one_transform(&w, LS_F64, extent, 1, 0, false, true, 1e-14 * extent);
        one_transform(&w, LS_F64, extent, 2, extent + 7, false, false, 1e-13);       /* padded */
        one_transform(&w, LS_F64, extent, 1, (extent + 1) / 2, false, false, 1e-13); /* cut */
    }
    world_close(&w);
}

static void onesided_and_back(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    for (int n = 2; n <= 13; n++) {
        double x[MOST], got[MOST];
        fill(x, n, (uint64_t)n);
        ls_tensor *t = ls_tensor_from(s, LS_F64, LS_SHAPE(1, n, 1), x);
        ls_tensor *bins = must(&w, ls_dft(s, t, &(ls_dft_spec){.axis = -2, .onesided = 1}));
        assert_int_equal(ls_tensor_shape(bins).dim[1].offset, n / 2 + 1);
        ls_tensor *back =
            ls_dft(s, bins, &(ls_dft_spec){.axis = 1, .length = n, .inverse = 1, .onesided = 1});
        read_f64(&w, back, got, (size_t)n);
        assert_close(got, x, n, 1e-14);
    }
    world_close(&w);
}

/* Quarter turns are exact, also where n k is far beyond one turn. */
static void quarter_turns_are_exact(void **state) {
    (void)state;
    world w = world_open("cpu");
    double m[8 * 2 * 8 * 2];
    read_f64(&w, ls_dft_matrix(w.session, LS_F32, 8, 2, &(ls_dft_spec){0}), m, 256);
    for (int n = 0; n < 8; n++) {
        for (int k = 0; k < 8; k++) {
            static const double cosine[] = {1, 0, -1, 0};
            int p = n * k % 8;
            if (p % 2 == 0) {
                assert_true(m[(n * 2 * 8 + k) * 2] == cosine[p / 2]);
                assert_true(m[((n * 2 + 1) * 8 + k) * 2] == cosine[(p / 2 + 3) % 4]);
            }
        }
    }
    world_close(&w);
}

static void windows_are_their_formulas(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    for (int n = 1; n <= MOST; n += n < 4 ? 1 : 5) {
        for (int periodic = 0; periodic < 2; periodic++) {
            double want[3][MOST], got[MOST], turn = n > 1 ? tau / (periodic ? n : n - 1) : 0;
            for (int i = 0; i < n; i++) {
                double c = cos(turn * i), c2 = cos(2 * turn * i);
                want[0][i] = n == 1 ? 1 : 0.5 - 0.5 * c;
                want[1][i] = n == 1 ? 1 : 25.0 / 46 - 21.0 / 46 * c;
                want[2][i] = n == 1 ? 1 : 0.42 - 0.5 * c + 0.08 * c2;
            }
            read_f64(&w, ls_hann_window(s, LS_F64, n, periodic), got, (size_t)n);
            assert_close(got, want[0], n, 1e-15);
            read_f64(&w, ls_hamming_window(s, LS_F64, n, periodic), got, (size_t)n);
            assert_close(got, want[1], n, 1e-15);
            read_f64(&w, ls_blackman_window(s, LS_F32, n, periodic), got, (size_t)n);
            assert_close(got, want[2], n, 1e-7);
        }
    }
    world_close(&w);
}

/* Each frame by itself. */
static void short_time_transforms(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    double x[23];
    fill(x, 23, 5);
    ls_tensor *t = ls_tensor_from(s, LS_F64, LS_SHAPE(1, 23, 1), x),
              *window = ls_hann_window(s, LS_F64, 6, 1);
    const ls_dft_spec spec = {.onesided = 1, .length = 8};
    double all[6 * 5 * 2], one[5 * 2];
    ls_tensor *y = must(&w, ls_stft(s, t, 3, window, &spec));
    assert_int_equal(ls_tensor_shape(y).dim[1].offset, 6);
    read_f64(&w, y, all, 60);
    for (int f = 0; f < 6; f++) {
        ls_tensor *frame = ls_mul(s, ls_narrow(s, t, 1, 3 * f, 6), ls_reshape(s, window, LS_SHAPE(1, 6, 1)));
        read_f64(&w, ls_dft(s, frame, &(ls_dft_spec){.axis = 1, .length = 8, .onesided = 1}), one, 10);
        assert_close(all + f * 10, one, 10, 0);
    }
    world_close(&w);
}

/* The derivative of a sum of squares of the transform is 2 N x (Parseval). */
static void transforms_have_gradients(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    double x[20], got[20];
    fill(x, 20, 9);
    ls_tensor *t = ls_tensor_from(s, LS_F64, LS_SHAPE(1, 10, 2), x), *slope;
    ls_tensor *y = must(&w, ls_dft(s, t, &(ls_dft_spec){.axis = 1}));
    world_ok(&w, ls_grad(s, ls_sum(s, ls_mul(s, y, y), 0, NULL, 0), NULL, 1, &t, &slope));
    read_f64(&w, slope, got, 20);
    for (int i = 0; i < 20; i++) {
        x[i] *= 20;
    }
    assert_close(got, x, 20, 1e-12);
    world_close(&w);
}

static void bad_transforms_say_why(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    const float x[6] = {0};
    ls_tensor *t = must(&w, ls_tensor_from(s, LS_F32, LS_SHAPE(2, 3), x));
    assert_null(ls_dft(s, t, &(ls_dft_spec){.axis = 0}));
    assert_non_null(strstr(ls_session_error(s)->message, "of 3 parts"));
    ls_session_clear_error(s);
    assert_null(ls_dft(s, t, &(ls_dft_spec){.axis = 1}));
    assert_non_null(strstr(ls_session_error(s)->message, "axis 1"));
    ls_session_clear_error(s);
    assert_null(ls_hann_window(s, LS_I32, 4, 1));
    assert_non_null(strstr(ls_session_error(s)->message, "i32"));
    ls_session_clear_error(s);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transforms_are_their_definition), cmocka_unit_test(onesided_and_back),
        cmocka_unit_test(quarter_turns_are_exact),         cmocka_unit_test(windows_are_their_formulas),
        cmocka_unit_test(short_time_transforms),           cmocka_unit_test(transforms_have_gradients),
        cmocka_unit_test(bad_transforms_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
