/* What a task does to its rows: internal to rows.c, which lists it, and rows_run.c. */
#ifndef LOCKSTEP_BACKEND_CPU_ROWS_LIST_H
#define LOCKSTEP_BACKEND_CPU_ROWS_LIST_H

#include "backend/cpu/kernel.h"

enum {
    LS_ROWS_MOST_PLACES = 64,
    LS_ROWS_MOST_STEPS = 48,
    LS_ROWS_MOST_REGS = 64,
    LS_ROWS_MOST_STREAMS = 4,
    LS_ROWS_MOST_KEPT = 2048, /* lanes of a row that waits for the end of its sum */
    LS_ROWS_KEPT_STRIDE = LS_ROWS_MOST_KEPT + 13 * 16, /* not a page apart */
    LS_ROWS_KEPT = 3,
    LS_ROWS_LINE = 64
};

typedef struct ls_row_place {
    char *at;
    int64_t row; /* bytes from a row to the next */
    bool moves;  /* from group to group: not where a group's values are kept */
} ls_row_place;

typedef enum ls_row_kind { LS_ROW_COLUMN, LS_ROW_FOLD, LS_ROW_CHAIN } ls_row_kind; /* the last two are passes over each row */

/* What is done to a few numbers here: a vector of what has just been stored one by one would wait for memory, behind results that go past
 * the caches. */
typedef enum ls_column_op { LS_COLUMN_FN, LS_COLUMN_ADD, LS_COLUMN_SUB, LS_COLUMN_MUL, LS_COLUMN_DIV, LS_COLUMN_SQRT, LS_COLUMN_STORE } ls_column_op;

typedef struct ls_row_line {
    ls_row_kind kind;
    const ls_instr *in;     /* COLUMN */
    ls_column_op op;
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
} ls_row_line;

typedef struct ls_row_list {
    const ls_kernel_run *kernel;
    const ls_tile_isa *isa;
    ls_run *run; /* that is listed */
    int64_t first, inner;
    int n_places, n_steps, n_streams, n_passes;
    ls_row_place places[LS_ROWS_MOST_PLACES];
    ls_row_line steps[LS_ROWS_MOST_STEPS];
    int64_t ahead; /* rows */
    bool second;   /* their lines go into the second-level cache */
    ls_row_line *with;    /* the last fold, which fetches all lines of one stream; or NULL */
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
    int16_t streams[LS_ROWS_MOST_STREAMS]; /* places whose lines are fetched early */
    int16_t of_reg[LS_ROWS_MOST_REGS];     /* places of a program's registers */
    float middle[LS_TILE_BLOCK];
    _Alignas(LS_ALIGN) float kept[LS_ROWS_KEPT][LS_ROWS_KEPT_STRIDE]; /* exponentials of rows by turn */
    float slots[LS_CHAIN_SLOTS * LS_CHAIN_LANES + LS_ALIGN / sizeof(float)];
} ls_row_list;

/* Of the rows from `first` on; false where they are empty. */
bool ls_rows_list(ls_row_list *l, ls_kernel_run *kernel, int64_t first);

#endif
