/* Every pure instruction over awkward bits: as the legal kernel does it on a hostile device (legal_support.h), and by
 * ls_kir_eval. LOCKSTEP_LEGAL=text runs the cases whose name contains it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "kir/build_math.h"
#include "kir_fixture.h"
#include "legal_support.h"
#include <stdio.h>

enum { MOST = 1 << 18 };

#define LAVAPIPE                                                                                             \
    (LS_KT_INT64 | LS_KT_FLOAT64 | LS_KT_BYTES | LS_KT_HALVES | LS_KT_UNFUSED32 | LS_KT_SUBNORMAL32 |        \
     LS_KT_DIV32 | LS_KT_SQRT32 | LS_KT_ROUND32 | LS_KT_CAST32 | LS_KT_FLOAT_BITS | LS_KT_ORDER32)
#define WEBGPU (LS_KT_FLOAT_BITS | LS_KT_SQRT32 | LS_KT_ROUND32 | LS_KT_CAST32)

static const ls_dtype types[] = {LS_BOOL, LS_U8,  LS_U16,  LS_U32, LS_U64, LS_I8, LS_I16,
                                 LS_I32,  LS_I64, LS_BF16, LS_F16, LS_F32, LS_F64};
enum { N_TYPES = sizeof types / sizeof *types };

/* ---- values ---- */

static uint64_t awkward_float(ls_rng *rng, ls_dtype t, uint64_t near) {
    int bits = ls_dtype_bits(t), fraction = t == LS_F64 ? 52 : t == LS_F32 ? 23 : t == LS_F16 ? 10 : 7;
    uint64_t sign = ls_rng_u64(rng) << (bits - 1),
             all = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
    uint64_t top = (all >> 1) >> fraction, e = 0, f = ls_rng_u64(rng);
    switch (ls_rng_below(rng, 12)) {
    case 0: /* a special one */
        e = ls_rng_below(rng, 2) * top;
        f = ls_rng_below(rng, 3) == 0 ? f : 0;
        break;
    case 1: /* subnormal, few bits or many */
        f >>= 64 - fraction + ls_rng_below(rng, (uint64_t)fraction);
        break;
    case 2: /* the least exponents */
        e = ls_rng_below(rng, 30) % top;
        break;
    case 3:
        e = top - 1 - ls_rng_below(rng, 4);
        break;
    case 4: /* small whole numbers and halves */
    case 5:
        e = (top >> 1) - 2 + ls_rng_below(rng, (uint64_t)fraction + 6);
        f &= ~UINT64_C(0) << ls_rng_below(rng, (uint64_t)fraction + 1);
        break;
    case 6: /* a power of two, or next to one */
        e = ls_rng_below(rng, top);
        f = ls_rng_below(rng, 3) - 1;
        break;
    case 7: /* around what came before, and its negative */
    case 8:
        return (near + ls_rng_below(rng, 5) - 2 + sign) & all;
    case 9: /* around integers' edges */
        e = (top >> 1) + (uint64_t[]){7, 8, 15, 16, 31, 32, 63, 64}[ls_rng_below(rng, 8)] -
            ls_rng_below(rng, 2);
        f = ls_rng_below(rng, 4) ? ls_rng_below(rng, 5) - 2 : f;
        e = e > top ? top : e;
        break;
    default:
        return ls_rng_u64(rng) & all;
    }
    return (sign | e << fraction | (f & ((UINT64_C(1) << fraction) - 1))) & all;
}

static uint64_t awkward_int(ls_rng *rng, uint64_t near) {
    uint64_t v = ls_rng_u64(rng);
    switch (ls_rng_below(rng, 6)) {
    case 0:
        return v >> ls_rng_below(rng, 64);
    case 1:
        return 0 - (v >> ls_rng_below(rng, 64));
    case 2:
        return (UINT64_C(1) << ls_rng_below(rng, 64)) + ls_rng_below(rng, 5) - 2;
    case 3:
        return ls_rng_below(rng, 70) - 3;
    case 4:
        return near + ls_rng_below(rng, 5) - 2;
    default:
        return v;
    }
}

static uint64_t awkward(ls_rng *rng, ls_dtype t, uint64_t near) {
    return ls_dtype_is_float(t) ? awkward_float(rng, t, near) : ls_kir_wrap(t, awkward_int(rng, near));
}

/* ---- one case ---- */

static uint64_t in[3][MOST];
static uint8_t bytes[4][MOST * 8 + 64];

static void put(ls_dtype t, uint8_t *to, int i, uint64_t v) {
    size_t size = ls_dtype_size(t);
    memcpy(to + (size_t)i * size, &v, size); /* little-endian */
}
static uint64_t get(ls_dtype t, const uint8_t *from, int i) {
    uint64_t v = 0;
    memcpy(&v, from + (size_t)i * ls_dtype_size(t), ls_dtype_size(t));
    return t == LS_BOOL ? v != 0 : ls_kir_wrap(t, v);
}

typedef struct one_case {
    ls_kop op;
    ls_dtype to, from[3]; /* result, sources */
    int n, lanes;
    int known;      /* 0, or source `known` - 1 is the constant that in[] has everywhere */
} one_case;

static void build(const one_case *c, ls_kernel *out) {
    ls_kb kb, *k = &kb;
    ls_val s[3] = {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE};
    int mem[3], sources = ls_kops[c->op].sources;
    ls_kb_init(k, &arena, "case", &err);
    for (int i = 0; i < sources; i++) {
        mem[i] = ls_kb_global(k, "x", c->from[i], LS_MEM_READ, c->n);
    }
    int to = ls_kb_global(k, "out", c->to, LS_MEM_WRITE, c->n);
    ls_kb_workgroup(k, 64, 1, 1);
    ls_kb_grid(k, 0, c->n, LS_VAL_NONE, 64 * c->lanes);
    ls_val at = ls_kb_add(k, ls_kb_mul(k, ls_kb_group_id(k, 0), ls_kb_i32(k, 64)), ls_kb_local_id(k, 0));
    at = ls_kb_mul(k, at, ls_kb_i32(k, c->lanes));
    ls_val inside = ls_kb_lt(k, at, ls_kb_i32(k, c->n));
    for (int i = 0; i < sources; i++) {
        ls_val other = ls_kb_splat(k, ls_kb_const_bits(k, c->from[i], 1), c->lanes);
        s[i] = i + 1 == c->known ? ls_kb_splat(k, ls_kb_const_bits(k, c->from[i], in[i][0]), c->lanes)
                                 : ls_kb_load(k, mem[i], at, inside, other, c->lanes);
    }
    ls_val r = c->op == LS_K_CAST      ? ls_kb_cast(k, s[0], c->to)
               : c->op == LS_K_BITCAST ? ls_kb_bitcast(k, s[0], c->to)
                                       : ls_kb_pure(k, c->op, s[0], s[1], s[2], 0);
    ls_kb_store(k, to, at, ls_dtype_is_float(c->to) ? ls_kb_canon(k, r) : r, inside);
    assert_ok(ls_kb_finish(k, out));
}

static uint64_t expected(const one_case *c, int i) {
    uint64_t s[3] = {in[0][i], in[1][i], in[2][i]};
    if (c->op == LS_K_BITCAST && (c->from[0] == LS_F16 || c->from[0] == LS_BF16)) { /* as legal.h says */
        s[0] = ls_kir_eval(LS_K_CANON, c->from[0], c->from[0], s);
    }
    uint64_t v = c->op == LS_K_CAST && c->to == c->from[0] ? s[0] : ls_kir_eval(c->op, c->to, c->from[0], s);
    return ls_dtype_is_float(c->to) ? ls_kir_eval(LS_K_CANON, c->to, c->to, (uint64_t[3]){v, 0, 0}) : v;
}

static void describe(const one_case *c, uint32_t traits, char *text) {
    sprintf(text, "%s %s from %s x%d traits %04x", ls_kops[c->op].name, ls_dtype_name(c->to),
            ls_dtype_name(c->from[0]), c->lanes, traits);
}

static long runs, refused;

/* Differences are printed; their number is given. */
static int run_case(const one_case *c, uint32_t traits) {
    ls_kernel kernel, legal, simple, foe;
    const ls_legal_param *params;
    ls_interp_buffer buffers[4];
    int64_t values[8];
    char text[120];
    int sources = ls_kops[c->op].sources, wrong = 0;
    const char *only = getenv("LOCKSTEP_LEGAL");
    describe(c, traits, text);
    if (only && !strstr(text, only)) {
        return 0;
    }
    build(c, &kernel);
    ls_status status = ls_kernel_legalize(&arena, &kernel, traits, &legal, &params, &err);
    if (status == LS_ERR_UNSUPPORTED) {
        bool f64 = c->to == LS_F64 || c->from[0] == LS_F64 || c->from[1] == LS_F64;
        bool fma = c->op == LS_K_FMA && c->to != LS_F16 && !(traits & LS_KT_FMA32);
        assert_true(fma ||
                    (f64 && (traits & (LS_KT_FLOAT64 | LS_KT_INT64)) != (LS_KT_FLOAT64 | LS_KT_INT64)));
        refused++;
        ls_error_clear(&err);
        ls_arena_free(&arena);
        return 0;
    }
    assert_ok(status);
    assert_ok(ls_kernel_simplify(&arena, &legal, NULL, &simple, &err));
    assert_legal(&simple, traits);
    make_hostile(&simple, traits, &foe);
    for (int i = 0; i <= sources; i++) {
        int buffer = i < sources ? i : 3;
        ls_dtype t = i < sources ? c->from[i] : c->to;
        for (int j = 0; j < c->n && i < sources; j++) {
            put(t, bytes[i], j, in[i][j]);
        }
        memset(bytes[3], 0xa5, (size_t)c->n * 8 + 64);
        buffers[i] = (ls_interp_buffer){bytes[buffer],
                                        (int64_t)((size_t)c->n * ls_dtype_size(t) + 3) /
                                            (int64_t)ls_dtype_size(simple.mems[i].dtype),
                                        false};
    }
    legal_values(&simple, params, NULL, values);
    ls_interp_launch launch = {.buffers = buffers, .params = values, .seed = 5};
    status = ls_kernel_interp(&heap, &foe, &launch, &err);
    if (status != LS_OK) {
        print_error("%s: %s\n", text, err.message);
        ls_error_clear(&err);
        wrong++;
    }
    for (int i = 0; i < c->n && status == LS_OK; i++) {
        uint64_t v = get(c->to, bytes[3], i), e = expected(c, i);
        if (v != e && wrong++ < 3) {
            print_error("%s: (%llx, %llx, %llx): %llx, expected %llx\n", text, (unsigned long long)in[0][i],
                        (unsigned long long)in[1][i], (unsigned long long)in[2][i], (unsigned long long)v,
                        (unsigned long long)e);
        }
    }
    for (int i = 0; i < 64 && status == LS_OK; i++) { /* nothing beyond the padding of the last word */
        size_t end = ((size_t)c->n * ls_dtype_size(c->to) + 3) / 4 * 4;
        wrong += bytes[3][end + (size_t)i] != 0xa5;
    }
    free(foe.body);
    runs++;
    ls_arena_free(&arena);
    return wrong > 0;
}

static bool well_typed(const one_case *c) {
    ls_ins body[4];
    for (int i = 0; i < 3; i++) {
        body[i] = (ls_ins){LS_K_CONST, c->from[i], 1, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, 0};
    }
    body[3] = (ls_ins){c->op, c->to, 1, 0, {0, LS_VAL_NONE, LS_VAL_NONE}, 0};
    for (int i = 1; i < ls_kops[c->op].sources; i++) {
        body[3].src[i] = i;
    }
    ls_kernel k = {.name = "typed", .body = body, .n_body = 4};
    bool ok = ls_kir_check_types(&k, 3, &err) == LS_OK;
    ls_error_clear(&err);
    return ok;
}

static void fill(one_case *c, int n, uint64_t seed) {
    ls_rng rng = {ls_rng_key(seed, c->op), 0};
    int sources = ls_kops[c->op].sources;
    ls_dtype t = c->from[0];
    c->n = n;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < sources; j++) {
            in[j][i] = awkward(&rng, c->from[j], j ? in[j - 1][i] : 0);
        }
        if (ls_dtype_bits(t) <= 16 && n >= 1 << 16) {
            in[0][i] = ls_kir_wrap(t, (uint64_t)i); /* all of them */
        }
    }
}

/* Every instruction and type. */
static int run_all(uint32_t traits, int n) {
    int wrong = 0;
    for (int op = 0; op < LS_K_COUNT; op++) {
        for (int t = 0; t < N_TYPES && ls_kops[op].kind == LS_KC_PURE; t++) {
            bool converts = op == LS_K_CAST || op == LS_K_BITCAST;
            for (int from = converts ? 0 : t; from < (converts ? N_TYPES : t + 1); from++) {
                bool compares = op == LS_K_EQ || op == LS_K_NE || op == LS_K_LT || op == LS_K_LE;
                one_case c = {.op = (ls_kop)op, .to = compares ? LS_BOOL : types[t], .lanes = 1};
                for (int i = 0; i < 3; i++) {
                    c.from[i] = op == LS_K_SELECT && i == 0 ? LS_BOOL : types[from];
                }
                if (well_typed(&c) && !(converts && t == from)) {
                    c.lanes = (t + from + op) % 4 == 0 ? 4 : (t + from + op) % 4 == 1 ? 2 : 1;
                    fill(&c, n + (c.lanes == 1 ? 1 : 0), 11);
                    wrong += run_case(&c, traits);
                }
            }
        }
    }
    return wrong;
}

static void every_instruction(void **state) {
    static const uint32_t sets[] = {0, LS_KT_ALL, WEBGPU, LAVAPIPE, LS_KT_FLOAT_BITS};
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        wrong += run_all(sets[i], 1024);
    }
    assert_int_equal(wrong, 0);
}

static void one_trait_missing(void **state) {
    (void)state;
    int wrong = 0;
    for (int bit = 0; 1 << bit < LS_KT_ALL; bit++) {
        wrong += run_all(LS_KT_ALL & ~(1u << bit), 128);
    }
    print_message("%ld kernels run, %ld refused\n", runs, refused);
    assert_int_equal(wrong, 0);
    assert_true(getenv("LOCKSTEP_LEGAL") || (runs > 4000 && refused > 50));
}

/* All values of 8 and 16 bits through every instruction of one source. */
static void all_small_values(void **state) {
    static const ls_dtype small[] = {LS_U8, LS_I8, LS_U16, LS_I16, LS_F16, LS_BF16};
    static const uint32_t sets[] = {0, LAVAPIPE};
    (void)state;
    int wrong = 0;
    for (int op = 0; op < LS_K_COUNT; op++) {
        for (int from = 0; from < 6 && ls_kops[op].kind == LS_KC_PURE && ls_kops[op].sources == 1; from++) {
            for (int t = 0; t < N_TYPES; t++) {
                one_case c = {.op = (ls_kop)op, .to = types[t], .from = {small[from]}, .lanes = 1};
                bool converts = op == LS_K_CAST || op == LS_K_BITCAST;
                if (well_typed(&c) && (converts ? types[t] != small[from] : types[t] == small[from])) {
                    fill(&c, 1 << 16, 3);
                    wrong += run_case(&c, sets[(t + op) % 2]);
                }
            }
        }
    }
    assert_int_equal(wrong, 0);
}

/* f32 around every f16 and bf16 value and around the middle between it and the next. */
static void all_midpoints(void **state) {
    (void)state;
    int wrong = 0;
    for (int brain = 0; brain < 2; brain++) {
        one_case c = {
            .op = LS_K_CAST, .to = brain ? LS_BF16 : LS_F16, .from = {LS_F32}, .lanes = 1, .n = 3 << 16};
        for (int h = 0; h < 1 << 16; h++) {
            float f = brain ? ls_bf16_to_f32((uint16_t)h) : ls_f16_to_f32((uint16_t)h);
            float g = brain ? ls_bf16_to_f32((uint16_t)(h + 1)) : ls_f16_to_f32((uint16_t)(h + 1));
            float mid = (float)(((double)f + (double)g) / 2);
            uint32_t u;
            memcpy(&u, h % 2 ? &f : &mid, sizeof u);
            for (uint32_t i = 0; i < 3; i++) {
                in[0][h * 3 + (int)i] = (uint32_t)(u + i - 1);
            }
        }
        wrong += run_case(&c, 0);
        wrong += run_case(&c, LS_KT_FLOAT_BITS | LS_KT_HALF_CAST);
    }
    assert_int_equal(wrong, 0);
}

/* More of what is hard: f32 arithmetic and its emulation. */
static void many_floats(void **state) {
    static const ls_kop ops[] = {LS_K_ADD, LS_K_SUB, LS_K_MUL, LS_K_DIV, LS_K_SQRT};
    (void)state;
    int wrong = 0;
    for (int i = 0; i < 5; i++) {
        one_case c = {.op = ops[i], .to = LS_F32, .from = {LS_F32, LS_F32}, .lanes = 1};
        fill(&c, 1 << 16, 23);
        wrong += run_case(&c, 0);
        fill(&c, 1 << 16, 24);
        wrong += run_case(&c, LS_KT_FLOAT_BITS);
    }
    assert_int_equal(wrong, 0);
}

/* Comparisons of f32 with what the compiler knows. */
static void known_numbers(void **state) {
    static const ls_kop ops[] = {LS_K_EQ, LS_K_NE, LS_K_LT, LS_K_LE, LS_K_MIN, LS_K_MAX};
    static const uint32_t magnitudes[] = {0, 1, 0x7fffff, 0x800000, 0x3f800000, 0x42b20000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000};
    (void)state;
    int wrong = 0;
    for (int i = 0; i < 6 * 10 * 2 * 2; i++) {
        ls_kop op = ops[i % 6];
        one_case c = {.op = op, .to = op == LS_K_MIN || op == LS_K_MAX ? LS_F32 : LS_BOOL, .from = {LS_F32, LS_F32}, .lanes = 1, .known = 1 + i / 120};
        uint32_t number = magnitudes[i / 6 % 10] | (uint32_t)(i / 60 % 2) << 31;
        fill(&c, 512, 25);
        for (int j = 0; j < c.n; j++) {
            in[c.known - 1][j] = number;
            if (j < 32) { /* its neighbours, those of zero, and their negatives */
                in[2 - c.known][j] = ((j & 1 ? number : 0) + (uint32_t)(j / 4 % 4) - 2) ^ (uint32_t)(j / 2 % 2) << 31;
            }
        }
        wrong += run_case(&c, LS_KT_ALL & ~(uint32_t)LS_KT_FLOAT_BITS);
        wrong += run_case(&c, 0);
    }
    assert_int_equal(wrong, 0);
}

/* A kernel of everything: i64 loops and indices, bytes in words by several threads, halves, shared memory, parameters. */
static void sample(ls_kernel *out, int64_t most) {
    ls_kb kb, *k = &kb;
    ls_kb_init(k, &arena, "sample", &err);
    int n = ls_kb_param(k, "n", LS_I64, 0, most), scale = ls_kb_param(k, "scale", LS_F32, 0, 0);
    int seed = ls_kb_param(k, "seed", LS_U64, 0, INT64_MAX), half = ls_kb_param(k, "half", LS_F16, 0, 0);
    int x = ls_kb_global_sized(k, "x", LS_I64, LS_MEM_READ, 1, n),
        y = ls_kb_global(k, "y", LS_U8, LS_MEM_READ_WRITE, 67);
    int z = ls_kb_global(k, "z", LS_U64, LS_MEM_WRITE, 67),
        w = ls_kb_global(k, "w", LS_F16, LS_MEM_WRITE, 134);
    int shared = ls_kb_shared(k, "shared", LS_BF16, 64);
    ls_kb_workgroup(k, 64, 1, 1);
    ls_kb_grid(k, 0, 2, LS_VAL_NONE, 1);
    ls_val i = ls_kb_cast(
        k, ls_kb_add(k, ls_kb_mul(k, ls_kb_group_id(k, 0), ls_kb_i32(k, 64)), ls_kb_local_id(k, 0)), LS_I64);
    ls_val in = ls_kb_lt(k, i, ls_kb_i64(k, 67)), bound = ls_kb_get_param(k, n);
    ls_val sum = ls_kb_var(k, ls_kb_i64(k, 3)), s = ls_kb_get_param(k, scale);
    ls_kb_store(k, shared, ls_kb_local_id(k, 0),
                ls_kb_cast(k, ls_kb_mul(k, s, ls_kb_cast(k, i, LS_F32)), LS_BF16), LS_VAL_NONE);
    ls_kb_barrier(k);
    ls_val j = ls_kb_loop(k, ls_kb_i64(k, 0), bound, ls_kb_i64(k, 1), 0);
    ls_val e = ls_kb_load(k, x, j, ls_kb_lt(k, j, bound), ls_kb_i64(k, 0), 1);
    ls_kb_set(k, sum, ls_kb_add(k, ls_kb_mul(k, ls_kb_get(k, sum), ls_kb_i64(k, 31)), ls_kb_sub(k, e, i)));
    ls_kb_end_loop(k);
    ls_val total = ls_kb_get(k, sum), old = ls_kb_load(k, y, i, in, ls_kb_const_int(k, LS_U8, 9), 1);
    ls_kb_store(k, y, i, ls_kb_add(k, ls_kb_cast(k, total, LS_U8), old), in);
    ls_kb_store(k, z, i, ls_kb_xor(k, ls_kb_bitcast(k, total, LS_U64), ls_kb_get_param(k, seed)), in);
    ls_val other = ls_kb_sub(k, ls_kb_i32(k, 63), ls_kb_local_id(k, 0));
    ls_val f = ls_kb_cast(k, ls_kb_load(k, shared, other, LS_VAL_NONE, LS_VAL_NONE, 1), LS_F16);
    f = ls_kb_canon(k, ls_kb_add(k, f, ls_kb_get_param(k, half)));
    ls_val two = ls_kb_join(k, f, ls_kb_canon(k, ls_kb_cast(k, total, LS_F16)));
    ls_kb_store(k, w, ls_kb_mul(k, i, ls_kb_i64(k, 2)), two, in);
    assert_ok(ls_kb_finish(k, out));
    assert_ok(ls_kernel_verify(&heap, out, &err));
}

enum { SAMPLE_BYTES = 67 + 67 * 8 + 134 * 2 };

static void sample_run(const ls_kernel *kernel, const int64_t *values, uint8_t *results) {
    int64_t x[40];
    for (int i = 0; i < 40; i++) {
        x[i] = (int64_t)((uint64_t)i * 0x9e3779b97f4a7c15u);
    }
    static uint8_t y[72], z[67 * 8], w[268];
    memset(y, 7, sizeof y);
    ls_interp_buffer buffers[4] = {{x, 40, false}, {y, 72, false}, {z, 67, false}, {w, 134, false}};
    for (int i = 0; i < 4; i++) {
        buffers[i].count = i == 0   ? 320 / (int)ls_dtype_size(kernel->mems[i].dtype)
                           : i == 1 ? 72 / (int)ls_dtype_size(kernel->mems[i].dtype)
                           : i == 2 ? 536 / (int)ls_dtype_size(kernel->mems[i].dtype)
                                    : 268 / (int)ls_dtype_size(kernel->mems[i].dtype);
    }
    ls_interp_launch launch = {.buffers = buffers, .params = values, .seed = 3};
    assert_ok(ls_kernel_interp(&heap, kernel, &launch, &err));
    memcpy(results, y, 67);
    memcpy(results + 67, z, 67 * 8);
    memcpy(results + 67 + 67 * 8, w, 268);
}

static void a_kernel_of_everything(void **state) {
    (void)state;
    ls_kernel kernel, legal, simple, foe;
    const ls_legal_param *params;
    const int64_t given[4] = {37, 0x3f9d70a4, (int64_t)0x7edcba9876543210, 0x3555};
    static const uint32_t sets[] = {
        0, WEBGPU, LAVAPIPE, LS_KT_ALL & ~LS_KT_BYTES, LS_KT_ALL & ~LS_KT_HALVES, LS_KT_ALL};
    uint8_t expected[SAMPLE_BYTES], actual[SAMPLE_BYTES];
    sample(&kernel, 40);
    sample_run(&kernel, given, expected);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        int64_t values[16];
        assert_ok(ls_kernel_legalize(&arena, &kernel, sets[i], &legal, &params, &err));
        assert_ok(ls_kernel_simplify(&arena, &legal, NULL, &simple, &err));
        assert_legal(&simple, sets[i]);
        make_hostile(&simple, sets[i], &foe);
        legal_values(&simple, params, given, values);
        sample_run(&foe, values, actual);
        free(foe.body);
        assert_memory_equal(actual, expected, sizeof expected);
    }
}

/* A product of matrices in registers, of awkward values: many sums and products at once, of which few need integers, or all. */
static void groups(void **state) {
    enum { WAYS = 5, STEPS = 6, THREADS = 64 };
    static float x[THREADS * WAYS * STEPS], y[THREADS * WAYS * STEPS];
    static uint32_t expected[THREADS * WAYS * WAYS], actual[THREADS * WAYS * WAYS];
    static const uint32_t sets[] = {0, WEBGPU, LS_KT_ALL & ~LS_KT_SUBNORMAL32,
                                    LS_KT_ALL & ~(LS_KT_SUBNORMAL32 | LS_KT_UNFUSED32),
                                    LS_KT_ALL & ~(LS_KT_SUBNORMAL32 | LS_KT_FLOAT_BITS)};
    (void)state;
    ls_kb kb, *k = &kb;
    ls_kb_init(k, &arena, "groups", &err);
    int a = ls_kb_global(k, "a", LS_F32, LS_MEM_READ, THREADS * WAYS * STEPS);
    int b = ls_kb_global(k, "b", LS_F32, LS_MEM_READ, THREADS * WAYS * STEPS);
    int c = ls_kb_global(k, "c", LS_F32, LS_MEM_WRITE, THREADS * WAYS * WAYS);
    ls_kb_workgroup(k, THREADS, 1, 1);
    ls_val sums[WAYS * WAYS], left[WAYS], right[WAYS], t = ls_kb_local_id(k, 0);
    for (int i = 0; i < WAYS * WAYS; i++) {
        sums[i] = ls_kb_var(k, ls_kb_f32(k, 0));
    }
    ls_val step = ls_kb_loop(k, ls_kb_i32(k, 0), ls_kb_i32(k, STEPS), ls_kb_i32(k, 1), 0);
    ls_val row =
        ls_kb_add(k, ls_kb_mul(k, t, ls_kb_i32(k, WAYS * STEPS)), ls_kb_mul(k, step, ls_kb_i32(k, WAYS)));
    for (int i = 0; i < WAYS; i++) {
        ls_val at = ls_kb_add(k, row, ls_kb_i32(k, i));
        left[i] = ls_kb_load(k, a, at, LS_VAL_NONE, LS_VAL_NONE, 1);
        right[i] = ls_kb_load(k, b, at, LS_VAL_NONE, LS_VAL_NONE, 1);
    }
    for (int i = 0; i < WAYS * WAYS; i++) {
        ls_val p = ls_kb_mul(k, left[i / WAYS], right[i % WAYS]), s = ls_kb_get(k, sums[i]);
        ls_kb_set(k, sums[i], i % 3 ? ls_kb_add(k, s, p) : ls_kb_sub(k, s, p));
    }
    ls_kb_end_loop(k);
    for (int i = 0; i < WAYS * WAYS; i++) {
        ls_val at = ls_kb_add(k, ls_kb_mul(k, t, ls_kb_i32(k, WAYS * WAYS)), ls_kb_i32(k, i));
        ls_kb_store(k, c, at, ls_kb_canon(k, ls_kb_get(k, sums[i])), LS_VAL_NONE);
    }
    ls_kernel kernel, legal, simple, foe;
    const ls_legal_param *params;
    assert_ok(ls_kb_finish(k, &kernel));
    ls_rng rng = {ls_rng_key(9, 9), 0};
    for (int kind = 0; kind < 4;
         kind++) { /* tame; a few tiny ones; products around the least numbers; anything */
        for (int i = 0; i < THREADS * WAYS * STEPS; i++) {
            double tiny = ls_rng_below(&rng, 9) == 0 ? 0x1p-120 : 1;
            double by = kind == 0 ? 1 : kind == 1 ? tiny : 0x1p-70;
            x[i] = (float)(ls_rng_normal(&rng) * by);
            y[i] = (float)(ls_rng_normal(&rng) * (kind == 1 ? 0x1p-20 : by));
            x[i] = ls_rng_below(&rng, 4) ? x[i] : 0;
            uint32_t u = (uint32_t)awkward(&rng, LS_F32, 0), v = (uint32_t)awkward(&rng, LS_F32, 0);
            if (kind == 3 && i % 3 == 0) {
                memcpy(&x[i], &u, sizeof u);
                memcpy(&y[i], &v, sizeof v);
            }
        }
        ls_interp_buffer buffers[3] = {{x, THREADS * WAYS * STEPS, false},
                                       {y, THREADS * WAYS * STEPS, false},
                                       {expected, THREADS * WAYS * WAYS, false}};
        ls_interp_launch launch = {.buffers = buffers};
        assert_ok(ls_kernel_interp(&heap, &kernel, &launch, &err));
        buffers[2].data = actual;
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            int64_t values[4] = {0};
            assert_ok(ls_kernel_legalize(&arena, &kernel, sets[i], &legal, &params, &err));
            assert_ok(ls_kernel_simplify(&arena, &legal, NULL, &simple, &err));
            assert_legal(&simple, sets[i]);
            int loops = 0, wide = 0;
            for (int32_t at = 0; at < simple.n_body; at++) {
                loops += simple.body[at].op == LS_K_LOOP;
                wide += simple.body[at].op == LS_K_UMULHI;
            }
            assert_int_equal(loops, 3); /* its own, the group of products, that of sums */
            assert_int_equal(wide, 1);
            make_hostile(&simple, sets[i], &foe);
            launch.params = values;
            memset(actual, 0xa5, sizeof actual);
            assert_ok(ls_kernel_interp(&heap, &foe, &launch, &err));
            free(foe.body);
            assert_memory_equal(actual, expected, sizeof expected);
        }
    }
}

/* A chain of sums alone, of numbers around the least. */
static ls_val sums_of(ls_kb *k, ls_val x) {
    ls_val bits = ls_kb_bitcast(k, x, LS_U32),
           s = ls_kb_bitcast(k, ls_kb_and(k, bits, ls_kb_u32(k, 0x80ffffff)), LS_F32);
    for (int i = 1; i < 12; i++) {
        ls_val next = ls_kb_and(k, ls_kb_mul(k, bits, ls_kb_u32(k, (uint32_t)i * 0x9e3779b1u)),
                                ls_kb_u32(k, 0x80ffffff));
        next = ls_kb_bitcast(k, next, LS_F32);
        s = i % 3 ? ls_kb_add(k, s, next) : ls_kb_sub(k, next, s);
    }
    return s;
}

/* The signs of zeros that the device knows something of: sums with a term negated (an exponential, by a selection, in a variable), and what
 * comes after -0 + 0. */
static ls_val negations_of(ls_kb *k, ls_val x) {
    ls_val bits = ls_kb_bitcast(k, x, LS_U32), e = ls_kb_math_exp(k, ls_kb_neg(k, ls_kb_mul(k, x, x)));
    ls_val zero = ls_kb_bitcast(k, ls_kb_and(k, bits, ls_kb_u32(k, 0x80000000)), LS_F32);
    ls_val other = ls_kb_bitcast(k, ls_kb_shl(k, bits, ls_kb_u32(k, 31)), LS_F32), minus = ls_kb_neg(k, e);
    ls_val odd = ls_kb_ne(k, ls_kb_and(k, bits, ls_kb_u32(k, 2)), ls_kb_u32(k, 0)), held = ls_kb_var(k, other);
    ls_kb_if(k, odd);
    ls_kb_set(k, held, minus);
    ls_kb_end_if(k);
    ls_val sums[9], y = ls_kb_u32(k, 0), plus = ls_kb_add(k, zero, ls_kb_f32(k, 0)); /* -0 + 0 on bits */
    sums[0] = ls_kb_add(k, minus, zero);
    sums[1] = ls_kb_add(k, other, minus);
    sums[2] = ls_kb_sub(k, ls_kb_neg(k, other), zero);
    sums[3] = ls_kb_sub(k, zero, minus);
    sums[4] = ls_kb_add(k, ls_kb_select(k, odd, minus, other), zero);
    sums[5] = ls_kb_add(k, ls_kb_get(k, held), zero);
    sums[6] = ls_kb_add(k, plus, zero);
    sums[7] = ls_kb_mul(k, plus, x);
    sums[8] = ls_kb_trunc(k, ls_kb_mul(k, plus, other));
    for (int i = 0; i < 9; i++) {
        ls_val negative = ls_kb_shr(k, ls_kb_bitcast(k, ls_kb_canon(k, sums[i]), LS_U32), ls_kb_u32(k, 31));
        y = ls_kb_or(k, ls_kb_shl(k, y, ls_kb_u32(k, 1)), negative);
    }
    return ls_kb_cast(k, y, LS_F32);
}

/* Elementary functions: long chains, of awkward values. */
static void functions(void **state) {
    enum { N = 320 };
#define FUNCTION(name) ls_kb_math_##name,
    static ls_val (*const all[])(ls_kb * kb, ls_val x) = {LS_MATH_UNARY(FUNCTION) sums_of, negations_of};
    static const uint32_t sets[] = {0, LS_KT_ALL & ~LS_KT_SUBNORMAL32, WEBGPU};
    static uint32_t x[N], expected[N], actual[N];
    (void)state;
    for (size_t f = 0; f < sizeof all / sizeof *all; f++) {
        ls_kb kb, *k = &kb;
        ls_kernel kernel, legal, simple, foe;
        const ls_legal_param *params;
        int64_t values[4] = {0};
        ls_kb_init(k, &arena, "function", &err);
        int in_mem = ls_kb_global(k, "x", LS_F32, LS_MEM_READ, N),
            out = ls_kb_global(k, "y", LS_F32, LS_MEM_WRITE, N);
        ls_kb_workgroup(k, 64, 1, 1);
        ls_kb_grid(k, 0, N, LS_VAL_NONE, 64);
        ls_val at = ls_kb_add(k, ls_kb_mul(k, ls_kb_group_id(k, 0), ls_kb_i32(k, 64)), ls_kb_local_id(k, 0));
        ls_val v = ls_kb_load(k, in_mem, at, LS_VAL_NONE, LS_VAL_NONE, 1);
        bool alone = all[f] == sums_of || all[f] == negations_of;
        ls_val y =
            all[f](k, alone ? v : ls_kb_mul(k, v, v)); /* a chain of several, its middle used behind it */
        y = alone ? y
                  : ls_kb_add(k, ls_kb_mul(k, all[f](k, v), ls_kb_f32(k, 0x1p-120f)),
                              ls_kb_mul(k, y, ls_kb_f32(k, 0x1p-125f)));
        ls_kb_store(k, out, at, ls_kb_canon(k, y), LS_VAL_NONE);
        assert_ok(ls_kb_finish(k, &kernel));
        ls_rng rng = {ls_rng_key(31, f), 0};
        for (int i = 0; i < N; i++) {
            float small = (float)ls_rng_normal(&rng);
            x[i] = (uint32_t)awkward(&rng, LS_F32, 0);
            if (i % 2) {
                memcpy(&x[i], &small, sizeof small);
            }
        }
        ls_interp_buffer buffers[2] = {{x, N, false}, {expected, N, false}};
        ls_interp_launch launch = {.buffers = buffers};
        assert_ok(ls_kernel_interp(&heap, &kernel, &launch, &err));
        buffers[1].data = actual;
        launch.params = values;
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            assert_ok(ls_kernel_legalize(&arena, &kernel, sets[i], &legal, &params, &err));
            assert_ok(ls_kernel_simplify(&arena, &legal, NULL, &simple, &err));
            make_hostile(&simple, sets[i], &foe);
            assert_ok(ls_kernel_interp(&heap, &foe, &launch, &err));
            free(foe.body);
            assert_memory_equal(actual, expected, sizeof expected);
        }
        ls_arena_free(&arena);
    }
}

/* What cannot be done another way says so; what is proved to fit 32 bits is no pair. */
static void limits(void **state) {
    (void)state;
    ls_kernel kernel, legal;
    const ls_legal_param *params;
    sample(&kernel, INT64_C(1) << 40);
    assert_int_equal(ls_kernel_legalize(&arena, &kernel, 0, &legal, &params, &err), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "64-bit integers"));
    ls_error_clear(&err);
    assert_ok(ls_kernel_legalize(&arena, &kernel, LS_KT_ALL, &legal, &params, &err));
    sample(&kernel, 40);
    assert_ok(ls_kernel_legalize(&arena, &kernel, LS_KT_ALL, &legal, &params, &err));
    int loops = 0;
    for (int32_t i = 0; i < legal.n_body; i++) {
        loops += legal.body[i].op == LS_K_LOOP && legal.body[i].dtype == LS_I32;
        assert_true(legal.body[i].op != LS_K_LOAD || legal.body[legal.body[i].src[0]].dtype == LS_I32);
    }
    assert_int_equal(loops, 1);
    for (int bit = 0; 1 << bit < LS_KT_ALL; bit++) {
        assert_non_null(ls_ktrait_name(bit));
    }
    assert_null(ls_ktrait_name(31));
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    ls_kernel kernel, legal;
    const ls_legal_param *params;
    ls_arena work;
    sample(&kernel, 40);
    size_t before = atomic_load(&heap.used);
    long failed = 0;
    for (;; failed++) {
        ls_arena_init(&work, &heap);
        atomic_store(&heap.fail_after, failed);
        ls_status status = ls_kernel_legalize(&work, &kernel, 0, &legal, &params, &err);
        atomic_store(&heap.fail_after, -1);
        ls_arena_free(&work);
        assert_int_equal(atomic_load(&heap.used), before);
        if (status == LS_OK) {
            break;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
        ls_error_clear(&err);
    }
    assert_true(failed > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_instruction, setup, teardown),
        cmocka_unit_test_setup_teardown(one_trait_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(all_small_values, setup, teardown),
        cmocka_unit_test_setup_teardown(all_midpoints, setup, teardown),
        cmocka_unit_test_setup_teardown(many_floats, setup, teardown),
        cmocka_unit_test_setup_teardown(known_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kernel_of_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(groups, setup, teardown),
        cmocka_unit_test_setup_teardown(functions, setup, teardown),
        cmocka_unit_test_setup_teardown(limits, setup, teardown),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests_name("kir_legal", tests, NULL, NULL);
}
