/* Strings as the numbers of their places, so that whatever moves tensors moves strings. */
#include "io/onnx/moved.h"
#include <inttypes.h>

static bool is_strings(const ls_onnx_node *n, int i) {
    return ls_onnx_has(n, i) && n->in[i]->kind == ONNX_STRINGS;
}

static int64_t count_strings(const ls_onnx_value *v) {
    int64_t dims[LS_MAX_RANK], count = 1;
    int rank = ls_onnx_value_dims(v, dims);
    for (int i = 0; i < rank; i++) {
        count *= dims[i];
    }
    return count;
}

ls_tensor *ls_onnx_moved_in(ls_onnx_node *n, int i) {
    if (!is_strings(n, i)) {
        return ls_onnx_in(n, i);
    }
    int64_t dims[LS_MAX_RANK], first = 0;
    int rank = ls_onnx_value_dims(n->in[i], dims);
    for (int j = 0; j < i; j++) {
        first += is_strings(n, j) ? count_strings(n->in[j]) : 0;
    }
    int64_t count = count_strings(n->in[i]);
    ls_tensor *numbers = ls_iota(n->s, LS_I64, ls_shape_make(1, &count), 0);
    numbers = ls_add(n->s, numbers, ls_full_i64(n->s, LS_I64, LS_SCALAR, first));
    return ls_reshape(n->s, numbers, ls_shape_make(rank, dims));
}

/* The string of a number; NULL for none. */
static const char *string_at(const ls_onnx_node *n, int64_t number) {
    for (int i = 0; number >= 0 && i < n->n_in; i++) {
        int64_t count = is_strings(n, i) ? count_strings(n->in[i]) : 0;
        if (number < count) {
            return n->in[i]->strings[number];
        }
        number -= count;
    }
    return NULL;
}

ls_status ls_onnx_moved_out(ls_onnx_node *n, int i, ls_tensor *t, int from) {
    if (!is_strings(n, from)) {
        return ls_onnx_out_as(n, i, t, ls_onnx_in_type(n, from));
    }
    const ls_data *numbers;
    ls_onnx_value *places = ls_onnx_value_of(n, t, ONNX_INT64), *v = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    if (!places) {
        return n->err->code;
    }
    LS_TRY(n->err, ls_onnx_read_value(n, places, &numbers));
    const int64_t *at = ls_data_bytes(numbers);
    int64_t count = ls_data_numel(numbers);
    const char **strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, count + 1);
    if (!v || !strings) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %" PRId64 " strings", count);
    }
    for (int64_t k = 0; k < count; k++) {
        strings[k] = string_at(n, at[k]);
        if (!strings[k]) {
            return ls_onnx_fail(n, LS_ERR_RANGE, "element %" PRId64 " is read from outside of the operand", k);
        }
    }
    v->known = true;
    v->rank = ls_data_rank(numbers);
    for (int d = 0; d < v->rank; d++) {
        v->dims[d] = ls_data_dims(numbers)[d];
    }
    v->strings = strings;
    return ls_onnx_out_value(n, i, v);
}

ls_status ls_onnx_check_rank(ls_onnx_node *n, int64_t rank) {
    return rank <= LS_MAX_RANK ? LS_OK
                               : ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a tensor of rank %" PRId64 ": at most %d is supported",
                                              rank, LS_MAX_RANK);
}

ls_tensor *ls_onnx_indices(ls_onnx_node *n, int rank, const int64_t *dims, const int64_t *values) {
    return ls_tensor_from(n->s, LS_I64, ls_shape_make(rank, dims), values);
}

ls_status ls_onnx_operand_or_attr(ls_onnx_node *n, int i, const char *name, const int64_t **out_list, int *out_count) {
    *out_list = NULL;
    *out_count = -1;
    if (ls_onnx_has(n, i)) {
        int64_t *list;
        LS_TRY(n->err, ls_onnx_ints(n, i, &list, out_count));
        *out_list = list;
    } else if (ls_onnx_attr(n, name)) {
        *out_list = ls_onnx_attr_ints(n, name, out_count);
    }
    return LS_OK;
}
