/* The files that an export to ONNX writes: their names and places, and what is refused by name. */
#define _DEFAULT_SOURCE
#include "unit/onnx_export_support.h"
#include <unistd.h>

/* ---- the file ---- */

static void test_names(void **state) {
    (void)state;
    bed b = bed_open("f32[B,5]");
    ls_session *s = b.w.session;
    float list[20] = {1, 2, 3};
    ls_var *w = ls_var_create(s, "fc.weight", LS_F32, LS_SHAPE(4, 5), list), *bias = ls_var_create(s, "fc.bias", LS_F32, LS_SHAPE(4), list);
    ls_var *same = ls_var_create(s, "fc.bias", LS_F32, LS_SHAPE(4), list);
    ls_tensor *y = ls_linear(s, b.in[0], ls_var_value(s, w), ls_var_value(s, bias));
    ls_tensor *z = ls_add(s, y, ls_var_value(s, same));
    ls_named_tensor in = {"image", b.in[0]};
    ls_named_tensor out[] = {{"logits", y}, {NULL, z}, {"again", y}, {"image again", b.in[0]}, {NULL, ls_var_value(s, w)}};
    ls_data *file = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_onnx_encode(s, 1, &in, 5, out, &file, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, ls_data_size(file), ls_data_bytes(file));
    assert_non_null(m);
    assert_int_equal(m->ir_version, LS_ONNX_IR);
    assert_string_equal(m->producer_name, "lockstep");
    assert_int_equal(m->opset_import[0]->version, LS_ONNX_OPSET);
    const Onnx__GraphProto *g = m->graph;
    assert_int_equal(g->n_input, 1);
    assert_string_equal(g->input[0]->name, "image");
    assert_string_equal(g->input[0]->type->tensor_type->shape->dim[0]->dim_param, "batch");
    assert_int_equal(g->input[0]->type->tensor_type->shape->dim[1]->dim_value, 5);
    assert_int_equal(g->n_output, 5);
    static const char *const outputs[] = {"logits", "output_2", "again", "image again", "output_5"};
    for (int i = 0; i < 5; i++) {
        assert_string_equal(g->output[i]->name, outputs[i]);
    }
    assert_int_equal(g->n_initializer, 3);
    static const char *const initializers[] = {"fc.weight", "fc.bias", "fc.bias_2"};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(g->initializer[i]->name, initializers[i]);
    }
    assert_int_equal(g->n_node, 5); /* Gemm, Add, three times Identity */
    assert_string_equal(g->node[0]->op_type, "Gemm");
    assert_string_equal(g->node[0]->name, "fc");
    assert_string_equal(g->node[0]->output[0], "logits");
    assert_string_equal(g->node[1]->output[0], "output_2");
    assert_int_equal(g->node[2]->n_input, 1);
    onnx__model_proto__free_unpacked(m, NULL);
    ls_data_release(file);
    ls_var_destroy(w);
    ls_var_destroy(bias);
    ls_var_destroy(same);
    bed_close(&b);
}

/* Initialisers beside the file: written apart, and read back through it. */
static void test_apart(void **state) {
    (void)state;
    char folder[] = "/tmp/lockstep-export-XXXXXX", path[64], apart[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/big.onnx", folder);
    snprintf(apart, sizeof apart, "%s/big.onnx.data", folder);
    bed b = bed_open("f32[B,40]");
    ls_session *s = b.w.session;
    ls_data *weights = values_of(&b.w, LS_F32, 2, (const int64_t[]){50, 40}, 3),
            *bias = values_of(&b.w, LS_F32, 1, (const int64_t[]){50}, 4);
    ls_tensor *y = ls_linear(s, b.in[0], ls_data_to_tensor(s, weights), ls_data_to_tensor(s, bias));
    y = ls_matmul(s, y, ls_data_to_tensor(s, weights));
    ls_named_tensor in = {NULL, b.in[0]}, out = {NULL, y};
    ls_error err = {.code = LS_OK};
    ls_model *model = NULL;
    if (ls_onnx_write(s, path, 1, &in, 1, &out, 20 << 10, NULL, &err) != LS_OK || access(apart, F_OK) == 0) {
        fail_msg("%s", err.code ? err.message : "20 kB that are allowed in the file are not in it");
    }
    if (ls_onnx_write(s, path, 1, &in, 1, &out, 1 << 10, NULL, &err) != LS_OK || access(apart, F_OK) != 0 ||
        ls_model_load(b.w.context, path, &model, &err) != LS_OK) {
        fail_msg("%s", err.code ? err.message : "nothing was written apart");
    }
    ls_data *want = run_graph(&b, y), *got = run_model(&b, model);
    assert_int_equal(ls_data_size(want), ls_data_size(got));
    assert_memory_equal(ls_data_bytes(want), ls_data_bytes(got), ls_data_size(got));
    ls_data_release(want);
    ls_data_release(got);
    ls_data_release(weights);
    ls_data_release(bias);
    ls_model_release(model);
    bed_close(&b);
    assert_int_equal(unlink(path) | unlink(apart) | rmdir(folder), 0);
}

/* ---- refusals ---- */

MAKE(bad_cbrt, ls_cbrt(s, x[0]))
MAKE(bad_expm1, ls_relu(s, ls_expm1(s, x[0])))
MAKE(bad_bits, ls_bitcast(s, x[0], LS_I32))
MAKE(bad_scan, ls_scan(s, x[0], LS_SCAN_MAX, 1, 0, 0))
MAKE(bad_random, ls_random_uniform(s, ls_random_key(s, 1), LS_SHAPE(3), LS_F32))
MAKE(bad_arg, ls_argmax(s, ls_pad_absent(s, x[0], (const ls_pad_spec[]){{0}, {1, 1, 0}}), AXES(1), 0))
MAKE(bad_window, ls_window(s, x[0], 1, (const int[]){0}, (const ls_window_spec[]){{2, 1, 1}}))

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        ls_tensor *(*build)(ls_session *s, ls_tensor *const *x);
    } all[] = {{"output \"y\": cbrt f32[batch,5]: no ONNX operator computes it", bad_cbrt},
               {"output \"y\": expm1 f32[batch,5]: no ONNX operator", bad_expm1},
               {"bitcast i32[batch,5]: no ONNX operator", bad_bits},
               {"scan f32[batch,5]: no ONNX operator", bad_scan},
               {"random u32", bad_random},
               {"argmax i64[batch]: over absent elements", bad_arg},
               {"window f32[batch-1,5,2]: windows along a symbol", bad_window}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bed b = bed_open("f32[B,5]");
        ls_named_tensor in = {NULL, b.in[0]}, out = {"y", all[i].build(b.w.session, b.in)};
        ls_data *file = NULL;
        ls_error err = {.code = LS_OK};
        assert_non_null(out.tensor);
        assert_int_equal(ls_onnx_encode(b.w.session, 1, &in, 1, &out, &file, &err), LS_ERR_UNSUPPORTED);
        if (!strstr(err.message, all[i].text)) {
            fail_msg("\"%s\" does not say \"%s\"", err.message, all[i].text);
        }
        assert_null(file);
        assert_int_equal(ls_session_error(b.w.session)->code, LS_OK); /* the session goes on */
        bed_close(&b);
    }
}

static void refuse(bed *b, int n_in, const ls_named_tensor *in, int n_out, const ls_named_tensor *out, const char *text) {
    ls_data *file = NULL;
    ls_error err = {.code = LS_OK};
    assert_int_not_equal(ls_onnx_encode(b->w.session, n_in, in, n_out, out, &file, &err), LS_OK);
    if (!strstr(err.message, text)) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, text);
    }
}

static void test_bad_ports(void **state) {
    (void)state;
    bed b = bed_open("f32[B,5] f32[5]");
    ls_tensor *y = ls_add(b.w.session, b.in[0], b.in[1]);
    ls_named_tensor in[] = {{"a", b.in[0]}, {"b", b.in[1]}}, out[] = {{"y", y}, {"y", b.in[0]}};
    refuse(&b, 1, in, 1, out, "input f32[5] x1: it is none of the inputs given");
    refuse(&b, 2, (ls_named_tensor[]){{"a", b.in[0]}, {"a", b.in[1]}}, 1, out, "input 1: another input or output has its name");
    refuse(&b, 2, (ls_named_tensor[]){{"a", b.in[0]}, {"b", b.in[0]}}, 1, out, "input 1: the tensor was given twice");
    refuse(&b, 2, (ls_named_tensor[]){{"a", b.in[0]}, {"", b.in[1]}}, 1, out, "input 1: its name is empty");
    refuse(&b, 1, (ls_named_tensor[]){{"a", y}}, 1, out, "input 0: expected a tensor that ls_input made in this session");
    refuse(&b, 2, in, 2, out, "output 1: another input or output has its name");
    refuse(&b, 2, in, 1, (ls_named_tensor[]){{"y", NULL}}, "output 0: expected a tensor of this session");
    refuse(&b, 2, in, 0, out, "0 outputs: expected an output");
    ls_error err = {.code = LS_OK};
    assert_int_not_equal(ls_onnx_save(b.w.session, "/no/such/folder/y.onnx", 2, in, 1, out, &err), LS_OK);
    assert_non_null(strstr(err.message, "/no/such/folder/y.onnx"));
    assert_null(ls_add(b.w.session, y, ls_full(b.w.session, LS_F32, LS_SHAPE(2), 0)));
    refuse(&b, 2, in, 1, out, "add: operands are"); /* what the session holds is reported */
    bed_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_apart),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bad_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
