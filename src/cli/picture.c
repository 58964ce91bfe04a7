/* Pictures as inputs of models: decoded, resized, scaled and laid out as an input wants them; and the best of a model's scores. */
#include "cli/picture.h"
#include "cli/input.h"
#include <errno.h>
#include <lockstep/image.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_letters(const char *a, const char *b) {
    for (; *a && *b; a++, b++) {
        if ((*a | ' ') != (*b | ' ')) {
            return false;
        }
    }
    return *a == *b;
}

bool cli_is_picture(const char *path) {
    static const char *const ends[] = {"png", "jpg", "jpeg", "bmp", "ppm", "pgm", "tif", "tiff"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++) {
        if (same_letters(dot + 1, ends[i])) {
            return true;
        }
    }
    return false;
}

/* "0.5" for every channel, or as many as there are. */
static bool read_list(cli_option *options, const char *name, int channels, float otherwise, float *out) {
    const char *at = cli_text(options, name, NULL);
    int n = 0;
    for (int i = 0; i < channels; i++) {
        out[i] = otherwise;
    }
    if (!at) {
        return true;
    }
    for (char *end; n < channels; n++) {
        out[n] = strtof(at, &end);
        if (end == at || (*end && *end != ',')) {
            break;
        }
        at = end + (*end == ',');
        if (!*end) {
            n++;
            break;
        }
    }
    for (int i = 1; n == 1 && i < channels; i++) {
        out[i] = out[0];
    }
    if (*at || (n != 1 && n != channels)) {
        cli_error(0, "--%s %s: expected %s", name, cli_text(options, name, ""), channels == 1 ? "a number, for one channel" : "1 or 3 numbers");
        return false;
    }
    return true;
}

/* Where the channels are; false when the input is no picture. */
static bool find_layout(cli_option *options, const ls_model_port *port, int *out_channels_last,
                        int *out_channels) {
    static const char *const layouts[] = {"NCHW", "NHWC", NULL};
    int64_t first = port->rank >= 3 ? port->dims[port->rank - 3] : 0,
            last = port->rank >= 3 ? port->dims[port->rank - 1] : 0;
    *out_channels_last = first != 1 && first != 3 && (last == 1 || last == 3);
    if (!cli_choice(options, "layout", layouts, out_channels_last)) {
        return false;
    }
    int64_t channels = *out_channels_last ? last : first;
    *out_channels = channels == 1 ? 1 : 3;
    if (port->rank < 3 || port->rank > 4 || (channels >= 0 && channels != 1 && channels != 3) ||
        (port->rank == 4 && port->dims[0] > 1)) {
        cli_error(0, "input \"%s\" is no picture%s%s: expected an array of rank 3 or 4 with 1 or 3 channels",
                  port->name, cli_given(options, "layout") ? " by --layout " : "", cli_text(options, "layout", ""));
        return false;
    }
    return true;
}

static ls_tensor *normalise(ls_session *s, ls_tensor *x, const float *mean, const float *deviation,
                            double scale, int channels) {
    ls_tensor *m = ls_tensor_from(s, LS_F32, LS_SHAPE(channels), mean);
    ls_tensor *d = ls_tensor_from(s, LS_F32, LS_SHAPE(channels), deviation);
    ls_tensor *y = ls_mul(s, ls_cast(s, x, LS_F32), ls_full(s, LS_F32, LS_SCALAR, scale));
    return ls_div(s, ls_sub(s, y, m), d);
}

/* The picture's tensor, [1, height, width, channels] of u8, made into what the input wants. */
static ls_tensor *fit(ls_session *s, ls_tensor *x, const ls_model_port *port, int channels_last, int channels,
                      const float *mean, const float *deviation, double scale) {
    int64_t height = port->dims[port->rank - (channels_last ? 3 : 2)],
            width = port->dims[port->rank - (channels_last ? 2 : 1)];
    ls_shape shape = ls_tensor_shape(x);
    height = height < 0 ? shape.dim[1].offset : height;
    width = width < 0 ? shape.dim[2].offset : width;
    ls_resize_spec spec = {.mode = LS_RESIZE_LINEAR, .antialias = 1, .size = {1, height, width, channels}};
    bool real = port->dtype >= LS_F16;
    if (height != shape.dim[1].offset || width != shape.dim[2].offset) {
        x = ls_resize(s, real ? ls_cast(s, x, LS_F32) : x, &spec);
    }
    x = real ? normalise(s, x, mean, deviation, scale, channels) : x;
    x = channels_last ? x : ls_permute(s, x, (const int[]){0, 3, 1, 2});
    const int64_t planes[4] = {1, channels, height, width}, pixels[4] = {1, height, width, channels};
    const int64_t *dims = channels_last ? pixels : planes;
    return ls_cast(s, ls_reshape(s, x, ls_shape_make(port->rank, dims + 4 - port->rank)), port->dtype);
}

int cli_picture(ls_context *context, cli_option *options, const ls_model_port *port, const char *path,
                ls_data **out_data) {
    int channels_last = 0, channels = 3;
    float mean[3], deviation[3];
    double scale = 1.0 / 255;
    ls_error err = {.code = LS_OK};
    ls_data *pixels = NULL;
    ls_session *s = NULL;
    if (!find_layout(options, port, &channels_last, &channels) ||
        !cli_double(options, "scale", -1e30, 1e30, &scale) ||
        !read_list(options, "mean", channels, 0, mean) ||
        !read_list(options, "std", channels, 1, deviation)) {
        return EXIT_USAGE;
    }
    for (int i = 0; i < channels; i++) {
        if (!(deviation[i] > 0)) {
            return cli_error(EXIT_USAGE, "--std %s: expected numbers above 0", cli_text(options, "std", ""));
        }
    }
    ls_status status = ls_image_load(context, path, channels, &pixels, &err);
    status = status == LS_OK ? cli_maker_open(context, &s, &err) : status;
    if (status == LS_OK) {
        const int64_t *d = ls_data_dims(pixels);
        ls_tensor *x = ls_reshape(s, ls_data_to_tensor(s, pixels), LS_SHAPE(1, d[0], d[1], d[2]));
        status = cli_maker_take(s, fit(s, x, port, channels_last, channels, mean, deviation, scale), out_data, &err);
    }
    ls_data_release(pixels);
    return status == LS_OK ? EXIT_FINE : cli_fail(status, err.message);
}

/* ---- scores ---- */

typedef struct score {
    float value;
    int64_t index;
} score;

static int best_first(const void *a, const void *b) {
    const score *x = a, *y = b;
    int by_value = (x->value < y->value) - (x->value > y->value);
    return by_value ? by_value : (x->index > y->index) - (x->index < y->index);
}

/* Line `index` of a file, from 0; empty when there is none. */
static void read_label(const char *path, int64_t index, char *label, size_t room) {
    FILE *f = fopen(path, "r");
    label[0] = '\0';
    for (int64_t i = 0; f && i <= index; i++) {
        if (!fgets(label, (int)room, f)) {
            label[0] = '\0';
            break;
        }
    }
    label[strcspn(label, "\r\n")] = '\0';
    if (f) {
        fclose(f);
    }
}

bool cli_can_read_labels(const char *path) {
    FILE *f = fopen(path, "r");
    bool good = f && (fgetc(f) != EOF || !ferror(f)); /* a folder opens */
    if (!good) {
        cli_error(0, "--labels %s: cannot be read: %s", path, strerror(errno));
    }
    if (f) {
        fclose(f);
    }
    return good;
}

int cli_print_top(const ls_data *scores, int64_t top, const char *labels) {
    int rank = ls_data_rank(scores);
    int64_t n = rank ? ls_data_dims(scores)[rank - 1] : 0;
    if (ls_data_dtype(scores) != LS_F32 || n < 2 || !ls_data_numel(scores)) {
        return EXIT_FINE; /* no scores */
    }
    score *list = malloc(sizeof *list * (size_t)n);
    if (!list) {
        return cli_error(EXIT_USAGE, "out of memory for %lld scores", (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        list[i] = (score){((const float *)ls_data_bytes(scores))[i], i};
    }
    qsort(list, (size_t)n, sizeof *list, best_first);
    for (int64_t i = 0; i < n && i < top; i++) {
        char label[256] = "";
        if (labels) {
            read_label(labels, list[i].index, label, sizeof label);
        }
        printf("  %5lld  %-12.6g %s\n", (long long)list[i].index, (double)list[i].value, label);
    }
    free(list);
    return EXIT_FINE;
}
