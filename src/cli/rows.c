/* The part of lockstep check that computes conformance rows: what failed, how to repeat it, and why others were skipped. */
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

enum { REASONS = 16 };
static const char *const kinds[] = {"locked", "fast", "reduced"};
static const char *const states[] = {"passed", "failed", "skipped"};

typedef struct rows {
    const char *device, *plant;
    int wanted;
    ls_math math;
    cJSON *failures;
    ls_case_totals totals;
    double elements, blind, seconds;
    struct {
        char text[160];
        int count;
    } reasons[REASONS]; /* the last one takes what has no room */
} rows;

static void print_row(const ls_row_result *r) {
    printf("%-7s  %-6s  row %-4d %-46s %6.2f s%s%s\n", states[r->state], kinds[r->math], r->number, r->name,
           r->seconds, r->message[0] ? "  " : "", r->message);
    fflush(stdout);
}

/* Without numbers (but with "f64"), so that equal reasons meet. */
static void note_reason(rows *t, const char *message) {
    char plain[160];
    size_t n = 0;
    for (const char *c = message; *c && n + 1 < sizeof plain; c++) {
        bool digit = *c >= '0' && *c <= '9';
        char before = n ? plain[n - 1] : ' ';
        if (!digit || (before >= 'a' && before <= 'z') || (before >= '0' && before <= '9')) {
            plain[n++] = *c;
        } else if (before != '#') {
            plain[n++] = '#';
        }
    }
    plain[n] = 0;
    int i = 0;
    while (i < REASONS - 1 && t->reasons[i].count && strcmp(t->reasons[i].text, plain) != 0) {
        i++;
    }
    snprintf(t->reasons[i].text, sizeof t->reasons[i].text, "%s", i < REASONS - 1 ? plain : "other reasons");
    t->reasons[i].count++;
}

static void each_row(void *user, const ls_row_result *r) {
    rows *t = user;
    t->math = r->math;
    t->elements += (double)r->elements;
    t->blind += (double)r->blind;
    t->seconds += r->seconds;
    if (cli_tty()) {
        fprintf(stderr, "\r%s: row %d of %d\r", t->device, r->number + 1, t->wanted);
    }
    if (r->state == LS_CASE_SKIPPED) {
        note_reason(t, r->message);
    } else if (r->state == LS_CASE_FAILED) {
        char repeat[160];
        snprintf(repeat, sizeof repeat, "lockstep check --device %s --row %d%s%s", t->device, r->number,
                 t->plant ? " --plant " : "", t->plant ? t->plant : "");
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "number", r->number);
        cJSON_AddStringToObject(o, "name", r->name);
        cJSON_AddStringToObject(o, "math", kinds[r->math]);
        cJSON_AddStringToObject(o, "detail", r->message);
        cJSON_AddStringToObject(o, "repeat", repeat);
        cJSON_AddItemToArray(t->failures, o);
        print_row(r);
        printf("%-7s  %-6s  again: %s\n", "", "", repeat);
    }
}

static void report(const rows *t, cJSON *list) {
    cJSON *o = cJSON_CreateObject();
    int ran = t->totals.passed + t->totals.failed;
    double blind = t->elements > 0 ? t->blind / t->elements : 0;
    printf("%-7s  %-6s  %d conformance rows: %d passed, %d failed, %d skipped; blind against the oracle: "
           "%.1f %%; %.2f s\n",
           states[t->totals.failed ? LS_CASE_FAILED : LS_CASE_PASSED], kinds[t->math],
           ran + t->totals.skipped, t->totals.passed, t->totals.failed, t->totals.skipped, 100 * blind,
           t->seconds);
    cJSON_AddStringToObject(o, "math", kinds[t->math]);
    cJSON_AddNumberToObject(o, "passed", t->totals.passed);
    cJSON_AddNumberToObject(o, "failed", t->totals.failed);
    cJSON_AddNumberToObject(o, "skipped", t->totals.skipped);
    cJSON_AddNumberToObject(o, "blind", blind);
    cJSON_AddNumberToObject(o, "seconds", t->seconds);
    cJSON_AddItemToObject(o, "failures", t->failures);
    cJSON *skips = cJSON_AddArrayToObject(o, "skips");
    for (int i = 0; i < REASONS && t->reasons[i].count; i++) {
        cJSON *skip = cJSON_CreateObject();
        printf("%-7s  %-6s  skipped %d: %s\n", "", "", t->reasons[i].count, t->reasons[i].text);
        cJSON_AddStringToObject(skip, "reason", t->reasons[i].text);
        cJSON_AddNumberToObject(skip, "count", t->reasons[i].count);
        cJSON_AddItemToArray(skips, skip);
    }
    cJSON_AddItemToArray(list, o);
}

static ls_status run_rows(ls_context *context, ls_device *device, ls_math math, const char *plant, int count,
                          cJSON *list, ls_case_totals *totals, ls_error *err) {
    rows t = {.device = ls_device_id(device),
              .plant = plant,
              .wanted = count,
              .math = math,
              .failures = cJSON_CreateArray()};
    ls_conform_options options = {.math = math, .rows = count, .plant = plant};
    ls_status status = ls_conform_run(context, device, &options, each_row, &t, &t.totals, err);
    if (cli_tty()) {
        fprintf(stderr, "\r%*s\r", 60, "");
    }
    bool none_ran = status == LS_ERR_UNSUPPORTED && t.totals.skipped; /* which is no failure where rows of the other kind did */
    if (status != LS_OK && !(none_ran && totals->passed + totals->failed)) {
        cJSON_Delete(t.failures);
        return status;
    }
    report(&t, list);
    totals->passed += t.totals.passed;
    totals->failed += t.totals.failed;
    totals->skipped += t.totals.skipped;
    return LS_OK;
}

ls_status cli_rows(ls_context *context, ls_device *device, const char *plant, int count, bool certified,
                   cJSON *root, ls_case_totals *totals, ls_error *err) {
    cJSON *list = cJSON_AddArrayToObject(root, "rows");
    ls_status status = count ? run_rows(context, device, LS_LOCKED, plant, count, list, totals, err) : LS_OK;
    int fast = count / 4; /* a device that is refused has just computed fast */
    return status == LS_OK && certified && fast
               ? run_rows(context, device, LS_FAST, plant, fast, list, totals, err)
               : status;
}

ls_status cli_row(ls_context *context, ls_device *device, const char *plant, int number, cJSON *root,
                  ls_case_totals *totals, ls_error *err) {
    cJSON *list = cJSON_AddArrayToObject(root, "rows");
    for (int math = LS_LOCKED; math <= LS_FAST; math++) { /* a device that is refused computes fast at once */
        ls_conform_options options = {.math = (ls_math)math, .plant = plant};
        ls_row_result r;
        ls_status status = ls_conform_row(context, device, &options, number, &r, err);
        if (status != LS_OK) {
            return status;
        }
        cJSON *o = cJSON_CreateObject();
        print_row(&r);
        cJSON_AddNumberToObject(o, "number", r.number);
        cJSON_AddStringToObject(o, "name", r.name);
        cJSON_AddStringToObject(o, "math", kinds[r.math]);
        cJSON_AddStringToObject(o, "status", states[r.state]);
        cJSON_AddStringToObject(o, "detail", r.message);
        cJSON_AddItemToArray(list, o);
        totals->passed += r.state == LS_CASE_PASSED;
        totals->failed += r.state == LS_CASE_FAILED;
        totals->skipped += r.state == LS_CASE_SKIPPED;
        math = (int)r.math;
    }
    return LS_OK;
}
