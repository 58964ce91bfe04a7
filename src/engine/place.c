/* Where the values of a block stand: roots and variables in their own memory, computed there where all reads of what it held allow it, and
 * temporaries in arenas. What this promises is said in compile.c and checked by hazard.c. */
#include "engine/block.h"

/* ---- what must stand in a given place ---- */

/* Each root has its bind: computed in place by its step where it can, else copied. */
ls_status ls_block_claim_roots(ls_block_build *b, ls_tensor *const *roots, const int *binds, int n) {
    for (int i = 0; i < n; i++) {
        ls_copy *copy = ls_copy_of(roots[i]);
        if (copy->leaf_bind >= 0) { /* now, while a variable still has its old value */
            ls_val *to = ls_val_new(b, roots[i], ls_shape_bytes(roots[i]->dtype, &roots[i]->shape, NULL),
                                 ls_block_device(b, roots[i]));
            if (!to) {
                return ls_block_out_of_memory(b);
            }
            ls_val_fix(to, binds[i]);
            LS_TRY(b->err, ls_step_copy(b, ls_val_of(b, roots[i]), to));
        } else if (copy->root_bind < 0) {
            copy->root_bind = binds[i];
        }
    }
    return LS_OK;
}

ls_status ls_block_copy_second_roots(ls_block_build *b, ls_tensor *const *roots, const int *binds, int n) {
    for (int i = 0; i < n; i++) {
        ls_copy *copy = ls_copy_of(roots[i]);
        if (copy->leaf_bind < 0 && copy->root_bind != binds[i]) {
            ls_val *to = ls_val_new(b, roots[i], copy->val->bytes, copy->val->device);
            if (!to) {
                return ls_block_out_of_memory(b);
            }
            ls_val_fix(to, binds[i]);
            LS_TRY(b->err, ls_step_copy(b, copy->val, to));
        }
    }
    return LS_OK;
}

/* ---- lifetimes ---- */

void ls_block_mark_lifetimes(ls_block_build *b) {
    for (size_t i = 0; i < b->vals.len; i++) {
        b->vals.data[i]->first = b->vals.data[i]->last = -1;
    }
    for (int s = 0; s < (int)b->steps.len; s++) {
        const ls_step *step = &b->steps.data[s];
        for (int i = 0; i < step->n_args; i++) {
            ls_val *val = step->vals[i];
            if (val) {
                val->first = val->first < 0 ? s : val->first;
                val->last = s;
            }
        }
    }
}

/* Whether a step, which writes a value, may write it over `old`, which later steps do not read. */
static bool may_overwrite(const ls_step *step, const ls_val *old, const ls_val *val) {
    int result = step->n_reads;
    while (result < step->n_args && step->vals[result] != val) {
        result++;
    }
    if (step->kind != LS_STEP_KERNEL || result == step->n_args) {
        return false;
    }
    for (int i = 0; i < step->n_reads; i++) {
        if (step->vals[i] == old && !ls_memory_may_alias(step->spec, i, result, step->device->fused_updates)) {
            return false;
        }
    }
    return true;
}

/* ---- assignments ---- */

static bool is_overwritten(const ls_exec *exec, const ls_copy *leaf) {
    for (int i = 0; i < exec->n_assigns; i++) {
        if (leaf->leaf_bind >= 0 && exec->assigns[i].bind == leaf->leaf_bind) {
            return true;
        }
    }
    return false;
}

/* Where the value of an assignment is to be computed: in the variable itself, when all reads of the old
 * value allow it. */
static bool store_directly(ls_block_build *b, const ls_exec_assign *assign) {
    ls_exec *exec = b->exec;
    ls_copy *copy = ls_copy_of(assign->value);
    ls_val *val = copy->val;
    if (copy->leaf_bind >= 0 || !val || val->fixed) {
        return false;
    }
    ls_val *old = assign->bind < exec->n_leaves ? ls_copy_of(exec->leaves[assign->bind])->val : NULL;
    if (old && (old->last > val->first ||
                (old->last == val->first && !may_overwrite(&b->steps.data[val->first], old, val)))) {
        return false;
    }
    ls_val_fix(val, assign->bind);
    return true;
}

ls_status ls_block_assign(ls_block_build *b) {
    ls_exec *exec = b->exec;
    bool *done = LS_ARENA_ARRAY(&exec->arena, bool, exec->n_assigns);
    ls_val **from = LS_ARENA_ARRAY(&exec->arena, ls_val *, exec->n_assigns);
    if (!done || !from) {
        return ls_block_out_of_memory(b);
    }
    /* Old values that go to other variables are set aside before any variable is written by a copy; these
     * reads count. */
    for (int i = 0; i < exec->n_assigns; i++) {
        ls_copy *copy = ls_copy_of(exec->assigns[i].value);
        done[i] = copy->leaf_bind >= 0 && copy->leaf_bind == exec->assigns[i].bind;
        from[i] = ls_val_of(b, exec->assigns[i].value);
        if (!from[i]) {
            return ls_block_out_of_memory(b);
        }
        if (!done[i] && is_overwritten(exec, copy)) {
            ls_val *aside = ls_val_new(b, exec->assigns[i].value, from[i]->bytes, from[i]->device);
            LS_TRY(b->err, ls_step_copy(b, from[i], aside));
            from[i] = aside;
        }
    }
    ls_block_mark_lifetimes(b);
    for (int i = 0; i < exec->n_assigns; i++) {
        done[i] = done[i] || store_directly(b, &exec->assigns[i]);
    }
    for (int i = 0; i < exec->n_assigns; i++) {
        if (!done[i]) {
            ls_val *to = ls_val_new(b, exec->assigns[i].value, from[i]->bytes, from[i]->device);
            if (!to) {
                return ls_block_out_of_memory(b);
            }
            ls_val_fix(to, exec->assigns[i].bind);
            LS_TRY(b->err, ls_step_copy(b, from[i], to));
        }
    }
    return LS_OK;
}

/* ---- memory ---- */

/* Temporaries that a kernel may compute in place of one that it reads for the last time. */
static void share_storage(ls_block_build *b) {
    for (int s = 0; s < (int)b->steps.len; s++) {
        const ls_step *step = &b->steps.data[s];
        ls_val *to = step->n_args ? step->vals[step->n_args - 1] : NULL;
        if (step->kind != LS_STEP_KERNEL || step->n_args != step->n_reads + 1 || to->fixed) {
            continue;
        }
        for (int i = 0; i < step->n_reads && !to->share; i++) {
            ls_val *from = step->vals[i];
            if (!from->fixed && !from->leaf && from->last == s && from->first < s &&
                from->bytes == to->bytes && from->device == to->device && may_overwrite(step, from, to)) {
                to->share = from;
            }
        }
    }
}

static ls_status plan_device(ls_block_build *b, ls_arena_plan *plan) {
    ls_memory_item *items = LS_ARENA_ARRAY(&b->exec->arena, ls_memory_item, b->vals.len);
    int n = 0;
    if (!items) {
        return ls_block_out_of_memory(b);
    }
    /* A value shares only with one of an earlier step, so owners of storage come first when steps are
     * taken in order. */
    for (size_t s = 0; s < b->steps.len; s++) {
        const ls_step *step = &b->steps.data[s];
        for (int i = step->n_reads; i < step->n_args; i++) {
            ls_val *val = step->vals[i];
            if (!val || val->fixed || val->device != plan->device || val->item >= 0) {
                continue;
            }
            if (val->share) {
                val->item = val->share->item;
                items[val->item].last = val->last > items[val->item].last ? val->last : items[val->item].last;
            } else {
                val->item = n;
                items[n++] = (ls_memory_item){.bytes = val->bytes, .first = val->first, .last = val->last};
            }
        }
    }
    LS_TRY(b->err, ls_memory_plan(&b->exec->arena, items, n, &plan->bytes, b->err));
    for (size_t i = 0; i < b->vals.len; i++) {
        ls_val *val = b->vals.data[i];
        if (val->item >= 0 && val->device == plan->device) {
            val->place = (ls_place){plan->bind, items[val->item].offset};
        }
    }
    return LS_OK;
}

ls_status ls_block_plan_memory(ls_block_build *b, ls_block *block) {
    ls_block_mark_lifetimes(b);
    share_storage(b);
    block->arenas = LS_ARENA_ARRAY(&b->exec->arena, ls_arena_plan, b->steps.len);
    if (!block->arenas) {
        return ls_block_out_of_memory(b);
    }
    for (size_t s = 0; s < b->steps.len; s++) {
        ls_device *device = b->steps.data[s].device;
        bool known = false;
        for (int i = 0; i < block->n_arenas; i++) {
            known = known || block->arenas[i].device == device;
        }
        if (!known) {
            ls_arena_plan *plan = &block->arenas[block->n_arenas++];
            *plan = (ls_arena_plan){.device = device, .bind = b->exec->n_binds++};
            LS_TRY(b->err, plan_device(b, plan));
        }
    }
    for (size_t s = 0; s < b->steps.len; s++) {
        const ls_step *step = &b->steps.data[s];
        for (int i = 0; i < step->n_args; i++) {
            step->args[i] = step->vals[i] ? step->vals[i]->place : (ls_place){-1, 0};
        }
    }
    return LS_OK;
}
