/* What the parts of legalisation share. Internal to src/kir.
 *
 * Vectors are taken apart: each lane of an old value is an ls_lane of its own, and vectors stand only around loads and
 * stores. A lane of type
 *   bool                    is a bool
 *   i8..i32, u8..u32        an i32 or u32, extended
 *   f16, bf16, f32          an f32 with that value, or its bits in a u32 where the target lacks LS_KT_FLOAT_BITS
 *   i64, u64                an i32 with the same value, where ranges prove that it fits; else one register where the
 *                           target has 64-bit integers, and the low and high word as two u32 where it has not
 *   f64, a fragment         itself */
#ifndef LOCKSTEP_KIR_LEGAL_PARTS_H
#define LOCKSTEP_KIR_LEGAL_PARTS_H

#include "kir/build.h"
#include "kir/legal.h"
#include "kir/range.h"

typedef struct ls_lane {
    ls_val v, hi; /* hi: the high word of a pair, else LS_VAL_NONE */
} ls_lane;

typedef enum ls_legal_how {
    LS_LEGAL_SAME,  /* an element stays an element */
    LS_LEGAL_WORDS, /* several small elements in a u32 */
    LS_LEGAL_PAIRS, /* an element is two u32 */
    LS_LEGAL_WIDE   /* shared: a small element in a register's type */
} ls_legal_how;

typedef struct ls_legal_mem {
    ls_legal_how how;
    ls_dtype stored;
    bool matrix; /* fragments use it */
    bool atomic; /* words that other threads may change around an element */
    bool small;  /* an i32 counts what it holds afterwards */
} ls_legal_mem;

/* A result of MIN or MAX on bits, and the integer whose order it has (legal_float.c). */
enum { LS_LEGAL_KEYS = 64 };
typedef struct ls_legal_key {
    ls_kop op;
    ls_val value, key;
} ls_legal_key;

typedef struct ls_legal {
    ls_kb kb;
    ls_heap *heap;
    const ls_kernel *old;
    uint32_t traits;
    ls_ranges *ranges;       /* under the conditions of the blocks around */
    ls_ranges *plain;        /* without them: what is total only by a condition must not move away from it */
    ls_lane (*map)[4];       /* by old value: its lanes */
    bool *narrow;            /* by old variable of 64 bits: held in an i32 */
    ls_legal_mem *mems;
    int32_t *param;          /* by old parameter: its number, or that of its low word */
    ls_legal_param *params;  /* by new parameter */
    int zero_param;
    ls_legal_key keys[LS_LEGAL_KEYS]; /* the last ones */
    unsigned next_key;
    bool exact_small;        /* this operation can neither meet nor make subnormal f32 values, nor be fused */
} ls_legal;

static inline bool ls_legal_has(const ls_legal *l, uint32_t trait) {
    return (l->traits & trait) != 0;
}
static inline ls_dtype ls_legal_type(const ls_legal *l, ls_val v) {
    return v >= 0 && v < l->kb.kernel.n_body ? (ls_dtype)l->kb.kernel.body[v].dtype : LS_BOOL;
}
static inline ls_lane ls_legal_one(ls_val v) {
    return (ls_lane){v, LS_VAL_NONE};
}
/* Ends the work with LS_ERR_UNSUPPORTED. */
void ls_legal_refuse(ls_legal *l, const char *why);
ls_val ls_legal_bitcast(ls_legal *l, ls_val v, ls_dtype type); /* a bitcast of a bitcast is its source */
bool ls_legal_const(const ls_legal *l, ls_val v, int64_t *out_value);
/* Is the old value in [lo, hi] wherever it may be computed? */
bool ls_legal_within(ls_legal *l, ls_val old, ls_wide lo, ls_wide hi);
bool ls_legal_fits_i32(ls_legal *l, ls_val old); /* where it stands */

static inline int ls_legal_lanes(const ls_ins *ins) {
    return ins->lanes == LS_LANES_FRAG ? 1 : ins->lanes;
}
ls_val ls_legal_join(ls_legal *l, const ls_val *v, int n); /* 1, 2 or 4 scalars as a vector */
/* The bits of a constant of a type, as its lanes are held. */
ls_lane ls_legal_constant(ls_legal *l, ls_dtype t, uint64_t bits);
/* `narrow`: as an i32, which must be right; else as the target holds 64-bit values. Other types: unchanged. */
ls_lane ls_legal_form(ls_legal *l, ls_dtype t, ls_lane a, bool narrow);

void ls_legal_ins(ls_legal *l, ls_val at); /* makes one instruction legal */

/* ---- legal_group.c ---- */
/* Makes a stretch that begins here legal, and says where it ends: nothing where there is no need. */
ls_val ls_legal_window(ls_legal *l, ls_val first);

/* ---- legal_memory.c ---- */
void ls_legal_memories(ls_legal *l); /* declares them all */
ls_val ls_legal_index(ls_legal *l, int mem, ls_val old);
void ls_legal_load(ls_legal *l, ls_val at, const ls_ins *ins);
void ls_legal_store(ls_legal *l, ls_val at, const ls_ins *ins);
void ls_legal_atomic(ls_legal *l, ls_val at, const ls_ins *ins);

/* ---- legal_float.c: f32 ---- */
ls_val ls_legal_bits(ls_legal *l, ls_val f);  /* a float register's bits as u32 */
ls_val ls_legal_float(ls_legal *l, ls_val f); /* as f32 */
ls_val ls_legal_held(ls_legal *l, ls_val f);  /* f32 or u32 as float registers are held */
/* Add, sub, mul, fma, div, sqrt. */
bool ls_legal_is_arithmetic(ls_kop op);
/* The bits of an f32 that is not negative; without ORDER32 a zero may have any sign. */
ls_val ls_legal_positive(ls_legal *l, ls_val f);
ls_val ls_legal_hidden(ls_legal *l, ls_val v); /* the same bits, which a device that calculates with formulas does not know to be those */
/* `v`, of type t, so that a device which calculates with formulas does not know it to be a float zero. */
ls_val ls_legal_opaque(ls_legal *l, ls_dtype t, ls_val v);
ls_val ls_legal_arith32(ls_legal *l, ls_kop op, const ls_val s[3], uint32_t flags);

/* ---- legal_soft.c: arithmetic on the bits of f32 values by integers ---- */
ls_val ls_legal_soft_add(ls_legal *l, ls_val a, ls_val b); /* both below 2^-95 */
ls_val ls_legal_soft_mul(ls_legal *l, ls_val a, ls_val b); /* neither zero */
ls_val ls_legal_soft_div(ls_legal *l, ls_val a, ls_val b);
ls_val ls_legal_soft_sqrt(ls_legal *l, ls_val a);
ls_val ls_legal_soft_whole(ls_legal *l, ls_kop op, ls_val a); /* floor, ceil, trunc, rint */

/* ---- legal_cast.c ---- */
ls_lane ls_legal_cast(ls_legal *l, ls_dtype to, ls_dtype from, ls_lane a, ls_val old);
ls_lane ls_legal_bitcast_lane(ls_legal *l, ls_dtype to, ls_dtype from, ls_lane a, ls_val old);
ls_val ls_legal_round_half(ls_legal *l, ls_dtype t, ls_val f);    /* a float register rounded to f16 or bf16 */
ls_val ls_legal_half_bits(ls_legal *l, ls_dtype t, ls_val f);     /* its 16 bits, NaN canonical */
ls_val ls_legal_half_value(ls_legal *l, ls_dtype t, ls_val bits); /* and back, from a u32 */

/* ---- legal_int.c: integers of one register ---- */
ls_dtype ls_legal_register(const ls_legal *l, ls_dtype t); /* the register that holds an integer type */
ls_val ls_legal_wrap(ls_legal *l, ls_dtype t, ls_val v);   /* cut to a small type and extended again */
/* `old` is the instruction, for ranges; result and operands in registers of t. */
ls_val ls_legal_int(ls_legal *l, const ls_ins *ins, ls_dtype t, ls_val a, ls_val b, ls_val old);

/* ---- legal_int64.c: pairs of words ---- */
ls_lane ls_legal_wide(ls_legal *l, ls_dtype t, ls_lane a); /* an i32 made a pair, or a 64-bit register */
ls_val ls_legal_low(ls_legal *l, ls_lane a);               /* the low word as i32 */
ls_lane ls_legal_pair_op(ls_legal *l, ls_kop op, ls_dtype t, ls_lane a, ls_lane b);
ls_lane ls_legal_pair_neg(ls_legal *l, ls_lane a);
ls_lane ls_legal_pair_shift(ls_legal *l, ls_kop op, ls_lane a, ls_val count); /* count: u32 below 64, logical */
ls_lane ls_legal_pair_select(ls_legal *l, ls_val condition, ls_lane a, ls_lane b);
ls_lane ls_legal_split(ls_legal *l, ls_dtype t, ls_lane a);           /* any form of a 64-bit value as a pair */
ls_lane ls_legal_merge(ls_legal *l, ls_dtype t, ls_lane pair);        /* a pair as the target holds 64 bits */
/* The high word of a pair shifted left until its highest bit is set, with a sticky lowest bit; how far in *out_shift. */
ls_val ls_legal_pair_normal(ls_legal *l, ls_lane a, ls_val *out_shift);

/* Short names for what these files are made of; `k` is the builder. */
#define ADD(a, b) ls_kb_add(k, a, b)
#define SUB(a, b) ls_kb_sub(k, a, b)
#define MUL(a, b) ls_kb_mul(k, a, b)
#define AND(a, b) ls_kb_and(k, a, b)
#define OR(a, b) ls_kb_or(k, a, b)
#define XOR(a, b) ls_kb_xor(k, a, b)
#define NOT(a) ls_kb_not(k, a)
#define SHL(a, b) ls_kb_shl(k, a, b)
#define SHR(a, b) ls_kb_shr(k, a, b)
#define MIN(a, b) ls_kb_min(k, a, b)
#define MAX(a, b) ls_kb_max(k, a, b)
#define EQ(a, b) ls_kb_eq(k, a, b)
#define NE(a, b) ls_kb_ne(k, a, b)
#define LT(a, b) ls_kb_lt(k, a, b)
#define LE(a, b) ls_kb_le(k, a, b)
#define SELECT(c, a, b) ls_kb_select(k, c, a, b)
#define U(x) ls_kb_u32(k, x)
#define I(x) ls_kb_i32(k, x)
#define AS_U(x) ls_legal_bitcast(l, x, LS_U32)
#define AS_I(x) ls_legal_bitcast(l, x, LS_I32)
#define AS_F(x) ls_legal_bitcast(l, x, LS_F32)

#endif
