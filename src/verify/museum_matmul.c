/* The museum, first hall: matrix products that came back as zeros, with corrupt tails, or the same for every
 * input. */
#include "verify/museum.h"
#include <string.h>

static void matmul(ls_museum *m, ls_dtype dtype, int64_t rows, int64_t columns, int64_t depth) {
    ls_session *s = m->session;
    ls_tensor *a = ls_museum_random_tensor(m, s, dtype, LS_SHAPE(rows, depth), 1);
    ls_tensor *b = ls_museum_random_tensor(m, s, dtype, LS_SHAPE(depth, columns), 2);
    ls_tensor *c = a && b ? ls_matmul(s, a, b) : NULL;
    ls_museum_verify(m, s, &c, 1);
}

static void fc1(ls_museum *m) {
    ls_session *s = m->session, *naive = ls_museum_session(m, m->device, 1);
    float *x = ls_museum_random(m, 1600, 3), *w = ls_museum_random(m, 1600 * 128, 4);
    if (naive && x && w) {
        ls_tensor *c = ls_matmul(s, ls_museum_tensor(m, s, LS_F32, LS_SHAPE(1, 1600), x),
                                 ls_museum_tensor(m, s, LS_F32, LS_SHAPE(1600, 128), w));
        ls_museum_verify(m, s, &c, 1);
        ls_data *tiled = ls_museum_read(m, s, c), *plain = NULL;
        ls_tensor *d = ls_matmul(naive, ls_museum_tensor(m, naive, LS_F32, LS_SHAPE(1, 1600), x),
                                 ls_museum_tensor(m, naive, LS_F32, LS_SHAPE(1600, 128), w));
        if (!m->interprets &&
            ls_session_set_strategy(naive, "contract", "naive") != LS_OK) { /* ref has one way only */
            ls_museum_fail(m, "%s", ls_session_error(naive)->message);
        }
        plain = ls_museum_read(m, naive, d);
        ls_museum_same(m, "the device's own choice against its naive strategy", plain, tiled);
        ls_data_release(tiled);
        ls_data_release(plain);
    }
    if (naive) {
        ls_session_destroy(naive);
    }
}

/* sin(x) for x in [0, 6.4e6) by a rotation kept in float64: only the same inputs on every run are asked for.
 */
static float *sines(ls_museum *m, int64_t n, double step) {
    float *x = ls_museum_floats(m, n);
    double t = step * step, sine = step * (1 - t / 6 * (1 - t / 20)),
           cosine = 1 - t / 2 * (1 - t / 12 * (1 - t / 30)), re = 1, im = 0;
    for (int64_t i = 0; x && i < n; i++) {
        x[i] = (float)im;
        double next = re * cosine - im * sine;
        im = re * sine + im * cosine;
        re = next;
    }
    return x;
}

static void attention_values(ls_museum *m) {
    ls_session *s = m->session;
    int64_t heads = m->interprets ? 1 : 8;
    float *a = sines(m, heads * 512 * 512, 0.001), *b = sines(m, heads * 512 * 32, 0.003);
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(1, heads, 512, 512), a);
    ls_tensor *y = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(1, heads, 512, 32), b);
    ls_museum_product(m, x && y ? ls_matmul(s, x, y) : NULL, a, b, heads, 512, 512, 32);
}

static ls_tensor *tail(ls_museum *m, ls_session *s, const float *a, const float *b, int64_t rows, int64_t depth, int64_t columns) {
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(rows, depth), a),
              *y = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(depth, columns), b);
    return x && y ? ls_matmul(s, x, y) : NULL;
}

static void tails(ls_museum *m) {
    static const int64_t rows[] = {35, 64, 128, 535, 1024};
    bool late = m->device->late; /* it computes all again with each attempt */
    int64_t n = m->interprets ? 64 : late ? 128 : 1024; /* columns; the smaller depth still passes a chunk */
    int64_t depth = m->interprets || late ? 544 : 1024;
    float *b = ls_museum_random(m, depth * n, 6), *a = ls_museum_random(m, 1024 * depth, 5);
    int count = m->interprets ? 2 : 5;
    ls_session *early = late && a && b ? ls_museum_session(m, m->device, 1) : NULL; /* asks for all before the slow comparisons */
    for (int i = 0; early && i < count && !ls_museum_over(m); i++) {
        ls_data_release(ls_museum_read(m, early, tail(m, early, a, b, rows[i], depth, n)));
    }
    ls_session_destroy(early);
    for (int i = 0; i < count && !ls_museum_over(m); i++) {
        ls_museum_product(m, tail(m, m->session, a, b, rows[i], depth, n), a, b, 1, rows[i], depth, n);
    }
}

static void ones(ls_museum *m) {
    ls_session *s = m->session;
    int64_t rows = m->interprets ? 128 : 1024;
    float *one = ls_museum_floats(m, rows * 64), *eight = ls_museum_floats(m, rows * 64);
    for (int64_t i = 0; one && eight && i < rows * 64; i++) {
        one[i] = 1;
        eight[i] = 8;
    }
    ls_tensor *a = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(rows, 8), one),
              *b = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(64, 8), one);
    if (a && b && eight) {
        ls_museum_literal(m, s, ls_matmul(s, a, ls_transpose(s, b, 0, 1)), eight, rows * 64, 0);
    }
}

static void thin(ls_museum *m) {
    matmul(m, LS_F32, 382, 10, 1);
    matmul(m, LS_F32, 382, 10, 3);
    matmul(m, LS_F32, m->interprets ? 512 : 4096, 14, 5);
    matmul(m, LS_F16, 382, 10, 3);
    matmul(m, LS_BF16, 382, 10, 3);
}

static void shared_memory(ls_museum *m) {
    if (m->device->caps.shared_bytes == 0) {
        ls_museum_skip(m, "%s has no shared memory of workgroups that a kernel could ask too much of",
                       m->device->id);
        return;
    }
    matmul(m, LS_F32, 512, 512, 512);
}

/* Ten digits as a seven-segment display draws them, 28 x 28. */
static float *digits(ls_museum *m) {
    static const unsigned char lit[10] = {0x77, 0x24, 0x5d, 0x6d, 0x2e, 0x6b, 0x7b, 0x25, 0x7f, 0x6f};
    static const struct {
        int top, left, height, width;
    } segments[7] = {{3, 8, 3, 12}, {4, 6, 9, 3},   {4, 19, 9, 3}, {12, 8, 3, 12},
                     {14, 6, 9, 3}, {14, 19, 9, 3}, {22, 8, 3, 12}};
    float *x = ls_museum_floats(m, 10 * 28 * 28);
    if (x) {
        memset(x, 0, sizeof *x * 10 * 28 * 28);
    }
    for (int d = 0; x && d < 10; d++) {
        for (int g = 0; g < 7; g++) {
            for (int i = 0; lit[d] >> g & 1 && i < segments[g].height * segments[g].width; i++) {
                x[(d * 28 + segments[g].top + i / segments[g].width) * 28 + segments[g].left +
                  i % segments[g].width] = 1;
            }
        }
    }
    return x;
}

static void ten_digits(ls_museum *m) {
    ls_session *s = m->session;
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(10, 1, 28, 28), digits(m));
    ls_tensor *w = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(4, 1, 3, 3), 7);
    ls_tensor *fc = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(10, 4 * 13 * 13), 8);
    if (!x || !w || !fc) {
        return;
    }
    ls_tensor *h = ls_relu(s, ls_conv(s, x, w, NULL, &(ls_conv_spec){.spatial = 2}));
    h = ls_max_pool(s, h, (int64_t[]){2, 2}, &(ls_conv_spec){.spatial = 2, .stride = {2, 2}});
    ls_tensor *scores = ls_linear(s, ls_reshape(s, h, LS_SHAPE(10, 4 * 13 * 13)), fc, NULL);
    ls_museum_verify(m, s, &scores, 1);
    ls_data *rows = ls_museum_read(m, s, scores);
    const char *bytes = rows ? ls_data_bytes(rows) : NULL;
    for (int i = 0; rows && i < 10; i++) {
        for (int j = 0; j < i; j++) {
            if (memcmp(bytes + i * 40, bytes + j * 40, 40) == 0) {
                ls_museum_fail(m, "%s: digits %d and %d have the same scores", m->device->id, j, i);
            }
        }
    }
    ls_data_release(rows);
}

const ls_museum_case_row ls_museum_matmul_cases[] = {
    {"0-fc1-zeros", "Burn on WebGPU: a tiled matrix product of [1,1600] and [1600,128] came back as zeros",
     fc1},
    {"0a-attention-zeros",
     "Burn #4907: a batched product of [1,8,512,512] and [1,8,512,32] came back as zeros", attention_values},
    {"0b-tail-rows", "Burn #4966: rows past the last whole tile came back near zero", tails},
    {"0b-ones",
     "cubek #645: ones [1024,8] by ones [64,8] transposed gives 8 everywhere; rows 4 to 7 of a tile were "
     "corrupt",
     ones},
    {"0b-thin", "cubek: [382,10,1], [382,10,3] and [4096,14,5] on matrix units", thin},
    {"0c-shared-memory", "cubecl #788: a kernel asked for more shared memory than the device has",
     shared_memory},
    {"0d-ten-digits", "a page for handwritten digits gave every digit the same scores", ten_digits},
    {NULL, NULL, NULL},
};
