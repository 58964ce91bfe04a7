/* Packing of 32-bit elements whose address is an offset of the lane plus one of k (tile.h: pack). Lanes whose offsets are
 * consecutive are copied as runs; with AVX-512 a run is one masked load, which touches no lane outside of it. */
#include "backend/cpu/isa/tile_isa.h"
#include <string.h>

#if defined(LS_ISA_AVX512)
#include <immintrin.h>

enum { GROUPS = 4, RUNS = 4, MAX_PREDS = 4 };
typedef struct group { /* sixteen lanes */
    int n_runs;        /* 0: gather */
    __mmask16 lanes, run[RUNS];
    int64_t at[RUNS];  /* offset of lane 0, were it in the run */
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
    int64_t index[16] = {0};
    memcpy(index, i_at, (size_t)n * sizeof *index);
    g->index_low = _mm512_loadu_si512(index);
    g->index_high = _mm512_loadu_si512(index + 8);
}

static inline __attribute__((always_inline)) void pack_groups(float *panel, int64_t width, const float *src, const int64_t *k_at,
                                                              int64_t kc, const group *groups, int n_groups, int n_preds,
                                                              const int32_t *k_pred, int64_t stride, const int64_t *limit) {
    __mmask16 oks[GROUPS];
    for (int i = 0; i < n_groups; i++) {
        oks[i] = groups[i].lanes;
    }
    for (int64_t p = 0; p < kc; p++) {
        const float *from = src + k_at[p];
        bool changed = false; /* predicates mostly change with the tap, not with the channel */
        for (int t = 0; t < n_preds; t++) {
            changed = changed || p == 0 || k_pred[t * stride + p] != k_pred[t * stride + p - 1];
        }
        for (int i = 0; changed && i < n_groups; i++) {
            oks[i] = groups[i].lanes;
            for (int t = 0; t < n_preds; t++) {
                __m512i x = _mm512_add_epi32(groups[i].pred[t], _mm512_set1_epi32(k_pred[t * stride + p]));
                oks[i] = _mm512_mask_cmplt_epu32_mask(oks[i], x, _mm512_set1_epi32((int)limit[t]));
            }
        }
        for (int i = 0; i < n_groups; i++) {
            const group *g = &groups[i];
            __mmask16 ok = oks[i];
            __m512 v = _mm512_setzero_ps();
            for (int r = 0; r < g->n_runs; r++) {
                v = _mm512_mask_loadu_ps(v, g->run[r] & ok, from + g->at[r]);
            }
            if (g->n_runs == 0) {
                __m256 low = _mm512_mask_i64gather_ps(_mm256_setzero_ps(), (__mmask8)ok, g->index_low, from, 4);
                __m256 high = _mm512_mask_i64gather_ps(_mm256_setzero_ps(), (__mmask8)(ok >> 8), g->index_high, from, 4);
                v = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
            }
            _mm512_mask_storeu_ps(panel + p * width + 16 * i, g->lanes, v);
        }
    }
}

void LS_TILE_NAME(ls_tile_pack)(void *panel, int64_t width, const void *src, const int64_t *k_at, int64_t kc, const int64_t *i_at,
                                int64_t ni, int n_preds, const int32_t *k_pred, const int32_t *i_pred, int64_t stride,
                                const int64_t *limit) {
    group groups[GROUPS];
    int n_groups = (int)((ni + 15) / 16);
    for (int i = 0; i < n_groups; i++) {
        int64_t n = ni - 16 * i < 16 ? ni - 16 * i : 16;
        find_runs(&groups[i], i_at + 16 * i, n);
        for (int t = 0; t < n_preds; t++) {
            groups[i].pred[t] = _mm512_maskz_loadu_epi32(groups[i].lanes, i_pred + t * stride + 16 * i);
        }
    }
    if (n_preds == 0) {
        pack_groups(panel, width, src, k_at, kc, groups, n_groups, 0, k_pred, stride, limit);
    } else if (n_preds == 2) {
        pack_groups(panel, width, src, k_at, kc, groups, n_groups, 2, k_pred, stride, limit);
    } else {
        pack_groups(panel, width, src, k_at, kc, groups, n_groups, n_preds, k_pred, stride, limit);
    }
}
#else
void LS_TILE_NAME(ls_tile_pack)(void *panel, int64_t width, const void *src, const int64_t *k_at, int64_t kc, const int64_t *i_at,
                                int64_t ni, int n_preds, const int32_t *k_pred, const int32_t *i_pred, int64_t stride,
                                const int64_t *limit) {
    for (int64_t p = 0; p < kc; p++) {
        uint32_t *row = (uint32_t *)panel + p * width;
        const uint32_t *from = (const uint32_t *)src + k_at[p];
        if (n_preds == 0) {
            for (int64_t q = 0; q < ni;) {
                int64_t first = q++;
                while (q < ni && i_at[q] == i_at[q - 1] + 1) {
                    q++;
                }
                for (int64_t i = first; i < q; i++) {
                    row[i] = from[i_at[first] + i - first];
                }
            }
            continue;
        }
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
