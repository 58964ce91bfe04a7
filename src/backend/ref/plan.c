/* What is found out once when a kernel is compiled: how index expressions change with the axes, what is kept, how much room that takes. */
#include "backend/ref/eval.h"

typedef struct affine { /* an index expression as c + sum of k[i] * axis[i] */
    int n;                  /* -1: there is no such form, or it is too long */
    int64_t c;
    uint8_t axis[8];
    int64_t k[8];
} affine;

/* From the operands' own forms. */
static affine affine_of(const ls_ix *ix, const affine *all) {
    const affine none = {.n = -1};
    affine r = {.n = 0};
    if (ix->op == LS_IX_CONST) {
        r.c = ix->k;
    } else if (ix->op == LS_IX_AXIS) {
        r.n = 1, r.axis[0] = (uint8_t)ix->a, r.k[0] = 1;
    } else if (ix->op == LS_IX_ADD && all[ix->a].n >= 0 && all[ix->b].n >= 0) {
        r = all[ix->a];
        const affine *b = &all[ix->b];
        r.c += b->c;
        for (int i = 0; i < b->n; i++) {
            int at = 0;
            while (at < r.n && r.axis[at] != b->axis[i]) {
                at++;
            }
            if (at == 8) {
                return none;
            }
            if (at == r.n) {
                r.axis[r.n] = b->axis[i], r.k[r.n++] = 0;
            }
            r.k[at] += b->k[i];
        }
    } else if (ix->op == LS_IX_MUL && all[ix->a].n >= 0 && all[ix->b].n >= 0 &&
               all[ix->a].n * all[ix->b].n == 0) {
        bool left = all[ix->a].n == 0;
        int64_t k = left ? all[ix->a].c : all[ix->b].c;
        r = left ? all[ix->b] : all[ix->a];
        r.c *= k;
        for (int i = 0; i < r.n; i++) {
            r.k[i] *= k;
        }
    } else {
        return none;
    }
    return r;
}

static void ask(bool *asked, int32_t ix) {
    if (ix != LS_SPEC_NONE) {
        asked[ix] = true;
    }
}

/* Which index expressions are asked for: by values, predicates and stores, or because one that is computed from its parts is. */
static void find_asked(const ls_spec *spec, const affine *all, bool *asked) {
    for (int32_t i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        if (v->op == LS_V_LOAD) {
            ask(asked, v->ix), ask(asked, v->check), ask(asked, v->limit);
        } else if (v->op == LS_V_INDEX || v->op == LS_V_RANDOM) {
            ask(asked, v->ix);
        }
    }
    for (int32_t i = 0; i < spec->n_preds; i++) {
        ask(asked, spec->preds[i].ix), ask(asked, spec->preds[i].limit);
    }
    for (int32_t i = 0; i < spec->n_stores; i++) {
        ask(asked, spec->stores[i].ix), ask(asked, spec->stores[i].check), ask(asked, spec->stores[i].limit);
    }
    for (int32_t i = spec->n_ix - 1; i >= 0; i--) { /* parts come before what they are parts of */
        const ls_ix *ix = &spec->ix[i];
        if (asked[i] && all[i].n < 0 && ix->op >= LS_IX_ADD) {
            ask(asked, ix->a), ask(asked, ix->b);
        }
    }
}

/* Which index expressions are kept as axes move, and how. */
static ls_status plan_indices(ls_kernel_binary *b, ls_error *err) {
    const ls_spec *spec = &b->spec;
    affine *all = LS_ARENA_ARRAY(&b->arena, affine, spec->n_ix);
    b->kept = LS_ARENA_ARRAY(&b->arena, bool, spec->n_ix);
    b->at_zero = LS_ARENA_ARRAY(&b->arena, int64_t, spec->n_ix);
    if (!all || !b->kept || !b->at_zero) {
        return LS_FAIL_MEMORY(err, "a reference kernel");
    }
    int n = 0;
    for (int32_t i = 0; i < spec->n_ix; i++) {
        all[i] = affine_of(&spec->ix[i], all);
    }
    find_asked(spec, all, b->kept);
    for (int32_t i = 0; i < spec->n_ix; i++) {
        b->kept[i] = b->kept[i] && all[i].n >= 0;
        b->at_zero[i] = all[i].c;
        n += b->kept[i] ? all[i].n : 0;
    }
    b->moves = LS_ARENA_ARRAY(&b->arena, ls_ref_move, n);
    if (!b->moves) {
        return LS_FAIL_MEMORY(err, "a reference kernel");
    }
    for (int axis = 0, at = 0; axis < LS_SPEC_MAX_AXES; axis++) {
        for (int32_t i = 0; i < spec->n_ix; i++) {
            for (int q = 0; b->kept[i] && q < all[i].n; q++) {
                if (all[i].axis[q] == axis) {
                    b->moves[at++] = (ls_ref_move){i, all[i].k[q]};
                }
            }
        }
        b->moves_of[axis + 1] = at;
    }
    return LS_OK;
}

enum { KEPT = 1 << 18 }; /* cells of an operand */

/* Lines are kept where other axes ask for each again. Right operands that may be out of range are not read beside an absent left one. */
static int64_t places_of(const ls_spec *spec, const ls_value *v, bool right) {
    uint64_t own = spec->values[right ? v->b : v->a].axes;
    int64_t lines = 1, uses = 1, n = ls_spec_points(spec, v->bound, v->n_bound);
    for (uint64_t axes = ls_ref_without_bound(v->axes, v); axes; axes &= axes - 1) {
        int axis = __builtin_ctzll(axes);
        int64_t *count = own >> axis & 1 ? &lines : &uses, extent = ls_dim_bound(spec->extents_of_axes[axis]);
        *count = extent > KEPT || *count * extent > KEPT ? KEPT : *count * extent;
    }
    for (int32_t i = 0; right && i < spec->n_values; i++) {
        uses = spec->values[i].check == LS_SPEC_NONE ? uses : 1;
    }
    return uses <= 1 || n < 1 || n > KEPT ? 0 : lines < KEPT / n ? lines : KEPT / n;
}

static ls_ref_kept kept_by(const ls_spec *spec, const ls_value *v) {
    ls_ref_kept kept = {{0, 0}};
    for (int side = 0; side < 2 && v->op == LS_V_CONTRACT; side++) {
        kept.places[side] = places_of(spec, v, side);
    }
    return kept;
}

/* Bytes of scratch that a value's evaluation needs. */
static size_t scratch_size(const ls_spec *spec, const ls_value *v, const ls_ref_kept *kept) {
    size_t n = (size_t)ls_spec_points(spec, v->bound, v->n_bound);
    switch ((ls_value_op)v->op) {
    case LS_V_REDUCE: /* block results of every level, and one block's partials */
        return (2 * (n / LS_REF_BLOCK + 2) + LS_REF_PARTIALS) * sizeof(ls_cell);
    case LS_V_SCAN: /* the line and the totals of every level */
        return (n + 2 * (n / LS_REF_CHUNK + 2)) * sizeof(ls_cell);
    case LS_V_CONTRACT: /* lines of each operand, before them by place which it is */
        return (size_t)(kept->places[0] + kept->places[1]) * (sizeof(uint64_t) + n * sizeof(ls_cell));
    case LS_V_SORT: /* the line and two orders for merging */
        return n * (sizeof(ls_cell) + 2 * sizeof(int64_t));
    default:
        return 0;
    }
}

ls_status ls_ref_plan(ls_kernel_binary *b, ls_error *err) {
    const ls_spec *spec = &b->spec;
    b->memo = LS_ARENA_ARRAY(&b->arena, uint8_t, spec->n_values);
    b->kept_by = LS_ARENA_ARRAY(&b->arena, ls_ref_kept, spec->n_values);
    b->scratch_size = LS_ARENA_ARRAY(&b->arena, size_t, spec->n_values);
    if (!b->memo || !b->kept_by || !b->scratch_size) {
        return LS_FAIL_MEMORY(err, "a reference kernel");
    }
    for (int32_t i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        /* SCAN and SORT keep their whole line in the memo's place instead. */
        b->memo[i] = v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT || (v->op == LS_V_MAP && v->map != LS_OP_CAST);
        b->kept_by[i] = kept_by(spec, v);
        b->scratch_size[i] = scratch_size(spec, v, &b->kept_by[i]);
    }
    return plan_indices(b, err);
}
