/* What the files of `lockstep bench` share. */
#ifndef LOCKSTEP_CLI_BENCH_H
#define LOCKSTEP_CLI_BENCH_H

#include "cli/cli.h"

typedef struct bench {
    cli_world w;
    cli_option *options;
    cJSON *rows;
    const char *math;
    double arithmetic; /* GFLOP/s of this kind of arithmetic; 0: not measured */
    ls_rate rate;      /* which that is */
    int64_t rounds;
} bench;

/* What bounds a piece of work: the time that this machine needs at least. */
typedef struct bench_roof {
    double seconds;
    char name[40]; /* "of fma", "of L2 copy" */
} bench_roof;

/* bench_peak.c: prints and reports every rate that the device measures, by 1 to all threads. */
int bench_peak(bench *b);
/* The roof of work that computes so much, and reads and writes so many bytes, which stay where they are from one time to
 * the next. LS_ERR_UNSUPPORTED where the device measures nothing. */
ls_status bench_roof_of(bench *b, double flops, double read, double written, bench_roof *out_roof, ls_error *err);

#endif
