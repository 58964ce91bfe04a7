/* A contraction by tiles: matrix products, convolutions and their gradients, one template.
 *
 * The axes of the output are the batch (both operands vary over them), rows (the one) and columns (the
 * other); rows, columns and contracted axes are each taken as one line, in row-major order. A workgroup
 * computes a tile of rows by columns. It walks over the contracted line in slabs, which it puts into shared
 * memory, rows and columns side by side; a thread adds up a few rows of a few columns in registers while it
 * has the next slab's loads under way. Operands are any values: what is loaded, moved and computed in front
 * is evaluated where a slab is fetched; stores with all that follows are evaluated at each point.
 *
 * The order is the contract's: ascending from +0 in chunks of 512, sums of chunks added in order. A slab ends
 * with a chunk. Where tiles are too few for a device, several workgroups share one: each does some chunks and
 * leaves their sums in scratch, and the kernel that follows adds them and does the stores. Beyond the last
 * element both operands are +0: their product changes no sum, because a sum that begins at +0 is never -0.
 * Absent elements are +0 beside what may be infinite: where a slab had something that is not finite on the
 * other side, the products are masked by what is present. */
#include "emit/contract.h"

/* ---- slabs ---- */

static ls_val i32(ls_product *p, int64_t k) {
    return ls_kb_i32(&p->l->kb, (int32_t)k);
}

static ls_dtype word_of(const ls_product *p) {
    return p->lanes == LS_RUN ? LS_U32 : LS_U64;
}

/* Where unit u of a thread's is in a slab: its row and contracted element. What is the same for all units is said so. */
static void unit_at(ls_product *p, const ls_side *s, int u, ls_val *out_row, ls_val *out_k) {
    ls_kb *kb = &p->l->kb;
    int inner = (s->by_k ? p->bk : s->tile) / s->run, first = u * p->threads;
    ls_val low, high;
    if (p->threads % inner == 0) {
        low = ls_kb_rem(kb, p->t, i32(p, inner));
        high = ls_kb_div(kb, p->t, i32(p, inner));
        high = first ? ls_kb_add(kb, high, i32(p, first / inner)) : high;
    } else if (inner % p->threads == 0) {
        low = first % inner ? ls_kb_add(kb, p->t, i32(p, first % inner)) : p->t;
        high = i32(p, first / inner);
    } else {
        ls_val e = ls_kb_add(kb, p->t, i32(p, first));
        low = ls_kb_rem(kb, e, i32(p, inner));
        high = ls_kb_div(kb, e, i32(p, inner));
    }
    low = ls_kb_mul(kb, low, i32(p, s->run));
    *out_row = s->by_k ? high : low;
    *out_k = s->by_k ? low : high;
}

/* Whether a slab lies within one line of the innermost contracted axis. */
static bool slab_in_line(const ls_product *p) {
    ls_dim extent = p->l->spec->extents_of_axes[p->v->bound[p->v->n_bound - 1]];
    return p->exact && p->v->n_bound > 1 && ls_dim_is_fixed(extent) && ls_dim_bound(extent) % p->bk == 0;
}

/* Binds the axes to the first element of a unit, k on from the slab's beginning; the guards that hold there, for reports. */
static ls_val bind_unit(ls_product *p, ls_side *s, ls_val row, ls_val at, ls_val k) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_val active = LS_VAL_NONE;
    bool reports = l->reports[s->value];
    row = ls_kb_add(kb, s->first, ls_kb_cast(kb, row, s->type));
    if (s->bound % s->tile) {
        active = reports ? ls_kb_lt(kb, row, ls_kb_const_int(kb, s->type, s->bound)) : active;
        row = ls_kb_min(kb, row, ls_kb_const_int(kb, s->type, s->bound - (s->by_k ? 1 : s->run)));
    }
    ls_val within = ls_lower_bind_point(l, row, s->axes, s->n);
    active = reports ? ls_lower_and(l, active, within) : active;
    if (slab_in_line(p)) {
        ls_fold_near(&p->f, at, k);
        return active;
    }
    k = ls_kb_add(kb, at, k);
    if (!p->exact) {
        active = reports ? ls_lower_and(l, active, ls_kb_lt(kb, k, p->f.n)) : active;
        k = ls_kb_min(kb, k, ls_kb_const_int(kb, p->f.type, p->f.bound - (s->by_k ? s->run : 1)));
    }
    ls_fold_point(&p->f, k);
    return active;
}

static void fetch_unit(ls_product *p, ls_side *s, ls_val at, int u) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_val e = ls_kb_add(kb, p->t, i32(p, (int64_t)u * p->threads)), row, k, x[LS_RUN], mask[LS_RUN];
    bool some = (u + 1) * p->threads > s->units;
    if (some) {
        ls_kb_if(kb, ls_kb_lt(kb, e, i32(p, s->units)));
    }
    ls_saved_axes saved = ls_fold_save(&p->f);
    unit_at(p, s, u, &row, &k);
    k = ls_kb_cast(kb, k, p->f.type);
    l->active = bind_unit(p, s, row, at, k);
    k = ls_kb_add(kb, at, k);
    int axis = ls_product_axis(p, s, s->by_k);
    ls_quad q = {0};
    if (s->run == LS_RUN) {
        q = (ls_quad){.l = l, .axis = axis, .base = l->axis[axis], .at = LS_VAL_NONE};
        ls_quad_start(&q, s->used);
    }
    for (int lane = 0; lane < s->run && l->status == LS_OK; lane++) {
        if (s->run == LS_RUN) {
            ls_quad_lane(&q, lane);
        }
        ls_lowered value = ls_lower_value(l, s->value);
        x[lane] = ls_kb_cast(kb, value.v, p->staged);
        if (!p->exact) {
            ls_val here = s->by_k && lane ? ls_kb_add(kb, k, ls_kb_const_int(kb, p->f.type, lane)) : k;
            x[lane] = ls_kb_select(kb, ls_kb_lt(kb, here, p->f.n), x[lane], p->zero);
        }
        if (s->mask >= 0) {
            ls_val all = ls_kb_const_bits(kb, word_of(p), p->lanes == LS_RUN ? UINT32_MAX : UINT64_MAX);
            ls_val none = ls_lower_zero(kb, word_of(p));
            mask[lane] = value.present == LS_VAL_NONE ? all : ls_kb_select(kb, value.present, all, none);
        }
    }
    l->active = LS_VAL_NONE;
    ls_fold_restore(&p->f, &saved);
    if (l->status == LS_OK) {
        ls_kb_set(kb, s->held[u], s->run == LS_RUN ? ls_quad_join(kb, x) : x[0]);
        if (s->mask >= 0) {
            ls_kb_set(kb, s->held_mask[u], s->run == LS_RUN ? ls_quad_join(kb, mask) : mask[0]);
        }
    }
    if (some) {
        ls_kb_end_if(kb);
    }
}

static int units_of(const ls_product *p, const ls_side *s) {
    return (s->units + p->threads - 1) / p->threads;
}

/* A place in the slab at work, in its array. */
static ls_val place_of(ls_product *p, const ls_side *s, ls_val at) {
    ls_kb *kb = &p->l->kb;
    return p->turn == LS_VAL_NONE ? at : ls_kb_add(kb, at, ls_kb_mul(kb, p->turn, i32(p, s->slab)));
}

static ls_val odd_place(ls_product *p) {
    return p->turn == LS_VAL_NONE ? i32(p, 0) : p->turn;
}

/* What was fetched, into shared memory. */
static void put(ls_product *p, const ls_side *s, int mem, ls_val at, ls_val x) {
    ls_kb *kb = &p->l->kb;
    bool in_line = !s->by_k || s->along;
    if (s->run == 1 || in_line) {
        ls_kb_store(kb, mem, at, x, LS_VAL_NONE);
        return;
    }
    for (int j = 0; j < s->run; j++) {
        ls_val to = ls_kb_add(kb, at, i32(p, (int64_t)j * s->stride));
        ls_kb_store(kb, mem, to, ls_kb_extract(kb, x, j), LS_VAL_NONE);
    }
}

/* Whether some lane of x is infinite or NaN. */
static ls_val not_finite(ls_product *p, ls_val x, int lanes) {
    ls_kb *kb = &p->l->kb;
    ls_dtype word = word_of(p);
    ls_val exponent = ls_kb_const_bits(kb, word, p->lanes == LS_RUN ? 0x7f800000u : UINT64_C(0x7ff) << 52),
           any = LS_VAL_NONE;
    for (int i = 0; i < lanes; i++) {
        ls_val one = ls_kb_cast(kb, lanes > 1 ? ls_kb_extract(kb, x, i) : x, (ls_dtype)p->v->acc);
        ls_val bits = ls_kb_bitcast(kb, one, word);
        ls_val is = ls_kb_eq(kb, ls_kb_and(kb, bits, exponent), exponent);
        any = any == LS_VAL_NONE ? is : ls_kb_or(kb, any, is);
    }
    return any;
}

void ls_product_odd(ls_product *p, ls_val where) {
    ls_val unused = ls_kb_atomic(&p->l->kb, LS_K_ATOMIC_OR, p->odd, odd_place(p), ls_kb_u32(&p->l->kb, 1), where);
    (void)unused;
}

/* Whether it had something that is not finite beside what may be absent, where that is still to be said. */
static ls_val put_unit(ls_product *p, ls_side *s, int u) {
    ls_kb *kb = &p->l->kb;
    ls_val e = ls_kb_add(kb, p->t, i32(p, (int64_t)u * p->threads)), row, k;
    bool some = (u + 1) * p->threads > s->units;
    if (some) {
        ls_kb_if(kb, ls_kb_lt(kb, e, i32(p, s->units)));
    }
    unit_at(p, s, u, &row, &k);
    ls_val outer = s->along && s->by_k ? row : k, inner = outer == k ? row : k;
    ls_val at = ls_kb_add(kb, ls_kb_mul(kb, outer, i32(p, s->stride)), inner), x = ls_kb_get(kb, s->held[u]);
    at = place_of(p, s, at);
    put(p, s, s->mem, at, x);
    if (s->mask >= 0) {
        put(p, s, s->mask, at, ls_kb_get(kb, s->held_mask[u]));
    }
    ls_val odd = p->odd >= 0 && p->s[s == &p->s[0]].absent ? not_finite(p, x, s->run) : LS_VAL_NONE;
    if (some) {
        if (odd != LS_VAL_NONE) {
            ls_product_odd(p, odd);
        }
        ls_kb_end_if(kb);
        odd = LS_VAL_NONE;
    }
    return odd;
}

void ls_product_fetch(ls_product *p, ls_val at) {
    for (int i = 0; i < 2; i++) {
        for (int u = 0; p->s[i].words < 0 && u < units_of(p, &p->s[i]); u++) {
            fetch_unit(p, &p->s[i], at, u);
        }
    }
}
void ls_product_put(ls_product *p) {
    for (int i = 0; i < 2; i++) {
        ls_val any = LS_VAL_NONE;
        for (int u = 0; p->s[i].words < 0 && u < units_of(p, &p->s[i]); u++) {
            ls_val odd = put_unit(p, &p->s[i], u);
            any = any == LS_VAL_NONE ? odd : odd == LS_VAL_NONE ? any : ls_kb_or(&p->l->kb, any, odd);
        }
        if (any != LS_VAL_NONE) {
            ls_product_odd(p, any);
        }
    }
}

/* ---- sums ---- */

/* Row i of a thread, within the tile: runs of up to `lanes` rows. */
static ls_val row_of(ls_product *p, int i) {
    ls_kb *kb = &p->l->kb;
    int run = p->shape.tm < p->lanes ? p->shape.tm : p->lanes;
    return ls_kb_add(kb, ls_kb_mul(kb, p->ty, i32(p, run)), i32(p, i / run * run * p->shape.ty + i % run));
}
/* The first of the columns of run j. */
static ls_val column_of(ls_product *p, int j) {
    ls_kb *kb = &p->l->kb;
    return ls_kb_add(kb, ls_kb_mul(kb, p->tx, i32(p, p->lanes)), i32(p, (int64_t)j * p->lanes * p->shape.tx));
}

/* The rows of a thread as scalars, from shared memory at column k. */
static void rows_from(ls_product *p, int mem, ls_val k, ls_val *out) {
    ls_kb *kb = &p->l->kb;
    int run = p->shape.tm < p->lanes ? p->shape.tm : p->lanes;
    ls_val base = place_of(p, &p->s[0], ls_kb_mul(kb, k, i32(p, p->s[0].stride)));
    for (int i = 0; i < p->shape.tm; i += run) {
        ls_val x = ls_kb_load(kb, mem, ls_kb_add(kb, base, row_of(p, i)), LS_VAL_NONE, LS_VAL_NONE, run);
        for (int j = 0; j < run; j++) {
            out[i + j] = run > 1 ? ls_kb_extract(kb, x, j) : x;
        }
    }
}
static void columns_from(ls_product *p, int mem, ls_val k, ls_val *out) {
    ls_kb *kb = &p->l->kb;
    ls_val base = place_of(p, &p->s[1], ls_kb_mul(kb, k, i32(p, p->s[1].stride)));
    for (int j = 0; j < p->shape.tn / p->lanes; j++) {
        out[j] =
            ls_kb_load(kb, mem, ls_kb_add(kb, base, column_of(p, j)), LS_VAL_NONE, LS_VAL_NONE, p->lanes);
    }
}

static void add_products(ls_product *p, bool masked) {
    ls_kb *kb = &p->l->kb;
    ls_val k = ls_kb_loop(kb, i32(p, 0), i32(p, p->bk), i32(p, 1), masked ? 0 : LS_KF_UNROLL);
    ls_val a[8], b[4], am[8], bm[4];
    rows_from(p, p->s[0].mem, k, a);
    columns_from(p, p->s[1].mem, k, b);
    if (masked && p->s[0].absent) {
        rows_from(p, p->s[0].mask, k, am);
    }
    if (masked && p->s[1].absent) {
        columns_from(p, p->s[1].mask, k, bm);
    }
    for (int i = 0; i < p->shape.tm; i++) {
        ls_val x = ls_kb_splat(kb, a[i], p->lanes);
        for (int j = 0; j < p->shape.tn / p->lanes; j++) {
            ls_val before = ls_kb_get(kb, p->sum[i][j]);
            if (p->fast && !masked) {
                ls_kb_set(kb, p->sum[i][j], ls_kb_pure(kb, LS_K_FMA, x, b[j], before, LS_KF_FAST));
                continue;
            }
            ls_val term = ls_kb_mul(kb, x, b[j]);
            if (masked) {
                ls_val bits = ls_kb_bitcast(kb, term, word_of(p));
                bits = p->s[0].absent ? ls_kb_and(kb, bits, ls_kb_splat(kb, am[i], p->lanes)) : bits;
                bits = p->s[1].absent ? ls_kb_and(kb, bits, bm[j]) : bits;
                term = ls_kb_bitcast(kb, bits, (ls_dtype)p->v->acc);
            }
            ls_kb_set(kb, p->sum[i][j], ls_kb_add(kb, before, term));
        }
    }
    ls_kb_end_loop(kb);
}

static void keep_chunk(ls_product *p, ls_val chunk);

static void end_chunk(ls_product *p, ls_val at) {
    ls_kb *kb = &p->l->kb;
    ls_val size = ls_kb_const_int(kb, p->f.type, p->chunk), zero = ls_kb_const_int(kb, p->f.type, 0);
    ls_kb_if(kb, ls_kb_or(kb, ls_kb_eq(kb, ls_kb_rem(kb, at, size), zero), ls_kb_le(kb, p->f.n, at)));
    if (p->scratch >= 0) {
        keep_chunk(p, ls_kb_div(kb, ls_kb_sub(kb, at, ls_kb_const_int(kb, p->f.type, p->bk)), size));
    }
    for (int i = 0; i < p->shape.tm; i++) {
        for (int j = 0; j < p->shape.tn / p->lanes; j++) {
            if (p->scratch < 0) {
                ls_kb_set(kb, p->total[i][j],
                          ls_kb_add(kb, ls_kb_get(kb, p->total[i][j]), ls_kb_get(kb, p->sum[i][j])));
            }
            ls_kb_set(kb, p->sum[i][j], ls_kb_splat(kb, p->zero, p->lanes));
        }
    }
    ls_kb_end_if(kb);
}

static void tile_products(ls_product *p, ls_val at) {
    ls_kb *kb = &p->l->kb;
    if (p->odd >= 0) {
        ls_val odd = ls_kb_load(kb, p->odd, odd_place(p), LS_VAL_NONE, LS_VAL_NONE, 1);
        ls_kb_if(kb, ls_kb_ne(kb, odd, ls_kb_u32(kb, 0)));
        ls_lower_cover(p->l, LS_COVER_TILED_MASKED);
        add_products(p, true);
        ls_kb_else(kb);
        add_products(p, false);
        ls_kb_end_if(kb);
    } else {
        add_products(p, false);
    }
    if (p->several) {
        end_chunk(p, at);
    }
}

/* Over the slabs: each is fetched into registers while the products of the one before are added up, and then put into shared memory. */
static void sums(ls_product *p) {
    ls_kb *kb = &p->l->kb;
    ls_dtype type = p->f.type;
    ls_val begin = p->begin, end = p->end;
    ls_val step = ls_kb_const_int(kb, type, p->bk), two = i32(p, 2), number;
    ls_val at = ls_kb_loop(kb, begin, ls_kb_add(kb, end, step), step, 0);
    ls_val more = ls_kb_lt(kb, at, end);
    ls_kb_if(kb, more); /* the next slab's loads */
    ls_product_fetch(p, at);
    ls_kb_end_if(kb);
    ls_kb_if(kb, ls_kb_lt(kb, begin, at));
    number = ls_kb_cast(kb, ls_kb_div(kb, at, step), LS_I32);
    p->turn = p->twice ? ls_kb_rem(kb, ls_kb_add(kb, number, i32(p, 1)), two) : LS_VAL_NONE;
    tile_products(p, at);
    ls_kb_end_if(kb);
    if (!p->twice) {
        ls_kb_barrier(kb);
    }
    ls_kb_if(kb, more);
    number = ls_kb_cast(kb, ls_kb_div(kb, at, step), LS_I32);
    p->turn = p->twice ? ls_kb_rem(kb, number, two) : LS_VAL_NONE;
    ls_product_put(p);
    ls_kb_end_if(kb);
    ls_kb_barrier(kb);
    ls_kb_end_loop(kb);
    p->turn = LS_VAL_NONE;
}

/* ---- stores ---- */

/* Opens blocks for the points of a line that are there, and binds its axes. */
int ls_product_open(ls_product *p, const ls_side *s, ls_val at) {
    ls_lower *l = p->l;
    int opened = 0;
    if (s->bound % s->tile) {
        ls_kb_if(&l->kb, ls_kb_lt(&l->kb, at, ls_kb_const_int(&l->kb, s->type, s->bound)));
        opened++;
    }
    ls_val within = ls_lower_bind_point(l, at, s->axes, s->n);
    if (within != LS_VAL_NONE) {
        ls_kb_if(&l->kb, within);
        opened++;
    }
    return opened;
}
void ls_product_close(ls_product *p, int opened, int mark) {
    for (; opened > 0; opened--) {
        ls_kb_end_if(&p->l->kb);
    }
    ls_lower_undo(p->l, mark);
}

void ls_product_store(ls_product *p, ls_val column, ls_val sums_of) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    const ls_side *s = &p->s[1];
    ls_val x[LS_RUN];
    for (int lane = 0; lane < p->lanes; lane++) {
        x[lane] = ls_kb_cast(kb, ls_kb_extract(kb, sums_of, lane), (ls_dtype)p->v->dtype);
    }
    int axis = ls_product_axis(p, s, false), mark = ls_lower_mark(l);
    if (p->lanes == LS_RUN && axis >= 0 && ls_quad_axis(l, axis)) {
        int opened = ls_product_open(p, s, column);
        ls_quad q = {.l = l, .axis = axis, .base = l->axis[axis], .at = LS_VAL_NONE};
        ls_quad_start(&q, p->used);
        if (l->status == LS_OK) {
            ls_quad_store(&q, p->first, p->count, p->id, x);
        }
        ls_product_close(p, opened, mark);
        return;
    }
    for (int lane = 0; lane < p->lanes; lane++) {
        int opened = ls_product_open(p, s, ls_kb_add(kb, column, ls_kb_const_int(kb, s->type, lane)));
        ls_lower_remember(l, p->id, (ls_lowered){x[lane], LS_VAL_NONE, LS_VAL_NONE});
        for (int32_t n = p->first; n < p->first + p->count; n++) {
            ls_lower_store(l, n);
        }
        ls_product_close(p, opened, mark);
    }
}

static void store_tile(ls_product *p) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    const ls_side *r = &p->s[0], *c = &p->s[1];
    for (int i = 0; i < p->shape.tm; i++) {
        int mark = ls_lower_mark(l);
        int opened = ls_product_open(p, r, ls_kb_add(kb, r->first, ls_kb_cast(kb, row_of(p, i), r->type)));
        for (int j = 0; j < p->shape.tn / p->lanes; j++) {
            ls_val column = ls_kb_add(kb, c->first, ls_kb_cast(kb, column_of(p, j), c->type));
            ls_product_store(p, column, ls_kb_get(kb, p->several ? p->total[i][j] : p->sum[i][j]));
        }
        ls_product_close(p, opened, mark);
    }
}

/* The sums of a chunk, into scratch: for every point within bounds, whatever the symbols are. */
static void keep_chunk(ls_product *p, ls_val chunk) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    const ls_side *r = &p->s[0], *c = &p->s[1];
    int64_t points = l->list->scratch[p->scratch].count / p->chunks;
    ls_dtype type = l->list->scratch[p->scratch].count < INT32_MAX ? LS_I32 : LS_I64;
    int mem = ls_lower_mem(l, LS_EMIT_SCRATCH, p->scratch), axis = ls_product_axis(p, c, false);
    bool quads = p->lanes == LS_RUN && axis >= 0 && ls_quad_axis(l, axis) &&
                 (p->v->axes >> axis) == 1; /* the last: of stride 1 */
    ls_val base = ls_kb_mul(kb, ls_kb_cast(kb, chunk, type), ls_kb_const_int(kb, type, points));
    ls_saved_axes saved = ls_fold_save(&p->f);
    for (int i = 0; i < p->shape.tm * p->shape.tn / p->lanes; i++) {
        ls_val sum = ls_kb_get(kb, p->sum[i % p->shape.tm][i / p->shape.tm]);
        for (int lane = 0; lane < p->lanes; lane += quads ? LS_RUN : 1) {
            int mark = ls_lower_mark(l), opened = 0;
            for (int n = 0; n < 2; n++) {
                const ls_side *s = n ? c : r;
                ls_val at = n ? ls_kb_add(kb, column_of(p, i / p->shape.tm), i32(p, lane))
                              : row_of(p, i % p->shape.tm);
                at = ls_kb_add(kb, s->first, ls_kb_cast(kb, at, s->type));
                if (s->bound % s->tile) {
                    ls_kb_if(kb, ls_kb_lt(kb, at, ls_kb_const_int(kb, s->type, s->bound)));
                    opened++;
                }
                (void)ls_lower_bind_point(l, at, s->axes, s->n);
            }
            bool proved;
            ls_val index = ls_kb_add(kb, base, ls_lower_scratch_index(l, p->id, type, &proved));
            ls_kb_store(kb, mem, index, quads ? sum : ls_kb_extract(kb, sum, lane), LS_VAL_NONE);
            ls_product_close(p, opened, mark);
        }
    }
    ls_fold_restore(&p->f, &saved);
}

/* ---- the kernel ---- */

void ls_product_hold(ls_product *p) {
    ls_kb *kb = &p->l->kb;
    static const char *const names[2][2] = {{"rows", "rows_here"}, {"columns", "columns_here"}};
    p->zero = ls_lower_zero(kb, p->staged);
    p->turn = LS_VAL_NONE;
    p->odd = -1;
    for (int i = 0; i < 2; i++) {
        ls_side *s = &p->s[i];
        s->slab = (int64_t)s->stride * (s->along && s->by_k ? s->tile : p->bk);
        int64_t count = s->slab * (1 + p->twice);
        bool words = s->words >= 0;
        s->mem = ls_kb_shared(kb, names[i][0], words ? LS_U32 : p->staged, words ? count / 2 : count);
        s->absent = s->absent && ls_dtype_is_float(p->staged); /* integers are finite: 0 times them is 0 */
        s->mask = s->absent && !s->along ? ls_kb_shared(kb, names[i][1], word_of(p), count) : -1;
        for (int u = 0; u < units_of(p, s); u++) {
            ls_val none = ls_lower_zero(kb, word_of(p)), zero = words ? ls_kb_u32(kb, 0) : p->zero;
            s->held[u] = ls_kb_var(kb, s->run > 1 ? ls_kb_splat(kb, zero, LS_RUN) : zero);
            s->held_mask[u] =
                s->mask >= 0 ? ls_kb_var(kb, s->run > 1 ? ls_kb_splat(kb, none, s->run) : none) : LS_VAL_NONE;
        }
    }
    if (p->s[0].absent || p->s[1].absent) {
        p->odd = ls_kb_shared(kb, "not_finite", LS_U32, 1 + p->twice);
        for (int i = 0; i < 1 + p->twice; i++) {
            ls_kb_store(kb, p->odd, i32(p, i), ls_kb_u32(kb, 0), ls_kb_eq(kb, p->t, i32(p, 0)));
        }
        if (p->twice) { /* else the walk begins with one */
            ls_kb_barrier(kb);
        }
    }
}

static void begin_sums(ls_product *p) {
    ls_kb *kb = &p->l->kb;
    p->ty = ls_kb_div(kb, p->t, i32(p, p->shape.tx));
    p->tx = ls_kb_rem(kb, p->t, i32(p, p->shape.tx));
    for (int i = 0; i < p->shape.tm; i++) {
        for (int j = 0; j < p->shape.tn / p->lanes; j++) {
            p->sum[i][j] = ls_kb_var(kb, ls_kb_splat(kb, p->zero, p->lanes));
            p->total[i][j] = p->several && p->scratch < 0 ? ls_kb_var(kb, ls_kb_splat(kb, p->zero, p->lanes))
                                                          : LS_VAL_NONE;
        }
    }
}

void ls_product_begin(ls_product *p, const char *suffix, ls_cover cover) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    if (p->chunks_each < p->chunks) {
        ls_lower_cover(l, LS_COVER_TILED_CHUNKS);
        int64_t points = p->s[0].bound * p->s[1].bound * ls_lower_bound(l, p->batch, p->n_batch);
        p->scratch = ls_lower_scratch(l, (ls_dtype)p->v->acc, points * p->chunks);
    }
    ls_lower_begin(l, suffix, cover);
    ls_kb_workgroup(kb, p->threads, 1, 1);
    int64_t tiles[2], batch = ls_lower_bound(l, p->batch, p->n_batch);
    for (int i = 0; i < 2; i++) {
        tiles[i] = ls_product_up(p->s[i].bound, p->s[i].tile);
    }
    int64_t shares = ls_product_up(p->chunks, p->chunks_each);
    ls_val group = ls_lower_frame(l, tiles[0] * tiles[1] * batch * shares, 1), share = LS_VAL_NONE;
    ls_dtype type = ls_lower_type(l, group);
    if (shares > 1) {
        share = ls_kb_rem(kb, group, ls_kb_const_int(kb, type, shares));
        group = ls_kb_div(kb, group, ls_kb_const_int(kb, type, shares));
    }
    for (int i = 1; i >= 0; i--) {
        ls_side *s = &p->s[i];
        ls_val count = ls_kb_const_int(kb, type, tiles[i]);
        ls_val tile = ls_kb_cast(kb, ls_kb_rem(kb, group, count), s->type);
        s->first = ls_kb_mul(kb, tile, ls_kb_const_int(kb, s->type, s->tile));
        group = ls_kb_div(kb, group, count);
    }
    ls_lower_point(l, group, p->batch, p->n_batch);
    p->f = ls_fold_start(l, p->id);
    bool fixed = true;
    for (int i = 0; i < p->v->n_bound; i++) {
        fixed = fixed && ls_dim_is_fixed(l->spec->extents_of_axes[p->v->bound[i]]);
    }
    p->exact = fixed && p->f.bound % p->bk == 0;
    p->t = ls_kb_local_id(kb, 0);
    p->begin = ls_kb_const_int(kb, p->f.type, 0);
    p->end = p->f.n;
    if (shares > 1) {
        ls_val each = ls_kb_const_int(kb, p->f.type, p->chunks_each * p->chunk);
        p->begin = ls_kb_mul(kb, ls_kb_cast(kb, share, p->f.type), each);
        p->end = ls_kb_min(kb, ls_kb_add(kb, p->begin, each), p->f.n);
    }
    if (!p->bare) {
        ls_product_hold(p);
    }
}

static void emit_tiles(ls_product *p) {
    ls_lower *l = p->l;
    bool tiled = p->shape.ty > 1;
    ls_product_begin(p, tiled ? "tiled" : "gemv", tiled ? LS_COVER_TILED : LS_COVER_GEMV);
    begin_sums(p);
    sums(p);
    if (p->scratch < 0) {
        store_tile(p);
    }
    ls_lower_end(l);
    if (p->scratch >= 0 && l->status == LS_OK) {
        l->scratch_of[p->id] = p->scratch;
        l->chunks_of[p->id] = p->chunks;
        l->chunk_of[p->id] = p->chunk;
        l->stores_left = true;
    }
}

const char *ls_lower_contraction(ls_lower *l, int32_t first, int32_t count, ls_choice choice, bool dry) {
    ls_product *p = ls_arena_alloc(l->arena, sizeof *p);
    if (!p) {
        l->status = LS_FAIL_MEMORY(l->err, "a contraction");
        return "memory ran out";
    }
    *p = (ls_product){.l = l, .first = first, .count = count};
    if (choice == LS_CHOICE_MATRIX || (choice == LS_CHOICE_ANY && l->spec->math != LS_LOCKED)) {
        const char *not_so =
            ls_lower_matrix(l, first, count, dry); /* whole tiles of plain matrices; else any operands */
        not_so =
            not_so && l->status == LS_OK ? ls_product_fragments(p, choice == LS_CHOICE_MATRIX, dry) : not_so;
        if (!not_so || choice == LS_CHOICE_MATRIX || l->status != LS_OK) {
            return not_so;
        }
        *p = (ls_product){.l = l, .first = first, .count = count};
    }
    if (!dry && choice != LS_CHOICE_TILED) {
        const char *not_so = ls_product_find(p);
        ls_product_fewer_rows(p);
        not_so = not_so ? not_so : ls_product_vector(p, choice == LS_CHOICE_GEMV);
        if (!not_so || l->status != LS_OK) {
            return not_so;
        }
        *p = (ls_product){.l = l, .first = first, .count = count};
    }
    const char *why = ls_product_plan(p, choice == LS_CHOICE_GEMV);
    if (choice == LS_CHOICE_ANY && !why && (p->s[0].bound < 8 || p->s[1].bound < 8)) {
        *p = (ls_product){.l = l, .first = first, .count = count};
        why = ls_product_plan(p, true);
        why = !why && (p->s[1].bound < 32 || p->f.bound < 32) ? "the contraction is too small to share loads"
                                                              : why;
    } else if (choice == LS_CHOICE_ANY && !why && p->f.bound < 4) {
        why = "the contraction is too small to share loads";
    }
    if (!why && !dry) {
        emit_tiles(p);
    }
    return why;
}
