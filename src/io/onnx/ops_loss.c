/* NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. */
#include "io/onnx/onnx.h"
#include <string.h>

static ls_status loss(ls_onnx_node *n, ls_tensor *log_p, ls_tensor *labels, ls_tensor *weight) {
    static const char *const names[] = {"none", "sum", "mean"};
    const char *given = ls_onnx_attr_string(n, "reduction", "mean");
    int64_t ignore = ls_onnx_attr_int(n, "ignore_index", 0);
    for (int i = 0; i < 3; i++) {
        if (strcmp(given, names[i]) == 0) {
            const int64_t *ignored = ls_onnx_attr(n, "ignore_index") ? &ignore : NULL;
            return ls_onnx_out(n, 0, ls_nll_loss(n->s, log_p, labels, weight, ignored, (ls_reduction)i));
        }
    }
    return ls_onnx_fail(n, LS_ERR_INVALID, "reduction \"%s\": expected none, sum or mean", given);
}

static ls_status nll_loss(ls_onnx_node *n) {
    ls_tensor *log_p = ls_onnx_in(n, 0), *labels = ls_onnx_in(n, 1);
    return log_p && labels ? loss(n, log_p, labels, ls_onnx_in(n, 2)) : ls_onnx_out(n, 0, NULL);
}

static ls_status softmax_loss(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *labels = ls_onnx_in(n, 1);
    if (!x || !labels) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *log_p = ls_log_softmax(n->s, x, 1);
    LS_TRY(n->err, loss(n, log_p, labels, ls_onnx_in(n, 2)));
    return ls_onnx_out(n, 1, log_p);
}

const ls_onnx_op ls_onnx_loss_ops[] = {{"", "NegativeLogLikelihoodLoss", 12, 2, 3, nll_loss, 0},
                                       {"", "SoftmaxCrossEntropyLoss", 12, 2, 3, softmax_loss, 0},
                                       {0}};
