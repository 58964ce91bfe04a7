/* Models of tests/onnx and tests/slow, run on devices. */
#ifndef LOCKSTEP_TESTS_ONNX_RUNNING_H
#define LOCKSTEP_TESTS_ONNX_RUNNING_H

#include "support/world.h"
#include <lockstep/data.h>
#include <lockstep/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of ../shared/models or $LOCKSTEP_ONNX_MODELS; skips the test when it is not there. */
static inline const char *model_path(const char *name) {
    static char path[1024];
    const char *folder = getenv("LOCKSTEP_ONNX_MODELS");
    snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : "../shared/models", name);
    if (access(path, R_OK) != 0) {
        print_message("no %s; LOCKSTEP_ONNX_MODELS names their folder\n", path);
        skip();
    }
    return path;
}

typedef struct running {
    world w;
    ls_model *model;
    ls_runner *runner;
} running;

static inline running start_with(const char *device, const char *isa, const char *name) {
    running r = {.w = {0}};
    ls_error err = {.code = LS_OK};
    const char *path = model_path(name);
    r.w = world_open_with(device, 1, isa); /* thread: the models are small */
    if (ls_model_load(r.w.context, path, &r.model, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    world_ok(&r.w, ls_runner_create(r.w.session, r.model, &r.runner));
    return r;
}

static inline running start(const char *device, const char *name) {
    return start_with(device, NULL, name);
}

static inline void stop(running *r) {
    ls_runner_destroy(r->runner);
    ls_model_release(r->model);
    world_close(&r->w);
}

static inline ls_data *array(const world *w, ls_dtype dtype, int rank, const int64_t *dims,
                             const void *bytes) {
    ls_data *data = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_data_create(w->context, dtype, rank, dims, bytes, &data, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    return data;
}

/* The same arrays into a model on two devices; every output has the same bits. */
static inline void run_both(const char *name, int n, const ls_named_data *inputs, running *first,
                            running *second, ls_data **out) {
    ls_data *other[16] = {NULL};
    int n_out = ls_model_output_count(first->model);
    assert_in_range(n_out, 1, 16);
    world_ok(&first->w, ls_runner_run(first->runner, n, inputs, out));
    world_ok(&second->w, ls_runner_run(second->runner, n, inputs, other));
    for (int i = 0; i < n_out; i++) {
        ls_report report;
        LS_ASSERT_SAME(out[i], other[i], &report, fail_msg("%s, output %d: %s", name, i, report.message));
        ls_data_release(other[i]);
    }
}

/* The residual block of the Polygraphy tests: its one output on a made-up image. */
static inline void run_residual_block(running first, running second) {
    ls_model_port port = ls_model_input(first.model, 0);
    int64_t dims[LS_MAX_RANK], count = 1;
    for (int i = 0; i < port.rank; i++) {
        dims[i] = port.dims[i] < 0 ? 1 : port.dims[i];
        count *= dims[i];
    }
    float *x = malloc(sizeof *x * (size_t)count);
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(i * 7919 % 1009) / 504.0f - 1;
    }
    ls_data *image = array(&first.w, LS_F32, port.rank, dims, x), *out[16] = {NULL};
    free(x);
    run_both("residual block", 1, &(ls_named_data){port.name, image}, &first, &second, out);
    assert_true(ls_data_numel(out[0]) > 0);
    ls_data_release(image);
    ls_data_release(out[0]);
    stop(&first);
    stop(&second);
}
#define RESIDUAL_BLOCK "polygraphy-residual-block.onnx"

#endif
