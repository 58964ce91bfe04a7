/* Changing extents of ONNX models: what symbols allow compiles twice and has the bits of programs for fixed extents; what they do not
 * falls back, says why, and has them too. */
#define _GNU_SOURCE
#include "onnx_bed.h"
#include <lockstep/model.h>

/* One input of a run; elements are made up from `seed`. */
typedef struct fed {
    const char *name;
    int type, rank;
    int64_t dims[4];
} fed;

static ls_data *made_up(ls_context *context, const fed *f, int seed) {
    ls_data *data = NULL;
    int64_t count = 1;
    for (int i = 0; i < f->rank; i++) {
        count *= f->dims[i];
    }
    float *x = malloc(sizeof *x * (size_t)(count + 1));
    int32_t *k = (int32_t *)x;
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) {
        int64_t r = (i * 7919 + seed * 104729) % 1009;
        if (f->type == ONNX_FLOAT) {
            x[i] = (float)r / 504.0f - 1;
        } else {
            k[i] = (int32_t)(r % 5);
        }
    }
    assert_int_equal(
        ls_data_create(context, f->type == ONNX_FLOAT ? LS_F32 : LS_I32, f->rank, f->dims, x, &data, NULL),
        LS_OK);
    free(x);
    return data;
}

static void run_on(bed *b, ls_runner *r, int n, const fed *fs, int seed, ls_data **out) {
    ls_named_data named[4];
    for (int i = 0; i < n; i++) {
        named[i] = (ls_named_data){fs[i].name, made_up(b->w.context, &fs[i], seed + i)};
    }
    world_ok(&b->w, ls_runner_run(r, n, named, out));
    for (int i = 0; i < n; i++) {
        ls_data_release((ls_data *)named[i].data);
    }
}

/* Runs the model on a series of shapes by one runner, and each by a runner of its own, which has seen no other: the same bits. */
static ls_runner_facts series(bed *b, int runs, int n, fed (*shapes_of)(int run, int input)) {
    ls_model *model = bed_load(b);
    ls_runner *all, *alone;
    int outputs = ls_model_output_count(model);
    world_ok(&b->w, ls_runner_create(b->w.session, model, &all));
    for (int i = 0; i < runs; i++) {
        fed fs[4];
        ls_data *got[4], *want[4];
        for (int k = 0; k < n; k++) {
            fs[k] = shapes_of(i, k);
        }
        world_ok(&b->w, ls_runner_create(b->w.session, model, &alone));
        run_on(b, alone, n, fs, i, want);
        run_on(b, all, n, fs, i, got);
        for (int k = 0; k < outputs; k++) {
            ls_report report;
            LS_ASSERT_SAME(want[k], got[k], &report, fail_msg("run %d, output %d: %s", i, k, report.message));
            ls_data_release(want[k]);
            ls_data_release(got[k]);
        }
        ls_runner_destroy(alone);
    }
    ls_runner_facts facts = ls_runner_get_facts(all);
    static char why[LS_MESSAGE_MAX];
    snprintf(why, sizeof why, "%s", facts.fixed_because ? facts.fixed_because : "");
    facts.fixed_because = facts.fixed_because ? why : NULL;
    ls_runner_destroy(all);
    ls_model_release(model);
    return facts;
}

static void expect_symbols(bed *b, int runs, int n, fed (*shapes_of)(int run, int input)) {
    ls_runner_facts facts = series(b, runs, n, shapes_of);
    if (facts.fixed_because) {
        fail_msg("%s", facts.fixed_because);
    }
    assert_int_equal(facts.programs, 2);
    assert_int_equal(facts.symbolic, 1);
    bed_close(b);
}

static void expect_fixed(bed *b, int runs, int n, fed (*shapes_of)(int run, int input), const char *why) {
    ls_runner_facts facts = series(b, runs, n, shapes_of);
    assert_int_equal(facts.symbolic, 0);
    assert_int_equal(facts.programs, runs);
    assert_non_null(facts.fixed_because);
    if (!strstr(facts.fixed_because, why)) {
        fail_msg("expected \"%s\" in \"%s\"", why, facts.fixed_because);
    }
    bed_close(b);
}

static void numbers(bed *b, const char *name, int rank, int count, const int64_t *list) {
    int64_t n = count;
    PUSH(b->g->initializer, b->g->n_initializer,
         raw(tensor(name, ONNX_INT64, rank, &n), list, (size_t)count * 8));
}
#define NUMBERS(b, name, ...)                                                                                \
    numbers(b, name, 1, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})
#define NUMBER(b, name, x) numbers(b, name, 0, 1, (const int64_t[]){x})
#define INTS(n, name, ...) ints(n, name, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

static void weights(bed *b, const char *name, int rank, const int64_t *dims) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        count *= dims[i];
    }
    float *x = ls_arena_alloc(&made, sizeof *x * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(i * 31 % 17) / 8 - 1;
    }
    PUSH(b->g->initializer, b->g->n_initializer,
         raw(tensor(name, ONNX_FLOAT, rank, dims), x, sizeof *x * (size_t)count));
}
#define WEIGHTS(b, name, ...)                                                                                \
    weights(b, name, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

static bed with_input(const char *name, int type) {
    bed b = bed_open(17);
    INPUT(b.g, value(name, tensor_type(type, NULL)));
    return b;
}
static void result(bed *b, const char *name, int type) {
    OUTPUT(b->g, value(name, tensor_type(type, NULL)));
}
static Onnx__NodeProto *number_attr(Onnx__NodeProto *n, const char *name, int64_t x) {
    attribute(n, name, ATTR(INT))->i = x;
    return n;
}

/* ---- shapes of inputs ---- */
static fed rows(int run, int input) { /* [rows, 6] */
    static const int64_t n[] = {3, 5, 1, 9, 40};
    (void)input;
    return (fed){"x", ONNX_FLOAT, 2, {n[run], 6}};
}
static fed batch_and_length(int run, int input) { /* [n, 4, n, 8]: both grow */
    static const int64_t n[] = {2, 3, 1, 7, 12};
    (void)input;
    return (fed){"x", ONNX_FLOAT, 4, {1, n[run], 4, 8}};
}
static fed ids(int run, int input) {
    static const int64_t n[] = {4, 7, 1, 11, 2, 30};
    (void)input;
    return (fed){"ids", ONNX_INT32, 2, {1, n[run]}};
}
/* x[2, n], and what is twice as long. */
static fed twice(int run, int input) {
    static const int64_t n[] = {2, 4, 3, 9, 1};
    return input ? (fed){"y", ONNX_FLOAT, 2, {2, 2 * n[run]}} : (fed){"x", ONNX_FLOAT, 2, {2, n[run]}};
}
/* A query and its cache, empty at first. */
static fed cached(int run, int input) {
    static const char *const names[] = {"x", "past_k", "past_v"};
    return input ? (fed){names[input], ONNX_FLOAT, 4, {1, 2, run, 4}} : (fed){"x", ONNX_FLOAT, 3, {1, 1, 8}};
}
static fed images(int run, int input) {
    static const int64_t n[] = {16, 24, 40, 8};
    (void)input;
    return (fed){"x", ONNX_FLOAT, 4, {1, 2, 8, n[run]}};
}

/* ---- tests ---- */

/* Reshape by -1, 0 and by a shape that is put together from others; a matrix product, a norm and a softmax between. */
static void reshapes(void **state) {
    (void)state;
    bed b = with_input("x", ONNX_FLOAT);
    NUMBERS(&b, "two", 2);
    NUMBERS(&b, "minus", -1);
    NUMBER(&b, "at", 0);
    NUMBERS(&b, "first", 0);
    NUMBERS(&b, "split", 0, 2, 3);
    NUMBERS(&b, "back", 0, -1);
    WEIGHTS(&b, "w", 6, 6);
    WEIGHTS(&b, "gamma", 6);
    add_node(b.g, "MatMul", "x w", "a");
    add_node(b.g, "LayerNormalization", "a gamma", "n");
    add_node(b.g, "Reshape", "n split", "c");
    INTS(add_node(b.g, "Transpose", "c", "t"), "perm", 1, 0, 2);
    number_attr(add_node(b.g, "Softmax", "t", "s"), "axis", 1);
    add_node(b.g, "Shape", "x", "shape");
    add_node(b.g, "Gather", "shape at", "rows");
    add_node(b.g, "Unsqueeze", "rows first", "row_list");
    number_attr(add_node(b.g, "Concat", "two row_list minus", "to"), "axis", 0);
    add_node(b.g, "Reshape", "s to", "r");
    add_node(b.g, "ReduceMean", "r", "mean");
    add_node(b.g, "Reshape", "c back", "flat");
    add_node(b.g, "Mul", "flat mean", "scaled");
    add_node(b.g, "Add", "scaled x", "y");
    result(&b, "y", ONNX_FLOAT);
    result(&b, "r", ONNX_FLOAT);
    result(&b, "to", ONNX_INT64); /* the numbers themselves */
    expect_symbols(&b, 5, 1, rows);
}

/* Positions by Range, a causal mask by slices of a constant, by Trilu and by comparison; Expand by Where(Equal(shape, -1), 1, shape). */
static void positions_and_masks(void **state) {
    (void)state;
    bed b = with_input("ids", ONNX_INT32);
    NUMBER(&b, "zero", 0);
    NUMBER(&b, "one", 1);
    NUMBERS(&b, "first", 0);
    NUMBERS(&b, "axes", 0, 1);
    NUMBERS(&b, "starts", 0, 0);
    NUMBERS(&b, "minus", -1);
    NUMBERS(&b, "ones", 1, 1);
    WEIGHTS(&b, "words", 5, 8);
    WEIGHTS(&b, "places", 64, 8);
    WEIGHTS(&b, "mask", 64, 64);
    add_node(b.g, "Shape", "ids", "shape");
    add_node(b.g, "Gather", "shape one", "n");
    add_node(b.g, "Range", "zero n one", "range");
    add_node(b.g, "Gather", "places range", "p");
    add_node(b.g, "Gather", "words ids", "w");
    add_node(b.g, "Add", "w p", "x");
    INTS(add_node(b.g, "Transpose", "x", "xt"), "perm", 0, 2, 1);
    add_node(b.g, "MatMul", "x xt", "scores");
    add_node(b.g, "Unsqueeze", "n first", "line");
    number_attr(add_node(b.g, "Concat", "line line", "square"), "axis", 0);
    add_node(b.g, "Slice", "mask starts square axes", "part");
    add_node(b.g, "Add", "scores part", "masked");
    Onnx__NodeProto *full = add_node(b.g, "ConstantOfShape", "square", "all");
    attribute(full, "value", ATTR(TENSOR))->t =
        raw(tensor("", ONNX_FLOAT, 1, (const int64_t[]){1}), &(float){2}, 4);
    number_attr(add_node(b.g, "Trilu", "all", "lower"), "upper", 0);
    add_node(b.g, "Mul", "masked lower", "m");
    add_node(b.g, "Equal", "square minus", "any");
    add_node(b.g, "Where", "any ones square", "expanded");
    add_node(b.g, "Expand", "one expanded", "grid");
    attribute(add_node(b.g, "Cast", "grid", "real"), "to", ATTR(INT))->i = ONNX_FLOAT;
    add_node(b.g, "Add", "m real", "sum");
    add_node(b.g, "Softmax", "sum", "probabilities");
    add_node(b.g, "MatMul", "probabilities x", "y");
    NUMBERS(&b, "last", -1);
    NUMBERS(&b, "end", INT64_MAX);
    NUMBERS(&b, "axis1", 1);
    add_node(b.g, "Slice", "y last end axis1", "z");
    add_node(b.g, "Gather", "y one_back", "g");
    NUMBER(&b, "one_back", -1);
    b.g->node[b.g->n_node - 1]->n_attribute = 0;
    number_attr(b.g->node[b.g->n_node - 1], "axis", 1);
    result(&b, "y", ONNX_FLOAT);
    result(&b, "z", ONNX_FLOAT);
    result(&b, "g", ONNX_FLOAT);
    result(&b, "grid", ONNX_INT64);
    expect_symbols(&b, 6, 1, ids);
}

/* A slice of a constant ends with it, so a program's extents do; those beyond have one of their own, whose slice is all of it. */
static fed long_ids(int run, int input) {
    static const int64_t n[] = {4, 7, 16, 20, 16};
    (void)input;
    return (fed){"ids", ONNX_INT32, 1, {n[run]}};
}
static void slices_bound_the_symbol(void **state) {
    (void)state;
    bed b = with_input("ids", ONNX_INT32);
    NUMBERS(&b, "first", 0);
    WEIGHTS(&b, "table", 16);
    add_node(b.g, "Shape", "ids", "n");
    add_node(b.g, "Slice", "table first n", "y");
    result(&b, "y", ONNX_FLOAT);
    ls_runner_facts facts = series(&b, 5, 1, long_ids);
    assert_int_equal(facts.symbolic, 2);
    assert_int_equal(facts.programs, 2); /* the first shape's results are known without one */
    bed_close(&b);
}

/* Attention with a growing cache, of the standard's operators and written out. */
static void caches(void **state) {
    (void)state;
    bed b = with_input("x", ONNX_FLOAT);
    b.m->opset_import[0]->version = 23;
    INPUT(b.g, value("past_k", tensor_type(ONNX_FLOAT, NULL)));
    INPUT(b.g, value("past_v", tensor_type(ONNX_FLOAT, NULL)));
    Onnx__NodeProto *n = add_node(b.g, "Attention", "x x x - past_k past_v", "y k v");
    number_attr(number_attr(number_attr(n, "q_num_heads", 2), "kv_num_heads", 2), "is_causal", 1);
    NUMBERS(&b, "four", 1, 1, 2, 4);
    add_node(b.g, "Reshape", "x four", "q");
    INTS(add_node(b.g, "Transpose", "q", "qt"), "perm", 0, 2, 1, 3);
    number_attr(add_node(b.g, "Concat", "past_k qt", "keys"), "axis", 2);
    INTS(add_node(b.g, "Transpose", "keys", "kt"), "perm", 0, 1, 3, 2);
    add_node(b.g, "MatMul", "qt kt", "scores");
    add_node(b.g, "Softmax", "scores", "p");
    add_node(b.g, "MatMul", "p keys", "z");
    result(&b, "y", ONNX_FLOAT);
    result(&b, "k", ONNX_FLOAT);
    result(&b, "v", ONNX_FLOAT);
    result(&b, "z", ONNX_FLOAT);
    expect_symbols(&b, 9, 3, cached);
}

/* Extents that change by different steps; halves of an extent. */
static void steps(void **state) {
    (void)state;
    bed b = with_input("x", ONNX_FLOAT);
    INPUT(b.g, value("y", tensor_type(ONNX_FLOAT, NULL)));
    number_attr(add_node(b.g, "Concat", "x x", "xx"), "axis", 1);
    add_node(b.g, "Sub", "y xx", "d");
    number_attr(add_node(b.g, "Split", "d", "low high"), "axis", 1);
    add_node(b.g, "Add", "low x", "z");
    add_node(b.g, "Sum", "high z", "s");
    add_node(b.g, "ReduceMax", "s", "top");
    number_attr(add_node(b.g, "ArgMax", "s", "at"), "axis", 1);
    number_attr(b.g->node[b.g->n_node - 1], "select_last_index", 1);
    result(&b, "z", ONNX_FLOAT);
    result(&b, "top", ONNX_FLOAT);
    result(&b, "at", ONNX_INT64);
    ls_runner_facts facts = series(&b, 5, 2, twice);
    assert_int_equal(facts.symbolic, 1);
    assert_int_equal(facts.programs, 2);
    bed_close(&b);
}

/* A batch of images is a symbol; their widths are not. */
static fed batches(int run, int input) {
    static const int64_t n[] = {1, 3, 2, 8};
    (void)input;
    return (fed){"x", ONNX_FLOAT, 4, {n[run], 2, 8, 16}};
}
static bed windows(void) {
    bed b = with_input("x", ONNX_FLOAT);
    WEIGHTS(&b, "w", 3, 2, 3, 3);
    Onnx__NodeProto *conv = add_node(b.g, "Conv", "x w", "c");
    INTS(INTS(conv, "strides", 2, 2), "pads", 1, 1, 1, 1);
    add_node(b.g, "Relu", "c", "r");
    INTS(INTS(add_node(b.g, "MaxPool", "r", "p"), "kernel_shape", 2, 2), "strides", 2, 2);
    NUMBERS(&b, "to", 0, -1);
    add_node(b.g, "Reshape", "p to", "y");
    add_node(b.g, "GlobalAveragePool", "c", "g");
    result(&b, "y", ONNX_FLOAT);
    result(&b, "g", ONNX_FLOAT);
    return b;
}
static void images_in_batches(void **state) {
    (void)state;
    bed b = windows();
    expect_symbols(&b, 4, 1, batches);
    b = windows();
    expect_fixed(&b, 4, 1, images, "Conv");
}

static void tiles_and_old_softmax(void **state) {
    (void)state;
    bed b = with_input("x", ONNX_FLOAT);
    b.m->opset_import[0]->version = 12;
    NUMBERS(&b, "repeats", 1, 2, 1, 3);
    number_attr(add_node(b.g, "Softmax", "x", "s"), "axis", 2);
    add_node(b.g, "Tile", "s repeats", "t");
    number_attr(add_node(b.g, "Flatten", "t", "y"), "axis", 2);
    result(&b, "y", ONNX_FLOAT);
    expect_symbols(&b, 5, 1, batch_and_length);
}

/* What cannot be said of every value of a symbol is compiled for each. */
static void falls_back(void **state) {
    (void)state;
    bed b = with_input("x", ONNX_FLOAT); /* a quotient */
    NUMBER(&b, "at", 0);
    NUMBER(&b, "three", 3);
    NUMBERS(&b, "first", 0);
    add_node(b.g, "Shape", "x", "shape");
    add_node(b.g, "Gather", "shape at", "n");
    add_node(b.g, "Div", "n three", "third");
    add_node(b.g, "Unsqueeze", "third first", "end");
    add_node(b.g, "Slice", "x first end", "y")->name = (char *)"head";
    result(&b, "y", ONNX_FLOAT);
    expect_fixed(&b, 4, 1, rows, "node \"head\" (Slice");
    b = with_input("x", ONNX_FLOAT); /* an operator that looks at extents */
    NUMBERS(&b, "k", 1);
    number_attr(add_node(b.g, "TopK", "x k", "y i"), "axis", 0);
    result(&b, "y", ONNX_FLOAT);
    expect_fixed(&b, 4, 1, rows, "TopK");
    b = with_input("x", ONNX_FLOAT); /* a product of two extents with symbols */
    add_node(b.g, "Shape", "x", "shape");
    add_node(b.g, "ConstantOfShape", "shape", "zeros");
    add_node(b.g, "Size", "zeros", "n");
    add_node(b.g, "Mul", "n n", "nn");
    NUMBERS(&b, "first", 0);
    add_node(b.g, "Unsqueeze", "nn first", "to");
    add_node(b.g, "ConstantOfShape", "to", "grid");
    add_node(b.g, "ReduceMean", "x", "mean");
    add_node(b.g, "Add", "grid mean", "y");
    result(&b, "y", ONNX_FLOAT);
    expect_fixed(&b, 3, 1, rows, "ConstantOfShape");
}

/* A decision that an extent makes holds for a range; beyond it another program is made. */
static fed around_eight(int run, int input) {
    static const int64_t n[] = {3, 5, 7, 9, 12, 6};
    (void)input;
    return (fed){"x", ONNX_FLOAT, 1, {n[run]}};
}
static void decisions_narrow_the_range(void **state) {
    (void)state;
    bed b = with_input("x", ONNX_FLOAT);
    NUMBERS(&b, "eight", 8);
    NUMBERS(&b, "first", 0);
    add_node(b.g, "Shape", "x", "n");
    add_node(b.g, "Min", "n eight", "least");
    add_node(b.g, "Slice", "x first least", "y");
    result(&b, "y", ONNX_FLOAT);
    ls_runner_facts facts = series(&b, 6, 1, around_eight);
    assert_int_equal(facts.symbolic, 2);
    assert_int_equal(facts.programs, 3);
    bed_close(&b);
}

/* Memory runs out at each allocation of the second run, which makes extents symbols: it fails for that reason, or its results are right. */
static void memory_may_run_out(void **state) {
    (void)state;
    bed b = with_input("x", ONNX_FLOAT);
    NUMBERS(&b, "first", 0);
    NUMBERS(&b, "minus", -1);
    WEIGHTS(&b, "w", 6, 4);
    add_node(b.g, "MatMul", "x w", "a");
    add_node(b.g, "Shape", "x", "shape");
    add_node(b.g, "Gather", "shape first", "n");
    number_attr(add_node(b.g, "Concat", "minus n", "to"), "axis", 0);
    add_node(b.g, "Reshape", "a to", "y");
    result(&b, "y", ONNX_FLOAT);
    ls_model *model = bed_load(&b);
    ls_heap *heap = ls_context_heap(b.w.context);
    bool reached = true;
    long at = 0;
    for (; reached; at += 1 + at / 10) {
        ls_runner *r;
        ls_data *out = NULL;
        const fed one = rows(0, 0), two = rows(1, 0);
        world_ok(&b.w, ls_runner_create(b.w.session, model, &r));
        run_on(&b, r, 1, &one, 0, &out);
        ls_data_release(out);
        ls_named_data named = {"x", made_up(b.w.context, &two, 0)};
        atomic_store(&heap->fail_after, at);
        ls_status status = ls_runner_run(r, 1, &named, &out);
        reached = atomic_exchange(&heap->fail_after, -1) < 0;
        if (status != LS_OK && status != LS_ERR_MEMORY) {
            fail_msg("allocation %ld: %s", at, ls_session_error(b.w.session)->message);
        }
        if (status == LS_OK) {
            assert_memory_equal(ls_data_dims(out), ((const int64_t[]){4, 5}), 2 * sizeof(int64_t));
            ls_data_release(out);
        }
        ls_session_clear_error(b.w.session);
        ls_data_release((ls_data *)named.data);
        ls_runner_destroy(r);
    }
    assert_true(at > 50);
    ls_model_release(model);
    bed_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshapes),
        cmocka_unit_test(positions_and_masks),
        cmocka_unit_test(slices_bound_the_symbol),
        cmocka_unit_test(caches),
        cmocka_unit_test(steps),
        cmocka_unit_test(images_in_batches),
        cmocka_unit_test(tiles_and_old_softmax),
        cmocka_unit_test(falls_back),
        cmocka_unit_test(decisions_narrow_the_range),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
