/* In place of fetch.c where size counts more: nothing is fetched ahead. */
#include "backend/cpu/program.h"

int64_t ls_fetch_ahead(const ls_spec *spec, const ls_access *access) {
    (void)spec, (void)access;
    return 0;
}

void ls_fetch_results(const ls_program *p) {
    (void)p;
}

void ls_fetch_next(const ls_spec *spec, ls_program *p, int axis) {
    (void)spec, (void)p, (void)axis;
}

void ls_fetch_count(const ls_program *p, int64_t *lines, int64_t *instrs) {
    (void)p, (void)lines, (void)instrs;
}

void ls_fetch_later(ls_fetches *f, uintptr_t at, int64_t bytes) {
    (void)f, (void)at, (void)bytes;
}

void ls_fetch(ls_fetches *f) {
    (void)f;
}
