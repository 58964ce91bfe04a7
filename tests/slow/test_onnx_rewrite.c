/* The ONNX project's test cases written anew: each model becomes tensors, those become a file, and the file must give the model's bits. Models of one
 * operator reach most of what the graph can hold. Folders as for the suite: $LOCKSTEP_ONNX_TESTS or a build's onnx-tests. */
#include "onnx/running.h"
#include <dirent.h>
#include <stdbool.h>

enum { MOST = 32 };

static const char *cases_folder(void) {
    static const char *const folders[] = {"build/release/onnx-tests", "build/asan/onnx-tests",
                                          "build/clang/onnx-tests"};
    static char path[1024];
    const char *given = getenv("LOCKSTEP_ONNX_TESTS");
    for (int i = -1; i < 3; i++) {
        snprintf(path, sizeof path, "%s/node", i >= 0 ? folders[i] : given ? given : "");
        if (access(path, R_OK) == 0) {
            return path;
        }
    }
    print_message("no ONNX test data; LOCKSTEP_ONNX_TESTS names their folder\n");
    skip();
    return NULL;
}

typedef enum outcome { SAME, DIFFERENT, REFUSED, NOT_A_GRAPH, OUTCOMES } outcome;

typedef struct trial {
    world w;
    ls_model *model;
    int n_in, n_out;
    ls_data *in[MOST];
    ls_named_tensor ports[MOST], results[MOST];
    char why[LS_MESSAGE_MAX];
} trial;

/* The inputs of the first set; false when one is no tensor of numbers. */
static bool read_inputs(trial *t, const char *folder) {
    char path[2048];
    t->n_in = ls_model_input_count(t->model);
    t->n_out = ls_model_output_count(t->model);
    for (int i = 0; i < t->n_in && t->n_in <= MOST && t->n_out <= MOST; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_0/input_%d.pb", folder, i);
        if (ls_model_input(t->model, i).dtype == LS_DTYPE_COUNT ||
            strncmp(ls_model_input(t->model, i).type, "float8", 6) == 0 ||
            ls_onnx_data_load(t->w.context, path, &t->in[i], NULL) != LS_OK) {
            return false;
        }
    }
    return t->n_in <= MOST && t->n_out <= MOST;
}

/* The model as a graph on placeholders; false when its shapes depend on values. */
static bool build(trial *t) {
    ls_session *s = t->w.session;
    ls_tensor *in[MOST], *out[MOST];
    for (int i = 0; i < t->n_in; i++) {
        const char *name = ls_model_input(t->model, i).name;
        in[i] = ls_input(s, name, ls_data_dtype(t->in[i]),
                         ls_shape_make(ls_data_rank(t->in[i]), ls_data_dims(t->in[i])));
        t->ports[i] = (ls_named_tensor){name, in[i]};
    }
    if (ls_model_build(s, t->model, t->n_in, in, t->n_out, out) != LS_OK) {
        return false;
    }
    for (int i = 0; i < t->n_out; i++) {
        t->results[i] = (ls_named_tensor){ls_model_output(t->model, i).name, out[i]};
    }
    return true;
}

static bool run(trial *t, ls_model *model, ls_data **out) {
    ls_runner *runner = NULL;
    ls_named_data in[MOST];
    for (int i = 0; i < t->n_in; i++) {
        in[i] = (ls_named_data){ls_model_input(t->model, i).name, t->in[i]};
    }
    bool ok = ls_runner_create(t->w.session, model, &runner) == LS_OK &&
              ls_runner_run(runner, t->n_in, in, out) == LS_OK;
    ls_runner_destroy(runner);
    if (!ok) {
        snprintf(t->why, sizeof t->why, "%s", ls_session_error(t->w.session)->message);
    }
    return ok;
}

static outcome compare(trial *t, ls_model *again) {
    ls_data *expected[MOST] = {NULL}, *got[MOST] = {NULL};
    outcome o = !run(t, t->model, expected) ? NOT_A_GRAPH : !run(t, again, got) ? DIFFERENT : SAME;
    for (int i = 0; i < t->n_out; i++) {
        char a[65], b[65];
        if (o == SAME) {
            ls_data_sha256(expected[i], a);
            ls_data_sha256(got[i], b);
            int rank = ls_data_rank(got[i]);
            bool same =
                ls_data_dtype(expected[i]) == ls_data_dtype(got[i]) && ls_data_rank(expected[i]) == rank &&
                !memcmp(ls_data_dims(expected[i]), ls_data_dims(got[i]), sizeof(int64_t) * (size_t)rank) &&
                !strcmp(a, b);
            o = same ? o : DIFFERENT;
            snprintf(t->why, sizeof t->why, "output %d has other bits, or another shape", i);
        }
        ls_data_release(expected[i]);
        ls_data_release(got[i]);
    }
    return o;
}

static outcome rewrite(const char *folder, char *why, size_t room) {
    trial t = {.w = world_open_with("cpu", 1, NULL)};
    ls_model *again = NULL;
    ls_data *file = NULL;
    ls_error err = {.code = LS_OK};
    char path[2048];
    outcome o = NOT_A_GRAPH;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (ls_model_load(t.w.context, path, &t.model, &err) == LS_OK && read_inputs(&t, folder) && build(&t)) {
        o = REFUSED;
        if (ls_onnx_encode(t.w.session, t.n_in, t.ports, t.n_out, t.results, &file, &err) == LS_OK) {
            o = ls_model_load_data(t.w.context, folder, file, &again, &err) == LS_OK ? compare(&t, again)
                                                                                     : DIFFERENT;
        }
    }
    snprintf(why, room, "%s", err.code ? err.message : t.why);
    ls_data_release(file);
    ls_model_release(again);
    ls_model_release(t.model);
    for (int i = 0; i < MOST; i++) {
        ls_data_release(t.in[i]);
    }
    world_close(&t.w);
    return o;
}

static void test_cases(void **state) {
    (void)state;
    const char *folder = cases_folder(), *only = getenv("LOCKSTEP_ONLY");
    int counts[OUTCOMES] = {0};
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list));) {
        char path[1400], why[LS_MESSAGE_MAX];
        if (entry->d_name[0] == '.' || (only && !strstr(entry->d_name, only))) {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        outcome o = rewrite(path, why, sizeof why);
        counts[o]++;
        if (o == DIFFERENT || o == REFUSED) {
            print_message("%s %s: %s\n", o == REFUSED ? "refused" : "DIFFERS", entry->d_name, why);
        }
    }
    closedir(list);
    print_message("%d have the same bits, %d differ, %d refused, %d are no graph of tensors\n", counts[SAME],
                  counts[DIFFERENT], counts[REFUSED], counts[NOT_A_GRAPH]);
    assert_true(counts[SAME] > 0 || only);
    assert_int_equal(counts[DIFFERENT], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
