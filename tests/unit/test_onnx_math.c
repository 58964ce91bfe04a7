/* Arithmetic, casts, reductions and quantisation of ONNX beyond what the ONNX project's cases hold: every
 * code of the small floating types against a search for the nearest, strings, integers of all kinds,
 * blocks, and zero points by row and channel. */
#define _GNU_SOURCE
#include "onnx_support.h"
#include "base/rng.h"
#include <lockstep/device.h>
#include <lockstep/model.h>
#include <math.h>

/* ---- a model of one node, run with its operands as inputs and as initialisers ---- */

typedef struct operand {
    int type, rank;
    int64_t dims[4];
    const void *bytes;
} operand;

typedef struct case_of_one {
    Onnx__ModelProto *model;
    Onnx__NodeProto *node;
    int n;
    operand in[8];
} case_of_one;

static const char *const operand_names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static case_of_one start(const char *op, int64_t version, int n, const operand *in) {
    case_of_one c = {.model = NEW(ModelProto, model_proto), .n = n};
    c.model->ir_version = 10;
    c.model->graph = NEW(GraphProto, graph_proto);
    c.model->graph->name = (char *)"main";
    PUSH(c.model->opset_import, c.model->n_opset_import, opset("", version));
    c.node = add_node(c.model->graph, op, "", "y");
    for (int i = 0; i < n; i++) {
        c.in[i] = in[i];
        PUSH(c.node->input, c.node->n_input, (char *)(in[i].type ? operand_names[i] : ""));
    }
    return c;
}

static void set_int(case_of_one *c, const char *name, int64_t i) {
    attribute(c->node, name, ATTR(INT))->i = i;
}
static void set_float(case_of_one *c, const char *name, float f) {
    attribute(c->node, name, ATTR(FLOAT))->f = f;
}
static void set_string(case_of_one *c, const char *name, const char *s) {
    attribute(c->node, name, ATTR(STRING))->s = (ProtobufCBinaryData){strlen(s), (uint8_t *)s};
}
static void set_ints(case_of_one *c, const char *name, int n, const int64_t *list) {
    Onnx__AttributeProto *a = attribute(c->node, name, ATTR(INTS));
    for (int i = 0; i < n; i++) {
        PUSH(a->ints, a->n_ints, list[i]);
    }
}

static bool packed(int type) {
    return type == ONNX_UINT4 || type == ONNX_INT4 || type == ONNX_FLOAT4E2M1 || type == ONNX_UINT2 ||
           type == ONNX_INT2;
}

static int64_t elements(const operand *o) {
    int64_t n = 1;
    for (int i = 0; i < o->rank; i++) {
        n *= o->dims[i];
    }
    return n;
}

static long fail_after = -1; /* allocations of a run until one fails */

static ls_status run_model(const case_of_one *c, int n, const ls_named_data *in, ls_data **out,
                           ls_error *err) {
    ls_model *m;
    ls_device *device;
    ls_session *s;
    ls_runner *r = NULL;
    assert_int_equal(ls_device_open(context, "cpu", &device, err), LS_OK);
    assert_int_equal(ls_session_create(context, device, &s, err), LS_OK);
    ls_status status = load(c->model, &m, err);
    if (status == LS_OK) {
        status = ls_runner_create(s, m, &r);
        ls_context_heap(context)->fail_after = fail_after;
        status = status == LS_OK ? ls_runner_run(r, n, in, out) : status;
        ls_context_heap(context)->fail_after = -1;
        if (status != LS_OK) {
            *err = *ls_session_error(s);
        }
        ls_runner_destroy(r);
        ls_model_release(m);
    }
    ls_session_destroy(s);
    return status;
}

/* The result y, of ONNX type `type`; as inputs and as initialisers it must be the same. */
static ls_data *result(case_of_one *c, int type) {
    Onnx__GraphProto *g = c->model->graph;
    ls_named_data in[8];
    ls_data *given[8], *y[2] = {NULL, NULL};
    bool any_packed = false;
    int n = 0;
    ls_error err = {.code = LS_OK};
    g->n_output = g->n_input = g->n_initializer = 0;
    OUTPUT(g, value("y", tensor_type(type, NULL)));
    for (int i = 0; i < c->n; i++) {
        const operand *o = &c->in[i];
        if (!o->type) {
            continue;
        }
        any_packed |= packed(o->type);
        INPUT(g, value(operand_names[i], tensor_type(o->type, NULL)));
        given[n] = NULL;
        assert_int_equal(
            ls_data_create(context, ls_onnx_carrier(o->type), o->rank, o->dims, o->bytes, &given[n], NULL),
            LS_OK);
        in[n] = (ls_named_data){operand_names[i], given[n]};
        n++;
    }
    if (run_model(c, n, in, &y[0], &err) != LS_OK) {
        fail_msg("%s: %s", c->node->op_type, err.message);
    }
    if (!any_packed) {
        g->n_input = 0;
        for (int i = 0; i < c->n; i++) {
            const operand *o = &c->in[i];
            if (o->type) {
                size_t size = (size_t)elements(o) * ls_dtype_size(ls_onnx_carrier(o->type));
                PUSH(g->initializer, g->n_initializer,
                     raw(tensor(operand_names[i], o->type, o->rank, o->dims), o->bytes, size));
            }
        }
        if (run_model(c, 0, NULL, &y[1], &err) != LS_OK) {
            fail_msg("%s with initialisers: %s", c->node->op_type, err.message);
        }
        assert_int_equal(ls_data_size(y[0]), ls_data_size(y[1]));
        assert_memory_equal(ls_data_bytes(y[0]), ls_data_bytes(y[1]), ls_data_size(y[0]));
        ls_data_release(y[1]);
    }
    for (int i = 0; i < n; i++) {
        ls_data_release(given[i]);
    }
    assert_int_equal(ls_data_dtype(y[0]), ls_onnx_carrier(type));
    return y[0];
}

#define ASSERT_RESULT(c, type, T, ...)                                                                       \
    do {                                                                                                     \
        const T want_[] = {__VA_ARGS__};                                                                     \
        ls_data *got_ = result(c, type);                                                                     \
        assert_int_equal(ls_data_size(got_), sizeof want_);                                                  \
        for (size_t i_ = 0; i_ < sizeof want_ / sizeof *want_; i_++) {                                       \
            T g_ = ((const T *)ls_data_bytes(got_))[i_];                                                     \
            if (!(g_ == want_[i_] || (g_ != g_ && want_[i_] != want_[i_]))) {                                \
                fail_msg("%s (line %d): element %d is %g, expected %g", (c)->node->op_type, __LINE__,        \
                         (int)i_, (double)g_, (double)want_[i_]);                                            \
            }                                                                                                \
        }                                                                                                    \
        ls_data_release(got_);                                                                               \
    } while (0)

#define LINE(type, n, data)                                                                                  \
    { (type), 1, {(n)}, (data) }

/* ---- small floating types ---- */

typedef struct small {
    int type, mantissa, bias, codes, sign, infinity; /* `infinity`: its code, or -1 */
    int first_nan, last_nan;                         /* positive codes that are NaN */
    bool fnuz;
} small;

static const small smalls[] = {{ONNX_FLOAT8E4M3FN, 3, 7, 256, 128, -1, 127, 127, false},
                               {ONNX_FLOAT8E4M3FNUZ, 3, 8, 256, 128, -1, 128, 127, true},
                               {ONNX_FLOAT8E5M2, 2, 15, 256, 128, 124, 125, 127, false},
                               {ONNX_FLOAT8E5M2FNUZ, 2, 16, 256, 128, -1, 128, 127, true},
                               {ONNX_FLOAT4E2M1, 1, 1, 16, 8, -1, 8, 7, false}};

static double small_value(const small *f, int code) {
    int magnitude = code & (f->sign - 1);
    double sign = code & f->sign ? -1 : 1;
    if (f->fnuz && code == f->sign) {
        return NAN;
    }
    if (magnitude >= f->first_nan && magnitude <= f->last_nan) {
        return NAN;
    }
    if (magnitude == f->infinity) {
        return sign * HUGE_VAL;
    }
    int e = magnitude >> f->mantissa, m = magnitude & ((1 << f->mantissa) - 1);
    return sign * (e ? ldexp(m + (1 << f->mantissa), e - f->bias - f->mantissa)
                     : ldexp(m, 1 - f->bias - f->mantissa));
}

/* By search: the nearest finite code, of two equally near the even one; beyond half a step past the
 * largest, out of range. */
static int nearest(const small *f, double x, bool saturate) {
    int best = 0, sign = signbit(x) ? f->sign : 0;
    double a = fmin(fabs(x), 1e9), distance = HUGE_VAL, step = 0, largest = 0;
    for (int code = 0; code < f->sign; code++) {
        double v = small_value(f, code);
        if (!(fabs(v) <= 1e30)) {
            continue;
        }
        step = v - largest;
        largest = v;
        if (fabs(a - v) < distance || (fabs(a - v) == distance && !(code & 1))) {
            distance = fabs(a - v);
            best = code;
        }
    }
    bool odd = best & 1; /* of the largest: a tie past it leaves */
    if ((a > largest + step / 2 || (a == largest + step / 2 && odd)) && !saturate &&
        f->type != ONNX_FLOAT4E2M1) {
        return f->fnuz ? f->sign : sign | (f->infinity >= 0 ? f->infinity : f->first_nan);
    }
    return best == 0 && f->fnuz ? 0 : sign | best;
}

enum { MANY = 4096 };

static void small_floats_read_and_write(void **state) {
    (void)state;
    ls_rng rng = {21, 0};
    for (size_t i = 0; i < sizeof smalls / sizeof *smalls; i++) {
        const small *f = &smalls[i];
        uint8_t codes[256];
        for (int k = 0; k < 256; k++) {
            codes[k] = (uint8_t)(k % f->codes);
        }
        const operand all[] = {LINE(f->type, f->codes, codes)};
        case_of_one c = start("Cast", 25, 1, all);
        set_int(&c, "to", ONNX_FLOAT);
        ls_data *y = result(&c, ONNX_FLOAT);
        const float *read = ls_data_bytes(y);
        for (int k = 0; k < f->codes; k++) {
            double want = small_value(f, k);
            assert_true(want != want ? read[k] != read[k]
                                     : (double)read[k] == want && !signbit(want) == !signbit(read[k]));
        }
        static float x[MANY];
        static double d[MANY];
        for (int k = 0; k < MANY; k++) { /* codes, halves between codes and their neighbours, and anything */
            double v = small_value(f, (int)ls_rng_below(&rng, (uint64_t)f->codes)), u;
            u = small_value(f, (int)ls_rng_below(&rng, (uint64_t)f->codes));
            int kind = (int)ls_rng_below(&rng, 5);
            v = kind < 2   ? v
                : kind < 4 ? (v + u) / 2
                           : ldexp(2 * ls_rng_unit(&rng) - 1, (int)ls_rng_below(&rng, 44) - 24);
            v = v == v ? v : 0;
            x[k] = kind == 1 ? nextafterf((float)v, kind & k ? HUGE_VALF : -HUGE_VALF) : (float)v;
            d[k] = kind == 3 ? nextafter(v, k & 1 ? HUGE_VAL : -HUGE_VAL) : v; /* rounds to a tie in f32 */
        }
        for (int saturate = 0; saturate < 2; saturate++) {
            const operand singles[] = {LINE(ONNX_FLOAT, MANY, x)}, doubles[] = {LINE(ONNX_DOUBLE, MANY, d)};
            case_of_one a = start("Cast", 25, 1, singles), b = start("Cast", 25, 1, doubles);
            set_int(&a, "to", f->type);
            set_int(&a, "saturate", saturate);
            set_int(&b, "to", f->type);
            set_int(&b, "saturate", saturate);
            ls_data *ya = result(&a, f->type), *yb = result(&b, f->type);
            for (int k = 0; k < MANY; k++) {
                int got = ((const uint8_t *)ls_data_bytes(ya))[k], want = nearest(f, (double)x[k], saturate);
                int got_b = ((const uint8_t *)ls_data_bytes(yb))[k], want_b = nearest(f, d[k], saturate);
                if (got != want || got_b != want_b) {
                    fail_msg("%s, saturate %d: %.9g gives %#x, expected %#x; %.17g gives %#x, expected %#x",
                             ls_onnx_type_name(f->type), saturate, (double)x[k], got, want, d[k], got_b,
                             want_b);
                }
            }
            ls_data_release(ya);
            ls_data_release(yb);
        }
        ls_data_release(y);
    }
}

static void powers_of_two_round_three_ways(void **state) {
    (void)state;
    const float x[] = {0,           1,           1.0001f,   1.4999f,  1.5f,       2,         0x1p-127f,
                       0x1.8p-127f, 0x1.4p-127f, 0x1p-128f, 0x1p127f, 0x1.8p127f, HUGE_VALF, NAN};
    const operand in[] = {LINE(ONNX_FLOAT, 14, x)};
    static const struct {
        const char *mode;
        int saturate;
        uint8_t want[14];
    } cases[] = {{"up", 1, {0, 127, 128, 128, 128, 128, 0, 1, 1, 0, 254, 254, 254, 255}},
                 {"down", 1, {0, 127, 127, 127, 127, 128, 0, 0, 0, 0, 254, 254, 254, 255}},
                 {"nearest", 1, {0, 127, 127, 127, 128, 128, 0, 1, 0, 0, 254, 254, 254, 255}},
                 {"nearest", 0, {255, 127, 127, 127, 128, 128, 0, 1, 0, 255, 254, 255, 255, 255}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        case_of_one c = start("Cast", 25, 1, in);
        set_int(&c, "to", ONNX_FLOAT8E8M0);
        set_int(&c, "saturate", cases[i].saturate);
        set_string(&c, "round_mode", cases[i].mode);
        ls_data *y = result(&c, ONNX_FLOAT8E8M0);
        for (int k = 0; k < 14; k++) {
            if (((const uint8_t *)ls_data_bytes(y))[k] != cases[i].want[k]) {
                fail_msg("%s: %g gives %d, expected %d", cases[i].mode, (double)x[k],
                         ((const uint8_t *)ls_data_bytes(y))[k], cases[i].want[k]);
            }
        }
        ls_data_release(y);
    }
}

/* ---- old operator sets ---- */

static void assert_refused(case_of_one *c, const char *part) {
    Onnx__GraphProto *g = c->model->graph;
    ls_data *given[8], *y = NULL;
    ls_error err = {.code = LS_OK};
    c->node->name = (char *)"old";
    OUTPUT(g, value("y", tensor_type(ONNX_FLOAT, NULL)));
    for (int i = 0; i < c->n; i++) {
        INPUT(g, value(operand_names[i], tensor_type(c->in[i].type, NULL)));
    }
    ls_named_data in[8];
    for (int i = 0; i < c->n; i++) {
        const operand *o = &c->in[i];
        assert_int_equal(ls_data_create(context, ls_onnx_carrier(o->type), o->rank, o->dims, o->bytes, &given[i], NULL), LS_OK);
        in[i] = (ls_named_data){operand_names[i], given[i]};
    }
    assert_int_not_equal(run_model(c, c->n, in, &y, &err), LS_OK);
    if (!strstr(err.message, part) || !strstr(err.message, "\"old\"")) {
        fail_msg("\"%s\": expected \"%s\" of node \"old\"", err.message, part);
    }
    for (int i = 0; i < c->n; i++) {
        ls_data_release(given[i]);
    }
}

/* Before opset 7 the second operand's axes may stand beside those of the first from `axis` on; operators whose first versions
 * say something else are refused. */
static void old_versions(void **state) {
    (void)state;
    static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[2] = {2, 4}, m[4] = {1, 2, 3, 4};
    static const uint8_t t[8] = {1, 1, 1, 1, 0, 0, 0, 0}, u[2] = {0, 1};
    const operand xs = {ONNX_FLOAT, 4, {1, 2, 2, 2}, x}, ts = {ONNX_BOOL, 4, {1, 2, 2, 2}, t};
    const operand line[] = {xs, LINE(ONNX_FLOAT, 2, b)}, square[] = {xs, {ONNX_FLOAT, 2, {2, 2}, m}},
                  one[] = {xs, {ONNX_FLOAT, 0, {0}, b}}, bools[] = {ts, LINE(ONNX_BOOL, 2, u)};
#define ALONG(op, in, axis, type, T, ...)                                                                    \
    do {                                                                                                     \
        case_of_one c_ = start(op, 6, 2, in);                                                                \
        set_int(&c_, "broadcast", 1);                                                                        \
        set_int(&c_, "axis", axis);                                                                          \
        ASSERT_RESULT(&c_, type, T, __VA_ARGS__);                                                            \
    } while (0)
    ALONG("Add", line, 1, ONNX_FLOAT, float, 3, 4, 5, 6, 9, 10, 11, 12);
    ALONG("Sub", line, 2, ONNX_FLOAT, float, -1, 0, -1, 0, 3, 4, 3, 4);
    ALONG("Mul", line, 3, ONNX_FLOAT, float, 2, 8, 6, 16, 10, 24, 14, 32);
    ALONG("Div", line, -3, ONNX_FLOAT, float, 0.5f, 1, 1.5f, 2, 1.25f, 1.5f, 1.75f, 2);
    ALONG("Pow", line, 1, ONNX_FLOAT, float, 1, 4, 9, 16, 625, 1296, 2401, 4096);
    ALONG("Pow", one, 1, ONNX_FLOAT, float, 1, 4, 9, 16, 25, 36, 49, 64);
    ALONG("Add", square, 1, ONNX_FLOAT, float, 2, 3, 5, 6, 8, 9, 11, 12);
    ALONG("Add", square, 2, ONNX_FLOAT, float, 2, 4, 6, 8, 6, 8, 10, 12);
    ALONG("Greater", line, 1, ONNX_BOOL, uint8_t, 0, 0, 1, 1, 1, 1, 1, 1);
    ALONG("Less", line, 1, ONNX_BOOL, uint8_t, 1, 0, 0, 0, 0, 0, 0, 0);
    ALONG("Equal", line, 1, ONNX_BOOL, uint8_t, 0, 1, 0, 0, 0, 0, 0, 0);
    ALONG("And", bools, 1, ONNX_BOOL, uint8_t, 0, 0, 0, 0, 0, 0, 0, 0);
    ALONG("Or", bools, 1, ONNX_BOOL, uint8_t, 1, 1, 1, 1, 1, 1, 1, 1);
    ALONG("Xor", bools, 1, ONNX_BOOL, uint8_t, 1, 1, 1, 1, 1, 1, 1, 1);
    case_of_one c = start("Add", 6, 2, square);
    set_int(&c, "axis", 3);
    assert_refused(&c, "operand 1 of rank 2 from axis 3 on: expected it to fit in rank 4");
    c = start("Add", 7, 2, line); /* no attribute of this version */
    set_int(&c, "axis", 1);
    ASSERT_RESULT(&c, ONNX_FLOAT, float, 3, 6, 5, 8, 7, 10, 9, 12);
    const operand low[] = {LINE(ONNX_FLOAT, 2, ((const float[]){1, 0}))};
    c = start("Selu", 5, 1, low);
    ASSERT_RESULT(&c, ONNX_FLOAT, float, 1.0507f, 0);
    c = start("Dropout", 6, 1, low);
    assert_refused(&c, "is_test is 0");
    c = start("Dropout", 6, 1, low);
    set_int(&c, "is_test", 1);
    ASSERT_RESULT(&c, ONNX_FLOAT, float, 1, 0);
    c = start("Cast", 5, 1, low);
    set_string(&c, "to", "INT64");
    assert_refused(&c, "Cast, opset 5");
    c = start("Upsample", 6, 1, line);
    set_float(&c, "width_scale", 2);
    assert_refused(&c, "Upsample, opset 6");
    c = start("MeanVarianceNormalization", 8, 1, line);
    assert_refused(&c, "MeanVarianceNormalization, opset 8");
    c = start("GlobalLpPool", 1, 1, line);
    set_float(&c, "p", 2);
    assert_refused(&c, "expected a whole number");
    static const float n[] = {1, 1, 0, 0, 0, 0, 1, 1}; /* scales, shifts, means, variances of two channels */
    const operand norm[] = {xs, LINE(ONNX_FLOAT, 2, n), LINE(ONNX_FLOAT, 2, n + 2), LINE(ONNX_FLOAT, 2, n + 4), LINE(ONNX_FLOAT, 2, n + 6)};
    for (int test = 0; test < 2; test++) { /* with two results in training alone */
        c = start("BatchNormalization", 6, 5, norm);
        PUSH(c.node->output, c.node->n_output, (char *)"mean");
        set_int(&c, "is_test", test);
        if (test) {
            assert_refused(&c, "result 1 (\"mean\") is not supported");
        } else {
            ls_data *y = result(&c, ONNX_FLOAT);
            assert_true(((const float *)ls_data_bytes(y))[0] < 0);
            ls_data_release(y);
        }
    }
}

/* ---- strings ---- */

static Onnx__TensorProto *strings(const char *name, int n, const char *const *list) {
    Onnx__TensorProto *t = tensor(name, ONNX_STRING, 1, (const int64_t[]){n});
    for (int i = 0; i < n; i++) {
        PUSH(t->string_data, t->n_string_data, ((ProtobufCBinaryData){strlen(list[i]), (uint8_t *)list[i]}));
    }
    return t;
}

/* y = Equal(Cast(a, string), texts) */
static void assert_texts(int type, int n, const void *numbers, const char *const *texts) {
    const operand in[] = {LINE(type, n, numbers)};
    case_of_one c = start("Cast", 25, 1, in);
    set_int(&c, "to", ONNX_STRING);
    c.node->output[0] = (char *)"s";
    PUSH(c.model->graph->initializer, c.model->graph->n_initializer, strings("t", n, texts));
    add_node(c.model->graph, "Equal", "s t", "y");
    OUTPUT(c.model->graph, value("y", tensor_type(ONNX_BOOL, NULL)));
    INPUT(c.model->graph, value("a", tensor_type(type, NULL)));
    ls_data *x = NULL, *y = NULL;
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_data_create(context, ls_onnx_carrier(type), 1, in->dims, numbers, &x, NULL), LS_OK);
    if (run_model(&c, 1, &(ls_named_data){"a", x}, &y, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    for (int i = 0; i < n; i++) {
        if (!((const uint8_t *)ls_data_bytes(y))[i]) {
            fail_msg("element %d is not \"%s\"", i, texts[i]);
        }
    }
    ls_data_release(x);
    ls_data_release(y);
}

static ls_status from_texts(int type, int n, const char *const *texts, ls_data **out, ls_error *err) {
    case_of_one c = start("Cast", 25, 0, NULL);
    PUSH(c.node->input, c.node->n_input, (char *)"t");
    set_int(&c, "to", type);
    PUSH(c.model->graph->initializer, c.model->graph->n_initializer, strings("t", n, texts));
    OUTPUT(c.model->graph, value("y", tensor_type(type, NULL)));
    return run_model(&c, 0, NULL, out, err);
}

static void strings_and_numbers(void **state) {
    (void)state;
    assert_texts(ONNX_FLOAT, 9,
                 (const float[]){0.1f, -2, 1e6f, 1e-7f, 3.4e38f, HUGE_VALF, NAN, 0.001f, 123456.789f},
                 (const char *const[]){"0.1", "-2.0", "1000000.0", "1e-07", "3.4e+38", "inf", "nan", "0.001",
                                       "123456.79"});
    assert_texts(ONNX_DOUBLE, 4, (const double[]){0.1, 1e16, 1.5e300, -0.0},
                 (const char *const[]){"0.1", "1e+16", "1.5e+300", "-0.0"});
    assert_texts(ONNX_INT64, 2, (const int64_t[]){INT64_MIN, 7},
                 (const char *const[]){"-9223372036854775808", "7"});
    assert_texts(ONNX_UINT64, 1, (const uint64_t[]){UINT64_MAX},
                 (const char *const[]){"18446744073709551615"});
    assert_texts(ONNX_INT8, 1, (const int8_t[]){-5}, (const char *const[]){"-5"});
    assert_texts(ONNX_BOOL, 2, (const uint8_t[]){1, 0}, (const char *const[]){"True", "False"});
    ls_data *y = NULL;
    ls_error err = {.code = LS_OK};
    const char *const texts[] = {"3.14", "+INF", "-inf", "NaN", "1e-5", "1E8", "-7"};
    assert_int_equal(from_texts(ONNX_FLOAT, 7, texts, &y, &err), LS_OK);
    const float want[] = {3.14f, HUGE_VALF, -HUGE_VALF, NAN, 1e-5f, 1e8f, -7};
    for (int i = 0; i < 7; i++) {
        float got = ((const float *)ls_data_bytes(y))[i];
        assert_true(got == want[i] || (i == 3 && got != got));
    }
    ls_data_release(y);
    assert_int_equal(
        from_texts(ONNX_INT64, 2, (const char *const[]){"-9223372036854775807", "100"}, &y, &err), LS_OK);
    assert_true(((const int64_t *)ls_data_bytes(y))[0] == -INT64_MAX &&
                ((const int64_t *)ls_data_bytes(y))[1] == 100);
    ls_data_release(y);
    assert_int_equal(from_texts(ONNX_UINT64, 1, (const char *const[]){"18446744073709551615"}, &y, &err),
                     LS_OK);
    assert_true(((const uint64_t *)ls_data_bytes(y))[0] == UINT64_MAX);
    ls_data_release(y);
    assert_int_equal(from_texts(ONNX_FLOAT, 1, (const char *const[]){"Hello World!"}, &y, &err),
                     LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "Hello World!"));
}

/* ---- arithmetic ---- */

static void integers_and_mixed_powers(void **state) {
    (void)state;
    const int32_t base[] = {2, -3, 7, -1};
    const float halves[] = {3, 3, 0.5f, -3};
    const int64_t whole[] = {10, 3, -1, 4};
    case_of_one c =
        start("Pow", 15, 2, (const operand[]){LINE(ONNX_INT32, 4, base), LINE(ONNX_FLOAT, 4, halves)});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 8, -27, 2, -1);
    c = start("Pow", 15, 2, (const operand[]){LINE(ONNX_INT32, 4, base), LINE(ONNX_INT64, 4, whole)});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 1024, -27, 0, 1);
    c = start("Mod", 13, 2,
              (const operand[]){LINE(ONNX_INT32, 4, base), LINE(ONNX_INT32, 1, ((const int32_t[]){-4}))});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, -2, -3, -1, -1);
    set_int(&c, "fmod", 1);
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 2, -3, 3, -1);
    c = start("Div", 14, 2,
              (const operand[]){LINE(ONNX_INT32, 4, base), LINE(ONNX_INT32, 1, ((const int32_t[]){2}))});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 1, -1, 3, 0);
    c = start("Shrink", 9, 1, (const operand[]){LINE(ONNX_INT32, 4, base)});
    set_float(&c, "lambd", 1.5f);
    set_float(&c, "bias", 1.5f);
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 0, -1, 5, 0);
    c = start("Clip", 13, 3,
              (const operand[]){LINE(ONNX_INT32, 4, base), {0}, LINE(ONNX_INT32, 1, ((const int32_t[]){2}))});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 2, -3, 2, -1);
    c = start("Gemm", 13, 3,
              (const operand[]){
                  {ONNX_INT32, 2, {2, 2}, base}, {ONNX_INT32, 2, {2, 2}, base}, LINE(ONNX_INT32, 2, base)});
    set_float(&c, "alpha", 2);
    set_float(&c, "beta", 0.5f);
    set_int(&c, "transA", 1);
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 107, -27, -25, 19);
}

static void bits_are_kept(void **state) {
    (void)state;
    const int8_t nibbles[] = {-8, -1, 0, 7};
    case_of_one c = start("BitCast", 26, 1, (const operand[]){LINE(ONNX_INT4, 4, nibbles)});
    set_int(&c, "to", ONNX_UINT4);
    ASSERT_RESULT(&c, ONNX_UINT4, uint8_t, 8, 15, 0, 7);
    c = start("BitCast", 26, 1,
              (const operand[]){LINE(ONNX_FLOAT4E2M1, 4, ((const uint8_t[]){9, 15, 0, 7}))});
    set_int(&c, "to", ONNX_INT4);
    ASSERT_RESULT(&c, ONNX_INT4, int8_t, -7, -1, 0, 7);
    c = start("BitCast", 26, 1, (const operand[]){LINE(ONNX_FLOAT, 2, ((const float[]){1, -2}))});
    set_int(&c, "to", ONNX_UINT32);
    ASSERT_RESULT(&c, ONNX_UINT32, uint32_t, 0x3f800000, 0xc0000000);
    const uint8_t eights[] = {0x7c, 0xfc, 0x7d, 0x3c};
    c = start("IsInf", 20, 1, (const operand[]){LINE(ONNX_FLOAT8E5M2, 4, eights)});
    set_int(&c, "detect_negative", 0);
    ASSERT_RESULT(&c, ONNX_BOOL, uint8_t, 1, 0, 0, 0);
    c = start("IsNaN", 20, 1, (const operand[]){LINE(ONNX_FLOAT8E5M2, 4, eights)});
    ASSERT_RESULT(&c, ONNX_BOOL, uint8_t, 0, 0, 1, 0);
}

/* ---- reductions ---- */

static void reductions_of_nothing(void **state) {
    (void)state;
    const int32_t x[] = {3, -4, 5, 0, 2, -1};
    const operand matrix = {ONNX_INT32, 2, {2, 3}, x}, none = {ONNX_INT64, 1, {0}, x};
    case_of_one c = start("ReduceL1", 18, 2, (const operand[]){matrix, none});
    set_int(&c, "noop_with_empty_axes", 1);
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 3, 4, 5, 0, 2, 1);
    c = start("ReduceL2", 18, 2, (const operand[]){matrix, LINE(ONNX_INT64, 1, ((const int64_t[]){-1}))});
    set_int(&c, "keepdims", 0);
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 7, 2);
    c = start("ReduceMean", 13, 1, &matrix);
    set_ints(&c, "axes", 1, (const int64_t[]){0});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, 1, -1, 2);
    c = start("ReduceMax", 20, 2,
              (const operand[]){{ONNX_INT32, 2, {2, 0}, x}, LINE(ONNX_INT64, 1, ((const int64_t[]){1}))});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, INT32_MIN, INT32_MIN);
    c = start("ReduceMin", 20, 2,
              (const operand[]){{ONNX_BOOL, 2, {0, 2}, x}, LINE(ONNX_INT64, 1, ((const int64_t[]){0}))});
    ASSERT_RESULT(&c, ONNX_BOOL, uint8_t, 1, 1);
    const float y[] = {1, 1, 1, 1, 5, 5};
    const operand cube = {ONNX_FLOAT, 3, {1, 2, 3}, y};
    c = start("Hardmax", 11, 1, &cube);
    ASSERT_RESULT(&c, ONNX_FLOAT, float, 0, 0, 0, 0, 1, 0);
    c = start("Hardmax", 13, 1, &cube);
    ASSERT_RESULT(&c, ONNX_FLOAT, float, 1, 0, 0, 0, 1, 0);
    c = start("ArgMax", 13, 1, &cube);
    set_int(&c, "axis", -1);
    set_int(&c, "select_last_index", 1);
    ASSERT_RESULT(&c, ONNX_INT64, int64_t, 2, 2);
}

/* ---- quantisation ---- */

static void quantisation_by_axis_and_block(void **state) {
    (void)state;
    const float x[] = {1, 2.5f, 3.5f, -300, 300, 7, 0, -1, 2, 9};
    const operand rows = {ONNX_FLOAT, 2, {2, 5}, x};
    const float scales[] = {1, 2, 0.5f, 1, 2, 4};
    case_of_one c =
        start("QuantizeLinear", 21, 3, (const operand[]){rows, {ONNX_FLOAT, 2, {2, 3}, scales}, {0}});
    set_int(&c, "axis", -1);
    set_int(&c, "block_size", 2); /* the last block is half a one */
    set_int(&c, "output_dtype", ONNX_INT8);
    ASSERT_RESULT(&c, ONNX_INT8, int8_t, 1, 2, 2, -128, 127, 7, 0, 0, 1, 2);
    c = start(
        "QuantizeLinear", 21, 3,
        (const operand[]){rows, LINE(ONNX_FLOAT, 2, scales), LINE(ONNX_UINT4, 2, ((const uint8_t[]){3, 8}))});
    set_int(&c, "axis", 0);
    ASSERT_RESULT(&c, ONNX_UINT4, uint8_t, 4, 5, 7, 0, 15, 12, 8, 8, 9, 12);
    const int8_t q[] = {-8, 7, 0, 3};
    c = start("DequantizeLinear", 21, 3,
              (const operand[]){LINE(ONNX_INT4, 4, q), LINE(ONNX_FLOAT, 4, scales),
                                LINE(ONNX_INT4, 4, ((const int8_t[]){1, -8, 0, 3}))});
    ASSERT_RESULT(&c, ONNX_FLOAT, float, -9, 30, 0, 0);
    c = start("DequantizeLinear", 13, 2,
              (const operand[]){LINE(ONNX_INT32, 2, ((const int32_t[]){-70000, 16777217})),
                                LINE(ONNX_FLOAT, 1, scales + 1)});
    ASSERT_RESULT(&c, ONNX_FLOAT, float, -140000, 33554432);
}

static void integer_products(void **state) {
    (void)state;
    const uint8_t a[] = {0, 255, 128, 10, 20, 30}, za[] = {128, 10};
    const int8_t b[] = {-128, 127, 1, 2, 3, 4}, zb[] = {-128, 127};
    int32_t want[4];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            want[2 * i + j] = 0;
            for (int k = 0; k < 3; k++) {
                want[2 * i + j] += (a[3 * i + k] - za[i]) * (b[2 * k + j] - zb[j]);
            }
        }
    }
    case_of_one c = start("MatMulInteger", 10, 4,
                          (const operand[]){{ONNX_UINT8, 2, {2, 3}, a},
                                            {ONNX_INT8, 2, {3, 2}, b},
                                            LINE(ONNX_UINT8, 2, za),
                                            LINE(ONNX_INT8, 2, zb)});
    ASSERT_RESULT(&c, ONNX_INT32, int32_t, want[0], want[1], want[2], want[3]);
    /* Filters without a zero point, inputs with and without one, padded: against the sum written out. */
    const uint8_t image[] = {0, 255, 7, 128, 9, 200};
    const int8_t taps[] = {-128, 127, 3, -4, 5, 6, 7, -8};
    for (int zero = 0; zero <= 255; zero += 85) {
        const uint8_t point[] = {(uint8_t)zero};
        int32_t sums[2 * 12];
        for (int m = 0; m < 2; m++) {
            for (int i = 0; i < 12; i++) {
                sums[12 * m + i] = 0;
                for (int k = 0; k < 4; k++) {
                    int r = i / 4 + k / 2 - 1, col = i % 4 + k % 2 - 1;
                    bool inside = r >= 0 && r < 2 && col >= 0 && col < 3;
                    sums[12 * m + i] += inside ? (image[3 * r + col] - zero) * taps[4 * m + k] : 0;
                }
            }
        }
        c = start("ConvInteger", 10, 3,
                  (const operand[]){{ONNX_UINT8, 4, {1, 1, 2, 3}, image},
                                    {ONNX_INT8, 4, {2, 1, 2, 2}, taps},
                                    LINE(ONNX_UINT8, 1, point)});
        set_ints(&c, "pads", 4, (const int64_t[]){1, 1, 1, 1});
        ls_data *y = result(&c, ONNX_INT32);
        assert_int_equal(ls_data_size(y), sizeof sums);
        assert_memory_equal(ls_data_bytes(y), sums, sizeof sums);
        ls_data_release(y);
    }
    /* One pixel, two channels out: padding is the zero point, so that only the middle tap counts. */
    const uint8_t x[] = {200};
    int8_t w[18];
    for (int i = 0; i < 18; i++) {
        w[i] = (int8_t)(i - 4);
    }
    const float one[] = {1}, w_scale[] = {0.5f, 0.25f}, y_scale[] = {8};
    c = start("QLinearConv", 10, 8,
              (const operand[]){{ONNX_UINT8, 4, {1, 1, 1, 1}, x},
                                LINE(ONNX_FLOAT, 1, one),
                                LINE(ONNX_UINT8, 1, za),
                                {ONNX_INT8, 4, {2, 1, 3, 3}, w},
                                LINE(ONNX_FLOAT, 2, w_scale),
                                LINE(ONNX_INT8, 2, ((const int8_t[]){-2, 1})),
                                LINE(ONNX_FLOAT, 1, y_scale),
                                LINE(ONNX_UINT8, 1, ((const uint8_t[]){5}))});
    set_ints(&c, "pads", 4, (const int64_t[]){1, 1, 1, 1});
    /* 72 * 2 / 16 + 5 = 14; 72 * 8 / 32 + 5 = 23 */
    ASSERT_RESULT(&c, ONNX_UINT8, uint8_t, 14, 23);
}

/* ---- memory ---- */

/* Every allocation of a run fails once: an error that says so, and no crash. */
static void out_of_memory(case_of_one *c, int type) {
    ls_named_data in[8];
    int n = 0;
    ls_status status = LS_ERR_MEMORY;
    ls_error err;
    OUTPUT(c->model->graph, value("y", tensor_type(type, NULL)));
    for (int i = 0; i < c->n; i++) {
        ls_data *given = NULL;
        const operand *o = &c->in[i];
        INPUT(c->model->graph, value(operand_names[i], tensor_type(o->type, NULL)));
        assert_int_equal(
            ls_data_create(context, ls_onnx_carrier(o->type), o->rank, o->dims, o->bytes, &given, NULL),
            LS_OK);
        in[n++] = (ls_named_data){operand_names[i], given};
    }
    for (long k = 0; status != LS_OK; k++) {
        ls_data *y = NULL;
        fail_after = k;
        status = run_model(c, n, in, &y, &err);
        fail_after = -1;
        if (status != LS_OK && status != LS_ERR_MEMORY) {
            fail_msg("%s, allocation %ld: %s: %s", c->node->op_type, k, ls_status_name(status), err.message);
        }
        ls_data_release(y);
        assert_true(k < 20000);
    }
    for (int i = 0; i < n; i++) {
        ls_data_release((ls_data *)in[i].data);
    }
}

static void memory_may_run_out(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6};
    const uint8_t q[] = {1, 2, 3, 4, 5, 6};
    const operand square = {ONNX_FLOAT, 2, {2, 2}, x};
    case_of_one c = start("Einsum", 12, 2, (const operand[]){square, {ONNX_FLOAT, 3, {1, 2, 2}, x}});
    set_string(&c, "equation", "ii,...ij->j...");
    out_of_memory(&c, ONNX_FLOAT);
    c = start("Cast", 25, 1, &square);
    set_int(&c, "to", ONNX_FLOAT8E5M2);
    out_of_memory(&c, ONNX_FLOAT8E5M2);
    c = start("Cast", 25, 1, &square);
    set_int(&c, "to", ONNX_FLOAT8E8M0);
    out_of_memory(&c, ONNX_FLOAT8E8M0);
    c = start("QLinearMatMul", 10, 8,
              (const operand[]){{ONNX_UINT8, 2, {2, 3}, q},
                                LINE(ONNX_FLOAT, 1, x),
                                LINE(ONNX_UINT8, 2, q),
                                {ONNX_INT8, 2, {3, 2}, q},
                                LINE(ONNX_FLOAT, 2, x),
                                LINE(ONNX_INT8, 2, q),
                                LINE(ONNX_FLOAT, 1, x),
                                LINE(ONNX_UINT8, 1, q)});
    out_of_memory(&c, ONNX_UINT8);
    c = start("DynamicQuantizeLinear", 11, 1, &square);
    out_of_memory(&c, ONNX_UINT8);
    c = start("ReduceLogSumExp", 13, 1, &square);
    out_of_memory(&c, ONNX_FLOAT);
    c = start("Pow", 13, 2, (const operand[]){{ONNX_UINT8, 2, {2, 2}, q}, square});
    out_of_memory(&c, ONNX_UINT8);
    c = start("Det", 11, 1, &square);
    out_of_memory(&c, ONNX_FLOAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_floats_read_and_write, setup, teardown),
        cmocka_unit_test_setup_teardown(powers_of_two_round_three_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(old_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(strings_and_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(integers_and_mixed_powers, setup, teardown),
        cmocka_unit_test_setup_teardown(bits_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(reductions_of_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(quantisation_by_axis_and_block, setup, teardown),
        cmocka_unit_test_setup_teardown(integer_products, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_may_run_out, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
