/* The museum, fourth hall: two handles of one device, and im2col that ran out of its range. */
#include "verify/museum.h"
#include <string.h>

/* ---- 3: what is one device ---- */

static void one_device(ls_museum *m) {
    static const float a[3] = {-355.3564f, -477.5577f, -623.6874f},
                       b[3] = {-2879.0269f, 3433.1504f, -3975.5510f},
                       want[3] = {-3234.3833f, 2955.5928f, -4599.2383f};
    ls_device *again = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_device_open(m->context, m->device->id, &again, &err) != LS_OK || again != m->device) {
        ls_museum_fail(m, "%s: opened a second time it is another device%s%s", m->device->id,
                       err.message[0] ? ": " : "", err.message);
        return;
    }
    ls_session *s = m->session;
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(3), a),
              *y = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(3), b);
    if (x && y) {
        y = ls_to_device(s, y, again); /* where it is */
        ls_museum_literal(m, s, ls_add(s, x, y), want, 3, 0.0003);
    }
}

static void two_devices(ls_museum *m) {
    static const float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, want[3] = {11, 22, 33};
    ls_device *other = NULL;
    ls_error err = {.code = LS_OK};
    ls_session *s = m->session;
    if (ls_device_open(m->context, m->interprets ? "cpu" : "ref", &other, &err) != LS_OK) {
        ls_museum_skip(m, "the second device cannot be opened: %s", err.message);
        return;
    }
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(3), a),
              *y = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(3), b);
    ls_tensor *there = y ? ls_to_device(s, y, other) : NULL;
    if (!there) {
        ls_museum_built(m, s, NULL);
        return;
    }
    const ls_error *e = ls_session_error(s);
    if (ls_add(s, x, there) || e->code != LS_ERR_DEVICE || !strstr(e->message, m->device->id) ||
        !strstr(e->message, other->id)) {
        ls_museum_fail(m, "%s and %s: their sum gave \"%s\", expected an error that names both",
                       m->device->id, other->id, e->message);
        return;
    }
    ls_session_clear_error(s);
    ls_museum_literal(m, s, ls_add(s, x, ls_to_device(s, there, m->device)), want, 3, 0);
}

/* ---- 4a to 4e: im2col against its definition in plain loops; movement has one answer in any arithmetic ----
 */

typedef struct columns {
    ls_dtype dtype, result; /* the result may be cast */
    int64_t n, c, size[2], kernel[2];
    ls_conv_spec spec;
    bool verify; /* every kernel against the references too: small ones */
} columns;

static int64_t positions(const columns *p, int i) {
    return (p->size[i] + p->spec.pad_low[i] + p->spec.pad_high[i] - (p->kernel[i] - 1) * p->spec.dilation[i] -
            1) /
               p->spec.stride[i] +
           1;
}

/* The element of x at a row (channel, tap) and position, -1 in the padding. */
static int64_t source(const columns *p, int64_t image, int64_t row, int64_t position) {
    int64_t taps = p->kernel[0] * p->kernel[1], tap = row % taps, wide = positions(p, 1);
    int64_t i =
        position / wide * p->spec.stride[0] + tap / p->kernel[1] * p->spec.dilation[0] - p->spec.pad_low[0];
    int64_t j =
        position % wide * p->spec.stride[1] + tap % p->kernel[1] * p->spec.dilation[1] - p->spec.pad_low[1];
    bool inside = i >= 0 && i < p->size[0] && j >= 0 && j < p->size[1];
    return inside ? ((image * p->c + row / taps) * p->size[0] + i) * p->size[1] + j : -1;
}

static void compare_columns(ls_museum *m, const columns *p, const ls_data *x, const ls_data *got) {
    int64_t rows = p->c * p->kernel[0] * p->kernel[1], at = positions(p, 0) * positions(p, 1);
    size_t size = ls_dtype_size(p->result);
    char *want = ls_arena_alloc(&m->arena, ls_data_size(got) + 1);
    ls_data *expected = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_data_numel(got) != p->n * rows * at) {
        ls_museum_fail(m, "%s: im2col has %lld elements, expected %lld images of [%lld,%lld]", m->device->id,
                       (long long)ls_data_numel(got), (long long)p->n, (long long)rows, (long long)at);
        return;
    }
    for (int64_t i = 0; want && i < p->n * rows * at; i++) {
        int64_t from = source(p, i / (rows * at), i / at % rows, i % at);
        if (from >= 0) { /* the arena's memory is zero */
            memcpy(want + (size_t)i * size, (const char *)ls_data_bytes(x) + (size_t)from * size, size);
        }
    }
    if (!want || ls_data_create(m->context, p->result, ls_data_rank(got), ls_data_dims(got), want, &expected,
                                &err) != LS_OK) {
        ls_museum_fail(m, "out of memory for the values of a case");
    }
    ls_museum_equal(m, "im2col against its definition", expected, got);
    ls_data_release(expected);
}

static void im2col(ls_museum *m, columns p) {
    ls_session *s = ls_museum_over(m) ? NULL : ls_museum_session(m, m->device, 1);
    if (!s) {
        return;
    }
    bool flat = p.spec.spatial == 1; /* along size[1]: the other axis is 1 */
    for (int i = 0; i < 2; i++) {
        p.spec.stride[i] = p.spec.stride[i] ? p.spec.stride[i] : 1;
        p.spec.dilation[i] = p.spec.dilation[i] ? p.spec.dilation[i] : 1;
    }
    ls_conv_spec spec = p.spec;
    if (flat) {
        spec.stride[0] = p.spec.stride[1], spec.dilation[0] = p.spec.dilation[1];
        spec.pad_low[0] = p.spec.pad_low[1], spec.pad_high[0] = p.spec.pad_high[1];
        spec.stride[1] = spec.dilation[1] = spec.pad_low[1] = spec.pad_high[1] = 0;
    }
    ls_shape shape = flat ? LS_SHAPE(p.n, p.c, p.size[1]) : LS_SHAPE(p.n, p.c, p.size[0], p.size[1]);
    ls_tensor *x = ls_museum_random_tensor(m, s, p.dtype, shape, 31);
    ls_tensor *y = x ? ls_im2col(s, x, flat ? p.kernel + 1 : p.kernel, &spec) : NULL, *rounded = x;
    if (y && p.result != p.dtype) {
        y = ls_cast(s, y, p.result);
        rounded = ls_cast(s, x, p.result);
    }
    if (p.verify) {
        ls_museum_verify(m, s, &y, 1);
    }
    ls_data *got = ls_museum_read(m, s, y), *from = NULL;
    char ran[sizeof m->kernel];
    memcpy(ran, m->kernel, sizeof ran);
    from = ls_museum_read(m, s, rounded);
    memcpy(m->kernel, ran, sizeof ran);
    if (got && from) {
        compare_columns(m, &p, from, got);
    }
    ls_data_release(got);
    ls_data_release(from);
    ls_session_destroy(s);
}

static void plane(ls_museum *m) {
    for (int i = 0; i < 3; i++) {
        im2col(m, (columns){i == 2 ? LS_F16 : LS_F32,
                            i ? LS_F16 : LS_F32,
                            1,
                            3,
                            {10, 10},
                            {3, 3},
                            {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}},
                            true});
    }
}
static void line(ls_museum *m) {
    for (int i = 0; i < 2; i++) {
        im2col(m, (columns){LS_F32, i ? LS_F16 : LS_F32, 1, 128, {1, 3000}, {1, 3}, {.spatial = 1}, false});
        im2col(m, (columns){i ? LS_F16 : LS_F32,
                            i ? LS_F16 : LS_F32,
                            1,
                            4,
                            {1, 3000},
                            {1, 3},
                            {.spatial = 1, .pad_low = {0, 1}, .pad_high = {0, 1}},
                            true});
        im2col(
            m,
            (columns){
                i ? LS_F16 : LS_F32, i ? LS_F16 : LS_F32, 1, 128, {1, 3002}, {1, 3}, {.spatial = 1}, false});
    }
}
static void reported(ls_museum *m) {
    im2col(m, (columns){LS_F32,
                        LS_F16,
                        m->interprets ? 16 : 512,
                        1,
                        {1, 187},
                        {1, 11},
                        {.spatial = 1, .pad_low = {0, 5}, .pad_high = {0, 5}},
                        false});
    im2col(m, (columns){LS_F32,
                        LS_F16,
                        2,
                        1,
                        {1, 187},
                        {1, 11},
                        {.spatial = 1, .pad_low = {0, 5}, .pad_high = {0, 5}},
                        true});
}
static void wide(ls_museum *m) {
    im2col(m, (columns){LS_F32,
                        LS_F32,
                        1,
                        m->interprets ? 16 : 1280,
                        {1, 3000},
                        {1, 3},
                        {.spatial = 1, .pad_low = {0, 1}, .pad_high = {0, 1}},
                        false});
}

static void asymmetric(ls_museum *m) {
    ls_conv_spec spec = {
        .spatial = 2, .stride = {2, 1}, .pad_low = {1, 0}, .pad_high = {2, 3}, .dilation = {1, 2}};
    im2col(m, (columns){LS_F32, LS_F32, 2, 2, {7, 9}, {3, 2}, spec, true});
    im2col(m, (columns){LS_F16, LS_F16, 2, 2, {7, 9}, {3, 2}, spec, true});
    ls_session *s = m->session;
    ls_tensor *x = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(2, 2, 7, 9), 32);
    ls_tensor *w = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(3, 2, 3, 2), 33),
              *y = x && w ? ls_conv(s, x, w, NULL, &spec) : NULL;
    ls_museum_verify(m, s, &y, 1);
    /* f16: 65504 is the largest; 65520 is half way to the next, and goes to infinity, as what is above it. */
    static const float big[4] = {32752, 32760, 60000, -60000}, two[1] = {2};
    const float infinity = __builtin_inff(), want[4] = {65504, infinity, infinity, -infinity};
    ls_tensor *past = ls_museum_tensor(m, s, LS_F16, LS_SHAPE(1, 1, 2, 2), big),
              *f = ls_museum_tensor(m, s, LS_F16, LS_SHAPE(1, 1, 1, 1), two);
    if (past && f) {
        ls_museum_literal(m, s, ls_conv(s, past, f, NULL, &(ls_conv_spec){.spatial = 2}), want, 4, 0);
    }
}

/* ---- 4f: kernels and strides of ggml's tests ---- */

static void transposed_line(ls_museum *m) {
    static const struct {
        int64_t in, size, out, kernel, stride;
    } rows[] = {{2, 3, 3, 2, 3}, {2, 3, 3, 2, 2}, {2, 3, 3, 2, 1}, {2, 3, 2, 3, 2},
                {2, 3, 2, 3, 1}, {2, 3, 1, 3, 1}, {1, 2, 1, 3, 1}, {32, 197, 32, 16, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows - (m->interprets ? 1 : 0); i++) {
        ls_session *s = m->session;
        ls_tensor *x = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(1, rows[i].in, rows[i].size), 34);
        ls_tensor *w =
            ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(rows[i].in, rows[i].out, rows[i].kernel), 35);
        ls_conv_spec spec = {.spatial = 1, .stride = {rows[i].stride}};
        ls_tensor *y = x && w ? ls_conv_transpose(s, x, w, NULL, &spec) : NULL;
        ls_museum_verify(m, s, &y, 1);
    }
}

/* ---- 4g: parameters that mean nothing ---- */

static void refused(ls_museum *m, const char *word, const char *value, ls_conv_spec spec, ls_shape filter) {
    ls_session *s = m->session;
    ls_tensor *x = ls_full(s, LS_F32, LS_SHAPE(1, 4, 5, 5), 1);
    bool accept = m->fault && strcmp(m->fault->name, "bad-parameters-accepted") == 0;
    ls_conv_spec plain = {.spatial = 2}; /* what a runtime computes that takes any parameter as the default */
    ls_tensor *y = ls_conv(s, x, ls_full(s, LS_F32, accept ? LS_SHAPE(6, 4, 3, 3) : filter, 1), NULL,
                           accept ? &plain : &spec);
    const char *said = ls_session_error(s)->message;
    if (y || !strstr(said, word) || !strstr(said, value)) {
        ls_museum_fail(m, "%s: conv with %s %s gave \"%s\", expected an error that names both", m->device->id,
                       word, value, y ? "a result" : said);
    }
    ls_session_clear_error(s);
}

static void bad_parameters(ls_museum *m) {
    ls_shape filter = LS_SHAPE(6, 4, 3, 3);
    refused(m, "stride", "-1", (ls_conv_spec){.spatial = 2, .stride = {-1, 1}}, filter);
    refused(m, "dilation", "-2", (ls_conv_spec){.spatial = 2, .dilation = {1, -2}}, filter);
    refused(m, "kernel", "7", (ls_conv_spec){.spatial = 2}, LS_SHAPE(6, 4, 7, 3));
    refused(m, "groups", "3", (ls_conv_spec){.spatial = 2, .groups = 3}, filter);
    refused(m, "groups", "-1", (ls_conv_spec){.spatial = 2, .groups = -1}, filter);
    ls_session *s = m->session;
    ls_window_spec still = {3, 0, 1};
    int axis = 0;
    if (!ls_museum_over(m) &&
        (ls_window(s, ls_full(s, LS_F32, LS_SHAPE(5), 1), 1, &axis, &still) ||
         !strstr(ls_session_error(s)->message, "stride") || !strstr(ls_session_error(s)->message, "0"))) {
        ls_museum_fail(m, "window with stride 0 gave \"%s\", expected an error that names both",
                       ls_session_error(s)->message);
    }
    ls_session_clear_error(s);
}

const ls_museum_case_row ls_museum_im2col_cases[] = {
    {"3-one-device",
     "Candle #1914: of two tensors from two openings of one GPU the second was dropped from their sum",
     one_device},
    {"3-two-devices", "operands of two devices: an error that names both, until one is copied explicitly",
     two_devices},
    {"4a-im2col-plane", "ggml: im2col of 10x10x3 with a 3x3 kernel, f32 and f16, ran out of its range",
     plane},
    {"4b-im2col-line", "ggml #931: im2col of [3000,128] gave outliers, NaN and a tail of zeros", line},
    {"4c-im2col-reported", "ggml #931: [187,1,512] with a kernel of 11 into f16, as reported", reported},
    {"4d-im2col-wide",
     "llama.cpp #23986: [3000,1280]: a kernel was picked by one predicate, its geometry by another", wide},
    {"4e-asymmetric", "stride 2x1, padding (1,0) and (2,3), dilation 1x2; f16 past 65504", asymmetric},
    {"4f-conv-transpose-1d", "ggml: a transposed convolution that ended in an abort", transposed_line},
    {"4g-bad-parameters",
     "stride 0, negative dilation, a kernel larger than its input, groups that do not divide",
     bad_parameters},
    {NULL, NULL, NULL},
};
