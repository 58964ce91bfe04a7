/* States of runners: outputs that are inputs of the next run give the bits that passing them by hand gives, wherever the value is between. */
#define _GNU_SOURCE
#include "onnx_bed.h"

typedef struct net {
    bed b;
    ls_model *model;
    ls_runner *kept, *by_hand;
} net;

static ls_data *array(const net *n, int rows, int columns, float first) {
    float x[64];
    ls_data *data = NULL;
    for (int i = 0; i < rows * columns; i++) {
        x[i] = first + (float)(i * 7 % 11) / 8;
    }
    world_ok((world *)&n->b.w, ls_data_create(n->b.w.context, LS_F32, 2, (const int64_t[]){rows, columns}, x, &data, NULL));
    return data;
}

/* Of a model from inputs x and s to outputs y and t; t becomes s. */
static net open_net(void (*nodes)(bed *b), const ls_data *(*first)(net *n)) {
    net n = {.b = bed_open(21)};
    INPUT(n.b.g, value("x", tensor_type(ONNX_FLOAT, NULL)));
    INPUT(n.b.g, value("s", tensor_type(ONNX_FLOAT, NULL)));
    nodes(&n.b);
    OUTPUT(n.b.g, value("y", NULL));
    OUTPUT(n.b.g, value("t", NULL));
    n.model = bed_load(&n.b);
    world_ok(&n.b.w, ls_runner_create(n.b.w.session, n.model, &n.kept));
    world_ok(&n.b.w, ls_runner_create(n.b.w.session, n.model, &n.by_hand));
    const ls_data *start = first(&n);
    world_ok(&n.b.w, ls_runner_bind_state(n.kept, "t", "s", start));
    ls_data_release((ls_data *)start);
    return n;
}

static void close_net(net *n) {
    ls_runner_destroy(n->kept);
    ls_runner_destroy(n->by_hand);
    ls_model_release(n->model);
    bed_close(&n->b);
}

static void same(const ls_data *a, const ls_data *b) {
    assert_int_equal(ls_data_rank(a), ls_data_rank(b));
    assert_memory_equal(ls_data_dims(a), ls_data_dims(b), sizeof(int64_t) * (size_t)ls_data_rank(a));
    assert_int_equal(ls_data_size(a), ls_data_size(b));
    assert_memory_equal(ls_data_bytes(a), ls_data_bytes(b), ls_data_size(a));
}

/* Runs both `runs` times from `first`; what is read of the state in the middle must not disturb it. */
static void compare(net *n, int runs, const ls_data *first) {
    ls_data *s = ls_data_retain((ls_data *)first);
    for (int i = 0; i < runs; i++) {
        ls_data *x = array(n, 1, 4, (float)i / 4), *kept[2], *hand[2], *state;
        world_ok(&n->b.w, ls_runner_run(n->kept, 1, &(ls_named_data){"x", x}, kept));
        world_ok(&n->b.w, ls_runner_run(n->by_hand, 2, (const ls_named_data[]){{"x", x}, {"s", s}}, hand));
        same(kept[0], hand[0]);
        assert_null(kept[1]);
        if (i % 3 == 1) {
            world_ok(&n->b.w, ls_runner_read_state(n->kept, "s", &state));
            same(state, hand[1]);
            ls_data_release(state);
        }
        ls_data_release(s);
        s = hand[1];
        ls_data_release(kept[0]);
        ls_data_release(hand[0]);
        ls_data_release(x);
    }
    ls_data_release(s);
}

static const ls_data *one_row(net *n) {
    return array(n, 1, 4, -0.5f);
}
static const ls_data *no_row(net *n) {
    return array(n, 0, 4, 0);
}

static void recurrence(bed *b) { /* y = t = tanh(x + s * w) */
    PUSH(b->g->initializer, b->g->n_initializer, floats("w", 4));
    add_node(b->g, "Mul", "s w", "a");
    add_node(b->g, "Add", "x a", "c");
    add_node(b->g, "Tanh", "c", "t");
    add_node(b->g, "Neg", "t", "y");
}
static void test_recurrence(void **state) {
    (void)state;
    net n = open_net(recurrence, one_row);
    const ls_data *first = one_row(&n);
    compare(&n, 7, first);
    uint64_t compiles = ls_session_get_stats(n.b.w.session).compiles;
    ls_runner_reset_state(n.kept);
    compare(&n, 4, first);
    assert_int_equal(ls_session_get_stats(n.b.w.session).compiles, compiles);
    ls_data_release((ls_data *)first);
    close_net(&n);
}

static void cache(bed *b) { /* t = s, then x; y its sum: extents grow */
    attribute(add_node(b->g, "Concat", "s x", "t"), "axis", ATTR(INT))->i = 0;
    Onnx__AttributeProto *keep = attribute(add_node(b->g, "ReduceSum", "t", "y"), "keepdims", ATTR(INT));
    keep->i = 0;
}
static void test_cache(void **state) {
    (void)state;
    net n = open_net(cache, no_row);
    const ls_data *first = no_row(&n);
    compare(&n, 6, first);
    ls_runner_reset_state(n.kept);
    compare(&n, 3, first);
    ls_data_release((ls_data *)first);
    close_net(&n);
}

static void heads(bed *b) { /* the same for two heads, whose rows grow in the middle of the array */
    PUSH(b->g->initializer, b->g->n_initializer, tensor("zero", ONNX_INT64, 1, (const int64_t[]){1}));
    Onnx__TensorProto *zero = b->g->initializer[0];
    PUSH(zero->int64_data, zero->n_int64_data, 0);
    add_node(b->g, "Unsqueeze", "x zero", "u");
    add_node(b->g, "Neg", "u", "v");
    attribute(add_node(b->g, "Concat", "u v", "both"), "axis", ATTR(INT))->i = 0;
    attribute(add_node(b->g, "Concat", "s both", "t"), "axis", ATTR(INT))->i = 1;
    add_node(b->g, "Exp", "t", "y");
}
static const ls_data *no_rows(net *n) {
    ls_data *data = NULL;
    world_ok(&n->b.w, ls_data_create(n->b.w.context, LS_F32, 3, (const int64_t[]){2, 0, 4}, NULL, &data, NULL));
    return data;
}
static void test_heads(void **state) {
    (void)state;
    net n = open_net(heads, no_rows);
    const ls_data *first = no_rows(&n);
    compare(&n, 7, first);
    assert_true(ls_runner_get_facts(n.kept).symbolic > 0); /* laid out for more rows than there are */
    int programs = ls_runner_get_facts(n.kept).programs;
    ls_runner_reset_state(n.kept);
    compare(&n, 7, first);
    assert_int_equal(ls_runner_get_facts(n.kept).programs, programs);
    ls_data_release((ls_data *)first);
    close_net(&n);
}

static void by_values(bed *b) { /* a shape follows from the state's numbers: node by node */
    add_node(b->g, "Sub", "s x", "t");
    add_node(b->g, "NonZero", "t", "i");
    attribute(add_node(b->g, "Cast", "i", "y"), "to", ATTR(INT))->i = ONNX_FLOAT;
}
static void test_by_values(void **state) {
    (void)state;
    net n = open_net(by_values, one_row);
    const ls_data *first = one_row(&n);
    compare(&n, 4, first);
    ls_data_release((ls_data *)first);
    close_net(&n);
}

static void refused(net *n, const char *part, ls_status status) {
    assert_int_not_equal(status, LS_OK);
    if (!strstr(ls_session_error(n->b.w.session)->message, part)) {
        fail_msg("expected \"%s\" in: %s", part, ls_session_error(n->b.w.session)->message);
    }
    ls_session_clear_error(n->b.w.session);
}
static void test_refused(void **state) {
    (void)state;
    net n = open_net(recurrence, one_row);
    ls_data *first = array(&n, 1, 4, 0), *wide = array(&n, 1, 5, 0), *out[2], *kept;
    refused(&n, "no output \"u\"", ls_runner_bind_state(n.by_hand, "u", "s", first));
    refused(&n, "no input \"u\"", ls_runner_bind_state(n.by_hand, "t", "u", first));
    refused(&n, "already", ls_runner_bind_state(n.kept, "y", "s", first));
    refused(&n, "first run", ls_runner_bind_state(n.by_hand, "t", "s", NULL));
    refused(&n, "is no state", ls_runner_read_state(n.kept, "x", &kept));
    refused(&n, "is a state", ls_runner_run(n.kept, 2, (const ls_named_data[]){{"x", first}, {"s", first}}, out));
    world_ok(&n.b.w, ls_runner_run(n.kept, 1, &(ls_named_data){"x", first}, out));
    ls_data_release(out[0]);
    refused(&n, "", ls_runner_run(n.kept, 1, &(ls_named_data){"x", wide}, out)); /* 5 with 4: the model cannot be built */
    const ls_data *start = one_row(&n);
    world_ok(&n.b.w, ls_runner_read_state(n.kept, "s", &kept)); /* set back */
    same(kept, start);
    ls_data_release(kept);
    ls_data_release((ls_data *)start);
    ls_data_release(first);
    ls_data_release(wide);
    close_net(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recurrence), cmocka_unit_test(test_cache), cmocka_unit_test(test_heads),
                                       cmocka_unit_test(test_by_values),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
