/* Random products with quantised operands, on `cpu` and on `ref`: programs launched several times, what they read written anew between some
 * launches; and in fast and reduced arithmetic within the oracle's bound. For LOCKSTEP_SECONDS (2) each, from the seed LOCKSTEP_SEED (1) on. A
 * case is its seed. */
#include "conformance/cpu_cases.h"
#include <lockstep/quant.h>

enum { MOST_INPUTS = 6, LAUNCHES = 5 };

typedef struct quant_graph {
    ls_tensor *inputs[MOST_INPUTS], *root;
    int n;
    ls_symbol *rows;
    ls_rng *values; /* NULL: inputs; else tensors of these */
} quant_graph;

static void fill(ls_rng *rng, ls_dtype dtype, void *data, size_t bytes, bool wild) {
    fill_data(rng, dtype, data, (int64_t)(bytes / ls_dtype_size(dtype)));
    int64_t n = (int64_t)(bytes / ls_dtype_size(dtype));
    int64_t bits = 1 << (1 + ls_rng_below(rng, 8));
    for (int64_t i = 0; i < n && !wild; i++) {
        if (dtype == LS_F32) {
            float *x = (float *)data + i;
            *x = *x - *x == 0 && *x < 1000 && *x > -1000 ? *x : 1;
        } else if (dtype == LS_I32) {
            ((int32_t *)data)[i] &= (int32_t)bits - 1;
        } else if (dtype == LS_I16) {
            ((int16_t *)data)[i] &= (int16_t)(bits - 1);
        }
    }
}

static ls_tensor *input(ls_session *s, quant_graph *g, ls_dtype dtype, ls_shape shape) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    if (g->values) {
        size_t bytes = (size_t)numel_of(shape) * ls_dtype_size(dtype);
        void *data = calloc(1, bytes + 1);
        fill(g->values, dtype, data, bytes, false);
        g->inputs[g->n] = ls_tensor_from(s, dtype, shape, data);
        free(data);
        return g->inputs[g->n++];
    }
    g->inputs[g->n] = ls_input(s, names[g->n], dtype, shape);
    return g->inputs[g->n++];
}

static ls_tensor *rows_of(ls_session *s, ls_rng *rng, quant_graph *g, int64_t k, ls_context *context) {
    ls_shape shape = LS_SHAPE(draw(rng, 1, 3), draw(rng, 1, 40), k);
    if (chance(rng, 3)) {
        shape = LS_SHAPE(1, k);
    } else if (chance(rng, 3) && !g->values) {
        g->rows = ls_symbol_create(context, "rows", 40, NULL);
        shape.dim[1] = ls_dim_symbol(g->rows, 1, 0);
    } else if (chance(rng, 3)) {
        return ls_transpose(s, input(s, g, LS_F32, LS_SHAPE(k, draw(rng, 1, 20))), 0, 1);
    }
    return input(s, g, chance(rng, 8) ? LS_F16 : LS_F32, shape);
}

/* Codes, moved by zero points or not, times scales: of any block, in any order of memory. */
static ls_tensor *operand(ls_session *s, ls_rng *rng, quant_graph *g, int64_t n, int64_t k, bool along_n) {
    static const ls_dtype dtypes[] = {LS_U8, LS_I8, LS_I32, LS_I16};
    int64_t block = (int64_t)8 << ls_rng_below(rng, 5), blocks = (k + block - 1) / block;
    ls_tensor *q = ls_cast(s, input(s, g, dtypes[ls_rng_below(rng, 4)], along_n ? LS_SHAPE(k, n) : LS_SHAPE(n, k)), LS_F32);
    ls_tensor *d = ls_cast(s, input(s, g, chance(rng, 2) ? LS_F16 : LS_F32, along_n ? LS_SHAPE(blocks, n) : LS_SHAPE(n, blocks)), LS_F32);
    ls_tensor *zero = chance(rng, 3) ? ls_cast(s, input(s, g, LS_U8, along_n ? LS_SHAPE(blocks, n) : LS_SHAPE(n, blocks)), LS_F32) : NULL;
    for (int i = 0; i < 2; i++) {
        ls_tensor **x = i ? &zero : &d;
        if (*x) {
            *x = along_n ? ls_reshape(s, ls_expand(s, ls_unsqueeze(s, *x, 1), LS_SHAPE(blocks, block, n)), LS_SHAPE(blocks * block, n))
                         : ls_reshape(s, ls_expand(s, ls_unsqueeze(s, *x, 2), LS_SHAPE(n, blocks, block)), LS_SHAPE(n, blocks * block));
            *x = ls_narrow(s, *x, along_n ? 0 : 1, 0, k);
        }
    }
    q = zero ? ls_sub(s, q, zero) : chance(rng, 3) ? ls_sub(s, q, ls_full(s, LS_F32, LS_SCALAR, 8)) : q;
    q = chance(rng, 2) ? ls_mul(s, q, d) : ls_mul(s, d, q);
    return along_n ? ls_transpose(s, q, 0, 1) : q;
}

static quant_graph build(ls_session *s, ls_context *context, ls_rng *rng, ls_rng *values) {
    quant_graph g = {.values = values};
    int64_t n = draw(rng, 1, 200), k = draw(rng, 1, chance(rng, 4) ? 1500 : 200);
    k = chance(rng, 2) ? (k + 31) / 32 * 32 : k;
    if (k % 32 == 0 && chance(rng, 2)) {
        ls_quant kind = chance(rng, 2) ? LS_Q4_0 : LS_Q8_0;
        ls_tensor *x = rows_of(s, rng, &g, k, context);
        ls_tensor *w = input(s, &g, LS_U8, LS_SHAPE(n, ls_quant_bytes(kind, k)));
        ls_tensor *bias = chance(rng, 2) ? input(s, &g, ls_tensor_dtype(x), LS_SHAPE(n)) : NULL;
        g.root = ls_linear_q(s, x, w, kind, bias);
    } else {
        ls_tensor *x = ls_cast(s, rows_of(s, rng, &g, k, context), LS_F32);
        g.root = ls_linear(s, x, operand(s, rng, &g, n, k, chance(rng, 2)), NULL);
    }
    if (chance(rng, 4)) {
        g.root = ls_relu(s, g.root);
    }
    if (chance(rng, 4)) {
        g.root = ls_mul(s, g.root, g.root);
    }
    return g;
}

typedef struct quant_run {
    void *out[LAUNCHES];
    size_t bytes[LAUNCHES];
} quant_run;

static quant_run run(world *w, uint64_t seed, ls_math math) {
    quant_run r = {0};
    ls_rng rng = {seed, 0}, values = {seed, 1};
    world_ok(w, ls_scope_begin(w->session));
    ls_session_set_math(w->session, math);
    quant_graph g = build(w->session, w->context, &rng, NULL);
    if (!g.root) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, ls_session_error(w->session)->message);
    }
    ls_program *program;
    void *in[MOST_INPUTS] = {NULL};
    bool wild = chance(&values, 4);
    world_ok(w, ls_program_compile(w->session, g.inputs, g.n, &g.root, 1, &program));
    for (int i = 0; i < g.n; i++) {
        in[i] = calloc(1, ls_tensor_bytes(w->session, g.inputs[i]) + 1);
        fill(&values, ls_tensor_dtype(g.inputs[i]), in[i], ls_tensor_bytes(w->session, g.inputs[i]), wild);
    }
    for (int launch = 0; launch < LAUNCHES; launch++) {
        if (g.rows) {
            world_ok(w, ls_symbol_bind(w->session, g.rows, draw(&values, 0, 40)));
        }
        for (int i = 0; i < g.n && launch; i++) {
            if (chance(&values, 4)) {
                fill(&values, ls_tensor_dtype(g.inputs[i]), in[i], ls_tensor_bytes(w->session, g.inputs[i]), wild);
            }
        }
        r.bytes[launch] = ls_tensor_bytes(w->session, g.root);
        r.out[launch] = calloc(1, r.bytes[launch] + 1);
        world_ok(w, ls_program_run(program, (const void *const *)in, &r.out[launch]));
    }
    for (int i = 0; i < g.n; i++) {
        free(in[i]);
    }
    ls_program_destroy(program);
    ls_scope_end(w->session);
    return r;
}

static void random_cases(void **state) {
    worlds *all = *state;
    seeds s = seeds_from(2);
    do {
        quant_run want = run(&all->ref, s.seed, LS_LOCKED);
        int c = (int)(s.seed % (uint64_t)all->n);
        quant_run got = run(&all->cpu[c], s.seed, LS_LOCKED);
        for (int i = 0; i < LAUNCHES; i++) {
            check_bytes(all->names[c], "quantised", s.seed, i, got.out[i], got.bytes[i], want.out[i], want.bytes[i]);
            free(want.out[i]), free(got.out[i]);
        }
        all->cases++;
    } while (seeds_next(&s));
}

/* Fast and reduced products lie within the oracle's bound. */
static void bounded(void **state) {
    worlds *all = *state;
    seeds s = seeds_from(2);
    do {
        world *w = &all->cpu[s.seed % (uint64_t)all->n];
        ls_rng rng = {s.seed, 0}, values = {s.seed, 1};
        world_ok(w, ls_scope_begin(w->session));
        ls_session_set_math(w->session, s.seed % 3 ? LS_REDUCED : LS_FAST);
        quant_graph g = build(w->session, w->context, &rng, &values);
        if (!g.root) {
            fail_msg("seed %llu: %s", (unsigned long long)s.seed, ls_session_error(w->session)->message);
        }
        check_bound(w, all->names[s.seed % (uint64_t)all->n], "quantised", s.seed, &g.root, 1);
        ls_scope_end(w->session);
    } while (seeds_next(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_cases), cmocka_unit_test(bounded)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
