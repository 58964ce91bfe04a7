/* Sites: at which axes of a group, and how often, it evaluates a node. They follow users to operands
 * through every operation, so that the planner can tell what one kernel would compute more than once. */
#include "plan/build.h"
#include "plan/reshape.h"
#include <string.h>

double ls_plan_numel(const ls_shape *shape) {
    double n = 1;
    for (int i = 0; i < shape->rank; i++) {
        n *= (double)ls_dim_bound(shape->dim[i]);
    }
    return n < 1 ? 1 : n;
}

double ls_site_evals(const ls_draft *draft, const int32_t *axis, int rank, double otherwise) {
    int32_t used = 0;
    for (int i = 0; i < rank; i++) {
        if (axis[i] <= LS_AXIS_OTHER) {
            return otherwise;
        }
        used |= axis[i];
    }
    double evals = 1;
    bool inner = false;
    for (int i = 0; i < draft->n_axes; i++) {
        if (used >> i & 1) {
            if (inner) {
                return otherwise; /* varies along an inner axis alone: computed again at each outer point */
            }
            evals *= (double)ls_dim_bound(draft->extent[i]);
        } else {
            inner |= !ls_dim_is_one(draft->extent[i]);
        }
    }
    return evals < otherwise ? evals : otherwise;
}

bool ls_site_add(ls_planner *p, ls_plan_node *n, const ls_site *site) {
    ls_site new_site = *site;
    int rank = n->node->shape.rank;
    for (int i = 0; i < rank; i++) {
        new_site.axis[i] = ls_dim_is_one(n->node->shape.dim[i]) ? LS_AXIS_NONE : site->axis[i];
    }
    if (n->leaf) {
        return true;
    }
    ls_site **end = &n->sites;
    for (; *end; end = &(*end)->next) {
        ls_site *old = *end;
        if (old->draft == site->draft && old->contract == site->contract &&
            memcmp(old->axis, new_site.axis, sizeof(int32_t) * (size_t)rank) == 0) {
            old->evals = old->evals > site->evals ? old->evals : site->evals;
            old->depth = old->depth > site->depth ? old->depth : site->depth;
            old->bijective &= site->bijective;
            old->guarded |= site->guarded;
            old->overlap |= site->overlap;
            old->windowed |= site->windowed;
            old->joined |= site->joined;
            old->once |= site->once;
            return true;
        }
    }
    new_site.next = NULL;
    *end = ls_arena_copy(p->arena, &new_site, sizeof new_site);
    return *end != NULL;
}

static int32_t other_axis(ls_draft *draft) {
    return LS_AXIS_OTHER - draft->next_other++;
}

static bool expand_map(ls_planner *p, ls_plan_node *n, const ls_site *site) {
    ls_site s = *site;
    s.depth += site->evals > 1.25 * ls_plan_numel(&n->node->shape);
    for (int i = 0; i < n->node->n_src; i++) {
        if (!ls_site_add(p, ls_plan_node_of(n->node->src[i]), &s)) {
            return false;
        }
    }
    return true;
}

/* Axes of the operand that the operation leaves alone keep theirs; the others become new ones. */
static void move_axes(ls_plan_node *n, int which, const ls_site *site, ls_site *s) {
    const ls_tensor *x = n->node;
    const ls_shape *from = &x->src[which]->shape;
    for (int i = 0; i < from->rank; i++) {
        bool same = true;
        if (x->op == LS_OP_PERMUTE) {
            s->axis[x->attr.axes.axes[i]] = site->axis[i];
            continue;
        }
        if (x->op == LS_OP_PAD) {
            same = !x->attr.pad.low[i] && !x->attr.pad.high[i] && !x->attr.pad.interior[i];
        } else if (x->op == LS_OP_SLICE) {
            same = x->attr.slice.start[i] == 0 && x->attr.slice.step[i] == 1 &&
                   ls_dim_equal(x->shape.dim[i], from->dim[i]);
        } else if (x->op == LS_OP_CONCAT) {
            same = i != x->attr.axis.axis;
        } else if (x->op == LS_OP_WINDOW) {
            for (int j = 0; j < x->attr.window.count; j++) {
                same &= x->attr.window.axes[j] != i;
            }
        }
        int shift = x->op == LS_OP_EXPAND ? x->shape.rank - from->rank : 0;
        s->axis[i] = ls_dim_is_one(from->dim[i]) ? LS_AXIS_NONE
                     : same                      ? site->axis[i + shift]
                                                 : other_axis(site->draft);
    }
}

/* The axes that a block of the result's are as one axis of the operand, which is one of the root's; or LS_AXIS_NONE. */
static int32_t joined_axes(const ls_reshape_block *b, const ls_site *site) {
    const int32_t first = site->axis[b->to[0]];
    int32_t axes = first;
    for (int j = 1; j < b->n_to; j++) {
        if (first < 0 || site->axis[b->to[j]] != first << j) {
            return LS_AXIS_NONE;
        }
        axes |= first << j;
    }
    for (int i = 0; i < site->draft->root->node->shape.rank; i++) {
        if (site->draft->axis[i] == axes) {
            return axes;
        }
    }
    return LS_AXIS_NONE;
}

/* Whether the axes that one of the result's stands for are those of the operand, one by one. */
static bool splits_alike(const ls_reshape_block *b, const ls_site *site, const ls_shape *from) {
    const int32_t axes = site->axis[b->to[0]];
    bool alike = b->n_to == 1 && axes > 0 && __builtin_popcount((unsigned)axes) == b->n_from;
    for (int j = 0; j < b->n_from && alike; j++) {
        alike = ls_dim_equal(site->draft->extent[__builtin_ctz((unsigned)axes) + j], from->dim[b->from[j]]);
    }
    return alike;
}

static void reshape_axes(ls_plan_node *n, const ls_site *site, ls_site *s) {
    const ls_shape *from = &n->node->src[0]->shape;
    ls_reshape_map map;
    ls_reshape_match(&n->node->shape, from, &map);
    for (int i = 0; i < LS_MAX_RANK; i++) {
        s->axis[i] = LS_AXIS_NONE;
    }
    for (int i = 0; i < map.n_blocks; i++) {
        const ls_reshape_block *b = &map.block[i];
        const int32_t axes = site->axis[b->to[0]], one = b->n_from > 1 ? LS_AXIS_NONE : b->n_to == 1 ? axes : joined_axes(b, site);
        const bool apart = b->n_from > 1 && splits_alike(b, site, from);
        for (int j = 0; j < b->n_from; j++) {
            s->axis[b->from[j]] = one != LS_AXIS_NONE ? one : apart ? (axes & -axes) << j : other_axis(site->draft);
        }
    }
}

static bool expand_move(ls_planner *p, ls_plan_node *n, const ls_site *site) {
    const ls_tensor *x = n->node;
    for (int i = 0; i < x->n_src; i++) {
        ls_site s = *site;
        double grows = ls_plan_numel(&x->shape) / ls_plan_numel(&x->src[i]->shape);
        s.bijective &= x->op == LS_OP_RESHAPE || x->op == LS_OP_PERMUTE || x->op == LS_OP_DETACH;
        s.guarded |= x->op == LS_OP_PAD || x->op == LS_OP_CONCAT || (x->op == LS_OP_WINDOW && grows > 1);
        s.overlap |= x->op == LS_OP_WINDOW && grows > 1;
        s.windowed |= x->op == LS_OP_WINDOW;
        s.joined |= x->op == LS_OP_CONCAT;
        if (x->op == LS_OP_RESHAPE) {
            reshape_axes(n, site, &s);
        } else {
            move_axes(n, i, site, &s);
        }
        if (x->op == LS_OP_EXPAND && !site->contract) {
            s.evals = ls_site_evals(site->draft, s.axis, x->src[i]->shape.rank, site->evals);
        }
        if (!ls_site_add(p, ls_plan_node_of(x->src[i]), &s)) {
            return false;
        }
    }
    return true;
}

static bool expand_reduce(ls_planner *p, ls_plan_node *n, const ls_site *site) {
    const ls_tensor *x = n->node;
    const ls_shape *from = &x->src[0]->shape;
    const ls_draft *d = site->draft;
    ls_site s = *site;
    int kept = 0, inner = d->first_inner;
    s.bijective = false;
    for (int i = 0; i < from->rank; i++) {
        bool reduced = false;
        for (int j = 0; j < x->attr.axes.count; j++) {
            reduced |= x->attr.axes.axes[j] == i;
        }
        if (!reduced) {
            s.axis[i] = site->axis[kept++];
        } else if (ls_dim_is_one(from->dim[i])) {
            s.axis[i] = LS_AXIS_NONE;
        } else { /* the draft's inner axes of extent 1 pair with none */
            while (ls_dim_is_one(d->extent[inner])) {
                inner++;
            }
            s.axis[i] = 1 << inner++;
        }
    }
    s.evals = ls_plan_numel(from);
    return ls_site_add(p, ls_plan_node_of(x->src[0]), &s);
}

static bool expand_contract(ls_planner *p, ls_plan_node *n, const ls_site *site) {
    for (int i = 0; i < 2; i++) {
        ls_site s = *site;
        s.bijective = false;
        s.contract = true;
        s.evals = ls_plan_numel(&n->node->src[i]->shape);
        for (int j = 0; j < LS_MAX_RANK; j++) {
            s.axis[j] = other_axis(site->draft);
        }
        if (!ls_site_add(p, ls_plan_node_of(n->node->src[i]), &s)) {
            return false;
        }
    }
    return true;
}

/* Operands with a space of their own, each element of it evaluated once. */
static bool expand_apart(ls_planner *p, ls_plan_node *n, const ls_site *site, int first, bool once) {
    for (int i = first; i < n->node->n_src; i++) {
        ls_site s = *site;
        s.bijective = false;
        s.once |= once || (n->node->op == LS_OP_SCATTER && i == 1);
        s.evals = ls_plan_numel(&n->node->src[i]->shape);
        for (int j = 0; j < LS_MAX_RANK; j++) {
            s.axis[j] = other_axis(site->draft);
        }
        if (!ls_site_add(p, ls_plan_node_of(n->node->src[i]), &s)) {
            return false;
        }
    }
    return true;
}

static bool expand_gather(ls_planner *p, ls_plan_node *n, const ls_site *site) {
    const ls_shape *index = &n->node->src[1]->shape;
    ls_plan_node *base = ls_plan_gather_base(n->node->src[0]);
    base->buffer |= !base->leaf;
    ls_site s = *site;
    s.bijective = false;
    s.guarded = true; /* an index is a map of what is in memory, never a reduction on the way */
    for (int i = 0; i < index->rank; i++) {
        s.axis[i] = site->axis[n->node->attr.axis.axis + i];
    }
    s.evals = site->contract ? site->evals : ls_site_evals(site->draft, s.axis, index->rank, site->evals);
    return ls_site_add(p, ls_plan_node_of(n->node->src[1]), &s);
}

bool ls_site_expand(ls_planner *p, ls_plan_node *n, const ls_site *site) {
    const ls_tensor *x = n->node;
    ls_op_class class = ls_class_of(x);
    if (class == LS_CLASS_MAP) {
        return expand_map(p, n, site);
    }
    if (class == LS_CLASS_MOVE) {
        return expand_move(p, n, site);
    }
    if (class == LS_CLASS_REDUCE) {
        return expand_reduce(p, n, site);
    }
    if (class == LS_CLASS_CONTRACT) {
        return expand_contract(p, n, site);
    }
    if (class == LS_CLASS_GATHER) {
        return expand_gather(p, n, site);
    }
    if (class == LS_CLASS_SCAN) {
        ls_site s = *site;
        s.bijective = false;
        return ls_site_add(p, ls_plan_node_of(x->src[0]), &s);
    }
    if (class == LS_CLASS_COPY || class == LS_CLASS_LOOP) {
        for (int i = 0; i < x->n_src; i++) {
            ls_plan_node *src = ls_plan_node_of(x->src[i]);
            src->buffer |= !src->leaf;
        }
        return true;
    }
    return expand_apart(p, n, site, 0, class != LS_CLASS_SCATTER);
}
