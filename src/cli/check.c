/* lockstep check: certification of a device. */
#include "cli/cli.h"
#include <stdio.h>

int cmd_check(int argc, char **argv) {
    cli_option options[] = {{.name = "device", .value = "ID", .help = "the device; default cpu"}, CLI_JSON_OPTION, {.name = NULL}};
    cli_world w;
    int code;
    if (cli_parse(&cli_commands[1], options, argc, argv, NULL, 0, &code) < 0) {
        return code;
    }
    code = cli_open(&w, options, NULL);
    if (code == EXIT_FINE) {
        printf("%s: certified for locked arithmetic\n", ls_device_id(w.device));
        cli_close(&w);
    }
    return code;
}
