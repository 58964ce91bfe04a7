/* Products of f32 in `reduced`, as products of bf16 (C28), where the processor has them: both operands are rounded to pairs of k before the
 * product, or kept so from an earlier launch. Where one of them holds numbers with which the instruction would lose more than that, and for
 * what is no plain matrix, the product is that of `fast`. */
#include "backend/cpu/contract.h"
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/kept.h"

#ifdef LS_HAVE_ISA_AVX512
#include <stdatomic.h>

enum {
    LEAST_COLUMNS = 8,
    LEAST_K = 8,
    LEAST_ROWS = 8,   /* a tile's, but where B is kept and larger than the caches: half the bytes are half the time */
    LEAST_REUSED = 48 /* columns or rows that meet an operand which is rounded for this launch alone */
};

/* One operand on its way to pairs. */
typedef struct rounding {
    ls_gemm_side side;
    const ls_gemm_operand *operand;
    const ls_gemm_packed *packed;
    int64_t k;
    void *memory;
    atomic_bool out_of_range;
} rounding;

static void round_task(void *ctx, int64_t task, int worker) {
    rounding *r = ctx;
    (void)worker;
    if (!ls_gemm_pack_pairs(r->side, r->operand, r->packed, task, r->k, r->memory)) {
        atomic_store_explicit(&r->out_of_range, true, memory_order_relaxed);
    }
}

static bool round_operand(const ls_gemm *g, ls_gemm_side s, const ls_gemm_packed *packed, void *memory) {
    rounding r = {.side = s, .operand = s ? &g->b : &g->a, .packed = packed, .k = g->k, .memory = memory};
    int64_t panels = ls_gemm_ceil_div(packed->extent, packed->width);
    if (g->parallel.run && panels > 1) {
        g->parallel.run(g->parallel.pool, panels, round_task, &r);
    } else {
        for (int64_t i = 0; i < panels; i++) {
            round_task(&r, i, 0);
        }
    }
    return !atomic_load_explicit(&r.out_of_range, memory_order_relaxed);
}

/* Whether an operand's rows or columns are consecutive, as packing wants them. */
static bool in_runs(const ls_gemm_operand *o, int64_t extent) {
    return o->stride_k == 1 || o->stride_i == 1 || extent < 2;
}

static bool suits(const ls_gemm_launch *launch, const ls_gemm *g) {
    const ls_gemm_phase *gemm = launch->phase->gemm;
    bool views = gemm->side[0].view && gemm->side[1].view && g->a.dtype == LS_GEMM_F32 && g->b.dtype == LS_GEMM_F32;
    return ls_gemm_has_pairs(g->isa) && views && !gemm->batch.n && g->n >= LEAST_COLUMNS && g->k >= LEAST_K && in_runs(&g->a, g->m) &&
           in_runs(&g->b, g->n);
}

/* A side as it is packed, in memory that is kept if *out_kept. False: rounding it does not pay, or would lose numbers. */
static bool find_side(const ls_gemm_launch *launch, const ls_gemm *g, ls_gemm_side s, ls_gemm_packed *out, ls_kept **out_kept,
                      size_t *out_bytes) {
    const ls_kernel_binary *binary = launch->kernel->binary;
    ls_cpu_device *d = binary->device;
    const ls_contract_side *side = &launch->phase->gemm->side[s];
    int64_t extent = s ? g->n : g->m, other = s ? g->m : g->n;
    *out = ls_gemm_packed_pairs(g->isa, s, s ? &g->b : &g->a, extent, g->k);
    *out_bytes = ls_gemm_packed_size(g->isa, s, LS_GEMM_PAIRS, extent, out->k);
    if (s == LS_GEMM_B && g->m < LEAST_ROWS && (int64_t)*out_bytes <= d->cpu.l2_bytes / 2) {
        return false;
    }
    *out_kept = side->fixed && !binary->spec.args[side->buffer].written
                    ? ls_kept_find(d, launch->kernel->launch, side->buffer, launch->phase, LS_KEPT_PAIRS + (int)s, *out_bytes)
                    : NULL;
    return *out_kept ? !(*out_kept)->ready || (*out_kept)->finite : other >= LEAST_REUSED;
}

static size_t aligned(size_t bytes) {
    return (bytes + LS_GEMM_ALIGN - 1) / LS_GEMM_ALIGN * LS_GEMM_ALIGN;
}

bool ls_pairs_run(ls_gemm_launch *launch, const ls_gemm *g) {
    ls_cpu_device *d = launch->kernel->binary->device;
    ls_gemm pairs = *g, planned;
    ls_gemm_packed packed[2];
    ls_kept *kept[2];
    size_t bytes[2];
    ls_gemm_plan plan;
    if (!suits(launch, g) || !find_side(launch, g, LS_GEMM_B, &packed[1], &kept[1], &bytes[1]) ||
        !find_side(launch, g, LS_GEMM_A, &packed[0], &kept[0], &bytes[0])) {
        return false;
    }
    pairs.k = packed[0].k;
    pairs.a.dtype = pairs.b.dtype = LS_GEMM_PAIRS;
    pairs.a.packed = &packed[0];
    pairs.b.packed = &packed[1];
    ls_gemm_plan_make(&pairs, &planned, &plan);
    size_t at = aligned(ls_gemm_plan_bytes(&plan)), need = at;
    for (int s = 0; s < 2; s++) {
        need += kept[s] ? 0 : aligned(bytes[s]);
    }
    if (!ls_gemm_grow_workspace(d, need)) {
        return false;
    }
    for (int s = 0; s < 2; s++) {
        void *memory = kept[s] ? kept[s]->data : d->workspace + at;
        bool fine = (kept[s] && kept[s]->ready) || round_operand(g, (ls_gemm_side)s, &packed[s], memory);
        if (kept[s]) {
            kept[s]->ready = true;
            kept[s]->finite = fine;
        } else {
            at += aligned(bytes[s]);
        }
        if (!fine) {
            return false;
        }
        packed[s].data = memory;
    }
    ls_gemm_plan_run(&plan, d->workspace);
    return true;
}
#endif
