/* Reductions and naive contractions over tiles, in the contract's order (docs/contract.md).
 *
 * A block's halving is done in bit-reversed order of the partials: partials p and p + 128 are neighbours
 * then, so that a stack of nine tiles is enough, and a partial without elements (an identity) is left out:
 * combining with one changes no bits, because a partial that starts from +0 is never -0. */
#include "backend/cpu/kernel.h"
#include <string.h>

enum { LEVELS = 9 };

static ls_tile_fn acc_fn(const ls_tile_isa *isa, ls_op op, ls_dtype acc) {
    return acc == LS_F64            ? isa->map_f64[op]
           : ls_dtype_is_float(acc) ? isa->map_f32[op]
                                    : ls_tile_int_fn(isa, op, acc);
}
static ls_op combine_op(const ls_value *v) {
    return v->map == LS_OP_SUM    ? LS_OP_ADD
           : v->map == LS_OP_PROD ? LS_OP_MUL
           : v->map == LS_OP_AMIN ? LS_OP_MIN
                                  : LS_OP_MAX;
}

uint64_t ls_fold_identity(ls_op op, ls_dtype dtype) { /* held form; op as ls_value.map of REDUCE */
    size_t size = ls_dtype_size(dtype);
    uint64_t all = ~UINT64_C(0) >> (64 - 8 * size), top = UINT64_C(1) << (8 * size - 1);
    bool real = ls_dtype_is_float(dtype), f64 = dtype == LS_F64, is_signed = ls_dtype_is_signed(dtype);
    uint64_t infinity = f64 ? UINT64_C(0x7ff) << 52 : UINT64_C(0x7f800000),
             minus = f64 ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    switch (op) {
    case LS_OP_PROD:
        return f64 ? UINT64_C(0x3ff) << 52 : real ? UINT64_C(0x3f800000) : 1;
    case LS_OP_AMIN:
        return real ? infinity : dtype == LS_BOOL ? 1 : is_signed ? all >> 1 : all;
    case LS_OP_AMAX:
        return real ? infinity | minus : is_signed ? top : 0;
    default:
        return 0;
    }
}

static size_t lane_size(const ls_value *v) {
    return ls_tile_held_size(ls_input_dtype(v));
}

size_t ls_phase_extra(const ls_spec *spec, const ls_phase *phase) {
    if (phase->kind == LS_PHASE_STORE || phase->kind == LS_PHASE_GEMM) {
        return 0;
    }
    const ls_value *v = &spec->values[phase->value];
    size_t n = (size_t)ls_spec_points(spec, v->bound, v->n_bound), tile = LS_TILE * 8;
    switch (phase->kind) {
    case LS_PHASE_ROWS:
        return (n / LS_TILE_BLOCK + 2) * 16 + 2 * tile;
    case LS_PHASE_COLUMNS:
        return (2 * (n / LS_TILE_BLOCK) + 4 + LEVELS + 1) * tile;
    case LS_PHASE_SCAN:
    case LS_PHASE_SCAN_LINES:
        return (2 * LS_SCAN_LEVELS + 3) * tile;
    case LS_PHASE_SORT:
        return (n + 8) * 32 + tile;
    default:
        return 8 * tile;
    }
}

ls_run *ls_phase_run(const ls_phase_task *task, const ls_program *program, size_t *offset, ls_run *run) {
    ls_kernel_run *kernel = task->kernel;
    const ls_phase *phase = task->phase;
    bool reduces = phase->value != LS_SPEC_NONE && program != &phase->finish;
    size_t bytes = (ls_run_bytes(program) + LS_ALIGN - 1) & ~(size_t)(LS_ALIGN - 1);
    if (kernel->begun) {
        run = &kernel->begun[2 * (phase - kernel->binary->phases) + !(program == &phase->program)];
        run->expanded = -1;
        *offset += bytes;
        return run;
    }
    const ls_value *v = reduces ? &kernel->binary->spec.values[phase->value] : NULL;
    *run = (ls_run){.empty = v && ls_point_count(kernel->extents, v->n_bound, v->bound) == 0,
                    .spec = &kernel->binary->spec,
                    .isa = kernel->binary->device->tiles,
                    .folds_fetch = kernel->binary->device->cpu.folds_fetch,
                    .fetches_second = kernel->binary->device->cpu.fetches_second,
                    .reads_halves = kernel->binary->device->cpu.reads_halves,
                    .reads_four = kernel->binary->device->cpu.reads_four,
                    .buffers = kernel->buffers,
                    .extents = kernel->extents,
                    .symbols = kernel->launch->symbols,
                    .out_of_range = &kernel->out_of_range};
    ls_run_begin(run, program, task->scratch + *offset);
    int64_t lines = 0, instrs = 0;
    ls_fetch_count(program, &lines, &instrs);
    run->fetches.lines = reduces && phase->streams ? 0 : ls_fetch_share(lines, instrs); /* folds and their chains fetch for themselves */
    *offset += bytes;
    return run;
}

void ls_phase_begin(const ls_phase_task *task, const ls_program *program, size_t *offset, ls_run *run) {
    const ls_run *begun = ls_phase_run(task, program, offset, run);
    if (begun != run) {
        *run = *begun;
    }
}

/* Begins both programs; where scratch memory goes on. */
static size_t begin_both(const ls_phase_task *task, ls_run *run, ls_run *finish) {
    size_t offset = 0;
    ls_phase_begin(task, &task->phase->program, &offset, run);
    ls_phase_begin(task, &task->phase->finish, &offset, finish);
    ls_run_point(finish);
    return offset;
}

/* ---- rows ---- */
/* Reduces partials[0..256) to partials[0]. */
static void halve(ls_tile_fn fn, char *partials, size_t size) {
    for (int64_t half = LS_TILE_PARTIALS / 2; half > 0; half /= 2) {
        fn(partials, partials, partials + (size_t)half * size, NULL, half);
    }
}

/* Reduces n > 1 block results in place, as blocks of the next level. */
static void reduce_blocks(const ls_tile_isa *isa, ls_tile_fn fn, uint64_t identity, char *cells, int64_t n,
                          char *partials, size_t size) {
    int log2 = ls_tile_log2(size);
    while (n > 1) {
        int64_t blocks = 0;
        for (int64_t first = 0; first < n; first += LS_TILE_BLOCK, blocks++) {
            int64_t end = first + LS_TILE_BLOCK < n ? first + LS_TILE_BLOCK : n;
            isa->fill[log2](partials, &identity, LS_TILE_PARTIALS);
            for (int64_t i = first; i < end; i += LS_TILE_PARTIALS) {
                fn(partials, partials, cells + (size_t)i * size, NULL,
                   end - i < LS_TILE_PARTIALS ? end - i : LS_TILE_PARTIALS);
            }
            halve(fn, partials, size);
            memcpy(cells + (size_t)blocks * size, partials, size);
        }
        n = blocks;
    }
}

int ls_f32_fold(const ls_tile_isa *isa, const ls_value *v) {
    int which = v->map == LS_OP_SUM    ? LS_FOLD_SUM
                : v->map == LS_OP_PROD ? LS_FOLD_PROD
                : v->map == LS_OP_AMIN ? LS_FOLD_MIN
                : v->map == LS_OP_AMAX ? LS_FOLD_MAX
                                       : -1;
    bool f32 = ls_dtype_is_float((ls_dtype)v->acc) && v->acc != LS_F64;
    return f32 && which >= 0 && isa->fold_f32[which] ? which : -1;
}

/* One block of a row of f32: the same order as below, but where tiles end after `row` lanes. */
static void fold_block(ls_run *run, int which, int64_t row, int64_t first, int64_t end, float *partials) {
    for (int64_t at = first, lanes; at < end; at += lanes) {
        const int64_t left = row - at % row, most = left < LS_TILE ? left : LS_TILE;
        lanes = end - at < most ? end - at : most;
        ls_run_lanes(run, at, lanes);
        run->isa->fold_f32[which](partials, ls_run_reg(run, run->program->results[0]), lanes, at == first, false);
    }
    run->isa->halve_f32[which](partials);
}

typedef struct rows {
    ls_run *run, *finish, own[2];
    const ls_phase *phase;
    const ls_value *v;
    ls_tile_fn fn;
    uint64_t identity;
    size_t size;
    char *partials, *cells; /* the results of a point's blocks */
    int64_t blocks;
} rows;

static void begin_rows(rows *r, const ls_phase_task *task) {
    size_t offset = 0;
    r->phase = task->phase;
    r->v = &task->kernel->binary->spec.values[r->phase->value];
    r->run = ls_phase_run(task, &r->phase->program, &offset, &r->own[0]);
    r->finish = ls_phase_run(task, &r->phase->finish, &offset, &r->own[1]);
    r->fn = acc_fn(r->run->isa, combine_op(r->v), (ls_dtype)r->v->acc);
    r->identity = ls_fold_identity((ls_op)r->v->map, (ls_dtype)r->v->acc);
    r->size = lane_size(r->v);
    r->partials = task->scratch + offset;
    r->cells = r->partials + LS_TILE * 8;
}

/* Blocks [block, end) of a point, lanes along the bound axes, into their cells. */
static void fold_blocks(rows *r, int64_t point, int64_t block, int64_t end, char *cells) {
    ls_run *run = r->run;
    int log2 = ls_tile_log2(r->size), which = ls_f32_fold(run->isa, r->v);
    int64_t n = ls_point_count(run->extents, r->v->n_bound, r->v->bound), row = ls_row_lanes(r->phase, run->program, run->extents);
    ls_point_coords(run->extents, r->phase->n_axes, r->phase->axes, point, run->coords);
    ls_run_point(run);
    if (!LS_SMALL && r->phase->streams && block < end) {
        int64_t first = block * LS_TILE_BLOCK, last = end * LS_TILE_BLOCK < n ? end * LS_TILE_BLOCK : n;
        ls_fold_by_rows(run, which, point * n + first, 1, last - first, (float *)(void *)r->partials, (float *)(void *)cells + block, NULL,
                        NULL);
        return;
    }
    for (; block < end; block++) {
        int64_t first = block * LS_TILE_BLOCK, last = first + LS_TILE_BLOCK < n ? first + LS_TILE_BLOCK : n;
        char *cell = cells + (size_t)block * r->size;
        if (!LS_SMALL && which >= 0) {
            fold_block(run, which, row, first, last, (float *)(void *)r->partials);
            memcpy(cell, r->partials, r->size);
            continue;
        }
        run->isa->fill[log2](r->partials, &r->identity, LS_TILE_PARTIALS);
        for (int64_t at = first; at < last; at += LS_TILE) {
            int64_t lanes = last - at < LS_TILE ? last - at : LS_TILE;
            ls_run_lanes(run, at, lanes);
            const char *x = ls_run_reg(run, run->program->results[0]);
            for (int64_t i = 0; i < lanes; i += LS_TILE_PARTIALS) {
                r->fn(r->partials, r->partials, x + (size_t)i * r->size, NULL,
                      lanes - i < LS_TILE_PARTIALS ? lanes - i : LS_TILE_PARTIALS);
            }
        }
        halve(r->fn, r->partials, r->size);
        memcpy(cell, r->partials, r->size);
    }
}

/* A point's result, from those of its blocks. */
static void finish_row(rows *r, int64_t blocks, char *out) {
    if (blocks) {
        reduce_blocks(r->run->isa, r->fn, r->identity, r->cells, blocks, r->partials, r->size);
    }
    memcpy(out, blocks ? r->cells : (char *)&r->identity, r->size);
}

static int64_t blocks_of(const ls_kernel_run *kernel, const ls_phase *phase) {
    const ls_value *v = &kernel->binary->spec.values[phase->value];
    return (ls_point_count(kernel->extents, v->n_bound, v->bound) + LS_TILE_BLOCK - 1) / LS_TILE_BLOCK;
}

static void finish_streamed(void *ctx, int64_t row) {
    rows *r = ctx;
    char *input = ls_run_reg(r->finish, r->phase->finish.input);
    finish_row(r, r->blocks, input + (size_t)row * r->size);
}

void ls_phase_rows(const ls_phase_task *task) {
    rows r;
    begin_rows(&r, task);
    ls_run_point(r.finish);
    int64_t blocks = r.blocks = blocks_of(task->kernel, task->phase);
    for (int64_t at = 0; at < task->n; at += LS_TILE) {
        int64_t lanes = task->n - at < LS_TILE ? task->n - at : LS_TILE;
        char *input = ls_run_reg(r.finish, r.phase->finish.input);
        if (!LS_SMALL && r.phase->streams && blocks) {
            int64_t inner = ls_point_count(r.run->extents, r.v->n_bound, r.v->bound);
            ls_fold_by_rows(r.run, ls_f32_fold(r.run->isa, r.v), (task->first + at) * inner, lanes, inner, (float *)(void *)r.partials,
                            (float *)(void *)(blocks == 1 ? input : r.cells), blocks == 1 ? NULL : finish_streamed, &r);
            ls_run_lanes(r.finish, task->first + at, lanes);
            continue;
        }
        for (int64_t i = 0; i < lanes; i++) {
            fold_blocks(&r, task->first + at + i, 0, blocks, r.cells);
            finish_row(&r, blocks, input + (size_t)i * r.size);
        }
        ls_run_lanes(r.finish, task->first + at, lanes);
    }
}

/* ---- rows of many blocks, fewer than there are threads: those share the blocks ---- */
typedef struct shared_row {
    ls_kernel_run *kernel;
    const ls_phase *phase;
    int64_t point, blocks, part; /* of a task */
    char *cells;                 /* the first worker's */
} shared_row;

static void run_blocks(void *ctx, long task, int worker) {
    const shared_row *s = ctx;
    rows r;
    begin_rows(&r, &(ls_phase_task){s->kernel, s->phase, ls_worker_scratch(s->kernel, worker), s->point, 1});
    int64_t first = task * s->part, left = s->blocks - first;
    fold_blocks(&r, s->point, first, first + (left < s->part ? left : s->part), s->cells);
}

bool ls_phase_rows_shared(ls_kernel_run *kernel, const ls_phase *phase, int64_t points, double work) {
    const ls_cpu_device *d = kernel->binary->device;
    shared_row s = {.kernel = kernel, .phase = phase, .blocks = blocks_of(kernel, phase)};
    if (points >= d->threads || s.blocks < d->threads) {
        return false;
    }
    s.part = ls_task_points(d, s.blocks, 1, work);
    for (rows r; s.point < points; s.point++) {
        ls_phase_task task = {kernel, phase, ls_worker_scratch(kernel, 0), s.point, 1};
        begin_rows(&r, &task);
        s.cells = r.cells;
        ls_pool_run(d->pool, (long)((s.blocks + s.part - 1) / s.part), run_blocks, &s);
        begin_rows(&r, &task); /* the first worker used their registers */
        ls_run_point(r.finish);
        finish_row(&r, s.blocks, ls_run_reg(r.finish, phase->finish.input));
        ls_run_lanes(r.finish, s.point, 1);
    }
    return true;
}

/* ---- columns ---- */
typedef struct columns {
    ls_run *run;
    const ls_value *v;
    const ls_phase *phase;
    ls_tile_fn fn;
    uint64_t identity;
    bool keeps;        /* combining with the identity returns the other operand: not so for +0 + -0 */
    size_t size, tile; /* bytes of a lane, and of a tile in the stack */
    int64_t first, lanes;
    char *stack;      /* LEVELS tiles */
    ls_even_rows even;
    bool far;         /* elements are rows of a large argument, in an order that no processor foresees */
    const char *last; /* where element last_k was */
    int64_t last_k;
} columns;

/* Asks for the element that comes after k's, at x. */
static void ask_ahead(columns *c, const char *x, int64_t k, int64_t next) {
    int64_t steps = k - c->last_k, step = steps ? (x - c->last) / steps : 0;
    uintptr_t at = (uintptr_t)x + (uintptr_t)((next - k) * step);
    c->last = x;
    c->last_k = k;
    for (size_t i = 0; i < (size_t)c->lanes * c->size; i += 512) {
        __builtin_prefetch((const void *)(at + i), 0, 2);
    }
}

/* Computes element k of the operand in all lanes. */
static const char *element(columns *c, int64_t k) {
    ls_point_coords(c->run->extents, c->v->n_bound, c->v->bound, k, c->run->coords);
    ls_run_point(c->run);
    ls_run_lanes(c->run, c->first, c->lanes);
    return ls_run_reg(c->run, c->run->program->results[0]);
}

typedef const char *(*column_element)(columns *c, const void *source, int64_t k);
static const char *operand_element(columns *c, const void *source, int64_t k) {
    (void)source;
    return element(c, k);
}
static const char *cell_element(columns *c, const void *source, int64_t k) {
    return (const char *)source + (size_t)k * c->tile;
}

static unsigned reversed(unsigned q) { /* eight bits */
    q = (q & 0xf0) >> 4 | (q & 0x0f) << 4;
    q = (q & 0xcc) >> 2 | (q & 0x33) << 2;
    return (q & 0xaa) >> 1 | (q & 0x55) << 1;
}

/* Reduces elements [first, end) of one block into `out`. */
static void reduce_column_block(columns *c, column_element get, const void *source, int64_t first,
                                int64_t end, char *out) {
    const ls_tile_isa *isa = c->run->isa;
    const bool even = !LS_SMALL && c->even.first && get == operand_element;
    const int which = ls_f32_fold(isa, c->v);
    if (even && (which == LS_FOLD_MIN || which == LS_FOLD_MAX)) { /* the same in any order: in that of memory */
        ls_even_rows_fold(&c->even, isa, which, (float *)(void *)out, first, end, 1, c->lanes, -1);
        return;
    }
    int log2 = ls_tile_log2(c->size), depth = 0;
    int level[LEVELS + 1]; /* of each tile on the stack: how many merges it stands for */
    unsigned step = LS_TILE_PARTIALS;
    while (step > 1 &&
           LS_TILE_PARTIALS / step < end - first) { /* leaves between the steps have no elements */
        step /= 2;
    }
    for (unsigned q = 0; q < LS_TILE_PARTIALS; q += step) {
        int64_t p = first + reversed(q);
        int rank = 0;
        bool have = p < end;
        if (have) {
            char *top = c->stack + (size_t)depth * c->tile;
            int64_t k = p;
            if (even) {
                int64_t next = first + reversed((q + step) % LS_TILE_PARTIALS);
                ls_even_rows_fold(&c->even, isa, which, (float *)(void *)top, p, end, LS_TILE_PARTIALS, c->lanes, c->far ? next : -1);
                k = end;
            } else if (c->keeps) {
                memcpy(top, get(c, source, k), (size_t)c->lanes * c->size);
                k += LS_TILE_PARTIALS;
            } else {
                isa->fill[log2](top, &c->identity, c->lanes);
            }
            for (; k < end; k += LS_TILE_PARTIALS) {
                const char *x = get(c, source, k);
                if (!LS_SMALL && c->far) {
                    bool same = k + LS_TILE_PARTIALS < end;
                    ask_ahead(c, x, k,
                              same ? k + LS_TILE_PARTIALS : first + reversed((q + step) % LS_TILE_PARTIALS));
                }
                c->fn(top, top, x, NULL, c->lanes);
            }
            level[depth++] = (int)q;
        }
        /* Merge what the halving tree merges after leaf q: a subtree of 2^rank leaves is complete when q ends
         * in rank ones. */
        for (unsigned ones = q | (step - 1); ones & 1; ones >>= 1) {
            rank++;
            int subtree = (int)(q >> rank);
            if (depth >= 2 && (level[depth - 1] >> rank) == subtree &&
                (level[depth - 2] >> rank) == subtree) {
                char *left = c->stack + (size_t)(depth - 2) * c->tile;
                c->fn(left, left, left + c->tile, NULL, c->lanes);
                depth--;
            }
        }
    }
    if (depth == 0) {
        isa->fill[log2](out, &c->identity, c->lanes);
    } else {
        memcpy(out, c->stack, (size_t)c->lanes * c->size);
    }
}

void ls_phase_columns(const ls_phase_task *task) {
    const ls_phase *phase = task->phase;
    const ls_value *v = &task->kernel->binary->spec.values[phase->value];
    ls_run run, finish;
    size_t offset = begin_both(task, &run, &finish);
    columns c = {.run = &run,
                 .v = v,
                 .phase = phase,
                 .fn = acc_fn(run.isa, combine_op(v), (ls_dtype)v->acc),
                 .identity = ls_fold_identity((ls_op)v->map, (ls_dtype)v->acc),
                 .keeps = v->map != LS_OP_SUM,
                 .size = lane_size(v)};
    c.tile = LS_TILE * c.size;
    c.stack = task->scratch + offset;
    const ls_program *p = &phase->program;
    const ls_instr *only = p->n_instrs[LS_SECTION_LANES] == 1 ? p->instrs[LS_SECTION_LANES] : NULL;
    bool large = !LS_SMALL && only && only->op == LS_TILE_OP_LOAD && ls_buffer_is_large(run.spec, p->accesses[only->access].buffer);
    if (phase->pooling && ls_phase_pooled(task, c.fn, c.identity, &finish, c.stack)) {
        return;
    }
    char *cells = c.stack + (LEVELS + 1) * c.tile;
    int64_t n = ls_point_count(run.extents, v->n_bound, v->bound), tile = ls_program_tile(run.program);
    for (int64_t at = 0; at < task->n; at += tile) {
        c.first = task->first + at;
        c.lanes = task->n - at < tile ? task->n - at : tile;
        int64_t blocks = 0;
        if (!LS_SMALL && n > 0) {
            c.even = ls_even_rows_of(&run, v, c.first);
        }
        for (int64_t first = 0; first < n; first += LS_TILE_BLOCK, blocks++) {
            int64_t end = first + LS_TILE_BLOCK < n ? first + LS_TILE_BLOCK : n;
            c.far = large;
            reduce_column_block(&c, operand_element, NULL, first, end, cells + (size_t)blocks * c.tile);
            c.far = false;
        }
        if (blocks == 0) {
            run.isa->fill[ls_tile_log2(c.size)](cells, &c.identity, c.lanes);
        }
        while (blocks > 1) {
            int64_t level = 0;
            for (int64_t first = 0; first < blocks; first += LS_TILE_BLOCK, level++) {
                int64_t end = first + LS_TILE_BLOCK < blocks ? first + LS_TILE_BLOCK : blocks;
                reduce_column_block(&c, cell_element, cells, first, end, cells + (size_t)level * c.tile);
            }
            blocks = level;
        }
        memcpy(ls_run_reg(&finish, phase->finish.input), cells, (size_t)c.lanes * c.size);
        ls_run_lanes(&finish, c.first, c.lanes);
    }
}

/* ---- naive contraction: serial in k within chunks, chunk sums added in order ---- */
/* An operand of f32 of which each lane has a run of memory, `step` elements from the one of the lane before; NULL: it is no such one. */
static const float *lane_runs(ls_run *run, const ls_value *v, int16_t reg, int64_t first, int64_t *step) {
    const ls_program *p = run->program;
    const ls_access *a = NULL;
    for (int i = 0; i < p->n_instrs[LS_SECTION_LANES]; i++) {
        const ls_instr *in = &p->instrs[LS_SECTION_LANES][i];
        a = in->dst == reg && in->op == LS_TILE_OP_LOAD && in->dtype == LS_F32 ? &p->accesses[in->access] : a;
    }
    if (!a || a->n_tables || a->n_dims != 1 || a->dims[0].first > 0 || a->dims[0].last < p->n_lane_axes - 1) {
        return NULL;
    }
    int64_t span = 1;
    for (int i = v->n_bound - 1; i >= 0; span *= run->extents[v->bound[i--]]) {
        if (ls_access_stride(a, v->bound[i]) != span && run->extents[v->bound[i]] > 1) {
            return NULL;
        }
    }
    ls_point_coords(run->extents, v->n_bound, v->bound, 0, run->coords);
    ls_run_seek(run, first);
    *step = a->dims[0].stride;
    return (const float *)(const void *)run->buffers[a->buffer] + ls_run_place(run, a);
}

/* Four lanes at a time, their products turned so that each has a sum of its own in a vector; of the last ones some are the same. */
typedef float quad __attribute__((vector_size(16)));
typedef float quad_any __attribute__((vector_size(16), aligned(4), may_alias));
static quad four_products(const float *x, const float *y) {
    return *(const quad_any *)x * *(const quad_any *)y;
}
static void sum_runs(const float *x, int64_t x_step, const float *y, int64_t y_step, int64_t n, int64_t lanes, float *total) {
    for (int64_t at = 0; at < lanes; at += 4) {
        const float *xs[4], *ys[4];
        for (int i = 0; i < 4; i++) {
            int64_t lane = at + i < lanes ? at + i : at;
            xs[i] = x + lane * x_step;
            ys[i] = y + lane * y_step;
        }
        for (int64_t k = 0; k < n; k += LS_TILE_CHUNK) {
            int64_t end = n - k < LS_TILE_CHUNK ? n : k + LS_TILE_CHUNK, p = k;
            quad s = {0};
            for (; p + 4 <= end; p += 4) {
                quad a = four_products(xs[0] + p, ys[0] + p), b = four_products(xs[1] + p, ys[1] + p);
                quad c = four_products(xs[2] + p, ys[2] + p), d = four_products(xs[3] + p, ys[3] + p);
                quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
                quad cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
                s += __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
                s += __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
                s += __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
                s += __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
            }
            for (; p < end; p++) {
                s += (quad){xs[0][p], xs[1][p], xs[2][p], xs[3][p]} * (quad){ys[0][p], ys[1][p], ys[2][p], ys[3][p]};
            }
            for (int i = 0; i < 4 && at + i < lanes; i++) {
                total[at + i] = k ? total[at + i] + s[i] : s[i];
            }
        }
    }
}

void ls_phase_sums(const ls_phase_task *task) {
    const ls_phase *phase = task->phase;
    const ls_value *v = &task->kernel->binary->spec.values[phase->value];
    ls_run run, finish;
    size_t offset = begin_both(task, &run, &finish), size = lane_size(v);
    const ls_tile_isa *isa = run.isa;
    ls_tile_fn mul = acc_fn(isa, LS_OP_MUL, (ls_dtype)v->acc), sum = acc_fn(isa, LS_OP_ADD, (ls_dtype)v->acc);
    int log2 = ls_tile_log2(size);
    char *chunk = task->scratch + offset, *product = chunk + LS_TILE * size, *zero = product + LS_TILE * size;
    memset(zero, 0, LS_TILE * size);
    int64_t n = ls_point_count(run.extents, v->n_bound, v->bound);
    bool by_runs = !LS_SMALL && v->acc == LS_F32 && run.program->results[2] < 0;
    for (int64_t at = 0; at < task->n; at += LS_TILE) {
        int64_t lanes = task->n - at < LS_TILE ? task->n - at : LS_TILE;
        char *total = ls_run_reg(&finish, phase->finish.input);
        int64_t x_step, y_step;
        const float *x = by_runs ? lane_runs(&run, v, run.program->results[0], task->first + at, &x_step) : NULL;
        const float *y = x ? lane_runs(&run, v, run.program->results[1], task->first + at, &y_step) : NULL;
        if (y && n > 0) {
            sum_runs(x, x_step, y, y_step, n, lanes, (float *)(void *)total);
            ls_run_lanes(&finish, task->first + at, lanes);
            continue;
        }
        memset(total, 0, (size_t)lanes * size);
        memset(chunk, 0, (size_t)lanes * size);
        for (int64_t k = 0; k < n; k++) {
            ls_point_coords(run.extents, v->n_bound, v->bound, k, run.coords);
            ls_run_point(&run);
            ls_run_lanes(&run, task->first + at, lanes);
            mul(product, ls_run_reg(&run, run.program->results[0]), ls_run_reg(&run, run.program->results[1]),
                NULL, lanes);
            if (run.program->results[2] >= 0) { /* adding +0 skips the term: no sum from +0 is ever -0 */
                isa->select[log2](product, ls_run_reg(&run, run.program->results[2]), product, zero, lanes);
            }
            sum(chunk, chunk, product, NULL, lanes);
            if (k % LS_TILE_CHUNK == LS_TILE_CHUNK - 1 || k == n - 1) {
                if (k < LS_TILE_CHUNK) {
                    memcpy(total, chunk, (size_t)lanes * size);
                } else {
                    sum(total, total, chunk, NULL, lanes);
                }
                memset(chunk, 0, (size_t)lanes * size);
            }
        }
        ls_run_lanes(&finish, task->first + at, lanes);
    }
}

/* ---- argmin and argmax: the first NaN, else the lowest index of the best ---- */
typedef struct best {
    const ls_tile_isa *isa;
    ls_dtype dtype;
    bool largest;
    size_t size;
    char *value, *better, *other;
    uint8_t *started;
    int64_t *index, *at;
} best;

/* better[i]: whether x[i] goes before value[i], indices apart. */
static void compare(const best *b, uint8_t *better, uint8_t *other, const char *x, const char *value,
                    int64_t n) {
    ls_tile_fn less = acc_fn(b->isa, LS_OP_LT, b->dtype), both = b->isa->map_int[LS_TILE_INT_AND][LS_BOOL];
    less(better, b->largest ? value : x, b->largest ? x : value, NULL, n);
    if (ls_dtype_is_float(b->dtype)) {
        ls_tile_fn nan = acc_fn(b->isa, LS_OP_ISNAN, b->dtype);
        nan(other, value, NULL, NULL, n);
        b->isa->map_int[LS_TILE_INT_NOT][LS_BOOL](other, other, NULL, NULL, n);
        uint8_t *x_nan = other + LS_TILE;
        nan(x_nan, x, NULL, NULL, n);
        both(other, other, x_nan, NULL, n);
        b->isa->map_int[LS_TILE_INT_OR][LS_BOOL](better, better, other, NULL, n);
    }
}

static void best_step(const best *b, const char *x, const uint8_t *mask, const int64_t *at, int64_t n) {
    uint8_t *better = (uint8_t *)b->better;
    compare(b, better, (uint8_t *)b->other, x, b->value, n);
    for (int64_t i = 0; i < n; i++) {
        uint8_t here = !mask || mask[i];
        better[i] = here && (!b->started[i] || better[i]);
        b->started[i] |= here;
    }
    b->isa->select[ls_tile_log2(b->size)](b->value, better, x, b->value, n);
    b->isa->select[3](b->index, better, at, b->index, n);
}

static int64_t best_of_lanes(const best *b, int64_t n) {
    int64_t chosen = -1;
    for (int64_t i = 0; i < n; i++) {
        uint8_t better[LS_TILE], other[2 * LS_TILE];
        if (!b->started[i]) {
            continue;
        }
        if (chosen >= 0) {
            const char *x = b->value + (size_t)i * b->size, *y = b->value + (size_t)chosen * b->size;
            compare(b, better, other, x, y, 1);
            if (!better[0]) {
                compare(b, better, other, y, x, 1);
                if (better[0] || b->index[i] > b->index[chosen]) {
                    continue;
                }
            }
        }
        chosen = i;
    }
    return chosen < 0 ? 0 : b->index[chosen];
}

/* Lanes along the free axes, f32 without absent elements: one fused step an element. */
static void arg_columns_f32(const ls_phase_task *task, ls_run *run, ls_run *finish, const best *b,
                            int64_t n) {
    const ls_phase *phase = task->phase;
    const ls_value *v = &task->kernel->binary->spec.values[phase->value];
    uint32_t *index = (uint32_t *)(void *)b->index;
    int64_t tile = ls_program_tile(run->program);
    for (int64_t at = 0; at < task->n; at += tile) {
        int64_t lanes = task->n - at < tile ? task->n - at : tile;
        memset(index, 0, LS_TILE * sizeof *index);
        for (int64_t k = 0; k < n; k++) {
            ls_point_coords(run->extents, v->n_bound, v->bound, k, run->coords);
            ls_run_point(run);
            ls_run_lanes(run, task->first + at, lanes);
            const float *x = ls_run_reg(run, run->program->results[0]);
            if (k == 0) {
                memcpy(b->value, x, (size_t)lanes * sizeof *x);
            } else {
                run->isa->arg_f32[b->largest]((float *)(void *)b->value, index, x, (uint32_t)k, lanes);
            }
        }
        run->isa->cast_int[LS_U32][3](ls_run_reg(finish, phase->finish.input), index, lanes);
        ls_run_lanes(finish, task->first + at, lanes);
    }
}

/* The same with lanes along the bound axes, where there are folds: the best tile by its extreme, then the place in it. */
static int64_t arg_row_by_folds(ls_run *run, const best *b, int64_t n) {
    float found = 0, *partials = (float *)(void *)b->value;
    int64_t best_tile = -1;
    int which = b->largest ? LS_FOLD_MAX : LS_FOLD_MIN;
    for (int64_t k = 0; k < n; k += LS_TILE) {
        int64_t lanes = n - k < LS_TILE ? n - k : LS_TILE;
        fold_block(run, which, INT64_MAX, k, k + lanes, partials);
        float x = partials[0];
        if (best_tile < 0 || (found == found && (x != x || (b->largest ? x > found : x < found)))) {
            best_tile = k;
            found = x;
        }
    }
    int64_t lanes = n - best_tile < LS_TILE ? n - best_tile : LS_TILE;
    if (n > LS_TILE) {
        ls_run_lanes(run, best_tile, lanes);
    }
    return best_tile + run->isa->place_f32(ls_run_reg(run, run->program->results[0]), lanes, found);
}

/* The same without them: index[i] is the number of the tile that value[i] came from. */
static int64_t arg_row_f32(ls_run *run, const best *b, int64_t n) {
    float *value = (float *)(void *)b->value;
    uint32_t *tile = (uint32_t *)(void *)b->index;
    memset(tile, 0, LS_TILE * sizeof *tile);
    for (int64_t k = 0; k < n; k += LS_TILE) {
        int64_t lanes = n - k < LS_TILE ? n - k : LS_TILE;
        ls_run_lanes(run, k, lanes);
        const float *x = ls_run_reg(run, run->program->results[0]);
        if (k == 0) {
            memcpy(value, x, (size_t)lanes * sizeof *x);
        } else {
            run->isa->arg_f32[b->largest](value, tile, x, (uint32_t)(k / LS_TILE), lanes);
        }
    }
    int64_t chosen = 0, at = 0, lanes = n < LS_TILE ? n : LS_TILE;
    float found = value[0];
    for (int64_t i = 0; i < lanes; i++) {
        float x = value[i];
        int64_t index = (int64_t)tile[i] * LS_TILE + i;
        bool nan = x != x, better = b->largest ? x > found : x < found;
        bool same = x == found || (nan && found != found);
        if (i == 0 || (nan && found == found) || (found == found && better) || (same && index < at)) {
            chosen = i;
            found = x;
            at = index;
        }
    }
    return (int64_t)tile[chosen] * LS_TILE + chosen;
}

static void arg_rows_f32(const ls_phase_task *task, ls_run *run, ls_run *finish, const best *b, int64_t n) {
    const ls_phase *phase = task->phase;
    for (int64_t at = 0; at < task->n; at += LS_TILE) {
        int64_t lanes = task->n - at < LS_TILE ? task->n - at : LS_TILE;
        int64_t *input = ls_run_reg(finish, phase->finish.input);
        for (int64_t i = 0; i < lanes; i++) {
            ls_point_coords(run->extents, phase->n_axes, phase->axes, task->first + at + i, run->coords);
            ls_run_point(run);
            input[i] = n == 0                                         ? 0
                       : !LS_SMALL && run->isa->fold_f32[LS_FOLD_MIN] ? arg_row_by_folds(run, b, n)
                                                                      : arg_row_f32(run, b, n);
        }
        ls_run_lanes(finish, task->first + at, lanes);
    }
}

void ls_phase_arg(const ls_phase_task *task) {
    const ls_phase *phase = task->phase;
    const ls_spec *spec = &task->kernel->binary->spec;
    const ls_value *v = &spec->values[phase->value];
    ls_run run, finish;
    size_t offset = begin_both(task, &run, &finish);
    if (phase->pooling && ls_phase_pooled(task, NULL, 0, &finish, task->scratch + offset)) {
        return;
    }
    best b = {.isa = run.isa, .dtype = (ls_dtype)spec->values[v->a].dtype, .largest = v->map == LS_OP_ARGMAX};
    b.size = ls_tile_held_size(b.dtype);
    char *tiles = task->scratch + offset;
    b.value = tiles, b.index = (int64_t *)(void *)(tiles + LS_TILE * 8), b.at = b.index + LS_TILE;
    b.started = (uint8_t *)(b.at + LS_TILE), b.better = (char *)b.started + LS_TILE,
    b.other = b.better + LS_TILE;
    int64_t n = ls_point_count(run.extents, v->n_bound, v->bound);
    int16_t mask_reg = run.program->results[1];
    bool rows = phase->kind == LS_PHASE_ARG_ROWS;
    if (mask_reg < 0 && b.size == 4 && ls_dtype_is_float(b.dtype) && n < UINT32_MAX) {
        (rows ? arg_rows_f32 : arg_columns_f32)(task, &run, &finish, &b, n);
        return;
    }
    for (int64_t at = 0; at < task->n; at += LS_TILE) {
        int64_t lanes = task->n - at < LS_TILE ? task->n - at : LS_TILE;
        int64_t *input = ls_run_reg(&finish, phase->finish.input);
        for (int64_t i = 0; i < (rows ? lanes : 1); i++) {
            memset(b.started, 0, LS_TILE);
            memset(b.value, 0, LS_TILE * 8);
            memset(b.index, 0, LS_TILE * 8);
            ls_point_coords(run.extents, phase->n_axes, phase->axes, task->first + at + i, run.coords);
            for (int64_t k = 0; k < n; k += rows ? LS_TILE : 1) {
                int64_t here = !rows ? lanes : n - k < LS_TILE ? n - k : LS_TILE;
                if (!rows) {
                    ls_point_coords(run.extents, v->n_bound, v->bound, k, run.coords);
                }
                if (!rows || k == 0) {
                    ls_run_point(&run);
                }
                ls_run_lanes(&run, rows ? k : task->first + at, here);
                run.isa->iota(b.at, k, rows, here);
                best_step(&b, ls_run_reg(&run, run.program->results[0]),
                          mask_reg >= 0 ? ls_run_reg(&run, mask_reg) : NULL, b.at, here);
            }
            if (rows) {
                input[i] = best_of_lanes(&b, LS_TILE);
            } else {
                memcpy(input, b.index, (size_t)lanes * 8);
            }
        }
        ls_run_lanes(&finish, task->first + at, lanes);
    }
}
