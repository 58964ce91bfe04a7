/* Inputs of run, verify and inspect: --input NAME=FILE.npy|random[:SEED]|zeros and --dim NAME=N. The built-in networks have one input,
 * "images" f32 [batch,1,28,28], and one symbol-like extent, "batch". */
#include "cli/input.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool batch_of(cli_option *options, int64_t *out_batch) {
    const char *text = cli_text(options, "dim", NULL);
    *out_batch = 1;
    if (text) {
        char *end;
        errno = 0;
        long long n = strncmp(text, "batch=", 6) == 0 ? strtoll(text + 6, &end, 10) : 0;
        if (n < 1 || n > 65536 || *end || errno) {
            cli_error(0, "--dim %s: expected batch=N with N from 1 to 65536", text);
            return false;
        }
        *out_batch = n;
    }
    return true;
}

/* The networks have one input and one extent. Prints a message. */
static bool given_twice(cli_option *options) {
    static const char *const names[] = {"input", "dim"};
    for (int i = 0; i < 2; i++) {
        if (cli_find(options, names[i])->count > 1) {
            cli_error(0, "--%s %s: given twice", names[i], cli_text(options, names[i], ""));
            return true;
        }
    }
    return false;
}

/* Uniform in [-1, 1), the same on every machine. */
static ls_data *random_images(ls_context *context, int64_t batch, uint64_t seed) {
    const int64_t dims[4] = {batch, 1, 28, 28};
    int64_t n = batch * 784;
    float *x = malloc(sizeof *x * (size_t)n);
    ls_data *data = NULL;
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; x && i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(state >> 40) / 8388608.0 - 1);
    }
    ls_status status = x ? ls_data_create(context, LS_F32, 4, dims, x, &data, NULL) : LS_ERR_MEMORY;
    free(x);
    return status == LS_OK ? data : NULL;
}

/* Prints a message when an option is given that says something to .onnx files alone. */
static bool for_models_only(cli_option *options) {
    static const char *const names[] = {"max",     "layout", "scale",   "mean", "std",   "rate",
                                        "channel", "offset", "samples", "top",  "labels"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (cli_text(options, names[i], NULL)) {
            cli_error(0, "--%s: expected an .onnx file with it, not a built-in network", names[i]);
            return true;
        }
    }
    return false;
}

ls_data *cli_images(ls_context *context, cli_option *options, int *out_code) {
    int64_t batch;
    ls_error err = {.code = LS_OK};
    *out_code = EXIT_USAGE;
    if (for_models_only(options) || given_twice(options) || !batch_of(options, &batch)) {
        return NULL;
    }
    const char *given = cli_text(options, "input", "images=random:0");
    if (strncmp(given, "images=", 7) != 0) {
        cli_error(0,
                  "--input %s: expected images=FILE.npy, images=random[:SEED] or images=zeros: the network's "
                  "input is \"images\"",
                  given);
        return NULL;
    }
    const char *what = given + 7;
    errno = 0;
    ls_data *data = NULL;
    if (strcmp(what, "zeros") == 0) {
        const int64_t dims[4] = {batch, 1, 28, 28};
        if (ls_data_create(context, LS_F32, 4, dims, NULL, &data, &err) != LS_OK) {
            cli_error(0, "%s", err.message);
        }
    } else if (strncmp(what, "random", 6) == 0 && (what[6] == '\0' || what[6] == ':')) {
        char *end = NULL;
        unsigned long long seed = what[6] ? strtoull(what + 7, &end, 10) : 0;
        if (what[6] && (what[7] < '0' || what[7] > '9' || *end || errno)) {
            cli_error(0, "--input %s: expected a whole number of at most 64 bits after random:", given);
            return NULL;
        }
        data = random_images(context, batch, seed);
        if (!data) {
            cli_error(0, "out of memory for %lld images", (long long)batch);
        }
    } else if (ls_npy_load(context, what, &data, &err) != LS_OK) {
        cli_error(0, "%s", err.message);
    } else {
        const int64_t *d = ls_data_dims(data);
        if (ls_data_dtype(data) != LS_F32 || ls_data_rank(data) != 4 || d[0] < 1 || d[1] != 1 || d[2] != 28 ||
            d[3] != 28) {
            cli_error(0, "--input %s: expected f32 [N,1,28,28]", given);
            ls_data_release(data);
            data = NULL;
        } else if (cli_given(options, "dim") && d[0] != batch) {
            cli_error(0, "--input %s: the file has f32 [%lld,1,28,28], but batch is %lld by --dim", given, (long long)d[0], (long long)batch);
            ls_data_release(data);
            data = NULL;
        }
    }
    *out_code = data ? EXIT_FINE : EXIT_USAGE;
    return data;
}

ls_shape cli_shape(const ls_data *data) {
    return ls_shape_make(ls_data_rank(data), ls_data_dims(data));
}

ls_status cli_maker_open(ls_context *context, ls_session **out_maker, ls_error *err) {
    ls_device *cpu = NULL;
    ls_status status = ls_device_open(context, "cpu", &cpu, err);
    return status == LS_OK ? ls_session_create(context, cpu, out_maker, err) : status;
}

ls_status cli_maker_take(ls_session *maker, ls_tensor *made, ls_data **out_data, ls_error *err) {
    ls_status status = ls_data_from_tensor(maker, made, out_data);
    if (status != LS_OK) {
        *err = *ls_session_error(maker);
    }
    ls_session_destroy(maker);
    return status;
}
