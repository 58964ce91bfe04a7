/* web_data digits FOLDER OUT: the digits of ls_dataset_digits, in its order, as MNIST's four IDX files.
 * web_data weights NETWORK IN OUT: the weights alone, of a file that `lockstep train --save` wrote. */
#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int fail(const ls_error *err) {
    fprintf(stderr, "web_data: %s\n", err->message);
    return 1;
}

/* An IDX file of bytes: two zeros, the code of u8, the rank, the extents big-endian, the elements. */
static int write_idx(const char *folder, const char *part, const char *what, const ls_data *data) {
    char path[1024];
    int rank = ls_data_rank(data);
    if (snprintf(path, sizeof path, "%s/%s-%s-idx%d-ubyte", folder, part, what, rank) >= (int)sizeof path) {
        fprintf(stderr, "web_data: %.64s...: the path is too long\n", folder);
        return 1;
    }
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        return 1;
    }
    const unsigned char magic[4] = {0, 0, 8, (unsigned char)rank};
    int bad = fwrite(magic, 1, 4, file) != 4;
    for (int i = 0; i < rank; i++) {
        int64_t n = ls_data_dims(data)[i];
        const unsigned char extent[4] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
                                         (unsigned char)(n >> 8), (unsigned char)n};
        bad |= fwrite(extent, 1, 4, file) != 4;
    }
    bad |= fwrite(ls_data_bytes(data), 1, ls_data_size(data), file) != ls_data_size(data);
    bad |= fclose(file) != 0;
    if (bad) {
        fprintf(stderr, "web_data: %s cannot be written\n", path);
    }
    return bad;
}

static int digits(ls_context *context, const char *folder, const char *out) {
    ls_dataset train, test;
    ls_error err = {.code = LS_OK};
    if (ls_dataset_digits(context, folder, &train, &test, &err) != LS_OK) {
        return fail(&err);
    }
    int bad = write_idx(out, "train", "images", train.images) ||
              write_idx(out, "train", "labels", train.labels) ||
              write_idx(out, "t10k", "images", test.images) || write_idx(out, "t10k", "labels", test.labels);
    ls_dataset_release(&train);
    ls_dataset_release(&test);
    return bad;
}

static ls_status load(ls_session *s, ls_params *params, const char *network, const char *in, ls_error *err) {
    if (ls_scope_begin(s) != LS_OK ||
        !ls_nn_network(s, params, network, ls_input(s, "images", LS_F32, LS_SHAPE(1, 1, 28, 28)))) {
        *err = *ls_session_error(s);
        return err->code;
    }
    ls_scope_end(s);
    return ls_params_load(s, params, in, err);
}

static int weights(ls_context *context, const char *network, const char *in, const char *out) {
    ls_session *s = NULL;
    ls_params *params = NULL;
    ls_error err = {.code = LS_OK};
    ls_status status = ls_session_create(context, NULL, &s, &err);
    if (status == LS_OK && (status = ls_params_create(s, 0, &params)) != LS_OK) {
        err = *ls_session_error(s);
    }
    status = status == LS_OK ? load(s, params, network, in, &err) : status;
    status = status == LS_OK ? ls_params_save(s, params, out, &err) : status;
    ls_params_destroy(params);
    ls_session_destroy(s);
    return status == LS_OK ? 0 : fail(&err);
}

int main(int argc, char **argv) {
    ls_context *context = NULL;
    ls_error err = {.code = LS_OK};
    bool of_digits = argc == 4 && strcmp(argv[1], "digits") == 0,
         of_weights = argc == 5 && strcmp(argv[1], "weights") == 0;
    if (!of_digits && !of_weights) {
        fprintf(stderr, "usage: web_data digits FOLDER OUT | web_data weights NETWORK IN OUT\n");
        return 2;
    }
    if (ls_context_create(NULL, &context, &err) != LS_OK) {
        return fail(&err);
    }
    int code = of_digits ? digits(context, argv[2], argv[3]) : weights(context, argv[2], argv[3], argv[4]);
    ls_context_destroy(context);
    return code;
}
