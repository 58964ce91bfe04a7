/* The device's measured peak: multiply-adds on all threads, and a copy of more memory than the caches hold.
 */
#include "backend/cpu/peak.h"
#include "backend/cpu/kernel.h"
#include "base/os.h"
#include <string.h>

#define DECLARE(isa)                                                                                         \
    extern ls_peak_result ls_peak_fast__##isa(int64_t, float, float),                                        \
        ls_peak_locked__##isa(int64_t, float, float);
#define ROW(id, isa) [LS_CPU_##id] = {ls_peak_locked__##isa, ls_peak_fast__##isa},
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
#endif
#if LS_HAVE_ISA_AVX512
DECLARE(avx512)
#endif

static ls_peak_fn const peaks[LS_CPU_ISA_COUNT][2] = {
#if LS_HAVE_ISA_SCALAR
    ROW(SCALAR, scalar)
#endif
#if LS_HAVE_ISA_NEON
        ROW(NEON, neon)
#endif
#if LS_HAVE_ISA_SIMD128
        [LS_CPU_SIMD128] = {ls_peak_locked__simd128, ls_peak_locked__simd128}, /* nothing fuses */
#endif
#if LS_HAVE_ISA_AVX2
            ROW(AVX2, avx2)
#endif
#if LS_HAVE_ISA_AVX512
                ROW(AVX512, avx512)
#endif
};

enum { STEPS = 2000000, SLICES = 64 };
static const size_t COPY_BYTES = (size_t)256 << 20; /* several times a last-level cache's share */

typedef struct measurement {
    ls_peak_fn fn;
    char *from, *to;
    ls_peak_result result;
} measurement;

static void compute_task(void *ctx, long task, int worker) {
    measurement *m = ctx;
    (void)worker;
    ls_peak_result r = m->fn(STEPS, 0.999f, 0.001f);
    if (task == 0) {
        m->result = r;
    }
}

static void copy_task(void *ctx, long task, int worker) {
    measurement *m = ctx;
    size_t n = COPY_BYTES / SLICES;
    (void)worker;
    memcpy(m->to + (size_t)task * n, m->from + (size_t)task * n, n);
}

ls_status ls_cpu_peak(ls_device *device, ls_math math, double *out_gflops, double *out_copy_gbs,
                      ls_error *err) {
    ls_cpu_device *d = device->state;
    measurement m = {.fn = peaks[d->isa][math != LS_LOCKED]};
    m.from = ls_alloc_zeroed(d->heap, COPY_BYTES);
    m.to = ls_alloc_zeroed(d->heap, COPY_BYTES);
    if (!m.from || !m.to) {
        ls_free(d->heap, m.from);
        ls_free(d->heap, m.to);
        return LS_FAIL_MEMORY(err, "the measurement of the copy bandwidth");
    }
    double best_compute = 0, best_copy = 0;
    for (int round = 0; round < 5; round++) {
        uint64_t start = ls_os_nanoseconds();
        ls_pool_run(d->pool, d->threads, compute_task, &m);
        uint64_t middle = ls_os_nanoseconds();
        ls_pool_run(d->pool, SLICES, copy_task, &m);
        uint64_t end = ls_os_nanoseconds();
        double compute = (double)m.result.flops * d->threads / (double)(middle - start + 1);
        double copy = 2 * (double)COPY_BYTES / (double)(end - middle + 1);
        best_compute = compute > best_compute ? compute : best_compute;
        best_copy = copy > best_copy ? copy : best_copy;
    }
    ls_free(d->heap, m.from);
    ls_free(d->heap, m.to);
    *out_gflops = best_compute;
    *out_copy_gbs = best_copy;
    return LS_OK;
}
