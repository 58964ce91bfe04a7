/* The heap of a context: the caller's allocator, accounting, a limit, and arenas on top.
 *
 * An ls_heap is shared by all threads of a context (its counters are atomic). Blocks are aligned to 64 bytes.
 */
#ifndef LOCKSTEP_BASE_ALLOC_H
#define LOCKSTEP_BASE_ALLOC_H

#include <lockstep/context.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define LS_ALIGN 64

typedef struct ls_heap {
    ls_allocator allocator;
    size_t limit;               /* bytes; 0 is none */
    _Atomic size_t used, peak;  /* bytes handed out now, and the most ever */
    _Atomic long fail_after;    /* tests: allocations until one fails; negative is never */
    bool keeps;                 /* large blocks that were freed last, for the next ones of their sizes */
    _Atomic(void *) kept[2];
} ls_heap;

/* `allocator` NULL takes the C library's, and for large blocks mappings of their own, in large pages: from a heap that was used they would
 * lie on small ones, wherever those are. */
void ls_heap_init(ls_heap *heap, const ls_allocator *allocator, size_t limit);
void ls_heap_end(ls_heap *heap); /* frees what it keeps; for heaps that do */

/* NULL when out of memory, over the limit, or told to fail. A size of 0 gives a valid block. */
void *ls_alloc(ls_heap *heap, size_t size);
void *ls_alloc_zeroed(ls_heap *heap, size_t size);
/* Grows or shrinks, keeping the first min(old, new) bytes; on failure NULL, and `ptr` stays valid. */
void *ls_realloc(ls_heap *heap, void *ptr, size_t size);
void ls_free(ls_heap *heap, void *ptr); /* NULL is allowed */
char *ls_strdup(ls_heap *heap, const char *text);
/* The heap of a context, for the layers that know contexts by their public headers alone. Defined by the engine. */
ls_heap *ls_context_heap(ls_context *context);

/* a*b and a+b without overflow: false when it overflows. */
bool ls_size_mul(size_t a, uint64_t b, size_t *out);
bool ls_size_add(size_t a, size_t b, size_t *out);

/* An arena gives blocks that live until it is reset or freed. One thread at a time. */
typedef struct ls_arena_chunk ls_arena_chunk;
typedef struct ls_arena {
    ls_heap *heap;
    ls_arena_chunk *chunks;
} ls_arena;

void ls_arena_init(ls_arena *arena, ls_heap *heap);
void *ls_arena_alloc(ls_arena *arena, size_t size);        /* aligned to 16, zeroed; NULL when out of memory */
void *ls_arena_alloc_unset(ls_arena *arena, size_t size);  /* the same, but for the zeros */
void *ls_arena_array(ls_arena *arena, size_t n, size_t size); /* n blocks of `size` together; NULL when that overflows */
void *ls_arena_copy(ls_arena *arena, const void *src, size_t size);
char *ls_arena_printf(ls_arena *arena, const char *fmt, ...) LS_PRINTF(2, 3);
void ls_arena_free(ls_arena *arena);                       /* releases everything; the arena can be used again */

#define LS_ARENA_NEW(arena, type) ((type *)ls_arena_alloc((arena), sizeof(type)))
#define LS_ARENA_ARRAY(arena, type, n) ((type *)ls_arena_array((arena), (size_t)(n), sizeof(type)))

#endif
