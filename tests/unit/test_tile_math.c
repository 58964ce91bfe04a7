/* Elementary functions of tiles, several vectors at a time: the bits of the scalar ones in every instruction set that this
 * processor has, for any number of lanes; those of arithmetic that may fuse within the 2 ULPs of the oracle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "backend/cpu/tile.h"
#include "math_cases.h"

enum { LANES = 200, FLOATS = 1 << 20 };
static const struct {
    ls_op op;
    const char *name;
} functions[] = {{LS_OP_EXP, "exp"}, {LS_OP_LOG, "log"}, {LS_OP_TANH, "tanh"}, {LS_OP_ERF, "erf"}};

static const math_case *case_of(const char *name) {
    for (int i = 0; i < MATH_CASES; i++) {
        if (strcmp(math_cases[i].name, name) == 0) {
            return &math_cases[i];
        }
    }
    fail_msg("no case named %s", name);
    return NULL;
}

static float sigmoid(float x) {
    float minus = -x, e = ls_exp_f32(minus > LS_SIGMOID_MAX ? LS_SIGMOID_MAX : minus), y = 1 / (1 + e);
    return isnan(y) ? float_of(LS_NAN_F32) : y;
}
static const math_case sigmoid_case = {.name = "sigmoid", .f32 = sigmoid};

/* Every f32 in steps, from a place of its own, in runs of 1 to LANES lanes. */
static double most; /* seen */
static uint64_t sweep(ls_tile_fn fn, const math_case *c, double bound) {
    const char *step = getenv("LOCKSTEP_MATH_STEP"); /* 1: all */
    uint64_t each = step ? strtoull(step, NULL, 10) : UINT64_C(0x100000000) / FLOATS - 3, done = 0;
    ls_rng rng = {.key = ls_rng_key(7, 7)};
    float x[LANES], y[LANES + 1];
    for (uint64_t at = 0, n; at < UINT64_C(0x100000000); at += n * each) {
        n = 1 + ls_rng_u32(&rng) % LANES;
        for (uint64_t i = 0; i < n; i++) {
            x[i] = float_of((uint32_t)(at + i * each));
        }
        y[n] = 77;
        fn(y, x, NULL, NULL, (int64_t)n);
        assert_true(y[n] == 77);
        for (uint64_t i = 0; i < n; i++, done++) {
            if (bound == 0 && bits_of(y[i]) != bits_of(c->f32(x[i]))) {
                fail_msg("%s(%a) of %d lanes is %a, as a scalar %a", c->name, x[i], (int)n, y[i],
                         c->f32(x[i]));
            }
            float canonical = isnan(y[i]) ? float_of(LS_NAN_F32) : y[i];
            double error = bound > 0 ? error32(canonical, c->reference((double)x[i])) : 0;
            most = error > most ? error : most;
            if (error > bound) {
                fail_msg("%s(%a) = %a is %g ULPs off, more than %g", c->name, x[i], y[i], error, bound);
            }
        }
    }
    return done;
}

static void sweep_all(bool fast) {
    ls_cpu cpu;
    uint64_t done = 0;
    ls_cpu_detect(&cpu);
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_tile_isa *isa = ls_tile_isa_get((ls_cpu_isa)i);
        ls_cpu_isa chosen;
        if (!isa || ls_cpu_isa_choose(&cpu, ls_cpu_isa_name((ls_cpu_isa)i), &chosen) != LS_CPU_CHOSEN) {
            continue;
        }
        if (isa->sigmoid_f32 && !fast) {
            done += sweep(isa->sigmoid_f32, &sigmoid_case, 0);
        }
        for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
            const math_case *c = case_of(functions[f].name);
            ls_tile_fn fn = !fast           ? isa->map_f32[functions[f].op]
                            : isa->map_fast ? isa->map_fast[functions[f].op]
                                            : NULL;
            most = 0;
            done += fn ? sweep(fn, c, fast ? 2 : 0) : 0;
            if (fn && functions[f].op == LS_OP_ERF) { /* so that what is built of it is exact far out */
                float far[] = {5, -5, 100, -__builtin_inff()}, y[4];
                fn(y, far, NULL, NULL, 4);
                assert_true(y[0] == 1 && y[1] == -1 && y[2] == 1 && y[3] == -1);
            }
            if (fn && fast) {
                print_message("%s on %s: at most %.3f ULPs\n", c->name, ls_cpu_isa_name((ls_cpu_isa)i), most);
            }
        }
    }
    print_message("%llu values\n", (unsigned long long)done);
    assert_true(done > 0 || fast);
}

static void tiles_have_the_bits_of_scalars(void **state) {
    (void)state;
    sweep_all(false);
}

static void fast_ones_are_within_two_ulps(void **state) {
    (void)state;
    sweep_all(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tiles_have_the_bits_of_scalars),
                                       cmocka_unit_test(fast_ones_are_within_two_ulps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
