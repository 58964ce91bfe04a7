/* A band's rows done a few at a time (band.c): where every phase folds a run of memory for each row, or makes one from such runs, what
 * a row takes is a short list of steps with addresses that advance evenly. It is made here, once a task; then all phases of a few rows are done
 * before the next ones (rows_run.c), so that rows come from memory once and are found in the first-level cache after that. What a launch of a phase
 * costs would be more than a row takes, hence the list. */
#include "backend/cpu/rows_list.h"
#include "base/half.h"
#include <string.h>

enum {
    GROUP_BYTES = 8 << 10, /* of arguments; as many are on their way: with what is kept between phases half of the first-level cache */
    LEAST_INNER = 24,
    MOST_GROUP = 32,
    LEAST_PREPARED = 4 /* rows whose values are computed before anything else is done: they stay in the second-level cache */
};

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
    return p->n_regs <= LS_ROWS_MOST_REGS;
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
    if (!fit || steps > LS_ROWS_MOST_STEPS || places > LS_ROWS_MOST_PLACES) {
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

static int16_t add_place(ls_row_list *l, char *at, int64_t row, bool moves) {
    for (int16_t i = 0; i < l->n_places; i++) {
        const ls_row_place *p = &l->places[i];
        if (p->at == at && p->row == row && p->moves == moves) {
            return i;
        }
    }
    l->places[l->n_places] = (ls_row_place){at, row, moves};
    return (int16_t)l->n_places++;
}

static int16_t reg_place(ls_row_list *l, int16_t reg) {
    if (reg >= 0 && l->of_reg[reg] < 0) {
        l->of_reg[reg] = add_place(l, l->run->regs[reg], 0, false);
    }
    return reg < 0 ? -1 : l->of_reg[reg];
}

/* Of an access, the run being at the first row. */
static int16_t access_place(ls_row_list *l, int access, int64_t inner) {
    const ls_access *a = &l->run->program->accesses[access];
    int64_t row = a->n_dims == 1 && inner > 1 ? inner : a->dims[0].stride;
    int temp = a->buffer - l->kernel->binary->spec.n_args;
    char *at = l->kernel->buffers[a->buffer] + (ls_run_place(l->run, a) << a->log2);
    int16_t found = add_place(l, at, row * (INT64_C(1) << a->log2), temp < 0 || !l->kernel->binary->temps[temp].point);
    bool large = inner > 1 && row && ls_buffer_is_large(&l->kernel->binary->spec, a->buffer), known = false;
    for (int i = 0; i < l->n_streams; i++) {
        known = known || l->streams[i] == found;
    }
    if (large && !known && l->n_streams < LS_ROWS_MOST_STREAMS && !l->kernel->binary->spec.args[a->buffer].written) {
        l->streams[l->n_streams++] = found;
    }
    return found;
}

static void begin_program(ls_row_list *l, ls_run *run, int64_t inner) {
    l->run = run;
    memset(l->of_reg, 0xff, sizeof l->of_reg);
    ls_run_seek(run, l->first * inner);
}

/* What a chain reads: runs of rows, or of a lane a row, and numbers of one lane or of one a row. */
static void add_operands(ls_row_list *l, ls_row_line *s, const ls_fused *f, int64_t inner) {
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

static ls_column_op column_op_of(const ls_tile_isa *isa, const ls_instr *in) {
    static const uint8_t ops[] = {[LS_COLUMN_ADD] = LS_OP_ADD, [LS_COLUMN_SUB] = LS_OP_SUB, [LS_COLUMN_MUL] = LS_OP_MUL, [LS_COLUMN_DIV] = LS_OP_DIV,
                                  [LS_COLUMN_SQRT] = LS_OP_SQRT};
    for (int op = LS_COLUMN_ADD; op <= LS_COLUMN_SQRT && in->op == LS_TILE_OP_FN; op++) {
        if (in->fn == isa->map_f32[ops[op]]) {
            return (ls_column_op)op;
        }
    }
    return in->op == LS_TILE_OP_STORE && in->dtype == LS_F32 ? LS_COLUMN_STORE : LS_COLUMN_FN;
}

/* Instructions of a lane a row. */
static void add_columns(ls_row_list *l, ls_section section) {
    const ls_program *p = l->run->program;
    for (int i = 0; i < p->n_instrs[section]; i++) {
        const ls_instr *in = &p->instrs[section][i];
        const ls_fused *f = fused_of(p, in);
        if (in->op == LS_TILE_OP_LOAD) {
            l->of_reg[in->dst] = access_place(l, in->access, 1);
            continue;
        }
        ls_row_line *s = &l->steps[l->n_steps++];
        *s = (ls_row_line){.kind = LS_ROW_COLUMN, .in = in, .op = column_op_of(l->isa, in), .a = -1, .b = -1, .c = -1};
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
static bool is_far(const ls_row_list *l, const ls_fused *f, const ls_row_place *to) {
    const ls_program *p = l->run->program;
    int buffer = p->accesses[f->store].buffer;
    const ls_spec *spec = &l->kernel->binary->spec;
    bool far = l->isa->far && ls_is_streamed(spec, buffer) && to->row == l->inner * 4 &&
               ((uintptr_t)to->at | (uintptr_t)to->row) % LS_ROWS_LINE == 0;
    for (int k = 0; k < f->n_operands && far; k++) {
        far = (f->slots >> k & 1) || p->accesses[f->loads[k] - 1].buffer != buffer;
    }
    return far;
}

static void add_fold(ls_row_list *l, const ls_phase *phase, ls_run *finish) {
    const ls_program *p = l->run->program;
    const ls_value *v = &l->kernel->binary->spec.values[phase->value];
    ls_row_line *s = &l->steps[l->n_steps++];
    *s = (ls_row_line){.kind = LS_ROW_FOLD, .which = ls_f32_fold(l->isa, v)};
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

static void add_chains(ls_row_list *l) {
    const ls_program *p = l->run->program;
    for (int i = 0; i < p->n_instrs[LS_SECTION_LANES]; i++) {
        const ls_fused *f = p->fused[p->instrs[LS_SECTION_LANES][i].access];
        ls_row_line *s = &l->steps[l->n_steps++];
        *s = (ls_row_line){.kind = LS_ROW_CHAIN};
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
static bool is_stored(const ls_row_list *l, const ls_row_line *fold, int16_t at) {
    return fold[1].op == LS_COLUMN_STORE && fold[1].a == fold->dst && fold[1].dst == at && !l->places[at].moves;
}

/* What makes the number in a place before step `s`; NULL: nothing, as with constants. */
static const ls_row_line *maker_of(const ls_row_list *l, const ls_row_line *s, int16_t at) {
    while (s > l->steps) {
        if ((--s)->dst == at) {
            return s;
        }
    }
    return NULL;
}

/* The step that makes the number in a place before step `s`, by `op` of another number and a constant; or NULL. */
static const ls_row_line *maker_by(const ls_row_list *l, const ls_row_line *s, int16_t at, ls_column_op op, int16_t *out_other, float *out_constant) {
    const ls_row_line *made = maker_of(l, s, at);
    if (!made || made->kind != LS_ROW_COLUMN || made->op != op || maker_of(l, made, made->b) || l->places[made->b].row) {
        return NULL;
    }
    *out_other = made->a;
    *out_constant = *(const float *)(const void *)l->places[made->b].at;
    return made;
}

/* Of how many numbers the one in a place before step `s` is the mean, which a fold has summed; 0: it is no mean. */
static float count_of_mean(const ls_row_list *l, const ls_row_line *s, int16_t at, const ls_row_line *fold) {
    float count, part = 0;
    int16_t sum;
    const ls_row_line *mean = maker_by(l, s, at, LS_COLUMN_DIV, &sum, &count);
    if (!mean && (mean = maker_by(l, s, at, LS_COLUMN_MUL, &sum, &part))) {
        uint32_t bits;
        memcpy(&bits, &part, sizeof bits);
        count = part > 0 && bits << 9 == 0 ? 1 / part : 0; /* the same bits where that is a power of two */
    }
    const ls_row_line *kept = mean ? maker_of(l, mean, sum) : NULL;
    return kept && kept->kind == LS_ROW_COLUMN && kept->op == LS_COLUMN_STORE && maker_of(l, kept, kept->a) == fold ? count : 0;
}

/* Whether a norm's rows and results fit into the last cache together, and are better there: what more than one core stores past the caches
 * is more than memory takes. (Not on Zen 4, where norms stored past them are 1.4 times as fast.) */
static bool stays_near(const ls_row_list *l, const ls_row_line *chain) {
    const ls_cpu_device *d = l->kernel->binary->device;
    const ls_program *p = l->run->program;
    int64_t results = l->kernel->binary->spec.args[p->accesses[chain->f->store].buffer].numel;
    return d->cpu.l3_takes_stores && d->threads > 1 && 2 * results * (int64_t)sizeof(float) <= d->cpu.l3_bytes;
}

/* Whether all there is to do is a norm of rows, of their distances from their means or of themselves, which is a function of its own then. */
static void find_norm(ls_row_list *l) {
    ls_row_line *first = l->steps;
    const ls_row_line *sum = NULL, *squares = NULL, *last = first + l->n_steps - 1;
    ls_tile_row_norm *norm = &l->norm;
    *norm = (ls_tile_row_norm){.n = l->inner};
    const ls_row_line *prepares = first->kind == LS_ROW_CHAIN ? first++ : NULL;
    bool only = l->isa->row_norms_f32 && first < last && first->kind == LS_ROW_FOLD && last->kind == LS_ROW_CHAIN;
    for (const ls_row_line *s = first; s < last && only; s++) {
        if (s->kind == LS_ROW_FOLD) {
            only = !squares && s->stream.whole && s->which == LS_FOLD_SUM && (s->stream.squares || !sum);
            *(s->stream.squares ? &squares : &sum) = s;
        } else {
            only = s->kind == LS_ROW_COLUMN && !l->places[s->dst].moves;
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
    const ls_row_place *x = &l->places[last->operands[0]], *dst = &l->places[last->dst];
    const ls_row_place *times = scale ? &l->places[last->operands[scale->at]] : NULL, *plus = shift ? &l->places[last->operands[shift->at]] : NULL;
    const ls_row_line *root = maker_of(l, last, last->scalars[by->at]);
    int16_t mean_square;
    const bool deviates = root && root->kind == LS_ROW_COLUMN && root->op == LS_COLUMN_SQRT;
    const ls_row_line *more = deviates ? maker_by(l, root, root->a, LS_COLUMN_ADD, &mean_square, &norm->more) : NULL;
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
static void find_beside(ls_row_list *l) {
    const ls_tile_isa *isa = l->isa;
    ls_row_line *last = l->steps + l->n_steps - 1, *s = last;
    bool between = last->kind == LS_ROW_CHAIN && last->divides && l->places[last->operands[0]].row;
    const bool near = between && last->f->steps[last->f->n_steps - 1].op == LS_CHAIN_DIV_NEAR;
    while (s > l->steps && s->kind != LS_ROW_FOLD) {
        s--;
        between = between && (s->kind == LS_ROW_FOLD || (s->kind == LS_ROW_COLUMN && s->op != LS_COLUMN_FN));
    }
    const bool exps = s->kind == LS_ROW_FOLD && s->stream.exps;
    l->beside = (ls_tile_beside){.near = near, .second = l->second};
    const bool after_exps = between && exps && last->f->n_steps == 1 && s->stream.exps == isa->fold_exp_f32[near] && s->stream.store &&
                            s->a == last->operands[0];
    l->defers = after_exps && l->inner <= LS_ROWS_MOST_KEPT && s + 2 == last && is_stored(l, s, last->scalars[last->f->steps->at]);
    l->divides = l->defers || (after_exps && l->ahead >= 2);
    l->with = exps ? s : NULL;
    const ls_row_line *peak = l->steps;
    l->peaks = l->defers && s == peak + 2 && peak->kind == LS_ROW_FOLD && peak->stream.whole && peak->which == LS_FOLD_MAX &&
               peak->operands[0] == s->operands[0] && s->f->n_scalars == 1 && is_stored(l, peak, s->scalars[0]);
    l->waits = false;
    l->turn = 0;
}

bool ls_rows_list(ls_row_list *l, ls_kernel_run *kernel, int64_t first) {
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
    for (ls_row_line *s = l->steps; s < l->steps + l->n_steps; s++) {
        if (s->kind != LS_ROW_COLUMN) {
            s->fetch = bytes * pass / l->n_passes & ~(int64_t)(LS_ROWS_LINE - 1);
            s->fetch_end = pass + 1 == l->n_passes ? bytes : bytes * (pass + 1) / l->n_passes & ~(int64_t)(LS_ROWS_LINE - 1);
            pass++;
            s->fetch_end = l->with && l->n_streams == 1 ? s->fetch : s->fetch_end;
        }
    }
    return true;
}

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
