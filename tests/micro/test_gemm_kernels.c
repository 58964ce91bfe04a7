/* What the packed matrix product is made of: every tile of every instruction set that this machine has against straight loops over the
 * contraction rule, bit for bit, conversions of halves, the choice of an instruction set, and how rows are cut into blocks. */
#define _DEFAULT_SOURCE

#include "backend/cpu/gemm_plan.h"
#include "micro/gemm_support.h"
#include <stdio.h>

/* Every tile of one table, called directly, with panels and with strides, storing, adding and resuming, with something to fetch and without. */
static void check_tiles(const ls_gemm_kernels *kernels, ls_gemm_dtype dtype, bool exact, const char *isa) {
    int64_t size = dtype_sizes[dtype];
    for (int rows = 1; rows <= kernels->rows; rows++) {
        for (int vectors = 1; vectors <= kernels->vectors - (rows > kernels->widest_rows); vectors++) {
            for (int variant = 0; variant < 16; variant++) {
                static const int64_t depths[] = {0, 1, 3, 7, 8, 33, 511, 512};
                int64_t kc = depths[variant % 8], cols = (int64_t)vectors * kernels->lanes,
                        ldc = cols + variant % 3;
                matrix a, b;
                matrix_make(&a, dtype, rows, kc, 1, variant & 1 ? K_FAST : I_FAST, exact ? WIDE : ORDINARY);
                a.stride_k = variant % 4 == 2 ? rows : a.stride_k; /* a panel, else of columns that lie apart or not */
                matrix_make(&b, dtype, cols, kc, 1, I_FAST, exact ? WIDE : ORDINARY);
                size_t bytes = (size_t)(((rows - 1) * ldc + cols) * size);
                char *out = guarded(bytes), *expected = guarded(bytes);
                bool resume = kernels->resumes && variant & 4, add = !resume && variant & 2;
                int64_t first = resume ? kc / 3 : 0;
                value answers[LS_GEMM_MAX_ROWS * LS_GEMM_MAX_WIDTH];
                contract(&a, &b, 0, answers);
                for (int64_t i = 0; i < rows; i++) {
                    for (int64_t j = 0; j < cols; j++) {
                        value v = answers[i * cols + j],
                              c = {0.3f * (float)i, 0.7 * (double)j, (int32_t)(i - j)};
                        char *at = out + GUARD + (i * ldc + j) * size;
                        memcpy(at,
                               dtype == LS_GEMM_F64   ? (void *)&c.d
                               : dtype == LS_GEMM_F32 ? (void *)&c.f
                                                      : (void *)&c.i,
                               (size_t)size);
                        if (add) {
                            v.f = c.f + v.f;
                            v.d = c.d + v.d;
                            v.i = (int32_t)((uint32_t)c.i + (uint32_t)v.i);
                        }
                        store_result(dtype, expected + GUARD + (i * ldc + j) * size, v);
                    }
                }
                ls_gemm_kernel kernel = kernels->tile[rows][vectors];
                const char *at_a = a.origin, *at_b = b.origin;
                ls_gemm_tiles tiles = {.n = 1, .kc = first, .a = at_a, .a_row = a.stride_i, .a_k = a.stride_k, .b = at_b, .b_k = b.stride_k,
                                       .c = out + GUARD, .ldc = ldc, .ahead = at_b, .ahead_k = variant & 8 ? 0 : 64};
                if (resume) {
                    kernel(&tiles);
                }
                tiles.kc = kc - first;
                tiles.a = at_a + first * a.stride_k * size;
                tiles.b = at_b + first * b.stride_k * size;
                tiles.resumes = resume;
                tiles.adds = add;
                kernel(&tiles);
                if (exact && memcmp(out, expected, bytes + 2 * GUARD) != 0) {
                    fail_msg("%s %s tile %dx%d depth %d after %d add %d differs", isa, dtype_names[dtype], rows,
                             (int)cols, (int)kc, (int)first, add);
                }
                check_guard(out, bytes, "tile");
                for (int64_t i = 0; !exact && i < rows; i++) {
                    for (int64_t j = 0; j < cols; j++) {
                        int64_t to = GUARD + (i * ldc + j) * size;
                        value x = load_value(dtype, out + to), y = load_value(dtype, expected + to);
                        double far = dtype == LS_GEMM_F64 ? x.d - y.d : (double)x.f - (double)y.f;
                        /* |a|,|b| < 1 and |c| < 24: both sums are within (k+2) u (k + 24) of the exact one */
                        double u = dtype == LS_GEMM_F64 ? 0x1p-53 : 0x1p-24;
                        double bound = 2 * ((double)kc + 2) * u * ((double)kc + 24);
                        assert_true(far <= bound && far >= -bound);
                    }
                }
                free(out);
                free(expected);
                matrix_free(&a);
                matrix_free(&b);
            }
        }
    }
}

static void test_every_tile(void **state) {
    (void)state;
    for (int s = 0; s < isa_count; s++) {
        const char *name = ls_cpu_isa_name(isas[s]->isa);
        check_tiles(isas[s]->f32, LS_GEMM_F32, true, name);
        check_tiles(isas[s]->f64, LS_GEMM_F64, true, name);
        check_tiles(isas[s]->i32, LS_GEMM_I32, true, name);
        check_tiles(isas[s]->f32_fast, LS_GEMM_F32, false, name);
        check_tiles(isas[s]->f64_fast, LS_GEMM_F64, false, name);
    }
}

/* Tiles tell of each NaN, wherever it is and of whichever of them, and vectors of none. */
static void check_nans(const ls_gemm_kernels *kernels, bool vectors_tell) {
    enum { DEPTH = 5, TILES = 3 };
    static float a[TILES * LS_GEMM_MAX_ROWS * DEPTH], b[DEPTH * LS_GEMM_MAX_WIDTH], c[TILES * LS_GEMM_MAX_ROWS * LS_GEMM_MAX_WIDTH];
    for (int rows = 1; rows <= kernels->rows; rows++) {
        for (int vectors = 1; vectors <= kernels->vectors - (rows > kernels->widest_rows); vectors++) {
            const int64_t width = (int64_t)vectors * kernels->lanes, n = kernels->most_tiles < TILES ? kernels->most_tiles : TILES;
            const ls_gemm_tiles tiles = {.n = n, .kc = DEPTH, .a = a, .a_row = 1, .a_k = rows, .b = b, .b_k = width, .c = c, .ldc = width,
                                         .ahead = (const char *)b, .a_next = (int64_t)rows * DEPTH};
            assert_true(kernels->tile[rows][vectors](&tiles) == 0 || !vectors_tell);
            for (int64_t i = 0; i < n * rows; i++) {
                a[i / rows * rows * DEPTH + i % rows + rows] = NAN;
                assert_true(kernels->tile[rows][vectors](&tiles) != 0);
                a[i / rows * rows * DEPTH + i % rows + rows] = 0;
            }
            for (int64_t j = 0; j < width; j++) {
                b[j + width] = -NAN;
                assert_true(kernels->tile[rows][vectors](&tiles) != 0);
                b[j + width] = 0;
            }
        }
    }
}

static void test_nans(void **state) {
    (void)state;
    for (int s = 0; s < isa_count; s++) {
        const bool vectors_tell = isas[s]->isa != LS_CPU_SCALAR && isas[s]->isa != LS_CPU_SIMD128;
        check_nans(isas[s]->f32, vectors_tell);
        check_nans(isas[s]->f32_fast, vectors_tell);
    }
}

/* A kernel for one row and a matrix whose columns lie side by side, at any depths, widths and strides. */
static void check_row(ls_gemm_vector_kernel kernel, filling how) {
    enum { DEPTH = 27, WIDTH = 200, PAD = 5 };
    static const int64_t widths[] = {0, 1, 15, 16, 31, 32, 33, 47, 63, 64, 65, 96, 101, 127, 128, 129, WIDTH};
    static const int64_t x_steps[] = {1, 6, -3, 0};
    static float x[6 * DEPTH], b[DEPTH * (WIDTH + PAD)];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        x[i] = (float)random_value(how);
    }
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
        b[i] = (float)random_value(how);
    }
    for (int q = 0; q < DEPTH * 17 * 4 * 3; q++) {
        int64_t kc = q % DEPTH, n = widths[q / DEPTH % 17], x_k = x_steps[q / DEPTH / 17 % 4];
        int64_t b_k = (q / DEPTH / 17 / 4 - 1) * (n + PAD); /* backwards, not at all, with a gap */
        const float *first_x = x + (x_k < 0 ? 3 * DEPTH : 0), *first_b = b + (b_k < 0 ? (DEPTH - 1) * -b_k : 0);
        size_t bytes = (size_t)n * sizeof(float);
        char *out = guarded(bytes), *expected = guarded(bytes);
        kernel(kc, n, first_x, x_k, first_b, b_k, out + GUARD);
        for (int64_t j = 0; j < n; j++) {
            float s = 0;
            for (int64_t p = 0; p < kc; p++) {
                s = s + first_x[p * x_k] * first_b[p * b_k + j];
            }
            memcpy(expected + GUARD + j * 4, &s, 4);
        }
        if (memcmp(out, expected, bytes + 2 * GUARD) != 0) {
            fail_msg("%d rows of %d columns, steps %d and %d, differ", (int)kc, (int)n, (int)x_k, (int)b_k);
        }
        free(out);
        free(expected);
    }
}

static void test_row_kernels(void **state) {
    (void)state;
    for (int s = 0; s < isa_count; s++) {
        check_row(isas[s]->f32->vector[0], WIDE);
        check_row(isas[s]->f32_fast->vector[0], WHOLE);
        if (isas[s]->f32->vector_lines) {
            check_row(isas[s]->f32->vector_lines, WIDE);
            check_row(isas[s]->f32_fast->vector_lines, WHOLE);
        }
    }
}

static void test_half_moves(void **state) {
    (void)state;
    enum { N = 70 };
    for (int s = 0; s < isa_count; s++) {
        const ls_gemm_moves *moves = isas[s]->moves;
        for (uint32_t base = 0; base < 1 << 16; base += N) {
            uint16_t half[N], back[N];
            float wide[N];
            for (uint32_t i = 0; i < N; i++) {
                half[i] = (uint16_t)(base + i);
            }
            moves->from_f16(N, half, wide);
            moves->to_f16(N, wide, back);
            for (uint32_t i = 0; i < N; i++) {
                float right = ls_f16_to_f32(half[i]);
                assert_true(wide[i] == right || (wide[i] != wide[i] && right != right));
                assert_int_equal(back[i], ls_f32_to_f16(right));
            }
            for (uint32_t i = 0; i < N; i++) { /* near and at the ties, both ways */
                uint32_t bits = (base + i) << 16 | (uint32_t)(random_below(2) ? 0x8000 + random_below(3) - 1
                                                                              : random_below(65536));
                memcpy(&wide[i], &bits, 4);
            }
            moves->to_bf16(N, wide, back);
            for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(back[i], ls_f32_to_bf16(wide[i]));
            }
            for (uint32_t i = 0; i < N; i++) {
                wide[i] = (float)((double)ls_f16_to_f32((uint16_t)(base + i)) *
                                  (1 + 0x1p-11 * (double)(1 + random_below(3) - 1)));
            }
            moves->to_f16(N, wide, back);
            for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(back[i], ls_f32_to_f16(wide[i]));
            }
        }
    }
}

static void test_isa_choice(void **state) {
    (void)state;
    ls_cpu cpu = {.has = {[LS_CPU_SCALAR] = true, [LS_CPU_AVX2] = true}};
    ls_cpu_isa isa;
    assert_int_equal(ls_cpu_isa_choose(&cpu, NULL, &isa), LS_CPU_CHOSEN);
    assert_int_equal(isa, LS_CPU_AVX2);
    assert_int_equal(ls_cpu_isa_choose(&cpu, "scalar", &isa), LS_CPU_CHOSEN);
    assert_int_equal(isa, LS_CPU_SCALAR);
    assert_int_equal(ls_cpu_isa_choose(&cpu, "avx512", &isa), LS_CPU_NOT_HERE);
    assert_int_equal(isa, LS_CPU_AVX2);
    assert_int_equal(ls_cpu_isa_choose(&cpu, "sse9", &isa), LS_CPU_UNKNOWN_NAME);
    ls_cpu_detect(&cpu);
    assert_true(cpu.has[LS_CPU_SCALAR]);
    assert_true(cpu.l1d_bytes > 0 && cpu.l2_bytes > 0);
}

#if defined(__x86_64__)
enum { DETECTS_CACHES = true };
#else
enum { DETECTS_CACHES = false };
#endif

static bool read_word(const char *folder, const char *name, char word[16]) {
    char path[120];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    bool found = file && fscanf(file, "%15s", word) == 1;
    if (file) {
        fclose(file);
    }
    return found;
}

/* The caches are those that the system tells of. */
static void test_caches(void **state) {
    (void)state;
    ls_cpu cpu;
    int told = 0;
    ls_cpu_detect(&cpu);
    const int64_t bytes[] = {0, cpu.l1d_bytes, cpu.l2_bytes, cpu.l3_bytes};
    for (int i = 0; DETECTS_CACHES && i < 8; i++) {
        char folder[80], type[16], level[16], size[16];
        snprintf(folder, sizeof folder, "/sys/devices/system/cpu/cpu0/cache/index%d", i);
        if (!read_word(folder, "type", type) || !strcmp(type, "Instruction") || !read_word(folder, "level", level) || !read_word(folder, "size", size) ||
            atoi(level) > 3 || bytes[atoi(level)] == 16 << 10) { /* as small limits have it */
            continue;
        }
        assert_int_equal(bytes[atoi(level)], (int64_t)atoi(size) << 10);
        told++;
    }
    if (!told) {
        skip();
    }
}

/* Of the worker that has most, where each begins with as many blocks as the next. */
static int64_t most_units(int64_t units, int64_t others, int64_t workers, int64_t blocks) {
    int64_t size = (units + blocks - 1) / blocks, tasks = (units + size - 1) / size, part = (tasks * others + workers - 1) / workers;
    int64_t most = 0;
    for (int64_t w = 0; w < workers; w++) {
        int64_t own = 0;
        for (int64_t t = w * part; t < (w + 1) * part && t < tasks * others; t++) {
            int64_t left = units - t % tasks * size;
            own += left < size ? left : size;
        }
        most = own > most ? own : most;
    }
    return most;
}

static void test_blocks(void **state) {
    (void)state;
    assert_int_equal(ls_gemm_blocks(22, 1, 2, 3, 1), 2);  /* 6 blocks: 12 and 10 */
    assert_int_equal(ls_gemm_blocks(16, 1, 2, 3, 1), 4);  /* 6 blocks: 9 and 7 */
    assert_int_equal(ls_gemm_blocks(24, 1, 2, 3, 1), 6);
    assert_int_equal(ls_gemm_blocks(24, 1, 2, 3, 7), 7);  /* as the cache wants it */
    assert_int_equal(ls_gemm_blocks(12, 128, 2, 3, 1), 1); /* images enough */
    assert_int_equal(ls_gemm_blocks(12, 3, 2, 3, 1), 2);
    assert_int_equal(ls_gemm_blocks(1, 1, 16, 3, 1), 1);
    for (int i = 0; i < 20000; i++) {
        int64_t units = 1 + random_below(200), others = 1 + random_below(i % 2 ? 1 : 9), workers = 1 + random_below(64),
                each = 1 + random_below(4), least = 1 + random_below(i % 3 ? 1 : units);
        int64_t blocks = ls_gemm_blocks(units, others, workers, each, least);
        assert_true(blocks >= least && (blocks == least || (blocks <= units && (blocks - 1) * others < each * workers)));
        for (int64_t fewer = 1; fewer <= each && least == 1; fewer++) {
            int64_t other = (fewer * workers + others - 1) / others;
            other = other < units ? other : units;
            int64_t size = (units + other - 1) / other, load = ((units + size - 1) / size * others + workers - 1) / workers * size;
            assert_true(most_units(units, others, workers, blocks) * 32 <= load * 33);
        }
    }
}

static void test_even_blocks(void **state) {
    (void)state;
    assert_int_equal(ls_gemm_even_blocks(342, 1, 2, 3, 11), 12); /* 11 blocks: 6 for one, 5 for the other */
    assert_int_equal(ls_gemm_even_blocks(86, 1, 2, 3, 3), 6);
    assert_int_equal(ls_gemm_even_blocks(22, 1, 2, 1, 1), 2);
    assert_int_equal(ls_gemm_even_blocks(22, 6, 2, 1, 1), 1);
    assert_int_equal(ls_gemm_even_blocks(1, 1, 16, 3, 1), 1);
    for (int i = 0; i < 20000; i++) {
        int64_t units = 1 + random_below(200), others = 1 + random_below(i % 2 ? 1 : 9), workers = 1 + random_below(64),
                each = 1 + random_below(4), least = 1 + random_below(i % 3 ? 1 : units);
        int64_t blocks = ls_gemm_even_blocks(units, others, workers, each, least), part = (blocks * others + workers - 1) / workers;
        assert_true(blocks >= least && blocks <= units);
        int64_t most = (part * units + blocks - 1) / blocks; /* of one worker, at most */
        for (int64_t fewer = 0; fewer <= each; fewer++) { /* of the cache's blocks, too */
            int64_t other = fewer ? (fewer * workers + others - 1) / others : least;
            other = other < least ? least : other < units ? other : units;
            assert_true(most * 64 <= ((other * others + workers - 1) / workers * units + other - 1) / other * 65);
        }
        if (others == 1 && units >= 65 * workers) {
            assert_true(most * workers * 64 <= (units + workers) * 65);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isa_choice),
        cmocka_unit_test(test_caches),
        cmocka_unit_test(test_half_moves),
        cmocka_unit_test(test_every_tile),
        cmocka_unit_test(test_nans),
        cmocka_unit_test(test_row_kernels),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_even_blocks),
    };
    return cmocka_run_group_tests_name("gemm_kernels", tests, find_isas, NULL);
}
