/* States of real models stay on the device between runs, with the bits of passing them by hand: a decoder's cache, which grows, and
 * Silero VAD's, which does not. On LOCKSTEP_DEVICE, else `cpu`. */
#include "onnx/running.h"

enum { LAYERS = 5, HEADS = 4, DEPTH = 8, WORDS = 1000, TOKENS = 40, FRAMES = 100 };

/* One step of the decoder: the next n tokens behind a cache of `first` entries. */
static ls_data *decode(running *r, const int32_t *tokens, int first, int n) {
    int32_t positions[TOKENS], mask[TOKENS];
    for (int i = 0; i < n; i++) {
        positions[i] = first + i;
    }
    for (int i = 0; i < first + n; i++) {
        mask[i] = 1;
    }
    const int64_t now[2] = {1, n}, all[2] = {1, first + n};
    const ls_named_data inputs[3] = {{"input_ids", array(&r->w, LS_I32, 2, now, tokens + first)},
                                     {"position_ids", array(&r->w, LS_I32, 2, now, positions)},
                                     {"attention_mask", array(&r->w, LS_I32, 2, all, mask)}};
    ls_data *out[1 + LAYERS];
    world_ok(&r->w, ls_runner_run(r->runner, 3, inputs, out));
    for (int i = 0; i < 3; i++) {
        ls_data_release((ls_data *)inputs[i].data);
    }
    for (int i = 1; i <= LAYERS; i++) {
        assert_null(out[i]);
    }
    return out[0];
}

static void test_cache(void **state) {
    (void)state;
    static const char *const past[LAYERS] = {"past_0", "past_1", "past_2", "past_3", "past_4"},
                             *const present[LAYERS] = {"present_0", "present_1", "present_2", "present_3", "present_4"};
    const int64_t dims[5] = {2, 1, HEADS, 0, DEPTH};
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (17 + 512 * i * i + 3 * i) % WORDS;
    }
    running once = start(world_device(), "genai-tiny-random-gpt2-past.onnx"), r = start(world_device(), "genai-tiny-random-gpt2-past.onnx");
    for (int k = 0; k < 2; k++) {
        running *one = k ? &r : &once;
        ls_data *nothing = array(&one->w, LS_F32, 5, dims, NULL);
        for (int i = 0; i < LAYERS; i++) {
            world_ok(&one->w, ls_runner_bind_state(one->runner, present[i], past[i], nothing));
        }
        ls_data_release(nothing);
    }
    ls_data *whole = decode(&once, tokens, 0, TOKENS);
    for (int i = 0; i < TOKENS; i++) {
        uint64_t before = ls_session_get_stats(r.w.session).compiles;
        ls_data *out = decode(&r, tokens, i, 1);
        assert_true(i < 2 || ls_session_get_stats(r.w.session).compiles == before); /* none after the second token */
        assert_memory_equal(ls_data_bytes(out), (const float *)ls_data_bytes(whole) + i * WORDS, WORDS * sizeof(float));
        ls_data_release(out);
    }
    for (int k = 0; k < LAYERS; k++) {
        ls_data *cache, *expected;
        ls_report report;
        world_ok(&r.w, ls_runner_read_state(r.runner, past[k], &cache));
        world_ok(&once.w, ls_runner_read_state(once.runner, past[k], &expected));
        LS_ASSERT_SAME(expected, cache, &report, fail_msg("cache %d: %s", k, report.message));
        ls_data_release(cache);
        ls_data_release(expected);
    }
    ls_data_release(whole);
    stop(&once);
    stop(&r);
}

static void test_silero(void **state) {
    (void)state;
    const char *path = "build/data/models/silero/weights/silero_vad_16k_op15.onnx";
    if (access(path, R_OK) != 0) {
        print_message("no %s; `make models` fetches it\n", path);
        skip();
    }
    static float frame[576], zeros[256];
    const int64_t rate = 16000, frame_dims[2] = {1, 576}, state_dims[3] = {2, 1, 128};
    world w = world_open_with(world_device(), 1, NULL);
    ls_error err = {.code = LS_OK};
    ls_model *model = NULL;
    ls_runner *kept, *by_hand;
    if (ls_model_load(w.context, path, &model, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    world_ok(&w, ls_runner_create(w.session, model, &kept));
    world_ok(&w, ls_runner_create(w.session, model, &by_hand));
    ls_data *sr = array(&w, LS_I64, 0, NULL, &rate), *s = array(&w, LS_F32, 3, state_dims, zeros), *last;
    world_ok(&w, ls_runner_bind_state(kept, "stateN", "state", s));
    for (int i = 0; i < FRAMES; i++) {
        ls_data *a[2], *b[2];
        for (int k = 0; k < 576; k++) { /* a chirp */
            frame[k] = (float)((i * 576 + k) * (long)(i * 3 + k) % 2003) / 2003 - 0.5f;
        }
        ls_data *x = array(&w, LS_F32, 2, frame_dims, frame);
        world_ok(&w, ls_runner_run(kept, 2, (const ls_named_data[]){{"input", x}, {"sr", sr}}, a));
        world_ok(&w, ls_runner_run(by_hand, 3, (const ls_named_data[]){{"input", x}, {"sr", sr}, {"state", s}}, b));
        assert_memory_equal(ls_data_bytes(a[0]), ls_data_bytes(b[0]), sizeof(float));
        assert_null(a[1]);
        ls_data_release(a[0]);
        ls_data_release(b[0]);
        ls_data_release(x);
        ls_data_release(s);
        s = b[1];
    }
    world_ok(&w, ls_runner_read_state(kept, "state", &last));
    assert_memory_equal(ls_data_bytes(last), ls_data_bytes(s), sizeof zeros);
    assert_memory_not_equal(ls_data_bytes(last), zeros, sizeof zeros);
    ls_data_release(last);
    ls_data_release(s);
    ls_data_release(sr);
    ls_runner_destroy(kept);
    ls_runner_destroy(by_hand);
    ls_model_release(model);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cache), cmocka_unit_test(test_silero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
