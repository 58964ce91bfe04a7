/* ONNX operators of shapes, indices and images as older operator sets have them, over strings, and with operands that are not
 * known: what the ONNX project's cases leave out. */
#define _GNU_SOURCE
#include "onnx_bed.h"

static void known(bed *b, const char *name, int count, const int64_t *list) {
    int64_t n = count;
    Onnx__TensorProto *t = raw(tensor(name, ONNX_INT64, 1, &n), list, (size_t)count * 8);
    PUSH(b->g->initializer, b->g->n_initializer, t);
}

#define INTS(n, name, ...) ints(n, name, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__})

/* Builds the model, whose one output is "y", expects these numbers, and ends the bed. */
static void expect(bed *b, int rank, const int64_t *dims, const double *want) {
    int64_t n = 1;
    double got[64];
    OUTPUT(b->g, value("y", tensor_type(ONNX_FLOAT, NULL)));
    ls_model *model = bed_load(b);
    ls_tensor *y;
    world_ok(&b->w, ls_model_build(b->w.session, model, b->n_in, b->in, 1, &y));
    ls_shape shape = ls_tensor_shape(y);
    assert_int_equal(shape.rank, rank);
    for (int i = 0; i < rank; i++) {
        assert_int_equal(shape.dim[i].offset, dims[i]);
        n *= dims[i];
    }
    world_ok(&b->w, ls_read(b->w.session, ls_cast(b->w.session, y, LS_F64), got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++) {
        if (got[i] != want[i]) {
            fail_msg("%s: element %d is %g, expected %g", b->g->node[0]->op_type, (int)i, got[i], want[i]);
        }
    }
    ls_model_release(model);
    bed_close(b);
}
#define LIST(...) ((const double[]){__VA_ARGS__})
#define EXPECT(b, want, ...) expect(b, sizeof((int64_t[]){__VA_ARGS__}) / 8, (const int64_t[]){__VA_ARGS__}, want)

static const float grid[6] = {1, 2, 3, 10, 20, 30}; /* [2, 3] */

static bed with_grid(int64_t version) {
    bed b = bed_open(version);
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(2, 3), grid);
    return b;
}

static void old_operators_have_attributes(void **state) {
    (void)state;
    bed b = with_grid(9);
    INTS(INTS(INTS(add_node(b.g, "Slice", "x", "y"), "starts", -2), "ends", INT64_MAX), "axes", 1);
    EXPECT(&b, LIST(2, 3, 20, 30), 2, 2);
    b = with_grid(11);
    INTS(add_node(b.g, "Unsqueeze", "x", "y"), "axes", 0, 3);
    EXPECT(&b, LIST(1, 2, 3, 10, 20, 30), 1, 2, 3, 1);
    b = with_grid(10);
    Onnx__NodeProto *pad = INTS(add_node(b.g, "Pad", "x", "y"), "pads", 1, 0, 0, -2);
    attribute(pad, "value", ATTR(FLOAT))->f = 7;
    EXPECT(&b, LIST(7, 1, 10), 3, 1);
    b = with_grid(11);
    Onnx__NodeProto *split = INTS(add_node(b.g, "Split", "x", "a y"), "split", 1, 2);
    attribute(split, "axis", ATTR(INT))->i = 1;
    EXPECT(&b, LIST(2, 3, 20, 30), 2, 2);
    b = with_grid(9);
    attribute(add_node(b.g, "TopK", "x", "best y"), "k", ATTR(INT))->i = 2;
    EXPECT(&b, LIST(2, 1, 2, 1), 2, 2);
    b = with_grid(10); /* places i / 2, rounded down */
    const float twice[] = {1, 2};
    int64_t two = 2;
    PUSH(b.g->initializer, b.g->n_initializer, raw(tensor("scales", ONNX_FLOAT, 1, &two), twice, sizeof twice));
    add_node(b.g, "Resize", "x scales", "y");
    EXPECT(&b, LIST(1, 1, 2, 2, 3, 3, 10, 10, 20, 20, 30, 30), 2, 6);
    b = with_grid(8);
    Onnx__NodeProto *up = add_node(b.g, "Upsample", "x", "y");
    text(up, "mode", "linear");
    Onnx__AttributeProto *scales = attribute(up, "scales", ATTR(FLOATS));
    PUSH(scales->floats, scales->n_floats, 1);
    PUSH(scales->floats, scales->n_floats, 2);
    EXPECT(&b, LIST(1, 1.5, 2, 2.5, 3, 3, 10, 15, 20, 25, 30, 30), 2, 6);
}

/* Indices that depend on an input count from the end as those that are known do. */
static void indices_count_from_the_end(void **state) {
    (void)state;
    for (int is_known = 0; is_known < 2; is_known++) {
        bed b = with_grid(18);
        const int64_t list[] = {-1, 0};
        if (is_known) {
            known(&b, "i", 2, list);
        } else {
            feed(&b, "i", ONNX_INT64, LS_SHAPE(2), list);
        }
        attribute(add_node(b.g, "Gather", "x i", "y"), "axis", ATTR(INT))->i = 1;
        EXPECT(&b, LIST(3, 1, 30, 10), 2, 2);
        b = with_grid(18);
        const int64_t places[] = {-1, 1, 0, -2};
        feed(&b, "i", ONNX_INT64, LS_SHAPE(2, 2), places);
        feed(&b, "u", ONNX_FLOAT, LS_SHAPE(2), (const float[]){5, 6});
        text(add_node(b.g, "ScatterND", "x i u", "y"), "reduction", is_known ? "mul" : "max");
        EXPECT(&b, is_known ? LIST(1, 12, 3, 10, 100, 30) : LIST(1, 6, 3, 10, 20, 30), 2, 3);
    }
    bed b = with_grid(18);
    known(&b, "i", 1, (const int64_t[]){-2});
    add_node(b.g, "Gather", "x i", "y"); /* one known index: a part of x, whose axis stays */
    EXPECT(&b, LIST(1, 2, 3), 1, 3);
}

/* Each of two equal nodes under its own name. */
static void indices_out_of_range_are_named(void **state) {
    (void)state;
    bed b = with_grid(18);
    const int64_t list[] = {0, 24};
    feed(&b, "i", ONNX_INT64, LS_SHAPE(2), list);
    static const char *const names[] = {"look", "see"};
    for (int k = 0; k < 2; k++) {
        Onnx__NodeProto *n = add_node(b.g, "Gather", k ? "ran i" : "x i", k ? "z" : "y");
        attribute(n, "axis", ATTR(INT))->i = 1;
        n->name = (char *)names[k];
        OUTPUT(b.g, value(k ? "z" : "y", tensor_type(ONNX_FLOAT, NULL)));
    }
    INPUT(b.g, value("ran", tensor_type(ONNX_FLOAT, NULL)));
    b.in[b.n_in++] = ls_tensor_from(b.w.session, LS_F32, LS_SHAPE(2, 3), grid);
    ls_model *model = bed_load(&b);
    ls_tensor *out[2];
    world_ok(&b.w, ls_model_build(b.w.session, model, b.n_in, b.in, 2, out));
    for (int k = 0; k < 2; k++) {
        assert_int_equal(ls_realize(b.w.session, &out[k], 1), LS_ERR_RANGE);
        const char *message = ls_session_error(b.w.session)->message;
        if (strncmp(message, names[k], strlen(names[k])) != 0 || !strstr(message, ": gather of [2,3] along axis 1") ||
            !strstr(message, "expected 0 to 2")) {
            fail_msg("\"%s\": expected node %s and 0 to 2", message, names[k]);
        }
        ls_session_clear_error(b.w.session);
    }
    ls_model_release(model);
    bed_close(&b);
}

/* Strings are moved as numbers are: ["aa", "b"] joined with ["c"], taken apart, compared at the end. */
static void strings_are_moved(void **state) {
    (void)state;
    bed b = bed_open(20);
    const char *const lists[][2] = {{"aa", "b"}, {"c", NULL}};
    for (int k = 0; k < 2; k++) {
        Onnx__AttributeProto *a = attribute(add_node(b.g, "Constant", "", k ? "s1" : "s0"), "value_strings", ATTR(STRINGS));
        for (int i = 0; i < 2 && lists[k][i]; i++) {
            PUSH(a->strings, a->n_strings, ((ProtobufCBinaryData){strlen(lists[k][i]), (uint8_t *)lists[k][i]}));
        }
    }
    feed(&b, "i", ONNX_INT64, LS_SHAPE(2, 2), (const int64_t[]){2, 0, -2, -1}); /* not known */
    attribute(add_node(b.g, "Concat", "s0 s1", "all"), "axis", ATTR(INT))->i = 0;
    add_node(b.g, "Gather", "all i", "taken"); /* c aa / b c */
    INTS(add_node(b.g, "Transpose", "taken", "turned"), "perm", 1, 0);
    add_node(b.g, "Unique", "turned", "sorted first inverse counts"); /* aa b c of c b / aa c */
    text(add_node(b.g, "RegexFullMatch", "sorted", "is_b"), "pattern", "b");
    attribute(add_node(b.g, "Cast", "is_b", "as_int"), "to", ATTR(INT))->i = ONNX_INT64;
    add_node(b.g, "Shape", "turned", "extents");
    Onnx__NodeProto *n = add_node(b.g, "Concat", "as_int first inverse counts extents", "y");
    attribute(n, "axis", ATTR(INT))->i = 0;
    EXPECT(&b, LIST(0, 1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 1, 2, 2, 2), 15);
}

static void regions_have_their_image_first(void **state) {
    (void)state;
    bed b = bed_open(18);
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(2, 1, 1, 3), grid);
    feed(&b, "r", ONNX_FLOAT, LS_SHAPE(2, 5), (const float[]){1, 0, 0, 1, 0, 0, 1, 0, 2, 0});
    INTS(add_node(b.g, "MaxRoiPool", "x r", "y"), "pooled_shape", 1, 2);
    EXPECT(&b, LIST(10, 20, 2, 3), 2, 1, 1, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_operators_have_attributes),
        cmocka_unit_test(indices_count_from_the_end),
        cmocka_unit_test(indices_out_of_range_are_named),
        cmocka_unit_test(strings_are_moved),
        cmocka_unit_test(regions_have_their_image_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
