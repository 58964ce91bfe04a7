/* Optimisers, in the formulas of PyTorch's. The step count is a variable, so bias correction recompiles nothing and a saved state resumes
 * exactly:
 *   SGD    g' = clip(g) + decay*p; m = momentum*m + g'; p -= rate*m
 *   Adam   m = b1*m + (1-b1)*g'; v = b2*v + (1-b2)*g'^2; p -= rate * (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps)
 *   AdamW  Adam on clip(g) alone, after p -= rate*decay*p */
#include "base/array.h"
#include "base/numerics.h"
#include "base/status.h"
#include "math/math.h"
#include <lockstep/grad.h>
#include <lockstep/optim.h>
#include <stdio.h>

struct ls_optimizer {
    ls_heap *heap;
    ls_params *params;
    ls_optimizer_options options;
    LS_ARRAY(ls_var *) state;
    ls_var *step;  /* Adam: how many were taken; else NULL */
    int per_param; /* state variables beside each parameter, first in `state` */
    int n_params;  /* that have them */
};

static double or_default(double value, double otherwise) {
    return value != 0 ? value : otherwise;
}

static ls_status add_state(ls_session *session, ls_optimizer *o, const char *name, const char *suffix,
                           ls_shape shape) {
    char full[280];
    if (snprintf(full, sizeof full, "%s%s", name, suffix) >= (int)sizeof full) {
        ls_session_set_error(session, LS_ERR_INVALID,
                             "optimiser: parameter \"%.64s...\": expected a name of at most 270 bytes", name);
        return LS_ERR_INVALID;
    }
    ls_var *var = ls_var_create(session, full, LS_F32, shape, NULL);
    if (!var) {
        return ls_session_error(session)->code;
    }
    if (!ls_array_push(o->heap, &o->state, var)) {
        ls_var_destroy(var);
        ls_session_set_error(session, LS_ERR_MEMORY, "out of memory for an optimiser");
        return LS_ERR_MEMORY;
    }
    return LS_OK;
}

static bool in_unit(double x) {
    return x >= 0 && x < 1;
}

ls_status ls_optimizer_create(ls_session *session, ls_params *params, const ls_optimizer_options *options,
                              ls_optimizer **out_optimizer) {
    static const ls_optimizer_options defaults;
    ls_heap *heap = ls_context_heap(ls_session_context(session));
    ls_optimizer *o = ls_alloc_zeroed(heap, sizeof *o);
    if (!o) {
        ls_session_set_error(session, LS_ERR_MEMORY, "out of memory for an optimiser");
        return LS_ERR_MEMORY;
    }
    *o = (ls_optimizer){
        .heap = heap, .params = params, .options = options ? *options : defaults, .n_params = ls_params_count(params)};
    ls_optimizer_options *p = &o->options;
    p->beta1 = or_default(p->beta1, 0.9);
    p->beta2 = or_default(p->beta2, 0.999);
    p->epsilon = or_default(p->epsilon, 1e-8);
    if (p->kind < LS_OPTIM_SGD || p->kind > LS_OPTIM_ADAMW) {
        ls_session_set_error(session, LS_ERR_INVALID, "optimiser: kind %d: expected one of ls_optimizer_kind", (int)p->kind);
        ls_free(heap, o);
        return LS_ERR_INVALID;
    }
    if (!in_unit(p->momentum) || !in_unit(p->beta1) || !in_unit(p->beta2) || !(p->epsilon > 0) ||
        !(p->weight_decay >= 0) || !(p->clip_norm >= 0)) {
        ls_session_set_error(
            session, LS_ERR_INVALID,
            "optimiser: momentum %g, betas %g and %g, epsilon %g, weight decay %g, clip %g: expected the "
            "first three in [0,1), epsilon above 0 and the others not negative",
            p->momentum, p->beta1, p->beta2, p->epsilon, p->weight_decay, p->clip_norm);
        ls_free(heap, o);
        return LS_ERR_INVALID;
    }
    ls_status status = LS_OK;
    bool adam = p->kind != LS_OPTIM_SGD;
    o->per_param = adam ? 2 : p->momentum > 0;
    for (int i = 0; i < ls_params_count(params) && status == LS_OK; i++) {
        const ls_var *var = ls_params_at(params, i);
        for (int k = 0; k < o->per_param && status == LS_OK; k++) {
            status = add_state(session, o, ls_var_name(var), k ? ".v" : ".m", ls_var_shape(var));
        }
    }
    if (status == LS_OK && adam) {
        status = add_state(session, o, "optimizer", ".step", LS_SCALAR);
        o->step = status == LS_OK ? o->state.data[o->state.len - 1] : NULL;
    }
    if (status != LS_OK) {
        ls_optimizer_destroy(o);
        return status;
    }
    *out_optimizer = o;
    return LS_OK;
}

void ls_optimizer_destroy(ls_optimizer *o) {
    if (o) {
        for (size_t i = 0; i < o->state.len; i++) {
            ls_var_destroy(o->state.data[i]);
        }
        ls_array_free(o->heap, &o->state);
        ls_free(o->heap, o);
    }
}

int ls_optimizer_state_count(const ls_optimizer *o) {
    return (int)o->state.len;
}
ls_var *ls_optimizer_state_at(const ls_optimizer *o, int index) {
    return index >= 0 && index < (int)o->state.len ? o->state.data[index] : NULL;
}

/* ---- one step ---- */

static ls_tensor *scalar(ls_session *s, double value) {
    return ls_full(s, LS_F32, LS_SCALAR, value);
}

/* min(1, clip / norm) over all gradients together. */
static ls_tensor *clip_scale(ls_session *s, const ls_optimizer *o, ls_tensor *const *grads, int count) {
    ls_tensor *total = NULL;
    for (int i = 0; i < count; i++) {
        ls_tensor *square = ls_sum(s, ls_mul(s, grads[i], grads[i]), 0, NULL, 0);
        total = total ? ls_add(s, total, square) : square;
    }
    ls_tensor *norm = ls_add(s, ls_sqrt(s, total), scalar(s, 1e-6));
    return ls_min(s, scalar(s, 1), ls_div(s, scalar(s, o->options.clip_norm), norm));
}

typedef struct step_terms {
    ls_tensor *rate, *correction1, *correction2; /* 1 - beta^t */
} step_terms;

static ls_tensor *blend(ls_session *s, ls_tensor *old, ls_tensor *fresh, double beta) {
    return ls_add(s, ls_mul(s, scalar(s, beta), old), ls_mul(s, scalar(s, 1 - beta), fresh));
}

/* A step's new values, which are assigned once all of them are there. */
typedef struct change {
    ls_var *var;
    ls_tensor *value;
} change;

/* Those of one parameter and its state: 1 + o->per_param of them. */
static void step_param(ls_session *s, const ls_optimizer *o, int i, ls_tensor *g, const step_terms *t, change *out) {
    const ls_optimizer_options *p = &o->options;
    ls_var *var = ls_params_at(o->params, i), *const *state = o->state.data + (size_t)(i * o->per_param);
    ls_tensor *x = ls_var_value(s, var);
    if (p->kind == LS_OPTIM_ADAMW && p->weight_decay > 0) {
        x = ls_sub(s, x, ls_mul(s, ls_mul(s, t->rate, scalar(s, p->weight_decay)), x));
    } else if (p->weight_decay > 0) {
        g = ls_add(s, g, ls_mul(s, scalar(s, p->weight_decay), x));
    }
    ls_tensor *move = g;
    if (p->kind != LS_OPTIM_SGD) {
        ls_tensor *m = blend(s, ls_var_value(s, state[0]), g, p->beta1);
        ls_tensor *v = blend(s, ls_var_value(s, state[1]), ls_mul(s, g, g), p->beta2);
        *out++ = (change){state[0], m};
        *out++ = (change){state[1], v};
        ls_tensor *deviation = ls_add(s, ls_sqrt(s, ls_div(s, v, t->correction2)), scalar(s, p->epsilon));
        move = ls_div(s, ls_div(s, m, t->correction1), deviation);
    } else if (p->momentum > 0) {
        move = ls_add(s, ls_mul(s, scalar(s, p->momentum), ls_var_value(s, state[0])), g);
        *out++ = (change){state[0], move};
    }
    *out = (change){var, ls_sub(s, x, ls_mul(s, t->rate, move))};
}

static ls_status check_step(ls_session *s, const ls_optimizer *o, const ls_tensor *rate) {
    int count = ls_params_count(o->params);
    if (count != o->n_params) {
        ls_session_set_error(
            s, LS_ERR_INVALID,
            "optimiser: %d parameters, of which %d were there when it was made: expected all of them", count,
            o->n_params);
        return LS_ERR_INVALID;
    }
    if (!rate || ls_tensor_dtype(rate) != LS_F32 || ls_tensor_shape(rate).rank != 0) {
        ls_status code = !rate ? LS_ERR_INVALID : ls_tensor_dtype(rate) != LS_F32 ? LS_ERR_DTYPE : LS_ERR_SHAPE;
        ls_session_set_error(s, code, "optimiser: the rate is %s of rank %d: expected an f32 scalar",
                             rate ? ls_dtype_name(ls_tensor_dtype(rate)) : "NULL", rate ? ls_tensor_shape(rate).rank : 0);
        return code;
    }
    return LS_OK;
}

ls_status ls_optimizer_step(ls_session *s, ls_optimizer *o, ls_tensor *loss, ls_tensor *rate) {
    LS_TRY(NULL, check_step(s, o, rate));
    int count = o->n_params, n_changes = 0;
    change *changes = ls_alloc(o->heap, sizeof *changes * (size_t)(count * (1 + o->per_param) + 1));
    ls_tensor **values = ls_alloc(o->heap, sizeof *values * (size_t)(2 * count + 1)), **grads = values + count;
    if (!changes || !values) {
        ls_free(o->heap, changes);
        ls_free(o->heap, values);
        ls_session_set_error(s, LS_ERR_MEMORY, "out of memory for an optimiser's step");
        return LS_ERR_MEMORY;
    }
    for (int i = 0; i < count; i++) {
        values[i] = ls_var_value(s, ls_params_at(o->params, i));
    }
    ls_status status = ls_grad(s, loss, NULL, count, values, grads);
    step_terms t = {.rate = rate};
    if (status == LS_OK && o->options.clip_norm > 0) {
        ls_tensor *scale = clip_scale(s, o, grads, count);
        for (int i = 0; i < count; i++) {
            grads[i] = ls_mul(s, grads[i], scale);
        }
    }
    if (status == LS_OK && o->step) {
        ls_tensor *step = ls_add(s, ls_var_value(s, o->step), scalar(s, 1));
        changes[n_changes++] = (change){o->step, step};
        t.correction1 = ls_sub(s, scalar(s, 1), ls_pow(s, scalar(s, o->options.beta1), step));
        t.correction2 = ls_sub(s, scalar(s, 1), ls_pow(s, scalar(s, o->options.beta2), step));
    }
    for (int i = 0; i < count && status == LS_OK; i++) {
        step_param(s, o, i, grads[i], &t, changes + n_changes);
        n_changes += 1 + o->per_param;
    }
    status = status == LS_OK ? ls_session_error(s)->code : status;
    for (int i = 0; i < n_changes && status == LS_OK; i++) {
        status = ls_var_assign(s, changes[i].var, changes[i].value);
    }
    ls_free(o->heap, changes);
    ls_free(o->heap, values);
    return status;
}

/* ---- schedules ---- */

static double rate_at(const ls_schedule *c, int64_t step) {
    if (step < c->warmup) {
        return c->rate * (double)(step + 1) / (double)c->warmup;
    }
    if (c->kind == LS_SCHEDULE_COSINE && c->steps > c->warmup) {
        double done = (double)(step - c->warmup) / (double)(c->steps - c->warmup);
        return done >= 1 ? 0 : c->rate * 0.5 * (1 + ls_cos_f64(done * 0x1.921fb54442d18p+1));
    }
    if (c->kind == LS_SCHEDULE_STEP && c->every > 0) {
        double rate = c->rate;
        for (int64_t i = step / c->every; i > 0 && rate > 0; i--) {
            rate /= 10;
        }
        return rate;
    }
    return c->rate;
}

double ls_schedule_rate(const ls_schedule *schedule, int64_t step) {
    ls_numerics numerics = ls_numerics_enter();
    double rate = rate_at(schedule, step);
    ls_numerics_leave(numerics);
    return rate;
}
