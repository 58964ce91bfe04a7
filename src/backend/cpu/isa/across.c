/* Tiles across (gemm_isa.h), whose vectors are rows: what is around their kernels, and how they are stored. */
#include "backend/cpu/isa/gemm_vec.h"
#include <string.h>

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/chain_ops.h"
#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/turn16.h"
#else
#include "backend/cpu/isa/turn8.h"
#endif

enum { ROWS = 2 * LS_LANES_F32 };

#if defined(LS_ISA_AVX2)
/* n outputs: sums[output][row] = (add ? sums[output][row] : nothing) + what they have of this piece of k. Of a line's first output and its last,
 * which may be beyond the image, the sums stay as they are where they are. */
static void some_outputs(const ls_gemm_runs *t, int64_t n, const float *a, const float *image, float *sums, int64_t ends) {
    enum { MOST = 6 };
    static const float nothing[MOST * ROWS];
    const int64_t *shifts = t->shifts;
    const float *plus = t->add ? sums : NULL, *from = nothing, *at[MOST];
    float own[2][MOST * ROWS];
    int turn = 0;
    for (const ls_gemm_edge *edge = t->edges, *end = edge + t->n_edges; edge < end; edge++) {
        const int64_t beyond = edge->beyond & ends;
        int64_t k = edge->k;
        for (; edge + 1 < end && (edge[1].beyond & ends) == beyond; edge++) {
            k += edge[1].k;
        }
        if (!(beyond & LS_BEYOND_ALL)) {
            const bool last = edge + 1 == end && !beyond;
            float *to = last ? sums : own[turn];
            for (int64_t i = 0; i < n; i++) {
                at[i] = image + i * t->step;
            }
            at[0] = beyond & LS_BEYOND_FIRST ? at[1] : at[0]; /* an output beyond takes its neighbour's elements, and is put back */
            at[n - 1] = beyond & LS_BEYOND_LAST ? at[n - 2] : at[n - 1];
            t->of[n](k, shifts, a, at, from, last ? plus : NULL, to);
            if (last) {
                return;
            }
            if (beyond & LS_BEYOND_FIRST) {
                memcpy(to, from, ROWS * sizeof *to);
            }
            if (beyond & LS_BEYOND_LAST) {
                memcpy(to + (n - 1) * ROWS, from + (n - 1) * ROWS, ROWS * sizeof *to);
            }
            from = to;
            turn = !turn;
        }
        shifts += k;
        a += k * ROWS;
    }
    for (int64_t i = 0; i < n * ROWS; i++) {
        sums[i] = plus ? plus[i] + from[i] : from[i];
    }
}

/* Outputs of lines that end inside of what some of them read: copies of those parts, with zeros for what is beyond (filters are finite), and the taps of
 * all outputs that are not beyond the image altogether. */
enum { TAPS = 3, COPY_WIDTH = 2 * LS_LANES_F32 };
typedef struct line_copies {
    float first[LS_ACROSS_LINES * COPY_WIDTH], last[LS_ACROSS_LINES * COPY_WIDTH];
    int64_t places[LS_ACROSS_LINES * TAPS];
} line_copies;

static void copy_lines(int64_t k, const int64_t *shifts, const float *image, int64_t low, int64_t high, float *to, int64_t *places) {
    const ls_lanes left = ls_lanes_between(low, high), right = ls_lanes_between(low - LS_LANES_F32, high - LS_LANES_F32);
    for (int64_t p = 0, at = 0; p < k; p += TAPS, at += COPY_WIDTH) {
        const float *from = image + shifts[p];
        _mm256_storeu_ps(to + at, _mm256_maskload_ps(from, left));
        _mm256_storeu_ps(to + at + LS_LANES_F32, _mm256_maskload_ps(from + LS_LANES_F32, right));
        places[p] = at;
    }
}

/* How many outputs a kernel takes next, of so many. */
static int64_t next_outputs(int64_t left) {
    return left == 6 || (left > 9 && left != 11) ? 6 : left == 3 || left == 9 ? 3 : 4;
}

static int64_t last_outputs(int64_t left) {
    int64_t n = 0;
    for (; left > 0; left -= n) {
        n = next_outputs(left);
    }
    return n;
}

static void run_in_lines(ls_gemm_runs *t, const float *a, const float *image, float *c) {
    static const float nothing[6 * ROWS];
    const int64_t *shifts = t->shifts, n_last = last_outputs(t->outputs);
    const float *last = image + (t->outputs - n_last) * t->step;
    float *sums = t->sums;
    int64_t k = 0, skipped = 0;
    line_copies copies;
    for (const ls_gemm_edge *edge = t->edges, *end = edge + t->n_edges; edge < end; edge++) { /* lines beyond come before all others, or after them */
        skipped += edge->beyond && k == 0 ? edge->k : 0;
        k += edge->beyond ? 0 : edge->k;
    }
    shifts += skipped;
    if (t->low > 0) {
        copy_lines(k, shifts, image, t->low, COPY_WIDTH, copies.first, copies.places);
    }
    if (t->high > 0) {
        copy_lines(k, shifts, last, 0, (n_last - 1) * t->step + TAPS - t->high, copies.last, copies.places);
    }
    for (int64_t panel = 0; panel < t->panels; panel++, a += t->panel) {
        const float *from = image;
        for (int row = t->last ? ROWS : 0; row > 0; row--, c += t->ldc) {
            __builtin_prefetch(c);
            __builtin_prefetch(c + t->outputs - 1);
            __asm__("" : "+r"(row)); /* a compiler would write it out */
        }
        for (int64_t left = t->outputs, n; left > 0; left -= n, sums += n * ROWS, from += n * t->step) {
            const bool first = left == t->outputs && t->low > 0;
            n = next_outputs(left);
            const bool copied = first || (left == n && t->high > 0);
            const float *begin = first ? copies.first : copied ? copies.last : from, *at[6];
            for (int64_t i = 0; i < n; i++) {
                at[i] = begin + i * t->step;
            }
            t->of[n](k, copied ? copies.places : shifts, a + skipped * ROWS, at, nothing, t->add ? sums : NULL, sums);
        }
    }
}

void LS_ISA_SUFFIX(ls_across_run)(ls_gemm_runs *t, const float *a, const float *image, float *c) {
    float *sums = t->sums;
    if (t->in_lines) {
        run_in_lines(t, a, image, c);
        return;
    }
    for (int64_t panel = 0; panel < t->panels; panel++, a += t->panel) {
        int64_t ends = LS_BEYOND_ALL | LS_BEYOND_FIRST;
        const float *at = image;
        for (int row = t->last ? ROWS : 0; row > 0; row--, c += t->ldc) {
            __builtin_prefetch(c);
            __builtin_prefetch(c + t->outputs - 1);
            __asm__("" : "+r"(row)); /* a compiler would write it out */
        }
        for (int64_t left = t->outputs, n; left > 0; left -= n, sums += n * ROWS, at += n * t->step) {
            n = next_outputs(left);
            ends |= left == n ? LS_BEYOND_LAST : 0;
            some_outputs(t, n, a, at, sums, ends);
            ends &= ~LS_BEYOND_FIRST;
        }
    }
}
#endif

/* A vector's rows of a tile across: each step on all outputs. */
static void follow_across(const ls_gemm_runs *t, const float *scalars, float *sums) {
    for (const ls_chain_step *step = t->rows.steps, *end = step + t->rows.n_steps; step < end; step++) {
        float own[LS_LANES_F32];
        for (int r = 0; r < LS_LANES_F32; r++) {
            own[r] = scalars[r * t->rows.n_scalars + step->at];
        }
        const ls_vf32 y = *(const ls_vf32_any *)own, zero = ls_zeros_above(y);
        for (int64_t o = 0; o < t->outputs; o++, sums += ROWS) {
            ls_vf32_any *at = (ls_vf32_any *)sums;
            const ls_vf32 x = *at;
            *at = step->op == LS_CHAIN_ADD   ? x + y
                  : step->op == LS_CHAIN_SUB ? x - y
                  : step->op == LS_CHAIN_MUL ? x * y
                  : step->op == LS_CHAIN_MIN ? ls_lowest(x, y)
                                             : LS_ABOVE(y, x) + zero;
        }
        sums -= t->outputs * ROWS;
    }
}

/* Tiles whose vectors are rows, two of them: what follows, then they are turned. */
void LS_ISA_SUFFIX(ls_across_store)(const ls_gemm_runs *t, float *c) {
    float *sums = t->sums;
    for (int64_t panel = 0; panel < t->panels; panel++, c += ROWS * t->ldc, sums += ROWS * t->outputs) {
        for (int half = 0; half < ROWS; half += LS_LANES_F32) {
            follow_across(t, t->rows.scalars + (panel * ROWS + half) * t->rows.n_scalars, sums + half);
        }
        for (int half = 0; half < ROWS; half += LS_LANES_F32) {
#if defined(LS_ISA_AVX512)
            const __mmask16 outputs = (__mmask16)((1u << t->outputs) - 1);
#define LINE(i) ((i) < t->outputs ? (__m512i)ls_canonical(*(const ls_vf32_any *)(sums + half + ROWS * (i))) : _mm512_setzero_si512())
#define PUT(r, column) _mm512_mask_storeu_epi32(c + (half + (r)) * t->ldc, outputs, column);
            LS_TURN16(LINE, PUT)
#else
            for (int64_t done = 0; done < t->outputs; done += 8) { /* the last ones may be some of those before, again */
                const int64_t o = done + 8 <= t->outputs ? done : t->outputs - 8;
#define LINE(i) (ls_eight) ls_canonical(*(const ls_vf32_any *)(sums + half + ROWS * (o + (i))))
#define PUT(r, column) *(ls_vf32_any *)(c + (half + (r)) * t->ldc + o) = (ls_vf32)(column);
                LS_TURN8(LINE, PUT)
            }
#endif
#undef LINE
#undef PUT
        }
    }
}
#endif
