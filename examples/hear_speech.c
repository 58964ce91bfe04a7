/* Says when somebody speaks in a recording, by Silero VAD: a recurrent network, whose state stays on the device between frames.
 *
 *     hear_speech DEVICE SILERO.onnx SOUND.wav     16 or 48 kHz
 *
 * Prints a line for each frame of 32 ms: its time and the probability of speech, the same bits on every device. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE = 16000, FRAME = 512, CONTEXT = 64, STATE = 2 * 128 };

static void must(ls_status status, const ls_error *err) {
    if (status != LS_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(2);
    }
}

/* The first channel of a recording at 16 kHz, and how many samples; the caller frees them. From 48 kHz every third is taken of means over five,
 * weighted 1 2 3 2 1, which leave nothing of what would fold to the lowest tones. */
static float *read_sound(ls_context *context, const char *path, long *out_count) {
    static const float weights[5] = {1, 2, 3, 2, 1};
    ls_error err = {.code = LS_OK};
    ls_data *sound;
    int rate;
    must(ls_wav_load(context, path, &sound, &rate, &err), &err);
    const float *x = ls_data_bytes(sound);
    long frames = (long)ls_data_dims(sound)[0], channels = (long)ls_data_dims(sound)[1], step = rate / RATE, around = step == 3 ? 2 : 0, n = 0;
    float *samples = malloc(sizeof *samples * (size_t)(frames + 1));
    if ((rate != RATE && rate != 3 * RATE) || !samples) {
        fprintf(stderr, "%s: expected 16 or 48 kHz, got %d Hz\n", path, rate);
        exit(2);
    }
    for (long i = 0; i < frames; i += step) {
        float sum = 0, weight = 0;
        for (long k = -around; k <= around; k++) {
            if (i + k >= 0 && i + k < frames) {
                sum += weights[k + 2] * x[(i + k) * channels];
                weight += weights[k + 2];
            }
        }
        samples[n++] = sum / weight;
    }
    ls_data_release(sound);
    *out_count = n;
    return samples;
}

int main(int argc, char **argv) {
    static float frame[CONTEXT + FRAME], zeros[STATE];
    const int64_t rate = RATE, frame_dims[2] = {1, CONTEXT + FRAME}, state_dims[3] = {2, 1, 128};
    ls_error err = {.code = LS_OK};
    ls_context *context;
    ls_device *device;
    ls_session *s;
    ls_model *model;
    ls_runner *runner;
    ls_data *sr, *silence, *out[2];
    long count;
    if (argc != 4) {
        fprintf(stderr, "usage: hear_speech DEVICE SILERO.onnx SOUND.wav\n");
        return 2;
    }
    must(ls_context_create(NULL, &context, &err), &err);
    must(ls_device_open(context, argv[1], &device, &err), &err);
    must(ls_session_create(context, device, &s, &err), &err);
    must(ls_model_load(context, argv[2], &model, &err), &err);
    must(ls_runner_create(s, model, &runner), ls_session_error(s));
    must(ls_data_create(context, LS_I64, 0, NULL, &rate, &sr, &err), &err);
    must(ls_data_create(context, LS_F32, 3, state_dims, zeros, &silence, &err), &err);
    must(ls_runner_bind_state(runner, "stateN", "state", silence), ls_session_error(s));

    float *samples = read_sound(context, argv[3], &count);
    for (long at = 0; at + FRAME <= count; at += FRAME) { /* each frame with the end of the one before */
        ls_data *x;
        memmove(frame, frame + FRAME, sizeof *frame * CONTEXT);
        memcpy(frame + CONTEXT, samples + at, sizeof *frame * FRAME);
        must(ls_data_create(context, LS_F32, 2, frame_dims, frame, &x, &err), &err);
        must(ls_runner_run(runner, 2, (const ls_named_data[]){{"input", x}, {"sr", sr}}, out), ls_session_error(s));
        printf("%.3f s  %.4f\n", (double)at / RATE, (double)*(const float *)ls_data_bytes(out[0]));
        ls_data_release(out[0]); /* out[1], the state, is NULL */
        ls_data_release(x);
    }
    free(samples);
    ls_data_release(silence);
    ls_data_release(sr);
    ls_runner_destroy(runner);
    ls_session_destroy(s);
    ls_model_release(model);
    ls_context_destroy(context);
    return 0;
}
