/* Chains (chain.h) made from what follows a contraction: elementwise f32 operations on its sums, on values that a row shares
 * and on elements that lie in memory as the result does. What rows share (biases, a batch norm's scale) is computed for all rows at
 * once, before the launch, by a tile program whose lanes are rows. Whatever does not fit keeps the finish program. */
#include "backend/cpu/contract.h"
#include <string.h>

enum { LEAST_RUN = 32, MOST_SCALARS = 1 << 18, ZEROS = 512 };

typedef struct place { /* of an operand, or the result: element constant + strides */
    int buffer;        /* -1: a slot */
    int64_t constant, batch[LS_LANE_AXES], row[LS_LANE_AXES], column[LS_LANE_AXES];
    bool
        ranged; /* only rows where 0 <= range < limit lie there; others lie at place `other` - 1, or are +0 */
    int other;
    ls_ix_sum range;
    int64_t limit;
} place;

struct ls_chain {
    int n_steps, n_pointers, n_scalars, n_slots;
    ls_chain_step steps[LS_CHAIN_STEPS];
    place places[LS_CHAIN_POINTERS], result;
    bool ranged;        /* some place is */
    int inner;          /* innermost axes of the columns along which all places are consecutive together */
    ls_program scalars; /* lanes: batch and row axes */
    float *table;       /* [point of those axes][n_scalars]; the binary's, for one launch at a time */
};

/* ---- planning ---- */
typedef struct planner {
    const ls_kernel_binary *binary;
    const ls_spec *spec;
    const ls_gemm_phase *gemm;
    const int *temps;
    int32_t input;
    uint64_t columns;
    ls_chain chain;
    int32_t scalar[LS_CHAIN_SCALARS], pointer[LS_CHAIN_POINTERS]; /* values */
    int32_t order[LS_CHAIN_STEPS]; /* vectors, operands first: the input, then operations */
    int n_order;
    bool keep[LS_CHAIN_STEPS];
} planner;

static bool fixed_one(const ls_spec *spec, int axis) {
    ls_dim extent = spec->extents_of_axes[axis];
    return ls_dim_is_fixed(extent) && extent.offset == 1;
}

static bool stride_in(const ls_axis_group *group, int axis, int64_t stride, int64_t *strides) {
    for (int i = 0; i < group->n; i++) {
        if (group->axes[i] == axis) {
            strides[i] = stride;
            return true;
        }
    }
    return false;
}

/* Where an index expression leads, and how many of the innermost axes are one run of memory there: at most *inner. */
static bool find_place(planner *p, int32_t ix, int buffer, place *out) {
    const ls_gemm_phase *gemm = p->gemm;
    ls_ix_sum sum;
    ls_ix_sum_of(p->spec, ix, &sum);
    *out = (place){.buffer = buffer, .constant = sum.constant};
    bool ok = !sum.failed && !sum.n_rest && p->spec->args[buffer].dtype == LS_F32;
    for (int i = 0; i < sum.n_terms && ok; i++) {
        ok = stride_in(&gemm->batch, sum.axis[i], sum.stride[i], out->batch) ||
             stride_in(&gemm->m, sum.axis[i], sum.stride[i], out->row) ||
             stride_in(&gemm->n, sum.axis[i], sum.stride[i], out->column) || fixed_one(p->spec, sum.axis[i]);
    }
    int64_t span = 1;
    int inner = 0;
    for (int i = gemm->n.n - 1; i >= 0 && ok && span > 0; i--, inner++) {
        ls_dim extent = p->spec->extents_of_axes[gemm->n.axes[i]];
        bool one = fixed_one(p->spec, gemm->n.axes[i]);
        if (!one && out->column[i] != span) {
            break;
        }
        span = ls_dim_is_fixed(extent) ? span * extent.offset : 0;
    }
    p->chain.inner = inner < p->chain.inner ? inner : p->chain.inner;
    return ok;
}

static int index_of(const int32_t *list, int n, int32_t value) {
    int at = 0;
    while (at < n && list[at] != value) {
        at++;
    }
    return at;
}

/* The one predicate of a value, over batch and row axes; none is fine too. */
static bool take_range(const planner *p, const ls_value *v, place *at) {
    const ls_pred *pred = &p->spec->preds[v->first_pred];
    if (v->n_preds == 0) {
        return true;
    }
    if (v->n_preds > 1 || at->ranged || pred->limit == LS_SPEC_NONE ||
        p->spec->ix[pred->limit].op != LS_IX_CONST || p->spec->ix[pred->ix].axes & p->columns) {
        return false;
    }
    ls_ix_sum_of(p->spec, pred->ix, &at->range);
    at->ranged = true;
    at->limit = p->spec->ix[pred->limit].k;
    return !at->range.failed && !at->range.n_rest;
}

/* A tensor, or tensors joined along rows: of a joined one each part is a place that knows the next. */
static bool find_places(planner *p, int32_t value) {
    ls_chain *c = &p->chain;
    const ls_value *v = &p->spec->values[value], *chooser = NULL;
    for (;; value = chooser->b) {
        v = &p->spec->values[value];
        chooser = v->op == LS_V_GUARD && v->b != LS_SPEC_NONE ? v : NULL;
        int32_t load = chooser ? v->a : value;
        const ls_value *x = &p->spec->values[load];
        int at = c->n_pointers;
        if (at >= LS_CHAIN_POINTERS - LS_CHAIN_SLOTS || p->temps[load] >= 0 || x->op != LS_V_LOAD ||
            x->dtype != LS_F32 || x->check != LS_SPEC_NONE || !find_place(p, x->ix, x->arg, &c->places[at])) {
            return false;
        }
        p->pointer[c->n_pointers++] = LS_SPEC_NONE;
        if (chooser) { /* what the part's own predicate says besides is what chose it */
            const ls_pred *own = &p->spec->preds[x->first_pred],
                          *chosen = &p->spec->preds[chooser->first_pred];
            bool same = x->n_preds == 0 || (x->n_preds == 1 && own->ix == chosen->ix &&
                                            own->limit == chosen->limit && own->multiple == chosen->multiple);
            if (!same || chooser->n_preds != 1 || !take_range(p, chooser, &c->places[at])) {
                return false;
            }
            c->places[at].other = c->n_pointers + 1;
        } else {
            return take_range(p, x, &c->places[at]);
        }
    }
}

/* Gathers scalars, pointers and vectors below a value. */
static bool gather(planner *p, int32_t value) {
    const ls_value *v = &p->spec->values[value];
    ls_chain *c = &p->chain;
    if (value == LS_SPEC_NONE || v->dtype != LS_F32) {
        return value == LS_SPEC_NONE;
    }
    if (value == p->input) {
        return true;
    }
    if (!(v->axes & p->columns)) {
        int at = index_of(p->scalar, c->n_scalars, value);
        if (at == c->n_scalars && at < LS_CHAIN_SCALARS) {
            p->scalar[c->n_scalars++] = value;
        }
        return at < LS_CHAIN_SCALARS;
    }
    if (p->temps[value] >= 0) {
        return false;
    }
    if (v->op == LS_V_LOAD || v->op == LS_V_GUARD) {
        int first = c->n_pointers;
        if (index_of(p->pointer, c->n_pointers, value) < c->n_pointers) {
            return true;
        }
        if (!find_places(p, value)) {
            return false;
        }
        p->pointer[first] = value;
        return true;
    }
    bool unary = v->b == LS_SPEC_NONE, known = v->map == LS_OP_ADD || v->map == LS_OP_SUB ||
                                               v->map == LS_OP_MUL || v->map == LS_OP_DIV ||
                                               v->map == LS_OP_MIN || v->map == LS_OP_MAX;
    if (v->op != LS_V_MAP || v->c != LS_SPEC_NONE ||
        !(unary ? p->binary->device->tiles->map_f32[v->map] != NULL : known) ||
        index_of(p->order, p->n_order, value) < p->n_order) {
        return v->op == LS_V_MAP && index_of(p->order, p->n_order, value) < p->n_order;
    }
    if (!gather(p, v->a) || !gather(p, v->b) || p->n_order == LS_CHAIN_STEPS) {
        return false;
    }
    p->order[p->n_order++] = value;
    return true;
}

/* Vectors that are wanted later than by the operation that follows them at once. */
static void find_kept(planner *p) {
    for (int i = 1; i < p->n_order; i++) {
        const ls_value *v = &p->spec->values[p->order[i]];
        const int32_t operands[] = {v->a, v->b};
        for (int j = 0; j < 2; j++) {
            int at = index_of(p->order, p->n_order, operands[j]);
            bool running = at == i - 1 && !(j == 1 && v->a == v->b);
            if (at < p->n_order && !running) {
                p->keep[at] = true;
            }
        }
    }
}

static bool step(planner *p, ls_chain_op op, int32_t operand, ls_tile_fn fn) {
    ls_chain *c = &p->chain;
    ls_chain_step s = {.op = (uint8_t)op, .kind = LS_CHAIN_NONE, .fn = fn};
    int scalar = index_of(p->scalar, c->n_scalars, operand),
        pointer = index_of(p->pointer, c->n_pointers, operand);
    if (c->n_steps == LS_CHAIN_STEPS) {
        return false;
    }
    if (operand != LS_SPEC_NONE && scalar < c->n_scalars) {
        s.at = (uint8_t)scalar;
        s.kind = LS_CHAIN_SCALAR;
    } else if (operand != LS_SPEC_NONE) {
        s.at = (uint8_t)pointer;
        s.kind = c->places[pointer].buffer < 0 ? LS_CHAIN_SLOT : LS_CHAIN_MEMORY;
    }
    c->steps[c->n_steps++] = s;
    return true;
}

static bool keep(planner *p, int i) {
    ls_chain *c = &p->chain;
    if (!p->keep[i]) {
        return true;
    }
    if (c->n_slots == LS_CHAIN_SLOTS) {
        return false;
    }
    c->n_slots++;
    p->pointer[c->n_pointers] = p->order[i];
    c->places[c->n_pointers++] = (place){.buffer = -1};
    return step(p, LS_CHAIN_KEEP, p->order[i], NULL);
}

static bool operation(planner *p, int i) {
    static const ls_chain_op ops[][2] = {
        [LS_OP_ADD] = {LS_CHAIN_ADD, LS_CHAIN_ADD}, [LS_OP_SUB] = {LS_CHAIN_SUB, LS_CHAIN_FROM},
        [LS_OP_MUL] = {LS_CHAIN_MUL, LS_CHAIN_MUL}, [LS_OP_DIV] = {LS_CHAIN_DIV, LS_CHAIN_INTO},
        [LS_OP_MIN] = {LS_CHAIN_MIN, LS_CHAIN_MIN}, [LS_OP_MAX] = {LS_CHAIN_MAX, LS_CHAIN_MAX}};
    const ls_value *v = &p->spec->values[p->order[i]];
    int32_t running = p->order[i - 1];
    bool ok = true;
    if (v->b == LS_SPEC_NONE) {
        ok = v->a == running || step(p, LS_CHAIN_TAKE, v->a, NULL);
        return ok && step(p, LS_CHAIN_CALL, LS_SPEC_NONE, p->binary->device->tiles->map_f32[v->map]);
    }
    if (v->a != running && v->b == running) {
        return step(p, ops[v->map][1], v->a, NULL);
    }
    ok = v->a == running || step(p, LS_CHAIN_TAKE, v->a, NULL);
    return ok && step(p, ops[v->map][0], v->b, NULL);
}

static bool plan_steps(planner *p, int32_t value) {
    if (!gather(p, value) || p->order[p->n_order - 1] != value) {
        return false;
    }
    find_kept(p);
    bool ok = keep(p, 0);
    for (int i = 1; i < p->n_order && ok; i++) {
        ok = operation(p, i) && keep(p, i);
    }
    return ok;
}

/* The program of what rows share, and room for its results. */
static ls_status plan_scalars(planner *p, ls_kernel_binary *binary, ls_chain *out, ls_error *err) {
    const ls_gemm_phase *gemm = p->gemm;
    uint8_t axes[2 * LS_LANE_AXES];
    int16_t results[LS_CHAIN_SCALARS];
    int n = 0;
    int64_t points = 1;
    for (int i = 0; i < gemm->batch.n + gemm->m.n; i++) {
        uint8_t axis = i < gemm->batch.n ? gemm->batch.axes[i] : gemm->m.axes[i - gemm->batch.n];
        if (!fixed_one(p->spec, axis)) {
            axes[n++] = axis;
            points *= ls_dim_bound(p->spec->extents_of_axes[axis]);
        }
    }
    out->table = LS_ARENA_ARRAY(&binary->arena, float, points * out->n_scalars + 1);
    ls_program_builder *b =
        out->table ? ls_pb_create(&binary->arena, p->spec, binary->device->tiles, p->temps, n, axes) : NULL;
    for (int i = 0; i < out->n_scalars && b; i++) {
        results[i] = ls_pb_value(b, p->scalar[i], 0, NULL);
    }
    return b && ls_pb_finish(b, out->n_scalars, results, &out->scalars)
               ? LS_OK
               : LS_FAIL_MEMORY(err, "a kernel of the CPU");
}

ls_status ls_chain_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps, const ls_store *store,
                        ls_error *err) {
    const ls_spec *spec = &binary->spec;
    ls_gemm_phase *gemm = phase->gemm;
    const ls_value *v = &spec->values[phase->value];
    planner p = {.binary = binary, .spec = spec, .gemm = gemm, .temps = temps, .input = phase->value};
    int64_t points = 1, run = 1;
    for (int i = 0; i < gemm->n.n; i++) {
        p.columns |= UINT64_C(1) << gemm->n.axes[i];
    }
    for (int i = 0; i < gemm->batch.n + gemm->m.n; i++) {
        points *= ls_dim_bound(
            spec->extents_of_axes[i < gemm->batch.n ? gemm->batch.axes[i] : gemm->m.axes[i - gemm->batch.n]]);
    }
    p.chain.inner = gemm->n.n;
    p.order[p.n_order++] = phase->value;
    if (v->acc != LS_F32 || v->dtype != LS_F32 || store->combine != LS_STORE_SET || store->n_preds ||
        store->check != LS_SPEC_NONE || gemm->n.n + gemm->m.n + gemm->batch.n > LS_LANE_AXES ||
        !find_place(&p, store->ix, store->arg, &p.chain.result) || !plan_steps(&p, store->value) ||
        points * LS_CHAIN_SCALARS > MOST_SCALARS) {
        return LS_OK;
    }
    for (int i = gemm->n.n - p.chain.inner; i < gemm->n.n; i++) {
        run *= ls_dim_bound(spec->extents_of_axes[gemm->n.axes[i]]);
    }
    ls_chain *chain = run < LEAST_RUN ? NULL : LS_ARENA_NEW(&binary->arena, ls_chain);
    if (!chain) {
        return run < LEAST_RUN ? LS_OK : LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    *chain = p.chain;
    for (int k = 0; k < chain->n_pointers; k++) {
        chain->ranged = chain->ranged || chain->places[k].ranged;
    }
    if (chain->n_scalars) {
        LS_TRY(err, plan_scalars(&p, binary, chain, err));
        phase->extra += ls_run_bytes(&chain->scalars);
    }
    gemm->chain = chain;
    return LS_OK;
}

/* ---- running ---- */
void ls_chain_begin(const ls_gemm_launch *launch) {
    const ls_chain *chain = launch->phase->gemm->chain;
    ls_kernel_run *kernel = launch->kernel;
    if (!chain->n_scalars) {
        return;
    }
    ls_run run = {.spec = &kernel->binary->spec, /* wanted without terms to sum, too: not a run of ls_phase_begin */
                  .isa = kernel->binary->device->tiles,
                  .buffers = kernel->buffers,
                  .extents = kernel->extents,
                  .symbols = kernel->launch->symbols,
                  .out_of_range = &kernel->out_of_range};
    ls_run_begin(&run, &chain->scalars, ls_worker_scratch(kernel, 0) + launch->finish_offset);
    ls_run_point(&run);
    int64_t points = ls_run_lane_count(&run);
    for (int64_t at = 0; at < points; at += LS_TILE) {
        int64_t n = points - at < LS_TILE ? points - at : LS_TILE;
        ls_run_lanes(&run, at, n);
        for (int s = 0; s < chain->n_scalars; s++) {
            const float *from = ls_run_reg(&run, chain->scalars.results[s]);
            float *to = chain->table + at * chain->n_scalars + s;
            for (int64_t i = 0; i < n; i++) {
                to[i * chain->n_scalars] = from[i];
            }
        }
    }
}

static int64_t offset_of(const ls_axis_group *group, const int64_t *coords, const int64_t *strides) {
    int64_t at = 0;
    for (int i = 0; i < group->n; i++) {
        at += coords[group->axes[i]] * strides[i];
    }
    return at;
}

/* Of a row: where it lies, or zeros. */
static const float *row_of(const ls_gemm_phase *gemm, const ls_chain *c, int k, const float *const *base,
                           const int64_t *coords) {
    static const float zeros[ZEROS];
    for (;; k = c->places[k].other - 1) {
        const place *p = &c->places[k];
        int64_t x = p->range.constant;
        for (int i = 0; p->ranged && i < p->range.n_terms; i++) {
            x += p->range.stride[i] * coords[p->range.axis[i]];
        }
        if (!p->ranged || (x >= 0 && x < p->limit)) {
            return base[k] + offset_of(&gemm->m, coords, p->row);
        }
        if (!p->other) {
            return zeros;
        }
    }
}

/* Of row 0. */
static float *start_of(const ls_kernel_run *kernel, const ls_gemm_phase *gemm, const place *p,
                       const int64_t *coords) {
    return (float *)(void *)kernel->buffers[p->buffer] + p->constant +
           offset_of(&gemm->batch, coords, p->batch) + offset_of(&gemm->n, coords, p->column);
}

float *ls_chain_result(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t j0, int64_t nj) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_chain *c = gemm->chain;
    int64_t coords[LS_SPEC_MAX_AXES];
    if (!c || c->n_steps) {
        return NULL;
    }
    int64_t run = ls_point_count(kernel->extents, c->inner, gemm->n.axes + gemm->n.n - c->inner);
    if (run < nj || j0 % run > run - nj) {
        return NULL;
    }
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    ls_point_coords(kernel->extents, gemm->n.n, gemm->n.axes, j0, coords);
    ls_point_coords(kernel->extents, gemm->m.n, gemm->m.axes, i0, coords);
    return start_of(kernel, gemm, &c->result, coords) + offset_of(&gemm->m, coords, c->result.row);
}

void ls_chain_tile(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t ni, int64_t j0,
                   int64_t nj, const float *tile, int64_t ld) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_chain *c = gemm->chain;
    ls_chain_fn fn = kernel->binary->device->tiles->chain;
    _Alignas(LS_GEMM_ALIGN) float slots[LS_CHAIN_SLOTS][LS_CHAIN_LANES];
    int64_t coords[LS_SPEC_MAX_AXES], run = 0,
                                      rows = ls_point_count(kernel->extents, gemm->m.n, gemm->m.axes);
    const float *base[LS_CHAIN_POINTERS];
    ls_chain_row row = {.n_steps = c->n_steps, .n_pointers = c->n_pointers, .steps = c->steps};
    for (int k = 0, n = 0; k < c->n_pointers; k++) {
        if (c->places[k].buffer < 0) {
            row.slots[k] = slots[n++];
        }
    }
    if (c->inner < gemm->n.n) {
        run = ls_point_count(kernel->extents, c->inner, gemm->n.axes + gemm->n.n - c->inner);
    }
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    for (int64_t j = 0, n; j < nj; j += n) {
        n = run && run - (j0 + j) % run < nj - j ? run - (j0 + j) % run : nj - j;
        n = c->ranged && n > ZEROS ? ZEROS : n;
        ls_point_coords(kernel->extents, gemm->n.n, gemm->n.axes, j0 + j, coords);
        for (int k = 0; k < c->n_pointers; k++) {
            base[k] = c->places[k].buffer < 0 ? NULL : start_of(kernel, gemm, &c->places[k], coords);
        }
        float *out = start_of(kernel, gemm, &c->result, coords);
        for (int64_t i = 0; i < ni; i++) {
            ls_point_coords(kernel->extents, gemm->m.n, gemm->m.axes, i0 + i, coords);
            for (int k = 0; k < c->n_pointers; k++) {
                row.at[k] = c->places[k].buffer < 0 ? NULL : row_of(gemm, c, k, base, coords);
            }
            row.scalars = c->table + (batch * rows + i0 + i) * c->n_scalars;
            fn(&row, out + offset_of(&gemm->m, coords, c->result.row), tile + i * ld + j, n);
        }
    }
}
