/* The order of nodes before planning, and of groups after it. Deterministic: depth first, operands left to right. */
#include "plan/build.h"
#include <string.h>

bool ls_plan_has_absent(const ls_tensor *node) {
    while (ls_class_of(node) == LS_CLASS_MOVE) {
        if (node->op == LS_OP_PAD && node->attr.pad.absent) {
            return true;
        }
        for (int i = 1; i < node->n_src; i++) {
            if (ls_plan_has_absent(node->src[i])) {
                return true;
            }
        }
        node = node->src[0];
    }
    return false;
}

bool ls_plan_is_leaf(const ls_tensor *node) {
    bool storage = node->op == LS_OP_DATA || node->op == LS_OP_INPUT || node->op == LS_OP_VAR || node->op == LS_OP_PARAM;
    return storage || (node->value && !(ls_class_of(node) == LS_CLASS_MOVE && ls_plan_has_absent(node)));
}

ls_plan_node *ls_plan_gather_base(const ls_tensor *x) {
    ls_plan_node *n = ls_plan_node_of(x);
    while (!n->leaf && !n->stored && ls_class_of(n->node) == LS_CLASS_MOVE && n->node->op != LS_OP_PAD &&
           n->node->op != LS_OP_CONCAT) {
        n = ls_plan_node_of(n->node->src[0]);
    }
    return n;
}

static const ls_plan_node waiting; /* the mark of a node on the stack */

typedef struct frame {
    ls_tensor *node;
    int next;
} frame;

typedef struct walk {
    frame *stack;
    int depth, cap;
    ls_tensor **done;
    int n_done, cap_done;
} walk;

static bool arena_grow(ls_arena *arena, void **data, int *cap, int len, size_t elem) {
    if (len < *cap) {
        return true;
    }
    int grown = *cap < 64 ? 64 : 2 * *cap;
    void *fresh = ls_arena_alloc(arena, (size_t)grown * elem);
    if (fresh) {
        if (*cap) {
            memcpy(fresh, *data, (size_t)*cap * elem);
        }
        *data = fresh;
        *cap = grown;
    }
    return fresh != NULL;
}

static bool walk_push(ls_planner *p, walk *w, ls_tensor *node) {
    if (node->mark) {
        return true;
    }
    if (!arena_grow(p->arena, (void **)&w->stack, &w->cap, w->depth, sizeof(frame)) ||
        !arena_grow(p->arena, (void **)&w->done, &w->cap_done, w->n_done + w->depth + 1, sizeof(ls_tensor *))) {
        return false;
    }
    node->mark = (void *)&waiting;
    w->stack[w->depth++] = (frame){node, 0};
    return true;
}

static bool walk_from(ls_planner *p, walk *w, ls_tensor *root) {
    bool ok = walk_push(p, w, root);
    while (ok && w->depth) {
        frame *f = &w->stack[w->depth - 1];
        if (!ls_plan_is_leaf(f->node) && f->next < f->node->n_src) {
            ok = walk_push(p, w, f->node->src[f->next++]);
        } else {
            w->done[w->n_done++] = f->node;
            w->depth--;
        }
    }
    return ok;
}

static void note_facts(const ls_planner *p, ls_plan_node *n) {
    const ls_tensor *x = n->node;
    ls_op_class class = ls_class_of(x);
    n->leaf = ls_plan_is_leaf(x);
    if (n->leaf) {
        n->simple = 1;
        return;
    }
    if (class == LS_CLASS_LEAF) { /* CONST, IOTA, DIM */
        n->light = n->simple = 1;
        return;
    }
    n->absent = x->op == LS_OP_PAD && x->attr.pad.absent;
    int light = 1, simple = 1;
    for (int i = 0; i < x->n_src; i++) {
        const ls_plan_node *src = ls_plan_node_of(x->src[i]);
        n->absent |= class == LS_CLASS_MOVE && src->absent;
        light = !light || !src->light ? 0 : light > src->light ? light : src->light;
        simple = !simple || !src->simple ? 0 : simple > src->simple ? simple : src->simple;
    }
    if (class == LS_CLASS_MOVE) {
        n->light = light;
        n->simple = simple;
    } else if (class == LS_CLASS_MAP && !ls_op_is_expensive(x->op)) {
        n->light = p->fusion && light && light < 6 ? light + 1 : 0;
        n->simple = simple && simple < 3 ? simple + 1 : 0;
    }
}

bool ls_plan_order(ls_planner *p, ls_tensor *const *roots, int n_roots) {
    walk w = {0};
    bool ok = true;
    for (int i = 0; ok && i < n_roots; i++) {
        ok = walk_from(p, &w, roots[i]);
    }
    for (int i = 0; i < w.depth; i++) { /* after a failure */
        w.stack[i].node->mark = NULL;
    }
    p->nodes = ok ? LS_ARENA_ARRAY(p->arena, ls_plan_node, w.n_done + 1) : NULL;
    for (int i = 0; i < w.n_done; i++) {
        w.done[i]->mark = NULL;
        if (p->nodes) {
            p->nodes[i].node = w.done[i];
            w.done[i]->mark = &p->nodes[i];
        }
    }
    p->n_nodes = p->nodes ? w.n_done : 0;
    for (int i = 0; i < p->n_nodes; i++) {
        note_facts(p, &p->nodes[i]);
    }
    return p->nodes != NULL;
}

void ls_plan_unmark(ls_planner *p) {
    for (int i = 0; i < p->n_nodes; i++) {
        p->nodes[i].node->mark = NULL;
    }
}

/* ---- groups ---- */
typedef struct gather {
    ls_tensor **stack, **reads;
    int depth, cap, n_reads, cap_reads, group;
} gather;

static bool gather_read(ls_planner *p, gather *g, ls_plan_node *n) {
    if (n->read == g->group) {
        return true;
    }
    n->read = g->group;
    return arena_grow(p->arena, (void **)&g->reads, &g->cap_reads, g->n_reads, sizeof(ls_tensor *)) &&
           (g->reads[g->n_reads++] = n->node, true);
}

/* Whether readers of x take it from memory. */
static bool is_read(const ls_plan_node *n) {
    return n->leaf || (n->stored && !n->light && !n->absent);
}

/* Visits the operands of x later, left to right; a gather takes its first from memory. */
static bool gather_operands(ls_planner *p, gather *g, const ls_tensor *x) {
    bool indexed = ls_class_of(x) == LS_CLASS_GATHER;
    for (int i = x->n_src; i-- > (indexed ? 1 : 0);) {
        if (!arena_grow(p->arena, (void **)&g->stack, &g->cap, g->depth, sizeof(ls_tensor *))) {
            return false;
        }
        g->stack[g->depth++] = x->src[i];
    }
    return !indexed || gather_read(p, g, ls_plan_gather_base(x->src[0]));
}

/* What the group of `root` loads: everything at which the walk down from the root stops. */
static bool gather_reads(ls_planner *p, gather *g, const ls_tensor *root) {
    if (ls_class_of(root) == LS_CLASS_LOOP || ls_class_of(root) == LS_CLASS_COPY) {
        bool ok = true;
        for (int i = 0; ok && i < root->n_src; i++) {
            ok = gather_read(p, g, ls_plan_node_of(root->src[i]));
        }
        return ok;
    }
    bool ok = gather_operands(p, g, root);
    while (ok && g->depth) {
        ls_plan_node *n = ls_plan_node_of(g->stack[--g->depth]);
        if (is_read(n)) {
            ok = gather_read(p, g, n);
        } else if (n->walked != g->group) {
            n->walked = g->group;
            ok = gather_operands(p, g, n->node);
        }
    }
    return ok;
}

/* The RESULT nodes of a loop, in result order. */
static bool loop_roots(ls_planner *p, const ls_tensor *loop, ls_group *group) {
    const ls_body *body = loop->attr.loop.body;
    group->n_roots = body->n_carry + body->n_ys;
    group->roots = LS_ARENA_ARRAY(p->arena, ls_tensor *, group->n_roots + 1);
    for (int i = 0; group->roots && i < p->n_nodes; i++) {
        ls_tensor *x = p->nodes[i].node;
        if (x->op == LS_OP_RESULT && x->src[0] == loop && !p->nodes[i].leaf) {
            group->roots[x->attr.loop.result] = x;
        }
    }
    return group->roots != NULL;
}

bool ls_plan_emit(ls_planner *p, ls_plan *out_plan) {
    int n = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        n += p->nodes[i].draft && p->nodes[i].draft->root == &p->nodes[i];
    }
    out_plan->n_groups = 0;
    out_plan->groups = LS_ARENA_ARRAY(p->arena, ls_group, n + 1);
    gather g = {0};
    for (int i = 0; out_plan->groups && i < p->n_nodes; i++) {
        ls_plan_node *node = &p->nodes[i];
        if (!node->draft || node->draft->root != node) {
            continue;
        }
        ls_group *group = &out_plan->groups[out_plan->n_groups++];
        group->kind = node->draft->kind;
        if (node->node->op == LS_OP_LOOP) {
            if (!loop_roots(p, node->node, group)) {
                return false;
            }
        } else {
            group->n_roots = 1;
            group->roots = ls_arena_copy(p->arena, &node->node, sizeof node->node);
        }
        g.n_reads = 0;
        g.group = out_plan->n_groups;
        if (!group->roots || !gather_reads(p, &g, node->node)) {
            return false;
        }
        group->n_reads = g.n_reads;
        group->reads = LS_ARENA_ARRAY(p->arena, ls_tensor *, g.n_reads + 1);
        if (!group->reads) {
            return false;
        }
        if (g.n_reads) {
            memcpy(group->reads, g.reads, sizeof *g.reads * (size_t)g.n_reads);
        }
    }
    return out_plan->groups != NULL;
}
