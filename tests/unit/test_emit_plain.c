/* What a library is told of a product: computed by nothing but those sizes and strides, it is what ref computed. */
#include "emit/emit.h"
#include "engine/session.h"
#include "support/world.h"
#include <stdio.h>
#include <string.h>

static char reason[128];
static int plain;

static ls_status before(const ls_check_event *event, void **out_state, ls_error *err) {
    (void)event, (void)err;
    *out_state = NULL;
    return LS_OK;
}
static void drop(const ls_check_event *event, void *state) {
    (void)event, (void)state;
}

static const float *arg_of(const ls_check_event *event, int arg) {
    return (const float *)(const void *)((const char *)event->launch->args[arg]->handle + event->launch->offsets[arg]);
}

static ls_status after(const ls_check_event *event, void *state, ls_error *err) {
    ls_arena arena;
    ls_emit_matrices x;
    const char *why;
    (void)state;
    ls_arena_init(&arena, &event->session->context->heap);
    LS_TRY(err, ls_emit_plain(&arena, event->spec, &x, &why, err));
    ls_arena_free(&arena);
    if (event->spec->kind == LS_GROUP_CONTRACT) {
        snprintf(reason, sizeof reason, "%s", why ? why : "");
    }
    if (why) {
        return LS_OK;
    }
    plain++;
    const float *a = arg_of(event, x.arg[0]), *b = arg_of(event, x.arg[1]), *c = arg_of(event, x.arg[2]);
    for (int64_t at = 0; at < x.batch * x.m * x.n; at++) {
        int64_t i = at / x.n % x.m, j = at % x.n, batch = at / x.n / x.m;
        float sum = 0;
        for (int64_t k = 0; k < x.k; k++) {
            sum += a[x.first[0] + batch * x.next[0] + i * x.row[0] + k * x.column[0]] *
                   b[x.first[1] + batch * x.next[1] + k * x.row[1] + j * x.column[1]];
        }
        assert_true(sum == c[x.first[2] + batch * x.next[2] + i * x.row[2] + j * x.column[2]]);
    }
    return LS_OK;
}
static const ls_check_hooks hooks = {before, after, drop};

static ls_tensor *numbers(ls_session *s, ls_shape shape) {
    static float x[4096];
    for (int i = 0; i < 4096; i++) {
        x[i] = (float)(i * 7 % 11) - 5;
    }
    return ls_tensor_from(s, LS_F32, shape, x);
}
#define X(...) numbers(s, LS_SHAPE(__VA_ARGS__))

static ls_tensor *graph(ls_session *s, int which) {
    ls_contract_spec turned = {.n_contract = 1, .contract_a = {0}, .contract_b = {1}};
    ls_contract_spec two = {.n_contract = 2, .contract_a = {1, 2}, .contract_b = {0, 1}};
    ls_conv_spec conv = {.spatial = 2}, padded = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    switch (which) {
    case 0: return ls_matmul(s, X(5, 7), X(7, 9));
    case 1: return ls_matmul(s, X(3, 5, 7), ls_permute(s, X(3, 9, 7), (const int[]){0, 2, 1}));
    case 2: return ls_contract(s, X(7, 5), X(9, 7), &turned, LS_F32);
    case 3: return ls_contract(s, X(5, 3, 4), X(3, 4, 6), &two, LS_F32);
    case 4: return ls_matmul(s, ls_narrow(s, X(9, 12), 1, 4, 7), X(7, 5));
    case 5: return ls_matmul(s, X(1, 7), X(7, 9));
    case 6: return ls_matmul(s, X(5, 1), X(1, 9));
    case 7: return ls_conv(s, X(2, 4, 6, 6), X(8, 4, 3, 3), NULL, &conv);
    case 8: return ls_matmul(s, X(2, 3, 5, 7), X(2, 3, 7, 4));
    case 9: return ls_conv(s, X(2, 4, 6, 6), X(8, 4, 3, 3), NULL, &padded);
    case 10: return ls_add(s, ls_matmul(s, X(5, 7), X(7, 9)), X(9));
    case 11: return ls_matmul(s, ls_neg(s, X(5, 7)), X(7, 9));
    default: return ls_sum(s, X(5, 7), 0, NULL, 0);
    }
}

static void products(void **state) {
    (void)state;
    enum { PLAIN = 9, GRAPHS = 13 };
    static const char *const says[] = {"computed on the way", "fused with it", "computed on the way"};
    static unsigned char out[8192];
    world w = world_open("ref");
    ls_engine_set_check(w.context, LS_CHECK_BITS, &hooks);
    world_ok(&w, ls_session_set_strategy(w.session, "conv", "im2col"));
    for (int which = 0; which < GRAPHS; which++) {
        plain = 0;
        reason[0] = 0;
        ls_tensor *y = graph(w.session, which);
        world_ok(&w, ls_read(w.session, y, out, ls_tensor_bytes(w.session, y)));
        if (plain != (which < PLAIN)) {
            fail_msg("graph %d: %s", which, reason);
        }
        if (which >= PLAIN && which < GRAPHS - 1 && !strstr(reason, says[which - PLAIN])) {
            fail_msg("graph %d: \"%s\"", which, reason);
        }
    }
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products)};
    return cmocka_run_group_tests_name("emit_plain", tests, NULL, NULL);
}
