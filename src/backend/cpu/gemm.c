/*
 * Runs a planned matrix product. Invariant: a task owns its block of C and its worker's scratch memory, and
 * adds chunk sums to the block in ascending order, so no bit depends on who runs what, or when.
 */
#include "backend/cpu/gemm.h"

#include <string.h>

#include "backend/cpu/gemm_block.h"
#include "base/half.h"

/* n sums to n elements of the output, `step` elements apart. */
static void store_row(const ls_gemm *g, ls_gemm_type sum, const void *src, int64_t n, char *dst,
                      int64_t step) {
    int64_t size = ls_gemm_dtype_size(g->out.dtype);
    bool half = g->out.dtype == LS_GEMM_F16 || g->out.dtype == LS_GEMM_BF16;
    if (step == 1 && half) {
        (g->out.dtype == LS_GEMM_F16 ? g->isa->moves->to_f16 : g->isa->moves->to_bf16)(n, src,
                                                                                       (uint16_t *)dst);
        return;
    }
    if (step == 1) {
        memcpy(dst, src, (size_t)(n * size));
        return;
    }
    for (int64_t j = 0; j < n; j++, dst += step * size) {
        if (half) {
            float x = ((const float *)src)[j];
            uint16_t h = g->out.dtype == LS_GEMM_F16 ? ls_f32_to_f16(x) : ls_f32_to_bf16(x);
            memcpy(dst, &h, 2);
        } else if (sum == LS_GEMM_TYPE_F64) {
            memcpy(dst, (const double *)src + j, 8);
        } else {
            memcpy(dst, (const float *)src + j, 4);
        }
    }
}

/* What a block is in the caller's C. */
static ls_gemm_block turn(const ls_gemm_block *b) {
    const ls_gemm_plan *plan = b->plan;
    const void *rows[LS_GEMM_MAX_WIDTH];
    ls_gemm_block turned = *b;
    turned.i0 = b->j0;
    turned.mi = b->nj;
    turned.j0 = b->i0;
    turned.nj = turned.ldc = b->mi;
    turned.c = b->memory + plan->turned_at;
    for (int64_t i = 0; i < b->mi; i++) {
        rows[i] = b->c + i * b->ldc * plan->elem;
    }
    ls_gemm_pack_rows(plan->g->isa, LS_GEMM_F32, b->nj, b->mi, b->mi, rows, turned.c);
    return turned;
}

/* The block's sums are complete: epilogue, canonical NaN, output. */
static void finish(const ls_gemm_block *b) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm *g = plan->g;
    ls_gemm_block turned;
    int64_t stride_i = g->out.stride_i, stride_j = g->out.stride_j;
    if (!LS_SMALL && plan->turned) {
        turned = turn(b);
        b = &turned;
        stride_i = g->out.stride_j;
        stride_j = 1;
    }
    if (g->epilogue) {
        if (plan->swapped && !plan->turned) { /* only a single row, which is the caller's column */
            g->epilogue(g->epilogue_ctx, b->worker, b->batch, b->j0, b->nj, 0, 1, b->c, 1);
        } else {
            g->epilogue(g->epilogue_ctx, b->worker, b->batch, b->i0, b->mi, b->j0, b->nj, b->c, b->ldc);
        }
    }
    bool canonical = g->out.canonical_nan && (b->nan || g->epilogue);
    bool done = !g->out.data || !(plan->through_tile || canonical);
    for (int64_t i = 0; !done && i < b->mi; i++) {
        void *row = b->c + i * b->ldc * plan->elem;
        if (canonical && plan->sum == LS_GEMM_TYPE_F32) {
            g->isa->moves->canonical_f32(b->nj, row);
        } else if (canonical && plan->sum == LS_GEMM_TYPE_F64) {
            g->isa->moves->canonical_f64(b->nj, row);
        }
        if (plan->through_tile) {
            int64_t at = b->out_offset + (b->i0 + i) * stride_i + b->j0 * stride_j;
            store_row(g, plan->sum, row, b->nj, (char *)g->out.data + at * ls_gemm_dtype_size(g->out.dtype), stride_j);
        }
    }
}

static int64_t batch_offset(const ls_gemm *g, int64_t batch, const int64_t *strides) {
    int64_t offset = 0;
    for (int d = g->batch_rank - 1; d >= 0; d--) {
        offset += batch % g->batch[d] * strides[d];
        batch /= g->batch[d];
    }
    return offset;
}

/* What the tasks of one parallel run share: one slab of columns, one outer batch entry. */
typedef struct run {
    const ls_gemm_plan *plan;
    char *shared, *workers;
    int64_t batch0, slab0, slab_end;
    int64_t m_units, n_units, m_blocks, n_blocks; /* units: panels of A and B */
} run;

/* Where the i-th of blocks as large as each other begins, and how long it is, of `extent` in units of `width`. */
static inline void cut_block(int64_t units, int64_t blocks, int64_t i, int64_t width, int64_t extent, int64_t *out_at, int64_t *out_n) {
    *out_at = ls_gemm_quotient(i * units, blocks) * width;
    *out_n = (i + 1 < blocks ? ls_gemm_quotient((i + 1) * units, blocks) * width : extent) - *out_at;
}

/* A row's sums of some chunks, each in its place of the shared memory. */
static void part_task(void *ctx, int64_t task, int worker) {
    const run *r = ctx;
    const ls_gemm_plan *plan = r->plan;
    const int64_t k = plan->g->k, chunks = ls_gemm_ceil_div(k, LS_GEMM_CHUNK);
    const int64_t first = ls_gemm_quotient(task * chunks, plan->parts), end = ls_gemm_quotient((task + 1) * chunks, plan->parts);
    const ls_gemm_block b = {.plan = plan, .memory = r->workers + worker * plan->worker_bytes, .worker = worker, .mi = 1, .nj = plan->g->n};
    for (int64_t chunk = first; chunk < end; chunk++) {
        const int64_t k0 = chunk * LS_GEMM_CHUNK, kc = ls_gemm_smaller(LS_GEMM_CHUNK, k - k0);
        ls_gemm_block_sums(&b, k0, kc, r->shared + chunk * plan->part_bytes);
    }
}

static void block_task(void *ctx, int64_t task, int worker) {
    const run *r = ctx;
    const ls_gemm_plan *plan = r->plan;
    const ls_gemm *g = plan->g;
    int64_t column = ls_gemm_quotient(task, r->m_blocks), batch = ls_gemm_quotient(column, r->n_blocks);
    ls_gemm_block b;
    b.plan = plan;
    b.shared = r->shared;
    b.memory = r->workers + worker * plan->worker_bytes;
    b.worker = worker;
    b.nan = plan->vector != NULL;
    b.add = b.plus = NULL;
    b.slab0 = r->slab0;
    b.batch = r->batch0 + batch;
    cut_block(r->m_units, r->m_blocks, task - column * r->m_blocks, plan->rows, g->m, &b.i0, &b.mi);
    cut_block(r->n_units, r->n_blocks, column - batch * r->n_blocks, plan->cols, r->slab_end - r->slab0, &b.j0, &b.nj);
    b.j0 += r->slab0;
    b.a_offset = batch_offset(g, b.batch, g->a.stride_batch);
    b.b_offset = batch_offset(g, b.batch, g->b.stride_batch);
    b.out_offset = batch_offset(g, b.batch, g->out.stride_batch);
    if (plan->through_tile) {
        b.c = b.memory + plan->c_at;
        b.ldc = plan->ldc;
    } else {
        b.c = (char *)g->out.data + (b.out_offset + b.i0 * g->out.stride_i + b.j0) * plan->elem;
        b.ldc = g->out.stride_i;
    }
    if (LS_GEMM_FOLLOWS && plan->follows && g->follow.plus) {
        b.plus = g->follow.plus + (g->follow.columns ? b.j0 : (b.c - (const char *)g->out.data) / plan->elem);
    }
    ls_gemm_block_run(&b);
    finish(&b);
}

enum { PACK_PANELS = 4 }; /* of the shared slab, in one task */

/* Packs a few panels of the shared slab, one chunk of them. */
static void pack_task(void *ctx, int64_t task, int worker) {
    const run *r = ctx;
    const ls_gemm_plan *plan = r->plan;
    const ls_gemm *g = plan->g;
    int64_t width = PACK_PANELS * plan->cols, strips = (r->slab_end - r->slab0 + width - 1) / width;
    int64_t j0 = r->slab0 + task % strips * width, k0 = task / strips * LS_GEMM_CHUNK;
    ls_gemm_part part = {&g->b,
                         worker,
                         r->batch0,
                         batch_offset(g, r->batch0, g->b.stride_batch),
                         k0,
                         ls_gemm_smaller(LS_GEMM_CHUNK, g->k - k0),
                         j0,
                         ls_gemm_smaller(width, r->slab_end - j0),
                         plan->bytes_k,
                         plan->flip_b};
    char *panels = r->shared + ((j0 - r->slab0) * g->k + k0 * plan->cols) * plan->elem;
    ls_gemm_pack_part(g->isa, part, plan->cols, panels, g->k * plan->cols, NULL);
}

static void for_each(const ls_gemm_plan *plan, int64_t n, void (*fn)(void *, int64_t, int), void *ctx) {
    if (plan->inline_run || n <= 1) {
        for (int64_t task = 0; task < n; task++) {
            fn(ctx, !LS_SMALL && plan->backward ? n - 1 - task : task, 0);
        }
    } else {
        plan->g->parallel.run(plan->g->parallel.pool, n, fn, ctx);
    }
}

void ls_gemm_run_alone(const ls_gemm_plan *plan, const float *a, const float *b, float *c, const float *plus) {
    const ls_gemm_alone *alone = &plan->alone;
    unsigned nan = 0;
    ls_gemm_tiles t = alone->tiles;
    for (int64_t at = 0; at < alone->columns; at += alone->width, b += alone->b_next) {
        const float *rows = a;
        float *to = c + at;
        t.b = b;
        t.ahead = (const char *)b;
        t.add = alone->tiles.add;
        t.plus = plus ? plus + at : NULL;
        for (const ls_gemm_alone_part *part = alone->parts; part < alone->parts + alone->n_parts; part++) {
            t.n = part->tiles;
            t.a = rows;
            t.a_next = part->a_next;
            t.c = to;
            nan |= part->kernel(&t);
            rows += part->a;
            to += part->rows * t.ldc;
            t.add += t.add ? part->rows * t.add_step : 0;
            t.plus += t.plus ? part->rows * t.plus_row : 0;
        }
    }
    const ls_gemm *g = plan->g;
    for (int64_t i = 0; nan && g->out.canonical_nan && i < g->m; i++) {
        g->isa->moves->canonical_f32(g->n, c + i * g->out.stride_i);
    }
}

void ls_gemm_plan_run(const ls_gemm_plan *plan, void *workspace) {
    const ls_gemm *g = plan->g;
    if (!LS_SMALL && plan->alone.n_parts > 0) {
        ls_gemm_run_alone(plan, g->a.packed ? g->a.packed->data : g->a.data, g->b.packed ? g->b.packed->data : g->b.data, g->out.data,
                          plan->follows ? g->follow.plus : NULL);
        return;
    }
    run r = {.plan = plan, .shared = workspace, .workers = (char *)workspace + plan->shared_bytes};
    r.m_units = ls_gemm_ceil_div(g->m, plan->rows);
    r.m_blocks = plan->m_blocks;
    for (r.batch0 = 0; r.batch0 < plan->outer_batches; r.batch0++) {
        for (r.slab0 = 0; r.slab0 < g->n; r.slab0 += plan->slab) {
            r.slab_end = ls_gemm_smaller(r.slab0 + plan->slab, g->n);
            r.n_units = ls_gemm_ceil_div(r.slab_end - r.slab0, plan->cols);
            r.n_blocks = ls_gemm_smaller(plan->n_blocks, r.n_units);
            if (plan->b_source == LS_GEMM_SHARED) {
                int64_t width = PACK_PANELS * plan->cols, strips = (r.slab_end - r.slab0 + width - 1) / width;
                int64_t chunks = (g->k + LS_GEMM_CHUNK - 1) / LS_GEMM_CHUNK;
                for_each(plan, strips * chunks, pack_task, &r);
            }
            if (!LS_SMALL) {
                for_each(plan, plan->parts, part_task, &r);
            }
            for_each(plan, plan->batches * r.m_blocks * r.n_blocks, block_task, &r);
        }
    }
}

void ls_gemm_run(const ls_gemm *given, void *workspace) {
    ls_gemm g;
    ls_gemm_plan plan;
    if (!ls_gemm_empty(given)) {
        ls_gemm_plan_make(given, &g, &plan);
        ls_gemm_plan_run(&plan, workspace);
    }
}

/* `fused`: _fast, or nothing where there is no fused multiply-add, so that fast is locked. */
#define ISA(field, id, fused, with_dots, with_pairs)                                                         \
    {                                                                                                        \
        .isa = id, .f32 = &ls_gemm_f32__##field, .f64 = &ls_gemm_f64__##field, .i32 = &ls_gemm_i32__##field, \
        .f32_fast = &ls_gemm_f32##fused##__##field, .f64_fast = &ls_gemm_f64##fused##__##field,              \
        .moves = &ls_gemm_moves__##field, .dots = with_dots, .pairs = with_pairs                             \
    }

const ls_gemm_isa *ls_gemm_isa_get(ls_cpu_isa isa) {
    static const ls_gemm_isa all[LS_CPU_ISA_COUNT] = {
#ifdef LS_HAVE_ISA_SCALAR
        [LS_CPU_SCALAR] = ISA(scalar, LS_CPU_SCALAR, , NULL, NULL),
#endif
#ifdef LS_HAVE_ISA_NEON
        [LS_CPU_NEON] = ISA(neon, LS_CPU_NEON, _fast, NULL, NULL),
#endif
#ifdef LS_HAVE_ISA_SIMD128
        [LS_CPU_SIMD128] = ISA(simd128, LS_CPU_SIMD128, , NULL, NULL),
#endif
#ifdef LS_HAVE_ISA_AVX2
        [LS_CPU_AVX2] = ISA(avx2, LS_CPU_AVX2, _fast, NULL, NULL),
#endif
#ifdef LS_HAVE_ISA_AVX512
        [LS_CPU_AVX512] = ISA(avx512, LS_CPU_AVX512, _fast, NULL, NULL),
#endif
    };
    return (unsigned)isa < LS_CPU_ISA_COUNT && all[isa].moves ? &all[isa] : NULL;
}

const ls_gemm_isa *ls_gemm_isa_for(const ls_cpu *cpu, ls_cpu_isa isa) {
#ifdef LS_HAVE_ISA_AVX512
    static const ls_gemm_isa vnni = ISA(avx512, LS_CPU_AVX512, _fast, &ls_gemm_dot_moves__avx512, NULL),
                             bf16 = ISA(avx512, LS_CPU_AVX512, _fast, &ls_gemm_dot_moves__avx512, &ls_gemm_pairs__avx512),
                             amx = ISA(avx512, LS_CPU_AVX512, _fast, &ls_gemm_dot_moves__avx512, &ls_gemm_amx__avx512);
    if (isa == LS_CPU_AVX512 && cpu->avx512_vnni) {
        return cpu->amx_bf16 ? &amx : cpu->bf16_is_fast ? &bf16 : &vnni;
    }
#endif
    (void)cpu;
    return ls_gemm_isa_get(isa);
}
