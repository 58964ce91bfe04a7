/* Chains of elementwise operations (backend/cpu/chain.h) against the contract's arithmetic, lane by lane, on every instruction set here. */
#include "backend/cpu/tile.h"
#include "base/half.h"
#include "math/math.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400 };

static uint32_t random_bits(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? LS_NAN_F32 : bits;
}

/* NaN from either, zeros by their signs. */
static float extreme(float x, float y, bool most) {
    uint32_t a = bits_of(x), b = bits_of(y);
    return x != x || y != y  ? from_bits(LS_NAN_F32)
           : x == y          ? from_bits(most ? a & b : a | b)
           : (x > y) == most ? x
                             : y;
}

static float apply(int op, float x, float y) {
    switch ((ls_chain_op)op) {
    case LS_CHAIN_TAKE:
        return y;
    case LS_CHAIN_ADD:
        return x + y;
    case LS_CHAIN_SUB:
        return x - y;
    case LS_CHAIN_FROM:
        return y - x;
    case LS_CHAIN_MUL:
    case LS_CHAIN_PRODUCT:
        return x * y;
    case LS_CHAIN_SQUARE:
        return x * x;
    case LS_CHAIN_DIV:
    case LS_CHAIN_DIV_NEAR:
        return x / y;
    case LS_CHAIN_INTO:
        return y / x;
    case LS_CHAIN_MIN:
        return extreme(x, y, false);
    case LS_CHAIN_MAX:
        return extreme(x, y, true);
    case LS_CHAIN_PASS:
        return y > 0 ? x : 0;
    default:
        return x;
    }
}

static const ls_tile_isa *usable(int isa) {
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    return cpu.has[isa] ? ls_tile_isa_get((ls_cpu_isa)isa) : NULL;
}

static const uint32_t special[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                   0x7fc12345, 0xffc00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff,
                                   0x40c00000, 0x21800000, 0x5d7fffff, 0x5d800000};
enum { SPECIALS = sizeof special / sizeof *special };

/* A quotient that is not rounded correctly: within 0.5000002 ULP of it, one where that is tiny, and of its sign. */
static bool is_near(float q, float x, float y) {
    double exact = (double)x / (double)y, size = exact < 0 ? -exact : exact, apart = (double)q - exact;
    int exponent = size < 0x1p-126 ? -126 : (int)(bits_of((float)size) >> 23) - 127;
    double ulp = __builtin_ldexp(1, exponent - 23);
    return !__builtin_signbit(q) == !__builtin_signbit(exact) && (apart < 0 ? -apart : apart) <= (size < 0x1p-100 ? 1 : 0.5000002) * ulp;
}

static void check_step(const ls_tile_isa *isa, ls_chain_step step, const float *x, const float *y, float c,
                       int64_t n) {
    float out[MOST + 1];
    ls_chain_row row = {.n_steps = 1, .n_pointers = 1, .steps = &step, .scalars = &c, .at = {y}};
    out[n] = 77;
    isa->chain(&row, out, x, n);
    for (int64_t i = 0; i < n; i++) {
        float other = step.kind == LS_CHAIN_SCALAR ? c : step.op == LS_CHAIN_PRODUCT ? y[i] * c : y[i];
        uint32_t expected = bits_of(apply(step.op, x[i], other)), got;
        memcpy(&got, &out[i], sizeof got);
        if (got != expected && !(step.op == LS_CHAIN_DIV_NEAR && is_near(out[i], x[i], c))) {
            fail_msg("op %d of %a and %a is %a", step.op, (double)x[i],
                     (double)other, (double)out[i]);
        }
    }
    assert_true(out[n] == 77);
}

/* A bias, then the larger of that and a zero of either sign: what instruction sets have a way of their own for. */
static void check_bias_and_zero(const ls_tile_isa *isa, const float *x, float c, float zero, int64_t n) {
    const ls_chain_step steps[] = {{.op = LS_CHAIN_ADD, .kind = LS_CHAIN_SCALAR, .at = 1}, {.op = LS_CHAIN_MAX, .kind = LS_CHAIN_SCALAR, .at = 0}};
    const float scalars[] = {zero, c};
    float out[MOST + 1];
    ls_chain_row row = {.n_steps = 2, .steps = steps, .scalars = scalars};
    out[n] = 77;
    isa->chain(&row, out, x, n);
    for (int64_t i = 0; i < n; i++) {
        uint32_t expected = bits_of(extreme(x[i] + c, zero, true)), got;
        memcpy(&got, &out[i], sizeof got);
        if (got != expected) {
            fail_msg("the larger of %a + %a and %a is %a", (double)x[i], (double)c, (double)zero, (double)out[i]);
        }
    }
    assert_true(out[n] == 77);
}

static void steps_are_the_contract(void **state) {
    uint64_t seed = 1;
    (void)state;
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i);
        for (int op = LS_CHAIN_ADD; isa && op <= LS_CHAIN_SQUARE; op++) {
            for (int64_t n = 1; n <= MOST; n += n < 40 ? 1 : 37) {
                float x[MOST], y[MOST];
                for (int64_t j = 0; j < n; j++) {
                    x[j] = from_bits(j % 3 ? special[(j / 3) % SPECIALS] : random_bits(&seed));
                    y[j] = from_bits(j % 2 ? special[random_bits(&seed) % SPECIALS] : random_bits(&seed));
                }
                check_step(isa, (ls_chain_step){.op = (uint8_t)op, .kind = LS_CHAIN_MEMORY}, x, y, 0, n);
                float c = from_bits(n % 2 ? special[n / 2 % SPECIALS] : random_bits(&seed));
                check_step(isa, (ls_chain_step){.op = (uint8_t)op, .kind = LS_CHAIN_SCALAR}, x, y, c, n);
                if (!LS_SMALL) {
                    check_step(isa, (ls_chain_step){.op = LS_CHAIN_PASS, .kind = LS_CHAIN_MEMORY}, x, y, 0, n);
                    check_step(isa, (ls_chain_step){.op = LS_CHAIN_PRODUCT, .kind = LS_CHAIN_MEMORY}, x, y, c, n);
                }
                check_bias_and_zero(isa, x, c, n % 4 < 2 ? 0.0f : -0.0f, n);
            }
        }
    }
}

/* Divisors and dividends whose significands are next to each other, to powers of two and to halves make quotients near ties. */
static void quotients_are_rounded_correctly(void **state) {
    uint64_t seed = 2;
    (void)state;
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i);
        for (int round = 0; isa && round < 20000; round++) {
            float x[256], c = from_bits(random_bits(&seed));
            uint32_t significand = round % 4 == 0   ? random_bits(&seed) % 64
                                   : round % 4 == 1 ? 0x7fffff - random_bits(&seed) % 64
                                                    : random_bits(&seed) & 0x7fffff;
            if (round % 8) { /* within the range that needs no division, mostly */
                c = from_bits((127 + random_bits(&seed) % 100 - 50) << 23 | significand |
                              random_bits(&seed) << 31);
            }
            uint32_t near = random_bits(&seed) & 0x7fffff;
            for (int j = 0; j < 256; j++) {
                uint32_t s = j % 2 ? near + (uint32_t)j : significand + (uint32_t)j / 2;
                x[j] = from_bits((127 + random_bits(&seed) % 124 - 62) << 23 | (s & 0x7fffff) |
                                 random_bits(&seed) << 31);
            }
            check_step(isa, (ls_chain_step){.op = LS_CHAIN_DIV, .kind = LS_CHAIN_SCALAR}, x, x, c, 256);
            check_step(isa, (ls_chain_step){.op = LS_CHAIN_DIV_NEAR, .kind = LS_CHAIN_SCALAR}, x, x, c, 256);
        }
    }
}

/* x * min(max(x + 3, 0), 6) / 6 + residual, in place over the residual. */
static void slots_and_places(void **state) {
    const ls_chain_step steps[] = {{.op = LS_CHAIN_KEEP, .kind = LS_CHAIN_SLOT, .at = 1},
                                   {.op = LS_CHAIN_ADD, .at = 0},
                                   {.op = LS_CHAIN_MAX, .at = 1},
                                   {.op = LS_CHAIN_MIN, .at = 2},
                                   {.op = LS_CHAIN_MUL, .kind = LS_CHAIN_SLOT, .at = 1},
                                   {.op = LS_CHAIN_DIV, .at = 2},
                                   {.op = LS_CHAIN_ADD, .kind = LS_CHAIN_MEMORY, .at = 0}};
    const float scalars[] = {3, 0, 6};
    (void)state;
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i);
        for (int64_t n = 1; isa && n < MOST; n += 7) {
            _Alignas(64) float slot[LS_CHAIN_LANES];
            float x[MOST], out[MOST], expected[MOST];
            for (int64_t j = 0; j < n; j++) {
                x[j] = (float)(j - n / 2) * 0.13f;
                out[j] = (float)j;
                float h = extreme(extreme(x[j] + 3, 0, true), 6, false);
                expected[j] = x[j] * h / 6 + out[j];
            }
            ls_chain_row row = {.n_steps = 7,
                                .n_pointers = 2,
                                .steps = steps,
                                .scalars = scalars,
                                .at = {out},
                                .slots = {NULL, slot}};
            isa->chain(&row, out, x, n);
            assert_memory_equal(out, expected, (size_t)n * sizeof *out);
        }
    }
}

/* A batch norm of each kind, also where its result takes the place of x. */
static void check_batch_norm(const ls_tile_isa *isa, const float *x, const float *scalars, bool divides, bool relu, bool in_place, int64_t n) {
    const ls_chain_step all[] = {{.op = LS_CHAIN_SUB, .at = 0}, {.op = LS_CHAIN_DIV, .at = 1}, {.op = LS_CHAIN_MUL, .at = 2}, {.op = LS_CHAIN_ADD, .at = 3}, {.op = LS_CHAIN_MAX, .at = 4}};
    ls_chain_step steps[5];
    int n_steps = 0;
    for (int i = 0; i < 5; i++) {
        bool wanted = i == 1 ? divides : i < 4 || relu;
        steps[n_steps] = all[i];
        n_steps += wanted;
    }
    float out[MOST + 1];
    memcpy(out, x, (size_t)n * sizeof *x);
    out[n] = 77;
    isa->chain(&(ls_chain_row){.n_steps = n_steps, .steps = steps, .scalars = scalars}, out, in_place ? out : x, n);
    for (int64_t i = 0; i < n; i++) {
        float y = x[i];
        for (int k = 0; k < n_steps; k++) {
            y = apply(steps[k].op, y, scalars[steps[k].at]);
        }
        uint32_t expected = bits_of(y), got;
        memcpy(&got, &out[i], sizeof got);
        if (got != expected) {
            fail_msg("a batch norm of %a, less %a, by %a, times %a, plus %a, is %a", (double)x[i], (double)scalars[0], (double)scalars[1], (double)scalars[2],
                     (double)scalars[3], (double)out[i]);
        }
    }
    assert_true(out[n] == 77);
}

static void batch_norms(void **state) {
    uint64_t seed = 4;
    (void)state;
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i);
        for (int round = 0; isa && round < 4000; round++) {
            float x[MOST], scalars[5];
            int64_t n = 1 + random_bits(&seed) % 100;
            for (int64_t j = 0; j < n; j++) {
                uint32_t ordinary = (127 + random_bits(&seed) % 40 - 20) << 23 | (random_bits(&seed) & 0x807fffff);
                x[j] = from_bits(round % 2 || random_bits(&seed) % 8 ? ordinary : special[random_bits(&seed) % SPECIALS]);
            }
            for (int j = 0; j < 4; j++) {
                uint32_t ordinary = (127 + random_bits(&seed) % 20 - 10) << 23 | (random_bits(&seed) & 0x807fffff);
                scalars[j] = from_bits(round % 4 < 3 ? ordinary : round % 8 < 4 ? random_bits(&seed) : special[random_bits(&seed) % SPECIALS]);
            }
            scalars[4] = round % 3 ? 0.0f : -0.0f;
            check_batch_norm(isa, x, scalars, round % 5 > 0, round % 7 > 0, round % 11 < 5, n);
        }
    }
}

/* (x - a) / b * y, whose beginning has a way of its own, where the result takes the place of x, of y, or none. */
static void norms(void **state) {
    const ls_chain_step steps[] = {{.op = LS_CHAIN_SUB, .at = 1}, {.op = LS_CHAIN_DIV, .at = 0}, {.op = LS_CHAIN_MUL, .kind = LS_CHAIN_MEMORY, .at = 1}};
    const float scalars[] = {-0.3f, 7};
    (void)state;
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i);
        for (int64_t n = 1; isa && n < MOST; n += 7) {
            for (int place = 0; place < 3; place++) {
                float x[MOST], y[MOST], z[MOST], expected[MOST], *out = place == 0 ? x : place == 1 ? y : z;
                for (int64_t j = 0; j < n; j++) {
                    x[j] = j == 3 ? __builtin_nanf("1") : (float)(j - n / 2) * 0.13f;
                    y[j] = (float)j * 0.7f;
                    expected[j] = j == 3 ? from_bits(LS_NAN_F32) : (x[j] - 7) / -0.3f * y[j];
                }
                isa->chain(&(ls_chain_row){.n_steps = 3, .n_pointers = 2, .steps = steps, .scalars = scalars, .at = {x, y}}, out, x, n);
                assert_memory_equal(out, expected, (size_t)n * sizeof *out);
            }
        }
    }
}

/* GELUs as the graph and as other programs write them, whose error function an instruction set may do together with what is around it; the result takes the place of x, or none. */
static void gelus(void **state) {
    const ls_chain_step add = {.op = LS_CHAIN_ADD, .at = 1};
    const float scalars[] = {0.7f, 1, 0.5f};
    (void)state;
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i);
        const ls_chain_step erf = {.op = LS_CHAIN_CALL, .kind = LS_CHAIN_NONE, .fn = isa ? isa->map_f32[LS_OP_ERF] : NULL};
        const ls_chain_step forms[3][5] = {
            {{.op = LS_CHAIN_MUL, .at = 0}, erf, add, {.op = LS_CHAIN_PRODUCT, .kind = LS_CHAIN_MEMORY, .by = 2}},
            {{.op = LS_CHAIN_DIV, .at = 0}, erf, add, {.op = LS_CHAIN_MUL, .kind = LS_CHAIN_MEMORY}, {.op = LS_CHAIN_MUL, .at = 2}},
            {erf, add, {.op = LS_CHAIN_MUL, .kind = LS_CHAIN_MEMORY, .at = 1}},
        };
        for (int64_t n = 1; isa && n < MOST; n += 7) {
            for (int form = 0; form < 6 && !(LS_SMALL && form % 3 == 0); form++) {
                float x[MOST], y[MOST], out[MOST + 1], *to = form < 3 ? out : x;
                uint32_t expected[MOST];
                for (int64_t j = 0; j < n; j++) {
                    x[j] = j % 5 ? (float)(j - n / 2) * 0.03f : from_bits(special[j / 5 % SPECIALS]);
                    y[j] = (float)j * 0.7f;
                    float e = 1 + ls_erf_f32(form % 3 == 0 ? x[j] * 0.7f : form % 3 == 1 ? x[j] / 0.7f : x[j]);
                    expected[j] = bits_of(form % 3 == 0 ? x[j] * 0.5f * e : form % 3 == 1 ? x[j] * e * 0.5f : e * y[j]);
                }
                out[n] = 77;
                isa->chain(&(ls_chain_row){.n_steps = form % 3 == 0 ? 4 : form % 3 == 1 ? 5 : 3, .n_pointers = 2, .steps = forms[form % 3], .scalars = scalars, .at = {x, y}}, to, x, n);
                assert_memory_equal(to, expected, (size_t)n * sizeof *to);
                assert_true(out[n] == 77);
            }
        }
    }
}

static float sigmoid(float x) {
    const float minus = -x;
    return 1 / (1 + ls_exp_f32(minus > LS_SIGMOID_MAX ? LS_SIGMOID_MAX : minus));
}

/* The same bits; of fast functions near ones. */
static void check_gates(const float *got, const uint32_t *expected, int64_t n, bool fast) {
    if (!fast) {
        assert_memory_equal(got, expected, (size_t)n * sizeof *got);
    }
    for (int64_t j = 0; j < n; j++) {
        const float x = got[j], y = from_bits(expected[j]);
        assert_true(bits_of(x) == expected[j] || (x > y ? x - y : y - x) <= 1e-5f * (1 + (y < 0 ? -y : y)));
    }
}

/* Gates of a recurrent cell, which an instruction set may do without the chain: c = sigmoid(x + y) * c + sigmoid(y + x + y) * tanh(x), in its place or another; what is the same in another
 * order; one function with addends before and after; one of a kept value times another, which is no gate. */
static void gates(void **state) {
    enum { X, Y, C, FIRST, SECOND, POINTERS, FORMS = 4, LONGEST = 5 * LS_CHAIN_LANES };
    (void)state;
    for (int i = 0; i < 2 * LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i / 2);
        const bool fast = i % 2;
        if (!isa || !(fast ? isa->fast_sigmoid_f32 : isa->sigmoid_f32)) {
            continue;
        }
        const ls_chain_step sigmoids = {.op = LS_CHAIN_CALL, .kind = LS_CHAIN_NONE, .fn = fast ? isa->fast_sigmoid_f32 : isa->sigmoid_f32},
                            tanhs = {.op = LS_CHAIN_CALL, .kind = LS_CHAIN_NONE, .fn = fast ? isa->map_fast[LS_OP_TANH] : isa->map_f32[LS_OP_TANH]};
#define STEP(name, where, which) {.op = LS_CHAIN_##name, .kind = LS_CHAIN_##where, .at = which}
        const ls_chain_step forms[FORMS][14] = {
            {STEP(ADD, MEMORY, Y), sigmoids, STEP(MUL, MEMORY, C), STEP(KEEP, SLOT, FIRST), STEP(TAKE, MEMORY, Y), STEP(ADD, MEMORY, X), STEP(ADD, MEMORY, Y), sigmoids,
             STEP(KEEP, SLOT, SECOND), STEP(TAKE, MEMORY, X), tanhs, STEP(MUL, SLOT, SECOND), STEP(ADD, SLOT, FIRST)},
            {STEP(ADD, MEMORY, Y), sigmoids, STEP(MUL, MEMORY, C), STEP(KEEP, SLOT, FIRST), STEP(TAKE, MEMORY, X), tanhs, STEP(KEEP, SLOT, SECOND), STEP(TAKE, MEMORY, Y),
             STEP(ADD, MEMORY, X), STEP(ADD, MEMORY, Y), sigmoids, STEP(MUL, SLOT, SECOND), STEP(ADD, SLOT, FIRST)},
            {STEP(ADD, MEMORY, C), tanhs, STEP(ADD, MEMORY, Y)},
            {STEP(ADD, MEMORY, Y), sigmoids, STEP(KEEP, SLOT, FIRST), STEP(MUL, MEMORY, C), tanhs, STEP(MUL, SLOT, FIRST)},
        };
#undef STEP
        static const int steps[FORMS] = {13, 13, 3, 6};
        for (int64_t n = 1; n < LONGEST; n += n > MOST ? 171 : n % 64 == 0 ? 1 : 7) {
            for (int form = 0; form < 2 * FORMS; form++) {
                _Alignas(64) float slots[2][LS_CHAIN_LANES];
                float x[LONGEST], y[LONGEST], c[LONGEST], out[LONGEST + 1], *to = form < FORMS ? out : c;
                uint32_t expected[LONGEST];
                for (int64_t j = 0; j < n; j++) {
                    x[j] = j % 5 ? (float)(j - n / 2) * 0.03f : from_bits(special[j / 5 % SPECIALS]);
                    y[j] = j % 7 ? (float)j * 0.01f - 1 : from_bits(special[j / 7 % SPECIALS]);
                    c[j] = j % 9 ? (float)(j % 13) - 6 : from_bits(special[j / 9 % SPECIALS]);
                    const float s = sigmoid(x[j] + y[j]), all = ls_tanh_f32(x[j]) * sigmoid(y[j] + x[j] + y[j]) + s * c[j];
                    expected[j] = bits_of(form % FORMS == 2 ? ls_tanh_f32(x[j] + c[j]) + y[j] : form % FORMS == 3 ? ls_tanh_f32(s * c[j]) * s : all);
                }
                out[n] = 77;
                isa->chain(&(ls_chain_row){.n_steps = steps[form % FORMS], .n_pointers = POINTERS, .steps = forms[form % FORMS], .at = {x, y, c}, .slots = {[FIRST] = slots[0], [SECOND] = slots[1]}}, to, x, n);
                check_gates(to, expected, n, fast);
                assert_true(out[n] == 77);
            }
        }
    }
}

/* The sum of squares in registers of its own, beside squares that are stored and summed. */
static void sums_of_squares(void **state) {
    uint64_t seed = 3;
    (void)state;
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = usable(i);
        for (int64_t n = 1; isa && isa->fold_squares_f32 && n < 4 * LS_TILE_PARTIALS; n += n < 300 ? 1 : 31) {
            float x[4 * LS_TILE_PARTIALS], square[4 * LS_TILE_PARTIALS], got[LS_TILE_PARTIALS], expected[LS_TILE_PARTIALS];
            float minus = n % 5 ? 0.4f : 0;
            for (int64_t j = 0; j < n; j++) {
                x[j] = (float)(random_bits(&seed) >> 8) / 0x1p23f;
                square[j] = (x[j] - minus) * (x[j] - minus);
            }
            for (int round = 0; round < 2; round++) {
                isa->fold_squares_f32(got, x, minus, n, round == 0, n & 1);
                isa->fold_f32[0](expected, square, n, round == 0, false);
                assert_memory_equal(got, expected, sizeof got);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_the_contract),
        cmocka_unit_test(quotients_are_rounded_correctly),
        cmocka_unit_test(slots_and_places),
        cmocka_unit_test(batch_norms),
        cmocka_unit_test(norms),
        cmocka_unit_test(gelus),
        cmocka_unit_test(gates),
        cmocka_unit_test(sums_of_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
