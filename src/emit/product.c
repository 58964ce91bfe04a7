/* Which contraction a kernel holds, its rows, columns and chunks, how its operands lie in memory, and the tile that a
 * workgroup computes: the plan of what contract.c, matvec.c and fragment.c emit. */
#include "emit/contract.h"

enum { PAD = 4 };

static bool may_be_absent(const ls_spec *spec, int32_t id) {
    const ls_value *v = &spec->values[id];
    return v->op == LS_V_GUARD && ((v->b < 0 && v->n_preds > 0) || may_be_absent(spec, v->a) ||
                                   (v->b >= 0 && may_be_absent(spec, v->b)));
}

static bool is_loop(const ls_value *v) {
    return v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT || v->op == LS_V_SCAN || v->op == LS_V_SORT;
}

static const char *find(ls_product *p) {
    const ls_spec *spec = p->l->spec;
    p->used = LS_ARENA_ARRAY(p->l->arena, bool, spec->n_values + 1);
    for (int i = 0; i < 2; i++) {
        p->s[i].used = LS_ARENA_ARRAY(p->l->arena, bool, spec->n_values + 1);
    }
    if (!p->used || !p->s[0].used || !p->s[1].used) {
        p->l->status = LS_FAIL_MEMORY(p->l->err, "a contraction");
        return "memory ran out";
    }
    for (int32_t i = p->first; i < p->first + p->count; i++) {
        ls_lower_store_uses(spec, i, p->used);
    }
    p->id = LS_SPEC_NONE;
    bool beside = false;
    for (int32_t i = 0; i < spec->n_values; i++) {
        if (p->used[i] && spec->values[i].op == LS_V_CONTRACT) {
            if (p->id >= 0) {
                return "the kernel has several contractions";
            }
            p->id = i;
        } else if (p->used[i] && is_loop(&spec->values[i])) {
            beside = true;
        }
    }
    if (p->id < 0) {
        return "the kernel has no contraction";
    }
    if (beside) {
        return "a reduction, scan or sort stands beside the contraction";
    }
    p->v = &spec->values[p->id];
    for (int32_t i = 0; i < spec->n_values; i++) {
        p->used[i] = false;
    }
    p->used[p->id] = true;
    for (int32_t i = p->first; i < p->first + p->count; i++) {
        ls_lower_store_uses(spec, i, p->used);
    }
    p->used[p->id] = false;
    return NULL;
}

/* Batch, rows and columns; the columns hold the innermost axis. */
static const char *classify(ls_product *p) {
    const ls_spec *spec = p->l->spec;
    const ls_store *s = &spec->stores[p->first];
    uint64_t bound = 0, of[2] = {spec->values[p->v->a].axes, spec->values[p->v->b].axes};
    for (int i = 0; i < p->v->n_bound; i++) {
        bound |= UINT64_C(1) << p->v->bound[i];
    }
    int columns = 1;
    uint64_t space = 0;
    for (int i = 0; i < s->n_axes; i++) {
        uint64_t bit = UINT64_C(1) << s->axes[i];
        space |= bit;
        bool a = of[0] & ~bound & bit, b = of[1] & ~bound & bit;
        if (!(p->v->axes & bit) && ls_dim_bound(spec->extents_of_axes[s->axes[i]]) > 1) {
            return "the contraction is the same along an axis of its kernel";
        }
        columns = a != b ? b : columns; /* the innermost that decides */
    }
    if (p->v->axes & ~space) {
        return "the contraction stands inside another loop";
    }
    p->s[0].value = columns ? p->v->a : p->v->b;
    p->s[1].value = columns ? p->v->b : p->v->a;
    for (int i = 0; i < 2; i++) {
        ls_side *d = &p->s[i];
        ls_lower_uses(spec, d->value, d->used);
        d->absent = may_be_absent(spec, d->value);
        d->words = LS_SPEC_NONE;
        d->bound = 1;
    }
    for (int i = 0; i < s->n_axes; i++) {
        uint64_t bit = UINT64_C(1) << s->axes[i];
        bool row = spec->values[p->s[0].value].axes & ~bound & bit,
             column = spec->values[p->s[1].value].axes & ~bound & bit;
        if (row && column) {
            p->batch[p->n_batch++] = s->axes[i];
        } else {
            ls_side *d = &p->s[column];
            d->axes[d->n++] = s->axes[i];
            d->bound *= ls_dim_bound(spec->extents_of_axes[s->axes[i]]);
        }
    }
    for (int i = 0; i < 2; i++) {
        p->s[i].type = p->s[i].bound < INT32_MAX - 1024 ? LS_I32 : LS_I64;
    }
    return NULL;
}

int ls_product_axis(const ls_product *p, const ls_side *s, bool by_k) {
    return by_k ? (p->v->n_bound ? p->v->bound[p->v->n_bound - 1] : -1) : (s->n ? s->axes[s->n - 1] : -1);
}

void ls_product_direct(ls_product *p, ls_side *s) {
    const ls_spec *spec = p->l->spec;
    int best = -1;
    int64_t nearest = INT64_MAX;
    for (int by_k = 0; by_k < 2; by_k++) {
        int axis = ls_product_axis(p, s, by_k);
        if (axis < 0) {
            continue;
        }
        int quads = 0;
        int64_t near = INT64_MAX; /* of neighbours in memory, the nearest */
        for (int32_t i = 0; i < spec->n_values; i++) {
            int64_t stride;
            if (s->used[i] && spec->values[i].op == LS_V_LOAD && (spec->values[i].axes >> axis & 1)) {
                if (ls_ix_affine(spec, spec->values[i].ix, axis, &stride) && stride && stride > -near && stride < near) {
                    near = stride < 0 ? -stride : stride;
                }
                quads += (by_k || s->tile % LS_RUN == 0) && ls_quad_axis(p->l, axis) && p->lanes == LS_RUN &&
                         ls_quad_loads(p->l, i, axis, ~UINT64_C(0));
            }
        }
        int worth = quads ? 1 : 0;
        if (worth > best || (worth == best && near < nearest)) {
            best = worth;
            nearest = near;
            s->by_k = by_k;
            s->run = quads ? LS_RUN : 1;
        }
    }
    s->units = s->tile * p->bk / s->run;
}

static int64_t shared_bytes(const ls_product *p, const ls_tile_shape *t, int bk) {
    int64_t size = (int64_t)ls_dtype_size((ls_dtype)p->v->acc), bytes = 4;
    for (int i = 0; i < 2; i++) {
        bytes += size * bk * ((i ? t->tx * t->tn : t->ty * t->tm) + PAD) * (1 + p->s[i].absent);
    }
    return bytes;
}

/* How many chunks a workgroup does, so that some 32768 threads have something to do. */
static int64_t chunks_for(const ls_product *p, int64_t threads) {
    int64_t shares = threads > 0 ? ls_product_up(32768, threads) : 1, size = (int64_t)ls_dtype_size((ls_dtype)p->v->acc);
    int64_t points = p->s[0].bound * p->s[1].bound * ls_lower_bound(p->l, p->batch, p->n_batch);
    bool splits =
        ls_dtype_is_float((ls_dtype)p->v->acc) && shares > 1 && points * size * p->chunks < INT64_C(1) << 26;
    return splits ? ls_product_up(p->chunks, shares) : p->chunks;
}

/* The shape whose tiles are done soonest on a device of some 32768 threads. */
static const char *choose_shape(ls_product *p, bool flat) {
    static const ls_tile_shape shapes[] = {
        {16, 16, 8, 8, 100}, {8, 16, 8, 8, 96}, {16, 16, 8, 4, 90}, {16, 16, 4, 4, 72}, {8, 8, 4, 4, 40},  {32, 4, 4, 4, 36},
        {4, 32, 4, 4, 36},   {1, 64, 8, 4, 30},  {1, 64, 4, 4, 24},  {1, 64, 2, 4, 18}, {1, 64, 1, 4, 12}};
    int64_t best = INT64_MAX, batch = ls_lower_bound(p->l, p->batch, p->n_batch);
    p->chunks_each = p->chunks;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ls_tile_shape t = shapes[i];
        bool small = i < 2 || p->f.bound <= 8 || shared_bytes(p, &t, 16) > p->l->max_shared;
        int bk = small ? 8 : 16, threads = t.ty * t.tx;
        if (t.ty == 1 && t.tm == 1 && p->f.bound >= 512 && shared_bytes(p, &t, 2 * bk) <= p->l->max_shared) {
            bk *= 2; /* what matters is how many loads are under way */
        }
        if (threads > p->l->max_threads || shared_bytes(p, &t, bk) > p->l->max_shared ||
            (t.ty == 1) != flat) {
            continue;
        }
        int worth = t.worth - (t.tm * t.tn == 64 && p->several ? 15 : 0); /* twice the registers */
        int64_t tiles = ls_product_up(p->s[0].bound, t.ty * t.tm) * ls_product_up(p->s[1].bound, t.tx * t.tn) * batch;
        int64_t each = chunks_for(p, tiles * threads), shares = ls_product_up(p->chunks, each);
        int64_t rounds =
            ls_product_up(tiles * shares * threads, 32768); /* a device that is not full takes as long as one that is */
        int64_t cost = rounds * each * t.tm * t.tn * 100000 / worth;
        if (cost < best) {
            best = cost;
            p->shape = t;
            p->bk = bk;
            p->chunks_each = each;
        }
    }
    p->threads = p->shape.ty * p->shape.tx;
    return best < INT64_MAX ? NULL : "its tiles need more threads or shared memory than the device has";
}

const char *ls_product_find(ls_product *p) {
    const char *why = find(p);
    why = why ? why : classify(p);
    if (!why) {
        ls_dtype acc = (ls_dtype)p->v->acc;
        p->f.bound = ls_lower_bound_points(p->l, p->v);
        p->fast = p->l->spec->math != LS_LOCKED && ls_dtype_is_float(acc);
        p->several = p->f.bound > LS_EMIT_CHUNK && !p->fast && ls_dtype_is_float(acc);
        p->lanes = ls_dtype_size(acc) > 4 ? 2 : LS_RUN;
        p->chunk = LS_EMIT_CHUNK;
        p->chunks = p->f.bound > 0 ? ls_product_up(p->f.bound, p->chunk) : 1;
        p->chunks_each = p->chunks;
        p->scratch = LS_SPEC_NONE;
        p->staged = acc;
    }
    return why;
}

void ls_product_fewer_rows(ls_product *p) {
    if (p->s[0].bound > p->s[1].bound) {
        ls_side rows = p->s[0];
        p->s[0] = p->s[1];
        p->s[1] = rows;
    }
}

const char *ls_product_plan(ls_product *p, bool flat) {
    const char *why = ls_product_find(p);
    if (why) {
        return why;
    }
    if (flat && p->s[0].bound > 8 && p->s[1].bound > 8) {
        return "rows and columns are more than 8 both";
    }
    if (flat) {
        ls_product_fewer_rows(p);
    }
    if (flat && p->fast && p->f.bound > 0) { /* what counts is how many loads are under way */
        p->chunk = LS_EMIT_CHUNK / 4;
        p->chunks = ls_product_up(p->f.bound, p->chunk);
    }
    why = choose_shape(p, flat);
    p->several = p->several || p->chunks_each < p->chunks;
    for (int i = 0; i < 2 && !why; i++) {
        ls_side *s = &p->s[i];
        s->tile = i ? p->shape.tx * p->shape.tn : p->shape.ty * p->shape.tm;
        s->stride = s->tile + PAD;
        ls_product_direct(p, s);
    }
    /* where loads are many, a barrier less is worth the registers */
    bool ones = p->s[0].run == 1 || p->s[1].run == 1;
    p->twice = !why && ones && 2 * shared_bytes(p, &p->shape, p->bk) <= p->l->max_shared;
    return why;
}
