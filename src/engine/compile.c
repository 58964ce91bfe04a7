/* From a graph to steps: copies of leaves that are asked for, then the plan's groups, stage by stage where
 * values move between devices, then copies into roots and variables, then memory (place.c).
 *
 * Invariants: the old value of a variable is read only by steps before the one that writes its storage, or
 * by that step itself where each point reads just its own element; a value has one place for all its life.
 * hazard.c checks both on the result. */
#include "engine/block.h"
#include "plan/plan.h"
#include <string.h>

/* Its address stands as the value of a copied node that is in memory, so that the plan takes it for a
 * leaf. */
static const char in_memory_mark;
#define STORED ((ls_buffer *)(uintptr_t)&in_memory_mark)

ls_status ls_block_out_of_memory(ls_block_build *b) {
    return LS_FAIL_MEMORY(b->err, "a compiled graph");
}

ls_device *ls_block_device(const ls_block_build *b, const ls_tensor *node) {
    return node->device ? node->device : b->exec->session->graph.device;
}

/* ---- values ---- */

ls_val *ls_val_new(ls_block_build *b, ls_tensor *node, size_t bytes, ls_device *device) {
    ls_val *val = LS_ARENA_NEW(&b->exec->arena, ls_val);
    if (!val || !ls_array_push(b->heap, &b->vals, val)) {
        return NULL;
    }
    *val = (ls_val){.node = node, .bytes = bytes, .device = device, .first = -1, .last = -1, .item = -1};
    return val;
}

void ls_val_fix(ls_val *val, int bind) {
    val->fixed = true;
    val->place = (ls_place){bind, 0};
}

/* The value of a node; made when first asked for. NULL when out of memory. */
ls_val *ls_val_of(ls_block_build *b, ls_tensor *node) {
    ls_copy *copy = ls_copy_of(node);
    if (!copy->val) {
        ls_val *val = ls_val_new(b, node, ls_shape_bytes(node->dtype, &node->shape, NULL), ls_block_device(b, node));
        if (!val) {
            return NULL;
        }
        int bind = copy->leaf_bind >= 0 ? copy->leaf_bind : copy->root_bind;
        if (bind >= 0) {
            ls_val_fix(val, bind);
        }
        val->leaf = copy->leaf_bind >= 0;
        copy->val = val;
    }
    return copy->val;
}

/* ---- steps ---- */

static ls_step *step_new(ls_block_build *b, ls_step_kind kind, ls_device *device, int n_reads, int n_args) {
    ls_arena *arena = &b->exec->arena;
    ls_step step = {.kind = kind, .device = device, .n_reads = n_reads, .n_args = n_args};
    step.vals = LS_ARENA_ARRAY(arena, ls_val *, n_args);
    step.args = LS_ARENA_ARRAY(arena, ls_place, n_args);
    if (!step.vals || !step.args || !ls_array_push(b->heap, &b->steps, step)) {
        return NULL;
    }
    b->exec->max_args = n_args > b->exec->max_args ? n_args : b->exec->max_args;
    return &b->steps.data[b->steps.len - 1];
}

ls_status ls_step_copy(ls_block_build *b, ls_val *from, ls_val *to) {
    ls_step *step = from && to ? step_new(b, LS_STEP_COPY, to->device, 1, 2) : NULL;
    if (!step) {
        return ls_block_out_of_memory(b);
    }
    step->vals[0] = from;
    step->vals[1] = to;
    return LS_OK;
}

/* Certification found it wrong. A device that was not tried is taken at its word. */
static bool is_refused(ls_device *device) {
    ls_mutex_lock(device->context->mutex);
    bool refused = device->locked < 0;
    ls_mutex_unlock(device->context->mutex);
    return refused;
}

/* What the builder of specs needs on the way is given back. */
static ls_status build_spec(ls_block_build *b, const ls_group *group, ls_spec *out_spec) {
    ls_arena scratch;
    ls_spec spec = {0};
    ls_arena_init(&scratch, b->heap);
    ls_status status = ls_spec_build(&scratch, group, &spec, b->err);
    if (status == LS_OK) {
        status = ls_spec_copy(&b->exec->arena, &spec, out_spec, b->err);
    }
    ls_arena_free(&scratch);
    return status;
}

/* What is asked of a kernel; a convolution's own goes first. */
static ls_status strategy_of(ls_block_build *b, const ls_group *group, const ls_spec *spec, const char **out_strategy) {
    const ls_session *session = b->exec->session;
    const char *conv = group->convolves ? session->strategies[LS_STRATEGY_CONV] : "";
    *out_strategy = strcmp(conv, "direct") == 0 ? "naive" : conv[0] ? conv : session->strategies[spec->kind];
    return strcmp(conv, "im2col") == 0 ? LS_FAIL(b->err, LS_ERR_UNSUPPORTED, "kernel %s: strategy im2col: %s", spec->name, LS_NO_IM2COL)
                                       : LS_OK;
}

static ls_status step_kernel(ls_block_build *b, const ls_group *group) {
    ls_spec *spec = LS_ARENA_NEW(&b->exec->arena, ls_spec);
    ls_device *device = ls_block_device(b, group->roots[0]);
    ls_step *step = step_new(b, LS_STEP_KERNEL, device, group->n_reads, group->n_reads + group->n_roots);
    if (!spec || !step) {
        return ls_block_out_of_memory(b);
    }
    LS_TRY(b->err, build_spec(b, group, spec));
    if (spec->n_args != step->n_args) {
        return LS_FAIL(b->err, LS_ERR_INTERNAL, "kernel %s has %d arguments, its group %d", spec->name,
                       spec->n_args, step->n_args);
    }
    step->spec = spec;
    step->group = group;
    for (int i = 0; i < step->n_args; i++) {
        ls_tensor *node = i < group->n_reads ? group->reads[i] : group->roots[i - group->n_reads];
        if (i < group->n_reads && ls_copy_of(node)->leaf_bind < 0 && !ls_copy_of(node)->val) {
            return LS_FAIL(b->err, LS_ERR_INTERNAL, "kernel %s reads %s %llu before it is computed",
                           spec->name, ls_ops[node->op].name, (unsigned long long)node->serial);
        }
        step->vals[i] = ls_val_of(b, node);
        if (!step->vals[i]) {
            return ls_block_out_of_memory(b);
        }
    }
    if (spec->math == LS_LOCKED && is_refused(device)) {
        return LS_FAIL(b->err, LS_ERR_DEVICE, "%s is refused for locked results: %s", device->id,
                       device->locked_reason);
    }
    const char *strategy;
    LS_TRY(b->err, strategy_of(b, group, spec, &strategy));
    ls_status status = ls_kernel_get(device, spec, strategy, &step->kernel, b->err);
    b->exec->unready = b->exec->unready || status == LS_ERR_AGAIN;
    return status == LS_ERR_AGAIN ? LS_OK : status; /* a late device is asked for all kernels at once */
}

static ls_status compile_block(ls_exec *exec, ls_tensor *const *roots, const int *root_binds, int n_roots,
                               bool top, ls_block *out_block, ls_error *err);

static size_t slice_bytes(const ls_tensor *stacked) {
    ls_shape slice = stacked->shape;
    slice.dim[0] = ls_dim_fixed(1);
    return ls_shape_bytes(stacked->dtype, &slice, NULL);
}

/* Which of the wanted ys a carry is, too; -1: none. */
static int same_y(const ls_group *group, const ls_body *body, int carry) {
    int j = body->n_ys - 1;
    while (j >= 0 && !(group->roots[body->n_carry + j] && body->results[body->n_carry + j] == body->results[carry])) {
        j--;
    }
    return j;
}

/* Binds of what the body writes, and its own steps. */
static ls_status loop_body(ls_block_build *b, const ls_group *group, const ls_body *body, ls_loop_plan *loop) {
    ls_arena *arena = &b->exec->arena;
    int n_params = body->n_carry + body->n_xs + body->n_captures, n_results = body->n_carry + body->n_ys;
    loop->param_binds = LS_ARENA_ARRAY(arena, int, n_params);
    loop->result_binds = LS_ARENA_ARRAY(arena, int, n_results);
    loop->strides = LS_ARENA_ARRAY(arena, size_t, body->n_xs + body->n_ys);
    loop->carry_bytes = LS_ARENA_ARRAY(arena, size_t, body->n_carry);
    loop->kept_in = LS_ARENA_ARRAY(arena, int, body->n_carry);
    ls_tensor **wanted = LS_ARENA_ARRAY(arena, ls_tensor *, n_results);
    int *binds = LS_ARENA_ARRAY(arena, int, n_results), n_wanted = 0;
    if (!loop->param_binds || !loop->result_binds || !loop->strides || !loop->carry_bytes || !loop->kept_in ||
        !wanted || !binds) {
        return ls_block_out_of_memory(b);
    }
    loop->iteration_bind = ls_copy_of(body->iteration)->leaf_bind;
    for (int i = 0; i < n_params; i++) {
        loop->param_binds[i] = ls_copy_of(body->params[i])->leaf_bind;
    }
    for (int i = 0; i < body->n_carry; i++) {
        loop->kept_in[i] = same_y(group, body, i);
    }
    for (int i = 0; i < n_results; i++) {
        bool wants = i < body->n_carry ? loop->kept_in[i] < 0 : group->roots[i] != NULL;
        loop->result_binds[i] = wants ? b->exec->n_binds++ : -1;
        if (wants) {
            wanted[n_wanted] = body->results[i];
            binds[n_wanted++] = loop->result_binds[i];
        }
        if (i < body->n_carry) {
            loop->carry_bytes[i] = ls_shape_bytes(body->results[i]->dtype, &body->results[i]->shape, NULL);
        } else if (wants) {
            loop->strides[body->n_xs + i - body->n_carry] = slice_bytes(group->roots[i]);
        }
    }
    return compile_block(b->exec, wanted, binds, n_wanted, false, &loop->body, b->err);
}

/* What the step itself needs besides operands and results. */
static bool loop_scratch(ls_block_build *b, ls_step *step, const ls_loop_plan *loop, int at, ls_device *device) {
    bool made = true;
    for (int i = 0; i < loop->n_carry; i++, at++) {
        if (loop->kept_in[i] < 0) {
            made = (step->vals[at] = ls_val_new(b, NULL, loop->carry_bytes[i], device)) && made;
        }
    }
    made = (step->vals[at++] = ls_val_new(b, NULL, sizeof(int64_t), device)) && made;
    for (int i = 0; i < loop->body.n_arenas; i++) {
        const ls_arena_plan *arena = &loop->body.arenas[i];
        made = (step->vals[at++] = ls_val_new(b, NULL, arena->bytes, arena->device)) && made;
    }
    return made;
}

static ls_status step_loop(ls_block_build *b, const ls_group *group) {
    const ls_tensor *node = NULL;
    for (int i = 0; i < group->n_roots; i++) {
        node = group->roots[i] ? group->roots[i]->src[0] : node;
    }
    if (!node) {
        return LS_FAIL(b->err, LS_ERR_INTERNAL, "a loop without results was planned");
    }
    const ls_body *body = node->attr.loop.body;
    ls_device *device = ls_block_device(b, node);
    ls_loop_plan *loop = LS_ARENA_NEW(&b->exec->arena, ls_loop_plan);
    if (!loop) {
        return ls_block_out_of_memory(b);
    }
    *loop = (ls_loop_plan){.trip = node->attr.loop.trip,
                           .n_carry = body->n_carry,
                           .n_xs = body->n_xs,
                           .n_captures = body->n_captures,
                           .n_ys = body->n_ys};
    LS_TRY(b->err, loop_body(b, group, body, loop));
    for (int i = 0; i < body->n_carry + body->n_ys; i++) {
        if (ls_block_device(b, body->results[i]) != device) {
            return LS_FAIL(b->err, LS_ERR_DEVICE, "loop %llu of %s: its body's result %d is on %s: expected a copy back",
                           (unsigned long long)node->serial, device->id, i, ls_block_device(b, body->results[i])->id);
        }
    }
    const int n_results = body->n_carry + body->n_ys;
    ls_step *step =
        step_new(b, LS_STEP_LOOP, device, node->n_src, node->n_src + n_results + body->n_carry + 1 + loop->body.n_arenas);
    if (!step) {
        return ls_block_out_of_memory(b);
    }
    step->group = group;
    step->loop = loop;
    for (int i = 0; i < node->n_src; i++) {
        ls_copy *operand = ls_copy_of(node->src[i]);
        if (operand->leaf_bind < 0 && !operand->val) {
            return LS_FAIL(b->err, LS_ERR_INTERNAL, "loop %llu reads operand %d before it is computed",
                           (unsigned long long)node->serial, i);
        }
        step->vals[i] = ls_val_of(b, node->src[i]);
        if (!step->vals[i]) {
            return ls_block_out_of_memory(b);
        }
        if (i >= body->n_carry && i < body->n_carry + body->n_xs) {
            loop->strides[i - body->n_carry] = slice_bytes(node->src[i]);
        }
    }
    bool made = true;
    for (int i = 0; i < n_results; i++) {
        const bool scratch = !group->roots[i] && i < body->n_carry && loop->kept_in[i] < 0;
        if (group->roots[i] || scratch) {
            ls_val *val = scratch ? ls_val_new(b, NULL, loop->carry_bytes[i], device) : ls_val_of(b, group->roots[i]);
            step->vals[node->n_src + i] = val;
            made = val && made;
        }
    }
    made = loop_scratch(b, step, loop, node->n_src + n_results, device) && made;
    return made ? LS_OK : ls_block_out_of_memory(b);
}

/* ---- groups of all stages ---- */

typedef LS_ARRAY(ls_tensor *) node_list;

static bool in_memory(const ls_tensor *node) {
    return ls_copy_of(node)->leaf_bind >= 0 || node->value == STORED;
}

/* Counts the device copies that lie below each node. */
static int mark_stages(ls_tensor *const *order, int n) {
    int most = 0;
    for (int i = 0; i < n; i++) {
        ls_copy *copy = ls_copy_of(order[i]);
        for (int j = 0; j < order[i]->n_src; j++) {
            int stage = ls_copy_of(order[i]->src[j])->stage;
            copy->stage = stage > copy->stage ? stage : copy->stage;
        }
        copy->stage += order[i]->op == LS_OP_COPY;
        most = copy->stage > most ? copy->stage : most;
    }
    return most;
}

static bool list_add(ls_block_build *b, node_list *list, ls_tensor *node) {
    for (size_t i = 0; i < list->len; i++) {
        if (list->data[i] == node) {
            return true;
        }
    }
    return ls_array_push(b->heap, list, node);
}

static bool wants_im2col(const ls_session *session) {
    return strcmp(session->strategies[LS_STRATEGY_CONV], "im2col") == 0;
}

/* How a graph is planned, by what the session asks for. */
static int how_to_plan(const ls_session *session, const ls_device *device) {
    bool fused = strcmp(session->strategies[LS_GROUP_ATTENTION], "fused") == 0;
    return (session->fusion ? LS_PLAN_FUSION : 0) | (wants_im2col(session) ? LS_PLAN_IM2COL : 0) | (fused ? LS_PLAN_ATTENTION : 0) |
           (session->fusion && device->planar ? LS_PLAN_PERMUTED : 0) | (session->fusion && device->keeps_codes ? LS_PLAN_CODES : 0) |
           (session->fusion && device->keeps_sparse ? LS_PLAN_SPARSE : 0);
}

/* The groups of a plan, in memory of the exec's own. */
static ls_status keep_groups(ls_block_build *b, const ls_plan *plan, ls_group **out_groups) {
    ls_arena *arena = &b->exec->arena;
    ls_group *groups = ls_arena_copy(arena, plan->groups, sizeof *groups * (size_t)plan->n_groups);
    for (int i = 0; groups && i < plan->n_groups; i++) {
        ls_group *g = &groups[i];
        g->roots = ls_arena_copy(arena, g->roots, sizeof *g->roots * (size_t)g->n_roots);
        g->reads = ls_arena_copy(arena, g->reads, sizeof *g->reads * (size_t)g->n_reads);
        if (!g->roots || !g->reads) {
            return ls_block_out_of_memory(b);
        }
    }
    *out_groups = groups;
    return groups ? LS_OK : ls_block_out_of_memory(b);
}

static ls_status plan_groups(ls_block_build *b, ls_tensor *const *roots, int n_roots, const ls_device *device, ls_group **out_groups,
                             int *out_n) {
    ls_arena scratch;
    ls_plan plan = {0};
    ls_arena_init(&scratch, b->heap);
    int how = how_to_plan(b->exec->session, device);
    ls_status status = ls_plan_build(&scratch, roots, n_roots, how, &plan, b->err);
    for (int i = 0; i < plan.n_groups && status == LS_OK; i++) {
        const char *why = how & LS_PLAN_ATTENTION ? plan.groups[i].not_fused : NULL;
        status = why ? LS_FAIL(b->err, LS_ERR_UNSUPPORTED, "attention: strategy fused: %s", why) : LS_OK;
    }
    if (status == LS_OK) {
        status = keep_groups(b, &plan, out_groups);
    }
    *out_n = plan.n_groups;
    ls_arena_free(&scratch);
    return status;
}

/* Plans and compiles what of `wanted` is on one device. */
static ls_status compile_groups(ls_block_build *b, ls_tensor *const *wanted, int n, ls_device *device) {
    ls_tensor **roots = LS_ARENA_ARRAY(&b->exec->arena, ls_tensor *, n);
    ls_group *groups;
    int n_roots = 0, n_groups;
    if (!roots) {
        return ls_block_out_of_memory(b);
    }
    for (int i = 0; i < n; i++) {
        if (ls_block_device(b, wanted[i]) == device) {
            roots[n_roots++] = wanted[i];
        }
    }
    LS_TRY(b->err, plan_groups(b, roots, n_roots, device, &groups, &n_groups));
    for (int i = 0; i < n_groups; i++) {
        bool loop = groups[i].kind == LS_GROUP_LOOP;
        LS_TRY(b->err, loop ? step_loop(b, &groups[i]) : step_kernel(b, &groups[i]));
    }
    for (int i = 0; i < n_groups; i++) {
        for (int j = 0; j < groups[i].n_roots; j++) {
            if (groups[i].roots[j] && !groups[i].roots[j]->absent) {
                groups[i].roots[j]->value = STORED;
            }
        }
    }
    return LS_OK;
}

static ls_status compile_stage(ls_block_build *b, ls_tensor *const *wanted, int n_wanted,
                               ls_tensor *const *order, int n, int stage) {
    node_list roots = {0};
    bool ok = true;
    for (int i = 0; ok && i < n_wanted; i++) {
        ok = ls_copy_of(wanted[i])->stage != stage || in_memory(wanted[i]) || list_add(b, &roots, wanted[i]);
    }
    for (int i = 0; ok && i < n; i++) {
        ls_tensor *from =
            order[i]->op == LS_OP_COPY && ls_copy_of(order[i])->stage == stage + 1 ? order[i]->src[0] : NULL;
        ok = !from || in_memory(from) || list_add(b, &roots, from);
    }
    ls_status status = ok ? LS_OK : ls_block_out_of_memory(b);
    for (size_t i = 0; status == LS_OK && i < roots.len; i++) {
        ls_device *device = ls_block_device(b, roots.data[i]);
        bool first = true;
        for (size_t j = 0; j < i; j++) {
            first = first && ls_block_device(b, roots.data[j]) != device;
        }
        status = first ? compile_groups(b, roots.data, (int)roots.len, device) : LS_OK;
    }
    ls_array_free(b->heap, &roots);
    for (int i = 0; status == LS_OK && i < n; i++) {
        if (order[i]->op == LS_OP_COPY && ls_copy_of(order[i])->stage == stage + 1) {
            status = ls_step_copy(b, ls_val_of(b, order[i]->src[0]), ls_val_of(b, order[i]));
            order[i]->value = STORED;
        }
    }
    return status;
}

/* ---- blocks ---- */

static ls_status build_block(ls_block_build *b, ls_tensor *const *roots, const int *root_binds, int n_roots,
                             bool top) {
    ls_exec *exec = b->exec;
    int n_assigns = top ? exec->n_assigns : 0, n = 0;
    ls_tensor **wanted = LS_ARENA_ARRAY(&exec->arena, ls_tensor *, n_roots + n_assigns);
    if (!wanted) {
        return ls_block_out_of_memory(b);
    }
    for (int i = 0; i < n_roots + n_assigns; i++) {
        wanted[i] = i < n_roots ? roots[i] : exec->assigns[i - n_roots].value;
    }
    LS_TRY(b->err, ls_block_claim_roots(b, roots, root_binds, n_roots));
    ls_tensor **order = ls_graph_order(&exec->arena, wanted, n_roots + n_assigns, &n);
    if (!order) {
        return ls_block_out_of_memory(b);
    }
    int stages = mark_stages(order, n);
    for (int stage = 0; stage <= stages; stage++) {
        LS_TRY(b->err, compile_stage(b, wanted, n_roots + n_assigns, order, n, stage));
    }
    LS_TRY(b->err, ls_block_copy_second_roots(b, roots, root_binds, n_roots));
    return top ? ls_block_assign(b) : LS_OK;
}

static ls_status compile_block(ls_exec *exec, ls_tensor *const *roots, const int *root_binds, int n_roots,
                               bool top, ls_block *out_block, ls_error *err) {
    ls_block_build b = {.exec = exec, .heap = exec->arena.heap, .err = err};
    ls_status status = build_block(&b, roots, root_binds, n_roots, top);
    if (status == LS_OK) {
        status = ls_block_plan_memory(&b, out_block);
    }
    if (status == LS_OK) {
        out_block->n_steps = (int)b.steps.len;
        out_block->n_vals = (int)b.vals.len;
        out_block->steps = ls_arena_copy(&exec->arena, b.steps.data, sizeof *b.steps.data * b.steps.len);
        out_block->vals = ls_arena_copy(&exec->arena, b.vals.data, sizeof *b.vals.data * b.vals.len);
        status = out_block->steps && out_block->vals ? LS_OK : ls_block_out_of_memory(&b);
    }
    ls_array_free(b.heap, &b.steps);
    ls_array_free(b.heap, &b.vals);
    return status;
}

/* ---- the whole ---- */

/* Adds the extents of nodes that can be negative. */
static ls_status note_low_extents(ls_exec *exec, ls_tensor *const *nodes, int n, ls_error *err) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < nodes[i]->shape.rank; k++) {
            ls_dim dim = nodes[i]->shape.dim[k];
            bool low = !ls_dim_is_fixed(dim) && (dim.offset < 0 || ls_dim_bound(dim) < 0);
            for (struct ls_low_extent *e = exec->low_extents; e && low; e = e->next) {
                low = !ls_dim_equal(e->dim, dim);
            }
            if (low) {
                struct ls_low_extent *e = LS_ARENA_NEW(&exec->arena, struct ls_low_extent);
                if (!e) {
                    return LS_FAIL_MEMORY(err, "a compiled graph");
                }
                *e = (struct ls_low_extent){exec->low_extents, dim, nodes[i]->op};
                exec->low_extents = e;
            }
        }
    }
    return LS_OK;
}

static ls_status compile_exec(ls_exec *exec, const ls_graph_key *key, ls_tensor *const *leaves,
                              ls_tensor *const *roots, int n_roots, const ls_pending *assigns, int n_assigns,
                              ls_error *err) {
    LS_TRY(err, ls_exec_clone(exec, key, leaves, roots, n_roots, assigns, n_assigns, err));
    LS_TRY(err, note_low_extents(exec, exec->nodes, exec->n_nodes, err)); /* of bodies, too */
    int *binds = LS_ARENA_ARRAY(&exec->arena, int, n_roots);
    if (!binds) {
        return LS_FAIL_MEMORY(err, "a compiled graph");
    }
    for (int i = 0; i < n_roots; i++) {
        binds[i] = exec->first_root + i;
    }
    LS_TRY(err, compile_block(exec, exec->roots, binds, n_roots, true, &exec->block, err));
    if (exec->unready) {
        return LS_FAIL(err, LS_ERR_AGAIN, "kernels are still being compiled");
    }
    exec->symbols = key->symbols;
    exec->hash = key->hash;
    exec->key_words = key->words.len;
    exec->key = ls_arena_copy(&exec->arena, key->words.data, key->words.len * sizeof *exec->key);
    exec->binds = LS_ARENA_ARRAY(&exec->arena, ls_binding, exec->n_binds);
    exec->args = LS_ARENA_ARRAY(&exec->arena, ls_buffer *, exec->max_args);
    exec->offsets = LS_ARENA_ARRAY(&exec->arena, size_t, exec->max_args);
    if (!exec->key || !exec->binds || !exec->args || !exec->offsets) {
        return LS_FAIL_MEMORY(err, "a compiled graph");
    }
    LS_TRY(err, ls_exec_bind_status(exec, err));
    return ls_hazard_check(exec, err);
}

/* Puts a leaf without operands in the place of each computed one, so that no pass looks below it. */
static bool cut_below_leaves(ls_exec *exec, const ls_graph_key *key, ls_tensor **leaves, ls_tensor **all,
                             int n_all) {
    ls_session *s = exec->session;
    int n = 0, most = 1;
    bool any = false, ok = true;
    for (size_t i = 0; i < key->leaves.len; i++) {
        leaves[i] = key->leaves.data[i];
        any = any || leaves[i]->n_src;
    }
    ls_tensor **order = any ? ls_graph_order(&exec->arena, all, n_all, &n) : NULL;
    for (int i = 0; i < n; i++) {
        most = order[i]->n_src > most ? order[i]->n_src : most;
    }
    ls_tensor **src = LS_ARENA_ARRAY(&exec->arena, ls_tensor *, most);
    if (!src || (any && !order)) {
        return false;
    }
    for (size_t i = 0; ok && any && i < key->leaves.len; i++) {
        ls_tensor *leaf = leaves[i];
        if (leaf->n_src) {
            ls_attr_leaf attr = {NULL, ls_leaf_serial(s)};
            leaf->mark = ls_leaf(s, LS_OP_DATA, leaf->dtype, &leaf->shape, leaf->device, attr, NULL);
            ok = leaf->mark != NULL;
            leaves[i] = leaf->mark;
        }
    }
    for (int i = 0; ok && i < n; i++) {
        ls_tensor *x = order[i];
        bool changed = false;
        for (int j = 0; j < x->n_src; j++) {
            src[j] = x->src[j]->mark;
            changed = changed || src[j] != x->src[j];
        }
        x->mark = x->mark ? x->mark : changed ? ls_node_with(s, x, src) : x;
        ok = x->mark != NULL;
    }
    for (int i = 0; ok && any && i < n_all; i++) {
        all[i] = all[i]->mark;
    }
    for (int i = 0; i < n; i++) {
        order[i]->mark = NULL;
    }
    return ok;
}

/* The graph is rewritten in a scope of its own: what the passes make dies with it. */
static ls_status rewrite_and_compile(ls_exec *exec, const ls_graph_key *key, ls_tensor *const *roots,
                                     int n_roots, const ls_pending *assigns, int n_assigns, ls_error *err) {
    ls_session *session = exec->session;
    ls_tensor **all = LS_ARENA_ARRAY(&exec->arena, ls_tensor *, n_roots + n_assigns);
    ls_tensor **leaves = LS_ARENA_ARRAY(&exec->arena, ls_tensor *, key->leaves.len);
    ls_pending *changed = LS_ARENA_ARRAY(&exec->arena, ls_pending, n_assigns);
    if (!all || !leaves || !changed || ls_scope_begin(session) != LS_OK) {
        ls_session_clear_error(session); /* the caller reports `err` */
        return LS_FAIL_MEMORY(err, "a compiled graph");
    }
    for (int i = 0; i < n_roots + n_assigns; i++) {
        all[i] = i < n_roots ? roots[i] : assigns[i - n_roots].value;
    }
    ls_status status = cut_below_leaves(exec, key, leaves, all, n_roots + n_assigns) ? LS_OK : LS_ERR_MEMORY;
    if (status == LS_OK && key->symbols) { /* also what the passes leave nothing of */
        int n = 0;
        ls_tensor **order = ls_graph_order(&exec->arena, all, n_roots + n_assigns, &n);
        status = order ? note_low_extents(exec, order, n, err) : LS_ERR_MEMORY;
    }
    if (status == LS_OK) {
        status = ls_rewrite(session, all, n_roots + n_assigns);
    }
    if (status == LS_OK && wants_im2col(session)) {
        status = ls_rewrite_im2col(session, all, n_roots + n_assigns);
    }
    if (status != LS_OK) { /* builders record in the session; the caller will, too */
        *err = session->graph.error;
        ls_session_clear_error(session);
        LS_FAIL(err, status, "out of memory for rewriting a graph");
    }
    for (int i = 0; status == LS_OK && i < n_assigns; i++) {
        changed[i] = (ls_pending){assigns[i].var, all[n_roots + i]};
    }
    if (status == LS_OK) {
        status = compile_exec(exec, key, leaves, all, n_roots, changed, n_assigns, err);
    }
    ls_scope_end(session);
    return status;
}

ls_status ls_exec_compile(ls_session *session, const ls_graph_key *key, ls_tensor *const *roots, int n_roots,
                          const ls_pending *assigns, int n_assigns, ls_exec **out_exec, ls_error *err) {
    ls_heap *heap = &session->context->heap;
    ls_exec *exec = ls_alloc_zeroed(heap, sizeof *exec);
    if (!exec) {
        return LS_FAIL_MEMORY(err, "a compiled graph");
    }
    exec->session = session;
    ls_arena_init(&exec->arena, heap);
    ls_status status = rewrite_and_compile(exec, key, roots, n_roots, assigns, n_assigns, err);
    if (status != LS_OK) {
        ls_exec_free(exec);
        return LS_FORWARD(err, status);
    }
    session->compiles++;
    *out_exec = exec;
    return LS_OK;
}

void ls_exec_free(ls_exec *exec) {
    if (exec) {
        if (exec->session->unreported == exec) {
            exec->session->unreported = NULL;
        }
        ls_heap *heap = exec->arena.heap;
        for (int i = 0; i < exec->n_status; i++) {
            ls_buffer_release(exec->status[i].buffer);
        }
        ls_arena_free(&exec->arena);
        ls_free(heap, exec);
    }
}
