/* What the engine itself costs: host work a kernel when a program replays, compiling a graph, and a step that
 * builds its graph anew each time and finds it compiled. Medians of rounds; no kernel does more than 16
 * elements of work. Usage: engine [--kernels N] */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9, REPLAYS = 200, WIDTH = 16 };

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void die(const char *what, const ls_error *err) {
    fprintf(stderr, "engine: %s: %s\n", what, err->message);
    exit(1);
}

static void ok(ls_session *s, const char *what, ls_status status) {
    if (status != LS_OK) {
        die(what, ls_session_error(s));
    }
}

static ls_tensor *chain(ls_session *s, ls_tensor *x, int kernels) {
    for (int i = 0; i < kernels; i++) {
        x = i % 2 ? ls_exp(s, x) : ls_neg(s, x);
    }
    return x;
}

static void replay(ls_session *s, int kernels) {
    float in[WIDTH] = {0}, out[WIDTH];
    const void *ins[] = {in};
    void *outs[] = {out};
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(WIDTH)), *y = chain(s, x, kernels);
    ls_program *program;
    double compile = now(), whole[ROUNDS], host[ROUNDS];
    ok(s, "compile", ls_program_compile(s, &x, 1, &y, 1, &program));
    compile = now() - compile;
    for (int r = 0; r < ROUNDS; r++) {
        double begin = now();
        for (int i = 0; i < REPLAYS; i++) {
            ok(s, "run", ls_program_run(program, ins, outs));
        }
        whole[r] = (now() - begin) / REPLAYS / kernels;
        uint64_t before = ls_program_get_stats(program).host_ns;
        ls_program_set_profile(program, 1);
        for (int i = 0; i < REPLAYS; i++) {
            ok(s, "run", ls_program_run(program, ins, outs));
        }
        ls_program_set_profile(program, 0);
        host[r] = (double)(ls_program_get_stats(program).host_ns - before) / REPLAYS / kernels;
    }
    printf("replay   %5d kernels: %7.1f ns a kernel, of which %.1f ns are host work beside the launch\n",
           kernels, median(whole), median(host));
    printf("compile  %5d kernels: %7.1f ns a kernel\n", kernels, compile / kernels);
    ls_program_destroy(program);
}

static void rebuild(ls_session *s, int kernels) {
    float in[WIDTH] = {0};
    double spent[ROUNDS];
    uint64_t compiles = 0;
    for (int r = 0; r < ROUNDS; r++) {
        double begin = now();
        for (int i = 0; i < 10; i++) {
            ok(s, "scope", ls_scope_begin(s));
            ls_tensor *y = chain(s, ls_tensor_from(s, LS_F32, LS_SHAPE(WIDTH), in), kernels);
            ok(s, "realize", ls_realize(s, &y, 1));
            ls_scope_end(s);
        }
        spent[r] = (now() - begin) / 10 / kernels;
        compiles = r == 0 ? ls_session_get_stats(s).compiles : compiles;
    }
    printf("rebuild  %5d kernels: %7.1f ns a node to build, look up and run; compiled after the first round: "
           "%llu\n",
           kernels, median(spent), (unsigned long long)(ls_session_get_stats(s).compiles - compiles));
}

int main(int argc, char **argv) {
    int kernels = argc == 3 && strcmp(argv[1], "--kernels") == 0 ? atoi(argv[2]) : 400;
    ls_error err = {.code = LS_OK};
    ls_context_options options = {.threads = 1};
    ls_context *context = NULL;
    ls_session *s = NULL;
    if (kernels < 1 || (argc != 1 && argc != 3)) {
        fprintf(stderr, "usage: engine [--kernels N]\n");
        return 2;
    }
    if (ls_context_create(&options, &context, &err) != LS_OK ||
        ls_session_create(context, NULL, &s, &err) != LS_OK) {
        die("start", &err);
    }
    ls_session_set_fusion(s, 0); /* a kernel an operation */
    replay(s, kernels);
    rebuild(s, kernels);
    ls_session_destroy(s);
    ls_context_destroy(context);
    return 0;
}
