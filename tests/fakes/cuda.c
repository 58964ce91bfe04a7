/* A CUDA driver that runs nothing: memory is the host's, copies happen at once, launches are counted. Tests read and set its
 * state through `fake_cuda`, find out what was given back, and make the n-th call of a function fail. */
#include "fakes/cuda.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) fake_cuda_state fake_cuda = {.devices = 2, .version = 13000, .capability = 90};
static _Thread_local int depth; /* contexts pushed on this thread */
static int dummy_context;

/* What a function does first: counts, and fails where it was told to. */
static int called(const char *name) {
    fake_cuda.calls++;
    if (fake_cuda.sticky) {
        return fake_cuda.sticky;
    }
    if (fake_cuda.fail_name[0] && strcmp(name, fake_cuda.fail_name) == 0 && fake_cuda.fail_at-- == 0) {
        fake_cuda.fail_name[0] = 0;
        if (fake_cuda.fail_code >= 700) { /* as in the real one: each later call says so too */
            fake_cuda.sticky = fake_cuda.fail_code;
        }
        return fake_cuda.fail_code;
    }
    return 0;
}
#define CALLED(name)              \
    do {                          \
        int r_ = called(name);    \
        if (r_) {                 \
            return r_;            \
        }                         \
    } while (0)
#define NEEDS_CONTEXT       \
    do {                    \
        if (depth < 1) {    \
            return 201;     \
        }                   \
    } while (0)
#define EXPORT __attribute__((visibility("default")))

EXPORT int cuInit(unsigned flags) {
    (void)flags;
    CALLED("cuInit");
    return 0;
}
EXPORT int cuDriverGetVersion(int *version) {
    CALLED("cuDriverGetVersion");
    *version = fake_cuda.version;
    return 0;
}
EXPORT int cuGetErrorName(int error, const char **name) {
    *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_TEST";
    return 0;
}
EXPORT int cuDeviceGetCount(int *count) {
    CALLED("cuDeviceGetCount");
    *count = fake_cuda.devices;
    return fake_cuda.devices ? 0 : 100;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
    CALLED("cuDeviceGet");
    *device = ordinal;
    return 0;
}
EXPORT int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    CALLED("cuDeviceGetName");
    strncpy(name, "fake GPU", (size_t)length);
    return 0;
}
EXPORT int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    CALLED("cuDeviceGetUuid_v2");
    for (int i = 0; i < 16; i++) {
        uuid[i] = (unsigned char)(0xa0 + 16 * device + i);
    }
    return 0;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    CALLED("cuDeviceGetAttribute");
    *value = attribute == 1    ? 1024
             : attribute == 10 ? 32
             : attribute == 16 ? 4
             : attribute == 75 ? fake_cuda.capability / 10
             : attribute == 76 ? fake_cuda.capability % 10
             : attribute == 97 ? 232448
                               : 0;
    return 0;
}
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    CALLED("cuDeviceTotalMem_v2");
    *bytes = (size_t)1 << 30;
    return 0;
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    CALLED("cuDevicePrimaryCtxRetain");
    *context = &dummy_context;
    fake_cuda.contexts++;
    return 0;
}
/* Memory, modules and the like, which go with their context when nobody gives them back. */
enum { MAX_THINGS = 4096 };
static void *things[MAX_THINGS];
static int n_things;

static void *keep(void *thing) {
    if (!thing || n_things == MAX_THINGS) {
        free(thing);
        return NULL;
    }
    fake_cuda.live++;
    return things[n_things++] = thing;
}
static int give_back(void *thing) {
    for (int i = 0; i < n_things; i++) {
        if (things[i] == thing) {
            things[i] = things[--n_things];
            break;
        }
    }
    free(thing);
    fake_cuda.live--;
    return 0;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    fake_cuda.contexts--;
    while (n_things) {
        free(things[--n_things]);
    }
    return 0;
}
EXPORT int cuCtxPushCurrent_v2(void *context) {
    (void)context;
    CALLED("cuCtxPushCurrent_v2");
    depth++;
    fake_cuda.depth++;
    return 0;
}
EXPORT int cuCtxPopCurrent_v2(void **context) {
    *context = &dummy_context;
    depth--;
    fake_cuda.depth--;
    return 0;
}

struct event {
    int asks;      /* how often it is asked before it is done */
    long launches; /* before it */
};

static int make(void **out) {
    *out = keep(calloc(1, sizeof(struct event)));
    return *out ? 0 : 2;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    CALLED("cuStreamCreate");
    NEEDS_CONTEXT;
    return make(stream);
}
EXPORT int cuStreamDestroy_v2(void *stream) {
    return give_back(stream);
}
EXPORT int cuStreamSynchronize(void *stream) {
    (void)stream;
    CALLED("cuStreamSynchronize");
    return 0;
}
EXPORT int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    CALLED("cuEventCreate");
    NEEDS_CONTEXT;
    return make(event);
}
EXPORT int cuEventDestroy_v2(void *event) {
    return give_back(event);
}
EXPORT int cuEventRecord(void *event, void *stream) {
    (void)stream;
    CALLED("cuEventRecord");
    NEEDS_CONTEXT;
    *(struct event *)event = (struct event){fake_cuda.slow, fake_cuda.launches};
    return 0;
}
EXPORT int cuEventQuery(void *event) {
    CALLED("cuEventQuery");
    struct event *e = event;
    return e->asks > 0 && e->asks-- ? 600 : 0;
}
EXPORT int cuEventSynchronize(void *event) {
    CALLED("cuEventSynchronize");
    ((struct event *)event)->asks = 0;
    return 0;
}
EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
    const struct event *from = start, *to = end;
    CALLED("cuEventElapsedTime");
    *milliseconds = 0.5f * (float)(to->launches - from->launches); /* every launch takes half a millisecond */
    return to->asks ? 600 : 0;
}
EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    CALLED("cuMemAlloc_v2");
    NEEDS_CONTEXT;
    if (bytes > fake_cuda.largest && fake_cuda.largest) {
        return 2;
    }
    void *p = keep(malloc(bytes));
    if (!p) {
        return 2;
    }
    memset(p, 0x5a, bytes);
    *address = (uint64_t)(uintptr_t)p;
    return 0;
}
EXPORT int cuMemFree_v2(uint64_t address) {
    return give_back((void *)(uintptr_t)address);
}
EXPORT int cuMemAllocHost_v2(void **address, size_t bytes) {
    CALLED("cuMemAllocHost_v2");
    NEEDS_CONTEXT;
    *address = keep(malloc(bytes));
    return *address ? 0 : 2;
}
EXPORT int cuMemFreeHost(void *address) {
    return give_back(address);
}
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    (void)stream;
    CALLED("cuMemcpyHtoDAsync_v2");
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    CALLED("cuMemcpyDtoHAsync_v2");
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}
static int capturing;
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    (void)stream;
    CALLED("cuMemcpyDtoDAsync_v2");
    if (capturing) {
        fake_cuda.captured++;
        return 0;
    }
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return 0;
}
/* A "binary" is the text with another beginning. */
static const char binary_mark[] = "BINARY";
struct link {
    char *text;
    size_t size;
};
EXPORT int cuLinkCreate_v2(unsigned n, int *options, void **values, void **link) {
    (void)n, (void)options, (void)values;
    CALLED("cuLinkCreate_v2");
    NEEDS_CONTEXT;
    *link = keep(calloc(1, sizeof(struct link)));
    return *link ? 0 : 2;
}
EXPORT int cuLinkAddData_v2(void *link, int type, void *data, size_t size, const char *name, unsigned n, int *options,
                            void **values) {
    struct link *l = link;
    (void)name, (void)n, (void)options, (void)values;
    CALLED("cuLinkAddData_v2");
    if (type != 1 || size == 0 || ((const char *)data)[size - 1] != 0 || strncmp(data, ".version", 8) != 0) {
        return 218;
    }
    l->size = sizeof binary_mark + size;
    l->text = malloc(l->size);
    if (!l->text) {
        return 2;
    }
    memcpy(l->text, binary_mark, sizeof binary_mark);
    memcpy(l->text + sizeof binary_mark, data, size);
    return 0;
}
EXPORT int cuLinkComplete(void *link, void **binary, size_t *size) {
    const struct link *l = link;
    CALLED("cuLinkComplete");
    *binary = l->text;
    *size = l->size;
    fake_cuda.linked++;
    return 0;
}
EXPORT int cuLinkDestroy(void *link) {
    free(((struct link *)link)->text);
    return give_back(link);
}
EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values) {
    (void)options;
    int r = called("cuModuleLoadDataEx");
    if (r && n) {
        strcpy(values[0], "ptxas fatal: as the test asked");
    }
    NEEDS_CONTEXT;
    bool known = strncmp(image, ".version", 8) == 0 || memcmp(image, binary_mark, sizeof binary_mark) == 0;
    return r ? r : known ? make(module) : 218;
}
EXPORT int cuModuleUnload(void *module) {
    return give_back(module);
}
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
    CALLED("cuModuleGetFunction");
    *function = module;
    return strcmp(name, "main") == 0 ? 0 : 500;
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
    (void)function, (void)attribute, (void)value;
    CALLED("cuFuncSetAttribute");
    return 0;
}
EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
    (void)function, (void)shared, (void)stream, (void)extra;
    CALLED("cuLaunchKernel");
    if (fake_cuda.map_at) {
        memcpy(&fake_cuda.launched, params[fake_cuda.map_at], sizeof fake_cuda.launched);
    }
    NEEDS_CONTEXT;
    if (!gx || !gy || !gz || !bx || !by || !bz) {
        return 1;
    }
    *(capturing ? &fake_cuda.captured : &fake_cuda.launches) += 1;
    return 0;
}
EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *sizes,
                                  const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                                  int swizzle, int promotion, int fill) {
    (void)promotion;
    CALLED("cuTensorMapEncodeTiled");
    if ((uintptr_t)map % 64 || rank != 2 || (uintptr_t)address % 16 || strides[0] % 16 || !sizes[0] || !sizes[1] ||
        box[0] > 256 || box[1] > 256 || steps[0] != 1 || steps[1] != 1 || interleave || fill) {
        return 1;
    }
    fake_cuda.map.address = (uint64_t)(uintptr_t)address;
    fake_cuda.map.stride = strides[0];
    fake_cuda.map.type = type;
    fake_cuda.map.swizzle = swizzle;
    memcpy(fake_cuda.map.sizes, sizes, sizeof fake_cuda.map.sizes);
    memcpy(fake_cuda.map.box, box, sizeof fake_cuda.map.box);
    memset(map, 0, 128);
    memcpy(map, &fake_cuda.map.address, sizeof fake_cuda.map.address);
    return 0;
}
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode) {
    (void)stream, (void)mode;
    CALLED("cuStreamBeginCapture_v2");
    capturing = 1;
    return 0;
}
EXPORT int cuStreamEndCapture(void *stream, void **graph) {
    (void)stream;
    capturing = 0;
    CALLED("cuStreamEndCapture");
    return make(graph);
}
EXPORT int cuGraphDestroy(void *graph) {
    return give_back(graph);
}
EXPORT int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
    (void)graph, (void)flags;
    CALLED("cuGraphInstantiateWithFlags");
    return make(exec);
}
EXPORT int cuGraphExecDestroy(void *exec) {
    return give_back(exec);
}
EXPORT int cuGraphLaunch(void *exec, void *stream) {
    (void)exec, (void)stream;
    CALLED("cuGraphLaunch");
    NEEDS_CONTEXT;
    fake_cuda.graphs++;
    return 0;
}
