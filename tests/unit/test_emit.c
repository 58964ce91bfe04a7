/* Emitted kernels against ref over the conformance rows. LOCKSTEP_ROWS=text runs the rows whose description contains it. */
#include "test_emit.h"
#include "support/rows.h"

static void rows(void **state) {
    (void)state;
    long count;
    row *list = rows_pairwise(&count);
    const char *only = getenv("LOCKSTEP_ROWS");
    for (long i = 0; i < count; i++) {
        char text[256];
        rows_describe(&list[i], text, sizeof text);
        long n = (long)ls_row_size(&list[i]);
        bool chosen = only ? strstr(text, only) != NULL : n <= 600 || i % 4 == 0;
        if (!ls_row_valid(&list[i]) || !chosen) {
            continue;
        }
        world w = open_checked();
        ls_tensor *t = ls_row_build(w.session, &list[i]);
        ls_data *data = NULL;
        total.rows++;
        if (!t || ls_data_from_tensor(w.session, t, &data) != LS_OK) {
            if (total.failed++ < 200) {
                fprintf(stderr, "row {%s}: %s\n", text, ls_session_error(w.session)->message);
            }
        }
        ls_data_release(data);
        world_close(&w);
    }
    free(list);
    printf("rows run: %ld; specs: %ld as %ld kernels of %ld instructions (%ld specs of several kernels, %ld kernels with shared"
           " memory, %ld of one thread); failed: %ld\n",
           total.rows, total.specs, total.kernels, total.instructions, total.several, total.workgroups, total.serial, total.failed);
    for (int i = 0; i < 16 && total.reasons[i].count; i++) {
        printf("unsupported: %ld: %s\n", total.reasons[i].count, total.reasons[i].text);
    }
    assert_int_equal(total.failed, 0);
    assert_true(total.specs > 0);
    if (!only) {
        assert_true(total.several > 0 && total.workgroups > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests_name("emit", tests, NULL, NULL);
}
