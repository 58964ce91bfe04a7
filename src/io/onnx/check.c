/* What load.h promises of a model, made sure of. */
#include "io/onnx/load.h"

ls_status ls_onnx_check(ls_model *model, ls_error *err) {
    const Onnx__GraphProto *g = model->proto->graph;
    for (size_t i = 0; i < g->n_initializer; i++) {
        LS_TRY(err, ls_onnx_tensor_check(model, g->initializer[i], NULL, err));
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        LS_TRY(err, ls_onnx_sparse_check(model, g->sparse_initializer[i], NULL, err));
    }
    return LS_OK;
}
