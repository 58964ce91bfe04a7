/* Tile programs: straight-line code over registers of LS_TILE lanes, made from a spec's values once, run for every tile.
 *
 * The lanes of a program are the points of its lane axes, linearised row-major in their order; a run covers consecutive lanes, at one point
 * of all other (scalar) axes. Four sections: LAUNCH instructions depend on no axis and run once a task, POINT instructions depend on scalar
 * axes alone and run when those change (both on one lane, then broadcast), LANES instructions run for every tile. Where values depend on
 * the outer ones of the lane axes alone (the root of a variance, the gate of a channel), lanes are taken as rows of the inner ones: ROWS
 * instructions have a lane for every row that the tile touches, whose results are then expanded. Values with bound axes (REDUCE and the
 * like) are never inside a program: their phase has stored them in a temporary before, and they are loaded here as arguments are.
 *
 * Memory accesses walk lanes in segments: index expressions that are affine become merged strides; those with DIV, MOD or predicates over
 * few axes become tables, one row of which is an arithmetic progression wherever possible; the rest is computed lane by lane in i64
 * registers and gathered. */
#ifndef LOCKSTEP_BACKEND_CPU_PROGRAM_H
#define LOCKSTEP_BACKEND_CPU_PROGRAM_H

#include "backend/cpu/limit.h"
#include "backend/cpu/tile.h"
#include "base/text.h"
#include "device/device.h"
#include "spec/spec.h"

enum {
    LS_LANE_AXES = 2 * LS_MAX_RANK,
    LS_ACCESS_TERMS = 24,
    LS_ACCESS_TABLES = 4,
    LS_TABLE_LIMIT = 1 << 15, /* entries of one table */
    LS_TABLE_AXES = 8,
    LS_PATTERN_LANES = 64,
    LS_PATCH_ROWS = 16,
    LS_PATCH_LANES = 128,
    LS_PATCH_BYTES = LS_PATCH_ROWS * LS_PATCH_LANES * 4
};
#define LS_TABLE_ABSENT INT32_MIN

/* An index expression as a constant, affine terms, and the rest: products of a constant and an expression
 * that is not affine. */
typedef struct ls_ix_sum {
    int64_t constant;
    int n_terms, n_rest;
    uint8_t axis[LS_ACCESS_TERMS];
    int64_t stride[LS_ACCESS_TERMS];
    int32_t rest[LS_ACCESS_TERMS];
    int64_t factor[LS_ACCESS_TERMS];
    bool failed; /* too many terms */
} ls_ix_sum;
void ls_ix_sum_of(const ls_spec *spec, int32_t ix, ls_ix_sum *out_linear);
static inline bool ls_same_pred(const ls_pred *x, const ls_pred *y) {
    return x->ix == y->ix && x->limit == y->limit && x->multiple == y->multiple;
}
/* Of an axis; 0 where it is none of its terms. */
static inline int64_t ls_ix_sum_stride(const ls_ix_sum *sum, int axis) {
    for (int i = 0; i < sum->n_terms; i++) {
        if (sum->axis[i] == axis) {
            return sum->stride[i];
        }
    }
    return 0;
}
/* Whether an expression is a function of axes alone: no DIM and no VALUE in it. */
bool ls_ix_of_axes(const ls_spec *spec, int32_t ix);

/* A row of a table along the last lane axis: entries are absent but for start, start + step, ..., where they
 * are base, base + stride, ... `regular` false: look at the entries. */
typedef struct ls_table_row {
    bool regular;
    int32_t start, step, count, base, stride;
} ls_table_row;

/* Offsets and validity over the points of a few axes. */
typedef struct ls_table {
    int n_axes;
    uint8_t axes[LS_TABLE_AXES];
    int32_t strides[LS_TABLE_AXES];     /* into entries */
    int32_t lane_strides[LS_LANE_AXES]; /* the same by group of lane axes; 0 for others */
    uint64_t scalars; /* which of its axes are scalar in the program, by position in `axes` */
    int32_t *entries; /* element offset, or LS_TABLE_ABSENT */
    bool inner;       /* its last axis is the program's last lane axis: rows then describe it */
    int32_t inner_extent;
    ls_table_row *rows;
} ls_table;

typedef struct ls_access_dim { /* a group of neighbouring lane axes that step evenly */
    uint8_t first, last;       /* into the program's lane axes */
    int64_t stride;
} ls_access_dim;

typedef struct ls_access {
    int buffer;   /* argument, or n_args + temporary */
    uint8_t log2; /* of the element's size */
    bool may_be_absent;
    int64_t ahead;  /* of an argument larger than the caches near by: so many bytes behind a run are fetched early; or 0 */
    int64_t offset; /* elements */
    int n_scalar, n_dims, n_tables;
    uint8_t scalar_axis[LS_ACCESS_TERMS];
    int64_t scalar_stride[LS_ACCESS_TERMS];
    ls_access_dim
        dims[LS_LANE_AXES]; /* outermost first; with tables: each of their axes alone, last axis always there */
    ls_table tables[LS_ACCESS_TABLES];
    bool ranged;      /* one table, over the first lane axis alone, is present from `first` to `end` of it, in even steps: joined tensors */
    bool whole;       /* and its lanes there are one run of memory */
    int32_t first, end, step;
    int n_pattern;    /* lanes of the innermost groups together, when they are few and short; else 0 */
    int pattern_dims; /* how many groups those are */
    int32_t pattern[LS_PATTERN_LANES]; /* their offsets */
    uint64_t fill; /* bits of an absent element, stored form */
    int64_t factor, limit; /* TAKE */
    uint8_t patch; /* 1 + which of a run's patches has it transposed, or 0 */
} ls_access;
/* From one point of an axis that is none of the lanes' to the next, in elements. */
static inline int64_t ls_access_stride(const ls_access *a, int axis) {
    int64_t stride = 0;
    for (int i = 0; i < a->n_scalar; i++) {
        stride += a->scalar_axis[i] == axis ? a->scalar_stride[i] : 0;
    }
    return stride;
}

typedef enum ls_tile_op {
    LS_TILE_OP_CONST,     /* dst = bits, one lane */
    LS_TILE_OP_BROADCAST, /* dst = lane 0 of a, all lanes */
    LS_TILE_OP_EXPAND,    /* dst = a's lane of each lane's row */
    LS_TILE_OP_LOAD,      /* dst = access */
    LS_TILE_OP_OVERLAY,   /* dst = access where it is not absent, else a */
    LS_TILE_OP_PRESENT,   /* dst (u8) = whether the access is not absent */
    LS_TILE_OP_FN,        /* dst = fn(a, b, c) */
    LS_TILE_OP_DIVIDE,    /* dst = a / b, fn(a, b); b is the same in all lanes of a row (with `combine`), or of all */
    LS_TILE_OP_CAST,      /* dst = cast(a) */
    LS_TILE_OP_COORD,     /* dst (i64) = coordinate of axis `axis` */
    LS_TILE_OP_DIM,       /* dst (i64) = dims[axis], one lane */
    LS_TILE_OP_RANGE,     /* dst (u8) = a and 0 <= b < c (i64) */
    LS_TILE_OP_MULTIPLE,  /* dst (u8) = a and b mod bits == 0 */
    LS_TILE_OP_GATHER,    /* dst = buffer[a (i64)] where b (u8, or -1); absent bits zero */
    LS_TILE_OP_TAKE,      /* dst = access + factor * a (i64; a lane a row with `combine`), 0 <= a < limit; else `fill` and a report */
    LS_TILE_OP_CHECK,     /* reports origin `bits` where a (u8, or -1) holds and b (u8) does not */
    LS_TILE_OP_RANDOM,    /* dst (u32) = threefry(a, b; c (i64)) */
    LS_TILE_OP_FUSED,     /* dst, or memory = chain number `access` (fuse.c) */
    LS_TILE_OP_STORE,     /* access = a */
    LS_TILE_OP_SCATTER    /* buffer[b (i64)] combined with a where c (u8, or -1) */
} ls_tile_op;

typedef enum ls_section {
    LS_SECTION_LAUNCH,
    LS_SECTION_POINT,
    LS_SECTION_ROWS,
    LS_SECTION_LANES,
    LS_SECTION_COUNT
} ls_section;

typedef struct ls_instr {
    uint8_t op;           /* ls_tile_op */
    uint8_t log2;         /* of the size of dst's lanes (STORE, SCATTER: a's, as stored) */
    uint8_t dtype;        /* LOAD, STORE, SCATTER */
    uint8_t combine;      /* SCATTER; TAKE: by rows */
    int16_t dst, a, b, c; /* registers; -1 none */
    int32_t access;       /* LOAD, PRESENT, STORE: index; GATHER, SCATTER: buffer; COORD: axis; DIM: which */
    uint64_t bits;
    ls_tile_fn fn;
    ls_tile_cast_fn cast; /* CAST; STORE, SCATTER: to the stored form or NULL */
    const char *name;     /* for printing */
} ls_instr;

/* Instructions that are done as one (fuse.c). */
typedef struct ls_fused {
    int n_steps, n_operands, n_scalars;
    ls_chain_step steps[LS_CHAIN_STEPS];
    int16_t operands[LS_CHAIN_POINTERS]; /* registers of lanes; the first is what the steps begin with */
    int loads[LS_CHAIN_POINTERS];        /* 1 + the access that is read in the operand's place, or 0 */
    int16_t scalars[LS_CHAIN_SCALARS];   /* registers of one lane, or of one a row */
    uint32_t slots, by_row;              /* which operands are results kept for later, which scalars have a lane a row */
    int store;                           /* the access that takes the result, or -1 */
    bool calls;                          /* functions, which leave memory time */
} ls_fused;
enum {
    LS_FUSED_PIECE = 256, /* lanes between two fetches */
    LS_STREAM_BYTES = LS_LIMIT(16 << 20, 2 << 10) /* many times a core's second-level cache: nobody will find a result of as many there */
};

typedef struct ls_program {
    int n_lane_axes;
    uint8_t lane_axes[LS_LANE_AXES]; /* outermost first; none of fixed extent 1 */
    int row_axes; /* how many of them are outside of a row, where there are ROWS instructions; else 0 */
    int n_instrs[LS_SECTION_COUNT];
    ls_instr *instrs[LS_SECTION_COUNT];
    int64_t period; /* lanes that tiles are best whole multiples of; 0: any */
    int n_periodic; /* the first LANES instructions, the same for all tiles that begin at the same place of a period */
    bool endless;   /* no lane goes through a register: a run takes as many as the rows of ROWS allow */
    int n_accesses;
    ls_access *accesses;
    ls_fused **fused;
    int n_regs;
    size_t *reg_offsets; /* into the worker's registers */
    size_t reg_bytes;
    int n_results;
    /* Registers that callers read: REDUCE's operand; CONTRACT's a and b and their masks; a chain's scalars. */
    int16_t results[LS_CHAIN_SCALARS];
    int16_t input;  /* register that the caller fills (a CONTRACT's finished tile); -1 */
} ls_program;

/* ---- building (program.c, address.c) ---- */
typedef struct ls_program_builder ls_program_builder;
/* `temps` [n_values]: the temporary that holds a value, or -1. `lane_axes` outermost first. */
ls_program_builder *ls_pb_create(ls_arena *arena, const ls_spec *spec, const ls_tile_isa *isa,
                                 const int *temps, int n_lane_axes, const uint8_t *lane_axes);
/* The access of the temporary of a value: row-major over its free axes in ascending order. */
void ls_temp_access(const ls_spec *spec, int32_t value, int temp, int n_lane_axes, const uint8_t *lane_axes,
                    ls_access *out_access);
/* The register that holds a value in all lanes, in its held form; *out_mask the register of its presence or
 * -1 when it always is. NULL out_mask: absent elements read `fill` (bits, stored form of the value's dtype).
 * -1 when out of memory. */
int16_t ls_pb_value(ls_program_builder *builder, int32_t value, uint64_t fill, int16_t *out_mask);
/* Converts a register from a dtype's held form to another's. */
int16_t ls_pb_cast(ls_program_builder *builder, int16_t reg, ls_dtype from, ls_dtype to);
/* `reg` where the mask (-1: everywhere) holds, else the constant `other` (held form). */
int16_t ls_pb_select(ls_program_builder *builder, int16_t mask, int16_t reg, uint64_t other, ls_dtype dtype);
int16_t ls_pb_both(ls_program_builder *builder, int16_t mask_a, int16_t mask_b);
/* Binds a value with bound axes to a register that the caller fills before each run of the lanes, with
 * ls_input_dtype: the accumulator's where there is one. The program rounds it. */
ls_dtype ls_input_dtype(const ls_value *value);
void ls_pb_input(ls_program_builder *builder, int32_t value);
bool ls_pb_store(ls_program_builder *builder, const ls_store *store);
/* Stores a register that holds `dtype` through an access that has neither tables nor absent elements. */
bool ls_pb_store_access(ls_program_builder *builder, int16_t reg, ls_dtype dtype, const ls_access *access);
/* The bits of a dtype's stored form in its held form. */
uint64_t ls_held_bits(ls_dtype dtype, uint64_t stored);
/* Lets values that are the same along the inner lane axes be computed a lane a row, where there are such: call it
 * before any value is asked for. */
void ls_pb_rows(ls_program_builder *builder);
/* The same for rows of all lane axes but these, which come first; how many those are. */
int ls_pb_rows_of(ls_program_builder *builder, int n_axes, const uint8_t *axes);
/* Fetches what follows runs of large arguments early: for programs that take the lanes of memory in order. */
void ls_pb_ahead(ls_program_builder *builder);
/* Allocates registers; the program is the arena's. False when out of memory. */
bool ls_pb_finish(ls_program_builder *builder, int n_results, const int16_t *results,
                  ls_program *out_program);

/* Makes the access of `ix` (LS_SPEC_NONE: 0) guarded by predicates, into an access of zeros; false when only
 * lane-by-lane evaluation can do it. */
bool ls_access_build(ls_arena *arena, const ls_spec *spec, int32_t ix, int n_pred_ranges,
                     const int32_t *first_preds, const int32_t *n_preds, int n_lane_axes,
                     const uint8_t *lane_axes, ls_access *out_access, bool *out_failed);
/* An argument that no nearest cache holds. */
bool ls_buffer_is_large(const ls_spec *spec, int buffer);
/* Sets the pattern of a load without tables, once its groups are known. */
void ls_access_find_pattern(const ls_spec *spec, const uint8_t *lane_axes, ls_access *access);
/* Puts strides by axis into lane groups and scalar terms. */
void ls_access_from_strides(const ls_spec *spec, int n, const uint8_t *axes, const int64_t *strides,
                            int n_lane_axes, const uint8_t *lane_axes, ls_access *access);

/* ---- fetching (fetch.c) ---- */
/* What will be read, or written, soon: a ring, of which more than it holds is forgotten. */
enum { LS_FETCHES = 16 };
typedef struct ls_fetches {
    int64_t lines; /* fetched before each instruction */
    unsigned first, end;
    struct {
        uintptr_t at, end;
    } runs[LS_FETCHES];
} ls_fetches;
/* Whether a result is so large, of f32, that it is stored past the caches where that pays. */
static inline bool ls_is_streamed(const ls_spec *spec, int buffer) {
    return buffer < spec->n_args && spec->args[buffer].numel >= LS_STREAM_BYTES / 4;
}
/* How far behind the runs of an access lines are fetched; 0 where caches near by hold all of it. */
int64_t ls_fetch_ahead(const ls_spec *spec, const ls_access *access);
/* Of a program whose loads the processor foresees: only what a chain alone stores to is fetched. */
void ls_fetch_results(const ls_program *program);
/* Of a program that is run row by row, which lie apart in large arguments: fetches the parts of the next one, a step of a scalar axis
 * on. */
void ls_fetch_next(const ls_spec *spec, ls_program *program, int axis);
/* Adds a run of memory to what will be fetched. */
void ls_fetch_later(ls_fetches *fetches, uintptr_t at, int64_t bytes);
/* Fetches the next lines. */
void ls_fetch(ls_fetches *fetches);
/* Adds the lines of memory that a tile takes, and its instructions. */
void ls_fetch_count(const ls_program *program, int64_t *lines, int64_t *instrs);
/* How many before each, so that all come in time. */
static inline int64_t ls_fetch_share(int64_t lines, int64_t instrs) {
    return lines ? (lines + instrs - 1) / instrs : 0;
}

/* ---- running (program_run.c) ---- */
typedef struct ls_run {
    const ls_spec *spec;
    const ls_tile_isa *isa;
    const ls_program *program;
    char *const *buffers;   /* arguments, then temporaries */
    const int64_t *extents; /* by axis */
    const int64_t *symbols;
    int64_t coords[LS_SPEC_MAX_AXES];
    void **regs;  /* [n_regs], current places */
    char *memory; /* registers */
    _Atomic int64_t *out_of_range;
    char *patches; /* of transposed loads: the row at work, one LS_PATCH_BYTES after another; or NULL */
    int64_t lanes; /* that a tile has at most */
    int64_t periodic_at, periodic_lanes; /* the place in the period whose lanes the first LANES instructions hold, and how many */
    int64_t row_lane, row_inner; /* the place of the first lane in its row, and lanes of a row */
    int64_t expanded;            /* the row that ROWS registers hold in all lanes, or -1 */
    ls_fetches fetches;
    bool folds_fetch, fetches_second, reads_halves, reads_four; /* ls_cpu's */
    bool empty; /* what it would reduce has no elements: nobody reads what it computes */
} ls_run;
/* Bytes that a run of this program needs (its registers and their pointers). */
size_t ls_run_bytes(const ls_program *program);
/* Starts a run in `memory`: places registers and does the LAUNCH section. */
void ls_run_begin(ls_run *run, const ls_program *program, void *memory);
/* Does the POINT section: call after the scalar coordinates have changed. */
void ls_run_point(ls_run *run);
/* Does lanes [first, first + n), n <= ls_run_tile. */
void ls_run_lanes(ls_run *run, int64_t first, int64_t n);
/* Does the ROWS section for these lanes, where there is one; the run is at the first. */
void ls_run_rows(ls_run *run, int64_t first, int64_t n);
/* Moves to a lane without doing anything; the element there of an access without tables. */
void ls_run_seek(ls_run *run, int64_t first);
int64_t ls_run_place(const ls_run *run, const ls_access *access);
int64_t ls_run_lane_count(const ls_run *run);
/* Does one FUSED instruction (fuse.c). */
void ls_run_fused(ls_run *run, const ls_instr *instr, int64_t n);
/* Whether a program whose lanes are rows, of all axes but the first `rows`, makes its one result of f32 straight from runs of memory, and
 * stores it between phases at most: NaN as they are, then. */
bool ls_program_streams(const ls_program *program, int n_args, int rows);
/* Such a program: one load or chain, a function of that, and its store between phases; the last two where there are any. */
typedef struct ls_stream {
    const ls_instr *source, *fn, *store;
    ls_fused load;          /* of a source that is a load */
    bool computes, squares; /* the chain's values before they are folded; the sum of squares at once */
    ls_fold_exp_fn exps;    /* of exponentials at once; or NULL */
    ls_fold_rows_fn whole;  /* of rows at once; or NULL */
} ls_stream;
ls_stream ls_stream_of(const ls_program *program, const ls_tile_isa *isa, int which);
static inline const ls_fused *ls_stream_chain(const ls_program *program, const ls_stream *stream) {
    return stream->source->op == LS_TILE_OP_LOAD ? &stream->load : program->fused[stream->source->access];
}
/* Folds (tile.h, number `which`) the result of such a program from a lane on that begins a row, or a block of one: along `rows` of `inner`
 * lanes, at most LS_TILE rows, or along as much of one row. Calls `finish` when the results of a row's blocks are in `cells`; without it
 * those of all rows are there, one behind another. */
typedef void (*ls_row_fn)(void *ctx, int64_t row);
void ls_fold_by_rows(ls_run *run, int which, int64_t lane, int64_t rows, int64_t inner, float *partials, float *cells, ls_row_fn finish,
                     void *ctx);
/* Lanes of a tile: LS_TILE, or as many whole periods as fit. */
static inline int64_t ls_program_tile(const ls_program *program) {
    return program->period ? LS_TILE / program->period * program->period : LS_TILE;
}
/* The same for a run, which may take more of an endless program (fuse.c). */
int64_t ls_run_tile(const ls_run *run);
static inline void *ls_run_reg(const ls_run *run, int16_t reg) {
    return run->regs[reg];
}

#endif
