/* Programs of a runner: for fixed shapes, and for patterns of shapes. */
#include "io/onnx/plan.h"
#include "graph/graph.h"
#include <string.h>

static void write_shapes(const ls_runner *r, const ls_data *const *inputs, int64_t *words) {
    memset(words, 0, sizeof *words * ONNX_SHAPE_WORDS * (size_t)r->n_in);
    for (int i = 0; i < r->n_in; i++, words += ONNX_SHAPE_WORDS) {
        if (inputs[i]) {
            words[0] = 1 + (int64_t)ls_data_dtype(inputs[i]);
            words[1] = ls_data_rank(inputs[i]);
            memcpy(words + 2, ls_data_dims(inputs[i]), sizeof *words * (size_t)words[1]);
        }
    }
}

/* As it was before anything was built. */
static void reset_plan(ls_runner *r, ls_onnx_plan *p) {
    for (int i = 0; p->outputs && i < r->n_out; i++) {
        ls_data_release(p->outputs[i].known);
        p->outputs[i].known = NULL;
    }
    for (int i = 0; p->fixed && i < r->n_in; i++) {
        ls_data_release(p->fixed[i]);
        p->fixed[i] = NULL;
    }
    ls_program_destroy(p->program);
    p->program = NULL;
    p->symbol = NULL;
}

void ls_onnx_free_plan(ls_runner *r, ls_onnx_plan *p) {
    reset_plan(r, p);
    ls_free(r->base->heap, p->fixed);
    ls_free(r->base->heap, p->outputs);
    ls_free(r->base->heap, p->pattern.at);
    ls_free(r->base->heap, p->pattern.scale);
    ls_free(r->base->heap, p);
}

static ls_status describe(ls_onnx_run *run, ls_onnx_output *o, ls_onnx_value *v, int i, ls_error *err) {
    LS_TRY(err, ls_onnx_must_be_tensor(run->base->model, i, v, err));
    if (v->known) {
        const ls_data *data;
        LS_TRY(err, ls_onnx_run_read(run, v, &data, err));
        o->known = ls_data_retain(v->data);
        return LS_OK;
    }
    if (!ls_onnx_run_place(run, v, false, err)) {
        return err->code;
    }
    o->dtype = ls_tensor_dtype(v->tensor);
    o->shape = ls_tensor_shape(v->tensor);
    return LS_OK;
}

/* The session's error, taken away from it, as the model's. */
ls_status ls_onnx_session_failed(ls_runner *r, ls_error *err) {
    ls_error first = {.code = LS_OK};
    ls_status status = ls_onnx_take_error(r->base->session, &first);
    return LS_FAIL(err, status, "%s: %s", r->base->model->name, first.message);
}

/* An input's shape, its extents that follow the plan's pattern with the symbol. */
static ls_shape input_shape(const ls_onnx_plan *p, int i) {
    const int64_t *at = p->pattern.at + i * ONNX_SHAPE_WORDS,
                  *scale = p->pattern.scale + i * ONNX_SHAPE_WORDS;
    ls_shape shape = {.rank = (int)at[1]};
    for (int k = 0; k < shape.rank; k++) {
        bool fixed = !p->symbol || !scale[2 + k];
        shape.dim[k] =
            fixed ? ls_dim_of(at[2 + k])
                  : ls_dim_symbol(p->symbol, scale[2 + k], at[2 + k] - scale[2 + k] * p->pattern.value);
    }
    return shape;
}

enum {
    MOST_ELEMENTS = 1 << 24
}; /* of a tensor at a bound that nobody stated, where a smaller bound will do */

/* Takes in what operators made within them, too. *out_elements: of the largest tensor that is no view, at the bound. */
static ls_status see_nodes(ls_onnx_run *run, ls_tensor *const *outputs, int n_outputs, int64_t *out_elements,
                           ls_error *err) {
    int n;
    ls_tensor **order = ls_graph_order(&run->arena, outputs, n_outputs, &n);
    if (!order) {
        return LS_FAIL_MEMORY(err, "the nodes");
    }
    *out_elements = 0;
    for (int i = 0; i < n; i++) {
        int64_t elements = 1;
        ls_onnx_range_see(&run->range, &order[i]->shape);
        for (int k = 0; k < order[i]->shape.rank; k++) {
            if (__builtin_mul_overflow(elements, ls_dim_bound(order[i]->shape.dim[k]), &elements)) {
                elements = INT64_MAX;
            }
        }
        if (ls_ops[order[i]->op].op_class != LS_CLASS_MOVE && elements > *out_elements) {
            *out_elements = elements;
        }
    }
    return LS_OK;
}

/* After building: is the symbol's bound right? *out_bound is another to build with, or 0. */
static ls_status check_range(const ls_onnx_range *range, int64_t elements, const ls_onnx_plan *p, bool stated,
                             int64_t *out_bound, ls_error *err) {
    *out_bound = 0;
    if (range->value < range->least || range->value > range->most) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "the present extents are not among those that a symbol would stand for");
    }
    if (range->most < p->bound) {
        *out_bound = range->most > 0 ? range->most : 1;
    } else if (elements > MOST_ELEMENTS && !stated && p->bound / 2 >= range->value && p->bound > 1) {
        *out_bound = p->bound / 2;
    }
    return LS_OK;
}

/* With a symbol of which *inout_bound is not the bound that is wanted: that bound, and nothing is compiled. */
static ls_status compile(ls_runner *r, ls_onnx_run *run, const ls_data *const *inputs, bool stated,
                         ls_onnx_plan *p, int64_t *inout_bound, ls_error *err) {
    ls_session *s = r->base->session;
    ls_model *model = r->base->model;
    ls_onnx_value **in = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, r->n_in + 1),
                  **out = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, r->n_out + 1);
    ls_tensor **from = LS_ARENA_ARRAY(&run->arena, ls_tensor *, r->n_in + 1),
              **to = LS_ARENA_ARRAY(&run->arena, ls_tensor *, r->n_out + 1);
    int n_from = 0, n_to = 0;
    if (!in || !out || !from || !to) {
        return LS_FAIL_MEMORY(err, model->name);
    }
    for (int i = 0; i < r->n_in; i++) {
        if (p->fixed[i]) {
            in[i] = ls_onnx_run_data(run, p->fixed[i], ls_onnx_input_type(model, i));
            if (!in[i]) {
                return LS_FAIL_MEMORY(err, "an input");
            }
        } else if (inputs[i]) {
            const ls_shape shape = input_shape(p, i);
            ls_onnx_range_see(&run->range, &shape);
            from[n_from] = ls_input(s, ls_model_input(model, i).name, ls_data_dtype(inputs[i]), shape);
            in[i] = from[n_from] ? ls_onnx_run_tensor(run, from[n_from], ls_onnx_input_type(model, i)) : NULL;
            n_from++;
            if (!in[i]) {
                return from[n_from - 1] ? LS_FAIL_MEMORY(err, "an input") : ls_onnx_take_error(s, err);
            }
        }
    }
    LS_TRY(err, ls_onnx_run_graph(run, in, out, err));
    for (int i = 0; i < r->n_out; i++) {
        LS_TRY(err, describe(run, &p->outputs[i], out[i], i, err));
        if (!p->outputs[i].known) {
            to[n_to++] = out[i]->tensor;
        }
    }
    if (p->symbol) {
        int64_t elements = 0;
        LS_TRY(err, see_nodes(run, to, n_to, &elements, err));
        LS_TRY(err, check_range(&run->range, elements, p, stated, inout_bound, err));
        p->least = run->range.least;
        p->most = run->range.most;
        if (*inout_bound) {
            return LS_OK;
        }
    }
    r->facts.programs += n_to > 0;
    r->facts.symbolic += n_to > 0 && p->symbol;
    return n_to && ls_program_compile(s, from, n_from, to, n_to, &p->program) != LS_OK
               ? ls_onnx_session_failed(r, err)
               : LS_OK;
}

/* Whole numbers so few that they are a setting (a sampling rate, a flag, a shape) rather than data. */
static bool is_setting(const ls_data *data) {
    ls_dtype dtype = ls_data_dtype(data);
    return (dtype == LS_I64 || dtype == LS_I32 || dtype == LS_BOOL) && ls_data_numel(data) <= 8;
}

/* Has input i extents that follow the plan's pattern? It is data then: its numbers at the present extents say nothing of others. */
static bool is_symbolic(const ls_onnx_plan *p, int i) {
    bool any = false;
    for (int k = 0; k < ONNX_SHAPE_WORDS; k++) {
        any |= p->pattern.scale[i * ONNX_SHAPE_WORDS + k] != 0;
    }
    return any;
}

/* Compiles for the inputs' shapes and, the second time, for the settings among them, with both branches where other inputs decide.
 * LS_ERR_UNSUPPORTED with *out_needs_values: neither does. */
static ls_status compile_plan(ls_runner *r, const ls_data *const *inputs, bool settings, bool stated,
                              ls_onnx_plan *p, int64_t *inout_bound, bool *out_needs_values, ls_error *err) {
    ls_onnx_run run;
    for (int i = 0; settings && i < r->n_in; i++) {
        if (inputs[i] && is_setting(inputs[i]) && !is_symbolic(p, i) && !ls_onnx_state_of_input(r, i)) {
            p->fixed[i] = ls_data_retain((ls_data *)inputs[i]);
        }
    }
    LS_TRY(err, ls_onnx_run_begin(&run, r->base, false, err));
    run.selects = p->settled = settings;
    run.range = (ls_onnx_range){.symbol = p->symbol, .value = p->pattern.value, .most = INT64_MAX};
    ls_status status = compile(r, &run, inputs, stated, p, inout_bound, err);
    *out_needs_values = status != LS_OK && run.needs_values;
    ls_onnx_run_end(&run);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

/* ---- programs for a pattern of shapes ---- */

static ls_status symbol_of(ls_runner *r, int64_t bound, ls_symbol **out_symbol, ls_error *err) {
    for (size_t i = 0; i < r->symbols.len; i++) {
        if (r->symbols.data[i].bound == bound) {
            *out_symbol = r->symbols.data[i].symbol;
            return LS_OK;
        }
    }
    *out_symbol = ls_symbol_create(ls_session_context(r->base->session), "n", bound, err);
    if (!*out_symbol) {
        return err->code;
    }
    const ls_onnx_symbol made = {bound, *out_symbol};
    return ls_array_push(r->base->heap, &r->symbols, made) ? LS_OK : LS_FAIL_MEMORY(err, "a symbol");
}

/* The stated bound of a word of shapes; 0: none. */
static int64_t stated_at(const ls_runner *r, int word) {
    const ls_model_port port = ls_model_input(r->base->model, word / ONNX_SHAPE_WORDS);
    int axis = word % ONNX_SHAPE_WORDS - 2;
    const char *name = axis >= 0 && axis < port.rank ? port.dim_names[axis] : NULL;
    for (size_t i = 0; name && i < r->stated.len; i++) {
        if (!strcmp(r->stated.data[i].name, name)) {
            return r->stated.data[i].most;
        }
    }
    return 0;
}

/* The largest value that the extents of a pattern are laid out for: such that those with a stated bound reach it and, where none is stated, the
 * largest is at least 1024 and a power of two. *out_stated: one was. */
static int64_t choose_bound(const ls_runner *r, const ls_onnx_pattern *p, bool *out_stated) {
    int64_t bound = INT64_MAX, largest = 1024;
    *out_stated = false;
    for (int i = 0; i < p->words; i++) {
        int64_t most = p->scale[i] ? stated_at(r, i) : 0;
        if (most >= p->at[i] && most > 0) {
            int64_t value = p->value + (most - p->at[i]) / p->scale[i];
            bound = value < bound ? value : bound;
            *out_stated = true;
        }
        while (p->scale[i] && largest < p->at[i] && largest < INT64_MAX / 4) {
            largest *= 2;
        }
    }
    for (int i = 0; i < p->words && !*out_stated; i++) {
        int64_t value = p->scale[i] ? p->value + (largest - p->at[i]) / p->scale[i] : INT64_MAX;
        bound = value < bound ? value : bound;
    }
    return bound > 0 ? bound : 1;
}

static ls_status compile_pattern(ls_runner *r, const ls_data *const *inputs, bool settings, ls_onnx_plan *p,
                                 ls_error *err) {
    enum { MOST_TRIES = 48 };
    bool stated, needs_values;
    int64_t bound = choose_bound(r, &p->pattern, &stated);
    for (int i = 0; i < MOST_TRIES && bound; i++) {
        reset_plan(r, p);
        p->bound = bound;
        LS_TRY(err, symbol_of(r, bound, &p->symbol, err));
        LS_TRY(err, compile_plan(r, inputs, settings, stated, p, &bound, &needs_values, err));
    }
    return bound ? LS_FAIL(err, LS_ERR_UNSUPPORTED, "no bound of its extents was found") : LS_OK;
}

/* A program for a pattern of which the shapes are, in p; *out_made false: the model does not allow it, or no pattern is in sight. */
static ls_status make_pattern(ls_runner *r, const ls_data *const *inputs, const int64_t *shapes,
                              ls_onnx_plan *p, bool *out_made, ls_error *err) {
    enum { MOST_REFUSALS = 4 };
    ls_heap *heap = r->base->heap;
    const ls_onnx_plan *base = NULL;
    int words = p->pattern.words, fewest = words + 1;
    bool any = false;
    for (const ls_onnx_plan *q = r->plans; q; q = q->next) {
        int moved = q->eager ? -1 : ls_onnx_pattern_moved(&q->pattern, shapes);
        if (moved >= 0 && moved < fewest) {
            base = q;
            fewest = moved;
        }
    }
    int64_t *tried = ls_alloc_zeroed(heap, sizeof *tried * ONNX_GUESSES * (size_t)words + 1);
    if (!tried) {
        return LS_FAIL_MEMORY(err, "patterns");
    }
    bool settings = base && base->settled;
    ls_status status = LS_OK;
    for (int g = 0; g < ONNX_GUESSES && !*out_made && status == LS_OK && r->refusals < MOST_REFUSALS; g++) {
        int64_t *scale = p->pattern.scale;
        memset(scale, 0, sizeof *scale * (size_t)words);
        for (int i = 0; g == ONNX_GUESS_STATED && i < words; i++) {
            scale[i] = stated_at(r, i) > 0;
        }
        if ((g != ONNX_GUESS_STATED && !base) ||
            !ls_onnx_pattern_guess(&p->pattern, base ? &base->pattern : NULL, shapes, (ls_onnx_guess)g)) {
            continue;
        }
        bool again = false;
        for (int k = 0; k < g; k++) {
            again |= !memcmp(tried + k * words, scale, sizeof *scale * (size_t)words);
        }
        memcpy(tried + g * words, scale, sizeof *scale * (size_t)words);
        if (!again) {
            ls_error why = {.code = LS_OK};
            status = compile_pattern(r, inputs, settings, p, &why);
            *out_made = status == LS_OK;
            any = true;
            if (status == LS_ERR_AGAIN) {
                *err = why;
                break;
            }
            if (status != LS_OK) {
                ls_free(heap, r->refusal);
                r->refusal = ls_strdup(heap, why.message);
                reset_plan(r, p);
                status = LS_OK;
            }
        }
    }
    r->refusals += any && !*out_made && status == LS_OK;
    ls_free(heap, tried);
    return status;
}

/* Programs for patterns that a new one serves as well. */
static void drop_covered(ls_runner *r, const ls_onnx_plan *made) {
    for (ls_onnx_plan **at = &r->plans, *p; (p = *at) != NULL;) {
        int64_t value;
        bool covered = p != made && p->symbol && made->symbol &&
                       ls_onnx_pattern_value(&made->pattern, p->pattern.at, &value) &&
                       !memcmp(p->pattern.scale, made->pattern.scale,
                               sizeof *p->pattern.scale * (size_t)p->pattern.words);
        int64_t shift = covered ? value - p->pattern.value : 0; /* between the two ways to count */
        int64_t p_most = p->most < p->bound ? p->most : p->bound,
                most = made->most < made->bound ? made->most : made->bound;
        for (int i = 0; covered && i < r->n_in; i++) {
            covered = !p->fixed[i] && !made->fixed[i];
        }
        if (covered && !ls_onnx_holds_state(r, p->program) && made->least <= p->least + shift && p_most + shift <= most) {
            *at = p->next;
            ls_onnx_free_plan(r, p);
        } else {
            at = &p->next;
        }
    }
}

/* ---- the right program ---- */

static ls_onnx_plan *new_plan(ls_runner *r, const int64_t *shapes, ls_error *err) {
    ls_heap *heap = r->base->heap;
    size_t words = ONNX_SHAPE_WORDS * (size_t)r->n_in;
    ls_onnx_plan *p = ls_alloc_zeroed(heap, sizeof *p);
    if (p) {
        p->pattern = (ls_onnx_pattern){.words = (int)words,
                                       .at = ls_alloc(heap, sizeof *shapes * (words + 1)),
                                       .scale = ls_alloc_zeroed(heap, sizeof *shapes * (words + 1))};
        p->fixed = ls_alloc_zeroed(heap, sizeof *p->fixed * ((size_t)r->n_in + 1));
        p->outputs = ls_alloc_zeroed(heap, sizeof *p->outputs * ((size_t)r->n_out + 1));
    }
    if (!p || !p->pattern.at || !p->pattern.scale || !p->fixed || !p->outputs) {
        LS_FAIL_MEMORY(err, "a plan");
        if (p) {
            ls_onnx_free_plan(r, p);
        }
        return NULL;
    }
    memcpy(p->pattern.at, shapes, sizeof *shapes * words);
    return p;
}

/* For these shapes alone. `variants`: how many plans there are for them and other settings. */
static ls_status make_fixed(ls_runner *r, const ls_data *const *inputs, int variants, ls_onnx_plan *p,
                            ls_error *err) {
    enum { MOST_VARIANTS = 8 };
    bool needs_values = variants > 0;
    int64_t no_bound = 0;
    memset(p->pattern.scale, 0, sizeof *p->pattern.scale * (size_t)p->pattern.words);
    p->pattern.value = 0;
    ls_status status = needs_values ? LS_ERR_UNSUPPORTED
                                    : compile_plan(r, inputs, false, false, p, &no_bound, &needs_values, err);
    if (status == LS_ERR_UNSUPPORTED && needs_values && variants < MOST_VARIANTS) {
        ls_error_clear(err);
        status = compile_plan(r, inputs, true, false, p, &no_bound, &needs_values, err);
    }
    if (status == LS_ERR_UNSUPPORTED && needs_values) {
        ls_error_clear(err);
        p->eager = true;
        for (int i = 0; i < r->n_in; i++) { /* for any settings */
            ls_data_release(p->fixed[i]);
            p->fixed[i] = NULL;
        }
        status = LS_OK;
    }
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

static ls_status make_plan(ls_runner *r, const ls_data *const *inputs, const int64_t *shapes, int variants,
                           ls_onnx_plan **out_plan, ls_error *err) {
    ls_onnx_plan *p = new_plan(r, shapes, err);
    bool made = false;
    if (!p) {
        return err->code;
    }
    ls_status status = variants ? LS_OK : make_pattern(r, inputs, shapes, p, &made, err);
    status = status == LS_OK && !made ? make_fixed(r, inputs, variants, p, err) : status;
    if (status != LS_OK) {
        ls_onnx_free_plan(r, p);
        return LS_FORWARD(err, status);
    }
    drop_covered(r, p);
    p->next = r->plans;
    r->plans = p;
    *out_plan = p;
    return LS_OK;
}

ls_status ls_onnx_fix_plan(ls_runner *r, const ls_data *const *inputs, const char *why, ls_onnx_plan **plan,
                           ls_error *err) {
    ls_onnx_plan *old = *plan, *p = new_plan(r, old->pattern.at, err), **at = &r->plans;
    if (!p) {
        return err->code;
    }
    write_shapes(r, inputs, p->pattern.at);
    ls_status status = make_fixed(r, inputs, 0, p, err);
    if (status != LS_OK) {
        ls_onnx_free_plan(r, p);
        return LS_FORWARD(err, status);
    }
    while (*at != old) {
        at = &(*at)->next;
    }
    p->next = old->next;
    *plan = *at = p;
    r->refusals++;
    ls_free(r->base->heap, r->refusal);
    r->refusal = ls_strdup(r->base->heap, why);
    ls_onnx_free_plan(r, old);
    return LS_OK;
}

static bool has_settings(const ls_runner *r, const ls_onnx_plan *p, const ls_data *const *inputs) {
    for (int i = 0; i < r->n_in; i++) {
        if (p->fixed[i] &&
            memcmp(ls_data_bytes(p->fixed[i]), ls_data_bytes(inputs[i]), ls_data_size(inputs[i])) != 0) {
            return false;
        }
    }
    return true;
}

static bool serves(const ls_onnx_plan *p, const int64_t *shapes, int64_t *out_value) {
    return ls_onnx_pattern_value(&p->pattern, shapes, out_value) &&
           (!p->symbol || (*out_value >= p->least && *out_value <= p->most && *out_value <= p->bound));
}

/* *out_value: of its symbol. */
ls_status ls_onnx_find_plan(ls_runner *r, const ls_data *const *inputs, ls_onnx_plan **out_plan,
                            int64_t *out_value, ls_error *err) {
    size_t words = ONNX_SHAPE_WORDS * (size_t)r->n_in;
    int64_t *shapes = ls_alloc(r->base->heap, sizeof *shapes * (words + 1));
    int variants = 0;
    if (!shapes) {
        return LS_FAIL_MEMORY(err, "shapes");
    }
    write_shapes(r, inputs, shapes);
    ls_onnx_plan *p = r->plans;
    for (; p; p = p->next) {
        bool same = serves(p, shapes, out_value);
        if (same && has_settings(r, p, inputs)) {
            break;
        }
        variants += same;
    }
    ls_status status = LS_OK;
    if (!p) {
        status = make_plan(r, inputs, shapes, variants, &p, err);
        *out_value = status == LS_OK ? p->pattern.value : 0;
    }
    ls_free(r->base->heap, shapes);
    *out_plan = p;
    return status;
}
