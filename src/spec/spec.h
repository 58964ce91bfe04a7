/* Kernel specs: what one fused kernel means, without threads.
 *
 * A spec is a list of axes, index expressions, values and stores. A value is a function from the axes that
 * it varies over to one scalar of its dtype (or to "absent"); it is rounded once to that dtype. A spec
 * means: for every point of each store's space, in row-major order, evaluate the value and store it.
 * Backends may do it in any way that gives those bits.
 *
 * Binding is functional: REDUCE over axis j of a value v means v as a function of j, whatever j is outside.
 * So LayerNorm is
 *   x = LOAD[i,j]; m = SUM{j}(x)/N; d = x-m; v = SUM{j}(d*d)/N; y = d/sqrt(v+eps)*g[j]+b[j]
 * over axes {i,j}, with m and v varying over {i} alone.
 *
 * Values and index expressions are hash-consed and topologically ordered: an id is only used by larger ids
 * (an index expression that reads a value, IX_VALUE, is used by larger value ids too).
 */
#ifndef LOCKSTEP_SPEC_SPEC_H
#define LOCKSTEP_SPEC_SPEC_H

#include "graph/graph.h"
#include "plan/plan.h"

#define LS_SPEC_MAX_AXES 64 /* axis sets are 64-bit masks */
#define LS_SPEC_NONE (-1)

/* ---- index expressions: i64, exact; DIV and MOD are floor division and its remainder, divisors > 0 ---- */
typedef enum ls_ix_op {
    LS_IX_CONST, /* k */
    LS_IX_AXIS,  /* axis number a */
    LS_IX_DIM,   /* extents[a] of the spec: an extent that holds a symbol */
    LS_IX_VALUE, /* value id a (an integer value loaded or computed) */
    LS_IX_ADD,   /* a + b */
    LS_IX_MUL,   /* a * b */
    LS_IX_DIV,   /* a div b */
    LS_IX_MOD    /* a mod b */
} ls_ix_op;
typedef struct ls_ix {
    uint8_t op;
    int32_t a, b;
    int64_t k;
    int64_t lo, hi;  /* proved inclusive range over all axes at their bounds; INT64_MIN/MAX when unknown */
    uint64_t axes;   /* the axes it depends on (through values too) */
} ls_ix;

/* ---- predicates: a conjunction ---- */
typedef struct ls_pred {
    int32_t ix;      /* holds when 0 <= ix < limit ... */
    int32_t limit;   /* an index expression, or LS_SPEC_NONE for the other form: */
    int64_t multiple;/* ... ix mod multiple == 0 */
} ls_pred;

/* ---- values ---- */
typedef enum ls_value_op {
    LS_V_CONST,    /* bits */
    LS_V_LOAD,     /* args[arg] at element ix (linear, of the layout by bounds); +0 when a predicate fails */
    LS_V_GUARD,    /* a when every predicate holds, else b; b LS_SPEC_NONE: absent */
    LS_V_INDEX,    /* the index expression `ix` as an integer of dtype */
    LS_V_MAP,      /* map (an ls_op of class MAP) of a, b, c */
    LS_V_RANDOM,   /* the Threefry word of key words a, b (u32) at counter `ix` */
    LS_V_REDUCE,   /* map (an ls_op of class REDUCE) of a over bound axes, linearised in their order */
    LS_V_CONTRACT, /* sum of a*b over bound axes, linearised in their order; absent terms (a or b is) skipped */
    LS_V_SCAN,     /* running scan of a along bound[0], in or exclusive, up or down: varies over that axis too */
    LS_V_SORT      /* position along bound[0], of rank bound[0], in the stable order of a */
} ls_value_op;

typedef struct ls_value {
    uint8_t op;      /* ls_value_op */
    uint8_t dtype;   /* ls_dtype, of the result */
    uint8_t acc;     /* REDUCE, CONTRACT, SCAN: the accumulator's dtype */
    uint16_t map;    /* MAP, REDUCE: ls_op; SCAN: ls_scan_kind; SORT: 1 descending */
    uint8_t exclusive, reverse; /* SCAN */
    int32_t a, b, c; /* operand value ids, or LS_SPEC_NONE */
    int32_t ix;      /* LOAD, INDEX, RANDOM */
    int32_t arg;     /* LOAD */
    uint64_t bits;   /* CONST */
    uint64_t axes;   /* the free axes it varies over */
    uint8_t n_bound;
    uint8_t bound[LS_MAX_RANK]; /* axis numbers, contract order */
    int32_t first_pred, n_preds; /* LOAD, GUARD: into spec->preds */
    int32_t limit;   /* LOAD of a gather: unless 0 <= check < limit (index expressions) it reads NaN (0 for */
    int32_t check;   /* integers) and the launch reports origin; a failed predicate comes first. Else LS_SPEC_NONE. */
    uint64_t origin; /* serial of the graph node that it came from */
} ls_value;

/* ---- arguments and stores ---- */
typedef struct ls_spec_arg {
    ls_dtype dtype;
    int64_t numel;   /* by bounds */
    bool written;
} ls_spec_arg;
typedef enum ls_combine { LS_STORE_SET, LS_STORE_ADD, LS_STORE_MUL, LS_STORE_MIN, LS_STORE_MAX } ls_combine;
typedef struct ls_store {
    int32_t arg;
    int32_t ix;         /* element written */
    int32_t value;
    int32_t n_axes;     /* the space: axes[0..n_axes), row-major, outermost first */
    uint8_t axes[LS_MAX_RANK + LS_MAX_RANK];
    int32_t first_pred, n_preds; /* points that fail store nothing */
    ls_combine combine; /* other than SET: read, combine with the rounded value, round; ascending points */
    int32_t check, limit; /* scatter: out-of-range points store nothing and are reported; as in ls_value */
    uint64_t origin;
} ls_store;

typedef struct ls_spec {
    ls_group_kind kind;
    ls_math math;
    int n_axes;
    ls_dim *extents_of_axes;            /* extent of each axis */
    int n_dims;
    ls_dim *dims;                       /* extents that IX_DIM names */
    int n_ix, n_values, n_preds, n_stores, n_args;
    ls_ix *ix;
    ls_value *values;
    ls_pred *preds;
    ls_store *stores;                   /* done in order: a scatter first stores its base */
    ls_spec_arg *args;                  /* reads in group order, then the roots */
    uint64_t hash;                      /* of the whole structure, serials apart */
    char name[48];                      /* of the kernel, from what it does: "contract_add_relu" */
} ls_spec;

/* Builds and verifies the spec of a group (not LOOP or COPY). Its arguments are group->reads, then
 * group->roots. The spec is the arena's. */
ls_status ls_spec_build(ls_arena *arena, const ls_group *group, ls_spec *out_spec, ls_error *err) LS_MUST_USE;
/* Checks what builders must keep: order, dtypes, axis sets, every index in bounds by its predicates. */
ls_status ls_spec_verify(const ls_spec *spec, ls_error *err) LS_MUST_USE;
/* Whole structure, serials of origins apart: the same kernel. */
bool ls_spec_equal(const ls_spec *a, const ls_spec *b);
void ls_spec_print(ls_text *out, const ls_spec *spec);
/* The points of a list of axes, by their bounds. */
int64_t ls_spec_points(const ls_spec *spec, const uint8_t *axes, int n_axes);
/* A copy in another arena. */
ls_status ls_spec_copy(ls_arena *arena, const ls_spec *spec, ls_spec *out_spec, ls_error *err) LS_MUST_USE;

/* ---- questions backends ask of index expressions (index.c) ---- */
/* Value of an expression; `axes` and `symbols` are values by axis number and by ls_symbol.index; `values`
 * by value id (for IX_VALUE). */
int64_t ls_ix_eval(const ls_spec *spec, int32_t ix, const int64_t *axes, const int64_t *symbols,
                   const int64_t *values);
/* When ix = stride * axis + rest with `rest` free of the axis, over the axis' whole range: true, with the
 * stride. */
bool ls_ix_affine(const ls_spec *spec, int32_t ix, int axis, int64_t *out_stride);

#endif
