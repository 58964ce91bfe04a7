/* Specs as text: deterministic, one line a value. Axes are i, j, k, ...; arguments a0, a1, ...; values v0,
 * v1, ... with the axes that they vary over. */
#include "spec/spec.h"
#include <inttypes.h>
#include <stdio.h>

typedef char axis_text[16];

static const char *axis_name(int axis, axis_text buf) {
    static const char letters[] = "ijklmnopqrstuvw";
    if (axis < (int)sizeof letters - 1) {
        snprintf(buf, sizeof(axis_text), "%c", letters[axis]);
    } else {
        snprintf(buf, sizeof(axis_text), "x%d", axis);
    }
    return buf;
}

static void print_dim(ls_text *out, ls_dim d) {
    if (d.symbol && d.scale != 1) {
        ls_text_printf(out, "%" PRId64 "*", d.scale);
    }
    if (d.symbol) {
        ls_text_add(out, d.symbol->name);
    }
    if (!d.symbol || d.offset) {
        ls_text_printf(out, d.symbol && d.offset > 0 ? "+%" PRId64 : "%" PRId64, d.offset);
    }
}

/* `tight`: in brackets when it is a sum. */
static void print_ix(ls_text *out, const ls_spec *spec, int32_t ix, bool tight) {
    const ls_ix *x = &spec->ix[ix];
    axis_text name;
    if (x->op == LS_IX_CONST) {
        ls_text_printf(out, "%" PRId64, x->k);
    } else if (x->op == LS_IX_AXIS) {
        ls_text_add(out, axis_name(x->a, name));
    } else if (x->op == LS_IX_DIM) {
        print_dim(out, spec->dims[x->a]);
    } else if (x->op == LS_IX_VALUE) {
        ls_text_printf(out, "v%d", x->a);
    } else if (x->op == LS_IX_ADD) {
        ls_text_add(out, tight ? "(" : "");
        print_ix(out, spec, x->a, false);
        const ls_ix *y = &spec->ix[x->b];
        bool negated = y->op == LS_IX_MUL && spec->ix[y->b].op == LS_IX_CONST && spec->ix[y->b].k == -1;
        if (y->op == LS_IX_CONST && y->k < 0) {
            ls_text_printf(out, " - %" PRIu64, -(uint64_t)y->k);
        } else if (negated) {
            ls_text_add(out, " - ");
            print_ix(out, spec, y->a, true);
        } else {
            ls_text_add(out, " + ");
            print_ix(out, spec, x->b, false);
        }
        ls_text_add(out, tight ? ")" : "");
    } else if (x->op == LS_IX_MUL) {
        print_ix(out, spec, x->b, true);
        ls_text_add(out, "*");
        print_ix(out, spec, x->a, true);
    } else {
        ls_text_add(out, "(");
        print_ix(out, spec, x->a, true);
        ls_text_add(out, x->op == LS_IX_DIV ? " div " : " mod ");
        print_ix(out, spec, x->b, true);
        ls_text_add(out, ")");
    }
}

static void print_preds(ls_text *out, const ls_spec *spec, int32_t first, int32_t n) {
    for (int32_t i = first; i < first + n; i++) {
        const ls_pred *p = &spec->preds[i];
        ls_text_add(out, i > first ? ", " : " if ");
        if (p->limit != LS_SPEC_NONE) {
            ls_text_add(out, "0 <= ");
            print_ix(out, spec, p->ix, false);
            ls_text_add(out, " < ");
            print_ix(out, spec, p->limit, false);
        } else {
            print_ix(out, spec, p->ix, true);
            ls_text_printf(out, " mod %" PRId64 " = 0", p->multiple);
        }
    }
}

static void print_check(ls_text *out, const ls_spec *spec, int32_t check, int32_t limit) {
    if (check != LS_SPEC_NONE) {
        ls_text_add(out, " check 0 <= ");
        print_ix(out, spec, check, false);
        ls_text_add(out, " < ");
        print_ix(out, spec, limit, false);
    }
}

static void print_bound(ls_text *out, const ls_value *v) {
    axis_text name;
    for (int i = 0; i < v->n_bound; i++) {
        ls_text_printf(out, "%s%s", i ? "," : "{", axis_name(v->bound[i], name));
    }
    ls_text_add(out, "}");
}

static void print_operands(ls_text *out, const ls_value *v) {
    const int32_t operands[] = {v->a, v->b, v->c};
    for (int i = 0; i < 3 && operands[i] != LS_SPEC_NONE; i++) {
        ls_text_printf(out, "%sv%d", i ? ", " : "(", operands[i]);
    }
    ls_text_add(out, ")");
}

static void print_acc(ls_text *out, const ls_value *v) {
    if (v->acc != v->dtype) {
        ls_text_printf(out, " in %s", ls_dtype_name((ls_dtype)v->acc));
    }
}

static void print_const(ls_text *out, const ls_value *v) {
    ls_dtype dtype = (ls_dtype)v->dtype;
    if (dtype == LS_U64) {
        ls_text_printf(out, "%" PRIu64, v->bits);
    } else if (dtype == LS_I64) {
        ls_text_printf(out, "%" PRId64, (int64_t)v->bits);
    } else if (ls_dtype_is_float(dtype)) {
        ls_text_double(out, ls_value_to_f64(dtype, v->bits));
    } else {
        ls_text_printf(out, "%" PRId64, (int64_t)ls_value_to_f64(dtype, v->bits));
    }
}

static void print_value(ls_text *out, const ls_spec *spec, const ls_value *v) {
    static const char *const scans[] = {"sum", "prod", "min", "max"};
    if (v->op == LS_V_CONST) {
        print_const(out, v);
    } else if (v->op == LS_V_LOAD) {
        ls_text_printf(out, "LOAD a%d[", v->arg);
        print_ix(out, spec, v->ix, false);
        ls_text_add(out, "]");
        print_preds(out, spec, v->first_pred, v->n_preds);
        print_check(out, spec, v->check, v->limit);
    } else if (v->op == LS_V_GUARD) {
        ls_text_printf(out, "v%d", v->a);
        print_preds(out, spec, v->first_pred, v->n_preds);
        if (v->b == LS_SPEC_NONE) {
            ls_text_add(out, " else absent");
        } else {
            ls_text_printf(out, " else v%d", v->b);
        }
    } else if (v->op == LS_V_INDEX) {
        ls_text_add(out, "INDEX ");
        print_ix(out, spec, v->ix, false);
    } else if (v->op == LS_V_MAP) {
        ls_text_add(out, ls_ops[v->map].name);
        print_operands(out, v);
    } else if (v->op == LS_V_RANDOM) {
        ls_text_printf(out, "RANDOM(v%d, v%d) at ", v->a, v->b);
        print_ix(out, spec, v->ix, false);
    } else if (v->op == LS_V_REDUCE) {
        ls_text_add(out, ls_ops[v->map].id);
        print_bound(out, v);
        print_operands(out, v);
        print_acc(out, v);
    } else if (v->op == LS_V_CONTRACT) {
        ls_text_add(out, "SUM");
        print_bound(out, v);
        ls_text_printf(out, "(v%d*v%d)", v->a, v->b);
        print_acc(out, v);
    } else if (v->op == LS_V_SCAN) {
        ls_text_printf(out, "SCAN %s%s%s", scans[v->map], v->exclusive ? " exclusive" : "",
                       v->reverse ? " reverse" : "");
        print_bound(out, v);
        print_operands(out, v);
        print_acc(out, v);
    } else {
        ls_text_add(out, v->map ? "SORT descending" : "SORT");
        print_bound(out, v);
        print_operands(out, v);
    }
}

static void print_axes(ls_text *out, uint64_t axes) {
    axis_text name;
    const char *sep = "";
    ls_text_add(out, "{");
    for (int i = 0; i < LS_SPEC_MAX_AXES; i++) {
        if (axes >> i & 1) {
            ls_text_printf(out, "%s%s", sep, axis_name(i, name));
            sep = ",";
        }
    }
    ls_text_add(out, "}");
}

void ls_spec_print(ls_text *out, const ls_spec *spec) {
    static const char *const kinds[] = {"pointwise", "reduce",  "contract", "scan",
                                        "sort",      "scatter", "loop",     "copy"};
    static const char *const maths[] = {"locked", "fast", "reduced"};
    static const char *const combines[] = {"=", "+=", "*=", "min=", "max="};
    axis_text name;
    ls_text_printf(out, "%s: %s %s\n  axes", spec->name, maths[spec->math], kinds[spec->kind]);
    for (int i = 0; i < spec->n_axes; i++) {
        ls_text_printf(out, " %s:", axis_name(i, name));
        print_dim(out, spec->extents_of_axes[i]);
    }
    ls_text_add(out, "\n  args");
    for (int i = 0; i < spec->n_args; i++) {
        const ls_spec_arg *a = &spec->args[i];
        ls_text_printf(out, "%s a%d:%s[%" PRId64 "]", a->written ? " ->" : "", i, ls_dtype_name(a->dtype),
                       a->numel);
    }
    ls_text_add(out, "\n");
    for (int i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        ls_text_printf(out, "  v%d", i);
        print_axes(out, v->axes);
        ls_text_printf(out, " %s = ", ls_dtype_name((ls_dtype)v->dtype));
        print_value(out, spec, v);
        ls_text_add(out, "\n");
    }
    for (int i = 0; i < spec->n_stores; i++) {
        const ls_store *s = &spec->stores[i];
        ls_text_printf(out, "  a%d[", s->arg);
        print_ix(out, spec, s->ix, false);
        ls_text_printf(out, "] %s v%d over (", combines[s->combine], s->value);
        for (int j = 0; j < s->n_axes; j++) {
            ls_text_printf(out, "%s%s", j ? "," : "", axis_name(s->axes[j], name));
        }
        ls_text_add(out, ")");
        print_preds(out, spec, s->first_pred, s->n_preds);
        print_check(out, spec, s->check, s->limit);
        ls_text_add(out, "\n");
    }
}
