/* Lists of what is not zero, for every instruction set: the entries of straight loops, in their order, whatever the number of elements, with NaN and zeros
 * of both signs; no more is written behind them than may be, and nothing is read behind the elements. */
#define _DEFAULT_SOURCE

#include "gemm_support.h"
#include <math.h>

enum { MOST = 70, WINDOWS = 3, ROOM = 2 * WINDOWS * MOST, NOBODY = 0x7b7b7b7b };

/* Elements of which `often` of 16 are zeros, and places, some of them none. */
typedef struct elements {
    void *map[3];
    size_t map_size[3];
    float *src;
    uint32_t *places;
    int32_t *at;
} elements;

static elements make_elements(int64_t n, int64_t windows, int64_t often) {
    static const uint32_t odd[] = {0x80000000, 0x7fc00000, 0xffc00123, 0x00000001, 0xff800000};
    elements e;
    char *memory[3];
    for (int i = 0; i < 3; i++) {
        memory[i] = before_wall((size_t)(i == 2 ? n : n * windows) * 4, &e.map[i], &e.map_size[i]);
    }
    e.src = (float *)(void *)memory[0];
    e.places = (uint32_t *)(void *)memory[1];
    e.at = (int32_t *)(void *)memory[2];
    for (int64_t i = 0; i < n * windows; i++) {
        const int64_t kind = random_below(16);
        e.src[i] = kind < often ? 0 : (float)random_value(ORDINARY);
        if (random_below(6) == 0) {
            memcpy(&e.src[i], &odd[random_below(5)], 4);
        }
        e.places[i] = kind == 15 ? UINT32_MAX - (uint32_t)random_below(2) : (uint32_t)random_below(5);
    }
    for (int64_t i = 0; i < n; i++) {
        e.at[i] = (int32_t)random_below(1 << 20);
    }
    return e;
}

static void free_elements(elements *e) {
    for (int i = 0; i < 3; i++) {
        munmap(e->map[i], e->map_size[i]);
    }
}

static void begin(ls_sparse_entry *list) {
    for (int i = 0; i < ROOM + LS_SPARSE_SLACK; i++) {
        list[i] = (ls_sparse_entry){NOBODY, (float)i};
    }
}

static void check_list(const ls_sparse_entry *list, int64_t count, const ls_sparse_entry *expected, int64_t wanted, int isa, int64_t n) {
    if (count != wanted || memcmp(list, expected, (size_t)wanted * sizeof *list) != 0) {
        fail_msg("instruction set %d, %d elements: %d entries where %d are, or others", isa, (int)n, (int)count, (int)wanted);
    }
    for (int64_t i = count + LS_SPARSE_SLACK; i < ROOM + LS_SPARSE_SLACK; i++) {
        assert_true(list[i].at == NOBODY && list[i].value == (float)i);
    }
}

static void test_lists(void **state) {
    (void)state;
    static ls_sparse_entry list[ROOM + LS_SPARSE_SLACK], expected[ROOM];
    static const int32_t of[4] = {5, -7, 1 << 22, 0};
    for (int s = 0; s < isa_count; s++) {
        const ls_gemm_moves *moves = isas[s]->moves;
        for (int64_t n = 0; moves->nonzeros && n <= MOST; n++) {
            for (int64_t often = 0; often <= 16; often += 4) {
                elements e = make_elements(n, WINDOWS, often);
                int64_t wanted = 0;
                for (int64_t i = 0; i < n; i++) {
                    expected[wanted] = (ls_sparse_entry){e.at[i], e.src[i]};
                    wanted += !(e.src[i] == 0);
                }
                begin(list);
                check_list(list, moves->nonzeros(n, e.src, e.at, list), expected, wanted, s, n);

                wanted = 0;
                for (int64_t i = 0; i < n; i++) {
                    expected[wanted] = (ls_sparse_entry){e.at[i] + of[e.places[i] % 4], e.src[i]};
                    wanted += !(e.src[i] == 0) && e.places[i] < 4;
                }
                begin(list);
                check_list(list, moves->chosen(n, e.src, e.places, e.at, of, list), expected, wanted, s, n);

                int32_t starts[2 * WINDOWS], own[2 * WINDOWS];
                const uint32_t place = (uint32_t)(2 * random_below(2));
                wanted = 0;
                for (int64_t w = 0; w < 2 * WINDOWS; w++) {
                    own[w] = (int32_t)wanted;
                    for (int64_t i = 0; i < n; i++) {
                        expected[wanted] = (ls_sparse_entry){e.at[i], e.src[w / 2 * n + i]};
                        wanted += !(e.src[w / 2 * n + i] == 0) && e.places[w / 2 * n + i] == place + (uint32_t)(w % 2);
                    }
                }
                begin(list);
                check_list(list, moves->chosen_planes(WINDOWS, n, place, e.src, e.places, e.at, list, 0, starts), expected, wanted, s, n);
                assert_memory_equal(starts, own, sizeof own);
                free_elements(&e);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists)};
    return cmocka_run_group_tests_name("lists", tests, find_isas, NULL);
}
