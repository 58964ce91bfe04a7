/* Programs that run outside a page have no WebGPU. */
#include "backend/webgpu/host.h"

ls_status ls_webgpu_open_host(ls_heap *heap, int index, ls_webgpu_host **out_host, ls_error *err) {
    (void)heap, (void)index;
    *out_host = NULL;
    return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: there is no page here");
}
