/* Of tests of the packed matrix product: operands with awkward values and layouts, the contraction rule over them in straight loops, memory
 * between guard zones or before a page that cannot be read, crews of workers, and the instruction sets of this machine. */
#ifndef LOCKSTEP_TESTS_MICRO_GEMM_SUPPORT_H
#define LOCKSTEP_TESTS_MICRO_GEMM_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/gemm_isa.h"
#include "base/half.h"

enum { GUARD = 256, GUARD_BYTE = 0xa5 };

static uint64_t seed_state = 1;

static inline uint64_t random_bits(void) { /* splitmix64 */
    uint64_t z = seed_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int64_t random_below(int64_t n) {
    return (int64_t)(random_bits() % (uint64_t)n);
}

typedef enum filling {
    ORDINARY, /* near 1 */
    WIDE,     /* also subnormals and large ones */
    WILD,     /* also infinities and NaN */
    INFINITE, /* near 1 and a few infinities */
    EXTREME,  /* bytes of the largest magnitude */
    WHOLE,    /* small whole numbers, whose sums are exact in any order, fused or not */
} filling;

/* The larger of two numbers, or the smaller, by the order that has -0 below +0; NaN from either. */
static inline float extreme(float x, float y, bool most) {
    if (isnan(x) || isnan(y)) {
        return NAN;
    }
    const bool below = x < y || (x == y && signbit(x) && !signbit(y));
    return below == most ? y : x;
}

static inline double random_value(filling how) {
    double x = (double)(int64_t)random_bits() * 0x1p-63;
    if (how == EXTREME) {
        return 1000;
    }
    if (how == WHOLE) {
        return (double)(int64_t)(8 * x);
    }
    if (how == INFINITE && random_below(40) == 0) {
        return x < 0 ? -__builtin_inf() : __builtin_inf();
    }
    if (how == ORDINARY || how == INFINITE) {
        return x;
    }
    int64_t kind = random_below(how == WILD ? 24 : 16);
    switch (kind) {
    case 0:
        return x < 0 ? -0.0 : 0.0;
    case 1:
        return x * 0x1p-126;
    case 2:
        return x * 0x1p-140;
    case 3:
        return x * 0x1p-66;
    case 4:
        return x * 0x1p+40;
    case 5:
        return x * 0x1p-14;
    case 16:
        return x < 0 ? -__builtin_inf() : __builtin_inf();
    case 17:
        return __builtin_nan("");
    default:
        return x;
    }
}

static const char *const dtype_names[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i32"};
static const int64_t dtype_sizes[] = {4, 8, 2, 2, 1, 1, 4};

static inline void store_value(ls_gemm_dtype dtype, void *at, double x) {
    float f = (float)x;
    uint16_t h;
    int32_t i;
    switch (dtype) {
    case LS_GEMM_F32:
        memcpy(at, &f, 4);
        break;
    case LS_GEMM_F64:
        memcpy(at, &x, 8);
        break;
    case LS_GEMM_F16:
        h = ls_f32_to_f16(f);
        memcpy(at, &h, 2);
        break;
    case LS_GEMM_BF16:
        h = ls_f32_to_bf16(f);
        memcpy(at, &h, 2);
        break;
    case LS_GEMM_I32:
        i = (int32_t)random_bits();
        memcpy(at, &i, 4);
        break;
    default:
        *(uint8_t *)at = random_below(4) && x < 2 ? (uint8_t)random_bits()
                         : dtype == LS_GEMM_I8    ? 0x80
                                                  : 0xff;
        break;
    }
}

/* Any element as the type its panel has; one of the three is meant. */
typedef struct value {
    float f;
    double d;
    int32_t i;
} value;

static inline value load_value(ls_gemm_dtype dtype, const void *at) {
    value v = {0, 0, 0};
    uint16_t h;
    switch (dtype) {
    case LS_GEMM_F32:
        memcpy(&v.f, at, 4);
        break;
    case LS_GEMM_F64:
        memcpy(&v.d, at, 8);
        break;
    case LS_GEMM_F16:
        memcpy(&h, at, 2);
        v.f = ls_f16_to_f32(h);
        break;
    case LS_GEMM_BF16:
        memcpy(&h, at, 2);
        v.f = ls_bf16_to_f32(h);
        break;
    case LS_GEMM_I32:
        memcpy(&v.i, at, 4);
        break;
    case LS_GEMM_I8:
        v.i = *(const int8_t *)at;
        v.f = (float)v.i;
        break;
    case LS_GEMM_U8:
        v.i = *(const uint8_t *)at;
        v.f = (float)v.i;
        break;
    case LS_GEMM_PAIRS: /* test_pairs alone */
        break;
    }
    return v;
}

/* An operand in memory: a view, and which of its elements a callback calls absent. */
typedef struct matrix {
    ls_gemm_dtype dtype;
    int64_t extent, k, batches;
    int64_t stride_i, stride_k, stride_batch;
    char *memory, *origin; /* element (0, 0) of batch entry 0 */
    void *map;
    size_t map_size;
    bool holes;
} matrix;

enum layout { K_FAST, I_FAST, NEITHER, BACKWARDS, BROADCAST_I, LAYOUTS };

static inline bool present(const matrix *m, int64_t i, int64_t p) {
    return !m->holes || (i * 7 + p * 3) % 5 != 0;
}

static inline const void *element(const matrix *m, int64_t batch, int64_t i, int64_t p) {
    return m->origin + (batch * m->stride_batch + i * m->stride_i + p * m->stride_k) * dtype_sizes[m->dtype];
}

/* Memory whose end touches a page that cannot be read. */
static inline char *before_wall(size_t bytes, void **out_map, size_t *out_size) {
    enum { PAGE = 1 << 16 };
    size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    *out_size = room + PAGE;
    *out_map = mmap(NULL, *out_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*out_map != MAP_FAILED);
    assert_int_equal(mprotect((char *)*out_map + room, PAGE, PROT_NONE), 0);
    return (char *)*out_map + room - bytes;
}

static inline void matrix_free(matrix *m) {
    assert_int_equal(munmap(m->map, m->map_size), 0);
}

static inline void matrix_make(matrix *m, ls_gemm_dtype dtype, int64_t extent, int64_t k, int64_t batches,
                        enum layout layout, filling how) {
    int64_t pad = random_below(3);
    int64_t fast_k = k + pad, fast_i = extent + pad;
    *m = (matrix){.dtype = dtype, .extent = extent, .k = k, .batches = batches};
    m->stride_i = layout == I_FAST ? 1 : layout == NEITHER ? 3 * fast_k + 1 : fast_k;
    m->stride_k = layout == I_FAST ? fast_i : layout == NEITHER ? 3 : 1;
    m->stride_batch = layout == NEITHER  ? extent * (3 * fast_k + 1)
                      : layout == I_FAST ? k * fast_i
                                         : extent * fast_k;
    int64_t last = extent > 0 && k > 0 ? (extent - 1) * m->stride_i + (k - 1) * m->stride_k + 1 : 0;
    int64_t count = m->stride_batch * (batches > 1 ? batches - 1 : 0) + last, size = dtype_sizes[dtype];
    m->memory = before_wall((size_t)(count * size), &m->map, &m->map_size);
    for (int64_t q = 0; q < count; q++) {
        store_value(dtype, m->memory + q * size, random_value(how));
    }
    m->origin = m->memory;
    if (layout == BACKWARDS && extent > 0 && k > 0) {
        m->origin += ((extent - 1) * m->stride_i + (k - 1) * m->stride_k) * size;
        m->stride_i = -m->stride_i;
        m->stride_k = -m->stride_k;
    }
    if (layout == BROADCAST_I) {
        m->stride_i = 0;
    }
}

/* All elements of one batch entry as [extent][k] values; absent ones are marked by `absent`. */
static inline value *decode(const matrix *m, int64_t batch, uint8_t **out_absent) {
    value *values = malloc((size_t)(m->extent * m->k + 1) * sizeof *values);
    uint8_t *absent = malloc((size_t)(m->extent * m->k + 1));
    assert_non_null(values);
    assert_non_null(absent);
    for (int64_t i = 0; i < m->extent; i++) {
        for (int64_t p = 0; p < m->k; p++) {
            values[i * m->k + p] = load_value(m->dtype, element(m, batch, i, p));
            absent[i * m->k + p] = !present(m, i, p);
        }
    }
    *out_absent = absent;
    return values;
}

/* The rule of contraction, as it is written: all of one batch entry, in all three types. */
static inline void contract(const matrix *a, const matrix *b, int64_t batch, value *out) {
    uint8_t *no_a, *no_b;
    value *at_a = decode(a, batch, &no_a), *at_b = decode(b, batch, &no_b);
    int64_t k = a->k;
    for (int64_t i = 0; i < a->extent; i++) {
        for (int64_t j = 0; j < b->extent; j++) {
            value total = {0, 0, 0};
            for (int64_t k0 = 0; k0 < k; k0 += 512) {
                value s = {0, 0, 0};
                for (int64_t p = k0; p < k && p < k0 + 512; p++) {
                    if (no_a[i * k + p] || no_b[j * k + p]) {
                        continue;
                    }
                    value x = at_a[i * k + p], y = at_b[j * k + p];
                    s.f = s.f + x.f * y.f;
                    s.d = s.d + x.d * y.d;
                    s.i = (int32_t)((uint32_t)s.i + (uint32_t)x.i * (uint32_t)y.i);
                }
                total.f = k0 ? total.f + s.f : s.f;
                total.d = k0 ? total.d + s.d : s.d;
                total.i = (int32_t)((uint32_t)total.i + (uint32_t)s.i);
            }
            out[i * b->extent + j] = total;
        }
    }
    free(at_a);
    free(at_b);
    free(no_a);
    free(no_b);
}

static inline void store_result(ls_gemm_dtype dtype, void *at, value v) {
    if (dtype == LS_GEMM_I32) {
        memcpy(at, &v.i, 4);
    } else if (dtype == LS_GEMM_F64) {
        uint64_t nan = LS_NAN_F64;
        memcpy(at, v.d != v.d ? (void *)&nan : (void *)&v.d, 8);
    } else if (dtype == LS_GEMM_F32) {
        uint32_t nan = LS_NAN_F32;
        memcpy(at, v.f != v.f ? (void *)&nan : (void *)&v.f, 4);
    } else {
        store_value(dtype, at, v.f);
    }
}

/* Ways to run tasks: in order, backwards over several workers, and on real threads. */
typedef struct crew {
    int workers;
    bool threads;
} crew;

typedef struct hand {
    void (*fn)(void *, int64_t, int);
    void *ctx;
    int64_t n;
    int worker, workers;
} hand;

static inline void *work(void *arg) {
    hand *h = arg;
    for (int64_t task = h->worker; task < h->n; task += h->workers) {
        h->fn(h->ctx, task, h->worker);
    }
    return NULL;
}

static inline void crew_run(void *pool, int64_t n, void (*fn)(void *, int64_t, int), void *ctx) {
    const crew *c = pool;
    if (!c->threads) {
        for (int64_t task = n; task-- > 0;) {
            fn(ctx, task, (int)(task % c->workers));
        }
        return;
    }
    pthread_t threads[8];
    hand hands[8];
    for (int w = 0; w < c->workers; w++) {
        hands[w] = (hand){fn, ctx, n, w, c->workers};
        assert_int_equal(pthread_create(&threads[w], NULL, work, &hands[w]), 0);
    }
    for (int w = 0; w < c->workers; w++) {
        assert_int_equal(pthread_join(threads[w], NULL), 0);
    }
}

static inline char *guarded(size_t bytes) {
    char *memory = aligned_alloc(64, (bytes + 2 * GUARD + 63) / 64 * 64);
    assert_non_null(memory);
    memset(memory, GUARD_BYTE, bytes + 2 * GUARD);
    return memory;
}

static inline void check_guard(const char *memory, size_t bytes, const char *what) {
    for (size_t i = 0; i < GUARD; i++) {
        if ((uint8_t)memory[i] != GUARD_BYTE || (uint8_t)memory[GUARD + bytes + i] != GUARD_BYTE) {
            fail_msg("%s: written outside, %zu bytes from an end", what, i);
        }
    }
}

static const ls_gemm_isa *isas[LS_CPU_ISA_COUNT + 1];
static int isa_count;

static inline int find_isas(void **state) {
    (void)state;
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_gemm_isa *isa = ls_gemm_isa_get((ls_cpu_isa)i);
        if (isa && cpu.has[i]) {
            isas[isa_count++] = isa;
        }
    }
    const ls_gemm_isa *more = ls_gemm_isa_for(&cpu, LS_CPU_AVX512);
    if (cpu.has[LS_CPU_AVX512] && more && more->dots) {
        isas[isa_count++] = more;
    }
    return isa_count > 0 ? 0 : -1;
}

#endif
