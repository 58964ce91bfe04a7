/* Devices, sessions, data sets and networks for the subcommands. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void log_line(void *user, ls_log_level level, const char *line) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *wanted = user;
    int most = 1;
    for (int i = 0; i < 4; i++) {
        most = wanted && strcmp(wanted, names[i]) == 0 ? i : most;
    }
    if ((int)level <= most) {
        fprintf(stderr, "lockstep: %s: %s\n", names[level], line);
    }
}

ls_status cli_context(ls_context **out_context, ls_error *err) {
    const ls_context_options options = {.log = log_line, .log_user = getenv("LOCKSTEP_LOG")};
    return ls_context_create(&options, out_context, err);
}

double cli_now_ms(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
void cli_sort(double *list, size_t n) {
    qsort(list, n, sizeof *list, ascending);
}

bool cli_temporary_folder(const char *name, char *path, size_t room) {
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(path, room, "%s/%s-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp", name);
    if (n < 0 || (size_t)n >= room || !mkdtemp(path)) {
        cli_error(0, "no temporary folder %s", path);
        return false;
    }
    return true;
}

static int set_strategy(cli_world *w, const char *text) {
    char kind[32];
    const char *equals = strchr(text, '=');
    if (!equals || equals - text >= (long)sizeof kind) {
        return cli_error(EXIT_USAGE, "--strategy %s: expected OP=NAME, such as contract=naive", text);
    }
    snprintf(kind, sizeof kind, "%.*s", (int)(equals - text), text);
    if (ls_session_set_strategy(w->session, kind, equals + 1) != LS_OK) {
        return cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
    }
    return EXIT_FINE;
}

int cli_open(cli_world *w, cli_option *options, const char *device) {
    static const char *const kinds[] = {"locked", "fast", "reduced", NULL};
    ls_error err = {.code = LS_OK};
    int math = LS_LOCKED;
    memset(w, 0, sizeof *w);
    if (cli_find(options, "math") && !cli_choice(options, "math", kinds, &math)) {
        return EXIT_USAGE;
    }
    device = device ? device : cli_text(options, "device", "cpu");
    ls_status status = cli_context(&w->context, &err);
    status = status == LS_OK ? ls_device_open(w->context, device, &w->device, &err) : status;
    status = status == LS_OK && math == LS_LOCKED ? ls_device_certify(w->device, &err) : status;
    status = status == LS_OK ? ls_session_create(w->context, w->device, &w->session, &err) : status;
    if (status != LS_OK) {
        cli_close(w);
        return cli_fail(status, err.message);
    }
    ls_session_set_math(w->session, (ls_math)math);
    if (cli_find(options, "no-fusion") && cli_given(options, "no-fusion")) {
        ls_session_set_fusion(w->session, 0);
    }
    const cli_option *o = cli_find(options, "strategy");
    for (int i = 0; o && i < o->count; i++) {
        int code = set_strategy(w, o->all[i]);
        if (code != EXIT_FINE) {
            cli_close(w);
            return code;
        }
    }
    return EXIT_FINE;
}

void cli_close(cli_world *w) {
    if (w->session) {
        ls_session_destroy(w->session);
    }
    if (w->context) {
        ls_context_destroy(w->context);
    }
    memset(w, 0, sizeof *w);
}

/* The first folder of a data set that exists: below $LOCKSTEP_DATA, below build/data, where Debian puts it. */
static const char *data_folder(const char *name, const char *installed, char *path, size_t room) {
    const char *root = getenv("LOCKSTEP_DATA");
    const char *roots[] = {root && *root ? root : NULL, "build/data"};
    for (int i = 0; i < 2; i++) {
        if (roots[i] && snprintf(path, room, "%s/%s", roots[i], name) < (int)room &&
            access(path, R_OK) == 0) {
            return path;
        }
    }
    return installed && access(installed, R_OK) == 0 ? installed : NULL;
}

int cli_dataset(ls_context *context, const char *name, ls_dataset *out_train, ls_dataset *out_test,
                float *out_mean, float *out_deviation) {
    char path[1024];
    ls_error err = {.code = LS_OK};
    bool digits = strcmp(name, "digits") == 0, fashion = strcmp(name, "fashion") == 0;
    const char *folder = digits ? data_folder("digits", NULL, path, sizeof path)
                         : fashion
                             ? data_folder("fashion", "/usr/share/datasets/fashion-mnist", path, sizeof path)
                             : name;
    if (!folder) {
        return cli_error(EXIT_USAGE,
                         "--data %s: not found below $LOCKSTEP_DATA or build/data: run \"make data\", or "
                         "name a folder of IDX files",
                         name);
    }
    *out_mean = fashion ? 0.2860f : 0.1307f; /* of the training pixels, in 0..1 */
    *out_deviation = fashion ? 0.3530f : 0.3081f;
    ls_status status = digits ? ls_dataset_digits(context, folder, out_train, out_test, &err)
                              : ls_dataset_idx(context, folder, out_train, out_test, &err);
    return status == LS_OK ? EXIT_FINE : cli_fail(status, err.message);
}

int cli_network(cli_world *w, const char *name, const char *weights, uint64_t seed, ls_tensor *x,
                ls_params **out_params, ls_tensor **out_logits) {
    ls_error err = {.code = LS_OK};
    *out_params = NULL;
    if (strpbrk(name, "./")) {
        return cli_error(EXIT_USAGE, "%s: expected a file whose name ends in .onnx, or a built-in network, mnist:cnn or mnist:small", name);
    }
    ls_status status = weights ? ls_params_open(w->session, weights, out_params, &err) : ls_params_create(w->session, seed, out_params);
    if (status != LS_OK) {
        return cli_fail(status, weights ? err.message : "out of memory");
    }
    *out_logits = ls_nn_network(w->session, *out_params, name, x);
    if (!*out_logits) {
        return cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
    }
    const char *left = ls_params_left(*out_params);
    if (left) {
        return cli_error(EXIT_USAGE, "%s: \"%s\" is no parameter of %s", weights, left, name);
    }
    return EXIT_FINE;
}
