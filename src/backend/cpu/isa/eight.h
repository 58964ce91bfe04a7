/* Eight vectors at a time, each operation on all or on four of them before the next, in the order that stands there: a function of f32 is
 * one chain of operations that wait for each other, and its ports are kept at work by the others' chains alone. What the exponentials of
 * locked arithmetic share: exp(r) = h + l as in math.inc, where half of a square, which is exact unless it is beneath all notice, is fused
 * with the addition behind it. */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_EIGHT_H
#define LOCKSTEP_BACKEND_CPU_ISA_EIGHT_H

#include "math/const32.h"
#include <immintrin.h>

typedef __m512 V;
enum { LANES = 128 };

#define LOW(X) X(0) X(1) X(2) X(3)
#define HIGH(X) X(4) X(5) X(6) X(7)
#define ALL(X) LOW(X) HIGH(X)
/* A compiler would take one vector after another through all operations. */
#define KEEP_LOW(v) __asm__ volatile("" : "+v"(v##0), "+v"(v##1), "+v"(v##2), "+v"(v##3));
#define KEEP_HIGH(v) __asm__ volatile("" : "+v"(v##4), "+v"(v##5), "+v"(v##6), "+v"(v##7));
#define KEEP(v) KEEP_LOW(v) KEEP_HIGH(v)
/* Constants come from memory where they are needed: registers are scarce. */
#define CONSTANTS __asm__ volatile("" : "+r"(c));
#define SPLAT(i) _mm512_set1_ps(c[i])
/* Puts a vector away, and a compiler does not keep it besides. */
#define STORE(to, i, v)                                                                                      \
    _mm512_storeu_ps((to) + 16 * i, v);                                                                      \
    __asm__ volatile("" : "+m"(*(__m512_u *)(void *)((to) + 16 * i)));

/* a, half and one are vectors of a constant. */
#define BEGIN(i) V p##i = _mm512_mul_ps(r##i, a);
#define PLUS(i) p##i = _mm512_add_ps(a, p##i);
#define BY_R(i) p##i = _mm512_mul_ps(r##i, p##i);
#define SQUARE(i) V z##i = _mm512_mul_ps(r##i, r##i);
#define CUBE(i) V q##i = _mm512_mul_ps(z##i, r##i);
#define BY_CUBE(i) p##i = _mm512_mul_ps(q##i, p##i);
#define HALF_SQUARE(i) p##i = _mm512_fmadd_ps(z##i, half, p##i);
#define ONE_MORE(i) V h##i = _mm512_add_ps(one, r##i);
#define LOST(i) l##i = _mm512_sub_ps(one, h##i);
#define LEFT(i) l##i = _mm512_add_ps(l##i, r##i);
#define TAIL(i) l##i = _mm512_add_ps(l##i, p##i);
#define SUM(i) l##i = _mm512_add_ps(h##i, l##i);

/* exp(r) less the last sum; EXP and HALF are the places of its coefficients and of 0.5 in c. */
#define EXPONENTIAL                                                                                          \
    a = SPLAT(EXP + 4);                                                                                      \
    ALL(BEGIN) KEEP(p)                                                                                       \
    a = SPLAT(EXP + 3);                                                                                      \
    LOW(PLUS) KEEP_LOW(p) LOW(BY_R) HIGH(PLUS) KEEP(p)                                                       \
    a = SPLAT(EXP + 2);                                                                                      \
    LOW(PLUS) HIGH(BY_R) KEEP(p) LOW(BY_R) HIGH(PLUS) KEEP(p)                                                \
    a = SPLAT(EXP + 1);                                                                                      \
    LOW(PLUS) HIGH(BY_R) KEEP(p) LOW(BY_R) HIGH(PLUS) KEEP(p)                                                \
    CONSTANTS                                                                                                \
    a = SPLAT(EXP);                                                                                          \
    const V half = SPLAT(HALF);                                                                              \
    LOW(PLUS) HIGH(BY_R) KEEP(p) LOW(SQUARE) HIGH(PLUS) KEEP_LOW(z) KEEP_HIGH(p)                             \
    LOW(ONE_MORE) LOW(CUBE) KEEP_LOW(h) KEEP_LOW(q)                                                          \
    LOW(BY_CUBE) LOW(LOST) KEEP_LOW(p) KEEP_LOW(l) LOW(HALF_SQUARE) LOW(LEFT) KEEP_LOW(p) KEEP_LOW(l)        \
    HIGH(SQUARE) LOW(TAIL) KEEP_LOW(l) KEEP_HIGH(z) HIGH(ONE_MORE) HIGH(CUBE) KEEP_HIGH(h) KEEP_HIGH(q)

/* Of tiles from x to dst; of functions of two branches, of which the near one is x times a polynomial of its square. */
#define X(i) _mm512_loadu_ps(x + 16 * i)
#define LOAD(from, i) _mm512_load_ps((from) + 16 * i)
#define PUT(i) _mm512_storeu_ps(dst + 16 * i, l##i);
#define CANONICAL(i) l##i = (V)ls_canonical((ls_vf32)l##i);
#define NEAREST(i) n##i = _mm512_roundscale_ps(n##i, _MM_FROUND_TO_NEAREST_INT);
#define SMALLER(i) V t##i = _mm512_range_ps(X(i), b, 10); /* of two magnitudes */
#define NEAR_BEGIN(i)                                                                                        \
    V u##i = _mm512_mul_ps(X(i), X(i));                                                                      \
    STORE(squares, i, u##i)                                                                                  \
    u##i = _mm512_mul_ps(u##i, a);
#define NEAR_PLUS(i) u##i = _mm512_add_ps(u##i, a);
#define NEAR_TIMES(i) u##i = _mm512_mul_ps(u##i, LOAD(squares, i));
#define SIGN(i) l##i = (V)_mm512_ternarylogic_epi32((__m512i)l##i, (__m512i)X(i), sign, 0xf8); /* l | x & sign */

#endif
