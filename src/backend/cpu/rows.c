/* A band's rows done a few at a time (band.c): where every phase folds a run of memory for each row, or makes one from such runs, what
 * a row takes is a short list of steps with addresses that advance evenly. It is made once a task; then all phases of a few rows are done
 * before the next ones, so that rows come from memory once and are found in the first-level cache after that. What a launch of a phase
 * costs would be more than a row takes, hence the list. Meanwhile the lines of the next group are fetched, some at each pass over a row,
 * and a large result goes past the caches, line by line as it is made: memory is not waited for in one phase and idle in the next. */
#include "backend/cpu/kernel.h"
#include "base/half.h"
#include <string.h>

#define ONCE __attribute__((noinline)) /* clang would have it in several places */

enum {
    GROUP_BYTES = 8 << 10, /* of arguments; as many are on their way: with what is kept between phases half of the first-level cache */
    LEAST_INNER = 64,
    MOST_GROUP = 32,
    LEAST_PREPARED = 4, /* rows whose values are computed before anything else is done: they stay in the second-level cache */
    MOST_PLACES = 64,
    MOST_STEPS = 48,
    MOST_REGS = 64,
    MOST_STREAMS = 4,
    MOST_KEPT = 2048,    /* lanes of a row that waits for the end of its sum */
    KEPT_STRIDE = MOST_KEPT + 13 * 16, /* not a page apart */
    KEPT = 3,
    LINE = 64
};

/* ---- planning ---- */
/* Whether an access has a lane a row, one behind another. */
static bool is_column(const ls_access *a) {
    return !a->n_tables && !a->may_be_absent && !a->n_scalar && a->n_dims == 1 && a->dims[0].stride == 1;
}

/* Whether it has a run of memory for each row, evenly apart. */
static bool has_runs(const ls_access *a, int rows) {
    bool plain = !a->n_tables && !a->may_be_absent && !a->n_scalar && a->log2 == 2;
    const ls_access_dim *last = &a->dims[a->n_dims ? a->n_dims - 1 : 0];
    return plain && last->stride == 1 && ((a->n_dims == 1 && last->first == 0) || (a->n_dims == 2 && last->first == rows));
}

static const ls_fused *fused_of(const ls_program *p, const ls_instr *in) {
    return in->op == LS_TILE_OP_FUSED ? p->fused[in->access] : NULL;
}

static bool fused_has_runs(const ls_program *p, const ls_fused *f, int rows) {
    bool all = f->store < 0 || has_runs(&p->accesses[f->store], rows);
    for (int k = 0; k < f->n_operands; k++) {
        all = all && ((f->slots >> k & 1) || (f->loads[k] && has_runs(&p->accesses[f->loads[k] - 1], rows)));
    }
    return all;
}

/* Counts the steps of instructions of a lane a row. */
static bool count_columns(const ls_program *p, ls_section section, int *steps, int *places) {
    for (int i = 0; i < p->n_instrs[section]; i++) {
        const ls_instr *in = &p->instrs[section][i];
        const ls_fused *f = fused_of(p, in);
        bool moves = in->op == LS_TILE_OP_LOAD || in->op == LS_TILE_OP_STORE;
        bool fits = f || in->op == LS_TILE_OP_FN || in->op == LS_TILE_OP_DIVIDE || in->op == LS_TILE_OP_CAST;
        fits = moves ? is_column(&p->accesses[in->access]) : fits && (!f || f->store < 0 || is_column(&p->accesses[f->store]));
        for (int k = 0; f && k < f->n_operands; k++) {
            fits = fits && (!f->loads[k] || is_column(&p->accesses[f->loads[k] - 1]));
        }
        if (!fits) {
            return false;
        }
        *steps += in->op != LS_TILE_OP_LOAD;
        *places += f ? f->n_operands + 1 : moves;
    }
    *places += p->n_regs;
    return p->n_regs <= MOST_REGS;
}

static bool same_axes(const ls_spec *spec, const ls_band *band, int n, const uint8_t *axes) {
    int matched = 0;
    for (int i = 0; i < n; i++) {
        if (!ls_dim_is_one(spec->extents_of_axes[axes[i]]) && (matched == band->n_axes || band->axes[matched++] != axes[i])) {
            return false;
        }
    }
    return matched == band->n_axes;
}

static bool phase_fits(const ls_kernel_binary *b, const ls_phase *phase, int *steps, int *places) {
    const ls_spec *spec = &b->spec;
    const ls_band *band = &b->band;
    const ls_program *p = phase->kind == LS_PHASE_STORE ? &phase->finish : &phase->program;
    int n = p->n_instrs[LS_SECTION_LANES];
    if (p->n_instrs[LS_SECTION_POINT] || p->n_periodic || (p->row_axes && p->row_axes != band->n_axes)) {
        return false;
    }
    int64_t inner = ls_spec_points(spec, p->lane_axes + band->n_axes, p->n_lane_axes - band->n_axes);
    if (inner < LEAST_INNER || inner > LS_TILE_BLOCK || !count_columns(p, LS_SECTION_ROWS, steps, places)) {
        return false;
    }
    if (phase->kind == LS_PHASE_STORE) {
        bool all = same_axes(spec, band, band->n_axes < p->n_lane_axes ? band->n_axes : p->n_lane_axes, p->lane_axes);
        for (int i = 0; i < n; i++) {
            const ls_instr *in = &p->instrs[LS_SECTION_LANES][i];
            const ls_fused *f = fused_of(p, in);
            all = all && f && f->store >= 0 && fused_has_runs(p, f, band->n_axes);
            *places += f ? f->n_operands + 1 : 0;
        }
        *steps += n;
        return all;
    }
    bool all = phase->kind == LS_PHASE_ROWS && phase->streams && same_axes(spec, band, phase->n_axes, phase->axes);
    for (int i = 0; i < n && all; i++) {
        const ls_instr *in = &p->instrs[LS_SECTION_LANES][i];
        const ls_fused *f = fused_of(p, in);
        bool moves = in->op == LS_TILE_OP_LOAD || in->op == LS_TILE_OP_STORE;
        all = f ? fused_has_runs(p, f, band->n_axes) : !moves || has_runs(&p->accesses[in->access], band->n_axes);
        *places += f ? f->n_operands : 1;
    }
    *steps += 1;
    const ls_program *then = &phase->finish;
    all = all && !then->n_instrs[LS_SECTION_POINT] && !then->n_instrs[LS_SECTION_ROWS] && !then->n_periodic;
    return all && count_columns(then, LS_SECTION_LANES, steps, places);
}

int64_t ls_rows_plan(const ls_kernel_binary *b) {
    int steps = 0, places = 0;
    int64_t bytes = 0;
    bool fit = b->band.n_axes > 0;
    for (int i = 0; i < b->n_phases && fit; i++) {
        fit = phase_fits(b, &b->phases[i], &steps, &places);
    }
    if (!fit || steps > MOST_STEPS || places > MOST_PLACES) {
        return 0;
    }
    const int64_t points = ls_spec_points(&b->spec, b->band.axes, b->band.n_axes);
    for (int i = 0; i < b->spec.n_args; i++) {
        const ls_spec_arg *arg = &b->spec.args[i];
        bytes += arg->written ? 0 : arg->numel * (int64_t)ls_dtype_size(arg->dtype) / (points ? points : 1);
    }
    const int64_t group = bytes ? GROUP_BYTES / bytes : MOST_GROUP, least = b->phases[0].kind == LS_PHASE_STORE ? LEAST_PREPARED : 1;
    return group < least ? least : group < MOST_GROUP ? group : MOST_GROUP;
}

/* ---- a task's list ---- */
typedef struct place {
    char *at;
    int64_t row; /* bytes from a row to the next */
    bool moves;  /* from group to group: not where a group's values are kept */
} place;

typedef enum line_kind { LINE_COLUMN, LINE_FOLD, LINE_CHAIN } line_kind; /* the last two are passes over each row */

/* What is done to a few numbers here: a vector of what has just been stored one by one would wait for memory, behind results that go past
 * the caches. */
typedef enum column_op { COLUMN_FN, COLUMN_ADD, COLUMN_SUB, COLUMN_MUL, COLUMN_DIV, COLUMN_SQRT, COLUMN_STORE } column_op;

typedef struct line {
    line_kind kind;
    const ls_instr *in;     /* COLUMN */
    column_op op;
    int16_t dst, a, b, c;   /* places, or -1; of a FOLD where its function's values and its result go */
    const ls_fused *f;      /* of a chain; or NULL */
    int16_t operands[LS_CHAIN_POINTERS];
    int16_t scalars[LS_CHAIN_SCALARS];
    float numbers[LS_CHAIN_SCALARS]; /* of the row at hand */
    ls_chain_row row;
    ls_stream stream; /* FOLD */
    int which;
    float *values;        /* of its chain, a piece at a time */
    bool divides;         /* CHAIN: numbers apart from one, or as they are, by another */
    int64_t fetch, fetch_end; /* FOLD, CHAIN: bytes of each row that are fetched early meanwhile */
} line;

typedef struct lines {
    const ls_kernel_run *kernel;
    const ls_tile_isa *isa;
    ls_run *run; /* that is listed */
    int64_t first, inner;
    int n_places, n_steps, n_streams, n_passes;
    place places[MOST_PLACES];
    line steps[MOST_STEPS];
    int64_t ahead; /* rows */
    bool second;   /* their lines go into the second-level cache */
    line *with;    /* the last fold, which fetches all lines of one stream; or NULL */
    bool divides;  /* beside it the last step, a division, is done for the row before */
    ls_tile_beside beside;
    bool defers;   /* by the sum itself, which is made beside the next row's: the division is done for the row before that */
    bool waits, within; /* there is a row whose sum is not made; whether it may be divided beside another */
    int64_t turn;       /* of the next row */
    char *dst;          /* of the quotients of the row that waits */
    ls_tile_row_norm norm; /* x NULL: it is none */
    bool peaks;         /* and the largest of a row is found beside the one before */
    float peak;         /* of the next row */
    float nan;     /* the canonical one */
    int16_t streams[MOST_STREAMS]; /* places whose lines are fetched early */
    int16_t of_reg[MOST_REGS];     /* places of a program's registers */
    float middle[LS_TILE_BLOCK];
    _Alignas(LS_ALIGN) float kept[KEPT][KEPT_STRIDE]; /* exponentials of rows by turn */
    float slots[LS_CHAIN_SLOTS * LS_CHAIN_LANES + LS_ALIGN / sizeof(float)];
} lines;

static int16_t add_place(lines *l, char *at, int64_t row, bool moves) {
    for (int16_t i = 0; i < l->n_places; i++) {
        const place *p = &l->places[i];
        if (p->at == at && p->row == row && p->moves == moves) {
            return i;
        }
    }
    l->places[l->n_places] = (place){at, row, moves};
    return (int16_t)l->n_places++;
}

static int16_t reg_place(lines *l, int16_t reg) {
    if (reg >= 0 && l->of_reg[reg] < 0) {
        l->of_reg[reg] = add_place(l, l->run->regs[reg], 0, false);
    }
    return reg < 0 ? -1 : l->of_reg[reg];
}

/* Of an access, the run being at the first row. */
static int16_t access_place(lines *l, int access, int64_t inner) {
    const ls_access *a = &l->run->program->accesses[access];
    int64_t row = a->n_dims == 1 && inner > 1 ? inner : a->dims[0].stride;
    int temp = a->buffer - l->kernel->binary->spec.n_args;
    char *at = l->kernel->buffers[a->buffer] + (ls_run_place(l->run, a) << a->log2);
    int16_t found = add_place(l, at, row * (INT64_C(1) << a->log2), temp < 0 || !l->kernel->binary->temps[temp].point);
    bool large = inner > 1 && row && ls_buffer_is_large(&l->kernel->binary->spec, a->buffer), known = false;
    for (int i = 0; i < l->n_streams; i++) {
        known = known || l->streams[i] == found;
    }
    if (large && !known && l->n_streams < MOST_STREAMS && !l->kernel->binary->spec.args[a->buffer].written) {
        l->streams[l->n_streams++] = found;
    }
    return found;
}

static void begin_program(lines *l, ls_run *run, int64_t inner) {
    l->run = run;
    memset(l->of_reg, 0xff, sizeof l->of_reg);
    ls_run_seek(run, l->first * inner);
}

/* What a chain reads: runs of rows, or of a lane a row, and numbers of one lane or of one a row. */
static void add_operands(lines *l, line *s, const ls_fused *f, int64_t inner) {
    float *slot = (float *)(void *)(((uintptr_t)l->slots + LS_ALIGN - 1) & ~(uintptr_t)(LS_ALIGN - 1));
    s->f = f;
    s->row = (ls_chain_row){.n_steps = f->n_steps, .n_pointers = f->n_operands, .steps = f->steps, .scalars = s->numbers};
    for (int k = 0; k < f->n_operands; k++) {
        if (f->slots >> k & 1) {
            s->row.slots[k] = slot;
            slot += LS_CHAIN_LANES;
        } else {
            s->operands[k] = f->loads[k] ? access_place(l, f->loads[k] - 1, inner) : reg_place(l, f->operands[k]);
        }
    }
    for (int k = 0; k < f->n_scalars; k++) {
        s->scalars[k] = reg_place(l, f->scalars[k]);
    }
}

static column_op column_op_of(const ls_tile_isa *isa, const ls_instr *in) {
    static const uint8_t ops[] = {[COLUMN_ADD] = LS_OP_ADD, [COLUMN_SUB] = LS_OP_SUB, [COLUMN_MUL] = LS_OP_MUL, [COLUMN_DIV] = LS_OP_DIV,
                                  [COLUMN_SQRT] = LS_OP_SQRT};
    for (int op = COLUMN_ADD; op <= COLUMN_SQRT && in->op == LS_TILE_OP_FN; op++) {
        if (in->fn == isa->map_f32[ops[op]]) {
            return (column_op)op;
        }
    }
    return in->op == LS_TILE_OP_STORE && in->dtype == LS_F32 ? COLUMN_STORE : COLUMN_FN;
}

/* Instructions of a lane a row. */
static void add_columns(lines *l, ls_section section) {
    const ls_program *p = l->run->program;
    for (int i = 0; i < p->n_instrs[section]; i++) {
        const ls_instr *in = &p->instrs[section][i];
        const ls_fused *f = fused_of(p, in);
        if (in->op == LS_TILE_OP_LOAD) {
            l->of_reg[in->dst] = access_place(l, in->access, 1);
            continue;
        }
        line *s = &l->steps[l->n_steps++];
        *s = (line){.kind = LINE_COLUMN, .in = in, .op = column_op_of(l->isa, in), .a = -1, .b = -1, .c = -1};
        if (f) {
            add_operands(l, s, f, 1);
            s->row.raw = f->store < 0;
            s->dst = f->store < 0 ? reg_place(l, in->dst) : access_place(l, f->store, 1);
        } else if (in->op == LS_TILE_OP_STORE) {
            s->a = reg_place(l, in->a);
            s->dst = access_place(l, in->access, 1);
        } else {
            s->a = reg_place(l, in->a);
            s->b = reg_place(l, in->b);
            s->c = reg_place(l, in->c);
            s->dst = reg_place(l, in->dst);
        }
    }
}

/* Whether a result is worth no place in the caches, which it would leave before anybody reads it, and has whole lines. */
static bool is_far(const lines *l, const ls_fused *f, const place *to) {
    const ls_program *p = l->run->program;
    int buffer = p->accesses[f->store].buffer;
    const ls_spec *spec = &l->kernel->binary->spec;
    bool far = l->isa->fence && buffer < spec->n_args && spec->args[buffer].numel >= LS_STREAM_BYTES / 4 && to->row == l->inner * 4 &&
               ((uintptr_t)to->at | (uintptr_t)to->row) % LINE == 0;
    for (int k = 0; k < f->n_operands && far; k++) {
        far = (f->slots >> k & 1) || p->accesses[f->loads[k] - 1].buffer != buffer;
    }
    return far;
}

static void add_fold(lines *l, const ls_phase *phase, ls_run *finish) {
    const ls_program *p = l->run->program;
    const ls_value *v = &l->kernel->binary->spec.values[phase->value];
    line *s = &l->steps[l->n_steps++];
    *s = (line){.kind = LINE_FOLD, .which = ls_f32_fold(l->isa, v)};
    s->stream = ls_stream_of(p, l->isa, s->which);
    add_operands(l, s, ls_stream_chain(p, &s->stream), l->inner);
    s->row.raw = true;
    s->values = s->stream.computes ? (float *)(void *)(l->run->memory + p->reg_offsets[s->stream.source->dst]) : NULL;
    s->a = !s->stream.fn ? -1 : s->stream.store ? access_place(l, s->stream.store->access, l->inner) : reg_place(l, s->stream.fn->dst);
    s->dst = add_place(l, finish->regs[phase->finish.input], 0, false);
    l->n_passes++;
}

static bool divides(const ls_tile_isa *isa, const ls_fused *f) {
    const ls_chain_step *first = f->steps, *last = first + f->n_steps - 1;
    bool by = f->n_steps > 0 && (last->op == LS_CHAIN_DIV || last->op == LS_CHAIN_DIV_NEAR) && last->kind == LS_CHAIN_SCALAR;
    return isa->divide_f32 && by && (f->n_steps == 1 || (f->n_steps == 2 && first->op == LS_CHAIN_SUB && first->kind == LS_CHAIN_SCALAR));
}

static void add_chains(lines *l) {
    const ls_program *p = l->run->program;
    for (int i = 0; i < p->n_instrs[LS_SECTION_LANES]; i++) {
        const ls_fused *f = p->fused[p->instrs[LS_SECTION_LANES][i].access];
        line *s = &l->steps[l->n_steps++];
        *s = (line){.kind = LINE_CHAIN};
        add_operands(l, s, f, l->inner);
        s->divides = divides(l->isa, f);
        s->dst = access_place(l, f->store, l->inner);
        s->row.middle = is_far(l, f, &l->places[s->dst]) ? l->middle : NULL;
        l->n_passes++;
    }
}

static int64_t inner_lanes(const ls_kernel_run *kernel, const ls_program *p) {
    int64_t inner = 1;
    for (int k = kernel->binary->band.n_axes; k < p->n_lane_axes; k++) {
        inner *= kernel->extents[p->lane_axes[k]];
    }
    return inner;
}

/* Whether all that the step behind a fold does is to keep its result for the numbers in a place. */
static bool is_stored(const lines *l, const line *fold, int16_t at) {
    return fold[1].op == COLUMN_STORE && fold[1].a == fold->dst && fold[1].dst == at && !l->places[at].moves;
}

/* What makes the number in a place before step `s`; NULL: nothing, as with constants. */
static const line *maker_of(const lines *l, const line *s, int16_t at) {
    while (s > l->steps) {
        if ((--s)->dst == at) {
            return s;
        }
    }
    return NULL;
}

/* The step that makes the number in a place before step `s`, by `op` of another number and a constant; or NULL. */
static const line *maker_by(const lines *l, const line *s, int16_t at, column_op op, int16_t *out_other, float *out_constant) {
    const line *made = maker_of(l, s, at);
    if (!made || made->kind != LINE_COLUMN || made->op != op || maker_of(l, made, made->b) || l->places[made->b].row) {
        return NULL;
    }
    *out_other = made->a;
    *out_constant = *(const float *)(const void *)l->places[made->b].at;
    return made;
}

/* Of how many numbers the one in a place before step `s` is the mean, which a fold has summed; 0: it is no mean. */
static float count_of_mean(const lines *l, const line *s, int16_t at, const line *fold) {
    float count, part = 0;
    int16_t sum;
    const line *mean = maker_by(l, s, at, COLUMN_DIV, &sum, &count);
    if (!mean && (mean = maker_by(l, s, at, COLUMN_MUL, &sum, &part))) {
        uint32_t bits;
        memcpy(&bits, &part, sizeof bits);
        count = part > 0 && bits << 9 == 0 ? 1 / part : 0; /* the same bits where that is a power of two */
    }
    const line *kept = mean ? maker_of(l, mean, sum) : NULL;
    return kept && kept->kind == LINE_COLUMN && kept->op == COLUMN_STORE && maker_of(l, kept, kept->a) == fold ? count : 0;
}

/* Whether a norm's rows and results fit into the last cache together, and are better there: what more than one core stores past the caches
 * is more than memory takes. (Not on Zen 4, where norms stored past them are 1.4 times as fast.) */
static bool stays_near(const lines *l, const line *chain) {
    const ls_cpu_device *d = l->kernel->binary->device;
    const ls_program *p = l->run->program;
    int64_t results = l->kernel->binary->spec.args[p->accesses[chain->f->store].buffer].numel;
    return d->cpu.l3_takes_stores && d->threads > 1 && 2 * results * (int64_t)sizeof(float) <= d->cpu.l3_bytes;
}

/* Whether all there is to do is a norm of rows, of their distances from their means or of themselves, which is a function of its own then. */
static void find_norm(lines *l) {
    line *first = l->steps;
    const line *sum = NULL, *squares = NULL, *last = first + l->n_steps - 1;
    ls_tile_row_norm *norm = &l->norm;
    *norm = (ls_tile_row_norm){.n = l->inner};
    const line *prepares = first->kind == LINE_CHAIN ? first++ : NULL;
    bool only = l->isa->row_norms_f32 && first < last && first->kind == LINE_FOLD && last->kind == LINE_CHAIN;
    for (const line *s = first; s < last && only; s++) {
        if (s->kind == LINE_FOLD) {
            only = !squares && s->stream.whole && s->which == LS_FOLD_SUM && (s->stream.squares || !sum);
            *(s->stream.squares ? &squares : &sum) = s;
        } else {
            only = s->kind == LINE_COLUMN && !l->places[s->dst].moves;
        }
    }
    if (!only || !squares || squares->f->n_scalars != (sum ? 1 : 0) || (sum && sum->f->n_scalars)) {
        return;
    }
    const ls_fused *f = last->f;
    const ls_chain_step *c = f->steps, *end = c + f->n_steps;
    const ls_chain_step *apart = sum && c < end && c->op == LS_CHAIN_SUB && c->kind == LS_CHAIN_SCALAR ? c++ : NULL;
    const ls_chain_step *by = c < end && (c->op == LS_CHAIN_DIV || c->op == LS_CHAIN_DIV_NEAR) && c->kind == LS_CHAIN_SCALAR ? c++ : NULL;
    const ls_chain_step *scale = c < end && c->op == LS_CHAIN_MUL && c->kind == LS_CHAIN_MEMORY ? c++ : NULL;
    const ls_chain_step *shift = c < end && c->op == LS_CHAIN_ADD && c->kind == LS_CHAIN_MEMORY ? c++ : NULL;
    if (c < end || !by || (sum && !apart) || f->slots || f->n_operands != 1 + (scale != NULL) + (shift != NULL)) {
        return;
    }
    const place *x = &l->places[last->operands[0]], *dst = &l->places[last->dst];
    const place *times = scale ? &l->places[last->operands[scale->at]] : NULL, *plus = shift ? &l->places[last->operands[shift->at]] : NULL;
    const line *root = maker_of(l, last, last->scalars[by->at]);
    int16_t mean_square;
    const bool deviates = root && root->kind == LINE_COLUMN && root->op == COLUMN_SQRT;
    const line *more = deviates ? maker_by(l, root, root->a, COLUMN_ADD, &mean_square, &norm->more) : NULL;
    norm->count = more ? count_of_mean(l, more, mean_square, squares) : 0;
    const bool same_mean = !sum || (count_of_mean(l, squares, squares->scalars[0], sum) == norm->count &&
                                    count_of_mean(l, last, last->scalars[apart->at], sum) == norm->count);
    const bool same_rows = (!sum || sum->operands[0] == last->operands[0]) && squares->operands[0] == last->operands[0] &&
                           (!prepares || prepares->dst == last->operands[0]);
    if (norm->count == 0 || !same_mean || !same_rows || (times && times->row) || (plus && plus->row)) {
        return;
    }
    norm->centred = sum != NULL;
    norm->fetches_second = l->second;
    norm->near = by->op == LS_CHAIN_DIV_NEAR;
    norm->far = last->row.middle && !stays_near(l, last);
    for (int i = 0; i < l->n_streams; i++) {
        norm->fetches = norm->fetches || l->streams[i] == last->operands[0];
    }
    l->steps->fetch_end = prepares ? l->inner * (int64_t)sizeof(float) : 0;
    norm->times = times ? (const float *)(const void *)times->at : NULL;
    norm->plus = plus ? (const float *)(const void *)plus->at : NULL;
    norm->dst = (float *)(void *)dst->at;
    norm->x = (const float *)(const void *)x->at;
    norm->x_row = x->row / (int64_t)sizeof(float);
    norm->dst_row = dst->row / (int64_t)sizeof(float);
}

/* A division that follows the exponentials of a row, and nothing but numbers between them, is left to those of the next row. What it
 * divides is kept until the row after that. */
static void find_beside(lines *l) {
    const ls_tile_isa *isa = l->isa;
    line *last = l->steps + l->n_steps - 1, *s = last;
    bool between = last->kind == LINE_CHAIN && last->divides && l->places[last->operands[0]].row;
    const bool near = between && last->f->steps[last->f->n_steps - 1].op == LS_CHAIN_DIV_NEAR;
    while (s > l->steps && s->kind != LINE_FOLD) {
        s--;
        between = between && (s->kind == LINE_FOLD || (s->kind == LINE_COLUMN && s->op != COLUMN_FN));
    }
    const bool exps = s->kind == LINE_FOLD && s->stream.exps;
    l->beside = (ls_tile_beside){.near = near, .second = l->second};
    const bool after_exps = between && exps && last->f->n_steps == 1 && s->stream.exps == isa->fold_exp_f32[near] && s->stream.store &&
                            s->a == last->operands[0];
    l->defers = after_exps && l->inner <= MOST_KEPT && s + 2 == last && is_stored(l, s, last->scalars[last->f->steps->at]);
    l->divides = l->defers || (after_exps && l->ahead >= 2);
    l->with = exps ? s : NULL;
    const line *peak = l->steps;
    l->peaks = l->defers && s == peak + 2 && peak->kind == LINE_FOLD && peak->stream.whole && peak->which == LS_FOLD_MAX &&
               peak->operands[0] == s->operands[0] && s->f->n_scalars == 1 && is_stored(l, peak, s->scalars[0]);
    l->waits = false;
    l->turn = 0;
}

static bool make_list(lines *l, ls_kernel_run *kernel, int64_t first) {
    const ls_kernel_binary *b = kernel->binary;
    l->kernel = kernel;
    l->isa = b->device->tiles;
    l->first = first;
    l->ahead = b->band.block;
    l->second = b->device->cpu.fetches_second;
    const uint32_t nan = LS_NAN_F32;
    memcpy(&l->nan, &nan, sizeof nan);
    l->n_places = l->n_steps = l->n_streams = l->n_passes = l->streams[0] = 0;
    for (int i = 0; i < b->n_phases; i++) {
        const ls_phase *phase = &b->phases[i];
        ls_run *finish = &kernel->begun[2 * i + 1], *run = phase->kind == LS_PHASE_STORE ? finish : &kernel->begun[2 * i];
        l->inner = inner_lanes(kernel, run->program);
        if (l->inner == 0) {
            return false;
        }
        begin_program(l, run, l->inner);
        add_columns(l, LS_SECTION_ROWS);
        if (phase->kind == LS_PHASE_STORE) {
            add_chains(l);
            continue;
        }
        add_fold(l, phase, finish);
        begin_program(l, finish, 1);
        add_columns(l, LS_SECTION_LANES);
    }
    find_norm(l);
    if (l->norm.x) { /* which takes no step of the list */
        return true;
    }
    find_beside(l);
    const int64_t bytes = l->inner * (int64_t)sizeof(float);
    int pass = 0;
    for (line *s = l->steps; s < l->steps + l->n_steps; s++) {
        if (s->kind != LINE_COLUMN) {
            s->fetch = bytes * pass / l->n_passes & ~(int64_t)(LINE - 1);
            s->fetch_end = pass + 1 == l->n_passes ? bytes : bytes * (pass + 1) / l->n_passes & ~(int64_t)(LINE - 1);
            pass++;
            s->fetch_end = l->with && l->n_streams == 1 ? s->fetch : s->fetch_end;
        }
    }
    return true;
}

/* ---- running ---- */
static char *at_row(const lines *l, int16_t i, int64_t r) {
    return i < 0 ? NULL : l->places[i].at + r * l->places[i].row;
}

/* In a stream, the row as far behind row r as a group. */
static inline uintptr_t row_ahead(const lines *l, int stream, int64_t r) {
    const place *p = &l->places[l->streams[stream]];
    return (uintptr_t)p->at + (uintptr_t)((r + l->ahead) * p->row);
}

/* A step's share of its lines. */
LS_FETCHING void fetch(const lines *l, const line *s, int64_t r) {
    for (int i = 0; i < l->n_streams; i++) {
        const uintptr_t at = row_ahead(l, i, r);
        for (int64_t k = s->fetch; k < s->fetch_end; k += LINE) {
            ls_fetch_line(at + (uintptr_t)k, l->second);
        }
    }
}

/* Where a chain's number k of row 0 is (-1: it is 0); of the next row `step` further. */
static const float *numbers_of(const lines *l, const line *s, int k, int *step) {
    static const float zero = 0;
    *step = k >= 0 && (s->f->by_row >> k & 1);
    return k >= 0 ? (const float *)(const void *)l->places[s->scalars[k]].at : &zero;
}

/* The chain's numbers and places of row r, `skip` lanes behind its first. */
static ONCE void take_row(const lines *l, line *s, int64_t r, int64_t skip) {
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
static void run_column(const lines *l, line *s, int64_t first, int64_t n) {
    const ls_instr *in = s->in;
    char *dst = at_row(l, s->dst, 0), *a = at_row(l, s->a, 0), *b = at_row(l, s->b, 0);
    const float *u = (const float *)(const void *)a + first, *v = b ? (const float *)(const void *)b + first : NULL;
    float *y = (float *)(void *)dst + first;
    switch (s->op) {
    case COLUMN_ADD:
        EACH_ROW(u[r] + v[r])
    case COLUMN_SUB:
        EACH_ROW(u[r] - v[r])
    case COLUMN_MUL:
        EACH_ROW(u[r] * v[r])
    case COLUMN_DIV:
        EACH_ROW(u[r] / v[r])
    case COLUMN_SQRT:
        EACH_ROW(__builtin_sqrtf(u[r]))
    case COLUMN_STORE:
        EACH_ROW(u[r] == u[r] ? u[r] : l->nan)
    case COLUMN_FN:
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
static float fold_row(lines *l, line *s, int64_t r, float *partials, bool *within) {
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

static void run_fold(lines *l, line *s, int64_t rows, float *partials) {
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

static void run_chain(const lines *l, line *s, int64_t rows) {
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
static ONCE void finish_beside(lines *l) {
    ls_tile_beside *b = &l->beside;
    if (b->x) {
        l->isa->divide_f32(b->dst, b->x, 0, b->divisor, l->inner, b->near, b->far ? LS_DST_FAR : LS_DST_NEAR);
    }
    b->x = NULL;
}

/* The steps from the last fold on, row by row. */
static void run_beside(lines *l, int64_t rows, float *partials) {
    line *with = l->with, *last = l->steps + l->n_steps - 1;
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
        for (line *s = with + 1; s < last; s++) {
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
static ONCE void divide_next(lines *l, float sum) {
    ls_tile_beside *b = &l->beside;
    b->x = l->kept[(l->turn - 1) % KEPT];
    b->dst = (float *)(void *)l->dst;
    b->far = l->steps[l->n_steps - 1].row.middle != NULL;
    if (!l->isa->beside_f32(b, sum) || !l->within || sum - sum != 0) { /* a quotient may be NaN */
        finish_beside(l);
    }
}

static float *sums_of(float *partials, int64_t turn) {
    return partials + turn % 2 * LS_TILE_PARTIALS;
}

static ONCE float halve(const lines *l, float *partials) {
    l->isa->halve_f32[l->with->which](partials);
    return *partials;
}

/* What a softmax ends with, or all of it, row by row. The sum of a row is made when the next one's exponentials are under way, its
 * quotients beside those of the row after: else computing would wait for the chain of operations from the last exponential to the first
 * quotient. The largest number of a row is found beside the exponentials of the one before. */
static void run_softmax(lines *l, int64_t rows, float *partials, bool last) {
    line *with = l->with;
    for (int64_t r = 0; r < rows; r++, l->turn++) {
        float *values = l->kept[l->turn % KEPT], sum = l->waits ? halve(l, sums_of(partials, l->turn - 1)) : 0;
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

static void finish_softmax(lines *l, float *partials) {
    finish_beside(l);
    if (l->waits) {
        divide_next(l, halve(l, sums_of(partials, l->turn - 1)));
        finish_beside(l);
    }
}

static void next_group(lines *l, int64_t rows) {
    for (place *p = l->places, *end = p + l->n_places; p < end; p++) {
        p->at += p->moves ? rows * p->row : 0;
    }
}

static bool are_finite(const float *x, int64_t n) {
    uint32_t most = 0, magnitude;
    for (int64_t i = 0; x && i < n; i++) {
        memcpy(&magnitude, x + i, sizeof magnitude);
        magnitude &= 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    return most < 0x7f800000;
}

static void run_norm(lines *l, int64_t n) {
    enum { FEW = 4 }; /* rows that are worth a look at what all of them are multiplied by */
    ls_tile_row_norm *norm = &l->norm;
    const bool prepares = l->steps->kind == LINE_CHAIN;
    norm->finite = norm->near && n >= FEW && are_finite(norm->times, norm->n) && are_finite(norm->plus, norm->n);
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
    return sizeof(lines) + 2 * LS_TILE_PARTIALS * sizeof(float) + 2 * LS_ALIGN;
}

bool ls_rows_run(ls_kernel_run *kernel, char *scratch, int64_t first, int64_t n) {
    float *partials = (float *)(((uintptr_t)(scratch + kernel->binary->band.list) + LS_ALIGN - 1) & ~(uintptr_t)(LS_ALIGN - 1));
    lines *l = (lines *)(void *)(partials + 2 * LS_TILE_PARTIALS);
    const int64_t group = kernel->binary->band.block;
    ls_band_place(kernel, scratch, first);
    if (!make_list(l, kernel, first)) {
        return false;
    }
    if (l->norm.x) {
        run_norm(l, n);
        return true;
    }
    for (int64_t done = 0, rows; done < n; done += rows) {
        rows = n - done < group || l->peaks ? n - done : group; /* a softmax of one pass needs no groups */
        for (line *s = l->peaks ? l->with : l->steps, *end = l->divides ? l->with : s + l->n_steps; s < end; s++) {
            if (s->kind == LINE_COLUMN) {
                run_column(l, s, 0, rows);
            } else if (s->kind == LINE_FOLD) {
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

/* ---- columns ---- */
ls_even_rows ls_even_rows_of(ls_run *run, const ls_value *v, int64_t lane) {
    const ls_program *p = run->program;
    const ls_instr *only = p->n_instrs[LS_SECTION_LANES] == 1 ? p->instrs[LS_SECTION_LANES] : NULL;
    const ls_access *a = only && only->op == LS_TILE_OP_LOAD && only->dtype == LS_F32 ? &p->accesses[only->access] : NULL;
    int64_t span = 0, apart = 0;
    bool any = false;
    if (!a || !run->isa->onto_f32[LS_FOLD_SUM] || a->n_tables || a->may_be_absent || a->n_dims != 1 || a->dims[0].stride != 1) {
        return (ls_even_rows){0};
    }
    for (int i = v->n_bound - 1; i >= 0; i--) {
        int64_t stride = ls_access_stride(a, v->bound[i]), extent = run->extents[v->bound[i]];
        if (extent == 1) {
            continue;
        }
        if (any && stride != span) {
            return (ls_even_rows){0};
        }
        apart = any ? apart : stride;
        span = stride * extent;
        any = true;
    }
    ls_point_coords(run->extents, v->n_bound, v->bound, 0, run->coords);
    ls_run_seek(run, lane);
    return (ls_even_rows){(const float *)(const void *)run->buffers[a->buffer] + ls_run_place(run, a), apart, run->fetches_second};
}

void ls_even_rows_fold(const ls_even_rows *e, const ls_tile_isa *isa, int which, float *results, int64_t k, int64_t end, int64_t step,
                       int64_t lanes, int64_t next) {
    const float *ahead = next >= 0 ? e->first + next * e->apart : NULL;
    const bool second = e->second && 4 * lanes >= LS_TILE; /* runs of 15 to 100 took 1.1 to 1.4 of the time so */
    isa->onto_f32[which](results, e->first + k * e->apart, e->apart * step, (end - k + step - 1) / step, lanes, true, ahead, second);
}
