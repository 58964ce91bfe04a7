/* Programs: a compiled graph with memory of its own, so that every address is the same at each run. Inputs
 * are uploaded to stable buffers, variables are read and written where they stand. */
#include "engine/exec.h"
#include <lockstep/inspect.h>
#include <string.h>

struct ls_program {
    ls_session *session;
    ls_exec *exec;
    ls_arena arena;
    int n_leaves, n_inputs, n_outputs, n_assigns;
    ls_buffer **leaves;  /* retained, by bind */
    int *input_binds;    /* -1: the graph does not read it */
    bool *carried;       /* inputs that the next run finds in place */
    ls_tensor **inputs;  /* retained */
    ls_tensor **outputs; /* retained */
    ls_buffer **values;  /* of outputs */
    ls_var **assigned;
    ls_buffer **storages; /* of assigned variables, retained */
    ls_arena_list arenas;
    uint64_t runs, launches;
    bool ran; /* a late device has not given all outputs of the last run */
};

static ls_status check_inputs(ls_session *session, ls_tensor *const *inputs, int n_inputs,
                              ls_tensor *const *outputs, int n_outputs, ls_error *err) {
    if (session->graph.error.code != LS_OK) {
        *err = session->graph.error;
        return err->code;
    }
    if (n_inputs < 0 || n_outputs < 0) {
        return LS_FAIL(err, LS_ERR_INVALID, "a program of %d inputs and %d outputs: expected 0 or more", n_inputs, n_outputs);
    }
    for (int i = 0; i < n_inputs; i++) {
        if (!inputs[i] || inputs[i]->session != session || inputs[i]->op != LS_OP_INPUT) {
            return LS_FAIL(err, LS_ERR_INVALID, "input %d of a program is not from ls_input in this session",
                           i);
        }
        for (int j = 0; j < i; j++) {
            if (inputs[j] == inputs[i]) {
                return LS_FAIL(err, LS_ERR_INVALID, "input \"%s\" of a program is given twice",
                               inputs[i]->label);
            }
        }
    }
    for (int i = 0; i < n_outputs; i++) {
        if (!outputs[i] || outputs[i]->session != session) {
            return LS_FAIL(err, LS_ERR_INVALID, "output %d of a program is %s", i,
                           outputs[i] ? "of another session" : "NULL");
        }
    }
    return LS_OK;
}

static ls_status alloc_tables(ls_program *p, ls_error *err) {
    ls_arena *arena = &p->arena;
    p->leaves = LS_ARENA_ARRAY(arena, ls_buffer *, p->n_leaves);
    p->input_binds = LS_ARENA_ARRAY(arena, int, p->n_inputs);
    p->carried = LS_ARENA_ARRAY(arena, bool, p->n_inputs);
    p->inputs = LS_ARENA_ARRAY(arena, ls_tensor *, p->n_inputs);
    p->outputs = LS_ARENA_ARRAY(arena, ls_tensor *, p->n_outputs);
    p->values = LS_ARENA_ARRAY(arena, ls_buffer *, p->n_outputs);
    p->assigned = LS_ARENA_ARRAY(arena, ls_var *, p->n_assigns);
    p->storages = LS_ARENA_ARRAY(arena, ls_buffer *, p->n_assigns);
    bool ok =
        p->leaves && p->input_binds && p->carried && p->inputs && p->outputs && p->values && p->assigned && p->storages;
    return ok ? LS_OK : LS_FAIL_MEMORY(err, "a program");
}

static ls_status bind_leaves(ls_program *p, const ls_graph_key *key, ls_tensor *const *inputs,
                             ls_error *err) {
    for (int i = 0; i < p->n_inputs; i++) {
        p->inputs[i] = ls_retain(inputs[i]);
        p->input_binds[i] = -1;
    }
    for (int i = 0; i < p->n_leaves; i++) {
        const ls_tensor *leaf = key->leaves.data[i];
        int input = 0;
        while (input < p->n_inputs && inputs[input] != leaf) {
            input++;
        }
        if (input < p->n_inputs) {
            p->input_binds[input] = i;
            LS_TRY(err, ls_buffer_create(leaf->device, ls_shape_bytes(leaf->dtype, &leaf->shape, NULL),
                                         &p->leaves[i], err));
            continue;
        }
        if (leaf->op == LS_OP_INPUT) {
            return LS_FAIL(err, LS_ERR_INVALID, "input \"%s\" is used but is not among the program's inputs",
                           leaf->label);
        }
        ls_buffer *buffer;
        LS_TRY(err, ls_leaf_buffer(p->session, leaf, &buffer, err));
        p->leaves[i] = ls_buffer_retain(buffer);
    }
    return LS_OK;
}

/* All that a run finds in place. Arenas too: they are the program's alone. */
static ls_status bind_all(ls_program *p, ls_tensor *const *outputs, ls_error *err) {
    ls_exec *exec = p->exec;
    for (int i = 0; i < p->n_leaves; i++) {
        exec->binds[i] = (ls_binding){p->leaves[i], 0};
    }
    for (int i = 0; i < p->n_assigns; i++) {
        p->assigned[i] = p->session->pending.data[i].var;
        p->storages[i] = ls_buffer_retain(p->assigned[i]->storage);
        exec->binds[exec->assigns[i].bind] = (ls_binding){p->storages[i], 0};
    }
    for (int i = 0; i < p->n_outputs; i++) {
        const ls_tensor *root = exec->roots[i];
        p->outputs[i] = ls_retain(outputs[i]);
        LS_TRY(err, ls_buffer_create(root->device ? root->device : p->session->graph.device,
                                     ls_shape_bytes(root->dtype, &root->shape, NULL), &p->values[i], err));
        exec->binds[exec->first_root + i] = (ls_binding){p->values[i], 0};
    }
    return ls_exec_bind_arenas(exec, &p->arenas, err);
}

static ls_status program_fill(ls_program *p, const ls_graph_key *key, ls_tensor *const *inputs,
                              ls_tensor *const *outputs, ls_error *err) {
    ls_session *session = p->session;
    LS_TRY(err, alloc_tables(p, err));
    LS_TRY(err, bind_leaves(p, key, inputs, err));
    LS_TRY(err, ls_exec_compile(session, key, outputs, p->n_outputs, session->pending.data, p->n_assigns,
                                &p->exec, err));
    LS_TRY(err, bind_all(p, outputs, err));
    ls_session_clear_pending(session); /* they are the program's now */
    return LS_OK;
}

static ls_status compile(ls_session *session, ls_tensor *const *inputs, int n_inputs,
                         ls_tensor *const *outputs, int n_outputs, ls_program **out_program, ls_error *err) {
    LS_TRY(err, ls_session_sync(session, err));
    LS_TRY(err, check_inputs(session, inputs, n_inputs, outputs, n_outputs, err));
    LS_TRY(err, ls_constants_compute(session, outputs, n_outputs, err));
    ls_graph_key key;
    ls_session_forget_destroyed(session);
    int n_assigns = (int)session->pending.len;
    LS_TRY(err, ls_graph_key_make(session, outputs, n_outputs, session->pending.data, n_assigns, &key, err));
    ls_program *p = ls_alloc_zeroed(&session->context->heap, sizeof *p);
    ls_status status = LS_OK;
    if (p) {
        *p = (ls_program){.session = session,
                          .n_leaves = (int)key.leaves.len,
                          .n_inputs = n_inputs,
                          .n_outputs = n_outputs,
                          .n_assigns = n_assigns};
        ls_arena_init(&p->arena, &session->context->heap);
        status = program_fill(p, &key, inputs, outputs, err);
    } else {
        status = LS_FAIL_MEMORY(err, "a program");
    }
    ls_graph_key_free(session, &key);
    if (status != LS_OK) {
        ls_program_destroy(p);
        return LS_FORWARD(err, status);
    }
    *out_program = p;
    return LS_OK;
}

ls_status ls_program_compile(ls_session *session, ls_tensor *const *inputs, int n_inputs,
                             ls_tensor *const *outputs, int n_outputs, ls_program **out_program) {
    ls_error err = {0};
    *out_program = NULL;
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = compile(session, inputs, n_inputs, outputs, n_outputs, out_program, &err);
    ls_numerics_leave(numerics);
    return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
}

void ls_program_destroy(ls_program *program) {
    if (program) {
        ls_heap *heap = program->arena.heap;
        for (int i = 0; program->leaves && i < program->n_leaves; i++) {
            ls_buffer_release(program->leaves[i]);
        }
        for (int i = 0; program->inputs && i < program->n_inputs; i++) {
            ls_release(program->inputs[i]);
        }
        for (int i = 0; program->values && i < program->n_outputs; i++) {
            ls_release(program->outputs[i]);
            ls_buffer_release(program->values[i]);
        }
        for (int i = 0; program->storages && i < program->n_assigns; i++) {
            ls_buffer_release(program->storages[i]);
        }
        ls_arena_list_free(heap, &program->arenas);
        ls_exec_free(program->exec);
        ls_arena_free(&program->arena);
        ls_free(heap, program);
    }
}

/* ---- runs ---- */

static ls_status upload_inputs(ls_program *p, const void *const *inputs, ls_error *err) {
    for (int i = 0; i < p->n_inputs; i++) {
        const ls_tensor *input = p->inputs[i];
        if (p->input_binds[i] < 0 || (p->carried[i] && inputs && !inputs[i])) {
            continue;
        }
        if (!inputs || (!inputs[i] && ls_shape_numel(&input->shape, p->session->symbols) > 0)) {
            return LS_FAIL(err, LS_ERR_INVALID, "input \"%s\" of a program is NULL", input->label);
        }
        LS_TRY(err, ls_transfer_upload(p->leaves[p->input_binds[i]], input->dtype, &input->shape,
                                       p->session->symbols, inputs[i], err));
    }
    return LS_OK;
}

/* Values that were computed or given for other values of symbols must not enter. */
static ls_status check_stamps(const ls_program *p, ls_error *err) {
    for (int i = 0; i < p->n_leaves; i++) {
        const ls_buffer *leaf = p->leaves[i];
        if (leaf->symbols && leaf->stamp != ls_symbols_stamp(p->session, leaf->symbols)) {
            char text[LS_SHAPE_TEXT];
            return LS_FAIL(err, LS_ERR_SHAPE,
                           "a program's data of shape %s was given for other values of its symbols",
                           ls_shape_text(&p->exec->leaves[i]->shape, text));
        }
    }
    return LS_OK;
}

/* An index out of range is a status of its own: it read NaN, and all else is right. */
static ls_status launch(ls_program *p, const void *const *inputs, ls_status *out_range, ls_error *err) {
    LS_TRY(err, ls_session_sync(p->session, err));
    LS_TRY(err, ls_exec_report(p->session, err));
    LS_TRY(err, check_stamps(p, err));
    LS_TRY(err, upload_inputs(p, inputs, err));
    uint64_t before = p->session->kernels;
    ls_status status = ls_exec_run(p->exec, err);
    if (status == LS_ERR_AGAIN) {
        return status;
    }
    for (int i = 0; i < p->n_inputs; i++) { /* few or none: memset would be a string instruction, which takes longer */
        p->carried[i] = false;
    }
    p->runs++;
    p->launches += p->session->kernels - before;
    for (int i = 0; i < p->n_assigns; i++) {
        p->assigned[i]->version++;
    }
    *out_range = status == LS_ERR_RANGE ? status : LS_OK;
    return status == LS_ERR_RANGE ? LS_OK : status;
}

/* LS_ERR_AGAIN after all of them were asked for. */
static ls_status download_outputs(const ls_program *p, void *const *outputs, ls_error *err) {
    ls_status late = LS_OK;
    for (int i = 0; outputs && i < p->n_outputs; i++) {
        ls_status one = !outputs[i]
                            ? LS_OK
                            : ls_transfer_download(p->values[i], p->outputs[i]->dtype, &p->outputs[i]->shape,
                                                   p->session->symbols, outputs[i], err);
        if (one != LS_OK && one != LS_ERR_AGAIN) {
            return one;
        }
        late = one == LS_OK ? late : one;
    }
    return late;
}

static ls_status run(ls_program *p, const void *const *inputs, void *const *outputs, ls_error *err) {
    ls_status range = LS_OK;
    if (!p->ran) {
        LS_TRY(err, launch(p, inputs, &range, err));
    }
    ls_status status = download_outputs(p, outputs, err);
    status = status == LS_OK ? ls_exec_report(p->session, err) : status;
    p->ran = status == LS_ERR_AGAIN; /* then only this is done again */
    return status == LS_OK ? range : status;
}

ls_status ls_program_run(ls_program *program, const void *const *inputs, void *const *outputs) {
    ls_error err;
    /* Three members make an empty record; clearing it whole would take longer than a small kernel. */
    err.code = LS_OK;
    err.message[0] = 0;
    err.trail_len = 0;
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = run(program, inputs, outputs, &err);
    ls_numerics_leave(numerics);
    return status == LS_OK ? LS_OK : ls_session_fail(program->session, status, &err);
}

/* ---- outputs that stay on the device ---- */

static ls_status check_output(const ls_program *p, int output, ls_error *err) {
    return output >= 0 && output < p->n_outputs && p->runs > 0
               ? LS_OK
               : LS_FAIL(err, LS_ERR_INVALID, "output %d of a program that has %d outputs and %s run", output, p->n_outputs,
                         p->runs ? "has" : "has not");
}

static ls_status read_output(ls_program *p, int output, void *data, size_t size, ls_error *err) {
    LS_TRY(err, check_output(p, output, err));
    LS_TRY(err, ls_session_sync(p->session, err));
    const ls_tensor *t = p->outputs[output];
    size_t expected = ls_shape_bytes(t->dtype, &t->shape, p->session->symbols);
    if (size != expected) {
        return LS_FAIL(err, LS_ERR_INVALID, "output %d of a program read into %zu bytes, expected %zu", output, size, expected);
    }
    return ls_transfer_download(p->values[output], t->dtype, &t->shape, p->session->symbols, data, err);
}

ls_status ls_program_read(ls_program *program, int output, void *data, size_t size) {
    ls_error err = {0};
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = read_output(program, output, data, size, &err);
    ls_numerics_leave(numerics);
    return status == LS_OK ? LS_OK : ls_session_fail(program->session, status, &err);
}

static ls_status carry(ls_program *from, int output, ls_program *to, int input, ls_error *err) {
    LS_TRY(err, check_output(from, output, err));
    if (input < 0 || input >= to->n_inputs || from->session != to->session) {
        return LS_FAIL(err, LS_ERR_INVALID, "output %d is carried to input %d of a program %s", output, input,
                       from->session != to->session ? "of another session" : "that has no such input");
    }
    const ls_tensor *have = from->outputs[output], *want = to->inputs[input];
    ls_buffer *value = from->values[output];
    if (have->dtype != want->dtype || have->shape.rank != want->shape.rank || value->device != want->device) {
        char a[LS_SHAPE_TEXT], b[LS_SHAPE_TEXT];
        return LS_FAIL(err, LS_ERR_SHAPE, "output %d, %s %s on %s, is carried to input \"%s\", %s %s on %s", output, ls_dtype_name(have->dtype),
                       ls_shape_text(&have->shape, a), value->device->id, want->label, ls_dtype_name(want->dtype),
                       ls_shape_text(&want->shape, b), want->device->id);
    }
    LS_TRY(err, ls_session_sync(to->session, err));
    if (to->input_binds[input] >= 0) {
        LS_TRY(err, ls_transfer_copy(to->leaves[to->input_binds[input]], &want->shape, value, &have->shape, want->dtype, to->session->symbols, err));
    }
    to->carried[input] = true;
    return LS_OK;
}

ls_status ls_program_carry(ls_program *from, int output, ls_program *to, int input) {
    ls_error err = {0};
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = carry(from, output, to, input, &err);
    ls_numerics_leave(numerics);
    return status == LS_OK ? LS_OK : ls_session_fail(to->session, status, &err);
}

/* ---- looking in ---- */

static void count_block(const ls_block *block, ls_program_stats *out) {
    for (int i = 0; i < block->n_steps; i++) {
        const ls_step *step = &block->steps[i];
        out->kernels += step->kind == LS_STEP_KERNEL;
        out->copies += step->kind == LS_STEP_COPY;
        out->kernel_ns += step->profile.nanoseconds;
        if (step->kind == LS_STEP_LOOP) {
            out->loops++;
            count_block(&step->loop->body, out);
        }
    }
    for (int i = 0; i < block->n_vals; i++) {
        out->separate_bytes += block->vals[i]->fixed ? 0 : block->vals[i]->bytes;
    }
}

ls_program_stats ls_program_get_stats(const ls_program *program) {
    const ls_exec *exec = program->exec;
    ls_program_stats stats = {.runs = program->runs, .launches = program->launches, .host_ns = exec->host_ns};
    for (int i = 0; i < exec->block.n_arenas; i++) {
        stats.temporary_bytes += exec->block.arenas[i].bytes;
    }
    count_block(&exec->block, &stats);
    return stats;
}

void ls_program_set_profile(ls_program *program, int on) {
    program->exec->profile = on != 0;
}

/* Bytes of the arguments, and operations of the contractions, both nominal. */
static void count_work(const ls_spec *spec, ls_kernel_profile *out) {
    for (int i = 0; i < spec->n_args; i++) {
        out->bytes += (double)spec->args[i].numel * (double)ls_dtype_size(spec->args[i].dtype);
    }
    for (int i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        uint64_t axes = v->axes;
        double flops = 2;
        for (int b = 0; b < v->n_bound; b++) {
            axes |= UINT64_C(1) << v->bound[b];
        }
        for (int a = 0; a < spec->n_axes; a++) {
            flops *= axes >> a & 1 ? (double)ls_dim_bound(spec->extents_of_axes[a]) : 1;
        }
        out->flops += v->op == LS_V_CONTRACT ? flops : 0;
    }
}

static void each_kernel(const ls_block *block, ls_kernel_fn each, void *user) {
    for (int i = 0; i < block->n_steps; i++) {
        const ls_step *step = &block->steps[i];
        if (step->kind == LS_STEP_KERNEL) {
            const char *by = step->profile.strategy && step->profile.strategy[0] ? step->profile.strategy
                                                                                 : step->kernel->strategy;
            ls_kernel_profile p = {.kernel = step->spec->name,
                                   .device = step->device->id,
                                   .strategy = by,
                                   .clock = step->device->clock ? step->device->clock : "host",
                                   .launches = step->launches,
                                   .nanoseconds = step->profile.nanoseconds};
            count_work(step->spec, &p);
            each(user, &p);
        } else if (step->kind == LS_STEP_LOOP) {
            each_kernel(&step->loop->body, each, user);
        }
    }
}

void ls_program_kernels(const ls_program *program, ls_kernel_fn each, void *user) {
    each_kernel(&program->exec->block, each, user);
}

ls_status ls_strategy_list(ls_program *program, ls_strategy_fn each, void *user) {
    ls_error err = {0};
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = ls_block_strategies(&program->exec->block, each, user, &err);
    ls_numerics_leave(numerics);
    return status == LS_OK ? LS_OK : ls_session_fail(program->session, status, &err);
}

ls_status ls_program_inspect(ls_program *program, unsigned parts, ls_text_fn write, void *user) {
    ls_text text;
    ls_text_init(&text, program->arena.heap);
    ls_exec_print(&text, program->exec, parts);
    ls_status status = LS_OK;
    if (text.failed) {
        ls_error err = {0};
        status = ls_session_fail(program->session, LS_FAIL_MEMORY(&err, "the text of a program"), &err);
    } else if (text.len) {
        write(user, text.data, text.len);
    }
    ls_text_free(&text);
    return status;
}
