/* Contractions of the CPU backend against ref, bit for bit: products, convolutions and their gradients, fused
 * or not. */
#include "conformance/cpu_cases.h"
#include <lockstep/inspect.h>

typedef struct param {
    ls_dtype dtype;
    int64_t m, n, k;
    int tame;
} param;

static ls_tensor *operand(ls_session *s, ls_rng *rng, const param *p, ls_shape shape) {
    return p->tame ? tame_tensor(s, rng, p->dtype, shape) : random_tensor(s, rng, p->dtype, shape);
}

static int build_matmul(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    int swap[] = {1, 0}, swap3[] = {0, 2, 1};
    ls_tensor *a = operand(s, rng, p, LS_SHAPE(p->m, p->k)), *b = operand(s, rng, p, LS_SHAPE(p->k, p->n));
    ls_tensor *at = operand(s, rng, p, LS_SHAPE(p->k, p->m)), *bt = operand(s, rng, p, LS_SHAPE(p->n, p->k));
    ls_tensor *row = operand(s, rng, p, LS_SHAPE(p->n));
    roots[0] = ls_matmul(s, a, b);
    roots[1] = ls_max(s, ls_add(s, ls_matmul(s, ls_permute(s, at, swap), ls_permute(s, bt, swap)), row),
                      ls_mul(s, row, row));
    roots[2] = ls_permute(s, ls_matmul(s, a, ls_permute(s, bt, swap)), swap);
    roots[3] = ls_matmul(s, ls_flip(s, a, 1), ls_flip(s, b, 0));
    roots[4] = ls_matmul(s, ls_add(s, a, ls_permute(s, at, swap)), ls_max(s, b, row));
    ls_tensor *x = operand(s, rng, p, LS_SHAPE(3, p->m, p->k)),
              *y = operand(s, rng, p, LS_SHAPE(3, p->n, p->k));
    roots[5] = ls_matmul(s, x, ls_permute(s, y, swap3));
    roots[6] = ls_matmul(s, x, b);
    roots[7] = ls_matmul(s, a, ls_permute(s, y, swap3));
    return 8;
}

static void products(void **state) {
    static const int64_t shapes[][3] = {{1, 1, 1},    {5, 7, 0},    {0, 3, 4},    {3, 0, 4},    {1, 33, 40},
                                        {40, 1, 33},  {7, 16, 511}, {6, 9, 512},  {13, 5, 513}, {2, 3, 1025},
                                        {65, 33, 31}, {12, 32, 64}, {17, 70, 19}, {37, 64, 65}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int d = LS_U8; d < LS_DTYPE_COUNT; d++) {
            param p = {(ls_dtype)d, shapes[i][0], shapes[i][1], shapes[i][2], (i + (size_t)d) % 3 != 0};
            char what[80];
            snprintf(what, sizeof what, "matmul %s %lldx%lldx%lld", ls_dtype_name(p.dtype), (long long)p.m,
                     (long long)p.n, (long long)p.k);
            bool all = d == LS_F32 && i % 3 == 0;
            if (d >= LS_F16 || (i + (size_t)d) % 4 == 0) {
                check_case(*state, build_matmul, i * 17 + (uint64_t)d, &p, what, all);
            }
        }
    }
}

/* A run of memory times another for each result: one behind the other, apart, backwards, cut short by absent elements. */
static int build_runs(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_conv_spec spec = {.spatial = 2, .groups = p->m}, cut = {.spatial = 2, .groups = p->m, .pad_low = {1}};
    ls_tensor *x = operand(s, rng, p, LS_SHAPE(p->m, p->n, p->k)), *y = operand(s, rng, p, LS_SHAPE(p->m, p->n, p->k));
    ls_tensor *apart = ls_narrow(s, operand(s, rng, p, LS_SHAPE(p->m + 1, p->n, p->k)), 0, 1, p->m);
    ls_tensor *wide = ls_narrow(s, operand(s, rng, p, LS_SHAPE(p->m, p->n + 2, p->k)), 1, 1, p->n);
    ls_tensor *images = operand(s, rng, p, LS_SHAPE(2, p->m, p->n, p->k)), *filter = operand(s, rng, p, LS_SHAPE(p->m, 1, p->n, p->k));
    roots[0] = ls_einsum(s, "abc,abc->a", (ls_tensor *[]){x, y}, 2);
    roots[1] = ls_relu(s, ls_einsum(s, "abc,abc->a", (ls_tensor *[]){apart, wide}, 2));
    roots[2] = ls_einsum(s, "abc,abc->a", (ls_tensor *[]){ls_flip(s, x, 0), wide}, 2);
    roots[3] = ls_einsum(s, "abc,abc->a", (ls_tensor *[]){ls_flip(s, x, 2), ls_flip(s, y, 2)}, 2);
    roots[4] = ls_relu(s, ls_conv(s, images, filter, NULL, &spec));
    roots[5] = ls_conv(s, ls_narrow(s, images, 2, 0, p->n - 1), filter, NULL, &cut);
    return 6;
}

static void runs_of_memory(void **state) {
    /* eight times as many results as k and more: fewer are products of a batch */
    static const param cases[] = {{LS_F32, 9, 1, 1, 1}, {LS_F32, 83, 2, 5, 1}, {LS_F32, 393, 7, 7, 0}, {LS_F32, 1030, 2, 3, 1}, {LS_F16, 90, 1, 11, 1}, {LS_F64, 90, 11, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(*state, build_runs, i, &cases[i], "runs of memory", 1);
    }
    check_case(*state, build_runs, 20, &(param){LS_F32, 4170, 5, 104, 1}, "runs of memory, of two chunks", 0);
}

/* A bigger one, so that several blocks, workers and chunks take part. */
static void large_product(void **state) {
    check_case(*state, build_matmul, 5, &(param){LS_F32, 150, 130, 1100, 1}, "matmul f32 150x130x1100", 1);
}

static int build_conv(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    int64_t groups = 1 + (int64_t)ls_rng_below(rng, 2), c = groups * (1 + (int64_t)ls_rng_below(rng, 5)),
            o = groups * (1 + (int64_t)ls_rng_below(rng, 5));
    int64_t kh = 1 + (int64_t)ls_rng_below(rng, 3), kw = 1 + (int64_t)ls_rng_below(rng, 3),
            n = 1 + (int64_t)ls_rng_below(rng, 3);
    ls_conv_spec spec = {.spatial = 2, .groups = groups};
    for (int i = 0; i < 2; i++) {
        spec.stride[i] = 1 + (int64_t)ls_rng_below(rng, 2);
        spec.dilation[i] = 1 + (int64_t)ls_rng_below(rng, 2);
        spec.pad_low[i] = (int64_t)ls_rng_below(rng, 3);
        spec.pad_high[i] = (int64_t)ls_rng_below(rng, 3);
    }
    int64_t h = 5 + (int64_t)ls_rng_below(rng, 8), w = 5 + (int64_t)ls_rng_below(rng, 30);
    ls_tensor *x = operand(s, rng, p, LS_SHAPE(n, c, h, w)),
              *f = operand(s, rng, p, LS_SHAPE(o, c / groups, kh, kw));
    ls_tensor *bias = operand(s, rng, p, LS_SHAPE(o));
    ls_tensor *y = ls_conv(s, x, f, bias, &spec), *grads[3], *xs[3] = {x, f, bias};
    roots[0] = y;
    roots[1] = ls_relu(s, ls_conv(s, x, f, NULL, &spec));
    roots[2] = ls_permute(s, y, (int[]){0, 2, 3, 1});
    if (p->dtype < LS_F16) {
        return 3;
    }
    ls_tensor *seed = operand(s, rng, p, ls_tensor_shape(y));
    if (ls_grad(s, y, seed, 3, xs, grads) != LS_OK) {
        return 3;
    }
    memcpy(&roots[3], grads, sizeof grads);
    return 6;
}

static void convolutions(void **state) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_F64, LS_BF16, LS_F32, LS_I8, LS_I32};
    for (uint64_t seed = 0; seed < 84; seed++) {
        param p = {.dtype = dtypes[seed % 7], .tame = seed % 4 != 3};
        check_case(*state, build_conv, seed, &p, ls_dtype_name(p.dtype), seed < 14);
    }
}

/* Convolutions that read their windows in place: depthwise ones and thin ones, in 1 to 3 dimensions. */
typedef struct window_param {
    int64_t n, in, out, groups, spatial, side[3], kernel[3], stride, dilation, pad;
    int wild;
} window_param;

static int build_window(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const window_param *p = p_;
    int64_t image[5] = {p->n, p->in}, filter[5] = {p->out, p->in / p->groups};
    int rank = (int)p->spatial + 2;
    ls_conv_spec spec = {.spatial = (int)p->spatial, .groups = p->groups};
    for (int i = 0; i < p->spatial; i++) {
        image[i + 2] = p->side[i];
        filter[i + 2] = p->kernel[i];
        spec.stride[i] = p->stride;
        spec.dilation[i] = p->dilation;
        spec.pad_low[i] = p->pad < p->kernel[i] ? p->pad : 0;
        spec.pad_high[i] = spec.pad_low[i] + (i == 0);
    }
    ls_tensor *(*make)(ls_session *, ls_rng *, ls_dtype, ls_shape) = p->wild ? random_tensor : tame_tensor;
    ls_tensor *x = make(s, rng, LS_F32, ls_shape_make(rank, image));
    ls_tensor *w = make(s, rng, LS_F32, ls_shape_make(rank, filter));
    roots[0] = ls_relu(s, ls_conv(s, x, w, NULL, &spec));
    ls_tensor *xs[1] = {x};
    return ls_grad(s, roots[0], NULL, 1, xs, &roots[1]) == LS_OK ? 2 : 1;
}

static void windows(void **state) {
    static const window_param cases[] = {
        {1, 6, 6, 6, 2, {9, 17}, {3, 3}, 1, 1, 1, 0},      {2, 5, 5, 5, 2, {56, 40}, {3, 3}, 2, 1, 1, 0},
        {1, 3, 3, 3, 2, {130, 120}, {5, 5}, 1, 1, 2, 0},   {1, 4, 8, 4, 2, {7, 7}, {5, 5}, 2, 1, 2, 0},
        {3, 4, 4, 4, 2, {6, 33}, {1, 7}, 1, 2, 3, 0},      {1, 3, 16, 1, 2, {64, 50}, {3, 3}, 2, 1, 1, 0},
        {2, 24, 13, 1, 2, {14, 14}, {3, 3}, 1, 1, 1, 0},   {1, 4, 4, 2, 1, {300}, {9}, 3, 1, 4, 0},
        {2, 3, 5, 1, 3, {6, 7, 8}, {3, 2, 3}, 1, 1, 1, 0}, {1, 62, 12, 1, 2, {9, 9}, {3, 3}, 1, 1, 0, 0},
        {1, 40, 24, 1, 1, {8}, {3}, 1, 1, 1, 0},           {1, 30, 20, 1, 1, {40}, {5}, 2, 1, 2, 0},
        {1, 8, 8, 8, 2, {20, 30}, {3, 3}, 1, 3, 3, 1},     {1, 2, 3, 1, 2, {11, 40}, {3, 3}, 1, 1, 1, 1},
        {3, 14, 13, 1, 2, {24, 23}, {1, 1}, 1, 1, 0, 0},   {2, 5, 16, 1, 2, {29, 32}, {3, 3}, 1, 1, 1, 0},
        {2, 60, 24, 1, 2, {19, 33}, {3, 3}, 1, 1, 1, 0},   {2, 9, 23, 1, 2, {40, 56}, {3, 3}, 2, 1, 1, 0},
        {1, 3, 16, 1, 2, {60, 64}, {7, 7}, 2, 1, 3, 0},    {2, 14, 32, 2, 2, {21, 30}, {3, 4}, 1, 2, 2, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "windows, case %zu", i);
        check_case(*state, build_window, i, &cases[i], what, i < 2);
    }
}

static void append(void *user, const char *text, size_t n) {
    strncat(user, text, n);
}

/* Numbers of which so many of a hundred are zero. */
static ls_tensor *sparse_tensor(ls_session *s, ls_rng *rng, ls_shape shape, int64_t zeros, bool wild) {
    int64_t n = numel_of(shape);
    float *data = calloc((size_t)n + 1, sizeof *data);
    uint64_t state = ls_rng_u64(rng);
    for (int64_t i = 0; i < n; i++) {
        bool zero = (int64_t)(next_bits(&state) % 100) < zeros;
        data[i] = zero ? (i % 3 ? 0.0f : -0.0f) : (float)next_number(&state);
    }
    if (wild) {
        data[n / 2] = __builtin_inff();
        data[0] = -__builtin_inff(); /* at a corner, where padding is near */
        data[n - 1] = __builtin_nanf("");
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, shape, data);
    free(data);
    return t;
}

/* Images that a program computes: lines taken apart into many phases, of which taps meet some, and a matrix whose columns are no windows. */
static int build_framed(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const window_param *p = p_;
    ls_conv_spec spec = {.spatial = 1, .stride = {p->stride}, .dilation = {p->dilation}, .pad_low = {p->pad}, .pad_high = {p->pad}};
    ls_shape shape = LS_SHAPE(p->n, p->in, p->side[0]);
    ls_tensor *x = ls_mul(s, sparse_tensor(s, rng, shape, 0, false), sparse_tensor(s, rng, shape, 0, false));
    roots[0] = ls_conv(s, x, sparse_tensor(s, rng, LS_SHAPE(p->out, p->in, p->kernel[0]), 0, false), NULL, &spec);
    return 1;
}

static int build_columns(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *a = sparse_tensor(s, rng, LS_SHAPE(p->m, p->k), 0, false), *b = sparse_tensor(s, rng, LS_SHAPE(p->n, p->k), 0, false);
    roots[0] = ls_matmul(s, a, ls_transpose(s, ls_relu(s, b), 0, 1));
    return 1;
}

static const char *kernels_of(case_fn build, const void *p, int n_roots) {
    static char text[1 << 20];
    world w = world_open("cpu");
    ls_rng rng = {1, 0};
    ls_tensor *roots[MAX_ROOTS];
    *text = 0;
    assert_int_equal(build(w.session, &rng, p, roots), n_roots);
    world_ok(&w, ls_inspect(w.session, roots, n_roots, LS_INSPECT_KERNELS, append, text));
    world_close(&w);
    return text;
}

/* In a way of its own, which WebAssembly leaves out to be small. */
static void computed_by(case_fn build, const void *p, int n_roots, const char *way) {
#ifdef __wasm__
    assert_null(strstr(kernels_of(build, p, n_roots), way));
#else
    assert_non_null(strstr(kernels_of(build, p, n_roots), way));
#endif
}

static bool has_windows(case_fn build, const void *p) {
    const char *text = kernels_of(build, p, 1);
    assert_non_null(strstr(text, "by a program"));
    return strstr(text, "windows: ") != NULL;
}

static void programs(void **state) {
    static const window_param framed[] = {
        {2, 3, 5, 1, 1, {300}, {40}, 30, 1, 3, 0}, {1, 3, 9, 1, 1, {700}, {41}, 24, 2, 7, 0}, {2, 4, 3, 1, 1, {301}, {9}, 6, 4, 3, 0},
        {1, 3, 4, 1, 1, {320}, {30}, 20, 1, 5, 0}, {1, 3, 4, 1, 1, {290}, {4}, 9, 4, 2, 0},   {1, 3, 2, 1, 1, {300}, {30}, 29, 1, 1, 0}};
    for (size_t i = 0; i < sizeof framed / sizeof *framed; i++) {
        char what[40];
        snprintf(what, sizeof what, "frames of a product, case %zu", i);
        check_case(*state, build_framed, 500 + i, &framed[i], what, true);
        assert_true(has_windows(build_framed, &framed[i]));
    }
    static const param columns[] = {{LS_F32, 9, 70, 130, 1}, {LS_F32, 1, 3, 697, 1}, {LS_F32, 40, 33, 1, 1}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        check_case(*state, build_columns, 520 + i, &columns[i], "columns that a program computes", true);
        assert_false(has_windows(build_columns, &columns[i]));
    }
}

/* Gradients of convolutions where most of the output's gradient is zero, and infinities and NaNs there and in what it meets. */
typedef struct sparse_param {
    int64_t n, in, out, side[2], kernel[2], stride, pad, zeros; /* of 100 */
    int wild;                                                   /* 1: the image, 2: the gradient */
} sparse_param;

static int build_sparse(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const sparse_param *p = p_;
    ls_conv_spec spec = {.spatial = 2, .stride = {p->stride, p->stride}, .pad_low = {p->pad, p->pad}, .pad_high = {p->pad, p->pad}};
    ls_tensor *x = (p->wild == 1 ? random_tensor : tame_tensor)(s, rng, LS_F32, LS_SHAPE(p->n, p->in, p->side[0], p->side[1]));
    ls_tensor *w = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->out, p->in, p->kernel[0], p->kernel[1]));
    int64_t out[2];
    for (int i = 0; i < 2; i++) {
        out[i] = (p->side[i] + 2 * p->pad - p->kernel[i]) / p->stride + 1;
    }
    ls_tensor *seed = sparse_tensor(s, rng, LS_SHAPE(p->n, p->out, out[0], out[1]), p->zeros, p->wild == 2), *xs[2] = {x, w};
    return ls_grad(s, ls_conv(s, x, w, NULL, &spec), seed, 2, xs, roots) == LS_OK ? 2 : 0;
}

/* A sparse image some of whose channels are no elements of its tensor, or that is read through other movements. */
static int build_sparse_moved(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const int *kind = p_;
    ls_pad_spec before[LS_MAX_RANK] = {{0, 0, 0}, {3, 3, 0}};
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    int64_t in = *kind < 2 ? 10 : *kind < 6 ? 16 : 64;
    ls_tensor *x = sparse_tensor(s, rng, LS_SHAPE(1, in, 41, 40), 85, false);
    ls_tensor *w = tame_tensor(s, rng, LS_F32, LS_SHAPE(12, *kind < 2 ? 16 : in, 3, 3));
    switch (*kind) {
    case 6:
        break;
    case 0:
        x = ls_pad(s, x, before, 0);
        break;
    case 1:
        x = ls_pad_absent(s, x, before);
        break;
    case 2:
        x = ls_flip(s, x, 1);
        break;
    case 3:
        x = ls_flip(s, x, 2);
        break;
    case 4:
        x = ls_flip(s, x, 3);
        break;
    default:
        x = ls_permute(s, x, (int[]){0, 1, 3, 2});
        break;
    }
    roots[0] = ls_conv(s, x, w, NULL, &spec);
    spec = (ls_conv_spec){.spatial = 2};
    roots[1] = ls_conv(s, x, w, NULL, &spec);
    return 2;
}

static void sparse_moved(void **state) {
    for (int kind = 0; kind < 7; kind++) {
        char what[40];
        snprintf(what, sizeof what, "sparse and moved, %d", kind);
        check_case(*state, build_sparse_moved, (uint64_t)kind, &kind, what, 0);
    }
}

static void sparse(void **state) {
    static const sparse_param cases[] = {
        {3, 16, 32, {26, 26}, {3, 3}, 1, 0, 80, 0}, {2, 24, 16, {34, 33}, {3, 3}, 1, 1, 85, 0}, {2, 20, 64, {18, 18}, {5, 3}, 1, 1, 90, 0},
        {2, 16, 16, {41, 41}, {3, 3}, 2, 1, 80, 0}, {1, 16, 32, {26, 26}, {3, 3}, 1, 1, 80, 1}, {1, 16, 32, {26, 26}, {3, 3}, 1, 1, 80, 2},
        {1, 16, 32, {26, 26}, {3, 3}, 1, 0, 80, 2}, {2, 17, 32, {26, 25}, {3, 3}, 1, 0, 99, 0}, {1, 8, 32, {26, 26}, {3, 3}, 1, 0, 40, 0},
        {2, 20, 64, {18, 19}, {3, 3}, 1, 1, 85, 0}}; /* the last: the ninth tap is in a chunk of its own */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "sparse, case %zu", i);
        check_case(*state, build_sparse, 100 + i, &cases[i], what, i == 0);
    }
    computed_by(build_sparse, &cases[0], 2, "sparse rows");
    computed_by(build_sparse, &cases[0], 2, "sparse columns");
}

/* Launch after launch with one filter, which is kept packed then, and images that are sparse or are not; `out` has room for a result of each. */
enum { SPARSE_LAUNCHES = 9, SPARSE_CHANNELS = 32, SPARSE_SIDE = 24, SPARSE_NUMEL = SPARSE_CHANNELS * SPARSE_SIDE * SPARSE_SIDE };
static void run_sparse(world *w, bool wild, float (*out)[SPARSE_NUMEL]) {
    ls_session *s = w->session;
    ls_rng rng = {7, wild};
    world_ok(w, ls_scope_begin(s));
    ls_program *program;
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(1, SPARSE_CHANNELS, SPARSE_SIDE, SPARSE_SIDE));
    ls_tensor *filter = sparse_tensor(s, &rng, LS_SHAPE(SPARSE_CHANNELS, SPARSE_CHANNELS, 3, 3), 0, wild);
    ls_tensor *y = ls_conv(s, x, filter, NULL, &(ls_conv_spec){.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}});
    world_ok(w, ls_program_compile(s, &x, 1, &y, 1, &program));
    float *image = calloc(SPARSE_NUMEL, sizeof *image);
    for (int launch = 0; launch < SPARSE_LAUNCHES; launch++) {
        fill_normal(&rng, image, SPARSE_NUMEL);
        for (int64_t i = 0; i < SPARSE_NUMEL; i++) {
            image[i] = launch % 4 == 2 || ls_rng_below(&rng, 100) < 20 ? image[i] : 0.0f;
        }
        world_ok(w, ls_program_run(program, &(const void *){image}, &(void *){out[launch]}));
    }
    free(image);
    ls_program_destroy(program);
    ls_scope_end(s);
}

static void sparse_again(void **state) {
    worlds *all = *state;
    size_t bytes = sizeof(float[SPARSE_NUMEL]);
    float(*want)[SPARSE_NUMEL] = calloc(SPARSE_LAUNCHES, bytes), (*got)[SPARSE_NUMEL] = calloc(SPARSE_LAUNCHES, bytes);
    for (int wild = 0; wild < 2; wild++) {
        run_sparse(&all->ref, wild, want);
        for (int c = 0; c < all->n; c++) {
            run_sparse(&all->cpu[c], wild, got);
            for (int i = 0; i < SPARSE_LAUNCHES; i++) {
                check_bytes(all->names[c], "sparse again", (uint64_t)wild, i, got[i], bytes, want[i], bytes);
            }
        }
        all->cases++;
    }
    free(want);
    free(got);
}

/* Whole numbers, whose sums are exact in any order: fast gives the bits of ref. */
static ls_tensor *whole_numbers(ls_session *s, ls_rng *rng, ls_shape shape, int64_t zeros, bool wild) {
    int64_t n = numel_of(shape);
    float *data = calloc((size_t)n + 1, sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        data[i] = (int64_t)ls_rng_below(rng, 100) < zeros ? 0 : (float)((int64_t)ls_rng_below(rng, 15) - 7);
    }
    if (wild) {
        data[0] = __builtin_inff(); /* at corners, where padding is near */
        data[n - 1] = __builtin_nanf("");
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, shape, data);
    free(data);
    return t;
}

static int build_sparse_fast(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const sparse_param *p = p_;
    ls_conv_spec spec = {.spatial = 2, .stride = {p->stride, 1}, .pad_low = {p->pad, p->pad}, .pad_high = {p->pad, p->pad}};
    int64_t out[2];
    for (int i = 0; i < 2; i++) {
        out[i] = (p->side[i] + 2 * p->pad - p->kernel[i]) / spec.stride[i] + 1;
    }
    ls_session_set_math(s, LS_FAST);
    ls_tensor *x = whole_numbers(s, rng, LS_SHAPE(p->n, p->in, p->side[0], p->side[1]), 5, p->wild == 1);
    ls_tensor *w = whole_numbers(s, rng, LS_SHAPE(p->out, p->in, p->kernel[0], p->kernel[1]), 5, false);
    ls_tensor *seed = whole_numbers(s, rng, LS_SHAPE(p->n, p->out, out[0], out[1]), p->zeros, p->wild == 2), *xs[2] = {x, w};
    ls_tensor *image = whole_numbers(s, rng, LS_SHAPE(p->n, p->in, p->side[0], p->side[1]), p->zeros, false);
    bool ok = ls_grad(s, ls_conv(s, x, w, NULL, &spec), seed, 2, xs, roots) == LS_OK;
    roots[2] = ls_conv(s, image, w, NULL, &spec);
    ls_session_set_math(s, LS_LOCKED);
    return ok ? 3 : 0;
}

static void sparse_fast(void **state) {
    static const sparse_param cases[] = {
        {3, 32, 64, {26, 26}, {3, 3}, 1, 0, 78, 0}, {2, 32, 32, {20, 27}, {3, 3}, 1, 1, 80, 0}, {2, 16, 16, {30, 31}, {2, 3}, 1, 1, 85, 0},
        {1, 32, 48, {24, 26}, {5, 3}, 1, 2, 80, 0}, {2, 64, 32, {23, 25}, {3, 3}, 1, 2, 90, 0}, {1, 33, 40, {33, 21}, {1, 3}, 1, 0, 80, 0},
        {1, 24, 32, {32, 17}, {4, 4}, 1, 3, 97, 0}, {19, 8, 18, {11, 13}, {3, 3}, 1, 1, 85, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "sparse and fast, case %zu", i);
        check_case(*state, build_sparse_fast, 200 + i, &cases[i], what, i < 2);
    }
}

/* Gradients through a max-pooling, whose windows the products and sums of a convolution's gradients read. */
static int build_pooled(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const sparse_param *p = p_;
    ls_conv_spec spec = {.spatial = 2, .stride = {p->stride, 1}, .pad_low = {p->pad, p->pad}, .pad_high = {p->pad, p->pad}};
    ls_conv_spec twos = {.spatial = 2, .stride = {2, 2}};
    int64_t kernel[2] = {2, 2};
    ls_session_set_math(s, LS_FAST);
    ls_tensor *x = whole_numbers(s, rng, LS_SHAPE(p->n, p->in, p->side[0], p->side[1]), 50, p->wild == 1);
    ls_tensor *w = whole_numbers(s, rng, LS_SHAPE(p->out, p->in, p->kernel[0], p->kernel[1]), 60, p->wild == 3);
    ls_tensor *bias = whole_numbers(s, rng, LS_SHAPE(p->out), 10, false), *xs[] = {x, w, bias};
    ls_tensor *y = ls_conv(s, x, w, bias, &spec);
    y = ls_max_pool(s, p->zeros % 4 ? ls_relu(s, y) : y, kernel, &twos);
    ls_tensor *seed = whole_numbers(s, rng, ls_tensor_shape(y), p->zeros, p->wild == 2);
    bool ok = ls_grad(s, y, seed, 3, xs, roots) == LS_OK;
    ls_session_set_math(s, LS_LOCKED);
    return ok ? 3 : 0;
}

static void pooled(void **state) {
    static const sparse_param cases[] = {{2, 8, 32, {26, 26}, {3, 3}, 1, 0, 9, 0}, {1, 8, 16, {32, 40}, {5, 5}, 1, 2, 4, 0},
                                         {2, 8, 32, {26, 26}, {3, 3}, 1, 0, 9, 1}, {1, 9, 32, {26, 26}, {3, 3}, 1, 0, 9, 2},
                                         {1, 8, 32, {26, 26}, {3, 3}, 1, 0, 9, 3}, {2, 8, 16, {32, 40}, {3, 3}, 1, 1, 4, 2},
                                         {18, 8, 10, {12, 12}, {3, 3}, 1, 1, 9, 0}};
    worlds *all = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "pooled, case %zu", i);
        check_case(all, build_pooled, 400 + i, &cases[i], what, i < 2);
    }
    for (seeds next = seeds_from(3); seeds_next(&next);) {
        ls_rng rng = {next.seed, 0};
        sparse_param p = {.n = draw(&rng, 1, 3), .in = draw(&rng, 1, 20), .out = draw(&rng, 1, 40), .stride = 1 + (ls_rng_below(&rng, 8) == 0)};
        for (int i = 0; i < 2; i++) {
            p.kernel[i] = draw(&rng, 1, 5);
            p.side[i] = p.kernel[i] + 2 * draw(&rng, 2, 18) - (ls_rng_below(&rng, 4) > 0);
        }
        p.pad = draw(&rng, 0, p.kernel[0] < p.kernel[1] ? p.kernel[0] : p.kernel[1]);
        p.zeros = (int64_t)ls_rng_below(&rng, 60);
        p.wild = ls_rng_below(&rng, 6) ? 0 : 1 + (int)ls_rng_below(&rng, 3);
        check_case(all, build_pooled, next.seed, &p, "pooled, at random", false);
    }
    computed_by(build_pooled, &cases[0], 3, "sparse rows: lists of what is not zero, of windows");
    computed_by(build_pooled, &cases[0], 3, "sparse columns: lists of what is not zero, of windows");
}

/* Gradients of filters of few channels: sums along lines, where instructions have masks. */
static void thin_fast(void **state) {
    static const sparse_param cases[] = {
        {3, 1, 32, {28, 28}, {3, 3}, 1, 0, 0, 0}, {2, 3, 16, {30, 31}, {3, 3}, 1, 1, 0, 0}, {2, 3, 9, {29, 31}, {4, 4}, 1, 2, 10, 0},
        {1, 1, 10, {62, 62}, {7, 6}, 2, 3, 0, 0}, {2, 2, 11, {100, 65}, {5, 2}, 3, 0, 0, 0}, {2, 1, 10, {28, 30}, {3, 3}, 1, 1, 0, 1},
        {1, 3, 18, {33, 30}, {3, 3}, 2, 1, 0, 2}, {2, 1, 10, {40, 30}, {3, 3}, 1, 0, 0, 2}, {1, 2, 8, {300, 130}, {3, 3}, 1, 2, 0, 2}};
    worlds *all = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "few channels and fast, case %zu", i);
        check_case(all, build_sparse_fast, 300 + i, &cases[i], what, true);
        for (int c = 0; c < all->n; c++) {
            static char text[1 << 20];
            ls_rng rng = {1, 0};
            ls_tensor *roots[3];
            *text = 0;
            world_ok(&all->cpu[c], ls_scope_begin(all->cpu[c].session));
            assert_int_equal(build_sparse_fast(all->cpu[c].session, &rng, &cases[i], roots), 3);
            world_ok(&all->cpu[c], ls_inspect(all->cpu[c].session, roots, 3, LS_INSPECT_KERNELS, append, text));
            ls_scope_end(all->cpu[c].session);
            if (strncmp(all->names[c], "avx512", 6) == 0) {
                assert_non_null(strstr(text, "few channels"));
            }
        }
    }
}

/* Images of joined tensors, and images spread with gaps. */
static int build_joined(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *parts[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = operand(s, rng, p, LS_SHAPE(p->n, 2 + i, 13, p->m));
    }
    ls_tensor *x = ls_concat(s, parts, 3, 1), *w = operand(s, rng, p, LS_SHAPE(5, 9, 3, 3)),
              *back = operand(s, rng, p, LS_SHAPE(9, 3, 3, 2));
    ls_conv_spec spec = {.spatial = 2, .stride = {1, 1 + p->n % 2}, .pad_low = {1, 1}, .pad_high = {1, 1}},
                 spread = {.spatial = 2, .stride = {3, 2}, .pad_low = {1, 0}, .pad_high = {0, 1}};
    roots[0] = ls_relu(s, ls_conv(s, x, w, NULL, &spec));
    roots[1] = ls_conv_transpose(s, x, back, NULL, &spread);
    roots[2] = ls_conv_transpose(s, parts[1], operand(s, rng, p, LS_SHAPE(3, 4, 1, 2)), NULL, &spread);
    /* What is added to a convolution, joined and with rows that are not there. */
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}, {2, 3, 0}};
    ls_conv_spec plain = {.spatial = 2};
    ls_tensor *y = ls_conv(s, x, operand(s, rng, p, LS_SHAPE(9, 9, 1, 1)), operand(s, rng, p, LS_SHAPE(9)), &plain);
    roots[3] = ls_relu(s, ls_add(s, y, x));
    roots[4] = ls_relu(s, ls_add(s, y, ls_pad_absent(s, parts[2], pads)));
    return 5;
}

static void joined(void **state) {
    for (uint64_t i = 0; i < 6; i++) {
        param p = {.dtype = LS_F32, .tame = i % 3 != 2, .n = 1 + (int64_t)i % 2, .m = i < 3 ? 40 : 7};
        check_case(*state, build_joined, i, &p, "joined", i < 2);
    }
}

/* Products whose operands are joined along k, some rows of it zeros, and results whose last axis is less than a vector: rows of one k after another,
 * chunks and batches of them; pixels as columns. */
typedef struct joining {
    int64_t batches, m, n, parts[3], zeros;
} joining;

static int build_joined_k(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const joining *p = p_;
    ls_tensor *parts[3];
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}, {p->zeros, 1, 0}};
    int64_t k = p->zeros ? p->zeros + 1 : 0;
    for (int i = 0; i < 3; i++) {
        parts[i] = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->batches, p->parts[i], p->n));
        k += p->parts[i];
    }
    ls_tensor *x = p->zeros ? ls_pad(s, ls_concat(s, parts, 3, 1), pads, 0) : ls_concat(s, parts, 3, 1), *a = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->m, k)),
              *c = random_tensor(s, rng, LS_F32, LS_SHAPE(p->m)), *column = ls_reshape(s, c, LS_SHAPE(p->m, 1));
    roots[0] = ls_matmul(s, a, x);
    roots[1] = ls_relu(s, ls_add(s, roots[0], column));
    roots[2] = ls_matmul(s, random_tensor(s, rng, LS_F32, LS_SHAPE(p->batches, p->m, k)), x);
    roots[3] = ls_add(s, ls_permute(s, ls_matmul(s, a, x), (int[]){0, 2, 1}), c);
    roots[4] = ls_permute(s, ls_matmul(s, a, ls_concat(s, (ls_tensor *[]){x}, 1, 1)), (int[]){0, 2, 1});
    return 5;
}

static void joined_along_k(void **state) {
    static const joining cases[] = {{1, 12, 200, {16, 16, 16}, 0}, {2, 64, 90, {3, 40, 5}, 0},  {1, 6, 1200, {30, 1, 33}, 2}, {3, 15, 64, {200, 290, 150}, 0},
                                    {1, 17, 130, {7, 600, 9}, 5},  {2, 2, 40, {1, 1, 1}, 0},  {1, 20, 100, {400, 300, 324}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(*state, build_joined_k, i, &cases[i], "joined along k", 1);
        if (!cases[i].zeros) {
            computed_by(build_joined_k, &cases[i], 5, "joined tensors");
        }
    }
}

/* Sums that tiles store with an addend of each row, and a least value: rows and columns for tiles of every size, sums in one slice and
 * two, infinities and NaNs among addends and operands, results that lie in others. */
typedef struct followed {
    int64_t batches, m, n, k;
    double floor; /* NaN: none */
} followed;

static int build_followed(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const followed *p = p_;
    ls_tensor *(*const numbers[])(ls_session *, ls_rng *, ls_dtype, ls_shape) = {tame_tensor, tame_tensor, random_tensor};
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->batches, p->m, p->k)),
              *y = numbers[ls_rng_below(rng, 3)](s, rng, LS_F32, LS_SHAPE(p->batches, p->k, p->n)),
              *add = numbers[ls_rng_below(rng, 3)](s, rng, LS_F32, LS_SHAPE(chance(rng, 2) ? 1 : p->batches, p->m, 1));
    y = chance(rng, 2) ? y : ls_scan(s, y, LS_SCAN_MAX, 2, 0, 0); /* no constant, which would be packed before */
    ls_tensor *z = ls_add(s, ls_matmul(s, x, y), add);
    z = p->floor == p->floor ? ls_max(s, z, ls_full(s, LS_F32, LS_SCALAR, p->floor)) : z;
    roots[0] = chance(rng, 3) ? ls_concat(s, (ls_tensor *[]){tame_tensor(s, rng, LS_F32, LS_SHAPE(p->batches, 3, p->n)), z}, 2, 1) : z;
    return 1;
}

static void followed_by_addends(void **state) {
    static const followed cases[] = {
        {1, 40, 64, 16, 0},     {1, 13, 160, 33, 0.25},  {2, 70, 48, 128, 0},   {1, 64, 1040, 65, -1}, {3, 6, 16, 1, 0},
        {1, 33, 992, 20, -0.0}, {1, 7, 128, 64, 0},      {1, 8, 80, 100, 0},    {2, 19, 32, 128, __builtin_nan("")},
        {1, 32, 4800, 16, 0},   {1, 5, 112, 3, -1e30},   {1, 20, 100, 40, 0},   {1, 12, 64, 129, 0},   {1, 20, 1040, 100, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            check_case(*state, build_followed, seed, &cases[i], "followed", 1);
        }
    }
}

/* Sums that tiles store with a row of addends, the same for all rows; and what is not that: a row of each batch entry, an addend of each
 * element, rows that some have alone, joined ones, elements that are not side by side. */
static ls_tensor *row_addends(ls_session *s, ls_rng *rng, const followed *p, int kind) {
    ls_tensor *row = random_tensor(s, rng, LS_F32, LS_SHAPE(1, p->n));
    switch (kind) {
    case 0:
        return row;
    case 1:
        return ls_narrow(s, random_tensor(s, rng, LS_F32, LS_SHAPE(3 * p->n)), 0, p->n + 1, p->n);
    case 2:
        return random_tensor(s, rng, LS_F32, LS_SHAPE(p->batches, 1, p->n));
    case 3:
        return random_tensor(s, rng, LS_F32, LS_SHAPE(p->m, p->n));
    case 4:
        return ls_pad_absent(s, ls_expand(s, row, LS_SHAPE(p->m - 1, p->n)), (ls_pad_spec[]){{.low = 1}, {0}});
    case 5:
        return ls_concat(s, (ls_tensor *[]){row, ls_expand(s, ls_neg(s, row), LS_SHAPE(p->m - 1, p->n))}, 2, 0);
    default:
        return ls_flip(s, row, 1);
    }
}

typedef struct followed_row {
    followed sizes;
    int kind;
} followed_row;

static int build_followed_row(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const followed_row *of = p_;
    const followed *p = &of->sizes;
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->batches, p->m, p->k));
    ls_tensor *y = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->batches, p->k, p->n));
    ls_tensor *add = row_addends(s, rng, p, of->kind), *z = ls_matmul(s, x, ls_scan(s, y, LS_SCAN_MAX, 2, 0, 0));
    z = chance(rng, 2) ? ls_add(s, z, add) : ls_add(s, add, z);
    roots[0] = p->floor == p->floor ? ls_max(s, z, ls_full(s, LS_F32, LS_SCALAR, p->floor)) : z;
    /* two axes of columns, along which the result is one run and the addends are not */
    ls_tensor *wide = ls_scan(s, tame_tensor(s, rng, LS_F32, LS_SHAPE(p->k, 3, 48)), LS_SCAN_MAX, 2, 0, 0);
    ls_tensor *apart = ls_narrow(s, random_tensor(s, rng, LS_F32, LS_SHAPE(3, 50)), 1, 1, 48);
    roots[1] = ls_add(s, ls_einsum(s, "bik,knj->binj", (ls_tensor *[]){x, wide}, 2), apart);
    return 2;
}

static void followed_by_rows(void **state) {
    static const followed sizes[] = {{1, 40, 64, 16, 0},      {1, 13, 160, 33, 0.25}, {2, 70, 48, 128, -0.0}, {1, 64, 1040, 65, -1},
                                     {3, 6, 16, 1, 0},        {1, 20, 100, 40, 0},    {1, 12, 64, 513, 0},    {1, 2, 112, 3, -1e30},
                                     {2, 19, 32, 512, __builtin_nan("")}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < 7; kind++) {
            check_case(*state, build_followed_row, i, &(followed_row){sizes[i], kind}, "followed by a row", 1);
        }
    }
}

static int build_layers(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    int64_t two[] = {2, 2}, three[] = {3, 3};
    ls_conv_spec plain = {.spatial = 2}, pool = {.spatial = 2, .stride = {2, 2}},
                 over = {.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}};
    ls_tensor *x = tame_tensor(s, rng, p->dtype, LS_SHAPE(2, 3, 12, 14)), *w[4];
    w[0] = tame_tensor(s, rng, p->dtype, LS_SHAPE(4, 3, 3, 3));
    w[1] = tame_tensor(s, rng, p->dtype, LS_SHAPE(4));
    w[2] = tame_tensor(s, rng, p->dtype, LS_SHAPE(10, 4 * 5 * 6));
    w[3] = tame_tensor(s, rng, p->dtype, LS_SHAPE(10));
    int32_t labels[2] = {3, 9};
    ls_tensor *h = ls_max_pool(s, ls_relu(s, ls_conv(s, x, w[0], w[1], &plain)), two, &pool);
    ls_tensor *logits = ls_linear(s, ls_reshape(s, h, LS_SHAPE(2, 4 * 5 * 6)), w[2], w[3]);
    ls_tensor *loss = ls_cross_entropy(s, logits, ls_tensor_from(s, LS_I32, LS_SHAPE(2), labels));
    roots[0] = loss;
    if (ls_grad(s, loss, NULL, 4, w, &roots[1]) != LS_OK) {
        return 1;
    }
    ls_tensor *pooled = ls_add(s, ls_max_pool(s, x, three, &over), ls_avg_pool(s, x, three, &over, 0));
    roots[5] = pooled;
    return ls_grad(s, pooled, NULL, 1, &x, &roots[6]) == LS_OK ? 7 : 6;
}

/* What is passed on where something is above 0, after a product and alone. */
static int build_passed(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *a = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->m, p->k)), *ab[8], *y[8]; /* each read by one kernel */
    for (int i = 0; i < 8; i++) {
        ab[i] = ls_matmul(s, a, tame_tensor(s, rng, LS_F32, LS_SHAPE(p->k, p->n)));
        y[i] = random_tensor(s, rng, LS_F32, LS_SHAPE(p->m, p->n));
    }
    ls_tensor *row = random_tensor(s, rng, LS_F32, LS_SHAPE(p->m, 1));
    ls_tensor *zero = ls_full(s, LS_F32, LS_SCALAR, 0), *minus = ls_full(s, LS_F32, LS_SCALAR, -0.0);
    roots[0] = ls_where(s, ls_lt(s, zero, y[0]), ab[0], zero);
    roots[1] = ls_mul(s, ls_where(s, ls_lt(s, zero, y[1]), ls_add(s, ab[1], row), zero), y[1]);
    roots[2] = ls_where(s, ls_lt(s, zero, ab[2]), y[2], zero);
    roots[3] = ls_where(s, ls_lt(s, zero, ls_mul(s, ab[3], y[3])), ls_add(s, ab[3], row), zero);
    roots[4] = ls_where(s, ls_lt(s, zero, row), ab[4], zero);
    roots[5] = ls_where(s, ls_lt(s, zero, ls_add(s, ab[5], y[5])), row, zero);
    roots[6] = ls_where(s, ls_lt(s, zero, y[6]), ab[6], minus);
    roots[7] = ls_add(s, ls_where(s, ls_lt(s, zero, ls_mul(s, y[7], row)), ls_sub(s, y[7], row), zero), y[7]);
    return 8;
}

static void passed(void **state) {
    static const param cases[] = {{LS_F32, 9, 40, 17, 0}, {LS_F32, 70, 330, 30, 0}, {LS_F32, 3, 700, 600, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(*state, build_passed, 700 + i, &cases[i], "passed on above 0", true);
    }
    computed_by(build_passed, &cases[1], 8, "then, in registers");
}

static void layers(void **state) {
    for (int d = LS_F16; d <= LS_F64; d++) {
        check_case(*state, build_layers, (uint64_t)d, &(param){.dtype = (ls_dtype)d},
                   ls_dtype_name((ls_dtype)d), 1);
    }
}

static int build_attention(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *q = tame_tensor(s, rng, p->dtype, LS_SHAPE(2, 4, p->m, 8)),
              *k = tame_tensor(s, rng, p->dtype, LS_SHAPE(2, 2, p->n, 8));
    ls_tensor *v = tame_tensor(s, rng, p->dtype, LS_SHAPE(2, 2, p->n, 5));
    ls_attention_spec spec = {.causal = 1};
    roots[0] = ls_attention(s, q, k, v, &spec);
    ls_tensor *xs[] = {q, k, v};
    return ls_grad(s, roots[0], NULL, 3, xs, &roots[1]) == LS_OK ? 4 : 1;
}

static void attention(void **state) {
    check_case(*state, build_attention, 1, &(param){.dtype = LS_F32, .m = 17, .n = 33}, "attention", 1);
    check_case(*state, build_attention, 2, &(param){.dtype = LS_F16, .m = 5, .n = 9}, "attention f16", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products),     cmocka_unit_test(large_product), cmocka_unit_test(runs_of_memory),
                                       cmocka_unit_test(convolutions), cmocka_unit_test(windows), cmocka_unit_test(programs),
                                       cmocka_unit_test(joined),       cmocka_unit_test(joined_along_k), cmocka_unit_test(sparse), cmocka_unit_test(sparse_moved), cmocka_unit_test(sparse_again),
                                       cmocka_unit_test(sparse_fast), cmocka_unit_test(pooled), cmocka_unit_test(thin_fast),
                                       cmocka_unit_test(followed_by_addends), cmocka_unit_test(followed_by_rows), cmocka_unit_test(passed),
                                       cmocka_unit_test(layers),       cmocka_unit_test(attention)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
