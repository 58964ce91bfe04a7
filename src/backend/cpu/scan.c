/* Scans and sorts: values along one bound axis that are functions of that axis too.
 *
 * A scan has its lanes along its own axis where memory is consecutive along it, else along the other axes, and
 * then goes position by position. It goes over the axis twice: once for the totals of blocks of 512, which are
 * then scanned by the same rule, and once to put the prefix of earlier blocks in front. A sort has its lanes along
 * its own axis: keys become unsigned integers in the order wanted, NaN last, and are merged stably. */
#include "backend/cpu/kernel.h"
#include <string.h>

typedef struct scan {
    ls_run run;
    const ls_value *v;
    ls_tile_fn fn;
    size_t size, tile;
    int64_t first, lanes, n;
} scan;

/* The operand at position i of the scan's order. */
static const char *scan_element(scan *s, int64_t i) {
    s->run.coords[s->v->bound[0]] = s->v->reverse ? s->n - 1 - i : i;
    ls_run_point(&s->run);
    ls_run_lanes(&s->run, s->first, s->lanes);
    return ls_run_reg(&s->run, s->run.program->results[0]);
}

/* Inclusive scan of tiles in place; `more` has room for the totals of the levels above. */
static void scan_tiles(const scan *s, char *tiles, int64_t n, char *more) {
    int64_t blocks = 0;
    for (int64_t first = 0; first < n; first += LS_TILE_CHUNK, blocks++) {
        int64_t end = first + LS_TILE_CHUNK < n ? first + LS_TILE_CHUNK : n;
        for (int64_t i = first + 1; i < end; i++) {
            char *at = tiles + (size_t)i * s->tile;
            s->fn(at, at - s->tile, at, NULL, s->lanes);
        }
        memcpy(more + (size_t)blocks * s->tile, tiles + (size_t)(end - 1) * s->tile, s->tile);
    }
    if (blocks <= 1) {
        return;
    }
    scan_tiles(s, more, blocks, more + (size_t)blocks * s->tile);
    for (int64_t i = LS_TILE_CHUNK; i < n; i++) {
        char *at = tiles + (size_t)i * s->tile;
        s->fn(at, more + (size_t)(i / LS_TILE_CHUNK - 1) * s->tile, at, NULL, s->lanes);
    }
}

/* Serial inclusive scan of n lanes in place. */
static void scan_lanes(const scan *s, char *y, int64_t n) {
    if (s->v->acc == LS_F32 && s->v->map == LS_SCAN_SUM) { /* the common case, without calls */
        float *f = (float *)(void *)y;
        for (int64_t i = 1; i < n; i++) {
            f[i] = f[i - 1] + f[i];
        }
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        char *at = y + (size_t)i * s->size;
        s->fn(at, at - s->size, at, NULL, 1);
    }
}

/* Block b of a line in the scan's order, lanes along the axis: its within-block scan, in y. */
static int64_t scan_block(scan *s, int64_t b, char *y) {
    int64_t first = b * LS_TILE_CHUNK, n = s->n - first < LS_TILE_CHUNK ? s->n - first : LS_TILE_CHUNK;
    ls_run_lanes(&s->run, s->v->reverse ? s->n - first - n : first, n);
    const char *x = ls_run_reg(&s->run, s->run.program->results[0]);
    for (int64_t i = 0; s->v->reverse && i < n; i++) {
        memcpy(y + (size_t)i * s->size, x + (size_t)(n - 1 - i) * s->size, s->size);
    }
    if (!s->v->reverse) {
        memcpy(y, x, (size_t)n * s->size);
    }
    scan_lanes(s, y, n);
    return n;
}

/* One line, with the axis along the lanes: `y` and `turned` are tiles, `y` with room for one scalar in front,
 * `totals` a scalar for every block of every level. */
static void scan_line(scan *s, ls_run *finish, uint64_t identity, char *y, char *turned, char *totals) {
    int64_t blocks = (s->n + LS_TILE_CHUNK - 1) / LS_TILE_CHUNK;
    scan one = *s;
    one.tile = s->size;
    one.lanes = 1;
    for (int64_t b = 0; blocks > 1 && b < blocks; b++) {
        int64_t n = scan_block(s, b, y);
        memcpy(totals + (size_t)b * s->size, y + (size_t)(n - 1) * s->size, s->size);
    }
    if (blocks > 1) {
        scan_tiles(&one, totals, blocks, totals + (size_t)blocks * s->size);
    }
    char *before = y - s->size; /* what an exclusive scan's block begins with */
    memcpy(before, &identity, s->size);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t n = scan_block(s, b, y);
        if (b > 0) {
            s->run.isa->fill[ls_tile_log2(s->size)](turned, totals + (size_t)(b - 1) * s->size, n);
            s->fn(y, turned, y, NULL, n);
        }
        char *out = s->v->exclusive ? before : y, *input = ls_run_reg(finish, finish->program->input);
        for (int64_t i = 0; s->v->reverse && i < n; i++) {
            memcpy(input + (size_t)i * s->size, out + (size_t)(n - 1 - i) * s->size, s->size);
        }
        if (!s->v->reverse) {
            memcpy(input, out, (size_t)n * s->size);
        }
        memcpy(before, y + (size_t)(n - 1) * s->size, s->size);
        ls_run_lanes(finish, s->v->reverse ? s->n - b * LS_TILE_CHUNK - n : b * LS_TILE_CHUNK, n);
    }
}

void ls_phase_scan(const ls_phase_task *task) {
    static const ls_op ops[] = {LS_OP_ADD, LS_OP_MUL, LS_OP_MIN, LS_OP_MAX}; /* by ls_scan_kind */
    static const ls_op folds[] = {LS_OP_SUM, LS_OP_PROD, LS_OP_AMIN, LS_OP_AMAX};
    const ls_phase *phase = task->phase;
    scan s = {.v = &task->kernel->binary->spec.values[phase->value]};
    ls_dtype acc = (ls_dtype)s.v->acc;
    ls_run finish;
    size_t offset = 0;
    ls_phase_begin(task, &phase->program, &offset, &s.run);
    ls_phase_begin(task, &phase->finish, &offset, &finish);
    const ls_tile_isa *isa = s.run.isa;
    s.fn = acc == LS_F64            ? isa->map_f64[ops[s.v->map]]
           : ls_dtype_is_float(acc) ? isa->map_f32[ops[s.v->map]]
                                    : ls_tile_int_fn(isa, ops[s.v->map], acc);
    s.size = ls_tile_held_size(acc);
    s.tile = LS_TILE * s.size;
    s.n = s.run.extents[s.v->bound[0]];
    uint64_t identity = ls_fold_identity(folds[s.v->map], acc);
    char *running = task->scratch + offset, *totals = running + s.tile;
    for (int64_t line = 0; phase->kind == LS_PHASE_SCAN_LINES && line < task->n; line++) {
        ls_point_coords(s.run.extents, phase->n_axes, phase->axes, task->first + line, s.run.coords);
        ls_point_coords(s.run.extents, phase->n_axes, phase->axes, task->first + line, finish.coords);
        ls_run_point(&s.run);
        ls_run_point(&finish);
        scan_line(&s, &finish, identity, running + LS_ALIGN, totals + s.tile, totals + 2 * s.tile);
    }
    if (phase->kind == LS_PHASE_SCAN_LINES) {
        return;
    }
    for (int64_t at = 0; at < task->n; at += LS_TILE) {
        s.first = task->first + at;
        s.lanes = task->n - at < LS_TILE ? task->n - at : LS_TILE;
        size_t bytes = (size_t)s.lanes * s.size;
        int64_t blocks = (s.n + LS_TILE_CHUNK - 1) / LS_TILE_CHUNK;
        for (int64_t i = 0; blocks > 1 && i < s.n; i++) {
            char *total = totals + (size_t)(i / LS_TILE_CHUNK) * s.tile;
            const char *x = scan_element(&s, i);
            if (i % LS_TILE_CHUNK == 0) {
                memcpy(total, x, bytes);
            } else {
                s.fn(total, total, x, NULL, s.lanes);
            }
        }
        if (blocks > 1) {
            scan_tiles(&s, totals, blocks, totals + (size_t)blocks * s.tile);
        }
        char *input = ls_run_reg(&finish, phase->finish.input);
        /* Position i of the result is element i, or i - 1 of an exclusive scan. */
        for (int64_t i = 0; i < s.n; i++) {
            int64_t from = i - s.v->exclusive;
            if (from < 0) {
                isa->fill[ls_tile_log2(s.size)](input, &identity, s.lanes);
            } else {
                const char *x = scan_element(&s, from);
                if (from % LS_TILE_CHUNK == 0) {
                    memcpy(running, x, bytes);
                } else {
                    s.fn(running, running, x, NULL, s.lanes);
                }
                if (from < LS_TILE_CHUNK) {
                    memcpy(input, running, bytes);
                } else {
                    s.fn(input, totals + (size_t)(from / LS_TILE_CHUNK - 1) * s.tile, running, NULL, s.lanes);
                }
            }
            finish.coords[s.v->bound[0]] = s.v->reverse ? s.n - 1 - i : i;
            ls_run_point(&finish);
            ls_run_lanes(&finish, s.first, s.lanes);
        }
    }
}

/* ---- sort ---- */
/* Keys whose unsigned order is the order wanted. -0 and +0 are equal; NaN is last in both directions. */
static void sort_keys(ls_dtype dtype, bool descending, const char *x, uint64_t *keys, int64_t n) {
    size_t size = ls_tile_held_size(dtype);
    uint64_t top = UINT64_C(1) << (8 * size - 1), all = ~UINT64_C(0) >> (64 - 8 * size);
    bool real = ls_dtype_is_float(dtype), is_signed = ls_dtype_is_signed(dtype);
    uint64_t infinity = dtype == LS_F64 ? UINT64_C(0x7ff) << 52 : UINT64_C(0x7f800000);
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = 0;
        memcpy(&u, x + (size_t)i * size, size);
        bool nan = false;
        if (real) {
            nan = (u & (top - 1)) > infinity;
            u = u == top ? 0 : u;
            u = u & top ? all & ~u : u | top;
        } else if (is_signed) {
            u ^= top;
        }
        keys[i] = nan ? UINT64_MAX : descending ? all & ~u : u;
    }
}

static void sort_merge(const uint64_t *keys, int64_t *order, int64_t *other, int64_t n) {
    int64_t *from = order, *to = other;
    for (int64_t i = 0; i < n; i++) {
        from[i] = i;
    }
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t first = 0; first < n; first += 2 * width) {
            int64_t middle = first + width < n ? first + width : n,
                    end = first + 2 * width < n ? first + 2 * width : n;
            int64_t l = first, r = middle;
            for (int64_t o = first; o < end; o++) {
                bool right = l == middle || (r < end && keys[from[r]] < keys[from[l]]);
                to[o] = from[right ? r++ : l++];
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order) {
        memcpy(order, from, (size_t)n * sizeof *order);
    }
}

void ls_phase_sort(const ls_phase_task *task) {
    const ls_phase *phase = task->phase;
    const ls_spec *spec = &task->kernel->binary->spec;
    const ls_value *v = &spec->values[phase->value];
    ls_run run, finish;
    size_t offset = 0;
    ls_phase_begin(task, &phase->program, &offset, &run);
    ls_phase_begin(task, &phase->finish, &offset, &finish);
    int64_t n = run.extents[v->bound[0]];
    uint64_t *keys = (uint64_t *)(void *)(task->scratch + offset);
    int64_t *order = (int64_t *)keys + n, *other = order + n;
    for (int64_t line = task->first; line < task->first + task->n; line++) {
        ls_point_coords(run.extents, phase->n_axes, phase->axes, line, run.coords);
        ls_point_coords(run.extents, phase->n_axes, phase->axes, line, finish.coords);
        ls_run_point(&run);
        ls_run_point(&finish);
        for (int64_t at = 0; at < n; at += LS_TILE) {
            int64_t lanes = n - at < LS_TILE ? n - at : LS_TILE;
            ls_run_lanes(&run, at, lanes);
            sort_keys((ls_dtype)spec->values[v->a].dtype, v->map == 1,
                      ls_run_reg(&run, run.program->results[0]), keys + at, lanes);
        }
        sort_merge(keys, order, other, n);
        for (int64_t at = 0; at < n; at += LS_TILE) {
            int64_t lanes = n - at < LS_TILE ? n - at : LS_TILE;
            memcpy(ls_run_reg(&finish, phase->finish.input), order + at, (size_t)lanes * sizeof *order);
            ls_run_lanes(&finish, at, lanes);
        }
    }
}
