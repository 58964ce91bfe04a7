/* Mutants of kernel specs: each carries one fault, planted on purpose, that some check must catch.
 *
 * A mutation is an operator at a site of one spec, in a variant. The mutated spec is well formed
 * (ls_spec_verify holds: what would read or write outside its argument is wrapped round), so that a device
 * runs it like any other. */
#ifndef LOCKSTEP_SPEC_MUTATE_H
#define LOCKSTEP_SPEC_MUTATE_H

#include "spec/spec.h"

typedef enum ls_mutator {
    LS_MUTATE_STORE_DROP,    /* nothing is stored */
    LS_MUTATE_STORE_ZERO,    /* 0 is stored */
    LS_MUTATE_STORE_INDEX,   /* one element further, or back */
    LS_MUTATE_STORE_COMBINE, /* set instead of combine, and the reverse */
    LS_MUTATE_OPCODE,        /* a map of the same kind instead */
    LS_MUTATE_IGNORE,        /* an operand of a map stands for its result */
    LS_MUTATE_EXCHANGE,      /* two operands change places */
    LS_MUTATE_CONST,         /* a constant is one more, or one less */
    LS_MUTATE_INDEX_VALUE,   /* an index taken as a value is one more, or one less */
    LS_MUTATE_LOAD_SHIFT,    /* one element further, or back */
    LS_MUTATE_LOAD_SWAP,     /* the strides of two axes change places */
    LS_MUTATE_LOAD_AXIS,     /* an axis is ignored */
    LS_MUTATE_LOAD_FLIP,     /* an axis is read backwards */
    LS_MUTATE_LOAD_DENSE,    /* read as if it lay row-major in the kernel's axes */
    LS_MUTATE_LOAD_SHORT,    /* the last element along an axis is read as 0 */
    LS_MUTATE_PRED_DROP,     /* a predicate does not hold anything back */
    LS_MUTATE_PRED_SHIFT,    /* a predicate's range is one further, or one back */
    LS_MUTATE_PRED_LIMIT,    /* ... ends one earlier, or one later */
    LS_MUTATE_CHECK_DROP,    /* an index out of range goes unnoticed */
    LS_MUTATE_REDUCE,        /* another reduction */
    LS_MUTATE_BOUND_SHORT,   /* the last element of a bound axis is left out */
    LS_MUTATE_BOUND_ORDER,   /* two bound axes change places */
    LS_MUTATE_ACCUMULATOR,   /* another dtype to sum in */
    LS_MUTATE_SCAN,          /* inclusive, exclusive, up, down, what is run, the order of a sort */
    LS_MUTATOR_COUNT
} ls_mutator;

typedef struct ls_mutation {
    ls_mutator mutator;
    int site;    /* a value's or a store's id */
    int variant; /* from 0 */
} ls_mutation;

/* "load-swap", ... */
const char *ls_mutator_name(ls_mutator mutator);
/* How many variants a mutator has at a site (0: it does not apply). Sites are 0 .. ls_mutator_sites - 1. */
int ls_mutator_sites(const ls_spec *spec, ls_mutator mutator);
int ls_mutator_variants(const ls_spec *spec, ls_mutator mutator, int site);
/* The mutant, in the arena. LS_ERR_UNSUPPORTED when no well-formed spec says it. */
ls_status ls_spec_mutate(ls_arena *arena, const ls_spec *spec, const ls_mutation *mutation, ls_spec *out_spec,
                         ls_error *err) LS_MUST_USE;

#endif
