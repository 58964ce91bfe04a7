/* The builder. Invariant: while status is LS_OK every recorded instruction has passed its type rule. */
#include "kir/build.h"
#include "base/half.h"
#include <string.h>

void ls_kb_init(ls_kb *kb, ls_arena *arena, const char *name, ls_error *err) {
    *kb = (ls_kb){.arena = arena, .err = err, .status = LS_OK};
    kb->kernel.workgroup[0] = kb->kernel.workgroup[1] = kb->kernel.workgroup[2] = 1;
    for (int i = 0; i < 3; i++) {
        kb->kernel.grid[i] = (ls_kgrid){1, 1, LS_VAL_NONE};
    }
    kb->kernel.name = ls_arena_printf(arena, "%s", name);
    if (!kb->kernel.name) {
        kb->status = LS_FAIL_MEMORY(err, "a kernel's name");
    }
}

/* Makes room for one more element in an arena array; what it outgrows stays in the arena until that is freed. */
static bool grow(ls_kb *kb, void **data, int32_t *cap, int32_t len, size_t elem) {
    if (kb->status != LS_OK) {
        return false;
    }
    if (len < *cap) {
        return true;
    }
    int32_t want = *cap ? 2 * *cap : 64;
    size_t bytes;
    void *moved = len < INT32_MAX / 4 && ls_size_mul((size_t)want, elem, &bytes)
                      ? ls_arena_alloc(kb->arena, bytes)
                      : NULL;
    if (!moved) {
        kb->status = LS_FAIL_MEMORY(kb->err, kb->kernel.name);
        return false;
    }
    if (len) {
        memcpy(moved, *data, (size_t)len * elem);
    }
    *data = moved;
    *cap = want;
    return true;
}

static ls_val record(ls_kb *kb, ls_ins ins) {
    ls_kernel *k = &kb->kernel;
    if (!grow(kb, (void **)&k->body, &kb->cap_body, k->n_body, sizeof *k->body)) {
        return LS_VAL_NONE;
    }
    k->body[k->n_body] = ins;
    kb->status = ls_kir_check_types(k, k->n_body, kb->err);
    return kb->status == LS_OK ? k->n_body++ : LS_VAL_NONE;
}

static void misuse(ls_kb *kb, const char *what) {
    if (kb->status == LS_OK) {
        kb->status = LS_FAIL(kb->err, LS_ERR_INVALID, "kernel %s: after instruction %%%d: %s",
                             kb->kernel.name, kb->kernel.n_body - 1, what);
    }
}

/* The instruction of a source, or NULL, with an error when it must be there. */
static const ls_ins *source(ls_kb *kb, ls_val v, const char *what) {
    if (kb->status != LS_OK) {
        return NULL;
    }
    if (v < 0 || v >= kb->kernel.n_body) {
        misuse(kb, what);
        return NULL;
    }
    return &kb->kernel.body[v];
}

ls_status ls_kb_finish(ls_kb *kb, ls_kernel *out_kernel) {
    if (kb->status == LS_OK && kb->depth) {
        misuse(kb, "a loop or an if is still open at the end");
    }
    if (kb->status == LS_OK) {
        *out_kernel = kb->kernel;
    }
    return kb->status;
}

int ls_kb_param(ls_kb *kb, const char *name, ls_dtype dtype, int64_t lo, int64_t hi) {
    ls_kernel *k = &kb->kernel;
    if (!grow(kb, (void **)&k->params, &kb->cap_params, k->n_params, sizeof *k->params)) {
        return LS_VAL_NONE;
    }
    if (lo > hi && !ls_dtype_is_float(dtype)) {
        misuse(kb, "a parameter's range is empty");
        return LS_VAL_NONE;
    }
    const char *copy = ls_arena_printf(kb->arena, "%s", name);
    if (!copy) {
        kb->status = LS_FAIL_MEMORY(kb->err, "a parameter's name");
        return LS_VAL_NONE;
    }
    k->params[k->n_params] = (ls_kparam){copy, dtype, lo, hi};
    return k->n_params++;
}

static int mem_add(ls_kb *kb, const char *name, ls_kmem mem) {
    ls_kernel *k = &kb->kernel;
    if (!grow(kb, (void **)&k->mems, &kb->cap_mems, k->n_mems, sizeof *k->mems)) {
        return LS_VAL_NONE;
    }
    if (mem.count < 0 || mem.count_param >= k->n_params || !ls_dtype_size(mem.dtype)) {
        misuse(kb, "a memory's count, parameter or type is out of range");
        return LS_VAL_NONE;
    }
    mem.name = ls_arena_printf(kb->arena, "%s", name);
    if (!mem.name) {
        kb->status = LS_FAIL_MEMORY(kb->err, "a memory's name");
        return LS_VAL_NONE;
    }
    k->mems[k->n_mems] = mem;
    return k->n_mems++;
}

int ls_kb_global_sized(ls_kb *kb, const char *name, ls_dtype dtype, ls_mem_access access, int64_t count,
                       int param) {
    int n =
        mem_add(kb, name, (ls_kmem){NULL, LS_MEM_GLOBAL, access, dtype, count, param, kb->kernel.n_globals});
    kb->kernel.n_globals += n >= 0;
    return n;
}

int ls_kb_global(ls_kb *kb, const char *name, ls_dtype dtype, ls_mem_access access, int64_t count) {
    return ls_kb_global_sized(kb, name, dtype, access, count, LS_VAL_NONE);
}

int ls_kb_shared(ls_kb *kb, const char *name, ls_dtype dtype, int64_t count) {
    int64_t at = (kb->kernel.shared_bytes + 15) / 16 * 16; /* for loads of four lanes */
    if (count > (1 << 24)) {
        misuse(kb, "a shared array of more than 2^24 elements");
        return LS_VAL_NONE;
    }
    int n = mem_add(
        kb, name, (ls_kmem){NULL, LS_MEM_SHARED, LS_MEM_READ_WRITE, dtype, count, LS_VAL_NONE, (int32_t)at});
    if (n >= 0) {
        kb->kernel.shared_bytes = at + count * (int64_t)ls_dtype_size(dtype);
    }
    return n;
}

void ls_kb_workgroup(ls_kb *kb, int x, int y, int z) {
    if (x < 1 || y < 1 || z < 1 || x > 1024 || y > 1024 || z > 1024 || x * y * z > 1024) {
        misuse(kb, "a workgroup needs 1 to 1024 threads");
        return;
    }
    kb->kernel.workgroup[0] = x;
    kb->kernel.workgroup[1] = y;
    kb->kernel.workgroup[2] = z;
}

void ls_kb_grid(ls_kb *kb, int axis, int64_t scale, int param, int64_t divisor) {
    if (axis < 0 || axis > 2 || scale < 0 || divisor < 1 || param < LS_VAL_NONE ||
        param >= kb->kernel.n_params) {
        misuse(kb, "a grid axis, its scale, parameter or divisor is out of range");
        return;
    }
    kb->kernel.grid[axis] = (ls_kgrid){scale, divisor, param};
}

/* ---- leaves ---- */

static ls_val leaf(ls_kb *kb, ls_kop op, ls_dtype dtype, int64_t arg) {
    return record(kb, (ls_ins){op, dtype, 1, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, arg});
}

ls_val ls_kb_const_bits(ls_kb *kb, ls_dtype dtype, uint64_t bits) {
    return leaf(kb, LS_K_CONST, dtype, (int64_t)ls_kir_wrap(dtype, bits));
}

ls_val ls_kb_const_int(ls_kb *kb, ls_dtype dtype, int64_t value) {
    if (ls_dtype_is_float(dtype)) {
        misuse(kb, "an integer constant of a float type");
        return LS_VAL_NONE;
    }
    return ls_kb_const_bits(kb, dtype, dtype == LS_BOOL ? value != 0 : (uint64_t)value);
}

ls_val ls_kb_const_float(ls_kb *kb, ls_dtype dtype, double value) {
    if (!ls_dtype_is_float(dtype)) {
        misuse(kb, "a float constant of another type");
        return LS_VAL_NONE;
    }
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return ls_kb_const_bits(kb, dtype,
                            ls_kir_eval(LS_K_CAST, dtype, LS_F64, (const uint64_t[3]){bits, 0, 0}));
}

ls_val ls_kb_get_param(ls_kb *kb, int param) {
    if (param < 0 || param >= kb->kernel.n_params) {
        misuse(kb, "no such parameter");
        return LS_VAL_NONE;
    }
    return leaf(kb, LS_K_PARAM, kb->kernel.params[param].dtype, param);
}

ls_val ls_kb_group_id(ls_kb *kb, int axis) {
    return leaf(kb, LS_K_GROUP_ID, LS_I32, axis);
}

ls_val ls_kb_local_id(ls_kb *kb, int axis) {
    return leaf(kb, LS_K_LOCAL_ID, LS_I32, axis);
}

ls_val ls_kb_subgroup_id(ls_kb *kb) {
    return leaf(kb, LS_K_SUBGROUP_ID, LS_I32, 0);
}

ls_val ls_kb_lane_id(ls_kb *kb) {
    return leaf(kb, LS_K_LANE_ID, LS_I32, 0);
}

ls_val ls_kb_subgroup_size(ls_kb *kb) {
    return leaf(kb, LS_K_SUBGROUP_SIZE, LS_I32, 0);
}

/* ---- control ---- */

static void block_open(ls_kb *kb, ls_val at) {
    if (kb->status == LS_OK && kb->depth == (int32_t)(sizeof kb->open / sizeof *kb->open)) {
        misuse(kb, "blocks are nested too deeply");
    }
    if (kb->status == LS_OK) {
        kb->open[kb->depth++] = at;
    }
}

static void block_close(ls_kb *kb, ls_kop closer, ls_kop opener, ls_kop other) {
    ls_kop open =
        kb->status == LS_OK && kb->depth ? (ls_kop)kb->kernel.body[kb->open[kb->depth - 1]].op : LS_K_COUNT;
    if (open != opener && open != other) {
        misuse(kb, closer == LS_K_END_LOOP ? "end_loop without its loop"
                   : closer == LS_K_ELSE   ? "else without its if"
                                           : "end_if without its if");
        return;
    }
    kb->depth--;
    ls_val at = record(kb, (ls_ins){closer, 0, 0, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, 0});
    if (closer == LS_K_ELSE) {
        block_open(kb, at);
    }
}

ls_val ls_kb_loop(ls_kb *kb, ls_val lo, ls_val hi, ls_val step, uint32_t flags) {
    const ls_ins *first = source(kb, lo, "a loop without its first bound");
    if (!first) {
        return LS_VAL_NONE;
    }
    ls_val at = record(kb, (ls_ins){LS_K_LOOP, first->dtype, 1, flags, {lo, hi, step}, 0});
    block_open(kb, at);
    return at;
}

void ls_kb_end_loop(ls_kb *kb) {
    block_close(kb, LS_K_END_LOOP, LS_K_LOOP, LS_K_LOOP);
}

void ls_kb_if(ls_kb *kb, ls_val condition) {
    block_open(kb, record(kb, (ls_ins){LS_K_IF, 0, 0, 0, {condition, LS_VAL_NONE, LS_VAL_NONE}, 0}));
}

void ls_kb_else(ls_kb *kb) {
    block_close(kb, LS_K_ELSE, LS_K_IF, LS_K_IF);
}

void ls_kb_end_if(ls_kb *kb) {
    block_close(kb, LS_K_END_IF, LS_K_IF, LS_K_ELSE);
}

ls_val ls_kb_var(ls_kb *kb, ls_val init) {
    const ls_ins *s = source(kb, init, "a variable without its first value");
    return !s ? LS_VAL_NONE
              : record(kb, (ls_ins){LS_K_VAR,
                                    s->dtype,
                                    s->lanes,
                                    s->flags & (s->lanes == LS_LANES_FRAG ? LS_KF_FRAG_TYPE : 0),
                                    {init, LS_VAL_NONE, LS_VAL_NONE},
                                    0});
}

ls_val ls_kb_get(ls_kb *kb, ls_val var) {
    const ls_ins *s = source(kb, var, "get without a variable");
    return !s ? LS_VAL_NONE
              : record(kb,
                       (ls_ins){LS_K_GET, s->dtype, s->lanes, s->flags, {var, LS_VAL_NONE, LS_VAL_NONE}, 0});
}

void ls_kb_set(ls_kb *kb, ls_val var, ls_val value) {
    record(kb, (ls_ins){LS_K_SET, 0, 0, 0, {var, value, LS_VAL_NONE}, 0});
}

/* ---- memory ---- */

static const ls_kmem *memory(ls_kb *kb, int mem) {
    if (kb->status == LS_OK && (mem < 0 || mem >= kb->kernel.n_mems)) {
        misuse(kb, "no such memory");
    }
    return kb->status == LS_OK ? &kb->kernel.mems[mem] : NULL;
}

ls_val ls_kb_load(ls_kb *kb, int mem, ls_val index, ls_val pred, ls_val otherwise, int lanes) {
    const ls_kmem *m = memory(kb, mem);
    return !m ? LS_VAL_NONE
              : record(kb, (ls_ins){LS_K_LOAD, m->dtype, (uint8_t)lanes, 0, {index, pred, otherwise}, mem});
}

void ls_kb_store(ls_kb *kb, int mem, ls_val index, ls_val value, ls_val pred) {
    const ls_kmem *m = memory(kb, mem);
    if (m) {
        record(kb, (ls_ins){LS_K_STORE, m->dtype, 0, 0, {index, value, pred}, mem});
    }
}

ls_val ls_kb_atomic(ls_kb *kb, ls_kop op, int mem, ls_val index, ls_val value, ls_val pred) {
    const ls_kmem *m = memory(kb, mem);
    return !m ? LS_VAL_NONE : record(kb, (ls_ins){op, m->dtype, 1, 0, {index, value, pred}, mem});
}

/* ---- threads together ---- */

void ls_kb_barrier(ls_kb *kb) {
    record(kb, (ls_ins){LS_K_BARRIER, 0, 0, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, 0});
}

/* An instruction whose result has the type of its first source. */
static ls_val like(ls_kb *kb, ls_kop op, ls_val a, ls_val b, ls_val c, uint32_t flags, int64_t arg) {
    const ls_ins *s = source(kb, a, "an instruction without its first operand");
    return !s ? LS_VAL_NONE : record(kb, (ls_ins){op, s->dtype, s->lanes, flags, {a, b, c}, arg});
}

ls_val ls_kb_shuffle(ls_kb *kb, ls_val value, ls_val lane) {
    return like(kb, LS_K_SHUFFLE, value, lane, LS_VAL_NONE, 0, 0);
}

ls_val ls_kb_shuffle_xor(ls_kb *kb, ls_val value, int mask) {
    return like(kb, LS_K_SHUFFLE_XOR, value, LS_VAL_NONE, LS_VAL_NONE, 0, mask);
}

ls_val ls_kb_subgroup(ls_kb *kb, ls_kop op, ls_val value, uint32_t flags) {
    return like(kb, op, value, LS_VAL_NONE, LS_VAL_NONE, flags, 0);
}

/* ---- pure ---- */

/* The result's type, for each rule that ls_kb_pure may meet. */
#define RESULT_COMPARE 1
#define RESULT_SELECT 2

ls_val ls_kb_pure(ls_kb *kb, ls_kop op, ls_val a, ls_val b, ls_val c, uint32_t flags) {
    static const uint8_t result[LS_K_COUNT] = {
        [LS_K_EQ] = RESULT_COMPARE, [LS_K_NE] = RESULT_COMPARE,    [LS_K_LT] = RESULT_COMPARE,
        [LS_K_LE] = RESULT_COMPARE, [LS_K_SELECT] = RESULT_SELECT,
    };
    const ls_val given[3] = {a, b, c};
    for (int i = 0; i < ls_kops[op].sources; i++) {
        if (!source(kb, given[i], "an instruction without one of its operands")) {
            return LS_VAL_NONE;
        }
    }
    if (result[op] == RESULT_COMPARE) {
        return record(kb, (ls_ins){op, LS_BOOL, kb->kernel.body[a].lanes, flags, {a, b, c}, 0});
    }
    if (result[op] == RESULT_SELECT) {
        const ls_ins *s = &kb->kernel.body[b];
        return record(kb, (ls_ins){op, s->dtype, s->lanes, flags, {a, b, c}, 0});
    }
    return like(kb, op, a, b, c, flags, 0);
}

ls_val ls_kb_cast(ls_kb *kb, ls_val value, ls_dtype dtype) {
    const ls_ins *s = source(kb, value, "a cast of nothing");
    if (!s || s->dtype == dtype) {
        return s ? value : LS_VAL_NONE;
    }
    return record(kb, (ls_ins){LS_K_CAST, dtype, s->lanes, 0, {value, LS_VAL_NONE, LS_VAL_NONE}, 0});
}

ls_val ls_kb_bitcast(ls_kb *kb, ls_val value, ls_dtype dtype) {
    const ls_ins *s = source(kb, value, "a bitcast of nothing");
    if (!s || s->dtype == dtype) {
        return s ? value : LS_VAL_NONE;
    }
    return record(kb, (ls_ins){LS_K_BITCAST, dtype, s->lanes, 0, {value, LS_VAL_NONE, LS_VAL_NONE}, 0});
}

/* ---- lanes ---- */

ls_val ls_kb_splat(ls_kb *kb, ls_val scalar, int lanes) {
    const ls_ins *s = source(kb, scalar, "a splat of nothing");
    if (!s || lanes == 1) {
        return s ? scalar : LS_VAL_NONE;
    }
    return record(kb,
                  (ls_ins){LS_K_SPLAT, s->dtype, (uint8_t)lanes, 0, {scalar, LS_VAL_NONE, LS_VAL_NONE}, 0});
}

ls_val ls_kb_join(ls_kb *kb, ls_val a, ls_val b) {
    const ls_ins *s = source(kb, a, "a join of nothing");
    return !s ? LS_VAL_NONE
              : record(kb, (ls_ins){LS_K_JOIN, s->dtype, (uint8_t)(2 * s->lanes), 0, {a, b, LS_VAL_NONE}, 0});
}

ls_val ls_kb_extract(ls_kb *kb, ls_val vector, int lane) {
    const ls_ins *s = source(kb, vector, "an extract from nothing");
    if (s && s->lanes == 1 && lane == 0) {
        return vector;
    }
    return !s ? LS_VAL_NONE
              : record(kb, (ls_ins){LS_K_EXTRACT, s->dtype, 1, 0, {vector, LS_VAL_NONE, LS_VAL_NONE}, lane});
}

ls_val ls_kb_insert(ls_kb *kb, ls_val vector, ls_val scalar, int lane) {
    return like(kb, LS_K_INSERT, vector, scalar, LS_VAL_NONE, 0, lane);
}

/* ---- fragments ---- */

ls_val ls_kb_frag_fill(ls_kb *kb, ls_val scalar, uint32_t frag) {
    const ls_ins *s = source(kb, scalar, "a fragment of nothing");
    return !s ? LS_VAL_NONE
              : record(kb, (ls_ins){LS_K_FRAG_FILL,
                                    s->dtype,
                                    LS_LANES_FRAG,
                                    frag,
                                    {scalar, LS_VAL_NONE, LS_VAL_NONE},
                                    0});
}

ls_val ls_kb_frag_load_as(ls_kb *kb, int mem, ls_dtype dtype, ls_val index, ls_val stride, uint32_t frag) {
    const ls_kmem *m = memory(kb, mem);
    return !m ? LS_VAL_NONE
              : record(kb, (ls_ins){LS_K_FRAG_LOAD, (uint8_t)dtype, LS_LANES_FRAG, frag, {index, stride, LS_VAL_NONE}, mem});
}

ls_val ls_kb_frag_load(ls_kb *kb, int mem, ls_val index, ls_val stride, uint32_t frag) {
    const ls_kmem *m = memory(kb, mem);
    return !m ? LS_VAL_NONE : ls_kb_frag_load_as(kb, mem, m->dtype, index, stride, frag);
}

ls_val ls_kb_frag_mma(ls_kb *kb, ls_val a, ls_val b, ls_val c) {
    const ls_ins *s = source(kb, c, "a matrix product without C");
    return !s ? LS_VAL_NONE
              : record(kb,
                       (ls_ins){
                           LS_K_FRAG_MMA, s->dtype, LS_LANES_FRAG, s->flags & LS_KF_FRAG_TYPE, {a, b, c}, 0});
}

void ls_kb_frag_store(ls_kb *kb, int mem, ls_val index, ls_val fragment, ls_val stride, uint32_t layout) {
    const ls_kmem *m = memory(kb, mem);
    if (m) {
        record(kb, (ls_ins){LS_K_FRAG_STORE, m->dtype, 0, layout, {index, fragment, stride}, mem});
    }
}

void ls_kb_product(ls_kb *kb, const ls_kproduct *product, ls_val a, ls_val b) {
    ls_kernel *k = &kb->kernel;
    if (grow(kb, (void **)&k->products, &kb->cap_products, k->n_products, sizeof *k->products)) {
        k->products[k->n_products++] = *product;
        record(kb, (ls_ins){LS_K_PRODUCT, LS_F32, 0, 0, {a, b, LS_VAL_NONE}, k->n_products - 1});
    }
}
