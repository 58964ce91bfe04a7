/* Networks for inference: a program for each batch size that was met, the least recently used forgotten. */
#include "page.h"
#include "cli/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 28 * 28, PROGRAMS = 4, BATCH_MOST = 4096 };

typedef struct compiled {
    ls_program *program;
    int32_t batch;
    uint64_t used;
} compiled;

struct page_net {
    ls_session *session;
    ls_params *params;
    char network[64];
    int64_t classes;
    compiled programs[PROGRAMS];
    uint64_t runs;
};

void page_net_close(page_net *net) {
    if (!net) {
        return;
    }
    for (int i = 0; i < PROGRAMS; i++) {
        ls_program_destroy(net->programs[i].program);
    }
    ls_params_destroy(net->params);
    if (net->session) {
        ls_session_destroy(net->session);
    }
    free(net);
}

/* The network over an input, in the scope that is open. */
static ls_tensor *logits_of(page_net *net, ls_tensor *x) {
    return ls_nn_network(net->session, net->params, net->network, x);
}

/* Makes the parameters, and notes how many numbers come out. */
static ls_status make_params(page_net *net, double seed) {
    ls_session *s = net->session;
    if (ls_params_create(s, (uint64_t)seed, &net->params) != LS_OK) {
        return page_fail(LS_ERR_MEMORY, "out of memory for the parameters of %s", net->network);
    }
    if (ls_scope_begin(s) != LS_OK) {
        return page_fail_session(s, LS_ERR_MEMORY);
    }
    ls_tensor *y = logits_of(net, ls_input(s, "images", LS_F32, LS_SHAPE(1, 1, 28, 28)));
    net->classes = y ? ls_tensor_numel(s, y) : 0;
    ls_scope_end(s);
    return y ? LS_OK : page_fail_session(s, LS_ERR_INTERNAL);
}

static ls_status load_weights(page_net *net, const void *weights, size_t size) {
    ls_error err = {.code = LS_OK};
    ls_data *file = NULL;
    ls_status status = ls_data_create(page_context(), LS_U8, 1, (const int64_t[]){(int64_t)size}, weights, &file, &err);
    status = status == LS_OK ? ls_params_load_data(net->session, net->params, "the weights", file, &err) : status;
    ls_data_release(file);
    return status == LS_OK ? LS_OK : page_fail(status, "%s", err.message);
}

static cJSON *port(const char *name, int rank, const int64_t *dims) {
    cJSON *o = cJSON_CreateObject(), *shape;
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "dtype", "f32");
    shape = cJSON_AddArrayToObject(o, "shape");
    for (int i = 0; i < rank; i++) {
        cJSON_AddItemToArray(shape, dims[i] < 0 ? cJSON_CreateString("batch") : cJSON_CreateNumber((double)dims[i]));
    }
    return o;
}

static ls_status describe(const page_net *net) {
    const int64_t in[4] = {-1, 1, 28, 28}, out[2] = {-1, net->classes};
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "network", net->network);
    cJSON_AddStringToObject(root, "device", ls_device_id(ls_session_device(net->session)));
    cJSON_AddStringToObject(root, "math", page_math_names[ls_session_math(net->session)]);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "inputs"), port("images", 4, in));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(root, "outputs"), port("logits", 2, out));
    return page_send(root);
}

ls_status page_net_open(const char *network, const void *weights, size_t size, const char *device, const char *math, double seed,
                        page_net **out_net) {
    page_begin(NULL);
    page_net *net = calloc(1, sizeof *net);
    if (!net) {
        return page_fail(LS_ERR_MEMORY, "out of memory for a network");
    }
    snprintf(net->network, sizeof net->network, "%s", network);
    ls_status status = page_session(device, math, &net->session);
    status = status == LS_OK ? make_params(net, seed) : status;
    status = status == LS_OK && weights ? load_weights(net, weights, size) : status;
    status = status == LS_OK ? describe(net) : status;
    if (status != LS_OK) {
        page_net_close(net);
        return status;
    }
    *out_net = net;
    return LS_OK;
}

static ls_status compile(page_net *net, int32_t batch, ls_program **out_program) {
    ls_session *s = net->session;
    if (ls_scope_begin(s) != LS_OK) {
        return page_fail_session(s, LS_ERR_MEMORY);
    }
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(batch, 1, 28, 28)), *y = logits_of(net, x);
    ls_status status = y ? ls_program_compile(s, &x, 1, &y, 1, out_program) : LS_ERR_INTERNAL;
    status = status == LS_OK ? LS_OK : page_fail_session(s, status);
    ls_scope_end(s);
    return status;
}

static ls_status program_for(page_net *net, int32_t batch, ls_program **out_program) {
    compiled *at = &net->programs[0];
    for (int i = 0; i < PROGRAMS; i++) {
        compiled *c = &net->programs[i];
        if (c->program && c->batch == batch) {
            at = c;
            break;
        }
        at = !c->program || (at->program && c->used < at->used) ? c : at;
    }
    if (!at->program || at->batch != batch) {
        ls_program *made = NULL;
        ls_status status = compile(net, batch, &made);
        if (status != LS_OK) {
            return status;
        }
        ls_program_destroy(at->program);
        *at = (compiled){made, batch, 0};
    }
    at->used = ++net->runs;
    *out_program = at->program;
    return LS_OK;
}

static ls_status check_batch(int32_t batch) {
    return batch >= 1 && batch <= BATCH_MOST
               ? LS_OK
               : page_fail(LS_ERR_SHAPE, "a batch of %d images: expected 1 to %d", (int)batch, BATCH_MOST);
}

static ls_status hash(const page_net *net, int32_t batch, const float *logits, char *out_hex) {
    ls_error err = {.code = LS_OK};
    ls_data *data = NULL;
    const int64_t dims[2] = {batch, net->classes};
    ls_status status = ls_data_create(page_context(), LS_F32, 2, dims, logits, &data, &err);
    if (status != LS_OK) {
        return page_fail(status, "%s", err.message);
    }
    ls_data_sha256(data, out_hex);
    ls_data_release(data);
    return LS_OK;
}

ls_status page_net_run(page_net *net, int32_t batch, const float *images, float *out_logits, char *out_hex) {
    ls_program *program = NULL;
    const void *inputs[1] = {images};
    void *outputs[1] = {out_logits};
    page_begin(net->session);
    ls_status status = check_batch(batch);
    status = status == LS_OK ? program_for(net, batch, &program) : status;
    if (status == LS_OK && (status = ls_program_run(program, inputs, outputs)) != LS_OK) {
        return page_fail_session(net->session, status);
    }
    return status == LS_OK ? hash(net, batch, out_logits, out_hex) : status;
}

/* The images as a tensor and the logits over it, in a scope of their own. */
static ls_status graph_over(page_net *net, int32_t batch, const float *images, ls_tensor **out_logits) {
    ls_session *s = net->session;
    page_begin(s);
    ls_status status = check_batch(batch);
    if (status != LS_OK) {
        return status;
    }
    if (ls_scope_begin(s) != LS_OK) {
        return page_fail_session(s, LS_ERR_MEMORY);
    }
    *out_logits = logits_of(net, ls_tensor_from(s, LS_F32, LS_SHAPE(batch, 1, 28, 28), images));
    if (!*out_logits) {
        ls_scope_end(s);
        return page_fail_session(s, LS_ERR_INTERNAL);
    }
    return LS_OK;
}

ls_status page_net_oracle(page_net *net, int32_t batch, const float *images, double *out_middle, double *out_radius) {
    ls_tensor *y;
    double *middle = NULL, *radius = NULL;
    int64_t n = 0;
    ls_status status = graph_over(net, batch, images, &y);
    if (status != LS_OK) {
        return status;
    }
    status = ls_oracle_value(net->session, y, &middle, &radius, &n);
    if (status == LS_OK) {
        memcpy(out_middle, middle, sizeof *middle * (size_t)n);
        memcpy(out_radius, radius, sizeof *radius * (size_t)n);
        ls_verify_free(net->session, middle);
        ls_verify_free(net->session, radius);
    } else {
        status = page_fail_session(net->session, status);
    }
    ls_scope_end(net->session);
    return status;
}

static const char *const verdicts[] = {"same", "within bound", "differs"};

static cJSON *report_json(const ls_report *r) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "verdict", verdicts[r->verdict]);
    cJSON_AddNumberToObject(o, "elements", (double)r->elements);
    cJSON_AddNumberToObject(o, "different", (double)r->different);
    cJSON_AddNumberToObject(o, "worst_of_bound", r->worst_of_bound);
    cJSON_AddNumberToObject(o, "blind", r->elements ? (double)r->blind / (double)r->elements : 0);
    cJSON_AddStringToObject(o, "message", r->message);
    return o;
}

static ls_status send_verification(const page_net *net, const ls_verification *v) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "id", ls_device_id(ls_session_device(net->session)));
    cJSON_AddNumberToObject(root, "kernels", v->n_kernels);
    cJSON_AddNumberToObject(root, "worst_of_bound", v->worst_of_bound);
    cJSON_AddNumberToObject(root, "blind", v->blind);
    cJSON_AddStringToObject(root, "verdict", verdicts[v->verdict]);
    cJSON_AddItemToObject(root, "first_divergence", report_divergence(v));
    cJSON_AddItemToObject(root, "end_to_end", report_json(&v->end_to_end));
    cJSON *table = cJSON_AddArrayToObject(root, "table");
    for (int i = 0; i < v->n_kernels; i++) {
        const ls_kernel_report *k = &v->kernels[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "kernel", k->kernel);
        cJSON_AddStringToObject(o, "node", k->node);
        cJSON_AddItemToObject(o, "ref", k->ref_done ? report_json(&k->ref) : cJSON_CreateNull());
        cJSON_AddItemToObject(o, "oracle", report_json(&k->oracle));
        cJSON_AddItemToArray(table, o);
    }
    return page_send(root);
}

ls_status page_net_verify(page_net *net, int32_t batch, const float *images) {
    ls_tensor *y;
    ls_verification *v = NULL;
    ls_status status = graph_over(net, batch, images, &y);
    if (status != LS_OK) {
        return status;
    }
    status = ls_verify(net->session, &y, 1, &v);
    status = status == LS_OK ? send_verification(net, v) : page_fail_session(net->session, status);
    ls_verification_free(net->session, v);
    ls_scope_end(net->session);
    return status;
}

ls_status page_net_sha256(page_net *net, char *out_hex) {
    ls_error err = {.code = LS_OK};
    page_begin(net->session);
    ls_status status = ls_params_sha256(net->session, net->params, out_hex, &err);
    return status == LS_OK ? LS_OK : page_fail(status, "%s", err.message);
}
