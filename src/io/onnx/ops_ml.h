/* What the operators of ai.onnx.ml share: attributes as tensors, scores and labels. */
#ifndef LOCKSTEP_IO_ONNX_OPS_ML_H
#define LOCKSTEP_IO_ONNX_OPS_ML_H

#include "io/onnx/onnx.h"

/* The attribute `name`, a list of floats, or `name` + "_as_tensor", as f64. NULL and 0 when neither is
 * there. */
ls_status ls_onnx_ml_numbers(ls_onnx_node *n, const char *name, double **out_list,
                             int *out_count) LS_MUST_USE;
/* The attribute `name`, a tensor, likewise. */
ls_status ls_onnx_ml_tensor_numbers(ls_onnx_node *n, const char *name, double **out_list,
                                    int *out_count) LS_MUST_USE;
/* A list as a tensor of n->s. */
ls_tensor *ls_onnx_ml_list(ls_onnx_node *n, ls_dtype dtype, int rank, const int64_t *dims,
                           const double *values);
/* Operand 0 as [N, F], of f64 if it is double, else f32; NULL when it failed. */
ls_tensor *ls_onnx_ml_matrix(ls_onnx_node *n, int64_t dims[2]);
/* NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT of scores[N, C]; an unknown name fails the node. */
ls_status ls_onnx_ml_post(ls_onnx_node *n, const char *transform, ls_tensor **inout_scores) LS_MUST_USE;
/* Result 0: the class labels that index[N] (i64) chooses, from the attributes classlabels_<ints_name> or
 * classlabels_strings, or the numbers themselves. */
ls_status ls_onnx_ml_labels(ls_onnx_node *n, ls_tensor *index, const char *ints_name) LS_MUST_USE;

/* ops_tree.c; their rows stand in ls_onnx_ml_ops. */
ls_status ls_onnx_tree_ensemble(ls_onnx_node *n);
ls_status ls_onnx_tree_regressor(ls_onnx_node *n);
ls_status ls_onnx_tree_classifier(ls_onnx_node *n);
/* ops_label.c */
ls_status ls_onnx_label_encoder(ls_onnx_node *n);
ls_status ls_onnx_label_encoder1(ls_onnx_node *n);
ls_status ls_onnx_category_mapper(ls_onnx_node *n);
ls_status ls_onnx_one_hot_encoder(ls_onnx_node *n);

#endif
