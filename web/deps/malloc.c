/* The allocator of pages' modules: one thread, one memory that grows. Free blocks lie in lists by size, four to each
 * power of 2; a request takes the first of its list that fits (of the first few), else any of the next list that has one.
 * Invariants: blocks follow each other without gaps, from the first to one of size 0 at the end; two free blocks are
 * never neighbours; what a caller gets is aligned to 16. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef MALLOC_GROW /* a test gives its own: so many pages more; where the first of them begins */
#define MALLOC_PAGE 65536
static size_t grow(size_t pages) {
    size_t had = __builtin_wasm_memory_grow(0, pages);
    return had == SIZE_MAX ? 0 : had * MALLOC_PAGE;
}
extern char __heap_base;
#define MALLOC_GROW grow
#define MALLOC_FIRST ((size_t)&__heap_base)
#define MALLOC_END ((size_t)__builtin_wasm_memory_size(0) * MALLOC_PAGE)
#endif

typedef struct block {
    size_t before;                 /* the size of the block before this one, 0 for the first */
    size_t size;                   /* its own, this head counted; odd: in use */
    struct block *next, *previous; /* while it is free */
} block;

enum {
    HEAD = offsetof(block, next),
    ALIGN = 16,
    LISTS = 128,
    LEAST = sizeof(block) < 16 ? 16 : sizeof(block),
    TRIES = 16
};
static block *lists[LISTS], *end;
static uint32_t filled[LISTS / 32]; /* a bit for each list that is not empty */

static block *at(block *b, size_t offset) {
    return (block *)((char *)b + offset);
}

static block *before(const block *b) {
    return (block *)((uintptr_t)b - b->before);
}

static int list_of(size_t size) {
    int power = 63 - __builtin_clzll(size);
    return (power - 4) * 4 + (int)(size >> (power - 2) & 3);
}

static void set_size(block *b, size_t size, int used) {
    b->size = size | (size_t)used;
    at(b, size)->before = size;
}

static void take_out(block *b) {
    int list = list_of(b->size);
    if (b->next) {
        b->next->previous = b->previous;
    }
    if (b->previous) {
        b->previous->next = b->next;
    } else {
        lists[list] = b->next;
        filled[list / 32] &= ~((uint32_t)!b->next << list % 32);
    }
}

/* Makes [b, b + size) free, one with its free neighbours. */
static void release(block *b, size_t size) {
    block *after = at(b, size);
    if (!(after->size & 1)) {
        take_out(after);
        size += after->size;
    }
    if (b->before && !(before(b)->size & 1)) {
        b = before(b);
        take_out(b);
        size += b->size;
    }
    int list = list_of(size);
    set_size(b, size, 0);
    b->previous = NULL;
    b->next = lists[list];
    if (b->next) {
        b->next->previous = b;
    }
    lists[list] = b;
    filled[list / 32] |= UINT32_C(1) << list % 32;
}

/* More memory: the end moves up, what lies before it becomes free. */
static int extend(size_t size) {
    if (size > SIZE_MAX / 2 || !MALLOC_GROW((size + 2 * ALIGN + MALLOC_PAGE - 1) / MALLOC_PAGE)) {
        return 0;
    }
    if (!end) { /* with what the module has from its start */
        end = (block *)((MALLOC_FIRST + HEAD + ALIGN - 1) / ALIGN * ALIGN - HEAD);
        end->before = 0;
    }
    block *b = end;
    size_t room = (MALLOC_END - (size_t)b - HEAD) / ALIGN * ALIGN;
    end = at(b, room);
    end->size = 1;
    release(b, room);
    return 1;
}

static block *find(size_t size) {
    int list = list_of(size), tries = 0;
    for (block *b = lists[list]; b && tries < TRIES; b = b->next, tries++) {
        if (b->size >= size) {
            return b;
        }
    }
    for (list++; list < LISTS; list = (list / 32 + 1) * 32) {
        uint32_t left = filled[list / 32] >> list % 32;
        if (left) {
            return lists[list + __builtin_ctz(left)];
        }
    }
    return NULL;
}

void *aligned_alloc(size_t align, size_t size) {
    if (size > SIZE_MAX / 4 || align > SIZE_MAX / 4) {
        return NULL;
    }
    size = (size + HEAD + ALIGN - 1) / ALIGN * ALIGN;
    size = size < LEAST ? LEAST : size;
    size_t need = align > ALIGN ? size + align + LEAST : size;
    block *b = find(need);
    while (!b) {
        if (!extend(need)) {
            return NULL;
        }
        b = find(need);
    }
    take_out(b);
    size_t have = b->size, front = 0;
    if (align > ALIGN) {
        size_t data = (size_t)b + HEAD;
        front = (align - data % align) % align;
        while (front && front < LEAST) {
            front += align;
        }
    }
    if (front) {
        block *whole = b;
        b = at(b, front);
        set_size(b, have - front, 1);
        b->before = front;
        release(whole, front);
        have -= front;
    }
    set_size(b, have, 1);
    if (have - size >= LEAST) {
        set_size(b, size, 1);
        release(at(b, size), have - size);
    }
    return (char *)b + HEAD;
}

void *malloc(size_t size) {
    return aligned_alloc(ALIGN, size);
}

void free(void *data) {
    if (data) {
        block *b = (block *)((char *)data - HEAD);
        release(b, b->size - 1);
    }
}

void *calloc(size_t n, size_t each) {
    size_t size;
    void *data = __builtin_mul_overflow(n, each, &size) ? NULL : malloc(size);
    return data ? __builtin_memset(data, 0, size) : NULL;
}

void *realloc(void *data, size_t size) {
    size_t had = data ? ((block *)((char *)data - HEAD))->size - 1 - HEAD : 0;
    if (data && size <= had) {
        return data;
    }
    void *moved = malloc(size);
    if (moved && data) {
        __builtin_memcpy(moved, data, had);
        free(data);
    }
    return moved;
}
