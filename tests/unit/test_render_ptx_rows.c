/* The kernels of the conformance rows as PTX: all of them are rendered, and those that differ go to the assembler, several in
 * one file. LOCKSTEP_PTX=all takes all rows, else every 8th; LOCKSTEP_ROWS=text those whose description contains it. */
#define _POSIX_C_SOURCE 200809L
#include "support/rows.h"
#include "emit/emit.h"
#include "engine/session.h"
#include "kir/legal.h"
#include "render/render.h"
#include "unit/ptx_assemble.h"

enum { BATCH = 100, SEEN = 1 << 16 };

typedef struct tally {
    long rows, kernels, different, assembled, unsupported;
    uint64_t seen[SEEN];
    ls_heap heap;
    ls_text batch;
    int in_batch;
} tally;
static tally total;

static uint64_t hash_of(const char *text) {
    uint64_t h = 1469598103934665603u;
    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    }
    return h ? h : 1;
}

static bool is_new(const char *text) {
    uint64_t h = hash_of(text);
    for (uint64_t i = h % SEEN;; i = (i + 1) % SEEN) {
        if (total.seen[i] == h) {
            return false;
        }
        if (!total.seen[i]) {
            total.seen[i] = h;
            return total.different++ < SEEN / 2;
        }
    }
}

static void assemble(void) {
    if (total.in_batch && ptx_assembler()) {
        ptx_assembles("rows", total.batch.data);
        total.assembled += total.in_batch;
    }
    ls_text_free(&total.batch);
    total.in_batch = 0;
}

/* The same text, its names made its own. */
static void add_to_batch(const char *text) {
    static const char *const names[] = {"main", "shared"};
    const char *at = strstr(text, ".address_size 64\n") + 17;
    if (!total.in_batch) {
        ls_text_add_n(&total.batch, text, (size_t)(at - text));
    }
    while (*at) {
        const char *next = at + 1;
        for (int i = 0; i < 2; i++) {
            size_t n = strlen(names[i]);
            bool word = strncmp(at, names[i], n) == 0 && at[-1] == ' ' && (at[n] == '(' || at[n] == '[' || at[n] == ';');
            if (word) {
                ls_text_printf(&total.batch, "%s%d", names[i], total.in_batch);
                at += n;
                next = at + 1;
            }
        }
        ls_text_add_n(&total.batch, at, 1);
        at = next;
    }
    if (++total.in_batch == BATCH) {
        assemble();
    }
}

static ls_status render(ls_arena *arena, const ls_kernel *kernel, ls_error *err) {
    static const ls_ptx_options options = {.sm = 90, .isa = 80};
    ls_kernel legal, simple;
    const ls_legal_param *params;
    ls_text text;
    LS_TRY(err, ls_kernel_legalize(arena, kernel, LS_KT_ALL, &legal, &params, err));
    LS_TRY(err, ls_kernel_simplify(arena, &legal, NULL, &simple, err));
    ls_text_init(&text, &total.heap);
    ls_status status = ls_render_ptx(&text, &simple, &options, err);
    total.kernels++;
    if (status == LS_OK && is_new(text.data)) {
        add_to_batch(text.data);
    }
    ls_text_free(&text);
    return status;
}

static ls_status before(const ls_check_event *event, void **out_state, ls_error *err) {
    ls_arena arena;
    ls_kernel_list list;
    ls_error own = {.code = LS_OK};
    const ls_emit_caps caps = {.max_threads = 1024, .max_shared = 232448, .subgroup = 32};
    ls_arena_init(&arena, &total.heap);
    *out_state = NULL;
    ls_status status = ls_emit(&arena, event->spec, &caps, NULL, &list, &own);
    if (status == LS_ERR_UNSUPPORTED) {
        total.unsupported++;
        status = LS_OK;
        list.n_kernels = 0;
    }
    for (int i = 0; i < list.n_kernels && status == LS_OK; i++) {
        status = render(&arena, &list.kernels[i].kernel, &own);
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

static void rows(void **state) {
    (void)state;
    static const ls_check_hooks hooks = {before, after, drop};
    const char *all = getenv("LOCKSTEP_PTX"), *only = getenv("LOCKSTEP_ROWS");
    long count, failed = 0;
    row *list = rows_pairwise(&count);
    ls_heap_init(&total.heap, NULL, 0);
    ls_text_init(&total.batch, &total.heap);
    for (long i = 0; i < count; i++) {
        char text[256];
        rows_describe(&list[i], text, sizeof text);
        if (!rows_valid(&list[i]) || (only ? !strstr(text, only) : !all && i % 8)) {
            continue;
        }
        world w = world_open("ref");
        ls_engine_set_check(w.context, LS_CHECK_BITS, &hooks);
        ls_tensor *t = rows_build(w.session, &list[i]);
        ls_data *data = NULL;
        total.rows++;
        if ((!t || ls_data_from_tensor(w.session, t, &data) != LS_OK) && failed++ < 100) {
            fprintf(stderr, "row {%s}: %s\n", text, ls_session_error(w.session)->message);
        }
        ls_data_release(data);
        world_close(&w);
    }
    assemble();
    free(list);
    printf("rows run: %ld; %ld kernels, %ld different texts, %ld assembled; %ld specs without lowering\n", total.rows,
           total.kernels, total.different, total.assembled, total.unsupported);
    if (!ptx_assembler()) {
        printf("nothing was assembled: no ptxas in PATH or /usr/local/cuda/bin\n");
    }
    assert_int_equal(failed, 0);
    assert_true(total.different > 0);
    assert_int_equal(total.heap.used, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests_name("render_ptx_rows", tests, NULL, NULL);
}
