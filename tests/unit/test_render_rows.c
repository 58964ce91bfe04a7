/* The kernels of the conformance rows, and of a graph for each template, as PTX and as SPIR-V for devices of three kinds, judged by
 * NVIDIA's assembler and by spirv-val. LOCKSTEP_RENDERED=all takes all rows, else every 8th; LOCKSTEP_ROWS=text those whose
 * description contains it. */
#include "emit/emit.h"
#include "engine/session.h"
#include "support/covers.h"
#include "support/rendered.h"
#include "support/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long kernels, unsupported, failed;
static uint32_t covered;

static ls_status before(const ls_check_event *event, void **out_state, ls_error *err) {
    /* a subgroup's shuffles by turns; matrix instructions, which locked kernels never use */
    const ls_emit_caps caps = {.max_threads = 1024,
                               .max_shared = event->spec->math == LS_FAST ? 232448 : 49152,
                               .subgroup = kernels % 2 || event->spec->math != LS_LOCKED ? 32 : 0,
                               .n_frags = 1,
                               .frags = {{LS_F16, 16, 16, 16}},
                               .frag_words = true,
                               .products = true};
    ls_arena arena;
    ls_kernel_list list = {0};
    ls_error own = {.code = LS_OK};
    ls_arena_init(&arena, &event->session->context->heap);
    *out_state = NULL;
    ls_status status = ls_emit(&arena, event->spec, &caps, NULL, &list, &own);
    if (status == LS_ERR_UNSUPPORTED) {
        unsupported++;
        status = LS_OK;
        list.n_kernels = 0;
    }
    covered |= list.cover;
    for (int i = 0; i < list.n_kernels && status == LS_OK; i++) {
        kernels++;
        status = rendered_add(&list.kernels[i].kernel, &own);
    }
    ls_arena_free(&arena);
    return status == LS_OK ? LS_OK : LS_FAIL(err, status, "%s", own.message);
}
static ls_status after(const ls_check_event *event, void *state, ls_error *err) {
    (void)event, (void)state, (void)err;
    return LS_OK;
}
static void drop(const ls_check_event *event, void *state) {
    (void)event, (void)state;
}
static const ls_check_hooks hooks = {before, after, drop};

static void realize(world *w, ls_tensor *t, const char *what) {
    ls_data *data = NULL;
    if ((!t || ls_data_from_tensor(w->session, t, &data) != LS_OK) && failed++ < 100) {
        fprintf(stderr, "%s: %s\n", what, ls_session_error(w->session)->message);
    }
    ls_data_release(data);
}

static void rows(void **state) {
    (void)state;
    const char *all = getenv("LOCKSTEP_RENDERED"), *only = getenv("LOCKSTEP_ROWS");
    long count, run = 0;
    row *list = rows_pairwise(&count);
    for (int i = 0; i < 2 * LS_COVERS && !only; i++) {
        world w = world_open("ref");
        ls_session_set_math(w.session, i % 2 ? LS_FAST : LS_LOCKED);
        ls_engine_set_check(w.context, LS_CHECK_BITS, &hooks);
        realize(&w, covers_build(w.session, (ls_cover)(i / 2), LS_F16), ls_cover_text[i / 2]);
        world_close(&w);
    }
    uint32_t launches =
        1u << LS_COVER_LAUNCH_BASE | 1u << LS_COVER_LAUNCH_ALIAS | 1u << LS_COVER_LAUNCH_MERGED;
    for (int i = 0; i < LS_COVERS && !only; i++) {
        if (!((covered | launches) >> i & 1)) {
            fail_msg("the graph for it does not use this template: %s", ls_cover_text[i]);
        }
    }
    for (long i = 0; i < count; i++) {
        char text[256];
        rows_describe(&list[i], text, sizeof text);
        if (!ls_row_valid(&list[i]) || (only ? !strstr(text, only) : !all && i % 8)) {
            continue;
        }
        world w = world_open("ref");
        ls_session_set_math(w.session, run++ % 4 == 3 ? LS_FAST : LS_LOCKED);
        ls_engine_set_check(w.context, LS_CHECK_BITS, &hooks);
        realize(&w, ls_row_build(w.session, &list[i]), text);
        world_close(&w);
    }
    free(list);
    printf("rows run: %ld; %ld kernels; %ld specs without lowering\n", run, kernels, unsupported);
    long refused = rendered_finish();
    assert_int_equal(failed, 0);
    assert_int_equal(refused, 0);
    assert_true(kernels > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests_name("render_rows", tests, NULL, NULL);
}
