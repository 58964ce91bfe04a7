/* Random products of any dtype, of operands that are turned, flipped, cut and broadcast, with an epilogue or none, on `cpu` and on
 * `ref`: programs launched several times, what they read written anew between some launches; then in fast and reduced arithmetic,
 * within the oracle's bound. And extremes with their gradients. For LOCKSTEP_SECONDS each (2, 1, 1, 1, 1), from the seed LOCKSTEP_SEED (1) on.
 * A case is its seed. */
#include "conformance/cpu_cases.h"

enum { MOST_INPUTS = 6, LAUNCHES = 7 };

typedef struct product {
    ls_tensor *inputs[MOST_INPUTS], *root;
    int n;
    ls_symbol *rows;
    int64_t most;
    ls_rng *values; /* NULL: inputs; else tensors of these */
    char what[256];
} product;

/* wild: 0: no NaN and no infinity; 1: few of them; 2: anything. */
static void fill(ls_rng *rng, ls_dtype dtype, void *data, size_t bytes, int wild);

static int64_t edge(ls_rng *rng) {
    static const int64_t edges[] = {0,  1,  1,  2,  3,   4,   6,   7,   8,   9,   12, 13, 14,
                                    15, 16, 17, 24, 31,  32,  33,  36,  47,  48,  49, 63, 64,
                                    65, 95, 96, 97, 127, 128, 129, 255, 256, 257, 300};
    return chance(rng, 3) ? draw(rng, 1, 300) : edges[ls_rng_below(rng, sizeof edges / sizeof *edges)];
}

static ls_tensor *input(ls_session *s, product *p, ls_dtype dtype, ls_shape shape) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    if (p->values) {
        size_t bytes = (size_t)numel_of(shape) * ls_dtype_size(dtype);
        void *data = calloc(1, bytes + 1);
        fill(p->values, dtype, data, bytes, 0);
        p->inputs[p->n] = ls_tensor_from(s, dtype, shape, data);
        free(data);
        return p->inputs[p->n++];
    }
    p->inputs[p->n] = ls_input(s, names[p->n], dtype, shape);
    return p->inputs[p->n++];
}

/* x of this shape: an input whose axes lie in another order, of which every other element is read, backwards, or one for all. */
static ls_tensor *operand(ls_session *s, ls_rng *rng, product *p, ls_dtype dtype, ls_shape shape) {
    int order[LS_MAX_RANK], back[LS_MAX_RANK];
    ls_shape laid = shape;
    ls_slice_spec slices[LS_MAX_RANK];
    bool turn = chance(rng, 2), cut = chance(rng, 4) && !p->rows, spread = chance(rng, 6),
         cast = chance(rng, 10);
    for (int i = 0; i < shape.rank; i++) {
        order[i] = i;
    }
    for (int i = shape.rank - 1; i > 0 && turn; i--) {
        int j = (int)ls_rng_below(rng, (uint64_t)i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (int i = 0; i < shape.rank; i++) {
        laid.dim[i] = shape.dim[order[i]];
        back[order[i]] = i;
    }
    ls_shape whole = laid;
    for (int i = 0; i < shape.rank; i++) {
        int64_t n = laid.dim[i].offset, before = draw(rng, 0, 3), kind = (int64_t)ls_rng_below(rng, 4);
        bool fixed = !laid.dim[i].symbol;
        if (spread && fixed && chance(rng, 2) && n) {
            whole.dim[i] = ls_dim_of(1);
            slices[i] = (ls_slice_spec){0, 1, 1};
        } else if (cut && fixed && n) {
            int64_t step = kind == 0 ? 2 : 1;
            whole.dim[i] = ls_dim_of(before + n * step + draw(rng, 0, 3));
            slices[i] = (ls_slice_spec){before, before + (n - 1) * step + 1, step};
            if (kind == 1) {
                slices[i] = (ls_slice_spec){before + n - 1, before - 1, -1};
            }
        } else {
            slices[i] = (ls_slice_spec){0, n, 1};
        }
    }
    ls_tensor *x = input(s, p, cast && dtype == LS_F32 ? LS_F16 : dtype, whole);
    if (cut) {
        x = ls_slice(s, x, slices);
    }
    x = cast ? ls_cast(s, x, dtype) : x;
    x = spread ? ls_expand(s, x, laid) : x;
    return ls_permute(s, x, back);
}

static ls_tensor *epilogue(ls_session *s, ls_rng *rng, product *p, ls_tensor *y) {
    for (int64_t n = chance(rng, 2) ? 0 : draw(rng, 1, 2); n > 0 && y; n--) {
        ls_shape shape = ls_tensor_shape(y);
        uint64_t kind = ls_rng_below(rng, 4); /* one for all, along columns or rows, one each */
        for (int i = 0; i < shape.rank; i++) {
            bool own = kind == 3 || (kind == 1 && i == shape.rank - 1) || (kind == 2 && i == shape.rank - 2);
            shape.dim[i] = own ? shape.dim[i] : ls_dim_of(1);
        }
        switch (ls_rng_below(rng, 5)) {
        case 0:
        case 1:
            y = ls_add(s, y, input(s, p, ls_tensor_dtype(y), shape));
            break;
        case 2:
            y = ls_max(s, y, ls_full(s, ls_tensor_dtype(y), LS_SCALAR, chance(rng, 2) ? 0 : (double)draw(rng, 0, 4)));
            break;
        case 3:
            y = ls_mul(s, y, y);
            break;
        default:
            y = ls_cast(s, y, ls_tensor_dtype(y) == LS_F32 ? (chance(rng, 2) ? LS_F16 : LS_BF16) : LS_F32);
            break;
        }
    }
    return y;
}

/* A convolution of planes that fill no vectors, of single elements or of a plane as a whole, padded or not: turned, or else kept packed, once its
 * filter has been the same for long enough. */
typedef struct small_planes {
    int64_t images, channels, outputs, lines, width, stride, pad;
    bool bias, whole;
} small_planes;

static small_planes draw_planes(ls_rng *rng) {
    const bool seven = chance(rng, 3), many = chance(rng, 5), whole = chance(rng, 5);
    return (small_planes){.images = chance(rng, 4) ? 2 : 1, .channels = whole ? draw(rng, 4, 16) : draw(rng, 64, many ? 70 : 110),
                          .outputs = many ? (chance(rng, 2) ? 512 : 1024) + draw(rng, 0, 99) : chance(rng, 2) ? 16 * draw(rng, 2, 12) : draw(rng, 24, 180),
                          .lines = seven ? 7 : draw(rng, 1, 8), .width = seven ? 7 : draw(rng, 1, 8), .stride = !whole && chance(rng, 3) ? 2 : 1,
                          .pad = whole && chance(rng, 2), .bias = chance(rng, 2), .whole = whole};
}

static ls_shape image_of(const small_planes *c) {
    return LS_SHAPE(c->images, c->channels, (c->lines - 1) * c->stride + 1, (c->width - 1) * c->stride + 1);
}

static ls_tensor *filter_of(ls_session *s, ls_rng *values, const small_planes *c, int wild) {
    const ls_shape shape = LS_SHAPE(c->outputs, c->channels, c->whole ? c->lines : 1, c->whole ? c->width : 1);
    const size_t bytes = (size_t)numel_of(shape) * sizeof(float);
    float *data = malloc(bytes);
    fill(values, LS_F32, data, bytes, wild);
    ls_tensor *filter = ls_tensor_from(s, LS_F32, shape, data);
    free(data);
    return filter;
}

static ls_tensor *convolution_of(ls_session *s, const small_planes *c, ls_tensor *x, ls_tensor *filter, ls_tensor *bias) {
    return ls_conv(s, x, filter, bias, &(ls_conv_spec){.spatial = 2, .stride = {c->stride, c->stride}, .pad_low = {c->pad, c->pad}, .pad_high = {c->pad, c->pad}, .groups = 1});
}

static product build_planes(ls_session *s, ls_context *context, ls_rng *rng, ls_rng *random_values) {
    (void)context, (void)random_values;
    product p = {.most = 0};
    ls_rng values = {ls_rng_below(rng, 1000), 2};
    const small_planes c = draw_planes(rng);
    const ls_shape shape = image_of(&c);
    ls_tensor *x, *w = filter_of(s, &values, &c, chance(rng, 3));
    if (chance(rng, 3)) { /* so has the image */
        const size_t bytes = (size_t)numel_of(shape) * sizeof(float);
        float *data = malloc(bytes);
        fill(&values, LS_F32, data, bytes, 0);
        x = ls_var_value(s, ls_var_create(s, "x", LS_F32, shape, data));
        free(data);
    } else {
        x = input(s, &p, LS_F32, shape);
    }
    ls_tensor *bias = c.bias ? input(s, &p, LS_F32, LS_SHAPE(c.outputs)) : NULL;
    snprintf(p.what, sizeof p.what, "small planes, %d to %d, %d by %d, stride %d, padded by %d%s", (int)c.channels, (int)c.outputs, (int)c.lines, (int)c.width,
             (int)c.stride, (int)c.pad, c.whole ? ", whole" : "");
    p.root = epilogue(s, rng, &p, convolution_of(s, &c, x, w, bias));
    return p;
}

static product build(ls_session *s, ls_context *context, ls_rng *rng, ls_rng *random_values) {
    static const ls_dtype dtypes[] = {LS_F32,  LS_F32, LS_F32, LS_F64, LS_F16,
                                      LS_BF16, LS_I8,  LS_U8,  LS_I32, LS_I16};
    product p = {.most = 300, .values = random_values};
    ls_dtype dtype = dtypes[ls_rng_below(rng, 10)], out = dtype;
    bool small = chance(rng, 5), batched = small || chance(rng, 3);
    int64_t b = batched ? draw(rng, 1, small ? 300 : 5) : 1, m = edge(rng), n = edge(rng), k = edge(rng);
    if (small) {
        m = chance(rng, 2) ? 1 : draw(rng, 1, 4);
        n = chance(rng, 2) ? 1 : draw(rng, 1, 20);
        k = chance(rng, 2) ? draw(rng, 1, 64) : edge(rng);
    } else if (chance(rng, 4)) {
        m = 1;
        n = chance(rng, 3) ? draw(rng, 1, 9000) : n;
    } else if (chance(rng, 6)) {
        n = 1;
        m = chance(rng, 3) ? draw(rng, 1, 9000) : m;
    }
    if (chance(rng, m == 1 || n == 1 ? 3 : 8) && m * n < 10000) {
        k = draw(rng, 500, 1600);
    }
    int64_t most = chance(rng, 30) ? 4000000 : 150000;
    while (b * m * n * k > most) { /* one of them shrinks, so that `ref` has many cases behind it soon */
        int64_t *which[] = {&m, &n, &k, &b}, *one = which[ls_rng_below(rng, batched ? 4 : 3)];
        *one = (*one + 1) / 2;
    }
    if (dtype == LS_F16 || dtype == LS_BF16) {
        out = chance(rng, 2) ? LS_F32 : dtype;
    } else if (dtype == LS_I8 || dtype == LS_U8 || dtype == LS_I16) {
        out = chance(rng, 2) ? LS_I32 : dtype;
    }
    snprintf(p.what, sizeof p.what, "dtype %d to %d, b %d m %d n %d k %d%s", dtype, out, (int)b, (int)m,
             (int)n, (int)k, batched ? ", batched" : "");
    ls_dim rows = ls_dim_of(m);
    if (chance(rng, 6) && m > 0 && !random_values) {
        p.most = m;
        p.rows = ls_symbol_create(context, "rows", m, NULL);
        rows = ls_dim_symbol(p.rows, 1, 0);
    }
    ls_shape a = {.rank = 2, .dim = {rows, ls_dim_of(k)}},
             w = {.rank = 2, .dim = {ls_dim_of(k), ls_dim_of(n)}};
    ls_contract_spec spec = {.n_contract = 1, .contract_a = {1}, .contract_b = {0}};
    bool both = batched && !chance(rng, 4);
    if (batched) {
        a = (ls_shape){.rank = 3, .dim = {ls_dim_of(b), rows, ls_dim_of(k)}};
        spec.contract_a[0] = 2;
    }
    if (both) {
        w = (ls_shape){.rank = 3, .dim = {ls_dim_of(b), ls_dim_of(k), ls_dim_of(n)}};
        spec.n_batch = 1;
        spec.contract_b[0] = 1;
    }
    ls_tensor *x = operand(s, rng, &p, dtype, a), *y = operand(s, rng, &p, dtype, w);
    bool swap = chance(rng, 4);
    if (swap) {
        ls_contract_spec other = spec;
        other.contract_a[0] = spec.contract_b[0];
        other.contract_b[0] = spec.contract_a[0];
        p.root = ls_contract(s, y, x, &other, out);
    } else {
        p.root = ls_contract(s, x, y, &spec, out);
    }
    if (p.root && chance(rng, 4)) {
        int rank = ls_tensor_shape(p.root).rank;
        p.root = ls_transpose(s, p.root, rank - 1, rank - 2);
    }
    p.root = p.root ? epilogue(s, rng, &p, p.root) : NULL;
    return p;
}

static void fill(ls_rng *rng, ls_dtype dtype, void *data, size_t bytes, int wild) {
    int64_t n = (int64_t)(bytes / ls_dtype_size(dtype));
    fill_data(rng, dtype, data, n);
    for (int64_t i = 0; i < n && wild < 2; i++) {
        if (dtype == LS_F32) {
            float *x = (float *)data + i;
            *x = *x - *x == 0 && *x < 1000 && *x > -1000 ? *x : 1;
        } else if (dtype == LS_F64) {
            double *x = (double *)data + i;
            *x = *x - *x == 0 && *x < 1000 && *x > -1000 ? *x : 1;
        } else if (dtype == LS_F16 || dtype == LS_BF16) {
            uint16_t *x = (uint16_t *)data + i;
            *x &= 0xbfff; /* less than 2 */
        }
    }
    static const uint32_t awkward[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff812345,
                                       0x7f800000, 0xff800000, 0x80000000, 0x7fffffff};
    for (int64_t few = wild == 1 && n ? draw(rng, 1, 3) : 0; few > 0; few--) {
        int64_t at = chance(rng, 2) ? (chance(rng, 2) ? 0 : n - 1) : (int64_t)ls_rng_below(rng, (uint64_t)n);
        uint32_t bits = awkward[ls_rng_below(rng, 8)];
        if (dtype == LS_F32) {
            ((uint32_t *)data)[at] = bits;
        } else if (dtype == LS_F64) {
            uint64_t wide = (uint64_t)(bits & 0x80000000) << 32 |
                            (bits & 0x7f800000 ? UINT64_C(0x7ff) << 52 : 0) | (bits & 0x7fffff);
            ((uint64_t *)data)[at] = wide;
        } else if (dtype == LS_BF16) {
            ((uint16_t *)data)[at] = (uint16_t)(bits >> 16 | (bits & 1));
        } else if (dtype == LS_F16) {
            ((uint16_t *)data)[at] =
                (uint16_t)((bits >> 16 & 0x8000) | (bits & 0x7f800000 ? 0x7c00 : 0) | (bits & 0x1ff));
        }
    }
}

typedef struct launches {
    void *out[LAUNCHES];
    size_t bytes[LAUNCHES];
    char what[256];
} launches;

typedef product build_fn(ls_session *s, ls_context *context, ls_rng *rng, ls_rng *random_values);

static launches run(world *w, build_fn *build, uint64_t seed) {
    launches r = {0};
    ls_rng rng = {seed, 0}, values = {seed, 1};
    world_ok(w, ls_scope_begin(w->session));
    product p = build(w->session, w->context, &rng, NULL);
    memcpy(r.what, p.what, sizeof r.what);
    if (!p.root) {
        fail_msg("seed %llu: %s: %s", (unsigned long long)seed, p.what,
                 ls_session_error(w->session)->message);
    }
    ls_program *program;
    void *in[MOST_INPUTS] = {NULL};
    int wild = (int)ls_rng_below(&values, 3);
    uint64_t often = chance(&values, 2) ? 4 : 16; /* what lasts for some launches is kept in panels */
    world_ok(w, ls_program_compile(w->session, p.inputs, p.n, &p.root, 1, &program));
    for (int i = 0; i < p.n; i++) {
        size_t bytes = ls_tensor_bytes(w->session, p.inputs[i]);
        in[i] = calloc(1, bytes + 1);
        fill(&values, ls_tensor_dtype(p.inputs[i]), in[i], bytes, wild);
    }
    for (int launch = 0; launch < LAUNCHES; launch++) {
        if (p.rows) {
            world_ok(w, ls_symbol_bind(w->session, p.rows, draw(&values, 0, p.most)));
        }
        for (int i = 0; i < p.n && launch; i++) {
            if (chance(&values, often)) {
                fill(&values, ls_tensor_dtype(p.inputs[i]), in[i], ls_tensor_bytes(w->session, p.inputs[i]),
                     wild);
            }
        }
        r.bytes[launch] = ls_tensor_bytes(w->session, p.root);
        r.out[launch] = calloc(1, r.bytes[launch] + 4);
        world_ok(w, ls_program_run(program, (const void *const *)in, &r.out[launch]));
    }
    for (int i = 0; i < p.n; i++) {
        free(in[i]);
    }
    ls_program_destroy(program);
    ls_scope_end(w->session);
    return r;
}

/* Extremes of few different numbers, so that there are ties, and NaN: of two tensors, along axes, and over windows, with their gradients. */
static ls_tensor *few_numbers(ls_session *s, ls_rng *rng, ls_dtype dtype, ls_shape shape) {
    static const float numbers[] = {0.0f, -0.0f, 1, 1, -1, 2, 0.5f, 3};
    int64_t n = numel_of(shape);
    float *data = calloc((size_t)n + 1, sizeof *data);
    bool rare = chance(rng, 2);
    for (int64_t i = 0; i < n; i++) {
        data[i] = numbers[ls_rng_below(rng, 8)];
        if (rare && chance(rng, 40)) {
            data[i] = chance(rng, 2)   ? __builtin_nanf("")
                      : chance(rng, 2) ? __builtin_inff()
                                       : -__builtin_inff();
        }
    }
    ls_tensor *x = ls_cast(s, ls_tensor_from(s, LS_F32, shape, data), dtype);
    free(data);
    return x;
}

static int build_extremes(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    static const ls_dtype dtypes[] = {LS_F32, LS_F32, LS_F32, LS_F64, LS_F16, LS_BF16};
    ls_dtype dtype = dtypes[ls_rng_below(rng, 6)];
    ls_shape shape = LS_SHAPE(draw(rng, 1, 4), draw(rng, 1, 6), draw(rng, 3, 40), draw(rng, 3, 70));
    ls_tensor *x[2] = {few_numbers(s, rng, dtype, shape)}, *y = NULL;
    if (chance(rng, 2)) {
        shape.dim[ls_rng_below(rng, 4)] = ls_dim_of(1);
    }
    x[1] = few_numbers(s, rng, dtype, shape);
    int axes[] = {(int)ls_rng_below(rng, 4), 0}, two = (int)draw(rng, 1, 2);
    axes[1] = (axes[0] + 1 + (int)ls_rng_below(rng, 3)) % 4;
    ls_tensor *both = chance(rng, 2) ? ls_max(s, x[0], x[1]) : ls_min(s, x[0], x[1]);
    switch (ls_rng_below(rng, 4)) {
    case 0:
        y = both;
        break;
    case 1:
        y = chance(rng, 2) ? ls_amax(s, both, two, axes, 1) : ls_amin(s, both, two, axes, 1);
        break;
    case 2: {
        ls_window_spec windows[] = {{draw(rng, 1, 3), draw(rng, 1, 3), 1},
                                    {draw(rng, 1, 3), draw(rng, 1, 3), 1}};
        int last[] = {4, 5}, planes[] = {2, 3};
        ls_tensor *w = ls_window(s, both, 2, planes, windows);
        y = chance(rng, 2) ? ls_amax(s, w, 2, last, 0) : ls_amin(s, w, 2, last, 0);
        break;
    }
    default: {
        ls_conv_spec spec = {.spatial = 2, .groups = 1};
        int64_t kernel[] = {draw(rng, 1, 3), draw(rng, 1, 3)};
        for (int i = 0; i < 2; i++) {
            spec.stride[i] = draw(rng, 1, 3);
            spec.dilation[i] = 1;
            spec.pad_low[i] = spec.pad_high[i] = draw(rng, 0, kernel[i] / 2);
        }
        y = ls_max_pool(s, ls_relu(s, both), kernel, &spec);
        break;
    }
    }
    out_roots[0] = y;
    ls_tensor *weight = y ? few_numbers(s, rng, dtype, ls_tensor_shape(y)) : NULL;
    world_ok(&(world){.id = "gradients", .session = s},
             ls_grad(s, y ? ls_mul(s, y, weight) : y, NULL, 2, x, out_roots + 1));
    return 3;
}

static void random_extremes(void **state) {
    seeds s = seeds_from(1);
    do {
        check_case(*state, build_extremes, s.seed, NULL, "extremes", s.chosen);
    } while (seeds_next(&s));
}

static void check_launches(worlds *all, build_fn *build, seeds s) {
    do {
        launches want = run(&all->ref, build, s.seed);
        for (int c = 0; c < all->n; c++) {
            if (!s.chosen && c != (int)(s.seed % (uint64_t)all->n)) {
                continue;
            }
            launches got = run(&all->cpu[c], build, s.seed);
            for (int i = 0; i < LAUNCHES; i++) {
                check_bytes(all->names[c], want.what, s.seed, i, got.out[i], got.bytes[i], want.out[i], want.bytes[i]);
                free(got.out[i]);
            }
        }
        for (int i = 0; i < LAUNCHES; i++) {
            free(want.out[i]);
        }
        all->cases++;
    } while (seeds_next(&s));
}

static void random_products(void **state) {
    check_launches(*state, build, seeds_from(2));
}

static void random_planes(void **state) {
    check_launches(*state, build_planes, seeds_from(1));
}

/* A kept matrix by columns that are a symbol: each of two numbers of them in turn, for long enough that what either wants of the matrix is kept. */
static void symbolic_columns(void **state) {
    worlds *all = *state;
    static const int64_t shapes[][4] = {{128, 64, 64, 9}, {100, 96, 49, 128}, {257, 130, 25, 200}, {33, 70, 7, 1}}; /* m, k, and the columns */
    enum { MOST = 200, TURNS = 14 };
    for (size_t q = 0; q < sizeof shapes / sizeof *shapes; q++) {
        const int64_t m = shapes[q][0], k = shapes[q][1];
        float *a = malloc(sizeof *a * (size_t)(m * k)), *x = malloc(sizeof *x * (size_t)(k * MOST)), *got = malloc(sizeof *got * (size_t)(m * MOST));
        float *want[] = {malloc(sizeof *got * (size_t)(m * MOST)), malloc(sizeof *got * (size_t)(m * MOST))};
        ls_rng values = {q, 0};
        fill_normal(&values, a, m * k);
        fill_normal(&values, x, k * MOST);
        for (int c = -1; c < all->n; c++) { /* ref is first */
            world *w = c < 0 ? &all->ref : &all->cpu[c];
            world_ok(w, ls_scope_begin(w->session));
            ls_symbol *columns = ls_symbol_create(w->context, "columns", MOST, NULL);
            ls_tensor *in = ls_input(w->session, "x", LS_F32, (ls_shape){.rank = 2, .dim = {ls_dim_of(k), ls_dim_symbol(columns, 1, 0)}});
            ls_tensor *y = ls_matmul(w->session, ls_tensor_from(w->session, LS_F32, LS_SHAPE(m, k), a), in);
            ls_program *program;
            world_ok(w, ls_program_compile(w->session, &in, 1, &y, 1, &program));
            for (int turn = 0; turn < (c < 0 ? 2 : TURNS); turn++) {
                const int64_t n = shapes[q][2 + turn % 2];
                const void *inputs[] = {x};
                void *outputs[] = {c < 0 ? want[turn] : got};
                world_ok(w, ls_symbol_bind(w->session, columns, n));
                world_ok(w, ls_program_run(program, inputs, outputs));
                if (c >= 0) {
                    const size_t bytes = (size_t)(m * n) * sizeof *got;
                    check_bytes(all->names[c], "symbolic columns", q, turn, got, bytes, want[turn % 2], bytes);
                }
            }
            ls_program_destroy(program);
            ls_scope_end(w->session);
        }
        free(a);
        free(x);
        free(got);
        free(want[0]);
        free(want[1]);
    }
}

/* Fast and reduced products lie within the oracle's bound. */
static void bounded(void **state) {
    worlds *all = *state;
    seeds s = seeds_from(1);
    do {
        world *w = &all->cpu[s.seed % (uint64_t)all->n];
        ls_rng rng = {s.seed, 0}, values = {s.seed, 1};
        world_ok(w, ls_scope_begin(w->session));
        ls_session_set_math(w->session, s.seed % 3 ? LS_FAST : LS_REDUCED);
        product p = build(w->session, w->context, &rng, &values);
        if (!p.root) {
            fail_msg("seed %llu: %s: %s", (unsigned long long)s.seed, p.what,
                     ls_session_error(w->session)->message);
        }
        check_bound(w, all->names[s.seed % (uint64_t)all->n], p.what, s.seed, &p.root, 1);
        ls_session_set_math(w->session, LS_LOCKED);
        ls_scope_end(w->session);
    } while (seeds_next(&s));
}

/* Columns that fill vectors badly, by a matrix that is kept at last: exchanged in fast, and in reduced where there are no products of pairs of bf16. */
static void bounded_columns(void **state) {
    worlds *all = *state;
    static const int64_t shapes[][3] = {{64, 49, 64}, {128, 60, 100}, {257, 50, 64}, {128, 25, 96}, {100, 9, 70}}; /* m, n, k */
    for (size_t q = 0; q < 2 * sizeof shapes / sizeof *shapes; q++) {
        const int64_t *d = shapes[q / 2], m = d[0], n = d[1], k = d[2];
        float *a = malloc(sizeof *a * (size_t)(m * k)), *x = malloc(sizeof *x * (size_t)(k * n));
        ls_rng values = {q, 0};
        fill_normal(&values, a, m * k);
        for (int c = 0; c < all->n; c++) {
            world *w = &all->cpu[c];
            world_ok(w, ls_scope_begin(w->session));
            ls_session_set_math(w->session, q % 2 ? LS_FAST : LS_REDUCED);
            ls_tensor *matrix = ls_tensor_from(w->session, LS_F32, LS_SHAPE(m, k), a);
            for (int launch = 0; launch < LAUNCHES; launch++) {
                fill_normal(&values, x, k * n);
                ls_tensor *y = ls_matmul(w->session, matrix, ls_tensor_from(w->session, LS_F32, LS_SHAPE(k, n), x));
                check_bound(w, all->names[c], "columns", q, &y, 1);
            }
            ls_session_set_math(w->session, LS_LOCKED);
            ls_scope_end(w->session);
        }
        free(a);
        free(x);
    }
}

/* The same of planes whose filter is kept, image by image. */
static void bounded_planes(void **state) {
    worlds *all = *state;
    seeds s = seeds_from(1);
    do {
        world *w = &all->cpu[s.seed % (uint64_t)all->n];
        ls_rng rng = {s.seed, 0}, values = {s.seed, 1};
        const small_planes c = draw_planes(&rng);
        product p = {.values = &values};
        world_ok(w, ls_scope_begin(w->session));
        ls_session_set_math(w->session, LS_FAST);
        ls_tensor *filter = filter_of(w->session, &values, &c, 0);
        ls_tensor *bias = c.bias ? input(w->session, &p, LS_F32, LS_SHAPE(c.outputs)) : NULL;
        for (int launch = 0; launch < LAUNCHES; launch++) {
            p.n = c.bias;
            ls_tensor *x = input(w->session, &p, LS_F32, image_of(&c));
            ls_tensor *y = convolution_of(w->session, &c, x, filter, bias);
            check_bound(w, all->names[s.seed % (uint64_t)all->n], "small planes", s.seed, &y, 1);
        }
        ls_session_set_math(w->session, LS_LOCKED);
        ls_scope_end(w->session);
    } while (seeds_next(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_products), cmocka_unit_test(random_planes), cmocka_unit_test(random_extremes),
                                       cmocka_unit_test(symbolic_columns),
                                       cmocka_unit_test(bounded), cmocka_unit_test(bounded_columns), cmocka_unit_test(bounded_planes)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
