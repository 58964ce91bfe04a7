/* Replays the steps of a compiled graph: per kernel, fills in the addresses of its arguments and launches.
 *
 * Check mode goes another way: before each kernel the hooks take a snapshot and what will be written is
 * poisoned, after it guard zones are looked at and the hooks compare. Neither order nor places differ from
 * an unchecked run. */
#include "base/os.h"
#include "engine/run.h"
#include <string.h>

static ls_binding resolve(const ls_run *run, ls_place place) {
    ls_binding b = run->exec->binds[place.bind];
    b.offset += place.offset;
    return b;
}

static struct ls_status_words *status_words(const ls_exec *exec, const ls_device *device) {
    for (int i = 0; i < exec->n_status; i++) {
        if (exec->status[i].device == device) {
            return &exec->status[i];
        }
    }
    return NULL;
}

static void fill_launch(const ls_run *run, const ls_step *step, ls_launch *launch) {
    const ls_exec *exec = run->exec;
    for (int i = 0; i < step->n_args; i++) {
        const ls_binding *b = &exec->binds[step->args[i].bind];
        exec->args[i] = b->buffer;
        exec->offsets[i] = b->buffer->base + b->offset + step->args[i].offset;
    }
    *launch = (ls_launch){
        .n_args = step->n_args, .args = exec->args, .offsets = exec->offsets, .symbols = run->symbols};
    if (step->status) {
        struct ls_status_words *words = status_words(exec, step->device);
        launch->status = words->buffer;
        launch->status_offset = words->buffer->base + (size_t)(step->status - 1) * LS_STATUS_STRIDE;
    }
}

static void note_range(ls_run *run, const ls_step *step, const ls_launch *launch) {
    if (launch->out_of_range && !run->range_step) {
        run->range_step = step;
        run->range_serial = (uint64_t)launch->out_of_range - 1;
    }
}

static ls_status run_kernel(ls_run *run, const ls_step *step, ls_launch_profile *profile) {
    ls_launch launch;
    fill_launch(run, step, &launch);
    launch.profile = profile;
    launch.dry = run->dry;
    if (run->dry && !step->device->late) {
        return LS_OK;
    }
    run->exec->session->kernels += !run->dry;
    ls_status status = step->device->backend->launch(step->device, step->kernel->binary, &launch, run->err);
    if (__builtin_expect(launch.out_of_range != 0, 0)) {
        note_range(run, step, &launch);
    }
    if (run->dry && status == LS_ERR_AGAIN) {
        run->unready = true;
        return LS_OK;
    }
    return status == LS_OK ? LS_OK : LS_FAIL(run->err, status, "kernel %s did not launch", step->spec->name);
}

static ls_status run_kernel_timed(ls_run *run, ls_step *step) {
    uint64_t begin = ls_os_nanoseconds();
    ls_status status = run_kernel(run, step, &step->profile);
    uint64_t spent = ls_os_nanoseconds() - begin;
    step->launches++;
    step->profile.nanoseconds += step->device->clock ? 0 : spent;
    run->launch_ns += spent;
    return status;
}

/* ---- check mode ---- */

/* NaN where a kernel will write, unless it reads there too. */
static ls_status poison_results(const ls_run *run, const ls_step *step) {
    for (int i = step->n_reads; i < step->n_args; i++) {
        bool in_place = false;
        for (int j = 0; j < step->n_reads; j++) {
            in_place = in_place || (step->args[j].bind == step->args[i].bind &&
                                    step->args[j].offset == step->args[i].offset);
        }
        ls_binding b = resolve(run, step->args[i]);
        if (!in_place) {
            LS_TRY(run->err, ls_buffer_fill(b.buffer, b.offset, LS_POISON, step->vals[i]->bytes, run->err));
        }
    }
    return LS_OK;
}

/* The gap that the memory plan leaves after each temporary. */
static ls_status check_gap(const ls_run *run, const ls_step *step, int arg, bool fill) {
    uint8_t gap[LS_MEMORY_GAP];
    ls_binding b = resolve(run, step->args[arg]);
    size_t end = b.offset + step->vals[arg]->bytes;
    if (step->vals[arg]->fixed) {
        return fill ? LS_OK : ls_buffer_check_guards(b.buffer, step->spec->name, run->err);
    }
    if (fill) {
        return ls_buffer_fill(b.buffer, end, LS_POISON, sizeof gap, run->err);
    }
    LS_TRY(run->err, ls_buffer_download(b.buffer, end, gap, sizeof gap, run->err));
    for (size_t i = 0; i < sizeof gap; i++) {
        if (gap[i] != LS_POISON) {
            return LS_FAIL(run->err, LS_ERR_DIFFERS,
                           "kernel %s wrote %zu bytes after the end of its result of %zu bytes",
                           step->spec->name, i + 1, step->vals[arg]->bytes);
        }
    }
    return LS_OK;
}

static ls_status check_gaps(const ls_run *run, const ls_step *step, bool fill) {
    for (int i = step->n_reads; i < step->n_args; i++) {
        LS_TRY(run->err, check_gap(run, step, i, fill));
    }
    return LS_OK;
}

static ls_status run_kernel_checked(ls_run *run, const ls_step *step) {
    ls_launch launch;
    void *state = NULL;
    const ls_check_hooks *hooks = run->hooks;
    fill_launch(run, step, &launch);
    ls_check_event event = {.session = run->exec->session,
                            .level = run->check,
                            .device = step->device,
                            .spec = step->spec,
                            .group = step->group,
                            .launch = &launch,
                            .kernel = run->kernels++};
    if (hooks && hooks->before) {
        LS_TRY(run->err, hooks->before(&event, &state, run->err));
    }
    ls_status status = poison_results(run, step);
    if (status == LS_OK) {
        status = check_gaps(run, step, true);
    }
    if (status == LS_OK) {
        run->exec->session->kernels++;
        status = step->device->backend->launch(step->device, step->kernel->binary, &launch, run->err);
    }
    if (status == LS_OK) {
        status = check_gaps(run, step, false);
    }
    note_range(run, step, &launch);
    if (status != LS_OK) {
        if (hooks && hooks->drop) {
            hooks->drop(&event, state);
        }
        return LS_FAIL(run->err, status, "kernel %s did not run", step->spec->name);
    }
    return hooks && hooks->after ? hooks->after(&event, state, run->err) : LS_OK;
}

/* ---- copies and loops ---- */

static ls_status copy_binding(const ls_run *run, ls_binding from, ls_binding to, size_t bytes) {
    return run->dry ? LS_OK : ls_buffer_copy(to.buffer, to.offset, from.buffer, from.offset, bytes, run->err);
}

static ls_status run_block(ls_run *run, const ls_block *block);

static ls_binding advance(ls_binding b, size_t bytes) {
    return (ls_binding){b.buffer, b.offset + bytes};
}

/* Where iteration t leaves its part of y i. */
static ls_binding slice_of(const ls_run *run, const ls_step *step, int i, int64_t t) {
    const ls_loop_plan *loop = step->loop;
    return advance(resolve(run, step->args[step->n_reads + loop->n_carry + i]), (size_t)t * loop->strides[loop->n_xs + i]);
}

/* Results of carries that the last iteration did not write there. */
static ls_status end_carries(const ls_run *run, const ls_step *step, int64_t trip) {
    const ls_loop_plan *loop = step->loop;
    for (int i = 0; i < loop->n_carry; i++) {
        const int y = loop->kept_in[i];
        if (y < 0 ? trip <= 0 : step->group->roots[i] != NULL) {
            ls_binding from = trip <= 0 ? resolve(run, step->args[i]) : slice_of(run, step, y, trip - 1);
            LS_TRY(run->err, copy_binding(run, from, resolve(run, step->args[step->n_reads + i]), loop->carry_bytes[i]));
        }
    }
    return LS_OK;
}

static ls_status run_loop(ls_run *run, const ls_step *step) {
    const ls_loop_plan *loop = step->loop;
    ls_binding *binds = run->exec->binds;
    const ls_place *operands = step->args, *results = operands + step->n_reads;
    const ls_place *second = results + loop->n_carry + loop->n_ys, *number = second + loop->n_carry;
    int64_t trip = ls_dim_eval(loop->trip, run->symbols);
    if (trip <= 0) {
        return end_carries(run, step, trip);
    }
    binds[loop->iteration_bind] = resolve(run, number[0]);
    for (int i = 0; i < loop->body.n_arenas; i++) {
        binds[loop->body.arenas[i].bind] = resolve(run, number[1 + i]);
    }
    for (int i = 0; i < loop->n_captures; i++) {
        int at = loop->n_carry + loop->n_xs + i;
        binds[loop->param_binds[at]] = resolve(run, operands[at]);
    }
    for (int64_t t = 0; t < trip; t++) {
        bool to_result = (trip - 1 - t) % 2 == 0;
        for (int i = 0; i < loop->n_carry; i++) {
            const bool kept = loop->kept_in[i] >= 0;
            binds[loop->param_binds[i]] = t == 0 ? resolve(run, operands[i])
                                          : kept ? slice_of(run, step, loop->kept_in[i], t - 1)
                                                 : resolve(run, to_result ? second[i] : results[i]);
            if (!kept) {
                binds[loop->result_binds[i]] = resolve(run, to_result ? results[i] : second[i]);
            }
        }
        for (int i = 0; i < loop->n_xs; i++) {
            int at = loop->n_carry + i;
            binds[loop->param_binds[at]] = advance(resolve(run, operands[at]), (size_t)t * loop->strides[i]);
        }
        for (int i = 0; i < loop->n_ys; i++) {
            int at = loop->n_carry + i;
            if (loop->result_binds[at] >= 0) {
                binds[loop->result_binds[at]] = slice_of(run, step, i, t);
            }
        }
        ls_binding n = binds[loop->iteration_bind];
        LS_TRY(run->err, run->dry ? LS_OK : ls_buffer_upload(n.buffer, n.offset, &t, sizeof t, run->err));
        LS_TRY(run->err, run_block(run, &loop->body));
    }
    return end_carries(run, step, trip);
}

static ls_status run_block(ls_run *run, const ls_block *block) {
    for (int s = 0; s < block->n_steps; s++) {
        ls_step *step = &block->steps[s];
        ls_status status;
        if (step->kind == LS_STEP_KERNEL) {
            status = run->dry                      ? run_kernel(run, step, NULL)
                     : run->check != LS_CHECK_NONE ? run_kernel_checked(run, step)
                     : run->exec->profile          ? run_kernel_timed(run, step)
                                                   : run_kernel(run, step, NULL);
        } else if (step->kind == LS_STEP_COPY) {
            status = copy_binding(run, resolve(run, step->args[0]), resolve(run, step->args[1]),
                                  step->vals[0]->bytes);
        } else {
            status = run_loop(run, step);
        }
        if (__builtin_expect(status != LS_OK, 0)) {
            return LS_FORWARD(run->err, status);
        }
    }
    return LS_OK;
}

/* ---- out of range ---- */

/* The binary may be another graph's equal kernel: its serial is looked up in its own spec, and found again
 * in ours. */
static uint64_t our_serial(const ls_step *step, uint64_t serial) {
    const ls_spec *theirs = &step->kernel->spec, *ours = step->spec;
    for (int i = 0; i < theirs->n_values && i < ours->n_values; i++) {
        if (theirs->values[i].check != LS_SPEC_NONE && theirs->values[i].origin == serial) {
            return ours->values[i].origin;
        }
    }
    for (int i = 0; i < theirs->n_stores && i < ours->n_stores; i++) {
        if (theirs->stores[i].check != LS_SPEC_NONE && theirs->stores[i].origin == serial) {
            return ours->stores[i].origin;
        }
    }
    return serial;
}

static uint64_t serial_of_word(const ls_spec *spec, uint32_t word) {
    int at = (int)word - 1;
    return at < spec->n_values                    ? spec->values[at].origin
           : at < spec->n_values + spec->n_stores ? spec->stores[at - spec->n_values].origin
                                                  : 0;
}

static bool may_report(const ls_spec *spec) {
    bool any = false;
    for (int i = 0; i < spec->n_values; i++) {
        any = any || spec->values[i].check != LS_SPEC_NONE;
    }
    for (int i = 0; i < spec->n_stores; i++) {
        any = any || spec->stores[i].check != LS_SPEC_NONE;
    }
    return any;
}

/* Numbers the words of a block's steps, those of loops too. */
static void count_words(ls_exec *exec, ls_block *block) {
    for (int i = 0; i < block->n_steps; i++) {
        ls_step *step = &block->steps[i];
        if (step->kind == LS_STEP_LOOP) {
            count_words(exec, &step->loop->body);
        } else if (step->kind == LS_STEP_KERNEL && step->device->defers && may_report(step->spec)) {
            struct ls_status_words *words = status_words(exec, step->device);
            if (!words) {
                words = &exec->status[exec->n_status++];
                *words = (struct ls_status_words){.device = step->device};
            }
            step->status = ++words->count;
        }
    }
}

static int count_steps(const ls_block *block) {
    int n = block->n_steps;
    for (int i = 0; i < block->n_steps; i++) {
        n += block->steps[i].kind == LS_STEP_LOOP ? count_steps(&block->steps[i].loop->body) : 0;
    }
    return n;
}

ls_status ls_exec_bind_status(ls_exec *exec, ls_error *err) {
    exec->status = LS_ARENA_ARRAY(&exec->arena, struct ls_status_words, count_steps(&exec->block));
    if (!exec->status) {
        return LS_FAIL_MEMORY(err, "a compiled graph");
    }
    count_words(exec, &exec->block);
    for (int i = 0; i < exec->n_status; i++) {
        struct ls_status_words *words = &exec->status[i];
        size_t size = (size_t)words->count * LS_STATUS_STRIDE;
        LS_TRY(err, ls_buffer_create(words->device, size, &words->buffer, err));
    }
    return LS_OK;
}

static ls_status clear_status(const ls_run *run) {
    const ls_exec *exec = run->exec;
    for (int i = 0; i < exec->n_status; i++) {
        size_t size = (size_t)exec->status[i].count * LS_STATUS_STRIDE;
        LS_TRY(run->err, ls_buffer_fill(exec->status[i].buffer, 0, 0, size, run->err));
    }
    return LS_OK;
}

/* The first step of the block, in order, whose word is set. */
static void find_report(ls_run *run, const ls_block *block, const struct ls_status_words *of,
                        const uint8_t *words) {
    for (int i = 0; i < block->n_steps && !run->range_step; i++) {
        const ls_step *step = &block->steps[i];
        uint32_t word = 0;
        if (step->kind == LS_STEP_LOOP) {
            find_report(run, &step->loop->body, of, words);
        } else if (step->status && step->device == of->device) {
            memcpy(&word, words + (size_t)(step->status - 1) * LS_STATUS_STRIDE, sizeof word);
        }
        if (word) {
            run->range_step = step;
            run->range_serial = serial_of_word(&step->kernel->spec, word);
        }
    }
}

static ls_status read_status(ls_run *run) {
    const ls_exec *exec = run->exec;
    for (int i = 0; i < exec->n_status; i++) {
        size_t size = (size_t)exec->status[i].count * LS_STATUS_STRIDE;
        uint8_t *words = ls_alloc(exec->arena.heap, size);
        if (!words) {
            return LS_FAIL_MEMORY(run->err, "reports of indices out of range");
        }
        ls_status status = ls_buffer_download(exec->status[i].buffer, 0, words, size, run->err);
        if (status == LS_OK) {
            find_report(run, &exec->block, &exec->status[i], words);
        }
        ls_free(exec->arena.heap, words);
        LS_TRY(run->err, status);
    }
    return LS_OK;
}

static ls_status range_error(const ls_run *run) {
    uint64_t serial = our_serial(run->range_step, run->range_serial);
    const ls_exec *exec = run->exec;
    for (int i = 0; i < exec->n_nodes; i++) {
        const ls_tensor *node = exec->nodes[i];
        if (node->serial == serial && node->n_src >= 2) {
            char x[LS_SHAPE_TEXT], index[LS_SHAPE_TEXT];
            int axis = node->attr.axis.axis;
            return LS_FAIL(run->err, LS_ERR_RANGE,
                           "%s%s%s of %s along axis %d: one of the indices %s is out of range, expected 0 to %lld (in kernel %s)",
                           node->origin ? node->origin : "", node->origin ? ": " : "", ls_ops[node->op].name,
                           ls_shape_text(&node->src[0]->shape, x), axis, ls_shape_text(&node->src[1]->shape, index),
                           (long long)ls_dim_eval(node->src[0]->shape.dim[axis], run->symbols) - 1, run->range_step->spec->name);
        }
    }
    return LS_FAIL(run->err, LS_ERR_RANGE, "kernel %s met an index out of range",
                   run->range_step->spec->name);
}

/* ---- the whole ---- */

ls_status ls_exec_bind_arenas(ls_exec *exec, ls_arena_list *arenas, ls_error *err) {
    for (int i = 0; i < exec->block.n_arenas; i++) {
        const ls_arena_plan *plan = &exec->block.arenas[i];
        size_t at = 0;
        while (at < arenas->len && arenas->data[at]->device != plan->device) {
            at++;
        }
        if (at == arenas->len || arenas->data[at]->size < plan->bytes) {
            ls_buffer *buffer;
            if (!ls_array_reserve(exec->arena.heap, arenas, 1)) {
                return LS_FAIL_MEMORY(err, "temporaries");
            }
            if (at < arenas->len) { /* first, so that both never stand side by side */
                ls_buffer_release(arenas->data[at]);
                arenas->data[at] = arenas->data[--arenas->len];
            }
            LS_TRY(err, ls_buffer_create(plan->device, plan->bytes, &buffer, err));
            at = arenas->len++;
            arenas->data[at] = buffer;
        }
        exec->binds[plan->bind] = (ls_binding){arenas->data[at], 0};
    }
    return LS_OK;
}

void ls_arena_list_free(ls_heap *heap, ls_arena_list *arenas) {
    for (size_t i = 0; i < arenas->len; i++) {
        ls_buffer_release(arenas->data[i]);
    }
    ls_array_free(heap, arenas);
}

/* So that no launch of the run itself has to be repeated. */
static ls_status run_dry(ls_run *run) {
    run->dry = true;
    LS_TRY(run->err, run_block(run, &run->exec->block));
    run->dry = false;
    return run->unready ? LS_FAIL(run->err, LS_ERR_AGAIN, "kernels are still being compiled") : LS_OK;
}

static ls_status launch_all(ls_run *run) {
    ls_exec *exec = run->exec;
    LS_TRY(run->err, clear_status(run));
    ls_status status = run_block(run, &exec->block);
    if (status == LS_ERR_AGAIN && exec->n_assigns) {
        return LS_FAIL(run->err, LS_ERR_UNSUPPORTED,
                       "a run that assigns variables cannot be checked, nor copy from one device to another, "
                       "on a device that must "
                       "not be waited for");
    }
    return status;
}

static ls_status run_all(ls_run *run) {
    ls_exec *exec = run->exec;
    ls_device *device = exec->session->graph.device;
    if (device->late) {
        LS_TRY(run->err, run_dry(run));
    }
    uint64_t begin = exec->profile ? ls_os_nanoseconds() : 0;
    LS_TRY(run->err, launch_all(run));
    if (exec->profile) {
        exec->host_ns += ls_os_nanoseconds() - begin - run->launch_ns;
    }
    if (device->late && run->check == LS_CHECK_NONE) {
        exec->session->unreported = exec->n_status ? exec : NULL;
    } else if (exec->n_status) { /* a checked run is made again, whole, until it has all its answers */
        LS_TRY(run->err, read_status(run));
    }
    if (device->defers && device->backend->submit) { /* else it might never begin */
        LS_TRY(run->err, device->backend->submit(device, NULL, run->err));
    }
    return LS_OK;
}

/* Devices with clocks of their own tell what they measured when they are waited for. */
static ls_status wait_for_times(const ls_block *block, ls_error *err) {
    const ls_device *last = NULL;
    ls_status first = LS_OK;
    for (int i = 0; i < block->n_steps; i++) {
        const ls_step *step = &block->steps[i];
        ls_status status = LS_OK;
        if (step->kind == LS_STEP_LOOP) {
            status = wait_for_times(&step->loop->body, err);
        } else if (step->kind == LS_STEP_KERNEL && step->device->clock && step->device != last) {
            uint64_t ticket = 0;
            int done;
            last = step->device;
            status = last->backend->submit(step->device, &ticket, err);
            ls_status waited =
                last->backend->wait(step->device, ticket, 1, &done, status == LS_OK ? err : NULL);
            status = status == LS_OK ? waited : status;
        }
        first = first == LS_OK ? status : first;
    }
    return first;
}

ls_status ls_exec_report(ls_session *session, ls_error *err) {
    ls_exec *exec = session->unreported;
    if (!exec) {
        return LS_OK;
    }
    ls_run run = {.exec = exec, .symbols = session->symbols, .err = err};
    LS_TRY(err, read_status(&run));
    session->unreported = NULL;
    return run.range_step ? range_error(&run) : LS_OK;
}

static ls_status check_extents(const ls_exec *exec, ls_error *err) {
    for (const struct ls_low_extent *e = exec->low_extents; e; e = e->next) {
        int64_t extent = ls_dim_eval(e->dim, exec->session->symbols);
        if (extent < 0) {
            return LS_FAIL(err, LS_ERR_SHAPE, "%s: an extent is %lld where symbol %s is %lld: expected at least 0", ls_ops[e->op].name,
                           (long long)extent, e->dim.symbol->name, (long long)exec->session->symbols[e->dim.symbol->index]);
        }
    }
    return LS_OK;
}

ls_status ls_exec_run(ls_exec *exec, ls_error *err) {
    ls_session *session = exec->session;
    LS_TRY(err, check_extents(exec, err));
    ls_run run = {
        .exec = exec, .symbols = session->symbols, .err = err, .check = ls_context_check(session->context)};
    run.hooks = atomic_load(&session->context->hooks);
    if (session->check > run.check) { /* a verified run */
        run.check = session->check;
        run.hooks = ls_default_check_hooks;
    }
    for (int i = 0; i < exec->n_assigns; i++) {
        LS_TRY(err, ls_buffer_own(exec->binds[exec->assigns[i].bind].buffer, err));
    }
    ls_status status = run_all(&run);
    if (exec->profile) { /* whatever came of the run: launches must not go on counting into its steps */
        ls_status timed = wait_for_times(&exec->block, status == LS_OK ? err : NULL);
        status = status == LS_OK ? timed : status;
    }
    LS_TRY(err, status);
    return run.range_step ? range_error(&run) : LS_OK;
}
