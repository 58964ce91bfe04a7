/* Index expressions, predicates and values of one launch.
 *
 * A value is a function of the axes it varies over, so its last result holds until one of them changes: that
 * memo is all the sharing there is, and it is enough for a row's mean to be computed once a row. */
#include "backend/ref/eval.h"
#include "base/half.h"
#include "base/rng.h"

void *ls_ref_arg(const ls_ref_run *run, int32_t arg) {
    return (char *)run->launch->args[arg]->handle + run->launch->offsets[arg];
}

static int64_t divisor(int64_t b) { /* of an empty space: nothing is read through it */
    return b < 1 ? 1 : b;
}
static int64_t floor_div(int64_t a, int64_t b) {
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t index_of_parts(ls_ref_run *run, int32_t id) {
    const ls_ix *ix = &run->spec->ix[id];
    switch ((ls_ix_op)ix->op) {
    case LS_IX_CONST:
        return ix->k;
    case LS_IX_AXIS:
        return run->axis[ix->a];
    case LS_IX_DIM:
        return ls_dim_eval(run->spec->dims[ix->a], run->launch->symbols);
    case LS_IX_VALUE:
        return ls_ref_value(run, ix->a).i;
    case LS_IX_ADD:
        return ls_ref_index(run, ix->a) + ls_ref_index(run, ix->b);
    case LS_IX_MUL:
        return ls_ref_index(run, ix->a) * ls_ref_index(run, ix->b);
    case LS_IX_DIV:
        return floor_div(ls_ref_index(run, ix->a), divisor(ls_ref_index(run, ix->b)));
    case LS_IX_MOD: {
        int64_t a = ls_ref_index(run, ix->a), b = divisor(ls_ref_index(run, ix->b));
        return a - floor_div(a, b) * b;
    }
    }
    return 0;
}

int64_t ls_ref_index(ls_ref_run *run, int32_t id) {
    return run->binary->kept[id] ? run->index[id] : index_of_parts(run, id);
}

bool ls_ref_holds(ls_ref_run *run, int32_t first_pred, int32_t n_preds) {
    for (int32_t i = first_pred; i < first_pred + n_preds; i++) {
        const ls_pred *p = &run->spec->preds[i];
        int64_t x = ls_ref_index(run, p->ix);
        bool holds =
            p->limit != LS_SPEC_NONE ? x >= 0 && x < ls_ref_index(run, p->limit) : x % p->multiple == 0;
        if (!holds) {
            return false;
        }
    }
    return true;
}

static ls_cell load(ls_ref_run *run, const ls_value *v) {
    if (!ls_ref_holds(run, v->first_pred, v->n_preds)) {
        return (ls_cell){.u = 0};
    }
    if (v->check != LS_SPEC_NONE) {
        int64_t index = ls_ref_index(run, v->check);
        if (index < 0 || index >= ls_ref_index(run, v->limit)) {
            run->out_of_range = 1 + (int64_t)v->origin;
            uint64_t nan = v->dtype == LS_F64    ? LS_NAN_F64
                           : v->dtype == LS_F32  ? LS_NAN_F32
                           : v->dtype == LS_F16  ? LS_NAN_F16
                           : v->dtype == LS_BF16 ? LS_NAN_BF16
                                                 : 0;
            return ls_cell_from_bits(v->dtype, nan);
        }
    }
    return ls_cell_load(v->dtype, ls_ref_arg(run, v->arg), ls_ref_index(run, v->ix));
}

static ls_cell map(ls_ref_run *run, const ls_value *v) {
    ls_cell x[3] = {{.u = 0}, {.u = 0}, {.u = 0}};
    const int32_t src[3] = {v->a, v->b, v->c};
    int count = ls_ops[v->map].arity;
    for (int i = 0; i < count; i++) {
        x[i] = ls_ref_value(run, src[i]);
    }
    ls_dtype dtype = run->spec->values[src[count == 3]].dtype; /* WHERE: the condition comes first */
    return ls_cell_map(v->map, dtype, v->dtype, x[0], x[1], x[2]);
}

static ls_cell compute(ls_ref_run *run, int32_t id) {
    const ls_value *v = &run->spec->values[id];
    switch ((ls_value_op)v->op) {
    case LS_V_CONST:
        return ls_cell_from_bits(v->dtype, v->bits);
    case LS_V_LOAD:
        return load(run, v);
    case LS_V_GUARD:
        if (ls_ref_holds(run, v->first_pred, v->n_preds)) {
            return ls_ref_value(run, v->a);
        }
        return v->b == LS_SPEC_NONE ? (ls_cell){.u = 0, .absent = true} : ls_ref_value(run, v->b);
    case LS_V_INDEX:
        return ls_cell_cast(LS_I64, v->dtype, (ls_cell){.i = ls_ref_index(run, v->ix)});
    case LS_V_MAP:
        return map(run, v);
    case LS_V_RANDOM:
        return (ls_cell){.u = ls_threefry((uint32_t)ls_ref_value(run, v->a).u,
                                          (uint32_t)ls_ref_value(run, v->b).u,
                                          (uint64_t)ls_ref_index(run, v->ix))};
    case LS_V_REDUCE:
        return ls_ref_reduce(run, id);
    case LS_V_CONTRACT:
        return ls_ref_contract(run, id);
    case LS_V_SCAN:
        return ls_ref_scan(run, id);
    case LS_V_SORT:
        return ls_ref_sort(run, id);
    }
    return (ls_cell){.u = 0};
}

ls_cell ls_ref_value(ls_ref_run *run, int32_t id) {
    if (!run->binary->memo[id]) {
        const ls_value *v = &run->spec->values[id];
        return v->op == LS_V_LOAD ? load(run, v) : compute(run, id);
    }
    ls_ref_memo *memo = &run->memo[id];
    if (!ls_ref_is_kept(run, run->spec->values[id].axes, memo)) {
        memo->cell = compute(run, id);
        memo->tick = run->tick;
    }
    return memo->cell;
}
