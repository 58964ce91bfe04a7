/* Between host tensors, dense and row-major at the current symbol values, and device tensors, laid out by
 * the symbols' bounds. Invariant: where both layouts are one, nothing is staged. */
#include "engine/session.h"
#include <string.h>

typedef struct layout {
    int rank;
    int64_t dims[LS_MAX_RANK], bounds[LS_MAX_RANK];
    size_t elem, dense_bytes, bound_bytes;
    bool same; /* the dense bytes are a prefix of the laid-out ones */
} layout;

size_t ls_shape_bytes(ls_dtype dtype, const ls_shape *shape, const int64_t *symbols) {
    return (size_t)ls_shape_numel(shape, symbols) * ls_dtype_size(dtype);
}

static layout layout_of(ls_dtype dtype, const ls_shape *shape, const int64_t *symbols) {
    layout l = {.rank = shape->rank, .elem = ls_dtype_size(dtype), .same = true};
    ls_shape_bounds(shape, l.bounds);
    l.dense_bytes = ls_shape_bytes(dtype, shape, symbols);
    l.bound_bytes = ls_shape_bytes(dtype, shape, NULL);
    for (int i = 0; i < l.rank; i++) {
        l.dims[i] = ls_dim_eval(shape->dim[i], symbols);
        l.same = l.same && (i == 0 || l.dims[i] == l.bounds[i]);
    }
    return l;
}

static ls_status check(const layout *l, ls_error *err) {
    for (int i = 0; i < l->rank; i++) {
        if (l->dims[i] < 0) {
            return LS_FAIL(err, LS_ERR_SHAPE, "axis %d has extent %lld at the present values of symbols: expected at least 0", i,
                           (long long)l->dims[i]);
        }
    }
    return LS_OK;
}

static void strides_of(const layout *l, size_t strides[LS_MAX_RANK]) { /* bytes, by the bounds */
    size_t stride = l->elem;
    for (int i = l->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= (size_t)l->bounds[i];
    }
}

static size_t offset_of(const int64_t *at, const size_t *strides, int axes) {
    size_t offset = 0;
    for (int i = 0; i < axes; i++) {
        offset += (size_t)at[i] * strides[i];
    }
    return offset;
}

/* Walks the rows that are contiguous in both; `pack` copies laid-out to dense, else dense to laid-out. */
static void repack(const layout *l, char *dense, char *laid_out, bool pack) {
    if (l->dense_bytes == 0) {
        return;
    }
    int inner = l->rank; /* axes inner.. are whole, and inner - 1 is cut but contiguous */
    size_t row = l->elem;
    while (inner > 0 && (inner == l->rank || l->dims[inner] == l->bounds[inner])) {
        row *= (size_t)l->dims[--inner];
    }
    size_t strides[LS_MAX_RANK];
    strides_of(l, strides);
    int64_t at[LS_MAX_RANK] = {0};
    for (size_t done = 0; done < l->dense_bytes; done += row) {
        size_t offset = offset_of(at, strides, inner);
        memcpy(pack ? dense + done : laid_out + offset, pack ? laid_out + offset : dense + done, row);
        for (int i = inner - 1; i >= 0 && ++at[i] == l->dims[i]; i--) {
            at[i] = 0;
        }
    }
}

static bool bools_are_clean(const uint8_t *bytes, size_t n) {
    uint8_t all = 0;
    for (size_t i = 0; i < n; i++) {
        all |= bytes[i];
    }
    return all <= 1;
}

ls_status ls_transfer_upload(ls_buffer *dst, ls_dtype dtype, const ls_shape *shape, const int64_t *symbols,
                             const void *src, ls_error *err) {
    layout l = layout_of(dtype, shape, symbols);
    LS_TRY(err, check(&l, err));
    bool clean = dtype != LS_BOOL || bools_are_clean(src, l.dense_bytes);
    if (l.same && clean) {
        return ls_buffer_upload(dst, 0, src, l.dense_bytes, err);
    }
    char *staged = ls_alloc_zeroed(dst->device->heap, l.bound_bytes);
    if (!staged) {
        return LS_FAIL(err, LS_ERR_MEMORY, "out of memory for an upload of %zu bytes", l.bound_bytes);
    }
    repack(&l, (char *)(uintptr_t)src, staged, false);
    for (size_t i = 0; !clean && i < l.bound_bytes; i++) {
        staged[i] = staged[i] != 0;
    }
    ls_status status = ls_buffer_upload(dst, 0, staged, l.bound_bytes, err);
    ls_free(dst->device->heap, staged);
    return status;
}

ls_status ls_transfer_download(const ls_buffer *src, ls_dtype dtype, const ls_shape *shape,
                               const int64_t *symbols, void *dst, ls_error *err) {
    layout l = layout_of(dtype, shape, symbols);
    LS_TRY(err, check(&l, err));
    if (l.same) {
        return ls_buffer_download(src, 0, dst, l.dense_bytes, err);
    }
    char *staged = ls_alloc(src->device->heap, l.bound_bytes);
    if (!staged) {
        return LS_FAIL(err, LS_ERR_MEMORY, "out of memory for a download of %zu bytes", l.bound_bytes);
    }
    ls_status status = ls_buffer_download(src, 0, staged, l.bound_bytes, err);
    if (status == LS_OK) {
        repack(&l, dst, staged, true);
    }
    ls_free(src->device->heap, staged);
    return status;
}

ls_status ls_transfer_copy(ls_buffer *dst, const ls_shape *dst_shape, const ls_buffer *src, const ls_shape *src_shape, ls_dtype dtype,
                           const int64_t *symbols, ls_error *err) {
    layout to = layout_of(dtype, dst_shape, symbols), from = layout_of(dtype, src_shape, NULL);
    int inner = to.rank; /* axes inner.. are whole in both, and inner - 1 is cut but contiguous */
    size_t row = to.elem, to_strides[LS_MAX_RANK], from_strides[LS_MAX_RANK];
    LS_TRY(err, check(&to, err));
    for (int i = 0; i < to.rank; i++) {
        if (to.dims[i] > from.bounds[i]) {
            return LS_FAIL(err, LS_ERR_SHAPE, "axis %d has extent %lld, which a bound of %lld does not hold", i, (long long)to.dims[i],
                           (long long)from.bounds[i]);
        }
    }
    while (inner > 0 && (inner == to.rank || (to.dims[inner] == to.bounds[inner] && to.dims[inner] == from.bounds[inner]))) {
        row *= (size_t)to.dims[--inner];
    }
    strides_of(&to, to_strides);
    strides_of(&from, from_strides);
    int64_t at[LS_MAX_RANK] = {0};
    for (size_t done = 0; done < to.dense_bytes; done += row) {
        LS_TRY(err, ls_buffer_copy(dst, offset_of(at, to_strides, inner), src, offset_of(at, from_strides, inner), row, err));
        for (int i = inner - 1; i >= 0 && ++at[i] == to.dims[i]; i--) {
            at[i] = 0;
        }
    }
    return LS_OK;
}
