/* Contractions on the packed matrix product, launched: the problem for a launch's extents, what is kept of operands from one launch to the
 * next, and the epilogue. */
#include "backend/cpu/contract.h"
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/kept.h"
#include "backend/cpu/quant.h"
#include <string.h>

enum { WIDEST = 4 };
#ifdef LS_HAVE_ISA_AVX512
enum { WIDE_TILES = true };
#else
enum { WIDE_TILES = false };
#endif

/* What later launches may find of an operand whose buffer stays the same. */
enum keeping { KEEPS_NOTHING, KEEPS_PANELS, KEEPS_TURNED };

/* The last launch's problem and plan, which serve the next one of the same extents. Launches have the device's mutex. */
struct ls_gemm_last {
    bool made;
    bool again; /* launches of a plan that has run differ by addresses alone, */
    bool alike; /* and of the kernel, whose one phase this is, too: its extents are fixed, and nothing is begun before the tiles */
    int packed; /* which operands were packed before in the plan: bit 0 for A, bit 1 for B; -1: there is no plan */
    struct {
        enum keeping keeps;
        ls_gemm_side side; /* of panels that are kept, and their bytes */
        size_t bytes;
        bool before; /* it is packed before the product if it is not kept */
        int64_t at;  /* where its first element is in its buffer, in bytes */
    } sides[2];
    int64_t out_at; /* the same of the results */
    int64_t extents[LS_SPEC_MAX_AXES];
    ls_gemm g, planned;
    ls_gemm_plan plan;
    ls_gemm_launch launch;
};

struct ls_gemm_last *ls_gemm_last_new(ls_arena *arena) {
    return LS_ARENA_NEW(arena, struct ls_gemm_last);
}

size_t ls_gemm_worker_size(void) {
    return sizeof(ls_gemm_worker);
}

static void run_tasks(void *pool, int64_t n, void (*fn)(void *ctx, int64_t task, int worker), void *ctx) {
    ls_gemm_launch *launch = pool;
    launch->call = (ls_gemm_call){fn, ctx};
    ls_pool_run(launch->kernel->binary->device->pool, (long)n, ls_gemm_call_task, &launch->call);
}

void ls_gemm_call_task(void *ctx, long task, int worker) {
    const ls_gemm_call *call = ctx;
    call->fn(call->ctx, task, worker);
}

ls_gemm_worker *ls_gemm_worker_of(const ls_gemm_launch *launch, int worker) {
    ls_gemm_worker *w = &launch->workers[worker];
    if (w->product != launch->number) {
        w->product = launch->number;
        w->finish_begun = w->side_begun[0] = w->side_begun[1] = w->image_clear = false;
        w->kc[0] = w->kc[1] = 0;
    }
    return w;
}

/* The worker's run of the finish program, begun at its first tile. */
static ls_run *finish_run(ls_gemm_launch *launch, int worker) {
    ls_gemm_worker *w = ls_gemm_worker_of(launch, worker);
    if (!w->finish_begun) {
        ls_phase_task task = {launch->kernel, launch->phase, ls_worker_scratch(launch->kernel, worker), 0, 0};
        size_t offset = launch->finish_offset;
        ls_phase_begin(&task, &launch->phase->finish, &offset, &w->finish);
        ls_run_point(&w->finish);
        w->finish_begun = true;
    }
    return &w->finish;
}

void ls_gemm_finish_tile(void *ctx, int worker, int64_t batch, int64_t i0, int64_t ni, int64_t j0, int64_t nj,
                         void *tile, int64_t ld) {
    ls_gemm_launch *launch = ctx;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_program *p = &launch->phase->finish;
    if (gemm->chain) {
        ls_chain_tile(launch, batch, i0, ni, j0, nj, tile, ld);
        return;
    }
    ls_run *run = finish_run(launch, worker);
    size_t size = launch->sum_size;
    ls_point_coords(run->extents, gemm->batch.n, gemm->batch.axes, batch, run->coords);
    for (int64_t i = 0; i < ni; i++) {
        ls_point_coords(run->extents, gemm->m.n, gemm->m.axes, i0 + i, run->coords);
        if (p->n_instrs[LS_SECTION_POINT]) {
            ls_run_point(run);
        }
        for (int64_t j = 0, n; j < nj; j += n) {
            n = nj - j < LS_TILE ? nj - j : LS_TILE;
            if (gemm->cut && gemm->cut - (j0 + j) % gemm->cut < n) {
                n = gemm->cut - (j0 + j) % gemm->cut;
            }
            run->regs[p->input] = (char *)tile + (size_t)(i * ld + j) * size;
            ls_run_lanes(run, j0 + j, n);
        }
    }
}

bool ls_gemm_grow_workspace(ls_cpu_device *d, size_t need) {
    if (need > d->workspace_size) {
        char *more = ls_alloc(d->heap, need);
        if (!more) {
            return false;
        }
        ls_free(d->heap, d->workspace);
        d->workspace = more;
        d->workspace_size = need;
    }
    return true;
}

/* Fills the problem for given extents; the operands' data is set when the buffers are known. */
static void make_problem(const ls_kernel_binary *binary, const ls_phase *phase, const int64_t *extents,
                         ls_gemm *g) {
    const ls_gemm_phase *gemm = phase->gemm;
    const ls_spec *spec = &binary->spec;
    *g = (ls_gemm){.isa = binary->device->gemm,
                   .fast = spec->math != LS_LOCKED,
                   .l2_bytes = binary->device->cpu.l2_bytes,
                   .l2_is_near = binary->device->cpu.l2_is_near,
                   .fetches_best = binary->device->cpu.fetches_best};
    g->m = ls_point_count(extents, gemm->m.n, gemm->m.axes);
    g->n = ls_point_count(extents, gemm->n.n, gemm->n.axes);
    g->k = ls_point_count(extents, gemm->k.n, gemm->k.axes);
    g->batch_rank = gemm->batch.n;
    for (int i = 0; i < gemm->batch.n; i++) {
        g->batch[i] = extents[gemm->batch.axes[i]];
    }
    for (int s = 0; s < 2; s++) {
        const ls_contract_side *side = &gemm->side[s];
        ls_gemm_operand *o = s ? &g->b : &g->a;
        o->dtype = side->dtype;
        o->absent = side->absent && side->n_preds + !side->affine > 0;
        if (side->view) {
            o->stride_i = side->view_i;
            o->stride_k = side->view_k;
            memcpy(o->stride_batch, side->batch_stride, sizeof o->stride_batch);
        } else {
            o->pack = ls_gemm_pack_side;
            o->batch_shared = true;
            for (int i = 0; i < gemm->batch.n; i++) {
                o->batch_shared =
                    o->batch_shared && !(spec->values[side->value].axes >> gemm->batch.axes[i] & 1);
            }
        }
    }
    if (gemm->out < 0) {
        g->epilogue = ls_gemm_finish_tile;
    }
    if (gemm->out >= 0 || (LS_GEMM_FOLLOWS && gemm->result >= 0 && gemm->chain && ls_chain_follow(gemm->chain, &g->follow))) {
        g->out = (ls_gemm_out){.dtype = gemm->out_dtype,
                               .data = (void *)binary, /* until the buffers are known */
                               .stride_i = gemm->out_i,
                               .stride_j = gemm->out_j,
                               .canonical_nan = true};
        memcpy(g->out.stride_batch, gemm->out_batch, sizeof g->out.stride_batch);
    }
    g->parallel.workers = binary->device->threads;
    g->parallel.run = ls_has_threads(binary->device) ? run_tasks : NULL;
    g->parallel.near = ls_pool_is_near(binary->device->pool);
    g->turns = ls_gemm_turns(g);
}

/* For this launch alone. */
static void change_problem(struct ls_gemm_last *last) {
    last->made = false;
    last->packed = -1;
}

static void ask_for_next(const struct ls_gemm_last *last, const ls_cpu_device *d) {
    if (last->plan.asks) {
        (void)ls_pool_would_be_near(d->pool);
    }
}

/* False: the workspace is too small. */
static bool run_planned(struct ls_gemm_last *last, const ls_cpu_device *d) {
    const ls_gemm *g = &last->g;
    int packed = (g->a.packed != NULL) | (g->b.packed != NULL) << 1;
    if (ls_gemm_empty(g)) {
        return true;
    }
    if (last->packed != packed) {
        ls_gemm_plan_make(g, &last->planned, &last->plan);
        last->packed = packed;
    }
    ls_gemm_plan_move(&last->plan, g, &last->planned);
    last->plan.backward = !LS_SMALL && g->m == 1 && (g->b.packed || last->plan.vector) && !last->plan.backward; /* what the last launch read last is still near */
    if (ls_gemm_plan_bytes(&last->plan) > d->workspace_size) {
        return false;
    }
    ls_gemm_plan_run(&last->plan, d->workspace);
    ask_for_next(last, d);
    return true;
}

/* Whether side s is worth packing once before the product: small, packed by callback, and met again by many
 * blocks. */
static bool pack_before(const ls_gemm *g, const ls_gemm_phase *gemm, int s, size_t *out_bytes) {
    const ls_gemm_operand *o = s ? &g->b : &g->a;
    int64_t extent = s ? g->n : g->m, other = s ? g->m : g->n;
    if (o->packed || (g->turns && g->a.packed)) {
        return false;
    }
    bool contiguous = gemm->side[s].view && (o->stride_i == 1 || o->stride_k == 1);
    if (gemm->batch.n || o->absent || extent * g->k > 1 << 18 || other < 1024 || contiguous || extent < 2 ||
        other < 2) {
        return false;
    }
    *out_bytes =
        (ls_gemm_packed_size(g->isa, s ? LS_GEMM_B : LS_GEMM_A, o->dtype, extent, g->k) + LS_GEMM_ALIGN - 1) &
        ~(size_t)(LS_GEMM_ALIGN - 1);
    return true;
}

/* Workspace for the product and for operands packed before it, which change the product's plan. */
static size_t workspace(const ls_gemm *g, const ls_gemm_phase *gemm, size_t packed[2]) {
    ls_gemm planned = *g;
    ls_gemm_packed stand_in[2];
    size_t bytes = LS_GEMM_ALIGN;
    for (int s = 0; s < 2; s++) {
        packed[s] = 0;
        if (pack_before(g, gemm, s, &packed[s])) {
            ls_gemm_operand *o = s ? &planned.b : &planned.a;
            stand_in[s] = (ls_gemm_packed){
                .isa = g->isa,
                .extent = s ? g->n : g->m,
                .k = g->k,
                .finite = true,
                .width = ls_gemm_packed_width(g->isa, s ? LS_GEMM_B : LS_GEMM_A, o->dtype, s ? g->n : g->m)};
            o->packed = &stand_in[s];
            bytes += packed[s];
        }
    }
    return bytes + ls_gemm_workspace(&planned);
}

enum { TURNED_ROWS = 16, KEPT_L2S = 8, NEAR_L2S = 2 };

/* Whether the matrix of a product with a row is worth a copy in panels, which come from the second cache at its full rate, as no other
 * order does, and from the third a tenth faster; a quarter where its rows lie along k. */
static bool row_in_panels(const ls_gemm *g, int64_t l2) {
    int64_t most = l2 * (g->b.stride_k == 1 ? KEPT_L2S : NEAR_L2S);
    return WIDE_TILES && g->isa->f32->vectors == WIDEST && g->m == 1 && g->b.dtype == LS_GEMM_F32 &&
           (g->b.stride_k == 1 || g->b.stride_i == 1) && g->n >= TURNED_ROWS && g->n * g->k * (int64_t)sizeof(float) <= most;
}

/* How side s is kept from launch to launch. */
static void plan_keeping(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, struct ls_gemm_last *last, int s) {
    const ls_gemm *g = &last->g;
    const ls_contract_side *side = &gemm->side[s];
    const ls_gemm_operand *o = s ? &g->b : &g->a;
    int64_t extent = s ? g->n : g->m, other = s ? g->m : g->n;
    ls_gemm_side which = s ? LS_GEMM_B : LS_GEMM_A;
    size_t bytes;
    last->sides[s].before = pack_before(g, gemm, s, &bytes);
    last->sides[s].keeps = KEEPS_NOTHING;
    bool of_batch = false;
    for (int i = 0; i < gemm->batch.n; i++) {
        of_batch = of_batch || binary->spec.values[side->value].axes >> gemm->batch.axes[i] & 1;
    }
    if (g->k < 1 || of_batch || !side->affine || !side->fixed || o->absent || binary->spec.args[side->buffer].written || extent < 2) {
        return;
    }
    if (g->turns) {
        last->sides[s].keeps = s ? KEEPS_NOTHING : KEEPS_PANELS;
        last->sides[s].side = LS_GEMM_B;
        last->sides[s].bytes = ls_gemm_packed_size(g->isa, LS_GEMM_B, o->dtype, extent, g->k);
        last->sides[1].before = false;
    } else if (other < 2 && side->view && !(s && row_in_panels(g, binary->device->cpu.l2_bytes))) {
        last->sides[s].keeps = KEEPS_TURNED;
    } else if (other < 2 || !side->view || !ls_gemm_reads_directly(g, which)) {
        int64_t columns = 1;
        for (int i = 0; !LS_SMALL && i < gemm->n.n; i++) {
            columns *= ls_dim_bound(binary->spec.extents_of_axes[gemm->n.axes[i]]);
        }
        which = s ? LS_GEMM_B : LS_SMALL ? LS_GEMM_A : ls_gemm_side_a(g, columns, last->sides[1].before || last->sides[1].keeps == KEEPS_PANELS);
        last->sides[s].keeps = KEEPS_PANELS;
        last->sides[s].side = which;
        last->sides[s].bytes = ls_gemm_packed_size(g->isa, which, o->dtype, extent, g->k);
    }
}

/* What is the same for all launches of a phase. */
static void make_launch(const ls_kernel_binary *binary, const ls_phase *phase, struct ls_gemm_last *last) {
    const ls_gemm_phase *gemm = phase->gemm;
    ls_gemm_launch *launch = &last->launch;
    size_t offset = 0;
    for (int s = 0; s < 2; s++) {
        const ls_contract_side *side = &gemm->side[s];
        launch->sides[s] = (ls_contract_side_launch){launch, side, s, offset};
        offset += ls_contract_side_scratch(side);
        (s ? &last->g.b : &last->g.a)->pack_ctx = &launch->sides[s];
        last->sides[s].at = side->sum.constant * (int64_t)ls_dtype_size(side->element);
    }
    last->out_at = gemm->out_offset * ls_gemm_dtype_size(gemm->out_dtype);
    launch->quant_offset = offset;
    launch->finish_offset = offset + (gemm->quant ? ls_quant_scratch(gemm->quant) : 0);
    launch->sum_size = ls_tile_held_size((ls_dtype)binary->spec.values[phase->value].acc);
    launch->phase = phase;
    launch->workers = binary->device->gemm_workers;
    last->g.epilogue_ctx = last->g.parallel.pool = launch;
}

static bool differs_by_addresses(const ls_kernel_binary *binary, const ls_gemm_phase *gemm) {
    bool fixed = binary->n_phases == 1 && !binary->chosen && !(gemm->chain && ls_chain_begins(gemm->chain));
    for (int i = 0; i < binary->spec.n_axes; i++) {
        fixed = fixed && !binary->spec.extents_of_axes[i].symbol;
    }
    return fixed;
}

/* The problem for a launch's extents, without addresses. */
static ls_gemm *find_problem(const ls_kernel_run *kernel, const ls_phase *phase) {
    struct ls_gemm_last *last = phase->gemm->last;
    int n_axes = kernel->binary->spec.n_axes;
    bool same = last->made && last->g.parallel.near == ls_pool_is_near(kernel->binary->device->pool);
    for (int i = 0; i < n_axes && same; i++) {
        same = last->extents[i] == kernel->extents[i];
    }
    if (!same) {
        make_problem(kernel->binary, phase, kernel->extents, &last->g);
        make_launch(kernel->binary, phase, last);
        memcpy(last->extents, kernel->extents, (size_t)n_axes * sizeof *last->extents);
        plan_keeping(kernel->binary, phase->gemm, last, 1); /* first: what A is packed for depends on it */
        plan_keeping(kernel->binary, phase->gemm, last, 0);
        last->made = true;
        last->packed = -1;
        last->again = !phase->gemm->sparse && kernel->binary->spec.math != LS_REDUCED; /* which look for other ways each time */
        last->alike = !LS_SMALL && last->again && differs_by_addresses(kernel->binary, phase->gemm);
    }
    return &last->g;
}

/* The matrix of a product with a vector whose rows lie along k, kept with its columns there: a sum a lane, none across lanes. Where
 * memory is the limit either way it is read where it lies: from beyond the second cache in fast, whose lanes share a sum; in locked, which
 * would transpose it on the way, from further out. */
static void use_turned(ls_gemm_launch *launch, ls_gemm *g, int s) {
    ls_cpu_device *d = launch->kernel->binary->device;
    const ls_contract_side *side = &launch->phase->gemm->side[s];
    ls_gemm_operand *o = s ? &g->b : &g->a;
    int64_t extent = s ? g->n : g->m, bytes = extent * g->k * (int64_t)sizeof(float);
    int64_t most = g->fast ? d->cpu.l2_bytes / 2 : ls_gemm_larger(KEPT_L2S * d->cpu.l2_bytes, d->cpu.l3_bytes / 2);
    if (!side->view || o->dtype != LS_GEMM_F32 || o->stride_k != 1 || extent < TURNED_ROWS || bytes > most) {
        return;
    }
    ls_kept *kept = ls_kept_find(d, launch->kernel->launch, side->buffer, launch->phase, LS_KEPT_TURNED + s, (size_t)bytes);
    if (!kept) {
        return;
    }
    if (!kept->ready) {
        for (int64_t i = 0; i < extent; i++) {
            for (int64_t p = 0; p < g->k; p++) {
                ((float *)kept->data)[p * extent + i] = ((const float *)o->data)[i * o->stride_i + p];
            }
        }
        kept->ready = true;
    }
    change_problem(launch->phase->gemm->last);
    o->data = kept->data;
    o->stride_i = 1;
    o->stride_k = extent;
}

/* The panels of side s, if they are kept. */
static ls_kept *find_panels(const ls_kernel_run *kernel, const ls_phase *phase, int s) {
    const struct ls_gemm_last *last = phase->gemm->last;
    return ls_kept_find(kernel->binary->device, kernel->launch, phase->gemm->side[s].buffer, phase, LS_KEPT_PANELS + 2 * (int)last->sides[s].side + s,
                        last->sides[s].bytes);
}

/* Sets operands that were packed by an earlier launch, or packs them now to be kept. */
static void use_kept(ls_gemm_launch *launch, ls_gemm *g) {
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const struct ls_gemm_last *last = gemm->last;
    for (int s = 0; s < 2; s++) {
        ls_gemm_operand *o = s ? &g->b : &g->a;
        if (last->sides[s].keeps == KEEPS_TURNED) {
            use_turned(launch, g, s);
        } else if (last->sides[s].keeps == KEEPS_PANELS) {
            ls_kept *kept = find_panels(launch->kernel, launch->phase, s);
            if (kept && !kept->ready) {
                ls_gemm_pack(g->isa, last->sides[s].side, o, s ? g->n : g->m, g->k, kept->data, &kept->packed);
                kept->ready = true;
            }
            o->packed = kept ? &kept->packed : NULL;
        }
    }
}

/* What the last launch did, where that is no more than a few tiles; false, with nothing done, where it is not. */
static bool run_again(const ls_kernel_run *kernel, const ls_phase *phase) {
    const struct ls_gemm_last *last = phase->gemm->last;
    ls_cpu_device *d = kernel->binary->device;
    const void *data[2];
    int packed = 0;
    if (!last->again || last->packed < 0 || last->plan.alone.n_parts == 0) {
        return false;
    }
    for (int s = 0; s < 2; s++) {
        const int buffer = phase->gemm->side[s].buffer;
        const ls_kept *kept = last->sides[s].keeps == KEEPS_PANELS ? find_panels(kernel, phase, s) : NULL;
        data[s] = kernel->buffers[buffer] + last->sides[s].at;
        if (kept && !kept->ready) {
            return false;
        }
        if (kept) {
            data[s] = kept->packed.data;
            packed |= 1 << s;
        }
    }
    if (packed != last->packed) {
        return false;
    }
    const bool plus = LS_GEMM_FOLLOWS && last->plan.follows && last->g.follow.adds;
    ls_gemm_run_alone(&last->plan, data[0], data[1], (float *)(void *)(kernel->buffers[phase->gemm->result] + last->out_at),
                      plus ? ls_chain_plus(phase->gemm->chain, kernel->buffers) : NULL);
    ask_for_next(last, d);
    return true;
}

bool ls_gemm_launch_again(const ls_kernel_run *kernel) {
    const ls_kernel_binary *binary = kernel->binary;
    const ls_gemm_phase *gemm = binary->n_phases > 0 ? binary->phases->gemm : NULL;
    return gemm && gemm->last->alike && gemm->last->g.parallel.near == ls_pool_is_near(binary->device->pool) && run_again(kernel, binary->phases);
}

bool ls_gemm_phase_reserve(const ls_kernel_binary *binary, const ls_phase *phase) {
    int64_t extents[LS_SPEC_MAX_AXES];
    ls_gemm g;
    size_t packed[2];
    for (int i = 0; i < binary->spec.n_axes; i++) {
        extents[i] = ls_dim_bound(binary->spec.extents_of_axes[i]);
    }
    make_problem(binary, phase, extents, &g);
    size_t need = phase->gemm->windows ? ls_windows_workspace(binary, phase->gemm, extents) : 0;
    for (int near = 0; near < 2 && !phase->gemm->windows; near++) {
        g.parallel.near = near > 0;
        size_t own = workspace(&g, phase->gemm, packed);
        need = own > need ? own : need;
    }
    if (phase->gemm->quant) {
        size_t own = ls_quant_workspace(phase->gemm->quant, g.m, g.k, binary->device->threads);
        need = own > need ? own : need;
    }
    return ls_gemm_grow_workspace(binary->device, need);
}

/* From a line's border on: where its branches fall otherwise, a launch can take a sixth longer. */
__attribute__((aligned(64))) ls_status ls_gemm_phase_run(ls_kernel_run *kernel, const ls_phase *phase, ls_error *err) {
    const ls_kernel_binary *binary = kernel->binary;
    ls_cpu_device *d = binary->device;
    const ls_gemm_phase *gemm = phase->gemm;
    ls_gemm *g = find_problem(kernel, phase);
    ls_gemm_launch *launch = &gemm->last->launch;
    size_t packed[2];
    launch->kernel = kernel;
    launch->number = ++d->products;
    if (gemm->chain) {
        ls_chain_begin(launch);
    }
    if (!LS_SMALL && !gemm->last->alike && run_again(kernel, phase)) { /* else ls_gemm_launch_again has tried */
        return LS_OK;
    }
    for (int s = 0; s < 2; s++) {
        const ls_contract_side *side = &gemm->side[s];
        ls_gemm_operand *o = s ? &g->b : &g->a;
        o->packed = NULL;
        o->data = side->affine ? kernel->buffers[side->buffer] + gemm->last->sides[s].at : NULL;
    }
    if (gemm->out >= 0 || (LS_GEMM_FOLLOWS && g->follow.add)) {
        g->out.data = kernel->buffers[gemm->result] + gemm->last->out_at;
        g->follow.plus = LS_GEMM_FOLLOWS && g->follow.adds ? ls_chain_plus(gemm->chain, kernel->buffers) : NULL;
    }
    if (gemm->sparse && ls_sparse_run(launch)) {
        return LS_OK;
    }
    if (gemm->windows && ls_gemm_grow_workspace(d, ls_windows_workspace(binary, gemm, kernel->extents)) &&
        ls_windows_run(launch)) {
        return LS_OK;
    }
    if (gemm->quant) {
        bool room = ls_gemm_grow_workspace(d, ls_quant_workspace(gemm->quant, g->m, g->k, d->threads));
        change_problem(gemm->last);
        if (ls_quant_run(launch, g, room ? d->workspace : NULL)) {
            return LS_OK;
        }
    }
#ifdef LS_HAVE_ISA_AVX512
    if (binary->spec.math == LS_REDUCED && ls_pairs_run(launch, g)) {
        return LS_OK;
    }
#endif
    use_kept(launch, g);
    bool packs_now = (gemm->last->sides[0].before && !g->a.packed) || (gemm->last->sides[1].before && !g->b.packed);
    if (!packs_now && run_planned(gemm->last, d)) {
        return LS_OK;
    }
    if (!ls_gemm_grow_workspace(d, workspace(g, gemm, packed))) {
        g->a.packed = g->b.packed = NULL; /* another plan, whose memory the compilation reserved */
    }
    if (!ls_gemm_grow_workspace(d, workspace(g, gemm, packed))) {
        return LS_FAIL_MEMORY(err, "the workspace of a contraction");
    }
    ls_gemm_packed before[2];
    char *memory = d->workspace;
    for (int s = 0; s < 2; s++) {
        if (packed[s]) {
            ls_gemm_operand *o = s ? &g->b : &g->a;
            ls_gemm_pack(g->isa, s ? LS_GEMM_B : LS_GEMM_A, o, s ? g->n : g->m, g->k, memory, &before[s]);
            o->packed = &before[s];
            memory += packed[s];
        }
    }
    ls_gemm_run(g, memory);
    return LS_OK;
}
