/* Models from .onnx files: their inputs by name, as files, seeds or zeros; running them. */
#include "cli/model.h"
#include "cli/input.h"
#include "cli/picture.h"
#include "cli/sound.h"
#include <lockstep/inspect.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The extents that names stand for: --dim first, then the files of inputs. */
typedef struct binding {
    const char *name;
    size_t length;
    int64_t value;
    const char *from; /* who said so */
} binding;
typedef struct bindings {
    binding *list;
    int n;
} bindings;

bool cli_is_model(const char *word) {
    size_t n = strlen(word);
    return n > 5 && strcmp(word + n - 5, ".onnx") == 0;
}

static void add_dims(char *text, size_t room, size_t at, int rank, const int64_t *dims,
                     const char *const *names) {
    for (int i = 0; i < rank && at < room; i++) {
        const char *comma = i ? "," : "";
        int n = dims[i] >= 0        ? snprintf(text + at, room - at, "%s%lld", comma, (long long)dims[i])
                : names && names[i] ? snprintf(text + at, room - at, "%s%s", comma, names[i])
                                    : snprintf(text + at, room - at, "%s?", comma);
        at += n > 0 ? (size_t)n : 0;
    }
    if (at < room) {
        snprintf(text + at, room - at, "]");
    }
}

void cli_port_text(const ls_model_port *port, char *text, size_t room) {
    if (port->rank < 0) {
        snprintf(text, room, "%s", port->type);
        return;
    }
    int n = snprintf(text, room, "%s [", port->type);
    add_dims(text, room, (size_t)n, port->rank, port->dims, port->dim_names);
}

void cli_data_text(const ls_data *data, char *text, size_t room) {
    int n = snprintf(text, room, "%s [", ls_dtype_name(ls_data_dtype(data)));
    add_dims(text, room, (size_t)n, ls_data_rank(data), ls_data_dims(data), NULL);
}

static const binding *bound(const bindings *b, const char *name, size_t length) {
    for (int i = 0; name && i < b->n; i++) {
        if (b->list[i].length == length && memcmp(b->list[i].name, name, length) == 0) {
            return &b->list[i];
        }
    }
    return NULL;
}

static void bind(bindings *b, const char *name, size_t length, int64_t value, const char *from) {
    b->list[b->n++] = (binding){name, length, value, from};
}

/* Prints a message that ends in the names there are. */
static int unknown_name(const char *option, const char *given, const char *what, int n,
                        const char *(*name)(void *user, int i), void *user) {
    char list[700] = "";
    size_t at = 0;
    for (int i = 0; i < n && at < sizeof list; i++) {
        const char *s = name(user, i);
        bool seen = !s;
        for (int j = 0; j < i && !seen; j++) {
            const char *t = name(user, j);
            seen = t && strcmp(s, t) == 0;
        }
        if (!seen) {
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", s);
        }
    }
    return cli_error(EXIT_USAGE, "--%s %s: %s are %s", option, given, what, at ? list : "none");
}

static const char *input_name(void *user, int i) {
    return ls_model_input(((cli_model *)user)->model, i).name;
}

static const char *dim_name(void *user, int i) {
    ls_model_port port = ls_model_input(((cli_model *)user)->model, i / LS_MAX_RANK);
    int axis = i % LS_MAX_RANK;
    return axis < port.rank && port.dims[axis] < 0 ? port.dim_names[axis] : NULL;
}

/* The longest name of an input that a text "NAME=..." begins with (names may hold '='); -1: none. */
static int input_of(cli_model *m, const char *text, const char **out_rest) {
    int found = -1;
    size_t best = 0;
    for (int i = 0; i < m->n_inputs; i++) {
        const char *name = ls_model_input(m->model, i).name;
        size_t n = strlen(name);
        if (strncmp(text, name, n) == 0 && text[n] == '=' && (found < 0 || n > best)) {
            found = i;
            best = n;
        }
    }
    *out_rest = text + best + 1;
    return found;
}

/* NAME=N of an option: a dimension of the model, its first *out_length characters, and a number. */
static int read_dim(cli_model *m, const char *option, const char *text, int lowest, size_t *out_length,
                    int64_t *out_n) {
    const char *equals = strrchr(text, '=');
    char *end;
    errno = 0;
    *out_n = equals ? strtoll(equals + 1, &end, 10) : -1;
    if (!equals || end == equals + 1 || *end || errno || *out_n < lowest || *out_n > INT32_MAX) {
        return cli_error(EXIT_USAGE, "--%s %s: expected NAME=N with N from %d to %d", option, text, lowest,
                         INT32_MAX);
    }
    *out_length = (size_t)(equals - text);
    for (int k = 0; k < m->n_inputs * LS_MAX_RANK; k++) {
        const char *name = dim_name(m, k);
        if (name && strlen(name) == *out_length && memcmp(name, text, *out_length) == 0) {
            return EXIT_FINE;
        }
    }
    return unknown_name(option, text, "the model's named dimensions", m->n_inputs * LS_MAX_RANK, dim_name, m);
}

int cli_model_bounds(cli_model *m, cli_option *options, ls_session *session, ls_runner *runner) {
    const cli_option *o = cli_find(options, "max");
    for (int i = 0; i < o->count; i++) {
        char name[256];
        size_t length;
        int64_t most;
        int code = read_dim(m, "max", o->all[i], 1, &length, &most);
        if (code != EXIT_FINE) {
            return code;
        }
        snprintf(name, sizeof name, "%.*s", (int)length, o->all[i]);
        ls_status status = ls_runner_set_bound(runner, name, most);
        if (status != LS_OK) {
            return cli_fail(status, ls_session_error(session)->message);
        }
    }
    return EXIT_FINE;
}

static int read_dims(cli_model *m, cli_option *options, bindings *b) {
    const cli_option *o = cli_find(options, "dim");
    for (int i = 0; i < o->count; i++) {
        const char *text = o->all[i];
        size_t length;
        int64_t n;
        int code = read_dim(m, "dim", text, 0, &length, &n);
        if (code != EXIT_FINE) {
            return code;
        }
        if (bound(b, text, length)) {
            return cli_error(EXIT_USAGE, "--dim %s: given twice", text);
        }
        bind(b, text, length, n, "--dim");
    }
    return EXIT_FINE;
}

/* Refuses an array that is not what the input wants, and binds the names of its extents. */
static int take_file(const ls_model_port *port, const char *given, const ls_data *data, bindings *b) {
    char wants[300], has[300];
    cli_port_text(port, wants, sizeof wants);
    cli_data_text(data, has, sizeof has);
    const int64_t *d = ls_data_dims(data);
    bool fits = ls_data_dtype(data) == port->dtype && (port->rank < 0 || port->rank == ls_data_rank(data));
    for (int i = 0; fits && i < port->rank; i++) {
        fits = port->dims[i] < 0 || port->dims[i] == d[i];
    }
    if (!fits) {
        return cli_error(EXIT_USAGE, "--input %s: the file has %s, the model wants %s%s%s", given, has, wants,
                         port->dtype < LS_DTYPE_COUNT ? " as " : "",
                         port->dtype < LS_DTYPE_COUNT ? ls_dtype_name(port->dtype) : "");
    }
    for (int i = 0; i < port->rank; i++) {
        const char *name = port->dims[i] < 0 ? port->dim_names[i] : NULL;
        const binding *old = name ? bound(b, name, strlen(name)) : NULL;
        if (old && old->value != d[i]) {
            return cli_error(EXIT_USAGE, "--input %s: the file has %s, but %s is %lld by %s", given, has,
                             name, (long long)old->value, old->from);
        }
        if (name && !old) {
            bind(b, name, strlen(name), d[i], given);
        }
    }
    return EXIT_FINE;
}

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 32;
}

/* Whether a text is one number; then a tensor of nothing else, or NULL. */
static bool is_number(const char *text) {
    char *end;
    (void)strtod(text, &end);
    return end != text && !*end;
}
static ls_tensor *number(ls_session *s, ls_dtype dtype, const ls_shape *shape, const char *text) {
    char *end;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    return dtype >= LS_F16 ? ls_full(s, dtype, *shape, strtod(text, NULL)) : *end || errno ? NULL : ls_full_i64(s, dtype, *shape, whole);
}

/* Floats uniform in [-1, 1), integers and bools 0 or 1 (so that they do as masks, indices and flags), the same on every machine.
 * Written as f32 and cast. */
static ls_status random_data(ls_context *context, ls_dtype dtype, const ls_shape *shape, const int64_t *dims,
                             uint64_t seed, ls_data **out_data, ls_error *err) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    size_t n = 1;
    for (int i = 0; i < shape->rank; i++) {
        n *= (size_t)dims[i];
    }
    bool real = dtype >= LS_F16;
    float *x = malloc(sizeof *x * (n ? n : 1));
    if (!x) {
        err->code = LS_ERR_MEMORY;
        snprintf(err->message, sizeof err->message, "out of memory for %zu random numbers", n);
        return LS_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = next(&state);
        x[i] = real ? (float)((double)(bits >> 8) / 8388608.0 - 1) : (float)(bits >> 31);
    }
    ls_session *s = NULL;
    ls_status status = cli_maker_open(context, &s, err);
    if (status == LS_OK) {
        status = cli_maker_take(s, ls_cast(s, ls_tensor_from(s, LS_F32, *shape, x), dtype), out_data, err);
    }
    free(x);
    return status;
}

/* Of a dimension that neither the model nor a file fixes; said once for each name. */
static int64_t open_extent(const ls_model_port *port, int axis, bindings *b) {
    const char *name = port->dim_names[axis];
    const binding *known = name ? bound(b, name, strlen(name)) : NULL;
    if (known) {
        return known->value;
    }
    if (name) {
        bind(b, name, strlen(name), 1, port->name);
    }
    fprintf(stderr, "lockstep: input \"%s\": dimension %s is taken to be 1%s\n", port->name,
            name ? name : "without a name", name ? "; --dim sets it" : "");
    return 1;
}

/* Makes the value of an input that no file gives: `what` is random, random:SEED, zeros or a number, which all elements are. */
static int make_value(cli_model *m, ls_context *context, int i, const char *what, bindings *b) {
    ls_model_port port = ls_model_input(m->model, i);
    ls_error err = {.code = LS_OK};
    int64_t dims[LS_MAX_RANK] = {0};
    char *end = NULL;
    if (port.dtype >= LS_DTYPE_COUNT || port.rank < 0) {
        return cli_error(EXIT_USAGE, "input \"%s\" is %s%s: the command cannot make it%s", port.name,
                         port.type, port.rank < 0 && port.dtype < LS_DTYPE_COUNT ? " of any shape" : "",
                         port.dtype < LS_DTYPE_COUNT ? "; give it by --input NAME=FILE.npy" : "");
    }
    for (int k = 0; k < port.rank; k++) {
        dims[k] = port.dims[k] >= 0 ? port.dims[k] : open_extent(&port, k, b);
    }
    ls_shape shape = ls_shape_make(port.rank, dims);
    double bytes = (double)ls_dtype_size(port.dtype);
    for (int k = 0; k < port.rank; k++) {
        bytes *= (double)dims[k];
    }
    if (bytes > 0x1p60) { /* so that no product overflows, of floats either, which random numbers are at first */
        char text[300];
        int n = snprintf(text, sizeof text, "%s [", ls_dtype_name(port.dtype));
        add_dims(text, sizeof text, (size_t)n, port.rank, dims, NULL);
        return cli_error(EXIT_USAGE, "input \"%s\": too large: %s takes %.3g bytes", port.name, text, bytes);
    }
    ls_status status;
    if (strcmp(what, "zeros") == 0) {
        status = ls_data_create(context, port.dtype, port.rank, dims, NULL, &m->values[i], &err);
    } else if (is_number(what)) {
        ls_session *s = NULL;
        status = cli_maker_open(context, &s, &err);
        ls_tensor *made = status == LS_OK ? number(s, port.dtype, &shape, what) : NULL;
        if (status == LS_OK && !made && ls_session_error(s)->code == LS_OK) {
            ls_session_destroy(s);
            return cli_error(EXIT_USAGE, "--input %s=%s: expected a whole number of at most 64 bits: the input is %s", port.name, what, port.type);
        }
        status = status == LS_OK ? cli_maker_take(s, made, &m->values[i], &err) : status;
    } else {
        errno = 0;
        unsigned long long seed = what[6] ? strtoull(what + 7, &end, 10) : 0;
        if (what[6] && (what[7] < '0' || what[7] > '9' || *end || errno)) {
            return cli_error(
                EXIT_USAGE,
                "--input %s=%s: expected a whole number of at most 64 bits after random:", port.name, what);
        }
        status = random_data(context, port.dtype, &shape, dims, seed, &m->values[i], &err);
    }
    return status == LS_OK ? EXIT_FINE : cli_fail(status, err.message);
}

static bool is_made(const char *what) {
    return strcmp(what, "zeros") == 0 || is_number(what) ||
           (strncmp(what, "random", 6) == 0 && (what[6] == '\0' || what[6] == ':'));
}

static int read_inputs(cli_model *m, ls_context *context, cli_option *options, bindings *b,
                       const char **whats) {
    const cli_option *o = cli_find(options, "input");
    ls_error err = {.code = LS_OK};
    for (int i = 0; i < o->count; i++) {
        const char *rest;
        int k = input_of(m, o->all[i], &rest);
        if (k < 0) {
            return unknown_name("input", o->all[i],
                                "expected NAME=FILE|random[:SEED]|zeros|NUMBER; the model's inputs", m->n_inputs,
                                input_name, m);
        }
        if (whats[k] || m->values[k]) {
            return cli_error(EXIT_USAGE, "--input %s: given twice", o->all[i]);
        }
        if (!*rest) {
            return cli_error(EXIT_USAGE, "--input %s: expected NAME=FILE|random[:SEED]|zeros|NUMBER", o->all[i]);
        }
        if (is_made(rest)) {
            whats[k] = rest;
            continue;
        }
        ls_model_port port = ls_model_input(m->model, k);
        int code = EXIT_FINE;
        if (cli_is_picture(rest)) {
            code = cli_picture(context, options, &port, rest, &m->values[k]);
        } else if (cli_is_sound(rest)) {
            code = cli_sound(context, options, &port, rest, &m->values[k]);
        } else if (ls_npy_load(context, rest, &m->values[k], &err) != LS_OK) {
            code = cli_fail(err.code, err.message);
        }
        code = code == EXIT_FINE ? take_file(&port, o->all[i], m->values[k], b) : code;
        if (code != EXIT_FINE) {
            return code;
        }
    }
    int code = EXIT_FINE;
    for (int i = 0; i < m->n_inputs && code == EXIT_FINE; i++) {
        if (!m->values[i] && (whats[i] || !ls_model_input(m->model, i).has_default)) {
            code = make_value(m, context, i, whats[i] ? whats[i] : "random", b);
        }
    }
    return code;
}

int cli_model_load(cli_model *m, ls_context *context, cli_option *options, const char *path) {
    ls_error err = {.code = LS_OK};
    memset(m, 0, sizeof *m);
    if (cli_text(options, "weights", NULL)) {
        return cli_error(EXIT_USAGE, "--weights: %s has its own", path);
    }
    if (ls_model_load(context, path, &m->model, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    m->n_inputs = ls_model_input_count(m->model);
    m->n_outputs = ls_model_output_count(m->model);
    return EXIT_FINE;
}

int cli_model_make_inputs(cli_model *m, ls_context *context, cli_option *options) {
    size_t room = (size_t)m->n_inputs + 1;
    m->values = calloc(room, sizeof *m->values);
    const char **whats = calloc(room, sizeof *whats);
    bindings b = {calloc(room * LS_MAX_RANK + (size_t)cli_find(options, "dim")->count, sizeof(binding)), 0};
    int code = m->values && whats && b.list ? read_dims(m, options, &b)
                                            : cli_error(EXIT_USAGE, "out of memory for %zu inputs", room);
    code = code == EXIT_FINE ? read_inputs(m, context, options, &b, whats) : code;
    free(whats);
    free(b.list);
    return code;
}

int cli_model_open(cli_model *m, ls_context *context, cli_option *options, const char *path) {
    int code = cli_model_load(m, context, options, path);
    code = code == EXIT_FINE ? cli_model_make_inputs(m, context, options) : code;
    if (code != EXIT_FINE) {
        cli_model_close(m);
    }
    return code;
}

void cli_model_close(cli_model *m) {
    for (int i = 0; m->values && i < m->n_inputs; i++) {
        ls_data_release(m->values[i]);
    }
    free(m->values);
    ls_model_release(m->model);
    memset(m, 0, sizeof *m);
}

int cli_model_inputs(const cli_model *m, ls_named_data *out_inputs) {
    int n = 0;
    for (int i = 0; i < m->n_inputs; i++) {
        if (m->values[i]) {
            out_inputs[n++] = (ls_named_data){ls_model_input(m->model, i).name, m->values[i]};
        }
    }
    return n;
}

int cli_model_build(cli_model *m, ls_session *session, ls_tensor **out_inputs, int *out_n_inputs,
                    ls_tensor **out_outputs) {
    ls_tensor **in = calloc((size_t)m->n_inputs + 1, sizeof *in);
    int n = 0;
    if (!in) {
        return cli_error(EXIT_USAGE, "out of memory for %d inputs", m->n_inputs);
    }
    for (int i = 0; i < m->n_inputs; i++) {
        const ls_data *value = m->values[i];
        if (value && out_inputs) {
            in[i] = ls_input(session, ls_model_input(m->model, i).name, ls_data_dtype(value),
                             ls_shape_make(ls_data_rank(value), ls_data_dims(value)));
            out_inputs[n++] = in[i];
        } else if (value) {
            const char *before = ls_session_set_origin(session, ls_model_input(m->model, i).name);
            in[i] = ls_data_to_tensor(session, value);
            (void)ls_session_set_origin(session, before);
        }
    }
    ls_status status = ls_model_build(session, m->model, m->n_inputs, in, m->n_outputs, out_outputs);
    free(in);
    if (out_n_inputs) {
        *out_n_inputs = n;
    }
    return status == LS_OK ? EXIT_FINE : cli_fail(status, ls_session_error(session)->message);
}

/* ---- lockstep run ---- */

/* The first ten elements, of dtypes that C can print. */
static void print_elements(const ls_data *data) {
    const void *p = ls_data_bytes(data);
    int64_t n = ls_data_numel(data);
    for (int64_t i = 0; i < n && i < 10; i++) {
        const char *space = i ? " " : "  ";
        switch (ls_data_dtype(data)) {
        case LS_F32:
            printf("%s%.6g", space, (double)((const float *)p)[i]);
            break;
        case LS_F64:
            printf("%s%.9g", space, ((const double *)p)[i]);
            break;
        case LS_I64:
            printf("%s%lld", space, (long long)((const int64_t *)p)[i]);
            break;
        case LS_U64:
            printf("%s%llu", space, (unsigned long long)((const uint64_t *)p)[i]);
            break;
        case LS_I32:
            printf("%s%d", space, ((const int32_t *)p)[i]);
            break;
        case LS_U32:
            printf("%s%u", space, ((const uint32_t *)p)[i]);
            break;
        case LS_I16:
            printf("%s%d", space, ((const int16_t *)p)[i]);
            break;
        case LS_U16:
            printf("%s%d", space, ((const uint16_t *)p)[i]);
            break;
        case LS_I8:
            printf("%s%d", space, ((const int8_t *)p)[i]);
            break;
        case LS_U8:
        case LS_BOOL:
            printf("%s%d", space, ((const uint8_t *)p)[i]);
            break;
        default:
            return;
        }
    }
    printf(n > 10 ? " ...\n" : n ? "\n" : "");
}

/* An output's name as a file's; names may hold slashes. */
static void file_name(const char *name, char *file, size_t room) {
    size_t n = 0;
    for (; name[n] && n < room - 1; n++) {
        file[n] = name[n] == '/' || name[n] == '\\' || name[n] == ':' || (unsigned char)name[n] < ' '
                      ? '_'
                      : name[n];
    }
    file[n] = '\0';
}

/* Refuses, before anything runs, outputs of which one would overwrite another. */
static int check_files(const cli_model *m, const char *folder) {
    for (int i = 0; i < m->n_outputs; i++) {
        char a[256], b[256];
        const char *name = ls_model_output(m->model, i).name;
        file_name(name, a, sizeof a);
        for (int j = 0; j < i; j++) {
            file_name(ls_model_output(m->model, j).name, b, sizeof b);
            if (strcmp(a, b) == 0) {
                return cli_error(EXIT_USAGE, "--output %s: outputs \"%s\" and \"%s\" would both be %s.npy", folder, ls_model_output(m->model, j).name, name, a);
            }
        }
    }
    return EXIT_FINE;
}

static int save(cli_world *w, const char *folder, const char *name, const ls_data *data) {
    char path[1400], file[256];
    ls_error err = {.code = LS_OK};
    file_name(name, file, sizeof file);
    mkdir(folder, 0777); /* an error shows when the file is written */
    if (snprintf(path, sizeof path, "%s/%s.npy", folder, file) >= (int)sizeof path) {
        return cli_error(EXIT_USAGE, "--output %s: too long a path", folder);
    }
    return ls_npy_save(w->context, path, data, &err) == LS_OK ? EXIT_FINE : cli_fail(err.code, err.message);
}

/* What a run cost: from the file to the first outputs, then again and again. */
typedef struct timing {
    double begin, first_ms, median_ms;
    double seconds; /* all runs but a first that was there to compile */
} timing;

static int report(cli_world *w, cli_option *options, const cli_model *m, ls_data *const *outputs,
                  const timing *t, const ls_runner *profiled) {
    struct rusage usage = {0};
    int64_t top = 0;
    if (!cli_int(options, "top", 1, 1000000, &top)) {
        return EXIT_USAGE;
    }
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "outputs");
    const char *folder = cli_text(options, "output", NULL);
    int code = EXIT_FINE;
    for (int i = 0; i < m->n_outputs && code == EXIT_FINE; i++) {
        const char *name = ls_model_output(m->model, i).name;
        char hex[65], text[300];
        ls_data_sha256(outputs[i], hex);
        cli_data_text(outputs[i], text, sizeof text);
        printf("%s %s  sha256 %s\n", name, text, hex);
        print_elements(outputs[i]);
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", name);
        cJSON_AddStringToObject(o, "dtype", ls_dtype_name(ls_data_dtype(outputs[i])));
        cJSON *shape = cJSON_AddArrayToObject(o, "shape");
        for (int k = 0; k < ls_data_rank(outputs[i]); k++) {
            cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)ls_data_dims(outputs[i])[k]));
        }
        cJSON_AddStringToObject(o, "sha256", hex);
        cJSON_AddItemToArray(list, o);
        code = folder ? save(w, folder, name, outputs[i]) : EXIT_FINE;
        code = code == EXIT_FINE && top ? cli_print_top(outputs[i], top, cli_text(options, "labels", NULL))
                                        : code;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("median %.3f ms on %s; first outputs after %.1f ms; at most %.1f MB resident\n", t->median_ms,
           ls_device_id(w->device), t->first_ms, (double)usage.ru_maxrss * 1024e-6);
    cJSON_AddStringToObject(root, "device", ls_device_id(w->device));
    cJSON_AddNumberToObject(root, "median_ms", t->median_ms);
    cJSON_AddNumberToObject(root, "first_ms", t->first_ms);
    cJSON_AddNumberToObject(root, "peak_mb", (double)usage.ru_maxrss * 1024e-6);
    if (code == EXIT_FINE && profiled) {
        const ls_program *program = ls_runner_program(profiled);
        code =
            program
                ? cli_profile(program, t->seconds, root)
                : cli_error(EXIT_USAGE,
                            "--profile: this model is run node by node, since shapes in it depend on values");
    }
    if (code != EXIT_FINE) {
        cJSON_Delete(root);
        return code;
    }
    return cli_json(options, root);
}

static void release_all(ls_data **list, int n) {
    for (int i = 0; list && i < n; i++) {
        ls_data_release(list[i]);
        list[i] = NULL;
    }
}

/* Runs `repeat` times, keeping the last outputs; the median is of those that compiled nothing. */
static int run_repeatedly(cli_world *w, const cli_model *m, ls_runner *runner, int64_t repeat, bool profile,
                          ls_data **outputs, timing *t) {
    ls_named_data *inputs = calloc((size_t)m->n_inputs + 1, sizeof *inputs);
    double *ms = malloc(sizeof *ms * (size_t)repeat);
    int n = inputs ? cli_model_inputs(m, inputs) : 0;
    int code =
        ms && inputs ? EXIT_FINE : cli_error(EXIT_USAGE, "out of memory for %lld runs", (long long)repeat);
    for (int64_t i = repeat == 1 && !profile ? 0 : -1; i < repeat && code == EXIT_FINE;
         i++) { /* before several, one that compiles */
        if (i == 0 && profile && ls_runner_program(runner)) {
            ls_program_set_profile(ls_runner_program(runner), 1);
        }
        release_all(outputs, m->n_outputs);
        double start = cli_now_ms();
        ls_status status = ls_runner_run(runner, n, inputs, outputs);
        code = status == LS_OK ? EXIT_FINE : cli_fail(status, ls_session_error(w->session)->message);
        double end = cli_now_ms();
        t->first_ms = t->first_ms > 0 ? t->first_ms : end - t->begin;
        ms[i < 0 ? 0 : i] = end - start;
        t->seconds += i < 0 ? 0 : ms[i] * 1e-3;
    }
    if (code == EXIT_FINE) {
        cli_sort(ms, (size_t)repeat);
        t->median_ms = ms[repeat / 2];
    }
    free(ms);
    free(inputs);
    return code;
}

int cli_run_model(cli_world *w, cli_option *options, const char *path) {
    int64_t repeat = 1;
    cli_model m;
    ls_runner *runner = NULL;
    timing t = {.begin = cli_now_ms()};
    bool profile = cli_given(options, "profile");
    const char *folder = cli_text(options, "output", NULL);
    if (!cli_int(options, "repeat", 1, 1000000, &repeat)) {
        return EXIT_USAGE;
    }
    int code = cli_model_open(&m, w->context, options, path);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_data **outputs = calloc((size_t)m.n_outputs + 1, sizeof *outputs);
    code = outputs ? EXIT_FINE : cli_error(EXIT_USAGE, "out of memory for %d outputs", m.n_outputs);
    code = code == EXIT_FINE && folder ? check_files(&m, folder) : code;
    if (code == EXIT_FINE) {
        ls_status status = ls_runner_create(w->session, m.model, &runner);
        code = status == LS_OK ? EXIT_FINE : cli_fail(status, ls_session_error(w->session)->message);
    }
    code = code == EXIT_FINE ? cli_model_bounds(&m, options, w->session, runner) : code;
    code = code == EXIT_FINE ? run_repeatedly(w, &m, runner, repeat, profile, outputs, &t) : code;
    code = code == EXIT_FINE ? report(w, options, &m, outputs, &t, profile ? runner : NULL) : code;
    release_all(outputs, m.n_outputs);
    free(outputs);
    ls_runner_destroy(runner);
    cli_model_close(&m);
    return code;
}
