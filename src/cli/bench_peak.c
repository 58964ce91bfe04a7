/* lockstep bench peak: what this machine does at most, and the roof of a piece of work. */
#include "cli/bench.h"
#include <stdio.h>
#include <string.h>

enum { LEVELS = 4, MOST_COUNTS = 16 };
static const char *const level_names[LEVELS] = {"L1", "L2", "L3", "DRAM"};

/* The level of memory that holds so many bytes, shared evenly by the threads. */
static int level_of(const ls_caps *caps, double bytes) {
    int threads = caps->threads > 0 ? caps->threads : 1;
    for (int i = 0; i < 3; i++) {
        double room = (double)caps->cache_bytes[i] * (i < 2 ? threads : 1);
        if (bytes <= room) {
            return i;
        }
    }
    return 3;
}

/* A working set inside a level, for one thread: half of a cache, but not a whole shared one. */
static size_t inside(const ls_caps *caps, int level, int threads) {
    size_t l2 = caps->cache_bytes[1], shared = caps->cache_bytes[2] / 2 / (size_t)threads;
    if (level == 3) {
        size_t most = (size_t)1 << 30, twice = 2 * caps->cache_bytes[2];
        return (twice > most / 2 ? twice < most ? twice : most : most / 2) / (size_t)threads;
    }
    return level < 2 ? caps->cache_bytes[level] / 2 : shared < 8 * l2 ? shared : 8 * l2;
}

/* What arithmetic of this kind may do at most. */
static ls_status find_arithmetic(bench *b, ls_error *err) {
    ls_math math = ls_session_math(b->w.session);
    double halves = 0;
    b->rate = math == LS_LOCKED ? LS_RATE_MUL_ADD : LS_RATE_FMA;
    ls_status status = ls_device_rate(b->w.device, b->rate, 0, 0, &b->arithmetic, err);
    if (status == LS_OK && math == LS_REDUCED && ls_device_rate(b->w.device, LS_RATE_BF16, 0, 0, &halves, NULL) == LS_OK &&
        halves > b->arithmetic) {
        b->rate = LS_RATE_BF16;
        b->arithmetic = halves;
    }
    return status;
}

ls_status bench_roof_of(bench *b, double flops, double read, double written, bench_roof *out_roof, ls_error *err) {
    const ls_caps *caps = ls_device_caps(b->w.device);
    ls_rate best = written * 4 < read ? LS_RATE_READ : LS_RATE_COPY;
    double bandwidth = 0, streamed = 0, bytes = read + written;
    ls_status status = b->arithmetic == 0 ? find_arithmetic(b, err) : LS_OK;
    if (status == LS_OK && ls_device_rate(b->w.device, best, (size_t)bytes, 0, &bandwidth, NULL) != LS_OK) {
        best = LS_RATE_COPY; /* GPUs measure no other */
        status = ls_device_rate(b->w.device, best, (size_t)bytes, 0, &bandwidth, err);
    }
    if (status != LS_OK) {
        return status;
    }
    if (best == LS_RATE_COPY && ls_device_rate(b->w.device, LS_RATE_STREAM, (size_t)bytes, 0, &streamed, NULL) == LS_OK &&
        streamed > bandwidth) {
        bandwidth = streamed;
        best = LS_RATE_STREAM;
    }
    double computing = flops / b->arithmetic * 1e-9, moving = bytes / bandwidth * 1e-9;
    *out_roof = (bench_roof){.seconds = computing > moving ? computing : moving};
    const char *what = ls_rate_name(computing > moving ? b->rate : best);
    if (computing > moving || caps->cache_bytes[0] == 0) {
        snprintf(out_roof->name, sizeof out_roof->name, "of %s", what);
    } else {
        snprintf(out_roof->name, sizeof out_roof->name, "of %s %s", level_names[level_of(caps, bytes)], what);
    }
    return LS_OK;
}

/* 1, 2, 4, ... and all threads; one column where the host's do not count. */
static int thread_counts(const ls_caps *caps, int *counts) {
    int n = 0;
    for (int t = 1; t < caps->threads && n < MOST_COUNTS - 1; t *= 2) {
        counts[n++] = t;
    }
    counts[n++] = caps->threads;
    return n;
}

static void size_text(char *out, size_t room, double bytes) {
    if (bytes < 1 << 20) {
        snprintf(out, room, "%.0f KiB", bytes / 1024);
    } else {
        snprintf(out, room, "%.0f MiB", bytes / (1 << 20));
    }
}

/* One rate by each number of threads: a line and a row of the report each. */
static int print_rate(bench *b, ls_rate rate, int level, const int *counts, int n) {
    const ls_caps *caps = ls_device_caps(b->w.device);
    bool memory = rate >= LS_RATE_READ;
    const char *unit = memory ? "GB/s" : rate == LS_RATE_INT8 ? "GOP/s" : "GFLOP/s";
    char size[32] = "";
    for (int i = 0; i < n; i++) {
        int threads = counts[i] > 0 ? counts[i] : 1;
        size_t bytes = memory && caps->cache_bytes[0] ? inside(caps, level, threads) * (size_t)threads : 0;
        double value = 0;
        ls_error err = {.code = LS_OK};
        ls_status status = ls_device_rate(b->w.device, rate, bytes, counts[i], &value, &err);
        if (status != LS_OK && status != LS_ERR_UNSUPPORTED) {
            return cli_fail(err.code, err.message);
        }
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "what", "peak");
        cJSON_AddStringToObject(o, "rate", ls_rate_name(rate));
        cJSON_AddNumberToObject(o, "threads", counts[i]);
        if (bytes) {
            cJSON_AddStringToObject(o, "level", level_names[level]);
            cJSON_AddNumberToObject(o, "bytes", (double)bytes);
            size_text(size, sizeof size, (double)bytes / threads);
        }
        cJSON_AddItemToArray(b->rows, o);
        if (status == LS_ERR_UNSUPPORTED) {
            cJSON_AddStringToObject(o, "missing", err.message);
            printf("%-5s%-9s %-8s none: %s\n", bytes ? level_names[level] : "", ls_rate_name(rate), unit, err.message);
            return EXIT_FINE;
        }
        cJSON_AddNumberToObject(o, memory ? "gbytes_per_second" : "gflops", value);
        if (i == 0) {
            printf("%-5s%-9s %-8s", bytes ? level_names[level] : "", ls_rate_name(rate), unit);
        }
        printf(" %10.1f", value);
    }
    size[0] ? printf("   (%s a thread)\n", size) : printf("\n");
    fflush(stdout);
    return EXIT_FINE;
}

int bench_peak(bench *b) {
    const ls_caps *caps = ls_device_caps(b->w.device);
    int counts[MOST_COUNTS], n = thread_counts(caps, counts), code = EXIT_FINE;
    printf("%s%s%s\n%-23s", caps->name, caps->isa[0] ? ", " : "", caps->isa, "threads");
    for (int i = 0; i < n; i++) {
        counts[i] ? printf(" %10d", counts[i]) : printf(" %10s", "");
    }
    printf("\n");
    for (int rate = LS_RATE_FMA; rate < LS_RATE_READ && code == EXIT_FINE; rate++) {
        code = print_rate(b, (ls_rate)rate, 0, counts, n);
    }
    for (int level = caps->cache_bytes[0] ? 0 : 3; level < LEVELS && code == EXIT_FINE; level++) {
        for (int rate = LS_RATE_READ; rate < LS_RATE_COUNT && code == EXIT_FINE; rate++) {
            if (level == 3 || (caps->cache_bytes[level] && rate != LS_RATE_STREAM)) {
                code = print_rate(b, (ls_rate)rate, level, counts, n);
            }
        }
    }
    return code;
}
