/* lockstep verify --peer: the same model and inputs through a foreign engine, and which of the two lies outside what the oracle allows.
 *
 * The engine is a program called as COMMAND model.onnx inputs.npz outputs.npz. Both results are held to one bound: that of fast arithmetic
 * (any order, fused or not), derived by the oracle from the model and these inputs. */
#define _POSIX_C_SOURCE 200809L
#include "cli/model.h"
#include <lockstep/verify.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct exchange {
    char folder[512], inputs[544], outputs[544];
} exchange;

static int open_exchange(exchange *x) {
    if (!cli_temporary_folder("lockstep-peer", x->folder, sizeof x->folder)) {
        return EXIT_USAGE;
    }
    snprintf(x->inputs, sizeof x->inputs, "%s/inputs.npz", x->folder);
    snprintf(x->outputs, sizeof x->outputs, "%s/outputs.npz", x->folder);
    return EXIT_FINE;
}

static void close_exchange(const exchange *x) {
    unlink(x->inputs);
    unlink(x->outputs);
    rmdir(x->folder);
}

/* 'as the shell reads it' */
static bool quote(char *text, size_t room, const char *word) {
    size_t at = strlen(text);
    for (const char *c = word - 1; at + 6 < room; c++) {
        if (c < word || !*c) {
            at += (size_t)snprintf(text + at, room - at, c < word ? " '" : "'");
            if (c >= word) {
                return true;
            }
        } else {
            at += (size_t)snprintf(text + at, room - at, *c == '\'' ? "'\\''" : "%c", *c);
        }
    }
    return false;
}

static int call_peer(cli_model *m, ls_context *context, const char *command, const char *path, const exchange *x) {
    ls_named_data *inputs = calloc((size_t)m->n_inputs + 1, sizeof *inputs);
    char line[4096];
    int n = 0;
    ls_error err = {.code = LS_OK};
    if (!inputs) {
        return cli_error(EXIT_USAGE, "out of memory for inputs");
    }
    for (int i = 0; i < m->n_inputs; i++) {
        if (m->values[i]) {
            inputs[n++] = (ls_named_data){ls_model_input(m->model, i).name, m->values[i]};
        }
    }
    ls_status status = ls_npz_save(context, x->inputs, n, inputs, &err);
    free(inputs);
    if (status != LS_OK) {
        return cli_fail(status, err.message);
    }
    snprintf(line, sizeof line - 1, "%s", command);
    if (!quote(line, sizeof line, path) || !quote(line, sizeof line, x->inputs) || !quote(line, sizeof line, x->outputs)) {
        return cli_error(EXIT_USAGE, "--peer: the command is too long");
    }
    fflush(stdout);
    int code = system(line);
    bool ended = code != -1 && WIFEXITED(code);
    return code == 0 ? EXIT_FINE
           : ended   ? cli_error(EXIT_USAGE, "--peer: %s ended with status %d", line, WEXITSTATUS(code))
                     : cli_error(EXIT_USAGE, "--peer: %s was not started or ended by a signal", line);
}

/* The model's outputs in a session, from the inputs' values; the caller frees the list. */
static int build_outputs(cli_model *m, ls_session *s, ls_tensor ***out_outputs) {
    *out_outputs = calloc((size_t)m->n_outputs + 1, sizeof **out_outputs);
    return *out_outputs ? cli_model_build(m, s, NULL, NULL, *out_outputs) : cli_error(EXIT_USAGE, "out of memory for outputs");
}

static void add_side(cJSON *o, const char *name, const ls_report *r) {
    cJSON *side = cJSON_AddObjectToObject(o, name);
    cJSON_AddStringToObject(side, "verdict", r->verdict == LS_DIFFERS ? "outside" : "inside");
    cJSON_AddNumberToObject(side, "worst_of_bound", r->worst_of_bound);
    cJSON_AddNumberToObject(side, "outside", (double)r->outside);
    cJSON_AddNumberToObject(side, "blind", r->elements ? (double)r->blind / (double)r->elements : 0);
}

typedef struct comparison {
    cli_model *m;
    cli_world *w;
    ls_session *fast;
    ls_tensor **ours, **bounded;
    ls_archive *theirs;
    cJSON *list;
    bool differs;
} comparison;

static int compare_output(comparison *c, int i) {
    const char *name = ls_model_output(c->m->model, i).name;
    ls_data *ours = NULL, *theirs = NULL;
    double *middle = NULL, *radius = NULL;
    int64_t n;
    ls_report mine, peer, apart;
    ls_error err = {.code = LS_OK};
    ls_status status = ls_archive_get(c->theirs, name, &theirs, &err);
    if (status == LS_OK && (ls_data_from_tensor(c->w->session, c->ours[i], &ours) != LS_OK)) {
        err = *ls_session_error(c->w->session);
        status = err.code;
    }
    if (status == LS_OK && ls_oracle_value(c->fast, c->bounded[i], &middle, &radius, &n) != LS_OK) {
        err = *ls_session_error(c->fast);
        status = err.code;
    }
    if (status == LS_OK) {
        (void)ls_compare(ours, theirs, &apart);
        if (ls_data_numel(theirs) != ls_data_numel(ours) || ls_data_dtype(theirs) != ls_data_dtype(ours)) {
            printf("  %-24s DIFFERS: %s\n", name, apart.message);
            c->differs = true;
        } else {
            (void)ls_compare_bound(ours, middle, radius, &mine);
            (void)ls_compare_bound(theirs, middle, radius, &peer);
            bool wrong = mine.verdict == LS_DIFFERS || peer.verdict == LS_DIFFERS;
            printf("  %-24s lockstep %s (%.4f of the bound), the peer %s (%.4f); %lld of %lld elements differ in bits; blind %.2f %%\n", name,
                   mine.verdict == LS_DIFFERS ? "OUTSIDE" : "inside", mine.worst_of_bound, peer.verdict == LS_DIFFERS ? "OUTSIDE" : "inside",
                   peer.worst_of_bound, (long long)apart.different, (long long)apart.elements,
                   mine.elements ? 100.0 * (double)mine.blind / (double)mine.elements : 0.0);
            if (wrong) {
                printf("  %-24s %s\n", "", mine.verdict == LS_DIFFERS ? mine.message : peer.message);
            }
            c->differs |= wrong;
            cJSON *o = cJSON_CreateObject();
            cJSON_AddStringToObject(o, "output", name);
            add_side(o, "lockstep", &mine);
            add_side(o, "peer", &peer);
            cJSON_AddItemToArray(c->list, o);
        }
    }
    ls_verify_free(c->fast, middle);
    ls_verify_free(c->fast, radius);
    ls_data_release(ours);
    ls_data_release(theirs);
    return status == LS_OK ? EXIT_FINE : cli_fail(status, err.message);
}

static int compare(cli_model *m, cli_world *w, const exchange *x, cJSON *list, bool *inout_differs) {
    comparison c = {.m = m, .w = w, .list = list};
    ls_error err = {.code = LS_OK};
    ls_status status = ls_archive_open(w->context, x->outputs, &c.theirs, &err);
    status = status == LS_OK ? ls_session_create(w->context, w->device, &c.fast, &err) : status;
    int code = status == LS_OK ? EXIT_FINE : cli_fail(status, err.message);
    if (code == EXIT_FINE) {
        ls_session_set_math(c.fast, LS_FAST);
        code = build_outputs(m, w->session, &c.ours);
        code = code == EXIT_FINE ? build_outputs(m, c.fast, &c.bounded) : code;
    }
    for (int i = 0; i < m->n_outputs && code == EXIT_FINE; i++) {
        code = compare_output(&c, i);
    }
    *inout_differs |= c.differs;
    free(c.ours);
    free(c.bounded);
    if (c.fast) {
        ls_session_destroy(c.fast);
    }
    ls_archive_close(c.theirs);
    return code;
}

int cli_peer(cli_option *options, const char *path, const char *command, cJSON *root, bool *inout_differs) {
    cli_world w;
    cli_model m;
    exchange x;
    int code = cli_open(&w, options, "cpu");
    if (code != EXIT_FINE) {
        return code;
    }
    code = cli_model_open(&m, w.context, options, path);
    if (code == EXIT_FINE) {
        code = open_exchange(&x);
        if (code == EXIT_FINE) {
            code = call_peer(&m, w.context, command, path, &x);
            if (code == EXIT_FINE) {
                printf("against %s:\n", command);
                code = compare(&m, &w, &x, cJSON_AddArrayToObject(root, "peer"), inout_differs);
            }
            close_exchange(&x);
        }
        cli_model_close(&m);
    }
    cli_close(&w);
    return code;
}
