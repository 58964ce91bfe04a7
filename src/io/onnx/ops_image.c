/* ONNX: resizing, sampling and decoding images. */
#include "io/onnx/decode.h"
#include "io/onnx/onnx.h"
#include <inttypes.h>
#include <string.h>

/* The place of an attribute's text in a list that ends with NULL. */
static ls_status choice(ls_onnx_node *n, const char *name, const char *otherwise, const char *const *names, int *out) {
    const char *text = ls_onnx_attr_string(n, name, otherwise);
    for (*out = 0; names[*out]; ++*out) {
        if (!strcmp(text, names[*out])) {
            return LS_OK;
        }
    }
    return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "%s \"%s\"", name, text);
}

/* ---- resizing ---- */

typedef struct resize_plan {
    int rank, n_axes, axes[LS_MAX_RANK];
    int64_t dims[LS_MAX_RANK];
    ls_resize_spec spec;
} resize_plan;

static int64_t scaled(double scale, double part, int64_t extent) {
    float size = (float)scale * (float)part * (float)extent;
    return size >= 0 && size < 1e15f ? (int64_t)size : -1;
}

static ls_status read_axes(ls_onnx_node *n, resize_plan *p) {
    int count;
    const int64_t *axes = ls_onnx_attr_ints(n, "axes", &count);
    p->n_axes = axes ? count : p->rank;
    for (int i = 0; i < p->rank; i++) {
        p->axes[i] = i;
        p->spec.size[i] = p->dims[i];
        p->spec.scale[i] = p->spec.end[i] = 1;
    }
    if (p->n_axes > p->rank) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%d axes of rank %d", count, p->rank);
    }
    for (int i = 0; axes && i < count; i++) {
        LS_TRY(n->err, ls_onnx_axis(n, axes[i], p->rank, &p->axes[i]));
    }
    return LS_OK;
}

static ls_status read_roi(ls_onnx_node *n, resize_plan *p) {
    double *roi;
    int count;
    if (p->spec.coords != LS_RESIZE_CROP) {
        return LS_OK;
    }
    if (!ls_onnx_has(n, 1)) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "tf_crop_and_resize without roi");
    }
    LS_TRY(n->err, ls_onnx_floats(n, 1, &roi, &count));
    if (count != 2 * p->n_axes) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "roi has %d numbers for %d axes: expected two for each", count, p->n_axes);
    }
    for (int i = 0; i < p->n_axes; i++) {
        p->spec.start[p->axes[i]] = roi[i];
        p->spec.end[p->axes[i]] = roi[p->n_axes + i];
    }
    return LS_OK;
}

static ls_status by_scales(ls_onnx_node *n, resize_plan *p, const double *scales, int count) {
    if (count != p->n_axes) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d scales for %d axes", count, p->n_axes);
    }
    for (int i = 0; i < count; i++) {
        int axis = p->axes[i];
        if (!(scales[i] > 0)) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "scale %g: expected more than 0", scales[i]);
        }
        p->spec.scale[axis] = scales[i];
        p->spec.size[axis] = scaled(scales[i], p->spec.end[axis] - p->spec.start[axis], p->dims[axis]);
    }
    return LS_OK;
}

static ls_status by_sizes(ls_onnx_node *n, resize_plan *p, const int64_t *sizes, int count) {
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};
    int policy;
    LS_TRY(n->err, choice(n, "keep_aspect_ratio_policy", "stretch", policies, &policy));
    if (count != p->n_axes) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d sizes for %d axes", count, p->n_axes);
    }
    double one = 0;
    for (int i = 0; i < count; i++) {
        int axis = p->axes[i];
        double scale = p->dims[axis] ? (double)sizes[i] / (double)p->dims[axis] : 1;
        p->spec.size[axis] = sizes[i];
        p->spec.scale[axis] = 0;
        one = i == 0 || (policy == 1 ? scale < one : scale > one) ? scale : one;
    }
    for (int i = 0; policy && i < count; i++) {
        int axis = p->axes[i];
        p->spec.scale[axis] = one;
        p->spec.size[axis] = (int64_t)(one * (double)p->dims[axis] + 0.5);
    }
    return LS_OK;
}

static ls_status resize(ls_onnx_node *n) {
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const coords[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn",
                                         "align_corners", "asymmetric", "tf_crop_and_resize", NULL};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    ls_tensor *x = ls_onnx_in(n, 0);
    resize_plan p = {0};
    int mode, place, near, n_scales = 0, n_sizes = 0;
    double *scales = NULL;
    int64_t *sizes = NULL;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    p.rank = ls_onnx_dims(x, p.dims);
    LS_TRY(n->err, choice(n, "mode", "nearest", modes, &mode));
    LS_TRY(n->err, choice(n, "coordinate_transformation_mode", "half_pixel", coords, &place));
    LS_TRY(n->err, choice(n, "nearest_mode", "round_prefer_floor", nearest, &near));
    p.spec.mode = (ls_resize_mode)mode;
    p.spec.coords = (ls_resize_coords)place;
    p.spec.nearest = (ls_resize_nearest)near;
    p.spec.antialias = ls_onnx_attr_int(n, "antialias", 0) != 0;
    p.spec.exclude_outside = ls_onnx_attr_int(n, "exclude_outside", 0) != 0;
    p.spec.cubic_a = ls_onnx_attr_float(n, "cubic_coeff_a", -0.75);
    p.spec.extrapolation = ls_onnx_attr_float(n, "extrapolation_value", 0);
    LS_TRY(n->err, read_axes(n, &p));
    LS_TRY(n->err, read_roi(n, &p));
    if (ls_onnx_has(n, 2)) {
        LS_TRY(n->err, ls_onnx_floats(n, 2, &scales, &n_scales));
    }
    if (ls_onnx_has(n, 3)) {
        LS_TRY(n->err, ls_onnx_ints(n, 3, &sizes, &n_sizes));
    }
    if ((n_scales > 0) == (n_sizes > 0) && p.n_axes > 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "expected either scales or sizes");
    }
    LS_TRY(n->err, n_sizes > 0 ? by_sizes(n, &p, sizes, n_sizes) : by_scales(n, &p, scales, n_scales));
    return ls_onnx_out_as(n, 0, ls_resize(n->s, x, &p.spec), ls_onnx_in_type(n, 0));
}

/* Upsample, and Resize of operator set 10: places i / scale, rounded down. */
static ls_status upsample(ls_onnx_node *n) {
    static const char *const modes[] = {"nearest", "linear", NULL};
    ls_tensor *x = ls_onnx_in(n, 0);
    resize_plan p = {.spec = {.coords = LS_RESIZE_ASYMMETRIC, .nearest = LS_NEAREST_FLOOR}};
    double *scales = NULL, from_attr[LS_MAX_RANK];
    int mode, count;
    LS_TRY(n->err, choice(n, "mode", "nearest", modes, &mode));
    p.spec.mode = (ls_resize_mode)mode;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    p.n_axes = p.rank = ls_onnx_dims(x, p.dims);
    for (int i = 0; i < p.rank; i++) {
        p.axes[i] = i;
        p.spec.end[i] = 1;
    }
    if (ls_onnx_has(n, 1)) {
        LS_TRY(n->err, ls_onnx_floats(n, 1, &scales, &count));
    } else {
        const float *list = ls_onnx_attr_floats(n, "scales", &count);
        for (int i = 0; i < count && i < LS_MAX_RANK; i++) {
            from_attr[i] = list[i];
        }
        scales = from_attr;
    }
    LS_TRY(n->err, by_scales(n, &p, scales, count));
    return ls_onnx_out_as(n, 0, ls_resize(n->s, x, &p.spec), ls_onnx_in_type(n, 0));
}

/* ---- sampling ---- */

static ls_status grid_sample(ls_onnx_node *n) {
    static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear", "bicubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    ls_tensor *x = ls_onnx_in(n, 0), *grid = ls_onnx_in(n, 1);
    int mode, padding, corners = ls_onnx_attr_int(n, "align_corners", 0) != 0;
    LS_TRY(n->err, choice(n, "mode", "linear", modes, &mode));
    LS_TRY(n->err, choice(n, "padding_mode", "zeros", paddings, &padding));
    mode -= mode > 2 ? 2 : 0;
    ls_tensor *y = x && grid ? ls_grid_sample(n->s, x, grid, (ls_sample_mode)mode, (ls_sample_padding)padding, corners) : NULL;
    return ls_onnx_out_as(n, 0, y, ls_onnx_in_type(n, 0));
}

static ls_status affine_grid(ls_onnx_node *n) {
    ls_tensor *theta = ls_onnx_in(n, 0);
    int64_t *size, dims[LS_MAX_RANK];
    int count;
    LS_TRY(n->err, ls_onnx_ints(n, 1, &size, &count));
    if (theta && (ls_onnx_dims(theta, dims) != 3 || count != dims[1] + 2 || size[0] != dims[0])) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "size has %d numbers: expected (N, C, H, W) or (N, C, D, H, W) that fit theta", count);
    }
    return ls_onnx_out(n, 0, theta ? ls_affine_grid(n->s, theta, size + 2, ls_onnx_attr_int(n, "align_corners", 0) != 0) : NULL);
}

/* The most samples that any region takes in a bin: ceil(size of a bin), from the regions' numbers. */
static ls_status most_samples(ls_onnx_node *n, ls_roi_spec *spec) {
    double *rois, most = 1;
    int count;
    LS_TRY(n->err, ls_onnx_floats(n, 1, &rois, &count));
    for (int i = 0; i + 3 < count; i += 4) {
        double w = (rois[i + 2] - rois[i]) * spec->scale / (double)spec->width;
        double h = (rois[i + 3] - rois[i + 1]) * spec->scale / (double)spec->height;
        most = w > most ? w : most;
        most = h > most ? h : most;
    }
    if (!(most < 1e4)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "regions of %g samples a bin", most);
    }
    spec->samples = (int64_t)most + 2; /* the device's own rounding may give one more */
    spec->adaptive = 1;
    return LS_OK;
}

static ls_status roi_align(ls_onnx_node *n) {
    static const char *const modes[] = {"avg", "max", NULL};
    static const char *const coords[] = {"output_half_pixel", "half_pixel", NULL};
    ls_tensor *x = ls_onnx_in(n, 0), *rois = ls_onnx_in(n, 1), *batch = ls_onnx_in(n, 2);
    ls_roi_spec spec = {.height = ls_onnx_attr_int(n, "output_height", 1),
                        .width = ls_onnx_attr_int(n, "output_width", 1),
                        .scale = ls_onnx_attr_float(n, "spatial_scale", 1),
                        .samples = ls_onnx_attr_int(n, "sampling_ratio", 0)};
    LS_TRY(n->err, choice(n, "mode", "avg", modes, &spec.max));
    LS_TRY(n->err, choice(n, "coordinate_transformation_mode", n->version >= 16 ? "half_pixel" : "output_half_pixel", coords,
                          &spec.half_pixel));
    if (spec.height < 1 || spec.width < 1) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "a result of %" PRId64 " by %" PRId64, spec.height, spec.width);
    }
    if (spec.samples <= 0) {
        LS_TRY(n->err, most_samples(n, &spec));
    }
    return ls_onnx_out(n, 0, x && rois && batch ? ls_roi_align(n->s, x, rois, batch, &spec) : NULL);
}

static ls_status max_roi_pool(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *rois = ls_onnx_in(n, 1);
    int64_t dims[LS_MAX_RANK];
    int count;
    const int64_t *size = ls_onnx_attr_ints(n, "pooled_shape", &count);
    if (!x || !rois) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (!size || count != 2 || ls_onnx_dims(rois, dims) != 2 || dims[1] != 5) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "expected regions [K, 5] and two extents in pooled_shape");
    }
    ls_tensor *batch = ls_squeeze(n->s, ls_narrow(n->s, rois, 1, 0, 1), 1);
    batch = batch ? ls_cast(n->s, batch, LS_I64) : NULL;
    ls_tensor *boxes = ls_narrow(n->s, rois, 1, 1, 4);
    return ls_onnx_out(n, 0, ls_roi_max_pool(n->s, x, boxes, batch, size[0], size[1], ls_onnx_attr_float(n, "spatial_scale", 1)));
}

static ls_status col2im(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK], *image, *block, taps = 1, full[LS_MAX_RANK];
    int d, count, n_strides, n_dilations, n_pads;
    LS_TRY(n->err, ls_onnx_ints(n, 1, &image, &d));
    LS_TRY(n->err, ls_onnx_ints(n, 2, &block, &count));
    const int64_t *strides = ls_onnx_attr_ints(n, "strides", &n_strides), *pads = ls_onnx_attr_ints(n, "pads", &n_pads);
    const int64_t *dilations = ls_onnx_attr_ints(n, "dilations", &n_dilations);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (d > LS_MAX_SPATIAL) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "an image of %d spatial axes: at most %d are supported", d, LS_MAX_SPATIAL);
    }
    if (ls_onnx_dims(x, dims) != 3 || d < 1 || count != d || (strides && n_strides != d) || (dilations && n_dilations != d) ||
        (pads && n_pads != 2 * d)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "image_shape has %d extents and block_shape %d: expected as many, and attributes that fit", d,
                            count);
    }
    ls_conv_spec spec = {.spatial = d};
    for (int i = 0; i < d; i++) {
        spec.stride[i] = strides ? strides[i] : 1;
        spec.dilation[i] = dilations ? dilations[i] : 1;
        spec.pad_low[i] = pads ? pads[i] : 0;
        spec.pad_high[i] = pads ? pads[d + i] : 0;
        full[2 + i] = image[i];
        if (block[i] < 1 || __builtin_mul_overflow(taps, block[i], &taps)) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "block extent %" PRId64, block[i]);
        }
    }
    full[0] = dims[0];
    full[1] = dims[1] / taps;
    return ls_onnx_out(n, 0, ls_col2im(n->s, x, ls_shape_make(d + 2, full), block, &spec));
}

/* ---- decoding ---- */

static ls_status image_decoder(ls_onnx_node *n) {
    static const char *const formats[] = {"RGB", "BGR", "Grayscale", NULL};
    const ls_data *file;
    int format;
    LS_TRY(n->err, choice(n, "pixel_format", "RGB", formats, &format));
    LS_TRY(n->err, ls_onnx_read(n, 0, &file));
    int64_t dims[3];
    ls_heap *heap = ls_context_heap(ls_onnx_context(n));
    uint8_t *pixels;
    ls_error err = {.code = LS_OK};
    if (ls_image_decode(heap, ls_data_bytes(file), ls_data_size(file), format == 2 ? 1 : 3, dims, &pixels, &err) != LS_OK) {
        return ls_onnx_fail(n, err.code, "%s", err.message);
    }
    for (int64_t i = 0; format == 1 && i < dims[0] * dims[1]; i++) {
        uint8_t red = pixels[3 * i];
        pixels[3 * i] = pixels[3 * i + 2];
        pixels[3 * i + 2] = red;
    }
    ls_status status = ls_onnx_out_from(n, 0, ONNX_UINT8, 3, dims, pixels);
    ls_free(heap, pixels);
    return status;
}

const ls_onnx_op ls_onnx_image_ops[] = {
    {"", "Resize", 11, 1, 4, resize, 0},
    {"", "Resize", 10, 2, 2, upsample, 0},
    {"", "Upsample", 7, 1, 2, upsample, 0},
    {"", "GridSample", 16, 2, 2, grid_sample, 0},
    {"", "AffineGrid", 20, 2, 2, affine_grid, 0},
    {"", "RoiAlign", 10, 3, 3, roi_align, 0},
    {"", "MaxRoiPool", 1, 2, 2, max_roi_pool, 0},
    {"", "Col2Im", 18, 3, 3, col2im, 0},
    {"", "ImageDecoder", 20, 1, 1, image_decoder, ONNX_HOST},
    {0},
};
