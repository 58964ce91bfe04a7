/* The part of the CUDA driver's ABI that is used, declared by hand from NVIDIA's CUDA Driver API reference, so that neither
 * headers nor libraries of the toolkit are needed. Entry points are found in the driver's library at run time. */
#ifndef LOCKSTEP_BACKEND_CUDA_API_H
#define LOCKSTEP_BACKEND_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define LS_CUDA_CALL __stdcall
#else
#define LS_CUDA_CALL
#endif

typedef int ls_cu_result;
typedef int ls_cu_device;
typedef uint64_t ls_cu_address;
typedef struct ls_cu_context_s *ls_cu_context;
typedef struct ls_cu_stream_s *ls_cu_stream;
typedef struct ls_cu_event_s *ls_cu_event;
typedef struct ls_cu_module_s *ls_cu_module;
typedef struct ls_cu_function_s *ls_cu_function;
typedef struct ls_cu_graph_s *ls_cu_graph;
typedef struct ls_cu_graph_exec_s *ls_cu_graph_exec;
typedef struct ls_cu_link_s *ls_cu_link;
_Static_assert(sizeof(ls_cu_address) == 8 && sizeof(int) == 4, "CUDA's device addresses have 64 bits, its enumerations 32");

enum {
    LS_CU_OK = 0,
    LS_CU_OUT_OF_MEMORY = 2,
    LS_CU_NO_DEVICE = 100,
    LS_CU_NOT_READY = 600,
    LS_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    LS_CU_STREAM_NON_BLOCKING = 1,
    LS_CU_EVENT_DISABLE_TIMING = 2,
    LS_CU_CAPTURE_THREAD_LOCAL = 1,
    /* device attributes */
    LS_CU_MAX_THREADS_PER_BLOCK = 1,
    LS_CU_WARP_SIZE = 10,
    LS_CU_MULTIPROCESSORS = 16,
    LS_CU_COMPUTE_MAJOR = 75,
    LS_CU_COMPUTE_MINOR = 76,
    LS_CU_MAX_SHARED_PER_BLOCK_OPTIN = 97,
    /* function attributes */
    LS_CU_FUNC_MAX_DYNAMIC_SHARED = 8,
    /* options of a module's compilation */
    LS_CU_JIT_ERROR_LOG = 5,
    LS_CU_JIT_ERROR_LOG_SIZE = 6,
    /* tensor maps */
    LS_CU_MAP_U16 = 1,
    LS_CU_MAP_SWIZZLE_128 = 3,
    LS_CU_MAP_PROMOTE_256 = 3,
    /* of a linker */
    LS_CU_JIT_TARGET = 9,
    LS_CU_TARGET_90A = 0x10000 + 90,
    LS_CU_INPUT_PTX = 1
};

/* FN(member, symbol, parameters): all give an ls_cu_result. Names with _v2 are those that the driver exports for today's
 * headers. */
#define LS_CUDA_FUNCTIONS(FN)                                                                                              \
    FN(init, cuInit, (unsigned flags))                                                                                     \
    FN(driver_version, cuDriverGetVersion, (int *version))                                                                 \
    FN(error_name, cuGetErrorName, (ls_cu_result error, const char **name))                                                \
    FN(device_count, cuDeviceGetCount, (int *count))                                                                       \
    FN(device_get, cuDeviceGet, (ls_cu_device * device, int ordinal))                                                      \
    FN(device_name, cuDeviceGetName, (char *name, int length, ls_cu_device device))                                        \
    FN(device_uuid, cuDeviceGetUuid_v2, (uint8_t uuid[16], ls_cu_device device))                                            \
    FN(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, ls_cu_device device))                           \
    FN(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, ls_cu_device device))                                          \
    FN(context_retain, cuDevicePrimaryCtxRetain, (ls_cu_context * context, ls_cu_device device))                           \
    FN(context_release, cuDevicePrimaryCtxRelease_v2, (ls_cu_device device))                                               \
    FN(context_push, cuCtxPushCurrent_v2, (ls_cu_context context))                                                         \
    FN(context_pop, cuCtxPopCurrent_v2, (ls_cu_context * context))                                                         \
    FN(stream_create, cuStreamCreate, (ls_cu_stream * stream, unsigned flags))                                             \
    FN(stream_destroy, cuStreamDestroy_v2, (ls_cu_stream stream))                                                          \
    FN(stream_synchronize, cuStreamSynchronize, (ls_cu_stream stream))                                                     \
    FN(event_create, cuEventCreate, (ls_cu_event * event, unsigned flags))                                                 \
    FN(event_destroy, cuEventDestroy_v2, (ls_cu_event event))                                                              \
    FN(event_record, cuEventRecord, (ls_cu_event event, ls_cu_stream stream))                                              \
    FN(event_query, cuEventQuery, (ls_cu_event event))                                                                     \
    FN(event_synchronize, cuEventSynchronize, (ls_cu_event event))                                                         \
    FN(event_elapsed, cuEventElapsedTime, (float *milliseconds, ls_cu_event begin, ls_cu_event end))                       \
    FN(memory_new, cuMemAlloc_v2, (ls_cu_address * address, size_t bytes))                                                 \
    FN(memory_free, cuMemFree_v2, (ls_cu_address address))                                                                 \
    FN(host_new, cuMemAllocHost_v2, (void **address, size_t bytes))                                                        \
    FN(host_free, cuMemFreeHost, (void *address))                                                                          \
    FN(copy_to_device, cuMemcpyHtoDAsync_v2, (ls_cu_address to, const void *from, size_t bytes, ls_cu_stream stream))      \
    FN(copy_to_host, cuMemcpyDtoHAsync_v2, (void *to, ls_cu_address from, size_t bytes, ls_cu_stream stream))              \
    FN(copy, cuMemcpyDtoDAsync_v2, (ls_cu_address to, ls_cu_address from, size_t bytes, ls_cu_stream stream))              \
    FN(module_load, cuModuleLoadDataEx,                                                                                    \
       (ls_cu_module * module, const void *image, unsigned n, int *options, void **values))                                \
    FN(link_create, cuLinkCreate_v2, (unsigned n, int *options, void **values, ls_cu_link *link))                          \
    FN(link_add, cuLinkAddData_v2,                                                                                         \
       (ls_cu_link link, int type, void *data, size_t size, const char *name, unsigned n, int *options, void **values))    \
    FN(link_complete, cuLinkComplete, (ls_cu_link link, void **binary, size_t *size))                                      \
    FN(link_destroy, cuLinkDestroy, (ls_cu_link link))                                                                     \
    FN(module_unload, cuModuleUnload, (ls_cu_module module))                                                               \
    FN(module_function, cuModuleGetFunction, (ls_cu_function * function, ls_cu_module module, const char *name))           \
    FN(function_set, cuFuncSetAttribute, (ls_cu_function function, int attribute, int value))                              \
    FN(launch, cuLaunchKernel,                                                                                             \
       (ls_cu_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,             \
        unsigned shared, ls_cu_stream stream, void **params, void **extra))                                                \
    FN(capture_begin, cuStreamBeginCapture_v2, (ls_cu_stream stream, int mode))                                            \
    FN(capture_end, cuStreamEndCapture, (ls_cu_stream stream, ls_cu_graph * graph))                                        \
    FN(graph_destroy, cuGraphDestroy, (ls_cu_graph graph))                                                                 \
    FN(graph_instantiate, cuGraphInstantiateWithFlags,                                                                     \
       (ls_cu_graph_exec * exec, ls_cu_graph graph, unsigned long long flags))                                             \
    FN(graph_exec_destroy, cuGraphExecDestroy, (ls_cu_graph_exec exec))                                                    \
    FN(graph_launch, cuGraphLaunch, (ls_cu_graph_exec exec, ls_cu_stream stream))

/* Those that only later drivers have; NULL without. Tensor maps: CUDA 12.0. `map` is 128 bytes, aligned to 64; strides are
 * bytes, one less than dimensions. */
#define LS_CUDA_OPTIONAL(FN)                                                                                               \
    FN(tensor_map, cuTensorMapEncodeTiled,                                                                                 \
       (void *map, int type, uint32_t rank, void *address, const uint64_t *sizes, const uint64_t *strides,                 \
        const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))

typedef struct ls_cuda_api {
#define FN(member, symbol, parameters) ls_cu_result(LS_CUDA_CALL *member) parameters;
    LS_CUDA_FUNCTIONS(FN)
    LS_CUDA_OPTIONAL(FN)
#undef FN
} ls_cuda_api;

#endif
