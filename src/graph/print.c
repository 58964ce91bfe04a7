/* Printing graphs: a line a node, operands before users, numbered by position; loops' bodies follow,
 * indented. */
#include "graph/build.h"
#include <inttypes.h>
#include <lockstep/device.h>
#include <string.h>

typedef struct printer {
    ls_text *out;
    ls_arena arena;
} printer;

static void print_list(ls_text *out, const char *name, const int64_t *values, int count) {
    ls_text_printf(out, " %s=", name);
    for (int i = 0; i < count; i++) {
        ls_text_printf(out, "%s%" PRId64, i ? "," : "", values[i]);
    }
}

static void print_axes(ls_text *out, const char *name, const int *axes, int count) {
    int64_t wide[LS_MAX_RANK];
    for (int i = 0; i < count; i++) {
        wide[i] = axes[i];
    }
    print_list(out, name, wide, count);
}

static void print_const(ls_text *out, const ls_tensor *x) {
    ls_text_add(out, " ");
    if (ls_dtype_is_float(x->dtype)) {
        ls_text_double(out, ls_value_to_f64(x->dtype, x->attr.value));
    } else if (ls_dtype_is_signed(x->dtype)) {
        int unused = 64 - 8 * (int)ls_dtype_size(x->dtype);
        ls_text_printf(out, "%" PRId64, (int64_t)(x->attr.value << unused) >> unused);
    } else {
        ls_text_printf(out, "%" PRIu64, x->attr.value);
    }
}

static void print_loop_attr(ls_text *out, const ls_tensor *x) {
    ls_shape trip = {.rank = 1, .dim = {x->attr.loop.trip}};
    ls_text_printf(out, " trip=%s", LS_SHAPE_TEXT_OF(&trip));
}

static void print_movement(ls_text *out, const ls_tensor *x) {
    int rank = x->n_src ? x->src[0]->shape.rank : 0;
    const ls_attr *a = &x->attr;
    if (x->op == LS_OP_PERMUTE) {
        print_axes(out, "axes", a->axes.axes, a->axes.count);
    } else if (x->op == LS_OP_PAD) {
        print_list(out, "low", a->pad.low, rank);
        print_list(out, "high", a->pad.high, rank);
        print_list(out, "interior", a->pad.interior, rank);
        ls_text_add(out, a->pad.absent ? " absent" : " value=");
        if (!a->pad.absent) {
            ls_text_double(out, ls_value_to_f64(x->dtype, a->pad.value));
        }
    } else if (x->op == LS_OP_SLICE) {
        print_list(out, "start", a->slice.start, rank);
        print_list(out, "step", a->slice.step, rank);
    } else if (x->op == LS_OP_WINDOW) {
        print_axes(out, "axes", a->window.axes, a->window.count);
        print_list(out, "size", a->window.size, a->window.count);
        print_list(out, "stride", a->window.stride, a->window.count);
        print_list(out, "dilation", a->window.dilation, a->window.count);
    } else if (x->op == LS_OP_CONCAT) {
        ls_text_printf(out, " axis=%d", a->axis.axis);
    }
}

static void print_reduce(ls_text *out, const ls_tensor *x) {
    print_axes(out, "axes", x->attr.axes.axes, x->attr.axes.count);
}

static void print_axis(ls_text *out, const ls_tensor *x) {
    static const char *const scans[] = {"sum", "prod", "min", "max"};
    static const char *const scatters[] = {"set", "add", "mul", "min", "max"};
    const ls_attr_axis *a = &x->attr.axis;
    ls_text_printf(out, " axis=%d", a->axis);
    if (x->op == LS_OP_SCAN) {
        ls_text_printf(out, " %s%s%s", scans[a->kind], a->exclusive ? " exclusive" : "",
                       a->reverse ? " reverse" : "");
    } else if (x->op == LS_OP_SCATTER) {
        ls_text_printf(out, " %s", scatters[a->kind]);
    } else if (x->op == LS_OP_ARGSORT && a->kind) {
        ls_text_add(out, " descending");
    }
}

static void print_contract(ls_text *out, const ls_tensor *x) {
    const ls_contract_spec *c = &x->attr.contract;
    if (c->n_batch) {
        print_axes(out, "batch", c->batch_a, c->n_batch);
        ls_text_add(out, ":");
        print_axes(out, "", c->batch_b, c->n_batch);
    }
    print_axes(out, "contract", c->contract_a, c->n_contract);
    print_axes(out, "with", c->contract_b, c->n_contract);
}

static void print_leaf(ls_text *out, const ls_tensor *x) {
    if (x->op == LS_OP_CONST) {
        print_const(out, x);
    } else if (x->op == LS_OP_IOTA) {
        print_axis(out, x);
    } else if (x->op == LS_OP_DIM) {
        ls_shape dim = {.rank = 1, .dim = {x->attr.dim}};
        ls_text_printf(out, " %s", LS_SHAPE_TEXT_OF(&dim));
    } else if (x->label) {
        ls_text_printf(out, " \"%s\"", x->label);
    }
}

static void print_loop(ls_text *out, const ls_tensor *x) {
    if (x->op == LS_OP_LOOP) {
        print_loop_attr(out, x);
    } else {
        ls_text_printf(out, " number=%d", x->attr.loop.result);
    }
}

static void print_copy(ls_text *out, const ls_tensor *x) {
    ls_text_printf(out, " to=%s", ls_device_id(x->attr.device));
}

static void (*const print_attr[])(ls_text *, const ls_tensor *) = {
    [LS_CLASS_LEAF] = print_leaf,     [LS_CLASS_REDUCE] = print_reduce,     [LS_CLASS_SCAN] = print_axis,
    [LS_CLASS_MOVE] = print_movement, [LS_CLASS_CONTRACT] = print_contract, [LS_CLASS_GATHER] = print_axis,
    [LS_CLASS_SCATTER] = print_axis,  [LS_CLASS_SORT] = print_axis,         [LS_CLASS_COPY] = print_copy,
    [LS_CLASS_LOOP] = print_loop,
};

static void print_graph(printer *p, ls_tensor *const *roots, int n_roots, int indent);

static void print_body(printer *p, const ls_body *body, int number, int indent) {
    int n = body->n_carry + body->n_ys;
    ls_text_printf(p->out, "%*sbody of %%%d: %d carried, %d xs, %d captures -> %d carried, %d ys\n", indent,
                   "", number, body->n_carry, body->n_xs, body->n_captures, body->n_carry, body->n_ys);
    print_graph(p, body->results, n, indent);
}

static const char *math_note(const ls_tensor *x) {
    return x->math == LS_FAST ? " fast" : x->math == LS_REDUCED ? " reduced" : "";
}

static void print_graph(printer *p, ls_tensor *const *roots, int n_roots, int indent) {
    int count;
    ls_tensor **order = ls_graph_order(&p->arena, roots, n_roots, &count);
    int *number = LS_ARENA_ARRAY(&p->arena, int, count + 1);
    if (!order || !number) {
        p->out->failed = true;
        return;
    }
    for (int i = 0; i < count; i++) {
        number[i] = i;
        order[i]->mark = &number[i];
    }
    for (int i = 0; i < count; i++) {
        const ls_tensor *x = order[i];
        ls_text_printf(p->out, "%*s%%%d = %s %s", indent, "", i, ls_ops[x->op].name, LS_TEXT(x));
        for (int j = 0; j < x->n_src; j++) {
            ls_text_printf(p->out, " %%%d", *(int *)x->src[j]->mark);
        }
        if (print_attr[ls_ops[x->op].op_class]) {
            print_attr[ls_ops[x->op].op_class](p->out, x);
        }
        ls_text_printf(p->out, "%s\n", math_note(x));
    }
    ls_text_printf(p->out, "%*s->", indent, "");
    for (int i = 0; i < n_roots; i++) {
        ls_text_printf(p->out, " %%%d", roots[i] ? *(int *)roots[i]->mark : -1);
    }
    ls_text_add(p->out, "\n");
    for (int i = 0; i < count; i++) {
        order[i]->mark = NULL;
    }
    for (int i = 0; i < count;
         i++) { /* after the marks are gone: a body may share constants with what is around it */
        if (order[i]->op == LS_OP_LOOP) {
            print_body(p, order[i]->attr.loop.body, i, indent + 2);
        }
    }
}

void ls_graph_print(ls_text *out, ls_tensor *const *roots, int n_roots) {
    printer p = {.out = out};
    ls_arena_init(&p.arena, out->heap);
    print_graph(&p, roots, n_roots, 0);
    ls_arena_free(&p.arena);
}
