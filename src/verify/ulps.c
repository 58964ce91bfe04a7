/* How far a device's elementary functions are from the exact values, measured: f32 arguments spread evenly over all bit
 * patterns, against the same functions in f64 on `ref`, whose own errors (about one ULP of f64) do not show. */
#include "base/bits.h"
#include "oracle/oracle.h"
#include "verify/museum.h"

enum { INPUTS = 1 << 16 };

typedef ls_tensor *(*function)(ls_session *s, ls_tensor *x);

static ls_tensor *power(ls_session *s, ls_tensor *x) {
    ls_tensor *eighth = ls_full(s, ls_tensor_dtype(x), LS_SCALAR, 0.125); /* exponents from -8 to 8, by eighths */
    ls_tensor *i = ls_cast(s, ls_iota(s, LS_I32, LS_SHAPE(INPUTS), 0), ls_tensor_dtype(x));
    ls_tensor *n = ls_sub(s, ls_rem(s, i, ls_full(s, ls_tensor_dtype(x), LS_SCALAR, 129)), ls_full(s, ls_tensor_dtype(x), LS_SCALAR, 64));
    return ls_pow(s, x, ls_mul(s, n, eighth));
}

/* Bounds of the contract, in ULPs of f32: docs/elementary.md. */
static const struct {
    ls_op op;
    function f;
    double bound;
} functions[] = {
    {LS_OP_EXP, ls_exp, 0.77},     {LS_OP_EXP2, ls_exp2, 0.76},   {LS_OP_EXPM1, ls_expm1, 0.87}, {LS_OP_LOG, ls_log, 0.84},
    {LS_OP_LOG2, ls_log2, 0.75},   {LS_OP_LOG1P, ls_log1p, 0.91}, {LS_OP_SIN, ls_sin, 0.83},     {LS_OP_COS, ls_cos, 0.84},
    {LS_OP_TAN, ls_tan, 1.07},     {LS_OP_ASIN, ls_asin, 0.65},   {LS_OP_ACOS, ls_acos, 0.63},   {LS_OP_ATAN, ls_atan, 0.88},
    {LS_OP_SINH, ls_sinh, 0.77},   {LS_OP_COSH, ls_cosh, 0.87},   {LS_OP_TANH, ls_tanh, 0.79},   {LS_OP_ERF, ls_erf, 0.95},
    {LS_OP_ERFC, ls_erfc, 0.9},    {LS_OP_SQRT, ls_sqrt, 0.5},    {LS_OP_RSQRT, ls_rsqrt, 1.5},  {LS_OP_CBRT, ls_cbrt, 0.83},
    {LS_OP_POW, power, 0.9},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

typedef struct measure {
    float x[INPUTS], y[LS_FAST + 1][INPUTS];
    double wide[INPUTS], exact[INPUTS];
} measure;

static ls_status compute(ls_session *s, int which, ls_dtype dtype, const void *x, void *y, ls_error *err) {
    LS_TRY(err, ls_scope_begin(s));
    ls_tensor *t = functions[which].f(s, ls_tensor_from(s, dtype, LS_SHAPE(INPUTS), x));
    ls_status status = ls_read(s, t, y, INPUTS * ls_dtype_size(dtype));
    if (status != LS_OK) {
        status = LS_FAIL(err, status, "%s: %s", ls_ops[functions[which].op].name, ls_session_error(s)->message);
    }
    ls_scope_end(s);
    return status;
}

/* Elements of f32 between neighbours at a normal value. */
static double spacing(double y) {
    return ls_f64_of((((ls_f64_bits(y) >> 52) & 0x7ff) - 23) << 52);
}

static void judge(const measure *m, const float *got, ls_ulp_result *r) {
    for (int i = 0; i < INPUTS; i++) {
        double y = m->exact[i], size = y < 0 ? -y : y;
        if (!(size >= 0x1p-126 && size < 0x1.fffffep127)) { /* NaN too */
            continue;
        }
        double off = ((double)got[i] - y) / spacing(y);
        off = off < 0 ? -off : off;
        r->inputs++;
        if (!(off <= r->most)) { /* also a NaN, where a number should be */
            r->most = off == off ? off : __builtin_inf();
            r->at = m->x[i];
        }
    }
}

/* What the device computes, in both kinds of arithmetic, so that all is asked of it at once. */
static ls_status ask(measure *m, int which, ls_session *const *of, ls_error *err) {
    ls_status status = LS_OK;
    for (int math = LS_LOCKED; math <= LS_FAST; math++) {
        ls_status here = of[math] ? compute(of[math], which, LS_F32, m->x, m->y[math], err) : LS_OK;
        status = status == LS_OK ? here : status;
    }
    return status;
}

static ls_status tell(measure *m, int which, ls_session *exact, ls_session *const *of, ls_ulp_fn each, void *user, int *out_beyond,
                      ls_error *err) {
    ls_op op = functions[which].op;
    LS_TRY(err, compute(exact, which, LS_F64, m->wide, m->exact, err));
    for (int math = LS_LOCKED; math <= LS_FAST; math++) {
        if (of[math]) {
            ls_ulp_result r = {.function = ls_ops[op].name,
                               .math = (ls_math)math,
                               .bound = math == LS_LOCKED ? functions[which].bound : ls_oracle_ulps(op)};
            judge(m, m->y[math], &r);
            *out_beyond += r.most > r.bound;
            if (each) {
                each(user, &r);
            }
        }
    }
    return LS_OK;
}

static ls_status open_sessions(ls_context *context, ls_device *device, ls_session **out_exact, ls_session **out_of, ls_error *err) {
    ls_device *ref;
    LS_TRY(err, ls_device_open(context, "ref", &ref, err));
    LS_TRY(err, ls_session_create(context, ref, out_exact, err));
    ls_error refused = {.code = LS_OK};
    ls_status certified = ls_device_certify(device, &refused);
    if (certified == LS_OK) {
        LS_TRY(err, ls_session_create(context, device, &out_of[LS_LOCKED], err));
    } else if (certified != LS_ERR_DEVICE) {
        return LS_FAIL(err, certified, "%s", refused.message);
    }
    LS_TRY(err, ls_session_create(context, device, &out_of[LS_FAST], err));
    ls_session_set_math(out_of[LS_FAST], LS_FAST);
    return LS_OK;
}

ls_status ls_ulps_measure(ls_context *context, ls_device *device, ls_ulp_fn each, void *user, int *out_beyond, ls_error *err) {
    ls_session *exact = NULL, *of[LS_FAST + 1] = {NULL};
    measure *m = ls_alloc(&context->heap, sizeof *m);
    *out_beyond = 0;
    if (!m) {
        return LS_FAIL_MEMORY(err, "the ULPs of functions");
    }
    for (uint32_t i = 0; i < INPUTS; i++) {
        m->x[i] = ls_f32_of(i << 16 | i);
        m->wide[i] = (double)m->x[i];
    }
    ls_status status = open_sessions(context, device, &exact, of, err);
    for (int i = 0; i < FUNCTIONS && (status == LS_OK || ls_status_is_no_answer(status)); i++) {
        ls_status asked = ask(m, i, of, err);
        status = status == LS_OK ? asked : status; /* after a function without an answer the others are only asked for */
        status = status == LS_OK ? tell(m, i, exact, of, each, user, out_beyond, err) : status;
    }
    for (int math = LS_LOCKED; math <= LS_FAST; math++) {
        ls_session_destroy(of[math]);
    }
    ls_session_destroy(exact);
    ls_free(&context->heap, m);
    return status;
}
