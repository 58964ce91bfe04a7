/* lockstep: the command. */
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

const cli_command cli_commands[] = {
    {"devices", "devices [--ulps] [--json FILE|-]",
     "List the devices: certified for locked arithmetic or why not, and what to install.", cmd_devices},
    {"check", "check [--device ID] [--plant FAULT] [--rows N]",
     "Certify a device; run the museum of known failures and conformance rows on it.", cmd_check},
    {"train", "train mnist [options]", "Train a built-in network on handwritten digits or another data set.",
     cmd_train},
    {"run", "run MODEL [options]", "Run a network and print or save its outputs.", cmd_run},
    {"verify", "verify MODEL [options]", "Run a network with every kernel compared with the references; as a table, JSON or a page.",
     cmd_verify},
    {"export", "export MODEL --output FILE.onnx [options]", "Write a network with its weights as an ONNX file, and check what was written.", cmd_export},
    {"conform", "conform --onnx DIR [options]", "Run the ONNX project's test cases on devices, a line a case.", cmd_conform},
    {"bench", "bench peak|gemm|conv|norm|step|compile [options]",
     "Measure speed, and the share of this machine's measured peak; or what compiling takes.", cmd_bench},
    {"inspect", "inspect MODEL [options]",
     "Show a network's graph, groups, kernel specs, kernels and memory plan.", cmd_inspect},
    {"cache", "cache [clear]", "Say where compiled kernels are kept between runs and how many, or remove them.", cmd_cache},
    {NULL, NULL, NULL, NULL},
};

const cli_command *cli_command_of(const char *name) {
    const cli_command *c = cli_commands;
    while (c->name && strcmp(c->name, name) != 0) {
        c++;
    }
    return c;
}

static void help(FILE *out) {
    fputs("lockstep " LS_VERSION
          ": neural networks with the same answer on every device\n\nusage: lockstep COMMAND [options]\n\n",
          out);
    for (const cli_command *c = cli_commands; c->name; c++) {
        fprintf(out, "  %-9s %s\n", c->name, c->summary);
    }
    fputs("\nlockstep COMMAND --help lists a command's options. MODEL is an .onnx file or a built-in network, "
          "mnist:cnn or mnist:small.\n"
          "Exit codes: 0 fine, 1 answers differ, 2 bad usage or input, 3 device not available, 130 interrupted.\n",
          out);
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        if (argc == 2) {
            help(stdout);
            return EXIT_FINE;
        }
        const cli_command *c = cli_command_of(argv[2]);
        return c->name ? c->run(2, (char *[]){argv[2], (char *)"--help", NULL}) : cli_error(EXIT_USAGE, "no command \"%s\"; see lockstep --help", argv[2]);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("lockstep %s (contract version %d)\n", ls_version(), LS_CONTRACT_VERSION);
        return EXIT_FINE;
    }
    for (const cli_command *c = cli_commands; c->name; c++) {
        if (strcmp(argv[1], c->name) == 0) {
            return c->run(argc - 1, argv + 1);
        }
    }
    return cli_error(EXIT_USAGE, "no command \"%s\"; see lockstep --help", argv[1]);
}

int main(int argc, char **argv) {
    int code = run(argc, argv);
    bool lost = fflush(stdout) != 0 || ferror(stdout); /* a write may have failed before the last */
    return lost && code == EXIT_FINE ? cli_error(EXIT_USAGE, "standard output cannot be written") : code;
}
