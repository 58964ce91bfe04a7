/* Plans chains (chain.h), made from what follows a contraction: elementwise f32 operations on its sums, on values that a row shares and on
 * elements that lie in memory as the result does. Kernels of nothing else are chains too, whose sums are their first operand. What rows share
 * (biases, a batch norm's scale) is computed for all rows at once, before the launch, by a tile program whose lanes are rows. Whatever does not
 * fit keeps the finish program. */
#include "backend/cpu/chain_plan.h"
#include "base/bits.h"
#include <string.h>

enum {
    LEAST_RUN = 32, /* of lanes, where a row has more of them */
    LEAST_COPY = 4,
    MOST_SCALARS = 1 << 18,
    MOST_POINTS = LS_LIMIT(1 << 22, 1 << 11) /* of a kernel of its own: past the caches its program stores better */
};

typedef struct planner {
    ls_kernel_binary *binary;
    const ls_spec *spec;
    const ls_gemm_phase *gemm;
    const int *temps;
    bool own; /* a kernel of its own: the input is the first pointer */
    bool no_memory;
    int32_t input;
    uint64_t columns;
    ls_chain chain;
    int32_t scalar[LS_CHAIN_SCALARS], pointer[LS_CHAIN_POINTERS]; /* values */
    int32_t order[LS_CHAIN_STEPS]; /* vectors, operands first: the input, then operations */
    int n_order;
    bool keep[LS_CHAIN_STEPS];
} planner;

static bool stride_in(const ls_axis_group *group, int axis, int64_t stride, int64_t *strides) {
    for (int i = 0; i < group->n; i++) {
        if (group->axes[i] == axis) {
            strides[i] = stride;
            return true;
        }
    }
    return false;
}

/* Where an index expression leads, and how many of the innermost axes are one run of memory there: at most *inner. */
static bool find_place(planner *p, int32_t ix, int buffer, ls_chain_place *out) {
    const ls_gemm_phase *gemm = p->gemm;
    ls_ix_sum sum;
    ls_ix_sum_of(p->spec, ix, &sum);
    *out = (ls_chain_place){.buffer = buffer, .constant = sum.constant};
    bool ok = !sum.failed && !sum.n_rest && p->spec->args[buffer].dtype == LS_F32;
    for (int i = 0; i < sum.n_terms && ok; i++) {
        ok = stride_in(&gemm->batch, sum.axis[i], sum.stride[i], out->batch) ||
             stride_in(&gemm->m, sum.axis[i], sum.stride[i], out->row) ||
             stride_in(&gemm->n, sum.axis[i], sum.stride[i], out->column) || ls_dim_is_one(p->spec->extents_of_axes[sum.axis[i]]);
    }
    int64_t span = 1;
    int inner = 0;
    for (int i = gemm->n.n - 1; i >= 0 && ok && span > 0; i--, inner++) {
        ls_dim extent = p->spec->extents_of_axes[gemm->n.axes[i]];
        bool one = ls_dim_is_one(p->spec->extents_of_axes[gemm->n.axes[i]]);
        if (!one && out->column[i] != span) {
            break;
        }
        span = ls_dim_is_fixed(extent) ? span * extent.offset : 0;
    }
    p->chain.inner = inner < p->chain.inner ? inner : p->chain.inner;
    return ok;
}

static int index_of(const int32_t *list, int n, int32_t value) {
    int at = 0;
    while (at < n && list[at] != value) {
        at++;
    }
    return at;
}

/* The one predicate of a value, over batch and row axes; none is fine too. */
static bool take_range(const planner *p, const ls_value *v, ls_chain_place *at) {
    const ls_pred *pred = &p->spec->preds[v->first_pred];
    if (v->n_preds == 0) {
        return true;
    }
    if (v->n_preds > 1 || at->ranged || pred->limit == LS_SPEC_NONE ||
        p->spec->ix[pred->limit].op != LS_IX_CONST || p->spec->ix[pred->ix].axes & p->columns) {
        return false;
    }
    ls_ix_sum_of(p->spec, pred->ix, &at->range);
    at->ranged = true;
    at->limit = p->spec->ix[pred->limit].k;
    return !at->range.failed && !at->range.n_rest;
}

/* A tensor, or tensors joined along rows: of a joined one each part is a place that knows the next. */
static bool find_places(planner *p, int32_t value) {
    ls_chain *c = &p->chain;
    const ls_value *v = &p->spec->values[value], *chooser = NULL;
    for (;; value = chooser->b) {
        v = &p->spec->values[value];
        chooser = v->op == LS_V_GUARD && v->b != LS_SPEC_NONE ? v : NULL;
        int32_t load = chooser ? v->a : value;
        const ls_value *x = &p->spec->values[load];
        int at = c->n_pointers;
        if (at >= LS_CHAIN_POINTERS - LS_CHAIN_SLOTS || p->temps[load] >= 0 || x->op != LS_V_LOAD ||
            x->dtype != LS_F32 || x->check != LS_SPEC_NONE || !find_place(p, x->ix, x->arg, &c->places[at])) {
            return false;
        }
        p->pointer[c->n_pointers++] = LS_SPEC_NONE;
        if (chooser) { /* what the part's own predicate says besides is what chose it */
            const ls_pred *preds = p->spec->preds;
            bool same = x->n_preds == 0 || (x->n_preds == 1 && ls_same_pred(&preds[x->first_pred], &preds[chooser->first_pred]));
            if (!same || chooser->n_preds != 1 || !take_range(p, chooser, &c->places[at])) {
                return false;
            }
            c->places[at].other = c->n_pointers + 1;
        } else {
            return take_range(p, x, &c->places[at]);
        }
    }
}

/* ---- joined tensors in a kernel of its own ---- */
enum { ROW_PREDS = 2, ROW_TERMS = 4, ROW_NODES = 96 };
typedef struct row_pred { /* 0 <= constant + strides < limit */
    int64_t constant, limit, stride[ROW_TERMS];
    int n;
    uint8_t axis[ROW_TERMS];
} row_pred;
typedef struct row_node {
    int n_preds, yes, no; /* where they hold and where not; a load: yes -1, elsewhere +0 */
    row_pred preds[ROW_PREDS];
    ls_chain_place load;
} row_node;

static bool row_preds(const planner *p, const ls_value *v, row_node *node) {
    bool ok = v->n_preds <= ROW_PREDS;
    node->n_preds = v->n_preds;
    for (int i = 0; i < v->n_preds && ok; i++) {
        const ls_pred *pred = &p->spec->preds[v->first_pred + i];
        ls_ix_sum sum;
        ls_ix_sum_of(p->spec, pred->ix, &sum);
        ok = pred->limit != LS_SPEC_NONE && p->spec->ix[pred->limit].op == LS_IX_CONST && !sum.failed && !sum.n_rest &&
             sum.n_terms <= ROW_TERMS && !(p->spec->ix[pred->ix].axes & p->columns);
        row_pred *own = &node->preds[i];
        *own = (row_pred){.constant = sum.constant, .limit = ok ? p->spec->ix[pred->limit].k : 0, .n = ok ? sum.n_terms : 0};
        memcpy(own->axis, sum.axis, sizeof own->axis);
        memcpy(own->stride, sum.stride, sizeof own->stride);
    }
    return ok;
}

static bool row_holds(const row_node *node, const int64_t *coords) {
    bool holds = true;
    for (int i = 0; i < node->n_preds && holds; i++) {
        int64_t x = node->preds[i].constant;
        for (int t = 0; t < node->preds[i].n; t++) {
            x += node->preds[i].stride[t] * coords[node->preds[i].axis[t]];
        }
        holds = x >= 0 && x < node->preds[i].limit;
    }
    return holds;
}

/* Lays out a value's loads and what chooses among them; the index of its node, or -1. */
static int row_nodes(planner *p, int32_t value, row_node *nodes, int *n) {
    const ls_value *v = value == LS_SPEC_NONE ? NULL : &p->spec->values[value];
    int at = *n;
    if (!v || p->temps[value] >= 0 || at == ROW_NODES || v->dtype != LS_F32 || v->check != LS_SPEC_NONE ||
        (v->op != LS_V_LOAD && v->op != LS_V_GUARD) || !row_preds(p, v, &nodes[at])) {
        return -1;
    }
    ++*n;
    nodes[at].yes = nodes[at].no = -1;
    if (v->op == LS_V_LOAD) {
        return find_place(p, v->ix, v->arg, &nodes[at].load) ? at : -1;
    }
    int yes = row_nodes(p, v->a, nodes, n), no = yes < 0 ? -1 : row_nodes(p, v->b, nodes, n);
    nodes[at].yes = yes;
    nodes[at].no = no;
    return no < 0 ? -1 : at;
}

/* A tensor, or where each row of joined ones lies. */
static bool find_rows(planner *p, int32_t value) {
    ls_chain *c = &p->chain;
    const ls_axis_group *rows = &p->gemm->m;
    int64_t extents[LS_SPEC_MAX_AXES], coords[LS_SPEC_MAX_AXES] = {0};
    ls_heap *heap = p->binary->arena.heap;
    int n = 0;
    if (c->n_pointers >= LS_CHAIN_POINTERS - LS_CHAIN_SLOTS) {
        return false;
    }
    row_node *nodes = ls_alloc(heap, ROW_NODES * sizeof *nodes);
    p->no_memory = !nodes;
    if (!nodes || row_nodes(p, value, nodes, &n) < 0 || p->chain.inner < p->gemm->n.n) {
        ls_free(heap, nodes);
        return false;
    }
    ls_chain_place *at = &c->places[c->n_pointers];
    p->pointer[c->n_pointers++] = LS_SPEC_NONE;
    *at = nodes[0].load;
    if (n > 1 || nodes[0].n_preds) {
        for (int i = 0; i < rows->n; i++) {
            extents[rows->axes[i]] = p->spec->extents_of_axes[rows->axes[i]].offset;
        }
        int64_t points = ls_point_count(extents, rows->n, rows->axes);
        at->buffer = nodes[n - 1].load.buffer; /* of some load */
        at->rows = LS_ARENA_ARRAY(&p->binary->arena, ls_chain_row_place, points + 1);
        for (int64_t r = 0; at->rows && r < points; r++) {
            const row_node *node = nodes;
            ls_point_coords(extents, rows->n, rows->axes, r, coords);
            while (node->yes >= 0) {
                node = nodes + (row_holds(node, coords) ? node->yes : node->no);
            }
            bool here = row_holds(node, coords);
            const int64_t first = node->load.constant + ls_chain_offset(rows, coords, node->load.row);
            at->rows[r] = here ? (ls_chain_row_place){node->load.buffer, first} : (ls_chain_row_place){-1, 0};
            c->ranged = c->ranged || !here;
        }
    }
    p->no_memory = !at->rows && (n > 1 || nodes[0].n_preds);
    ls_free(heap, nodes);
    return !p->no_memory;
}

/* What is passed on where an element is above 0, else +0, as a relu's gradient: that element, or LS_SPEC_NONE. */
static int32_t passes(const planner *p, const ls_value *v) {
    const ls_value *values = p->spec->values;
    if (v->op != LS_V_MAP || v->map != LS_OP_WHERE || values[v->a].op != LS_V_MAP || values[v->a].map != LS_OP_LT) {
        return LS_SPEC_NONE;
    }
    const ls_value *above = &values[v->a], *floor = &values[above->a], *other = &values[v->c];
    bool fits = floor->op == LS_V_CONST && floor->dtype == LS_F32 && floor->bits == 0 && other->op == LS_V_CONST && other->bits == 0 &&
                values[above->b].axes & p->columns;
    return fits ? above->b : LS_SPEC_NONE;
}

/* The two values that an operation is made of. */
static inline int32_t operand(const planner *p, const ls_value *v, int which) {
    int32_t above = !LS_SMALL ? passes(p, v) : LS_SPEC_NONE;
    return above == LS_SPEC_NONE ? (which ? v->b : v->a) : which ? above : v->b;
}

/* Gathers scalars, pointers and vectors below a value. */
static bool gather(planner *p, int32_t value) {
    const ls_value *v = &p->spec->values[value];
    ls_chain *c = &p->chain;
    if (value == LS_SPEC_NONE || v->dtype != LS_F32) {
        return value == LS_SPEC_NONE;
    }
    if (value == p->input) {
        return true;
    }
    if (!(v->axes & p->columns)) {
        int at = index_of(p->scalar, c->n_scalars, value);
        if (at == c->n_scalars && at < LS_CHAIN_SCALARS) {
            p->scalar[c->n_scalars++] = value;
        }
        return at < LS_CHAIN_SCALARS;
    }
    if (p->temps[value] >= 0) {
        return false;
    }
    if (v->op == LS_V_LOAD || v->op == LS_V_GUARD) {
        int first = c->n_pointers;
        if (index_of(p->pointer, c->n_pointers, value) < c->n_pointers) {
            return true;
        }
        if (!(p->own ? find_rows : find_places)(p, value)) {
            return false;
        }
        p->pointer[first] = value;
        return true;
    }
    bool unary = v->b == LS_SPEC_NONE, known = v->map == LS_OP_ADD || v->map == LS_OP_SUB ||
                                               v->map == LS_OP_MUL || v->map == LS_OP_DIV ||
                                               v->map == LS_OP_MIN || v->map == LS_OP_MAX;
    bool pass = !LS_SMALL && passes(p, v) != LS_SPEC_NONE;
    known = known || pass;
    if (v->op != LS_V_MAP || (v->c != LS_SPEC_NONE && !pass) ||
        !(unary ? p->binary->device->tiles->map_f32[v->map] != NULL : known) ||
        index_of(p->order, p->n_order, value) < p->n_order) {
        return v->op == LS_V_MAP && index_of(p->order, p->n_order, value) < p->n_order;
    }
    if (!gather(p, operand(p, v, 0)) || !gather(p, operand(p, v, 1)) || p->n_order == LS_CHAIN_STEPS) {
        return false;
    }
    p->order[p->n_order++] = value;
    return true;
}

/* Vectors that are wanted later than by the operation that follows them at once. */
static void find_kept(planner *p) {
    for (int i = 1; i < p->n_order; i++) {
        const ls_value *v = &p->spec->values[p->order[i]];
        const int32_t operands[] = {operand(p, v, 0), operand(p, v, 1)};
        for (int j = 0; j < 2; j++) {
            int at = index_of(p->order, p->n_order, operands[j]);
            bool running = at == i - 1 && !(j == 1 && (operands[0] == operands[1] || (!LS_SMALL && v->c != LS_SPEC_NONE)));
            if (at < p->n_order && !running) {
                p->keep[at] = at > 0 || !p->own; /* the input of a kernel of its own is in memory */
            }
        }
    }
}

static bool step(planner *p, ls_chain_op op, int32_t operand, ls_tile_fn fn) {
    ls_chain *c = &p->chain;
    ls_chain_step s = {.op = (uint8_t)op, .kind = LS_CHAIN_NONE, .fn = fn};
    int scalar = index_of(p->scalar, c->n_scalars, operand),
        pointer = index_of(p->pointer, c->n_pointers, operand);
    if (c->n_steps == LS_CHAIN_STEPS) {
        return false;
    }
    if (operand != LS_SPEC_NONE && scalar < c->n_scalars) {
        s.at = (uint8_t)scalar;
        s.kind = LS_CHAIN_SCALAR;
    } else if (operand != LS_SPEC_NONE) {
        s.at = (uint8_t)pointer;
        s.kind = c->places[pointer].buffer < 0 ? LS_CHAIN_SLOT : LS_CHAIN_MEMORY;
    }
    c->steps[c->n_steps++] = s;
    return true;
}

static bool keep(planner *p, int i) {
    ls_chain *c = &p->chain;
    if (!p->keep[i]) {
        return true;
    }
    if (c->n_slots == LS_CHAIN_SLOTS) {
        return false;
    }
    c->n_slots++;
    p->pointer[c->n_pointers] = p->order[i];
    c->places[c->n_pointers++] = (ls_chain_place){.buffer = -1};
    return step(p, LS_CHAIN_KEEP, p->order[i], NULL);
}

static ls_tile_fn function(const planner *p, int map) {
    const ls_tile_isa *isa = p->binary->device->tiles;
    return !LS_SMALL && p->spec->math != LS_LOCKED && isa->map_fast && isa->map_fast[map] ? isa->map_fast[map] : isa->map_f32[map];
}

static bool operation(planner *p, int i) {
    static const ls_chain_op ops[][2] = {
        [LS_OP_ADD] = {LS_CHAIN_ADD, LS_CHAIN_ADD}, [LS_OP_SUB] = {LS_CHAIN_SUB, LS_CHAIN_FROM},
        [LS_OP_MUL] = {LS_CHAIN_MUL, LS_CHAIN_MUL}, [LS_OP_DIV] = {LS_CHAIN_DIV, LS_CHAIN_INTO},
        [LS_OP_MIN] = {LS_CHAIN_MIN, LS_CHAIN_MIN}, [LS_OP_MAX] = {LS_CHAIN_MAX, LS_CHAIN_MAX}};
    const ls_value *v = &p->spec->values[p->order[i]];
    int32_t running = p->order[i - 1];
    bool ok = true;
    if (!LS_SMALL && v->c != LS_SPEC_NONE) {
        ok = v->b == running || step(p, LS_CHAIN_TAKE, v->b, NULL);
        return ok && step(p, LS_CHAIN_PASS, passes(p, v), NULL);
    }
    if (v->b == LS_SPEC_NONE) {
        ok = v->a == running || step(p, LS_CHAIN_TAKE, v->a, NULL);
        return ok && step(p, LS_CHAIN_CALL, LS_SPEC_NONE, function(p, v->map));
    }
    if (v->a != running && v->b == running) {
        return step(p, ops[v->map][1], v->a, NULL);
    }
    ok = v->a == running || step(p, LS_CHAIN_TAKE, v->a, NULL);
    return ok && step(p, ops[v->map][0], v->b, NULL);
}

static bool is_sigmoid(const ls_tile_isa *isa, const ls_chain_step *s, const float *scalars) {
    bool exp = s[2].fn && (s[2].fn == isa->map_f32[LS_OP_EXP] || (isa->map_fast && s[2].fn == isa->map_fast[LS_OP_EXP]));
    return s->fn && s->fn == isa->map_f32[LS_OP_NEG] && s[1].op == LS_CHAIN_MIN && s[1].kind == LS_CHAIN_SCALAR &&
           scalars[s[1].at] == LS_SIGMOID_MAX && exp && s[3].op == LS_CHAIN_ADD && s[3].kind == LS_CHAIN_SCALAR &&
           scalars[s[3].at] == 1 && s[4].fn && s[4].fn == isa->map_f32[LS_OP_RECIP];
}

int ls_chain_join_sigmoids(const ls_tile_isa *isa, ls_chain_step *steps, int n, const float *scalars) {
    enum { STEPS = 5 };
    int kept = 0;
    for (int i = 0; i < n; kept++) {
        const bool joins = isa->sigmoid_f32 && i + STEPS <= n && is_sigmoid(isa, steps + i, scalars);
        steps[kept] = steps[i];
        if (joins) {
            steps[kept].fn = isa->fast_sigmoid_f32 && steps[i + 2].fn == isa->map_fast[LS_OP_EXP] ? isa->fast_sigmoid_f32 : isa->sigmoid_f32;
        }
        i += joins ? STEPS : 1;
    }
    return kept;
}

static bool plan_steps(planner *p, int32_t value) {
    if (!gather(p, value) || p->order[p->n_order - 1] != value) {
        return false;
    }
    find_kept(p);
    bool ok = keep(p, 0);
    for (int i = 1; i < p->n_order && ok; i++) {
        ok = operation(p, i) && keep(p, i);
    }
    if (ok && !LS_SMALL) {
        float scalars[LS_CHAIN_SCALARS];
        for (int i = 0; i < p->chain.n_scalars; i++) {
            const ls_value *v = &p->spec->values[p->scalar[i]];
            scalars[i] = v->op == LS_V_CONST ? ls_f32_of((uint32_t)v->bits) : __builtin_nanf("");
        }
        p->chain.n_steps = ls_chain_join_sigmoids(p->binary->device->tiles, p->chain.steps, p->chain.n_steps, scalars);
    }
    return ok;
}

/* The program of what rows share, and room for its results. */
static ls_status plan_scalars(planner *p, ls_chain *out, ls_error *err) {
    ls_kernel_binary *binary = p->binary;
    const ls_gemm_phase *gemm = p->gemm;
    uint8_t axes[2 * LS_LANE_AXES];
    int16_t results[LS_CHAIN_SCALARS];
    int n = 0;
    int64_t points = 1;
    for (int i = 0; i < gemm->batch.n + gemm->m.n; i++) {
        uint8_t axis = i < gemm->batch.n ? gemm->batch.axes[i] : gemm->m.axes[i - gemm->batch.n];
        if (!ls_dim_is_one(p->spec->extents_of_axes[axis])) {
            axes[n++] = axis;
            points *= ls_dim_bound(p->spec->extents_of_axes[axis]);
        }
    }
    out->table = LS_ARENA_ARRAY(&binary->arena, float, points * out->n_scalars + 1);
    ls_program_builder *b =
        out->table ? ls_pb_create(&binary->arena, p->spec, binary->device->tiles, p->temps, n, axes) : NULL;
    for (int i = 0; i < out->n_scalars && b; i++) {
        results[i] = ls_pb_value(b, p->scalar[i], 0, NULL);
    }
    return b && ls_pb_finish(b, out->n_scalars, results, &out->scalars)
               ? LS_OK
               : LS_FAIL_MEMORY(err, "a kernel of the CPU");
}

/* Whether a place is one run of elements along the columns, the same for all rows. */
static bool is_row(const planner *p, const ls_chain *chain, const ls_chain_place *at) {
    int64_t apart = 0;
    for (int i = 0; i < LS_LANE_AXES; i++) {
        apart |= at->batch[i] | at->row[i];
    }
    return chain->inner == p->gemm->n.n && !at->ranged && !apart;
}

static void find_follow(const planner *p, ls_chain *chain) {
    if (!LS_GEMM_FOLLOWS) {
        return;
    }
    const ls_chain_step *first = chain->steps, *last = first + chain->n_steps - 1;
    const ls_chain_place *plus = chain->places;
    chain->columns = chain->n_steps > 0 && first->kind == LS_CHAIN_MEMORY && chain->n_pointers == 1 && is_row(p, chain, plus);
    chain->adds = chain->n_steps > 1 && !chain->columns && first[1].op == LS_CHAIN_ADD && first[1].kind == LS_CHAIN_MEMORY &&
                  chain->n_pointers == 1 && !plus->ranged && !memcmp(plus->batch, chain->result.batch, sizeof plus->batch) &&
                  !memcmp(plus->row, chain->result.row, sizeof plus->row) &&
                  !memcmp(plus->column, chain->result.column, sizeof plus->column);
    chain->follows = chain->n_steps > 0 && last - first < 2 + chain->adds && first->op == LS_CHAIN_ADD &&
                     (first->kind == LS_CHAIN_SCALAR || chain->columns);
    chain->floor = -__builtin_inff();
    if (chain->follows && last > first + chain->adds) {
        const ls_value *v = last->kind == LS_CHAIN_SCALAR ? &p->spec->values[p->scalar[last->at]] : NULL;
        chain->follows = last->op == LS_CHAIN_MAX && v && v->op == LS_V_CONST;
        chain->floor = chain->follows ? ls_f32_of((uint32_t)v->bits) : 0;
        chain->follows = chain->follows && chain->floor == chain->floor;
    }
}

bool ls_chain_follow(const ls_chain *chain, ls_gemm_follow *out) {
    if (LS_GEMM_FOLLOWS && chain->follows) {
        *out = (ls_gemm_follow){chain->table + chain->steps[0].at, chain->n_scalars, chain->adds, false, NULL, chain->floor};
        if (chain->columns) {
            *out = (ls_gemm_follow){&ls_chain_zeros[0], 0, true, true, NULL, chain->floor};
        }
    }
    return LS_GEMM_FOLLOWS && chain->follows;
}

const float *ls_chain_plus(const ls_chain *chain, char *const *buffers) {
    return (const float *)(const void *)buffers[chain->places[0].buffer] + chain->places[0].constant;
}

ls_status ls_chain_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps, const ls_store *store,
                        ls_error *err) {
    const ls_spec *spec = &binary->spec;
    ls_gemm_phase *gemm = phase->gemm;
    const ls_value *v = &spec->values[phase->value];
    planner p = {.binary = binary, .spec = spec, .gemm = gemm, .temps = temps, .input = phase->value};
    for (int i = 0; i < gemm->n.n; i++) {
        p.columns |= UINT64_C(1) << gemm->n.axes[i];
    }
    int64_t points = ls_spec_points(spec, gemm->batch.axes, gemm->batch.n) * ls_spec_points(spec, gemm->m.axes, gemm->m.n);
    p.chain.inner = gemm->n.n;
    p.order[p.n_order++] = phase->value;
    if (v->acc != LS_F32 || v->dtype != LS_F32 || store->combine != LS_STORE_SET || store->n_preds ||
        store->check != LS_SPEC_NONE || gemm->n.n + gemm->m.n + gemm->batch.n > LS_LANE_AXES ||
        !find_place(&p, store->ix, store->arg, &p.chain.result) || !plan_steps(&p, store->value) ||
        points * LS_CHAIN_SCALARS > MOST_SCALARS) {
        return LS_OK;
    }
    int64_t run = ls_spec_points(spec, gemm->n.axes + gemm->n.n - p.chain.inner, p.chain.inner);
    if (run < LEAST_RUN && p.chain.inner < gemm->n.n) {
        return LS_OK;
    }
    ls_chain *chain = LS_ARENA_NEW(&binary->arena, ls_chain);
    if (!chain) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    *chain = p.chain;
    chain->fetched = ls_buffer_is_large(spec, chain->result.buffer) ? UINT32_C(1) << LS_CHAIN_POINTERS : 0;
    for (int k = 0; k < chain->n_pointers; k++) {
        chain->fetched |= ls_buffer_is_large(spec, chain->places[k].buffer) ? UINT32_C(1) << k : 0;
        chain->ranged = chain->ranged || chain->places[k].ranged;
    }
    chain->of_rows = true;
    bool numbers = true, calls = false;
    int own = 0;
    for (int i = 0; i < chain->n_steps; i++) {
        const ls_chain_step *s = &chain->steps[i];
        numbers = numbers && s->kind != LS_CHAIN_MEMORY;
        calls = calls || s->op == LS_CHAIN_CALL;
        own += own == i && s->kind == LS_CHAIN_SCALAR;
        bool known = s->op == LS_CHAIN_ADD || s->op == LS_CHAIN_SUB || s->op == LS_CHAIN_MUL || s->op == LS_CHAIN_MIN || s->op == LS_CHAIN_MAX;
        chain->of_rows = chain->of_rows && known && s->kind == LS_CHAIN_SCALAR;
    }
    chain->own_steps = numbers && calls ? own : -1;
    find_follow(&p, chain);
    if (chain->n_scalars) {
        LS_TRY(err, plan_scalars(&p, chain, err));
        phase->extra += ls_run_bytes(&chain->scalars);
    }
    gemm->chain = chain;
    return LS_OK;
}

/* ---- kernels of their own ---- */
/* The first element in memory that a value is made of. */
static int32_t first_load(const planner *p, int32_t value) {
    const ls_value *v = &p->spec->values[value];
    if (!(v->axes & p->columns) || p->temps[value] >= 0) {
        return LS_SPEC_NONE;
    }
    if (v->op != LS_V_MAP) {
        return value;
    }
    int32_t first = operand(p, v, 0), second = operand(p, v, 1), a = first == LS_SPEC_NONE ? LS_SPEC_NONE : first_load(p, first);
    return a != LS_SPEC_NONE || second == LS_SPEC_NONE ? a : first_load(p, second);
}

/* With the first `rows` axes of the store's as rows. Where nothing is computed it is a copy, of joined tensors or with zeros around. */
static ls_status plan_points(ls_kernel_binary *binary, ls_phase *phase, const int *temps, const ls_store *store, int rows, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    int64_t points = 1, run = 1;
    ls_gemm_phase *space = LS_ARENA_NEW(&binary->arena, ls_gemm_phase);
    planner p = {.binary = binary, .spec = spec, .gemm = space, .temps = temps, .own = true};
    if (!space) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    for (int i = 0; i < store->n_axes; i++) {
        ls_dim extent = spec->extents_of_axes[store->axes[i]];
        ls_axis_group *group = i < rows ? &space->m : &space->n;
        group->axes[group->n++] = store->axes[i];
        p.columns |= i < rows ? 0 : UINT64_C(1) << store->axes[i];
        *(i < rows ? &points : &run) *= ls_dim_is_fixed(extent) ? extent.offset : 0;
    }
    const ls_value *v = &spec->values[store->value];
    bool copy = v->op == LS_V_GUARD || (v->op == LS_V_LOAD && v->n_preds);
    if (run < (copy ? LEAST_COPY : LEAST_RUN) || points == 0 || points * run >= MOST_POINTS || points * LS_CHAIN_SCALARS > MOST_SCALARS) {
        return LS_OK;
    }
    p.chain.inner = space->n.n;
    p.order[p.n_order++] = p.input = first_load(&p, store->value);
    if (p.input == LS_SPEC_NONE || !find_place(&p, store->ix, store->arg, &p.chain.result) || !find_rows(&p, p.input)) {
        return p.no_memory ? LS_FAIL_MEMORY(err, "a kernel of the CPU") : LS_OK;
    }
    p.pointer[0] = p.input;
    bool ok = copy || (plan_steps(&p, store->value) && p.chain.inner == space->n.n && p.chain.n_steps > 0);
    for (int i = 0; i < p.chain.n_steps; i++) {
        ok = ok && p.chain.steps[i].op != LS_CHAIN_CALL; /* those take long anyway */
    }
    if (!ok) {
        return p.no_memory ? LS_FAIL_MEMORY(err, "a kernel of the CPU") : LS_OK;
    }
    space->chain = LS_ARENA_NEW(&binary->arena, ls_chain);
    if (!space->chain) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    *space->chain = p.chain;
    if (p.chain.n_scalars) {
        LS_TRY(err, plan_scalars(&p, space->chain, err));
        phase->extra += ls_run_bytes(&space->chain->scalars);
    }
    phase->points = space;
    return LS_OK;
}

ls_status ls_chain_plan_points(ls_kernel_binary *binary, ls_phase *phase, const int *temps, const ls_store *store, ls_error *err) {
    int rows = phase->finish.row_axes;
    if (binary->n_phases > 1 || store->combine != LS_STORE_SET || store->n_preds || store->check != LS_SPEC_NONE ||
        store->n_axes > LS_LANE_AXES || phase->patch >= 0) {
        return LS_OK;
    }
    for (int i = rows; i < store->n_axes && !phase->points && (i == rows || !rows); i++) { /* joined along an axis: it is of rows */
        LS_TRY(err, plan_points(binary, phase, temps, store, i, err));
    }
    return LS_OK;
}
