/* Packing operands of contractions that are no strided views: windows, padding, permuted groups of axes, and
 * computed operands.
 *
 * An affine operand is an offset of the free axes plus one of k, and its predicates are likewise sums of a
 * part of each: both are written out for the panel's lanes and for its k, so that an element costs one
 * addition. Elements whose predicates fail are written as zeros, and as absent in the mask where the operand
 * says so. */
#include "backend/cpu/contract.h"
#include <string.h>

typedef struct offsets {
    int64_t at[LS_GEMM_CHUNK];
    int32_t pred[LS_SIDE_PREDS][LS_GEMM_CHUNK];
    int32_t run[LS_GEMM_CHUNK]; /* of k: how many from there on are neighbours in memory with the same predicates */
} offsets;

size_t ls_contract_side_scratch(const ls_contract_side *side) {
    size_t size = 0;
    if (!side->view) {
        size = side->affine ? 2 * sizeof(offsets) + LS_GEMM_MAX_WIDTH * 16 * LS_ALIGN
                            : ls_run_bytes(&side->program) + LS_GEMM_MAX_WIDTH * LS_SIDE_LANES * (8 + 1);
    }
    return (size + 2 * LS_ALIGN) & ~(size_t)(LS_ALIGN - 1);
}

/* Writes out strides over points [first, first + n) of axes linearised row-major. */
static void write_out(const int64_t *extents, const ls_axis_group *group, const int64_t *strides, int n_preds,
                      const int64_t (*preds)[LS_LANE_AXES], int64_t first, int64_t n, int64_t base,
                      const int64_t *pred_base, offsets *out) {
    int64_t coord[LS_LANE_AXES] = {0}, left = first;
    int64_t pred[LS_SIDE_PREDS];
    for (int t = 0; t < n_preds; t++) {
        pred[t] = pred_base[t];
    }
    for (int i = group->n - 1; i >= 0; i--) {
        int64_t extent = extents[group->axes[i]];
        coord[i] = left % extent;
        left /= extent;
        base += coord[i] * strides[i];
        for (int t = 0; t < n_preds; t++) {
            pred[t] += coord[i] * preds[t][i];
        }
    }
    int last = group->n - 1;
    for (int64_t p = 0; p < n;) {
        int64_t run = last < 0 ? n - p : extents[group->axes[last]] - coord[last];
        run = run < n - p ? run : n - p;
        int64_t step = last < 0 ? 0 : strides[last];
        for (int64_t i = 0; i < run; i++) {
            out->at[p + i] = base + i * step;
        }
        for (int t = 0; t < n_preds; t++) {
            int64_t by = last < 0 ? 0 : preds[t][last];
            for (int64_t i = 0; i < run; i++) {
                out->pred[t][p + i] = (int32_t)(pred[t] + i * by);
            }
        }
        p += run;
        if (last < 0 || p >= n) {
            continue;
        }
        int i = last;
        coord[i] += run;
        base += run * strides[i];
        for (int t = 0; t < n_preds; t++) {
            pred[t] += run * preds[t][i];
        }
        while (i > 0 && coord[i] == extents[group->axes[i]]) {
            base += strides[i - 1] - coord[i] * strides[i];
            for (int t = 0; t < n_preds; t++) {
                pred[t] += preds[t][i - 1] - coord[i] * preds[t][i];
            }
            coord[i] = 0;
            coord[--i]++;
        }
    }
}

static void find_runs(offsets *k, int64_t kc, int n_preds) {
    for (int64_t p = kc - 1; p >= 0; p--) {
        bool goes_on = p + 1 < kc && k->at[p + 1] == k->at[p] + 1;
        for (int t = 0; t < n_preds && goes_on; t++) {
            goes_on = k->pred[t][p + 1] == k->pred[t][p];
        }
        k->run[p] = goes_on ? k->run[p + 1] + 1 : 1;
    }
}

typedef struct panel_job {
    const ls_tile_isa *isa;
    const ls_gemm_isa *gemm;
    const ls_contract_side *side;
    const char *src;
    const offsets *k, *i;
    int64_t kc, ni, width;
    void *panel;
    uint8_t *mask;
} panel_job;

static size_t panel_size(const ls_contract_side *side) {
    return side->dtype == LS_GEMM_F64 ? 8 : 4;
}

static bool present(const panel_job *j, int64_t p, int64_t q) {
    for (int t = 0; t < j->side->n_preds; t++) {
        if ((uint32_t)(j->k->pred[t][p] + j->i->pred[t][q]) >= (uint32_t)j->side->limit[t]) {
            return false;
        }
    }
    return true;
}

static void write_mask(const panel_job *j) {
    for (int64_t p = 0; p < j->kc; p++) {
        for (int64_t q = 0; q < j->ni; q++) {
            j->mask[p * j->width + q] = !j->side->absent || present(j, p, q);
        }
    }
}

/* n elements as the panel holds them. */
static void convert(const panel_job *j, const void *src, void *dst, int64_t n) {
    const ls_contract_side *side = j->side;
    if (side->dtype == LS_GEMM_I8 || side->dtype == LS_GEMM_U8) {
        j->isa->int_to_f32[side->element](dst, src, n);
    } else if (side->dtype == LS_GEMM_I32) {
        j->isa->cast_int[side->element][2](dst, src, n);
    } else if (j->isa->load[side->element]) {
        j->isa->load[side->element](dst, src, n);
    } else {
        memcpy(dst, src, (size_t)n * panel_size(side));
    }
}

#define PACK_ROW(bits)                                                                                       \
    static void pack_row_##bits(const panel_job *j, int64_t p, void *row) {                                  \
        const uint##bits##_t *src = (const uint##bits##_t *)(const void *)j->src + j->k->at[p];              \
        uint##bits##_t *dst = row;                                                                           \
        for (int64_t q = 0; q < j->ni; q++) {                                                                \
            dst[q] = present(j, p, q) ? src[j->i->at[q]] : 0;                                                \
        }                                                                                                    \
    }
PACK_ROW(8)
PACK_ROW(16)
PACK_ROW(32)
PACK_ROW(64)

/* One k at a time, in the operand's own dtype, then converted. */
static void pack_elements(const panel_job *j) {
    static void (*const rows[4])(const panel_job *j, int64_t p, void *row) = {pack_row_8, pack_row_16,
                                                                              pack_row_32, pack_row_64};
    uint64_t row[LS_GEMM_MAX_WIDTH];
    int log2 = ls_tile_log2(ls_dtype_size(j->side->element));
    for (int64_t p = 0; p < j->kc; p++) {
        rows[log2](j, p, row);
        convert(j, row, (char *)j->panel + (size_t)(p * j->width) * panel_size(j->side), j->ni);
    }
}

/* Runs of k that are consecutive in memory: rows to be turned. */
static void pack_runs_of_k(const panel_job *j) {
    size_t size = panel_size(j->side), element = ls_dtype_size(j->side->element);
    const void *rows[LS_GEMM_MAX_WIDTH];
    for (int64_t p = 0; p < j->kc;) {
        int64_t n = j->k->run[p];
        for (int64_t q = 0; q < j->ni; q++) {
            rows[q] = present(j, p, q) ? j->src + (j->k->at[p] + j->i->at[q]) * (int64_t)element : NULL;
        }
        ls_gemm_pack_rows(j->gemm, j->side->dtype, n, j->ni, j->width, rows,
                          (char *)j->panel + (size_t)(p * j->width) * size);
        p += n;
    }
}

static void pack_affine(const ls_contract_side_launch *s, int worker, int64_t batch, int64_t k0, int64_t kc,
                        int64_t i0, int64_t ni, int64_t width, void *panel, uint8_t *mask) {
    const ls_contract_side *side = s->side;
    const ls_kernel_run *kernel = s->launch->kernel;
    const ls_gemm_phase *gemm = s->launch->phase->gemm;
    offsets *of_k = (offsets *)(void *)(ls_worker_scratch(kernel, worker) + s->offset), *of_i = of_k + 1;
    int64_t base = side->sum.constant, pred_base[LS_SIDE_PREDS], none[LS_SIDE_PREDS] = {0};
    int64_t coords[LS_SPEC_MAX_AXES];
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    for (int i = 0; i < gemm->batch.n; i++) {
        base += coords[gemm->batch.axes[i]] * side->batch_stride[i];
    }
    for (int t = 0; t < side->n_preds; t++) {
        pred_base[t] = side->pred[t].constant;
        for (int i = 0; i < gemm->batch.n; i++) {
            pred_base[t] += coords[gemm->batch.axes[i]] * side->pred_batch[t][i];
        }
    }
    ls_gemm_worker *w = ls_gemm_worker_of(s->launch, worker);
    if (w->kc[s->which] != kc || w->k0[s->which] != k0) { /* the panels of a chunk come one after another */
        write_out(kernel->extents, &gemm->k, side->k_stride, side->n_preds, side->pred_k, k0, kc, 0, none,
                  of_k);
        find_runs(of_k, kc, side->n_preds);
        w->k0[s->which] = k0;
        w->kc[s->which] = kc;
    }
    write_out(kernel->extents, side->free, side->free_stride, side->n_preds, side->pred_free, i0, ni, base,
              pred_base, of_i);
    panel_job job = {kernel->binary->device->tiles,
                     kernel->binary->device->gemm,
                     side,
                     kernel->buffers[side->buffer],
                     of_k,
                     of_i,
                     kc,
                     ni,
                     width,
                     panel,
                     mask};
    bool wide =
        ls_dtype_size(side->element) == 4 && (side->dtype == LS_GEMM_F32 || side->dtype == LS_GEMM_I32);
    bool turn = side->dtype != LS_GEMM_I32 || wide;
    if (turn && of_k->run[0] >= 8) {
        pack_runs_of_k(&job);
    } else if (wide) {
        job.isa->pack(panel, width, job.src, of_k->at, kc, of_i->at, ni, side->n_preds, &of_k->pred[0][0],
                      &of_i->pred[0][0], LS_GEMM_CHUNK, side->limit);
    } else {
        pack_elements(&job);
    }
    if (mask) {
        write_mask(&job);
    }
}

ls_run *ls_contract_side_run(const ls_contract_side_launch *s, int worker, char **out_rows) {
    ls_gemm_worker *w = ls_gemm_worker_of(s->launch, worker);
    ls_phase_task task = {s->launch->kernel, s->launch->phase, ls_worker_scratch(s->launch->kernel, worker),
                          0, 0};
    size_t offset = s->offset;
    if (!w->side_begun[s->which]) {
        ls_phase_begin(&task, &s->side->program, &offset, &w->side[s->which]);
        w->side_begun[s->which] = true;
    } else {
        offset += (ls_run_bytes(&s->side->program) + LS_ALIGN - 1) & ~(size_t)(LS_ALIGN - 1);
    }
    *out_rows = task.scratch + offset;
    return &w->side[s->which];
}

/* Lanes along the free axes, one k at a time. */
static void pack_program_free(const ls_contract_side_launch *s, ls_run *run, int64_t k0, int64_t kc,
                              int64_t i0, int64_t ni, int64_t width, char *panel, uint8_t *mask) {
    const ls_gemm_phase *gemm = s->launch->phase->gemm;
    const ls_program *p = &s->side->program;
    size_t size = panel_size(s->side);
    for (int64_t k = 0; k < kc; k++) {
        ls_point_coords(run->extents, gemm->k.n, gemm->k.axes, k0 + k, run->coords);
        ls_run_point(run);
        ls_run_lanes(run, i0, ni);
        memcpy(panel + (size_t)(k * width) * size, ls_run_reg(run, p->results[0]), (size_t)ni * size);
        if (mask && p->results[1] >= 0) {
            memcpy(mask + k * width, ls_run_reg(run, p->results[1]), (size_t)ni);
        }
    }
}

/* Lanes along k, one free point at a time; the rows are then turned. */
static void pack_program_k(const ls_contract_side_launch *s, ls_run *run, char *rows, int64_t k0, int64_t kc,
                           int64_t i0, int64_t ni, int64_t width, char *panel, uint8_t *mask) {
    const ls_program *p = &s->side->program;
    size_t size = panel_size(s->side);
    const void *at[LS_GEMM_MAX_WIDTH];
    ls_gemm_dtype dtype = s->side->dtype == LS_GEMM_F64   ? LS_GEMM_F64
                          : s->side->dtype == LS_GEMM_I32 ? LS_GEMM_I32
                                                          : LS_GEMM_F32;
    for (int64_t k = 0; k < kc; k += LS_SIDE_LANES) {
        int64_t n = kc - k < LS_SIDE_LANES ? kc - k : LS_SIDE_LANES;
        for (int64_t q = 0; q < ni; q++) {
            char *row = rows + (size_t)q * LS_SIDE_LANES * size;
            ls_point_coords(run->extents, s->side->free->n, s->side->free->axes, i0 + q, run->coords);
            ls_run_point(run);
            ls_run_lanes(run, k0 + k, n);
            memcpy(row, ls_run_reg(run, p->results[0]), (size_t)n * size);
            at[q] = row;
            const uint8_t *here = mask && p->results[1] >= 0 ? ls_run_reg(run, p->results[1]) : NULL;
            for (int64_t i = 0; here && i < n; i++) {
                mask[(k + i) * width + q] = here[i];
            }
        }
        ls_gemm_pack_rows(s->launch->kernel->binary->device->gemm, dtype, n, ni, width, at,
                          panel + (size_t)(k * width) * size);
    }
}

void ls_gemm_pack_side(void *ctx, int worker, int64_t batch, int64_t k0, int64_t kc, int64_t i0, int64_t ni,
                       int64_t width, void *panel, uint8_t *mask) {
    const ls_contract_side_launch *s = ctx;
    if (s->side->affine) {
        pack_affine(s, worker, batch, k0, kc, i0, ni, width, panel, mask);
        return;
    }
    char *rows;
    const ls_gemm_phase *gemm = s->launch->phase->gemm;
    ls_run *run = ls_contract_side_run(s, worker, &rows);
    ls_point_coords(run->extents, gemm->batch.n, gemm->batch.axes, batch, run->coords);
    if (LS_JOINS && s->side->joined) {
        ls_joined_pack(s, worker, run, rows, batch, k0, kc, i0, ni, width, panel);
    } else if (s->side->lanes_k) {
        pack_program_k(s, run, rows, k0, kc, i0, ni, width, panel, mask);
    } else {
        pack_program_free(s, run, k0, kc, i0, ni, width, panel, mask);
    }
}
