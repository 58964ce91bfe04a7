/* Contractions on the packed matrix product: which axes are rows, columns and k, where operands come from,
 * and the epilogue.
 *
 * A free axis of both operands is a batch axis; the group of axes that holds the innermost axis of the result
 * becomes the columns (the vector axis), whichever operand it belongs to: products commute, so exchanging
 * operands changes no bits. An operand is a strided view where its axes collapse; else it is packed by
 * callback (pack.c). */
#include "backend/cpu/contract.h"
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/kept.h"
#include "backend/cpu/quant.h"
#include <string.h>

enum { IMAGE_COLUMNS = 512, WIDEST = 4 };
#ifdef LS_HAVE_ISA_AVX512
enum { FEW_COLUMNS = 16 /* less than a vector */, WIDE_TILES = true };
#else
enum { FEW_COLUMNS = 0, WIDE_TILES = false };
#endif

/* What later launches may find of an operand whose buffer stays the same. */
enum keeping { KEEPS_NOTHING, KEEPS_PANELS, KEEPS_TURNED };

/* The last launch's problem and plan, which serve the next one of the same extents. Launches have the device's mutex. */
struct ls_gemm_last {
    bool made;
    int packed; /* which operands were packed before in the plan: bit 0 for A, bit 1 for B; -1: there is no plan */
    int64_t extents[LS_SPEC_MAX_AXES];
    struct {
        enum keeping keeps;
        ls_gemm_side side; /* of panels that are kept, and their bytes */
        size_t bytes;
        bool before;  /* it is packed before the product if it is not kept */
    } sides[2];
    ls_gemm g, planned;
    ls_gemm_plan plan;
};

static bool gemm_dtype(ls_dtype operand, ls_dtype acc, ls_gemm_dtype *out) {
    if (acc == LS_F64 && operand == LS_F64) {
        *out = LS_GEMM_F64;
    } else if (acc == LS_F32 && operand >= LS_F16 && operand <= LS_F32) {
        *out = operand == LS_F16 ? LS_GEMM_F16 : operand == LS_BF16 ? LS_GEMM_BF16 : LS_GEMM_F32;
    } else if (acc == LS_I32 && (operand == LS_I8 || operand == LS_U8)) {
        *out = operand == LS_I8 ? LS_GEMM_I8 : LS_GEMM_U8;
    } else if ((acc == LS_I32 || acc == LS_U32) && operand >= LS_U16 && operand <= LS_I32 &&
               operand != LS_U64) {
        *out = LS_GEMM_I32;
    } else {
        return false;
    }
    return true;
}

/* Predicates of the form 0 <= affine < constant, with coefficients that fit 32 bits. */
static bool affine_preds(const ls_spec *spec, ls_contract_side *side, int32_t first, int32_t n) {
    if (n > LS_SIDE_PREDS) {
        return false;
    }
    side->n_preds = n;
    for (int t = 0; t < n; t++) {
        const ls_pred *pred = &spec->preds[first + t];
        const ls_ix *ix = &spec->ix[pred->ix];
        ls_ix_sum_of(spec, pred->ix, &side->pred[t]);
        if (pred->limit == LS_SPEC_NONE || spec->ix[pred->limit].op != LS_IX_CONST || side->pred[t].failed ||
            side->pred[t].n_rest || ix->lo < INT32_MIN / 4 || ix->hi > INT32_MAX / 4 ||
            spec->ix[pred->limit].k > INT32_MAX) {
            return false;
        }
        side->limit[t] = spec->ix[pred->limit].k;
    }
    return true;
}

/* Whether a value is one affine load, absent or +0 where its predicates fail. */
static bool affine_side(const ls_spec *spec, const int *temps, ls_contract_side *side) {
    const ls_value *v = &spec->values[side->value], *guard = NULL;
    if (temps[side->value] >= 0) {
        return false;
    }
    if (v->op == LS_V_GUARD && v->b == LS_SPEC_NONE && temps[v->a] < 0) {
        guard = v;
        v = &spec->values[v->a];
    }
    if (v->op != LS_V_LOAD || v->check != LS_SPEC_NONE) {
        return false;
    }
    for (int i = 0; guard && i < v->n_preds; i++) {
        bool among = false;
        for (int j = 0; j < guard->n_preds; j++) {
            among = among || ls_same_pred(&spec->preds[v->first_pred + i], &spec->preds[guard->first_pred + j]);
        }
        if (!among) {
            return false;
        }
    }
    ls_ix_sum_of(spec, v->ix, &side->sum);
    side->buffer = v->arg;
    side->absent = guard != NULL;
    return !side->sum.failed && !side->sum.n_rest &&
           affine_preds(spec, side, guard ? guard->first_pred : v->first_pred,
                        guard ? guard->n_preds : v->n_preds);
}

/* The one stride of axes linearised row-major, where they have one. */
static bool collapse(const ls_spec *spec, const ls_ix_sum *sum, const ls_axis_group *group,
                     int64_t *out_stride) {
    int64_t stride = 0, span = 0;
    for (int i = group->n - 1; i >= 0; i--) {
        ls_dim extent = spec->extents_of_axes[group->axes[i]];
        int64_t own = ls_ix_sum_stride(sum, group->axes[i]);
        if (ls_dim_is_one(extent)) {
            continue;
        }
        if (span == 0) {
            stride = own;
        } else if (own != stride * span) {
            return false;
        }
        if (!ls_dim_is_fixed(extent) && i > 0) {
            return false;
        }
        span = (span ? span : 1) * extent.offset;
    }
    *out_stride = stride;
    return true;
}

/* A program for an operand that is more than an affine load, with lanes along k or along its free axes. */
static ls_status side_program(ls_kernel_binary *binary, const ls_gemm_phase *gemm, const int *temps,
                              ls_contract_side *side, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_value *v = &spec->values[side->value];
    const ls_axis_group *lanes = side->lanes_k ? &gemm->k : side->free;
    ls_program_builder *b =
        ls_pb_create(&binary->arena, spec, binary->device->tiles, temps, lanes->n, lanes->axes);
    if (!b) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    int16_t results[2] = {-1, -1};
    ls_dtype dtype = (ls_dtype)v->dtype;
    results[0] = ls_pb_value(b, side->value, 0, &results[1]);
    side->absent = results[1] >= 0;
    if (side->dtype == LS_GEMM_I8 || side->dtype == LS_GEMM_U8) {
        results[0] = ls_pb_cast(b, LS_SECTION_LANES, results[0], dtype, LS_F32);
    } else if (side->dtype == LS_GEMM_I32) {
        results[0] = ls_pb_cast(b, LS_SECTION_LANES, results[0], dtype, LS_I32);
    }
    return ls_pb_finish(b, 2, results, &side->program) ? LS_OK : LS_FAIL_MEMORY(err, "a kernel of the CPU");
}

/* The stride of the innermost axis of some extent, by the first load found below a value. */
static int64_t inner_stride(const ls_spec *spec, int32_t value, const ls_axis_group *group) {
    const ls_value *v = &spec->values[value];
    if (v->op == LS_V_LOAD) {
        int64_t stride;
        return group->n && ls_ix_affine(spec, v->ix, group->axes[group->n - 1], &stride) ? stride : 0;
    }
    const int32_t operands[] = {v->a, v->b, v->c};
    for (int i = 0; i < 3; i++) {
        if (operands[i] != LS_SPEC_NONE) {
            int64_t stride = inner_stride(spec, operands[i], group);
            if (stride) {
                return stride;
            }
        }
    }
    return 0;
}

static bool fixed_extents(const ls_spec *spec, const ls_axis_group *group) {
    bool fixed = true;
    for (int i = 0; i < group->n; i++) {
        fixed = fixed && ls_dim_is_fixed(spec->extents_of_axes[group->axes[i]]);
    }
    return fixed;
}

static ls_status plan_side(ls_kernel_binary *binary, ls_gemm_phase *gemm, const int *temps,
                           ls_contract_side *side, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    side->element = (ls_dtype)spec->values[side->value].dtype;
    side->affine = affine_side(spec, temps, side);
    side->fixed =
        fixed_extents(spec, &gemm->batch) && fixed_extents(spec, side->free) && fixed_extents(spec, &gemm->k);
    if (!side->affine) {
        int64_t i = inner_stride(spec, side->value, side->free),
                k = inner_stride(spec, side->value, &gemm->k);
        side->lanes_k = !(i == 1 && k != 1);
        LS_TRY(err, side_program(binary, gemm, temps, side, err));
        side->joined = LS_JOINS && ls_joined_find(side);
        return LS_OK;
    }
    bool native = side->dtype != LS_GEMM_I32 || side->element == LS_I32 || side->element == LS_U32;
    side->view = native && side->n_preds == 0 && collapse(spec, &side->sum, side->free, &side->view_i) &&
                 collapse(spec, &side->sum, &gemm->k, &side->view_k);
    ls_group_strides(&side->sum, &gemm->batch, side->batch_stride);
    ls_group_strides(&side->sum, side->free, side->free_stride);
    ls_group_strides(&side->sum, &gemm->k, side->k_stride);
    for (int t = 0; t < side->n_preds; t++) {
        ls_group_strides(&side->pred[t], &gemm->batch, side->pred_batch[t]);
        ls_group_strides(&side->pred[t], side->free, side->pred_free[t]);
        ls_group_strides(&side->pred[t], &gemm->k, side->pred_k[t]);
    }
    return LS_OK;
}

/* Columns of several images are no strided view, those of one are where its channels are the only k: images become entries of the
 * batch, which are read where they lie, if one has columns enough. */
static void find_images(const ls_spec *spec, ls_gemm_phase *gemm, const int *temps) {
    ls_contract_side side = gemm->side[1];
    ls_axis_group inner = {.n = gemm->n.n - 1};
    int64_t columns = 1, stride;
    if (gemm->n.n < 2 || gemm->batch.n == LS_GEMM_BATCH_RANK || !affine_side(spec, temps, &side) || side.n_preds) {
        return;
    }
    for (int i = 0; i < inner.n; i++) {
        ls_dim extent = spec->extents_of_axes[inner.axes[i] = gemm->n.axes[i + 1]];
        columns *= ls_dim_is_fixed(extent) ? extent.offset : 0;
    }
    if (columns >= IMAGE_COLUMNS && !collapse(spec, &side.sum, &gemm->n, &stride) &&
        collapse(spec, &side.sum, &gemm->k, &stride) && collapse(spec, &side.sum, &inner, &stride) && stride == 1) {
        gemm->batch.axes[gemm->batch.n++] = gemm->n.axes[0];
        gemm->n = inner;
    }
}

/* Whether the axes that would be columns are fewer than a vector, while the other operand has many in one run: a picture's pixels, where its few
 * channels come last. */
static bool too_few_columns(const ls_spec *spec, const ls_phase *phase, const ls_value *v, bool a_last) {
    int32_t few = a_last ? v->a : v->b, many = a_last ? v->b : v->a;
    int64_t n_few = 1, n_many = 1;
    ls_axis_group free = {0};
    for (int i = 0; i < phase->n_axes; i++) {
        bool in_few = spec->values[few].axes >> phase->axes[i] & 1, in_many = spec->values[many].axes >> phase->axes[i] & 1;
        ls_dim extent = spec->extents_of_axes[phase->axes[i]];
        if (!ls_dim_is_fixed(extent)) {
            return false;
        }
        n_few *= in_few && !in_many ? extent.offset : 1;
        if (in_many && !in_few) {
            n_many *= extent.offset;
            free.axes[free.n++] = phase->axes[i];
        }
    }
    return n_few > 1 && n_few < FEW_COLUMNS && n_many >= FEW_COLUMNS && inner_stride(spec, many, &free) == 1;
}

ls_status ls_gemm_phase_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_value *v = &spec->values[phase->value];
    ls_gemm_dtype dtype_a, dtype_b;
    if (!gemm_dtype((ls_dtype)spec->values[v->a].dtype, (ls_dtype)v->acc, &dtype_a) ||
        !gemm_dtype((ls_dtype)spec->values[v->b].dtype, (ls_dtype)v->acc, &dtype_b)) {
        return LS_OK;
    }
    ls_gemm_phase *gemm = LS_ARENA_NEW(&binary->arena, ls_gemm_phase);
    if (!gemm || !(gemm->last = LS_ARENA_NEW(&binary->arena, struct ls_gemm_last))) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    uint64_t axes_a = spec->values[v->a].axes, axes_b = spec->values[v->b].axes;
    bool a_last = false;
    for (int i = 0; i < phase->n_axes;
         i++) { /* the last axis of one operand alone decides which operand has the columns */
        bool in_a = axes_a >> phase->axes[i] & 1, in_b = axes_b >> phase->axes[i] & 1;
        a_last = in_a != in_b ? in_a : a_last;
    }
    a_last = a_last != (FEW_COLUMNS > 0 && too_few_columns(spec, phase, v, a_last));
    ls_axis_group *group_a = a_last ? &gemm->n : &gemm->m, *group_b = a_last ? &gemm->m : &gemm->n;
    for (int i = 0; i < phase->n_axes; i++) {
        bool in_a = axes_a >> phase->axes[i] & 1, in_b = axes_b >> phase->axes[i] & 1;
        ls_axis_group *group = in_a && in_b ? &gemm->batch : in_a ? group_a : in_b ? group_b : NULL;
        if (!group || (group == &gemm->batch && group->n == LS_GEMM_BATCH_RANK)) {
            return LS_OK;
        }
        group->axes[group->n++] = phase->axes[i];
    }
    gemm->k.n = v->n_bound;
    memcpy(gemm->k.axes, v->bound, v->n_bound);
    gemm->side[0] = (ls_contract_side){
        .value = a_last ? v->b : v->a, .free = &gemm->m, .dtype = a_last ? dtype_b : dtype_a};
    gemm->side[1] = (ls_contract_side){
        .value = a_last ? v->a : v->b, .free = &gemm->n, .dtype = a_last ? dtype_a : dtype_b};
    find_images(spec, gemm, temps);
    for (int s = 0; s < 2; s++) {
        LS_TRY(err, plan_side(binary, gemm, temps, &gemm->side[s], err));
    }
    LS_TRY(err, ls_quant_plan(binary, gemm, temps, err));
    if (!gemm->quant) {
        LS_TRY(err, ls_windows_plan(binary, gemm, temps, err));
        LS_TRY(err, ls_sparse_plan(binary, gemm, err));
    }
    if (gemm->windows && !gemm->side[1].affine &&
        gemm->side[1].lanes_k) { /* an image's lines lie along free axes */
        gemm->side[1].lanes_k = false;
        LS_TRY(err, side_program(binary, gemm, temps, &gemm->side[1], err));
    }
    for (int s = 0; s < 2; s++) {
        phase->extra += ls_contract_side_scratch(&gemm->side[s]);
    }
    phase->extra += gemm->quant ? ls_quant_scratch(gemm->quant) : 0;
    phase->gemm = gemm;
    return LS_OK;
}

/* Whether a store is of the bare sums, rounded at most, or of what comes of them one by one, into memory that the product can write itself. */
static bool plain_store(const ls_spec *spec, const ls_store *s, ls_phase *phase) {
    const ls_value *v = &spec->values[phase->value];
    ls_gemm_phase *gemm = phase->gemm;
    ls_dtype dtype = (ls_dtype)v->dtype, acc = (ls_dtype)v->acc;
    ls_ix_sum at;
    bool sums = s->value == phase->value || (LS_GEMM_FOLLOWS && spec->values[s->value].dtype == v->dtype);
    if (!sums || s->n_axes != phase->n_axes || s->combine != LS_STORE_SET || s->n_preds || s->check != LS_SPEC_NONE) {
        return false;
    }
    if (acc == LS_F32 && (dtype == LS_F16 || dtype == LS_BF16)) {
        gemm->out_dtype = dtype == LS_F16 ? LS_GEMM_F16 : LS_GEMM_BF16;
    } else if (dtype == acc && dtype != LS_U32) {
        gemm->out_dtype = dtype == LS_F32 ? LS_GEMM_F32 : dtype == LS_F64 ? LS_GEMM_F64 : LS_GEMM_I32;
    } else {
        return false;
    }
    ls_ix_sum_of(spec, s->ix, &at);
    gemm->out_offset = at.constant;
    ls_group_strides(&at, &gemm->batch, gemm->out_batch);
    return !at.failed && !at.n_rest && collapse(spec, &at, &gemm->m, &gemm->out_i) &&
           collapse(spec, &at, &gemm->n, &gemm->out_j);
}

/* Where the loads and stores of the epilogue break off, all at the same lanes: images in batches, mostly. */
static void find_cut(const ls_spec *spec, ls_phase *phase) {
    const ls_program *p = &phase->finish;
    int64_t cut = 0;
    for (int i = 0; i < p->n_accesses; i++) {
        const ls_access *a = &p->accesses[i];
        int64_t lanes = 1;
        if (a->n_tables || a->n_dims < 2) {
            continue;
        }
        const ls_access_dim *last = &a->dims[a->n_dims - 1];
        for (int j = last->first; j <= last->last; j++) {
            ls_dim extent = spec->extents_of_axes[p->lane_axes[j]];
            lanes *= ls_dim_is_fixed(extent) ? extent.offset : 0;
        }
        if (lanes < 64 || (cut && cut != lanes)) {
            return;
        }
        cut = lanes;
    }
    phase->gemm->cut = cut;
}

void ls_gemm_phase_finish(const ls_spec *spec, ls_phase *phase, int first, int end) {
    const ls_store *s = &spec->stores[first];
    bool plain = end - first == 1 && plain_store(spec, s, phase);
    phase->gemm->result = plain ? s->arg : -1;
    phase->gemm->out = plain && s->value == phase->value ? s->arg : -1;
    find_cut(spec, phase);
    if (phase->gemm->m.n) {
        ls_fetch_next(spec, &phase->finish, phase->gemm->m.axes[phase->gemm->m.n - 1]);
    }
}

/* ---- running ---- */
size_t ls_gemm_worker_size(void) {
    return sizeof(ls_gemm_worker);
}

static void run_tasks(void *pool, int64_t n, void (*fn)(void *ctx, int64_t task, int worker), void *ctx) {
    ls_gemm_call *call = ((ls_gemm_launch *)pool)->calls;
    *call = (ls_gemm_call){fn, ctx};
    ls_pool_run(((ls_gemm_launch *)pool)->kernel->binary->device->pool, (long)n, ls_gemm_call_task, call);
}

void ls_gemm_call_task(void *ctx, long task, int worker) {
    const ls_gemm_call *call = ctx;
    call->fn(call->ctx, task, worker);
}

/* The worker's run of the finish program, begun at its first tile. */
static ls_run *finish_run(ls_gemm_launch *launch, int worker) {
    ls_gemm_worker *w = &launch->workers[worker];
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
                   .l2_bytes = binary->device->cpu.l2_bytes};
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
    g->parallel.run = binary->device->threads > 1 ? run_tasks : NULL;
    g->parallel.near = ls_pool_is_near(binary->device->pool);
}

/* For this launch alone. */
static void change_problem(struct ls_gemm_last *last) {
    last->made = false;
    last->packed = -1;
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
    last->plan.backward = !LS_SMALL && g->m == 1 && g->b.packed && !last->plan.backward; /* what the last launch read last is still near */
    if (ls_gemm_plan_bytes(&last->plan) > d->workspace_size) {
        return false;
    }
    ls_gemm_plan_run(&last->plan, d->workspace);
    return true;
}

/* Whether side s is worth packing once before the product: small, packed by callback, and met again by many
 * blocks. */
static bool pack_before(const ls_gemm *g, const ls_gemm_phase *gemm, int s, size_t *out_bytes) {
    const ls_gemm_operand *o = s ? &g->b : &g->a;
    int64_t extent = s ? g->n : g->m, other = s ? g->m : g->n;
    if (o->packed) {
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

/* Whether the matrix of a product with a row is worth a copy in panels, which come from the second cache at its full rate, as no other order does, and
 * from the third a tenth faster. In locked a matrix whose rows lie along k would be transposed on the way. */
static bool row_in_panels(const ls_gemm *g, int64_t l2) {
    int64_t most = l2 * (!g->fast && g->b.stride_k == 1 ? KEPT_L2S : NEAR_L2S);
    return WIDE_TILES && g->isa->f32->vectors == WIDEST && g->m == 1 && g->b.dtype == LS_GEMM_F32 && (g->b.stride_k == 1 || g->b.stride_i == 1) &&
           g->n >= TURNED_ROWS && g->n * g->k * (int64_t)sizeof(float) <= most;
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
    if (other < 2 && !(s && side->view && row_in_panels(g, binary->device->cpu.l2_bytes))) {
        last->sides[s].keeps = KEEPS_TURNED;
    } else if (other < 2 || !side->view || !ls_gemm_reads_directly(g, which)) {
        int64_t columns = 1;
        for (int i = 0; !LS_SMALL && i < gemm->n.n; i++) {
            columns *= ls_dim_bound(binary->spec.extents_of_axes[gemm->n.axes[i]]);
        }
        which = s ? LS_GEMM_B : LS_SMALL ? LS_GEMM_A : ls_gemm_side_a(g->isa, o->dtype, columns);
        last->sides[s].keeps = KEEPS_PANELS;
        last->sides[s].side = which;
        last->sides[s].bytes = ls_gemm_packed_size(g->isa, which, o->dtype, extent, g->k);
    }
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
        memcpy(last->extents, kernel->extents, (size_t)n_axes * sizeof *last->extents);
        plan_keeping(kernel->binary, phase->gemm, last, 0);
        plan_keeping(kernel->binary, phase->gemm, last, 1);
        last->made = true;
        last->packed = -1;
    }
    return &last->g;
}

enum { KEPT_TURNED = 2 }; /* added to the side: what is kept besides its panels */

/* The matrix of a product with a vector whose rows lie along k, kept with its columns there: a sum a lane, none across lanes. Where
 * memory is the limit either way it is read where it lies: from beyond the second cache in fast, whose lanes share a sum; in locked, which
 * would transpose it on the way, from further out. */
static void use_turned(ls_gemm_launch *launch, ls_gemm *g, int s) {
    ls_cpu_device *d = launch->kernel->binary->device;
    const ls_contract_side *side = &launch->phase->gemm->side[s];
    ls_gemm_operand *o = s ? &g->b : &g->a;
    int64_t extent = s ? g->n : g->m, bytes = extent * g->k * (int64_t)sizeof(float);
    int64_t most = g->fast ? d->cpu.l2_bytes / 2 : KEPT_L2S * d->cpu.l2_bytes;
    if (!side->view || o->dtype != LS_GEMM_F32 || o->stride_k != 1 || extent < TURNED_ROWS || bytes > most) {
        return;
    }
    ls_kept *kept = ls_kept_find(d, launch->kernel->launch, side->buffer, launch->phase, KEPT_TURNED + s, (size_t)bytes);
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

/* Sets operands that were packed by an earlier launch, or packs them now to be kept. */
static void use_kept(ls_gemm_launch *launch, ls_gemm *g) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const struct ls_gemm_last *last = gemm->last;
    for (int s = 0; s < 2; s++) {
        ls_gemm_operand *o = s ? &g->b : &g->a;
        if (last->sides[s].keeps == KEEPS_TURNED) {
            use_turned(launch, g, s);
        } else if (last->sides[s].keeps == KEEPS_PANELS) {
            ls_kept *kept =
                ls_kept_find(kernel->binary->device, kernel->launch, gemm->side[s].buffer, launch->phase, s, last->sides[s].bytes);
            if (kept && !kept->ready) {
                ls_gemm_pack(g->isa, last->sides[s].side, o, s ? g->n : g->m, g->k, kept->data, &kept->packed);
                kept->ready = true;
            }
            o->packed = kept ? &kept->packed : NULL;
        }
    }
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
    size_t packed[2];
    ls_gemm_call call;
    ls_gemm_launch launch; /* filled member by member: clearing it first takes an eighth of the launch */
    launch.kernel = kernel;
    launch.phase = phase;
    launch.calls = &call;
    launch.workers = d->gemm_workers;
    launch.finish_offset = 0;
    launch.quant_pack = NULL;
    launch.sum_size = ls_tile_held_size((ls_dtype)binary->spec.values[phase->value].acc);
    for (int s = 0; s < 2; s++) {
        const ls_contract_side *side = &gemm->side[s];
        ls_gemm_operand *o = s ? &g->b : &g->a;
        launch.sides[s] = (ls_contract_side_launch){&launch, side, s, launch.finish_offset};
        launch.finish_offset += ls_contract_side_scratch(side);
        o->pack_ctx = &launch.sides[s];
        o->packed = NULL;
        o->data = side->affine ? kernel->buffers[side->buffer] +
                                     side->sum.constant * (int64_t)ls_dtype_size(side->element)
                               : NULL;
    }
    launch.quant_offset = launch.finish_offset;
    launch.finish_offset += gemm->quant ? ls_quant_scratch(gemm->quant) : 0;
    if (gemm->out >= 0 || (LS_GEMM_FOLLOWS && g->follow.add)) {
        g->out.data = kernel->buffers[gemm->result] + gemm->out_offset * ls_gemm_dtype_size(gemm->out_dtype);
        g->follow.plus = LS_GEMM_FOLLOWS && g->follow.adds ? ls_chain_plus(gemm->chain, kernel->buffers) : NULL;
    }
    for (int i = 0; i < d->threads; i++) {
        ls_gemm_worker *w = &d->gemm_workers[i];
        w->finish_begun = w->side_begun[0] = w->side_begun[1] = w->image_clear = false;
        w->kc[0] = w->kc[1] = 0;
    }
    if (gemm->chain) {
        ls_chain_begin(&launch);
    }
    if (gemm->sparse && ls_sparse_run(&launch)) {
        return LS_OK;
    }
    if (gemm->windows && ls_gemm_grow_workspace(d, ls_windows_workspace(binary, gemm, kernel->extents)) &&
        ls_windows_run(&launch)) {
        return LS_OK;
    }
    if (gemm->quant) {
        bool room = ls_gemm_grow_workspace(d, ls_quant_workspace(gemm->quant, g->m, g->k, d->threads));
        change_problem(gemm->last);
        if (ls_quant_run(&launch, g, room ? d->workspace : NULL)) {
            return LS_OK;
        }
    }
    g->epilogue_ctx = &launch;
    g->parallel.pool = &launch;
#ifdef LS_HAVE_ISA_AVX512
    if (binary->spec.math == LS_REDUCED && ls_pairs_run(&launch, g)) {
        return LS_OK;
    }
#endif
    use_kept(&launch, g);
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

static void print_group(ls_text *out, const char *name, const ls_axis_group *group) {
    ls_text_printf(out, " %s(", name);
    for (int i = 0; i < group->n; i++) {
        ls_text_printf(out, i ? ",x%d" : "x%d", group->axes[i]);
    }
    ls_text_add(out, ")");
}

void ls_gemm_phase_print(ls_text *out, const ls_spec *spec, const ls_phase *phase) {
    const ls_gemm_phase *gemm = phase->gemm;
    ls_text_add(out, "   ");
    print_group(out, "batch", &gemm->batch);
    print_group(out, "rows", &gemm->m);
    print_group(out, "columns", &gemm->n);
    print_group(out, "k", &gemm->k);
    ls_text_add(out, "\n");
    if (gemm->windows) {
        ls_windows_print(out, gemm->windows);
    }
    if (gemm->quant) {
        ls_quant_print(out, gemm->quant);
    }
    if (gemm->sparse) {
        ls_sparse_print(out, gemm->sparse);
    }
    for (int s = 0; s < 2; s++) {
        const ls_contract_side *side = &gemm->side[s];
        ls_text_printf(out, "    %s v%d: %s%s\n", s ? "columns" : "rows", side->value,
                       side->view      ? "view"
                       : side->affine  ? "packed from affine loads"
                       : side->lanes_k ? "packed by a program along k"
                       : LS_JOINS && side->joined ? "packed from joined tensors"
                                       : "packed by a program along the free axes",
                       side->absent ? ", may be absent" : "");
        if (!side->affine) {
            ls_program_print(out, spec, &side->program);
        }
    }
    ls_text_add(out, gemm->chain ? "    then, in registers\n" : "    then\n");
}
