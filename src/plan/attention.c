/* Attention in a graph: softmax(scores) . V, whose scores come from one contraction, as ls_attention composes it, with or
 * without masks.
 *
 * All from the scores' contraction to the product is inner: computed on the way by one kernel. What it reads stays outside,
 * in memory or an index away: queries, keys, values, masks. Invariant: nothing but the product uses what is inner. */
#include "plan/build.h"
#include "plan/reshape.h"

enum { MOST_INNER = 48, MOST_TESTS = LS_ATTENTION_TESTS, MOST_MAPS = 3 };

typedef struct found {
    const ls_planner *p;
    ls_plan_node *inner[MOST_INNER];
    int uses[MOST_INNER]; /* by what is inner, and the product */
    int n_inner, n_products;
    const ls_tensor *test[MOST_TESTS]; /* which rows are 0 */
    int n_tests;
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

/* The other arm of where(.., 0, y) or where(.., y, 0), when what decides is the same for all of a row, or whether y is NaN (which all of
 * a row's probabilities are or none); NULL: x is no such thing. */
static const ls_tensor *blanked(found *f, const ls_tensor *x) {
    const ls_tensor *test = x->src[0];
    bool zero_first = is_const(x->src[1], 0);
    if (!zero_first && !is_const(x->src[2], 0)) {
        return NULL;
    }
    const ls_tensor *y = x->src[zero_first ? 2 : 1];
    bool of_row = ls_dim_is_one(test->shape.dim[test->shape.rank - 1]) ||
                  (test->op == LS_OP_EXPAND && ls_dim_is_one(test->src[0]->shape.dim[test->shape.rank - 1]));
    if (zero_first && test->op == LS_OP_ISNAN && test->src[0] == y) {
        return y;
    }
    if (!of_row || f->n_tests == MOST_TESTS) {
        return NULL;
    }
    f->test[f->n_tests++] = test;
    return y;
}

static bool keeps_last(const ls_tensor *x) {
    int last = x->shape.rank - 1, below = x->src[0]->shape.rank - 1;
    return x->op == LS_OP_RESHAPE ? last >= 0 && below >= 0 && ls_dim_equal(x->shape.dim[last], x->src[0]->shape.dim[below])
                                  : x->op == LS_OP_PERMUTE && x->attr.axes.axes[last] == last;
}

/* The softmax under what may stand between it and the product: casts, heads split or joined, rows of which nothing is seen made 0. */
static const ls_tensor *probabilities_of(found *f, const ls_tensor *x) {
    while (x && (x->op == LS_OP_CAST || x->op == LS_OP_RESHAPE || x->op == LS_OP_PERMUTE || x->op == LS_OP_WHERE)) {
        x = x->op == LS_OP_WHERE ? blanked(f, x) : x->op == LS_OP_CAST || keeps_last(x) ? x->src[0] : NULL;
    }
    return x;
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
    const ls_tensor *softmax = probabilities_of(&f, probabilities), *scores = softmax ? softmax_of(softmax) : NULL;
    if (!scores || !gather_inner(&f, probabilities) || f.full || f.n_products != 1 ||
        !is_inner(&f, ls_plan_node_of(scores))) {
        return false;
    }
    for (int i = 0; i < f.n_tests; i++) {
        if (is_inner(&f, ls_plan_node_of(f.test[i]))) {
            return false;
        }
    }
    *out_reason = why_not(&f, x);
    return true;
}

/* What an attention reads: computed on the way where that is a cheap map of this alone (a scale, a cast), else put into memory. */
static void read_in(const found *f, const ls_tensor *x, struct ls_draft *draft, int maps) {
    ls_plan_node *n = outside(x);
    const ls_tensor *y = n->node;
    if (n->leaf || n->light || is_inner(f, ls_plan_node_of(x))) {
        return;
    }
    if (maps == 0 || ls_class_of(y) != LS_CLASS_MAP || ls_op_is_expensive(y->op) || n->users != 1 || n->wanted || n->buffer || n->draft ||
        y->math != draft->root->node->math) {
        n->buffer = true;
        return;
    }
    n->draft = draft;
    for (int i = 0; i < y->n_src; i++) {
        read_in(f, y->src[i], draft, maps - 1);
    }
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
            read_in(&f, x->src[j], draft, MOST_MAPS);
        }
    }
}
