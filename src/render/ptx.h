/* The PTX renderer's own parts: ptx.c walks a kernel, ptx_pure.c renders arithmetic, ptx_fragment.c matrix tiles,
 * ptx_product.c whole products.
 *
 * Every value is a row of operands, one a lane (fragments: one a register of a thread): registers, or constants that
 * instructions take as they are. Registers are untyped (b16, b32, b64, pred), so bitcasts and lane moves are renamings. */
#ifndef LOCKSTEP_RENDER_PTX_H
#define LOCKSTEP_RENDER_PTX_H

#include "base/alloc.h"
#include "kir/range.h"
#include "render/render.h"

typedef enum ls_ptx_file { LS_PTX_PRED, LS_PTX_16, LS_PTX_32, LS_PTX_64, LS_PTX_FILES, LS_PTX_CONST } ls_ptx_file;

typedef struct ls_ptx_op {
    uint8_t file, dtype; /* dtype: how a constant is written */
    int32_t number;      /* of the register */
    uint64_t bits;       /* of the constant */
} ls_ptx_op;

enum { LS_PTX_LANES_AT = 8 };

typedef struct ls_ptx_value {
    ls_ptx_op *ops;
    int32_t n;
} ls_ptx_value;

/* An address that several accesses share: root * size + the memory's base (shared: + the base of all shared memory). */
typedef struct ls_ptx_address {
    ls_val root;
    int32_t mem, size; /* mem -1: shared memory */
    ls_ptx_op reg;     /* LS_PTX_CONST: not written yet */
    struct ls_ptx_address *next;
} ls_ptx_address;

typedef struct ls_ptx {
    const ls_kernel *kernel;
    ls_ptx_options options;
    ls_arena arena;
    ls_text body;
    ls_error *err;
    ls_status status;
    ls_ptx_value *values;       /* by instruction */
    ls_ptx_address **addresses; /* by root */
    ls_ptx_op *bases;           /* by memory: of globals */
    ls_ptx_op shared;           /* base of shared memory */
    struct { /* by bytes a line and order: where this lane points ldmatrix, in bytes from a tile's first element */
        int64_t line_bytes;
        int order;
        ls_ptx_op reg;
    } lanes_at[LS_PTX_LANES_AT];
    int n_lanes_at;
    uint8_t *copies;   /* by instruction: a store or load that is one asynchronous copy; 0: not */
    bool copying;      /* copies are under way here */
    ls_ranges *ranges; /* of integers; made when first asked */
    int32_t count[LS_PTX_FILES], labels, depth;
    uint32_t lanes;             /* the threads of a subgroup that there are; 0: not the same for all subgroups */
    struct {
        ls_val at;
        int32_t label;
        bool has_else;
    } open[64];
    char text[16][32]; /* operands being written */
    int next_text;
} ls_ptx;

/* The first failure stays; from then on nothing that is written matters. */
void ls_ptx_fail(ls_ptx *p, ls_status code, const char *what, const char *why);
ls_ptx_op ls_ptx_new(ls_ptx *p, ls_ptx_file file);
ls_ptx_op ls_ptx_const(ls_dtype dtype, uint64_t bits);
const char *ls_ptx_text(ls_ptx *p, ls_ptx_op op);
/* One instruction: "opcode dst, a, b, c;" with as many operands as are given. */
void ls_ptx_1(ls_ptx *p, const char *opcode, ls_ptx_op dst, ls_ptx_op a);
void ls_ptx_2(ls_ptx *p, const char *opcode, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b);
void ls_ptx_3(ls_ptx *p, const char *opcode, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b, ls_ptx_op c);
void ls_ptx_line(ls_ptx *p, const char *fmt, ...) LS_PRINTF(2, 3);
/* opcode.suffix, as a text that lives as long as the renderer */
const char *ls_ptx_opcode(ls_ptx *p, const char *opcode, const char *suffix);

ls_ptx_file ls_ptx_file_of(ls_dtype dtype);
const char *ls_ptx_type(ls_dtype dtype);   /* in registers: "f32", "s64"; 8 and 16 bits "b16" */
const char *ls_ptx_memory(ls_dtype dtype); /* in memory: "f32", "u8", "b16" */
/* A register that holds the operand. */
ls_ptx_op ls_ptx_reg(ls_ptx *p, ls_ptx_op op, ls_dtype dtype);
void ls_ptx_move(ls_ptx *p, ls_dtype dtype, ls_ptx_op dst, ls_ptx_op src);
/* What an instruction accesses: a register and the bytes to add to it. */
ls_ptx_op ls_ptx_base(ls_ptx *p, const ls_ins *ins, int64_t *out_bytes);

void ls_ptx_pure(ls_ptx *p, ls_val at);
void ls_ptx_combine(ls_ptx *p, ls_kop op, ls_dtype dtype, uint32_t flags, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b);
void ls_ptx_fragment(ls_ptx *p, ls_val at);
void ls_ptx_product(ls_ptx *p, ls_val at); /* ptx_product.c */
void ls_ptx_fragment_entry(ls_ptx *p); /* what fragments need at the kernel's beginning */
int32_t ls_ptx_fragment_size(const ls_ins *ins); /* registers of a thread; 0: a shape that is not supported */

#endif
