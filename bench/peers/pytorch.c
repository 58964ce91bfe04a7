/* PyTorch, in a process of its own (tools/peers/cases.py) that answers a line with a line:
 *   open THREADS KIND M N K CONSTANT BATCH IN OUT SIDE KERNEL STRIDE GROUPS  ->  ok DIGEST | no REASON
 *   run N wall|cpu  ->  SECONDS
 * It writes operands anew itself, and waits for its input meanwhile and does not disturb the others. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "bench/peers/peers.h"

const char *bench_pytorch_command;
char bench_pytorch_about[80];
static FILE *to, *from;
static struct bench_state {
    double digest;
} only; /* one case at a time */

static bool answer(char *line, size_t room) {
    fflush(to);
    if (!fgets(line, (int)room, from)) {
        snprintf(line, room, "no it ended");
        return false;
    }
    line[strcspn(line, "\n")] = 0;
    return true;
}

static bool find(char *reason, size_t room) {
    int down[2], up[2];
    if (pipe(down) || pipe(up)) {
        snprintf(reason, room, "no pipe");
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(down[0], 0);
        dup2(up[1], 1);
        close(down[0]), close(down[1]), close(up[0]), close(up[1]);
        setenv("MALLOC_MMAP_THRESHOLD_", "4000000000", 1); /* results in memory that it has had before: faster */
        setenv("MALLOC_TRIM_THRESHOLD_", "8000000000", 1);
        execl("/bin/sh", "sh", "-c", bench_pytorch_command, (char *)NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    to = fdopen(down[1], "w");
    from = fdopen(up[0], "r");
    char line[200];
    if (child < 0 || !to || !from || !answer(line, sizeof line) || strncmp(line, "torch ", 6) != 0) {
        snprintf(reason, room, "`%s` does not start (Debian: python3-torch, python3-numpy)", bench_pytorch_command);
        return false;
    }
    snprintf(bench_pytorch_about, sizeof bench_pytorch_about, "%.70s", line + 6);
    return true;
}

static bench_state *open_case(const bench_engine *e, const bench_case *c, int threads, char *reason, size_t room) {
    (void)e;
    static const char *const names[] = {
        [BENCH_GEMM] = "gemm",          [BENCH_CONV] = "conv",           [BENCH_LAYERNORM] = "layernorm",
        [BENCH_SOFTMAX] = "softmax",    [BENCH_GELU] = "gelu",           [BENCH_TRANSPOSE] = "transpose",
        [BENCH_SUM_ROWS] = "sum_rows",  [BENCH_SUM_COLUMNS] = "sum_columns", [BENCH_SUM_ALL] = "sum_all",
        [BENCH_CNN] = "cnn",            [BENCH_TRAIN] = "train",         [BENCH_ENCODER] = "encoder",
        [BENCH_MAX_ROWS] = "max_rows",  [BENCH_MAX_COLUMNS] = "max_columns", [BENCH_SOFTMAX_COLUMNS] = "softmax_columns",
        [BENCH_GATHER] = "gather",      [BENCH_JOIN] = "join",           [BENCH_PAD] = "pad",
        [BENCH_NHWC] = "nhwc",          [BENCH_MAX_POOL] = "max_pool",   [BENCH_AVERAGE_POOL] = "average_pool",
        [BENCH_LSTM] = "lstm",          [BENCH_BLOCKS] = "blocks",
    };
    char line[400];
    if (c->kind == BENCH_BLOCKS) {
        return NULL;
    }
    fprintf(to, "open %d %s%s %" PRId64 " %" PRId64 " %" PRId64 " %d", threads, names[c->kind], c->bf16 ? "_bf16" : "", c->m, c->n, c->k,
            c->constant);
    fprintf(to, " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", c->batch, c->in, c->out,
            c->side, c->kernel, c->stride, c->groups);
    answer(line, sizeof line);
    if (strncmp(line, "ok ", 3) != 0) {
        snprintf(reason, room, "%s", line + 3);
        return NULL;
    }
    only.digest = strtod(line + 3, NULL);
    return &only;
}

static double run(bench_state *s, int n) {
    (void)s;
    char line[200];
    fprintf(to, "run %d %s\n", n, bench_cpu_clock ? "cpu" : "wall");
    return answer(line, sizeof line) ? strtod(line, NULL) : -1;
}

static double digest(bench_state *s) {
    return s->digest;
}

static void close_state(bench_state *s) {
    (void)s;
    char line[200];
    fprintf(to, "close\n");
    answer(line, sizeof line);
}

const bench_engine bench_pytorch = {"PyTorch", false, find, open_case, NULL, run, digest, close_state, 0};
