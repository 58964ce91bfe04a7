/* Products with block-quantised columns: recognising them, packing them once, and the ways to compute: one row, rows as integers, or
 * panels for the packed product. No bit of locked arithmetic depends on which: each multiplies code by scale in f32, which is the
 * graph's own rounding, and adds by the contraction rule. */
#include "backend/cpu/quant.h"
#include "backend/cpu/kept.h"
#include "base/half.h"
#include <string.h>

enum {
    ROWS_PER_TASK = 22 * LS_QUANT_TILE,
    MOST_ARGS = 6,
    STRIP = 256 /* columns packed at a time */
};
enum { WIDE = 1, SINGLE = 2, REFUSED = 4 }; /* what a packing meets: codes beyond 4 bits, scales beyond f16, what is neither */

struct ls_quant {
    ls_program program; /* lanes as those of the side's own; results: code and scale, as f32 */
    int n_args;
    uint8_t args[MOST_ARGS];
    int32_t value;
    unsigned met; /* WIDE, SINGLE, REFUSED: in packings so far */
};

/* ---- recognising ---- */

/* Integers as f32, moved by zero points. */
static bool is_codes(const ls_spec *spec, int32_t id) {
    const ls_value *v = &spec->values[id];
    if (v->op != LS_V_MAP || v->dtype != LS_F32) {
        return false;
    }
    if (v->map == LS_OP_CAST) {
        return ls_dtype_is_int((ls_dtype)spec->values[v->a].dtype);
    }
    return (v->map == LS_OP_SUB || v->map == LS_OP_ADD) && (is_codes(spec, v->a) || is_codes(spec, v->b));
}

/* Whether an index is the same in every launch: of axes alone. */
static bool is_lasting(const ls_spec *spec, int32_t id) {
    const ls_ix *ix = id == LS_SPEC_NONE ? NULL : &spec->ix[id];
    return !ix || ix->op <= LS_IX_AXIS || (ix->op >= LS_IX_ADD && is_lasting(spec, ix->a) && is_lasting(spec, ix->b));
}

static bool are_lasting(const ls_spec *spec, const ls_value *v) {
    bool lasting = is_lasting(spec, v->ix);
    for (int32_t i = v->first_pred; i < v->first_pred + v->n_preds; i++) {
        lasting = lasting && is_lasting(spec, spec->preds[i].ix) && is_lasting(spec, spec->preds[i].limit);
    }
    return lasting;
}

/* Collects what a value loads; false where it is more than maps of loads at places that stay. */
static bool collect(const ls_spec *spec, const int *temps, struct ls_quant *q, int32_t id) {
    const ls_value *v = &spec->values[id];
    if (temps[id] >= 0 || v->check != LS_SPEC_NONE) {
        return v->op == LS_V_CONST;
    }
    if (!are_lasting(spec, v)) {
        return false;
    }
    if (v->op == LS_V_LOAD) {
        for (int i = 0; i < q->n_args; i++) {
            if (q->args[i] == v->arg) {
                return true;
            }
        }
        if (q->n_args == MOST_ARGS || v->arg > UINT8_MAX || spec->args[v->arg].written) {
            return false;
        }
        q->args[q->n_args++] = (uint8_t)v->arg;
        return true;
    }
    if (v->op == LS_V_INDEX || v->op == LS_V_CONST) {
        return true;
    }
    const int32_t operands[] = {v->a, v->b, v->c};
    bool ok = v->op == LS_V_MAP || v->op == LS_V_GUARD;
    for (int i = 0; ok && i < 3; i++) {
        ok = operands[i] == LS_SPEC_NONE || collect(spec, temps, q, operands[i]);
    }
    return ok;
}

ls_status ls_quant_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, const int *temps, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_contract_side *side = &gemm->side[1];
    const ls_value *v = &spec->values[side->value];
    struct ls_quant q = {.value = side->value};
    if (side->affine || !side->fixed || gemm->batch.n || v->op != LS_V_MAP || v->map != LS_OP_MUL || v->dtype != LS_F32 ||
        spec->values[gemm->side[0].value].dtype != LS_F32 || !gemm->k.n || !gemm->n.n) {
        return LS_OK;
    }
    int32_t codes = is_codes(spec, v->a) ? v->a : v->b, scale = codes == v->a ? v->b : v->a;
    if (!is_codes(spec, codes) || !collect(spec, temps, &q, side->value) || !q.n_args) {
        return LS_OK;
    }
    const ls_axis_group *lanes = side->lanes_k ? &gemm->k : &gemm->n;
    ls_program_builder *b = ls_pb_create(&binary->arena, spec, binary->device->tiles, temps, lanes->n, lanes->axes);
    gemm->quant = LS_ARENA_NEW(&binary->arena, struct ls_quant);
    if (!b || !gemm->quant) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    int16_t masks[2], results[2];
    results[0] = ls_pb_value(b, codes, 0, &masks[0]);
    results[1] = ls_pb_value(b, scale, 0, &masks[1]);
    if (!ls_pb_finish(b, 2, results, &q.program)) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    *gemm->quant = q;
    if (masks[0] >= 0 || masks[1] >= 0) { /* absent elements */
        gemm->quant = NULL;
    }
    return LS_OK;
}

void ls_quant_print(ls_text *out, const struct ls_quant *q) {
    ls_text_printf(out, "    columns v%d: quantised, kept in 4 or 8 bits with a scale for every %d of k\n", q->value, LS_QUANT_K);
}

/* ---- packing ---- */

typedef struct packing {
    ls_gemm_launch *launch;
    const struct ls_quant *quant;
    ls_quant_pack *pack;
    int64_t n, k;
    atomic_uint trouble;
} packing;

size_t ls_quant_scratch(const struct ls_quant *q) {
    return (ls_run_bytes(&q->program) + 2 * LS_ALIGN) & ~(size_t)(LS_ALIGN - 1);
}

/* The code of column c of a group at k of block `at`. */
static void put(const packing *p, int64_t at, int c, int k, float x, unsigned *trouble) {
    const ls_quant_pack *w = p->pack;
    int code = x >= -128 && x <= 127 ? (int)x : 0;
    float back = (float)code;
    *trouble |= memcmp(&back, &x, 4) != 0 ? REFUSED : 0;
    if (w->bits == 4 && (code < -8 || code > 7)) {
        *trouble |= WIDE;
        code = 0;
    }
    uint8_t *block = w->codes + at * w->bits * 64;
    if (w->bits == 8) {
        block[k / 4 * 64 + c * 4 + k % 4] = (uint8_t)(code + 128);
    } else {
        block[k / 8 * 64 + c * 4 + k % 4] |= (uint8_t)((code + 8) << (k & 4));
    }
}

static void put_scale(const packing *p, int64_t at, int c, float d, unsigned *trouble) {
    const ls_quant_pack *w = p->pack;
    uint16_t half = ls_f32_to_f16(d);
    float back = ls_f16_to_f32(half);
    if (w->half) {
        *trouble |= memcmp(&back, &d, 4) != 0 ? SINGLE : 0;
        ((uint16_t *)w->scales)[at * LS_QUANT_GROUP + c] = half;
    } else {
        ((float *)w->scales)[at * LS_QUANT_GROUP + c] = d;
    }
}

/* Column after column, lanes along k. */
static void pack_along_k(const packing *p, ls_run *run, int64_t j0, int64_t nj, unsigned *trouble) {
    const ls_gemm_phase *gemm = p->launch->phase->gemm;
    for (int64_t j = j0; j < j0 + nj; j++) {
        int64_t group = j / LS_QUANT_GROUP;
        int c = (int)(j % LS_QUANT_GROUP);
        ls_point_coords(run->extents, gemm->n.n, gemm->n.axes, j, run->coords);
        ls_run_point(run);
        for (int64_t k = 0; k < p->k; k += LS_TILE) {
            int64_t n = p->k - k < LS_TILE ? p->k - k : LS_TILE;
            ls_run_lanes(run, k, n);
            const float *codes = ls_run_reg(run, p->quant->program.results[0]);
            const float *scales = ls_run_reg(run, p->quant->program.results[1]);
            for (int64_t i = 0; i < n; i++) {
                int64_t at = group * p->pack->blocks + (k + i) / LS_QUANT_K, first = i - i % LS_QUANT_K;
                put(p, at, c, (int)(i % LS_QUANT_K), codes[i], trouble);
                if (i == first) {
                    put_scale(p, at, c, scales[i], trouble);
                }
                *trouble |= memcmp(&scales[i], &scales[first], 4) != 0 ? REFUSED : 0;
            }
        }
    }
}

/* One k after another, lanes along columns. */
static void pack_along_columns(const packing *p, ls_run *run, int64_t j0, int64_t nj, unsigned *trouble) {
    const ls_gemm_phase *gemm = p->launch->phase->gemm;
    float first[STRIP];
    for (int64_t k = 0; k < p->k; k++) {
        ls_point_coords(run->extents, gemm->k.n, gemm->k.axes, k, run->coords);
        ls_run_point(run);
        ls_run_lanes(run, j0, nj);
        const float *codes = ls_run_reg(run, p->quant->program.results[0]);
        const float *scales = ls_run_reg(run, p->quant->program.results[1]);
        for (int64_t i = 0; i < nj; i++) {
            int64_t at = (j0 + i) / LS_QUANT_GROUP * p->pack->blocks + k / LS_QUANT_K;
            put(p, at, (int)(i % LS_QUANT_GROUP), (int)(k % LS_QUANT_K), codes[i], trouble);
            if (k % LS_QUANT_K == 0) {
                put_scale(p, at, (int)(i % LS_QUANT_GROUP), scales[i], trouble);
                first[i] = scales[i];
            }
            *trouble |= memcmp(&scales[i], &first[i], 4) != 0 ? REFUSED : 0;
        }
    }
}

static void pack_strip(void *ctx, int64_t strip, int worker) {
    packing *p = ctx;
    ls_phase_task task = {p->launch->kernel, p->launch->phase, ls_worker_scratch(p->launch->kernel, worker), 0, 0};
    size_t offset = p->launch->quant_offset;
    int64_t j0 = strip * STRIP, nj = p->n - j0 < STRIP ? p->n - j0 : STRIP;
    unsigned trouble = 0;
    ls_run run;
    ls_phase_begin(&task, &p->quant->program, &offset, &run);
    (p->launch->phase->gemm->side[1].lanes_k ? pack_along_k : pack_along_columns)(p, &run, j0, nj, &trouble);
    atomic_fetch_or_explicit(&p->trouble, trouble, memory_order_relaxed);
}

static void for_each(ls_gemm_launch *launch, int64_t n, void (*fn)(void *ctx, int64_t task, int worker), void *ctx) {
    ls_cpu_device *d = launch->kernel->binary->device;
    if (d->threads > 1 && n > 1) {
        launch->call = (ls_gemm_call){fn, ctx};
        ls_pool_run(d->pool, (long)n, ls_gemm_call_task, &launch->call);
    } else {
        for (int64_t i = 0; i < n; i++) {
            fn(ctx, i, 0);
        }
    }
}

static size_t lines_up(size_t bytes) {
    return (bytes + LS_GEMM_ALIGN - 1) & ~(size_t)(LS_GEMM_ALIGN - 1);
}

/* The packed columns: kept ones, or packed now; NULL where they are not to be had. */
static const ls_quant_pack *find_pack(ls_gemm_launch *launch, int64_t n, int64_t k) {
    struct ls_quant *q = launch->phase->gemm->quant;
    ls_cpu_device *d = launch->kernel->binary->device;
    int64_t columns = (n + LS_QUANT_STRIP - 1) / LS_QUANT_STRIP * LS_QUANT_STRIP, blocks = (k + LS_QUANT_K - 1) / LS_QUANT_K;
    while (!(q->met & REFUSED)) {
        size_t head = lines_up(sizeof(ls_quant_pack)), codes = (size_t)(columns * blocks) * (q->met & WIDE ? 32 : 16);
        size_t bytes = head + codes + (size_t)(columns * blocks) * (q->met & SINGLE ? 4 : 2);
        ls_kept *kept = ls_kept_find_all(d, launch->kernel->launch, q->args, q->n_args, launch->phase, LS_KEPT_QUANT, bytes);
        if (!kept || kept->ready) {
            return kept ? kept->data : NULL;
        }
        memset(kept->data, 0, bytes);
        ls_quant_pack *w = kept->data;
        *w = (ls_quant_pack){q->met & WIDE ? 8 : 4, !(q->met & SINGLE), blocks, (uint8_t *)kept->data + head,
                             (char *)kept->data + head + codes};
        packing p = {.launch = launch, .quant = q, .pack = w, .n = n, .k = k};
        for_each(launch, (n + STRIP - 1) / STRIP, pack_strip, &p);
        q->met |= p.trouble;
        kept->ready = !p.trouble;
        if (kept->ready) {
            return w;
        }
        ls_kept_drop(d, kept);
    }
    return NULL;
}

/* ---- computing ---- */

typedef struct isa_entry {
    const ls_quant_isa *isa;
    LS_QUANT_MATVEC((*fast)); /* NULL: as locked */
} isa_entry;

static const isa_entry *isa_of(const ls_gemm_launch *launch) {
    static const isa_entry all[LS_CPU_ISA_COUNT] = {
#ifdef LS_HAVE_ISA_SCALAR
        [LS_CPU_SCALAR] = {&ls_quant__scalar, NULL},
#endif
#ifdef LS_HAVE_ISA_NEON
        [LS_CPU_NEON] = {&ls_quant__neon, ls_quant_fast_matvec__neon},
#endif
#ifdef LS_HAVE_ISA_SIMD128
        [LS_CPU_SIMD128] = {&ls_quant__simd128, NULL},
#endif
#ifdef LS_HAVE_ISA_AVX2
        [LS_CPU_AVX2] = {&ls_quant__avx2, ls_quant_fast_matvec__avx2},
#endif
#ifdef LS_HAVE_ISA_AVX512
        [LS_CPU_AVX512] = {&ls_quant__avx512, ls_quant_fast_matvec__avx512},
#endif
    };
    return &all[launch->kernel->binary->device->isa];
}

static const ls_quant_dots *dots_of(const ls_cpu_device *d) {
#ifdef LS_HAVE_ISA_AVX512
    if (d->isa == LS_CPU_AVX512 && d->cpu.avx512_vnni) {
        return &ls_quant_dots__avx512;
    }
#endif
#ifdef LS_HAVE_ISA_AVX2
    if (d->isa == LS_CPU_AVX2) {
        return &ls_quant_dots__avx2;
    }
#endif
    (void)d;
    return NULL;
}

typedef struct product {
    ls_gemm_launch *launch;
    const ls_gemm *g;
    const ls_quant_pack *w;
    const ls_quant_dots *dots;
    ls_quant_rows rows;
    const float *x; /* one row */
    bool fused;     /* by multiply-add */
    float *tiles;   /* of each worker */
    int64_t tile_size;
    atomic_bool failed;
} product;

static void panel(void *ctx, int worker, int64_t batch, int64_t k0, int64_t kc, int64_t i0, int64_t ni, int64_t width, void *out,
                  uint8_t *mask) {
    const ls_gemm_launch *launch = ctx;
    (void)worker, (void)batch, (void)mask;
    isa_of(launch)->isa->unpack(launch->quant_pack, i0, ni, k0, kc, width, out);
}

static void finish(const product *p, int worker, int64_t i0, int64_t ni, int64_t j0, float *tile) {
    int64_t nj = p->g->n - j0 < LS_QUANT_STRIP ? p->g->n - j0 : LS_QUANT_STRIP;
    ls_gemm_finish_tile(p->launch, worker, 0, i0, ni, j0, nj, tile, LS_QUANT_STRIP);
}

static void one_row(void *ctx, int64_t strip, int worker) {
    const product *p = ctx;
    const isa_entry *e = isa_of(p->launch);
    float *tile = p->tiles + worker * p->tile_size;
    for (int64_t j = 0; j < LS_QUANT_STRIP; j += e->isa->columns) {
        (p->fused ? e->fast : e->isa->matvec)(p->w, strip * LS_QUANT_STRIP + j, p->x, tile + j);
    }
    finish(p, worker, 0, 1, strip * LS_QUANT_STRIP, tile);
}

static void quantise_rows(void *ctx, int64_t tile, int worker) {
    product *p = ctx;
    const ls_gemm *g = p->g;
    (void)worker;
    if (!p->dots->rows(&p->rows, g->a.data, g->a.stride_i, g->m, tile * p->rows.height, g->k, p->w->bits == 4 ? 8 : 128)) {
        atomic_store_explicit(&p->failed, true, memory_order_relaxed);
    }
}

static void integers(void *ctx, int64_t task, int worker) {
    const product *p = ctx;
    int64_t parts = (p->g->m + ROWS_PER_TASK - 1) / ROWS_PER_TASK, strip = task / parts, i0 = task % parts * ROWS_PER_TASK;
    int64_t ni = p->g->m - i0 < ROWS_PER_TASK ? p->g->m - i0 : ROWS_PER_TASK;
    float *tile = p->tiles + worker * p->tile_size;
    for (int64_t q = 0; q < LS_QUANT_STRIP; q += 2 * LS_QUANT_GROUP) {
        p->dots->product(p->w, (strip * LS_QUANT_STRIP + q) / LS_QUANT_GROUP, &p->rows, i0 / LS_QUANT_TILE, ni, tile + q, LS_QUANT_STRIP);
    }
    finish(p, worker, i0, ni, strip * LS_QUANT_STRIP, tile);
}

static int64_t tile_floats(int64_t m) {
    int64_t rows = m < ROWS_PER_TASK ? (m + LS_QUANT_TILE - 1) / LS_QUANT_TILE * LS_QUANT_TILE : ROWS_PER_TASK;
    return rows * LS_QUANT_STRIP;
}

/* Of all tiles of rows: codes, scales, begins. */
static size_t rows_bytes(int64_t m, int64_t k) {
    int64_t height = ls_quant_height(m), tiles = (m + height - 1) / height, blocks = (k + LS_QUANT_K - 1) / LS_QUANT_K;
    return (size_t)(tiles * blocks * height) * (LS_QUANT_K + 8);
}

size_t ls_quant_workspace(const struct ls_quant *q, int64_t m, int64_t k, int workers) {
    (void)q;
    return lines_up((size_t)k * 4) + lines_up(rows_bytes(m, k)) + (size_t)(tile_floats(m) * workers) * 4;
}

static bool run_integers(product *p, char *workspace) {
    const ls_gemm *g = p->g;
    int64_t height = ls_quant_height(g->m), tiles = (g->m + height - 1) / height, cells = tiles * p->w->blocks * height;
    p->dots = p->launch->kernel->binary->spec.math == LS_REDUCED ? dots_of(p->launch->kernel->binary->device) : NULL;
    if (!p->dots || g->a.stride_k != 1) {
        return false;
    }
    p->rows = (ls_quant_rows){p->w->blocks, height, (int8_t *)workspace, (float *)(workspace + cells * LS_QUANT_K),
                              (int32_t *)(workspace + cells * (LS_QUANT_K + 4))};
    for_each(p->launch, tiles, quantise_rows, p);
    if (p->failed) {
        return false;
    }
    int64_t strips = (g->n + LS_QUANT_STRIP - 1) / LS_QUANT_STRIP, parts = (g->m + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    for_each(p->launch, strips * parts, integers, p);
    return true;
}

bool ls_quant_run(ls_gemm_launch *launch, ls_gemm *g, char *workspace) {
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_quant_pack *w = g->k ? find_pack(launch, g->n, g->k) : NULL;
    if (!w) {
        return false;
    }
    launch->quant_pack = w;
    g->b = (ls_gemm_operand){.dtype = LS_GEMM_F32, .pack = panel, .pack_ctx = launch, .batch_shared = true};
    if (!workspace || !gemm->side[0].view || !g->m || !g->n) {
        return false;
    }
    product p = {.launch = launch, .g = g, .w = w, .tile_size = tile_floats(g->m)};
    float *x = (float *)workspace;
    workspace += lines_up((size_t)g->k * 4);
    p.tiles = (float *)(workspace + lines_up(rows_bytes(g->m, g->k)));
    if (run_integers(&p, workspace)) {
        return true;
    }
    if (g->m > 1 || g->k % LS_QUANT_K) {
        return false;
    }
    uint32_t most = 0; /* as bits: it is larger for infinities and NaN */
    for (int64_t k = 0; k < g->k; k++) {
        uint32_t bits;
        memcpy(&bits, (const float *)g->a.data + k * g->a.stride_k, 4);
        memcpy(x + k, &bits, 4);
        most = (bits & INT32_MAX) > most ? bits & INT32_MAX : most;
    }
    p.x = x;
    p.fused = launch->kernel->binary->spec.math != LS_LOCKED && isa_of(launch)->fast && most < LS_QUANT_MOST;
    for_each(launch, (g->n + LS_QUANT_STRIP - 1) / LS_QUANT_STRIP, one_row, &p);
    return true;
}
