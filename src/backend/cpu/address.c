/* Memory accesses of tile programs: index expressions and predicates turned into merged strides and tables
 * (program.h). */
#include "backend/cpu/program.h"
#include <string.h>

enum { LARGE_BYTES = LS_LIMIT(1 << 20, 1 << 9) };

static void linear_add(ls_ix_sum *out, const ls_spec *spec, int32_t id, int64_t k) {
    const ls_ix *ix = &spec->ix[id];
    if (ix->op == LS_IX_CONST) {
        out->constant += k * ix->k;
        return;
    }
    if (ix->op == LS_IX_ADD) {
        linear_add(out, spec, ix->a, k);
        linear_add(out, spec, ix->b, k);
        return;
    }
    if (ix->op == LS_IX_MUL && (spec->ix[ix->a].op == LS_IX_CONST || spec->ix[ix->b].op == LS_IX_CONST)) {
        bool left = spec->ix[ix->a].op == LS_IX_CONST;
        linear_add(out, spec, left ? ix->b : ix->a, k * spec->ix[left ? ix->a : ix->b].k);
        return;
    }
    if (ix->op == LS_IX_AXIS) {
        int i = 0;
        while (i < out->n_terms && out->axis[i] != ix->a) {
            i++;
        }
        if (i == LS_ACCESS_TERMS) {
            out->failed = true;
            return;
        }
        if (i == out->n_terms) {
            out->axis[i] = (uint8_t)ix->a;
            out->stride[i] = 0;
            out->n_terms++;
        }
        out->stride[i] += k;
        return;
    }
    if (out->n_rest == LS_ACCESS_TERMS) {
        out->failed = true;
        return;
    }
    out->rest[out->n_rest] = id;
    out->factor[out->n_rest++] = k;
}

void ls_ix_sum_of(const ls_spec *spec, int32_t ix, ls_ix_sum *out_linear) {
    memset(out_linear, 0, sizeof *out_linear);
    linear_add(out_linear, spec, ix, 1);
}

bool ls_ix_of_axes(const ls_spec *spec, int32_t id) {
    const ls_ix *ix = &spec->ix[id];
    switch ((ls_ix_op)ix->op) {
    case LS_IX_CONST:
    case LS_IX_AXIS:
        return true;
    case LS_IX_DIM:
    case LS_IX_VALUE:
        return false;
    default:
        return ls_ix_of_axes(spec, ix->a) && ls_ix_of_axes(spec, ix->b);
    }
}

void ls_access_from_strides(const ls_spec *spec, int n, const uint8_t *axes, const int64_t *strides,
                            int n_lane_axes, const uint8_t *lane_axes, ls_access *access) {
    int64_t by_lane[LS_LANE_AXES] = {0};
    access->n_scalar = access->n_dims = 0;
    for (int i = 0; i < n; i++) {
        int lane = 0;
        while (lane < n_lane_axes && lane_axes[lane] != axes[i]) {
            lane++;
        }
        if (lane < n_lane_axes) {
            by_lane[lane] += strides[i];
        } else if (strides[i] != 0 && !ls_dim_is_one(spec->extents_of_axes[axes[i]])) {
            access->scalar_axis[access->n_scalar] = axes[i];
            access->scalar_stride[access->n_scalar++] = strides[i];
        }
    }
    for (int lane = n_lane_axes - 1; lane >= 0; lane--) { /* innermost first, turned round below */
        ls_access_dim *inner = access->n_dims ? &access->dims[access->n_dims - 1] : NULL;
        ls_dim extent = inner ? spec->extents_of_axes[lane_axes[inner->first]] : ls_dim_fixed(0);
        bool merge = false;
        if (inner && ls_dim_is_fixed(extent)) { /* the group's own stride is its last axis' */
            int64_t span = inner->stride;
            for (int i = inner->first; i <= inner->last; i++) {
                ls_dim e = spec->extents_of_axes[lane_axes[i]];
                span *= ls_dim_is_fixed(e) ? e.offset : 0;
                merge = ls_dim_is_fixed(e);
                if (!merge) {
                    break;
                }
            }
            merge = merge && span == by_lane[lane];
        }
        if (merge || (inner && inner->stride == 0 && by_lane[lane] == 0)) {
            inner->first = (uint8_t)lane;
        } else {
            access->dims[access->n_dims++] = (ls_access_dim){(uint8_t)lane, (uint8_t)lane, by_lane[lane]};
        }
    }
    for (int i = 0, j = access->n_dims - 1; i < j; i++, j--) {
        ls_access_dim swap = access->dims[i];
        access->dims[i] = access->dims[j];
        access->dims[j] = swap;
    }
}

bool ls_buffer_is_large(const ls_spec *spec, int buffer) {
    return buffer >= 0 && buffer < spec->n_args && spec->args[buffer].numel * (int64_t)ls_dtype_size(spec->args[buffer].dtype) >= LARGE_BYTES;
}

void ls_access_find_pattern(const ls_spec *spec, const uint8_t *lane_axes, ls_access *access) {
    int64_t extent[LS_LANE_AXES], lanes = 1, lowest = 0, highest = 0;
    int first = access->n_dims;
    while (first > 0) {
        const ls_access_dim *dim = &access->dims[first - 1];
        int64_t n = 1;
        for (int i = dim->first; i <= dim->last; i++) {
            ls_dim e = spec->extents_of_axes[lane_axes[i]];
            n = ls_dim_is_fixed(e) && e.offset <= LS_PATTERN_LANES ? n * e.offset : LS_PATTERN_LANES + 1;
            n = n <= LS_PATTERN_LANES ? n : LS_PATTERN_LANES + 1;
        }
        if (n * lanes > LS_PATTERN_LANES) {
            break;
        }
        extent[--first] = n;
        lanes *= n;
    }
    int dims = access->n_dims - first;
    if (dims < 2 || first == 0 || extent[access->n_dims - 1] > 8) {
        return;
    }
    for (int64_t lane = 0; lane < lanes; lane++) {
        int64_t left = lane, offset = 0;
        for (int d = access->n_dims - 1; d >= first; d--) {
            offset += left % extent[d] * access->dims[d].stride;
            left /= extent[d];
        }
        lowest = offset < lowest ? offset : lowest;
        highest = offset > highest ? offset : highest;
        access->pattern[lane] = (int32_t)offset;
    }
    if (lowest == 0 && highest < INT32_MAX) {
        access->n_pattern = (int)lanes;
        access->pattern_dims = dims;
    }
}

/* Components: axes that DIV, MOD or a predicate ties together. set[axis] is a representative, -1 outside of
 * all. */
static int find(int *set, int axis) {
    while (set[axis] != axis) {
        axis = set[axis];
    }
    return axis;
}
static void tie(int *set, uint64_t axes) {
    int first = -1;
    for (; axes; axes &= axes - 1) {
        int axis = __builtin_ctzll(axes);
        if (set[axis] < 0) {
            set[axis] = axis;
        }
        if (first < 0) {
            first = find(set, axis);
        } else {
            set[find(set, axis)] = first;
        }
    }
}

typedef struct ranges {
    int n;
    const int32_t *first, *count;
} ranges;

static bool preds_hold(const ls_spec *spec, const ranges *r, uint64_t component, bool constant,
                       const int64_t *coords) {
    for (int i = 0; i < r->n; i++) {
        for (int32_t p = r->first[i]; p < r->first[i] + r->count[i]; p++) {
            const ls_pred *pred = &spec->preds[p];
            uint64_t axes =
                spec->ix[pred->ix].axes | (pred->limit != LS_SPEC_NONE ? spec->ix[pred->limit].axes : 0);
            if (constant ? axes != 0 : !(axes & component)) {
                continue;
            }
            int64_t x = ls_ix_eval(spec, pred->ix, coords, NULL, NULL);
            if (pred->limit != LS_SPEC_NONE ? x < 0 || x >= ls_ix_eval(spec, pred->limit, coords, NULL, NULL)
                                            : x % pred->multiple != 0) {
                return false;
            }
        }
    }
    return true;
}

static void describe_row(const int32_t *entries, int32_t n, ls_table_row *row) {
    *row = (ls_table_row){.regular = true, .step = 1};
    int32_t last = -1;
    for (int32_t i = 0; i < n; i++) {
        if (entries[i] == LS_TABLE_ABSENT) {
            continue;
        }
        if (row->count == 0) {
            row->start = i;
            row->base = entries[i];
        } else if (row->count == 1) {
            row->step = i - row->start;
            row->stride = entries[i] - row->base;
        } else if (i - last != row->step || entries[i] - entries[last] != row->stride) {
            row->regular = false;
            return;
        }
        last = i;
        row->count++;
    }
}

/* Fills a table over the axes of one component. False: too large (nothing failed), or out of memory
 * (*failed). */
static bool table_build(ls_arena *arena, const ls_spec *spec, const ls_ix_sum *linear, const ranges *preds,
                        uint64_t component, int n_lane_axes, const uint8_t *lane_axes, ls_table *table,
                        bool *failed) {
    int64_t total = 1, extents[LS_TABLE_AXES];
    memset(table, 0, sizeof *table);
    uint64_t left = component;
    int last_lane = n_lane_axes ? lane_axes[n_lane_axes - 1] : -1;
    for (; left; left &= left - 1) {
        int axis = __builtin_ctzll(left);
        if (axis == last_lane) {
            continue;
        }
        if (table->n_axes == LS_TABLE_AXES - 1) {
            return false;
        }
        table->axes[table->n_axes++] = (uint8_t)axis;
    }
    if (last_lane >= 0 && component >> last_lane & 1) {
        table->axes[table->n_axes++] = (uint8_t)last_lane;
        table->inner = true;
    }
    for (int i = table->n_axes - 1; i >= 0; i--) {
        extents[i] = ls_dim_bound(spec->extents_of_axes[table->axes[i]]);
        table->strides[i] = (int32_t)total;
        if (extents[i] > LS_TABLE_LIMIT || (total *= extents[i]) > LS_TABLE_LIMIT) {
            return false;
        }
    }
    table->entries = LS_ARENA_ARRAY(arena, int32_t, total + 1);
    table->inner_extent = table->inner ? (int32_t)extents[table->n_axes - 1] : 1;
    int64_t n_rows = table->inner_extent ? total / table->inner_extent : 0;
    if (table->inner) {
        table->rows = LS_ARENA_ARRAY(arena, ls_table_row, n_rows + 1);
    }
    if (!table->entries || (table->inner && !table->rows)) {
        *failed = true;
        return false;
    }
    int64_t coords[LS_SPEC_MAX_AXES] = {0};
    for (int64_t e = 0; e < total; e++) {
        for (int i = 0; i < table->n_axes; i++) {
            coords[table->axes[i]] = e / table->strides[i] % extents[i];
        }
        if (!preds_hold(spec, preds, component, false, coords)) {
            table->entries[e] = LS_TABLE_ABSENT;
            continue;
        }
        int64_t offset = 0;
        for (int i = 0; i < linear->n_terms; i++) {
            offset += component >> linear->axis[i] & 1 ? linear->stride[i] * coords[linear->axis[i]] : 0;
        }
        for (int i = 0; i < linear->n_rest; i++) {
            if (spec->ix[linear->rest[i]].axes & component) {
                offset += linear->factor[i] * ls_ix_eval(spec, linear->rest[i], coords, NULL, NULL);
            }
        }
        if (offset < INT32_MIN / 2 || offset > INT32_MAX / 2) {
            return false;
        }
        table->entries[e] = (int32_t)offset;
    }
    for (int64_t r = 0; table->inner && r < n_rows; r++) {
        describe_row(table->entries + r * table->inner_extent, table->inner_extent, &table->rows[r]);
    }
    return true;
}

/* Groups of lane axes of an access with tables: an axis of a table alone, neighbours that step evenly together. Segments run along the last
 * group. */
static void group_lanes(const ls_spec *spec, int n_lane_axes, const uint8_t *lane_axes, const int64_t *by_lane, uint64_t tabled,
                        ls_access *access, int *out_group) {
    bool open = false; /* the next axis may join the group at work */
    access->n_dims = 0;
    for (int lane = 0; lane < n_lane_axes; lane++) {
        ls_access_dim *last = access->n_dims ? &access->dims[access->n_dims - 1] : NULL;
        ls_dim extent = spec->extents_of_axes[lane_axes[lane]];
        bool plain = ls_dim_is_fixed(extent) && !(tabled >> lane_axes[lane] & 1);
        if (plain && open && last->stride == by_lane[lane] * extent.offset) {
            last->last = (uint8_t)lane;
            last->stride = by_lane[lane];
        } else {
            access->dims[access->n_dims++] = (ls_access_dim){(uint8_t)lane, (uint8_t)lane, by_lane[lane]};
        }
        open = plain;
        out_group[lane] = access->n_dims - 1;
    }
}

/* Whether the lanes are present in one range of the first lane axis, and consecutive in memory there. */
static void find_range(const ls_spec *spec, int n_lane_axes, const uint8_t *lane_axes, ls_access *access) {
    const ls_table *table = &access->tables[0];
    ls_table_row row;
    if (access->n_tables != 1 || table->n_axes != 1 || table->inner || n_lane_axes < 2 || table->axes[0] != lane_axes[0]) {
        return;
    }
    int64_t inner = 1, extent = ls_dim_bound(spec->extents_of_axes[lane_axes[0]]);
    for (int i = 1; i < n_lane_axes; i++) {
        ls_dim e = spec->extents_of_axes[lane_axes[i]];
        inner = ls_dim_is_fixed(e) && e.offset > 0 ? inner * e.offset : 0;
    }
    describe_row(table->entries, (int32_t)extent, &row);
    access->ranged = inner > 0 && row.regular && row.step == 1 && row.count > 0;
    access->first = row.start;
    access->end = row.start + row.count;
    access->step = row.stride;
    access->whole = access->ranged && access->n_dims == 2 && access->dims[1].stride == 1 && (row.stride == inner || row.count == 1);
}

bool ls_access_build(ls_arena *arena, const ls_spec *spec, int32_t ix, int n_pred_ranges,
                     const int32_t *first_preds, const int32_t *n_preds, int n_lane_axes,
                     const uint8_t *lane_axes, ls_access *access, bool *out_failed) {
    ls_ix_sum linear = {0};
    if (ix != LS_SPEC_NONE) {
        ls_ix_sum_of(spec, ix, &linear);
    }
    if (linear.failed) {
        return false;
    }
    ranges preds = {n_pred_ranges, first_preds, n_preds};
    int set[LS_SPEC_MAX_AXES];
    memset(set, 0xff, sizeof set);
    bool tables = false;
    for (int i = 0; i < linear.n_rest; i++) {
        if (!ls_ix_of_axes(spec, linear.rest[i]) || !spec->ix[linear.rest[i]].axes) {
            return false;
        }
        tie(set, spec->ix[linear.rest[i]].axes);
        tables = true;
    }
    for (int i = 0; i < n_pred_ranges; i++) {
        for (int32_t p = first_preds[i]; p < first_preds[i] + n_preds[i]; p++) {
            const ls_pred *pred = &spec->preds[p];
            if (!ls_ix_of_axes(spec, pred->ix) ||
                (pred->limit != LS_SPEC_NONE && !ls_ix_of_axes(spec, pred->limit))) {
                return false;
            }
            tie(set,
                spec->ix[pred->ix].axes | (pred->limit != LS_SPEC_NONE ? spec->ix[pred->limit].axes : 0));
            tables = true;
            access->may_be_absent = true;
        }
    }
    access->offset = linear.constant;
    if (!tables) {
        ls_access_from_strides(spec, linear.n_terms, linear.axis, linear.stride, n_lane_axes, lane_axes,
                               access);
        return true;
    }
    static const int64_t origin[LS_SPEC_MAX_AXES];
    if (!preds_hold(spec, &preds, 0, true, origin)) {
        return false; /* never holds: rare enough for the general way */
    }
    uint64_t tabled = 0;
    for (int axis = 0; axis < LS_SPEC_MAX_AXES; axis++) {
        if (set[axis] != axis) {
            continue;
        }
        uint64_t component = 0;
        for (int other = 0; other < LS_SPEC_MAX_AXES; other++) {
            component |= set[other] >= 0 && find(set, other) == axis ? UINT64_C(1) << other : 0;
        }
        if (access->n_tables == LS_ACCESS_TABLES ||
            !table_build(arena, spec, &linear, &preds, component, n_lane_axes, lane_axes,
                         &access->tables[access->n_tables], out_failed)) {
            return false;
        }
        access->n_tables++;
        tabled |= component;
    }
    /* The other axes stay affine. */
    int n = 0;
    for (int i = 0; i < linear.n_terms; i++) {
        if (!(tabled >> linear.axis[i] & 1)) {
            linear.axis[n] = linear.axis[i];
            linear.stride[n++] = linear.stride[i];
        }
    }
    ls_access_from_strides(spec, n, linear.axis, linear.stride, 0, NULL, access);
    access->n_dims = 0;
    int n_scalar = 0;
    int64_t by_lane[LS_LANE_AXES] = {0};
    for (int i = 0; i < access->n_scalar; i++) {
        int lane = 0;
        while (lane < n_lane_axes && lane_axes[lane] != access->scalar_axis[i]) {
            lane++;
        }
        if (lane < n_lane_axes) {
            by_lane[lane] = access->scalar_stride[i];
        } else {
            access->scalar_axis[n_scalar] = access->scalar_axis[i];
            access->scalar_stride[n_scalar++] = access->scalar_stride[i];
        }
    }
    access->n_scalar = n_scalar;
    int group[LS_LANE_AXES];
    group_lanes(spec, n_lane_axes, lane_axes, by_lane, tabled, access, group);
    for (int t = 0; t < access->n_tables; t++) {
        ls_table *table = &access->tables[t];
        for (int i = 0; i < table->n_axes; i++) {
            int lane = 0;
            while (lane < n_lane_axes && lane_axes[lane] != table->axes[i]) {
                lane++;
            }
            if (lane < n_lane_axes) {
                table->lane_strides[group[lane]] = table->strides[i];
            } else {
                table->scalars |= UINT64_C(1) << i;
            }
        }
    }
    find_range(spec, n_lane_axes, lane_axes, access);
    return true;
}
