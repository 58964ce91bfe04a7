/* The builder of kernel bodies. Nothing is folded while building: what is asked for is what is recorded (ls_kernel_simplify
 * folds). Each call checks the types of its operands. The first failure is recorded in `err`; from then on every call
 * does nothing and gives LS_VAL_NONE, as does a call with LS_VAL_NONE for an operand that must be there. So a caller
 * checks once, at ls_kb_finish. One thread at a time.
 *
 *   ls_kb kb;
 *   ls_kb_init(&kb, arena, "double", err);
 *   int n = ls_kb_param(&kb, "n", LS_I32, 1, 1000);
 *   int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ_WRITE, 1000);
 *   ls_kb_workgroup(&kb, 256, 1, 1);
 *   ls_kb_grid(&kb, 0, 1, n, 256);
 *   ls_val i = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, 256)), ls_kb_local_id(&kb, 0));
 *   ls_val in = ls_kb_lt(&kb, i, ls_kb_get_param(&kb, n));
 *   ls_val v = ls_kb_load(&kb, x, i, in, ls_kb_f32(&kb, 0), 1);
 *   ls_kb_store(&kb, x, i, ls_kb_add(&kb, v, v), in);
 *   ls_kernel kernel;
 *   ls_status status = ls_kb_finish(&kb, &kernel);
 */
#ifndef LOCKSTEP_KIR_BUILD_H
#define LOCKSTEP_KIR_BUILD_H

#include "kir/kir.h"

typedef struct ls_kb {
    ls_arena *arena;
    ls_error *err;
    ls_status status;
    ls_kernel kernel;
    int32_t cap_body, cap_mems, cap_params, cap_products, depth;
    ls_val open[64]; /* blocks that are open: the LOOP, IF or ELSE */
} ls_kb;

void ls_kb_init(ls_kb *kb, ls_arena *arena, const char *name, ls_error *err);
/* Hands the kernel over; an error when a call failed or a block is open. It does not verify (ls_kernel_verify). */
ls_status ls_kb_finish(ls_kb *kb, ls_kernel *out_kernel) LS_MUST_USE;
static inline bool ls_kb_failed(const ls_kb *kb) {
    return kb->status != LS_OK;
}

/* ---- declarations: give numbers (LS_VAL_NONE on failure). Names are copied. ---- */
int ls_kb_param(ls_kb *kb, const char *name, ls_dtype dtype, int64_t lo, int64_t hi);
int ls_kb_global(ls_kb *kb, const char *name, ls_dtype dtype, ls_mem_access access, int64_t count);
/* A global whose element count is count times the value of a parameter. */
int ls_kb_global_sized(ls_kb *kb, const char *name, ls_dtype dtype, ls_mem_access access, int64_t count, int param);
int ls_kb_shared(ls_kb *kb, const char *name, ls_dtype dtype, int64_t count);
void ls_kb_workgroup(ls_kb *kb, int x, int y, int z);
/* Grid axis 0..2 has ceil(scale * param / divisor) workgroups; param LS_VAL_NONE: ceil(scale / divisor). */
void ls_kb_grid(ls_kb *kb, int axis, int64_t scale, int param, int64_t divisor);

/* ---- leaves ---- */
ls_val ls_kb_const_bits(ls_kb *kb, ls_dtype dtype, uint64_t bits);
ls_val ls_kb_const_int(ls_kb *kb, ls_dtype dtype, int64_t value);    /* an integer or bool type */
ls_val ls_kb_const_float(ls_kb *kb, ls_dtype dtype, double value);   /* rounded once to a float type */
static inline ls_val ls_kb_i32(ls_kb *kb, int32_t value) {
    return ls_kb_const_int(kb, LS_I32, value);
}
static inline ls_val ls_kb_i64(ls_kb *kb, int64_t value) {
    return ls_kb_const_int(kb, LS_I64, value);
}
static inline ls_val ls_kb_u32(ls_kb *kb, uint32_t value) {
    return ls_kb_const_int(kb, LS_U32, value);
}
static inline ls_val ls_kb_f32(ls_kb *kb, float value) {
    return ls_kb_const_float(kb, LS_F32, (double)value);
}
ls_val ls_kb_get_param(ls_kb *kb, int param);
ls_val ls_kb_group_id(ls_kb *kb, int axis);
ls_val ls_kb_local_id(ls_kb *kb, int axis);
ls_val ls_kb_subgroup_id(ls_kb *kb);
ls_val ls_kb_lane_id(ls_kb *kb);
ls_val ls_kb_subgroup_size(ls_kb *kb);

/* ---- control ---- */
ls_val ls_kb_loop(ls_kb *kb, ls_val lo, ls_val hi, ls_val step, uint32_t flags); /* the running index */
void ls_kb_end_loop(ls_kb *kb);
void ls_kb_if(ls_kb *kb, ls_val condition);
void ls_kb_else(ls_kb *kb);
void ls_kb_end_if(ls_kb *kb);
ls_val ls_kb_var(ls_kb *kb, ls_val init);
ls_val ls_kb_get(ls_kb *kb, ls_val var);
void ls_kb_set(ls_kb *kb, ls_val var, ls_val value);

/* ---- memory: pred may be LS_VAL_NONE (always); a load with a predicate needs an else-value. ---- */
ls_val ls_kb_load(ls_kb *kb, int mem, ls_val index, ls_val pred, ls_val otherwise, int lanes);
void ls_kb_store(ls_kb *kb, int mem, ls_val index, ls_val value, ls_val pred);
ls_val ls_kb_atomic(ls_kb *kb, ls_kop op, int mem, ls_val index, ls_val value, ls_val pred);

/* ---- threads together ---- */
void ls_kb_barrier(ls_kb *kb);
ls_val ls_kb_shuffle(ls_kb *kb, ls_val value, ls_val lane);
ls_val ls_kb_shuffle_xor(ls_kb *kb, ls_val value, int mask);
ls_val ls_kb_subgroup(ls_kb *kb, ls_kop op, ls_val value, uint32_t flags); /* SUBGROUP_ADD, _MIN, _MAX */

/* ---- pure: any row of class PURE but the casts; unused operands are LS_VAL_NONE. The result's type follows. ---- */
ls_val ls_kb_pure(ls_kb *kb, ls_kop op, ls_val a, ls_val b, ls_val c, uint32_t flags);
ls_val ls_kb_cast(ls_kb *kb, ls_val value, ls_dtype dtype);    /* `value` itself when it has that type */
ls_val ls_kb_bitcast(ls_kb *kb, ls_val value, ls_dtype dtype);

/* One function a row: ls_kb_add(kb, a, b), ls_kb_sqrt(kb, a), ls_kb_select(kb, c, a, b), ... */
#define LS_KB_FN_1(ID, fn)                              \
    static inline ls_val fn(ls_kb *kb, ls_val a) {      \
        return ls_kb_pure(kb, LS_K_##ID, a, LS_VAL_NONE, LS_VAL_NONE, 0); \
    }
#define LS_KB_FN_2(ID, fn)                                   \
    static inline ls_val fn(ls_kb *kb, ls_val a, ls_val b) { \
        return ls_kb_pure(kb, LS_K_##ID, a, b, LS_VAL_NONE, 0); \
    }
#define LS_KB_FN_3(ID, fn)                                             \
    static inline ls_val fn(ls_kb *kb, ls_val a, ls_val b, ls_val c) { \
        return ls_kb_pure(kb, LS_K_##ID, a, b, c, 0);                  \
    }
#define LS_KB_RULE_NUM(n, ID, fn) LS_KB_FN_##n(ID, fn)
#define LS_KB_RULE_FLOAT(n, ID, fn) LS_KB_FN_##n(ID, fn)
#define LS_KB_RULE_INT(n, ID, fn) LS_KB_FN_##n(ID, fn)
#define LS_KB_RULE_INTEGER(n, ID, fn) LS_KB_FN_##n(ID, fn)
#define LS_KB_RULE_WORD(n, ID, fn) LS_KB_FN_##n(ID, fn)
#define LS_KB_RULE_COMPARE(n, ID, fn) LS_KB_FN_##n(ID, fn)
#define LS_KB_RULE_SELECT(n, ID, fn) LS_KB_FN_##n(ID, fn)
#define LS_KB_RULE_CAST(n, ID, fn)
#define LS_KB_RULE_BITCAST(n, ID, fn)
#define LS_KB_CLASS_PURE(n, ID, rule, fn) LS_KB_RULE_##rule(n, ID, fn)
#define LS_KB_CLASS_CONTROL(n, ID, rule, fn)
#define LS_KB_CLASS_LEAF(n, ID, rule, fn)
#define LS_KB_CLASS_VECTOR(n, ID, rule, fn)
#define LS_KB_CLASS_MEMORY(n, ID, rule, fn)
#define LS_KB_CLASS_GROUP(n, ID, rule, fn)
#define LS_KB_CLASS_MATRIX(n, ID, rule, fn)
#define INS(ID, name, class, rule, sources, doc) LS_KB_CLASS_##class(sources, ID, rule, ls_kb_##name)
#include "kir/ins.def"
#undef INS

/* ---- lanes ---- */
ls_val ls_kb_splat(ls_kb *kb, ls_val scalar, int lanes);
ls_val ls_kb_join(ls_kb *kb, ls_val a, ls_val b);
ls_val ls_kb_extract(ls_kb *kb, ls_val vector, int lane);
ls_val ls_kb_insert(ls_kb *kb, ls_val vector, ls_val scalar, int lane);

/* ---- fragments ---- */
ls_val ls_kb_frag_fill(ls_kb *kb, ls_val scalar, uint32_t frag);
ls_val ls_kb_frag_load(ls_kb *kb, int mem, ls_val index, ls_val stride, uint32_t frag);
/* From u32 words that hold two f16 or bf16 each; index and stride count halves. */
ls_val ls_kb_frag_load_as(ls_kb *kb, int mem, ls_dtype dtype, ls_val index, ls_val stride, uint32_t frag);
ls_val ls_kb_frag_mma(ls_kb *kb, ls_val a, ls_val b, ls_val c);
void ls_kb_frag_store(ls_kb *kb, int mem, ls_val index, ls_val fragment, ls_val stride, uint32_t layout);

/* ---- a whole product: A from half `a` on, B from half `b` on ---- */
void ls_kb_product(ls_kb *kb, const ls_kproduct *product, ls_val a, ls_val b);

#endif
