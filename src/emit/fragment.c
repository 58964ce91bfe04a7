/* A contraction by matrix fragments, of any operands, for fast and reduced arithmetic: halves multiplied, f32
 * added up, in the device's own order.
 *
 * A workgroup's subgroups share a tile of rows by columns; each has some fragments of it. Slabs go through
 * shared memory as they are fetched, rows or columns side by side, because fragments load either way; while the
 * products of one are added up, the next is on its way into registers. Operands that are only moved go as words,
 * eight elements at a time. The sums go through shared memory too, some fragments of each subgroup at a time, so
 * that all that follows the contraction stays fused.
 *
 * Fragments cannot skip what is absent: where an operand beside it was not finite, the tile is done again,
 * point by point. */
#include "emit/contract.h"

enum { DEPTH = 32, ALONG = 8 /* elements of 16 bytes */, SKEW = 8, SPARE = 4 }; /* the last two keep banks apart */

typedef struct share {    /* of a subgroup */
    int across, frags[2]; /* subgroups side by side in columns; fragments in rows and columns */
    int subgroups;
    ls_emit_frag frag;
    ls_val number; /* of the subgroup */
    ls_val sum[8][8];
    int out, stride, wide; /* shared memory of sums: 16 lines of each subgroup, so many fragments side by side */
} share;

static const ls_emit_frag *frag_of(const ls_emit_caps *caps, ls_dtype type) {
    for (int i = 0; caps && i < caps->n_frags; i++) {
        const ls_emit_frag *f = &caps->frags[i];
        if (f->type == type && f->m == 16 && f->n == 16 && f->k == 16) {
            return f;
        }
    }
    return NULL;
}

/* Whether the operand is halves that only move, and along which line. */
static void move_words(const ls_product *p, ls_side *s) {
    s->words = LS_SPEC_NONE;
    if (p->l->spec->values[s->value].dtype != p->staged) {
        return;
    }
    for (int by_k = 0; by_k < 2 && s->words < 0; by_k++) {
        int n = by_k ? p->v->n_bound : s->n, axis = n == 0 ? -1 : by_k ? p->v->bound[n - 1] : s->axes[n - 1];
        s->words = axis < 0 ? LS_SPEC_NONE : ls_quad_words(p->l, s->value, axis);
        if (s->words >= 0) {
            s->by_k = by_k;
            s->run = ALONG;
            s->units = s->tile * p->bk / ALONG;
        }
    }
}

/* Tiles of a size, by so many threads; whether the device has what they need. */
static bool plan_tile(ls_product *p, share *w, const int tile[2], int threads) {
    const ls_lower *l = p->l;
    int64_t slabs = 0, sums, points = (int64_t)tile[0] * tile[1];
    bool words = true;
    p->bk = DEPTH;
    for (int i = 0; i < 2; i++) {
        ls_side *s = &p->s[i];
        s->tile = tile[i];
        s->along = true;
        ls_product_direct(p, s);
        move_words(p, s);
        words = words && s->words >= 0;
        s->stride = (s->by_k ? DEPTH : s->tile) + SKEW;
        slabs += (int64_t)2 * s->stride * (s->by_k ? s->tile : DEPTH);
    }
    p->threads = !words && points > 64 * 64 ? 256 : threads; /* a thread holds more of what comes one by one */
    w->subgroups = p->threads / l->caps->subgroup;
    w->across = 1;
    while (2 * w->across <= w->subgroups && tile[1] / (2 * w->across) >= tile[0] * 2 * w->across / w->subgroups) {
        w->across *= 2;
    }
    w->frags[0] = tile[0] / 16 / (w->subgroups / w->across);
    w->frags[1] = tile[1] / 16 / w->across;
    w->wide = w->frags[1] % 2 ? 1 : 2;
    w->stride = w->wide * 16 + SPARE;
    sums = (int64_t)w->subgroups * 16 * w->stride * 4;
    return (words || points <= 128 * 128) && p->threads <= l->max_threads && 16 + slabs + sums <= l->max_shared &&
           w->frags[0] <= 8 && w->frags[1] <= 8;
}

static const char *plan(ls_product *p, share *w) {
    const ls_lower *l = p->l;
    const char *why = ls_product_find(p);
    if (why) {
        return why;
    }
    ls_dtype a = (ls_dtype)l->spec->values[p->v->a].dtype, b = (ls_dtype)l->spec->values[p->v->b].dtype;
    if (l->spec->math == LS_LOCKED) {
        return "locked arithmetic: the order of a fragment's sums is the device's";
    }
    bool halves = a == b && (a == LS_F16 || a == LS_BF16);
    if (p->v->acc != LS_F32 || (!halves && (l->spec->math != LS_REDUCED || a != LS_F32 || b != LS_F32))) {
        return "its operands are not both f16 or both bf16 (or f32, in reduced arithmetic)";
    }
    p->staged = halves ? a : LS_BF16;
    const ls_emit_frag *frag = frag_of(l->caps, p->staged);
    if (!frag || l->caps->subgroup < 16 || 64 % l->caps->subgroup) {
        return "the device has no 16 x 16 x 16 fragments of that type, or subgroups of no known size";
    }
    w->frag = *frag;
    int64_t batch = ls_lower_bound(l, p->batch, p->n_batch);
    static const struct size {
        int tile[2], threads, least; /* least: tiles that keep a large device busy */
    } sizes[] = {{{128, 256}, 256, 128}, {{256, 128}, 256, 128}, {{128, 128}, 128, 100},
                 {{64, 128}, 128, 100},  {{128, 64}, 128, 100},  {{64, 64}, 128, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct size *z = &sizes[i];
        int64_t tiles = batch;
        bool narrow = false;
        for (int n = 0; n < 2; n++) {
            tiles *= (p->s[n].bound + z->tile[n] - 1) / z->tile[n];
            narrow = narrow || (z->tile[n] > 64 && p->s[n].bound <= z->tile[n] / 2);
        }
        if (tiles >= z->least && !narrow && plan_tile(p, w, z->tile, z->threads)) {
            return NULL;
        }
    }
    return "its tiles need more threads or shared memory than the device has";
}

static ls_val i32(ls_product *p, int64_t k) {
    return ls_kb_i32(&p->l->kb, (int32_t)k);
}

/* A side's fragment number `at` (of 16 rows or columns) at contracted position k of the slab. */
static ls_val load_frag(ls_product *p, const share *w, int i, ls_val at, int k) {
    const ls_side *s = &p->s[i];
    ls_kb *kb = &p->l->kb;
    uint32_t type = LS_KF_FRAG(i ? LS_FRAG_B : LS_FRAG_A, w->frag.m, w->frag.n, w->frag.k);
    bool columns = s->by_k == (i == 1); /* A by k and B by columns are as fragments have them */
    ls_val place = ls_kb_mul(kb, at, i32(p, 16 * (s->by_k ? s->stride : 1)));
    place = ls_kb_add(kb, place, i32(p, (int64_t)k * (s->by_k ? 1 : s->stride)));
    return ls_kb_frag_load_as(kb, s->mem, p->staged, place, i32(p, s->stride), type | (columns ? LS_KF_FRAG_COLS : 0));
}

/* The first of a subgroup's fragments, in rows or columns. */
static ls_val first_frag(ls_product *p, const share *w, ls_val subgroup, int i) {
    ls_kb *kb = &p->l->kb;
    ls_val n = i ? ls_kb_rem(kb, subgroup, i32(p, w->across)) : ls_kb_div(kb, subgroup, i32(p, w->across));
    return ls_kb_mul(kb, n, i32(p, w->frags[i]));
}

static void add_products(ls_product *p, share *w) {
    ls_kb *kb = &p->l->kb;
    ls_val first[2] = {first_frag(p, w, w->number, 0), first_frag(p, w, w->number, 1)}, rows[8];
    for (int k = 0; k < p->bk; k += w->frag.k) {
        for (int r = 0; r < w->frags[0]; r++) {
            rows[r] = load_frag(p, w, 0, ls_kb_add(kb, first[0], i32(p, r)), k);
        }
        for (int c = 0; c < w->frags[1]; c++) {
            ls_val column = load_frag(p, w, 1, ls_kb_add(kb, first[1], i32(p, c)), k);
            for (int r = 0; r < w->frags[0]; r++) {
                ls_val sum = ls_kb_frag_mma(kb, rows[r], column, ls_kb_get(kb, w->sum[r][c]));
                ls_kb_set(kb, w->sum[r][c], sum);
            }
        }
    }
}

/* ---- words ---- */

/* Unit u of this thread: its line, and words along it. Where a line is four units, the second four of eight neighbours take the
 * line four further on, because with SKEW those eight are in different banks. */
static void word_unit(ls_product *p, const ls_side *s, int u, ls_val *out_line, ls_val *out_along) {
    ls_kb *kb = &p->l->kb;
    int units = (s->by_k ? p->bk : s->tile) / ALONG;
    ls_val e = ls_kb_add(kb, p->t, i32(p, (int64_t)u * p->threads)), line = ls_kb_div(kb, e, i32(p, units));
    if (units == 4) {
        ls_val low = ls_kb_rem(kb, line, i32(p, 8)), high = ls_kb_mul(kb, ls_kb_div(kb, line, i32(p, 8)), i32(p, 8));
        ls_val first = ls_kb_mul(kb, ls_kb_rem(kb, low, i32(p, 2)), i32(p, 4));
        ls_val middle = ls_kb_mul(kb, ls_kb_rem(kb, ls_kb_div(kb, low, i32(p, 2)), i32(p, 2)), i32(p, 2));
        line = ls_kb_add(kb, ls_kb_add(kb, high, first), ls_kb_add(kb, middle, ls_kb_div(kb, low, i32(p, 4))));
    }
    *out_line = line;
    *out_along = ls_kb_mul(kb, ls_kb_rem(kb, e, i32(p, units)), i32(p, ALONG / 2));
}

static void fetch_words(ls_product *p, ls_side *s, ls_val at, int u) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    const ls_value *v = &l->spec->values[s->value], *load = &l->spec->values[s->words];
    ls_saved_axes saved = ls_fold_save(&p->f);
    ls_val line, along, pred = LS_VAL_NONE;
    word_unit(p, s, u, &line, &along);
    along = ls_kb_mul(kb, along, i32(p, 2));
    ls_val row = ls_kb_add(kb, s->first, ls_kb_cast(kb, s->by_k ? line : along, s->type));
    ls_val k = ls_kb_add(kb, at, ls_kb_cast(kb, s->by_k ? along : line, p->f.type));
    if (s->bound % s->tile) {
        row = ls_kb_min(kb, row, ls_kb_const_int(kb, s->type, s->bound - (s->by_k ? 1 : ALONG)));
    }
    (void)ls_lower_bind_point(l, row, s->axes, s->n);
    if (!p->exact) {
        pred = ls_kb_lt(kb, k, p->f.n);
        k = ls_kb_min(kb, k, ls_kb_const_int(kb, p->f.type, p->f.bound - (s->by_k ? ALONG : 1)));
    }
    ls_fold_point(&p->f, k);
    pred = ls_lower_and(l, pred, ls_lower_preds(l, load->first_pred, load->n_preds));
    pred = v == load ? pred : ls_lower_and(l, pred, ls_lower_preds(l, v->first_pred, v->n_preds));
    int64_t count = l->spec->args[load->arg].numel;
    ls_val index = ls_lower_index(l, load->ix);
    ls_lower_guard(l, ls_lower_proves(l, load->ix, count), index, count, &pred);
    ls_val word = ls_kb_shr(kb, index, ls_kb_const_int(kb, ls_lower_type(l, index), 1));
    ls_val none = pred == LS_VAL_NONE ? pred : ls_kb_splat(kb, ls_kb_u32(kb, 0), LS_RUN);
    ls_kb_set(kb, s->held[u], ls_kb_load(kb, s->global, word, pred, none, LS_RUN));
    ls_fold_restore(&p->f, &saved);
}

/* Whether some half of the words is infinite or NaN. */
static ls_val odd_words(ls_product *p, ls_val x) {
    ls_kb *kb = &p->l->kb;
    uint32_t exponent = p->staged == LS_F16 ? 0x7c00 : 0x7f80;
    ls_val any = LS_VAL_NONE;
    for (int i = 0; i < 2 * LS_RUN; i++) {
        ls_val mask = ls_kb_u32(kb, i & 1 ? exponent << 16 : exponent);
        ls_val is = ls_kb_eq(kb, ls_kb_and(kb, ls_kb_extract(kb, x, i / 2), mask), mask);
        any = any == LS_VAL_NONE ? is : ls_kb_or(kb, any, is);
    }
    return any;
}

static void put_words(ls_product *p, ls_side *s) {
    ls_kb *kb = &p->l->kb;
    ls_val any = LS_VAL_NONE;
    for (int u = 0; u < s->units / p->threads; u++) {
        ls_val line, along, x = ls_kb_get(kb, s->held[u]);
        word_unit(p, s, u, &line, &along);
        ls_kb_store(kb, s->mem, ls_kb_add(kb, ls_kb_mul(kb, line, i32(p, s->stride / 2)), along), x, LS_VAL_NONE);
        if (p->odd >= 0 && p->s[s == &p->s[0]].absent) {
            any = any == LS_VAL_NONE ? odd_words(p, x) : ls_kb_or(kb, any, odd_words(p, x));
        }
    }
    if (any != LS_VAL_NONE) {
        ls_product_odd(p, any);
    }
}

/* ---- the sums ---- */

static void fetch(ls_product *p, ls_val at) {
    ls_product_fetch(p, at);
    for (int i = 0; i < 2; i++) {
        for (int u = 0; p->s[i].words >= 0 && u < p->s[i].units / p->threads; u++) {
            fetch_words(p, &p->s[i], at, u);
        }
    }
}

static void sums(ls_product *p, share *w) {
    ls_kb *kb = &p->l->kb;
    ls_val zero = ls_kb_const_int(kb, p->f.type, 0), step = ls_kb_const_int(kb, p->f.type, p->bk);
    ls_kb_if(kb, ls_kb_lt(kb, zero, p->f.n));
    fetch(p, zero);
    ls_kb_end_if(kb);
    ls_val at = ls_kb_loop(kb, zero, p->f.n, step, 0), next = ls_kb_add(kb, at, step);
    ls_product_put(p);
    for (int i = 0; i < 2; i++) {
        if (p->s[i].words >= 0) {
            put_words(p, &p->s[i]);
        }
    }
    ls_kb_barrier(kb);
    ls_kb_if(kb, ls_kb_lt(kb, next, p->f.n));
    fetch(p, next);
    ls_kb_end_if(kb);
    add_products(p, w);
    ls_kb_barrier(kb);
    ls_kb_end_loop(kb);
}

/* Some fragments of a row of each subgroup, from the first on: stored, then read by whoever does their points. */
static void store_some(ls_product *p, share *w, int r, int first, ls_val odd) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    int threads = l->caps->subgroup, quads = w->wide * 4, lines = 16 * w->stride;
    ls_val base = ls_kb_mul(kb, w->number, i32(p, lines)), none = LS_VAL_NONE;
    for (int c = 0; c < w->wide; c++) {
        ls_val at = ls_kb_add(kb, base, i32(p, (int64_t)c * 16));
        ls_kb_frag_store(kb, w->out, at, ls_kb_get(kb, w->sum[r][first + c]), i32(p, w->stride), 0);
    }
    ls_kb_barrier(kb);
    if (odd != none) {
        ls_kb_if(kb, ls_kb_eq(kb, odd, ls_kb_u32(kb, 0)));
    }
    ls_val lane = ls_kb_rem(kb, p->t, i32(p, threads)), of = ls_kb_div(kb, p->t, i32(p, threads));
    ls_val row = ls_kb_mul(kb, ls_kb_add(kb, first_frag(p, w, of, 0), i32(p, r)), i32(p, 16));
    ls_val column = ls_kb_mul(kb, ls_kb_add(kb, first_frag(p, w, of, 1), i32(p, first)), i32(p, 16));
    for (int part = 0; part < 16 * quads / threads; part++) {
        ls_val quad = ls_kb_add(kb, lane, i32(p, (int64_t)part * threads));
        ls_val at[2] = {ls_kb_div(kb, quad, i32(p, quads)), ls_kb_mul(kb, ls_kb_rem(kb, quad, i32(p, quads)), i32(p, 4))};
        ls_val place = ls_kb_add(kb, ls_kb_mul(kb, of, i32(p, lines)), ls_kb_add(kb, ls_kb_mul(kb, at[0], i32(p, w->stride)), at[1]));
        ls_val x = ls_kb_load(kb, w->out, place, none, none, LS_RUN);
        for (int i = 0; i < 2; i++) {
            at[i] = ls_kb_add(kb, i ? column : row, at[i]);
            at[i] = ls_kb_add(kb, p->s[i].first, ls_kb_cast(kb, at[i], p->s[i].type));
        }
        int mark = ls_lower_mark(l), opened = ls_product_open(p, &p->s[0], at[0]);
        ls_product_store(p, at[1], x);
        ls_product_close(p, opened, mark);
    }
    if (odd != none) {
        ls_kb_end_if(kb);
    }
    ls_kb_barrier(kb);
}

/* The tile again, a point at a time, in order. */
static void do_again(ls_product *p, ls_val odd) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    int rows = p->s[0].tile, columns = p->s[1].tile;
    ls_kb_if(kb, ls_kb_ne(kb, odd, ls_kb_u32(kb, 0)));
    int mark = ls_lower_mark(l);
    ls_val e = ls_kb_loop(kb, p->t, i32(p, (int64_t)rows * columns), i32(p, p->threads), 0);
    const ls_val at[2] = {ls_kb_div(kb, e, i32(p, columns)), ls_kb_rem(kb, e, i32(p, columns))};
    int opened = 0;
    for (int i = 0; i < 2; i++) {
        opened +=
            ls_product_open(p, &p->s[i], ls_kb_add(kb, p->s[i].first, ls_kb_cast(kb, at[i], p->s[i].type)));
    }
    ls_lower_remember(l, p->id, (ls_lowered){ls_lower_contract(l, p->id), LS_VAL_NONE, LS_VAL_NONE});
    for (int32_t n = p->first; n < p->first + p->count; n++) {
        ls_lower_store(l, n);
    }
    ls_product_close(p, opened, mark);
    ls_kb_end_loop(kb);
    ls_kb_end_if(kb);
}

const char *ls_product_fragments(ls_product *p, bool forced, bool dry) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    share w = {0};
    const char *why = plan(p, &w);
    bool small = !why && !forced && (p->s[0].bound < 32 || p->s[1].bound < 32 || p->f.bound < 16);
    if (why || small || dry) {
        return small ? "the contraction is too small for fragments" : why;
    }
    ls_product_begin(p, "matrix", LS_COVER_FRAGMENTS);
    for (int i = 0; i < 2; i++) {
        ls_side *s = &p->s[i];
        s->global = s->words >= 0 ? ls_lower_words(l, l->spec->values[s->words].arg) : -1;
    }
    w.number = ls_kb_min(kb, ls_kb_subgroup_id(kb),
                         i32(p, w.subgroups - 1)); /* says to the verifier what it is below */
    w.out = ls_kb_shared(kb, "sums", LS_F32, (int64_t)w.subgroups * 16 * w.stride);
    for (int r = 0; r < w.frags[0]; r++) {
        for (int c = 0; c < w.frags[1]; c++) {
            ls_val zero = ls_kb_f32(kb, 0);
            w.sum[r][c] =
                ls_kb_var(kb, ls_kb_frag_fill(kb, zero, LS_KF_FRAG(LS_FRAG_C, w.frag.m, w.frag.n, w.frag.k)));
        }
    }
    sums(p, &w);
    ls_val odd = p->odd >= 0 ? ls_kb_load(kb, p->odd, i32(p, 0), LS_VAL_NONE, LS_VAL_NONE, 1) : LS_VAL_NONE;
    for (int r = 0; r < w.frags[0]; r++) {
        for (int first = 0; first < w.frags[1]; first += w.wide) {
            store_some(p, &w, r, first, odd);
        }
    }
    if (odd != LS_VAL_NONE) {
        do_again(p, odd);
    }
    ls_lower_end(l);
    return NULL;
}
