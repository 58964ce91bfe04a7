/* Interpreting graphs: the model's own, subgraphs, and the bodies of functions. */
#include "io/onnx/frame.h"
#include <string.h>

enum { MOST_DEPTH = 64 };

/* ---- names ---- */

static ls_status bind(ls_onnx_frame *f, const char *name, ls_onnx_value *v, ls_error *err) {
    uint64_t hash = ls_onnx_hash_name(name);
    if (ls_map_get(&f->names, hash, name)) {
        return LS_FAIL(err, LS_ERR_FORMAT, "\"%s\" is made twice", name);
    }
    return ls_map_put(&f->names, hash, name, v) ? LS_OK : LS_FAIL_MEMORY(err, name);
}

/* An initialiser of the model's graph; it serves every run. */
static ls_status initializer(ls_onnx_run *run, const char *name, ls_onnx_value **out, ls_error *err) {
    ls_model *model = run->base->model;
    const Onnx__TensorProto *t = ls_model_initializer(model, name);
    const Onnx__SparseTensorProto *sparse = t ? NULL : ls_model_sparse_initializer(model, name);
    ls_data *data;
    int type;
    bool lasting = run->lasting;
    run->lasting = true;
    if (t) {
        *out = ls_onnx_run_decode(run, t, NULL, err);
    } else if (sparse && ls_onnx_sparse_data(model, sparse, NULL, &data, &type, err) == LS_OK) {
        *out = ls_onnx_run_data(run, data, type);
        ls_data_release(data);
        if (*out) {
            (*out)->place = sparse;
        }
    }
    run->lasting = lasting;
    if ((t || sparse) && !*out) {
        return err->code != LS_OK ? err->code : LS_FAIL_MEMORY(err, name);
    }
    if (*out) {
        (*out)->name = t ? t->name : sparse->values->name;
        LS_TRY(err, ls_onnx_train_initializer(run->base, *out, err));
    }
    return !*out || ls_map_put(&run->base->constants, ls_onnx_hash_name(name), name, *out) ? LS_OK : LS_FAIL_MEMORY(err, name);
}

/* *out NULL: nothing of that name is in sight. */
static ls_status look_up(ls_onnx_run *run, const ls_onnx_frame *f, const char *name, ls_onnx_value **out, ls_error *err) {
    uint64_t hash = ls_onnx_hash_name(name);
    for (*out = NULL; f && !*out; f = f->parent) {
        *out = ls_map_get(&f->names, hash, name);
        if (!*out && f->root) {
            *out = ls_map_get(&run->base->constants, hash, name);
            if (!*out) {
                LS_TRY(err, initializer(run, name, out, err));
            }
        }
    }
    return LS_OK;
}

ls_status ls_onnx_named(ls_onnx_node *n, const char *name, ls_onnx_value **out_value) {
    return look_up(n->run, n->frame, name, out_value, n->err);
}

/* ---- one node ---- */

static int imported(const ls_onnx_frame *f, const char *domain) {
    while (f->parent) {
        f = f->parent;
    }
    int version = ls_onnx_opset(f->n_opsets, f->opsets, domain);
    return version || !*domain ? version : 1; /* domains of others are often not imported */
}

static bool is_known(const ls_onnx_value *v) {
    bool known = v->kind != ONNX_TENSOR || v->known;
    for (int i = 0; i < v->count && known; i++) {
        known = is_known(v->items[i]);
    }
    return known;
}

static ls_status run_nodes(ls_onnx_run *run, ls_onnx_frame *f, size_t n, Onnx__NodeProto **nodes, size_t n_out, const char *const *outputs,
                           ls_error *err);

static ls_status call_function(ls_onnx_node *n, const Onnx__FunctionProto *function) {
    ls_onnx_run *run = n->run;
    ls_onnx_frame f = {.n_opsets = function->n_opset_import, .opsets = function->opset_import, .function = function, .caller = n->proto,
                       .from = n->frame};
    bool lasting = run->lasting;
    if ((size_t)n->n_in > function->n_input || (size_t)n->n_out > function->n_output) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "expected at most %zu operands and %zu results, as the model's function has", function->n_input,
                            function->n_output);
    }
    ls_map_init(&f.names, run->base->heap, ls_onnx_same_name);
    ls_status status = LS_OK;
    run->lasting = false;
    for (int i = 0; i < n->n_in && status == LS_OK; i++) {
        status = n->in[i] ? bind(&f, function->input[i], n->in[i], n->err) : LS_OK;
    }
    status = status == LS_OK ? run_nodes(run, &f, function->n_node, function->node, function->n_output, (const char *const *)function->output, n->err)
                             : status;
    for (int i = 0; i < n->n_out && status == LS_OK; i++) {
        status = look_up(run, &f, function->output[i], &n->out[i], n->err);
    }
    run->lasting = lasting;
    ls_map_free(&f.names);
    return status == LS_OK ? LS_OK : LS_FORWARD(n->err, status);
}

static int written(size_t n, char *const *names) { /* without those left out at the end */
    while (n && !*names[n - 1]) {
        n--;
    }
    return (int)n;
}

static ls_status run_operator(ls_onnx_node *n) {
    const char *domain = ls_onnx_domain(n->proto->domain);
    const ls_onnx_op *op = ls_onnx_find(domain, n->proto->op_type, n->version);
    const Onnx__FunctionProto *function = ls_model_function(n->run->base->model, domain, n->proto->op_type, n->proto->overload);
    bool known = true, lasting = n->frame->root;
    if (function) {
        return call_function(n, function);
    }
    if (!op) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "there is no such operator here");
    }
    for (int i = 0; i < n->n_in; i++) {
        known = known && (!n->in[i] || is_known(n->in[i]));
        lasting = lasting && (!n->in[i] || n->in[i]->lasting);
    }
    if (op->max_in >= 0 && n->n_in > op->max_in) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "expected at most %d operands, got %d", op->max_in, n->n_in);
    }
    for (int i = 0; i < op->min_in; i++) {
        if (i >= n->n_in || !n->in[i]) {
            return ls_onnx_fail(n, LS_ERR_FORMAT, "operand %d is missing", i);
        }
    }
    for (int i = 0; i < n->n_in && !(op->flags & ONNX_SYMBOLS); i++) {
        if (n->in[i] && ls_onnx_is_symbolic(n->in[i])) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "operand %d has an extent with a symbol: expected fixed extents", i);
        }
    }
    bool keeps = op->flags & ONNX_DEVICE || (op->flags & ONNX_BLOCKS && ls_onnx_attr_int(n, "block_size", 0) > 0);
    bool host = op->flags & ONNX_HOST || (known && !keeps);
    n->s = host ? n->run->base->host : n->run->base->session;
    n->run->lasting = lasting && host;
    bool done = false;
    ls_status status = known ? LS_OK : ls_onnx_extent_node(n, &done);
    status = status == LS_OK && !done ? op->fn(n) : status;
    n->run->lasting = false;
    ls_session_clear_error(n->run->base->host);
    ls_session_clear_error(n->run->base->session);
    return status;
}

static ls_status run_node(ls_onnx_run *run, ls_onnx_frame *f, const Onnx__NodeProto *p, ls_error *err) {
    const char *domain = ls_onnx_domain(p->domain);
    ls_onnx_node n = {.run = run, .proto = p, .err = err, .frame = f, .version = imported(f, domain), .n_in = written(p->n_input, p->input),
                      .n_out = written(p->n_output, p->output)};
    n.in = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n.n_in + 1);
    n.out = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n.n_out + 1);
    if (!n.in || !n.out) {
        return LS_FAIL_MEMORY(err, "a node's operands");
    }
    for (int i = 0; i < n.n_in; i++) {
        if (*p->input[i]) {
            LS_TRY(err, look_up(run, f, p->input[i], &n.in[i], err));
            if (!n.in[i]) {
                return ls_onnx_fail(&n, LS_ERR_FORMAT, "operand \"%s\" is made by no node before this one", p->input[i]);
            }
        }
    }
    const char *origin = *p->name || !n.n_out ? p->name : p->output[0];
    const char *outer = ls_session_set_origin(run->base->session, origin);
    ls_status status = run_operator(&n);
    (void)ls_session_set_origin(run->base->session, outer);
    LS_TRY(err, status);
    for (int i = 0; i < n.n_out; i++) {
        if (!*p->output[i]) {
            continue;
        }
        if (!n.out[i]) {
            return ls_onnx_fail(&n, LS_ERR_UNSUPPORTED, "its result %d (\"%s\") is not supported", i, p->output[i]);
        }
        if (f->root && n.out[i]->lasting) {
            n.out[i]->place = n.out[i]->place ? n.out[i]->place : p->output[i];
            uint64_t hash = ls_onnx_hash_name(p->output[i]);
            if (!ls_map_get(&run->base->constants, hash, p->output[i]) &&
                !ls_map_put(&run->base->constants, hash, p->output[i], n.out[i])) {
                return LS_FAIL_MEMORY(err, p->output[i]);
            }
        } else {
            LS_TRY(err, bind(f, p->output[i], n.out[i], err));
        }
    }
    return LS_OK;
}

/* ---- which nodes are needed ---- */

typedef struct need {
    ls_map makers; /* name to node */
    Onnx__NodeProto **nodes;
    bool *marked;
    LS_ARRAY(size_t) open;
    ls_heap *heap;
} need;

static bool need_name(need *w, const char *name) {
    Onnx__NodeProto **maker = ls_map_get(&w->makers, ls_onnx_hash_name(name), name);
    size_t i = maker ? (size_t)(maker - w->nodes) : 0;
    if (!maker || w->marked[i]) {
        return true;
    }
    w->marked[i] = true;
    return ls_array_push(w->heap, &w->open, i);
}

/* What a node and the subgraphs in it mention. */
static bool need_of(need *w, const Onnx__NodeProto *p, int depth) {
    bool good = depth < MOST_DEPTH;
    for (size_t i = 0; i < p->n_input && good; i++) {
        good = need_name(w, p->input[i]);
    }
    for (size_t i = 0; i < p->n_attribute && good; i++) {
        const Onnx__GraphProto *g = p->attribute[i]->g;
        const ProtobufCBinaryData *y = &p->attribute[i]->s;
        if (!strcmp(p->op_type, "Gradient") && !strcmp(p->attribute[i]->name, "y") && y->len > 0 && y->len < 256) { /* names what it differentiates */
            char name[256] = "";
            memcpy(name, y->data, y->len);
            good = need_name(w, name);
        }
        for (size_t j = 0; g && j < g->n_node && good; j++) {
            good = need_of(w, g->node[j], depth + 1);
        }
        for (size_t j = 0; g && j < g->n_output && good; j++) {
            good = need_name(w, g->output[j]->name);
        }
    }
    return good;
}

static ls_status mark_needed(ls_onnx_run *run, size_t n, Onnx__NodeProto **nodes, size_t n_out, const char *const *outputs, bool *marked,
                             ls_error *err) {
    need w = {.nodes = nodes, .marked = marked, .heap = run->base->heap};
    ls_map_init(&w.makers, w.heap, ls_onnx_same_name);
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        for (size_t j = 0; j < nodes[i]->n_output && good; j++) {
            const char *name = nodes[i]->output[j];
            good = !*name || ls_map_get(&w.makers, ls_onnx_hash_name(name), name) || ls_map_put(&w.makers, ls_onnx_hash_name(name), name, &nodes[i]);
        }
    }
    for (size_t i = 0; i < n_out && good; i++) {
        good = need_name(&w, outputs[i]);
    }
    while (w.open.len && good) {
        good = need_of(&w, nodes[w.open.data[--w.open.len]], 0);
    }
    ls_array_free(w.heap, &w.open);
    ls_map_free(&w.makers);
    return good ? LS_OK : LS_FAIL(err, LS_ERR_MEMORY, "out of memory for a graph's nodes, or subgraphs more than %d deep", MOST_DEPTH);
}

/* That the operators of a node and of the subgraphs in it are there. */
static ls_status check_operators(ls_onnx_run *run, ls_onnx_frame *f, const Onnx__NodeProto *p, ls_error *err) {
    const char *domain = ls_onnx_domain(p->domain);
    const Onnx__FunctionProto *function = ls_model_function(run->base->model, domain, p->op_type, p->overload);
    int version = imported(f, domain);
    if (!function && !ls_onnx_find(domain, p->op_type, version)) {
        const ls_onnx_node n = {.proto = p, .version = version, .err = err};
        return ls_onnx_fail(&n, LS_ERR_UNSUPPORTED, "there is no such operator here");
    }
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__GraphProto *g = p->attribute[i]->g;
        for (size_t j = 0; g && j < g->n_node; j++) {
            LS_TRY(err, check_operators(run, f, g->node[j], err));
        }
    }
    return LS_OK;
}

static ls_status check_functions(ls_onnx_run *run, ls_error *err) {
    const Onnx__ModelProto *m = run->base->model->proto;
    for (size_t i = 0; i < m->n_functions; i++) {
        ls_onnx_frame body = {.n_opsets = m->functions[i]->n_opset_import, .opsets = m->functions[i]->opset_import};
        for (size_t j = 0; j < m->functions[i]->n_node; j++) {
            LS_TRY(err, check_operators(run, &body, m->functions[i]->node[j], err));
        }
    }
    return LS_OK;
}

/* Was all that a node makes made by an earlier run? */
static bool is_lasting(const ls_onnx_run *run, const ls_onnx_frame *f, const Onnx__NodeProto *p) {
    bool all = f->root && p->n_output > 0;
    for (size_t i = 0; i < p->n_output && all; i++) {
        all = !*p->output[i] || ls_map_get(&run->base->constants, ls_onnx_hash_name(p->output[i]), p->output[i]);
    }
    return all;
}

static ls_status run_nodes(ls_onnx_run *run, ls_onnx_frame *f, size_t n, Onnx__NodeProto **nodes, size_t n_out, const char *const *outputs,
                           ls_error *err) {
    bool *marked = LS_ARENA_ARRAY(&run->arena, bool, n + 1);
    if (!marked) {
        return LS_FAIL_MEMORY(err, "a graph's nodes");
    }
    if (run->depth >= MOST_DEPTH) {
        return LS_FAIL(err, LS_ERR_FORMAT, "functions and subgraphs are nested more than %d deep: a cycle?", MOST_DEPTH);
    }
    LS_TRY(err, mark_needed(run, n, nodes, n_out, outputs, marked, err));
    if (!run->base->checked) { /* before anything runs */
        LS_TRY(err, check_functions(run, err));
        for (size_t i = 0; i < n; i++) {
            if (marked[i]) {
                LS_TRY(err, check_operators(run, f, nodes[i], err));
            }
        }
        run->base->checked = true;
    }
    run->depth++;
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && status == LS_OK; i++) {
        status = marked[i] && !is_lasting(run, f, nodes[i]) ? run_node(run, f, nodes[i], err) : LS_OK;
    }
    run->depth--;
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

static ls_status run_graph(ls_onnx_run *run, ls_onnx_frame *f, const Onnx__GraphProto *g, ls_onnx_value **out, ls_error *err) {
    const char **outputs = LS_ARENA_ARRAY(&run->arena, const char *, g->n_output + 1);
    if (!outputs) {
        return LS_FAIL_MEMORY(err, "a graph's outputs");
    }
    for (size_t i = 0; i < g->n_output; i++) {
        outputs[i] = g->output[i]->name;
    }
    LS_TRY(err, run_nodes(run, f, g->n_node, g->node, g->n_output, outputs, err));
    for (size_t i = 0; i < g->n_output; i++) {
        LS_TRY(err, look_up(run, f, outputs[i], &out[i], err));
        if (!out[i]) {
            return LS_FAIL(err, LS_ERR_FORMAT, "output \"%s\" of graph \"%s\" is made by no node", outputs[i], g->name);
        }
    }
    return LS_OK;
}

ls_status ls_onnx_run_graph(ls_onnx_run *run, ls_onnx_value *const *in, ls_onnx_value **out, ls_error *err) {
    const Onnx__ModelProto *m = run->base->model->proto;
    ls_onnx_frame f = {.n_opsets = m->n_opset_import, .opsets = m->opset_import, .root = true};
    ls_status status = LS_OK;
    ls_map_init(&f.names, run->base->heap, ls_onnx_same_name);
    for (int i = 0; i < ls_model_input_count(run->base->model) && status == LS_OK; i++) {
        status = in[i] ? bind(&f, ls_model_input(run->base->model, i).name, in[i], err) : LS_OK;
    }
    status = status == LS_OK ? run_graph(run, &f, m->graph, out, err) : status;
    ls_map_free(&f.names);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

/* ---- subgraphs ---- */

static const Onnx__GraphProto *graph_of(const ls_onnx_graph *g) {
    return (const Onnx__GraphProto *)(const void *)g;
}
int ls_onnx_graph_inputs(const ls_onnx_graph *g) {
    return (int)graph_of(g)->n_input;
}
int ls_onnx_graph_outputs(const ls_onnx_graph *g) {
    return (int)graph_of(g)->n_output;
}

ls_status ls_onnx_call(ls_onnx_node *n, const ls_onnx_graph *graph, int n_in, ls_onnx_value *const *in, ls_onnx_value **out) {
    const Onnx__GraphProto *g = graph_of(graph);
    ls_onnx_frame f = {.parent = n->frame};
    ls_status status = LS_OK;
    if ((size_t)n_in != g->n_input) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "its subgraph \"%s\" has %zu inputs: expected %d", g->name, g->n_input, n_in);
    }
    ls_map_init(&f.names, n->run->base->heap, ls_onnx_same_name);
    bool lasting = n->run->lasting;
    n->run->lasting = false;
    for (int i = 0; i < n_in && status == LS_OK; i++) {
        status = bind(&f, g->input[i]->name, in[i], n->err);
    }
    for (size_t i = 0; i < g->n_initializer && status == LS_OK; i++) {
        ls_onnx_value *v = ls_onnx_run_decode(n->run, g->initializer[i], NULL, n->err);
        status = v ? bind(&f, g->initializer[i]->name, v, n->err) : n->err->code;
    }
    status = status == LS_OK ? run_graph(n->run, &f, g, out, n->err) : status;
    n->run->lasting = lasting;
    ls_map_free(&f.names);
    return status == LS_OK ? LS_OK : LS_FORWARD(n->err, status);
}
