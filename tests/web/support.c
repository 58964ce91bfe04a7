/* What the tests find on other systems: temporary names, limits that cannot be set, judges of rendered text (none), the backends. */
#define _GNU_SOURCE
#include "backend/webgpu/host.h"
#include "device/device.h"
#include "support/rendered.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

/* The null backend beside those of a page (registry_web.c), because tests of the engine use it. */
extern const ls_backend ls_backend_cpu, ls_backend_webgpu, ls_backend_ref, ls_backend_null;
const ls_backend *const ls_backends[] = {&ls_backend_cpu, &ls_backend_webgpu, &ls_backend_ref, &ls_backend_null, NULL};

/* Writes six characters over the XXXXXX that the pattern ends in. */
static void name_one(char *pattern, unsigned attempt) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t bits = (uint64_t)t.tv_nsec * 2654435761u + (uint64_t)t.tv_sec + attempt * 40503u;
    char *end = pattern + strlen(pattern);
    for (int i = 1; i <= 6; i++, bits /= 26) {
        end[-i] = (char)('a' + bits % 26);
    }
}

char *mkdtemp(char *pattern) {
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        name_one(pattern, attempt);
        if (mkdir(pattern, 0700) == 0) {
            return pattern;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return NULL;
}

int mkstemp(char *pattern) {
    name_one(pattern, 0);
    return open(pattern, O_RDWR | O_CREAT | O_EXCL, 0600);
}

int getrlimit(int what, struct rlimit *limit) {
    (void)what, (void)limit;
    return -1;
}

int setrlimit(int what, const struct rlimit *limit) {
    (void)what, (void)limit;
    return -1;
}

/* Of the commands that tests run, the removal of their folder can be left out. */
int system(const char *command);
int system(const char *command) {
    return strncmp(command, "rm -rf ", 7) == 0 ? 0 : -1;
}

ls_status rendered_add(const ls_kernel *kernel, ls_error *err) {
    (void)kernel, (void)err;
    return LS_OK;
}

long rendered_finish(void) {
    return 0;
}

const char *rendered_ptxas(void) {
    return NULL;
}
