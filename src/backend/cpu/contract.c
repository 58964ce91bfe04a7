/* Contractions on the packed matrix product, planned: which axes are rows, columns and k, and where operands come from.
 *
 * A free axis of both operands is a batch axis; the group of axes that holds the innermost axis of the result
 * becomes the columns (the vector axis), whichever operand it belongs to: products commute, so exchanging
 * operands changes no bits. An operand is a strided view where its axes collapse; else it is packed by
 * callback (pack.c). */
#include "backend/cpu/contract.h"
#include "backend/cpu/quant.h"
#include <string.h>

enum { IMAGE_COLUMNS = 512 };
#ifdef LS_HAVE_ISA_AVX512
enum { FEW_COLUMNS = 16 }; /* less than a vector */
#else
enum { FEW_COLUMNS = 0 };
#endif

static bool gemm_dtype(ls_dtype operand, ls_dtype acc, ls_gemm_dtype *out) {
    if (acc == LS_F64 && operand == LS_F64) {
        *out = LS_GEMM_F64;
    } else if (acc == LS_F32 && operand >= LS_F16 && operand <= LS_F32) {
        *out = operand == LS_F16 ? LS_GEMM_F16 : operand == LS_BF16 ? LS_GEMM_BF16 : LS_GEMM_F32;
    } else if (acc == LS_I32 && (operand == LS_I8 || operand == LS_U8)) {
        *out = operand == LS_I8 ? LS_GEMM_I8 : LS_GEMM_U8;
    } else if ((acc == LS_I32 || acc == LS_U32) && operand >= LS_U16 && operand <= LS_I32 &&
               operand != LS_U64) {
        *out = LS_GEMM_I32;
    } else {
        return false;
    }
    return true;
}

/* The value to read an operand by: the halves, where it is a load of halves made f32, which loses nothing. */
static int32_t halves_of(const ls_spec *spec, const int *temps, int32_t id) {
    const ls_value *v = &spec->values[id];
    if (v->op != LS_V_MAP || v->map != LS_OP_CAST || v->dtype != LS_F32 || v->check != LS_SPEC_NONE || temps[id] >= 0) {
        return id;
    }
    const ls_value *from = &spec->values[v->a];
    bool halves = from->dtype == LS_F16 || from->dtype == LS_BF16;
    return halves && from->op == LS_V_LOAD && temps[v->a] < 0 ? v->a : id;
}

/* Predicates of the form 0 <= affine < constant, with coefficients that fit 32 bits. */
static bool affine_preds(const ls_spec *spec, ls_contract_side *side, int32_t first, int32_t n) {
    if (n > LS_SIDE_PREDS) {
        return false;
    }
    side->n_preds = n;
    for (int t = 0; t < n; t++) {
        const ls_pred *pred = &spec->preds[first + t];
        const ls_ix *ix = &spec->ix[pred->ix];
        ls_ix_sum_of(spec, pred->ix, &side->pred[t]);
        if (pred->limit == LS_SPEC_NONE || spec->ix[pred->limit].op != LS_IX_CONST || side->pred[t].failed ||
            side->pred[t].n_rest || ix->lo < INT32_MIN / 4 || ix->hi > INT32_MAX / 4 ||
            spec->ix[pred->limit].k > INT32_MAX) {
            return false;
        }
        side->limit[t] = spec->ix[pred->limit].k;
    }
    return true;
}

/* Whether a value is one affine load, absent or +0 where its predicates fail. */
static bool affine_side(const ls_spec *spec, const int *temps, ls_contract_side *side) {
    const ls_value *v = &spec->values[side->value], *guard = NULL;
    if (temps[side->value] >= 0) {
        return false;
    }
    if (v->op == LS_V_GUARD && v->b == LS_SPEC_NONE && temps[v->a] < 0) {
        guard = v;
        v = &spec->values[v->a];
    }
    if (v->op != LS_V_LOAD || v->check != LS_SPEC_NONE) {
        return false;
    }
    for (int i = 0; guard && i < v->n_preds; i++) {
        bool among = false;
        for (int j = 0; j < guard->n_preds; j++) {
            among = among || ls_same_pred(&spec->preds[v->first_pred + i], &spec->preds[guard->first_pred + j]);
        }
        if (!among) {
            return false;
        }
    }
    ls_ix_sum_of(spec, v->ix, &side->sum);
    side->buffer = v->arg;
    side->absent = guard != NULL;
    return !side->sum.failed && !side->sum.n_rest &&
           affine_preds(spec, side, guard ? guard->first_pred : v->first_pred,
                        guard ? guard->n_preds : v->n_preds);
}

/* The one stride of axes linearised row-major, where they have one. */
static bool collapse(const ls_spec *spec, const ls_ix_sum *sum, const ls_axis_group *group,
                     int64_t *out_stride) {
    int64_t stride = 0, span = 0;
    for (int i = group->n - 1; i >= 0; i--) {
        ls_dim extent = spec->extents_of_axes[group->axes[i]];
        int64_t own = ls_ix_sum_stride(sum, group->axes[i]);
        if (ls_dim_is_one(extent)) {
            continue;
        }
        if (span == 0) {
            stride = own;
        } else if (own != stride * span) {
            return false;
        }
        if (!ls_dim_is_fixed(extent) && i > 0) {
            return false;
        }
        span = (span ? span : 1) * extent.offset;
    }
    *out_stride = stride;
    return true;
}

/* A program for an operand that is more than an affine load, with lanes along k or along its free axes. */
static ls_status side_program(ls_kernel_binary *binary, const ls_gemm_phase *gemm, const int *temps,
                              ls_contract_side *side, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_value *v = &spec->values[side->value];
    const ls_axis_group *lanes = side->lanes_k ? &gemm->k : side->free;
    ls_program_builder *b =
        ls_pb_create(&binary->arena, spec, binary->device->tiles, temps, lanes->n, lanes->axes);
    if (!b) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    int16_t results[2] = {-1, -1};
    ls_dtype dtype = (ls_dtype)v->dtype;
    results[0] = ls_pb_value(b, side->value, 0, &results[1]);
    side->absent = results[1] >= 0;
    if (side->dtype == LS_GEMM_I8 || side->dtype == LS_GEMM_U8) {
        results[0] = ls_pb_cast(b, results[0], dtype, LS_F32);
    } else if (side->dtype == LS_GEMM_I32) {
        results[0] = ls_pb_cast(b, results[0], dtype, LS_I32);
    }
    return ls_pb_finish(b, 2, results, &side->program) ? LS_OK : LS_FAIL_MEMORY(err, "a kernel of the CPU");
}

/* The stride of the innermost axis of some extent, by the first load found below a value. */
static int64_t inner_stride(const ls_spec *spec, int32_t value, const ls_axis_group *group) {
    const ls_value *v = &spec->values[value];
    if (v->op == LS_V_LOAD) {
        int64_t stride;
        return group->n && ls_ix_affine(spec, v->ix, group->axes[group->n - 1], &stride) ? stride : 0;
    }
    const int32_t operands[] = {v->a, v->b, v->c};
    for (int i = 0; i < 3; i++) {
        if (operands[i] != LS_SPEC_NONE) {
            int64_t stride = inner_stride(spec, operands[i], group);
            if (stride) {
                return stride;
            }
        }
    }
    return 0;
}

static bool fixed_extents(const ls_spec *spec, const ls_axis_group *group) {
    bool fixed = true;
    for (int i = 0; i < group->n; i++) {
        fixed = fixed && ls_dim_is_fixed(spec->extents_of_axes[group->axes[i]]);
    }
    return fixed;
}

static ls_status plan_side(ls_kernel_binary *binary, ls_gemm_phase *gemm, const int *temps,
                           ls_contract_side *side, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    side->element = (ls_dtype)spec->values[side->value].dtype;
    side->affine = affine_side(spec, temps, side);
    side->fixed =
        fixed_extents(spec, &gemm->batch) && fixed_extents(spec, side->free) && fixed_extents(spec, &gemm->k);
    if (!side->affine) {
        int64_t i = inner_stride(spec, side->value, side->free),
                k = inner_stride(spec, side->value, &gemm->k);
        side->lanes_k = !(i == 1 && k != 1);
        LS_TRY(err, side_program(binary, gemm, temps, side, err));
        side->joined = LS_JOINS && ls_joined_find(side);
        return LS_OK;
    }
    bool native = side->dtype != LS_GEMM_I32 || side->element == LS_I32 || side->element == LS_U32;
    side->view = native && side->n_preds == 0 && collapse(spec, &side->sum, side->free, &side->view_i) &&
                 collapse(spec, &side->sum, &gemm->k, &side->view_k);
    ls_group_strides(&side->sum, &gemm->batch, side->batch_stride);
    ls_group_strides(&side->sum, side->free, side->free_stride);
    ls_group_strides(&side->sum, &gemm->k, side->k_stride);
    for (int t = 0; t < side->n_preds; t++) {
        ls_group_strides(&side->pred[t], &gemm->batch, side->pred_batch[t]);
        ls_group_strides(&side->pred[t], side->free, side->pred_free[t]);
        ls_group_strides(&side->pred[t], &gemm->k, side->pred_k[t]);
    }
    return LS_OK;
}

/* Of an operand whose dtype serves. */
static ls_contract_side side_of(const ls_spec *spec, ls_dtype acc, int32_t value, const ls_axis_group *free) {
    ls_contract_side side = {.value = value, .free = free};
    (void)gemm_dtype((ls_dtype)spec->values[value].dtype, acc, &side.dtype);
    return side;
}

static int64_t span_of(const ls_spec *spec, const ls_axis_group *group, int64_t stride) {
    return (stride < 0 ? -stride : stride) * ls_spec_points(spec, group->axes, group->n);
}

/* Whether columns are a strided view whose elements each lie at a place of their own, as windows that lap do not. */
static bool is_matrix(const ls_spec *spec, const ls_gemm_phase *gemm, const int *temps) {
    ls_contract_side side = gemm->side[1];
    int64_t i, k;
    if (!affine_side(spec, temps, &side) || side.n_preds || !collapse(spec, &side.sum, side.free, &i) ||
        !collapse(spec, &side.sum, &gemm->k, &k)) {
        return false;
    }
    return span_of(spec, side.free, i) <= (k < 0 ? -k : k) || span_of(spec, &gemm->k, k) <= (i < 0 ? -i : i);
}

/* Columns of several images are no strided view, those of one are where its channels are the only k: images become entries of the
 * batch, which are read where they lie, if one has columns enough. */
static void find_images(const ls_spec *spec, ls_gemm_phase *gemm, const int *temps) {
    ls_contract_side side = gemm->side[1];
    ls_axis_group inner = {.n = gemm->n.n - 1};
    int64_t columns = 1, stride;
    if (gemm->n.n < 2 || gemm->batch.n == LS_GEMM_BATCH_RANK || !affine_side(spec, temps, &side) || side.n_preds) {
        return;
    }
    for (int i = 0; i < inner.n; i++) {
        ls_dim extent = spec->extents_of_axes[inner.axes[i] = gemm->n.axes[i + 1]];
        columns *= ls_dim_is_fixed(extent) ? extent.offset : 0;
    }
    if (columns >= IMAGE_COLUMNS && !collapse(spec, &side.sum, &gemm->n, &stride) &&
        collapse(spec, &side.sum, &gemm->k, &stride) && collapse(spec, &side.sum, &inner, &stride) && stride == 1) {
        gemm->batch.axes[gemm->batch.n++] = gemm->n.axes[0];
        gemm->n = inner;
    }
}

/* Whether the axes that would be columns are fewer than a vector, while the other operand has many in one run: a picture's pixels, where
 * its few channels come last. */
static bool too_few_columns(const ls_spec *spec, const ls_phase *phase, const ls_value *v, bool a_last) {
    int32_t few = a_last ? v->a : v->b, many = a_last ? v->b : v->a;
    int64_t n_few = 1, n_many = 1;
    ls_axis_group free = {0};
    for (int i = 0; i < phase->n_axes; i++) {
        bool in_few = spec->values[few].axes >> phase->axes[i] & 1, in_many = spec->values[many].axes >> phase->axes[i] & 1;
        ls_dim extent = spec->extents_of_axes[phase->axes[i]];
        if (!ls_dim_is_fixed(extent)) {
            return false;
        }
        n_few *= in_few && !in_many ? extent.offset : 1;
        if (in_many && !in_few) {
            n_many *= extent.offset;
            free.axes[free.n++] = phase->axes[i];
        }
    }
    return n_few > 1 && n_few < FEW_COLUMNS && n_many >= FEW_COLUMNS && inner_stride(spec, many, &free) == 1;
}

ls_status ls_gemm_phase_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_value *v = &spec->values[phase->value];
    ls_gemm_dtype dtype;
    if (!gemm_dtype((ls_dtype)spec->values[v->a].dtype, (ls_dtype)v->acc, &dtype) ||
        !gemm_dtype((ls_dtype)spec->values[v->b].dtype, (ls_dtype)v->acc, &dtype)) {
        return LS_OK;
    }
    ls_gemm_phase *gemm = LS_ARENA_NEW(&binary->arena, ls_gemm_phase);
    if (!gemm || !(gemm->last = ls_gemm_last_new(&binary->arena))) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    uint64_t axes_a = spec->values[v->a].axes, axes_b = spec->values[v->b].axes;
    bool a_last = false;
    for (int i = 0; i < phase->n_axes;
         i++) { /* the last axis of one operand alone decides which operand has the columns */
        bool in_a = axes_a >> phase->axes[i] & 1, in_b = axes_b >> phase->axes[i] & 1;
        a_last = in_a != in_b ? in_a : a_last;
    }
    a_last = a_last != (FEW_COLUMNS > 0 && too_few_columns(spec, phase, v, a_last));
    ls_axis_group *group_a = a_last ? &gemm->n : &gemm->m, *group_b = a_last ? &gemm->m : &gemm->n;
    for (int i = 0; i < phase->n_axes; i++) {
        bool in_a = axes_a >> phase->axes[i] & 1, in_b = axes_b >> phase->axes[i] & 1;
        ls_axis_group *group = in_a && in_b ? &gemm->batch : in_a ? group_a : in_b ? group_b : NULL;
        if (!group || (group == &gemm->batch && group->n == LS_GEMM_BATCH_RANK)) {
            return LS_OK;
        }
        group->axes[group->n++] = phase->axes[i];
    }
    gemm->k.n = v->n_bound;
    memcpy(gemm->k.axes, v->bound, v->n_bound);
    int32_t rows = a_last ? v->b : v->a, columns = a_last ? v->a : v->b;
    const ls_axis_group batch = gemm->batch, free = gemm->n;
    gemm->side[0] = side_of(spec, (ls_dtype)v->acc, halves_of(spec, temps, rows), &gemm->m);
    gemm->side[1] = side_of(spec, (ls_dtype)v->acc, halves_of(spec, temps, columns), &gemm->n);
    find_images(spec, gemm, temps);
    if (gemm->side[1].value != columns && !is_matrix(spec, gemm, temps)) { /* windows share an image: what a task copies of it is made f32 */
        gemm->batch = batch;
        gemm->n = free;
        gemm->side[1] = side_of(spec, (ls_dtype)v->acc, columns, &gemm->n);
        find_images(spec, gemm, temps);
    }
    for (int s = 0; s < 2; s++) {
        LS_TRY(err, plan_side(binary, gemm, temps, &gemm->side[s], err));
    }
    LS_TRY(err, ls_quant_plan(binary, gemm, temps, err));
    if (!gemm->quant) {
        LS_TRY(err, ls_windows_plan(binary, gemm, temps, err));
        LS_TRY(err, ls_sparse_plan(binary, gemm, err));
    }
    if (gemm->windows && !gemm->side[1].affine &&
        gemm->side[1].lanes_k) { /* an image's lines lie along free axes */
        gemm->side[1].lanes_k = false;
        LS_TRY(err, side_program(binary, gemm, temps, &gemm->side[1], err));
    }
    for (int s = 0; s < 2; s++) {
        phase->extra += ls_contract_side_scratch(&gemm->side[s]);
    }
    phase->extra += gemm->quant ? ls_quant_scratch(gemm->quant) : 0;
    phase->gemm = gemm;
    return LS_OK;
}

/* Whether a store is of the bare sums, rounded at most, or of what comes of them one by one, into memory that the product can write
 * itself. */
static bool plain_store(const ls_spec *spec, const ls_store *s, ls_phase *phase) {
    const ls_value *v = &spec->values[phase->value];
    ls_gemm_phase *gemm = phase->gemm;
    ls_dtype dtype = (ls_dtype)v->dtype, acc = (ls_dtype)v->acc;
    ls_ix_sum at;
    bool sums = s->value == phase->value || (LS_GEMM_FOLLOWS && spec->values[s->value].dtype == v->dtype);
    if (!sums || s->n_axes != phase->n_axes || s->combine != LS_STORE_SET || s->n_preds || s->check != LS_SPEC_NONE) {
        return false;
    }
    if (acc == LS_F32 && (dtype == LS_F16 || dtype == LS_BF16)) {
        gemm->out_dtype = dtype == LS_F16 ? LS_GEMM_F16 : LS_GEMM_BF16;
    } else if (dtype == acc && dtype != LS_U32) {
        gemm->out_dtype = dtype == LS_F32 ? LS_GEMM_F32 : dtype == LS_F64 ? LS_GEMM_F64 : LS_GEMM_I32;
    } else {
        return false;
    }
    ls_ix_sum_of(spec, s->ix, &at);
    gemm->out_offset = at.constant;
    ls_group_strides(&at, &gemm->batch, gemm->out_batch);
    return !at.failed && !at.n_rest && collapse(spec, &at, &gemm->m, &gemm->out_i) &&
           collapse(spec, &at, &gemm->n, &gemm->out_j);
}

/* Where the loads and stores of the epilogue break off, all at the same lanes: images in batches, mostly. */
static void find_cut(const ls_spec *spec, ls_phase *phase) {
    const ls_program *p = &phase->finish;
    int64_t cut = 0;
    for (int i = 0; i < p->n_accesses; i++) {
        const ls_access *a = &p->accesses[i];
        int64_t lanes = 1;
        if (a->n_tables || a->n_dims < 2) {
            continue;
        }
        const ls_access_dim *last = &a->dims[a->n_dims - 1];
        for (int j = last->first; j <= last->last; j++) {
            ls_dim extent = spec->extents_of_axes[p->lane_axes[j]];
            lanes *= ls_dim_is_fixed(extent) ? extent.offset : 0;
        }
        if (lanes < 64 || (cut && cut != lanes)) {
            return;
        }
        cut = lanes;
    }
    phase->gemm->cut = cut;
}

void ls_gemm_phase_finish(const ls_spec *spec, ls_phase *phase, int first, int end) {
    const ls_store *s = &spec->stores[first];
    bool plain = end - first == 1 && plain_store(spec, s, phase);
    phase->gemm->result = plain ? s->arg : -1;
    phase->gemm->out = plain && s->value == phase->value ? s->arg : -1;
    find_cut(spec, phase);
    if (phase->gemm->m.n) {
        ls_fetch_next(spec, &phase->finish, phase->gemm->m.axes[phase->gemm->m.n - 1]);
    }
}
