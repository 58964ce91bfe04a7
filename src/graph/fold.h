/* Arithmetic on single values, by the contract, for folding constants. Internal to src/graph. */
#ifndef LOCKSTEP_GRAPH_FOLD_H
#define LOCKSTEP_GRAPH_FOLD_H

#include "graph/graph.h"

/* The bits of op(operands), of node x's dtype; false when x is no MAP of constants, or its operation is
 * not folded. */
bool ls_fold(const ls_tensor *x, uint64_t *out_bits);

#endif
