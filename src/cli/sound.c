/* Sounds as inputs of models: one channel or the mean of all, resampled when asked to be, cut to what an input wants. */
#include "cli/sound.h"
#include "cli/input.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_is_sound(const char *path) {
    size_t n = strlen(path);
    const char *end = n > 4 ? path + n - 4 : "";
    return end[0] == '.' && (end[1] | ' ') == 'w' && (end[2] | ' ') == 'a' && (end[3] | ' ') == 'v';
}

/* ---- resampling ---- */

/* sin(pi x), and of it sinc and Hann's window, by a series, so that they are the same on every machine. */
static double sine(double x) {
    double whole = (double)(int64_t)(x < 0 ? x - 0.5 : x + 0.5), y = 3.14159265358979323846 * (x - whole), sum = 0;
    for (int k = 25; k > 0; k -= 2) {
        sum = 1 - sum * y * y / ((k + 1) * (k + 2));
    }
    sum *= y;
    return (int64_t)whole % 2 ? -sum : sum;
}

enum { MOST_RATIO = 256 }; /* of rates: what a sample costs follows it */
enum { CROSSINGS = 32 }; /* of zero, on each side of the sinc */

/* The value at frame `at` + `part` (0 to 1) of a band up to `cut` (1: all) of the clip: a sinc under Hann's window, whose weights sum to 1. */
static double value_at(const double *x, int64_t n, int64_t at, double part, double cut) {
    double sum = 0, weights = 0, reach = CROSSINGS / cut;
    int64_t first = at - (int64_t)reach, last = at + (int64_t)reach + 1;
    for (int64_t i = first; i <= last; i++) {
        double d = (double)(i - at) - part, hann = sine(d / reach / 2 + 0.5);
        if (d > -reach && d < reach) {
            double weight = hann * hann * (d == 0 ? 1 : sine(d * cut) / (3.14159265358979323846 * d * cut));
            weights += weight;
            sum += i >= 0 && i < n ? weight * x[i] : 0;
        }
    }
    return sum / weights;
}

/* Frame i of the result lies at frame i * from / to of the clip. */
static double *resample(const double *x, int64_t n, int64_t from, int64_t to, int64_t *out_n) {
    int64_t most = n > (INT64_MAX - from) / to ? 0 : (n * to + from - 1) / from;
    double *y = most || !n ? malloc(sizeof *y * (size_t)(most + 1)) : NULL;
    for (int64_t i = 0; y && i < most; i++) {
        y[i] = value_at(x, n, i * from / to, (double)(i * from % to) / (double)to, to < from ? (double)to / (double)from : 1);
    }
    *out_n = most;
    return y;
}

/* ---- what an input wants ---- */

typedef struct clip {
    const char *path;
    double *x;
    int64_t n;
    int rate;
} clip;

/* One channel of the file; -1: the mean. */
static int read_clip(ls_context *context, cli_option *options, const char *path, clip *c) {
    ls_data *data = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_wav_load(context, path, &data, &c->rate, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    int64_t channels = ls_data_dims(data)[1], channel = -1;
    const float *x = ls_data_bytes(data);
    c->path = path;
    c->n = ls_data_dims(data)[0];
    bool good = cli_int(options, "channel", 0, channels - 1, &channel);
    c->x = good ? malloc(sizeof *c->x * (size_t)(c->n + 1)) : NULL;
    for (int64_t i = 0; c->x && i < c->n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < channels; k++) {
            sum += (double)x[i * channels + k];
        }
        c->x[i] = channel < 0 ? sum / (double)channels : (double)x[i * channels + channel];
    }
    ls_data_release(data);
    if (!c->x) {
        return good ? cli_error(EXIT_USAGE, "out of memory for %s", path) : EXIT_USAGE;
    }
    fprintf(stderr, "lockstep: %s: %d samples a second, %lld of them, %lld channel%s\n", path, c->rate, (long long)c->n, (long long)channels,
            channels == 1 ? "" : channel < 0 ? "s: their mean" : "s");
    return EXIT_FINE;
}

static int change_rate(cli_option *options, clip *c) {
    int64_t rate = c->rate, n;
    if (!cli_int(options, "rate", 1, 10000000, &rate)) {
        return EXIT_USAGE;
    }
    if (rate == c->rate) {
        return EXIT_FINE;
    }
    if (rate / c->rate >= MOST_RATIO || c->rate / rate >= MOST_RATIO) {
        return cli_error(EXIT_USAGE, "--rate %lld: %s has %d samples a second: expected less than %d times as many, and as few", (long long)rate, c->path,
                         c->rate, MOST_RATIO);
    }
    double *y = resample(c->x, c->n, c->rate, rate, &n);
    if (!y) {
        return cli_error(EXIT_USAGE, "out of memory for %s at %lld samples a second", c->path, (long long)rate);
    }
    free(c->x);
    c->x = y;
    c->n = n;
    return EXIT_FINE;
}

/* Which part is wanted. */
static int find_part(cli_option *options, const ls_model_port *port, const clip *c, int64_t *out_from, int64_t *out_n) {
    int64_t wants = port->rank > 0 ? port->dims[port->rank - 1] : -1, from = 0, n = -1;
    if (!cli_int(options, "offset", 0, INT32_MAX, &from) || !cli_int(options, "samples", 1, INT32_MAX, &n)) {
        return EXIT_USAGE;
    }
    if (wants >= 0 && n >= 0 && n != wants) {
        return cli_error(EXIT_USAGE, "--samples %lld: input \"%s\" takes %lld", (long long)n, port->name, (long long)wants);
    }
    int64_t left = c->n > from ? c->n - from : 0;
    bool chosen = cli_given(options, "offset") || n >= 0;
    n = wants >= 0 ? wants : n >= 0 ? n : left;
    if (n > left || n == 0) {
        return cli_error(EXIT_USAGE, "%s: %lld samples from %lld on are there; input \"%s\" takes %lld", c->path, (long long)left, (long long)from, port->name,
                         (long long)(n ? n : 1));
    }
    if (n < left && !chosen) {
        return cli_error(EXIT_USAGE, "%s: %lld samples; input \"%s\" takes %lld: --offset 0 takes the first, --offset N those from N on", c->path, (long long)left,
                         port->name, (long long)n);
    }
    *out_from = from;
    *out_n = n;
    return EXIT_FINE;
}

/* Floats as they are, whole numbers in units of 1/32768, within 16 bits; a session casts them to what the input has. */
static int make_value(ls_context *context, const ls_model_port *port, const double *x, int64_t n, ls_data **out_data) {
    bool real = port->dtype >= LS_F16;
    int64_t dims[LS_MAX_RANK] = {1, 1, 1, 1};
    int rank = port->rank > 0 ? port->rank : 1;
    float *y = malloc(sizeof *y * (size_t)n);
    ls_error err = {.code = LS_OK};
    ls_session *s = NULL;
    dims[rank - 1] = n;
    for (int64_t i = 0; y && i < n; i++) {
        double unit = x[i] * 32768, low = unit < -32768 ? -32768 : unit > 32767 ? 32767 : unit == unit ? unit : 0;
        y[i] = real ? (float)x[i] : (float)(int64_t)(low < 0 ? low - 0.5 : low + 0.5);
    }
    ls_status status = y ? cli_maker_open(context, &s, &err) : LS_ERR_MEMORY;
    if (status == LS_OK) {
        ls_tensor *t = ls_tensor_from(s, LS_F32, ls_shape_make(rank, dims), y);
        status = cli_maker_take(s, ls_cast(s, t, port->dtype), out_data, &err);
    }
    if (!y) {
        snprintf(err.message, sizeof err.message, "out of memory for %lld samples", (long long)n);
    }
    free(y);
    return status == LS_OK ? EXIT_FINE : cli_fail(status, err.message);
}

int cli_sound(ls_context *context, cli_option *options, const ls_model_port *port, const char *path, ls_data **out_data) {
    clip c = {.x = NULL};
    int64_t from = 0, n = 0;
    bool fits = port->rank != 0 && port->rank <= 4 && port->dtype < LS_DTYPE_COUNT && port->dtype != LS_BOOL;
    for (int i = 0; i + 1 < port->rank; i++) {
        fits = fits && (port->dims[i] < 0 || port->dims[i] == 1);
    }
    if (!fits) {
        return cli_error(EXIT_USAGE, "input \"%s\" is no sound: expected numbers along its last axis of at most 4, the others 1", port->name);
    }
    int code = read_clip(context, options, path, &c);
    code = code == EXIT_FINE ? change_rate(options, &c) : code;
    code = code == EXIT_FINE ? find_part(options, port, &c, &from, &n) : code;
    code = code == EXIT_FINE ? make_value(context, port, c.x + from, n, out_data) : code;
    free(c.x);
    return code;
}
