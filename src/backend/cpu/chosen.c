/* Operands that have one element of each window of two by two, the others zero: the gradient of a max-pooling, as it is passed on to the
 * convolution before it. A plan leaves them to the kernels that read them (LS_PLAN_SPARSE), whose specs say
 *   where(position in the window == places[window], cells[window], 0).
 *
 * Here such a value of a contraction becomes one load from a dense argument, so that all that is planned for contractions is planned as if
 * it were in memory. Where lists of what is not zero are made (sparse.c), they are made from the windows, a fourth of the elements; else it
 * is written. In a sum over whole windows each has its element just once: places are left out of the sum. */
#include "backend/cpu/chosen.h"
#include "backend/cpu/sparse.h"
#include <string.h>

enum {
    SIDE = 2, /* of a window */
    MOST_IX = 6 * (4 * LS_ACCESS_TERMS + 1) + 16, /* index expressions that are added */
    LINES = 1024, /* that a task writes */
    MOST_PREDS = 4
};

/* One dimension: windows and places in them are axes of their own, or quotient and remainder of an index. */
typedef struct chosen_dim {
    int32_t whole; /* the index, or LS_SPEC_NONE: */
    int cell, place;
    int64_t step; /* from one window to the next, in what holds one element of each */
} chosen_dim;

typedef struct finder {
    ls_spec *spec;
    int32_t value, user; /* the operand; the one value that reads it, or LS_SPEC_NONE */
    const ls_value *cells, *places;
    ls_ix_sum sum; /* where both lie */
    chosen_dim dim[2]; /* lines, and along them */
} finder;

bool ls_chosen_may(void) {
    return true;
}

/* ---- finding ---- */
static const ls_value *of_map(const ls_spec *spec, int32_t value, ls_op map) {
    const ls_value *v = value == LS_SPEC_NONE ? NULL : &spec->values[value];
    return v && v->op == LS_V_MAP && v->map == map ? v : NULL;
}

static bool is_const(const ls_spec *spec, int32_t value, uint64_t bits) {
    return spec->values[value].op == LS_V_CONST && spec->values[value].bits == bits;
}

static bool is_load(const ls_value *v, ls_dtype dtype) {
    return v->op == LS_V_LOAD && v->dtype == dtype && v->check == LS_SPEC_NONE;
}

static int64_t const_of(const ls_spec *spec, int32_t ix) { /* or 0 */
    return spec->ix[ix].op == LS_IX_CONST ? spec->ix[ix].k : 0;
}

static bool is_split(const chosen_dim *d) {
    return d->whole == LS_SPEC_NONE;
}

/* The remainder of an index whose quotient is in the sum. */
static bool take_quotient(const finder *f, const ls_ix *place, chosen_dim *d) {
    const ls_spec *spec = f->spec;
    d->whole = place->a;
    for (int i = 0; i < f->sum.n_rest; i++) {
        const ls_ix *x = &spec->ix[f->sum.rest[i]];
        if (x->op == LS_IX_DIV && x->a == place->a && const_of(spec, x->b) == SIDE) {
            d->step = f->sum.factor[i];
        }
    }
    return const_of(spec, place->b) == SIDE && d->step > 0;
}

static bool take_place(const finder *f, int32_t value, chosen_dim *d) {
    const ls_spec *spec = f->spec;
    const ls_value *v = &spec->values[value];
    if (v->op != LS_V_INDEX) {
        return false;
    }
    const ls_ix *ix = &spec->ix[v->ix];
    *d = (chosen_dim){.whole = LS_SPEC_NONE, .place = ix->a};
    return ix->op == LS_IX_MOD ? take_quotient(f, ix, d) : ix->op == LS_IX_AXIS;
}

/* The axis of windows beside one of places: the one of the least step from `least` on. */
static bool take_cells(const finder *f, chosen_dim *d, int64_t least) {
    ls_dim side = f->spec->extents_of_axes[is_split(d) ? d->place : 0];
    for (int i = 0; i < f->sum.n_terms && is_split(d); i++) {
        int64_t step = f->sum.stride[i];
        if (step >= least && (d->step == 0 || step < d->step)) {
            d->cell = f->sum.axis[i];
            d->step = step;
        }
    }
    return d->step > 0 && (!is_split(d) || (ls_dim_is_fixed(side) && side.offset == SIDE));
}

/* Whether an axis is one of windows. */
static bool of_cells(const finder *f, int axis) {
    return (is_split(&f->dim[0]) && axis == f->dim[0].cell) || (is_split(&f->dim[1]) && axis == f->dim[1].cell);
}

/* Whether all else in the sum is about whole lines. */
static bool of_lines(const finder *f) {
    int64_t width = f->dim[0].step;
    bool ok = f->dim[1].step == 1 && width > 1 && f->sum.constant % width == 0 && f->spec->args[f->cells->arg].numel % width == 0 &&
              f->sum.n_rest == !is_split(&f->dim[0]) + !is_split(&f->dim[1]);
    for (int i = 0; i < f->sum.n_terms; i++) {
        ok = ok && (of_cells(f, f->sum.axis[i]) || f->sum.stride[i] % width == 0);
    }
    return ok;
}

static bool is_chosen(finder *f, int32_t value) {
    const ls_spec *spec = f->spec;
    const ls_value *v = of_map(spec, value, LS_OP_WHERE), *eq = v ? of_map(spec, v->a, LS_OP_EQ) : NULL;
    const ls_value *add = eq ? of_map(spec, eq->a, LS_OP_ADD) : NULL, *mul = add ? of_map(spec, add->a, LS_OP_MUL) : NULL;
    if (!mul || v->dtype != LS_F32 || !is_const(spec, v->c, 0) || !is_const(spec, mul->b, SIDE)) {
        return false;
    }
    f->value = value;
    f->cells = &spec->values[v->b];
    f->places = &spec->values[eq->b];
    if (!is_load(f->cells, LS_F32) || !is_load(f->places, LS_I32) || f->cells->ix != f->places->ix) {
        return false;
    }
    ls_ix_sum_of(spec, f->cells->ix, &f->sum);
    return !f->sum.failed && take_place(f, mul->a, &f->dim[0]) && take_place(f, add->b, &f->dim[1]) && take_cells(f, &f->dim[1], 1) &&
           take_cells(f, &f->dim[0], 2) && of_lines(f);
}

/* The one value that reads another one. */
static int32_t user_of(const ls_spec *spec, int32_t value) {
    int32_t user = LS_SPEC_NONE;
    int n = 0;
    for (int32_t i = value + 1; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        if (v->a == value || v->b == value || v->c == value) {
            user = i;
            n++;
        }
    }
    for (int i = 0; i < spec->n_stores; i++) {
        n += spec->stores[i].value == value;
    }
    return n == 1 ? user : LS_SPEC_NONE;
}

static bool find(finder *f) {
    const ls_spec *spec = f->spec;
    for (int32_t i = 0; i < spec->n_values; i++) {
        if (is_chosen(f, i)) {
            f->user = user_of(spec, i);
            return true;
        }
    }
    return false;
}

static bool contracts(const ls_spec *spec) {
    int bound = 0, contractions = 0;
    for (int32_t i = 0; i < spec->n_values; i++) {
        bound += spec->values[i].n_bound > 0;
        contractions += spec->values[i].op == LS_V_CONTRACT;
    }
    return bound == 1 && contractions == 1;
}

/* ---- new index expressions ---- */
static int32_t add_ix(ls_spec *spec, ls_ix ix) {
    spec->ix[spec->n_ix] = ix;
    return spec->n_ix++;
}

static int32_t const_ix(ls_spec *spec, int64_t k) {
    return add_ix(spec, (ls_ix){.op = LS_IX_CONST, .k = k, .lo = k, .hi = k});
}

static int32_t sum_ix(ls_spec *spec, int32_t a, int32_t b) {
    const ls_ix *x = &spec->ix[a], *y = &spec->ix[b];
    return add_ix(spec, (ls_ix){.op = LS_IX_ADD, .a = a, .b = b, .lo = x->lo + y->lo, .hi = x->hi + y->hi, .axes = x->axes | y->axes});
}

static int32_t times_ix(ls_spec *spec, int32_t a, int64_t k) {
    const ls_ix *x = &spec->ix[a];
    int64_t lo = k < 0 ? k * x->hi : k * x->lo, hi = k < 0 ? k * x->lo : k * x->hi;
    int32_t b = const_ix(spec, k);
    return add_ix(spec, (ls_ix){.op = LS_IX_MUL, .a = a, .b = b, .lo = lo, .hi = hi, .axes = spec->ix[a].axes});
}

static int32_t axis_ix(ls_spec *spec, int axis) {
    return add_ix(spec,
                  (ls_ix){.op = LS_IX_AXIS, .a = axis, .hi = ls_dim_bound(spec->extents_of_axes[axis]) - 1, .axes = UINT64_C(1) << axis});
}

static int32_t affine_ix(ls_spec *spec, const ls_ix_sum *sum) {
    int32_t ix = const_ix(spec, sum->constant);
    for (int i = 0; i < sum->n_terms; i++) {
        ix = sum->stride[i] ? sum_ix(spec, ix, times_ix(spec, axis_ix(spec, sum->axis[i]), sum->stride[i])) : ix;
    }
    return ix;
}

/* ---- rewriting ---- */
static bool binds(const ls_value *v, int axis) {
    return v->n_bound && memchr(v->bound, axis, v->n_bound);
}

static void unbind(ls_value *v, int axis) {
    int n = 0;
    for (int i = 0; i < v->n_bound; i++) {
        v->bound[n] = v->bound[i];
        n += v->bound[i] != axis;
    }
    v->n_bound = (uint8_t)n;
}

/* The elements of a window follow each other in an affine index, too: then the axis of windows is that of elements. */
static bool joins(const finder *f, int32_t ix, ls_ix_sum *out) {
    ls_ix_sum_of(f->spec, ix, out);
    bool ok = !out->failed && !out->n_rest;
    for (int d = 0; d < 2; d++) {
        int64_t step = ls_ix_sum_stride(out, f->dim[d].place);
        ok = ok && ls_ix_sum_stride(out, f->dim[d].cell) == SIDE * step;
        for (int i = 0; i < out->n_terms; i++) {
            out->stride[i] = out->axis[i] == f->dim[d].cell ? step : out->axis[i] == f->dim[d].place ? 0 : out->stride[i];
        }
    }
    return ok;
}

/* Axes of windows and places as one, where a contraction of this and of another load binds them. */
static bool join_axes(finder *f) {
    ls_spec *spec = f->spec;
    ls_value *user = f->user == LS_SPEC_NONE ? NULL : &spec->values[f->user];
    ls_ix_sum at, preds[MOST_PREDS];
    if (!user || user->op != LS_V_CONTRACT || !is_split(&f->dim[0]) || !is_split(&f->dim[1])) {
        return false;
    }
    ls_value *other = &spec->values[user->a == f->value ? user->b : user->a], *guard = NULL;
    if (other->op == LS_V_GUARD && other->b == LS_SPEC_NONE) {
        guard = other;
        other = &spec->values[guard->a];
    }
    const ls_value *limited = guard ? guard : other;
    bool ok = other->op == LS_V_LOAD && other->check == LS_SPEC_NONE && joins(f, other->ix, &at) && limited->n_preds <= MOST_PREDS &&
              (!guard || other->n_preds == 0 || other->first_pred == guard->first_pred);
    for (int i = 0; ok && i < limited->n_preds; i++) {
        ok = joins(f, spec->preds[limited->first_pred + i].ix, &preds[i]);
    }
    for (int d = 0; d < 2; d++) {
        ok = ok && binds(user, f->dim[d].cell) && binds(user, f->dim[d].place) && ls_dim_is_fixed(spec->extents_of_axes[f->dim[d].cell]);
    }
    if (!ok) {
        return false;
    }
    for (int d = 0; d < 2; d++) {
        unbind(user, f->dim[d].place);
        spec->extents_of_axes[f->dim[d].cell] = ls_dim_fixed(SIDE * spec->extents_of_axes[f->dim[d].cell].offset);
        for (int32_t i = 0; i < spec->n_values; i++) {
            spec->values[i].axes &= ~(UINT64_C(1) << f->dim[d].place);
        }
    }
    other->ix = affine_ix(spec, &at);
    for (int i = 0; i < limited->n_preds; i++) {
        spec->preds[limited->first_pred + i].ix = affine_ix(spec, &preds[i]);
    }
    return true;
}

/* The index of an element along a dimension. */
static int32_t element_ix(const finder *f, const chosen_dim *d, bool joined) {
    if (!is_split(d)) {
        return d->whole;
    }
    int32_t cell = axis_ix(f->spec, d->cell);
    return joined ? cell : sum_ix(f->spec, times_ix(f->spec, cell, SIDE), axis_ix(f->spec, d->place));
}

static void replace_operand(finder *f, ls_chosen *chosen) {
    ls_spec *spec = f->spec;
    ls_value *v = &spec->values[f->value], load = *f->cells;
    ls_ix_sum lines = f->sum;
    lines.n_terms = lines.n_rest = 0;
    lines.constant *= SIDE * SIDE;
    for (int i = 0; i < f->sum.n_terms; i++) {
        if (!of_cells(f, f->sum.axis[i])) {
            lines.axis[lines.n_terms] = f->sum.axis[i];
            lines.stride[lines.n_terms++] = SIDE * SIDE * f->sum.stride[i];
        }
    }
    bool joined = join_axes(f);
    int32_t line = times_ix(spec, element_ix(f, &f->dim[0], joined), SIDE * f->dim[0].step);
    *chosen = (ls_chosen){.dense = spec->n_args, .cells = f->cells->arg, .places = f->places->arg, .width = f->dim[0].step};
    load.ix = sum_ix(spec, affine_ix(spec, &lines), sum_ix(spec, line, element_ix(f, &f->dim[1], joined)));
    load.arg = spec->n_args;
    load.axes = v->axes;
    *v = load;
    spec->args[spec->n_args++] = (ls_spec_arg){.dtype = LS_F32, .numel = SIDE * SIDE * spec->args[chosen->cells].numel};
}

/* A sum over windows: what each has, where its place is one of the window's. */
static void replace_sum(finder *f) {
    ls_spec *spec = f->spec;
    ls_value *sum = &spec->values[f->user], *v = &spec->values[f->value], *eq = &spec->values[v->a], *places = &spec->values[eq->b];
    ls_value *mul = &spec->values[spec->values[eq->a].a], *side = &spec->values[mul->b];
    for (int d = 0; d < 2; d++) {
        unbind(sum, f->dim[d].place);
    }
    places->dtype = LS_U32; /* as which a negative one is no place either */
    side->dtype = LS_U32;
    side->bits = SIDE * SIDE;
    eq->map = LS_OP_LT;
    eq->a = eq->b;
    eq->b = mul->b;
    eq->axes = places->axes;
    v->axes = f->cells->axes | places->axes;
}

static bool is_sum(const finder *f) {
    const ls_value *v = f->user == LS_SPEC_NONE ? NULL : &f->spec->values[f->user];
    const ls_value *chosen = &f->spec->values[f->value], *eq = &f->spec->values[chosen->a], *add = &f->spec->values[eq->a];
    bool own = user_of(f->spec, chosen->a) == f->value && user_of(f->spec, eq->b) == chosen->a && user_of(f->spec, eq->a) == chosen->a &&
               user_of(f->spec, add->a) == eq->a && user_of(f->spec, f->spec->values[add->a].b) == add->a;
    return own && v && v->op == LS_V_REDUCE && v->map == LS_OP_SUM && is_split(&f->dim[0]) && is_split(&f->dim[1]) &&
           binds(v, f->dim[0].place) && binds(v, f->dim[1].place);
}

ls_status ls_chosen_plan(ls_kernel_binary *binary, ls_error *err) {
    ls_spec *spec = &binary->spec;
    finder f = {.spec = spec};
    if (spec->math == LS_LOCKED || !find(&f)) {
        return LS_OK;
    }
    if (is_sum(&f)) {
        replace_sum(&f);
        return LS_OK;
    }
    if (!contracts(spec)) {
        return LS_OK;
    }
    ls_ix *ix = LS_ARENA_ARRAY(&binary->arena, ls_ix, spec->n_ix + MOST_IX);
    ls_spec_arg *args = LS_ARENA_ARRAY(&binary->arena, ls_spec_arg, spec->n_args + 1);
    ls_chosen *chosen = LS_ARENA_NEW(&binary->arena, ls_chosen);
    if (!ix || !args || !chosen) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    memcpy(ix, spec->ix, sizeof *ix * (size_t)spec->n_ix);
    memcpy(args, spec->args, sizeof *args * (size_t)spec->n_args);
    spec->ix = ix;
    spec->args = args;
    replace_operand(&f, chosen);
    binary->chosen = chosen;
    return LS_OK;
}

/* ---- writing ---- */
static int64_t lines_of(const ls_kernel_run *kernel) {
    return kernel->binary->spec.args[kernel->binary->chosen->cells].numel / kernel->binary->chosen->width;
}

static void write_task(void *ctx, long task, int worker) {
    const ls_kernel_run *kernel = ctx;
    const ls_chosen *c = kernel->binary->chosen;
    int64_t width = c->width, all = lines_of(kernel), first = (int64_t)task * LINES, end = first + LINES < all ? first + LINES : all;
    const float *cells = (const float *)(const void *)kernel->buffers[c->cells] + first * width;
    const uint32_t *places = (const uint32_t *)(const void *)kernel->buffers[c->places] + first * width;
    float *to = (float *)(void *)kernel->buffers[c->dense] + SIDE * SIDE * first * width;
    (void)worker;
    for (int64_t line = first; line < end; line++, cells += width, places += width, to += SIDE * SIDE * width) {
        for (int64_t i = 0; i < width; i++) {
            for (int64_t place = 0; place < SIDE * SIDE; place++) {
                to[place / SIDE * SIDE * width + SIDE * i + place % SIDE] = places[i] == place ? cells[i] : 0;
            }
        }
    }
}

void ls_chosen_write(ls_kernel_run *kernel) {
    ls_sparse_tasks(kernel->binary->device, (lines_of(kernel) + LINES - 1) / LINES, write_task, kernel);
}
