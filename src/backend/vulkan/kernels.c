/* Kernels: SPIR-V into pipelines, and dispatches. Layouts depend on the number of bindings alone: all are storage buffers,
 * and every layout has room for all words of parameters. */
#include "backend/vulkan/driver.h"
#include "device/cache.h"

/* ---- the driver's cache of what it compiled ---- */

static void cache_key(const vk_driver *d, ls_cache_key *out_key) {
    ls_cache_key_begin(out_key, "vulkan pipelines", d->device);
    ls_cache_key_add(out_key, d->properties.pipelineCacheUUID, sizeof d->properties.pipelineCacheUUID);
}

ls_status ls_vk_cache_create(vk_driver *d, ls_error *err) {
    ls_cache_key key;
    void *bytes = NULL;
    VkPipelineCacheCreateInfo info = {.sType = VK_S_PIPELINE_CACHE_CREATE_INFO};
    cache_key(d, &key);
    if (ls_cache_get(d->heap, &key, &bytes, &info.initialDataSize)) {
        info.pInitialData = bytes;
        d->cache_loaded = info.initialDataSize;
    } else {
        info.initialDataSize = 0;
    }
    VkResult code = d->vkCreatePipelineCache(d->dev, &info, NULL, &d->cache);
    ls_free(d->heap, bytes);
    return ls_vk_check(d, code, "vkCreatePipelineCache", err);
}

void ls_vk_cache_save(vk_driver *d) {
    size_t size = 0;
    ls_cache_key key;
    if (!d->cache || d->lost || d->vkGetPipelineCacheData(d->dev, d->cache, &size, NULL) != VK_SUCCESS ||
        size <= d->cache_loaded) {
        return;
    }
    void *bytes = ls_alloc(d->heap, size);
    if (bytes && d->vkGetPipelineCacheData(d->dev, d->cache, &size, bytes) == VK_SUCCESS) {
        cache_key(d, &key);
        (void)ls_cache_put(d->heap, &key, bytes, size);
    }
    ls_free(d->heap, bytes);
}

/* ---- pipelines ---- */

ls_status ls_vk_render(void *driver, ls_arena *arena, const ls_kernel *kernel, ls_gpu_code *out_code,
                       ls_error *err) {
    vk_driver *d = driver;
    uint32_t *words;
    size_t n;
    LS_TRY(err, ls_render_spirv(arena, kernel, &d->spirv, &words, &n, err));
    out_code->data = words;
    out_code->size = n * sizeof *words;
    return LS_OK;
}

static ls_status layout_make(vk_driver *d, int n, ls_error *err) {
    VkDescriptorSetLayoutBinding bindings[LS_VK_BINDINGS];
    for (int i = 0; i < n; i++) {
        bindings[i] = (VkDescriptorSetLayoutBinding){(uint32_t)i, VK_DESCRIPTOR_STORAGE_BUFFER, 1,
                                                     VK_STAGE_COMPUTE, NULL};
    }
    const VkDescriptorSetLayoutCreateInfo set = {.sType = VK_S_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                 .flags = d->push_descriptors ? VK_DESCRIPTOR_LAYOUT_PUSH : 0,
                                                 .bindingCount = (uint32_t)n,
                                                 .pBindings = bindings};
    const VkPushConstantRange words = {VK_STAGE_COMPUTE, 0, (uint32_t)(d->max_words + 1) * 4};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_S_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = 1,
                                             .pSetLayouts = &d->set_layouts[n],
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &words};
    if (!d->set_layouts[n]) {
        LS_VK_TRY(d, err, vkCreateDescriptorSetLayout, d->dev, &set, NULL, &d->set_layouts[n]);
    }
    if (!d->layouts[n]) {
        LS_VK_TRY(d, err, vkCreatePipelineLayout, d->dev, &info, NULL, &d->layouts[n]);
    }
    return LS_OK;
}

/* Whether threads of a subgroup work together in it. */
static bool uses_subgroups(const ls_kernel *kernel) {
    for (int32_t i = 0; i < kernel->n_body; i++) {
        int op = kernel->body[i].op;
        ls_kclass kind = ls_kops[op].kind;
        if ((kind == LS_KC_GROUP && op != LS_K_BARRIER) || kind == LS_KC_MATRIX || op == LS_K_SUBGROUP_ID ||
            op == LS_K_LANE_ID || op == LS_K_SUBGROUP_SIZE) {
            return true;
        }
    }
    return false;
}

static ls_status pipeline_make(vk_driver *d, const ls_gpu_code *code, vk_pipeline *p, ls_error *err) {
    const VkShaderModuleCreateInfo shader = {
        .sType = VK_S_SHADER_MODULE_CREATE_INFO, .codeSize = code->size, .pCode = code->data};
    VkRequiredSubgroupSizeInfo size = {.sType = VK_S_REQUIRED_SUBGROUP_SIZE_INFO,
                                       .requiredSubgroupSize = d->subgroup};
    VkShaderModule module;
    bool pinned = d->subgroup && uses_subgroups(code->kernel);
    bool full = pinned && d->full_subgroups && code->kernel->workgroup[0] % (int32_t)d->subgroup == 0;
    LS_TRY(err, layout_make(d, p->n_bindings, err));
    LS_VK_TRY(d, err, vkCreateShaderModule, d->dev, &shader, NULL, &module);
    VkPipelineCreationFeedback whole = {0}, stage = {0};
    const VkPipelineCreationFeedbackCreateInfo feedback = {.sType = VK_S_CREATION_FEEDBACK,
                                                           .pPipelineCreationFeedback = &whole,
                                                           .pipelineStageCreationFeedbackCount = 1,
                                                           .pPipelineStageCreationFeedbacks = &stage};
    const VkPipelineRobustnessCreateInfo unchecked = {.sType = VK_S_PIPELINE_ROBUSTNESS_CREATE_INFO,
                                                      .pNext = d->api_version >= VK_VERSION(1, 3) ? &feedback : NULL,
                                                      .storageBuffers = VK_ROBUSTNESS_DISABLED};
    const void *next = d->pipeline_robustness ? &unchecked : unchecked.pNext;
    const VkComputePipelineCreateInfo info = {.sType = VK_S_COMPUTE_PIPELINE_CREATE_INFO,
                                              .pNext = next,
                                              .stage = {.sType = VK_S_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                        .pNext = pinned ? &size : NULL,
                                                        .flags = full ? VK_STAGE_FULL_SUBGROUPS : 0,
                                                        .stage = VK_STAGE_COMPUTE,
                                                        .module = module,
                                                        .pName = "main"},
                                              .layout = d->layouts[p->n_bindings],
                                              .basePipelineIndex = -1};
    VkResult made = d->vkCreateComputePipelines(d->dev, d->cache, 1, &info, NULL, &p->pipeline);
    d->vkDestroyShaderModule(d->dev, module, NULL);
    if (code->out_cached) { /* both bits: the driver tells, and found it in our cache */
        *code->out_cached = d->cache_loaded && (whole.flags & VK_CREATION_FEEDBACK_HIT) == VK_CREATION_FEEDBACK_HIT;
    }
    return ls_vk_check(d, made, "vkCreateComputePipelines", err);
}

ls_status ls_vk_build(void *driver, const ls_gpu_code *code, void **out_pipeline, ls_error *err) {
    vk_driver *d = driver;
    LS_TRY(err, ls_vk_alive(d, err));
    if (code->kernel->n_globals > d->max_bindings || code->n_words > d->max_words) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "kernel %s has %d buffers and %d words of parameters, %s takes %d and %d", code->name,
                       code->kernel->n_globals, code->n_words, d->device->id, d->max_bindings, d->max_words);
    }
    vk_pipeline *p = ls_alloc_zeroed(d->heap, sizeof *p);
    if (!p) {
        return LS_FAIL_MEMORY(err, "a pipeline");
    }
    p->n_bindings = code->kernel->n_globals;
    ls_status status = pipeline_make(d, code, p, err);
    if (status != LS_OK) {
        ls_free(d->heap, p);
        return LS_FAIL(err, status, "kernel %s", code->name);
    }
    *out_pipeline = p;
    return LS_OK;
}

void ls_vk_drop(void *driver, void *pipeline) {
    vk_driver *d = driver;
    vk_pipeline *p = pipeline;
    if (p) {
        ls_vk_wait_out(d, p->last_use);
        d->vkDestroyPipeline(d->dev, p->pipeline, NULL);
        ls_free(d->heap, p);
    }
}

/* ---- dispatches ---- */

static ls_status bind(vk_driver *d, vk_batch *batch, const vk_pipeline *p, const ls_gpu_dispatch *dispatch,
                      ls_error *err) {
    VkDescriptorBufferInfo buffers[LS_VK_BINDINGS];
    VkWriteDescriptorSet writes[LS_VK_BINDINGS];
    VkDescriptorSet set = 0;
    uint32_t n = (uint32_t)p->n_bindings;
    VkPipelineLayout layout = d->layouts[n];
    if (n && !d->push_descriptors) {
        const VkDescriptorSetAllocateInfo info = {.sType = VK_S_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                  .descriptorPool = batch->sets,
                                                  .descriptorSetCount = 1,
                                                  .pSetLayouts = &d->set_layouts[n]};
        LS_VK_TRY(d, err, vkAllocateDescriptorSets, d->dev, &info, &set);
    }
    for (uint32_t i = 0; i < n; i++) {
        const ls_gpu_range *r = &dispatch->bindings[i];
        vk_block *block = r->block;
        size_t words = (r->size + 3) /
                       4; /* blocks are whole words, and a kernel may take narrow elements a word at a time */
        block->last_use = batch->number;
        buffers[i] = (VkDescriptorBufferInfo){block->buffer, r->offset, words ? words * 4 : 4};
        writes[i] = (VkWriteDescriptorSet){.sType = VK_S_WRITE_DESCRIPTOR_SET,
                                           .dstSet = set,
                                           .dstBinding = i,
                                           .descriptorCount = 1,
                                           .descriptorType = VK_DESCRIPTOR_STORAGE_BUFFER,
                                           .pBufferInfo = &buffers[i]};
    }
    if (n && d->push_descriptors) {
        d->push_descriptors(batch->commands, VK_BIND_COMPUTE, layout, 0, n, writes);
    } else if (n) {
        d->vkUpdateDescriptorSets(d->dev, n, writes, 0, NULL);
        d->vkCmdBindDescriptorSets(batch->commands, VK_BIND_COMPUTE, layout, 0, 1, &set, 0, NULL);
    }
    return LS_OK;
}

ls_status ls_vk_dispatch(void *driver, const ls_gpu_dispatch *dispatch, ls_error *err) {
    vk_driver *d = driver;
    vk_pipeline *p = dispatch->pipeline;
    vk_batch *batch;
    LS_TRY(err, ls_vk_begin(d, &batch, err));
    d->vkCmdBindPipeline(batch->commands, VK_BIND_COMPUTE, p->pipeline);
    LS_TRY(err, bind(d, batch, p, dispatch, err));
    uint32_t words[LS_VK_WORDS];
    for (int32_t i = 0; i < dispatch->n_words; i++) {
        words[i] = dispatch->words[i];
    }
    words[dispatch->n_words] = 0; /* the renderer's run-time zero */
    d->vkCmdPushConstants(batch->commands, d->layouts[p->n_bindings], VK_STAGE_COMPUTE, 0,
                          (uint32_t)(dispatch->n_words + 1) * 4, words);
    if (dispatch->timer) {
        LS_TRY(err, ls_vk_timer_begin(d, batch, dispatch->timer - 1, err));
    }
    d->vkCmdDispatch(batch->commands, dispatch->groups[0], dispatch->groups[1], dispatch->groups[2]);
    if (dispatch->timer) {
        ls_vk_timer_end(d, batch, dispatch->timer - 1);
    }
    p->last_use = batch->number;
    return ls_vk_end(d, err);
}
