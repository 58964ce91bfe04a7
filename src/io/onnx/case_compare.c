/* Outputs of test cases beside what the files say. */
#include "base/dtype.h"
#include "base/elements.h"
#include "base/half.h"
#include "io/onnx/case.h"
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the ONNX project's runner, for every case whose folder holds a set of test data. */
static const double RELATIVE = 1e-3, ABSOLUTE = 1e-7;

static double magnitude(double x) {
    return x < 0 ? -x : x;
}

static double element(const ls_data *data, int64_t i) {
    const void *p = ls_data_bytes(data);
    switch (ls_data_dtype(data)) {
    case LS_F16:
        return (double)ls_f16_to_f32(((const uint16_t *)p)[i]);
    case LS_BF16:
        return (double)ls_bf16_to_f32(((const uint16_t *)p)[i]);
    case LS_F32:
        return (double)((const float *)p)[i];
    case LS_F64:
        return ((const double *)p)[i];
    case LS_I8:
        return ((const int8_t *)p)[i];
    case LS_I16:
        return ((const int16_t *)p)[i];
    case LS_I32:
        return ((const int32_t *)p)[i];
    case LS_I64:
        return (double)((const int64_t *)p)[i];
    case LS_U16:
        return ((const uint16_t *)p)[i];
    case LS_U32:
        return ((const uint32_t *)p)[i];
    case LS_U64:
        return (double)((const uint64_t *)p)[i];
    default:
        return ((const uint8_t *)p)[i];
    }
}

/* The one byte that stands for all NaNs of a type, and for both zeros. */
static unsigned small_float(int type, unsigned bits) {
    bool nan = type == ONNX_FLOAT8E4M3FN                                    ? (bits & 0x7f) == 0x7f
               : type == ONNX_FLOAT8E5M2                                    ? (bits & 0x7f) > 0x7c
               : type == ONNX_FLOAT8E4M3FNUZ || type == ONNX_FLOAT8E5M2FNUZ ? bits == 0x80
               : type == ONNX_FLOAT8E8M0                                    ? bits == 0xff
                                                                            : false;
    bool zero = type == ONNX_FLOAT4E2M1
                    ? bits == 8
                    : (type == ONNX_FLOAT8E4M3FN || type == ONNX_FLOAT8E5M2) && bits == 0x80;
    return nan ? 0x100 : zero ? 0 : bits;
}

/* The share of the tolerance that an element takes; above 1 when it is wrong. */
static double share(int type, const ls_data *expected, const ls_data *got, double absolute, int64_t i) {
    ls_dtype dtype = ls_data_dtype(expected);
    if (!ls_dtype_is_float(dtype)) {
        uint64_t a = ls_data_bits(dtype, ls_data_bytes(expected), i),
                 b = ls_data_bits(dtype, ls_data_bytes(got), i);
        bool small =
            type >= ONNX_FLOAT8E4M3FN && type != ONNX_UINT4 && type != ONNX_INT4 && type <= ONNX_FLOAT8E8M0;
        bool same = small ? small_float(type, (unsigned)a) == small_float(type, (unsigned)b) : a == b;
        return same ? 0 : DBL_MAX;
    }
    double e = element(expected, i), g = element(got, i);
    if (e == g || (e != e && g != g)) {
        return 0;
    }
    if (e != e || g != g || magnitude(e) > DBL_MAX || magnitude(g) > DBL_MAX) {
        return DBL_MAX;
    }
    return magnitude(g - e) / (absolute + RELATIVE * magnitude(e));
}

/* Of a Fourier transform's results, those that cancel are what the rounding of the others left: half a unit in the last place of the
 * largest. All other outputs: the runner's own. */
static double absolute_tolerance(const ls_data *expected, bool fourier) {
    double largest = 0;
    for (int64_t i = 0; fourier && ls_data_dtype(expected) == LS_F32 && i < ls_data_numel(expected); i++) {
        double e = magnitude(element(expected, i));
        largest = e > largest && e <= DBL_MAX ? e : largest;
    }
    double half_unit = largest / 16777216;
    return half_unit > ABSOLUTE ? half_unit : ABSOLUTE;
}

static size_t put_dims(char *text, size_t room, int rank, const int64_t *dims) {
    size_t at = 0;
    for (int i = 0; i < rank && at < room; i++) {
        at += (size_t)snprintf(text + at, room - at, "%s%" PRId64, i ? "," : "", dims[i]);
    }
    return at;
}

static void put_element(char *text, size_t room, const ls_data *data, int64_t i) {
    ls_dtype dtype = ls_data_dtype(data);
    if (dtype == LS_U64 || dtype == LS_I64) {
        uint64_t bits = ls_data_bits(dtype, ls_data_bytes(data), i);
        snprintf(text, room, dtype == LS_U64 ? "%" PRIu64 : "%" PRId64, bits);
    } else {
        snprintf(text, room, "%.9g", element(data, i));
    }
}

static void compare_tensors(const char *name, const ls_onnx_value *expected, const ls_onnx_value *got,
                            bool numbers, ls_case_difference *d) {
    const ls_data *e = expected->data, *g = got->data;
    int rank = ls_data_rank(e);
    char want[100] = "", have[100] = "", place[100] = "";
    if (expected->type != got->type) {
        snprintf(d->text, sizeof d->text, "output \"%s\" is of type %s, expected %s", name,
                 ls_onnx_type_name(got->type), ls_onnx_type_name(expected->type));
        return;
    }
    if (rank != ls_data_rank(g) ||
        (rank && memcmp(ls_data_dims(e), ls_data_dims(g), sizeof(int64_t) * (size_t)rank) != 0)) {
        put_dims(want, sizeof want, rank, ls_data_dims(e));
        put_dims(have, sizeof have, ls_data_rank(g), ls_data_dims(g));
        snprintf(d->text, sizeof d->text, "output \"%s\" has shape [%s], expected [%s]", name, have, want);
        return;
    }
    int64_t n = ls_data_numel(e), wrong = 0, first = 0;
    double absolute = absolute_tolerance(e, d->fourier);
    for (int64_t i = 0; numbers && i < n; i++) {
        double s = share(expected->type, e, g, absolute, i);
        first = s > 1 && !wrong ? i : first;
        wrong += s > 1;
        d->worst = s > d->worst ? s : d->worst;
    }
    if (wrong) {
        int64_t index[LS_MAX_RANK], rest = first;
        for (int k = rank - 1; k >= 0; k--) {
            index[k] = rest % ls_data_dims(e)[k];
            rest /= ls_data_dims(e)[k];
        }
        put_dims(place, sizeof place, rank, index);
        put_element(want, sizeof want, e, first);
        put_element(have, sizeof have, g, first);
        snprintf(d->text, sizeof d->text,
                 "output \"%s\" element [%s] is %s, expected %s; %" PRId64 " of %" PRId64 " differ", name,
                 place, have, want, wrong, n);
    }
}

static void compare_strings(const char *name, const ls_onnx_value *expected, const ls_onnx_value *got,
                            ls_case_difference *d) {
    char want[100] = "", have[100] = "";
    int64_t n = 1;
    if (expected->rank != got->rank ||
        (got->rank && memcmp(expected->dims, got->dims, sizeof(int64_t) * (size_t)got->rank) != 0)) {
        put_dims(want, sizeof want, expected->rank, expected->dims);
        put_dims(have, sizeof have, got->rank, got->dims);
        snprintf(d->text, sizeof d->text, "output \"%s\" has shape [%s], expected [%s]", name, have, want);
        return;
    }
    for (int i = 0; i < got->rank; i++) {
        n *= got->dims[i];
    }
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(expected->strings[i], got->strings[i]) != 0) {
            snprintf(d->text, sizeof d->text,
                     "output \"%s\" element %" PRId64 " is \"%.80s\", expected \"%.80s\"", name, i,
                     got->strings[i], expected->strings[i]);
            return;
        }
    }
}

/* An optional that holds something is as good as what it holds: the files do not tell the two apart. */
static const ls_onnx_value *held(const ls_onnx_value *v) {
    while (v->kind == ONNX_OPTIONAL && v->count == 1) {
        v = v->items[0];
    }
    return v;
}

void ls_case_compare(const char *name, const ls_onnx_value *expected, const ls_onnx_value *got, bool numbers,
                     ls_case_difference *d) {
    static const char *const kinds[] = {"a tensor", "a tensor of strings", "a sequence", "an empty optional"};
    if (d->text[0]) {
        return;
    }
    expected = held(expected);
    got = held(got);
    if (expected->kind != got->kind) {
        snprintf(d->text, sizeof d->text, "output \"%s\" is %s, expected %s", name, kinds[got->kind],
                 kinds[expected->kind]);
    } else if (got->kind == ONNX_TENSOR) {
        compare_tensors(name, expected, got, numbers, d);
    } else if (got->kind == ONNX_STRINGS) {
        compare_strings(name, expected, got, d);
    } else if (got->kind == ONNX_SEQUENCE && expected->count != got->count) {
        snprintf(d->text, sizeof d->text, "output \"%s\" has %d items, expected %d", name, got->count,
                 expected->count);
    } else if (got->kind == ONNX_SEQUENCE) {
        for (int i = 0; i < got->count && !d->text[0]; i++) {
            char item[200];
            snprintf(item, sizeof item, "%.150s[%d]", name, i);
            ls_case_compare(item, expected->items[i], got->items[i], numbers, d);
        }
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted(ls_heap *heap, const ls_data *data) {
    int64_t n = ls_data_numel(data);
    double *list = ls_alloc(heap, sizeof *list * (size_t)(n ? n : 1));
    for (int64_t i = 0; list && i < n; i++) {
        list[i] = element(data, i);
    }
    if (list) {
        qsort(list, (size_t)n, sizeof *list, ascending);
    }
    return list;
}

ls_status ls_case_distribution(ls_heap *heap, const char *name, const ls_onnx_value *expected,
                               const ls_onnx_value *got, ls_case_difference *d, ls_error *err) {
    if (d->text[0] || expected->kind != ONNX_TENSOR || got->kind != ONNX_TENSOR ||
        !ls_data_numel(got->data)) {
        return LS_OK;
    }
    int64_t n = ls_data_numel(got->data), i = 0, j = 0;
    double *a = sorted(heap, expected->data), *b = sorted(heap, got->data), largest = 0;
    while (a && b && i < n && j < n) { /* the largest distance of the two empirical distribution functions */
        double x = a[i] < b[j] ? a[i] : b[j];
        while (i < n && !(a[i] > x)) {
            i++;
        }
        while (j < n && !(b[j] > x)) {
            j++;
        }
        double apart = magnitude((double)(i - j)) / (double)n;
        largest = apart > largest ? apart : largest;
    }
    bool memory = a && b;
    ls_free(heap, a);
    ls_free(heap, b);
    if (!memory) {
        return LS_FAIL_MEMORY(err, "a distribution");
    }
    /* 2 exp(-2 * 3.3^2) is 7e-10; the statistic is scaled by sqrt(n * n / (n + n)). */
    if (largest * largest * (double)n / 2 > 3.3 * 3.3) {
        snprintf(d->text, sizeof d->text,
                 "output \"%s\" does not have the distribution of the file's: %.3f apart over %" PRId64
                 " elements",
                 name, largest, n);
    }
    return LS_OK;
}

void ls_case_hash(ls_sha256 *sha, const ls_onnx_value *v) {
    int32_t head[3] = {v->kind, v->type, v->count};
    ls_sha256_add(sha, head, sizeof head);
    if (v->kind == ONNX_TENSOR) {
        int32_t rank = ls_data_rank(v->data);
        ls_sha256_add(sha, &rank, sizeof rank);
        ls_sha256_add(sha, ls_data_dims(v->data), sizeof(int64_t) * (size_t)rank);
        ls_sha256_elements(sha, ls_data_dtype(v->data), ls_data_bytes(v->data), ls_data_numel(v->data));
    } else if (v->kind == ONNX_STRINGS) {
        int64_t n = 1;
        ls_sha256_add(sha, v->dims, sizeof *v->dims * (size_t)v->rank);
        for (int i = 0; i < v->rank; i++) {
            n *= v->dims[i];
        }
        for (int64_t i = 0; i < n; i++) {
            ls_sha256_add(sha, v->strings[i], strlen(v->strings[i]) + 1);
        }
    }
    for (int i = 0; v->kind >= ONNX_SEQUENCE && i < v->count; i++) {
        ls_case_hash(sha, v->items[i]);
    }
}
