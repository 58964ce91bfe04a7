/* What of a program follows from data alone, or from constants of a device, is computed once, when the program is compiled: the scale of a batch
 * norm from its variance, sums of weights, how many elements each window of a pooling has. The same kernels compute it as would at each run,
 * so no bit depends on it. Movement stays with its reader, and so does what would take more memory than what it is made of (dequantised
 * weights, repeated vectors). */
#include "engine/exec.h"

typedef struct fact {
    bool fixed; /* follows from constants and data */
    bool data;  /* from data */
    bool met;   /* by the search */
    double bytes; /* of the largest value in memory that it is made of */
} fact;

static fact *fact_of(const ls_tensor *x) {
    return x->mark;
}

static bool is_variable(const ls_tensor *x) {
    return x->op == LS_OP_INPUT || x->op == LS_OP_VAR || x->op == LS_OP_PARAM || x->op == LS_OP_DIM || !ls_shape_is_fixed(&x->shape);
}

static bool is_computed(const ls_session *s, const ls_tensor *x) {
    ls_op_class class = ls_ops[x->op].op_class;
    return !ls_is_stored(s, x) && (class == LS_CLASS_MAP || class == LS_CLASS_REDUCE || class == LS_CLASS_CONTRACT);
}

static bool is_folded(const ls_session *s, const ls_tensor *x) {
    return is_computed(s, x) && x->device && !x->absent &&
           (double)ls_shape_bytes(x->dtype, &x->shape, NULL) <= fact_of(x)->bytes;
}

static void learn(const ls_session *s, const ls_tensor *x, fact *out) {
    bool leaf = ls_is_stored(s, x) || x->n_src == 0;
    *out = (fact){.fixed = !is_variable(x) && (leaf || is_computed(s, x) || ls_ops[x->op].op_class == LS_CLASS_MOVE)};
    if (leaf) {
        out->data = out->fixed && (ls_is_stored(s, x) || x->device);
        out->bytes = out->data ? (double)ls_shape_bytes(x->dtype, &x->shape, NULL) : 0;
        return;
    }
    for (int i = 0; i < x->n_src; i++) {
        const fact *src = fact_of(x->src[i]);
        out->fixed = out->fixed && src->fixed;
        out->data = out->data || src->data;
        out->bytes = src->bytes > out->bytes ? src->bytes : out->bytes;
    }
}

typedef struct search {
    ls_session *session;
    ls_arena arena;
    LS_ARRAY(ls_tensor *) stack, folded;
} search;

/* Collects what is to be computed at or below a node that follows from data. */
static bool collect(search *f, ls_tensor *from) {
    ls_heap *heap = f->arena.heap;
    bool ok = ls_array_push(heap, &f->stack, from);
    while (ok && f->stack.len) {
        ls_tensor *x = f->stack.data[--f->stack.len];
        if (!x->mark || !fact_of(x)->fixed || !fact_of(x)->data || fact_of(x)->met || ls_is_stored(f->session, x)) {
            continue;
        }
        fact_of(x)->met = true;
        if (is_folded(f->session, x)) {
            ok = ls_array_push(heap, &f->folded, x);
        } else {
            for (int i = 0; ok && i < x->n_src; i++) {
                ok = ls_array_push(heap, &f->stack, x->src[i]);
            }
        }
    }
    return ok;
}

static bool find(search *f, ls_tensor *const *roots, int n_roots) {
    int n = 0;
    ls_tensor **order = ls_graph_order(&f->arena, roots, n_roots, &n);
    fact *facts = LS_ARENA_ARRAY(&f->arena, fact, n + 1);
    bool ok = order && facts;
    for (int i = 0; ok && i < n; i++) {
        learn(f->session, order[i], &facts[i]);
        order[i]->mark = &facts[i];
        for (int j = 0; ok && !facts[i].fixed && !ls_is_stored(f->session, order[i]) && j < order[i]->n_src; j++) {
            ok = collect(f, order[i]->src[j]);
        }
    }
    for (int i = 0; i < n && order; i++) {
        order[i]->mark = NULL;
    }
    return ok;
}

ls_status ls_constants_compute(ls_session *session, ls_tensor *const *roots, int n_roots, ls_error *err) {
    search f = {.session = session};
    ls_arena_init(&f.arena, &session->context->heap);
    ls_status status = find(&f, roots, n_roots) ? LS_OK : LS_FAIL_MEMORY(err, "the constants of a program");
    if (status == LS_OK && f.folded.len) {
        status = ls_compute(session, f.folded.data, (int)f.folded.len, err);
    }
    ls_array_free(f.arena.heap, &f.stack);
    ls_array_free(f.arena.heap, &f.folded);
    ls_arena_free(&f.arena);
    return status;
}
