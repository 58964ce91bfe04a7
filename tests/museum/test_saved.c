/* Museum case 1b, through files: a network trained on the CPU, saved, and loaded on the reference gives the
 * same logits. Its fault, the weights of one filter stored in another order, is caught by the same
 * comparison. */
#define _GNU_SOURCE
#include "support/world.h"
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 4, PIXELS = 28 * 28 };

static ls_tensor *images(world *w) {
    static float x[N * PIXELS];
    for (int i = 0; i < N * PIXELS; i++) {
        x[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    }
    return ls_tensor_from(w->session, LS_F32, LS_SHAPE(N, 1, 28, 28), x);
}

static ls_data *logits(world *w, ls_params *p) {
    ls_data *data = NULL;
    ls_tensor *y = ls_nn_network(w->session, p, "mnist:small", images(w));
    world_ok(w, y ? ls_data_from_tensor(w->session, y, &data) : ls_session_error(w->session)->code);
    return data;
}

static void train_two_steps(world *w, ls_params *p) {
    static const int32_t labels[N] = {3, 1, 4, 1};
    ls_optimizer *o = NULL;
    ls_tensor *start = ls_nn_network(w->session, p, "mnist:small", images(w)); /* makes the parameters */
    assert_non_null(start);
    world_ok(w, ls_optimizer_create(w->session, p, &(ls_optimizer_options){.kind = LS_OPTIM_ADAM}, &o));
    for (int step = 0; step < 2; step++) {
        ls_tensor *y = ls_nn_network(w->session, p, "mnist:small", images(w));
        ls_tensor *loss =
            ls_cross_entropy(w->session, y, ls_tensor_from(w->session, LS_I32, LS_SHAPE(N), labels));
        world_ok(w, ls_optimizer_step(w->session, o, loss, ls_full(w->session, LS_F32, LS_SCALAR, 0.01)));
        world_ok(w, ls_realize(w->session, &loss, 1));
    }
    ls_optimizer_destroy(o);
}

/* The first filter that has several taps, transposed in its last two axes: same shape, same bytes, another
 * order. */
static void reorder_weights(world *w, ls_params *p) {
    for (int i = 0; i < ls_params_count(p); i++) {
        ls_var *v = ls_params_at(p, i);
        if (ls_var_shape(v).rank == 4) {
            ls_tensor *turned = ls_transpose(w->session, ls_var_value(w->session, v), 2, 3);
            world_ok(w, ls_var_assign(w->session, v, turned));
            world_ok(w, ls_realize(w->session, NULL, 0));
            return;
        }
    }
    fail_msg("mnist:small has no filter");
}

static void trained_saved_loaded(void **state) {
    (void)state;
    char path[] = "/tmp/lockstep-museum-XXXXXX", file[64];
    assert_non_null(mkdtemp(path));
    snprintf(file, sizeof file, "%s/w.safetensors", path);
    world here = world_open("cpu"), there = world_open("ref");
    ls_params *trained = NULL, *loaded = NULL;
    ls_error err = {.code = LS_OK};
    world_ok(&here, ls_params_create(here.session, 7, &trained));
    world_ok(&there, ls_params_create(there.session, 8, &loaded));
    train_two_steps(&here, trained);
    assert_int_equal(ls_params_save(here.session, trained, file, &err), LS_OK);
    ls_data *expected = logits(&here, trained), *fresh = logits(&there, loaded);
    ls_report r;
    assert_int_equal(ls_compare(expected, fresh, &r), LS_DIFFERS); /* other weights, so far */
    if (ls_params_load(there.session, loaded, file, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_data *actual = logits(&there, loaded);
    LS_ASSERT_SAME(expected, actual, &r, fail_msg("loaded on ref: %s", r.message));
    reorder_weights(&there, loaded);
    ls_data *planted = logits(&there, loaded);
    assert_int_equal(ls_compare(expected, planted, &r), LS_DIFFERS);
    assert_non_null(strstr(r.message, "expected"));
    ls_data_release(expected);
    ls_data_release(fresh);
    ls_data_release(actual);
    ls_data_release(planted);
    ls_params_destroy(trained);
    ls_params_destroy(loaded);
    world_close(&here);
    world_close(&there);
    remove(file);
    rmdir(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(trained_saved_loaded)};
    return cmocka_run_group_tests_name("saved", tests, NULL, NULL);
}
