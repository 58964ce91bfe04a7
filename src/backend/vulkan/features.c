/* What a device has: features, limits, float controls, matrix shapes; and the device made with just what is used. */
#include "backend/vulkan/driver.h"
#include <string.h>

enum { MAX_EXTENSIONS = 512, MAX_MATRICES = 256 };

/* A structure of features, the version of Vulkan that took it in (0: none), else the extension that brings it. */
enum {
    STORAGE16,
    STORAGE8,
    FLOAT16_INT8,
    ATOMIC64,
    SUBGROUP_SIZE,
    SUBGROUP_TYPES,
    MEMORY_MODEL,
    BFLOAT16,
    COOP_MATRIX,
    ROBUSTNESS,
    FEATURES
};
static const struct {
    uint32_t type, version;
    const char *extension;
} rows[FEATURES] = {
    [STORAGE16] = {VK_S_16BIT_STORAGE_FEATURES, VK_VERSION(1, 1), "VK_KHR_16bit_storage"},
    [STORAGE8] = {VK_S_8BIT_STORAGE_FEATURES, VK_VERSION(1, 2), "VK_KHR_8bit_storage"},
    [FLOAT16_INT8] = {VK_S_FLOAT16_INT8_FEATURES, VK_VERSION(1, 2), "VK_KHR_shader_float16_int8"},
    [ATOMIC64] = {VK_S_ATOMIC_INT64_FEATURES, VK_VERSION(1, 2), "VK_KHR_shader_atomic_int64"},
    [SUBGROUP_SIZE] = {VK_S_SUBGROUP_SIZE_FEATURES, VK_VERSION(1, 3), "VK_EXT_subgroup_size_control"},
    [SUBGROUP_TYPES] = {VK_S_SUBGROUP_TYPES_FEATURES, VK_VERSION(1, 2),
                        "VK_KHR_shader_subgroup_extended_types"},
    [MEMORY_MODEL] = {VK_S_MEMORY_MODEL_FEATURES, VK_VERSION(1, 2), "VK_KHR_vulkan_memory_model"},
    [BFLOAT16] = {VK_S_BFLOAT16_FEATURES, 0, "VK_KHR_shader_bfloat16"},
    [ROBUSTNESS] = {VK_S_PIPELINE_ROBUSTNESS_FEATURES, 0, "VK_EXT_pipeline_robustness"},
    [COOP_MATRIX] = {VK_S_COOP_MATRIX_FEATURES, 0, "VK_KHR_cooperative_matrix"},
};

typedef struct found {
    VkExtensionProperties *extensions;
    uint32_t n_extensions;
    const char *enabled[FEATURES + 2];
    uint32_t n_enabled;
    VkFeatureStruct features[FEATURES];
    VkPhysicalDeviceFeatures2 base;
    VkPhysicalDeviceFloatControlsProperties controls;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceSubgroupSizeProperties subgroup_size;
    VkPhysicalDeviceMaintenance3Properties allocation;
    VkPhysicalDevicePushDescriptorProperties push;
    VkPhysicalDeviceDriverProperties driver;
} found;

static bool has_extension(const found *f, const char *name) {
    for (uint32_t i = 0; i < f->n_extensions; i++) {
        if (strcmp(f->extensions[i].extensionName, name) == 0) {
            return true;
        }
    }
    return false;
}

/* In the version, or as an extension, which is then enabled. */
static bool have(const vk_driver *d, found *f, uint32_t version, const char *extension) {
    if (version && d->api_version >= version) {
        return true;
    }
    if (!has_extension(f, extension)) {
        return false;
    }
    f->enabled[f->n_enabled++] = extension;
    return true;
}

static void *chain(void *head, void *next) {
    *(void **)((char *)head + offsetof(VkFeatureStruct, pNext)) = next;
    return head;
}

static void query_features(vk_driver *d, found *f) {
    void *next = NULL;
    for (int i = 0; i < FEATURES; i++) {
        if (have(d, f, rows[i].version, rows[i].extension)) {
            f->features[i].sType = rows[i].type;
            next = chain(&f->features[i], next);
        }
    }
    f->base = (VkPhysicalDeviceFeatures2){.sType = VK_S_FEATURES_2, .pNext = next};
    d->vkGetPhysicalDeviceFeatures2(d->physical, &f->base);
    for (int i = 0; i < 55; i++) {
        bool used = i == VK_FEATURE_FLOAT64 || i == VK_FEATURE_INT64 || i == VK_FEATURE_INT16;
        f->base.on[i] = used && f->base.on[i];
    }
}

static void query_properties(vk_driver *d, found *f) {
    void *next = NULL;
    f->subgroup.sType = VK_S_SUBGROUP_PROPERTIES;
    f->allocation.sType = VK_S_MAINTENANCE_3_PROPERTIES;
    next = chain(&f->allocation, chain(&f->subgroup, next));
    if (have(d, f, VK_VERSION(1, 2), "VK_KHR_shader_float_controls")) {
        f->controls.sType = VK_S_FLOAT_CONTROLS_PROPERTIES;
        next = chain(&f->controls, next);
    }
    if (f->features[SUBGROUP_SIZE].sType) {
        f->subgroup_size.sType = VK_S_SUBGROUP_SIZE_PROPERTIES;
        next = chain(&f->subgroup_size, next);
    }
    if (has_extension(f, "VK_KHR_push_descriptor")) {
        f->enabled[f->n_enabled++] = "VK_KHR_push_descriptor";
        f->push.sType = VK_S_PUSH_DESCRIPTOR_PROPERTIES;
        next = chain(&f->push, next);
    }
    if (d->api_version >= VK_VERSION(1, 2) ||
        has_extension(f, "VK_KHR_driver_properties")) { /* nothing to enable */
        f->driver.sType = VK_S_DRIVER_PROPERTIES;
        next = chain(&f->driver, next);
    }
    d->properties = (VkPhysicalDeviceProperties2){.sType = VK_S_PROPERTIES_2, .pNext = next};
    d->vkGetPhysicalDeviceProperties2(d->physical, &d->properties);
    d->vkGetPhysicalDeviceMemoryProperties(d->physical, &d->memory);
}

static ls_status query_extensions(vk_driver *d, found *f, ls_error *err) {
    uint32_t n = 0;
    LS_VK_TRY(d, err, vkEnumerateDeviceExtensionProperties, d->physical, NULL, &n, NULL);
    n = n < MAX_EXTENSIONS ? n : MAX_EXTENSIONS;
    f->extensions = ls_alloc_zeroed(d->heap, (n + 1) * sizeof *f->extensions);
    if (!f->extensions) {
        return LS_FAIL_MEMORY(err, "the extensions of a Vulkan device");
    }
    LS_VK_TRY(d, err, vkEnumerateDeviceExtensionProperties, d->physical, NULL, &n, f->extensions);
    f->n_extensions = n;
    return LS_OK;
}

/* ---- what follows from it ---- */

/* Controls of 16 and 64 bits are declared by the kernels that need them alone, so they must be independent. */
static void choose_controls(vk_driver *d, const found *f) {
    const VkPhysicalDeviceFloatControlsProperties *c = &f->controls;
    bool rounding = c->roundingModeIndependence == VK_INDEPENDENCE_ALL,
         denorms = c->denormBehaviorIndependence == VK_INDEPENDENCE_ALL;
    bool rounding32 = rounding || c->roundingModeIndependence == VK_INDEPENDENCE_32_ONLY;
    bool denorms32 = denorms || c->denormBehaviorIndependence == VK_INDEPENDENCE_32_ONLY;
    d->spirv = (ls_spirv_options){.rte16 = rounding && c->roundRte[0],
                                  .rte32 = rounding32 && c->roundRte[1],
                                  .rte64 = rounding && c->roundRte[2],
                                  .denorm_preserve16 = denorms && c->denormPreserve[0],
                                  .denorm_preserve32 = denorms32 && c->denormPreserve[1],
                                  .denorm_preserve64 = denorms && c->denormPreserve[2],
                                  .nan_preserve32 = c->nanPreserve[1],
                                  .hide_zero = f->driver.sType && f->driver.driverID == VK_DRIVER_LLVMPIPE};
}

static void choose_subgroup(vk_driver *d, const found *f) {
    const VkPhysicalDeviceSubgroupSizeProperties *s = &f->subgroup_size;
    bool pin = f->features[SUBGROUP_SIZE].on[0] && s->requiredSubgroupSizeStages & VK_STAGE_COMPUTE;
    bool fits =
        f->subgroup.subgroupSize >= s->minSubgroupSize && f->subgroup.subgroupSize <= s->maxSubgroupSize;
    d->subgroup = pin && fits ? f->subgroup.subgroupSize : 0;
    d->full_subgroups = f->features[SUBGROUP_SIZE].on[1];
}

/* Products of f16 or bf16 into f32, by one subgroup. */
static ls_status choose_frags(vk_driver *d, const found *f, ls_gpu_limits *limits, ls_error *err) {
    VkGetCooperativeMatrixProperties query;
    VkAnyFunction function = d->get_proc(d->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    bool bf16 = f->features[BFLOAT16].on[0] && f->features[BFLOAT16].on[2];
    const char *wanted = ls_os_env("LOCKSTEP_VULKAN_MATRIX");
    if ((wanted && strcmp(wanted, "off") == 0) || !f->features[COOP_MATRIX].on[0] ||
        !f->features[MEMORY_MODEL].on[0] || !f->features[FLOAT16_INT8].on[0] ||
        !f->features[STORAGE16].on[0] || !d->subgroup || !function) {
        return LS_OK;
    }
    memcpy(&query, &function, sizeof function);
    VkCooperativeMatrixProperties *list = ls_alloc_zeroed(d->heap, MAX_MATRICES * sizeof *list);
    if (!list) {
        return LS_FAIL_MEMORY(err, "the matrices of a Vulkan device");
    }
    uint32_t n = MAX_MATRICES;
    for (uint32_t i = 0; i < n; i++) {
        list[i].sType = VK_S_COOP_MATRIX_PROPERTIES;
    }
    VkResult code = query(d->physical, &n, list);
    for (uint32_t i = 0; code >= 0 && i < n && limits->n_frags < LS_EMIT_FRAGS; i++) {
        const VkCooperativeMatrixProperties *p = &list[i];
        bool type = p->a == VK_COMPONENT_F16 || (bf16 && p->a == VK_COMPONENT_BF16);
        if (type && p->b == p->a && p->c == VK_COMPONENT_F32 && p->result == VK_COMPONENT_F32 &&
            !p->saturating && p->scope == VK_SCOPE_SUBGROUP && p->m < 256 && p->n < 256 && p->k < 256) {
            limits->frags[limits->n_frags++] = (ls_emit_frag){p->a == VK_COMPONENT_F16 ? LS_F16 : LS_BF16,
                                                              (uint8_t)p->m, (uint8_t)p->n, (uint8_t)p->k};
        }
    }
    d->spirv.coop_matrix = limits->n_frags > 0;
    ls_free(d->heap, list);
    return ls_vk_check(d, code, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", err);
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void choose_limits(vk_driver *d, const found *f, ls_gpu_limits *out) {
    const VkPhysicalDeviceLimits *l = &d->properties.limits;
    bool bytes = f->features[STORAGE8].on[0] && f->features[FLOAT16_INT8].on[1];
    bool halves = f->features[STORAGE16].on[0] && f->base.on[VK_FEATURE_INT16];
    uint32_t groups = least(l->maxComputeWorkGroupCount[0],
                            least(l->maxComputeWorkGroupCount[1], l->maxComputeWorkGroupCount[2]));
    uint32_t bindings = least(l->maxPerStageDescriptorStorageBuffers, l->maxDescriptorSetStorageBuffers);
    bindings = f->push.sType && f->push.maxPushDescriptors < bindings ? f->push.maxPushDescriptors : bindings;
    d->max_bindings = (int32_t)least(bindings, LS_VK_BINDINGS);
    d->max_words = (int32_t)least(l->maxPushConstantsSize / 4, LS_VK_WORDS) - 1; /* one is the renderer's */
    d->max_allocation = (size_t)f->allocation.maxMemoryAllocationSize;
    uint32_t traits =
        LS_KT_ALL & ~(uint32_t)(LS_KT_INT64 | LS_KT_FLOAT64 | LS_KT_BYTES | LS_KT_HALVES | LS_KT_HALF_CAST | LS_KT_BFLOAT_CAST);
    traits |= f->base.on[VK_FEATURE_INT64] ? LS_KT_INT64 : 0;
    traits |= f->base.on[VK_FEATURE_INT64] && f->base.on[VK_FEATURE_FLOAT64] ? LS_KT_FLOAT64 : 0;
    traits |= bytes ? LS_KT_BYTES : 0;
    traits |= halves ? LS_KT_HALVES : 0;
    traits |= halves && f->features[FLOAT16_INT8].on[0] ? LS_KT_HALF_CAST : 0;
    size_t align = (size_t)l->minStorageBufferOffsetAlignment;
    *out = (ls_gpu_limits){
        .traits = traits,
        .align = align < 16 ? 16 : align,
        .max_binding = l->maxStorageBufferRange,
        .block = (size_t)16 << 20,
        .max_shared = l->maxComputeSharedMemorySize,
        .max_bindings = d->max_bindings,
        .max_words = d->max_words,
        .max_groups = (int32_t)least(groups, INT32_MAX),
        .max_threads = (int32_t)least(l->maxComputeWorkGroupInvocations, l->maxComputeWorkGroupSize[0]),
        .overlap = true,
        .subgroup = (int32_t)d->subgroup};
}

/* Memory that both sides reach fast: on processors and integrated GPUs. */
static bool is_unified(const vk_driver *d) {
    const VkFlags all =
        VK_MEMORY_DEVICE_LOCAL | VK_MEMORY_HOST_VISIBLE | VK_MEMORY_HOST_COHERENT | VK_MEMORY_HOST_CACHED;
    if (d->properties.deviceType != VK_TYPE_CPU && d->properties.deviceType != VK_TYPE_INTEGRATED) {
        return false;
    }
    for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
        if ((d->memory.memoryTypes[i].propertyFlags & all) == all) {
            return true;
        }
    }
    return false;
}

static void append(char *out, size_t room, const char *text) {
    size_t at = strlen(out), n = strlen(text);
    n = n < room - 1 - at ? n : room - 1 - at;
    memcpy(out + at, text, n);
    out[at + n] = 0;
}

static void fill_caps(const vk_driver *d, const found *f, ls_caps *caps) {
    static const char digits[] = "0123456789abcdef";
    char version[12] = " ........";
    for (int i = 0; i < 8; i++) { /* drivers number themselves each in its own way */
        version[1 + i] = digits[d->properties.driverVersion >> (28 - 4 * i) & 15];
    }
    append(caps->name, sizeof caps->name, d->properties.deviceName);
    append(caps->driver, sizeof caps->driver, f->driver.sType ? f->driver.driverName : "Vulkan driver");
    append(caps->driver, sizeof caps->driver, f->driver.driverInfo[0] ? " " : "");
    append(caps->driver, sizeof caps->driver, f->driver.driverInfo);
    append(caps->driver, sizeof caps->driver, version);
    caps->subgroup = (int)f->subgroup.subgroupSize;
    caps->shared_bytes = d->properties.limits.maxComputeSharedMemorySize;
    caps->dtypes = (1u << LS_DTYPE_COUNT) - 1;
    for (uint32_t i = 0; i < d->memory.memoryHeapCount; i++) {
        if (d->memory.memoryHeaps[i].flags & 1) { /* local to the device */
            caps->memory_bytes += (size_t)d->memory.memoryHeaps[i].size;
        }
    }
}

static ls_status create(vk_driver *d, found *f, ls_gpu_limits *out_limits, ls_error *err) {
    LS_TRY(err, query_extensions(d, f, err));
    query_features(d, f);
    query_properties(d, f);
    choose_controls(d, f);
    choose_subgroup(d, f);
    choose_limits(d, f, out_limits);
    LS_TRY(err, choose_frags(d, f, out_limits, err));
    d->pipeline_robustness = f->features[ROBUSTNESS].on[0];
    d->unified = is_unified(d);
    fill_caps(d, f, &d->device->caps);
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_S_DEVICE_QUEUE_CREATE_INFO,
                                           .queueFamilyIndex = d->family,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo info = {.sType = VK_S_DEVICE_CREATE_INFO,
                                     .pNext = &f->base,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .enabledExtensionCount = f->n_enabled,
                                     .ppEnabledExtensionNames = f->enabled};
    LS_VK_TRY(d, err, vkCreateDevice, d->physical, &info, NULL, &d->dev);
    if (f->push.sType) {
        VkAnyFunction function = d->vkGetDeviceProcAddr(d->dev, "vkCmdPushDescriptorSetKHR");
        memcpy(&d->push_descriptors, &function, sizeof function);
    }
    return LS_OK;
}

ls_status ls_vk_create_device(vk_driver *d, ls_gpu_limits *out_limits, ls_error *err) {
    found *f = ls_alloc_zeroed(d->heap, sizeof *f);
    if (!f) {
        return LS_FAIL_MEMORY(err, "a Vulkan device");
    }
    ls_status status = create(d, f, out_limits, err);
    ls_free(d->heap, f->extensions);
    ls_free(d->heap, f);
    d->properties.pNext = NULL; /* it stood in *f */
    return status;
}
