/* Transposing sixteen vectors of sixteen 4-byte elements in registers: LS_TURN16(LINE, PUT) takes LINE(i) and gives PUT(r, column r). */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_TURN16_H
#define LOCKSTEP_BACKEND_CPU_ISA_TURN16_H

#include <immintrin.h>

/* Four lines become, in each quarter of u0..u3, the four lines' elements of one column. */
#define LS_TURN16_FOUR(LINE, g, u0, u1, u2, u3)                                                              \
    {                                                                                                        \
        __m512i a = LINE(g), b = LINE(g + 1), c = LINE(g + 2), d = LINE(g + 3);                              \
        __m512i ab = _mm512_unpacklo_epi32(a, b), ab2 = _mm512_unpackhi_epi32(a, b);                         \
        __m512i cd = _mm512_unpacklo_epi32(c, d), cd2 = _mm512_unpackhi_epi32(c, d);                         \
        u0 = _mm512_unpacklo_epi64(ab, cd), u1 = _mm512_unpackhi_epi64(ab, cd);                              \
        u2 = _mm512_unpacklo_epi64(ab2, cd2), u3 = _mm512_unpackhi_epi64(ab2, cd2);                          \
    }
/* Columns c, c + 4, c + 8 and c + 12 from the c-th of each four lines. */
#define LS_TURN16_COLUMNS(PUT, c, a, b, d, e)                                                                \
    {                                                                                                        \
        __m512i even = _mm512_shuffle_i32x4(a, b, 0x88), even2 = _mm512_shuffle_i32x4(d, e, 0x88);           \
        __m512i odd = _mm512_shuffle_i32x4(a, b, 0xdd), odd2 = _mm512_shuffle_i32x4(d, e, 0xdd);             \
        PUT(c, _mm512_shuffle_i32x4(even, even2, 0x88))                                                      \
        PUT(c + 4, _mm512_shuffle_i32x4(odd, odd2, 0x88))                                                    \
        PUT(c + 8, _mm512_shuffle_i32x4(even, even2, 0xdd))                                                  \
        PUT(c + 12, _mm512_shuffle_i32x4(odd, odd2, 0xdd))                                                   \
    }
#define LS_TURN16(LINE, PUT)                                                                                 \
    {                                                                                                        \
        __m512i a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3;                              \
        LS_TURN16_FOUR(LINE, 0, a0, a1, a2, a3)                                                              \
        LS_TURN16_FOUR(LINE, 4, b0, b1, b2, b3)                                                              \
        LS_TURN16_FOUR(LINE, 8, c0, c1, c2, c3)                                                              \
        LS_TURN16_FOUR(LINE, 12, d0, d1, d2, d3)                                                             \
        LS_TURN16_COLUMNS(PUT, 0, a0, b0, c0, d0)                                                            \
        LS_TURN16_COLUMNS(PUT, 1, a1, b1, c1, d1)                                                            \
        LS_TURN16_COLUMNS(PUT, 2, a2, b2, c2, d2)                                                            \
        LS_TURN16_COLUMNS(PUT, 3, a3, b3, c3, d3)                                                            \
    }

#endif
