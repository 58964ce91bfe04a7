/*
 * Speed of the packed matrix product beside OpenBLAS, when libopenblas.so.0 is installed: rounds are
 * interleaved, the table gives medians in GFLOP/s. Usage: gemm [--rounds N] [--threads N] [MxNxK[t] ...], t: B is stored transposed.
 * OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are unset first: they make OpenBLAS slower than it is. Only where
 * it does not know the CPU and falls back to SSE is it told the nearest core, and the program starts itself
 * again.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/gemm.h"
#include "base/thread.h"

enum { MAX_ROUNDS = 51, KINDS = 4 };

typedef void (*cblas_sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                               const float *a, int lda, const float *b, int ldb, float beta, float *c,
                               int ldc);

typedef struct peer {
    cblas_sgemm_fn sgemm;
    void (*set_threads)(int);
    char core[40];
} peer;

typedef struct problem {
    int64_t m, n, k;
    bool transposed;
    float *a, *b, *c;
    void *workspace;
    ls_gemm gemm;
    ls_gemm_packed packed;
} problem;

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(void) { /* until the other library's threads have stopped spinning */
    nanosleep(&(struct timespec){0, 150000000}, NULL);
}

static void pool_run(void *pool, int64_t n, void (*fn)(void *, int64_t, int), void *ctx) {
    ls_pool_run(pool, (long)n, (ls_pool_fn)fn, ctx);
}

static void *memory(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "gemm: out of memory\n");
        exit(2);
    }
    memset(p, 0, bytes);
    return p;
}

static float *matrix(int64_t n) {
    float *x = memory((size_t)n * 4);
    uint32_t s = 12345;
    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        x[i] = (float)(s >> 8) * 0x1p-24f - 0.5f;
    }
    return x;
}

enum kind { LOCKED, FAST, FAST_PACKED, PEER };

static void compute(const problem *p, enum kind kind, const peer *blas) {
    if (kind == PEER) {
        blas->sgemm(101, 111, p->transposed ? 112 : 111, (int)p->m, (int)p->n, (int)p->k, 1, p->a, (int)p->k,
                    p->b, (int)(p->transposed ? p->k : p->n), 0, p->c, (int)p->n);
        return;
    }
    ls_gemm g = p->gemm;
    g.fast = kind != LOCKED;
    g.b.packed = kind == FAST_PACKED ? &p->packed : NULL;
    ls_gemm_run(&g, p->workspace);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* GFLOP/s of one round: as many products as fill some milliseconds. */
static double round_speed(const problem *p, enum kind kind, const peer *blas) {
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    int repeat = (int)(1.5e9 / flops) + 1;
    compute(p, kind, blas);
    double start = now();
    for (int r = 0; r < repeat; r++) {
        compute(p, kind, blas);
    }
    double seconds = now() - start;
    return flops * repeat / seconds * 1e-9;
}

static void measure(int64_t m, int64_t n, int64_t k, bool transposed, int threads, int rounds, ls_pool *pool,
                    const ls_cpu *cpu, const ls_gemm_isa *isa, const peer *blas) {
    problem p = {.m = m,
                 .n = n,
                 .k = k,
                 .transposed = transposed,
                 .a = matrix(m * k),
                 .b = matrix(k * n),
                 .c = matrix(m * n)};
    p.gemm = (ls_gemm){.isa = isa, .m = m, .n = n, .k = k, .l2_bytes = cpu->l2_bytes};
    p.gemm.l2_is_near = cpu->l2_is_near, p.gemm.fetches_best = cpu->fetches_best;
    p.gemm.a = (ls_gemm_operand){.dtype = LS_GEMM_F32, .data = p.a, .stride_i = k, .stride_k = 1};
    p.gemm.b = (ls_gemm_operand){.dtype = LS_GEMM_F32, .data = p.b, .stride_i = 1, .stride_k = n};
    if (transposed) {
        p.gemm.b.stride_i = k;
        p.gemm.b.stride_k = 1;
    }
    p.gemm.out = (ls_gemm_out){.dtype = LS_GEMM_F32, .data = p.c, .stride_i = n, .stride_j = 1};
    p.gemm.parallel = (ls_gemm_parallel){pool_run, pool, threads, false};
    void *packed = memory(ls_gemm_packed_size(isa, LS_GEMM_B, LS_GEMM_F32, n, k));
    ls_gemm_pack(isa, LS_GEMM_B, &p.gemm.b, n, k, packed, &p.packed);
    size_t need = 0;
    for (int way = 0; way < 4; way++) { /* locked, fast, of each with B as it is and packed */
        p.gemm.fast = way & 1;
        p.gemm.b.packed = way & 2 ? &p.packed : NULL;
        const size_t bytes = ls_gemm_workspace(&p.gemm);
        need = bytes > need ? bytes : need;
    }
    p.gemm.b.packed = NULL;
    p.workspace = memory(need);

    double speed[KINDS][MAX_ROUNDS] = {{0}};
    if (blas->sgemm) {
        blas->set_threads(threads);
    }
    for (int r = 0; r < rounds; r++) {
        for (int kind = 0; kind < KINDS; kind++) {
            if (kind != PEER || blas->sgemm) {
                if (r > 0 || kind > 0) {
                    rest();
                }
                speed[kind][r] = round_speed(&p, (enum kind)kind, blas);
            }
        }
    }
    double median[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(speed[kind], (size_t)rounds, sizeof(double), by_value);
        median[kind] = speed[kind][rounds / 2];
    }
    char shape[48];
    snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64 "%s", m, n, k, transposed ? "t" : "");
    printf("%-18s %d  %7.1f  %7.1f  %7.1f", shape, threads, median[LOCKED], median[FAST],
           median[FAST_PACKED]);
    if (blas->sgemm) {
        printf("  %7.1f (%.1f to %.1f)  fast/OpenBLAS %.2f  locked/fast %.2f", median[PEER], speed[PEER][0],
               speed[PEER][rounds - 1], median[FAST] / median[PEER], median[LOCKED] / median[FAST]);
    }
    printf("\n");
    fflush(stdout);
    free(p.a);
    free(p.b);
    free(p.c);
    free(p.workspace);
    free(packed);
}

/* OpenBLAS with the kernels that it chooses, or, where that is SSE on a CPU with more, the nearest core's. */
static peer open_peer(const ls_cpu *cpu, char **argv) {
    peer blas = {0};
    static const char told[] = "LOCKSTEP_BENCH_CORETYPE";
    if (!getenv(told)) {
        unsetenv("OPENBLAS_CORETYPE");
    }
    unsetenv("OPENBLAS_L2_SIZE");
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!library) {
        return blas;
    }
    char *(*core_name)(void);
    *(void **)&core_name = dlsym(library, "openblas_get_corename");
    *(void **)&blas.sgemm = dlsym(library, "cblas_sgemm");
    *(void **)&blas.set_threads = dlsym(library, "openblas_set_num_threads");
    if (!blas.sgemm || !blas.set_threads || !core_name) {
        return (peer){0};
    }
    bool old = strcmp(core_name(), "Prescott") == 0 || strcmp(core_name(), "Nehalem") == 0;
    if (old && cpu->has[LS_CPU_AVX2] && !getenv(told)) {
        setenv("OPENBLAS_CORETYPE", cpu->has[LS_CPU_AVX512] ? "SkylakeX" : "Haswell", 1);
        setenv(told, "1", 1);
        execv("/proc/self/exe", argv);
    }
    snprintf(blas.core, sizeof blas.core, "%s%s", core_name(), getenv(told) ? " (told)" : "");
    return blas;
}

int main(int argc, char **argv) {
    int rounds = 7, shapes = 0, max_threads = 2;
    int64_t shape[64][4] = {{0}};
    for (int i = 1; i < argc; i++) {
        int64_t *s = shape[shapes];
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = atoi(argv[++i]);
            rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
        } else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
            max_threads = atoi(argv[++i]);
        } else if (shapes < 64 &&
                   sscanf(argv[i], "%" SCNd64 "x%" SCNd64 "x%" SCNd64, &s[0], &s[1], &s[2]) == 3 &&
                   s[0] > 0 && s[1] > 0 && s[2] > 0) {
            s[3] = argv[i][strlen(argv[i]) - 1] == 't';
            shapes++;
        } else {
            fprintf(stderr, "usage: gemm [--rounds N] [--threads N] [MxNxK ...], not '%s'\n", argv[i]);
            return 2;
        }
    }
    if (shapes == 0) {
        static const int64_t usual[][4] = {
            {256, 256, 256},  {384, 384, 384},  {512, 512, 512},     {768, 768, 768}, {1024, 1024, 1024},
            {16, 1024, 1024}, {128, 768, 3072}, {16, 1024, 1024, 1}, {1, 4096, 4096}, {1, 4096, 4096, 1},
        };
        shapes = (int)(sizeof usual / sizeof *usual);
        memcpy(shape, usual, sizeof usual);
    }
    ls_cpu cpu;
    ls_cpu_isa chosen;
    ls_cpu_detect(&cpu);
    peer blas = open_peer(&cpu, argv);
    if (ls_cpu_isa_choose(&cpu, getenv("LOCKSTEP_ISA"), &chosen) != LS_CPU_CHOSEN) {
        fprintf(stderr, "gemm: LOCKSTEP_ISA=%s is not available here\n", getenv("LOCKSTEP_ISA"));
        return 3;
    }
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    printf("%s, %s, L2 %" PRId64 " KiB%s%s\n", cpu.name, ls_cpu_isa_name(chosen), cpu.l2_bytes / 1024,
           blas.sgemm ? ", OpenBLAS core " : ", OpenBLAS not installed", blas.core);
    printf("GFLOP/s (median)   threads locked  fast  fast with B packed before  OpenBLAS (range)\n");
    for (int threads = 1; threads <= max_threads; threads++) {
        ls_pool *pool = ls_pool_create(&heap, threads);
        if (!pool) {
            fprintf(stderr, "gemm: no thread pool\n");
            return 2;
        }
        for (int i = 0; i < shapes; i++) {
            measure(shape[i][0], shape[i][1], shape[i][2], shape[i][3] != 0, threads, rounds, pool, &cpu,
                    ls_gemm_isa_get(chosen), &blas);
        }
        ls_pool_destroy(pool);
    }
    return 0;
}
