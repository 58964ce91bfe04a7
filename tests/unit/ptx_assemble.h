/* Checks PTX with NVIDIA's assembler, where it is installed. Included once a program, after cmocka, with
 * _POSIX_C_SOURCE. */
#ifndef LOCKSTEP_TESTS_PTX_ASSEMBLE_H
#define LOCKSTEP_TESTS_PTX_ASSEMBLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/rendered.h"

static inline const char *ptx_assembler(void) {
    return rendered_ptxas();
}

/* Fails the test, with the assembler's text, where it refuses. */
static inline void ptx_assembles(const char *name, const char *ptx) {
    char command[256], message[600];
    char path[] = "/tmp/ptx_XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    fputs(ptx, file);
    fclose(file);
    snprintf(command, sizeof command, "%s -arch=%s -O1 -o /dev/null %s 2>&1", ptx_assembler(),
             strstr(ptx, ".target sm_90a") ? "sm_90a" : "sm_90", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t n = fread(message, 1, sizeof message - 1, pipe);
    message[n] = 0;
    int status = pclose(pipe);
    if (status != 0) {
        print_error("%s: %s\n%s", name, message, ptx);
    }
    if (status == 0) remove(path);
    assert_int_equal(status, 0);
}

#endif
