/*
 * The packed matrix product against straight loops over the contraction rule, bit for bit: every kernel of
 * every instruction set that this machine has, then the whole driver over awkward shapes, layouts, dtypes,
 * task splits, packed and callback operands, absent elements. Outputs and scratch memory stand between
 * guard zones.
 */
#define _DEFAULT_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/gemm_plan.h"
#include "base/half.h"
#include "support/amx_by_hand.h"

enum { GUARD = 256, GUARD_BYTE = 0xa5 };

static uint64_t seed_state = 1;

static uint64_t random_bits(void) { /* splitmix64 */
    uint64_t z = seed_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int64_t random_below(int64_t n) {
    return (int64_t)(random_bits() % (uint64_t)n);
}

typedef enum filling {
    ORDINARY, /* near 1 */
    WIDE,     /* also subnormals and large ones */
    WILD,     /* also infinities and NaN */
    INFINITE, /* near 1 and a few infinities */
    EXTREME,  /* bytes of the largest magnitude */
} filling;

static double random_value(filling how) {
    double x = (double)(int64_t)random_bits() * 0x1p-63;
    if (how == EXTREME) {
        return 1000;
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

static void store_value(ls_gemm_dtype dtype, void *at, double x) {
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

static value load_value(ls_gemm_dtype dtype, const void *at) {
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

static bool present(const matrix *m, int64_t i, int64_t p) {
    return !m->holes || (i * 7 + p * 3) % 5 != 0;
}

static const void *element(const matrix *m, int64_t batch, int64_t i, int64_t p) {
    return m->origin + (batch * m->stride_batch + i * m->stride_i + p * m->stride_k) * dtype_sizes[m->dtype];
}

/* Memory whose end touches a page that cannot be read. */
static char *before_wall(size_t bytes, void **out_map, size_t *out_size) {
    enum { PAGE = 1 << 16 };
    size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    *out_size = room + PAGE;
    *out_map = mmap(NULL, *out_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*out_map != MAP_FAILED);
    assert_int_equal(mprotect((char *)*out_map + room, PAGE, PROT_NONE), 0);
    return (char *)*out_map + room - bytes;
}

static void matrix_free(matrix *m) {
    assert_int_equal(munmap(m->map, m->map_size), 0);
}

static void matrix_make(matrix *m, ls_gemm_dtype dtype, int64_t extent, int64_t k, int64_t batches,
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

static void pack_matrix(void *ctx, int worker, int64_t batch, int64_t k0, int64_t kc, int64_t i0, int64_t ni,
                        int64_t width, void *panel, uint8_t *mask) {
    const matrix *m = ctx;
    (void)worker;
    for (int64_t p = 0; p < kc; p++) {
        for (int64_t q = 0; q < ni; q++) {
            bool here = present(m, i0 + q, k0 + p);
            value v = load_value(m->dtype, element(m, batch, i0 + q, k0 + p));
            int64_t to = p * width + q;
            if (m->dtype == LS_GEMM_F64) {
                ((double *)panel)[to] = here ? v.d : 0;
            } else if (m->dtype == LS_GEMM_I32) {
                ((int32_t *)panel)[to] = here ? v.i : 0;
            } else {
                ((float *)panel)[to] = here ? v.f : 0;
            }
            if (mask) {
                mask[to] = here;
            }
        }
    }
}

/* All elements of one batch entry as [extent][k] values; absent ones are marked by `absent`. */
static value *decode(const matrix *m, int64_t batch, uint8_t **out_absent) {
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
static void contract(const matrix *a, const matrix *b, int64_t batch, value *out) {
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

static void store_result(ls_gemm_dtype dtype, void *at, value v) {
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

static void *work(void *arg) {
    hand *h = arg;
    for (int64_t task = h->worker; task < h->n; task += h->workers) {
        h->fn(h->ctx, task, h->worker);
    }
    return NULL;
}

static void crew_run(void *pool, int64_t n, void (*fn)(void *, int64_t, int), void *ctx) {
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

static char *guarded(size_t bytes) {
    char *memory = aligned_alloc(64, (bytes + 2 * GUARD + 63) / 64 * 64);
    assert_non_null(memory);
    memset(memory, GUARD_BYTE, bytes + 2 * GUARD);
    return memory;
}

static void check_guard(const char *memory, size_t bytes, const char *what) {
    for (size_t i = 0; i < GUARD; i++) {
        if ((uint8_t)memory[i] != GUARD_BYTE || (uint8_t)memory[GUARD + bytes + i] != GUARD_BYTE) {
            fail_msg("%s: written outside, %zu bytes from an end", what, i);
        }
    }
}

/* What an epilogue is seen to do: it counts visits, and writes 2x or x + 1. */
typedef struct visits {
    int64_t m, n;
    uint8_t *count;
    ls_gemm_dtype dtype; /* of the sum */
    char *copy;          /* where it stores instead of the driver, [batch][m][n]; or NULL */
    const ls_gemm *follows; /* or it does what tiles do that this follows, of one another's elements no matter who; or NULL */
} visits;

/* Whether a build has instruction sets for it (LS_GEMM_FOLLOWS of the library's objects); elsewhere nobody may ask for it. */
static bool may_follow(void) {
    return ls_gemm_isa_get(LS_CPU_AVX512) != NULL;
}

/* Of a sum of f32 what follows it. */
static float followed(const ls_gemm_follow *f, int64_t row, float x, float plus) {
    x = x + f->add[row * f->step];
    x = f->adds ? x + plus : x;
    return x < f->floor ? f->floor : x;
}

static void visit(void *ctx, int worker, int64_t batch, int64_t i0, int64_t ni, int64_t j0, int64_t nj,
                  void *tile, int64_t ld) {
    visits *v = ctx;
    (void)worker;
    assert_true(i0 >= 0 && ni > 0 && i0 + ni <= v->m && j0 >= 0 && nj > 0 && j0 + nj <= v->n);
    for (int64_t i = 0; i < ni; i++) {
        for (int64_t j = 0; j < nj; j++) {
            int64_t at = (batch * v->m + i0 + i) * v->n + j0 + j;
            v->count[at]++;
            if (v->follows) {
                const ls_gemm_out *out = &v->follows->out;
                float *x = (float *)out->data + batch * out->stride_batch[0] + (i0 + i) * out->stride_i + (j0 + j) * out->stride_j;
                value own = {.f = followed(&v->follows->follow, batch * v->m + i0 + i, ((float *)tile)[i * ld + j], *x)};
                store_result(LS_GEMM_F32, (char *)x, own);
            } else if (v->dtype == LS_GEMM_F64) {
                ((double *)tile)[i * ld + j] *= 2;
            } else if (v->dtype == LS_GEMM_F32) {
                ((float *)tile)[i * ld + j] *= 2;
            } else {
                int32_t *x = (int32_t *)tile + i * ld + j;
                *x = (int32_t)((uint32_t)*x + 1);
            }
            if (v->copy) {
                int64_t size = dtype_sizes[v->dtype];
                memcpy(v->copy + at * size, (char *)tile + (i * ld + j) * size, (size_t)size);
            }
        }
    }
}

static value after_visit(value v) {
    return (value){v.f * 2, v.d * 2, (int32_t)((uint32_t)v.i + 1)};
}

typedef enum given { VIEW, CALLBACK, HOLES, PACKED, GIVEN } given;

typedef struct row {
    int64_t m, n, k, batches;
    ls_gemm_dtype a, b, out;
    enum layout a_layout, b_layout;
    given a_given, b_given;
    int out_layout; /* 0: rows, 1: columns, 2: strided */
    int epilogue;   /* 0: none, 1: in place, 2: instead of the output, 3 and 4: tiles may do it, of f32 alone; 4: with elements in C's place */
    filling how;
    crew crew;
    int64_t l2;
    bool shared_b; /* one B for all batch entries */
} row;

static void describe(char *text, size_t size, const ls_gemm_isa *isa, const row *r) {
    snprintf(text, size,
             "%s %lldx%lldx%lld batch %lld %s*%s->%s layouts %d,%d,%d given %d,%d epilogue %d values %d "
             "workers %d%s "
             "l2 %lld shared %d",
             ls_cpu_isa_name(isa->isa), (long long)r->m, (long long)r->n, (long long)r->k,
             (long long)r->batches, dtype_names[r->a], dtype_names[r->b], dtype_names[r->out], r->a_layout,
             r->b_layout, r->out_layout, r->a_given, r->b_given, r->epilogue, r->how, r->crew.workers,
             r->crew.threads ? " threads" : "", (long long)r->l2, r->shared_b);
}

static void give(const ls_gemm_isa *isa, ls_gemm_side side, given how, matrix *m, int64_t columns, ls_gemm_operand *o,
                 ls_gemm_packed *packed, char **out_memory) {
    *o = (ls_gemm_operand){
        .dtype = m->dtype, .data = m->origin, .stride_i = m->stride_i, .stride_k = m->stride_k};
    o->stride_batch[0] = m->stride_batch;
    *out_memory = NULL;
    if (how == CALLBACK || how == HOLES) {
        o->data = NULL;
        o->pack = pack_matrix;
        o->pack_ctx = m;
        o->absent = how == HOLES;
        o->batch_shared = m->stride_batch == 0;
    } else if (how == PACKED) {
        ls_gemm_side sort = side == LS_GEMM_A ? ls_gemm_side_a(isa, m->dtype, columns) : side;
        size_t bytes = ls_gemm_packed_size(isa, sort, m->dtype, m->extent, m->k);
        *out_memory = guarded(bytes);
        ls_gemm_pack(isa, sort, o, m->extent, m->k, *out_memory + GUARD, packed);
        check_guard(*out_memory, bytes, "packed operand");
        o->packed = packed;
    }
}

/* One row on one instruction set; `right` holds the reference's answers, [batch][m][n]. */
static void run_on(const ls_gemm_isa *isa, const row *r, matrix *pa, matrix *pb, const value *answers) {
    char text[300];
    describe(text, sizeof text, isa, r);
    crew c = r->crew;
    ls_gemm g = {.isa = isa, .m = r->m, .n = r->n, .k = r->k, .batch_rank = 1, .batch = {r->batches}};
    g.parallel = (ls_gemm_parallel){crew_run, &c, c.workers, r->m % 2 > 0};
    g.l2_bytes = r->l2;
    ls_gemm_packed packed_a, packed_b;
    char *memory_a, *memory_b;
    give(isa, LS_GEMM_A, r->a_given, pa, r->n, &g.a, &packed_a, &memory_a);
    give(isa, LS_GEMM_B, r->b_given, pb, r->n, &g.b, &packed_b, &memory_b);

    int64_t size = dtype_sizes[r->out], step = r->out_layout == 2 ? 2 : 1;
    int64_t stride_i = r->out_layout == 1 ? 1 : r->n * step + 1,
            stride_j = r->out_layout == 1 ? r->m + 1 : step;
    int64_t stride_batch = (r->m + 1) * (r->n * step + 2);
    size_t bytes = (size_t)(stride_batch * r->batches * size);
    char *out = guarded(bytes), *expected = guarded(bytes);
    g.out = (ls_gemm_out){.dtype = r->out, .data = out + GUARD, .stride_i = stride_i, .stride_j = stride_j};
    g.out.stride_batch[0] = stride_batch;
    g.out.canonical_nan = true;

    size_t count = (size_t)(r->batches * r->m * r->n);
    visits seen = {.m = r->m, .n = r->n, .count = calloc(count + 1, 1)};
    seen.dtype = r->a == LS_GEMM_F64 ? LS_GEMM_F64 : r->out == LS_GEMM_I32 ? LS_GEMM_I32 : LS_GEMM_F32;
    seen.copy = r->epilogue == 2 ? calloc(count + 1, 8) : NULL;
    if (r->epilogue) {
        g.epilogue = visit;
        g.epilogue_ctx = &seen;
        if (r->epilogue == 2) {
            g.out.data = NULL;
        }
    }
    float *adds = calloc((size_t)(2 * r->batches * r->m + 1), sizeof *adds);
    if (r->epilogue > 2) {
        for (int64_t i = 0; i < r->batches * r->m; i++) {
            adds[2 * i] = (float)(i % 7) - 3;
        }
        g.follow = (ls_gemm_follow){adds, 2, r->epilogue == 4, r->epilogue == 4 ? g.out.data : NULL, r->n % 2 ? 0.5F : -__builtin_inff()};
        for (int64_t i = 0; i < stride_batch * r->batches && r->epilogue == 4; i++) {
            ((float *)(void *)(out + GUARD))[i] = ((float *)(void *)(expected + GUARD))[i] = (float)(i % 11) - 5;
        }
        seen.follows = &g;
    }
    size_t need = ls_gemm_workspace(&g);
    char *workspace = guarded(need);
    ls_gemm_run(&g, workspace + GUARD);
    check_guard(workspace, need, text);

    for (int64_t e = 0; e < r->batches; e++) {
        for (int64_t i = 0; i < r->m; i++) {
            for (int64_t j = 0; j < r->n; j++) {
                int64_t at = (e * r->m + i) * r->n + j;
                value v = answers[at];
                if (r->epilogue > 2) {
                    const float *plus = (const float *)(const void *)(expected + GUARD) + e * stride_batch + i * stride_i + j * stride_j;
                    v.f = followed(&g.follow, e * r->m + i, v.f, *plus);
                } else if (r->epilogue) {
                    v = after_visit(v);
                    if (seen.count[at] != 1) {
                        fail_msg("%s: the epilogue saw (%d,%d) %d times", text, (int)i, (int)j,
                                 seen.count[at]);
                    }
                }
                char right[8] = {0}, got[8] = {0};
                ls_gemm_dtype dtype = r->out;
                if (r->epilogue == 2) {
                    dtype = seen.dtype;
                    value x = load_value(dtype, seen.copy + at * dtype_sizes[dtype]);
                    store_result(dtype, got, x);
                } else {
                    int64_t to = GUARD + (e * stride_batch + i * stride_i + j * stride_j) * size;
                    store_result(dtype, expected + to, v);
                    memcpy(got, out + to, (size_t)size);
                }
                store_result(dtype, right, v);
                if (memcmp(got, right, 8) != 0) {
                    uint64_t g64, r64;
                    memcpy(&g64, got, 8);
                    memcpy(&r64, right, 8);
                    fail_msg("%s: batch %d element (%d,%d) is %llx, not %llx", text, (int)e, (int)i, (int)j,
                             (unsigned long long)g64, (unsigned long long)r64);
                }
            }
        }
    }
    if (memcmp(out, expected, bytes + 2 * GUARD) != 0) {
        fail_msg("%s: written outside the output's elements", text);
    }
    free(workspace);
    free(seen.count);
    free(seen.copy);
    free(adds);
    free(out);
    free(expected);
    free(memory_a);
    free(memory_b);
}

static const ls_gemm_isa *isas[LS_CPU_ISA_COUNT + 1];
static int isa_count;

static void run_row(const row *r) {
    matrix a, b;
    matrix_make(&a, r->a, r->m, r->k, r->batches, r->a_layout, r->how);
    matrix_make(&b, r->b, r->n, r->k, r->batches, r->b_layout, r->how);
    a.holes = r->a_given == HOLES;
    b.holes = r->b_given == HOLES;
    if (r->shared_b || r->b_given == PACKED) {
        b.stride_batch = 0;
    }
    if (r->a_given == PACKED) {
        a.stride_batch = 0;
    }
    value *answers = calloc((size_t)(r->batches * r->m * r->n + 1), sizeof *answers);
    assert_non_null(answers);
    for (int64_t e = 0; e < r->batches; e++) {
        contract(&a, &b, e, answers + e * r->m * r->n);
    }
    for (int s = 0; s < isa_count; s++) {
        run_on(isas[s], r, &a, &b, answers);
    }
    free(answers);
    matrix_free(&a);
    matrix_free(&b);
}

static int find_isas(void **state) {
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

/* Every tile of one table, called directly, with panels and with strides, storing, adding and resuming. */
static void check_tiles(const ls_gemm_kernels *kernels, ls_gemm_dtype dtype, bool exact, const char *isa) {
    int64_t size = dtype_sizes[dtype];
    for (int rows = 1; rows <= kernels->rows; rows++) {
        for (int vectors = 1; vectors <= kernels->vectors - (rows > kernels->widest_rows); vectors++) {
            for (int variant = 0; variant < 8; variant++) {
                static const int64_t depths[] = {0, 1, 2, 7, 8, 33, 511, 512};
                int64_t kc = depths[variant], cols = (int64_t)vectors * kernels->lanes,
                        ldc = cols + variant % 3;
                matrix a, b;
                matrix_make(&a, dtype, rows, kc, 1, variant & 1 ? K_FAST : I_FAST, exact ? WIDE : ORDINARY);
                matrix_make(&b, dtype, cols, kc, 1, I_FAST, exact ? WIDE : ORDINARY);
                size_t bytes = (size_t)(((rows - 1) * ldc + cols) * size);
                char *out = guarded(bytes), *expected = guarded(bytes);
                bool resume = variant & 4, add = !resume && variant & 2;
                int64_t first = resume ? kc / 3 : 0;
                value answers[LS_GEMM_MAX_ROWS * LS_GEMM_MAX_WIDTH];
                contract(&a, &b, 0, answers);
                for (int64_t i = 0; i < rows; i++) {
                    for (int64_t j = 0; j < cols; j++) {
                        value v = answers[i * cols + j],
                              c = {0.3f * (float)i, 0.7 * (double)j, (int32_t)(i - j)};
                        char *at = out + GUARD + (i * ldc + j) * size;
                        memcpy(at,
                               dtype == LS_GEMM_F64   ? (void *)&c.d
                               : dtype == LS_GEMM_F32 ? (void *)&c.f
                                                      : (void *)&c.i,
                               (size_t)size);
                        if (add) {
                            v.f = c.f + v.f;
                            v.d = c.d + v.d;
                            v.i = (int32_t)((uint32_t)c.i + (uint32_t)v.i);
                        }
                        store_result(dtype, expected + GUARD + (i * ldc + j) * size, v);
                    }
                }
                ls_gemm_kernel kernel = kernels->tile[rows][vectors];
                const char *at_a = a.origin, *at_b = b.origin;
                ls_gemm_tiles tiles = {.n = 1, .kc = first, .a = at_a, .a_row = a.stride_i, .a_k = a.stride_k, .b = at_b, .b_k = b.stride_k,
                                       .c = out + GUARD, .ldc = ldc, .into = LS_GEMM_STORE, .ahead = at_b, .ahead_k = 64};
                if (resume) {
                    kernel(&tiles);
                }
                tiles.kc = kc - first;
                tiles.a = at_a + first * a.stride_k * size;
                tiles.b = at_b + first * b.stride_k * size;
                tiles.into = resume ? LS_GEMM_RESUME : add ? LS_GEMM_ADD : LS_GEMM_STORE;
                kernel(&tiles);
                if (exact && memcmp(out, expected, bytes + 2 * GUARD) != 0) {
                    fail_msg("%s %s tile %dx%d depth %d after %d add %d differs", isa, dtype_names[dtype], rows,
                             (int)cols, (int)kc, (int)first, add);
                }
                check_guard(out, bytes, "tile");
                for (int64_t i = 0; !exact && i < rows; i++) {
                    for (int64_t j = 0; j < cols; j++) {
                        int64_t to = GUARD + (i * ldc + j) * size;
                        value x = load_value(dtype, out + to), y = load_value(dtype, expected + to);
                        double far = dtype == LS_GEMM_F64 ? x.d - y.d : (double)x.f - (double)y.f;
                        /* |a|,|b| < 1 and |c| < 24: both sums are within (k+2) u (k + 24) of the exact one */
                        double u = dtype == LS_GEMM_F64 ? 0x1p-53 : 0x1p-24;
                        double bound = 2 * ((double)kc + 2) * u * ((double)kc + 24);
                        assert_true(far <= bound && far >= -bound);
                    }
                }
                free(out);
                free(expected);
                matrix_free(&a);
                matrix_free(&b);
            }
        }
    }
}

static void test_every_tile(void **state) {
    (void)state;
    for (int s = 0; s < isa_count; s++) {
        const char *name = ls_cpu_isa_name(isas[s]->isa);
        check_tiles(isas[s]->f32, LS_GEMM_F32, true, name);
        check_tiles(isas[s]->f64, LS_GEMM_F64, true, name);
        check_tiles(isas[s]->i32, LS_GEMM_I32, true, name);
        check_tiles(isas[s]->f32_fast, LS_GEMM_F32, false, name);
        check_tiles(isas[s]->f64_fast, LS_GEMM_F64, false, name);
    }
}

static row plain(int64_t m, int64_t n, int64_t k) {
    return (row){.m = m, .n = n, .k = k, .batches = 1, .b_layout = I_FAST, .crew = {1, false}, .how = WIDE};
}

/* Rows of B far apart are read in slices of k, whose sums resume within a chunk, or all of them where they are few; also where the last
 * columns fill no vector, and C is strided, rounded, or goes through an epilogue. */
static void test_slices(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{13, 531, 1100}, {16, 1024, 64}, {7, 530, 65}, {96, 513, 577}, {9, 544, 512},
                                        {67, 784, 64},   {64, 1531, 40}, {50, 2048, 64}};
    static const ls_gemm_dtype dtypes[] = {LS_GEMM_F32, LS_GEMM_F64, LS_GEMM_I32};
    for (size_t q = 0; q < sizeof shapes / sizeof *shapes; q++) {
        for (int v = 0; v < 4; v++) {
            row r = plain(shapes[q][0], shapes[q][1], shapes[q][2]);
            r.a = r.b = r.out = dtypes[v % 3];
            r.out_layout = (int)(q % 3);
            r.epilogue = v == 3 ? 1 + (int)(q % 2) : 0;
            r.crew = (crew){1 + v, false};
            run_row(&r);
        }
    }
}

/* What follows the sums, in tiles and in what is left of them, whose last addends may be C's own elements. */
static void test_follow(void **state) {
    (void)state;
    if (!may_follow()) {
        skip();
    }
    static const int64_t extents[] = {1, 2, 5, 6, 8, 13, 32, 64};
    static const int64_t columns[] = {16, 20, 49, 64, 80, 196, 300, 1024}, depths[] = {1, 16, 32, 100, 513};
    for (int q = 0; q < 8 * 8 * 5; q++) {
        row r = plain(extents[q % 8], columns[q / 8 % 8], depths[q / 64]);
        r.epilogue = 3 + (q / 3 + q / 8) % 2;
        r.out_layout = q % 5 == 4 ? q % 3 : 0;
        r.a_given = q % 3 ? PACKED : VIEW;
        r.b_given = q % 7 == 3 ? PACKED : VIEW;
        r.how = q % 4 == 1 ? WILD : ORDINARY;
        r.crew = (crew){1 + q % 3, false};
        r.batches = 1 + (q % 6 == 5);
        run_row(&r);
    }
}

/* Float sums of bytes stay exact even where every product is as large as it can be. */
static void test_extreme_bytes(void **state) {
    (void)state;
    static const ls_gemm_dtype pairs[][2] = {{LS_GEMM_U8, LS_GEMM_U8},
                                             {LS_GEMM_U8, LS_GEMM_I8},
                                             {LS_GEMM_I8, LS_GEMM_U8},
                                             {LS_GEMM_I8, LS_GEMM_I8}};
    for (size_t q = 0; q < 4; q++) {
        row r = plain(3, 35, 1025);
        r.a = pairs[q][0];
        r.b = pairs[q][1];
        r.out = LS_GEMM_I32;
        r.how = EXTREME;
        run_row(&r);
    }
}

/* Every remainder of a tile in both directions. */
static void test_every_edge(void **state) {
    (void)state;
    int rows = isas[isa_count - 1]->f32->rows, cols = 2 * isas[isa_count - 1]->f32->lanes;
    for (int64_t m = 1; m <= 2 * rows + 1; m++) {
        for (int64_t n = 1; n <= 2 * cols + 1; n += n < 5 || n % 4 == 3 ? 1 : 3) {
            row r = plain(m, n, 3 + (m + n) % 5);
            r.b_layout = (m + n) % 2 ? I_FAST : K_FAST;
            run_row(&r);
        }
    }
}

static void test_depths(void **state) {
    (void)state;
    static const int64_t depths[] = {0, 1, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097};
    for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
        static const int64_t sides[][2] = {{1, 1}, {1, 67}, {67, 1}, {13, 35}};
        for (size_t q = 0; q < 4; q++) {
            for (int layout = 0; layout < 2; layout++) {
                row r = plain(sides[q][0], sides[q][1], depths[d]);
                r.b_layout = layout ? K_FAST : I_FAST;
                run_row(&r);
            }
        }
    }
}

/* One row times a matrix of halves, or a matrix times one column, either way round in memory. */
static void test_rows_of_halves(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 9}, {37, 603}, {67, 512}, {16, 1030}, {130, 40}};
    for (int q = 0; q < 5 * 2 * 2 * 3 * 2; q++) {
        row r = plain(1, sizes[q % 5][0], sizes[q % 5][1]);
        r.b_layout = q / 5 % 2 ? K_FAST : I_FAST;
        r.b = q / 10 % 2 ? LS_GEMM_F16 : LS_GEMM_BF16;
        r.a = q / 20 % 3 == 0 ? LS_GEMM_F32 : q / 20 % 3 == 1 ? LS_GEMM_F16 : LS_GEMM_BF16;
        if (q / 60) {
            r = (row){.m = r.n, .n = 1, .k = r.k, .batches = 1, .a = r.b, .b = r.a, .a_layout = r.b_layout, .crew = r.crew, .how = r.how};
        }
        run_row(&r);
    }
}

static int64_t random_side(int64_t most) {
    static const int64_t awkward[] = {0,  1,  2,  3,  5,  7,  11, 12,  13,  16, 17,
                                      31, 32, 33, 47, 64, 65, 97, 127, 131, 257};
    int64_t side = awkward[random_below((int64_t)(sizeof awkward / sizeof *awkward))];
    return side < most ? side : most;
}

static row random_row(void) {
    static const ls_gemm_dtype pairs[][3] = {
        {LS_GEMM_F32, LS_GEMM_F32, LS_GEMM_F32},  {LS_GEMM_F64, LS_GEMM_F64, LS_GEMM_F64},
        {LS_GEMM_F16, LS_GEMM_F16, LS_GEMM_F16},  {LS_GEMM_BF16, LS_GEMM_BF16, LS_GEMM_BF16},
        {LS_GEMM_F16, LS_GEMM_F16, LS_GEMM_F32},  {LS_GEMM_BF16, LS_GEMM_F32, LS_GEMM_F32},
        {LS_GEMM_F32, LS_GEMM_F16, LS_GEMM_F32},  {LS_GEMM_F16, LS_GEMM_F32, LS_GEMM_F32},
        {LS_GEMM_F32, LS_GEMM_F32, LS_GEMM_BF16}, {LS_GEMM_I8, LS_GEMM_I8, LS_GEMM_I32},
        {LS_GEMM_U8, LS_GEMM_U8, LS_GEMM_I32},    {LS_GEMM_U8, LS_GEMM_I8, LS_GEMM_I32},
        {LS_GEMM_I8, LS_GEMM_U8, LS_GEMM_I32},
        {LS_GEMM_I32, LS_GEMM_I32, LS_GEMM_I32},
    };
    const ls_gemm_dtype *d =
        pairs[random_below(2) ? 0 : random_below((int64_t)(sizeof pairs / sizeof *pairs))];
    row r = {.a = d[0], .b = d[1], .out = d[2]};
    r.batches = random_below(4) ? 1 : random_below(4);
    r.m = random_side(300);
    r.n = random_side(300);
    static const int64_t depths[] = {0, 1, 2, 9, 64, 100, 511, 512, 513, 700, 1025};
    r.k = depths[random_below((int64_t)(sizeof depths / sizeof *depths))];
    while (r.m * r.n * r.k * r.batches > 1 << 20) {
        r.k /= 2;
        r.m -= r.m / 3;
    }
    r.a_layout = (enum layout)random_below(LAYOUTS);
    r.b_layout = (enum layout)random_below(LAYOUTS);
    r.a_given = (given)(random_below(2) ? 0 : random_below(GIVEN));
    r.b_given = (given)(random_below(2) ? 0 : random_below(GIVEN));
    r.out_layout = (int)random_below(3);
    r.epilogue = (int)random_below(may_follow() && r.a == LS_GEMM_F32 && r.out == LS_GEMM_F32 ? 5 : 3);
    r.how = (filling)random_below(4);
    static const int workers[] = {1, 2, 3, 8};
    r.crew = (crew){workers[random_below(4)], random_below(4) == 0};
    static const int64_t l2[] = {1, 64 << 10, 256 << 10, 2 << 20};
    r.l2 = l2[random_below(4)];
    r.shared_b = random_below(2);
    return r;
}

static void test_random_rows(void **state) {
    (void)state;
    for (int q = 0; q < 700; q++) {
        seed_state = (uint64_t)q;
        row r = random_row();
        run_row(&r);
    }
}

/* Padding without a value beside infinite weights: only an exact skip gives finite results. */
static void test_absent_beside_infinity(void **state) {
    (void)state;
    for (int q = 0; q < 24; q++) {
        row r = plain(1 + q * 3, 40 - q, q % 3 ? 37 : 700);
        r.how = q % 3 ? INFINITE : WILD;
        r.a_given = q % 2 ? HOLES : (given)(q % GIVEN);
        r.b_given = q % 2 ? (given)(q / 2 % GIVEN) : HOLES;
        r.a = r.b = r.out = q % 5 ? LS_GEMM_F32 : LS_GEMM_F64;
        r.l2 = q % 3 ? 1 : 0;
        r.crew.workers = 1 + q % 3;
        run_row(&r);
    }
}

/* Bytes of both kinds, in every layout and way of being given, at depths that fill no element of four. */
static void test_bytes(void **state) {
    (void)state;
    static const ls_gemm_dtype kinds[] = {LS_GEMM_I8, LS_GEMM_U8};
    static const int64_t depths[] = {1, 2, 3, 4, 5, 63, 127, 600, 2047, 2051, 4099};
    for (int q = 0; q < 264; q++) {
        row r = plain(1 + q % 29, 1 + q * 7 % 71, depths[q % 11]);
        r.a = kinds[q % 2];
        r.b = kinds[q / 2 % 2];
        r.out = LS_GEMM_I32;
        r.a_layout = (enum layout)(q / 4 % LAYOUTS);
        r.b_layout = (enum layout)(q / 12 % LAYOUTS);
        r.a_given = (given)(q / 3 % GIVEN);
        r.b_given = (given)(q / 5 % GIVEN);
        r.epilogue = q % 3;
        r.out_layout = q / 3 % 3;
        r.how = q % 7 ? WIDE : EXTREME;
        r.batches = 1 + q % 2;
        run_row(&r);
    }
}

/* Larger than every block, so that slabs, shared panels and many tasks happen. */
static void test_large(void **state) {
    (void)state;
    row r = plain(301, 263, 530);
    r.how = ORDINARY;
    r.l2 = 32 << 10;
    r.crew = (crew){3, true};
    run_row(&r);
    r = plain(70, 90, 17000); /* B too deep to be packed at once */
    r.how = ORDINARY;
    r.l2 = 1;
    r.crew = (crew){2, false};
    run_row(&r);
    r = plain(530, 1100, 7);
    r.how = ORDINARY;
    r.l2 = 1;
    r.out_layout = 1;
    r.crew = (crew){8, true};
    run_row(&r);
    r = plain(140, 700, 200); /* B in several shared slabs */
    r.how = ORDINARY;
    r.l2 = 1;
    r.crew = (crew){2, false};
    run_row(&r);
    r = plain(150, 40, 600); /* several entries, each with its own B, more than one block of rows */
    r.how = ORDINARY;
    r.l2 = 1;
    r.batches = 3;
    run_row(&r);
}

/* A NaN with a sign and a payload in one row of A, or in one column of B: every sum of it is the canonical NaN, no other changes. */
static void test_canonical_nan(void **state) {
    (void)state;
    enum { M = 26, N = 50, K = 600 };
    static const uint32_t odd = 0xffc12345;
    static float a[M * K], b[K * N], c[M * N];
    for (int q = 0; q < isa_count * 2 * (M + N) * 2; q++) {
        int s = q % isa_count, fast = q / isa_count % 2, at = q / isa_count / 2 % (M + N), p = q % 3 ? 599 : 7;
        ls_gemm g = {.isa = isas[s], .m = M, .n = q / isa_count / 2 / (M + N) ? N : 32, .k = K, .fast = fast};
        for (int i = 0; i < M * K; i++) {
            a[i] = 1;
        }
        for (int i = 0; i < K * N; i++) {
            b[i] = 1;
        }
        if (at >= M && at - M >= g.n) {
            continue;
        }
        memcpy(at < M ? &a[at * K + p] : &b[p * g.n + at - M], &odd, 4);
        g.a = (ls_gemm_operand){.dtype = LS_GEMM_F32, .data = a, .stride_i = K, .stride_k = 1};
        g.b = (ls_gemm_operand){.dtype = LS_GEMM_F32, .data = b, .stride_i = 1, .stride_k = g.n};
        g.out = (ls_gemm_out){.dtype = LS_GEMM_F32, .data = c, .stride_i = g.n, .stride_j = 1, .canonical_nan = true};
        void *workspace = guarded(ls_gemm_workspace(&g));
        ls_gemm_run(&g, (char *)workspace + GUARD);
        for (int64_t i = 0; i < g.m * g.n; i++) {
            uint32_t bits, right = 0x44160000; /* 600 */
            memcpy(&bits, &c[i], 4);
            assert_int_equal(bits, i / g.n == at || M + i % g.n == at ? LS_NAN_F32 : right);
        }
        free(workspace);
    }
}

/* Fast mode: within the bound of k + 1 roundings of the exact sum. The first are one row times a matrix whose columns lie along k. */
static void test_fast(void **state) {
    (void)state;
    static const ls_gemm_dtype of_rows[] = {LS_GEMM_F32, LS_GEMM_F16, LS_GEMM_BF16};
    for (int s = 0; s < isa_count; s++) {
        for (int q = -9; q < 12; q++) {
            bool row = q < 0, f64 = !row && q % 4 == 3;
            int64_t m = row ? 1 : 1 + q * 11, n = 90 - q * 7, k = q % 3 ? 100 + q : 1500 + q, size = f64 ? 8 : 4;
            matrix a, b;
            matrix_make(&a, f64 ? LS_GEMM_F64 : LS_GEMM_F32, m, k, 1, q % 2 ? K_FAST : I_FAST, ORDINARY);
            matrix_make(&b, row ? of_rows[(9 + q) / 3] : a.dtype, n, k, 1, row ? K_FAST : I_FAST, ORDINARY);
            char *out = guarded((size_t)(m * n * size));
            ls_gemm g = {.isa = isas[s], .m = m, .n = n, .k = k, .fast = true};
            g.a = (ls_gemm_operand){
                .dtype = a.dtype, .data = a.origin, .stride_i = a.stride_i, .stride_k = a.stride_k};
            g.b = (ls_gemm_operand){
                .dtype = b.dtype, .data = b.origin, .stride_i = b.stride_i, .stride_k = b.stride_k};
            g.out = (ls_gemm_out){.dtype = a.dtype, .data = out + GUARD, .stride_i = n, .stride_j = 1};
            size_t need = ls_gemm_workspace(&g);
            char *workspace = guarded(need);
            ls_gemm_run(&g, workspace + GUARD);
            check_guard(workspace, need, "fast workspace");
            check_guard(out, (size_t)(m * n * size), "fast output");
            for (int64_t i = 0; i < m; i++) {
                for (int64_t j = 0; j < n; j++) {
                    long double sum = 0, magnitude = 0;
                    for (int64_t p = 0; p < k; p++) {
                        value x = load_value(a.dtype, element(&a, 0, i, p)),
                              y = load_value(b.dtype, element(&b, 0, j, p));
                        long double product = f64 ? (long double)x.d * y.d : (long double)x.f * y.f;
                        sum += product;
                        magnitude += product < 0 ? -product : product;
                    }
                    value got = load_value(a.dtype, out + GUARD + (i * n + j) * size);
                    long double far = (f64 ? (long double)got.d : (long double)got.f) - sum;
                    long double bound = (long double)(k + 2) * (f64 ? 0x1p-53L : 0x1p-24L) * magnitude;
                    assert_true(far <= bound && far >= -bound);
                }
            }
            free(workspace);
            free(out);
            matrix_free(&a);
            matrix_free(&b);
        }
    }
}

static void test_half_moves(void **state) {
    (void)state;
    enum { N = 70 };
    for (int s = 0; s < isa_count; s++) {
        const ls_gemm_moves *moves = isas[s]->moves;
        for (uint32_t base = 0; base < 1 << 16; base += N) {
            uint16_t half[N], back[N];
            float wide[N];
            for (uint32_t i = 0; i < N; i++) {
                half[i] = (uint16_t)(base + i);
            }
            moves->from_f16(N, half, wide);
            moves->to_f16(N, wide, back);
            for (uint32_t i = 0; i < N; i++) {
                float right = ls_f16_to_f32(half[i]);
                assert_true(wide[i] == right || (wide[i] != wide[i] && right != right));
                assert_int_equal(back[i], ls_f32_to_f16(right));
            }
            for (uint32_t i = 0; i < N; i++) { /* near and at the ties, both ways */
                uint32_t bits = (base + i) << 16 | (uint32_t)(random_below(2) ? 0x8000 + random_below(3) - 1
                                                                              : random_below(65536));
                memcpy(&wide[i], &bits, 4);
            }
            moves->to_bf16(N, wide, back);
            for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(back[i], ls_f32_to_bf16(wide[i]));
            }
            for (uint32_t i = 0; i < N; i++) {
                wide[i] = (float)((double)ls_f16_to_f32((uint16_t)(base + i)) *
                                  (1 + 0x1p-11 * (double)(1 + random_below(3) - 1)));
            }
            moves->to_f16(N, wide, back);
            for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(back[i], ls_f32_to_f16(wide[i]));
            }
        }
    }
}

static void test_isa_choice(void **state) {
    (void)state;
    ls_cpu cpu = {.has = {[LS_CPU_SCALAR] = true, [LS_CPU_AVX2] = true}};
    ls_cpu_isa isa;
    assert_int_equal(ls_cpu_isa_choose(&cpu, NULL, &isa), LS_CPU_CHOSEN);
    assert_int_equal(isa, LS_CPU_AVX2);
    assert_int_equal(ls_cpu_isa_choose(&cpu, "scalar", &isa), LS_CPU_CHOSEN);
    assert_int_equal(isa, LS_CPU_SCALAR);
    assert_int_equal(ls_cpu_isa_choose(&cpu, "avx512", &isa), LS_CPU_NOT_HERE);
    assert_int_equal(isa, LS_CPU_AVX2);
    assert_int_equal(ls_cpu_isa_choose(&cpu, "sse9", &isa), LS_CPU_UNKNOWN_NAME);
    ls_cpu_detect(&cpu);
    assert_true(cpu.has[LS_CPU_SCALAR]);
    assert_true(cpu.l1d_bytes > 0 && cpu.l2_bytes > 0);
}

/* Of the worker that has most, where each begins with as many blocks as the next. */
static int64_t most_units(int64_t units, int64_t others, int64_t workers, int64_t blocks) {
    int64_t size = (units + blocks - 1) / blocks, tasks = (units + size - 1) / size, part = (tasks * others + workers - 1) / workers, most = 0;
    for (int64_t w = 0; w < workers; w++) {
        int64_t own = 0;
        for (int64_t t = w * part; t < (w + 1) * part && t < tasks * others; t++) {
            int64_t left = units - t % tasks * size;
            own += left < size ? left : size;
        }
        most = own > most ? own : most;
    }
    return most;
}

static void test_blocks(void **state) {
    (void)state;
    assert_int_equal(ls_gemm_blocks(22, 1, 2, 3, 1), 2);  /* 6 blocks: 12 and 10 */
    assert_int_equal(ls_gemm_blocks(16, 1, 2, 3, 1), 4);  /* 6 blocks: 9 and 7 */
    assert_int_equal(ls_gemm_blocks(24, 1, 2, 3, 1), 6);
    assert_int_equal(ls_gemm_blocks(24, 1, 2, 3, 7), 7);  /* as the cache wants it */
    assert_int_equal(ls_gemm_blocks(12, 128, 2, 3, 1), 1); /* images enough */
    assert_int_equal(ls_gemm_blocks(12, 3, 2, 3, 1), 2);
    assert_int_equal(ls_gemm_blocks(1, 1, 16, 3, 1), 1);
    for (int i = 0; i < 20000; i++) {
        int64_t units = 1 + random_below(200), others = 1 + random_below(i % 2 ? 1 : 9), workers = 1 + random_below(64), each = 1 + random_below(4),
                least = 1 + random_below(i % 3 ? 1 : units), blocks = ls_gemm_blocks(units, others, workers, each, least);
        assert_true(blocks >= least && (blocks == least || (blocks <= units && (blocks - 1) * others < each * workers)));
        for (int64_t fewer = 1; fewer <= each && least == 1; fewer++) {
            int64_t other = (fewer * workers + others - 1) / others;
            other = other < units ? other : units;
            int64_t size = (units + other - 1) / other, load = ((units + size - 1) / size * others + workers - 1) / workers * size;
            assert_true(most_units(units, others, workers, blocks) * 32 <= load * 33);
        }
    }
}

/* Products of pairs of bf16: what an operand is rounded to, a reference in doubles, and what is refused. */
typedef struct pairs_operand {
    float *x, *rounded; /* element (i, p) at [i*k + p] or, `along`, [p*extent + i] */
    bool along;
    ls_gemm_operand view;
    ls_gemm_packed packed;
    char *memory;
    size_t bytes;
} pairs_operand;

static bool pack_pairs(const ls_gemm_isa *isa, ls_gemm_side side, pairs_operand *o, int64_t extent, int64_t k) {
    bool fine = true;
    o->view = (ls_gemm_operand){.dtype = LS_GEMM_F32, .data = o->x, .stride_i = o->along ? 1 : k, .stride_k = o->along ? extent : 1};
    o->bytes = ls_gemm_packed_size(isa, side, LS_GEMM_PAIRS, extent, ls_gemm_pairs_of(isa, k));
    o->memory = guarded(o->bytes);
    o->packed = (ls_gemm_packed){isa, extent, ls_gemm_pairs_of(isa, k), ls_gemm_packed_width(isa, side, LS_GEMM_PAIRS, extent), true, o->memory + GUARD};
    for (int64_t i = 0; i < extent; i += o->packed.width) {
        fine &= ls_gemm_pack_pairs(isa, side, &o->view, i / o->packed.width, o->packed.width, extent, k, o->memory + GUARD);
    }
    check_guard(o->memory, o->bytes, "pairs");
    return fine;
}

static pairs_operand pairs_operand_of(int64_t extent, int64_t k, bool along) {
    pairs_operand o = {.along = along, .x = malloc((size_t)(extent * k) * 4), .rounded = malloc((size_t)(extent * k) * 4)};
    assert_true(o.x && o.rounded);
    for (int64_t i = 0; i < extent * k; i++) {
        int64_t kind = random_below(8);
        o.x[i] = kind == 0 ? -0.0f : (float)((double)(int64_t)random_bits() * (kind == 1 ? 0x1p-118 : 0x1p-63));
        o.x[i] = o.x[i] != 0 && __builtin_fabsf(o.x[i]) < 0x1p-58f ? 0x1p-58f : o.x[i];
        o.rounded[i] = ls_bf16_to_f32(ls_f32_to_bf16(o.x[i]));
    }
    return o;
}

static void pairs_operand_free(pairs_operand *o) {
    free(o->x);
    free(o->rounded);
    free(o->memory);
}

static void check_pairs(const ls_gemm_isa *isa, int64_t m, int64_t n, int64_t k, int how) {
    pairs_operand a = pairs_operand_of(m, k, how & 1), b = pairs_operand_of(n, k, how & 2);
    crew c = {1 + (int)random_below(4), how & 4};
    int64_t ld = n + random_below(3), step = how & 8 ? 2 : 1; /* a step of 2 goes through scratch memory */
    assert_true(pack_pairs(isa, LS_GEMM_A, &a, m, k) && pack_pairs(isa, LS_GEMM_B, &b, n, k));
    size_t bytes = (size_t)(((m - 1) * ld + n - 1) * step + 1) * 4;
    char *out = guarded(bytes);
    ls_gemm g = {.isa = isa, .m = m, .n = n, .k = ls_gemm_pairs_of(isa, k), .fast = true, .parallel = {crew_run, &c, c.workers, false},
                 .a = {.dtype = LS_GEMM_PAIRS, .packed = &a.packed},
                 .b = {.dtype = LS_GEMM_PAIRS, .packed = &b.packed},
                 .out = {.dtype = LS_GEMM_F32, .data = out + GUARD, .stride_i = ld * step, .stride_j = step}};
    size_t need = ls_gemm_workspace(&g);
    char *scratch = guarded(need);
    ls_gemm_run(&g, scratch + GUARD);
    check_guard(scratch, need, "scratch");
    check_guard(out, bytes, "out");
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0, y = ((float *)(out + GUARD))[(i * ld + j) * step];
            for (int64_t p = 0; p < k; p++) {
                double term = (double)a.rounded[a.along ? p * m + i : i * k + p] * b.rounded[b.along ? p * n + j : j * k + p];
                sum += term;
                size += __builtin_fabs(term);
            }
            if (!(__builtin_fabs(y - sum) <= (double)(k + 2) * 0x1p-24 * size)) {
                fail_msg("%dx%dx%d, %d: [%d][%d] is %a, not %a", (int)m, (int)n, (int)k, how, (int)i, (int)j, y, sum);
            }
        }
    }
    free(scratch);
    free(out);
    pairs_operand_free(&a);
    pairs_operand_free(&b);
}

/* All of it, for one way to multiply them. */
static void check_pairs_of(const ls_gemm_isa *isa) {
    for (int64_t m = 1; m <= 17; m++) {
        for (int64_t n = 1; n <= 97; n += n % 16 == 1 && n > 1 ? 14 : 1) {
            check_pairs(isa, m, n, 1 + random_below(40), (int)random_below(16));
        }
    }
    static const int64_t depths[] = {1, 2, 127, 128, 129, 1023, 1024, 1025, 2051};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        for (int how = 0; how < 16; how++) {
            check_pairs(isa, 8 + random_below(90), 16 + random_below(90), depths[i], how);
        }
    }
    check_pairs(isa, 300, 1100, 70, 4);
    static const float refused[] = {0x1p-149f, 0x1.fffffep-59f, 0x1p63f, 0x1p127f, __builtin_inff(), __builtin_nanf("")};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        for (int how = 0; how < 4; how++) {
            int64_t extent = 1 + random_below(60), k = 1 + random_below(300), at = random_below(extent * k);
            pairs_operand o = pairs_operand_of(extent, k, how & 1);
            o.x[at] = how & 2 ? -refused[i] : refused[i];
            assert_false(pack_pairs(isa, i % 2 ? LS_GEMM_A : LS_GEMM_B, &o, extent, k));
            free(o.memory);
            o.x[at] = 0x1p62f;
            assert_true(pack_pairs(isa, i % 2 ? LS_GEMM_A : LS_GEMM_B, &o, extent, k));
            pairs_operand_free(&o);
        }
    }
}

static void test_pairs(void **state) {
    (void)state;
    const ls_gemm_isa *isa = isas[isa_count - 1];
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    if (!cpu.avx512_bf16) {
        print_message("this processor does not multiply pairs of bf16\n");
        skip();
    }
    if (ls_gemm_has_pairs(isa)) {
        check_pairs_of(isa);
    }
    ls_gemm_isa by_hand = *isa;
    by_hand.pairs = ls_amx_by_hand();
    assert_non_null(by_hand.pairs);
    check_pairs_of(&by_hand);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isa_choice),  cmocka_unit_test(test_half_moves),
        cmocka_unit_test(test_every_tile),  cmocka_unit_test(test_slices), cmocka_unit_test(test_follow), cmocka_unit_test(test_bytes), cmocka_unit_test(test_extreme_bytes),
        cmocka_unit_test(test_every_edge),  cmocka_unit_test(test_depths),
        cmocka_unit_test(test_canonical_nan), cmocka_unit_test(test_rows_of_halves),
        cmocka_unit_test(test_random_rows), cmocka_unit_test(test_absent_beside_infinity),
        cmocka_unit_test(test_large),       cmocka_unit_test(test_fast),
        cmocka_unit_test(test_blocks),      cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests_name("gemm", tests, find_isas, NULL);
}
