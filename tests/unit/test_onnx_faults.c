/* Models: every allocation fails once, from loading to states, shared weights and parameters. No leak, no crash, no half-made thing kept: what is
 * run afterwards gives the bits that it gave before. */
#define _GNU_SOURCE
#include "onnx_bed.h"
#include "engine/session.h"
#include <lockstep/nn.h>

enum { RUNS = 3, ROWS = 1 + 2 + 3, NUMBERS = 4 * (ROWS + 3 + 1) };

/* t = s, then tanh(x * w): a cache that grows; y = its sum over rows. */
static ls_data *growing(bed *b) {
    ls_data *file;
    size_t size;
    INPUT(b->g, value("x", tensor_type(ONNX_FLOAT, NULL)));
    INPUT(b->g, value("s", tensor_type(ONNX_FLOAT, NULL)));
    PUSH(b->g->initializer, b->g->n_initializer, floats("w", 4));
    add_node(b->g, "Mul", "x w", "a");
    add_node(b->g, "Tanh", "a", "c");
    attribute(add_node(b->g, "Concat", "s c", "t"), "axis", ATTR(INT))->i = 0;
    attribute(add_node(b->g, "ReduceSum", "t", "y"), "keepdims", ATTR(INT))->i = 0;
    OUTPUT(b->g, value("y", NULL));
    OUTPUT(b->g, value("t", NULL));
    uint8_t *bytes = pack(&b->m->base, &size);
    world_ok(&b->w, ls_data_create(b->w.context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, NULL));
    return file;
}

typedef struct made {
    ls_context *context;
    ls_session *session[2];
    ls_model *model;
    ls_runner *runner[2];
    ls_params *params;
    float *out;
} things;

static ls_status keep(things *m, const ls_data *data) {
    memcpy(m->out, ls_data_bytes(data), ls_data_size(data));
    m->out += ls_data_numel(data);
    return LS_OK;
}

/* Two runners that share weights, each with a state on the device; the second one's last state is read, its y's are not kept. */
static ls_status run_states(things *m, ls_device *device, const ls_data *none, const ls_data *x) {
    ls_status status = LS_OK;
    ls_error err = {0};
    for (int i = 0; i < 2 && status == LS_OK; i++) {
        status = ls_session_create(m->context, device, &m->session[i], &err);
        status = status == LS_OK ? ls_runner_create(m->session[i], m->model, &m->runner[i]) : status;
        status = status == LS_OK ? ls_runner_bind_state(m->runner[i], "t", "s", none) : status;
        for (int k = 0; k < RUNS && status == LS_OK; k++) {
            ls_data *out[2];
            status = ls_runner_run(m->runner[i], 1, &(ls_named_data){"x", x}, out);
            if (status == LS_OK) {
                status = i == 0 ? keep(m, out[0]) : LS_OK;
                ls_data_release(out[0]);
            }
        }
    }
    ls_data *state = NULL;
    status = status == LS_OK ? ls_runner_read_state(m->runner[1], "s", &state) : status;
    status = status == LS_OK ? keep(m, state) : status;
    ls_data_release(state);
    return status;
}

static ls_status build_params(things *m, const ls_data *none, const ls_data *x) {
    ls_session *s = m->session[0];
    ls_tensor *in[2], *out[2];
    ls_data *y = NULL;
    ls_status status = ls_params_create(s, 1, &m->params);
    if (status == LS_OK) {
        in[0] = ls_data_to_tensor(s, x);
        in[1] = ls_data_to_tensor(s, none);
        status = in[0] && in[1] ? ls_model_build_params(s, m->model, m->params, NULL, NULL, 2, in, 2, out) : LS_ERR_MEMORY;
    }
    status = status == LS_OK ? ls_data_from_tensor(s, out[0], &y) : status;
    status = status == LS_OK ? keep(m, y) : status;
    ls_data_release(y);
    return status;
}

static ls_status everything(bed *b, ls_data *file, const ls_data *none, const ls_data *x, float *out) {
    ls_error err = {0};
    things m = {.context = b->w.context, .out = out};
    ls_status status = ls_model_load_data(m.context, "growing.onnx", file, &m.model, &err);
    status = status == LS_OK ? run_states(&m, b->w.device, none, x) : status;
    status = status == LS_OK ? build_params(&m, none, x) : status;
    ls_params_destroy(m.params);
    for (int i = 0; i < 2; i++) {
        ls_runner_destroy(m.runner[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (m.session[i]) {
            ls_session_destroy(m.session[i]);
        }
    }
    ls_model_release(m.model);
    return status;
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    bed b = bed_open(21);
    ls_data *file = growing(&b), *none, *x;
    float expected[NUMBERS] = {0}, out[NUMBERS];
    world_ok(&b.w, ls_data_create(b.w.context, LS_F32, 2, (const int64_t[]){0, 4}, NULL, &none, NULL));
    world_ok(&b.w, ls_data_create(b.w.context, LS_F32, 2, (const int64_t[]){1, 4}, (const float[]){0.25f, -0.5f, 1, 2}, &x, NULL));
    assert_int_equal(everything(&b, file, none, x, expected), LS_OK);
    assert_true(expected[0] != 0);
    long n = 0, failed = 0;
    for (bool more = true; more; n++) {
        atomic_store(&b.w.context->heap.fail_after, n);
        ls_status status = everything(&b, file, none, x, out);
        more = atomic_load(&b.w.context->heap.fail_after) < 0; /* it was reached */
        atomic_store(&b.w.context->heap.fail_after, -1);
        failed += status != LS_OK;
        if (more && status != LS_ERR_MEMORY && status != LS_OK) { /* OK: something optional went without */
            fail_msg("allocation %ld: %s", n, ls_status_name(status));
        }
        if (status == LS_OK) {
            assert_memory_equal(out, expected, sizeof out);
        }
        if (n % 32 == 0) {
            memset(out, 0, sizeof out);
            assert_int_equal(everything(&b, file, none, x, out), LS_OK);
            assert_memory_equal(out, expected, sizeof out);
        }
    }
    if (n < 500 || failed < n / 2) { /* a second program with a symbol is an attempt: what fails there goes without */
        fail_msg("of %ld allocations %ld fail", n, failed);
    }
    ls_data_release(file);
    ls_data_release(none);
    ls_data_release(x);
    bed_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_fails_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
