/* Packing of 32-bit elements whose address is an offset of the lane plus one of k (tile.h: pack). Lanes whose
 * offsets are consecutive are copied as runs; with AVX-512 a run is one masked load, which touches no lane
 * outside of it. */
#include "backend/cpu/isa/tile_isa.h"
#include <string.h>

#if defined(LS_ISA_AVX512)
#include <immintrin.h>

enum { GROUPS = 4, RUNS = 4, MAX_PREDS = 4 };
typedef struct group { /* sixteen lanes */
    int n_runs;        /* 0: gather */
    __mmask16 lanes, run[RUNS];
    int64_t at[RUNS];              /* offset of lane 0, were it in the run */
    __m512i index_low, index_high; /* of a gather */
    __m512i pred[MAX_PREDS];
} group;

static void find_runs(group *g, const int64_t *i_at, int64_t n) {
    g->lanes = (__mmask16)((1u << n) - 1);
    int64_t q = 0;
    int runs = 0;
    while (q < n && runs < RUNS) {
        int64_t first = q++;
        while (q < n && i_at[q] == i_at[q - 1] + 1) {
            q++;
        }
        g->run[runs] = (__mmask16)(((1u << q) - 1) & ~((1u << first) - 1));
        g->at[runs++] = i_at[first] - first;
    }
    g->n_runs = q < n ? 0 : runs;
    for (int r = runs; r < RUNS; r++) { /* loads of nothing, where something is */
        g->run[r] = 0;
        g->at[r] = g->at[0];
    }
    int64_t index[16] = {0};
    memcpy(index, i_at, (size_t)n * sizeof *index);
    g->index_low = _mm512_loadu_si512(index);
    g->index_high = _mm512_loadu_si512(index + 8);
}

/* Which lanes of each group hold their predicates at k number p. */
static void find_present(const group *groups, int n_groups, int n_preds, const int32_t *k_pred,
                         int64_t stride, int64_t p, const int64_t *limit, __mmask16 *oks) {
    for (int i = 0; i < n_groups; i++) {
        oks[i] = groups[i].lanes;
        for (int t = 0; t < n_preds; t++) {
            __m512i x = _mm512_add_epi32(groups[i].pred[t], _mm512_set1_epi32(k_pred[t * stride + p]));
            oks[i] = _mm512_mask_cmplt_epu32_mask(oks[i], x, _mm512_set1_epi32((int)limit[t]));
        }
    }
}

/* For p in [p, end): the same lanes are present in all of them. n_runs and n_groups are constants where it is
 * called. */
static inline __attribute__((always_inline)) void pack_runs(float *panel, int64_t width, const float *src,
                                                            const int64_t *k_at, int64_t p, int64_t end,
                                                            const group *groups, const __mmask16 *oks,
                                                            int n_groups, int n_runs) {
    __mmask16 mask[GROUPS][RUNS];
    for (int i = 0; i < n_groups; i++) {
        for (int r = 0; r < n_runs; r++) {
            mask[i][r] = groups[i].run[r] & oks[i];
        }
    }
    for (; p < end; p++) {
        const float *from = src + k_at[p];
        for (int i = 0; i < n_groups; i++) {
            __m512 v = _mm512_maskz_loadu_ps(mask[i][0], from + groups[i].at[0]);
            for (int r = 1; r < n_runs; r++) {
                v = _mm512_mask_loadu_ps(v, mask[i][r], from + groups[i].at[r]);
            }
            _mm512_mask_storeu_ps(panel + p * width + 16 * i, groups[i].lanes, v);
        }
    }
}

static void pack_gathered(float *panel, int64_t width, const float *src, const int64_t *k_at, int64_t p,
                          int64_t end, const group *groups, const __mmask16 *oks, int n_groups) {
    for (; p < end; p++) {
        const float *from = src + k_at[p];
        for (int i = 0; i < n_groups; i++) {
            const group *g = &groups[i];
            __m256 low =
                _mm512_mask_i64gather_ps(_mm256_setzero_ps(), (__mmask8)oks[i], g->index_low, from, 4);
            __m256 high = _mm512_mask_i64gather_ps(_mm256_setzero_ps(), (__mmask8)(oks[i] >> 8),
                                                   g->index_high, from, 4);
            __m512 v = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
            _mm512_mask_storeu_ps(panel + p * width + 16 * i, g->lanes, v);
        }
    }
}

void LS_TILE_NAME(ls_tile_pack)(void *panel, int64_t width, const void *src, const int64_t *k_at, int64_t kc,
                                const int64_t *i_at, int64_t ni, int n_preds, const int32_t *k_pred,
                                const int32_t *i_pred, int64_t stride, const int64_t *limit) {
    group groups[GROUPS];
    __mmask16 oks[GROUPS];
    int n_groups = (int)((ni + 15) / 16), n_runs = 1;
    bool gather = false;
    for (int i = 0; i < n_groups; i++) {
        int64_t n = ni - 16 * i < 16 ? ni - 16 * i : 16;
        find_runs(&groups[i], i_at + 16 * i, n);
        gather = gather || groups[i].n_runs == 0;
        n_runs = groups[i].n_runs > n_runs ? groups[i].n_runs : n_runs;
        for (int t = 0; t < n_preds; t++) {
            groups[i].pred[t] = _mm512_maskz_loadu_epi32(groups[i].lanes, i_pred + t * stride + 16 * i);
        }
    }
    for (int64_t p = 0; p < kc;) { /* predicates mostly change with the tap, not with the channel */
        int64_t end = n_preds ? p + 1 : kc;
        for (; end < kc; end++) {
            bool same = true;
            for (int t = 0; t < n_preds; t++) {
                same = same && k_pred[t * stride + end] == k_pred[t * stride + p];
            }
            if (!same) {
                break;
            }
        }
        find_present(groups, n_groups, n_preds, k_pred, stride, p, limit, oks);
        if (gather) {
            pack_gathered(panel, width, src, k_at, p, end, groups, oks, n_groups);
        } else if (n_groups == 2 && n_runs == 1) {
            pack_runs(panel, width, src, k_at, p, end, groups, oks, 2, 1);
        } else if (n_groups == 2 && n_runs == 2) {
            pack_runs(panel, width, src, k_at, p, end, groups, oks, 2, 2);
        } else if (n_groups == 1 && n_runs <= 2) {
            pack_runs(panel, width, src, k_at, p, end, groups, oks, 1, 2);
        } else {
            pack_runs(panel, width, src, k_at, p, end, groups, oks, n_groups, RUNS);
        }
        p = end;
    }
}
#else
typedef uint32_t quad __attribute__((vector_size(16), aligned(4), may_alias));

/* Lanes whose offsets are consecutive, for every k. */
static void pack_run(uint32_t *to, int64_t width, const uint32_t *src, const int64_t *k_at, int64_t kc,
                     int64_t n) {
    for (int64_t p = 0; p < kc; p++, to += width) {
        const uint32_t *from = src + k_at[p];
        int64_t i = 0;
        for (; i + 4 <= n; i += 4) {
            *(quad *)(to + i) = *(const quad *)(from + i);
        }
        for (; i < n; i++) {
            to[i] = from[i];
        }
    }
}

void LS_TILE_NAME(ls_tile_pack)(void *panel, int64_t width, const void *src, const int64_t *k_at, int64_t kc,
                                const int64_t *i_at, int64_t ni, int n_preds, const int32_t *k_pred,
                                const int32_t *i_pred, int64_t stride, const int64_t *limit) {
    for (int64_t q = 0; n_preds == 0 && q < ni;) {
        int64_t first = q++;
        while (q < ni && i_at[q] == i_at[q - 1] + 1) {
            q++;
        }
        pack_run((uint32_t *)panel + first, width, (const uint32_t *)src + i_at[first], k_at, kc, q - first);
    }
    for (int64_t p = 0; n_preds > 0 && p < kc; p++) {
        uint32_t *row = (uint32_t *)panel + p * width;
        const uint32_t *from = (const uint32_t *)src + k_at[p];
        for (int64_t q = 0; q < ni; q++) {
            uint32_t ok = 1;
            for (int t = 0; t < n_preds; t++) {
                ok &= (uint32_t)(k_pred[t * stride + p] + i_pred[t * stride + q]) < (uint32_t)limit[t];
            }
            row[q] = ok ? from[i_at[q]] : 0;
        }
    }
}
#endif
