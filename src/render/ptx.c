/* Kernels to PTX text: the walk, control flow, memory and threads. The body is written first, because registers are declared
 * by their number. Float instructions name their rounding, so that the assembler fuses none of them; those with LS_KF_FAST
 * do not. */
#include "render/ptx.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STATIC_SHARED 49152 /* what a kernel may declare; more is given at the launch */

void ls_ptx_fail(ls_ptx *p, ls_status code, const char *what, const char *why) {
    if (p->status == LS_OK) {
        p->status = LS_FAIL(p->err, code, "kernel %s: %s: %s", p->kernel->name, what, why);
    }
}

ls_ptx_op ls_ptx_new(ls_ptx *p, ls_ptx_file file) {
    return (ls_ptx_op){.file = (uint8_t)file, .number = p->count[file]++};
}

ls_ptx_op ls_ptx_const(ls_dtype dtype, uint64_t bits) {
    return (ls_ptx_op){.file = LS_PTX_CONST, .dtype = (uint8_t)dtype, .bits = bits};
}

const char *ls_ptx_text(ls_ptx *p, ls_ptx_op op) {
    static const char prefix[] = {[LS_PTX_PRED] = 'p', [LS_PTX_16] = 'h', [LS_PTX_32] = 'r', [LS_PTX_64] = 'd'};
    char *text = p->text[p->next_text++ % 16];
    if (op.file != LS_PTX_CONST) {
        snprintf(text, 32, "%%%c%d", prefix[op.file], op.number);
    } else if (op.dtype == LS_F32) {
        snprintf(text, 32, "0f%08X", (unsigned)op.bits);
    } else if (op.dtype == LS_F64) {
        snprintf(text, 32, "0d%016" PRIX64, op.bits);
    } else if (ls_dtype_bits((ls_dtype)op.dtype) == 64 && op.bits + 4096 > 8192) {
        snprintf(text, 32, "0x%" PRIx64, op.bits);
    } else {
        snprintf(text, 32, "%" PRId64, (int64_t)op.bits);
    }
    return text;
}

void ls_ptx_line(ls_ptx *p, const char *fmt, ...) {
    char line[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof line) {
        ls_ptx_fail(p, LS_ERR_INTERNAL, "PTX", "a line too long");
        return;
    }
    ls_text_add_n(&p->body, "        ", 2 + 2 * (size_t)(p->depth < 3 ? p->depth : 3));
    ls_text_add(&p->body, line);
    ls_text_add(&p->body, "\n");
}

void ls_ptx_1(ls_ptx *p, const char *opcode, ls_ptx_op dst, ls_ptx_op a) {
    ls_ptx_line(p, "%s %s, %s;", opcode, ls_ptx_text(p, dst), ls_ptx_text(p, a));
}

void ls_ptx_2(ls_ptx *p, const char *opcode, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    ls_ptx_line(p, "%s %s, %s, %s;", opcode, ls_ptx_text(p, dst), ls_ptx_text(p, a), ls_ptx_text(p, b));
}

void ls_ptx_3(ls_ptx *p, const char *opcode, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b, ls_ptx_op c) {
    ls_ptx_line(p, "%s %s, %s, %s, %s;", opcode, ls_ptx_text(p, dst), ls_ptx_text(p, a), ls_ptx_text(p, b),
                ls_ptx_text(p, c));
}

const char *ls_ptx_opcode(ls_ptx *p, const char *opcode, const char *suffix) {
    char *text = p->text[p->next_text++ % 16];
    snprintf(text, 32, "%s.%s", opcode, suffix);
    return text;
}

ls_ptx_file ls_ptx_file_of(ls_dtype dtype) {
    int bits = ls_dtype_bits(dtype);
    return bits == 1 ? LS_PTX_PRED : bits <= 16 ? LS_PTX_16 : bits == 32 ? LS_PTX_32 : LS_PTX_64;
}

const char *ls_ptx_type(ls_dtype dtype) {
    static const char *const types[LS_DTYPE_COUNT] = {
        [LS_BOOL] = "pred", [LS_I32] = "s32", [LS_U32] = "u32", [LS_F32] = "f32",
        [LS_I64] = "s64",   [LS_U64] = "u64", [LS_F64] = "f64"};
    return types[dtype] ? types[dtype] : "b16";
}

const char *ls_ptx_memory(ls_dtype dtype) {
    return dtype == LS_I8                       ? "s8"
           : dtype == LS_U8 || dtype == LS_BOOL ? "u8"
           : dtype == LS_I16                    ? "s16"
           : dtype == LS_U16                    ? "u16"
                                                : ls_ptx_type(dtype);
}

void ls_ptx_move(ls_ptx *p, ls_dtype dtype, ls_ptx_op dst, ls_ptx_op src) {
    ls_ptx_1(p, ls_ptx_opcode(p, "mov", ls_ptx_type(dtype)), dst, src);
}

ls_ptx_op ls_ptx_reg(ls_ptx *p, ls_ptx_op op, ls_dtype dtype) {
    if (op.file != LS_PTX_CONST) {
        return op;
    }
    ls_ptx_op reg = ls_ptx_new(p, ls_ptx_file_of(dtype));
    ls_ptx_move(p, dtype, reg, op);
    return reg;
}

/* ---- addresses ---- */

/* Bytes that an index counts: the memory's elements; fragments may take halves out of words. */
static int32_t unit_of(const ls_kernel *kernel, const ls_ins *ins) {
    bool halves = ins->op == LS_K_FRAG_LOAD;
    return (int32_t)ls_dtype_size(halves ? (ls_dtype)ins->dtype : kernel->mems[ins->arg].dtype);
}

/* An index as a value, in units of `size` bytes, and bytes. */
static void split(const ls_kernel *kernel, int32_t size, ls_val index, ls_val *out_root, int64_t *out_bytes) {
    const ls_ins *ins = &kernel->body[index];
    int64_t limit = (int64_t)1 << 30, c = 0;
    *out_root = index;
    *out_bytes = 0;
    if (ins->op == LS_K_CONST) {
        c = ins->arg;
        *out_root = LS_VAL_NONE;
    } else if (ins->op == LS_K_ADD && kernel->body[ins->src[1]].op == LS_K_CONST && ins->dtype != LS_U32) {
        /* signed indices do not wrap; unsigned ones may come back from below 0 by their constant */
        c = kernel->body[ins->src[1]].arg;
        *out_root = ins->src[0];
    }
    if (c > -limit / size && c < limit / size) {
        *out_bytes = c * size;
    } else {
        *out_root = index;
    }
}

static ls_ptx_address **address_at(ls_ptx *p, int mem, int32_t size, ls_val root) {
    int32_t key = p->kernel->mems[mem].space == LS_MEM_SHARED ? -1 : mem;
    ls_ptx_address **a = &p->addresses[root];
    while (*a && ((*a)->mem != key || (*a)->size != size)) {
        a = &(*a)->next;
    }
    return a;
}

static void note_address(ls_ptx *p, const ls_ins *ins) {
    ls_val root;
    int64_t bytes;
    int mem = (int)ins->arg;
    int32_t size = unit_of(p->kernel, ins);
    split(p->kernel, size, ins->src[0], &root, &bytes);
    if (root == LS_VAL_NONE) {
        return;
    }
    ls_ptx_address **a = address_at(p, mem, size, root);
    if (*a) {
        return;
    }
    *a = LS_ARENA_NEW(&p->arena, ls_ptx_address);
    if (!*a) {
        ls_ptx_fail(p, LS_ERR_MEMORY, "PTX", "out of memory for addresses");
        return;
    }
    bool shared = p->kernel->mems[mem].space == LS_MEM_SHARED;
    **a = (ls_ptx_address){.root = root, .mem = shared ? -1 : mem, .size = size};
    (*a)->reg.file = LS_PTX_CONST;
}

static void write_address(ls_ptx *p, ls_ptx_address *a, ls_ptx_op root, ls_dtype dtype) {
    ls_ptx_op size = ls_ptx_const(LS_I32, (uint64_t)a->size);
    if (a->mem >= 0) {
        a->reg = ls_ptx_new(p, LS_PTX_64);
        ls_ptx_3(p, dtype == LS_I32 ? "mad.wide.s32" : dtype == LS_U32 ? "mad.wide.u32" : "mad.lo.s64", a->reg, root, size,
                 p->bases[a->mem]);
        return;
    }
    if (ls_dtype_bits(dtype) == 64) {
        ls_ptx_op low = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_1(p, "cvt.u32.u64", low, root);
        root = low;
    }
    a->reg = ls_ptx_new(p, LS_PTX_32);
    ls_ptx_3(p, "mad.lo.s32", a->reg, root, size, p->shared);
}

static void write_addresses(ls_ptx *p, ls_val root) {
    for (ls_ptx_address *a = p->addresses[root]; a; a = a->next) {
        write_address(p, a, p->values[root].ops[0], (ls_dtype)p->kernel->body[root].dtype);
    }
}

ls_ptx_op ls_ptx_base(ls_ptx *p, const ls_ins *ins, int64_t *out_bytes) {
    int mem = (int)ins->arg;
    const ls_kmem *m = &p->kernel->mems[mem];
    int32_t size = unit_of(p->kernel, ins);
    ls_val root;
    split(p->kernel, size, ins->src[0], &root, out_bytes);
    *out_bytes += m->space == LS_MEM_SHARED ? m->binding : 0;
    return root != LS_VAL_NONE           ? (*address_at(p, mem, size, root))->reg
           : m->space == LS_MEM_SHARED ? p->shared
                                         : p->bases[mem];
}

/* "[%d3+16]": what an instruction accesses, and `more` bytes. */
static const char *place_of(ls_ptx *p, const ls_ins *ins, int64_t more) {
    int64_t bytes;
    ls_ptx_op base = ls_ptx_base(p, ins, &bytes);
    bytes += more;
    char *text = p->text[p->next_text++ % 16];
    if (bytes) {
        snprintf(text, 32, "[%s+%" PRId64 "]", ls_ptx_text(p, base), bytes);
    } else {
        snprintf(text, 32, "[%s]", ls_ptx_text(p, base));
    }
    return text;
}

static const char *space_of(const ls_ptx *p, int mem) {
    return p->kernel->mems[mem].space == LS_MEM_SHARED ? "shared" : "global";
}

/* ---- memory ---- */

static const char *guard(ls_ptx *p, ls_val predicate) {
    char *text = p->text[p->next_text++ % 16];
    text[0] = 0;
    if (predicate != LS_VAL_NONE) {
        snprintf(text, 32, "@%s ", ls_ptx_text(p, p->values[predicate].ops[0]));
    }
    return text;
}

/* Lanes of one access: at most 16 bytes. */
static int access_lanes(ls_dtype dtype, int lanes) {
    int most = 16 / (int)ls_dtype_size(dtype);
    return lanes < most ? lanes : most;
}

static const char *operand_list(ls_ptx *p, const ls_ptx_op *ops, int n, char *room, size_t size) {
    if (n == 1) {
        return ls_ptx_text(p, ops[0]);
    }
    size_t used = (size_t)snprintf(room, size, "{");
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(room + used, size - used, "%s%s", i ? ", " : "", ls_ptx_text(p, ops[i]));
    }
    snprintf(room + used, size - used, "}");
    return room;
}

static const char *vector_suffix(int n) {
    return n == 1 ? "" : n == 2 ? ".v2" : ".v4";
}

/* ---- asynchronous copies: a load from global memory that is only stored to shared memory, where nobody looks at that
 * memory before the next barrier. The copy is waited for at the barrier. (No thread stores to one element twice between
 * barriers: that would say nothing.) ---- */

enum { COPY_LOAD = 1, COPY_STORE = 2 };

static bool is_access(const ls_ins *ins) {
    return ls_kops[ins->op].kind == LS_KC_MEMORY || ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE;
}

static bool is_copy(const ls_kernel *k, ls_val at, const int32_t *uses) {
    const ls_ins *store = &k->body[at];
    if (store->op != LS_K_STORE || store->src[2] != LS_VAL_NONE || k->mems[store->arg].space != LS_MEM_SHARED) {
        return false;
    }
    const ls_ins *load = &k->body[store->src[1]];
    if (load->op != LS_K_LOAD || load->src[1] != LS_VAL_NONE || k->mems[load->arg].space != LS_MEM_GLOBAL ||
        uses[store->src[1]] != 1 || load->lanes * ls_dtype_size((ls_dtype)load->dtype) != 16) {
        return false;
    }
    for (ls_val i = store->src[1] + 1; i < at; i++) { /* it is done where the store stands */
        if (!ls_kir_movable(&k->body[i]) && k->body[i].op != LS_K_LOAD) {
            return false;
        }
    }
    for (ls_val i = at + 1; i < k->n_body; i++) {
        const ls_ins *ins = &k->body[i];
        bool same = is_access(ins) && ins->arg == store->arg && ins->op != LS_K_STORE;
        if (ins->op == LS_K_BARRIER) {
            return true;
        }
        bool variable = ins->op == LS_K_VAR || ins->op == LS_K_GET || ins->op == LS_K_SET;
        if (same || (ls_kops[ins->op].kind == LS_KC_CONTROL && !variable)) {
            return false;
        }
    }
    return false;
}

static bool find_copies(ls_ptx *p) {
    const ls_kernel *k = p->kernel;
    int32_t *uses = LS_ARENA_ARRAY(&p->arena, int32_t, k->n_body + 1);
    p->copies = LS_ARENA_ARRAY(&p->arena, uint8_t, k->n_body + 1);
    if (!uses || !p->copies) {
        return false;
    }
    for (ls_val at = 0; at < k->n_body; at++) {
        for (int i = 0; i < 3; i++) {
            if (k->body[at].src[i] != LS_VAL_NONE) {
                uses[k->body[at].src[i]]++;
            }
        }
    }
    for (ls_val at = 0; p->options.sm >= 80 && at < k->n_body; at++) {
        if (is_copy(k, at, uses)) {
            p->copies[at] = COPY_STORE;
            p->copies[k->body[at].src[1]] = COPY_LOAD;
        }
    }
    return true;
}

static void write_copy(ls_ptx *p, const ls_ins *store) {
    const ls_ins *load = &p->kernel->body[store->src[1]];
    ls_ptx_line(p, "cp.async.cg.shared.global %s, %s, 16;", place_of(p, store, 0), place_of(p, load, 0));
    p->copying = true;
}

static void write_barrier(ls_ptx *p) {
    if (p->copying) {
        ls_ptx_line(p, "cp.async.wait_all;");
        p->copying = false;
    }
    ls_ptx_line(p, "bar.sync 0;");
}

static void write_load(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    ls_dtype dtype = (ls_dtype)ins->dtype;
    ls_ptx_op *out = p->values[at].ops, raw[4];
    char room[160];
    for (int l = 0; l < ins->lanes; l++) {
        out[l] = ls_ptx_new(p, ls_ptx_file_of(dtype));
        raw[l] = dtype == LS_BOOL ? ls_ptx_new(p, LS_PTX_16) : out[l];
        if (ins->src[1] == LS_VAL_NONE) {
            continue;
        }
        ls_ptx_op otherwise = p->values[ins->src[2]].ops[l];
        if (dtype == LS_BOOL) {
            ls_ptx_line(p, "selp.b16 %s, 1, 0, %s;", ls_ptx_text(p, raw[l]), ls_ptx_text(p, otherwise));
        } else {
            ls_ptx_move(p, dtype, out[l], otherwise);
        }
    }
    int n = access_lanes(dtype, ins->lanes);
    for (int l = 0; l < ins->lanes; l += n) {
        ls_ptx_line(p, "%sld.%s%s.%s %s, %s;", guard(p, ins->src[1]), space_of(p, (int)ins->arg), vector_suffix(n),
                    ls_ptx_memory(dtype), operand_list(p, raw + l, n, room, sizeof room),
                    place_of(p, ins, l * (int64_t)ls_dtype_size(dtype)));
    }
    for (int l = 0; dtype == LS_BOOL && l < ins->lanes; l++) {
        ls_ptx_line(p, "setp.ne.s16 %s, %s, 0;", ls_ptx_text(p, out[l]), ls_ptx_text(p, raw[l]));
    }
}

static void write_store(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at], *value = &p->kernel->body[ins->src[1]];
    ls_dtype dtype = (ls_dtype)value->dtype;
    ls_ptx_op raw[4];
    char room[160];
    for (int l = 0; l < value->lanes; l++) {
        raw[l] = p->values[ins->src[1]].ops[l];
        if (dtype == LS_BOOL) {
            ls_ptx_op byte = ls_ptx_new(p, LS_PTX_16);
            ls_ptx_line(p, "selp.b16 %s, 1, 0, %s;", ls_ptx_text(p, byte), ls_ptx_text(p, raw[l]));
            raw[l] = byte;
        } else {
            raw[l] = ls_ptx_reg(p, raw[l], dtype);
        }
    }
    int n = access_lanes(dtype, value->lanes);
    for (int l = 0; l < value->lanes; l += n) {
        ls_ptx_line(p, "%sst.%s%s.%s %s, %s;", guard(p, ins->src[2]), space_of(p, (int)ins->arg), vector_suffix(n),
                    ls_ptx_memory(dtype), place_of(p, ins, l * (int64_t)ls_dtype_size(dtype)),
                    operand_list(p, raw + l, n, room, sizeof room));
    }
}

static void write_atomic(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    ls_dtype dtype = (ls_dtype)ins->dtype;
    const char *name = ins->op == LS_K_ATOMIC_ADD   ? "add"
                       : ins->op == LS_K_ATOMIC_MIN ? "min"
                       : ins->op == LS_K_ATOMIC_MAX ? "max"
                                                    : "or";
    const char *type = ins->op == LS_K_ATOMIC_OR                        ? (ls_dtype_bits(dtype) == 64 ? "b64" : "b32")
                       : ins->op == LS_K_ATOMIC_ADD && dtype == LS_I64 ? "u64"
                                                                        : ls_ptx_type(dtype);
    ls_ptx_op out = ls_ptx_new(p, ls_ptx_file_of(dtype)), value = ls_ptx_reg(p, p->values[ins->src[1]].ops[0], dtype);
    if (ins->src[2] != LS_VAL_NONE) {
        ls_ptx_move(p, dtype, out, ls_ptx_const(dtype, 0));
    }
    ls_ptx_line(p, "%satom.%s.%s.%s %s, %s, %s;", guard(p, ins->src[2]), space_of(p, (int)ins->arg), name, type,
                ls_ptx_text(p, out), place_of(p, ins, 0), ls_ptx_text(p, value));
    p->values[at].ops[0] = out;
}

/* ---- threads together ---- */

/* One 32-bit register of another lane. */
static void shuffle_word(ls_ptx *p, const char *mode, ls_ptx_op dst, ls_ptx_op src, ls_ptx_op lane) {
    ls_ptx_line(p, "shfl.sync.%s.b32 %s, %s, %s, 31, 0x%x;", mode, ls_ptx_text(p, dst), ls_ptx_text(p, src),
                ls_ptx_text(p, lane), (unsigned)p->lanes);
}

static ls_ptx_op shuffled(ls_ptx *p, const char *mode, ls_dtype dtype, ls_ptx_op src, ls_ptx_op lane) {
    ls_ptx_file file = ls_ptx_file_of(dtype);
    ls_ptx_op out = ls_ptx_new(p, file), low = ls_ptx_new(p, LS_PTX_32), high;
    src = ls_ptx_reg(p, src, dtype);
    if (file == LS_PTX_32) {
        shuffle_word(p, mode, out, src, lane);
    } else if (file == LS_PTX_64) {
        high = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "mov.b64 {%s, %s}, %s;", ls_ptx_text(p, low), ls_ptx_text(p, high), ls_ptx_text(p, src));
        shuffle_word(p, mode, low, low, lane);
        shuffle_word(p, mode, high, high, lane);
        ls_ptx_line(p, "mov.b64 %s, {%s, %s};", ls_ptx_text(p, out), ls_ptx_text(p, low), ls_ptx_text(p, high));
    } else if (file == LS_PTX_16) {
        ls_ptx_1(p, "cvt.u32.u16", low, src);
        shuffle_word(p, mode, low, low, lane);
        ls_ptx_1(p, "cvt.u16.u32", out, low);
    } else {
        ls_ptx_line(p, "selp.b32 %s, 1, 0, %s;", ls_ptx_text(p, low), ls_ptx_text(p, src));
        shuffle_word(p, mode, low, low, lane);
        ls_ptx_line(p, "setp.ne.b32 %s, %s, 0;", ls_ptx_text(p, out), ls_ptx_text(p, low));
    }
    return out;
}

static void write_shuffle(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    bool by_xor = ins->op == LS_K_SHUFFLE_XOR;
    ls_ptx_op lane = by_xor ? ls_ptx_const(LS_I32, (uint64_t)ins->arg) : p->values[ins->src[1]].ops[0];
    for (int l = 0; l < ins->lanes; l++) {
        p->values[at].ops[l] =
            shuffled(p, by_xor ? "bfly" : "idx", (ls_dtype)ins->dtype, p->values[ins->src[0]].ops[l], lane);
    }
}

static void write_subgroup(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    ls_dtype dtype = (ls_dtype)ins->dtype;
    ls_kop op = ins->op == LS_K_SUBGROUP_ADD ? LS_K_ADD : ins->op == LS_K_SUBGROUP_MIN ? LS_K_MIN : LS_K_MAX;
    int threads = ls_kernel_threads(p->kernel), width = threads < 32 ? threads : 32;
    if (width & (width - 1)) {
        ls_ptx_fail(p, LS_ERR_UNSUPPORTED, ls_kops[ins->op].name, "a workgroup whose size is no power of two below 32");
        return;
    }
    for (int l = 0; l < ins->lanes; l++) {
        ls_ptx_op total = p->values[ins->src[0]].ops[l];
        if ((dtype == LS_I32 || dtype == LS_U32) && p->options.sm >= 80) {
            ls_ptx_op out = ls_ptx_new(p, LS_PTX_32);
            total = ls_ptx_reg(p, total, dtype);
            ls_ptx_line(p, "redux.sync.%s.%s %s, %s, 0x%x;", ls_kops[op].name, ls_ptx_type(dtype), ls_ptx_text(p, out),
                        ls_ptx_text(p, total), (unsigned)p->lanes);
            total = out;
        } else {
            for (int step = width / 2; step; step /= 2) {
                ls_ptx_op other = shuffled(p, "bfly", dtype, total, ls_ptx_const(LS_I32, (uint64_t)step));
                ls_ptx_op sum = ls_ptx_new(p, ls_ptx_file_of(dtype));
                ls_ptx_combine(p, op, dtype, ins->flags, sum, total, other);
                total = sum;
            }
        }
        p->values[at].ops[l] = total;
    }
}

/* ---- leaves ---- */

static void write_param(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    ls_dtype dtype = (ls_dtype)ins->dtype;
    int word = 4 * ls_render_word(p->kernel, (int)ins->arg);
    ls_ptx_op low = ls_ptx_new(p, LS_PTX_32), out = low;
    ls_ptx_line(p, "ld.param.b32 %s, [words+%d];", ls_ptx_text(p, low), word);
    if (ls_ptx_file_of(dtype) == LS_PTX_64) {
        ls_ptx_op high = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "ld.param.b32 %s, [words+%d];", ls_ptx_text(p, high), word + 4);
        out = ls_ptx_new(p, LS_PTX_64);
        ls_ptx_line(p, "mov.b64 %s, {%s, %s};", ls_ptx_text(p, out), ls_ptx_text(p, low), ls_ptx_text(p, high));
    } else if (ls_ptx_file_of(dtype) == LS_PTX_16) {
        out = ls_ptx_new(p, LS_PTX_16);
        ls_ptx_1(p, "cvt.u16.u32", out, low);
    } else if (dtype == LS_BOOL) {
        out = ls_ptx_new(p, LS_PTX_PRED);
        ls_ptx_2(p, "setp.ne.b32", out, low, ls_ptx_const(LS_I32, 0));
    }
    p->values[at].ops[0] = out;
}

static void write_leaf(ls_ptx *p, ls_val at) {
    static const char axes[] = "xyz";
    const ls_ins *ins = &p->kernel->body[at];
    const int32_t *w = p->kernel->workgroup;
    ls_ptx_op out;
    switch (ins->op) {
    case LS_K_CONST:
        for (int l = 0; l < ins->lanes; l++) {
            ls_ptx_op c = ls_ptx_const((ls_dtype)ins->dtype, (uint64_t)ins->arg);
            p->values[at].ops[l] = ins->dtype == LS_BOOL ? ls_ptx_reg(p, c, LS_BOOL) : c;
        }
        return;
    case LS_K_PARAM:
        write_param(p, at);
        return;
    case LS_K_SUBGROUP_SIZE:
        p->values[at].ops[0] = ls_ptx_const(LS_I32, 32);
        return;
    case LS_K_SUBGROUP_ID: /* threads are numbered with x fastest */
        out = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "mov.u32 %s, %%tid.x;", ls_ptx_text(p, out));
        for (int axis = 1; axis < 3; axis++) {
            if (w[axis] > 1) {
                ls_ptx_op t = ls_ptx_new(p, LS_PTX_32);
                ls_ptx_line(p, "mov.u32 %s, %%tid.%c;", ls_ptx_text(p, t), axes[axis]);
                ls_ptx_3(p, "mad.lo.s32", out, t, ls_ptx_const(LS_I32, (uint64_t)(axis == 1 ? w[0] : w[0] * w[1])), out);
            }
        }
        ls_ptx_2(p, "shr.u32", out, out, ls_ptx_const(LS_I32, 5));
        break;
    case LS_K_LANE_ID:
        out = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "mov.u32 %s, %%laneid;", ls_ptx_text(p, out));
        break;
    default:
        out = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "mov.u32 %s, %%%s.%c;", ls_ptx_text(p, out), ins->op == LS_K_GROUP_ID ? "ctaid" : "tid",
                    axes[ins->arg]);
    }
    p->values[at].ops[0] = out;
}

/* ---- control ---- */

static ls_ptx_op predicate(ls_ptx *p, const char *compare, ls_ptx_op a, ls_ptx_op b) {
    ls_ptx_op out = ls_ptx_new(p, LS_PTX_PRED);
    ls_ptx_2(p, compare, out, a, b);
    return out;
}

static void open_block(ls_ptx *p, ls_val at) {
    if (p->depth == 64) {
        ls_ptx_fail(p, LS_ERR_UNSUPPORTED, "PTX", "more than 64 blocks inside each other");
        return;
    }
    p->open[p->depth].at = at;
    p->open[p->depth].label = p->labels++;
    p->open[p->depth].has_else = false;
}

static void write_loop(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    ls_dtype dtype = (ls_dtype)ins->dtype;
    ls_ptx_op i = ls_ptx_new(p, ls_ptx_file_of(dtype)), lo = p->values[ins->src[0]].ops[0],
              hi = p->values[ins->src[1]].ops[0];
    bool runs = lo.file == LS_PTX_CONST && hi.file == LS_PTX_CONST && (int64_t)lo.bits < (int64_t)hi.bits;
    p->values[at].ops[0] = i;
    ls_ptx_move(p, dtype, i, lo);
    if (!runs) {
        ls_ptx_op done = predicate(p, ls_ptx_opcode(p, "setp.ge", ls_ptx_type(dtype)), i, hi);
        ls_ptx_line(p, "@%s bra E%d;", ls_ptx_text(p, done), p->open[p->depth].label);
    }
    ls_ptx_line(p, "L%d:", p->open[p->depth].label);
}

static void write_end_loop(ls_ptx *p) {
    const ls_ins *ins = &p->kernel->body[p->open[p->depth].at];
    const char *type = ls_ptx_type((ls_dtype)ins->dtype);
    ls_ptx_op i = p->values[p->open[p->depth].at].ops[0];
    ls_ptx_2(p, ls_ptx_opcode(p, "add", type), i, i, p->values[ins->src[2]].ops[0]);
    ls_ptx_op again = predicate(p, ls_ptx_opcode(p, "setp.lt", type), i, p->values[ins->src[1]].ops[0]);
    ls_ptx_line(p, "@%s bra L%d;", ls_ptx_text(p, again), p->open[p->depth].label);
    ls_ptx_line(p, "E%d:", p->open[p->depth].label);
}

static void write_control(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    int label;
    switch (ins->op) {
    case LS_K_LOOP:
    case LS_K_IF:
        open_block(p, at);
        if (p->status != LS_OK) {
            return;
        }
        label = p->open[p->depth].label;
        if (ins->op == LS_K_LOOP) {
            write_loop(p, at);
        } else {
            ls_ptx_line(p, "@!%s bra L%d;", ls_ptx_text(p, p->values[ins->src[0]].ops[0]), label);
        }
        p->depth++;
        return;
    case LS_K_ELSE:
        label = p->open[p->depth - 1].label;
        p->open[p->depth - 1].has_else = true;
        ls_ptx_line(p, "bra E%d;", label);
        ls_ptx_line(p, "L%d:", label);
        return;
    case LS_K_END_IF:
        p->depth--;
        ls_ptx_line(p, "%c%d:", p->open[p->depth].has_else ? 'E' : 'L', p->open[p->depth].label);
        return;
    case LS_K_END_LOOP:
        p->depth--;
        write_end_loop(p);
        return;
    default: /* VAR, GET, SET */
        break;
    }
    ls_val var = ins->op == LS_K_VAR ? at : ins->src[0], value = ins->op == LS_K_SET ? ins->src[1] : ins->src[0];
    ls_ptx_value *to = &p->values[ins->op == LS_K_SET ? var : at];
    const ls_ptx_value *from = &p->values[ins->op == LS_K_GET ? var : value];
    const ls_ins *type = &p->kernel->body[var];
    bool fragment = type->lanes == LS_LANES_FRAG;
    for (int l = 0; l < to->n; l++) {
        ls_dtype dtype = fragment ? LS_U32 : (ls_dtype)type->dtype;
        if (ins->op != LS_K_SET) {
            to->ops[l] = ls_ptx_new(p, ls_ptx_file_of(dtype));
        }
        ls_ptx_1(p, fragment ? "mov.b32" : ls_ptx_opcode(p, "mov", ls_ptx_type(dtype)), to->ops[l], from->ops[l]);
    }
}

/* ---- the walk ---- */

static void write_instruction(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    switch (ls_kops[ins->op].kind) {
    case LS_KC_CONTROL:
        write_control(p, at);
        break;
    case LS_KC_LEAF:
        write_leaf(p, at);
        break;
    case LS_KC_PURE:
    case LS_KC_VECTOR:
        ls_ptx_pure(p, at);
        break;
    case LS_KC_MEMORY:
        if (p->copies[at] == COPY_STORE) {
            write_copy(p, ins);
        } else if (!p->copies[at]) {
            (ins->op == LS_K_LOAD ? write_load : ins->op == LS_K_STORE ? write_store : write_atomic)(p, at);
        }
        break;
    case LS_KC_GROUP:
        if (ins->op == LS_K_BARRIER) {
            write_barrier(p);
        } else if (!p->lanes) {
            ls_ptx_fail(p, LS_ERR_UNSUPPORTED, ls_kops[ins->op].name, "subgroups of different sizes in one workgroup");
        } else {
            (ins->op == LS_K_SHUFFLE || ins->op == LS_K_SHUFFLE_XOR ? write_shuffle : write_subgroup)(p, at);
        }
        break;
    case LS_KC_MATRIX:
        (ins->op == LS_K_PRODUCT ? ls_ptx_product : ls_ptx_fragment)(p, at);
        break;
    }
    if (p->status == LS_OK && p->addresses[at]) {
        write_addresses(p, at);
    }
}

static bool prepare(ls_ptx *p) {
    const ls_kernel *k = p->kernel;
    int threads = ls_kernel_threads(k);
    p->lanes = threads % 32 == 0 ? 0xffffffffu : threads < 32 ? (1u << threads) - 1 : 0;
    p->values = LS_ARENA_ARRAY(&p->arena, ls_ptx_value, k->n_body + 1);
    p->addresses = LS_ARENA_ARRAY(&p->arena, ls_ptx_address *, k->n_body + 1);
    p->bases = LS_ARENA_ARRAY(&p->arena, ls_ptx_op, k->n_mems + 1);
    if (!p->values || !p->addresses || !p->bases || !find_copies(p)) {
        return false;
    }
    for (ls_val at = 0; at < k->n_body; at++) {
        const ls_ins *ins = &k->body[at];
        int n = ins->lanes == LS_LANES_FRAG ? ls_ptx_fragment_size(ins) : ins->lanes;
        if (ins->lanes == LS_LANES_FRAG && n == 0) {
            ls_ptx_fail(p, LS_ERR_UNSUPPORTED, ls_kops[ins->op].name, "a fragment of a shape or type without instruction");
            return true;
        }
        p->values[at].n = n;
        p->values[at].ops = LS_ARENA_ARRAY(&p->arena, ls_ptx_op, n + 1);
        if (!p->values[at].ops) {
            return false;
        }
        if (ls_kops[ins->op].kind == LS_KC_MEMORY || ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE) {
            note_address(p, ins);
        }
    }
    return true;
}

static void write_entry(ls_ptx *p) {
    const ls_kernel *k = p->kernel;
    for (int m = 0; m < k->n_mems; m++) {
        if (k->mems[m].space == LS_MEM_GLOBAL) {
            p->bases[m] = ls_ptx_new(p, LS_PTX_64);
            ls_ptx_line(p, "ld.param.u64 %s, [p%d];", ls_ptx_text(p, p->bases[m]), k->mems[m].binding);
            ls_ptx_1(p, "cvta.to.global.u64", p->bases[m], p->bases[m]);
        }
    }
    if (k->shared_bytes) {
        p->shared = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_line(p, "mov.u32 %s, shared;", ls_ptx_text(p, p->shared));
    }
    ls_ptx_fragment_entry(p);
}

static void write_module(ls_ptx *p, ls_text *out) {
    static const char *const files[] = {".pred %p", ".b16 %h", ".b32 %r", ".b64 %d"};
    const ls_kernel *k = p->kernel;
    int32_t words = ls_render_words(k);
    int align = k->n_products ? 1024 : 128;
    ls_ptx_map maps[2];
    ls_text_printf(out, ".version %d.%d\n.target sm_%d%s\n.address_size 64\n", p->options.isa / 10, p->options.isa % 10,
                   p->options.sm, k->n_products ? "a" : "");
    if (k->shared_bytes > STATIC_SHARED) {
        ls_text_printf(out, ".extern .shared .align %d .b8 shared[];\n", align);
    } else if (k->shared_bytes) {
        ls_text_printf(out, ".shared .align %d .b8 shared[%" PRId64 "];\n", align, k->shared_bytes);
    }
    ls_text_add(out, ".visible .entry main(");
    for (int b = 0; b < k->n_globals; b++) {
        ls_text_printf(out, "%s.param .u64 p%d", b ? ", " : "", b);
    }
    if (words) {
        ls_text_printf(out, "%s.param .align 4 .b8 words[%d]", k->n_globals ? ", " : "", 4 * words);
    }
    for (int i = 0, n = ls_ptx_product_maps(k, maps); i < n; i++) {
        ls_text_printf(out, ", .param .align 64 .b8 map%d[128]", i);
    }
    ls_text_printf(out, ")\n.reqntid %d, %d, %d\n{\n", k->workgroup[0], k->workgroup[1], k->workgroup[2]);
    for (int f = 0; f < LS_PTX_FILES; f++) {
        if (p->count[f]) {
            ls_text_printf(out, "  .reg %s<%d>;\n", files[f], p->count[f]);
        }
    }
    ls_text_add(out, p->body.data ? p->body.data : "");
    ls_text_add(out, "  ret;\n}\n");
}

ls_status ls_render_ptx(ls_text *out, const ls_kernel *kernel, const ls_ptx_options *options, ls_error *err) {
    ls_ptx p = {.kernel = kernel, .options = *options, .err = err, .status = LS_OK};
    ls_arena_init(&p.arena, out->heap);
    ls_text_init(&p.body, out->heap);
    if (!prepare(&p)) {
        ls_ptx_fail(&p, LS_ERR_MEMORY, "PTX", "out of memory for values");
    }
    if (p.status == LS_OK) {
        write_entry(&p);
    }
    for (ls_val at = 0; p.status == LS_OK && at < kernel->n_body; at++) {
        write_instruction(&p, at);
    }
    if (p.status == LS_OK) {
        write_module(&p, out);
        if (out->failed || p.body.failed) {
            ls_ptx_fail(&p, LS_ERR_MEMORY, "PTX", "out of memory for text");
        }
    }
    ls_text_free(&p.body);
    ls_ranges_destroy(p.ranges);
    ls_arena_free(&p.arena);
    return p.status;
}
