/* The heap and its arenas. Each block is preceded by one LS_ALIGN-sized header that holds its size, because the
 * caller's free wants it back. Invariant: heap->used is the sum of the sizes of live blocks, headers included. */
#include "base/alloc.h"
#include "base/pages.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct block_header {
    size_t size;  /* what the caller may use */
    size_t total; /* what the allocator gave */
} block_header;

enum { KEPT_MOST = 32 << 20 };

/* A block of that size (0: any) from the kept ones. */
static void *take_kept(ls_heap *heap, size_t total) {
    for (size_t i = 0; i < sizeof heap->kept / sizeof *heap->kept; i++) {
        block_header *block = atomic_exchange(&heap->kept[i], NULL);
        if (block && total && block->total != total) {
            block_header *other = atomic_exchange(&heap->kept[i], (void *)block);
            block = NULL;
            if (other) {
                ls_pages_unmap(other, other->total);
            }
        }
        if (block) {
            return block;
        }
    }
    return NULL;
}

void ls_heap_end(ls_heap *heap) {
    for (block_header *block; (block = take_kept(heap, 0));) {
        ls_pages_unmap(block, block->total);
    }
}

static void *default_alloc(void *user, size_t size, size_t align) {
    if (size < ls_pages_from) {
        return ls_pages_placed(aligned_alloc(align, size), size);
    }
    void *block = take_kept(user, size);
    block = block ? block : ls_pages_map(size);
    if (!block) {
        ls_heap_end(user);
        block = ls_pages_map(size);
    }
    return block;
}

static void default_free(void *user, void *ptr, size_t size, size_t align) {
    (void)align;
    if (size < ls_pages_from) {
        free(ptr);
        return;
    }
    ls_heap *heap = user;
    for (size_t i = 0; ptr && heap->keeps && size <= KEPT_MOST && i < sizeof heap->kept / sizeof *heap->kept; i++) {
        ptr = atomic_exchange(&heap->kept[i], ptr); /* the oldest goes */
    }
    if (ptr) {
        ls_pages_unmap(ptr, ((block_header *)ptr)->total);
    }
}

bool ls_size_mul(size_t a, uint64_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

bool ls_size_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

void ls_heap_init(ls_heap *heap, const ls_allocator *allocator, size_t limit) {
    heap->allocator = allocator ? *allocator : (ls_allocator){default_alloc, default_free, heap};
    heap->limit = limit;
    atomic_init(&heap->used, 0);
    atomic_init(&heap->peak, 0);
    atomic_init(&heap->fail_after, -1);
    heap->keeps = false;
    for (size_t i = 0; i < sizeof heap->kept / sizeof *heap->kept; i++) {
        atomic_init(&heap->kept[i], NULL);
    }
}

/* True once, when the count of allocations to let through is used up. */
static bool told_to_fail(ls_heap *heap) {
    long left = atomic_load_explicit(&heap->fail_after, memory_order_relaxed);
    while (left >= 0) {
        if (atomic_compare_exchange_weak(&heap->fail_after, &left, left - 1)) {
            return left == 0;
        }
    }
    return false;
}

/* Books the bytes first, so that threads together never pass the limit. */
static bool book(ls_heap *heap, size_t total) {
    size_t used = atomic_load_explicit(&heap->used, memory_order_relaxed), next;
    do {
        if (!ls_size_add(used, total, &next) || (heap->limit && next > heap->limit)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&heap->used, &used, next));
    size_t peak = atomic_load_explicit(&heap->peak, memory_order_relaxed);
    while (peak < next && !atomic_compare_exchange_weak(&heap->peak, &peak, next)) {
    }
    return true;
}

void *ls_alloc(ls_heap *heap, size_t size) {
    size_t total;
    if (!ls_size_add(size, 2 * LS_ALIGN - 1, &total) || told_to_fail(heap)) {
        return NULL;
    }
    total &= ~(size_t)(LS_ALIGN - 1);
    if (!book(heap, total)) {
        return NULL;
    }
    char *base = heap->allocator.alloc(heap->allocator.user, total, LS_ALIGN);
    if (!base) {
        atomic_fetch_sub(&heap->used, total);
        return NULL;
    }
    *(block_header *)(void *)base = (block_header){size, total};
    return base + LS_ALIGN;
}

void *ls_alloc_zeroed(ls_heap *heap, size_t size) {
    void *ptr = ls_alloc(heap, size);
    if (ptr) {
        memset(ptr, 0, size);
    }
    return ptr;
}

static block_header *header_of(void *ptr) {
    return (block_header *)(void *)((char *)ptr - LS_ALIGN);
}

void *ls_realloc(ls_heap *heap, void *ptr, size_t size) {
    if (!ptr) {
        return ls_alloc(heap, size);
    }
    size_t old = header_of(ptr)->size;
    void *grown = ls_alloc(heap, size);
    if (grown) {
        memcpy(grown, ptr, old < size ? old : size);
        ls_free(heap, ptr);
    }
    return grown;
}

void ls_free(ls_heap *heap, void *ptr) {
    if (ptr) {
        block_header *header = header_of(ptr);
        size_t total = header->total;
        heap->allocator.free(heap->allocator.user, header, total, LS_ALIGN);
        atomic_fetch_sub(&heap->used, total);
    }
}

char *ls_strdup(ls_heap *heap, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = ls_alloc(heap, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- arenas ---- */

struct ls_arena_chunk {
    ls_arena_chunk *next;
    size_t used, size; /* bytes after this header */
    size_t pad;        /* keeps what follows aligned to 16 */
};

enum { CHUNK_MIN = 4096, CHUNK_MAX = 1 << 18 };

void ls_arena_init(ls_arena *arena, ls_heap *heap) {
    arena->heap = heap;
    arena->chunks = NULL;
}

static ls_arena_chunk *chunk_add(ls_arena *arena, size_t size) {
    size_t want = arena->chunks ? 2 * arena->chunks->size : CHUNK_MIN, total;
    want = want > CHUNK_MAX ? CHUNK_MAX : want;
    want = want < size ? size : want;
    if (!ls_size_add(want, sizeof(ls_arena_chunk), &total)) {
        return NULL;
    }
    ls_arena_chunk *chunk = ls_alloc(arena->heap, total);
    if (chunk) {
        *chunk = (ls_arena_chunk){arena->chunks, 0, want, 0};
        arena->chunks = chunk;
    }
    return chunk;
}

void *ls_arena_alloc_unset(ls_arena *arena, size_t size) {
    size_t rounded;
    if (!ls_size_add(size, 15, &rounded)) {
        return NULL;
    }
    rounded = rounded < 16 ? 16 : rounded & ~(size_t)15;
    ls_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < rounded) {
        chunk = chunk_add(arena, rounded);
        if (!chunk) {
            return NULL;
        }
    }
    char *ptr = (char *)(chunk + 1) + chunk->used;
    chunk->used += rounded;
    return ptr;
}

void *ls_arena_alloc(ls_arena *arena, size_t size) {
    void *ptr = ls_arena_alloc_unset(arena, size);
    return ptr ? memset(ptr, 0, size) : NULL;
}

void *ls_arena_array(ls_arena *arena, size_t n, size_t size) {
    size_t bytes;
    return ls_size_mul(n, size, &bytes) ? ls_arena_alloc(arena, bytes) : NULL;
}

void *ls_arena_copy(ls_arena *arena, const void *src, size_t size) {
    void *ptr = ls_arena_alloc_unset(arena, size);
    if (ptr && size) {
        memcpy(ptr, src, size);
    }
    return ptr;
}

char *ls_arena_printf(ls_arena *arena, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = len < 0 ? NULL : ls_arena_alloc_unset(arena, (size_t)len + 1);
    if (text) {
        vsnprintf(text, (size_t)len + 1, fmt, again);
    }
    va_end(again);
    return text;
}

void ls_arena_free(ls_arena *arena) {
    while (arena->chunks) {
        ls_arena_chunk *next = arena->chunks->next;
        ls_free(arena->heap, arena->chunks);
        arena->chunks = next;
    }
}
