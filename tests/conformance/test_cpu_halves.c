/* Products and convolutions of halves that were made f32, which the CPU backend reads as halves: bit for bit ref's, and within the bound in
 * fast; also once operands are kept in panels. */
#include "base/half.h"
#include "conformance/cpu_cases.h"

typedef struct param {
    ls_dtype dtype;
    int64_t m, n, k;
    bool wild; /* infinities, NaN, subnormals */
} param;

static ls_tensor *of(ls_session *s, ls_rng *rng, const param *p, ls_dtype dtype, ls_shape shape) {
    return p->wild ? random_tensor(s, rng, dtype, shape) : tame_tensor(s, rng, dtype, shape);
}

static ls_tensor *widened(ls_session *s, ls_rng *rng, const param *p, ls_shape shape) {
    return ls_cast(s, of(s, rng, p, p->dtype, shape), LS_F32);
}

static int build_products(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    int64_t m = p->m, n = p->n, k = p->k;
    ls_tensor *x = of(s, rng, p, LS_F32, LS_SHAPE(m, k)), *row = of(s, rng, p, LS_F32, LS_SHAPE(n));
    ls_tensor *w = widened(s, rng, p, LS_SHAPE(k, n)), *turned = ls_transpose(s, widened(s, rng, p, LS_SHAPE(n, k)), 0, 1);
    ls_tensor *apart = ls_cast(s, ls_narrow(s, of(s, rng, p, p->dtype, LS_SHAPE(k, n + 3)), 1, 1, n), LS_F32);
    roots[0] = ls_matmul(s, x, w);
    roots[1] = ls_relu(s, ls_add(s, ls_matmul(s, x, turned), row));
    roots[2] = ls_matmul(s, ls_flip(s, x, 1), ls_flip(s, w, 0));
    roots[3] = ls_matmul(s, x, apart);
    roots[4] = ls_matmul(s, widened(s, rng, p, LS_SHAPE(m, k)), of(s, rng, p, LS_F32, LS_SHAPE(k, n)));
    roots[5] = ls_matmul(s, widened(s, rng, p, LS_SHAPE(m, k)), w);
    roots[6] = ls_matmul(s, of(s, rng, p, LS_F32, LS_SHAPE(3, m, k)), widened(s, rng, p, LS_SHAPE(3, k, n)));
    roots[7] = ls_matmul(s, x, ls_mul(s, w, w)); /* more than a load */
    return 8;
}

/* k is the extent of the filter, n the side of the image. */
static int build_convolutions(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    int64_t c = p->m, side = p->n, f = p->k;
    int pad = (int)f / 2;
    ls_conv_spec plain = {.spatial = 2, .stride = {1, 1}, .groups = 1, .pad_low = {pad, pad}, .pad_high = {pad, pad}}, strided = plain, deep = plain;
    strided.stride[0] = strided.stride[1] = 2;
    deep.groups = c;
    ls_tensor *x = of(s, rng, p, LS_F32, LS_SHAPE(2, c, side, side)), *w = widened(s, rng, p, LS_SHAPE(7, c, f, f));
    ls_tensor *bias = widened(s, rng, p, LS_SHAPE(7));
    roots[0] = ls_conv(s, x, w, NULL, &plain);
    roots[1] = ls_relu(s, ls_conv(s, x, w, bias, &strided));
    roots[2] = ls_conv(s, x, widened(s, rng, p, LS_SHAPE(c, 1, f, f)), NULL, &deep);
    roots[3] = ls_conv(s, widened(s, rng, p, LS_SHAPE(2, c, side, side)), of(s, rng, p, LS_F32, LS_SHAPE(7, c, f, f)), NULL, &plain);
    roots[4] = ls_conv(s, widened(s, rng, p, LS_SHAPE(2, c, side, side)), w, NULL, &plain);
    roots[5] = ls_conv(s, x, ls_cast(s, ls_narrow(s, of(s, rng, p, p->dtype, LS_SHAPE(9, c, f, f)), 0, 2, 7), LS_F32), NULL, &plain);
    return 6;
}

/* Windows of lines without padding, which lap: k is the extent of the filter, n the length of a line. */
static int build_lines(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    int64_t c = p->m, length = p->n, f = p->k;
    ls_conv_spec plain = {.spatial = 1, .stride = {(int)f - 1}, .groups = 1}, deep = plain;
    deep.groups = c;
    ls_tensor *x = widened(s, rng, p, LS_SHAPE(2, c, length)), *joined = ls_concat(s, (ls_tensor *[]){x, x}, 2, 1);
    roots[0] = ls_conv(s, x, of(s, rng, p, LS_F32, LS_SHAPE(c, 1, f)), NULL, &deep);
    roots[1] = ls_conv(s, x, widened(s, rng, p, LS_SHAPE(5, c, f)), NULL, &plain);
    roots[2] = ls_conv(s, joined, widened(s, rng, p, LS_SHAPE(5, 2 * c, f)), NULL, &plain);
    roots[3] = ls_add(s, ls_conv(s, x, widened(s, rng, p, LS_SHAPE(c, 1, f)), NULL, &deep), ls_narrow(s, x, 2, 0, (length - f) / (f - 1) + 1));
    return 4;
}

static void check_all(worlds *all, case_fn build, uint64_t seed, const param *p, const char *what) {
    check_case(all, build, seed, p, what, 1);
    if (!p->wild) {
        check_fast(all, (int)(all->cases / 2 % all->n), build, (ls_rng){seed, 0}, p, what, seed);
    }
}

static void products(void **state) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {1, 64, 96}, {1, 77, 513}, {2, 16, 40}, {5, 33, 1030}, {23, 70, 64}, {1, 300, 700}, {70, 1, 90}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int j = 0; j < 4; j++) {
            const param p = {j / 2 ? LS_BF16 : LS_F16, shapes[i][0], shapes[i][1], shapes[i][2], j % 2};
            check_all(*state, build_products, 4 * i + (uint64_t)j, &p, ls_dtype_name(p.dtype));
        }
    }
}

static void convolutions(void **state) {
    static const int64_t shapes[][3] = {{3, 9, 3}, {8, 20, 1}, {8, 33, 3}, {16, 17, 5}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int j = 0; j < 4; j++) {
            const param p = {j / 2 ? LS_BF16 : LS_F16, shapes[i][0], shapes[i][1], shapes[i][2], j % 2};
            check_all(*state, build_convolutions, 4 * i + (uint64_t)j, &p, ls_dtype_name(p.dtype));
        }
    }
}

static void lines(void **state) {
    static const int64_t shapes[][3] = {{3, 40, 2}, {16, 301, 3}, {40, 130, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int j = 0; j < 4; j++) {
            const param p = {j / 2 ? LS_BF16 : LS_F16, shapes[i][0], shapes[i][1], shapes[i][2], j % 2};
            check_all(*state, build_lines, 4 * i + (uint64_t)j, &p, ls_dtype_name(p.dtype));
        }
    }
}

/* A program's inputs and what is written between its runs, which nothing may keep. */
static void written(void **state) {
    enum { K = 96, N = 70, C = 8, RUNS = 7 };
    worlds *all = *state;
    uint16_t *halves[RUNS], *taps[RUNS];
    float *x = malloc(K * sizeof *x), *image = malloc(C * 400 * sizeof *image), *want[RUNS][2];
    ls_rng rng = {3, 0};
    fill_normal(&rng, x, K);
    fill_normal(&rng, image, C * 400);
    for (int run = 0; run < RUNS; run++) {
        halves[run] = malloc(K * N * sizeof(uint16_t));
        taps[run] = malloc(C * C * 9 * sizeof(uint16_t));
        for (int i = 0; i < K * N; i++) {
            halves[run][i] = ls_f32_to_f16((float)ls_rng_normal(&rng));
        }
        for (int i = 0; i < C * C * 9; i++) {
            taps[run][i] = ls_f32_to_f16((float)ls_rng_normal(&rng));
        }
        want[run][0] = malloc(N * sizeof(float));
        want[run][1] = malloc(C * 400 * sizeof(float));
    }
    for (int c = -1; c < all->n; c++) {
        world *w = c < 0 ? &all->ref : &all->cpu[c];
        ls_conv_spec spec = {.spatial = 2, .stride = {1, 1}, .groups = 1, .pad_low = {1, 1}, .pad_high = {1, 1}};
        ls_program *program;
        world_ok(w, ls_scope_begin(w->session));
        ls_tensor *in[] = {ls_input(w->session, "x", LS_F32, LS_SHAPE(1, K)), ls_input(w->session, "image", LS_F32, LS_SHAPE(1, C, 20, 20)),
                           ls_input(w->session, "w", LS_F16, LS_SHAPE(K, N))};
        ls_var *filter = ls_var_create(w->session, "filter", LS_F16, LS_SHAPE(C, C, 3, 3), taps[0]);
        ls_tensor *roots[] = {ls_matmul(w->session, in[0], ls_cast(w->session, in[2], LS_F32)),
                              ls_conv(w->session, in[1], ls_cast(w->session, ls_var_value(w->session, filter), LS_F32), NULL, &spec)};
        world_ok(w, ls_program_compile(w->session, in, 3, roots, 2, &program));
        for (int run = 0; run < RUNS; run++) {
            float y[N], *z = malloc(C * 400 * sizeof *z);
            world_ok(w, ls_var_write(w->session, filter, taps[run], C * C * 9 * sizeof(uint16_t)));
            world_ok(w, ls_program_run(program, (const void *const[]){x, image, halves[run]}, (void *const[]){y, z}));
            if (c < 0) {
                memcpy(want[run][0], y, sizeof y);
                memcpy(want[run][1], z, C * 400 * sizeof *z);
            } else {
                check_bytes(all->names[c], "written halves", (uint64_t)run, 0, y, sizeof y, want[run][0], sizeof y);
                check_bytes(all->names[c], "written halves", (uint64_t)run, 1, z, C * 400 * sizeof *z, want[run][1], C * 400 * sizeof *z);
            }
            free(z);
        }
        ls_program_destroy(program);
        ls_scope_end(w->session);
    }
    for (int run = 0; run < RUNS; run++) {
        free(halves[run]), free(taps[run]), free(want[run][0]), free(want[run][1]);
    }
    free(x), free(image);
    all->cases++;
}

/* Run after run, in which constants come to be kept. */
static void kept(void **state) {
    enum { RUNS = 8 };
    worlds *all = *state;
    static const case_fn builds[] = {build_products, build_convolutions};
    for (int i = 0; i < 4; i++) {
        const param p = {i / 2 ? LS_BF16 : LS_F16, i % 2 ? 8 : 5, i % 2 ? 19 : 90, i % 2 ? 3 : 600, false};
        result want = run_case(&all->ref, builds[i % 2], 5, &p, "kept halves");
        for (int c = 0; c < all->n; c++) {
            world *w = &all->cpu[c];
            ls_rng rng = {5, 0};
            ls_tensor *roots[MAX_ROOTS];
            void *got[MAX_ROOTS];
            ls_program *program;
            world_ok(w, ls_scope_begin(w->session));
            int n = builds[i % 2](w->session, &rng, &p, roots);
            world_ok(w, ls_program_compile(w->session, NULL, 0, roots, n, &program));
            for (int r = 0; r < n; r++) {
                got[r] = malloc(want.bytes[r] + 1);
            }
            for (int run = 0; run < RUNS; run++) {
                for (int r = 0; r < n; r++) {
                    memset(got[r], 0xa5, want.bytes[r]);
                }
                world_ok(w, ls_program_run(program, NULL, got));
                for (int r = 0; r < n; r++) {
                    check_bytes(all->names[c], "kept halves", (uint64_t)run, r, got[r], want.bytes[r], want.data[r], want.bytes[r]);
                }
            }
            for (int r = 0; r < n; r++) {
                free(got[r]);
            }
            ls_program_destroy(program);
            ls_scope_end(w->session);
        }
        all->cases++;
        free_result(&want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(convolutions), cmocka_unit_test(lines), cmocka_unit_test(kept), cmocka_unit_test(written)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
