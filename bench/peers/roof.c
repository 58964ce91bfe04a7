/* The roof of a case: the time that its arithmetic, or its bytes where memory bounds it, take at the rate of this moment. It is timed for as
 * long as an engine's round and by the same clock, so that what else the machine does slows it as much as it slows the engines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpuid.h"
#include "backend/cpu/peak.h"
#include "base/thread.h"
#include "bench/peers/peers.h"

enum { STEPS = 200000, MOST_RATIOS = 4096 };

struct bench_roof {
    ls_heap heap;
    ls_pool *pool;
    const ls_peaks *peaks;
    int threads;
    char *memory;
    size_t slice; /* of a thread */
    ls_peak_fn arithmetic;
    ls_peak_read_fn read;
    bool four; /* places that are read at once */
    ls_peak_copy_fn copy;
    double work[64]; /* operations of a task, and a sum that keeps reads from being left out */
    double unfused[MOST_RATIOS]; /* rates of multiplications and additions by fused ones' */
    int n_unfused;
    double whole; /* the best rate of multiplications and additions so far */
};

bench_roof *bench_roof_open(int threads) {
    bench_roof *r = bench_memory(sizeof *r);
    ls_cpu cpu;
    ls_cpu_isa isa;
    ls_cpu_detect(&cpu);
    ls_cpu_isa_choose(&cpu, NULL, &isa);
    ls_heap_init(&r->heap, NULL, 0);
    r->peaks = &ls_peaks_of_isa[isa];
    r->threads = threads;
    r->pool = ls_pool_create(&r->heap, threads);
    if (!r->pool) {
        exit(2);
    }
    return r;
}

void bench_roof_close(bench_roof *r) {
    ls_pool_destroy(r->pool);
    free(r->memory);
    free(r);
}

void bench_roof_begin(bench_roof *r, const bench_case *c) {
    enum { UNIT = 2 * LS_PEAK_UNIT };
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    bool reads = bench_elements(c, 2) * 4 < bench_elements(c, 0) + bench_elements(c, 1), memory = bench_is_memory(c);
    r->arithmetic = memory                                                         ? NULL
                    : c->kind == BENCH_BLOCKS && cpu.avx512_vnni && r->peaks->int8 ? r->peaks->int8
                    : c->bf16 && (cpu.amx_bf16 || cpu.bf16_is_fast) && r->peaks->bf16 ? ls_peak_of_bf16(&cpu, r->peaks)
                                                                                   : r->peaks->fma;
    r->read = memory && reads ? r->peaks->read : NULL;
    r->copy = memory && !reads ? r->peaks->copy : NULL;
    free(r->memory);
    r->slice = ((size_t)bench_bytes(c) / (size_t)r->threads / UNIT + 1) * UNIT;
    r->memory = memory ? bench_memory(r->slice * (size_t)r->threads) : NULL;
    if (memory) {
        memset(r->memory, 1, r->slice * (size_t)r->threads); /* else all pages are one page of zeros */
    }
}

static void task(void *ctx, long i, int worker) {
    bench_roof *r = ctx;
    char *at = r->memory + (size_t)i * r->slice;
    (void)worker;
    if (r->arithmetic) {
        r->work[i] = (double)r->arithmetic(STEPS, 0.999f, 0.001f).flops;
    } else if (r->read) {
        r->work[i] = (double)r->read(at, r->slice, r->four);
    } else {
        r->copy(at + r->slice / 2, at, r->slice / 2);
    }
}

/* Operations or bytes in a second, for as long as a round takes. */
static double rate(bench_roof *r, double seconds) {
    double begin = bench_now(), took, done = 0;
    do {
        ls_pool_run(r->pool, r->threads, task, r);
        done += (r->arithmetic ? r->work[0] : (double)r->slice) * r->threads;
        took = bench_now() - begin;
    } while (took < seconds);
    return done / took;
}

static double rate_of(bench_roof *r, ls_peak_fn arithmetic, double seconds) {
    ls_peak_fn own = r->arithmetic;
    r->arithmetic = arithmetic;
    double result = rate(r, seconds);
    r->arithmetic = own;
    return result;
}

double bench_roof_seconds(bench_roof *r, const bench_case *c, double seconds, bool rested) {
    if (rested) { /* cores that sleep take milliseconds to be there */
        (void)rate(r, seconds);
    }
    double best = rate(r, seconds);
    if (r->arithmetic == r->peaks->fma && r->peaks->mul_add && r->n_unfused < MOST_RATIOS) {
        r->unfused[r->n_unfused++] = rate_of(r, r->peaks->mul_add, seconds) / best;
    }
    if (r->read) {
        r->four = true;
        double other = rate(r, seconds);
        best = other > best ? other : best;
        r->four = false;
    }
    if (r->copy && r->peaks->stream) {
        r->copy = r->peaks->stream;
        double streamed = rate(r, seconds);
        best = streamed > best ? streamed : best;
        r->copy = r->peaks->copy;
    }
    return (r->arithmetic ? bench_flops(c) : bench_bytes(c)) / best;
}

/* Multiplications and additions take all that a core has: another machine's thread on it takes from them first. */
bool bench_roof_is_own(bench_roof *r, double share) {
    double best = 0;
    for (int i = 0; share > 0 && i < 3; i++) { /* of which the first wakes the cores */
        double now = rate_of(r, r->peaks->mul_add ? r->peaks->mul_add : r->peaks->fma, 0);
        best = i > 0 && now > best ? now : best;
    }
    r->whole = best > r->whole ? best : r->whole;
    return best >= share * r->whole;
}

double bench_roof_whole(const bench_roof *r) {
    return r->whole;
}

int bench_roof_unfused(const bench_roof *r, const double **out_ratios) {
    *out_ratios = r->unfused;
    return r->n_unfused;
}
