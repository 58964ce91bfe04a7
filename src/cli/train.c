/* lockstep train mnist: one compiled program for a step, one for evaluation; both replay without rebuilding anything. */
#include "cli/cli.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

/* Until the weights are saved: an interruption may take the reader of our messages too, so that pipes break. */
static void catch_signals(void) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    if (signal(SIGHUP, on_interrupt) == SIG_IGN) { /* nohup */
        signal(SIGHUP, SIG_IGN);
    }
}
static void release_signals(void) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* What a run is: saved with it, so that it can be taken up again exactly. */
typedef struct plan {
    char model[16], data[256];
    int64_t epochs, steps, batch, seed, shift;
    double lr;
    int optimizer, schedule, math;
} plan;
static const char *const optimizers[] = {"sgd", "adam", "adamw", NULL};
static const char *const schedules[] = {"constant", "cosine", "step", NULL};
static const char *const models[] = {"small", "cnn", NULL};
static const char *const kinds[] = {"locked", "fast", "reduced", NULL};

typedef struct training {
    cli_world w;
    cli_option *options;
    plan plan;
    ls_dataset train, test;
    float mean, deviation;
    ls_loader *loader;
    ls_params *params;
    ls_optimizer *optimizer;
    ls_program *step, *evaluate;
    int64_t done, total; /* steps */
    float *images;
    int32_t *labels;
    double loss; /* of the last step, smoothed */
    double step_seconds; /* inside steps, of this run */
} training;

enum { TEST_BATCH = 250, SIDE = 28, PIXELS = SIDE * SIDE, EPOCHS_MOST = 1000000, BATCH_MOST = 65536, SHIFT_MOST = 8, CLASSES = 10 };
#define STEPS_MOST (INT64_C(1) << 40)
#define RATE_LEAST 1e-12
#define RATE_MOST 1e6

static int session_fail(const training *t) {
    return cli_fail(ls_session_error(t->w.session)->code, ls_session_error(t->w.session)->message);
}

/* ---- programs ---- */

static ls_tensor *network(training *t, ls_tensor *x) {
    char name[32];
    snprintf(name, sizeof name, "mnist:%s", t->plan.model);
    return ls_nn_network(t->w.session, t->params, name, x);
}

static int build(training *t) {
    ls_session *s = t->w.session;
    int64_t n = t->plan.batch;
    ls_optimizer_options o = {.kind = (ls_optimizer_kind)t->plan.optimizer,
                              .momentum = t->plan.optimizer == LS_OPTIM_SGD ? 0.9 : 0,
                              .weight_decay = t->plan.optimizer == LS_OPTIM_ADAMW ? 0.01 : 0};
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(n, 1, 28, 28)),
              *y = ls_input(s, "labels", LS_I32, LS_SHAPE(n));
    ls_tensor *rate = ls_input(s, "rate", LS_F32, LS_SCALAR), *inputs[3] = {x, y, rate};
    if (ls_params_create(s, (uint64_t)t->plan.seed, &t->params) != LS_OK) {
        return session_fail(t);
    }
    ls_tensor *loss = ls_cross_entropy(s, network(t, x), y);
    if (!loss || ls_optimizer_create(s, t->params, &o, &t->optimizer) != LS_OK ||
        ls_optimizer_step(s, t->optimizer, loss, rate) != LS_OK ||
        ls_program_compile(s, inputs, 3, &loss, 1, &t->step) != LS_OK) {
        return session_fail(t);
    }
    ls_tensor *images = ls_input(s, "images", LS_F32, LS_SHAPE(TEST_BATCH, 1, 28, 28));
    ls_tensor *best = ls_argmax(s, network(t, images), 1, (const int[]){1}, 0);
    if (!best || ls_program_compile(s, &images, 1, &best, 1, &t->evaluate) != LS_OK) {
        return session_fail(t);
    }
    return EXIT_FINE;
}

/* The share of the test images that are told right; negative with a message on failure. */
static double accuracy(training *t) {
    ls_loader *loader = NULL;
    ls_error err = {.code = LS_OK};
    int64_t right = 0, total = ls_data_numel(t->test.labels), best[TEST_BATCH];
    if (ls_loader_create(t->w.context, &t->test, TEST_BATCH, 0, 0, &loader, &err) != LS_OK) {
        cli_fail(err.code, err.message);
        return -1;
    }
    for (int64_t b = 0; b < ls_loader_batches(loader); b++) {
        int64_t n = ls_loader_get(loader, 0, b, t->mean, t->deviation, t->images, t->labels);
        const void *inputs[1] = {t->images};
        void *outputs[1] = {best};
        memset(t->images + n * PIXELS, 0, sizeof *t->images * (size_t)((TEST_BATCH - n) * PIXELS));
        if (ls_program_run(t->evaluate, inputs, outputs) != LS_OK) {
            session_fail(t);
            right = -total;
            break;
        }
        for (int64_t i = 0; i < n; i++) {
            right += best[i] == t->labels[i];
        }
    }
    ls_loader_destroy(loader);
    return (double)right / (double)total;
}

/* ---- saving and taking up again ---- */

static int all_vars(training *t, ls_var ***out_vars) {
    int n = ls_params_count(t->params), m = ls_optimizer_state_count(t->optimizer);
    ls_var **vars = malloc(sizeof *vars * (size_t)(n + m + 1));
    for (int i = 0; vars && i < n + m; i++) {
        vars[i] = i < n ? ls_params_at(t->params, i) : ls_optimizer_state_at(t->optimizer, i - n);
    }
    *out_vars = vars;
    return vars ? n + m : -1;
}

static int save(training *t, const char *path) {
    char text[8][64];
    const plan *p = &t->plan;
    ls_var **vars;
    ls_error err = {.code = LS_OK};
    int n = all_vars(t, &vars);
    snprintf(text[0], 64, "%" PRId64, t->done);
    snprintf(text[1], 64, "%" PRId64, p->epochs);
    snprintf(text[2], 64, "%" PRId64, p->steps);
    snprintf(text[3], 64, "%" PRId64, p->batch);
    snprintf(text[4], 64, "%" PRId64, p->seed);
    snprintf(text[5], 64, "%.17g", p->lr);
    snprintf(text[6], 64, "%" PRId64, p->shift);
    const ls_metadata metadata[] = {{"lockstep.training", "1"},
                                    {"step", text[0]},
                                    {"epochs", text[1]},
                                    {"steps", text[2]},
                                    {"batch", text[3]},
                                    {"seed", text[4]},
                                    {"lr", text[5]},
                                    {"shift", text[6]},
                                    {"model", p->model},
                                    {"data", p->data},
                                    {"optimizer", optimizers[p->optimizer]},
                                    {"schedule", schedules[p->schedule]},
                                    {"math", kinds[p->math]}};
    ls_status status = n < 0 ? LS_ERR_MEMORY
                             : ls_vars_save(t->w.session, vars, n, (int)(sizeof metadata / sizeof *metadata),
                                            metadata, path, &err);
    free(vars);
    return status == LS_OK ? EXIT_FINE
                           : cli_fail(status, n < 0 ? "out of memory for the weights" : err.message);
}

/* A saved run's settings; each: whether it is there, in full and in its range. */
static bool stored(ls_archive *a, const char *key, char *out, size_t room) {
    const char *text = ls_archive_metadata(a, key);
    return text && snprintf(out, room, "%s", text) < (int)room;
}
static bool stored_int(ls_archive *a, const char *key, int64_t low, int64_t high, int64_t *out) {
    const char *text = ls_archive_metadata(a, key);
    char *end = NULL;
    errno = 0;
    *out = text ? strtoll(text, &end, 10) : 0;
    return text && end > text && !*end && !errno && *out >= low && *out <= high;
}
static bool stored_rate(ls_archive *a, double *out) {
    const char *text = ls_archive_metadata(a, "lr");
    char *end = NULL;
    *out = text ? strtod(text, &end) : 0;
    return text && end > text && !*end && *out >= RATE_LEAST && *out <= RATE_MOST;
}
static bool stored_choice(ls_archive *a, const char *key, const char *const *choices, int *out) {
    const char *text = ls_archive_metadata(a, key);
    for (*out = 0; text && choices[*out]; ++*out) {
        if (strcmp(choices[*out], text) == 0) {
            return true;
        }
    }
    return false;
}

/* The first setting that a plan cannot have; NULL: it is read whole. */
static const char *read_stored(ls_archive *a, plan *p, int64_t *out_done) {
    return !stored(a, "model", p->model, sizeof p->model) ? "model"
           : !stored(a, "data", p->data, sizeof p->data) ? "data"
           : !stored_int(a, "step", 0, STEPS_MOST, out_done) ? "step"
           : !stored_int(a, "epochs", 1, EPOCHS_MOST, &p->epochs) ? "epochs"
           : !stored_int(a, "steps", 0, STEPS_MOST, &p->steps) ? "steps"
           : !stored_int(a, "batch", 1, BATCH_MOST, &p->batch) ? "batch"
           : !stored_int(a, "seed", 0, INT64_MAX, &p->seed) ? "seed"
           : !stored_int(a, "shift", 0, SHIFT_MOST, &p->shift) ? "shift"
           : !stored_rate(a, &p->lr) ? "lr"
           : !stored_choice(a, "optimizer", optimizers, &p->optimizer) ? "optimizer"
           : !stored_choice(a, "schedule", schedules, &p->schedule) ? "schedule"
           : ls_archive_metadata(a, "math") && !stored_choice(a, "math", kinds, &p->math) ? "math" /* older files have none */
           : NULL;
}

/* The same text or the same number. */
static bool same_option(const char *given, const char *kept) {
    char *given_end, *kept_end;
    double x = strtod(given, &given_end), y = strtod(kept, &kept_end);
    return strcmp(given, kept) == 0 ||
           (given_end > given && !*given_end && kept_end > kept && !*kept_end && x == y);
}

/* More steps than the saved run was to take: the same run only where the learning rate does not depend on their number. */
static int lengthen(training *t, const plan *given, const char *path) {
    plan *p = &t->plan;
    bool steps = cli_given(t->options, "steps"), epochs = cli_given(t->options, "epochs");
    bool same = steps ? given->steps == p->steps : !epochs || (p->steps == 0 && given->epochs == p->epochs);
    if (!same && p->schedule != LS_SCHEDULE_CONSTANT) {
        return cli_error(EXIT_USAGE,
                         "--%s %s: the %s schedule of the run in %s is for %" PRId64
                         " %s; leave the option out to go on with it",
                         steps ? "steps" : "epochs", cli_text(t->options, steps ? "steps" : "epochs", ""),
                         schedules[p->schedule], path, p->steps ? p->steps : p->epochs,
                         p->steps ? "steps" : "epochs");
    }
    p->steps = steps ? given->steps : epochs ? 0 : p->steps;
    p->epochs = epochs ? given->epochs : p->epochs;
    return EXIT_FINE;
}

/* The plan of a saved run. Options that were given must say the same: a run taken up again is the same run. */
static int read_plan(training *t, const char *path) {
    static const char *const fixed[] = {"model", "data",      "batch",    "seed", "lr",
                                        "shift", "optimizer", "schedule", "math", NULL};
    plan given = t->plan;
    ls_archive *a = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_archive_open(t->w.context, path, &a, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    plan *p = &t->plan;
    int code = EXIT_FINE;
    for (int i = 0; fixed[i] && code == EXIT_FINE; i++) {
        const char *text = cli_text(t->options, fixed[i], NULL), *kept = ls_archive_metadata(a, fixed[i]);
        if (text && kept && !same_option(text, kept)) {
            code =
                cli_error(EXIT_USAGE, "--%s %s: the run in %s has %s; leave the option out to go on with it",
                          fixed[i], text, path, kept);
        }
    }
    const char *wrong = code == EXIT_FINE ? read_stored(a, p, &t->done) : NULL;
    if (wrong) {
        const char *text = ls_archive_metadata(a, wrong);
        code = cli_error(EXIT_USAGE, "--resume %s: its %s is \"%.80s\": expected a file that \"lockstep train --save\" wrote", path, wrong,
                         text ? text : "");
    }
    code = code == EXIT_FINE ? lengthen(t, &given, path) : code;
    if (code == EXIT_FINE) {
        ls_session_set_math(t->w.session, (ls_math)p->math);
    }
    ls_archive_close(a);
    return code;
}

static int resume(training *t, const char *path) {
    ls_archive *a = NULL;
    ls_error err = {.code = LS_OK};
    ls_var **vars;
    int n = all_vars(t, &vars);
    ls_status status = n < 0 ? LS_ERR_MEMORY : ls_archive_open(t->w.context, path, &a, &err);
    status = status == LS_OK ? ls_vars_load(t->w.session, vars, n, a, path, &err) : status;
    ls_archive_close(a);
    free(vars);
    return status == LS_OK ? EXIT_FINE : cli_fail(status, err.message);
}

/* ---- the run ---- */

static void progress(const training *t, int64_t epoch, int64_t batches, int64_t step,
                     double images_per_second, bool last) {
    if (cli_tty()) {
        fprintf(stderr, "\repoch %" PRId64 "  step %" PRId64 "/%" PRId64 "  loss %.4f  %.0f images/s   %s",
                epoch + 1, step, batches, t->loss, images_per_second, last ? "\n" : "");
    } else if (last) {
        fprintf(stderr, "epoch %" PRId64 "  step %" PRId64 "/%" PRId64 "  loss %.4f  %.0f images/s\n",
                epoch + 1, step, batches, t->loss, images_per_second);
    }
}

static int one_step(training *t, const ls_schedule *schedule, int64_t epoch, int64_t batch) {
    float rate = (float)ls_schedule_rate(schedule, t->done), loss;
    const void *inputs[3] = {t->images, t->labels, &rate};
    void *outputs[1] = {&loss};
    ls_loader_get(t->loader, epoch, batch, t->mean, t->deviation, t->images, t->labels);
    double begin = now();
    if (ls_program_run(t->step, inputs, outputs) != LS_OK) {
        return session_fail(t);
    }
    t->step_seconds += now() - begin;
    t->done++;
    t->loss = t->loss == 0 ? loss : 0.95 * t->loss + 0.05 * (double)loss;
    if (loss - loss != 0) { /* not finite */
        return cli_error(EXIT_USAGE, "the loss became %g at step %" PRId64 ": a smaller --lr may help",
                         (double)loss, t->done);
    }
    return EXIT_FINE;
}

static int run(training *t) {
    int64_t batches = ls_loader_batches(t->loader);
    ls_schedule schedule = {.kind = (ls_schedule_kind)t->plan.schedule,
                            .rate = t->plan.lr,
                            .steps = t->total,
                            .every = (t->total + 2) / 3};
    double shown = now(), counted = shown;
    int64_t since = t->done;
    int code = EXIT_FINE;
    while (t->done < t->total && !interrupted && code == EXIT_FINE) {
        int64_t epoch = t->done / batches, batch = t->done % batches;
        code = one_step(t, &schedule, epoch, batch);
        bool last = batch + 1 == batches || t->done == t->total || interrupted;
        double at = now();
        if (last || at - shown > 0.2) {
            progress(t, epoch, batches, batch + 1,
                     (double)((t->done - since) * t->plan.batch) / (at - counted), last);
            shown = at;
        }
        if (last) {
            since = t->done;
            counted = now();
        }
    }
    return code;
}

/* Of an interrupted run without the accuracy, which takes time. */
static int report(training *t, double seconds, bool whole) {
    char hex[65];
    ls_error err = {.code = LS_OK};
    double share = whole ? accuracy(t) : 0;
    if (share < 0) {
        return EXIT_USAGE;
    }
    if (ls_params_sha256(t->w.session, t->params, hex, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "device", ls_device_id(t->w.device));
    cJSON_AddStringToObject(root, "math", kinds[t->plan.math]);
    cJSON_AddNumberToObject(root, "steps", (double)t->done);
    cJSON_AddBoolToObject(root, "interrupted", !whole);
    cJSON_AddNumberToObject(root, "seconds", seconds);
    cJSON_AddStringToObject(root, "weights_sha256", hex);
    if (whole) {
        printf("%s: %" PRId64 " steps in %.1f s, test accuracy %.2f %%\nweights %s\n", ls_device_id(t->w.device), t->done, seconds, 100 * share, hex);
        cJSON_AddNumberToObject(root, "test_accuracy", share);
    }
    if (cli_given(t->options, "profile")) {
        int code = cli_profile(t->step, t->step_seconds, root);
        if (code != EXIT_FINE) {
            cJSON_Delete(root);
            return code;
        }
    }
    return cli_json(t->options, root);
}

static int read_options(training *t) {
    cli_option *o = t->options;
    plan *p = &t->plan;
    int model = 1;
    *p = (plan){.epochs = 5,
                .batch = 64,
                .seed = 1,
                .shift = 1,
                .lr = 0,
                .optimizer = LS_OPTIM_ADAM,
                .schedule = LS_SCHEDULE_COSINE,
                .math = LS_LOCKED};
    if (!cli_choice(o, "model", models, &model) || !cli_choice(o, "optimizer", optimizers, &p->optimizer) ||
        !cli_choice(o, "schedule", schedules, &p->schedule) || !cli_choice(o, "math", kinds, &p->math) ||
        !cli_int(o, "epochs", 1, EPOCHS_MOST, &p->epochs) || !cli_int(o, "steps", 1, STEPS_MOST, &p->steps) ||
        !cli_int(o, "batch", 1, BATCH_MOST, &p->batch) || !cli_int(o, "seed", 0, INT64_MAX, &p->seed) ||
        !cli_int(o, "shift", 0, SHIFT_MOST, &p->shift) || !cli_double(o, "lr", RATE_LEAST, RATE_MOST, &p->lr)) {
        return EXIT_USAGE;
    }
    if (cli_given(o, "epochs") && cli_given(o, "steps")) {
        return cli_error(EXIT_USAGE, "--epochs and --steps: expected one of them");
    }
    p->lr = p->lr > 0 ? p->lr : p->optimizer == LS_OPTIM_SGD ? 0.05 : 0.002;
    snprintf(p->model, sizeof p->model, "%s", models[model]);
    if (snprintf(p->data, sizeof p->data, "%s", cli_text(o, "data", "digits")) >= (int)sizeof p->data) {
        return cli_error(EXIT_USAGE, "--data: the path is too long");
    }
    return EXIT_FINE;
}

/* Whether one of the two parts of the data is what the networks take. */
static int check_part(const training *t, const ls_dataset *set, const char *part) {
    const int64_t *dims = ls_data_dims(set->images), n = dims[0];
    const uint8_t *labels = ls_data_bytes(set->labels);
    if (n == 0) {
        return cli_error(EXIT_USAGE, "--data %s: %s-images-idx3-ubyte has no images", t->plan.data, part);
    }
    if (ls_data_rank(set->images) != 3 || dims[1] != SIDE || dims[2] != SIDE) {
        return cli_error(EXIT_USAGE, "--data %s: %s-images-idx3-ubyte has images of %lld by %lld: expected %d by %d pixels", t->plan.data, part,
                         (long long)dims[1], (long long)dims[2], SIDE, SIDE);
    }
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] >= CLASSES) {
            return cli_error(EXIT_USAGE, "--data %s: %s-labels-idx1-ubyte: label %" PRId64 " is %d: expected 0 to %d", t->plan.data, part, i, labels[i],
                             CLASSES - 1);
        }
    }
    return EXIT_FINE;
}

static int prepare(training *t) {
    const char *path = cli_text(t->options, "resume", NULL);
    ls_error err = {.code = LS_OK};
    int code = read_options(t);
    code = code == EXIT_FINE ? cli_open(&t->w, t->options, NULL) : code;
    code = code == EXIT_FINE && path ? read_plan(t, path) : code;
    code = code == EXIT_FINE
               ? cli_dataset(t->w.context, t->plan.data, &t->train, &t->test, &t->mean, &t->deviation)
               : code;
    code = code == EXIT_FINE ? check_part(t, &t->train, "train") : code;
    code = code == EXIT_FINE ? check_part(t, &t->test, "t10k") : code;
    if (code != EXIT_FINE) {
        return code;
    }
    int64_t room = t->plan.batch > TEST_BATCH ? t->plan.batch : TEST_BATCH;
    t->images = malloc(sizeof *t->images * (size_t)(room * PIXELS));
    t->labels = malloc(sizeof *t->labels * (size_t)room);
    if (!t->images || !t->labels) {
        return cli_error(EXIT_USAGE, "out of memory for batches of %" PRId64, t->plan.batch);
    }
    if (ls_loader_create(t->w.context, &t->train, t->plan.batch, (uint64_t)t->plan.seed, 1, &t->loader,
                         &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    ls_loader_set_shift(t->loader, (int)t->plan.shift);
    t->total = t->plan.steps ? t->plan.steps : t->plan.epochs * ls_loader_batches(t->loader);
    code = build(t);
    return code == EXIT_FINE && path ? resume(t, path) : code;
}

static void finish(training *t) {
    ls_program_destroy(t->step);
    ls_program_destroy(t->evaluate);
    ls_optimizer_destroy(t->optimizer);
    ls_params_destroy(t->params);
    ls_loader_destroy(t->loader);
    ls_dataset_release(&t->train);
    ls_dataset_release(&t->test);
    free(t->images);
    free(t->labels);
    cli_close(&t->w);
}

int cmd_train(int argc, char **argv) {
    cli_option options[] = {
        {.name = "model", .value = "small|cnn", .help = "the network; default cnn"},
        {.name = "data",
         .value = "digits|fashion|DIR",
         .help = "the images; DIR holds four IDX files; default digits"},
        CLI_DEVICE_OPTIONS,
        {.name = "epochs", .value = "N", .help = "passes over the data; default 5"},
        {.name = "steps", .value = "N", .help = "steps instead of epochs"},
        {.name = "batch", .value = "N", .help = "images a step; default 64"},
        {.name = "lr", .value = "F", .help = "learning rate; default 0.002 for Adam, 0.05 for SGD"},
        {.name = "optimizer", .value = "sgd|adam|adamw", .help = "default adam"},
        {.name = "schedule", .value = "constant|cosine|step", .help = "of the learning rate; default cosine"},
        {.name = "seed", .value = "S", .help = "of the first weights and the order of the images; default 1"},
        {.name = "shift",
         .value = "N",
         .help = "move each image by up to N pixels (augmentation); default 1"},
        {.name = "save",
         .value = "FILE",
         .help = "write weights and optimiser state (safetensors) at the end, or at Ctrl-C, SIGTERM or SIGHUP"},
        {.name = "resume",
         .value = "FILE",
         .help = "go on with a saved run: the same bits as an unbroken one"},
        CLI_PROFILE_OPTION,
        CLI_JSON_OPTION,
        {.name = NULL},
    };
    const char *words[1];
    int code, n = cli_parse(cli_command_of("train"), options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    if (n != 1 || strcmp(words[0], "mnist") != 0) {
        return cli_error(EXIT_USAGE, "train: expected what to train: mnist");
    }
    training t = {.options = options};
    const char *path = cli_text(options, "save", NULL);
    code = prepare(&t);
    double start = now();
    if (code == EXIT_FINE) {
        ls_program_set_profile(t.step, cli_given(options, "profile"));
        if (t.done >= t.total) {
            fprintf(stderr, "the run in %s is complete: %" PRId64 " of %" PRId64 " steps\n", cli_text(options, "resume", ""), t.done, t.total);
        }
        catch_signals();
        code = run(&t);
    }
    double seconds = now() - start;
    bool whole = !interrupted;
    if (code == EXIT_FINE && path) {
        code = save(&t, path);
    }
    if (code == EXIT_FINE && !whole) {
        fprintf(stderr, "interrupted after step %" PRId64 " of %" PRId64 "%s%s\n", t.done, t.total,
                path ? "; saved to " : "", path ? path : "");
    }
    if (code == EXIT_FINE) {
        release_signals();
        code = report(&t, seconds, whole);
        code = code == EXIT_FINE && !whole ? EXIT_INTERRUPTED : code;
    }
    finish(&t);
    return code;
}
