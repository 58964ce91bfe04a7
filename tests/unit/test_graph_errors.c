/* Every error of the builders of primitives: each names the operation, its operands and what was expected. */
#include "graph_session.h"

#define OPEN                                                                                                 \
    fixture fix, *f = &fix;                                                                                  \
    fixture_open(f);                                                                                         \
    ls_session *s = session_of(f)
#define IN(...) input(f, LS_F32, LS_SHAPE(__VA_ARGS__))
#define FAILS(code, call, ...) assert_failed(f, (call), code, __VA_ARGS__, NULL)
#define SHAPE_ERR LS_ERR_SHAPE
#define DTYPE_ERR LS_ERR_DTYPE
#define INVALID LS_ERR_INVALID

static ls_symbol batch = {.name = (char *)"B", .bound = 64, .index = 0}, length = {.name = (char *)"L", .bound = 100, .index = 1};

static void operands(void **state) {
    (void)state;
    OPEN;
    fixture second;
    fixture_open(&second);
    ls_tensor *x = IN(2, 3), *foreign = input(&second, LS_F32, LS_SHAPE(2, 3));
    FAILS(INVALID, ls_add(s, x, NULL), "add: operand 1 is NULL");
    FAILS(INVALID, ls_sum(s, NULL, 0, NULL, 0), "sum: operand 0 is NULL");
    FAILS(INVALID, ls_mul(s, x, foreign), "mul", "operand 1", "f32[2,3]", "another session or context");
    assert_null(ls_add(NULL, x, x));
    /* The first error stays; what follows from it says nothing new. */
    ls_tensor *bad = ls_exp(s, ls_log(s, ls_matmul(s, x, x)));
    FAILS(SHAPE_ERR, bad, "matmul: operands are f32[2,3] and f32[2,3]");
    fixture_close(&second);
    fixture_close(f);
}

static void maps(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3), *i = input(f, LS_I32, LS_SHAPE(2, 3)), *b = input(f, LS_BOOL, LS_SHAPE(2, 3));
    FAILS(DTYPE_ERR, ls_add(s, x, input(f, LS_F64, LS_SHAPE(3))),
          "add: operands are f32[2,3] and f64[3]: dtypes must agree (cast one)");
    FAILS(SHAPE_ERR, ls_sub(s, x, IN(4)), "sub: operands are f32[2,3] and f32[4]", "broadcast");
    FAILS(SHAPE_ERR, ls_gt(s, x, IN(4)), "gt: ", "f32[2,3]", "f32[4]");
    FAILS(DTYPE_ERR, ls_exp(s, i), "exp: operand 0 is i32[2,3]: expected a floating dtype");
    FAILS(DTYPE_ERR, ls_neg(s, b), "neg: operand 0 is bool[2,3]: expected a numeric dtype");
    FAILS(DTYPE_ERR, ls_not(s, x), "not: operand 0 is f32[2,3]: expected an integer dtype or bool");
    FAILS(DTYPE_ERR, ls_shl(s, b, b), "shl: operand 0 is bool[2,3]: expected an integer dtype");
    FAILS(DTYPE_ERR, ls_where(s, x, x, x), "where: the condition is f32[2,3]: expected bool");
    FAILS(DTYPE_ERR, ls_where(s, b, x, i), "where: operands are f32[2,3] and i32[2,3]: dtypes must agree");
    FAILS(SHAPE_ERR, ls_where(s, b, x, IN(5)), "where: operands are bool[2,3] and f32[5]");
    FAILS(DTYPE_ERR, ls_cast(s, x, LS_DTYPE_COUNT), "cast: 13 is not a dtype (operand f32[2,3])");
    FAILS(DTYPE_ERR, ls_bitcast(s, x, LS_F64), "bitcast: f32[2,3] to f64: expected a dtype of the same size");
    FAILS(DTYPE_ERR, ls_bitcast(s, input(f, LS_U8, LS_SHAPE(1)), LS_BOOL), "bitcast: u8[1] to bool");
    fixture_close(f);
}

static void leaves(void **state) {
    (void)state;
    OPEN;
    ls_shape nine = {.rank = 9}, negative = LS_SHAPE(2, -1), huge = LS_SHAPE(1LL << 40, 1LL << 40);
    FAILS(SHAPE_ERR, ls_full(s, LS_F32, nine, 0), "full", "rank 9", "rank 0 to 8");
    FAILS(SHAPE_ERR, ls_full(s, LS_F32, ls_shape_make(9, (int64_t[9]){0}), 0), "full", "rank 0 to 8");
    FAILS(SHAPE_ERR, ls_full(s, LS_F32, LS_SHAPE(-2), 0), "full", "extents of 0 or more");
    FAILS(SHAPE_ERR, ls_input(s, "x", LS_F32, negative), "input: shape [2,-1]: the extent of axis 1");
    FAILS(SHAPE_ERR, ls_full_i64(s, LS_F32, huge, 0), "full", sizeof(size_t) > 4 ? "2^56 elements" : "2^28 elements");
    FAILS(SHAPE_ERR, ls_full_i64(s, LS_F32, LS_SHAPE(0, 1LL << 40, 1LL << 40), 0), "full"); /* of none, but products of some overflow */
    assert_non_null(ls_full_i64(s, LS_F32, LS_SHAPE(0, 1LL << 20), 0));
    FAILS(DTYPE_ERR, ls_full(s, (ls_dtype)99, LS_SCALAR, 0), "full: 99 is not a dtype");
    FAILS(INVALID, ls_input(s, NULL, LS_F32, LS_SCALAR), "input: the name is NULL");
    FAILS(SHAPE_ERR, ls_dim_value(s, ls_dim_of(-3)), "dim: shape [-3]");
    FAILS(SHAPE_ERR, ls_input(s, "x", LS_F32, (ls_shape){.rank = 1, .dim = {ls_dim_symbol(&batch, -1, 70)}}),
          "[-1*B+70]");
    FAILS(INVALID, ls_iota(s, LS_I64, LS_SCALAR, 0), "iota: axis 0 of []");
    FAILS(DTYPE_ERR, ls_iota(s, LS_BOOL, LS_SHAPE(3), 0), "iota: bool[3]: expected a numeric dtype");
    FAILS(SHAPE_ERR, ls_random_bits(s, IN(2), LS_SHAPE(3)),
          "random_bits: the key is f32[2]: expected u32[2]");
    fixture_close(f);
}

static void movement(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3), *eight = IN(1, 1, 1, 1, 1, 1, 1, 1);
    ls_tensor *sym = input(f, LS_F32, (ls_shape){.rank = 1, .dim = {ls_dim_symbol(&batch, 1, 0)}});
    FAILS(SHAPE_ERR, ls_reshape(s, x, LS_SHAPE(4)), "reshape: f32[2,3] to [4]: expected as many elements");
    FAILS(SHAPE_ERR, ls_reshape(s, x, LS_SHAPE(-1, 11, 1676976733973595602)), "reshape: ", "-1"); /* 6 modulo 2^64 */
    FAILS(SHAPE_ERR, ls_reshape(s, x, LS_SHAPE(-1, 4)), "reshape: f32[2,3] to [-1,4]", "-1");
    FAILS(SHAPE_ERR, ls_reshape(s, x, LS_SHAPE(-1, -1)),
          "reshape: f32[2,3] to [-1,-1]: expected at most one -1");
    FAILS(SHAPE_ERR, ls_reshape(s, IN(0), LS_SHAPE(-1, 0)), "reshape: f32[0] to [-1,0]");
    FAILS(SHAPE_ERR, ls_reshape(s, sym, LS_SHAPE(64)), "reshape: f32[B] to [64]: expected as many elements");
    FAILS(INVALID, ls_permute(s, x, (int[]){0, 0}), "permute: axis 0 of f32[2,3] is given twice");
    FAILS(INVALID, ls_permute(s, x, (int[]){0, 2}), "permute: axis 2 of f32[2,3]: expected -2 to 1");
    FAILS(INVALID, ls_transpose(s, x, 0, -3), "transpose: axis -3 of f32[2,3]");
    FAILS(SHAPE_ERR, ls_expand(s, x, LS_SHAPE(2, 4)), "expand: f32[2,3] does not broadcast to [2,4]");
    FAILS(SHAPE_ERR, ls_expand(s, x, LS_SHAPE(3)), "expand: f32[2,3] does not broadcast to [3]");
    FAILS(INVALID, ls_pad(s, x, (ls_pad_spec[]){{0, 0, -1}, {0, 0, 0}}, 0),
          "pad: interior -1 of axis 0 of f32[2,3]: expected 0 or more");
    FAILS(SHAPE_ERR, ls_pad(s, x, (ls_pad_spec[]){{0, 0, 0}, {-2, -2, 0}}, 0),
          "pad: low -2 and high -2 of axis 1 of f32[2,3]");
    FAILS(SHAPE_ERR, ls_pad_absent(s, x, (ls_pad_spec[]){{INT64_MAX, 1, 0}, {0, 0, 0}}), "pad_absent: low");
    FAILS(LS_ERR_UNSUPPORTED, ls_pad(s, sym, (ls_pad_spec[]){{0, 0, 1}}, 0),
          "pad: interior 1 of axis 0 of f32[B]", "fixed extent");
    FAILS(INVALID, ls_slice(s, x, NULL), "slice: the spec is NULL");
    FAILS(INVALID, ls_permute(s, x, NULL), "permute: the list of axes is NULL");
    FAILS(INVALID, ls_sum(s, x, 1, NULL, 0), "sum: the list of axes is NULL");
    FAILS(INVALID, ls_tile(s, x, NULL), "tile: the list of repeats is NULL");
    FAILS(INVALID, ls_einsum(s, NULL, &x, 1), "einsum: the equation is NULL");
    FAILS(INVALID, ls_einsum(s, "ij", NULL, 1), "einsum: operand 0 is NULL");
    FAILS(INVALID, ls_dft(s, x, NULL), "dft: the spec is NULL");
    FAILS(INVALID, ls_pad(s, x, NULL, 0), "pad: the spec is NULL");
    FAILS(INVALID, ls_pad_with(s, x, NULL, LS_PAD_EDGE), "pad_with: the spec is NULL");
    FAILS(INVALID, ls_resize(s, x, NULL), "resize: the spec is NULL");
    FAILS(INVALID, ls_roi_align(s, x, x, x, NULL), "roi_align: the spec is NULL");
    FAILS(INVALID, ls_slice(s, x, (ls_slice_spec[]){{0, 2, 0}, {0, 3, 1}}),
          "slice: 0:2:0 of axis 0 of f32[2,3]: expected a step");
    FAILS(INVALID, ls_slice(s, x, (ls_slice_spec[]){{0, 3, 1}, {0, 3, 1}}), "slice: 0:3:1 of axis 0");
    FAILS(INVALID, ls_slice(s, x, (ls_slice_spec[]){{0, 2, 1}, {3, -1, -1}}), "slice: 3:-1:-1 of axis 1");
    FAILS(SHAPE_ERR, ls_slice(s, sym, (ls_slice_spec[]){{0, 10, 1}}), "slice: 0:10:1 of axis 0 of f32[B]",
          "symbol");
    FAILS(INVALID, ls_narrow(s, x, 1, 2, 2), "narrow: start 2 and length 2 of axis 1 of f32[2,3]");
    assert_tensor(f, ls_flip(s, sym, 0), "f32[B]");
    FAILS(LS_ERR_UNSUPPORTED, ls_flip(s, ls_pad_absent(s, sym, (ls_pad_spec[]){{1, 0, 0}}), 0),
          "flip: axis 0 of f32[B+1] with absent elements: expected an axis of fixed extent");
    FAILS(INVALID, ls_concat(s, NULL, 0, 0), "concat: 0 operands");
    FAILS(SHAPE_ERR, ls_concat(s, (ls_tensor *[]){x, IN(2, 4)}, 2, 0),
          "concat: operands 0 and 1 are f32[2,3] and f32[2,4]", "axis 0");
    FAILS(DTYPE_ERR, ls_concat(s, (ls_tensor *[]){x, input(f, LS_F64, LS_SHAPE(2, 3))}, 2, 0),
          "f32[2,3] and f64[2,3]", "one dtype");
    FAILS(INVALID, ls_stack(s, (ls_tensor *[]){x}, 0, 0), "stack: 0 operands");
    FAILS(SHAPE_ERR, ls_stack(s, (ls_tensor *[]){x, IN(2)}, 2, 0),
          "stack: operands 0 and 1 are f32[2,3] and f32[2]: expected one dtype and one shape");
    FAILS(INVALID, ls_stack(s, &eight, 1, 0), "stack: a new axis 0", "rank 8");
    FAILS(SHAPE_ERR, ls_squeeze(s, x, 1), "squeeze: axis 1 of f32[2,3]: expected an extent of 1");
    FAILS(INVALID, ls_unsqueeze(s, x, 3), "unsqueeze: a new axis 3 of f32[2,3]: expected -3 to 2");
    fixture_close(f);
}

static void windows(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 5);
    ls_tensor *sym = input(f, LS_F32, (ls_shape){.rank = 1, .dim = {ls_dim_symbol(&batch, 1, 0)}});
#define WINDOW(x, axis, ...) ls_window(s, x, 1, (int[]){axis}, (ls_window_spec[]){{__VA_ARGS__}})
    FAILS(INVALID, WINDOW(x, 1, 3, 0, 1), "window: stride 0 of axis 1 of f32[2,5]: expected 1 or more");
    FAILS(INVALID, WINDOW(x, 1, 3, 1, -2), "window: dilation -2 of axis 1");
    FAILS(INVALID, WINDOW(x, 1, 0, 1, 1), "window: size 0 of axis 1");
    FAILS(SHAPE_ERR, WINDOW(x, 1, 6, 1, 1),
          "window: size 6 with dilation 1 of axis 1 of f32[2,5]: larger than the axis");
    FAILS(SHAPE_ERR, WINDOW(x, 1, 3, 1, 3), "window: size 3 with dilation 3");
    FAILS(SHAPE_ERR, WINDOW(x, 1, INT64_MAX, 1, INT64_MAX), "window: size 9223372036854775807");
    FAILS(LS_ERR_UNSUPPORTED, WINDOW(sym, 0, 2, 2, 1), "window: stride 2 of axis 0 of f32[B]");
    FAILS(INVALID, ls_window(s, x, 2, (int[]){0, 0}, (ls_window_spec[]){{1, 1, 1}, {1, 1, 1}}),
          "window: axis 0 of f32[2,5] is given twice");
    FAILS(SHAPE_ERR, WINDOW(IN(1, 1, 1, 1, 1, 1, 1, 1), 0, 1, 1, 1), "window: 1 axes", "rank 8");
    fixture_close(f);
}

static void reductions_and_products(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3), *b = input(f, LS_BOOL, LS_SHAPE(2));
    FAILS(INVALID, ls_sum(s, x, 1, (int[]){2}, 0), "sum: axis 2 of f32[2,3]: expected -2 to 1");
    FAILS(INVALID, ls_amax(s, x, 2, (int[]){1, -1}, 0), "amax: axis -1 of f32[2,3] is given twice");
    FAILS(INVALID, ls_sum(s, x, 3, (int[]){0, 1, 2}, 0), "sum: 3 axes of f32[2,3]");
    FAILS(DTYPE_ERR, ls_prod(s, b, 0, NULL, 0), "prod: operand is bool[2]: expected a numeric dtype");
    FAILS(SHAPE_ERR, ls_argmax(s, IN(2, 0), 1, (int[]){1}, 0), "argmax: axis 1 of f32[2,0] is empty");
    assert_non_null(ls_argmax(s, IN(0, 2), 1, (int[]){1}, 0));
    FAILS(INVALID, ls_scan(s, x, LS_SCAN_SUM, 5, 0, 0), "scan: axis 5 of f32[2,3]");
    FAILS(INVALID, ls_scan(s, x, (ls_scan_kind)9, 0, 0, 0), "scan: kind 9");
    FAILS(DTYPE_ERR, ls_scan(s, b, LS_SCAN_SUM, 0, 0, 0), "scan: operand is bool[2]");
    FAILS(SHAPE_ERR, ls_matmul(s, x, IN(4, 2)), "matmul: operands are f32[2,3] and f32[4,2]");
    FAILS(SHAPE_ERR, ls_matmul(s, IN(5, 2, 3), IN(4, 3, 2)),
          "matmul: operands are f32[5,2,3] and f32[4,3,2]: batch axes");
    FAILS(SHAPE_ERR, ls_matmul(s, x, input(f, LS_F32, LS_SCALAR)), "matmul: operands are f32[2,3] and f32[]");
    FAILS(DTYPE_ERR, ls_matmul(s, x, input(f, LS_F16, LS_SHAPE(3, 2))),
          "matmul: operands are f32[2,3] and f16[3,2]: dtypes must agree");
    FAILS(SHAPE_ERR, ls_linear(s, x, IN(4, 4), NULL),
          "linear: operands are f32[2,3], f32[4,4] and NULL: expected x[..., in]");
    FAILS(SHAPE_ERR, ls_linear(s, x, IN(4, 3), IN(3)), "f32[4,3] and f32[3]");
    ls_contract_spec c = {.n_contract = 1, .contract_a = {0}, .contract_b = {0}};
    FAILS(SHAPE_ERR, ls_contract(s, x, IN(3), &c, LS_F32),
          "contract: contracted axes 0 of f32[2,3] and 0 of f32[3]: expected equal extents");
    FAILS(DTYPE_ERR, ls_contract(s, x, IN(2), &c, LS_F64), "contract: f32[2,3] and f32[2] into f64");
    FAILS(DTYPE_ERR, ls_contract(s, b, b, &c, LS_BOOL), "contract: bool[2] and bool[2] into bool");
    FAILS(INVALID, ls_contract(s, x, x, &(ls_contract_spec){.n_batch = 1, .n_contract = 1}, LS_F32),
          "contract: ", "paired twice");
    FAILS(INVALID, ls_contract(s, x, x, &(ls_contract_spec){.n_contract = 9}, LS_F32),
          "contract: 0 batch and 9 contracted axes");
    FAILS(INVALID, ls_contract(s, x, x, NULL, LS_F32),
          "contract: the spec is NULL");
    ls_contract_spec none = {0};
    FAILS(SHAPE_ERR, ls_contract(s, IN(1, 1, 1, 1, 1), IN(1, 1, 1, 1), &none, LS_F32), "give rank 9");
    fixture_close(f);
}

static void indexed(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3), *i = input(f, LS_I64, LS_SHAPE(4));
    FAILS(DTYPE_ERR, ls_gather(s, x, IN(4), 0), "gather: the index is f32[4]: expected i32 or i64");
    FAILS(INVALID, ls_gather(s, x, i, 2), "gather: axis 2 of f32[2,3]");
    FAILS(SHAPE_ERR, ls_gather(s, x, input(f, LS_I64, LS_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0), "gather",
          "gives rank 9");
    FAILS(SHAPE_ERR, ls_scatter(s, x, i, IN(4, 4), 0, LS_SCATTER_SET),
          "scatter: base f32[2,3], index i64[4] and axis 0 with updates f32[4,4]: expected updates of shape "
          "[4,3]");
    FAILS(DTYPE_ERR, ls_scatter(s, x, i, input(f, LS_F64, LS_SHAPE(4, 3)), 0, LS_SCATTER_SET),
          "scatter: operands are f32[2,3] and f64[4,3]");
    FAILS(INVALID, ls_scatter(s, x, i, IN(4, 3), 0, (ls_scatter_kind)7), "scatter: kind 7");
    ls_tensor *b = input(f, LS_BOOL, LS_SHAPE(4));
    FAILS(DTYPE_ERR, ls_scatter(s, b, i, b, 0, LS_SCATTER_ADD), "scatter: base is bool[4]");
    FAILS(INVALID, ls_argsort(s, x, 2, 0), "argsort: axis 2 of f32[2,3]");
    fixture_close(f);
}

/* ---- loops ---- */

static ls_status bad_shape(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                           ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration, (void)xs, (void)out_ys;
    out_carry[0] = ls_sum(s, carry[0], 0, NULL, 0);
    return LS_OK;
}

static ls_status no_result(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                           ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration, (void)xs, (void)out_ys, (void)s, (void)carry, (void)out_carry;
    return LS_OK;
}

static ls_status refuses(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                         ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration, (void)xs, (void)out_ys, (void)carry, (void)out_carry;
    (void)ls_scope_begin(s); /* left open */
    return LS_ERR_CANCELLED;
}

static void loops(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3), *out = x, *y = x;
    ls_dim two = ls_dim_of(2);
#define LOOP(trip, n, xs_count, ys, fn)                                                                      \
    (ls_loop(s, trip, n, &x, xs_count, &x, ys, fn, NULL, &out, &y) == LS_OK ? x : NULL)
    FAILS(SHAPE_ERR, LOOP(ls_dim_of(3), 1, 1, 0, bad_shape),
          "loop: xs 0 is f32[2,3]: expected axis 0 to be the trip count [3]");
    FAILS(SHAPE_ERR, LOOP(two, 1, 1, 0, bad_shape),
          "loop: carried value 0 enters as f32[2,3] and leaves as f32[]");
    assert_null(out);
    FAILS(INVALID, LOOP(two, 1, 0, 0, no_result), "loop: result 0 of its body is NULL");
    FAILS(LS_ERR_CANCELLED, LOOP(two, 1, 0, 0, refuses), "loop: its body failed (cancelled)");
    assert_int_equal(s->graph.scopes.len, 0);
    FAILS(INVALID, LOOP(two, 0, 1, 0, no_result),
          "loop: 0 carried values, 1 xs and 0 ys: expected at least one result");
    FAILS(SHAPE_ERR, LOOP(ls_dim_of(-1), 1, 0, 0, no_result), "loop: shape [-1]");
    FAILS(INVALID, LOOP(two, 1, 0, 0, NULL), "loop: the body is NULL");
    fixture_close(f);
}

static void symbols(void **state) {
    (void)state;
    OPEN;
    ls_shape bl = {.rank = 2, .dim = {ls_dim_symbol(&batch, 1, 0), ls_dim_symbol(&length, 1, 0)}};
    ls_tensor *x = input(f, LS_F32, bl);
    FAILS(SHAPE_ERR, ls_reshape(s, x, LS_SHAPE(-1)), "reshape: f32[B,L] to [-1]");
    FAILS(SHAPE_ERR, ls_concat(s, (ls_tensor *[]){x, ls_transpose(s, x, 0, 1)}, 2, 0),
          "concat: operands 0 and 1 are f32[B,L] and f32[L,B]");
    FAILS(SHAPE_ERR, ls_add(s, x, ls_transpose(s, x, 0, 1)), "add: operands are f32[B,L] and f32[L,B]");
    fixture_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands), cmocka_unit_test(maps),    cmocka_unit_test(leaves),
        cmocka_unit_test(movement), cmocka_unit_test(windows), cmocka_unit_test(reductions_and_products),
        cmocka_unit_test(indexed),  cmocka_unit_test(loops),   cmocka_unit_test(symbols),
    };
    return cmocka_run_group_tests_name("graph errors", tests, NULL, NULL);
}
