/* Chains of elementwise operations in registers (backend/cpu/chain.h): the same bits as the tile functions, one by one. */
#include "backend/cpu/isa/chain_ops.h"
#include "backend/cpu/isa/tile_isa.h"
#include "backend/cpu/isa/tile_math.h"
#include "base/half.h"
#include <string.h>

typedef ls_vf32 V;
enum { L = LS_LANES_F32, WIDEST = 16, WIDE = 8, THIN = 2 };

#define SPLAT LS_SPLAT_F32

static bool negative_zero(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits == UINT32_C(1) << 31;
}

#if !defined(LS_ISA_AVX512) && !defined(LS_ISA_AVX2)
void LS_TILE_NAME(ls_divide_f32)(float *dst, const float *x, float minus, float divisor, int64_t n, bool near, ls_chain_dst to) {
    (void)near, (void)to;
    for (int64_t i = 0; i < n; i++) {
        dst[i] = (x[i] - minus) / divisor;
    }
}
#endif

/* Memory is at work while the processor computes, which its own foresight does not reach: that ends with a page. */
LS_FETCHING void fetch_ahead(const ls_chain_row *row, const float *dst, int64_t i, int64_t n) {
    for (uint32_t left = row->ahead; left; left &= left - 1) {
        int k = __builtin_ctz(left);
        ls_fetch_behind((k < LS_CHAIN_POINTERS ? row->at[k] : dst) + i, n, row->second);
    }
}

/* Vectors are named variables: gcc 12 spills an indexed array of them. */
#define THIN_EACH(X, e) X(0, e) X(1, e)
#define WIDE_EACH(X, e) THIN_EACH(X, e) X(2, e) X(3, e) X(4, e) X(5, e) X(6, e) X(7, e)
#define WIDEST_EACH(X, e) WIDE_EACH(X, e) X(8, e) X(9, e) X(10, e) X(11, e) X(12, e) X(13, e) X(14, e) X(15, e)
#define BY_SCALAR(q, e)                                                                                      \
    {                                                                                                        \
        V x = s##q;                                                                                          \
        s##q = (e);                                                                                          \
        (void)x;                                                                                             \
    }
#define BY_VECTOR(q, e)                                                                                      \
    {                                                                                                        \
        V x = s##q, y = *(const ls_vf32_any *)(at + q * L);                                                  \
        s##q = (e);                                                                                          \
        (void)x;                                                                                             \
    }
#define THIN_PAIRS UNORDERED(s0, s1)
#define WIDE_PAIRS THIN_PAIRS | UNORDERED(s2, s3) | UNORDERED(s4, s5) | UNORDERED(s6, s7)
#define WIDEST_PAIRS WIDE_PAIRS | UNORDERED(s8, s9) | UNORDERED(s10, s11) | UNORDERED(s12, s13) | UNORDERED(s14, s15)
#if defined(LS_ISA_AVX512)
#define UNORDERED(x, y) _mm512_cmp_ps_mask((__m512)(x), (__m512)(y), _CMP_UNORD_Q)
#define ANY_NAN(pairs) ((pairs) != 0)
#elif defined(LS_ISA_AVX2)
#define UNORDERED(x, y) (ls_vu32)_mm256_cmp_ps((__m256)(x), (__m256)(y), _CMP_UNORD_Q)
#define ANY_NAN(pairs) (_mm256_movemask_ps((__m256)(pairs)) != 0)
#else
#define ANY_NAN(pairs) true
#endif
#define BEGIN(q, e) V s##q = *(const ls_vf32_any *)(src + i + q * L);
#define KEEP(q, to) *(ls_vf32_any *)((to) + q * L) = s##q;
#define FETCH(q, from) s##q = *(const ls_vf32_any *)((from) + q * L);
#define CANONICAL(q, e) s##q = ls_canonical(s##q);
#define END(q, e) *(ls_vf32_any *)(dst + i + q * L) = s##q;
#define END_FAR(q, e) LS_STREAM(dst + i + q * L, s##q);
#define OPERATE(e)                                                                                           \
    if (step->kind == LS_CHAIN_SCALAR) {                                                                     \
        const V y = SPLAT(c);                                                                                \
        EACH(BY_SCALAR, e)                                                                                   \
    } else {                                                                                                 \
        EACH(BY_VECTOR, e)                                                                                   \
    }
#define THROUGH_MEMORY(call)                                                                                 \
    {                                                                                                        \
        EACH(KEEP, room)                                                                                     \
        call;                                                                                                \
        EACH(FETCH, room)                                                                                    \
    }

#if defined(LS_ISA_AVX512)
#define VECTORS WIDEST
#define EACH WIDEST_EACH
#define PAIRS WIDEST_PAIRS
#define BLOCK widest_block
#include "backend/cpu/isa/chain.inc"
#undef VECTORS
#undef EACH
#undef PAIRS
#undef BLOCK
#endif
#define VECTORS WIDE
#define EACH WIDE_EACH
#define PAIRS WIDE_PAIRS
#define BLOCK wide_block
#include "backend/cpu/isa/chain.inc"
#undef VECTORS
#undef EACH
#undef PAIRS
#undef BLOCK
#define VECTORS THIN
#define EACH THIN_EACH
#define PAIRS THIN_PAIRS
#define BLOCK thin_block
#include "backend/cpu/isa/chain.inc"

/* Fewer lanes than a block has: operands and results by way of slots of their own. */
static void part(const ls_chain_row *row, float *dst, const float *src, int64_t at, int64_t n) {
    V rooms[LS_CHAIN_POINTERS + 1][THIN];
    /* by fields: a copy by vectors would wait for the stores that have just made the row */
    ls_chain_row own = {.n_steps = row->n_steps, .n_pointers = row->n_pointers, .steps = row->steps, .scalars = row->scalars};
    memset(rooms[LS_CHAIN_POINTERS], 0, sizeof rooms[0]);
    memcpy(rooms[LS_CHAIN_POINTERS], src + at, (size_t)n * sizeof *src);
    for (int k = 0; k < row->n_pointers; k++) {
        own.slots[k] = row->slots[k];
        if (row->at[k]) {
            memset(rooms[k], 0, sizeof rooms[k]);
            memcpy(rooms[k], row->at[k] + at, (size_t)n * sizeof *src);
            own.at[k] = (const float *)(const void *)rooms[k];
        }
    }
    float *room = (float *)(void *)rooms[LS_CHAIN_POINTERS];
    thin_block(&own, room, room, 0);
    memcpy(dst + at, room, (size_t)n * sizeof *dst);
}

#if defined(LS_ISA_AVX512)
static bool is_zero_maximum(const ls_chain_row *row, const ls_chain_step *step) {
    return step->op == LS_CHAIN_MAX && step->kind == LS_CHAIN_SCALAR && row->scalars[step->at] == 0 && !negative_zero(row->scalars[step->at]);
}

/* What follows most convolutions, a bias and a relu, without walking the chain: lines of small planes are a few vectors. */
static bool bias(const ls_chain_row *row, float *dst, const float *src, int64_t n) {
    const ls_chain_step *step = row->steps;
    const bool relu = row->n_steps == 2 && is_zero_maximum(row, step + 1);
    if (step->op != LS_CHAIN_ADD || step->kind != LS_CHAIN_SCALAR || (row->n_steps != 1 && !relu)) {
        return false;
    }
    const V y = SPLAT(row->scalars[step->at]), zero = {0};
    for (int64_t i = 0; i < n; i += L) {
        const __mmask16 lanes = n - i < L ? (__mmask16)((1u << (n - i)) - 1) : 0xffff;
        V x = (V)_mm512_maskz_loadu_ps(lanes, src + i) + y;
        x = relu ? LS_ABOVE(zero, x) + zero : x;
        _mm512_mask_storeu_ps(dst + i, lanes, (__m512)ls_canonical(x));
    }
    return true;
}
#endif

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
static ls_erf_fn *erf_of(ls_tile_fn fn) {
#if defined(LS_ISA_AVX2)
    if (fn == LS_TILE_MATH(fast_erf, f32)) {
        return LS_TILE_NAME(ls_fast_erf_blocks);
    }
#endif
    return fn == LS_TILE_MATH(erf, f32) ? LS_TILE_NAME(ls_erf_blocks) : NULL;
}

/* A GELU, whose steps before and after the error function are done in its blocks; how many lanes. */
static int64_t gelu(const ls_chain_row *row, float *dst, const float *src, int64_t n) {
    const ls_chain_step *step = row->steps, *end = step + row->n_steps;
    ls_erf_around around = {.times = 1, .factor = 1, .then = 1, .second = row->second, .far = row->middle != NULL};
    around.fetch = row->ahead & 1 ? LS_FETCH_AHEAD : 0;
    if (row->n_steps > 0 && step->op == LS_CHAIN_MUL && step->kind == LS_CHAIN_SCALAR) {
        around.times = row->scalars[step++->at];
    }
    ls_erf_fn *const erf = end - step >= 3 && step->op == LS_CHAIN_CALL ? erf_of(step->fn) : NULL;
    if (!erf || step[1].op != LS_CHAIN_ADD || step[1].kind != LS_CHAIN_SCALAR ||
        (step[2].op != LS_CHAIN_MUL && step[2].op != LS_CHAIN_PRODUCT) || step[2].kind != LS_CHAIN_MEMORY) {
        return 0;
    }
    around.plus = row->scalars[step[1].at];
    around.by = row->at[step[2].at];
    around.factor = step[2].op == LS_CHAIN_PRODUCT ? row->scalars[step[2].by] : 1;
    step += 3;
    if (step < end && step->op == LS_CHAIN_MUL && step->kind == LS_CHAIN_SCALAR) {
        around.then = row->scalars[step++->at];
    }
    return step == end ? erf(dst, src, n, &around) : 0;
}

static const float *operand(const ls_chain_row *row, const ls_chain_step *step, int64_t i) {
    return step->kind == LS_CHAIN_SLOT ? row->slots[step->at] : row->at[step->at] + i;
}

/* Whether a step is this one, of elements. */
static bool is_step(const ls_chain_step *step, const ls_chain_step *end, ls_chain_op op) {
    return step < end && step->op == op && (step->kind == LS_CHAIN_MEMORY || step->kind == LS_CHAIN_SLOT);
}

/* The gate that has this function; NULL: none. */
static ls_gate_fn *gate_of(ls_tile_fn fn) {
#if defined(LS_ISA_AVX2)
    if (fn == LS_TILE_MATH(fast_tanh, f32) || fn == LS_TILE_MATH(fast_sigmoid, f32)) {
        return fn == LS_TILE_MATH(fast_tanh, f32) ? LS_TILE_NAME(ls_gate_fast_tanh) : LS_TILE_NAME(ls_gate_fast_sigmoid);
    }
#endif
    return fn == LS_TILE_MATH(tanh, f32) ? LS_TILE_NAME(ls_gate_tanh) : fn == LS_TILE_MATH(sigmoid, f32) ? LS_TILE_NAME(ls_gate_sigmoid) : NULL;
}

/* The gates that a chain is made of, from lane i on, each kept but the last; how many, 0: it is not. */
static int find_gates(const ls_chain_row *row, float *dst, const float *src, int64_t i, ls_gate *gates) {
    const ls_chain_step *step = row->steps, *end = step + row->n_steps;
    const float *x = src + i;
    for (int n = 0; n <= LS_CHAIN_SLOTS; n++, step += 2) {
        ls_gate *g = &gates[n];
        *g = (ls_gate){.x = x, .to = dst + i};
        for (int k = 0; k < 2 && is_step(step, end, LS_CHAIN_ADD); k++) {
            g->plus[k] = operand(row, step++, i);
        }
        g->run = step < end && step->op == LS_CHAIN_CALL ? gate_of(step++->fn) : NULL;
        if (!g->run) {
            return 0;
        }
        g->times = is_step(step, end, LS_CHAIN_MUL) ? operand(row, step++, i) : NULL;
        g->more = is_step(step, end, LS_CHAIN_ADD) ? operand(row, step++, i) : NULL;
        if (step == end) {
            return n + 1;
        }
        if (step->op != LS_CHAIN_KEEP || !is_step(step + 1, end, LS_CHAIN_TAKE)) {
            return 0;
        }
        g->to = row->slots[step->at];
        x = operand(row, step + 1, i);
    }
    return 0;
}

/* As many lanes as are whole blocks of gates, where the chain is nothing else; how many. */
static int64_t gates(const ls_chain_row *row, float *dst, const float *src, int64_t n) {
    ls_gate all[LS_CHAIN_SLOTS + 1];
    int64_t i = 0;
    for (int64_t part; n - i >= LS_GATE_LANES; i += part) {
        const int count = row->middle ? 0 : find_gates(row, dst, src, i, all);
        if (!count) {
            break;
        }
        part = n - i < LS_CHAIN_LANES ? (n - i) / LS_GATE_LANES * LS_GATE_LANES : LS_CHAIN_LANES;
        fetch_ahead(row, dst, i, part);
        for (int k = 0; k < count; k++) {
            all[k].run(&all[k], part);
        }
    }
    return i;
}
#endif

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
/* How a norm and a softmax end, (x - a) / b with one a and one b: the steps of that, done to all lanes at once; 0: the chain begins otherwise, or overwrites what it reads later. */
static int beginning(const ls_chain_row *row, const float *dst) {
    const ls_chain_step *first = row->steps, *step = first, *end = first + row->n_steps;
    if (step < end && step->op == LS_CHAIN_SUB && step->kind == LS_CHAIN_SCALAR) {
        step++;
    }
    if (step == end || (step->op != LS_CHAIN_DIV && step->op != LS_CHAIN_DIV_NEAR) || step->kind != LS_CHAIN_SCALAR) {
        return 0;
    }
    for (const ls_chain_step *later = step + 1; later < end; later++) {
        if (later->kind == LS_CHAIN_MEMORY && row->at[later->at] == dst) {
            return 0;
        }
    }
    return (int)(step - first) + 1;
}

static void normalise(const ls_chain_row *row, int n_steps, float *dst, const float *src, int64_t n) {
    const ls_chain_step *step = row->steps + n_steps - 1;
    const float minus = n_steps == 2 ? row->scalars[row->steps->at] : 0;
    const bool all = n_steps == row->n_steps;
    ls_chain_dst to = row->middle && all ? LS_DST_FAR : row->ahead >> LS_CHAIN_POINTERS & 1 ? LS_DST_FETCHED : LS_DST_NEAR;
    LS_TILE_NAME(ls_divide_f32)(row->middle && !all ? row->middle : dst, src, minus, row->scalars[step->at], n, step->op == LS_CHAIN_DIV_NEAR, to);
}

#if defined(LS_ISA_AVX512)
static bool takes_scalar(const ls_chain_step *step, const ls_chain_step *end, ls_chain_op op) {
    return step < end && step->op == op && step->kind == LS_CHAIN_SCALAR;
}

/* All of a batch norm, with the relu after it, in one pass; its quotients are rounded in any case. */
static bool batch_norm(const ls_chain_row *row, float *dst, const float *src, int64_t n) {
    const ls_chain_step *step = row->steps, *end = step + row->n_steps;
    ls_norm norm = {.divisor = 1, .fetches = row->ahead & 1, .fetches_dst = row->ahead >> LS_CHAIN_POINTERS & 1, .second = row->second, .far = row->middle != NULL};
    if (!takes_scalar(step, end, LS_CHAIN_SUB)) {
        return false;
    }
    norm.minus = row->scalars[step++->at];
    if (takes_scalar(step, end, LS_CHAIN_DIV) || takes_scalar(step, end, LS_CHAIN_DIV_NEAR)) {
        norm.divides = true;
        norm.divisor = row->scalars[step++->at];
    }
    if (!takes_scalar(step, end, LS_CHAIN_MUL) || !takes_scalar(step + 1, end, LS_CHAIN_ADD)) {
        return false;
    }
    norm.times = row->scalars[step->at];
    norm.plus = row->scalars[step[1].at];
    norm.relu = end - step == 3 && is_zero_maximum(row, step + 2);
    if (end - step > 2 && !norm.relu) {
        return false;
    }
    LS_TILE_NAME(ls_norm_f32)(dst, src, n, &norm);
    return true;
}
#endif

/* Some lanes at a time, so that what a beginning of its own makes is found in the nearest cache. */
static void in_pieces(const ls_chain_row *row, float *dst, const float *src, int64_t n) {
    ls_chain_row own = *row;
    for (int64_t i = 0; i < n; i += LS_CHAIN_MIDDLE) {
        for (int k = 0; k < row->n_pointers; k++) {
            own.at[k] = row->at[k] ? row->at[k] + i : NULL;
        }
        LS_TILE_NAME(ls_chain_run)(&own, dst + i, src + i, n - i < LS_CHAIN_MIDDLE ? n - i : LS_CHAIN_MIDDLE);
    }
}
#endif

void LS_TILE_NAME(ls_chain_run)(const ls_chain_row *row, float *dst, const float *src, int64_t n) {
    int64_t i = 0;
#if defined(LS_ISA_AVX512)
    if (batch_norm(row, dst, src, n)) {
        return;
    }
#endif
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
    ls_chain_row rest;
    const int done = beginning(row, dst);
    if (done && done < row->n_steps && n > LS_CHAIN_MIDDLE) {
        in_pieces(row, dst, src, n);
        return;
    }
    if (done) {
        normalise(row, done, dst, src, n);
        if (done == row->n_steps) {
            return;
        }
        rest = *row;
        rest.steps += done;
        rest.n_steps -= done;
        row = &rest;
        src = rest.middle ? rest.middle : dst;
    }
#endif
#if defined(LS_ISA_AVX512)
    if (!row->ahead && bias(row, dst, src, n)) {
        return;
    }
#endif
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
    i = gelu(row, dst, src, n);
    i = i ? i : gates(row, dst, src, n);
#endif
#if defined(LS_ISA_AVX512)
    for (; i + WIDEST * L <= n; i += WIDEST * L) {
        widest_block(row, dst, src, i);
    }
#endif
    for (; i + WIDE * L <= n; i += WIDE * L) {
        wide_block(row, dst, src, i);
    }
    for (; i + THIN * L <= n; i += THIN * L) {
        thin_block(row, dst, src, i);
    }
    if (i < n) {
        part(row, dst, src, i, n - i);
    }
}
