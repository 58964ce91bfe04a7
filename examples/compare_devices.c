/* Computes one network on two devices and compares the results bit by bit.
 *
 *     compare_devices [A B]     default: cpu ref (the reference, which runs kernels in the contract's order)
 *
 * Ends with 0 when they are the same, 1 when not, and then says where. */
#include <lockstep/lockstep.h>
#include <stdio.h>

static ls_tensor *attention_block(ls_session *s, ls_params *p, ls_tensor *x) {
    ls_shape heads = LS_SHAPE(2, 10, 4, 8);
    const int axes[] = {0, 2, 1, 3};
    ls_tensor *q = ls_permute(s, ls_reshape(s, ls_nn_linear(s, p, "q", x, 32), heads), axes);
    ls_tensor *k = ls_permute(s, ls_reshape(s, ls_nn_linear(s, p, "k", x, 32), heads), axes);
    ls_tensor *v = ls_permute(s, ls_reshape(s, ls_nn_linear(s, p, "v", x, 32), heads), axes);
    ls_attention_spec spec = {.causal = 1};
    ls_tensor *mixed =
        ls_reshape(s, ls_permute(s, ls_attention(s, q, k, v, &spec), axes), LS_SHAPE(2, 10, 32));
    x = ls_nn_layer_norm(s, p, "norm", ls_add(s, x, mixed));
    return ls_add(s, x, ls_nn_linear(s, p, "down", ls_gelu(s, ls_nn_linear(s, p, "up", x, 64)), 32));
}

/* The same seed makes the same weights and inputs wherever it runs. */
static ls_data *run_on(ls_context *context, const char *id) {
    ls_error err = {.code = LS_OK};
    ls_device *device = NULL;
    ls_session *s = NULL;
    ls_params *params = NULL;
    ls_data *result = NULL;
    if (ls_device_open(context, id, &device, &err) != LS_OK ||
        ls_session_create(context, device, &s, &err) != LS_OK) {
        fprintf(stderr, "%s: %s\n", id, err.message);
        return NULL;
    }
    if (ls_params_create(s, 7, &params) == LS_OK) {
        ls_tensor *x = ls_random_normal(s, ls_random_key(s, 1), LS_SHAPE(2, 10, 32), LS_F32);
        if (ls_data_from_tensor(s, attention_block(s, params, x), &result) != LS_OK) {
            fprintf(stderr, "%s: %s\n", id, ls_session_error(s)->message);
        }
    }
    ls_params_destroy(params);
    ls_session_destroy(s); /* the result lives on */
    return result;
}

int main(int argc, char **argv) {
    const char *a = argc == 3 ? argv[1] : "cpu", *b = argc == 3 ? argv[2] : "ref";
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_report report;
    char hash[65];
    int code = 2;
    if (ls_context_create(NULL, &context, &err) != LS_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    ls_data *x = run_on(context, a), *y = x ? run_on(context, b) : NULL;
    if (y) {
        code = ls_compare(x, y, &report) == LS_SAME ? 0 : 1;
        ls_data_sha256(x, hash);
        printf("%s  %s\n", hash, a);
        ls_data_sha256(y, hash);
        printf("%s  %s\n", hash, b);
        printf("%d elements: %s\n", (int)report.elements, code ? report.message : "the same bits");
    }
    ls_data_release(x);
    ls_data_release(y);
    ls_context_destroy(context);
    return code;
}
