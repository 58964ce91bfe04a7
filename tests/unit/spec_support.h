/* A graph without a device, and its plans and specs. Each test program that includes this is one thread. */
#ifndef LOCKSTEP_TESTS_SPEC_SUPPORT_H
#define LOCKSTEP_TESTS_SPEC_SUPPORT_H

#include "graph/graph.h"
#include "plan/plan.h"
#include "spec/spec.h"

typedef struct bench {
    ls_heap heap;
    ls_arena arena;
    ls_graph graph;
    ls_session *s; /* the graph is all that builders see of a session */
    ls_error err;
} bench;

static void bench_open(bench *b) {
    memset(b, 0, sizeof *b);
    ls_heap_init(&b->heap, NULL, 0);
    ls_arena_init(&b->arena, &b->heap);
    b->s = (ls_session *)(void *)&b->graph;
    assert_int_equal(ls_graph_init(&b->graph, &b->heap, b->s), LS_OK);
}

static void bench_close(bench *b) {
    ls_graph_free(&b->graph);
    ls_arena_free(&b->arena);
    assert_int_equal(b->heap.used, 0);
}

static inline void bench_plan(bench *b, ls_tensor *const *roots, int n_roots, int fusion, ls_plan *out_plan) {
    for (int i = 0; i < n_roots; i++) {
        if (!roots[i]) {
            fail_msg("root %d: %s", i, b->graph.error.message);
        }
    }
    if (ls_plan_build(&b->arena, roots, n_roots, fusion, out_plan, &b->err) != LS_OK) {
        fail_msg("%s", b->err.message);
    }
}

static inline void bench_spec(bench *b, const ls_group *group, ls_spec *out_spec) {
    if (ls_spec_build(&b->arena, group, out_spec, &b->err) != LS_OK ||
        ls_spec_verify(out_spec, &b->err) != LS_OK) {
        fail_msg("%s", b->err.message);
    }
}

#endif
