/* Reads the text of a picture by two networks, PP-OCRv4: one says where lines of text are, the other reads them.
 *
 *     read_text DEVICE DETECTION.onnx RECOGNITION.onnx KEYS.txt PICTURE
 *
 * Prints each line from top to bottom: the same text and scores on every device. KEYS.txt is the recognition network's alphabet, a
 * character a line. Steps and thresholds are those that the networks were trained for (PaddleOCR's DB and CTC post-processing). */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 64, MOST_KEYS = 8192, LINE_HEIGHT = 48 };

typedef char key[16]; /* a character in UTF-8 */

typedef struct box {
    int64_t x, y, width, height;
    float score;
} box;

static void must(ls_status status, const ls_error *err) {
    if (status != LS_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(2);
    }
}

/* A part of a picture (u8 [height,width,3]) as a network wants it: f32 [3,height,width], blue first, resized, (p/255 - mean)/deviation. */
static ls_tensor *prepare(ls_session *s, ls_tensor *picture, box part, int64_t height, int64_t width, const float *mean, const float *deviation) {
    const ls_resize_spec size = {.mode = LS_RESIZE_LINEAR, .size = {3, height, width}};
    ls_tensor *rows = ls_narrow(s, picture, 0, part.y, part.height);
    ls_tensor *pixels = ls_cast(s, ls_flip(s, ls_narrow(s, rows, 1, part.x, part.width), 2), LS_F32);
    ls_tensor *x = ls_resize(s, ls_permute(s, pixels, (const int[]){2, 0, 1}), &size);
    ls_tensor *unit = ls_div(s, x, ls_full(s, LS_F32, LS_SCALAR, 255));
    ls_tensor *centred = ls_sub(s, unit, ls_tensor_from(s, LS_F32, LS_SHAPE(3, 1, 1), mean));
    return ls_div(s, centred, ls_tensor_from(s, LS_F32, LS_SHAPE(3, 1, 1), deviation));
}

/* Runs a model of one input and one output; the caller releases the output. */
static ls_data *run(ls_session *s, const char *path, ls_tensor *x) {
    ls_error err = {.code = LS_OK};
    ls_model *model;
    ls_runner *runner;
    ls_data *in, *out;
    must(ls_model_load(ls_session_context(s), path, &model, &err), &err);
    must(ls_runner_create(s, model, &runner), ls_session_error(s));
    must(ls_data_from_tensor(s, x, &in), ls_session_error(s));
    must(ls_runner_run(runner, 1, &(ls_named_data){ls_model_input(model, 0).name, in}, &out), ls_session_error(s));
    ls_data_release(in);
    ls_runner_destroy(runner);
    ls_model_release(model);
    return out;
}

/* The connected part of the map above 0.3 that holds pixel `at`, which is taken out of the map. `stack` has room for the whole map. */
static box take_part(float *map, int64_t height, int64_t width, int64_t at, int64_t *stack) {
    int64_t n = 1, count = 0, x0 = width, y0 = height, x1 = 0, y1 = 0;
    double sum = 0;
    stack[0] = at;
    sum += (double)map[at];
    map[at] = 0;
    while (n > 0) {
        int64_t p = stack[--n], x = p % width, y = p / width;
        const int64_t next[4] = {x > 0 ? p - 1 : p, x + 1 < width ? p + 1 : p, y > 0 ? p - width : p, y + 1 < height ? p + width : p};
        count++;
        x0 = x < x0 ? x : x0, x1 = x + 1 > x1 ? x + 1 : x1;
        y0 = y < y0 ? y : y0, y1 = y + 1 > y1 ? y + 1 : y1;
        for (int i = 0; i < 4; i++) {
            if (map[next[i]] > 0.3f) {
                sum += (double)map[next[i]];
                map[next[i]] = 0;
                stack[n++] = next[i];
            }
        }
    }
    return (box){x0, y0, x1 - x0, y1 - y0, (float)(sum / (double)count)};
}

/* Where the network's map, [1,1,height,width], says that text is: in pixels of the picture, from top to bottom. The network marks the core of a
 * line, so each side moves out by 1.5 times area over circumference. */
static int find_lines(const ls_data *map, int64_t picture_height, int64_t picture_width, box lines[MOST_LINES]) {
    int64_t height = ls_data_dims(map)[2], width = ls_data_dims(map)[3], *stack = malloc(sizeof *stack * (size_t)(height * width));
    float *copy = malloc(ls_data_size(map));
    int n = 0;
    if (!copy || !stack) {
        exit(2);
    }
    memcpy(copy, ls_data_bytes(map), ls_data_size(map));
    for (int64_t p = 0; p < height * width && n < MOST_LINES; p++) {
        if (copy[p] <= 0.3f) {
            continue;
        }
        box b = take_part(copy, height, width, p, stack);
        if (b.score < 0.6f || b.width < 3 || b.height < 3) {
            continue;
        }
        int64_t out = 3 * b.width * b.height / (4 * (b.width + b.height));
        int64_t x0 = b.x - out > 0 ? b.x - out : 0, x1 = b.x + b.width + out < width ? b.x + b.width + out : width;
        int64_t y0 = b.y - out > 0 ? b.y - out : 0, y1 = b.y + b.height + out < height ? b.y + b.height + out : height;
        lines[n].x = x0 * picture_width / width, lines[n].width = (x1 - x0) * picture_width / width;
        lines[n].y = y0 * picture_height / height, lines[n].height = (y1 - y0) * picture_height / height;
        lines[n++].score = b.score;
    }
    free(stack);
    free(copy);
    return n;
}

/* What a network of connectionist temporal classification says, probabilities [steps,classes]: class 0 is "nothing", the same class at
 * neighbouring steps is one character. Prints the mean probability and the text. */
static void print_text(const float *p, int64_t steps, int64_t classes, const key *keys) {
    int64_t last = 0, n = 0;
    double sum = 0;
    char text[4096] = "";
    for (int64_t t = 0; t < steps; t++, p += classes) {
        int64_t best = 0;
        for (int64_t k = 1; k < classes; k++) {
            best = p[k] > p[best] ? k : best;
        }
        if (best && best != last && strlen(text) + strlen(keys[best]) < sizeof text) {
            strcat(text, keys[best]);
            sum += (double)p[best];
            n++;
        }
        last = best;
    }
    if (n) {
        printf("%.3f  %s\n", sum / (double)n, text);
    }
}

static void read_lines(ls_session *s, const char *model, ls_tensor *picture, const box *lines, int n, const key *keys) {
    static const float half[3] = {0.5f, 0.5f, 0.5f};
    ls_tensor *batch[MOST_LINES];
    int64_t widest = 320, widths[MOST_LINES];
    for (int i = 0; i < n; i++) {
        widths[i] = (LINE_HEIGHT * lines[i].width + lines[i].height - 1) / lines[i].height;
        widest = widths[i] > widest ? widths[i] : widest;
    }
    for (int i = 0; i < n; i++) {
        const ls_pad_spec pads[3] = {{0}, {0}, {.high = widest - widths[i]}};
        batch[i] = ls_pad(s, prepare(s, picture, lines[i], LINE_HEIGHT, widths[i], half, half), pads, 0);
    }
    ls_data *out = run(s, model, ls_stack(s, batch, n, 0));
    int64_t steps = ls_data_dims(out)[1], classes = ls_data_dims(out)[2];
    for (int i = 0; i < n; i++) {
        print_text((const float *)ls_data_bytes(out) + i * steps * classes, steps, classes, keys);
    }
    ls_data_release(out);
}

/* keys[0] is "nothing", then the lines of the file, then a space. */
static void read_keys(const char *path, key *keys) {
    FILE *file = fopen(path, "r");
    int n = 1;
    if (!file) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    for (; n + 1 < MOST_KEYS && fgets(keys[n], sizeof keys[n], file); n++) {
        keys[n][strcspn(keys[n], "\r\n")] = 0;
    }
    strcpy(keys[n], " ");
    fclose(file);
}

int main(int argc, char **argv) {
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    static key keys[MOST_KEYS];
    static box lines[MOST_LINES];
    ls_error err = {.code = LS_OK};
    ls_context *context;
    ls_device *device;
    ls_session *s;
    ls_data *file;
    if (argc != 6) {
        fprintf(stderr, "usage: read_text DEVICE DETECTION.onnx RECOGNITION.onnx KEYS.txt PICTURE\n");
        return 2;
    }
    must(ls_context_create(NULL, &context, &err), &err);
    must(ls_device_open(context, argv[1], &device, &err), &err);
    must(ls_session_create(context, device, &s, &err), &err);
    must(ls_image_load(context, argv[5], 3, &file, &err), &err);
    read_keys(argv[4], keys);

    ls_tensor *picture = ls_data_to_tensor(s, file);
    int64_t height = ls_data_dims(file)[0], width = ls_data_dims(file)[1];
    box all = {.width = width, .height = height};
    /* Sides of 32 pixels, as the network halves them five times; small type is easier to find when it is larger. */
    ls_tensor *x = prepare(s, picture, all, (2 * height + 31) / 32 * 32, (2 * width + 31) / 32 * 32, mean, deviation);
    ls_data *map = run(s, argv[2], ls_unsqueeze(s, x, 0));
    int n = find_lines(map, height, width, lines);
    if (n) {
        read_lines(s, argv[3], picture, lines, n, keys);
    }
    ls_data_release(map);
    ls_data_release(file);
    ls_session_destroy(s);
    ls_context_destroy(context);
    return 0;
}
