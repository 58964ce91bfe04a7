/* Planning: which phases a spec takes, what each one's programs are, and what is fused into what. */
#include "backend/cpu/contract.h"
#include <string.h>

typedef struct planner {
    ls_kernel_binary *binary;
    const ls_spec *spec;
    ls_error *err;
    int *temps;    /* by value: its temporary, or -1 */
    bool *reached; /* by value: scratch of `reach` */
    ls_band band;  /* the axes of which blocks might be taken */
    bool prepares; /* a value of a block's rows is computed before its phases, for all of them */
    const char *strategy;
} planner;

static bool is_bound_op(const ls_value *v) {
    return v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT || v->op == LS_V_SCAN || v->op == LS_V_SORT;
}

static uint64_t trivial_axes(const ls_spec *spec) {
    uint64_t axes = 0;
    for (int i = 0; i < spec->n_axes; i++) {
        axes |= ls_dim_is_one(spec->extents_of_axes[i]) ? UINT64_C(1) << i : 0;
    }
    return axes;
}

/* ---- what a value needs: marks values with bound axes, and stops at them ---- */
static void reach(planner *p, int32_t value);

static void reach_ix(planner *p, int32_t id) {
    if (id == LS_SPEC_NONE) {
        return;
    }
    const ls_ix *ix = &p->spec->ix[id];
    if (ix->op == LS_IX_VALUE) {
        reach(p, ix->a);
    } else if (ix->op >= LS_IX_ADD) {
        reach_ix(p, ix->a);
        reach_ix(p, ix->b);
    }
}

static void reach_preds(planner *p, int32_t first, int32_t n) {
    for (int32_t i = first; i < first + n; i++) {
        reach_ix(p, p->spec->preds[i].ix);
        reach_ix(p, p->spec->preds[i].limit);
    }
}

static void reach_inside(planner *p, int32_t value) {
    const ls_value *v = &p->spec->values[value];
    const int32_t operands[] = {v->a, v->b, v->c}, exprs[] = {v->ix, v->limit, v->check};
    for (int i = 0; i < 3; i++) {
        if (operands[i] != LS_SPEC_NONE) {
            reach(p, operands[i]);
        }
        reach_ix(p, exprs[i]);
    }
    reach_preds(p, v->first_pred, v->n_preds);
}

static void reach(planner *p, int32_t value) {
    if (p->reached[value]) {
        return;
    }
    p->reached[value] = true;
    if (!is_bound_op(&p->spec->values[value])) {
        reach_inside(p, value);
    }
}

static void reach_store(planner *p, const ls_store *s) {
    reach(p, s->value);
    reach_ix(p, s->ix);
    reach_ix(p, s->check);
    reach_ix(p, s->limit);
    reach_preds(p, s->first_pred, s->n_preds);
}

/* ---- stores that one program does ---- */
static bool stores_together(const planner *p, const ls_store *a, const ls_store *b) {
    if (a->combine != LS_STORE_SET || b->combine != LS_STORE_SET || a->check != LS_SPEC_NONE ||
        b->check != LS_SPEC_NONE || a->arg == b->arg || a->n_axes != b->n_axes ||
        memcmp(a->axes, b->axes, (size_t)a->n_axes) != 0) {
        return false;
    }
    for (int i = 0; i < p->spec->n_values; i++) { /* nothing stored is read in the same spec */
        const ls_value *v = &p->spec->values[i];
        if (v->op == LS_V_LOAD && p->spec->args[v->arg].written) {
            return false;
        }
    }
    return true;
}

/* The value with bound axes that a group of stores can take tile by tile: over just its space, and nothing
 * else needs it. */
static int32_t value_to_fuse(planner *p, int first, int end) {
    const ls_spec *spec = p->spec;
    uint64_t space = 0, trivial = trivial_axes(spec);
    for (int i = 0; i < spec->stores[first].n_axes; i++) {
        space |= UINT64_C(1) << spec->stores[first].axes[i];
    }
    if (spec->stores[first].combine != LS_STORE_SET || spec->stores[first].check != LS_SPEC_NONE) {
        return LS_SPEC_NONE;
    }
    memset(p->reached, 0, sizeof *p->reached * (size_t)spec->n_values);
    for (int i = 0; i < spec->n_stores; i++) {
        if (i < first || i >= end) {
            reach_store(p, &spec->stores[i]);
        }
    }
    for (int32_t v = 0; v < spec->n_values; v++) {
        if (is_bound_op(&spec->values[v])) {
            reach_inside(p, v);
        }
    }
    bool *elsewhere = LS_ARENA_ARRAY(&p->binary->arena, bool, spec->n_values);
    if (!elsewhere) {
        return LS_SPEC_NONE;
    }
    memcpy(elsewhere, p->reached, sizeof *elsewhere * (size_t)spec->n_values);
    memset(p->reached, 0, sizeof *p->reached * (size_t)spec->n_values);
    for (int i = first; i < end; i++) {
        reach_store(p, &spec->stores[i]);
    }
    for (int32_t v = spec->n_values - 1; v >= 0; v--) {
        const ls_value *x = &spec->values[v];
        if (p->reached[v] && is_bound_op(x) && !elsewhere[v] && p->temps[v] == -1 &&
            (x->axes & ~trivial) == (space & ~trivial)) {
            return v;
        }
    }
    return LS_SPEC_NONE;
}

/* ---- rows or columns ---- */
/* The strides of an axis in the largest load below a value. */
static void main_load(const planner *p, int32_t value, int64_t *size, int32_t *load) {
    const ls_value *v = &p->spec->values[value];
    if (p->temps[value] >= 0) {
        return;
    }
    if (v->op == LS_V_LOAD) {
        int64_t numel = p->spec->args[v->arg].numel;
        if (numel > *size) {
            *size = numel;
            *load = value;
        }
        return;
    }
    const int32_t operands[] = {v->a, v->b, v->c};
    for (int i = 0; i < 3; i++) {
        if (operands[i] != LS_SPEC_NONE && !is_bound_op(&p->spec->values[operands[i]])) {
            main_load(p, operands[i], size, load);
        }
    }
}

static bool by_rows(const planner *p, const ls_phase *phase, const ls_value *v) {
    int64_t bound = ls_spec_points(p->spec, v->bound, v->n_bound), free = ls_spec_points(p->spec, phase->axes, phase->n_axes),
            size = -1;
    if (free < 8 || bound < 32) {
        return bound >= 8 * free;
    }
    int32_t load = LS_SPEC_NONE;
    main_load(p, v->a, &size, &load);
    if (load == LS_SPEC_NONE) {
        return p->prepares || bound >= free; /* rows that are kept lie one behind another */
    }
    int64_t stride;
    for (int i = v->n_bound - 1; i >= 0; i--) { /* the innermost bound axis of some extent */
        ls_dim extent = p->spec->extents_of_axes[v->bound[i]];
        if (!ls_dim_is_fixed(extent) || extent.offset > 1) {
            return ls_ix_affine(p->spec, p->spec->values[load].ix, v->bound[i], &stride) &&
                   (stride == 1 || stride == -1);
        }
    }
    return false;
}

/* ---- programs ---- */
static ls_status failed(const planner *p) {
    return LS_FAIL_MEMORY(p->err, "a kernel of the CPU");
}

static ls_program_builder *builder(const planner *p, int n_lanes, const uint8_t *lanes) {
    return ls_pb_create(&p->binary->arena, p->spec, p->binary->device->tiles, p->temps, n_lanes, lanes);
}

/* The finish program: the stores [first, end), or of the value into its temporary. */
static ls_status plan_finish(planner *p, ls_phase *phase, int32_t value, int n_lanes, const uint8_t *lanes, int first, int end) {
    ls_program_builder *b = builder(p, n_lanes, lanes);
    if (!b) {
        return failed(p);
    }
    if (phase->kind != LS_PHASE_GEMM) {
        ls_pb_rows(b);
        ls_pb_ahead(b);
    }
    if (phase->value != LS_SPEC_NONE) {
        ls_pb_input(b, phase->value);
    }
    bool ok = true;
    for (int i = first; i < end; i++) {
        ok = ls_pb_store(b, &p->spec->stores[i]) && ok;
    }
    if (first == end) {
        ls_access access;
        ls_temp_access(p->spec, value, p->temps[value], n_lanes, lanes, &access);
        int temp = p->temps[value];
        p->temps[value] = -1; /* here it is the input, or computed */
        int16_t reg = ls_pb_value(b, value, 0, NULL);
        p->temps[value] = temp;
        ok = ls_pb_store_access(b, reg, (ls_dtype)p->spec->values[value].dtype, &access);
    }
    return ok && ls_pb_finish(b, 0, NULL, &phase->finish) ? LS_OK : failed(p);
}

static bool is_elementary(ls_op op) {
    switch (op) {
    case LS_OP_EXP: case LS_OP_EXP2: case LS_OP_EXPM1: case LS_OP_LOG: case LS_OP_LOG2: case LS_OP_LOG1P:
    case LS_OP_SIN: case LS_OP_COS: case LS_OP_TAN: case LS_OP_TANH: case LS_OP_SINH: case LS_OP_COSH:
    case LS_OP_ERF: case LS_OP_ERFC: case LS_OP_POW: case LS_OP_CBRT: case LS_OP_REM:
        return true;
    default:
        return false;
    }
}

static void add_temp(planner *p, int32_t value) {
    const ls_value *v = &p->spec->values[value];
    size_t bytes = ls_dtype_size((ls_dtype)v->dtype);
    for (uint64_t left = v->axes; left; left &= left - 1) {
        bytes *= (size_t)ls_dim_bound(p->spec->extents_of_axes[__builtin_ctzll(left)]);
    }
    p->temps[value] = p->binary->n_temps;
    p->binary->temps[p->binary->n_temps++] = (ls_temp){.value = value, .bytes = bytes};
}

/* By value: whether a map over a reduction's whole space, below its operand, is needed by later phases, too, and may be kept for a block.
 * NULL: out of memory. */
static bool *shared_with_later(planner *p, int32_t value) {
    const ls_spec *spec = p->spec;
    const ls_value *v = &spec->values[value];
    const size_t bytes = sizeof(bool) * (size_t)spec->n_values;
    uint64_t trivial = trivial_axes(spec), space = v->axes;
    for (int i = 0; i < v->n_bound; i++) {
        space |= UINT64_C(1) << v->bound[i];
    }
    bool *shared = LS_ARENA_ARRAY(&p->binary->arena, bool, spec->n_values + 1);
    if (!shared) {
        return NULL;
    }
    memset(p->reached, 0, bytes);
    reach_inside(p, value);
    memcpy(shared, p->reached, bytes);
    memset(p->reached, 0, bytes);
    for (int32_t other = value + 1; other < spec->n_values; other++) {
        if (is_bound_op(&spec->values[other])) {
            reach_inside(p, other);
        }
    }
    for (int i = 0; i < spec->n_stores; i++) {
        reach_store(p, &spec->stores[i]);
    }
    for (int32_t x = 0; x < value; x++) {
        shared[x] = shared[x] && p->reached[x] && spec->values[x].op == LS_V_MAP && p->temps[x] < 0 &&
                    (spec->values[x].axes & ~trivial) == (space & ~trivial) && ls_band_holds(spec, &p->band, x);
    }
    return shared;
}

/* Costly values among those, as the exponentials of a softmax: the reduction's program stores them in the block's memory. */
static bool keep_shared(planner *p, ls_program_builder *b, int32_t value, int n_lanes, const uint8_t *lanes) {
    const ls_spec *spec = p->spec;
    if (spec->values[value].op != LS_V_REDUCE || !p->band.n_axes || p->temps[value] < 0) {
        return true; /* a value that is stored at once is the last */
    }
    const bool *shared = shared_with_later(p, value);
    for (int32_t x = 0; x < value && shared; x++) {
        if (shared[x] && is_elementary((ls_op)spec->values[x].map)) {
            ls_access access;
            int16_t reg = ls_pb_value(b, x, 0, NULL);
            add_temp(p, x);
            ls_temp_access(spec, x, p->temps[x], n_lanes, lanes, &access);
            if (!ls_pb_store_access(b, reg, (ls_dtype)spec->values[x].dtype, &access)) {
                return false;
            }
        }
    }
    return shared != NULL;
}

/* Whether a value of f32 comes of loads and constants alone, all of them there; `plain` tells of those before it. */
static bool is_plain(const ls_value *v, const bool *plain) {
    const int32_t operands[] = {v->a, v->b, v->c};
    bool all = v->dtype == LS_F32 && v->n_preds == 0;
    if (v->op != LS_V_MAP) {
        return all && ((v->op == LS_V_LOAD && v->check == LS_SPEC_NONE) || v->op == LS_V_CONST);
    }
    for (int i = 0; i < 3; i++) {
        all = all && (operands[i] == LS_SPEC_NONE || plain[operands[i]]);
    }
    return all && !is_elementary((ls_op)v->map);
}

/* What rows are that a reduction and later phases begin with, as the sum of two tensors that is normalised: folds and norms read rows from
 * memory, and what each phase would compute anew takes three times as long. *out_rows: LS_SPEC_NONE where there is none. False: out of memory. */
static bool find_rows(planner *p, int32_t value, int32_t *out_rows) {
    const bool *shared = shared_with_later(p, value);
    bool *plain = LS_ARENA_ARRAY(&p->binary->arena, bool, p->spec->n_values + 1);
    *out_rows = LS_SPEC_NONE;
    for (int32_t x = 0; x < value && shared && plain; x++) {
        plain[x] = is_plain(&p->spec->values[x], plain);
        *out_rows = plain[x] && shared[x] ? x : *out_rows;
    }
    return shared && plain;
}

/* The lane axis from which on all that is loaded lies in runs, where those are long enough for tiles of their own. */
static int row_axis(const ls_spec *spec, const ls_program *p) {
    int row = p->row_axes;
    for (int i = 0; i < p->n_instrs[LS_SECTION_LANES]; i++) {
        const ls_instr *in = &p->instrs[LS_SECTION_LANES][i];
        const ls_access *a = &p->accesses[in->op == LS_TILE_OP_LOAD ? in->access : 0];
        if (in->op == LS_TILE_OP_LOAD && !a->n_tables && a->n_dims > 1 && a->dims[a->n_dims - 1].stride == 1 &&
            a->dims[a->n_dims - 1].first > row) {
            row = a->dims[a->n_dims - 1].first;
        }
    }
    return ls_spec_points(spec, p->lane_axes + row, p->n_lane_axes - row) >= LS_TILE / 4 ? row : 0;
}

/* Lanes of which the first axes are the phase's own: rows. */
static ls_status plan_operand(planner *p, ls_phase *phase, int n_lanes, const uint8_t *lanes, bool rows) {
    const ls_value *v = &p->spec->values[phase->value];
    ls_program_builder *b = builder(p, n_lanes, lanes);
    int16_t results[3] = {-1, -1, -1};
    int n_temps = p->binary->n_temps;
    if (!b) {
        return failed(p);
    }
    int n_rows = rows ? ls_pb_rows_of(b, phase->n_axes, phase->axes) : 0;
    if (phase->kind == LS_PHASE_ROWS || phase->kind == LS_PHASE_ARG_ROWS) {
        ls_pb_ahead(b);
    }
    ls_dtype from = (ls_dtype)p->spec->values[v->a].dtype, acc = (ls_dtype)v->acc;
    if (v->op == LS_V_CONTRACT) {
        int16_t mask_a, mask_b;
        int16_t x = ls_pb_value(b, v->a, 0, &mask_a), y = ls_pb_value(b, v->b, 0, &mask_b);
        results[0] = ls_pb_cast(b, x, from, acc);
        results[1] = ls_pb_cast(b, y, (ls_dtype)p->spec->values[v->b].dtype, acc);
        results[2] = ls_pb_both(b, mask_a, mask_b);
    } else if (phase->kind == LS_PHASE_ARG_ROWS || phase->kind == LS_PHASE_ARG_COLUMNS) {
        results[0] = ls_pb_value(b, v->a, 0, &results[1]);
    } else if (v->op == LS_V_REDUCE) {
        /* Absent elements become identities, which change no bits. */
        uint64_t identity = ls_fold_identity((ls_op)v->map, acc);
        bool same = from == acc && from != LS_F16 && from != LS_BF16;
        if (same || identity == 0) {
            results[0] = ls_pb_cast(b, ls_pb_value(b, v->a, identity, NULL), from, acc);
        } else {
            int16_t mask, x = ls_pb_value(b, v->a, 0, &mask);
            results[0] = ls_pb_select(b, mask, ls_pb_cast(b, x, from, acc), identity, acc);
        }
    } else {
        results[0] = ls_pb_value(b, v->a, 0, NULL);
        if (v->op == LS_V_SCAN) {
            results[0] = ls_pb_cast(b, results[0], from, acc);
        }
    }
    if (!keep_shared(p, b, phase->value, n_lanes, lanes)) {
        return failed(p);
    }
    phase->program = (ls_program){0};
    if (!ls_pb_finish(b, 3, results, &phase->program)) {
        return failed(p);
    }
    phase->streams = rows && ls_program_streams(&phase->program, p->spec->n_args, n_rows);
    while (rows && !phase->streams && p->binary->n_temps > n_temps) { /* once more, without rows */
        p->temps[p->binary->temps[--p->binary->n_temps].value] = -1;
    }
    if (phase->kind == LS_PHASE_ROWS && !phase->streams && p->spec->math != LS_LOCKED) {
        phase->row = row_axis(p->spec, &phase->program);
    }
    return LS_OK;
}

/* Whether a contraction is many short products of a row and a column each: sums of lanes, then. */
static bool is_lanes(const planner *p, const ls_phase *phase, const ls_value *v) {
    uint64_t both = p->spec->values[v->a].axes & p->spec->values[v->b].axes;
    bool alone = true;
    for (int i = 0; i < phase->n_axes; i++) {
        alone = alone && (both >> phase->axes[i] & 1);
    }
    return alone && ls_spec_points(p->spec, phase->axes, phase->n_axes) >= 8 * ls_spec_points(p->spec, v->bound, v->n_bound);
}

/* The phase of a value with bound axes; `axes` is its space. */
static ls_status plan_value(planner *p, int32_t value, int n_axes, const uint8_t *axes, int first, int end) {
    const ls_value *v = &p->spec->values[value];
    ls_phase *phase = &p->binary->phases[p->binary->n_phases++];
    phase->value = value;
    phase->patch = -1;
    for (int i = 0; i < n_axes; i++) {
        bool own = (v->op == LS_V_SCAN || v->op == LS_V_SORT) && axes[i] == v->bound[0];
        if (!own) {
            phase->axes[phase->n_axes++] = axes[i];
        }
    }
    int n_lanes = phase->n_axes;
    const uint8_t *lanes = phase->axes;
    if (v->op == LS_V_CONTRACT) {
        bool naive = p->strategy && strcmp(p->strategy, "naive") == 0;
        phase->kind = LS_PHASE_SUMS;
        if (!naive && (p->strategy || !is_lanes(p, phase, v))) {
            LS_TRY(p->err, ls_gemm_phase_plan(p->binary, phase, p->temps, p->err));
        }
        if (phase->gemm) {
            phase->kind = LS_PHASE_GEMM;
            const ls_axis_group *columns = &phase->gemm->n;
            LS_TRY(p->err, plan_finish(p, phase, value, columns->n, columns->axes, first, end));
            ls_gemm_phase_finish(p->spec, phase, first, end);
            return end - first == 1 ? ls_chain_plan(p->binary, phase, p->temps, &p->spec->stores[first], p->err)
                                    : LS_OK;
        }
        if (p->strategy && !naive) {
            return LS_FAIL(p->err, LS_ERR_UNSUPPORTED,
                           "strategy \"%s\" is not available for kernel %s: only \"naive\"", p->strategy,
                           p->spec->name);
        }
    } else if (v->op == LS_V_REDUCE) {
        bool arg = v->map == LS_OP_ARGMIN || v->map == LS_OP_ARGMAX, rows = by_rows(p, phase, v);
        phase->kind = arg    ? (rows ? LS_PHASE_ARG_ROWS : LS_PHASE_ARG_COLUMNS)
                      : rows ? LS_PHASE_ROWS
                             : LS_PHASE_COLUMNS;
        if (rows) {
            n_lanes = v->n_bound;
            lanes = v->bound;
        }
    } else {
        bool lines = v->op == LS_V_SORT || by_rows(p, phase, v);
        phase->kind = v->op == LS_V_SORT ? LS_PHASE_SORT : lines ? LS_PHASE_SCAN_LINES : LS_PHASE_SCAN;
        if (lines) {
            n_lanes = 1;
            lanes = v->bound;
        }
    }
    phase->extra = ls_phase_extra(p->spec, phase);
    uint8_t all[LS_LANE_AXES];
    int n_all = ls_stream_axes(p->binary, phase, all);
    if (n_all) {
        LS_TRY(p->err, plan_operand(p, phase, n_all, all, true));
    }
    if (!phase->streams) {
        LS_TRY(p->err, plan_operand(p, phase, n_lanes, lanes, false));
    }
    bool along = phase->kind == LS_PHASE_SORT || phase->kind == LS_PHASE_SCAN_LINES;
    LS_TRY(p->err, plan_finish(p, phase, value, along ? 1 : phase->n_axes, along ? v->bound : phase->axes, first, end));
    return ls_pooling_plan(p->binary, phase, p->temps) ? LS_OK : failed(p);
}

static int free_axes(const ls_spec *spec, const ls_value *v, uint8_t *axes) {
    int n = 0;
    for (int axis = 0; axis < LS_SPEC_MAX_AXES && n < LS_LANE_AXES; axis++) {
        ls_dim extent = spec->extents_of_axes[axis < spec->n_axes ? axis : 0];
        if (v->axes >> axis & 1 && (!ls_dim_is_fixed(extent) || extent.offset != 1)) {
            axes[n++] = (uint8_t)axis;
        }
    }
    return n;
}

/* Before the phase of a reduction by rows, one that keeps in the block's memory what it shares with others. */
static ls_status prepare(planner *p, int32_t value, int n_axes, const uint8_t *axes) {
    const ls_value *v = &p->spec->values[value];
    ls_phase own = {.n_axes = n_axes};
    memcpy(own.axes, axes, (size_t)n_axes);
    if (LS_SMALL || p->prepares || !p->band.n_axes || v->op != LS_V_REDUCE || v->acc != LS_F32 || !by_rows(p, &own, v)) {
        return LS_OK;
    }
    int32_t rows;
    if (!find_rows(p, value, &rows)) {
        return failed(p);
    }
    if (rows == LS_SPEC_NONE) {
        return LS_OK;
    }
    uint8_t all[LS_LANE_AXES];
    ls_phase *phase = &p->binary->phases[p->binary->n_phases++];
    phase->kind = LS_PHASE_STORE;
    phase->value = LS_SPEC_NONE;
    phase->patch = -1;
    phase->n_axes = free_axes(p->spec, &p->spec->values[rows], all);
    memcpy(phase->axes, all, (size_t)phase->n_axes);
    add_temp(p, rows);
    LS_TRY(p->err, plan_finish(p, phase, rows, phase->n_axes, all, 0, 0));
    p->prepares = true;
    return LS_OK;
}

static ls_status plan_stores(planner *p, int first, int end, int32_t fused) {
    const ls_store *s = &p->spec->stores[first];
    if (fused != LS_SPEC_NONE) {
        return plan_value(p, fused, s->n_axes, s->axes, first, end);
    }
    ls_phase *phase = &p->binary->phases[p->binary->n_phases++];
    phase->kind = LS_PHASE_STORE;
    phase->value = LS_SPEC_NONE;
    phase->serial = s->combine != LS_STORE_SET || s->check != LS_SPEC_NONE;
    phase->n_axes = s->n_axes;
    memcpy(phase->axes, s->axes, (size_t)s->n_axes);
    LS_TRY(p->err, plan_finish(p, phase, LS_SPEC_NONE, s->n_axes, s->axes, first, end));
    ls_patch_plan(p->spec, phase);
    if (!LS_SMALL) {
        ls_move_plan(p->spec, phase);
    }
    phase->row = phase->finish.endless ? 0 : row_axis(p->spec, &phase->finish);
    return p->spec->n_stores == 1 && (LS_SMALL || !phase->moves) ? ls_chain_plan_points(p->binary, phase, p->temps, s, p->err) : LS_OK;
}

static int64_t program_cost(const ls_program *a) {
    int64_t cost = 0;
    for (int i = 0; i < a->n_instrs[LS_SECTION_LANES]; i++) {
        const ls_instr *in = &a->instrs[LS_SECTION_LANES][i];
        cost += in->op == LS_TILE_OP_GATHER ? 8 : in->op == LS_TILE_OP_FUSED ? a->fused[in->access]->n_steps : 1;
    }
    return cost;
}

static ls_status measure(planner *p) {
    ls_kernel_binary *binary = p->binary;
    for (int i = 0; i < binary->n_phases; i++) {
        ls_phase *phase = &binary->phases[i];
        size_t need =
            ls_run_bytes(&phase->program) + ls_run_bytes(&phase->finish) + phase->extra + 4 * LS_ALIGN;
        binary->scratch_size = need > binary->scratch_size ? need : binary->scratch_size;
        phase->cost = program_cost(&phase->finish);
        if (phase->value != LS_SPEC_NONE) {
            const ls_value *v = &p->spec->values[phase->value];
            phase->cost += (program_cost(&phase->program) + 1) * ls_spec_points(p->spec, v->bound, v->n_bound);
        }
    }
    return LS_OK;
}

ls_status ls_phases_plan(ls_kernel_binary *binary, const char *strategy, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    planner p = {.binary = binary, .spec = spec, .err = err, .strategy = strategy};
    p.temps = LS_ARENA_ARRAY(&binary->arena, int, spec->n_values + 1);
    p.reached = LS_ARENA_ARRAY(&binary->arena, bool, spec->n_values + 1);
    binary->phases = LS_ARENA_ARRAY(&binary->arena, ls_phase, spec->n_values + spec->n_stores + 1);
    binary->temps = LS_ARENA_ARRAY(&binary->arena, ls_temp, spec->n_values + 1);
    int32_t *fused = LS_ARENA_ARRAY(&binary->arena, int32_t, spec->n_stores + 1);
    int *end = LS_ARENA_ARRAY(&binary->arena, int, spec->n_stores + 1);
    if (!p.temps || !p.reached || !binary->phases || !binary->temps || !fused || !end) {
        return failed(&p);
    }
    memset(p.temps, 0xff, sizeof *p.temps * (size_t)(spec->n_values + 1));
    ls_band_choose(binary, &p.band);
    for (int i = 0; i < spec->n_stores; i = end[i]) {
        end[i] = i + 1;
        while (end[i] < spec->n_stores && stores_together(&p, &spec->stores[i], &spec->stores[end[i]])) {
            bool all = true;
            for (int j = i; j < end[i]; j++) {
                all = all && spec->stores[j].arg != spec->stores[end[i]].arg;
            }
            if (!all) {
                break;
            }
            end[i]++;
        }
        fused[i] = value_to_fuse(&p, i, end[i]);
    }
    for (int32_t v = 0; v < spec->n_values; v++) {
        bool taken = false;
        for (int i = 0; i < spec->n_stores; i = end[i]) {
            taken = taken || fused[i] == v;
        }
        if (is_bound_op(&spec->values[v]) && !taken) {
            uint8_t axes[LS_LANE_AXES];
            int n = free_axes(spec, &spec->values[v], axes);
            LS_TRY(err, prepare(&p, v, n, axes));
            add_temp(&p, v);
            LS_TRY(err, plan_value(&p, v, n, axes, 0, 0));
        }
    }
    for (int i = 0; i < spec->n_stores; i = end[i]) {
        LS_TRY(err, plan_stores(&p, i, end[i], fused[i]));
    }
    binary->many_buffers = LS_ARENA_ARRAY(&binary->arena, char *, spec->n_args + binary->n_temps + 1);
    LS_TRY(err, measure(&p));
    return binary->many_buffers && ls_band_plan(binary) ? LS_OK : failed(&p);
}
