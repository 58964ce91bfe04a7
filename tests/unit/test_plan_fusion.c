/* Graphs drawn at random, computed with and without fusion on ref: the same bits, always. The operations
 * are those that decide about groups: maps, rows of reductions, contractions, movement with absent
 * elements, views, gathers, scatters, scans, sorts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include <lockstep/lockstep.h>
#include <stdbool.h>

#define CASES 150
#define POOL 24
#define MOST 600 /* elements of a tensor */
#define OUTPUTS 3

static int64_t draw(ls_rng *rng, int64_t lo, int64_t hi) {
    return lo + (int64_t)ls_rng_below(rng, (uint64_t)(hi - lo + 1));
}

static int64_t extent(const ls_tensor *x, int axis) {
    return ls_tensor_shape(x).dim[axis].offset;
}

static ls_tensor *draw_map(ls_session *s, ls_rng *rng, ls_tensor *x) {
    switch (draw(rng, 0, 6)) {
    case 0:
        return ls_neg(s, x);
    case 1:
        return ls_relu(s, x);
    case 2:
        return ls_exp(s, ls_min(s, x, ls_full(s, LS_F32, LS_SCALAR, 1.5)));
    case 3:
        return ls_sqrt(s, ls_abs(s, x));
    case 4:
        return ls_tanh(s, x);
    case 5:
        return ls_add(s, x, ls_iota(s, LS_F32, ls_tensor_shape(x), 0));
    default:
        return ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, 0.37));
    }
}

/* y broadcast against x where their shapes allow it, else x with itself. */
static ls_tensor *draw_binary(ls_session *s, ls_rng *rng, ls_tensor *x, ls_tensor *y) {
    ls_shape a = ls_tensor_shape(x), b = ls_tensor_shape(y);
    bool fits = b.rank <= a.rank;
    for (int i = 0; i < b.rank && fits; i++) {
        int64_t n = a.dim[a.rank - b.rank + i].offset;
        fits = b.dim[i].offset == n || b.dim[i].offset == 1;
    }
    y = fits ? y : x;
    switch (draw(rng, 0, 4)) {
    case 0:
        return ls_add(s, x, y);
    case 1:
        return ls_sub(s, y, x);
    case 2:
        return ls_mul(s, x, y);
    case 3:
        return ls_where(s, ls_lt(s, x, y), x, ls_neg(s, y));
    default:
        return ls_div(s, x, ls_add(s, ls_abs(s, y), ls_full(s, LS_F32, LS_SCALAR, 0.5)));
    }
}

static ls_tensor *draw_view(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int axis = (int)draw(rng, 0, shape.rank - 1), other = (int)draw(rng, 0, shape.rank - 1);
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
    ls_window_spec window = {2, draw(rng, 1, 2), 1};
    ls_tensor *both[] = {x, ls_neg(s, x)};
    pads[axis] = (ls_pad_spec){draw(rng, 0, 2), draw(rng, 0, 1), draw(rng, 0, 1)};
    switch (draw(rng, 0, 8)) {
    case 0:
        return ls_transpose(s, x, axis, other);
    case 1:
        return ls_flip(s, x, axis);
    case 2:
        return ls_pad(s, x, pads, 2.5);
    case 3:
        return ls_amax(s, ls_pad_absent(s, x, pads), 1, &axis, 0);
    case 4:
        return ls_pad_absent(s, x, pads);
    case 5:
        return extent(x, axis) > 2 && shape.rank < 4
                   ? ls_amax(s, ls_window(s, x, 1, &axis, &window), 1, (int[]){-1}, 0)
                   : x;
    case 6:
        return ls_concat(s, both, 2, axis);
    case 7:
        return ls_narrow(s, x, axis, 0, (extent(x, axis) + 1) / 2);
    default:
        return ls_reshape(s, x, LS_SHAPE(-1, extent(x, shape.rank - 1)));
    }
}

static ls_tensor *draw_rows(ls_session *s, ls_rng *rng, ls_tensor *x) {
    int rank = ls_tensor_shape(x).rank, axis = (int)draw(rng, 0, rank - 1), keep = (int)draw(rng, 0, 1);
    switch (draw(rng, 0, 6)) {
    case 0:
        return ls_softmax(s, x, axis);
    case 1:
        return ls_layer_norm(s, x, rank - 1, NULL, NULL, 1e-3);
    case 2:
        return ls_variance(s, x, 1, &axis, keep || rank == 1, 0);
    case 3:
        return ls_sum(s, x, 1, &axis, keep || rank == 1);
    case 4:
        return ls_sub(s, x, ls_amax(s, x, 1, &axis, 1));
    case 5:
        return ls_log_softmax(s, x, axis);
    default:
        return ls_cast(s, ls_argmax(s, x, 1, &axis, 1), LS_F32);
    }
}

static ls_tensor *draw_heavy(ls_session *s, ls_rng *rng, ls_tensor *x) {
    int rank = ls_tensor_shape(x).rank, axis = (int)draw(rng, 0, rank - 1);
    int64_t n = extent(x, rank - 1), rows = extent(x, 0);
    ls_tensor *index = ls_rem(s, ls_iota(s, LS_I64, LS_SHAPE(5), 0), ls_full_i64(s, LS_I64, LS_SCALAR, rows));
    switch (draw(rng, 0, 5)) {
    case 0:
        return rank > 1 ? ls_matmul(s, x, ls_transpose(s, x, rank - 1, rank - 2)) : x;
    case 1:
        return ls_matmul(s, x, ls_sin(s, ls_iota(s, LS_F32, LS_SHAPE(n, 3), draw(rng, 0, 1) ? 0 : 1)));
    case 2:
        return ls_gather(s, x, index, 0);
    case 3:
        return rank == 2
                   ? ls_scatter(s, x, index, ls_full(s, LS_F32, LS_SHAPE(5, n), 0.75), 0, LS_SCATTER_ADD)
                   : x;
    case 4:
        return ls_scan(s, x, LS_SCAN_SUM, axis, (int)draw(rng, 0, 1), (int)draw(rng, 0, 1));
    default:
        return ls_sort(s, x, axis, (int)draw(rng, 0, 1));
    }
}

/* The same graph for the same key; outputs are the last tensor, the one before or a gradient, and one in
 * between. */
static int draw_graph(ls_session *s, uint64_t key, ls_tensor **outputs) {
    ls_rng rng = {.key = key};
    ls_tensor *pool[POOL];
    int n = 0;
    for (; n < 3; n++) {
        float data[MOST];
        ls_shape shape = n == 0 ? LS_SHAPE(4, 6) : n == 1 ? LS_SHAPE(2, 3, 5) : LS_SHAPE(6);
        for (int i = 0; i < 30; i++) {
            data[i] = (float)(ls_rng_unit(&rng) * 4 - 2);
        }
        pool[n] = ls_tensor_from(s, LS_F32, shape, data);
    }
    while (n < POOL) {
        ls_tensor *x = pool[draw(&rng, n > 6 && draw(&rng, 0, 1) ? n - 4 : 0, n - 1)],
                  *y = pool[draw(&rng, 0, n - 1)], *made;
        int64_t kind = draw(&rng, 0, 9);
        made = kind < 3   ? draw_map(s, &rng, x)
               : kind < 6 ? draw_binary(s, &rng, x, y)
               : kind < 7 ? draw_view(s, &rng, x)
               : kind < 9 ? draw_rows(s, &rng, x)
                          : draw_heavy(s, &rng, x);
        if (!made) {
            fail_msg("case %llu: %s", (unsigned long long)key, ls_session_error(s)->message);
        }
        if (ls_tensor_shape(made).rank == 0) {
            made = ls_reshape(s, made, LS_SHAPE(1));
        }
        if (ls_tensor_numel(s, made) <= MOST && ls_tensor_numel(s, made) > 0) {
            pool[n++] = made;
        }
    }
    outputs[0] = pool[POOL - 1];
    outputs[1] = pool[POOL - 2];
    if (key % 2 && ls_grad(s, outputs[0], NULL, 1, pool, &outputs[1]) != LS_OK) {
        fail_msg("case %llu: %s", (unsigned long long)key, ls_session_error(s)->message);
    }
    outputs[2] = pool[draw(&rng, 4, POOL - 3)];
    return OUTPUTS;
}

/* The bits of the outputs, one after another; the number of words. */
static int compute(ls_context *context, const char *id, int fusion, uint64_t key, uint32_t *out_words,
                   uint64_t *out_kernels) {
    ls_error err = {0};
    ls_device *device;
    ls_session *s;
    ls_tensor *outputs[OUTPUTS];
    int words = 0;
    assert_int_equal(ls_device_open(context, id, &device, &err), LS_OK);
    assert_int_equal(ls_session_create(context, device, &s, &err), LS_OK);
    ls_session_set_fusion(s, fusion);
    int n = draw_graph(s, key, outputs);
    if (ls_realize(s, outputs, n) != LS_OK) {
        fail_msg("case %llu, fusion %d on %s: %s", (unsigned long long)key, fusion, id,
                 ls_session_error(s)->message);
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(ls_read(s, outputs[i], out_words + words, ls_tensor_bytes(s, outputs[i])), LS_OK);
        words += (int)ls_tensor_numel(s, outputs[i]);
    }
    *out_kernels += ls_session_get_stats(s).kernels;
    ls_session_destroy(s);
    return words;
}

static void same_bits(const char *a, int fusion_a, const char *b, int fusion_b, uint64_t first) {
    static uint32_t one[OUTPUTS * MOST], two[OUTPUTS * MOST];
    uint64_t kernels[2] = {0, 0};
    for (uint64_t key = first; key < first + CASES; key++) {
        ls_context *context;
        ls_error err = {0};
        assert_int_equal(ls_context_create(NULL, &context, &err), LS_OK);
        int n = compute(context, a, fusion_a, key, one, &kernels[0]);
        assert_int_equal(compute(context, b, fusion_b, key, two, &kernels[1]), n);
        for (int i = 0; i < n; i++) {
            if (one[i] != two[i]) {
                fail_msg("case %llu, word %d of %d: %08x on %s with fusion %d, %08x on %s with fusion %d",
                         (unsigned long long)key, i, n, one[i], a, fusion_a, two[i], b, fusion_b);
            }
        }
        ls_context_destroy(context);
    }
    assert_true(fusion_a == fusion_b || kernels[0] * 3 < kernels[1] * 2); /* fusion does fuse */
}

static void fused_equals_unfused(void **state) {
    (void)state;
    same_bits("ref", 1, "ref", 0, 1000);
}

static void cpu_equals_ref(void **state) {
    (void)state;
    same_bits("cpu", 1, "ref", 1, 5000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_equals_unfused),
        cmocka_unit_test(cpu_equals_ref),
    };
    return cmocka_run_group_tests_name("plan_fusion", tests, NULL, NULL);
}
