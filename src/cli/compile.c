/* lockstep bench compile: what it takes to compile the kernels of a training step, of mnist:cnn and of a transformer's encoder
 * layer: once with an empty disk cache, once as the next process finds it. The drivers' own caches are turned off where they
 * let themselves be, and vets too (on a software device they run for minutes) unless LOCKSTEP_VET says otherwise. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct times {
    const char *network;
    int round;
    size_t skip; /* kernels that were compiled before */
    size_t count, room;
    double *make, *driver; /* ms */
    int cached;
    bool failed;
} times;

static int fail(const cli_world *w) {
    return cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
}

/* ---- networks: a loss each ---- */

static ls_tensor *cnn(ls_session *s, ls_params *p, ls_tensor **out_input) {
    enum { BATCH = 16 };
    int32_t labels[BATCH] = {0};
    *out_input = ls_input(s, "images", LS_F32, LS_SHAPE(BATCH, 1, 28, 28));
    return ls_cross_entropy(s, ls_nn_network(s, p, "mnist:cnn", *out_input), ls_tensor_from(s, LS_I32, LS_SHAPE(BATCH), labels));
}

static ls_tensor *heads(ls_session *s, ls_params *p, const char *name, ls_tensor *x) {
    ls_tensor *y = ls_reshape(s, ls_nn_linear(s, p, name, x, 256), LS_SHAPE(2, 64, 4, 64));
    return ls_permute(s, y, (const int[]){0, 2, 1, 3});
}

/* Batch 2, length 64, width 256 in 4 heads, 1024 between: attention and the two linear layers, each behind a layer norm. */
static ls_tensor *encoder(ls_session *s, ls_params *p, ls_tensor **out_input) {
    const ls_attention_spec spec = {.scale = 0};
    ls_tensor *x = *out_input = ls_input(s, "x", LS_F32, LS_SHAPE(2, 64, 256));
    ls_tensor *n = ls_nn_layer_norm(s, p, "norm1", x);
    ls_tensor *q = heads(s, p, "q", n), *k = heads(s, p, "k", n), *v = heads(s, p, "v", n);
    ls_tensor *a = ls_permute(s, ls_attention(s, q, k, v, &spec), (const int[]){0, 2, 1, 3});
    x = ls_add(s, x, ls_nn_linear(s, p, "out", ls_reshape(s, a, LS_SHAPE(2, 64, 256)), 256));
    ls_tensor *f = ls_gelu(s, ls_nn_linear(s, p, "up", ls_nn_layer_norm(s, p, "norm2", x), 1024));
    x = ls_add(s, x, ls_nn_linear(s, p, "down", f, 256));
    return ls_mean(s, ls_mul(s, x, x), 3, (const int[]){0, 1, 2}, 0);
}

static const struct {
    const char *name;
    ls_tensor *(*loss)(ls_session *s, ls_params *p, ls_tensor **out_input);
} networks[] = {{"mnist:cnn", cnn}, {"encoder", encoder}};

static int compile(cli_world *w, int network) {
    ls_session *s = w->session;
    ls_params *params = NULL;
    ls_optimizer *optimizer = NULL;
    ls_program *program = NULL;
    ls_tensor *input = NULL;
    const ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    int code = ls_params_create(s, 1, &params) == LS_OK ? EXIT_FINE : fail(w);
    ls_tensor *loss = code == EXIT_FINE ? networks[network].loss(s, params, &input) : NULL;
    if (!loss || ls_optimizer_create(s, params, &options, &optimizer) != LS_OK ||
        ls_optimizer_step(s, optimizer, loss, ls_full(s, LS_F32, LS_SCALAR, 0.001)) != LS_OK ||
        ls_program_compile(s, &input, 1, &loss, 1, &program) != LS_OK) {
        code = code == EXIT_FINE ? fail(w) : code;
    }
    ls_program_destroy(program);
    ls_optimizer_destroy(optimizer);
    ls_params_destroy(params);
    return code;
}

/* ---- figures ---- */

static void take(void *user, const ls_compile_info *info) {
    times *t = user;
    if (t->count == t->room) { /* the caller made room for all */
        t->failed = true;
        return;
    }
    t->make[t->count] = (double)info->make_ns * 1e-6;
    t->driver[t->count] = (double)info->driver_ns * 1e-6;
    t->cached += info->cached;
    t->count++;
    if (t->count == t->room - t->skip) {
        t->room = t->count; /* newest first: what is older belongs to others */
    }
}

static double sum(const double *x, size_t n) {
    double all = 0;
    for (size_t i = 0; i < n; i++) {
        all += x[i];
    }
    return all;
}

static void print(times *t, const ls_device_work *before, const ls_device_work *after, cJSON *rows) {
    const size_t n = t->count, half = n / 2, tenth = n ? (n - 1) * 9 / 10 : 0;
    unsigned long long vetted = after->vetted - before->vetted, verdicts = after->verdicts - before->verdicts;
    cli_sort(t->make, n);
    cli_sort(t->driver, n);
    printf("%-10s %5d %8zu %8d %9.2f %8.2f %9.2f %8.2f %10.1f %7llu %8llu %10.1f\n", t->network, t->round, n - (size_t)t->cached,
           t->cached, n ? t->make[half] : 0, n ? t->make[tenth] : 0, n ? t->driver[half] : 0, n ? t->driver[tenth] : 0,
           sum(t->make, n) + sum(t->driver, n), vetted, verdicts, (double)(after->vet_ns - before->vet_ns) * 1e-6);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "what", "compile");
    cJSON_AddStringToObject(o, "network", t->network);
    cJSON_AddNumberToObject(o, "round", t->round);
    cJSON_AddNumberToObject(o, "compiled", (double)n - t->cached);
    cJSON_AddNumberToObject(o, "cached", t->cached);
    cJSON_AddNumberToObject(o, "make_median_ms", n ? t->make[half] : 0);
    cJSON_AddNumberToObject(o, "make_p90_ms", n ? t->make[tenth] : 0);
    cJSON_AddNumberToObject(o, "driver_median_ms", n ? t->driver[half] : 0);
    cJSON_AddNumberToObject(o, "driver_p90_ms", n ? t->driver[tenth] : 0);
    cJSON_AddNumberToObject(o, "total_ms", sum(t->make, n) + sum(t->driver, n));
    cJSON_AddNumberToObject(o, "vetted", (double)vetted);
    cJSON_AddNumberToObject(o, "verdicts_cached", (double)verdicts);
    cJSON_AddItemToArray(rows, o);
}

static int measure(cli_world *w, int network, int round, cJSON *rows) {
    ls_device_work before = ls_device_get_work(w->device);
    int code = compile(w, network);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_device_work after = ls_device_get_work(w->device);
    times t = {.network = networks[network].name, .round = round, .skip = (size_t)(before.compiled + before.cached)};
    t.room = (size_t)(after.compiled + after.cached);
    t.make = malloc(sizeof *t.make * (t.room + 1));
    t.driver = malloc(sizeof *t.driver * (t.room + 1));
    if (t.make && t.driver && t.room > t.skip) {
        ls_device_compiles(w->device, take, &t);
    }
    if (t.make && t.driver) {
        print(&t, &before, &after, rows);
    } else {
        code = cli_error(EXIT_USAGE, "out of memory for the times of %zu kernels", t.room);
    }
    free(t.make);
    free(t.driver);
    return code;
}

int cli_bench_compile(cli_option *options, cJSON *rows) {
    static const char *const own[][2] = {
        {"CUDA_CACHE_DISABLE", "1"}, {"__GL_SHADER_DISK_CACHE", "0"}, {"MESA_SHADER_CACHE_DISABLE", "true"}};
    char folder[512];
    int code = EXIT_FINE;
    uint64_t removed;
    ls_error err = {.code = LS_OK};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        setenv(own[i][0], own[i][1], 1);
    }
    setenv("LOCKSTEP_VET", "off", 0);
    if (!cli_temporary_folder("lockstep-compile", folder, sizeof folder)) {
        return EXIT_USAGE;
    }
    setenv("LOCKSTEP_CACHE", folder, 1);
    for (int round = 1; round <= 2 && code == EXIT_FINE; round++) {
        cli_world w;
        code = cli_open(&w, options, NULL);
        if (code == EXIT_FINE && round == 1) {
            printf("%s: %s; times of a kernel in ms: ours (lowering, rendering) and the driver's\n", ls_device_id(w.device),
                   ls_device_caps(w.device)->name);
            printf("%-10s %5s %8s %8s %9s %8s %9s %8s %10s %7s %8s %10s\n", "network", "round", "compiled", "cached", "ours p50",
                   "p90", "drv. p50", "p90", "all", "vetted", "verdicts", "vets, ms");
        }
        for (int i = 0; i < 2 && code == EXIT_FINE; i++) {
            code = measure(&w, i, round, rows);
        }
        if (w.context) {
            cli_close(&w);
        }
    }
    (void)!ls_cache_clear(&removed, &err);
    rmdir(folder);
    return code;
}
