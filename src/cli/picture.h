/* Pictures as inputs of models, and the best of a model's scores. */
#ifndef LOCKSTEP_CLI_PICTURE_H
#define LOCKSTEP_CLI_PICTURE_H

#include "cli/cli.h"
#include <lockstep/model.h>

#define CLI_PICTURE_OPTIONS                                                                                  \
    {.name = "layout",                                                                                       \
     .value = "NCHW|NHWC",                                                                                   \
     .help = "of an input that is a picture; default: where the 1 or 3 is"},                                 \
        {.name = "scale", .value = "F", .help = "pixels (0 to 255) times this; default 1/255 for floats"},   \
        {.name = "mean", .value = "A,B,C", .help = "less this, for each channel; default 0"}, {              \
        .name = "std", .value = "A,B,C", .help = "divided by this; default 1"                                \
    }

bool cli_is_picture(const char *path); /* by its name */
/* The picture in the shape, layout and dtype of an input, resized (linear, antialiased) where the model says a size. */
int cli_picture(ls_context *context, cli_option *options, const ls_model_port *port, const char *path,
                ls_data **out_data);
/* Whether there is a file of labels; false with a message. */
bool cli_can_read_labels(const char *path);
/* Prints the `top` largest of an output's last axis, of its first row, with labels (one a line of a file) if there are any. */
int cli_print_top(const ls_data *scores, int64_t top, const char *labels);

#endif
