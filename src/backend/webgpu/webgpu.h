/* The driver that src/gpu calls, over any host. Internal to the backend and its tests. */
#ifndef LOCKSTEP_BACKEND_WEBGPU_WEBGPU_H
#define LOCKSTEP_BACKEND_WEBGPU_WEBGPU_H

#include "backend/webgpu/host.h"
#include "gpu/gpu.h"

typedef struct ls_webgpu ls_webgpu;

/* Takes the host over: ls_webgpu_close closes it, and so does a failure. */
ls_status ls_webgpu_create(ls_heap *heap, ls_webgpu_host *host, ls_webgpu **out_driver, ls_error *err) LS_MUST_USE;
/* Makes what the driver itself needs: once, before anything else; over a late host until it is not LS_ERR_AGAIN. */
ls_status ls_webgpu_prepare(ls_webgpu *driver, ls_error *err) LS_MUST_USE;
void ls_webgpu_close(ls_webgpu *driver); /* NULL is allowed */
void ls_webgpu_lose(ls_webgpu *driver); /* for tests */
void ls_webgpu_get_limits(const ls_webgpu *driver, ls_gpu_limits *out_limits);

extern const ls_gpu_api ls_webgpu_api; /* its driver is an ls_webgpu, its blocks are the host's buffers */

#endif
