/* The museum, third hall: convolutions whose filter, stride, padding or flip was read along the wrong axis.
 */
#include "verify/museum.h"
#include <string.h>

/* Axis numbers from a layout: "NHC", "CHF", "NHWC", "OIHW"... N or B is the batch, H and W are spatial, C (of
 * data) the channel; of filters O or F is what goes out, C or I what comes in. */
static int axis_of(const char *layout, const char *names) {
    return (int)strcspn(layout, names);
}
static ls_conv_axes layouts(const char *input, const char *filter, const char *output) {
    ls_conv_axes a = {.set = 1};
    a.input_batch = axis_of(input, "N");
    a.input_channel = axis_of(input, "C");
    a.filter_out = axis_of(filter, "OF");
    a.filter_in = axis_of(filter, "IC");
    a.output_batch = axis_of(output, "N");
    a.output_channel = axis_of(output, "CF");
    for (int i = 0; i < (int)strlen(input) - 2; i++) {
        const char *spatial = i ? "W" : "H";
        a.input_spatial[i] = axis_of(input, spatial);
        a.filter_spatial[i] = axis_of(filter, spatial);
        a.output_spatial[i] = axis_of(output, spatial);
    }
    return a;
}

/* ---- 2: the case as reported, and padded ---- */

static const float small_x[6] = {0, 1, 0, 0, 0, 0}, small_w[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void filter_layout(ls_museum *m) {
    static const float want[4] = {5, 6, 0, 0};
    ls_session *s = m->session;
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(1, 3, 2), small_x),
              *w = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(2, 2, 2), small_w);
    if (x && w) {
        ls_conv_spec spec = {.spatial = 1, .axes = layouts("NHC", "CHF", "NHF")};
        ls_museum_literal(m, s, ls_conv(s, x, w, NULL, &spec), want, 4, 0);
    }
}

static void padded(ls_museum *m) {
    static const float want[8] = {7, 8, 5, 6, 0, 0, 0, 0};
    ls_session *s = m->session;
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(1, 3, 2), small_x),
              *w = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(2, 2, 2), small_w);
    ls_conv_spec spec = {.spatial = 1, .pad_low = {1}, .pad_high = {1}, .axes = layouts("NHC", "CHF", "NHF")};
    if (!x || !w) {
        return;
    }
    ls_museum_literal(m, s, ls_conv(s, x, w, NULL, &spec), want, 8, 0);
    /* Channels filled up with zeros to a whole tile of 16. */
    ls_tensor *wide_x = ls_pad(s, x, (ls_pad_spec[]){{0, 0, 0}, {0, 0, 0}, {0, 14, 0}}, 0);
    ls_tensor *wide_w = ls_pad(s, w, (ls_pad_spec[]){{0, 14, 0}, {0, 0, 0}, {0, 0, 0}}, 0);
    ls_museum_literal(m, s, ls_conv(s, wide_x, wide_w, NULL, &spec), want, 8, 0);
}

/* ---- 2a: every order of a filter's axes ---- */

static void filter_orders(ls_museum *m, int spatial, int orders) {
    static const char names[] = "OIHW";
    int rank = spatial + 2;
    float *values = ls_museum_random(m, 4 * 3 * 3 * 2, 21), *data = ls_museum_random(m, 2 * 3 * 6 * 5, 22);
    ls_data *first = NULL;
    for (int which = 0; which < orders && !ls_museum_over(m); which++) {
        int rest[4] = {0, 1, 2, 3}, axes[4], code = which;
        char filter[5] = "";
        for (int i = 0; i < rank; i++) {
            int left = rank - i, at = code % left;
            code /= left;
            axes[i] = rest[at];
            filter[i] = names[rest[at]];
            memmove(rest + at, rest + at + 1, sizeof *rest * (size_t)(left - at - 1));
        }
        ls_session *s = ls_museum_session(m, m->device, 1);
        if (!s) {
            break;
        }
        ls_tensor *w =
            ls_museum_tensor(m, s, LS_F32, spatial == 1 ? LS_SHAPE(4, 3, 3) : LS_SHAPE(4, 3, 3, 2), values);
        ls_tensor *x =
            ls_museum_tensor(m, s, LS_F32, spatial == 1 ? LS_SHAPE(2, 3, 30) : LS_SHAPE(2, 3, 6, 5), data);
        w = w ? ls_permute(s, w, axes) : NULL;
        if (w && x && ls_realize(s, &w, 1) == LS_OK) { /* laid out so in memory */
            ls_conv_spec spec = {.spatial = spatial, .stride = {2, 1}, .pad_low = {1, 1}};
            spec.axes = spatial == 1 ? layouts("NCH", filter, "NCH") : layouts("NCHW", filter, "NCHW");
            ls_tensor *y = ls_conv(s, x, w, NULL, &spec);
            ls_museum_verify(m, s, &y, 1);
            ls_data *got = ls_museum_read(m, s, y);
            ls_museum_same(m, filter, first, got);
            if (first) {
                ls_data_release(got);
            } else {
                first = got;
            }
        } else {
            ls_museum_built(m, s, NULL);
        }
        ls_session_destroy(s);
    }
    ls_data_release(first);
}

static void orders(ls_museum *m) {
    filter_orders(m, 1, 6);
    filter_orders(m, 2, 24);
}

/* ---- 2b: a gradient in the filter, at its reported size ---- */

static float bf16_value(const ls_data *data, int64_t i) {
    return (float)ls_value_to_f64(LS_BF16, ls_data_bits(LS_BF16, ls_data_bytes(data), i));
}

/* One element: sum over images and positions of g * x in float64, and of magnitudes. */
static void filter_gradient(const ls_data *x, const ls_data *g, const int64_t *at, int64_t groups,
                            double *sum, double *size) {
    const int64_t *dx = ls_data_dims(x), *dg = ls_data_dims(g); /* [N, H, W, C] */
    int64_t in = dx[3] / groups, group = at[0] / (dg[3] / groups);
    *sum = *size = 0;
    for (int64_t n = 0; n < dx[0]; n++) {
        for (int64_t i = 0; i < dg[1]; i++) {
            for (int64_t j = 0; j < dg[2]; j++) {
                int64_t y = 2 * i + at[1] - 1, z = 2 * j + at[2] - 1;
                if (y >= 0 && y < dx[1] && z >= 0 && z < dx[2]) {
                    double p =
                        (double)bf16_value(x, ((n * dx[1] + y) * dx[2] + z) * dx[3] + group * in + at[3]) *
                        (double)bf16_value(g, ((n * dg[1] + i) * dg[2] + j) * dg[3] + at[0]);
                    *sum += p;
                    *size += p < 0 ? -p : p;
                }
            }
        }
    }
}

static void weight_gradient(ls_museum *m, int64_t n, int64_t c, int64_t h, int64_t width, int64_t k,
                            int64_t stride_of_samples, bool verify) {
    const int64_t groups = 3;
    ls_session *s = m->session;
    ls_tensor *x = ls_museum_random_tensor(m, s, LS_BF16, LS_SHAPE(n, h, width, c), 23);
    ls_tensor *w = ls_museum_random_tensor(m, s, LS_BF16, LS_SHAPE(k, 3, 3, c / groups), 24), *gw = NULL;
    ls_tensor *g = ls_museum_random_tensor(m, s, LS_BF16, LS_SHAPE(n, h / 2, width / 2, k), 25);
    if (!x || !w || !g) {
        return;
    }
    ls_conv_spec spec = {
        .spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}, .groups = groups};
    spec.axes = layouts("NHWC", "OHWI", "NHWC");
    ls_tensor *y = ls_conv(s, x, w, NULL, &spec);
    if (!y || ls_grad(s, y, g, 1, &w, &gw) != LS_OK) {
        ls_museum_built(m, s, NULL);
        return;
    }
    if (verify) {
        ls_museum_verify(m, s, &gw, 1);
    }
    ls_data *got = ls_museum_read(m, s, gw), *dx = got ? ls_museum_read(m, s, x) : NULL,
            *dg = dx ? ls_museum_read(m, s, g) : NULL;
    double unit = (double)(n * h * width / 4 + 2) * 0x1p-24;
    for (int64_t e = 0; dg && e < ls_data_numel(got) && !ls_museum_over(m); e += stride_of_samples) {
        const int64_t *d = ls_data_dims(got);
        int64_t at[4] = {e / (d[1] * d[2] * d[3]), e / (d[2] * d[3]) % d[1], e / d[3] % d[2], e % d[3]};
        double sum, size, value = bf16_value(got, e);
        filter_gradient(dx, dg, at, groups, &sum, &size);
        double bound = size * unit / (1 - unit) + 0x1p-8 * (sum < 0 ? -sum : sum),
               gap = value > sum ? value - sum : sum - value;
        if (!(gap <= bound)) {
            ls_museum_fail(
                m, "%s: %s, filter gradient [%lld,%lld,%lld,%lld]: expected %.9g within %.3g, got %.9g",
                m->device->id, m->kernel, (long long)at[0], (long long)at[1], (long long)at[2],
                (long long)at[3], sum, bound, value);
        }
    }
    ls_data_release(got);
    ls_data_release(dx);
    ls_data_release(dg);
}

static void weight_gradients(ls_museum *m) {
    weight_gradient(m, 2, 6, 10, 6, 6, 1, true); /* every element, every kernel */
    if (!m->interprets) {
        weight_gradient(m, 16, 288, 48, 32, 288, 997, false);
    }
}

/* ---- 2d: the gradient in the input, three ways ---- */

static void input_gradient(ls_museum *m, int64_t groups, bool channels_last) {
    const int64_t in = 4, out = 6, h = 7, w = 6, k = 3;
    ls_session *s = m->session;
    ls_conv_spec spec = {
        .spatial = 2, .stride = {2, 1}, .pad_low = {1, 1}, .pad_high = {1, 1}, .groups = groups};
    int64_t oh = (h + 2 - k) / 2 + 1, ow = w + 2 - k + 1;
    ls_tensor *g = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(2, out, oh, ow), 26);
    ls_tensor *f = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(out, in / groups, k, k), 27);
    ls_tensor *x = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(2, in, h, w), 28), *by_grad = NULL;
    if (!g || !f || !x) {
        return;
    }
    /* by autodiff, perhaps of the convolution in another layout */
    ls_conv_spec forward = spec;
    ls_tensor *data = x, *seed = g;
    if (channels_last) {
        forward.axes = layouts("NHWC", "OIHW", "NHWC");
        data = ls_permute(s, x, (int[]){0, 2, 3, 1});
        seed = ls_permute(s, g, (int[]){0, 2, 3, 1});
    }
    ls_tensor *y = ls_conv(s, data, f, NULL, &forward);
    if (!y || ls_grad(s, y, seed, 1, &x, &by_grad) != LS_OK) {
        ls_museum_built(m, s, NULL);
        return;
    }
    /* as a transposed convolution */
    ls_conv_spec back = spec;
    back.output_padding[0] = h - ((oh - 1) * 2 - 2 + k);
    ls_tensor *transposed = ls_conv_transpose(s, g, f, NULL, &back);
    /* as a convolution with the filter turned round, over the gradient with zeros between its rows */
    ls_tensor *turned = ls_permute(s, ls_reshape(s, f, LS_SHAPE(groups, out / groups, in / groups, k, k)),
                                   (int[]){0, 2, 1, 3, 4});
    turned = ls_flip(s, ls_flip(s, ls_reshape(s, turned, LS_SHAPE(in, out / groups, k, k)), 2), 3);
    ls_tensor *spread = ls_pad_absent(
        s, g,
        (ls_pad_spec[]){{0, 0, 0}, {0, 0, 0}, {k - 2, k - 2 + back.output_padding[0], 1}, {k - 2, k - 2, 0}});
    ls_tensor *flipped = ls_conv(s, spread, turned, NULL, &(ls_conv_spec){.spatial = 2, .groups = groups});
    ls_tensor *all[3] = {by_grad, transposed, flipped};
    ls_museum_verify(m, s, all, 3); /* each inside its bound */
    ls_data *a = ls_museum_read(m, s, by_grad), *b = ls_museum_read(m, s, transposed),
            *c = ls_museum_read(m, s, flipped);
    ls_museum_same(m, "by autodiff against a transposed convolution", a, b);
    const float *p = a ? ls_data_bytes(a) : NULL, *q = c ? ls_data_bytes(c) : NULL;
    for (int64_t i = 0; p && q && i < ls_data_numel(a);
         i++) { /* terms below 1, fewer than 64 of them: 64 * 64 * 2^-24 each */
        float gap = p[i] - q[i];
        if (!(gap < 0x1p-11f && gap > -0x1p-11f)) {
            ls_museum_fail(m, "%s: flipped convolution, element %lld: expected about %.9g, got %.9g",
                           m->device->id, (long long)i, (double)p[i], (double)q[i]);
        }
    }
    ls_data_release(a);
    ls_data_release(b);
    ls_data_release(c);
}

static void input_gradients(ls_museum *m) {
    for (int which = 0; which < 4; which++) {
        input_gradient(m, which & 1 ? 2 : 1, which & 2);
    }
}

const ls_museum_case_row ls_museum_conv_cases[] = {
    {"2-filter-layout", "IREE #20473: im2col ignored that the filter's axes were transposed", filter_layout},
    {"2a-filter-orders", "the 6 orders of a 1-D filter's axes and the 24 of a 2-D one all say the same",
     orders},
    {"2b-weight-gradient", "IREE #23786: a bf16 filter gradient with stride 2 and 3 groups was wrong",
     weight_gradients},
    {"2c-padded", "the same with padding: axes were permuted after it instead of before", padded},
    {"2d-input-gradient", "an input gradient as autodiff, as a transposed convolution and as a flipped one",
     input_gradients},
    {NULL, NULL, NULL},
};
