/* Every f32 function of one argument over all 2^32 inputs: the stated bounds of docs/elementary.md hold
 * everywhere, and odd and even functions are so bit for bit. LOCKSTEP_SWEEP=name sweeps one function only.
 * Takes about an hour of one core; all cores are used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <unistd.h>

#include "unit/math_cases.h"

enum { MAX_THREADS = 64 };

typedef struct part {
    const math_case *c;
    uint64_t first, last; /* bit patterns, or of those without sign for odd and even functions */
    double worst;
    float where;
    uint64_t unlike, done; /* inputs where f(-x) is not as it must be; inputs tried */
} part;

static void *sweep(void *argument) {
    part *p = argument;
    const math_case *c = p->c;
    for (uint64_t i = p->first; i < p->last; i++, p->done++) {
        float x = float_of((uint32_t)i), y = c->f32(x);
        double exact = c->reference(x);
        if (c->odd && !isnan(y)) {
            uint32_t mirrored = bits_of(c->f32(-x));
            p->unlike += mirrored != (c->odd == 1 ? bits_of(y) ^ 0x80000000u : bits_of(y));
        }
        if (bits_of(y) == bits_of((float)exact) && (c->bound32 >= 0.5 || (double)y == exact)) {
            continue; /* within half an ulp */
        }
        double e = error32(y, exact);
        if (!(e <= p->worst)) {
            p->worst = e;
            p->where = x;
        }
    }
    return NULL;
}

static void sweep_function(void **state) {
    const math_case *c = *state;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int n = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (int)cores;
    pthread_t threads[MAX_THREADS];
    part parts[MAX_THREADS];
    uint64_t count = c->odd ? 1ull << 31 : 1ull << 32;
    for (int t = 0; t < n; t++) {
        parts[t] = (part){.c = c, .first = count * t / n, .last = count * (t + 1) / n};
        assert_int_equal(pthread_create(&threads[t], NULL, sweep, &parts[t]), 0);
    }
    part all = {0};
    for (int t = 0; t < n; t++) {
        pthread_join(threads[t], NULL);
        all.unlike += parts[t].unlike;
        all.done += parts[t].done;
        if (!(parts[t].worst <= all.worst)) {
            all.worst = parts[t].worst;
            all.where = parts[t].where;
        }
    }
    print_message("%-6s f32 %.6f of %.4f ulp at %a, %llu inputs\n", c->name,
                  all.worst < 0.5 ? c->bound32 < 0.5 ? 0 : 0.5 : all.worst, c->bound32, all.where,
                  (unsigned long long)all.done * (c->odd ? 2 : 1));
    assert_true(all.done == count);
    assert_true(all.unlike == 0);
    assert_true(all.worst <= c->bound32);
}

int main(void) {
    struct CMUnitTest tests[MATH_CASES];
    size_t n = 0;
    const char *only = getenv("LOCKSTEP_SWEEP");
    for (int k = 0; k < MATH_CASES; k++) {
        if (!only || !strcmp(only, math_cases[k].name)) {
            tests[n++] = (struct CMUnitTest){.name = math_cases[k].name,
                                             .test_func = sweep_function,
                                             .initial_state = (void *)&math_cases[k]};
        }
    }
    if (n == 0) {
        fprintf(stderr, "LOCKSTEP_SWEEP=%s names no function\n", only);
        return 2;
    }
    return _cmocka_run_group_tests("sweep", tests, n, NULL, NULL);
}
