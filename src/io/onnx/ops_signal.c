/* Signals: DFT, STFT, windows, the mel filter bank. The composites are ls_dft, ls_stft and the windows of
 * ops.h. */
#include "io/onnx/run.h"

/* The transform's matrix, computed on the host once and not in every run. NULL leaves it to the composite. */
static ls_tensor *matrix_of(ls_onnx_node *n, ls_dtype dtype, int64_t extent, int parts,
                            const ls_dft_spec *spec) {
    ls_session *s = n->s, *host = n->run->base->host;
    if (s == host) {
        return NULL;
    }
    n->s = host;
    ls_onnx_value *v =
        ls_onnx_value_of(n, ls_dft_matrix(host, dtype, extent, parts, spec), ls_onnx_type_of(dtype));
    n->s = s;
    return v ? ls_onnx_tensor(n, v) : NULL;
}

static ls_status dft(ls_onnx_node *n) {
    bool old = n->version < 20;
    int64_t dims[LS_MAX_RANK], axis, length;
    ls_tensor *x = ls_onnx_in(n, 0);
    int rank = ls_onnx_dims(x, dims), at;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_int(n, 1, 0, &length));
    LS_TRY(n->err, ls_onnx_int(n, old ? 3 : 2, old ? ls_onnx_attr_int(n, "axis", 1) : -2, &axis));
    LS_TRY(n->err, ls_onnx_axis(n, axis, rank, &at));
    if (at == rank - 1 || (dims[rank - 1] != 1 && dims[rank - 1] != 2) || (ls_onnx_has(n, 1) && length < 1)) {
        return ls_onnx_fail(
            n, LS_ERR_SHAPE,
            "axis %d, dft_length %lld, last extent %lld: expected an axis before the last, a positive "
            "length, and a last extent of 1 or 2",
            at, (long long)length, (long long)dims[rank - 1]);
    }
    ls_dft_spec spec = {at, length, ls_onnx_attr_int(n, "inverse", 0) != 0,
                        ls_onnx_attr_int(n, "onesided", 0) != 0, NULL};
    spec.matrix = matrix_of(n, ls_tensor_dtype(x), dims[at], (int)dims[rank - 1], &spec);
    return ls_onnx_out(n, 0, ls_dft(n->s, x, &spec));
}

static ls_status stft(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *window = ls_onnx_in(n, 2);
    int64_t dims[LS_MAX_RANK], step, width[LS_MAX_RANK], length;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_dims(x, dims) == 2) {
        x = ls_unsqueeze(n->s, x, 2);
    }
    if (ls_onnx_dims(x, dims) != 3 || (dims[2] != 1 && dims[2] != 2) ||
        (window && ls_onnx_dims(window, width) != 1)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "expected a signal [batch, samples, 1 or 2] and a window [length]");
    }
    LS_TRY(n->err, ls_onnx_int(n, 1, 1, &step));
    LS_TRY(n->err, ls_onnx_int(n, 3, window ? width[0] : dims[1], &length));
    if (step < 1 || length < 1 || length > dims[1] || (window && width[0] > length)) {
        return ls_onnx_fail(
            n, LS_ERR_INVALID,
            "frames of %lld every %lld of %lld samples: expected frames that fit, at least as long as "
            "the window, and a positive step",
            (long long)length, (long long)step, (long long)dims[1]);
    }
    ls_dtype dtype = ls_tensor_dtype(x);
    if (!window) {
        window = ls_full(n->s, dtype, LS_SHAPE(length), 1);
    } else if (width[0] < length) {
        window = ls_pad(n->s, window, &(ls_pad_spec){.high = length - width[0]}, 0);
    }
    ls_dft_spec spec = {.axis = 2, .length = length, .onesided = ls_onnx_attr_int(n, "onesided", 1) != 0};
    spec.matrix = matrix_of(n, dtype, length, (int)dims[2], &spec);
    return ls_onnx_out(n, 0, ls_stft(n->s, x, step, window, &spec));
}

typedef ls_tensor *(*window_fn)(ls_session *s, ls_dtype dtype, int64_t n, int periodic);

static ls_status window(ls_onnx_node *n, window_fn make) {
    int64_t size;
    int type = (int)ls_onnx_attr_int(n, "output_datatype", ONNX_FLOAT);
    if (ls_onnx_carrier(type) == LS_DTYPE_COUNT) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "output_datatype %s", ls_onnx_type_name(type));
    }
    LS_TRY(n->err, ls_onnx_int(n, 0, 0, &size));
    ls_dtype wide = type == ONNX_DOUBLE ? LS_F64 : LS_F32;
    ls_tensor *y = make(n->s, wide, size, ls_onnx_attr_int(n, "periodic", 1) != 0);
    return ls_onnx_out_as(n, 0, ls_cast(n->s, y, ls_onnx_carrier(type)), type);
}
static ls_status hann_window(ls_onnx_node *n) {
    return window(n, ls_hann_window);
}
static ls_status hamming_window(ls_onnx_node *n) {
    return window(n, ls_hamming_window);
}
static ls_status blackman_window(ls_onnx_node *n) {
    return window(n, ls_blackman_window);
}

/* ---- mel ---- */

/* The spectrogram bins of the bands' corners: bands + 2 points evenly spaced in mel(f) = 2595 log10(1 +
 * f/700). Computed in f64, as every constant of the importer. */
static ls_status corners(ls_onnx_node *n, int64_t bands, int64_t length, int64_t rate, double low,
                         double high, int64_t *out_bins) {
    ls_session *s = n->s;
    ls_tensor *ten = ls_onnx_scalar(n, LS_F64, 10), *f700 = ls_onnx_scalar(n, LS_F64, 700),
              *m2595 = ls_onnx_scalar(n, LS_F64, 2595);
    ls_tensor *one = ls_onnx_scalar(n, LS_F64, 1), *ln10 = ls_log(s, ten), *mel[2];
    for (int i = 0; i < 2; i++) {
        ls_tensor *f = ls_add(s, one, ls_div(s, ls_onnx_scalar(n, LS_F64, i ? high : low), f700));
        mel[i] = ls_mul(s, m2595, ls_div(s, ls_log(s, f), ln10));
    }
    ls_tensor *step = ls_div(s, ls_sub(s, mel[1], mel[0]), ls_onnx_scalar(n, LS_F64, (double)(bands + 2)));
    ls_tensor *point = ls_add(s, ls_mul(s, ls_iota(s, LS_F64, LS_SHAPE(bands + 2), 0), step), mel[0]);
    ls_tensor *hertz = ls_mul(s, f700, ls_sub(s, ls_pow(s, ten, ls_div(s, point, m2595)), one));
    ls_tensor *bin = ls_div(s, ls_mul(s, ls_onnx_scalar(n, LS_F64, (double)(length + 1)), hertz),
                            ls_onnx_scalar(n, LS_F64, (double)rate));
    if (ls_read(s, ls_cast(s, ls_floor(s, bin), LS_I64), out_bins, sizeof *out_bins * (size_t)(bands + 2)) !=
        LS_OK) {
        return ls_onnx_out(n, 0, NULL);
    }
    return LS_OK;
}

static ls_status mel_weight_matrix(ls_onnx_node *n) {
    int64_t bands, length, rate;
    double low, high;
    int type = (int)ls_onnx_attr_int(n, "output_datatype", ONNX_FLOAT);
    LS_TRY(n->err, ls_onnx_int(n, 0, 0, &bands));
    LS_TRY(n->err, ls_onnx_int(n, 1, 0, &length));
    LS_TRY(n->err, ls_onnx_int(n, 2, 0, &rate));
    LS_TRY(n->err, ls_onnx_float(n, 3, 0, &low));
    LS_TRY(n->err, ls_onnx_float(n, 4, 0, &high));
    if (bands < 1 || bands > 1 << 20 || length < 1 || length > 1 << 24 || rate < 1 || !(low >= 0) ||
        !(high >= low)) {
        return ls_onnx_fail(
            n, LS_ERR_INVALID,
            "%lld bands, dft_length %lld, sample_rate %lld, edges %g and %g: expected positive numbers, "
            "the lower edge first",
            (long long)bands, (long long)length, (long long)rate, low, high);
    }
    if (ls_onnx_carrier(type) == LS_DTYPE_COUNT) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "output_datatype %s", ls_onnx_type_name(type));
    }
    int64_t rows = length / 2 + 1, *bin = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, bands + 2);
    double *weight = LS_ARENA_ARRAY(ls_onnx_arena(n), double, (size_t)rows *(size_t)bands);
    if (!bin || !weight) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a matrix of %lld by %lld", (long long)rows,
                            (long long)bands);
    }
    LS_TRY(n->err, corners(n, bands, length, rate, low, high, bin));
    for (int64_t i = 0; i < bands;
         i++) { /* a triangle: up from one corner to 1 at the next, down to the third */
        int64_t left = bin[i], top = bin[i + 1], right = bin[i + 2];
        if (left < 0 || right > rows) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "band %lld reaches bin %lld of %lld", (long long)i,
                                (long long)right, (long long)rows);
        }
        for (int64_t j = left; j < right || j <= top; j++) {
            if (j < rows) {
                weight[j * bands + i] = j == top  ? 1
                                        : j < top ? (double)(j - left) / (double)(top - left)
                                                  : (double)(right - j) / (double)(right - top);
            }
        }
    }
    ls_tensor *y = ls_tensor_from(n->s, LS_F64, LS_SHAPE(rows, bands), weight);
    return ls_onnx_out_as(n, 0, ls_cast(n->s, y, ls_onnx_carrier(type)), type);
}

const ls_onnx_op ls_onnx_signal_ops[] = {
    {"", "DFT", 17, 1, 3, dft, 0},
    {"", "STFT", 17, 2, 4, stft, 0},
    {"", "HannWindow", 17, 1, 1, hann_window, 0},
    {"", "HammingWindow", 17, 1, 1, hamming_window, 0},
    {"", "BlackmanWindow", 17, 1, 1, blackman_window, 0},
    {"", "MelWeightMatrix", 17, 5, 5, mel_weight_matrix, ONNX_HOST},
    {0},
};
