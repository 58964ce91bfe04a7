/* Images whose elements are loads, and nothing else: of one tensor, of tensors joined along channels, or spread with gaps between
 * elements (transposed convolutions). They are copied, where images that are more than that are computed (windows_program.c). */
#include "backend/cpu/windows.h"
#include <string.h>

typedef struct parse {
    const ls_spec *spec;
    const ls_gemm_phase *gemm;
    const int *temps;
    ls_windows *w;
    ls_contract_side *side;
    const ls_value *guard; /* of the whole image, or NULL */
} parse;

static bool among(const parse *p, const ls_value *v, const ls_pred *pred) {
    bool found = false;
    for (int32_t i = v->first_pred; i < v->first_pred + v->n_preds; i++) {
        found = found || ls_same_pred(&p->spec->preds[i], pred);
    }
    return found;
}

/* Whether a predicate looks at axes of k alone: it is about planes then, as long as none of them walks a dimension. */
static bool of_planes(const parse *p, const ls_pred *pred) {
    uint64_t axes = p->spec->ix[pred->ix].axes;
    for (int i = 0; i < p->gemm->k.n; i++) {
        axes &= ~(UINT64_C(1) << p->gemm->k.axes[i]);
    }
    return axes == 0 && pred->limit != LS_SPEC_NONE && p->spec->ix[pred->limit].op == LS_IX_CONST &&
           ls_ix_of_axes(p->spec, pred->ix);
}

/* An index as affine terms: what is (S div by) * factor, with elements only where by divides S, counts as S * factor. */
static bool flatten(parse *p, int32_t ix, ls_ix_sum *out) {
    ls_ix_sum_of(p->spec, ix, out);
    for (int i = 0; i < out->n_rest && !out->failed; i++) {
        const ls_ix *x = &p->spec->ix[out->rest[i]];
        ls_ix_sum of;
        if (x->op != LS_IX_DIV || p->spec->ix[x->b].op != LS_IX_CONST) {
            return false;
        }
        ls_ix_sum_of(p->spec, x->a, &of);
        int at = 0;
        while (at < p->w->n_spreads && p->w->spreads[at].ix != x->a) {
            at++;
        }
        if (of.failed || of.n_rest || of.n_terms > 2 || out->n_terms + of.n_terms > LS_ACCESS_TERMS ||
            at == LS_WINDOW_DIMS) {
            return false;
        }
        p->w->spreads[at] = (ls_window_spread){
            .ix = x->a, .n_axes = of.n_terms, .by = p->spec->ix[x->b].k, .shift = of.constant};
        memcpy(p->w->spreads[at].axes, of.axis, sizeof p->w->spreads[at].axes);
        memcpy(p->w->spreads[at].strides, of.stride, sizeof p->w->spreads[at].strides);
        p->w->n_spreads += at == p->w->n_spreads;
        for (int t = 0; t < of.n_terms; t++) {
            out->axis[out->n_terms] = of.axis[t];
            out->stride[out->n_terms++] = of.stride[t] * out->factor[i];
        }
    }
    out->n_rest = 0;
    return !out->failed;
}

static bool take_leaf(parse *p, int32_t value, const ls_value *chooser) {
    ls_windows *w = p->w;
    const ls_value *v = &p->spec->values[value];
    if (v->op != LS_V_LOAD || p->temps[value] >= 0 || v->check != LS_SPEC_NONE || v->dtype != LS_F32 ||
        w->n_leaves == LS_WINDOW_LEAVES) {
        return false;
    }
    for (int32_t i = v->first_pred; i < v->first_pred + v->n_preds; i++) {
        const ls_pred *pred = &p->spec->preds[i];
        if (!of_planes(p, pred) && !(p->guard && among(p, p->guard, pred)) &&
            (p->guard || chooser || w->n_leaves)) {
            return false;
        }
    }
    ls_window_leaf *leaf = &w->leaves[w->n_leaves++];
    *leaf = (ls_window_leaf){.buffer = v->arg, .load = v, .chooser = chooser};
    return flatten(p, v->ix, &leaf->sum);
}

static bool take_preds(parse *p, const ls_value *of) {
    ls_contract_side *side = p->side;
    int divided = 0;
    for (int32_t i = of->first_pred; i < of->first_pred + of->n_preds; i++) {
        const ls_pred *pred = &p->spec->preds[i];
        ls_ix_sum sum;
        int64_t by = 1;
        ls_ix_sum_of(p->spec, pred->ix, &sum);
        if (pred->limit == LS_SPEC_NONE) {
            bool known = false;
            for (int s = 0; s < p->w->n_spreads; s++) {
                known = known || (p->w->spreads[s].ix == pred->ix && p->w->spreads[s].by == pred->multiple);
            }
            if (!known) {
                return false;
            }
            divided++;
            continue;
        }
        if (of_planes(p, pred) && of->op == LS_V_LOAD) {
            continue;
        }
        const ls_ix *x = &p->spec->ix[pred->ix];
        if (x->op == LS_IX_DIV && p->spec->ix[x->b].op == LS_IX_CONST) {
            by = p->spec->ix[x->b].k;
            ls_ix_sum_of(p->spec, x->a, &sum);
        }
        if (sum.failed || sum.n_rest || side->n_preds == LS_SIDE_PREDS ||
            p->spec->ix[pred->limit].op != LS_IX_CONST || p->spec->ix[pred->limit].k > INT32_MAX / 4 / by) {
            return false;
        }
        side->pred[side->n_preds] = sum;
        side->limit[side->n_preds++] = p->spec->ix[pred->limit].k * by;
    }
    return divided == p->w->n_spreads;
}

bool ls_windows_of_loads(const ls_spec *spec, const ls_gemm_phase *gemm, const int *temps, ls_windows *w,
                         ls_contract_side *out_side) {
    parse p = {spec, gemm, temps, w, out_side, NULL};
    int32_t value = gemm->side[1].value;
    const ls_value *v = &spec->values[value];
    *out_side = gemm->side[1];
    out_side->affine = true;
    out_side->n_preds = 0;
    if (temps[value] < 0 && v->op == LS_V_GUARD && v->b == LS_SPEC_NONE) {
        p.guard = v;
        value = v->a;
        v = &spec->values[value];
    }
    out_side->absent = p.guard != NULL;
    while (temps[value] < 0 && v->op == LS_V_GUARD) {
        for (int32_t i = v->first_pred; i < v->first_pred + v->n_preds; i++) {
            if (!of_planes(&p, &spec->preds[i])) {
                return false;
            }
        }
        if (v->b == LS_SPEC_NONE || !take_leaf(&p, v->a, v)) {
            return false;
        }
        value = v->b;
        v = &spec->values[value];
    }
    if (!take_leaf(&p, value, NULL) || !take_preds(&p, p.guard ? p.guard : v)) {
        return false;
    }
    ls_group_strides(&w->leaves[0].sum, &gemm->batch, out_side->batch_stride);
    ls_group_strides(&w->leaves[0].sum, &gemm->n, out_side->free_stride);
    ls_group_strides(&w->leaves[0].sum, &gemm->k, out_side->k_stride);
    return true;
}

/* Axes that predicates about planes look at walk nothing, and inside a task all leaves lie alike. */
bool ls_windows_leaves_fit(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w) {
    for (int l = 0; l < w->n_leaves; l++) {
        const ls_window_leaf *leaf = &w->leaves[l];
        const ls_value *with_preds[] = {leaf->load, leaf->chooser};
        for (int i = 0; i < gemm->k.n; i++) {
            int axis = gemm->k.axes[i];
            if (!ls_windows_walked_by(w, axis)) {
                continue;
            }
            if (ls_ix_sum_stride(&leaf->sum, axis) != ls_ix_sum_stride(&w->leaves[0].sum, axis)) {
                return false;
            }
            for (int t = 0; t < 2 && with_preds[t]; t++) {
                for (int32_t q = with_preds[t]->first_pred;
                     q < with_preds[t]->first_pred + with_preds[t]->n_preds; q++) {
                    parse p = {.spec = spec, .gemm = gemm};
                    if (of_planes(&p, &spec->preds[q]) && spec->ix[spec->preds[q].ix].axes >> axis & 1) {
                        return false;
                    }
                }
            }
        }
        for (int i = w->outer; i < w->n_dims; i++) {
            if (ls_ix_sum_stride(&leaf->sum, w->dims[i].axis) !=
                ls_ix_sum_stride(&w->leaves[0].sum, w->dims[i].axis)) {
                return false;
            }
        }
    }
    return true;
}

static bool holds(const parse *p, const ls_value *v, const int64_t *coords) {
    for (int32_t i = v->first_pred; i < v->first_pred + v->n_preds; i++) {
        const ls_pred *pred = &p->spec->preds[i];
        if (of_planes(p, pred)) {
            int64_t x = ls_ix_eval(p->spec, pred->ix, coords, NULL, NULL);
            if (x < 0 || x >= p->spec->ix[pred->limit].k) {
                return false;
            }
        }
    }
    return true;
}

void ls_windows_find_planes(const ls_spec *spec, const ls_gemm_phase *gemm, ls_windows *w) {
    parse p = {.spec = spec, .gemm = gemm};
    int64_t coords[LS_SPEC_MAX_AXES] = {0};
    for (int64_t plane = 0; plane < w->planes; plane++) {
        int64_t left = plane;
        for (int i = gemm->k.n - 1; i >= 0; i--) {
            int axis = gemm->k.axes[i];
            int64_t extent = spec->extents_of_axes[axis].offset;
            if (!ls_windows_walked_by(w, axis)) {
                coords[axis] = left % extent;
                left /= extent;
            }
        }
        int l = 0;
        while (w->leaves[l].chooser && !holds(&p, w->leaves[l].chooser, coords)) {
            l++;
        }
        const ls_window_leaf *leaf = &w->leaves[l];
        w->plane_leaf[plane] = (int8_t)(holds(&p, leaf->load, coords) ? l : -1);
        w->plane_at[plane] = 0;
        for (int i = 0; i < gemm->k.n; i++) {
            int axis = gemm->k.axes[i];
            w->plane_at[plane] +=
                ls_windows_walked_by(w, axis) ? 0 : coords[axis] * ls_ix_sum_stride(&leaf->sum, axis);
        }
    }
}
