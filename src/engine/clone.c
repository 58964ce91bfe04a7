/* Private copies of a graph's nodes. A leaf becomes a DATA, INPUT or VAR node without operands and without a
 * value, known by its bind; the body of each LOOP is copied for that LOOP alone, with binds for its
 * parameters. So an exec keeps no tensor of the session alive, and passes may write into its nodes.
 *
 * While the copy is made, a node's mark points to its copy. Inside a body, copies made outside are not
 * seen: marks are replaced, and put back when the body is done. */
#include "engine/exec.h"
#include <string.h>

typedef struct saved {
    ls_tensor *node;
    void *mark;
} saved;

typedef struct cloner {
    ls_exec *exec;
    ls_heap *heap;
    ls_error *err;
    const ls_body *owner;
    LS_ARRAY(saved) saved;       /* to restore, newest last */
    LS_ARRAY(ls_tensor *) nodes; /* copies, operands first */
} cloner;

typedef struct visit {
    ls_tensor *node;
    int next;
} visit;

static ls_copy *copied(const cloner *c, const ls_tensor *node) {
    ls_copy *copy = node->mark;
    return copy && copy->owner == c->owner ? copy : NULL;
}

static ls_status out_of_memory(cloner *c) {
    return LS_FAIL_MEMORY(c->err, "the copy of a graph");
}

/* Copies a node without its operands. */
static ls_copy *copy_new(cloner *c, ls_tensor *node) {
    ls_copy *copy = LS_ARENA_NEW(&c->exec->arena, ls_copy);
    saved s = {node, node->mark};
    if (!copy || !ls_array_push(c->heap, &c->saved, s) || !ls_array_push(c->heap, &c->nodes, &copy->node)) {
        return NULL; /* the mark is as it was */
    }
    node->mark = copy;
    memcpy(&copy->node, node, sizeof *node);
    copy->node.refs = 1;
    copy->node.value = NULL;
    copy->node.mark = NULL;
    copy->node.interned = false;
    copy->node.n_src = 0;
    copy->node.src = NULL;
    copy->leaf_bind = copy->root_bind = -1;
    copy->owner = c->owner;
    if (node->label) {
        copy->node.label = ls_arena_copy(&c->exec->arena, node->label, strlen(node->label) + 1);
    }
    return node->label && !copy->node.label ? NULL : copy;
}

static ls_copy *copy_leaf(cloner *c, ls_tensor *node, int bind) {
    ls_copy *copy = copy_new(c, node);
    if (copy) {
        copy->leaf_bind = bind;
        copy->node.absent = false;
        if (node->op != LS_OP_INPUT && node->op != LS_OP_PARAM && (node->op != LS_OP_VAR || node->value)) {
            copy->node.op = LS_OP_DATA;
        }
    }
    return copy;
}

static ls_status clone_from(cloner *c, ls_tensor *const *roots, int n_roots);

static void restore(cloner *c, size_t len) {
    while (c->saved.len > len) {
        saved *s = &c->saved.data[--c->saved.len];
        s->node->mark = s->mark;
    }
}

static ls_status clone_body_into(cloner *c, const ls_body *body, ls_body *made) {
    ls_arena *arena = &c->exec->arena;
    int n_params = body->n_carry + body->n_xs + body->n_captures, n_results = body->n_carry + body->n_ys;
    made->params = LS_ARENA_ARRAY(arena, ls_tensor *, n_params);
    made->results = LS_ARENA_ARRAY(arena, ls_tensor *, n_results);
    if (!made->params || !made->results) {
        return out_of_memory(c);
    }
    for (int i = -1; i < n_params; i++) {
        ls_copy *copy = copy_leaf(c, i < 0 ? body->iteration : body->params[i], c->exec->n_binds++);
        if (!copy) {
            return out_of_memory(c);
        }
        *(i < 0 ? &made->iteration : &made->params[i]) = &copy->node;
    }
    LS_TRY(c->err, clone_from(c, body->results, n_results));
    for (int i = 0; i < n_results; i++) {
        made->results[i] = &copied(c, body->results[i])->node;
    }
    return LS_OK;
}

static ls_status clone_body(cloner *c, ls_copy *loop) {
    const ls_body *body = loop->node.attr.loop.body;
    ls_body *made = ls_arena_copy(&c->exec->arena, body, sizeof *body);
    if (!made) {
        return out_of_memory(c);
    }
    const ls_body *outer = c->owner;
    size_t len = c->saved.len;
    c->owner = made;
    ls_status status = clone_body_into(c, body, made);
    c->owner = outer;
    restore(c, len);
    loop->node.attr.loop.body = made;
    return status;
}

static ls_status clone_node(cloner *c, ls_tensor *node) {
    /* A rewrite may arrive at a node that happens to be computed already; the key knows nothing of its buffer, so it is
     * computed again. A leaf, however, must be among the key's. */
    if (node->n_src == 0 && ls_is_stored(c->exec->session, node)) {
        return LS_FAIL(c->err, LS_ERR_INVALID, "%s %llu is used outside its loop or program",
                       ls_ops[node->op].name, (unsigned long long)node->serial);
    }
    size_t at = c->nodes.len;
    ls_copy *copy = copy_new(c, node);
    ls_tensor **src = copy && node->n_src ? LS_ARENA_ARRAY(&c->exec->arena, ls_tensor *, node->n_src) : NULL;
    if (!copy || (node->n_src && !src)) {
        return out_of_memory(c);
    }
    for (int i = 0; i < node->n_src; i++) {
        src[i] = &copied(c, node->src[i])->node;
    }
    copy->node.src = src;
    copy->node.n_src = node->n_src;
    if (node->op != LS_OP_LOOP) {
        return LS_OK;
    }
    /* The nodes of its body stand before the loop. */
    c->nodes.len = at;
    LS_TRY(c->err, clone_body(c, copy));
    return ls_array_push(c->heap, &c->nodes, &copy->node) ? LS_OK : out_of_memory(c);
}

static ls_status clone_from(cloner *c, ls_tensor *const *roots, int n_roots) {
    LS_ARRAY(visit) stack = {0};
    ls_status status = LS_OK;
    for (int r = 0; status == LS_OK && r < n_roots; r++) {
        ls_tensor *enter = copied(c, roots[r]) ? NULL : roots[r];
        while (status == LS_OK && (enter || stack.len)) {
            if (enter) {
                visit v = {enter, 0};
                status = ls_array_push(c->heap, &stack, v) ? LS_OK : out_of_memory(c);
                enter = NULL;
                continue;
            }
            visit *top = &stack.data[stack.len - 1];
            while (top->next < top->node->n_src && copied(c, top->node->src[top->next])) {
                top->next++;
            }
            if (top->next < top->node->n_src) {
                enter = top->node->src[top->next++];
            } else {
                status = clone_node(c, top->node);
                stack.len--;
            }
        }
    }
    ls_array_free(c->heap, &stack);
    return status;
}

static ls_status clone_leaves(cloner *c, ls_tensor *const *leaves, int n_leaves) {
    ls_exec *exec = c->exec;
    exec->n_leaves = n_leaves;
    exec->leaves = LS_ARENA_ARRAY(&exec->arena, ls_tensor *, exec->n_leaves);
    for (int i = 0; exec->leaves && i < exec->n_leaves; i++) {
        ls_copy *copy = copy_leaf(c, leaves[i], i);
        if (!copy) {
            return out_of_memory(c);
        }
        exec->leaves[i] = &copy->node;
    }
    exec->n_binds = exec->n_leaves;
    return exec->leaves ? LS_OK : out_of_memory(c);
}

static ls_status clone_roots(cloner *c, const ls_graph_key *key, ls_tensor *const *roots, int n_roots,
                             const ls_pending *assigns, int n_assigns) {
    ls_exec *exec = c->exec;
    exec->roots = LS_ARENA_ARRAY(&exec->arena, ls_tensor *, n_roots);
    exec->assigns = LS_ARENA_ARRAY(&exec->arena, ls_exec_assign, n_assigns);
    if (!exec->roots || !exec->assigns) {
        return out_of_memory(c);
    }
    for (int i = 0; i < n_assigns; i++) {
        int bind = key->assign_binds.data[i];
        exec->assigns[i].bind = bind >= 0 ? bind : exec->n_binds++;
    }
    exec->first_root = exec->n_binds;
    exec->n_binds += n_roots;
    exec->n_roots = n_roots;
    exec->n_assigns = n_assigns;
    LS_TRY(c->err, clone_from(c, roots, n_roots));
    for (int i = 0; i < n_roots; i++) {
        exec->roots[i] = &copied(c, roots[i])->node;
    }
    for (int i = 0; i < n_assigns; i++) {
        LS_TRY(c->err, clone_from(c, &assigns[i].value, 1));
        exec->assigns[i].value = &copied(c, assigns[i].value)->node;
    }
    return LS_OK;
}

ls_status ls_exec_clone(ls_exec *exec, const ls_graph_key *key, ls_tensor *const *leaves,
                        ls_tensor *const *roots, int n_roots, const ls_pending *assigns, int n_assigns,
                        ls_error *err) {
    cloner c = {.exec = exec, .heap = exec->arena.heap, .err = err};
    ls_status status = clone_leaves(&c, leaves, (int)key->leaves.len);
    if (status == LS_OK) {
        status = clone_roots(&c, key, roots, n_roots, assigns, n_assigns);
    }
    restore(&c, 0);
    if (status == LS_OK) {
        exec->n_nodes = (int)c.nodes.len;
        exec->nodes = ls_arena_copy(&exec->arena, c.nodes.data, c.nodes.len * sizeof *c.nodes.data);
        if (!exec->nodes) {
            status = out_of_memory(&c);
        }
    }
    ls_array_free(c.heap, &c.saved);
    ls_array_free(c.heap, &c.nodes);
    return status;
}
