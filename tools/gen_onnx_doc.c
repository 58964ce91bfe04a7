/* gen_onnx_doc REPORT.json...: prints docs/onnx.md from the importer's tables of operators and from what `lockstep conform --json` reported of
 * the ONNX project's test cases. */
#include "io/onnx/onnx.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CASES = 8192, MOST_DEVICES = 8, MOST_OPS = 1024, STATES = 4 };
static const char *const states[STATES] = {"passed", "failed", "unsupported", "random"};

typedef struct entry {
    const char *name, *device, *detail;
    const cJSON *operators;
    int state;
} entry;
static entry cases[MOST_CASES];
static int n_cases;
static const char *devices[MOST_DEVICES];
static int n_devices;

/* An operator, with or without an implementation: "com.microsoft.Attention". */
typedef struct row {
    char name[96];
    int since[16], n_since;
    int counts[MOST_DEVICES][STATES];
} row;
static row rows[MOST_OPS];
static int n_rows;

static int by_row(const void *a, const void *b) {
    const row *x = a, *y = b;
    int dotted = (strchr(x->name, '.') != NULL) - (strchr(y->name, '.') != NULL);
    return dotted ? dotted : strcmp(x->name, y->name);
}

static int by_case(const void *a, const void *b) {
    const entry *x = a, *y = b;
    int name = strcmp(x->name, y->name);
    return name ? name : strcmp(x->device, y->device);
}

static row *row_of(const char *name) {
    for (int i = 0; i < n_rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    if (n_rows == MOST_OPS) {
        return NULL;
    }
    snprintf(rows[n_rows].name, sizeof rows[n_rows].name, "%s", name);
    return &rows[n_rows++];
}

static int device_of(const char *name) {
    int d = 0;
    while (d < n_devices && strcmp(devices[d], name) != 0) {
        d++;
    }
    if (d == n_devices && d < MOST_DEVICES) {
        devices[n_devices++] = name;
    }
    return d < MOST_DEVICES ? d : 0;
}

static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, room = 0;
    while (f && !feof(f)) {
        if (n + 65537 > room) {
            room = 2 * room + 65537;
            char *grown = realloc(text, room);
            if (!grown) {
                free(text);
                text = NULL;
                break;
            }
            text = grown;
        }
        n += fread(text + n, 1, 65536, f);
        text[n] = '\0';
        if (ferror(f)) {
            break;
        }
    }
    if (f) {
        fclose(f);
    }
    return text;
}

static int read_report(const char *path) {
    char *text = read_file(path);
    const cJSON *root = text ? cJSON_Parse(text) : NULL, *item; /* lives to the end: the texts are used */
    free(text);
    if (!root) {
        fprintf(stderr, "gen_onnx_doc: %s: no report\n", path);
        return 0;
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(root, "cases")) {
        const char *status = cJSON_GetStringValue(cJSON_GetObjectItem(item, "status"));
        entry e = {cJSON_GetStringValue(cJSON_GetObjectItem(item, "name")),
                   cJSON_GetStringValue(cJSON_GetObjectItem(item, "device")),
                   cJSON_GetStringValue(cJSON_GetObjectItem(item, "detail")),
                   cJSON_GetObjectItem(item, "operators"), 0};
        while (status && e.state < STATES && strcmp(states[e.state], status) != 0) {
            e.state++;
        }
        if (!e.name || !e.device || !e.detail || !status || e.state == STATES || n_cases == MOST_CASES) {
            fprintf(stderr,
                    "gen_onnx_doc: %s: a case without name, device, status or detail, or more than %d\n",
                    path, MOST_CASES);
            return 0;
        }
        cases[n_cases++] = e;
    }
    return 1;
}

static void count_cases(void) {
    for (int i = 0; i < n_cases; i++) {
        const cJSON *op;
        int d = device_of(cases[i].device);
        cJSON_ArrayForEach(op, cases[i].operators) {
            row *r = cJSON_GetStringValue(op) ? row_of(cJSON_GetStringValue(op)) : NULL;
            if (r) {
                r->counts[d][cases[i].state]++;
            }
        }
    }
}

static void list_operators(void) {
    for (int i = 0;; i++) {
        const ls_onnx_op *op = ls_onnx_op_at(i);
        char name[96];
        if (!op) {
            return;
        }
        snprintf(name, sizeof name, "%s%s%s", op->domain, *op->domain ? "." : "", op->name);
        row *r = row_of(name);
        if (r && r->n_since < 16) {
            r->since[r->n_since++] = op->since;
        }
    }
}

static void print_totals(void) {
    printf("| device | passed | failed | not supported | random |\n|---|---|---|---|---|\n");
    for (int d = 0; d < n_devices; d++) {
        int counts[STATES] = {0};
        for (int i = 0; i < n_cases; i++) {
            counts[cases[i].state] += strcmp(cases[i].device, devices[d]) == 0;
        }
        printf("| `%s` | %d | %d | %d | %d |\n", devices[d], counts[0], counts[1], counts[2], counts[3]);
    }
}

/* A reason without what would break a table. */
static void print_cell(const char *text) {
    for (; *text; text++) {
        printf(*text == '|' ? "\\|" : *text == '\n' ? " " : "%c", *text);
    }
}

static void print_cases(int state) {
    for (int i = 0; i < n_cases;) {
        int end = i, any = -1;
        while (end < n_cases && strcmp(cases[end].name, cases[i].name) == 0) {
            any = cases[end].state == state && any < 0 ? end : any;
            end++;
        }
        if (any >= 0) {
            printf("| `%s` |", cases[i].name);
            for (int k = i; k < end; k++) {
                if (cases[k].state == state) {
                    printf(" `%s`", cases[k].device);
                }
            }
            printf(" | ");
            print_cell(cases[any].detail);
            printf(" |\n");
        }
        i = end;
    }
}

static void print_operators(void) {
    printf("| operator | from opset |");
    for (int d = 0; d < n_devices; d++) {
        printf(" `%s` |", devices[d]);
    }
    printf("\n|---|---|");
    for (int d = 0; d < n_devices; d++) {
        printf("---|");
    }
    printf("\n");
    for (int i = 0; i < n_rows; i++) {
        const row *r = &rows[i];
        printf("| %s | ", r->name);
        for (int k = 0; k < r->n_since; k++) {
            printf("%s%d", k ? ", " : "", r->since[k]);
        }
        printf(r->n_since ? " |" : "none |");
        for (int d = 0; d < n_devices; d++) {
            const int *c = r->counts[d];
            int all = c[0] + c[1] + c[2] + c[3];
            if (!all) {
                printf(" |");
                continue;
            }
            printf(" %d of %d", c[0], all);
            static const char *const words[STATES] = {NULL, "FAILED", "not supported", "random"};
            for (int k = STATES - 1; k > 0; k--) {
                if (c[k]) {
                    printf(", %d %s", c[k], words[k]);
                }
            }
            printf(" |");
        }
        printf("\n");
    }
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!read_report(argv[i])) {
            return 1;
        }
    }
    if (!n_cases) {
        fprintf(stderr, "usage: gen_onnx_doc REPORT.json...\n");
        return 2;
    }
    qsort(cases, (size_t)n_cases, sizeof *cases, by_case);
    list_operators();
    count_cases();
    qsort(rows, (size_t)n_rows, sizeof *rows, by_row);
    printf("# ONNX\n\n"
           "Written by `make docs-onnx` from the importer's tables and the reports of `lockstep conform` on "
           "the ONNX project's backend test data\n"
           "(release line 1.23: the folders `node`, `simple`, `pytorch-converted` and `pytorch-operator`). "
           "Do not edit.\n\n"
           "A case passes on a device when every output agrees with the file's: floats by |output - file| <= "
           "1e-7 + 1e-3 |file|, as the ONNX\n"
           "project's own runner does it, everything else exactly; and when the devices agree bit for bit. "
           "Cases whose model draws random numbers that are\n"
           "not the file's are checked for shape, type, repeatability and distribution, and are *random*.\n\n"
           "One family of files is not as exact as that: those with a Fourier transform hold what NumPy's "
           "single-precision FFT gave, 1.9e-7 where the\n"
           "exact value (and ours) is 0. For models with DFT or STFT 1e-7 is therefore half a unit in the "
           "last place of the file's largest\n"
           "element. The ONNX project states no other tolerance for any of these cases.\n\n");
    print_totals();
    for (int d = 0; d < n_devices; d++) {
        if (strcmp(devices[d], "vulkan") == 0) {
            printf("\n`vulkan` is Mesa's software device, lavapipe.\n");
        }
    }
    printf("\n"
           "A model's graph is simplified as any other is (`docs/architecture.md`). A batch norm behind a convolution becomes part of its kernel: in `fast` and\n"
           "`reduced` arithmetic one subtraction, multiplication and addition an element, while the sums are in registers, in `locked` as the model says it. It is\n"
           "not multiplied into the weights: on `cpu` that gained 0 to 2 %% (six convolutions of 1x1, 3x3 and depthwise filters, one thread, 2026-11-22), less than\n"
           "between two runs, and would round each weight once more than the bound of fast arithmetic allows for.\n");
    printf("\n## Cases that are not supported\n\n| case | on | why |\n|---|---|---|\n");
    print_cases(2);
    printf("\n## Random cases\n\n| case | on | |\n|---|---|---|\n");
    print_cases(3);
    printf("\n## Operators\n\n"
           "The versions at which an implementation begins: it serves every operator set from there on, up "
           "to the next one listed. Then, for each device,\n"
           "the cases whose model holds the operator: how many of them pass.\n\n");
    print_operators();
    return fflush(stdout) != 0;
}
