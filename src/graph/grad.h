/* Reverse-mode differentiation: the walk (grad.c) and a rule for each operation (grad_map.c, grad_move.c,
 * grad_fold.c, grad_loop.c). */
#ifndef LOCKSTEP_GRAPH_GRAD_H
#define LOCKSTEP_GRAPH_GRAD_H

#include "graph/build.h"
#include <lockstep/grad.h>

/* The walk under way: cotangents by node. */
typedef struct ls_grad_state {
    ls_session *s;
    ls_arena *arena;
    ls_map index; /* node -> its entry */
    struct ls_grad_entry *entries;
    ls_status status;
} ls_grad_state;

/* Whether x leads to something differentiated: rules skip work for operands that do not. */
bool ls_grad_wanted(const ls_grad_state *st, const ls_tensor *x);
/* Whether x itself is differentiated. */
bool ls_grad_asked(const ls_grad_state *st, const ls_tensor *x);
/* Adds a contribution to x's cotangent (NULL is an error already recorded). Of x's shape and dtype. */
void ls_grad_give(ls_grad_state *st, const ls_tensor *x, ls_tensor *cotangent);
/* The cotangent that result `i` of a LOOP has so far; NULL when none. */
ls_tensor *ls_grad_of_result(ls_grad_state *st, const ls_tensor *loop, int i);

/* Gives the operands of y = op(src...) their contributions from y's cotangent g. NULL: nothing passes (a step
 * function, an integer). */
typedef void (*ls_grad_rule)(ls_grad_state *st, ls_tensor *y, ls_tensor *g);
ls_grad_rule ls_grad_rule_of(ls_op op);

/* Several roots, each with its own seed. With `ends`, the walk goes no further than each of xs: they are
 * taken as independent of each other. */
ls_status ls_grad_many(ls_session *s, int n_roots, ls_tensor *const *roots, ls_tensor *const *seeds,
                       int count, ls_tensor *const *xs, bool ends, ls_tensor **out_grads);

extern const ls_grad_rule ls_grad_map_rules[LS_OP_COUNT];
extern const ls_grad_rule ls_grad_move_rules[LS_OP_COUNT];
extern const ls_grad_rule ls_grad_fold_rules[LS_OP_COUNT];
void ls_grad_loop(ls_grad_state *st, ls_tensor *loop);
/* The adjoint of a window in the operand that it slides over: overlapping windows added in ascending offset.
 */
ls_tensor *ls_grad_window(ls_session *s, const ls_tensor *window, ls_tensor *g);

#endif
