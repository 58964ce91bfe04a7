/* The oracle: straight loops over the tensor graph in float64, with a rigorous radius for every element.
 *
 * For every element it gives the real-number result `mid` of the graph on the given leaf values and a radius
 * `rad` such that every implementation that follows the contract in the node's math kind lies within mid +-
 * rad. The radius is the sum of what the contract allows (unit roundoffs of each rounding it prescribes, by
 * the depth of its sums and the ULPs of its functions) and of the oracle's own float64 error, carried through
 * every operation to first order and beyond (interval ends, not derivatives, wherever a function is not
 * linear). Integers and bools are exact, or undecided (radius infinite, or 1 for a bool) where they follow
 * from a comparison inside a radius. It shares no code with lowering.
 * */
#ifndef LOCKSTEP_ORACLE_ORACLE_H
#define LOCKSTEP_ORACLE_ORACLE_H

#include "graph/graph.h"

typedef struct ls_ball {
    double m, r;
} ls_ball;

/* Values of one tensor, dense and row-major at the current symbol values. */
typedef struct ls_balls {
    ls_dtype dtype;
    int rank;
    int64_t dim[LS_MAX_RANK];
    int64_t n;
    double *mid;     /* floats */
    int64_t *exact;  /* integers and bools: two's complement */
    double *rad;     /* 0: exact; HUGE_VAL: undecided */
    uint8_t *absent; /* NULL when no element is */
} ls_balls;

/* Gives a leaf's values: dense, row-major at the symbol values, in the leaf's dtype; they stay valid during
 * the evaluation. Also asked for other nodes when `stop` says so: how a kernel is checked on the device's own
 * inputs. */
typedef struct ls_oracle_source {
    void *ctx;
    ls_status (*values)(void *ctx, const ls_tensor *node, const void **out_data, ls_error *err);
    bool (*stop)(void *ctx, const ls_tensor *node); /* NULL: at leaves alone */
    const int64_t *symbols;                         /* by ls_symbol.index; NULL: bounds */
} ls_oracle_source;

/* Evaluates roots; out_values[i] are the arena's. */
ls_status ls_oracle_eval(ls_arena *arena, const ls_oracle_source *source, ls_tensor *const *roots,
                         int n_roots, ls_balls *out_values, ls_error *err) LS_MUST_USE;

/* ---- the parts (ball.c, move.c, fold.c, index.c) ---- */
/* What one rounding to a dtype may cost, relative and absolute. */
double ls_unit_roundoff(ls_dtype dtype);
double ls_smallest(ls_dtype dtype);
/* An element-wise operation on balls, with the rounding to `out` included. */
ls_ball ls_ball_map(ls_op op, ls_dtype dtype, ls_dtype out, ls_math math, ls_ball a, ls_ball b);
/* ULPs that an elementary function may be off by in any arithmetic; more than the contract's (docs/elementary.md). */
double ls_oracle_ulps(ls_op op);
/* A real value in a radius, rounded to dtype by `roundings` halves of an ULP; overflow and the oracle's own
 * error included. */
ls_ball ls_ball_round(ls_dtype dtype, ls_ball x, double roundings);

typedef struct ls_oracle_eval_state ls_oracle_eval_state;
struct ls_oracle_eval_state {
    ls_arena *arena;
    const ls_oracle_source *source;
    ls_error *err;
    ls_map values; /* node -> ls_balls */
};
ls_balls *ls_oracle_get(ls_oracle_eval_state *st, const ls_tensor *node); /* already evaluated */
ls_balls *ls_balls_new(ls_oracle_eval_state *st,
                       const ls_tensor *node); /* of node's dtype and shape; NULL out of memory */
ls_ball ls_balls_at(const ls_balls *x, int64_t i);
ls_status ls_oracle_move(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out);
ls_status ls_oracle_reduce(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out);
ls_status ls_oracle_contract(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out);
ls_status ls_oracle_scan(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out);
ls_status ls_oracle_gather(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out);
ls_status ls_oracle_scatter(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out);
ls_status ls_oracle_argsort(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out);
/* Integer scalars by the contract (wrap, x/0 = 0, ...). */
int64_t ls_oracle_integer(ls_op op, ls_dtype dtype, ls_dtype out, int64_t a, int64_t b);
int64_t ls_oracle_wrap(ls_dtype dtype, int64_t value);

/* Odometer over dims: advances index, false at the end. */
static inline bool ls_next_index(int rank, const int64_t *dim, int64_t *index) {
    for (int i = rank - 1; i >= 0; i--) {
        if (++index[i] < dim[i]) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}

#endif
