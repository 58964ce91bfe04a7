/* ai.onnx.ml: features, linear models, and the table of the domain. Trees are in ops_tree.c, labels in
 * ops_label.c. */
#include "io/onnx/ops_ml.h"
#include <string.h>

static double *room(ls_onnx_node *n, int64_t count) {
    return count <= INT32_MAX ? LS_ARENA_ARRAY(ls_onnx_arena(n), double, count + 1) : NULL;
}

ls_status ls_onnx_ml_tensor_numbers(ls_onnx_node *n, const char *name, double **out_list, int *out_count) {
    ls_onnx_value *v = ls_onnx_attr_tensor(n, name);
    const ls_data *data;
    *out_list = NULL;
    *out_count = 0;
    if (!v) {
        return ls_onnx_attr(n, name) ? ls_onnx_out_value(n, 0, NULL) : LS_OK;
    }
    LS_TRY(n->err, ls_onnx_read_value(n, v, &data));
    if (ls_data_dtype(data) != LS_F32 && ls_data_dtype(data) != LS_F64) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "attribute \"%s\": expected float or double", name);
    }
    int64_t count = ls_data_numel(data);
    double *list = room(n, count);
    if (!list) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for attribute \"%s\"", name);
    }
    for (int64_t i = 0; i < count; i++) {
        const void *b = ls_data_bytes(data);
        list[i] = ls_data_dtype(data) == LS_F32 ? (double)((const float *)b)[i] : ((const double *)b)[i];
    }
    *out_list = list;
    *out_count = (int)count;
    return LS_OK;
}

ls_status ls_onnx_ml_numbers(ls_onnx_node *n, const char *name, double **out_list, int *out_count) {
    char longer[64] = "";
    strncat(strncat(longer, name, 48), "_as_tensor", 15);
    if (ls_onnx_attr(n, longer)) {
        return ls_onnx_ml_tensor_numbers(n, longer, out_list, out_count);
    }
    const float *floats = ls_onnx_attr_floats(n, name, out_count);
    *out_list = *out_count ? room(n, *out_count) : NULL;
    if (*out_count && !*out_list) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for attribute \"%s\"", name);
    }
    for (int i = 0; i < *out_count; i++) {
        (*out_list)[i] = (double)floats[i];
    }
    return LS_OK;
}

ls_tensor *ls_onnx_ml_list(ls_onnx_node *n, ls_dtype dtype, int rank, const int64_t *dims,
                           const double *values) {
    return ls_cast(n->s, ls_tensor_from(n->s, LS_F64, ls_shape_make(rank, dims), values), dtype);
}

ls_tensor *ls_onnx_ml_matrix(ls_onnx_node *n, int64_t dims[2]) {
    int64_t all[LS_MAX_RANK] = {0};
    ls_tensor *x = ls_onnx_in(n, 0);
    int rank = ls_onnx_dims(x, all);
    if (!x) {
        return NULL;
    }
    dims[0] = rank == 1 ? 1 : all[0];
    dims[1] = rank == 1 ? all[0] : all[1];
    if (rank != 1 && rank != 2) {
        (void)LS_FAIL(&n->failed, LS_ERR_SHAPE, "operand 0 has %d axes: expected [samples, features]", rank);
        return NULL;
    }
    x = rank == 1 ? ls_onnx_shaped(n, x, 2, dims) : x;
    return ls_cast(n->s, x, ls_onnx_in_type(n, 0) == ONNX_DOUBLE ? LS_F64 : LS_F32);
}

/* sqrt 2 times the inverse error function of 2v - 1, by Winitzki's approximation with a = 0.147, which the
 * operators' definition uses. */
static ls_tensor *probit(ls_onnx_node *n, ls_tensor *v, ls_dtype dtype) {
    ls_session *s = n->s;
    ls_tensor *one = ls_onnx_scalar(n, dtype, 1), *half = ls_onnx_scalar(n, dtype, 0.5),
              *zero = ls_onnx_scalar(n, dtype, 0);
    ls_tensor *x = ls_sub(s, ls_add(s, v, v), one);
    ls_tensor *inside = ls_mul(s, ls_sub(s, one, x), ls_add(s, one, x));
    ls_tensor *log = ls_log(s, inside);
    ls_tensor *a =
        ls_add(s, ls_onnx_scalar(n, dtype, 2 / (3.14159265358979323846 * 0.147)), ls_mul(s, half, log));
    ls_tensor *b = ls_mul(s, ls_onnx_scalar(n, dtype, 1 / 0.147), log);
    ls_tensor *y = ls_sqrt(s, ls_sub(s, ls_sqrt(s, ls_sub(s, ls_mul(s, a, a), b)), a));
    y = ls_mul(s, ls_where(s, ls_lt(s, x, zero), ls_neg(s, y), y), ls_onnx_scalar(n, dtype, 1.41421356));
    return ls_where(s, ls_eq(s, inside, zero), zero, y);
}

/* A softmax in which scores of 0 stay 0, or nearly so. */
static ls_tensor *softmax_zero(ls_onnx_node *n, ls_tensor *v, ls_dtype dtype) {
    ls_session *s = n->s;
    const int columns[1] = {1};
    ls_tensor *most = ls_amax(s, v, 1, columns, 1), *zero = ls_onnx_scalar(n, dtype, 0);
    ls_tensor *far = ls_lt(s, ls_onnx_scalar(n, dtype, 1e-7), ls_abs(s, v));
    ls_tensor *e = ls_where(s, far, ls_exp(s, ls_sub(s, v, most)), ls_mul(s, v, ls_exp(s, ls_neg(s, most))));
    ls_tensor *sum = ls_sum(s, e, 1, columns, 1);
    return ls_where(s, ls_eq(s, sum, zero), ls_onnx_scalar(n, dtype, 0.5), ls_div(s, e, sum));
}

ls_status ls_onnx_ml_post(ls_onnx_node *n, const char *transform, ls_tensor **inout_scores) {
    ls_tensor *v = *inout_scores;
    if (!v) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype dtype = ls_tensor_dtype(v);
    if (!strcmp(transform, "LOGISTIC")) {
        v = ls_sigmoid(n->s, v);
    } else if (!strcmp(transform, "SOFTMAX")) {
        v = ls_softmax(n->s, v, 1);
    } else if (!strcmp(transform, "SOFTMAX_ZERO")) {
        v = softmax_zero(n, v, dtype);
    } else if (!strcmp(transform, "PROBIT")) {
        v = probit(n, v, dtype);
    } else if (strcmp(transform, "NONE") != 0) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "post_transform \"%s\"", transform);
    }
    *inout_scores = v;
    return v ? LS_OK : ls_onnx_out(n, 0, NULL);
}

ls_status ls_onnx_ml_labels(ls_onnx_node *n, ls_tensor *index, const char *ints_name) {
    int n_ints, n_strings;
    const int64_t *ints = ls_onnx_attr_ints(n, ints_name, &n_ints);
    const char *const *strings = ls_onnx_attr_strings(n, "classlabels_strings", &n_strings);
    const ls_data *data;
    if (n_ints > 0) {
        return ls_onnx_out(n, 0, ls_gather(n->s, ls_onnx_list(n, LS_I64, n_ints, ints), index, 0));
    }
    if (n_strings == 0) {
        return ls_onnx_out(n, 0, index);
    }
    ls_onnx_value *v = ls_onnx_value_of(n, index, ONNX_INT64),
                  *out = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    if (!v || !out) {
        return ls_onnx_out_value(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_read_value(n, v, &data));
    out->rank = 1;
    out->dims[0] = ls_data_numel(data);
    out->known = true;
    out->strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, out->dims[0] + 1);
    for (int64_t i = 0; out->strings && i < out->dims[0]; i++) {
        int64_t k = ((const int64_t *)ls_data_bytes(data))[i];
        if (k < 0 || k >= n_strings) {
            return ls_onnx_fail(n, LS_ERR_RANGE, "class %lld of %d labels", (long long)k, n_strings);
        }
        out->strings[i] = strings[k];
    }
    return out->strings ? ls_onnx_out_value(n, 0, out)
                        : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for labels");
}

/* ---- features ---- */

static ls_status feature_strings(ls_onnx_node *n, const int64_t *picks, int count) {
    const ls_onnx_value *x = n->in[0];
    ls_onnx_value *y = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    int64_t features = x->dims[x->rank - 1], rows = 1;
    for (int i = 0; i < x->rank - 1; i++) {
        rows *= x->dims[i];
    }
    if (!y || !(y->strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, rows *count + 1))) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
    }
    y->known = true;
    y->rank = x->rank == 1 ? 2 : x->rank;
    y->dims[0] = 1;
    memcpy(y->dims, x->dims, sizeof *y->dims * (size_t)(x->rank - 1));
    y->dims[y->rank - 1] = count;
    for (int64_t i = 0; i < rows * count; i++) {
        y->strings[i] = x->strings[i / count * features + picks[i % count]];
    }
    return ls_onnx_out_value(n, 0, y);
}

static ls_status array_feature_extractor(ls_onnx_node *n) {
    int64_t dims[LS_MAX_RANK], *picks;
    int count, rank = ls_onnx_value_dims(n->in[0], dims);
    LS_TRY(n->err, ls_onnx_ints(n, 1, &picks, &count));
    for (int i = 0; i < count; i++) {
        if (rank < 1 || picks[i] < 0 || picks[i] >= dims[rank - 1]) {
            return ls_onnx_fail(n, LS_ERR_RANGE, "feature %lld of operand 0, of %d axes", (long long)picks[i],
                                rank);
        }
    }
    if (rank < 1 || count < 1) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "expected features and at least one index");
    }
    if (n->in[0]->kind == ONNX_STRINGS) {
        return feature_strings(n, picks, count);
    }
    ls_tensor *y = ls_gather(n->s, ls_onnx_in(n, 0), ls_onnx_list(n, LS_I64, count, picks), rank - 1);
    return ls_onnx_out(n, 0, rank == 1 ? ls_unsqueeze(n->s, y, 0) : y);
}

static ls_status binarizer(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype dtype = ls_tensor_dtype(x),
             wide = dtype == LS_F64 || dtype == LS_I64 || dtype == LS_I32 ? LS_F64 : LS_F32;
    ls_tensor *above =
        ls_gt(n->s, ls_cast(n->s, x, wide), ls_onnx_scalar(n, wide, ls_onnx_attr_float(n, "threshold", 0)));
    return ls_onnx_out(n, 0, ls_cast(n->s, above, dtype));
}

/* A list of 1 or `features` numbers, to broadcast with x's last axis. */
static ls_status per_feature(ls_onnx_node *n, const char *name, double otherwise, int64_t features,
                             ls_tensor **out_list) {
    double *list;
    int count;
    LS_TRY(n->err, ls_onnx_ml_numbers(n, name, &list, &count));
    if (count > 1 && count != features) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "attribute %s has %d numbers: expected 1 or %lld", name, count,
                            (long long)features);
    }
    *out_list = count ? ls_onnx_ml_list(n, LS_F32, 1, (const int64_t[]){count}, list)
                      : ls_onnx_scalar(n, LS_F32, otherwise);
    return LS_OK;
}

static ls_status scaler(ls_onnx_node *n) {
    int64_t dims[LS_MAX_RANK];
    ls_tensor *x = ls_onnx_in(n, 0), *offset, *scale;
    int rank = ls_onnx_dims(x, dims);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, per_feature(n, "offset", 0, rank ? dims[rank - 1] : 1, &offset));
    LS_TRY(n->err, per_feature(n, "scale", 1, rank ? dims[rank - 1] : 1, &scale));
    return ls_onnx_out(n, 0, ls_mul(n->s, ls_sub(n->s, ls_cast(n->s, x, LS_F32), offset), scale));
}

static ls_status normalizer(ls_onnx_node *n) {
    int64_t dims[2];
    const char *norm = ls_onnx_attr_string(n, "norm", "MAX");
    const int columns[1] = {1};
    ls_session *s = n->s;
    ls_tensor *x = ls_cast(s, ls_onnx_ml_matrix(n, dims), LS_F32), *size = ls_abs(s, x);
    if (!strcmp(norm, "MAX")) {
        size = ls_amax(s, size, 1, columns, 1);
    } else if (!strcmp(norm, "L1")) {
        size = ls_sum(s, size, 1, columns, 1);
    } else if (!strcmp(norm, "L2")) {
        size = ls_sqrt(s, ls_sum(s, ls_mul(s, x, x), 1, columns, 1));
    } else {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "norm \"%s\": expected MAX, L1 or L2", norm);
    }
    return ls_onnx_out(n, 0, ls_div(s, x, ls_max(s, size, ls_onnx_scalar(n, LS_F32, 1e-30))));
}

static ls_status imputer(ls_onnx_node *n) {
    int64_t dims[LS_MAX_RANK];
    int n_floats, n_ints;
    const float *floats = ls_onnx_attr_floats(n, "imputed_value_floats", &n_floats);
    const int64_t *ints = ls_onnx_attr_ints(n, "imputed_value_int64s", &n_ints);
    ls_tensor *x = ls_onnx_in(n, 0), *missing, *values;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype dtype = ls_tensor_dtype(x);
    int rank = ls_onnx_dims(x, dims), count = n_floats ? n_floats : n_ints;
    if (count < 1 || rank < 1 || (count != 1 && count != dims[rank - 1])) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d imputed values: expected 1, or one a feature", count);
    }
    if (n_floats) {
        double replaced = ls_onnx_attr_float(n, "replaced_value_float", 0);
        missing =
            replaced != replaced ? ls_isnan(n->s, x) : ls_eq(n->s, x, ls_onnx_scalar(n, dtype, replaced));
        values = ls_cast(n->s, ls_tensor_from(n->s, LS_F32, LS_SHAPE(count), floats), dtype);
    } else {
        missing = ls_eq(n->s, x,
                        ls_full_i64(n->s, dtype, LS_SCALAR, ls_onnx_attr_int(n, "replaced_value_int64", 0)));
        values = ls_onnx_list(n, dtype, count, ints);
    }
    return ls_onnx_out(n, 0, ls_where(n->s, missing, values, x));
}

static ls_status feature_vectorizer(ls_onnx_node *n) {
    int count;
    const int64_t *widths = ls_onnx_attr_ints(n, "inputdimensions", &count);
    ls_tensor **parts = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, n->n_in);
    if (count != n->n_in || !parts) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "%d inputdimensions for %d operands", count, n->n_in);
    }
    for (int i = 0; i < n->n_in; i++) {
        int64_t dims[LS_MAX_RANK];
        ls_tensor *x = ls_onnx_in(n, i);
        int rank = ls_onnx_dims(x, dims);
        if (!x || rank < 1 || rank > 2 || widths[i] < 0) {
            return x ? ls_onnx_fail(n, LS_ERR_SHAPE, "operand %d: expected [samples] or [samples, features]",
                                    i)
                     : ls_onnx_out(n, 0, NULL);
        }
        x = ls_cast(n->s, rank == 1 ? ls_unsqueeze(n->s, x, 1) : x, LS_F32);
        parts[i] =
            ls_pad(n->s, x, (const ls_pad_spec[]){{0}, {.high = widths[i] - (rank == 1 ? 1 : dims[1])}}, 0);
    }
    return ls_onnx_out(n, 0, ls_concat(n->s, parts, n->n_in, 1));
}

/* ---- linear models ---- */

/* x[N, F] times the transposed coefficients[C, F], plus the intercepts; [N, C]. */
static ls_status linear(ls_onnx_node *n, int64_t rows, ls_tensor **out_scores) {
    int64_t dims[2];
    double *weights, *bias;
    int n_weights, n_bias;
    ls_tensor *x = ls_onnx_ml_matrix(n, dims);
    LS_TRY(n->err, ls_onnx_ml_numbers(n, "coefficients", &weights, &n_weights));
    LS_TRY(n->err, ls_onnx_ml_numbers(n, "intercepts", &bias, &n_bias));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    rows = rows ? rows : dims[1] ? n_weights / dims[1] : 0;
    if (rows < 1 || n_weights != rows * dims[1] || (n_bias && n_bias != rows)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d coefficients and %d intercepts for %lld features", n_weights,
                            n_bias, (long long)dims[1]);
    }
    ls_dtype dtype = ls_tensor_dtype(x);
    ls_tensor *w = ls_onnx_ml_list(n, dtype, 2, (const int64_t[]){rows, dims[1]}, weights);
    ls_tensor *b = n_bias ? ls_onnx_ml_list(n, dtype, 1, &rows, bias) : NULL;
    *out_scores = ls_linear(n->s, x, w, b);
    return *out_scores ? LS_OK : ls_onnx_out(n, 0, NULL);
}

static ls_status linear_regressor(ls_onnx_node *n) {
    ls_tensor *y;
    LS_TRY(n->err, linear(n, ls_onnx_attr_int(n, "targets", 1), &y));
    LS_TRY(n->err, ls_onnx_ml_post(n, ls_onnx_attr_string(n, "post_transform", "NONE"), &y));
    return ls_onnx_out(n, 0, ls_cast(n->s, y, LS_F32));
}

static ls_status linear_classifier(ls_onnx_node *n) {
    ls_tensor *y;
    int64_t dims[LS_MAX_RANK];
    int n_ints, n_strings;
    const char *transform = ls_onnx_attr_string(n, "post_transform", "NONE");
    ls_onnx_attr_ints(n, "classlabels_ints", &n_ints);
    ls_onnx_attr_strings(n, "classlabels_strings", &n_strings);
    LS_TRY(n->err, linear(n, 0, &y));
    ls_onnx_dims(y, dims);
    if (dims[1] == 1 && (n_ints == 2 || n_strings == 2)) {
        y = ls_concat(n->s, (ls_tensor *[]){ls_neg(n->s, y), y}, 2, 1);
        dims[1] = 2;
    }
    LS_TRY(n->err, ls_onnx_ml_post(n, transform, &y));
    LS_TRY(n->err, ls_onnx_out(n, 1, ls_cast(n->s, y, LS_F32)));
    if (dims[1] == 1) { /* one class, or not: 0 is the label of not */
        if (n_strings) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "one class with a label that is a string");
        }
        int count;
        const int64_t *label = ls_onnx_attr_ints(n, "classlabels_ints", &count);
        ls_tensor *yes =
            ls_ge(n->s, y, ls_onnx_scalar(n, ls_tensor_dtype(y), strcmp(transform, "NONE") ? 0.5 : 0));
        ls_tensor *chosen = ls_where(n->s, yes, ls_full_i64(n->s, LS_I64, LS_SCALAR, count ? label[0] : 1),
                                     ls_full_i64(n->s, LS_I64, LS_SCALAR, 0));
        return ls_onnx_out(n, 0, ls_squeeze(n->s, chosen, 1));
    }
    return ls_onnx_ml_labels(n, ls_argmax(n->s, y, 1, (const int[]){1}, 0), "classlabels_ints");
}

static ls_status maps(ls_onnx_node *n) {
    return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "maps are not supported");
}

const ls_onnx_op ls_onnx_ml_ops[] = {
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, 2, 2, array_feature_extractor, 0},
    {"ai.onnx.ml", "Binarizer", 1, 1, 1, binarizer, 0},
    {"ai.onnx.ml", "CategoryMapper", 1, 1, 1, ls_onnx_category_mapper, ONNX_HOST},
    {"ai.onnx.ml", "DictVectorizer", 1, 1, 1, maps, 0},
    {"ai.onnx.ml", "FeatureVectorizer", 1, 1, -1, feature_vectorizer, 0},
    {"ai.onnx.ml", "Imputer", 1, 1, 1, imputer, 0},
    {"ai.onnx.ml", "LabelEncoder", 1, 1, 1, ls_onnx_label_encoder1, ONNX_HOST},
    {"ai.onnx.ml", "LabelEncoder", 2, 1, 1, ls_onnx_label_encoder, ONNX_HOST},
    {"ai.onnx.ml", "LinearClassifier", 1, 1, 1, linear_classifier, 0},
    {"ai.onnx.ml", "LinearRegressor", 1, 1, 1, linear_regressor, 0},
    {"ai.onnx.ml", "Normalizer", 1, 1, 1, normalizer, 0},
    {"ai.onnx.ml", "OneHotEncoder", 1, 1, 1, ls_onnx_one_hot_encoder, ONNX_HOST},
    {"ai.onnx.ml", "Scaler", 1, 1, 1, scaler, 0},
    {"ai.onnx.ml", "TreeEnsemble", 5, 1, 1, ls_onnx_tree_ensemble, 0},
    {"ai.onnx.ml", "TreeEnsembleClassifier", 1, 1, 1, ls_onnx_tree_classifier, 0},
    {"ai.onnx.ml", "TreeEnsembleRegressor", 1, 1, 1, ls_onnx_tree_regressor, 0},
    {"ai.onnx.ml", "ZipMap", 1, 1, 1, maps, 0},
    {0},
};
