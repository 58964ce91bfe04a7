/* Which initialisers of a model are weights to train, and their tensors.
 *
 * An f32 initialiser is one, unless a node reads it as a setting (the limits of a Clip, the statistics of a batch norm) or it has a single
 * element and no node has it in a weight's place: exporters write constants of formulas like that. */
#include "io/onnx/run.h"
#include <string.h>

enum { MOST_DEPTH = 64, ALL_BUT_FIRST = ~1u };

static const char weight[] = "weight", setting[] = "setting"; /* roles, by their addresses */

static const struct {
    const char *op;
    unsigned weights, settings; /* operands, by bit */
} roles[] = {
    {"BatchNormalization", 0x6, 0x18}, {"Clip", 0, ALL_BUT_FIRST},       {"Conv", 0x6, 0},
    {"ConvTranspose", 0x6, 0},         {"DequantizeLinear", 0, ~0u},     {"Dropout", 0, ALL_BUT_FIRST},
    {"DynamicQuantizeMatMul", 0, 0xc}, {"GRU", 0xe, 0x30},               {"Gemm", 0x7, 0},
    {"GroupNormalization", 0x6, 0},    {"InstanceNormalization", 0x6, 0}, {"LSTM", 0x8e, 0x70},
    {"LayerNormalization", 0x6, 0},    {"MatMul", 0x3, 0},               {"MatMulIntegerToFloat", 0, 0x3c},
    {"MatMulNBits", 0x20, 0xc},        {"OneHot", 0, ~0u},               {"PRelu", 0x2, 0},
    {"Pad", 0, ALL_BUT_FIRST},         {"Pow", 0, ALL_BUT_FIRST},        {"QLinearConv", 0, ~0u},
    {"QLinearMatMul", 0, ~0u},         {"QuantizeLinear", 0, ALL_BUT_FIRST}, {"RNN", 0xe, 0x30},
    {"Range", 0, ~0u},                 {"Resize", 0, ALL_BUT_FIRST},     {"Upsample", 0, ALL_BUT_FIRST},
};

static bool note(ls_onnx_base *base, const char *name, const char *role) {
    uint64_t hash = ls_onnx_hash_name(name);
    const char *before = ls_map_get(&base->roles, hash, name);
    if (before == setting || before == role || !ls_model_initializer(base->model, name)) {
        return true;
    }
    if (before) {
        (void)ls_map_remove(&base->roles, hash, name);
    }
    return ls_map_put(&base->roles, hash, name, (void *)role);
}

static bool note_graph(ls_onnx_base *base, const Onnx__GraphProto *g, int depth) {
    bool good = depth < MOST_DEPTH;
    for (size_t i = 0; i < g->n_node && good; i++) {
        const Onnx__NodeProto *p = g->node[i];
        for (size_t r = 0; r < sizeof roles / sizeof *roles && good; r++) {
            for (size_t j = 0; strcmp(p->op_type, roles[r].op) == 0 && j < p->n_input && j < 32 && good; j++) {
                good = !(roles[r].settings >> j & 1) || note(base, p->input[j], setting);
                good = good && (!(roles[r].weights >> j & 1) || note(base, p->input[j], weight));
            }
        }
        for (size_t j = 0; j < p->n_attribute && good; j++) {
            good = !p->attribute[j]->g || note_graph(base, p->attribute[j]->g, depth + 1);
        }
    }
    return good;
}

ls_status ls_onnx_train(ls_onnx_base *base, const ls_onnx_training *training, ls_error *err) {
    base->training = training;
    return note_graph(base, base->model->proto->graph, 0)
               ? LS_OK
               : LS_FAIL(err, LS_ERR_MEMORY, "out of memory for a model's parameters, or subgraphs more than %d deep", MOST_DEPTH);
}

static bool is_trained(const ls_onnx_base *base, const ls_onnx_value *v) {
    const ls_onnx_training *t = base->training;
    if (!t || v->kind != ONNX_TENSOR || v->type != ONNX_FLOAT || !v->data) {
        return false;
    }
    const char *role = ls_map_get(&base->roles, ls_onnx_hash_name(v->name), v->name);
    bool good = role != setting && (role == weight || ls_data_numel(v->data) > 1) && ls_data_numel(v->data) > 0;
    return good && (!t->choose || t->choose(t->user, v->name));
}

ls_status ls_onnx_train_initializer(ls_onnx_base *base, ls_onnx_value *v, ls_error *err) {
    if (!is_trained(base, v)) {
        return LS_OK;
    }
    v->tensor = ls_param_of(base->session, base->training->params, v->name, v->data);
    v->known = false; /* what follows from it is computed on the device, and differentiated */
    return v->tensor ? LS_OK : ls_onnx_take_error(base->session, err);
}
