/* What the processor does at most: arithmetic in registers, and memory that is read or copied again and again by each thread.
 * The best of some rounds of a few milliseconds, so that what else runs on the machine does not count.
 */
#include "backend/cpu/peak.h"
#include "backend/cpu/kernel.h"
#include "base/os.h"
#include <string.h>

#define DECLARE(isa)                                                                                         \
    extern ls_peak_result ls_peak_fast__##isa(int64_t, float, float),                                        \
        ls_peak_locked__##isa(int64_t, float, float);                                                        \
    extern float ls_peak_read__##isa(const char *, size_t, bool);                                            \
    extern void ls_peak_copy__##isa(char *, const char *, size_t);
#define ROW(isa, fast) .mul_add = ls_peak_locked__##isa, .fma = fast##__##isa, .read = ls_peak_read__##isa, .copy = ls_peak_copy__##isa
#if LS_HAVE_ISA_SCALAR
DECLARE(scalar)
#endif
#if LS_HAVE_ISA_NEON
DECLARE(neon)
#endif
#if LS_HAVE_ISA_SIMD128
DECLARE(simd128)
#endif
#if LS_HAVE_ISA_AVX2
DECLARE(avx2)
extern void ls_peak_stream__avx2(char *, const char *, size_t);
#endif
#if LS_HAVE_ISA_AVX512
DECLARE(avx512)
extern void ls_peak_stream__avx512(char *, const char *, size_t);
extern ls_peak_result ls_peak_bf16__avx512(int64_t, float, float), ls_peak_int8__avx512(int64_t, float, float),
    ls_peak_amx__avx512(int64_t, float, float);
#endif

const ls_peaks ls_peaks_of_isa[LS_CPU_ISA_COUNT] = {
#if LS_HAVE_ISA_SCALAR
    [LS_CPU_SCALAR] = {ROW(scalar, ls_peak_locked)},
#endif
#if LS_HAVE_ISA_NEON
    [LS_CPU_NEON] = {ROW(neon, ls_peak_fast)},
#endif
#if LS_HAVE_ISA_SIMD128
    [LS_CPU_SIMD128] = {ROW(simd128, ls_peak_locked)}, /* nothing fuses */
#endif
#if LS_HAVE_ISA_AVX2
    [LS_CPU_AVX2] = {ROW(avx2, ls_peak_fast), .stream = ls_peak_stream__avx2},
#endif
#if LS_HAVE_ISA_AVX512
    [LS_CPU_AVX512] = {ROW(avx512, ls_peak_fast), .stream = ls_peak_stream__avx512, .bf16 = ls_peak_bf16__avx512,
                       .int8 = ls_peak_int8__avx512, .amx = ls_peak_amx__avx512},
#endif
};

enum { STEPS = 1000000, ROUNDS = 5 };
static const uint64_t ROUND_NS = 3000000;
static const size_t MEMORY = (size_t)512 << 20; /* several times a last-level cache's share */

typedef struct measurement {
    ls_peak_fn arithmetic;
    ls_peak_read_fn read;
    ls_peak_copy_fn copy;
    char *memory;
    size_t slice, offset, part; /* a thread's; the part of it that a round works on */
    bool four; /* places that are read at once */
    int64_t passes;
    ls_peak_result result;
    _Atomic uint32_t sink; /* keeps reads from being left out */
} measurement;

static void compute_task(void *ctx, long task, int worker) {
    measurement *m = ctx;
    (void)worker;
    ls_peak_result r = m->arithmetic(m->passes, 0.999f, 0.001f);
    if (task == 0) {
        m->result = r;
    }
}

static void memory_task(void *ctx, long task, int worker) {
    measurement *m = ctx;
    char *at = m->memory + (size_t)task * m->slice;
    (void)worker;
    for (int64_t i = 0; i < m->passes; i++) {
        if (m->copy) {
            m->copy(at + m->slice / 2 + m->offset / 2, at + m->offset / 2, m->part / 2);
        } else {
            atomic_fetch_add(&m->sink, m->read(at + m->offset, m->part, m->four) > 1);
        }
    }
}

/* Nanoseconds of the fastest round; each works on the next part of the memory, so that all of it is worked on in turn. */
static uint64_t fastest(ls_cpu_device *d, int threads, int rounds, ls_pool_fn task, measurement *m) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < rounds; round++) {
        uint64_t start = ls_os_nanoseconds();
        m->offset = m->offset + 2 * m->part <= m->slice ? m->offset + m->part : 0;
        ls_pool_run(d->pool, threads, task, m);
        uint64_t took = ls_os_nanoseconds() - start + 1;
        best = took < best ? took : best;
    }
    return best;
}

/* Bytes a nanosecond. */
static double memory_rate(ls_cpu_device *d, int threads, measurement *m) {
    m->passes = 1;
    m->part = m->slice;
    uint64_t took = fastest(d, threads, 2, memory_task, m), parts = took / ROUND_NS;
    if (parts == 0) {
        m->passes = (int64_t)(ROUND_NS / took) + 1;
        took = fastest(d, threads, ROUNDS, memory_task, m);
    } else {
        m->part = m->slice / parts / (2 * LS_PEAK_UNIT) * (2 * LS_PEAK_UNIT);
        m->part = m->part ? m->part : m->slice;
        took = fastest(d, threads, (int)(m->slice / m->part) * 3, memory_task, m);
    }
    return (double)m->part * threads * (double)m->passes / (double)took;
}

ls_peak_fn ls_peak_of_bf16(const ls_cpu *cpu, const ls_peaks *p) {
    return cpu->amx_bf16 && p->amx && ls_os_use_amx() ? p->amx : p->bf16;
}

/* What is missing for a rate, or NULL. */
static const char *lacking(const ls_cpu_device *d, ls_rate rate) {
    const ls_peaks *p = &ls_peaks_of_isa[d->isa];
    switch (rate) {
    case LS_RATE_BF16:
        return !d->cpu.avx512_bf16 ? "AVX512-BF16" : !p->bf16 ? "bf16 in this instruction set's code" : NULL;
    case LS_RATE_INT8:
        return !d->cpu.avx512_vnni ? "AVX512-VNNI" : !p->int8 ? "int8 in this instruction set's code" : NULL;
    case LS_RATE_STREAM:
        return p->stream ? NULL : "stores past the caches in this instruction set's code";
    default:
        return NULL;
    }
}

ls_status ls_cpu_rate(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err) {
    ls_cpu_device *d = device->state;
    const ls_peaks *p = &ls_peaks_of_isa[d->isa];
    const char *missing = lacking(d, rate);
    if (missing) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s (%s): no %s", device->id, ls_cpu_isa_name(d->isa), missing);
    }
    threads = threads <= 0 || threads > d->threads ? d->threads : threads;
    measurement m = {.passes = STEPS};
    if (rate < LS_RATE_READ) {
        m.arithmetic = rate == LS_RATE_FMA       ? p->fma
                       : rate == LS_RATE_MUL_ADD ? p->mul_add
                       : rate == LS_RATE_INT8    ? p->int8
                                                 : ls_peak_of_bf16(&d->cpu, p);
        uint64_t took = fastest(d, threads, ROUNDS, compute_task, &m);
        *out_rate = (double)m.result.flops * threads / (double)took;
        return LS_OK;
    }
    m.read = p->read;
    m.copy = rate == LS_RATE_COPY ? p->copy : rate == LS_RATE_STREAM ? p->stream : NULL;
    m.slice = (bytes ? bytes : MEMORY) / (size_t)threads / (2 * LS_PEAK_UNIT) * (2 * LS_PEAK_UNIT);
    m.slice = m.slice ? m.slice : 2 * LS_PEAK_UNIT;
    m.memory = ls_alloc(d->heap, m.slice * (size_t)threads);
    if (!m.memory) {
        return LS_FAIL_MEMORY(err, "the measurement of memory's bandwidth");
    }
    memset(m.memory, 1, m.slice * (size_t)threads); /* else all pages are one page of zeros */
    *out_rate = memory_rate(d, threads, &m);
    if (rate == LS_RATE_READ) {
        m.four = true;
        const double other = memory_rate(d, threads, &m);
        *out_rate = other > *out_rate ? other : *out_rate;
    }
    ls_free(d->heap, m.memory);
    return LS_OK;
}
