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

/* The same processor with a leaf for each cache: 48 KB, 32 KB of instructions, 1 MB, 16 MB. */
static const row zen5[] = {
    {0, 0, 16, 0x68747541, 0x444d4163, 0x69746e65},
    {1, 0, 0x00b00f21, 0x63fe0800, 0xfed83203, 0x178bfbff},
    {7, 0, 1, 0xf1bb03a9, 0x18005f42, 0x00000110},
    {7, 1, 0x30, 0, 0, 0},
    {0x80000005, 0, 0xff60ff40, 0xff60ff40, 0x300c0140, 0x20080140},
    {0x80000006, 0, 0x40802040, 0x60804040, 0x04006140, 0x0fe09140},
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

static const row *rows;
static size_t count;

static int tell(uint32_t leaf, uint32_t sub, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) {
    for (size_t i = 0; i < count; i++) {
        if (rows[i].leaf == leaf && rows[i].sub == sub) {
            *a = rows[i].a, *b = rows[i].b, *c = rows[i].c, *d = rows[i].d;
            return 1;
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

#define DETECT(machine, enabled, out) (rows = (machine), count = sizeof(machine) / sizeof *(machine), ls_cpu_detect_by(tell, enabled, out))

static const ls_cpu taken = {.l1d_bytes = 1, .l2_bytes = 2, .l3_bytes = 3};

static void test_virtual_machine_without_caches(void **state) {
    (void)state;
    ls_cpu cpu = taken;
    DETECT(veiled, all, &cpu);
    assert_int_equal(cpu.l1d_bytes, 48 << 10);
    assert_int_equal(cpu.l2_bytes, 1 << 20);
    assert_int_equal(cpu.l3_bytes, 32 << 20); /* it tells of 508 MB, which is all of them */
    assert_true(cpu.l2_is_near && cpu.reads_scalars && cpu.l3_takes_stores);
    assert_false(cpu.fetches_best || cpu.fetches_second || cpu.reads_halves);
    assert_true(cpu.has[LS_CPU_AVX2] && cpu.has[LS_CPU_AVX512] && cpu.avx512_vnni && cpu.avx512_bf16 && cpu.bf16_is_fast);
    assert_false(cpu.amx_bf16);
}

static void test_caches_one_by_one(void **state) {
    (void)state;
    ls_cpu cpu = taken;
    DETECT(zen5, all, &cpu);
    assert_int_equal(cpu.l1d_bytes, 48 << 10);
    assert_int_equal(cpu.l2_bytes, 1 << 20);
    assert_int_equal(cpu.l3_bytes, 16 << 20);
    assert_true(cpu.l2_is_near && cpu.reads_scalars && cpu.l3_takes_stores);

    cpu = taken;
    DETECT(intel, all, &cpu);
    assert_int_equal(cpu.l1d_bytes, 48 << 10);
    assert_int_equal(cpu.l2_bytes, 2 << 20);
    assert_int_equal(cpu.l3_bytes, 30 << 20);
    assert_false(cpu.l2_is_near || cpu.reads_scalars || cpu.l3_takes_stores || cpu.fetches_best);
    assert_true(cpu.has[LS_CPU_AVX512] && cpu.amx_bf16 && !cpu.bf16_is_fast);
}

/* Each machine with each of its leaves left out, and with vectors of 512 bits not enabled: sizes are positive, nothing is said to be there
 * that cannot be. */
static void test_leaves_left_out(void **state) {
    (void)state;
    const struct {
        const row *rows;
        size_t n;
    } machines[] = {{veiled, sizeof veiled / sizeof *veiled}, {zen5, sizeof zen5 / sizeof *zen5}, {intel, sizeof intel / sizeof *intel}};
    for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
        for (size_t left = 0; left <= machines[m].n; left++) {
            ls_cpu cpu = taken;
            rows = machines[m].rows;
            count = left;
            ls_cpu_detect_by(tell, all, &cpu);
            assert_true(cpu.l1d_bytes > 0 && cpu.l2_bytes > 0 && cpu.l3_bytes > 0);
            assert_false(cpu.has[LS_CPU_AVX512] && !cpu.has[LS_CPU_AVX2]);
            assert_false((cpu.avx512_vnni || cpu.avx512_bf16 || cpu.amx_bf16) && !cpu.has[LS_CPU_AVX512]);
        }
        ls_cpu cpu = taken;
        rows = machines[m].rows;
        count = machines[m].n;
        ls_cpu_detect_by(tell, no_zmm, &cpu);
        assert_true(cpu.has[LS_CPU_AVX2]);
        assert_false(cpu.has[LS_CPU_AVX512] || cpu.avx512_vnni || cpu.avx512_bf16 || cpu.amx_bf16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_virtual_machine_without_caches),
        cmocka_unit_test(test_caches_one_by_one),
        cmocka_unit_test(test_leaves_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    return 0;
}
#endif
