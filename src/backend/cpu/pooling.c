/* Extremes and sums over windows of a plane (max and average pooling): one load reduced along two bound axes, each of which walks a free
 * axis, a whole block of the plane at a time. The block is copied once with identities where the plane ends, which change no bits. Extremes
 * have no order, so rows are combined first, then columns; sums have the contract's, a halving tree over a window's elements, and so are
 * of as many runs as a window has elements. Windows of two by two that share nothing are read where they lie, for ARGMAX and ARGMIN, too. */
#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/kernel.h"
#include <string.h>

enum {
    POOLED_ELEMENTS = 8192,                 /* of a block with its margins, which is copied */
    DIRECT_LANES = LS_LIMIT(4096, LS_TILE), /* computed where they will lie: the nearest cache has them still for what follows */
    MOST_TAPS = 64,                         /* of a window that is summed */
    PIECE = 256                             /* sums at a time: their terms stay in the nearest cache */
};

typedef struct pooled_dim { /* walked as u = stride * f + step * t + first, with elements for 0 <= u < limit */
    int64_t stride, step, first, limit, memory;
    int64_t extent, taps;
} pooled_dim;

struct ls_pooling {
    bool squares; /* windows of two by two, apart, inside the plane */
    bool places;  /* of the extremes instead of them; squares only */
    bool sums;
    bool threes;  /* windows of three by three, overlapping */
    const ls_access *direct; /* the results', if they may be computed where they will lie; else NULL. Then blocks may have more than LS_TILE lanes. */
    const ls_fused *quotient; /* all that follows sums of threes, which are divided as they are made; or NULL */
    int buffer, n_outer;
    ls_ix_sum sum;
    pooled_dim dim[2]; /* lines, and along them */
    int64_t lines, planes, pitch, rows; /* of a block: lines of outputs, planes; elements of a line, lines of a plane's part */
};

static bool fixed(const ls_spec *spec, int axis, int64_t *out) {
    ls_dim extent = spec->extents_of_axes[axis];
    *out = extent.offset;
    return ls_dim_is_fixed(extent);
}

/* Predicates are about one dimension each. */
static bool take_pred(const ls_spec *spec, const ls_pred *pred, const int *free, const int *bound,
                      pooled_dim *dims) {
    ls_ix_sum sum;
    ls_ix_sum_of(spec, pred->ix, &sum);
    if (sum.failed || sum.n_rest || pred->limit == LS_SPEC_NONE || spec->ix[pred->limit].op != LS_IX_CONST) {
        return false;
    }
    for (int d = 0; d < 2; d++) {
        int64_t stride = ls_ix_sum_stride(&sum, free[d]), step = ls_ix_sum_stride(&sum, bound[d]);
        if (stride > 0 && step > 0 && sum.n_terms == 2 && !dims[d].stride) {
            dims[d] = (pooled_dim){
                .stride = stride, .step = step, .first = sum.constant, .limit = spec->ix[pred->limit].k};
            return true;
        }
    }
    return false;
}

static bool take_dim(const ls_spec *spec, const ls_ix_sum *sum, int free, int bound, pooled_dim *d) {
    int64_t stride = ls_ix_sum_stride(sum, free), step = ls_ix_sum_stride(sum, bound);
    bool ok = fixed(spec, free, &d->extent) && fixed(spec, bound, &d->taps) && stride > 0 && step > 0;
    if (ok && !d->stride) { /* windows that end inside */
        d->memory = step;
        while (stride % d->memory) {
            d->memory = stride % d->memory;
        }
        d->stride = stride / d->memory;
        d->step = step / d->memory;
        d->limit = INT64_MAX;
    } else if (ok) {
        d->memory = stride / d->stride;
    }
    return ok && d->memory * d->stride == stride && d->memory * d->step == step;
}

/* Lines of the image that some lines of outputs need, taken apart into `stride` phases: what a tap reads for all outputs is a run then. */
static int64_t lines_of_phase(const pooled_dim *y, int64_t outputs) {
    return outputs + y->step * (y->taps - 1) / y->stride;
}

/* Blocks of some lines of one plane, or of some small planes. */
static bool take_block(ls_pooling *p) {
    const pooled_dim *y = &p->dim[0], *x = &p->dim[1];
    if (x->extent < 1 || y->extent < 1 || x->extent > LS_TILE || x->stride > 8 ||
        x->extent * x->stride > LS_TILE * 8) {
        return false;
    }
    int64_t span = x->stride * (x->extent - 1) + x->step * (x->taps - 1) + 1;
    p->pitch = (span + x->stride - 1) / x->stride * x->stride;
    const int64_t most = (p->direct ? DIRECT_LANES : LS_TILE) / x->extent, blocks = (y->extent + most - 1) / most;
    p->lines = (y->extent + blocks - 1) / blocks;
    p->planes = x->extent * y->extent <= LS_TILE ? LS_TILE / (x->extent * y->extent) : 1;
    do {
        p->rows = y->stride * lines_of_phase(y, p->lines);
        if (p->direct || p->planes * p->rows * p->pitch <= POOLED_ELEMENTS) {
            return true;
        }
        p->lines -= p->planes == 1;
        p->planes = p->planes > 1 ? p->planes / 2 : 1;
    } while (p->lines > 0);
    return false;
}

/* Elements of each of three copies: of a line of identities, of places, of a block. */
static int64_t room_of(const ls_pooling *p) {
    return (p->threes ? p->pitch : p->squares ? LS_TILE : p->planes * p->rows * p->pitch) + LS_ALIGN;
}

static bool only_a_load(const ls_program *p) {
    return !p->n_instrs[LS_SECTION_LAUNCH] && !p->n_instrs[LS_SECTION_POINT] &&
           p->n_instrs[LS_SECTION_LANES] == 1 && p->instrs[LS_SECTION_LANES][0].op == LS_TILE_OP_LOAD;
}

/* What takes the results, if nothing else of the finish program goes through a register. It reads nothing of their buffer, as a kernel that
 * reduces stores over nothing that it reads (ls_memory_may_alias). */
static const ls_access *direct_access(const ls_phase *phase) {
    const ls_program *f = &phase->finish;
    const ls_instr *in = f->instrs[LS_SECTION_LANES];
    if (f->n_instrs[LS_SECTION_LANES] != 1 || f->n_instrs[LS_SECTION_ROWS] || f->n_periodic) {
        return NULL;
    }
    const bool stores = in->op == LS_TILE_OP_STORE && in->a == f->input && in->dtype == LS_F32, steps = in->op == LS_TILE_OP_FUSED && in->dst < 0;
    return stores || steps ? ls_whole_access(f, f->accesses[stores ? in->access : f->fused[in->access]->store].buffer) : NULL;
}

/* The one step of the finish program, if it is a division by a scalar or by elements that lie in a plane as the results do; else NULL. */
static const ls_fused *only_division(const ls_phase *phase) {
    const ls_program *p = &phase->finish;
    const ls_instr *in = p->instrs[LS_SECTION_LANES];
    const ls_fused *f = in->op == LS_TILE_OP_FUSED ? p->fused[in->access] : NULL;
    if (!f || f->n_steps != 1 || f->loads[0] || (f->steps->op != LS_CHAIN_DIV && f->steps->op != LS_CHAIN_DIV_NEAR)) {
        return NULL;
    }
    if (f->steps->kind == LS_CHAIN_SCALAR) {
        return f;
    }
    const ls_access *a = f->steps->kind == LS_CHAIN_MEMORY && f->loads[f->steps->at] ? &p->accesses[f->loads[f->steps->at] - 1] : NULL;
    const ls_access_dim *plane = a && a->n_dims && !a->n_tables && !a->may_be_absent ? &a->dims[a->n_dims - 1] : NULL;
    return plane && plane->stride == 1 && plane->first <= p->n_lane_axes - 2 && plane->last == p->n_lane_axes - 1 ? f : NULL;
}

bool ls_pooling_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps) {
    const ls_spec *spec = &binary->spec;
    const ls_value *v = &spec->values[phase->value], *load = &spec->values[v->a], *guard = load;
    int bound[2], n = 0, free[2] = {0};
    int64_t extent;
    for (int i = 0; i < v->n_bound; i++) {
        if (!fixed(spec, v->bound[i], &extent) || extent != 1) {
            bound[n & 1] = v->bound[i];
            n++;
        }
    }
    bool places = phase->kind == LS_PHASE_ARG_COLUMNS;
    bool columns = phase->kind == LS_PHASE_COLUMNS && v->acc == LS_F32, sums = columns && v->map == LS_OP_SUM;
    bool extreme = columns && (v->map == LS_OP_AMAX || v->map == LS_OP_AMIN);
    bool may = (extreme || places || sums) && n == 2 && phase->n_axes >= 2 && temps[v->a] < 0 && only_a_load(&phase->program);
    if (may && guard->op == LS_V_GUARD && guard->b == LS_SPEC_NONE && temps[guard->a] < 0) {
        load = &spec->values[guard->a];
    }
    if (!may || load->op != LS_V_LOAD || load->check != LS_SPEC_NONE || load->dtype != LS_F32 ||
        (load == guard && load->n_preds)) {
        return true;
    }
    ls_pooling p = {.places = places, .sums = sums, .buffer = load->arg, .n_outer = phase->n_axes - 2};
    ls_ix_sum_of(spec, load->ix, &p.sum);
    may = !p.sum.failed && !p.sum.n_rest;
    for (int d = 0; d < 2; d++) {
        free[d] = phase->axes[p.n_outer + d];
    }
    for (int32_t i = guard->first_pred; may && load != guard && i < guard->first_pred + guard->n_preds; i++) {
        may = take_pred(spec, &spec->preds[i], free, bound, p.dim);
    }
    for (int32_t i = load->first_pred; may && i < load->first_pred + load->n_preds; i++) {
        bool among = false;
        for (int32_t j = guard->first_pred; j < guard->first_pred + guard->n_preds; j++) {
            const ls_pred *a = &spec->preds[i], *b = &spec->preds[j];
            among = among || (a->ix == b->ix && a->limit == b->limit && a->multiple == b->multiple);
        }
        may = among;
    }
    for (int d = 0; d < 2; d++) {
        may = may && take_dim(spec, &p.sum, free[d], bound[d], &p.dim[d]);
    }
    bool apart = load == guard; /* windows that share nothing: each element is read once anyway */
    p.squares = apart && binary->device->gemm->moves->squares;
    for (int d = 0; d < 2; d++) {
        apart = apart && p.dim[d].step * (p.dim[d].taps - 1) < p.dim[d].stride;
        p.squares = p.squares && p.dim[d].stride == 2 && p.dim[d].step == 1 && p.dim[d].taps == 2;
    }
    p.threes = binary->device->gemm->moves->threes && v->map != LS_OP_AMIN && p.dim[1].first <= 0;
    for (int d = 0; d < 2; d++) {
        p.threes = p.threes && p.dim[d].step == 1 && p.dim[d].taps == 3 && p.dim[d].stride <= (sums ? 1 : 2);
    }
    p.direct = binary->device->cpu.tells_pages && !places ? direct_access(phase) : NULL;
    const bool ends_near = p.dim[1].first >= -2 && p.dim[1].first + p.dim[1].extent <= p.dim[1].limit;
    p.quotient = sums && p.threes && p.direct && ends_near ? only_division(phase) : NULL;
    p.direct = p.quotient || p.squares ? p.direct : NULL;
    const int64_t taps = p.dim[0].taps * p.dim[1].taps;
    if (!may || ((apart || places || (sums && taps > MOST_TAPS)) && !p.squares) || p.dim[1].memory != 1 || !take_block(&p)) {
        return true;
    }
    phase->pooling = LS_ARENA_NEW(&binary->arena, ls_pooling);
    if (phase->pooling) {
        *phase->pooling = p;
        phase->extra += sizeof(float) * (size_t)(3 * room_of(&p) + (sums ? (taps + 1) * PIECE : 0));
    }
    return phase->pooling != NULL;
}

int64_t ls_pooling_grain(const ls_phase *phase) {
    const ls_pooling *p = phase->pooling;
    return p->dim[1].extent * p->lines * p->planes;
}

typedef struct pooled {
    const ls_pooling *p;
    const ls_tile_isa *isa;
    const ls_gemm_moves *moves;
    ls_tile_fn fn;
    uint32_t identity;
    float *image, *joined, *other, *terms;
} pooled;

/* Where a plane begins, u = 0 of both dimensions; the plane's number among all. */
static const float *plane_at(const ls_pooling *p, const ls_phase_task *task, int64_t at) {
    int64_t coords[LS_SPEC_MAX_AXES], base = p->sum.constant;
    for (int t = 0; t < p->sum.n_terms; t++) {
        coords[p->sum.axis[t]] = 0;
    }
    ls_point_coords(task->kernel->extents, p->n_outer, task->phase->axes, at, coords);
    for (int t = 0; t < p->sum.n_terms; t++) {
        base += p->sum.stride[t] * coords[p->sum.axis[t]];
    }
    for (int d = 0; d < 2; d++) { /* `first` counts from where u is 0 */
        base -= p->dim[d].first * p->dim[d].memory;
    }
    return (const float *)(const void *)task->kernel->buffers[p->buffer] + base;
}

static void fill_identities(const pooled *r, int64_t n) {
    for (int64_t i = 0; i < n; i += LS_TILE) {
        r->isa->fill[2](r->image + i, &r->identity, n - i < LS_TILE ? n - i : LS_TILE);
    }
}

/* What `lines` lines of outputs from y0 on need of some planes, with identities around. `at`: the first plane of the block, among all. */
static void copy_planes(const pooled *r, const ls_phase_task *task, int64_t at, int64_t planes, int64_t y0, int64_t lines) {
    const ls_pooling *p = r->p;
    const pooled_dim *y = &p->dim[0], *x = &p->dim[1];
    int64_t pitch = p->pitch, low = x->first < 0 ? -x->first : 0, high = x->limit == INT64_MAX ? pitch : x->limit - x->first;
    int64_t span = x->stride * (x->extent - 1) + x->step * (x->taps - 1) + 1;
    high = high < span ? high : span;
    low = low < high ? low : high;
    int64_t each = lines_of_phase(y, lines), all = planes * each * y->stride * pitch,
            rows = y->stride * (lines - 1) + y->step * (y->taps - 1) + 1;
    int64_t u = y->stride * y0 + y->first, from = u < 0 ? -u : 0, end = y->limit - u < rows ? y->limit - u : rows;
    if (from > 0 || end < rows || high - low < pitch) {
        fill_identities(r, all);
    }
    int64_t most = (end - from + y->stride - 1) / y->stride, full = end - (most - 1) * y->stride, phase0 = from % y->stride,
            line0 = from / y->stride;
    for (int64_t i = 0; i < planes; i++) { /* of a few elements each, perhaps: nothing is divided here */
        const float *plane = plane_at(p, task, at + i) + x->first + low;
        for (int64_t row = from, phase = phase0, line = line0; row < end && row < from + y->stride; row++) {
            float *to = r->image + ((phase * planes + i) * each + line) * pitch + low;
            r->moves->lines4(high - low, most - (row >= full), plane + (u + row) * y->memory, y->stride * y->memory, to, pitch);
            if (++phase == y->stride) {
                phase = 0, line++;
            }
        }
    }
}

/* The extremes of each line's windows, one line of `joined` for each line of outputs and some between planes for nothing; returns their
 * pitch. */
static int64_t join(const pooled *r, int64_t lines, int64_t planes) {
    const pooled_dim *y = &r->p->dim[0], *x = &r->p->dim[1];
    int64_t pitch = r->p->pitch, each = lines_of_phase(y, lines), phase = planes * each * pitch, n = phase - (each - lines) * pitch;
    float *joined = r->joined, *other = r->other;
    for (int64_t t = 1; t < y->taps; t++) {
        int64_t u = t * y->step;
        r->fn(joined, t == 1 ? r->image : joined, r->image + u % y->stride * phase + u / y->stride * pitch, NULL, n);
    }
    int64_t outputs = (n - x->step * (x->taps - 1) + x->stride - 1) / x->stride;
    r->isa->read[2](other, joined, x->stride, outputs);
    for (int64_t t = 1; t < x->taps; t++) {
        const float *from = joined + t * x->step;
        if (x->stride > 1) {
            r->isa->read[2](r->image, from, x->stride, outputs);
            from = r->image;
        }
        r->fn(other, other, from, NULL, outputs);
    }
    return pitch / x->stride;
}

/* The sums of all windows, likewise: of elements q = 0, 1, .. the halves of the largest power of two below their number are added, and so on.
 * No partial is -0, which the last addition sees to. */
static int64_t add(const pooled *r, int64_t lines, int64_t planes) {
    const pooled_dim *y = &r->p->dim[0], *x = &r->p->dim[1];
    const int64_t pitch = r->p->pitch, each = lines_of_phase(y, lines), phase = planes * each * pitch, n = phase - (each - lines) * pitch;
    const int64_t taps = y->taps * x->taps, outputs = (n - x->step * (x->taps - 1) + x->stride - 1) / x->stride;
    float *zeros = r->terms + taps * PIECE;
    const float *first[MOST_TAPS], *terms[MOST_TAPS];
    memset(zeros, 0, PIECE * sizeof *zeros);
    for (int64_t q = 0; q < taps; q++) {
        const int64_t u = q / x->taps * y->step;
        first[q] = r->image + u % y->stride * phase + u / y->stride * pitch + q % x->taps * x->step;
    }
    for (int64_t at = 0, some; at < outputs; at += some) {
        some = outputs - at < PIECE ? outputs - at : PIECE;
        for (int64_t q = 0; q < taps; q++) {
            terms[q] = first[q] + at * x->stride;
            if (x->stride > 1) {
                r->isa->read[2](r->terms + q * PIECE, terms[q], x->stride, some);
                terms[q] = r->terms + q * PIECE;
            }
        }
        if (taps == 9) {
            r->isa->sum_nine_f32(r->other + at, terms, some);
            continue;
        }
        for (int64_t count = taps, half; count > 1; count = half) {
            for (half = 1; 2 * half < count; half *= 2) {
            }
            for (int64_t q = half; q < count; q++) {
                float *sum = r->terms + (q - half) * PIECE;
                r->fn(sum, terms[q - half], terms[q], NULL, some);
                terms[q - half] = sum;
            }
        }
        r->fn(r->other + at, terms[0], zeros, NULL, some);
    }
    return pitch / x->stride;
}

bool ls_phase_pooled(const ls_phase_task *task, ls_tile_fn fn, uint64_t identity, ls_run *finish,
                     char *scratch) {
    const ls_phase *phase = task->phase;
    const ls_pooling *p = phase->pooling;
    const int64_t width = p->dim[1].extent, height = p->dim[0].extent, room = room_of(p);
    if (task->first % width || task->n % width) {
        return false;
    }
    const uint8_t map = task->kernel->binary->spec.values[phase->value].map;
    const ls_square what = map == LS_OP_SUM ? LS_SQUARE_SUM : map == LS_OP_AMIN || map == LS_OP_ARGMIN ? LS_SQUARE_LEAST : LS_SQUARE_MOST;
    float *image = (float *)(void *)scratch;
    pooled r = {p,
                finish->isa,
                task->kernel->binary->device->gemm->moves,
                fn,
                (uint32_t)identity,
                image,
                image + room,
                image + 2 * room,
                image + 3 * room};
    const ls_chain_step *division = p->quotient ? p->quotient->steps : NULL;
    const ls_access *divisors = division && division->kind == LS_CHAIN_MEMORY ? &phase->finish.accesses[p->quotient->loads[division->at] - 1] : NULL;
    if (p->threes) {
        fill_identities(&r, p->pitch);
        for (int64_t i = 0; division && !divisors && i < width; i++) {
            r.joined[i] = *(const float *)ls_run_reg(finish, p->quotient->scalars[division->at]);
        }
    }
    for (int64_t at = task->first / width, end = at + task->n / width, n; at < end; at += n) {
        int64_t plane = at / height, y0 = at % height, planes = 1;
        n = height - y0 < p->lines ? height - y0 : p->lines;
        n = n < end - at ? n : end - at;
        if (n == height) {
            planes = (end - at) / height < p->planes ? (end - at) / height : p->planes;
        }
        if (p->direct) {
            finish->regs[phase->finish.input] = (float *)(void *)finish->buffers[p->direct->buffer] + at * width;
        }
        float *input = ls_run_reg(finish, phase->finish.input);
        if (p->threes) {
            const pooled_dim *y = &p->dim[0], *x = &p->dim[1];
            ls_threes t = {.what = what, .second = finish->fetches_second, .none = image, .line = y->stride * y0 + y->first, .step = y->stride,
                           .height = y->limit, .pitch = y->memory, .first = x->first, .stride = x->stride, .n = width, .lines = n,
                           .divisors = division ? r.joined : NULL, .divisors_step = divisors ? width : 0};
            t.limit = x->first + x->stride * (width - 1) + 3;
            t.limit = t.limit < x->limit ? t.limit : x->limit;
            for (int64_t i = 0; i < planes; i++) {
                t.plane = plane_at(p, task, plane + i);
                t.dst = input + i * n * width;
                if (divisors) {
                    ls_run_seek(finish, (at + i * n) * width);
                    t.divisors = (const float *)(const void *)finish->buffers[divisors->buffer] + ls_run_place(finish, divisors);
                }
                r.moves->threes(&t);
            }
        } else if (p->squares) {
            float *to = p->places ? image : input;
            for (int64_t i = 0, line = p->dim[0].memory; i < planes; i++) {
                r.moves->squares(what, p->places, width, n, plane_at(p, task, plane + i) + 2 * y0 * line, line,
                                 to + i * n * width, finish->fetches_second);
            }
            if (p->places) {
                r.isa->cast_int[LS_U32][3](input, image, planes * n * width);
            }
        } else {
            copy_planes(&r, task, plane, planes, y0, n);
            int64_t pitch = (p->sums ? add : join)(&r, n, planes), each = lines_of_phase(&p->dim[0], n);
            for (int64_t i = 0; i < planes; i++) {
                r.moves->lines4(width, n, r.other + i * each * pitch, pitch, input + i * n * width, width);
            }
        }
        n *= planes;
        if (!p->quotient) {
            ls_run_lanes(finish, at * width, n * width);
        }
    }
    return true;
}
