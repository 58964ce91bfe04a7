/* What the parts of the simplifier share: the list that is being written, with value numbering. Internal to src/kir. */
#ifndef LOCKSTEP_KIR_SIMPLIFY_H
#define LOCKSTEP_KIR_SIMPLIFY_H

#include "base/array.h"
#include "kir/kir.h"

/* Instructions being written. Equal movable instructions that are in scope get one number. */
typedef struct ls_kout {
    ls_heap *heap;
    LS_ARRAY(ls_ins) body;
    ls_val *heads; /* hash table of movable instructions in scope, chained by `chain` */
    size_t n_heads;
    LS_ARRAY(ls_val) chain;    /* by instruction */
    LS_ARRAY(ls_val) entered;  /* in the table, in order: a scope's end takes its own out again */
    bool failed;               /* out of memory */
} ls_kout;

bool ls_kout_init(ls_kout *out, ls_heap *heap, int32_t expected);
void ls_kout_free(ls_kout *out);
size_t ls_kout_scope(const ls_kout *out);
void ls_kout_scope_end(ls_kout *out, size_t mark);
/* Appends as it is. */
ls_val ls_kout_append(ls_kout *out, const ls_ins *ins);
/* Folds (fold.c), then finds an equal instruction or appends. */
ls_val ls_kout_add(ls_kout *out, ls_ins ins);

/* fold.c: a value equal to `ins` that is there or made from simpler ones, or LS_VAL_NONE. May change `ins` to an equal
 * instruction in normal form. */
ls_val ls_kir_fold(ls_kout *out, ls_ins *ins);

/* order.c: drops what no store needs and numbers the rest in order of use. Replaces the list. */
ls_status ls_kir_order(ls_heap *heap, ls_ins **body, int32_t *n_body, ls_error *err) LS_MUST_USE;

/* By LOOP its END_LOOP, by IF its ELSE or END_IF, by ELSE its END_IF. */
void ls_kir_match(const ls_ins *body, int32_t n, ls_val *out_match);

#endif
