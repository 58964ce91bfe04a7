/* Trains a classifier from an ONNX file further, on images of your own, and writes it as an ONNX file with the new weights.
 *
 *     finetune_onnx MODEL.onnx FOLDER [OUTPUT.onnx]     FOLDER: four IDX files, named as MNIST names them
 *
 * The model takes images [N,1,rows,columns] and gives a score for each class. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32, STEPS = 200, MOST = 1024 };

/* The model's scores of a batch of images; the first call makes the parameters. */
static ls_tensor *scores(ls_session *s, ls_model *model, ls_params *params, ls_tensor *x) {
    ls_tensor *y = NULL;
    return ls_model_build_params(s, model, params, NULL, NULL, 1, &x, 1, &y) == LS_OK ? y : NULL;
}

static ls_status train(ls_session *s, ls_model *model, ls_params *params, ls_loader *loader, const int64_t *dims, float *out_first, float *out_last) {
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(BATCH, 1, dims[1], dims[2])), *labels = ls_input(s, "labels", LS_I32, LS_SHAPE(BATCH));
    ls_tensor *rate = ls_input(s, "rate", LS_F32, LS_SCALAR), *inputs[] = {x, labels, rate};
    ls_tensor *loss = ls_cross_entropy(s, scores(s, model, params, x), labels);
    float *images = malloc(sizeof *images * (size_t)(BATCH * dims[1] * dims[2])), at = 0.001f;
    int32_t classes[BATCH];
    ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    ls_optimizer *optimizer = NULL;
    ls_program *program = NULL;
    ls_status status = images ? ls_optimizer_create(s, params, &options, &optimizer) : LS_ERR_MEMORY;
    status = status == LS_OK ? ls_optimizer_step(s, optimizer, loss, rate) : status;
    status = status == LS_OK ? ls_program_compile(s, inputs, 3, &loss, 1, &program) : status;
    for (int64_t i = 0; i < STEPS && status == LS_OK; i++) {
        ls_loader_get(loader, i / ls_loader_batches(loader), i % ls_loader_batches(loader), 0.1307f, 0.3081f, images, classes);
        status = ls_program_run(program, (const void *[]){images, classes, &at}, (void *[]){out_last});
        *out_first = i == 0 ? *out_last : *out_first;
    }
    ls_program_destroy(program);
    ls_optimizer_destroy(optimizer);
    free(images);
    return status;
}

/* For any number of images: the batch is a symbol, and a dimension "batch" of the file. */
static ls_status save(ls_session *s, ls_model *model, ls_params *params, const int64_t *dims, const char *path, ls_error *err) {
    ls_symbol *batch = ls_symbol_create(ls_session_context(s), "batch", MOST, err);
    ls_shape shape = {.rank = 4, .dim = {ls_dim_symbol(batch, 1, 0), ls_dim_of(1), ls_dim_of(dims[1]), ls_dim_of(dims[2])}};
    ls_named_tensor x = {"x", ls_input(s, "x", LS_F32, shape)}, y = {"scores", scores(s, model, params, x.tensor)};
    return ls_onnx_save(s, path, 1, &x, 1, &y, err);
}

int main(int argc, char **argv) {
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_session *s = NULL;
    ls_model *model = NULL;
    ls_params *params = NULL;
    ls_loader *loader = NULL;
    ls_dataset set = {NULL, NULL}, test = {NULL, NULL};
    float first = 0, last = 0;
    if (argc < 3) {
        return fprintf(stderr, "usage: finetune_onnx MODEL.onnx FOLDER [OUTPUT.onnx]\n"), 2;
    }
    ls_status status = ls_context_create(NULL, &context, &err);
    status = status == LS_OK ? ls_session_create(context, NULL, &s, &err) : status;
    status = status == LS_OK ? ls_model_load(context, argv[1], &model, &err) : status;
    status = status == LS_OK ? ls_dataset_idx(context, argv[2], &set, &test, &err) : status;
    status = status == LS_OK ? ls_loader_create(context, &set, BATCH, 1, 1, &loader, &err) : status;
    status = status == LS_OK ? ls_params_create(s, 1, &params) : status;
    status = status == LS_OK ? train(s, model, params, loader, ls_data_dims(set.images), &first, &last) : status;
    status = status == LS_OK ? save(s, model, params, ls_data_dims(set.images), argc > 3 ? argv[3] : "finetuned.onnx", &err) : status;
    if (status == LS_OK) {
        printf("%d parameters; loss %.4f, after %d steps %.4f\n", ls_params_count(params), (double)first, STEPS, (double)last);
    } else {
        fprintf(stderr, "%s\n", err.code != LS_OK || !s ? err.message : ls_session_error(s)->message);
    }
    ls_params_destroy(params), ls_loader_destroy(loader), ls_dataset_release(&set), ls_dataset_release(&test);
    ls_model_release(model), ls_session_destroy(s), ls_context_destroy(context);
    return status == LS_OK && last < first ? 0 : 1;
}
