/* A runner that met other extents gives what a new one gives: the same bits, or the same refusal. Models of one node, whose extent "n" is 0, 1 and
 * more, in an order that grows, shrinks and passes a stated bound. */
#define _GNU_SOURCE
#include "onnx/running.h"
#include "onnx/writer.h"
#include "gpu/internal.h"

enum { FLOAT = 1, INT64 = 7, N = -1, MOST = 4, STATED = 9 };

static char path[] = "/tmp/lockstep-extents-XXXXXX";

static const small_model MODELS[] = {
    {"Softmax", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {2, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"LogSoftmax", "", NULL, 13, 1, 1, {{"x", FLOAT, 3, {2, N, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"Hardmax", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {N, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"ArgMax", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {N, 3}}}, {{"y", INT64, 0, {0}}}},
    {"ArgMin", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {3, N}}}, {{"y", INT64, 0, {0}}}},
    {"ReduceMean", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {3, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"ReduceMax", "", NULL, 13, 1, 1, {{"x", FLOAT, 3, {N, 2, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"ReduceLogSumExp", "", NULL, 13, 1, 1, {{"x", FLOAT, 1, {N}}}, {{"y", FLOAT, 0, {0}}}},
    {"GlobalAveragePool", "", NULL, 13, 1, 1, {{"x", FLOAT, 4, {1, N, 2, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"GlobalAveragePool", "", NULL, 13, 1, 1, {{"x", FLOAT, 3, {2, 2, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"MatMul", "", NULL, 13, 2, 1, {{"a", FLOAT, 2, {2, N}}, {"b", FLOAT, 2, {N, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"MatMul", "", NULL, 13, 2, 1, {{"a", FLOAT, 3, {N, 2, 4}}, {"b", FLOAT, 3, {1, 4, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"MatMul", "", NULL, 13, 2, 1, {{"a", FLOAT, 3, {N, 2, 4}}, {"b", FLOAT, 3, {3, 4, 2}}}, {{"y", FLOAT, 0, {0}}}},
    {"Add", "", NULL, 13, 2, 1, {{"a", FLOAT, 2, {N, 3}}, {"b", FLOAT, 2, {4, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"Add", "", NULL, 13, 2, 1, {{"a", FLOAT, 2, {N, 1}}, {"b", FLOAT, 1, {N}}}, {{"y", FLOAT, 0, {0}}}},
    {"Where", "", NULL, 13, 3, 1, {{"c", 9, 1, {N}}, {"a", FLOAT, 2, {2, N}}, {"b", FLOAT, 1, {1}}}, {{"y", FLOAT, 0, {0}}}},
    {"Gather", "", NULL, 13, 2, 1, {{"x", FLOAT, 2, {N, 3}}, {"at", INT64, 1, {2}}}, {{"y", FLOAT, 0, {0}}}},
    {"GatherElements", "", NULL, 13, 2, 1, {{"x", FLOAT, 2, {N, 3}}, {"at", INT64, 2, {2, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"ArrayFeatureExtractor", "ai.onnx.ml", NULL, 1, 2, 1, {{"x", FLOAT, 2, {2, 4}}, {"at", INT64, 1, {N}}}, {{"y", FLOAT, 0, {0}}}},
    {"Expand", "", NULL, 13, 2, 1, {{"x", FLOAT, 2, {N, 1}}, {"to", INT64, 1, {2}}}, {{"y", FLOAT, 0, {0}}}},
    {"Reshape", "", NULL, 13, 2, 1, {{"x", FLOAT, 2, {N, 2}}, {"to", INT64, 1, {2}}}, {{"y", FLOAT, 0, {0}}}},
    {"Flatten", "", NULL, 13, 1, 1, {{"x", FLOAT, 3, {2, N, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"Squeeze", "", NULL, 13, 1, 1, {{"x", FLOAT, 3, {N, 1, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"Split", "", NULL, 13, 1, 2, {{"x", FLOAT, 2, {N, 3}}}, {{"y", FLOAT, 0, {0}}, {"z", FLOAT, 0, {0}}}},
    {"Trilu", "", NULL, 14, 1, 1, {{"x", FLOAT, 2, {N, 3}}}, {{"y", FLOAT, 0, {0}}}},
    {"Size", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {N, 3}}}, {{"y", INT64, 0, {0}}}},
    {"MeanVarianceNormalization", "", NULL, 13, 1, 1, {{"x", FLOAT, 4, {N, 2, 2, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"LpNormalization", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {2, N}}}, {{"y", FLOAT, 0, {0}}}},
    {"Attention", "", NULL, 23, 3, 1,
     {{"q", FLOAT, 4, {1, 2, 3, 4}}, {"k", FLOAT, 4, {1, 2, N, 4}}, {"v", FLOAT, 4, {1, 2, N, 4}}}, {{"y", FLOAT, 0, {0}}}},
    {"Attention", "", NULL, 23, 3, 1,
     {{"q", FLOAT, 4, {N, 2, N, 4}}, {"k", FLOAT, 4, {N, 2, N, 4}}, {"v", FLOAT, 4, {N, 2, N, 4}}}, {{"y", FLOAT, 0, {0}}}},
};

/* An input at an extent: floats of both signs, indices 0 and 1 in turn, flags. */
static ls_data *input_at(const world *w, const port *p, int64_t extent) {
    int64_t dims[LS_MAX_RANK] = {0}, count = 1;
    for (int i = 0; i < p->rank; i++) {
        dims[i] = p->dims[i] < 0 ? extent : p->dims[i];
        count *= dims[i];
    }
    ls_data *data = array(w, p->type == FLOAT ? LS_F32 : p->type == INT64 ? LS_I64 : LS_BOOL, p->rank, dims, NULL);
    void *bytes = (void *)ls_data_bytes(data);
    for (int64_t i = 0; i < count; i++) {
        if (p->type == FLOAT) {
            ((float *)bytes)[i] = (float)(i * 7919 % 1009) / 504.0f - 1;
        } else if (p->type == INT64) {
            ((int64_t *)bytes)[i] = i & 1;
        } else {
            ((uint8_t *)bytes)[i] = i % 3 == 0;
        }
    }
    return data;
}

/* Runs; a refusal gives its code and takes it out of the session. */
static ls_status run_one(world *w, ls_runner *r, int n, const ls_named_data *inputs, ls_data **out) {
    ls_status status = ls_runner_run(r, n, inputs, out);
    ls_session_clear_error(w->session);
    return status;
}

static void compare(world *w, const small_model *m, ls_model *model, ls_runner *old, int64_t extent) {
    ls_named_data inputs[3];
    ls_data *have[2] = {NULL}, *want[2] = {NULL};
    ls_runner *fresh;
    for (int i = 0; i < m->n_in; i++) {
        inputs[i] = (ls_named_data){m->in[i].name, input_at(w, &m->in[i], extent)};
    }
    world_ok(w, ls_runner_create(w->session, model, &fresh));
    ls_status a = run_one(w, old, m->n_in, inputs, have), b = run_one(w, fresh, m->n_in, inputs, want);
    if (a != b) {
        fail_msg("%s of extent %lld: status %d after other extents, %d alone", m->op, (long long)extent, a, b);
    }
    for (int i = 0; i < m->n_out && a == LS_OK; i++) {
        ls_report report;
        LS_ASSERT_SAME(want[i], have[i], &report, fail_msg("%s of extent %lld: %s", m->op, (long long)extent, report.message));
        ls_data_release(have[i]);
        ls_data_release(want[i]);
    }
    for (int i = 0; i < m->n_in; i++) {
        ls_data_release((ls_data *)inputs[i].data);
    }
    ls_runner_destroy(fresh);
}

static void sweep(const char *device, int orders_used) {
    static const int64_t orders[MOST][8] = {{4, 5, 7, 1, 0, 2, 3, 4}, {1, 2, 0, 6, 1, 4, 3, 12}, {0, 1, 2, 3, 0, 4, 8, 1}, {2, 1, 4, 0, 10, 3, 12, 1}};
    world w = world_open_with(device, 1, NULL);
    int symbolic = 0;
    for (size_t k = 0; k < sizeof MODELS / sizeof *MODELS; k++) {
        small_model m = MODELS[k];
        ls_model *model;
        ls_error err = {.code = LS_OK};
        assert_true(write_model(path, &m));
        if (ls_model_load(w.context, path, &model, &err) != LS_OK) {
            fail_msg("%s: %s", m.op, err.message);
        }
        for (int o = 0; o < 2 * MOST; o += MOST / orders_used) {
            ls_runner *r;
            world_ok(&w, ls_runner_create(w.session, model, &r));
            if (o >= MOST) {
                world_ok(&w, ls_runner_set_bound(r, "n", STATED));
            }
            for (int i = 0; i < 8; i++) {
                compare(&w, &m, model, r, orders[o % MOST][i]);
            }
            symbolic += ls_runner_get_facts(r).symbolic;
            ls_runner_destroy(r);
        }
        ls_model_release(model);
    }
    world_close(&w);
    assert_true(symbolic > 20 * orders_used);
}

static void test_device(void **state) {
    (void)state;
    sweep(world_device(), MOST);
}

static void test_ref(void **state) {
    (void)state;
    sweep("ref", 1);
}

/* An empty part of a concatenation, whose positions are told by division by its extent. */
static void test_division(void **state) {
    (void)state;
    static const char *const devices[2] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        world w = world_open_with(devices[d], 1, NULL);
        ls_session *s = w.session;
        ls_error err = {.code = LS_OK};
        ls_symbol *n = ls_symbol_create(w.context, "n", 16, &err);
        const ls_shape shape = {.rank = 2, .dim = {ls_dim_of(2), ls_dim_symbol(n, 1, 0)}}, line = {.rank = 1, .dim = {ls_dim_symbol(n, 2, 0)}};
        ls_tensor *x = ls_input(s, "x", LS_F32, shape), *tail = ls_iota(s, LS_F32, LS_SHAPE(12), 0);
        ls_tensor *flat = ls_reshape(s, ls_exp(s, x), line), *y = ls_concat(s, (ls_tensor *[]){flat, tail}, 2, 0);
        ls_program *p;
        world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &p));
        for (int64_t value = 2; value >= 0; value--) {
            const float zeros[4] = {0};
            float out[16];
            world_ok(&w, ls_symbol_bind(s, n, value));
            world_ok(&w, ls_program_run(p, (const void *[]){zeros}, (void *[]){out}));
            for (int i = 0; i < 2 * value + 12; i++) {
                assert_true(out[i] == (i < 2 * value ? 1 : (float)(i - 2 * value)));
            }
        }
        ls_program_destroy(p);
        world_close(&w);
    }
}

/* The sum of what an index finds in an array without elements: nothing is looked up, so nothing is out of range. */
static void test_empty_lookup(void **state) {
    (void)state;
    static const char *const devices[2] = {"cpu", "ref"};
    for (int d = 0; d < 2; d++) {
        world w = world_open_with(devices[d], 1, NULL);
        ls_session *s = w.session;
        const int axis = 0;
        float sum[3] = {1, 1, 1};
        ls_tensor *table = ls_input(s, "table", LS_F32, LS_SHAPE(0, 3)), *at = ls_input(s, "at", LS_I64, LS_SHAPE(0));
        ls_tensor *y = ls_sum(s, ls_gather(s, table, at, 0), 1, &axis, 0);
        ls_program *p;
        world_ok(&w, ls_program_compile(s, (ls_tensor *[]){table, at}, 2, &y, 1, &p));
        world_ok(&w, ls_program_run(p, (const void *[]){sum, sum}, (void *[]){sum}));
        assert_true(sum[0] == 0 && sum[1] == 0 && sum[2] == 0);
        ls_program_destroy(p);
        world_close(&w);
    }
}

/* A picture that is cut short is the same each time: black, as the decoder takes all of its pixels or none. */
static void test_short_picture(void **state) {
    (void)state;
    enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE };
    static const char head[] = "P6\n32 32\n255\nabc";
    world w = world_open("cpu");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(head, 1, strlen(head), f), strlen(head));
    assert_int_equal(fclose(f), 0);
    void *used[8]; /* what the decoder's memory may be next */
    for (int i = 0; i < 8; i++) {
        used[i] = malloc(PIXELS + 16 * (size_t)i);
        assert_non_null(used[i]);
        memset(used[i], 0xab, PIXELS);
    }
    for (int i = 0; i < 8; i++) {
        free(used[i]);
    }
    ls_data *picture = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_image_load(w.context, path, 3, &picture, &err) == LS_OK) {
        const uint8_t *pixels = ls_data_bytes(picture);
        for (int i = 0; i < PIXELS; i++) {
            assert_int_equal(pixels[i], 0);
        }
        ls_data_release(picture);
    } else {
        assert_int_equal(err.code, LS_ERR_FORMAT);
    }
    world_close(&w);
}

/* A state that the model's input does not allow is refused as an input is, and the run after that is the first again. */
static void test_states(void **state) {
    (void)state;
    const small_model m = {"Transpose", "", NULL, 13, 1, 1, {{"x", FLOAT, 2, {2, 3}}}, {{"y", FLOAT, 2, {3, 2}}}};
    world w = world_open("cpu");
    ls_model *model;
    ls_runner *r;
    ls_error err = {.code = LS_OK};
    ls_data *first = input_at(&w, &m.in[0], 0), *out, *now;
    assert_true(write_model(path, &m));
    assert_int_equal(ls_model_load(w.context, path, &model, &err), LS_OK);
    world_ok(&w, ls_runner_create(w.session, model, &r));
    world_ok(&w, ls_runner_bind_state(r, "y", "x", first));
    for (int i = 0; i < 2; i++) {
        world_ok(&w, ls_runner_run(r, 0, NULL, &out));
        assert_int_equal(ls_runner_run(r, 0, NULL, &out), LS_ERR_SHAPE);
        assert_non_null(strstr(ls_session_error(w.session)->message, "\"x\""));
        ls_session_clear_error(w.session);
        world_ok(&w, ls_runner_read_state(r, "x", &now));
        assert_ptr_equal(now, first);
        ls_data_release(now);
    }
    ls_runner_destroy(r);
    ls_model_release(model);
    ls_data_release(first);
    world_close(&w);
}

/* A stated bound whose tensors the device has no room for, found when it is compiled (`cpu`) or when it first runs (`sim`): each length by itself, with
 * the reason told. */
static void run_in_little_memory(world *w, int64_t bound, const char *reason) {
    const small_model *m = &MODELS[sizeof MODELS / sizeof *MODELS - 1];
    ls_model *model;
    ls_runner *r;
    ls_error err = {.code = LS_OK};
    assert_true(write_model(path, m));
    assert_int_equal(ls_model_load(w->context, path, &model, &err), LS_OK);
    world_ok(w, ls_runner_create(w->session, model, &r));
    world_ok(w, ls_runner_set_bound(r, "n", bound));
    for (int i = 4; i < 12; i++) {
        compare(w, m, model, r, i);
        assert_int_equal(ls_runner_get_facts(r).symbolic, i < 7 ? i - 3 : 4); /* tried four times */
    }
    assert_non_null(strstr(ls_runner_get_facts(r).fixed_because, reason));
    ls_runner_destroy(r);
    ls_model_release(model);
    world_close(w);
}

static void test_memory(void **state) {
    (void)state;
    ls_context_options options = {.threads = 1, .memory_limit = 64 << 20};
    ls_error err = {.code = LS_OK};
    world w = {.id = "cpu"};
    assert_int_equal(ls_context_create(&options, &w.context, &err), LS_OK);
    assert_int_equal(ls_session_create(w.context, NULL, &w.session, &err), LS_OK);
    run_in_little_memory(&w, 400, "memory"); /* scores of 400 * 2 * 400 * 400 elements */
    w = world_open("sim");
    ((ls_gpu *)w.device->state)->limits.max_binding = 1 << 16;
    run_in_little_memory(&w, 40, "takes at most 65536");
}

static int setup(void **state) {
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int teardown(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device), cmocka_unit_test(test_ref), cmocka_unit_test(test_division), cmocka_unit_test(test_short_picture), cmocka_unit_test(test_empty_lookup), cmocka_unit_test(test_states),
                                       cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
