/* Random chains of what kernels without contractions do, and of contractions with what follows them, on `cpu` and on `ref`: for
 * LOCKSTEP_SECONDS (2), from the seed LOCKSTEP_SEED (1) on. A case is its seed. */
#include "conformance/cpu_cases.h"

enum { MOST = 40000 };

static int64_t below(ls_rng *rng, int64_t n) {
    return (int64_t)ls_rng_below(rng, (uint64_t)n);
}

static ls_tensor *unary(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_tensor *(*const ops[])(ls_session *, ls_tensor *) = {
        ls_neg,  ls_abs,      ls_exp,  ls_tanh,  ls_sigmoid, ls_erf, ls_log1p, ls_relu, ls_gelu,
        ls_silu, ls_softplus, ls_sqrt, ls_rsqrt, ls_recip,   ls_sin, ls_log,   ls_sign, ls_rint};
    return ops[below(rng, sizeof ops / sizeof *ops)](s, x);
}

static ls_tensor *binary(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int kind = (int)below(rng, 4), one = shape.rank ? (int)below(rng, shape.rank) : 0;
    for (int i = 0; i < shape.rank; i++) {
        bool keeps = kind == 0 || (kind == 1 && i == one) || (kind == 2 && i < one);
        shape.dim[i] = keeps ? shape.dim[i] : ls_dim_of(1);
    }
    ls_tensor *k = random_tensor(s, rng, ls_tensor_dtype(x), shape);
    ls_tensor *(*const ops[])(ls_session *, ls_tensor *, ls_tensor *) = {ls_add, ls_sub, ls_mul,
                                                                         ls_div, ls_min, ls_max};
    int op = (int)below(rng, 6);
    k = below(rng, 5) ? k : unary(s, rng, k);
    return below(rng, 2) ? ops[op](s, x, k) : ops[op](s, k, x);
}

static ls_tensor *moved(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int order[LS_MAX_RANK], rank = shape.rank, axis = (int)below(rng, rank);
    int64_t n = shape.dim[axis].offset, all = numel_of(shape);
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
    ls_slice_spec slices[LS_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        order[i] = i;
        slices[i] = (ls_slice_spec){0, shape.dim[i].offset, 1};
    }
    switch (below(rng, 7)) {
    case 0:
    case 1:
        for (int i = rank - 1; i > 0; i--) {
            int j = (int)below(rng, i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        return ls_permute(s, x, order);
    case 2:
        pads[axis] = (ls_pad_spec){draw(rng, 0, 5), draw(rng, 0, 5), below(rng, 4) ? 0 : 1};
        return below(rng, 2) ? ls_pad(s, x, pads, (double)below(rng, 2)) : ls_pad_absent(s, x, pads);
    case 3:
        slices[axis].step = below(rng, 4) ? 1 : 2;
        slices[axis].start = below(rng, n);
        slices[axis].stop = slices[axis].start + 1 + below(rng, n - slices[axis].start);
        return ls_slice(s, x, slices);
    case 4: {
        ls_tensor *parts[3] = {x, unary(s, rng, x), random_tensor(s, rng, ls_tensor_dtype(x), shape)};
        return all < MOST ? ls_concat(s, parts, 2 + (int)below(rng, 2), axis) : x;
    }
    case 5: { /* each element twice or thrice, as an image made larger */
        int64_t times = 2 + below(rng, 2);
        if (rank == LS_MAX_RANK || all * times > MOST) {
            return ls_flip(s, x, axis);
        }
        ls_shape wide = shape, flat = shape;
        wide.rank++;
        for (int i = rank; i > axis + 1; i--) {
            wide.dim[i] = shape.dim[i - 1];
        }
        wide.dim[axis + 1] = ls_dim_of(times);
        flat.dim[axis] = ls_dim_of(n * times);
        return ls_reshape(s, ls_expand(s, ls_unsqueeze(s, x, axis + 1), wide), flat);
    }
    default:
        return ls_flip(s, x, axis);
    }
}

static ls_tensor *folded(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int rank = shape.rank, axis = (int)below(rng, rank), axes[2] = {axis, (axis + 1) % rank};
    int count = rank > 1 && below(rng, 3) == 0 ? 2 : 1;
    ls_dtype dtype = ls_tensor_dtype(x);
    switch (below(rng, 9)) {
    case 0:
        return ls_sum(s, x, count, axes, 1);
    case 1:
        return ls_amax(s, x, count, axes, 1);
    case 2:
        return ls_amin(s, x, count, axes, 1);
    case 3:
        return ls_cast(s, below(rng, 2) ? ls_argmin(s, x, count, axes, 1) : ls_argmax(s, x, count, axes, 1),
                       dtype);
    case 4:
        return ls_softmax(s, x, axis);
    case 5:
        return ls_sub(s, x, ls_mean(s, x, count, axes, 1));
    case 6:
        return ls_log_softmax(s, x, axis);
    case 7:
        return ls_mul(s, x, ls_rsqrt(s, ls_variance(s, x, count, axes, 1, 0)));
    default: {
        ls_shape inner = {.rank = 1, .dim = {shape.dim[rank - 1]}};
        return ls_layer_norm(s, x, rank - 1, random_tensor(s, rng, dtype, inner),
                             random_tensor(s, rng, dtype, inner), 1e-5);
    }
    }
}

/* Places, now and then one of them out of range. */
static ls_tensor *places(ls_session *s, ls_rng *rng, ls_shape shape, int64_t n) {
    int64_t count = numel_of(shape);
    ls_dtype dtype = below(rng, 2) ? LS_I32 : LS_I64;
    int64_t *wide = calloc((size_t)count + 1, sizeof *wide);
    int32_t *narrow = calloc((size_t)count + 1, sizeof *narrow);
    bool wrong = below(rng, 12) == 0;
    for (int64_t i = 0; i < count; i++) {
        wide[i] = below(rng, n);
    }
    if (count && wrong) {
        wide[below(rng, count)] = below(rng, 2) ? n : -1;
    }
    for (int64_t i = 0; i < count; i++) {
        narrow[i] = (int32_t)wide[i];
    }
    ls_tensor *t = ls_tensor_from(s, dtype, shape, dtype == LS_I32 ? (void *)narrow : (void *)wide);
    free(wide);
    free(narrow);
    return t;
}

static ls_tensor *taken(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x), at = {.rank = (int)below(rng, 3)};
    int axis = (int)below(rng, shape.rank);
    int64_t n = shape.dim[axis].offset, all = numel_of(shape);
    if (below(rng, 3) == 0) {
        at = shape;
        at.dim[axis] = ls_dim_of(draw(rng, 1, n));
        return ls_take_along(s, x, places(s, rng, at, n), axis);
    }
    int64_t room = MOST / (all / n) > 300 ? 300 : MOST / (all / n) + 1;
    for (int i = 0; i < at.rank; i++) {
        at.dim[i] = ls_dim_of(draw(rng, 1, i ? 4 : room));
    }
    return shape.rank + at.rank - 1 > 0 && shape.rank + at.rank - 1 <= 6
               ? ls_gather(s, x, places(s, rng, at, n), axis)
               : x;
}

/* With tensors joined along an axis, or one that is not everywhere. */
static ls_tensor *with_joined(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x), own = shape;
    int axis = (int)below(rng, shape.rank), count = 0;
    int64_t n = shape.dim[axis].offset;
    ls_tensor *parts[3], *y;
    if (below(rng, 2)) {
        for (int64_t left = n; left > 0; count++) {
            own.dim[axis] = ls_dim_of(count == 2 ? left : 1 + below(rng, left));
            left -= own.dim[axis].offset;
            parts[count] = random_tensor(s, rng, LS_F32, own);
        }
        y = ls_concat(s, parts, count, axis);
    } else {
        ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
        own.dim[axis] = ls_dim_of(1 + below(rng, n));
        pads[axis].low = below(rng, n - own.dim[axis].offset + 1);
        pads[axis].high = n - own.dim[axis].offset - pads[axis].low;
        y = ls_pad(s, random_tensor(s, rng, LS_F32, own), pads, 0);
    }
    return below(rng, 2) ? ls_add(s, x, y) : ls_sub(s, y, x);
}

static ls_tensor *multiplied(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int64_t k = shape.dim[shape.rank - 1].offset, n = draw(rng, 1, 150);
    if (ls_tensor_dtype(x) != LS_F32 || shape.rank < 2 || numel_of(shape) / k * n > MOST ||
        numel_of(shape) * n > 3000000) {
        return x;
    }
    ls_tensor *y = ls_matmul(s, x, tame_tensor(s, rng, LS_F32, LS_SHAPE(k, n)));
    for (int64_t i = below(rng, 5); i > 0; i--) {
        switch (below(rng, 4)) {
        case 0:
            y = unary(s, rng, y);
            break;
        case 1:
            y = with_joined(s, rng, y);
            break;
        default:
            y = binary(s, rng, y);
            break;
        }
    }
    return y;
}

static int build(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    static const int64_t tops[] = {3, 9, 20, 40, 300, 1100, 5000};
    static const ls_dtype dtypes[] = {LS_F32, LS_F32, LS_F32, LS_F32, LS_F16, LS_BF16, LS_F64};
    (void)param;
    ls_shape shape = {.rank = 1 + (int)below(rng, 4)};
    int64_t room = MOST;
    for (int i = 0; i < shape.rank; i++) {
        int64_t top = tops[below(rng, 7)];
        shape.dim[i] = ls_dim_of(draw(rng, 1, top < room ? top : room));
        room /= shape.dim[i].offset;
        room = room < 1 ? 1 : room;
    }
    ls_dtype dtype = dtypes[below(rng, 7)];
    bool tame = below(rng, 2);
    ls_tensor *x = tame ? tame_tensor(s, rng, dtype, shape) : random_tensor(s, rng, dtype, shape);
    int n = 0;
    for (int64_t i = draw(rng, 1, 7); i > 0 && x; i--) {
        switch (below(rng, 12)) {
        case 0:
        case 1:
            x = unary(s, rng, x);
            break;
        case 2:
        case 3:
            x = binary(s, rng, x);
            break;
        case 4:
        case 5:
        case 6:
            x = moved(s, rng, x);
            break;
        case 7:
        case 8:
            x = folded(s, rng, x);
            break;
        case 9:
            x = taken(s, rng, x);
            break;
        case 10:
            x = multiplied(s, rng, x);
            break;
        default:
            if (n < 3 && x) {
                out_roots[n++] = x;
            }
            break;
        }
        ls_shape now = x ? ls_tensor_shape(x) : LS_SHAPE(1);
        if (now.rank == 0) {
            x = ls_reshape(s, x, LS_SHAPE(1));
        }
    }
    out_roots[n++] = x;
    return n;
}

static void random_cases(void **state) {
    seeds s = seeds_from(2);
    do {
        check_case(*state, build, s.seed, NULL, "tiles", 0);
    } while (seeds_next(&s));
}

/* ---- extents that change between runs ---- */
enum { AXES = 3, RUNS = 5 };
typedef struct plan { /* of one world */
    ls_symbol *symbols[2];
    ls_program *program;
    ls_tensor *output;
} plan;

/* A number an element of the axes that are fixed. */
static ls_tensor *with_fixed(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    for (int i = 0; i < shape.rank; i++) {
        shape.dim[i] = shape.dim[i].symbol || below(rng, 2) ? ls_dim_of(1) : shape.dim[i];
    }
    ls_tensor *k = random_tensor(s, rng, LS_F32, shape);
    ls_tensor *(*const ops[])(ls_session *, ls_tensor *, ls_tensor *) = {ls_add, ls_sub, ls_mul,
                                                                         ls_div, ls_min, ls_max};
    int op = (int)below(rng, 6);
    return below(rng, 2) ? ops[op](s, x, k) : ops[op](s, k, x);
}

/* With the first of y along an axis, where all extents are fixed and fit. */
static ls_tensor *with_shared(ls_session *s, ls_rng *rng, ls_tensor *x, ls_tensor *y, int axis) {
    ls_shape shape = ls_tensor_shape(x), of = ls_tensor_shape(y);
    ls_slice_spec slices[AXES];
    for (int i = 0; i < AXES; i++) {
        bool same = shape.dim[i].symbol == of.dim[i].symbol && shape.dim[i].offset == of.dim[i].offset;
        if (of.dim[i].symbol || (i != axis && !same)) {
            return x;
        }
        slices[i] = (ls_slice_spec){0, i == axis ? 1 : of.dim[i].offset, 1};
    }
    y = ls_slice(s, y, slices);
    return below(rng, 2) ? ls_div(s, x, y) : ls_max(s, ls_sub(s, y, x), y);
}

static ls_tensor *symbolic(ls_session *s, ls_rng *rng, ls_tensor *x, ls_tensor *y) {
    ls_tensor *z = x;
    for (int64_t i = draw(rng, 1, 6); i > 0 && z; i--) {
        ls_shape shape = ls_tensor_shape(z);
        int axis = (int)below(rng, shape.rank), order[AXES] = {axis, (axis + 1) % AXES, (axis + 2) % AXES};
        switch (below(rng, 12)) {
        case 0:
            z = unary(s, rng, z);
            break;
        case 1: /* numbers of an input that an axis shares */
            z = with_shared(s, rng, z, y, axis);
            break;
        case 2:
        case 11:
            z = with_fixed(s, rng, z);
            break;
        case 3:
            z = ls_softmax(s, z, axis);
            break;
        case 4:
            z = ls_sub(s, z, ls_sum(s, z, 1, &axis, 1));
            break;
        case 5:
            z = ls_add(s, ls_amax(s, z, 1, &axis, 1), z);
            break;
        case 6:
            z = ls_permute(s, z, order);
            break;
        case 7: {
            ls_tensor *parts[] = {z, ls_neg(s, z)};
            z = shape.dim[axis].symbol ? z : ls_concat(s, parts, 2, axis);
            break;
        }
        case 8: {
            ls_tensor *parts[] = {x, y};
            z = ls_einsum(s, below(rng, 2) ? "abc,abd->acd" : "abc,adc->abd", parts, 2);
            z = with_fixed(s, rng, z);
            break;
        }
        case 9:
            z = ls_sum(s, z, 1, &axis, 1);
            break;
        default: {
            ls_pad_spec pads[AXES] = {{0, 0, 0}};
            pads[axis].high = 1; /* of nothing there is no greatest */
            z = ls_mul(s, z, ls_cast(s, ls_argmax(s, ls_pad(s, z, pads, 0), 1, &axis, 1), LS_F32));
            break;
        }
        }
    }
    return z;
}

/* Every third one has only extents that are fixed: its inputs change alone. */
static bool is_fixed(uint64_t seed) {
    return seed % 3 == 0;
}

static void make_plan(world *w, uint64_t seed, const int64_t *bounds, plan *out) {
    ls_rng rng = {seed, 1};
    ls_error err = {0};
    ls_session *s = w->session;
    ls_shape shape = {.rank = AXES};
    for (int i = 0; i < 2; i++) {
        char name[40];
        snprintf(name, sizeof name, "s%d_%llu", i, (unsigned long long)seed);
        out->symbols[i] = ls_symbol_create(w->context, name, bounds[i], &err);
        assert_non_null(out->symbols[i]);
    }
    int fixed = (int)below(&rng, AXES);
    for (int i = 0, n = 0; i < AXES; i++) {
        shape.dim[i] = i == fixed        ? ls_dim_of(bounds[2])
                       : is_fixed(seed) ? ls_dim_of(bounds[n++])
                                        : ls_dim_symbol(out->symbols[n++], 1, 0);
    }
    world_ok(w, ls_scope_begin(s));
    ls_tensor *inputs[] = {ls_input(s, "x", LS_F32, shape), ls_input(s, "y", LS_F32, shape)};
    out->output = ls_retain(symbolic(s, &rng, inputs[0], inputs[1]));
    world_ok(w, ls_program_compile(s, inputs, 2, &out->output, 1, &out->program));
    ls_scope_end(s);
}

static size_t run_plan(world *w, const plan *p, const int64_t *values, const void *const *inputs,
                       void **out) {
    for (int i = 0; i < 2; i++) {
        world_ok(w, ls_symbol_bind(w->session, p->symbols[i], values[i]));
    }
    size_t bytes = ls_tensor_bytes(w->session, p->output);
    *out = malloc(bytes + 1);
    world_ok(w, ls_program_run(p->program, inputs, out));
    return bytes;
}

static void symbols_case(worlds *all, uint64_t seed) {
    ls_rng rng = {seed, 2};
    int64_t bounds[3] = {1 + draw(&rng, 0, 24), 1 + draw(&rng, 0, 200), draw(&rng, 1, 20)};
    world *w = &all->cpu[seed % (uint64_t)all->n];
    const char *name = all->names[seed % (uint64_t)all->n];
    if (below(&rng, 2)) {
        int64_t swap = bounds[0];
        bounds[0] = bounds[1];
        bounds[1] = swap;
    }
    plan want, got;
    make_plan(&all->ref, seed, bounds, &want);
    make_plan(w, seed, bounds, &got);
    size_t n = (size_t)(bounds[0] * bounds[1] * bounds[2]);
    float *x[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))};
    for (int run = 0; run < RUNS; run++) {
        int64_t values[2];
        void *a, *b;
        for (int i = 0; i < 2; i++) {
            values[i] = run == 0 || is_fixed(seed) ? bounds[i]
                        : below(&rng, 4) == 0 ? below(&rng, 2)
                                              : below(&rng, bounds[i] + 1);
            fill_data(&rng, LS_F32, x[i], (int64_t)n);
        }
        size_t bytes = run_plan(&all->ref, &want, values, (const void *const *)x, &a);
        assert_int_equal(run_plan(w, &got, values, (const void *const *)x, &b), bytes);
        if (memcmp(a, b, bytes) != 0) {
            fail_msg("symbols (seed %llu): run %d, extents %lld and %lld, fixed %lld: %s differs from ref",
                     (unsigned long long)seed, run, (long long)values[0], (long long)values[1],
                     (long long)bounds[2], name);
        }
        free(a);
        free(b);
    }
    free(x[0]);
    free(x[1]);
    ls_program_destroy(want.program);
    ls_program_destroy(got.program);
    ls_release(want.output);
    ls_release(got.output);
}

static void random_symbols(void **state) {
    seeds s = seeds_from(2);
    do {
        symbols_case(*state, s.seed);
    } while (seeds_next(&s));
}

/* ---- what once went wrong ---- */
/* Values kept for later phases of a block, of reductions over axes of one element too. */
static int build_kept(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    int axes[] = {1, 2};
    (void)param;
    ls_tensor *x = ls_exp(s, tame_tensor(s, rng, LS_F32, LS_SHAPE(493, 38, 1, 1)));
    out_roots[0] = ls_softmax(s, ls_mul(s, x, ls_rsqrt(s, ls_variance(s, x, 2, axes, 1, 0))), 1);
    return 1;
}

static void kept_over_one(void **state) {
    for (uint64_t seed = 1; seed < 4; seed++) {
        check_case(*state, build_kept, seed, NULL, "kept", 1);
    }
}

/* Rows without elements, and products without terms: what follows those is computed still. */
static void nothing(void **state) {
    worlds *all = *state;
    enum { ROWS = 64, BOUND = 300 };
    static float x[ROWS * BOUND], got[2][ROWS * BOUND], row[ROWS];
    for (int c = 0; c < all->n; c++) {
        ls_session *s = all->cpu[c].session;
        ls_error err = {0};
        ls_program *program;
        ls_symbol *n = ls_symbol_create(all->cpu[c].context, "n", BOUND, &err);
        ls_shape shape = {.rank = 2, .dim = {ls_dim_of(ROWS), ls_dim_symbol(n, 1, 0)}};
        for (int i = 0; i < ROWS; i++) {
            row[i] = (float)i - 30;
        }
        world_ok(&all->cpu[c], ls_scope_begin(s));
        ls_tensor *in = ls_input(s, "x", LS_F32, shape), *both[] = {in, in};
        ls_tensor *y =
            ls_add(s, ls_einsum(s, "at,bt->ab", both, 2), ls_tensor_from(s, LS_F32, LS_SHAPE(ROWS, 1), row));
        ls_tensor *outputs[] = {ls_softmax(s, in, 1), ls_mul(s, y, ls_full(s, LS_F32, LS_SHAPE(1), 3))};
        world_ok(&all->cpu[c], ls_program_compile(s, &in, 1, outputs, 2, &program));
        world_ok(&all->cpu[c], ls_symbol_bind(s, n, 0));
        memset(got, 1, sizeof got);
        world_ok(&all->cpu[c],
                 ls_program_run(program, (const void *const[]){x}, (void *const[]){got[0], got[1]}));
        for (int i = 0; i < ROWS * ROWS; i++) {
            assert_true(got[1][i] == 3 * row[i / ROWS]);
        }
        ls_program_destroy(program);
        ls_scope_end(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_over_one), cmocka_unit_test(nothing),
                                       cmocka_unit_test(random_cases), cmocka_unit_test(random_symbols)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
