/* A contraction of few rows with many columns: a matrix times one vector or a few.
 *
 * What counts is bytes under way. A thread has four columns and walks along the contracted line, several elements at a
 * time, with the loads of the next ones under way while it adds up these; nothing goes through shared memory on the way.
 *   Columns side by side in memory: four neighbours a thread. In the contract's order each thread does one chunk of 512 of
 * its columns; in any order the line is dealt out to as many threads as a workgroup has. At the end the threads of the
 * same columns bring their sums together in shared memory, chunks in ascending order.
 *   Columns along the contracted line, in any order of arithmetic: 32 threads have four columns, and each the elements
 * 4t to 4t + 3, and those 128 further on, and so on; their sums meet by shuffles.
 *
 * It takes lines of a fixed, whole number of steps, operands that are always there, and columns by fours. */
#include "emit/contract.h"

enum { MOST_ROWS = 8, MOST_STEP = 32, MOST_TALL = 64, GROUP = 512, FIRST = 8, LINE = 128 };

typedef struct shape {
    int wide, tall; /* threads: four columns each; along the contracted line */
    int step;       /* contracted elements at a time */
    bool quads;     /* the rows too are loaded by fours, along the contracted line */
} shape;

static bool fixed_line(const ls_product *p) {
    bool fixed = true;
    for (int i = 0; i < p->v->n_bound; i++) {
        fixed = fixed && ls_dim_is_fixed(p->l->spec->extents_of_axes[p->v->bound[i]]);
    }
    return fixed;
}

/* Whether some load of a side can be of four lanes along the innermost contracted axis. */
static bool rows_by_fours(const ls_product *p) {
    int axis = p->v->bound[p->v->n_bound - 1];
    for (int32_t i = 0; i < p->l->spec->n_values && ls_quad_axis(p->l, axis); i++) {
        if (p->s[0].used[i] && ls_quad_loads(p->l, i, axis, ~UINT64_C(0))) {
            return true;
        }
    }
    return false;
}

static bool choose(ls_product *p, shape *h) {
    const ls_lower *l = p->l;
    int64_t k = p->f.bound, batch = ls_lower_bound(l, p->batch, p->n_batch);
    size_t size = ls_dtype_size((ls_dtype)l->spec->values[p->s[1].value].dtype);
    int threads = l->max_threads < GROUP ? l->max_threads : GROUP;
    int step = (p->fast ? 32 : 64) / (int)size / (p->s[0].bound > 2 ? 2 : 1);
    for (h->step = step > MOST_STEP ? MOST_STEP : step; h->step >= 4 && k % h->step; h->step /= 2) {
    }
    for (h->wide = 32; h->wide > 8 && ls_product_up(p->s[1].bound, LS_RUN * (int64_t)h->wide) * batch < 96; h->wide /= 2) {
    }
    h->tall = 1;
    if (!p->fast) {
        h->tall = (int)(p->chunks < MOST_TALL ? p->chunks : MOST_TALL);
        return h->step >= 4 && p->chunks == h->tall && h->wide * h->tall <= threads;
    }
    while (h->tall < MOST_TALL && h->wide * h->tall * 2 <= threads && h->tall * 2 <= k / h->step) {
        h->tall *= 2;
    }
    return h->step >= 4;
}

static const char *plan(ls_product *p, shape *h, bool forced) {
    ls_lower *l = p->l;
    ls_side *c = &p->s[1];
    bool plain = p->lanes == LS_RUN && p->s[0].bound <= MOST_ROWS && p->s[0].bound > 0 && p->v->n_bound > 0;
    for (int i = 0; i < 2; i++) {
        plain = plain && !p->s[i].absent && !l->reports[p->s[i].value];
    }
    if (!plain || !fixed_line(p) || p->f.bound == 0 || !choose(p, h)) {
        return "its operands or its line are not plain";
    }
    c->tile = h->wide * LS_RUN;
    p->bk = 1;
    ls_product_direct(p, c);
    if (c->by_k || c->run != LS_RUN) {
        return "its columns do not lie side by side";
    }
    int64_t groups = ls_product_up(c->bound, c->tile) * ls_lower_bound(l, p->batch, p->n_batch);
    if (!forced && (p->fast ? groups < 64 : groups < 16 || p->chunks < 4)) {
        return "too few threads would have something to do";
    }
    p->s[0].tile = (int)p->s[0].bound;
    h->quads = rows_by_fours(p);
    p->threads = h->wide * h->tall;
    p->several = false; /* nothing of it is left to the stores */
    p->chunks_each = p->chunks;
    p->bare = true;
    return NULL;
}

/* ---- loads ---- */

typedef struct held {
    ls_val columns[MOST_STEP];                      /* of four lanes */
    ls_val rows[MOST_ROWS][MOST_STEP];              /* of one lane, or every fourth of four */
} held;

static void bind_row(ls_product *p, int r) {
    const ls_side *s = &p->s[0];
    (void)ls_lower_bind_point(p->l, ls_kb_const_int(&p->l->kb, s->type, r), s->axes, s->n);
}

static ls_val four(ls_product *p, const ls_side *s, int axis) {
    ls_lower *l = p->l;
    ls_quad q = {.l = l, .axis = axis, .base = l->axis[axis], .at = LS_VAL_NONE};
    ls_val x[LS_RUN] = {LS_VAL_NONE};
    ls_quad_start(&q, s->used);
    for (int lane = 0; lane < LS_RUN && l->status == LS_OK; lane++) {
        ls_quad_lane(&q, lane);
        x[lane] = ls_lower_value(l, s->value).v;
    }
    return ls_quad_join(&l->kb, x);
}

static void fetch(ls_product *p, const shape *h, ls_val column, ls_val at, held *out) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    const ls_side *c = &p->s[1];
    for (int u = 0; u < h->step && l->status == LS_OK; u++) {
        ls_saved_axes saved = ls_fold_save(&p->f);
        ls_val k = u ? ls_kb_add(kb, at, ls_kb_const_int(kb, p->f.type, u)) : at;
        (void)ls_lower_bind_point(l, column, c->axes, c->n);
        ls_fold_point(&p->f, k);
        out->columns[u] = four(p, c, c->axes[c->n - 1]);
        for (int r = 0; r < p->s[0].bound && (!h->quads || u % LS_RUN == 0); r++) {
            ls_fold_point(&p->f, k);
            bind_row(p, r);
            out->rows[r][u] = h->quads ? four(p, &p->s[0], p->v->bound[p->v->n_bound - 1])
                                       : ls_lower_value(l, p->s[0].value).v;
        }
        ls_fold_restore(&p->f, &saved);
    }
}

/* Each of what a thread holds. */
static void each(ls_product *p, const shape *h, held *to, const held *from, ls_val (*f)(ls_kb *kb, ls_val to, ls_val from)) {
    for (int u = 0; u < h->step; u++) {
        to->columns[u] = f(&p->l->kb, to->columns[u], from->columns[u]);
        for (int r = 0; r < p->s[0].bound && (!h->quads || u % LS_RUN == 0); r++) {
            to->rows[r][u] = f(&p->l->kb, to->rows[r][u], from->rows[r][u]);
        }
    }
}
static ls_val keep(ls_kb *kb, ls_val to, ls_val from) {
    (void)to;
    return ls_kb_var(kb, from);
}
static ls_val change(ls_kb *kb, ls_val to, ls_val from) {
    ls_kb_set(kb, to, from);
    return to;
}
static ls_val look(ls_kb *kb, ls_val to, ls_val from) {
    (void)to;
    return ls_kb_get(kb, from);
}

/* ---- sums ---- */

static void add_products(ls_product *p, const shape *h, const held *x, const ls_val *sums) {
    ls_kb *kb = &p->l->kb;
    ls_dtype acc = (ls_dtype)p->v->acc;
    for (int u = 0; u < h->step; u++) {
        ls_val column = ls_kb_cast(kb, x->columns[u], acc);
        for (int r = 0; r < p->s[0].bound; r++) {
            ls_val row = h->quads ? ls_kb_extract(kb, x->rows[r][u / LS_RUN * LS_RUN], u % LS_RUN) : x->rows[r][u];
            row = ls_kb_splat(kb, ls_kb_cast(kb, row, acc), LS_RUN);
            ls_val before = ls_kb_get(kb, sums[r]);
            ls_val after = p->fast ? ls_kb_pure(kb, LS_K_FMA, row, column, before, LS_KF_FAST)
                                   : ls_kb_add(kb, before, ls_kb_mul(kb, row, column));
            ls_kb_set(kb, sums[r], after);
        }
    }
}

static void walk(ls_product *p, const shape *h, ls_val tx, ls_val ty, const ls_val *sums) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_dtype type = p->f.type;
    const ls_side *c = &p->s[1];
    ls_val column = ls_kb_mul(kb, ls_kb_cast(kb, tx, c->type), ls_kb_const_int(kb, c->type, LS_RUN));
    column = ls_kb_add(kb, c->first, column);
    if (c->bound % c->tile) {
        column = ls_kb_min(kb, column, ls_kb_const_int(kb, c->type, c->bound - LS_RUN));
    }
    int64_t each_of = p->fast ? h->step : LS_EMIT_CHUNK, stride = p->fast ? (int64_t)h->step * h->tall : h->step;
    ls_val last = ls_kb_const_int(kb, type, p->f.bound - h->step), step = ls_kb_const_int(kb, type, stride);
    ls_val begin = ls_kb_mul(kb, ls_kb_cast(kb, ty, type), ls_kb_const_int(kb, type, each_of)), end = p->f.n;
    if (!p->fast) {
        end = ls_kb_min(kb, ls_kb_add(kb, begin, ls_kb_const_int(kb, type, LS_EMIT_CHUNK)), end);
    }
    held now, next, vars;
    fetch(p, h, column, ls_kb_min(kb, begin, last), &now);
    each(p, h, &vars, &now, keep);
    ls_val at = ls_kb_loop(kb, begin, ls_kb_sub(kb, end, step), step, 0);
    fetch(p, h, column, ls_kb_min(kb, ls_kb_add(kb, at, step), last), &next);
    each(p, h, &now, &vars, look);
    add_products(p, h, &now, sums);
    each(p, h, &vars, &next, change);
    ls_kb_end_loop(kb);
    each(p, h, &now, &vars, look); /* every thread has one step at least */
    add_products(p, h, &now, sums);
}

/* The sum of `n` runs of four columns, `stride` apart in shared memory, in ascending order. */
static ls_val sum_of(ls_kb *kb, int mem, ls_val at, int n, int stride) {
    ls_val sum = LS_VAL_NONE;
    for (int i = 0; i < n; i++) {
        ls_val place = i ? ls_kb_add(kb, at, ls_kb_i32(kb, i * stride)) : at;
        ls_val x = ls_kb_load(kb, mem, place, LS_VAL_NONE, LS_VAL_NONE, LS_RUN);
        sum = i ? ls_kb_add(kb, sum, x) : x; /* a chunk's sum is never -0: +0 in front changes nothing */
    }
    return sum;
}

/* One row's sums, brought together; stored by the first threads. */
static void finish(ls_product *p, const shape *h, ls_val tx, ls_val ty, int r, ls_val sum, int mem) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    const ls_side *c = &p->s[1];
    int line = h->wide * LS_RUN, n = h->tall;
    ls_val run = ls_kb_mul(kb, tx, ls_kb_i32(kb, LS_RUN));
    ls_val own = ls_kb_add(kb, run, ls_kb_mul(kb, ty, ls_kb_i32(kb, line)));
    if (n > 1) {
        ls_kb_store(kb, mem, own, sum, LS_VAL_NONE);
        ls_kb_barrier(kb);
    }
    if (p->fast && n > FIRST) {
        ls_kb_if(kb, ls_kb_lt(kb, ty, ls_kb_i32(kb, FIRST)));
        ls_val at = ls_kb_min(kb, own, ls_kb_i32(kb, FIRST * line - LS_RUN)); /* says what the verifier cannot see */
        ls_kb_store(kb, mem, at, sum_of(kb, mem, at, n / FIRST, FIRST * line), LS_VAL_NONE);
        ls_kb_end_if(kb);
        ls_kb_barrier(kb);
        n = FIRST;
    }
    ls_kb_if(kb, ls_kb_eq(kb, ty, ls_kb_i32(kb, 0)));
    ls_val total = n > 1 ? sum_of(kb, mem, run, n, line) : sum;
    int mark = ls_lower_mark(l);
    int opened = ls_product_open(p, &p->s[0], ls_kb_const_int(kb, p->s[0].type, r));
    ls_product_store(p, ls_kb_add(kb, c->first, ls_kb_cast(kb, run, c->type)), total);
    ls_product_close(p, opened, mark);
    ls_kb_end_if(kb);
    if (h->tall > 1 && r + 1 < p->s[0].bound) {
        ls_kb_barrier(kb);
    }
}

/* ---- columns along the contracted line ---- */

static const char *plan_along(ls_product *p, shape *h, bool forced) {
    ls_lower *l = p->l;
    ls_side *c = &p->s[1];
    int subgroup = l->caps ? l->caps->subgroup : 0;
    bool plain = p->fast && p->lanes == LS_RUN && p->s[0].bound <= LS_RUN && p->s[0].bound > 0 && p->f.bound > 0 &&
                 subgroup >= 32 && subgroup % 32 == 0 && l->max_threads >= LS_EMIT_THREADS;
    for (int i = 0; i < 2; i++) {
        plain = plain && !p->s[i].absent && !l->reports[p->s[i].value];
    }
    if (!plain || !fixed_line(p) || p->f.bound % LINE) {
        return "its operands or its line are not plain";
    }
    c->tile = LS_EMIT_THREADS / 32 * LS_RUN;
    p->bk = LS_RUN;
    ls_product_direct(p, c);
    if (!c->by_k || c->run != LS_RUN) {
        return "its columns do not lie along the contracted line";
    }
    if (!forced && ls_product_up(c->bound, c->tile) * ls_lower_bound(l, p->batch, p->n_batch) < 64) {
        return "too few threads would have something to do";
    }
    size_t size = ls_dtype_size((ls_dtype)l->spec->values[c->value].dtype);
    for (h->step = size > 2 ? 8 : 16; p->f.bound % (h->step / LS_RUN * LINE); h->step /= 2) {
    }
    h->quads = true;
    p->s[0].tile = (int)p->s[0].bound;
    p->threads = LS_EMIT_THREADS;
    p->several = false;
    p->chunks_each = p->chunks;
    p->bare = true;
    return NULL;
}

/* Elements from `at` on, four of each column and row, and those a line further on. */
static void fetch_along(ls_product *p, const shape *h, ls_val column, ls_val at, held *out) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    const ls_side *c = &p->s[1];
    int axis = p->v->bound[p->v->n_bound - 1];
    for (int u = 0; u < h->step && l->status == LS_OK; u++) {
        int n = u % LS_RUN;
        ls_saved_axes saved = ls_fold_save(&p->f);
        ls_val own = n ? ls_kb_add(kb, column, ls_kb_const_int(kb, c->type, n)) : column;
        if (c->bound % c->tile) {
            own = ls_kb_min(kb, own, ls_kb_const_int(kb, c->type, c->bound - 1));
        }
        (void)ls_lower_bind_point(l, own, c->axes, c->n);
        ls_val k = u / LS_RUN ? ls_kb_add(kb, at, ls_kb_const_int(kb, p->f.type, u / LS_RUN * LINE)) : at;
        ls_fold_point(&p->f, k);
        out->columns[u] = four(p, c, axis);
        for (int r = 0; r < p->s[0].bound && n == 0; r++) {
            ls_fold_point(&p->f, k);
            bind_row(p, r);
            out->rows[r][u] = four(p, &p->s[0], axis);
        }
        ls_fold_restore(&p->f, &saved);
    }
}

static void add_along(ls_product *p, const shape *h, const held *x, ls_val sums[LS_RUN][LS_RUN]) {
    ls_kb *kb = &p->l->kb;
    ls_dtype acc = (ls_dtype)p->v->acc;
    for (int u = 0; u < h->step; u++) {
        ls_val column = ls_kb_cast(kb, x->columns[u], acc);
        for (int r = 0; r < p->s[0].bound; r++) {
            ls_val row = ls_kb_cast(kb, x->rows[r][u / LS_RUN * LS_RUN], acc), sum = sums[r][u % LS_RUN];
            ls_kb_set(kb, sum, ls_kb_pure(kb, LS_K_FMA, row, column, ls_kb_get(kb, sum), LS_KF_FAST));
        }
    }
}

static void walk_along(ls_product *p, const shape *h, ls_val column, ls_val lane, ls_val sums[LS_RUN][LS_RUN]) {
    ls_kb *kb = &p->l->kb;
    ls_dtype type = p->f.type;
    int64_t stride = (int64_t)h->step / LS_RUN * LINE;
    ls_val own = ls_kb_mul(kb, ls_kb_cast(kb, lane, type), ls_kb_const_int(kb, type, LS_RUN));
    ls_val step = ls_kb_const_int(kb, type, stride), last = ls_kb_const_int(kb, type, p->f.bound - stride);
    held now, next, vars;
    fetch_along(p, h, column, own, &now);
    each(p, h, &vars, &now, keep);
    ls_val at = ls_kb_loop(kb, ls_kb_const_int(kb, type, 0), last, step, 0);
    fetch_along(p, h, column, ls_kb_add(kb, ls_kb_min(kb, ls_kb_add(kb, at, step), last), own), &next);
    each(p, h, &now, &vars, look);
    add_along(p, h, &now, sums);
    each(p, h, &vars, &next, change);
    ls_kb_end_loop(kb);
    each(p, h, &now, &vars, look);
    add_along(p, h, &now, sums);
}

/* One row's sums over 32 threads, stored by the first of them. */
static void finish_along(ls_product *p, ls_val column, ls_val lane, int r, const ls_val *sums) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_val x[LS_RUN];
    for (int c = 0; c < LS_RUN; c++) {
        ls_val all = ls_kb_get(kb, sums[c]);
        ls_val even = ls_kb_add(kb, ls_kb_extract(kb, all, 0), ls_kb_extract(kb, all, 2));
        x[c] = ls_kb_add(kb, even, ls_kb_add(kb, ls_kb_extract(kb, all, 1), ls_kb_extract(kb, all, 3)));
        for (int half = 16; half > 0; half /= 2) {
            x[c] = ls_kb_add(kb, x[c], ls_kb_shuffle_xor(kb, x[c], half));
        }
    }
    ls_kb_if(kb, ls_kb_eq(kb, lane, ls_kb_i32(kb, 0)));
    int mark = ls_lower_mark(l);
    int opened = ls_product_open(p, &p->s[0], ls_kb_const_int(kb, p->s[0].type, r));
    ls_product_store(p, column, ls_quad_join(kb, x));
    ls_product_close(p, opened, mark);
    ls_kb_end_if(kb);
}

static void emit_along(ls_product *p, const shape *h) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_val sums[LS_RUN][LS_RUN];
    ls_product_begin(p, "vector", LS_COVER_VECTOR_ALONG);
    ls_val lane = ls_kb_rem(kb, p->t, ls_kb_i32(kb, 32)), of = ls_kb_div(kb, p->t, ls_kb_i32(kb, 32));
    ls_dtype type = p->s[1].type;
    ls_val column = ls_kb_mul(kb, ls_kb_cast(kb, of, type), ls_kb_const_int(kb, type, LS_RUN));
    column = ls_kb_add(kb, p->s[1].first, column);
    ls_val zero = ls_kb_splat(kb, ls_lower_zero(kb, (ls_dtype)p->v->acc), LS_RUN);
    for (int i = 0; i < p->s[0].bound * LS_RUN; i++) {
        sums[i / LS_RUN][i % LS_RUN] = ls_kb_var(kb, zero);
    }
    walk_along(p, h, column, lane, sums);
    for (int r = 0; r < p->s[0].bound && l->status == LS_OK; r++) {
        finish_along(p, column, lane, r, sums[r]);
    }
    ls_lower_end(l);
}

const char *ls_product_vector(ls_product *p, bool forced) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    shape h;
    ls_val sums[MOST_ROWS];
    if (!plan_along(p, &h, forced)) {
        emit_along(p, &h);
        return NULL;
    }
    const char *why = plan(p, &h, forced);
    if (why) {
        return why;
    }
    ls_product_begin(p, "vector", LS_COVER_VECTOR);
    ls_val tx = ls_kb_rem(kb, p->t, ls_kb_i32(kb, h.wide)), ty = ls_kb_div(kb, p->t, ls_kb_i32(kb, h.wide));
    ls_val zero = ls_kb_splat(kb, ls_lower_zero(kb, (ls_dtype)p->v->acc), LS_RUN);
    for (int r = 0; r < p->s[0].bound; r++) {
        sums[r] = ls_kb_var(kb, zero);
    }
    walk(p, &h, tx, ty, sums);
    int mem = h.tall > 1 ? ls_kb_shared(kb, "sums", (ls_dtype)p->v->acc, (int64_t)h.wide * LS_RUN * h.tall) : -1;
    for (int r = 0; r < p->s[0].bound && l->status == LS_OK; r++) {
        finish(p, &h, tx, ty, r, ls_kb_get(kb, sums[r]), mem);
    }
    ls_lower_end(l);
    return NULL;
}
