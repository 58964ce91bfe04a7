/* Loading ONNX files: what a model says of itself, and the numbers of every type from every place that they can be in. */
#define _GNU_SOURCE
#include "onnx_support.h"
#include <sys/stat.h>

/* ---- what a model says ---- */

/* What takes a model is told when there is none. */
static void test_no_model(void **state) {
    (void)state;
    ls_context *context;
    ls_session *s;
    ls_runner *runner;
    assert_int_equal(ls_context_create(NULL, &context, NULL), LS_OK);
    assert_int_equal(ls_session_create(context, NULL, &s, NULL), LS_OK);
    assert_int_equal(ls_runner_create(s, NULL, &runner), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "the model is NULL"));
    ls_session_clear_error(s);
    assert_int_equal(ls_model_build(s, NULL, 0, NULL, 0, NULL), LS_ERR_INVALID);
    assert_null(ls_model_retain(NULL));
    ls_session_destroy(s);
    ls_context_destroy(context);
}

static void test_ports(void **state) {
    (void)state;
    ls_model *m;
    ls_error err;
    ls_status status = load(model(), &m, &err);
    if (status != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ls_model_input_count(m), 3);
    assert_int_equal(ls_model_output_count(m), 2);
    ls_model_port x = ls_model_input(m, 0), w = ls_model_input(m, 1), c = ls_model_input(m, 2);
    assert_string_equal(x.name, "x");
    assert_string_equal(x.type, "float");
    assert_int_equal(x.dtype, LS_F32);
    assert_int_equal(x.rank, 2);
    assert_int_equal(x.dims[0], -1);
    assert_int_equal(x.dims[1], 3);
    assert_string_equal(x.dim_names[0], "batch");
    assert_null(x.dim_names[1]);
    assert_false(x.has_default);
    assert_true(w.has_default);
    assert_int_equal(w.rank, -1);
    assert_int_equal(c.dtype, LS_BOOL);
    ls_model_port v = ls_model_output(m, 0), u = ls_model_output(m, 1);
    assert_int_equal(v.dtype, LS_F16);
    assert_int_equal(v.rank, 2);
    assert_null(v.dim_names[0]);
    assert_int_equal(v.dims[0], -1);
    assert_string_equal(u.type, "sequence");
    assert_int_equal(u.dtype, LS_DTYPE_COUNT);
    assert_null(ls_model_input(m, 3).name);
    assert_null(ls_model_output(m, -1).name);

    assert_int_equal(ls_model_opset(m, "ai.onnx"), 21);
    assert_int_equal(ls_model_opset(m, "local"), 1);
    assert_int_equal(ls_model_opset(m, "none"), 0);
    assert_non_null(ls_model_function(m, "local", "Twice", ""));
    assert_null(ls_model_function(m, "", "Twice", ""));
    assert_null(ls_model_function(m, "local", "Twice", "x"));
    assert_string_equal(ls_model_initializer(m, "w")->name, "w");
    assert_null(ls_model_initializer(m, "sparse"));
    ls_data *dense = NULL;
    int type;
    assert_int_equal(
        ls_onnx_sparse_data(m, ls_model_sparse_initializer(m, "sparse"), NULL, &dense, &type, &err), LS_OK);
    assert_int_equal(type, ONNX_FLOAT);
    assert_memory_equal(ls_data_bytes(dense), ((const float[]){0, 0.5f, 0, 0, 1.5f, 0}), 24);
    ls_data_release(dense);
    ls_model_release(m);
    ls_model_release(NULL);
}

/* A file of IR version 1 says no types: those of its attributes follow from what they hold. */
static void test_untyped_attributes(void **state) {
    (void)state;
    Onnx__ModelProto *p = model();
    p->ir_version = 1;
    p->n_opset_import = 0;
    Onnx__NodeProto *n = p->graph->node[2];
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (strcmp(n->attribute[i]->name, "zero") != 0) {
            n->attribute[i]->type = ATTR(UNDEFINED);
        }
    }
    ls_model *m;
    ls_error err;
    assert_int_equal(load(p, &m, &err), LS_OK);
    const Onnx__NodeProto *got = m->proto->graph->node[2], *want = model()->graph->node[2];
    for (size_t i = 0; i < n->n_attribute; i++) {
        assert_int_equal(got->attribute[i]->type, want->attribute[i]->type);
    }
    ls_model_release(m);
}

/* ---- numbers ---- */

/* One tensor as a file of its own. */
static ls_status read_tensor(const Onnx__TensorProto *t, ls_data **out_data, ls_error *err) {
    size_t size;
    uint8_t *bytes = pack(&t->base, &size);
    const char *path = in_folder("t.pb");
    write_bytes(path, bytes, size);
    *err = (ls_error){.code = LS_OK};
    *out_data = NULL;
    ls_status status = ls_onnx_data_load(context, path, out_data, err);
    if (status != LS_OK && !strstr(err->message, path)) {
        fail_msg("\"%s\" does not name the file", err->message);
    }
    return status;
}

typedef struct number_case {
    int type;
    ls_dtype carrier;
    int64_t entries[4]; /* as the field of the type holds them */
    int n;              /* elements */
    int n_entries;
    size_t raw_size;
    uint8_t raw[32], want[32];
} number_case;
static const number_case number_cases[] = {
    {ONNX_UINT8, LS_U8, {0, 200, 255}, 3, 3, 3, {0, 200, 255}, {0, 200, 255}},
    {ONNX_INT8, LS_I8, {-1, -128, 127}, 3, 3, 3, {255, 128, 127}, {255, 128, 127}},
    {ONNX_UINT16, LS_U16, {65535, 1}, 2, 2, 4, {255, 255, 1, 0}, {255, 255, 1, 0}},
    {ONNX_INT16, LS_I16, {-2, 258}, 2, 2, 4, {254, 255, 2, 1}, {254, 255, 2, 1}},
    {ONNX_INT32, LS_I32, {-2, 258}, 2, 2, 8, {254, 255, 255, 255, 2, 1}, {254, 255, 255, 255, 2, 1}},
    {ONNX_INT64,
     LS_I64,
     {-2},
     1,
     1,
     8,
     {254, 255, 255, 255, 255, 255, 255, 255},
     {254, 255, 255, 255, 255, 255, 255, 255}},
    {ONNX_UINT32, LS_U32, {4294967295, 2}, 2, 2, 8, {255, 255, 255, 255, 2}, {255, 255, 255, 255, 2}},
    {ONNX_UINT64,
     LS_U64,
     {-1, 2},
     2,
     2,
     16,
     {255, 255, 255, 255, 255, 255, 255, 255, 2},
     {255, 255, 255, 255, 255, 255, 255, 255, 2}},
    {ONNX_BOOL, LS_BOOL, {1, 0, 1}, 3, 3, 3, {1, 0, 1}, {1, 0, 1}},
    {ONNX_FLOAT16, LS_F16, {0x3c00, 0xbc00}, 2, 2, 4, {0, 0x3c, 0, 0xbc}, {0, 0x3c, 0, 0xbc}},
    {ONNX_BFLOAT16, LS_BF16, {0x3f80, 0xbf80}, 2, 2, 4, {0x80, 0x3f, 0x80, 0xbf}, {0x80, 0x3f, 0x80, 0xbf}},
    {ONNX_FLOAT8E4M3FN, LS_U8, {0x7e, 0xfe}, 2, 2, 2, {0x7e, 0xfe}, {0x7e, 0xfe}},
    {ONNX_FLOAT8E4M3FNUZ, LS_U8, {0x80}, 1, 1, 1, {0x80}, {0x80}},
    {ONNX_FLOAT8E5M2, LS_U8, {0x7c}, 1, 1, 1, {0x7c}, {0x7c}},
    {ONNX_FLOAT8E5M2FNUZ, LS_U8, {0x80}, 1, 1, 1, {0x80}, {0x80}},
    {ONNX_FLOAT8E8M0, LS_U8, {127, 255}, 2, 2, 2, {127, 255}, {127, 255}},
    {ONNX_UINT4, LS_U8, {0xf1, 0x08}, 3, 2, 2, {0xf1, 0x08}, {1, 15, 8}},
    {ONNX_INT4, LS_I8, {0xf1, 0x08}, 3, 2, 2, {0xf1, 0x08}, {1, 255, 248}},
    {ONNX_FLOAT4E2M1, LS_U8, {0x7f}, 2, 1, 1, {0x7f}, {15, 7}},
    {ONNX_UINT2, LS_U8, {0xe4, 0x03}, 5, 2, 2, {0xe4, 0x03}, {0, 1, 2, 3, 3}},
    {ONNX_INT2, LS_I8, {0xe4, 0x02}, 5, 2, 2, {0xe4, 0x02}, {0, 1, 254, 255, 254}},
};

static void check_numbers(const Onnx__TensorProto *t, const number_case *c) {
    ls_data *data;
    ls_error err;
    if (read_tensor(t, &data, &err) != LS_OK) {
        fail_msg("%s: %s", ls_onnx_type_name(c->type), err.message);
    }
    assert_int_equal(ls_data_dtype(data), c->carrier);
    assert_int_equal(ls_data_numel(data), c->n);
    if (memcmp(ls_data_bytes(data), c->want, ls_data_size(data)) != 0) {
        fail_msg("%s: other numbers", ls_onnx_type_name(c->type));
    }
    ls_data_release(data);
}

static void test_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof number_cases / sizeof *number_cases; i++) {
        const number_case *c = &number_cases[i];
        ls_data *data;
        ls_error err;
        Onnx__TensorProto *t = tensor("t", c->type, 1, (const int64_t[]){c->n});
        check_numbers(raw(t, c->raw, c->raw_size), c);
        raw(t, c->raw, c->raw_size - 1);
        assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "\"t\"", "its shape asks for", NULL);
        t = tensor("t", c->type, 1, (const int64_t[]){c->n});
        for (int k = 0; k < c->n_entries; k++) {
            if (c->type == ONNX_INT64) {
                PUSH(t->int64_data, t->n_int64_data, c->entries[k]);
            } else if (c->type == ONNX_UINT32 || c->type == ONNX_UINT64) {
                PUSH(t->uint64_data, t->n_uint64_data, (uint64_t)c->entries[k]);
            } else {
                PUSH(t->int32_data, t->n_int32_data, (int32_t)c->entries[k]);
            }
        }
        check_numbers(t, c);
        raw(t, c->raw, c->raw_size); /* as well */
        assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "\"t\"", "or in two", NULL);
        assert_int_equal(ls_onnx_carrier(c->type), c->carrier);
        if (ls_onnx_type_of(c->carrier) != c->type) { /* bits in another dtype */
            assert_true(c->type >= ONNX_FLOAT8E4M3FN);
        }
    }
}

static void test_floats(void **state) {
    (void)state;
    ls_data *data;
    ls_error err;
    const double wide[] = {1.25, -3};
    const float narrow[] = {0.5f, 1.5f};
    assert_int_equal(read_tensor(floats("f", 2), &data, &err), LS_OK);
    assert_memory_equal(ls_data_bytes(data), narrow, sizeof narrow);
    ls_data_release(data);
    Onnx__TensorProto *t = tensor("d", ONNX_DOUBLE, 1, (const int64_t[]){2});
    PUSH(t->double_data, t->n_double_data, wide[0]);
    PUSH(t->double_data, t->n_double_data, wide[1]);
    assert_int_equal(read_tensor(t, &data, &err), LS_OK);
    assert_memory_equal(ls_data_bytes(data), wide, sizeof wide);
    ls_data_release(data);
    /* a scalar, and nothing at all */
    t = raw(tensor("s", ONNX_FLOAT, 0, NULL), narrow, 4);
    assert_int_equal(read_tensor(t, &data, &err), LS_OK);
    assert_int_equal(ls_data_rank(data), 0);
    ls_data_release(data);
    assert_int_equal(read_tensor(tensor("e", ONNX_INT4, 2, (const int64_t[]){3, 0}), &data, &err), LS_OK);
    assert_int_equal(ls_data_numel(data), 0);
    ls_data_release(data);
}

static void test_wrong_numbers(void **state) {
    (void)state;
    ls_data *data;
    ls_error err;
    const int64_t one[] = {1};
    const uint8_t bytes[32] = {2};
    Onnx__TensorProto *t = raw(tensor("b", ONNX_BOOL, 1, one), bytes, 1);
    assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "\"b\"", "0 or 1", NULL);
    static const struct {
        int type;
        int32_t entry;
    } outside[] = {{ONNX_BOOL, 2},       {ONNX_UINT8, -1},       {ONNX_INT8, 128},       {ONNX_UINT16, 65536},
                   {ONNX_INT16, -32769}, {ONNX_FLOAT16, -32769}, {ONNX_FLOAT8E5M2, 256}, {ONNX_INT4, 256}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        t = tensor("n", outside[i].type, 1, one);
        PUSH(t->int32_data, t->n_int32_data, outside[i].entry);
        assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "\"n\"", "entry 0",
                       ls_onnx_type_name(outside[i].type), NULL);
    }
    t = tensor("n", ONNX_UINT32, 1, one);
    PUSH(t->uint64_data, t->n_uint64_data, UINT64_C(1) << 32);
    assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "entry 0", "uint32", NULL);
    t = tensor("n", ONNX_INT64, 1, one);
    PUSH(t->float_data, t->n_float_data, 1.0f);
    assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "not for int64", NULL);
    assert_message(read_tensor(tensor("n", ONNX_INT64, 1, one), &data, &err), LS_ERR_FORMAT, &err,
                   "asks for 8", NULL);
    assert_message(read_tensor(tensor("n", 0, 1, one), &data, &err), LS_ERR_FORMAT, &err, "element type 0",
                   NULL);
    assert_message(read_tensor(tensor("n", ONNX_TYPES, 1, one), &data, &err), LS_ERR_FORMAT, &err,
                   "element type 27", NULL);
    assert_message(read_tensor(tensor("n", -1, 1, one), &data, &err), LS_ERR_FORMAT, &err, "element type -1",
                   NULL);
    t = raw(tensor("z", ONNX_COMPLEX64, 1, one), bytes, 8);
    assert_message(read_tensor(t, &data, &err), LS_ERR_UNSUPPORTED, &err, "\"z\"", "complex64", NULL);
    t = raw(tensor("r", ONNX_UINT8, 9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}), bytes, 1);
    assert_message(read_tensor(t, &data, &err), LS_ERR_UNSUPPORTED, &err, "\"r\"", "9 axes", NULL);
    t = raw(tensor("n", ONNX_UINT8, 1, one), bytes, 1);
    t->segment = NEW(TensorProto__Segment, tensor_proto__segment);
    assert_message(read_tensor(t, &data, &err), LS_ERR_UNSUPPORTED, &err, "segment", NULL);
    t->segment = NULL;
    t->data_location = 2;
    assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "data_location 2", NULL);
}

static void test_huge_extents(void **state) {
    (void)state;
    static const int64_t extents[][3] = {{-1, 1, 1},
                                         {INT64_MIN, 1, 1},
                                         {INT64_MAX, 1, 1},
                                         {INT64_C(1) << 32, INT64_C(1) << 32, 1},
                                         {INT64_C(1) << 31, INT64_C(1) << 31, 8},
                                         {3, INT64_C(0x5555555555555556), 1}, /* 2 modulo 2^64 */
                                         {0, INT64_MAX, INT64_MAX},
                                         {0, -1, 1},
                                         {INT64_C(1) << 40, 1, 1}};
    const uint8_t bytes[32] = {0};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        ls_data *data;
        ls_error err;
        Onnx__TensorProto *t = raw(tensor("huge", ONNX_UINT4, 3, extents[i]), bytes, 1);
        assert_message(read_tensor(t, &data, &err), LS_ERR_FORMAT, &err, "\"huge\"", NULL);
    }
}

static void test_strings(void **state) {
    (void)state;
    Onnx__ModelProto *p = model();
    Onnx__TensorProto *t = tensor("text", ONNX_STRING, 1, (const int64_t[]){3});
    PUSH(t->string_data, t->n_string_data, ((ProtobufCBinaryData){2, (uint8_t *)"ab"}));
    PUSH(t->string_data, t->n_string_data, ((ProtobufCBinaryData){0, NULL}));
    ls_model *m;
    ls_error err;
    PUSH(p->graph->initializer, p->graph->n_initializer, t);
    assert_message(load(p, &m, &err), LS_ERR_FORMAT, &err, "\"text\"", "2 entries", NULL);
    PUSH(t->string_data, t->n_string_data, ((ProtobufCBinaryData){4, (uint8_t *)"\xc3\xa4\xc3\xb6"}));
    assert_int_equal(load(p, &m, &err), LS_OK);
    const Onnx__TensorProto *got = ls_model_initializer(m, "text");
    const char **texts;
    int64_t n;
    assert_int_equal(ls_onnx_tensor_strings(m, got, NULL, &made, &texts, &n, &err), LS_OK);
    ls_data *data;
    int type;
    assert_message(ls_onnx_tensor_data(m, got, NULL, &data, &type, &err), LS_ERR_DTYPE, &err, "\"text\"",
                   "strings", NULL);
    err.code = LS_OK;
    assert_message(ls_onnx_tensor_strings(m, ls_model_initializer(m, "w"), NULL, &made, &texts, &n, &err),
                   LS_ERR_DTYPE, &err, "\"w\"", "expected strings", NULL);
    ls_model_release(m);
    assert_int_equal(n, 3);
    assert_string_equal(texts[0], "ab");
    assert_string_equal(texts[1], "");
    assert_string_equal(texts[2], "\xc3\xa4\xc3\xb6");
    t->string_data[0].data = (uint8_t *)"a";
    assert_int_equal(load(p, &m, &err), LS_OK);
    assert_message(ls_onnx_tensor_strings(m, ls_model_initializer(m, "text"), NULL, &made, &texts, &n, &err),
                   LS_ERR_FORMAT, &err, "element 0 holds a NUL", NULL);
    ls_model_release(m);
}

static void test_sparse(void **state) {
    (void)state;
    static const struct {
        int64_t indices[4];
        int rank; /* of the indices */
        const char *says;
    } cases[] = {{{1, 4}, 1, NULL},
                 {{0, 1, 1, 2}, 2, NULL},
                 {{4, 1}, 1, "ascend"},
                 {{1, 1}, 1, "ascend"},
                 {{-1, 1}, 1, "index 0"},
                 {{1, 6}, 1, "index 1"},
                 {{0, 1, 0, 3}, 2, "index 1"},
                 {{0, 1, -1, 0}, 2, "index 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Onnx__ModelProto *p = model();
        Onnx__SparseTensorProto *s = p->graph->sparse_initializer[0];
        s->indices = tensor("", ONNX_INT64, cases[i].rank, (const int64_t[]){2, 2});
        raw(s->indices, cases[i].indices, cases[i].rank == 1 ? 16 : 32);
        ls_model *m;
        ls_error err;
        ls_data *data = NULL;
        int type;
        assert_int_equal(load(p, &m, &err), LS_OK);
        ls_status status =
            ls_onnx_sparse_data(m, m->proto->graph->sparse_initializer[0], NULL, &data, &type, &err);
        if (cases[i].says) {
            assert_message(status, LS_ERR_FORMAT, &err, "\"sparse\"", cases[i].says, NULL);
        } else {
            assert_int_equal(status, LS_OK);
            const float *f = ls_data_bytes(data);
            assert_true(f[1] == 0.5f && f[cases[i].rank == 1 ? 4 : 5] == 1.5f && f[0] == 0);
        }
        ls_data_release(data);
        ls_model_release(m);
    }
}

/* ---- files beside a model ---- */

static void test_external(void **state) {
    (void)state;
    float numbers[64];
    for (int i = 0; i < 64; i++) {
        numbers[i] = (float)i * 1.25f;
    }
    assert_int_equal(mkdir(in_folder("sub"), 0777), 0);
    write_bytes(in_folder("sub/weights.bin"), numbers, sizeof numbers);
    Onnx__ModelProto *p = model_beside("sub/weights.bin", "64", "40", 10);
    Onnx__TensorProto *rest = tensor("rest", ONNX_FLOAT, 2, (const int64_t[]){2, 12}),
                      *odd = tensor("odd", ONNX_FLOAT, 1, (const int64_t[]){2});
    external(rest, "location", "sub/weights.bin"); /* to the end */
    external(rest, "offset", "160");
    external(odd, "location", "sub/weights.bin");
    external(odd, "offset", "1");
    external(odd, "length", "8");
    external(odd, "checksum", "ignored");
    PUSH(p->graph->initializer, p->graph->n_initializer, rest);
    PUSH(p->graph->initializer, p->graph->n_initializer, odd);
    ls_model *m;
    ls_error err;
    if (load_file(p, &m, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_non_null(m->files);
    assert_null(m->files->next); /* mapped once */
    ls_data *e = NULL, *r = NULL, *o = NULL;
    int type;
    assert_int_equal(ls_onnx_tensor_data(m, ls_model_initializer(m, "e"), NULL, &e, &type, &err), LS_OK);
    assert_int_equal(ls_onnx_tensor_data(m, ls_model_initializer(m, "rest"), NULL, &r, &type, &err), LS_OK);
    assert_int_equal(ls_onnx_tensor_data(m, ls_model_initializer(m, "odd"), NULL, &o, &type, &err), LS_OK);
    assert_ptr_equal(ls_data_bytes(e), m->files->file->map.data + 64); /* not copied */
    assert_ptr_equal(ls_data_bytes(r), m->files->file->map.data + 160);
    ls_model_release(m); /* the arrays keep it */
    assert_memory_equal(ls_data_bytes(e), numbers + 16, 40);
    assert_memory_equal(ls_data_bytes(r), numbers + 40, 96);
    assert_memory_equal(ls_data_bytes(o), (const char *)numbers + 1, 8);
    ls_data_release(e);
    ls_data_release(r);
    ls_data_release(o);
}

static void test_external_refused(void **state) {
    (void)state;
    static const struct {
        const char *location, *offset, *length;
        ls_status status;
        const char *says;
    } cases[] = {
        {"w.bin", "0", "8", LS_OK, ""},
        {"./w.bin", NULL, NULL, LS_OK, ""},
        {"../w.bin", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"sub/../../w.bin", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"..", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"/etc/passwd", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"sub//etc", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"..\\w.bin", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"C:w.bin", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"", NULL, NULL, LS_ERR_FORMAT, "expected a file in the model's folder"},
        {"none.bin", NULL, NULL, LS_ERR_IO, "none.bin"},
        {".", NULL, NULL, LS_ERR_IO, "."},
        {"w.bin", "4", NULL, LS_ERR_FORMAT, "4 bytes from byte 4 of \"w.bin\""},
        {"w.bin", "9", NULL, LS_ERR_FORMAT, "from byte 9"},
        {"w.bin", "0", "12", LS_ERR_FORMAT, "12 bytes"},
        {"w.bin", "4", "8", LS_ERR_FORMAT, "8 bytes from byte 4"},
        {"w.bin", "18446744073709551615", "8", LS_ERR_FORMAT, "which has 8"},
        {"w.bin", "18446744073709551616", "8", LS_ERR_FORMAT, "external offset"},
        {"w.bin", "-1", "8", LS_ERR_FORMAT, "external offset"},
        {"w.bin", "", "8", LS_ERR_FORMAT, "external offset"},
        {"w.bin", "0", "8x", LS_ERR_FORMAT, "external length"},
    };
    write_bytes(in_folder("w.bin"), "12345678", 8);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_model *m;
        ls_error err;
        ls_status status =
            load_file(model_beside(cases[i].location, cases[i].offset, cases[i].length, 2), &m, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].says)) {
            fail_msg("case %zu: %s: \"%s\"", i, ls_status_name(status), err.message);
        }
        ls_model_release(m);
    }
    ls_model *m;
    ls_error err;
    assert_message(load(model_beside("w.bin", NULL, NULL, 2), &m, &err), LS_ERR_FORMAT, &err, "in memory",
                   NULL);
    Onnx__ModelProto *p = model_beside("w.bin", NULL, NULL, 2);
    p->graph->initializer[1]->n_external_data = 0;
    assert_message(load_file(p, &m, &err), LS_ERR_FORMAT, &err, "location is missing", NULL);
    p = model_beside("w.bin", NULL, NULL, 2);
    raw(p->graph->initializer[1], "12345678", 8);
    assert_message(load_file(p, &m, &err), LS_ERR_FORMAT, &err, "data_location 1", NULL);
    err = (ls_error){.code = LS_OK};
    assert_message(ls_model_load(context, in_folder("nothing.onnx"), &m, &err), LS_ERR_IO, &err,
                   "nothing.onnx", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_model),
        cmocka_unit_test_setup_teardown(test_ports, setup, teardown),
        cmocka_unit_test_setup_teardown(test_untyped_attributes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_floats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_huge_extents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sparse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_external, setup, teardown),
        cmocka_unit_test_setup_teardown(test_external_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
