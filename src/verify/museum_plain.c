/* The museum, last hall: no failure of anybody's, but one kernel of each kind, so that a device that cannot
 * pool or sort is found out by the same command. */
#include "verify/museum.h"
#include <lockstep/quant.h>

static void check(ls_museum *m, ls_tensor *t) {
    ls_museum_verify(m, m->session, &t, 1);
}
static ls_tensor *values(ls_museum *m, ls_dtype dtype, int64_t rows, int64_t columns) {
    return ls_museum_random_tensor(m, m->session, dtype, LS_SHAPE(rows, columns), (uint64_t)(41 + dtype));
}
static bool has_f64(const ls_museum *m) {
    return m->device->caps.dtypes >> LS_F64 & 1;
}
static void pointwise(ls_museum *m) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    for (int i = 0; i < (has_f64(m) ? 4 : 3); i++) {
        ls_tensor *x = values(m, dtypes[i], 13, 37);
        check(m, x ? ls_gelu(m->session, ls_mul(m->session, x, ls_sin(m->session, x))) : NULL);
    }
}
static void integers(ls_museum *m) {
    ls_session *s = m->session;
    ls_tensor *x = values(m, LS_F32, 9, 17),
              *i = x ? ls_cast(s, ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, 1000)), LS_I32) : NULL;
    check(m, i ? ls_rem(s, ls_mul(s, i, i), ls_full_i64(s, LS_I32, LS_SCALAR, 77)) : NULL);
}
static void softmax(ls_museum *m) {
    ls_tensor *x = values(m, LS_F32, 5, 4099);
    check(m, x ? ls_softmax(m->session, x, 1) : NULL);
}
/* Also over whole numbers, whose sums are exact in any order: a bound for 4099 terms hides one that is left
 * out. */
static void columns(ls_museum *m) {
    int axis = 0;
    ls_session *s = m->session;
    ls_tensor *x = values(m, LS_F32, 4099, 5);
    float *whole = ls_museum_random(m, 4099 * 5, 54), want[5] = {0};
    for (int i = 0; whole && i < 4099 * 5; i++) {
        whole[i] = (float)(int)(whole[i] * 64 + 100);
        want[i % 5] += whole[i];
    }
    ls_tensor *y = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(4099, 5), whole);
    if (x && y) {
        check(m, ls_sum(s, x, 1, &axis, 0));
        ls_museum_literal(m, s, ls_sum(s, y, 1, &axis, 0), want, 5, 0);
    }
}
static void norm(ls_museum *m) {
    ls_tensor *x = values(m, LS_F16, 7, 129);
    check(m, x ? ls_layer_norm(m->session, x, 1, NULL, NULL, 1e-5) : NULL);
}
static void contract(ls_museum *m) {
    ls_session *s = m->session;
    ls_tensor *x = values(m, LS_F32, 37, 515), *y = values(m, has_f64(m) ? LS_F64 : LS_F16, 515, 19);
    check(m, x && y ? ls_relu(s, ls_matmul(s, x, ls_cast(s, y, LS_F32))) : NULL);
}
static void attention(ls_museum *m) {
    ls_session *s = m->session;
    ls_tensor *q = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(1, 4, 9, 8), 51),
              *k = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(1, 2, 9, 8), 52);
    check(m, q && k ? ls_attention(s, q, k, k, &(ls_attention_spec){.causal = 1}) : NULL);
}
static void pool(ls_museum *m) {
    ls_session *s = m->session;
    ls_tensor *x = ls_museum_random_tensor(m, s, LS_F32, LS_SHAPE(2, 3, 9, 9), 53);
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}};
    check(m, x ? ls_max_pool(s, x, (int64_t[]){3, 3}, &spec) : NULL);
    check(m, x ? ls_avg_pool(s, x, (int64_t[]){3, 3}, &spec, 0) : NULL);
}
static void scan(ls_museum *m) {
    ls_tensor *x = values(m, LS_F32, 3, 1100);
    check(m, x ? ls_scan(m->session, x, LS_SCAN_SUM, 1, 0, 0) : NULL);
}
static void sort(ls_museum *m) {
    ls_tensor *x = values(m, LS_F32, 4, 131);
    check(m, x ? ls_sort(m->session, x, 1, 1) : NULL);
}
static void indexed(ls_museum *m) {
    static const int32_t rows[5] = {3, 0, 6, 3, 1};
    ls_session *s = m->session;
    ls_tensor *x = values(m, LS_F32, 7, 11), *at = ls_tensor_from(s, LS_I32, LS_SHAPE(5), rows),
              *y = x ? ls_gather(s, x, at, 0) : NULL;
    check(m, y);
    check(m, y ? ls_scatter(s, x, at, y, 0, LS_SCATTER_ADD) : NULL);
}
static void movement(ls_museum *m) {
    ls_session *s = m->session;
    ls_tensor *x = values(m, LS_F32, 6, 10), *t = x ? ls_transpose(s, x, 0, 1) : NULL;
    if (t) {
        ls_tensor *parts[2] = {ls_flip(s, t, 0), ls_slice(s, t, (ls_slice_spec[]){{9, -1, -3}, {0, 6, 1}})};
        check(m, ls_concat(s, parts, 2, 0));
        check(m, ls_pad(s, t, (ls_pad_spec[]){{1, 0, 1}, {0, 2, 0}}, 2.5));
    }
}
static void random_bits(ls_museum *m) {
    ls_session *s = m->session;
    ls_tensor *key = ls_random_key(s, 7);
    check(m, key ? ls_random_bits(s, key, LS_SHAPE(33)) : NULL);
}

/* Weights in blocks of 32, codes of 4 and 8 bits: numbers such that every product is whole, and so any order of them right. */
static void quantised(ls_museum *m) {
    enum { ROWS = 3, COLUMNS = 19, K = 96 };
    ls_session *s = m->session;
    float x[ROWS * K], w[COLUMNS * K], want[ROWS * COLUMNS] = {0};
    uint8_t bytes[COLUMNS * K / 32 * 34];
    for (int i = 0; i < ROWS * K; i++) {
        x[i] = i % 32 == 9 ? 127 : (float)(i * 29 % 253 - 126);
    }
    for (int kind = LS_Q4_0; kind <= LS_Q8_0; kind++) {
        for (int i = 0; i < COLUMNS * K; i++) {
            w[i] = i % 32 == 5 ? (kind == LS_Q4_0 ? -8 : 127) : (float)(i * 11 % 15 - 7);
        }
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            want[i] = 0;
            for (int k = 0; k < K; k++) {
                want[i] += x[i / COLUMNS * K + k] * w[i % COLUMNS * K + k];
            }
        }
        int64_t row = ls_quant_bytes((ls_quant)kind, K);
        ls_error err = {.code = LS_OK};
        if (ls_quantize((ls_quant)kind, COLUMNS, K, w, bytes, &err) != LS_OK) {
            ls_museum_fail(m, "%s", err.message);
            return;
        }
        ls_tensor *weights = ls_tensor_from(s, LS_U8, LS_SHAPE(COLUMNS, row), bytes);
        ls_tensor *y = ls_linear_q(s, ls_tensor_from(s, LS_F32, LS_SHAPE(ROWS, K), x), weights, (ls_quant)kind, NULL);
        check(m, y);
        ls_museum_literal(m, s, y, want, ROWS * COLUMNS, 0);
    }
}

const ls_museum_case_row ls_museum_plain_cases[] = {
    {"row-pointwise", "gelu(x sin x) in f32, f16, bf16 and f64", pointwise},
    {"row-integers", "products that wrap, and remainders", integers},
    {"row-softmax", "rows longer than a block of 4096", softmax},
    {"row-columns", "sums down columns longer than a block", columns},
    {"row-norm", "layer norm of f16", norm},
    {"row-contract", "a product whose depth passes a chunk of 512, and a ReLU", contract},
    {"row-attention", "causal attention with grouped heads", attention},
    {"row-pool", "max and average pooling with padding", pool},
    {"row-scan", "running sums over blocks of 512", scan},
    {"row-sort", "a descending sort", sort},
    {"row-indexed", "gather, and scatter that adds into one place twice", indexed},
    {"row-movement", "transposed, flipped, sliced, joined, padded", movement},
    {"row-random", "random bits", random_bits},
    {"row-quantised", "products with weights of 4 and 8 bits", quantised},
    {NULL, NULL, NULL},
};
