/* Internal to src/spec: the builder of specs, and linear forms of index expressions.
 *
 * Failure is sticky: after the first one every function still returns a valid id (0), and `status` says
 * what went wrong. Index expressions are kept in one normal form: a sum of coefficient * atom, atoms by
 * ascending id, the constant last; an atom is an axis, an extent, a value, a DIV, a MOD, or a product of
 * two of these. */
#ifndef LOCKSTEP_SPEC_BUILD_H
#define LOCKSTEP_SPEC_BUILD_H

#include "spec/spec.h"

typedef struct ls_id_table { /* open addressing; a slot holds id + 1, 0 is empty */
    int32_t *slots;
    uint64_t *hashes;
    int cap, len;
} ls_id_table;

/* A dimension's axis, perhaps split into several of the spec's axes, outermost first. */
typedef struct ls_logical_axis {
    ls_dim extent;
    int first, count; /* axes of the spec: first .. first + count */
    bool whole;       /* must not be split: the axis of a scan or sort */
} ls_logical_axis;

typedef struct ls_split { /* the extents that logical axis number `axis` is split into */
    int count;
    int64_t extent[LS_MAX_RANK];
} ls_split;

struct ls_memo;
typedef struct ls_spec_builder {
    ls_arena *arena;
    ls_error *err;
    ls_status status;
    const ls_group *group;
    ls_spec *spec;
    int cap_ix, cap_values, cap_preds, cap_dims, cap_memo, n_memo, cap_lists, n_lists;
    ls_id_table ix_table, value_table, list_table, memo_table;
    struct ls_memo *memo;
    struct ls_pred_list *lists;
    int n_logical;
    ls_logical_axis logical[LS_SPEC_MAX_AXES];
    bool too_fine;          /* failed for having too many axes */
    const ls_split *splits; /* by logical axis, LS_SPEC_MAX_AXES of them */
} ls_spec_builder;

/* Makes room for one more element in an array of the arena; false (and a failure) when out of memory. */
bool ls_builder_grow(ls_spec_builder *b, void **data, int *cap, int len, size_t elem);
typedef bool (*ls_id_equal)(const ls_spec_builder *b, int32_t id, const void *key);
/* The slot of `key`: its id + 1, or 0 for the caller to fill, with ls_id_table.len counted up. NULL when
 * out of memory. */
int32_t *ls_id_table_slot(ls_spec_builder *b, ls_id_table *table, uint64_t hash, ls_id_equal equal,
                          const void *key);
void ls_builder_fail(ls_spec_builder *b, ls_status status);

/* ---- index expressions ---- */
int32_t ls_ix_const(ls_spec_builder *b, int64_t k);
int32_t ls_ix_axis(ls_spec_builder *b, int axis); /* an axis of the spec; 0 when its extent is 1 */
int32_t ls_ix_dim(ls_spec_builder *b, ls_dim dim);
int32_t ls_ix_value(ls_spec_builder *b, int32_t value);
int32_t ls_ix_add(ls_spec_builder *b, int32_t x, int32_t y);
int32_t ls_ix_add_const(ls_spec_builder *b, int32_t x, int64_t k);
int32_t ls_ix_sub(ls_spec_builder *b, int32_t x, int32_t y);
int32_t ls_ix_scale(ls_spec_builder *b, int32_t x, int64_t k);
int32_t ls_ix_mul(ls_spec_builder *b, int32_t x, int32_t y);
int32_t ls_ix_div(ls_spec_builder *b, int32_t x, int32_t y); /* floor; y > 0 wherever it is evaluated */
int32_t ls_ix_mod(ls_spec_builder *b, int32_t x, int32_t y);

/* ---- linear forms ---- */
#define LS_LIN_MAX 32
typedef struct ls_lin {
    int n;
    int64_t c;
    struct {
        int32_t atom;
        int64_t k;
    } t[LS_LIN_MAX];
} ls_lin;
/* False when it has too many terms or a coefficient overflows. */
bool ls_lin_of(const ls_spec *spec, int32_t ix, ls_lin *out);
/* out += k * x. */
bool ls_lin_add(ls_lin *out, const ls_lin *x, int64_t k);
/* out += k * atom. */
bool ls_lin_add_atom(ls_lin *out, int32_t atom, int64_t k);
/* The range of a form by its atoms' ranges; INT64_MIN/MAX when unknown. */
void ls_lin_range(const ls_spec *spec, const ls_lin *x, int64_t *out_lo, int64_t *out_hi);
/* Whether ix < limit is proved at every point, whatever the symbols' values. */
bool ls_ix_proved_below(const ls_spec *spec, int32_t ix, int32_t limit);

static inline int64_t ls_floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a ^ b) < 0);
}
static inline int64_t ls_floor_mod(int64_t a, int64_t b) {
    return a - ls_floor_div(a, b) * b;
}
int64_t ls_sat_add(int64_t a, int64_t b); /* saturates at INT64_MIN/MAX, which absorb */
int64_t ls_sat_mul(int64_t a, int64_t b);

/* ---- movement (move.c): the operand's index tuple of a movement node ---- */
/* `guards` collects the predicates under which the operand is read at all. */
typedef struct ls_guard {
    int n;
    bool never; /* proved to fail everywhere */
    ls_pred pred[2 * LS_MAX_RANK];
} ls_guard;
/* One operand: operand number `which` of a CONCAT, else 0. */
void ls_move_index(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix, int32_t *out_ix,
                   ls_guard *guard);
/* Row-major position of an index tuple by the actual extents. */
int32_t ls_ix_position(ls_spec_builder *b, const ls_shape *shape, const int32_t *ix);
/* Row-major element of the buffer, laid out by bounds. */
int32_t ls_ix_element(ls_spec_builder *b, const ls_shape *shape, const int32_t *ix);

/* ---- guards (guards.c): lists of predicates ---- */
typedef struct ls_pred_list { /* a conjunction in spec->preds, sorted; interned */
    int32_t first, n;
    uint64_t axes;
} ls_pred_list;
#define LS_NO_GUARDS 0 /* the empty list */
void ls_guards_begin(ls_spec_builder *b); /* before any other list */
/* The conjunction of a list and a guard, without what the rest of it implies. */
int32_t ls_guards_and(ls_spec_builder *b, int32_t list, const ls_guard *guard);

/* Drops what no store reaches, renumbers, names and hashes (finish.c). */
ls_status ls_spec_finish(ls_arena *arena, ls_spec *spec, ls_error *err) LS_MUST_USE;

#endif
