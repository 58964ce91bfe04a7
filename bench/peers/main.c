/*
 * Lockstep beside oneDNN, OpenBLAS, ONNX Runtime and PyTorch, interleaved round by round; `make bench-peers` runs it. Prints
 * Markdown: for each case medians and ranges, the share of the roof that applies, and ratios to the best peer (its time
 * by ours, round by round); then geometric means by group. Ends with 1 when results differ.
 *
 * --clock cpu counts the time that a process had a core: on a busy machine, and for one thread alone, truer than the wall clock.
 *
 * Usage: peers [--rounds N] [--threads N[,N]] [--only TEXT] [--without ENGINES] [--clock cpu]
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/peers/peers.h"

enum { MOST_ROUNDS = 51, MOST_GROUPS = 16, WARM = 6 };
static const double ROUND_SECONDS = 0.02;

const bench_engine *const bench_engines[] = {&bench_locked,   &bench_fast,        &bench_onednn,  &bench_onednn_plain,
                                             &bench_openblas, &bench_onnxruntime, &bench_pytorch, NULL};
enum { LOCKED, FAST, FIRST_PEER };
char **bench_arguments;

typedef struct roof {
    double gflops, gbs;
} roof;

typedef struct group {
    const char *name;
    double log_locked, log_fast;
    int rows;
} group;

typedef struct options {
    int rounds, threads[8], n_threads;
    const char *only, *without;
} options;

typedef struct result {
    bool there;
    double seconds[MOST_ROUNDS]; /* of one computation */
    double digest;
} result;

static int differing;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *list, int n, double *out_low, double *out_high) {
    double sorted[MOST_ROUNDS];
    memcpy(sorted, list, (size_t)n * sizeof *list);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    *out_low = sorted[0];
    *out_high = sorted[n - 1];
    return sorted[n / 2];
}

static void rest(int threads) { /* until another library's threads have stopped spinning */
    if (threads > 1) {
        nanosleep(&(struct timespec){0, 60000000}, NULL);
    }
}

/* One engine's rounds are interleaved with the others'; how often it computes in one is found here. */
static int repetitions(const bench_engine *e, bench_state *s) {
    double took = e->run(s, 1);
    took = took < ROUND_SECONDS ? e->run(s, WARM) / WARM : took;
    return took < 0 ? 0 : took >= ROUND_SECONDS ? 1 : (int)(ROUND_SECONDS / (took + 1e-9)) + 1;
}

static void measure(const bench_case *c, int threads, int rounds, const bool *found, result *results) {
    bench_state *states[BENCH_MOST_ENGINES] = {NULL};
    int times[BENCH_MOST_ENGINES] = {0};
    char reason[400];
    for (int i = 0; bench_engines[i]; i++) {
        reason[0] = 0;
        states[i] = found[i] ? bench_engines[i]->open(bench_engines[i], c, threads, reason, sizeof reason) : NULL;
        if (reason[0]) {
            fprintf(stderr, "%s, %s: %s\n", c->name, bench_engines[i]->name, reason);
        }
        results[i].there = states[i] != NULL;
        if (states[i]) {
            times[i] = repetitions(bench_engines[i], states[i]);
            results[i].digest = bench_engines[i]->digest(states[i]);
            rest(threads);
        }
    }
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; bench_engines[i]; i++) {
            if (states[i]) {
                double took = times[i] ? bench_engines[i]->run(states[i], times[i]) : -1;
                results[i].there = results[i].there && took >= 0;
                results[i].seconds[r] = took / times[i];
                rest(threads);
            }
        }
    }
    for (int i = 0; bench_engines[i]; i++) {
        if (states[i]) {
            bench_engines[i]->close(states[i]);
        }
    }
}

/* A number of three digits. */
static void number(char *out, size_t room, double x) {
    snprintf(out, room, x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : x >= 0.1 ? "%.2f" : "%.4f", x);
}

/* A median with its range: GFLOP/s, GB/s, or ms. */
static void cell(const bench_case *c, const result *r, int rounds) {
    if (!r->there) {
        printf(" |");
        return;
    }
    double low, high, t = median(r->seconds, rounds, &low, &high);
    bool time = strcmp(c->group, "networks") == 0 || strcmp(c->group, "training") == 0;
    double amount = time ? 1 : bench_is_memory(c) ? bench_bytes(c) * 1e-9 : bench_flops(c) * 1e-9;
    char m[24], a[24], b[24];
    number(m, sizeof m, time ? t * 1e3 : amount / t);
    number(a, sizeof a, time ? low * 1e3 : amount / high);
    number(b, sizeof b, time ? high * 1e3 : amount / low);
    printf(" %s (%s to %s) |", m, a, b);
}

static void ratio(const result *ours, const result *peer, int rounds, double *log_sum) {
    double each[MOST_ROUNDS], low, high;
    if (!ours->there || !peer) {
        printf(" |");
        return;
    }
    for (int r = 0; r < rounds; r++) {
        each[r] = peer->seconds[r] / ours->seconds[r];
    }
    double m = median(each, rounds, &low, &high);
    printf(" %.2f (%.2f to %.2f) |", m, low, high);
    *log_sum += log(m);
}

static const char *unit_of(const bench_case *c) {
    return strcmp(c->group, "networks") == 0 || strcmp(c->group, "training") == 0 ? "ms"
           : bench_is_memory(c)                                                  ? "GB/s"
                                                                                 : "GFLOP/s";
}

static void compare(const bench_case *c, const result *results) {
    for (int i = 1; bench_engines[i]; i++) {
        double a = results[LOCKED].digest, b = results[i].digest, apart = fabs(a - b);
        if (results[LOCKED].there && results[i].there && !isnan(a) && !isnan(b) && !(apart <= 1e-5 * fmax(1, 10 * fabs(a)))) {
            fprintf(stderr, "%s: %s gives another result (%.8g, not %.8g)\n", c->name, bench_engines[i]->name, b, a);
            differing++;
        }
    }
}

static void row(const bench_case *c, int threads, int rounds, const roof *top, const result *results, group *g) {
    const result *best = NULL;
    int winner = 0;
    double least = INFINITY, low, high;
    for (int i = FIRST_PEER; bench_engines[i]; i++) {
        double t = results[i].there ? median(results[i].seconds, rounds, &low, &high) : INFINITY;
        if (t < least) {
            least = t, best = &results[i], winner = i;
        }
    }
    printf("| %s | %d | %s |", c->name, threads, unit_of(c));
    for (int i = 0; bench_engines[i]; i++) {
        cell(c, &results[i], rounds);
    }
    double share = NAN;
    if (results[FAST].there && (bench_is_memory(c) || bench_flops(c) > 0)) {
        double t = median(results[FAST].seconds, rounds, &low, &high);
        share = bench_is_memory(c) ? bench_bytes(c) / t * 1e-9 / top->gbs : bench_flops(c) / t * 1e-9 / top->gflops;
    }
    isnan(share) ? printf(" |") : printf(" %.0f %% |", share * 100);
    printf(" %s |", best ? bench_engines[winner]->name : "");
    ratio(&results[LOCKED], best, rounds, &g->log_locked);
    ratio(&results[FAST], best, rounds, &g->log_fast);
    g->rows += best && results[LOCKED].there && results[FAST].there;
    printf("\n");
    fflush(stdout);
}

static group *group_of(group *groups, const char *name) {
    int i = 0;
    while (groups[i].name && strcmp(groups[i].name, name) != 0) {
        i++;
    }
    groups[i].name = name;
    return &groups[i];
}

static void head(void) {
    printf("| work | threads | unit |");
    for (int i = 0; bench_engines[i]; i++) {
        printf(" %s |", bench_engines[i]->name);
    }
    printf(" fast: of the roof | best peer | locked ratio | fast ratio |\n|---|---|---|");
    for (int i = 0; bench_engines[i]; i++) {
        printf("---|");
    }
    printf("---|---|---|---|\n");
}

/* What the machine can do at most with so many threads. */
static roof roof_of(int threads) {
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_device *device = NULL;
    roof r = {NAN, NAN};
    if (ls_context_create(&(ls_context_options){.threads = threads}, &context, &err) != LS_OK ||
        ls_device_open(context, "cpu", &device, &err) != LS_OK || ls_device_peak(device, LS_FAST, &r.gflops, &r.gbs, &err) != LS_OK) {
        fprintf(stderr, "peers: no peak: %s\n", err.message);
    }
    ls_context_destroy(context);
    return r;
}

static void run_all(const options *o, const bool *found) {
    static result results[BENCH_MOST_ENGINES];
    for (int t = 0; t < o->n_threads; t++) {
        group groups[MOST_GROUPS] = {{.name = NULL}};
        roof top = roof_of(o->threads[t]);
        printf("\n%d thread%s: %.0f GFLOP/s, copy %.1f GB/s.\n\n", o->threads[t], o->threads[t] > 1 ? "s" : "", top.gflops, top.gbs);
        head();
        for (const bench_case *c = bench_cases; c->name; c++) {
            if (o->only && !strstr(c->name, o->only) && !strstr(c->group, o->only)) {
                continue;
            }
            memset(results, 0, sizeof results);
            measure(c, o->threads[t], o->rounds, found, results);
            compare(c, results);
            row(c, o->threads[t], o->rounds, &top, results, group_of(groups, c->group));
        }
        printf("\nGeometric means of the ratios to the best peer of each row, %d thread%s:\n\n| group | rows | locked | fast |\n|---|---|---|---|\n",
               o->threads[t], o->threads[t] > 1 ? "s" : "");
        for (int i = 0; groups[i].name; i++) {
            if (groups[i].rows) {
                printf("| %s | %d | %.2f | %.2f |\n", groups[i].name, groups[i].rows, exp(groups[i].log_locked / groups[i].rows),
                       exp(groups[i].log_fast / groups[i].rows));
            }
        }
    }
}

static bool parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!value) {
            return false;
        } else if (strcmp(argv[i], "--rounds") == 0) {
            o->rounds = atoi(value);
        } else if (strcmp(argv[i], "--only") == 0) {
            o->only = value;
        } else if (strcmp(argv[i], "--without") == 0) {
            o->without = value;
        } else if (strcmp(argv[i], "--onnxruntime") == 0) {
            bench_onnxruntime_path = value;
        } else if (strcmp(argv[i], "--pytorch") == 0) {
            bench_pytorch_command = value;
        } else if (strcmp(argv[i], "--clock") == 0) {
            bench_cpu_clock = strcmp(value, "cpu") == 0;
        } else if (strcmp(argv[i], "--threads") == 0) {
            o->n_threads = sscanf(value, "%d,%d,%d", &o->threads[0], &o->threads[1], &o->threads[2]);
        } else {
            return false;
        }
    }
    return o->rounds >= 1 && o->rounds <= MOST_ROUNDS && o->n_threads >= 1;
}

int main(int argc, char **argv) {
    static const char *const about[] = {NULL, NULL, bench_onednn_about, bench_onednn_about, bench_openblas_about,
                                        bench_onnxruntime_about, bench_pytorch_about};
    options o = {.rounds = 5, .threads = {1, 2}, .n_threads = 2};
    bool found[BENCH_MOST_ENGINES];
    char reason[400], date[40];
    bench_arguments = argv;
    bench_onnxruntime_path = "build/data/models/peer/node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime.so.1";
    bench_pytorch_command = "/usr/bin/python3 tools/peers/cases.py";
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: peers [--rounds N] [--threads N[,N]] [--only TEXT] [--without ENGINES] [--clock wall|cpu]\n"
                        "             [--onnxruntime FILE] [--pytorch COMMAND]\n");
        return 2;
    }
    for (int i = 0; bench_engines[i]; i++) { /* OpenBLAS may start the program again: nothing is printed before */
        found[i] = !(o.without && strstr(o.without, bench_engines[i]->name)) && bench_engines[i]->find(reason, sizeof reason);
        if (!found[i]) {
            bool asked = o.without && strstr(o.without, bench_engines[i]->name);
            fprintf(stderr, "without %s: %s\n", bench_engines[i]->name, asked ? "as asked" : reason);
        }
    }
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    printf("%s, %d interleaved rounds, each at least %.0f ms; ", date, o.rounds, ROUND_SECONDS * 1e3);
    for (int i = FIRST_PEER; bench_engines[i]; i++) {
        if (found[i] && bench_engines[i] != &bench_onednn_plain) {
            printf("%s %s; ", bench_engines[i]->name, about[i]);
        }
    }
    printf("median (range)%s.\n", bench_cpu_clock ? ", in time that the process had a core" : "");
    run_all(&o, found);
    if (differing) {
        fprintf(stderr, "peers: %d results differ\n", differing);
    }
    return differing != 0;
}
