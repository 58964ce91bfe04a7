/* A session of graph layer alone: no devices, nothing computes. And checks that graph tests share. */
#ifndef LOCKSTEP_TESTS_GRAPH_SESSION_H
#define LOCKSTEP_TESTS_GRAPH_SESSION_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "device/device.h"
#include "graph/build.h"
#include <lockstep/grad.h>

struct ls_session { /* the engine's begins so too */
    ls_graph graph;
};

typedef struct fixture {
    ls_heap heap;
    ls_session session;
    ls_device cpu, other;
} fixture;

static inline void fixture_open(fixture *f) {
    memset(f, 0, sizeof *f);
    ls_heap_init(&f->heap, NULL, 0);
    assert_int_equal(ls_graph_init(&f->session.graph, &f->heap, &f->session), LS_OK);
    strcpy(f->cpu.id, "cpu");
    strcpy(f->other.id, "other:1");
    f->session.graph.device = &f->cpu;
}

/* Everything must have come back. */
static inline void fixture_close(fixture *f) {
    ls_graph_free(&f->session.graph);
    assert_int_equal(f->heap.used, 0);
}

static inline void *session_of(fixture *f) {
    return &f->session;
}

static inline size_t alive(const fixture *f) {
    return f->session.graph.nodes.len;
}

static inline ls_tensor *input(fixture *f, ls_dtype dtype, ls_shape shape) {
    ls_tensor *x = ls_input(&f->session, "x", dtype, shape);
    assert_non_null(x);
    return x;
}

static inline void assert_tensor(const fixture *f, const ls_tensor *x, const char *text) {
    if (!x) {
        fail_msg("expected %s, got NULL: %s", text, f->session.graph.error.message);
    }
    char buf[LS_TENSOR_TEXT];
    assert_string_equal(ls_tensor_text(x, buf), text);
}

/* x must be NULL, with an error of a code whose message holds every text; NULL ends them. Clears the
 * error. */
static inline void assert_failed(fixture *f, const void *x, ls_status code, ...) {
    ls_error *err = &f->session.graph.error;
    va_list texts;
    assert_null(x);
    assert_string_equal(ls_status_name(err->code), ls_status_name(code));
    va_start(texts, code);
    for (const char *t; (t = va_arg(texts, const char *));) {
        if (!strstr(err->message, t)) {
            fail_msg("the message \"%s\" lacks \"%s\"", err->message, t);
        }
    }
    va_end(texts);
    ls_error_clear(err);
}

/* Runs `build` with every allocation failing in turn, until it passes; each failure must be one of memory
 * and leak nothing. */
static inline void fail_each_allocation(void (*build)(fixture *f)) {
    for (long n = 0;; n++) {
        fixture f;
        fixture_open(&f);
        atomic_store(&f.heap.fail_after, n);
        build(&f);
        bool failed = atomic_load(&f.heap.fail_after) < 0;
        atomic_store(&f.heap.fail_after, -1);
        ls_status code = f.session.graph.error.code;
        if (failed) {
            assert_string_equal(ls_status_name(code), ls_status_name(LS_ERR_MEMORY));
        } else {
            assert_string_equal(f.session.graph.error.message, "");
            assert_true(n > 0);
        }
        fixture_close(&f);
        if (!failed) {
            return;
        }
    }
}

#endif
