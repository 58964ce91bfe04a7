/* Transposing eight vectors of eight 4-byte elements in registers: LS_TURN8(LINE, PUT) takes LINE(i) and gives PUT(r, column r). */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_TURN8_H
#define LOCKSTEP_BACKEND_CPU_ISA_TURN8_H

#include <stdint.h>

typedef uint32_t ls_eight __attribute__((vector_size(32)));

/* Two lines become, in each half, the elements of two columns in turn; two pairs of lines those of four lines of one column. */
#define LS_TURN8_PAIR(LINE, i, j)                                                                            \
    const ls_eight l##i = LINE(i), l##j = LINE(j), p##i = __builtin_shufflevector(l##i, l##j, 0, 8, 1, 9, 4, 12, 5, 13), \
                   p##j = __builtin_shufflevector(l##i, l##j, 2, 10, 3, 11, 6, 14, 7, 15);
#define LS_TURN8_QUAD(i, j, a, b)                                                                            \
    const ls_eight q##i = __builtin_shufflevector(p##a, p##b, 0, 1, 8, 9, 4, 5, 12, 13),                     \
                   q##j = __builtin_shufflevector(p##a, p##b, 2, 3, 10, 11, 6, 7, 14, 15);
#define LS_TURN8_COLUMNS(PUT, r, i, j)                                                                       \
    PUT(r, __builtin_shufflevector(q##i, q##j, 0, 1, 2, 3, 8, 9, 10, 11))                                    \
    PUT((r) + 4, __builtin_shufflevector(q##i, q##j, 4, 5, 6, 7, 12, 13, 14, 15))
#define LS_TURN8(LINE, PUT)                                                                                  \
    LS_TURN8_PAIR(LINE, 0, 1) LS_TURN8_PAIR(LINE, 2, 3) LS_TURN8_PAIR(LINE, 4, 5) LS_TURN8_PAIR(LINE, 6, 7)  \
    LS_TURN8_QUAD(0, 1, 0, 2) LS_TURN8_QUAD(2, 3, 1, 3) LS_TURN8_QUAD(4, 5, 4, 6) LS_TURN8_QUAD(6, 7, 5, 7)  \
    LS_TURN8_COLUMNS(PUT, 0, 0, 4) LS_TURN8_COLUMNS(PUT, 1, 1, 5) LS_TURN8_COLUMNS(PUT, 2, 2, 6) LS_TURN8_COLUMNS(PUT, 3, 3, 7)

#endif
