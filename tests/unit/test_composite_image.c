/* Composites of images on devices against definitions written out as loops over all pixels, and derivatives against finite
 * differences. */
#include "support/world.h"
#include "base/rng.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define ROOM 4096

static const char *const devices[] = {"cpu", "ref"};

static void near_to(world *w, const char *what, ls_tensor *y, int64_t n, const double *values, double tolerance) {
    static double got[ROOM];
    world_ok(w, y ? LS_OK : ls_session_error(w->session)->code);
    assert_int_equal(ls_tensor_numel(w->session, y), n);
    world_ok(w, ls_read(w->session, ls_cast(w->session, y, LS_F64), got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(got[i] - values[i]) <= tolerance * (1 + fabs(values[i])))) {
            fail_msg("%s on %s: element %d is %.17g, expected %.17g", what, w->id, (int)i, got[i], values[i]);
        }
    }
}

static void fill(double *data, int n, uint64_t seed) {
    ls_rng rng = {seed, 0};
    for (int i = 0; i < n; i++) {
        data[i] = ls_rng_normal(&rng);
    }
}

/* ---- resizing ---- */

typedef struct resize_case {
    ls_resize_mode mode;
    ls_resize_coords coords;
    int64_t from, to;
    double scale;
    int antialias, exclude;
    double a;
} resize_case;

static double place_of(const resize_case *c, int64_t i) {
    double n = (double)c->from, s = c->scale != 0 ? c->scale : (double)c->to / n, x = (double)i;
    double w = c->scale != 0 ? s * n : (double)c->to;
    switch (c->coords) {
    case LS_RESIZE_ALIGN_CORNERS: return x * (n - 1) / (w - 1);
    case LS_RESIZE_ASYMMETRIC: return x / s;
    case LS_RESIZE_TF_HALF_PIXEL: return (x + 0.5) / s;
    case LS_RESIZE_HALF_PIXEL_SYMMETRIC: return n / 2 * (1 - (double)c->to / w) + (x + 0.5) / s - 0.5;
    default: return (x + 0.5) / s - 0.5;
    }
}

static double kernel(const resize_case *c, double t) {
    t = fabs(t);
    if (c->mode == LS_RESIZE_LINEAR) {
        return t < 1 ? 1 - t : 0;
    }
    return t <= 1 ? (c->a + 2) * t * t * t - (c->a + 3) * t * t + 1 : t < 2 ? c->a * (t * t * t - 5 * t * t + 8 * t - 4) : 0;
}

/* Element i of the result of a line: every pixel, and far beyond both ends, weighed. */
static double resized(const resize_case *c, const double *line, int64_t step, int64_t i) {
    double x = place_of(c, i), s = c->scale != 0 ? c->scale : (double)c->to / (double)c->from, sum = 0, weights = 0;
    double reach = c->antialias && s < 1 ? s : 1;
    if (c->mode == LS_RESIZE_NEAREST) {
        double best = ceil(x - 0.5); /* half down */
        best = best < 0 ? 0 : best > (double)c->from - 1 ? (double)c->from - 1 : best;
        return line[(int64_t)best * step];
    }
    for (int64_t k = -40; k < c->from + 40; k++) {
        int64_t at = k < 0 ? 0 : k >= c->from ? c->from - 1 : k;
        double w = at != k && c->exclude ? 0 : kernel(c, ((double)k - x) * reach);
        sum += w * line[at * step];
        weights += w;
    }
    return sum / weights;
}

static void resizing_weighs_neighbours(void **state) {
    (void)state;
    static const resize_case cases[] = {
        {LS_RESIZE_LINEAR, LS_RESIZE_HALF_PIXEL, 5, 12, 0, 0, 0, 0},
        {LS_RESIZE_LINEAR, LS_RESIZE_ALIGN_CORNERS, 5, 3, 0, 0, 0, 0},
        {LS_RESIZE_LINEAR, LS_RESIZE_HALF_PIXEL, 11, 4, 0, 1, 0, 0},
        {LS_RESIZE_LINEAR, LS_RESIZE_HALF_PIXEL_SYMMETRIC, 7, 4, 0.6, 0, 0, 0},
        {LS_RESIZE_CUBIC, LS_RESIZE_HALF_PIXEL, 6, 15, 0, 0, 0, -0.75},
        {LS_RESIZE_CUBIC, LS_RESIZE_ASYMMETRIC, 6, 15, 0, 0, 1, -0.5},
        {LS_RESIZE_CUBIC, LS_RESIZE_HALF_PIXEL, 13, 5, 0, 1, 0, -0.5},
        {LS_RESIZE_CUBIC, LS_RESIZE_HALF_PIXEL, 13, 5, 0, 1, 1, -0.75},
        {LS_RESIZE_NEAREST, LS_RESIZE_HALF_PIXEL, 7, 3, 0, 0, 0, 0},
        {LS_RESIZE_NEAREST, LS_RESIZE_ASYMMETRIC, 3, 8, 0, 0, 0, 0},
    };
    static double x[2 * 13 * 4], y[ROOM], g[ROOM], seed[ROOM];
    fill(x, sizeof x / sizeof *x, 3);
    fill(seed, ROOM, 4);
    for (size_t d = 0; d < 2; d++) {
        world w = world_open(devices[d]);
        ls_session *s = w.session;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const resize_case *c = &cases[i];
            ls_resize_spec spec = {.mode = c->mode, .coords = c->coords, .antialias = c->antialias, .exclude_outside = c->exclude,
                                   .cubic_a = c->a, .size = {2, c->to, 4}, .scale = {1, c->scale, 1}};
            for (int64_t k = 0; k < 8 * c->to; k++) {
                y[k] = resized(c, x + (k / (4 * c->to)) * c->from * 4 + k % 4, 4, k / 4 % c->to);
            }
            ls_tensor *in = ls_tensor_from(s, LS_F64, LS_SHAPE(2, c->from, 4), x), *grad, *out = ls_resize(s, in, &spec);
            near_to(&w, "resize", out, 8 * c->to, y, 1e-12);
            near_to(&w, "resize of f32", ls_resize(s, ls_cast(s, in, LS_F32), &spec), 8 * c->to, y, 1e-5);
            /* linear in x: the gradient is the adjoint, <y, seed> = <x, gradient> */
            world_ok(&w, ls_grad(s, out, ls_tensor_from(s, LS_F64, ls_tensor_shape(out), seed), 1, &in, &grad));
            world_ok(&w, ls_read(s, grad, g, (size_t)(8 * c->from) * sizeof *g));
            double a = 0, b = 0;
            for (int64_t k = 0; k < 8 * c->to; k++) {
                a += y[k] * seed[k];
            }
            for (int64_t k = 0; k < 8 * c->from; k++) {
                b += x[k] * g[k];
            }
            assert_true(fabs(a - b) < 1e-10 * (1 + fabs(a)));
        }
        const uint8_t bytes[] = {0, 255, 3};
        const double halves[] = {0, 64, 191, 192, 66, 3}; /* 63.75, 191.25 and 66: rounded */
        ls_resize_spec twice = {.mode = LS_RESIZE_LINEAR, .size = {6}};
        near_to(&w, "resize of u8", ls_resize(s, ls_tensor_from(s, LS_U8, LS_SHAPE(3), bytes), &twice), 6, halves, 0);
        const double line[] = {1, 2, 3}, part[] = {-9, 1, 2, 3, -9};
        ls_resize_spec crop = {.mode = LS_RESIZE_LINEAR, .coords = LS_RESIZE_CROP, .extrapolation = -9, .size = {5},
                               .start = {-0.5}, .end = {1.5}};
        near_to(&w, "crop", ls_resize(s, ls_tensor_from(s, LS_F64, LS_SHAPE(3), line), &crop), 5, part, 0);
        world_close(&w);
    }
}

/* ---- grids ---- */

static double reflected(double x, double low, double high) {
    while (high > low && (x < low || x > high)) {
        x = x < low ? 2 * low - x : 2 * high - x;
    }
    return x;
}

static double pixel(const double *image, int64_t n, int64_t i, ls_sample_padding padding, bool corners) {
    if (padding == LS_SAMPLE_ZEROS) {
        return i >= 0 && i < n ? image[i] : 0;
    }
    double at = (double)i;
    at = padding == LS_SAMPLE_REFLECTION ? reflected(at, corners ? 0 : -0.5, (double)n - (corners ? 1 : 0.5)) : at;
    return image[at < 0 ? 0 : at > (double)n - 1 ? n - 1 : (int64_t)at];
}

/* A line of n pixels at coordinate g. */
static double sampled(const double *image, int64_t n, double g, ls_sample_mode mode, ls_sample_padding padding, bool corners) {
    double low = corners ? 0 : -0.5, high = (double)n - (corners ? 1 : 0.5), sum = 0;
    double x = corners ? (g + 1) / 2 * ((double)n - 1) : ((g + 1) * (double)n - 1) / 2;
    x = mode == LS_SAMPLE_NEAREST ? rint(x) : x;
    if (x < low || x > high) {
        x = padding == LS_SAMPLE_BORDER       ? (x < 0 ? 0 : (double)n - 1)
            : padding == LS_SAMPLE_REFLECTION ? reflected(x, low, high)
                                              : x;
    }
    if (mode == LS_SAMPLE_NEAREST) {
        return pixel(image, n, (int64_t)x, padding, corners);
    }
    resize_case c = {.mode = mode == LS_SAMPLE_LINEAR ? LS_RESIZE_LINEAR : LS_RESIZE_CUBIC, .a = -0.75};
    for (int64_t k = (int64_t)floor(x) - 1; k <= (int64_t)floor(x) + 2; k++) {
        sum += kernel(&c, (double)k - x) * pixel(image, n, k, padding, corners);
    }
    return sum;
}

static void grids_sample_lines(void **state) {
    (void)state;
    enum { PIXELS = 5, PLACES = 23 };
    double x[2 * PIXELS], grid[PLACES], y[2 * PLACES];
    fill(x, 2 * PIXELS, 5);
    for (int i = 0; i < PLACES; i++) {
        grid[i] = -3.01 + 0.271 * i;
    }
    for (size_t d = 0; d < 2; d++) {
        world w = world_open(devices[d]);
        ls_session *s = w.session;
        for (int k = 0; k < 18; k++) {
            ls_sample_mode mode = (ls_sample_mode)(k % 3);
            ls_sample_padding padding = (ls_sample_padding)(k / 3 % 3);
            bool corners = k / 9;
            for (int i = 0; i < 2 * PLACES; i++) {
                y[i] = sampled(x + i / PLACES * PIXELS, PIXELS, grid[i % PLACES], mode, padding, corners);
            }
            ls_tensor *image = ls_tensor_from(s, LS_F64, LS_SHAPE(1, 2, PIXELS), x);
            ls_tensor *at = ls_tensor_from(s, LS_F64, LS_SHAPE(1, PLACES, 1), grid), *g;
            ls_tensor *out = ls_grid_sample(s, image, at, mode, padding, corners);
            near_to(&w, "grid_sample", out, 2 * PLACES, y, 1e-12);
            if (mode == LS_SAMPLE_NEAREST) {
                continue;
            }
            for (int i = 0; i < PLACES; i++) { /* the derivative in the grid, both channels together */
                double side[2] = {0, 0}, h = 1e-6;
                for (int j = 0; j < 4; j++) {
                    side[j % 2] += sampled(x + j / 2 * PIXELS, PIXELS, grid[i] + (j % 2 ? h : -h), mode, padding, corners);
                }
                y[i] = (side[1] - side[0]) / (2 * h);
            }
            world_ok(&w, ls_grad(s, out, NULL, 1, &at, &g));
            near_to(&w, "derivative of grid_sample", g, PLACES, y, 1e-6);
        }
        world_close(&w);
    }
}

/* The grid of no transformation gives an image back; one that turns it by a half gives it flipped. */
static void affine_grids_move_images(void **state) {
    (void)state;
    double x[2 * 3 * 4 * 5], y[2 * 3 * 4 * 5];
    fill(x, 120, 6);
    const double same[] = {1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0}, turned[] = {-1, 0, 0, 0, -1, 0, -1, 0, 0, 0, -1, 0};
    const double cube[] = {1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, 0};
    for (int k = 0; k < 6; k++) {
        world w = world_open(devices[k % 2]);
        ls_session *s = w.session;
        int corners = k / 2 % 2, turn = k / 4;
        ls_tensor *theta = ls_tensor_from(s, LS_F64, LS_SHAPE(2, 2, 3), turn ? turned : same);
        ls_tensor *grid = ls_affine_grid(s, theta, (const int64_t[]){4, 5}, corners);
        ls_tensor *image = ls_tensor_from(s, LS_F64, LS_SHAPE(2, 3, 4, 5), x);
        for (int i = 0; i < 120; i++) {
            y[i] = x[turn ? i / 20 * 20 + 19 - i % 20 : i];
        }
        near_to(&w, "affine_grid", ls_grid_sample(s, image, grid, LS_SAMPLE_LINEAR, LS_SAMPLE_BORDER, corners), 120, y, 1e-12);
        for (int i = 0; i < 120; i++) { /* [1,2,3,4,5] with its middle axis flipped */
            y[i] = x[i / 20 * 20 + (3 - i % 20 / 5) * 5 + i % 5];
        }
        grid = ls_affine_grid(s, ls_tensor_from(s, LS_F64, LS_SHAPE(1, 3, 4), cube), (const int64_t[]){3, 4, 5}, corners);
        near_to(&w, "affine_grid in 3 dimensions",
                ls_grid_sample(s, ls_reshape(s, image, LS_SHAPE(1, 2, 3, 4, 5)), grid, LS_SAMPLE_LINEAR, LS_SAMPLE_ZEROS, corners), 120, y,
                1e-12);
        world_close(&w);
    }
}

/* ---- regions ---- */

static double bilinear(const double *image, int h, int w, double y, double x) {
    if (y < -1 || y > h || x < -1 || x > w) {
        return 0;
    }
    y = fmin(fmax(y, 0), h - 1);
    x = fmin(fmax(x, 0), w - 1);
    int r = (int)y, c = (int)x, r1 = r + 1 < h ? r + 1 : r, c1 = c + 1 < w ? c + 1 : c;
    double dy = y - r, dx = x - c;
    return (1 - dy) * ((1 - dx) * image[r * w + c] + dx * image[r * w + c1]) +
           dy * ((1 - dx) * image[r1 * w + c] + dx * image[r1 * w + c1]);
}

static void regions_average_samples(void **state) {
    (void)state;
    enum { H = 6, W = 7, OH = 2, OW = 3, K = 3 };
    double x[2 * 2 * H * W], y[K * 2 * OH * OW];
    const double rois[K * 4] = {0.5, 1, 5.5, 5, -3, 2, 2.25, 9, 4, 4, 4.5, 4.25};
    const int64_t batch[K] = {1, 0, 1};
    fill(x, sizeof x / sizeof *x, 7);
    for (int k = 0; k < 8; k++) {
        world w = world_open(devices[k % 2]);
        ls_session *s = w.session;
        ls_roi_spec spec = {.height = OH, .width = OW, .scale = 0.8, .samples = k / 4 ? 5 : 2, .adaptive = k / 4, .half_pixel = k / 2 % 2};
        for (int i = 0; i < K * 2 * OH * OW; i++) {
            const double *r = rois + i / (2 * OH * OW) * 4, *image = x + (batch[i / (2 * OH * OW)] * 2 + i / (OH * OW) % 2) * H * W;
            double shift = spec.half_pixel ? 0.5 : 0, x0 = r[0] * 0.8 - shift, y0 = r[1] * 0.8 - shift;
            double width = r[2] * 0.8 - shift - x0, height = r[3] * 0.8 - shift - y0, sum = 0;
            width = spec.half_pixel ? width : fmax(width, 1);
            height = spec.half_pixel ? height : fmax(height, 1);
            int ny = spec.adaptive ? (int)ceil(height / OH) : 2, nx = spec.adaptive ? (int)ceil(width / OW) : 2;
            for (int j = 0; j < ny * nx; j++) {
                sum += bilinear(image, H, W, y0 + (i / OW % OH + (j / nx + 0.5) / ny) * height / OH, x0 + (i % OW + (j % nx + 0.5) / nx) * width / OW);
            }
            y[i] = sum / (ny * nx);
        }
        ls_tensor *out = ls_roi_align(s, ls_tensor_from(s, LS_F64, LS_SHAPE(2, 2, H, W), x), ls_tensor_from(s, LS_F64, LS_SHAPE(K, 4), rois),
                                      ls_tensor_from(s, LS_I64, LS_SHAPE(K), batch), &spec);
        near_to(&w, "roi_align", out, K * 2 * OH * OW, y, 1e-12);
        world_close(&w);
    }
}

static void regions_take_the_largest_pixel(void **state) {
    (void)state;
    enum { H = 6, W = 7, OH = 2, OW = 3, K = 3 };
    double x[2 * 2 * H * W], y[K * 2 * OH * OW];
    const double rois[K * 4] = {0, 1, 11, 9, 6, 2, 6, 3, 8, 8, 20, 20};
    const int64_t batch[K] = {1, 0, 1};
    fill(x, sizeof x / sizeof *x, 8);
    for (int i = 0; i < K * 2 * OH * OW; i++) {
        const double *r = rois + i / (2 * OH * OW) * 4, *image = x + (batch[i / (2 * OH * OW)] * 2 + i / (OH * OW) % 2) * H * W;
        double x0 = round(r[0] / 2), y0 = round(r[1] / 2), width = fmax(round(r[2] / 2) - x0 + 1, 1), height = fmax(round(r[3] / 2) - y0 + 1, 1);
        double best = -1e300;
        for (int p = 0; p < H * W; p++) {
            double row = p / W - y0, column = p % W - x0, bh = height / OH, bw = width / OW;
            int oy = i / OW % OH, ox = i % OW;
            if (row >= floor(oy * bh) && row < ceil((oy + 1) * bh) && column >= floor(ox * bw) && column < ceil((ox + 1) * bw)) {
                best = fmax(best, image[p]);
            }
        }
        y[i] = best > -1e300 ? best : 0;
    }
    for (size_t d = 0; d < 2; d++) {
        world w = world_open(devices[d]);
        ls_session *s = w.session;
        ls_tensor *out = ls_roi_max_pool(s, ls_tensor_from(s, LS_F64, LS_SHAPE(2, 2, H, W), x), ls_tensor_from(s, LS_F64, LS_SHAPE(K, 4), rois),
                                         ls_tensor_from(s, LS_I64, LS_SHAPE(K), batch), OH, OW, 0.5);
        near_to(&w, "roi_max_pool", out, K * 2 * OH * OW, y, 0);
        world_close(&w);
    }
}

static void refusals_name_the_operand(void **state) {
    (void)state;
    for (int k = 0; k < 5; k++) {
        world w = world_open("cpu");
        ls_session *s = w.session;
        ls_tensor *x = ls_full(s, LS_F32, LS_SHAPE(1, 2, 3, 4), 1), *b = ls_full(s, LS_BOOL, LS_SHAPE(3), 1), *y = x;
        ls_tensor *index = ls_full_i64(s, LS_I64, LS_SHAPE(1), 0);
        ls_resize_spec grow = {.mode = LS_RESIZE_LINEAR, .size = {6}}, negative = {.mode = LS_RESIZE_LINEAR, .size = {1, 2, -3, 4}};
        switch (k) {
        case 0: y = ls_resize(s, b, &grow); break;
        case 1: y = ls_resize(s, x, &negative); break;
        case 2: y = ls_grid_sample(s, x, ls_full(s, LS_F32, LS_SHAPE(1, 5, 5, 3), 0), LS_SAMPLE_LINEAR, LS_SAMPLE_ZEROS, 0); break;
        case 3: y = ls_affine_grid(s, x, (const int64_t[]){2, 2}, 0); break;
        default: y = ls_roi_align(s, x, x, index, &(ls_roi_spec){.height = 1, .width = 1, .samples = 1}); break;
        }
        assert_null(y);
        const char *message = ls_session_error(s)->message;
        if (!strstr(message, k == 0 ? "bool[3]" : "f32[1,2,3,4]")) {
            fail_msg("refusal %d says \"%s\"", k, message);
        }
        world_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing_weighs_neighbours), cmocka_unit_test(grids_sample_lines),
        cmocka_unit_test(affine_grids_move_images),   cmocka_unit_test(regions_average_samples),
        cmocka_unit_test(regions_take_the_largest_pixel), cmocka_unit_test(refusals_name_the_operand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
