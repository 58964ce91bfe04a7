/* Kernels of the CPU that only move elements: copies, slices, paddings, joined tensors and gathered rows give the bits of `ref`, whatever the type,
 * the number of threads and where rows begin; NaN become canonical on the way, and a place that is not there is reported. */
#include "base/dtype.h"
#include "support/world.h"
#include <lockstep/inspect.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 61, INNER = 23, LINES = 7, NUMEL = ROWS * INNER * LINES, MANY = 2600 };

static uint32_t bits[NUMEL * 2];
static int32_t places[MANY];

/* Some of the elements are NaN of odd payloads and signs, of f32 as of f64, or -0. */
static void fill(void) {
    for (int i = 0; i < NUMEL * 2; i++) {
        bits[i] = (uint32_t)i * UINT32_C(2654435761);
        bits[i] = i % 11 == 3 ? UINT32_C(0xffc00000) | (bits[i] >> 12) : i % 17 == 5 ? UINT32_C(0x80000000) : bits[i];
    }
    for (int i = 0; i < MANY; i++) {
        places[i] = (int32_t)(i * INT64_C(2654435761) % ROWS);
    }
}

/* x is [ROWS, LINES, INNER]. */
typedef ls_tensor *(*move)(ls_session *s, ls_tensor *x);

static ls_tensor *slice(ls_session *s, ls_tensor *x) {
    return ls_slice(s, x, (const ls_slice_spec[]){{3, 58, 5}, {1, 6, 1}, {2, 21, 1}});
}
static ls_tensor *turned(ls_session *s, ls_tensor *x) {
    return ls_permute(s, x, (const int[]){1, 0, 2});
}
static ls_tensor *padded(ls_session *s, ls_tensor *x) {
    return ls_pad(s, x, (const ls_pad_spec[]){{2, 1, 0}, {1, 3, 0}, {1, 4, 0}}, 3);
}
static ls_tensor *padded_by_nan(ls_session *s, ls_tensor *x) {
    const uint64_t payload = UINT64_C(0xfff0000012345678);
    double nan;
    memcpy(&nan, &payload, sizeof nan);
    return ls_pad(s, x, (const ls_pad_spec[]){{0}, {1, 1, 0}, {2, 2, 0}}, ls_dtype_is_float(ls_tensor_dtype(x)) ? nan : 1);
}
static ls_tensor *padded_inside(ls_session *s, ls_tensor *x) {
    return ls_pad(s, x, (const ls_pad_spec[]){{0}, {0}, {2, 1, 1}}, 3);
}
static ls_tensor *padded_flipped(ls_session *s, ls_tensor *x) {
    return ls_pad(s, ls_flip(s, x, 2), (const ls_pad_spec[]){{0}, {1, 0, 0}, {2, 1, 0}}, 3);
}
static ls_tensor *padded_seconds(ls_session *s, ls_tensor *x) {
    return ls_pad(s, ls_slice(s, x, (const ls_slice_spec[]){{0, ROWS, 1}, {0, LINES, 1}, {0, INNER, 2}}), (const ls_pad_spec[]){{0}, {0}, {2, 1, 0}}, 3);
}
static ls_tensor *windows(ls_session *s, ls_tensor *x) {
    return ls_window(s, ls_pad(s, x, (const ls_pad_spec[]){{0}, {0}, {3, 4, 0}}, 0), 1, (const int[]){2}, (const ls_window_spec[]){{9, 2, 1}});
}
static ls_tensor *windows_inside(ls_session *s, ls_tensor *x) {
    return ls_window(s, padded_inside(s, x), 1, (const int[]){2}, (const ls_window_spec[]){{9, 1, 1}});
}
static ls_tensor *reflected(ls_session *s, ls_tensor *x) {
    return ls_pad_with(s, x, (const ls_pad_spec[]){{0}, {0}, {3, 2, 0}}, LS_PAD_REFLECT);
}
static ls_tensor *lines_made_one(ls_session *s, ls_tensor *x) {
    ls_tensor *line = ls_reshape(s, ls_narrow(s, x, 2, 1, 20), LS_SHAPE(ROWS, LINES * 20));
    return ls_pad(s, line, (const ls_pad_spec[]){{0}, {1, 2, 0}}, 0);
}
static ls_tensor *cropped(ls_session *s, ls_tensor *x) {
    return ls_pad(s, x, (const ls_pad_spec[]){{-2, 5, 0}, {0, -1, 0}, {-3, 2, 0}}, 0);
}
static ls_tensor *spread(ls_session *s, ls_tensor *x) {
    return ls_pad(s, x, (const ls_pad_spec[]){{1, 0, 2}, {0, 1, 1}, {2, 2, 0}}, 1);
}
static ls_tensor *joined(ls_session *s, ls_tensor *x, int axis) {
    ls_tensor *parts[] = {x, ls_narrow(s, x, axis, 1, 5), ls_flip(s, ls_narrow(s, x, axis, 0, 3), 0), x};
    return ls_concat(s, parts, 4, axis);
}
static ls_tensor *joined_rows(ls_session *s, ls_tensor *x) {
    return joined(s, x, 0);
}
static ls_tensor *joined_lines(ls_session *s, ls_tensor *x) {
    return joined(s, x, 1);
}
static ls_tensor *joined_columns(ls_session *s, ls_tensor *x) {
    return joined(s, x, 2);
}
static ls_tensor *joined_with_padding(ls_session *s, ls_tensor *x) {
    ls_tensor *parts[] = {padded(s, x), padded(s, x)};
    return ls_concat(s, parts, 2, 1);
}
/* Rows of one tensor lie one behind another, those of the other do not. */
static ls_tensor *joined_unlike(ls_session *s, ls_tensor *x) {
    enum { SOME = 30, WIDTH = 20 };
    ls_tensor *flat = ls_narrow(s, ls_reshape(s, x, LS_SHAPE(NUMEL)), 0, 7, SOME * LINES * WIDTH);
    ls_tensor *parts[] = {ls_reshape(s, flat, LS_SHAPE(SOME, LINES, WIDTH)), ls_narrow(s, x, 2, 1, WIDTH)};
    return ls_concat(s, parts, 2, 0);
}
static ls_tensor *gathered_apart(ls_session *s, ls_tensor *x) {
    return ls_gather(s, ls_narrow(s, x, 2, 1, 20), ls_tensor_from(s, LS_I32, LS_SHAPE(70), places), 0);
}
static ls_tensor *gathered_rows(ls_session *s, ls_tensor *x) {
    return ls_gather(s, x, ls_tensor_from(s, LS_I32, LS_SHAPE(ROWS, 3), places), 0);
}
static ls_tensor *gathered_lines(ls_session *s, ls_tensor *x) {
    static const int64_t lines[] = {6, 0, 5, 5, 1, 4, 3, 2, 6};
    return ls_gather(s, x, ls_tensor_from(s, LS_I64, LS_SHAPE(9), lines), 1);
}
static ls_tensor *gathered_columns(ls_session *s, ls_tensor *x) {
    return ls_gather(s, ls_reshape(s, x, LS_SHAPE(ROWS, LINES * INNER)), ls_tensor_from(s, LS_I32, LS_SHAPE(70), places), 1);
}
static ls_tensor *gathered_spread(ls_session *s, ls_tensor *x) { /* whose elements lie INNER apart */
    ls_tensor *apart = ls_narrow(s, ls_reshape(s, x, LS_SHAPE(LINES, ROWS, INNER)), 2, 3, 1);
    return ls_gather(s, apart, ls_tensor_from(s, LS_I32, LS_SHAPE(70), places), 1);
}
static ls_tensor *gathered_far_columns(ls_session *s, ls_tensor *x) { /* of more lanes than a tile has */
    ls_tensor *rows = ls_reshape(s, ls_narrow(s, x, 0, 5, 3), LS_SHAPE(3, LINES * INNER));
    return ls_gather(s, rows, ls_tensor_from(s, LS_I32, LS_SHAPE(MANY), places), 1);
}
static ls_tensor *gathered_many(ls_session *s, ls_tensor *x) {
    return ls_gather(s, ls_narrow(s, x, 1, 2, 1), ls_tensor_from(s, LS_I32, LS_SHAPE(MANY), places), 0);
}

static const struct {
    const char *name;
    move f;
    bool moved; /* by rows; elsewhere a tile program does it, or a transposition */
} moves[] = {
    {"slice", slice, true},
    {"turned", turned, true},
    {"padded", padded, true},
    {"padded by NaN", padded_by_nan, true},
    {"padded inside", padded_inside, false},
    {"padded, flipped", padded_flipped, false},
    {"padded, every second", padded_seconds, false},
    {"windows", windows, true},
    {"windows, padded inside", windows_inside, false},
    {"reflected", reflected, false},
    {"lines made one", lines_made_one, false},
    {"cropped", cropped, true},
    {"spread", spread, true},
    {"joined rows", joined_rows, true},
    {"joined lines", joined_lines, true},
    {"joined columns", joined_columns, true},
    {"joined with padding", joined_with_padding, false},
    {"joined, unlike", joined_unlike, true},
    {"gathered, apart", gathered_apart, true},
    {"gathered rows", gathered_rows, true},
    {"gathered lines", gathered_lines, true},
    {"gathered columns", gathered_columns, false},
    {"gathered, spread", gathered_spread, false},
    {"many gathered columns", gathered_far_columns, false},
    {"many gathered rows", gathered_many, true},
};
enum { MOVES = sizeof moves / sizeof *moves };

static void *computed(const char *device, int threads, ls_dtype dtype, int which, size_t *out_bytes) {
    world w = world_open_with(device, threads, NULL);
    ls_session *s = w.session;
    ls_tensor *x = ls_input(s, "x", dtype, LS_SHAPE(ROWS, LINES, INNER)), *y = moves[which].f(s, x);
    assert_non_null(y);
    ls_program *program;
    world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &program));
    *out_bytes = ls_tensor_bytes(s, y);
    void *result = malloc(*out_bytes);
    memset(result, 0xa5, *out_bytes);
    world_ok(&w, ls_program_run(program, (const void *[]){bits}, (void *[]){result}));
    ls_program_destroy(program);
    world_close(&w);
    return result;
}

static void bits_are_those_of_ref(void **state) {
    (void)state;
    static const ls_dtype dtypes[] = {LS_F32, LS_I32, LS_F64, LS_U8, LS_F16};
    fill();
    for (int which = 0; which < MOVES; which++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            size_t bytes, again;
            void *expected = computed("ref", 1, dtypes[d], which, &bytes);
            for (int threads = 1; threads <= 3; threads += 2) {
                void *found = computed("cpu", threads, dtypes[d], which, &again);
                assert_int_equal(bytes, again);
                if (memcmp(expected, found, bytes) != 0) {
                    fail_msg("%s of %s differs on %d threads", moves[which].name, ls_dtype_name(dtypes[d]), threads);
                }
                free(found);
            }
            free(expected);
        }
    }
}

typedef struct found {
    char text[1 << 16];
    size_t n;
} found;
static void collect(void *user, const char *text, size_t size) {
    found *f = user;
    size = size < sizeof f->text - 1 - f->n ? size : sizeof f->text - 1 - f->n;
    memcpy(f->text + f->n, text, size);
    f->n += size;
}

static void rows_are_moved(void **state) {
    (void)state;
    static found f;
    fill();
    for (int which = 0; which < MOVES; which++) {
        world w = world_open_with("cpu", 1, NULL);
        ls_tensor *x = ls_input(w.session, "x", LS_F32, LS_SHAPE(ROWS, LINES, INNER)), *y = moves[which].f(w.session, x);
        memset(&f, 0, sizeof f);
        world_ok(&w, ls_inspect(w.session, &y, 1, LS_INSPECT_KERNELS, collect, &f));
        if (!strstr(f.text, ", moved") != !moves[which].moved) {
            fail_msg("%s: %s", moves[which].name, f.text);
        }
        world_close(&w);
    }
}

/* The number of rows is known when a program runs: kernels are compiled for all of them. */
static void rows_may_be_a_symbol(void **state) {
    (void)state;
    static char with_symbol[ROWS * LINES * INNER * 16], fixed[sizeof with_symbol];
    fill();
    world w = world_open_with("cpu", 2, NULL);
    ls_session *s = w.session;
    ls_error err = {0};
    ls_symbol *symbol = ls_symbol_create(w.context, "N", ROWS, &err);
    assert_non_null(symbol);
    const ls_shape shape = {.rank = 3, .dim = {ls_dim_symbol(symbol, 1, 0), ls_dim_of(LINES), ls_dim_of(INNER)}};
    for (int which = 0; which < MOVES; which++) {
        if (moves[which].f != padded && moves[which].f != joined_lines && moves[which].f != joined_columns && moves[which].f != gathered_lines) {
            continue;
        }
        ls_tensor *x = ls_input(s, "x", LS_F32, shape), *y = moves[which].f(s, x);
        ls_program *program;
        world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &program));
        for (int64_t n = 1; n <= ROWS; n += 15) {
            world_ok(&w, ls_symbol_bind(s, symbol, n));
            world_ok(&w, ls_program_run(program, (const void *[]){bits}, (void *[]){with_symbol}));
            ls_tensor *same = moves[which].f(s, ls_tensor_from(s, LS_F32, LS_SHAPE(n, LINES, INNER), bits));
            const size_t bytes = ls_tensor_bytes(s, same);
            assert_true(bytes <= sizeof fixed);
            world_ok(&w, ls_read(s, same, fixed, bytes));
            if (memcmp(with_symbol, fixed, bytes) != 0) {
                fail_msg("%s differs for %d rows", moves[which].name, (int)n);
            }
        }
        ls_program_destroy(program);
    }
    world_close(&w);
}

/* What such a place would have is NaN, and all else is right. */
static void places_that_are_not_there_are_reported(void **state) {
    (void)state;
    fill();
    for (int i = 0; i < 4; i++) {
        const bool columns = i >= 2;
        char *results[3];
        size_t bytes = 0;
        places[MANY / 2] = i % 2 ? -1 : columns ? LINES * INNER : ROWS;
        for (int run = 0; run < 3; run++) {
            world w = world_open_with(run ? "cpu" : "ref", 1 + run, NULL);
            ls_session *s = w.session;
            ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(ROWS, LINES, INNER));
            ls_tensor *y = columns ? gathered_far_columns(s, x) : gathered_many(s, x);
            ls_program *program;
            world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &program));
            bytes = ls_tensor_bytes(s, y);
            results[run] = malloc(bytes);
            assert_int_equal(ls_program_run(program, (const void *[]){bits}, (void *[]){results[run]}), LS_ERR_RANGE);
            assert_non_null(strstr(ls_session_error(s)->message, "out of range"));
            ls_program_destroy(program);
            world_close(&w);
        }
        assert_memory_equal(results[0], results[1], bytes);
        assert_memory_equal(results[0], results[2], bytes);
        for (int run = 0; run < 3; run++) {
            free(results[run]);
        }
    }
}

/* What is stored past the caches, from no line's beginning on. */
static void large_results_are_whole(void **state) {
    (void)state;
    enum { HIGH = 1030, WIDE = 4099, LOW = 3 };
    float *x = malloc(sizeof *x * HIGH * WIDE), *y = malloc(sizeof *y * HIGH * (WIDE + LOW));
    const uint32_t odd = UINT32_C(0xffc00123), nan = UINT32_C(0x7fc00000);
    for (int i = 0; i < HIGH * WIDE; i++) {
        x[i] = (float)i;
        if (i % 13 == 5) {
            memcpy(&x[i], &odd, sizeof odd);
        }
    }
    world w = world_open_with("cpu", 2, NULL);
    ls_tensor *in = ls_input(w.session, "x", LS_F32, LS_SHAPE(HIGH, WIDE)), *out = ls_pad(w.session, in, (const ls_pad_spec[]){{0}, {LOW, 0, 0}}, -1);
    ls_program *program;
    world_ok(&w, ls_program_compile(w.session, &in, 1, &out, 1, &program));
    world_ok(&w, ls_program_run(program, (const void *[]){x}, (void *[]){y}));
    for (int i = 0; i < HIGH; i++) {
        for (int j = 0; j < WIDE + LOW; j++) {
            const float *found = &y[i * (WIDE + LOW) + j];
            const int from = i * WIDE + j - LOW;
            if (j >= LOW && from % 13 == 5 ? memcmp(found, &nan, sizeof nan) != 0 : *found != (j < LOW ? -1 : (float)from)) {
                fail_msg("element %d of row %d is %g", j, i, (double)*found);
            }
        }
    }
    ls_program_destroy(program);
    world_close(&w);
    free(x);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_ref),
        cmocka_unit_test(rows_are_moved),
        cmocka_unit_test(rows_may_be_a_symbol),
        cmocka_unit_test(large_results_are_whole),
        cmocka_unit_test(places_that_are_not_there_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
