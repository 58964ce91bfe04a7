/* The hazard checker: runs a compiled graph's steps on paper. It knows, for every byte of every bind, which
 * node's value stands there, and demands that each step finds the values of its group's nodes where it reads
 * them, that what it writes overlaps nothing that it reads (but for element-by-element kernels in place) nor
 * another of its results, that no step leaves its buffers, and that at the end every root and every variable
 * holds what it should and every other leaf what it held.
 *
 * It shares no code with memory.c and believes nothing of what compile.c noted about lifetimes: it looks
 * at groups, specs and places alone. */
#include "engine/exec.h"

typedef struct span {
    size_t begin, end;
    const void *value; /* whose bytes: a node, or a mark of scratch */
} span;

typedef LS_ARRAY(span) spans;

typedef struct checker {
    const ls_exec *exec;
    ls_heap *heap;
    ls_error *err;
    spans *binds;
    size_t *sizes; /* of each bind */
    int step;
    const char *what;
} checker;

typedef struct range {
    int bind;
    size_t begin, end;
} range;

static ls_status fail(const checker *c, const char *problem, range r) {
    return LS_FAIL(c->err, LS_ERR_INTERNAL, "hazard at step %d (%s): %s (bind %d, bytes %zu to %zu)", c->step,
                   c->what, problem, r.bind, r.begin, r.end);
}

static bool overlap(range a, range b) {
    return a.bind == b.bind && a.begin < b.end && b.begin < a.end;
}

static ls_status range_of(const checker *c, ls_place place, size_t bytes, range *out) {
    *out = (range){place.bind, place.offset, place.offset + bytes};
    if (place.bind < 0 || place.bind >= c->exec->n_binds || out->end < out->begin ||
        out->end > c->sizes[place.bind]) {
        return fail(c, "a place is outside its buffer", *out);
    }
    return LS_OK;
}

static size_t node_bytes(const ls_tensor *node) {
    size_t bytes = ls_dtype_size(node->dtype);
    for (int i = 0; i < node->shape.rank; i++) {
        bytes *= (size_t)ls_dim_bound(node->shape.dim[i]);
    }
    return bytes;
}

/* From now on the range holds `value`. */
static ls_status put(checker *c, range r, const void *value) {
    spans *list = &c->binds[r.bind];
    if (r.begin == r.end) {
        return LS_OK;
    }
    if (!ls_array_reserve(c->heap, list, 2)) {
        return LS_FAIL_MEMORY(c->err, "the hazard check");
    }
    size_t kept = 0, n = list->len;
    span rest = {0};
    for (size_t i = 0; i < n; i++) {
        span s = list->data[i];
        if (s.end <= r.begin || s.begin >= r.end) {
            list->data[kept++] = s;
            continue;
        }
        if (s.begin < r.begin &&
            s.end > r.end) { /* cut in two: the only case that adds one, and it is the last to meet r */
            rest = (span){r.end, s.end, s.value};
            list->data[kept++] = (span){s.begin, r.begin, s.value};
        } else if (s.begin < r.begin) {
            list->data[kept++] = (span){s.begin, r.begin, s.value};
        } else if (s.end > r.end) {
            list->data[kept++] = (span){r.end, s.end, s.value};
        }
    }
    list->len = kept;
    if (rest.end) {
        list->data[list->len++] = rest;
    }
    list->data[list->len++] = (span){r.begin, r.end, value};
    return LS_OK;
}

static ls_status expect(const checker *c, range r, const void *value, const char *problem) {
    const spans *list = &c->binds[r.bind];
    size_t covered = 0;
    for (size_t i = 0; i < list->len; i++) {
        span s = list->data[i];
        size_t begin = s.begin > r.begin ? s.begin : r.begin, end = s.end < r.end ? s.end : r.end;
        if (begin < end) {
            if (s.value != value) {
                return fail(c, problem, r);
            }
            covered += end - begin;
        }
    }
    return covered == r.end - r.begin ? LS_OK : fail(c, problem, r);
}

/* Whether a value is computed from a load of an argument. */
static bool computed_from(const ls_spec *spec, int32_t value, int read) {
    const ls_value *v = &spec->values[value];
    const int32_t from[] = {v->a, v->b, v->c};
    bool any = v->op == LS_V_LOAD && v->arg == read;
    for (int i = 0; i < 3 && !any; i++) {
        any = from[i] != LS_SPEC_NONE && computed_from(spec, from[i], read);
    }
    return any;
}

/* Whether every point of a kernel reads no element of an argument but the one that it stores, and not after it did: as an operand of what is
 * summed it may be read for another point, and for a result that is stored later. */
static bool reads_own_element_only(const ls_step *step, int read, int written) {
    const ls_spec *spec = step->spec;
    int32_t element = LS_SPEC_NONE;
    bool same = ls_dtype_size(spec->args[read].dtype) == ls_dtype_size(spec->args[written].dtype), after = false;
    bool simple = spec->n_stores == 1 && spec->kind == LS_GROUP_POINTWISE;
    for (int i = 0; i < spec->n_stores; i++) {
        same = same && spec->stores[i].combine == LS_STORE_SET && !(after && computed_from(spec, spec->stores[i].value, read));
        if (spec->stores[i].arg == written) {
            element = spec->stores[i].ix;
            after = true;
        }
    }
    for (int i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        bool elsewhere = v->op == LS_V_LOAD && v->arg == read && v->ix != element;
        simple = simple && v->n_bound == 0;
        same = same && !elsewhere && (v->n_bound == 0 || (v->op == LS_V_CONTRACT && !computed_from(spec, i, read)));
    }
    for (int i = 0; i < spec->n_ix && !simple; i++) {
        same = same && spec->ix[i].op != LS_IX_VALUE;
    }
    return same && after && (simple || (step->device->fused_updates &&
                                        (spec->kind == LS_GROUP_POINTWISE || spec->kind == LS_GROUP_CONTRACT)));
}

static ls_status check_kernel(checker *c, const ls_step *step) {
    const ls_group *group = step->group;
    c->what = step->spec->name;
    for (int i = 0; i < group->n_reads; i++) {
        range r;
        LS_TRY(c->err, range_of(c, step->args[i], node_bytes(group->reads[i]), &r));
        LS_TRY(c->err,
               expect(c, r, group->reads[i], "it reads something else than the value that its group reads"));
    }
    for (int i = 0; i < group->n_roots; i++) {
        range w, other;
        LS_TRY(c->err, range_of(c, step->args[group->n_reads + i], node_bytes(group->roots[i]), &w));
        for (int j = 0; j < group->n_reads; j++) {
            LS_TRY(c->err, range_of(c, step->args[j], node_bytes(group->reads[j]), &other));
            bool in_place = w.begin == other.begin && w.end == other.end &&
                            reads_own_element_only(step, j, group->n_reads + i);
            if (overlap(w, other) && !in_place) {
                return fail(c, "it writes what it reads elsewhere", w);
            }
        }
        for (int j = 0; j < i; j++) {
            LS_TRY(c->err, range_of(c, step->args[group->n_reads + j], node_bytes(group->roots[j]), &other));
            if (overlap(w, other)) {
                return fail(c, "two of its results overlap", w);
            }
        }
    }
    for (int i = 0; i < group->n_roots; i++) {
        range w;
        LS_TRY(c->err, range_of(c, step->args[group->n_reads + i], node_bytes(group->roots[i]), &w));
        LS_TRY(c->err, put(c, w, group->roots[i]));
    }
    return LS_OK;
}

/* A copy moves whatever one value stands at its source. */
static ls_status check_copy(checker *c, const ls_step *step) {
    size_t bytes = step->vals[0]->bytes;
    range from, to;
    c->what = "copy";
    LS_TRY(c->err, range_of(c, step->args[0], bytes, &from));
    LS_TRY(c->err, range_of(c, step->args[1], bytes, &to));
    if (overlap(from, to)) {
        return fail(c, "a copy onto itself", to);
    }
    if (bytes == 0) {
        return LS_OK;
    }
    const spans *list = &c->binds[from.bind];
    const void *value = NULL;
    for (size_t i = 0; i < list->len; i++) {
        if (list->data[i].begin <= from.begin && list->data[i].end > from.begin) {
            value = list->data[i].value;
        }
    }
    if (!value || step->vals[0]->bytes != step->vals[1]->bytes) {
        return fail(c, "it copies what was never written", from);
    }
    LS_TRY(c->err, expect(c, from, value, "it copies parts of several values"));
    /* A device copy makes the value of the node that asks for it. */
    const ls_tensor *made = step->vals[1]->node;
    bool device_copy = made && made->op == LS_OP_COPY && made->n_src == 1 && made->src[0] == value;
    return put(c, to, device_copy ? (const void *)made : value);
}

static ls_status check_block(checker *c, const ls_block *block);

/* One iteration stands for all: parameters hold their nodes, results must hold theirs at the end,
 * parameters must be as they were. */
static ls_status check_body(checker *c, const ls_loop_plan *loop, const ls_body *body) {
    int n_params = body->n_carry + body->n_xs + body->n_captures, n_results = body->n_carry + body->n_ys;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = -1; i < n_params; i++) {
            int bind = i < 0 ? loop->iteration_bind : loop->param_binds[i];
            const ls_tensor *param = i < 0 ? body->iteration : body->params[i];
            range r = {bind, 0, node_bytes(param)};
            c->sizes[bind] = r.end;
            LS_TRY(c->err, pass ? expect(c, r, param, "an iteration overwrote a parameter of its loop")
                                : put(c, r, param));
        }
        for (int i = 0; i < n_results; i++) {
            if (loop->result_binds[i] >= 0) {
                range r = {loop->result_binds[i], 0, node_bytes(body->results[i])};
                c->sizes[r.bind] = r.end;
                LS_TRY(c->err, pass ? expect(c, r, body->results[i], "an iteration did not leave its result")
                                    : LS_OK);
            }
        }
        LS_TRY(c->err, pass ? LS_OK : check_block(c, &loop->body));
    }
    return LS_OK;
}

static ls_status check_loop(checker *c, const ls_step *step) {
    const ls_loop_plan *loop = step->loop;
    const ls_tensor *node = NULL;
    for (int i = 0; i < step->group->n_roots; i++) {
        node = step->group->roots[i] ? step->group->roots[i]->src[0] : node;
    }
    const ls_body *body = node->attr.loop.body;
    int outer = c->step;
    c->what = "loop";
    range *ranges = ls_alloc_zeroed(c->heap, sizeof *ranges * (size_t)(step->n_args + 1));
    if (!ranges) {
        return LS_FAIL_MEMORY(c->err, "the hazard check");
    }
    ls_status status = LS_OK;
    int n_results = body->n_carry + body->n_ys;
    for (int i = 0; status == LS_OK && i < step->n_args; i++) {
        int w = i - step->n_reads, extra = w - n_results;
        bool result = w >= 0 && extra < 0;
        const ls_tensor *value = w < 0 ? node->src[i] : result ? step->group->roots[w] : NULL;
        const int carry = result ? w : extra;
        size_t bytes = value                    ? node_bytes(value)
                       : carry < body->n_carry  ? (loop->kept_in[carry] < 0 ? node_bytes(body->results[carry]) : 0)
                       : result                 ? 0
                       : extra == body->n_carry ? sizeof(int64_t)
                                                : loop->body.arenas[extra - body->n_carry - 1].bytes;
        if (!bytes) {
            continue;
        }
        status = range_of(c, step->args[i], bytes, &ranges[i]);
        if (status == LS_OK && w < 0) {
            status = expect(c, ranges[i], value, "it reads something else than its operand");
        }
        for (int j = 0; status == LS_OK && w >= 0 && j < i; j++) {
            if (overlap(ranges[i], ranges[j])) {
                status = fail(c, "a result or scratch of a loop overlaps another of its buffers", ranges[i]);
            }
        }
    }
    if (status == LS_OK) {
        status = check_body(c, loop, body);
        c->step = outer;
    }
    for (int i = step->n_reads; status == LS_OK && i < step->n_args; i++) {
        int w = i - step->n_reads;
        const ls_tensor *root = w < n_results ? step->group->roots[w] : NULL;
        status = put(c, ranges[i], root ? (const void *)root : (const void *)&step->args[i]);
    }
    ls_free(c->heap, ranges);
    return status;
}

static ls_status check_block(checker *c, const ls_block *block) {
    for (int i = 0; i < block->n_arenas; i++) {
        c->sizes[block->arenas[i].bind] = block->arenas[i].bytes;
        c->binds[block->arenas[i].bind].len = 0;
    }
    for (int s = 0; s < block->n_steps; s++) {
        const ls_step *step = &block->steps[s];
        c->step = s;
        LS_TRY(c->err, step->kind == LS_STEP_KERNEL ? check_kernel(c, step)
                       : step->kind == LS_STEP_COPY ? check_copy(c, step)
                                                    : check_loop(c, step));
    }
    return LS_OK;
}

static ls_status check_exec(checker *c) {
    const ls_exec *exec = c->exec;
    for (int i = 0; i < exec->n_leaves; i++) {
        c->sizes[i] = node_bytes(exec->leaves[i]);
        LS_TRY(c->err, put(c, (range){i, 0, c->sizes[i]}, exec->leaves[i]));
    }
    for (int i = 0; i < exec->n_roots; i++) {
        c->sizes[exec->first_root + i] = node_bytes(exec->roots[i]);
    }
    for (int i = 0; i < exec->n_assigns; i++) {
        if (exec->assigns[i].bind >= exec->n_leaves) {
            c->sizes[exec->assigns[i].bind] = node_bytes(exec->assigns[i].value);
        }
    }
    LS_TRY(c->err, check_block(c, &exec->block));
    c->step = exec->block.n_steps;
    c->what = "end";
    for (int i = 0; i < exec->n_roots; i++) {
        range r = {exec->first_root + i, 0, node_bytes(exec->roots[i])};
        LS_TRY(c->err, expect(c, r, exec->roots[i], "a root does not hold its value"));
    }
    for (int i = 0; i < exec->n_assigns; i++) {
        range r = {exec->assigns[i].bind, 0, node_bytes(exec->assigns[i].value)};
        LS_TRY(c->err, expect(c, r, exec->assigns[i].value, "a variable does not hold what was assigned"));
    }
    for (int i = 0; i < exec->n_leaves; i++) {
        bool assigned = false;
        for (int j = 0; j < exec->n_assigns; j++) {
            assigned = assigned || exec->assigns[j].bind == i;
        }
        range r = {i, 0, c->sizes[i]};
        LS_TRY(c->err, assigned ? LS_OK : expect(c, r, exec->leaves[i], "a leaf was overwritten"));
    }
    return LS_OK;
}

ls_status ls_hazard_check(ls_exec *exec, ls_error *err) {
    checker c = {.exec = exec, .heap = exec->arena.heap, .err = err, .what = "start"};
    size_t n = (size_t)exec->n_binds + 1;
    c.binds = ls_alloc_zeroed(c.heap, sizeof *c.binds * n);
    c.sizes = ls_alloc_zeroed(c.heap, sizeof *c.sizes * n);
    ls_status status = c.binds && c.sizes ? check_exec(&c) : LS_FAIL_MEMORY(err, "the hazard check");
    for (int i = 0; c.binds && i < exec->n_binds; i++) {
        ls_array_free(c.heap, &c.binds[i]);
    }
    ls_free(c.heap, c.binds);
    ls_free(c.heap, c.sizes);
    return status;
}
