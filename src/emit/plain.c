/* A spec that is nothing but a product of two matrices in memory, or a batch of such: what a library can do. */
#include "emit/contract.h"

/* The stride of a line, a number of elements for each step along axes taken row-major; false: it has none. */
static bool line_stride(const ls_spec *spec, int32_t ix, const uint8_t *axes, int n, int64_t *out_stride) {
    int64_t inner = 1, stride = 0;
    bool known = false;
    for (int i = n - 1; i >= 0; i--) {
        int64_t own, extent = ls_dim_bound(spec->extents_of_axes[axes[i]]);
        if (extent == 1) {
            continue;
        }
        if (!ls_ix_affine(spec, ix, axes[i], &own) || own < 0 || (known && own != stride * inner)) {
            return false;
        }
        stride = known ? stride : own;
        known = true;
        inner *= extent;
    }
    *out_stride = stride;
    return true;
}

static bool is_bare_load(const ls_value *v) {
    return v->op == LS_V_LOAD && v->n_preds == 0 && v->check == LS_SPEC_NONE;
}

static const char *check_values(const ls_spec *spec) {
    const ls_store *s = &spec->stores[0];
    for (int i = 0; i < spec->n_axes; i++) {
        if (!ls_dim_is_fixed(spec->extents_of_axes[i])) {
            return "its extents are not fixed";
        }
    }
    if (spec->n_stores != 1 || spec->values[s->value].op != LS_V_CONTRACT || s->n_preds || s->check != LS_SPEC_NONE ||
        s->combine != LS_STORE_SET) {
        return "what follows the product is fused with it (without fusion it is a kernel of its own)";
    }
    const ls_value *v = &spec->values[s->value];
    return is_bare_load(&spec->values[v->a]) && is_bare_load(&spec->values[v->b])
               ? NULL
               : "its operands are not matrices in memory: they are padded, or computed on the way";
}

/* Strides of one matrix: rows, columns, and from one of the batch to the next. The first `apart` axes of a side, rows or
 * columns, count as the batch's. */
static bool strides(const ls_product *p, int which, int side, int apart, int32_t ix, ls_emit_matrices *out) {
    const ls_spec *spec = p->l->spec;
    const int64_t none[LS_SPEC_MAX_AXES] = {0};
    uint8_t batch[4 * LS_MAX_RANK];
    const uint8_t *axes[2] = {p->s[0].axes, p->s[1].axes};
    int n[2] = {p->s[0].n, p->s[1].n}, n_batch = 0;
    for (int i = 0; i < p->n_batch + apart; i++) {
        batch[n_batch++] = i < p->n_batch ? p->batch[i] : axes[side][i - p->n_batch];
    }
    axes[side] += apart;
    n[side] -= apart;
    if (which < 2) {
        axes[1 - which] = p->v->bound;
        n[1 - which] = p->v->n_bound;
    }
    out->first[which] = ls_ix_eval(spec, ix, none, NULL, NULL);
    return line_stride(spec, ix, axes[0], n[0], &out->row[which]) && line_stride(spec, ix, axes[1], n[1], &out->column[which]) &&
           line_stride(spec, ix, batch, n_batch, &out->next[which]);
}

/* The whole with rows for columns: the result's rows have neighbours in memory, not its columns. */
static void transpose(ls_emit_matrices *m) {
    const ls_emit_matrices old = *m;
    m->m = old.n;
    m->n = old.m;
    for (int i = 0; i < 3; i++) {
        int from = i == 2 ? 2 : 1 - i;
        m->arg[i] = old.arg[from];
        m->first[i] = old.first[from];
        m->next[i] = old.next[from];
        m->row[i] = old.column[from];
        m->column[i] = old.row[from];
    }
}

/* As one product, or a batch over the outermost axes of its rows or columns: an image's results have their channels outside. */
static bool find_strides(const ls_product *p, const int32_t ix[3], ls_emit_matrices *out) {
    for (int side = 0; side < 2; side++) {
        int64_t times = 1;
        for (int apart = 0; apart <= p->s[side].n; apart++) {
            bool all = true;
            for (int i = 0; i < 3; i++) {
                all = all && strides(p, i, side, apart, ix[i], out);
            }
            if (all) {
                *(side ? &out->n : &out->m) /= times;
                out->batch *= times;
                if (out->column[2] != 1 && out->row[2] == 1) {
                    transpose(out);
                }
                return true;
            }
            times *= apart < p->s[side].n ? ls_dim_bound(p->l->spec->extents_of_axes[p->s[side].axes[apart]]) : 1;
        }
    }
    return false;
}

static int64_t least(const ls_emit_matrices *m) {
    int64_t outer = m->m < m->n ? m->m : m->n, inner = m->k < m->batch ? m->k : m->batch;
    return outer < inner ? outer : inner;
}

ls_status ls_emit_plain(ls_arena *arena, const ls_spec *spec, ls_emit_matrices *out_matrices, const char **out_reason, ls_error *err) {
    ls_kernel_list list = {0};
    ls_lower l;
    ls_product *p = ls_arena_alloc(arena, sizeof *p);
    if (!p) {
        return LS_FAIL_MEMORY(err, "a product");
    }
    LS_TRY(err, ls_lower_start(&l, arena, spec, NULL, &list, err));
    *p = (ls_product){.l = &l, .first = 0, .count = spec->n_stores};
    *out_reason = spec->kind != LS_GROUP_CONTRACT ? "the kernel has no contraction" : check_values(spec);
    *out_reason = *out_reason ? *out_reason : ls_product_find(p);
    LS_TRY(err, l.status);
    if (*out_reason) {
        return LS_OK;
    }
    const ls_store *s = &spec->stores[0];
    int32_t side[2] = {p->s[0].value, p->s[1].value};
    *out_matrices = (ls_emit_matrices){.from = (ls_dtype)spec->values[side[0]].dtype,
                                       .to = (ls_dtype)p->v->dtype,
                                       .m = p->s[0].bound,
                                       .n = p->s[1].bound,
                                       .k = p->f.bound,
                                       .batch = ls_lower_bound(&l, p->batch, p->n_batch),
                                       .arg = {spec->values[side[0]].arg, spec->values[side[1]].arg, s->arg}};
    *out_reason = !ls_dtype_is_float(out_matrices->from) ? "its operands are integers" : least(out_matrices) < 1                 ? "an extent of it is 0"
                                                                           : NULL;
    const int32_t ix[3] = {spec->values[side[0]].ix, spec->values[side[1]].ix, s->ix};
    if (!*out_reason && !find_strides(p, ix, out_matrices)) {
        *out_reason = "its operands do not lie in memory as matrices do (conv=im2col lays out a convolution's)";
    }
    return LS_OK;
}
