/* What every KIR test starts from: a heap that must be empty at the end, an arena and an error record. Included
 * once a program, after cmocka. */
#ifndef LOCKSTEP_TESTS_KIR_FIXTURE_H
#define LOCKSTEP_TESTS_KIR_FIXTURE_H

#include "base/alloc.h"
#include "base/status.h"

static ls_heap heap;
static ls_arena arena;
static ls_error err;

static inline int setup(void **state) {
    (void)state;
    ls_heap_init(&heap, NULL, 0);
    ls_arena_init(&arena, &heap);
    ls_error_clear(&err);
    return 0;
}

static inline int teardown(void **state) {
    (void)state;
    ls_arena_free(&arena);
    return atomic_load(&heap.used) ? -1 : 0;
}

static inline void assert_ok(ls_status status) {
    if (status != LS_OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, LS_OK);
}

#endif
