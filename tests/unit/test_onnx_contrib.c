/* Operators of com.microsoft against plain loops, and attention in one shot against the same in steps with a cache. */
#define _GNU_SOURCE
#include "onnx_support.h"
#include "base/rng.h"
#include <lockstep/device.h>
#include <lockstep/model.h>
#include <math.h>

typedef struct operand {
    int type, rank;
    int64_t dims[4];
    const void *bytes;
} operand;

static const char *const in_names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
static const char *const out_names[] = {"x", "y", "z"};

/* A node with operands as a model's inputs; one of type 0 is left out. */
static Onnx__ModelProto *one_node(const char *op, int n, const operand *in, int n_out, const int *types) {
    Onnx__ModelProto *m = NEW(ModelProto, model_proto);
    m->ir_version = 8;
    m->graph = NEW(GraphProto, graph_proto);
    m->graph->name = (char *)"main";
    PUSH(m->opset_import, m->n_opset_import, opset("", 17));
    PUSH(m->opset_import, m->n_opset_import, opset("com.microsoft", 1));
    Onnx__NodeProto *node = add_node(m->graph, op, "", "");
    node->domain = (char *)"com.microsoft";
    for (int i = 0; i < n; i++) {
        PUSH(node->input, node->n_input, (char *)(in[i].type ? in_names[i] : ""));
        if (in[i].type) {
            INPUT(m->graph, value(in_names[i], tensor_type(in[i].type, NULL)));
        }
    }
    for (int i = 0; i < n_out; i++) {
        PUSH(node->output, node->n_output, (char *)out_names[i]);
        OUTPUT(m->graph, value(out_names[i], tensor_type(types[i], NULL)));
    }
    return m;
}

static void set_int(Onnx__ModelProto *m, const char *name, int64_t i) {
    attribute(m->graph->node[0], name, ATTR(INT))->i = i;
}

static void run(const Onnx__ModelProto *p, int n, const operand *in, ls_data **out) {
    ls_error err = {.code = LS_OK};
    ls_model *m;
    ls_device *device;
    ls_session *s;
    ls_runner *r;
    ls_named_data named[9];
    ls_data *given[9];
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (in[i].type) {
            assert_int_equal(ls_data_create(context, ls_onnx_carrier(in[i].type), in[i].rank, in[i].dims,
                                            in[i].bytes, &given[count], NULL),
                             LS_OK);
            named[count] = (ls_named_data){in_names[i], given[count]};
            count++;
        }
    }
    assert_int_equal(ls_device_open(context, "cpu", &device, &err), LS_OK);
    assert_int_equal(ls_session_create(context, device, &s, &err), LS_OK);
    assert_int_equal(load(p, &m, &err), LS_OK);
    assert_int_equal(ls_runner_create(s, m, &r), LS_OK);
    if (ls_runner_run(r, count, named, out) != LS_OK) {
        fail_msg("%s: %s", p->graph->node[0]->op_type, ls_session_error(s)->message);
    }
    ls_runner_destroy(r);
    ls_model_release(m);
    ls_session_destroy(s);
    for (int i = 0; i < count; i++) {
        ls_data_release(given[i]);
    }
}

static void normal(ls_rng *rng, float *x, int n) {
    for (int i = 0; i < n; i++) {
        x[i] = (float)ls_rng_normal(rng);
    }
}

/* ---- products ---- */

static void blocks_of_four_bits(void **state) {
    (void)state;
    enum { M = 3, K = 40, N = 5 };
    static float a[M * K], scales[N * 3], bias[N];
    static uint8_t codes[N * 64 / 2], zeros[N * 2];
    ls_rng rng = {1, 0};
    normal(&rng, a, M * K);
    normal(&rng, scales, N * 3);
    normal(&rng, bias, N);
    for (size_t i = 0; i < sizeof codes; i++) {
        codes[i] = (uint8_t)ls_rng_below(&rng, 256);
    }
    for (size_t i = 0; i < sizeof zeros; i++) {
        zeros[i] = (uint8_t)ls_rng_below(&rng, 256);
    }
    for (int form = 0; form < 4; form++) { /* 32 is what `cpu` keeps in 4 bits */
        int with_zeros = form % 2, block = form / 2 ? 32 : 16, blocks = (K + block - 1) / block, line = (blocks + 1) / 2;
        const operand in[] = {{ONNX_FLOAT, 2, {M, K}, a},
                              {ONNX_UINT8, 3, {N, blocks, block / 2}, codes},
                              {ONNX_FLOAT, 1, {N * blocks}, scales},
                              {with_zeros ? ONNX_UINT8 : 0, 1, {N * line}, zeros},
                              {0, 0, {0}, NULL},
                              {ONNX_FLOAT, 1, {N}, bias}};
        Onnx__ModelProto *m = one_node("MatMulNBits", 6, in, 1, (int[]){ONNX_FLOAT});
        set_int(m, "K", K);
        set_int(m, "N", N);
        set_int(m, "bits", 4);
        set_int(m, "block_size", block);
        ls_data *y;
        run(m, 6, in, &y);
        assert_int_equal(ls_data_numel(y), M * N);
        for (int i = 0; i < M * N; i++) {
            float sum = 0; /* K is below a chunk: one ascending sum */
            for (int k = 0; k < K; k++) {
                int row = i % N, at = row * blocks * block + k, zero = 8;
                int code = codes[at / 2] >> (at % 2 * 4) & 15;
                if (with_zeros) {
                    zero = zeros[row * line + k / block / 2] >> (k / block % 2 * 4) & 15;
                }
                float w = (float)(code - zero) * scales[row * blocks + k / block];
                sum = sum + a[i / N * K + k] * w;
            }
            assert_true(((const float *)ls_data_bytes(y))[i] == sum + bias[i % N]);
        }
        ls_data_release(y);
    }
}

/* transBatchA and transA: a[K,B,M] stands for [B,M,K]. */
static void batches_in_the_middle(void **state) {
    (void)state;
    enum { B = 2, M = 3, K = 4, N = 5 };
    static float a[K * B * M], b[B * K * N];
    ls_rng rng = {2, 0};
    normal(&rng, a, K * B * M);
    normal(&rng, b, B * K * N);
    const operand in[] = {{ONNX_FLOAT, 3, {K, B, M}, a}, {ONNX_FLOAT, 3, {B, K, N}, b}};
    Onnx__ModelProto *p = one_node("FusedMatMul", 2, in, 1, (int[]){ONNX_FLOAT});
    set_int(p, "transA", 1);
    set_int(p, "transBatchA", 1);
    attribute(p->graph->node[0], "alpha", ATTR(FLOAT))->f = 0.5f;
    ls_data *y;
    run(p, 2, in, &y);
    assert_int_equal(ls_data_numel(y), B * M * N);
    for (int i = 0; i < B * M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) {
            sum = sum + a[(k * B + i / (M * N)) * M + i / N % M] * b[(i / (M * N) * K + k) * N + i % N];
        }
        assert_true(((const float *)ls_data_bytes(y))[i] == sum * 0.5f);
    }
    ls_data_release(y);
}

/* Every pair of codes, to the code. */
static void sums_of_codes(void **state) {
    (void)state;
    static uint8_t a[65536], b[65536];
    static const float scale[] = {0.03f, 0.05f, 0.07f};
    static const uint8_t zero[] = {7, 20, 11};
    for (int i = 0; i < 65536; i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i >> 8);
    }
    const operand in[] = {{ONNX_UINT8, 1, {65536}, a},     {ONNX_FLOAT, 0, {0}, scale},
                          {ONNX_UINT8, 0, {0}, zero},      {ONNX_UINT8, 1, {65536}, b},
                          {ONNX_FLOAT, 0, {0}, scale + 1}, {ONNX_UINT8, 0, {0}, zero + 1},
                          {ONNX_FLOAT, 0, {0}, scale + 2}, {ONNX_UINT8, 0, {0}, zero + 2}};
    for (int product = 0; product < 2; product++) {
        ls_data *y;
        run(one_node(product ? "QLinearMul" : "QLinearAdd", 8, in, 1, (int[]){ONNX_UINT8}), 8, in, &y);
        for (int i = 0; i < 65536; i++) {
            float u = (float)(a[i] - zero[0]) * scale[0], v = (float)(b[i] - zero[1]) * scale[1];
            float w = rintf((product ? u * v : u + v) / scale[2]) + (float)zero[2];
            assert_int_equal(((const uint8_t *)ls_data_bytes(y))[i], w < 0 ? 0 : w > 255 ? 255 : (int)w);
        }
        ls_data_release(y);
    }
}

/* ---- attention ---- */

enum { STEPS = 5, HEADS = 4, GROUPS = 2, SIZE = 16 };
static float q[STEPS * HEADS * SIZE], k[STEPS * GROUPS * SIZE], v[STEPS * GROUPS * SIZE],
    turns[2][8 * SIZE / 2];

/* Steps from..to with what came before as the past: the output, and the keys and values so far. */
static void grouped(int from, int to, const ls_data *const *past, ls_data **out) {
    const int32_t last = to - 1, total = to;
    int n = to - from;
    const operand in[] = {
        {ONNX_FLOAT, 3, {1, n, HEADS * SIZE}, q + from * HEADS * SIZE},
        {ONNX_FLOAT, 3, {1, n, GROUPS * SIZE}, k + from * GROUPS * SIZE},
        {ONNX_FLOAT, 3, {1, n, GROUPS * SIZE}, v + from * GROUPS * SIZE},
        {from ? ONNX_FLOAT : 0, 4, {1, GROUPS, from, SIZE}, from ? ls_data_bytes(past[1]) : NULL},
        {from ? ONNX_FLOAT : 0, 4, {1, GROUPS, from, SIZE}, from ? ls_data_bytes(past[2]) : NULL},
        {ONNX_INT32, 1, {1}, &last},
        {ONNX_INT32, 1, {1}, &total},
        {ONNX_FLOAT, 2, {8, SIZE / 2}, turns[0]},
        {ONNX_FLOAT, 2, {8, SIZE / 2}, turns[1]}};
    Onnx__ModelProto *m =
        one_node("GroupQueryAttention", 9, in, 3, (int[]){ONNX_FLOAT, ONNX_FLOAT, ONNX_FLOAT});
    set_int(m, "num_heads", HEADS);
    set_int(m, "kv_num_heads", GROUPS);
    set_int(m, "do_rotary", 1);
    run(m, 9, in, out);
}

/* A prompt at once, and its first part and then step by step with a growing cache: the same bits. */
static void steps_equal_one_shot(void **state) {
    (void)state;
    ls_rng rng = {3, 0};
    normal(&rng, q, STEPS * HEADS * SIZE);
    normal(&rng, k, STEPS * GROUPS * SIZE);
    normal(&rng, v, STEPS * GROUPS * SIZE);
    normal(&rng, turns[0], 2 * 8 * SIZE / 2);
    ls_data *whole[3], *past[3] = {NULL}, *now[3];
    grouped(0, STEPS, NULL, whole);
    for (int from = 0, to = 2; from < STEPS; from = to++) {
        grouped(from, to, (const ls_data *const *)past, now);
        assert_int_equal(ls_data_size(now[0]), (size_t)(to - from) * HEADS * SIZE * sizeof(float));
        const char *want =
            (const char *)ls_data_bytes(whole[0]) + (size_t)from * HEADS * SIZE * sizeof(float);
        assert_memory_equal(ls_data_bytes(now[0]), want, ls_data_size(now[0]));
        for (int i = 0; i < 3; i++) {
            ls_data_release(past[i]);
            past[i] = now[i];
        }
    }
    for (int i = 0; i < 3; i++) {
        if (i) {
            assert_int_equal(ls_data_size(past[i]), ls_data_size(whole[i]));
            assert_memory_equal(ls_data_bytes(past[i]), ls_data_bytes(whole[i]), ls_data_size(past[i]));
        }
        ls_data_release(past[i]);
        ls_data_release(whole[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_of_four_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(batches_in_the_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_of_codes, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_equal_one_shot, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
