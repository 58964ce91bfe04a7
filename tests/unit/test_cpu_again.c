/* Small products run again and again: with operands and addends inside larger buffers, with weights that are kept packed and written anew, by
 * the host or in each run, with rows that come and go and with NaN; a row by a matrix of many rows, which launches read from either end. Elements are whole numbers, whose sums are exact: both maths give `ref`'s bits. */
#include "support/world.h"
#include <string.h>

enum { RUNS = 14, WRITTEN = 7, MOST = 16, K = 20, WIDEST = 128, LONG = 512, MANY = 200, INPUTS = 6, OUTPUTS = 6, ROOM = 3 * MOST * WIDEST };

static float x[3 * MOST * K], w[2 * K * WIDEST], v[2 * K * WIDEST], r[2 * MOST * WIDEST], p[MOST * K], bias[MOST], row[LONG], matrix[MANY * LONG];

static void fill(float *to, int n, int seed) {
    for (int i = 0; i < n; i++) {
        to[i] = (float)((i * 37 + seed * 11) % 101 - 50);
    }
}

static ls_tensor *part(ls_session *s, ls_tensor *from, int64_t rows, int64_t columns) {
    return ls_reshape(s, ls_narrow(s, from, 0, 1, 1), LS_SHAPE(rows, columns));
}

static void run(const char *device, ls_math math, int64_t m, int64_t n, float out[RUNS][OUTPUTS][ROOM]) {
    world at = world_open(device);
    ls_session *s = at.session;
    ls_error err = {0};
    ls_session_set_math(s, math);
    fill(w, 2 * K * (int)n, 2);
    fill(bias, (int)m, 3);
    ls_symbol *rows = ls_symbol_create(at.context, "P", MOST, &err);
    ls_var *weights = ls_var_create(s, "w", LS_F32, LS_SHAPE(2, K, n), w), *moves = ls_var_create(s, "m", LS_F32, LS_SHAPE(K, n), w);
    ls_var *add = ls_var_create(s, "b", LS_F32, LS_SHAPE(m, 1), bias);
    ls_tensor *in[INPUTS] = {ls_input(s, "x", LS_F32, LS_SHAPE(3, m, K)), ls_input(s, "v", LS_F32, LS_SHAPE(2, K, n)),
                             ls_input(s, "r", LS_F32, LS_SHAPE(2, m, n)),
                             ls_input(s, "p", LS_F32, (ls_shape){2, {ls_dim_symbol(rows, 1, 0), ls_dim_of(K)}}), ls_input(s, "row", LS_F32, LS_SHAPE(1, LONG)),
                             ls_input(s, "matrix", LS_F32, LS_SHAPE(MANY, LONG))};
    ls_tensor *a = part(s, in[0], m, K), *b = part(s, in[1], K, n), *c = part(s, in[2], m, n), *kept = part(s, ls_var_value(s, weights), K, n);
    ls_tensor *of[] = {c, ls_matmul(s, a, kept)}, *state = ls_var_value(s, moves);
    ls_tensor *roots[OUTPUTS] = {ls_matmul(s, a, kept), ls_relu(s, ls_add(s, ls_add(s, ls_matmul(s, a, b), ls_var_value(s, add)), c)),
                                 ls_concat(s, of, 2, 0), ls_matmul(s, in[3], kept),
                                 ls_matmul(s, a, state), ls_matmul(s, in[4], ls_transpose(s, in[5], 0, 1))};
    world_ok(&at, ls_var_assign(s, moves, ls_add(s, state, b)));
    ls_program *program = NULL;
    world_ok(&at, ls_symbol_bind(s, rows, m));
    world_ok(&at, ls_program_compile(s, in, INPUTS, roots, OUTPUTS, &program));
    for (int i = 0; i < RUNS; i++) {
        fill(x, 3 * (int)m * K, i);
        fill(v, 2 * K * (int)n, i + 1);
        fill(r, 2 * (int)(m * n), i + 2);
        fill(p, (int)m * K, i + 3);
        fill(row, LONG, i + 4);
        fill(matrix, MANY * LONG, i + 5);
        if (i == WRITTEN) {
            fill(w, 2 * K * (int)n, 5);
            world_ok(&at, ls_var_write(s, weights, w, sizeof *w * 2 * K * (size_t)n));
        }
        if (i % 5 == 4) { /* one with a payload, and one of the processor's own making */
            memcpy(&x[m * K + 1], &(uint32_t){0xffc12345}, 4);
            p[K] = __builtin_inff();
            p[K + 1] = -__builtin_inff();
        }
        world_ok(&at, ls_symbol_bind(s, rows, i % 3 == 2 ? i % 2 * 5 : m));
        world_ok(&at, ls_program_run(program, (const void *[]){x, v, r, p, row, matrix},
                                     (void *[]){out[i][0], out[i][1], out[i][2], out[i][3], out[i][4], out[i][5]}));
    }
    ls_program_destroy(program);
    ls_var_destroy(weights);
    ls_var_destroy(moves);
    ls_var_destroy(add);
    world_close(&at);
}

static void small_products_give_the_bits_of_ref(void **state) {
    (void)state;
    static float expected[RUNS][OUTPUTS][ROOM], got[RUNS][OUTPUTS][ROOM];
    static const int64_t heights[] = {MOST, 13, 4}, widths[] = {64, WIDEST, 48};
    for (int i = 0; i < 9; i++) {
        const int64_t m = heights[i % 3], n = widths[i / 3];
        memset(expected, 0, sizeof expected);
        run("ref", LS_LOCKED, m, n, expected);
        for (int fast = 0; fast < 2; fast++) {
            memset(got, 0, sizeof got);
            run("cpu", fast ? LS_FAST : LS_LOCKED, m, n, got);
            for (int j = 0; j < RUNS * OUTPUTS; j++) {
                if (memcmp(got[j / OUTPUTS][j % OUTPUTS], expected[j / OUTPUTS][j % OUTPUTS], sizeof got[0][0])) {
                    fail_msg("%s, %d x %d, run %d, output %d differs", fast ? "fast" : "locked", (int)m, (int)n, j / OUTPUTS, j % OUTPUTS);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_products_give_the_bits_of_ref)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
