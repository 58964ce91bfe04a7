/* A contraction by matrix fragments, of any operands, for fast and reduced arithmetic: halves multiplied, f32
 * added up, in the device's own order.
 *
 * A workgroup's subgroups share a tile of rows by columns; each has some fragments of it. Slabs go through
 * shared memory as they are fetched, rows or columns side by side, because fragments load either way. The
 * sums go through shared memory too, a fragment of each subgroup at a time, so that all that follows the
 * contraction stays fused.
 *
 * Fragments cannot skip what is absent: where an operand beside it was not finite, the tile is done again,
 * point by point. */
#include "emit/contract.h"

enum {
    DEPTH = 32,
    SKEW = 8,
    OUT = 20
}; /* OUT: the stride of a fragment's sums, 16 and what keeps banks apart */

typedef struct share {    /* of a subgroup */
    int across, frags[2]; /* subgroups side by side in columns; fragments in rows and columns */
    int subgroups;
    ls_emit_frag frag;
    ls_val number; /* of the subgroup */
    ls_val sum[8][8];
    int out;
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

/* Half a tile on a side that has no more. */
static int tile_of(const ls_product *p, int side, int tile) {
    return tile == 128 && p->s[side].bound <= 64 ? 64 : tile;
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
    p->ones = !l->caps->frag_words; /* there, what fragments are loaded from holds no vectors */
    int64_t batch = ls_lower_bound(l, p->batch, p->n_batch);
    int64_t large = (p->s[0].bound + 127) / 128 * ((p->s[1].bound + 127) / 128) * batch;
    for (int tile = large >= 100 && l->max_threads >= 256 ? 128 : 64;; tile = 64) {
        p->threads = tile == 128 ? 256 : 128;
        w->subgroups = p->threads / l->caps->subgroup;
        w->across = w->subgroups >= 8 ? 4 : w->subgroups >= 2 ? 2 : 1;
        w->frags[0] = tile_of(p, 0, tile) / 16 / (w->subgroups / w->across);
        w->frags[1] = tile_of(p, 1, tile) / 16 / w->across;
        p->bk = DEPTH;
        int64_t bytes = 4 + w->subgroups * 16 * OUT * 4;
        for (int i = 0; i < 2; i++) {
            ls_side *s = &p->s[i];
            s->tile = tile_of(p, i, tile);
            s->along = true;
            ls_product_direct(p, s);
            s->stride = (s->by_k ? DEPTH : s->tile) + SKEW;
            bytes += (int64_t)2 * s->stride * (s->by_k ? s->tile : DEPTH);
        }
        bool fits =
            p->threads <= l->max_threads && bytes <= l->max_shared && w->frags[0] <= 8 && w->frags[1] <= 8;
        if (fits || tile == 64) {
            return fits ? NULL : "its tiles need more threads or shared memory than the device has";
        }
    }
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
    return ls_kb_frag_load(kb, s->mem, place, i32(p, s->stride), type | (columns ? LS_KF_FRAG_COLS : 0));
}

/* The first of a subgroup's fragments, in rows or columns. */
static ls_val first_frag(ls_product *p, const share *w, ls_val subgroup, int i) {
    ls_kb *kb = &p->l->kb;
    ls_val n = i ? ls_kb_rem(kb, subgroup, i32(p, w->across)) : ls_kb_div(kb, subgroup, i32(p, w->across));
    return ls_kb_mul(kb, n, i32(p, w->frags[i]));
}

static void add_products(ls_product *p, share *w) {
    ls_kb *kb = &p->l->kb;
    ls_val first[2] = {first_frag(p, w, w->number, 0), first_frag(p, w, w->number, 1)}, part[2][8];
    for (int k = 0; k < DEPTH; k += w->frag.k) {
        for (int i = 0; i < 2; i++) {
            for (int n = 0; n < w->frags[i]; n++) {
                part[i][n] = load_frag(p, w, i, ls_kb_add(kb, first[i], i32(p, n)), k);
            }
        }
        for (int r = 0; r < w->frags[0]; r++) {
            for (int c = 0; c < w->frags[1]; c++) {
                ls_val sum = ls_kb_frag_mma(kb, part[0][r], part[1][c], ls_kb_get(kb, w->sum[r][c]));
                ls_kb_set(kb, w->sum[r][c], sum);
            }
        }
    }
}

static void sums(ls_product *p, share *w) {
    ls_kb *kb = &p->l->kb;
    ls_val zero = ls_kb_const_int(kb, p->f.type, 0), step = ls_kb_const_int(kb, p->f.type, DEPTH);
    ls_val at = ls_kb_loop(kb, zero, ls_kb_add(kb, p->f.n, step), step, 0), more = ls_kb_lt(kb, at, p->f.n);
    ls_kb_if(kb, more);
    ls_product_fetch(p, at);
    ls_kb_end_if(kb);
    ls_kb_if(kb, ls_kb_lt(kb, zero, at));
    add_products(p, w);
    ls_kb_end_if(kb);
    ls_kb_barrier(kb);
    ls_kb_if(kb, more);
    ls_product_put(p);
    ls_kb_end_if(kb);
    ls_kb_barrier(kb);
    ls_kb_end_loop(kb);
}

/* One fragment of each subgroup: stored, then read by whoever does its points. */
static void store_frag(ls_product *p, share *w, int r, int c, ls_val odd) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    int threads = l->caps->subgroup;
    ls_val base = ls_kb_mul(kb, w->number, i32(p, 16 * OUT)), none = LS_VAL_NONE;
    ls_kb_frag_store(kb, w->out, base, ls_kb_get(kb, w->sum[r][c]), i32(p, OUT), 0);
    ls_kb_barrier(kb);
    if (odd != none) {
        ls_kb_if(kb, ls_kb_eq(kb, odd, ls_kb_u32(kb, 0)));
    }
    ls_val lane = ls_kb_rem(kb, p->t, i32(p, threads)), of = ls_kb_div(kb, p->t, i32(p, threads));
    for (int part = 0; part < 64 / threads; part++) {
        ls_val quad = ls_kb_add(kb, lane, i32(p, (int64_t)part * threads));
        ls_val at[2] = {ls_kb_div(kb, quad, i32(p, 4)),
                        ls_kb_mul(kb, ls_kb_rem(kb, quad, i32(p, 4)), i32(p, 4))};
        ls_val place = ls_kb_add(kb, ls_kb_mul(kb, of, i32(p, 16 * OUT)),
                                 ls_kb_add(kb, ls_kb_mul(kb, at[0], i32(p, OUT)), at[1]));
        ls_val x = ls_kb_load(kb, w->out, place, none, none, p->ones ? 1 : LS_RUN);
        if (p->ones) {
            ls_val four[LS_RUN] = {x};
            for (int i = 1; i < LS_RUN; i++) {
                four[i] = ls_kb_load(kb, w->out, ls_kb_add(kb, place, i32(p, i)), none, none, 1);
            }
            x = ls_quad_join(kb, four);
        }
        for (int i = 0; i < 2; i++) {
            ls_val frag = ls_kb_add(kb, first_frag(p, w, of, i), i32(p, i ? c : r));
            at[i] = ls_kb_add(kb, ls_kb_mul(kb, frag, i32(p, 16)), at[i]);
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
    int tile = p->s[1].tile;
    ls_kb_if(kb, ls_kb_ne(kb, odd, ls_kb_u32(kb, 0)));
    int mark = ls_lower_mark(l);
    ls_val e = ls_kb_loop(kb, p->t, i32(p, (int64_t)p->s[0].tile * tile), i32(p, p->threads), 0);
    const ls_val at[2] = {ls_kb_div(kb, e, i32(p, tile)), ls_kb_rem(kb, e, i32(p, tile))};
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
    w.number = ls_kb_min(kb, ls_kb_subgroup_id(kb),
                         i32(p, w.subgroups - 1)); /* says to the verifier what it is below */
    w.out = ls_kb_shared(kb, "sums", LS_F32, (int64_t)w.subgroups * 16 * OUT);
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
        for (int c = 0; c < w.frags[1]; c++) {
            store_frag(p, &w, r, c, odd);
        }
    }
    if (odd != LS_VAL_NONE) {
        do_again(p, odd);
    }
    ls_lower_end(l);
    return NULL;
}
