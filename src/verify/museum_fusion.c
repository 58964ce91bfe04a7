/* The museum, second hall: fusion. A reduction behind a change of axes read the strides from before it; a
 * graph that is differentiated is fused another way than a plain one. */
#include "verify/museum.h"
#include <string.h>

/* Something to compute, built the same way in any session: `count` results. */
typedef struct recipe {
    int count;
    bool (*build)(ls_museum *m, ls_session *s, const void *with, ls_tensor **out);
    const void *with;
} recipe;
#define MOST 16

/* Builds in a session of its own, verified, and reads the results; all NULL once the case is over. */
static void cook(ls_museum *m, const recipe *r, ls_device *device, int fusion, ls_data **out) {
    ls_session *s = ls_museum_session(m, device, fusion);
    ls_tensor *tensors[MOST] = {NULL};
    memset(out, 0, sizeof *out * (size_t)r->count);
    if (s && r->build(m, s, r->with, tensors)) {
        ls_museum_verify(m, s, tensors, r->count);
        for (int i = 0; i < r->count; i++) {
            out[i] = ls_museum_read(m, s, tensors[i]);
        }
    } else if (s) {
        ls_museum_built(m, s, NULL);
    }
    if (s) {
        ls_session_destroy(s);
    }
}
static void drop(ls_data **data, int n) {
    for (int i = 0; i < n; i++) {
        ls_data_release(data[i]);
    }
}
static void fused_and_not(ls_museum *m, const recipe *r) {
    ls_data *fused[MOST], *plain[MOST];
    cook(m, r, m->device, 1, fused);
    cook(m, r, m->device, 0, plain);
    for (int i = 0; i < r->count; i++) {
        ls_museum_same(m, "unfused against fused", plain[i], fused[i]);
    }
    drop(fused, r->count);
    drop(plain, r->count);
}

/* ---- 1: the case as reported ---- */

static void swap_dims(ls_museum *m) {
    static const float x[8] = {.03365147f, .64734447f, .74192876f, .06468803f,
                               .39552283f, .55383015f, .4253056f,  .8396726f};
    static const float mean[4] = {.2145872f, .6005873f, .5836172f, .4521803f};
    static const float variance[4] = {.03273772f, .00218623f, .02506256f, .15015028f};
    int axis = 2;
    for (int fusion = 0; fusion < 2; fusion++) {
        ls_session *s = ls_museum_session(m, m->device, fusion);
        ls_tensor *t = s ? ls_museum_tensor(m, s, LS_F32, LS_SHAPE(1, 2, 4), x) : NULL;
        if (t) {
            t = ls_transpose(s, t, 1, 2);
            ls_museum_literal(m, s, ls_variance(s, t, 1, &axis, 1, 0), variance, 4, 1e-7);
            ls_museum_literal(m, s, ls_mean(s, t, 1, &axis, 1), mean, 4, 1e-7);
        }
        if (s) {
            ls_session_destroy(s);
        }
    }
}

/* ---- 1a: every permutation, every axis ---- */

typedef struct permutation {
    int rank, axes[5];
    const float *x;
} permutation;

/* Written out, as in the report: mean, subtract, square, sum, divide; with and without a tensor that
 * broadcasts along the axis. */
static bool variances(ls_museum *m, ls_session *s, const void *with, ls_tensor **out) {
    static const int64_t extents[5] = {2, 3, 4, 2, 3};
    const permutation *p = with;
    ls_shape shape = ls_shape_make(p->rank, extents);
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, shape, p->x), *t = x ? ls_permute(s, x, p->axes) : NULL;
    for (int axis = 0; t && axis < p->rank; axis++) {
        int64_t n = extents[p->axes[axis]];
        for (int wide = 0; wide < 2; wide++) {
            ls_tensor *v = t;
            if (wide) {
                v = ls_add(s, v,
                           ls_museum_tensor(m, s, LS_F32, LS_SHAPE(extents[p->axes[p->rank - 1]]), p->x + 3));
            }
            ls_tensor *d = ls_sub(s, v, ls_mean(s, v, 1, &axis, 1));
            ls_tensor *sum = ls_sum(s, ls_mul(s, d, d), 1, &axis, 1);
            out[2 * axis + wide] = ls_div(s, sum, ls_full(s, LS_F32, LS_SCALAR, (double)n));
        }
    }
    return t != NULL;
}

static void permutations(ls_museum *m) {
    permutation p = {.x = ls_museum_random(m, 2 * 3 * 4 * 2 * 3, 11)};
    for (p.rank = 2; p.x && p.rank <= 5; p.rank++) {
        int count = 1;
        for (int i = 2; i <= p.rank; i++) {
            count *= i;
        }
        for (int which = 0; which < count && !ls_museum_over(m); which++) {
            int rest[5] = {0, 1, 2, 3, 4}, code = which;
            for (int i = 0; i < p.rank; i++) { /* the which-th permutation, by factorial digits */
                int left = p.rank - i, at = code % left;
                code /= left;
                p.axes[i] = rest[at];
                memmove(rest + at, rest + at + 1, sizeof *rest * (size_t)(left - at - 1));
            }
            fused_and_not(m, &(recipe){2 * p.rank, variances, &p});
        }
    }
}

/* ---- 1b, 1c: a convolution, a norm behind swapped axes, and their gradients ---- */

typedef struct block {
    const float *x, *w, *gamma;
    bool gradients;
} block;

/* out: the forward value; with gradients then those of x, w and gamma. */
static bool conv_norm(ls_museum *m, ls_session *s, const void *with, ls_tensor **out) {
    const block *b = with;
    ls_tensor *x = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(2, 3, 6, 5), b->x),
              *w = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(4, 3, 3, 3), b->w);
    ls_tensor *gamma = ls_museum_tensor(m, s, LS_F32, LS_SHAPE(4), b->gamma);
    if (!x || !w || !gamma) {
        return false;
    }
    ls_tensor *y =
        ls_conv(s, x, w, NULL, &(ls_conv_spec){.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}});
    y = ls_transpose(s, ls_reshape(s, y, LS_SHAPE(2, 4, 30)), 1, 2);
    y = ls_transpose(s, ls_layer_norm(s, y, 2, gamma, NULL, 1e-5), 1, 2);
    y = out[0] = ls_gelu(s, ls_reshape(s, y, LS_SHAPE(2, 4, 6, 5)));
    ls_tensor *loss = b->gradients && y ? ls_sum(s, ls_mul(s, y, y), 0, NULL, 0) : NULL,
              *xs[3] = {x, w, gamma};
    return y && (!b->gradients || (loss && ls_grad(s, loss, NULL, 3, xs, out + 1) == LS_OK));
}

static block make_block(ls_museum *m, bool gradients) {
    return (block){ls_museum_random(m, 2 * 3 * 6 * 5, 12), ls_museum_random(m, 4 * 3 * 3 * 3, 13),
                   ls_museum_random(m, 4, 14), gradients};
}

static void norm_block(ls_museum *m) {
    block b = make_block(m, true);
    fused_and_not(m, &(recipe){4, conv_norm, &b});
}

/* One step of descent on this device; the weights are carried to the other device as bytes. */
static void other_device(ls_museum *m) {
    block b = make_block(m, true);
    recipe trained = {4, conv_norm, &b};
    ls_device *other = NULL;
    ls_error err = {.code = LS_OK};
    ls_data *first[MOST], *here[MOST], *there[MOST];
    if (ls_device_open(m->context, m->interprets ? "cpu" : "ref", &other, &err) != LS_OK) {
        ls_museum_skip(m, "the second device cannot be opened: %s", err.message);
        return;
    }
    cook(m, &trained, m->device, 1, first);
    float *w = ls_museum_floats(m, 4 * 3 * 3 * 3);
    const float *gradient = first[2] ? ls_data_bytes(first[2]) : NULL;
    for (int i = 0; w && gradient && i < 4 * 3 * 3 * 3; i++) {
        w[i] = b.w[i] - 0.01f * gradient[i];
    }
    drop(first, 4);
    if (w && gradient) {
        block stepped = {b.x, w, b.gamma, false};
        recipe run = {1, conv_norm, &stepped};
        cook(m, &run, m->device, 1, here);
        cook(m, &run, other, 1, there);
        ls_museum_same(m, "trained here, computed here, against the other device", there[0], here[0]);
        drop(here, 1);
        drop(there, 1);
    }
}

static void plain_and_differentiated(ls_museum *m) {
    block with = make_block(m, true), without = make_block(m, false);
    ls_data *first[MOST] = {NULL};
    cook(m, &(recipe){1, conv_norm, &without}, m->device, 1, first);
    for (int which = 1; which < 4 && !ls_museum_over(m);
         which++) { /* which & 1: fused, & 2: with gradients */
        ls_data *next[MOST];
        recipe r = {which & 2 ? 4 : 1, conv_norm, which & 2 ? &with : &without};
        cook(m, &r, m->device, which & 1, next);
        ls_museum_same(m, "plain against differentiated", first[0], next[0]);
        drop(next, r.count);
    }
    drop(first, 1);
}

const ls_museum_case_row ls_museum_fusion_cases[] = {
    {"1-swap-dims", "Burn #3169: a variance behind swap_dims was fused with the strides from before the swap",
     swap_dims},
    {"1a-permutations",
     "the variance written out, over every permutation of rank 2 to 5 and every axis, broadcast or not",
     permutations},
    {"1b-norm-block", "Conv2d, reshape, swap, LayerNorm, swap, reshape: forward and backward, fused and not",
     norm_block},
    {"1b-other-device",
     "a model trained on one device gives other logits on the next: its weights were reordered on load",
     other_device},
    {"1c-differentiated",
     "a forward pass with gradients asked for fuses another way and drifts from the plain one",
     plain_and_differentiated},
    {NULL, NULL, NULL},
};
