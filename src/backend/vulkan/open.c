/* Opening: the loader, an instance, the device. Devices are numbered with GPUs before processors, and among equals by their
 * identity, so that a number means the same device as long as none is added. */
#include "backend/vulkan/driver.h"
#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 32, MAX_FAMILIES = 32 };

static const char *code_name(VkResult code) {
    switch (code) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
        return "VK_ERROR_OUT_OF_POOL_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
        return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
        return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
        return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
        return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
        return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
        return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        return "VK_ERROR_INCOMPATIBLE_DRIVER";
    default:
        return "an error of Vulkan";
    }
}

ls_status ls_vk_check(vk_driver *d, VkResult code, const char *call, ls_error *err) {
    if (code >= 0) {
        return LS_OK;
    }
    d->lost = d->lost || code == VK_ERROR_DEVICE_LOST;
    bool memory = code == VK_ERROR_OUT_OF_HOST_MEMORY || code == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                  code == VK_ERROR_OUT_OF_POOL_MEMORY;
    return LS_FAIL(err, memory ? LS_ERR_MEMORY : LS_ERR_DEVICE, "%s: %s failed: %s (%d)", d->device->id, call,
                   code_name(code), (int)code);
}

/* Copies an entry point into the function pointer at `out`. */
static bool take(void *out, VkAnyFunction function) {
    memcpy(out, &function, sizeof function);
    return function != NULL;
}

static ls_status open_loader(vk_driver *d, ls_error *err) {
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", NULL};
    const char *reason = NULL;
    d->library = ls_os_library_open(names, &reason);
    if (!d->library) {
        return LS_FAIL(err, LS_ERR_DEVICE,
                       "Vulkan's loader is missing (%s): install libvulkan1 and the driver of your GPU, or "
                       "mesa-vulkan-drivers",
                       reason);
    }
    void *symbol = ls_os_library_symbol(d->library, "vkGetInstanceProcAddr");
    memcpy(&d->get_proc, &symbol, sizeof symbol);
    return symbol ? LS_OK : LS_FAIL(err, LS_ERR_DEVICE, "libvulkan.so.1 has no vkGetInstanceProcAddr");
}

static ls_status create_instance(vk_driver *d, ls_error *err) {
    static const char *const layer = "VK_LAYER_KHRONOS_validation";
    VkEnumerateInstanceVersion version_of;
    VkCreateInstance create;
    uint32_t version = VK_VERSION(1, 0);
    if (take(&version_of, d->get_proc(NULL, "vkEnumerateInstanceVersion"))) {
        LS_TRY(err, ls_vk_check(d, version_of(&version), "vkEnumerateInstanceVersion", err));
    }
    if (version < VK_VERSION(1, 1) || !take(&create, d->get_proc(NULL, "vkCreateInstance"))) {
        return LS_FAIL(err, LS_ERR_DEVICE,
                       "Vulkan's loader is of version 1.0, at least 1.1 is needed: update libvulkan1");
    }
    d->api_version = version < VK_VERSION(1, 3) ? version : VK_VERSION(1, 3);
    const VkApplicationInfo app = {.sType = VK_S_APPLICATION_INFO,
                                   .pApplicationName = "lockstep",
                                   .pEngineName = "lockstep",
                                   .apiVersion = d->api_version};
    const VkInstanceCreateInfo info = {.sType = VK_S_INSTANCE_CREATE_INFO,
                                       .pApplicationInfo = &app,
                                       .enabledLayerCount = ls_os_env("LOCKSTEP_VULKAN_VALIDATION") ? 1 : 0,
                                       .ppEnabledLayerNames = &layer};
    VkResult code = create(&info, NULL, &d->instance);
    if (code == VK_ERROR_INCOMPATIBLE_DRIVER) {
        return LS_FAIL(err, LS_ERR_DEVICE,
                       "no Vulkan driver: install that of your GPU, or mesa-vulkan-drivers");
    }
    if (code == VK_ERROR_LAYER_NOT_PRESENT) {
        return LS_FAIL(
            err, LS_ERR_DEVICE,
            "LOCKSTEP_VULKAN_VALIDATION is set, but %s is missing: install vulkan-validationlayers", layer);
    }
    LS_TRY(err, ls_vk_check(d, code, "vkCreateInstance", err));
    ls_os_library_keep("libGLX_nvidia.so.0"); /* each time that it is loaded again it takes static TLS, of which there is little */
#define F(result, name, parameters)                                                                          \
    if (!take(&d->name, d->get_proc(d->instance, #name))) {                                                  \
        return LS_FAIL(err, LS_ERR_DEVICE, "Vulkan's loader has no " #name ": update libvulkan1");           \
    }
    LS_VK_INSTANCE_FUNCTIONS(F)
#undef F
    return LS_OK;
}

/* ---- which device ---- */

typedef struct candidate {
    VkPhysicalDevice physical;
    uint32_t family, version;
    int rank;
    uint8_t uuid[16];
} candidate;

static bool make_candidate(const vk_driver *d, VkPhysicalDevice physical, candidate *out) {
    static const uint8_t ranks[5] = {3, 1, 0, 2, 4}; /* discrete, integrated, virtual, other, processor */
    VkPhysicalDeviceIDProperties id = {.sType = VK_S_ID_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {.sType = VK_S_PROPERTIES_2, .pNext = &id};
    VkQueueFamilyProperties families[MAX_FAMILIES];
    uint32_t n = MAX_FAMILIES;
    d->vkGetPhysicalDeviceQueueFamilyProperties(physical, &n, families);
    d->vkGetPhysicalDeviceProperties2(physical, &properties);
    uint32_t type = properties.deviceType < 5 ? properties.deviceType : 0;
    *out =
        (candidate){.physical = physical, .family = n, .rank = ranks[type], .version = properties.apiVersion};
    memcpy(out->uuid, id.deviceUUID, sizeof out->uuid);
    for (uint32_t i = n; i-- > 0;) {
        out->family = families[i].queueFlags & VK_QUEUE_COMPUTE ? i : out->family;
    }
    return out->family < n && properties.apiVersion >= VK_VERSION(1, 1);
}

static bool goes_before(const candidate *a, const candidate *b) {
    int order = memcmp(a->uuid, b->uuid, sizeof a->uuid);
    return a->rank != b->rank ? a->rank < b->rank : order < 0;
}

static ls_status choose_device(vk_driver *d, int index, ls_error *err) {
    VkPhysicalDevice all[MAX_DEVICES];
    candidate found[MAX_DEVICES], c;
    uint32_t n = MAX_DEVICES;
    int count = 0;
    VkResult code = d->vkEnumeratePhysicalDevices(d->instance, &n, all);
    if (code == VK_ERROR_INITIALIZATION_FAILED) { /* what a loader says when no driver starts */
        n = 0;
    } else {
        LS_TRY(err, ls_vk_check(d, code, "vkEnumeratePhysicalDevices", err));
    }
    for (uint32_t i = 0; i < n; i++) {
        if (make_candidate(d, all[i], &c)) {
            int at = count++;
            for (; at > 0 && goes_before(&c, &found[at - 1]); at--) {
                found[at] = found[at - 1];
            }
            found[at] = c;
        }
    }
    if (count == 0) {
        return LS_FAIL(err, LS_ERR_DEVICE,
                       "no Vulkan 1.1 device that computes: install the driver of your GPU, or "
                       "mesa-vulkan-drivers");
    }
    if (index < 0) {
        char uuid[37];
        for (index = 0; index < count; index++) {
            ls_uuid_write(found[index].uuid, uuid);
            if (ls_uuid_matches(d->device->wanted, uuid)) {
                break;
            }
        }
        if (index == count) {
            return LS_FAIL(err, LS_ERR_DEVICE, "vulkan:uuid=%.40s: none of the %d Vulkan device%s here has it", d->device->wanted,
                           count, count == 1 ? "" : "s");
        }
        snprintf(d->device->id, sizeof d->device->id, index ? "vulkan:%d" : "vulkan", index);
    }
    if (index >= count) {
        return LS_FAIL(err, LS_ERR_DEVICE, "vulkan:%d: this machine has %d Vulkan device%s", index, count,
                       count == 1 ? "" : "s");
    }
    ls_uuid_write(found[index].uuid, d->device->caps.uuid);
    d->physical = found[index].physical;
    d->family = found[index].family;
    d->api_version = found[index].version < d->api_version ? found[index].version : d->api_version;
    return LS_OK;
}

static ls_status load_device(vk_driver *d, ls_error *err) {
#define F(result, name, parameters)                                                                          \
    if (!take(&d->name, d->vkGetDeviceProcAddr(d->dev, #name))) {                                            \
        return LS_FAIL(err, LS_ERR_DEVICE, "%s: its driver has no " #name, d->device->id);                   \
    }
    LS_VK_DEVICE_FUNCTIONS(F)
#undef F
    d->vkGetDeviceQueue(d->dev, d->family, 0, &d->queue);
    return LS_OK;
}

ls_status ls_vk_open(vk_driver *d, int index, ls_gpu_limits *out_limits, ls_error *err) {
    LS_TRY(err, open_loader(d, err));
    LS_TRY(err, create_instance(d, err));
    LS_TRY(err, choose_device(d, index, err));
    LS_TRY(err, ls_vk_create_device(d, out_limits, err));
    LS_TRY(err, load_device(d, err));
    LS_TRY(err, ls_vk_queue_create(d, err));
    return ls_vk_cache_create(d, err);
}

void ls_vk_close(vk_driver *d) {
    bool loaded = d->dev && d->vkWaitForFences; /* the last of the list */
    if (loaded) {
        (void)d->vkDeviceWaitIdle(d->dev);
        ls_vk_cache_save(d);
        ls_vk_block_free(d, d->staging);
        ls_vk_queue_destroy(d); /* before the layouts: commands that were never submitted still name them */
        d->vkDestroyPipelineCache(d->dev, d->cache, NULL);
        d->vkDestroyQueryPool(d->dev, d->timestamps, NULL);
        for (int i = 0; i <= LS_VK_BINDINGS; i++) {
            d->vkDestroyPipelineLayout(d->dev, d->layouts[i], NULL);
            d->vkDestroyDescriptorSetLayout(d->dev, d->set_layouts[i], NULL);
        }
    }
    if (d->dev && d->vkDestroyDevice) {
        d->vkDestroyDevice(d->dev, NULL);
    }
    if (d->instance && d->vkDestroyInstance) {
        d->vkDestroyInstance(d->instance, NULL);
    } else if (!d->instance) {
        ls_os_library_close(d->library);
    }
}
