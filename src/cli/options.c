/* Options, messages and reports. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int report_fd = -1; /* with --json -: standard output, which then carries the report alone */

int cli_error(int code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    fputs("lockstep: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return code;
}

int cli_fail(ls_status status, const char *message) {
    int code = status == LS_ERR_DIFFERS ? EXIT_DIFFERS : status == LS_ERR_DEVICE ? EXIT_DEVICE : EXIT_USAGE;
    return cli_error(code, "%s", message);
}

bool cli_tty(void) {
    return isatty(STDERR_FILENO) && !getenv("NO_COLOR");
}

static void print_help(const cli_command *command, const cli_option *options) {
    printf("usage: lockstep %s\n%s\n\n", command->usage, command->summary);
    for (const cli_option *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-30s %s\n", left, o->help);
    }
    printf("  %-30s %s\n", "--help", "this text");
}

cli_option *cli_find(cli_option *options, const char *name) {
    for (cli_option *o = options; o->name; o++) {
        if (strcmp(o->name, name) == 0) {
            return o;
        }
    }
    return NULL;
}

bool cli_given(cli_option *options, const char *name) {
    return cli_find(options, name)->text != NULL;
}

const char *cli_text(cli_option *options, const char *name, const char *otherwise) {
    const cli_option *o = cli_find(options, name);
    return o && o->text ? o->text : otherwise;
}

static int take(const cli_command *command, cli_option *options, int argc, char **argv, int at) {
    if (argv[at][1] != '-') {
        cli_error(0, "%s: unknown option %.64s; see lockstep %s --help", command->name, argv[at], command->name);
        return -1;
    }
    const char *name = argv[at] + 2, *equals = strchr(name, '=');
    char key[64];
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : 63, name);
    cli_option *o = cli_find(options, key);
    if (!o) {
        cli_error(0, "%s: unknown option --%s; see lockstep %s --help", command->name, key, command->name);
        return -1;
    }
    if (!o->value) {
        if (equals) {
            cli_error(0, "%s: --%s takes no value", command->name, key);
            return -1;
        }
        o->text = "";
    } else if (equals) {
        o->text = equals + 1;
    } else if (at + 1 < argc) {
        o->text = argv[++at];
    } else {
        cli_error(0, "%s: --%s needs a value: %s", command->name, key, o->value);
        return -1;
    }
    if (o->count == CLI_MOST) {
        cli_error(0, "%s: --%s is given more than %d times", command->name, key, CLI_MOST);
        return -1;
    }
    o->all[o->count++] = o->text;
    return at;
}

/* A report on standard output must parse, so what is meant for people goes to stderr then. */
static bool make_way_for_report(cli_option *options) {
    const char *path = cli_find(options, "json") ? cli_text(options, "json", NULL) : NULL;
    if (path && strcmp(path, "-") == 0 && report_fd < 0) {
        report_fd = dup(STDOUT_FILENO);
        if (report_fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
            cli_error(0, "--json -: expected standard output and standard error to be open");
            return false;
        }
    }
    return true;
}

bool cli_can_write(const char *option, const char *path, bool folder) {
    struct stat info;
    char parent[4096];
    size_t n = strlen(path);
    bool there = stat(path, &info) == 0;
    if (!n) {
        cli_error(0, "--%s \"\": expected the path of a %s", option, folder ? "folder" : "file");
        return false;
    }
    if (!folder && there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        return true; /* a device or a pipe is written in place */
    }
    while (folder && n > 1 && path[n - 1] == '/') { /* a folder may be named with slashes at its end */
        n--;
    }
    while (n > 0 && path[n - 1] != '/') {
        n--;
    }
    snprintf(parent, sizeof parent, "%.*s", n ? (int)n : 1, n ? path : ".");
    errno = there && !S_ISDIR(info.st_mode) == folder ? (folder ? ENOTDIR : EISDIR) : 0;
    if (errno || access(there && folder ? path : parent, W_OK | X_OK) != 0) {
        cli_error(0, "--%s %s: cannot be written: %s", option, path, strerror(errno));
        return false;
    }
    return true;
}

/* Before work is done that could not be kept. */
static bool files_can_be_written(cli_option *options) {
    static const char *const names[] = {"json", "html", "save"};
    for (int i = 0; i < 3; i++) {
        const char *path = cli_find(options, names[i]) ? cli_text(options, names[i], NULL) : NULL;
        bool output = path && strcmp(path, "-") == 0;
        if (output && i > 0) {
            cli_error(0, "--%s -: expected the path of a file; --json alone may be standard output", names[i]);
            return false;
        }
        if (path && !output && !cli_can_write(names[i], path, false)) {
            return false;
        }
    }
    return true;
}

int cli_parse(const cli_command *command, cli_option *options, int argc, char **argv, const char **words,
              int most, int *out_code) {
    int n = 0;
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (!only_words && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            print_help(command, options);
            *out_code = EXIT_FINE;
            return -1;
        } else if (!only_words && argv[i][0] == '-' && argv[i][1]) {
            i = take(command, options, argc, argv, i);
            if (i < 0) {
                *out_code = EXIT_USAGE;
                return -1;
            }
        } else if (n == most) {
            *out_code = cli_error(EXIT_USAGE, "%s: unexpected \"%s\"; usage: lockstep %s", command->name,
                                  argv[i], command->usage);
            return -1;
        } else {
            words[n++] = argv[i];
        }
    }
    if (!files_can_be_written(options) || !make_way_for_report(options)) {
        *out_code = EXIT_USAGE;
        return -1;
    }
    return n;
}

bool cli_int(cli_option *options, const char *name, int64_t low, int64_t high, int64_t *inout) {
    const char *text = cli_text(options, name, NULL);
    if (!text) {
        return true;
    }
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < low || value > high) {
        cli_error(0, "--%s %s: expected a whole number from %lld to %lld", name, text, (long long)low,
                  (long long)high);
        return false;
    }
    *inout = value;
    return true;
}

bool cli_double(cli_option *options, const char *name, double low, double high, double *inout) {
    const char *text = cli_text(options, name, NULL);
    if (!text) {
        return true;
    }
    char *end;
    double value = strtod(text, &end); /* the command never sets a locale, so this is the C locale's */
    if (end == text || *end || !(value >= low && value <= high)) {
        cli_error(0, "--%s %s: expected a number from %g to %g", name, text, low, high);
        return false;
    }
    *inout = value;
    return true;
}

bool cli_choice(cli_option *options, const char *name, const char *const *choices, int *inout) {
    const char *text = cli_text(options, name, NULL);
    if (!text) {
        return true;
    }
    for (int i = 0; choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            *inout = i;
            return true;
        }
    }
    fprintf(stderr, "lockstep: --%s %s: expected", name, text);
    for (int i = 0; choices[i]; i++) {
        fprintf(stderr, "%s %s", i ? "," : "", choices[i]);
    }
    fputc('\n', stderr);
    return false;
}

/* Writes a whole text and closes the file. */
static bool write_text(FILE *out, const char *text) {
    bool ok = out && fputs(text, out) >= 0 && fputc('\n', out) >= 0;
    return out && fclose(out) == 0 && ok;
}

/* Beside the old file first, which stays as it was when the disk is full; devices and pipes are written in place. */
bool cli_write_file(const char *path, const char *text) {
    char temp[1024];
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        return write_text(fopen(path, "w"), text);
    }
    if (snprintf(temp, sizeof temp, "%s.%ld.tmp", path, (long)getpid()) >= (int)sizeof temp) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (write_text(fopen(temp, "wx"), text) && rename(temp, path) == 0) {
        return true;
    }
    int why = errno;
    remove(temp);
    errno = why;
    return false;
}

/* Bytes of the UTF-8 character that a text begins with; 0: there is none. */
static size_t character(const unsigned char *s) {
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++) {
        unsigned low = i > 1 ? 0x80 : s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80,
                 high = i > 1 ? 0xbf : s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
        if (s[i] < low || s[i] > high) {
            return 0;
        }
    }
    return n;
}

char *cli_report_text(const cJSON *root, bool indented) {
    char *json = indented ? cJSON_Print(root) : cJSON_PrintUnformatted(root);
    char *text = json ? malloc(3 * strlen(json) + 1) : NULL, *to = text;
    for (const char *c = json; text && *c;) {
        size_t n = character((const unsigned char *)c);
        memcpy(to, n ? c : "\xef\xbf\xbd", n ? n : 3);
        to += n ? n : 3;
        c += n ? n : 1;
    }
    if (text) {
        *to = '\0';
    }
    cJSON_free(json);
    return text;
}

int cli_json(cli_option *options, cJSON *root) {
    const char *path = cli_text(options, "json", NULL);
    int code = EXIT_FINE;
    if (path) {
        char *text = cli_report_text(root, true);
        errno = ENOMEM;
        if (!text || !(report_fd >= 0 ? write_text(fdopen(report_fd, "w"), text) : cli_write_file(path, text))) {
            code = cli_error(EXIT_USAGE, "--json %s: cannot be written: %s", path, strerror(errno));
        }
        free(text);
    }
    cJSON_Delete(root);
    return code;
}
