/* Covering arrays of rows: chosen greedily, by random bits that are the same everywhere. */
#include "verify/rows.h"

enum { CHOICES = 60 };

bool ls_covering_init(ls_covering *c, ls_heap *heap, int factors, const int *levels, uint64_t seed) {
    *c = (ls_covering){.heap = heap, .factors = factors, .state = seed};
    for (int f = 0; f < factors; f++) {
        c->levels[f] = levels[f];
        c->first[f] = c->total;
        c->total += levels[f];
    }
    c->seen = ls_alloc_zeroed(heap, (size_t)c->total * (size_t)c->total);
    return c->seen != NULL;
}

void ls_covering_free(ls_covering *c) {
    ls_free(c->heap, c->seen);
    c->seen = NULL;
}

static char *seen(const ls_covering *c, int factor, int level, int other, int other_level) {
    return &c->seen[(size_t)(c->first[factor] + level) * (size_t)c->total +
                    (size_t)(c->first[other] + other_level)];
}

bool ls_covering_has(const ls_covering *c, int factor, int level, int other, int other_level) {
    return *seen(c, factor, level, other, other_level) != 0;
}

/* Pairs of a row that no row before it has. */
static int count_new(const ls_covering *c, const ls_row *row, char mark) {
    int n = 0;
    for (int i = 0; i < c->factors; i++) {
        for (int j = i + 1; j < c->factors; j++) {
            char *pair = seen(c, i, row->level[i], j, row->level[j]);
            n += !*pair;
            *pair |= mark;
        }
    }
    return n;
}

bool ls_covering_complete(ls_covering *c, ls_row *row, int factor, int other) {
    ls_row best = *row;
    int most = -1;
    for (int choice = 0; choice < CHOICES; choice++) {
        ls_row candidate = *row;
        for (int f = 0; f < c->factors; f++) {
            if (f != factor && f != other) {
                candidate.level[f] = (int)(ls_row_random(&c->state) % (uint64_t)c->levels[f]);
            }
        }
        int n = ls_row_valid(&candidate) ? count_new(c, &candidate, 0) : -1;
        if (n > most) {
            most = n;
            best = candidate;
        }
    }
    if (most >= 0) {
        count_new(c, &best, 1);
        *row = best;
    }
    return most >= 0;
}
