/* The backend to copy when beginning a new one. It has memory and compiles specs to nothing; a launch is
 * an error. It serves tests of everything before a launch: plans, memory, caches. */
#include "device/device.h"
#include <string.h>

struct ls_kernel_binary {
    ls_heap *heap;
};

static ls_status null_open(ls_device *device, int index, ls_error *err) {
    if (index != 0) {
        return LS_FAIL(err, LS_ERR_DEVICE, "null:%d: there is one null device, null", index);
    }
    memcpy(device->caps.name, "computes nothing", sizeof "computes nothing");
    device->caps.dtypes = (1u << LS_DTYPE_COUNT) - 1;
    return LS_OK;
}

static void null_close(ls_device *device) {
    (void)device;
}

static ls_status null_alloc(ls_device *device, size_t size, void **out_handle, ls_error *err) {
    *out_handle = ls_alloc(device->heap, size);
    return *out_handle ? LS_OK : LS_FAIL_MEMORY(err, "a buffer of the null device");
}

static void null_free(ls_device *device, void *handle, size_t size) {
    (void)size;
    ls_free(device->heap, handle);
}

static ls_status null_upload(ls_device *device, ls_buffer *dst, size_t offset, const void *src, size_t size,
                             ls_error *err) {
    (void)device, (void)err;
    memcpy((char *)dst->handle + offset, src, size);
    return LS_OK;
}

static ls_status null_download(ls_device *device, const ls_buffer *src, size_t offset, void *dst, size_t size,
                               ls_error *err) {
    (void)device, (void)err;
    memcpy(dst, (const char *)src->handle + offset, size);
    return LS_OK;
}

static ls_status null_copy(ls_device *device, ls_buffer *dst, size_t dst_offset, const ls_buffer *src,
                           size_t src_offset, size_t size, ls_error *err) {
    (void)device, (void)err;
    memmove((char *)dst->handle + dst_offset, (const char *)src->handle + src_offset, size);
    return LS_OK;
}

static ls_status null_compile(ls_device *device, const struct ls_spec *spec, const char *strategy,
                              ls_kernel_binary **out_binary, ls_error *err) {
    (void)spec, (void)strategy;
    ls_kernel_binary *binary = ls_alloc_zeroed(device->heap, sizeof *binary);
    if (!binary) {
        return LS_FAIL_MEMORY(err, "a kernel of the null device");
    }
    binary->heap = device->heap;
    *out_binary = binary;
    return LS_OK;
}

static void null_destroy(ls_device *device, ls_kernel_binary *binary) {
    ls_free(device->heap, binary);
}

static ls_status null_launch(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err) {
    (void)device, (void)binary, (void)launch;
    return LS_FAIL(err, LS_ERR_UNSUPPORTED, "the null device computes nothing: choose another device");
}

const ls_backend ls_backend_null = {
    .name = "null",
    .open = null_open,
    .close = null_close,
    .alloc = null_alloc,
    .free = null_free,
    .upload = null_upload,
    .download = null_download,
    .copy = null_copy,
    .compile = null_compile,
    .destroy = null_destroy,
    .launch = null_launch,
};
