/* OpenBLAS, opened by dlopen: products of matrices. OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE make it slower than it is and are
 * unset first; only where it does not know the CPU and falls back to SSE is it told the nearest core. It reads them when
 * it is loaded, so the program starts itself again. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/cpuid.h"
#include "bench/peers/peers.h"

struct bench_state {
    const bench_case *c;
    float *x, *w, *y;
    int threads;
};

static void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                     const float *b, int ldb, float beta, float *c, int ldc);
static void (*set_threads)(int n);
char bench_openblas_about[80];

static bool find(char *reason, size_t room) {
    static const char told[] = "LOCKSTEP_BENCH_CORETYPE";
    if (!getenv(told)) {
        unsetenv("OPENBLAS_CORETYPE");
    }
    unsetenv("OPENBLAS_L2_SIZE");
    void *library = dlopen("libopenblas.so.0", RTLD_NOW);
    char *(*core_name)(void) = NULL;
    if (library) {
        *(void **)&core_name = dlsym(library, "openblas_get_corename");
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
        *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    }
    if (!core_name || !sgemm || !set_threads) {
        snprintf(reason, room, "libopenblas.so.0 is not installed (Debian: libopenblas0)");
        return false;
    }
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    bool old = strcmp(core_name(), "Prescott") == 0 || strcmp(core_name(), "Nehalem") == 0;
    if (old && cpu.has[LS_CPU_AVX2] && !getenv(told)) {
        setenv("OPENBLAS_CORETYPE", cpu.has[LS_CPU_AVX512] ? "SkylakeX" : "Haswell", 1);
        setenv(told, "1", 1);
        execv("/proc/self/exe", bench_arguments);
    }
    snprintf(bench_openblas_about, sizeof bench_openblas_about, "core %s%s", core_name(), getenv(told) ? ", told" : "");
    return true;
}

static bench_state *open_case(const bench_engine *e, const bench_case *c, int threads, char *reason, size_t room) {
    (void)e, (void)reason, (void)room;
    if (c->kind != BENCH_GEMM || c->bf16) {
        return NULL;
    }
    bench_state *s = bench_memory(sizeof *s);
    s->c = c;
    s->threads = threads;
    s->x = bench_operand(0, bench_elements(c, 0));
    s->w = bench_operand(1, bench_elements(c, 1));
    s->y = bench_memory((size_t)bench_elements(c, 2) * 4);
    return s;
}

static bool renew(bench_state *s) {
    float *const operands[] = {s->x, s->w};
    for (int i = 0; i < bench_written(s->c); i++) {
        bench_write_anew(operands[i], (size_t)bench_elements(s->c, i) * 4);
    }
    return true;
}

static double run(bench_state *s, int n) {
    int m = (int)s->c->m, columns = (int)s->c->n, k = (int)s->c->k;
    set_threads(s->threads);
    double begin = bench_now();
    for (int i = 0; i < n; i++) {
        sgemm(101, 111, 111, m, columns, k, 1, s->x, k, s->w, columns, 0, s->y, columns);
    }
    return bench_now() - begin;
}

static double digest(bench_state *s) {
    return bench_digest(s->y, bench_elements(s->c, 2));
}

static void close_state(bench_state *s) {
    free(s->x);
    free(s->w);
    free(s->y);
    free(s);
}

const bench_engine bench_openblas = {"OpenBLAS", false, find, open_case, renew, run, digest, close_state, 0};
