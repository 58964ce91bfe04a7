/* Random graphs: chains of every kind of operation over small tensors, fused as the planner likes, on cpu and on ref. */
#include "conformance/cpu_cases.h"

enum { MAX_NUMEL = 2500, STEPS = 9 };

static int64_t below(ls_rng *rng, int64_t n) {
    return n > 0 ? (int64_t)ls_rng_below(rng, (uint64_t)n) : 0;
}

static ls_tensor *random_map(ls_session *s, ls_rng *rng, ls_tensor *x, ls_tensor *y) {
    switch (below(rng, 10)) {
    case 0:
        return ls_add(s, x, y);
    case 1:
        return ls_mul(s, x, y);
    case 2:
        return ls_max(s, x, ls_neg(s, y));
    case 3:
        return ls_where(s, ls_lt(s, x, y), x, ls_abs(s, y));
    case 4:
        return ls_tanh(s, x);
    case 5:
        return ls_sub(s, ls_exp(s, ls_neg(s, ls_abs(s, x))), y);
    case 6:
        return ls_div(s, x, ls_add(s, ls_abs(s, y), ls_full(s, ls_tensor_dtype(y), LS_SHAPE(1), 1.0)));
    case 7:
        return ls_cast(s, ls_cast(s, x, (ls_dtype)below(rng, LS_DTYPE_COUNT)), ls_tensor_dtype(x));
    case 8:
        return ls_min(s, ls_rint(s, x), y);
    default:
        return ls_mul(s, x, ls_cast(s, ls_iota(s, LS_I32, ls_tensor_shape(x), (int)below(rng, ls_tensor_shape(x).rank)),
                                    ls_tensor_dtype(x)));
    }
}

/* Another tensor that broadcasts against x: x moved about where its shape allows, a row of it, or new data. */
static ls_tensor *companion(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int axis = (int)below(rng, shape.rank);
    switch (below(rng, 4)) {
    case 0:
        return ls_flip(s, x, axis);
    case 1:
        return shape.dim[axis].offset ? ls_narrow(s, x, axis, below(rng, shape.dim[axis].offset), 1) : x;
    case 2:
        return shape.dim[axis].offset ? ls_sum(s, x, 1, &axis, 1) : x;
    default:
        for (int i = 0; i < shape.rank; i++) {
            shape.dim[i] = ls_dim_of(below(rng, 2) ? shape.dim[i].offset : 1);
        }
        return tame_tensor(s, rng, ls_tensor_dtype(x), shape);
    }
}

static ls_tensor *random_move(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int order[LS_MAX_RANK], rank = shape.rank;
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
    int axis = (int)below(rng, rank);
    int64_t n = shape.dim[axis].offset;
    switch (below(rng, 7)) {
    case 0:
        for (int i = 0; i < rank; i++) {
            order[i] = i;
        }
        for (int i = rank - 1; i > 0; i--) {
            int j = (int)below(rng, i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        return ls_permute(s, x, order);
    case 1:
        return ls_reshape(s, x, n % 2 == 0 && n ? LS_SHAPE(2, -1) : LS_SHAPE(-1));
    case 2:
        pads[axis] = (ls_pad_spec){below(rng, 3), below(rng, 3), below(rng, 2)};
        return ls_pad(s, x, pads, (double)below(rng, 2));
    case 3:
        pads[axis] = (ls_pad_spec){below(rng, 2), below(rng, 4), below(rng, 3)};
        return ls_pad_absent(s, x, pads);
    case 4: {
        ls_window_spec window = {1 + below(rng, n < 3 ? n : 3), 1 + below(rng, 2), 1 + below(rng, 2)};
        if (rank >= 6 || (window.size - 1) * window.dilation + 1 > n) {
            return x;
        }
        return ls_window(s, x, 1, &axis, &window);
    }
    case 5: {
        ls_tensor *parts[2] = {x, ls_flip(s, x, axis)};
        return ls_concat(s, parts, 2, axis);
    }
    default:
        return n > 2 ? ls_narrow(s, x, axis, 1, n - 2) : ls_flip(s, x, axis);
    }
}

static ls_tensor *random_fold(ls_session *s, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = ls_tensor_shape(x);
    int rank = shape.rank, axis = (int)below(rng, rank), axes[2] = {axis, (axis + 1) % rank};
    int count = rank > 1 ? 1 + (int)below(rng, 2) : 1, keep = (int)below(rng, 2) || rank <= count;
    bool empty = shape.dim[axes[0]].offset == 0 || shape.dim[axes[count - 1]].offset == 0;
    switch (below(rng, 8)) {
    case 0:
        return ls_sum(s, x, count, axes, keep);
    case 1:
        return ls_amax(s, x, count, axes, keep);
    case 2:
        return empty ? x : ls_cast(s, ls_argmin(s, x, count, axes, keep), ls_tensor_dtype(x));
    case 3:
        return empty ? x : ls_mean(s, x, count, axes, keep);
    case 4:
        return ls_softmax(s, x, axis);
    case 5:
        return ls_scan(s, x, (ls_scan_kind)below(rng, 4), axis, (int)below(rng, 2), (int)below(rng, 2));
    case 6:
        return ls_sort(s, x, axis, (int)below(rng, 2));
    default: {
        int64_t k = shape.dim[rank - 1].offset, n = 1 + below(rng, 9);
        ls_tensor *w = tame_tensor(s, rng, ls_tensor_dtype(x), LS_SHAPE(k, n));
        return ls_matmul(s, rank == 1 ? ls_reshape(s, x, LS_SHAPE(1, -1)) : x, w);
    }
    }
}

static int build_graph(ls_session *s, ls_rng *rng, const void *dtype, ls_tensor **roots) {
    ls_tensor *x = tame_tensor(s, rng, *(const ls_dtype *)dtype,
                               LS_SHAPE(1 + below(rng, 4), 1 + below(rng, 9), 1 + below(rng, 20)));
    ls_session_set_fusion(s, below(rng, 4) != 0);
    for (int i = 0; i < STEPS; i++) {
        int64_t kind = below(rng, 8);
        ls_tensor *y = kind < 4   ? random_map(s, rng, x, companion(s, rng, x))
                       : kind < 6 ? random_move(s, rng, x)
                                  : random_fold(s, rng, x);
        if (!y) {
            fail_msg("a builder failed: %s", ls_session_error(s)->message);
        }
        ls_shape shape = ls_tensor_shape(y);
        if (numel_of(shape) <= MAX_NUMEL && shape.rank > 0 && shape.rank < 7) {
            x = y;
        }
    }
    roots[0] = x;
    roots[1] = companion(s, rng, x);
    return 2;
}

static void random_graphs(void **state) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F32, LS_F64, LS_F16, LS_BF16};
    const char *more = getenv("LOCKSTEP_TEST_GRAPHS"); /* a longer run, by hand */
    uint64_t count = more ? (uint64_t)atol(more) : 400;
    for (uint64_t seed = 0; seed < count; seed++) {
        char what[48];
        ls_dtype dtype = dtypes[seed % 5];
        snprintf(what, sizeof what, "graph %llu in %s", (unsigned long long)seed, ls_dtype_name(dtype));
        check_case(*state, build_graph, 1000 + seed, &dtype, what, seed % 16 == 0);
    }
}

/* Kernels of several phases in blocks of rows, and values that are the same along a row. */
static int build_rows(ls_session *s, ls_rng *rng, const void *param, ls_tensor **roots) {
    const int64_t *extents = param, outer = extents[0], channels = extents[1], inner = extents[2];
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(outer, channels, inner)),
              *gain = tame_tensor(s, rng, LS_F32, LS_SHAPE(inner)),
              *gate = tame_tensor(s, rng, LS_F32, LS_SHAPE(outer, channels, 1)),
              *half = ls_cast(s, x, LS_F16);
    const int last[] = {2}, two[] = {1, 2}, middle[] = {1};
    roots[0] = ls_layer_norm(s, x, 2, gain, gain, 1e-5);
    roots[1] = ls_softmax(s, ls_mul(s, x, ls_sigmoid(s, gate)), 2);
    roots[2] = ls_mul(s, x, ls_sqrt(s, ls_abs(s, ls_add(s, ls_amax(s, x, 2, two, 1), gate))));
    roots[3] = ls_softmax(s, x, 1);
    roots[4] = ls_softmax(s, half, 2);
    roots[5] = ls_sub(s, ls_tanh(s, x), ls_amin(s, ls_tanh(s, x), 1, middle, 1));
    roots[6] = ls_argmax(s, x, 1, last, 0);
    roots[7] = ls_argmin(s, ls_neg(s, x), 1, last, 1);
    return 8;
}

static void rows(void **state) {
    static const int64_t extents[][3] = {{3, 5, 2},   {7, 3, 4},    {2, 9, 17},  {5, 2, 130}, {40, 3, 49},
                                         {6, 2, 511}, {17, 1, 513}, {2, 3, 700}, {33, 1, 1},  {1, 2, 5000}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        char what[64];
        snprintf(what, sizeof what, "rows of %lldx%lldx%lld", (long long)extents[i][0], (long long)extents[i][1],
                 (long long)extents[i][2]);
        check_case(*state, build_rows, 77 + i, extents[i], what, true);
    }
}

/* Transposed loads, alone and with operations on them, in every order of three axes. */
static int build_turns(ls_session *s, ls_rng *rng, const void *param, ls_tensor **roots) {
    const int64_t *p = param;
    static const int orders[4][3] = {{0, 2, 1}, {1, 2, 0}, {2, 1, 0}, {2, 0, 1}};
    static const ls_dtype dtypes[] = {LS_F32, LS_F32, LS_F16, LS_F64, LS_I32};
    ls_shape shape = LS_SHAPE(p[0], p[1], p[2]);
    ls_dtype dtype = dtypes[p[3]];
    ls_tensor *x = random_tensor(s, rng, dtype, shape), *other = tame_tensor(s, rng, dtype, shape);
    for (int i = 0; i < 4; i++) {
        ls_tensor *y = ls_permute(s, x, orders[i]), *z = ls_permute(s, other, orders[i]);
        roots[2 * i] = y;
        roots[2 * i + 1] = ls_add(s, ls_neg(s, z), ls_full(s, dtype, LS_SHAPE(1), 1.0));
    }
    return 8;
}

static void turns(void **state) {
    static const int64_t cases[][4] = {{1, 33, 70, 0},  {5, 64, 129, 1}, {3, 17, 16, 0}, {16, 200, 3, 0},
                                       {130, 9, 20, 1}, {2, 160, 40, 2}, {2, 40, 150, 3}, {3, 150, 36, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[64];
        snprintf(what, sizeof what, "turns of %lldx%lldx%lld", (long long)cases[i][0], (long long)cases[i][1],
                 (long long)cases[i][2]);
        check_case(*state, build_turns, 7 + i, cases[i], what, true);
    }
}

/* Gathers along each axis: places of lanes, of rows and of one point, some of them out of range. */
static int build_takes(ls_session *s, ls_rng *rng, const void *param, ls_tensor **roots) {
    const int64_t *p = param;
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_F64, LS_I8};
    ls_dtype dtype = dtypes[p[3]];
    ls_tensor *x = random_tensor(s, rng, dtype, LS_SHAPE(p[0], p[1], p[2]));
    for (int axis = 0; axis < 3; axis++) {
        int64_t places[40];
        for (int i = 0; i < 40; i++) {
            places[i] = below(rng, p[axis] + (p[4] ? 1 : 0));
        }
        ls_tensor *at = ls_tensor_from(s, LS_I64, LS_SHAPE(40), places);
        roots[2 * axis] = ls_gather(s, x, at, axis);
        roots[2 * axis + 1] = ls_gather(s, ls_gather(s, x, at, axis), at, (axis + 1) % 3);
    }
    return 6;
}

static void takes(void **state) {
    static const int64_t cases[][5] = {{3, 5, 7, 0, 0}, {6, 4, 200, 0, 1}, {2, 30, 600, 0, 0}, {40, 1, 1, 0, 1},
                                       {4, 6, 90, 1, 1}, {2, 3, 140, 2, 1}, {9, 2, 33, 3, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[64];
        snprintf(what, sizeof what, "takes of %lldx%lldx%lld", (long long)cases[i][0], (long long)cases[i][1],
                 (long long)cases[i][2]);
        check_case(*state, build_takes, 99 + i, cases[i], what, true);
    }
}

/* An index that is the same everywhere, of no elements of no elements: none is out of range. */
static int build_none(ls_session *s, ls_rng *rng, const void *param, ls_tensor **roots) {
    (void)rng;
    const ls_shape *shape = param;
    ls_tensor *x = ls_gather(s, ls_tensor_from(s, LS_F32, LS_SHAPE(0), NULL), ls_full_i64(s, LS_I64, *shape, 0), 0);
    roots[0] = ls_exp(s, ls_sub(s, x, ls_amax(s, x, 1, (const int[]){1}, 1)));
    return 1;
}

static void none(void **state) {
    const ls_shape shapes[] = {LS_SHAPE(0, 1), LS_SHAPE(0, 7), LS_SHAPE(0, 40)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case(*state, build_none, i, &shapes[i], "takes of nothing", true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs), cmocka_unit_test(rows), cmocka_unit_test(turns), cmocka_unit_test(takes),
                                       cmocka_unit_test(none)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
