/* The checked form of an ls_conv_spec, shared by convolution, pooling and im2col. Internal to src/graph. */
#ifndef LOCKSTEP_GRAPH_CONV_GEOMETRY_H
#define LOCKSTEP_GRAPH_CONV_GEOMETRY_H

#include "graph/build.h"

typedef struct ls_geometry {
    const char *name;                                         /* of the operation, for messages */
    int d;                                                    /* spatial axes */
    int64_t stride[LS_MAX_SPATIAL], dilation[LS_MAX_SPATIAL]; /* 0 became 1 */
    int64_t low[LS_MAX_SPATIAL], high[LS_MAX_SPATIAL], output_padding[LS_MAX_SPATIAL];
    int64_t kernel[LS_MAX_SPATIAL];
    int64_t groups;    /* 0 became 1 */
    ls_conv_axes axes; /* the default filled in */
} ls_geometry;

/* Checks a spec against an operand of d + 2 axes. `transposed` decides the filter's default axes: [in,
 * out, ...] instead of [out, in, ...]. */
bool ls_geometry_read(ls_session *s, const char *name, const ls_conv_spec *spec, const ls_tensor *x,
                      bool transposed, ls_geometry *out);
/* The filter's axes, which pools do not have. */
bool ls_geometry_filter_check(ls_session *s, const ls_geometry *g);
/* Checks the kernel's extents, and that it fits into the padded axes of x[N,C,spatial...]. */
bool ls_geometry_fit(ls_session *s, ls_geometry *g, const ls_tensor *x, const int64_t *kernel);
/* x as [N,C,spatial...], a permutation. */
ls_tensor *ls_to_canonical(ls_session *s, const ls_geometry *g, ls_tensor *x);
/* y[N,spatial...,C] (or y[N,C,spatial...]) in the declared axes of the result. */
ls_tensor *ls_from_channels_last(ls_session *s, const ls_geometry *g, ls_tensor *y);
ls_tensor *ls_from_canonical(ls_session *s, const ls_geometry *g, ls_tensor *y);
/* Pads the last d axes of x by low, high and interior; absent elements, or zeros. */
ls_tensor *ls_pad_spatial(ls_session *s, ls_tensor *x, int d, const int64_t *low, const int64_t *high,
                          const int64_t *interior, bool absent);
/* Windows over the last d axes. */
ls_tensor *ls_window_spatial(ls_session *s, ls_tensor *x, int d, const int64_t *size, const int64_t *stride,
                             const int64_t *dilation);
/* Windows of x[N,C,spatial...] as g says: [N,C,positions...,kernel...]. */
ls_tensor *ls_patches(ls_session *s, const ls_geometry *g, ls_tensor *x, bool absent);

#endif
