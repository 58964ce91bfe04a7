/* The tensor graph: immutable, interned nodes. What ls_tensor is inside.
 *
 * Invariants: operands of a MAP have the node's shape (builders broadcast with EXPAND first); every axis in
 * an attribute is normalised to 0..rank-1; unused attribute bytes are 0, so that equality is memcmp; a node
 * holds a reference on its operands.
 * */
#ifndef LOCKSTEP_GRAPH_GRAPH_H
#define LOCKSTEP_GRAPH_GRAPH_H

#include "base/alloc.h"
#include "base/array.h"
#include "base/dtype.h"
#include "base/map.h"
#include "base/status.h"
#include "base/text.h"
#include <lockstep/ops.h>
#include <lockstep/tensor.h>

typedef enum ls_op {
#define OP(id, name, arity, class, dtypes, doc) LS_OP_##id,
#include "graph/op.def"
#undef OP
    LS_OP_COUNT
} ls_op;

typedef enum ls_op_class {
    LS_CLASS_LEAF,
    LS_CLASS_MAP,
    LS_CLASS_REDUCE,
    LS_CLASS_SCAN,
    LS_CLASS_MOVE,
    LS_CLASS_CONTRACT,
    LS_CLASS_GATHER,
    LS_CLASS_SCATTER,
    LS_CLASS_SORT,
    LS_CLASS_RANDOM,
    LS_CLASS_COPY,
    LS_CLASS_LOOP
} ls_op_class;

typedef struct ls_op_info {
    const char *id, *name; /* "ADD", "add" */
    int arity;
    ls_op_class op_class;
    int dtypes; /* ls_dtypes: what operands may be */
} ls_op_info;
extern const ls_op_info ls_ops[LS_OP_COUNT];

typedef enum ls_dtypes {
    LS_DTYPES_ANY,
    LS_DTYPES_NUM,
    LS_DTYPES_FLOAT,
    LS_DTYPES_INT,
    LS_DTYPES_INTEGER,
    LS_DTYPES_SPECIAL /* the builder says */
} ls_dtypes;
bool ls_op_accepts(ls_op op, ls_dtype dtype);
/* "a floating dtype", ...: what LS_DTYPES_* asks for, for messages. */
const char *ls_dtypes_text(int dtypes);

/* ---- extents ---- */
struct ls_symbol {
    ls_symbol *next; /* of the context */
    char *name;
    int64_t bound;
    int index; /* dense within the context: where its value stands in a table of values */
    const ls_heap *heap; /* the context's, which tells it from another's symbol; NULL: any fits */
};
static inline ls_dim ls_dim_fixed(int64_t n) { return (ls_dim){NULL, 0, n}; }
static inline bool ls_dim_is_fixed(ls_dim d) { return d.symbol == NULL; }
static inline bool ls_dim_is_one(ls_dim d) { return ls_dim_is_fixed(d) && d.offset == 1; }
static inline bool ls_dim_equal(ls_dim a, ls_dim b) {
    return a.symbol == b.symbol && a.scale == b.scale && a.offset == b.offset;
}
/* The most an extent can be: buffers are laid out, row-major, by these, so strides never depend on a symbol's
 * value. */
static inline int64_t ls_dim_bound(ls_dim d) { return d.symbol ? d.scale * d.symbol->bound + d.offset : d.offset; }
/* `values` is indexed by ls_symbol.index; NULL takes every bound. */
static inline int64_t ls_dim_eval(ls_dim d, const int64_t *values) {
    return d.symbol == NULL ? d.offset : values == NULL ? ls_dim_bound(d) : d.scale * values[d.symbol->index] + d.offset;
}
bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
bool ls_shape_is_fixed(const ls_shape *shape);
int64_t ls_shape_numel(const ls_shape *shape, const int64_t *values);
void ls_shape_bounds(const ls_shape *shape, int64_t out_dims[LS_MAX_RANK]);
void ls_shape_strides(const ls_shape *shape, int64_t out_strides[LS_MAX_RANK]); /* row-major over the bounds, in elements */
/* "[2,3,B,2*B+1]"; returns buf. */
#define LS_SHAPE_TEXT 160
const char *ls_shape_text(const ls_shape *shape, char buf[LS_SHAPE_TEXT]);

/* ---- attributes: what an operation has besides operands. One member a class; zeroed before it is filled
 * ---- */
typedef struct ls_attr_axes { /* REDUCE: axes in declared order; PERMUTE: result axis i is operand axis axes[i] */
    int count;
    int axes[LS_MAX_RANK];
} ls_attr_axes;
typedef struct ls_attr_pad {
    int64_t low[LS_MAX_RANK], high[LS_MAX_RANK], interior[LS_MAX_RANK];
    uint64_t value; /* bits of the node's dtype, low bytes first */
    int absent;     /* new elements are absent: REDUCE and CONTRACT that reach them through MOVE alone skip them; all else reads +0 */
} ls_attr_pad;
typedef struct ls_attr_slice { /* result[i] = x[start + i * step]; the extents are the node's shape */
    int64_t start[LS_MAX_RANK], step[LS_MAX_RANK];
} ls_attr_slice;
typedef struct ls_attr_window {
    int count;
    int axes[LS_MAX_RANK];
    int64_t size[LS_MAX_RANK], stride[LS_MAX_RANK], dilation[LS_MAX_RANK];
} ls_attr_window;
typedef struct ls_attr_axis { /* IOTA, CONCAT, GATHER, SCATTER, ARGSORT, SCAN */
    int axis;
    int kind;               /* SCAN: ls_scan_kind; SCATTER: ls_scatter_kind; ARGSORT: 1 descending */
    int exclusive, reverse; /* SCAN */
} ls_attr_axis;
typedef struct ls_attr_leaf {
    void *object;     /* VAR: its ls_var; DATA, INPUT: NULL, and `serial` makes it unique */
    uint64_t serial;  /* VAR: its version within the session; INPUT, PARAM, DATA: unique in the context */
} ls_attr_leaf;
typedef struct ls_body ls_body;
typedef struct ls_attr_loop {
    ls_body *body;
    ls_dim trip;
    int result; /* RESULT: which; carries first, then ys */
} ls_attr_loop;
typedef union ls_attr {
    uint64_t value; /* CONST: bits of the dtype */
    ls_dim dim;     /* DIM */
    ls_attr_axes axes;
    ls_attr_pad pad;
    ls_attr_slice slice;
    ls_attr_window window;
    ls_contract_spec contract; /* unused entries 0 */
    ls_attr_axis axis;
    ls_attr_leaf leaf;
    ls_attr_loop loop;
    ls_device *device; /* COPY */
} ls_attr;

typedef struct ls_buffer ls_buffer; /* device/device.h */

struct ls_tensor {
    ls_session *session;
    ls_op op;
    ls_dtype dtype;
    ls_math math;
    ls_shape shape;
    ls_device *device; /* NULL: any */
    uint64_t hash, serial;
    long refs;         /* the session's thread alone */
    int n_src;
    ls_tensor **src;
    ls_attr attr;
    ls_buffer *value;  /* the computed value, laid out by bounds; NULL before */
    char *label;       /* INPUT: its name; else NULL */
    const char *origin; /* what a report calls the maker of it; the session's; NULL: nothing */
    void *mark;        /* scratch of the pass at work; NULL between passes */
    bool interned;
    bool absent;       /* some elements may be absent: only movement lies between this node and a PAD with absent */
};

/* The body of a loop. Parameters, in the order of the LOOP's operands: [iteration, carries, xs slices,
 * captures]; the LOOP's own operands are [carries, xs, captures]. Results: [carries, ys]. */
struct ls_body {
    int n_carry, n_xs, n_captures, n_ys;
    ls_tensor *iteration;
    ls_tensor **params;  /* carries, xs slices, captures: PARAM nodes */
    ls_tensor **results; /* carries, ys */
    long refs;
};

/* ---- the session, as the graph layer sees it ---- */
typedef struct ls_scope_mark {
    size_t first; /* into ls_graph.owned */
} ls_scope_mark;
typedef struct ls_graph {
    ls_heap *heap;
    ls_session *session;
    ls_error error; /* the first */
    ls_map nodes;   /* interned */
    LS_ARRAY(ls_tensor *) owned;
    LS_ARRAY(ls_scope_mark) scopes;
    ls_math math;
    ls_device *device;
    uint64_t serial;
    const char *origin; /* of the nodes that are made now */
    ls_map origins;     /* texts, each once */
    const int64_t *symbol_values;            /* set by the engine: by ls_symbol.index; NULL takes every bound */
    void (*release_value)(ls_buffer *value); /* set by the engine */
} ls_graph;
ls_status ls_graph_init(ls_graph *graph, ls_heap *heap, ls_session *session);
void ls_graph_free(ls_graph *graph);
/* The graph's own copy of a text; NULL when there is no memory for one. */
const char *ls_graph_origin(ls_graph *graph, const char *text);
/* The graph of a session: the first member of ls_session (engine/session.h). */
static inline ls_graph *ls_graph_of(ls_session *session) { return (ls_graph *)session; }

/* Interns a node: the shape and dtype are the caller's, already checked. `attr` NULL is all zero. NULL on
 * failure (recorded). */
ls_tensor *ls_node(ls_session *s, ls_op op, ls_dtype dtype, const ls_shape *shape, int n_src, ls_tensor *const *src,
                   const ls_attr *attr);
/* A leaf with a device of its own (ls_node gives DATA, INPUT and VAR the session's). `label` may be NULL;
 * copied. */
ls_tensor *ls_leaf(ls_session *s, ls_op op, ls_dtype dtype, const ls_shape *shape, ls_device *device, ls_attr_leaf leaf,
                   const char *label);
/* The same operation, dtype, shape, attributes and math kind over other operands. */
ls_tensor *ls_node_with(ls_session *s, const ls_tensor *node, ls_tensor *const *src);
/* Gives the innermost scope a reference on a tensor that a builder returns unchanged; returns it. NULL
 * passes. */
ls_tensor *ls_own(ls_session *s, ls_tensor *x);
/* A number that no other leaf of the session has. */
uint64_t ls_leaf_serial(ls_session *s);
/* Frees a body that no LOOP holds any more; each LOOP node holds one reference. NULL is allowed. */
void ls_body_release(ls_session *s, ls_body *body);
/* Checks operands (NULL, session, device) before a builder looks at them; false when the builder must return
 * NULL. */
bool ls_check_operands(ls_session *s, const char *operation, int n_src, ls_tensor *const *src);
/* Records an error in the session and returns NULL. */
ls_tensor *ls_node_fail(ls_session *s, ls_status code, const char *file, int line, const char *fmt, ...) LS_PRINTF(5, 6);
#define LS_NODE_FAIL(s, code, ...) ls_node_fail((s), (code), LS_FILE, LS_LINE, __VA_ARGS__)

/* Nodes reachable from roots, operands before users, each once; deterministic: depth first, operands left to
 * right. Does not enter loop bodies. The array is the arena's. NULL when out of memory. Uses node->mark and
 * leaves it NULL. */
ls_tensor **ls_graph_order(ls_arena *arena, ls_tensor *const *roots, int n_roots, int *out_count);

/* Constants in the graph: whether x is CONST (or movement of one, when every element is the same). */
bool ls_is_const(const ls_tensor *x, double *out_value);
/* The bits of a double (or integer) rounded once to a dtype, and back. */
uint64_t ls_value_from_f64(ls_dtype dtype, double value);
uint64_t ls_value_from_i64(ls_dtype dtype, int64_t value);
double ls_value_to_f64(ls_dtype dtype, uint64_t bits);

/* What sums of this dtype accumulate in: f32 for f16, bf16 and f32; f64; i32 for i8 and i16, u32 for u8 and
 * u16 in reductions (i32 in contractions); itself otherwise. */
ls_dtype ls_dtype_accumulator(ls_dtype dtype, bool contraction);

/* ---- graph passes (rewrite.c) and printing (print.c) ---- */
/* Bit-preserving simplifications from the proved list (docs/contract.md). */
ls_status ls_rewrite(ls_session *s, ls_tensor **roots, int n_roots);
/* Movement that leads to windows: the operand of a convolution. */
bool ls_reads_windows(const ls_tensor *x);
/* Lays the operands of convolutions out as the contraction goes through them: batch, free, then contracted axes in their
 * order. What the planner then keeps in memory (LS_PLAN_IM2COL) are the matrices of a product. Keeps bits. */
ls_status ls_rewrite_im2col(ls_session *s, ls_tensor **roots, int n_roots);

void ls_graph_print(ls_text *out, ls_tensor *const *roots, int n_roots);

#endif
