/*
 * What this CPU can do: instruction sets, cache sizes, name. Plain data, found once by the caller and
 * passed around.
 */
#ifndef LOCKSTEP_BACKEND_CPU_CPUID_H
#define LOCKSTEP_BACKEND_CPU_CPUID_H

#include <stdbool.h>
#include <stdint.h>

/* WebAssembly has to be small: what it gains little by, or never has (threads, prefetches, sums of four bytes, kernels that only larger
 * vectors have), is left out there, with its file where it has one, else by this. */
#ifdef LS_HAVE_ISA_SIMD128
enum { LS_SMALL = true };
#else
enum { LS_SMALL = false };
#endif

/* The instruction sets that the objects in isa/ are compiled for, worst first. */
typedef enum ls_cpu_isa {
    LS_CPU_SCALAR, /* the architecture's baseline, no run-time check */
    LS_CPU_NEON,
    LS_CPU_SIMD128, /* WebAssembly */
    LS_CPU_AVX2,   /* with FMA and F16C */
    LS_CPU_AVX512, /* F, BW, DQ, VL */
    LS_CPU_ISA_COUNT,
} ls_cpu_isa;

typedef struct ls_cpu {
    bool has[LS_CPU_ISA_COUNT]; /* usable here: architecture, CPU and operating system */
    bool avx512_vnni, avx512_bf16;
    bool amx_bf16;     /* the matrix unit multiplies bf16, once the system was asked for it (ls_os_use_amx) */
    bool bf16_is_fast; /* its dot products do more than as many fused multiply-adds of f32 */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* of one instance; a plausible value where unknown */
    bool l3_takes_stores;                  /* faster than memory takes those past the caches: Zen 5's does, Zen 4's and Intel's do not */
    bool l2_is_near;                       /* products read panels there as from the first level, with as many misses under way as Zen 4 and Zen 5 have */
    bool reads_scalars;                    /* a convolution is best with its image's elements as scalars, its filter's in vectors: Zen 4's and Zen 5's are */
    bool fetches_best;                     /* products read memory fastest a line of each run in turn, with nothing fetched: Zen 4's and Zen 3's */
    bool folds_fetch;                      /* folds with lines fetched early: all but Zen 4 */
    bool fetches_second;                   /* lines fetched early are best in the second-level cache, not the nearest: Zen 4's and Zen 3's */
    bool reads_halves;                     /* memory in small pages is read fastest by halves of vectors: Zen 4's, taken for older ones' */
    bool reads_four;                       /* memory is read fastest at four places at once: Zen 3's, not tried on later ones, and an Intel's is not */
    bool tells_pages;                      /* no load waits for a store before it to the same place of another page, as Intel's do: Zen 3's, not tried on later ones */
    char name[64];                         /* brand string, trimmed; "" where unknown */
} ls_cpu;

/* Detects. Cheap (microseconds), thread-safe, never fails. */
void ls_cpu_detect(ls_cpu *out_cpu);

#if defined(__x86_64__)
/* The same of a processor whose leaves and enabled state (XCR0) are told by functions: into *cpu, which holds what is taken where they
 * tell nothing. A leaf's four registers; 0 where there is no such leaf. */
typedef int ls_cpuid(uint32_t leaf, uint32_t sub, uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d);
void ls_cpu_detect_by(ls_cpuid *cpuid, uint64_t (*enabled)(void), ls_cpu *cpu);
#endif

/* "scalar", "neon", "simd128", "avx2", "avx512". */
const char *ls_cpu_isa_name(ls_cpu_isa isa);

typedef enum ls_cpu_choice { LS_CPU_CHOSEN, LS_CPU_UNKNOWN_NAME, LS_CPU_NOT_HERE } ls_cpu_choice;

/*
 * The instruction set to use: the best usable one when `request` is NULL or empty (the value of
 * LOCKSTEP_ISA, read by the caller), else the one it names. LS_CPU_UNKNOWN_NAME and LS_CPU_NOT_HERE leave
 * the best one in *out_isa; the caller reports them (ls_cpu_isa_name lists the names).
 */
ls_cpu_choice ls_cpu_isa_choose(const ls_cpu *cpu, const char *request, ls_cpu_isa *out_isa);

#endif
