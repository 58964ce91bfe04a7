/* Products of pairs of bf16: what an operand is rounded to, a reference in doubles, and what is refused. */
#define _DEFAULT_SOURCE

#include "backend/cpu/gemm_plan.h"
#include "micro/gemm_support.h"
#include "support/amx_by_hand.h"

typedef struct pairs_operand {
    float *x, *rounded; /* element (i, p) at [i*k + p] or, `along`, [p*extent + i] */
    bool along;
    ls_gemm_operand view;
    ls_gemm_packed packed;
    char *memory;
    size_t bytes;
} pairs_operand;

static bool pack_pairs(const ls_gemm_isa *isa, ls_gemm_side side, pairs_operand *o, int64_t extent, int64_t k) {
    bool fine = true;
    o->view = (ls_gemm_operand){.dtype = LS_GEMM_F32, .data = o->x, .stride_i = o->along ? 1 : k, .stride_k = o->along ? extent : 1};
    o->packed = ls_gemm_packed_pairs(isa, side, &o->view, extent, k);
    o->bytes = ls_gemm_packed_size(isa, side, LS_GEMM_PAIRS, extent, o->packed.k);
    o->memory = guarded(o->bytes);
    o->packed.data = o->memory + GUARD;
    for (int64_t i = 0; i < extent; i += o->packed.width) {
        fine &= ls_gemm_pack_pairs(side, &o->view, &o->packed, i / o->packed.width, k, o->memory + GUARD);
    }
    check_guard(o->memory, o->bytes, "pairs");
    return fine;
}

static pairs_operand pairs_operand_of(int64_t extent, int64_t k, bool along) {
    pairs_operand o = {.along = along, .x = malloc((size_t)(extent * k) * 4), .rounded = malloc((size_t)(extent * k) * 4)};
    assert_true(o.x && o.rounded);
    for (int64_t i = 0; i < extent * k; i++) {
        int64_t kind = random_below(8);
        o.x[i] = kind == 0 ? -0.0f : (float)((double)(int64_t)random_bits() * (kind == 1 ? 0x1p-118 : 0x1p-63));
        o.x[i] = o.x[i] != 0 && __builtin_fabsf(o.x[i]) < 0x1p-58f ? 0x1p-58f : o.x[i];
        o.rounded[i] = ls_bf16_to_f32(ls_f32_to_bf16(o.x[i]));
    }
    return o;
}

static void pairs_operand_free(pairs_operand *o) {
    free(o->x);
    free(o->rounded);
    free(o->memory);
}

static void check_pairs(const ls_gemm_isa *isa, int64_t m, int64_t n, int64_t k, int how) {
    pairs_operand a = pairs_operand_of(m, k, how & 1), b = pairs_operand_of(n, k, how & 2);
    crew c = {1 + (int)random_below(4), how & 4};
    int64_t ld = n + random_below(3), step = how & 8 ? 2 : 1; /* a step of 2 goes through scratch memory */
    assert_true(pack_pairs(isa, LS_GEMM_A, &a, m, k) && pack_pairs(isa, LS_GEMM_B, &b, n, k));
    size_t bytes = (size_t)(((m - 1) * ld + n - 1) * step + 1) * 4;
    char *out = guarded(bytes);
    ls_gemm g = {.isa = isa, .m = m, .n = n, .k = ls_gemm_pairs_of(isa, k), .fast = true, .parallel = {crew_run, &c, c.workers, false},
                 .a = {.dtype = LS_GEMM_PAIRS, .packed = &a.packed},
                 .b = {.dtype = LS_GEMM_PAIRS, .packed = &b.packed},
                 .out = {.dtype = LS_GEMM_F32, .data = out + GUARD, .stride_i = ld * step, .stride_j = step}};
    size_t need = ls_gemm_workspace(&g);
    char *scratch = guarded(need);
    ls_gemm_run(&g, scratch + GUARD);
    check_guard(scratch, need, "scratch");
    check_guard(out, bytes, "out");
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0, y = ((float *)(out + GUARD))[(i * ld + j) * step];
            for (int64_t p = 0; p < k; p++) {
                double term = (double)a.rounded[a.along ? p * m + i : i * k + p] * b.rounded[b.along ? p * n + j : j * k + p];
                sum += term;
                size += __builtin_fabs(term);
            }
            if (!(__builtin_fabs(y - sum) <= (double)(k + 2) * 0x1p-24 * size)) {
                fail_msg("%dx%dx%d, %d: [%d][%d] is %a, not %a", (int)m, (int)n, (int)k, how, (int)i, (int)j, y, sum);
            }
        }
    }
    free(scratch);
    free(out);
    pairs_operand_free(&a);
    pairs_operand_free(&b);
}

/* All of it, for one way to multiply them. */
static void check_pairs_of(const ls_gemm_isa *isa) {
    for (int64_t m = 1; m <= 17; m++) {
        for (int64_t n = 1; n <= 97; n += n % 16 == 1 && n > 1 ? 14 : 1) {
            check_pairs(isa, m, n, 1 + random_below(40), (int)random_below(16));
        }
    }
    static const int64_t depths[] = {1, 2, 127, 128, 129, 1023, 1024, 1025, 2051};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        for (int how = 0; how < 16; how++) {
            check_pairs(isa, 8 + random_below(90), 16 + random_below(90), depths[i], how);
        }
    }
    check_pairs(isa, 300, 1100, 70, 4);
    static const float refused[] = {0x1p-149f, 0x1.fffffep-59f, 0x1p63f, 0x1p127f, __builtin_inff(), __builtin_nanf("")};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        for (int how = 0; how < 4; how++) {
            int64_t extent = 1 + random_below(60), k = 1 + random_below(300), at = random_below(extent * k);
            pairs_operand o = pairs_operand_of(extent, k, how & 1);
            o.x[at] = how & 2 ? -refused[i] : refused[i];
            assert_false(pack_pairs(isa, i % 2 ? LS_GEMM_A : LS_GEMM_B, &o, extent, k));
            free(o.memory);
            o.x[at] = 0x1p62f;
            assert_true(pack_pairs(isa, i % 2 ? LS_GEMM_A : LS_GEMM_B, &o, extent, k));
            pairs_operand_free(&o);
        }
    }
}

static void test_pairs(void **state) {
    (void)state;
    const ls_gemm_isa *isa = isas[isa_count - 1];
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    if (!cpu.avx512_bf16) {
        print_message("this processor does not multiply pairs of bf16\n");
        skip();
    }
    if (ls_gemm_has_pairs(isa)) {
        check_pairs_of(isa);
    }
    ls_gemm_isa by_hand = *isa;
    by_hand.pairs = ls_amx_by_hand();
    assert_non_null(by_hand.pairs);
    check_pairs_of(&by_hand);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests_name("gemm_pairs", tests, find_isas, NULL);
}
