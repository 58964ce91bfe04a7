/* How a reshape pairs axes: the smallest blocks of neighbouring axes, on either side, with as many
 * elements each. Axes of extent 1 belong to no block. With an empty axis there are no blocks at all
 * (nothing is ever read). */
#ifndef LOCKSTEP_PLAN_RESHAPE_H
#define LOCKSTEP_PLAN_RESHAPE_H

#include "graph/graph.h"

typedef struct ls_reshape_block {
    int n_to, n_from;
    int to[LS_MAX_RANK], from[LS_MAX_RANK]; /* axes of the result and of the operand, ascending */
} ls_reshape_block;
typedef struct ls_reshape_map {
    bool empty;
    int n_blocks;
    ls_reshape_block block[LS_MAX_RANK];
} ls_reshape_map;

void ls_reshape_match(const ls_shape *to, const ls_shape *from, ls_reshape_map *out);

#endif
