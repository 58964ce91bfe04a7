/* Mutants that no input can tell from the right kernel, each with the reason. By
 * graph/kernel/operator/site/variant. */
#ifndef LOCKSTEP_TESTS_MUTANT_PROOFS_H
#define LOCKSTEP_TESTS_MUTANT_PROOFS_H

/* The contract's sum of up to 6 elements puts them into partials 0 to 5, adds partials 4 and 5 to 0 and 1,
 * then 2 and 3, then the two that are left. Read backwards, each addition has the same operands, exchanged:
 * addition commutes. */
#define MIRRORED "a sum of up to 6 elements is its own mirror image"
#define ANY_ORDER "the smallest is the same whatever the order, and however often an element is seen"

static const struct {
    const char *id, *proof;
} mutant_proofs[] = {
    {"variance/0/exchange/4/0", "x - m and m - x differ in the sign alone, and are only squared"},
    {"variance/0/load-flip/0/1", MIRRORED},
    {"column_sum/0/load-flip/0/2",
     "the innermost of the two axes has 2 elements: the last addition's operands are exchanged"},
    {"column_sum/0/load-flip/0/3",
     "even and odd partials hold 5 elements each, stride 2: each half is its own mirror image"},
    {"avg_pool/0/bound-order/2/0", "a count: sums of at most 6 ones are exact in any order"},
    {"avg_pool/0/accumulator/2/0", "a count: sums of at most 6 ones are exact in either dtype"},
    {"concat/0/pred-drop/0/0",
     "the value is only read where the predicates of both others fail, which is where its own holds"},
    {"pad_absent/0/load-flip/0/1", ANY_ORDER},
    {"pad_absent/0/pred-drop/0/0", "absent rows, wrapped round, are rows that are there: " ANY_ORDER},
    {"pad_absent/0/pred-shift/0/0", "the four rows are read, wrapped round: " ANY_ORDER},
    {"pad_absent/0/pred-shift/0/1", "the four rows are read, wrapped round: " ANY_ORDER},
    {"pad_absent/0/pred-limit/0/0", "the row beyond, wrapped round, is the first: " ANY_ORDER},
    {"pad_absent/0/bound-short/2/0", "the last row is absent"},
    {"absent_sum/0/load-flip/0/1",
     "7 elements in every second partial: ((x0+x4)+(x2+x6))+((x1+x5)+x3), its own mirror image"},
    {"absent_sum/0/bound-short/2/0", "the last element of a row is absent"},
    {"symbol_mean/0/load-flip/0/1", MIRRORED ", and the symbol is at most 6"},
};

#endif
