/* Random graphs whose extents are symbols, compiled once and run at several values (0, 1 and fewer than a window among them), against the same
 * graphs of fixed extents on `ref`: for LOCKSTEP_SECONDS (6), from seed 1 on, each on one configuration of `cpu` by turns and at times on `ref`.
 * LOCKSTEP_SEED=n begins there. A failure prints its graph. */
#include "conformance/cpu_cases.h"

enum { STEPS = 7, INPUTS = 24, RUNS = 5, GUARD = 64 };

typedef struct sample {
    ls_session *s;
    ls_symbol *symbols[2]; /* NULL: extents are fixed */
    int64_t values[2];
    bool *refused; /* steps that symbols do not have */
    ls_tensor *inputs[INPUTS], *roots[STEPS + 1];
    int n_inputs, n_roots;
    ls_tensor *pool[STEPS + 1];
    int n;
} sample;

static const int64_t bounds[2] = {17, 8};
static char graph[1000];

static ls_dim dim_of(const sample *c, ls_rng *rng) {
    int which = chance(rng, 3);
    int64_t scale = chance(rng, 4) ? 2 : 1, offset = chance(rng, 3) ? draw(rng, 0, 3) : 0,
            fixed = draw(rng, 1, 9);
    bool symbolic = !chance(rng, 3);
    return !symbolic           ? ls_dim_of(fixed)
           : c->symbols[which] ? ls_dim_symbol(c->symbols[which], scale, offset)
                               : ls_dim_of(scale * c->values[which] + offset);
}

static ls_tensor *input(sample *c, ls_shape shape) {
    return c->n_inputs == INPUTS ? NULL : (c->inputs[c->n_inputs++] = ls_input(c->s, "x", LS_F32, shape));
}

/* Of the graph of symbols alone; NULL begins it. */
static void note(const sample *c, const char *step, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    char text[200] = "";
    for (int i = 0; c->symbols[0] && i < shape.rank; i++) {
        ls_dim d = shape.dim[i];
        size_t at = strlen(text);
        const char *name = !d.symbol ? NULL : d.symbol == c->symbols[1] ? "m" : "n", *comma = i ? "," : "";
        if (name) {
            snprintf(text + at, sizeof text - at, "%s%d%s%+d", comma, (int)d.scale, name, (int)d.offset);
        } else {
            snprintf(text + at, sizeof text - at, "%s%d", comma, (int)d.offset);
        }
    }
    if (c->symbols[0]) {
        size_t at = step ? strlen(graph) : 0;
        snprintf(graph + at, sizeof graph - at, "%s [%s]; ", step ? step : "input", text);
    }
}

/* One more tensor. What is drawn must not depend on values of symbols. */
static ls_tensor *grow(sample *c, ls_rng *rng, ls_tensor *const *pool, int n, const char **name, int *from) {
    ls_session *s = c->s;
    *from = chance(rng, 2) ? n - 1 : (int)ls_rng_below(rng, (uint64_t)n);
    ls_tensor *x = pool[*from], *y;
    ls_shape shape = ls_tensor_shape(x), other = shape;
    int rank = shape.rank, axis = rank ? (int)ls_rng_below(rng, (uint64_t)rank) : 0;
    ls_pad_spec pads[LS_MAX_RANK];
    ls_window_spec window = {draw(rng, 1, 4), chance(rng, 4) ? 2 : 1, chance(rng, 4) ? 2 : 1};
    ls_conv_spec conv = {.spatial = 1,
                         .stride = {window.stride},
                         .dilation = {window.dilation},
                         .pad_low = {draw(rng, 0, 2)},
                         .pad_high = {draw(rng, 0, 2)},
                         .groups = 1};
    for (int i = 0; i < rank; i++) {
        pads[i] = (ls_pad_spec){draw(rng, -3, 3), draw(rng, -3, 3), 0};
        other.dim[i] = chance(rng, 2) ? shape.dim[i] : ls_dim_of(1);
    }
    *name = "";
#define STEP(label, tensor) return *name = label, tensor
    uint64_t kind = rank ? ls_rng_below(rng, 17) : 15;
    switch (kind) {
    case 0:
        STEP("exp", ls_exp(s, x));
    case 1:
        STEP("mul", ls_mul(s, x, input(c, other)));
    case 2:
        STEP("pad", ls_pad(s, x, pads, 0.5));
    case 3:
        STEP("pad absent", ls_pad_absent(s, x, pads));
    case 4:
        STEP("window", ls_sum(s, ls_window(s, x, 1, &axis, &window), 1, &rank, 0));
    case 5:
        STEP("window max", ls_amax(s, ls_window(s, ls_relu(s, x), 1, &axis, &window), 1, &rank, 0));
    case 6:
        STEP("softmax", ls_softmax(s, x, axis));
    case 7:
        STEP("mean", ls_sub(s, x, ls_mean(s, x, 1, &axis, 1)));
    case 8:
        STEP("sum", ls_sum(s, x, 1, &axis, chance(rng, 2)));
    case 9:
        STEP("scan", ls_scan(s, x, LS_SCAN_SUM, axis, 0, 0));
    case 10:
        STEP("concat", ls_concat(s, (ls_tensor *[]){x, input(c, shape), x}, 3, axis));
    case 11:
        STEP("transpose", ls_transpose(s, x, axis, rank - 1));
    case 12:
        if (rank < 2) {
            return NULL;
        }
        other = (ls_shape){.rank = 2, .dim = {shape.dim[rank - 1], dim_of(c, rng)}};
        STEP("matmul", ls_matmul(s, x, input(c, other)));
    case 13:
        if (rank != 3) {
            return NULL;
        }
        other =
            (ls_shape){.rank = 3, .dim = {ls_dim_of(draw(rng, 1, 9)), shape.dim[1], ls_dim_of(window.size)}};
        STEP("conv", ls_conv(s, chance(rng, 2) ? ls_relu(s, x) : x, input(c, other), NULL, &conv));
    case 14:
        STEP("sort", ls_sort(s, x, axis, 0));
    case 15:
        other = (ls_shape){.rank = 1 + (int)ls_rng_below(rng, 3)};
        *from = -1;
        for (int i = 0; i < other.rank; i++) {
            other.dim[i] = dim_of(c, rng);
        }
        STEP("input", input(c, other));
    default:
        y = input(c, shape);
        STEP("iota",
             ls_where(s, ls_lt(s, ls_iota(s, LS_F32, shape, axis), ls_full(s, LS_F32, LS_SCALAR, 3)), x, y));
    }
}

/* The graph of a seed; false where it needs a negative extent. The roots: what nothing else is computed from. */
static bool build(sample *c, uint64_t seed) {
    ls_tensor **pool = c->pool, *g = NULL;
    ls_rng rng = {seed, 1};
    ls_shape shape = {.rank = 1 + (int)ls_rng_below(&rng, 3)};
    int n = 1, from = -1;
    bool used[STEPS + 1] = {false};
    for (int i = 0; i < shape.rank; i++) {
        shape.dim[i] = dim_of(c, &rng);
    }
    pool[0] = input(c, shape);
    note(c, NULL, pool[0]);
    for (int i = 0; i < STEPS; i++) {
        const char *name = "";
        int n_inputs = c->n_inputs;
        ls_rng own = {seed * 64 + (uint64_t)i, 2};
        if (!c->symbols[0] && c->refused[i]) {
            continue;
        }
        ls_tensor *y = i < STEPS - 1 ? grow(c, &own, pool, n, &name, &from) : NULL;
        if (i == STEPS - 1 && chance(&own, 3)) {
            name = "gradient";
            from = -1;
            y = ls_grad(c->s, pool[n - 1], NULL, 1, c->inputs, &g) == LS_OK ? g : NULL;
        }
        if (ls_session_error(c->s)->code != LS_OK || !y || ls_tensor_shape(y).rank > 4) {
            if (!c->symbols[0]) {
                return false;
            }
            ls_session_clear_error(c->s);
            c->refused[i] = true;
            c->n_inputs = n_inputs;
            continue;
        }
        note(c, name, y);
        pool[n++] = y;
        if (from >= 0) {
            used[from] = true;
        }
    }
    c->n = n;
    for (int i = 0; i < n; i++) {
        if (!used[i]) {
            c->roots[c->n_roots++] = pool[i];
        }
    }
    return true;
}

static bool has_negative_extent(const sample *c, const int64_t *values) {
    for (int i = 0; i < c->n; i++) {
        ls_shape shape = ls_tensor_shape(c->pool[i]);
        for (int k = 0; k < shape.rank; k++) {
            ls_dim d = shape.dim[k];
            if (d.symbol && d.scale * values[d.symbol == c->symbols[1]] + d.offset < 0) {
                return true;
            }
        }
    }
    return false;
}

typedef struct outcome {
    ls_status status;
    int n;
    size_t bytes[STEPS + 1];
    char *data[STEPS + 1]; /* GUARD bytes behind each */
} outcome;

static void outcome_free(outcome *o) {
    for (int i = 0; i < o->n; i++) {
        free(o->data[i]);
    }
}

/* At the session's values of symbols, with the inputs of a seed; nothing but results may be written. */
static outcome run(const sample *c, ls_program *p, uint64_t seed) {
    outcome o = {.n = c->n_roots};
    ls_rng rng = {seed, 7};
    void *in[INPUTS];
    for (int i = 0; i < c->n_inputs; i++) {
        int64_t n = ls_tensor_numel(c->s, c->inputs[i]);
        float *data = in[i] = calloc((size_t)n + 1, sizeof *data);
        fill_normal(&rng, data, n);
    }
    for (int i = 0; i < o.n; i++) {
        o.bytes[i] = ls_tensor_bytes(c->s, c->roots[i]);
        o.data[i] = malloc(o.bytes[i] + GUARD);
        memset(o.data[i], 0x5A, o.bytes[i] + GUARD);
    }
    o.status = ls_program_run(p, (const void *const *)in, (void *const *)o.data);
    for (int i = 0; i < o.n; i++) {
        for (size_t k = o.status == LS_OK ? o.bytes[i] : 0; k < o.bytes[i] + GUARD; k++) {
            if (o.data[i][k] != 0x5A) {
                fail_msg("seed %llu: byte %zu of %zu of root %d is written, status %d (%s): %s",
                         (unsigned long long)seed, k, o.bytes[i], i, o.status,
                         ls_session_error(c->s)->message, graph);
            }
        }
    }
    for (int i = 0; i < c->n_inputs; i++) {
        free(in[i]);
    }
    return o;
}

/* Bits of the runs of one compiled graph of symbols are those of graphs of fixed extents, compiled for each. */
static void check(world *w, world *ref, const char *name, ls_symbol *const *symbols, uint64_t seed,
                  long *runs, long *negative) {
    bool refused[STEPS] = {false};
    sample c = {.s = w->session, .symbols = {symbols[0], symbols[1]}, .refused = refused};
    ls_rng rng = {seed, 3};
    ls_program *p, *q;
    world_ok(w, ls_scope_begin(c.s));
    build(&c, seed);
    world_ok(w, ls_program_compile(c.s, c.inputs, c.n_inputs, c.roots, c.n_roots, &p));
    for (int i = 0; i < RUNS; i++) {
        sample fixed = {.s = ref->session, .refused = refused};
        for (int k = 0; k < 2; k++) {
            fixed.values[k] = chance(&rng, 4) ? bounds[k] : draw(&rng, 0, chance(&rng, 2) ? 4 : bounds[k]);
            world_ok(w, ls_symbol_bind(c.s, symbols[k], fixed.values[k]));
        }
        outcome got = run(&c, p, seed + (uint64_t)i);
        char text[240], why[160];
        snprintf(why, sizeof why, "%.150s", got.status == LS_OK ? "ok" : ls_session_error(c.s)->message);
        ls_session_clear_error(c.s);
        world_ok(ref, ls_scope_begin(ref->session));
        bool whole = build(&fixed, seed);
        snprintf(text, sizeof text, "%.32s at %d and %d, %s", name, (int)fixed.values[0],
                 (int)fixed.values[1], why);
        if (got.status != (has_negative_extent(&c, fixed.values) ? LS_ERR_SHAPE : LS_OK)) {
            fail_msg("seed %llu on %s: %s", (unsigned long long)seed, text, graph);
        }
        if (!whole) { /* also where no window fits an axis: where extents are fixed that is an error, else there are none */
            ls_session_clear_error(ref->session);
            *negative += got.status != LS_OK;
        } else {
            world_ok(ref, ls_program_compile(ref->session, fixed.inputs, fixed.n_inputs, fixed.roots,
                                             fixed.n_roots, &q));
            outcome want = run(&fixed, q, seed + (uint64_t)i);
            world_ok(ref, want.status);
            for (int k = 0; k < want.n; k++) {
                check_bytes(text, graph, seed, k, got.data[k], got.bytes[k], want.data[k], want.bytes[k]);
            }
            outcome_free(&want);
            ls_program_destroy(q);
            ++*runs;
        }
        outcome_free(&got);
        ls_scope_end(ref->session);
    }
    ls_program_destroy(p);
    ls_scope_end(c.s);
}

static void random_graphs(void **state) {
    worlds *all = *state;
    ls_symbol *symbols[MAX_WORLDS + 1][2];
    seeds s = seeds_from(6);
    ls_error err;
    long runs = 0, negative = 0;
    for (int i = 0; i <= all->n; i++) {
        for (int k = 0; k < 2; k++) {
            symbols[i][k] = ls_symbol_create((i < all->n ? &all->cpu[i] : &all->ref)->context, k ? "m" : "n",
                                             bounds[k], &err);
            assert_non_null(symbols[i][k]);
        }
    }
    do {
        int i = (int)(s.seed % (uint64_t)(all->n + 1));
        bool on_ref = i == all->n;
        check(on_ref ? &all->ref : &all->cpu[i], &all->ref, on_ref ? "ref" : all->names[i], symbols[i],
              s.seed, &runs, &negative);
        all->cases++;
    } while (seeds_next(&s));
    print_message("%ld runs, %ld refused\n", runs, negative);
    assert_true(s.chosen || negative > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
