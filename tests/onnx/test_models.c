/* Real models from ../shared/models (or $LOCKSTEP_ONNX_MODELS): the digits' accuracy as their README says, the same bits on cpu and ref, a
 * decoder with a growing cache. Skipped where the files are not there. */
#define _GNU_SOURCE
#include "onnx/running.h"

static int largest(const ls_data *scores) {
    const float *x = ls_data_bytes(scores);
    int best = 0;
    assert_int_equal(ls_data_dtype(scores), LS_F32);
    assert_int_equal(ls_data_numel(scores), 10);
    for (int i = 1; i < 10; i++) {
        best = x[i] > x[best] ? i : best;
    }
    return best;
}

/* How many of the 10,000 digits a model knows. The first ten are computed on ref as well. */
static int count_right(const char *name, float mean, float deviation) {
    running cpu = start(world_device(), name), ref = start("ref", name);
    ls_dataset sets[2];
    ls_error err = {.code = LS_OK};
    if (ls_dataset_digits(cpu.w.context, "build/data/digits", &sets[0], &sets[1], &err) != LS_OK) {
        print_message("%s\n", err.message);
        stop(&cpu);
        stop(&ref);
        skip();
    }
    const char *input = ls_model_input(cpu.model, 0).name;
    int right = 0, n_in = ls_model_input_count(cpu.model);
    for (int i = 0; i < n_in; i++) { /* the others have defaults */
        assert_true(i == 0 || ls_model_input(cpu.model, i).has_default);
    }
    for (int part = 0; part < 2; part++) {
        int64_t n = ls_data_dims(sets[part].images)[0];
        const uint8_t *pixels = ls_data_bytes(sets[part].images), *labels = ls_data_bytes(sets[part].labels);
        for (int64_t i = 0; i < n; i++) {
            float x[784];
            for (int k = 0; k < 784; k++) {
                x[k] = ((float)pixels[i * 784 + k] / 255.0f - mean) / deviation;
            }
            ls_data *image = array(&cpu.w, LS_F32, 4, (const int64_t[]){1, 1, 28, 28}, x), *out = NULL,
                    *same = NULL;
            ls_named_data named = {input, image};
            if (part == 0 && i == 0) {
                world_ok(&cpu.w, ls_runner_prepare(cpu.runner, 1, &named));
                assert_non_null(ls_runner_program(cpu.runner));
                assert_int_equal(ls_runner_get_facts(cpu.runner).programs, 1);
            }
            world_ok(&cpu.w, ls_runner_run(cpu.runner, 1, &named, &out));
            right += largest(out) == labels[i];
            if (part == 0 && i < 10) {
                ls_report report;
                world_ok(&ref.w, ls_runner_run(ref.runner, 1, &named, &same));
                LS_ASSERT_SAME(out, same, &report, fail_msg("%s", report.message));
            }
            ls_data_release(image);
            ls_data_release(out);
            ls_data_release(same);
        }
    }
    assert_int_equal(ls_runner_get_facts(cpu.runner).programs, 1); /* one for all images */
    ls_dataset_release(&sets[0]);
    ls_dataset_release(&sets[1]);
    stop(&cpu);
    stop(&ref);
    return right;
}

/* 99.41 %, of a model from before training frameworks agreed on anything: its weights are inputs with defaults. */
static void test_wonnx_mnist(void **state) {
    (void)state;
    int right = count_right("wonnx-opt-mnist.onnx", 0, 1);
    print_message("%d of 10000\n", right);
    assert_int_equal(right, 9941);
}

static void test_burn_mnist(void **state) {
    (void)state;
    int right = count_right("burn-onnx-mnist.onnx", 0.1307f, 0.3081f);
    print_message("%d of 10000\n", right);
    assert_int_equal(right, 9979);
}

/* By two instruction sets; tests/slow compares with ref, which takes half a minute for it. */
static void test_residual_block(void **state) {
    (void)state;
    running best = start(world_device(), RESIDUAL_BLOCK);
    run_residual_block(best, start_with("cpu", "scalar", RESIDUAL_BLOCK));
}

enum { LAYERS = 5, HEADS = 4, DEPTH = 8, WORDS = 1000, MOST_TOKENS = 48 };

/* One step of the decoder: tokens first..first+n-1 behind a cache of `first` entries; out: logits and five new caches. */
static void decode(running *cpu, running *ref, const int32_t *tokens, int first, int n, ls_data *const *past,
                   ls_data **out) {
    static const char *const names[LAYERS] = {"past_0", "past_1", "past_2", "past_3", "past_4"};
    int32_t positions[MOST_TOKENS], mask[MOST_TOKENS];
    assert_in_range(first + n, 1, MOST_TOKENS);
    for (int i = 0; i < n; i++) {
        positions[i] = first + i;
    }
    for (int i = 0; i < first + n; i++) {
        mask[i] = 1;
    }
    const int64_t now[2] = {1, n}, all[2] = {1, first + n}, cache[5] = {2, 1, HEADS, first, DEPTH};
    ls_named_data inputs[3 + LAYERS] = {{"input_ids", array(&cpu->w, LS_I32, 2, now, tokens + first)},
                                        {"position_ids", array(&cpu->w, LS_I32, 2, now, positions)},
                                        {"attention_mask", array(&cpu->w, LS_I32, 2, all, mask)}};
    for (int i = 0; i < LAYERS; i++) {
        inputs[3 + i] = (ls_named_data){names[i], past ? ls_data_retain(past[i])
                                                       : array(&cpu->w, LS_F32, 5, cache, NULL)};
    }
    run_both("decoder", 3 + LAYERS, inputs, cpu, ref, out);
    for (int i = 0; i < 3 + LAYERS; i++) {
        ls_data_release((ls_data *)inputs[i].data);
    }
    assert_memory_equal(ls_data_dims(out[0]), ((const int64_t[]){1, n, WORDS}), 3 * sizeof(int64_t));
}

/* A prompt in one go, and one token after the other with the cache: the same bits, and after the second token nothing is compiled. */
static void test_decoder(void **state) {
    (void)state;
    enum { TOKENS = 40 };
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (17 + 512 * i * i + 3 * i) % WORDS;
    }
    running once[2] = {start(world_device(), "genai-tiny-random-gpt2-past.onnx"),
                       start("ref", "genai-tiny-random-gpt2-past.onnx")};
    running cpu = start(world_device(), "genai-tiny-random-gpt2-past.onnx"),
            ref = start("ref", "genai-tiny-random-gpt2-past.onnx");
    ls_data *whole[1 + LAYERS], *last[1 + LAYERS] = {NULL};
    decode(&once[0], &once[1], tokens, 0, TOKENS, NULL, whole);
    for (int i = 0; i < TOKENS; i++) {
        ls_data *out[1 + LAYERS];
        decode(&cpu, &ref, tokens, i, 1, i ? last + 1 : NULL, out);
        assert_int_equal(ls_runner_get_facts(cpu.runner).programs, i ? 2 : 1);
        assert_int_equal(ls_runner_get_facts(ref.runner).programs, i ? 2 : 1);
        assert_memory_equal(ls_data_bytes(out[0]), (const float *)ls_data_bytes(whole[0]) + i * WORDS,
                            WORDS * sizeof(float));
        for (int k = 0; k <= LAYERS; k++) {
            ls_data_release(last[k]);
            last[k] = out[k];
        }
    }
    for (int k = 1; k <= LAYERS; k++) {
        ls_report report;
        LS_ASSERT_SAME(whole[k], last[k], &report, fail_msg("cache %d: %s", k, report.message));
    }
    for (int k = 0; k <= LAYERS; k++) {
        ls_data_release(whole[k]);
        ls_data_release(last[k]);
    }
    for (int k = 0; k < 2; k++) {
        stop(&once[k]);
    }
    stop(&cpu);
    stop(&ref);
}

/* A prompt, then token after token: the second token (the third run) compiles no more than the prompt and the first. Prompts of other lengths
 * have a program of their own, which the next lengths share. */
static void test_decoder_with_prompts(void **state) {
    (void)state;
    static const int lengths[] = {6, 9, 4, 7};
    running cpu = start(world_device(), "genai-tiny-random-gpt2-past.onnx"),
            ref = start("ref", "genai-tiny-random-gpt2-past.onnx");
    int32_t tokens[MOST_TOKENS] = {5, 4, 3, 2, 1, 999, 7};
    for (int k = 0; k < 4; k++) {
        ls_data *last[1 + LAYERS], *out[1 + LAYERS];
        decode(&cpu, &ref, tokens, 0, lengths[k], NULL, last);
        for (int i = lengths[k]; i < lengths[k] + 6; i++) {
            decode(&cpu, &ref, tokens, i, 1, last + 1, out);
            for (int j = 0; j <= LAYERS; j++) {
                ls_data_release(last[j]);
                last[j] = out[j];
            }
        }
        ls_runner_facts facts = ls_runner_get_facts(cpu.runner);
        assert_int_equal(facts.programs, k ? 3 : 2);
        assert_null(facts.fixed_because);
        for (int j = 0; j <= LAYERS; j++) {
            ls_data_release(last[j]);
        }
    }
    stop(&cpu);
    stop(&ref);
}

/* With a stated bound the first token compiles all there is to compile; past the bound, once more. */
static void test_decoder_with_bound(void **state) {
    (void)state;
    running cpu = start(world_device(), "genai-tiny-random-gpt2-past.onnx"),
            ref = start("ref", "genai-tiny-random-gpt2-past.onnx");
    int32_t tokens[MOST_TOKENS] = {5, 4, 3, 2, 1, 999, 7};
    ls_data *last[1 + LAYERS] = {NULL}, *out[1 + LAYERS];
    assert_int_equal(ls_runner_set_bound(cpu.runner, "no_such", 8), LS_ERR_INVALID);
    ls_session_clear_error(cpu.w.session);
    assert_int_equal(ls_runner_set_bound(cpu.runner, "total_seq_len", 0), LS_ERR_INVALID);
    ls_session_clear_error(cpu.w.session);
    world_ok(&cpu.w, ls_runner_set_bound(cpu.runner, "total_seq_len", 8));
    world_ok(&cpu.w, ls_runner_set_bound(cpu.runner, "past_seq_len", 100));
    for (int i = 0; i < 12; i++) {
        decode(&cpu, &ref, tokens, i, 1, i ? last + 1 : NULL, out);
        assert_int_equal(ls_runner_get_facts(cpu.runner).programs, i < 8 ? 1 : 2);
        assert_int_equal(ls_runner_get_facts(cpu.runner).symbolic, i < 8 ? 1 : 2);
        for (int j = 0; j <= LAYERS; j++) {
            ls_data_release(last[j]);
            last[j] = out[j];
        }
    }
    for (int j = 0; j <= LAYERS; j++) {
        ls_data_release(last[j]);
    }
    stop(&cpu);
    stop(&ref);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wonnx_mnist),          cmocka_unit_test(test_burn_mnist),
        cmocka_unit_test(test_residual_block),       cmocka_unit_test(test_decoder),
        cmocka_unit_test(test_decoder_with_prompts), cmocka_unit_test(test_decoder_with_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
