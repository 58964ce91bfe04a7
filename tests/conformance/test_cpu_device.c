/* The CPU device itself: what it refuses, memory that runs out, strategies, the host's rounding mode,
 * symbols. */
#include "conformance/cpu_cases.h"
#include "device/device.h"
#include "plan/plan.h"
#include "spec/spec.h"
#include <fenv.h>

static void refuses_what_it_cannot(void **state) {
    (void)state;
    ls_context *context;
    ls_device *device;
    ls_error err = {.code = LS_OK};
    ls_context_options options = {.isa = "avx1024"};
    assert_int_equal(ls_context_create(&options, &context, &err), LS_OK);
    assert_int_equal(ls_device_open(context, "cpu", &device, &err), LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "avx1024"));
    ls_context_destroy(context);
    err = (ls_error){.code = LS_OK};
    options = (ls_context_options){.threads = 1025};
    assert_int_equal(ls_context_create(&options, &context, &err), LS_ERR_INVALID);
    assert_string_equal(err.message, "threads is 1025, expected 0 to 1024");
    assert_null(context);
}

/* Convolution, pooling, softmax, sort, scatter and their gradients: every kind of phase. */
static int build_everything(ls_session *s, ls_rng *rng, ls_tensor **roots) {
    ls_conv_spec conv = {.spatial = 2, .pad_low = {1, 1}, .stride = {2, 1}};
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(2, 3, 9, 8)),
              *w = tame_tensor(s, rng, LS_F32, LS_SHAPE(4, 3, 3, 3));
    ls_tensor *y = ls_conv(s, x, w, NULL, &conv), *xs[] = {x, w};
    int32_t index[5] = {1, 0, 1, 1, 0};
    ls_tensor *at = ls_tensor_from(s, LS_I32, LS_SHAPE(5), index);
    roots[0] = ls_softmax(s, y, 3);
    assert_int_equal(ls_grad(s, roots[0], NULL, 2, xs, &roots[1]), LS_OK);
    roots[3] = ls_argsort(s, x, 2, 1);
    roots[4] = ls_scan(s, x, LS_SCAN_SUM, 3, 1, 0);
    roots[5] = ls_scatter(s, x, at, tame_tensor(s, rng, LS_F32, LS_SHAPE(5, 3, 9, 8)), 0, LS_SCATTER_ADD);
    roots[6] = ls_argmax(s, x, 1, (int[]){3}, 0);
    return 7;
}

static ls_heap *heap_of(world *w) {
    return w->device->heap;
}

/* Compiles every kernel with each allocation failing in turn: an error, and nothing leaks. Launches allocate
 * nothing. */
static void memory_that_runs_out(void **state) {
    (void)state;
    world w = world_open_with("cpu", 2, NULL);
    ls_rng rng = {1, 0};
    ls_tensor *roots[MAX_ROOTS];
    int n = build_everything(w.session, &rng, roots), kernels = 0;
    ls_heap heap;
    ls_arena arena;
    ls_plan plan;
    ls_error err = {.code = LS_OK};
    ls_heap_init(&heap, NULL, 0);
    ls_arena_init(&arena, &heap);
    assert_int_equal(ls_plan_build(&arena, roots, n, 1, &plan, &err), LS_OK);
    for (int g = 0; g < plan.n_groups; g++) {
        const ls_group *group = &plan.groups[g];
        ls_spec spec;
        ls_kernel_binary *binary = NULL;
        ls_buffer *args[64];
        size_t offsets[64] = {0};
        if (group->kind == LS_GROUP_COPY) {
            continue;
        }
        assert_int_equal(ls_spec_build(&arena, group, &spec, &err), LS_OK);
        assert_true(spec.n_args <= 64);
        for (int i = 0; i < spec.n_args; i++) {
            ls_tensor *t = i < group->n_reads ? group->reads[i] : group->roots[i - group->n_reads];
            if (!t->value) {
                size_t size = (size_t)spec.args[i].numel * ls_dtype_size(spec.args[i].dtype);
                assert_int_equal(ls_buffer_create(w.device, size, &t->value, &err), LS_OK);
            }
            args[i] = t->value;
        }
        for (long fail = 0;; fail++) {
            size_t used = atomic_load(&heap_of(&w)->used);
            err.code = LS_OK;
            atomic_store(&heap_of(&w)->fail_after, fail);
            ls_status status = w.device->backend->compile(w.device, &spec, NULL, &binary, &err);
            bool failed = atomic_load(&heap_of(&w)->fail_after) < 0;
            atomic_store(&heap_of(&w)->fail_after, -1);
            if (status == LS_OK) {
                assert_false(failed);
                break;
            }
            assert_int_equal(status, LS_ERR_MEMORY);
            /* The device's scratch may have grown before: nothing else stays. */
            assert_true(atomic_load(&heap_of(&w)->used) >= used);
            assert_true(fail < 1000);
        }
        ls_launch launch = {.n_args = spec.n_args, .args = args, .offsets = offsets};
        atomic_store(&heap_of(&w)->fail_after, 0);
        assert_int_equal(w.device->backend->launch(w.device, binary, &launch, &err), LS_OK);
        assert_true(atomic_load(&heap_of(&w)->fail_after) <= 0); /* packed operands are kept where there is memory */
        atomic_store(&heap_of(&w)->fail_after, -1);
        ls_text text;
        ls_text_init(&text, &heap);
        w.device->backend->describe(binary, &text);
        assert_non_null(strstr(text.data, "phase 0"));
        ls_text_free(&text);
        w.device->backend->destroy(w.device, binary);
        kernels++;
    }
    assert_true(kernels >= 7);
    ls_arena_free(&arena);
    world_close(&w);
}

static void strategies(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_rng rng = {2, 0};
    ls_tensor *y = ls_matmul(w.session, tame_tensor(w.session, &rng, LS_F32, LS_SHAPE(33, 700)),
                             tame_tensor(w.session, &rng, LS_F32, LS_SHAPE(700, 21)));
    ls_tensor *a[] = {y};
    ls_heap heap;
    ls_arena arena;
    ls_plan plan;
    ls_spec spec;
    ls_error err = {.code = LS_OK};
    ls_heap_init(&heap, NULL, 0);
    ls_arena_init(&arena, &heap);
    assert_int_equal(ls_plan_build(&arena, a, 1, 1, &plan, &err), LS_OK);
    const ls_group *group = &plan.groups[plan.n_groups - 1];
    assert_int_equal(ls_spec_build(&arena, group, &spec, &err), LS_OK);
    static const char *const names[] = {"naive", "tiled"};
    float *got[2];
    ls_buffer *args[8];
    size_t offsets[8] = {0};
    for (int i = 0; i < spec.n_args; i++) {
        ls_tensor *t = i < group->n_reads ? group->reads[i] : group->roots[i - group->n_reads];
        if (i < group->n_reads) {
            world_ok(&w, ls_realize(w.session, &t, 1));
            args[i] = t->value;
        } else {
            assert_int_equal(ls_buffer_create(w.device, 33 * 21 * 4, &args[i], &err), LS_OK);
        }
    }
    for (int i = 0; i < 2; i++) {
        ls_kernel_binary *binary;
        assert_int_equal(w.device->backend->compile(w.device, &spec, names[i], &binary, &err), LS_OK);
        ls_launch launch = {.n_args = spec.n_args, .args = args, .offsets = offsets};
        assert_int_equal(w.device->backend->launch(w.device, binary, &launch, &err), LS_OK);
        got[i] = malloc(33 * 21 * 4);
        memcpy(got[i], args[spec.n_args - 1]->handle, 33 * 21 * 4);
        memset(args[spec.n_args - 1]->handle, 0xff, 33 * 21 * 4);
        w.device->backend->destroy(w.device, binary);
    }
    assert_memory_equal(got[0], got[1], 33 * 21 * 4);
    ls_kernel_binary *binary;
    assert_int_equal(w.device->backend->compile(w.device, &spec, "matrix", &binary, &err),
                     LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "naive"));
    free(got[0]);
    free(got[1]);
    ls_buffer_release(args[spec.n_args - 1]);
    ls_arena_free(&arena);
    world_close(&w);
}

/* Rounding upwards and flushing subnormals on the host changes no bit. */
static void host_numerics(void **state) {
    (void)state;
    uint32_t want[2000], got[2000];
    for (int turn = 0; turn < 2; turn++) {
        world w = world_open_with("cpu", 2, NULL);
        ls_rng rng = {3, 0};
        ls_tensor *x = tame_tensor(w.session, &rng, LS_F32, LS_SHAPE(2000)),
                  *tiny = ls_full(w.session, LS_F32, LS_SHAPE(1), 1e-39);
        ls_tensor *y =
            ls_add(w.session, ls_mul(w.session, x, tiny), ls_mul(w.session, ls_exp(w.session, x), tiny));
        fesetround(turn ? FE_UPWARD : FE_TONEAREST);
        ls_status status = ls_read(w.session, y, turn ? got : want, sizeof got);
        assert_int_equal(fegetround(), turn ? FE_UPWARD : FE_TONEAREST);
        fesetround(FE_TONEAREST);
        world_ok(&w, status);
        world_close(&w);
    }
    assert_memory_equal(got, want, sizeof got);
}

/* Extents that are symbols: fewer rows than the buffers have room for. */
static void symbols(void **state) {
    (void)state;
    float *results[2][2];
    static const char *const ids[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        world w = world_open_with(ids[d], 3, NULL);
        ls_error err;
        ls_symbol *rows = ls_symbol_create(w.context, "rows", 40, &err);
        ls_rng rng = {4, 0};
        ls_shape shape = {.rank = 2, .dim = {ls_dim_symbol(rows, 1, 0), ls_dim_of(37)}};
        float data[40 * 37];
        fill_data(&rng, LS_F32, data, 40 * 37);
        ls_tensor *x = ls_input(w.session, "x", LS_F32, shape),
                  *m = tame_tensor(w.session, &rng, LS_F32, LS_SHAPE(37, 20));
        ls_tensor *outs[] = {ls_softmax(w.session, ls_matmul(w.session, x, m), 1),
                             ls_sum(w.session, x, 1, (int[]){0}, 0)};
        ls_program *program;
        world_ok(&w, ls_program_compile(w.session, &x, 1, outs, 2, &program));
        for (int n = 0; n < 2; n++) {
            int64_t count = n ? 40 : 11;
            results[d][n] = calloc(40 * 20 + 37, sizeof(float));
            world_ok(&w, ls_symbol_bind(w.session, rows, count));
            const void *in[] = {data};
            void *out[] = {results[d][n] + 37, results[d][n]};
            world_ok(&w, ls_program_run(program, in, out));
        }
        ls_program_destroy(program);
        world_close(&w);
    }
    for (int n = 0; n < 2; n++) {
        assert_memory_equal(results[1][n], results[0][n], (37 + (n ? 40 : 11) * 20) * sizeof(float));
        free(results[0][n]);
        free(results[1][n]);
    }
}

/* A training step whose batch is a symbol, at several batches. */
static void symbolic_batch(void **state) {
    (void)state;
    enum { BOUND = 6, PIXELS = 2 * 10 * 11, FILTER = 3 * 2 * 3 * 3, WEIGHTS = 4 * 3 * 4 * 4, ROOM = FILTER + WEIGHTS + 1 };
    static const int64_t batches[] = {1, 4, BOUND};
    float results[2][3][ROOM];
    static const char *const ids[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        world w = world_open_with(ids[d], 2, NULL);
        ls_session *s = w.session;
        ls_error err;
        ls_symbol *batch = ls_symbol_create(w.context, "batch", BOUND, &err);
        ls_rng rng = {5, 0};
        float data[BOUND * PIXELS];
        int32_t labels[BOUND];
        fill_data(&rng, LS_F32, data, BOUND * PIXELS);
        for (int i = 0; i < BOUND * PIXELS; i++) {
            data[i] = data[i] > -9 && data[i] < 9 ? data[i] : 0.5f;
        }
        for (int i = 0; i < BOUND; i++) {
            labels[i] = i % 4;
        }
        ls_shape shape = {.rank = 4, .dim = {ls_dim_symbol(batch, 1, 0), ls_dim_of(2), ls_dim_of(10), ls_dim_of(11)}};
        ls_shape rows = {.rank = 1, .dim = {ls_dim_symbol(batch, 1, 0)}};
        ls_shape flat = {.rank = 2, .dim = {ls_dim_symbol(batch, 1, 0), ls_dim_of(48)}};
        ls_tensor *inputs[] = {ls_input(s, "x", LS_F32, shape), ls_input(s, "y", LS_I32, rows)};
        ls_tensor *filter = tame_tensor(s, &rng, LS_F32, LS_SHAPE(3, 2, 3, 3));
        ls_tensor *weights = tame_tensor(s, &rng, LS_F32, LS_SHAPE(4, 48)), *xs[] = {filter, weights}, *outs[3];
        ls_conv_spec conv = {.spatial = 2}, pool = {.spatial = 2, .stride = {2, 2}};
        ls_tensor *h = ls_max_pool(s, ls_relu(s, ls_conv(s, inputs[0], filter, NULL, &conv)), (int64_t[]){2, 2}, &pool);
        outs[0] = ls_cross_entropy(s, ls_linear(s, ls_reshape(s, h, flat), weights, NULL), inputs[1]);
        world_ok(&w, outs[0] ? LS_OK : LS_ERR_INVALID);
        world_ok(&w, ls_grad(s, outs[0], NULL, 2, xs, &outs[1]));
        ls_program *program;
        world_ok(&w, ls_program_compile(s, inputs, 2, outs, 3, &program));
        for (int n = 0; n < 3; n++) {
            float *r = results[d][n];
            world_ok(&w, ls_symbol_bind(s, batch, batches[n]));
            world_ok(&w, ls_program_run(program, (const void *[]){data, labels}, (void *[]){r, r + 1, r + 1 + FILTER}));
        }
        ls_program_destroy(program);
        world_close(&w);
    }
    for (int n = 0; n < 3; n++) {
        assert_memory_equal(results[1][n], results[0][n], sizeof results[0][n]);
    }
    assert_memory_not_equal(results[1][0], results[1][1], sizeof results[0][0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(refuses_what_it_cannot),
                                       cmocka_unit_test(memory_that_runs_out), cmocka_unit_test(strategies),
                                       cmocka_unit_test(host_numerics), cmocka_unit_test(symbols),
                                       cmocka_unit_test(symbolic_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
