/* Running tile programs. Invariants: an instruction reads and writes only the first n lanes of registers; a
 * LOAD that is one run of consecutive elements makes its register point at the memory itself, so nothing is
 * copied. */
#include "backend/cpu/walk.h"
#include "base/half.h"
#include <string.h>

static void *aligned(void *p) {
    return (void *)(((uintptr_t)p + LS_ALIGN - 1) & ~(uintptr_t)(LS_ALIGN - 1));
}

size_t ls_run_bytes(const ls_program *p) {
    return sizeof(void *) * (size_t)(p->n_regs + 1) + p->reg_bytes + 2 * LS_ALIGN;
}

/* ---- walking lanes ---- */
typedef void (*segment_fn)(void *ctx, const segment *s);

typedef struct read_ctx {
    char *dst;
    const char *src;
    ls_tile_read_fn read;
    ls_tile_fill_fn fill;
    ls_tile_read_rows_fn read_rows;
    uint64_t bits;
    int log2;
} read_ctx;

static void read_segment(void *ctx, const segment *s);
static void overlay_segment(void *ctx, const segment *s);
static void read_entries(const read_ctx *ctx, const int32_t *entries, int64_t at, int64_t offset,
                         int64_t stride, int64_t n);

/* Rows of a few lanes, which the same entries of a table say: lane by lane of all rows. */
static void read_joined(uint32_t *dst, const read_ctx *ctx, const int32_t *entries, int64_t base, int64_t stride, int64_t lanes,
                        int64_t step, int64_t rows, bool overlay) {
    uint32_t absent = (uint32_t)ctx->bits;
    for (int64_t j = 0; j < lanes; j++) {
        if (entries[j] != LS_TABLE_ABSENT) {
            const uint32_t *src = (const uint32_t *)(const void *)ctx->src + base + entries[j] + j * stride;
            for (int64_t r = 0; r < rows; r++) {
                dst[r * lanes + j] = src[r * step];
            }
        } else {
            for (int64_t r = 0; r < rows && !overlay; r++) {
                dst[r * lanes + j] = absent;
            }
        }
    }
}

/* Whole rows of a short innermost group, of tensors joined along it or along the first lane axis: all rows alike, or none present. False:
 * there are none here. */
static bool walk_short_rows(walk *w, bool overlay, const read_ctx *ctx) {
    const ls_access *a = w->access;
    const ls_table *table = &a->tables[0];
    int last = a->n_dims - 1;
    bool along = table->inner && table->n_axes == 1 && ctx->log2 == 2;
    int64_t rows = a->n_tables == 1 && (along || a->ranged) ? walk_rows(w) : 0, extent = rows > 1 ? w->extent[last] : 0;
    if (rows < 2 || (!along && last != 1)) {
        return false;
    }
    char *dst = ctx->dst + (w->at << ctx->log2);
    if (along) {
        read_joined((uint32_t *)(void *)dst, ctx, table->entries, w->base, a->dims[last].stride, extent, a->dims[last - 1].stride, rows,
                    overlay);
    } else {
        int64_t x = w->pos[0], until = x < a->first ? a->first : a->end;
        bool present = x >= a->first && x < a->end;
        rows = x < a->end && until - x < rows ? until - x : rows;
        const char *src = ctx->src + (w->base + (present ? table->entries[x] : 0)) * (INT64_C(1) << ctx->log2);
        if (present) {
            ctx->read_rows(dst, src, a->step, rows, a->dims[1].stride, extent);
        } else if (!overlay) {
            ctx->fill(dst, &ctx->bits, rows * extent);
        }
    }
    walk_skip(w, last - 1, rows, extent);
    return true;
}

/* Cuts lanes into segments, in order; absent lanes are segments too. */
static inline __attribute__((always_inline)) void walk_tables(walk *w, segment_fn fn, void *ctx) {
    const ls_access *a = w->access;
    int last = a->n_dims - 1;
    int64_t place[LS_ACCESS_TABLES], stride = last >= 0 ? a->dims[last].stride : 0;
    table_places(w, place);
    while (w->at < w->n) {
        if ((fn == read_segment || fn == overlay_segment) && walk_short_rows(w, fn == overlay_segment, ctx)) {
            if (w->at < w->n) {
                table_places(w, place);
            }
            continue;
        }
        int64_t n = walk_room(w), offset = w->base, x0 = last >= 0 ? w->pos[last] : 0;
        const ls_table_row *row = NULL;
        const int32_t *entries = NULL;
        bool present = true;
        for (int t = 0; t < a->n_tables && present; t++) {
            int64_t e = place[t];
            if (a->tables[t].inner) {
                row = &a->tables[t].rows[a->tables[t].n_axes > 1 ? e / a->tables[t].inner_extent : 0];
                entries = a->tables[t].entries + e;
            } else {
                present = a->tables[t].entries[e] != LS_TABLE_ABSENT;
                offset += a->tables[t].entries[e];
            }
        }
        if (!present || !entries) {
            fn(ctx, &(segment){w->at, n, offset, stride, present});
        } else if (row->regular) {
            /* The entries start, start + step, ...: lanes between them are absent. */
            int64_t first = row->start < x0 ? (x0 - row->start + row->step - 1) / row->step : 0;
            int64_t end = row->start < x0 + n ? (x0 + n - row->start + row->step - 1) / row->step : 0;
            end = end < row->count ? end : row->count;
            int64_t lo = row->start + first * row->step - x0, count = end - first;
            if (count <= 0) {
                fn(ctx, &(segment){w->at, n, 0, 0, false});
            } else {
                int64_t hi = row->step == 1 ? lo + count : n;
                if (lo > 0 || row->step > 1) {
                    fn(ctx, &(segment){w->at, row->step > 1 ? n : lo, 0, 0, false});
                }
                segment s = {w->at + lo, count, offset + row->base + first * row->stride + lo * stride,
                             row->stride + stride * row->step, true};
                if (row->step == 1) {
                    fn(ctx, &s);
                } else {
                    for (int64_t i = 0; i < count; i++) {
                        fn(ctx, &(segment){s.at + i * row->step, 1, s.offset + i * s.stride, 0, true});
                    }
                }
                if (hi < n) {
                    fn(ctx, &(segment){w->at + hi, n - hi, 0, 0, false});
                }
            }
        } else if (fn == read_segment && ((const read_ctx *)ctx)->log2 == 2) {
            read_entries(ctx, entries + x0, w->at, offset, stride, n);
        } else {
            for (int64_t i = 0; i < n; i++) {
                int32_t e = entries[x0 + i];
                fn(ctx, &(segment){w->at + i, 1, e == LS_TABLE_ABSENT ? 0 : offset + e + i * stride, 0,
                                   e != LS_TABLE_ABSENT});
            }
        }
        bool carries = last > 0 && x0 + n == w->extent[last];
        walk_step(w, n);
        if (carries && w->at < w->n) {
            table_places(w, place);
        }
    }
}

static void read_segment(void *ctx_, const segment *s) {
    read_ctx *ctx = ctx_;
    char *dst = ctx->dst + (s->at << ctx->log2);
    const char *src = ctx->src + s->offset * (INT64_C(1) << ctx->log2);
    if (s->present && s->n == 1 && ctx->log2 == 2) {
        memcpy(dst, src, 4);
    } else if (s->present) {
        ctx->read(dst, src, s->stride, s->n);
    } else if (s->n == 1 && ctx->log2 == 2) {
        memcpy(dst, &ctx->bits, 4);
    } else {
        ctx->fill(dst, &ctx->bits, s->n);
    }
}

/* Lanes whose places are entries of a table, without a call for each: an image made larger. */
static void read_entries(const read_ctx *ctx, const int32_t *entries, int64_t at, int64_t offset,
                         int64_t stride, int64_t n) {
    uint32_t *dst = (uint32_t *)(void *)ctx->dst + at, absent = (uint32_t)ctx->bits;
    const uint32_t *src = (const uint32_t *)(const void *)ctx->src;
    for (int64_t i = 0; i < n; i++) {
        dst[i] = entries[i] == LS_TABLE_ABSENT ? absent : src[offset + entries[i] + i * stride];
    }
}

static void present_segment(void *ctx, const segment *s) {
    memset((char *)ctx + s->at, s->present, (size_t)s->n);
}

static void overlay_segment(void *ctx, const segment *s) {
    if (s->present) {
        read_segment(ctx, s);
    }
}

static read_ctx read_into(const ls_run *run, const ls_access *a, char *dst) {
    const ls_tile_isa *isa = run->isa;
    return (read_ctx){dst, run->buffers[a->buffer], isa->read[a->log2], isa->fill[a->log2], isa->read_rows[a->log2], a->fill, a->log2};
}

/* How the lanes of a ranged access lie to its range: -1 all outside, 1 all inside, 0 neither. `out_lane`: the first one's place in its
 * row. */
static int range_of(const ls_run *run, const ls_access *a, int64_t n, int64_t *out_lane) {
    const ls_program *p = run->program;
    int64_t inner = 1, lane = 0, x = run->coords[p->lane_axes[0]];
    for (int i = 1; i < p->n_lane_axes; i++) {
        inner *= run->extents[p->lane_axes[i]];
        lane = lane * run->extents[p->lane_axes[i]] + run->coords[p->lane_axes[i]];
    }
    int64_t last = lane + n <= inner ? x : x + (lane + n - 1) / inner;
    *out_lane = lane;
    return last < a->first || x >= a->end ? -1 : x >= a->first && last < a->end ? 1 : 0;
}

/* Where the lanes of a whole access begin, all of them inside its range. */
static char *range_start(const ls_run *run, const ls_access *a, int64_t lane) {
    int64_t at = a->offset + lane + a->tables[0].entries[run->coords[run->program->lane_axes[0]]];
    for (int i = 0; i < a->n_scalar; i++) {
        at += a->scalar_stride[i] * run->coords[a->scalar_axis[i]];
    }
    return run->buffers[a->buffer] + at * (INT64_C(1) << a->log2);
}

static bool is_register(const ls_run *run, const void *x) {
    uintptr_t at = (uintptr_t)x, first = (uintptr_t)run->memory;
    return at >= first && at < first + run->program->reg_bytes;
}

/* Of an access whose one table is over a scalar axis, and whose lanes are one run of memory, the entry that serves them all: tensors joined
 * along rows. Else NULL. */
static const int32_t *entry_of_row(const ls_run *run, const ls_access *a) {
    const ls_table *t = &a->tables[0];
    bool one = !LS_SMALL && a->n_tables == 1 && t->n_axes == 1 && !t->inner && t->scalars && a->n_dims == 1 && a->dims[0].stride == 1;
    return one ? &t->entries[run->coords[t->axes[0]]] : NULL;
}

static void run_overlay(ls_run *run, const ls_instr *in, int64_t n) {
    const ls_access *a = &run->program->accesses[in->access];
    char *own = run->memory + run->program->reg_offsets[in->dst];
    read_ctx ctx = read_into(run, a, own);
    walk w;
    const int32_t *entry = entry_of_row(run, a);
    if (entry && *entry != LS_TABLE_ABSENT) {
        walk_begin(&w, run, a, n);
        run->regs[in->dst] = run->buffers[a->buffer] + (w.base + *entry) * (INT64_C(1) << a->log2);
        return;
    }
    if (entry && (run->regs[in->a] == own || !is_register(run, run->regs[in->a]))) {
        run->regs[in->dst] = run->regs[in->a];
        return;
    }
    int64_t lane;
    int range = a->ranged ? range_of(run, a, n, &lane) : 0;
    if (range > 0 && a->whole) {
        run->regs[in->dst] = range_start(run, a, lane);
        return;
    }
    if (range < 0 && !is_register(run, run->regs[in->a])) { /* memory outlives the register */
        run->regs[in->dst] = run->regs[in->a];
        return;
    }
    if (run->regs[in->a] != own) {
        memcpy(own, run->regs[in->a], (size_t)n << a->log2);
    }
    run->regs[in->dst] = own;
    if (range < 0) {
        return;
    }
    walk_begin(&w, run, a, n);
    walk_tables(&w, overlay_segment, &ctx);
}

/* Bytes from a run to the one that is fetched while it is read, some runs later: they lie apart, and no processor foresees where. */
static int64_t bytes_ahead(const walk *w) {
    enum { AHEAD = 4 << 10 }; /* bytes of runs */
    const ls_access *a = w->access;
    const int last = a->n_dims - 1;
    const int64_t size = INT64_C(1) << a->log2, runs = 1 + AHEAD / (w->extent[last] * size);
    return (runs < w->extent[last - 1] ? runs : 1) * a->dims[last - 1].stride * size;
}

static void run_load(ls_run *run, const ls_instr *in, int64_t n) {
    const ls_access *a = &run->program->accesses[in->access];
    walk w;
    int64_t lane;
    if (a->whole && range_of(run, a, n, &lane) > 0) {
        run->regs[in->dst] = range_start(run, a, lane);
        return;
    }
    if (a->patch && run->patches) {
        run->regs[in->dst] = run->patches + (a->patch - 1) * LS_PATCH_BYTES;
        return;
    }
    walk_begin(&w, run, a, n);
    const char *src = run->buffers[a->buffer];
    char *own = run->memory + run->program->reg_offsets[in->dst];
    int64_t size = INT64_C(1) << a->log2;
    run->regs[in->dst] = own;
    if (a->n_tables) {
        read_ctx ctx = read_into(run, a, own);
        walk_tables(&w, read_segment, &ctx);
        return;
    }
    int last = a->n_dims - 1;
    int64_t stride = last >= 0 ? a->dims[last].stride : 0, room = walk_room(&w);
    if (n == 1 || (room == n && stride == 1)) {
        const char *at = src + w.base * size;
        run->regs[in->dst] = (char *)(uintptr_t)at;
        if (!LS_SMALL && a->ahead) {
            ls_fetch_later(&run->fetches, (uintptr_t)at + (uintptr_t)a->ahead, n * size);
        }
        return;
    }
    const int64_t ahead = stride == 1 && last > 0 ? bytes_ahead(&w) : 0;
    while (w.at < n) {
        int64_t blocks = walk_blocks(&w), rows = blocks ? 0 : walk_rows(&w);
        char *to = own + w.at * size;
        const char *from = src + w.base * size;
        if (blocks) {
            run->isa->read_pattern[a->log2](to, from, a->dims[last - a->pattern_dims].stride, blocks,
                                            a->pattern, a->n_pattern);
            walk_skip(&w, last - a->pattern_dims, blocks, a->n_pattern);
        } else if (rows > 1) { /* whole rows of the innermost group at once */
            run->isa->read_rows[a->log2](to, from, a->dims[last - 1].stride, rows, stride, w.extent[last]);
            walk_skip(&w, last - 1, rows, w.extent[last]);
        } else {
            room = walk_room(&w);
            ls_fetch_lines((uintptr_t)from + (uintptr_t)ahead, ahead ? room * size / (int64_t)sizeof(float) : 0, true);
            run->isa->read[a->log2](to, from, stride, room);
            walk_step(&w, room);
        }
    }
}

/* One row lane by lane, and the others like it where they are. */
static void run_present(ls_run *run, const ls_access *a, uint8_t *dst, int64_t n) {
    const ls_program *p = run->program;
    bool alike = a->n_tables == 1 && a->tables[0].inner && a->tables[0].n_axes == 1;
    int64_t row = alike ? run->extents[p->lane_axes[p->n_lane_axes - 1]] : n;
    walk w;
    walk_begin(&w, run, a, row < n ? row : n);
    walk_tables(&w, present_segment, dst);
    for (int64_t at = row; at < n; at *= 2) {
        memcpy(dst + at, dst, (size_t)(at < n - at ? at : n - at));
    }
}

static void run_store(ls_run *run, const ls_instr *in, int64_t n) {
    const ls_access *a = &run->program->accesses[in->access];
    walk w;
    walk_begin(&w, run, a, n);
    char *dst = run->buffers[a->buffer];
    int64_t size = INT64_C(1) << a->log2;
    int last = a->n_dims - 1;
    int64_t stride = last >= 0 ? a->dims[last].stride : 0;
    const char *src = run->regs[in->a];
    size_t held = ls_tile_held_size((ls_dtype)in->dtype);
    bool direct = in->cast && stride == 1; /* converts on the way */
    if (in->cast && !direct) {
        in->cast(run->regs[in->dst], src, n);
        src = run->regs[in->dst];
        held = (size_t)size;
    }
    if (!LS_SMALL && a->ahead && stride == 1 && walk_room(&w) == n) {
        ls_fetch_later(&run->fetches, (uintptr_t)dst + (uintptr_t)(w.base * size + a->ahead), n * size);
    }
    while (w.at < n) {
        int64_t room = walk_room(&w);
        char *to = dst + w.base * size;
        const char *from = src + (size_t)w.at * held;
        if (direct) {
            in->cast(to, from, room);
        } else {
            run->isa->write[a->log2](to, stride, from, room);
        }
        walk_step(&w, room);
    }
}

/* Coordinates of one lane axis over the lanes. */
static void run_coord(ls_run *run, const ls_instr *in, int64_t n) {
    const ls_program *p = run->program;
    int64_t *dst = run->regs[in->dst];
    int at = 0;
    while (at < p->n_lane_axes && p->lane_axes[at] != in->access) {
        at++;
    }
    if (at == p->n_lane_axes) {
        dst[0] = run->coords[in->access];
        return;
    }
    int64_t inner = 1, inside = 0, extent = run->extents[p->lane_axes[at]], x = run->coords[in->access];
    for (int i = at + 1; i < p->n_lane_axes; i++) {
        inside = inside * run->extents[p->lane_axes[i]] + run->coords[p->lane_axes[i]];
        inner *= run->extents[p->lane_axes[i]];
    }
    int64_t period = inner * extent, first = n;
    if (period < n / 2) { /* one period lane by lane, the rest by copying what is there */
        first = period;
    }
    int64_t all = n;
    n = first;
    if (inner == 1) {
        for (int64_t i = 0; i < n;) {
            int64_t part = extent - x < n - i ? extent - x : n - i;
            run->isa->iota(dst + i, x, 1, part);
            i += part;
            x = 0;
        }
    }
    for (int64_t i = 0; i < n && inner > 1;) {
        int64_t part = inner - inside < n - i ? inner - inside : n - i;
        run->isa->fill[3](dst + i, &x, part);
        i += part;
        inside = 0;
        x = x + 1 == extent ? 0 : x + 1;
    }
    while (n < all) {
        int64_t more = n < all - n ? n : all - n;
        memcpy(dst + n, dst, (size_t)more * sizeof *dst);
        n += more;
    }
}

/* Each row's lane as many times as the tile has lanes of that row. */
static void run_expand(ls_run *run, const ls_instr *in, int64_t rows) {
    char *dst = run->regs[in->dst];
    const char *src = run->regs[in->a];
    int64_t inner = run->row_inner, at = 0;
    if (rows == 1) { /* for the tiles that follow too */
        run->isa->fill[in->log2](dst, src, inner < LS_TILE ? inner : LS_TILE);
        return;
    }
    for (int64_t r = 0, lane = run->row_lane; r < rows;) {
        int64_t whole = lane ? 0 : (LS_TILE - at) / inner;
        whole = whole < rows - r ? whole : rows - r;
        if (whole > 1 && inner <= 32) {
            run->isa->read_rows[in->log2](dst + (at << in->log2), src + (r << in->log2), 1, whole, 0, inner);
            at += whole * inner;
            r += whole;
            continue;
        }
        int64_t n = inner - lane < LS_TILE - at ? inner - lane : LS_TILE - at;
        run->isa->fill[in->log2](dst + (at << in->log2), src + (r << in->log2), n);
        at += n;
        lane = 0;
        r++;
    }
}

/* Lanes of a segment from places of their own; whether all of those are there. */
#define TAKE_LANES(bits)                                                                                     \
    case bits: {                                                                                             \
        uint##bits##_t *d = dst, fill = (uint##bits##_t)a->fill;                                             \
        const uint##bits##_t *s = src;                                                                       \
        for (int64_t i = 0; i < n; i++, s += stride) {                                                       \
            bool here = (uint64_t)places[i] < limit;                                                         \
            d[i] = here ? s[places[i] * factor] : fill;                                                      \
            all &= here;                                                                                     \
        }                                                                                                    \
        break;                                                                                               \
    }
static bool take_lanes(const ls_access *a, void *dst, const void *src, int64_t stride, const int64_t *places,
                       int64_t n) {
    const uint64_t limit = (uint64_t)a->limit;
    const int64_t factor = a->factor;
    bool all = true;
    switch (8 << a->log2) {
        TAKE_LANES(8)
        TAKE_LANES(16)
        TAKE_LANES(32)
        TAKE_LANES(64)
    }
    return all;
}

/* Of 32 bits and of one row, `next` the one after it or 0: elements take a few instructions each, so that many are asked for at once, and
 * as much of the next row is fetched meanwhile, since no processor foresees the order of its lines. */
static bool take_words(const ls_access *a, uint32_t *dst, const uint32_t *src, const int64_t *places, int64_t n, uintptr_t next) {
    enum { BLOCK = 16 };
    const uint64_t limit = (uint64_t)a->limit;
    const int64_t factor = a->factor, part = next ? (a->limit + n - 1) / n * BLOCK : 0; /* of the next row, for each block */
    bool all = true;
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK, next += (uintptr_t)part * sizeof *src) {
        ls_fetch_lines(next, part, false);
#pragma GCC unroll 16
        for (int64_t j = i; j < i + BLOCK; j++) {
            if (__builtin_expect((uint64_t)places[j] < limit, true)) {
                dst[j] = src[places[j] * factor];
            } else {
                dst[j] = (uint32_t)a->fill;
                all = false;
            }
        }
    }
    return take_lanes(a, dst + i, src, 0, places + i, n - i) && all;
}

static void run_take(ls_run *run, const ls_instr *in, int64_t n) {
    const ls_access *a = &run->program->accesses[in->access];
    const int64_t *places = run->regs[in->a];
    char *own = run->memory + run->program->reg_offsets[in->dst];
    bool all = true;
    walk w;
    walk_begin(&w, run, a, n);
    int64_t stride = a->n_dims ? a->dims[a->n_dims - 1].stride : 0, lane = run->row_lane;
    run->regs[in->dst] = own;
    while (w.at < n) {
        int64_t part = walk_room(&w), size = INT64_C(1) << a->log2;
        char *dst = own + w.at * size, *src = run->buffers[a->buffer] + w.base * size;
        if (!in->combine) {
            if (!LS_SMALL && a->log2 == 2 && stride == 0) {
                const bool goes_on = a->ahead && a->factor == 1 && a->limit <= 4 * part;
                all &= take_words(a, (uint32_t *)(void *)dst, (const uint32_t *)(const void *)src, places + w.at, part, goes_on ? (uintptr_t)(src + a->limit * size) : 0);
            } else {
                all &= take_lanes(a, dst, src, stride, places + w.at, part);
            }
            walk_step(&w, part);
            continue;
        }
        int64_t left = run->row_inner - lane;
        part = part < left ? part : left;
        if ((uint64_t)*places >= (uint64_t)a->limit) {
            run->isa->fill[a->log2](dst, &a->fill, part);
            all = false;
        } else if (part == n && stride == 1) {
            run->regs[in->dst] = src + *places * a->factor * size;
        } else {
            run->isa->read[a->log2](dst, src + *places * a->factor * size, stride, part);
        }
        lane = part == left ? 0 : lane + part;
        places += part == left;
        walk_step(&w, part);
    }
    if (!all) {
        atomic_store_explicit(run->out_of_range, 1 + (int64_t)in->bits, memory_order_relaxed);
    }
}

static void run_check(ls_run *run, const ls_instr *in, int64_t n) {
    const uint8_t *ok = run->regs[in->b], *where = in->a >= 0 ? run->regs[in->a] : NULL;
    for (int64_t i = 0; i < n; i++) {
        if (!ok[i] && (!where || where[i])) {
            atomic_store_explicit(run->out_of_range, 1 + (int64_t)in->bits, memory_order_relaxed);
            return;
        }
    }
}

/* The gradient of an embedding, mostly. */
static void scatter_add_f32(float *base, const int64_t *at, const uint8_t *where, const float *src,
                            int64_t n) {
    const uint32_t canonical = LS_NAN_F32;
    for (int64_t i = 0; i < n; i++) {
        if (!where || where[i]) {
            float *place = base + at[i];
            *place = *place + src[i];
            if (*place != *place) {
                memcpy(place, &canonical, sizeof canonical);
            }
        }
    }
}

static void run_scatter(ls_run *run, const ls_instr *in, int64_t n) {
    static const ls_op ops[] = {[LS_STORE_ADD] = LS_OP_ADD,
                                [LS_STORE_MUL] = LS_OP_MUL,
                                [LS_STORE_MIN] = LS_OP_MIN,
                                [LS_STORE_MAX] = LS_OP_MAX};
    const ls_tile_isa *isa = run->isa;
    ls_dtype dtype = (ls_dtype)in->dtype;
    const int64_t *at = run->regs[in->b];
    const uint8_t *where = in->c >= 0 ? run->regs[in->c] : NULL;
    const char *src = run->regs[in->a];
    char *base = run->buffers[in->access];
    size_t size = ls_dtype_size(dtype), held = ls_tile_held_size(dtype);
    if (dtype == LS_F32 && in->combine == LS_STORE_ADD) {
        scatter_add_f32((float *)(void *)base, at, where, (const float *)(const void *)src, n);
        return;
    }
    ls_tile_fn fn = in->combine == LS_STORE_SET ? NULL
                    : dtype == LS_F64           ? isa->map_f64[ops[in->combine]]
                    : ls_dtype_is_float(dtype)  ? isa->map_f32[ops[in->combine]]
                                                : ls_tile_int_fn(isa, ops[in->combine], dtype);
    for (int64_t i = 0; i < n; i++) {
        if (where && !where[i]) {
            continue;
        }
        char *place = base + (size_t)at[i] * size;
        uint64_t old = 0, now = 0;
        memcpy(&now, src + (size_t)i * held, held);
        if (fn) {
            if (isa->load[dtype]) {
                isa->load[dtype](&old, place, 1);
            } else {
                memcpy(&old, place, size);
            }
            fn(&now, &old, &now, NULL, 1);
        }
        if (in->cast) { /* rounds to the stored dtype, NaN canonical */
            in->cast(&old, &now, 1);
            now = old;
        }
        memcpy(place, &now, size);
    }
}

static void run_section(ls_run *run, ls_section section, int skip, int64_t n) {
    const ls_program *p = run->program;
    const ls_tile_isa *isa = run->isa;
    void **r = run->regs;
    bool fetches = !LS_SMALL && section == LS_SECTION_LANES && run->fetches.lines;
    for (const ls_instr *in = p->instrs[section] + skip, *end = p->instrs[section] + p->n_instrs[section];
         in < end; in++) {
        if (fetches) {
            ls_fetch(&run->fetches);
        }
        switch ((ls_tile_op)in->op) {
        case LS_TILE_OP_CONST:
            memcpy(r[in->dst], &in->bits, (size_t)1 << in->log2);
            break;
        case LS_TILE_OP_BROADCAST:
            isa->fill[in->log2](r[in->dst], r[in->a], run->lanes);
            break;
        case LS_TILE_OP_EXPAND:
            run_expand(run, in, n);
            break;
        case LS_TILE_OP_LOAD:
            run_load(run, in, n);
            break;
        case LS_TILE_OP_OVERLAY:
            run_overlay(run, in, n);
            break;
        case LS_TILE_OP_PRESENT:
            run_present(run, &p->accesses[in->access], r[in->dst], n);
            break;
        case LS_TILE_OP_FN:
            in->fn(r[in->dst], r[in->a], in->b >= 0 ? r[in->b] : NULL, in->c >= 0 ? r[in->c] : NULL, n);
            break;
        case LS_TILE_OP_DIVIDE:
            if (!LS_SMALL && (!in->combine || run->expanded >= 0)) {
                isa->divide_f32(r[in->dst], r[in->a], 0, *(const float *)r[in->b], n, false, LS_DST_NEAR);
            } else {
                in->fn(r[in->dst], r[in->a], r[in->b], NULL, n);
            }
            break;
        case LS_TILE_OP_CAST:
            in->cast(r[in->dst], r[in->a], n);
            break;
        case LS_TILE_OP_COORD:
            run_coord(run, in, n);
            break;
        case LS_TILE_OP_DIM:
            *(int64_t *)r[in->dst] = ls_dim_eval(run->spec->dims[in->access], run->symbols);
            break;
        case LS_TILE_OP_RANGE:
            memmove(r[in->dst], r[in->a], (size_t)n);
            isa->in_range(r[in->dst], r[in->b], r[in->c], n);
            break;
        case LS_TILE_OP_MULTIPLE:
            memmove(r[in->dst], r[in->a], (size_t)n);
            isa->multiple(r[in->dst], r[in->b], (int64_t)in->bits, n);
            break;
        case LS_TILE_OP_GATHER:
            isa->gather[in->log2](r[in->dst], run->buffers[in->access], r[in->a],
                                  in->b >= 0 ? r[in->b] : NULL, n);
            break;
        case LS_TILE_OP_TAKE:
            run_take(run, in, n);
            break;
        case LS_TILE_OP_CHECK:
            run_check(run, in, n);
            break;
        case LS_TILE_OP_RANDOM:
            isa->threefry(r[in->dst], r[in->a], r[in->b], r[in->c], n);
            break;
        case LS_TILE_OP_FUSED:
            ls_run_fused(run, in, n);
            break;
        case LS_TILE_OP_STORE:
            run_store(run, in, n);
            break;
        case LS_TILE_OP_SCATTER:
            run_scatter(run, in, n);
            break;
        }
    }
}

/* What all lanes share. Without lanes nobody reads it, and what it would be made of may not be there. */
static void run_once(ls_run *run, ls_section section) {
    bool any = !run->empty;
    for (int i = 0; i < run->program->n_lane_axes; i++) {
        any = any && run->extents[run->program->lane_axes[i]] > 0;
    }
    if (any) {
        run_section(run, section, 0, 1);
    }
}

void ls_run_begin(ls_run *run, const ls_program *program, void *memory) {
    run->program = program;
    run->regs = aligned(memory);
    run->memory = aligned(run->regs + program->n_regs);
    for (int i = 0; i < program->n_regs; i++) {
        run->regs[i] = run->memory + program->reg_offsets[i];
    }
    memset(run->coords, 0, sizeof run->coords);
    run->expanded = -1;
    run->periodic_at = -1;
    run->patches = NULL;
    run->lanes = 1;
    for (int i = 0; i < program->n_lane_axes && run->lanes < LS_TILE; i++) {
        run->lanes *= run->extents[program->lane_axes[i]];
    }
    run->lanes = run->lanes < LS_TILE ? run->lanes : LS_TILE;
    run_once(run, LS_SECTION_LAUNCH);
}

void ls_run_point(ls_run *run) {
    for (int i = 0; i < run->program->n_lane_axes; i++) {
        run->coords[run->program->lane_axes[i]] = 0;
    }
    run->expanded = -1;
    run_once(run, LS_SECTION_POINT);
}

/* The values that lanes share with their row; those of one row serve all its tiles. */
void ls_run_rows(ls_run *run, int64_t first, int64_t n) {
    const ls_program *p = run->program;
    int64_t inner = 1;
    if (!p->row_axes) {
        return;
    }
    for (int i = p->row_axes; i < p->n_lane_axes; i++) {
        inner *= run->extents[p->lane_axes[i]];
    }
    int64_t row = first / inner, lane = first - row * inner, rows = (lane + n + inner - 1) / inner;
    run->row_lane = lane;
    run->row_inner = inner;
    if (rows > 1 || row != run->expanded) {
        run_section(run, LS_SECTION_ROWS, 0, rows);
        run->expanded = rows == 1 ? row : -1;
    }
}

void ls_run_seek(ls_run *run, int64_t first) {
    const ls_program *p = run->program;
    for (int i = p->n_lane_axes - 1; i >= 0; i--) {
        int64_t extent = run->extents[p->lane_axes[i]];
        if (i == 0) {
            run->coords[p->lane_axes[i]] = first;
        } else if (first < extent) {
            run->coords[p->lane_axes[i]] = first;
            first = 0;
        } else {
            int64_t q = ((uint64_t)first | (uint64_t)extent) >> 32
                            ? first / extent
                            : (int64_t)((uint32_t)first / (uint32_t)extent);
            run->coords[p->lane_axes[i]] = first - q * extent;
            first = q;
        }
    }
}

int64_t ls_run_place(const ls_run *run, const ls_access *access) {
    walk w;
    walk_begin(&w, run, access, 1);
    return w.base;
}

void ls_run_lanes(ls_run *run, int64_t first, int64_t n) {
    ls_run_seek(run, first);
    ls_run_rows(run, first, n);
    int skip = 0;
    if (run->program->n_periodic) {
        int64_t at = first % run->program->period;
        skip = at == run->periodic_at && n <= run->periodic_lanes ? run->program->n_periodic : 0;
        run->periodic_lanes = skip ? run->periodic_lanes : n;
        run->periodic_at = at;
    }
    run_section(run, LS_SECTION_LANES, skip, n);
}

int64_t ls_run_lane_count(const ls_run *run) {
    int64_t n = 1;
    for (int i = 0; i < run->program->n_lane_axes; i++) {
        n *= run->extents[run->program->lane_axes[i]];
    }
    return n;
}
