/* Legalisation: a kernel with the same results that asks of a device only what the device does by itself as the contract
 * wants it. Everything else is done another way: 64-bit integers as pairs of words, bytes and halves inside words, f16 and
 * bf16 in f32 with a rounding of their own, division and square root by integer remainders, subnormals by integers, products
 * hidden from fusion, and zeros and results from algebra, behind an exclusive or with a run-time zero.
 *
 * After it the renderers map instruction to instruction. Its output:
 *   - has registers of bool, i32, u32, f32, and i64, u64, f64 where the target has them. Other types stand only where a value
 *     is loaded (and then cast to i32, u32 or f32 at once) or stored (likewise), f16 between a cast to or from f32 and a
 *     bitcast to or from u16 (with LS_KT_HALF_CAST), and bf16 between a cast from f32 and a bitcast to u16 (LS_KT_BFLOAT_CAST). Vectors stand only there too: arithmetic is lane by lane;
 *   - has memories of i8, u8, i16, u16 (with LS_KT_BYTES, LS_KT_HALVES), 32 and 64 bits: bool is stored as u8, f16 and bf16
 *     as u16, and only what fragments load and store keeps its type. Small types without those traits are words: counts of
 *     globals are rounded up to whole words, so buffers must be padded to 4 bytes, and what stores parts of words becomes
 *     READ_WRITE and is accessed by atomics; shared arrays have one word an element. i64 and u64 without LS_KT_INT64 are
 *     two words, the low one first. With a size that depends on a parameter the count is one that is at least needed;
 *   - shifts by less than the width; divides integers by what is not 0, and never MIN by -1; converts to integers only floats
 *     in their range;
 *   - holds floats in u32 registers where the target lacks LS_KT_FLOAT_BITS: float instructions stand between bitcasts;
 *   - may have one parameter more, "zero" (u32, always 0 at run time, unknown to the compiler), and parameters split in two or
 *     of another type: ls_legal_param says which value each takes, as its own dtype reads it.
 * Instructions with LS_KF_FAST keep their operation; only their types are made legal.
 *
 * Legal kernels run in the interpreter and give the bits of the kernels they came from, but that a NaN of f16 or bf16 may come
 * out as the canonical one. ls_kernel_verify does not prove
 * their indices: that is done before.
 */
#ifndef LOCKSTEP_KIR_LEGAL_H
#define LOCKSTEP_KIR_LEGAL_H

#include "kir/kir.h"

typedef enum ls_ktrait {
    LS_KT_INT64 = 1 << 0,        /* i64 and u64 registers, memory and parameters */
    LS_KT_FLOAT64 = 1 << 1,      /* f64, all of it by the contract; without: LS_ERR_UNSUPPORTED */
    LS_KT_BYTES = 1 << 2,        /* loads and stores of 8 bits */
    LS_KT_HALVES = 1 << 3,       /* loads and stores of 16 bits */
    LS_KT_HALF_CAST = 1 << 4,    /* f16 to f32, and f32 to f16 with one rounding to nearest even, subnormals kept */
    LS_KT_UNFUSED32 = 1 << 5,    /* f32 add after mul is never fused */
    LS_KT_SUBNORMAL32 = 1 << 6,  /* f32 add, sub and mul take and give subnormals */
    LS_KT_DIV32 = 1 << 7,        /* f32 division correctly rounded, subnormals included */
    LS_KT_SQRT32 = 1 << 8,       /* f32 square root likewise */
    LS_KT_ROUND32 = 1 << 9,      /* f32 floor, ceil, trunc, rint, with the sign of zero */
    LS_KT_CAST32 = 1 << 10,      /* 32-bit integer (and 64-bit with LS_KT_INT64) to f32 rounded to nearest even */
    LS_KT_FLOAT_BITS = 1 << 11,  /* f32 in registers, selects and comparisons keeps every bit, NaN and -0 in their places */
    LS_KT_FMA32 = 1 << 12,       /* an f32 fma that rounds once; without: only with LS_KF_FAST */
    LS_KT_ORDER32 = 1 << 13,     /* f32 arithmetic is done as written: no x + 0 = x, x - x = 0, (a + c) - a = c */
    LS_KT_BFLOAT_CAST = 1 << 14, /* f32 to bf16 with one rounding to nearest even, a NaN for a NaN */
    LS_KT_CAST64 = 1 << 15,      /* f32 to f64, and f64 to f32 with one rounding to nearest even; subnormals kept */
    LS_KT_ALL = (1 << 16) - 1
} ls_ktrait;
/* The name of a trait, as devices' capability lists print it: "division". NULL beyond the last. */
const char *ls_ktrait_name(int bit);

typedef struct ls_legal_param {
    int32_t param; /* of the kernel that was given; LS_VAL_NONE: the constant 0 */
    int32_t word;  /* 0 whole; 1 the low word, 2 the high word of a 64-bit value */
} ls_legal_param;

/* `traits` is a set of ls_ktrait. *out_params has an entry for each parameter of the result. Everything is the arena's.
 * LS_ERR_UNSUPPORTED, with the reason, for what cannot be done another way. */
ls_status ls_kernel_legalize(ls_arena *arena, const ls_kernel *kernel, uint32_t traits, ls_kernel *out_kernel,
                             const ls_legal_param **out_params, ls_error *err) LS_MUST_USE;

#endif
