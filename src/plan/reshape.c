/* Pairs the axes of a reshape. Invariant: the products of a block's extents are equal on both sides at
 * every value of the symbols (the last block takes what cannot be told apart). */
#include "base/number.h"
#include "plan/reshape.h"
#include <stdlib.h>

/* An extent is `factor` times a primitive extent (1 where it is fixed). */
typedef struct product {
    int64_t factor;
    double bound;
    int n;
    ls_dim prim[LS_MAX_RANK];
} product;

static void product_mul(product *p, ls_dim d) {
    p->bound *= (double)ls_dim_bound(d);
    if (!d.symbol) {
        p->factor *= d.offset;
        return;
    }
    int64_t g = ls_gcd(d.scale, d.offset);
    p->factor *= g;
    p->prim[p->n++] = (ls_dim){d.symbol, d.scale / g, d.offset / g};
}

static bool product_equal(const product *a, const product *b) {
    bool used[LS_MAX_RANK] = {false};
    if (a->factor != b->factor || a->n != b->n) {
        return false;
    }
    for (int i = 0; i < a->n; i++) {
        int j = 0;
        while (j < b->n && (used[j] || !ls_dim_equal(a->prim[i], b->prim[j]))) {
            j++;
        }
        if (j == b->n) {
            return false;
        }
        used[j] = true;
    }
    return true;
}

static int skip_ones(const ls_shape *s, int i) {
    while (i < s->rank && ls_dim_is_one(s->dim[i])) {
        i++;
    }
    return i;
}

static bool has_empty(const ls_shape *s) {
    for (int i = 0; i < s->rank; i++) {
        if (ls_dim_bound(s->dim[i]) == 0) {
            return true;
        }
    }
    return false;
}

void ls_reshape_match(const ls_shape *to, const ls_shape *from, ls_reshape_map *out) {
    *out = (ls_reshape_map){.empty = has_empty(to) || has_empty(from)};
    int i = skip_ones(to, 0), j = skip_ones(from, 0);
    while (!out->empty && (i < to->rank || j < from->rank)) {
        ls_reshape_block *b = &out->block[out->n_blocks++];
        product p = {.factor = 1, .bound = 1}, q = {.factor = 1, .bound = 1};
        while (b->n_to == 0 || b->n_from == 0 || !product_equal(&p, &q)) {
            bool more_to = i < to->rank, more_from = j < from->rank;
            if (!more_to && !more_from) {
                break;
            }
            if (more_to && (!more_from || p.bound <= q.bound)) {
                b->to[b->n_to++] = i;
                product_mul(&p, to->dim[i]);
                i = skip_ones(to, i + 1);
            } else {
                b->from[b->n_from++] = j;
                product_mul(&q, from->dim[j]);
                j = skip_ones(from, j + 1);
            }
        }
    }
}
