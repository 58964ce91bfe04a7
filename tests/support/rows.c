#include "support/rows.h"
#include <stdio.h>
#include <stdlib.h>

static const int threads[] = {1, 2, 3, 8};
#if defined(__x86_64__)
static const char *const isas[] = {"scalar", "avx2", "avx512"};
#elif defined(__aarch64__)
static const char *const isas[] = {"scalar", "neon"};
#else
static const char *const isas[] = {"scalar"};
#endif

static int isa_count(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? 3
           : __builtin_cpu_supports("avx2")                                        ? 2
                                                                                   : 1;
#else
    return (int)(sizeof isas / sizeof *isas);
#endif
}

int rows_levels(int factor) {
    return factor == FACTOR_THREADS ? 4 : factor == FACTOR_ISA ? isa_count() : ls_row_levels(factor);
}

void rows_describe(const row *r, char *out, size_t room) {
    char text[LS_ROW_TEXT];
    ls_row_describe(r, text);
    snprintf(out, room, "%s threads=%d %s", text, rows_threads(r), rows_isa(r));
}

int rows_threads(const row *r) {
    return threads[r->level[FACTOR_THREADS]];
}
const char *rows_isa(const row *r) {
    return isas[r->level[FACTOR_ISA]];
}

int rows_next(row *r) {
    for (int f = N_FACTORS - 1; f >= 0; f--) {
        if (++r->level[f] < rows_levels(f)) {
            return 1;
        }
        r->level[f] = 0;
    }
    return 0;
}

long rows_product(void) {
    row r = {{0}};
    long n = 0;
    do {
        n += ls_row_valid(&r);
    } while (rows_next(&r));
    return n;
}

/* Each pair that no row has so far, with the other factors set to cover as many more as a few tries find. */
row *rows_pairwise(long *out_count) {
    int levels[N_FACTORS];
    long room = 64, n = 0;
    row *rows = malloc(sizeof *rows * (size_t)room);
    ls_heap heap;
    ls_covering c;
    ls_heap_init(&heap, NULL, 0);
    for (int f = 0; f < N_FACTORS; f++) {
        levels[f] = rows_levels(f);
    }
    assert_true(rows && ls_covering_init(&c, &heap, N_FACTORS, levels, 2024));
    for (int i = 0; i < N_FACTORS; i++) {
        for (int j = i + 1; j < N_FACTORS; j++) {
            for (int a = 0; a < levels[i]; a++) {
                for (int b = 0; b < levels[j]; b++) {
                    row r = {{0}};
                    r.level[i] = a;
                    r.level[j] = b;
                    if (ls_covering_has(&c, i, a, j, b) || !ls_covering_complete(&c, &r, i, j)) {
                        continue;
                    }
                    if (n == room) {
                        rows = realloc(rows, sizeof *rows * (size_t)(room *= 2));
                    }
                    rows[n++] = r;
                }
            }
        }
    }
    ls_covering_free(&c);
    *out_count = n;
    return rows;
}
