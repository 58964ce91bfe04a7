/* Export to ONNX, an operation at a time: each graph is written to a file in memory, loaded back and run, and must give the bits of the
 * graph it was made from. Whole networks: tests/onnx/test_export.c. */
#include "unit/onnx_export_support.h"

static ls_model *export(bed *b, ls_tensor *y) {
    ls_named_tensor in[MOST_IN], out = {"y", y};
    ls_data *file = NULL;
    ls_model *model = NULL;
    ls_error err = {.code = LS_OK};
    for (int i = 0; i < b->n_in; i++) {
        in[i] = (ls_named_tensor){NULL, b->in[i]};
    }
    if (ls_onnx_encode(b->w.session, b->n_in, in, 1, &out, &file, &err) != LS_OK ||
        ls_model_load_data(b->w.context, "exported", file, &model, &err) != LS_OK) {
        print_error("%s\n", err.message);
        ls_data_release(file);
        return NULL;
    }
    const char *path = getenv("LOCKSTEP_KEEP_EXPORTS"); /* a folder, for other readers to check */
    if (path) {
        static int count;
        char name[512];
        snprintf(name, sizeof name, "%s/%03d.onnx", path, ++count);
        FILE *f = fopen(name, "wb");
        fwrite(ls_data_bytes(file), 1, ls_data_size(file), f);
        fclose(f);
    }
    ls_data_release(file);
    return model;
}

/* "Conv" or "Transpose MatMul": every operator of the model, by name. */
static void operators(const ls_model *model, char *text, size_t room) {
    ls_model_operator list[64];
    int n = ls_model_operators(model, 64, list);
    text[0] = 0;
    assert_true(n <= 64);
    for (int i = 0; i < n; i++) {
        snprintf(text + strlen(text), room - strlen(text), "%s%s", i ? " " : "", list[i].name);
    }
}

typedef struct example {
    const char *name, *inputs, *operators; /* "": any */
    ls_tensor *(*build)(ls_session *s, ls_tensor *const *x);
} example;

/* Says what is wrong, so that one run shows all of it. */
static int wrong(const example *c, const char *what, const char *text) {
    print_error("%s: %s %s\n", c->name, what, text);
    return 1;
}

static int check(const example *c) {
    int failures = 0;
    bed b = bed_open(c->inputs);
    ls_tensor *y = c->build(b.w.session, b.in);
    if (!y) {
        fail_msg("%s: %s", c->name, ls_session_error(b.w.session)->message);
    }
    ls_model *model = export(&b, y);
    if (!model) {
        bed_close(&b);
        return wrong(c, "not written", "");
    }
    char text[1024];
    operators(model, text, sizeof text);
    if (*c->operators && strcmp(text, c->operators) != 0) {
        failures += wrong(c, "written as", text);
    }
    ls_data *want = run_graph(&b, y), *got = run_model(&b, model);
    bool same = ls_data_dtype(want) == ls_data_dtype(got) && ls_data_size(want) == ls_data_size(got) &&
                ls_data_rank(want) == ls_data_rank(got) &&
                !memcmp(ls_data_dims(want), ls_data_dims(got), sizeof(int64_t) * (size_t)ls_data_rank(want));
    char a[65] = "", d[65] = "";
    ls_data_sha256(want, a);
    ls_data_sha256(got, d);
    if (!same || strcmp(a, d) != 0) {
        failures += wrong(c, same ? "the file gives other bits:" : "the file gives another shape or dtype:", text);
    }
    ls_data_release(want);
    ls_data_release(got);
    ls_model_release(model);
    bed_close(&b);
    return failures;
}

static void check_all(const example *list, size_t n) {
    int failures = 0;
    for (size_t i = 0; i < n; i++) {
        failures += check(&list[i]);
    }
    assert_int_equal(failures, 0);
}

#define F(v) ls_full(s, ls_tensor_dtype(x[0]), LS_SCALAR, (v))

/* ---- element by element ---- */

#define ONE(fn) MAKE(map_##fn, ls_##fn(s, x[0]))
#define TWO(fn) MAKE(map_##fn, ls_##fn(s, x[0], x[1]))
ONE(neg) ONE(abs) ONE(sign) ONE(floor) ONE(ceil) ONE(trunc) ONE(rint) ONE(sqrt) ONE(rsqrt) ONE(recip) ONE(exp) ONE(log)
ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(erf) ONE(asinh) ONE(acosh)
ONE(atanh) ONE(not) ONE(isnan) ONE(isinf) ONE(relu) ONE(sigmoid) ONE(silu) ONE(gelu) ONE(gelu_tanh) ONE(softplus)
ONE(mish) ONE(stop_gradient)
TWO(add) TWO(sub) TWO(mul) TWO(div) TWO(rem) TWO(mod) TWO(pow) TWO(min) TWO(max) TWO(and) TWO(or) TWO(xor) TWO(shl) TWO(shr)
TWO(eq) TWO(ne) TWO(lt) TWO(le) TWO(gt) TWO(ge) TWO(matmul) TWO(embedding)
MAKE(map_where, ls_where(s, x[0], x[1], x[2]))
MAKE(map_elu, ls_elu(s, x[0], 0.7))
MAKE(map_leaky, ls_leaky_relu(s, x[0], 0.01))
MAKE(shr_negative, ls_shr(s, ls_sub(s, ls_mul(s, x[0], F(50)), F(60)), ls_mul(s, x[1], F(5))))
MAKE(shl_negative, ls_shl(s, ls_sub(s, ls_mul(s, x[0], F(1e9)), F(1e9)), ls_mul(s, x[1], F(16))))
MAKE(cast_i32, ls_cast(s, x[0], LS_I32))
MAKE(cast_f16, ls_cast(s, x[0], LS_F16))
MAKE(cast_bool, ls_cast(s, x[0], LS_BOOL))
MAKE(add_constant, ls_add(s, x[0], F(0.3)))
MAKE(constants, ls_add(s, ls_full(s, LS_F32, LS_SHAPE(2, 3), 0.3), ls_full(s, LS_F32, LS_SHAPE(2, 3), 2)))
MAKE(two_vectors, ls_mul(s, ls_expand(s, x[0], LS_SHAPE(4, 3)), ls_expand(s, x[0], LS_SHAPE(4, 3))))

static void test_maps(void **state) {
    (void)state;
    static const example all[] = {
        {"neg", "f32[B,5]", "Neg", map_neg},
        {"neg of u8", "u8[5]", "Sub", map_neg},
        {"abs", "f32[5,5]", "Abs", map_abs},
        {"sign", "f32[25]", "Sign", map_sign},
        {"floor", "f32[25]", "Floor", map_floor},
        {"ceil", "f64[25]", "Ceil", map_ceil},
        {"trunc", "f32[25]", "", map_trunc},
        {"trunc of bf16", "bf16[25]", "", map_trunc},
        {"rint", "f16[25]", "Round", map_rint},
        {"sqrt", "f32[25]", "Sqrt", map_sqrt},
        {"rsqrt", "f32[25]", "Reciprocal Sqrt", map_rsqrt},
        {"rsqrt of f16", "f16[25]", "Cast Reciprocal Sqrt", map_rsqrt},
        {"recip", "f32[25]", "Reciprocal", map_recip},
        {"exp", "f32[25]", "Exp", map_exp},
        {"exp of bf16", "bf16[25]", "Cast Exp", map_exp},
        {"log", "f64[25]", "Log", map_log},
        {"sin", "f32[25]", "Sin", map_sin},
        {"cos", "f32[25]", "Cos", map_cos},
        {"tan", "f32[25]", "Tan", map_tan},
        {"asin", "f32[25]", "Asin", map_asin},
        {"acos", "f32[25]", "Acos", map_acos},
        {"atan", "f32[25]", "Atan", map_atan},
        {"sinh", "f32[25]", "Sinh", map_sinh},
        {"cosh", "f32[25]", "Cosh", map_cosh},
        {"tanh", "f16[25]", "Tanh", map_tanh},
        {"erf", "f32[25]", "Erf", map_erf},
        {"asinh", "f32[25]", "Asinh", map_asinh},
        {"acosh", "f32[25]", "Acosh", map_acosh},
        {"atanh", "f16[25]", "Atanh", map_atanh},
        {"not", "bool[5]", "Not", map_not},
        {"not of u16", "u16[5]", "BitwiseNot", map_not},
        {"isnan", "f32[5]", "IsNaN", map_isnan},
        {"isinf", "bf16[5]", "", map_isinf},
        {"stop_gradient", "f32[5]", "Identity", map_stop_gradient},
        {"add", "f32[B,1,5] f32[4,1]", "Add", map_add},
        {"add a constant", "f32[B,5]", "Add", add_constant},
        {"constants", "f32[1]", "Add Expand", constants},
        {"two vectors", "f32[3]", "Expand Mul", two_vectors},
        {"sub", "i8[5] i8[5]", "Sub", map_sub},
        {"mul", "u64[5] u64[1]", "Mul", map_mul},
        {"div", "f32[5] f32[5]", "Div", map_div},
        {"div of i32", "i32[5] i32[5]", "Div", map_div},
        {"rem", "f32[5] f32[5]", "", map_rem},
        {"rem of i32", "i32[5] i32[5]", "", map_rem},
        {"mod", "f32[5] f32[5]", "", map_mod},
        {"pow", "f32[5] f32[5]", "Pow", map_pow},
        {"min", "bf16[5] bf16[5]", "", map_min},
        {"max", "i16[5] i16[5]", "Max", map_max},
        {"max of bool", "bool[5] bool[5]", "Or", map_max},
        {"and", "bool[5] bool[5]", "And", map_and},
        {"or", "u8[5] u8[5]", "BitwiseOr", map_or},
        {"xor", "i64[5] i64[5]", "BitwiseXor", map_xor},
        {"shl", "u32[5] u32[5]", "BitShift", map_shl},
        {"shr", "u8[5] u8[5]", "BitShift", map_shr},
        {"shr of i8", "i8[25] i8[25]", "", shr_negative},
        {"shl of i32", "i32[25] i32[25]", "", shl_negative},
        {"eq", "f32[B,5] f32[5]", "Equal", map_eq},
        {"ne", "bool[5] bool[5]", "", map_ne},
        {"lt", "i32[5] i32[5]", "Less", map_lt},
        {"lt of bool", "bool[5] bool[5]", "", map_lt},
        {"le", "bf16[5] bf16[5]", "", map_le},
        {"gt", "f32[5] f32[5]", "Less", map_gt},
        {"ge", "u8[5] u8[5]", "LessOrEqual", map_ge},
        {"where", "bool[B,1] f32[5] f32[B,5]", "Where", map_where},
        {"cast to i32", "f32[5]", "Cast", cast_i32},
        {"cast to f16", "f64[5]", "Cast", cast_f16},
        {"cast to bool", "i32[5]", "Cast", cast_bool},
        {"relu", "f32[B,5]", "Relu", map_relu},
        {"relu of i32", "i32[5]", "Relu", map_relu},
        {"sigmoid", "f32[B,5]", "Sigmoid", map_sigmoid},
        {"sigmoid of f16", "f16[5]", "Sigmoid", map_sigmoid},
        {"silu", "f32[5]", "Mul Sigmoid", map_silu},
        {"gelu", "f32[B,5]", "Gelu", map_gelu},
        {"gelu by tanh", "f64[5]", "Gelu", map_gelu_tanh},
        {"gelu of bf16", "bf16[5]", "Gelu", map_gelu},
        {"softplus", "f32[5]", "Softplus", map_softplus},
        {"mish", "f16[5]", "Mish", map_mish},
        {"elu", "f32[5]", "Elu", map_elu},
        {"leaky_relu", "f32[5]", "LeakyRelu", map_leaky},
        {"leaky_relu of f64, whose slope no attribute holds", "f64[5]", "Less Mul Where", map_leaky},
    };
    check_all(all, sizeof all / sizeof *all);
}

/* ---- movement ---- */

MAKE(reshape, ls_reshape(s, x[0], LS_SHAPE(3, 2, -1)))
MAKE(permute, ls_permute(s, x[0], (const int[]){2, 0, 1}))
MAKE(pad, ls_pad(s, x[0], (const ls_pad_spec[]){{1, 2, 0}, {-1, 0, 0}}, 0.5))
MAKE(spread, ls_pad(s, x[0], (const ls_pad_spec[]){{1, 0, 2}, {-1, 1, 1}}, 7))
MAKE(pad_absent, ls_pad_absent(s, x[0], (const ls_pad_spec[]){{1, 2, 0}, {0, 3, 0}}))
MAKE(slice, ls_slice(s, x[0], (const ls_slice_spec[]){{1, 4, 2}, {4, -1, -2}}))
MAKE(tail, ls_slice(s, x[0], (const ls_slice_spec[]){{1, 8, 1}, {0, 5, 1}}))
MAKE(flip, ls_flip(s, x[0], 1))
MAKE(flip_batch, ls_flip(s, x[0], 0))
MAKE(window, ls_window(s, x[0], 2, (const int[]){2, 0}, (const ls_window_spec[]){{2, 2, 1}, {3, 1, 2}}))
MAKE(concat, ls_concat(s, (ls_tensor *[]){x[0], x[1], x[0]}, 3, 1))
MAKE(stack, ls_stack(s, (ls_tensor *[]){x[0], x[0]}, 2, 0))
MAKE(tile, ls_tile(s, x[0], (const int64_t[]){2, 3}))
MAKE(roll, ls_pad_with(s, x[0], (const ls_pad_spec[]){{2, 1, 0}, {0, 3, 0}}, LS_PAD_REFLECT))
MAKE(depth, ls_depth_to_space(s, x[0], 2, 0))
MAKE(iota, ls_add(s, x[0], ls_iota(s, LS_F32, ls_tensor_shape(x[0]), 0)))
MAKE(dim, ls_mul(s, x[0], ls_cast(s, ls_dim_value(s, ls_tensor_shape(x[0]).dim[0]), LS_F32)))
MAKE(expand_batch, ls_add(s, ls_cast(s, ls_expand(s, x[1], ls_tensor_shape(x[0])), LS_F64), ls_cast(s, x[0], LS_F64)))
MAKE(halves, ls_reshape(s, x[0], (ls_shape){.rank = 3, .dim = {ls_tensor_shape(x[0]).dim[0], ls_dim_of(2), ls_dim_of(-1)}}))

static void test_movement(void **state) {
    (void)state;
    static const example all[] = {
        {"reshape", "f32[4,6]", "Reshape", reshape},
        {"reshape of a batch", "f32[B,4]", "Reshape", halves},
        {"permute", "u8[B,3,4]", "Transpose", permute},
        {"pad", "f32[3,4]", "Pad", pad},
        {"pad with interior", "i32[3,4]", "", spread},
        {"pad with absent elements", "f32[3,4]", "Pad", pad_absent},
        {"slice", "f32[5,6]", "Slice", slice},
        {"the tail of a batch", "f32[B,5]", "Slice", tail},
        {"flip", "i64[2,5]", "Slice", flip},
        {"flip of a batch", "f32[B,2]", "", flip_batch},
        {"window", "f32[5,2,7]", "Gather Transpose", window},
        {"concat", "f32[B,2] f32[B,5]", "Concat", concat},
        {"stack", "f32[B,2]", "", stack},
        {"tile", "f32[2,3]", "", tile},
        {"reflect", "f32[3,4]", "", roll},
        {"depth_to_space", "f32[2,8,2,3]", "", depth},
        {"iota over a batch", "f32[B,2]", "", iota},
        {"the value of an extent", "f32[B,2]", "", dim},
        {"expand to a batch", "f32[B,5] f32[1,5]", "", expand_batch},
    };
    check_all(all, sizeof all / sizeof *all);
}

/* ---- reductions, products, indices ---- */

MAKE(sum, ls_sum(s, x[0], AXES(1), 0))
MAKE(sum_all, ls_sum(s, x[0], 0, NULL, 0))
MAKE(sum_turned, ls_sum(s, x[0], AXES(2, 0), 0))
MAKE(sum_turned_kept, ls_sum(s, x[0], AXES(2, 0), 1))
MAKE(sum_kept, ls_sum(s, x[0], AXES(0, 2), 1))
MAKE(prod, ls_prod(s, x[0], AXES(-1), 0))
MAKE(amin, ls_amin(s, x[0], AXES(0), 1))
MAKE(amax, ls_amax(s, x[0], AXES(0, 1), 0))
MAKE(argmin, ls_argmin(s, x[0], AXES(1), 1))
MAKE(argmax, ls_argmax(s, x[0], AXES(0, 2), 0))
MAKE(mean, ls_mean(s, x[0], AXES(1, 2), 0))
MAKE(mean_kept, ls_mean(s, x[0], AXES(0), 1))
MAKE(variance, ls_variance(s, x[0], AXES(1), 0, 1))
MAKE(logsumexp, ls_logsumexp(s, x[0], AXES(1), 0))
MAKE(padded_sum, ls_sum(s, ls_pad_absent(s, x[0], (const ls_pad_spec[]){{1, 2, 0}, {0, 3, 0}}), AXES(1), 0))
MAKE(padded_prod, ls_prod(s, ls_pad_absent(s, x[0], (const ls_pad_spec[]){{1, 2, 0}, {0, 3, 0}}), AXES(1), 0))
MAKE(padded_max, ls_amax(s, ls_flip(s, ls_pad_absent(s, x[0], (const ls_pad_spec[]){{1, 2, 0}, {0, 3, 0}}), 1), AXES(1), 0))
static ls_tensor *padded_twice(ls_session *s, ls_tensor *const *x) { /* one PAD for two kinds of reader */
    ls_tensor *p = ls_pad_absent(s, x[0], (const ls_pad_spec[]){{0, 1, 0}, {2, 3, 0}});
    return ls_add(s, ls_amin(s, p, AXES(1), 0), ls_sum(s, p, AXES(1), 0));
}
MAKE(cumsum, ls_scan(s, x[0], LS_SCAN_SUM, 1, 1, 1))
MAKE(contract_many, ls_contract(s, x[0], x[1], &((ls_contract_spec){.n_batch = 1, .batch_a = {1}, .batch_b = {2}, .n_contract = 2,
                                .contract_a = {3, 0}, .contract_b = {0, 1}}), ls_tensor_dtype(x[0])))
MAKE(contract_wide, ls_contract(s, x[0], x[1], &((ls_contract_spec){.n_contract = 1, .contract_a = {1}, .contract_b = {0}}),
                                ls_tensor_dtype(x[0]) == LS_F16 ? LS_F32 : LS_I32))
MAKE(outer, ls_contract(s, x[0], x[1], &((ls_contract_spec){.n_contract = 0}), LS_F32))
MAKE(linear, ls_linear(s, x[0], x[1], x[2]))
MAKE(einsum, ls_einsum(s, "abc,cd->bad", x, 2))
MAKE(gather, ls_gather(s, x[0], x[1], 1))
MAKE(take_along, ls_take_along(s, x[0], x[1], 1))
MAKE(put_along, ls_put_along(s, x[0], x[1], x[2], 1, LS_SCATTER_ADD))
MAKE(scatter_add, ls_scatter(s, x[0], x[1], x[2], 1, LS_SCATTER_ADD))
MAKE(scatter_set, ls_scatter(s, x[0], x[1], x[2], 0, LS_SCATTER_SET))
MAKE(scatter_max, ls_scatter(s, x[0], x[1], x[2], 0, LS_SCATTER_MAX))
MAKE(argsort, ls_argsort(s, x[0], 1, 0))
MAKE(sort_down, ls_sort(s, x[0], 0, 1))
MAKE(one_hot, ls_one_hot(s, x[0], 5, LS_F32))
MAKE(cross_entropy, ls_cross_entropy(s, x[0], x[1]))

static void test_reductions(void **state) {
    (void)state;
    static const example all[] = {
        {"sum", "f32[B,5]", "ReduceSum", sum},
        {"sum of i8", "i8[3,5]", "", sum},
        {"sum of all", "f64[B,5]", "ReduceSum", sum_all},
        {"sum in another order", "f32[3,2,40]", "ReduceSum Reshape Transpose", sum_turned},
        {"the same, axes kept", "f32[3,2,40]", "", sum_turned_kept},
        {"sum, axes kept", "f32[B,2,5]", "ReduceSum", sum_kept},
        {"prod", "f32[3,5]", "ReduceProd", prod},
        {"amin", "u8[3,5]", "ReduceMin", amin},
        {"amax", "bool[3,5]", "", amax},
        {"argmin", "f32[3,5]", "", argmin},
        {"argmax over two axes", "f32[3,2,5]", "", argmax},
        {"mean", "f32[B,3,5]", "ReduceMean", mean},
        {"mean, axes kept", "f16[B,5]", "ReduceMean", mean_kept},
        {"variance", "f32[B,5]", "", variance},
        {"logsumexp", "f32[B,5]", "", logsumexp},
        {"sum beside absent elements", "f32[2,5]", "Pad ReduceSum", padded_sum},
        {"product beside absent elements", "f32[2,5]", "Pad ReduceProd", padded_prod},
        {"maximum beside absent elements", "i32[2,5]", "Pad ReduceMax Slice", padded_max},
        {"one pad for two reductions", "f32[2,5]", "Add Pad ReduceMin ReduceSum", padded_twice},
        {"running sum", "f32[B,5]", "CumSum", cumsum},
        {"matmul", "f32[B,5] f32[5,3]", "MatMul", map_matmul},
        {"matmul of batches", "f32[B,1,2,5] f32[4,5,3]", "", map_matmul},
        {"matmul by a matrix", "f32[B,2,5] f32[5,3]", "MatMul", map_matmul},
        {"matmul of a matrix by batches", "f32[2,5] f32[3,5,4]", "", map_matmul},
        {"matmul of vectors", "f32[5] f32[5]", "", map_matmul},
        {"matmul of a vector", "f64[5] f64[5,2]", "", map_matmul},
        {"matmul of i8", "i8[3,5] i8[5,2]", "", map_matmul},
        {"matmul of f16", "f16[3,5] f16[5,2]", "MatMul", map_matmul},
        {"contraction of many axes", "f32[2,3,4,5] f32[5,2,3,6]", "MatMul Reshape Transpose", contract_many},
        {"contraction of f16 into f32", "f16[3,5] f16[5,2]", "", contract_wide},
        {"contraction of i8 into i32", "i8[3,5] i8[5,2]", "", contract_wide},
        {"outer product", "f32[3,2] f32[4]", "", outer},
        {"linear", "f32[B,5] f32[4,5] f32[4]", "Gemm", linear},
        {"linear of sequences", "f32[B,2,5] f32[4,5] f32[4]", "Add MatMul Transpose", linear},
        {"einsum", "f32[2,3,5] f32[5,4]", "", einsum},
        {"gather", "f32[B,4,2] i64[3,2]", "Gather", gather},
        {"embedding", "f32[4,5] i32[B,2]", "Gather", map_embedding},
        {"take_along", "f32[2,5] i64[2,3]", "", take_along},
        {"put_along", "f32[2,5] i64[2,3] f32[2,3]", "", put_along},
        {"scatter_add", "f32[2,5,3] i64[4] f32[2,4,3]", "", scatter_add},
        {"scatter_set", "f32[5,3] i32[2,2] f32[2,2,3]", "", scatter_set},
        {"scatter_max", "f32[5,3] i64[4] f32[4,3]", "", scatter_max},
        {"argsort", "f32[3,5]", "", argsort},
        {"sort", "i32[5,2]", "", sort_down},
        {"one_hot", "i64[B]", "", one_hot},
        {"cross_entropy", "f32[4,3] i64[4]", "", cross_entropy},
    };
    check_all(all, sizeof all / sizeof *all);
}

/* ---- networks ---- */

#define CONV(...) (&((ls_conv_spec){__VA_ARGS__}))
MAKE(conv, ls_conv(s, x[0], x[1], x[2], CONV(.spatial = 2)))
MAKE(conv_plain, ls_conv(s, x[0], x[1], NULL, CONV(.spatial = 2, .stride = {2, 1}, .pad_low = {1, 0}, .pad_high = {2, 1})))
MAKE(conv_dilated, ls_conv(s, x[0], x[1], x[2], CONV(.spatial = 2, .dilation = {2, 1}, .pad_low = {1, 1}, .pad_high = {1, 1})))
MAKE(conv_groups, ls_conv(s, x[0], x[1], x[2], CONV(.spatial = 2, .groups = 2, .pad_low = {1, 1}, .pad_high = {1, 1})))
MAKE(conv_depthwise, ls_conv(s, x[0], x[1], x[2], CONV(.spatial = 2, .groups = 4)))
MAKE(conv_1d, ls_conv(s, x[0], x[1], x[2], CONV(.spatial = 1, .pad_low = {2})))
MAKE(conv_3d, ls_conv(s, x[0], x[1], x[2], CONV(.spatial = 3)))
MAKE(conv_of_pad, ls_conv(s, ls_pad_absent(s, x[0], (const ls_pad_spec[]){{0}, {0}, {1, 0, 0}, {0, 2, 0}}), x[1], NULL, CONV(.spatial = 2)))
MAKE(conv_residual, ls_add(s, ls_conv(s, x[0], x[1], x[2], CONV(.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1})), x[0]))
MAKE(conv_last, ls_conv(s, x[0], x[1], x[2],
                        CONV(.spatial = 2, .axes = {.set = 1, .input_channel = 3, .input_spatial = {1, 2}, .filter_in = 1,
                                                    .filter_spatial = {2, 3}, .output_channel = 3, .output_spatial = {1, 2}})))
MAKE(conv_transpose, ls_conv_transpose(s, x[0], x[1], x[2], CONV(.spatial = 2, .stride = {2, 3}, .pad_low = {1, 0}, .pad_high = {0, 1})))
MAKE(conv_transpose_more, ls_conv_transpose(s, x[0], x[1], x[2],
                                            CONV(.spatial = 2, .stride = {2, 2}, .groups = 2, .output_padding = {1, 1})))
MAKE(conv_i32, ls_conv_i32(s, x[0], x[1], CONV(.spatial = 2)))
#define POOL(...) x[0], (const int64_t[]){2, 3}, CONV(.spatial = 2, __VA_ARGS__)
MAKE(max_pool, ls_max_pool(s, POOL(.stride = {2, 2})))
MAKE(max_pool_padded, ls_max_pool(s, POOL(.pad_low = {1, 0}, .pad_high = {0, 2}, .dilation = {2, 1})))
MAKE(max_pool_far, ls_max_pool(s, POOL(.pad_low = {2, 3})))
MAKE(avg_pool, ls_avg_pool(s, POOL(.stride = {2, 2}, .pad_low = {1, 1}), 0))
MAKE(avg_pool_all, ls_avg_pool(s, POOL(.stride = {2, 2}, .pad_low = {1, 1}), 1))
MAKE(lp_pool, ls_lp_pool(s, POOL(.stride = {2, 2}), 2))
MAKE(softmax, ls_softmax(s, x[0], 1))
MAKE(log_softmax, ls_log_softmax(s, x[0], -1))
MAKE(masked_softmax, ls_masked_softmax(s, x[0], -1))
MAKE(layer_norm, ls_layer_norm(s, x[0], -1, x[1], x[2], 1e-5))
MAKE(layer_norm_2, ls_layer_norm(s, x[0], 1, x[1], NULL, 1e-3))
MAKE(layer_norm_plain, ls_layer_norm(s, x[0], -1, NULL, NULL, 1e-5))
MAKE(rms_norm, ls_rms_norm(s, x[0], -1, x[1], 1e-5))
MAKE(group_norm, ls_group_norm(s, x[0], 2, x[1], x[2], 1e-5))
MAKE(batch_norm, ls_batch_norm(s, x[0], x[1], ls_abs(s, x[2]), x[3], x[4], 1e-5))
MAKE(batch_norm_plain, ls_batch_norm(s, x[0], x[1], ls_abs(s, x[2]), NULL, NULL, 1e-5))
MAKE(lrn, ls_local_response_norm(s, x[0], 3, 1e-4, 0.75, 1))
MAKE(attention, ls_attention(s, x[0], x[1], x[2], &((ls_attention_spec){0})))
MAKE(attention_causal, ls_attention(s, x[0], x[1], x[2], &((ls_attention_spec){.causal = 1})))
MAKE(attention_masked, ls_attention(s, x[0], x[1], x[2], &((ls_attention_spec){.mask = x[3]})))
MAKE(rotary, ls_rotary_embedding(s, x[0], x[1], x[2], 1))
MAKE(lstm, ls_lstm(s, x[0], x[1], x[2], x[3], x[4], x[5], NULL, NULL))
static ls_tensor *lstm_last(ls_session *s, ls_tensor *const *x) {
    ls_tensor *h = NULL, *c = NULL;
    ls_lstm(s, x[0], x[1], x[2], x[3], x[4], NULL, &h, &c);
    return ls_add(s, h, c);
}
static ls_tensor *softer(ls_session *s, void *ctx, int which, ls_tensor *x) {
    (void)ctx;
    return which == 0 ? ls_sigmoid(s, x) : ls_softplus(s, x);
}
#define CELL(...) &((ls_recurrent_spec){__VA_ARGS__}), NULL, NULL
MAKE(lstm_onnx, ls_recurrent(s, x[0], x[1], x[2], x[3], x[4], x[5], x[6], CELL(.cell = LS_CELL_LSTM)))
MAKE(lstm_reverse, ls_recurrent(s, x[0], x[1], x[2], x[3], x[4], x[5], x[6], CELL(.cell = LS_CELL_LSTM, .reverse = 1)))
MAKE(lstm_other, ls_recurrent(s, x[0], x[1], x[2], x[3], x[4], x[5], x[6], CELL(.cell = LS_CELL_LSTM, .activation = softer)))
MAKE(gru, ls_gru(s, x[0], x[1], x[2], x[3], x[4], NULL, NULL))
MAKE(gru_onnx, ls_recurrent(s, x[0], x[1], NULL, x[2], x[3], x[4], x[5], CELL(.cell = LS_CELL_GRU)))
MAKE(gru_reverse, ls_recurrent(s, x[0], x[1], NULL, x[2], x[3], x[4], x[5],
                               CELL(.cell = LS_CELL_GRU, .reverse = 1, .linear_before_reset = 1)))
MAKE(rnn, ls_rnn(s, x[0], x[1], x[2], x[3], x[4], x[5], NULL))

static ls_status fibonacci(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs,
                           ls_tensor **out_carry, ls_tensor **out_ys) {
    ls_tensor *const *outside = ctx;
    (void)xs;
    out_carry[0] = carry[1];
    out_carry[1] = ls_add(s, carry[0], ls_mul(s, carry[1], ls_exp(s, outside[1])));
    out_ys[0] = ls_add(s, carry[0], ls_cast(s, iteration, LS_F32));
    out_ys[1] = carry[0];
    return LS_OK;
}
static ls_tensor *loop(ls_session *s, ls_tensor *const *x) {
    ls_tensor *carry[2] = {x[0], x[1]}, *last[2], *ys[2];
    if (ls_loop(s, ls_dim_of(5), 2, carry, 0, NULL, 2, fibonacci, (void *)x, last, ys) != LS_OK) {
        return NULL;
    }
    return ls_concat(s, (ls_tensor *[]){ys[0], ys[1], ls_stack(s, last, 2, 0)}, 3, 0);
}

static ls_tensor *gradient(ls_session *s, ls_tensor *const *x) { /* of a network, as a graph like any other */
    ls_tensor *h = ls_max_pool(s, ls_relu(s, ls_conv(s, x[0], x[1], NULL, CONV(.spatial = 2, .pad_low = {1, 1}))), (const int64_t[]){2, 2},
                               CONV(.spatial = 2, .stride = {2, 2})),
              *g = NULL;
    return h && ls_grad(s, ls_softmax(s, h, 1), NULL, 1, &x[1], &g) == LS_OK ? g : NULL;
}

static void test_networks(void **state) {
    (void)state;
    static const example all[] = {
        {"conv", "f32[B,3,6,7] f32[4,3,3,2] f32[4]", "Conv", conv},
        {"conv of f16", "f16[2,3,6,7] f16[4,3,3,2] f16[4]", "Conv", conv},
        {"conv of f64", "f64[2,3,6,7] f64[4,3,3,2] f64[4]", "Conv", conv},
        {"conv, strides and padding", "f32[B,3,6,7] f32[4,3,3,2]", "Conv", conv_plain},
        {"conv, dilated", "f32[B,3,6,7] f32[4,3,3,2] f32[4]", "Conv", conv_dilated},
        {"conv in groups", "f32[B,4,5,6] f32[6,2,3,3] f32[6]", "Conv", conv_groups},
        {"conv of each channel", "f32[B,4,5,6] f32[4,1,3,3] f32[4]", "Conv", conv_depthwise},
        {"conv of one pixel", "f32[B,4,5,6] f32[6,4,1,1] f32[6]", "Conv", conv},
        {"conv, 1-D", "f32[B,4,9] f32[6,4,3] f32[6]", "Conv", conv_1d},
        {"conv, 3-D", "f32[B,2,3,4,5] f32[3,2,2,2,2] f32[3]", "Conv", conv_3d},
        {"conv of a padded image", "f32[B,2,5,5] f32[3,2,2,2]", "Conv", conv_of_pad},
        {"conv and what went round it", "f32[B,3,5,5] f32[3,3,3,3] f32[3]", "Add Conv", conv_residual},
        {"conv, channels last", "f32[2,5,6,3] f32[4,3,2,2] f32[4]", "", conv_last},
        {"conv_transpose", "f32[B,3,4,5] f32[3,2,3,3] f32[2]", "ConvTranspose", conv_transpose},
        {"conv_transpose in groups", "f32[B,4,3,3] f32[4,2,3,3] f32[4]", "ConvTranspose", conv_transpose_more},
        {"conv_i32", "u8[2,3,6,7] u8[4,3,3,2]", "", conv_i32},
        {"max_pool", "f32[B,2,5,6]", "MaxPool", max_pool},
        {"max_pool, padded", "f32[B,2,5,6]", "MaxPool", max_pool_padded},
        {"max_pool, a window of padding alone", "f32[2,2,5,6]", "", max_pool_far},
        {"avg_pool", "f32[B,2,5,6]", "AveragePool", avg_pool},
        {"avg_pool, padding counts", "f16[B,2,5,6]", "AveragePool", avg_pool_all},
        {"lp_pool", "f32[2,2,5,6]", "", lp_pool},
        {"softmax", "f32[B,5,3]", "Softmax", softmax},
        {"softmax of f16", "f16[B,5]", "Softmax", softmax},
        {"log_softmax", "f32[B,5]", "LogSoftmax", log_softmax},
        {"masked_softmax", "f32[B,5]", "", masked_softmax},
        {"layer_norm", "f32[B,3,5] f32[5] f32[5]", "LayerNormalization", layer_norm},
        {"layer_norm over two axes", "f32[B,3,5] f32[3,5]", "LayerNormalization", layer_norm_2},
        {"layer_norm without parameters", "f32[B,3,5]", "", layer_norm_plain},
        {"layer_norm of f16", "f16[B,5] f16[5] f16[5]", "", layer_norm},
        {"layer_norm of f64", "f64[B,5] f64[5] f64[5]", "", layer_norm},
        {"rms_norm", "f32[B,3,5] f32[5]", "", rms_norm},
        {"group_norm", "f32[B,4,3] f32[4] f32[4]", "", group_norm},
        {"batch_norm", "f32[B,4,3] f32[4] f32[4] f32[4] f32[4]", "Abs BatchNormalization", batch_norm},
        {"batch_norm of f16", "f16[B,4,3,3] f16[4] f16[4] f16[4] f16[4]", "Abs BatchNormalization", batch_norm},
        {"batch_norm without scale", "f32[B,4,3] f32[4] f32[4]", "", batch_norm_plain},
        {"local_response_norm", "f32[2,5,3]", "", lrn},
        {"attention", "f32[B,4,5,6] f32[B,4,7,6] f32[B,4,7,3]", "", attention},
        {"attention of groups of heads", "f32[B,4,5,6] f32[B,2,7,6] f32[B,2,7,3]", "", attention},
        {"causal attention", "f32[B,2,5,6] f32[B,2,5,6] f32[B,2,5,6]", "", attention_causal},
        {"masked attention", "f32[B,2,5,6] f32[B,2,5,6] f32[B,2,5,6] bool[5,5]", "", attention_masked},
        {"rotary_embedding", "f32[B,2,5,6] f32[5,3] f32[5,3]", "", rotary},
        {"lstm", "f32[4,B,3] f32[B,2] f32[B,2] f32[8,3] f32[8,2] f32[8]", "Concat Expand LSTM Reshape Slice Squeeze", lstm},
        {"lstm without bias, its last state", "f32[4,2,3] f32[2,2] f32[2,2] f32[8,3] f32[8,2]", "Add Concat LSTM Reshape Slice Squeeze",
         lstm_last},
        {"lstm as ONNX has it", "f32[4,2,3] f32[2,2] f32[2,2] f32[8,3] f32[8,2] f32[8] f32[8]", "Concat LSTM Reshape Squeeze", lstm_onnx},
        {"lstm backwards", "f64[4,2,3] f64[2,2] f64[2,2] f64[8,3] f64[8,2] f64[8] f64[8]", "Concat LSTM Reshape Slice Squeeze",
         lstm_reverse},
        {"lstm of an activation that is its own", "f32[4,2,3] f32[2,2] f32[2,2] f32[8,3] f32[8,2] f32[8] f32[8]", "", lstm_other},
        {"gru", "f32[4,2,3] f32[2,2] f32[6,3] f32[6,2] f32[6]", "Concat Expand GRU Reshape Slice Squeeze", gru},
        {"gru that resets first", "f32[4,B,3] f32[B,2] f32[6,3] f32[6,2] f32[6] f32[6]", "Concat GRU Reshape Squeeze", gru_onnx},
        {"gru backwards", "f16[4,2,3] f16[2,2] f16[6,3] f16[6,2] f16[6] f16[6]", "Concat GRU Reshape Slice Squeeze", gru_reverse},
        {"rnn", "f32[4,2,3] f32[2,2] f32[2,3] f32[2,2] f32[2] f32[2]", "Concat RNN Reshape Squeeze", rnn},
        {"loop", "f32[3] f32[3]", "", loop},
        {"gradient of a network", "f32[2,2,5,5] f32[3,2,2,2]", "", gradient},
    };
    check_all(all, sizeof all / sizeof *all);
}

/* ---- memory ---- */

static ls_tensor *conv_and_softmax(ls_session *s, ls_tensor *const *x) {
    return ls_softmax(s, ls_mul(s, conv(s, x), ls_iota(s, LS_F32, LS_SHAPE(6), 0)), 1);
}

/* Every allocation fails once: an error, and nothing is lost. */
static void test_memory(void **state) {
    (void)state;
    static const example all[] = {{"conv", "f32[B,3,6,7] f32[4,3,3,2] f32[4]", "", conv_and_softmax},
                                  {"lstm", "f32[4,2,3] f32[2,2] f32[2,2] f32[8,3] f32[8,2] f32[8]", "", lstm},
                                  {"loop", "f32[3] f32[3]", "", loop}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bed b = bed_open(all[i].inputs);
        ls_named_tensor in[MOST_IN], out = {"y", all[i].build(b.w.session, b.in)};
        ls_heap *heap = ls_context_heap(b.w.context);
        ls_status status = LS_ERR_MEMORY;
        long n = 0;
        for (int k = 0; k < b.n_in; k++) {
            in[k] = (ls_named_tensor){NULL, b.in[k]};
        }
        for (; status != LS_OK; n++) {
            ls_data *file = NULL;
            ls_error err = {.code = LS_OK};
            atomic_store(&heap->fail_after, n);
            status = ls_onnx_encode(b.w.session, b.n_in, in, 1, &out, &file, &err);
            atomic_store(&heap->fail_after, -1);
            if (status != LS_OK && status != LS_ERR_MEMORY) {
                fail_msg("%s, allocation %ld: %s", all[i].name, n, err.message);
            }
            assert_int_equal(ls_session_error(b.w.session)->code, LS_OK);
            ls_data_release(file);
        }
        assert_true(n > 4);
        bed_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
