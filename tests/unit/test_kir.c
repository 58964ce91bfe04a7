/* KIR: the builder, type rules, verifier and printer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "kir_fixture.h"
#include "kir_samples.h"
#include <math.h>
#include <stdio.h>

static void assert_fails(ls_status status, const char *part) {
    assert_int_not_equal(status, LS_OK);
    if (!strstr(err.message, part)) {
        print_error("'%s' is not in '%s'\n", part, err.message);
    }
    assert_non_null(strstr(err.message, part));
    ls_error_clear(&err);
}

/* A kernel of 64 threads in 4 workgroups over x: f32[256], with a shared array and an i32 parameter n in [0, 256]. */
typedef struct bench {
    ls_kb kb;
    int x, t, n;
    ls_val lid, i, f;
} bench;

static bench begin(void) {
    bench b;
    ls_kb_init(&b.kb, &arena, "k", &err);
    b.n = ls_kb_param(&b.kb, "n", LS_I32, 0, 256);
    b.x = ls_kb_global(&b.kb, "x", LS_F32, LS_MEM_READ_WRITE, 256);
    b.t = ls_kb_shared(&b.kb, "t", LS_F32, 64);
    ls_kb_workgroup(&b.kb, 64, 1, 1);
    ls_kb_grid(&b.kb, 0, 4, LS_VAL_NONE, 1);
    b.lid = ls_kb_local_id(&b.kb, 0);
    ls_val group = ls_kb_group_id(&b.kb, 0), width = ls_kb_i32(&b.kb, 64); /* C does not order arguments */
    b.i = ls_kb_add(&b.kb, ls_kb_mul(&b.kb, group, width), b.lid);
    b.f = ls_kb_f32(&b.kb, 1);
    return b;
}

static ls_status verify(bench *b) {
    ls_kernel k;
    ls_status status = ls_kb_finish(&b->kb, &k);
    return status == LS_OK ? ls_kernel_verify(&heap, &k, &err) : status;
}

/* ---- builder ---- */

static void builder_keeps_the_first_error(void **state) {
    (void)state;
    bench b = begin();
    int32_t before = b.kb.kernel.n_body;
    assert_int_equal(ls_kb_add(&b.kb, b.lid, b.f), LS_VAL_NONE);
    char first[LS_MESSAGE_MAX];
    strcpy(first, err.message);
    assert_non_null(strstr(first, "kernel k: instruction %"));
    assert_non_null(strstr(first, "(add of i32 x1): expected numbers, all of the result's type"));
    /* everything after it does nothing */
    ls_val v = ls_kb_mul(&b.kb, b.f, LS_VAL_NONE);
    assert_int_equal(v, LS_VAL_NONE);
    ls_kb_store(&b.kb, b.x, b.i, v, LS_VAL_NONE);
    ls_kb_store(&b.kb, 77, b.i, v, LS_VAL_NONE);
    ls_kb_if(&b.kb, v);
    ls_kb_end_loop(&b.kb);
    ls_kb_end_if(&b.kb);
    assert_int_equal(ls_kb_loop(&b.kb, v, v, v, 0), LS_VAL_NONE);
    assert_int_equal(ls_kb_cast(&b.kb, v, LS_F16), LS_VAL_NONE);
    assert_int_equal(ls_kb_load(&b.kb, b.x, b.i, LS_VAL_NONE, LS_VAL_NONE, 1), LS_VAL_NONE);
    assert_int_equal(ls_kb_global(&b.kb, "z", LS_F32, LS_MEM_READ, 1), LS_VAL_NONE);
    assert_int_equal(b.kb.kernel.n_body, before);
    assert_true(ls_kb_failed(&b.kb));
    ls_kernel k;
    assert_int_equal(ls_kb_finish(&b.kb, &k), LS_ERR_DTYPE);
    assert_string_equal(err.message, first);
}

typedef void (*misuse_fn)(bench *b);
static void m_open_if(bench *b) {
    ls_kb_if(&b->kb, ls_kb_lt(&b->kb, b->lid, b->i));
}
static void m_end_loop(bench *b) {
    m_open_if(b);
    ls_kb_end_loop(&b->kb);
}
static void m_else(bench *b) {
    ls_kb_else(&b->kb);
}
static void m_two_elses(bench *b) {
    m_open_if(b);
    ls_kb_else(&b->kb);
    ls_kb_else(&b->kb);
}
static void m_none(bench *b) {
    ls_kb_sqrt(&b->kb, LS_VAL_NONE);
}
static void m_memory(bench *b) {
    ls_kb_load(&b->kb, 9, b->i, LS_VAL_NONE, LS_VAL_NONE, 1);
}
static void m_else_value(bench *b) {
    ls_kb_load(&b->kb, b->x, b->i, ls_kb_lt(&b->kb, b->i, b->lid), LS_VAL_NONE, 1);
}
static void m_float_index(bench *b) {
    ls_kb_load(&b->kb, b->x, b->f, LS_VAL_NONE, LS_VAL_NONE, 1);
}
static void m_three_lanes(bench *b) {
    ls_kb_splat(&b->kb, b->f, 3);
}
static void m_lane(bench *b) {
    ls_kb_extract(&b->kb, ls_kb_splat(&b->kb, b->f, 4), 4);
}
static void m_bool_sum(bench *b) {
    ls_val c = ls_kb_lt(&b->kb, b->i, b->lid);
    ls_kb_add(&b->kb, c, c);
}
static void m_int_sqrt(bench *b) {
    ls_kb_sqrt(&b->kb, b->i);
}
static void m_bitcast(bench *b) {
    ls_kb_bitcast(&b->kb, b->f, LS_U64);
}
static void m_float_atomic(bench *b) {
    ls_kb_atomic(&b->kb, LS_K_ATOMIC_ADD, b->x, b->i, b->f, LS_VAL_NONE);
}
static void m_subgroup_float(bench *b) {
    ls_kb_subgroup(&b->kb, LS_K_SUBGROUP_ADD, b->f, 0);
}
static void m_set_type(bench *b) {
    ls_kb_set(&b->kb, ls_kb_var(&b->kb, b->f), b->i);
}
static void m_var_as_value(bench *b) {
    ls_val v = ls_kb_var(&b->kb, b->f);
    ls_kb_add(&b->kb, v, v);
}
static void m_workgroup(bench *b) {
    ls_kb_workgroup(&b->kb, 64, 64, 1);
}
static void m_const(bench *b) {
    ls_kb_const_int(&b->kb, LS_F32, 1);
}
static void m_umulhi(bench *b) {
    ls_kb_umulhi(&b->kb, b->i, b->i);
}
static void m_fragment(bench *b) {
    ls_val a = ls_kb_frag_fill(&b->kb, b->f, LS_KF_FRAG(LS_FRAG_A, 8, 8, 8));
    ls_val c = ls_kb_frag_fill(&b->kb, b->f, LS_KF_FRAG(LS_FRAG_C, 8, 8, 8));
    ls_kb_frag_mma(&b->kb, a, a, c);
}

static void builder_refuses_misuse(void **state) {
    (void)state;
    static const struct {
        misuse_fn fn;
        const char *part;
    } cases[] = {
        {m_open_if, "still open"},
        {m_end_loop, "end_loop without its loop"},
        {m_else, "else without its if"},
        {m_two_elses, "else without its if"},
        {m_none, "without one of its operands"},
        {m_memory, "no such memory"},
        {m_else_value, "a predicate and an else-value, or neither"},
        {m_float_index, "an index and the memory's type"},
        {m_three_lanes, "(splat of f32 x3)"},
        {m_lane, "a lane that the source has"},
        {m_bool_sum, "expected numbers"},
        {m_int_sqrt, "expected floats"},
        {m_bitcast, "types of one size"},
        {m_float_atomic, "32- or 64-bit integers"},
        {m_subgroup_float, "the fast flag for a sum of floats"},
        {m_set_type, "a value of its type"},
        {m_var_as_value, "has no value"},
        {m_workgroup, "1 to 1024 threads"},
        {m_const, "an integer constant of a float type"},
        {m_umulhi, "u32 or u64"},
        {m_fragment, "A, B and C of one shape"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b = begin();
        cases[i].fn(&b);
        assert_fails(verify(&b), cases[i].part);
    }
}

/* ---- verifier ---- */

static ls_val load(bench *b, int mem, ls_val index, ls_val pred) {
    return ls_kb_load(&b->kb, mem, index, pred, pred < 0 ? LS_VAL_NONE : b->f, 1);
}
static ls_val plus(bench *b, ls_val v, int c) {
    return ls_kb_add(&b->kb, v, ls_kb_i32(&b->kb, c));
}
static ls_val times(bench *b, ls_val v, int c) {
    return ls_kb_mul(&b->kb, v, ls_kb_i32(&b->kb, c));
}
static ls_val below(bench *b, ls_val v, int c) {
    return ls_kb_lt(&b->kb, v, ls_kb_i32(&b->kb, c));
}

static void v_exact(bench *b) {
    load(b, b->x, b->i, LS_VAL_NONE);
}
static void v_past_end(bench *b) {
    load(b, b->x, plus(b, b->i, 1), LS_VAL_NONE);
}
static void v_negative(bench *b) {
    load(b, b->x, plus(b, b->i, -1), LS_VAL_NONE);
}
static void v_pred(bench *b) {
    ls_val at = plus(b, b->i, 1);
    load(b, b->x, at, below(b, at, 256));
}
static void v_pred_off_by_one(bench *b) {
    ls_val at = plus(b, b->i, 1);
    load(b, b->x, at, below(b, at, 257));
}
static void v_pred_le(bench *b) {
    ls_val at = plus(b, b->i, 1);
    load(b, b->x, at, ls_kb_le(&b->kb, at, ls_kb_i32(&b->kb, 255)));
}
static void v_pred_of_part(bench *b) { /* 0 <= i - 3 and i - 3 + 10 < 256 */
    ls_val at = plus(b, b->i, -3);
    ls_val low = ls_kb_le(&b->kb, ls_kb_i32(&b->kb, 0), at), high = below(b, at, 246);
    load(b, b->x, plus(b, at, 10), ls_kb_and(&b->kb, low, high));
}
static void v_pred_one_side(bench *b) {
    ls_val at = plus(b, b->i, -3);
    load(b, b->x, at, below(b, at, 256));
}
static void v_pred_or(bench *b) {
    ls_val at = plus(b, b->i, 1);
    load(b, b->x, at, ls_kb_or(&b->kb, below(b, at, 256), below(b, b->lid, 3)));
}
static void v_pred_not(bench *b) {
    ls_val at = plus(b, b->i, 1);
    load(b, b->x, at, ls_kb_not(&b->kb, ls_kb_le(&b->kb, ls_kb_i32(&b->kb, 256), at)));
}
static void v_param(bench *b) {
    load(b, b->x, b->i, ls_kb_lt(&b->kb, b->i, ls_kb_get_param(&b->kb, b->n)));
    load(b, b->x, plus(b, b->i, 40), ls_kb_lt(&b->kb, plus(b, b->i, 40), ls_kb_get_param(&b->kb, b->n)));
}
static void v_if(bench *b) {
    ls_kb_if(&b->kb, below(b, times(b, b->i, 2), 256));
    load(b, b->x, times(b, b->i, 2), LS_VAL_NONE);
    ls_kb_end_if(&b->kb);
}
static void v_if_known_by_value(bench *b) {
    ls_val at = times(b, b->i, 2);
    ls_kb_if(&b->kb, below(b, at, 256));
    load(b, b->x, plus(b, at, 1), LS_VAL_NONE); /* at is even, so at + 1 <= 255 */
    ls_kb_else(&b->kb);
    load(b, b->x, plus(b, at, -256), LS_VAL_NONE);
    ls_kb_end_if(&b->kb);
}
static void v_after_if(bench *b) {
    ls_val at = plus(b, b->i, 1);
    ls_kb_if(&b->kb, below(b, at, 256));
    ls_kb_end_if(&b->kb);
    load(b, b->x, at, LS_VAL_NONE);
}
static void v_divisions(bench *b) {
    load(b, b->t, ls_kb_div(&b->kb, b->i, ls_kb_i32(&b->kb, 4)), LS_VAL_NONE);
    load(b, b->t, ls_kb_rem(&b->kb, times(b, b->i, 7), ls_kb_i32(&b->kb, 64)), LS_VAL_NONE);
    load(b, b->t, ls_kb_and(&b->kb, b->i, ls_kb_i32(&b->kb, 63)), LS_VAL_NONE);
    load(b, b->t, ls_kb_shr(&b->kb, b->i, ls_kb_i32(&b->kb, 2)), LS_VAL_NONE);
    load(b, b->t, ls_kb_min(&b->kb, b->i, ls_kb_i32(&b->kb, 63)), LS_VAL_NONE);
    load(b, b->t, ls_kb_xor(&b->kb, b->lid, ls_kb_i32(&b->kb, 21)), LS_VAL_NONE);
    load(b, b->x, ls_kb_cast(&b->kb, ls_kb_cast(&b->kb, b->i, LS_I64), LS_U32), LS_VAL_NONE);
}
static void v_or(bench *b) { /* 64 | 63 */
    ls_val top = ls_kb_min(&b->kb, b->i, ls_kb_i32(&b->kb, 64));
    load(b, b->t, ls_kb_or(&b->kb, top, b->lid), LS_VAL_NONE);
}
static void v_rem_by_variable(bench *b) { /* an even number by 2 or 3 may be odd */
    ls_val by = plus(b, ls_kb_and(&b->kb, b->lid, ls_kb_i32(&b->kb, 1)), 2);
    ls_val r = ls_kb_rem(&b->kb, times(b, b->i, 2), by);
    ls_kb_load(&b->kb, b->x, r, LS_VAL_NONE, LS_VAL_NONE, 2);
}
static void v_loop_from_variable(bench *b) {
    ls_val from = ls_kb_and(&b->kb, b->lid, ls_kb_i32(&b->kb, 3));
    ls_val k = ls_kb_loop(&b->kb, from, ls_kb_i32(&b->kb, 64), ls_kb_i32(&b->kb, 7), 0);
    load(b, b->t, plus(b, k, 1), LS_VAL_NONE);
    ls_kb_end_loop(&b->kb);
}
static void v_loop_by_variable(bench *b) {
    ls_val by = plus(b, ls_kb_and(&b->kb, b->lid, ls_kb_i32(&b->kb, 3)), 4);
    ls_val k = ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, 64), by, 0);
    load(b, b->t, plus(b, k, 1), LS_VAL_NONE);
    ls_kb_end_loop(&b->kb);
}
static void v_loop_of_u32(bench *b) {
    ls_val one = ls_kb_u32(&b->kb, 1);
    ls_kb_loop(&b->kb, one, ls_kb_u32(&b->kb, 0xffffffff), one, 0);
    ls_kb_end_loop(&b->kb);
    ls_kb_loop(&b->kb, ls_kb_i64(&b->kb, 0), ls_kb_i64(&b->kb, 1000000000000), ls_kb_i64(&b->kb, 9), 0);
    ls_kb_end_loop(&b->kb);
}
static void v_loop_of_u32_wraps(bench *b) {
    ls_val two = ls_kb_u32(&b->kb, 2);
    ls_kb_loop(&b->kb, two, ls_kb_u32(&b->kb, 0xffffffff), two, 0);
    ls_kb_end_loop(&b->kb);
}
static void v_negative_rem(bench *b) {
    load(b, b->t, ls_kb_rem(&b->kb, plus(b, b->i, -9), ls_kb_i32(&b->kb, 64)), LS_VAL_NONE);
}
static void v_floor_mod(bench *b) { /* the remainder of a floor division, of what may be negative */
    ls_val a = plus(b, b->i, -100), r = ls_kb_rem(&b->kb, a, ls_kb_i32(&b->kb, 64));
    ls_val negative = below(b, r, 0);
    load(b, b->t, ls_kb_select(&b->kb, negative, plus(b, r, 64), r), LS_VAL_NONE);
}
static void v_floor_mod_wrong(bench *b) {
    ls_val a = plus(b, b->i, -100), r = ls_kb_rem(&b->kb, a, ls_kb_i32(&b->kb, 64));
    ls_val negative = below(b, r, -1);
    load(b, b->t, ls_kb_select(&b->kb, negative, plus(b, r, 64), r), LS_VAL_NONE);
}
static void v_unsigned_compare(bench *b) { /* one comparison for both ends */
    ls_val a = plus(b, b->i, -100), u = ls_kb_cast(&b->kb, a, LS_U32);
    ls_kb_load(&b->kb, b->x, a, ls_kb_lt(&b->kb, u, ls_kb_u32(&b->kb, 256)), b->f, 1);
}
static void v_wrap(bench *b) { /* 100 million times i wraps; the remainder of that may be negative */
    load(b, b->t, ls_kb_rem(&b->kb, times(b, b->i, 100000000), ls_kb_i32(&b->kb, 64)), LS_VAL_NONE);
}
static void v_loop(bench *b) {
    ls_val k = ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 3), ls_kb_i32(&b->kb, 64), ls_kb_i32(&b->kb, 7), 0);
    load(b, b->t, k, LS_VAL_NONE);
    load(b, b->t, plus(b, k, 4), LS_VAL_NONE); /* the last is 59 */
    ls_kb_end_loop(&b->kb);
}
static void v_loop_past(bench *b) {
    ls_val k = ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 3), ls_kb_i32(&b->kb, 64), ls_kb_i32(&b->kb, 7), 0);
    load(b, b->t, plus(b, k, 5), LS_VAL_NONE);
    ls_kb_end_loop(&b->kb);
}
static void v_loop_step(bench *b) {
    ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, 8), b->lid, 0);
    ls_kb_end_loop(&b->kb);
}
static void v_loop_to_the_top(bench *b) {
    ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, INT32_MAX), ls_kb_i32(&b->kb, 1), 0);
    ls_kb_end_loop(&b->kb);
}
static void v_loop_wraps(bench *b) {
    ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, INT32_MAX), ls_kb_i32(&b->kb, 2), 0);
    ls_kb_end_loop(&b->kb);
}
static void v_variable(bench *b) {
    ls_val at = ls_kb_var(&b->kb, b->lid);
    ls_kb_set(&b->kb, at, ls_kb_and(&b->kb, ls_kb_get(&b->kb, at), ls_kb_i32(&b->kb, 31)));
    load(b, b->t, ls_kb_get(&b->kb, at), LS_VAL_NONE);
}
static void v_variable_grows(bench *b) {
    ls_val at = ls_kb_var(&b->kb, b->lid);
    ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, 5), ls_kb_i32(&b->kb, 1), 0);
    load(b, b->t, ls_kb_get(&b->kb, at), LS_VAL_NONE);
    ls_kb_set(&b->kb, at, plus(b, ls_kb_get(&b->kb, at), 1));
    ls_kb_end_loop(&b->kb);
}
/* A fact about one iteration's value must not narrow what a variable kept from another. */
static void v_variable_facts(bench *b) {
    ls_val at = ls_kb_var(&b->kb, ls_kb_i32(&b->kb, 0));
    ls_val k = ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, 99), ls_kb_i32(&b->kb, 1), 0);
    ls_val kept = ls_kb_get(&b->kb, at);
    ls_kb_set(&b->kb, at, ls_kb_sub(&b->kb, ls_kb_i32(&b->kb, 98), k));
    ls_kb_if(&b->kb, below(b, k, 50));
    load(b, b->t, ls_kb_min(&b->kb, kept, kept), LS_VAL_NONE);
    ls_kb_end_if(&b->kb);
    ls_kb_end_loop(&b->kb);
}
static void v_lanes(bench *b) {
    ls_kb_load(&b->kb, b->x, times(b, b->lid, 4), LS_VAL_NONE, LS_VAL_NONE, 4);
    ls_val k = ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, 64), ls_kb_i32(&b->kb, 2), 0);
    ls_kb_load(&b->kb, b->t, k, LS_VAL_NONE, LS_VAL_NONE, 2);
    ls_kb_end_loop(&b->kb);
}
static void v_lanes_past(bench *b) {
    ls_kb_load(&b->kb, b->x, times(b, b->i, 2), LS_VAL_NONE, LS_VAL_NONE, 2);
}
static void v_lanes_odd(bench *b) {
    ls_kb_load(&b->kb, b->x, b->lid, LS_VAL_NONE, LS_VAL_NONE, 2);
}
static void v_sized(bench *b) {
    int s = ls_kb_global_sized(&b->kb, "s", LS_F32, LS_MEM_READ, 3, b->n);
    ls_val n = ls_kb_get_param(&b->kb, b->n);
    load(b, s, b->i, ls_kb_lt(&b->kb, b->i, ls_kb_mul(&b->kb, n, ls_kb_i32(&b->kb, 3))));
    int one = ls_kb_global_sized(&b->kb, "one", LS_F32, LS_MEM_READ, 1, b->n);
    ls_kb_if(&b->kb, ls_kb_lt(&b->kb, b->i, n));
    load(b, b->x, b->i, below(b, b->i, 9));
    load(b, one, b->i, LS_VAL_NONE);
    ls_kb_end_if(&b->kb);
}
static void v_sized_bound(bench *b) { /* within the bound of n, but not within n */
    int one = ls_kb_global_sized(&b->kb, "one", LS_F32, LS_MEM_READ, 1, b->n);
    load(b, one, b->i, LS_VAL_NONE);
}
static void v_barrier(bench *b) {
    ls_kb_barrier(&b->kb);
    ls_kb_if(&b->kb, ls_kb_lt(&b->kb, ls_kb_group_id(&b->kb, 0), ls_kb_get_param(&b->kb, b->n)));
    ls_kb_barrier(&b->kb);
    ls_kb_end_if(&b->kb);
    ls_val at = ls_kb_var(&b->kb, ls_kb_i32(&b->kb, 0));
    ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_get_param(&b->kb, b->n), ls_kb_i32(&b->kb, 1), 0);
    ls_kb_if(&b->kb, below(b, ls_kb_get(&b->kb, at), 3));
    ls_kb_barrier(&b->kb);
    ls_kb_end_if(&b->kb);
    ls_kb_set(&b->kb, at, plus(b, ls_kb_get(&b->kb, at), 1));
    ls_kb_end_loop(&b->kb);
}
static void v_barrier_in_if(bench *b) {
    ls_kb_if(&b->kb, below(b, b->lid, 32));
    ls_kb_barrier(&b->kb);
    ls_kb_end_if(&b->kb);
}
static void v_barrier_in_else(bench *b) {
    ls_kb_if(&b->kb, below(b, b->lid, 32));
    ls_kb_else(&b->kb);
    ls_kb_barrier(&b->kb);
    ls_kb_end_if(&b->kb);
}
static void v_barrier_in_loop(bench *b) {
    ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), b->lid, ls_kb_i32(&b->kb, 1), 0);
    ls_kb_barrier(&b->kb);
    ls_kb_end_loop(&b->kb);
}
static void
v_barrier_by_variable(bench *b) { /* the variable differs only through control flow, and only later on */
    ls_val at = ls_kb_var(&b->kb, ls_kb_i32(&b->kb, 0));
    ls_kb_loop(&b->kb, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, 3), ls_kb_i32(&b->kb, 1), 0);
    ls_kb_if(&b->kb, below(b, ls_kb_get(&b->kb, at), 1));
    ls_kb_barrier(&b->kb);
    ls_kb_end_if(&b->kb);
    ls_kb_if(&b->kb, below(b, b->lid, 7));
    ls_kb_set(&b->kb, at, ls_kb_i32(&b->kb, 5));
    ls_kb_end_if(&b->kb);
    ls_kb_end_loop(&b->kb);
}
static void v_barrier_by_load(bench *b) { /* x is written here, so what it holds may differ by thread */
    ls_val v = load(b, b->x, ls_kb_i32(&b->kb, 0), LS_VAL_NONE);
    ls_kb_store(&b->kb, b->x, b->i, b->f, LS_VAL_NONE);
    ls_kb_if(&b->kb, ls_kb_lt(&b->kb, v, b->f));
    ls_kb_barrier(&b->kb);
    ls_kb_end_if(&b->kb);
}
static void v_shuffle_in_if(bench *b) {
    ls_kb_if(&b->kb, below(b, b->lid, 32));
    ls_kb_shuffle_xor(&b->kb, b->f, 1);
    ls_kb_end_if(&b->kb);
}
static void v_fragment(bench *b) {
    ls_kb_frag_load(&b->kb, b->x, ls_kb_i32(&b->kb, 0), ls_kb_i32(&b->kb, 16),
                    LS_KF_FRAG(LS_FRAG_A, 16, 16, 16));
}
static void v_fragment_backwards(bench *b) { /* rows upwards from the last */
    ls_kb_frag_load(&b->kb, b->x, ls_kb_i32(&b->kb, 240), ls_kb_i32(&b->kb, -16),
                    LS_KF_FRAG(LS_FRAG_C, 16, 16, 16));
}
static void v_fragment_before(bench *b) {
    ls_kb_frag_load(&b->kb, b->x, ls_kb_i32(&b->kb, 239), ls_kb_i32(&b->kb, -16),
                    LS_KF_FRAG(LS_FRAG_C, 16, 16, 16));
}
static void v_fragment_past(bench *b) {
    ls_kb_frag_load(&b->kb, b->x, ls_kb_i32(&b->kb, 1), ls_kb_i32(&b->kb, 16),
                    LS_KF_FRAG(LS_FRAG_A, 16, 16, 16));
}

static void verifier_proves_and_refuses(void **state) {
    (void)state;
    static const struct {
        misuse_fn fn;
        const char *part; /* NULL: proved */
    } cases[] = {
        {v_exact, NULL},
        {v_past_end, "it reaches [1, 256], and x has 256 elements"},
        {v_negative, "it reaches [-1, 254]"},
        {v_pred, NULL},
        {v_pred_off_by_one, "it reaches [1, 256]"},
        {v_pred_le, NULL},
        {v_pred_of_part, NULL},
        {v_pred_one_side, "it reaches [-3, 252]"},
        {v_pred_or, "not proved in bounds"},
        {v_pred_not, NULL},
        {v_param, NULL},
        {v_if, NULL},
        {v_if_known_by_value, NULL},
        {v_after_if, "it reaches [1, 256]"},
        {v_divisions, NULL},
        {v_or, "it reaches [0, 127]"},
        {v_rem_by_variable, "is not proved a multiple of the 2 lanes"},
        {v_loop_from_variable, "it reaches [1, 64]"},
        {v_loop_by_variable, "it reaches [1, 64]"},
        {v_loop_of_u32, NULL},
        {v_loop_of_u32_wraps, "the index may wrap"},
        {v_negative_rem, "it reaches [-9, 63]"},
        {v_floor_mod, NULL},
        {v_floor_mod_wrong, "it reaches [-1, 63]"},
        {v_unsigned_compare, NULL},
        {v_wrap, "it reaches [-63, 63]"},
        {v_loop, NULL},
        {v_loop_past, "it reaches [8, 64]"},
        {v_loop_step, "is not proved positive"},
        {v_loop_to_the_top, NULL},
        {v_loop_wraps, "the index may wrap"},
        {v_variable, NULL},
        {v_variable_grows, "not proved in bounds"},
        {v_variable_facts, "it reaches [0, 98]"},
        {v_lanes, NULL},
        {v_lanes_past, "not proved in bounds"},
        {v_lanes_odd, "is not proved a multiple of the 2 lanes"},
        {v_sized, NULL},
        {v_sized_bound, "one has 0 elements"},
        {v_barrier, NULL},
        {v_barrier_in_if, "(barrier): not all threads reach it: %"},
        {v_barrier_in_else, "not all threads reach it"},
        {v_barrier_in_loop, "not all threads reach it"},
        {v_barrier_by_variable, "not all threads reach it"},
        {v_barrier_by_load, "not all threads reach it"},
        {v_shuffle_in_if, "(shuffle_xor): not all threads reach it"},
        {v_fragment, NULL},
        {v_fragment_backwards, NULL},
        {v_fragment_before, "it reaches [-1, "},
        {v_fragment_past, "it reaches [1, 256]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b = begin();
        cases[i].fn(&b);
        ls_status status = verify(&b);
        if ((status == LS_OK) != !cases[i].part) {
            print_error("case %d\n", (int)i);
        }
        if (cases[i].part) {
            assert_fails(status, cases[i].part);
        } else {
            assert_ok(status);
        }
    }
}

static void verifier_reads_bodies_of_any_origin(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_reduce(&arena, 5000, SAMPLE_RIGHT, &k, &err));
    ls_ins *body = ls_arena_copy(&arena, k.body, sizeof *k.body * (size_t)k.n_body);
    k.body = body;
    assert_ok(ls_kernel_verify(&heap, &k, &err));
    int32_t n = k.n_body, loop = 0, load_at = 0, end_if = 0;
    for (int32_t i = 0; i < n; i++) {
        loop = body[i].op == LS_K_LOOP ? i : loop;
        load_at = body[i].op == LS_K_LOAD && body[i].src[1] >= 0 ? i : load_at;
        end_if = body[i].op == LS_K_END_IF ? i : end_if;
    }
    ls_ins kept = body[load_at];
    body[load_at].src[0] = load_at + 1;
    assert_fails(ls_kernel_verify(&heap, &k, &err), "which is not before it");
    body[load_at] = kept;
    body[load_at].op = 200;
    assert_fails(ls_kernel_verify(&heap, &k, &err), "no such instruction");
    body[load_at] = kept;
    body[load_at].arg = 55;
    assert_fails(ls_kernel_verify(&heap, &k, &err), "a memory that may be read");
    body[load_at] = kept;
    k.n_body = end_if;
    assert_fails(ls_kernel_verify(&heap, &k, &err), "is never closed");
    k.n_body = n;
    body[end_if].op = LS_K_END_LOOP;
    assert_fails(ls_kernel_verify(&heap, &k, &err), "closes if");
    body[end_if].op = LS_K_END_IF;
    for (int32_t i = load_at + 1; i < n; i++) { /* the last store takes a value out of the loop */
        if (body[i].op == LS_K_STORE && i > end_if - 3) {
            kept = body[i];
            body[i].src[1] = load_at;
            assert_fails(ls_kernel_verify(&heap, &k, &err), "defined in a block that is closed");
            body[i] = kept;
        }
    }
    assert_ok(ls_kernel_verify(&heap, &k, &err));
}

/* ---- printer ---- */

static void prints_the_same_text(void **state) {
    (void)state;
    ls_kernel built, k;
    ls_text text;
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &built, &err));
    assert_ok(ls_kernel_simplify(&arena, &built, NULL, &k, &err));
    ls_text_init(&text, &heap);
    ls_kernel_print(&text, &k);
    assert_string_equal(text.data, "kernel vadd\n"
                                   "  workgroup 64 x 1 x 1, grid ceil(1*n/64) x 1 x 1, shared 0 bytes\n"
                                   "  param n: i32 in [0, 1000]\n"
                                   "  global a: f32[1000] read\n"
                                   "  global b: f32[1000] read\n"
                                   "  global y: f32[1000] write\n"
                                   "  %0 = group_id i32.x\n"
                                   "  %1 = const i32 64\n"
                                   "  %2 = mul i32 %0, %1\n"
                                   "  %3 = local_id i32.x\n"
                                   "  %4 = add i32 %2, %3\n"
                                   "  %5 = param i32 n\n"
                                   "  %6 = lt bool %4, %5\n"
                                   "  %7 = const f32 0.0\n"
                                   "  %8 = load f32 a %4, %6, %7\n"
                                   "  %9 = load f32 b %4, %6, %7\n"
                                   "  %10 = add f32 %8, %9\n"
                                   "  store y %4, %10, %6\n");
    ls_text_free(&text);

    bench b = begin();
    ls_kb_const_bits(&b.kb, LS_F32, LS_NAN_F32);
    ls_kb_const_float(&b.kb, LS_BF16, -0.1);
    ls_kb_const_int(&b.kb, LS_U64, -1);
    ls_val loop = ls_kb_loop(&b.kb, b.lid, b.i, b.i, LS_KF_UNROLL);
    ls_kb_if(&b.kb, ls_kb_eq(&b.kb, loop, b.lid));
    ls_val four = ls_kb_splat(&b.kb, b.f, 4);
    ls_kb_pure(&b.kb, LS_K_EQ, four, four, LS_VAL_NONE, LS_KF_FAST);
    ls_kb_else(&b.kb);
    ls_kb_barrier(&b.kb);
    ls_kb_end_if(&b.kb);
    ls_kb_end_loop(&b.kb);
    ls_kb_frag_load(&b.kb, b.x, b.i, b.i, LS_KF_FRAG(LS_FRAG_B, 16, 8, 4) | LS_KF_FRAG_COLS);
    assert_ok(ls_kb_finish(&b.kb, &k));
    ls_text_init(&text, &heap);
    ls_kernel_print(&text, &k);
    assert_string_equal(text.data, "kernel k\n"
                                   "  workgroup 64 x 1 x 1, grid 4 x 1 x 1, shared 256 bytes\n"
                                   "  param n: i32 in [0, 256]\n"
                                   "  global x: f32[256] read write\n"
                                   "  shared t: f32[64]\n"
                                   "  %0 = local_id i32.x\n"
                                   "  %1 = group_id i32.x\n"
                                   "  %2 = const i32 64\n"
                                   "  %3 = mul i32 %1, %2\n"
                                   "  %4 = add i32 %3, %0\n"
                                   "  %5 = const f32 1.0\n"
                                   "  %6 = const f32 nan:0x7fc00000\n"
                                   "  %7 = const bf16 -0.10009765625\n"
                                   "  %8 = const u64 18446744073709551615\n"
                                   "  %9 = loop i32 %0, %4, %4 unroll\n"
                                   "    %10 = eq bool %9, %0\n"
                                   "    if %10\n"
                                   "      %12 = splat f32x4 %5\n"
                                   "      %13 = eq boolx4 %12, %12 fast\n"
                                   "    else\n"
                                   "      barrier\n"
                                   "    end_if\n"
                                   "  end_loop\n"
                                   "  %18 = frag_load f32 b<16,8,4> x %4, %4 by columns\n");
    ls_text_free(&text);
}

static void the_page_is_up_to_date(void **state) {
    (void)state;
    FILE *file = fopen("docs/kir.md", "rb"); /* tests run in the source folder */
    assert_non_null(file);
    static char page[65536];
    size_t size = fread(page, 1, sizeof page - 1, file);
    fclose(file);
    page[size] = 0;
    ls_text text;
    ls_text_init(&text, &heap);
    ls_kir_print_doc(&text);
    assert_string_equal(page, text.data);
    ls_text_free(&text);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(builder_keeps_the_first_error),
        TEST(builder_refuses_misuse),
        TEST(verifier_proves_and_refuses),
        TEST(verifier_reads_bodies_of_any_origin),
        TEST(prints_the_same_text),
        TEST(the_page_is_up_to_date),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
