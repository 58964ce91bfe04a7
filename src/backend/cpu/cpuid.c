/* CPU features by CPUID and XGETBV on x86; on aarch64 NEON is part of the architecture, and a WebAssembly module with SIMD loads only
 * where there is SIMD. */
#include "backend/cpu/cpuid.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>

static uint64_t enabled_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Leaf 4 of Intel, 0x8000001d of AMD: one subleaf for each cache. Whether there is one: some virtual machines tell of none. */
static bool find_caches(ls_cpuid *cpuid, uint32_t leaf, ls_cpu *cpu) {
    for (uint32_t sub = 0; sub < 16; sub++) {
        uint32_t a, b, c, d;
        if (!cpuid(leaf, sub, &a, &b, &c, &d) || (a & 31) == 0) {
            return sub > 0;
        }
        int64_t bytes =
            (int64_t)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((int64_t)c + 1);
        bool data = (a & 31) != 2;
        int level = a >> 5 & 7;
        if (level == 1 && data) {
            cpu->l1d_bytes = bytes;
        } else if (level == 2) {
            cpu->l2_bytes = bytes;
        } else if (level == 3) {
            cpu->l3_bytes = bytes;
        }
    }
    return true;
}

/* AMD's older leaves, which virtual machines without 0x8000001d have. Of the third level they tell what all its instances hold
 * together; one holds 32 MB since Zen 3, and a machine that has some of its cores counts on half: others have theirs. */
static bool find_caches_of_old(ls_cpuid *cpuid, ls_cpu *cpu) {
    const int64_t share = 16 << 20;
    uint32_t a, b, l1, l2, l3;
    if (!cpuid(0x80000005u, 0, &a, &b, &l1, &a) || !cpuid(0x80000006u, 0, &a, &b, &l2, &l3) || l1 >> 24 == 0 || l2 >> 16 == 0) {
        return false;
    }
    const int64_t together = (int64_t)(l3 >> 18) * (512 << 10);
    cpu->l1d_bytes = (int64_t)(l1 >> 24) << 10;
    cpu->l2_bytes = (int64_t)(l2 >> 16) << 10;
    cpu->l3_bytes = together > share ? share : together > 0 ? together : cpu->l3_bytes;
    return true;
}

static void find_name(ls_cpuid *cpuid, ls_cpu *cpu) {
    uint32_t r[12];
    for (uint32_t i = 0; i < 3; i++) {
        if (!cpuid(0x80000002u + i, 0, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3])) {
            return;
        }
    }
    char text[sizeof r + 1] = {0};
    memcpy(text, r, sizeof r);
    const char *start = text;
    while (*start == ' ') {
        start++;
    }
    size_t n = strlen(start);
    while (n > 0 && start[n - 1] == ' ') {
        n--;
    }
    memcpy(cpu->name, start, n);
    cpu->name[n] = 0;
}

void ls_cpu_detect_by(ls_cpuid *cpuid, uint64_t (*enabled)(void), ls_cpu *cpu) {
    uint32_t a, b, c, d;
    find_name(cpuid, cpu);
    bool amd = cpuid(0, 0, &a, &b, &c, &d) && b == signature_AMD_ebx && c == signature_AMD_ecx && d == signature_AMD_edx;
    bool told = find_caches(cpuid, amd ? 0x8000001du : 4, cpu) || (amd && find_caches_of_old(cpuid, cpu));
    if (!cpuid(1, 0, &a, &b, &c, &d)) {
        return;
    }
    bool zen5 = (a >> 8 & 15) + (a >> 20 & 255) >= 0x1a; /* its family, or later */
    cpu->l3_takes_stores = amd && zen5;
    cpu->fetches_best = cpu->fetches_second = cpu->reads_halves = amd && !zen5;
    bool fma = c >> 12 & 1, f16c = c >> 29 & 1, osxsave = c >> 27 & 1;
    uint64_t state = osxsave ? enabled() : 0;
    bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xe6) == 0xe6;
    if (!cpuid(7, 0, &a, &b, &c, &d)) {
        return;
    }
    uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */
    cpu->has[LS_CPU_AVX2] = ymm && fma && f16c && (b >> 5 & 1);
    cpu->has[LS_CPU_AVX512] = cpu->has[LS_CPU_AVX2] && zmm && (b & avx512) == avx512;
    cpu->folds_fetch = !(cpu->fetches_best && (b & avx512) == avx512);
    cpu->l2_is_near = cpu->reads_scalars = amd && (b & avx512) == avx512; /* Zen 4, or later */
    cpu->reads_four = cpu->tells_pages = amd && (b & avx512) != avx512;
    cpu->l2_bytes = !told && cpu->has[LS_CPU_AVX512] ? 1 << 20 : cpu->l2_bytes; /* the least that a server with them has */
    cpu->avx512_vnni = cpu->has[LS_CPU_AVX512] && (c >> 11 & 1);
    bool matrix = d >> 22 & 1; /* processors with it have half the rate of f32 in their vectors of bf16 */
    bool tiles = matrix && (d >> 24 & 1) && (state & 0x60000) == 0x60000;
    if (cpuid(7, 1, &a, &b, &c, &d)) {
        cpu->avx512_bf16 = cpu->has[LS_CPU_AVX512] && (a >> 5 & 1);
        cpu->bf16_is_fast = cpu->avx512_bf16 && !matrix;
        cpu->amx_bf16 = cpu->avx512_bf16 && cpu->avx512_vnni && tiles;
    }
}

/* What __get_cpuid_count does, which asks anew each time up to where there are leaves; a virtual machine's host answers, in microseconds. */
static int ask(uint32_t leaf, uint32_t sub, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d) {
    static atomic_uint last[2]; /* of the basic leaves and of the extended ones */
    atomic_uint *known = &last[leaf >> 31];
    if (!atomic_load_explicit(known, memory_order_relaxed)) {
        atomic_store_explicit(known, __get_cpuid_max(leaf & 0x80000000u, NULL), memory_order_relaxed);
    }
    if (leaf > atomic_load_explicit(known, memory_order_relaxed)) {
        return 0;
    }
    __cpuid_count(leaf, sub, *a, *b, *c, *d);
    return 1;
}

static void detect(ls_cpu *cpu) {
    ls_cpu_detect_by(ask, enabled_state, cpu);
}
#else
static void detect(ls_cpu *cpu) {
#if defined(__aarch64__)
    cpu->has[LS_CPU_NEON] = true;
#elif defined(__wasm_simd128__)
    cpu->has[LS_CPU_SIMD128] = true;
#else
    (void)cpu;
#endif
}
#endif

void ls_cpu_detect(ls_cpu *out_cpu) {
    *out_cpu = (ls_cpu){.l1d_bytes = 32 << 10, .l2_bytes = 512 << 10, .l3_bytes = 8 << 20, .folds_fetch = true};
    out_cpu->has[LS_CPU_SCALAR] = true;
    detect(out_cpu);
#if LS_SMALL_LIMITS
    out_cpu->l2_bytes = 16 << 10;
#endif
}

const char *ls_cpu_isa_name(ls_cpu_isa isa) {
    static const char *const names[LS_CPU_ISA_COUNT] = {
        [LS_CPU_SCALAR] = "scalar",
        [LS_CPU_NEON] = "neon",
        [LS_CPU_SIMD128] = "simd128",
        [LS_CPU_AVX2] = "avx2",
        [LS_CPU_AVX512] = "avx512",
    };
    return (unsigned)isa < LS_CPU_ISA_COUNT ? names[isa] : "unknown";
}

ls_cpu_choice ls_cpu_isa_choose(const ls_cpu *cpu, const char *request, ls_cpu_isa *out_isa) {
    *out_isa = LS_CPU_SCALAR;
    for (int isa = 0; isa < LS_CPU_ISA_COUNT; isa++) {
        if (cpu->has[isa]) {
            *out_isa = (ls_cpu_isa)isa;
        }
    }
    if (!request || !*request) {
        return LS_CPU_CHOSEN;
    }
    for (int isa = 0; isa < LS_CPU_ISA_COUNT; isa++) {
        if (strcmp(request, ls_cpu_isa_name((ls_cpu_isa)isa)) == 0) {
            if (!cpu->has[isa]) {
                return LS_CPU_NOT_HERE;
            }
            *out_isa = (ls_cpu_isa)isa;
            return LS_CPU_CHOSEN;
        }
    }
    return LS_CPU_UNKNOWN_NAME;
}
