/* Sums, products, extremes, contractions and scans, with radii from the depth of the contract's trees.
 *
 * A sum of n terms in which every term passes at most d roundings is within gamma_d * sum |x_i| of the real
 * one, gamma_d = d*u/(1-d*u) (Higham, chapters 3 and 4). Locked depths: a REDUCE adds 16 times into a partial
 * and halves 8 times a level; a CONTRACT rounds the product, then up to 512 sums in a chunk and one a chunk;
 * a SCAN as many in its block and one a level. Fast mode may take any order, so d = n. */
#include "oracle/oracle.h"

#define INF __builtin_inf()

static double absolute(double x) {
    return x < 0 ? -x : x;
}
static double gamma_of(double depth, double u) {
    double du = depth * u;
    return du < 0.5 ? du / (1 - du) : INF;
}
static double least(double a, double b) {
    return a < b ? a : b;
}

static double sum_depth(ls_math math, int64_t n) {
    double depth = 0;
    if (math != LS_LOCKED) {
        return (double)n;
    }
    for (int64_t left = n; left > 1; left = (left + 4095) / 4096) {
        depth += 24;
    }
    return least(depth, (double)n);
}
static double contract_depth(ls_math math, int64_t n) {
    return math == LS_LOCKED ? least((double)n, 512) + (double)((n + 511) / 512) : (double)n + 1;
}
static double scan_depth(ls_math math, int64_t n) {
    double depth = 0;
    if (math != LS_LOCKED) {
        return (double)n;
    }
    for (int64_t left = n; left > 1; left = (left + 511) / 512) {
        depth += least((double)left, 513);
    }
    return depth;
}

/* A running sum of real terms with the magnitude of those that are finite, and radii; the oracle's own rounding is kept by compensation
 * (Neumaier). */
typedef struct folded {
    double sum, compensation, magnitude, radius;
    int64_t terms;
} folded;

static void fold_add(folded *f, double term, double radius, double error) {
    double t = f->sum + term;
    double big = absolute(f->sum) >= absolute(term) ? f->sum : term, small = big == f->sum ? term : f->sum;
    f->compensation += t - t == 0 ? (big - t) + small : 0;
    f->sum = t;
    f->magnitude += absolute(term) < INF ? absolute(term) + radius : 0;
    f->radius += radius + error;
    f->terms++;
}

static ls_ball fold_result(const folded *f, ls_dtype acc, ls_dtype out, double depth) {
    double m = f->sum + f->compensation;
    double own = 0x1p-52 * absolute(m) + (double)f->terms * 0x1p-105 * f->magnitude;
    double r = f->radius * (1 + 0x1p-40) + own + gamma_of(depth, ls_unit_roundoff(acc)) * f->magnitude +
               depth * ls_smallest(acc);
    bool overflows = f->magnitude > (acc == LS_F64 ? INF : 0x1.fp127); /* a partial sum may, though the whole does not */
    if (m - m != 0) { /* beside an infinity, one of the other sign would be NaN */
        return (ls_ball){f->sum, f->radius == 0 && !(overflows && f->sum == f->sum) ? 0 : INF};
    }
    r = overflows ? INF : r;
    return out == acc ? (ls_ball){m, r} : ls_ball_round(out, (ls_ball){m, r}, 1);
}

/* The position in the operand of a point: `kept` axes from the result's index, reduced ones from an odometer.
 */
typedef struct reduction {
    int n_reduced, n_kept;
    int reduced[LS_MAX_RANK], kept[LS_MAX_RANK];
    int64_t stride[LS_MAX_RANK], reduced_dim[LS_MAX_RANK];
    int64_t n;
} reduction;

static void strides_of(const ls_balls *x, int64_t *stride) {
    int64_t s = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = s;
        s *= x->dim[i];
    }
}

static reduction reduction_of(const ls_tensor *node, const ls_balls *x) {
    reduction r = {.n_reduced = node->attr.axes.count, .n = 1};
    bool is_reduced[LS_MAX_RANK] = {false};
    strides_of(x, r.stride);
    for (int i = 0; i < r.n_reduced; i++) {
        r.reduced[i] = node->attr.axes.axes[i];
        r.reduced_dim[i] = x->dim[r.reduced[i]];
        r.n *= r.reduced_dim[i];
        is_reduced[r.reduced[i]] = true;
    }
    for (int i = 0; i < x->rank; i++) {
        if (!is_reduced[i]) {
            r.kept[r.n_kept++] = i;
        }
    }
    return r;
}

static int64_t reduced_offset(const reduction *r, const int64_t *t) {
    int64_t at = 0;
    for (int i = 0; i < r->n_reduced; i++) {
        at += t[i] * r->stride[r->reduced[i]];
    }
    return at;
}

/* A product in any order: every partial product lies between `least` and `most` in magnitude. */
typedef struct factors {
    double product, top, most, least, terms; /* of the factors; of their magnitudes; of those above 1; of those below, zeros apart */
} factors;

static void factors_add(factors *f, double mid, double rad) {
    double high = absolute(mid) + rad, low = absolute(mid) - rad;
    f->product *= mid;
    f->top *= high;
    f->most *= high > 1 ? high : 1;
    f->least *= high == 0 || low > 1 ? 1 : low > 0 ? low : 0;
    f->terms++;
}

static ls_ball factors_result(const factors *f, ls_dtype acc) {
    double g = gamma_of(f->terms, ls_unit_roundoff(acc) + 0x1p-52), m = f->product;
    bool overflows = acc == LS_F64 ? f->most - f->most != 0 : !(f->most <= 0x1.fp127);
    if (m - m != 0) { /* NaN comes out in any order; an infinity unless a partial product was 0 before it met it */
        return (ls_ball){m, f->top - f->top == 0 || (m == m && f->least < ls_smallest(acc)) ? INF : 0};
    }
    if (overflows && f->terms > 1) { /* an infinity on the way, and then 0 times it is no 0 */
        return (ls_ball){m, INF};
    }
    /* what a partial product loses below the smallest number grows with the factors that follow */
    double r = (f->top - absolute(m)) + g * f->top + f->terms * ls_smallest(acc) * f->most;
    return (ls_ball){m, f->top == 0 ? 0 : r != r ? INF : r};
}

static ls_ball product_of(const ls_balls *x, const reduction *r, int64_t base, ls_dtype acc, ls_dtype out) {
    factors f = {1, 1, 1, 1, 0};
    int64_t t[LS_MAX_RANK] = {0};
    for (int64_t k = 0; k < r->n; k++, ls_next_index(r->n_reduced, r->reduced_dim, t)) {
        int64_t at = base + reduced_offset(r, t);
        if (!(x->absent && x->absent[at])) {
            factors_add(&f, x->mid[at], x->rad[at]);
        }
    }
    ls_ball y = factors_result(&f, acc);
    return out == acc ? y : ls_ball_round(out, y, 1);
}

static void extreme_of(const ls_tensor *node, const ls_balls *x, const reduction *r, int64_t base,
                       ls_balls *out, int64_t o) {
    bool largest = node->op == LS_OP_AMAX || node->op == LS_OP_ARGMAX;
    bool index = node->op == LS_OP_ARGMAX || node->op == LS_OP_ARGMIN;
    double best = 0, high = 0, low = 0;
    int64_t t[LS_MAX_RANK] = {0}, chosen = -1, chosen_at = 0;
    bool nan = false, any_radius = false;
    for (int64_t k = 0; k < r->n; k++, ls_next_index(r->n_reduced, r->reduced_dim, t)) {
        int64_t at = base + reduced_offset(r, t);
        if ((x->absent && x->absent[at]) || nan) {
            continue;
        }
        any_radius |= x->rad[at] > 0;
        bool better;
        if (x->mid) {
            double v = largest ? x->mid[at] : -x->mid[at];
            better = chosen < 0 || v > best || v != v;
            high = chosen < 0 || v + x->rad[at] > high ? v + x->rad[at] : high;
            low = chosen < 0 || v - x->rad[at] > low ? v - x->rad[at] : low;
            best = better || (v == best && __builtin_signbit(best)) ? v : best; /* of zeros the positive one */
            nan = v != v;
        } else {
            ls_op less = LS_OP_LT;
            int64_t v = x->exact[at], w = chosen < 0 ? 0 : x->exact[chosen_at];
            better =
                chosen < 0 || ls_oracle_integer(less, x->dtype, LS_BOOL, largest ? w : v, largest ? v : w);
        }
        if (better) {
            chosen = k;
            chosen_at = at;
        }
    }
    if (index) {
        out->exact[o] = chosen < 0 ? 0 : chosen;
        /* decided when the winner stands clear of every other by the radii */
        bool clear = !any_radius;
        if (!clear && x->mid && !nan) {
            clear = true;
            int64_t s[LS_MAX_RANK] = {0};
            for (int64_t k = 0; k < r->n && clear; k++, ls_next_index(r->n_reduced, r->reduced_dim, s)) {
                int64_t at = base + reduced_offset(r, s);
                double gap = (largest ? 1 : -1) * (x->mid[chosen_at] - x->mid[at]);
                clear =
                    at == chosen_at || (x->absent && x->absent[at]) || gap > x->rad[at] + x->rad[chosen_at];
            }
        }
        out->rad[o] = clear ? 0 : INF;
    } else if (out->mid) {
        double sign = largest ? 1 : -1;
        out->mid[o] = chosen < 0 ? -sign * INF : sign * best;
        double spread = high - best > best - low ? high - best : best - low;
        out->rad[o] = chosen < 0 || !any_radius ? 0 : spread != spread ? INF : spread;
    } else {
        uint64_t ones = out->dtype == LS_BOOL ? 1 : ~UINT64_C(0) >> (64 - 8 * ls_dtype_size(out->dtype));
        int64_t max = (int64_t)(ls_dtype_is_signed(out->dtype) ? ones >> 1 : ones),
                min = ls_dtype_is_signed(out->dtype) ? -max - 1 : 0;
        out->exact[o] = chosen < 0 ? (largest ? min : max) : x->exact[chosen_at];
        out->rad[o] = any_radius ? INF : 0;
    }
}

ls_status ls_oracle_reduce(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    const ls_balls *x = ls_oracle_get(st, node->src[0]);
    reduction r = reduction_of(node, x);
    ls_dtype acc = ls_dtype_accumulator(x->dtype, false);
    double depth = sum_depth(node->math, r.n);
    int64_t index[LS_MAX_RANK] = {0};
    for (int64_t o = 0; o < out->n; o++, ls_next_index(out->rank, out->dim, index)) {
        int64_t base = 0;
        for (int i = 0; i < r.n_kept; i++) {
            base += index[i] * r.stride[r.kept[i]];
        }
        if (node->op != LS_OP_SUM && node->op != LS_OP_PROD) {
            extreme_of(node, x, &r, base, out, o);
            continue;
        }
        if (out->mid && node->op == LS_OP_PROD) {
            ls_ball y = product_of(x, &r, base, acc, out->dtype);
            out->mid[o] = y.m, out->rad[o] = y.r;
            continue;
        }
        folded f = {0, 0, 0, 0, 0};
        uint64_t integer = node->op == LS_OP_PROD;
        bool open = false;
        int64_t t[LS_MAX_RANK] = {0};
        for (int64_t k = 0; k < r.n; k++, ls_next_index(r.n_reduced, r.reduced_dim, t)) {
            int64_t at = base + reduced_offset(&r, t);
            if (x->absent && x->absent[at]) {
                continue;
            }
            if (x->mid) {
                fold_add(&f, x->mid[at], x->rad[at], 0);
            } else {
                uint64_t v = (uint64_t)x->exact[at];
                integer = node->op == LS_OP_PROD ? integer * v : integer + v;
                open |= x->rad[at] > 0;
            }
        }
        if (out->mid) {
            ls_ball y = fold_result(&f, acc, out->dtype, f.terms <= 1 ? 0 : depth);
            out->mid[o] = y.m, out->rad[o] = y.r;
        } else {
            out->exact[o] = ls_oracle_wrap(out->dtype, (int64_t)integer);
            out->rad[o] = open ? INF : 0;
        }
    }
    return LS_OK;
}

/* One side of a contraction: strides of the result's axes and of the contracted ones in this operand. */
typedef struct side {
    const ls_balls *x;
    int64_t out_stride[LS_MAX_RANK * 2], k_stride[LS_MAX_RANK];
} side;

static side side_of(const ls_balls *x, int n_batch, const int *batch, int n_contract, const int *contract,
                    int first_free) {
    side s = {.x = x};
    int64_t stride[LS_MAX_RANK];
    bool taken[LS_MAX_RANK] = {false};
    strides_of(x, stride);
    for (int i = 0; i < n_batch; i++) {
        s.out_stride[i] = stride[batch[i]];
        taken[batch[i]] = true;
    }
    for (int i = 0; i < n_contract; i++) {
        s.k_stride[i] = stride[contract[i]];
        taken[contract[i]] = true;
    }
    for (int i = 0; i < x->rank; i++) {
        if (!taken[i]) {
            s.out_stride[first_free++] = stride[i];
        }
    }
    return s;
}

/* Integers as f32, moved by zero points. */
static bool is_codes(const ls_tensor *x) {
    while (ls_ops[x->op].op_class == LS_CLASS_MOVE && x->n_src == 1) {
        x = x->src[0];
    }
    if (x->op == LS_OP_CAST) {
        return x->dtype == LS_F32 && ls_dtype_is_int(x->src[0]->dtype);
    }
    return (x->op == LS_OP_SUB || x->op == LS_OP_ADD) && (is_codes(x->src[0]) || is_codes(x->src[1]));
}

/* Integer codes times a scale. */
static bool is_dequantised(const ls_tensor *x) {
    while (ls_ops[x->op].op_class == LS_CLASS_MOVE && x->n_src == 1) {
        x = x->src[0];
    }
    return x->op == LS_OP_MUL && x->dtype == LS_F32 && (is_codes(x->src[0]) || is_codes(x->src[1]));
}

enum { REDUCED_BLOCK = 32 };

/* What reduced arithmetic may do to the operands of a term (C28): round both to bf16; or, where the other operand is dequantised, quantise
 * one to 8 bits, which moves an element by at most 1/254 of the largest magnitude of its 32 neighbours along the contracted axes. */
typedef struct reduction_of_terms {
    bool rounds, quantises[2]; /* of side 0, side 1 */
    double most[2];            /* that magnitude */
} reduction_of_terms;

static double most_of_block(const side *s, int64_t base, int n_axes, const int64_t *k_dim, const int64_t *from, int64_t n) {
    int64_t k[LS_MAX_RANK];
    double most = 0;
    for (int i = 0; i < n_axes; i++) {
        k[i] = from[i];
    }
    for (int64_t t = 0; t < n; t++, ls_next_index(n_axes, k_dim, k)) {
        int64_t at = base;
        for (int i = 0; i < n_axes; i++) {
            at += k[i] * s->k_stride[i];
        }
        double size = absolute(s->x->mid[at]) + s->x->rad[at];
        most = size > most || size != size ? size : most;
    }
    return most;
}

static double reduced_error(const reduction_of_terms *r, double x, double y) {
    double u = ls_unit_roundoff(LS_BF16), rounded = r->rounds ? (2 * u + u * u) * absolute(x * y) : 0;
    double first = r->quantises[0] ? r->most[0] / 253.99 * absolute(y) : 0;
    double second = r->quantises[1] ? r->most[1] / 253.99 * absolute(x) : 0;
    double quantised = first > second ? first : second;
    return rounded > quantised ? rounded : quantised;
}

ls_status ls_oracle_contract(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    const ls_contract_spec *c = &node->attr.contract;
    const ls_balls *a = ls_oracle_get(st, node->src[0]), *b = ls_oracle_get(st, node->src[1]);
    side sa = side_of(a, c->n_batch, c->batch_a, c->n_contract, c->contract_a, c->n_batch);
    side sb = side_of(b, c->n_batch, c->batch_b, c->n_contract, c->contract_b, a->rank - c->n_contract);
    ls_dtype acc = ls_dtype_accumulator(a->dtype, true);
    int64_t k_dim[LS_MAX_RANK], n = 1, index[LS_MAX_RANK] = {0};
    for (int i = 0; i < c->n_contract; i++) {
        k_dim[i] = a->dim[c->contract_a[i]];
        n *= k_dim[i];
    }
    double depth = contract_depth(node->math, n);
    bool reduced = node->math == LS_REDUCED && a->mid && acc == LS_F32 && node->src[0]->dtype == LS_F32;
    reduction_of_terms less = {.rounds = reduced,
                               .quantises = {reduced && is_dequantised(node->src[1]), reduced && is_dequantised(node->src[0])}};
    for (int64_t o = 0; o < out->n; o++, ls_next_index(out->rank, out->dim, index)) {
        int64_t base_a = 0, base_b = 0, k[LS_MAX_RANK] = {0};
        for (int i = 0; i < out->rank; i++) {
            base_a += index[i] * sa.out_stride[i];
            base_b += index[i] * sb.out_stride[i];
        }
        folded f = {0, 0, 0, 0, 0};
        uint64_t integer = 0;
        bool open = false;
        for (int64_t t = 0; t < n; t++, ls_next_index(c->n_contract, k_dim, k)) {
            int64_t at_a = base_a, at_b = base_b, block = n - t < REDUCED_BLOCK ? n - t : REDUCED_BLOCK;
            for (int i = 0; i < 2 && t % REDUCED_BLOCK == 0; i++) {
                less.most[i] = less.quantises[i] ? most_of_block(i ? &sb : &sa, i ? base_b : base_a, c->n_contract, k_dim, k, block) : 0;
            }
            for (int i = 0; i < c->n_contract; i++) {
                at_a += k[i] * sa.k_stride[i];
                at_b += k[i] * sb.k_stride[i];
            }
            if ((a->absent && a->absent[at_a]) || (b->absent && b->absent[at_b])) {
                continue;
            }
            if (a->mid) {
                double x = a->mid[at_a], y = b->mid[at_b], rx = a->rad[at_a], ry = b->rad[at_b], p = x * y;
                double radius = rx + ry == 0 ? 0 : absolute(x) * ry + absolute(y) * rx + rx * ry;
                radius += less.rounds ? reduced_error(&less, absolute(x) + rx, absolute(y) + ry) : 0;
                fold_add(&f, p, radius != radius ? INF : radius, 0x1p-53 * absolute(p));
            } else {
                integer += (uint64_t)a->exact[at_a] * (uint64_t)b->exact[at_b];
                open |= a->rad[at_a] > 0 || b->rad[at_b] > 0;
            }
        }
        if (out->mid) {
            ls_ball y = fold_result(&f, acc, out->dtype, depth + 1);
            out->mid[o] = y.m, out->rad[o] = y.r;
        } else {
            out->exact[o] = ls_oracle_wrap(out->dtype, (int64_t)integer);
            out->rad[o] = open ? INF : 0;
        }
    }
    return LS_OK;
}

/* What a scan carries from element to element. */
typedef struct running {
    folded sum;
    factors product;
    ls_ball extreme;
    int64_t integer;
    bool open;
} running;

static running running_start(int kind, ls_dtype dtype) {
    uint64_t ones = dtype == LS_BOOL ? 1 : ~UINT64_C(0) >> (64 - 8 * ls_dtype_size(dtype));
    int64_t max = (int64_t)(ls_dtype_is_signed(dtype) ? ones >> 1 : ones);
    int64_t min = ls_dtype_is_signed(dtype) ? -max - 1 : 0;
    running r = {.product = {1, 1, 1, 1, 0}, .extreme = {kind == LS_SCAN_MAX ? -INF : INF, 0}};
    r.integer = kind == LS_SCAN_SUM ? 0 : kind == LS_SCAN_PROD ? 1 : kind == LS_SCAN_MAX ? min : max;
    return r;
}

static void running_add(running *r, const ls_tensor *node, const ls_balls *x, int64_t at) {
    static const ls_op ops[] = {LS_OP_ADD, LS_OP_MUL, LS_OP_MIN, LS_OP_MAX}; /* by ls_scan_kind */
    int kind = node->attr.axis.kind;
    if (!x->mid) {
        r->integer = ls_oracle_integer(ops[kind], x->dtype, x->dtype, r->integer, x->exact[at]);
        r->open |= x->rad[at] > 0;
    } else if (kind == LS_SCAN_MIN || kind == LS_SCAN_MAX) {
        r->extreme = ls_ball_map(ops[kind], x->dtype, x->dtype, node->math, r->extreme, ls_balls_at(x, at));
    } else {
        fold_add(&r->sum, x->mid[at], x->rad[at], 0);
        factors_add(&r->product, x->mid[at], x->rad[at]);
    }
}

static void running_store(const running *r, const ls_tensor *node, double depth, ls_balls *out, int64_t to) {
    int kind = node->attr.axis.kind;
    ls_dtype acc = ls_dtype_accumulator(node->dtype, false);
    if (!out->mid) {
        out->exact[to] = r->integer;
        out->rad[to] = r->open ? INF : 0;
        return;
    }
    ls_ball y = r->extreme;
    if (kind == LS_SCAN_SUM) {
        y = fold_result(&r->sum, acc, out->dtype, r->sum.terms <= 1 ? 0 : depth);
    } else if (kind == LS_SCAN_PROD) {
        y = factors_result(&r->product, acc);
        y = ls_ball_round(out->dtype, y, 1);
    }
    out->mid[to] = y.m, out->rad[to] = y.r;
}

ls_status ls_oracle_scan(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    const ls_balls *x = ls_oracle_get(st, node->src[0]);
    const ls_attr_axis *attr = &node->attr.axis;
    int64_t n = x->dim[attr->axis], stride = 1, lines = 1;
    double depth = scan_depth(node->math, n);
    for (int i = 0; i < x->rank; i++) {
        *(i <= attr->axis ? &lines : &stride) *= i == attr->axis ? 1 : x->dim[i];
    }
    for (int64_t line = 0; line < lines * stride; line++) {
        int64_t base = line / stride * stride * n + line % stride;
        running r = running_start(attr->kind, x->dtype);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = base + (attr->reverse ? n - 1 - i : i) * stride;
            if (attr->exclusive) {
                running_store(&r, node, depth, out, at);
            }
            running_add(&r, node, x, at);
            if (!attr->exclusive) {
                running_store(&r, node, depth, out, at);
            }
        }
    }
    return LS_OK;
}
