/* ai.onnx.ml: ensembles of decision trees, on the device: all samples go down all trees together, a level
 * a step, by gathers from tables of the nodes; leaves stay where they are. */
#include "io/onnx/ops_ml.h"
#include <string.h>

enum { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF, MODES };

/* All trees in one table of nodes. */
typedef struct forest {
    int count, n_roots, depth;
    int64_t *feature, *mode, *yes, *no, *missing; /* missing: 1 when NaN goes to yes */
    double *split;
    int64_t *root;
    int n_members; /* of MEMBER nodes: values with the node that each belongs to */
    double *member;
    int64_t *owner;
    bool used[MODES];
} forest;

static ls_status forest_room(ls_onnx_node *n, forest *f, int count) {
    ls_arena *arena = ls_onnx_arena(n);
    f->count = count;
    f->feature = LS_ARENA_ARRAY(arena, int64_t, count);
    f->mode = LS_ARENA_ARRAY(arena, int64_t, count);
    f->yes = LS_ARENA_ARRAY(arena, int64_t, count);
    f->no = LS_ARENA_ARRAY(arena, int64_t, count);
    f->missing = LS_ARENA_ARRAY(arena, int64_t, count);
    f->split = LS_ARENA_ARRAY(arena, double, count);
    return f->feature && f->mode && f->yes && f->no && f->missing && f->split
               ? LS_OK
               : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d nodes", count);
}

/* Checks children, features and that there is no cycle, and finds the depth. */
static ls_status forest_check(ls_onnx_node *n, forest *f, int64_t features) {
    int *height = LS_ARENA_ARRAY(ls_onnx_arena(n), int, f->count),
        *stack = LS_ARENA_ARRAY(ls_onnx_arena(n), int, f->count + 1);
    if (!height || !stack) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d nodes", f->count);
    }
    for (int i = 0; i < f->count; i++) {
        f->used[f->mode[i]] = true;
        if (f->yes[i] < 0 || f->yes[i] >= f->count || f->no[i] < 0 || f->no[i] >= f->count ||
            (f->mode[i] != LEAF && (f->feature[i] < 0 || f->feature[i] >= features))) {
            return ls_onnx_fail(n, LS_ERR_FORMAT,
                                "node %d of the trees: its feature or a child is out of range", i);
        }
        f->feature[i] = f->mode[i] == LEAF ? 0 : f->feature[i];
    }
    for (int r = 0; r < f->n_roots;
         r++) { /* height: 0 not met, -1 on the way down to it, else 1 + levels below */
        int top = 0;
        stack[0] = (int)f->root[r];
        while (top >= 0) {
            int at = stack[top], yes = (int)f->yes[at], no = (int)f->no[at];
            if (f->mode[at] == LEAF) {
                height[at] = 1;
            }
            if (height[at] > 0) {
                top--;
                continue;
            }
            height[at] = -1;
            int next = height[yes] <= 0 ? yes : height[no] <= 0 ? no : -1;
            if (next < 0) {
                height[at] = 1 + (height[yes] > height[no] ? height[yes] : height[no]);
            } else if (height[next] < 0) {
                return ls_onnx_fail(n, LS_ERR_FORMAT, "node %d of the trees is below itself", next);
            } else {
                stack[++top] = next;
            }
        }
        int levels = height[f->root[r]] - 1;
        f->depth = levels > f->depth ? levels : f->depth;
    }
    return LS_OK;
}

static ls_tensor *table(ls_onnx_node *n, const int64_t *list, int count, ls_tensor *at) {
    return ls_gather(n->s, ls_onnx_list(n, LS_I32, count, list), at, 0);
}

/* Is v[N, T] among the members of node at[N, T]? */
static ls_tensor *is_member(ls_onnx_node *n, const forest *f, ls_tensor *v, ls_tensor *at, ls_dtype dtype) {
    ls_session *s = n->s;
    ls_tensor *member = ls_onnx_ml_list(n, dtype, 1, (const int64_t[]){f->n_members}, f->member);
    ls_tensor *owner = ls_onnx_list(n, LS_I32, f->n_members, f->owner);
    ls_tensor *hit =
        ls_and(s, ls_eq(s, ls_unsqueeze(s, v, 2), member), ls_eq(s, ls_unsqueeze(s, at, 2), owner));
    ls_tensor *any = ls_amax(s, ls_cast(s, hit, LS_I32), 1, (const int[]){2}, 0);
    return ls_ne(s, any, ls_full_i64(s, LS_I32, LS_SCALAR, 0));
}

/* The leaves that x[N, F] reaches, i32 [N, trees]. */
static ls_tensor *descend(ls_onnx_node *n, const forest *f, ls_tensor *x, int64_t samples) {
    typedef ls_tensor *(*compare)(ls_session *, ls_tensor *, ls_tensor *);
    static const compare by[] = {ls_le, ls_lt, ls_ge, ls_gt, ls_eq, ls_ne};
    ls_session *s = n->s;
    ls_dtype dtype = ls_tensor_dtype(x);
    ls_tensor *at = ls_expand(s, ls_onnx_list(n, LS_I32, f->n_roots, f->root), LS_SHAPE(samples, f->n_roots));
    ls_tensor *splits = ls_onnx_ml_list(n, dtype, 1, (const int64_t[]){f->count}, f->split);
    for (int level = 0; level < f->depth; level++) {
        ls_tensor *v = ls_take_along(s, x, table(n, f->feature, f->count, at), 1), *yes = NULL;
        ls_tensor *split = ls_gather(s, splits, at, 0), *mode = table(n, f->mode, f->count, at);
        for (int m = LEQ; m <= MEMBER; m++) {
            if (!f->used[m]) {
                continue;
            }
            ls_tensor *holds = m == MEMBER ? is_member(n, f, v, at, dtype) : by[m](s, v, split);
            yes = yes ? ls_where(s, ls_eq(s, mode, ls_full_i64(s, LS_I32, LS_SCALAR, m)), holds, yes) : holds;
        }
        ls_tensor *missing =
            ls_eq(s, table(n, f->missing, f->count, at), ls_full_i64(s, LS_I32, LS_SCALAR, 1));
        yes = ls_where(s, ls_isnan(s, v), missing, yes);
        at = ls_where(s, yes, table(n, f->yes, f->count, at), table(n, f->no, f->count, at));
    }
    return at;
}

enum { AVERAGE, SUM, MIN, MAX };

/* Scores [N, targets] of leaves: `weight` is [count, targets], with `given` 1 where a leaf says something
 * of a target. */
static ls_tensor *gather_scores(ls_onnx_node *n, const forest *f, ls_tensor *leaves, ls_dtype dtype,
                                int64_t targets, double *weight, const bool *given, int aggregate) {
    ls_session *s = n->s;
    const int trees[1] = {1};
    const double most = dtype == LS_F64 ? 1.7976931348623157e308 : 3.4028234663852886e38;
    for (int64_t i = 0; aggregate >= MIN && i < f->count * targets; i++) {
        weight[i] = given[i] ? weight[i] : aggregate == MIN ? most : -most;
    }
    ls_tensor *all =
        ls_gather(s, ls_onnx_ml_list(n, dtype, 2, (const int64_t[]){f->count, targets}, weight), leaves, 0);
    if (aggregate >= MIN) {
        return aggregate == MIN ? ls_amin(s, all, 1, trees, 0) : ls_amax(s, all, 1, trees, 0);
    }
    ls_tensor *sum = ls_sum(s, all, 1, trees, 0);
    return aggregate == AVERAGE ? ls_div(s, sum, ls_onnx_scalar(n, dtype, f->n_roots)) : sum;
}

/* A list that must have `count` whole numbers. */
static ls_status ints(ls_onnx_node *n, const char *name, int count, const int64_t **out) {
    int have;
    *out = ls_onnx_attr_ints(n, name, &have);
    return have == count ? LS_OK
                         : ls_onnx_fail(n, LS_ERR_FORMAT, "attribute %s has %d entries: expected %d", name,
                                        have, count);
}

/* ---- TreeEnsemble: inner nodes and leaves apart ---- */

static ls_status members(ls_onnx_node *n, forest *f, int inner) {
    double *values;
    int count, at = 0;
    LS_TRY(n->err, ls_onnx_ml_tensor_numbers(n, "membership_values", &values, &count));
    f->member = LS_ARENA_ARRAY(ls_onnx_arena(n), double, count + 1);
    f->owner = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, count + 1);
    if (!f->member || !f->owner) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for membership_values");
    }
    f->member[0] = f->owner[0] = -1;
    for (int i = 0; i < inner; i++) {
        if (f->mode[i] != MEMBER) {
            continue;
        }
        if (at >= count) {
            return ls_onnx_fail(n, LS_ERR_FORMAT, "membership_values ends before those of node %d", i);
        }
        while (at < count && values[at] == values[at]) {
            f->member[f->n_members] = values[at++];
            f->owner[f->n_members++] = i;
        }
        at++;
    }
    f->n_members = f->n_members ? f->n_members : 1; /* one that no node owns */
    return LS_OK;
}

/* Leaves stand behind the inner nodes; -1: there is no such child. */
static int64_t child_of(int64_t at, int64_t is_leaf, int inner, int leaves) {
    return at < 0 || at >= (is_leaf ? leaves : inner) ? -1 : at + (is_leaf ? inner : 0);
}

static ls_status read_inner(ls_onnx_node *n, forest *f, int inner, int leaves) {
    const int64_t *feature, *yes, *no, *yes_leaf, *no_leaf, *missing;
    const ls_data *modes;
    double *splits;
    int n_splits, n_missing, n_roots;
    LS_TRY(n->err, ints(n, "nodes_featureids", inner, &feature));
    LS_TRY(n->err, ints(n, "nodes_truenodeids", inner, &yes));
    LS_TRY(n->err, ints(n, "nodes_falsenodeids", inner, &no));
    LS_TRY(n->err, ints(n, "nodes_trueleafs", inner, &yes_leaf));
    LS_TRY(n->err, ints(n, "nodes_falseleafs", inner, &no_leaf));
    LS_TRY(n->err, ls_onnx_ml_tensor_numbers(n, "nodes_splits", &splits, &n_splits));
    missing = ls_onnx_attr_ints(n, "nodes_missing_value_tracks_true", &n_missing);
    ls_onnx_value *mode = ls_onnx_attr_tensor(n, "nodes_modes");
    if (!mode) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "attribute nodes_modes is missing");
    }
    LS_TRY(n->err, ls_onnx_read_value(n, mode, &modes));
    const int64_t *roots = ls_onnx_attr_ints(n, "tree_roots", &n_roots);
    f->root = ls_arena_copy(ls_onnx_arena(n), roots, sizeof *roots * (size_t)n_roots);
    f->n_roots = n_roots;
    if (ls_data_dtype(modes) != LS_U8 || ls_data_numel(modes) != inner || n_splits != inner ||
        (n_missing && n_missing != inner) || n_roots < 1 || !f->root) {
        return ls_onnx_fail(
            n, LS_ERR_FORMAT,
            "nodes_modes, nodes_splits or tree_roots: expected %d uint8, %d numbers, and roots", inner,
            inner);
    }
    for (int i = 0; i < inner + leaves; i++) {
        bool leaf = i >= inner;
        f->mode[i] = leaf ? LEAF : ((const uint8_t *)ls_data_bytes(modes))[i];
        if (f->mode[i] > (leaf ? LEAF : MEMBER)) {
            return ls_onnx_fail(n, LS_ERR_FORMAT, "mode %lld of node %d", (long long)f->mode[i], i);
        }
        f->feature[i] = leaf ? 0 : feature[i];
        f->split[i] = leaf ? 0 : splits[i];
        f->missing[i] = !leaf && n_missing ? missing[i] : 0;
        f->yes[i] = leaf ? i : child_of(yes[i], yes_leaf[i], inner, leaves);
        f->no[i] = leaf ? i : child_of(no[i], no_leaf[i], inner, leaves);
    }
    for (int i = 0; i < n_roots; i++) {
        if (roots[i] < 0 || roots[i] >= inner) {
            return ls_onnx_fail(n, LS_ERR_FORMAT, "root %lld of %d nodes", (long long)roots[i], inner);
        }
    }
    return members(n, f, inner);
}

ls_status ls_onnx_tree_ensemble(ls_onnx_node *n) {
    static const char *const posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    forest f = {0};
    int64_t dims[2], targets = ls_onnx_attr_int(n, "n_targets", 1),
                     post = ls_onnx_attr_int(n, "post_transform", 0);
    int64_t aggregate = ls_onnx_attr_int(n, "aggregate_function", SUM);
    int inner, leaves, type = ls_onnx_in_type(n, 0);
    double *leaf_weights;
    const int64_t *leaf_targets;
    ls_tensor *x = ls_onnx_ml_matrix(n, dims);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_onnx_attr_ints(n, "nodes_featureids", &inner);
    LS_TRY(n->err, ls_onnx_ml_tensor_numbers(n, "leaf_weights", &leaf_weights, &leaves));
    LS_TRY(n->err, ints(n, "leaf_targetids", leaves, &leaf_targets));
    if (inner < 1 || leaves < 1 || inner > INT32_MAX - leaves || targets < 1 || targets > 1 << 20 ||
        post < 0 || post > 4 || aggregate < 0 || aggregate > MAX) {
        return ls_onnx_fail(n, LS_ERR_FORMAT,
                            "%d nodes, %d leaves, %lld targets, post_transform %lld, aggregate_function %lld",
                            inner, leaves, (long long)targets, (long long)post, (long long)aggregate);
    }
    LS_TRY(n->err, forest_room(n, &f, inner + leaves));
    LS_TRY(n->err, read_inner(n, &f, inner, leaves));
    LS_TRY(n->err, forest_check(n, &f, dims[1]));
    double *weight = LS_ARENA_ARRAY(ls_onnx_arena(n), double, (size_t)f.count *(size_t)targets);
    bool *given = LS_ARENA_ARRAY(ls_onnx_arena(n), bool, (size_t)f.count *(size_t)targets);
    if (!weight || !given) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the leaves");
    }
    for (int i = 0; i < leaves; i++) {
        if (leaf_targets[i] < 0 || leaf_targets[i] >= targets) {
            return ls_onnx_fail(n, LS_ERR_RANGE, "target %lld of leaf %d: expected below %lld",
                                (long long)leaf_targets[i], i, (long long)targets);
        }
        weight[(inner + i) * targets + leaf_targets[i]] = leaf_weights[i];
        given[(inner + i) * targets + leaf_targets[i]] = true;
    }
    ls_tensor *y = gather_scores(n, &f, descend(n, &f, x, dims[0]), ls_tensor_dtype(x), targets, weight,
                                 given, (int)aggregate);
    LS_TRY(n->err, ls_onnx_ml_post(n, posts[post], &y));
    return ls_onnx_out_as(n, 0, ls_cast(n->s, y, ls_onnx_carrier(type)), type);
}

/* ---- the older operators: nodes named by (tree, node), leaves among them ---- */

static uint64_t hash_pair(const int64_t *pair) {
    return ls_hash(pair, 2 * sizeof *pair, 0);
}
static bool same_pair(const void *a, const void *b) {
    return !memcmp(a, b, 2 * sizeof(int64_t));
}

static ls_status mode_of(ls_onnx_node *n, const char *name, int64_t *out) {
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "",           "LEAF"};
    for (int m = LEQ; m <= LEAF; m++) {
        if (!strcmp(names[m], name) && *name) {
            *out = m;
            return LS_OK;
        }
    }
    return ls_onnx_fail(n, LS_ERR_FORMAT, "node mode \"%s\"", name);
}

/* `names`: (tree, node) to the index + 1, kept in a map whose keys stand in `pairs`. */
static ls_status fill_nodes(ls_onnx_node *n, forest *f, ls_map *names, int64_t *pairs) {
    const int64_t *tree, *id, *feature, *yes, *no, *missing;
    double *values;
    int n_values, n_missing, n_modes;
    LS_TRY(n->err, ints(n, "nodes_treeids", f->count, &tree));
    LS_TRY(n->err, ints(n, "nodes_nodeids", f->count, &id));
    LS_TRY(n->err, ints(n, "nodes_featureids", f->count, &feature));
    LS_TRY(n->err, ints(n, "nodes_truenodeids", f->count, &yes));
    LS_TRY(n->err, ints(n, "nodes_falsenodeids", f->count, &no));
    LS_TRY(n->err, ls_onnx_ml_numbers(n, "nodes_values", &values, &n_values));
    missing = ls_onnx_attr_ints(n, "nodes_missing_value_tracks_true", &n_missing);
    const char *const *modes = ls_onnx_attr_strings(n, "nodes_modes", &n_modes);
    if (n_values != f->count || n_modes != f->count || (n_missing && n_missing != f->count)) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "%d nodes_values and %d nodes_modes: expected %d", n_values,
                            n_modes, f->count);
    }
    for (int i = 0; i < f->count; i++) {
        int64_t *pair = pairs + 2 * i;
        pair[0] = tree[i];
        pair[1] = id[i];
        if (ls_map_get(names, hash_pair(pair), pair)) {
            return ls_onnx_fail(n, LS_ERR_FORMAT, "node %lld of tree %lld stands twice", (long long)id[i],
                                (long long)tree[i]);
        }
        if (!ls_map_put(names, hash_pair(pair), pair, pair)) {
            return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d nodes", f->count);
        }
        LS_TRY(n->err, mode_of(n, modes[i], &f->mode[i]));
        f->feature[i] = feature[i];
        f->split[i] = values[i];
        f->missing[i] = n_missing ? missing[i] : 0;
        bool first = true; /* the first node of a tree is its root */
        for (int r = 0; r < f->n_roots && first; r++) {
            first = tree[f->root[f->n_roots - 1 - r]] != tree[i];
        }
        if (first) {
            f->root[f->n_roots++] = i;
        }
    }
    for (int i = 0; i < f->count; i++) {
        f->yes[i] = f->no[i] = i;
        for (int side = 0; side < 2 && f->mode[i] != LEAF; side++) {
            const int64_t pair[2] = {tree[i], side ? no[i] : yes[i]};
            const int64_t *at = ls_map_get(names, hash_pair(pair), pair);
            if (!at) {
                return ls_onnx_fail(n, LS_ERR_FORMAT, "node %lld of tree %lld is missing", (long long)pair[1],
                                    (long long)pair[0]);
            }
            *(side ? &f->no[i] : &f->yes[i]) = (at - pairs) / 2;
        }
    }
    return LS_OK;
}

/* The weights that leaves give to targets: attributes <what>_treeids, _nodeids, _ids, _weights. */
static ls_status fill_weights(ls_onnx_node *n, const ls_map *names, const int64_t *pairs, const char *what,
                              int64_t targets, double *weight, bool *given, bool *out_positive) {
    char name[32] = "";
    const int64_t *list[3];
    double *weights;
    int count;
    static const char *const parts[] = {"_treeids", "_nodeids", "_ids"};
    strcat(strcpy(name, what), "_weights");
    LS_TRY(n->err, ls_onnx_ml_numbers(n, name, &weights, &count));
    for (int k = 0; k < 3; k++) {
        strcat(strcpy(name, what), parts[k]);
        LS_TRY(n->err, ints(n, name, count, &list[k]));
    }
    *out_positive = true;
    for (int i = 0; i < count; i++) {
        const int64_t pair[2] = {list[0][i], list[1][i]};
        const int64_t *at = ls_map_get(names, hash_pair(pair), pair);
        if (!at || list[2][i] < 0 || list[2][i] >= targets) {
            return ls_onnx_fail(n, LS_ERR_FORMAT,
                                "weight %d is of node %lld of tree %lld, for target %lld: there is none", i,
                                (long long)pair[1], (long long)pair[0], (long long)list[2][i]);
        }
        int64_t k = (at - pairs) / 2 * targets + list[2][i];
        weight[k] += weights[i];
        given[k] = true;
        *out_positive = *out_positive && weights[i] >= 0;
    }
    return LS_OK;
}

/* Raw scores [N, targets] before base values. */
static ls_status old_scores(ls_onnx_node *n, const char *what, int64_t targets, int aggregate,
                            bool *out_positive, ls_tensor **out_scores) {
    forest f = {0};
    int64_t dims[2], *pairs;
    int count;
    ls_arena *arena = ls_onnx_arena(n);
    ls_tensor *x = ls_onnx_ml_matrix(n, dims);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_onnx_attr_ints(n, "nodes_treeids", &count);
    if (count < 1 || targets < 1 || targets > 1 << 20) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "%d nodes and %lld targets or classes", count,
                            (long long)targets);
    }
    LS_TRY(n->err, forest_room(n, &f, count));
    f.root = LS_ARENA_ARRAY(arena, int64_t, count);
    pairs = LS_ARENA_ARRAY(arena, int64_t, 2 * (size_t)count);
    double *weight = LS_ARENA_ARRAY(arena, double, (size_t)count *(size_t)targets);
    bool *given = LS_ARENA_ARRAY(arena, bool, (size_t)count *(size_t)targets);
    if (!f.root || !pairs || !weight || !given) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d nodes", count);
    }
    ls_map names;
    ls_map_init(&names, arena->heap, same_pair);
    ls_status status = fill_nodes(n, &f, &names, pairs);
    status =
        status == LS_OK ? fill_weights(n, &names, pairs, what, targets, weight, given, out_positive) : status;
    ls_map_free(&names);
    LS_TRY(n->err, status);
    LS_TRY(n->err, forest_check(n, &f, dims[1]));
    *out_scores = gather_scores(n, &f, descend(n, &f, x, dims[0]), ls_tensor_dtype(x), targets, weight, given,
                                aggregate);
    return *out_scores ? LS_OK : ls_onnx_out(n, 0, NULL);
}

ls_status ls_onnx_tree_regressor(ls_onnx_node *n) {
    static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    const char *function = ls_onnx_attr_string(n, "aggregate_function", "SUM");
    int64_t targets = ls_onnx_attr_int(n, "n_targets", 1);
    int aggregate = 0, n_base;
    double *base;
    bool positive;
    ls_tensor *y;
    while (aggregate <= MAX && strcmp(names[aggregate], function) != 0) {
        aggregate++;
    }
    if (aggregate > MAX) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "aggregate_function \"%s\"", function);
    }
    LS_TRY(n->err, old_scores(n, "target", targets, aggregate, &positive, &y));
    LS_TRY(n->err, ls_onnx_ml_numbers(n, "base_values", &base, &n_base));
    if (n_base && n_base != 1 && n_base != targets) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d base_values for %lld targets", n_base, (long long)targets);
    }
    if (n_base) {
        y = ls_add(n->s, y, ls_onnx_ml_list(n, ls_tensor_dtype(y), 1, (const int64_t[]){n_base}, base));
    }
    LS_TRY(n->err, ls_onnx_ml_post(n, ls_onnx_attr_string(n, "post_transform", "NONE"), &y));
    return ls_onnx_out(n, 0, ls_cast(n->s, y, LS_F32));
}

/* Two classes of which leaves name only one: the other's score is what is left of 1 when no weight is
 * negative (the class is the named one above a half), else the negated one (above 0). Result 0 is the
 * label, 1 the scores. */
static ls_status two_classes(ls_onnx_node *n, ls_tensor *y, bool positive, const char *transform) {
    ls_session *s = n->s;
    ls_dtype dtype = ls_tensor_dtype(y);
    ls_tensor *yes = ls_lt(s, ls_onnx_scalar(n, dtype, positive ? 0.5 : 0), y);
    ls_tensor *other =
        positive && strcmp(transform, "LOGISTIC") ? ls_sub(s, ls_onnx_scalar(n, dtype, 1), y) : ls_neg(s, y);
    ls_tensor *both = ls_concat(s, (ls_tensor *[]){other, y}, 2, 1);
    LS_TRY(n->err, ls_onnx_ml_post(n, transform, &both));
    LS_TRY(n->err, ls_onnx_out(n, 1, ls_cast(s, both, LS_F32)));
    return ls_onnx_ml_labels(n, ls_cast(s, ls_squeeze(s, yes, 1), LS_I64), "classlabels_int64s");
}

ls_status ls_onnx_tree_classifier(ls_onnx_node *n) {
    const char *transform = ls_onnx_attr_string(n, "post_transform", "NONE");
    int n_ints, n_strings, n_ids, n_base;
    double *base;
    bool positive, single = true;
    ls_tensor *y;
    ls_onnx_attr_ints(n, "classlabels_int64s", &n_ints);
    ls_onnx_attr_strings(n, "classlabels_strings", &n_strings);
    const int64_t *ids = ls_onnx_attr_ints(n, "class_ids", &n_ids);
    int64_t classes = n_ints > n_strings ? n_ints : n_strings;
    for (int i = 1; i < n_ids; i++) {
        single = single && ids[i] == ids[0];
    }
    LS_TRY(n->err, old_scores(n, "class", classes, SUM, &positive, &y));
    LS_TRY(n->err, ls_onnx_ml_numbers(n, "base_values", &base, &n_base));
    if (n_base && n_base != 1 && n_base != classes) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d base_values for %lld classes", n_base, (long long)classes);
    }
    single = single && classes == 2 && n_ids > 0;
    if (single) {
        y = ls_narrow(n->s, y, 1, ids[0] == 1 ? 1 : 0, 1);
        base += n_base == 2;
        n_base = n_base ? 1 : 0;
    }
    if (n_base) {
        y = ls_add(n->s, y, ls_onnx_ml_list(n, ls_tensor_dtype(y), 1, (const int64_t[]){n_base}, base));
    }
    if (single) {
        return two_classes(n, y, positive, transform);
    }
    LS_TRY(n->err, ls_onnx_ml_post(n, transform, &y));
    LS_TRY(n->err, ls_onnx_out(n, 1, ls_cast(n->s, y, LS_F32)));
    return ls_onnx_ml_labels(n, ls_argmax(n->s, y, 1, (const int[]){1}, 0), "classlabels_int64s");
}
