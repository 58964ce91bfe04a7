/* Attention in a graph: softmax(scores) . V, whose scores come from one contraction, as ls_attention composes it, with or
 * without masks.
 *
 * All from the scores' contraction to the product is inner: computed on the way by one kernel. What it reads stays outside,
 * in memory or an index away: queries, keys, values, masks. Invariant: nothing but the product uses what is inner. */
#include "plan/build.h"

enum { MOST_INNER = 48 };

typedef struct found {
    const ls_planner *p;
    ls_plan_node *inner[MOST_INNER];
    int uses[MOST_INNER]; /* by what is inner, and the product */
    int n_inner, n_products;
    bool full;
} found;

/* Below what broadcasts along an axis. */
static const ls_tensor *strip(const ls_tensor *x) {
    while (x->op == LS_OP_RESHAPE || x->op == LS_OP_EXPAND || x->op == LS_OP_DETACH) {
        x = x->src[0];
    }
    return x;
}

static bool is_const(const ls_tensor *x, double value) {
    x = strip(x);
    return x->op == LS_OP_CONST && x->attr.value == ls_value_from_f64(x->dtype, value);
}

/* where(y == special, instead, y), or y itself. */
static const ls_tensor *unless(const ls_tensor *x, double special, double instead) {
    const ls_tensor *test = x->op == LS_OP_WHERE ? x->src[0] : NULL;
    bool guards = test && test->op == LS_OP_EQ && is_const(test->src[1], special) && is_const(x->src[1], instead) &&
                  strip(test->src[0]) == strip(x->src[2]);
    return strip(guards ? x->src[2] : x);
}

static bool over_last(const ls_tensor *reduce, ls_op op, const ls_tensor *of) {
    return reduce->op == op && reduce->src[0] == of && reduce->attr.axes.count == 1 &&
           reduce->attr.axes.axes[0] == of->shape.rank - 1;
}

/* The scores under a softmax over the last axis; NULL: it is none. */
static const ls_tensor *softmax_of(const ls_tensor *x) {
    const ls_tensor *e = x->op == LS_OP_DIV ? x->src[0] : NULL;
    if (!e || e->op != LS_OP_EXP || e->src[0]->op != LS_OP_SUB || e->dtype != LS_F32) {
        return NULL;
    }
    const ls_tensor *scores = e->src[0]->src[0];
    bool sums = over_last(unless(strip(x->src[1]), 0, 1), LS_OP_SUM, e);
    bool below = over_last(unless(strip(e->src[0]->src[1]), -__builtin_inf(), 0), LS_OP_AMAX, scores);
    return sums && below ? scores : NULL;
}

/* Whether the scores' contraction lies below, on a way of maps, reductions and movement; notes what is inner. */
static bool gather_inner(found *f, const ls_tensor *x) {
    ls_plan_node *n = ls_plan_node_of(x);
    ls_op_class class = ls_class_of(x);
    bool inner = x->op == LS_OP_CONTRACT;
    for (int i = 0; i < f->n_inner; i++) {
        if (f->inner[i] == n) {
            f->uses[i]++;
            return true;
        }
    }
    if (n->leaf || n->light || n->absent || f->full || f->n_inner == MOST_INNER) {
        f->full = f->full || f->n_inner == MOST_INNER;
        return false;
    }
    bool passes = class == LS_CLASS_MAP || class == LS_CLASS_REDUCE || class == LS_CLASS_MOVE;
    f->n_products += inner;
    for (int i = 0; i < x->n_src && passes; i++) {
        bool below = gather_inner(f, x->src[i]);
        inner = inner || below;
    }
    if (inner && f->n_inner < MOST_INNER) {
        f->uses[f->n_inner] = 1;
        f->inner[f->n_inner++] = n;
    }
    return inner;
}

/* Movement down to what must be in memory. */
static ls_plan_node *outside(const ls_tensor *x) {
    ls_plan_node *n = ls_plan_node_of(x);
    while (!n->leaf && ls_class_of(n->node) == LS_CLASS_MOVE && n->node->n_src == 1) {
        n = ls_plan_node_of(n->node->src[0]);
    }
    return n;
}

static const char *why_not(const found *f, const ls_tensor *product) {
    if (product->math == LS_LOCKED) {
        return "an online softmax adds in another order than locked arithmetic has";
    }
    for (int i = 0; i < f->n_inner; i++) {
        const ls_plan_node *n = f->inner[i];
        if (n->users != f->uses[i] || n->wanted) {
            return "its probabilities or scores are needed elsewhere, as by a gradient";
        }
        if (n->node->math != product->math || n->draft) {
            return "its steps are of several kinds of arithmetic";
        }
        for (int j = 0; j < n->node->n_src; j++) {
            if (n->node->op == LS_OP_CONTRACT && ls_plan_has_absent(n->node->src[j])) {
                return "it has absent elements";
            }
        }
    }
    return ls_plan_has_absent(product->src[1]) ? "it has absent elements" : NULL;
}

static bool is_inner(const found *f, const ls_plan_node *n) {
    for (int i = 0; i < f->n_inner; i++) {
        if (f->inner[i] == n) {
            return true;
        }
    }
    return false;
}

bool ls_attention_find(const ls_planner *p, const ls_plan_node *n, const char **out_reason) {
    const ls_tensor *x = n->node, *probabilities = x->src[0];
    found f = {.p = p};
    *out_reason = NULL;
    if (x->op != LS_OP_CONTRACT || x->attr.contract.n_contract != 1 ||
        x->attr.contract.contract_a[0] != probabilities->shape.rank - 1) {
        return false;
    }
    const ls_tensor *scores = softmax_of(probabilities->op == LS_OP_CAST ? probabilities->src[0] : probabilities);
    if (!scores || !gather_inner(&f, probabilities) || f.full || f.n_products != 1 ||
        !is_inner(&f, ls_plan_node_of(scores))) {
        return false;
    }
    *out_reason = why_not(&f, x);
    return true;
}

void ls_attention_join(const ls_planner *p, const ls_plan_node *n, struct ls_draft *draft) {
    found f = {.p = p};
    (void)gather_inner(&f, n->node->src[0]);
    for (int i = 0; i < f.n_inner; i++) {
        f.inner[i]->draft = draft;
    }
    for (int i = -1; i < f.n_inner; i++) {
        const ls_tensor *x = i < 0 ? n->node : f.inner[i]->node;
        for (int j = 0; j < x->n_src; j++) {
            ls_plan_node *from = is_inner(&f, ls_plan_node_of(x->src[j])) ? NULL : outside(x->src[j]);
            if (from && !from->leaf && !from->light) {
                from->buffer = true;
            }
        }
    }
}
