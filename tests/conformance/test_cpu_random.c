/* Random convolutions and products, with what goes before and after them and their gradients, and chains of reductions of rows, on `cpu` and on `ref`: for LOCKSTEP_SECONDS (6), from
 * seed 1 on, each on one configuration of `cpu` by turns. A case is its seed: LOCKSTEP_SEED=n begins there, and tries all configurations. */
#include "conformance/cpu_cases.h"
#include <lockstep/grad.h>

/* Up to three elementwise operations with a number, a number a channel (axis 1), or an element each. */
static ls_tensor *chain(ls_session *s, ls_rng *rng, ls_tensor *y) {
    for (int64_t n = draw(rng, 0, 3); n > 0 && y; n--) {
        ls_shape shape = ls_tensor_shape(y);
        uint64_t kind = ls_rng_below(rng, 3);
        for (int i = 0; i < shape.rank; i++) {
            shape.dim[i] = kind == 2 || (kind == 1 && i == 1) ? shape.dim[i] : ls_dim_of(1);
        }
        ls_tensor *k = tame_tensor(s, rng, LS_F32, shape);
        switch (ls_rng_below(rng, 8)) {
        case 0:
            y = ls_relu(s, y);
            break;
        case 1:
            y = ls_add(s, y, k);
            break;
        case 2:
            y = ls_mul(s, y, k);
            break;
        case 3:
            y = ls_div(s, y, k);
            break;
        case 4:
            y = ls_max(s, k, y);
            break;
        case 5:
            y = ls_sigmoid(s, y);
            break;
        case 6:
            y = ls_mul(s, y, y);
            break;
        default:
            y = ls_sub(s, k, y);
            break;
        }
    }
    return y;
}

/* A sum, a maximum and a minimum, or some of them, with a number a channel or one for all; at times infinities, NaN and zeros of both signs. */
static ls_tensor *bounded(ls_session *s, ls_rng *rng, ls_tensor *y) {
    static ls_tensor *(*const steps[])(ls_session *, ls_tensor *, ls_tensor *) = {ls_add, ls_max, ls_min};
    for (int i = 0; i < 3 && y; i++) {
        ls_shape shape = ls_tensor_shape(y);
        bool channels = chance(rng, 2);
        for (int j = 0; j < shape.rank; j++) {
            shape.dim[j] = channels && j == 1 ? shape.dim[j] : ls_dim_of(1);
        }
        ls_tensor *k = chance(rng, 4) ? ls_full(s, LS_F32, shape, chance(rng, 2) ? 0.0 : -0.0)
                                      : (chance(rng, 4) ? random_tensor : tame_tensor)(s, rng, LS_F32, shape);
        y = chance(rng, 3) ? y : steps[i](s, y, k);
    }
    return y;
}

/* The result, or the gradients of its sum in both operands. */
static int results_of(ls_session *s, ls_rng *rng, ls_tensor *y, ls_tensor *const *operands, ls_tensor **out_roots) {
    if (!y || !chance(rng, 4)) {
        out_roots[0] = y;
        return 1;
    }
    world_ok(&(world){.id = "gradients", .session = s}, ls_grad(s, y, NULL, 2, operands, out_roots));
    return 2;
}

static int build_conv(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    ls_conv_spec spec = {.spatial = (int)draw(rng, 1, 3), .groups = 1};
    bool transposed = chance(rng, 4), depthwise = chance(rng, 3), plain = !transposed && chance(rng, 6); /* a product of each image, */
    bool strided = chance(rng, 3);                                                                             /* or of parts of it */
    int64_t side = spec.spatial == 1 ? 90 : spec.spatial == 2 ? 24 : 8, in = draw(rng, 1, 20), out = draw(rng, 1, 40);
    bool wide = !depthwise && !transposed && chance(rng, 3); /* whole panels of outputs, lines of vectors */
    if (wide) {
        out = 8 * draw(rng, 1, 5) - draw(rng, 0, 1);
    } else if (depthwise) {
        spec.groups = in;
        out = in * draw(rng, 1, 2);
    } else if (chance(rng, 4)) {
        spec.groups = draw(rng, 1, 4);
        in = spec.groups * draw(rng, 1, 6);
        out = spec.groups * draw(rng, 1, 12);
    }
    ls_shape x = {.rank = 2 + spec.spatial}, w = x;
    x.dim[0] = ls_dim_of(draw(rng, 1, 4));
    x.dim[1] = ls_dim_of(in);
    w.dim[0] = ls_dim_of(transposed ? in : out);
    w.dim[1] = ls_dim_of((transposed ? out : in) / spec.groups);
    for (int i = 0; i < spec.spatial; i++) {
        int64_t kernel = plain ? 1 : draw(rng, 1, 5);
        spec.stride[i] = plain && !strided ? 1 : draw(rng, 1, 3);
        spec.dilation[i] = draw(rng, 1, 3);
        int64_t reach = spec.dilation[i] * (kernel - 1) + 1;
        spec.pad_low[i] = draw(rng, 0, transposed && reach < 4 ? (reach - 1) / 2 : 3);
        spec.pad_high[i] = draw(rng, 0, transposed && reach < 4 ? (reach - 1) / 2 : 3);
        if (plain) {
            spec.pad_low[i] = spec.pad_high[i] = 0;
        }
        w.dim[2 + i] = ls_dim_of(kernel);
        x.dim[2 + i] = ls_dim_of((transposed ? 3 : reach) + draw(rng, plain ? side - 2 : wide && i ? side / 2 : 0, wide ? 2 * side : side));
    }
    ls_tensor *operands[] = {tame_tensor(s, rng, LS_F32, x), tame_tensor(s, rng, LS_F32, w)};
    ls_tensor *image = chance(rng, 4) ? chain(s, rng, operands[0]) : operands[0];
    ls_tensor *y = transposed ? ls_conv_transpose(s, image, operands[1], NULL, &spec) : ls_conv(s, image, operands[1], NULL, &spec);
    return results_of(s, rng, chance(rng, 2) ? chain(s, rng, y) : y, operands, out_roots);
}

/* Planes that are read in place: mostly the filters that have kernels of their own, at times infinities and NaN. */
static int build_depthwise(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    static const int64_t kernels[] = {3, 3, 5, 5, 1, 7, 9};
    ls_conv_spec spec = {.spatial = (int)draw(rng, 1, 2), .groups = draw(rng, 1, 40)};
    int64_t kernel = kernels[ls_rng_below(rng, 7)], stride = draw(rng, 1, 2), dilation = chance(rng, 6) ? 2 : 1;
    int64_t reach = dilation * (kernel - 1) + 1, pad = chance(rng, 4) ? draw(rng, 0, reach) : reach / 2;
    ls_shape x = {.rank = 2 + spec.spatial}, w = x;
    x.dim[0] = ls_dim_of(draw(rng, 1, 3));
    x.dim[1] = w.dim[0] = ls_dim_of(spec.groups);
    w.dim[1] = ls_dim_of(1);
    for (int i = 0; i < spec.spatial; i++) {
        spec.stride[i] = stride;
        spec.dilation[i] = dilation;
        spec.pad_low[i] = pad;
        spec.pad_high[i] = chance(rng, 3) ? draw(rng, 0, reach) : pad;
        w.dim[2 + i] = ls_dim_of(chance(rng, 8) ? draw(rng, 1, reach < 9 ? reach : 9) : kernel);
        x.dim[2 + i] = ls_dim_of(18 + draw(rng, 0, 70));
    }
    ls_tensor *operands[] = {(chance(rng, 4) ? random_tensor : tame_tensor)(s, rng, LS_F32, x),
                             (chance(rng, 8) ? random_tensor : tame_tensor)(s, rng, LS_F32, w)};
    ls_tensor *y = ls_conv(s, operands[0], operands[1], NULL, &spec);
    return results_of(s, rng, chance(rng, 2) ? bounded(s, rng, y) : chance(rng, 2) ? chain(s, rng, y) : y, operands, out_roots);
}

static int build_product(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    static const char *const forms[] = {"bik,kj->bij", "bik,jk->bij",  "bki,kj->bij",  "bki,jk->bij",
                                        "bik,kj->bji", "bik,bkj->bij", "bik,bjk->bij", "bki,bkj->bji"};
    const char *form = forms[ls_rng_below(rng, 8)];
    int64_t b = draw(rng, 1, 3), i = draw(rng, 1, 70), j = draw(rng, 1, 130), k = draw(rng, 1, 600);
    ls_shape shapes[2] = {{0}, {0}};
    for (const char *at = form, *comma = strchr(form, ','); *at != '-'; at++) {
        ls_shape *shape = &shapes[at > comma];
        if (at != comma) {
            shape->dim[shape->rank++] = ls_dim_of(*at == 'b' ? b : *at == 'i' ? i : *at == 'j' ? j : k);
        }
    }
    ls_tensor *operands[] = {tame_tensor(s, rng, LS_F32, shapes[0]), tame_tensor(s, rng, LS_F32, shapes[1])};
    ls_tensor *both[] = {chance(rng, 6) ? chain(s, rng, operands[0]) : operands[0], operands[1]};
    return results_of(s, rng, chain(s, rng, ls_einsum(s, form, both, 2)), operands, out_roots);
}

/* Of -2 to 2. */
static ls_tensor *calm_tensor(ls_session *s, ls_rng *rng, int64_t rows, int64_t columns) {
    float *data = calloc((size_t)(rows * columns), sizeof *data);
    for (int64_t i = 0; i < rows * columns; i++) {
        data[i] = (float)((int64_t)ls_rng_below(rng, 2049) - 1024) / 512;
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(rows, columns), data);
    free(data);
    return t;
}

/* Some operations with numbers on a number a row, which stay near 1. */
static ls_tensor *row_numbers(ls_session *s, ls_rng *rng, ls_tensor *x) {
    for (int64_t n = draw(rng, 0, 3); n > 0; n--) {
        ls_tensor *k = ls_full(s, LS_F32, LS_SHAPE(1, 1), (double)draw(rng, 1, 9) / 4), *above = ls_add(s, ls_abs(s, x), k);
        ls_tensor *const all[] = {ls_mul(s, x, k), ls_sub(s, k, x), ls_div(s, k, above), ls_sqrt(s, above), ls_log(s, above), ls_max(s, x, k)};
        x = all[ls_rng_below(rng, 6)];
    }
    return x;
}

static ls_tensor *row_function(ls_session *s, ls_rng *rng, ls_tensor *x) {
    static ls_tensor *(*const functions[])(ls_session *, ls_tensor *) = {ls_exp, ls_tanh, ls_erf, ls_sigmoid, ls_abs};
    uint64_t which = ls_rng_below(rng, 7);
    return which < 5 ? functions[which](s, x) : which == 5 ? ls_mul(s, x, x) : x;
}

/* Reductions of rows, one after another, of what they and elementwise operations make of the rows. */
static int build_rows(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    static ls_tensor *(*const folds[])(ls_session *, ls_tensor *, int, const int *, int) = {ls_sum, ls_mean, ls_amax, ls_amin};
    static const int64_t lengths[] = {64, 100, 255, 256, 257, 512, 768, 1000, 1024, 1025, 1280, 2048, 2100, 2304, 3000, 4000, 4095, 4096, 4097};
    static const int64_t rows[] = {1, 2, 8, 9, 16, 33, 64};
    int64_t m = rows[ls_rng_below(rng, 7)], n = lengths[ls_rng_below(rng, 19)];
    ls_tensor *x = calm_tensor(s, rng, chance(rng, 4) ? 1 : m, n), *last = row_numbers(s, rng, calm_tensor(s, rng, m, 1)), *y = ls_sub(s, x, last);
    for (int64_t steps = draw(rng, 1, 3); steps > 0; steps--) {
        y = chance(rng, 2) ? row_function(s, rng, y) : y;
        last = row_numbers(s, rng, folds[ls_rng_below(rng, 4)](s, y, 1, (const int[]){1}, 1));
        y = chance(rng, 3) ? ls_div(s, y, ls_add(s, ls_abs(s, last), ls_full(s, LS_F32, LS_SHAPE(1, 1), 1))) : ls_sub(s, y, last);
    }
    uint64_t results = ls_rng_below(rng, 4);
    out_roots[0] = results == 0 ? row_numbers(s, rng, ls_sum(s, row_function(s, rng, y), 1, (const int[]){1}, 1)) : y;
    out_roots[1] = results == 1 ? last : ls_mul(s, y, chance(rng, 2) ? calm_tensor(s, rng, 1, n) : calm_tensor(s, rng, m, 1));
    return results == 3 ? 1 : 2;
}

/* Rows in fast lie within the oracle's bound. */
static void random_rows_are_bounded(void **state) {
    worlds *all = *state;
    seeds s = seeds_from(3);
    do {
        check_fast(all, (int)(s.seed % (uint64_t)all->n), build_rows, (ls_rng){s.seed, 2}, NULL, "rows in fast", s.seed);
    } while (seeds_next(&s));
}

static void random_cases(void **state) {
    seeds s = seeds_from(6);
    do {
        check_case(*state, build_conv, s.seed, NULL, "convolution", s.chosen);
        check_case(*state, build_depthwise, s.seed, NULL, "depthwise convolution", s.chosen);
        check_case(*state, build_product, s.seed, NULL, "product", s.chosen);
        check_case(*state, build_rows, s.seed, NULL, "rows", s.chosen);
    } while (seeds_next(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_cases), cmocka_unit_test(random_rows_are_bounded)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
