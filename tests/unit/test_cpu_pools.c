/* Pooling by three times three and two times two on the CPU, read where the image lies, computed where the result does: the bits of `ref`, whatever the strides, the padding, the extents and the
 * number of threads, with NaN of both signs, infinities and zeros of both signs among the elements. */
#include "support/world.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PLANES = 5, MOST = PLANES * 80 * 130 };
static float image[MOST];

static void fill(void) {
    static const uint32_t odd[] = {0xffc00123, 0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0x00000000, 0x00000001, 0x807fffff};
    uint32_t bits = 1;
    for (int i = 0; i < MOST; i++) {
        bits = bits * UINT32_C(1664525) + UINT32_C(1013904223);
        image[i] = (float)(int32_t)bits * 0x1p-31f;
        if (bits >> 24 < 40) {
            memcpy(&image[i], &odd[bits >> 20 & (i % 3 ? 4 : 7)], sizeof *image); /* mostly zeros of both signs */
        }
    }
    for (int i = 0; i < 300; i++) { /* whose sum is no -0 */
        image[i] = -0.0f;
    }
}

typedef struct pool {
    int64_t high, wide, stride[2], low[2], up[2];
    int kind; /* largest, least, average of what is there, average of all, that and a maximum; of two by two the largest, average and maximum; a number by the sum; the sum by as many elements */
} pool;

static ls_tensor *pooled(ls_session *s, ls_tensor *x, const pool *p) {
    const int64_t kernel[] = {3, 3};
    const ls_conv_spec spec = {.spatial = 2, .stride = {p->stride[0], p->stride[1]}, .pad_low = {p->low[0], p->low[1]}, .pad_high = {p->up[0], p->up[1]}};
    if (p->kind == 1 || p->kind > 6) {
        const ls_pad_spec pads[] = {{0}, {0}, {p->low[0], p->up[0], 0}, {p->low[1], p->up[1], 0}};
        const ls_window_spec windows[] = {{3, p->stride[0], 1}, {3, p->stride[1], 1}};
        ls_tensor *w = ls_window(s, ls_pad_absent(s, x, pads), 2, (const int[]){2, 3}, windows);
        ls_tensor *y = (p->kind == 1 ? ls_amin : ls_sum)(s, w, 2, (const int[]){4, 5}, 0);
        return p->kind == 1 ? y : p->kind == 7 ? ls_div(s, ls_full(s, LS_F32, LS_SCALAR, 3), y) : ls_div(s, y, x);
    }
    const int64_t two[] = {2, 2};
    switch (p->kind) {
    case 0: return ls_max_pool(s, x, kernel, &spec);
    case 4: return ls_relu(s, ls_avg_pool(s, x, kernel, &spec, 1));
    case 5: return ls_max_pool(s, x, two, &spec);
    case 6: return ls_relu(s, ls_avg_pool(s, x, two, &spec, 0));
    default: return ls_avg_pool(s, x, kernel, &spec, p->kind == 3);
    }
}

static void *computed(const char *device, int threads, const pool *p, size_t *out_bytes) {
    world w = world_open_with(device, threads, NULL);
    ls_tensor *x = ls_input(w.session, "x", LS_F32, LS_SHAPE(1, PLANES, p->high, p->wide)), *y = pooled(w.session, x, p);
    assert_non_null(y);
    ls_program *program;
    world_ok(&w, ls_program_compile(w.session, &x, 1, &y, 1, &program));
    *out_bytes = ls_tensor_bytes(w.session, y);
    void *result = malloc(*out_bytes);
    world_ok(&w, ls_program_run(program, (const void *[]){image}, (void *[]){result}));
    ls_program_destroy(program);
    world_close(&w);
    return result;
}

static void bits_are_those_of_ref(void **state) {
    (void)state;
    static const pool pools[] = {
        {12, 12, {1, 1}, {1, 1}, {1, 1}, 0},  {12, 12, {2, 2}, {1, 1}, {1, 1}, 0},  {39, 130, {2, 2}, {1, 1}, {1, 1}, 0},
        {40, 113, {1, 1}, {1, 1}, {1, 1}, 0}, {7, 67, {2, 1}, {0, 2}, {2, 0}, 0},   {33, 35, {1, 2}, {2, 0}, {0, 1}, 0},
        {80, 130, {2, 2}, {0, 0}, {0, 0}, 0}, {9, 40, {2, 2}, {0, 0}, {0, 0}, 0},   {20, 19, {1, 1}, {0, 0}, {0, 0}, 0},  {5, 16, {1, 1}, {2, 2}, {2, 2}, 0},
        {14, 49, {2, 2}, {1, 1}, {0, 0}, 0},  {3, 3, {1, 1}, {0, 0}, {0, 0}, 0},    {3, 3, {1, 1}, {1, 1}, {1, 1}, 0},
        {3, 100, {2, 1}, {1, 0}, {1, 1}, 0},  {8, 34, {1, 1}, {-1, -2}, {0, 1}, 0}, {8, 34, {2, 2}, {-2, 1}, {0, -3}, 0},
        {8, 40, {1, 1}, {1, -9}, {1, 1}, 0},  {20, 40, {3, 1}, {1, 1}, {1, 1}, 0},  {20, 40, {1, 3}, {1, 1}, {1, 1}, 0},
        {8, 40, {1, 1}, {1, 38}, {1, -36}, 0}, {8, 40, {1, 1}, {1, -36}, {1, 38}, 0},
    };
    fill();
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        for (int kind = 0; kind < 9; kind++) {
            pool p = pools[i];
            p.kind = kind;
            if ((p.low[0] < 0 || p.low[1] < 0 || p.up[0] < 0 || p.up[1] < 0) && kind != 1 && kind < 7) {
                continue; /* only a padding may crop */
            }
            const bool alike = p.stride[0] == 1 && p.stride[1] == 1 && p.low[0] + p.up[0] == 2 && p.low[1] + p.up[1] == 2;
            if (kind == 8 && !alike) {
                continue; /* not as many elements */
            }
            size_t bytes, again;
            void *expected = computed("ref", 1, &p, &bytes);
            for (int threads = 1; threads <= 3; threads += 2) {
                void *found = computed("cpu", threads, &p, &again);
                assert_int_equal(bytes, again);
                if (memcmp(expected, found, bytes) != 0) {
                    fail_msg("pool %d of kind %d differs on %d threads", (int)i, kind, threads);
                }
                free(found);
            }
            free(expected);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_those_of_ref)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
