/* Random windows of anything, contracted with a filter over random axes, convolutions of lines that are computed on the way, and of pictures with what
 * networks have after them, on `cpu` and on `ref`, the latter in fast, too: for LOCKSTEP_SECONDS (8), from seed 1 on, each on one configuration of `cpu` by turns. LOCKSTEP_SEED=n begins there, and tries all
 * configurations. A case that fails or never ends prints its graph. */
#include "conformance/cpu_cases.h"
#include <signal.h>

enum { ELEMENTS = 4000, TERMS = 400000 }; /* of an image or a result; multiplied, in all */

static char graph[1000];

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    size_t n = strlen(graph);
    va_list args;
    va_start(args, format);
    vsnprintf(graph + n, sizeof graph - n, format, args);
    va_end(args);
}

static ls_tensor *noted(const char *step, ls_tensor *x) {
    char text[64] = "(refused)";
    if (x) {
        ls_shape shape = ls_tensor_shape(x);
        text[0] = '\0';
        for (int i = 0; i < shape.rank; i++) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? "x" : "",
                     (int)shape.dim[i].offset);
        }
    }
    note("%s %s; ", step, text);
    return x;
}

/* Read in place where nothing is done to it: normal numbers, at times what is awkward. */
static ls_tensor *leaf(ls_session *s, ls_rng *rng, ls_dtype dtype, ls_shape shape) {
    if (dtype != LS_F32 || chance(rng, 12)) {
        return noted(ls_dtype_name(dtype),
                     (chance(rng, 6) ? random_tensor : tame_tensor)(s, rng, dtype, shape));
    }
    float *data = calloc((size_t)numel_of(shape) + 1, sizeof *data);
    fill_normal(rng, data, numel_of(shape));
    ls_tensor *x = noted("f32", ls_tensor_from(s, dtype, shape, data));
    free(data);
    return x;
}

static void shuffle(ls_rng *rng, int *items, int n) {
    for (int i = 0; i < n; i++) {
        int j = i + (int)ls_rng_below(rng, (uint64_t)(n - i)), t = items[i];
        items[i] = items[j];
        items[j] = t;
    }
}

/* Something that is done to an image first. */
static ls_tensor *computed(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x), more = shape;
    ls_dtype dtype = ls_tensor_dtype(x);
    int axis = (int)ls_rng_below(rng, (uint64_t)shape.rank), order[LS_MAX_RANK];
    ls_pad_spec pads[LS_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        order[i] = i;
        pads[i] = (ls_pad_spec){chance(rng, 2) ? draw(rng, shape.dim[i].offset > 2 ? -1 : 0, 4) : 0,
                                chance(rng, 2) ? draw(rng, 0, 4) : 0, chance(rng, 6)};
    }
    shuffle(rng, order, shape.rank);
    more.dim[axis] = ls_dim_of(draw(rng, 1, 20));
    switch (ls_rng_below(rng, 8)) {
    case 0:
        return noted("relu", ls_relu(s, x));
    case 1:
        return noted("square", ls_mul(s, x, x));
    case 2:
        return noted("add", ls_add(s, x, ls_full(s, dtype, LS_SCALAR, 0.5)));
    case 3:
        return noted("flip", ls_flip(s, x, axis));
    case 4:
        return noted("permute", ls_permute(s, x, order));
    case 5:
        return noted("concat", ls_concat(s, (ls_tensor *[]){x, leaf(s, rng, dtype, more)}, 2, axis));
    case 6:
        return noted("pad", ls_pad(s, x, pads, chance(rng, 2) ? 0 : 0.5));
    default:
        return noted("pad absent", ls_pad_absent(s, x, pads));
    }
}

/* The larger of a result and of a number for all of it or for each element along some axes. */
static ls_tensor *finished(ls_session *s, ls_rng *rng, ls_tensor *y) {
    if (!y || chance(rng, 2)) {
        return y;
    }
    ls_shape shape = ls_tensor_shape(y);
    for (int i = 0; i < shape.rank; i++) {
        shape.dim[i] = chance(rng, 2) ? shape.dim[i] : ls_dim_of(1);
    }
    return noted("max", ls_max(s, y, leaf(s, rng, ls_tensor_dtype(y), shape)));
}

static int build_windows(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F32, LS_F32, LS_F32, LS_F32, LS_F16, LS_BF16, LS_F64};
    (void)param;
    graph[0] = '\0';
    ls_shape shape = {.rank = (int)draw(rng, 1, 4)};
    ls_dtype dtype = dtypes[ls_rng_below(rng, 8)];
    int64_t left = ELEMENTS / 3;
    for (int i = 0; i < shape.rank; i++) {
        shape.dim[i] = ls_dim_of(1 + (int64_t)ls_rng_below(rng, (uint64_t)(left < 60            ? left
                                                                           : i < shape.rank - 1 ? 24
                                                                                                : 60)));
        left /= shape.dim[i].offset;
        left += !left;
    }
    ls_tensor *x = leaf(s, rng, dtype, shape);
    for (int64_t n = draw(rng, 0, 2); n > 0; n--) {
        x = computed(s, rng, x);
    }
    shape = ls_tensor_shape(x);
    ls_window_spec windows[3];
    int axes[3], count = 0;
    for (int i = 0; i < shape.rank && count < 3 && shape.rank + count < 7; i++) {
        if (chance(rng, 2) || (i == shape.rank - 1 && !count)) {
            ls_window_spec w = {draw(rng, 1, 5), draw(rng, 1, 3), chance(rng, 3) ? draw(rng, 1, 6) : 1};
            while (w.dilation * (w.size - 1) + 1 > shape.dim[i].offset) {
                *(w.dilation > 1 ? &w.dilation : &w.size) -= 1;
            }
            note("%d: %d/%d/%d, ", i, (int)w.size, (int)w.stride, (int)w.dilation);
            windows[count] = w;
            axes[count++] = i;
        }
    }
    ls_tensor *y = noted("windows", ls_window(s, x, count, axes, windows));
    shape = ls_tensor_shape(y);
    enum { OTHER, BATCH, CONTRACTED } role[LS_MAX_RANK];
    int contracted[LS_MAX_RANK], n = 0, first = shape.rank - count, filter_axes[LS_MAX_RANK], n_filter = 0,
                                 place[LS_MAX_RANK];
    int64_t results = 1, terms = 1;
    for (int i = 0; i < shape.rank; i++) { /* of the windows first, as convolutions do */
        int axis = (i + first) % shape.rank;
        role[axis] = axis >= first    ? (chance(rng, 8) ? OTHER : CONTRACTED)
                     : chance(rng, 3) ? CONTRACTED
                     : chance(rng, 5) ? BATCH
                                      : OTHER;
        if (role[axis] == CONTRACTED) {
            contracted[n++] = axis;
        }
        *(role[axis] == CONTRACTED ? &terms : &results) *= shape.dim[axis].offset;
        if (role[axis] != OTHER) {
            filter_axes[n_filter++] = axis;
        }
    }
    if (chance(rng, 3)) {
        shuffle(rng, contracted, n);
    }
    int64_t outputs = draw(rng, 1, chance(rng, 6) ? 120 : 40);
    while (outputs > 1 && (results * outputs > ELEMENTS || results * terms * outputs > TERMS)) {
        outputs /= 2;
    }
    bool several = n_filter < 7 && shape.rank - n < 7 && !chance(rng, 8);
    if (several) {
        filter_axes[n_filter++] = shape.rank;
    }
    if (chance(rng, 2)) {
        shuffle(rng, filter_axes, n_filter);
    }
    ls_shape filter = {.rank = n_filter};
    for (int i = 0; i < n_filter; i++) {
        place[filter_axes[i]] = i;
        filter.dim[i] = filter_axes[i] == shape.rank ? ls_dim_of(outputs) : shape.dim[filter_axes[i]];
    }
    ls_contract_spec spec = {0};
    bool swap = chance(rng, 2);
    for (int i = 0; i < n; i++, spec.n_contract++) {
        (swap ? spec.contract_b : spec.contract_a)[i] = contracted[i];
        (swap ? spec.contract_a : spec.contract_b)[i] = place[contracted[i]];
        note("%d ", contracted[i]);
    }
    for (int i = 0; i < shape.rank; i++) {
        if (role[i] == BATCH) {
            (swap ? spec.batch_b : spec.batch_a)[spec.n_batch] = i;
            (swap ? spec.batch_a : spec.batch_b)[spec.n_batch++] = place[i];
        }
    }
    note("contracted with ");
    ls_tensor *f = leaf(s, rng, dtype, filter);
    out_roots[0] =
        finished(s, rng, noted("result", ls_contract(s, swap ? f : y, swap ? y : f, &spec, dtype)));
    return 1;
}

static int build_line(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    graph[0] = '\0';
    ls_conv_spec spec = {.spatial = 1,
                         .stride = {draw(rng, 1, 4)},
                         .dilation = {chance(rng, 2) ? draw(rng, 1, 20) : 1},
                         .groups = 1};
    int64_t channels = draw(rng, 1, 48), outputs = draw(rng, 1, 40);
    ls_tensor *x = leaf(s, rng, LS_F32, LS_SHAPE(draw(rng, 1, 3), channels, draw(rng, 1, 60))), *image = x;
    for (int64_t n = draw(rng, 1, 2); n > 0; n--) {
        image = computed(s, rng, image);
    }
    channels = ls_tensor_shape(image).dim[1].offset;
    spec.groups = chance(rng, 4) ? channels : 1;
    outputs = spec.groups > 1 ? channels : outputs;
    spec.pad_low[0] = chance(rng, 2) ? draw(rng, 0, 4) : 0;
    spec.pad_high[0] = chance(rng, 2) ? draw(rng, 0, 4) : 0;
    int64_t room = ls_tensor_shape(image).dim[2].offset + spec.pad_low[0] + spec.pad_high[0];
    int64_t kernel = draw(rng, 1, 5);
    kernel = kernel < (room - 1) / spec.dilation[0] + 1 ? kernel : (room - 1) / spec.dilation[0] + 1;
    note("stride %d, dilation %d, padding %d %d, ", (int)spec.stride[0], (int)spec.dilation[0],
         (int)spec.pad_low[0], (int)spec.pad_high[0]);
    ls_tensor *w = leaf(s, rng, LS_F32, LS_SHAPE(outputs, channels / spec.groups, kernel));
    out_roots[0] = finished(s, rng, noted("convolution", ls_conv(s, image, w, NULL, &spec)));
    if (!chance(rng, 4)) {
        return 1;
    }
    world_ok(&(world){.id = "gradients", .session = s},
             ls_grad(s, out_roots[0], NULL, 2, (ls_tensor *[]){x, w}, out_roots + 1));
    return 3;
}

/* Lines of outputs are whole vectors or not; a bias and bounds follow. */
static int build_picture(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    graph[0] = '\0';
    const bool several = chance(rng, 4) /* chunks of k */, strided = chance(rng, 6);
    const int64_t least = several ? 3 : 1, taps[] = {draw(rng, least, 3), strided ? 3 : draw(rng, least, 4)}, lines = draw(rng, 1, several ? 2 : 6);
    const int64_t channels = several ? 60 : chance(rng, 2) ? draw(rng, 1, 12) : draw(rng, 16, 40);
    const int64_t outputs = chance(rng, 3) ? 10 : draw(rng, 1, 12); /* 10: by AVX2 a panel of six rows and four of the next one */
    const int64_t width = strided || chance(rng, 2) ? 24 * draw(rng, 1, 2) : draw(rng, 4, 50);
    ls_conv_spec spec = {.spatial = 2, .stride = {1, strided ? 2 : 1}, .groups = 1};
    int64_t size[] = {lines + taps[0] - 1, (width - 1) * spec.stride[1] + taps[1]};
    for (int i = 0; i < 2; i++) {
        const bool pads = chance(rng, 3) && size[i] > taps[i] + 1;
        spec.pad_low[i] = spec.pad_high[i] = pads;
        size[i] -= 2 * pads;
    }
    ls_tensor *x = leaf(s, rng, LS_F32, LS_SHAPE(draw(rng, 1, 2), channels, size[0], size[1]));
    ls_tensor *w = leaf(s, rng, LS_F32, LS_SHAPE(outputs, channels, taps[0], taps[1]));
    ls_tensor *bias = chance(rng, 3) ? NULL : noted("bias", tame_tensor(s, rng, LS_F32, LS_SHAPE(outputs)));
    ls_tensor *y = noted("convolution", ls_conv(s, x, w, bias, &spec));
    if (!chance(rng, 3)) {
        y = chance(rng, 2) ? noted("relu", ls_relu(s, y)) : noted("max", ls_max(s, y, tame_tensor(s, rng, LS_F32, LS_SHAPE(1, outputs, 1, 1))));
    }
    y = chance(rng, 3) ? noted("min", ls_min(s, y, ls_full(s, LS_F32, LS_SCALAR, 6))) : y;
    y = chance(rng, 4) ? noted("max", ls_max(s, y, ls_full(s, LS_F32, LS_SCALAR, -2))) : y;
    out_roots[0] = chance(rng, 6) ? noted("twice", ls_mul(s, y, ls_full(s, LS_F32, LS_SCALAR, 2))) : y;
    return 1;
}

/* Rows by sixteens and enough of k for tiles across, lines of one and of several, of few outputs, too, and of one dimension; padding of each kind. */
static int build_across(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    graph[0] = '\0';
    const bool narrow = chance(rng, 3), cut = chance(rng, 5); /* tiles of several lines; bands that begin in a line and end in the next one */
    const bool line = chance(rng, 4), seven = chance(rng, 2), few = chance(rng, 3);
    const int64_t along = 2 * draw(rng, 0, 3) + 1, taps[] = {line ? 1 : chance(rng, 4) ? draw(rng, 1, 7) : draw(rng, 2, 3), along};
    const int64_t least = (few ? 48 : 256) / (taps[0] * taps[1]) + 1;
    const int64_t channels = least + (chance(rng, 2) ? draw(rng, 0, 3) : draw(rng, 0, 40)), outputs = 16 * (1 + chance(rng, 2));
    const int64_t extent[] = {line ? 1 : few ? draw(rng, 1, 4) : narrow ? draw(rng, seven ? 5 : 1, 12) : cut ? 4 : draw(rng, 1, 4),
                              few ? draw(rng, 1, 4) : narrow ? (seven ? 7 : draw(rng, 1, 7)) : cut ? 48 : chance(rng, 2) ? 16 * draw(rng, 1, 2) : draw(rng, 8, 34)};
    ls_conv_spec spec = {.spatial = 2 - line, .groups = 1};
    ls_shape image = {.rank = 2, .dim = {ls_dim_of(draw(rng, 1, 2)), ls_dim_of(channels)}}, filter = {.rank = 2, .dim = {ls_dim_of(outputs), ls_dim_of(channels)}};
    for (int i = line, to = 0; i < 2; i++, to++) {
        const bool pads = !chance(rng, 3);
        spec.stride[to] = draw(rng, 1, 2);
        spec.dilation[to] = chance(rng, 5) ? 2 : 1;
        const int64_t whole = (extent[i] - 1) * spec.stride[to] + (taps[i] - 1) * spec.dilation[to] + 1;
        const int64_t low = pads ? draw(rng, 0, taps[i] + 1) : 0, high = pads ? draw(rng, 0, taps[i] + 1) : 0; /* an output may have nothing but padding */
        spec.pad_high[to] = low + high < whole ? high : 0;
        spec.pad_low[to] = low < whole ? low : 0;
        image.dim[image.rank++] = ls_dim_of(whole - spec.pad_low[to] - spec.pad_high[to]);
        filter.dim[filter.rank++] = ls_dim_of(taps[i]);
    }
    ls_tensor *x = leaf(s, rng, LS_F32, image), *w = leaf(s, rng, LS_F32, filter);
    ls_tensor *bias = chance(rng, 2) ? NULL : noted("bias", tame_tensor(s, rng, LS_F32, LS_SHAPE(outputs)));
    ls_tensor *y = noted("convolution", ls_conv(s, x, w, bias, &spec));
    out_roots[0] = chance(rng, 2) ? noted("relu", ls_relu(s, y)) : y;
    return 1;
}

/* Added to a variable, which may be the memory that results go to. */
static int build_in_place(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    static ls_var *sum; /* of the case before */
    build_across(s, rng, param, out_roots);
    const ls_shape shape = ls_tensor_shape(out_roots[0]);
    float *data = malloc(sizeof *data * (size_t)(numel_of(shape) + 1));
    fill_normal(rng, data, numel_of(shape));
    ls_var_destroy(sum);
    sum = ls_var_create(s, "sum", LS_F32, shape, data);
    free(data);
    ls_tensor *more = noted("added to a variable", ls_add(s, out_roots[0], ls_var_value(s, sum)));
    if (ls_var_assign(s, sum, more) != LS_OK || ls_realize(s, NULL, 0) != LS_OK) {
        fail_msg("%s: %s", graph, ls_session_error(s)->message);
    }
    out_roots[0] = ls_var_value(s, sum);
    return 1;
}

/* Transposed, of one dimension to three; a filter may have fewer taps than an image has gaps, and its k several chunks. */
static int build_transposed(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    graph[0] = '\0';
    const int spatial = (int)draw(rng, 1, 3), most = spatial == 1 ? 40 : spatial == 2 ? 9 : 4;
    const bool several = chance(rng, 4);
    const int64_t groups = several ? 1 : draw(rng, 1, 2), channels = groups * draw(rng, several ? 50 : 1, several ? 120 : 8), outputs = draw(rng, 1, several ? 4 : 12);
    ls_conv_spec spec = {.spatial = spatial, .groups = groups};
    ls_shape image = {.rank = 2 + spatial, .dim = {ls_dim_of(draw(rng, 1, 2)), ls_dim_of(channels)}};
    ls_shape filter = {.rank = 2 + spatial, .dim = {ls_dim_of(channels), ls_dim_of(outputs)}};
    for (int i = 0; i < spatial; i++) {
        const int64_t size = draw(rng, 1, most), taps = draw(rng, 1, 5);
        spec.stride[i] = draw(rng, 1, 3);
        spec.dilation[i] = chance(rng, 5) ? 2 : 1;
        spec.output_padding[i] = spec.stride[i] > 1 ? draw(rng, 0, spec.stride[i] - 1) : 0;
        const int64_t whole = (size - 1) * spec.stride[i] + spec.dilation[i] * (taps - 1) + 1 + spec.output_padding[i];
        spec.pad_low[i] = whole > 2 ? draw(rng, 0, 2) : 0;
        spec.pad_high[i] = spec.pad_low[i] + 2 < whole ? draw(rng, 0, 2) : 0;
        image.dim[2 + i] = ls_dim_of(size);
        filter.dim[2 + i] = ls_dim_of(taps);
        note("stride %d, dilation %d, padding %d %d %d, ", (int)spec.stride[i], (int)spec.dilation[i], (int)spec.pad_low[i], (int)spec.pad_high[i],
             (int)spec.output_padding[i]);
    }
    ls_tensor *x = leaf(s, rng, LS_F32, image), *w = leaf(s, rng, LS_F32, filter);
    ls_tensor *bias = chance(rng, 2) ? NULL : noted("bias", tame_tensor(s, rng, LS_F32, LS_SHAPE(groups * outputs)));
    ls_tensor *y = noted("transposed convolution", ls_conv_transpose(s, x, w, bias, &spec));
    out_roots[0] = chance(rng, 2) ? noted("relu", ls_relu(s, y)) : y;
    return 1;
}

static uint64_t seed_now;

#ifdef SIGALRM
#include <unistd.h>
static void never_ends(int signal) {
    (void)signal;
    fprintf(stderr, "seed %llu does not end: %s\n", (unsigned long long)seed_now, graph);
    _exit(1);
}
#endif

static void random_cases(void **state) {
    seeds s = seeds_from(8);
    do {
        seed_now = s.seed;
#ifdef SIGALRM
        signal(SIGALRM, never_ends);
        alarm(60);
#endif
        check_case(*state, build_windows, s.seed, NULL, graph, s.chosen);
        check_case(*state, build_line, s.seed, NULL, graph, s.chosen);
        check_case(*state, build_picture, s.seed, NULL, graph, s.chosen);
        check_case(*state, build_across, s.seed, NULL, graph, s.chosen);
        check_case(*state, build_in_place, s.seed, NULL, graph, s.chosen);
        check_case(*state, build_transposed, s.seed, NULL, graph, s.chosen);
        worlds *all = *state;
        check_fast(all, (int)(s.seed % (uint64_t)all->n), build_picture, (ls_rng){s.seed, 0}, NULL, "a picture in fast", s.seed);
        check_fast(all, (int)(s.seed % (uint64_t)all->n), build_across, (ls_rng){s.seed, 0}, NULL, "a picture across in fast", s.seed);
        check_fast(all, (int)(s.seed % (uint64_t)all->n), build_transposed, (ls_rng){s.seed, 0}, NULL, "a transposed convolution in fast", s.seed);
    } while (seeds_next(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_cases)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
