/* lockstep bench: speed through the public interface, as a program that replays, beside the roof that
 * applies: arithmetic, or the bandwidth of the memory that holds the work. Medians over rounds. */
#include "cli/bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(bench *b) {
    return cli_fail(ls_session_error(b->w.session)->code, ls_session_error(b->w.session)->message);
}

/* A few runs more, kernel by kernel; printed with --profile. */
static int profile(bench *b, ls_program *program, const void *const *inputs, void *const *outputs) {
    enum { RUNS = 5 };
    ls_program_set_profile(program, 1);
    double start = now();
    for (int i = 0; i < RUNS; i++) {
        if (ls_program_run(program, inputs, outputs) != LS_OK) {
            return fail(b);
        }
    }
    double seconds = now() - start;
    if (!cli_given(b->options, "profile")) {
        return EXIT_FINE;
    }
    cJSON *o = cJSON_CreateObject();
    int code = cli_profile(program, seconds, o);
    cJSON_AddItemToArray(b->rows, o);
    return code;
}

/* Seconds of one computation of y, the median of the rounds, each of at least 20 ms. */
static int time_of(bench *b, ls_tensor *y, double *out_seconds) {
    ls_program *program = NULL;
    void *none[1] = {NULL};
    double *seconds = malloc(sizeof *seconds * (size_t)b->rounds);
    int64_t times = 1;
    if (!seconds || ls_program_compile(b->w.session, NULL, 0, &y, 1, &program) != LS_OK) {
        free(seconds);
        return fail(b);
    }
    ls_status status = ls_program_run(program, NULL, none);
    for (int64_t round = -1; round < b->rounds && status == LS_OK;) {
        double start = now();
        for (int64_t i = 0; i < times && status == LS_OK; i++) {
            status = ls_program_run(program, NULL, none);
        }
        double took = now() - start;
        if (round < 0 && took < 0.02) { /* until a round is long enough to time */
            times *= 2;
            continue;
        }
        if (round >= 0) {
            seconds[round] = took / (double)times;
        }
        round++;
    }
    if (status == LS_OK) {
        cli_sort(seconds, (size_t)b->rounds);
        *out_seconds = seconds[b->rounds / 2];
    }
    free(seconds);
    int code = status != LS_OK                    ? fail(b)
               : cli_given(b->options, "profile") ? profile(b, program, NULL, none)
                                                  : EXIT_FINE;
    ls_program_destroy(program);
    return code;
}

/* A variable of f32 values in [-1, 1): a leaf that a program cannot fold away. */
static ls_tensor *operand(bench *b, const char *name, ls_shape shape, ls_var **out_var) {
    *out_var = ls_var_create(b->w.session, name, LS_F32, shape, NULL);
    ls_tensor *zeros = *out_var ? ls_var_value(b->w.session, *out_var) : NULL;
    ls_tensor *key = ls_random_key(b->w.session, 1),
              *one = zeros ? ls_full(b->w.session, LS_F32, shape, 0.5) : NULL;
    if (!zeros ||
        ls_var_assign(b->w.session, *out_var,
                      ls_sub(b->w.session, ls_random_uniform(b->w.session, key, shape, LS_F32), one)) !=
            LS_OK ||
        ls_realize(b->w.session, NULL, 0) != LS_OK) {
        return NULL;
    }
    return ls_var_value(b->w.session, *out_var);
}

/* Work that a row is about. */
typedef struct work {
    const char *what;
    int64_t m, n, k;
    double flops, read, written;
} work;

static int row(bench *b, const work *w, double seconds) {
    double gflops = w->flops / seconds * 1e-9, gbs = (w->read + w->written) / seconds * 1e-9;
    bench_roof roof;
    ls_error err = {.code = LS_OK};
    if (bench_roof_of(b, w->flops, w->read, w->written, &roof, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    double share = roof.seconds / seconds;
    printf("%-11s %6lld %6lld %6lld  %-7s %9.1f us  %8.1f %s  %5.1f %% %s\n", w->what, (long long)w->m, (long long)w->n,
           (long long)w->k, b->math, seconds * 1e6, w->flops > 0 ? gflops : gbs, w->flops > 0 ? "GFLOP/s" : "GB/s   ", 100 * share,
           roof.name);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "what", w->what);
    cJSON_AddNumberToObject(o, "m", (double)w->m);
    cJSON_AddNumberToObject(o, "n", (double)w->n);
    cJSON_AddNumberToObject(o, "k", (double)w->k);
    cJSON_AddStringToObject(o, "dtype", "f32");
    cJSON_AddNumberToObject(o, "threads", ls_device_caps(b->w.device)->threads);
    cJSON_AddStringToObject(o, "math", b->math);
    cJSON_AddNumberToObject(o, "gflops", gflops);
    cJSON_AddNumberToObject(o, "gbytes_per_second", gbs);
    cJSON_AddNumberToObject(o, "of_peak", share);
    cJSON_AddStringToObject(o, "peak", roof.name + strlen("of "));
    cJSON_AddItemToArray(b->rows, o);
    return EXIT_FINE;
}

static int bench_gemm(bench *b) {
    static const int64_t shapes[][3] = {{64, 64, 64},       {256, 256, 256},  {512, 512, 512},
                                        {1024, 1024, 1024}, {16, 1024, 1024}, {128, 3072, 768},
                                        {1, 4096, 4096}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
        ls_var *va, *vb;
        double seconds;
        ls_tensor *x = operand(b, "a", LS_SHAPE(m, k), &va), *y = operand(b, "b", LS_SHAPE(k, n), &vb);
        int code = x && y ? time_of(b, ls_matmul(b->w.session, x, y), &seconds) : fail(b);
        work w = {"gemm", m, n, k, 2.0 * (double)m * (double)n * (double)k, 4.0 * (double)(m * k + k * n), 4.0 * (double)(m * n)};
        code = code == EXIT_FINE ? row(b, &w, seconds) : code;
        if (code != EXIT_FINE) {
            return code;
        }
        ls_var_destroy(va);
        ls_var_destroy(vb);
    }
    return EXIT_FINE;
}

static int bench_conv(bench *b) {
    static const struct {
        const char *what;
        int64_t batch, in, out, side, kernel, stride, groups;
    } rows[] = {{"conv 3x3", 1, 64, 64, 56, 3, 1, 1},      {"conv 3x3", 8, 64, 64, 56, 3, 1, 1},
                {"conv 3x3", 128, 32, 64, 26, 3, 1, 1},    {"conv 3x3", 1, 128, 32, 14, 3, 1, 1},
                {"conv 1x1", 1, 64, 64, 56, 1, 1, 1},      {"conv 1x1", 1, 512, 512, 7, 1, 1, 1},
                {"conv 1x1", 1, 24, 28, 64, 1, 1, 1},      {"stem 3x3/2", 1, 3, 16, 224, 3, 2, 1},
                {"stem 7x7/2", 1, 3, 64, 224, 7, 2, 1},    {"depth 3x3", 1, 32, 32, 112, 3, 1, 32},
                {"depth 3x3", 8, 32, 32, 112, 3, 1, 32},   {"depth 3x3/2", 1, 64, 64, 112, 3, 2, 64},
                {"depth 3x3", 1, 512, 512, 14, 3, 1, 512}, {"depth 3x3", 1, 512, 512, 7, 3, 1, 512},
                {"depth 5x5", 1, 28, 28, 64, 5, 1, 28},    {"group 3x3", 1, 64, 64, 56, 3, 1, 16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t n = rows[i].batch, c = rows[i].in, side = rows[i].side, kernel = rows[i].kernel,
                stride = rows[i].stride, pad = kernel / 2, depth = c / rows[i].groups,
                out = (side + 2 * pad - kernel) / stride + 1;
        ls_var *vx, *vw;
        double seconds;
        ls_conv_spec spec = {.spatial = 2,
                             .stride = {stride, stride},
                             .groups = rows[i].groups,
                             .pad_low = {pad, pad},
                             .pad_high = {pad, pad}};
        ls_tensor *x = operand(b, "x", LS_SHAPE(n, c, side, side), &vx),
                  *w = operand(b, "w", LS_SHAPE(rows[i].out, depth, kernel, kernel), &vw);
        int code = x && w ? time_of(b, ls_conv(b->w.session, x, w, NULL, &spec), &seconds) : fail(b);
        int64_t filter = rows[i].out * depth * kernel * kernel;
        work done = {rows[i].what,
                     n,
                     c,
                     side,
                     2.0 * (double)(n * out * out * filter),
                     4.0 * (double)(n * c * side * side + filter),
                     4.0 * (double)(n * rows[i].out * out * out)};
        code = code == EXIT_FINE ? row(b, &done, seconds) : code;
        if (code != EXIT_FINE) {
            return code;
        }
        ls_var_destroy(vx);
        ls_var_destroy(vw);
    }
    return EXIT_FINE;
}

/* What memory bounds: a matrix of 4096 x 1024, alone and with another one, and 8 images of 64 channels. */
static int bench_norm(bench *b) {
    const int64_t m = 4096, n = 1024, channels = 64, side = 56;
    const int rows[] = {1}, columns[] = {0};
    const double size = 4.0 * (double)(m * n), image = 4.0 * (double)(8 * channels * side * side);
    const ls_conv_spec around = {.spatial = 2, .stride = {1, 1}, .pad_low = {1, 1}, .pad_high = {1, 1}};
    ls_session *s = b->w.session;
    ls_var *vars[3];
    ls_tensor *x = operand(b, "x", LS_SHAPE(m, n), &vars[0]), *y = operand(b, "y", LS_SHAPE(m, n), &vars[1]);
    ls_tensor *images = operand(b, "images", LS_SHAPE(8, channels, side, side), &vars[2]);
    if (!x || !y || !images) {
        return fail(b);
    }
    const struct {
        ls_tensor *y;
        work work;
    } all[] = {
        {ls_layer_norm(s, x, 1, NULL, NULL, 1e-5), {"layernorm", m, n, 0, 0, size, size}},
        {ls_softmax(s, x, 1), {"softmax", m, n, 0, 0, size, size}},
        {ls_gelu(s, x), {"gelu", m, n, 0, 0, size, size}},
        {ls_transpose(s, x, 0, 1), {"transpose", m, n, 0, 0, size, size}},
        {ls_sum(s, x, 1, rows, 0), {"sum rows", m, n, 0, 0, size, 4.0 * (double)m}},
        {ls_sum(s, x, 1, columns, 0), {"sum cols", m, n, 0, 0, size, 4.0 * (double)n}},
        {ls_variance(s, x, 1, columns, 0, 0), {"var cols", m, n, 0, 0, size, 4.0 * (double)n}},
        {ls_rms_norm(s, x, 1, NULL, 1e-5), {"rmsnorm", m, n, 0, 0, size, size}},
        {ls_layer_norm(s, ls_add(s, x, y), 1, NULL, NULL, 1e-5), {"add, norm", m, n, 0, 0, 2 * size, size}},
        {ls_softmax(s, ls_add(s, x, y), 1), {"add, softm.", m, n, 0, 0, 2 * size, size}},
        {ls_group_norm(s, images, 32, NULL, NULL, 1e-5), {"groupnorm", 8, channels, side, 0, image, image}},
        {ls_avg_pool(s, images, (const int64_t[]){3, 3}, &around, 1), {"avgpool 3x3", 8, channels, side, 0, image, image}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double seconds;
        int code = time_of(b, all[i].y, &seconds);
        code = code == EXIT_FINE ? row(b, &all[i].work, seconds) : code;
        if (code != EXIT_FINE) {
            return code;
        }
    }
    for (int i = 0; i < 3; i++) {
        ls_var_destroy(vars[i]);
    }
    return EXIT_FINE;
}

/* One training step of mnist:cnn at batch 128, and the time of our own work beside the kernels. */
static int bench_step(bench *b) {
    ls_session *s = b->w.session;
    enum { N = 128 };
    ls_params *params = NULL;
    ls_optimizer *optimizer = NULL;
    ls_program *program = NULL;
    ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    float *images = malloc(N * 784 * sizeof *images), rate = 0.001f, loss;
    int32_t labels[N];
    for (int i = 0; i < N; i++) {
        labels[i] = i % 10;
    }
    for (uint32_t i = 0, bits = 1; images && i < N * 784; i++) { /* no zeros, which kernels may leave out */
        bits = bits * 1664525 + 1013904223;
        images[i] = (float)((bits >> 8) + 1) * 0x1p-24f;
    }
    ls_tensor *inputs[3] = {ls_input(s, "images", LS_F32, LS_SHAPE(N, 1, 28, 28)),
                            ls_input(s, "labels", LS_I32, LS_SHAPE(N)),
                            ls_input(s, "rate", LS_F32, LS_SCALAR)};
    int code = images && ls_params_create(s, 1, &params) == LS_OK ? EXIT_FINE : fail(b);
    ls_tensor *y = code == EXIT_FINE
                       ? ls_cross_entropy(s, ls_nn_network(s, params, "mnist:cnn", inputs[0]), inputs[1])
                       : NULL;
    if (!y || ls_optimizer_create(s, params, &options, &optimizer) != LS_OK ||
        ls_optimizer_step(s, optimizer, y, inputs[2]) != LS_OK ||
        ls_program_compile(s, inputs, 3, &y, 1, &program) != LS_OK) {
        code = fail(b);
    }
    const void *in[3] = {images, labels, &rate};
    void *out[1] = {&loss};
    double *seconds = malloc(sizeof *seconds * (size_t)b->rounds);
    for (int64_t i = -2; i < b->rounds && code == EXIT_FINE && seconds; i++) {
        double start = now();
        code = ls_program_run(program, in, out) == LS_OK ? EXIT_FINE : fail(b);
        if (i >= 0) {
            seconds[i] = now() - start;
        }
    }
    uint64_t before = code == EXIT_FINE ? ls_program_get_stats(program).launches : 0;
    code = code == EXIT_FINE ? profile(b, program, in, out) : code;
    if (code == EXIT_FINE && seconds) {
        ls_program_stats stats = ls_program_get_stats(program);
        stats.launches -= before;
        cli_sort(seconds, (size_t)b->rounds);
        /* forward, input and weight gradients: 36 M multiply-adds an image; weights, gradients and two moments once each */
        code = row(b, &(work){"step", N, 0, 0, 72.0e6 * N, 4 * 4 * 1.2e6, 4 * 3 * 1.2e6}, seconds[b->rounds / 2]);
        printf(
            "%-10s %d kernels a step, %.3f us of host work a kernel, %.1f of %.1f MB of temporaries shared\n",
            "", stats.kernels, stats.launches ? (double)stats.host_ns * 1e-3 / (double)stats.launches : 0,
            (double)stats.temporary_bytes * 1e-6, (double)stats.separate_bytes * 1e-6);
    }
    free(seconds);
    free(images);
    ls_program_destroy(program);
    ls_optimizer_destroy(optimizer);
    ls_params_destroy(params);
    return code;
}

static int measure(bench *b, int (*run)(bench *b)) {
    int code = cli_open(&b->w, b->options, NULL);
    if (code != EXIT_FINE) {
        return code;
    }
    code = run(b);
    cli_close(&b->w);
    return code;
}

int cmd_bench(int argc, char **argv) {
    cli_option options[] = {
        CLI_DEVICE_OPTIONS,
        {.name = "rounds", .value = "N", .help = "of which the median is taken; default 7"},
        CLI_PROFILE_OPTION,
        CLI_JSON_OPTION,
        {.name = NULL},
    };
    static const struct {
        const char *name;
        int (*run)(bench *b);
    } benches[] = {{"peak", bench_peak},
                   {"gemm", bench_gemm},
                   {"conv", bench_conv},
                   {"norm", bench_norm},
                   {"step", bench_step}};
    const char *words[1];
    bench b = {.options = options, .rounds = 7};
    int code, n = cli_parse(cli_command_of("bench"), options, argc, argv, words, 1, &code), chosen = -1;
    if (n < 0) {
        return code;
    }
    bool compile = n == 1 && strcmp(words[0], "compile") == 0;
    for (int i = 0; n == 1 && i < 5; i++) {
        chosen = strcmp(benches[i].name, words[0]) == 0 ? i : chosen;
    }
    if (chosen < 0 && !compile) {
        return cli_error(EXIT_USAGE, "bench: expected peak, gemm, conv, norm, step or compile");
    }
    if (!cli_int(options, "rounds", 1, 1000, &b.rounds)) {
        return EXIT_USAGE;
    }
    cJSON *root = cJSON_CreateObject();
    b.rows = cJSON_AddArrayToObject(root, "rows");
    b.math = cli_text(options, "math", "locked");
    code = compile ? cli_bench_compile(options, b.rows) : measure(&b, benches[chosen].run);
    if (code != EXIT_FINE) {
        cJSON_Delete(root);
        return code;
    }
    return cli_json(options, root);
}
