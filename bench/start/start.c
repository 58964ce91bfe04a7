/*
 * How long a process takes from its start to the first logits of mnist:cnn, and the most memory that is resident then: Lockstep as a library
 * (built-in network with weights from a file; the same as an .onnx file), Lockstep's command, ONNX Runtime's library, onnxruntime-node.
 * Rounds are interleaved; medians and ranges. The file system's cache is warm.
 *
 * Usage: start [--rounds N] [--command FILE] [--onnxruntime FILE] [--script FILE]
 * A child is this program: start --child network|onnx|onnxruntime FILE. It writes a byte to descriptor 3 when the logits are
 * there, and its peak (VmHWM) to standard output.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __aarch64__
#define ONNXRUNTIME "build/data/models/peer/node_modules/onnxruntime-node/bin/napi-v6/linux/arm64/libonnxruntime.so.1"
#else
#define ONNXRUNTIME "build/data/models/peer/node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime.so.1"
#endif

enum { MOST_ROUNDS = 101, PIXELS = 784, ARGUMENTS = 8 };
static const double GOAL_MS = 5, GOAL_MB = 15;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- the children ---- */

static int done(float logit) {
    char line[200];
    int code = write(3, "x", 1) == 1 && logit == logit ? 0 : 1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            printf("%ld\n", strtol(line + 6, NULL, 10));
        }
    }
    fflush(stdout);
    _exit(code);
}

static int failed(const char *message) {
    fprintf(stderr, "start: %s\n", message);
    return 1;
}

static int network(const char *file, bool save) {
    static float image[PIXELS], logits[10];
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_session *s = NULL;
    ls_params *params = NULL;
    ls_program *program = NULL;
    if (ls_context_create(&(ls_context_options){.threads = 1}, &context, &err) != LS_OK ||
        ls_session_create(context, NULL, &s, &err) != LS_OK ||
        (save ? ls_params_create(s, 1, &params) : ls_params_open(s, file, &params, &err)) != LS_OK) {
        return failed(err.message);
    }
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(1, 1, 28, 28)), *y = ls_nn_network(s, params, "mnist:cnn", x);
    if (save) {
        return ls_params_save(s, params, file, &err) == LS_OK ? 0 : failed(err.message);
    }
    const void *in[] = {image};
    void *out[] = {logits};
    if (ls_program_compile(s, &x, 1, &y, 1, &program) != LS_OK || ls_program_run(program, in, out) != LS_OK) {
        return failed(ls_session_error(s)->message);
    }
    return done(logits[0]);
}

static int onnx(const char *file) {
    static float image[PIXELS];
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_session *s = NULL;
    ls_model *model = NULL;
    ls_runner *runner = NULL;
    ls_data *x = NULL, *y = NULL;
    if (ls_context_create(&(ls_context_options){.threads = 1}, &context, &err) != LS_OK ||
        ls_session_create(context, NULL, &s, &err) != LS_OK || ls_model_load(context, file, &model, &err) != LS_OK ||
        ls_data_wrap(context, LS_F32, 4, (const int64_t[]){1, 1, 28, 28}, image, NULL, NULL, &x, &err) != LS_OK) {
        return failed(err.message);
    }
    if (ls_runner_create(s, model, &runner) != LS_OK ||
        ls_runner_run(runner, 1, &(ls_named_data){ls_model_input(model, 0).name, x}, &y) != LS_OK) {
        return failed(ls_session_error(s)->message);
    }
    return done(*(const float *)ls_data_bytes(y));
}

/* ONNX Runtime's C interface: bench/peers/onnxruntime.c says where these places come from. */
static int onnxruntime(const char *file, const char *path, const char *input, const char *output) {
    static float image[PIXELS];
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *env, *options, *session, *info, *x, *y = NULL;
    struct base {
        void *const *(*get)(uint32_t);
    } const *(*base)(void) = NULL;
    if (library) {
        *(void **)&base = dlsym(library, "OrtGetApiBase");
    }
    if (!base) {
        return failed("no ONNX Runtime");
    }
    void *const *api = base()->get(13);
    float *logits = NULL;
    if (((void *(*)(int, const char *, void *))api[3])(3, "start", &env) || ((void *(*)(void *))api[10])(&options) ||
        ((void *(*)(void *, int))api[24])(options, 1) ||
        ((void *(*)(void *, const char *, void *, void *))api[7])(env, file, options, &session) ||
        ((void *(*)(int, int, void *))api[69])(0, 0, &info) ||
        ((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void *))api[49])(
            info, image, sizeof image, (const int64_t[]){1, 1, 28, 28}, 4, 1, &x) ||
        ((void *(*)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **))api[9])(
            session, NULL, &input, &x, 1, &output, 1, &y) ||
        ((void *(*)(void *, void *))api[51])(y, &logits)) {
        return failed("ONNX Runtime failed");
    }
    return done(logits[0]);
}

/* ---- the parent ---- */

typedef struct way {
    const char *name;
    char *arguments[ARGUMENTS];
    bool whole; /* to the end of the process; peak from the system */
    double ms[MOST_ROUNDS], cpu[MOST_ROUNDS], mb[MOST_ROUNDS];
    bool broken;
} way;

static void start(way *w, int round) {
    int first[2], text[2];
    char line[64] = "";
    if (pipe(first) || pipe(text)) {
        w->broken = true;
        return;
    }
    double begin = now();
    pid_t child = fork();
    if (child == 0) {
        int quiet = open("/dev/null", O_WRONLY);
        dup2(w->whole ? quiet : text[1], 1);
        dup2(first[1], 3);
        execvp(w->arguments[0], w->arguments);
        _exit(127);
    }
    close(first[1]);
    close(text[1]);
    char byte;
    int status = 1;
    struct rusage use = {0};
    bool came = read(first[0], &byte, 1) == 1;
    double at = now();
    ssize_t n = read(text[0], line, sizeof line - 1);
    wait4(child, &status, 0, &use);
    w->ms[round] = (w->whole ? now() : at) - begin;
    w->mb[round] = (w->whole || n <= 0 ? (double)use.ru_maxrss : strtod(line, NULL)) / 1024;
    w->cpu[round] = 1e3 * (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1e-3 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
    w->broken = w->broken || status != 0 || (!w->whole && !came);
    close(first[0]);
    close(text[0]);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print(way *w, int rounds) {
    if (w->broken) {
        printf("| %s | not measured | | |\n", w->name);
        return;
    }
    qsort(w->ms, (size_t)rounds, sizeof(double), by_value);
    qsort(w->mb, (size_t)rounds, sizeof(double), by_value);
    qsort(w->cpu, (size_t)rounds, sizeof(double), by_value);
    printf("| %s | %.1f (%.1f to %.1f) | %.1f (%.1f to %.1f) | %.1f |\n", w->name, w->ms[rounds / 2], w->ms[0], w->ms[rounds - 1], w->cpu[rounds / 2],
           w->cpu[0], w->cpu[rounds - 1], w->mb[rounds / 2]);
}

static bool make_files(char *self, const char *command, char *weights, char *model) {
    char line[900];
    snprintf(line, sizeof line, "%s --child save %s && LOCKSTEP_CACHE=off %s export mnist:cnn --weights %s --dim batch=1 --output %s >/dev/null",
             self, weights, command, weights, model);
    return system(line) == 0;
}

int main(int argc, char **argv) {
    if (argc >= 4 && strcmp(argv[1], "--child") == 0) {
        return strcmp(argv[2], "onnx") == 0          ? onnx(argv[3])
               : strcmp(argv[2], "onnxruntime") == 0 ? onnxruntime(argv[3], argv[4], "images", "logits")
                                                     : network(argv[3], strcmp(argv[2], "save") == 0);
    }
    char *command = "build/release/lockstep", *script = "tools/peers/first.mjs", *runtime = ONNXRUNTIME;
    int rounds = 11;
    for (int i = 1; i + 1 < argc; i += 2) {
        rounds = strcmp(argv[i], "--rounds") == 0 ? atoi(argv[i + 1]) : rounds;
        command = strcmp(argv[i], "--command") == 0 ? argv[i + 1] : command;
        runtime = strcmp(argv[i], "--onnxruntime") == 0 ? argv[i + 1] : runtime;
        script = strcmp(argv[i], "--script") == 0 ? argv[i + 1] : script;
    }
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    char folder[] = "/tmp/lockstep-start-XXXXXX", weights[64], model[64], self[400];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || !mkdtemp(folder)) {
        return failed("no folder");
    }
    self[n] = 0;
    snprintf(weights, sizeof weights, "%s/cnn.safetensors", folder);
    snprintf(model, sizeof model, "%s/cnn.onnx", folder);
    if (!make_files(self, command, weights, model)) {
        return failed("the network could not be written");
    }
    way ways[] = {
        {.name = "Lockstep's library, built-in network, weights from a file", .arguments = {self, "--child", "network", weights}},
        {.name = "Lockstep's library, .onnx", .arguments = {self, "--child", "onnx", model}},
        {.name = "Lockstep's command (`lockstep run`), to its end",
         .arguments = {command, "run", "mnist:cnn", "--weights", weights, "--input", "images=zeros"},
         .whole = true},
        {.name = "Lockstep's command, .onnx, to its end", .arguments = {command, "run", model, "--input", "images=zeros"}, .whole = true},
        {.name = "ONNX Runtime's library, .onnx", .arguments = {self, "--child", "onnxruntime", model, runtime}},
        {.name = "onnxruntime-node, .onnx", .arguments = {"node", script, model, runtime}},
    };
    int count = (int)(sizeof ways / sizeof *ways);
    setenv("LOCKSTEP_THREADS", "1", 1);
    for (int r = -1; r < rounds; r++) {
        for (int i = 0; i < count; i++) {
            start(&ways[i], r < 0 ? 0 : r);
        }
    }
    printf("| first logits of mnist:cnn from the start of the process | ms (range) | ms that it had a core | MB resident |\n|---|---|---|---|\n"
           "| goal | %.0f | | %.0f |\n",
           GOAL_MS, GOAL_MB);
    for (int i = 0; i < count; i++) {
        print(&ways[i], rounds);
    }
    unlink(weights);
    unlink(model);
    rmdir(folder);
    return 0;
}
