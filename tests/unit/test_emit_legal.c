/* Emitted kernels, made legal for devices that lack much and run on one that is wrong wherever it may be, against ref: over
 * a part of the conformance rows and over networks. LOCKSTEP_ROWS=text runs the rows whose description contains it. */
#include "test_emit.h"
#include "support/rows.h"

static const uint32_t sets[] = {
    0,
    LS_KT_INT64 | LS_KT_FLOAT64 | LS_KT_BYTES | LS_KT_HALVES | LS_KT_FLOAT_BITS | LS_KT_UNFUSED32 |
        LS_KT_DIV32 | LS_KT_SQRT32 | LS_KT_ROUND32 | LS_KT_CAST32,
    LS_KT_FLOAT_BITS | LS_KT_ROUND32 | LS_KT_CAST32,
    LS_KT_ALL & ~LS_KT_UNFUSED32,
};

static void rows(void **state) {
    (void)state;
    long count;
    row *list = rows_pairwise(&count);
    const char *only = getenv("LOCKSTEP_ROWS");
    for (long i = 0; i < count; i++) {
        char text[256];
        rows_describe(&list[i], text, sizeof text);
        long n = (long)ls_row_size(&list[i]);
        bool chosen = only ? strstr(text, only) != NULL : n <= 600 && i % 2 == 0;
        if (!ls_row_valid(&list[i]) || !chosen) {
            continue;
        }
        world w = open_checked();
        ls_tensor *t = ls_row_build(w.session, &list[i]);
        ls_data *data = NULL;
        total.rows++;
        if (!t || ls_data_from_tensor(w.session, t, &data) != LS_OK) {
            if (total.failed++ < 50) {
                fprintf(stderr, "row {%s}: %s\n", text, ls_session_error(w.session)->message);
            }
        }
        ls_data_release(data);
        world_close(&w);
    }
    free(list);
    printf("rows run: %ld; kernels: %ld, legal for a set each, %ld refused; instructions: %ld, legal %ld; "
           "failed: %ld\n",
           total.rows, total.legal, total.refused, total.before_legal, total.after_legal, total.failed);
    for (int i = 0; i < 16 && total.reasons[i].count; i++) {
        printf("unsupported: %ld: %s\n", total.reasons[i].count, total.reasons[i].text);
    }
    assert_int_equal(total.failed, 0);
    assert_true(total.legal > total.refused * 4 && total.legal > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    total.sets = sets;
    total.n_sets = sizeof sets / sizeof *sets;
    return cmocka_run_group_tests_name("emit_legal", tests, NULL, NULL);
}
