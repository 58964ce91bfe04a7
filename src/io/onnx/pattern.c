/* Patterns of shapes: membership, and guesses from two shapes. */
#include "io/onnx/pattern.h"

static bool is_extent(int word) {
    return word % ONNX_SHAPE_WORDS >= 2;
}

bool ls_onnx_pattern_value(const ls_onnx_pattern *p, const int64_t *shapes, int64_t *out_value) {
    bool any = false;
    int64_t moved = 0;
    for (int i = 0; i < p->words; i++) {
        int64_t scale = p->scale[i], by = shapes[i] - p->at[i];
        if (!scale ? by != 0 : by % scale != 0 || (any && by / scale != moved)) {
            return false;
        }
        moved = scale ? by / scale : moved;
        any |= scale != 0;
    }
    *out_value = p->value + moved;
    return *out_value >= 0;
}

int ls_onnx_pattern_moved(const ls_onnx_pattern *p, const int64_t *shapes) {
    int moved = 0;
    for (int i = 0; i < p->words; i++) {
        if (shapes[i] != p->at[i]) {
            if (!is_extent(i)) {
                return -1;
            }
            moved++;
        }
    }
    return moved;
}

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* The scales of a guess from what moved; false: none. */
static bool scales(ls_onnx_pattern *p, const ls_onnx_pattern *earlier, const int64_t *shapes,
                   ls_onnx_guess guess) {
    int64_t step = 0;
    bool grew = false, mixed = false, any = false;
    for (int i = 0; i < p->words; i++) {
        grew |= shapes[i] > earlier->at[i];
        step = gcd(step, shapes[i] - earlier->at[i]);
    }
    for (int i = 0; i < p->words; i++) {
        int64_t by = grew ? shapes[i] - earlier->at[i] : earlier->at[i] - shapes[i];
        mixed |= by < 0;
        p->scale[i] = guess == ONNX_GUESS_BASE    ? earlier->scale[i]
                      : by <= 0                   ? 0
                      : guess == ONNX_GUESS_GROWN ? 1
                                                  : by / step;
        any |= p->scale[i] != 0;
    }
    return any && (guess == ONNX_GUESS_BASE || guess == ONNX_GUESS_GROWN || !mixed);
}

bool ls_onnx_pattern_guess(ls_onnx_pattern *p, const ls_onnx_pattern *earlier, const int64_t *shapes,
                           ls_onnx_guess guess) {
    bool any = false;
    if (guess != ONNX_GUESS_STATED && !scales(p, earlier, shapes, guess)) {
        return false;
    }
    p->value = INT64_MAX;
    for (int i = 0; i < p->words; i++) { /* n counts from 0; extents from 1, unless one of 0 was met */
        int64_t scale = p->scale[i];
        if (scale) {
            bool empty = shapes[i] == 0 || (earlier && earlier->at[i] == 0);
            int64_t value = (shapes[i] - !empty) / scale;
            p->value = value < p->value ? value : p->value;
            any = true;
        }
    }
    return any;
}
