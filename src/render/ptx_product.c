/* PTX of whole matrix products, for compute capability 9.0: wgmma on slabs of 64 contracted elements, which the device's copy
 * engine brings (bulk tensor copies), several at a time.
 *
 * A slab's part of an operand lies in shared memory in boxes, in lines of 64 elements (128 bytes) whose 16-byte pieces are
 * permuted as copy engine and wgmma agree on (128-byte swizzle; a box begins at a multiple of 1024 bytes). Where lines lie along
 * the contracted axis there is one box, a line a row or column; else a box for each 64 rows or columns, a line for each
 * contracted element.
 *
 * Every stage has two barriers: `full` counts the bytes that arrive, `empty` the warps that are done reading. The first
 * thread asks for a slab once all warps have released the stage's last one, which they do one slab later, so that the matrix
 * units always have the next instructions. Warps 0..3 compute the upper half of the rows, warps 4..7 the lower. */
#include "render/ptx.h"
#include <inttypes.h>
#include <stdio.h>

enum {
    SLAB = 64,
    LINE = 128 /* bytes */,
    THREADS = 256,
    WARPS = 8,
    BOX = 64 * LINE,
    BARRIERS = 1024,
    STAGES = 32
};

typedef struct pipe {
    ls_ptx *p;
    const ls_kproduct *k;
    int stages, blocks, columns; /* blocks: of 64 rows, a half of the warps has */
    int64_t slabs, stage;        /* stage: bytes */
    ls_ptx_op base, barriers, map[2], x[2], y[2];
    ls_ptx_op lead;          /* the first thread */
    ls_ptx_op descriptor[2]; /* low words, of stage 0 */
    ls_ptx_op sums[2 * 128];
} pipe;

static ls_ptx_op imm(int64_t v) {
    return ls_ptx_const(LS_I32, (uint64_t)v);
}

static ls_ptx_op new32(ls_ptx *p) {
    return ls_ptx_new(p, LS_PTX_32);
}

static ls_ptx_op plus(ls_ptx *p, ls_ptx_op a, int64_t b) {
    ls_ptx_op out = new32(p);
    ls_ptx_2(p, "add.s32", out, a, imm(b));
    return out;
}

int ls_ptx_product_maps(const ls_kernel *kernel, ls_ptx_map out_maps[2]) {
    for (int i = 0; kernel->n_products && i < 2; i++) {
        const ls_kproduct *k = &kernel->products[kernel->n_products - 1];
        const ls_kmem *m = &kernel->mems[k->side[i].mem];
        int64_t lines = 2 * m->count / k->side[i].line;
        out_maps[i] =
            (ls_ptx_map){m->binding, k->side[i].line, lines, SLAB, k->side[i].by_k ? k->side[i].size : SLAB};
    }
    return kernel->n_products ? 2 : 0;
}

static const char *refusal(const ls_ptx *p, const ls_kproduct *k) {
    const ls_kmem *sums = &p->kernel->mems[k->sums];
    int rows = k->side[0].size, columns = k->side[1].size;
    if (p->options.sm < 90 || !p->options.arch) {
        return "only compute capability 9.0 has it";
    }
    if (p->kernel->n_products != 1 || p->depth) {
        return "a second one, or one in a block";
    }
    if (ls_kernel_threads(p->kernel) != THREADS || p->kernel->workgroup[0] != THREADS ||
        (rows != 128 && rows != 256) || columns % 64 || columns > 256 || rows * columns > 128 * 256 ||
        sums->binding % 1024 || k->side[0].line % 8 || k->side[1].line % 8 || k->stride % 2) {
        return "a tile or a layout that it does not take";
    }
    for (int i = 0; i < 2;
         i++) { /* copies end with the memory alone: a last slab that is no whole one must be the end */
        int64_t line = k->side[i].line, lines = 2 * p->kernel->mems[k->side[i].mem].count / line;
        if (k->k % SLAB && (k->side[i].by_k ? line : lines) != k->k) {
            return "contracted elements that are not whole slabs";
        }
    }
    return NULL;
}

/* ---- copies ---- */

static void copy_box(pipe *s, int i, ls_ptx_op to, int64_t offset, ls_ptx_op full, ls_ptx_op x, ls_ptx_op y) {
    ls_ptx *p = s->p;
    ls_ptx_line(p,
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%s+%" PRId64
                "], [%s, {%s, %s}], [%s];",
                ls_ptx_text(p, to), offset, ls_ptx_text(p, s->map[i]), ls_ptx_text(p, x), ls_ptx_text(p, y),
                ls_ptx_text(p, full));
}

/* Asks for a slab, whose first contracted element is `k`; by the first thread. */
static void copy_slab(pipe *s, ls_ptx_op to, ls_ptx_op full, ls_ptx_op k) {
    ls_ptx *p = s->p;
    ls_ptx_line(p, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%s], %" PRId64 ";", ls_ptx_text(p, full),
                s->stage);
    for (int i = 0; i < 2; i++) {
        int64_t at = i ? (int64_t)s->k->side[0].size * LINE : 0;
        ls_ptx_op along = new32(p);
        ls_ptx_2(p, "add.s32", along, s->k->side[i].by_k ? s->x[i] : s->y[i], k);
        if (s->k->side[i].by_k) {
            copy_box(s, i, to, at, full, along, s->y[i]);
            continue;
        }
        for (int box = 0; box < s->k->side[i].size / SLAB; box++) {
            copy_box(s, i, to, at + box * BOX, full, box ? plus(p, s->x[i], box * SLAB) : s->x[i], along);
        }
    }
}

static void wait(ls_ptx *p, ls_ptx_op barrier, int64_t offset, ls_ptx_op parity) {
    ls_ptx_op done = ls_ptx_new(p, LS_PTX_PRED);
    int label = p->labels++;
    ls_ptx_line(p, "L%d:", label);
    ls_ptx_line(p, "mbarrier.try_wait.parity.shared::cta.b64 %s, [%s+%" PRId64 "], %s;", ls_ptx_text(p, done),
                ls_ptx_text(p, barrier), offset, ls_ptx_text(p, parity));
    ls_ptx_line(p, "@!%s bra L%d;", ls_ptx_text(p, done), label);
}

/* ---- the beginning ---- */

static void begin(pipe *s, ls_val at) {
    ls_ptx *p = s->p;
    const ls_ins *ins = &p->kernel->body[at];
    s->base = plus(p, p->shared, p->kernel->mems[s->k->sums].binding);
    s->barriers = plus(p, s->base, s->stages * s->stage);
    for (int i = 0; i < 2; i++) {
        ls_ptx_op index = ls_ptx_reg(p, p->values[ins->src[i]].ops[0], LS_I32),
                  line = imm(s->k->side[i].line);
        s->x[i] = new32(p);
        s->y[i] = new32(p);
        ls_ptx_2(p, "rem.s32", s->x[i], index, line);
        ls_ptx_2(p, "div.s32", s->y[i], index, line);
        s->map[i] = ls_ptx_new(p, LS_PTX_64);
        ls_ptx_line(p, "mov.b64 %s, map%d;", ls_ptx_text(p, s->map[i]), i);
        ls_ptx_1(p, "cvta.param.u64", s->map[i], s->map[i]);
    }
    ls_ptx_op t = new32(p);
    s->lead = ls_ptx_new(p, LS_PTX_PRED);
    ls_ptx_line(p, "mov.u32 %s, %%tid.x;", ls_ptx_text(p, t));
    ls_ptx_2(p, "setp.eq.s32", s->lead, t, imm(0));
    int skip = p->labels++;
    ls_ptx_line(p, "@!%s bra L%d;", ls_ptx_text(p, s->lead), skip);
    for (int i = 0; i < 2 * s->stages; i++) {
        ls_ptx_line(p, "mbarrier.init.shared::cta.b64 [%s+%d], %d;", ls_ptx_text(p, s->barriers), 8 * i,
                    i < s->stages ? 1 : WARPS);
    }
    ls_ptx_line(p, "fence.mbarrier_init.release.cluster;");
    for (int i = 0; i < s->stages && i < s->slabs; i++) {
        copy_slab(s, plus(p, s->base, i * s->stage), plus(p, s->barriers, 8 * i), imm(i * SLAB));
    }
    ls_ptx_line(p, "L%d:", skip);
    ls_ptx_line(p, "bar.sync 0;");
    for (int i = 0; i < s->blocks * s->columns / 2; i++) {
        s->sums[i] = new32(p);
        ls_ptx_1(p, "mov.b32", s->sums[i], imm(0));
    }
}

/* Low words of what tells wgmma where the operands lie: address and leading offset, in 16 bytes. */
static void describe(pipe *s) {
    ls_ptx *p = s->p;
    for (int i = 0; i < 2; i++) {
        ls_ptx_op low = plus(p, s->base, i ? (int64_t)s->k->side[0].size * LINE : 0);
        if (i == 0) { /* the half of the rows; a line a row, or boxes of 64 rows: the same bytes */
            ls_ptx_op half = new32(p);
            ls_ptx_line(p, "mov.u32 %s, %%tid.x;", ls_ptx_text(p, half));
            ls_ptx_2(p, "shr.u32", half, half, imm(7));
            ls_ptx_3(p, "mad.lo.s32", low, half, imm((int64_t)s->blocks * BOX), low);
        }
        ls_ptx_2(p, "shr.u32", low, low, imm(4));
        ls_ptx_2(p, "or.b32", low, low, imm((int64_t)(s->k->side[i].by_k ? 1 : BOX / 16) << 16));
        s->descriptor[i] = low;
    }
}

/* ---- the loop ---- */

static ls_ptx_op descriptor(pipe *s, ls_ptx_op low, int64_t bytes) {
    ls_ptx *p = s->p;
    ls_ptx_op at = plus(p, low, bytes / 16), out = ls_ptx_new(p, LS_PTX_64);
    /* the high word: 1024 bytes from 8 lines to the next 8, 128-byte swizzle */
    ls_ptx_line(p, "mov.b64 %s, {%s, 0x%x};", ls_ptx_text(p, out), ls_ptx_text(p, at), 1u << 30 | 1024 / 16);
    return out;
}

static void multiply(pipe *s, ls_ptx_op a, ls_ptx_op b, int block, ls_ptx_op always) {
    ls_ptx *p = s->p;
    const char *type = s->k->type == LS_F16 ? "f16" : "bf16";
    int n = s->columns / 2;
    ls_text *out = &p->body;
    ls_text_printf(out, "  wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {", s->columns, type, type);
    for (int i = 0; i < n; i++) {
        ls_text_printf(out, "%s%s", i ? ", " : "", ls_ptx_text(p, s->sums[block * n + i]));
    }
    ls_text_printf(out, "}, %s, %s, %s, 1, 1, %d, %d;\n", ls_ptx_text(p, a), ls_ptx_text(p, b),
                   ls_ptx_text(p, always), !s->k->side[0].by_k, !s->k->side[1].by_k);
}

/* All of a slab. A step along the contracted axis is 32 bytes of each line, or 16 lines. */
static void multiply_slab(pipe *s, ls_ptx_op stage, ls_ptx_op always) {
    ls_ptx *p = s->p;
    ls_ptx_op low[2];
    for (int i = 0; i < 2; i++) {
        low[i] = new32(p);
        ls_ptx_2(p, "add.s32", low[i], s->descriptor[i], stage);
    }
    ls_ptx_line(p, "wgmma.fence.sync.aligned;");
    for (int step = 0; step < SLAB / 16; step++) {
        ls_ptx_op b = descriptor(s, low[1], step * (s->k->side[1].by_k ? 32 : 16 * LINE));
        for (int block = 0; block < s->blocks; block++) {
            ls_ptx_op a = descriptor(s, low[0], block * BOX + step * (s->k->side[0].by_k ? 32 : 16 * LINE));
            multiply(s, a, b, block, always);
        }
    }
    ls_ptx_line(p, "wgmma.commit_group.sync.aligned;");
}

/* The slab before the present one has been read: releases its stage; the first thread asks for what comes there next. */
static void release(pipe *s, ls_ptx_op slab, ls_ptx_op stage, ls_ptx_op full, ls_ptx_op parity,
                    ls_ptx_op first_lane) {
    ls_ptx *p = s->p;
    ls_ptx_op some = ls_ptx_new(p, LS_PTX_PRED), more = ls_ptx_new(p, LS_PTX_PRED), to = new32(p),
              k = new32(p);
    ls_ptx_2(p, "setp.gt.s32", some, slab, imm(0));
    ls_ptx_2(p, "and.pred", some, some, first_lane);
    ls_ptx_line(p, "@%s mbarrier.arrive.shared::cta.b64 _, [%s+%d];", ls_ptx_text(p, some),
                ls_ptx_text(p, full), 8 * s->stages);
    int skip = p->labels++;
    ls_ptx_2(p, "and.pred", some, some, s->lead);
    ls_ptx_2(p, "setp.le.s32", more, slab, imm(s->slabs - s->stages));
    ls_ptx_2(p, "and.pred", more, more, some);
    ls_ptx_line(p, "@!%s bra L%d;", ls_ptx_text(p, more), skip);
    wait(p, full, 8 * s->stages, parity);
    ls_ptx_3(p, "mad.lo.s32", to, stage, imm(16), s->base);
    ls_ptx_3(p, "mad.lo.s32", k, slab, imm(SLAB), imm((s->stages - 1) * SLAB));
    copy_slab(s, to, full, k);
    ls_ptx_line(p, "L%d:", skip);
    ls_ptx_line(p, "bar.warp.sync 0xffffffff;");
}

static void loop(pipe *s) {
    ls_ptx *p = s->p;
    /* of the present slab and the one before: its number, its stage in 16 bytes, its barrier, its turn's parity */
    ls_ptx_op slab = new32(p), stage[2], full[2], parity[2], lane = new32(p);
    ls_ptx_op first_lane = ls_ptx_new(p, LS_PTX_PRED), always = ls_ptx_new(p, LS_PTX_PRED),
              again = ls_ptx_new(p, LS_PTX_PRED);
    ls_ptx_line(p, "mov.u32 %s, %%laneid;", ls_ptx_text(p, lane));
    ls_ptx_2(p, "setp.eq.s32", first_lane, lane, imm(0));
    ls_ptx_line(p, "setp.eq.s32 %s, 0, 0;", ls_ptx_text(p, always));
    ls_ptx_1(p, "mov.b32", slab, imm(0));
    for (int i = 0; i < 2; i++) {
        stage[i] = new32(p), full[i] = new32(p), parity[i] = new32(p);
        ls_ptx_1(p, "mov.b32", stage[i], imm(0));
        ls_ptx_1(p, "mov.b32", full[i], s->barriers);
        ls_ptx_1(p, "mov.b32", parity[i], imm(0));
    }
    int label = p->labels++;
    ls_ptx_line(p, "L%d:", label);
    wait(p, full[0], 0, parity[0]);
    multiply_slab(s, stage[0], always);
    ls_ptx_line(p, "wgmma.wait_group.sync.aligned 1;");
    release(s, slab, stage[1], full[1], parity[1], first_lane);
    ls_ptx_1(p, "mov.b32", stage[1], stage[0]);
    ls_ptx_1(p, "mov.b32", full[1], full[0]);
    ls_ptx_1(p, "mov.b32", parity[1], parity[0]);
    ls_ptx_2(p, "add.s32", slab, slab, imm(1));
    ls_ptx_2(p, "add.s32", stage[0], stage[0], imm(s->stage / 16));
    ls_ptx_2(p, "add.s32", full[0], full[0], imm(8));
    ls_ptx_2(p, "setp.eq.s32", again, stage[0], imm(s->stages * s->stage / 16));
    ls_ptx_line(p, "@%s mov.b32 %s, 0;", ls_ptx_text(p, again), ls_ptx_text(p, stage[0]));
    ls_ptx_line(p, "@%s mov.b32 %s, %s;", ls_ptx_text(p, again), ls_ptx_text(p, full[0]),
                ls_ptx_text(p, s->barriers));
    ls_ptx_line(p, "@%s xor.b32 %s, %s, 1;", ls_ptx_text(p, again), ls_ptx_text(p, parity[0]),
                ls_ptx_text(p, parity[0]));
    ls_ptx_2(p, "setp.lt.s32", again, slab, imm(s->slabs));
    ls_ptx_line(p, "@%s bra L%d;", ls_ptx_text(p, again), label);
    ls_ptx_line(p, "wgmma.wait_group.sync.aligned 0;");
}

/* ---- the end: registers 4j .. 4j + 3 are columns 8j + 2t and its right neighbour of rows g and g + 8 of a warp's 16, with
 * g = lane / 4 and t = lane % 4 ---- */

static void store(pipe *s) {
    ls_ptx *p = s->p;
    ls_ptx_op t = new32(p), row = new32(p), part = new32(p), at = new32(p),
              line = imm((int64_t)s->k->stride * 4);
    ls_ptx_line(p, "mov.u32 %s, %%tid.x;", ls_ptx_text(p, t));
    ls_ptx_2(p, "shr.u32", row, t, imm(7)); /* the half */
    ls_ptx_2(p, "shr.u32", part, t, imm(5));
    ls_ptx_2(p, "and.b32", part, part, imm(3)); /* the warp in it */
    ls_ptx_2(p, "shl.b32", part, part, imm(4));
    ls_ptx_3(p, "mad.lo.s32", row, row, imm(64 * s->blocks), part);
    ls_ptx_2(p, "shr.u32", part, t, imm(2));
    ls_ptx_2(p, "and.b32", part, part, imm(7));
    ls_ptx_2(p, "add.s32", row, row, part);
    ls_ptx_3(p, "mad.lo.s32", at, row, line, s->base);
    ls_ptx_2(p, "and.b32", part, t, imm(3));
    ls_ptx_3(p, "mad.lo.s32", at, part, imm(8), at);
    ls_ptx_line(p, "bar.sync 0;"); /* nobody reads a slab any more */
    for (int block = 0; block < s->blocks; block++) {
        const ls_ptx_op *sums = s->sums + block * s->columns / 2;
        for (int i = 0; i < s->columns / 2; i += 2) {
            int64_t place = (int64_t)(block * 64 + (i & 2 ? 8 : 0)) * s->k->stride * 4 + i / 4 * 32;
            ls_ptx_line(p, "st.shared.v2.b32 [%s+%" PRId64 "], {%s, %s};", ls_ptx_text(p, at), place,
                        ls_ptx_text(p, sums[i]), ls_ptx_text(p, sums[i + 1]));
        }
    }
}

void ls_ptx_product(ls_ptx *p, ls_val at) {
    const ls_kproduct *k = &p->kernel->products[p->kernel->body[at].arg];
    const char *why = refusal(p, k);
    pipe s = {.p = p,
              .k = k,
              .blocks = k->side[0].size / 128,
              .columns = k->side[1].size,
              .slabs = (k->k + SLAB - 1) / SLAB};
    s.stage = (int64_t)(k->side[0].size + k->side[1].size) * LINE;
    int64_t stages = (p->kernel->mems[k->sums].count * 4 - BARRIERS) / s.stage;
    s.stages = (int)(stages < STAGES ? stages : STAGES);
    why = why || s.stages >= 2 ? why : "too little shared memory for two stages";
    if (why) {
        ls_ptx_fail(p, LS_ERR_UNSUPPORTED, ls_kops[LS_K_PRODUCT].name, why);
        return;
    }
    begin(&s, at);
    describe(&s);
    loop(&s);
    store(&s);
}
