/* Lockstep itself, through the public interface: locked and fast. Operands of single operations are variables, so that
 * nothing is copied; networks get their input from the host and give their result to it, as a user's would. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/peers.h"

struct bench_state {
    const bench_case *c;
    ls_context *context;
    ls_session *session;
    ls_params *params;
    ls_optimizer *optimizer;
    ls_program *program;
    ls_var *x, *w;
    float *host_x, *host_w, *y;
    int32_t *labels;
    const void *inputs[3];
    void *outputs[1];
};

static bool find(char *reason, size_t room) {
    (void)reason, (void)room;
    return true;
}

static ls_tensor *linear(ls_session *s, ls_params *p, const char *name, ls_tensor *x, int64_t n) {
    return ls_nn_linear(s, p, name, x, n);
}

/* [1,m,n] -> [1,heads,m,n/heads] */
static ls_tensor *heads_of(ls_session *s, ls_tensor *x, const bench_case *c) {
    return ls_permute(s, ls_reshape(s, x, LS_SHAPE(1, c->m, c->k, c->n / c->k)), (const int[]){0, 2, 1, 3});
}

static ls_tensor *encoder(ls_session *s, ls_params *p, const bench_case *c, ls_tensor *x) {
    ls_tensor *q = heads_of(s, linear(s, p, "query", x, c->n), c), *k = heads_of(s, linear(s, p, "key", x, c->n), c),
              *v = heads_of(s, linear(s, p, "value", x, c->n), c);
    ls_tensor *mixed = ls_permute(s, ls_attention(s, q, k, v, &(ls_attention_spec){.scale = 0}), (const int[]){0, 2, 1, 3});
    mixed = linear(s, p, "out", ls_reshape(s, mixed, LS_SHAPE(1, c->m, c->n)), c->n);
    x = ls_nn_layer_norm(s, p, "norm1", ls_add(s, x, mixed));
    ls_tensor *wide = ls_gelu(s, linear(s, p, "up", x, 4 * c->n));
    return ls_nn_layer_norm(s, p, "norm2", ls_add(s, x, linear(s, p, "down", wide, c->n)));
}

static ls_tensor *lstm(ls_session *s, ls_params *p, const bench_case *c, ls_tensor *x) {
    int64_t gates = 4 * c->n;
    ls_tensor *w_x = ls_param(s, p, "w_x", LS_F32, LS_SHAPE(gates, c->n), LS_INIT_UNIFORM, c->n),
              *w_h = ls_param(s, p, "w_h", LS_F32, LS_SHAPE(gates, c->n), LS_INIT_UNIFORM, c->n),
              *bias = ls_param(s, p, "bias", LS_F32, LS_SHAPE(gates), LS_INIT_UNIFORM, c->n);
    ls_tensor *zero = ls_full(s, LS_F32, LS_SHAPE(c->m, c->n), 0), *h, *cell;
    return ls_lstm(s, x, zero, zero, w_x, w_h, bias, &h, &cell);
}

static ls_shape shape_of(const bench_case *c, int which) {
    switch (c->kind) {
    case BENCH_GEMM:
    case BENCH_BLOCKS:
        return which == 0 ? LS_SHAPE(c->m, c->k) : LS_SHAPE(c->k, c->n);
    case BENCH_CONV:
    case BENCH_PAD:
    case BENCH_NHWC:
    case BENCH_MAX_POOL:
    case BENCH_AVERAGE_POOL:
        return which == 0 ? LS_SHAPE(c->batch, c->in, c->side, c->side)
                          : LS_SHAPE(c->out, c->in / c->groups, c->kernel, c->kernel);
    case BENCH_CNN:
    case BENCH_TRAIN:
        return LS_SHAPE(c->m, 1, 28, 28);
    case BENCH_ENCODER:
        return LS_SHAPE(1, c->m, c->n);
    case BENCH_LSTM:
        return LS_SHAPE(c->k, c->m, c->n);
    default:
        return LS_SHAPE(c->m, c->n);
    }
}

static ls_tensor *gather(ls_session *s, const bench_case *c, ls_tensor *x) {
    int64_t *rows = bench_memory((size_t)c->m * sizeof *rows);
    for (int64_t i = 0; i < c->m; i++) {
        rows[i] = bench_row(c, i);
    }
    ls_tensor *index = ls_tensor_from(s, LS_I64, LS_SHAPE(c->m), rows);
    free(rows);
    return ls_gather(s, x, index, 0);
}

/* The case as a graph. */
static ls_tensor *build(ls_session *s, const bench_case *c, ls_tensor *x, ls_tensor *w, ls_params *p) {
    int64_t pad = bench_padding(c);
    const int64_t kernel[] = {c->kernel, c->kernel};
    const ls_pad_spec pads[4] = {{0}, {0}, {1, 1, 0}, {1, 1, 0}};
    ls_conv_spec spec = {.spatial = 2,
                         .stride = {c->stride, c->stride},
                         .groups = c->groups,
                         .pad_low = {pad, pad},
                         .pad_high = {pad, pad}};
    switch (c->kind) {
    case BENCH_GEMM:
        return ls_matmul(s, x, w);
    case BENCH_BLOCKS:
        return bench_blocks(s, c, x);
    case BENCH_CONV:
        return ls_conv(s, x, w, NULL, &spec);
    case BENCH_LAYERNORM:
        return ls_layer_norm(s, x, 1, NULL, NULL, 1e-5);
    case BENCH_SOFTMAX:
        return ls_softmax(s, x, 1);
    case BENCH_GELU:
        return ls_gelu(s, x);
    case BENCH_TRANSPOSE:
        return ls_transpose(s, x, 0, 1);
    case BENCH_SUM_ROWS:
    case BENCH_SUM_COLUMNS:
        return ls_sum(s, x, 1, (const int[]){c->kind == BENCH_SUM_ROWS}, 0);
    case BENCH_SUM_ALL:
        return ls_sum(s, x, 2, (const int[]){0, 1}, 0);
    case BENCH_MAX_ROWS:
    case BENCH_MAX_COLUMNS:
        return ls_amax(s, x, 1, (const int[]){c->kind == BENCH_MAX_ROWS}, 0);
    case BENCH_SOFTMAX_COLUMNS:
        return ls_softmax(s, x, 0);
    case BENCH_GATHER:
        return gather(s, c, x);
    case BENCH_JOIN:
        return ls_concat(s, (ls_tensor *const[]){x, w}, 2, 1);
    case BENCH_PAD:
        return ls_pad(s, x, pads, 0);
    case BENCH_NHWC:
        return ls_permute(s, x, (const int[]){0, 2, 3, 1});
    case BENCH_MAX_POOL:
        return ls_max_pool(s, x, kernel, &spec);
    case BENCH_AVERAGE_POOL:
        return ls_avg_pool(s, x, kernel, &spec, 0);
    case BENCH_CNN:
    case BENCH_TRAIN:
        return ls_nn_network(s, p, "mnist:cnn", x);
    case BENCH_ENCODER:
        return encoder(s, p, c, x);
    case BENCH_LSTM:
        return lstm(s, p, c, x);
    default:
        return NULL;
    }
}

static void close_state(bench_state *s) {
    if (s) {
        ls_program_destroy(s->program);
        ls_optimizer_destroy(s->optimizer);
        ls_params_destroy(s->params);
        ls_session_destroy(s->session);
        ls_context_destroy(s->context);
        free(s->host_x);
        free(s->host_w);
        free(s->labels);
        free(s->y);
        free(s);
    }
}

static bench_state *start(const bench_case *c, int threads, ls_error *err) {
    bench_state *s = bench_memory(sizeof *s);
    s->c = c;
    s->host_x = bench_operand(0, bench_elements(c, 0));
    s->host_w = bench_operand(1, c->kind == BENCH_BLOCKS ? 0 : bench_elements(c, 1));
    s->y = bench_memory((size_t)bench_elements(c, 2) * 4);
    if (ls_context_create(&(ls_context_options){.threads = threads}, &s->context, err) != LS_OK ||
        ls_session_create(s->context, NULL, &s->session, err) != LS_OK || ls_params_create(s->session, 1, &s->params) != LS_OK) {
        close_state(s);
        return NULL;
    }
    return s;
}

static bench_state *give_up(bench_state *s, const char *message, char *reason, size_t room) {
    snprintf(reason, room, "%s", message);
    close_state(s);
    return NULL;
}

/* One step of training: the loss of labels that are all 0, Adam, the rate an input. */
static ls_tensor *training(bench_state *s, ls_tensor *logits, ls_tensor **inputs) {
    static const float rate = 0.001f;
    inputs[1] = ls_input(s->session, "labels", LS_I32, LS_SHAPE(s->c->m));
    inputs[2] = ls_input(s->session, "rate", LS_F32, LS_SCALAR);
    s->labels = bench_memory((size_t)s->c->m * sizeof *s->labels);
    s->inputs[1] = s->labels;
    s->inputs[2] = &rate;
    ls_tensor *loss = ls_cross_entropy(s->session, logits, inputs[1]);
    ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    if (!loss || ls_optimizer_create(s->session, s->params, &options, &s->optimizer) != LS_OK ||
        ls_optimizer_step(s->session, s->optimizer, loss, inputs[2]) != LS_OK) {
        return NULL;
    }
    return loss;
}

static bench_state *open_case(const bench_engine *e, const bench_case *c, int threads, char *reason, size_t room) {
    if (e->variant == LS_REDUCED && c->kind != BENCH_BLOCKS && !c->bf16) {
        return NULL;
    }
    ls_error err = {.code = LS_OK};
    bench_state *s = start(c, threads, &err);
    if (!s) {
        return give_up(NULL, err.message, reason, room);
    }
    ls_session_set_math(s->session, (ls_math)e->variant);
    ls_tensor *inputs[3] = {NULL}, *x, *w = NULL;
    int n_inputs = 0;
    if (bench_is_timed(c)) {
        x = inputs[n_inputs++] = ls_input(s->session, "x", LS_F32, shape_of(c, 0));
        s->inputs[0] = s->host_x;
        s->outputs[0] = s->y;
    } else {
        s->x = ls_var_create(s->session, "x", LS_F32, shape_of(c, 0), s->host_x);
        x = s->x ? ls_var_value(s->session, s->x) : NULL;
    }
    if (bench_elements(c, 1) && c->kind != BENCH_BLOCKS) {
        s->w = ls_var_create(s->session, "w", LS_F32, shape_of(c, 1), s->host_w);
        w = s->w ? ls_var_value(s->session, s->w) : NULL;
    }
    ls_tensor *y = build(s->session, c, x, w, s->params);
    if (y && c->kind == BENCH_TRAIN) {
        y = training(s, y, inputs);
        n_inputs = 3;
    }
    if (ls_program_compile(s->session, inputs, n_inputs, &y, 1, &s->program) != LS_OK) {
        return give_up(s, ls_session_error(s->session)->message, reason, room);
    }
    return s;
}

static bool renew(bench_state *s) {
    const bench_case *c = s->c;
    ls_var *const vars[] = {s->x, s->w};
    const float *const values[] = {s->host_x, s->host_w};
    for (int i = 0; i < bench_written(c); i++) {
        if (ls_var_write(s->session, vars[i], values[i], (size_t)bench_elements(c, i) * 4) != LS_OK) {
            return false;
        }
    }
    return true;
}

static double run(bench_state *s, int n) {
    double begin = bench_now();
    for (int i = 0; i < n; i++) {
        if (ls_program_run(s->program, s->inputs, s->outputs) != LS_OK) {
            return -1;
        }
    }
    return bench_now() - begin;
}

static double digest(bench_state *s) {
    if (s->c->kind == BENCH_TRAIN) {
        return NAN;
    }
    if (!bench_is_timed(s->c) && ls_program_read(s->program, 0, s->y, (size_t)bench_elements(s->c, 2) * 4) != LS_OK) {
        return INFINITY;
    }
    return bench_digest(s->y, bench_elements(s->c, 2));
}

void *bench_encode(const bench_case *c, size_t *out_size, char *reason, size_t room) {
    ls_error err = {.code = LS_OK};
    bench_state *s = start(c, 1, &err);
    if (!s) {
        give_up(NULL, err.message, reason, room);
        return NULL;
    }
    ls_tensor *x = ls_input(s->session, "x", LS_F32, shape_of(c, 0)), *w = NULL;
    ls_named_tensor inputs[2] = {{"x", x}};
    int n = 1;
    if (bench_elements(c, 1) && c->constant) {
        w = ls_tensor_from(s->session, LS_F32, shape_of(c, 1), s->host_w);
    } else if (bench_elements(c, 1)) {
        w = ls_input(s->session, "w", LS_F32, shape_of(c, 1));
        inputs[n++] = (ls_named_tensor){"w", w};
    }
    ls_named_tensor y = {"y", build(s->session, c, x, w, s->params)};
    ls_data *file = NULL;
    if (!y.tensor) {
        give_up(s, ls_session_error(s->session)->message, reason, room);
        return NULL;
    }
    if (ls_onnx_encode(s->session, n, inputs, 1, &y, &file, &err) != LS_OK) {
        give_up(s, err.message, reason, room);
        return NULL;
    }
    void *bytes = bench_memory(ls_data_size(file));
    memcpy(bytes, ls_data_bytes(file), ls_data_size(file));
    *out_size = ls_data_size(file);
    ls_data_release(file);
    close_state(s);
    return bytes;
}

const bench_engine bench_locked = {"Lockstep locked", true, find, open_case, renew, run, digest, close_state, LS_LOCKED};
const bench_engine bench_fast = {"Lockstep fast", true, find, open_case, renew, run, digest, close_state, LS_FAST};
const bench_engine bench_reduced = {"Lockstep reduced", true, find, open_case, renew, run, digest, close_state, LS_REDUCED};
