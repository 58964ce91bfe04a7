/* The gradients of extremes over windows of two by two that share nothing: each window's goes to one of its elements. Products and sums that read one
 * compute it, and what windows have is in memory then (LS_PLAN_SPARSE). */
#include "plan/build.h"
#include "plan/reshape.h"

/* A tensor in memory, an element for each window, that is repeated for the elements of windows of two by two; else NULL. */
static ls_plan_node *of_windows(const ls_tensor *x) {
    const ls_tensor *one = x->op == LS_OP_EXPAND ? x->src[0] : NULL;
    int inner = x->shape.rank - 2;
    bool fits = one && one->op == LS_OP_RESHAPE && one->shape.rank == x->shape.rank && inner >= 2;
    for (int i = 0; i < x->shape.rank && fits; i++) {
        ls_dim from = one->shape.dim[i], to = x->shape.dim[i];
        fits = i < inner ? ls_dim_equal(from, to) : ls_dim_is_one(from) && ls_dim_is_fixed(to) && to.offset == 2;
    }
    ls_plan_node *n = fits ? ls_plan_node_of(one->src[0]) : NULL;
    return n && ls_class_of(n->node) != LS_CLASS_MOVE && !n->light ? n : NULL;
}

static bool is_position(const ls_tensor *x, int axis) {
    return x->op == LS_OP_IOTA && x->attr.axis.axis == axis;
}

void ls_plan_find_chosen(const ls_plan_node *n) {
    const ls_tensor *x = n->node->op == LS_OP_RESHAPE && n->node->src[0]->op == LS_OP_PERMUTE ? n->node->src[0]->src[0] : NULL;
    const ls_tensor *eq = x && x->op == LS_OP_WHERE ? x->src[0] : NULL, *at = eq && eq->op == LS_OP_EQ ? eq->src[0] : NULL;
    int rank = x ? x->shape.rank : 0;
    double other;
    if (!at || x->math == LS_LOCKED || x->dtype != LS_F32 || at->op != LS_OP_ADD || at->src[0]->op != LS_OP_MUL ||
        !is_position(at->src[0]->src[0], rank - 2) || !is_position(at->src[1], rank - 1) || !ls_is_const(at->src[0]->src[1], &other) || other != 2 ||
        !ls_is_const(x->src[2], &other) || other != 0 || ls_plan_node_of(x)->users != 1 || ls_plan_node_of(eq)->users != 1 || n->node->shape.rank != rank - 2) {
        return;
    }
    ls_plan_node *cells = of_windows(x->src[1]), *places = of_windows(eq->src[1]);
    bool fits = cells && places && n->sites;
    for (const ls_site *s = n->sites; s && fits; s = s->next) {
        fits = (s->contract || s->draft->kind == LS_GROUP_REDUCE) && !s->once && s->draft->root->node->math == x->math &&
               s->draft->n_nodes < MAX_GROUP_NODES;
    }
    if (fits) {
        cells->buffer = places->buffer = true;
        ls_plan_node_of(x)->each = ls_plan_node_of(eq)->each = true;
    }
}
