/* Mutants are generated, not chosen: every operator of src/spec/mutate.h, at every site, in every variant, of
 * the specs of a fixed set of graphs that covers the kinds of kernels. A mutant runs on the CPU, the right
 * spec on the reference, on the same inputs. It is killed      when a bit differs, an index out of range is
 * reported by one of them alone, or the CPU refuses it; equivalent  when that is proved: by one of the rules
 * below, or by hand in proofs[]; surviving   else, and the test fails. Prints the score by operator;
 * MUTANTS=all prints each survivor's spec. */
#include "support/world.h"
#include "base/rng.h"
#include "engine/session.h"
#include "spec/mutate.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/spec_support.h"
#include "museum/mutant_proofs.h"

static ls_symbol symbol = {.name = "B", .bound = 6, .index = 0};
static const int64_t symbol_value = 4;

/* ---- the graphs ---- */

typedef struct leaves {
    ls_tensor *x, *w, *row, *image, *filter, *index, *updates, *half, *whole;
} leaves;

static ls_tensor *bias_relu(ls_session *s, leaves t) {
    return ls_relu(s, ls_add(s, t.x, t.row));
}
static ls_tensor *gelu(ls_session *s, leaves t) {
    return ls_gelu(s, t.x);
}
static ls_tensor *integers(ls_session *s, leaves t) {
    return ls_xor(s, ls_rem(s, t.whole, ls_full_i64(s, LS_I32, LS_SCALAR, 7)),
                  ls_shl(s, t.whole, ls_full_i64(s, LS_I32, LS_SCALAR, 3)));
}
static ls_tensor *selected(ls_session *s, leaves t) {
    return ls_where(s, ls_lt(s, t.x, t.row), ls_exp(s, t.x), ls_sub(s, t.row, t.x));
}
static ls_tensor *softmax(ls_session *s, leaves t) {
    return ls_softmax(s, t.x, 1);
}
static ls_tensor *layer_norm(ls_session *s, leaves t) {
    return ls_layer_norm(s, t.x, 1, t.row, NULL, 1e-5);
}
static ls_tensor *variance(ls_session *s, leaves t) {
    int axis = 1;
    return ls_variance(s, ls_transpose(s, t.x, 0, 1), 1, &axis, 0, 0);
}
static ls_tensor *column_sum(ls_session *s, leaves t) {
    int axes[2] = {2, 0};
    return ls_sum(s, t.image, 2, axes, 0);
}
static ls_tensor *arg_max(ls_session *s, leaves t) {
    int axis = 1;
    return ls_argmax(s, t.x, 1, &axis, 0);
}
static ls_tensor *matmul(ls_session *s, leaves t) {
    return ls_relu(s, ls_matmul(s, t.x, t.w));
}
static ls_tensor *half_matmul(ls_session *s, leaves t) {
    return ls_matmul(s, t.half, ls_transpose(s, t.half, 0, 1));
}
static ls_tensor *heads(ls_session *s, leaves t) {
    return ls_permute(s, ls_reshape(s, ls_matmul(s, t.x, t.w), LS_SHAPE(2, 2, 3, 2)), (int[]){0, 2, 1, 3});
}
static ls_tensor *conv(ls_session *s, leaves t) {
    return ls_conv(s, t.image, t.filter, NULL,
                   &(ls_conv_spec){.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 0}, .stride = {2, 1}});
}
static ls_tensor *conv_groups(ls_session *s, leaves t) {
    ls_tensor *w =
        ls_reshape(s, ls_narrow(s, ls_reshape(s, t.filter, LS_SHAPE(108)), 0, 0, 54), LS_SHAPE(6, 1, 3, 3));
    return ls_conv(s, t.image, w, NULL, &(ls_conv_spec){.spatial = 2, .groups = 3, .dilation = {1, 2}});
}
static ls_tensor *conv_transpose(ls_session *s, leaves t) {
    return ls_conv_transpose(
        s, t.image, ls_permute(s, t.filter, (int[]){1, 0, 2, 3}), NULL,
        &(ls_conv_spec){.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}});
}
static ls_tensor *im2col(ls_session *s, leaves t) {
    return ls_im2col(s, t.image, (int64_t[]){3, 2},
                     &(ls_conv_spec){.spatial = 2, .pad_low = {1, 0}, .pad_high = {0, 1}});
}
static ls_tensor *max_pool(ls_session *s, leaves t) {
    return ls_max_pool(
        s, t.image, (int64_t[]){3, 2},
        &(ls_conv_spec){.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 0}});
}
static ls_tensor *avg_pool(ls_session *s, leaves t) {
    return ls_avg_pool(s, t.image, (int64_t[]){2, 3},
                       &(ls_conv_spec){.spatial = 2, .pad_low = {0, 1}, .pad_high = {1, 1}}, 0);
}
static ls_tensor *scan(ls_session *s, leaves t) {
    return ls_scan(s, ls_exp(s, t.x), LS_SCAN_SUM, 1, 1, 1);
}
static ls_tensor *gather(ls_session *s, leaves t) {
    return ls_gather(s, t.x, t.index, 0);
}
static ls_tensor *gather_view(ls_session *s, leaves t) {
    return ls_gather(s, ls_slice(s, ls_transpose(s, t.x, 0, 1), (ls_slice_spec[]){{6, -1, -2}, {0, 4, 1}}),
                     t.index, 0);
}
static ls_tensor *scatter_add(ls_session *s, leaves t) {
    return ls_scatter(s, t.x, t.index, ls_exp(s, t.updates), 0, LS_SCATTER_ADD);
}
static ls_tensor *scatter_set(ls_session *s, leaves t) {
    return ls_scatter(s, t.x, t.index, t.updates, 0, LS_SCATTER_SET);
}
static ls_tensor *argsort(ls_session *s, leaves t) {
    return ls_argsort(s, t.x, 0, 1);
}
static ls_tensor *concat(ls_session *s, leaves t) {
    return ls_concat(s, (ls_tensor *[]){t.x, ls_neg(s, t.x), t.updates}, 3, 0);
}
static ls_tensor *pad_sum(ls_session *s, leaves t) {
    int axis = 1;
    return ls_sum(s, ls_pad(s, t.x, (ls_pad_spec[]){{1, 0, 0}, {0, 2, 1}}, 0.3), 1, &axis, 0);
}
static ls_tensor *pad_absent(ls_session *s, leaves t) {
    return ls_amin(s, ls_pad_absent(s, t.x, (ls_pad_spec[]){{1, 1, 0}, {0, 0, 0}}), 1, (int[]){0}, 0);
}
static ls_tensor *absent_sum(ls_session *s, leaves t) {
    return ls_sum(s, ls_pad_absent(s, t.x, (ls_pad_spec[]){{1, 1, 0}, {-1, 2, 1}}), 1, (int[]){1}, 0);
}
static ls_tensor *permuted(ls_session *s, leaves t) {
    return ls_neg(s, ls_permute(s, t.image, (int[]){0, 2, 3, 1}));
}
static ls_tensor *dropout(ls_session *s, leaves t) {
    return ls_dropout(s, t.x, 0.25, ls_input(s, "key", LS_U32, LS_SHAPE(2)));
}
static ls_tensor *symbol_mean(ls_session *s, leaves t) {
    int axis = 0;
    ls_shape shape = LS_SHAPE(1, 6);
    (void)t;
    shape.dim[0] = ls_dim_symbol(&symbol, 1, 0);
    return ls_mean(s, ls_input(s, "t", LS_F32, shape), 1, &axis, 0);
}
static ls_tensor *symbol_reshape(ls_session *s, leaves t) {
    ls_shape batch = LS_SHAPE(1, 6), flat = LS_SHAPE(1);
    (void)t;
    batch.dim[0] = ls_dim_symbol(&symbol, 1, 0);
    flat.dim[0] = ls_dim_symbol(&symbol, 6, 0);
    return ls_reshape(s, ls_permute(s, ls_input(s, "t", LS_F32, batch), (int[]){1, 0}), flat);
}

static const struct {
    const char *name;
    ls_tensor *(*build)(ls_session *s, leaves t);
} graphs[] = {{"bias_relu", bias_relu},
              {"gelu", gelu},
              {"integers", integers},
              {"selected", selected},
              {"softmax", softmax},
              {"layer_norm", layer_norm},
              {"variance", variance},
              {"column_sum", column_sum},
              {"arg_max", arg_max},
              {"matmul", matmul},
              {"half_matmul", half_matmul},
              {"heads", heads},
              {"conv", conv},
              {"conv_groups", conv_groups},
              {"conv_transpose", conv_transpose},
              {"im2col", im2col},
              {"max_pool", max_pool},
              {"avg_pool", avg_pool},
              {"scan", scan},
              {"gather", gather},
              {"gather_view", gather_view},
              {"scatter_add", scatter_add},
              {"scatter_set", scatter_set},
              {"argsort", argsort},
              {"concat", concat},
              {"pad_sum", pad_sum},
              {"pad_absent", pad_absent},
              {"absent_sum", absent_sum},
              {"permuted", permuted},
              {"dropout", dropout},
              {"symbol_mean", symbol_mean},
              {"symbol_reshape", symbol_reshape}};
#define N_GRAPHS ((int)(sizeof graphs / sizeof *graphs))

static leaves make_leaves(ls_session *s) {
    return (leaves){.x = ls_input(s, "x", LS_F32, LS_SHAPE(4, 8)),
                    .w = ls_input(s, "w", LS_F32, LS_SHAPE(8, 6)),
                    .row = ls_input(s, "row", LS_F32, LS_SHAPE(8)),
                    .image = ls_input(s, "image", LS_F32, LS_SHAPE(2, 3, 5, 5)),
                    .filter = ls_input(s, "filter", LS_F32, LS_SHAPE(4, 3, 3, 3)),
                    .index = ls_input(s, "index", LS_I64, LS_SHAPE(5)),
                    .updates = ls_input(s, "updates", LS_F32, LS_SHAPE(5, 8)),
                    .half = ls_input(s, "half", LS_F16, LS_SHAPE(5, 9)),
                    .whole = ls_input(s, "whole", LS_I32, LS_SHAPE(4, 8))};
}

/* ---- inputs: ordinary; of every magnitude, with ties; with what is special; with sums that cancel; ordinary
 * again ---- */

enum { INPUTS = 5 };

static double input_value(ls_dtype dtype, int set, int64_t i, ls_rng *rng) {
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0x1p-130, 3e4};
    static const double cancelling[] = {2048, -2048, 3e-4, 2048, 7e-4, -2048, 0.3};
    double v = ls_rng_normal(rng);
    if (!ls_dtype_is_float(dtype)) { /* indices 0 to 3 are in range everywhere, others are not */
        return set == 0 || set == 4 ? (double)(i * 3 % 4)
               : set == 1           ? (double)(i * 7 % 5) - (i == 4)
                                    : v * 100;
    }
    return set == 0 || set == 4 ? v
           : set == 3           ? cancelling[(int)(fabs(v) * 1000) % 7]
           : set == 1           ? (i % 3 ? v * (i % 5 ? 1 : 1000) : (double)(i % 4))
           : i % 3 == 1         ? special[i / 3 % 9]
                                : v;
}

static void fill(ls_dtype dtype, int64_t numel, int set, uint64_t seed, unsigned char *out) {
    ls_rng rng = {seed * 16 + (uint64_t)set, 0};
    size_t size = ls_dtype_size(dtype);
    for (int64_t i = 0; i < numel; i++) {
        double v = input_value(dtype, set, i, &rng);
        if (dtype == LS_U32 &&
            set == 1) { /* a key whose 14th word is a quarter: dropout's threshold itself */
            v = i ? 7 : 948808;
        }
        uint64_t bits = ls_dtype_is_float(dtype) ? ls_value_from_f64(dtype, v) : (uint64_t)(int64_t)v;
        memcpy(out + (size_t)i * size, &bits, size);
    }
}

/* ---- running a spec ---- */

typedef struct result {
    bool refused, out_of_range;
    size_t size;
    unsigned char *bytes; /* written arguments, one after another */
} result;

static void run_spec(ls_device *device, const ls_spec *spec, int set, result *r) {
    ls_error err = {.code = LS_OK};
    ls_kernel_binary *binary = NULL;
    ls_buffer *args[16] = {NULL};
    size_t offsets[16];
    *r = (result){.refused = device->backend->compile(device, spec, NULL, &binary, &err) != LS_OK};
    if (r->refused) {
        return;
    }
    assert_true(spec->n_args <= 16);
    for (int i = 0; i < spec->n_args; i++) {
        size_t size = (size_t)spec->args[i].numel * ls_dtype_size(spec->args[i].dtype);
        unsigned char *bytes = malloc(size + 1);
        memset(bytes, LS_POISON, size);
        if (!spec->args[i].written) {
            fill(spec->args[i].dtype, spec->args[i].numel, set, (uint64_t)i + 1, bytes);
        } else {
            r->size += size;
        }
        assert_int_equal(ls_buffer_create(device, size, &args[i], &err), LS_OK);
        assert_int_equal(ls_buffer_upload(args[i], 0, bytes, size, &err), LS_OK);
        offsets[i] = args[i]->base;
        free(bytes);
    }
    ls_launch launch = {.n_args = spec->n_args, .args = args, .offsets = offsets, .symbols = &symbol_value};
    r->refused = device->backend->launch(device, binary, &launch, &err) != LS_OK;
    r->out_of_range = launch.out_of_range != 0;
    r->bytes = malloc(r->size + 1);
    size_t at = 0;
    for (int i = 0; i < spec->n_args; i++) {
        size_t size = (size_t)spec->args[i].numel * ls_dtype_size(spec->args[i].dtype);
        if (spec->args[i].written) {
            assert_int_equal(ls_buffer_download(args[i], 0, r->bytes + at, size, &err), LS_OK);
            at += size;
        }
        ls_buffer_release(args[i]);
    }
    device->backend->destroy(device, binary);
}

static bool same(const result *a, const result *b) {
    return a->refused == b->refused && a->out_of_range == b->out_of_range && a->size == b->size &&
           (a->size == 0 || !a->bytes || memcmp(a->bytes, b->bytes, a->size) == 0);
}

/* ---- equivalence by rule ---- */

static bool reads_values(const ls_spec *spec, int32_t ix) {
    const ls_ix *x = &spec->ix[ix];
    return x->op == LS_IX_VALUE ||
           (x->op >= LS_IX_ADD && (reads_values(spec, x->a) || reads_values(spec, x->b)));
}

static bool preds_hold(const ls_spec *spec, int32_t first, int32_t n, const int64_t *axes) {
    for (int32_t i = first; i < first + n; i++) {
        const ls_pred *p = &spec->preds[i];
        int64_t v = ls_ix_eval(spec, p->ix, axes, &symbol_value, NULL);
        if (p->limit == LS_SPEC_NONE ? v % p->multiple != 0
                                     : v < 0 || v >= ls_ix_eval(spec, p->limit, axes, &symbol_value, NULL)) {
            return false;
        }
    }
    return true;
}

/* Two values of two specs of the same axes, at every point: hold the same predicates, and where they do, is
 * the same element read? */
static bool same_access(const ls_spec *a, const ls_value *x, const ls_spec *b, const ls_value *y) {
    int64_t axes[LS_SPEC_MAX_AXES] = {0}, points = 1;
    if ((x->ix >= 0 && (reads_values(a, x->ix) || reads_values(b, y->ix))) || x->check >= 0 ||
        y->check >= 0) {
        return false;
    }
    for (int i = 0; i < a->n_axes; i++) {
        points *= (x->axes | y->axes) >> i & 1 ? ls_dim_eval(a->extents_of_axes[i], &symbol_value) : 1;
    }
    for (int64_t p = 0; p < points && points < 100000; p++) {
        int64_t rest = p;
        for (int i = 0; i < a->n_axes; i++) {
            int64_t extent =
                (x->axes | y->axes) >> i & 1 ? ls_dim_eval(a->extents_of_axes[i], &symbol_value) : 1;
            axes[i] = rest % extent;
            rest /= extent;
        }
        bool holds = preds_hold(a, x->first_pred, x->n_preds, axes);
        if (holds != preds_hold(b, y->first_pred, y->n_preds, axes) ||
            (holds && x->ix >= 0 &&
             ls_ix_eval(a, x->ix, axes, &symbol_value, NULL) !=
                 ls_ix_eval(b, y->ix, axes, &symbol_value, NULL))) {
            return false;
        }
    }
    return points < 100000;
}

/* The same but for predicates and indices of loads and guards, and those the same at every point: the same
 * function. No value of a symbol but the bound one is asked for, so specs with symbols are left to the
 * inputs. */
static bool proved_by_accesses(const ls_spec *a, const ls_spec *b) {
    if (a->n_values != b->n_values || a->n_stores != b->n_stores || a->n_dims || b->n_dims) {
        return false;
    }
    for (int i = 0; i < a->n_values; i++) {
        const ls_value *x = &a->values[i], *y = &b->values[i];
        bool alike = x->op == y->op && x->dtype == y->dtype && x->acc == y->acc && x->map == y->map &&
                     x->a == y->a && x->b == y->b && x->c == y->c && x->arg == y->arg && x->bits == y->bits &&
                     x->exclusive == y->exclusive && x->reverse == y->reverse && x->n_bound == y->n_bound &&
                     memcmp(x->bound, y->bound, x->n_bound) == 0;
        if (!alike || !same_access(a, x, b, y)) {
            return false;
        }
    }
    for (int i = 0; i < a->n_stores; i++) {
        ls_value x = {.ix = a->stores[i].ix,
                      .check = -1,
                      .first_pred = a->stores[i].first_pred,
                      .n_preds = a->stores[i].n_preds};
        ls_value y = {.ix = b->stores[i].ix,
                      .check = -1,
                      .first_pred = b->stores[i].first_pred,
                      .n_preds = b->stores[i].n_preds};
        for (int j = 0; j < a->stores[i].n_axes; j++) {
            x.axes |= UINT64_C(1) << a->stores[i].axes[j];
        }
        if (a->stores[i].value != b->stores[i].value || a->stores[i].combine != b->stores[i].combine ||
            a->stores[i].check != b->stores[i].check || !same_access(a, &x, b, &y)) {
            return false;
        }
    }
    return true;
}

static bool same_text(const ls_spec *a, const ls_spec *b) {
    ls_heap heap;
    ls_text x, y;
    ls_heap_init(&heap, NULL, 0);
    ls_text_init(&x, &heap);
    ls_text_init(&y, &heap);
    ls_spec_print(&x, a);
    ls_spec_print(&y, b);
    bool equal = !x.failed && !y.failed && strcmp(x.data, y.data) == 0;
    ls_text_free(&x);
    ls_text_free(&y);
    return equal;
}

static const char *proved(const ls_spec *spec, const ls_spec *mutant, const ls_mutation *m, const char *id) {
    const ls_value *v = m->site < spec->n_values ? &spec->values[m->site] : NULL;
    if (m->mutator == LS_MUTATE_BOUND_ORDER && v->op == LS_V_REDUCE &&
        (v->map == LS_OP_AMIN || v->map == LS_OP_AMAX)) {
        return "smallest and largest are the same in any order";
    }
    if (same_text(spec, mutant)) {
        return "it reads the same";
    }
    if (proved_by_accesses(spec, mutant)) {
        return "every access is the same at every point";
    }
    for (size_t i = 0; i < sizeof mutant_proofs / sizeof *mutant_proofs; i++) {
        if (strcmp(mutant_proofs[i].id, id) == 0) {
            return mutant_proofs[i].proof;
        }
    }
    return NULL;
}

/* ---- the count ---- */

typedef struct score {
    int killed, equivalent, survived, unsayable;
    int differ; /* cpu and ref give the mutant itself other bits */
} score;

static void judge(ls_device *cpu, ls_device *ref, const char *where, const ls_spec *spec, const result *right,
                  const ls_mutation *m, score *s) {
    ls_heap heap;
    ls_arena arena;
    ls_error err = {.code = LS_OK};
    ls_spec mutant;
    char id[128];
    ls_heap_init(&heap, NULL, 0);
    ls_arena_init(&arena, &heap);
    snprintf(id, sizeof id, "%s/%s/%d/%d", where, ls_mutator_name(m->mutator), m->site, m->variant);
    if (ls_spec_mutate(&arena, spec, m, &mutant, &err) != LS_OK) {
        s->unsayable++;
    } else {
        bool killed = false;
        for (int set = 0; set < INPUTS && !killed; set++) {
            result r, other;
            run_spec(cpu, &mutant, set, &r);
            run_spec(ref, &mutant, set, &other);
            killed = !same(&r, &right[set]);
            if (!r.refused &&
                !same(&r, &other)) { /* a mutant is a kernel like any other: both must say the same of it */
                printf("  %s on inputs %d: cpu and ref differ about the mutant itself\n", id, set);
                s->differ++;
            }
            free(r.bytes);
            free(other.bytes);
        }
        if (killed) {
            s->killed++;
        } else if (proved(spec, &mutant, m, id)) {
            s->equivalent++;
        } else {
            s->survived++;
            printf("  survives: {\"%s\", \"\"},\n", id);
            if (getenv("MUTANTS")) {
                ls_text text;
                ls_text_init(&text, &heap);
                ls_spec_print(&text, spec);
                ls_text_add(&text, "  ---\n");
                ls_spec_print(&text, &mutant);
                printf("%s\n", text.data);
                ls_text_free(&text);
            }
        }
    }
    ls_arena_free(&arena);
}

static void mutate_spec(world *w, ls_device *ref, const char *where, const ls_spec *spec, score *scores) {
    result right[INPUTS], own[INPUTS];
    for (int set = 0; set < INPUTS; set++) {
        run_spec(ref, spec, set, &right[set]);
        run_spec(w->device, spec, set, &own[set]);
        assert_false(right[set].refused);
        if (!same(&right[set], &own[set])) {
            fail_msg("%s: the right spec differs between cpu and ref on inputs %d", where, set);
        }
        free(own[set].bytes);
    }
    for (int k = 0; k < LS_MUTATOR_COUNT; k++) {
        for (int site = 0; site < ls_mutator_sites(spec, (ls_mutator)k); site++) {
            int n = ls_mutator_variants(spec, (ls_mutator)k, site);
            for (int variant = 0; variant < n; variant++) {
                judge(w->device, ref, where, spec, right, &(ls_mutation){(ls_mutator)k, site, variant},
                      &scores[k]);
            }
        }
    }
    for (int set = 0; set < INPUTS; set++) {
        free(right[set].bytes);
    }
}

static void every_mutant(void **state) {
    (void)state;
    score scores[LS_MUTATOR_COUNT] = {{0}}, all = {0};
    int specs = 0;
    world w = world_open_with("cpu", 1, NULL);
    ls_device *ref;
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_device_open(w.context, "ref", &ref, &err), LS_OK);
    for (int g = 0; g < N_GRAPHS; g++) {
        bench b;
        ls_plan plan;
        bench_open(&b);
        ls_tensor *root = graphs[g].build(b.s, make_leaves(b.s));
        bench_plan(&b, &root, 1, 1, &plan);
        for (int i = 0; i < plan.n_groups; i++) {
            char where[64];
            ls_spec spec;
            snprintf(where, sizeof where, "%s/%d", graphs[g].name, i);
            bench_spec(&b, &plan.groups[i], &spec);
            mutate_spec(&w, ref, where, &spec, scores);
            specs++;
        }
        bench_close(&b);
    }
    world_close(&w);
    printf("%-14s %7s %10s %9s %9s\n", "mutator", "killed", "equivalent", "surviving", "unsayable");
    for (int k = 0; k < LS_MUTATOR_COUNT; k++) {
        printf("%-14s %7d %10d %9d %9d\n", ls_mutator_name((ls_mutator)k), scores[k].killed,
               scores[k].equivalent, scores[k].survived, scores[k].unsayable);
        all.killed += scores[k].killed;
        all.equivalent += scores[k].equivalent;
        all.survived += scores[k].survived;
        all.unsayable += scores[k].unsayable;
        all.differ += scores[k].differ;
    }
    printf(
        "%d specs: %d mutants: %d killed, %d equivalent with proof, %d surviving, %d that no spec can say\n",
        specs, all.killed + all.equivalent + all.survived + all.unsayable, all.killed, all.equivalent,
        all.survived, all.unsayable);
    assert_true(specs >= N_GRAPHS && all.killed > 500);
    for (int k = 0; k < LS_MUTATOR_COUNT; k++) { /* an operator that nothing asks is none */
        if (scores[k].killed == 0) {
            fail_msg("no mutant by %s was killed", ls_mutator_name((ls_mutator)k));
        }
    }
    assert_int_equal(all.differ, 0);
    assert_int_equal(all.survived, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_mutant)};
    return cmocka_run_group_tests_name("mutants", tests, NULL, NULL);
}
