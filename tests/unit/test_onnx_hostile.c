/* ONNX models that make no sense, are damaged or made to deceive: an error that names the file, whatever the memory at hand. */
#define _GNU_SOURCE
#include "onnx_support.h"
#include "base/rng.h"

/* ---- models that make no sense ---- */

static Onnx__GraphProto *G;
static Onnx__ModelProto *M;
static void no_graph(void) { M->graph = NULL; }
static void no_version(void) { M->ir_version = 0; }
static void negative_version(void) { M->ir_version = -3; }
static void late_version(void) { M->ir_version = 99; }
static void no_opset(void) { M->n_opset_import = 0; }
static void zero_opset(void) { M->opset_import[0]->version = 0; }
static void huge_opset(void) { M->opset_import[1]->version = INT64_C(1) << 40; }
static void late_opset(void) { M->opset_import[0]->version = 1000; }
static void two_opsets(void) { PUSH(M->opset_import, M->n_opset_import, opset("ai.onnx", 20)); }
static void cycle(void) { G->node[0]->input[1] = (char *)"z"; }
static void self_loop(void) { G->node[0]->input[1] = (char *)"y"; }
static void unknown_operand(void) { G->node[3]->input[0] = (char *)"nothing"; }
static void unknown_output(void) { G->output[0]->name = (char *)"nothing"; }
static void inner_name(void) { G->node[3]->input[0] = (char *)"t"; } /* of a branch */
static void inner_unknown(void) { G->node[1]->attribute[0]->g->node[0]->input[0] = (char *)"u"; }
static void two_results(void) { G->node[3]->output[0] = (char *)"y"; }
static void result_is_input(void) { G->node[3]->output[0] = (char *)"x"; }
static void result_is_initializer(void) { G->node[3]->output[0] = (char *)"w"; }
static void two_inputs(void) { G->input[2]->name = (char *)"x"; }
static void unnamed_input(void) { G->input[2]->name = (char *)""; }
static void two_initializers(void) { PUSH(G->initializer, G->n_initializer, floats("w", 3)); }
static void sparse_twice(void) { PUSH(G->initializer, G->n_initializer, floats("sparse", 3)); }
static void sparse_empty(void) { G->sparse_initializer[0]->values = NULL; }
static void sparse_no_indices(void) { G->sparse_initializer[0]->indices = NULL; }
static void sparse_negative(void) { G->sparse_initializer[0]->dims[0] = -2; }
static void sparse_counts(void) { G->sparse_initializer[0]->values = floats("sparse", 3); }
static void no_operator(void) { G->node[0]->op_type = (char *)""; }
static void two_attributes(void) { G->node[2]->attribute[1]->name = (char *)"f"; }
static void unnamed_attribute(void) { G->node[2]->attribute[1]->name = (char *)""; }
static void mistyped(void) { G->node[2]->attribute[0]->type = ATTR(INT); }
static void wild_type(void) { G->node[2]->attribute[0]->type = 99; }
static void negative_type(void) { G->node[2]->attribute[0]->type = -1; }
static void two_values(void) { G->node[2]->attribute[0]->i = 3; }
static void no_tensor(void) { G->node[2]->attribute[4]->t = NULL; }
static void no_type(void) { G->node[2]->attribute[2]->type = 0; }
static void reference_outside(void) { G->node[2]->attribute[2]->ref_attr_name = (char *)"k"; }
static void reference_with_value(void) { M->functions[0]->node[0]->attribute[0]->i = 2; }
static void bad_inner_tensor(void) { G->node[2]->attribute[4]->t->n_float_data = 1; }
static void bad_listed_tensor(void) { G->node[2]->attribute[10]->tensors[0]->dims[0] = 9; }
static void unnamed_function(void) { M->functions[0]->name = (char *)""; }
static void two_functions(void) { function(M, "Twice", "a", "a"); }
static void function_reads(void) { M->functions[0]->node[0]->input[0] = (char *)"x"; } /* of the main graph */
static void function_gives(void) { M->functions[0]->output[0] = (char *)"y"; }
static void function_inputs(void) { names("a", &M->functions[0]->input, &M->functions[0]->n_input); }
static void function_opset(void) { M->functions[0]->opset_import[0]->version = -1; }
static void recursion(void) { PUSH(M->functions[0]->node, M->functions[0]->n_node, call("Twice", "a", "c")); }
static void mutual_recursion(void) {
    Onnx__FunctionProto *f = function(M, "Other", "a", "b");
    PUSH(M->functions[0]->node, M->functions[0]->n_node, call("Other", "a", "c"));
    Onnx__NodeProto *n = node("If", "a", "b"); /* through a branch */
    attribute(n, "then_branch", ATTR(GRAPH))->g = branch("a", "t");
    n->attribute[0]->g->node[0] = call("Twice", "a", "t");
    PUSH(f->node, f->n_node, n);
}
static void chain(int n, int calls) {
    for (int i = 0; i < n; i++) {
        Onnx__FunctionProto *f = function(M, ls_arena_printf(&made, "F%d", i), "a", "b");
        for (int k = 0; k < calls && i + 1 < n; k++) {
            PUSH(f->node, f->n_node, call(ls_arena_printf(&made, "F%d", i + 1), "a", ls_arena_printf(&made, "b%d", k)));
        }
        PUSH(f->node, f->n_node, node("Neg", "a", "b"));
    }
    PUSH(G->node, G->n_node, call("F0", "x", "end"));
}
static void long_chain(void) { chain(200, 1); }
static void wide_chain(void) { chain(60, 3); } /* 3^60 nodes */
static void short_chain(void) { chain(50, 1); }
static void hidden_name(void) { G->node[1]->attribute[0]->g->node[0]->output[0] = G->node[1]->attribute[0]->g->output[0]->name = (char *)"x"; }
static void any_rank(void) { G->input[0]->type->tensor_type->shape = NULL; }
static void no_value_type(void) { G->input[0]->type = NULL; }
static void nothing_wrong(void) {}

static const struct {
    void (*spoil)(void);
    ls_status status;
    const char *says;
} senseless[] = {
    {nothing_wrong, LS_OK, ""},
    {short_chain, LS_OK, ""},
    {hidden_name, LS_OK, ""},
    {any_rank, LS_OK, ""},
    {no_value_type, LS_OK, ""},
    {no_graph, LS_ERR_FORMAT, "has no graph"},
    {no_version, LS_ERR_FORMAT, "ir_version"},
    {negative_version, LS_ERR_FORMAT, "ir_version"},
    {late_version, LS_ERR_UNSUPPORTED, "ir_version 99"},
    {no_opset, LS_ERR_FORMAT, "no operator set"},
    {zero_opset, LS_ERR_FORMAT, "version 0 of operator set \"\""},
    {huge_opset, LS_ERR_FORMAT, "operator set \"local\""},
    {late_opset, LS_ERR_UNSUPPORTED, "version 1000"},
    {two_opsets, LS_ERR_FORMAT, "operator set \"\" is there twice"},
    {cycle, LS_ERR_FORMAT, "node \"sum\" (Add) reads \"z\", which nothing before it gives"},
    {self_loop, LS_ERR_FORMAT, "node \"sum\" (Add) reads \"y\""},
    {unknown_operand, LS_ERR_FORMAT, "node 3 (Twice) reads \"nothing\""},
    {unknown_output, LS_ERR_FORMAT, "output \"nothing\""},
    {inner_name, LS_ERR_FORMAT, "node 3 (Twice) reads \"t\""},
    {inner_unknown, LS_ERR_FORMAT, "node 0 (Neg) reads \"u\""},
    {two_results, LS_ERR_FORMAT, "node 3 (Twice) \"y\": the name is taken"},
    {result_is_input, LS_ERR_FORMAT, "\"x\": the name is taken"},
    {result_is_initializer, LS_ERR_FORMAT, "\"w\": the name is taken"},
    {two_inputs, LS_ERR_FORMAT, "input \"x\""},
    {unnamed_input, LS_ERR_FORMAT, "input has no name"},
    {two_initializers, LS_ERR_FORMAT, "initializer \"w\" is there twice"},
    {sparse_twice, LS_ERR_FORMAT, "initializer \"sparse\" is there twice"},
    {sparse_empty, LS_ERR_FORMAT, "sparse initializer 0"},
    {sparse_no_indices, LS_ERR_FORMAT, "without values or indices"},
    {sparse_negative, LS_ERR_FORMAT, "extent -2"},
    {sparse_counts, LS_ERR_FORMAT, "as many indices"},
    {no_operator, LS_ERR_FORMAT, "node \"sum\" () has no operator"},
    {two_attributes, LS_ERR_FORMAT, "node 2 (Everything): attribute \"f\": the name is taken"},
    {unnamed_attribute, LS_ERR_FORMAT, "node 2 (Everything): attribute has no name"},
    {mistyped, LS_ERR_FORMAT, "attribute \"f\" is said to be of type 2"},
    {wild_type, LS_ERR_FORMAT, "attribute \"f\" has type 99"},
    {negative_type, LS_ERR_FORMAT, "attribute \"f\" has type -1"},
    {two_values, LS_ERR_FORMAT, "attribute \"f\" is said to be of type 1"},
    {no_tensor, LS_ERR_FORMAT, "attribute \"t\" is said to be of type 4"},
    {no_type, LS_ERR_FORMAT, "attribute \"zero\" has type 0"},
    {reference_outside, LS_ERR_FORMAT, "attribute \"zero\" refers"},
    {reference_with_value, LS_ERR_FORMAT, "attribute \"k\" refers"},
    {bad_inner_tensor, LS_ERR_FORMAT, "node 2 (Everything)"},
    {bad_listed_tensor, LS_ERR_FORMAT, "node 2 (Everything)"},
    {unnamed_function, LS_ERR_FORMAT, "function has no name"},
    {two_functions, LS_ERR_FORMAT, "function \"Twice\" of domain \"local\" is there twice"},
    {function_reads, LS_ERR_FORMAT, "reads \"x\""},
    {function_gives, LS_ERR_FORMAT, "function \"Twice\": nothing gives its output \"y\""},
    {function_inputs, LS_ERR_FORMAT, "input \"a\": the name is taken"},
    {function_opset, LS_ERR_FORMAT, "Twice imports version -1"},
    {recursion, LS_ERR_FORMAT, "function \"Twice\" calls itself"},
    {mutual_recursion, LS_ERR_FORMAT, "calls itself"},
    {long_chain, LS_ERR_FORMAT, "inside too many others"},
    {wide_chain, LS_ERR_UNSUPPORTED, "more than"},
};

static void test_senseless(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
        ls_model *m;
        ls_error err;
        M = model();
        G = M->graph;
        senseless[i].spoil();
        ls_status status = load(M, &m, &err);
        if (status != senseless[i].status || !strstr(err.message, senseless[i].says)) {
            fail_msg("case %zu, \"%s\": %s: \"%s\"", i, senseless[i].says, ls_status_name(status), err.message);
        }
        ls_model_release(m);
    }
}

/* ---- damaged bytes ---- */

static uint64_t varint(const uint8_t **at) {
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return v;
        }
    }
}

/* Where each field of a message begins, into `out`; inside those that are messages too if `deep`. */
static size_t fields_of(const ProtobufCMessageDescriptor *type, const uint8_t *start, const uint8_t *at, const uint8_t *end, bool deep,
                        size_t *out) {
    size_t n = 0;
    while (at < end) {
        out[n++] = (size_t)(at - start);
        uint64_t tag = varint(&at);
        int wire = (int)(tag & 7);
        uint64_t length = wire == 5 ? 4 : wire == 1 ? 8 : varint(&at);
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
        assert_non_null(f);
        if (deep && f->type == PROTOBUF_C_TYPE_MESSAGE) {
            n += fields_of(f->descriptor, start, at, at + length, deep, out + n);
        }
        at += wire == 0 ? 0 : length;
    }
    return n;
}

/* Cut between two fields of the model it is a shorter model, which may even make sense; cut anywhere else it is damaged. */
static void test_truncated(void **state) {
    (void)state;
    size_t size, places[64], at = 0;
    uint8_t *bytes = pack(&model()->base, &size);
    size_t n = fields_of(&onnx__model_proto__descriptor, bytes, bytes, bytes + size, false, places);
    assert_true(size > 500 && n > 4);
    for (size_t k = 0; k < size; k++) {
        ls_model *m;
        ls_error err;
        bool between = at < n && places[at] == k;
        at += between;
        ls_status status = load_bytes(bytes, k, &m, &err);
        if (status != LS_ERR_FORMAT && !(between && status == LS_OK)) {
            fail_msg("cut to %zu of %zu bytes: %s \"%s\"", k, size, ls_status_name(status), err.message);
        }
        ls_model_release(m);
    }
    assert_int_equal(at, n);
}

/* An operator's name whose last letter is a NUL would be another one's. */
static void test_text_with_nul(void **state) {
    (void)state;
    size_t size;
    ls_model *m;
    ls_error err;
    uint8_t *bytes = pack(&model()->base, &size), *name = memmem(bytes, size, "Twice", 5);
    assert_non_null(name);
    name[4] = 0;
    assert_int_equal(load_bytes(bytes, size, &m, &err), LS_ERR_FORMAT);
    assert_non_null(strstr(err.message, "op_type has a NUL in it"));
}

/* Every field, however deep, with every other wire type. */
static void test_wire_types(void **state) {
    (void)state;
    static size_t places[4096];
    size_t size, n, refused = 0;
    uint8_t *bytes = pack(&model()->base, &size);
    n = fields_of(&onnx__model_proto__descriptor, bytes, bytes, bytes + size, true, places);
    assert_true(n > 150);
    for (size_t i = 0; i < n; i++) {
        uint8_t first = bytes[places[i]];
        for (uint8_t wire = 0; wire < 8; wire++) {
            ls_model *m;
            ls_error err;
            if (wire == (first & 7)) {
                continue;
            }
            bytes[places[i]] = (uint8_t)((first & ~7) | wire);
            ls_status status = load_bytes(bytes, size, &m, &err);
            if (status == LS_OK) {
                fail_msg("the field at byte %zu as wire type %d was read", places[i], wire);
            }
            refused++;
            ls_model_release(m);
        }
        bytes[places[i]] = first;
    }
    assert_int_equal(refused, n * 7);
}

static void test_mutated(void **state) {
    (void)state;
    size_t size;
    int refused = 0, accepted = 0;
    uint8_t *bytes = pack(&model()->base, &size), *copy = ls_arena_alloc(&made, size);
    ls_rng rng = {ls_rng_key(21, 0), 0};
    for (int i = 0; i < 20000; i++) {
        static const uint8_t loved[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x0a, 0x12, 0x08};
        memcpy(copy, bytes, size);
        for (uint64_t n = ls_rng_below(&rng, 3) + 1; n > 0; n--) {
            uint8_t *at = copy + ls_rng_below(&rng, size);
            *at = ls_rng_below(&rng, 2) ? (uint8_t)ls_rng_u32(&rng) : loved[ls_rng_below(&rng, sizeof loved)];
        }
        ls_model *m;
        ls_error err;
        *(load_bytes(copy, size, &m, &err) == LS_OK ? &accepted : &refused) += 1;
        for (int k = 0; m && k < ls_model_input_count(m); k++) {
            assert_non_null(ls_model_input(m, k).type);
        }
        ls_model_release(m);
    }
    print_message("%d mutated models refused, %d still valid\n", refused, accepted);
    assert_true(refused > 10000 && accepted > 100);
}

static void test_nesting(void **state) {
    (void)state;
    for (int depth = 40; depth <= 5000; depth += 4960) {
        Onnx__ModelProto *p = model();
        Onnx__TypeProto *type = tensor_type(ONNX_FLOAT, NULL);
        for (int i = 0; i < depth; i++) { /* two messages each */
            Onnx__TypeProto *outer = NEW(TypeProto, type_proto);
            outer->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
            outer->sequence_type = NEW(TypeProto__Sequence, type_proto__sequence);
            outer->sequence_type->elem_type = type;
            type = outer;
        }
        p->graph->output[0]->type = type;
        ls_model *m;
        ls_error err;
        ls_status status = load(p, &m, &err);
        if (depth == 40) {
            assert_int_equal(status, LS_OK);
        } else {
            assert_message(status, LS_ERR_FORMAT, &err, "deep", NULL);
        }
        ls_model_release(m);
    }
}

/* A message that its field holds twice would be merged; numbers that are not packed, and fields that nobody knows, are read over. */
static void test_encodings(void **state) {
    (void)state;
    size_t size;
    ls_model *m;
    ls_error err;
    uint8_t *bytes = pack(&model()->base, &size);
    uint8_t *more = ls_arena_alloc(&made, size + 64);
    static const uint8_t graph[] = {0x3a, 0x00};                            /* graph: empty */
    static const uint8_t unknown[] = {0xfa, 0x3f, 0x02, 0xff, 0xff, 0xf8, 0x3f, 0x01}; /* fields 1023: bytes, a varint */
    static const uint8_t group[] = {0xfb, 0x3f};                            /* of wire type 3 */
    memcpy(more, bytes, size);
    memcpy(more + size, graph, sizeof graph);
    assert_message(load_bytes(more, size + sizeof graph, &m, &err), LS_ERR_FORMAT, &err, "ModelProto.graph is there twice", NULL);
    memcpy(more + size, unknown, sizeof unknown);
    assert_int_equal(load_bytes(more, size + sizeof unknown, &m, &err), LS_OK);
    ls_model_release(m);
    memcpy(more + size, group, sizeof group);
    assert_message(load_bytes(more, size + sizeof group, &m, &err), LS_ERR_FORMAT, &err, "damaged", NULL);
    assert_message(load_bytes(bytes, 0, &m, &err), LS_ERR_FORMAT, &err, NULL);
    ls_data *data;
    static const uint8_t loose[] = {0x08, 2, 0x10, ONNX_INT32, 0x28, 5, 0x28, 7}; /* dims and int32_data, one by one */
    write_bytes(in_folder("loose.pb"), loose, sizeof loose);
    err = (ls_error){.code = LS_OK};
    assert_int_equal(ls_onnx_data_load(context, in_folder("loose.pb"), &data, &err), LS_OK);
    assert_memory_equal(ls_data_bytes(data), ((const int32_t[]){5, 7}), 8);
    ls_data_release(data);
    static const uint8_t torn[] = {0x0a, 2, 0x80, 0x80}; /* packed dims whose last varint does not end */
    write_bytes(in_folder("torn.pb"), torn, sizeof torn);
    assert_message(ls_onnx_data_load(context, in_folder("torn.pb"), &data, &err), LS_ERR_FORMAT, &err, "TensorProto.dims", NULL);
}

/* ---- memory ---- */

static void test_allocation_failures(void **state) {
    (void)state;
    write_bytes(in_folder("w.bin"), "12345678", 8);
    size_t size, before, after, peak;
    uint8_t *bytes = pack(&model_beside("w.bin", NULL, NULL, 2)->base, &size);
    write_bytes(in_folder("m.onnx"), bytes, size);
    ls_context_memory(context, &before, &peak);
    long fails = 0;
    for (;; fails++) {
        ls_model *m = NULL;
        ls_data *dense = NULL;
        int type;
        ls_error err = {.code = LS_OK};
        atomic_store(&ls_context_heap(context)->fail_after, fails);
        ls_status status = ls_model_load(context, in_folder("m.onnx"), &m, &err);
        if (status == LS_OK) {
            status = ls_onnx_sparse_data(m, ls_model_sparse_initializer(m, "sparse"), NULL, &dense, &type, &err);
        }
        bool all = atomic_exchange(&ls_context_heap(context)->fail_after, -1) >= 0;
        ls_data_release(dense);
        ls_model_release(m);
        ls_context_memory(context, &after, &peak);
        assert_int_equal(after, before);
        if (all) {
            assert_int_equal(status, LS_OK);
            break;
        }
        assert_message(status, LS_ERR_MEMORY, &err, NULL);
    }
    print_message("failed at each of %ld allocations\n", fails);
    assert_true(fails > 20);
}

/* What a model takes is the context's: a limit holds for it. */
static void test_memory_limit(void **state) {
    (void)state;
    Onnx__ModelProto *p = model();
    int64_t n = 1 << 20;
    Onnx__TensorProto *t = tensor("large", ONNX_FLOAT, 1, &n);
    t->raw_data = (ProtobufCBinaryData){(size_t)n * 4, ls_arena_alloc(&made, (size_t)n * 4)};
    PUSH(p->graph->initializer, p->graph->n_initializer, t);
    size_t size;
    uint8_t *bytes = pack(&p->base, &size);
    write_bytes(in_folder("large.onnx"), bytes, size);
    for (int room = 0; room < 2; room++) {
        const ls_context_options options = {.memory_limit = room ? (size_t)6 << 20 : (size_t)3 << 20};
        ls_context *small = NULL;
        ls_model *m = NULL;
        ls_error err = {.code = LS_OK};
        assert_int_equal(ls_context_create(&options, &small, NULL), LS_OK);
        ls_status status = ls_model_load(small, in_folder("large.onnx"), &m, &err);
        if (room) {
            assert_int_equal(status, LS_OK);
            ls_data *data = NULL; /* not a second copy */
            int type;
            assert_int_equal(ls_onnx_tensor_data(m, ls_model_initializer(m, "large"), NULL, &data, &type, &err), LS_OK);
            ls_data_release(data);
        } else {
            assert_message(status, LS_ERR_MEMORY, &err, "large.onnx", NULL);
        }
        ls_model_release(m);
        ls_context_destroy(small);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_senseless, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_with_nul, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wire_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mutated, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nesting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_encodings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_allocation_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_limit, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
