/* The order of nodes before planning, and of groups after it. Deterministic: depth first, operands left to
 * right. */
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

bool ls_plan_tells_absent(const ls_tensor *node) {
    for (bool covered = false; ls_class_of(node) == LS_CLASS_MOVE; node = node->src[0]) {
        if (node->n_src > 1) {
            return !ls_plan_has_absent(node);
        }
        if (node->op == LS_OP_PAD && node->attr.pad.absent && covered) {
            return false;
        }
        covered = covered || (node->op == LS_OP_PAD && !node->attr.pad.absent);
    }
    return true;
}

bool ls_plan_is_leaf(const ls_tensor *node) {
    bool storage =
        node->op == LS_OP_DATA || node->op == LS_OP_INPUT || node->op == LS_OP_VAR || node->op == LS_OP_PARAM;
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
        !arena_grow(p->arena, (void **)&w->done, &w->cap_done, w->n_done + w->depth + 1,
                    sizeof(ls_tensor *))) {
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
    n->contracted = class == LS_CLASS_CONTRACT;
    bool carries = class == LS_CLASS_MAP || x->op == LS_OP_RESHAPE || x->op == LS_OP_PERMUTE;
    int light = 1, simple = 1;
    for (int i = 0; i < x->n_src; i++) {
        ls_plan_node *src = ls_plan_node_of(x->src[i]);
        src->users++;
        n->absent |= class == LS_CLASS_MOVE && src->absent;
        n->contracted |= carries && src->contracted;
        n->moves = class == LS_CLASS_MOVE && src->moves >= n->moves ? src->moves + 1 : n->moves;
        light = !light || !src->light ? 0 : light > src->light ? light : src->light;
        simple = !simple || !src->simple ? 0 : simple > src->simple ? simple : src->simple;
    }
    if (class == LS_CLASS_MOVE) {
        n->light = n->moves % LS_MOST_MOVES ? light : 0;
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
    const ls_tensor *contract; /* of the group at work */
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
    return n->leaf || (n->stored && !n->light && (!n->absent || n->patches));
}

/* Visits the operands of x later, left to right; a gather takes its first from memory. */
static bool gather_operands(ls_planner *p, gather *g, const ls_tensor *x) {
    bool indexed = ls_class_of(x) == LS_CLASS_GATHER;
    g->contract = x->op == LS_OP_CONTRACT && !g->contract ? x : g->contract;
    for (int i = x->n_src; i-- > (indexed ? 1 : 0);) {
        if (!arena_grow(p->arena, (void **)&g->stack, &g->cap, g->depth, sizeof(ls_tensor *))) {
            return false;
        }
        g->stack[g->depth++] = x->src[i];
    }
    return !indexed || gather_read(p, g, ls_plan_gather_base(x->src[0]));
}

/* What the group of `root` loads: everything at which the walk down from the root stops. */
static bool gather_reads(ls_planner *p, gather *g, const ls_draft *draft) {
    const ls_tensor *root = draft->root->node;
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
        if (is_read(n) && n->draft != draft) {
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
    group->roots = LS_ARENA_ARRAY(p->out, ls_tensor *, group->n_roots + 1);
    for (int i = 0; group->roots && i < p->n_nodes; i++) {
        ls_tensor *x = p->nodes[i].node;
        if (x->op == LS_OP_RESULT && x->src[0] == loop && !p->nodes[i].leaf) {
            group->roots[x->attr.loop.result] = x;
        }
    }
    return group->roots != NULL;
}

static bool group_reads(const ls_group *group, const ls_tensor *x) {
    for (int i = 0; i < group->n_reads; i++) {
        if (group->reads[i] == x) {
            return true;
        }
    }
    return false;
}

/* Movement leads to windows before it leads to what the group reads. */
static bool reads_windows(const ls_group *group, const ls_tensor *x) {
    while (!group_reads(group, x) && ls_class_of(x) == LS_CLASS_MOVE && x->op != LS_OP_WINDOW && x->n_src == 1) {
        x = x->src[0];
    }
    return x->op == LS_OP_WINDOW && !group_reads(group, x);
}

static bool group_fill(ls_planner *p, gather *g, const ls_draft *draft, ls_group *group) {
    group->kind = draft->kind;
    if (draft->root->node->op == LS_OP_LOOP) {
        if (!loop_roots(p, draft->root->node, group)) {
            return false;
        }
    } else {
        group->n_roots = draft->n_roots;
        group->roots = LS_ARENA_ARRAY(p->out, ls_tensor *, draft->n_roots);
        for (int i = 0; group->roots && i < draft->n_roots; i++) {
            group->roots[i] = draft->roots[i]->node;
        }
    }
    g->n_reads = 0;
    g->contract = NULL;
    g->group = draft->index + 1;
    if (!group->roots || !gather_reads(p, g, draft)) {
        return false;
    }
    group->n_reads = g->n_reads;
    group->reads = LS_ARENA_ARRAY(p->out, ls_tensor *, g->n_reads + 1);
    if (group->reads && g->n_reads) {
        memcpy(group->reads, g->reads, sizeof *g->reads * (size_t)g->n_reads);
    }
    const ls_plan_node *product = g->contract ? ls_plan_node_of(g->contract) : NULL;
    group->attends = product && product->attends ? product->node : NULL;
    group->not_fused = group->attends ? product->not_fused : NULL;
    group->convolves = group->reads && g->contract &&
                       (reads_windows(group, g->contract->src[0]) || reads_windows(group, g->contract->src[1]));
    group->no_im2col = group->convolves && !(ls_plan_tells_absent(g->contract->src[0]) && ls_plan_tells_absent(g->contract->src[1]));
    return group->reads != NULL;
}

/* The group that stores a node which another reads; -1 for a leaf. */
static int maker_of(const ls_tensor *x) {
    const ls_plan_node *n =
        ls_plan_node_of(x->op == LS_OP_RESULT && !ls_plan_node_of(x)->leaf ? x->src[0] : x);
    return n->leaf || !n->draft ? -1 : n->draft->index;
}

/* Groups by the order of their roots, but each after those that it reads from. */
static bool groups_sort(ls_planner *p, const ls_group *groups, int n, ls_group *out) {
    int *stack = LS_ARENA_ARRAY(p->arena, int, n + 1), *next = LS_ARENA_ARRAY(p->arena, int, n + 1), done = 0;
    for (int i = 0; stack && next && i < n; i++) {
        int depth = next[i] ? 0 : 1;
        stack[0] = i;
        next[i] += depth;
        while (depth) {
            int at = stack[depth - 1], maker = -1;
            while (maker < 0 && next[at] <= groups[at].n_reads) {
                maker = maker_of(groups[at].reads[next[at]++ - 1]);
                maker = maker >= 0 && next[maker] ? -1 : maker;
            }
            if (maker < 0) {
                out[done++] = groups[at];
                depth--;
            } else {
                next[maker] = 1;
                stack[depth++] = maker;
            }
        }
    }
    return done == n;
}

bool ls_plan_emit(ls_planner *p, ls_plan *out_plan) {
    int n = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        n += p->nodes[i].draft && p->nodes[i].draft->root == &p->nodes[i];
    }
    ls_group *groups = LS_ARENA_ARRAY(p->arena, ls_group, n + 1);
    out_plan->groups = LS_ARENA_ARRAY(p->out, ls_group, n + 1);
    out_plan->n_groups = n;
    bool ok = groups && out_plan->groups;
    n = 0;
    for (int i = 0; ok && i < p->n_nodes; i++) {
        ls_draft *draft = p->nodes[i].draft;
        if (draft && draft->root == &p->nodes[i]) {
            draft->index = n++;
        }
    }
    gather g = {0};
    for (int i = 0; ok && i < p->n_nodes; i++) {
        ls_draft *draft = p->nodes[i].draft;
        if (draft && draft->root == &p->nodes[i]) {
            ok = group_fill(p, &g, draft, &groups[draft->index]);
        }
    }
    return ok && groups_sort(p, groups, n, out_plan->groups);
}

/* ---- dependence ---- */
typedef struct search {
    ls_plan_node **stack;
    int depth, cap;
} search;

static bool search_push(ls_planner *p, search *s, ls_plan_node *n) {
    if (n->mark == p->n_searches || n->leaf) {
        return true;
    }
    n->mark = p->n_searches;
    return arena_grow(p->arena, (void **)&s->stack, &s->cap, s->depth, sizeof *s->stack) &&
           (s->stack[s->depth++] = n, true);
}

bool ls_draft_needs(ls_planner *p, ls_draft *draft, const ls_draft *other, bool *out_ok) {
    search s = {0};
    p->n_searches++;
    draft->mark = p->n_searches;
    *out_ok = true;
    for (int i = 0; i < draft->n_roots && *out_ok; i++) {
        *out_ok = search_push(p, &s, draft->roots[i]);
    }
    while (*out_ok && s.depth) {
        ls_plan_node *n = s.stack[--s.depth];
        if (n->draft == other) {
            return true;
        }
        if (n->draft && n->draft->mark != p->n_searches) {
            n->draft->mark = p->n_searches;
            for (int i = 0; i < n->draft->n_roots && *out_ok; i++) {
                *out_ok = search_push(p, &s, n->draft->roots[i]);
            }
        }
        for (int i = 0; i < n->node->n_src && *out_ok; i++) {
            ls_plan_node *src = ls_plan_node_of(n->node->src[i]);
            bool placed = src->draft || src->sites || src->stored || ls_class_of(src->node) == LS_CLASS_MOVE; /* gathers read from below it */
            *out_ok = placed ? search_push(p, &s, src) : true;
        }
    }
    return false;
}
