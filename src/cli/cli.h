/* What the subcommands share: options, devices, JSON reports, messages. Data goes to stdout, all else to
 * stderr. */
#ifndef LOCKSTEP_CLI_CLI_H
#define LOCKSTEP_CLI_CLI_H

#include <cjson/cJSON.h>
#include <lockstep/lockstep.h>
#include <stdbool.h>

enum { EXIT_FINE = 0, EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_DEVICE = 3, EXIT_INTERRUPTED = 130 };

/* ---- options ---- */
enum { CLI_MOST = 256 }; /* times that an option may be given */
typedef struct cli_option {
    const char *name;  /* without the dashes */
    const char *value; /* what it takes, for messages and help; NULL: it takes nothing */
    const char *help;
    const char *text;    /* the last value given; "" for one that takes nothing; NULL: not given */
    const char *all[CLI_MOST]; /* every value given, for options that may repeat */
    int count;
} cli_option;

typedef struct cli_command {
    const char *name, *usage, *summary;
    int (*run)(int argc, char **argv);
} cli_command;

/* Parses argv[1..] into options (ending in a NULL name) and positional words; --help prints and exits through
 * *out_code. Returns the number of positional words, or -1 with *out_code set when the command is done. */
int cli_parse(const cli_command *command, cli_option *options, int argc, char **argv, const char **words,
              int most, int *out_code);
/* Whether a file, or a folder that is there or not yet, could be written; false with a message that names the option. */
bool cli_can_write(const char *option, const char *path, bool folder);
cli_option *cli_find(cli_option *options, const char *name);
bool cli_given(cli_option *options, const char *name);
const char *cli_text(cli_option *options, const char *name, const char *otherwise);
/* A whole number or a decimal in a range; false with a message when it is neither. */
bool cli_int(cli_option *options, const char *name, int64_t low, int64_t high, int64_t *inout);
bool cli_double(cli_option *options, const char *name, double low, double high, double *inout);
/* The position of an option's value in a list ending in NULL; false with a message. */
bool cli_choice(cli_option *options, const char *name, const char *const *choices, int *inout);

/* ---- messages ---- */
int cli_error(int code, const char *fmt, ...) LS_PRINTF(2, 3); /* prints "lockstep: ..." and returns code */
int cli_fail(ls_status status, const char *message); /* the exit code that fits a status, with its message */
bool cli_tty(void); /* whether stderr is a terminal that wants colour and progress */

/* ---- a device and a session on it ---- */
typedef struct cli_world {
    ls_context *context;
    ls_device *device;
    ls_session *session;
} cli_world;
#define CLI_DEVICE_OPTIONS                                                                                   \
    {.name = "device", .value = "ID", .help = "the device (see lockstep devices); default cpu"},             \
        {.name = "math", .value = "locked|fast|reduced", .help = "the kind of arithmetic; default locked"},  \
        {.name = "no-fusion", .help = "one kernel an operation (changes no locked bit)"}, {                  \
        .name = "strategy", .value = "OP=NAME",                                                              \
        .help = "force a strategy, such as conv=im2col; may repeat"                                       \
    }
#define CLI_JSON_OPTION                                                                                      \
    { .name = "json", .value = "FILE|-", .help = "also write a JSON report" }
#define CLI_PROFILE_OPTION                                                                                   \
    { .name = "profile", .help = "also print where the time went, kernel by kernel" }
/* A context whose log goes to stderr as LOCKSTEP_LOG says. */
ls_status cli_context(ls_context **out_context, ls_error *err);
/* Opens the device of --device (or `device`), with --math and --no-fusion. EXIT_FINE, or an exit code with
 * its message printed. */
int cli_open(cli_world *w, cli_option *options, const char *device);
void cli_close(cli_world *w);

/* Prints the measured errors of a device's elementary functions and adds them as "functions"; how many are beyond their bound. */
ls_status cli_ulps(ls_context *context, ls_device *device, cJSON *root, int *out_beyond, ls_error *err);
/* Computes conformance rows (a quarter of them fast as well), or one by its number; prints what they say and adds it as "rows". */
ls_status cli_rows(ls_context *context, ls_device *device, const char *plant, int count, bool certified, cJSON *root,
                   ls_case_totals *totals, ls_error *err);
ls_status cli_row(ls_context *context, ls_device *device, const char *plant, int number, cJSON *root, ls_case_totals *totals,
                  ls_error *err);
/* A report as JSON, with U+FFFD for bytes that are no UTF-8 (a model's names may be any); the caller frees it. NULL: out of memory. */
char *cli_report_text(const cJSON *root, bool indented);
/* Writes a report where --json says, if it was given; takes `root` over. */
int cli_json(cli_option *options, cJSON *root);
/* Writes a text and a newline: a file whole or not at all. False with errno. */
bool cli_write_file(const char *path, const char *text);

double cli_now_ms(void);
void cli_sort(double *list, size_t n); /* ascending */
/* A new folder NAME-XXXXXX in $TMPDIR, else /tmp; its path goes to `path`. False, the message printed: there is none. */
bool cli_temporary_folder(const char *name, char *path, size_t room);
/* Prints what the kernels of a program took while its profile was on, out of so many seconds of runs, and adds it to a
 * report as "profile". */
int cli_profile(const ls_program *program, double seconds, cJSON *root);

/* bench compile: prints what compiling takes and adds rows to a report. Opens the device itself. */
int cli_bench_compile(cli_option *options, cJSON *rows);

/* ---- data and networks ---- */
/* digits, fashion, or a folder of IDX files; the normalisation that fits goes to out_mean and out_deviation.
 */
int cli_dataset(ls_context *context, const char *name, ls_dataset *out_train, ls_dataset *out_test,
                float *out_mean, float *out_deviation);
/* Makes a built-in network's parameters and logits for an input of n images; loads weights when the path is
 * not NULL. */
int cli_network(cli_world *w, const char *name, const char *weights, uint64_t seed, ls_tensor *x,
                ls_params **out_params, ls_tensor **out_logits);

int cmd_devices(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_conform(int argc, char **argv);
int cmd_export(int argc, char **argv);
extern const cli_command cli_commands[]; /* ends in a NULL name */
const cli_command *cli_command_of(const char *name);

#endif
