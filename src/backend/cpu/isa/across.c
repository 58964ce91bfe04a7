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
enum { MOST_OUTPUTS = 6 }; /* of a kernel */

/* n outputs, whose elements begin at `of`: sums[output][row] = (add ? sums[output][row] : nothing) + what they have of this piece of k. Of a line's first
 * output and its last, which may be beyond the image, the sums stay as they are where they are. */
static void some_outputs(const ls_gemm_runs *t, int64_t n, const float *a, const float *const *of, float *sums, int64_t ends) {
    static const float nothing[MOST_OUTPUTS * ROWS];
    const int64_t *shifts = t->shifts;
    const float *plus = t->add ? sums : NULL, *from = nothing, *at[MOST_OUTPUTS];
    float own[2][MOST_OUTPUTS * ROWS];
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
            memcpy(at, of, sizeof at);
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

/* How many outputs a kernel takes next, of so many: about as many as those after it. */
static int64_t next_outputs(int64_t left) {
    const int64_t kernels = (left + MOST_OUTPUTS - 1) / MOST_OUTPUTS;
    return (left + kernels - 1) / kernels;
}

/* A tile whose taps are side by side in lines: those of the piece that are not beyond the image, above it or below, and of lines that end inside of what the
 * first outputs read, or the last ones, copies of these parts, with zeros for what is beyond (filters are finite). */
enum { MOST_TAPS = 7, COPY_WIDTH = 3 * LS_LANES_F32 };
typedef struct lines_there {
    int64_t k, skipped;
    const int64_t *shifts;
    float first[LS_ACROSS_LINES * COPY_WIDTH], last[LS_ACROSS_LINES * COPY_WIDTH];
    int64_t places[LS_ACROSS_LINES * MOST_TAPS]; /* in either copy */
} lines_there;

/* What n outputs read from `image` on, but for so many elements at one end. */
static void copy_lines(const ls_gemm_runs *t, lines_there *l, int64_t n, const float *image, int64_t low, int64_t high, float *to) {
    const int64_t width = (n - 1) * t->step + t->taps;
    for (int64_t v = 0; v < width; v += LS_LANES_F32) {
        const ls_lanes there = ls_lanes_between(low - v, width - high - v);
        for (int64_t p = 0, at = v; p < l->k; p += t->taps, at += COPY_WIDTH) {
            _mm256_storeu_ps(to + at, _mm256_maskload_ps(image + l->shifts[p] + v, there));
            l->places[p] = at - v;
        }
    }
}

static void find_lines(const ls_gemm_runs *t, const float *image, lines_there *l) {
    int64_t left = t->outputs, n;
    l->k = l->skipped = 0;
    for (const ls_gemm_edge *edge = t->edges, *end = edge + t->n_edges; edge < end; edge++) { /* those beyond come before all others, or after them */
        l->skipped += edge->beyond && l->k == 0 ? edge->k : 0;
        l->k += edge->beyond ? 0 : edge->k;
    }
    l->shifts = t->shifts + l->skipped;
    if (t->low > 0) {
        copy_lines(t, l, next_outputs(t->outputs), image, t->low, 0, l->first);
    }
    if (t->high > 0) {
        for (n = next_outputs(left); left > n; n = next_outputs(left)) {
            left -= n;
        }
        copy_lines(t, l, n, image + (t->outputs - n) * t->step, 0, t->high, l->last);
    }
}

void LS_ISA_SUFFIX(ls_across_run)(ls_gemm_runs *t, const float *a, const float *image, float *c) {
    static const float nothing[MOST_OUTPUTS * ROWS];
    float *sums = t->sums;
    lines_there lines;
    if (t->taps) {
        find_lines(t, image, &lines);
    }
    for (int64_t panel = 0; panel < t->panels; panel++, a += t->panel) {
        int64_t ends = LS_BEYOND_ALL | LS_BEYOND_FIRST;
        for (int row = t->last ? ROWS : 0; row > 0; row--, c += t->ldc) {
            __builtin_prefetch(c);
            __builtin_prefetch(c + t->outputs - 1);
            __asm__("" : "+r"(row)); /* a compiler would write it out */
        }
        for (int64_t o = 0, n; o < t->outputs; o += n, sums += n * ROWS) {
            n = next_outputs(t->outputs - o);
            ends |= o + n == t->outputs ? LS_BEYOND_LAST : 0;
            const float *copy = !t->taps ? NULL : ends & LS_BEYOND_FIRST && t->low > 0 ? lines.first : ends & LS_BEYOND_LAST && t->high > 0 ? lines.last : NULL;
            const float *of[MOST_OUTPUTS] = {NULL};
            for (int64_t i = 0; i < n; i++) {
                of[i] = copy ? copy + i * t->step : image + (t->of_outputs ? t->of_outputs[o + i] : (o + i) * t->step);
            }
            if (t->taps) {
                t->of[n](lines.k, copy ? lines.places : lines.shifts, a + lines.skipped * ROWS, of, nothing, t->add ? sums : NULL, sums);
            } else {
                some_outputs(t, n, a, of, sums, ends);
            }
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
            const __mmask16 outputs = (__mmask16)((1u << t->stored) - 1);
#define LINE(i) ((i) < t->outputs ? (__m512i)ls_canonical(*(const ls_vf32_any *)(sums + half + ROWS * (i))) : _mm512_setzero_si512())
#define PUT(r, column) _mm512_mask_storeu_epi32(c + (half + (r)) * t->ldc, outputs, column);
            LS_TURN16(LINE, PUT)
#else
            for (int64_t done = 0; done < t->outputs; done += 8) { /* the last ones may be some of those before, again; or fewer in all, and turned elsewhere */
                float own[8 * 8];
                const bool few = t->stored < 8;
                const int64_t o = few || done + 8 <= t->outputs ? done : t->outputs - 8, step = few ? 8 : t->ldc;
                float *rows = c + half * t->ldc + o, *to = few ? own : rows;
#define LINE(i) (ls_eight) ls_canonical(*(const ls_vf32_any *)(sums + half + ROWS * (o + (i))))
#define PUT(r, column) *(ls_vf32_any *)(to + (r) * step) = (ls_vf32)(column);
                LS_TURN8(LINE, PUT)
                for (int r = 0; few && r < 8; r++) {
                    for (int64_t i = 0; i < t->stored; i++) {
                        rows[r * t->ldc + i] = own[8 * r + i];
                    }
                }
            }
#endif
#undef LINE
#undef PUT
        }
    }
}
#endif
