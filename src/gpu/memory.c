/* Device memory: small buffers share blocks, large ones have a block of their own, and a block that is released is kept for
 * the next buffer of about its size.
 *
 * Invariants: gaps of a block are ordered, disjoint and never adjacent; every place is a multiple of UNIT. A released place
 * may be given out at once: the queue is in order, so what its next owner records comes after what its last owner did. */
#include "gpu/internal.h"

enum { UNIT = 256 };

static size_t round_up(size_t size) {
    size = size ? size : 1;
    return size > SIZE_MAX - UNIT ? SIZE_MAX : (size + UNIT - 1) / UNIT * UNIT;
}

static void block_delete(ls_gpu *gpu, ls_gpu_block *block) {
    gpu->api->block_free(gpu->driver, block->block);
    ls_array_free(gpu->heap, &block->gaps);
    ls_free(gpu->heap, block);
}

static void drop_idle(ls_gpu *gpu) {
    for (ls_gpu_block **at = &gpu->blocks; *at;) {
        ls_gpu_block *block = *at;
        if (block->idle) {
            *at = block->next;
            block_delete(gpu, block);
        } else {
            at = &block->next;
        }
    }
    gpu->idle_bytes = 0;
}

/* A full device gets back what is kept idle before the answer is no. */
static ls_status block_new(ls_gpu *gpu, size_t size, bool shared, ls_gpu_block **out_block, ls_error *err) {
    ls_gpu_block *block = ls_alloc_zeroed(gpu->heap, sizeof *block);
    if (!block || (shared && !ls_array_push(gpu->heap, &block->gaps, ((ls_gpu_span){0, size})))) {
        ls_free(gpu->heap, block);
        return LS_FAIL_MEMORY(err, "a block of device memory");
    }
    block->size = size;
    block->shared = shared;
    ls_error first = {0};
    ls_status status = gpu->api->block_new(gpu->driver, size, &block->block, &first);
    if (status == LS_ERR_MEMORY && gpu->idle_bytes) {
        drop_idle(gpu);
        status = gpu->api->block_new(gpu->driver, size, &block->block, err);
    } else if (status != LS_OK && err) {
        *err = first;
    }
    if (status != LS_OK) {
        ls_array_free(gpu->heap, &block->gaps);
        ls_free(gpu->heap, block);
        return LS_FORWARD(err, status);
    }
    block->next = gpu->blocks;
    gpu->blocks = block;
    *out_block = block;
    return LS_OK;
}

static bool take_gap(ls_gpu_block *block, size_t size, size_t *out_offset) {
    size_t best = block->gaps.len;
    for (size_t i = 0; i < block->gaps.len; i++) {
        if (block->gaps.data[i].size >= size &&
            (best == block->gaps.len || block->gaps.data[i].size < block->gaps.data[best].size)) {
            best = i;
        }
    }
    if (best == block->gaps.len) {
        return false;
    }
    ls_gpu_span *gap = &block->gaps.data[best];
    *out_offset = gap->offset;
    gap->offset += size;
    gap->size -= size;
    if (gap->size == 0) {
        block->gaps.len--;
        for (size_t i = best; i < block->gaps.len; i++) {
            block->gaps.data[i] = block->gaps.data[i + 1];
        }
    }
    return true;
}

static ls_status shared_new(ls_gpu *gpu, size_t size, ls_gpu_memory *out, ls_error *err) {
    *out = (ls_gpu_memory){.size = size};
    for (out->block = gpu->blocks; out->block; out->block = out->block->next) {
        if (out->block->shared && take_gap(out->block, size, &out->offset)) {
            return LS_OK;
        }
    }
    LS_TRY(err, block_new(gpu, gpu->limits.block, true, &out->block, err));
    (void)take_gap(out->block, size, &out->offset);
    return LS_OK;
}

void ls_gpu_discard(ls_gpu *gpu, ls_gpu_memory memory) {
    if (gpu->api->discard && !memory.block->shared) {
        gpu->api->discard(gpu->driver, memory.block->block);
    }
}

ls_status ls_gpu_memory_new(ls_gpu *gpu, size_t size, ls_gpu_memory *out, ls_error *err) {
    size = round_up(size);
    if (size <= gpu->limits.block / 8) {
        return shared_new(gpu, size, out, err);
    }
    ls_gpu_block *best = NULL;
    for (ls_gpu_block *b = gpu->blocks; b; b = b->next) {
        if (b->idle && b->size >= size && b->size <= size + size / 4 && (!best || b->size < best->size)) {
            best = b;
        }
    }
    if (best) {
        best->idle = false;
        gpu->idle_bytes -= best->size;
        ls_gpu_discard(gpu, (ls_gpu_memory){best, 0, size});
    } else {
        LS_TRY(err, block_new(gpu, size, false, &best, err));
    }
    *out = (ls_gpu_memory){best, 0, size};
    return LS_OK;
}

/* Puts a place back among the gaps. Out of memory only loses the place until its block goes. */
static void give_gap(ls_gpu *gpu, ls_gpu_block *block, ls_gpu_span span) {
    if (!ls_array_reserve(gpu->heap, &block->gaps, 1)) {
        return;
    }
    size_t at = 0;
    while (at < block->gaps.len && block->gaps.data[at].offset < span.offset) {
        at++;
    }
    for (size_t i = block->gaps.len++; i > at; i--) {
        block->gaps.data[i] = block->gaps.data[i - 1];
    }
    block->gaps.data[at] = span;
    for (size_t i = at ? at - 1 : 0; i + 1 < block->gaps.len && i <= at;) {
        ls_gpu_span *a = &block->gaps.data[i], *b = a + 1;
        if (a->offset + a->size != b->offset) {
            i++;
            continue;
        }
        a->size += b->size;
        block->gaps.len--;
        for (size_t j = i + 1; j < block->gaps.len; j++) {
            block->gaps.data[j] = block->gaps.data[j + 1];
        }
        at = at > i ? at - 1 : at;
    }
}

void ls_gpu_memory_free(ls_gpu *gpu, ls_gpu_memory memory) {
    if (!memory.block) {
        return;
    }
    if (memory.block->shared) {
        give_gap(gpu, memory.block, (ls_gpu_span){memory.offset, memory.size});
    } else {
        memory.block->idle = true;
        gpu->idle_bytes += memory.block->size;
    }
}

void ls_gpu_memory_free_all(ls_gpu *gpu) {
    while (gpu->blocks) {
        ls_gpu_block *block = gpu->blocks;
        gpu->blocks = block->next;
        block_delete(gpu, block);
    }
    gpu->idle_bytes = 0;
}
