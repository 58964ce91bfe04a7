/* Runs the list of a band's rows (rows.c). Meanwhile the lines of the next group are fetched, some at each pass over a row, and a large result
 * goes past the caches, line by line as it is made: memory is not waited for in one phase and idle in the next. */
#include "backend/cpu/rows_list.h"
#include <string.h>

#define ONCE __attribute__((noinline)) /* clang would have it in several places */

static char *at_row(const ls_row_list *l, int16_t i, int64_t r) {
    return i < 0 ? NULL : l->places[i].at + r * l->places[i].row;
}

/* In a stream, the row as far behind row r as a group. */
static inline uintptr_t row_ahead(const ls_row_list *l, int stream, int64_t r) {
    const ls_row_place *p = &l->places[l->streams[stream]];
    return (uintptr_t)p->at + (uintptr_t)((r + l->ahead) * p->row);
}

/* A step's share of its lines. */
LS_FETCHING void fetch(const ls_row_list *l, const ls_row_line *s, int64_t r) {
    for (int i = 0; i < l->n_streams; i++) {
        const uintptr_t at = row_ahead(l, i, r);
        for (int64_t k = s->fetch; k < s->fetch_end; k += LS_ROWS_LINE) {
            ls_fetch_line(at + (uintptr_t)k, l->second);
        }
    }
}

/* Where a chain's number k of row 0 is (-1: it is 0); of the next row `step` further. */
static const float *numbers_of(const ls_row_list *l, const ls_row_line *s, int k, int *step) {
    static const float zero = 0;
    *step = k >= 0 && (s->f->by_row >> k & 1);
    return k >= 0 ? (const float *)(const void *)l->places[s->scalars[k]].at : &zero;
}

/* The chain's numbers and places of row r, `skip` lanes behind its first. */
static ONCE void take_row(const ls_row_list *l, ls_row_line *s, int64_t r, int64_t skip) {
    const ls_fused *f = s->f;
    for (int k = 0; k < f->n_scalars; k++) {
        int step;
        const float *numbers = numbers_of(l, s, k, &step);
        s->numbers[k] = numbers[step * r];
    }
    for (int k = 0; k < f->n_operands; k++) {
        s->row.at[k] = f->slots >> k & 1 ? NULL : (const float *)(const void *)at_row(l, s->operands[k], r) + skip;
    }
}

#define EACH_ROW(expression)                                                                                 \
    for (int64_t r = 0; r < n; r++) {                                                                        \
        y[r] = (expression);                                                                                 \
    }                                                                                                        \
    break;

/* Of n rows from `first` on, which is 0 where it is a function. */
static void run_column(const ls_row_list *l, ls_row_line *s, int64_t first, int64_t n) {
    const ls_instr *in = s->in;
    char *dst = at_row(l, s->dst, 0), *a = at_row(l, s->a, 0), *b = at_row(l, s->b, 0);
    const float *u = (const float *)(const void *)a + first, *v = b ? (const float *)(const void *)b + first : NULL;
    float *y = (float *)(void *)dst + first;
    switch (s->op) {
    case LS_COLUMN_ADD:
        EACH_ROW(u[r] + v[r])
    case LS_COLUMN_SUB:
        EACH_ROW(u[r] - v[r])
    case LS_COLUMN_MUL:
        EACH_ROW(u[r] * v[r])
    case LS_COLUMN_DIV:
        EACH_ROW(u[r] / v[r])
    case LS_COLUMN_SQRT:
        EACH_ROW(__builtin_sqrtf(u[r]))
    case LS_COLUMN_STORE:
        EACH_ROW(u[r] == u[r] ? u[r] : l->nan)
    case LS_COLUMN_FN:
        if (in->op == LS_TILE_OP_FUSED) {
            take_row(l, s, 0, 0);
            l->isa->chain(&s->row, y, s->row.at[0], n);
        } else if (in->op == LS_TILE_OP_FN || in->op == LS_TILE_OP_DIVIDE) {
            in->fn(dst, a, b, at_row(l, s->c, 0), n);
        } else if (in->cast) {
            in->cast(dst, a, n);
        } else {
            memcpy(dst, a, (size_t)n << in->log2);
        }
    }
}

/* Folds row r in the contract's order: what ls_fold_by_rows does to it. `within`: whether its exponentials may be divided beside others. */
static float fold_row(ls_row_list *l, ls_row_line *s, int64_t r, float *partials, bool *within) {
    const ls_tile_isa *isa = l->isa;
    const ls_stream *how = &s->stream;
    const int64_t most = how->computes || (how->fn && !(how->exps && how->store)) ? LS_TILE : LS_TILE_BLOCK; /* a register's lanes */
    int64_t at = 0, n = 0;
    take_row(l, s, r, 0);
    do {
        n = l->inner - at < most ? l->inner - at : most;
        float *values = (float *)(void *)at_row(l, s->a, r);
        values = how->store ? values + at : values;
        const float *x = s->row.at[0] + at;
        if (how->computes) {
            take_row(l, s, r, at);
            isa->chain(&s->row, s->values, s->row.at[0], n);
            x = s->values;
        }
        if (how->exps) {
            l->beside.fetch = l->with == s && l->n_streams == 1 ? row_ahead(l, 0, r) + (uintptr_t)at * sizeof *x : (uintptr_t)values;
            *within = how->exps(partials, values, x, s->f->n_scalars ? s->numbers[0] : 0, n, at == 0, &l->beside) && *within;
        } else {
            if (how->fn) {
                how->fn->fn(values, x, NULL, NULL, n);
                x = values;
            }
            isa->fold_f32[s->which](partials, x, n, at == 0, false);
        }
        at += n;
    } while (at < l->inner);
    isa->halve_f32[s->which](partials);
    return *partials;
}

static void run_fold(ls_row_list *l, ls_row_line *s, int64_t rows, float *partials) {
    float *results = (float *)(void *)l->places[s->dst].at;
    int step;
    const float *minus = numbers_of(l, s, s->f->n_scalars ? 0 : -1, &step);
    bool within = true;
    for (int64_t r = 0; r < rows; r++) {
        fetch(l, s, r);
        if (s->stream.whole) {
            s->stream.whole(results + r, (const float *)(const void *)at_row(l, s->operands[0], r), minus[step * r], l->inner, 1, 0);
        } else {
            results[r] = fold_row(l, s, r, partials, &within);
        }
    }
}

static void run_chain(const ls_row_list *l, ls_row_line *s, int64_t rows) {
    int step, by;
    const ls_chain_step *last = s->divides ? &s->f->steps[s->f->n_steps - 1] : NULL;
    const float *minus = numbers_of(l, s, last && s->f->n_steps == 2 ? s->f->steps->at : -1, &step);
    const float *divisors = numbers_of(l, s, last ? last->at : -1, &by);
    for (int64_t r = 0; r < rows; r++) {
        float *dst = (float *)(void *)at_row(l, s->dst, r);
        fetch(l, s, r);
        if (last) {
            l->isa->divide_f32(dst, (const float *)(const void *)at_row(l, s->operands[0], r), minus[step * r], divisors[by * r], l->inner,
                               last->op == LS_CHAIN_DIV_NEAR, s->row.middle ? LS_DST_FAR : LS_DST_NEAR);
        } else {
            take_row(l, s, r, 0);
            l->isa->chain(&s->row, dst, s->row.at[0], l->inner);
        }
    }
}

/* The division of the row before, where no exponentials come beside it. */
static ONCE void finish_beside(ls_row_list *l) {
    ls_tile_beside *b = &l->beside;
    if (b->x) {
        l->isa->divide_f32(b->dst, b->x, 0, b->divisor, l->inner, b->near, b->far ? LS_DST_FAR : LS_DST_NEAR);
    }
    b->x = NULL;
}

/* The steps from the last fold on, row by row. */
static void run_beside(ls_row_list *l, int64_t rows, float *partials) {
    ls_row_line *with = l->with, *last = l->steps + l->n_steps - 1;
    const ls_fused *f = last->f;
    ls_tile_beside *b = &l->beside;
    int by;
    const float *divisors = numbers_of(l, last, f->steps[f->n_steps - 1].at, &by);
    for (int64_t r = 0; r < rows; r++) {
        bool within = true;
        fetch(l, with, r);
        fetch(l, last, r);
        const float sum = fold_row(l, with, r, partials, &within);
        ((float *)(void *)l->places[with->dst].at)[r] = sum;
        for (ls_row_line *s = with + 1; s < last; s++) {
            run_column(l, s, r, 1);
        }
        bool no_nan = within && sum - sum == 0; /* among the quotients */
        bool usable = l->isa->beside_f32(b, divisors[by * r]) && no_nan;
        b->x = (const float *)(const void *)at_row(l, last->operands[0], r);
        b->dst = (float *)(void *)at_row(l, last->dst, r);
        b->far = last->row.middle != NULL;
        if (!usable) {
            finish_beside(l);
        }
    }
}

/* The row before, whose sum is made, is next to be divided. */
static ONCE void divide_next(ls_row_list *l, float sum) {
    ls_tile_beside *b = &l->beside;
    b->x = l->kept[(l->turn - 1) % LS_ROWS_KEPT];
    b->dst = (float *)(void *)l->dst;
    b->far = l->steps[l->n_steps - 1].row.middle != NULL;
    if (!l->isa->beside_f32(b, sum) || !l->within || sum - sum != 0) { /* a quotient may be NaN */
        finish_beside(l);
    }
}

static float *sums_of(float *partials, int64_t turn) {
    return partials + turn % 2 * LS_TILE_PARTIALS;
}

static ONCE float halve(const ls_row_list *l, float *partials) {
    l->isa->halve_f32[l->with->which](partials);
    return *partials;
}

/* What a softmax ends with, or all of it, row by row. The sum of a row is made when the next one's exponentials are under way, its
 * quotients beside those of the row after: else computing would wait for the chain of operations from the last exponential to the first
 * quotient. The largest number of a row is found beside the exponentials of the one before. */
static void run_softmax(ls_row_list *l, int64_t rows, float *partials, bool last) {
    ls_row_line *with = l->with;
    for (int64_t r = 0; r < rows; r++, l->turn++) {
        float *values = l->kept[l->turn % LS_ROWS_KEPT], sum = l->waits ? halve(l, sums_of(partials, l->turn - 1)) : 0;
        fetch(l, with, r);
        take_row(l, with, r, 0);
        l->beside.fetch = l->n_streams == 1 ? row_ahead(l, 0, r) : (uintptr_t)values;
        float minus = with->f->n_scalars ? with->numbers[0] : 0;
        const float *x = with->row.at[0];
        if (l->peaks) {
            if (l->turn == 0) {
                l->steps->stream.whole(&l->peak, x, 0, l->inner, 1, 0);
            }
            minus = l->peak;
            l->beside.next = last && r + 1 == rows ? NULL : (const float *)(const void *)at_row(l, with->operands[0], r + 1);
            l->beside.highest = &l->peak;
        }
        const bool within = with->stream.exps(sums_of(partials, l->turn), values, x, minus, l->inner, true, &l->beside);
        if (l->waits) {
            divide_next(l, sum);
        }
        l->waits = true;
        l->within = within;
        l->dst = at_row(l, l->steps[l->n_steps - 1].dst, r);
    }
}

static void finish_softmax(ls_row_list *l, float *partials) {
    finish_beside(l);
    if (l->waits) {
        divide_next(l, halve(l, sums_of(partials, l->turn - 1)));
        finish_beside(l);
    }
}

static void next_group(ls_row_list *l, int64_t rows) {
    for (ls_row_place *p = l->places, *end = p + l->n_places; p < end; p++) {
        p->at += p->moves ? rows * p->row : 0;
    }
}

/* By their squares: where those are beyond all numbers it only takes longer. */
static bool are_finite(const ls_tile_isa *isa, const float *x, int64_t n) {
    float squares = 0;
    if (x) {
        isa->rows_squares_f32(&squares, x, 0, n, 1, 0);
    }
    return squares - squares == 0;
}

static void run_norm(ls_row_list *l, int64_t n) {
    enum { FEW = 4 }; /* rows that are worth a look at what all of them are multiplied by */
    ls_tile_row_norm *norm = &l->norm;
    const bool prepares = l->steps->kind == LS_ROW_CHAIN;
    norm->finite = norm->near && n >= FEW && are_finite(l->isa, norm->times, norm->n) && are_finite(l->isa, norm->plus, norm->n);
    for (int64_t done = 0, rows; done < n; done += rows) {
        rows = prepares && n - done > l->ahead ? l->ahead : n - done;
        if (prepares) {
            run_chain(l, l->steps, rows);
        }
        l->isa->row_norms_f32(norm, rows);
        norm->dst += rows * norm->dst_row;
        next_group(l, rows);
    }
}

size_t ls_rows_bytes(void) {
    return sizeof(ls_row_list) + 2 * LS_TILE_PARTIALS * sizeof(float) + 2 * LS_ALIGN;
}

bool ls_rows_run(ls_kernel_run *kernel, char *scratch, int64_t first, int64_t n) {
    float *partials = (float *)(((uintptr_t)(scratch + kernel->binary->band.list) + LS_ALIGN - 1) & ~(uintptr_t)(LS_ALIGN - 1));
    ls_row_list *l = (ls_row_list *)(void *)(partials + 2 * LS_TILE_PARTIALS);
    const int64_t group = kernel->binary->band.block;
    ls_band_place(kernel, scratch, first);
    if (!ls_rows_list(l, kernel, first)) {
        return false;
    }
    if (l->norm.x) {
        run_norm(l, n);
        return true;
    }
    for (int64_t done = 0, rows; done < n; done += rows) {
        rows = n - done < group || l->peaks ? n - done : group; /* a softmax of one pass needs no groups */
        for (ls_row_line *s = l->peaks ? l->with : l->steps, *end = l->divides ? l->with : s + l->n_steps; s < end; s++) {
            if (s->kind == LS_ROW_COLUMN) {
                run_column(l, s, 0, rows);
            } else if (s->kind == LS_ROW_FOLD) {
                run_fold(l, s, rows, partials);
            } else {
                run_chain(l, s, rows);
            }
        }
        if (l->defers) {
            run_softmax(l, rows, partials, done + rows == n);
        } else if (l->divides) {
            run_beside(l, rows, partials);
        }
        next_group(l, rows);
    }
    finish_softmax(l, partials);
    return true;
}
