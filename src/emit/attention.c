/* Attention in one kernel, for fast and reduced arithmetic: scores, softmax and product without the scores in memory.
 *
 * A workgroup does a tile of rows (queries, of all heads that share keys) and walks over the keys in tiles. Scores of a tile
 * are a product in registers; what follows it in the graph (scale, masks) is evaluated at each; then they stand in shared
 * memory, where the threads of a row find its largest score so far and turn scores into weights below it. Sums and
 * products of earlier tiles are scaled down by how much the largest grew: the online softmax (Milakov and Gimelshein 2018),
 * whose order is another than the contract's. A row of which nothing is seen has no largest score: then 0 stands for it,
 * all weights are +0, and so is the result, where the graph says so.
 *
 * Invariant: keys beyond the last have weight 0 and are 0 in shared memory, so nothing of them comes into a sum. */
#include "emit/contract.h"

enum { THREADS = 256, SIDE = 16, PAD = 4, STEP = 4, MOST = 256, NO_LINE = -1 }; /* 16 x 16 threads; MOST: of a head */

typedef struct attention {
    ls_product p;          /* the last product: its rows, columns, batch and stores */
    int32_t scores, qk;    /* what the exponential is of, and the contraction in it */
    int32_t q, k;          /* the operands of that: by row, by key */
    bool *q_used, *k_used, *v_used;
    bool zero_is_one;      /* a row's weights that sum to 0 are divided by 1 */
    struct { int32_t value; bool unless; } blank[LS_ATTENTION_TESTS]; /* makes all of a row's probabilities 0, where it holds or does not */
    int n_blank;
    bool nan_is_zero;      /* so does a NaN in them */
    int br, bc, rm, cn, ev;/* a tile's rows and keys; of each a thread's; and its quads of columns */
    int parts;             /* threads of a row in the softmax */
    int64_t d, e;
    ls_fold fd, fj;
    ls_val t, ty, tx;
    int q_mem, kv_mem, s_mem, red, scale;
    ls_val s[8][4], o[8][4], largest, sum; /* variables */
} attention;

/* ---- what the spec says ---- */

static const ls_value *value_of(const attention *a, int32_t id) {
    return &a->p.l->spec->values[id];
}

static uint64_t bound_axes(const ls_value *v) {
    uint64_t axes = 0;
    for (int i = 0; i < v->n_bound; i++) {
        axes |= UINT64_C(1) << v->bound[i];
    }
    return axes;
}

static bool is_map(const ls_value *v, ls_op op) {
    return v->op == LS_V_MAP && v->map == op;
}

/* The contraction below, on a way of maps. */
static int32_t product_below(const attention *a, int32_t id) {
    const ls_value *v = value_of(a, id);
    const int32_t src[3] = {v->a, v->b, v->c};
    if (v->op == LS_V_CONTRACT) {
        return id;
    }
    for (int i = 0; i < 3 && v->op == LS_V_MAP; i++) {
        int32_t found = src[i] >= 0 ? product_below(a, src[i]) : LS_SPEC_NONE;
        if (found >= 0) {
            return found;
        }
    }
    return LS_SPEC_NONE;
}

static bool is_zero(const ls_value *v) {
    return v->op == LS_V_CONST && v->bits == 0;
}

/* The softmax under what makes rows 0; NULL: there is something else. */
static const ls_value *probabilities(attention *a, int32_t id) {
    uint64_t keys = bound_axes(a->p.v);
    const ls_value *v = value_of(a, id);
    while (is_map(v, LS_OP_CAST) || is_map(v, LS_OP_WHERE)) {
        const ls_value *test = value_of(a, v->a);
        if (v->map == LS_OP_CAST) {
            v = test;
            continue;
        }
        bool unless = is_zero(value_of(a, v->c));
        if (is_map(test, LS_OP_ISNAN) && test->a == v->c && is_zero(value_of(a, v->b))) {
            a->nan_is_zero = true;
            unless = false;
        } else if ((test->axes & keys) || a->n_blank == LS_ATTENTION_TESTS || !(unless || is_zero(value_of(a, v->b)))) {
            return NULL;
        } else {
            a->blank[a->n_blank].value = v->a;
            a->blank[a->n_blank++].unless = unless;
        }
        v = value_of(a, unless ? v->b : v->c);
    }
    return is_map(v, LS_OP_DIV) && is_map(value_of(a, v->a), LS_OP_EXP) ? v : NULL;
}

static const char *find_values(attention *a) {
    static const char *const no = "the kernel is no attention";
    const ls_spec *spec = a->p.l->spec;
    if (spec->kind != LS_GROUP_ATTENTION || spec->n_stores != 1) {
        return no;
    }
    a->p.id = spec->stores[0].value;
    a->p.v = value_of(a, a->p.id);
    if (a->p.v->op != LS_V_CONTRACT) {
        return no;
    }
    const ls_value *weights = probabilities(a, a->p.v->a);
    if (!weights) {
        return no;
    }
    const ls_value *below = value_of(a, value_of(a, weights->a)->a);
    if (!is_map(below, LS_OP_SUB)) {
        return no;
    }
    a->zero_is_one = is_map(value_of(a, weights->b), LS_OP_WHERE);
    a->scores = below->a;
    a->qk = product_below(a, a->scores);
    if (a->qk < 0 || value_of(a, a->scores)->dtype != LS_F32) {
        return no;
    }
    const ls_value *qk = value_of(a, a->qk);
    bool first = !(value_of(a, qk->a)->axes & bound_axes(a->p.v));
    a->q = first ? qk->a : qk->b;
    a->k = first ? qk->b : qk->a;
    return qk->acc == LS_F32 && a->p.v->acc == LS_F32 ? NULL : "its sums are not of f32";
}

static void add_axis(ls_side *s, const ls_spec *spec, uint8_t axis) {
    s->axes[s->n++] = axis;
    s->bound *= ls_dim_bound(spec->extents_of_axes[axis]);
}

static const char *find_axes(attention *a) {
    ls_product *p = &a->p;
    const ls_spec *spec = p->l->spec;
    const ls_store *store = &spec->stores[0];
    uint64_t keys = bound_axes(p->v), inner = bound_axes(value_of(a, a->qk));
    uint64_t row = value_of(a, a->q)->axes & ~inner, key = value_of(a, a->k)->axes & ~inner, column = value_of(a, p->v->b)->axes & ~keys;
    p->s[0].bound = p->s[1].bound = 1;
    bool fixed = true;
    for (int i = 0; i < store->n_axes; i++) {
        uint64_t bit = UINT64_C(1) << store->axes[i];
        bool in_k = key & bit, in_v = column & bit;
        if (in_k && in_v) {
            p->batch[p->n_batch++] = store->axes[i];
        } else if (in_v && !(value_of(a, p->v->a)->axes & bit)) {
            add_axis(&p->s[1], spec, store->axes[i]);
            fixed = fixed && ls_dim_is_fixed(spec->extents_of_axes[store->axes[i]]);
        } else if (!in_v && !in_k) {
            add_axis(&p->s[0], spec, store->axes[i]);
        } else {
            return "its keys and values vary over other axes than its batch";
        }
    }
    for (int i = 0; i < value_of(a, a->qk)->n_bound; i++) {
        fixed = fixed && ls_dim_is_fixed(spec->extents_of_axes[value_of(a, a->qk)->bound[i]]);
    }
    a->d = ls_lower_bound_points(p->l, value_of(a, a->qk));
    a->e = p->s[1].bound;
    for (int i = 0; i < 2; i++) {
        p->s[i].type = p->s[i].bound < INT32_MAX - 1024 ? LS_I32 : LS_I64;
    }
    return (row & keys) || !(key & keys) || !(column | keys)  ? "its queries and keys are not two operands"
           : !fixed || a->d < 1 || a->d > MOST || a->e > MOST ? "its heads have a size that is not fixed, or over 256"
                                                              : NULL;
}

static const char *find_tiles(attention *a) {
    static const uint8_t tiles[][2] = {{128, 64}, {64, 64}, {64, 32}, {32, 64}, {32, 32}, {16, 32}, {16, 16}};
    const ls_lower *l = a->p.l;
    int64_t rows = a->p.s[0].bound;
    if (l->max_threads < THREADS) {
        return "it needs workgroups of 256 threads";
    }
    a->ev = (int)((a->e + 63) / 64);
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        int64_t br = tiles[i][0], bc = tiles[i][1], k = a->d * (bc + PAD), v = bc * (a->ev * 64 + PAD);
        int64_t floats = a->d * (br + PAD) + (k > v ? k : v) + br * (bc + PAD) + THREADS + br;
        bool few = br > 64 && (rows + br - 1) / br * ls_lower_bound(l, a->p.batch, a->p.n_batch) < 256; /* for a large device */
        if (floats * 4 <= l->max_shared && !few && (br == SIDE || br < 2 * rows)) {
            a->br = (int)br, a->bc = (int)bc;
            a->rm = a->br / SIDE, a->cn = a->bc / SIDE;
            a->parts = THREADS / a->br;
            return NULL;
        }
    }
    return "its tiles need more shared memory than the device has";
}

static const char *find(attention *a) {
    ls_product *p = &a->p;
    ls_lower *l = p->l;
    bool **used[] = {&p->used, &a->q_used, &a->k_used, &a->v_used};
    for (int i = 0; i < 4; i++) {
        *used[i] = LS_ARENA_ARRAY(l->arena, bool, l->spec->n_values + 1);
        if (!*used[i]) {
            l->status = LS_FAIL_MEMORY(l->err, "attention");
            return "memory ran out";
        }
    }
    const char *why = l->spec->math == LS_LOCKED ? "an online softmax adds in another order than locked arithmetic has" : find_values(a);
    why = why ? why : find_axes(a);
    why = why ? why : find_tiles(a);
    if (!why) {
        p->used[p->id] = true;
        ls_lower_store_uses(l->spec, 0, p->used);
        p->used[p->id] = false;
        ls_lower_uses(l->spec, a->q, a->q_used);
        ls_lower_uses(l->spec, a->k, a->k_used);
        ls_lower_uses(l->spec, p->v->b, a->v_used);
    }
    return why;
}

/* ---- pieces ---- */

static ls_val i32(attention *a, int64_t k) {
    return ls_kb_i32(&a->p.l->kb, (int32_t)k);
}
static ls_val at2(attention *a, ls_val row, int64_t stride, ls_val column) {
    ls_kb *kb = &a->p.l->kb;
    return ls_kb_add(kb, ls_kb_mul(kb, row, i32(a, stride)), column);
}
static ls_val fma_of(attention *a, ls_val x, ls_val y, ls_val z) {
    return ls_kb_pure(&a->p.l->kb, LS_K_FMA, x, y, z, LS_KF_FAST);
}
static ls_val exp_of(attention *a, ls_val x) {
    const ls_val one[3] = {x, LS_VAL_NONE, LS_VAL_NONE};
    return ls_lower_map(&a->p.l->kb, LS_OP_EXP, LS_F32, LS_F32, one);
}

/* What goes into shared memory: rows or keys by elements of a head. */
typedef struct load {
    int32_t value;
    const bool *used;
    ls_side *rows;       /* NULL: keys */
    ls_val first;        /* row or key of the tile */
    int tile;
    bool columns;        /* the elements are columns of the result, else those that queries and keys share */
    int64_t n, padded;   /* elements, and those to fill, the rest with 0 */
    int mem, stride;
    bool by_element;     /* shared memory has all rows of an element side by side, else all elements of a row */
} load;

static int element_axis(const attention *a, const load *w) {
    const ls_side *c = &a->p.s[1];
    return w->columns ? (c->n ? c->axes[c->n - 1] : NO_LINE) : a->fd.v->n_bound ? a->fd.v->bound[a->fd.v->n_bound - 1] : NO_LINE;
}

static bool by_quads(const attention *a, const load *w) {
    int axis = element_axis(a, w);
    bool any = false;
    for (int32_t i = 0; i < a->p.l->spec->n_values && axis >= 0; i++) {
        any = any || (w->used[i] && ls_quad_axis(a->p.l, axis) && ls_quad_loads(a->p.l, i, axis, ~UINT64_C(0)));
    }
    return any;
}

/* Binds the axes of the row or key, and of the element; whether there is such a key. */
static ls_val bind_unit(attention *a, const load *w, ls_val row, ls_val element, int run) {
    ls_lower *l = a->p.l;
    ls_kb *kb = &l->kb;
    ls_val there = LS_VAL_NONE;
    if (w->rows) {
        const ls_side *s = w->rows;
        ls_val at = ls_kb_add(kb, w->first, ls_kb_cast(kb, row, s->type));
        (void)ls_lower_bind_point(l, ls_kb_min(kb, at, ls_kb_const_int(kb, s->type, s->bound - 1)), s->axes, s->n);
    } else {
        ls_val at = ls_kb_add(kb, w->first, ls_kb_cast(kb, row, a->fj.type));
        there = ls_kb_lt(kb, at, a->fj.n);
        ls_fold_point(&a->fj, ls_kb_min(kb, at, ls_kb_const_int(kb, a->fj.type, a->fj.bound - 1)));
    }
    if (w->columns) {
        const ls_side *s = &a->p.s[1];
        if (w->padded > w->n) {
            ls_val is = ls_kb_lt(kb, element, i32(a, w->n));
            there = ls_lower_and(l, there, is);
            element = ls_kb_min(kb, element, i32(a, w->n - run));
        }
        (void)ls_lower_bind_point(l, ls_kb_cast(kb, element, s->type), s->axes, s->n);
    } else {
        ls_fold_point(&a->fd, ls_kb_cast(kb, element, a->fd.type));
    }
    return there;
}

static void put_unit(attention *a, const load *w, ls_val row, ls_val element, const ls_val x[4], int run) {
    ls_kb *kb = &a->p.l->kb;
    if (!w->by_element && run == LS_RUN) {
        ls_kb_store(kb, w->mem, at2(a, row, w->stride, element), ls_quad_join(kb, x), LS_VAL_NONE);
        return;
    }
    for (int lane = 0; lane < run; lane++) {
        ls_val e = lane ? ls_kb_add(kb, element, i32(a, lane)) : element;
        ls_kb_store(kb, w->mem, w->by_element ? at2(a, e, w->stride, row) : at2(a, row, w->stride, e), x[lane], LS_VAL_NONE);
    }
}

static void load_tile(attention *a, const load *w) {
    ls_lower *l = a->p.l;
    ls_kb *kb = &l->kb;
    int run = by_quads(a, w) ? LS_RUN : 1, axis = element_axis(a, w);
    int64_t across = w->padded / run, units = across * w->tile;
    for (int64_t u = 0; u * THREADS < units && l->status == LS_OK; u++) {
        ls_val unit = ls_kb_add(kb, a->t, i32(a, u * THREADS)), x[LS_RUN];
        bool some = (u + 1) * THREADS > units;
        if (some) {
            ls_kb_if(kb, ls_kb_lt(kb, unit, i32(a, units)));
        }
        ls_val row = ls_kb_div(kb, unit, i32(a, across));
        ls_val element = ls_kb_mul(kb, ls_kb_rem(kb, unit, i32(a, across)), i32(a, run));
        ls_saved_axes keys = ls_fold_save(&a->fj), inner = ls_fold_save(&a->fd);
        ls_val there = bind_unit(a, w, row, element, run);
        ls_quad q = {.l = l, .axis = axis, .base = axis < 0 ? LS_VAL_NONE : l->axis[axis], .at = LS_VAL_NONE};
        if (run == LS_RUN) {
            ls_quad_start(&q, w->used);
        }
        for (int lane = 0; lane < run && l->status == LS_OK; lane++) {
            if (run == LS_RUN) {
                ls_quad_lane(&q, lane);
            }
            x[lane] = ls_kb_cast(kb, ls_lower_value(l, w->value).v, LS_F32);
            x[lane] = there == LS_VAL_NONE ? x[lane] : ls_kb_select(kb, there, x[lane], ls_kb_f32(kb, 0));
        }
        ls_fold_restore(&a->fd, &inner);
        ls_fold_restore(&a->fj, &keys);
        if (l->status == LS_OK) {
            put_unit(a, w, row, element, x, run);
        }
        if (some) {
            ls_kb_end_if(kb);
        }
    }
}

/* ---- one tile of keys ---- */

/* The rows of a thread, from shared memory at `at` and after it, as scalars. */
static void rows_from(attention *a, int mem, ls_val at, ls_val *out) {
    ls_kb *kb = &a->p.l->kb;
    int run = a->rm < LS_RUN ? a->rm : LS_RUN;
    at = ls_kb_add(kb, at, ls_kb_mul(kb, a->ty, i32(a, a->rm)));
    for (int i = 0; i < a->rm; i += run) {
        ls_val x = ls_kb_load(kb, mem, i ? ls_kb_add(kb, at, i32(a, i)) : at, LS_VAL_NONE, LS_VAL_NONE, run);
        for (int n = 0; n < run; n++) {
            out[i + n] = run > 1 ? ls_kb_extract(kb, x, n) : x;
        }
    }
}

static void multiply_scores(attention *a) {
    ls_kb *kb = &a->p.l->kb;
    ls_val zero = ls_kb_f32(kb, 0), none = LS_VAL_NONE;
    for (int i = 0; i < a->rm; i++) {
        for (int c = 0; c < a->cn; c++) {
            ls_kb_set(kb, a->s[i][c], zero);
        }
    }
    int step = a->d % STEP ? 1 : STEP;
    ls_val from = ls_kb_loop(kb, i32(a, 0), i32(a, a->d), i32(a, step), 0);
    for (int n = 0; n < step; n++) {
        ls_val x = ls_kb_add(kb, from, i32(a, n));
        ls_val q[8];
        rows_from(a, a->q_mem, ls_kb_mul(kb, x, i32(a, a->br + PAD)), q);
        ls_val k = ls_kb_load(kb, a->kv_mem, at2(a, x, a->bc + PAD, ls_kb_mul(kb, a->tx, i32(a, a->cn))), none, none, a->cn);
        for (int i = 0; i < a->rm; i++) {
            for (int c = 0; c < a->cn; c++) {
                ls_val kc = a->cn > 1 ? ls_kb_extract(kb, k, c) : k;
                ls_kb_set(kb, a->s[i][c], fma_of(a, q[i], kc, ls_kb_get(kb, a->s[i][c])));
            }
        }
    }
    ls_kb_end_loop(kb);
}

static void put_scores(attention *a, ls_val at, const ls_val *x, int n) {
    ls_kb *kb = &a->p.l->kb;
    ls_val all = n == 4 ? ls_quad_join(kb, x) : n == 2 ? ls_kb_join(kb, x[0], x[1]) : x[0];
    ls_kb_store(kb, a->s_mem, at, all, LS_VAL_NONE);
}

/* All that the graph does with the scores before the softmax; keys beyond the last weigh nothing. */
static void finish_scores(attention *a, ls_val first_key) {
    ls_lower *l = a->p.l;
    ls_kb *kb = &l->kb;
    const ls_side *rows = &a->p.s[0];
    ls_val least = ls_kb_const_float(kb, LS_F32, -__builtin_inf());
    for (int i = 0; i < a->rm; i++) {
        ls_val own = ls_kb_add(kb, ls_kb_mul(kb, a->ty, i32(a, a->rm)), i32(a, i));
        ls_val row = ls_kb_add(kb, rows->first, ls_kb_cast(kb, own, rows->type));
        int mark = ls_lower_mark(l);
        (void)ls_lower_bind_point(l, ls_kb_min(kb, row, ls_kb_const_int(kb, rows->type, rows->bound - 1)), rows->axes, rows->n);
        ls_val score[4], from = ls_kb_mul(kb, a->tx, i32(a, a->cn));
        for (int c = 0; c < a->cn; c++) {
            ls_saved_axes saved = ls_fold_save(&a->fj);
            ls_val key = ls_kb_add(kb, first_key, ls_kb_cast(kb, ls_kb_add(kb, from, i32(a, c)), a->fj.type));
            ls_fold_point(&a->fj, ls_kb_min(kb, key, ls_kb_const_int(kb, a->fj.type, a->fj.bound - 1)));
            ls_dtype dtype = (ls_dtype)value_of(a, a->qk)->dtype;
            ls_lower_remember(l, a->qk, (ls_lowered){ls_kb_cast(kb, ls_kb_get(kb, a->s[i][c]), dtype), LS_VAL_NONE, LS_VAL_NONE});
            score[c] = ls_kb_select(kb, ls_kb_lt(kb, key, a->fj.n), ls_lower_value(l, a->scores).v, least);
            ls_fold_restore(&a->fj, &saved);
        }
        put_scores(a, at2(a, own, a->bc + PAD, from), score, a->cn);
        ls_lower_undo(l, mark);
    }
}

/* Where rows may become 0: what is left of them must not be NaN for their probabilities being NaN. The row's sum is all the same. */
static ls_val unless_nan(attention *a, ls_val weight) {
    ls_kb *kb = &a->p.l->kb;
    return a->n_blank || a->nan_is_zero ? ls_kb_select(kb, ls_lower_is_nan(kb, LS_F32, weight), ls_kb_f32(kb, 0), weight) : weight;
}

/* Scores to weights, by `parts` threads a row: the largest score, then e to the power of what is below it. */
static void weigh(attention *a) {
    ls_kb *kb = &a->p.l->kb;
    ls_val none = LS_VAL_NONE, least = ls_kb_const_float(kb, LS_F32, -__builtin_inf()), zero = ls_kb_f32(kb, 0);
    ls_val row = ls_kb_rem(kb, a->t, i32(a, a->br)), part = ls_kb_div(kb, a->t, i32(a, a->br));
    ls_val place[64], score[64], top = least;
    int each = a->bc / a->parts, run = each < LS_RUN ? each : LS_RUN;
    for (int c = 0; c < each; c += run) {
        place[c] = at2(a, row, a->bc + PAD, ls_kb_add(kb, ls_kb_mul(kb, part, i32(a, each)), i32(a, c)));
        ls_val x = ls_kb_load(kb, a->s_mem, place[c], none, none, run);
        for (int n = 0; n < run; n++) {
            score[c + n] = run > 1 ? ls_kb_extract(kb, x, n) : x;
            top = ls_kb_max(kb, top, score[c + n]);
        }
    }
    ls_kb_store(kb, a->red, at2(a, part, a->br, row), top, none);
    ls_kb_barrier(kb);
    ls_val before = ls_kb_get(kb, a->largest), largest = before, sum = zero;
    for (int i = 0; i < a->parts; i++) {
        largest = ls_kb_max(kb, largest, ls_kb_load(kb, a->red, ls_kb_add(kb, row, i32(a, (int64_t)i * a->br)), none, none, 1));
    }
    ls_kb_set(kb, a->largest, largest);
    ls_val base = ls_kb_select(kb, ls_kb_eq(kb, largest, least), zero, largest);
    for (int c = 0; c < each; c++) {
        score[c] = exp_of(a, ls_kb_sub(kb, score[c], base));
        sum = ls_kb_add(kb, sum, score[c]);
        score[c] = unless_nan(a, score[c]);
    }
    for (int c = 0; c < each; c += run) {
        put_scores(a, place[c], score + c, run);
    }
    ls_val scale = exp_of(a, ls_kb_sub(kb, before, base));
    ls_kb_set(kb, a->sum, fma_of(a, ls_kb_get(kb, a->sum), scale, sum));
    ls_kb_store(kb, a->scale, row, unless_nan(a, scale), ls_kb_eq(kb, part, i32(a, 0)));
}

static void multiply_values(attention *a) {
    ls_kb *kb = &a->p.l->kb;
    ls_val none = LS_VAL_NONE;
    ls_val w[8];
    rows_from(a, a->scale, i32(a, 0), w);
    for (int i = 0; i < a->rm; i++) {
        ls_val by = ls_kb_splat(kb, w[i], LS_RUN);
        for (int c = 0; c < a->ev; c++) {
            ls_kb_set(kb, a->o[i][c], ls_kb_mul(kb, ls_kb_get(kb, a->o[i][c]), by));
        }
    }
    ls_val from = ls_kb_loop(kb, i32(a, 0), i32(a, a->bc), i32(a, STEP), 0);
    ls_val weights[8];
    for (int i = 0; i < a->rm; i++) {
        ls_val row = ls_kb_add(kb, ls_kb_mul(kb, a->ty, i32(a, a->rm)), i32(a, i));
        weights[i] = ls_kb_load(kb, a->s_mem, at2(a, row, a->bc + PAD, from), none, none, STEP);
    }
    for (int n = 0; n < STEP; n++) {
        ls_val j = ls_kb_add(kb, from, i32(a, n));
        for (int c = 0; c < a->ev; c++) {
            ls_val column = ls_kb_add(kb, ls_kb_mul(kb, a->tx, i32(a, LS_RUN)), i32(a, (int64_t)c * 64));
            ls_val v = ls_kb_load(kb, a->kv_mem, at2(a, j, (int64_t)a->ev * 64 + PAD, column), none, none, LS_RUN);
            for (int i = 0; i < a->rm; i++) {
                ls_val by = ls_kb_splat(kb, ls_kb_extract(kb, weights[i], n), LS_RUN);
                ls_kb_set(kb, a->o[i][c], fma_of(a, by, v, ls_kb_get(kb, a->o[i][c])));
            }
        }
    }
    ls_kb_end_loop(kb);
}

static void walk_keys(attention *a) {
    ls_kb *kb = &a->p.l->kb;
    ls_val step = ls_kb_const_int(kb, a->fj.type, a->bc);
    ls_val key = ls_kb_loop(kb, ls_kb_const_int(kb, a->fj.type, 0), a->fj.n, step, 0);
    load_tile(a, &(load){.value = a->k, .used = a->k_used, .first = key, .tile = a->bc, .n = a->d, .padded = a->d, .mem = a->kv_mem,
                         .stride = a->bc + PAD, .by_element = true});
    ls_kb_barrier(kb);
    multiply_scores(a);
    finish_scores(a, key);
    ls_kb_barrier(kb);
    load_tile(a, &(load){.value = a->p.v->b, .used = a->v_used, .first = key, .tile = a->bc, .columns = true, .n = a->e,
                         .padded = (int64_t)a->ev * 64, .mem = a->kv_mem, .stride = a->ev * 64 + PAD});
    weigh(a);
    ls_kb_barrier(kb);
    multiply_values(a);
    ls_kb_barrier(kb);
    ls_kb_end_loop(kb);
}

/* ---- the kernel ---- */

static void begin(attention *a) {
    ls_product *p = &a->p;
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_side *rows = &p->s[0];
    rows->tile = a->br;
    p->s[1].tile = a->ev * 64;
    p->lanes = LS_RUN;
    ls_lower_begin(l, "fused", LS_COVER_ATTENTION);
    ls_kb_workgroup(kb, THREADS, 1, 1);
    int64_t tiles = (rows->bound + a->br - 1) / a->br;
    ls_val group = ls_lower_frame(l, tiles * ls_lower_bound(l, p->batch, p->n_batch), 1);
    ls_val count = ls_kb_const_int(kb, ls_lower_type(l, group), tiles);
    ls_val tile = ls_kb_cast(kb, ls_kb_rem(kb, group, count), rows->type);
    rows->first = ls_kb_mul(kb, tile, ls_kb_const_int(kb, rows->type, a->br));
    ls_lower_point(l, ls_kb_div(kb, group, count), p->batch, p->n_batch);
    a->fd = ls_fold_start(l, a->qk);
    a->fj = ls_fold_start(l, p->id);
    a->t = ls_kb_local_id(kb, 0);
    a->ty = ls_kb_div(kb, a->t, i32(a, SIDE));
    a->tx = ls_kb_rem(kb, a->t, i32(a, SIDE));
    int64_t k = a->d * (a->bc + PAD), v = (int64_t)a->bc * (a->ev * 64 + PAD);
    a->q_mem = ls_kb_shared(kb, "queries", LS_F32, a->d * (a->br + PAD));
    a->kv_mem = ls_kb_shared(kb, "keys_values", LS_F32, k > v ? k : v);
    a->s_mem = ls_kb_shared(kb, "scores", LS_F32, (int64_t)a->br * (a->bc + PAD));
    a->red = ls_kb_shared(kb, "parts", LS_F32, THREADS);
    a->scale = ls_kb_shared(kb, "scale", LS_F32, a->br);
    ls_val zero = ls_kb_f32(kb, 0);
    a->largest = ls_kb_var(kb, ls_kb_const_float(kb, LS_F32, -__builtin_inf()));
    a->sum = ls_kb_var(kb, zero);
    for (int i = 0; i < a->rm; i++) {
        for (int c = 0; c < a->cn; c++) {
            a->s[i][c] = ls_kb_var(kb, zero);
        }
        for (int c = 0; c < a->ev; c++) {
            a->o[i][c] = ls_kb_var(kb, ls_kb_splat(kb, zero, LS_RUN));
        }
    }
}

/* Whether all probabilities of the row that is bound are made 0; LS_VAL_NONE: never. */
static ls_val row_is_blank(attention *a, ls_val total) {
    ls_lower *l = a->p.l;
    ls_kb *kb = &l->kb;
    ls_val blank = LS_VAL_NONE;
    if (a->nan_is_zero) { /* the largest of nothing is -infinity, and their sum 0 */
        ls_val nothing = ls_kb_eq(kb, total, ls_kb_f32(kb, 0));
        blank = ls_lower_is_nan(kb, LS_F32, total);
        blank = a->zero_is_one ? blank : ls_kb_or(kb, blank, nothing);
    }
    for (int i = 0; i < a->n_blank; i++) {
        ls_val is = ls_lower_value(l, a->blank[i].value).v;
        is = a->blank[i].unless ? ls_kb_not(kb, is) : is;
        blank = blank == LS_VAL_NONE ? is : ls_kb_or(kb, blank, is);
    }
    return blank;
}

static void store_rows(attention *a) {
    ls_product *p = &a->p;
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_val none = LS_VAL_NONE, zero = ls_kb_f32(kb, 0), one = ls_kb_f32(kb, 1);
    ls_kb_store(kb, a->red, a->t, ls_kb_get(kb, a->sum), none);
    ls_kb_barrier(kb);
    for (int i = 0; i < a->rm; i++) {
        ls_val own = ls_kb_add(kb, ls_kb_mul(kb, a->ty, i32(a, a->rm)), i32(a, i)), total = zero;
        for (int part = 0; part < a->parts; part++) {
            total = ls_kb_add(kb, total, ls_kb_load(kb, a->red, ls_kb_add(kb, own, i32(a, (int64_t)part * a->br)), none, none, 1));
        }
        ls_val sum = total;
        total = a->zero_is_one ? ls_kb_select(kb, ls_kb_eq(kb, total, zero), one, total) : total;
        int mark = ls_lower_mark(l);
        int opened = ls_product_open(p, &p->s[0], ls_kb_add(kb, p->s[0].first, ls_kb_cast(kb, own, p->s[0].type)));
        ls_val blank = row_is_blank(a, sum);
        for (int c = 0; c < a->ev; c++) {
            ls_val column = ls_kb_add(kb, ls_kb_mul(kb, a->tx, i32(a, LS_RUN)), i32(a, (int64_t)c * 64));
            ls_val o = ls_kb_get(kb, a->o[i][c]), y = ls_kb_div(kb, o, ls_kb_splat(kb, total, LS_RUN));
            y = blank == LS_VAL_NONE ? y : ls_kb_select(kb, ls_kb_splat(kb, blank, LS_RUN), ls_kb_sub(kb, o, o), y); /* NaN: of the values */
            ls_product_store(p, ls_kb_cast(kb, column, p->s[1].type), y);
        }
        ls_product_close(p, opened, mark);
    }
}

const char *ls_lower_attention(ls_lower *l, bool dry) {
    attention *a = ls_arena_alloc(l->arena, sizeof *a);
    if (!a) {
        l->status = LS_FAIL_MEMORY(l->err, "attention");
        return "memory ran out";
    }
    *a = (attention){.p = {.l = l, .first = 0, .count = 1}};
    const char *why = find(a);
    if (why || dry) {
        return why;
    }
    begin(a);
    load_tile(a, &(load){.value = a->q, .used = a->q_used, .rows = &a->p.s[0], .first = a->p.s[0].first, .tile = a->br, .n = a->d,
                         .padded = a->d, .mem = a->q_mem, .stride = a->br + PAD, .by_element = true});
    walk_keys(a);
    store_rows(a);
    ls_lower_end(l);
    return NULL;
}
