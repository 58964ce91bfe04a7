/* ai.onnx.ml: labels: keys, numbers or strings, looked up in tables. On the host, since strings live
 * there. */
#include "io/onnx/ops_ml.h"
#include <string.h>

/* A key or an element: a string, or the bits of a number. */
typedef struct label {
    const char *text; /* NULL: a number */
    uint64_t bits;
} label;

/* Labels of one kind: an attribute's or an operand's. */
typedef struct labels {
    int64_t count;
    const char *const *strings; /* NULL: numbers */
    const ls_data *data;        /* of a tensor; else: */
    const int64_t *ints;
    const float *floats;
} labels;

static uint64_t float_bits(double x) {
    uint64_t bits;
    x = x == 0 ? 0 : x;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? 0x7ff8000000000000u : bits;
}

static bool label_at(const labels *l, int64_t i, label *out) {
    *out = (label){0};
    if (l->strings) {
        out->text = l->strings[i];
        return true;
    }
    if (!l->data) {
        out->bits = l->ints ? (uint64_t)l->ints[i] : float_bits((double)l->floats[i]);
        return true;
    }
    const void *b = ls_data_bytes(l->data);
    switch (ls_data_dtype(l->data)) {
    case LS_F32:
        out->bits = float_bits((double)((const float *)b)[i]);
        return true;
    case LS_F64:
        out->bits = float_bits(((const double *)b)[i]);
        return true;
    case LS_I64:
        out->bits = (uint64_t)((const int64_t *)b)[i];
        return true;
    case LS_I32:
        out->bits = (uint64_t)(int64_t)((const int32_t *)b)[i];
        return true;
    case LS_I16:
        out->bits = (uint64_t)(int64_t)((const int16_t *)b)[i];
        return true;
    default:
        return false;
    }
}

static bool same_label(const void *a, const void *b) {
    const label *x = a, *y = b;
    return x->text && y->text ? !strcmp(x->text, y->text) : !x->text && !y->text && x->bits == y->bits;
}
static uint64_t hash_label(const label *l) {
    return l->text ? ls_hash(l->text, strlen(l->text), 1) : ls_hash_u64(l->bits, 0);
}

static bool is_float(const labels *l) {
    return !l->strings &&
           (l->data ? ls_data_dtype(l->data) == LS_F32 || ls_data_dtype(l->data) == LS_F64 : !l->ints);
}

static ls_status labels_in(ls_onnx_node *n, labels *out) {
    int64_t dims[LS_MAX_RANK];
    const ls_onnx_value *x = n->in[0];
    *out = (labels){.count = 1, .strings = x->kind == ONNX_STRINGS ? (const char *const *)x->strings : NULL};
    if (x->kind == ONNX_STRINGS) {
        int rank = ls_onnx_value_dims(x, dims);
        for (int i = 0; i < rank; i++) {
            out->count *= dims[i];
        }
        return LS_OK;
    }
    LS_TRY(n->err, ls_onnx_read(n, 0, &out->data));
    out->count = ls_data_numel(out->data);
    return LS_OK;
}

/* Of operand 0's elements the index of each in the keys, the last of equal ones; keys->count when there is
 * none. */
static ls_status find_all(ls_onnx_node *n, const labels *keys, int64_t **out_index) {
    labels x;
    LS_TRY(n->err, labels_in(n, &x));
    label *table = LS_ARENA_ARRAY(ls_onnx_arena(n), label, keys->count + 1), one;
    int64_t *index = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, x.count + 1);
    if (!table || !index) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for labels");
    }
    if (!x.strings != !keys->strings || is_float(&x) != is_float(keys) ||
        (!x.strings && x.count && !label_at(&x, 0, &one))) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "operand 0 is of %s: expected the keys' type",
                            ls_onnx_type_name(n->in[0]->type));
    }
    ls_map map;
    ls_map_init(&map, ls_onnx_arena(n)->heap, same_label);
    bool good = true;
    for (int64_t i = keys->count - 1; i >= 0 && good; i--) {
        good = label_at(keys, i, &table[i]);
        if (good && !ls_map_get(&map, hash_label(&table[i]), &table[i])) {
            good = ls_map_put(&map, hash_label(&table[i]), &table[i], &table[i]);
        }
    }
    for (int64_t i = 0; i < x.count && good; i++) {
        label_at(&x, i, &one);
        const label *found = ls_map_get(&map, hash_label(&one), &one);
        index[i] = found ? found - table : keys->count;
    }
    ls_map_free(&map);
    *out_index = index;
    return good ? LS_OK
                : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for labels, or keys of an unexpected type");
}

/* values[index], the default at the end, in operand 0's shape. */
static ls_status out_numbers(ls_onnx_node *n, const int64_t *index, ls_tensor *values, ls_tensor *otherwise) {
    int64_t dims[LS_MAX_RANK];
    int rank = ls_onnx_value_dims(n->in[0], dims);
    if (values && otherwise && ls_tensor_dtype(values) != ls_tensor_dtype(otherwise)) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "the default's type is not the values'");
    }
    const int64_t one[1] = {1};
    ls_tensor *table = ls_concat(n->s, (ls_tensor *[]){values, ls_onnx_shaped(n, otherwise, 1, one)}, 2, 0);
    ls_tensor *at = ls_tensor_from(n->s, LS_I64, ls_shape_make(rank, dims), index);
    return ls_onnx_out(n, 0, ls_gather(n->s, table, at, 0));
}

static ls_status out_strings(ls_onnx_node *n, const int64_t *index, const char *const *values, int64_t count,
                             const char *otherwise) {
    ls_onnx_value *y = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    int64_t total = 1;
    if (!y) {
        return ls_onnx_out_value(n, 0, NULL);
    }
    y->known = true;
    y->rank = ls_onnx_value_dims(n->in[0], y->dims);
    for (int i = 0; i < y->rank; i++) {
        total *= y->dims[i];
    }
    y->strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, total + 1);
    for (int64_t i = 0; y->strings && i < total; i++) {
        y->strings[i] = index[i] < count ? values[index[i]] : otherwise;
    }
    return y->strings ? ls_onnx_out_value(n, 0, y)
                      : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
}

static ls_status keys_of(ls_onnx_node *n, labels *keys) {
    int n_strings, n_ints, n_floats;
    *keys = (labels){.strings = ls_onnx_attr_strings(n, "keys_strings", &n_strings),
                     .ints = ls_onnx_attr_ints(n, "keys_int64s", &n_ints),
                     .floats = ls_onnx_attr_floats(n, "keys_floats", &n_floats)};
    keys->count = keys->strings ? n_strings : keys->ints ? n_ints : n_floats;
    ls_onnx_value *v = ls_onnx_attr_tensor(n, "keys_tensor");
    if (v && v->kind == ONNX_STRINGS) {
        int64_t dims[LS_MAX_RANK] = {1};
        ls_onnx_value_dims(v, dims);
        *keys = (labels){.count = dims[0], .strings = (const char *const *)v->strings};
    } else if (v) {
        *keys = (labels){0};
        LS_TRY(n->err, ls_onnx_read_value(n, v, &keys->data));
        keys->count = ls_data_numel(keys->data);
    }
    return LS_OK;
}

ls_status ls_onnx_label_encoder(ls_onnx_node *n) {
    labels keys;
    int64_t *index;
    int count;
    LS_TRY(n->err, keys_of(n, &keys));
    LS_TRY(n->err, find_all(n, &keys, &index));
    const char *const *strings = ls_onnx_attr_strings(n, "values_strings", &count);
    const char *text = ls_onnx_attr_string(n, "default_string", "_Unused");
    ls_onnx_value *tensor = ls_onnx_attr_tensor(n, "values_tensor"),
                  *otherwise = ls_onnx_attr_tensor(n, "default_tensor");
    if (tensor && tensor->kind == ONNX_STRINGS) {
        strings = (const char *const *)tensor->strings;
        count = (int)tensor->dims[0];
        text = otherwise && otherwise->kind == ONNX_STRINGS ? otherwise->strings[0] : text;
    }
    if (strings) {
        return count == keys.count
                   ? out_strings(n, index, strings, count, text)
                   : ls_onnx_fail(n, LS_ERR_FORMAT, "%lld keys and %d values", (long long)keys.count, count);
    }
    ls_tensor *values, *fallback;
    int64_t dims[LS_MAX_RANK] = {0};
    int n_ints, n_floats;
    const int64_t *ints = ls_onnx_attr_ints(n, "values_int64s", &n_ints);
    const float *floats = ls_onnx_attr_floats(n, "values_floats", &n_floats);
    if (tensor) {
        values = ls_onnx_tensor(n, tensor);
        bool real = tensor->type == ONNX_FLOAT || tensor->type == ONNX_DOUBLE;
        fallback = otherwise ? ls_onnx_tensor(n, otherwise)
                   : values  ? ls_onnx_scalar(n, ls_tensor_dtype(values), real ? -0.0 : -1)
                             : NULL;
    } else if (ints) {
        values = ls_onnx_list(n, LS_I64, n_ints, ints);
        fallback = ls_full_i64(n->s, LS_I64, LS_SCALAR, ls_onnx_attr_int(n, "default_int64", -1));
    } else {
        values = ls_tensor_from(n->s, LS_F32, LS_SHAPE(n_floats), floats);
        fallback = ls_onnx_scalar(n, LS_F32, ls_onnx_attr_float(n, "default_float", -0.0));
    }
    if (!values || ls_onnx_dims(values, dims) != 1 || dims[0] != keys.count) {
        return values ? ls_onnx_fail(n, LS_ERR_FORMAT, "%lld keys and %lld values", (long long)keys.count,
                                     (long long)dims[0])
                      : ls_onnx_out(n, 0, NULL);
    }
    return out_numbers(n, index, values, fallback);
}

/* Strings to numbers or numbers to strings, whichever operand 0 is. */
static ls_status both_ways(ls_onnx_node *n, const char *const *strings, int count, const int64_t *numbers) {
    int64_t *index;
    if (n->in[0]->kind == ONNX_STRINGS) {
        LS_TRY(n->err, find_all(n, &(labels){.count = count, .strings = strings}, &index));
        return out_numbers(n, index, ls_onnx_list(n, LS_I64, count, numbers),
                           ls_full_i64(n->s, LS_I64, LS_SCALAR, ls_onnx_attr_int(n, "default_int64", -1)));
    }
    LS_TRY(n->err, find_all(n, &(labels){.count = count, .ints = numbers}, &index));
    return out_strings(n, index, strings, count, ls_onnx_attr_string(n, "default_string", "_Unused"));
}

ls_status ls_onnx_category_mapper(ls_onnx_node *n) {
    int n_strings, n_ints;
    const char *const *strings = ls_onnx_attr_strings(n, "cats_strings", &n_strings);
    const int64_t *ints = ls_onnx_attr_ints(n, "cats_int64s", &n_ints);
    return n_strings == n_ints && n_ints > 0
               ? both_ways(n, strings, n_ints, ints)
               : ls_onnx_fail(n, LS_ERR_FORMAT, "%d cats_strings and %d cats_int64s", n_strings, n_ints);
}

/* Opset 1: a class is the position of its string. */
ls_status ls_onnx_label_encoder1(ls_onnx_node *n) {
    int count;
    const char *const *strings = ls_onnx_attr_strings(n, "classes_strings", &count);
    int64_t *numbers = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, count + 1);
    if (!strings || !numbers) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "attribute classes_strings is missing");
    }
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
    }
    return both_ways(n, strings, count, numbers);
}

ls_status ls_onnx_one_hot_encoder(ls_onnx_node *n) {
    int n_strings, n_ints, rank;
    int64_t dims[LS_MAX_RANK], *index, total = 1;
    labels keys = {.strings = ls_onnx_attr_strings(n, "cats_strings", &n_strings),
                   .ints = ls_onnx_attr_ints(n, "cats_int64s", &n_ints)};
    keys.count = keys.strings ? n_strings : n_ints;
    int type = ls_onnx_in_type(n, 0);
    if (n->in[0]->kind == ONNX_TENSOR && type != ONNX_INT64) { /* floats count by their whole part */
        ls_onnx_value *whole = ls_onnx_value_of(n, ls_cast(n->s, ls_onnx_in(n, 0), LS_I64), ONNX_INT64);
        if (!whole) {
            return ls_onnx_out_value(n, 0, NULL);
        }
        n->in[0] = whole;
    }
    LS_TRY(n->err, find_all(n, &keys, &index));
    rank = ls_onnx_value_dims(n->in[0], dims);
    for (int i = 0; i < rank; i++) {
        total *= dims[i];
    }
    for (int64_t i = 0; i < total && !ls_onnx_attr_int(n, "zeros", 1); i++) {
        if (index[i] == keys.count) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "element %lld of operand 0 is none of the %lld categories",
                                (long long)i, (long long)keys.count);
        }
    }
    ls_tensor *at = ls_tensor_from(n->s, LS_I64, ls_shape_make(rank, dims), index);
    ls_tensor *hot = ls_one_hot(n->s, at, keys.count + 1, LS_F32); /* the last class is "none" */
    return ls_onnx_out(n, 0, ls_narrow(n->s, hot, rank, 0, keys.count));
}
