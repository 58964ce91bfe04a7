/* Training: the run that `lockstep train mnist` makes, step by step. The options, the order of the batches and what is saved are
 * those of the command, so that a run begun here goes on there with the same bits, and the other way round. */
#include "page.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 28 * 28, TEST_BATCH = 250, BATCH_MOST = 4096 };
static const char *const optimizers[] = {"sgd", "adam", "adamw", NULL};
static const char *const schedules[] = {"constant", "cosine", "step", NULL};

typedef struct plan {
    char network[64], device[32], math[16], data[64];
    int64_t epochs, steps, batch, seed, shift;
    double lr, mean, deviation;
    int optimizer, schedule;
} plan;

struct page_train {
    plan plan;
    ls_session *session;
    ls_loader *loader;
    ls_params *params;
    ls_optimizer *optimizer;
    ls_program *step, *evaluate;
    int64_t done, total; /* steps; total 0: no end */
    float *images;
    int32_t *labels;
    ls_data *file; /* what was encoded last */
};

struct page_test {
    ls_dataset set;
    ls_loader *loader;
};

/* ---- options ---- */

static int position(const char *const *list, const char *text) {
    for (int i = 0; list[i]; i++) {
        if (strcmp(list[i], text) == 0) {
            return i;
        }
    }
    return -1;
}

static ls_status text_option(const cJSON *item, const char *name, char *out, size_t room) {
    if (!item) {
        return LS_OK;
    }
    if (!cJSON_IsString(item) || strlen(item->valuestring) >= room) {
        return page_fail(LS_ERR_INVALID, "%s: expected a text of at most %d bytes", name, (int)room - 1);
    }
    strcpy(out, item->valuestring);
    return LS_OK;
}

static ls_status choice_option(const cJSON *item, const char *name, const char *const *list, int *out) {
    if (!item) {
        return LS_OK;
    }
    int at = cJSON_IsString(item) ? position(list, item->valuestring) : -1;
    if (at < 0) {
        return page_fail(LS_ERR_INVALID, "%s: expected %s, %s or %s", name, list[0], list[1], list[2]);
    }
    *out = at;
    return LS_OK;
}

static ls_status number_option(const cJSON *item, const char *name, double low, double high, double *out) {
    if (!item) {
        return LS_OK;
    }
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= low && item->valuedouble <= high)) {
        return page_fail(LS_ERR_INVALID, "%s: expected a number from %g to %g", name, low, high);
    }
    *out = item->valuedouble;
    return LS_OK;
}

static ls_status whole_option(const cJSON *item, const char *name, double low, double high, int64_t *out) {
    double x = 0;
    ls_status status = number_option(item, name, low, high, &x);
    if (!item || status != LS_OK) {
        return status;
    }
    if (x != (double)(int64_t)x) {
        return page_fail(LS_ERR_INVALID, "%s: expected a whole number, not %g", name, x);
    }
    *out = (int64_t)x;
    return LS_OK;
}

/* 2^53 for seeds: what a number of JSON holds exactly. */
static ls_status read_option(plan *p, const cJSON *item) {
    const char *n = item->string;
    return strcmp(n, "network") == 0     ? text_option(item, n, p->network, sizeof p->network)
           : strcmp(n, "device") == 0    ? text_option(item, n, p->device, sizeof p->device)
           : strcmp(n, "math") == 0      ? text_option(item, n, p->math, sizeof p->math)
           : strcmp(n, "data") == 0      ? text_option(item, n, p->data, sizeof p->data)
           : strcmp(n, "steps") == 0     ? whole_option(item, n, 0, 1e12, &p->steps)
           : strcmp(n, "batch") == 0     ? whole_option(item, n, 1, BATCH_MOST, &p->batch)
           : strcmp(n, "seed") == 0      ? whole_option(item, n, 0, 9007199254740992.0, &p->seed)
           : strcmp(n, "shift") == 0     ? whole_option(item, n, 0, 8, &p->shift)
           : strcmp(n, "lr") == 0        ? number_option(item, n, 1e-12, 1e6, &p->lr)
           : strcmp(n, "mean") == 0      ? number_option(item, n, -1e6, 1e6, &p->mean)
           : strcmp(n, "deviation") == 0 ? number_option(item, n, 1e-6, 1e6, &p->deviation)
           : strcmp(n, "optimizer") == 0 ? choice_option(item, n, optimizers, &p->optimizer)
           : strcmp(n, "schedule") == 0  ? choice_option(item, n, schedules, &p->schedule)
                                         : page_fail(LS_ERR_INVALID, "train: no option is named \"%.64s\"", n);
}

static ls_status read_options(plan *p, const cJSON *root) {
    const cJSON *item;
    *p = (plan){.device = "cpu",
                .math = "locked",
                .data = "digits",
                .epochs = 1,
                .batch = 64,
                .seed = 1,
                .shift = 1,
                .optimizer = LS_OPTIM_ADAM,
                .mean = 0.1307,
                .deviation = 0.3081};
    if (!cJSON_IsObject(root)) {
        return page_fail(LS_ERR_INVALID, "train: expected options as a JSON object");
    }
    cJSON_ArrayForEach(item, root) {
        ls_status status = read_option(p, item);
        if (status != LS_OK) {
            return status;
        }
    }
    return LS_OK;
}

/* ---- what a saved run says ---- */

static int64_t stored_int(ls_archive *a, const char *key) {
    const char *text = ls_archive_metadata(a, key);
    return text ? strtoll(text, NULL, 10) : -1;
}

static ls_status differs(const char *option, const char *have) {
    return page_fail(LS_ERR_INVALID, "%s: the saved run has %s; leave the option out to go on with it", option, have);
}

/* Options that were given must say the same: a run taken up again is the same run. */
static ls_status agree(const cJSON *options, const plan *given, const plan *p) {
    char text[64];
    const struct {
        const char *name;
        bool same;
        double have;
    } numbers[] = {{"batch", given->batch == p->batch, (double)p->batch},
                   {"seed", given->seed == p->seed, (double)p->seed},
                   {"shift", given->shift == p->shift, (double)p->shift},
                   {"mean", given->mean == p->mean, p->mean},
                   {"deviation", given->deviation == p->deviation, p->deviation},
                   {"lr", given->lr == p->lr, p->lr}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (cJSON_HasObjectItem(options, numbers[i].name) && !numbers[i].same) {
            snprintf(text, sizeof text, "%.17g", numbers[i].have);
            return differs(numbers[i].name, text);
        }
    }
    if (cJSON_HasObjectItem(options, "network") && strcmp(given->network, p->network) != 0) {
        return differs("network", p->network);
    }
    if (cJSON_HasObjectItem(options, "data") && strcmp(given->data, p->data) != 0) {
        return differs("data", p->data);
    }
    if (cJSON_HasObjectItem(options, "optimizer") && given->optimizer != p->optimizer) {
        return differs("optimizer", optimizers[p->optimizer]);
    }
    if (cJSON_HasObjectItem(options, "schedule") && given->schedule != p->schedule) {
        return differs("schedule", schedules[p->schedule]);
    }
    if (cJSON_HasObjectItem(options, "steps") && given->steps != p->steps) {
        if (p->schedule != LS_SCHEDULE_CONSTANT) {
            snprintf(text, sizeof text, "a %s schedule over %" PRId64 " steps", schedules[p->schedule], p->steps);
            return differs("steps", text);
        }
    }
    return LS_OK;
}

static ls_status read_state(page_train *t, const cJSON *options, ls_archive *a) {
    plan given = t->plan, *p = &t->plan;
    const char *model = ls_archive_metadata(a, "model"), *data = ls_archive_metadata(a, "data"), *lr = ls_archive_metadata(a, "lr"),
               *optimizer = ls_archive_metadata(a, "optimizer"), *schedule = ls_archive_metadata(a, "schedule");
    p->epochs = stored_int(a, "epochs");
    p->steps = stored_int(a, "steps");
    p->batch = stored_int(a, "batch");
    p->seed = stored_int(a, "seed");
    p->shift = stored_int(a, "shift");
    p->lr = lr ? strtod(lr, NULL) : 0;
    p->optimizer = optimizer ? position(optimizers, optimizer) : -1;
    p->schedule = schedule ? position(schedules, schedule) : -1;
    t->done = stored_int(a, "step");
    const char *mean = ls_archive_metadata(a, "mean"), *deviation = ls_archive_metadata(a, "deviation");
    p->mean = mean ? strtod(mean, NULL) : p->mean;
    p->deviation = deviation ? strtod(deviation, NULL) : p->deviation;
    if (!model || strlen(model) > 32 || !data || strlen(data) >= sizeof p->data || p->epochs < 1 || p->epochs > 1000000 ||
        p->steps < 0 || p->steps > INT64_C(1) << 40 || p->batch < 1 || p->batch > BATCH_MOST || p->seed < 0 || p->shift < 0 ||
        p->shift > 8 || !(p->lr > 0) || !(p->deviation > 0) || p->optimizer < 0 || p->schedule < 0 || t->done < 0) {
        return page_fail(LS_ERR_FORMAT, "the state: expected what a training of the page, or \"lockstep train --save\", wrote");
    }
    snprintf(p->network, sizeof p->network, "mnist:%s", model);
    snprintf(p->data, sizeof p->data, "%s", data);
    ls_status status = agree(options, &given, p);
    p->steps = p->schedule == LS_SCHEDULE_CONSTANT && cJSON_HasObjectItem(options, "steps") ? given.steps : p->steps;
    return status;
}

/* ---- building ---- */

static ls_status make_set(const uint8_t *images, const uint8_t *labels, int32_t count, ls_dataset *out_set) {
    const int64_t dims[3] = {count, 28, 28};
    ls_error err = {.code = LS_OK};
    if (count < 1) {
        return page_fail(LS_ERR_SHAPE, "images: expected at least one");
    }
    for (int32_t i = 0; i < count; i++) {
        if (labels[i] > 9) {
            return page_fail(LS_ERR_RANGE, "labels: number %d is %d: expected 0 to 9", (int)i, labels[i]);
        }
    }
    ls_status status = ls_data_create(page_context(), LS_U8, 3, dims, images, &out_set->images, &err);
    status = status == LS_OK ? ls_data_create(page_context(), LS_U8, 1, dims, labels, &out_set->labels, &err) : status;
    if (status != LS_OK) {
        ls_dataset_release(out_set);
        return page_fail(status, "%s", err.message);
    }
    return LS_OK;
}

static ls_status make_loader(page_train *t, const uint8_t *images, const uint8_t *labels, int32_t count) {
    ls_dataset set = {NULL, NULL};
    ls_error err = {.code = LS_OK};
    const plan *p = &t->plan;
    if (p->batch > count) {
        return page_fail(LS_ERR_SHAPE, "images: %d of them: expected at least a batch of %" PRId64, (int)count, p->batch);
    }
    ls_status status = make_set(images, labels, count, &set);
    if (status != LS_OK) {
        return status;
    }
    status = ls_loader_create(page_context(), &set, p->batch, (uint64_t)p->seed, 1, &t->loader, &err);
    ls_dataset_release(&set);
    if (status != LS_OK) {
        return page_fail(status, "%s", err.message);
    }
    ls_loader_set_shift(t->loader, (int)p->shift);
    size_t room = (size_t)(p->batch > TEST_BATCH ? p->batch : TEST_BATCH);
    t->images = malloc(sizeof *t->images * room * PIXELS);
    t->labels = malloc(sizeof *t->labels * room);
    return t->images && t->labels ? LS_OK : page_fail(LS_ERR_MEMORY, "out of memory for batches of %" PRId64, p->batch);
}

static ls_tensor *logits_of(page_train *t, ls_tensor *x) {
    return ls_nn_network(t->session, t->params, t->plan.network, x);
}

static ls_status make_step(page_train *t) {
    ls_session *s = t->session;
    const plan *p = &t->plan;
    ls_optimizer_options o = {.kind = (ls_optimizer_kind)p->optimizer,
                              .momentum = p->optimizer == LS_OPTIM_SGD ? 0.9 : 0,
                              .weight_decay = p->optimizer == LS_OPTIM_ADAMW ? 0.01 : 0};
    if (ls_params_create(s, (uint64_t)p->seed, &t->params) != LS_OK) {
        return page_fail(LS_ERR_MEMORY, "out of memory for the parameters of %s", p->network);
    }
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(p->batch, 1, 28, 28)), *y = ls_input(s, "labels", LS_I32, LS_SHAPE(p->batch));
    ls_tensor *rate = ls_input(s, "rate", LS_F32, LS_SCALAR), *inputs[3] = {x, y, rate};
    ls_tensor *loss = ls_cross_entropy(s, logits_of(t, x), y);
    ls_status status = loss ? ls_optimizer_create(s, t->params, &o, &t->optimizer) : LS_ERR_INTERNAL;
    status = status == LS_OK ? ls_optimizer_step(s, t->optimizer, loss, rate) : status;
    status = status == LS_OK ? ls_program_compile(s, inputs, 3, &loss, 1, &t->step) : status;
    return status == LS_OK ? LS_OK : page_fail_session(s, status);
}

static ls_status make_evaluate(page_train *t) {
    ls_session *s = t->session;
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(TEST_BATCH, 1, 28, 28));
    ls_tensor *best = ls_argmax(s, logits_of(t, x), 1, (const int[]){1}, 0);
    ls_status status = best ? ls_program_compile(s, &x, 1, &best, 1, &t->evaluate) : LS_ERR_INTERNAL;
    return status == LS_OK ? LS_OK : page_fail_session(s, status);
}

static int all_vars(page_train *t, bool whole, ls_var ***out_vars) {
    int n = ls_params_count(t->params), m = whole ? ls_optimizer_state_count(t->optimizer) : 0;
    ls_var **vars = malloc(sizeof *vars * (size_t)(n + m + 1));
    for (int i = 0; vars && i < n + m; i++) {
        vars[i] = i < n ? ls_params_at(t->params, i) : ls_optimizer_state_at(t->optimizer, i - n);
    }
    *out_vars = vars;
    return vars ? n + m : -1;
}

static ls_status restore(page_train *t, ls_archive *a) {
    ls_var **vars;
    ls_error err = {.code = LS_OK};
    int n = all_vars(t, true, &vars);
    ls_status status = n < 0 ? LS_ERR_MEMORY : ls_vars_load(t->session, vars, n, a, "the state", &err);
    free(vars);
    return status == LS_OK ? LS_OK : page_fail(status, "%s", n < 0 ? "out of memory for the state" : err.message);
}

static ls_status describe(const page_train *t) {
    const plan *p = &t->plan;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "network", p->network);
    cJSON_AddStringToObject(o, "device", p->device);
    cJSON_AddStringToObject(o, "math", p->math);
    cJSON_AddStringToObject(o, "optimizer", optimizers[p->optimizer]);
    cJSON_AddStringToObject(o, "schedule", schedules[p->schedule]);
    cJSON_AddNumberToObject(o, "lr", p->lr);
    cJSON_AddNumberToObject(o, "batch", (double)p->batch);
    cJSON_AddNumberToObject(o, "seed", (double)p->seed);
    cJSON_AddNumberToObject(o, "shift", (double)p->shift);
    cJSON_AddNumberToObject(o, "step", (double)t->done);
    cJSON_AddItemToObject(o, "steps", t->total ? cJSON_CreateNumber((double)t->total) : cJSON_CreateNull());
    return page_send(o);
}

static ls_status open_state(const void *state, size_t size, ls_archive **out_archive) {
    ls_error err = {.code = LS_OK};
    ls_data *file = NULL;
    ls_status status = ls_data_create(page_context(), LS_U8, 1, (const int64_t[]){(int64_t)size}, state, &file, &err);
    status = status == LS_OK ? ls_archive_open_data(page_context(), "the state", file, out_archive, &err) : status;
    ls_data_release(file);
    return status == LS_OK ? LS_OK : page_fail(status, "%s", err.message);
}

static ls_status build(page_train *t, const cJSON *options, const uint8_t *images, const uint8_t *labels, int32_t count,
                       ls_archive *archive) {
    plan *p = &t->plan;
    ls_status status = read_options(p, options);
    status = status == LS_OK && archive ? read_state(t, options, archive) : status;
    if (status != LS_OK) {
        return status;
    }
    if (!p->network[0]) {
        return page_fail(LS_ERR_INVALID, "network: expected a name, such as mnist:small");
    }
    if (p->schedule != LS_SCHEDULE_CONSTANT && p->steps < 1 && !archive) {
        return page_fail(LS_ERR_INVALID, "steps: a %s schedule needs their number", schedules[p->schedule]);
    }
    p->lr = p->lr > 0 ? p->lr : p->optimizer == LS_OPTIM_SGD ? 0.05 : 0.002;
    status = page_session(p->device, p->math, &t->session);
    status = status == LS_OK ? make_loader(t, images, labels, count) : status;
    if (status != LS_OK) {
        return status;
    }
    t->total = p->steps ? p->steps : p->schedule == LS_SCHEDULE_CONSTANT ? 0 : p->epochs * ls_loader_batches(t->loader);
    status = make_step(t);
    status = status == LS_OK && archive ? restore(t, archive) : status;
    return status == LS_OK ? describe(t) : status;
}

void page_train_close(page_train *t) {
    if (!t) {
        return;
    }
    ls_data_release(t->file);
    ls_program_destroy(t->step);
    ls_program_destroy(t->evaluate);
    ls_optimizer_destroy(t->optimizer);
    ls_params_destroy(t->params);
    ls_loader_destroy(t->loader);
    free(t->images);
    free(t->labels);
    if (t->session) {
        ls_session_destroy(t->session);
    }
    free(t);
}

ls_status page_train_open(const char *options, const uint8_t *images, const uint8_t *labels, int32_t count, const void *state,
                          size_t size, page_train **out_train) {
    page_begin(NULL);
    page_train *t = calloc(1, sizeof *t);
    cJSON *root = cJSON_Parse(options);
    ls_archive *archive = NULL;
    ls_status status = t ? LS_OK : page_fail(LS_ERR_MEMORY, "out of memory for a training");
    status = status == LS_OK && state ? open_state(state, size, &archive) : status;
    status = status == LS_OK ? build(t, root, images, labels, count, archive) : status;
    ls_archive_close(archive);
    cJSON_Delete(root);
    if (status != LS_OK) {
        page_train_close(t);
        return status;
    }
    *out_train = t;
    return LS_OK;
}

/* ---- running ---- */

ls_status page_train_step(page_train *t, double *out_loss) {
    const plan *p = &t->plan;
    int64_t batches = ls_loader_batches(t->loader);
    ls_schedule schedule = {
        .kind = (ls_schedule_kind)p->schedule, .rate = p->lr, .steps = t->total, .every = (t->total + 2) / 3};
    page_begin(t->session);
    if (t->total && t->done >= t->total) {
        return page_fail(LS_ERR_INVALID, "the run's %" PRId64 " steps are done", t->total);
    }
    float rate = (float)ls_schedule_rate(&schedule, t->done), loss = 0;
    const void *inputs[3] = {t->images, t->labels, &rate};
    void *outputs[1] = {&loss};
    ls_loader_get(t->loader, t->done / batches, t->done % batches, (float)p->mean, (float)p->deviation, t->images, t->labels);
    ls_status status = ls_program_run(t->step, inputs, outputs);
    if (status != LS_OK) {
        return page_fail_session(t->session, status);
    }
    t->done++;
    *out_loss = (double)loss;
    return LS_OK;
}

ls_status page_test_open(const uint8_t *images, const uint8_t *labels, int32_t count, page_test **out_test) {
    ls_error err = {.code = LS_OK};
    page_begin(NULL);
    page_test *test = calloc(1, sizeof *test);
    if (!test) {
        return page_fail(LS_ERR_MEMORY, "out of memory for test images");
    }
    ls_status status = make_set(images, labels, count, &test->set);
    if (status == LS_OK && (status = ls_loader_create(page_context(), &test->set, TEST_BATCH, 0, 0, &test->loader, &err)) != LS_OK) {
        page_fail(status, "%s", err.message);
    }
    if (status != LS_OK) {
        page_test_close(test);
        return status;
    }
    *out_test = test;
    return LS_OK;
}

void page_test_close(page_test *test) {
    if (test) {
        ls_loader_destroy(test->loader);
        ls_dataset_release(&test->set);
        free(test);
    }
}

ls_status page_train_test(page_train *t, page_test *test, int32_t batch, int32_t *out_count, int32_t *out_right) {
    int64_t best[TEST_BATCH];
    page_begin(t->session);
    *out_count = *out_right = 0;
    ls_status status = t->evaluate ? LS_OK : make_evaluate(t);
    if (status != LS_OK) {
        return status;
    }
    int64_t n = ls_loader_get(test->loader, 0, batch, (float)t->plan.mean, (float)t->plan.deviation, t->images, t->labels);
    const void *inputs[1] = {t->images};
    void *outputs[1] = {best};
    memset(t->images + n * PIXELS, 0, sizeof *t->images * (size_t)((TEST_BATCH - n) * PIXELS));
    status = n > 0 ? ls_program_run(t->evaluate, inputs, outputs) : LS_OK;
    if (status != LS_OK) {
        return page_fail_session(t->session, status);
    }
    for (int64_t i = 0; i < n; i++) {
        *out_right += best[i] == t->labels[i];
    }
    *out_count = (int32_t)n;
    return LS_OK;
}

/* ---- saving ---- */

ls_status page_train_encode(page_train *t, int whole, const void **out_bytes, size_t *out_size) {
    char text[9][32];
    const plan *p = &t->plan;
    const int64_t numbers[6] = {t->done, p->epochs, p->steps, p->batch, p->seed, p->shift};
    const char *model = strncmp(p->network, "mnist:", 6) == 0 ? p->network + 6 : p->network;
    ls_var **vars;
    ls_error err = {.code = LS_OK};
    page_begin(t->session);
    for (int i = 0; i < 6; i++) {
        snprintf(text[i], sizeof text[i], "%" PRId64, numbers[i]);
    }
    snprintf(text[6], sizeof text[6], "%.17g", p->lr);
    snprintf(text[7], sizeof text[7], "%.17g", p->mean);
    snprintf(text[8], sizeof text[8], "%.17g", p->deviation);
    const ls_metadata metadata[] = {{"lockstep.training", "1"},
                                    {"step", text[0]},
                                    {"epochs", text[1]},
                                    {"steps", text[2]},
                                    {"batch", text[3]},
                                    {"seed", text[4]},
                                    {"lr", text[6]},
                                    {"shift", text[5]},
                                    {"mean", text[7]}, /* the command knows them by the name of the data */
                                    {"deviation", text[8]},
                                    {"model", model},
                                    {"data", p->data},
                                    {"optimizer", optimizers[p->optimizer]},
                                    {"schedule", schedules[p->schedule]}};
    int n = all_vars(t, whole, &vars), n_metadata = whole ? (int)(sizeof metadata / sizeof *metadata) : 0;
    ls_data *file = NULL;
    ls_status status = n < 0 ? LS_ERR_MEMORY : ls_vars_encode(t->session, vars, n, n_metadata, metadata, &file, &err);
    free(vars);
    if (status != LS_OK) {
        return page_fail(status, "%s", n < 0 ? "out of memory for the weights" : err.message);
    }
    ls_data_release(t->file);
    t->file = file;
    *out_bytes = ls_data_bytes(file);
    *out_size = ls_data_size(file);
    return LS_OK;
}

ls_status page_train_sha256(page_train *t, char *out_hex) {
    ls_error err = {.code = LS_OK};
    page_begin(t->session);
    ls_status status = ls_params_sha256(t->session, t->params, out_hex, &err);
    return status == LS_OK ? LS_OK : page_fail(status, "%s", err.message);
}
