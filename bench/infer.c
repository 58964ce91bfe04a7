/* One inference of a network on the CPU at batch N: the median, and the kernels' shares. It runs as WebAssembly too
 * (`node tests/web/run.mjs build/web/bench/infer.wasm`). Usage: infer [NETWORK [BATCH [RUNS]]] */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 10000 };

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void print_kernel(void *user, const ls_kernel_profile *k) {
    int runs = *(const int *)user;
    printf("  %8.3f ms  %s\n", (double)k->nanoseconds / 1e6 / runs, k->kernel);
}

static int measure(ls_session *s, const char *network, int batch, int runs) {
    static double ms[MOST];
    float *image = calloc((size_t)batch * 784, sizeof *image), *logits = calloc((size_t)batch * 10, sizeof *logits);
    ls_params *params = NULL;
    ls_program *program = NULL;
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(batch, 1, 28, 28));
    if (!image || !logits || ls_params_create(s, 1, &params) != LS_OK) {
        return 1;
    }
    for (int i = 0; i < batch * 784; i++) {
        image[i] = (float)(i * 37 % 256) / 255;
    }
    ls_tensor *y = ls_nn_network(s, params, network, x);
    const void *inputs[1] = {image};
    void *outputs[1] = {logits};
    double begin = now();
    ls_status status = ls_program_compile(s, &x, 1, &y, 1, &program);
    printf("%s, batch %d: compiled in %.1f ms\n", network, batch, now() - begin);
    for (int i = -20; status == LS_OK && i < runs; i++) {
        begin = now();
        status = ls_program_run(program, inputs, outputs);
        if (i >= 0) {
            ms[i] = now() - begin;
        }
    }
    if (status == LS_OK) {
        qsort(ms, (size_t)runs, sizeof *ms, by_value);
        printf("median %.3f ms of %d, fastest %.3f\n", ms[runs / 2], runs, ms[0]);
        ls_program_set_profile(program, 1);
        for (int i = 0; status == LS_OK && i < runs; i++) {
            status = ls_program_run(program, inputs, outputs);
        }
        ls_program_kernels(program, print_kernel, &runs);
    }
    ls_program_destroy(program);
    ls_params_destroy(params);
    free(image);
    free(logits);
    return status != LS_OK;
}

int main(int argc, char **argv) {
    const char *network = argc > 1 ? argv[1] : "mnist:cnn";
    int batch = argc > 2 ? atoi(argv[2]) : 1, runs = argc > 3 ? atoi(argv[3]) : 101;
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_session *s = NULL;
    if (batch < 1 || runs < 1 || runs > MOST) {
        fprintf(stderr, "usage: infer [NETWORK [BATCH [RUNS]]]\n");
        return 2;
    }
    if (ls_context_create(&(ls_context_options){.threads = 1}, &context, &err) != LS_OK || ls_session_create(context, NULL, &s, &err) != LS_OK) {
        fprintf(stderr, "infer: %s\n", err.message);
        return 1;
    }
    int code = measure(s, network, batch, runs);
    if (code) {
        fprintf(stderr, "infer: %s\n", ls_session_error(s)->message);
    }
    ls_session_destroy(s);
    ls_context_destroy(context);
    return code;
}
