/* The graph layer: interning, references and scopes, shapes with symbols, values, order, printing. */
#include "graph_session.h"
#include <math.h>
#include <stdio.h>

#define OPEN                                                                                                 \
    fixture fix, *f = &fix;                                                                                  \
    fixture_open(f);                                                                                         \
    ls_session *s = session_of(f)

static ls_symbol batch = {.name = (char *)"B", .bound = 64, .index = 0}, length = {.name = (char *)"L", .bound = 100, .index = 1};
#define B(scale, offset) ls_dim_symbol(&batch, scale, offset)
#define L(scale, offset) ls_dim_symbol(&length, scale, offset)
#define D(n) ls_dim_of(n)
#define SHAPE(...)                                                                                           \
    (ls_shape) {                                                                                             \
        .rank = sizeof((ls_dim[]){__VA_ARGS__}) / sizeof(ls_dim), .dim = { __VA_ARGS__ }                     \
    }

/* ---- interning ---- */

static void equal_builds_are_one(void **state) {
    (void)state;
    OPEN;
    ls_tensor *a = input(f, LS_F32, LS_SHAPE(2, 3)), *b = input(f, LS_F32, LS_SHAPE(3));
    assert_ptr_not_equal(a, input(f, LS_F32, LS_SHAPE(2, 3))); /* two inputs are two */
    assert_ptr_equal(ls_add(s, a, b), ls_add(s, a, b));
    assert_ptr_not_equal(ls_add(s, a, b), ls_add(s, b, a));
    assert_ptr_not_equal(ls_add(s, a, b), ls_mul(s, a, b));
    assert_ptr_equal(ls_sum(s, a, 1, (int[]){-1}, 0), ls_sum(s, a, 1, (int[]){1}, 0));
    assert_ptr_not_equal(ls_sum(s, a, 2, (int[]){0, 1}, 0),
                         ls_sum(s, a, 2, (int[]){1, 0}, 0)); /* the order is declared */
    assert_ptr_equal(ls_full(s, LS_F32, LS_SCALAR, 0.1), ls_full(s, LS_F32, LS_SCALAR, (double)0.1f));
    assert_ptr_not_equal(ls_full(s, LS_F32, LS_SCALAR, 0.0), ls_full(s, LS_F32, LS_SCALAR, -0.0));
    assert_ptr_equal(ls_full(s, LS_F32, LS_SCALAR, NAN), ls_full(s, LS_F32, LS_SCALAR, -NAN));
    ls_tensor *locked = ls_exp(s, a);
    s->graph.math = LS_FAST; /* another kind is another node */
    assert_ptr_not_equal(locked, ls_exp(s, a));
    s->graph.math = LS_LOCKED;
    assert_ptr_equal(locked, ls_exp(s, a));
    fixture_close(f);
}

static void identities_return_the_operand(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = input(f, LS_F32, LS_SHAPE(2, 3));
    assert_ptr_equal(ls_reshape(s, x, LS_SHAPE(2, 3)), x);
    assert_ptr_equal(ls_permute(s, x, (int[]){0, 1}), x);
    assert_ptr_equal(ls_expand(s, x, LS_SHAPE(2, 3)), x);
    assert_ptr_equal(ls_pad(s, x, (ls_pad_spec[]){{0, 0, 0}, {0, 0, 0}}, 1), x);
    assert_ptr_equal(ls_slice(s, x, (ls_slice_spec[]){{0, 2, 1}, {0, 3, 1}}), x);
    assert_ptr_equal(ls_cast(s, x, LS_F32), x);
    assert_ptr_equal(ls_concat(s, &x, 1, 0), x);
    /* Each is a result like any other: the innermost scope holds it. */
    assert_int_equal(ls_scope_begin(s), LS_OK);
    ls_tensor *y = ls_retain(ls_exp(s, x));
    ls_scope_end(s);
    assert_ptr_equal(ls_reshape(s, y, LS_SHAPE(2, 3)), y);
    ls_release(y);
    assert_int_equal(alive(f), 2);
    fixture_close(f);
}

/* ---- ownership ---- */

static void scopes_release_what_is_not_kept(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = input(f, LS_F32, LS_SHAPE(4));
    assert_int_equal(alive(f), 1);
    assert_int_equal(ls_scope_begin(s), LS_OK);
    ls_tensor *kept = ls_exp(s, ls_neg(s, x));
    ls_log(s, x);
    assert_int_equal(alive(f), 4);
    assert_ptr_equal(ls_keep(s, kept), kept);
    ls_scope_end(s);
    assert_int_equal(alive(f), 3); /* x, neg, exp */
    assert_int_equal(ls_scope_begin(s), LS_OK);
    assert_int_equal(ls_scope_begin(s), LS_OK);
    ls_tensor *again =
        ls_exp(s, ls_neg(s, x)); /* a hit: the inner scope holds it too, and takes nothing from the outer */
    assert_ptr_equal(again, kept);
    ls_tensor *held = ls_retain(ls_sqrt(s, x));
    ls_scope_end(s);
    ls_scope_end(s);
    assert_int_equal(alive(f), 4);
    ls_release(held);
    assert_int_equal(alive(f), 3);
    ls_scope_end(s); /* none open: nothing */
    assert_ptr_equal(ls_keep(s, kept), kept);
    assert_null(ls_keep(s, NULL));
    assert_null(ls_retain(NULL));
    ls_release(NULL);
    fixture_close(f);
}

static void kept_twice_survives_two_scopes(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = input(f, LS_F32, LS_SCALAR);
    assert_int_equal(ls_scope_begin(s), LS_OK);
    assert_int_equal(ls_scope_begin(s), LS_OK);
    ls_tensor *a = ls_neg(s, x), *b = ls_abs(s, x), *c = ls_exp(s, x);
    ls_keep(s, c);
    ls_keep(s, a);
    ls_scope_end(s);
    assert_int_equal(alive(f), 3);
    ls_keep(s, c);
    ls_scope_end(s);
    assert_int_equal(alive(f), 2);
    assert_ptr_equal(c, ls_exp(s, x));
    (void)b;
    fixture_close(f);
}

static void deep_graphs_do_not_recurse(void **state) {
    (void)state;
    OPEN;
    enum { DEEP = 200000 };
    ls_tensor *x = input(f, LS_F32, LS_SCALAR), *y = x;
    assert_int_equal(ls_scope_begin(s), LS_OK);
    for (int i = 0; i < DEEP; i++) {
        assert_int_equal(ls_scope_begin(s), LS_OK);
        y = ls_exp(s, y);
        ls_keep(s, y);
        ls_scope_end(s);
    }
    ls_arena arena;
    ls_arena_init(&arena, &f->heap);
    int count;
    ls_tensor **order = ls_graph_order(&arena, &y, 1, &count);
    assert_non_null(order);
    assert_int_equal(count, DEEP + 1);
    assert_ptr_equal(order[0], x);
    assert_ptr_equal(order[DEEP], y);
    assert_null(order[DEEP]->mark);
    ls_arena_free(&arena);
    assert_int_equal(ls_rewrite(s, &y, 1), LS_OK);
    ls_retain(y);
    ls_scope_end(s);
    assert_int_equal(alive(f), DEEP + 1); /* y holds them all */
    ls_release(y);
    assert_int_equal(alive(f), 1);
    fixture_close(f);
}

static void order_is_depth_first_left_to_right(void **state) {
    (void)state;
    OPEN;
    ls_tensor *a = input(f, LS_F32, LS_SCALAR), *b = input(f, LS_F32, LS_SCALAR);
    ls_tensor *right = ls_exp(s, b), *left = ls_neg(s, a), *sum = ls_add(s, left, right),
              *both = ls_mul(s, sum, left);
    ls_arena arena;
    ls_arena_init(&arena, &f->heap);
    int count;
    ls_tensor *roots[] = {right, both, NULL, sum};
    ls_tensor **order = ls_graph_order(&arena, roots, 4, &count);
    ls_tensor *want[] = {b, right, a, left, sum, both};
    assert_int_equal(count, 6);
    for (int i = 0; i < 6; i++) {
        assert_ptr_equal(order[i], want[i]);
    }
    ls_arena_free(&arena);
    fixture_close(f);
}

/* ---- shapes ---- */

static void shapes_with_symbols(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = input(f, LS_F32, SHAPE(B(1, 0), D(6)));
    assert_tensor(f, x, "f32[B,6]");
    assert_tensor(f, ls_reshape(s, x, SHAPE(B(2, 0), D(3))), "f32[2*B,3]");
    assert_tensor(f, ls_reshape(s, x, LS_SHAPE(-1)), "f32[6*B]");
    assert_tensor(f, ls_reshape(s, x, LS_SHAPE(3, -1, 2)), "f32[3,B,2]");
    assert_tensor(f, ls_reshape(s, x, SHAPE(D(-1), B(1, 0))), "f32[6,B]");
    assert_tensor(f, ls_add(s, x, input(f, LS_F32, LS_SHAPE(6))), "f32[B,6]");
    assert_tensor(f, ls_add(s, input(f, LS_F32, SHAPE(B(1, 0), D(1))), input(f, LS_F32, LS_SHAPE(6))),
                  "f32[B,6]");
    assert_tensor(f, ls_pad(s, x, (ls_pad_spec[]){{1, 2, 0}, {0, 0, 0}}, 0), "f32[B+3,6]");
    assert_tensor(f, ls_slice(s, x, (ls_slice_spec[]){{2, INT64_MAX, 1}, {5, -1, -2}}), "f32[B-2,3]");
    ls_tensor *parts[] = {x, input(f, LS_F32, LS_SHAPE(4, 6)), x};
    assert_tensor(f, ls_concat(s, parts, 3, 0), "f32[2*B+4,6]");
    assert_tensor(f, ls_window(s, x, 1, (int[]){0}, (ls_window_spec[]){{3, 1, 2}}), "f32[B-4,6,3]");
    ls_tensor *wide = input(f, LS_F32, SHAPE(B(4, 1)));
    assert_tensor(f, ls_window(s, wide, 1, (int[]){0}, (ls_window_spec[]){{3, 2, 1}}),
                  "f32[2*B,3]"); /* (4B - 2) / 2 + 1 */
    assert_tensor(f, ls_matmul(s, x, input(f, LS_F32, LS_SHAPE(6, 4))), "f32[B,4]");
    assert_tensor(f,
                  ls_matmul(s, input(f, LS_F32, SHAPE(B(1, 0), L(1, 0), D(6))),
                            input(f, LS_F32, SHAPE(B(1, 0), D(6), L(1, 0)))),
                  "f32[B,L,L]");
    assert_tensor(
        f, ls_reshape(s, input(f, LS_F32, SHAPE(B(1, 0), L(2, 0), D(5))), SHAPE(L(1, 0), D(10), B(1, 0))),
        "f32[L,10,B]");
    assert_tensor(f, ls_sum(s, x, 1, (int[]){0}, 1), "f32[1,6]");
    assert_tensor(f, ls_dim_value(s, B(2, 1)), "i64[]");
    assert_int_equal(ls_dim_value(s, D(7))->op, LS_OP_CONST);
    int64_t values[] = {5, 7};
    assert_int_equal(ls_shape_numel(&x->shape, values), 30);
    assert_int_equal(ls_shape_numel(&x->shape, NULL), 384);
    fixture_close(f);
}

static void shapes_of_movement(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = input(f, LS_I8, LS_SHAPE(2, 3, 4));
    assert_tensor(f, ls_permute(s, x, (int[]){2, 0, -2}), "i8[4,2,3]");
    assert_tensor(f, ls_transpose(s, x, 0, -1), "i8[4,3,2]");
    assert_tensor(f, ls_expand(s, x, LS_SHAPE(5, 2, 3, 4)), "i8[5,2,3,4]");
    assert_tensor(f, ls_pad_absent(s, x, (ls_pad_spec[]){{1, 0, 0}, {0, 0, 2}, {-1, -2, 0}}), "i8[3,7,1]");
    assert_tensor(f, ls_slice(s, x, (ls_slice_spec[]){{1, -1, -1}, {0, 3, 2}, {2, 2, 1}}), "i8[2,2,0]");
    assert_tensor(f, ls_narrow(s, x, 1, 1, 2), "i8[2,2,4]");
    assert_tensor(f, ls_flip(s, x, -1), "i8[2,3,4]");
    assert_tensor(f, ls_window(s, x, 2, (int[]){2, 0}, (ls_window_spec[]){{2, 2, 1}, {1, 1, 1}}),
                  "i8[2,3,2,2,1]");
    assert_tensor(f, ls_stack(s, (ls_tensor *[]){x, x}, 2, 1), "i8[2,2,3,4]");
    assert_tensor(f, ls_unsqueeze(s, x, -1), "i8[2,3,4,1]");
    assert_tensor(f, ls_squeeze(s, ls_unsqueeze(s, x, 0), 0), "i8[2,3,4]");
    ls_tensor *empty = input(f, LS_F32, LS_SHAPE(0, 3));
    assert_tensor(f, ls_sum(s, empty, 1, (int[]){0}, 0), "f32[3]");
    assert_tensor(f, ls_reshape(s, empty, LS_SHAPE(7, 0)), "f32[7,0]");
    assert_tensor(f, ls_matmul(s, input(f, LS_F32, LS_SHAPE(2, 0)), empty), "f32[2,3]");
    assert_tensor(f, ls_pad(s, empty, (ls_pad_spec[]){{1, 1, 5}, {0, 0, 0}}, 0), "f32[2,3]");
    assert_tensor(f, ls_concat(s, (ls_tensor *[]){empty, empty}, 2, 0), "f32[0,3]");
    assert_tensor(f, ls_sum(s, input(f, LS_F32, LS_SCALAR), 0, NULL, 1), "f32[]");
    fixture_close(f);
}

static void shapes_of_products(void **state) {
    (void)state;
    OPEN;
#define IN(...) input(f, LS_F32, LS_SHAPE(__VA_ARGS__))
    assert_tensor(f, ls_matmul(s, IN(4), IN(4)), "f32[]");
    assert_tensor(f, ls_matmul(s, IN(3, 4), IN(4)), "f32[3]");
    assert_tensor(f, ls_matmul(s, IN(4), IN(4, 5)), "f32[5]");
    assert_tensor(f, ls_matmul(s, IN(4), IN(7, 4, 5)), "f32[7,5]");
    assert_tensor(f, ls_matmul(s, IN(7, 3, 4), IN(4)), "f32[7,3]");
    assert_tensor(f, ls_matmul(s, IN(2, 1, 3, 4), IN(7, 4, 5)), "f32[2,7,3,5]");
    assert_tensor(f, ls_matmul(s, IN(3, 4), IN(2, 7, 4, 5)), "f32[2,7,3,5]");
    assert_tensor(f, ls_matmul(s, IN(2, 7, 3, 4), IN(4, 5)), "f32[2,7,3,5]");
    assert_tensor(f, ls_linear(s, IN(2, 3, 4), IN(5, 4), IN(5)), "f32[2,3,5]");
    ls_contract_spec outer = {0};
    assert_tensor(f, ls_contract(s, IN(2), IN(3), &outer, LS_F32), "f32[2,3]");
    ls_contract_spec spec = {.n_batch = 1,
                             .batch_a = {2},
                             .batch_b = {0},
                             .n_contract = 2,
                             .contract_a = {-4, 1},
                             .contract_b = {2, 1}};
    ls_tensor *a = input(f, LS_I8, LS_SHAPE(5, 6, 7, 2)), *b = input(f, LS_I8, LS_SHAPE(7, 6, 5, 3));
    assert_tensor(f, ls_contract(s, a, b, &spec, LS_I32), "i32[7,2,3]");
    assert_tensor(f, ls_contract(s, a, b, &spec, LS_I8), "i8[7,2,3]");
    fixture_close(f);
}

static void shapes_of_indexed(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 5, 3), *i = input(f, LS_I32, LS_SHAPE(4, 6)), *key = input(f, LS_U32, LS_SHAPE(2));
    assert_tensor(f, ls_gather(s, x, i, 1), "f32[2,4,6,3]");
    assert_tensor(f, ls_gather(s, x, input(f, LS_I64, LS_SCALAR), -1), "f32[2,5]");
    assert_tensor(f, ls_scatter(s, x, i, IN(2, 4, 6, 3), 1, LS_SCATTER_ADD), "f32[2,5,3]");
    assert_tensor(f, ls_argsort(s, x, 1, 1), "i64[2,5,3]");
    assert_tensor(f, ls_argmax(s, x, 2, (int[]){0, 2}, 0), "i64[5]");
    assert_tensor(f, ls_scan(s, x, LS_SCAN_MAX, 1, 0, 1), "f32[2,5,3]");
    assert_tensor(f, ls_iota(s, LS_F32, LS_SHAPE(2, 3), -1), "f32[2,3]");
    assert_tensor(f, ls_random_bits(s, key, LS_SHAPE(3, 3)), "u32[3,3]");
    assert_tensor(f, ls_where(s, ls_lt(s, x, x), x, ls_full(s, LS_F32, LS_SCALAR, 0)), "f32[2,5,3]");
    assert_tensor(f, ls_bitcast(s, x, LS_I32), "i32[2,5,3]");
    assert_tensor(f, ls_cast(s, x, LS_BOOL), "bool[2,5,3]");
    assert_tensor(f, ls_isnan(s, x), "bool[2,5,3]");
    fixture_close(f);
}

static void devices_merge(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2), *c = ls_full(s, LS_F32, LS_SCALAR, 1);
    assert_ptr_equal(ls_tensor_device(x), &f->cpu);
    assert_null(ls_tensor_device(c));
    assert_ptr_equal(ls_tensor_device(ls_add(s, c, x)), &f->cpu);
    ls_attr to;
    memset(&to, 0, sizeof to);
    to.device = &f->other;
    ls_tensor *y = ls_node(s, LS_OP_COPY, LS_F32, &x->shape, 1, &x, &to);
    assert_ptr_equal(ls_tensor_device(y), &f->other);
    assert_ptr_equal(ls_tensor_device(ls_neg(s, y)), &f->other);
    assert_ptr_equal(ls_node(s, LS_OP_COPY, LS_F32, &x->shape, 1, &x, &to), y);
    assert_failed(f, ls_add(s, x, y), LS_ERR_DEVICE, "add", "f32[2] on cpu", "f32[2] on other:1",
                  "ls_to_device", NULL);
    fixture_close(f);
}

static void absent_is_known(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2), *p = ls_pad_absent(s, x, (ls_pad_spec[]){{1, 0, 0}});
    assert_true(p->absent);
    assert_true(ls_concat(s, (ls_tensor *[]){x, ls_flip(s, p, 0)}, 2, 0)->absent);
    assert_false(ls_neg(s, p)->absent);
    assert_false(ls_pad(s, x, (ls_pad_spec[]){{1, 0, 0}}, 0)->absent);
    assert_ptr_not_equal(p, ls_pad(s, x, (ls_pad_spec[]){{1, 0, 0}}, 0));
    fixture_close(f);
}

/* ---- values ---- */

static void values_round_once(void **state) {
    (void)state;
    static const struct {
        ls_dtype dtype;
        double value;
        uint64_t bits;
    } cases[] = {
        {LS_F32, 0.1, 0x3dcccccd},
        {LS_F32, 1e-45, 1},
        {LS_F32, 7.006492321624085e-46, 0},
        {LS_F32, 3.4028235677973366e38, 0x7f800000},
        {LS_F32, 3.4028235677973362e38, 0x7f7fffff},
        {LS_F32, -0.0, 0x80000000},
        {LS_F32, NAN, 0x7fc00000},
        {LS_F32, 1.1754943157898258e-38, 0x00800000},
        {LS_F64, NAN, 0x7ff8000000000000},
        {LS_F16, 65519.99, 0x7bff},
        {LS_F16, 65520, 0x7c00},
        {LS_BF16, 1.00390625, 0x3f80},
        {LS_U8, 300, 255},
        {LS_U8, -3, 0},
        {LS_I8, -200, 0x80},
        {LS_I8, -1.9, 0xff},
        {LS_I32, NAN, 0},
        {LS_U64, 1e30, UINT64_MAX},
        {LS_I64, 1e30, INT64_MAX},
        {LS_I64, -1e30, (uint64_t)INT64_MIN},
        {LS_BOOL, 0.5, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ls_value_from_f64(cases[i].dtype, cases[i].value), cases[i].bits);
    }
    assert_int_equal(ls_value_from_i64(LS_F32, 16777217), 0x4b800000); /* to even */
    assert_int_equal(ls_value_from_i64(LS_F32, (1LL << 54) + (1LL << 30) + 1),
                     0x5a800001); /* f64 in between would tie */
    assert_int_equal(ls_value_from_i64(LS_F16, 65520), 0x7c00);
    assert_int_equal(ls_value_from_i64(LS_U16, -1), 0);
    assert_int_equal(ls_value_from_i64(LS_I16, INT64_MIN), 0x8000);
    assert_true(ls_value_to_f64(LS_I8, 0x80) == -128);
    assert_true(ls_value_to_f64(LS_U64, UINT64_MAX) == 0x1p64);
    assert_true(ls_value_to_f64(LS_I64, 9007199254740993) == 9007199254740992);
    assert_true(ls_value_to_f64(LS_F16, 1) == 0x1p-24);
    assert_int_equal(ls_dtype_accumulator(LS_U8, false), LS_U32);
    assert_int_equal(ls_dtype_accumulator(LS_U8, true), LS_I32);
    assert_int_equal(ls_dtype_accumulator(LS_BF16, true), LS_F32);
    assert_int_equal(ls_dtype_accumulator(LS_U32, true), LS_U32);
}

/* ---- printing ---- */

static void prints_every_attribute(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 4);
    ls_tensor *p = ls_pad_absent(s, x, (ls_pad_spec[]){{0, 0, 0}, {1, 2, 1}});
    ls_tensor *w = ls_window(s, p, 1, (int[]){1}, (ls_window_spec[]){{3, 2, 1}});
    ls_contract_spec spec = {.n_contract = 1, .contract_a = {2}, .contract_b = {0}};
    ls_tensor *y = ls_contract(s, w, ls_full(s, LS_F32, LS_SHAPE(3, 5), 0.5), &spec, LS_F32);
    ls_text text;
    ls_text_init(&text, &f->heap);
    ls_graph_print(&text, &y, 1);
    assert_string_equal(text.data, "%0 = input f32[2,4] \"x\"\n"
                                   "%1 = pad f32[2,10] %0 low=0,1 high=0,2 interior=0,1 absent\n"
                                   "%2 = window f32[2,4,3] %1 axes=1 size=3 stride=2 dilation=1\n"
                                   "%3 = const f32[3,5] 0.5\n"
                                   "%4 = contract f32[2,4,5] %2 %3 contract=2 with=0\n"
                                   "-> %4\n");
    ls_text_free(&text);
    fixture_close(f);
}

/* Every builder that ops.h declares stands in docs/ops.md, as a primitive or with its formula. */
static void docs_know_every_builder(void **state) {
    (void)state;
    static char header[65536], page[65536];
    FILE *h = fopen("include/lockstep/ops.h", "rb"), *p = fopen("docs/ops.md", "rb");
    assert_non_null(h);
    assert_non_null(p);
    header[fread(header, 1, sizeof header - 1, h)] = 0;
    page[fread(page, 1, sizeof page - 1, p)] = 0;
    fclose(h);
    fclose(p);
    int found = 0;
    for (const char *at = header; (at = strstr(at, "LS_T ls_")); at++) {
        char name[64], primitive[80], composite[80];
        assert_int_equal(sscanf(at, "LS_T ls_%60[a-z0-9_]", name), 1);
        snprintf(primitive, sizeof primitive, "| `%s` |", name);
        snprintf(composite, sizeof composite, "ls_%s(", name);
        if (!strstr(page, primitive) && !strstr(page, composite)) {
            fail_msg("docs/ops.md lacks ls_%s", name);
        }
        found++;
    }
    assert_true(found > 100);
}

/* ---- every allocation fails once ---- */

static void build_much(fixture *f) {
    ls_session *s = session_of(f);
    if (ls_scope_begin(s) != LS_OK) {
        return;
    }
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(4, 6)), *w = ls_input(s, "w", LS_F32, LS_SHAPE(3, 6));
    ls_tensor *y = ls_linear(s, x, w, NULL);
    for (int i = 0; i < 40; i++) {
        y = ls_add(s, ls_exp(s, y), ls_full(s, LS_F32, LS_SCALAR, i));
    }
    y = ls_stack(s, (ls_tensor *[]){y, ls_neg(s, y)}, 2, 0);
    ls_keep(s, y);
    if (y) {
        ls_text text;
        ls_arena arena;
        int count;
        ls_text_init(&text, &f->heap);
        ls_arena_init(&arena, &f->heap);
        ls_graph_print(&text, &y, 1);
        ls_tensor **order = ls_graph_order(&arena, &y, 1, &count);
        ls_status status = ls_rewrite(s, &y, 1);
        if (text.failed || !order || status != LS_OK) {
            LS_NODE_FAIL(s, LS_ERR_MEMORY, "as told");
        }
        ls_text_free(&text);
        ls_arena_free(&arena);
    }
    ls_scope_end(s);
}

static void allocations_fail(void **state) {
    (void)state;
    fail_each_allocation(build_much);
}

static void session_end_frees_what_is_retained(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(3);
    ls_retain(ls_exp(s, x));
    ls_retain(x);
    fixture_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_builds_are_one),
        cmocka_unit_test(identities_return_the_operand),
        cmocka_unit_test(scopes_release_what_is_not_kept),
        cmocka_unit_test(kept_twice_survives_two_scopes),
        cmocka_unit_test(deep_graphs_do_not_recurse),
        cmocka_unit_test(order_is_depth_first_left_to_right),
        cmocka_unit_test(shapes_with_symbols),
        cmocka_unit_test(shapes_of_movement),
        cmocka_unit_test(shapes_of_products),
        cmocka_unit_test(shapes_of_indexed),
        cmocka_unit_test(devices_merge),
        cmocka_unit_test(absent_is_known),
        cmocka_unit_test(values_round_once),
        cmocka_unit_test(prints_every_attribute),
        cmocka_unit_test(docs_know_every_builder),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(session_end_frees_what_is_retained),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
