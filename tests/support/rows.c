#include "support/rows.h"
#include "graph/graph.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) ((int)(sizeof(a) / sizeof *(a)))

/* ---- factors ---- */

static const int64_t sizes[] = {0, 1, 2, 7, 31, 255, 256, 257, 511, 512, 513, 1021, 4095, 4096, 4097};
static const char *const views[] = {"plain", "permuted", "broadcast", "reversed", "strided", "windows"};
enum { PLAIN, PERMUTED, BROADCAST, REVERSED, STRIDED, WINDOWS };
static const char *const datas[] = {"mixed", "integers", "special"};
enum { MIXED, INTEGERS, SPECIAL };
static const char *const wraps[] = {"bare", "unfused", "fused", "gradient"};
enum { BARE, UNFUSED, FUSED, GRADIENT };
static const int threads[] = {1, 2, 3, 8};
#if defined(__x86_64__)
static const char *const isas[] = {"scalar", "avx2", "avx512"};
#elif defined(__aarch64__)
static const char *const isas[] = {"scalar", "neon"};
#else
static const char *const isas[] = {"scalar"};
#endif

static int isa_count(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? 3 : __builtin_cpu_supports("avx2") ? 2 : 1;
#else
    return LENGTH(isas);
#endif
}

/* ---- subjects ---- */

enum { FLOATS = 1, INTS = 2, BOOL = 4, NUM = FLOATS | INTS, ALL = NUM | BOOL };
typedef struct subject {
    const char *name;
    int dtypes;
    ls_tensor *(*build)(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n);
    int differentiable, linear;
} subject;

#define ONE(fn) \
    static ls_tensor *s_##fn(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n) { \
        (void)y, (void)n; \
        return ls_##fn(s, x); \
    }
#define TWO(fn) \
    static ls_tensor *s_##fn(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n) { \
        (void)n; \
        return ls_##fn(s, x, y); \
    }
#define ANY(name, ...) \
    static ls_tensor *s_##name(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n) { \
        (void)y, (void)n; \
        __VA_ARGS__ \
    }
ONE(neg) ONE(abs) ONE(sign) ONE(floor) ONE(ceil) ONE(trunc) ONE(rint) ONE(sqrt) ONE(rsqrt) ONE(cbrt) ONE(recip) ONE(exp) ONE(exp2)
ONE(expm1) ONE(log) ONE(log2) ONE(log1p) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(erf)
ONE(erfc) ONE(not) ONE(isnan) ONE(isinf) ONE(popcount) ONE(gelu) ONE(silu) ONE(sigmoid)
TWO(add) TWO(sub) TWO(mul) TWO(div) TWO(rem) TWO(pow) TWO(min) TWO(max) TWO(and) TWO(or) TWO(xor) TWO(shl) TWO(shr) TWO(eq) TWO(ne) TWO(lt)
TWO(le)
/* A reduction along the long axis, the short one, all of it, and all of it in the other order. x is [n, 3] or a view of that shape. */
#define FOLD(name, fn) \
    ANY(name##_0, return ls_##fn(s, x, 1, (const int[]){0}, 0);) \
    ANY(name##_1, return ls_##fn(s, x, 1, (const int[]){1}, 1);) \
    ANY(name##_all, return ls_##fn(s, x, 2, (const int[]){1, 0}, 0);)
FOLD(sum, sum) FOLD(prod, prod) FOLD(amin, amin) FOLD(amax, amax) FOLD(argmin, argmin) FOLD(argmax, argmax) FOLD(mean, mean)
ANY(scan_sum, return ls_scan(s, x, LS_SCAN_SUM, 0, 0, 0);)
ANY(scan_sum_1, return ls_scan(s, x, LS_SCAN_SUM, 1, 1, 1);)
ANY(scan_prod, return ls_scan(s, x, LS_SCAN_PROD, 0, 1, 0);)
ANY(scan_min, return ls_scan(s, x, LS_SCAN_MIN, 0, 0, 1);)
ANY(scan_max, return ls_scan(s, x, LS_SCAN_MAX, 0, 1, 1);)
ANY(where, return ls_where(s, ls_lt(s, x, y), y, x);)
ANY(reshape, return ls_reshape(s, x, LS_SHAPE(3, -1));)
ANY(permute, return ls_permute(s, x, (const int[]){1, 0});)
ANY(expand, return ls_expand(s, ls_unsqueeze(s, x, 0), LS_SHAPE(4, n, 3));)
ANY(pad, return ls_pad(s, x, (const ls_pad_spec[]){{2, -1 * (n > 0), 1}, {1, 2, 0}}, 3);)
ANY(pad_absent_sum, return ls_sum(s, ls_pad_absent(s, x, (const ls_pad_spec[]){{2, 3, 1}, {0, 1, 2}}), 1, (const int[]){0}, 0);)
ANY(slice, return n < 2 ? ls_flip(s, x, 0) : ls_slice(s, x, (const ls_slice_spec[]){{n - 1, -1, -2}, {0, 3, 2}});)
ANY(window, return n < 3 ? ls_abs(s, x) : ls_window(s, x, 1, (const int[]){0}, (const ls_window_spec[]){{2, 1, 2}});)
ANY(concat, return ls_concat(s, (ls_tensor *[]){x, y, ls_narrow(s, x, 0, 0, n / 2)}, 3, 0);)
ANY(gather, ls_tensor *i = ls_rem(s, ls_mul(s, ls_iota(s, LS_I32, LS_SHAPE(5), 0), ls_full(s, LS_I32, LS_SHAPE(5), 7)),
                                  ls_full(s, LS_I32, LS_SHAPE(5), n > 0 ? (double)n : 1));
    return n ? ls_gather(s, x, i, 0) : ls_abs(s, x);)
static ls_tensor *scatter_rows(ls_session *s, ls_tensor *x, ls_tensor *y, int64_t n, ls_scatter_kind kind) {
    if (n == 0) {
        return ls_permute(s, x, (const int[]){1, 0});
    }
    ls_shape line = LS_SHAPE(n);
    ls_tensor *i = ls_rem(s, ls_mul(s, ls_iota(s, LS_I32, line, 0), ls_full(s, LS_I32, line, 5)), ls_full(s, LS_I32, line, (double)(n / 2 + 1)));
    return ls_scatter(s, x, i, y, 0, kind);
}
ANY(scatter_set, return scatter_rows(s, x, y, n, LS_SCATTER_SET);)
ANY(scatter_add, return scatter_rows(s, x, y, n, LS_SCATTER_ADD);)
ANY(scatter_max, return scatter_rows(s, x, y, n, LS_SCATTER_MAX);)
ANY(argsort, return ls_argsort(s, x, 0, 0);)
ANY(sort_down, return ls_sort(s, x, 1, 1);)
/* k = n, then m = n, then a batch with two contracted axes. */
ANY(contract_k, return ls_matmul(s, ls_transpose(s, x, 0, 1), y);)
ANY(contract_m, return ls_matmul(s, x, ls_transpose(s, ls_narrow(s, y, 0, 0, n < 300 ? n : 300), 0, 1));)
ANY(contract_batch, ls_contract_spec c = {.n_batch = 1, .n_contract = 1, .batch_a = {1}, .batch_b = {1}, .contract_a = {0}, .contract_b = {0}};
    return ls_contract(s, x, y, &c, ls_tensor_dtype(x));)
ANY(matvec, return ls_matmul(s, x, ls_sum(s, ls_narrow(s, y, 0, 0, n < 1 ? 0 : 1), 1, (const int[]){0}, 0));)
ANY(softmax, return ls_softmax(s, x, 0);)
ANY(layer_norm, return ls_layer_norm(s, ls_transpose(s, x, 0, 1), 1, NULL, NULL, 1e-5);)
ANY(variance, return ls_variance(s, x, 1, (const int[]){0}, 0, 0);)
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
ANY(conv, return conv_rows(s, x, y, n, 0);)
ANY(conv_transpose, return conv_rows(s, x, y, n, 1);)
ANY(conv2d, if (n < 31) return ls_abs(s, x);
    int64_t h = n / 7 < 24 ? n / 7 : 24;
    ls_tensor *image = ls_reshape(s, ls_narrow(s, x, 0, 0, h * 7), LS_SHAPE(1, h, 7, 3));
    ls_tensor *w = ls_reshape(s, ls_narrow(s, y, 0, 0, 24), LS_SHAPE(3, 3, 2, 4));
    ls_conv_spec c = {.spatial = 2, .stride = {1, 2}, .pad_low = {1, 0}, .pad_high = {0, 2},
                      .axes = {1, 0, 3, {1, 2}, 3, 2, {0, 1}, 1, 0, {3, 2}}};
    return ls_conv(s, ls_narrow(s, image, 3, 0, 2), w, NULL, &c);)
ANY(max_pool, if (n < 3) return ls_abs(s, x);
    ls_conv_spec c = {.spatial = 1, .stride = {2}, .pad_low = {1}};
    return ls_max_pool(s, ls_reshape(s, ls_transpose(s, x, 0, 1), LS_SHAPE(1, 3, n)), (const int64_t[]){3}, &c);)
ANY(attention, if (n == 0 || n > 300) return ls_abs(s, x);
    ls_tensor *q = ls_reshape(s, x, LS_SHAPE(1, 1, n, 3));
    ls_tensor *k = ls_reshape(s, y, LS_SHAPE(1, 1, n, 3));
    ls_attention_spec a = {.causal = 1};
    return ls_attention(s, q, k, k, &a);)
/* Products of both sides by tiles, of little and of long k; sums over a leading axis; an operand that lies across the result. */
static ls_tensor *first_rows(ls_session *s, ls_tensor *x, int64_t n, int64_t rows, int64_t columns) {
    return ls_reshape(s, ls_narrow(s, x, 0, 0, n), LS_SHAPE(rows, columns));
}
ANY(product, int64_t m = n < 256 ? n / 4 : 64;
    ls_tensor *a = first_rows(s, x, 4 * m, m, 12), *b = first_rows(s, y, 4 * m, m, 12);
    return ls_matmul(s, a, ls_transpose(s, b, 0, 1));)
ANY(product_long, int64_t m = n / 8;
    ls_tensor *a = first_rows(s, x, 8 * m, 8, 3 * m), *b = first_rows(s, y, 8 * m, 8, 3 * m);
    return ls_matmul(s, a, ls_transpose(s, b, 0, 1));)
ANY(sum_columns, return ls_sum(s, first_rows(s, x, n / 16 * 16, n / 16 * 3, 16), 1, (const int[]){0}, 0);)
ANY(turn, int64_t m = n / 512;
    return ls_transpose(s, first_rows(s, n < 512 ? x : ls_add(s, x, y), n < 512 ? n : 512 * m, n < 512 ? n : 48, n < 512 ? 3 : 32 * m), 0, 1);)
ANY(random, return ls_random_uniform(s, ls_random_key(s, 7), LS_SHAPE(n, 3), ls_tensor_dtype(x));)
#define CASTS(X) X(bool, LS_BOOL) X(u8, LS_U8) X(i16, LS_I16) X(u32, LS_U32) X(i64, LS_I64) X(u64, LS_U64) X(f16, LS_F16) X(bf16, LS_BF16) X(f32, LS_F32) X(f64, LS_F64)
#define CAST(name, dtype) ANY(cast_##name, return ls_cast(s, x, dtype);)
CASTS(CAST)

static const subject subjects[] = {
#define F1(n) {#n, FLOATS, s_##n, 1, 0}
    F1(sqrt), F1(rsqrt), F1(cbrt), F1(recip), F1(exp), F1(exp2), F1(expm1), F1(log), F1(log2), F1(log1p), F1(sin), F1(cos), F1(tan),
    F1(asin), F1(acos), F1(atan), F1(sinh), F1(cosh), F1(tanh), F1(erf), F1(erfc), F1(gelu), F1(silu), F1(sigmoid), F1(pow), F1(softmax),
    F1(layer_norm), F1(variance), F1(attention), F1(mean_0), F1(mean_1), F1(mean_all),
#define S(n, dtypes, diff, linear) {#n, dtypes, s_##n, diff, linear}
    S(floor, FLOATS, 0, 0), S(ceil, FLOATS, 0, 0), S(trunc, FLOATS, 0, 0), S(rint, FLOATS, 0, 0), S(isnan, FLOATS, 0, 0), S(isinf, FLOATS, 0, 0),
    S(neg, NUM, 1, 1), S(abs, NUM, 1, 1), S(sign, NUM, 0, 1), S(add, NUM, 1, 1), S(sub, NUM, 1, 1), S(mul, NUM, 1, 1), S(div, NUM, 1, 0),
    S(rem, NUM, 1, 1), S(min, ALL, 1, 1), S(max, ALL, 1, 1), S(not, INTS | BOOL, 0, 0), S(and, INTS | BOOL, 0, 0), S(or, INTS | BOOL, 0, 0),
    S(xor, INTS | BOOL, 0, 0), S(popcount, INTS, 0, 0), S(shl, INTS, 0, 0), S(shr, INTS, 0, 0), S(eq, ALL, 0, 0), S(ne, ALL, 0, 0),
    S(lt, ALL, 0, 0), S(le, ALL, 0, 0), S(where, ALL, 1, 1), S(reshape, ALL, 1, 1), S(permute, ALL, 1, 1), S(expand, ALL, 1, 1),
    S(pad, ALL, 1, 1), S(pad_absent_sum, NUM, 1, 1), S(slice, ALL, 1, 1), S(window, NUM, 1, 1), S(concat, ALL, 1, 1),
#define R(n, dtypes, diff, linear) S(n##_0, dtypes, diff, linear), S(n##_1, dtypes, diff, linear), S(n##_all, dtypes, diff, linear)
    R(sum, NUM, 1, 1), R(prod, NUM, 1, 0), R(amin, ALL, 1, 1), R(amax, ALL, 1, 1), R(argmin, ALL, 0, 1), R(argmax, ALL, 0, 1),
    S(scan_sum, NUM, 1, 1), S(scan_sum_1, NUM, 1, 1), S(scan_prod, NUM, 0, 0), S(scan_min, NUM, 1, 1), S(scan_max, NUM, 1, 1),
    S(gather, NUM, 1, 1), S(scatter_set, NUM, 1, 1), S(scatter_add, NUM, 1, 1), S(scatter_max, NUM, 1, 1), S(argsort, ALL, 0, 1),
    S(sort_down, NUM, 1, 1), S(contract_k, NUM, 1, 1), S(contract_m, NUM, 1, 1), S(contract_batch, NUM, 1, 1), S(matvec, NUM, 1, 1),
    S(conv, NUM, 1, 1), S(conv_transpose, NUM, 1, 1), S(conv2d, NUM, 1, 1), S(max_pool, NUM, 1, 1), S(product, NUM, 1, 1),
    S(product_long, NUM, 1, 1), S(sum_columns, NUM, 1, 1), S(turn, NUM, 1, 1), S(random, FLOATS, 0, 0),
#define C(name, dtype) {"cast_" #name, ALL, s_cast_##name, 0, 1},
    CASTS(C)
};

/* ---- rows ---- */

int rows_levels(int factor) {
    const int n[N_FACTORS] = {LENGTH(subjects), LS_DTYPE_COUNT, LENGTH(sizes), LENGTH(views), LENGTH(datas), LENGTH(wraps), LENGTH(threads), isa_count()};
    return n[factor];
}

const char *rows_level_name(int factor, int level) {
    static char number[8][24];
    static int at;
    char *text = number[at++ % 8];
    switch (factor) {
    case FACTOR_SUBJECT: return subjects[level].name;
    case FACTOR_DTYPE: return ls_dtype_name((ls_dtype)level);
    case FACTOR_VIEW: return views[level];
    case FACTOR_DATA: return datas[level];
    case FACTOR_WRAP: return wraps[level];
    case FACTOR_ISA: return isas[level];
    default:
        snprintf(text, 24, "%lld", factor == FACTOR_SIZE ? (long long)sizes[level] : (long long)threads[level]);
        return text;
    }
}

static int dtype_class(ls_dtype dtype) {
    return dtype == LS_BOOL ? BOOL : ls_dtype_is_float(dtype) ? FLOATS : INTS;
}

int rows_valid(const row *r) {
    const subject *s = &subjects[r->level[FACTOR_SUBJECT]];
    ls_dtype dtype = (ls_dtype)r->level[FACTOR_DTYPE];
    int64_t n = sizes[r->level[FACTOR_SIZE]];
    int data = r->level[FACTOR_DATA], wrap = r->level[FACTOR_WRAP];
    if (!(s->dtypes & dtype_class(dtype))) {
        return 0;
    }
    if (n == 0 && (strncmp(s->name, "arg", 3) == 0 || r->level[FACTOR_VIEW] == WINDOWS)) {
        return 0; /* an index into nothing; windows over nothing */
    }
    if (wrap == GRADIENT && (!s->differentiable || !ls_dtype_is_float(dtype))) {
        return 0;
    }
    if (n == 0 && wrap == GRADIENT && (strncmp(s->name, "amin", 4) == 0 || strncmp(s->name, "amax", 4) == 0)) {
        return 0; /* no element to pass it to */
    }
    return wrap != UNFUSED && wrap != FUSED ? 1 : dtype != LS_BOOL && (data != SPECIAL || ls_dtype_is_float(dtype));
}

void rows_describe(const row *r, char *out, size_t room) {
    static const char *const names[N_FACTORS] = {"", "", "n=", "", "", "", "threads=", ""};
    size_t used = 0;
    for (int f = 0; f < N_FACTORS && used < room; f++) {
        used += (size_t)snprintf(out + used, room - used, "%s%s%s", f ? " " : "", names[f], rows_level_name(f, r->level[f]));
    }
}

int rows_threads(const row *r) {
    return threads[r->level[FACTOR_THREADS]];
}
const char *rows_isa(const row *r) {
    return isas[r->level[FACTOR_ISA]];
}

/* ---- data ---- */

static uint64_t next_bits(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint64_t x = *state;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u >> 11;
}

static double float_sample(uint64_t *state, int data, ls_dtype dtype) {
    static const double special[] = {0, -0.0, 1, -1, __builtin_inf(), -__builtin_inf(), __builtin_nan(""), 1e-41, -3e-45, 1e38, -65504, 6e-8,
                                     1.5, -2.5, 1e-300, 1e300, 0.5, 3};
    double unit = (double)(next_bits(state) >> 1) / 4503599627370496.0;
    if (data == SPECIAL) {
        return special[next_bits(state) % (sizeof special / sizeof *special)];
    }
    if (data == INTEGERS) { /* small enough for every sum here to be exact in f32 */
        return dtype == LS_F16 || dtype == LS_BF16 ? (double)(int)(unit * 3) - 1 : (double)(int)(unit * 17) - 8;
    }
    return (unit * 2 - 1) * (next_bits(state) % 5 == 0 ? 20 : 1);
}

static ls_tensor *base_tensor(ls_session *s, const row *r, int rank, const int64_t *dims, uint64_t seed) {
    ls_dtype dtype = (ls_dtype)r->level[FACTOR_DTYPE];
    int data = r->level[FACTOR_DATA];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        n *= dims[i];
    }
    size_t size = ls_dtype_size(dtype);
    char *bytes = malloc((size_t)n * size + 1);
    uint64_t state = seed * 977 + (uint64_t)r->level[FACTOR_SIZE];
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        if (ls_dtype_is_float(dtype)) {
            bits = ls_value_from_f64(dtype, float_sample(&state, data, dtype));
        } else {
            uint64_t b = next_bits(&state);
            bits = dtype == LS_BOOL ? b & 1 : data == INTEGERS ? b % 9 : data == SPECIAL && b % 3 == 0 ? (b & 8 ? ~UINT64_C(0) : UINT64_C(1) << (8 * size - 1)) : b * 0x9e3779b97f4a7c15u >> 7;
        }
        memcpy(bytes + (size_t)i * size, &bits, size);
    }
    ls_tensor *t = ls_tensor_from(s, dtype, ls_shape_make(rank, dims), bytes);
    free(bytes);
    return t;
}

/* A tensor of shape [n, 3] through the row's view. */
static ls_tensor *operand(ls_session *s, const row *r, uint64_t seed) {
    int64_t n = sizes[r->level[FACTOR_SIZE]];
    switch (r->level[FACTOR_VIEW]) {
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

ls_tensor *rows_build(ls_session *s, const row *r) {
    const subject *subject = &subjects[r->level[FACTOR_SUBJECT]];
    int wrap = r->level[FACTOR_WRAP];
    int64_t n = sizes[r->level[FACTOR_SIZE]];
    ls_tensor *x = operand(s, r, 1), *y = operand(s, r, 2);
    if (!x || !y) {
        return NULL;
    }
    ls_session_set_fusion(s, wrap != UNFUSED);
    ls_tensor *in = x;
    if (wrap == UNFUSED || wrap == FUSED) { /* an operation before and one after, in one kernel or in three */
        in = ls_add(s, x, ls_full(s, ls_tensor_dtype(x), ls_tensor_shape(x), 1));
    }
    ls_tensor *z = subject->build(s, in, y, n);
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

int rows_next(row *r) {
    for (int f = N_FACTORS - 1; f >= 0; f--) {
        if (++r->level[f] < rows_levels(f)) {
            return 1;
        }
        r->level[f] = 0;
    }
    return 0;
}

long rows_product(void) {
    row r = {{0}};
    long n = 0;
    do {
        n += rows_valid(&r);
    } while (rows_next(&r));
    return n;
}

/* ---- the covering array: the first uncovered pair, with the other factors set to cover as many more as a few tries find ---- */

typedef struct cover {
    int offset[N_FACTORS], total;
    char *seen; /* [total][total] */
} cover;

static int count_new(const cover *c, const row *r, int mark) {
    int n = 0;
    for (int i = 0; i < N_FACTORS; i++) {
        for (int j = i + 1; j < N_FACTORS; j++) {
            char *seen = &c->seen[(size_t)(c->offset[i] + r->level[i]) * (size_t)c->total + (size_t)(c->offset[j] + r->level[j])];
            n += !*seen;
            *seen = *seen || mark;
        }
    }
    return n;
}

static int complete(const cover *c, row *r, int i, int j, uint64_t *state) {
    row best;
    int most = -1;
    for (int attempt = 0; attempt < 60; attempt++) {
        row candidate = *r;
        for (int f = 0; f < N_FACTORS; f++) {
            if (f != i && f != j) {
                candidate.level[f] = (int)(next_bits(state) % (uint64_t)rows_levels(f));
            }
        }
        if (rows_valid(&candidate)) {
            int n = count_new(c, &candidate, 0);
            if (n > most) {
                most = n;
                best = candidate;
            }
        }
    }
    if (most < 0) {
        return 0;
    }
    *r = best;
    return 1;
}

row *rows_pairwise(long *out_count) {
    cover c = {{0}, 0, NULL};
    for (int f = 0; f < N_FACTORS; f++) {
        c.offset[f] = c.total;
        c.total += rows_levels(f);
    }
    c.seen = calloc((size_t)c.total, (size_t)c.total);
    long room = 64, n = 0;
    row *rows = malloc(sizeof *rows * (size_t)room);
    uint64_t state = 2024;
    for (int i = 0; i < N_FACTORS; i++) {
        for (int j = i + 1; j < N_FACTORS; j++) {
            for (int a = 0; a < rows_levels(i); a++) {
                for (int b = 0; b < rows_levels(j); b++) {
                    row r = {{0}};
                    r.level[i] = a;
                    r.level[j] = b;
                    char *seen = &c.seen[(size_t)(c.offset[i] + a) * (size_t)c.total + (size_t)(c.offset[j] + b)];
                    if (*seen || !complete(&c, &r, i, j, &state)) {
                        continue;
                    }
                    count_new(&c, &r, 1);
                    if (n == room) {
                        rows = realloc(rows, sizeof *rows * (size_t)(room *= 2));
                    }
                    rows[n++] = r;
                }
            }
        }
    }
    free(c.seen);
    *out_count = n;
    return rows;
}
