/* lockstep conform: the ONNX project's backend test data on devices. A case is a folder with model.onnx; folders of such folders are
 * looked through. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"
#include <dirent.h>
#include <lockstep/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const states[] = {"passed", "failed", "unsupported", "random"};
enum { MOST_DEVICES = 8, DEEPEST = 4, MOST_OPERATORS = 256 };

typedef struct case_list {
    char **paths;
    size_t n, room;
} case_list;

typedef struct conform {
    cli_option *options;
    ls_context *context;
    int n_devices;
    char ids[MOST_DEVICES][64];
    ls_device *devices[MOST_DEVICES];
    cJSON *cases;
    int totals[4];
} conform;

/* One character against [abc], [a-z] or [!...]; *glob is left behind the bracket. */
static bool fits_set(const char **glob, char c) {
    const char *p = *glob + 1;
    bool inverted = *p == '!', found = false;
    for (p += inverted; *p && *p != ']'; p++) {
        if (p[1] == '-' && p[2] && p[2] != ']') {
            found |= p[0] <= c && c <= p[2];
            p += 2;
        } else {
            found |= *p == c;
        }
    }
    *glob = *p ? p : p - 1;
    return found != inverted;
}

/* As in a shell: * for any text, ? for any character, [...] for one of a set. */
static bool fits(const char *glob, const char *name) {
    for (; *glob && *glob != '*'; glob++, name++) {
        if (!*name || (*glob == '[' ? !fits_set(&glob, *name) : *glob != '?' && *glob != *name)) {
            return false;
        }
    }
    if (!*glob) {
        return !*name;
    }
    for (;; name++) {
        if (fits(glob + 1, name)) {
            return true;
        }
        if (!*name) {
            return false;
        }
    }
}

static bool is_file(const char *folder, const char *name) {
    char path[2048];
    struct stat st;
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode);
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool add(case_list *list, const char *path) {
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 256;
        char **paths = realloc(list->paths, room * sizeof *paths);
        if (!paths) {
            return false;
        }
        list->paths = paths;
        list->room = room;
    }
    char *copy = strdup(path);
    if (copy) {
        list->paths[list->n++] = copy;
    }
    return copy != NULL;
}

/* Cases below a folder whose names fit. EXIT_FINE, or an exit code with its message printed. */
static int find_cases(case_list *list, const char *folder, const char *filter, int depth) {
    if (is_file(folder, "model.onnx")) {
        return !fits(filter, last_part(folder)) || add(list, folder)
                   ? EXIT_FINE
                   : cli_error(EXIT_USAGE, "out of memory for cases");
    }
    DIR *dir = depth < DEEPEST ? opendir(folder) : NULL;
    if (!dir) {
        return depth ? EXIT_FINE : cli_error(EXIT_USAGE, "--onnx %s: not a folder that can be read", folder);
    }
    int code = EXIT_FINE;
    for (struct dirent *e; code == EXIT_FINE && (e = readdir(dir));) {
        char path[2048];
        struct stat st;
        if (e->d_name[0] != '.' &&
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path &&
            stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
            code = find_cases(list, path, filter, depth + 1);
        }
    }
    closedir(dir);
    return code;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of a case's operators, for reports; a model that cannot be loaded has none. */
static cJSON *operators_json(ls_context *context, const char *folder) {
    static ls_model_operator list[MOST_OPERATORS];
    char path[2048];
    ls_model *model = NULL;
    cJSON *names = cJSON_CreateArray();
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (ls_model_load(context, path, &model, NULL) == LS_OK) {
        int n = ls_model_operators(model, MOST_OPERATORS, list);
        for (int i = 0; i < n && i < MOST_OPERATORS; i++) {
            char name[256];
            snprintf(name, sizeof name, "%s%s%s", list[i].domain, *list[i].domain ? "." : "", list[i].name);
            cJSON_AddItemToArray(names, cJSON_CreateString(name));
        }
    }
    ls_model_release(model);
    return names;
}

/* Runs a case in a session of its own. */
static int run_case(conform *c, int device, const char *folder, ls_model_case *out_case) {
    static const char *const kinds[] = {"locked", "fast", "reduced", NULL};
    ls_session *session = NULL;
    ls_error err = {.code = LS_OK};
    int math = LS_LOCKED;
    if (!cli_choice(c->options, "math", kinds, &math)) {
        return EXIT_USAGE;
    }
    if (ls_session_create(c->context, c->devices[device], &session, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    ls_session_set_math(session, (ls_math)math);
    ls_status status = ls_model_case_run(session, folder, out_case);
    int code = status == LS_OK ? EXIT_FINE : cli_fail(status, ls_session_error(session)->message);
    ls_session_destroy(session);
    return code;
}

static void report(conform *c, const char *name, const char *device, const ls_model_case *r,
                   const cJSON *operators) {
    printf("%-11s  %-8s  %s%s%s\n", states[r->state], device, name, r->detail[0] ? ": " : "", r->detail);
    fflush(stdout);
    c->totals[r->state]++;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "device", device);
    cJSON_AddStringToObject(o, "status", states[r->state]);
    cJSON_AddStringToObject(o, "detail", r->detail);
    cJSON_AddStringToObject(o, "sha256", r->sha256);
    cJSON_AddNumberToObject(o, "worst_of_tolerance", r->worst);
    if (operators) {
        cJSON_AddItemToObject(o, "operators", cJSON_Duplicate(operators, 1));
    }
    cJSON_AddItemToArray(c->cases, o);
}

static int run_cases(conform *c, const case_list *list) {
    bool locked = strcmp(cli_text(c->options, "math", "locked"), "locked") == 0;
    for (size_t i = 0; i < list->n; i++) {
        const char *name = last_part(list->paths[i]);
        cJSON *operators =
            cli_text(c->options, "json", NULL) ? operators_json(c->context, list->paths[i]) : NULL;
        ls_model_case first;
        for (int d = 0; d < c->n_devices; d++) {
            ls_model_case r;
            int code = run_case(c, d, list->paths[i], &r);
            if (code != EXIT_FINE) {
                cJSON_Delete(operators);
                fprintf(stderr, "lockstep: while running %s on %s\n", name, c->ids[d]);
                return code;
            }
            if (d == 0) {
                first = r;
            } else if (locked && first.sha256[0] && r.sha256[0] && strcmp(first.sha256, r.sha256) != 0) {
                char detail[sizeof r.detail];
                snprintf(detail, sizeof detail, "other bits than on %s%s%.400s", c->ids[0],
                         r.detail[0] ? "; " : "", r.detail);
                memcpy(r.detail, detail, sizeof detail);
                r.state = LS_MODEL_FAILED;
            }
            report(c, name, c->ids[d], &r, operators);
        }
        cJSON_Delete(operators);
    }
    return EXIT_FINE;
}

static int open_devices(conform *c) {
    ls_error err = {.code = LS_OK};
    for (const char *at = cli_text(c->options, "devices", "cpu,ref"); *at;) {
        size_t length = strcspn(at, ",");
        int d = c->n_devices;
        if (d == MOST_DEVICES) {
            return cli_error(EXIT_USAGE, "--devices: at most %d", MOST_DEVICES);
        }
        snprintf(c->ids[d], sizeof c->ids[d], "%.*s", length < sizeof c->ids[d] ? (int)length : 63, at);
        ls_status status = ls_device_open(c->context, c->ids[d], &c->devices[d], &err);
        status = status == LS_OK ? ls_device_certify(c->devices[d], &err) : status;
        if (status != LS_OK) {
            return cli_fail(status, err.message);
        }
        c->n_devices++;
        at += length + (at[length] == ',');
    }
    return c->n_devices ? EXIT_FINE
                        : cli_error(EXIT_USAGE, "conform: --devices: expected at least one, such as cpu,ref");
}

static int run(conform *c, const char *folder) {
    case_list list = {0};
    const char *filter = cli_text(c->options, "filter", "*");
    int code = open_devices(c);
    code = code == EXIT_FINE ? find_cases(&list, folder, filter, 0) : code;
    if (code == EXIT_FINE && !list.n) {
        code = cli_error(EXIT_USAGE, "--onnx %s: no folder with a model.onnx%s%s", folder,
                         strcmp(filter, "*") ? " whose name fits " : "", strcmp(filter, "*") ? filter : "");
    }
    if (code == EXIT_FINE) {
        qsort(list.paths, list.n, sizeof *list.paths, by_name);
        code = run_cases(c, &list);
    }
    for (size_t i = 0; i < list.n; i++) {
        free(list.paths[i]);
    }
    free(list.paths);
    return code;
}

int cmd_conform(int argc, char **argv) {
    cli_option options[] = {
        {.name = "onnx",
         .value = "DIR",
         .help = "the unpacked test data: folders with model.onnx and test_data_set_*, or folders of such"},
        {.name = "devices",
         .value = "a,b,...",
         .help = "the devices, which must agree bit for bit; default cpu,ref"},
        {.name = "filter", .value = "GLOB", .help = "only the cases whose names fit, such as 'test_reduce*'"},
        {.name = "math",
         .value = "locked|fast|reduced",
         .help = "the kind of arithmetic; default locked, else devices need not agree"},
        CLI_JSON_OPTION,
        {.name = NULL}};
    int code;
    ls_error err = {.code = LS_OK};
    conform c = {.options = options};
    if (cli_parse(cli_command_of("conform"), options, argc, argv, NULL, 0, &code) < 0) {
        return code;
    }
    const char *folder = cli_text(options, "onnx", NULL);
    if (!folder) {
        return cli_error(EXIT_USAGE,
                         "conform: expected --onnx DIR, a folder of the ONNX project's backend test data");
    }
    if (cli_context(&c.context, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    cJSON *root = cJSON_CreateObject();
    c.cases = cJSON_CreateArray();
    code = run(&c, folder);
    ls_context_destroy(c.context);
    for (int i = 0; i < 4; i++) {
        cJSON_AddNumberToObject(root, states[i], c.totals[i]);
    }
    cJSON_AddItemToObject(root, "cases", c.cases);
    if (code != EXIT_FINE) {
        cJSON_Delete(root);
        return code;
    }
    printf("%d passed, %d failed, %d unsupported, %d random\n", c.totals[0], c.totals[1], c.totals[2],
           c.totals[3]);
    code = cli_json(options, root);
    return code == EXIT_FINE && c.totals[LS_MODEL_FAILED] ? EXIT_DIFFERS : code;
}
