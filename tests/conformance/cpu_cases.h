/* Runs a graph on `ref` and on `cpu` under every instruction set and several thread counts, and compares the
 * results bit for bit. */
#ifndef LOCKSTEP_TESTS_CONFORMANCE_CPU_CASES_H
#define LOCKSTEP_TESTS_CONFORMANCE_CPU_CASES_H

#include "support/world.h"
#include "backend/cpu/cpuid.h"
#include "base/half.h"
#include "base/os.h"
#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROOTS = 8 };

/* Builds the roots of a case; everything random comes from rng. The number of roots. */
typedef int (*case_fn)(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots);

static inline bool chance(ls_rng *rng, uint64_t in) {
    return ls_rng_below(rng, in) == 0;
}

/* Elements are many: bits of SplitMix64 (Steele, Lea, Flood, OOPSLA'14), from a state that comes from a stream. */
static inline uint64_t next_bits(uint64_t *state) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Nearly normal: the sum of four uniform numbers, of mean 0 and variance 1; as many significant bits as a double has. */
static inline double next_number(uint64_t *state) {
    const uint64_t bits = next_bits(state);
    const double sum = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff) + (double)(bits >> 48);
    return ((sum + (double)(*state >> 11) * 0x1p-53) * 0x1p-16 - 2) * 1.7320508075688772;
}

static inline void fill_normal(ls_rng *rng, float *data, int64_t n) {
    uint64_t state = ls_rng_u64(rng);
    for (int64_t i = 0; i < n; i++) {
        data[i] = (float)next_number(&state);
    }
}

/* Elements of a dtype: small numbers mostly, and now and then what is awkward in it. */
static inline void fill_data(ls_rng *rng, ls_dtype dtype, void *data, int64_t n) {
    static const double special[] = {
        0.0,     -0.0, 1.0,          -1.0,          0.5,   1e-40,        -1e-40, 3e38,  -3e38, 65504.0,
        65520.0, 1e-7, 2147483648.0, -2147483649.0, 1e300, 4294967296.0, 127.5,  255.5, -128.5};
    size_t size = ls_dtype_size(dtype);
    uint64_t state = ls_rng_u64(rng);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        uint64_t kind = next_bits(&state) >> 58;
        if (dtype >= LS_F16) {
            double d = next_number(&state) * (kind < 48 ? 1.0 : 100.0);
            if (kind == 63) {
                d = special[next_bits(&state) % (sizeof special / sizeof *special)];
            } else if (kind == 62) {
                uint64_t which = next_bits(&state) >> 61;
                d = which == 0   ? __builtin_nan("")
                    : which == 1 ? __builtin_inf()
                    : which == 2 ? -__builtin_inf()
                                 : d * 1e6;
            }
            float f = (float)d;
            if (dtype == LS_F64) {
                memcpy(&bits, &d, 8);
            } else if (dtype == LS_F32) {
                memcpy(&bits, &f, 4);
            } else {
                bits = dtype == LS_F16 ? ls_f64_to_f16(d) : ls_f64_to_bf16(d);
            }
            if (d != d && next_bits(&state) >> 63) { /* negative, as x86 makes them, or with a payload */
                bits |= next_bits(&state) >> 63 ? UINT64_C(1) << (8 * size - 1) : 1 + next_bits(&state) % 63;
            }
        } else {
            bits = kind < 32    ? (next_bits(&state) >> 60) - (dtype >= LS_I8 ? 8 : 0)
                   : kind < 60  ? next_bits(&state)
                   : kind == 60 ? 0
                   : kind == 61 ? ~UINT64_C(0)
                                : UINT64_C(1) << (8 * size - 1);
            bits = dtype == LS_BOOL ? bits & 1 : bits;
        }
        memcpy((char *)data + (size_t)i * size, &bits, size);
    }
}

static inline int64_t numel_of(ls_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    return n;
}

static inline ls_tensor *random_tensor(ls_session *s, ls_rng *rng, ls_dtype dtype, ls_shape shape) {
    int64_t n = numel_of(shape);
    void *data = calloc((size_t)n + 1, ls_dtype_size(dtype));
    fill_data(rng, dtype, data, n);
    ls_tensor *t = ls_tensor_from(s, dtype, shape, data);
    free(data);
    return t;
}

/* Finite and of like size, for sums that should not drown in NaN. */
static inline ls_tensor *tame_tensor(ls_session *s, ls_rng *rng, ls_dtype dtype, ls_shape shape) {
    ls_tensor *x = random_tensor(s, rng, dtype, shape);
    if (dtype < LS_F16) {
        return x;
    }
    ls_tensor *big = ls_full(s, dtype, LS_SHAPE(1), 1000.0), *small = ls_full(s, dtype, LS_SHAPE(1), 0.75);
    return ls_where(s, ls_lt(s, ls_abs(s, x), big), x, small);
}

typedef struct result {
    ls_status status; /* LS_OK or LS_ERR_RANGE */
    int n;
    size_t bytes[MAX_ROOTS];
    void *data[MAX_ROOTS];
} result;

static inline result run_case(world *w, case_fn build, uint64_t seed, const void *param, const char *what) {
    result r = {0};
    ls_rng rng = {seed, 0};
    ls_tensor *roots[MAX_ROOTS] = {NULL};
    world_ok(w, ls_scope_begin(w->session));
    r.n = build(w->session, &rng, param, roots);
    ls_status status = ls_realize(w->session, roots, r.n);
    if (status != LS_OK && status != LS_ERR_RANGE) {
        fail_msg("%s: %s: %s", w->id, what, ls_session_error(w->session)->message);
    }
    ls_session_clear_error(w->session);
    r.status = status;
    for (int i = 0; i < r.n; i++) {
        r.bytes[i] = ls_tensor_bytes(w->session, roots[i]);
        r.data[i] = malloc(r.bytes[i] + 1);
        if (status == LS_OK) {
            world_ok(w, ls_read(w->session, roots[i], r.data[i], r.bytes[i]));
        } else {
            memset(r.data[i], 0, r.bytes[i]);
        }
    }
    ls_scope_end(w->session);
    return r;
}

static inline void free_result(result *r) {
    for (int i = 0; i < r->n; i++) {
        free(r->data[i]);
    }
}

enum { MAX_WORLDS = 12 };
typedef struct worlds {
    world ref, cpu[MAX_WORLDS];
    char names[MAX_WORLDS][32];
    int n;
    long cases;
} worlds;

static inline void worlds_open(worlds *all) {
    static const int threads[] = {1, 2, 3, 8};
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    memset(all, 0, sizeof *all);
    all->ref = world_open("ref");
    for (int isa = 0; isa < LS_CPU_ISA_COUNT; isa++) {
        for (int t = 0; t < 4 && cpu.has[isa]; t++) {
            const char *name = ls_cpu_isa_name((ls_cpu_isa)isa);
            if ((isa + t) % 2 == 0 || t == 0) {
                continue; /* a covering half of the pairs, at least one thread count above one each */
            }
            snprintf(all->names[all->n], sizeof all->names[0], "%s/%d", name, threads[t]);
            all->cpu[all->n++] = world_open_with("cpu", threads[t], name);
        }
    }
    all->cpu[all->n] = world_open_with("cpu", 1, NULL);
    snprintf(all->names[all->n++], sizeof all->names[0], "best/1");
}

static inline void worlds_close(worlds *all) {
    world_close(&all->ref);
    for (int i = 0; i < all->n; i++) {
        world_close(&all->cpu[i]);
    }
    print_message("%ld cases on %d configurations\n", all->cases, all->n);
    assert_true(all->cases > 0);
}

/* Fails at the first byte of a result that differs from ref's; `part`: the launch or the root. */
static inline void check_bytes(const char *name, const char *what, uint64_t seed, int part, const void *got, size_t got_bytes, const void *want,
                               size_t want_bytes) {
    assert_int_equal(got_bytes, want_bytes);
    for (size_t b = 0; b < want_bytes; b++) {
        if (((const uint8_t *)got)[b] != ((const uint8_t *)want)[b]) {
            fail_msg("%s (seed %llu, result %d): %s differs from ref at byte %zu of %zu: %08x, expected %08x", what, (unsigned long long)seed, part,
                     name, b, want_bytes, ((const unsigned *)got)[b / 4], ((const unsigned *)want)[b / 4]);
        }
    }
}

/* In fast and reduced: results lie within the oracle's bound. */
static inline void check_bound(world *w, const char *name, const char *what, uint64_t seed, ls_tensor **roots, int n) {
    ls_verification *v;
    world_ok(w, ls_verify(w->session, roots, n, &v));
    if (v->verdict == LS_DIFFERS || v->worst_of_bound > 1) {
        fail_msg("%s (seed %llu): %s: %g of the bound, kernel %d", what, (unsigned long long)seed, name, v->worst_of_bound, v->first_divergence);
    }
    ls_verification_free(w->session, v);
}

static inline int build_in_fast(world *w, case_fn build, ls_rng rng, const void *param, ls_tensor **roots) {
    world_ok(w, ls_scope_begin(w->session));
    ls_session_set_math(w->session, LS_FAST);
    return build(w->session, &rng, param, roots);
}

static inline void end_fast(world *w) {
    ls_session_set_math(w->session, LS_LOCKED);
    ls_scope_end(w->session);
}

/* What build makes in fast arithmetic, on one configuration, within the bound. */
static inline void check_fast(worlds *all, int configuration, case_fn build, ls_rng rng, const void *param, const char *what, uint64_t seed) {
    world *w = &all->cpu[configuration];
    ls_tensor *roots[MAX_ROOTS] = {NULL};
    int n = build_in_fast(w, build, rng, param, roots);
    check_bound(w, all->names[configuration], what, seed, roots, n);
    end_fast(w);
}

/* The same on all of them: on the best kernel by kernel, on the others by the oracle's bound of the results, which is computed once. */
static inline void check_fast_on_all(worlds *all, case_fn build, ls_rng rng, const void *param, const char *what, uint64_t seed) {
    const int last = all->n - 1;
    world *best = &all->cpu[last];
    ls_tensor *roots[MAX_ROOTS] = {NULL};
    double *middle[MAX_ROOTS], *radius[MAX_ROOTS];
    int64_t elements;
    int n = build_in_fast(best, build, rng, param, roots);
    for (int i = 0; i < n; i++) {
        world_ok(best, ls_oracle_value(best->session, roots[i], &middle[i], &radius[i], &elements));
    }
    check_bound(best, all->names[last], what, seed, roots, n);
    end_fast(best);
    for (int c = 0; c < last; c++) {
        world *w = &all->cpu[c];
        build_in_fast(w, build, rng, param, roots);
        for (int i = 0; i < n; i++) {
            ls_data *data;
            ls_report report;
            world_ok(w, ls_data_from_tensor(w->session, roots[i], &data));
            if (ls_compare_bound(data, middle[i], radius[i], &report) == LS_DIFFERS) {
                fail_msg("%s (seed %llu, result %d): %s: %s", what, (unsigned long long)seed, i, all->names[c], report.message);
            }
            ls_data_release(data);
        }
        end_fast(w);
    }
    for (int i = 0; i < n; i++) {
        ls_verify_free(best->session, middle[i]);
        ls_verify_free(best->session, radius[i]);
    }
}

/* `every`: on all configurations; else on one that goes round, however many kinds of cases take turns. */
static inline void check_case(worlds *all, case_fn build, uint64_t seed, const void *param, const char *what,
                              int every) {
    result want = run_case(&all->ref, build, seed, param, what);
    for (int c = 0; c < all->n; c++) {
        if (!every && c != (int)((all->cases + all->cases / all->n) % all->n)) {
            continue;
        }
        result got = run_case(&all->cpu[c], build, seed, param, what);
        if (got.status != want.status) {
            fail_msg("%s (seed %llu): %s gives status %d, ref %d", what, (unsigned long long)seed, all->names[c], got.status, want.status);
        }
        for (int i = 0; i < want.n; i++) {
            check_bytes(all->names[c], what, seed, i, got.data[i], got.bytes[i], want.data[i], want.bytes[i]);
        }
        free_result(&got);
    }
    all->cases++;
    free_result(&want);
}

/* Of low to high, the lower ones more often. */
static inline int64_t draw(ls_rng *rng, int64_t low, int64_t high) {
    int64_t a = (int64_t)ls_rng_below(rng, (uint64_t)(high - low + 1)), b = (int64_t)ls_rng_below(rng, (uint64_t)(high - low + 1));
    return low + (a < b ? a : b);
}

/* Seeds of random cases, from LOCKSTEP_SEED (1) on, for LOCKSTEP_SECONDS, else so many seconds: one at least. */
typedef struct seeds {
    uint64_t seed, end;
    bool chosen; /* LOCKSTEP_SEED is set */
} seeds;

static inline seeds seeds_from(int seconds) {
    const char *limit = getenv("LOCKSTEP_SECONDS"), *first = getenv("LOCKSTEP_SEED");
    uint64_t end = ls_os_nanoseconds() + (uint64_t)(limit ? atoi(limit) : seconds) * UINT64_C(1000000000);
    return (seeds){first ? strtoull(first, NULL, 10) : 1, end, first != NULL};
}

static inline bool seeds_next(seeds *s) {
    s->seed++;
    bool more = ls_os_nanoseconds() < s->end;
    if (!more) {
        print_message("seeds up to %llu\n", (unsigned long long)s->seed - 1);
    }
    return more;
}

/* Of a group of tests, whose state is its worlds. */
static inline int worlds_setup(void **state) {
    static worlds all;
    worlds_open(&all);
    *state = &all;
    return 0;
}

static inline int worlds_teardown(void **state) {
    worlds_close(*state);
    return 0;
}

#endif
