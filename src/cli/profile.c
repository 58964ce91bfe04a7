/* --profile: where the time of a program went, kernel by kernel, the most costly first. */
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rows {
    ls_kernel_profile *data;
    size_t count, room;
    bool failed;
} rows;

static void add(void *user, const ls_kernel_profile *profile) {
    rows *r = user;
    if (r->count == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        ls_kernel_profile *data = realloc(r->data, room * sizeof *data);
        r->failed = r->failed || !data;
        if (!data) {
            return;
        }
        r->data = data;
        r->room = room;
    }
    r->data[r->count++] = *profile; /* its texts are the program's */
}

static int by_time(const void *a, const void *b) {
    const ls_kernel_profile *x = a, *y = b;
    return (x->nanoseconds < y->nanoseconds) - (x->nanoseconds > y->nanoseconds);
}

static void print_rate(double work, const ls_kernel_profile *p) {
    if (work > 0 && p->nanoseconds) {
        printf(" %8.1f", work * (double)p->launches / (double)p->nanoseconds);
    } else {
        printf(" %8s", "-");
    }
}

static void print_row(const ls_kernel_profile *p, double total, cJSON *out) {
    double ns = (double)p->nanoseconds, share = total > 0 ? ns / total : 0;
    printf("%6.1f %% %10.3f %8llu %10.1f", 100 * share, ns * 1e-6, (unsigned long long)p->launches,
           p->launches ? ns * 1e-3 / (double)p->launches : 0);
    print_rate(p->bytes, p);
    print_rate(p->flops, p);
    printf("  %-7s %s\n", p->strategy[0] ? p->strategy : "-", p->kernel);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "kernel", p->kernel);
    cJSON_AddStringToObject(o, "device", p->device);
    cJSON_AddStringToObject(o, "strategy", p->strategy);
    cJSON_AddStringToObject(o, "clock", p->clock);
    cJSON_AddNumberToObject(o, "launches", (double)p->launches);
    cJSON_AddNumberToObject(o, "nanoseconds", ns);
    cJSON_AddNumberToObject(o, "share", share);
    cJSON_AddNumberToObject(o, "bytes", p->bytes);
    cJSON_AddNumberToObject(o, "flops", p->flops);
    cJSON_AddItemToArray(out, o);
}

int cli_profile(const ls_program *program, double seconds, cJSON *root) {
    rows r = {NULL, 0, 0, false};
    double total = 0;
    ls_program_kernels(program, add, &r);
    if (r.failed) {
        free(r.data);
        return cli_error(EXIT_USAGE, "out of memory for a profile");
    }
    if (r.count) {
        qsort(r.data, r.count, sizeof *r.data, by_time);
    }
    for (size_t i = 0; i < r.count; i++) {
        total += (double)r.data[i].nanoseconds;
    }
    printf("profile: %zu kernels, %.3f ms by %s, of %.3f ms of runs\n", r.count, total * 1e-6,
           !r.count                              ? "no clock"
           : strcmp(r.data[0].clock, "host") == 0 ? "the host's clock"
                                                 : r.data[0].clock,
           seconds * 1e3);
    printf("%8s %10s %8s %10s %8s %8s  %-7s %s\n", "share", "total ms", "launches", "mean us", "GB/s", "GFLOP/s", "by",
           "kernel");
    cJSON *out = cJSON_AddArrayToObject(root, "profile");
    for (size_t i = 0; i < r.count; i++) {
        print_row(&r.data[i], total, out);
    }
    free(r.data);
    return EXIT_FINE;
}
