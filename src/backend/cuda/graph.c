/* Launches, and their replay by graphs. What is recorded between two reads, writes or flushes is a sequence. A sequence that
 * was seen before is held back while it repeats, command by command; when it ends as before, it goes to the driver as one
 * graph (made at the second time). Where it turns out to be another, what was held back is launched and the rest follows at
 * once. */
#include "backend/cuda/cuda.h"
#include <string.h>

enum { SHORTEST = 3, LONGEST = 8192, MAX_PARAMS = 192 };

static ls_status make_map(ls_cuda *c, const ls_ptx_map *m, ls_cu_address address, void *out_map,
                          ls_error *err) {
    const uint64_t sizes[2] = {(uint64_t)m->line, (uint64_t)m->lines}, stride = 2 * (uint64_t)m->line;
    const uint32_t box[2] = {(uint32_t)m->box_elements, (uint32_t)m->box_lines}, steps[2] = {1, 1};
    LS_CUDA_TRY(c, err, tensor_map, out_map, LS_CU_MAP_U16, 2, (void *)(uintptr_t)address, sizes, &stride,
                box, steps, 0, LS_CU_MAP_SWIZZLE_128, LS_CU_MAP_PROMOTE_256, 0);
    return LS_OK;
}

static ls_status launch(ls_cuda *c, const ls_cuda_sequence *s, const ls_cuda_command *k, ls_error *err) {
    void *params[MAX_PARAMS + 2];
    _Alignas(64) uint8_t maps[2][128];
    uint8_t *at = s->arguments.data + k->at;
    if (!k->pipeline) {
        ls_cu_address places[2];
        memcpy(places, at, sizeof places);
        return ls_cuda_check(c, c->api.copy(places[0], places[1], k->size, c->stream), ls_cuda_names.copy, err);
    }
    if (k->pipeline->product) {
        ls_cu_address places[3];
        memcpy(places, at, sizeof places);
        return ls_cuda_product_launch(c, k->pipeline->product, places, err);
    }
    for (int32_t i = 0; i < k->n_addresses; i++, at += sizeof(ls_cu_address)) {
        params[i] = at;
    }
    params[k->n_addresses] = at;
    for (int i = 0; i < k->pipeline->n_maps; i++) {
        const ls_ptx_map *m = &k->pipeline->maps[i];
        ls_cu_address address;
        memcpy(&address, s->arguments.data + k->at + (size_t)m->binding * sizeof address, sizeof address);
        LS_TRY(err, make_map(c, m, address, maps[i], err));
        params[k->n_addresses + (k->n_words > 0) + i] = maps[i];
    }
    ls_cu_result r = c->api.launch(k->pipeline->function, k->groups[0], k->groups[1], k->groups[2], k->block[0], k->block[1],
                                   k->block[2], k->pipeline->dynamic_shared, c->stream, params, NULL);
    return ls_cuda_check(c, r, ls_cuda_names.launch, err);
}

static ls_status launch_all(ls_cuda *c, const ls_cuda_sequence *s, ls_error *err) {
    for (size_t i = 0; i < s->commands.len; i++) {
        LS_TRY(err, launch(c, s, &s->commands.data[i], err));
    }
    return LS_OK;
}

/* ---- sequences ---- */

static void sequence_empty(ls_cuda_sequence *s) {
    s->commands.len = s->arguments.len = 0;
}

static void sequence_free(ls_cuda *c, ls_cuda_sequence *s) {
    if (s->exec) {
        (void)c->api.graph_exec_destroy(s->exec);
    }
    ls_array_free(c->heap, &s->commands);
    ls_array_free(c->heap, &s->arguments);
}

void ls_cuda_forget(ls_cuda *c, const ls_cuda_pipeline *pipeline) {
    for (int i = 0; i < LS_CUDA_SEQUENCES; i++) {
        ls_cuda_sequence *s = c->known[i];
        bool has = s && !pipeline;
        for (size_t k = 0; s && k < s->commands.len && !has; k++) {
            has = s->commands.data[k].pipeline == pipeline;
        }
        if (has) {
            sequence_free(c, s);
            ls_free(c->heap, s);
            c->known[i] = NULL;
        }
    }
    c->candidate = NULL;
    if (!pipeline) {
        sequence_free(c, &c->now);
    }
}

/* Whether command k and its arguments are the same in both. */
static bool same_command(const ls_cuda_sequence *a, const ls_cuda_sequence *b, size_t k) {
    const ls_cuda_command *x = &a->commands.data[k], *y = &b->commands.data[k];
    size_t bytes = (size_t)x->n_addresses * sizeof(ls_cu_address) + (size_t)x->n_words * 4;
    return memcmp(x, y, sizeof *x) == 0 && memcmp(a->arguments.data + x->at, b->arguments.data + y->at, bytes) == 0;
}

/* A known sequence that begins with all of `now`; of several the one that ran last. */
static ls_cuda_sequence *find_candidate(ls_cuda *c) {
    ls_cuda_sequence *best = NULL;
    for (int i = 0; i < LS_CUDA_SEQUENCES; i++) {
        ls_cuda_sequence *s = c->known[i];
        size_t n = c->now.commands.len, k = n;
        if (!s || s->commands.len < n || (best && s->used < best->used)) {
            continue;
        }
        while (k && same_command(&c->now, s, k - 1)) {
            k--;
        }
        best = k ? best : s;
    }
    return best;
}

/* Keeps `now` for the next time, in place of what ran longest ago. Out of memory only forgets it. */
static void remember(ls_cuda *c) {
    int oldest = 0;
    for (int i = 0; i < LS_CUDA_SEQUENCES; i++) {
        if (!c->known[i]) {
            oldest = i;
            break;
        }
        oldest = c->known[i]->used < c->known[oldest]->used ? i : oldest;
    }
    ls_cuda_sequence *s = c->known[oldest];
    if (s) {
        if (s->exec) {
            (void)c->api.stream_synchronize(c->stream);
        }
        sequence_free(c, s);
    } else {
        s = ls_alloc(c->heap, sizeof *s);
    }
    if (s) {
        *s = c->now;
        s->used = ++c->clock;
        c->now = (ls_cuda_sequence){.exec = NULL};
    }
    c->known[oldest] = s;
}

/* ---- graphs ---- */

/* A graph is a convenience: where the driver makes none, commands are launched one by one. */
static ls_status make_graph(ls_cuda *c, ls_cuda_sequence *s, ls_error *err) {
    ls_cu_graph graph = NULL;
    s->refused = true;
    if (c->api.capture_begin(c->stream, LS_CU_CAPTURE_THREAD_LOCAL) != LS_CU_OK) {
        return LS_OK;
    }
    ls_error ignored = {.code = LS_OK};
    ls_status status = launch_all(c, s, &ignored);
    ls_cu_result r = c->api.capture_end(c->stream, &graph);
    if (c->lost) {
        return LS_FAIL(err, LS_ERR_DEVICE, "%s was lost: %s", c->id, c->lost_reason);
    }
    if (status == LS_OK && r == LS_CU_OK && c->api.graph_instantiate(&s->exec, graph, 0) == LS_CU_OK) {
        s->refused = false;
        c->graphs_made++;
    } else {
        s->exec = NULL;
    }
    if (graph) {
        (void)c->api.graph_destroy(graph);
    }
    return LS_OK;
}

static ls_status run_again(ls_cuda *c, ls_cuda_sequence *s, ls_error *err) {
    s->used = ++c->clock;
    if (!s->exec && !s->refused) {
        LS_TRY(err, make_graph(c, s, err));
    }
    if (!s->exec) {
        return launch_all(c, s, err);
    }
    c->graphs_run++;
    return ls_cuda_check(c, c->api.graph_launch(s->exec, c->stream), ls_cuda_names.graph_launch, err);
}

ls_status ls_cuda_settle(ls_cuda *c, ls_error *err) {
    ls_cuda_sequence *candidate = c->candidate;
    size_t n = c->now.commands.len;
    ls_status status = LS_OK;
    c->candidate = NULL;
    if (candidate && candidate->commands.len == n) {
        status = run_again(c, candidate, err);
    } else if (candidate) {
        status = launch_all(c, &c->now, err);
    }
    if (status == LS_OK && !(candidate && candidate->commands.len == n) && n >= SHORTEST && n < LONGEST) {
        remember(c);
    }
    sequence_empty(&c->now);
    return status;
}

/* ---- recording ---- */

static ls_status submit(ls_cuda *c, ls_error *err) {
    size_t n = c->now.commands.len;
    bool held = c->candidate || n == 1; /* the commands before this one */
    if (c->candidate && c->candidate->commands.len >= n && same_command(&c->now, c->candidate, n - 1)) {
        return LS_OK;
    }
    c->candidate = held ? find_candidate(c) : NULL;
    if (c->candidate) {
        return LS_OK;
    }
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = held ? launch_all(c, &c->now, err) : launch(c, &c->now, &c->now.commands.data[n - 1], err);
    if (n == LONGEST && status == LS_OK) { /* too long to be kept */
        status = ls_cuda_settle(c, err);
    }
    ls_cuda_leave(c);
    return status;
}

static ls_status record(ls_cuda *c, ls_cuda_command k, const ls_cu_address *addresses, const uint32_t *words, ls_error *err) {
    size_t bytes = (size_t)k.n_addresses * sizeof *addresses + (size_t)k.n_words * 4, room = (bytes + 7) / 8 * 8;
    if (c->lost) {
        return LS_FAIL(err, LS_ERR_DEVICE, "%s was lost: %s", c->id, c->lost_reason);
    }
    if (!ls_array_reserve(c->heap, &c->now.commands, 1) || !ls_array_reserve(c->heap, &c->now.arguments, room)) {
        return LS_FAIL_MEMORY(err, "a launch");
    }
    k.at = c->now.arguments.len;
    uint8_t *to = c->now.arguments.data + k.at;
    memcpy(to, addresses, (size_t)k.n_addresses * sizeof *addresses);
    if (k.n_words) {
        memcpy(to + (size_t)k.n_addresses * sizeof *addresses, words, (size_t)k.n_words * 4);
    }
    c->now.arguments.len += room;
    c->now.commands.data[c->now.commands.len++] = k;
    c->recorded = true;
    ls_status status = submit(c, err);
    if (status != LS_OK) {
        c->candidate = NULL;
        sequence_empty(&c->now);
    }
    return status;
}

/* With a timer, a sequence of its own, between two events. */
static ls_status record_timed(ls_cuda *c, ls_cuda_command k, const ls_cu_address *addresses, const uint32_t *words, int32_t timer,
                              ls_error *err) {
    if (timer) {
        LS_TRY(err, ls_cuda_stamp(c, timer - 1, 0, err));
    }
    LS_TRY(err, record(c, k, addresses, words, err));
    return timer ? ls_cuda_stamp(c, timer - 1, 1, err) : LS_OK;
}

ls_status ls_cuda_dispatch(void *driver, const ls_gpu_dispatch *d, ls_error *err) {
    ls_cu_address addresses[MAX_PARAMS];
    const int32_t *w = d->kernel->workgroup;
    ls_cuda_command k = {.pipeline = d->pipeline,
                         .groups = {d->groups[0], d->groups[1], d->groups[2]},
                         .block = {(uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2]},
                         .n_addresses = d->kernel->n_globals,
                         .n_words = d->n_words};
    for (int32_t i = 0; i < k.n_addresses; i++) { /* at most limits.max_bindings */
        addresses[i] = (ls_cu_address)(uintptr_t)d->bindings[i].block + d->bindings[i].offset;
    }
    return record_timed(driver, k, addresses, d->words, d->timer, err);
}

ls_status ls_cuda_run_product(void *driver, void *pipeline, const ls_gpu_range places[3], int32_t timer, ls_error *err) {
    ls_cu_address addresses[3];
    const ls_cuda_command k = {.pipeline = pipeline, .n_addresses = 3};
    for (int i = 0; i < 3; i++) {
        addresses[i] = (ls_cu_address)(uintptr_t)places[i].block + places[i].offset;
    }
    return record_timed(driver, k, addresses, NULL, timer, err);
}

ls_status ls_cuda_copy(void *driver, void *to, size_t to_offset, void *from, size_t from_offset, size_t size, ls_error *err) {
    const ls_cu_address places[2] = {(ls_cu_address)(uintptr_t)to + to_offset, (ls_cu_address)(uintptr_t)from + from_offset};
    const ls_cuda_command k = {.n_addresses = 2, .size = size};
    return size ? record(driver, k, places, NULL, err) : LS_OK;
}
