/* lockstep cache: where compiled kernels are kept between runs, how much there is, and how to be rid of it. */
#include "cli/cli.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int cmd_cache(int argc, char **argv) {
    cli_option options[] = {CLI_JSON_OPTION, {.name = NULL}};
    const cli_command *command = cli_commands;
    const char *words[1];
    int code;
    while (command->run != cmd_cache) {
        command++;
    }
    int n = cli_parse(command, options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    if (n == 1 && strcmp(words[0], "clear") != 0) {
        return cli_error(EXIT_USAGE, "cache %s: expected nothing or \"clear\"", words[0]);
    }
    uint64_t cleared = 0;
    ls_error err = {.code = LS_OK};
    if (n == 1 && ls_cache_clear(&cleared, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    ls_cache_info info;
    ls_cache_get_info(&info);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "path", info.path);
    cJSON_AddStringToObject(root, "reason", info.reason);
    cJSON_AddNumberToObject(root, "entries", (double)info.entries);
    cJSON_AddNumberToObject(root, "bytes", (double)info.bytes);
    cJSON_AddNumberToObject(root, "cap", (double)info.cap);
    if (n == 1) {
        cJSON_AddNumberToObject(root, "cleared", (double)cleared);
        printf("%s: %" PRIu64 " entries removed\n", info.path, cleared);
    } else if (info.reason[0]) {
        printf("no disk cache: %s\n", info.reason);
    } else {
        printf("%s: %" PRIu64 " entries, %" PRIu64 " bytes of at most %" PRIu64 "\n", info.path, info.entries, info.bytes,
               info.cap);
    }
    return cli_json(options, root);
}
