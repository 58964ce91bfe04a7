/* Reductions, contractions, scans and sorts in the contract's order, from its text alone:
 *
 * REDUCE    blocks of 4096 consecutive elements; 256 interleaved partials from the identity, then halving;
 * block results by the same rule. CONTRACT  chunks of 512 consecutive k, serial from +0, products and sums
 * rounded apart; chunk sums added in order. SCAN      serial in blocks of 512; block totals scanned by the
 * same rule; then the prefix of earlier blocks is combined in front. Absent elements keep their position and
 * are skipped. */
#include "backend/ref/eval.h"
#include <string.h>

enum { BLOCK = LS_REF_BLOCK, PARTIALS = LS_REF_PARTIALS, CHUNK = LS_REF_CHUNK };

typedef struct axes_state {
    int64_t value[LS_MAX_RANK];
} axes_state;

static axes_state save_axes(const ls_ref_run *run, const ls_value *v) {
    axes_state s = {{0}};
    for (int i = 0; i < v->n_bound; i++) {
        s.value[i] = run->axis[v->bound[i]];
    }
    return s;
}
static void restore_axes(ls_ref_run *run, const ls_value *v, const axes_state *s) {
    for (int i = 0; i < v->n_bound; i++) {
        ls_ref_set_axis(run, v->bound[i], s->value[i]);
    }
}

/* Puts the bound axes at their first point; the number of points. */
static int64_t first_point(ls_ref_run *run, const ls_value *v) {
    int64_t n = 1;
    for (int i = 0; i < v->n_bound; i++) {
        ls_ref_set_axis(run, v->bound[i], 0);
        n *= run->extent[v->bound[i]];
    }
    return n;
}
static void next_point(ls_ref_run *run, const ls_value *v) {
    for (int i = v->n_bound - 1; i >= 0; i--) {
        int axis = v->bound[i];
        if (run->axis[axis] + 1 < run->extent[axis]) {
            ls_ref_set_axis(run, axis, run->axis[axis] + 1);
            return;
        }
        ls_ref_set_axis(run, axis, 0);
    }
}

static ls_cell halve(ls_op op, ls_dtype acc, ls_cell *partial) {
    for (int half = PARTIALS / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            partial[i] = ls_cell_combine(op, acc, partial[i], partial[i + half]);
        }
    }
    return partial[0];
}

static void start_partials(ls_op op, ls_dtype acc, ls_cell *partial) {
    ls_cell identity = ls_cell_identity(op, acc);
    for (int i = 0; i < PARTIALS; i++) {
        partial[i] = identity;
    }
}

/* Reduces `n` cells already in the accumulator's dtype, in place. */
static ls_cell reduce_cells(ls_op op, ls_dtype acc, ls_cell *cells, int64_t n, ls_cell *partial) {
    while (n > 1) {
        int64_t blocks = 0;
        for (int64_t first = 0; first < n; first += BLOCK, blocks++) {
            start_partials(op, acc, partial);
            for (int64_t i = first; i < n && i < first + BLOCK; i++) {
                ls_cell *p = &partial[(i - first) % PARTIALS];
                *p = ls_cell_combine(op, acc, *p, cells[i]);
            }
            cells[blocks] = halve(op, acc, partial);
        }
        n = blocks;
    }
    return cells[0];
}

static ls_cell reduce_index(ls_ref_run *run, const ls_value *v, int64_t n) {
    ls_dtype dtype = run->spec->values[v->a].dtype;
    ls_op less = LS_OP_LT;
    int64_t best = -1;
    ls_cell chosen = {.u = 0};
    for (int64_t i = 0; i < n; i++, next_point(run, v)) {
        ls_cell x = ls_ref_value(run, v->a);
        if (x.absent || (best >= 0 && ls_cell_is_nan(dtype, chosen))) {
            continue;
        }
        bool better = best < 0 || ls_cell_is_nan(dtype, x) ||
                      (v->map == LS_OP_ARGMIN ? ls_cell_map(less, dtype, LS_BOOL, x, chosen, x).u
                                              : ls_cell_map(less, dtype, LS_BOOL, chosen, x, x).u);
        if (better) {
            best = i;
            chosen = x;
        }
    }
    return (ls_cell){.i = best < 0 ? 0 : best};
}

ls_cell ls_ref_reduce(ls_ref_run *run, int32_t id) {
    const ls_value *v = &run->spec->values[id];
    ls_dtype from = run->spec->values[v->a].dtype;
    axes_state outside = save_axes(run, v);
    int64_t n = first_point(run, v);
    ls_cell result;
    if (v->map == LS_OP_ARGMIN || v->map == LS_OP_ARGMAX) {
        result = reduce_index(run, v, n);
        restore_axes(run, v, &outside);
        return result;
    }
    ls_cell *partial = run->scratch[id], *blocks = partial + PARTIALS;
    int64_t n_blocks = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        start_partials(v->map, v->acc, partial);
        for (int64_t i = first; i < n && i < first + BLOCK; i++, next_point(run, v)) {
            ls_cell x = ls_ref_value(run, v->a);
            if (!x.absent) {
                ls_cell *p = &partial[(i - first) % PARTIALS];
                *p = ls_cell_combine(v->map, v->acc, *p, ls_cell_cast(from, v->acc, x));
            }
        }
        blocks[n_blocks++] = halve(v->map, v->acc, partial);
    }
    result =
        n_blocks ? reduce_cells(v->map, v->acc, blocks, n_blocks, partial) : ls_cell_identity(v->map, v->acc);
    restore_axes(run, v, &outside);
    return ls_cell_cast(v->acc, v->dtype, result);
}

/* The line of an operand where the axes are now. The bound ones are at their first point, before and after. */
static const ls_cell *line_of(ls_ref_run *run, const ls_value *v, int32_t operand, int64_t places, uint64_t *which, ls_cell *lines, int64_t n) {
    uint64_t line = 0;
    for (uint64_t axes = ls_ref_without_bound(run->spec->values[operand].axes, v); axes; axes &= axes - 1) {
        int axis = __builtin_ctzll(axes);
        line = line * (uint64_t)run->extent[axis] + (uint64_t)run->axis[axis];
    }
    int64_t place = (int64_t)(line % (uint64_t)places);
    ls_cell *cells = lines + place * n;
    if (which[place] != line + 1) {
        for (int64_t k = 0; k < n; k++, next_point(run, v)) {
            cells[k] = ls_ref_value(run, operand);
        }
        which[place] = line + 1;
    }
    return cells;
}

ls_cell ls_ref_contract(ls_ref_run *run, int32_t id) {
    const ls_value *v = &run->spec->values[id];
    ls_dtype da = run->spec->values[v->a].dtype, db = run->spec->values[v->b].dtype, acc = v->acc;
    axes_state outside = save_axes(run, v);
    int64_t n = first_point(run, v);
    ls_ref_kept kept = run->binary->kept_by[id];
    uint64_t *which = run->scratch[id];
    ls_cell *lines = (ls_cell *)(which + kept.places[0] + kept.places[1]);
    const ls_cell *line[2];
    for (int side = 0; side < 2; side++) {
        int64_t places = kept.places[side];
        line[side] = places ? line_of(run, v, side ? v->b : v->a, places, which, lines, n) : NULL;
        which += places, lines += places * n;
    }
    const ls_cell *left = line[0], *right = line[1];
    ls_cell total = {.u = 0}, chunk = {.u = 0};
    for (int64_t k = 0; k < n; k++) {
        ls_cell a = left ? left[k] : ls_ref_value(run, v->a);
        ls_cell b = a.absent ? a : right ? right[k] : ls_ref_value(run, v->b);
        if (!b.absent) {
            if (acc == LS_F32 && da != LS_F64) { /* the common case, spelled out for speed */
                float product = a.f * b.f;
                chunk.f += product;
            } else {
                a = ls_cell_cast(da, acc, a), b = ls_cell_cast(db, acc, b);
                ls_cell product = ls_cell_map(LS_OP_MUL, acc, acc, a, b, b);
                chunk = ls_cell_map(LS_OP_ADD, acc, acc, chunk, product, product);
            }
        }
        if (k % CHUNK == CHUNK - 1 || k == n - 1) {
            total = k < CHUNK ? chunk : ls_cell_map(LS_OP_ADD, acc, acc, total, chunk, chunk);
            chunk = (ls_cell){.u = 0};
        }
        if (!left || !right) {
            next_point(run, v);
        }
    }
    restore_axes(run, v, &outside);
    return ls_cell_cast(acc, v->dtype, total);
}

/* Inclusive scan of `n` cells in place; `totals` has room for the block totals of every level. */
static void scan_cells(ls_op op, ls_dtype acc, ls_cell *cells, int64_t n, ls_cell *totals) {
    int64_t blocks = 0;
    for (int64_t first = 0; first < n; first += CHUNK, blocks++) {
        int64_t end = first + CHUNK < n ? first + CHUNK : n;
        for (int64_t i = first + 1; i < end; i++) {
            cells[i] = ls_cell_combine(op, acc, cells[i - 1], cells[i]);
        }
        totals[blocks] = cells[end - 1];
    }
    if (blocks <= 1) {
        return;
    }
    scan_cells(op, acc, totals, blocks, totals + blocks);
    for (int64_t i = CHUNK; i < n; i++) {
        cells[i] = ls_cell_combine(op, acc, totals[i / CHUNK - 1], cells[i]);
    }
}

static void read_line(ls_ref_run *run, const ls_value *v, ls_cell *cells) {
    axes_state outside = save_axes(run, v);
    int64_t n = run->extent[v->bound[0]];
    for (int64_t i = 0; i < n; i++) {
        ls_ref_set_axis(run, v->bound[0], i);
        cells[i] = ls_ref_value(run, v->a);
    }
    restore_axes(run, v, &outside);
}

ls_cell ls_ref_scan(ls_ref_run *run, int32_t id) {
    static const ls_op ops[] = {LS_OP_SUM, LS_OP_PROD, LS_OP_AMIN, LS_OP_AMAX}; /* by ls_scan_kind */
    const ls_value *v = &run->spec->values[id];
    ls_dtype from = run->spec->values[v->a].dtype;
    int64_t n = run->extent[v->bound[0]];
    ls_cell *cells = run->scratch[id];
    ls_ref_memo *line = &run->memo[id];
    if (!ls_ref_is_kept(run, ls_ref_without_bound(v->axes, v), line)) {
        read_line(run, v, cells);
        for (int64_t i = 0; i < n; i++) {
            cells[i] = ls_cell_cast(from, v->acc, cells[i]);
        }
        for (int64_t i = 0; v->reverse && i < n / 2; i++) {
            ls_cell swap = cells[i];
            cells[i] = cells[n - 1 - i];
            cells[n - 1 - i] = swap;
        }
        scan_cells(ops[v->map], v->acc, cells, n, cells + n);
        line->tick = run->tick;
    }
    int64_t at = run->axis[v->bound[0]];
    at = (v->reverse ? n - 1 - at : at) - v->exclusive;
    return ls_cell_cast(v->acc, v->dtype, at < 0 ? ls_cell_identity(ops[v->map], v->acc) : cells[at]);
}

/* Stable merge sort of positions by their cells. */
static void sort_line(ls_dtype dtype, bool descending, const ls_cell *cells, int64_t *order, int64_t *other,
                      int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t first = 0; first < n; first += 2 * width) {
            int64_t middle = first + width < n ? first + width : n;
            int64_t end = first + 2 * width < n ? first + 2 * width : n;
            for (int64_t l = first, r = middle, o = first; o < end; o++) {
                bool right = l == middle ||
                             (r < end && ls_cell_before(dtype, descending, cells[order[r]], cells[order[l]]));
                other[o] = order[right ? r++ : l++];
            }
        }
        memcpy(order, other, (size_t)n * sizeof *order);
    }
}

ls_cell ls_ref_sort(ls_ref_run *run, int32_t id) {
    const ls_value *v = &run->spec->values[id];
    int64_t n = run->extent[v->bound[0]];
    ls_cell *cells = run->scratch[id];
    int64_t *order = (int64_t *)(cells + n);
    ls_ref_memo *line = &run->memo[id];
    if (!ls_ref_is_kept(run, ls_ref_without_bound(v->axes, v), line)) {
        read_line(run, v, cells);
        sort_line(run->spec->values[v->a].dtype, v->map, cells, order, order + n, n);
        line->tick = run->tick;
    }
    return (ls_cell){.i = order[run->axis[v->bound[0]]]};
}
