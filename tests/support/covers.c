#include "support/covers.h"
#include <stdio.h>
#include <stdlib.h>

/* -4 to 4, in memory. */
static ls_tensor *numbers(ls_session *s, ls_dtype dtype, ls_shape shape, int seed) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        data[i] = (float)((uint32_t)(i * 7 + seed * 13 + i / 11) % 9) - 4;
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, shape, data);
    free(data);
    t = ls_cast(s, t, dtype);
    return t && ls_realize(s, &t, 1) == LS_OK ? t : NULL;
}
#define X(...) numbers(s, LS_F32, LS_SHAPE(__VA_ARGS__), 1)
#define Y(...) numbers(s, LS_F32, LS_SHAPE(__VA_ARGS__), 2)

static ls_tensor *scatter(ls_session *s, int rows, int columns, int updates) {
    static const int32_t index[6] = {1, 4, 1, 1, 0, 4};
    ls_shape base = columns ? LS_SHAPE(rows, columns) : LS_SHAPE(rows);
    ls_shape shape = columns ? LS_SHAPE(updates, columns) : LS_SHAPE(updates);
    return ls_scatter(s, numbers(s, LS_F32, base, 1), ls_tensor_from(s, LS_I32, LS_SHAPE(updates), index),
                      numbers(s, LS_F32, shape, 2), 0, LS_SCATTER_ADD);
}

/* Rows of a convolution whose padding is absent. */
static ls_tensor *padded_product(ls_session *s) {
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    return ls_conv(s, X(1, 8, 9, 9), Y(60, 8, 3, 3), NULL, &spec);
}

/* Each query sees one key: its weight is 1, and the result its value. */
static ls_tensor *attention(ls_session *s) {
    ls_shape square = LS_SHAPE(40, 40);
    ls_tensor *row = ls_iota(s, LS_I32, square, 0), *column = ls_iota(s, LS_I32, square, 1);
    ls_attention_spec spec = {.mask = ls_eq(s, row, column)};
    if (ls_session_math(s) != LS_LOCKED && ls_session_set_strategy(s, "attention", "fused") != LS_OK) {
        return NULL;
    }
    ls_tensor *q = X(2, 4, 40, 20), *k = Y(2, 2, 40, 20), *v = Y(2, 2, 40, 12);
    return ls_attention(s, q, k, v, &spec);
}

static ls_status step(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs,
                      ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration, (void)out_ys;
    out_carry[0] = ls_add(s, carry[0], xs[0]);
    return LS_OK;
}

/* Slices of twelve bytes. */
static ls_tensor *odd_slices(ls_session *s) {
    ls_tensor *xs = X(5, 3), *carry = Y(3), *out = NULL;
    return ls_loop(s, ls_dim_of(5), 1, &carry, 1, &xs, 0, step, NULL, &out, NULL) == LS_OK ? out : NULL;
}

/* A variable that is read and written where it is. */
static ls_tensor *in_place(ls_session *s) {
    ls_var *var = ls_var_create(s, "v", LS_F32, LS_SHAPE(40), NULL);
    for (int i = 0; i < 2 && var; i++) {
        if (ls_var_assign(s, var, ls_add(s, ls_var_value(s, var), X(40))) != LS_OK || ls_realize(s, NULL, 0) != LS_OK) {
            return NULL;
        }
    }
    return var ? ls_neg(s, ls_var_value(s, var)) : NULL;
}

/* As many as no portable device binds. */
static ls_tensor *many_buffers(ls_session *s) {
    enum { BUFFERS = 70 };
    ls_tensor *sum = NULL;
    for (int i = 0; i < BUFFERS; i++) {
        ls_tensor *x = numbers(s, LS_F32, LS_SHAPE(5), i);
        sum = sum ? ls_add(s, ls_max(s, sum, x), x) : x;
    }
    return sum;
}

ls_tensor *covers_build(ls_session *s, ls_cover cover, ls_dtype half) {
    static const int one[] = {1};
    switch (cover) {
    case LS_COVER_POINT: return ls_add(s, X(307), Y(307));
    case LS_COVER_QUAD_AXIS: return ls_add(s, X(69, 16), Y(1, 16));
    case LS_COVER_QUAD_LINE: return ls_mul(s, X(212, 7), Y(212, 7));
    case LS_COVER_TURNED: return ls_neg(s, ls_transpose(s, X(128, 96), 0, 1));
    case LS_COVER_ROW_WORKGROUP: return ls_argmax(s, X(5, 300), 1, one, 0);
    case LS_COVER_ROW_REGISTERS: return ls_sub(s, X(5, 301), ls_sum(s, X(5, 301), 1, one, 1));
    case LS_COVER_ROW_FOURS: return ls_sub(s, X(5, 300), ls_sum(s, X(5, 300), 1, one, 1));
    case LS_COVER_COLUMNS: /* with the stores, and a block a workgroup */
        return ls_concat(s, (ls_tensor *[]){ls_sum(s, X(600, 40), 1, (const int[]){0}, 0), ls_sum(s, X(4100, 40), 1, (const int[]){0}, 0)}, 2, 0);
    case LS_COVER_BLOCKS: return ls_sum(s, X(5, 1900), 2, (const int[]){0, 1}, 0);
    case LS_COVER_BLOCKS_OF_BLOCKS: return ls_sum(s, X(20, 1900), 2, (const int[]){0, 1}, 0);
    case LS_COVER_REDUCE_SERIAL: return ls_sum(s, X(9, 11), 1, one, 0);
    case LS_COVER_SCAN: return ls_scan(s, X(1100, 3), LS_SCAN_SUM, 0, 1, 1);
    case LS_COVER_SORT: return ls_argsort(s, X(3, 50), 1, 0);
    case LS_COVER_SCATTER_UPDATE: return scatter(s, 5, 300, 1);
    case LS_COVER_SCATTER_ELEMENT: return scatter(s, 5, 60, 6);
    case LS_COVER_SCATTER_SERIAL: return scatter(s, 5, 0, 1);
    case LS_COVER_CONTRACT_SERIAL: return ls_matmul(s, X(3, 5), Y(5, 2));
    case LS_COVER_TILED: return ls_matmul(s, X(40, 33), Y(33, 44));
    case LS_COVER_TILED_MASKED: return padded_product(s);
    case LS_COVER_TILED_CHUNKS: return ls_matmul(s, X(16, 1100), Y(1100, 24));
    case LS_COVER_GEMV: return ls_matmul(s, X(2, 300), Y(300, 64));
    case LS_COVER_VECTOR: /* long lines for the contract's order, many columns for any other */
        return ls_concat(s, (ls_tensor *[]){ls_matmul(s, X(1, 1540), Y(1540, 512)), ls_matmul(s, X(1, 64), Y(64, 2048))}, 2, 1);
    case LS_COVER_VECTOR_ALONG: return ls_matmul(s, X(1, 256), ls_transpose(s, Y(2048, 256), 0, 1));
    case LS_COVER_FRAGMENTS:
        return ls_matmul(s, numbers(s, half, LS_SHAPE(100, 70), 1), numbers(s, half, LS_SHAPE(70, 60), 2));
    case LS_COVER_MATRIX: /* no whole tile of a product */
        return ls_matmul(s, numbers(s, half, LS_SHAPE(64, 128), 1), numbers(s, half, LS_SHAPE(128, 64), 2));
    case LS_COVER_PRODUCT:
        return ls_matmul(s, numbers(s, half, LS_SHAPE(128, 320), 1), numbers(s, half, LS_SHAPE(320, 256), 2));
    case LS_COVER_ATTENTION: return attention(s);
    case LS_COVER_REPORT: return ls_gather(s, X(5, 107), ls_tensor_from(s, LS_I32, LS_SHAPE(3), (const int32_t[]){4, 0, 4}), 0);
    case LS_COVER_LAUNCH_BASE: return odd_slices(s);
    case LS_COVER_LAUNCH_ALIAS: return in_place(s);
    case LS_COVER_LAUNCH_MERGED: return many_buffers(s);
    case LS_COVERS: break;
    }
    return NULL; /* a new row of cover.def: it needs a graph */
}
