/* Speed of a device with threads through the public interface, to be set beside bench/peers/torch_gpu.py, which prints the
 * same rows: programs replay in bursts of at least 20 ms, a wait at the end of each; medians of rounds; operands lie in
 * several copies that take turns, so that no cache keeps them.
 * Usage: gpu [--device ID] [--rounds N] [--only TEXT] [--math locked|fast] [--strategy OP=NAME] [--profile on]
 * --profile: below each row its kernels, as the device's clock has them when each is waited for. */
#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 51, MAX_SETS = 16, OPERANDS = 3 };

typedef struct bench {
    ls_session *session;
    const char *only, *math;
    int rounds;
    bool profile;
} bench;

/* One row: builds the result from its operands. */
typedef struct row {
    const char *what;
    ls_tensor *(*build)(ls_session *s, ls_tensor *const *operands, const struct row *r);
    ls_dtype dtype;
    int64_t m, n, k;
    double flops, bytes; /* of one run: operations, or bytes that must move; one of them */
    int n_operands;
    ls_shape shapes[OPERANDS];
} row;

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void die(ls_session *s, const char *what) {
    fprintf(stderr, "gpu: %s: %s\n", what, ls_session_error(s)->message);
    exit(1);
}

static void wait_all(ls_session *s) {
    ls_ticket ticket;
    if (ls_submit(s, NULL, 0, &ticket) != LS_OK || ls_wait(s, ticket) != LS_OK) {
        die(s, "wait");
    }
}

/* Values in [-0.5, 0.5). */
static ls_tensor *operand(ls_session *s, ls_dtype dtype, ls_shape shape, ls_var **out_var) {
    static uint64_t keys;
    *out_var = ls_var_create(s, "operand", dtype, shape, NULL);
    ls_tensor *u = ls_random_uniform(s, ls_random_key(s, ++keys), shape, LS_F32);
    u = ls_cast(s, ls_sub(s, u, ls_full(s, LS_F32, shape, 0.5)), dtype);
    if (!*out_var || !u || ls_var_assign(s, *out_var, u) != LS_OK || ls_realize(s, NULL, 0) != LS_OK) {
        die(s, "operands");
    }
    return ls_var_value(s, *out_var);
}

/* Seconds a run, with `sets` programs taking turns. */
static double burst(ls_session *s, ls_program **programs, int sets, int64_t times) {
    static void *none[1];
    double start = now();
    for (int64_t i = 0; i < times; i++) {
        if (ls_program_run(programs[i % sets], NULL, none) != LS_OK) {
            die(s, "run");
        }
    }
    wait_all(s);
    return (now() - start) / (double)times;
}

static void print_kernel(void *user, const ls_kernel_profile *p) {
    (void)user;
    if (p->launches) {
        double us = (double)p->nanoseconds * 1e-3 / (double)p->launches;
        printf("           %-60.60s %10.1f us %9.1f GB/s, %s\n", p->kernel, us, p->bytes / us * 1e-3, p->clock);
    }
}

static void profile(const bench *b, ls_program **programs, int sets) {
    for (int i = 0; i < sets; i++) {
        ls_program_set_profile(programs[i], 1);
    }
    (void)burst(b->session, programs, sets, 4 * (int64_t)sets);
    ls_program_kernels(programs[sets - 1], print_kernel, NULL);
}

static int sets_of(const row *r) {
    double bytes = 0;
    for (int i = 0; i < r->n_operands; i++) {
        double n = 1;
        for (int d = 0; d < r->shapes[i].rank; d++) {
            n *= (double)r->shapes[i].dim[d].offset;
        }
        bytes += n * (double)ls_dtype_size(r->dtype);
    }
    int sets = (int)(200e6 / bytes) + 1; /* several times the largest cache */
    return sets < MAX_SETS ? sets : MAX_SETS;
}

static void run_row(bench *b, const row *r, ls_math math) {
    static const char *const kinds[] = {"locked", "fast", "reduced"};
    ls_program *programs[MAX_SETS];
    ls_var *vars[MAX_SETS][OPERANDS];
    double seconds[MAX_ROUNDS], compile = now();
    int sets = sets_of(r);
    ls_session_set_math(b->session, LS_LOCKED);
    for (int i = 0; i < sets; i++) {
        ls_tensor *operands[OPERANDS] = {NULL}, *y;
        for (int j = 0; j < r->n_operands; j++) {
            operands[j] = operand(b->session, r->dtype, r->shapes[j], &vars[i][j]);
        }
        compile = i ? compile : now();
        ls_session_set_math(b->session, math);
        y = r->build(b->session, operands, r);
        if (!y || ls_program_compile(b->session, NULL, 0, &y, 1, &programs[i]) != LS_OK) {
            die(b->session, r->what);
        }
        compile = i ? compile : now() - compile;
        ls_session_set_math(b->session, LS_LOCKED);
    }
    int64_t times = sets;
    (void)burst(b->session, programs, sets, sets);
    while (burst(b->session, programs, sets, times) * (double)times < 0.02) {
        times *= 2;
    }
    for (int i = 0; i < b->rounds; i++) {
        seconds[i] = burst(b->session, programs, sets, times);
    }
    qsort(seconds, (size_t)b->rounds, sizeof *seconds, by_value);
    double median = seconds[b->rounds / 2], amount = r->flops > 0 ? r->flops * 1e-9 : r->bytes * 1e-9;
    printf("%-10s %-4s %5lld %5lld %5lld %-7s %10.1f us (%.1f to %.1f) %9.1f %s, %lld a burst, compiled in %.0f ms\n", r->what,
           ls_dtype_name(r->dtype), (long long)r->m, (long long)r->n, (long long)r->k, kinds[math], median * 1e6,
           seconds[0] * 1e6, seconds[b->rounds - 1] * 1e6, amount / median, r->flops > 0 ? "GFLOP/s" : "GB/s", (long long)times,
           compile * 1e3);
    if (b->profile) {
        profile(b, programs, sets);
    }
    fflush(stdout);
    for (int i = 0; i < sets; i++) {
        ls_program_destroy(programs[i]);
        for (int j = 0; j < r->n_operands; j++) {
            ls_var_destroy(vars[i][j]);
        }
    }
}

/* ---- rows ---- */

static ls_tensor *product(ls_session *s, ls_tensor *const *o, const row *r) {
    (void)r;
    return ls_matmul(s, o[0], o[1]);
}
static ls_tensor *linear(ls_session *s, ls_tensor *const *o, const row *r) { /* the matrix line by line, as weights of layers lie */
    (void)r;
    return ls_matmul(s, o[0], ls_transpose(s, o[1], 0, 1));
}
static ls_tensor *convolution(ls_session *s, ls_tensor *const *o, const row *r) {
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    (void)r;
    return ls_conv(s, o[0], o[1], NULL, &spec);
}
static ls_tensor *chain(ls_session *s, ls_tensor *const *o, const row *r) {
    (void)r;
    return ls_gelu(s, ls_add(s, ls_mul(s, o[0], o[1]), o[2]));
}
static ls_tensor *layer_norm(ls_session *s, ls_tensor *const *o, const row *r) {
    (void)r;
    return ls_layer_norm(s, o[0], 1, NULL, NULL, 1e-5);
}
static ls_tensor *softmax(ls_session *s, ls_tensor *const *o, const row *r) {
    (void)r;
    return ls_softmax(s, o[0], 1);
}
static ls_tensor *sum(ls_session *s, ls_tensor *const *o, const row *r) {
    return ls_sum(s, o[0], 1, (const int[]){r->k ? 0 : 1}, 0);
}
static ls_tensor *sum_all(ls_session *s, ls_tensor *const *o, const row *r) {
    (void)r;
    return ls_sum(s, o[0], 0, NULL, 0);
}
static ls_tensor *add_one(ls_session *s, ls_tensor *const *o, const row *r) {
    return ls_add(s, o[0], ls_full(s, r->dtype, LS_SHAPE(r->m, r->n), 1));
}
static ls_tensor *transpose(ls_session *s, ls_tensor *const *o, const row *r) {
    (void)r;
    return ls_neg(s, ls_transpose(s, o[0], 0, 1));
}

/* n: 1 in one kernel, where arithmetic allows it. */
static ls_tensor *attention(ls_session *s, ls_tensor *const *o, const row *r) {
    bool fused = r->n && ls_session_math(s) != LS_LOCKED;
    if (ls_session_set_strategy(s, "attention", fused ? "fused" : "composite") != LS_OK) {
        return NULL;
    }
    return ls_attention(s, o[0], o[1], o[2], &(ls_attention_spec){0});
}

static row heads(ls_dtype dtype, int64_t length, int fused) {
    ls_shape shape = LS_SHAPE(4, 16, length, 64);
    double flops = 4.0 * 4 * 16 * (double)length * (double)length * 64;
    return (row){fused ? "attention*" : "attention", attention, dtype, length, fused, 64, flops, 0, 3, {shape, shape, shape}};
}

static row gemm(ls_dtype dtype, int64_t m, int64_t n, int64_t k) {
    row r = {"gemm", product, dtype, m, n, k, 2.0 * (double)m * (double)n * (double)k, 0, 2, {LS_SHAPE(m, k), LS_SHAPE(k, n)}};
    if (m == 1) {
        r.what = "gemv";
        r.flops = 0;
        r.bytes = (double)(n * k) * (double)ls_dtype_size(dtype);
    }
    return r;
}

static row linear_of(ls_dtype dtype, int64_t n, int64_t k) {
    row r = gemm(dtype, 1, n, k);
    r.what = "linear";
    r.build = linear;
    r.shapes[1] = LS_SHAPE(n, k);
    return r;
}

static row rows_of(const char *what, ls_tensor *(*build)(ls_session *, ls_tensor *const *, const row *), ls_dtype dtype,
                   int operands, int results, int by_column) {
    const int64_t m = 8192, n = 4096;
    double bytes = (double)(m * n) * (double)ls_dtype_size(dtype) * (operands + results);
    ls_shape shape = LS_SHAPE(m, n);
    return (row){what, build, dtype, m, n, by_column, 0, bytes, operands, {shape, shape, shape}};
}

int main(int argc, char **argv) {
    const char *id = "cuda", *strategy = NULL;
    bench b = {.rounds = 5};
    ls_error err = {.code = LS_OK};
    ls_context *context;
    ls_device *device;
    double gflops = 0, gbs = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        id = strcmp(argv[i], "--device") == 0 ? argv[i + 1] : id;
        b.only = strcmp(argv[i], "--only") == 0 ? argv[i + 1] : b.only;
        b.math = strcmp(argv[i], "--math") == 0 ? argv[i + 1] : b.math;
        b.profile = b.profile || strcmp(argv[i], "--profile") == 0;
        strategy = strcmp(argv[i], "--strategy") == 0 ? argv[i + 1] : strategy;
        b.rounds = strcmp(argv[i], "--rounds") == 0 ? atoi(argv[i + 1]) : b.rounds;
    }
    if (argc % 2 == 0 || b.rounds < 1 || b.rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: gpu [--device ID] [--rounds 1 to %d] [--only TEXT] [--math locked|fast] [--strategy OP=NAME] [--profile on]\n",
                MAX_ROUNDS);
        return 2;
    }
    if (ls_context_create(NULL, &context, &err) != LS_OK || ls_device_open(context, id, &device, &err) != LS_OK ||
        ls_session_create(context, device, &b.session, &err) != LS_OK) {
        fprintf(stderr, "gpu: %s\n", err.message);
        return 3;
    }
    const char *name = strategy ? strchr(strategy, '=') : NULL;
    char kind[32];
    snprintf(kind, sizeof kind, "%.*s", name ? (int)(name - strategy) : 0, strategy ? strategy : "");
    if (strategy && ls_session_set_strategy(b.session, kind, name ? name + 1 : "") != LS_OK) {
        die(b.session, "--strategy");
    }
    for (int math = LS_LOCKED; math <= LS_FAST; math++) {
        if (ls_device_peak(device, (ls_math)math, &gflops, &gbs, NULL) == LS_OK) {
            printf("peak %s: %.0f GFLOP/s, copy %.0f GB/s\n", math ? "fast" : "locked", gflops, gbs);
        }
    }
    const double conv_flops = 2.0 * 32 * 64 * 56 * 56 * 64 * 9;
    const row rows[] = {
        gemm(LS_F32, 1024, 1024, 1024), gemm(LS_F32, 2048, 2048, 2048), gemm(LS_F32, 4096, 4096, 4096),
        gemm(LS_F16, 2048, 2048, 2048), gemm(LS_F16, 4096, 4096, 4096), gemm(LS_F16, 8192, 8192, 8192),
        gemm(LS_BF16, 2048, 2048, 2048), gemm(LS_BF16, 4096, 4096, 4096), gemm(LS_BF16, 8192, 8192, 8192),
        gemm(LS_F16, 1, 4096, 4096), gemm(LS_F32, 1, 4096, 4096),
        linear_of(LS_F16, 4096, 4096), linear_of(LS_F32, 4096, 4096),
        {"conv3x3", convolution, LS_F32, 32, 64, 56, conv_flops, 0, 2, {LS_SHAPE(32, 64, 56, 56), LS_SHAPE(64, 64, 3, 3)}},
        {"conv3x3", convolution, LS_F16, 32, 64, 56, conv_flops, 0, 2, {LS_SHAPE(32, 64, 56, 56), LS_SHAPE(64, 64, 3, 3)}},
        rows_of("x+1", add_one, LS_F32, 1, 1, 0), rows_of("gelu(xy+z)", chain, LS_F32, 3, 1, 0),
        rows_of("gelu(xy+z)", chain, LS_F16, 3, 1, 0), rows_of("layernorm", layer_norm, LS_F32, 1, 1, 0),
        rows_of("layernorm", layer_norm, LS_F16, 1, 1, 0), rows_of("softmax", softmax, LS_F32, 1, 1, 0),
        rows_of("softmax", softmax, LS_F16, 1, 1, 0), rows_of("sum rows", sum, LS_F32, 1, 0, 0),
        rows_of("sum cols", sum, LS_F32, 1, 0, 1), rows_of("sum all", sum_all, LS_F32, 1, 0, 0),
        rows_of("transpose", transpose, LS_F32, 1, 1, 0),
        heads(LS_F32, 1024, 0), heads(LS_F32, 1024, 1), heads(LS_F16, 1024, 0), heads(LS_F16, 1024, 1), heads(LS_F16, 4096, 0),
        heads(LS_F16, 4096, 1)};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int math = LS_LOCKED; math <= LS_FAST; math++) {
            bool chosen = !b.math || strcmp(b.math, math == LS_FAST ? "fast" : "locked") == 0;
            if (chosen && (!b.only || strstr(rows[i].what, b.only))) {
                run_row(&b, &rows[i], (ls_math)math);
            }
        }
    }
    ls_session_destroy(b.session);
    ls_context_destroy(context);
    return 0;
}
