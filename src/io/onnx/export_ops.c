/* Leaves, operations element by element, reductions, products and indexed ones, each as operators that compute it to the bit. Where
 * the format knows an operator for fewer types, the operands are cast to one that holds them and the result is cast back. */
#include "io/onnx/export.h"
#include "io/onnx/onnx.h"
#include <string.h>

static ls_op_class class_of(const ls_tensor *x) {
    return ls_ops[x->op].op_class;
}

/* ---- leaves ---- */

static const char *emit_data(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    ls_tensor *x = step->node;
    ls_data *data = NULL;
    (void)in;
    ls_status status = ls_data_from_tensor(e->s, x, &data);
    if (status != LS_OK) {
        LS_FAIL(e->err, status, "%s: %s", e->path, ls_session_error(e->s)->message);
        return NULL;
    }
    return ls_export_data(e, x->op == LS_OP_VAR ? ls_var_name(x->attr.leaf.object) : NULL, data);
}

static const char *emit_const(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    ls_tensor *x = step->node;
    (void)in;
    const char *scalar = ls_export_scalar(e, x->dtype, x->attr.value);
    return x->shape.rank == 0
               ? scalar
               : ls_export_result(e, ls_export_op(e, "Expand", 2, scalar, ls_export_shape(e, &x->shape)));
}

static const char *emit_iota(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    ls_tensor *x = step->node;
    ls_shape line = x->shape, one = {.rank = 1}, scalar = {.rank = 0};
    (void)in;
    int axis = x->attr.axis.axis;
    for (int i = 0; i < line.rank; i++) {
        line.dim[i] = ls_dim_fixed(i == axis ? -1 : 1);
    }
    one.dim[0] = x->shape.dim[axis];
    const char *n = ls_export_result(e, ls_export_reshape(e, ls_export_dim(e, one.dim[0]), &scalar));
    const char *at = ls_export_result(
        e, ls_export_op(e, "Range", 3, ls_export_scalar(e, LS_I64, 0), n, ls_export_scalar(e, LS_I64, 1)));
    at = ls_export_result(e, ls_export_reshape(e, ls_export_cast(e, at, LS_I64, x->dtype), &line));
    return ls_export_result(e, ls_export_op(e, "Expand", 2, at, ls_export_shape(e, &x->shape)));
}

static const char *emit_dim(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    (void)in;
    return ls_export_result(e,
                            ls_export_reshape(e, ls_export_dim(e, step->node->attr.dim), &step->node->shape));
}

static bool plan_leaf(ls_onnx_export *e, ls_onnx_step *step) {
    switch (step->node->op) {
    case LS_OP_CONST:
        step->emit = emit_const;
        return true;
    case LS_OP_DATA:
    case LS_OP_VAR:
        step->emit = emit_data;
        return true;
    case LS_OP_IOTA:
        step->emit = emit_iota;
        return true;
    case LS_OP_DIM:
        step->emit = emit_dim;
        return true;
    default:
        ls_export_refuse(e, step->node, "it is none of the inputs given");
        return false;
    }
}

/* ---- element by element ---- */

typedef struct map_row {
    ls_op op;
    const char *type;    /* NULL: special, or there is none */
    const char *boolean; /* for bool; NULL: there is none */
} map_row;
static const map_row map_rows[] = {
    {LS_OP_NEG, "Neg", NULL},          {LS_OP_ABS, "Abs", NULL},         {LS_OP_SIGN, "Sign", NULL},
    {LS_OP_FLOOR, "Floor", NULL},      {LS_OP_CEIL, "Ceil", NULL},       {LS_OP_TRUNC, NULL, NULL},
    {LS_OP_RINT, "Round", NULL},       {LS_OP_SQRT, "Sqrt", NULL},       {LS_OP_RSQRT, NULL, NULL},
    {LS_OP_RECIP, "Reciprocal", NULL}, {LS_OP_EXP, "Exp", NULL},         {LS_OP_LOG, "Log", NULL},
    {LS_OP_SIN, "Sin", NULL},          {LS_OP_COS, "Cos", NULL},         {LS_OP_TAN, "Tan", NULL},
    {LS_OP_ASIN, "Asin", NULL},        {LS_OP_ACOS, "Acos", NULL},       {LS_OP_ATAN, "Atan", NULL},
    {LS_OP_SINH, "Sinh", NULL},        {LS_OP_COSH, "Cosh", NULL},       {LS_OP_TANH, "Tanh", NULL},
    {LS_OP_ERF, "Erf", NULL},          {LS_OP_NOT, "BitwiseNot", "Not"}, {LS_OP_ISNAN, "IsNaN", NULL},
    {LS_OP_ISINF, "IsInf", NULL},      {LS_OP_ADD, "Add", NULL},         {LS_OP_SUB, "Sub", NULL},
    {LS_OP_MUL, "Mul", NULL},          {LS_OP_DIV, "Div", NULL},         {LS_OP_REM, "Mod", NULL},
    {LS_OP_POW, "Pow", NULL},          {LS_OP_MIN, "Min", "And"},        {LS_OP_MAX, "Max", "Or"},
    {LS_OP_AND, "BitwiseAnd", "And"},  {LS_OP_OR, "BitwiseOr", "Or"},    {LS_OP_XOR, "BitwiseXor", "Xor"},
    {LS_OP_EQ, "Equal", "Equal"},      {LS_OP_NE, "Equal", "Equal"},     {LS_OP_LT, "Less", NULL},
    {LS_OP_LE, "LessOrEqual", NULL},   {LS_OP_SHL, "BitShift", NULL},    {LS_OP_SHR, "BitShift", NULL},
    {LS_OP_WHERE, "Where", "Where"}};

static const map_row *map_row_of(ls_op op) {
    for (size_t i = 0; i < sizeof map_rows / sizeof *map_rows; i++) {
        if (map_rows[i].op == op) {
            return &map_rows[i];
        }
    }
    return NULL;
}

/* x[... without leading 1s] or without EXPAND: what an operator's broadcast makes of it is the same. */
ls_tensor *ls_export_narrow(ls_onnx_export *e, ls_tensor *x) {
    for (;;) {
        if (x->op == LS_OP_CONST && x->shape.rank > 0) {
            ls_shape scalar = {.rank = 0};
            ls_tensor *narrow = ls_node(e->s, LS_OP_CONST, x->dtype, &scalar, 0, NULL, &x->attr);
            return narrow ? narrow : x;
        }
        if (x->absent) {
            return x;
        }
        if (x->op == LS_OP_EXPAND) {
            x = x->src[0];
            continue;
        }
        int lead = x->op == LS_OP_RESHAPE ? x->shape.rank - x->src[0]->shape.rank : 0;
        bool leads = lead > 0;
        for (int i = 0; leads && i < x->shape.rank; i++) {
            leads =
                ls_dim_equal(x->shape.dim[i], i < lead ? ls_dim_fixed(1) : x->src[0]->shape.dim[i - lead]);
        }
        if (!leads) {
            return x;
        }
        x = x->src[0];
    }
}

/* NumPy's broadcast of what is left of the operands must still have the node's shape; else the first keeps its own. */
static void narrow_operands(ls_onnx_export *e, ls_onnx_step *step) {
    const ls_shape *shape = &step->node->shape;
    unsigned filled = 0;
    for (int k = 0; k < step->n_in; k++) {
        step->in[k] = ls_export_narrow(e, step->in[k]);
        for (int i = 0; i < shape->rank; i++) {
            int own = i - (shape->rank - step->in[k]->shape.rank);
            bool one = ls_dim_equal(shape->dim[i], ls_dim_fixed(1)) && own >= 0;
            filled |=
                (unsigned)(own >= 0 && (one || ls_dim_equal(step->in[k]->shape.dim[own], shape->dim[i])))
                << i;
        }
    }
    if (filled != (1u << shape->rank) - 1) {
        step->in[0] = step->node->src[0];
    }
}

static ls_dtype unsigned_of(ls_dtype dtype) {
    return dtype == LS_I8    ? LS_U8
           : dtype == LS_I16 ? LS_U16
           : dtype == LS_I32 ? LS_U32
           : dtype == LS_I64 ? LS_U64
                             : dtype;
}

/* BitShift knows unsigned numbers alone. To the right, what is negative is turned into its complement and back, which brings in the sign. */
static const char *shift(ls_onnx_export *e, const ls_tensor *x, const char *a, const char *b) {
    ls_dtype dtype = x->dtype, bare = unsigned_of(dtype);
    bool turn = bare != dtype && x->op == LS_OP_SHR;
    const char *below =
        turn ? ls_export_result(e, ls_export_op(e, "Less", 2, a, ls_export_scalar(e, dtype, 0))) : NULL;
    if (turn) {
        a = ls_export_result(e, ls_export_op(e, "Where", 3, below,
                                             ls_export_result(e, ls_export_op(e, "BitwiseNot", 1, a)), a));
    }
    Onnx__NodeProto *node =
        ls_export_op(e, "BitShift", 2, ls_export_cast(e, a, dtype, bare), ls_export_cast(e, b, dtype, bare));
    ls_export_string(e, node, "direction", x->op == LS_OP_SHL ? "LEFT" : "RIGHT");
    const char *y = ls_export_cast(e, ls_export_result(e, node), bare, dtype);
    return turn ? ls_export_result(e,
                                   ls_export_op(e, "Where", 3, below,
                                                ls_export_result(e, ls_export_op(e, "BitwiseNot", 1, y)), y))
                : y;
}

static const char *map_node(ls_onnx_export *e, const ls_tensor *x, const char *const *in) {
    const char *a = in[0], *b = x->n_src > 1 ? in[1] : NULL;
    ls_dtype dtype = x->src[x->n_src - 1]->dtype;
    if (x->op == LS_OP_TRUNC) {
        const char *below = ls_export_result(
            e, ls_export_op(e, "Less", 2, a, ls_export_scalar(e, dtype == LS_BF16 ? LS_F32 : dtype, 0)));
        const char *up = ls_export_result(e, ls_export_op(e, "Ceil", 1, a));
        const char *down = ls_export_result(e, ls_export_op(e, "Floor", 1, a));
        return ls_export_result(e, ls_export_op(e, "Where", 3, below, up, down));
    }
    if (x->op == LS_OP_RSQRT) {
        return ls_export_result(
            e, ls_export_op(e, "Reciprocal", 1, ls_export_result(e, ls_export_op(e, "Sqrt", 1, a))));
    }
    if (x->op == LS_OP_SHL || x->op == LS_OP_SHR) {
        return shift(e, x, a, b);
    }
    const map_row *row = map_row_of(x->op);
    Onnx__NodeProto *node =
        ls_export_op_list(e, dtype == LS_BOOL && row->boolean ? row->boolean : row->type, x->n_src, in);
    if (x->op == LS_OP_REM) {
        ls_export_int(e, node, "fmod", 1);
    } else if (x->op == LS_OP_NEG && !ls_dtype_is_float(dtype) && !ls_dtype_is_signed(dtype)) {
        node = ls_export_op(e, "Sub", 2, ls_export_scalar(e, dtype, 0), a);
    } else if (x->op == LS_OP_NE) {
        node = ls_export_op(e, "Not", 1, ls_export_result(e, ls_export_op(e, "Equal", 2, a, b)));
    }
    return ls_export_result(e, node);
}

/* What the operator is given instead of operands of this dtype. */
static ls_dtype map_dtype(const ls_tensor *x, ls_dtype dtype) {
    bool half = dtype == LS_F16 || dtype == LS_BF16;
    if (half && (x->op == LS_OP_RSQRT || dtype == LS_BF16)) {
        return LS_F32; /* a half's operation is f32's, rounded once */
    }
    if (dtype == LS_BOOL && (x->op == LS_OP_LT || x->op == LS_OP_LE)) {
        return LS_I32;
    }
    return dtype;
}

static const char *emit_map(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *x = step->node;
    const char *names[3] = {NULL};
    ls_dtype given = x->src[x->n_src - 1]->dtype, dtype = map_dtype(x, given);
    for (int i = 0; i < x->n_src; i++) {
        names[i] =
            ls_export_cast(e, in[i], x->src[i]->dtype, x->src[i]->dtype == given ? dtype : x->src[i]->dtype);
    }
    const char *y = map_node(e, x, names);
    return x->dtype == LS_BOOL && given != LS_BOOL
               ? y
               : ls_export_cast(e, y, x->dtype == given ? dtype : x->dtype, x->dtype);
}

static const char *emit_cast(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    Onnx__NodeProto *cast = ls_export_op(e, "Cast", 1, in[0]);
    ls_export_int(e, cast, "to", ls_onnx_type_of(step->node->dtype));
    return ls_export_result(e, cast);
}

static bool plan_map(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *x = step->node;
    const map_row *row = map_row_of(x->op);
    ls_dtype dtype = x->n_src ? x->src[x->n_src - 1]->dtype : x->dtype;
    if (!ls_export_operands(e, step, x->n_src, x->src)) {
        return false;
    }
    if (x->op == LS_OP_CAST) {
        step->emit = emit_cast;
        return true;
    }
    bool shifts = x->op == LS_OP_SHL || x->op == LS_OP_SHR;
    if (!row) {
        ls_export_refuse(e, x, "no ONNX operator computes it");
        return false;
    }
    narrow_operands(e, step);
    bool direct = row->type && map_dtype(x, dtype) == dtype && x->op != LS_OP_NE && x->op != LS_OP_NEG &&
                  x->op != LS_OP_REM && !shifts;
    if (direct) { /* one operator: the step's own */
        step->proto = ls_export_op(e, dtype == LS_BOOL && row->boolean ? row->boolean : row->type, 0);
        return step->proto != NULL;
    }
    step->emit = emit_map;
    return true;
}

/* ---- reductions and scans ---- */

static ls_tensor *
reduced_of(const ls_tensor *x) { /* the REDUCE of a step: itself, or what keeps its axes as extents of 1 */
    return x->op == LS_OP_RESHAPE ? x->src[0] : (ls_tensor *)x;
}

static const char *emit_reduce(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *r = reduced_of(step->node), *x = r->src[0];
    const ls_attr_axes *axes = &r->attr.axes;
    bool keep = r != step->node, arg = r->op == LS_OP_ARGMIN || r->op == LS_OP_ARGMAX, sorted = true;
    const char *type = r->op == LS_OP_SUM      ? "ReduceSum"
                       : r->op == LS_OP_PROD   ? "ReduceProd"
                       : r->op == LS_OP_AMIN   ? "ReduceMin"
                       : r->op == LS_OP_AMAX   ? "ReduceMax"
                       : r->op == LS_OP_ARGMIN ? "ArgMin"
                                               : "ArgMax";
    bool total = r->op == LS_OP_SUM || r->op == LS_OP_PROD;
    ls_dtype dtype = x->dtype;
    if ((!ls_dtype_is_float(dtype) && ls_dtype_size(dtype) < 4 &&
         (total || (dtype != LS_I8 && dtype != LS_U8))) &&
        !arg) {
        dtype = LS_I32;
    } else if (arg && dtype == LS_BOOL) {
        dtype = LS_I32;
    }
    const char *y = ls_export_cast(e, in[0], x->dtype, dtype);
    int64_t list[LS_MAX_RANK];
    for (int i = 0; i < axes->count; i++) {
        list[i] = axes->axes[i];
        sorted &= i == 0 || axes->axes[i] > axes->axes[i - 1];
    }
    if (!sorted ||
        (arg && axes->count > 1)) { /* the axes last, in the order in which they are gone through, as one */
        int order[LS_MAX_RANK], n = 0;
        ls_shape merged = {.rank = 0};
        for (int i = 0; i < x->shape.rank; i++) {
            bool taken = false;
            for (int k = 0; k < axes->count; k++) {
                taken |= axes->axes[k] == i;
            }
            if (!taken) {
                order[n++] = i;
                merged.dim[merged.rank++] = x->shape.dim[i];
            }
        }
        for (int k = 0; k < axes->count; k++) {
            order[n++] = axes->axes[k];
        }
        merged.dim[merged.rank++] = ls_dim_fixed(-1);
        y = ls_export_result(e, ls_export_reshape(e, ls_export_transpose(e, y, n, order), &merged));
        list[0] = merged.rank - 1;
        keep = false;
    }
    Onnx__NodeProto *node;
    if (arg) {
        node = ls_export_op(e, type, 1, y);
        ls_export_int(e, node, "axis", list[0]);
    } else {
        bool merged = !sorted;
        node = ls_export_op(e, type, 2, y, ls_export_list(e, merged ? 1 : axes->count, list));
    }
    ls_export_int(e, node, "keepdims", keep);
    if (dtype == x->dtype && keep == (r != step->node)) {
        return ls_export_result(e, node);
    }
    y = ls_export_result(e, node);
    y = arg ? y : ls_export_cast(e, y, dtype, x->dtype);
    return keep == (r != step->node) ? y : ls_export_result(e, ls_export_reshape(e, y, &step->node->shape));
}

static ls_onnx_fill fill_for(ls_op op) {
    return op == LS_OP_PROD   ? ONNX_FILL_ONE
           : op == LS_OP_AMIN ? ONNX_FILL_HIGHEST
           : op == LS_OP_AMAX ? ONNX_FILL_LOWEST
                              : ONNX_FILL_ZERO;
}

static bool plan_reduce(ls_onnx_export *e, ls_onnx_step *step) {
    const ls_tensor *r = reduced_of(step->node);
    if ((r->op == LS_OP_ARGMIN || r->op == LS_OP_ARGMAX) && r->src[0]->absent) {
        ls_export_refuse(e, r, "over absent elements, which no ONNX operator leaves out");
        return false;
    }
    step->emit = emit_reduce;
    step->in_fill = fill_for(r->op);
    return ls_export_operands(e, step, 1, r->src);
}

/* RESHAPE of a reduction to the same with its axes as extents of 1. */
static bool keeps_axes(const ls_tensor *x) {
    const ls_tensor *r = x->src[0];
    if (ls_ops[r->op].op_class != LS_CLASS_REDUCE || r->src[0]->shape.rank != x->shape.rank) {
        return false;
    }
    unsigned reduced = 0;
    for (int i = 0; i < r->attr.axes.count; i++) {
        reduced |= 1u << r->attr.axes.axes[i];
    }
    for (int i = 0; i < x->shape.rank; i++) {
        ls_dim d = reduced >> i & 1 ? ls_dim_fixed(1) : r->src[0]->shape.dim[i];
        if (!ls_dim_equal(x->shape.dim[i], d)) {
            return false;
        }
    }
    return true;
}

static const char *emit_scan(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *x = step->node;
    bool small = ls_dtype_is_int(x->dtype) && ls_dtype_size(x->dtype) < 4;
    ls_dtype dtype = small ? LS_I32 : x->dtype;
    const char *y = ls_export_cast(e, in[0], x->dtype, dtype);
    Onnx__NodeProto *node =
        ls_export_op(e, "CumSum", 2, y, ls_export_scalar(e, LS_I64, (uint64_t)x->attr.axis.axis));
    ls_export_int(e, node, "exclusive", x->attr.axis.exclusive);
    ls_export_int(e, node, "reverse", x->attr.axis.reverse);
    return small ? ls_export_cast(e, ls_export_result(e, node), dtype, x->dtype) : ls_export_result(e, node);
}

/* ---- products ---- */

/* Extents as one; -1 where they are not fixed and several. */
static ls_dim merged_dim(const ls_dim *dims, int n) {
    if (n == 1) {
        return dims[0];
    }
    int64_t product = 1;
    for (int i = 0; i < n; i++) {
        if (!ls_dim_is_fixed(dims[i])) {
            return ls_dim_fixed(-1);
        }
        product *= dims[i].offset;
    }
    return ls_dim_fixed(product);
}

typedef struct operand {
    int order[LS_MAX_RANK];
    int n_free;
    ls_dim free[LS_MAX_RANK], contracted[LS_MAX_RANK];
    ls_shape matrix; /* [batch..., free, contracted] or the other way round */
} operand;

static void operand_read(const ls_tensor *x, const ls_contract_spec *c, bool second, operand *out) {
    const int *batch = second ? c->batch_b : c->batch_a, *contracted = second ? c->contract_b : c->contract_a;
    unsigned used = 0;
    int n = 0, free_axes[LS_MAX_RANK];
    *out = (operand){.n_free = 0};
    for (int i = 0; i < c->n_batch; i++) {
        used |= 1u << batch[i];
        out->order[n++] = batch[i];
        out->matrix.dim[out->matrix.rank++] = x->shape.dim[batch[i]];
    }
    for (int i = 0; i < c->n_contract; i++) {
        used |= 1u << contracted[i];
        out->contracted[i] = x->shape.dim[contracted[i]];
    }
    for (int i = 0; i < x->shape.rank; i++) {
        if (!(used >> i & 1)) {
            free_axes[out->n_free] = i;
            out->free[out->n_free++] = x->shape.dim[i];
        }
    }
    for (int part = 0; part < 2; part++) {
        bool is_free = (part == 0) != second;
        for (int i = 0; i < (is_free ? out->n_free : c->n_contract); i++) {
            out->order[n++] = is_free ? free_axes[i] : contracted[i];
        }
        out->matrix.dim[out->matrix.rank++] =
            is_free ? merged_dim(out->free, out->n_free) : merged_dim(out->contracted, c->n_contract);
    }
}

static const char *emit_contract(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *x = step->node;
    const ls_contract_spec *c = &x->attr.contract;
    ls_dtype dtype = ls_dtype_is_int(x->dtype) && ls_dtype_size(x->dtype) < 4 ? LS_I32 : x->dtype;
    operand part[2];
    const char *name[2];
    for (int i = 0; i < 2; i++) {
        operand_read(x->src[i], c, i, &part[i]);
    }
    /* One axis is contracted, and the operator's own broadcast does for the others. */
    bool direct =
        c->n_contract == 1 && part[1].n_free == 1 && (c->n_batch ? part[0].n_free == 1 : part[0].n_free > 0);
    for (int i = 0; i < 2; i++) {
        name[i] = ls_export_cast(e, in[i], x->src[i]->dtype, dtype);
        name[i] = ls_export_transpose(e, name[i], x->src[i]->shape.rank, part[i].order);
        int open = 0;
        for (int k = 0; k < part[i].matrix.rank; k++) {
            open += ls_dim_is_fixed(part[i].matrix.dim[k]) && part[i].matrix.dim[k].offset == -1;
        }
        if (!direct && open > 1) {
            ls_export_refuse(e, x, "several of its symbols would have to be one axis");
            return NULL;
        }
        name[i] = direct ? name[i] : ls_export_result(e, ls_export_reshape(e, name[i], &part[i].matrix));
    }
    Onnx__NodeProto *product = ls_export_op(e, "MatMul", 2, name[0], name[1]);
    if (direct && dtype == x->dtype) {
        return ls_export_result(e, product);
    }
    const char *y = ls_export_cast(e, ls_export_result(e, product), dtype, x->dtype);
    return direct ? y : ls_export_result(e, ls_export_reshape(e, y, &x->shape));
}

/* ---- indexed ---- */

static const char *emit_gather(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    Onnx__NodeProto *node = ls_export_op(e, "Gather", 2, in[0], in[1]);
    ls_export_int(e, node, "axis", step->node->attr.axis.axis);
    return ls_export_result(e, node);
}

/* Along axis 0 it is ScatterND. */
static const char *emit_scatter(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    static const char *const kinds[] = {"none", "add", "mul", "min", "max"};
    const ls_tensor *x = step->node;
    int axis = x->attr.axis.axis, rank = x->shape.rank, n_index = x->src[1]->shape.rank, n = 0;
    int to[LS_MAX_RANK], back[LS_MAX_RANK], updates[LS_MAX_RANK];
    const int64_t last = -1;
    for (int i = 0; i < rank; i++) {
        to[i] = i == 0 ? axis : i <= axis ? i - 1 : i;
        back[to[i]] = i;
    }
    for (int i = 0; i < n_index; i++) {
        updates[n++] = axis + i;
    }
    for (int i = 0; i < rank + n_index - 1; i++) {
        if (i < axis || i >= axis + n_index) {
            updates[n++] = i;
        }
    }
    const char *base = ls_export_transpose(e, in[0], rank, to);
    const char *index = ls_export_cast(e, in[1], x->src[1]->dtype, LS_I64);
    index = ls_export_result(e, ls_export_op(e, "Unsqueeze", 2, index, ls_export_list(e, 1, &last)));
    Onnx__NodeProto *node =
        ls_export_op(e, "ScatterND", 3, base, index, ls_export_transpose(e, in[2], n, updates));
    ls_export_string(e, node, "reduction", kinds[x->attr.axis.kind]);
    return axis ? ls_export_transpose(e, ls_export_result(e, node), rank, back) : ls_export_result(e, node);
}

static const char *emit_argsort(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *x = step->node;
    int axis = x->attr.axis.axis;
    ls_dtype dtype = x->src[0]->dtype == LS_BOOL   ? LS_I32
                     : x->src[0]->dtype == LS_BF16 ? LS_F32
                                                   : x->src[0]->dtype;
    const char *y = ls_export_cast(e, in[0], x->src[0]->dtype, dtype);
    Onnx__NodeProto *node = ls_export_op(e, "TopK", 2, y, ls_export_dim(e, x->shape.dim[axis]));
    ls_export_int(e, node, "axis", axis);
    ls_export_int(e, node, "largest", x->attr.axis.kind);
    const char *values = ls_export_result(e, node);
    char **results = values ? LS_ARENA_ARRAY(&e->arena, char *, 2) : NULL;
    if (!results || !(results[1] = (char *)ls_export_name(e, "positions"))) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return NULL;
    }
    results[0] = (char *)values;
    node->output = results;
    node->n_output = 2;
    return results[1];
}

static const char *emit_alias(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    (void)e;
    (void)step;
    return in[0];
}

bool ls_export_plan(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *x = step->node;
    step->in_fill = ONNX_FILL_ZERO;
    switch (class_of(x)) {
    case LS_CLASS_LEAF:
        return plan_leaf(e, step);
    case LS_CLASS_MAP:
        return plan_map(e, step);
    case LS_CLASS_REDUCE:
        return plan_reduce(e, step);
    case LS_CLASS_SCAN:
        if (x->attr.axis.kind != LS_SCAN_SUM) {
            break;
        }
        step->emit = emit_scan;
        return ls_export_operands(e, step, 1, x->src);
    case LS_CLASS_MOVE:
        if (x->op == LS_OP_RESHAPE && !x->absent && keeps_axes(x)) {
            return plan_reduce(e, step);
        }
        return ls_export_plan_move(e, step);
    case LS_CLASS_CONTRACT:
        step->emit = emit_contract;
        return ls_export_operands(e, step, 2, x->src);
    case LS_CLASS_GATHER:
        step->emit = emit_gather;
        return ls_export_operands(e, step, 2, x->src);
    case LS_CLASS_SCATTER:
        step->emit = emit_scatter;
        return ls_export_operands(e, step, 3, x->src);
    case LS_CLASS_SORT:
        step->emit = emit_argsort;
        return ls_export_operands(e, step, 1, x->src);
    case LS_CLASS_COPY:
        step->emit = emit_alias;
        return ls_export_operands(e, step, 1, x->src);
    case LS_CLASS_LOOP:
        return ls_export_plan_loop(e, step);
    case LS_CLASS_RANDOM:
        break;
    }
    ls_export_refuse(e, x, "no ONNX operator computes it");
    return false;
}
