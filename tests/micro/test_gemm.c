/* The packed matrix product, the whole driver, against straight loops over the contraction rule, bit for bit: awkward shapes, layouts,
 * dtypes, task splits, packed and callback operands, absent elements. Outputs and scratch memory stand between guard zones. */
#define _DEFAULT_SOURCE

#include "micro/gemm_support.h"
#include <stdio.h>

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
                float plus = v->follows->follow.columns ? v->follows->follow.plus[j0 + j] : *x;
                value own = {.f = followed(&v->follows->follow, batch * v->m + i0 + i, ((float *)tile)[i * ld + j], plus)};
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
    int epilogue;   /* 0: none, 1: in place, 2: instead of the output, 3 to 5: tiles may do it, of f32 alone; 4: with elements in C's
                       place, 5: with a row of them */
    filling how;
    bool fast; /* of whole numbers: the same bits */
    crew crew;
    int64_t l2;
    bool l2_is_near, fetches_best;
    bool shared_b; /* one B for all batch entries */
} row;

static void describe(char *text, size_t size, const ls_gemm_isa *isa, const row *r) {
    snprintf(text, size,
             "%s %lldx%lldx%lld batch %lld %s*%s->%s layouts %d,%d,%d given %d,%d epilogue %d values %d "
             "workers %d%s "
             "l2 %lld near %d best %d shared %d",
             ls_cpu_isa_name(isa->isa), (long long)r->m, (long long)r->n, (long long)r->k,
             (long long)r->batches, dtype_names[r->a], dtype_names[r->b], dtype_names[r->out], r->a_layout,
             r->b_layout, r->out_layout, r->a_given, r->b_given, r->epilogue, r->how, r->crew.workers,
             r->crew.threads ? " threads" : "", (long long)r->l2, r->l2_is_near, r->fetches_best, r->shared_b);
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

/* The operand of one side. */
static void give(ls_gemm *g, ls_gemm_side side, given how, matrix *m, bool other_is_packed, ls_gemm_packed *packed, char **out_memory) {
    ls_gemm_operand *o = side == LS_GEMM_A ? &g->a : &g->b;
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
        ls_gemm_side sort = side == LS_GEMM_A ? ls_gemm_side_a(g, g->n, other_is_packed) : side;
        size_t bytes = ls_gemm_packed_size(g->isa, sort, m->dtype, m->extent, m->k);
        *out_memory = guarded(bytes);
        ls_gemm_pack(g->isa, sort, o, m->extent, m->k, *out_memory + GUARD, packed);
        check_guard(*out_memory, bytes, "packed operand");
        o->packed = packed;
    }
}

/* One row on one instruction set; `right` holds the reference's answers, [batch][m][n]. */
static void run_on(const ls_gemm_isa *isa, const row *r, matrix *pa, matrix *pb, const value *answers) {
    char text[300];
    describe(text, sizeof text, isa, r);
    crew c = r->crew;
    ls_gemm g = {.isa = isa, .m = r->m, .n = r->n, .k = r->k, .batch_rank = r->batches != 1 || r->k % 2, .batch = {r->batches}};
    g.parallel = (ls_gemm_parallel){crew_run, &c, c.workers, r->m % 2 > 0};
    g.l2_bytes = r->l2;
    g.l2_is_near = r->l2_is_near;
    g.fetches_best = r->fetches_best;
    g.fast = r->fast;
    ls_gemm_packed packed_a, packed_b;
    char *memory_a, *memory_b;
    give(&g, LS_GEMM_A, r->a_given, pa, r->b_given == PACKED, &packed_a, &memory_a);
    give(&g, LS_GEMM_B, r->b_given, pb, r->a_given == PACKED, &packed_b, &memory_b);

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
    float *row = calloc((size_t)r->n + 1, sizeof *row), *adds = calloc((size_t)(2 * r->batches * r->m + 1), sizeof *adds);
    if (r->epilogue > 2) {
        for (int64_t i = 0; i < r->batches * r->m; i++) {
            adds[2 * i] = (float)(i % 7) - 3;
        }
        for (int64_t j = 0; j < r->n; j++) {
            row[j] = (float)(j % 11) - 5;
        }
        g.follow = (ls_gemm_follow){adds, 2, r->epilogue > 3, r->epilogue == 5, r->epilogue == 5 ? row : g.out.data, r->n % 2 ? 0.5F : -__builtin_inff()};
        g.follow.plus = r->epilogue > 3 ? g.follow.plus : NULL;
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
                    v.f = followed(&g.follow, e * r->m + i, v.f, r->epilogue == 5 ? row[j] : *plus);
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
    free(row);
    free(out);
    free(expected);
    free(memory_a);
    free(memory_b);
}

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
            r.l2_is_near = true;
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
    static const int64_t extents[] = {1, 2, 5, 6, 8, 13, 16, 32, 64};
    static const int64_t columns[] = {16, 20, 49, 64, 80, 196, 300, 1024}, depths[] = {1, 16, 32, 100, 513};
    for (int q = 0; q < 9 * 8 * 5; q++) {
        row r = plain(extents[q % 9], columns[q / 9 % 8], depths[q / 72]);
        r.epilogue = 3 + (q / 3 + q / 8) % 3;
        r.out_layout = q % 5 == 4 ? q % 3 : 0;
        r.a_given = q / 2 % 3 ? PACKED : VIEW;
        r.b_given = q % 7 == 3 ? PACKED : VIEW;
        r.how = q % 4 == 1 ? WILD : ORDINARY;
        r.crew = (crew){1 + q / 4 % 3, false};
        r.batches = 1 + (q % 6 == 5);
        r.l2_is_near = q / 2 % 2;
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
    r.epilogue = (int)random_below(may_follow() && r.a == LS_GEMM_F32 && r.out == LS_GEMM_F32 ? 6 : 3);
    r.how = (filling)random_below(4);
    static const int workers[] = {1, 2, 3, 8};
    r.crew = (crew){workers[random_below(4)], random_below(4) == 0};
    static const int64_t l2[] = {1, 64 << 10, 256 << 10, 2 << 20};
    r.l2 = l2[random_below(4)];
    r.l2_is_near = random_below(2);
    r.fetches_best = random_below(2);
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

static void test_fast_random_rows(void **state) {
    (void)state;
    for (int q = 0; q < 300; q++) {
        seed_state = (uint64_t)q + 1000;
        row r = random_row();
        r.how = WHOLE;
        r.fast = true;
        if (q % 2) { /* whole tiles of eight rows, or some */
            r.m = 8 * (1 + random_below(16)) + (q % 8 == 7);
            r.n = 500 + random_below(300);
            r.k = 1 + random_below(24);
            r.batches = 1 + random_below(2);
        }
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
    static const struct {
        int64_t m, n, k, batches, l2;
        int out_layout;
        crew crew;
    } large[] = {
        {301, 263, 530, 1, 32 << 10, 0, {3, true}},
        {70, 90, 17000, 1, 1, 0, {2, false}}, /* B too deep to be packed at once */
        {530, 1100, 7, 1, 1, 1, {8, true}},
        {140, 700, 200, 1, 1, 0, {2, false}}, /* B in several shared slabs */
        {150, 40, 600, 3, 1, 0, {1, false}},  /* several entries, each with its own B, more than one block of rows */
    };
    for (size_t q = 0; q < sizeof large / sizeof *large; q++) {
        row r = plain(large[q].m, large[q].n, large[q].k);
        r.how = ORDINARY;
        r.batches = large[q].batches;
        r.l2 = large[q].l2;
        r.out_layout = large[q].out_layout;
        r.crew = large[q].crew;
        run_row(&r);
    }
}

/* Rows of B too far apart to be read like panels, a power of two or not, by few and by many rows of A. */
static void test_far_rows(void **state) {
    (void)state;
    static const int64_t heights[] = {1, 2, 5, 8, 9, 12, 16, 17, 31, 50, 130}, depths[] = {64, 131, 520};
    for (int q = 0; q < 11 * 3 * 2 * 2 * 2; q++) {
        row r = plain(heights[q % 11], q / 33 % 2 ? 264 : 1024, depths[q % 3]);
        r.how = ORDINARY;
        r.l2_is_near = true;
        r.l2 = q / 66 % 2;
        r.fetches_best = q / 132;
        run_row(&r);
    }
}

/* Few rows by packed panels, some or all of whose lines tiles fetch, as those would be in a cache or in memory; all whole panels, or not. */
static void test_few_rows_by_panels(void **state) {
    (void)state;
    for (int q = 0; q < 20 * 128 / 3; q++) { /* a third of the ways for each number of rows */
        const int way = 3 * q / 20;
        row r = plain(1 + 3 * q % 20, way & 1 ? 256 : 200, way & 2 ? 40 : 520);
        r.how = WHOLE;
        r.b_given = PACKED;
        r.fast = way & 4;
        r.l2_is_near = way & 8;
        r.l2 = way & 16 ? 1 : 0;
        r.a_given = way & 32 ? CALLBACK : VIEW; /* packed on the way, or not */
        r.fetches_best = way & 64;
        r.epilogue = may_follow() ? q % 6 : q % 3;
        r.crew = (crew){1 + q % 3, false};
        run_row(&r);
    }
}

/* One row by rows of B where they lie: of fewer columns than a vector has, of as many vectors as registers keep and of more, whole or not, and
 * of which a vector or several are read before the next one's. */
static void test_one_row(void **state) {
    (void)state;
    static const int64_t columns[] = {1, 3, 4, 10, 15, 16, 47, 64, 97, 129, 255, 256, 257, 333}, depths[] = {1, 5, 8, 23, 513, 1030};
    for (int q = 0; q < 14 * 6 * 2 * 2; q++) {
        row r = plain(1, columns[q % 14], depths[q / 14 % 6]);
        r.fetches_best = q / 84 % 2;
        r.fast = q / 168;
        r.how = r.fast ? WHOLE : q / 14 % 4 == 1 ? WILD : ORDINARY;
        r.crew = (crew){1 + q / 12 % 3, false};
        run_row(&r);
    }
}

/* One row over several chunks of k, of each type: cut between workers, whose sums of chunks are added at the end, or where its rows lie along
 * k, a few of them at a time. */
static void test_row_of_chunks(void **state) {
    (void)state;
    static const ls_gemm_dtype dtypes[][3] = {{LS_GEMM_F32, LS_GEMM_F32, LS_GEMM_F32}, {LS_GEMM_F32, LS_GEMM_BF16, LS_GEMM_F32},
                                              {LS_GEMM_F32, LS_GEMM_F16, LS_GEMM_F16}, {LS_GEMM_F64, LS_GEMM_F64, LS_GEMM_F64},
                                              {LS_GEMM_I32, LS_GEMM_I32, LS_GEMM_I32}, {LS_GEMM_I8, LS_GEMM_U8, LS_GEMM_I32}};
    static const int64_t columns[] = {37, 64, 130, 333}, depths[] = {4096, 4600, 8190, 1030};
    for (int q = 0; q < 6 * 4 * 4; q++) {
        row r = plain(1, columns[q % 4], depths[q / 4 % 4]);
        r.b_layout = q % 7 < 2 ? K_FAST : I_FAST;
        r.a_layout = q % 7 == 1 ? NEITHER : K_FAST;
        r.a = dtypes[q / 16][0];
        r.b = dtypes[q / 16][1];
        r.out = dtypes[q / 16][2];
        r.out_layout = q % 3;
        r.epilogue = q / 3 % 3;
        r.fast = q % 5 == 0;
        r.how = r.fast ? WHOLE : q % 5 == 1 ? WILD : ORDINARY;
        r.crew = (crew){2 + q % 4, q % 2};
        run_row(&r);
    }
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
        for (int q = -9; q < 24; q++) {
            bool row = q < 0, f64 = !row && q % 4 == 3, tall = q >= 18;
            bool far = q >= 12; /* rows of B, in the way of both kinds of processors */
            int64_t m = row ? 1 : 1 + q * 11, n = 90 - q * 7, k = q % 3 ? 100 + q : 1500 + q, size = f64 ? 8 : 4;
            if (far) {
                m = 1 + (q - 12) * 5;
                n = q % 2 ? 264 : 512;
                k = 560;
            }
            if (tall) { /* whole tiles of eight rows */
                m = q < 23 ? 32 : 64;
                k = 21;
            }
            matrix a, b;
            matrix_make(&a, f64 ? LS_GEMM_F64 : LS_GEMM_F32, m, k, 1, q % 2 ? K_FAST : I_FAST, ORDINARY);
            matrix_make(&b, row ? of_rows[(9 + q) / 3] : a.dtype, n, k, 1, row ? K_FAST : I_FAST, ORDINARY);
            char *out = guarded((size_t)(m * n * size));
            ls_gemm g = {.isa = isas[s], .m = m, .n = n, .k = k, .fast = true, .l2_is_near = q / 2 % 2};
            ls_gemm_packed packed_a, packed_b;
            char *memory_a, *memory_b;
            bool both = q == 18;
            give(&g, LS_GEMM_A, tall && q < 21 ? PACKED : VIEW, &a, both, &packed_a, &memory_a);
            give(&g, LS_GEMM_B, both ? PACKED : VIEW, &b, both, &packed_b, &memory_b);
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
            free(memory_a);
            free(memory_b);
            free(out);
            matrix_free(&a);
            matrix_free(&b);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_extreme_bytes),
        cmocka_unit_test(test_every_edge),
        cmocka_unit_test(test_depths),
        cmocka_unit_test(test_canonical_nan),
        cmocka_unit_test(test_rows_of_halves),
        cmocka_unit_test(test_random_rows),
        cmocka_unit_test(test_absent_beside_infinity),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_one_row),
        cmocka_unit_test(test_row_of_chunks),
        cmocka_unit_test(test_far_rows),
        cmocka_unit_test(test_few_rows_by_panels),
        cmocka_unit_test(test_fast),
        cmocka_unit_test(test_fast_random_rows),
    };
    return cmocka_run_group_tests_name("gemm", tests, find_isas, NULL);
}
