/* Large matrix products of halves in fast arithmetic on LOCKSTEP_DEVICE, on integers so small that every sum is exact: whatever
 * instructions the device uses, every element must be right. */
#include "support/world.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    int batch, m, n, k;
    int a_turned, b_turned, more;
    ls_dtype dtype;
} product;

static int number(int seed, int i) {
    return (int)((uint32_t)(i * 7 + seed * 13 + i / 11) % 7) - 3;
}

/* The values as a tensor of the dtype: from f32. */
static ls_tensor *operand(ls_session *s, ls_dtype dtype, int seed, int batch, int rows, int columns) {
    int n = batch * rows * columns;
    float *data = malloc((size_t)n * sizeof *data);
    for (int i = 0; i < n; i++) {
        data[i] = (float)number(seed, i);
    }
    ls_tensor *t = ls_cast(s, ls_tensor_from(s, LS_F32, LS_SHAPE(batch, rows, columns), data), dtype);
    free(data);
    return ls_realize(s, &t, 1) == LS_OK ? t : NULL;
}

/* The same, in lines along the contracted axis; turned: they lie across it. */
static int *lines(int seed, int batch, int n, int k, int turned) {
    int *out = malloc((size_t)batch * (size_t)n * (size_t)k * sizeof *out);
    for (int i = 0; i < batch * n * k; i++) {
        int at = i / k / n, line = i / k % n, along = i % k;
        out[i] = number(seed, at * n * k + (turned ? along * n + line : line * k + along));
    }
    return out;
}

static long check(world *w, const product *p) {
    ls_session *s = w->session;
    ls_session_set_math(s, LS_FAST);
    ls_tensor *a = operand(s, p->dtype, 1, p->batch, p->a_turned ? p->k : p->m, p->a_turned ? p->m : p->k);
    ls_tensor *b = operand(s, p->dtype, 2, p->batch, p->b_turned ? p->n : p->k, p->b_turned ? p->k : p->n);
    ls_tensor *x = p->a_turned ? ls_transpose(s, a, 1, 2) : a, *y = p->b_turned ? ls_transpose(s, b, 1, 2) : b;
    ls_tensor *z = ls_matmul(s, x, y);
    z = ls_cast(s, p->more ? ls_relu(s, z) : z, LS_F32);
    int n = p->batch * p->m * p->n;
    float *out = malloc((size_t)n * sizeof *out);
    world_ok(w, ls_read(s, z, out, (size_t)n * sizeof *out));
    long wrong = 0;
    int *rows = lines(1, p->batch, p->m, p->k, p->a_turned),
        *columns = lines(2, p->batch, p->n, p->k, !p->b_turned);
    for (int i = 0; i < n; i++) {
        int column = i % p->n, row = i / p->n % p->m, at = i / p->n / p->m, sum = 0;
        const int *r = rows + (at * p->m + row) * p->k, *c = columns + (at * p->n + column) * p->k;
        for (int k = 0; k < p->k; k++) {
            sum += r[k] * c[k];
        }
        float expected = (float)(p->more && sum < 0 ? 0 : sum);
        bool small = sum > -256 && sum < 256; /* what bf16 holds exactly; f16 holds 2048 */
        if (out[i] != expected && (p->dtype == LS_F16 ? sum > -2048 && sum < 2048 : small) && wrong++ < 3) {
            print_error("%d x %d x %d, element %d %d %d: %g, expected %g\n", p->m, p->n, p->k, at, row, column, (double)out[i],
                        (double)expected);
        }
    }
    free(rows);
    free(columns);
    free(out);
    return wrong;
}

static void products(void **state) {
    (void)state;
    static const product rows[] = {
        {1, 128, 256, 128, 0, 0, 0, LS_F16},   {1, 128, 256, 64, 0, 0, 1, LS_BF16},
        {1, 256, 256, 192, 1, 0, 0, LS_F16},   {1, 256, 128, 256, 0, 1, 0, LS_BF16},
        {2, 128, 128, 128, 1, 1, 1, LS_F16},   {1, 64, 192, 320, 0, 0, 0, LS_F16},
        {1, 100, 60, 70, 0, 0, 0, LS_F16},     {1, 512, 512, 640, 0, 0, 0, LS_BF16},
        {1, 256, 512, 1024, 1, 1, 0, LS_F16},  {1, 128, 64, 768, 0, 1, 1, LS_F16},
        {3, 256, 256, 448, 0, 1, 0, LS_BF16},  {1, 384, 768, 832, 1, 0, 0, LS_F16},
        {1, 2048, 2048, 512, 0, 0, 1, LS_F16}, {1, 2048, 2048, 384, 1, 1, 0, LS_BF16},
        {2, 2048, 1152, 320, 0, 1, 0, LS_F16}, {2, 1152, 1024, 256, 1, 0, 1, LS_F16},
        {1, 33000, 136, 72, 0, 0, 0, LS_BF16},
        {1, 65, 136, 256, 0, 0, 0, LS_F16},    {1, 1000, 520, 384, 0, 0, 1, LS_BF16},
        {3, 200, 328, 192, 1, 1, 0, LS_F16},   {2, 264, 100, 64, 0, 1, 0, LS_F16},
        {1, 136, 1000, 72, 0, 0, 0, LS_F16},   {1, 1000, 264, 520, 1, 1, 0, LS_BF16},
        {1, 333, 2000, 8, 0, 1, 1, LS_F16},    {2, 333, 264, 72, 0, 0, 0, LS_F16},
    };
    const char *id = getenv("LOCKSTEP_DEVICE"), *all = getenv("LOCKSTEP_CONFORM");
    long wrong = 0, run = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world w = world_open(id && *id ? id : "sim");
        if (all || (int64_t)rows[i].m * rows[i].n * rows[i].k <= 1 << 22) {
            wrong += check(&w, &rows[i]);
            run++;
        }
        world_close(&w);
    }
    printf("%ld products on %s: %ld elements wrong\n", run, id && *id ? id : "sim", wrong);
    assert_true(run > 0);
    assert_int_equal(wrong, 0);
}

/* ---- gradients of padded convolutions: operands with absent elements, in groups; against the CPU's locked result, which no
 * exact sum may differ from ---- */

typedef struct gradient {
    int n, c, h, w, k, groups;
    ls_dtype dtype;
} gradient;

static float *filter_gradient(const char *id, ls_math math, const gradient *p, int *out_n) {
    world w = world_open(id);
    ls_session *s = w.session;
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}, .groups = p->groups};
    ls_tensor *x = operand(s, p->dtype, 1, p->n * p->h, p->w, p->c), *gw = NULL; /* channels last */
    ls_tensor *f = operand(s, p->dtype, 2, p->k, 9, p->c / p->groups);
    ls_tensor *g = operand(s, p->dtype, 3, p->n * p->h / 2, p->w / 2, p->k);
    ls_session_set_math(s, math);
    x = ls_permute(s, ls_reshape(s, x, LS_SHAPE(p->n, p->h, p->w, p->c)), (int[]){0, 3, 1, 2});
    ls_tensor *turned = ls_permute(s, ls_reshape(s, f, LS_SHAPE(p->k, 3, 3, p->c / p->groups)), (int[]){0, 3, 1, 2});
    g = ls_permute(s, ls_reshape(s, g, LS_SHAPE(p->n, p->h / 2, p->w / 2, p->k)), (int[]){0, 3, 1, 2});
    world_ok(&w, ls_grad(s, ls_conv(s, x, turned, NULL, &spec), g, 1, &f, &gw));
    gw = ls_cast(s, gw, LS_F32);
    *out_n = p->k * p->c / p->groups * 9;
    float *out = malloc((size_t)*out_n * sizeof *out);
    world_ok(&w, ls_read(s, gw, out, (size_t)*out_n * sizeof *out));
    world_close(&w);
    return out;
}

static void gradients(void **state) {
    (void)state;
    static const gradient rows[] = {{2, 64, 8, 8, 64, 1, LS_BF16}, {3, 96, 6, 10, 96, 3, LS_F16}, {4, 108, 8, 4, 108, 3, LS_BF16}};
    const char *id = getenv("LOCKSTEP_DEVICE"), *all = getenv("LOCKSTEP_CONFORM");
    long wrong = 0;
    id = id && *id ? id : "sim";
    for (size_t i = 0; i < (all ? sizeof rows / sizeof *rows : 1) && (all || strncmp(id, "sim", 3) != 0); i++) {
        int n, same_n;
        float *got = filter_gradient(id, LS_FAST, &rows[i], &n), *expected = filter_gradient("cpu", LS_LOCKED, &rows[i], &same_n);
        for (int e = 0; e < n; e++) {
            if (got[e] != expected[e] && wrong++ < 3) {
                print_error("gradient %zu, element %d: %g, expected %g\n", i, e, (double)got[e], (double)expected[e]);
            }
        }
        free(got);
        free(expected);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(gradients)};
    return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
