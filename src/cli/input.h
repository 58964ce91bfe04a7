/* Inputs given on the command line. */
#ifndef LOCKSTEP_CLI_INPUT_H
#define LOCKSTEP_CLI_INPUT_H

#include "cli/cli.h"

#define CLI_INPUT_OPTIONS                                                                                    \
    {.name = "weights",                                                                                      \
     .value = "FILE",                                                                                        \
     .help = "safetensors of a built-in network; default: the weights that seed 1 starts with"},             \
        {.name = "input",                                                                                    \
         .value = "NAME=FILE.npy|FILE.png|FILE.wav|random[:SEED]|zeros|NUMBER",                              \
         .help = "an input (of mnist:* images), or a number that all of its elements are; may repeat; default random:0"}, \
    {                                                                                                        \
        .name = "dim", .value = "NAME=N",                                                                    \
        .help = "a named dimension (of mnist:* batch), where no file says; default 1; may repeat"            \
    }

/* Of run and inspect. */
#define CLI_BOUND_OPTION                                                                                     \
    {                                                                                                        \
        .name = "max", .value = "NAME=N",                                                                    \
        .help = "a model's named dimension changes and is at most N: a symbol; may repeat"                   \
    }

/* The images; NULL with *out_code set, its message printed. The caller releases them. */
ls_data *cli_images(ls_context *context, cli_option *options, int *out_code);
ls_shape cli_shape(const ls_data *data);

/* A session on cpu, which makes values of every dtype; and the value that it made, with which it ends. */
ls_status cli_maker_open(ls_context *context, ls_session **out_maker, ls_error *err);
ls_status cli_maker_take(ls_session *maker, ls_tensor *made, ls_data **out_data, ls_error *err);

#endif
