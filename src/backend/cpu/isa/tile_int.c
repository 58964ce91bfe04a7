/* MAP operations on integers and bool. Wrapping is unsigned arithmetic; x/0 = 0, x%0 = 0, MIN/-1 = MIN;
 * counts of shifts are read as unsigned and may be anything. */
#include "backend/cpu/isa/tile_isa.h"

/* Operations whose bits do not depend on the sign: U unsigned, W a width in which products do not overflow as
 * int. */
#define EITHER(bits, W)                                                                                      \
    UNARY(neg_##bits, uint##bits##_t, uint##bits##_t, (W)0 - x)                                              \
    UNARY(not_##bits, uint##bits##_t, uint##bits##_t, ~x)                                                    \
    UNARY(popcount_##bits, uint##bits##_t, uint##bits##_t, __builtin_popcountll(x))                          \
    BINARY(add_##bits, uint##bits##_t, uint##bits##_t, (W)x + y)                                             \
    BINARY(sub_##bits, uint##bits##_t, uint##bits##_t, (W)x - y)                                             \
    BINARY(mul_##bits, uint##bits##_t, uint##bits##_t, (W)x *y)                                              \
    BINARY(and_##bits, uint##bits##_t, uint##bits##_t, x &y)                                                 \
    BINARY(or_##bits, uint##bits##_t, uint##bits##_t, x | y)                                                 \
    BINARY(xor_##bits, uint##bits##_t, uint##bits##_t, x ^ y)                                                \
    BINARY(eq_##bits, uint##bits##_t, uint8_t, x == y)                                                       \
    BINARY(ne_##bits, uint##bits##_t, uint8_t, x != y)                                                       \
    BINARY(shl_##bits, uint##bits##_t, uint##bits##_t, y < bits ? (W)x << (y & (bits - 1)) : 0)
EITHER(8, uint32_t)
EITHER(16, uint32_t)
EITHER(32, uint32_t)
EITHER(64, uint64_t)

#define COMPARED(tag, T)                                                                                     \
    BINARY(lt_##tag, T, uint8_t, x < y)                                                                      \
    BINARY(le_##tag, T, uint8_t, x <= y)                                                                     \
    BINARY(min_##tag, T, T, x < y ? x : y)                                                                   \
    BINARY(max_##tag, T, T, x < y ? y : x)
#define UNSIGNED(bits)                                                                                       \
    COMPARED(u##bits, uint##bits##_t)                                                                        \
    UNARY(sign_u##bits, uint##bits##_t, uint##bits##_t, x != 0)                                              \
    BINARY(div_u##bits, uint##bits##_t, uint##bits##_t, y == 0 ? 0 : x / (y + (y == 0)))                     \
    BINARY(rem_u##bits, uint##bits##_t, uint##bits##_t, y == 0 ? 0 : x % (y + (y == 0)))                     \
    BINARY(shr_u##bits, uint##bits##_t, uint##bits##_t, y < bits ? x >> (y & (bits - 1)) : 0)
UNSIGNED(8)
UNSIGNED(16)
UNSIGNED(32)
UNSIGNED(64)

/* Division where y is 0 or -1 is done by 1 instead, and negated by wrapping for -1. */
#define SIGNED(bits, W)                                                                                      \
    COMPARED(i##bits, int##bits##_t)                                                                         \
    UNARY(abs_i##bits, int##bits##_t, uint##bits##_t, x < 0 ? (W)0 - (W)x : (W)x)                            \
    UNARY(sign_i##bits, int##bits##_t, int##bits##_t, (x > 0) - (x < 0))                                     \
    BINARY(div_i##bits, int##bits##_t, uint##bits##_t,                                                       \
           y == 0    ? 0                                                                                     \
           : y == -1 ? (W)0 - (W)x                                                                           \
                     : (W)(x / (y == 0 || y == -1 ? 1 : y)))                                                 \
    BINARY(rem_i##bits, int##bits##_t, int##bits##_t,                                                        \
           y == 0 || y == -1 ? 0 : x % (y == 0 || y == -1 ? 1 : y))                                          \
    BINARY(shr_i##bits, int##bits##_t, int##bits##_t, x >> ((uint##bits##_t)y < bits ? y : bits - 1))
SIGNED(8, uint32_t)
SIGNED(16, uint32_t)
SIGNED(32, uint32_t)
SIGNED(64, uint64_t)

UNARY(not_bool, uint8_t, uint8_t, x == 0)

#define ROW(OP, name)                                                                                        \
    [LS_TILE_INT_##OP] = {[LS_U8] = name##_8,   [LS_U16] = name##_16, [LS_U32] = name##_32,                  \
                          [LS_U64] = name##_64, [LS_I8] = name##_8,   [LS_I16] = name##_16,                  \
                          [LS_I32] = name##_32, [LS_I64] = name##_64, [LS_BOOL] = name##_8}
#define ROW_SIGNED(OP, name)                                                                                 \
    [LS_TILE_INT_##OP] = {[LS_U8] = name##_u8,   [LS_U16] = name##_u16, [LS_U32] = name##_u32,               \
                          [LS_U64] = name##_u64, [LS_I8] = name##_i8,   [LS_I16] = name##_i16,               \
                          [LS_I32] = name##_i32, [LS_I64] = name##_i64, [LS_BOOL] = name##_u8}

const ls_tile_fn LS_TILE_NAME(ls_tile_map_int)[LS_TILE_INT_COUNT][LS_F16] = {
    ROW(NEG, neg),
    [LS_TILE_INT_ABS] = {[LS_I8] = abs_i8, [LS_I16] = abs_i16, [LS_I32] = abs_i32, [LS_I64] = abs_i64},
    ROW_SIGNED(SIGN, sign),
    [LS_TILE_INT_NOT] = {[LS_U8] = not_8, [LS_U16] = not_16, [LS_U32] = not_32, [LS_U64] = not_64, [LS_I8] = not_8,
                         [LS_I16] = not_16, [LS_I32] = not_32, [LS_I64] = not_64, [LS_BOOL] = not_bool},
    ROW(POPCOUNT, popcount),
    ROW(ADD, add),
    ROW(SUB, sub),
    ROW(MUL, mul),
    ROW_SIGNED(DIV, div),
    ROW_SIGNED(REM, rem),
    ROW_SIGNED(MIN, min),
    ROW_SIGNED(MAX, max),
    ROW(AND, and),
    ROW(OR, or),
    ROW(XOR, xor),
    ROW(SHL, shl),
    ROW_SIGNED(SHR, shr),
    ROW(EQ, eq),
    ROW(NE, ne),
    ROW_SIGNED(LT, lt),
    ROW_SIGNED(LE, le),
};
