/* libFuzzer's entry for the readers of files; FUZZ_FORMAT is 0 npy, 1 npz or safetensors, 2 idx, 3 WAVE. A file may be
 * refused or read; with the sanitizers on, anything else ends the run. */
#define _GNU_SOURCE
#include <lockstep/io.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_archive(ls_context *context, const char *path) {
    ls_archive *a = NULL;
    if (ls_archive_open(context, path, &a, NULL) != LS_OK) {
        return;
    }
    for (int i = 0; i < ls_archive_count(a) && i < 64; i++) {
        ls_data *x = NULL;
        char hex[65];
        if (ls_archive_get_at(a, i, &x, NULL) == LS_OK) {
            ls_data_sha256(x, hex);
        }
        ls_data_release(x);
    }
    ls_archive_close(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static ls_context *context;
    static int fd = -1;
    static char path[64];
    if (!context) {
        const ls_context_options options = {.memory_limit = (size_t)64
                                                            << 20}; /* so that a wild size is refused */
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (fd < 0 || ls_context_create(&options, &context, NULL) != LS_OK) {
            abort();
        }
    }
    if (ftruncate(fd, 0) != 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size) {
        abort();
    }
    size_t before, after, peak;
    ls_data *x = NULL;
    ls_context_memory(context, &before, &peak);
    if (FUZZ_FORMAT == 1) {
        read_archive(context, path);
    } else if (FUZZ_FORMAT == 3) {
        int rate;
        if (ls_wav_load(context, path, &x, &rate, NULL) == LS_OK) {
            char hex[65];
            ls_data_sha256(x, hex);
        }
    } else if ((FUZZ_FORMAT == 0 ? ls_npy_load : ls_idx_load)(context, path, &x, NULL) == LS_OK) {
        char hex[65];
        ls_data_sha256(x, hex);
    }
    ls_data_release(x);
    ls_context_memory(context, &after, &peak);
    if (after != before) {
        abort(); /* something was kept */
    }
    return 0;
}
