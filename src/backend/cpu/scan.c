/* Scans and sorts: values along one bound axis that are functions of that axis too.
 *
 * A scan has its lanes along its own axis where memory is consecutive along it, else along the other axes, and then goes position by
 * position. It goes over the axis once: what the contract puts in front of a block of 512, the scan of earlier blocks' totals by the same
 * rule, is kept as a running value of each level. A sort has its lanes along its own axis: keys become unsigned integers in the order wanted,
 * NaN last, and are merged stably. */
#include "backend/cpu/kernel.h"
#include <string.h>

typedef struct scan {
    ls_run run;
    const ls_value *v;
    ls_tile_fn fn;
    size_t size, tile; /* bytes of a lane, and from one value of `lanes` lanes to the next */
    int64_t first, lanes, n;
    char *values;                            /* of each level two: of the block at hand, and with what is before it */
    char *result;                            /* where the latter goes of the lowest level; NULL: with the others */
    int64_t count[LS_SCAN_LEVELS];           /* how many elements, totals, totals of totals ... there were */
    const char *inclusive[LS_SCAN_LEVELS];   /* their scan's last value; where there was one */
} scan;

/* The operand at position i of the scan's order. */
static const char *scan_element(scan *s, int64_t i) {
    s->run.coords[s->v->bound[0]] = s->v->reverse ? s->n - 1 - i : i;
    ls_run_point(&s->run);
    ls_run_lanes(&s->run, s->first, s->lanes);
    return ls_run_reg(&s->run, s->run.program->results[0]);
}

/* The next element of a level, and with a block's last one the block's total, the next element of the level above. */
static void scan_next(scan *s, int level, const void *x) {
    char *block = s->values + (size_t)(2 * level) * s->tile, *all = level == 0 && s->result ? s->result : block + s->tile;
    int64_t i = s->count[level]++;
    if (i % LS_TILE_CHUNK == 0) {
        memcpy(block, x, (size_t)s->lanes * s->size);
    } else {
        s->fn(block, block, x, NULL, s->lanes);
    }
    if (i >= LS_TILE_CHUNK) {
        s->fn(all, s->inclusive[level + 1], block, NULL, s->lanes);
    }
    s->inclusive[level] = i < LS_TILE_CHUNK ? block : all;
    if ((i + 1) % LS_TILE_CHUNK == 0) {
        scan_next(s, level + 1, block);
    }
}

/* Serial sums, at once of a tile's two blocks: each addition waits for the one before it. */
static void sum_blocks(float *y, const float *x, int64_t n) {
    int64_t second = n > LS_TILE_CHUNK ? LS_TILE_CHUNK : 0, both = n - second;
    float a = y[0] = x[0], b = y[second] = x[second];
    for (int64_t i = 1; second && i < both; i++) {
        y[i] = a = a + x[i];
        y[second + i] = b = b + x[second + i];
    }
    for (int64_t i = second ? both : 1; i < (second ? second : n); i++) {
        y[i] = a = a + x[i];
    }
}

/* Each block of n lanes of x in the scan's order, on its own. */
static void scan_blocks(const scan *s, char *y, const char *x, int64_t n) {
    if (s->v->acc == LS_F32 && s->v->map == LS_SCAN_SUM) { /* the common case, without calls */
        sum_blocks((float *)(void *)y, (const float *)(const void *)x, n);
        return;
    }
    memcpy(y, x, (size_t)n * s->size);
    for (int64_t i = 1; i < n; i++) {
        char *at = y + (size_t)i * s->size;
        if (i % LS_TILE_CHUNK) {
            s->fn(at, at - s->size, at, NULL, 1);
        }
    }
}

static void copy_reversed(char *dst, const char *src, int64_t n, size_t size) {
    for (int64_t i = 0; i < n; i++) {
        memcpy(dst + (size_t)i * size, src + (size_t)(n - 1 - i) * size, size);
    }
}

/* One line, with the axis along the lanes. `y` and `turned` are tiles, `y` with room for one scalar in front. */
static void scan_line(scan *s, ls_run *finish, uint64_t identity, char *y, char *turned) {
    const bool reverse = s->v->reverse, exclusive = s->v->exclusive;
    char *input = ls_run_reg(finish, finish->program->input), *before = y - s->size; /* what an exclusive scan's tile begins with */
    char *to = reverse || exclusive ? y : input;
    memcpy(before, &identity, s->size);
    memset(s->count, 0, sizeof s->count);
    for (int64_t first = 0; first < s->n; first += LS_TILE) {
        int64_t n = s->n - first < LS_TILE ? s->n - first : LS_TILE, lane = reverse ? s->n - first - n : first;
        ls_run_lanes(&s->run, lane, n);
        const char *x = ls_run_reg(&s->run, s->run.program->results[0]);
        if (reverse) {
            copy_reversed(turned, x, n, s->size);
        }
        scan_blocks(s, to, reverse ? turned : x, n);
        for (int64_t i = 0; i < n; i += LS_TILE_CHUNK) {
            int64_t part = n - i < LS_TILE_CHUNK ? n - i : LS_TILE_CHUNK;
            char *block = to + (size_t)i * s->size;
            uint64_t total = 0;
            memcpy(&total, block + (size_t)(part - 1) * s->size, s->size);
            if (s->count[0] > 0) {
                s->run.isa->fill[ls_tile_log2(s->size)](turned, s->inclusive[0], part);
                s->fn(block, turned, block, NULL, part);
            }
            scan_next(s, 0, &total);
        }
        if (to == y) {
            const char *out = exclusive ? before : y;
            if (reverse) {
                copy_reversed(input, out, n, s->size);
            } else {
                memcpy(input, out, (size_t)n * s->size);
            }
            memcpy(before, y + (size_t)(n - 1) * s->size, s->size);
        }
        ls_run_lanes(finish, lane, n);
    }
}

/* Lanes across the axis: position by position. */
static void scan_positions(scan *s, ls_run *finish, uint64_t identity) {
    char *input = s->result = ls_run_reg(finish, finish->program->input);
    memset(s->count, 0, sizeof s->count);
    for (int64_t i = 0; i < s->n; i++) {
        if (!s->v->exclusive) {
            scan_next(s, 0, scan_element(s, i));
        } else if (i > 0) {
            scan_next(s, 0, scan_element(s, i - 1));
        } else {
            s->run.isa->fill[ls_tile_log2(s->size)](input, &identity, s->lanes);
        }
        if (s->count[0] > 0 && s->inclusive[0] != input) {
            memcpy(input, s->inclusive[0], (size_t)s->lanes * s->size);
        }
        finish->coords[s->v->bound[0]] = s->v->reverse ? s->n - 1 - i : i;
        ls_run_point(finish);
        ls_run_lanes(finish, s->first, s->lanes);
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
    char *y = task->scratch + offset + LS_ALIGN, *turned = y + s.tile;
    s.values = turned + s.tile;
    if (phase->kind == LS_PHASE_SCAN_LINES) {
        s.tile = s.size;
        s.lanes = 1;
        for (int64_t line = task->first; line < task->first + task->n; line++) {
            ls_point_coords(s.run.extents, phase->n_axes, phase->axes, line, s.run.coords);
            ls_point_coords(s.run.extents, phase->n_axes, phase->axes, line, finish.coords);
            ls_run_point(&s.run);
            ls_run_point(&finish);
            scan_line(&s, &finish, identity, y, turned);
        }
        return;
    }
    for (int64_t at = 0; at < task->n; at += LS_TILE) {
        s.first = task->first + at;
        s.lanes = task->n - at < LS_TILE ? task->n - at : LS_TILE;
        scan_positions(&s, &finish, identity);
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
