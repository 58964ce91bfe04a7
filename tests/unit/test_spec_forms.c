/* The normal forms of index expressions, each by name: what a mutant of index.c would lose without being
 * wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "spec/build.h"

typedef struct forms {
    ls_heap heap;
    ls_arena arena;
    ls_spec spec;
    ls_spec_builder b;
    ls_error err;
    ls_dim extents[2];
    ls_value values[1];
} forms;

/* Axes i:48 and j:5; value 0 is an i64 of which nothing is known. */
static void open_forms(forms *f) {
    memset(f, 0, sizeof *f);
    ls_heap_init(&f->heap, NULL, 0);
    ls_arena_init(&f->arena, &f->heap);
    f->extents[0] = ls_dim_of(48);
    f->extents[1] = ls_dim_of(5);
    f->values[0] = (ls_value){.op = LS_V_LOAD, .dtype = LS_I64};
    f->spec = (ls_spec){.n_axes = 2, .extents_of_axes = f->extents, .n_values = 1, .values = f->values};
    f->b = (ls_spec_builder){.arena = &f->arena, .err = &f->err, .spec = &f->spec};
}

static void nested_divisions(void **state) {
    (void)state;
    forms f;
    open_forms(&f);
    ls_spec_builder *b = &f.b;
    int32_t i = ls_ix_axis(b, 0), j = ls_ix_axis(b, 1);
    /* (i mod 12) mod 4 = i mod 4, since 4 divides 12; and not (i mod 10) mod 4 */
    assert_int_equal(ls_ix_mod(b, ls_ix_mod(b, i, ls_ix_const(b, 12)), ls_ix_const(b, 4)),
                     ls_ix_mod(b, i, ls_ix_const(b, 4)));
    assert_int_not_equal(ls_ix_mod(b, ls_ix_mod(b, i, ls_ix_const(b, 10)), ls_ix_const(b, 4)),
                         ls_ix_mod(b, i, ls_ix_const(b, 4)));
    /* (5 i + j) div 5 = i and mod 5 = j */
    int32_t both = ls_ix_add(b, ls_ix_scale(b, i, 5), j);
    assert_int_equal(ls_ix_div(b, both, ls_ix_const(b, 5)), i);
    assert_int_equal(ls_ix_mod(b, both, ls_ix_const(b, 5)), j);
    assert_int_equal(ls_ix_mod(b, i, ls_ix_const(b, 48)), i);
    assert_int_equal(b->status, LS_OK);
    ls_arena_free(&f.arena);
}

static void what_is_unknown_stays_unknown(void **state) {
    (void)state;
    forms f;
    open_forms(&f);
    ls_spec_builder *b = &f.b;
    int32_t v = ls_ix_value(b, 0), half = ls_ix_div(b, v, ls_ix_const(b, 2)),
            rest = ls_ix_mod(b, v, ls_ix_const(b, 2));
    assert_true(f.spec.ix[v].lo == INT64_MIN && f.spec.ix[v].hi == INT64_MAX);
    assert_true(f.spec.ix[half].lo == INT64_MIN && f.spec.ix[half].hi == INT64_MAX);
    assert_true(f.spec.ix[rest].lo == 0 && f.spec.ix[rest].hi == 1);
    ls_arena_free(&f.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nested_divisions),
                                       cmocka_unit_test(what_is_unknown_stays_unknown)};
    return cmocka_run_group_tests_name("spec_forms", tests, NULL, NULL);
}
