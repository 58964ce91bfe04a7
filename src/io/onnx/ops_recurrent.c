/* RNN, GRU and LSTM: one ls_recurrent a direction. */
#include "io/onnx/onnx.h"
#include <inttypes.h>
#include <string.h>

typedef enum activation {
    ACT_RELU,
    ACT_TANH,
    ACT_SIGMOID,
    ACT_SOFTSIGN,
    ACT_SOFTPLUS,
    ACT_AFFINE,
    ACT_LEAKY_RELU,
    ACT_THRESHOLDED_RELU,
    ACT_SCALED_TANH,
    ACT_HARD_SIGMOID,
    ACT_ELU,
    ACT_COUNT
} activation;

static const struct {
    const char *name;
    int parameters; /* alpha, or alpha and beta */
    double alpha, beta;
} activations[ACT_COUNT] = {
    [ACT_RELU] = {"Relu", 0, 0, 0},
    [ACT_TANH] = {"Tanh", 0, 0, 0},
    [ACT_SIGMOID] = {"Sigmoid", 0, 0, 0},
    [ACT_SOFTSIGN] = {"Softsign", 0, 0, 0},
    [ACT_SOFTPLUS] = {"Softplus", 0, 0, 0},
    [ACT_AFFINE] = {"Affine", 2, 1, 0},
    [ACT_LEAKY_RELU] = {"LeakyRelu", 1, 0.01f, 0},
    [ACT_THRESHOLDED_RELU] = {"ThresholdedRelu", 1, 1, 0},
    [ACT_SCALED_TANH] = {"ScaledTanh", 2, 1, 1},
    [ACT_HARD_SIGMOID] = {"HardSigmoid", 2, 0.2f, 0.5},
    [ACT_ELU] = {"Elu", 1, 1, 0},
};

typedef struct chosen {
    activation which;
    double alpha, beta;
} chosen;

static ls_tensor *number(ls_session *s, ls_tensor *like, double value) {
    return ls_full(s, ls_tensor_dtype(like), LS_SCALAR, value);
}

static ls_tensor *apply(ls_session *s, void *ctx, int which, ls_tensor *x) {
    const chosen *c = (const chosen *)ctx + which;
    ls_tensor *zero = number(s, x, 0), *one = number(s, x, 1), *alpha = number(s, x, c->alpha),
              *beta = number(s, x, c->beta);
    switch (c->which) {
    case ACT_RELU:
        return ls_relu(s, x);
    case ACT_TANH:
        return ls_tanh(s, x);
    case ACT_SOFTSIGN:
        return ls_div(s, x, ls_add(s, one, ls_abs(s, x)));
    case ACT_SOFTPLUS: /* max(x, 0) + log1p(e^-|x|) does not overflow */
        return ls_add(s, ls_max(s, x, zero), ls_log1p(s, ls_exp(s, ls_neg(s, ls_abs(s, x)))));
    case ACT_AFFINE:
        return ls_add(s, ls_mul(s, x, alpha), beta);
    case ACT_LEAKY_RELU:
        return ls_where(s, ls_lt(s, x, zero), ls_mul(s, x, alpha), x);
    case ACT_THRESHOLDED_RELU:
        return ls_where(s, ls_gt(s, x, alpha), x, zero);
    case ACT_SCALED_TANH:
        return ls_mul(s, alpha, ls_tanh(s, ls_mul(s, beta, x)));
    case ACT_HARD_SIGMOID:
        return ls_max(s, ls_min(s, ls_add(s, ls_mul(s, x, alpha), beta), one), zero);
    case ACT_ELU:
        return ls_where(s, ls_lt(s, x, zero), ls_mul(s, alpha, ls_expm1(s, ls_min(s, x, zero))), x);
    default:
        return ls_sigmoid(s, x);
    }
}

static bool same_name(const char *a, const char *b) {
    for (; *a && (*a | 32) == (*b | 32); a++, b++) {
    }
    return *a == *b;
}

/* Reads `total` activations; each takes its alpha and beta from the lists in turn. */
static ls_status read_activations(ls_onnx_node *n, ls_recurrent_cell cell, int total, chosen *out) {
    static const activation usual[][3] = {[LS_CELL_RNN] = {ACT_TANH, ACT_TANH, ACT_TANH},
                                          [LS_CELL_GRU] = {ACT_SIGMOID, ACT_TANH, ACT_TANH},
                                          [LS_CELL_LSTM] = {ACT_SIGMOID, ACT_TANH, ACT_TANH}};
    int given, n_alpha, n_beta, a = 0, b = 0, each = (int)cell + 1;
    const char *const *names = ls_onnx_attr_strings(n, "activations", &given);
    const float *alpha = ls_onnx_attr_floats(n, "activation_alpha", &n_alpha);
    const float *beta = ls_onnx_attr_floats(n, "activation_beta", &n_beta);
    if (given && given < total) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%d activations: expected %d", given, total);
    }
    for (int i = 0; i < total; i++) {
        int which = usual[cell][i % each];
        for (which = given ? 0 : which;
             given && which < ACT_COUNT && !same_name(names[i], activations[which].name); which++) {
        }
        if (which == ACT_COUNT) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "activation \"%s\": not one of the specification's",
                                names[i]);
        }
        out[i] = (chosen){(activation)which, activations[which].alpha, activations[which].beta};
        if (activations[which].parameters > 0 && a < n_alpha) {
            out[i].alpha = alpha[a++];
        }
        if (activations[which].parameters > 1 && b < n_beta) {
            out[i].beta = beta[b++];
        }
    }
    return LS_OK;
}

/* Slice `d` of axis 0, without the axis. */
static ls_tensor *direction_of(ls_onnx_node *n, ls_tensor *x, int d) {
    return x ? ls_squeeze(n->s, ls_narrow(n->s, x, 0, d, 1), 0) : NULL;
}

typedef struct operands {
    ls_tensor *x, *w, *r, *b, *h0, *c0, *p, *lengths;
    int64_t hidden, batch, rows;
} operands;

/* The operands, with time first, and zeros where there is no initial state. */
static ls_status read_operands(ls_onnx_node *n, ls_recurrent_cell cell, bool batch_first, int directions,
                               operands *o) {
    int64_t dx[LS_MAX_RANK], dw[LS_MAX_RANK], dr[LS_MAX_RANK];
    *o = (operands){.x = ls_onnx_in(n, 0),
                    .w = ls_onnx_in(n, 1),
                    .r = ls_onnx_in(n, 2),
                    .b = ls_onnx_in(n, 3),
                    .lengths = ls_onnx_in(n, 4),
                    .h0 = ls_onnx_in(n, 5)};
    if (cell == LS_CELL_LSTM) {
        o->c0 = ls_onnx_in(n, 6);
        o->p = ls_onnx_in(n, 7);
    }
    if (!o->x || !o->w || !o->r) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_dims(o->x, dx) != 3 || ls_onnx_dims(o->w, dw) != 3 || ls_onnx_dims(o->r, dr) != 3 ||
        dw[0] != directions || dr[0] != directions) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "expected X, W and R of rank 3, and %d directions in W and R",
                            directions);
    }
    o->hidden = dr[2];
    o->batch = dx[batch_first ? 0 : 1];
    o->rows = dr[1];
    if (batch_first) {
        o->x = ls_transpose(n->s, o->x, 0, 1);
        o->h0 = o->h0 ? ls_transpose(n->s, o->h0, 0, 1) : NULL;
        o->c0 = o->c0 ? ls_transpose(n->s, o->c0, 0, 1) : NULL;
    }
    ls_tensor *zeros = ls_full(n->s, ls_tensor_dtype(o->w), LS_SHAPE(directions, o->batch, o->hidden), 0);
    o->h0 = o->h0 ? o->h0 : zeros;
    o->c0 = cell == LS_CELL_LSTM && !o->c0 ? zeros : o->c0;
    return LS_OK;
}

static ls_status recurrent(ls_onnx_node *n, ls_recurrent_cell cell) {
    const char *direction = ls_onnx_attr_string(n, "direction", "forward");
    bool batch_first = ls_onnx_attr_int(n, "layout", 0) != 0, both = strcmp(direction, "bidirectional") == 0;
    bool reverse = strcmp(direction, "reverse") == 0;
    int directions = both ? 2 : 1, each = (int)cell + 1;
    chosen list[6];
    operands o;
    if (!both && !reverse && strcmp(direction, "forward") != 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "direction \"%s\": expected forward, reverse or bidirectional",
                            direction);
    }
    LS_TRY(n->err, read_activations(n, cell, directions * each, list));
    LS_TRY(n->err, read_operands(n, cell, batch_first, directions, &o));
    ls_tensor *y[2] = {NULL, NULL}, *h[2] = {NULL, NULL}, *c[2] = {NULL, NULL};
    for (int d = 0; d < directions; d++) {
        ls_tensor *b = direction_of(n, o.b, d), *p = direction_of(n, o.p, d);
        ls_recurrent_spec spec = {.cell = cell,
                                  .reverse = reverse || d == 1,
                                  .lengths = o.lengths,
                                  .peephole = p,
                                  .clip = ls_onnx_attr_float(n, "clip", 0),
                                  .activation = apply,
                                  .ctx = list + d * each,
                                  .linear_before_reset = ls_onnx_attr_int(n, "linear_before_reset", 0) != 0,
                                  .coupled = ls_onnx_attr_int(n, "input_forget", 0) != 0};
        y[d] = ls_recurrent(n->s, o.x, direction_of(n, o.h0, d), direction_of(n, o.c0, d),
                            direction_of(n, o.w, d), direction_of(n, o.r, d),
                            b ? ls_narrow(n->s, b, 0, 0, o.rows) : NULL,
                            b ? ls_narrow(n->s, b, 0, o.rows, o.rows) : NULL, &spec, &h[d], &c[d]);
        if (!y[d]) {
            return ls_onnx_out(n, 0, NULL);
        }
    }
    ls_tensor *all = ls_stack(n->s, y, directions, 1), *last_h = ls_stack(n->s, h, directions, 0);
    ls_tensor *last_c = cell == LS_CELL_LSTM ? ls_stack(n->s, c, directions, 0) : NULL;
    if (batch_first) { /* [T,D,B,H] to [B,T,D,H], [D,B,H] to [B,D,H] */
        all = ls_permute(n->s, all, (const int[]){2, 0, 1, 3});
        last_h = ls_transpose(n->s, last_h, 0, 1);
        last_c = last_c ? ls_transpose(n->s, last_c, 0, 1) : NULL;
    }
    LS_TRY(n->err, ls_onnx_out(n, 0, all));
    LS_TRY(n->err, ls_onnx_out(n, 1, last_h));
    return last_c ? ls_onnx_out(n, 2, last_c) : LS_OK;
}

static ls_status rnn(ls_onnx_node *n) {
    return recurrent(n, LS_CELL_RNN);
}

static ls_status gru(ls_onnx_node *n) {
    return recurrent(n, LS_CELL_GRU);
}

static ls_status lstm(ls_onnx_node *n) {
    return recurrent(n, LS_CELL_LSTM);
}

const ls_onnx_op ls_onnx_recurrent_ops[] = {
    {"", "RNN", 1, 3, 6, rnn, 0}, {"", "GRU", 1, 3, 6, gru, 0}, {"", "LSTM", 1, 3, 8, lstm, 0}, {0}};
