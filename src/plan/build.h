/* Internal to src/plan: what the passes of the planner share. */
#ifndef LOCKSTEP_PLAN_BUILD_H
#define LOCKSTEP_PLAN_BUILD_H

#include "plan/plan.h"

#define LS_MOST_MOVES 64   /* a chain of movement is cut after as many */
/* What an axis of a node is in its group: bits, of the group's axis or the neighbouring ones that together are it, or */
#define LS_AXIS_NONE 0     /* an axis of extent 1 */
#define LS_AXIS_OTHER (-1) /* and below: an index that is no axis of the group, told apart by number */

/* A draft of a group: its space is the axes of its root, or what a reshape splits them into, then those that a reduction binds. */
#define LS_DRAFT_ROOTS 4
#define LS_DRAFT_AXES (3 * LS_MAX_RANK) /* of extent 1, and pieces of others; and reduced ones */
typedef struct ls_draft {
    struct ls_plan_node *root; /* the last in the order of nodes; roots[0] */
    int n_roots;
    struct ls_plan_node *roots[LS_DRAFT_ROOTS];
    int index, mark; /* of its group before sorting; of the search that last visited it */
    ls_group_kind kind;
    int n_nodes, n_reduce;
    int n_axes, n_own;              /* of the space; those of the root */
    int32_t axis[LS_MAX_RANK];      /* which of them are each of the root's, as in a site */
    ls_dim extent[LS_DRAFT_AXES];   /* of the axes of the space */
    bool has_rows;                  /* reductions fix which axes are inner: */
    int first_inner, n_inner;
    int next_other;
} ls_draft;

/* One way in which a group evaluates a node: at which of the group's axes, and how often. */
typedef struct ls_site {
    struct ls_site *next;
    ls_draft *draft;
    int32_t axis[LS_MAX_RANK];
    double evals;
    bool bijective; /* from the group's result to here by maps and one-to-one movement alone */
    bool guarded;   /* under PAD, CONCAT or overlapping windows */
    bool overlap;   /* under overlapping windows */
    bool windowed;  /* under windows */
    bool joined;    /* under CONCAT */
    bool contract;  /* an operand of a CONTRACT */
    bool once;      /* must be computed before: a random key, what is sorted, what a scatter rereads */
    int depth; /* maps above it that are evaluated more often than they have elements */
} ls_site;

typedef struct ls_plan_node {
    ls_tensor *node;
    bool leaf, wanted, buffer; /* buffer: some reader needs it in memory */
    bool stored;               /* materialised by a group of this plan */
    bool absent;               /* movement with absent elements below */
    bool attends;              /* the last product of an attention */
    const char *not_fused;     /* why that cannot be one kernel */
    bool codes;                /* part of a dequantised operand: see LS_PLAN_CODES */
    bool each;                 /* computed by each of its users: see LS_PLAN_SPARSE */
    bool patches;              /* and yet read from memory: see LS_PLAN_IM2COL */
    int users, again; /* operands that it is of others; maps above it that several groups compute each */
    int moves;       /* the longest chain of movement from here down */
    bool contracted;           /* a CONTRACT below maps and one-to-one movement */
    int light; /* 1 + depth of a cheap expression of constants that every reader computes itself; 0: not so */
    int simple; /* 1 + depth of a cheap expression of leaves; 0: not so */
    ls_site *sites;
    ls_draft *draft;
    int walked, read; /* the last group whose reads were gathered through it, or that reads it */
    int mark;         /* the last search that visited it */
} ls_plan_node;

typedef struct ls_planner {
    ls_arena *arena, *out; /* what is thrown away, and the plan */
    bool fusion, im2col, attention, permuted, codes, sparse;
    int n_nodes, n_searches;
    ls_plan_node *nodes; /* operands before users; node->mark points here */
} ls_planner;

#define MAX_GROUP_NODES 128 /* values of a kernel, so that no kernel grows without limit */

static inline ls_plan_node *ls_plan_node_of(const ls_tensor *x) {
    return x->mark;
}
static inline ls_op_class ls_class_of(const ls_tensor *x) {
    return ls_ops[x->op].op_class;
}
bool ls_op_is_expensive(ls_op op);
double ls_plan_numel(const ls_shape *shape); /* at the bounds, at least 1 */

/* Nodes reachable without passing leaves (order.c). Marks stay set until ls_plan_unmark. */
bool ls_plan_order(ls_planner *p, ls_tensor *const *roots, int n_roots);
void ls_plan_unmark(ls_planner *p);
/* Whether a draft needs, directly or through others, what another one stores; among the nodes placed so
 * far (order.c). False in *out_ok: out of memory. */
bool ls_draft_needs(ls_planner *p, ls_draft *draft, const ls_draft *other, bool *out_ok);
/* The groups of the drafts, in order, with their reads (order.c). */
bool ls_plan_emit(ls_planner *p, ls_plan *out_plan);
/* What a gather of `x` loads from: the first node in memory, or that must be, below movement without
 * predicates (order.c). */
ls_plan_node *ls_plan_gather_base(const ls_tensor *x);

/* Whether a node is the last product of an attention; then why it cannot be one kernel, or NULL (attention.c). */
bool ls_attention_find(const ls_planner *p, const ls_plan_node *n, const char **out_reason);
/* Puts what is inside into the draft, and what it reads into memory. */
void ls_attention_join(const ls_planner *p, const ls_plan_node *n, struct ls_draft *draft);

/* Has the users of `n` compute it, if it is the gradient of an extreme over windows that share nothing (chosen.c). */
void ls_plan_find_chosen(const ls_plan_node *n);

/* Adds a site to a node, merging it with an equal one (site.c). */
bool ls_site_add(ls_planner *p, ls_plan_node *n, const ls_site *site);
/* Gives the operands of `n` the sites that follow from `site` (site.c). */
bool ls_site_expand(ls_planner *p, ls_plan_node *n, const ls_site *site);
/* How often a node is evaluated at a site with these axes: rows are computed once each. */
double ls_site_evals(const ls_draft *draft, const int32_t *axis, int rank, double otherwise);

#endif
