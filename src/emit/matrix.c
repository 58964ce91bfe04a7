/* A matrix product by matrix instructions: f16 or bf16 operands, sums in f32, in fast arithmetic.
 *
 * A workgroup computes a tile of rows by columns, a subgroup 64 x 64 of it in 16 fragments. The contracted line is walked in
 * slabs: while the products of one are added up, the next is copied. Slabs take turns in two shared arrays, so that it is
 * plain to whoever renders the kernel that a copy is for after the next barrier. Both memories are seen as words, so that 8
 * elements move at once and no conversion stands in between; a slab lies in shared memory as in global memory, in lines along
 * whatever is contiguous there, 8 elements apart, which keeps the lines of a fragment in different banks. At the end the sums
 * go through shared memory to the threads that do the stores, with all that follows the product.
 *
 * Where the device has whole products (PRODUCT), a tile's sums are one instruction, and the device's language says how slabs are
 * staged; what follows is the same.
 *
 * It takes what has the right shape: operands that are loaded as they are, extents that are whole tiles (of whole products, any:
 * what a tile has too much is computed from zeros, or from what lies there, and not stored). */
#include "emit/lower.h"

enum { PART = 64, FRAG = 16, ALONG = 8 /* elements of 16 bytes */, GAP = 8, SPARE = 4 };
/* of a whole product: threads, contracted elements of a stage, elements between rows of sums, bytes for the stages' barriers */
enum { WHOLE_THREADS = 256, WHOLE_SLAB = 64, WHOLE_SPARE = 8, WHOLE_BARRIERS = 1024 };

typedef struct side {
    int32_t value, arg;
    int axis;         /* the row or the column */
    int64_t extent;
    int tile;
    int64_t line;     /* elements from one line of memory to the next */
    bool by_k;        /* lines lie along the contracted axis */
    int length, stride; /* of a line of a slab, and from one to the next in shared memory */
    int units;        /* of 16 bytes in a slab */
    int global, shared[2];
    ls_val first;     /* row or column of the tile */
    ls_val base;      /* words in front of it: the batch */
} side;

typedef struct product {
    ls_lower *l;
    int32_t id, first, count;
    const ls_value *v;
    side s[2];
    uint8_t batch[2 * LS_MAX_RANK];
    int n_batch, k_axis, threads, slab; /* contracted elements of a slab */
    int64_t k;
    bool whole; /* by PRODUCT */
    bool *used; /* by the stores, without the contraction */
    ls_dtype type;
    ls_val t, part[2]; /* of this subgroup: its first row and column in the tile */
    ls_val sum[PART / FRAG][PART / FRAG];
} product;

static bool is_loop(const ls_value *v) {
    return v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT || v->op == LS_V_SCAN || v->op == LS_V_SORT;
}

static const char *find(product *p) {
    const ls_spec *spec = p->l->spec;
    p->used = LS_ARENA_ARRAY(p->l->arena, bool, spec->n_values + 1);
    if (!p->used) {
        p->l->status = LS_FAIL_MEMORY(p->l->err, "a matrix product");
        return "memory ran out";
    }
    for (int32_t i = p->first; i < p->first + p->count; i++) {
        ls_lower_store_uses(spec, i, p->used);
    }
    p->id = LS_SPEC_NONE;
    for (int32_t i = 0; i < spec->n_values; i++) {
        if (p->used[i] && is_loop(&spec->values[i])) {
            if (p->id >= 0 || spec->values[i].op != LS_V_CONTRACT) {
                return "a reduction, scan or sort stands beside the contraction";
            }
            p->id = i;
        }
    }
    if (p->id < 0) {
        return "the kernel has no contraction";
    }
    for (int32_t i = 0; i < spec->n_values; i++) {
        p->used[i] = false;
    }
    p->used[p->id] = true; /* what it is computed from is not wanted */
    for (int32_t i = p->first; i < p->first + p->count; i++) {
        ls_lower_store_uses(spec, i, p->used);
    }
    p->used[p->id] = false;
    p->v = &spec->values[p->id];
    return NULL;
}

static const char *has_instruction(product *p) {
    const ls_emit_caps *c = p->l->caps;
    const ls_value *a = &p->l->spec->values[p->v->a], *b = &p->l->spec->values[p->v->b];
    if (p->l->spec->math == LS_LOCKED) {
        return "matrix instructions have an order of their own, which locked arithmetic does not allow";
    }
    if (!c || !c->n_frags || c->subgroup != 32 || !c->frag_words) {
        return "the device has no matrix instructions of the right kind";
    }
    for (int i = 0; i < c->n_frags; i++) {
        const ls_emit_frag *f = &c->frags[i];
        if (f->type == a->dtype && a->dtype == b->dtype && p->v->acc == LS_F32 && f->m == FRAG && f->n == FRAG && f->k == FRAG) {
            p->type = f->type;
            return a->op == LS_V_LOAD && b->op == LS_V_LOAD ? NULL : "an operand is computed, not loaded";
        }
    }
    return "the device has no matrix instructions for these operands";
}

static int64_t fixed_extent(const product *p, int axis) {
    ls_dim dim = p->l->spec->extents_of_axes[axis];
    return ls_dim_is_fixed(dim) ? ls_dim_bound(dim) : -1;
}

static const char *classify(product *p) {
    const ls_spec *spec = p->l->spec;
    const ls_store *s = &spec->stores[p->first];
    const ls_value *operand[2] = {&spec->values[p->v->a], &spec->values[p->v->b]};
    int axis[2] = {-1, -1}, n[2] = {0, 0}, last = 0;
    uint64_t space = 0;
    if (p->v->n_bound != 1) {
        return "several axes are contracted";
    }
    p->k_axis = p->v->bound[0];
    p->k = fixed_extent(p, p->k_axis);
    for (int i = 0; i < s->n_axes; i++) {
        uint64_t bit = UINT64_C(1) << s->axes[i];
        bool of[2] = {operand[0]->axes & bit, operand[1]->axes & bit};
        space |= bit;
        if (of[0] && of[1]) {
            p->batch[p->n_batch++] = s->axes[i];
        } else if (of[0] || of[1]) {
            last = of[1];
            axis[last] = s->axes[i];
            n[last]++;
        } else if (ls_dim_bound(spec->extents_of_axes[s->axes[i]]) > 1) {
            return "the contraction is the same along an axis of its kernel";
        }
    }
    if (n[0] != 1 || n[1] != 1 || p->v->axes & ~space) {
        return "rows or columns are not one axis each";
    }
    for (int i = 0; i < 2; i++) { /* columns are the inner of the two */
        int from = last ? i : 1 - i;
        p->s[i] = (side){.value = from ? p->v->b : p->v->a, .axis = axis[from], .extent = fixed_extent(p, axis[from])};
        p->s[i].arg = spec->values[p->s[i].value].arg;
    }
    return NULL;
}

/* How an operand lies in memory. */
static const char *lie(product *p, side *s) {
    const ls_spec *spec = p->l->spec;
    const ls_value *v = &spec->values[s->value];
    const ls_ix *x = &spec->ix[v->ix];
    int64_t own, k, zeros[LS_SPEC_MAX_AXES] = {0};
    uint64_t known = UINT64_C(1) << s->axis | UINT64_C(1) << p->k_axis;
    bool aligned = true;
    for (int i = 0; i < p->n_batch; i++) {
        int64_t stride;
        known |= UINT64_C(1) << p->batch[i];
        aligned = aligned && ls_ix_affine(spec, v->ix, p->batch[i], &stride) && stride % ALONG == 0;
    }
    if (v->n_preds || v->check != LS_SPEC_NONE || x->axes & ~known || !ls_ix_affine(spec, v->ix, s->axis, &own) ||
        !ls_ix_affine(spec, v->ix, p->k_axis, &k) || ls_ix_eval(spec, v->ix, zeros, NULL, NULL) != 0) {
        return "an operand is not a plain matrix in memory";
    }
    s->by_k = k == 1;
    s->line = s->by_k ? own : k;
    if (!aligned || s->line <= 0 || s->line % ALONG || (!s->by_k && own != 1) || spec->args[s->arg].numel > INT32_MAX ||
        spec->args[s->arg].numel % 2) {
        return "the rows of an operand are not contiguous and aligned";
    }
    return NULL;
}

static int64_t shared_bytes(const product *p) {
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        int lines = p->s[i].by_k ? p->s[i].tile : p->slab, length = p->s[i].by_k ? p->slab : p->s[i].tile;
        bytes += 2 * 2 * (int64_t)lines * (length + GAP);
    }
    return bytes + (int64_t)p->s[0].tile / PART * FRAG * (p->s[1].tile + SPARE) * 4;
}

static const char *choose_tiles(product *p) {
    static const int shapes[][2] = {{128, 256}, {256, 128}, {128, 128}, {64, 128}, {128, 64}, {64, 64}};
    int64_t batch = ls_lower_bound(p->l, p->batch, p->n_batch), best = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int threads = shapes[i][0] / PART * (shapes[i][1] / PART) * 32;
        int64_t tiles = p->s[0].extent / shapes[i][0] * (p->s[1].extent / shapes[i][1]) * batch;
        side before[2] = {p->s[0], p->s[1]};
        p->s[0].tile = shapes[i][0];
        p->s[1].tile = shapes[i][1];
        bool fits = p->s[0].extent % shapes[i][0] == 0 && p->s[1].extent % shapes[i][1] == 0 && threads <= p->l->max_threads &&
                    shared_bytes(p) <= p->l->max_shared;
        if (fits && (best == 0 || best < 128) && tiles > best) { /* the largest tile that keeps a large device busy */
            best = tiles;
            p->threads = threads;
        } else {
            p->s[0] = before[0];
            p->s[1] = before[1];
        }
    }
    return best ? NULL : "rows and columns are not whole tiles";
}

/* ---- whole products ---- */

/* Whether an operand is whole lines, none of which is read past its end for an element that counts, wherever the batch begins;
 * and whether what a last slab reads too much lies past the end of them, where there is 0. */
static bool lines_stay(const product *p, const side *s) {
    const ls_spec *spec = p->l->spec;
    int64_t end = s->by_k ? p->k : s->extent, numel = spec->args[s->arg].numel;
    for (int i = 0; i < p->n_batch; i++) {
        int64_t stride = 0, bound = ls_dim_bound(spec->extents_of_axes[p->batch[i]]);
        (void)ls_ix_affine(spec, spec->values[s->value].ix, p->batch[i], &stride);
        if (stride < 0 || (stride % s->line && stride > s->line)) {
            return false;
        }
        end += stride % s->line ? stride * (bound - 1) : 0;
    }
    bool slabs = p->k % WHOLE_SLAB == 0 || (s->by_k ? s->line : numel / s->line) == p->k;
    return end <= s->line && numel % s->line == 0 && slabs;
}

/* Bytes of shared memory: stages, as many as let a multiprocessor have one large tile or two small ones; later the sums. */
static int64_t whole_bytes(int64_t rows, int64_t columns, int64_t most) {
    int64_t stage = (rows + columns) * WHOLE_SLAB * 2, room = rows * columns > 128 * 128 ? most : most / 2;
    int64_t stages = (room - WHOLE_BARRIERS) / stage, sums = rows * (columns + WHOLE_SPARE) * 4;
    int64_t bytes = (stages < 4 ? stages : 4) * stage;
    return stages < 2 ? INT64_MAX : (bytes > sums ? bytes : sums) + WHOLE_BARRIERS;
}

static int64_t tiles_of(const side *s) {
    return (s->extent + s->tile - 1) / s->tile;
}

/* The tile that takes a large device the least time: turns of its multiprocessors, by the work of a tile, of which small ones do
 * less at a time. */
static bool choose_whole(product *p) {
    static const struct {
        int rows, columns, tenths;
    } shapes[] = {{128, 256, 10}, {256, 128, 10}, {128, 128, 11}, {128, 64, 13}};
    enum { MULTIPROCESSORS = 128 };
    int64_t batch = ls_lower_bound(p->l, p->batch, p->n_batch), best = INT64_MAX;
    side chosen[2];
    bool large = p->s[0].extent >= PART && p->s[1].extent >= PART &&
                 p->s[0].extent * p->s[1].extent >= 2 * PART * PART;
    if (!p->l->caps->products || p->l->max_threads < WHOLE_THREADS || !large || p->s[1].extent % 4 ||
        p->k < 1 || !lines_stay(p, &p->s[0]) || !lines_stay(p, &p->s[1])) {
        return false;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int rows = p->s[0].tile = shapes[i].rows, columns = p->s[1].tile = shapes[i].columns;
        int64_t tiles = tiles_of(&p->s[0]) * tiles_of(&p->s[1]) * batch;
        int64_t time = (tiles + MULTIPROCESSORS - 1) / MULTIPROCESSORS * rows * columns * shapes[i].tenths;
        if (time < best && whole_bytes(rows, columns, p->l->max_shared) <= p->l->max_shared) {
            best = time;
            chosen[0] = p->s[0];
            chosen[1] = p->s[1];
        }
    }
    for (int i = 0; i < 2 && best < INT64_MAX; i++) {
        p->s[i] = chosen[i];
    }
    p->threads = WHOLE_THREADS;
    return best < INT64_MAX;
}

static const char *plan(product *p) {
    const char *why = find(p);
    why = why ? why : has_instruction(p);
    why = why ? why : classify(p);
    for (int i = 0; i < 2 && !why; i++) {
        why = lie(p, &p->s[i]);
    }
    p->whole = !why && choose_whole(p);
    if (p->whole) {
        return NULL;
    }
    p->slab = p->k % 128 ? 32 : 64;
    why = why ? why : p->k <= 0 || p->k % 64 ? "the contracted axis is not a multiple of 64" : NULL;
    if (!why && p->slab == 64 && choose_tiles(p)) {
        p->slab = 32;
    }
    why = why ? why : choose_tiles(p);
    for (int i = 0; i < 2 && !why; i++) {
        side *s = &p->s[i];
        s->length = s->by_k ? p->slab : s->tile;
        s->stride = s->length + GAP;
        s->units = s->tile * p->slab / ALONG;
    }
    return why;
}

/* ---- slabs ---- */

static ls_val i32(product *p, int64_t k) {
    return ls_kb_i32(&p->l->kb, (int32_t)k);
}
static ls_val times(product *p, ls_val a, int64_t k) {
    return ls_kb_mul(&p->l->kb, a, i32(p, k));
}

/* Where the batch of this tile begins, in units of so many elements; LS_VAL_NONE: at 0. */
static ls_val batch_base(product *p, const side *s, int unit) {
    ls_lower *l = p->l;
    ls_val base = LS_VAL_NONE;
    for (int b = 0; b < p->n_batch; b++) {
        int64_t stride = 0;
        (void)ls_ix_affine(l->spec, l->spec->values[s->value].ix, p->batch[b], &stride);
        if (stride) {
            ls_val at = times(p, ls_kb_cast(&l->kb, l->axis[p->batch[b]], LS_I32), stride / unit);
            base = base == LS_VAL_NONE ? at : ls_kb_add(&l->kb, base, at);
        }
    }
    return base;
}

static int lines_of(const product *p, const side *s) {
    return s->by_k ? s->tile : p->slab;
}

/* Line and place along it of a unit, which is number `u` of this thread. */
static void unit_at(product *p, const side *s, int u, ls_val *out_line, ls_val *out_along) {
    ls_kb *kb = &p->l->kb;
    ls_val e = ls_kb_add(kb, p->t, i32(p, (int64_t)u * p->threads)), inner = i32(p, s->length / ALONG);
    *out_line = ls_kb_div(kb, e, inner);
    *out_along = times(p, ls_kb_rem(kb, e, inner), ALONG / 2);
}

/* One unit of a slab, into one of the arrays. */
static void copy(product *p, side *s, ls_val slab, int half, int u) {
    ls_kb *kb = &p->l->kb;
    ls_val line, along, at;
    unit_at(p, s, u, &line, &along);
    ls_val first = s->by_k ? ls_kb_add(kb, s->first, line) : ls_kb_add(kb, times(p, slab, p->slab), line);
    at = ls_kb_add(kb, times(p, first, s->line / 2), along);
    at = ls_kb_add(kb, at,
                   s->by_k ? times(p, slab, p->slab / 2) : times(p, ls_kb_div(kb, s->first, i32(p, s->tile)), s->tile / 2));
    at = s->base == LS_VAL_NONE ? at : ls_kb_add(kb, at, s->base);
    ls_val x = ls_kb_load(kb, s->global, at, LS_VAL_NONE, LS_VAL_NONE, 4);
    ls_kb_store(kb, s->shared[half], ls_kb_add(kb, times(p, line, s->stride / 2), along), x, LS_VAL_NONE);
}

static void copy_slab(product *p, ls_val slab, int half) {
    for (int i = 0; i < 2; i++) {
        for (int u = 0; u < p->s[i].units / p->threads; u++) {
            copy(p, &p->s[i], slab, half, u);
        }
    }
}

/* Fragment `i` of this subgroup's part, at contracted element k of a slab. */
static ls_val fragment(product *p, int which, int half, int i, int k) {
    ls_kb *kb = &p->l->kb;
    side *s = &p->s[which];
    ls_val at = s->by_k ? times(p, p->part[which], s->stride) : p->part[which];
    at = ls_kb_add(kb, at, i32(p, s->by_k ? (int64_t)i * FRAG * s->stride + k : (int64_t)k * s->stride + i * FRAG));
    bool columns = which ? s->by_k : !s->by_k;
    uint32_t flags = LS_KF_FRAG(which ? LS_FRAG_B : LS_FRAG_A, FRAG, FRAG, FRAG) | (columns ? LS_KF_FRAG_COLS : 0);
    return ls_kb_frag_load_as(kb, s->shared[half], p->type, at, i32(p, s->stride), flags);
}

static void add_products(product *p, int half) {
    enum { N = PART / FRAG };
    ls_kb *kb = &p->l->kb;
    for (int k = 0; k < p->slab; k += FRAG) {
        ls_val a[N], b[N];
        for (int i = 0; i < N; i++) {
            a[i] = fragment(p, 0, half, i, k);
        }
        for (int j = 0; j < N; j++) {
            b[j] = fragment(p, 1, half, j, k);
        }
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                ls_kb_set(kb, p->sum[i][j], ls_kb_frag_mma(kb, a[i], b[j], ls_kb_get(kb, p->sum[i][j])));
            }
        }
    }
}

static void sums(product *p) {
    ls_kb *kb = &p->l->kb;
    int64_t slabs = p->k / p->slab;
    copy_slab(p, i32(p, 0), 0);
    ls_kb_barrier(kb);
    ls_val slab = ls_kb_loop(kb, i32(p, 0), i32(p, slabs), i32(p, 2), 0);
    for (int half = 0; half < 2; half++) {
        ls_val next = ls_kb_min(kb, ls_kb_add(kb, slab, i32(p, half + 1)), i32(p, slabs - 1)); /* the last one twice */
        copy_slab(p, next, 1 - half); /* all of it first: fragments are not loaded ahead past a copy */
        add_products(p, half);
        ls_kb_barrier(kb);
    }
    ls_kb_end_loop(kb);
}

/* ---- stores ---- */

/* Four neighbouring columns of a row: all stores at these points. */
static void store_four(product *p, ls_val row, ls_val column, ls_val sums_of) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    ls_val x[4];
    for (int lane = 0; lane < 4; lane++) {
        x[lane] = ls_kb_cast(kb, ls_kb_extract(kb, sums_of, lane), (ls_dtype)p->v->dtype);
    }
    int mark = ls_lower_mark(l);
    ls_lower_bind(l, p->s[0].axis, row, true);
    ls_quad q = {.l = l, .axis = p->s[1].axis, .base = column, .at = LS_VAL_NONE};
    ls_quad_start(&q, p->used);
    if (l->status == LS_OK) {
        ls_quad_store(&q, p->first, p->count, p->id, x);
    }
    ls_lower_undo(l, mark);
}

/* Whether little follows the product, so that stores may be in flight together. */
static bool little_follows(const product *p) {
    int follows = 0;
    for (int32_t i = 0; i < p->l->spec->n_values; i++) {
        follows += p->used[i] && p->l->spec->values[i].op != LS_V_CONST;
    }
    return follows <= 8;
}

/* A row of fragments of every subgroup at a time. */
static void store_tile(product *p) {
    ls_kb *kb = &p->l->kb;
    int width = p->s[1].tile, stride = width + SPARE, lines = p->s[0].tile / PART * FRAG, units = lines * width / 4;
    bool small = little_follows(p);
    int stage = ls_kb_shared(kb, "sums", LS_F32, (int64_t)lines * stride);
    ls_val corner = ls_kb_add(kb, times(p, ls_kb_div(kb, p->part[0], i32(p, PART)), (int64_t)FRAG * stride), p->part[1]);
    for (int i = 0; i < PART / FRAG; i++) {
        if (i) {
            ls_kb_barrier(kb);
        }
        for (int j = 0; j < PART / FRAG; j++) {
            ls_kb_frag_store(kb, stage, ls_kb_add(kb, corner, i32(p, j * FRAG)), ls_kb_get(kb, p->sum[i][j]), i32(p, stride), 0);
        }
        ls_kb_barrier(kb);
        ls_val u = ls_kb_loop(kb, i32(p, 0), i32(p, units / p->threads), i32(p, 1), small ? LS_KF_UNROLL : 0);
        ls_val e = ls_kb_add(kb, times(p, u, p->threads), p->t), inner = i32(p, width / 4);
        ls_val line = ls_kb_div(kb, e, inner), column = times(p, ls_kb_rem(kb, e, inner), 4);
        ls_val x = ls_kb_load(kb, stage, ls_kb_add(kb, times(p, line, stride), column), LS_VAL_NONE, LS_VAL_NONE, 4);
        ls_val row = ls_kb_add(kb, times(p, ls_kb_div(kb, line, i32(p, FRAG)), PART), ls_kb_rem(kb, line, i32(p, FRAG)));
        row = ls_kb_add(kb, ls_kb_add(kb, p->s[0].first, i32(p, i * FRAG)), row);
        store_four(p, row, ls_kb_add(kb, p->s[1].first, column), x);
        ls_kb_end_loop(kb);
    }
}

/* The sums of the tile in shared memory, then stored. */
static void whole_tile(product *p) {
    ls_kb *kb = &p->l->kb;
    int rows = p->s[0].tile, width = p->s[1].tile, units = rows * width / 4 / p->threads,
        together = units % 8 ? 1 : 8;
    int64_t bytes = whole_bytes(rows, width, p->l->max_shared);
    int sums = ls_kb_shared(kb, "sums", LS_F32, bytes / 4);
    ls_kproduct what = {.type = p->type, .k = p->k, .sums = sums, .stride = width + WHOLE_SPARE};
    ls_val first[2];
    for (int i = 0; i < 2; i++) {
        side *s = &p->s[i];
        s->global = ls_lower_words(p->l, s->arg);
        what.side[i].mem = s->global;
        what.side[i].size = s->tile;
        what.side[i].line = s->line;
        what.side[i].by_k = s->by_k;
        first[i] = s->by_k ? times(p, s->first, s->line) : s->first;
        ls_val base = batch_base(p, s, 1);
        first[i] = base == LS_VAL_NONE ? first[i] : ls_kb_add(kb, first[i], base);
    }
    ls_kb_product(kb, &what, first[0], first[1]);
    ls_kb_barrier(kb);
    ls_val u = ls_kb_loop(kb, i32(p, 0), i32(p, units / together), i32(p, 1), 0);
    ls_val v = ls_kb_loop(kb, i32(p, 0), i32(p, together), i32(p, 1), little_follows(p) ? LS_KF_UNROLL : 0);
    ls_val turn = ls_kb_add(kb, times(p, u, together), v),
           inner = i32(p, width / 4); /* of threads along a row; they are whole rows */
    ls_val line = ls_kb_add(kb, ls_kb_div(kb, p->t, inner), times(p, turn, p->threads / (width / 4)));
    ls_val column = times(p, ls_kb_rem(kb, p->t, inner), 4);
    ls_val at = ls_kb_add(kb, times(p, line, what.stride), column);
    ls_val x = ls_kb_load(kb, sums, at, LS_VAL_NONE, LS_VAL_NONE, 4),
           row = ls_kb_add(kb, p->s[0].first, line);
    column = ls_kb_add(kb, p->s[1].first, column);
    bool within[2] = {p->s[0].extent % rows == 0, p->s[1].extent % width == 0};
    for (int i = 0; i < 2; i++) { /* the last tiles may be part of one */
        if (!within[i]) {
            ls_kb_if(kb, ls_kb_lt(kb, i ? column : row, i32(p, p->s[i].extent)));
        }
    }
    store_four(p, row, column, x);
    for (int i = 0; i < 2; i++) {
        if (!within[i]) {
            ls_kb_end_if(kb);
        }
    }
    ls_kb_end_loop(kb);
    ls_kb_end_loop(kb);
}

/* ---- the kernel ---- */

/* Tiles in an order that reads the same rows and columns at about the same time: several rows of tiles together. */
static void place_tile(product *p, ls_val tile) {
    ls_kb *kb = &p->l->kb;
    int64_t rows = tiles_of(&p->s[0]), columns = tiles_of(&p->s[1]);
    int64_t together = p->whole ? 16 : 8;
    while (rows % together) {
        together /= 2;
    }
    ls_val band = i32(p, together * columns), within = ls_kb_rem(kb, tile, band);
    ls_val row = ls_kb_add(kb, times(p, ls_kb_div(kb, tile, band), together), ls_kb_rem(kb, within, i32(p, together)));
    p->s[0].first = times(p, row, p->s[0].tile);
    p->s[1].first = times(p, ls_kb_div(kb, within, i32(p, together)), p->s[1].tile);
}

static void declare(product *p) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    static const char *const names[2][2] = {{"rows0", "rows1"}, {"columns0", "columns1"}};
    ls_val zero = ls_kb_frag_fill(kb, ls_kb_f32(kb, 0), LS_KF_FRAG(LS_FRAG_C, FRAG, FRAG, FRAG));
    for (int i = 0; i < 2; i++) {
        side *s = &p->s[i];
        s->global = ls_lower_words(l, s->arg);
        for (int half = 0; half < 2; half++) {
            s->shared[half] = ls_kb_shared(kb, names[i][half], LS_U32, (int64_t)lines_of(p, s) * s->stride / 2);
        }
        s->base = batch_base(p, s, 2);
    }
    for (int i = 0; i < PART / FRAG; i++) {
        for (int j = 0; j < PART / FRAG; j++) {
            p->sum[i][j] = ls_kb_var(kb, zero);
        }
    }
}

static void emit_matrix(product *p) {
    ls_lower *l = p->l;
    ls_kb *kb = &l->kb;
    int64_t tiles = tiles_of(&p->s[0]) * tiles_of(&p->s[1]);
    ls_lower_begin(l, "matrix", p->whole ? LS_COVER_PRODUCT : LS_COVER_MATRIX);
    ls_kb_workgroup(kb, p->threads, 1, 1);
    ls_val group = ls_lower_frame(l, tiles * ls_lower_bound(l, p->batch, p->n_batch), 1);
    ls_val count = ls_kb_const_int(kb, ls_lower_type(l, group), tiles);
    place_tile(p, ls_kb_cast(kb, ls_kb_rem(kb, group, count), LS_I32));
    ls_lower_point(l, ls_kb_div(kb, group, count), p->batch, p->n_batch);
    p->t = ls_kb_local_id(kb, 0);
    if (p->whole) {
        whole_tile(p);
        ls_lower_end(l);
        return;
    }
    ls_val subgroup = ls_kb_min(kb, ls_kb_subgroup_id(kb), i32(p, p->threads / 32 - 1)); /* as the verifier cannot know */
    ls_val across = i32(p, p->s[1].tile / PART);
    p->part[0] = times(p, ls_kb_div(kb, subgroup, across), PART);
    p->part[1] = times(p, ls_kb_rem(kb, subgroup, across), PART);
    declare(p);
    sums(p);
    store_tile(p);
    ls_lower_end(l);
}

const char *ls_lower_matrix(ls_lower *l, int32_t first, int32_t count, bool dry) {
    product *p = ls_arena_alloc(l->arena, sizeof *p);
    if (!p) {
        l->status = LS_FAIL_MEMORY(l->err, "a matrix product");
        return "memory ran out";
    }
    *p = (product){.l = l, .first = first, .count = count};
    const char *why = plan(p);
    if (!why && !dry) {
        emit_matrix(p);
    }
    return why;
}
