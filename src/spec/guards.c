/* Conjunctions of predicates: sorted, without what the rest implies, and interned, so that equal guards are one list. */
#include "spec/build.h"
#include <string.h>

#define MAX_PREDS 128
typedef struct pred_key {
    int n;
    ls_pred pred[MAX_PREDS];
} pred_key;

static bool list_equal(const ls_spec_builder *b, int32_t id, const void *key) {
    const pred_key *k = key;
    const ls_pred_list *l = &b->lists[id];
    return l->n == k->n &&
           (k->n == 0 || memcmp(&b->spec->preds[l->first], k->pred, sizeof(ls_pred) * (size_t)k->n) == 0);
}

static uint64_t pred_hash(const ls_pred *p, uint64_t seed) {
    return ls_hash_u64((uint64_t)(uint32_t)p->ix << 32 | (uint32_t)p->limit,
                       ls_hash_u64((uint64_t)p->multiple, seed));
}

static int32_t list_intern(ls_spec_builder *b, const pred_key *key) {
    uint64_t hash = (uint64_t)key->n;
    for (int i = 0; i < key->n; i++) {
        hash = pred_hash(&key->pred[i], hash);
    }
    if (!ls_builder_grow(b, (void **)&b->lists, &b->cap_lists, b->n_lists, sizeof(ls_pred_list))) {
        return 0;
    }
    int32_t *slot = ls_id_table_slot(b, &b->list_table, hash, list_equal, key);
    if (!slot) {
        return 0;
    }
    if (!*slot) {
        ls_pred_list list = {b->spec->n_preds, key->n, 0};
        for (int i = 0; i < key->n; i++) {
            if (!ls_builder_grow(b, (void **)&b->spec->preds, &b->cap_preds, b->spec->n_preds,
                                 sizeof(ls_pred))) {
                return 0;
            }
            b->spec->preds[b->spec->n_preds++] = key->pred[i];
            list.axes |= b->spec->ix[key->pred[i].ix].axes;
        }
        b->lists[b->n_lists] = list;
        *slot = ++b->n_lists;
    }
    return *slot - 1;
}

static int pred_compare(const ls_pred *a, const ls_pred *b) {
    return a->ix != b->ix               ? (a->ix < b->ix ? -1 : 1)
           : a->limit != b->limit       ? (a->limit < b->limit ? -1 : 1)
           : a->multiple != b->multiple ? (a->multiple < b->multiple ? -1 : 1)
                                        : 0;
}

/* Whether p holds wherever q does: 0 <= x < m gives 0 <= x + c < n for 0 <= c <= n - m. */
static bool pred_implied(const ls_spec *spec, const ls_pred *p, const ls_pred *q) {
    ls_lin x, y;
    if (p->limit == LS_SPEC_NONE || q->limit == LS_SPEC_NONE || spec->ix[p->limit].op != LS_IX_CONST ||
        spec->ix[q->limit].op != LS_IX_CONST) {
        return pred_compare(p, q) == 0;
    }
    return ls_lin_of(spec, p->ix, &x) && ls_lin_of(spec, q->ix, &y) && ls_lin_add(&x, &y, -1) && x.n == 0 &&
           x.c >= 0 && x.c <= spec->ix[p->limit].k - spec->ix[q->limit].k;
}

static void key_add(ls_spec_builder *b, pred_key *key, const ls_pred *pred) {
    int kept = 0, at = 0;
    for (int i = 0; i < key->n; i++) {
        if (pred_implied(b->spec, pred, &key->pred[i])) {
            return;
        }
    }
    for (int i = 0; i < key->n; i++) {
        if (!pred_implied(b->spec, &key->pred[i], pred)) {
            key->pred[kept++] = key->pred[i];
        }
    }
    key->n = kept;
    if (key->n == MAX_PREDS) {
        ls_status status =
            LS_FAIL(b->err, LS_ERR_UNSUPPORTED, "a kernel has over %d conditions on one load", MAX_PREDS);
        ls_builder_fail(b, status);
        return;
    }
    while (at < key->n && pred_compare(&key->pred[at], pred) < 0) {
        at++;
    }
    memmove(&key->pred[at + 1], &key->pred[at], sizeof(ls_pred) * (size_t)(key->n - at));
    key->pred[at] = *pred;
    key->n++;
}

void ls_guards_begin(ls_spec_builder *b) {
    pred_key empty = {.n = 0};
    list_intern(b, &empty);
}

int32_t ls_guards_and(ls_spec_builder *b, int32_t list, const ls_guard *guard) {
    pred_key key = {.n = 0};
    if (guard->n == 0) {
        return list;
    }
    key.n = b->lists[list].n;
    if (key.n) {
        memcpy(key.pred, &b->spec->preds[b->lists[list].first], sizeof(ls_pred) * (size_t)key.n);
    }
    for (int i = 0; i < guard->n; i++) {
        key_add(b, &key, &guard->pred[i]);
    }
    return b->status == LS_OK ? list_intern(b, &key) : LS_NO_GUARDS;
}
