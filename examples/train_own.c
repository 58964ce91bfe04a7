/* Trains a network of your own on images of your own: a folder of four IDX files, named as MNIST names them.
 *
 *     train_own [FOLDER]     without one: crosses and squares of 12 by 12 pixels, drawn here
 *
 * The same seed gives the same bits on every device and for any number of threads. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 12, DRAWN = 640, BATCH = 32, CLASSES = 10, EPOCHS = 3 };

static ls_status draw(ls_context *context, ls_dataset *out, ls_error *err) {
    static uint8_t images[DRAWN * SIDE * SIDE], labels[DRAWN];
    unsigned noise = 1;
    for (int i = 0; i < DRAWN * SIDE * SIDE; i++) {
        int n = i / (SIDE * SIDE), y = i / SIDE % SIDE - 2 - n % 4,
            x = i % SIDE - 2 - n / 4 % 4; /* moved about */
        int square = n % 3 == 0, inside = x >= 0 && x < 5 && y >= 0 && y < 5;
        int lit = inside && (square ? x == 0 || x == 4 || y == 0 || y == 4 : x == y || x == 4 - y);
        noise = noise * 1664525u + 1013904223u;
        images[i] = (uint8_t)((lit ? 190 : 0) + (noise >> 26));
        labels[n] = (uint8_t)square;
    }
    const int64_t dims[3] = {DRAWN, SIDE, SIDE};
    ls_status status = ls_data_create(context, LS_U8, 3, dims, images, &out->images, err);
    return status == LS_OK ? ls_data_create(context, LS_U8, 1, dims, labels, &out->labels, err) : status;
}

static ls_tensor *network(ls_session *s, ls_params *p, ls_tensor *x, int64_t pixels) {
    x = ls_relu(s, ls_nn_conv2d(s, p, "conv", x, 8, 3, 1, 1));
    x = ls_reshape(s, x, LS_SHAPE(BATCH, 8 * pixels));
    x = ls_relu(s, ls_nn_linear(s, p, "hidden", x, 32));
    return ls_nn_linear(s, p, "out", x, CLASSES);
}

static ls_status train(ls_session *s, ls_params *p, ls_loader *loader, const ls_dataset *set,
                       float *out_loss) {
    int64_t rows = ls_data_dims(set->images)[1], columns = ls_data_dims(set->images)[2];
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(BATCH, 1, rows, columns));
    ls_tensor *y = ls_input(s, "labels", LS_I32, LS_SHAPE(BATCH)),
              *rate = ls_input(s, "rate", LS_F32, LS_SCALAR);
    ls_tensor *inputs[3] = {x, y, rate}, *loss = ls_cross_entropy(s, network(s, p, x, rows * columns), y);
    ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    ls_schedule schedule = {
        .kind = LS_SCHEDULE_COSINE, .rate = 0.003, .steps = EPOCHS * ls_loader_batches(loader)};
    ls_optimizer *optimizer = NULL;
    ls_program *program = NULL;
    float *images = malloc(sizeof *images * (size_t)(BATCH * rows * columns)), f32_rate;
    int32_t labels[BATCH];
    ls_status status = images ? ls_optimizer_create(s, p, &options, &optimizer) : LS_ERR_MEMORY;
    status = status == LS_OK ? ls_optimizer_step(s, optimizer, loss, rate) : status;
    status = status == LS_OK ? ls_program_compile(s, inputs, 3, &loss, 1, &program) : status; /* once */
    for (int64_t step = 0; step < schedule.steps && status == LS_OK; step++) {
        int64_t epoch = step / ls_loader_batches(loader), batch = step % ls_loader_batches(loader);
        ls_loader_get(loader, epoch, batch, 0.1f, 0.3f, images, labels);
        f32_rate = (float)ls_schedule_rate(&schedule, step);
        status = ls_program_run(program, (const void *[]){images, labels, &f32_rate}, (void *[]){out_loss});
        if (batch == 0 || step + 1 == schedule.steps) {
            printf("step %3d  loss %.4f\n", (int)step + 1, (double)*out_loss);
        }
    }
    ls_program_destroy(program);
    ls_optimizer_destroy(optimizer);
    free(images);
    return status;
}

int main(int argc, char **argv) {
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_session *s = NULL;
    ls_params *params = NULL;
    ls_loader *loader = NULL;
    ls_dataset set = {NULL, NULL}, test = {NULL, NULL};
    float loss = 0;
    char hash[65];
    if (ls_context_create(NULL, &context, &err) != LS_OK ||
        ls_session_create(context, NULL, &s, &err) != LS_OK ||
        (argc > 1 ? ls_dataset_idx(context, argv[1], &set, &test, &err) : draw(context, &set, &err)) !=
            LS_OK ||
        ls_loader_create(context, &set, BATCH, 1, 1, &loader, &err) != LS_OK ||
        ls_params_create(s, 1, &params) != LS_OK) {
        return fprintf(stderr, "%s\n", err.message), 1;
    }
    if (train(s, params, loader, &set, &loss) != LS_OK) {
        return fprintf(stderr, "%s\n", ls_session_error(s)->message), 1;
    }
    if (ls_params_save(s, params, "own.safetensors", &err) != LS_OK ||
        ls_params_sha256(s, params, hash, &err) != LS_OK) {
        return fprintf(stderr, "%s\n", err.message), 1;
    }
    printf("saved own.safetensors, weights %s\n", hash);
    ls_params_destroy(params), ls_loader_destroy(loader), ls_dataset_release(&set), ls_dataset_release(&test);
    ls_session_destroy(s), ls_context_destroy(context);
    return loss < 0.3f || argc > 1 ? 0 : 1;
}
