/* A WebAssembly module for test_webgpu.mjs: the golden graphs and training steps of tests/golden/test_hashes.c, a network and the
 * device's own tests, each an export that may answer LS_ERR_AGAIN and is then called again with the same arguments. */
#define main hashes_main
#include "../golden/test_hashes.c"
#undef main
#include <lockstep/check.h>
#include "device/device.h"
#include "gpu/gpu.h"
#include "backend/webgpu/webgpu.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

static ls_context *context;
static ls_device *device;
static char text[2048];

static ls_status say(ls_status status, const char *message) {
    snprintf(text, sizeof text, "%s", message);
    return status;
}

/* What the last call had to say. */
const char *EXPORT(t_text)(void) {
    return text;
}

ls_status EXPORT(t_open)(void) {
    ls_error err = {0};
    ls_status status = context ? LS_OK : ls_context_create(NULL, &context, &err);
    if (status == LS_OK) {
        status = ls_device_open(context, "webgpu", &device, &err);
    }
    if (status != LS_OK) {
        return say(status, err.message);
    }
    const ls_caps *caps = ls_device_caps(device);
    snprintf(text, sizeof text, "%s (%s); done another way: %s", caps->name, caps->driver, caps->arithmetic);
    return LS_OK;
}

ls_status EXPORT(t_certify)(void) {
    ls_error err = {0};
    ls_status status = ls_device_certify(device, &err);
    return say(status, err.message);
}

void EXPORT(t_lose)(void) {
    ls_webgpu_lose(ls_gpu_driver(device->state));
}

int EXPORT(t_goldens)(void) {
    return sizeof goldens / sizeof *goldens;
}

static ls_status hash_of(ls_session *s, int i) {
    ls_data *data = NULL;
    char hex[65];
    if (goldens[i].build == doubles && !(ls_device_caps(device)->dtypes >> LS_F64 & 1)) {
        return say(LS_ERR_UNSUPPORTED, goldens[i].name);
    }
    ls_tensor *t = goldens[i].build(s);
    ls_status status = t ? ls_data_from_tensor(s, t, &data) : ls_session_error(s)->code;
    if (status != LS_OK) {
        snprintf(text, sizeof text, "%s: %s", goldens[i].name, ls_session_error(s)->message);
        return status;
    }
    ls_data_sha256(data, hex);
    ls_data_release(data);
    snprintf(text, sizeof text, "%s: %s, expected %s", goldens[i].name, hex, goldens[i].sha256);
    return strcmp(hex, goldens[i].sha256) == 0 ? LS_OK : LS_ERR_DIFFERS;
}

/* LS_ERR_DIFFERS where the hash is another. */
ls_status EXPORT(t_golden)(int i) {
    ls_session *s;
    ls_error err = {0};
    ls_status status = ls_session_create(context, device, &s, &err);
    if (status != LS_OK) {
        return say(status, err.message);
    }
    status = hash_of(s, i);
    ls_session_destroy(s);
    return status;
}

/* Conformance row `number` (check.h): LS_ERR_DIFFERS where it failed, LS_ERR_UNSUPPORTED where it was skipped. */
ls_status EXPORT(t_row)(int number) {
    ls_row_result row;
    ls_error err = {0};
    ls_status status = ls_conform_row(context, device, NULL, number, &row, &err);
    if (status != LS_OK) {
        return say(status, err.message);
    }
    snprintf(text, sizeof text, "%s: %s", row.name, row.message);
    return row.state == LS_CASE_PASSED ? LS_OK : row.state == LS_CASE_FAILED ? LS_ERR_DIFFERS : LS_ERR_UNSUPPORTED;
}

static void tell(void *user, const ls_case_result *result) {
    if (result->state == LS_CASE_FAILED && !*(int *)user) {
        *(int *)user = 1;
        snprintf(text, sizeof text, "%s: %s", result->name, result->message);
    }
}

/* Case `number` of the museum, or (planted) fault `number` in the case that must catch it: LS_OK where it does. */
ls_status EXPORT(t_museum)(int number, int planted) {
    ls_error err = {0};
    ls_case_totals totals;
    const char *name = NULL, *caught_by = NULL;
    int failed = 0;
    if (!(planted ? ls_museum_fault(number, &name, NULL, &caught_by) : ls_museum_case(number, &name, NULL))) {
        return say(LS_ERR_RANGE, "");
    }
    say(LS_OK, name);
    ls_status status = ls_museum_run(context, device, planted ? caught_by : name, planted ? name : NULL, tell, &failed, &totals, &err);
    if (status != LS_OK) {
        return say(status, err.message);
    }
    if (totals.passed + totals.failed == 0) {
        return LS_ERR_UNSUPPORTED;
    }
    return (totals.failed != 0) == (planted != 0) ? LS_OK : LS_ERR_DIFFERS;
}

/* ---- a network's logits: on the CPU, and on the GPU in either kind of arithmetic ---- */

enum { SIDE = 28, CLASSES = 10 };

typedef struct net {
    ls_session *session;
    ls_params *params;
    ls_program *program;
    float logits[CLASSES];
} net;
static net nets[3]; /* cpu, webgpu locked, webgpu fast */

static ls_status make(net *n, int which, ls_error *err) {
    ls_device *on = device;
    if (which == 0) {
        LS_TRY(err, ls_device_open(context, "cpu", &on, err));
    }
    if (!n->session) {
        LS_TRY(err, ls_session_create(context, on, &n->session, err));
        ls_session_set_math(n->session, which == 2 ? LS_FAST : LS_LOCKED);
    }
    if (!n->params) {
        LS_TRY(err, ls_params_create(n->session, 7, &n->params));
    }
    if (!n->program) {
        ls_tensor *x = ls_input(n->session, "x", LS_F32, LS_SHAPE(1, 1, SIDE, SIDE));
        ls_tensor *y = ls_nn_network(n->session, n->params, "mnist:cnn", x);
        ls_status status = ls_program_compile(n->session, &x, 1, &y, 1, &n->program);
        if (status != LS_OK) {
            return LS_FAIL(err, status, "%s", ls_session_error(n->session)->message);
        }
    }
    return LS_OK;
}

ls_status EXPORT(t_infer)(int which) {
    net *n = &nets[which];
    ls_error err = {0};
    float x[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        x[i] = (float)(i * 37 % 256) / 256;
    }
    ls_status status = make(n, which, &err);
    if (status != LS_OK) {
        return say(status, err.message);
    }
    const void *inputs[] = {x};
    void *outputs[] = {n->logits};
    status = ls_program_run(n->program, inputs, outputs);
    return say(status, status == LS_OK ? "" : ls_session_error(n->session)->message);
}

/* The largest difference from the CPU's logits. */
double EXPORT(t_difference)(int which) {
    double worst = 0;
    for (int i = 0; i < CLASSES; i++) {
        double d = (double)nets[which].logits[i] - (double)nets[0].logits[i];
        worst = d > worst ? d : -d > worst ? -d : worst == worst && d != d ? d : worst;
    }
    return worst;
}

/* ---- training: that of `trained` in tests/golden/test_hashes.c ---- */

enum { IMAGES = 4 };

static struct {
    ls_session *session;
    ls_params *params;
    ls_optimizer *optimizer;
    ls_program *program;
} training;

static void forget_training(void) {
    ls_program_destroy(training.program);
    ls_optimizer_destroy(training.optimizer);
    ls_params_destroy(training.params);
    ls_session_destroy(training.session);
    memset(&training, 0, sizeof training);
}

static ls_status build_training(ls_error *err) {
    LS_TRY(err, ls_session_create(context, device, &training.session, err));
    ls_session *s = training.session;
    ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    ls_tensor *in[3] = {ls_input(s, "images", LS_F32, LS_SHAPE(IMAGES, 1, SIDE, SIDE)), ls_input(s, "labels", LS_I32, LS_SHAPE(IMAGES)),
                        ls_input(s, "rate", LS_F32, LS_SCALAR)};
    ls_status status = ls_params_create(s, 5, &training.params);
    ls_tensor *y = NULL;
    if (status == LS_OK) {
        y = ls_cross_entropy(s, ls_nn_network(s, training.params, "mnist:small", in[0]), in[1]);
        status = ls_optimizer_create(s, training.params, &options, &training.optimizer);
    }
    status = status == LS_OK ? ls_optimizer_step(s, training.optimizer, y, in[2]) : status;
    status = status == LS_OK ? ls_program_compile(s, in, 3, &y, 1, &training.program) : status;
    return status == LS_OK ? LS_OK : LS_FAIL(err, status, "%s", ls_session_error(s)->message);
}

ls_status EXPORT(t_train_open)(void) {
    ls_error err = {0};
    forget_training();
    ls_status status = build_training(&err);
    return say(status, err.message);
}

ls_status EXPORT(t_train_step)(void) {
    float images[IMAGES * SIDE * SIDE], rate = 0.01f, loss = 0;
    int32_t labels[IMAGES] = {3, 1, 4, 1};
    for (int i = 0; i < IMAGES * SIDE * SIDE; i++) {
        images[i] = (float)(i * 37 % 256) / 256;
    }
    const void *inputs[3] = {images, labels, &rate};
    void *outputs[1] = {&loss};
    ls_status status = ls_program_run(training.program, inputs, outputs);
    snprintf(text, sizeof text, "loss %.9g%s%s", (double)loss, status == LS_OK ? "" : ": ",
             status == LS_OK ? "" : ls_session_error(training.session)->message);
    return status;
}

ls_status EXPORT(t_train_hash)(void) {
    char hex[65] = "";
    ls_error err = {0};
    ls_status status = ls_params_sha256(training.session, training.params, hex, &err);
    return say(status, status == LS_OK ? hex : err.message);
}

void EXPORT(t_close)(void) {
    for (int i = 0; i < 3; i++) {
        ls_program_destroy(nets[i].program);
        ls_params_destroy(nets[i].params);
        ls_session_destroy(nets[i].session);
        nets[i] = (net){0};
    }
    forget_training();
    ls_context_destroy(context);
    context = NULL;
    device = NULL;
}
