/* Tile functions one by one: every instruction set gives the bits of the scalar objects, whatever the number
 * of lanes and the alignment, in place too, and nothing beyond the last lane is written. */
#include "conformance/cpu_cases.h"
#include "backend/cpu/tile.h"
#include <math.h>

enum { LANES = LS_TILE + 88, SIZE = LANES * 8 };

typedef struct buffers {
    _Alignas(64) char a[SIZE + 64], b[SIZE + 64], c[SIZE + 64], d[SIZE + 64], want[SIZE + 64], got[SIZE + 64];
} buffers;

static const ls_tile_isa *isas[LS_CPU_ISA_COUNT];
static ls_cpu cpu;

static int setup(void **state) {
    static buffers all;
    ls_cpu_detect(&cpu);
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        isas[i] = cpu.has[i] ? ls_tile_isa_get((ls_cpu_isa)i) : NULL;
    }
    *state = &all;
    return isas[LS_CPU_SCALAR] ? 0 : 1;
}

static size_t held(ls_dtype dtype) {
    return ls_tile_held_size(dtype);
}

/* Operands in held form: f16 and bf16 as f32 that are exact in them. */
static void fill_held(ls_rng *rng, ls_dtype dtype, char *to) {
    if (dtype == LS_F16 || dtype == LS_BF16) {
        uint16_t half[LANES];
        fill_data(rng, dtype, half, LANES);
        isas[LS_CPU_SCALAR]->load[dtype](to, half, LANES);
    } else {
        fill_data(rng, dtype, to, LANES);
    }
}

static ls_tile_fn map_of(const ls_tile_isa *isa, int op, ls_dtype dtype) {
    return dtype == LS_F64            ? isa->map_f64[op]
           : ls_dtype_is_float(dtype) ? isa->map_f32[op]
                                      : ls_tile_int_fn(isa, (ls_op)op, dtype);
}

static bool same_float(ls_dtype dtype, const char *x, const char *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        double a, b;
        float f, g;
        if (dtype == LS_F64) {
            memcpy(&a, x + 8 * i, 8), memcpy(&b, y + 8 * i, 8);
        } else {
            memcpy(&f, x + 4 * i, 4), memcpy(&g, y + 4 * i, 4);
            a = (double)f, b = (double)g;
        }
        if (memcmp(x + held(dtype) * (size_t)i, y + held(dtype) * (size_t)i, held(dtype)) != 0 &&
            !(a != a && b != b)) {
            return false;
        }
    }
    return true;
}

/* The bytes behind n lanes of a result must be as they were. */
static void assert_untouched(const char *p, size_t bytes) {
    for (size_t i = bytes; i < bytes + 32; i++) {
        assert_int_equal((unsigned char)p[i], 0xa5);
    }
}

static void maps_agree(void **state) {
    buffers *x = *state;
    ls_rng rng = {11, 0};
    static const int64_t counts[] = {0, 1, 3, 8, 15, 16, 17, 31, 64, 100, 511, 512};
    long checked = 0;
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        ls_dtype dtype = (ls_dtype)d;
        size_t size = held(dtype);
        for (int op = 0; op < LS_OP_COUNT; op++) {
            ls_tile_fn scalar = map_of(isas[LS_CPU_SCALAR], op, dtype);
            if (!scalar) {
                continue;
            }
            bool truth = op == LS_OP_EQ || op == LS_OP_NE || op == LS_OP_LT || op == LS_OP_LE ||
                         op == LS_OP_ISNAN || op == LS_OP_ISINF;
            size_t out = truth ? 1 : size;
            fill_held(&rng, dtype, x->a);
            fill_held(&rng, dtype, x->b);
            scalar(x->want, x->a, x->b, NULL, LS_TILE);
            for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
                for (size_t c = 0; isas[i] && c < sizeof counts / sizeof *counts; c++) {
                    size_t n = (size_t)counts[c], shift = c % 3 * size;
                    memset(x->got, 0xa5, sizeof x->got);
                    map_of(isas[i], op, dtype)(x->got + (c % 2) * out, x->a + shift, x->b + shift, NULL,
                                               (int64_t)n);
                    n = n > LS_TILE - 2 ? LS_TILE - 2 : n;
                    const char *want = x->want + c % 3 * out, *got = x->got + (c % 2) * out;
                    bool equal = truth || !ls_dtype_is_float(dtype)
                                     ? !memcmp(want, got, n * out)
                                     : same_float(dtype, want, got, (int64_t)n);
                    if (!equal) {
                        fail_msg("%s %s: %s differs from scalar at %zu lanes", ls_ops[op].name,
                                 ls_dtype_name(dtype), ls_cpu_isa_name((ls_cpu_isa)i), n);
                    }
                    assert_untouched(got, (size_t)counts[c] * out);
                    checked++;
                }
                if (isas[i] && !truth) { /* in place */
                    memcpy(x->c, x->a, SIZE);
                    map_of(isas[i], op, dtype)(x->c, x->c, x->b, NULL, LS_TILE);
                    assert_true(ls_dtype_is_float(dtype) ? same_float(dtype, x->want, x->c, LS_TILE)
                                                         : !memcmp(x->want, x->c, LS_TILE * size));
                }
            }
        }
    }
    print_message("%ld functions and sizes\n", checked);
    assert_true(checked > 1000);
}

static void stores_agree_and_make_nan_canonical(void **state) {
    buffers *x = *state;
    ls_rng rng = {12, 0};
    for (int d = LS_F16; d <= LS_F64; d++) {
        ls_dtype dtype = (ls_dtype)d;
        size_t size = ls_dtype_size(dtype);
        fill_data(&rng, dtype == LS_F64 ? LS_F64 : LS_F32, x->a, LANES);
        for (int nan = 0; nan < 8; nan++) { /* NaNs of any sign and payload */
            uint64_t bits = dtype == LS_F64 ? UINT64_C(0x7ff0000000000000) | ls_rng_u64(&rng) | 1
                                            : 0x7f800000u | ls_rng_u32(&rng) | 1;
            memcpy(x->a + held(dtype) * (size_t)(nan * 61), &bits, held(dtype));
        }
        isas[LS_CPU_SCALAR]->store[dtype](x->want, x->a, LS_TILE);
        uint64_t canonical = dtype == LS_F16    ? LS_NAN_F16
                             : dtype == LS_BF16 ? LS_NAN_BF16
                             : dtype == LS_F32  ? LS_NAN_F32
                                                : LS_NAN_F64;
        for (int nan = 0; nan < 8; nan++) {
            assert_memory_equal(x->want + size * (size_t)(nan * 61), &canonical, size);
        }
        for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
            for (int64_t n = LS_TILE - 12; isas[i] && n <= LS_TILE; n++) {
                memset(x->got, 0xa5, sizeof x->got);
                isas[i]->store[dtype](x->got, x->a, n);
                assert_memory_equal(x->got, x->want, (size_t)n * size);
                assert_untouched(x->got, (size_t)n * size);
            }
        }
    }
}

static void casts_agree(void **state) {
    buffers *x = *state;
    ls_rng rng = {13, 0};
    const ls_tile_isa *scalar = isas[LS_CPU_SCALAR];
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        for (int d = 0; isas[i] && d < LS_F16; d++) {
            const ls_tile_isa *isa = isas[i];
            fill_data(&rng, (ls_dtype)d, x->a, LANES);
            fill_data(&rng, LS_F32, x->b, LANES);
            fill_data(&rng, LS_F64, x->c, LANES);
            struct {
                ls_tile_cast_fn scalar, other;
                const char *from;
                size_t size;
            } rows[] = {{scalar->int_to_f32[d], isa->int_to_f32[d], x->a, 4},
                        {scalar->int_to_f64[d], isa->int_to_f64[d], x->a, 8},
                        {scalar->int_to_odd[d], isa->int_to_odd[d], x->a, 8},
                        {scalar->int_to_bool[d], isa->int_to_bool[d], x->a, 1},
                        {scalar->f32_to_int[d], isa->f32_to_int[d], x->b, ls_dtype_size((ls_dtype)d)},
                        {scalar->f64_to_int[d], isa->f64_to_int[d], x->c, ls_dtype_size((ls_dtype)d)}};
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                rows[r].scalar(x->want, rows[r].from, 509);
                memset(x->got, 0xa5, sizeof x->got);
                rows[r].other(x->got, rows[r].from, 509);
                assert_memory_equal(x->got, x->want, 509 * rows[r].size);
                assert_untouched(x->got, 509 * rows[r].size);
            }
        }
    }
}

/* Integers of another size: the low bytes, with the sign or zeros before them. Of the same size there is none but of 32 bits, for packing. */
static void integers_are_resized(void **state) {
    buffers *x = *state;
    ls_rng rng = {17, 0};
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        for (int d = 0; isas[i] && d < LS_F16; d++) {
            const size_t from = ls_dtype_size((ls_dtype)d);
            fill_data(&rng, (ls_dtype)d, x->a, LANES);
            for (int log2 = 0; log2 < 4; log2++) {
                const size_t to = (size_t)1 << log2;
                ls_tile_cast_fn cast = isas[i]->cast_int[d][log2];
                assert_int_equal(cast != NULL, to != from || to == 4);
                for (size_t k = 0; cast && k < 509; k++) {
                    const uint8_t *value = (const uint8_t *)x->a + k * from;
                    bool minus = ls_dtype_is_signed((ls_dtype)d) && value[from - 1] >> 7;
                    for (size_t b = 0; b < to; b++) {
                        ((uint8_t *)x->want)[k * to + b] = b < from ? value[b] : minus ? 0xff : 0;
                    }
                }
                if (cast) {
                    memset(x->got, 0xa5, sizeof x->got);
                    cast(x->got, x->a, 509);
                    assert_memory_equal(x->got, x->want, 509 * to);
                    assert_untouched(x->got, 509 * to);
                }
            }
        }
    }
}

/* Saturation and NaN at the edges of the ranges, by literals. */
static void casts_saturate(void **state) {
    (void)state;
    const float in[] = {
        __builtin_nanf(""), 2147483520.0f, 2147483648.0f, -2147483648.0f, -3e9f, 1e30f, -1e30f, 0.9f, -0.9f,
        4294967040.0f};
    const int32_t i32[] = {0,         2147483520, INT32_MAX, INT32_MIN, INT32_MIN,
                           INT32_MAX, INT32_MIN,  0,         0,         INT32_MAX};
    const uint32_t u32[] = {0, 2147483520u, 2147483648u, 0, 0, UINT32_MAX, 0, 0, 0, 4294967040u};
    const float few[] = {__builtin_nanf(""), 255.9f, 256, -0.9f, -1, -128.9f, -129, 127.5f, 128, __builtin_inff(), -__builtin_inff(), 65535.5f, 65536, 32767.5f, 32768, -32768.5f};
    const uint8_t u8[] = {0, 255, 255, 0, 0, 0, 0, 127, 128, 255, 0, 255, 255, 255, 255, 0};
    const int8_t i8[] = {0, 127, 127, 0, -1, -128, -128, 127, 127, 127, -128, 127, 127, 127, 127, -128};
    const uint16_t u16[] = {0, 255, 256, 0, 0, 0, 0, 127, 128, 65535, 0, 65535, 65535, 32767, 32768, 0};
    const int16_t i16[] = {0, 255, 256, 0, -1, -128, -129, 127, 128, 32767, -32768, 32767, 32767, 32767, 32767, -32768};
    const struct {
        ls_dtype dtype;
        const void *want;
        size_t bytes;
    } narrow[] = {{LS_U8, u8, sizeof u8}, {LS_I8, i8, sizeof i8}, {LS_U16, u16, sizeof u16}, {LS_I16, i16, sizeof i16}};
    enum { FEW = sizeof few / sizeof *few };
    double wide[FEW];
    for (int k = 0; k < FEW; k++) {
        wide[k] = few[k];
    }
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        int32_t a[10];
        uint32_t b[10];
        if (isas[i]) {
            isas[i]->f32_to_int[LS_I32](a, in, 10);
            isas[i]->f32_to_int[LS_U32](b, in, 10);
            assert_memory_equal(a, i32, sizeof a);
            assert_memory_equal(b, u32, sizeof b);
        }
        for (size_t k = 0; isas[i] && k < sizeof narrow / sizeof *narrow; k++) {
            int16_t got[FEW];
            isas[i]->f32_to_int[narrow[k].dtype](got, few, FEW);
            assert_memory_equal(got, narrow[k].want, narrow[k].bytes);
            isas[i]->f64_to_int[narrow[k].dtype](got, wide, FEW);
            assert_memory_equal(got, narrow[k].want, narrow[k].bytes);
        }
    }
}

/* Windows of an image: columns of three output rows, with padding, against the definition. */
static void packing(void **state) {
    (void)state;
    enum { W = 20, WIDTH = 48, KC = 9 };
    static float image[W * W], panel[KC * WIDTH];
    ls_rng rng = {14, 0};
    for (int i = 0; i < W * W; i++) {
        image[i] = (float)ls_rng_u32(&rng);
    }
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        for (int ow = 1; isas[i] && ow <= W; ow += 3) {
            for (int64_t ni = 1; ni <= WIDTH && ni <= (int64_t)ow * W; ni += 7) {
                int64_t k_at[KC], i_at[WIDTH], limit[2] = {W, W};
                int32_t k_pred[2][WIDTH], i_pred[2][WIDTH];
                for (int p = 0; p < KC; p++) {
                    k_pred[0][p] = p / 3 - 1, k_pred[1][p] = p % 3 - 1;
                    k_at[p] = k_pred[0][p] * W + k_pred[1][p];
                }
                for (int q = 0; q < ni; q++) {
                    i_pred[0][q] = q / ow, i_pred[1][q] = q % ow;
                    i_at[q] = i_pred[0][q] * W + i_pred[1][q];
                }
                memset(panel, 0xa5, sizeof panel);
                isas[i]->pack(panel, WIDTH, image, k_at, KC, i_at, ni, 2, &k_pred[0][0], &i_pred[0][0], WIDTH,
                              limit);
                for (int p = 0; p < KC; p++) {
                    for (int q = 0; q < ni; q++) {
                        int y = k_pred[0][p] + i_pred[0][q], z = k_pred[1][p] + i_pred[1][q];
                        float want = y >= 0 && y < W && z >= 0 && z < W ? image[y * W + z] : 0;
                        assert_true(panel[p * WIDTH + q] == want);
                    }
                    if (ni < WIDTH) {
                        assert_int_equal(((unsigned char *)&panel[p * WIDTH + ni])[0], 0xa5);
                    }
                }
            }
        }
    }
}

/* What a fold's partials become, by the scalar functions. */
static void combine(int op, float *partials, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += LS_TILE_PARTIALS) {
        isas[LS_CPU_SCALAR]->map_f32[op](partials, partials, x + i, NULL, n - i < LS_TILE_PARTIALS ? n - i : LS_TILE_PARTIALS);
    }
}

static void assert_same(const float *want, const float *got, int64_t n, const char *what, int64_t lanes) {
    if (!same_float(LS_F32, (const char *)want, (const char *)got, n)) {
        fail_msg("%s differs at %lld lanes", what, (long long)lanes);
    }
}

/* Partials that go to other lanes: each sum has 64 lanes or more, so that so many additions follow each other at most. Of what is no number, or
 * beyond all of them, either total is. */
static void assert_same_total(const float *want, const float *got, int64_t n, const char *what) {
    double totals[2] = {0}, most = (double)(n / 32 + 8) * 0x1p-24;
    for (int i = 0; i < LS_TILE_PARTIALS; i++) {
        totals[0] += (double)want[i];
        totals[1] += (double)got[i];
    }
    const bool same = isfinite(totals[0]) ? fabs(totals[1] - totals[0]) <= most * totals[0] : isnan(totals[0]) ? isnan(totals[1]) : totals[1] == totals[0];
    if (!same) {
        fail_msg("%s of %lld lanes: %.9g, expected %.9g", what, (long long)n, totals[1], totals[0]);
    }
}

/* The largest number of another row, found meanwhile; nothing is said of a row with NaN. */
static void assert_highest(const float *x, int64_t n, float got) {
    float most = -INFINITY;
    bool any_nan = false;
    for (int64_t i = 0; x && i < n; i++) {
        any_nan = any_nan || isnan(x[i]);
        most = x[i] > most ? x[i] : most;
    }
    assert_true(!x || any_nan || got == most);
}

/* Quotients of another row, which a fold makes meanwhile: divide_f32's own where it makes whole vectors of them. */
static float beside_x[LANES + 4], beside_got[LANES + 16] __attribute__((aligned(64)));

static void divides_beside(const ls_tile_isa *isa, ls_tile_beside *b, const float *x, float divisor, bool far) {
    for (int i = 0; i < LANES; i++) {
        const float v = x[i % (LANES - 8)], least = b->near ? -INFINITY : 0x1p-57f, most = b->near ? INFINITY : 1; /* as exponentials are */
        beside_x[i] = v >= least && v <= most ? v : (float)(1 + i) / LANES;
    }
    memset(beside_got, 0xa5, sizeof beside_got);
    assert_true(isa->beside_f32(b, divisor));
    b->x = beside_x;
    b->dst = beside_got;
    b->far = far;
}

static void divided_beside(const ls_tile_isa *isa, const ls_tile_beside *b, int64_t n) {
    static float want[LANES];
    const int64_t whole = n / 64 * 64;
    if (!b->x) {
        return;
    }
    isa->far->fence();
    isa->divide_f32(want, b->x, 0, b->divisor, whole, b->near, LS_DST_NEAR);
    assert_same(want, b->dst, whole, "a quotient beside", n);
    isa->divide_f32(want, b->x + whole, 0, b->divisor, n - whole, b->near, LS_DST_NEAR);
    assert_same(want, b->dst + whole, n - whole, "a quotient beside, of the last ones", n);
    uint32_t after;
    memcpy(&after, b->dst + n, sizeof after);
    assert_int_equal(after, 0xa5a5a5a5);
}

/* Behind the folds of ls_tile_isa. */
enum { SQUARES = LS_FOLDS, EXPS, FAST_EXPS, HALVES };
static bool is_exp(int f) {
    return f == EXPS || f == FAST_EXPS;
}

/* Two tiles of a block, into partials that hold nothing yet and then something: sums, products and extremes, of x, of squares and of exponentials. */
static void folds_agree(void **state) {
    buffers *b = *state;
    static const int ops[] = {LS_OP_ADD, LS_OP_MUL, LS_OP_MIN, LS_OP_MAX};
    static const float identities[] = {0, 1, INFINITY, -INFINITY};
    ls_rng rng = {15, 0};
    long checked = 0;
    for (int seed = 0; seed < 400; seed++) {
        float want[LS_TILE_PARTIALS], got[LS_TILE_PARTIALS], *x = (float *)(void *)b->a, *y = (float *)(void *)b->c, *z = (float *)(void *)b->d;
        int64_t n = draw(&rng, 1, LS_TILE), shift = draw(&rng, 0, 3);
        float minus = seed % 3 ? (float)draw(&rng, -40, 40) / 8 : 0;
        fill_data(&rng, LS_F32, x, LANES);
        for (int i = 0; seed % 2 && i < LANES; i++) { /* numbers only, among them both zeros */
            x[i] = (float)draw(&rng, -9, 9) * (seed % 4 == 1 ? 1.0f : -0.0f);
        }
        for (int i = 0; seed % 8 == 3 && i < LANES; i++) { /* beneath one, some of them by more than 64 */
            minus = 9;
            x[i] = 9 - (float)draw(&rng, 0, seed % 16 == 3 ? 9999 : 6500) / 100;
        }
        for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
            const ls_tile_isa *isa = isas[i];
            for (int f = 0; isa && isa->fold_f32[0] && f <= HALVES; f++) {
                int op = f < LS_FOLDS ? f : 0;
                if ((f == HALVES && !isa->fold_sum_halves_f32) || (is_exp(f) && !isa->fold_exp_f32[f - EXPS])) { /* which not each instruction set has */
                    continue;
                }
                for (int k = 0; k < LS_TILE_PARTIALS; k++) {
                    want[k] = identities[op];
                }
                for (int second = 0; second < 2; second++) {
                    const float *from = x + shift + second;
                    memcpy(y, from, sizeof *x * (size_t)n);
                    for (int64_t k = 0; (f == SQUARES || is_exp(f)) && k < n; k++) {
                        y[k] = f == SQUARES ? (from[k] - minus) * (from[k] - minus) : from[k] - minus;
                    }
                    if (is_exp(f)) {
                        (f == EXPS ? isa->map_f32 : isa->map_fast)[LS_OP_EXP](y, y, NULL, NULL, n);
                    }
                    combine(ops[op], want, y, n);
                    if (f < LS_FOLDS) {
                        isa->fold_f32[f](got, from, n, !second, n & 1);
                    } else if (f == HALVES) {
                        isa->fold_sum_halves_f32(got, from, n, !second);
                    } else if (f == SQUARES) {
                        isa->fold_squares_f32(got, from, minus, n, !second, n & 1);
                    } else {
                        memset(z, 0xa5, SIZE);
                        ls_tile_beside beside = {.fetch = (uintptr_t)z, .near = f == FAST_EXPS};
                        if (seed % 5) {
                            divides_beside(isa, &beside, x + 4 - shift, (float)draw(&rng, 1, 99) / 7, seed % 2 && n % 64 == 0);
                        }
                        float highest = NAN;
                        beside.next = seed % 3 ? x + seed % 7 : NULL;
                        beside.highest = &highest;
                        isa->fold_exp_f32[f - EXPS](got, z, from, minus, n, !second, &beside);
                        divided_beside(isa, &beside, n);
                        assert_highest(beside.next, n, highest);
                        assert_same(y, z, n, "an exponential", n);
                        assert_untouched((char *)z, sizeof *z * (size_t)n);
                    }
                    if (f == FAST_EXPS) {
                        assert_same_total(want, got, n, "a fast sum of exponentials");
                        memcpy(want, got, sizeof want);
                    } else {
                        assert_same(want, got, LS_TILE_PARTIALS, f < LS_FOLDS ? ls_ops[ops[f]].name : f == SQUARES ? "a sum of squares" : f == HALVES ? "a sum by halves" : "a sum of exponentials", n);
                    }
                    checked++;
                }
                ls_fold_rows_fn whole = f < LS_FOLDS ? isa->rows_f32[f] : f == SQUARES ? isa->rows_squares_f32 : NULL;
                if (whole) {
                    const int64_t lanes = seed % 4 < 2 ? n + 80 : (n + LS_TILE_PARTIALS - 1) / LS_TILE_PARTIALS * LS_TILE_PARTIALS; /* whole steps, too */
                    float row[LANES + 3];
                    for (int i = 0; i < LANES; i++) { /* sums that depend on their order */
                        row[i + shift] = seed % 3 ? (float)draw(&rng, -9999, 9999) / 7 : x[i];
                    }
                    memcpy(y, row + shift, sizeof *x * (size_t)lanes);
                    for (int64_t k = 0; f == SQUARES && k < lanes; k++) {
                        y[k] = (y[k] - minus) * (y[k] - minus);
                    }
                    const int64_t rows = 1 + (2 * lanes <= LANES), length = lanes / rows;
                    float own[LS_TILE_PARTIALS], of_rows[2];
                    whole(of_rows, row + shift, minus, length, rows, seed % 2 * LS_FOLD_AHEAD);
                    for (int64_t r = 0; r < rows; r++) {
                        for (int k = 0; k < LS_TILE_PARTIALS; k++) {
                            own[k] = identities[op];
                        }
                        combine(ops[op], own, y + r * length, length);
                        for (int half = LS_TILE_PARTIALS / 2; half > 0; half /= 2) {
                            isas[LS_CPU_SCALAR]->map_f32[ops[op]](own, own, own + half, NULL, half);
                        }
                        assert_same(own, &of_rows[r], 1, "a row", length);
                    }
                }
                for (int half = LS_TILE_PARTIALS / 2; half > 0; half /= 2) {
                    isas[LS_CPU_SCALAR]->map_f32[ops[op]](want, want, want + half, NULL, half);
                }
                isa->halve_f32[op](got);
                assert_same(want, got, 1, "a halving", n);
            }
        }
    }
    print_message("%ld folds\n", checked);
}

/* Rows folded one after another into what is there, and the first place of a number. */
static void rows_fold_onto(void **state) {
    buffers *b = *state;
    static const int ops[] = {LS_OP_ADD, LS_OP_MUL, LS_OP_MIN, LS_OP_MAX};
    static const float identities[] = {0, 1, INFINITY, -INFINITY};
    ls_rng rng = {16, 0};
    for (int seed = 0; seed < 200; seed++) {
        float *x = (float *)(void *)b->a, *got = (float *)(void *)b->c, want[LANES];
        const int64_t n = draw(&rng, 1, 90), rows = draw(&rng, 0, 11), apart = draw(&rng, n, n + 9);
        const bool first = seed % 2, fetches = seed % 3;
        fill_data(&rng, LS_F32, x, LANES);
        for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
            const ls_tile_isa *isa = isas[i];
            for (int f = 0; isa && isa->onto_f32[0] && f < LS_FOLDS; f++) {
                memset(got, 0xa5, SIZE);
                for (int64_t k = 0; k < n; k++) {
                    want[k] = first ? identities[f] : x[LANES - 1 - k];
                    got[k] = first ? NAN : want[k];
                }
                for (int64_t r = 0; r < rows; r++) {
                    isas[LS_CPU_SCALAR]->map_f32[ops[f]](want, want, x + r * apart, NULL, n);
                }
                isa->onto_f32[f](got, x, apart, rows, n, first, fetches ? x : NULL, seed % 5 == 0);
                assert_same(want, got, n, ls_ops[ops[f]].name, n);
                assert_untouched((char *)got, sizeof *got * (size_t)n);
            }
            if (isa) {
                const float found = x[draw(&rng, 0, n - 1)];
                int64_t place = 0;
                while (x[place] != found && (x[place] == x[place] || found == found)) {
                    place++;
                }
                assert_int_equal(isa->place_f32(x, n, found), place);
                assert_int_equal(isa->place_f32(x, place, found), place);
            }
        }
    }
}

/* The sum of n numbers in the contract's order. */
static float sum_of(const float *x, int64_t n) {
    float p[LS_TILE_PARTIALS] = {0};
    combine(LS_OP_ADD, p, x, n);
    for (int half = LS_TILE_PARTIALS / 2; half > 0; half /= 2) {
        isas[LS_CPU_SCALAR]->map_f32[LS_OP_ADD](p, p, p + half, NULL, half);
    }
    return *p;
}

/* How far a norm in fast arithmetic may be from the exact one: sums in any order of so many additions one after another, products fused or
 * not, the quotient a product by the rounded reciprocal. */
static double norm_bound(const ls_tile_row_norm *norm, const float *x, int64_t i, double *exact) {
    const double u = 0x1p-24, additions = (double)norm->n / 32 + 12;
    double sum = 0, magnitudes = 0, squares = 0, distances = 0;
    for (int64_t k = 0; k < norm->n; k++) {
        sum += (double)x[k];
        magnitudes += fabs((double)x[k]);
    }
    const double count = (double)norm->count, mean = norm->centred ? sum / count : 0;
    const double of_mean = norm->centred ? (additions + 1) * u * magnitudes / count : 0;
    for (int64_t k = 0; k < norm->n; k++) {
        const double v = (double)x[k] - mean;
        squares += v * v;
        distances += fabs(v);
    }
    const double of_squares = 2 * of_mean * distances + (double)norm->n * of_mean * of_mean + (additions + 4) * u * squares;
    const double variance = squares / count + (double)norm->more, of_variance = of_squares / count + 2 * u * variance;
    const double divisor = sqrt(variance), least = sqrt(fmax(variance - of_variance, 0)), of_divisor = fmax(divisor - least, u * divisor) + u * divisor;
    const double v = (double)x[i] - mean, q = v / divisor, times = norm->times ? (double)norm->times[i] : 1, plus = norm->plus ? (double)norm->plus[i] : 0;
    const double of_quotient = (of_mean + u * fabs(v)) / least + fabs(v) * of_divisor / (least * divisor) + 4 * u * fabs(q);
    *exact = q * times + plus;
    return 1.01 * (of_quotient * fabs(times) + 2 * u * (fabs(q * times) + fabs(*exact)));
}

/* One row, a step after another; `near` results are what was `got` where that is near enough, and `sharp` counts bounds of some ULPs. */
static void norm_plainly(const ls_tile_row_norm *norm, const float *x, float *want, const float *got, long *sharp) {
    float apart[LANES];
    const float mean = norm->centred ? sum_of(x, norm->n) / norm->count : 0;
    for (int64_t i = 0; i < norm->n; i++) {
        apart[i] = (x[i] - mean) * (x[i] - mean);
    }
    const float divisor = sqrtf(sum_of(apart, norm->n) / norm->count + norm->more);
    for (int64_t i = 0; i < norm->n; i++) {
        float q = (x[i] - mean) / divisor;
        q = norm->times ? q * norm->times[i] : q;
        q = norm->plus ? q + norm->plus[i] : q;
        want[i] = q == q ? q : NAN;
        if (norm->near && isfinite(divisor) && isfinite(q)) {
            double exact, bound = norm_bound(norm, x, i, &exact);
            want[i] = fabs((double)got[i] - exact) <= bound || got[i] == q ? got[i] : q; /* of either zero */
            *sharp += bound < 0x1p-17 * (1 + fabs(exact));
        }
    }
}

static void norms_of_rows_agree(void **state) {
    buffers *b = *state;
    static const uint32_t canonical = 0x7fc00000;
    ls_rng rng = {16, 0};
    long checked = 0, near_ones = 0, sharp = 0;
    for (int seed = 0; seed < 1500; seed++) {
        enum { MOST_ROWS = 5 };
        static float x[MOST_ROWS * LANES], dst[MOST_ROWS * (LANES + 16)] __attribute__((aligned(64)));
        float *times = (float *)(void *)b->a, *plus = (float *)(void *)b->b, want[LANES];
        const int64_t n = seed % 3 ? draw(&rng, 1, LANES) : 16 * draw(&rng, 1, LANES / 16), rows = seed % 5 ? draw(&rng, 1, MOST_ROWS) : MOST_ROWS, step = (n + 15) / 16 * 16;
        for (int64_t i = 0; i < MOST_ROWS * LANES; i++) {
            x[i] = (float)draw(&rng, -9999, 9999) / (seed % 7 ? 7 : 1e20f);
        }
        for (int i = 0; i < LANES; i++) {
            times[i] = (float)draw(&rng, -99, 99) / 7;
            plus[i] = (float)draw(&rng, -99, 99) / 9;
        }
        const bool near = seed % 2;
        float more = seed % 3 ? 1e-5f : 0;
        if (seed % 9 == 0) { /* next to one number, of any magnitude; quotients that are near may not be subnormal */
            const float most = ldexpf((float)draw(&rng, 10, 19) / 10, (int)draw(&rng, near ? -40 : -110, 62));
            for (int64_t i = 0; i < MOST_ROWS * LANES; i++) {
                x[i] = most * (1 - (float)draw(&rng, 0, 5) * 0x1p-23f);
            }
            more = near || seed % 4 ? 1e-5f : 0x1p100f;
        } else if (seed % 9 == 2 && !near) { /* from their mean, 0, as far as some or next to nothing */
            for (int64_t i = 0; i < MOST_ROWS * LANES; i++) {
                x[i] = i % 4 < 2 ? (float)(i % 2 ? 3 : -3) : ldexpf((float)draw(&rng, 1 << 23, 1 << 24), (int)draw(&rng, -149, -120));
            }
        }
        if (seed % 13 < 4) {
            *(seed / 13 % 2 ? times : plus) = seed / 26 % 2 ? INFINITY : -NAN;
        }
        if (seed % 5 == 0) { /* one with NaN or an infinity, or neither, and one that is constant */
            x[draw(&rng, 0, n - 1)] = (float[]){-NAN, INFINITY, 1e30f, 2}[seed / 5 % 4];
            for (int64_t i = 0; i < n; i++) {
                x[n + i] = 3;
            }
        }
        const bool scales = draw(&rng, 0, 1), shifts = draw(&rng, 0, 1);
        ls_tile_row_norm norm = {.x = x, .n = n, .x_row = n, .dst = dst, .dst_row = step, .count = (float)n, .more = more, .centred = draw(&rng, 0, 2) > 0, .near = near, .finite = isfinite(scales ? *times : 0) && isfinite(shifts ? *plus : 0),
                                 .fetches = seed % 4 < 2, .fetches_second = seed % 5 < 2, .far = seed % 8 < 4, .times = scales ? times : NULL, .plus = shifts ? plus : NULL};
        for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
            if (!isas[i] || !isas[i]->row_norms_f32) {
                continue;
            }
            memset(dst, 0xa5, sizeof dst);
            isas[i]->row_norms_f32(&norm, rows);
            isas[i]->far->fence();
            for (int64_t r = 0; r < rows; r++) {
                const float *got = dst + r * step;
                norm_plainly(&norm, x + r * n, want, got, &sharp);
                near_ones += near ? n : 0;
                assert_same(want, got, n, "a norm", n);
                for (int64_t k = 0; k < n; k++) {
                    assert_true(got[k] == got[k] || !memcmp(&got[k], &canonical, sizeof canonical));
                }
                uint32_t after = 0xa5a5a5a5;
                assert_true(step == n || !memcmp(&after, &got[n], sizeof after));
                checked++;
            }
        }
    }
    print_message("%ld rows, %ld elements of fast arithmetic, %ld of them with a bound of 2^-17 or less\n", checked, near_ones, sharp);
    assert_true(checked == 0 || sharp > near_ones / 2); /* WebAssembly has no such norms */
}

/* Blocks of words turned: whole ones and what is left, with rows at pages from each other, past the caches, with NaN as they are or canonical. */
static void blocks_are_turned(void **state) {
    (void)state;
    enum { MOST = 90, MOST_LANES = 150, APART = 160, WIDEST = 2048 };
    static uint32_t src[MOST_LANES * WIDEST + WIDEST], dst[MOST * APART + 16] __attribute__((aligned(64)));
    static const int64_t strides[] = {MOST, 96, 1024, WIDEST, 1001};
    ls_rng rng = {23, 0};
    long checked = 0;
    for (size_t i = 0; i < sizeof src / sizeof *src; i++) {
        src[i] = i % 7 ? ls_rng_u32(&rng) : 0xff812345u; /* a NaN that is not canonical */
    }
    for (int seed = 0; seed < 400; seed++) {
        const int64_t rows = seed % 3 ? draw(&rng, 1, MOST) : 32, lanes = seed % 3 ? draw(&rng, 1, MOST_LANES) : 16, stride = strides[seed % 5];
        const int64_t shift = seed % 4 == 1 ? draw(&rng, 1, 15) : 0, step = seed % 4 == 2 ? MOST_LANES + 1 : APART;
        const bool canonical = seed % 2, stream = seed / 2 % 2;
        for (int k = 0; k < LS_CPU_ISA_COUNT; k++) {
            if (!isas[k]) {
                continue;
            }
            memset(dst, 0xa5, sizeof dst);
            isas[k]->transpose(dst + shift, step, src + shift, stride, rows, lanes, canonical, stream);
            if (isas[k]->far) {
                isas[k]->far->fence();
            }
            for (int64_t at = 0; at < (int64_t)(sizeof dst / sizeof *dst); at++) {
                const int64_t r = (at - shift) / step, i = (at - shift) % step;
                uint32_t want = 0xa5a5a5a5u;
                if (at >= shift && r < rows && i < lanes) {
                    want = src[shift + i * stride + r];
                    want = canonical && (want & 0x7fffffffu) > 0x7f800000u ? LS_NAN_F32 : want;
                }
                assert_int_equal(dst[at], want);
            }
            checked++;
        }
    }
    print_message("%ld blocks\n", checked);
}

/* Many rows give what each gives alone. */
static void rows_of_quarters(void **state) {
    (void)state;
    enum { MOST = 72 * 1024 };
    static float x[MOST], together[MOST / LS_TILE_PARTIALS], alone;
    ls_rng rng = {ls_rng_key(91, 0), 0};
    for (int i = 0; i < MOST; i++) {
        x[i] = i % 9973 == 5 ? NAN : i % 1009 == 0 ? -0.0f : (float)draw(&rng, -9999, 9999) / 7;
    }
    for (int s = 0; s < LS_CPU_ISA_COUNT; s++) {
        for (int f = 0; isas[s] && f < LS_FOLDS; f++) {
            const ls_fold_rows_fn whole = isas[s]->quarters_f32[f];
            for (int64_t n = LS_TILE_PARTIALS; whole && n <= 4 * LS_TILE_PARTIALS; n += n == 2 * LS_TILE_PARTIALS ? 80 : LS_TILE_PARTIALS / 2) {
                const int64_t rows = MOST / 4 / n + n % 7;
                whole(together, x, 0, n, rows, 0);
                for (int64_t r = 0; r < rows; r++) {
                    isas[s]->rows_f32[f](&alone, x + r * n, 0, n, 1, 0);
                    assert_same(&alone, &together[r], 1, "a row of many", r);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_agree), cmocka_unit_test(stores_agree_and_make_nan_canonical),
        cmocka_unit_test(casts_agree), cmocka_unit_test(integers_are_resized), cmocka_unit_test(casts_saturate), cmocka_unit_test(packing), cmocka_unit_test(folds_agree), cmocka_unit_test(rows_of_quarters), cmocka_unit_test(rows_fold_onto),
        cmocka_unit_test(norms_of_rows_agree), cmocka_unit_test(blocks_are_turned)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
