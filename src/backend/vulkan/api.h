/* The part of Vulkan's ABI that is used, declared here so that no header of Vulkan is needed. Names, values and layouts are
 * those of the Vulkan specification; parts of structures that nobody looks at are numbered words. Handles that are not
 * dispatchable are 64 bits everywhere. */
#ifndef LOCKSTEP_BACKEND_VULKAN_API_H
#define LOCKSTEP_BACKEND_VULKAN_API_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t VkResult;
typedef uint32_t VkBool32, VkFlags;
typedef uint64_t VkDeviceSize;
typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
typedef struct VkDevice_T *VkDevice;
typedef struct VkQueue_T *VkQueue;
typedef struct VkCommandBuffer_T *VkCommandBuffer;
typedef uint64_t VkBuffer, VkDeviceMemory, VkShaderModule, VkPipeline, VkPipelineCache, VkPipelineLayout, VkDescriptorSetLayout,
    VkDescriptorPool, VkDescriptorSet, VkCommandPool, VkFence, VkQueryPool;
typedef void (*VkAnyFunction)(void);

enum {
    VK_SUCCESS = 0,
    VK_NOT_READY = 1,
    VK_TIMEOUT = 2,
    VK_INCOMPLETE = 5,
    VK_ERROR_OUT_OF_HOST_MEMORY = -1,
    VK_ERROR_OUT_OF_DEVICE_MEMORY = -2,
    VK_ERROR_INITIALIZATION_FAILED = -3,
    VK_ERROR_DEVICE_LOST = -4,
    VK_ERROR_MEMORY_MAP_FAILED = -5,
    VK_ERROR_LAYER_NOT_PRESENT = -6,
    VK_ERROR_EXTENSION_NOT_PRESENT = -7,
    VK_ERROR_FEATURE_NOT_PRESENT = -8,
    VK_ERROR_INCOMPATIBLE_DRIVER = -9,
    VK_ERROR_OUT_OF_POOL_MEMORY = -1000069000
};

#define VK_VERSION(major, minor) ((uint32_t)(major) << 22 | (uint32_t)(minor) << 12)
#define VK_WHOLE_SIZE (~UINT64_C(0))

/* VkStructureType */
enum {
    VK_S_APPLICATION_INFO = 0,
    VK_S_INSTANCE_CREATE_INFO = 1,
    VK_S_DEVICE_QUEUE_CREATE_INFO = 2,
    VK_S_DEVICE_CREATE_INFO = 3,
    VK_S_SUBMIT_INFO = 4,
    VK_S_MEMORY_ALLOCATE_INFO = 5,
    VK_S_FENCE_CREATE_INFO = 8,
    VK_S_QUERY_POOL_CREATE_INFO = 11,
    VK_S_BUFFER_CREATE_INFO = 12,
    VK_S_SHADER_MODULE_CREATE_INFO = 16,
    VK_S_PIPELINE_CACHE_CREATE_INFO = 17,
    VK_S_PIPELINE_SHADER_STAGE_CREATE_INFO = 18,
    VK_S_COMPUTE_PIPELINE_CREATE_INFO = 29,
    VK_S_PIPELINE_LAYOUT_CREATE_INFO = 30,
    VK_S_DESCRIPTOR_SET_LAYOUT_CREATE_INFO = 32,
    VK_S_DESCRIPTOR_POOL_CREATE_INFO = 33,
    VK_S_DESCRIPTOR_SET_ALLOCATE_INFO = 34,
    VK_S_WRITE_DESCRIPTOR_SET = 35,
    VK_S_COMMAND_POOL_CREATE_INFO = 39,
    VK_S_COMMAND_BUFFER_ALLOCATE_INFO = 40,
    VK_S_COMMAND_BUFFER_BEGIN_INFO = 42,
    VK_S_MEMORY_BARRIER = 46,
    VK_S_FEATURES_2 = 1000059000,
    VK_S_PROPERTIES_2 = 1000059001,
    VK_S_ID_PROPERTIES = 1000071004,
    VK_S_PUSH_DESCRIPTOR_PROPERTIES = 1000080000,
    VK_S_FLOAT16_INT8_FEATURES = 1000082000,
    VK_S_16BIT_STORAGE_FEATURES = 1000083000,
    VK_S_SUBGROUP_PROPERTIES = 1000094000,
    VK_S_BFLOAT16_FEATURES = 1000141000,
    VK_S_MAINTENANCE_3_PROPERTIES = 1000168000,
    VK_S_SUBGROUP_TYPES_FEATURES = 1000175000,
    VK_S_8BIT_STORAGE_FEATURES = 1000177000,
    VK_S_ATOMIC_INT64_FEATURES = 1000180000,
    VK_S_CREATION_FEEDBACK = 1000192000,
    VK_S_DRIVER_PROPERTIES = 1000196000,
    VK_S_FLOAT_CONTROLS_PROPERTIES = 1000197000,
    VK_S_MEMORY_MODEL_FEATURES = 1000211000,
    VK_S_SUBGROUP_SIZE_PROPERTIES = 1000225000,
    VK_S_REQUIRED_SUBGROUP_SIZE_INFO = 1000225001,
    VK_S_SUBGROUP_SIZE_FEATURES = 1000225002,
    VK_S_PIPELINE_ROBUSTNESS_CREATE_INFO = 1000068000,
    VK_S_PIPELINE_ROBUSTNESS_FEATURES = 1000068001,
    VK_S_COOP_MATRIX_FEATURES = 1000506000,
    VK_S_COOP_MATRIX_PROPERTIES = 1000506001
};

enum {
    VK_QUEUE_COMPUTE = 2,
    VK_MEMORY_DEVICE_LOCAL = 1,
    VK_MEMORY_HOST_VISIBLE = 2,
    VK_MEMORY_HOST_COHERENT = 4,
    VK_MEMORY_HOST_CACHED = 8,
    VK_USAGE_TRANSFER_SRC = 1,
    VK_USAGE_TRANSFER_DST = 2,
    VK_USAGE_STORAGE = 0x20,
    VK_STAGE_COMPUTE = 0x20, /* of shaders */
    VK_PIPE_COMPUTE = 0x800, /* of pipelines */
    VK_PIPE_TRANSFER = 0x1000,
    VK_PIPE_END = 0x2000,
    VK_ROBUSTNESS_DISABLED = 1,
    VK_CREATION_FEEDBACK_HIT = 3, /* valid, and of the application's cache */
    VK_PIPE_HOST = 0x4000,
    VK_ACCESS_SHADER_READ = 0x20,
    VK_ACCESS_SHADER_WRITE = 0x40,
    VK_ACCESS_TRANSFER_READ = 0x800,
    VK_ACCESS_TRANSFER_WRITE = 0x1000,
    VK_ACCESS_HOST_READ = 0x2000,
    VK_DESCRIPTOR_STORAGE_BUFFER = 7,
    VK_DESCRIPTOR_LAYOUT_PUSH = 1,
    VK_BIND_COMPUTE = 1,
    VK_BEGIN_ONE_TIME = 1,
    VK_STAGE_FULL_SUBGROUPS = 2,
    VK_INDEPENDENCE_32_ONLY = 0,
    VK_INDEPENDENCE_ALL = 1,
    VK_SCOPE_SUBGROUP = 3,
    VK_COMPONENT_F16 = 0,
    VK_COMPONENT_F32 = 1,
    VK_COMPONENT_BF16 = 1000141000,
    VK_TYPE_INTEGRATED = 1,
    VK_TYPE_DISCRETE = 2,
    VK_TYPE_VIRTUAL = 3,
    VK_TYPE_CPU = 4,
    VK_DRIVER_LLVMPIPE = 13
};

typedef struct VkApplicationInfo {
    uint32_t sType;
    const void *pNext;
    const char *pApplicationName;
    uint32_t applicationVersion;
    const char *pEngineName;
    uint32_t engineVersion, apiVersion;
} VkApplicationInfo;

typedef struct VkInstanceCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    const VkApplicationInfo *pApplicationInfo;
    uint32_t enabledLayerCount;
    const char *const *ppEnabledLayerNames;
    uint32_t enabledExtensionCount;
    const char *const *ppEnabledExtensionNames;
} VkInstanceCreateInfo;

typedef struct VkPhysicalDeviceLimits {
    uint32_t words0[7];
    uint32_t maxStorageBufferRange, maxPushConstantsSize;
    uint32_t words1[10];
    uint32_t maxPerStageDescriptorStorageBuffers;
    uint32_t words2[7];
    uint32_t maxDescriptorSetStorageBuffers;
    uint32_t words3[26];
    uint32_t maxComputeSharedMemorySize, maxComputeWorkGroupCount[3], maxComputeWorkGroupInvocations, maxComputeWorkGroupSize[3];
    uint32_t words4[20];
    VkDeviceSize minStorageBufferOffsetAlignment;
    uint32_t words5[22];
    float timestampPeriod;
    uint32_t words6[19];
} VkPhysicalDeviceLimits;
_Static_assert(sizeof(VkPhysicalDeviceLimits) == 504, "Vulkan's ABI");
_Static_assert(offsetof(VkPhysicalDeviceLimits, maxPerStageDescriptorStorageBuffers) == 76, "Vulkan's ABI");
_Static_assert(offsetof(VkPhysicalDeviceLimits, maxDescriptorSetStorageBuffers) == 108, "Vulkan's ABI");
_Static_assert(offsetof(VkPhysicalDeviceLimits, maxComputeSharedMemorySize) == 216, "Vulkan's ABI");
_Static_assert(offsetof(VkPhysicalDeviceLimits, minStorageBufferOffsetAlignment) == 328, "Vulkan's ABI");
_Static_assert(offsetof(VkPhysicalDeviceLimits, timestampPeriod) == 424, "Vulkan's ABI");

typedef struct VkPhysicalDeviceProperties2 {
    uint32_t sType;
    void *pNext;
    uint32_t apiVersion, driverVersion, vendorID, deviceID, deviceType;
    char deviceName[256];
    uint8_t pipelineCacheUUID[16];
    VkPhysicalDeviceLimits limits;
    VkBool32 sparse[5];
} VkPhysicalDeviceProperties2;
_Static_assert(offsetof(VkPhysicalDeviceProperties2, limits) == 16 + 296, "Vulkan's ABI");
_Static_assert(sizeof(VkPhysicalDeviceProperties2) == 840, "Vulkan's ABI");

typedef struct VkPhysicalDeviceIDProperties {
    uint32_t sType;
    void *pNext;
    uint8_t deviceUUID[16], driverUUID[16], deviceLUID[8];
    uint32_t deviceNodeMask;
    VkBool32 deviceLUIDValid;
} VkPhysicalDeviceIDProperties;
_Static_assert(sizeof(VkPhysicalDeviceIDProperties) == 64, "Vulkan's ABI");

typedef struct VkPhysicalDeviceDriverProperties {
    uint32_t sType;
    void *pNext;
    uint32_t driverID;
    char driverName[256], driverInfo[256];
    uint8_t conformanceVersion[4];
} VkPhysicalDeviceDriverProperties;
_Static_assert(sizeof(VkPhysicalDeviceDriverProperties) == 536, "Vulkan's ABI");

typedef struct VkPhysicalDeviceMaintenance3Properties {
    uint32_t sType;
    void *pNext;
    uint32_t maxPerSetDescriptors;
    VkDeviceSize maxMemoryAllocationSize;
} VkPhysicalDeviceMaintenance3Properties;
_Static_assert(sizeof(VkPhysicalDeviceMaintenance3Properties) == 32, "Vulkan's ABI");

typedef struct VkPhysicalDevicePushDescriptorProperties {
    uint32_t sType;
    void *pNext;
    uint32_t maxPushDescriptors;
} VkPhysicalDevicePushDescriptorProperties;

typedef struct VkPhysicalDeviceSubgroupProperties {
    uint32_t sType;
    void *pNext;
    uint32_t subgroupSize;
    VkFlags supportedStages, supportedOperations;
    VkBool32 quadOperationsInAllStages;
} VkPhysicalDeviceSubgroupProperties;

typedef struct VkPhysicalDeviceSubgroupSizeProperties {
    uint32_t sType;
    void *pNext;
    uint32_t minSubgroupSize, maxSubgroupSize, maxComputeWorkgroupSubgroups;
    VkFlags requiredSubgroupSizeStages;
} VkPhysicalDeviceSubgroupSizeProperties;
_Static_assert(sizeof(VkPhysicalDeviceSubgroupSizeProperties) == 32, "Vulkan's ABI");

typedef struct VkPhysicalDeviceFloatControlsProperties {
    uint32_t sType;
    void *pNext;
    uint32_t denormBehaviorIndependence, roundingModeIndependence;
    VkBool32 nanPreserve[3], denormPreserve[3], denormFlush[3], roundRte[3], roundRtz[3]; /* 16, 32 and 64 bits */
} VkPhysicalDeviceFloatControlsProperties;
_Static_assert(sizeof(VkPhysicalDeviceFloatControlsProperties) == 88, "Vulkan's ABI");

/* The numbers of some features among the 55 of VkPhysicalDeviceFeatures. */
enum { VK_FEATURE_FLOAT64 = 39, VK_FEATURE_INT64 = 40, VK_FEATURE_INT16 = 41 };
typedef struct VkPhysicalDeviceFeatures2 {
    uint32_t sType;
    void *pNext;
    VkBool32 on[55];
} VkPhysicalDeviceFeatures2;
_Static_assert(sizeof(VkPhysicalDeviceFeatures2) == 240, "Vulkan's ABI");

/* All structures of features: a head, then truth values. */
typedef struct VkFeatureStruct {
    uint32_t sType;
    void *pNext;
    VkBool32 on[4];
} VkFeatureStruct;

typedef struct VkCooperativeMatrixProperties {
    uint32_t sType;
    void *pNext;
    uint32_t m, n, k, a, b, c, result;
    VkBool32 saturating;
    uint32_t scope;
} VkCooperativeMatrixProperties;
_Static_assert(sizeof(VkCooperativeMatrixProperties) == 56, "Vulkan's ABI");

typedef struct VkMemoryType {
    VkFlags propertyFlags;
    uint32_t heapIndex;
} VkMemoryType;
typedef struct VkMemoryHeap {
    VkDeviceSize size;
    VkFlags flags;
} VkMemoryHeap;
typedef struct VkPhysicalDeviceMemoryProperties {
    uint32_t memoryTypeCount;
    VkMemoryType memoryTypes[32];
    uint32_t memoryHeapCount;
    VkMemoryHeap memoryHeaps[16];
} VkPhysicalDeviceMemoryProperties;
_Static_assert(sizeof(VkPhysicalDeviceMemoryProperties) == 520, "Vulkan's ABI");

typedef struct VkQueueFamilyProperties {
    VkFlags queueFlags;
    uint32_t queueCount, timestampValidBits, granularity[3];
} VkQueueFamilyProperties;
typedef struct VkExtensionProperties {
    char extensionName[256];
    uint32_t specVersion;
} VkExtensionProperties;

typedef struct VkDeviceQueueCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t queueFamilyIndex, queueCount;
    const float *pQueuePriorities;
} VkDeviceQueueCreateInfo;
typedef struct VkDeviceCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t queueCreateInfoCount;
    const VkDeviceQueueCreateInfo *pQueueCreateInfos;
    uint32_t enabledLayerCount;
    const char *const *ppEnabledLayerNames;
    uint32_t enabledExtensionCount;
    const char *const *ppEnabledExtensionNames;
    const void *pEnabledFeatures;
} VkDeviceCreateInfo;
_Static_assert(sizeof(VkDeviceCreateInfo) == 72, "Vulkan's ABI");

typedef struct VkBufferCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    VkDeviceSize size;
    VkFlags usage;
    uint32_t sharingMode, queueFamilyIndexCount;
    const uint32_t *pQueueFamilyIndices;
} VkBufferCreateInfo;
_Static_assert(sizeof(VkBufferCreateInfo) == 56, "Vulkan's ABI");
typedef struct VkMemoryRequirements {
    VkDeviceSize size, alignment;
    uint32_t memoryTypeBits;
} VkMemoryRequirements;
typedef struct VkMemoryAllocateInfo {
    uint32_t sType;
    const void *pNext;
    VkDeviceSize allocationSize;
    uint32_t memoryTypeIndex;
} VkMemoryAllocateInfo;

typedef struct VkShaderModuleCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    size_t codeSize;
    const uint32_t *pCode;
} VkShaderModuleCreateInfo;
typedef struct VkPipelineCacheCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    size_t initialDataSize;
    const void *pInitialData;
} VkPipelineCacheCreateInfo;
typedef struct VkRequiredSubgroupSizeInfo {
    uint32_t sType;
    void *pNext;
    uint32_t requiredSubgroupSize;
} VkRequiredSubgroupSizeInfo;
typedef struct VkPipelineShaderStageCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t stage;
    VkShaderModule module;
    const char *pName;
    const void *pSpecializationInfo;
} VkPipelineShaderStageCreateInfo;
typedef struct VkComputePipelineCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    VkPipelineShaderStageCreateInfo stage;
    VkPipelineLayout layout;
    VkPipeline basePipelineHandle;
    int32_t basePipelineIndex;
} VkComputePipelineCreateInfo;
_Static_assert(sizeof(VkComputePipelineCreateInfo) == 96, "Vulkan's ABI");

typedef struct VkDescriptorSetLayoutBinding {
    uint32_t binding, descriptorType, descriptorCount;
    VkFlags stageFlags;
    const void *pImmutableSamplers;
} VkDescriptorSetLayoutBinding;
typedef struct VkDescriptorSetLayoutCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t bindingCount;
    const VkDescriptorSetLayoutBinding *pBindings;
} VkDescriptorSetLayoutCreateInfo;
typedef struct VkPushConstantRange {
    VkFlags stageFlags;
    uint32_t offset, size;
} VkPushConstantRange;
typedef struct VkPipelineLayoutCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t setLayoutCount;
    const VkDescriptorSetLayout *pSetLayouts;
    uint32_t pushConstantRangeCount;
    const VkPushConstantRange *pPushConstantRanges;
} VkPipelineLayoutCreateInfo;
_Static_assert(sizeof(VkPipelineLayoutCreateInfo) == 48, "Vulkan's ABI");
typedef struct VkDescriptorPoolSize {
    uint32_t type, descriptorCount;
} VkDescriptorPoolSize;
typedef struct VkDescriptorPoolCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t maxSets, poolSizeCount;
    const VkDescriptorPoolSize *pPoolSizes;
} VkDescriptorPoolCreateInfo;
typedef struct VkDescriptorSetAllocateInfo {
    uint32_t sType;
    const void *pNext;
    VkDescriptorPool descriptorPool;
    uint32_t descriptorSetCount;
    const VkDescriptorSetLayout *pSetLayouts;
} VkDescriptorSetAllocateInfo;
typedef struct VkDescriptorBufferInfo {
    VkBuffer buffer;
    VkDeviceSize offset, range;
} VkDescriptorBufferInfo;
typedef struct VkWriteDescriptorSet {
    uint32_t sType;
    const void *pNext;
    VkDescriptorSet dstSet;
    uint32_t dstBinding, dstArrayElement, descriptorCount, descriptorType;
    const void *pImageInfo;
    const VkDescriptorBufferInfo *pBufferInfo;
    const void *pTexelBufferView;
} VkWriteDescriptorSet;
_Static_assert(sizeof(VkWriteDescriptorSet) == 64, "Vulkan's ABI");

typedef struct VkCommandPoolCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t queueFamilyIndex;
} VkCommandPoolCreateInfo;
typedef struct VkCommandBufferAllocateInfo {
    uint32_t sType;
    const void *pNext;
    VkCommandPool commandPool;
    uint32_t level, commandBufferCount;
} VkCommandBufferAllocateInfo;
typedef struct VkCommandBufferBeginInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    const void *pInheritanceInfo;
} VkCommandBufferBeginInfo;
typedef struct VkMemoryBarrier {
    uint32_t sType;
    const void *pNext;
    VkFlags srcAccessMask, dstAccessMask;
} VkMemoryBarrier;
typedef struct VkBufferCopy {
    VkDeviceSize srcOffset, dstOffset, size;
} VkBufferCopy;
typedef struct VkFenceCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
} VkFenceCreateInfo;
typedef struct VkSubmitInfo {
    uint32_t sType;
    const void *pNext;
    uint32_t waitSemaphoreCount;
    const uint64_t *pWaitSemaphores;
    const VkFlags *pWaitDstStageMask;
    uint32_t commandBufferCount;
    const VkCommandBuffer *pCommandBuffers;
    uint32_t signalSemaphoreCount;
    const uint64_t *pSignalSemaphores;
} VkSubmitInfo;
_Static_assert(sizeof(VkSubmitInfo) == 72, "Vulkan's ABI");

typedef struct VkPipelineCreationFeedback {
    VkFlags flags;
    uint64_t duration;
} VkPipelineCreationFeedback;
typedef struct VkPipelineCreationFeedbackCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkPipelineCreationFeedback *pPipelineCreationFeedback;
    uint32_t pipelineStageCreationFeedbackCount;
    VkPipelineCreationFeedback *pPipelineStageCreationFeedbacks;
} VkPipelineCreationFeedbackCreateInfo;
_Static_assert(sizeof(VkPipelineCreationFeedback) == 16 && sizeof(VkPipelineCreationFeedbackCreateInfo) == 40, "Vulkan's ABI");
typedef struct VkPipelineRobustnessCreateInfo {
    uint32_t sType;
    const void *pNext;
    uint32_t storageBuffers, uniformBuffers, vertexInputs, images;
} VkPipelineRobustnessCreateInfo;
_Static_assert(sizeof(VkPipelineRobustnessCreateInfo) == 32, "Vulkan's ABI");
typedef struct VkQueryPoolCreateInfo {
    uint32_t sType;
    const void *pNext;
    VkFlags flags;
    uint32_t queryType, queryCount;
    VkFlags pipelineStatistics;
} VkQueryPoolCreateInfo;
_Static_assert(sizeof(VkQueryPoolCreateInfo) == 32, "Vulkan's ABI");

/* F(result, name, parameters). Allocators are always NULL. */
#define LS_VK_INSTANCE_FUNCTIONS(F)                                                                                            \
    F(void, vkDestroyInstance, (VkInstance, const void *))                                                                     \
    F(VkResult, vkEnumeratePhysicalDevices, (VkInstance, uint32_t *, VkPhysicalDevice *))                                      \
    F(void, vkGetPhysicalDeviceProperties2, (VkPhysicalDevice, VkPhysicalDeviceProperties2 *))                                 \
    F(void, vkGetPhysicalDeviceFeatures2, (VkPhysicalDevice, VkPhysicalDeviceFeatures2 *))                                     \
    F(void, vkGetPhysicalDeviceMemoryProperties, (VkPhysicalDevice, VkPhysicalDeviceMemoryProperties *))                       \
    F(void, vkGetPhysicalDeviceQueueFamilyProperties, (VkPhysicalDevice, uint32_t *, VkQueueFamilyProperties *))               \
    F(VkResult, vkEnumerateDeviceExtensionProperties, (VkPhysicalDevice, const char *, uint32_t *, VkExtensionProperties *))   \
    F(VkResult, vkCreateDevice, (VkPhysicalDevice, const VkDeviceCreateInfo *, const void *, VkDevice *))                      \
    F(VkAnyFunction, vkGetDeviceProcAddr, (VkDevice, const char *))

#define LS_VK_DEVICE_FUNCTIONS(F)                                                                                              \
    F(void, vkDestroyDevice, (VkDevice, const void *))                                                                         \
    F(void, vkGetDeviceQueue, (VkDevice, uint32_t, uint32_t, VkQueue *))                                                       \
    F(VkResult, vkDeviceWaitIdle, (VkDevice))                                                                                  \
    F(VkResult, vkCreateBuffer, (VkDevice, const VkBufferCreateInfo *, const void *, VkBuffer *))                              \
    F(void, vkDestroyBuffer, (VkDevice, VkBuffer, const void *))                                                               \
    F(void, vkGetBufferMemoryRequirements, (VkDevice, VkBuffer, VkMemoryRequirements *))                                       \
    F(VkResult, vkAllocateMemory, (VkDevice, const VkMemoryAllocateInfo *, const void *, VkDeviceMemory *))                    \
    F(void, vkFreeMemory, (VkDevice, VkDeviceMemory, const void *))                                                            \
    F(VkResult, vkBindBufferMemory, (VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize))                                        \
    F(VkResult, vkMapMemory, (VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void **))                         \
    F(VkResult, vkCreateShaderModule, (VkDevice, const VkShaderModuleCreateInfo *, const void *, VkShaderModule *))            \
    F(void, vkDestroyShaderModule, (VkDevice, VkShaderModule, const void *))                                                   \
    F(VkResult, vkCreatePipelineCache, (VkDevice, const VkPipelineCacheCreateInfo *, const void *, VkPipelineCache *))         \
    F(void, vkDestroyPipelineCache, (VkDevice, VkPipelineCache, const void *))                                                 \
    F(VkResult, vkGetPipelineCacheData, (VkDevice, VkPipelineCache, size_t *, void *))                                         \
    F(VkResult, vkCreateComputePipelines,                                                                                      \
      (VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *, const void *, VkPipeline *))                  \
    F(void, vkDestroyPipeline, (VkDevice, VkPipeline, const void *))                                                           \
    F(VkResult, vkCreateDescriptorSetLayout,                                                                                   \
      (VkDevice, const VkDescriptorSetLayoutCreateInfo *, const void *, VkDescriptorSetLayout *))                              \
    F(void, vkDestroyDescriptorSetLayout, (VkDevice, VkDescriptorSetLayout, const void *))                                     \
    F(VkResult, vkCreatePipelineLayout, (VkDevice, const VkPipelineLayoutCreateInfo *, const void *, VkPipelineLayout *))      \
    F(void, vkDestroyPipelineLayout, (VkDevice, VkPipelineLayout, const void *))                                               \
    F(VkResult, vkCreateDescriptorPool, (VkDevice, const VkDescriptorPoolCreateInfo *, const void *, VkDescriptorPool *))      \
    F(void, vkDestroyDescriptorPool, (VkDevice, VkDescriptorPool, const void *))                                               \
    F(VkResult, vkResetDescriptorPool, (VkDevice, VkDescriptorPool, VkFlags))                                                  \
    F(VkResult, vkAllocateDescriptorSets, (VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *))                  \
    F(void, vkUpdateDescriptorSets, (VkDevice, uint32_t, const VkWriteDescriptorSet *, uint32_t, const void *))                \
    F(VkResult, vkCreateCommandPool, (VkDevice, const VkCommandPoolCreateInfo *, const void *, VkCommandPool *))               \
    F(void, vkDestroyCommandPool, (VkDevice, VkCommandPool, const void *))                                                     \
    F(VkResult, vkResetCommandPool, (VkDevice, VkCommandPool, VkFlags))                                                        \
    F(VkResult, vkAllocateCommandBuffers, (VkDevice, const VkCommandBufferAllocateInfo *, VkCommandBuffer *))                  \
    F(VkResult, vkBeginCommandBuffer, (VkCommandBuffer, const VkCommandBufferBeginInfo *))                                     \
    F(VkResult, vkEndCommandBuffer, (VkCommandBuffer))                                                                         \
    F(void, vkCmdBindPipeline, (VkCommandBuffer, uint32_t, VkPipeline))                                                        \
    F(void, vkCmdBindDescriptorSets,                                                                                           \
      (VkCommandBuffer, uint32_t, VkPipelineLayout, uint32_t, uint32_t, const VkDescriptorSet *, uint32_t, const uint32_t *))  \
    F(void, vkCmdPushConstants, (VkCommandBuffer, VkPipelineLayout, VkFlags, uint32_t, uint32_t, const void *))                \
    F(void, vkCmdDispatch, (VkCommandBuffer, uint32_t, uint32_t, uint32_t))                                                    \
    F(void, vkCmdPipelineBarrier,                                                                                              \
      (VkCommandBuffer, VkFlags, VkFlags, VkFlags, uint32_t, const VkMemoryBarrier *, uint32_t, const void *, uint32_t,        \
       const void *))                                                                                                          \
    F(void, vkCmdCopyBuffer, (VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const VkBufferCopy *))                            \
    F(VkResult, vkCreateQueryPool, (VkDevice, const VkQueryPoolCreateInfo *, const void *, VkQueryPool *))                     \
    F(void, vkDestroyQueryPool, (VkDevice, VkQueryPool, const void *))                                                         \
    F(void, vkCmdResetQueryPool, (VkCommandBuffer, VkQueryPool, uint32_t, uint32_t))                                           \
    F(void, vkCmdWriteTimestamp, (VkCommandBuffer, VkFlags, VkQueryPool, uint32_t))                                            \
    F(VkResult, vkGetQueryPoolResults,                                                                                         \
      (VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void *, VkDeviceSize, VkFlags))                                      \
    F(VkResult, vkQueueSubmit, (VkQueue, uint32_t, const VkSubmitInfo *, VkFence))                                             \
    F(VkResult, vkCreateFence, (VkDevice, const VkFenceCreateInfo *, const void *, VkFence *))                                 \
    F(void, vkDestroyFence, (VkDevice, VkFence, const void *))                                                                 \
    F(VkResult, vkResetFences, (VkDevice, uint32_t, const VkFence *))                                                          \
    F(VkResult, vkGetFenceStatus, (VkDevice, VkFence))                                                                         \
    F(VkResult, vkWaitForFences, (VkDevice, uint32_t, const VkFence *, VkBool32, uint64_t))

typedef VkAnyFunction (*VkGetInstanceProcAddr)(VkInstance, const char *);
typedef VkResult (*VkCreateInstance)(const VkInstanceCreateInfo *, const void *, VkInstance *);
typedef VkResult (*VkEnumerateInstanceVersion)(uint32_t *);
typedef void (*VkCmdPushDescriptorSet)(VkCommandBuffer, uint32_t, VkPipelineLayout, uint32_t, uint32_t,
                                       const VkWriteDescriptorSet *);
typedef VkResult (*VkGetCooperativeMatrixProperties)(VkPhysicalDevice, uint32_t *, VkCooperativeMatrixProperties *);

#endif
