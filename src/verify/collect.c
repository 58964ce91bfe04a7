/* What a verified run keeps of each kernel: what it computes and from whose results, beside what the comparisons found.
 *
 * Who made what a kernel reads is told by memory: the kernel whose launch wrote there last. So it holds through loops, copies of
 * handles and graphs that are run one after another. */
#include "base/text.h"
#include "graph/build.h"
#include "verify/shadow.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_report_merge(ls_report *into, const ls_report *r) {
    bool worse = into->elements == 0 || r->verdict > into->verdict ||
                 (r->verdict == into->verdict && r->worst_of_bound > into->worst_of_bound);
    ls_report sum = worse ? *r : *into;
    sum.elements = into->elements + r->elements;
    sum.different = into->different + r->different;
    sum.outside = into->outside + r->outside;
    sum.blind = into->blind + r->blind;
    sum.worst_of_bound = into->worst_of_bound > r->worst_of_bound ? into->worst_of_bound : r->worst_of_bound;
    for (int i = 0; i < LS_BINS; i++) {
        sum.bins[i] = into->bins[i] + r->bins[i];
    }
    *into = sum;
}

/* ---- memory ---- */

int ls_collector_writer(const ls_collector *c, const ls_buffer *buffer, size_t from, size_t size) {
    for (size_t i = c->written.len; i-- > 0;) { /* the newest are last */
        const ls_written *w = &c->written.data[i];
        if (w->device == buffer->device && w->buffer == buffer->serial && w->from < from + size && from < w->to) {
            return w->kernel;
        }
    }
    return -1;
}

static bool note_written(ls_collector *c, const ls_buffer *buffer, size_t from, size_t size, int kernel) {
    ls_written made = {buffer->device, buffer->serial, from, from + size, kernel};
    size_t kept = 0;
    for (size_t i = 0; i < c->written.len; i++) { /* what is written over is forgotten: the list stays as long as the memory plan */
        const ls_written *w = &c->written.data[i];
        if (w->device != made.device || w->buffer != made.buffer || w->from < made.from || w->to > made.to) {
            c->written.data[kept++] = *w;
        }
    }
    c->written.len = kept;
    return ls_array_push(c->heap, &c->written, made);
}

/* ---- what a kernel is ---- */

static char *text_end(ls_heap *heap, ls_text *text) {
    char *copy = text->failed ? NULL : ls_strdup(heap, text->data ? text->data : "");
    ls_text_free(text);
    return copy;
}

static char *type_text(const ls_check_event *event, ls_heap *heap, const ls_tensor *node) {
    int64_t dims[LS_MAX_RANK];
    char shape[LS_SHAPE_TEXT], all[LS_SHAPE_TEXT + 16];
    for (int i = 0; i < node->shape.rank; i++) {
        dims[i] = ls_dim_eval(node->shape.dim[i], event->launch->symbols);
    }
    ls_shape now = ls_shape_make(node->shape.rank, dims);
    snprintf(all, sizeof all, "%s%s", ls_dtype_name(node->dtype), ls_shape_text(&now, shape));
    return ls_strdup(heap, all);
}

static int by_serial(const void *a, const void *b) {
    uint64_t x = (*(ls_tensor *const *)a)->serial, y = (*(ls_tensor *const *)b)->serial;
    return (x > y) - (x < y);
}

typedef LS_ARRAY(ls_tensor *) nodes;

/* The nodes between a group's reads and its roots, operands first. */
static bool find_nodes(const ls_group *group, ls_heap *heap, nodes *out) {
    static char seen;
    bool ok = true;
    for (int i = 0; i < group->n_reads; i++) {
        group->reads[i]->mark = &seen;
    }
    for (int i = 0; i < group->n_roots && ok; i++) {
        if (!group->roots[i]->mark) {
            group->roots[i]->mark = &seen;
            ok = ls_array_push(heap, out, group->roots[i]);
        }
    }
    for (size_t at = 0; at < out->len && ok; at++) {
        const ls_tensor *x = out->data[at];
        for (int i = 0; i < x->n_src && ok; i++) {
            if (!x->src[i]->mark) {
                x->src[i]->mark = &seen;
                ok = ls_array_push(heap, out, x->src[i]);
                x->src[i]->mark = ok ? &seen : NULL;
            }
        }
    }
    for (int i = 0; i < group->n_reads; i++) {
        group->reads[i]->mark = NULL;
    }
    for (int i = 0; i < group->n_roots; i++) {
        group->roots[i]->mark = NULL;
    }
    for (size_t i = 0; i < out->len; i++) {
        out->data[i]->mark = NULL;
    }
    if (ok && out->len) {
        qsort(out->data, out->len, sizeof *out->data, by_serial);
    }
    return ok;
}

static bool describe_nodes(const nodes *all, ls_heap *heap, ls_kernel_report *k) {
    ls_text text;
    LS_ARRAY(const char *) origins = {0};
    bool ok = true;
    ls_text_init(&text, heap);
    for (size_t i = 0; i < all->len; i++) {
        ls_op_class c = ls_ops[all->data[i]->op].op_class;
        if (c != LS_CLASS_MOVE && c != LS_CLASS_LEAF) {
            ls_text_printf(&text, "%s%s", text.data && *text.data ? " " : "", ls_ops[all->data[i]->op].name);
        }
    }
    for (size_t i = all->len; i-- > 0 && ok;) {
        const char *origin = all->data[i]->n_src ? all->data[i]->origin : NULL;
        for (size_t j = 0; origin && j < origins.len; j++) { /* texts are the session's, each once */
            origin = origins.data[j] == origin ? NULL : origin;
        }
        ok = !origin || ls_array_push(heap, &origins, origin);
    }
    k->n_origins = (int)origins.len;
    k->origins = origins.data;
    k->operations = text_end(heap, &text);
    return ok && k->operations;
}

static bool describe_reads(const ls_check_event *event, const ls_collector *c, ls_kernel_report *k) {
    const ls_group *group = event->group;
    ls_kernel_read *reads = ls_alloc_zeroed(c->heap, sizeof *reads * (size_t)(group->n_reads + 1));
    k->reads = reads;
    for (int i = 0; reads && i < group->n_reads; i++) {
        const ls_tensor *x = group->reads[i];
        const ls_spec_arg *a = &event->spec->args[i];
        ls_kernel_read *r = &reads[k->n_reads++];
        r->kernel = ls_collector_writer(c, event->launch->args[i], event->launch->offsets[i], (size_t)a->numel * ls_dtype_size(a->dtype));
        r->name = ls_strdup(c->heap, x->label ? x->label : x->origin && r->kernel < 0 ? x->origin : "");
        r->type = type_text(event, c->heap, x);
        if (!r->name || !r->type) {
            return false;
        }
    }
    return reads != NULL;
}

void ls_kernel_report_free(ls_heap *heap, ls_kernel_report *k) {
    for (int i = 0; i < k->n_reads; i++) {
        ls_free(heap, (void *)k->reads[i].name);
        ls_free(heap, (void *)k->reads[i].type);
    }
    ls_free(heap, (void *)k->reads);
    ls_free(heap, (void *)k->origins);
    ls_free(heap, (void *)k->operations);
    ls_free(heap, (void *)k->type);
    ls_free(heap, (void *)k->kernel);
    ls_free(heap, (void *)k->node);
}

static ls_status add(const ls_check_event *event, ls_collector *c, const ls_kernel_report *found, ls_error *err) {
    const ls_tensor *root = event->group->roots[0];
    ls_kernel_report k = *found;
    char name[64];
    nodes all = {0};
    snprintf(name, sizeof name, "%s #%llu", ls_ops[root->op].name, (unsigned long long)root->serial);
    k.launches = 1;
    k.kernel = ls_strdup(c->heap, event->spec->name);
    k.node = ls_strdup(c->heap, name);
    k.type = type_text(event, c->heap, root);
    bool ok = k.kernel && k.node && k.type && find_nodes(event->group, c->heap, &all) && describe_nodes(&all, c->heap, &k) &&
              describe_reads(event, c, &k) && ls_array_reserve(c->heap, &c->serials, 1) && ls_array_push(c->heap, &c->kernels, k);
    ls_array_free(c->heap, &all);
    if (!ok) {
        ls_kernel_report_free(c->heap, &k);
        return LS_FAIL_MEMORY(err, "a report");
    }
    c->serials.data[c->serials.len++] = root->serial;
    return LS_OK;
}

ls_status ls_collect(const ls_check_event *event, ls_collector *c, const ls_kernel_report *found, ls_error *err) {
    const ls_group *group = event->group;
    size_t at = 0;
    while (at < c->serials.len && (c->serials.data[at] != group->roots[0]->serial || strcmp(c->kernels.data[at].kernel, event->spec->name) != 0)) {
        at++;
    }
    if (at < c->serials.len) {
        ls_kernel_report *k = &c->kernels.data[at];
        k->launches++;
        ls_report_merge(&k->ref, &found->ref);
        ls_report_merge(&k->oracle, &found->oracle);
    } else {
        LS_TRY(err, add(event, c, found, err));
    }
    for (int i = group->n_reads; i < event->spec->n_args; i++) {
        const ls_spec_arg *a = &event->spec->args[i];
        if (!note_written(c, event->launch->args[i], event->launch->offsets[i], (size_t)a->numel * ls_dtype_size(a->dtype), (int)at)) {
            return LS_FAIL_MEMORY(err, "a report");
        }
    }
    return LS_OK;
}

void ls_collector_free(ls_collector *c) {
    for (size_t i = 0; i < c->kernels.len; i++) {
        ls_kernel_report_free(c->heap, &c->kernels.data[i]);
    }
    ls_array_free(c->heap, &c->kernels);
    ls_array_free(c->heap, &c->serials);
    ls_array_free(c->heap, &c->written);
}
