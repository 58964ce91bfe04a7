/*
 * Lockstep beside oneDNN, OpenBLAS, ONNX Runtime, ggml and PyTorch, interleaved round by round; `make bench-peers` runs it. Prints
 * Markdown: for each case medians and ranges, the share of the roof that applies, and ratios to the best peer (its time
 * by ours, round by round); then geometric means by group. Ends with 1 when results differ.
 *
 * --passes N goes over all cases N times: what a machine's other users take comes and goes by minutes, and each pass has memory of its own.
 * --own SHARE waits, before a time is taken, until all cores do that share of the most they were seen to do, and takes the time again where
 * they do not any more after it: another machine's threads on the same cores then take from no engine. For half a minute at most, each
 * time; the report says how often that was in vain.
 * --clock cpu counts the time that a process had a core: on a busy machine, and for one thread alone, truer than the wall clock.
 *
 * Usage: peers [--rounds N] [--passes N] [--threads N[,N]] [--only TEXT] [--without ENGINES] [--own SHARE] [--clock cpu]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/peers/peers.h"

enum { MOST_ROUNDS = 51, MOST_GROUPS = 16, MOST_ROWS = 128, WARM = 6 };
static const double ROUND_SECONDS = 0.02;

#ifdef __aarch64__
#define ONNXRUNTIME "build/data/models/peer/node_modules/onnxruntime-node/bin/napi-v6/linux/arm64/libonnxruntime.so.1"
#define GGML "build/data/models/ggml/bins/linux-arm64"
#else
#define ONNXRUNTIME "build/data/models/peer/node_modules/onnxruntime-node/bin/napi-v6/linux/x64/libonnxruntime.so.1"
#define GGML "build/data/models/ggml/bins/linux-x64"
#endif

const bench_engine *const bench_engines[] = {&bench_locked,       &bench_fast,     &bench_reduced,     &bench_onednn,
                                             &bench_onednn_plain, &bench_openblas, &bench_onnxruntime, &bench_onnxruntime_f32,
                                             &bench_ggml,         &bench_pytorch,  NULL};
enum { LOCKED, FAST, REDUCED, FIRST_PEER };
char **bench_arguments;

typedef struct group {
    const char *name;
    double log_ours[FIRST_PEER];
    int rows[FIRST_PEER];
} group;

typedef struct options {
    int rounds, passes, threads[8], n_threads;
    double own; /* 0: whatever else the cores do */
    const char *only, *without;
} options;

typedef struct result {
    bool there;
    double seconds[MOST_ROUNDS]; /* of one computation */
    double digest;
} result;

typedef struct entry {
    const bench_case *c;
    result of[BENCH_MOST_ENGINES];
    double roof[MOST_ROUNDS]; /* seconds that the machine needs at least, measured in each round too */
} entry;

static int differing;
static int timings, shared; /* times taken; of those, on cores that others had a part of, though not wanted */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *list, int n, double *out_low, double *out_high) {
    double *sorted = bench_memory((size_t)n * sizeof *sorted);
    memcpy(sorted, list, (size_t)n * sizeof *list);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    double middle = sorted[n / 2];
    *out_low = sorted[0];
    *out_high = sorted[n - 1];
    free(sorted);
    return middle;
}

static void print_unfused(const bench_roof *roof) {
    const double *ratios;
    int n = bench_roof_unfused(roof, &ratios);
    if (n > 0) {
        double low, high, middle = median(ratios, n, &low, &high);
        printf("\nMultiplications and additions by fused ones, beside the roofs: %.2f (%.2f to %.2f, %d times).\n", middle, low, high, n);
    }
}

/* Until an engine's threads have stopped looking for work, which some do for a tenth of a second and more: the next one would have to share
 * the cores with them. */
static void rest(int threads) {
    enum { QUIET = 3, MOST_NAPS = 100 };
    for (int nap = 0, quiet = 0; threads > 1 && quiet < QUIET && nap < MOST_NAPS; nap++) {
        double before = bench_core_seconds();
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        quiet = bench_core_seconds() - before < 0.001 ? quiet + 1 : 0;
    }
}

/* What asking for the time takes. */
static double clock_seconds(void) {
    static double least = 1;
    for (int i = 0; least == 1 || i < 20; i++) {
        double begin = bench_now(), took = bench_now() - begin;
        least = took < least ? took : least;
    }
    return least;
}

/* Seconds of n computations, or a negative number. */
static double compute(const bench_engine *e, bench_state *s, const bench_case *c, int n) {
    if (!e->renew || !bench_written(c)) {
        return e->run(s, n);
    }
    double seconds = 0;
    for (int i = 0; i < n; i += BENCH_UNSEEN) {
        double took = e->renew(s) ? e->run(s, n - i < BENCH_UNSEEN ? n - i : BENCH_UNSEEN) : -1;
        if (took < 0) {
            return -1;
        }
        seconds += took - clock_seconds();
    }
    return seconds;
}

/* One engine's rounds are interleaved with the others'; how often it computes in one is found here. The first time does not count:
 * what is prepared once (weights packed) is prepared then. */
static int repetitions(const bench_engine *e, bench_state *s, const bench_case *c) {
    double took = compute(e, s, c, 1) < 0 ? -1 : compute(e, s, c, 1);
    took = took < ROUND_SECONDS ? compute(e, s, c, WARM) / WARM : took;
    return took < 0 ? 0 : took >= ROUND_SECONDS ? 1 : (int)(ROUND_SECONDS / (took + 1e-9)) + 1;
}

static bool await_own(bench_roof *roof, double share) {
    enum { NAPS = 300 };
    bool own = bench_roof_is_own(roof, share);
    for (int nap = 0; !own && nap < NAPS; nap++) {
        nanosleep(&(struct timespec){0, 100000000}, NULL);
        own = bench_roof_is_own(roof, share);
    }
    return own;
}

typedef struct timing {
    bench_roof *roof;
    const bench_case *c;
    const bench_engine *engine; /* NULL: the roof */
    bench_state *state;
    int threads, times;
} timing;

/* Seconds of one computation, or a negative number. */
static double take(const timing *t) {
    if (!t->engine) {
        return bench_roof_seconds(t->roof, t->c, ROUND_SECONDS, t->threads > 1);
    }
    if (t->threads > 1) { /* not timed: cores that sleep take milliseconds to be there */
        (void)compute(t->engine, t->state, t->c, t->times);
    }
    return compute(t->engine, t->state, t->c, t->times) / t->times;
}

static double take_on_own(const timing *t, double share) {
    enum { MOST = 5 };
    for (int left = MOST;; left--) {
        bool own = await_own(t->roof, share);
        double took = take(t);
        rest(t->threads);
        own = own && bench_roof_is_own(t->roof, share);
        if (own || left == 1 || took < 0) {
            timings++;
            shared += !own;
            return took;
        }
    }
}

/* Rounds of pass `pass`. */
static void measure(entry *at, bench_roof *roof, int threads, int pass, const options *o, const bool *found) {
    const int first = pass * o->rounds;
    bench_state *states[BENCH_MOST_ENGINES] = {NULL};
    int times[BENCH_MOST_ENGINES] = {0};
    char reason[400];
    const bench_case *c = at->c;
    for (int i = 0; bench_engines[i]; i++) {
        reason[0] = 0;
        states[i] = found[i] ? bench_engines[i]->open(bench_engines[i], c, threads, reason, sizeof reason) : NULL;
        if (reason[0]) {
            fprintf(stderr, "%s, %s: %s\n", c->name, bench_engines[i]->name, reason);
        }
        at->of[i].there = (first == 0 || at->of[i].there) && states[i];
        if (states[i]) {
            times[i] = repetitions(bench_engines[i], states[i], c);
            at->of[i].digest = bench_engines[i]->digest(states[i]);
            rest(threads);
        }
    }
    bench_roof_begin(roof, c);
    for (int r = first; r < first + o->rounds; r++) {
        at->roof[r] = take_on_own(&(timing){.roof = roof, .c = c, .threads = threads}, o->own);
        for (int i = 0; bench_engines[i]; i++) {
            if (states[i]) {
                const timing t = {roof, c, bench_engines[i], states[i], threads, times[i]};
                at->of[i].seconds[r] = times[i] ? take_on_own(&t, o->own) : -1;
                at->of[i].there = at->of[i].there && at->of[i].seconds[r] >= 0;
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
    bool time = bench_is_timed(c);
    double amount = time ? 1 : bench_is_memory(c) ? bench_bytes(c) * 1e-9 : bench_flops(c) * 1e-9;
    char m[24], a[24], b[24];
    number(m, sizeof m, time ? t * 1e3 : amount / t);
    number(a, sizeof a, time ? low * 1e3 : amount / high);
    number(b, sizeof b, time ? high * 1e3 : amount / low);
    printf(" %s (%s to %s) |", m, a, b);
}

static void ratio(const result *ours, const double *other, int rounds, bool percent, double *out_log) {
    double each[MOST_ROUNDS], low, high;
    for (int r = 0; r < rounds; r++) {
        each[r] = other[r] / ours->seconds[r];
    }
    double m = median(each, rounds, &low, &high);
    percent ? printf(" %.0f %% |", m * 100) : printf(" %.2f (%.2f to %.2f) |", m, low, high);
    *out_log = log(m);
}

static const char *unit_of(const bench_case *c) {
    return bench_is_timed(c) ? "ms" : bench_is_memory(c) ? "GB/s" : "GFLOP/s";
}

static void compare(const bench_case *c, const result *results) {
    double tolerance = c->kind == BENCH_BLOCKS || c->bf16 ? 1e-3 : 1e-5; /* 8 bits of activations, or of all */
    for (int i = 1; bench_engines[i]; i++) {
        double a = results[LOCKED].digest, b = results[i].digest, apart = fabs(a - b);
        if (results[LOCKED].there && results[i].there && !isnan(a) && !isnan(b) && !(apart <= tolerance * fmax(1, 10 * fabs(a)))) {
            fprintf(stderr, "%s: %s gives another result (%.8g, not %.8g)\n", c->name, bench_engines[i]->name, b, a);
            differing++;
        }
    }
}

/* A group's table, with columns for the engines that did something in it. */
static void print_group(const entry *entries, int n, int threads, int rounds, group *g) {
    bool shown[BENCH_MOST_ENGINES] = {false};
    for (int i = 0; i < n; i++) {
        for (int e = 0; bench_engines[e]; e++) {
            shown[e] = shown[e] || entries[i].of[e].there;
        }
    }
    printf("\n| %s, %d thread%s | unit |", g->name, threads, threads > 1 ? "s" : "");
    for (int e = 0; bench_engines[e]; e++) {
        shown[e] ? printf(" %s |", bench_engines[e]->name) : 0;
    }
    printf(" best peer |");
    for (int e = 0; e < FIRST_PEER; e++) {
        shown[e] ? printf(" %s: of the roof | its ratio |", bench_engines[e]->name + strlen("Lockstep ")) : 0;
    }
    bool both = shown[LOCKED] && shown[FAST];
    printf(both ? " locked of fast |" : "");
    printf("\n|---|---|---|");
    for (int e = 0; bench_engines[e]; e++) {
        shown[e] ? printf(e < FIRST_PEER ? "---|---|---|" : "---|") : 0;
    }
    printf(both ? "---|\n" : "\n");
    for (int i = 0; i < n; i++) {
        const entry *at = &entries[i];
        int best = -1;
        double least = INFINITY, low, high, logarithm;
        printf("| %s | %s |", at->c->name, unit_of(at->c));
        for (int e = 0; bench_engines[e]; e++) {
            shown[e] ? cell(at->c, &at->of[e], rounds) : (void)0;
            double t = e >= FIRST_PEER && at->of[e].there ? median(at->of[e].seconds, rounds, &low, &high) : INFINITY;
            best = t < least ? e : best;
            least = t < least ? t : least;
        }
        printf(" %s |", best < 0 ? "" : bench_engines[best]->name);
        for (int e = 0; e < FIRST_PEER; e++) {
            if (!shown[e]) {
                continue;
            }
            at->of[e].there ? ratio(&at->of[e], at->roof, rounds, true, &logarithm) : (void)printf(" |");
            if (at->of[e].there && best >= 0) {
                ratio(&at->of[e], at->of[best].seconds, rounds, false, &logarithm);
                g->log_ours[e] += logarithm;
                g->rows[e]++;
            } else {
                printf(" |");
            }
        }
        if (both) {
            ratio(&at->of[LOCKED], at->of[FAST].seconds, rounds, false, &logarithm);
        }
        printf("\n");
    }
    fflush(stdout);
}

static void print_means(const group *groups, int threads) {
    printf("\n| geometric mean of the best peer's time by ours, %d thread%s |", threads, threads > 1 ? "s" : "");
    for (int e = 0; e < FIRST_PEER; e++) {
        printf(" %s |", bench_engines[e]->name + strlen("Lockstep "));
    }
    printf(" rows |\n|---|---|---|---|---|\n");
    for (const group *g = groups; g->name; g++) {
        printf("| %s |", g->name);
        for (int e = 0; e < FIRST_PEER; e++) {
            g->rows[e] ? printf(" %.2f |", exp(g->log_ours[e] / g->rows[e])) : printf(" |");
        }
        printf(" %d |\n", g->rows[FAST]);
    }
}

/* Every engine computes on the first n of `cores` (tools/peers/cases.py does the same): another core would have another clock and other neighbours. */
static void keep_cores(const cpu_set_t *cores, int n) {
    cpu_set_t kept;
    CPU_ZERO(&kept);
    for (int i = 0; i < CPU_SETSIZE && n > 0; i++) {
        if (CPU_ISSET(i, cores)) {
            CPU_SET(i, &kept);
            n--;
        }
    }
    if (sched_setaffinity(0, sizeof kept, &kept)) {
        perror("sched_setaffinity");
    }
}

/* The cases that are asked for, group by group, in the order of the groups' first ones. Returns how many. */
static int choose(const options *o, entry *entries) {
    int n = 0;
    for (const bench_case *first = bench_cases; first->name; first++) {
        bool seen = false;
        for (const bench_case *c = bench_cases; c < first; c++) {
            seen = seen || strcmp(c->group, first->group) == 0;
        }
        for (const bench_case *c = first; !seen && c->name; c++) {
            if (strcmp(c->group, first->group) == 0 && (!o->only || strstr(c->name, o->only) || strstr(c->group, o->only))) {
                entries[n++] = (entry){.c = c};
            }
        }
    }
    return n;
}

static void run_all(const options *o, const bool *found) {
    static entry entries[MOST_ROWS];
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores)) {
        perror("sched_getaffinity");
    }
    for (int t = 0; t < o->n_threads; t++) {
        group groups[MOST_GROUPS] = {{.name = NULL}};
        int threads = o->threads[t], n = choose(o, entries);
        keep_cores(&cores, threads);
        bench_roof *roof = bench_roof_open(threads);
        timings = shared = 0;
        for (int pass = 0; pass < o->passes; pass++) {
            for (int i = 0; i < n; i++) {
                measure(&entries[i], roof, threads, pass, o, found);
                compare(entries[i].c, entries[i].of);
                fprintf(stderr, "%s, %d thread%s, pass %d of %d: done\n", entries[i].c->name, threads, threads > 1 ? "s" : "", pass + 1, o->passes);
            }
        }
        for (int i = 0, n_groups = 0, rows; i < n; i += rows, n_groups++) {
            for (rows = 1; i + rows < n && strcmp(entries[i + rows].c->group, entries[i].c->group) == 0;) {
                rows++;
            }
            groups[n_groups].name = entries[i].c->group;
            print_group(entries + i, rows, threads, o->passes * o->rounds, &groups[n_groups]);
        }
        print_means(groups, threads);
        print_unfused(roof);
        if (o->own) {
            printf("\nCores at %.2f and more of %.1f GFLOP/s, the most that multiplications and additions had, before and after each time taken but %d of %d.\n", o->own,
                   bench_roof_whole(roof) * 1e-9, shared, timings);
        }
        bench_roof_close(roof);
    }
}

static bool parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!value) {
            return false;
        } else if (strcmp(argv[i], "--rounds") == 0) {
            o->rounds = atoi(value);
        } else if (strcmp(argv[i], "--passes") == 0) {
            o->passes = atoi(value);
        } else if (strcmp(argv[i], "--own") == 0) {
            o->own = atof(value);
        } else if (strcmp(argv[i], "--only") == 0) {
            o->only = value;
        } else if (strcmp(argv[i], "--without") == 0) {
            o->without = value;
        } else if (strcmp(argv[i], "--onnxruntime") == 0) {
            bench_onnxruntime_path = value;
        } else if (strcmp(argv[i], "--ggml") == 0) {
            bench_ggml_folder = value;
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
    bool threads = o->n_threads >= 1;
    for (int i = 0; i < o->n_threads; i++) {
        threads = threads && o->threads[i] >= 1;
    }
    return threads && o->own >= 0 && o->own < 1 && o->rounds >= 1 && o->passes >= 1 && o->rounds <= MOST_ROUNDS / o->passes;
}

int main(int argc, char **argv) {
    static const char *const about[] = {NULL, NULL, NULL, bench_onednn_about, NULL, bench_openblas_about,
                                        bench_onnxruntime_about, NULL, bench_ggml_about, bench_pytorch_about};
    options o = {.rounds = 5, .passes = 1, .threads = {1, 2}, .n_threads = 2};
    bool found[BENCH_MOST_ENGINES];
    char reason[400], date[40];
    bench_arguments = argv;
    bench_onnxruntime_path = ONNXRUNTIME;
    bench_ggml_folder = GGML;
    bench_pytorch_command = "/usr/bin/python3 tools/peers/cases.py";
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: peers [--rounds N] [--passes N] [--threads N[,N]] [--only TEXT] [--without ENGINES]\n"
                        "             [--own SHARE] [--clock wall|cpu] [--onnxruntime FILE] [--ggml FOLDER] [--pytorch COMMAND]\n");
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
    printf("%s, %d interleaved rounds in each of %d passes, each at least %.0f ms; ", date, o.rounds, o.passes, ROUND_SECONDS * 1e3);
    for (int i = FIRST_PEER; bench_engines[i]; i++) {
        if (found[i] && about[i]) {
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
