/* Fusion boundaries and order: which nodes a kernel computes together.
 *
 * Input: the roots of a graph (outputs and assigned values). Output: groups in an order that respects
 * dependencies. Each group materialises its `roots` (usually one) in buffers; every other node in it is
 * computed on the way and never stored. A node that is materialised is a leaf for the groups that read it.
 * Movement never materialises on its own account between a source and a REDUCE or CONTRACT (that is what
 * keeps absent elements absent); leaves are never in a group.
 */
#ifndef LOCKSTEP_PLAN_PLAN_H
#define LOCKSTEP_PLAN_PLAN_H

#include "graph/graph.h"

typedef enum ls_group_kind {
    LS_GROUP_POINTWISE, /* maps and movement only */
    LS_GROUP_REDUCE,    /* reductions over one inner space of common rows, with what is before and after */
    LS_GROUP_CONTRACT,  /* one contraction, with what is before and after */
    LS_GROUP_SCAN,      /* the root is the SCAN; maps and movement before it */
    LS_GROUP_SORT,      /* the root is the ARGSORT */
    LS_GROUP_SCATTER,   /* the root is the SCATTER: base copied, then updates */
    LS_GROUP_LOOP,      /* a LOOP node with all its RESULTs: no kernel, the engine runs its body's plan */
    LS_GROUP_COPY,      /* a COPY node: no kernel, the engine moves its one read to the node's device */
    LS_GROUP_ATTENTION  /* the root is the product of a softmax of scores, all from the scores' contraction on */
} ls_group_kind;

typedef struct ls_group {
    ls_group_kind kind;
    int n_roots;
    ls_tensor **roots; /* materialised, all of one shape; all but the first are computed on the way to it
                          (LOOP: its RESULT nodes, in result order, unused ones NULL) */
    int n_reads;
    ls_tensor **reads; /* leaves and materialised nodes that it loads, in first-use order; each once */
    bool convolves;    /* its contraction reads windows, through index maps */
    bool no_im2col;    /* and cannot have them in memory */
    ls_tensor *attends;    /* the last product of an attention, which other groups begin; else NULL */
    const char *not_fused; /* why that cannot be one kernel; NULL: it can */
} ls_group;

typedef struct ls_plan {
    int n_groups;
    ls_group *groups; /* in execution order */
} ls_plan;

/* `how` is these, or-ed. Without FUSION, every MAP, REDUCE and CONTRACT is a group of its own (movement still folds into its
 * reader). The plan is the arena's. Same graph, same plan: deterministic. With IM2COL the operands
 * of convolutions are materialised, absent elements as +0; who skips them tells them by their index. With PERMUTED a convolution that nothing
 * follows in its kernel is stored in the order in which it is read (channels first), instead of its own. With CODES an operand of a
 * contraction that is dequantised (integer codes times a scale) is computed in its kernel, however long its formula: the device keeps codes. With SPARSE what is not
 * locked and has one element in each window that is not zero, as the gradient of a max-pooling, is computed by the products and sums that read it. */
enum { LS_PLAN_FUSION = 1, LS_PLAN_IM2COL = 2, LS_PLAN_ATTENTION = 4 /* each in one kernel, where it can be */, LS_PLAN_PERMUTED = 8,
       LS_PLAN_CODES = 16, LS_PLAN_SPARSE = 32 };
enum { LS_ATTENTION_TESTS = 2 }; /* that may stand between an attention's softmax and product, each making whole rows 0 */
ls_status ls_plan_build(ls_arena *arena, ls_tensor *const *roots, int n_roots, int how, ls_plan *out_plan,
                        ls_error *err) LS_MUST_USE;
/* Whether a node is materialised before any group runs: DATA, INPUT, VAR, PARAM, or a node that already
 * has a value; but movement with absent elements below it is never read from its value, which has +0 in
 * their place. */
bool ls_plan_is_leaf(const ls_tensor *node);
/* Whether movement leads from the node to a PAD with absent elements. */
bool ls_plan_has_absent(const ls_tensor *node);
/* Whether an element of movement is absent can be told from its index alone: no padding with values above that without. */
bool ls_plan_tells_absent(const ls_tensor *node);
void ls_plan_print(ls_text *out, const ls_plan *plan);

#endif
