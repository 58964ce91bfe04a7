/* Pictures in files: BMP, JPEG, PNG, PNM and baseline TIFF. */
#ifndef LOCKSTEP_IO_ONNX_DECODE_H
#define LOCKSTEP_IO_ONNX_DECODE_H

#include "base/alloc.h"
#include "base/status.h"

/* The picture in a file's bytes as [height, width, channels] of u8, with 3 channels (red, green, blue) or 1 (grey). The caller frees
 * *out_pixels. LS_ERR_UNSUPPORTED for a format that is not among those above, LS_ERR_FORMAT for a damaged file. Any thread. */
ls_status ls_image_decode(ls_heap *heap, const void *bytes, size_t size, int channels, int64_t out_dims[3], uint8_t **out_pixels,
                          ls_error *err) LS_MUST_USE;
/* A TIFF file's as 3 channels; fills the first two extents. */
ls_status ls_tiff_decode(ls_heap *heap, const void *bytes, size_t size, int64_t out_dims[3], uint8_t **out_pixels, ls_error *err)
    LS_MUST_USE;

#endif
