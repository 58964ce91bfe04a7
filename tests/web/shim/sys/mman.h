/* Memory without protection: what a test finds by guard pages it does not find here. */
#ifndef LOCKSTEP_TESTS_WEB_MMAN_H
#define LOCKSTEP_TESTS_WEB_MMAN_H

#include <stdlib.h>

enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 32 };
#define MAP_FAILED ((void *)-1)
__attribute__((unused)) static void *mmap(void *at, size_t size, int protection, int flags, int fd, long offset) {
    (void)at, (void)protection, (void)flags, (void)fd, (void)offset;
    void *memory = aligned_alloc(65536, (size + 65535) / 65536 * 65536);
    return memory ? memory : MAP_FAILED;
}
__attribute__((unused)) static int mprotect(void *memory, size_t size, int protection) {
    (void)memory, (void)size, (void)protection;
    return 0;
}
__attribute__((unused)) static int munmap(void *memory, size_t size) {
    (void)size;
    free(memory);
    return 0;
}

#endif
