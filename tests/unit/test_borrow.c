/* Arrays of the host that the CPU reads where they lie: kept as long as something reads them, never written, copied before the first write. */
#define _GNU_SOURCE
#include "support/world.h"
#include <lockstep/data.h>
#include <string.h>
#include <sys/mman.h>

enum { N = 96, RUNS = 8 };

static int drops;
static void count_drop(void *owner) {
    (void)owner;
    drops++;
}

/* N x N numbers in memory that may only be read. */
static float *page_of(float seed) {
    float *x = mmap(NULL, N * N * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(x != MAP_FAILED);
    for (int i = 0; i < N * N; i++) {
        x[i] = (float)(i % 101) - seed;
    }
    assert_int_equal(mprotect(x, N * N * sizeof(float), PROT_READ), 0);
    return x;
}

static ls_data *over(const world *at, const float *x) {
    ls_data *data = NULL;
    drops = 0;
    assert_int_equal(ls_data_wrap(at->context, LS_F32, 2, (const int64_t[]){N, N}, x, count_drop, NULL, &data, NULL), LS_OK);
    return data;
}

static size_t used(const world *at) {
    size_t bytes;
    ls_context_memory(at->context, &bytes, NULL);
    return bytes;
}

static void borrowed_until_the_last_reader_has_gone(void **state) {
    (void)state;
    static float got[N * N];
    float *x = page_of(3);
    world at = world_open("cpu");
    ls_data *data = over(&at, x);
    size_t before = used(&at);
    ls_var *var = ls_data_to_var(at.session, "v", data);
    ls_tensor *t = ls_data_to_tensor(at.session, data);
    assert_true(var && t && used(&at) - before < 4096);
    ls_data_release(data);
    assert_int_equal(drops, 0);
    ls_tensor *sum = ls_add(at.session, ls_var_value(at.session, var), t);
    world_ok(&at, ls_read(at.session, sum, got, sizeof got));
    for (int i = 0; i < N * N; i++) {
        assert_true(got[i] == 2 * x[i]);
    }
    ls_var_destroy(var);
    assert_int_equal(drops, 0);
    world_close(&at);
    assert_int_equal(drops, 1);
    munmap(x, sizeof got);
}

/* A program with the variable as an operand that the CPU keeps packed, before and after each kind of write. */
static void the_first_write_copies(void **state) {
    (void)state;
    static float in[N * N], want[N * N], got[N * N];
    for (int kind = 0; kind < 2; kind++) {
        float *x = page_of(5);
        world at = world_open("cpu");
        ls_session *s = at.session;
        ls_data *data = over(&at, x);
        ls_var *var = ls_data_to_var(s, "v", data), *twin = ls_data_to_var(s, "twin", data);
        ls_data_release(data);
        ls_tensor *input = ls_input(s, "x", LS_F32, LS_SHAPE(N, N));
        ls_tensor *y = ls_matmul(s, input, ls_var_value(s, var));
        ls_program *program = NULL, *twice = NULL;
        const void *ins[] = {in};
        void *outs[] = {got};
        world_ok(&at, ls_program_compile(s, &input, 1, &y, 1, &program));
        for (int i = 0; i < N; i++) { /* twice the unit: the result is twice the variable */
            in[i * N + i] = 2;
        }
        for (int i = 0; i < RUNS; i++) {
            world_ok(&at, ls_program_run(program, ins, outs));
            assert_true(got[1] == 2 * x[1] && got[N * N - 1] == 2 * x[N * N - 1]);
        }
        for (int i = 0; i < N * N; i++) {
            want[i] = 2 * x[i];
        }
        if (kind == 0) {
            world_ok(&at, ls_var_write(s, var, want, sizeof want));
        } else {
            ls_tensor *value = ls_var_value(s, var);
            world_ok(&at, ls_var_assign(s, var, ls_add(s, value, value)));
            world_ok(&at, ls_program_compile(s, NULL, 0, NULL, 0, &twice));
            world_ok(&at, ls_program_run(twice, NULL, NULL));
        }
        for (int i = 0; i < RUNS; i++) {
            world_ok(&at, ls_program_run(program, ins, outs));
            for (int k = 0; k < N * N; k++) {
                assert_true(got[k] == 4 * x[k]);
            }
        }
        world_ok(&at, ls_var_read(s, twin, got, sizeof got));
        assert_memory_equal(got, x, sizeof got);
        ls_program_destroy(program);
        ls_program_destroy(twice);
        assert_int_equal(drops, 0);
        ls_var_destroy(twin);
        assert_int_equal(drops, 1);
        ls_var_destroy(var);
        world_close(&at);
        munmap(x, sizeof got);
    }
}

/* What lives elsewhere, has guard zones or may hold bytes that are no bools is copied. */
static void what_is_copied(void **state) {
    (void)state;
    static uint8_t bytes[1 << 16];
    world at = world_open("ref");
    float *x = page_of(7);
    ls_data *data = over(&at, x), *bools = NULL;
    ls_tensor *t = ls_data_to_tensor(at.session, data);
    ls_data_release(data);
    assert_true(t && drops == 1);
    world_close(&at);
    at = world_open("cpu");
    drops = 0;
    assert_int_equal(ls_data_wrap(at.context, LS_BOOL, 1, (const int64_t[]){sizeof bytes}, bytes, count_drop, NULL, &bools, NULL), LS_OK);
    t = ls_data_to_tensor(at.session, bools);
    ls_data_release(bools);
    assert_true(t && drops == 1);
    ls_context_set_check(at.context, LS_CHECK_BITS);
    data = over(&at, x);
    t = ls_data_to_tensor(at.session, data);
    ls_data_release(data);
    assert_true(t && drops == 1);
    world_close(&at);
    munmap(x, N * N * sizeof(float));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borrowed_until_the_last_reader_has_gone),
        cmocka_unit_test(the_first_write_copies),
        cmocka_unit_test(what_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
