/* Strategies that the graph decides, on LOCKSTEP_DEVICE and on the CPU: a convolution is the same bits by each of its
 * strategies, and attention fused is within the oracle's radius; what a device has not is refused with the reason. */
#include "support/world.h"
#include "support/written.h"
#include <lockstep/inspect.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *device_id(void) {
    const char *id = getenv("LOCKSTEP_DEVICE");
    return id && *id ? id : "sim:2";
}

/* ---- convolutions ---- */

static ls_tensor *numbers(ls_session *s, ls_dtype dtype, ls_shape shape, int seed) {
    static float x[4096];
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    assert_true(n <= 4096);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)((i * 37 + seed) % 101) * 0.0625f - 3;
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, shape, x);
    t = dtype == LS_F32 ? t : ls_cast(s, t, dtype);
    return ls_realize(s, &t, 1) == LS_OK ? t : NULL; /* so that a halves' cast is no kernel of a test */
}

/* A filter with infinities: what is padded must be skipped, not multiplied by 0. */
static ls_tensor *filter(ls_session *s, ls_dtype dtype, ls_shape shape, int seed) {
    ls_tensor *w = numbers(s, dtype, shape, seed);
    return seed % 2 ? w : ls_div(s, numbers(s, dtype, shape, 1), w); /* 0 at 3 = 48 / 16 */
}

enum { CASES = 9 };
static ls_tensor *convolution(ls_session *s, int which) {
    ls_conv_spec c = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    ls_tensor *x = numbers(s, LS_F32, LS_SHAPE(2, 3, 9, 8), 5), *w = filter(s, LS_F32, LS_SHAPE(5, 3, 3, 3), 2);
    switch (which) {
    case 0:
        return ls_relu(s, ls_conv(s, x, w, numbers(s, LS_F32, LS_SHAPE(5), 9), &c));
    case 1:
        c.stride[0] = c.stride[1] = 2;
        c.dilation[1] = 2;
        return ls_conv(s, x, w, NULL, &c);
    case 2: /* no padding: a plain product */
        c = (ls_conv_spec){.spatial = 2};
        return ls_conv(s, x, w, NULL, &c);
    case 3:
        c.groups = 3;
        return ls_conv(s, x, filter(s, LS_F32, LS_SHAPE(6, 1, 3, 3), 3), NULL, &c);
    case 4:
        c = (ls_conv_spec){.spatial = 1, .pad_low = {2}, .stride = {3}};
        return ls_conv(s, numbers(s, LS_F16, LS_SHAPE(3, 4, 17), 7), filter(s, LS_F16, LS_SHAPE(8, 4, 5), 4), NULL, &c);
    case 5:
        c.stride[0] = 2;
        return ls_conv_transpose(s, x, filter(s, LS_F32, LS_SHAPE(3, 4, 3, 3), 6), NULL, &c);
    case 6:
    case 7: { /* gradients */
        ls_tensor *y = ls_conv(s, x, ls_reshape(s, w, LS_SHAPE(5, 3, 3, 3)), NULL, &c), *of[] = {x, w}, *g[2];
        ls_tensor *sum = ls_sum(s, ls_mul(s, y, numbers(s, LS_F32, LS_SHAPE(2, 5, 9, 8), 8)), 0, NULL, 0);
        assert_int_equal(ls_grad(s, sum, NULL, 2, of, g), LS_OK);
        return g[which - 6];
    }
    default: { /* padding without values below padding with values: no patches in memory */
        ls_pad_spec absent[3] = {{0, 0, 0}, {1, 1, 0}, {0, 0, 0}}, ones[3] = {{0, 0, 0}, {1, 1, 0}, {0, 0, 0}};
        ls_tensor *p = ls_pad(s, ls_pad_absent(s, numbers(s, LS_F32, LS_SHAPE(2, 9, 4), 3), absent), ones, 1);
        ls_window_spec window = {.size = 3, .stride = 1, .dilation = 1};
        ls_contract_spec k = {.n_contract = 2, .contract_a = {3, 2}, .contract_b = {0, 1}};
        return ls_contract(s, ls_window(s, p, 1, (int[]){1}, &window), filter(s, LS_F32, LS_SHAPE(3, 4, 6), 2), &k, LS_F32);
    }
    }
}

static void convolutions(void **state) {
    (void)state;
    static const char *const names[] = {"direct", "implicit", "im2col"};
    static unsigned char want[CASES][8192], got[8192];
    const char *ids[] = {"ref", "cpu", device_id()};
    for (int d = 0; d < 3; d++) {
        world w = world_open(ids[d]);
        for (int n = 0; n < CASES * (d ? 3 : 1); n++) {
            int which = n % CASES;
            const char *name = names[n / CASES];
            world_ok(&w, ls_session_set_strategy(w.session, "conv", d ? name : NULL));
            world_ok(&w, ls_scope_begin(w.session)); /* so that the next strategy finds no value */
            ls_tensor *y = convolution(w.session, which);
            size_t size = ls_tensor_bytes(w.session, y);
            assert_in_range(size, 1, sizeof got);
            ls_status status = ls_read(w.session, y, d ? got : want[which], size);
            if (which == CASES - 1 && strcmp(name, "im2col") == 0) {
                assert_int_equal(status, LS_ERR_UNSUPPORTED);
                assert_non_null(strstr(ls_session_error(w.session)->message, "memory does not say which elements are absent"));
                ls_session_clear_error(w.session);
                ls_scope_end(w.session);
                continue;
            }
            world_ok(&w, status);
            if (d && memcmp(got, want[which], size) != 0) {
                fail_msg("convolution %d by %s on %s has other bits than on ref", which, name, w.id);
            }
            ls_scope_end(w.session);
        }
        world_close(&w);
    }
}

typedef struct listed {
    int conv, unexplained;
    bool direct, implicit, im2col;
} listed;

static void note(void *user, const char *kernel, const char *device, const char *strategy, ls_strategy_state state,
                 const char *reason) {
    listed *l = user;
    (void)kernel, (void)device;
    assert_int_not_equal(state, LS_STRATEGY_WRONG);
    bool available = state == LS_STRATEGY_AVAILABLE;
    l->unexplained += !available && !reason[0];
    l->direct |= available && strcmp(strategy, "direct") == 0;
    l->implicit |= available && strcmp(strategy, "implicit") == 0;
    l->im2col |= available && strcmp(strategy, "im2col") == 0;
}

static void convolutions_are_listed(void **state) {
    (void)state;
    world w = world_open(device_id());
    ls_program *program;
    listed l = {0};
    ls_tensor *y = convolution(w.session, 0);
    world_ok(&w, ls_program_compile(w.session, NULL, 0, &y, 1, &program));
    world_ok(&w, ls_strategy_list(program, note, &l));
    assert_true(l.direct && l.implicit && l.im2col && l.unexplained == 0);
    ls_program_destroy(program);
    world_close(&w);
}

/* ---- attention ---- */

enum { ATTENTIONS = 8 };
static ls_tensor *attention(ls_session *s, int which) {
    ls_attention_spec spec = {0};
    ls_dtype dtype = which == 3 ? LS_F16 : LS_F32;
    ls_shape qs = LS_SHAPE(2, 2, 19, 16), ks = LS_SHAPE(2, 2, 21, 16), vs = LS_SHAPE(2, 2, 21, 16);
    if (which == 2) { /* grouped heads, of odd sizes */
        qs = LS_SHAPE(1, 6, 5, 7), ks = LS_SHAPE(1, 2, 50, 7), vs = LS_SHAPE(1, 2, 50, 5);
    } else if (which == 6) {
        qs = LS_SHAPE(1, 1, 1, 24), ks = LS_SHAPE(1, 1, 33, 24), vs = LS_SHAPE(1, 1, 33, 72);
    } else if (which == 7) { /* all extents of one size */
        qs = ks = vs = LS_SHAPE(4, 4, 4, 4);
    }
    spec.causal = which == 1 || which == 2 || which == 3;
    if (which == 4) { /* a row of which nothing is seen */
        spec.mask = ls_lt(s, numbers(s, LS_F32, LS_SHAPE(19, 21), 3), ls_sub(s, numbers(s, LS_F32, LS_SHAPE(19, 1), 50), ls_full(s, LS_F32, LS_SCALAR, 2.9)));
    } else if (which == 5) {
        spec.mask = numbers(s, dtype, LS_SHAPE(2, 1, 19, 21), 7);
    }
    ls_tensor *q = numbers(s, dtype, qs, 5), *k = numbers(s, dtype, ks, 2);
    ls_tensor *y = ls_attention(s, which == 5 ? ls_exp(s, q) : q, k, numbers(s, dtype, vs, 8), &spec);
    return which == 1 ? ls_neg(s, y) : y;
}

/* Every kernel of the run inside the oracle's radius. */
static void fused_attention(void **state) {
    (void)state;
    world w = world_open(device_id());
    ls_context_set_check(w.context, LS_CHECK_ORACLE);
    ls_session_set_math(w.session, LS_FAST);
    for (int which = 0; which < ATTENTIONS; which++) {
        static unsigned char bytes[8192];
        uint64_t kernels[2];
        for (int fused = 0; fused < 2; fused++) {
            world_ok(&w, ls_session_set_strategy(w.session, "attention", fused ? "fused" : "composite"));
            uint64_t before = ls_session_get_stats(w.session).kernels;
            world_ok(&w, ls_scope_begin(w.session));
            ls_tensor *y = attention(w.session, which);
            world_ok(&w, ls_read(w.session, y, bytes, ls_tensor_bytes(w.session, y)));
            kernels[fused] = ls_session_get_stats(w.session).kernels - before;
            ls_scope_end(w.session);
        }
        if (kernels[1] >= kernels[0]) {
            fail_msg("attention %d: %d kernels fused, %d composite", which, (int)kernels[1], (int)kernels[0]);
        }
    }
    world_close(&w);
}

/* Written out: in fewer kernels, within the oracle's radius, and +0 or NaN where the steps one by one give that. */
static void written_attention_is_fused(void **state) {
    (void)state;
    world w = world_open(device_id());
    ls_context_set_check(w.context, LS_CHECK_ORACLE);
    ls_session_set_math(w.session, LS_FAST);
    for (int i = 0; i < WRITTEN_FORMS; i++) {
        static float y[2][2 * 2 * 19 * 16];
        uint64_t kernels[2];
        for (int fused = 0; fused < 2; fused++) {
            world_ok(&w, ls_session_set_strategy(w.session, "attention", fused ? "fused" : "composite"));
            world_ok(&w, ls_scope_begin(w.session));
            ls_tensor *mask = numbers(w.session, LS_F32, LS_SHAPE(19, 21), 7);
            ls_tensor *row = ls_eq(w.session, ls_iota(w.session, LS_I32, LS_SHAPE(19, 1), 0), ls_full(w.session, LS_I32, LS_SCALAR, 5));
            mask = ls_where(w.session, row, ls_full(w.session, LS_F32, LS_SCALAR, -INFINITY), mask);
            world_ok(&w, ls_realize(w.session, &mask, 1));
            written_operands x = {numbers(w.session, LS_F32, LS_SHAPE(2, 2, 19, 16), 5), numbers(w.session, LS_F32, LS_SHAPE(2, 2, 21, 16), 2),
                                  numbers(w.session, LS_F32, LS_SHAPE(2, 2, 21, 16), 8), mask};
            uint64_t before = ls_session_get_stats(w.session).kernels;
            world_ok(&w, ls_read(w.session, written_forms[i].build(w.session, &x), y[fused], sizeof y[0]));
            kernels[fused] = ls_session_get_stats(w.session).kernels - before;
            ls_scope_end(w.session);
        }
        if (kernels[1] + 2 > kernels[0]) {
            fail_msg("%s: %d kernels fused, %d composite", written_forms[i].name, (int)kernels[1], (int)kernels[0]);
        }
        for (size_t n = 0; n < sizeof y[0] / sizeof **y; n++) {
            if (isnan(y[0][n]) != isnan(y[1][n]) || (y[0][n] == 0) != (y[1][n] == 0)) {
                fail_msg("%s: element %d is %g fused, %g by steps", written_forms[i].name, (int)n, (double)y[1][n], (double)y[0][n]);
            }
        }
    }
    world_close(&w);
}

static void fused_attention_is_refused_with_reasons(void **state) {
    (void)state;
    static float got[2048];
    world w = world_open(device_id());
    world_ok(&w, ls_session_set_strategy(w.session, "attention", "fused"));
    ls_tensor *y = attention(w.session, 0);
    assert_int_equal(ls_read(w.session, y, got, ls_tensor_bytes(w.session, y)), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(ls_session_error(w.session)->message, "an online softmax adds in another order than locked"));
    ls_session_clear_error(w.session);
    ls_session_set_math(w.session, LS_FAST);
    ls_tensor *q = numbers(w.session, LS_F32, LS_SHAPE(1, 1, 8, 4), 3), *g;
    y = ls_attention(w.session, q, q, q, &(ls_attention_spec){0});
    assert_int_equal(ls_grad(w.session, ls_mul(w.session, y, y), NULL, 1, &q, &g), LS_OK);
    assert_int_equal(ls_read(w.session, g, got, ls_tensor_bytes(w.session, g)), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(ls_session_error(w.session)->message, "needed elsewhere, as by a gradient"));
    world_close(&w);
    w = world_open("cpu");
    ls_session_set_math(w.session, LS_FAST);
    world_ok(&w, ls_session_set_strategy(w.session, "attention", "fused"));
    y = attention(w.session, 0);
    assert_int_equal(ls_read(w.session, y, got, ls_tensor_bytes(w.session, y)), LS_ERR_UNSUPPORTED);
    world_close(&w);
}

static void note_attention(void *user, const char *kernel, const char *device, const char *strategy, ls_strategy_state state,
                           const char *reason) {
    int *seen = user;
    (void)kernel, (void)device;
    if (strcmp(strategy, "fused") == 0) {
        seen[state == LS_STRATEGY_AVAILABLE ? 0 : 1]++;
        assert_true(state == LS_STRATEGY_AVAILABLE || (state == LS_STRATEGY_UNAVAILABLE && strstr(reason, "another order")));
    }
}

static void attention_is_listed(void **state) {
    (void)state;
    for (int n = 0; n < 3; n++) { /* locked, fast and composite, fast and fused */
        world w = world_open(device_id());
        ls_program *program;
        int seen[2] = {0, 0};
        ls_session_set_math(w.session, n ? LS_FAST : LS_LOCKED);
        world_ok(&w, ls_session_set_strategy(w.session, "attention", n == 2 ? "fused" : NULL));
        ls_tensor *y = attention(w.session, 1);
        world_ok(&w, ls_program_compile(w.session, NULL, 0, &y, 1, &program));
        world_ok(&w, ls_strategy_list(program, note_attention, seen));
        assert_int_equal(seen[0], n > 0);
        assert_int_equal(seen[1], n == 0);
        ls_program_destroy(program);
        world_close(&w);
    }
}

/* ---- the vendor's library ---- */

enum { PRODUCTS = 7 };
/* Of small integers, on which every order of arithmetic is exact. */
static ls_tensor *whole(ls_session *s, ls_dtype dtype, ls_shape shape, int seed) {
    ls_tensor *t = ls_cast(s, ls_floor(s, ls_mul(s, numbers(s, LS_F32, shape, seed), ls_full(s, LS_F32, LS_SCALAR, 0.5))), dtype);
    return ls_realize(s, &t, 1) == LS_OK ? t : NULL;
}

static ls_tensor *product(ls_session *s, int which) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_BF16, LS_F64, LS_F32, LS_F16, LS_F32};
    ls_dtype dtype = dtypes[which];
    ls_contract_spec spec = {.n_contract = 1, .contract_a = {0}, .contract_b = {1}}; /* both the other way round */
    ls_conv_spec conv = {.spatial = 2};
    switch (which) {
    case 4: /* batches, one operand with its axes turned */
        return ls_matmul(s, whole(s, dtype, LS_SHAPE(3, 16, 8), 2), ls_permute(s, whole(s, dtype, LS_SHAPE(3, 24, 8), 4), (const int[]){0, 2, 1}));
    case 5:
        return ls_contract(s, whole(s, dtype, LS_SHAPE(24, 16), 3), whole(s, dtype, LS_SHAPE(32, 24), 6), &spec, LS_F32);
    case 6: /* patches in memory, then a product */
        return ls_conv(s, whole(s, dtype, LS_SHAPE(2, 4, 6, 6), 3), whole(s, dtype, LS_SHAPE(8, 4, 3, 3), 6), NULL, &conv);
    default:
        return ls_matmul(s, whole(s, dtype, LS_SHAPE(16, 40), 2), whole(s, dtype, LS_SHAPE(40, 24), 4));
    }
}

static void vendor_products(void **state) {
    (void)state;
    static unsigned char got[8192], want[8192];
    world w = world_open(device_id()), ref = world_open("ref");
    bool here = strcmp(device_id(), "cuda") == 0;
    ls_session_set_math(w.session, LS_LOCKED);
    world_ok(&w, ls_session_set_strategy(w.session, "matmul", "vendor"));
    world_ok(&w, ls_session_set_strategy(w.session, "conv", "im2col"));
    assert_int_equal(ls_read(w.session, product(w.session, 0), got, 16 * 24 * 4), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(ls_session_error(w.session)->message, "which locked arithmetic does not allow"));
    ls_session_clear_error(w.session);
    for (int which = 0; which < PRODUCTS; which++) {
        if (which == 3 && !(ls_device_caps(w.device)->dtypes >> LS_F64 & 1)) {
            continue;
        }
        ls_session_set_math(w.session, which == 4 ? LS_REDUCED : LS_FAST);
        ls_session_set_fusion(w.session, which != 1);
        ls_tensor *y = product(w.session, which), *z = product(ref.session, which);
        size_t size = ls_tensor_bytes(w.session, y);
        ls_status status = ls_read(w.session, y, got, size);
        if (status == LS_ERR_UNSUPPORTED && strstr(ls_session_error(w.session)->message, "not available here: ")) {
            if (here) {
                printf("%s\n", ls_session_error(w.session)->message);
            }
            break;
        }
        world_ok(&w, status);
        world_ok(&ref, ls_read(ref.session, z, want, size));
        if (memcmp(got, want, size) != 0) {
            fail_msg("product %d by the vendor's library differs from ref", which);
        }
        for (int run = 0; run < 4 && which == 0; run++) { /* replayed: a graph from the second time on */
            ls_program *program;
            ls_tensor *outs[3] = {ls_neg(w.session, product(w.session, 0)), ls_exp(w.session, product(w.session, 5)), ls_sqrt(w.session, product(w.session, 4))};
            ls_session_set_fusion(w.session, 0);
            world_ok(&w, ls_program_compile(w.session, NULL, 0, outs, 3, &program));
            for (int i = 0; i < 5; i++) {
                static float out[3][2048];
                void *to[3] = {out[0], out[1], out[2]};
                world_ok(&w, ls_program_run(program, NULL, to));
                for (int at = 0; at < 16 * 24; at++) {
                    assert_true(out[0][at] == -((const float *)want)[at]);
                }
            }
            ls_program_destroy(program);
        }
    }
    world_close(&w);
    world_close(&ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),    cmocka_unit_test(convolutions_are_listed),
        cmocka_unit_test(fused_attention), cmocka_unit_test(written_attention_is_fused),
        cmocka_unit_test(fused_attention_is_refused_with_reasons),
        cmocka_unit_test(attention_is_listed), cmocka_unit_test(vendor_products),
    };
    cmocka_set_test_filter(getenv("LOCKSTEP_TEST"));
    return cmocka_run_group_tests_name("strategies", tests, NULL, NULL);
}
