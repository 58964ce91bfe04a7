/* The operators that there are, by domain, name and version. */
#include "io/onnx/onnx.h"
#include <string.h>

static const ls_onnx_op *const tables[] = {
    ls_onnx_math_ops, ls_onnx_reduce_ops, ls_onnx_cast_ops, ls_onnx_quant_ops, ls_onnx_shape_ops, ls_onnx_move_ops,
    ls_onnx_index_ops, ls_onnx_image_ops, ls_onnx_nn_ops, ls_onnx_norm_ops, ls_onnx_attention_ops,
    ls_onnx_recurrent_ops, ls_onnx_loss_ops, ls_onnx_control_ops, ls_onnx_sequence_ops, ls_onnx_text_ops,
    ls_onnx_signal_ops, ls_onnx_random_ops, ls_onnx_ml_ops, ls_onnx_train_ops, ls_onnx_contrib_ops, NULL,
};

const ls_onnx_op *ls_onnx_op_at(int number) {
    for (size_t t = 0; tables[t]; t++) {
        for (const ls_onnx_op *op = tables[t]; op->name; op++) {
            if (number-- == 0) {
                return op;
            }
        }
    }
    return NULL;
}

const ls_onnx_op *ls_onnx_find(const char *domain, const char *name, int version) {
    const ls_onnx_op *best = NULL;
    for (size_t t = 0; tables[t]; t++) {
        for (const ls_onnx_op *op = tables[t]; op->name; op++) {
            if (strcmp(op->name, name) == 0 && strcmp(op->domain, domain) == 0 && op->since <= version && (!best || op->since > best->since)) {
                best = op;
            }
        }
    }
    return best;
}
