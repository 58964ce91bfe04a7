/* The page of lockstep verify --html: one file, which needs nothing else. */
#ifndef LOCKSTEP_CLI_PAGE_H
#define LOCKSTEP_CLI_PAGE_H

#include "cli/cli.h"

/* Writes verify.html with a report in it. */
int cli_write_page(const char *path, const cJSON *report);

#endif
