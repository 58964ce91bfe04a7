/* The words of rendered kernels, by a hash of them: the same on every machine. A change here is a change of what drivers get,
 * and of every verdict that is cached under it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/map.h"
#include "render/render.h"
#include "unit/kir_fixture.h"
#include "unit/kir_samples.h"

static void words_stay(void **state) {
    (void)state;
    static const ls_spirv_options options[] = {{.rte32 = false},
                                               {.rte32 = true, .nan_preserve32 = true, .hide_zero = true}};
    static const struct {
        size_t n;
        uint64_t hash;
    } expected[3][2] = {
        {{318, UINT64_C(0xa5700245b99e648c)}, {346, UINT64_C(0xc659042d002cae82)}},
        {{931, UINT64_C(0xa1e7761d2954ea0e)}, {963, UINT64_C(0x3e7b03905fc2065c)}},
        {{1670, UINT64_C(0xc3cc8525ca66b9e7)}, {1702, UINT64_C(0x9bd3dc9dbcf41baa)}},
    };
    for (int k = 0; k < 3; k++) {
        ls_kernel kernel, simple;
        assert_ok(k == 0   ? sample_vadd(&arena, 1000, SAMPLE_RIGHT, &kernel, &err)
                  : k == 1 ? sample_reduce(&arena, 10000, SAMPLE_RIGHT, &kernel, &err)
                           : sample_matmul(&arena, 33, 17, 70, SAMPLE_RIGHT, &kernel, &err));
        assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
        for (int o = 0; o < 2; o++) {
            uint32_t *words;
            size_t n;
            assert_ok(ls_render_spirv(&arena, &simple, &options[o], &words, &n, &err));
            uint64_t hash = ls_hash(words, n * sizeof *words, 0);
            if (n != expected[k][o].n || hash != expected[k][o].hash) {
                print_error("%s, options %d: {%zu, UINT64_C(0x%llx)}\n", kernel.name, o, n,
                            (unsigned long long)hash);
            }
            assert_int_equal(n, expected[k][o].n);
            assert_true(hash == expected[k][o].hash);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(words_stay, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
