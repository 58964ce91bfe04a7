/* Windows of two by two and of three by three where images lie: the bits of straight loops, whatever the extents, strides and padding, with
 * NaN, infinities and zeros of both signs; nothing behind the results is written, and nothing behind the image read. */
#define _DEFAULT_SOURCE

#include "gemm_support.h"
#include <math.h>

enum { MOST = 40, LINES = 6, ROOM = 4 * MOST * LINES };

/* Of `zeros` nothing but zeros, most of them -0. */
static float image_value(bool zeros) {
    static const uint32_t odd[] = {0xffc00123, 0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0x00000000, 0x00000001, 0x807fffff};
    const int64_t kind = zeros ? 4 + (random_below(12) == 0) : random_below(24);
    float x = (float)random_value(ORDINARY);
    if (kind < 10) {
        memcpy(&x, &odd[kind < 8 ? kind : 4 + kind % 2], sizeof x);
    }
    return x;
}

static float of_two(ls_square what, float x, float y) {
    return what == LS_SQUARE_SUM ? x + y : extreme(x, y, what == LS_SQUARE_MOST);
}

static uint32_t place_of(ls_square what, const float *x) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < 4; i++) {
        if (!isnan(x[best]) && (isnan(x[i]) || (what == LS_SQUARE_LEAST ? x[i] < x[best] : x[i] > x[best]))) {
            best = i;
        }
    }
    return best;
}

static void check_same(const float *found, const float *expected, int64_t n, int64_t lines, int isa, const char *what) {
    for (int64_t i = 0; i < n * lines; i++) {
        if (memcmp(&found[i], &expected[i], sizeof *found) != 0 && !(isnan(found[i]) && isnan(expected[i]))) {
            fail_msg("%s, instruction set %d: result %d of line %d, of %d by %d", what, isa, (int)(i % n), (int)(i / n), (int)n, (int)lines);
        }
    }
}

static void test_squares(void **state) {
    (void)state;
    static const char *const names[] = {"the largest of two by two", "the least of two by two", "a sum of two by two"};
    for (int s = 0; s < isa_count; s++) {
        for (int64_t n = 1; isas[s]->moves->squares && n <= MOST; n++) {
            for (int round = 0; round < 5; round++) { /* three values and two places */
                const ls_square what = (ls_square)(round % 3);
                const int64_t lines = 1 + random_below(LINES), step = 2 * n + random_below(3);
                const size_t bytes = (size_t)(n * lines) * sizeof(float), size = (size_t)((2 * lines - 1) * step + 2 * n) * sizeof(float);
                void *map;
                size_t map_size;
                float *image = (float *)(void *)before_wall(size, &map, &map_size), expected[ROOM];
                for (size_t i = 0; i < size / sizeof *image; i++) {
                    image[i] = image_value(n % 4 == 3);
                }
                char *memory = guarded(bytes);
                float *found = (float *)(void *)(memory + GUARD);
                for (int64_t i = 0; i < n * lines; i++) {
                    const float *at = image + i / n * 2 * step + i % n * 2, x[] = {at[0], at[1], at[step], at[step + 1]};
                    const uint32_t place = place_of(what, x);
                    expected[i] = of_two(what, of_two(what, x[0], x[2]), of_two(what, x[1], x[3])) + (what == LS_SQUARE_SUM ? 0.0f : -0.0f);
                    if (round > 2) {
                        memcpy(&expected[i], &place, sizeof place);
                    }
                }
                isas[s]->moves->squares(what, round > 2, n, lines, image, step, found, n % 2);
                check_same(found, expected, n, lines, s, round > 2 ? "a place of two by two" : names[what]);
                check_guard(memory, bytes, "squares");
                free(memory);
                assert_int_equal(munmap(map, map_size), 0);
            }
        }
    }
}

/* A term of a window: what is not there changes nothing. */
static float term(const ls_threes *t, int64_t line, int64_t at) {
    const bool here = line >= 0 && line < t->height && at >= 0 && at < t->limit;
    return here ? t->plane[line * t->pitch + at] : t->what == LS_SQUARE_SUM ? 0.0f : -INFINITY;
}

static float of_window(const ls_threes *t, int64_t line, int64_t at, float divisor) {
    float x[9];
    for (int64_t k = 0; k < 9; k++) {
        x[k] = term(t, line + k / 3, at + k % 3);
    }
    for (int64_t half = 8, n = 9; half > 0; n = half, half /= 2) {
        for (int64_t k = half; k < n; k++) {
            x[k - half] = of_two(t->what, x[k - half], x[k]);
        }
    }
    return t->what == LS_SQUARE_SUM ? (x[0] + 0.0f) / divisor : x[0];
}

static void test_threes(void **state) {
    (void)state;
    for (int s = 0; s < isa_count; s++) {
        for (int64_t n = 1; isas[s]->moves->threes && n <= MOST; n++) {
            for (int round = 0; round < 24; round++) {
                ls_threes t = {.what = round % 2 ? LS_SQUARE_SUM : LS_SQUARE_MOST, .second = n % 2, .n = n, .lines = 1 + random_below(LINES), .divisors_step = round % 4 == 1 ? 0 : n};
                const bool sum = t.what == LS_SQUARE_SUM;
                t.stride = sum ? 1 : 1 + random_below(2);
                t.step = sum ? 1 : 1 + random_below(2);
                t.first = -random_below(3);
                t.line = -random_below(3);
                const int64_t span = t.stride * (n - 1) + 3, wide = t.first + span, high = t.line + t.step * (t.lines - 1) + 3;
                t.limit = wide - random_below(3);
                t.height = high - random_below(3);
                t.limit = t.limit > 1 ? t.limit : 1;
                t.height = t.height > 1 ? t.height : 1;
                t.pitch = t.limit + random_below(3);
                const size_t bytes = (size_t)(n * t.lines) * sizeof(float), size = (size_t)((t.height - 1) * t.pitch + t.limit) * sizeof(float);
                void *map;
                size_t map_size;
                float *plane = (float *)(void *)before_wall(size, &map, &map_size), none[2 * MOST + 8], divisors[ROOM], expected[ROOM];
                for (size_t i = 0; i < size / sizeof *plane; i++) {
                    plane[i] = image_value(round % 5 == 4);
                }
                for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
                    none[i] = sum ? 0.0f : -INFINITY;
                }
                char *memory = guarded(bytes);
                t.plane = plane;
                for (size_t i = 0; i < ROOM; i++) {
                    divisors[i] = (float)(1 + random_below(9));
                }
                t.none = none;
                const bool divides = sum && isas[s]->isa == LS_CPU_AVX2 && round % 3;
                t.divisors = divides ? divisors : NULL;
                t.dst = (float *)(void *)(memory + GUARD);
                for (int64_t i = 0; i < n * t.lines; i++) {
                    expected[i] = of_window(&t, t.line + i / n * t.step, t.first + i % n * t.stride, divides ? divisors[i / n * t.divisors_step + i % n] : 1);
                }
                isas[s]->moves->threes(&t);
                check_same(t.dst, expected, n, t.lines, s, sum ? "a sum of three by three" : "the largest of three by three");
                check_guard(memory, bytes, "threes");
                free(memory);
                assert_int_equal(munmap(map, map_size), 0);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_squares),
        cmocka_unit_test(test_threes),
    };
    return cmocka_run_group_tests_name("pool_moves", tests, find_isas, NULL);
}
