/* .onnx files given on the command line, and the values of their inputs. */
#ifndef LOCKSTEP_CLI_MODEL_H
#define LOCKSTEP_CLI_MODEL_H

#include "cli/cli.h"
#include <lockstep/model.h>

#define CLI_MODEL_USAGE "an .onnx file, mnist:cnn or mnist:small"

typedef struct cli_model {
    ls_model *model;
    int n_inputs, n_outputs;
    ls_data **values; /* one an input, in the model's order; NULL: its default */
} cli_model;

bool cli_is_model(const char *word); /* names an .onnx file, not a built-in network */
/* Each: EXIT_FINE, or an exit code with its message printed. Loads a model; makes its inputs as --input and --dim say; closes it, which is
 * needed whatever those said. */
int cli_model_load(cli_model *m, ls_context *context, cli_option *options, const char *path);
int cli_model_make_inputs(cli_model *m, ls_context *context, cli_option *options);
void cli_model_close(cli_model *m);
/* Loads and makes inputs; when it fails there is nothing to close. */
int cli_model_open(cli_model *m, ls_context *context, cli_option *options, const char *path);
/* The values that are given, by name, for ls_runner_run; room for n_inputs. How many. */
int cli_model_inputs(const cli_model *m, ls_named_data *out_inputs);
/* Tells a runner what --max says; a refusal is printed. */
int cli_model_bounds(cli_model *m, cli_option *options, ls_session *session, ls_runner *runner);
/* Its outputs in a session's graph: from placeholders for its inputs, which go to out_inputs (room for n_inputs; those with their
 * default are left out), or, when out_inputs is NULL, from their values. */
int cli_model_build(cli_model *m, ls_session *session, ls_tensor **out_inputs, int *out_n_inputs,
                    ls_tensor **out_outputs);
/* lockstep run and inspect (what the file says: ports, operators, what is not supported; and what a run takes) on such a file. */
int cli_run_model(cli_world *w, cli_option *options, const char *path);
int cli_describe_model(cli_world *w, cli_option *options, const char *path);
/* lockstep verify --peer: the same through another engine; `root` gets "peer". */
int cli_peer(cli_option *options, const char *path, const char *command, cJSON *root, bool *inout_differs);
/* "f32 [batch,3,224,224]" of a port, or "f32 [1,3,224,224]" of an array. */
void cli_port_text(const ls_model_port *port, char *text, size_t room);
void cli_data_text(const ls_data *data, char *text, size_t room);

#endif
