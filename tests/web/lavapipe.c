/* Preloaded into Chromium: gives its WebGPU lavapipe for SwiftShader.
 *
 * Chromium 156 takes no software adapter but SwiftShader's, which it knows by the library's name and by the device's numbers. So
 * the library by that name is here, and passes on to lavapipe, but for the numbers. Nothing else of Chromium is changed; its
 * own drawing stays on SwiftShader. LAVAPIPE names lavapipe's library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*function)(void);
typedef function (*get_proc)(void *instance, const char *name);

static get_proc real_get_proc;

void *dlopen(const char *path, int flags) {
    static void *(*real)(const char *, int);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    }
    /* Vulkan's loader, which drawing goes through, says "/./". */
    const char *name = path ? strrchr(path, '/') : NULL, *lavapipe = getenv("LAVAPIPE");
    Dl_info self;
    if (lavapipe && name && strcmp(name, "/libvk_swiftshader.so") == 0 && !strstr(path, "/./") && dladdr((void *)dlopen, &self)) {
        void *library = real(lavapipe, RTLD_NOW);
        int32_t (*negotiate)(uint32_t *version) = NULL;
        if (!library) {
            return NULL;
        }
        *(void **)&negotiate = dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion");
        *(void **)&real_get_proc = dlsym(library, "vk_icdGetInstanceProcAddr");
        uint32_t version = 5;
        return negotiate && real_get_proc && negotiate(&version) == 0 ? real(self.dli_fname, flags) : NULL;
    }
    return real(path, flags);
}

/* VkPhysicalDeviceProperties begins so. */
typedef struct properties {
    uint32_t api, driver, vendor, device;
} properties;

static void rename_device(properties *p) {
    p->vendor = 0x1ae0;
    p->device = 0xc0de;
}

typedef void (*get_properties)(void *device, void *out);
static get_properties real_properties, real_properties2;

static void properties_1(void *device, void *out) {
    real_properties(device, out);
    rename_device(out);
}

static void properties_2(void *device, void *out) { /* after sType and pNext */
    real_properties2(device, out);
    rename_device((void *)((char *)out + 16));
}

__attribute__((visibility("default"))) function vkGetInstanceProcAddr(void *instance, const char *name) {
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) {
        return (function)vkGetInstanceProcAddr;
    }
    function f = real_get_proc(instance, name);
    if (f && strcmp(name, "vkGetPhysicalDeviceProperties") == 0) {
        real_properties = (get_properties)f;
        return (function)properties_1;
    }
    if (f && (strcmp(name, "vkGetPhysicalDeviceProperties2") == 0 || strcmp(name, "vkGetPhysicalDeviceProperties2KHR") == 0)) {
        real_properties2 = (get_properties)f;
        return (function)properties_2;
    }
    return f;
}
