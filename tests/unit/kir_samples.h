/* Kernels that the KIR tests share: vector addition, a workgroup reduction in the contract's order, a tiled product. */
#ifndef LOCKSTEP_TESTS_KIR_SAMPLES_H
#define LOCKSTEP_TESTS_KIR_SAMPLES_H

#include "kir/build.h"

/* Ways to spoil a sample. */
typedef enum sample_fault {
    SAMPLE_RIGHT,
    SAMPLE_NO_BARRIER,    /* leaves one out */
    SAMPLE_NO_PREDICATE,  /* indices run out of bounds */
    SAMPLE_SAME_ELEMENT,  /* workgroups store to one element */
    SAMPLE_UNINITIALISED, /* shared memory is read before it is written */
    SAMPLE_LONE_BARRIER   /* a barrier that only some threads reach */
} sample_fault;

/* y[i] = a[i] + b[i] for i < n, n a parameter up to `bound`. */
static inline ls_status sample_vadd(ls_arena *arena, int64_t bound, sample_fault fault, ls_kernel *out,
                                    ls_error *err) {
    ls_kb kb;
    ls_kb_init(&kb, arena, "vadd", err);
    int n = ls_kb_param(&kb, "n", LS_I32, 0, bound);
    int a = ls_kb_global(&kb, "a", LS_F32, LS_MEM_READ, bound);
    int b = ls_kb_global(&kb, "b", LS_F32, LS_MEM_READ, bound);
    int y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_WRITE, bound);
    ls_kb_workgroup(&kb, 64, 1, 1);
    ls_kb_grid(&kb, 0, 1, n, 64);
    ls_val lid = ls_kb_local_id(&kb, 0);
    ls_val i = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, 64)), lid);
    ls_val in = ls_kb_lt(&kb, i, ls_kb_get_param(&kb, n));
    ls_val zero = ls_kb_f32(&kb, 0);
    ls_val va = ls_kb_load(&kb, a, i, in, zero, 1);
    ls_val vb = ls_kb_load(&kb, b, i, in, zero, 1);
    ls_val at = fault == SAMPLE_SAME_ELEMENT ? lid : i;
    ls_val pred = fault == SAMPLE_SAME_ELEMENT ? ls_kb_lt(&kb, lid, ls_kb_get_param(&kb, n)) : in;
    ls_kb_store(&kb, y, at, ls_kb_add(&kb, va, vb), fault == SAMPLE_NO_PREDICATE ? LS_VAL_NONE : pred);
    return ls_kb_finish(&kb, out);
}

/* y[g] = the sum of x[4096 g ..] in the contract's order, the last block short: 256 partials from +0, each of every 256th
 * element, then halving. */
static inline ls_status sample_reduce(ls_arena *arena, int64_t count, sample_fault fault, ls_kernel *out,
                                      ls_error *err) {
    ls_kb kb;
    ls_kb_init(&kb, arena, "reduce", err);
    int64_t groups = (count + 4095) / 4096;
    int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ, count);
    int y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_WRITE, groups);
    int t = ls_kb_shared(&kb, "t", LS_F32, 256);
    ls_kb_workgroup(&kb, 256, 1, 1);
    ls_kb_grid(&kb, 0, groups, LS_VAL_NONE, 1);
    ls_val lid = ls_kb_local_id(&kb, 0), group = ls_kb_group_id(&kb, 0), zero = ls_kb_f32(&kb, 0);
    ls_val first = ls_kb_add(&kb, ls_kb_mul(&kb, group, ls_kb_i32(&kb, 4096)), lid);
    ls_val end = ls_kb_i32(&kb, (int32_t)count);
    ls_val sum = ls_kb_var(&kb, zero);
    ls_val step = ls_kb_loop(&kb, ls_kb_i32(&kb, 0), ls_kb_i32(&kb, 4096), ls_kb_i32(&kb, 256), 0);
    ls_val i = ls_kb_add(&kb, first, step);
    ls_val v = ls_kb_load(&kb, x, i, ls_kb_lt(&kb, i, end), zero, 1);
    ls_kb_set(&kb, sum, ls_kb_add(&kb, ls_kb_get(&kb, sum), v));
    ls_kb_end_loop(&kb);
    if (fault != SAMPLE_UNINITIALISED) {
        ls_kb_store(&kb, t, lid, ls_kb_get(&kb, sum), LS_VAL_NONE);
    }
    for (int half = 128; half >= 1; half /= 2) {
        if (!(fault == SAMPLE_NO_BARRIER && half == 16) && fault != SAMPLE_LONE_BARRIER) {
            ls_kb_barrier(&kb);
        }
        ls_val width = ls_kb_i32(&kb, half);
        ls_kb_if(&kb, ls_kb_lt(&kb, lid, width));
        if (fault == SAMPLE_LONE_BARRIER) {
            ls_kb_barrier(&kb);
        }
        ls_val low = ls_kb_load(&kb, t, lid, LS_VAL_NONE, LS_VAL_NONE, 1);
        ls_val high = ls_kb_load(&kb, t, ls_kb_add(&kb, lid, width), LS_VAL_NONE, LS_VAL_NONE, 1);
        ls_kb_store(&kb, t, lid, ls_kb_add(&kb, low, high), LS_VAL_NONE);
        ls_kb_end_if(&kb);
    }
    ls_kb_if(&kb, ls_kb_eq(&kb, lid, ls_kb_i32(&kb, 0)));
    ls_val total = ls_kb_load(&kb, t, lid, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_kb_store(&kb, y, fault == SAMPLE_SAME_ELEMENT ? ls_kb_i32(&kb, 0) : group, total, LS_VAL_NONE);
    ls_kb_end_if(&kb);
    return ls_kb_finish(&kb, out);
}

/* c[m,n] = a[m,k] b[k,n], tiles of 16 x 16 x 16 through shared memory; k in ascending order from +0, absent terms left
 * out (k up to 512: one chunk). */
static inline ls_status sample_matmul(ls_arena *arena, int m, int n, int k, sample_fault fault,
                                      ls_kernel *out, ls_error *err) {
    ls_kb kb;
    ls_kb_init(&kb, arena, "matmul", err);
    int a = ls_kb_global(&kb, "a", LS_F32, LS_MEM_READ, (int64_t)m * k);
    int b = ls_kb_global(&kb, "b", LS_F32, LS_MEM_READ, (int64_t)k * n);
    int c = ls_kb_global(&kb, "c", LS_F32, LS_MEM_WRITE, (int64_t)m * n);
    int ta = ls_kb_shared(&kb, "ta", LS_F32, 256), tb = ls_kb_shared(&kb, "tb", LS_F32, 256);
    ls_kb_workgroup(&kb, 16, 16, 1);
    ls_kb_grid(&kb, 0, n, LS_VAL_NONE, 16);
    ls_kb_grid(&kb, 1, m, LS_VAL_NONE, 16);
    ls_val x = ls_kb_local_id(&kb, 0), y = ls_kb_local_id(&kb, 1), sixteen = ls_kb_i32(&kb, 16);
    ls_val zero = ls_kb_f32(&kb, 0), i0 = ls_kb_i32(&kb, 0), i1 = ls_kb_i32(&kb, 1);
    ls_val col = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), sixteen), x);
    ls_val row = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_group_id(&kb, 1), sixteen), y);
    ls_val vm = ls_kb_i32(&kb, m), vn = ls_kb_i32(&kb, n), vk = ls_kb_i32(&kb, k);
    ls_val row_in = ls_kb_lt(&kb, row, vm), col_in = ls_kb_lt(&kb, col, vn);
    ls_val mine = ls_kb_add(&kb, ls_kb_mul(&kb, y, sixteen), x);
    ls_val sum = ls_kb_var(&kb, zero);
    ls_val k0 = ls_kb_loop(&kb, i0, vk, sixteen, 0);
    ls_val ka = ls_kb_add(&kb, k0, x), kr = ls_kb_add(&kb, k0, y);
    ls_val pa = ls_kb_and(&kb, row_in, ls_kb_lt(&kb, ka, vk)),
           pb = ls_kb_and(&kb, col_in, ls_kb_lt(&kb, kr, vk));
    if (fault == SAMPLE_NO_PREDICATE) {
        pa = row_in;
    }
    ls_val va = ls_kb_load(&kb, a, ls_kb_add(&kb, ls_kb_mul(&kb, row, vk), ka), pa, zero, 1);
    ls_val vb = ls_kb_load(&kb, b, ls_kb_add(&kb, ls_kb_mul(&kb, kr, vn), col), pb, zero, 1);
    ls_kb_store(&kb, ta, mine, va, LS_VAL_NONE);
    ls_kb_store(&kb, tb, mine, vb, LS_VAL_NONE);
    ls_kb_barrier(&kb);
    ls_val kk = ls_kb_loop(&kb, i0, sixteen, i1, LS_KF_UNROLL);
    ls_val ea =
        ls_kb_load(&kb, ta, ls_kb_add(&kb, ls_kb_mul(&kb, y, sixteen), kk), LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_val eb =
        ls_kb_load(&kb, tb, ls_kb_add(&kb, ls_kb_mul(&kb, kk, sixteen), x), LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_kb_if(&kb, ls_kb_lt(&kb, ls_kb_add(&kb, k0, kk), vk));
    ls_kb_set(&kb, sum, ls_kb_add(&kb, ls_kb_get(&kb, sum), ls_kb_mul(&kb, ea, eb)));
    ls_kb_end_if(&kb);
    ls_kb_end_loop(&kb);
    if (fault != SAMPLE_NO_BARRIER) {
        ls_kb_barrier(&kb);
    }
    ls_kb_end_loop(&kb);
    ls_kb_store(&kb, c, ls_kb_add(&kb, ls_kb_mul(&kb, row, vn), col), ls_kb_get(&kb, sum),
                ls_kb_and(&kb, row_in, col_in));
    return ls_kb_finish(&kb, out);
}

#endif
