/* The operations of the conformance rows as tables, their data, and the graph of a row. */
#include "verify/rows.h"
#include "graph/graph.h"
#include <lockstep/grad.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- factors ---- */

static const int16_t sizes[] = {0, 1, 2, 7, 31, 255, 256, 257, 511, 512, 513, 1021, 4095, 4096, 4097};
static const char *const views[] = {"plain", "permuted", "broadcast", "reversed", "strided", "windows"};
enum { PLAIN, PERMUTED, BROADCAST, REVERSED, STRIDED, WINDOWS };
static const char *const datas[] = {"mixed", "integers", "special"};
enum { MIXED, INTEGERS, SPECIAL };
static const char *const wraps[] = {"bare", "unfused", "fused", "gradient"};
enum { BARE, UNFUSED, FUSED, GRADIENT };

/* ---- subjects ---- */

enum { FLOATS = 1, INTS = 2, BOOL = 4, NUM = FLOATS | INTS, ALL = NUM | BOOL };
enum { ONE, TWO, FOLD_0, FOLD_1, FOLD_ALL, CAST, ANY };
typedef struct subject {
    const char *name;
    union {
        ls_tensor *(*one)(ls_session *s, ls_tensor *x);
        ls_tensor *(*two)(ls_session *s, ls_tensor *x, ls_tensor *y);
        ls_tensor *(*fold)(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims);
        ls_tensor *(*any)(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n); /* x and y: [n, 3] */
        ls_dtype cast;
    } build;
    uint8_t kind, dtypes, differentiable, slow; /* slow: `ref` takes seconds for thousands of rows */
} subject;

#define BUILD(name, ...) \
    static ls_tensor *s_##name(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n) { \
        (void)y, (void)n; \
        __VA_ARGS__ \
    }
BUILD(scan_sum, return ls_scan(s, x, LS_SCAN_SUM, 0, 0, 0);)
BUILD(scan_sum_1, return ls_scan(s, x, LS_SCAN_SUM, 1, 1, 1);)
BUILD(scan_prod, return ls_scan(s, x, LS_SCAN_PROD, 0, 1, 0);)
BUILD(scan_min, return ls_scan(s, x, LS_SCAN_MIN, 0, 0, 1);)
BUILD(scan_max, return ls_scan(s, x, LS_SCAN_MAX, 0, 1, 1);)
BUILD(where, return ls_where(s, ls_lt(s, x, y), y, x);)
BUILD(reshape, return ls_reshape(s, x, LS_SHAPE(3, -1));)
BUILD(permute, return ls_permute(s, x, (const int[]){1, 0});)
BUILD(expand, return ls_expand(s, ls_unsqueeze(s, x, 0), LS_SHAPE(4, n, 3));)
BUILD(pad, return ls_pad(s, x, (const ls_pad_spec[]){{2, -1 * (n > 0), 1}, {1, 2, 0}}, 3);)
BUILD(pad_absent_sum, return ls_sum(s, ls_pad_absent(s, x, (const ls_pad_spec[]){{2, 3, 1}, {0, 1, 2}}), 1, (const int[]){0}, 0);)
BUILD(slice, return n < 2 ? ls_flip(s, x, 0) : ls_slice(s, x, (const ls_slice_spec[]){{n - 1, -1, -2}, {0, 3, 2}});)
BUILD(window, return n < 3 ? ls_abs(s, x) : ls_window(s, x, 1, (const int[]){0}, (const ls_window_spec[]){{2, 1, 2}});)
BUILD(concat, return ls_concat(s, (ls_tensor *[]){x, y, ls_narrow(s, x, 0, 0, n / 2)}, 3, 0);)
/* i * factor % size for i in 0..n. */
static ls_tensor *indices(ls_session *s, int64_t n, double factor, int64_t size) {
    ls_shape line = LS_SHAPE(n);
    return ls_rem(s, ls_mul(s, ls_iota(s, LS_I32, line, 0), ls_full(s, LS_I32, line, factor)), ls_full(s, LS_I32, line, (double)size));
}
BUILD(gather, return n ? ls_gather(s, x, indices(s, 5, 7, n), 0) : ls_abs(s, x);)
static ls_tensor *scatter_rows(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n, ls_scatter_kind kind) {
    return n ? ls_scatter(s, x, indices(s, n, 5, n / 2 + 1), y, 0, kind) : ls_permute(s, x, (const int[]){1, 0});
}
BUILD(scatter_set, return scatter_rows(s, x, y, n, LS_SCATTER_SET);)
BUILD(scatter_add, return scatter_rows(s, x, y, n, LS_SCATTER_ADD);)
BUILD(scatter_max, return scatter_rows(s, x, y, n, LS_SCATTER_MAX);)
BUILD(argsort, return ls_argsort(s, x, 0, 0);)
BUILD(sort_down, return ls_sort(s, x, 1, 1);)
/* k = n, then m = n, then a batch with two contracted axes. */
BUILD(contract_k, return ls_matmul(s, ls_transpose(s, x, 0, 1), y);)
BUILD(contract_m, return ls_matmul(s, x, ls_transpose(s, ls_narrow(s, y, 0, 0, n < 300 ? n : 300), 0, 1));)
BUILD(contract_batch, ls_contract_spec c = {.n_batch = 1, .n_contract = 1, .batch_a = {1}, .batch_b = {1}, .contract_a = {0}, .contract_b = {0}};
    return ls_contract(s, x, y, &c, ls_tensor_dtype(x));)
BUILD(matvec, return ls_matmul(s, x, ls_sum(s, ls_narrow(s, y, 0, 0, n < 1 ? 0 : 1), 1, (const int[]){0}, 0));)
BUILD(softmax, return ls_softmax(s, x, 0);)
BUILD(layer_norm, return ls_layer_norm(s, ls_transpose(s, x, 0, 1), 1, NULL, NULL, 1e-5);)
BUILD(variance, return ls_variance(s, x, 1, (const int[]){0}, 0, 0);)
/* x[n,3] as an image [1,3,n] or [3,1,h,w]. */
static ls_tensor *conv_rows(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n, int transposed) {
    if (n < 3) {
        return ls_abs(s, x);
    }
    ls_tensor *image = ls_reshape(s, ls_transpose(s, x, 0, 1), LS_SHAPE(1, 3, n));
    ls_tensor *w = ls_reshape(s, ls_narrow(s, y, 0, 0, 3), LS_SHAPE(1, 3, 3));
    w = ls_concat(s, (ls_tensor *[]){w, ls_flip(s, w, 2)}, 2, 0);
    ls_conv_spec c = {.spatial = 1, .stride = {2}, .dilation = {1}, .pad_low = {2}, .pad_high = {1}};
    return transposed ? ls_conv_transpose(s, image, ls_permute(s, w, (const int[]){1, 0, 2}), NULL, &c) : ls_conv(s, image, w, NULL, &c);
}
BUILD(conv, return conv_rows(s, x, y, n, 0);)
BUILD(conv_transpose, return conv_rows(s, x, y, n, 1);)
BUILD(conv2d, if (n < 31) return ls_abs(s, x);
    int64_t h = n / 7 < 24 ? n / 7 : 24;
    ls_tensor *image = ls_reshape(s, ls_narrow(s, x, 0, 0, h * 7), LS_SHAPE(1, h, 7, 3));
    ls_tensor *w = ls_reshape(s, ls_narrow(s, y, 0, 0, 24), LS_SHAPE(3, 3, 2, 4));
    ls_conv_spec c = {.spatial = 2, .stride = {1, 2}, .pad_low = {1, 0}, .pad_high = {0, 2},
                      .axes = {1, 0, 3, {1, 2}, 3, 2, {0, 1}, 1, 0, {3, 2}}};
    return ls_conv(s, ls_narrow(s, image, 3, 0, 2), w, NULL, &c);)
BUILD(max_pool, if (n < 3) return ls_abs(s, x);
    ls_conv_spec c = {.spatial = 1, .stride = {2}, .pad_low = {1}};
    return ls_max_pool(s, ls_reshape(s, ls_transpose(s, x, 0, 1), LS_SHAPE(1, 3, n)), (const int64_t[]){3}, &c);)
BUILD(attention, if (n == 0 || n > 300) return ls_abs(s, x);
    ls_tensor *q = ls_reshape(s, x, LS_SHAPE(1, 1, n, 3));
    ls_tensor *k = ls_reshape(s, y, LS_SHAPE(1, 1, n, 3));
    ls_attention_spec a = {.causal = 1};
    return ls_attention(s, q, k, k, &a);)
/* Products of both sides by tiles, of little and of long k; sums over a leading axis; an operand that lies across the result. */
static ls_tensor *first_rows(ls_session *s, ls_tensor *x, int64_t n, int64_t rows, int64_t columns) {
    return ls_reshape(s, ls_narrow(s, x, 0, 0, n), LS_SHAPE(rows, columns));
}
BUILD(product, int64_t m = n < 256 ? n / 4 : 64;
    ls_tensor *a = first_rows(s, x, 4 * m, m, 12), *b = first_rows(s, y, 4 * m, m, 12);
    return ls_matmul(s, a, ls_transpose(s, b, 0, 1));)
BUILD(product_long, int64_t m = n / 8;
    ls_tensor *a = first_rows(s, x, 8 * m, 8, 3 * m), *b = first_rows(s, y, 8 * m, 8, 3 * m);
    return ls_matmul(s, a, ls_transpose(s, b, 0, 1));)
BUILD(sum_columns, return ls_sum(s, first_rows(s, x, n / 16 * 16, n / 16 * 3, 16), 1, (const int[]){0}, 0);)
BUILD(turn, int64_t m = n / 512;
    return ls_transpose(s, first_rows(s, n < 512 ? x : ls_add(s, x, y), n < 512 ? n : 512 * m, n < 512 ? n : 48, n < 512 ? 3 : 32 * m), 0, 1);)
BUILD(random, return ls_random_uniform(s, ls_random_key(s, 7), LS_SHAPE(n, 3), ls_tensor_dtype(x));)

static const subject subjects[] = {
#define U(n) {#n, {.one = ls_##n}, ONE, FLOATS, 1, 0}
    U(sqrt), U(rsqrt), U(cbrt), U(recip), U(exp), U(exp2), U(expm1), U(log), U(log2), U(log1p), U(sin), U(cos), U(tan), U(asin), U(acos),
    U(atan), U(sinh), U(cosh), U(tanh), U(erf), U(erfc), U(gelu), U(silu), U(sigmoid),
#define B(n, dtypes, diff) {#n, {.two = ls_##n}, TWO, dtypes, diff, 0}
#define A(n, dtypes, diff) {#n, {.any = s_##n}, ANY, dtypes, diff, 0}
#define Q(n, dtypes, diff) {#n, {.any = s_##n}, ANY, dtypes, diff, 1}
    B(pow, FLOATS, 1), A(softmax, FLOATS, 1), A(layer_norm, FLOATS, 1), A(variance, FLOATS, 1), A(attention, FLOATS, 1),
    /* along the long axis, the short one, all of it in the other order */
#define FOLD(n, suffix, kind, dtypes, diff) {#n suffix, {.fold = ls_##n}, kind, dtypes, diff, 0}
#define F(n, dtypes, diff) \
    FOLD(n, "_0", FOLD_0, dtypes, diff), FOLD(n, "_1", FOLD_1, dtypes, diff), FOLD(n, "_all", FOLD_ALL, dtypes, diff)
    F(mean, FLOATS, 1),
#define O(n, dtypes, diff) {#n, {.one = ls_##n}, ONE, dtypes, diff, 0}
    O(floor, FLOATS, 0), O(ceil, FLOATS, 0), O(trunc, FLOATS, 0), O(rint, FLOATS, 0), O(isnan, FLOATS, 0), O(isinf, FLOATS, 0),
    O(neg, NUM, 1), O(abs, NUM, 1), O(sign, NUM, 0), B(add, NUM, 1), B(sub, NUM, 1), B(mul, NUM, 1), B(div, NUM, 1), B(rem, NUM, 1),
    B(min, ALL, 1), B(max, ALL, 1), O(not, INTS | BOOL, 0), B(and, INTS | BOOL, 0), B(or, INTS | BOOL, 0), B(xor, INTS | BOOL, 0),
    O(popcount, INTS, 0), B(shl, INTS, 0), B(shr, INTS, 0), B(eq, ALL, 0), B(ne, ALL, 0), B(lt, ALL, 0), B(le, ALL, 0),
    A(where, ALL, 1), A(reshape, ALL, 1), A(permute, ALL, 1), A(expand, ALL, 1), A(pad, ALL, 1), A(pad_absent_sum, NUM, 1),
    A(slice, ALL, 1), A(window, NUM, 1), A(concat, ALL, 1),
    F(sum, NUM, 1), F(prod, NUM, 1), F(amin, ALL, 1), F(amax, ALL, 1), F(argmin, ALL, 0), F(argmax, ALL, 0),
    Q(scan_sum, NUM, 1), Q(scan_sum_1, NUM, 1), Q(scan_prod, NUM, 0), Q(scan_min, NUM, 1), Q(scan_max, NUM, 1), A(gather, NUM, 1),
    A(scatter_set, NUM, 1), A(scatter_add, NUM, 1), A(scatter_max, NUM, 1), A(argsort, ALL, 0), A(sort_down, NUM, 1),
    A(contract_k, NUM, 1), Q(contract_m, NUM, 1), A(contract_batch, NUM, 1), A(matvec, NUM, 1), A(conv, NUM, 1), A(conv_transpose, NUM, 1),
    A(conv2d, NUM, 1), A(max_pool, NUM, 1), A(product, NUM, 1), A(product_long, NUM, 1), A(sum_columns, NUM, 1), A(turn, NUM, 1),
    A(random, FLOATS, 0),
#define C(name, dtype) {"cast_" #name, {.cast = dtype}, CAST, ALL, 0, 0}
    C(bool, LS_BOOL), C(u8, LS_U8), C(i16, LS_I16), C(u32, LS_U32), C(i64, LS_I64), C(u64, LS_U64), C(f16, LS_F16), C(bf16, LS_BF16),
    C(f32, LS_F32), C(f64, LS_F64),
};

static ls_tensor *apply(ls_session *s, const subject *subject, ls_tensor *x, ls_tensor *y, int64_t n) {
    switch (subject->kind) {
    case ONE: return subject->build.one(s, x);
    case TWO: return subject->build.two(s, x, y);
    case FOLD_0: return subject->build.fold(s, x, 1, (const int[]){0}, 0);
    case FOLD_1: return subject->build.fold(s, x, 1, (const int[]){1}, 1);
    case FOLD_ALL: return subject->build.fold(s, x, 2, (const int[]){1, 0}, 0);
    case CAST: return ls_cast(s, x, subject->build.cast);
    default: return subject->build.any(s, x, y, n);
    }
}

/* ---- rows ---- */

int ls_row_levels(int factor) {
    const int n[LS_ROW_FACTORS] = {LENGTH(subjects), LS_DTYPE_COUNT, LENGTH(sizes), LENGTH(views), LENGTH(datas), LENGTH(wraps)};
    return n[factor];
}

const char *ls_row_level_name(int factor, int level, char buf[LS_ROW_LEVEL_TEXT]) {
    switch (factor) {
    case LS_ROW_SUBJECT: return subjects[level].name;
    case LS_ROW_DTYPE: return ls_dtype_name((ls_dtype)level);
    case LS_ROW_VIEW: return views[level];
    case LS_ROW_DATA: return datas[level];
    case LS_ROW_WRAP: return wraps[level];
    default: snprintf(buf, LS_ROW_LEVEL_TEXT, "%d", sizes[level]); return buf;
    }
}

void ls_row_describe(const ls_row *row, char buf[LS_ROW_TEXT]) {
    char text[LS_ROW_LEVEL_TEXT];
    size_t used = 0;
    for (int f = 0; f < LS_ROW_FACTORS && used < LS_ROW_TEXT; f++) {
        used += (size_t)snprintf(buf + used, LS_ROW_TEXT - used, "%s%s%s", f ? " " : "", f == LS_ROW_SIZE ? "n=" : "",
                                 ls_row_level_name(f, row->level[f], text));
    }
}

int64_t ls_row_size(const ls_row *row) {
    return sizes[row->level[LS_ROW_SIZE]];
}

void ls_row_quicken(ls_row *row) {
    while (subjects[row->level[LS_ROW_SUBJECT]].slow && ls_row_size(row) > 1200) {
        row->level[LS_ROW_SIZE]--;
    }
}

static int dtype_class(ls_dtype dtype) {
    return dtype == LS_BOOL ? BOOL : ls_dtype_is_float(dtype) ? FLOATS : INTS;
}

bool ls_row_valid(const ls_row *row) {
    const subject *s = &subjects[row->level[LS_ROW_SUBJECT]];
    ls_dtype dtype = (ls_dtype)row->level[LS_ROW_DTYPE];
    int data = row->level[LS_ROW_DATA], wrap = row->level[LS_ROW_WRAP];
    bool empty = ls_row_size(row) == 0;
    if (!(s->dtypes & dtype_class(dtype))) {
        return false;
    }
    if (empty && (strncmp(s->name, "arg", 3) == 0 || row->level[LS_ROW_VIEW] == WINDOWS)) {
        return false; /* an index into nothing; windows over nothing */
    }
    if (wrap == GRADIENT && (!s->differentiable || !ls_dtype_is_float(dtype))) {
        return false;
    }
    if (empty && wrap == GRADIENT && (strncmp(s->name, "amin", 4) == 0 || strncmp(s->name, "amax", 4) == 0)) {
        return false; /* no element to pass it to */
    }
    return wrap != UNFUSED && wrap != FUSED ? true : dtype != LS_BOOL && (data != SPECIAL || ls_dtype_is_float(dtype));
}

/* ---- data ---- */

uint64_t ls_row_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u >> 11;
}

static double float_sample(uint64_t *state, int data, ls_dtype dtype) {
    static const double special[] = {0, -0.0, 1, -1, __builtin_inf(), -__builtin_inf(), __builtin_nan(""), 1e-41, -3e-45, 1e38, -65504, 6e-8,
                                     1.5, -2.5, 1e-300, 1e300, 0.5, 3};
    double unit = (double)(ls_row_random(state) >> 1) / 4503599627370496.0;
    if (data == SPECIAL) {
        return special[ls_row_random(state) % (sizeof special / sizeof *special)];
    }
    if (data == INTEGERS) { /* small enough for every sum here to be exact in f32 */
        return dtype == LS_F16 || dtype == LS_BF16 ? (double)(int)(unit * 3) - 1 : (double)(int)(unit * 17) - 8;
    }
    return (unit * 2 - 1) * (ls_row_random(state) % 5 == 0 ? 20 : 1);
}

static uint64_t sample(uint64_t *state, int data, ls_dtype dtype) {
    if (ls_dtype_is_float(dtype)) {
        return ls_value_from_f64(dtype, float_sample(state, data, dtype));
    }
    uint64_t b = ls_row_random(state);
    if (dtype == LS_BOOL) {
        return b & 1;
    }
    if (data == SPECIAL && b % 3 == 0) { /* all ones, or the sign alone */
        return b & 8 ? ~UINT64_C(0) : UINT64_C(1) << (8 * ls_dtype_size(dtype) - 1);
    }
    return data == INTEGERS ? b % 9 : b * 0x9e3779b97f4a7c15u >> 7;
}

static ls_tensor *base_tensor(ls_session *s, const ls_row *r, int rank, const int64_t *dims, uint64_t seed) {
    ls_dtype dtype = (ls_dtype)r->level[LS_ROW_DTYPE];
    ls_heap *heap = ls_context_heap(ls_session_context(s));
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        n *= dims[i];
    }
    size_t size = ls_dtype_size(dtype);
    char *bytes = ls_alloc(heap, (size_t)n * size);
    if (!bytes) {
        ls_session_set_error(s, LS_ERR_MEMORY, "out of memory for the data of a row");
        return NULL;
    }
    uint64_t state = seed * 977 + (uint64_t)r->level[LS_ROW_SIZE];
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = sample(&state, r->level[LS_ROW_DATA], dtype);
        memcpy(bytes + (size_t)i * size, &bits, size);
    }
    ls_tensor *t = ls_tensor_from(s, dtype, ls_shape_make(rank, dims), bytes);
    ls_free(heap, bytes);
    return t;
}

/* A tensor of shape [n, 3] through the row's view. */
static ls_tensor *operand(ls_session *s, const ls_row *r, uint64_t seed) {
    int64_t n = ls_row_size(r);
    switch (r->level[LS_ROW_VIEW]) {
    case PERMUTED:
        return ls_transpose(s, base_tensor(s, r, 2, (const int64_t[]){3, n}, seed), 0, 1);
    case BROADCAST:
        return seed % 2 ? ls_expand(s, base_tensor(s, r, 2, (const int64_t[]){1, 3}, seed), LS_SHAPE(n, 3))
                        : ls_expand(s, base_tensor(s, r, 2, (const int64_t[]){n, 1}, seed), LS_SHAPE(n, 3));
    case REVERSED:
        return ls_flip(s, ls_flip(s, base_tensor(s, r, 2, (const int64_t[]){n, 3}, seed), 0), 1);
    case STRIDED:
        return ls_slice(s, base_tensor(s, r, 2, (const int64_t[]){2 * n + 1, 9}, seed), (const ls_slice_spec[]){{1, 2 * n + 1, 2}, {2, 9, 3}});
    case WINDOWS:
        return ls_window(s, base_tensor(s, r, 1, (const int64_t[]){n + 4}, seed), 1, (const int[]){0}, (const ls_window_spec[]){{3, 1, 2}});
    default:
        return base_tensor(s, r, 2, (const int64_t[]){n, 3}, seed);
    }
}

ls_tensor *ls_row_build(ls_session *s, const ls_row *r) {
    const subject *subject = &subjects[r->level[LS_ROW_SUBJECT]];
    int wrap = r->level[LS_ROW_WRAP];
    int64_t n = ls_row_size(r);
    ls_tensor *x = operand(s, r, 1), *y = operand(s, r, 2);
    if (!x || !y) {
        return NULL;
    }
    ls_session_set_fusion(s, wrap != UNFUSED);
    ls_tensor *in = x;
    if (wrap == UNFUSED || wrap == FUSED) { /* an operation before and one after, in one kernel or in three */
        in = ls_add(s, x, ls_full(s, ls_tensor_dtype(x), ls_tensor_shape(x), 1));
    }
    ls_tensor *z = in ? apply(s, subject, in, y, n) : NULL;
    if (!z) {
        return NULL;
    }
    if (wrap == GRADIENT) {
        ls_tensor *g[2], *xs[2] = {x, y};
        if (ls_grad(s, z, NULL, 2, xs, g) != LS_OK) {
            return NULL;
        }
        return ls_add(s, g[0], g[1]);
    }
    if (wrap == UNFUSED || wrap == FUSED) {
        z = ls_tensor_dtype(z) == LS_BOOL ? ls_not(s, z) : ls_max(s, z, ls_full(s, ls_tensor_dtype(z), ls_tensor_shape(z), 0.25));
    }
    return z;
}
