/* Finds faces in a picture by BlazeFace (Bazarevsky et al., 2019).
 *
 *     find_faces DEVICE FACES.onnx PICTURE
 *
 * Prints each face's score and place in pixels (x, y, width, height), the best first: the same on every device. The network looks at
 * 896 anchors, two in each cell of a grid of 16 x 16 and six in each of 8 x 8; for each it says how sure it is and, from the anchor, where. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { OUTPUTS = 4, ANCHORS = 896, COORDINATES = 16 };

typedef struct face {
    float score, x, y, width, height; /* the middle; of the network's picture */
} face;

static void must(ls_status status, const ls_error *err) {
    if (status != LS_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(2);
    }
}

/* A picture, u8 [height,width,3], made square by black on the right or below: f32 [1,side,side,3] from -1 to 1. */
static ls_data *prepare(ls_session *s, const ls_data *picture, int64_t square, int64_t side) {
    const ls_pad_spec pads[3] = {{.high = square - ls_data_dims(picture)[0]}, {.high = square - ls_data_dims(picture)[1]}, {0}};
    const ls_resize_spec size = {.mode = LS_RESIZE_LINEAR, .antialias = 1, .size = {side, side, 3}};
    ls_tensor *pixels = ls_cast(s, ls_data_to_tensor(s, picture), LS_F32);
    ls_tensor *small = ls_resize(s, ls_pad(s, pixels, pads, 0), &size);
    ls_tensor *scaled = ls_div(s, small, ls_full(s, LS_F32, LS_SCALAR, 127.5));
    ls_tensor *x = ls_sub(s, scaled, ls_full(s, LS_F32, LS_SCALAR, 1));
    ls_data *out = NULL;
    must(ls_data_from_tensor(s, ls_unsqueeze(s, x, 0), &out), ls_session_error(s));
    return out;
}

/* What the network says of the anchors of one grid: those that it is at least 0.5 sure of (a logit above 0). */
static int read_grid(const float *logits, const float *boxes, int cells, int anchors, float side, face *faces, int n) {
    for (int i = 0; i < cells * cells * anchors; i++, boxes += COORDINATES) {
        int cell = i / anchors;
        if (logits[i] > 0) {
            faces[n].score = logits[i];
            faces[n].x = ((float)(cell % cells) + 0.5f) * side / (float)cells + boxes[0];
            faces[n].y = ((float)(cell / cells) + 0.5f) * side / (float)cells + boxes[1];
            faces[n].width = boxes[2];
            faces[n++].height = boxes[3];
        }
    }
    return n;
}

static float overlap(float middle1, float size1, float middle2, float size2) {
    float low1 = middle1 - size1 / 2, low2 = middle2 - size2 / 2, low = low1 > low2 ? low1 : low2;
    float high1 = middle1 + size1 / 2, high2 = middle2 + size2 / 2, high = high1 < high2 ? high1 : high2;
    return high > low ? high - low : 0;
}

static int same_face(const face *a, const face *b) { /* intersection over union */
    float both = overlap(a->x, a->width, b->x, b->width) * overlap(a->y, a->height, b->y, b->height);
    return both > 0.3f * (a->width * a->height + b->width * b->height - both);
}

static int better_first(const void *a, const void *b) {
    const face *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

/* Blends what says the same: each face becomes the mean of those that overlap it, weighted by their scores. Gives how many are left. */
static int blend(face *faces, int n) {
    int left = 0;
    qsort(faces, (size_t)n, sizeof *faces, better_first);
    while (left < n) {
        face best = faces[left], sum = {0};
        int kept = left + 1;
        for (int i = left; i < n; i++) {
            const face f = faces[i];
            if (i == left || same_face(&best, &f)) {
                sum.score += f.score;
                sum.x += f.score * f.x, sum.y += f.score * f.y;
                sum.width += f.score * f.width, sum.height += f.score * f.height;
            } else {
                faces[kept++] = f;
            }
        }
        n = kept;
        faces[left++] = (face){best.score, sum.x / sum.score, sum.y / sum.score, sum.width / sum.score, sum.height / sum.score};
    }
    return n;
}

int main(int argc, char **argv) {
    static face faces[ANCHORS];
    ls_error err = {.code = LS_OK};
    ls_context *context;
    ls_device *device;
    ls_session *s;
    ls_model *model;
    ls_runner *runner;
    ls_data *picture, *outputs[OUTPUTS];
    if (argc != 4) {
        fprintf(stderr, "usage: find_faces DEVICE FACES.onnx PICTURE\n");
        return 2;
    }
    must(ls_context_create(NULL, &context, &err), &err);
    must(ls_device_open(context, argv[1], &device, &err), &err);
    must(ls_session_create(context, device, &s, &err), &err);
    must(ls_model_load(context, argv[2], &model, &err), &err);
    must(ls_image_load(context, argv[3], 3, &picture, &err), &err);
    must(ls_runner_create(s, model, &runner), ls_session_error(s));

    ls_model_port port = ls_model_input(model, 0);
    int64_t height = ls_data_dims(picture)[0], width = ls_data_dims(picture)[1], square = height > width ? height : width;
    ls_data *x = prepare(s, picture, square, port.dims[1]);
    must(ls_runner_run(runner, 1, &(ls_named_data){port.name, x}, outputs), ls_session_error(s));

    const float *out[OUTPUTS]; /* logits of both grids, then places */
    for (int i = 0; i < OUTPUTS; i++) {
        out[i] = ls_data_bytes(outputs[i]);
    }
    float side = (float)port.dims[1], scale = (float)square / side;
    int n = read_grid(out[0], out[2], 16, 2, side, faces, 0);
    n = blend(faces, read_grid(out[1], out[3], 8, 6, side, faces, n));
    for (int i = 0; i < n; i++) {
        const face *f = &faces[i];
        printf("%.3f  %.1f %.1f %.1f %.1f\n", (double)f->score, (double)((f->x - f->width / 2) * scale),
               (double)((f->y - f->height / 2) * scale), (double)(f->width * scale), (double)(f->height * scale));
    }
    for (int i = 0; i < OUTPUTS; i++) {
        ls_data_release(outputs[i]);
    }
    ls_data_release(x);
    ls_data_release(picture);
    ls_runner_destroy(runner);
    ls_session_destroy(s);
    ls_model_release(model);
    ls_context_destroy(context);
    return 0;
}
