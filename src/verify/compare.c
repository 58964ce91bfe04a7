/* Comparison by bits and by bound. */
#include "graph/graph.h"
#include "oracle/oracle.h"
#include "base/text.h"
#include "verify/data.h"
#include <stdio.h>
#include <string.h>

static double double_of(ls_dtype dtype, uint64_t bits) {
    return ls_value_to_f64(dtype, bits);
}

/* A value as text that reads back the same. */
static void value_text(ls_dtype dtype, uint64_t bits, char out[32]) {
    if (!ls_dtype_is_float(dtype)) {
        if (ls_dtype_is_signed(dtype)) {
            int unused = 64 - 8 * (int)ls_dtype_size(dtype);
            snprintf(out, 32, "%lld", (long long)((int64_t)(bits << unused) >> unused));
        } else {
            snprintf(out, 32, "%llu", (unsigned long long)bits);
        }
        return;
    }
    ls_heap heap;
    ls_text text;
    ls_heap_init(&heap, NULL, 0);
    ls_text_init(&text, &heap);
    ls_text_double(&text, double_of(dtype, bits));
    snprintf(out, 32, "%s", text.failed || !text.data ? "?" : text.data);
    ls_text_free(&text);
}

static void index_of(const ls_data *data, int64_t element, int64_t *out_index) {
    for (int i = data->rank - 1; i >= 0; i--) {
        out_index[i] = element % data->dims[i];
        element /= data->dims[i];
    }
}

static void index_text(const ls_report *report, char *out, size_t room) {
    size_t used = (size_t)snprintf(out, room, "[");
    for (int i = 0; i < report->rank && used < room; i++) {
        used += (size_t)snprintf(out + used, room - used, "%s%lld", i ? "," : "",
                                 (long long)report->first_index[i]);
    }
    if (used < room) {
        snprintf(out + used, room - used, "]");
    }
}

static bool same_shape(const ls_data *a, const ls_data *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank) == 0;
}

static void shape_text(const ls_data *data, char *out, size_t room) {
    ls_shape shape = ls_shape_make(data->rank, data->dims);
    char buf[LS_SHAPE_TEXT];
    snprintf(out, room, "%s%s", ls_dtype_name(data->dtype), ls_shape_text(&shape, buf));
}

/* ---- bins ---- */

/* Floats in the order of their values: -0 and +0 are one apart, the sign's bit tells. */
static uint64_t ordered(ls_dtype dtype, uint64_t bits) {
    unsigned width = 8 * (unsigned)ls_dtype_size(dtype);
    uint64_t sign = UINT64_C(1) << (width - 1);
    return !ls_dtype_is_float(dtype) ? (ls_dtype_is_signed(dtype) ? bits ^ sign : bits) : bits & sign ? ~bits & (sign + sign - 1) : bits | sign;
}

static bool is_nan(ls_dtype dtype, uint64_t bits) {
    double x = ls_dtype_is_float(dtype) ? double_of(dtype, bits) : 0;
    return x != x;
}

static int bin_of_bits(ls_dtype dtype, uint64_t a, uint64_t b) {
    uint64_t x = ordered(dtype, a), y = ordered(dtype, b), gap = x > y ? x - y : y - x;
    if (is_nan(dtype, a) != is_nan(dtype, b)) {
        return LS_BINS - 1;
    }
    int k = gap ? 64 - __builtin_clzll(gap) : 0;
    return k < LS_BINS - 2 ? k : LS_BINS - 2;
}

/* Infinite: what has no distance, or a bound of 0. */
static double share_of_bound(double gap, double bound) {
    double share = gap == 0 ? 0 : gap / bound;
    return share == share ? share : __builtin_inf();
}

static int bin_of_share(double share) {
    if (share == 0 || share - share != 0) {
        return share == 0 ? 0 : LS_BINS - 1;
    }
    int k = 1;
    for (double limit = 0x1p-15; share > limit && k < LS_BINS - 2; limit += limit) {
        k++;
    }
    return k;
}

ls_verdict ls_compare(const ls_data *expected, const ls_data *actual, ls_report *r) {
    *r = (ls_report){.verdict = LS_SAME, .elements = ls_data_numel(expected), .rank = expected->rank};
    if (!same_shape(expected, actual)) {
        char want[200], got[200];
        shape_text(expected, want, sizeof want);
        shape_text(actual, got, sizeof got);
        snprintf(r->message, sizeof r->message, "expected %s, got %s", want, got);
        return r->verdict = LS_DIFFERS;
    }
    for (int64_t i = 0; i < r->elements; i++) {
        uint64_t e = ls_data_bits(expected->dtype, expected->bytes, i),
                 a = ls_data_bits(actual->dtype, actual->bytes, i);
        r->bins[e == a ? 0 : bin_of_bits(expected->dtype, e, a)]++;
        if (e != a && r->different++ == 0) {
            index_of(expected, i, r->first_index);
            value_text(expected->dtype, e, r->first_expected);
            value_text(expected->dtype, a, r->first_actual);
        }
    }
    if (r->different > 0) {
        char at[128];
        index_text(r, at, sizeof at);
        snprintf(r->message, sizeof r->message,
                 "%lld of %lld elements differ, first at %s: expected %s, got %s", (long long)r->different,
                 (long long)r->elements, at, r->first_expected, r->first_actual);
        r->verdict = LS_DIFFERS;
    }
    return r->verdict;
}

/* The radius from which on a bound is too wide to fail: 1/1024 of the RMS, beside the dtype's own rounding.
 */
static double blind_width(ls_dtype dtype, const double *middle, int64_t n) {
    double scale = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double m = middle[i] < 0 ? -middle[i] : middle[i];
        scale = m > scale && m - m == 0 ? m : scale;
    }
    for (int64_t i = 0; i < n && scale > 0; i++) {
        double m = middle[i] / scale;
        sum += m - m == 0 ? m * m : 0;
    }
    double rms = n > 0 ? scale * __builtin_sqrt(sum / (double)n) : 0;
    return rms / 1024 + 1024 * ls_smallest(dtype);
}

ls_verdict ls_compare_bound(const ls_data *actual, const double *middle, const double *radius, ls_report *r) {
    int64_t n = ls_data_numel(actual);
    ls_dtype dtype = actual->dtype;
    double width = blind_width(dtype, middle, n), unit = ls_unit_roundoff(dtype), first_gap = 0;
    *r = (ls_report){.verdict = LS_WITHIN_BOUND, .elements = n, .rank = actual->rank};
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = ls_data_bits(dtype, actual->bytes, i);
        double a = double_of(dtype, bits), m = middle[i], bound = radius[i];
        double gap = a == m || (a != a && m != m) ? 0 : a > m ? a - m : m - a;
        double own = unit * (m < 0 ? -m : m);
        bool blind = bound - bound != 0 || (m == m && bound > 0 && !(bound - own <= width));
        bool outside = gap != gap || gap > bound; /* a NaN on one side alone has no distance */
        r->blind += blind;
        r->different += gap != 0;
        outside = outside && !(blind && bound - bound != 0);
        if (outside || !blind) {
            double share = share_of_bound(gap, bound);
            r->bins[bin_of_share(share)]++;
            r->worst_of_bound = share > r->worst_of_bound ? share : r->worst_of_bound;
        }
        if (outside) {
            if (r->outside++ == 0) {
                index_of(actual, i, r->first_index);
                value_text(LS_F64, ls_value_from_f64(LS_F64, m), r->first_expected);
                value_text(dtype, bits, r->first_actual);
                first_gap = bound;
            }
        }
    }
    if (r->outside > 0) {
        char at[128];
        index_text(r, at, sizeof at);
        snprintf(
            r->message, sizeof r->message,
            "%lld of %lld elements lie outside their bound, first at %s: expected %s within %.3g, got %s",
            (long long)r->outside, (long long)n, at, r->first_expected, first_gap, r->first_actual);
        r->verdict = LS_DIFFERS;
    }
    return r->verdict;
}
