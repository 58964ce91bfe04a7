/* PTX of matrix tiles: mma.sync on tiles of 16 x 8 x 16 (f16, bf16) or 16 x 8 x 8 (f32 as tf32), of which a fragment is a
 * grid. Who holds what is the PTX manual's: with g = lane / 4 and t = lane % 4, register pairs of A are elements (g, 2t),
 * (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8) and the ones to their right; of B (2t, g), (2t + 8, g) and the ones below; of C
 * (g, 2t), (g + 8, 2t) and the ones to their right. tf32 has single elements: A (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4),
 * B (t, g), (t + 4, g). */
#include "render/ptx.h"
#include <inttypes.h>
#include <stdio.h>

typedef struct tile {
    int rows, cols;            /* of a fragment's grid of tiles */
    int height, width;         /* of a tile */
    int registers, slots;      /* registers a tile; elements of one register */
    ls_frag_role role;
    bool single;               /* tf32: one element a register and lane quarter */
} tile;

static bool tile_of(const ls_ins *ins, tile *out) {
    int rows, cols;
    bool halves = ins->dtype == LS_F16 || ins->dtype == LS_BF16, wide = ins->dtype == LS_F32;
    ls_frag_shape(ins->flags, &rows, &cols);
    out->role = (ls_frag_role)(ins->flags >> 3 & 3);
    out->single = wide && out->role != LS_FRAG_C;
    int k = wide ? 8 : 16;
    out->height = out->role == LS_FRAG_B ? k : 16;
    out->width = out->role == LS_FRAG_A ? k : 8;
    out->rows = rows / out->height;
    out->cols = cols / out->width;
    out->registers = out->role == LS_FRAG_C ? 4 : out->role == LS_FRAG_A ? 4 : 2;
    out->slots = halves && out->role != LS_FRAG_C ? 2 : 1;
    bool right = out->role == LS_FRAG_C ? wide : halves || wide;
    return right && rows % out->height == 0 && cols % out->width == 0;
}

int32_t ls_ptx_fragment_size(const ls_ins *ins) {
    tile t;
    return tile_of(ins, &t) ? t.rows * t.cols * t.registers : 0;
}

/* The lane-independent part of the place of register r's element e in its tile. */
static void place_in_tile(const tile *t, int r, int e, int *out_row, int *out_col) {
    if (t->role == LS_FRAG_A) {
        *out_row = r & 1 ? 8 : 0;
        *out_col = (r & 2 ? t->width / 2 : 0) + e;
    } else if (t->role == LS_FRAG_B) {
        *out_row = (r & 1 ? t->height / 2 : 0) + e;
        *out_col = 0;
    } else {
        *out_row = r & 2 ? 8 : 0;
        *out_col = r & 1;
    }
}

/* Where a fragment lies: byte addresses of this lane's first element, and the bytes of a step down and right. */
typedef struct layout {
    tile t;
    ls_dtype dtype;
    const char *space;
    ls_ptx_op base, line; /* line: bytes from one line of memory to the next, when that is no constant */
    int64_t line_bytes;   /* when it is; else 0 */
    bool by_columns, pairs; /* pairs: two elements of a register lie together, aligned */
    ls_ptx_op lines[256];   /* base + n * line, where written */
    bool written[256];
} layout;

/* The largest power of two, up to 16, that divides an integer value for sure. */
static int divisor(const ls_kernel *k, ls_val v, int depth) {
    const ls_ins *ins = &k->body[v];
    int a, b;
    switch (depth ? ins->op : LS_K_COUNT) {
    case LS_K_CONST:
        a = 16;
        while (ins->arg & (a - 1)) {
            a /= 2;
        }
        return a;
    case LS_K_ADD:
    case LS_K_SUB:
        a = divisor(k, ins->src[0], depth - 1), b = divisor(k, ins->src[1], depth - 1);
        return a < b ? a : b;
    case LS_K_MUL:
        a = divisor(k, ins->src[0], depth - 1) * divisor(k, ins->src[1], depth - 1);
        return a < 16 ? a : 16;
    case LS_K_CAST:
        return divisor(k, ins->src[0], depth - 1);
    case LS_K_REM:
        a = divisor(k, ins->src[0], depth - 1), b = divisor(k, ins->src[1], depth - 1);
        return a < b ? a : b;
    case LS_K_SHL:
        a = k->body[ins->src[1]].op == LS_K_CONST && k->body[ins->src[1]].arg >= 0 && k->body[ins->src[1]].arg < 4
                ? 1 << k->body[ins->src[1]].arg
                : 1;
        a *= divisor(k, ins->src[0], depth - 1);
        return a < 16 ? a : 16;
    case LS_K_LOOP:
        a = divisor(k, ins->src[0], depth - 1), b = divisor(k, ins->src[2], depth - 1);
        return a < b ? a : b;
    default:
        return 1;
    }
}

static ls_ptx_op add_scaled(ls_ptx *p, bool shared, ls_ptx_op base, ls_ptx_op n, ls_ptx_op bytes) {
    ls_ptx_op out = ls_ptx_new(p, shared ? LS_PTX_32 : LS_PTX_64);
    ls_ptx_3(p, shared ? "mad.lo.s32" : "mad.wide.s32", out, n, bytes, base);
    return out;
}

static layout lay_out(ls_ptx *p, ls_val at, const ls_ins *fragment, uint32_t flags, ls_val index, ls_val stride) {
    const ls_ins *ins = &p->kernel->body[at];
    bool shared = p->kernel->mems[ins->arg].space == LS_MEM_SHARED;
    layout y = {.dtype = (ls_dtype)fragment->dtype, .space = shared ? "shared" : "global"};
    int size = (int)ls_dtype_size(y.dtype);
    tile_of(fragment, &y.t);
    y.by_columns = flags & LS_KF_FRAG_COLS;
    ls_ptx_op start = ls_ptx_new(p, shared ? LS_PTX_32 : LS_PTX_64), step = p->values[stride].ops[0];
    int64_t bytes;
    ls_ptx_op first = ls_ptx_base(p, ins, &bytes);
    ls_ptx_2(p, shared ? "add.s32" : "add.s64", start, first, ls_ptx_const(LS_I32, (uint64_t)bytes));
    if (step.file == LS_PTX_CONST) {
        y.line_bytes = (int64_t)step.bits * size;
        y.line = ls_ptx_const(LS_I32, (uint64_t)y.line_bytes);
    } else {
        y.line = ls_ptx_new(p, LS_PTX_32);
        if (ls_dtype_bits((ls_dtype)p->kernel->body[stride].dtype) == 64) {
            ls_ptx_op low = ls_ptx_new(p, LS_PTX_32);
            ls_ptx_1(p, "cvt.u32.u64", low, step);
            step = low;
        }
        ls_ptx_2(p, "mul.lo.s32", y.line, step, ls_ptx_const(LS_I32, (uint64_t)size));
    }
    /* this lane: g lines or columns, t * (1 or 2) the other way */
    ls_ptx_op lane = ls_ptx_new(p, LS_PTX_32), g = ls_ptx_new(p, LS_PTX_32), t = ls_ptx_new(p, LS_PTX_32);
    ls_ptx_line(p, "mov.u32 %s, %%laneid;", ls_ptx_text(p, lane));
    ls_ptx_2(p, "shr.u32", g, lane, ls_ptx_const(LS_I32, 2));
    ls_ptx_2(p, "and.b32", t, lane, ls_ptx_const(LS_I32, 3));
    if (!y.t.single) {
        ls_ptx_2(p, "shl.b32", t, t, ls_ptx_const(LS_I32, 1));
    }
    bool g_is_row = y.t.role != LS_FRAG_B, g_is_line = g_is_row != y.by_columns;
    start = add_scaled(p, shared, start, g_is_line ? g : t, y.line);
    y.base = add_scaled(p, shared, start, g_is_line ? t : g, ls_ptx_const(LS_I32, (uint64_t)size));
    int aligned = divisor(p->kernel, index, 8), lined = divisor(p->kernel, stride, 8);
    /* elements of a pair are neighbours along the columns of A, the rows of B */
    y.pairs = y.t.slots == 2 && g_is_line && aligned >= 2 && lined >= 2;
    return y;
}

/* "[address]" of element (row, col) of this lane's part. */
static void element(ls_ptx *p, layout *y, int row, int col, char *out, size_t size) {
    int line = y->by_columns ? col : row, along = y->by_columns ? row : col;
    int64_t bytes = along * (int64_t)ls_dtype_size(y->dtype);
    ls_ptx_op base = y->base;
    if (y->line.file == LS_PTX_CONST) {
        bytes += line * y->line_bytes;
    } else if (line) {
        if (!y->written[line]) {
            y->lines[line] = add_scaled(p, y->space[0] == 's', y->base, y->line, ls_ptx_const(LS_I32, (uint64_t)line));
            y->written[line] = true;
        }
        base = y->lines[line];
    }
    snprintf(out, size, "[%s+%" PRId64 "]", ls_ptx_text(p, base), bytes);
}

static void load_register(ls_ptx *p, layout *y, ls_ptx_op dst, int row, int col) {
    char place[48];
    element(p, y, row, col, place, sizeof place);
    if (y->t.slots == 1 || y->pairs) {
        ls_ptx_line(p, "ld.%s.b32 %s, %s;", y->space, ls_ptx_text(p, dst), place);
        if (y->t.single) {
            ls_ptx_1(p, "cvt.rna.tf32.f32", dst, dst);
        }
        return;
    }
    ls_ptx_op low = ls_ptx_new(p, LS_PTX_16), high = ls_ptx_new(p, LS_PTX_16);
    ls_ptx_line(p, "ld.%s.b16 %s, %s;", y->space, ls_ptx_text(p, low), place);
    element(p, y, row + (y->t.role == LS_FRAG_B), col + (y->t.role == LS_FRAG_A), place, sizeof place);
    ls_ptx_line(p, "ld.%s.b16 %s, %s;", y->space, ls_ptx_text(p, high), place);
    ls_ptx_line(p, "mov.b32 %s, {%s, %s};", ls_ptx_text(p, dst), ls_ptx_text(p, low), ls_ptx_text(p, high));
}

static void each_register(ls_ptx *p, layout *y, ls_ptx_op *ops, bool load) {
    for (int i = 0, n = y->t.rows * y->t.cols * y->t.registers; i < n; i++) {
        int in_tile = i % y->t.registers, number = i / y->t.registers, row, col;
        place_in_tile(&y->t, in_tile, 0, &row, &col);
        row += number / y->t.cols * y->t.height;
        col += number % y->t.cols * y->t.width;
        if (load) {
            ops[i] = ls_ptx_new(p, LS_PTX_32);
            load_register(p, y, ops[i], row, col);
        } else {
            char place[48];
            element(p, y, row, col, place, sizeof place);
            ls_ptx_line(p, "st.%s.b32 %s, %s;", y->space, place, ls_ptx_text(p, ops[i]));
        }
    }
}

/* ---- ldmatrix: four 8 x 8 matrices of halves at once, lane l naming line l % 8 of matrix l / 8 ---- */

/* Whether a load can be done so, the bytes of a line, and which matrices lie along a line: order 0: the third and fourth are
 * 8 elements further along, the second and fourth 8 lines down; order 1: the other way round. */
static bool by_matrices(const ls_kernel *k, const ls_ins *ins, int64_t *out_line, int *out_order) {
    int rows, cols, role = ins->flags >> 3 & 3;
    if (ins->op != LS_K_FRAG_LOAD || ls_dtype_size((ls_dtype)ins->dtype) != 2 || role == LS_FRAG_C) {
        return false;
    }
    const ls_kmem *m = &k->mems[ins->arg];
    const ls_ins *stride = &k->body[ins->src[1]];
    ls_frag_shape(ins->flags, &rows, &cols);
    *out_line = stride->arg * 2;
    *out_order = (ins->flags & LS_KF_FRAG_COLS) != 0;
    return m->space == LS_MEM_SHARED && m->binding % 16 == 0 && stride->op == LS_K_CONST && stride->arg % 8 == 0 &&
           rows % 16 == 0 && cols % 16 == 0 && divisor(k, ins->src[0], 10) >= 8;
}

void ls_ptx_fragment_entry(ls_ptx *p) {
    for (ls_val at = 0; at < p->kernel->n_body; at++) {
        int64_t line;
        int order, i = 0;
        if (p->options.sm < 75 || !by_matrices(p->kernel, &p->kernel->body[at], &line, &order)) {
            continue;
        }
        while (i < p->n_lanes_at && (p->lanes_at[i].line_bytes != line || p->lanes_at[i].order != order)) {
            i++;
        }
        if (i < p->n_lanes_at || i == LS_PTX_LANES_AT) {
            continue;
        }
        ls_ptx_op lane = ls_ptx_new(p, LS_PTX_32), low = ls_ptx_new(p, LS_PTX_32), along = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "mov.u32 %s, %%laneid;", ls_ptx_text(p, lane));
        ls_ptx_2(p, "and.b32", low, lane, ls_ptx_const(LS_I32, 7)); /* bits 3 and 4 of the lane are 8 lines or 8 elements */
        ls_ptx_2(p, "and.b32", along, lane, ls_ptx_const(LS_I32, order ? 8 : 16));
        ls_ptx_2(p, "and.b32", lane, lane, ls_ptx_const(LS_I32, order ? 16 : 8));
        ls_ptx_2(p, "shr.u32", order ? lane : along, order ? lane : along, ls_ptx_const(LS_I32, 1));
        ls_ptx_2(p, "add.s32", lane, lane, low);
        ls_ptx_2(p, "shl.b32", along, along, ls_ptx_const(LS_I32, 1));
        ls_ptx_3(p, "mad.lo.s32", lane, lane, ls_ptx_const(LS_I32, (uint64_t)line), along);
        p->lanes_at[i].line_bytes = line;
        p->lanes_at[i].order = order;
        p->lanes_at[i].reg = lane;
        p->n_lanes_at++;
    }
}

static bool load_matrices(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    ls_ptx_op *out = p->values[at].ops, address = ls_ptx_new(p, LS_PTX_32);
    int64_t line, bytes;
    int order, i = 0, rows, cols;
    if (p->options.sm < 75 || !by_matrices(p->kernel, ins, &line, &order)) {
        return false;
    }
    while (i < p->n_lanes_at && (p->lanes_at[i].line_bytes != line || p->lanes_at[i].order != order)) {
        i++;
    }
    if (i == p->n_lanes_at) {
        return false;
    }
    bool is_a = (ins->flags >> 3 & 3) == LS_FRAG_A, by_columns = ins->flags & LS_KF_FRAG_COLS;
    ls_frag_shape(ins->flags, &rows, &cols);
    ls_ptx_2(p, "add.s32", address, ls_ptx_base(p, ins, &bytes), p->lanes_at[i].reg);
    for (int r = 0; r < rows / 16; r++) {
        for (int c = 0; c < cols / 16; c++) {
            int64_t place = bytes + (by_columns ? c * 16 * line + r * 32 : r * 16 * line + c * 32);
            ls_ptx_op *to = out + 4 * (r * (cols / 16) + c);
            for (int n = 0; n < 4; n++) {
                to[n] = ls_ptx_new(p, LS_PTX_32);
            }
            ls_ptx_line(p, "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%s, %s, %s, %s}, [%s+%" PRId64 "];",
                        is_a == by_columns ? ".trans" : "", ls_ptx_text(p, to[0]), ls_ptx_text(p, to[1]),
                        ls_ptx_text(p, to[2]), ls_ptx_text(p, to[3]), ls_ptx_text(p, address), place);
        }
    }
    return true;
}

static void fill(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    tile t;
    tile_of(ins, &t);
    ls_ptx_op value = ls_ptx_reg(p, p->values[ins->src[0]].ops[0], (ls_dtype)ins->dtype), packed = value;
    if (t.slots == 2) {
        packed = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "mov.b32 %s, {%s, %s};", ls_ptx_text(p, packed), ls_ptx_text(p, value), ls_ptx_text(p, value));
    }
    for (int i = 0; i < p->values[at].n; i++) {
        p->values[at].ops[i] = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_1(p, "mov.b32", p->values[at].ops[i], packed);
    }
}

static void multiply(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    const ls_ins *fa = &p->kernel->body[ins->src[0]];
    tile ta, tb;
    tile_of(fa, &ta);
    tile_of(&p->kernel->body[ins->src[1]], &tb);
    const ls_ptx_op *a = p->values[ins->src[0]].ops, *b = p->values[ins->src[1]].ops;
    ls_ptx_op *c = p->values[ins->src[2]].ops, *out = p->values[at].ops;
    const char *type = fa->dtype == LS_F16 ? "m16n8k16.row.col.f32.f16.f16.f32"
                       : fa->dtype == LS_BF16 ? "m16n8k16.row.col.f32.bf16.bf16.f32"
                                              : "m16n8k8.row.col.f32.tf32.tf32.f32";
    for (int i = 0; i < p->values[at].n; i++) {
        out[i] = ls_ptx_new(p, LS_PTX_32);
    }
    for (int k = 0; k < ta.cols; k++) {
        for (int m = 0; m < ta.rows; m++) {
            for (int n = 0; n < tb.cols; n++) {
                const ls_ptx_op *x = a + 4 * (m * ta.cols + k), *y = b + 2 * (k * tb.cols + n);
                ls_ptx_op *d = out + 4 * (m * tb.cols + n), *s = k ? d : c + 4 * (m * tb.cols + n);
                char line[400];
                int used = snprintf(line, sizeof line, "mma.sync.aligned.%s {%s, %s, %s, %s}, ", type, ls_ptx_text(p, d[0]),
                                    ls_ptx_text(p, d[1]), ls_ptx_text(p, d[2]), ls_ptx_text(p, d[3]));
                used += snprintf(line + used, sizeof line - (size_t)used, "{%s, %s, %s, %s}, {%s, %s}, ", ls_ptx_text(p, x[0]),
                                 ls_ptx_text(p, x[1]), ls_ptx_text(p, x[2]), ls_ptx_text(p, x[3]), ls_ptx_text(p, y[0]),
                                 ls_ptx_text(p, y[1]));
                snprintf(line + used, sizeof line - (size_t)used, "{%s, %s, %s, %s};", ls_ptx_text(p, s[0]),
                         ls_ptx_text(p, s[1]), ls_ptx_text(p, s[2]), ls_ptx_text(p, s[3]));
                ls_ptx_line(p, "%s", line);
            }
        }
    }
}

void ls_ptx_fragment(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    layout y;
    if (p->lanes != 0xffffffffu || p->options.sm < 80) {
        ls_ptx_fail(p, LS_ERR_UNSUPPORTED, ls_kops[ins->op].name, "matrix tiles need whole subgroups and compute capability 8.0");
        return;
    }
    switch (ins->op) {
    case LS_K_FRAG_FILL:
        fill(p, at);
        break;
    case LS_K_FRAG_LOAD:
        if (load_matrices(p, at)) {
            break;
        }
        y = lay_out(p, at, ins, ins->flags, ins->src[0], ins->src[1]);
        each_register(p, &y, p->values[at].ops, true);
        break;
    case LS_K_FRAG_STORE:
        y = lay_out(p, at, &p->kernel->body[ins->src[1]], ins->flags, ins->src[0], ins->src[2]);
        each_register(p, &y, p->values[ins->src[1]].ops, false);
        break;
    default:
        multiply(p, at);
    }
}
