/* Operations on images: resizing, sampling at given places, regions of interest.
 *
 * As those of ops.h, which includes this.
 * */
#ifndef LOCKSTEP_IMAGE_H
#define LOCKSTEP_IMAGE_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_T LS_API ls_tensor *

typedef enum ls_resize_mode { LS_RESIZE_NEAREST, LS_RESIZE_LINEAR, LS_RESIZE_CUBIC } ls_resize_mode;
/* Where element i of an axis of `to` elements lies in one of `from`, s being its scale and w = s * from: */
typedef enum ls_resize_coords {
    LS_RESIZE_HALF_PIXEL,           /* (i + 0.5) / s - 0.5 */
    LS_RESIZE_HALF_PIXEL_SYMMETRIC, /* the same, moved by from/2 * (1 - to/w) */
    LS_RESIZE_PYTORCH_HALF_PIXEL,   /* the same as the first, but 0 where to is 1 */
    LS_RESIZE_TF_HALF_PIXEL,        /* (i + 0.5) / s */
    LS_RESIZE_ALIGN_CORNERS,        /* i (from - 1) / (w - 1) */
    LS_RESIZE_ASYMMETRIC,           /* i / s */
    LS_RESIZE_CROP /* start (from - 1) + i (end - start)(from - 1) / (to - 1); outside of the operand: `extrapolation` */
} ls_resize_coords;
typedef enum ls_resize_nearest { LS_NEAREST_PREFER_FLOOR, LS_NEAREST_PREFER_CEIL, LS_NEAREST_FLOOR, LS_NEAREST_CEIL } ls_resize_nearest;
typedef struct ls_resize_spec {
    ls_resize_mode mode;
    ls_resize_coords coords;
    ls_resize_nearest nearest;
    int antialias;       /* stretch the kernel by 1/s where s is below 1 */
    int exclude_outside; /* neighbours outside of the operand count nothing, else they are its last element */
    double cubic_a;      /* of Keys' kernel; -0.75 as PyTorch's, -0.5 as Pillow's */
    double extrapolation;
    int64_t size[LS_MAX_RANK];                      /* the result's extents */
    double scale[LS_MAX_RANK];                      /* 0 stands for size / the operand's extent */
    double start[LS_MAX_RANK], end[LS_MAX_RANK];    /* CROP's part of each axis, of 1 */
} ls_resize_spec;
/* Any axes of x, one after the other: each element is a weighted sum of the neighbours of its place. Computes in f32 (f64 for
 * f64 and 32- and 64-bit integers); integers are rounded, half to even. Formulas: ONNX's Resize. */
LS_T ls_resize(ls_session *s, ls_tensor *x, const ls_resize_spec *spec);
typedef enum ls_sample_mode { LS_SAMPLE_NEAREST, LS_SAMPLE_LINEAR, LS_SAMPLE_CUBIC } ls_sample_mode;
typedef enum ls_sample_padding { LS_SAMPLE_ZEROS, LS_SAMPLE_BORDER, LS_SAMPLE_REFLECTION } ls_sample_padding;
/* x[N,C,spatial...] at the places grid[N,positions...,d] -> [N,C,positions...], d = 1 to 3 coordinates each, the last axis's
 * first, -1 to 1 across the image: of its pixels' centres when align_corners, else of its edges. PyTorch's grid_sample. */
LS_T ls_grid_sample(ls_session *s, ls_tensor *x, ls_tensor *grid, ls_sample_mode mode, ls_sample_padding padding, int align_corners);
/* theta[N,d,d+1] on the places of an image: grid[N,size...,d], d = 2 or 3 extents in `size`. PyTorch's affine_grid. */
LS_T ls_affine_grid(ls_session *s, ls_tensor *theta, const int64_t *size, int align_corners);
typedef struct ls_roi_spec {
    int64_t height, width;  /* of the result */
    double scale;           /* from a region's coordinates to pixels */
    int64_t samples;        /* in each direction in each bin; adaptive: the most there can be */
    int adaptive;           /* ceil(the bin's size) samples */
    int half_pixel;         /* pixels' centres at half numbers */
    int max;                /* the largest weighted corner of all samples, instead of the mean of the samples */
} ls_roi_spec;
/* x[N,C,H,W], rois[K,4] as (x0, y0, x1, y1), batch[K] i64 -> [K,C,height,width]: bilinear samples in the bins of each region
 * (He et al., Mask R-CNN, as ONNX's RoiAlign spells it). */
LS_T ls_roi_align(ls_session *s, ls_tensor *x, ls_tensor *rois, ls_tensor *batch, const ls_roi_spec *spec);
/* The same regions, rounded to pixels, and the largest pixel of each bin; 0 in an empty one (Girshick, Fast R-CNN). */
LS_T ls_roi_max_pool(ls_session *s, ls_tensor *x, ls_tensor *rois, ls_tensor *batch, int64_t height, int64_t width, double scale);

#undef LS_T

#ifdef __cplusplus
}
#endif
#endif
