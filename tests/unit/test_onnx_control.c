/* ONNX control flow beyond what the ONNX project's cases cover: scans over other axes and backwards,
 * sequences of several lengths, loops that end by what they compute, or before they begin. And the random
 * numbers and the models of ai.onnx.ml that have no cases. */
#define _GNU_SOURCE
#include "onnx_bed.h"

static void gives(Onnx__GraphProto *g, const char *name) {
    OUTPUT(g, value(name, tensor_type(ONNX_FLOAT, NULL)));
}

static void reals(Onnx__NodeProto *n, const char *name, int count, const float *list) {
    Onnx__AttributeProto *a = attribute(n, name, ATTR(FLOATS));
    a->n_floats = (size_t)count;
    a->floats = ls_arena_copy(&made, list, sizeof *list * (size_t)count);
}
static void texts(Onnx__NodeProto *n, const char *name, int count, const char *const *list) {
    Onnx__AttributeProto *a = attribute(n, name, ATTR(STRINGS));
    for (int i = 0; i < count; i++) {
        PUSH(a->strings, a->n_strings, ((ProtobufCBinaryData){strlen(list[i]), (uint8_t *)list[i]}));
    }
}

static ls_status build(bed *b, ls_tensor **out, int n_out) {
    ls_model *m = bed_load(b);
    ls_status status = ls_model_build(b->w.session, m, b->n_in, b->in, n_out, out);
    ls_model_release(m);
    return status;
}

static void expect(bed *b, ls_tensor *t, int rank, const int64_t *dims, const float *want) {
    float got[64];
    int64_t n = 1;
    ls_shape shape = ls_tensor_shape(t);
    assert_int_equal(shape.rank, rank);
    for (int i = 0; i < rank; i++) {
        assert_int_equal(shape.dim[i].offset, dims[i]);
        n *= dims[i];
    }
    t = ls_cast(b->w.session, t, LS_F32);
    world_ok(&b->w, n ? ls_read(b->w.session, t, got, (size_t)n * sizeof *got) : LS_OK);
    for (int64_t i = 0; i < n; i++) {
        float off = got[i] - want[i];
        if (!(off < 1e-5f && off > -1e-5f)) {
            fail_msg("element %d is %g, expected %g", (int)i, (double)got[i], (double)want[i]);
        }
    }
}
#define EXPECT(b, t, want, ...)                                                                              \
    expect(b, t, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__}, want)

/* sum, x -> sum + x, twice the new sum */
static Onnx__GraphProto *running_sum(void) {
    Onnx__GraphProto *g = NEW(GraphProto, graph_proto);
    g->name = (char *)"body";
    INPUT(g, value("sum", NULL));
    INPUT(g, value("x", NULL));
    add_node(g, "Add", "sum x", "more");
    add_node(g, "Add", "more more", "twice");
    OUTPUT(g, value("more", NULL));
    OUTPUT(g, value("twice", NULL));
    return g;
}

static const float grid[6] = {1, 2, 3, 10, 20, 30}; /* [2, 3] */

static void a_scan_goes_along_any_axis_either_way(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[2];
    feed(&b, "start", ONNX_FLOAT, LS_SHAPE(2), (const float[]){0, 100});
    feed(&b, "xs", ONNX_FLOAT, LS_SHAPE(2, 3), grid);
    Onnx__NodeProto *n = add_node(b.g, "Scan", "start xs", "last all");
    attribute(n, "body", ATTR(GRAPH))->g = running_sum();
    attribute(n, "num_scan_inputs", ATTR(INT))->i = 1;
    ints(n, "scan_input_axes", 1, (const int64_t[]){-1});
    ints(n, "scan_input_directions", 1, (const int64_t[]){1});
    ints(n, "scan_output_axes", 1, (const int64_t[]){1});
    ints(n, "scan_output_directions", 1, (const int64_t[]){1});
    gives(b.g, "last");
    gives(b.g, "all");
    world_ok(&b.w, build(&b, out, 2));
    EXPECT(&b, out[0], ((float[]){6, 160}), 2);
    EXPECT(&b, out[1], ((float[]){12, 10, 6, 320, 300, 260}), 2, 3); /* the last iteration first */
    bed_close(&b);
}

static void an_old_scan_has_a_batch_of_lengths(void **state) {
    (void)state;
    bed b = bed_open(8);
    ls_tensor *out[2];
    feed(&b, "lengths", ONNX_INT64, LS_SHAPE(2), (const int64_t[]){2, 3});
    feed(&b, "start", ONNX_FLOAT, LS_SHAPE(2, 1), (const float[]){0, 100});
    feed(&b, "xs", ONNX_FLOAT, LS_SHAPE(2, 3, 1), grid);
    Onnx__NodeProto *n = add_node(b.g, "Scan", "lengths start xs", "last all");
    attribute(n, "body", ATTR(GRAPH))->g = running_sum();
    attribute(n, "num_scan_inputs", ATTR(INT))->i = 1;
    ints(n, "directions", 1, (const int64_t[]){1});
    gives(b.g, "last");
    gives(b.g, "all");
    world_ok(&b.w, build(&b, out, 2));
    EXPECT(&b, out[0], ((float[]){3, 160}), 2, 1);
    EXPECT(&b, out[1], ((float[]){4, 6, 0, 260, 300, 320}), 2, 3, 1);
    bed_close(&b);
}

static void a_scan_of_nothing_gives_nothing(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[2];
    feed(&b, "start", ONNX_FLOAT, LS_SHAPE(2), (const float[]){7, 8});
    feed(&b, "xs", ONNX_FLOAT, LS_SHAPE(0, 2), grid);
    Onnx__NodeProto *n = add_node(b.g, "Scan", "start xs", "last all");
    attribute(n, "body", ATTR(GRAPH))->g = running_sum();
    attribute(n, "num_scan_inputs", ATTR(INT))->i = 1;
    gives(b.g, "last");
    gives(b.g, "all");
    world_ok(&b.w, build(&b, out, 2));
    EXPECT(&b, out[0], ((float[]){7, 8}), 2);
    EXPECT(&b, out[1], NULL, 0, 2);
    bed_close(&b);
}

static void a_scan_of_too_many_is_refused(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[2];
    feed(&b, "start", ONNX_FLOAT, LS_SHAPE(2), (const float[]){7, 8});
    feed(&b, "xs", ONNX_FLOAT, LS_SHAPE((1 << 20) + 1, 0), grid);
    Onnx__NodeProto *n = add_node(b.g, "Scan", "start xs", "last all");
    attribute(n, "body", ATTR(GRAPH))->g = running_sum();
    attribute(n, "num_scan_inputs", ATTR(INT))->i = 1;
    gives(b.g, "last");
    gives(b.g, "all");
    assert_int_equal(build(&b, out, 2), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(ls_session_error(b.w.session)->message, "1048577 iterations: expected at most 1048576"));
    bed_close(&b);
}

/* x doubles while it is below the captured limit; gives every x, and the captured sum of x and the
 * iteration's number. */
static Onnx__GraphProto *doubling(void) {
    Onnx__GraphProto *g = NEW(GraphProto, graph_proto);
    g->name = (char *)"body";
    INPUT(g, value("i", NULL));
    INPUT(g, value("go", NULL));
    INPUT(g, value("x", NULL));
    add_node(g, "Add", "x x", "more");
    add_node(g, "Less", "more limit", "again");
    Onnx__NodeProto *n = add_node(g, "Cast", "i", "number");
    attribute(n, "to", ATTR(INT))->i = ONNX_FLOAT;
    add_node(g, "Add", "more number", "seen");
    OUTPUT(g, value("again", NULL));
    OUTPUT(g, value("more", NULL));
    OUTPUT(g, value("seen", NULL));
    return g;
}

static void loop_case(int64_t most, float limit, const float *last, int64_t count, const float *seen) {
    bed b = bed_open(16);
    ls_tensor *out[2];
    feed(&b, "most", ONNX_INT64, LS_SCALAR, &most);
    feed(&b, "limit", ONNX_FLOAT, LS_SCALAR, &limit);
    feed(&b, "x0", ONNX_FLOAT, LS_SCALAR, &(float){1});
    attribute(add_node(b.g, "Loop", "most - x0", "last seen_all"), "body", ATTR(GRAPH))->g = doubling();
    gives(b.g, "last");
    gives(b.g, "seen_all");
    world_ok(&b.w, build(&b, out, 2));
    expect(&b, out[0], 0, NULL, last);
    EXPECT(&b, out[1], seen, count);
    bed_close(&b);
}

static void loops_end_by_count_or_condition(void **state) {
    (void)state;
    loop_case(100, 10, &(float){16}, 4, (const float[]){2, 5, 10, 19});
    loop_case(2, 10, &(float){4}, 2, (const float[]){2, 5});
    loop_case(0, 10, &(float){1}, 0, NULL);
}

static void a_loop_on_an_input_needs_its_value(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[1];
    feed(&b, "most", ONNX_INT64, LS_SCALAR, &(int64_t){5});
    feed(&b, "limit", ONNX_FLOAT, LS_SCALAR, &(float){3});
    feed(&b, "x0", ONNX_FLOAT, LS_SCALAR, &(float){1});
    b.in[1] = ls_input(b.w.session, "limit", LS_F32, LS_SCALAR);
    Onnx__NodeProto *n = add_node(b.g, "Loop", "most - x0", "last");
    n->name = (char *)"the loop";
    attribute(n, "body", ATTR(GRAPH))->g = doubling();
    gives(b.g, "last");
    assert_int_equal(build(&b, out, 1), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(ls_session_error(b.w.session)->message, "\"the loop\" (Loop"));
    ls_session_clear_error(b.w.session);
    bed_close(&b);
}

/* ---- branches that the inputs choose ---- */

typedef struct choice {
    const char *op, *reads; /* of the branch for x[0] > 0 */
    int programs;
    float positive, negative; /* y[0] for x of 2, 1, 5, 7 and -9, 1, 5, 7 */
} choice;

/* y = x[0] > 0 ? op(..) : -x */
static void choose(const choice *c) {
    bed b = bed_open(16);
    static const int64_t extents[2] = {300, 300};
    INPUT(b.g, value("x", tensor_type(ONNX_FLOAT, NULL)));
    PUSH(b.g->initializer, b.g->n_initializer, raw(tensor("zero", ONNX_INT64, 1, (const int64_t[]){1}), &(int64_t){0}, 8));
    PUSH(b.g->initializer, b.g->n_initializer, raw(tensor("extents", ONNX_INT64, 1, (const int64_t[]){2}), extents, 16));
    add_node(b.g, "Gather", "x zero", "first");
    add_node(b.g, "Sub", "x x", "zeros");
    add_node(b.g, "Add", "zeros first", "firsts");
    attribute(add_node(b.g, "Cast", "firsts", "index"), "to", ATTR(INT))->i = ONNX_INT64;
    attribute(add_node(b.g, "Cast", "zero", "nothing"), "to", ATTR(INT))->i = ONNX_FLOAT;
    add_node(b.g, "Greater", "first nothing", "positive");
    Onnx__GraphProto *g = NEW(GraphProto, graph_proto);
    g->name = (char *)"then";
    if (!strcmp(c->op, "MatMul")) { /* 300 cubed */
        add_node(g, "Expand", "first extents", "square");
        add_node(g, "MatMul", "square square", "product");
        attribute(add_node(g, "ReduceMax", "product", "most"), "keepdims", ATTR(INT))->i = 0;
    }
    Onnx__NodeProto *n = add_node(g, strcmp(c->op, "MatMul") ? c->op : "Add", c->reads, "t");
    if (!strcmp(c->op, "Concat")) {
        attribute(n, "axis", ATTR(INT))->i = 0;
    }
    OUTPUT(g, value("t", NULL));
    n = add_node(b.g, "If", "positive", "y");
    attribute(n, "then_branch", ATTR(GRAPH))->g = g;
    attribute(n, "else_branch", ATTR(GRAPH))->g = branch("x", "e");
    gives(b.g, "y");
    ls_model *model = bed_load(&b);
    ls_runner *r;
    world_ok(&b.w, ls_runner_create(b.w.session, model, &r));
    for (int i = 0; i < 4; i++) {
        const float x[4] = {i % 2 ? -9 : 2, 1, 5, 7};
        ls_data *in, *out;
        world_ok(&b.w, ls_data_create(b.w.context, LS_F32, 1, (const int64_t[]){4}, x, &in, NULL));
        world_ok(&b.w, ls_runner_run(r, 1, &(ls_named_data){"x", in}, &out));
        float got = *(const float *)ls_data_bytes(out), want = i % 2 ? c->negative : c->positive;
        if (got != want) {
            fail_msg("%s, run %d: %g, expected %g", c->op, i, (double)got, (double)want);
        }
        ls_data_release(in);
        ls_data_release(out);
    }
    assert_int_equal(ls_runner_get_facts(r).programs, c->programs);
    ls_runner_destroy(r);
    ls_model_release(model);
    bed_close(&b);
}

static void small_branches_are_one_program(void **state) {
    (void)state;
    choose(&(choice){"Mul", "x x", 1, 4, 9});
    choose(&(choice){"Sqrt", "x", 1, 1.41421354f, 9}); /* NaN where it is not chosen */
}

/* Not where results differ in shape, an index may be out of range in the branch that is not chosen, or it is much work. */
static void other_branches_are_chosen_by_value(void **state) {
    (void)state;
    choose(&(choice){"Concat", "x x", 0, 2, 9});
    choose(&(choice){"Gather", "x index", 0, 5, 9});
    choose(&(choice){"MatMul", "x most", 0, 1202, 9});
}

/* ---- random numbers ---- */

static void read_reals(bed *b, ls_tensor *t, float *out, int n) {
    world_ok(&b->w, ls_read(b->w.session, ls_cast(b->w.session, t, LS_F32), out, (size_t)n * sizeof *out));
}

enum { DRAWS = 4000 };

/* Two unseeded nodes, the same node in the iterations of a loop, and a second build. */
static void random_nodes_differ_and_builds_do_not(void **state) {
    (void)state;
    static float got[2][4][DRAWS];
    for (int round = 0; round < 2; round++) {
        bed b = bed_open(16);
        ls_tensor *out[3];
        feed(&b, "most", ONNX_INT64, LS_SCALAR, &(int64_t){2});
        ints(add_node(b.g, "RandomNormal", "", "a"), "shape", 1, (const int64_t[]){DRAWS});
        Onnx__NodeProto *n = add_node(b.g, "RandomNormal", "", "b");
        ints(n, "shape", 1, (const int64_t[]){DRAWS});
        attribute(n, "mean", ATTR(FLOAT))->f = 3;
        attribute(n, "scale", ATTR(FLOAT))->f = 0.5f;
        Onnx__GraphProto *g = NEW(GraphProto, graph_proto);
        g->name = (char *)"body";
        INPUT(g, value("i", NULL));
        INPUT(g, value("go", NULL));
        n = add_node(g, "RandomUniform", "", "u");
        ints(n, "shape", 1, (const int64_t[]){DRAWS});
        attribute(n, "seed", ATTR(FLOAT))->f = 7;
        attribute(n, "low", ATTR(FLOAT))->f = -1;
        add_node(g, "Identity", "go", "go_on");
        OUTPUT(g, value("go_on", NULL));
        OUTPUT(g, value("u", NULL));
        attribute(add_node(b.g, "Loop", "most -", "all"), "body", ATTR(GRAPH))->g = g;
        gives(b.g, "a");
        gives(b.g, "b");
        gives(b.g, "all");
        world_ok(&b.w, build(&b, out, 3));
        read_reals(&b, out[0], got[round][0], DRAWS);
        read_reals(&b, out[1], got[round][1], DRAWS);
        read_reals(&b, out[2], got[round][2], 2 * DRAWS);
        bed_close(&b);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    static const double mean[] = {0, 3, 0, 0}, deviation[] = {1, 0.5, 0.57735, 0.57735};
    for (int k = 0; k < 4; k++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < DRAWS; i++) {
            double d = (double)got[0][k][i] - mean[k];
            sum += d / DRAWS;
            squares += d * d / DRAWS;
        }
        double variance = deviation[k] * deviation[k];
        assert_true(sum < 0.1 && sum > -0.1 && squares < 1.1 * variance && squares > 0.9 * variance);
    }
    double together = 0; /* of nodes, and of iterations: not correlated */
    for (int i = 0; i < DRAWS; i++) {
        together += ((double)got[0][0][i] * ((double)got[0][1][i] - 3) / 0.5 +
                     (double)got[0][2][i] * (double)got[0][3][i] * 3) /
                    DRAWS;
    }
    assert_true(together < 0.1 && together > -0.1);
}

static void multinomial_draws_by_weight(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[1];
    static float got[2 * DRAWS];
    const float none = -__builtin_inff();
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(2, 4),
         (const float[]){none, 0, 1.0986123f, none, 5, 5, none, none}); /* 0 1 3 0, 1 1 0 0 */
    attribute(add_node(b.g, "Multinomial", "x", "y"), "sample_size", ATTR(INT))->i = DRAWS;
    gives(b.g, "y");
    world_ok(&b.w, build(&b, out, 1));
    assert_int_equal(ls_tensor_dtype(out[0]), LS_I32);
    read_reals(&b, out[0], got, 2 * DRAWS);
    int count[2][4] = {{0}};
    for (int i = 0; i < 2 * DRAWS; i++) {
        assert_true(got[i] >= 0 && got[i] <= 3);
        count[i / DRAWS][(int)got[i]]++;
    }
    assert_int_equal(count[0][0] + count[0][3] + count[1][2] + count[1][3], 0);
    assert_in_range(count[0][1], DRAWS / 4 - 150, DRAWS / 4 + 150);
    assert_in_range(count[1][0], DRAWS / 2 - 150, DRAWS / 2 + 150);
    bed_close(&b);
}

/* ---- ai.onnx.ml ---- */

static Onnx__NodeProto *ml(bed *b, const char *op, const char *in, const char *out) {
    Onnx__NodeProto *n = add_node(b->g, op, in, out);
    n->domain = (char *)"ai.onnx.ml";
    return n;
}

/* Two trees of two levels: x0 <= 1.5 ? leaf 1 : (x1 < 0 ? leaf 3 : leaf 4), and x1 > 5 ? leaf 1 : leaf 2. */
static void two_trees(Onnx__NodeProto *n, const char *what, const int64_t *targets) {
    static const char *const modes[] = {"BRANCH_LEQ", "LEAF",      "BRANCH_LT", "LEAF",
                                        "LEAF",       "BRANCH_GT", "LEAF",      "LEAF"};
    char name[32];
    ints(n, "nodes_treeids", 8, (const int64_t[]){0, 0, 0, 0, 0, 1, 1, 1});
    ints(n, "nodes_nodeids", 8, (const int64_t[]){0, 1, 2, 3, 4, 0, 1, 2});
    ints(n, "nodes_featureids", 8, (const int64_t[]){0, 0, 1, 0, 0, 1, 0, 0});
    ints(n, "nodes_truenodeids", 8, (const int64_t[]){1, 0, 3, 0, 0, 1, 0, 0});
    ints(n, "nodes_falsenodeids", 8, (const int64_t[]){2, 0, 4, 0, 0, 2, 0, 0});
    ints(n, "nodes_missing_value_tracks_true", 8, (const int64_t[]){0, 0, 1, 0, 0, 0, 0, 0});
    reals(n, "nodes_values", 8, (const float[]){1.5f, 0, 0, 0, 0, 5, 0, 0});
    texts(n, "nodes_modes", 8, modes);
    snprintf(name, sizeof name, "%s_treeids", what);
    ints(n, ls_arena_printf(&made, "%s", name), 5, (const int64_t[]){0, 0, 0, 1, 1});
    ints(n, ls_arena_printf(&made, "%s_nodeids", what), 5, (const int64_t[]){1, 3, 4, 1, 2});
    ints(n, ls_arena_printf(&made, "%s_ids", what), 5, targets);
    reals(n, ls_arena_printf(&made, "%s_weights", what), 5,
          (const float[]){0.25f, 0.5f, 0.75f, 0.125f, 0.5f});
}

/* Leaves of the rows: (1, 2), (3, 2), (4, 1), NaN: (3, 2). */
static const float rows[8] = {1.5f, 0, 2, -1, 2, 6, 9, __builtin_nanf("")};

static void trees_regress(void **state) {
    (void)state;
    static const char *const function[] = {"SUM", "AVERAGE", "MIN", "MAX"};
    static const float want[4][4] = {{1.75f, 2, 1.875f, 2},
                                     {1.375f, 1.5f, 1.4375f, 1.5f},
                                     {1.25f, 1.5f, 1.125f, 1.5f},
                                     {1.5f, 1.5f, 1.75f, 1.5f}};
    for (int i = 0; i < 4; i++) {
        bed b = bed_open(16);
        ls_tensor *out[1];
        feed(&b, "x", ONNX_FLOAT, LS_SHAPE(4, 2), rows);
        Onnx__NodeProto *n = ml(&b, "TreeEnsembleRegressor", "x", "y");
        two_trees(n, "target", (const int64_t[]){0, 0, 0, 0, 0});
        attribute(n, "n_targets", ATTR(INT))->i = 1;
        text(n, "aggregate_function", function[i]);
        reals(n, "base_values", 1, (const float[]){1});
        gives(b.g, "y");
        world_ok(&b.w, build(&b, out, 1));
        EXPECT(&b, out[0], want[i], 4, 1);
        bed_close(&b);
    }
}

static void trees_classify(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[4];
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(4, 2), rows);
    Onnx__NodeProto *n = ml(&b, "TreeEnsembleClassifier", "x", "label score");
    two_trees(n, "class", (const int64_t[]){0, 1, 2, 0, 1});
    ints(n, "classlabels_int64s", 3, (const int64_t[]){10, 20, 30});
    n = ml(&b, "TreeEnsembleClassifier", "x", "label2 score2"); /* only class 1 has leaves */
    two_trees(n, "class", (const int64_t[]){1, 1, 1, 1, 1});
    ints(n, "classlabels_int64s", 2, (const int64_t[]){10, 20});
    reals(n, "base_values", 2, (const float[]){0, -0.375f});
    gives(b.g, "label");
    gives(b.g, "score");
    gives(b.g, "label2");
    gives(b.g, "score2");
    world_ok(&b.w, build(&b, out, 4));
    EXPECT(&b, out[0], ((float[]){20, 20, 30, 20}), 4);
    EXPECT(&b, out[1], ((float[]){0.25f, 0.5f, 0, 0, 1, 0, 0.125f, 0, 0.75f, 0, 1, 0}), 4, 3);
    EXPECT(&b, out[2], ((float[]){10, 20, 10, 20}), 4);
    EXPECT(&b, out[3], ((float[]){0.625f, 0.375f, 0.375f, 0.625f, 0.5f, 0.5f, 0.375f, 0.625f}), 4, 2);
    bed_close(&b);
}

static void a_tree_in_a_circle_is_refused(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[1];
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(4, 2), rows);
    Onnx__NodeProto *n = ml(&b, "TreeEnsembleRegressor", "x", "y");
    two_trees(n, "target", (const int64_t[]){0, 0, 0, 0, 0});
    n->attribute[4]->ints[2] = 0; /* the false branch of node 2 is the root */
    gives(b.g, "y");
    assert_int_equal(build(&b, out, 1), LS_ERR_FORMAT);
    assert_non_null(strstr(ls_session_error(b.w.session)->message, "below itself"));
    ls_session_clear_error(b.w.session);
    bed_close(&b);
}

static void linear_models_and_features(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[6];
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(2, 2), (const float[]){1, 2, -3, 4});
    Onnx__NodeProto *n = ml(&b, "LinearRegressor", "x", "regression");
    attribute(n, "targets", ATTR(INT))->i = 2;
    reals(n, "coefficients", 4, (const float[]){1, 10, 2, 0});
    reals(n, "intercepts", 2, (const float[]){0.5f, 0});
    n = ml(&b, "LinearClassifier", "x", "label score");
    reals(n, "coefficients", 2, (const float[]){1, 0});
    reals(n, "intercepts", 1, (const float[]){0});
    ints(n, "classlabels_ints", 2, (const int64_t[]){5, 7});
    n = ml(&b, "Scaler", "x", "scaled");
    reals(n, "offset", 2, (const float[]){1, 2});
    reals(n, "scale", 1, (const float[]){2});
    text(ml(&b, "Normalizer", "x", "unit"), "norm", "L2");
    n = ml(&b, "Imputer", "x", "whole");
    reals(n, "imputed_value_floats", 2, (const float[]){-1, -2});
    attribute(n, "replaced_value_float", ATTR(FLOAT))->f = 4;
    static const char *const all[] = {"regression", "label", "score", "scaled", "unit", "whole"};
    for (int i = 0; i < 6; i++) {
        gives(b.g, all[i]);
    }
    world_ok(&b.w, build(&b, out, 6));
    EXPECT(&b, out[0], ((float[]){21.5f, 2, 37.5f, -6}), 2, 2);
    EXPECT(&b, out[1], ((float[]){7, 5}), 2);
    EXPECT(&b, out[2], ((float[]){-1, 1, 3, -3}), 2, 2);
    EXPECT(&b, out[3], ((float[]){0, 0, -8, 4}), 2, 2);
    EXPECT(&b, out[4], ((float[]){0.4472136f, 0.8944272f, -0.6f, 0.8f}), 2, 2);
    EXPECT(&b, out[5], ((float[]){1, 2, -3, -2}), 2, 2);
    bed_close(&b);
}

static void encoders(void **state) {
    (void)state;
    bed b = bed_open(16);
    ls_tensor *out[2];
    feed(&b, "x", ONNX_INT64, LS_SHAPE(4), (const int64_t[]){4, 2, 9, 4});
    Onnx__NodeProto *n = ml(&b, "OneHotEncoder", "x", "hot");
    ints(n, "cats_int64s", 3, (const int64_t[]){2, 3, 4});
    n = ml(&b, "LabelEncoder", "x", "coded");
    ints(n, "keys_int64s", 3, (const int64_t[]){4, 2, 4});
    reals(n, "values_floats", 3, (const float[]){1, 2, 3});
    attribute(n, "default_float", ATTR(FLOAT))->f = -5;
    gives(b.g, "hot");
    gives(b.g, "coded");
    world_ok(&b.w, build(&b, out, 2));
    EXPECT(&b, out[0], ((float[]){0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1}), 4, 3);
    EXPECT(&b, out[1], ((float[]){3, 2, -5, 3}), 4); /* the last of equal keys counts */
    bed_close(&b);
}

/* ---- strings, from initialisers, and every allocation failing ---- */

static void strings(bed *b, const char *name, int count, const char *const *list) {
    Onnx__TensorProto *s = tensor(name, ONNX_STRING, 1, (const int64_t[]){count});
    for (int i = 0; i < count; i++) {
        PUSH(s->string_data, s->n_string_data, ((ProtobufCBinaryData){strlen(list[i]), (uint8_t *)list[i]}));
    }
    PUSH(b->g->initializer, b->g->n_initializer, s);
}

static void text_model(bed *b) {
    strings(b, "s", 4, (const char *const[]){"Die Äpfel", "die", "  und  Birnen ", "DIE"});
    Onnx__NodeProto *n = add_node(b->g, "StringNormalizer", "s", "kept"); /* "die äpfel", "  und  birnen " */
    text(n, "case_change_action", "LOWER");
    texts(n, "stopwords", 1, (const char *const[]){"dIE"});
    text(add_node(b->g, "RegexFullMatch", "kept", "matched"), "pattern", "die .pfel$");
    add_node(b->g, "StringSplit", "kept", "parts counts");
    n = add_node(b->g, "TfIdfVectorizer", "kept", "grams");
    text(n, "mode", "TFIDF");
    attribute(n, "min_gram_length", ATTR(INT))->i = 1;
    attribute(n, "max_gram_length", ATTR(INT))->i = 2;
    attribute(n, "max_skip_count", ATTR(INT))->i = 0;
    texts(n, "pool_strings", 3, (const char *const[]){"die äpfel", "die äpfel", "  und  birnen "});
    ints(n, "ngram_counts", 2, (const int64_t[]){0, 1});
    ints(n, "ngram_indexes", 2, (const int64_t[]){2, 0});
    reals(n, "weights", 3, (const float[]){2, 0, 4});
    n = ml(b, "LabelEncoder", "kept", "coded");
    texts(n, "keys_strings", 1, (const char *const[]){"die äpfel"});
    ints(n, "values_int64s", 1, (const int64_t[]){8});
    gives(b->g, "matched");
    gives(b->g, "counts");
    gives(b->g, "grams");
    gives(b->g, "coded");
}

static void text_is_normalized_split_and_counted(void **state) {
    (void)state;
    bed b = bed_open(20);
    ls_tensor *out[4];
    text_model(&b);
    world_ok(&b.w, build(&b, out, 4));
    EXPECT(&b, out[0], ((float[]){1, 0}), 2);
    EXPECT(&b, out[1], ((float[]){2, 2}), 2);
    EXPECT(&b, out[2], ((float[]){2, 0, 4}), 3);
    EXPECT(&b, out[3], ((float[]){8, -1}), 2);
    bed_close(&b);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    bed b = bed_open(20);
    ls_tensor *out[6];
    text_model(&b);
    feed(&b, "most", ONNX_INT64, LS_SCALAR, &(int64_t){3});
    feed(&b, "limit", ONNX_FLOAT, LS_SCALAR, &(float){10});
    feed(&b, "x0", ONNX_FLOAT, LS_SCALAR, &(float){1});
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(4, 2), rows);
    attribute(add_node(b.g, "Loop", "most - x0", "last seen_all"), "body", ATTR(GRAPH))->g = doubling();
    Onnx__NodeProto *n = ml(&b, "TreeEnsembleClassifier", "x", "label score");
    two_trees(n, "class", (const int64_t[]){0, 1, 2, 0, 1});
    ints(n, "classlabels_int64s", 3, (const int64_t[]){10, 20, 30});
    gives(b.g, "seen_all");
    gives(b.g, "score");
    size_t size;
    uint8_t *bytes = pack(&b.m->base, &size);
    ls_data *file = NULL;
    ls_model *m = NULL;
    ls_heap *heap = ls_context_heap(b.w.context);
    assert_int_equal(
        ls_data_create(b.w.context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, NULL), LS_OK);
    assert_int_equal(ls_model_load_data(b.w.context, "test.onnx", file, &m, NULL), LS_OK);
    ls_data_release(file);
    bool reached = true;
    long at = 0;
    for (; reached; at += 1 + at / 50) {
        world_ok(&b.w, ls_scope_begin(b.w.session));
        atomic_store(&heap->fail_after, at);
        ls_status status = ls_model_build(b.w.session, m, b.n_in, b.in, 6, out);
        reached = atomic_exchange(&heap->fail_after, -1) < 0;
        if (status != LS_OK && status != LS_ERR_MEMORY) {
            fail_msg("allocation %ld: %s", at, ls_session_error(b.w.session)->message);
        }
        if (status == LS_OK) { /* not needed, or failed without harm: the numbers are right */
            EXPECT(&b, out[4], ((float[]){2, 5, 10}), 3);
        }
        ls_session_clear_error(b.w.session);
        ls_scope_end(b.w.session);
    }
    assert_true(at > 100);
    ls_model_release(m);
    bed_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_goes_along_any_axis_either_way),
        cmocka_unit_test(an_old_scan_has_a_batch_of_lengths),
        cmocka_unit_test(a_scan_of_nothing_gives_nothing),
        cmocka_unit_test(a_scan_of_too_many_is_refused),
        cmocka_unit_test(loops_end_by_count_or_condition),
        cmocka_unit_test(a_loop_on_an_input_needs_its_value),
        cmocka_unit_test(small_branches_are_one_program),
        cmocka_unit_test(other_branches_are_chosen_by_value),
        cmocka_unit_test(trees_regress),
        cmocka_unit_test(trees_classify),
        cmocka_unit_test(a_tree_in_a_circle_is_refused),
        cmocka_unit_test(linear_models_and_features),
        cmocka_unit_test(encoders),
        cmocka_unit_test(random_nodes_differ_and_builds_do_not),
        cmocka_unit_test(multinomial_draws_by_weight),
        cmocka_unit_test(text_is_normalized_split_and_counted),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
