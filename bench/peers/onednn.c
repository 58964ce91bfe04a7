/* oneDNN 2.x, linked when its headers are there. Two variants: layouts of its own choice ("any": packed weights; for convolutions
 * also its own layout of x and y, converted outside the time taken), and plain ones (weights row-major, NCHW in and out; a
 * convolution's weights are packed in both). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/peers.h"

char bench_onednn_about[80];

#if LS_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>

enum { MOST_ARGS = 6 };

struct bench_state {
    const bench_case *c;
    int threads;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[MOST_ARGS];
    int n_args;
    float *memory[2 * MOST_ARGS];
    int n_memory;
    dnnl_memory_t y;
    dnnl_memory_desc_t plain_y;
};

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static void (*omp_set)(int n);

static bool find(char *reason, size_t room) {
    *(void **)&omp_set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    const dnnl_version_t *v = dnnl_version();
    if (!engine && (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success ||
                    dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success)) {
        snprintf(reason, room, "oneDNN gives no CPU engine");
        return false;
    }
    snprintf(bench_onednn_about, sizeof bench_onednn_about, "%d.%d.%d", v->major, v->minor, v->patch);
    return true;
}

static dnnl_memory_t memory_of(bench_state *s, const dnnl_memory_desc_t *d, const float *values) {
    dnnl_memory_t memory = NULL;
    float *at = bench_memory(dnnl_memory_desc_get_size(d));
    s->memory[s->n_memory++] = at;
    if (values) {
        memcpy(at, values, dnnl_memory_desc_get_size(d));
    }
    return dnnl_memory_create(&memory, d, engine, at) == dnnl_success ? memory : NULL;
}

static bool reorder(dnnl_memory_t from, const dnnl_memory_desc_t *from_desc, dnnl_memory_t to,
                    const dnnl_memory_desc_t *to_desc) {
    dnnl_primitive_desc_t d;
    dnnl_primitive_t p;
    if (dnnl_reorder_primitive_desc_create(&d, from_desc, engine, to_desc, engine, NULL) != dnnl_success ||
        dnnl_primitive_create(&p, d) != dnnl_success) {
        return false;
    }
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    bool fine = dnnl_primitive_execute(p, stream, 2, args) == dnnl_success && dnnl_stream_wait(stream) == dnnl_success;
    dnnl_primitive_destroy(p);
    dnnl_primitive_desc_destroy(d);
    return fine;
}

/* An operand in the layout that the primitive asks for. */
static bool argument(bench_state *s, int arg, dnnl_query_t query, const dnnl_memory_desc_t *plain, int which) {
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(s->description, query, 0);
    dnnl_memory_t memory = wanted ? memory_of(s, wanted, NULL) : NULL;
    if (!memory) {
        return false;
    }
    s->args[s->n_args++] = (dnnl_exec_arg_t){arg, memory};
    if (which == 2) {
        s->y = memory;
        return true;
    }
    float *values = bench_operand(which, bench_elements(s->c, which));
    dnnl_memory_t from = memory_of(s, plain, values);
    free(values);
    bool fine = from && reorder(from, plain, memory, wanted);
    dnnl_memory_destroy(from);
    return fine;
}

static dnnl_memory_desc_t plain_of(int n, const dnnl_dims_t dims, const int64_t *strides) {
    dnnl_memory_desc_t d = {0};
    dnnl_dims_t dense = {0};
    int64_t step = 1;
    for (int i = n - 1; i >= 0; i--) {
        dense[i] = step;
        step *= dims[i];
    }
    dnnl_memory_desc_init_by_strides(&d, n, dims, dnnl_f32, strides ? strides : dense);
    return d;
}

static dnnl_memory_desc_t any_of(int n, const dnnl_dims_t dims) {
    dnnl_memory_desc_t d = {0};
    dnnl_memory_desc_init_by_tag(&d, n, dims, dnnl_f32, dnnl_format_tag_any);
    return d;
}

static dnnl_memory_desc_t halves_of(dnnl_memory_desc_t d) {
    d.data_type = dnnl_bf16;
    return d;
}

static bool product(bench_state *s, bool any) {
    const bench_case *c = s->c;
    const dnnl_dims_t dx = {c->m, c->k}, dw = {c->k, c->n}, dy = {c->m, c->n};
    dnnl_memory_desc_t x = plain_of(2, dx, NULL), w = plain_of(2, dw, NULL), y = plain_of(2, dy, NULL),
                       chosen = any ? any_of(2, dw) : w, given = x;
    dnnl_matmul_desc_t op;
    if (c->bf16) { /* both converted outside the time taken */
        chosen = halves_of(chosen);
        given = halves_of(given);
    }
    s->plain_y = y;
    return dnnl_matmul_desc_init(&op, &given, &chosen, NULL, &y) == dnnl_success &&
           dnnl_primitive_desc_create(&s->description, &op, NULL, engine, NULL) == dnnl_success &&
           argument(s, DNNL_ARG_SRC, dnnl_query_src_md, &x, 0) &&
           argument(s, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, &w, 1) &&
           argument(s, DNNL_ARG_DST, dnnl_query_dst_md, &y, 2);
}

static bool convolution(bench_state *s, bool any) {
    const bench_case *c = s->c;
    int64_t g = c->groups, o = bench_out_side(c), pad = c->kernel / 2;
    const dnnl_dims_t dx = {c->batch, c->in, c->side, c->side}, dy = {c->batch, c->out, o, o},
                  dw = {c->out, c->in, c->kernel, c->kernel}, dg = {g, c->out / g, c->in / g, c->kernel, c->kernel},
                  strides = {c->stride, c->stride}, pads = {pad, pad};
    int rank = g > 1 ? 5 : 4;
    const int64_t *weights = g > 1 ? dg : dw;
    dnnl_memory_desc_t x = plain_of(4, dx, NULL), w = plain_of(rank, weights, NULL), y = plain_of(4, dy, NULL),
                       ax = any ? any_of(4, dx) : x, aw = any_of(rank, weights), ay = any ? any_of(4, dy) : y;
    dnnl_convolution_desc_t op;
    s->plain_y = y;
    return dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, &ax, &aw, NULL, &ay,
                                              strides, pads, pads) == dnnl_success &&
           dnnl_primitive_desc_create(&s->description, &op, NULL, engine, NULL) == dnnl_success &&
           argument(s, DNNL_ARG_SRC, dnnl_query_src_md, &x, 0) &&
           argument(s, DNNL_ARG_WEIGHTS, dnnl_query_weights_md, &w, 1) &&
           argument(s, DNNL_ARG_DST, dnnl_query_dst_md, &y, 2);
}

static bool over_memory(bench_state *s) {
    const bench_case *c = s->c;
    const bool largest = c->kind == BENCH_MAX_ROWS || c->kind == BENCH_MAX_COLUMNS, rows = c->kind == BENCH_SUM_ROWS || c->kind == BENCH_MAX_ROWS,
               columns = c->kind == BENCH_SUM_COLUMNS || c->kind == BENCH_MAX_COLUMNS;
    const dnnl_dims_t dx = {c->m, c->n}, dy = {rows ? c->m : 1, columns ? c->n : 1}, turned = {1, c->m};
    dnnl_memory_desc_t x = plain_of(2, dx, NULL), y = x;
    dnnl_softmax_desc_t softmax;
    dnnl_layer_normalization_desc_t norm;
    dnnl_eltwise_desc_t gelu;
    dnnl_reduction_desc_t fold;
    dnnl_status_t status = dnnl_unimplemented;
    dnnl_op_desc_t op = NULL;
    switch (c->kind) {
    case BENCH_SOFTMAX:
    case BENCH_SOFTMAX_COLUMNS:
        status = dnnl_softmax_forward_desc_init(&softmax, dnnl_forward_inference, &x, c->kind == BENCH_SOFTMAX), op = &softmax;
        break;
    case BENCH_LAYERNORM:
        status = dnnl_layer_normalization_forward_desc_init(&norm, dnnl_forward_inference, &x, NULL, 1e-5f, 0), op = &norm;
        break;
    case BENCH_GELU:
        status = dnnl_eltwise_forward_desc_init(&gelu, dnnl_forward_inference, dnnl_eltwise_gelu_erf, &x, 0, 0), op = &gelu;
        break;
    case BENCH_TRANSPOSE: /* written where the same matrix, column by column, has its elements */
        y = plain_of(2, dx, turned);
        s->plain_y = y;
        if (dnnl_reorder_primitive_desc_create(&s->description, &x, engine, &y, engine, NULL) != dnnl_success) {
            return false;
        }
        return argument(s, DNNL_ARG_FROM, dnnl_query_src_md, &x, 0) && argument(s, DNNL_ARG_TO, dnnl_query_dst_md, &y, 2);
    default:
        y = plain_of(2, dy, NULL);
        status = dnnl_reduction_desc_init(&fold, largest ? dnnl_reduction_max : dnnl_reduction_sum, &x, &y, 0, 0), op = &fold;
    }
    s->plain_y = y;
    return status == dnnl_success && dnnl_primitive_desc_create(&s->description, op, NULL, engine, NULL) == dnnl_success &&
           argument(s, DNNL_ARG_SRC, dnnl_query_src_md, &x, 0) && argument(s, DNNL_ARG_DST, dnnl_query_dst_md, &y, 2);
}

static void close_state(bench_state *s) {
    for (int i = 0; i < s->n_args; i++) {
        dnnl_memory_destroy(s->args[i].memory);
    }
    for (int i = 0; i < s->n_memory; i++) {
        free(s->memory[i]);
    }
    dnnl_primitive_destroy(s->primitive);
    dnnl_primitive_desc_destroy(s->description);
    free(s);
}

static bench_state *open_case(const bench_engine *e, const bench_case *c, int threads, char *reason, size_t room) {
    bool any = e->variant == 0;
    const bool over = c->kind >= BENCH_LAYERNORM && c->kind <= BENCH_SOFTMAX_COLUMNS;
    if ((c->kind != BENCH_GEMM && c->kind != BENCH_CONV && !(any && over)) ||
        (any && c->kind == BENCH_GEMM && !c->constant)) {
        return NULL;
    }
    bench_state *s = bench_memory(sizeof *s);
    s->c = c;
    s->threads = threads;
    omp_set(threads);
    bool fine = c->kind == BENCH_GEMM   ? product(s, any)
                : c->kind == BENCH_CONV ? convolution(s, any)
                                        : over_memory(s);
    if (!fine || dnnl_primitive_create(&s->primitive, s->description) != dnnl_success) {
        snprintf(reason, room, "oneDNN makes no such primitive");
        close_state(s);
        return NULL;
    }
    return s;
}

static bool renew(bench_state *s) {
    for (int i = 0; i < bench_written(s->c); i++) {
        const dnnl_memory_desc_t *d;
        void *at;
        if (dnnl_memory_get_memory_desc(s->args[i].memory, &d) != dnnl_success ||
            dnnl_memory_get_data_handle(s->args[i].memory, &at) != dnnl_success) {
            return false;
        }
        bench_write_anew(at, dnnl_memory_desc_get_size(d));
    }
    return true;
}

static double run(bench_state *s, int n) {
    omp_set(s->threads);
    double begin = bench_now();
    for (int i = 0; i < n; i++) {
        if (dnnl_primitive_execute(s->primitive, stream, s->n_args, s->args) != dnnl_success) {
            return -1;
        }
    }
    dnnl_stream_wait(stream);
    return bench_now() - begin;
}

static double digest(bench_state *s) {
    const dnnl_memory_desc_t *from;
    void *at;
    dnnl_memory_get_memory_desc(s->y, &from);
    dnnl_memory_t plain = memory_of(s, &s->plain_y, NULL);
    double d = INFINITY;
    if (plain && reorder(s->y, from, plain, &s->plain_y) && dnnl_memory_get_data_handle(plain, &at) == dnnl_success) {
        d = bench_digest(at, bench_elements(s->c, 2));
    }
    dnnl_memory_destroy(plain);
    return d;
}
#else
static bool find(char *reason, size_t room) {
    snprintf(reason, room, "built without oneDNN (Debian: libdnnl-dev)");
    return false;
}

static bench_state *open_case(const bench_engine *e, const bench_case *c, int threads, char *reason, size_t room) {
    (void)e, (void)c, (void)threads, (void)reason, (void)room;
    return NULL;
}

static bool renew(bench_state *s) {
    (void)s;
    return false;
}

static double run(bench_state *s, int n) {
    (void)s, (void)n;
    return -1;
}

static double digest(bench_state *s) {
    (void)s;
    return NAN;
}

static void close_state(bench_state *s) {
    (void)s;
}
#endif

const bench_engine bench_onednn = {"oneDNN", false, find, open_case, renew, run, digest, close_state, 0};
const bench_engine bench_onednn_plain = {"oneDNN plain", false, find, open_case, renew, run, digest, close_state, 1};
