/*
 * Micro-panels: from views, callbacks, rows and columns; operands packed once. A panel of `width` holds
 * [kc][width] elements; what lies beyond the operand's extent is 0, so that whole tiles can be computed
 * everywhere.
 */
#include <string.h>

#include "backend/cpu/gemm_plan.h"
#include "base/os.h"
#include "base/half.h"

ls_gemm_type ls_gemm_panel_type(ls_gemm_dtype dtype) {
    return dtype == LS_GEMM_F64   ? LS_GEMM_TYPE_F64
           : dtype == LS_GEMM_I32 ? LS_GEMM_TYPE_I32
                                  : LS_GEMM_TYPE_F32;
}

int64_t ls_gemm_dtype_size(ls_gemm_dtype dtype) {
    static const int8_t size[] = {
        [LS_GEMM_F32] = 4, [LS_GEMM_F64] = 8, [LS_GEMM_F16] = 2, [LS_GEMM_BF16] = 2,
        [LS_GEMM_I8] = 1,  [LS_GEMM_U8] = 1,  [LS_GEMM_I32] = 4, [LS_GEMM_PAIRS] = 4,
    };
    return size[dtype];
}

/* n consecutive elements of a narrow dtype as floats. */
static void widen(const ls_gemm_moves *moves, ls_gemm_dtype dtype, int64_t n, const void *src, float *dst) {
    switch (dtype) {
    case LS_GEMM_F16:
        moves->from_f16(n, src, dst);
        break;
    case LS_GEMM_BF16:
        moves->from_bf16(n, src, dst);
        break;
    case LS_GEMM_I8:
        moves->from_i8(n, src, dst);
        break;
    default:
        moves->from_u8(n, src, dst);
        break;
    }
}

static bool narrow(ls_gemm_dtype dtype) {
    return ls_gemm_dtype_size(dtype) < 4;
}

void ls_gemm_pack_rows(const ls_gemm_isa *isa, ls_gemm_dtype dtype, int64_t kc, int64_t ni, int64_t width,
                       const void *const *rows, void *panel) {
    const ls_gemm_moves *moves = isa->moves;
    if (dtype == LS_GEMM_F64) {
        moves->rows8(kc, ni, width, rows, panel);
        return;
    }
    if (!narrow(dtype)) {
        moves->rows4(kc, ni, width, rows, panel);
        return;
    }
    enum { STRIP = 64 };
    float strip[LS_GEMM_MAX_WIDTH][STRIP];
    const void *strips[LS_GEMM_MAX_WIDTH];
    int64_t size = ls_gemm_dtype_size(dtype);
    for (int64_t p = 0; p < kc; p += STRIP) {
        int64_t n = kc - p < STRIP ? kc - p : STRIP;
        for (int64_t q = 0; q < ni; q++) {
            strips[q] = rows[q] ? strip[q] : NULL;
            if (rows[q]) {
                widen(moves, dtype, n, (const char *)rows[q] + p * size, strip[q]);
            }
        }
        moves->rows4(n, ni, width, strips, (float *)panel + p * width);
    }
}

void ls_gemm_pack_cols(const ls_gemm_isa *isa, ls_gemm_dtype dtype, int64_t kc, int64_t ni, int64_t width,
                       const void *src, int64_t stride_k, void *panel) {
    const ls_gemm_moves *moves = isa->moves;
    if (dtype == LS_GEMM_F64) {
        moves->cols8(kc, ni, width, src, stride_k, panel);
    } else if (!narrow(dtype)) {
        moves->cols4(kc, ni, width, src, stride_k, panel);
    } else {
        int64_t size = ls_gemm_dtype_size(dtype);
        for (int64_t p = 0; p < kc; p++) {
            widen(moves, dtype, ni, (const char *)src + p * stride_k * size, (float *)panel + p * width);
        }
    }
}

/* A view that is consecutive along neither axis: element by element. */
static void pack_strided(const ls_gemm_operand *o, const char *src, int64_t kc, int64_t ni, int64_t width,
                         void *panel) {
    int64_t size = ls_gemm_dtype_size(o->dtype);
    for (int64_t p = 0; p < kc; p++) {
        for (int64_t q = 0; q < ni; q++) {
            const void *at = src + (p * o->stride_k + q * o->stride_i) * size;
            int64_t to = p * width + q;
            uint16_t half;
            switch (o->dtype) {
            case LS_GEMM_F64:
                memcpy((double *)panel + to, at, 8);
                break;
            case LS_GEMM_F16:
                memcpy(&half, at, 2);
                ((float *)panel)[to] = ls_f16_to_f32(half);
                break;
            case LS_GEMM_BF16:
                memcpy(&half, at, 2);
                ((float *)panel)[to] = ls_bf16_to_f32(half);
                break;
            case LS_GEMM_I8:
                ((float *)panel)[to] = *(const int8_t *)at;
                break;
            case LS_GEMM_U8:
                ((float *)panel)[to] = *(const uint8_t *)at;
                break;
            default:
                memcpy((float *)panel + to, at, 4);
                break;
            }
        }
    }
}

uint32_t ls_gemm_flip(ls_gemm_side side, ls_gemm_dtype dtype) {
    return (side == LS_GEMM_A) == (dtype == LS_GEMM_I8) ? 0x80808080 : 0;
}

/* Elements of four bytes that end beyond k, or whose bytes are nowhere consecutive; what lies beyond k is a byte of 0. */
static void fours_by_bytes(const ls_gemm_part *part, const char *src, int64_t width, uint32_t *panel) {
    const ls_gemm_operand *o = part->operand;
    for (int64_t p = 0; p < part->kc; p++) {
        for (int64_t q = 0; q < part->ni; q++) {
            uint32_t four = 0;
            for (int64_t t = 0; t < 4 && 4 * (part->k0 + p) + t < part->bytes_k; t++) {
                uint8_t byte = *(const uint8_t *)(src + (4 * p + t) * o->stride_k + q * o->stride_i);
                four |= ((uint32_t)byte ^ (part->flip & 255)) << 8 * t;
            }
            panel[p * width + q] = four;
        }
    }
}

/* The same from a callback, which delivers floats, some at a time. */
static void fours_by_callback(const ls_gemm_isa *isa, const ls_gemm_part *part, int64_t width,
                              uint32_t *panel) {
    enum { AT_ONCE = 16 };
    float floats[4 * AT_ONCE * LS_GEMM_MAX_WIDTH];
    const ls_gemm_operand *o = part->operand;
    for (int64_t p = 0; p < part->kc; p += AT_ONCE) {
        int64_t n = ls_gemm_smaller(AT_ONCE, part->kc - p), k0 = 4 * (part->k0 + p),
                kc = ls_gemm_smaller(4 * n, part->bytes_k - k0);
        memset(floats, 0, (size_t)(4 * n * width) * sizeof *floats);
        o->pack(o->pack_ctx, part->worker, part->batch, k0, kc, part->i0, part->ni, width, floats, NULL);
        isa->dots->floats(n, part->ni, width, floats, part->flip, panel + p * width);
        for (int64_t q = 0; kc < 4 * n && q < part->ni; q++) { /* only the very last is not whole */
            panel[(p + n - 1) * width + q] &= UINT32_MAX >> 8 * (4 * n - kc);
        }
    }
}

static void pack_fours(const ls_gemm_isa *isa, const ls_gemm_part *part, int64_t width, uint32_t *panel) {
    const ls_gemm_operand *o = part->operand;
    int64_t ni = part->ni, whole = ls_gemm_smaller(part->kc, part->bytes_k / 4 - part->k0);
    if (ni < width) {
        memset(panel, 0, (size_t)(part->kc * width) * sizeof *panel);
    }
    if (o->pack) {
        fours_by_callback(isa, part, width, panel);
        return;
    }
    const char *src =
        (const char *)o->data + part->offset + 4 * part->k0 * o->stride_k + part->i0 * o->stride_i;
    if (o->stride_k == 1) {
        const void *rows[LS_GEMM_MAX_WIDTH];
        for (int64_t q = 0; q < ni; q++) {
            rows[q] = src + q * o->stride_i;
        }
        isa->dots->rows(whole, ni, width, rows, part->flip, panel);
    } else if (o->stride_i == 1 || ni == 1) {
        isa->dots->cols(whole, ni, width, src, o->stride_k, part->flip, panel);
    } else {
        whole = 0;
    }
    ls_gemm_part rest = *part;
    rest.k0 += whole;
    rest.kc -= whole;
    fours_by_bytes(&rest, src + 4 * whole * o->stride_k, width, panel + whole * width);
}

/* One panel, ni <= width. */
static void pack_panel(const ls_gemm_isa *isa, const ls_gemm_part *part, int64_t width, void *panel,
                       uint8_t *mask) {
    const ls_gemm_operand *o = part->operand;
    int64_t kc = part->kc, ni = part->ni;
    if (!LS_SMALL && part->bytes_k) {
        pack_fours(isa, part, width, panel);
        return;
    }
    if (ni < width) {
        memset(panel, 0, (size_t)(kc * width) * (o->dtype == LS_GEMM_F64 ? 8 : 4));
    }
    if (mask) {
        memset(mask, 1, (size_t)(kc * width));
    }
    if (o->pack) {
        o->pack(o->pack_ctx, part->worker, part->batch, part->k0, kc, part->i0, ni, width, panel, mask);
        return;
    }
    int64_t size = ls_gemm_dtype_size(o->dtype);
    const char *src = (const char *)o->data;
    src += (part->offset + part->k0 * o->stride_k + part->i0 * o->stride_i) * size;
    if (o->stride_k == 1) {
        const void *rows[LS_GEMM_MAX_WIDTH];
        for (int64_t q = 0; q < ni; q++) {
            rows[q] = src + q * o->stride_i * size;
        }
        ls_gemm_pack_rows(isa, o->dtype, kc, ni, width, rows, panel);
    } else if (o->stride_i == 1 || ni == 1) {
        ls_gemm_pack_cols(isa, o->dtype, kc, ni, width, src, o->stride_k, panel);
    } else {
        pack_strided(o, src, kc, ni, width, panel);
    }
}

void ls_gemm_pack_part(const ls_gemm_isa *isa, ls_gemm_part part, int64_t width, void *panels,
                       int64_t panel_stride, uint8_t *mask) {
    const ls_gemm_operand *o = part.operand;
    int64_t elem = o->dtype == LS_GEMM_F64 ? 8 : 4, ni = part.ni, kc = part.kc, i0 = part.i0, k0 = part.k0;
    /* Of a view that is consecutive along i, a few k are read through all panels: pages stay mapped. */
    bool in_strips = !o->pack && o->stride_i == 1 && o->stride_k != 1 && ni >= 2 * width;
    int64_t strip = in_strips ? 16 : ls_gemm_larger(kc, 1);
    for (int64_t p = 0; p < kc; p += strip) {
        part.k0 = k0 + p;
        part.kc = ls_gemm_smaller(strip, kc - p);
        for (int64_t i = 0; i < ni; i += width) {
            part.i0 = i0 + i;
            part.ni = ls_gemm_smaller(width, ni - i);
            pack_panel(isa, &part, width, (char *)panels + (i / width * panel_stride + p * width) * elem,
                       mask);
        }
    }
}

int64_t ls_gemm_panel_columns(const ls_gemm_kernels *kernels, int most_vectors, int64_t n) {
    int64_t vectors = ls_gemm_ceil_div(n, kernels->lanes), panels = ls_gemm_larger(ls_gemm_ceil_div(vectors, most_vectors), 1);
    int64_t width = ls_gemm_larger(ls_gemm_ceil_div(vectors, panels), 1);
    /* A last one of one vector has too few sums under way for instructions that take longer than a multiply-add. */
    const bool narrower = kernels->whole_rows && width > 2 && vectors % width == 1 && vectors % (width - 1) == 0;
    return (width - narrower) * kernels->lanes;
}

static const ls_gemm_kernels *kernels_of(const ls_gemm_isa *isa, ls_gemm_dtype dtype) {
    return ls_gemm_in_fours(isa, dtype) ? isa->dots->kernels
           : dtype == LS_GEMM_F64       ? isa->f64
           : dtype == LS_GEMM_I32       ? isa->i32
           : dtype == LS_GEMM_PAIRS     ? isa->pairs->kernels
                                        : isa->f32;
}

ls_gemm_side ls_gemm_side_a(const ls_gemm *g, int64_t most_columns, bool b_is_packed) {
    const ls_gemm_kernels *kernels = kernels_of(g->isa, g->a.dtype);
    bool narrow_panels = most_columns <= (kernels->vectors - 1) * kernels->lanes;
    return narrow_panels || (!b_is_packed && ls_gemm_is_tall(g, kernels, most_columns)) ? LS_GEMM_TALL_A
           : ls_gemm_is_low(g, kernels)                                                 ? LS_GEMM_LOW_A
                                                                                        : LS_GEMM_A;
}

/* Panels of A are as high as each other. */
int64_t ls_gemm_packed_width(const ls_gemm_isa *isa, ls_gemm_side side, ls_gemm_dtype dtype, int64_t extent) {
    const ls_gemm_kernels *kernels = kernels_of(isa, dtype);
    int64_t rows = side == LS_GEMM_TALL_A ? kernels->rows : side == LS_GEMM_LOW_A ? LS_GEMM_LOW_ROWS : kernels->widest_rows;
    int64_t panels = ls_gemm_ceil_div(extent, rows);
    while (!LS_SMALL && kernels->whole_rows && rows >= 2 * extent && kernels->tile[rows / 8][1]) {
        rows /= 2;
    }
    return side == LS_GEMM_B                    ? ls_gemm_panel_columns(kernels, kernels->vectors, extent)
           : panels > 1 && !kernels->whole_rows ? ls_gemm_ceil_div(extent, panels)
                                                : rows;
}

size_t ls_gemm_packed_size(const ls_gemm_isa *isa, ls_gemm_side side, ls_gemm_dtype dtype, int64_t extent,
                           int64_t k) {
    int64_t width = ls_gemm_packed_width(isa, side, dtype, extent);
    int64_t panels = ls_gemm_ceil_div(extent, width);
    k = ls_gemm_in_fours(isa, dtype) ? (k + 3) / 4 : k;
    return (size_t)(panels * width * k) * (dtype == LS_GEMM_F64 ? 8 : 4);
}

void ls_gemm_pack(const ls_gemm_isa *isa, ls_gemm_side side, const ls_gemm_operand *operand, int64_t extent,
                  int64_t k, void *memory, ls_gemm_packed *out_packed) {
    int64_t width = ls_gemm_packed_width(isa, side, operand->dtype, extent);
    int64_t elem = operand->dtype == LS_GEMM_F64 ? 8 : 4;
    bool finite = true, fours = ls_gemm_in_fours(isa, operand->dtype);
    int64_t bytes_k = fours ? k : 0;
    uint32_t flip = ls_gemm_flip(side == LS_GEMM_B ? LS_GEMM_B : LS_GEMM_A, operand->dtype);
    k = fours ? (k + 3) / 4 : k;
    for (int64_t i = 0; i < extent; i += width) {
        int64_t ni = extent - i < width ? extent - i : width;
        for (int64_t p = 0; p < k; p += LS_GEMM_CHUNK) {
            int64_t kc = k - p < LS_GEMM_CHUNK ? k - p : LS_GEMM_CHUNK;
            char *panel = (char *)memory + (i * k + p * width) * elem;
            ls_gemm_part part = {operand, 0, 0, 0, p, kc, i, ni, bytes_k, flip};
            ls_gemm_pack_part(isa, part, width, panel, 0, NULL);
            if (operand->dtype == LS_GEMM_F64) {
                finite = finite && isa->moves->finite_f64(kc * width, (const double *)panel);
            } else if (operand->dtype != LS_GEMM_I32 && !fours) {
                finite = finite && isa->moves->finite_f32(kc * width, (const float *)panel);
            }
        }
    }
    *out_packed = (ls_gemm_packed){.isa = isa, .extent = extent, .k = fours ? bytes_k : k, .width = width, .finite = finite, .turned = side == LS_GEMM_B, .data = memory};
}

bool ls_gemm_has_pairs(const ls_gemm_isa *isa) {
    return isa->pairs && (isa->pairs->block == 1 || ls_os_use_amx());
}

int64_t ls_gemm_pairs_of(const ls_gemm_isa *isa, int64_t k) {
    return ls_gemm_ceil_div(k, 2 * isa->pairs->block) * isa->pairs->block;
}

/* Columns that are consecutive, of up to n pairs from src on; `zeros` for a k behind the last. */
static bool round_columns(const ls_gemm_isa *isa, const ls_gemm_operand *o, int64_t n, int64_t k, int64_t ni, const float *src,
                          uint32_t *to, int64_t to_step) {
    static const float zeros[LS_GEMM_MAX_WIDTH];
    bool fine = true;
    for (int64_t p = 0; p < n && 2 * p < k; p++, src += 2 * o->stride_k, to += to_step) {
        fine &= isa->pairs->round(ni, src, 2 * p + 1 < k ? src + o->stride_k : zeros, to, 16);
    }
    return fine;
}

static bool round_row(const ls_gemm_isa *isa, int64_t k, const float *row, uint32_t *to, int64_t step) {
    static const float zero;
    bool fine = isa->pairs->round(k / 2, row, NULL, to, step);
    if (k % 2) {
        fine &= isa->pairs->round(1, row + k - 1, &zero, to + k / 2 / 16 * step + k / 2 % 16, 0);
    }
    return fine;
}

ls_gemm_packed ls_gemm_packed_pairs(const ls_gemm_isa *isa, ls_gemm_side side, const ls_gemm_operand *o, int64_t extent, int64_t k) {
    return (ls_gemm_packed){.isa = isa, .extent = extent, .k = ls_gemm_pairs_of(isa, k),
                            .width = ls_gemm_packed_width(isa, side, LS_GEMM_PAIRS, extent), .finite = true,
                            .by_rows = side == LS_GEMM_A && isa->pairs->block == 1 && o->stride_k == 1};
}

bool ls_gemm_pack_pairs(ls_gemm_side side, const ls_gemm_operand *o, const ls_gemm_packed *packed, int64_t index, int64_t k, void *memory) {
    enum { STRIP = 64 };
    const ls_gemm_isa *isa = packed->isa;
    int64_t width = packed->width, i0 = index * width, ni = ls_gemm_smaller(width, packed->extent - i0), pairs = packed->k, block = isa->pairs->block;
    uint32_t *panel = (uint32_t *)memory + i0 * pairs, strip[LS_GEMM_MAX_WIDTH][STRIP];
    const float *src = (const float *)o->data + i0 * o->stride_i;
    const void *strips[LS_GEMM_MAX_WIDTH];
    bool fine = true, in_blocks = side == LS_GEMM_A && block > 1, in_columns = o->stride_k != 1; /* or no more than one */
    if (ni < width || 2 * pairs > k + 1) {
        memset(panel, 0, (size_t)(pairs * width) * sizeof *panel);
    }
    for (int i = 0; i < LS_GEMM_MAX_WIDTH; i++) {
        strips[i] = strip[i];
    }
    if (in_columns && !in_blocks) {
        return round_columns(isa, o, pairs, k, ni, src, panel, width);
    }
    if (in_columns) {
        for (int64_t p = 0; 2 * p < k; p += block, src += 2 * block * o->stride_k, panel += block * width) {
            fine &= round_columns(isa, o, block, k - 2 * p, ni, src, strip[0], STRIP);
            isa->moves->rows4(ni, ls_gemm_smaller(block, (k + 1) / 2 - p), block, strips, panel);
        }
        return fine;
    }
    if (in_blocks || packed->by_rows) {
        for (int64_t q = 0; q < ni; q++, src += o->stride_i, panel += in_blocks ? block : pairs) {
            fine &= round_row(isa, k, src, panel, in_blocks ? width * block : 16);
        }
        return fine;
    }
    for (int64_t p = 0; 2 * p < k; p += STRIP, src += 2 * STRIP, panel += STRIP * width) {
        int64_t n = ls_gemm_smaller(2 * STRIP, k - 2 * p);
        for (int64_t q = 0; q < ni; q++) {
            fine &= round_row(isa, n, src + q * o->stride_i, strip[q], 16);
        }
        isa->moves->rows4((n + 1) / 2, ni, width, strips, panel);
    }
    return fine;
}
