/* The operators that there are, by domain, name and version. */
#include "io/onnx/onnx.h"
#include <string.h>

static const ls_onnx_op *const tables[] = {
#if __has_include("io/onnx/ops_math.c")
    ls_onnx_math_ops,
#endif
#if __has_include("io/onnx/ops_reduce.c")
    ls_onnx_reduce_ops,
#endif
#if __has_include("io/onnx/ops_cast.c")
    ls_onnx_cast_ops,
#endif
#if __has_include("io/onnx/ops_quant.c")
    ls_onnx_quant_ops,
#endif
#if __has_include("io/onnx/ops_shape.c")
    ls_onnx_shape_ops,
#endif
#if __has_include("io/onnx/ops_index.c")
    ls_onnx_index_ops,
#endif
#if __has_include("io/onnx/ops_image.c")
    ls_onnx_image_ops,
#endif
#if __has_include("io/onnx/ops_nn.c")
    ls_onnx_nn_ops,
#endif
#if __has_include("io/onnx/ops_norm.c")
    ls_onnx_norm_ops,
#endif
#if __has_include("io/onnx/ops_attention.c")
    ls_onnx_attention_ops,
#endif
#if __has_include("io/onnx/ops_recurrent.c")
    ls_onnx_recurrent_ops,
#endif
#if __has_include("io/onnx/ops_loss.c")
    ls_onnx_loss_ops,
#endif
#if __has_include("io/onnx/ops_control.c")
    ls_onnx_control_ops,
#endif
#if __has_include("io/onnx/ops_sequence.c")
    ls_onnx_sequence_ops,
#endif
#if __has_include("io/onnx/ops_text.c")
    ls_onnx_text_ops,
#endif
#if __has_include("io/onnx/ops_signal.c")
    ls_onnx_signal_ops,
#endif
#if __has_include("io/onnx/ops_random.c")
    ls_onnx_random_ops,
#endif
#if __has_include("io/onnx/ops_ml.c")
    ls_onnx_ml_ops,
#endif
#if __has_include("io/onnx/ops_train.c")
    ls_onnx_train_ops,
#endif
#if __has_include("io/onnx/ops_contrib.c")
    ls_onnx_contrib_ops,
#endif
    NULL};

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
