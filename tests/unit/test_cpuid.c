/* What a processor is found to be from what its CPUID leaves tell: those of a virtual machine as recorded, others made up after their makers'
 * manuals, and each with leaves left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "backend/cpu/cpuid.h"

#if defined(__x86_64__)
typedef struct row {
    uint32_t leaf, sub, a, b, c, d;
} row;

/* Recorded: a virtual machine on a Zen 5 that does not tell of each cache (0x8000001d). */
static const row veiled[] = {
    {0, 0, 13, 0x68747541, 0x444d4163, 0x69746e65},
    {1, 0, 0x00b00f21, 0x63fe0800, 0xfed83203, 0x178bfbff},
    {4, 0, 0, 0, 0, 0},
    {7, 0, 1, 0xf1bb03a9, 0x18005f42, 0x00000110},
    {7, 1, 0x30, 0, 0, 0},
    {0x80000005, 0, 0xff60ff40, 0xff60ff40, 0x300c0140, 0x20080140},
    {0x80000006, 0, 0x40802040, 0x60804040, 0x04006140, 0x0fe09140},
    {0x8000001d, 0, 0, 0, 0, 0},
};

/* What the same processor tells elsewhere: 48 KB, 32 KB of instructions, 1 MB, 16 MB. */
static const row caches[] = {
    {0x8000001d, 0, 0x121, 0x02c0003f, 63, 0},
    {0x8000001d, 1, 0x122, 0x01c0003f, 63, 0},
    {0x8000001d, 2, 0x143, 0x03c0003f, 1023, 2},
    {0x8000001d, 3, 0x163, 0x03c0003f, 16383, 1},
    {0x8000001d, 4, 0, 0, 0, 0},
};

/* An Intel with a matrix unit: 48 KB, 2 MB, 30 MB of 15 ways. */
static const row intel[] = {
    {0, 0, 32, 0x756e6547, 0x6c65746e, 0x49656e69},
    {1, 0, 0x000806f8, 0, 0x18001000 | 1u << 29, 0},
    {4, 0, 0x121, 0x02c0003f, 63, 0},
    {4, 1, 0x122, 0x01c0003f, 63, 0},
    {4, 2, 0x143, 0x03c0003f, 2047, 0},
    {4, 3, 0x163, 0x0380003f, 32767, 4},
    {4, 4, 0, 0, 0, 0},
    {7, 0, 1, 0xf1bb03a9, 0x18005f42, 1u << 22 | 1u << 24},
    {7, 1, 0x30, 0, 0, 0},
};

/* Recorded: a virtual machine on a Zen 3, without vectors of 512 bits: 32 KB, 512 KB, 32 MB. */
static const row without_avx512[] = {
    {0, 0, 13, 0x68747541, 0x444d4163, 0x69746e65},
    {1, 0, 0x00a00f11, 0x01020800, 0xfffa3203, 0x178bfbff},
    {4, 0, 0, 0, 0, 0},
    {7, 0, 0, 0x219c07ab, 0x00400684, 0x00000010},
    {7, 1, 0, 0, 0, 0},
    {0x80000005, 0, 0xff40ff40, 0xff40ff40, 0x20080140, 0x20080140},
    {0x80000006, 0, 0x48002200, 0x68004200, 0x02006140, 0x08009140},
    {0x8000001d, 0, 0x121, 0x01c0003f, 63, 0},
    {0x8000001d, 1, 0x122, 0x01c0003f, 63, 0},
    {0x8000001d, 2, 0x143, 0x01c0003f, 1023, 2},
    {0x8000001d, 3, 0x4163, 0x03c0003f, 32767, 1},
    {0x8000001d, 4, 0, 0, 0, 0},
};

/* Its rows, and where they have no such leaf those of another. */
typedef struct machine {
    const row *rows;
    size_t n;
    const struct machine *other;
} machine;

#define ROWS(of) (of), sizeof(of) / sizeof *(of)
static const machine virtual_one = {ROWS(veiled), NULL}, zen5 = {ROWS(caches), &virtual_one}, xeon = {ROWS(intel), NULL},
                     zen3 = {ROWS(without_avx512), NULL};

static const machine *asked;
static const row *left_out;

static int tell(uint32_t leaf, uint32_t sub, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) {
    for (const machine *m = asked; m; m = m->other) {
        for (const row *r = m->rows; r < m->rows + m->n; r++) {
            if (r->leaf == leaf && r->sub == sub && r != left_out) {
                *a = r->a, *b = r->b, *c = r->c, *d = r->d;
                return 1;
            }
        }
    }
    return 0;
}

static uint64_t all(void) {
    return 0x602e7; /* vectors of 512 bits, tiles */
}

static uint64_t no_zmm(void) {
    return 7;
}

/* Over sizes that are taken where nothing is told. */
static ls_cpu detected(const machine *m, const row *without, uint64_t (*enabled)(void)) {
    ls_cpu cpu = {.l1d_bytes = 1, .l2_bytes = 2, .l3_bytes = 3};
    asked = m;
    left_out = without;
    ls_cpu_detect_by(tell, enabled, &cpu);
    return cpu;
}

static void test_virtual_machine_without_caches(void **state) {
    (void)state;
    const ls_cpu cpu = detected(&virtual_one, NULL, all);
    assert_int_equal(cpu.l1d_bytes, 48 << 10);
    assert_int_equal(cpu.l2_bytes, 1 << 20);
    assert_int_equal(cpu.l3_bytes, 16 << 20); /* it tells of 508 MB, which is all of them together */
    assert_true(cpu.l2_is_near && cpu.reads_scalars && cpu.l3_takes_stores);
    assert_false(cpu.fetches_best || cpu.fetches_second || cpu.reads_halves);
    assert_true(cpu.folds_fetch && !cpu.tells_pages && !cpu.reads_four);
    assert_true(cpu.has[LS_CPU_AVX2] && cpu.has[LS_CPU_AVX512] && cpu.avx512_vnni && cpu.avx512_bf16 && cpu.bf16_is_fast);
    assert_false(cpu.amx_bf16);
}

static void test_caches_one_by_one(void **state) {
    (void)state;
    ls_cpu cpu = detected(&zen5, NULL, all);
    assert_int_equal(cpu.l1d_bytes, 48 << 10);
    assert_int_equal(cpu.l2_bytes, 1 << 20);
    assert_int_equal(cpu.l3_bytes, 16 << 20);
    assert_true(cpu.l2_is_near && cpu.reads_scalars && cpu.l3_takes_stores);

    cpu = detected(&xeon, NULL, all);
    assert_int_equal(cpu.l1d_bytes, 48 << 10);
    assert_int_equal(cpu.l2_bytes, 2 << 20);
    assert_int_equal(cpu.l3_bytes, 30 << 20);
    assert_false(cpu.l2_is_near || cpu.reads_scalars || cpu.l3_takes_stores || cpu.fetches_best || cpu.tells_pages || cpu.reads_four);
    assert_true(cpu.has[LS_CPU_AVX512] && cpu.amx_bf16 && !cpu.bf16_is_fast);

    cpu = detected(&zen3, NULL, no_zmm);
    assert_int_equal(cpu.l1d_bytes, 32 << 10);
    assert_int_equal(cpu.l2_bytes, 512 << 10);
    assert_int_equal(cpu.l3_bytes, 32 << 20);
    assert_true(cpu.has[LS_CPU_AVX2] && !cpu.has[LS_CPU_AVX512]);
    assert_false(cpu.l2_is_near || cpu.reads_scalars || cpu.l3_takes_stores);
    assert_true(cpu.fetches_best && cpu.folds_fetch && cpu.fetches_second && cpu.reads_halves && cpu.tells_pages && cpu.reads_four);
}

/* Each machine with each of its leaves left out, and with vectors of 512 bits not enabled: sizes are positive, nothing is said to be there
 * that cannot be. */
static void test_leaves_left_out(void **state) {
    (void)state;
    const machine *machines[] = {&virtual_one, &zen5, &xeon, &zen3};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        for (const machine *m = machines[i]; m; m = m->other) {
            for (const row *r = m->rows; r < m->rows + m->n; r++) {
                const ls_cpu cpu = detected(machines[i], r, all);
                assert_true(cpu.l1d_bytes > 0 && cpu.l2_bytes > 0 && cpu.l3_bytes > 0);
                assert_false(cpu.has[LS_CPU_AVX512] && !cpu.has[LS_CPU_AVX2]);
                assert_false((cpu.avx512_vnni || cpu.avx512_bf16 || cpu.amx_bf16) && !cpu.has[LS_CPU_AVX512]);
            }
        }
        const ls_cpu cpu = detected(machines[i], NULL, no_zmm);
        assert_true(cpu.has[LS_CPU_AVX2]);
        assert_false(cpu.has[LS_CPU_AVX512] || cpu.avx512_vnni || cpu.avx512_bf16 || cpu.amx_bf16);
    }
}

#define TESTS                                                                                                \
    cmocka_unit_test(test_virtual_machine_without_caches), cmocka_unit_test(test_caches_one_by_one), cmocka_unit_test(test_leaves_left_out)
#else
static void test_no_cpuid(void **state) {
    (void)state;
    skip();
}
#define TESTS cmocka_unit_test(test_no_cpuid)
#endif

int main(void) {
    const struct CMUnitTest tests[] = {TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
