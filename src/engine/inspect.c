/* Prints compiled graphs: nodes, groups, specs, what devices made of them, and where values live. */
#include "engine/exec.h"
#include "plan/plan.h"
#include <lockstep/inspect.h>

static void print_groups(ls_text *out, const ls_block *block) {
    for (int i = 0; i < block->n_steps; i++) {
        const ls_step *step = &block->steps[i];
        if (step->kind == LS_STEP_COPY) {
            continue;
        }
        ls_plan one = {1, (ls_group *)(uintptr_t)step->group};
        ls_text_printf(out, "step %d on %s: ", i, step->device->id);
        ls_plan_print(out, &one);
        if (step->kind == LS_STEP_LOOP) {
            ls_text_printf(out, "body of step %d:\n", i);
            print_groups(out, &step->loop->body);
            ls_text_printf(out, "end of the body of step %d\n", i);
        }
    }
}

static void print_kernels(ls_text *out, const ls_block *block, unsigned parts) {
    for (int i = 0; i < block->n_steps; i++) {
        const ls_step *step = &block->steps[i];
        if (step->kind == LS_STEP_LOOP) {
            print_kernels(out, &step->loop->body, parts);
        }
        if (step->kind != LS_STEP_KERNEL) {
            continue;
        }
        if (parts & LS_INSPECT_SPECS) {
            ls_spec_print(out, step->spec);
            ls_text_add(out, "\n");
        }
        if (parts & LS_INSPECT_KERNELS) {
            ls_text_printf(out, "kernel %s on %s\n", step->spec->name, step->device->id);
            if (step->device->backend->describe) {
                step->device->backend->describe(step->kernel->binary, out);
            }
            ls_text_add(out, "\n");
        }
    }
}

static const char *bind_kind(const ls_exec *exec, int bind) {
    return bind < exec->n_leaves                     ? "leaf"
           : bind < exec->first_root                 ? "variable"
           : bind < exec->first_root + exec->n_roots ? "root"
           : exec->block.n_arenas && bind >= exec->block.arenas[0].bind &&
                   bind < exec->block.arenas[0].bind + exec->block.n_arenas
               ? "arena"
               : "loop";
}

static void print_place(ls_text *out, const ls_exec *exec, const ls_val *val, ls_place place) {
    if (!val) {
        ls_text_add(out, " -");
        return;
    }
    ls_text_printf(out, " %s%d+%zu:%zu", bind_kind(exec, place.bind), place.bind, place.offset, val->bytes);
}

static void print_memory(ls_text *out, const ls_exec *exec, const ls_block *block) {
    static const char *const names[] = {"kernel", "copy", "loop"};
    for (int i = 0; i < block->n_arenas; i++) {
        ls_text_printf(out, "arena %d on %s: %zu bytes\n", block->arenas[i].bind, block->arenas[i].device->id,
                       block->arenas[i].bytes);
    }
    for (int i = 0; i < block->n_steps; i++) {
        const ls_step *step = &block->steps[i];
        ls_text_printf(out, "step %d %s %s on %s:", i, names[step->kind],
                       step->kind == LS_STEP_KERNEL ? step->spec->name : "", step->device->id);
        for (int j = 0; j < step->n_args; j++) {
            ls_text_add(out, j == step->n_reads ? " ->" : "");
            print_place(out, exec, step->vals[j], step->args[j]);
        }
        ls_text_add(out, "\n");
        if (step->kind == LS_STEP_LOOP) {
            ls_text_printf(out, "body of step %d:\n", i);
            print_memory(out, exec, &step->loop->body);
            ls_text_printf(out, "end of the body of step %d\n", i);
        }
    }
}

static void print_graph(ls_text *out, const ls_exec *exec) {
    ls_tensor **roots = ls_alloc(out->heap, sizeof *roots * (size_t)(exec->n_roots + exec->n_assigns + 1));
    if (!roots) {
        out->failed = true;
        return;
    }
    for (int i = 0; i < exec->n_roots + exec->n_assigns; i++) {
        roots[i] = i < exec->n_roots ? exec->roots[i] : exec->assigns[i - exec->n_roots].value;
    }
    ls_graph_print(out, roots, exec->n_roots + exec->n_assigns);
    ls_free(out->heap, roots);
}

void ls_exec_print(ls_text *out, const ls_exec *exec, unsigned parts) {
    if (parts & LS_INSPECT_GRAPH) {
        print_graph(out, exec);
        ls_text_add(out, "\n");
    }
    if (parts & LS_INSPECT_GROUPS) {
        print_groups(out, &exec->block);
        ls_text_add(out, "\n");
    }
    if (parts & (LS_INSPECT_SPECS | LS_INSPECT_KERNELS)) {
        print_kernels(out, &exec->block, parts);
    }
    if (parts & LS_INSPECT_MEMORY) {
        print_memory(out, exec, &exec->block);
    }
}

static ls_status inspect(ls_session *session, ls_tensor *const *tensors, int count, unsigned parts,
                         ls_text *out, ls_error *err) {
    ls_session_forget_destroyed(session);
    const ls_pending *assigns = session->pending.data;
    int n_assigns = (int)session->pending.len;
    LS_TRY(err, ls_session_sync(session, err));
    if (session->graph.error.code != LS_OK) {
        *err = session->graph.error;
        return err->code;
    }
    for (int i = 0; i < count; i++) {
        if (!tensors[i] || tensors[i]->session != session) {
            return LS_FAIL(err, LS_ERR_INVALID, "tensor %d is %s", i,
                           tensors[i] ? "of another session" : "NULL");
        }
    }
    ls_graph_key key;
    LS_TRY(err, ls_graph_key_make(session, tensors, count, assigns, n_assigns, &key, err));
    ls_exec *exec;
    ls_status status = ls_exec_get(session, &key, tensors, count, assigns, n_assigns, &exec, err);
    ls_graph_key_free(session, &key);
    if (status == LS_OK) {
        ls_exec_print(out, exec, parts);
        status = out->failed ? LS_FAIL_MEMORY(err, "the text of a graph") : LS_OK;
    }
    return status;
}

ls_status ls_inspect(ls_session *session, ls_tensor *const *tensors, int count, unsigned parts,
                     ls_text_fn write, void *user) {
    ls_error err = {0};
    ls_text text;
    ls_text_init(&text, &session->context->heap);
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = inspect(session, tensors, count, parts, &text, &err);
    ls_numerics_leave(numerics);
    if (status == LS_OK && text.len) {
        write(user, text.data, text.len);
    }
    ls_text_free(&text);
    return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
}
