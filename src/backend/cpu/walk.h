/* Walking the lanes of a tile program's access: where each lies in memory. Internal to program_run.c, fuse.c and move_run.c. */
#ifndef LOCKSTEP_BACKEND_CPU_WALK_H
#define LOCKSTEP_BACKEND_CPU_WALK_H

#include "backend/cpu/program.h"

/* A segment of lanes [at, at + n): elements at offset + i * stride, or absent (present false). */
typedef struct segment {
    int64_t at, n, offset, stride;
    bool present;
} segment;

typedef struct walk {
    const ls_access *access;
    const ls_run *run;
    int64_t n, at, base;
    int64_t pos[LS_LANE_AXES], extent[LS_LANE_AXES];
} walk;

static inline void walk_begin(walk *w, const ls_run *run, const ls_access *a, int64_t n) {
    w->access = a;
    w->run = run;
    w->n = n;
    w->at = 0;
    w->base = a->offset;
    for (int i = 0; i < a->n_scalar; i++) {
        w->base += a->scalar_stride[i] * run->coords[a->scalar_axis[i]];
    }
    const uint8_t *axes = run->program->lane_axes;
    for (int d = 0; d < a->n_dims; d++) {
        int64_t pos = 0, extent = 1;
        for (int i = a->dims[d].first; i <= a->dims[d].last; i++) {
            pos = pos * run->extents[axes[i]] + run->coords[axes[i]];
            extent *= run->extents[axes[i]];
        }
        w->pos[d] = pos;
        w->extent[d] = extent;
        w->base += pos * a->dims[d].stride;
    }
}

/* Goes `n` lanes on; n does not pass the end of the innermost group. */
static inline void walk_step(walk *w, int64_t n) {
    const ls_access *a = w->access;
    w->at += n;
    int d = a->n_dims - 1;
    if (d < 0) {
        return;
    }
    w->pos[d] += n;
    w->base += n * a->dims[d].stride;
    while (d > 0 && w->pos[d] == w->extent[d]) {
        w->base -= w->extent[d] * a->dims[d].stride;
        w->pos[d] = 0;
        d--;
        w->pos[d]++;
        w->base += a->dims[d].stride;
    }
}

/* The lanes up to the end of the innermost group. */
static inline int64_t walk_room(const walk *w) {
    int d = w->access->n_dims - 1;
    int64_t left = w->n - w->at;
    if (d < 0) {
        return left;
    }
    int64_t room = w->extent[d] - w->pos[d];
    return room < left ? room : left;
}

/* At the start of a block of the access' pattern: how many whole blocks follow before the group outside of it
 * ends. */
static inline int64_t walk_blocks(const walk *w) {
    const ls_access *a = w->access;
    int outer = a->n_dims - 1 - a->pattern_dims;
    if (!a->n_pattern || w->n - w->at < a->n_pattern) {
        return 0;
    }
    for (int d = outer + 1; d < a->n_dims; d++) {
        if (w->pos[d] != 0) {
            return 0;
        }
    }
    int64_t blocks = (w->n - w->at) / a->n_pattern, left = w->extent[outer] - w->pos[outer];
    return blocks < left ? blocks : left;
}

/* Goes `n` steps of group d on, `lanes` lanes each. */
static inline void walk_skip(walk *w, int d, int64_t n, int64_t lanes) {
    const ls_access *a = w->access;
    w->at += n * lanes;
    w->pos[d] += n;
    w->base += n * a->dims[d].stride;
    for (; d > 0 && w->pos[d] == w->extent[d]; d--) {
        w->base += a->dims[d - 1].stride - w->extent[d] * a->dims[d].stride;
        w->pos[d] = 0;
        w->pos[d - 1]++;
    }
}

/* At the start of a row of a short innermost group: how many whole rows follow before the group outside of it
 * ends. */
static inline int64_t walk_rows(const walk *w) {
    int d = w->access->n_dims - 1;
    if (d < 1 || w->pos[d] != 0 || w->extent[d] > 32) {
        return 0;
    }
    int64_t rows = (w->n - w->at) / w->extent[d], left = w->extent[d - 1] - w->pos[d - 1];
    return rows < left ? rows : left;
}

/* The entries of each table at the walk's place, the last lane axis apart where the table has it. */
static inline void table_places(const walk *w, int64_t *place) {
    const ls_access *a = w->access;
    for (int t = 0; t < a->n_tables; t++) {
        const ls_table *table = &a->tables[t];
        place[t] = 0;
        for (uint64_t left = table->scalars; left; left &= left - 1) {
            int i = __builtin_ctzll(left);
            place[t] += w->run->coords[table->axes[i]] * table->strides[i];
        }
        for (int d = 0; d < a->n_dims - 1; d++) { /* an axis of a table is a group */
            place[t] += w->pos[d] * table->lane_strides[d];
        }
    }
}

#endif
