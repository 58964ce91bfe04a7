/* The page of lockstep verify --html: src/cli/verify.html, made part of the command by the build, with the report as JSON in a script
 * element. Names in a report are a model's and so anybody's: no "<" of theirs reaches the file, which keeps it inside that element. */
#include "cli/page.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const char ls_verify_html[]; /* made of verify.html by cmake/embed.cmake */

static const char mark[] = "{\"report\":\"here\"}";

/* JSON has "<" in strings alone, where it may be written as an escape. */
static size_t copy_escaped(char *to, const char *json) {
    size_t n = 0;
    for (; *json; json++) {
        if (*json == '<') {
            memcpy(to + n, "\\u003c", 6);
            n += 6;
        } else {
            to[n++] = *json;
        }
    }
    return n;
}

int cli_write_page(const char *path, const cJSON *report) {
    const char *at = strstr(ls_verify_html, mark), *rest = at + strlen(mark);
    char *json = cli_report_text(report, false);
    size_t before = (size_t)(at - ls_verify_html), length = json ? strlen(json) : 0;
    char *page = json ? malloc(strlen(ls_verify_html) + 6 * length + 1) : NULL;
    int code = EXIT_FINE;
    errno = ENOMEM;
    if (page) {
        memcpy(page, ls_verify_html, before);
        before += copy_escaped(page + before, json);
        strcpy(page + before, rest);
    }
    if (!page || !cli_write_file(path, page)) {
        code = cli_error(EXIT_USAGE, "--html %s: cannot be written: %s", path, strerror(errno));
    }
    free(page);
    free(json);
    return code;
}
