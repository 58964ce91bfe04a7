/* Sounds as inputs of models. */
#ifndef LOCKSTEP_CLI_SOUND_H
#define LOCKSTEP_CLI_SOUND_H

#include "cli/cli.h"
#include <lockstep/model.h>

#define CLI_SOUND_OPTIONS                                                                                    \
    {.name = "rate", .value = "N", .help = "resample an input that is a sound to N samples a second"},       \
        {.name = "channel", .value = "K", .help = "its channel, from 0; default: the mean of all"},          \
        {.name = "offset", .value = "N", .help = "the first sample to take; default 0"}, {                   \
        .name = "samples", .value = "N", .help = "how many; default: what the input wants, else all"         \
    }

bool cli_is_sound(const char *path); /* by its name */
/* The sound as an input wants it: samples along its last axis, whose others are 1. */
int cli_sound(ls_context *context, cli_option *options, const ls_model_port *port, const char *path, ls_data **out_data);

#endif
