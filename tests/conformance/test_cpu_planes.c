/* Random convolutions over planes, poolings, joined tensors and their gradients on `cpu` and on `ref`: operands in any layout, constant
 * or rewritten between launches, mostly zeros or with infinities and NaN, batches that are symbols; and in fast within the oracle's bound.
 * For LOCKSTEP_SECONDS (3), from LOCKSTEP_SEED (1) on, each case on one configuration of `cpu` by turns. */
#include "base/half.h"
#include "conformance/cpu_cases.h"
#include <lockstep/grad.h>
#include <math.h>

enum { LAUNCHES = 2, MOST_INPUTS = 12, MOST_OUTPUTS = 4, MOST_BATCH = 5, MOST_WORK = 500000 };

typedef struct plane_case {
    ls_session *s;
    ls_rng *rng;
    ls_rng *values; /* of leaves; NULL: all are inputs */
    int64_t batch;
    ls_symbol *symbol; /* NULL: the batch is fixed */
    int mode[MOST_INPUTS], n, n_outputs;
    ls_tensor *inputs[MOST_INPUTS], *outputs[MOST_OUTPUTS];
} plane_case;

enum { TAME, WILD, ZEROS, WILD_ZEROS };

static void fill(ls_rng *rng, float *data, int64_t n, int mode) {
    fill_data(rng, LS_F32, data, n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t kind = ls_rng_below(rng, 8);
        bool awkward = !(data[i] < 1e3f && data[i] > -1e3f);
        if (awkward && (mode == TAME || mode == ZEROS || (mode == WILD_ZEROS && kind))) {
            data[i] = 0.75f;
        }
        if (data[i] != data[i] && kind < 4) { /* of any sign and payload */
            uint32_t bits = 0x7f800001u | (uint32_t)ls_rng_u64(rng);
            memcpy(&data[i], &bits, 4);
        }
        if (mode >= ZEROS && kind && (mode == ZEROS || !awkward)) {
            data[i] = kind & 1 ? 0.0f : -0.0f;
        }
    }
}

static ls_dim batch_dim(const plane_case *c) {
    return c->symbol ? ls_dim_symbol(c->symbol, 1, 0) : ls_dim_of(c->batch);
}

static int64_t bound_of(ls_dim d) {
    return d.symbol ? MOST_BATCH : d.offset;
}

/* An input or a constant, whose memory lies as it likes. */
static ls_tensor *operand(plane_case *c, ls_shape shape, int mode) {
    ls_shape stored = shape;
    int order[LS_MAX_RANK], back[LS_MAX_RANK];
    bool turned = chance(c->rng, 4), cut = chance(c->rng, 6), flipped = chance(c->rng, 10);
    int axis = (int)ls_rng_below(c->rng, (uint64_t)shape.rank);
    int64_t low = draw(c->rng, 0, 2), high = draw(c->rng, 0, 3);
    for (int i = 0; i < shape.rank; i++) {
        order[i] = i;
    }
    for (int i = shape.rank - 1; i > 0 && turned; i--) {
        int j = (int)ls_rng_below(c->rng, (uint64_t)i + 1), at = order[i];
        order[i] = order[j];
        order[j] = at;
    }
    cut = cut && !shape.dim[axis].symbol;
    if (cut) {
        shape.dim[axis].offset += low + high;
    }
    for (int i = 0; i < shape.rank; i++) {
        back[order[i]] = i;
        stored.dim[i] = shape.dim[order[i]];
    }
    bool symbolic = false;
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        symbolic = symbolic || shape.dim[i].symbol;
        n *= bound_of(shape.dim[i]);
    }
    ls_tensor *x;
    bool constant = !symbolic && chance(c->rng, 2);
    if (constant || c->values) {
        float *data = malloc((size_t)n * 4 + 4);
        /* past an overflow the oracle has no bound, but for a sign, which it takes for a number's */
        fill(c->values ? c->values : c->rng, data, n, c->values ? mode & ~WILD : mode);
        x = ls_tensor_from(c->s, LS_F32, stored, data);
        free(data);
    } else {
        char name[16];
        snprintf(name, sizeof name, "x%d", c->n);
        c->mode[c->n] = mode;
        x = c->inputs[c->n++] = ls_input(c->s, name, LS_F32, stored);
    }
    x = turned ? ls_permute(c->s, x, back) : x;
    x = cut ? ls_narrow(c->s, x, axis, low, shape.dim[axis].offset - low - high) : x;
    return flipped && !shape.dim[axis].symbol ? ls_flip(c->s, x, axis) : x;
}

static ls_tensor *activation(plane_case *c, ls_tensor *x) {
    ls_session *s = c->s;
    switch (ls_rng_below(c->rng, 10)) {
    case 0:
        return ls_silu(s, x);
    case 1:
        return ls_sigmoid(s, x);
    case 2:
        return ls_leaky_relu(s, x, 0.1);
    case 3:
        return ls_min(s, ls_relu(s, x), ls_full(s, LS_F32, LS_SHAPE(1), 6));
    case 4:
        return ls_tanh(s, x);
    case 5:
        return ls_abs(s, x);
    case 6:
        return ls_gelu(s, x);
    default:
        return ls_relu(s, x);
    }
}

/* Up to four operations: activations, numbers a channel or an element. */
static ls_tensor *after(plane_case *c, ls_tensor *y) {
    for (int64_t n = draw(c->rng, 0, 4); n > 0 && y && c->n < MOST_INPUTS - 3; n--) {
        ls_shape shape = ls_tensor_shape(y);
        uint64_t kind = ls_rng_below(c->rng, 4), op = ls_rng_below(c->rng, 6);
        for (int i = 0; i < shape.rank; i++) {
            shape.dim[i] = kind == 2 || (kind == 1 && i == 1) || (kind == 3 && i < 2) ? shape.dim[i] : ls_dim_of(1);
        }
        ls_tensor *k = op < 4 ? operand(c, shape, chance(c->rng, 8) ? WILD : TAME) : NULL;
        y = op < 2 ? ls_add(c->s, y, k) : op == 2 ? ls_mul(c->s, k, y) : op == 3 ? ls_max(c->s, y, k) : activation(c, y);
    }
    return y;
}

static int some_mode(plane_case *c) {
    uint64_t kind = ls_rng_below(c->rng, 8);
    return kind < 4 ? TAME : kind < 5 ? WILD : kind < 7 ? ZEROS : WILD_ZEROS;
}

static int64_t side_of(plane_case *c, int spatial) {
    static const int64_t tiles[] = {7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65};
    int64_t side = chance(c->rng, 2) ? tiles[ls_rng_below(c->rng, 14)] : draw(c->rng, 1, 70);
    return spatial == 1 ? side * draw(c->rng, 1, 4) : spatial == 3 ? 1 + side / 6 : side;
}

typedef struct conv_case {
    ls_conv_spec spec;
    ls_shape x, w;
} conv_case;

/* Of a convolution, or its elements alone. */
static int64_t work_of(const conv_case *v) {
    int64_t work = bound_of(v->x.dim[0]), taps = v->w.dim[1].offset * v->w.dim[0].offset, elements = work * v->x.dim[1].offset;
    for (int i = 0; i < v->spec.spatial; i++) {
        int64_t kernel = v->w.dim[2 + i].offset, side = v->x.dim[2 + i].offset;
        taps *= kernel;
        elements *= side;
        work *= (side + v->spec.pad_low[i] + v->spec.pad_high[i] - v->spec.dilation[i] * (kernel - 1) - 1) / v->spec.stride[i] + 1;
    }
    return work * taps > 20 * elements ? work * taps : 20 * elements;
}

/* kind 0: depthwise; 1: of one element; 2: any groups; 3: one group */
static conv_case draw_conv(plane_case *c, uint64_t kind, int64_t channels, const ls_shape *image) {
    ls_rng *rng = c->rng;
    conv_case v = {.spec = {.spatial = image ? image->rank - 2 : chance(rng, 2) ? 2 : (int)draw(rng, 1, 3), .groups = 1}};
    static const int64_t kernels[] = {3, 3, 3, 5, 5, 7, 1, 2, 4, 6, 9, 15, 16, 17};
    int n = v.spec.spatial;
    int64_t out = draw(rng, 1, chance(rng, 6) ? 120 : 36), square = kernels[ls_rng_below(rng, n == 3 ? 4 : 14)], stride = draw(rng, 1, 3);
    bool is_square = !chance(rng, 3);
    v.x = (ls_shape){.rank = n + 2};
    v.x.dim[0] = batch_dim(c);
    if (kind == 0) {
        v.spec.groups = channels;
        out = chance(rng, 4) ? channels * draw(rng, 1, 2) : channels;
    } else if (kind == 2) {
        v.spec.groups = draw(rng, 1, 5);
        channels = image ? channels : v.spec.groups * draw(rng, 1, 5);
        v.spec.groups = channels % v.spec.groups ? 1 : v.spec.groups;
        out = v.spec.groups * draw(rng, 1, 9);
    }
    v.x.dim[1] = ls_dim_of(channels);
    v.w = (ls_shape){.rank = n + 2, .dim = {ls_dim_of(out), ls_dim_of(channels / v.spec.groups)}};
    for (int i = 0; i < n; i++) {
        int64_t side = image ? image->dim[2 + i].offset : side_of(c, n);
        int64_t kernel = kind == 1 ? 1 : is_square ? square : draw(rng, 1, n == 3 ? 4 : 8);
        v.spec.stride[i] = kind == 1 && !chance(rng, 4) ? 1 : is_square ? stride : draw(rng, 1, 3);
        v.spec.dilation[i] = chance(rng, 5) ? draw(rng, 1, 3) : 1;
        int64_t reach = v.spec.dilation[i] * (kernel - 1) + 1, lack = reach > side ? reach - side : 0;
        bool wide = chance(rng, 8);
        v.spec.pad_low[i] = kind == 1 && !chance(rng, 8) ? 0 : chance(rng, 2) ? reach / 2 : draw(rng, 0, wide ? reach + 3 : reach);
        v.spec.pad_high[i] = kind == 1 && !chance(rng, 8) ? 0 : chance(rng, 2) ? reach / 2 : draw(rng, 0, wide ? reach + 3 : reach);
        if (v.spec.pad_low[i] + v.spec.pad_high[i] < lack) {
            v.spec.pad_high[i] = lack - v.spec.pad_low[i];
        }
        v.x.dim[2 + i] = ls_dim_of(side);
        v.w.dim[2 + i] = ls_dim_of(kernel);
    }
    return v;
}

static int weight_mode(plane_case *c) {
    return chance(c->rng, 10) ? some_mode(c) : TAME;
}

static ls_tensor *conv_of(plane_case *c, ls_tensor *x, const conv_case *v, ls_tensor **out_w) {
    *out_w = operand(c, v->w, weight_mode(c));
    ls_tensor *bias = chance(c->rng, 2) ? operand(c, (ls_shape){.rank = 1, .dim = {v->w.dim[0]}}, TAME) : NULL;
    return ls_conv(c->s, x, *out_w, bias, &v->spec);
}

static ls_tensor *pool_of(plane_case *c, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    ls_conv_spec spec = {.spatial = shape.rank - 2};
    int64_t kernel[3], same = draw(c->rng, 1, 4), stride = draw(c->rng, 1, 3);
    for (int i = 0; i < spec.spatial; i++) {
        int64_t side = shape.dim[2 + i].offset;
        kernel[i] = chance(c->rng, 3) ? draw(c->rng, 1, 6) : same;
        kernel[i] = kernel[i] < side ? kernel[i] : side;
        spec.stride[i] = chance(c->rng, 3) ? draw(c->rng, 1, 4) : stride;
        spec.dilation[i] = chance(c->rng, 5) && (kernel[i] - 1) * 2 < side ? 2 : 1;
        spec.pad_low[i] = chance(c->rng, 2) ? draw(c->rng, 0, kernel[i] / 2) : 0;
        spec.pad_high[i] = chance(c->rng, 2) ? draw(c->rng, 0, kernel[i] / 2) : 0;
    }
    uint64_t kind = ls_rng_below(c->rng, 8);
    return kind < 4   ? ls_max_pool(c->s, x, kernel, &spec)
           : kind < 5 ? ls_neg(c->s, ls_max_pool(c->s, ls_neg(c->s, x), kernel, &spec))
                      : ls_avg_pool(c->s, x, kernel, &spec, chance(c->rng, 2));
}

/* Joined along channels, halves exchanged or shuffled, and something after. */
static ls_tensor *joined(plane_case *c, ls_tensor *y) {
    ls_shape shape = ls_tensor_shape(y);
    ls_tensor *parts[4] = {y};
    int n = (int)draw(c->rng, 2, 4);
    int64_t all = shape.dim[1].offset;
    for (int i = 1; i < n; i++) {
        ls_shape other = shape;
        other.dim[1] = ls_dim_of(chance(c->rng, 2) ? shape.dim[1].offset : draw(c->rng, 1, 12));
        bool own = other.dim[1].offset == shape.dim[1].offset && chance(c->rng, 2);
        parts[i] = own ? activation(c, y) : c->n < MOST_INPUTS - 3 ? operand(c, other, TAME) : y;
        all += ls_tensor_shape(parts[i]).dim[1].offset;
    }
    y = ls_concat(c->s, parts, n, 1);
    if (chance(c->rng, 2) && all % 2 == 0) { /* shuffled */
        ls_shape split = {.rank = shape.rank + 1}, flat = shape;
        int order[LS_MAX_RANK];
        split.dim[0] = shape.dim[0];
        split.dim[1] = ls_dim_of(2);
        split.dim[2] = ls_dim_of(all / 2);
        flat.dim[1] = ls_dim_of(all);
        for (int i = 0; i <= shape.rank; i++) {
            order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
            split.dim[i] = i > 2 ? shape.dim[i - 1] : split.dim[i];
        }
        y = ls_reshape(c->s, ls_permute(c->s, ls_reshape(c->s, y, split), order), flat);
        y = chance(c->rng, 2) ? ls_narrow(c->s, y, 1, all / 2, all - all / 2) : y;
    }
    if (chance(c->rng, 3)) {
        int order[LS_MAX_RANK];
        for (int i = 0; i < shape.rank; i++) {
            order[i] = i == 0 ? 0 : i == shape.rank - 1 ? 1 : i + 1;
        }
        y = ls_permute(c->s, after(c, y), order);
    }
    return after(c, y);
}

/* A convolution and its gradients where the gradient of its result, or the image, is mostly zeros. */
static void build_sparse(plane_case *c) {
    static const int64_t channels[] = {8, 16, 32, 64, 12, 9, 20};
    conv_case v;
    do {
        int64_t in = chance(c->rng, 4) ? draw(c->rng, 1, 4) : channels[ls_rng_below(c->rng, 7)], out = channels[ls_rng_below(c->rng, 7)], square = draw(c->rng, 1, 5);
        v = (conv_case){.spec = {.spatial = 2}, .x = {4, {batch_dim(c), ls_dim_of(in)}}, .w = {4, {ls_dim_of(out), ls_dim_of(in)}}};
        for (int i = 0; i < 2; i++) {
            int64_t kernel = chance(c->rng, 3) ? draw(c->rng, 1, 6) : square;
            v.spec.stride[i] = chance(c->rng, 4) ? 2 : 1;
            v.spec.dilation[i] = 1;
            v.spec.pad_low[i] = draw(c->rng, 0, kernel);
            v.spec.pad_high[i] = draw(c->rng, 0, kernel);
            v.x.dim[2 + i] = ls_dim_of(draw(c->rng, 8, 60));
            v.w.dim[2 + i] = ls_dim_of(kernel);
        }
    } while (work_of(&v) > 3 * MOST_WORK);
    bool forward = chance(c->rng, 4);
    ls_tensor *x = operand(c, v.x, forward ? some_mode(c) | ZEROS : chance(c->rng, 8) ? WILD : TAME), *w;
    ls_tensor *y = conv_of(c, x, &v, &w);
    c->n_outputs = 1;
    if (forward) {
        c->outputs[0] = after(c, y);
        return;
    }
    int mode = chance(c->rng, 6) ? some_mode(c) : chance(c->rng, 6) ? WILD_ZEROS : ZEROS;
    ls_tensor *of[] = {x, w}, *seed = operand(c, ls_tensor_shape(y), mode);
    world_ok(&(world){.id = "gradients", .session = c->s}, ls_grad(c->s, y, seed, 2, of, c->outputs));
    c->n_outputs = 2;
}

static void build(plane_case *c) {
    uint64_t kind = ls_rng_below(c->rng, 10);
    if (kind == 8) {
        build_sparse(c);
        return;
    }
    kind = kind == 9 ? 0 : kind;
    conv_case v;
    do {
        int64_t channels = kind == 1 && chance(c->rng, 5) ? draw(c->rng, 500, 600) : draw(c->rng, 1, kind == 3 ? 80 : 40);
        v = draw_conv(c, kind < 4 ? kind : 3, channels, NULL);
    } while (work_of(&v) > MOST_WORK);
    ls_tensor *x = operand(c, v.x, some_mode(c)), *w = NULL, *y = chance(c->rng, 4) ? after(c, x) : x;
    if (kind < 4) {
        y = conv_of(c, y, &v, &w);
    } else if (kind < 6) {
        y = pool_of(c, y);
    } else if (kind == 6) {
        y = joined(c, y);
    }
    y = chance(c->rng, 2) ? after(c, y) : y;
    ls_shape now = ls_tensor_shape(y);
    int64_t size = bound_of(now.dim[0]);
    for (int i = 1; i < now.rank; i++) {
        size *= now.dim[i].offset;
    }
    if (kind == 7 || chance(c->rng, 4)) { /* a small network */
        ls_tensor *w2 = NULL;
        y = chance(c->rng, 2) && size < 30000 ? pool_of(c, y) : y;
        ls_shape image = ls_tensor_shape(y);
        if (c->n < MOST_INPUTS - 4 && image.dim[1].offset < 90 && size < 30000) {
            conv_case next;
            int tries = 0;
            do {
                next = draw_conv(c, ls_rng_below(c->rng, 4), image.dim[1].offset, &image);
            } while (work_of(&next) > 4 * MOST_WORK && tries++ < 20);
            y = after(c, conv_of(c, y, &next, &w2));
        }
        w = w ? w : w2;
    }
    if (chance(c->rng, 3)) {
        ls_tensor *of[] = {x, w ? w : x};
        int mode = some_mode(c);
        ls_tensor *seed = chance(c->rng, 4) && c->n < MOST_INPUTS - 1 ? operand(c, ls_tensor_shape(y), mode) : NULL;
        y = !seed && chance(c->rng, 3) ? pool_of(c, y) : y;
        world_ok(&(world){.id = "gradients", .session = c->s}, ls_grad(c->s, y, seed, w ? 2 : 1, of, c->outputs));
        c->n_outputs = w ? 2 : 1;
    } else {
        c->outputs[0] = y;
        c->n_outputs = 1;
    }
}

static plane_case begin(world *w, ls_rng *rng, ls_rng *values, uint64_t seed) {
    plane_case c = {.s = w->session, .rng = rng, .values = values, .batch = draw(rng, 1, MOST_BATCH)};
    if (chance(rng, 4) && !values) {
        char name[40];
        snprintf(name, sizeof name, "batch%llu", (unsigned long long)seed);
        c.symbol = ls_symbol_create(w->context, name, MOST_BATCH, NULL);
    }
    build(&c);
    for (int i = 0; i < c.n_outputs; i++) {
        if (!c.outputs[i]) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, ls_session_error(w->session)->message);
        }
    }
    return c;
}

typedef struct plane_run {
    int n;
    void *out[LAUNCHES][MOST_OUTPUTS];
    size_t bytes[LAUNCHES][MOST_OUTPUTS];
} plane_run;

static plane_run run(world *w, uint64_t seed) {
    plane_run r = {0};
    ls_rng rng = {seed, 0}, values = {seed, 1};
    world_ok(w, ls_scope_begin(w->session));
    plane_case c = begin(w, &rng, NULL, seed);
    ls_program *program;
    void *in[MOST_INPUTS] = {NULL};
    int64_t n[MOST_INPUTS];
    world_ok(w, ls_program_compile(w->session, c.inputs, c.n, c.outputs, c.n_outputs, &program));
    for (int i = 0; i < c.n; i++) {
        ls_shape shape = ls_tensor_shape(c.inputs[i]);
        n[i] = 1;
        for (int j = 0; j < shape.rank; j++) {
            n[i] *= bound_of(shape.dim[j]);
        }
        in[i] = calloc(1, (size_t)n[i] * 4 + 4);
    }
    r.n = c.n_outputs;
    for (int launch = 0; launch < LAUNCHES; launch++) {
        if (c.symbol) {
            world_ok(w, ls_symbol_bind(w->session, c.symbol, draw(&values, 1, MOST_BATCH)));
        }
        for (int i = 0; i < c.n; i++) {
            if (!launch || chance(&values, 2)) {
                fill(&values, in[i], n[i], launch == 1 && chance(&values, 4) ? WILD : c.mode[i]);
            }
        }
        for (int i = 0; i < r.n; i++) {
            r.bytes[launch][i] = ls_tensor_bytes(w->session, c.outputs[i]);
            r.out[launch][i] = calloc(1, r.bytes[launch][i] + 1);
        }
        world_ok(w, ls_program_run(program, (const void *const *)in, r.out[launch]));
    }
    for (int i = 0; i < c.n; i++) {
        free(in[i]);
    }
    ls_program_destroy(program);
    ls_scope_end(w->session);
    return r;
}

static void random_cases(void **state) {
    worlds *all = *state;
    seeds s = seeds_from(3);
    do {
        plane_run want = run(&all->ref, s.seed);
        for (int c = 0; c < all->n; c++) {
            if (!s.chosen && c != (int)(s.seed % (uint64_t)all->n)) {
                continue;
            }
            plane_run got = run(&all->cpu[c], s.seed);
            for (int l = 0; l < LAUNCHES; l++) {
                for (int i = 0; i < want.n; i++) {
                    check_bytes(all->names[c], "planes", s.seed, l * MOST_OUTPUTS + i, got.out[l][i], got.bytes[l][i], want.out[l][i], want.bytes[l][i]);
                    free(got.out[l][i]);
                }
            }
        }
        for (int l = 0; l < LAUNCHES; l++) {
            for (int i = 0; i < want.n; i++) {
                free(want.out[l][i]);
            }
        }
        all->cases++;
    } while (seeds_next(&s));
}

/* In fast, within the oracle's bound. */
static void bounded(void **state) {
    worlds *all = *state;
    seeds s = seeds_from(3);
    do {
        world *w = &all->cpu[s.seed % (uint64_t)all->n];
        ls_rng rng = {s.seed, 2}, values = {s.seed, 3};
        world_ok(w, ls_scope_begin(w->session));
        ls_session_set_math(w->session, LS_FAST);
        plane_case c = begin(w, &rng, &values, s.seed);
        check_bound(w, all->names[s.seed % (uint64_t)all->n], "planes", s.seed, c.outputs, c.n_outputs);
        ls_session_set_math(w->session, LS_LOCKED);
        ls_scope_end(w->session);
    } while (seeds_next(&s));
}

/* Lines longer than what a worker's memory was made for, of the image or by padding alone. */
static int build_long_lines(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    const int64_t *p = param; /* height, width, padding, kernel */
    ls_conv_spec spec = {.spatial = 2, .groups = 2, .pad_low = {p[2], p[2]}, .pad_high = {p[2], p[2]}};
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(1, 2, p[0], p[1])), *w = tame_tensor(s, rng, LS_F32, LS_SHAPE(2, 1, p[3], p[3]));
    out_roots[0] = ls_relu(s, ls_conv(s, x, w, NULL, &spec));
    return 1;
}

static void long_lines(void **state) {
    static const int64_t shapes[][4] = {{17, 3000, 1, 3}, {4, 4, 100, 3}, {9, 5, 60, 5}};
    for (int i = 0; i < 3; i++) {
        check_case(*state, build_long_lines, 1, shapes[i], "long lines", 1);
    }
}

/* Lines of outputs that are no whole vectors and lie apart in the image: tiles of outputs alone, of which one vector is of two lines. */
typedef struct lines_apart_case {
    int64_t images, channels, outputs, height, width, kernel, low[2], high[2];
    bool function, shuffled; /* one follows; channels are, in two groups */
} lines_apart_case;

static int build_lines_apart(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    const lines_apart_case *p = param;
    ls_conv_spec spec = {.spatial = 2, .pad_low = {p->low[0], p->low[1]}, .pad_high = {p->high[0], p->high[1]}};
    int64_t height = p->height + p->kernel - 1 - p->low[0] - p->high[0], width = p->width + p->kernel - 1 - p->low[1] - p->high[1], half = p->channels / 2;
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->images, p->channels, height, width));
    if (p->shuffled) {
        x = ls_permute(s, ls_reshape(s, x, LS_SHAPE(p->images, 2, half, height, width)), (const int[]){0, 2, 1, 3, 4});
        x = ls_reshape(s, x, LS_SHAPE(p->images, p->channels, height, width));
    }
    ls_tensor *w = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->outputs, p->channels, p->kernel, p->kernel)), *bias = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->outputs));
    ls_tensor *y = ls_conv(s, x, w, bias, &spec);
    out_roots[0] = p->function ? ls_silu(s, y) : ls_min(s, ls_relu(s, y), ls_full(s, LS_F32, LS_SHAPE(1), 6));
    return 1;
}

/* Lines and rows that are whole tiles whose vectors are rows, read where they lie or, with much padding, planes apart or two tensors, from a copy. */
typedef struct across_case {
    int64_t images, channels, outputs, size[2], kernel, stride, step, low[2], high[2];
    enum { PLAIN, JOINED, FUNCTION, EXPANDED /* one line for all */, INFINITE /* a tap; padding is elements, and times that NaN */, CHANNELS_FIRST /* in k */, HALVES /* in the filter */ } kind;
} across_case;

static ls_tensor *with_infinite_tap(ls_session *s, ls_tensor *filter) {
    ls_shape shape = ls_tensor_shape(filter);
    float *factors = malloc((size_t)numel_of(shape) * sizeof *factors);
    for (int64_t i = 0; i < numel_of(shape); i++) {
        factors[i] = i ? 1 : INFINITY;
    }
    ls_tensor *t = ls_mul(s, filter, ls_tensor_from(s, LS_F32, shape, factors));
    free(factors);
    return t;
}

/* As they lie in memory, so that a kernel reads them as halves. */
static ls_tensor *of_halves(ls_session *s, ls_rng *rng, ls_shape shape) {
    uint16_t *halves = malloc((size_t)numel_of(shape) * sizeof *halves);
    for (int64_t i = 0; i < numel_of(shape); i++) {
        halves[i] = ls_f32_to_f16((float)ls_rng_normal(rng));
    }
    ls_tensor *t = ls_cast(s, ls_tensor_from(s, LS_F16, shape, halves), LS_F32);
    free(halves);
    return t;
}

/* A convolution of one image whose taps are added channel by channel. */
static ls_tensor *channels_first(ls_session *s, ls_tensor *x, ls_tensor *w, const across_case *p) {
    const ls_pad_spec pads[4] = {{0}, {0}, {p->low[0], p->high[0], 0}, {p->low[1], p->high[1], 0}};
    const ls_window_spec window = {p->kernel, p->stride, p->step};
    const ls_contract_spec spec = {.n_contract = 3, .contract_a = {1, 2, 3}, .contract_b = {1, 4, 5}};
    ls_tensor *windows = ls_window(s, ls_pad_absent(s, x, pads), 2, (const int[]){2, 3}, (const ls_window_spec[]){window, window});
    return ls_permute(s, ls_contract(s, w, windows, &spec, LS_F32), (const int[]){1, 0, 2, 3});
}

static int build_across(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    const across_case *p = param;
    ls_conv_spec spec = {.spatial = 2,
                         .stride = {p->stride, p->stride},
                         .dilation = {p->step, p->step},
                         .pad_low = {p->low[0], p->low[1]},
                         .pad_high = {p->high[0], p->high[1]}};
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->images, p->channels, p->kind == EXPANDED ? 1 : p->size[0], p->size[1]));
    x = p->kind == JOINED ? ls_concat(s, (ls_tensor *[]){x, ls_neg(s, x)}, 2, 1) : x;
    x = p->kind == EXPANDED ? ls_expand(s, x, LS_SHAPE(p->images, p->channels, p->size[0], p->size[1])) : x;
    const ls_shape taps = LS_SHAPE(p->outputs, p->channels * (p->kind == JOINED ? 2 : 1), p->kernel, p->kernel);
    ls_tensor *w = p->kind == HALVES ? of_halves(s, rng, taps) : tame_tensor(s, rng, LS_F32, taps);
    if (p->kind == INFINITE) {
        w = with_infinite_tap(s, w);
        x = ls_pad(s, x, (const ls_pad_spec[]){{0}, {0}, {p->low[0], p->high[0], 0}, {p->low[1], p->high[1], 0}}, 0);
        spec = (ls_conv_spec){.spatial = 2, .stride = {p->stride, p->stride}};
    }
    ls_tensor *bias = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->outputs)), *scale = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->outputs, 1, 1));
    ls_tensor *y = p->kind == CHANNELS_FIRST ? channels_first(s, x, w, p) : ls_conv(s, x, w, bias, &spec);
    y = ls_sub(s, ls_mul(s, y, scale), scale);
    out_roots[0] = p->kind == FUNCTION ? ls_silu(s, y) : ls_min(s, ls_relu(s, y), ls_full(s, LS_F32, LS_SHAPE(1), 1e6));
    return 1;
}

static void lines_apart(void **state) {
    static const lines_apart_case shapes[] = {
        {3, 33, 24, 24, 24, 3, {0, 0}, {0, 0}, false, false}, {1, 40, 15, 24, 24, 3, {0, 0}, {0, 0}, true, false}, {2, 3, 24, 36, 40, 3, {0, 0}, {0, 0}, false, false},
        {1, 6, 16, 32, 54, 3, {0, 0}, {0, 0}, false, false},  {1, 5, 23, 13, 62, 5, {0, 0}, {0, 0}, false, false}, {2, 7, 8, 19, 24, 5, {0, 0}, {0, 0}, true, false},
        {1, 70, 80, 9, 48, 5, {0, 0}, {0, 0}, false, false},  {1, 9, 40, 33, 24, 3, {0, 0}, {0, 0}, false, false}, {1, 4, 16, 90, 24, 3, {0, 0}, {0, 0}, false, false},
        {2, 5, 16, 30, 56, 5, {2, 2}, {2, 2}, false, false},  {1, 3, 8, 31, 24, 5, {1, 1}, {1, 1}, true, false},   {1, 4, 8, 21, 24, 3, {1, 0}, {1, 0}, false, false},
        {2, 4, 8, 21, 24, 3, {0, 1}, {0, 1}, false, false},   {2, 6, 8, 17, 24, 3, {0, 0}, {0, 0}, false, true},   {1, 2, 8, 24, 24, 9, {0, 0}, {0, 0}, false, false},
        {1, 4, 8, 21, 24, 3, {0, 0}, {0, 1}, false, false},
    };
    worlds *all = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case(all, build_lines_apart, 1 + i, &shapes[i], "lines apart", 1);
        check_fast_on_all(all, build_lines_apart, (ls_rng){9, 0}, &shapes[i], "lines apart", 9);
    }
}

static void across(void **state) {
    static const across_case shapes[] = {
        {2, 30, 32, {14, 28}, 3, 2, 1, {1, 1}, {1, 1}, PLAIN},    {1, 32, 64, {9, 28}, 3, 2, 1, {1, 1}, {1, 1}, PLAIN},
        {1, 30, 32, {5, 29}, 3, 2, 1, {0, 0}, {0, 0}, FUNCTION},  {1, 30, 32, {6, 28}, 3, 2, 1, {0, 0}, {1, 1}, PLAIN},
        {1, 16, 32, {7, 28}, 5, 2, 1, {2, 2}, {2, 2}, PLAIN},     {2, 30, 32, {8, 28}, 3, 2, 2, {2, 2}, {2, 2}, PLAIN},
        {1, 16, 32, {6, 28}, 3, 2, 1, {1, 1}, {1, 1}, JOINED},    {1, 32, 32, {8, 30}, 3, 2, 1, {1, 0}, {1, 0}, PLAIN},
        {1, 66, 160, {5, 28}, 3, 2, 1, {1, 1}, {1, 1}, FUNCTION}, {1, 258, 32, {2, 83}, 1, 2, 1, {0, 0}, {0, 0}, PLAIN},
        {1, 32, 32, {14, 28}, 3, 2, 1, {1, 1}, {1, 1}, EXPANDED}, {1, 30, 32, {9, 42}, 3, 3, 1, {1, 1}, {1, 1}, PLAIN},
        {1, 12, 32, {2, 28}, 5, 2, 1, {3, 2}, {3, 1}, PLAIN},     {1, 32, 32, {6, 28}, 3, 2, 1, {1, 1}, {1, 1}, INFINITE},
        /* Without a stride, which on some processors takes tiles along lines. */
        {2, 30, 32, {14, 14}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},    {1, 32, 64, {9, 28}, 3, 1, 1, {1, 1}, {1, 1}, FUNCTION},
        {1, 30, 32, {6, 16}, 3, 1, 1, {0, 0}, {0, 0}, PLAIN},     {1, 16, 32, {7, 14}, 5, 1, 1, {2, 2}, {2, 2}, PLAIN},
        {2, 30, 32, {5, 14}, 3, 1, 2, {2, 2}, {2, 2}, PLAIN},     {1, 16, 32, {6, 14}, 3, 1, 1, {1, 1}, {1, 1}, JOINED},
        {1, 66, 96, {3, 42}, 3, 1, 1, {1, 1}, {1, 1}, EXPANDED},  {1, 32, 32, {4, 15}, 3, 1, 1, {1, 1}, {1, 0}, PLAIN},
        {1, 512, 32, {3, 14}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},    {1, 32, 32, {5, 28}, 3, 1, 1, {1, 1}, {1, 1}, INFINITE},
        {1, 32, 32, {1, 28}, 3, 1, 1, {3, 1}, {3, 1}, PLAIN},     {1, 32, 32, {1, 28}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},
        {1, 32, 32, {5, 28}, 3, 2, 1, {1, 1}, {1, 1}, CHANNELS_FIRST}, {1, 32, 32, {5, 14}, 3, 1, 1, {1, 1}, {1, 1}, CHANNELS_FIRST},
        {1, 16, 32, {7, 16}, 5, 1, 1, {2, 2}, {2, 0}, PLAIN},     {1, 16, 32, {7, 16}, 5, 1, 1, {2, 0}, {2, 2}, PLAIN},
        {1, 32, 32, {6, 28}, 3, 2, 1, {1, 1}, {1, 1}, HALVES},    {1, 16, 32, {7, 14}, 5, 1, 1, {2, 2}, {2, 2}, HALVES},
        /* Lines of other tiles, rows of fewer vectors, any number of channels, fewer taps. */
        {1, 32, 16, {5, 32}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},     {1, 29, 48, {4, 26}, 3, 1, 1, {1, 1}, {1, 1}, FUNCTION},
        {1, 29, 16, {4, 22}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},     {2, 29, 16, {4, 18}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},
        {1, 30, 80, {5, 30}, 3, 1, 1, {1, 1}, {1, 1}, EXPANDED},  {1, 15, 32, {3, 20}, 3, 1, 1, {1, 1}, {1, 1}, JOINED},
        {2, 29, 16, {4, 9}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},      {1, 30, 16, {4, 11}, 3, 1, 1, {1, 1}, {1, 1}, PLAIN},
        {2, 3, 16, {9, 32}, 7, 2, 1, {3, 3}, {3, 3}, PLAIN},      {1, 15, 16, {9, 17}, 3, 2, 1, {0, 0}, {0, 0}, FUNCTION},
        {1, 3, 32, {8, 64}, 7, 2, 1, {3, 3}, {2, 2}, PLAIN},      {1, 130, 16, {4, 32}, 1, 2, 1, {0, 0}, {0, 0}, PLAIN},
        {1, 15, 16, {9, 48}, 3, 2, 1, {1, 1}, {1, 1}, PLAIN},     {1, 30, 16, {6, 10}, 3, 1, 1, {1, 1}, {1, 1}, CHANNELS_FIRST},
    };
    worlds *all = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case(all, build_across, 1 + i, &shapes[i], "across", 1);
        check_fast_on_all(all, build_across, (ls_rng){9, 0}, &shapes[i], "across", 9);
    }
}

/* Images that are computed on the way, whose taps reach less far than they are apart: channels of a line, taps far from each other. */
static int build_taps_apart(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    const int64_t *p = param; /* channels, elements, stride, kernel, dilation */
    ls_conv_spec spec = {.spatial = 1, .stride = {p[2]}, .dilation = {p[4]}};
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(2, p[0], p[1])), *w = tame_tensor(s, rng, LS_F32, LS_SHAPE(8, p[0], p[3]));
    out_roots[0] = ls_conv(s, ls_relu(s, x), w, NULL, &spec);
    out_roots[1] = ls_conv(s, ls_neg(s, ls_flip(s, x, 2)), w, NULL, &spec);
    return 2;
}

static void taps_apart(void **state) {
    static const int64_t cases[][5] = {{48, 47, 2, 1, 1}, {5, 47, 2, 1, 1},  {16, 100, 3, 1, 1},
                                       {3, 50, 1, 3, 20}, {3, 53, 2, 4, 15}, {40, 9, 4, 1, 1}};
    for (uint64_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(*state, build_taps_apart, i, cases[i], "taps apart", true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_lines), cmocka_unit_test(lines_apart),  cmocka_unit_test(across),
                                       cmocka_unit_test(taps_apart), cmocka_unit_test(random_cases), cmocka_unit_test(bounded)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
