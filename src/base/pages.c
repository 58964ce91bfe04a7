#define _GNU_SOURCE /* madvise */
#include "base/pages.h"
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

enum {
    LARGE_PAGE = 2 << 20,
    PLACED_FROM = 64 << 10,
    PLACED_MOST = 256 << 10 /* larger ones may be used in part */
};
#if defined(SANITIZED) /* by what knows the bounds of the C library's blocks */
const size_t ls_pages_from = SIZE_MAX;
#else
const size_t ls_pages_from = 2 * (size_t)LARGE_PAGE;
#endif

void *ls_pages_map(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > PTRDIFF_MAX - LARGE_PAGE - page) {
        return NULL;
    }
    const size_t whole = (size + page - 1) / page * page;
    char *room = mmap(NULL, whole + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) {
        return NULL;
    }
    const size_t before = -(uintptr_t)room % LARGE_PAGE; /* it begins a large page; the rest goes back */
    char *memory = room + before;
    if (before) {
        (void)munmap(room, before);
    }
    (void)munmap(memory + whole, LARGE_PAGE - before);
#if defined(MADV_HUGEPAGE)
    (void)madvise(memory, whole, MADV_HUGEPAGE);
#endif
    return memory;
}

void ls_pages_unmap(void *memory, size_t size) {
    (void)munmap(memory, size);
}

void *ls_pages_placed(void *block, size_t size) {
#if defined(MADV_POPULATE_WRITE)
    if (block && size >= PLACED_FROM && size <= PLACED_MOST) {
        const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)block / page * page;
        (void)madvise((void *)from, (uintptr_t)block + size - from, MADV_POPULATE_WRITE); /* older systems cannot */
    }
#else
    (void)size;
#endif
    return block;
}
