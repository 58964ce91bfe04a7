/* spirv_vals ENVIRONMENT[,...] FILE...: spirv-val for many files in one process, which takes it longer to start than to judge. Prints what it
 * refuses; exits with 1 where there was something. */
#include <spirv-tools/libspirv.h>
#include <stdio.h>
#include <string.h>

static bool is_valid(spv_context context, const char *path) {
    static uint32_t words[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(words, sizeof *words, sizeof words / sizeof *words, file) : 0;
    bool whole = file && feof(file);
    if (file) {
        fclose(file);
    }
    spv_diagnostic said = NULL;
    bool valid = whole && spvValidateBinary(context, words, n, &said) == SPV_SUCCESS;
    if (!valid) {
        fprintf(stderr, "spirv-val refuses %s: %s\n", path, said ? said->error : "it cannot be read");
    }
    spvDiagnosticDestroy(said);
    return valid;
}

int main(int argc, char **argv) {
    int refused = argc < 3;
    for (char *name = argc < 3 ? NULL : strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
        spv_target_env environment;
        spv_context context = spvParseTargetEnv(name, &environment) ? spvContextCreate(environment) : NULL;
        for (int i = 2; i < argc && context; i++) {
            refused += !is_valid(context, argv[i]);
        }
        refused += !context;
        spvContextDestroy(context);
    }
    return refused > 0;
}
