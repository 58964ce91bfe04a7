/* Composites of layouts on devices against definitions written out as loops, their derivatives against finite differences, and what
 * they refuse. */
#include "support/world.h"
#include "base/rng.h"
#include <string.h>

#define ROOM 512

static const char *const devices[] = {"cpu", "ref"};

static void want(world *w, ls_tensor *y, int rank, const int64_t *dims, const double *values) {
    static double got[ROOM];
    int64_t n = 1;
    world_ok(w, y ? LS_OK : ls_session_error(w->session)->code);
    ls_shape shape = ls_tensor_shape(y);
    assert_int_equal(shape.rank, rank);
    for (int i = 0; i < rank; i++) {
        assert_int_equal(shape.dim[i].offset, dims[i]);
        n *= dims[i];
    }
    assert_true(n <= ROOM);
    world_ok(w, ls_read(w->session, ls_cast(w->session, y, LS_F64), got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++) {
        if (got[i] != values[i]) {
            fail_msg("%s: element %d is %g, expected %g", w->id, (int)i, got[i], values[i]);
        }
    }
}

/* 0, 1, 2, ... */
static ls_tensor *count_up(ls_session *s, ls_dtype dtype, int rank, const int64_t *dims) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        n *= dims[i];
    }
    ls_tensor *line = ls_cast(s, ls_iota(s, LS_I64, LS_SHAPE(n), 0), dtype);
    return ls_reshape(s, line, ls_shape_make(rank, dims));
}

static void tiles(world *w) {
    const int64_t dims[] = {2, 1, 3}, repeats[] = {2, 3, 2}, out[] = {4, 3, 6};
    double values[72];
    for (int i = 0; i < 72; i++) {
        values[i] = (i / 18 % 2) * 3 + i % 6 % 3;
    }
    want(w, ls_tile(w->session, count_up(w->session, LS_I16, 3, dims), repeats), 3, out, values);
    want(w, ls_tile(w->session, count_up(w->session, LS_F32, 3, dims), (const int64_t[]){2, 0, 1}), 3, (const int64_t[]){4, 0, 3}, NULL);
}

/* The place in a line of n that stands at i, by walking there one step at a time. */
static int64_t walk(int64_t i, int64_t n, ls_pad_kind kind) {
    int64_t at = 0, direction = i < 0 ? -1 : 1, facing = direction;
    for (int64_t k = 0; k != i; k += direction) {
        int64_t next = at + facing;
        if (next >= 0 && next < n) {
            at = next;
        } else if (kind == LS_PAD_WRAP) {
            at = next < 0 ? n - 1 : 0;
        } else if (kind == LS_PAD_REFLECT && n > 1) {
            facing = -facing;
            at += facing;
        }
    }
    return at;
}

static void pads(world *w) {
    static const int64_t lengths[] = {1, 2, 5}, ends[][2] = {{0, 3}, {4, 1}, {13, 11}, {-1, 4}};
    for (int kind = 0; kind <= LS_PAD_WRAP; kind++) {
        for (int l = 0; l < 3; l++) {
            for (int e = 0; e < 4; e++) {
                int64_t n = lengths[l], low = ends[e][0], high = ends[e][1], cut = low < 0 ? -low : 0;
                int64_t out[] = {2, n + low + high}, dims[] = {2, n};
                double values[ROOM];
                if (cut >= n) {
                    continue; /* nothing would be left to pad with */
                }
                for (int64_t r = 0; r < 2; r++) {
                    for (int64_t i = 0; i < out[1]; i++) {
                        int64_t place = i - (low > 0 ? low : 0);
                        values[r * out[1] + i] = (double)(r * n + cut + walk(place, n - cut, (ls_pad_kind)kind));
                    }
                }
                ls_pad_spec spec[] = {{0, 0, 0}, {low, high, 0}};
                want(w, ls_pad_with(w->session, count_up(w->session, LS_F32, 2, dims), spec, (ls_pad_kind)kind), 2, out, values);
            }
        }
    }
}

static void blocks(world *w) {
    const int64_t dims[] = {2, 8, 2, 3}, out[] = {2, 2, 4, 6};
    ls_session *s = w->session;
    for (int last = 0; last < 2; last++) {
        double values[96];
        for (int64_t n = 0; n < 2; n++) {
            for (int64_t c = 0; c < 2; c++) {
                for (int64_t y = 0; y < 4; y++) {
                    for (int64_t x = 0; x < 6; x++) {
                        int64_t tap = (y % 2) * 2 + x % 2, from = last ? c * 4 + tap : tap * 2 + c;
                        values[((n * 2 + c) * 4 + y) * 6 + x] = (double)(((n * 8 + from) * 2 + y / 2) * 3 + x / 2);
                    }
                }
            }
        }
        want(w, ls_depth_to_space(s, count_up(s, LS_U8, 4, dims), 2, last), 4, out, values);
    }
    double same[96];
    for (int i = 0; i < 96; i++) {
        same[i] = i;
    }
    want(w, ls_space_to_depth(s, ls_depth_to_space(s, count_up(s, LS_F32, 4, dims), 2, 0), 2), 4, dims, same);
}

static void coordinates(world *w) {
    ls_session *s = w->session;
    const int64_t dims[] = {2, 3, 4, 2}, index[] = {0, 3, 2, 1, 1, 0, 2, 2}; /* [2,2,2]: a batch axis, two vectors each */
    ls_tensor *x = count_up(s, LS_F32, 4, dims), *at = ls_tensor_from(s, LS_I64, LS_SHAPE(2, 2, 2), index);
    double values[8];
    for (int b = 0; b < 2; b++) {
        for (int v = 0; v < 2; v++) {
            for (int r = 0; r < 2; r++) {
                int64_t row = index[(b * 2 + v) * 2], column = index[(b * 2 + v) * 2 + 1];
                values[(b * 2 + v) * 2 + r] = (double)(((b * 3 + row) * 4 + column) * 2 + r);
            }
        }
    }
    want(w, ls_gather_nd(s, x, at, 1), 3, (const int64_t[]){2, 2, 2}, values);
    /* [2,4] of two coordinates: rows of the last two axes together; the second one twice, which adds twice */
    const int64_t places[] = {0, 2, 1, 0, 1, 0};
    double base[48], updates[24];
    for (int i = 0; i < 48; i++) {
        base[i] = i;
    }
    for (int i = 0; i < 24; i++) {
        updates[i] = 100 * (i + 1);
        base[(places[i / 8 * 2] * 3 + places[i / 8 * 2 + 1]) * 8 + i % 8] += updates[i];
    }
    ls_tensor *u = ls_cast(s, ls_tensor_from(s, LS_F64, LS_SHAPE(3, 4, 2), updates), LS_F32);
    want(w, ls_scatter_nd(s, x, ls_tensor_from(s, LS_I64, LS_SHAPE(3, 2), places), u, LS_SCATTER_ADD), 4, dims, base);
}

static void along(world *w) {
    ls_session *s = w->session;
    const int64_t dims[] = {3, 4}, index[] = {2, 0, 0, 1, 1, 1}; /* [2,3] along axis 0 */
    double base[12];
    for (int i = 0; i < 12; i++) {
        base[i] = i;
    }
    for (int i = 0; i < 6; i++) { /* the last of equal places stays */
        base[index[i] * 4 + i % 3] = i + 50;
    }
    const int64_t part[] = {2, 3};
    ls_tensor *u = ls_add(s, count_up(s, LS_I32, 2, part), ls_full_i64(s, LS_I32, LS_SCALAR, 50));
    ls_tensor *at = ls_tensor_from(s, LS_I64, LS_SHAPE(2, 3), index);
    want(w, ls_put_along(s, count_up(s, LS_I32, 2, dims), at, u, 0, LS_SCATTER_SET), 2, dims, base);
}

static void values_are_as_defined(void **state) {
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        world w = world_open(devices[d]);
        tiles(&w);
        pads(&w);
        blocks(&w);
        coordinates(&w);
        along(&w);
        world_close(&w);
    }
}

/* An index out of range is reported, and reads or writes no neighbouring row. */
static void bad_indices_are_reported(void **state) {
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        world w = world_open(devices[d]);
        const int64_t dims[] = {2, 3}, index[] = {0, 3};
        int32_t got;
        ls_tensor *y = ls_gather_nd(w.session, count_up(w.session, LS_I32, 2, dims), ls_tensor_from(w.session, LS_I64, LS_SHAPE(2), index), 0);
        assert_int_equal(ls_read(w.session, y, &got, sizeof got), LS_ERR_RANGE);
        world_close(&w);
    }
}

static void derivatives_are_adjoint(void **state) {
    (void)state;
    world w = world_open("ref");
    ls_session *s = w.session;
    const int64_t dims[] = {1, 4, 2, 2}, index[] = {0, 3, 0, 1, 0, 3};
    const ls_pad_spec spec[] = {{0, 0, 0}, {2, 5, 0}, {-1, 2, 0}, {1, 0, 0}};
    double grad[16], counts[16] = {0};
    ls_tensor *x = count_up(s, LS_F64, 4, dims), *at = ls_tensor_from(s, LS_I64, LS_SHAPE(3, 2), index), *g;
    for (int kind = 0; kind < 5; kind++) { /* each element's weight is how often it is read */
        ls_tensor *y = kind < 3    ? ls_pad_with(s, x, spec, (ls_pad_kind)kind)
                       : kind == 3 ? ls_tile(s, x, (const int64_t[]){2, 1, 3, 1})
                                   : ls_gather_nd(s, x, at, 0);
        int64_t n = ls_tensor_numel(s, y);
        static double places[ROOM];
        world_ok(&w, ls_read(s, y, places, (size_t)n * sizeof *places));
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < n; i++) {
            counts[(int)places[i]]++;
        }
        world_ok(&w, ls_grad(s, y, NULL, 1, &x, &g));
        world_ok(&w, ls_read(s, g, grad, sizeof grad));
        for (int i = 0; i < 16; i++) {
            assert_true(grad[i] == counts[i]);
        }
    }
    world_close(&w);
}

static void refusals_name_the_operand(void **state) {
    (void)state;
    const int64_t dims[] = {1, 6, 2, 3}, none[] = {1, 0};
    const ls_pad_spec inner[] = {{1, 1, 1}, {0, 0, 0}}, grow[] = {{0, 0, 0}, {1, 0, 0}};
    for (int k = 0; k < 8; k++) {
        world w = world_open("cpu");
        ls_session *s = w.session;
        ls_tensor *x = count_up(s, LS_F32, 4, dims), *flat = ls_reshape(s, x, LS_SHAPE(6, 6)), *y = x;
        ls_tensor *empty = ls_full(s, LS_F32, ls_shape_make(2, none), 0), *at = ls_full_i64(s, LS_I64, LS_SHAPE(2, 3), 0);
        switch (k) {
        case 0: y = ls_tile(s, flat, (const int64_t[]){1, -1}); break;
        case 1: y = ls_pad_with(s, flat, inner, LS_PAD_EDGE); break;
        case 2: y = ls_pad_with(s, empty, grow, LS_PAD_WRAP); break;
        case 3: y = ls_depth_to_space(s, x, 2, 0); break;
        case 4: y = ls_space_to_depth(s, x, 2); break;
        case 5: y = ls_gather_nd(s, flat, at, 0); break;
        case 6: y = ls_gather_nd(s, flat, ls_cast(s, ls_narrow(s, at, 1, 0, 2), LS_F32), 0); break;
        default: y = ls_put_along(s, flat, at, flat, 0, LS_SCATTER_SET); break;
        }
        assert_null(y);
        const char *message = ls_session_error(s)->message;
        if (!strstr(message, k == 2 ? "f32[1,0]" : k == 3 || k == 4 ? "f32[1,6,2,3]" : "f32[6,6]")) {
            fail_msg("refusal %d says \"%s\"", k, message);
        }
        world_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_as_defined),
        cmocka_unit_test(bad_indices_are_reported),
        cmocka_unit_test(derivatives_are_adjoint),
        cmocka_unit_test(refusals_name_the_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
