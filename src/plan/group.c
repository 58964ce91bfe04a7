/* Which nodes share a kernel.
 *
 * Nodes are visited users first. A node that one group alone uses joins it when that is legal and wastes
 * nothing; else it is materialised: by one of its users' groups, as another result of it, when that group
 * computes it anyway and needs none of its other users; else by a group of its own. Constants, positions
 * and movement are computed by every reader. Invariant: groups never depend on each other in a cycle. */
#include "plan/build.h"
#include "plan/reshape.h"
#include <string.h>

#define MAX_GROUP_REDUCES 8
#define MAX_ROW 65536 /* elements of a row that a group reduces and reads again */
#define FEW_ROWS 8    /* fewer rows are fused only when they are short: */
#define SHORT_ROW 4096
#define MAX_AGAIN 3  /* cheap maps, one on another, that several groups compute each */
#define MAX_SITES 16 /* ways of reading one movement node before it is materialised */

static const bool expensive[LS_OP_COUNT] = {
    [LS_OP_SQRT] = true,   [LS_OP_RSQRT] = true, [LS_OP_CBRT] = true,  [LS_OP_RECIP] = true,
    [LS_OP_EXP] = true,    [LS_OP_EXP2] = true,  [LS_OP_EXPM1] = true, [LS_OP_LOG] = true,
    [LS_OP_LOG2] = true,   [LS_OP_LOG1P] = true, [LS_OP_SIN] = true,   [LS_OP_COS] = true,
    [LS_OP_TAN] = true,    [LS_OP_ASIN] = true,  [LS_OP_ACOS] = true,  [LS_OP_ATAN] = true,
    [LS_OP_SINH] = true,   [LS_OP_COSH] = true,  [LS_OP_TANH] = true,  [LS_OP_ERF] = true,
    [LS_OP_ERFC] = true,   [LS_OP_DIV] = true,   [LS_OP_REM] = true,   [LS_OP_POW] = true,
    [LS_OP_RANDOM] = true,
};

bool ls_op_is_expensive(ls_op op) {
    return expensive[op];
}

static ls_group_kind kind_of(ls_op_class class) {
    static const ls_group_kind kinds[] = {
        [LS_CLASS_REDUCE] = LS_GROUP_REDUCE,   [LS_CLASS_CONTRACT] = LS_GROUP_CONTRACT,
        [LS_CLASS_SCAN] = LS_GROUP_SCAN,       [LS_CLASS_SORT] = LS_GROUP_SORT,
        [LS_CLASS_SCATTER] = LS_GROUP_SCATTER, [LS_CLASS_LOOP] = LS_GROUP_LOOP,
        [LS_CLASS_COPY] = LS_GROUP_COPY,
    };
    return class < (ls_op_class)(sizeof kinds / sizeof *kinds) ? kinds[class] : LS_GROUP_POINTWISE;
}

/* ---- rows ---- */
static bool is_reduced(const ls_tensor *reduce, int axis) {
    for (int i = 0; i < reduce->attr.axes.count; i++) {
        if (reduce->attr.axes.axes[i] == axis) {
            return true;
        }
    }
    return false;
}

/* Whether the axes that `reduce` drops have the extents of the draft's inner axes, in order. */
static bool fits_inner(const ls_draft *d, int first, int count, const ls_tensor *reduce) {
    const ls_shape *from = &reduce->src[0]->shape;
    int at = first;
    for (int i = 0; i < from->rank; i++) {
        if (!is_reduced(reduce, i) || ls_dim_is_one(from->dim[i])) {
            continue;
        }
        while (at < first + count && ls_dim_is_one(d->extent[at])) {
            at++;
        }
        if (at == first + count || !ls_dim_equal(d->extent[at], from->dim[i])) {
            return false;
        }
        at++;
    }
    while (at < first + count && ls_dim_is_one(d->extent[at])) {
        at++;
    }
    return at == first + count;
}

/* Appends the axes that a reduction binds to the draft's space. */
static bool bind_inner(ls_draft *d, const ls_tensor *reduce) {
    const ls_shape *from = &reduce->src[0]->shape;
    d->first_inner = d->n_axes;
    for (int i = 0; i < from->rank; i++) {
        if (is_reduced(reduce, i)) {
            d->extent[d->n_axes++] = from->dim[i];
        }
    }
    d->n_inner = d->n_axes - d->first_inner;
    d->has_rows = true;
    return true;
}

static double extents(const ls_draft *d, int first, int count) {
    double n = 1;
    for (int i = first; i < first + count; i++) {
        n *= (double)ls_dim_bound(d->extent[i]);
    }
    return n;
}

/* Whether rows of `inner` elements, read more than once, are worth one kernel. */
static bool rows_fit(double inner, double outer) {
    return inner <= MAX_ROW && (inner <= SHORT_ROW || outer >= FEW_ROWS);
}

/* Whether a reduction seen at `site` gives one value to each row: its axes are exactly the outer ones of
 * the space. */
static bool at_rows(const ls_draft *d, const ls_site *site, int rank, int first_inner) {
    unsigned used = 0;
    for (int i = 0; i < rank; i++) {
        if (site->axis[i] <= LS_AXIS_OTHER || site->axis[i] >> first_inner) {
            return false;
        }
        used |= (unsigned)site->axis[i];
    }
    for (int i = 0; i < first_inner; i++) {
        if (!(used >> i & 1) && !ls_dim_is_one(d->extent[i])) {
            return false;
        }
    }
    return true;
}

/* The first axis of the space that comes after all those of the site. */
static int after_axes(const ls_site *site, int rank) {
    int first = 0;
    for (int i = 0; i < rank; i++) {
        while (site->axis[i] > 0 && site->axis[i] >> first) {
            first++;
        }
    }
    return first;
}

static bool reduce_joins(ls_draft *d, const ls_tensor *x, const ls_site *site) {
    if ((d->kind != LS_GROUP_POINTWISE && d->kind != LS_GROUP_REDUCE) || d->n_reduce >= MAX_GROUP_REDUCES) {
        return false;
    }
    if (!d->has_rows && site->bijective) {
        return bind_inner(d, x);
    }
    if (d->has_rows) {
        bool outer = at_rows(d, site, x->shape.rank, d->first_inner) ||
                     (site->bijective && d->first_inner == d->n_own);
        return outer && fits_inner(d, d->first_inner, d->n_inner, x) &&
               rows_fit(extents(d, d->first_inner, d->n_inner), extents(d, 0, d->first_inner));
    }
    int first = after_axes(site, x->shape.rank), count = d->n_axes - first;
    if (!at_rows(d, site, x->shape.rank, first) || !fits_inner(d, first, count, x) ||
        !rows_fit(extents(d, first, count), extents(d, 0, first))) {
        return false;
    }
    d->first_inner = first;
    d->n_inner = count;
    d->has_rows = true;
    return true;
}

/* ---- joining ---- */
static bool map_joins(const ls_planner *p, const ls_plan_node *n, const ls_draft *d) {
    const ls_tensor *x = n->node;
    double evals = 0, numel = ls_plan_numel(&x->shape);
    bool contract = false, overlap = false, windowed = false, once = false;
    int depth = 0, count = 0;
    for (const ls_site *s = n->sites; s; s = s->next, count++) {
        evals += s->evals;
        contract |= s->contract;
        overlap |= s->overlap;
        windowed |= s->windowed;
        once |= s->once;
        depth = s->depth > depth ? s->depth : depth;
    }
    if (once || d->kind == LS_GROUP_SORT) {
        return false;
    }
    if (p->permuted && windowed && n->contracted && d->kind == LS_GROUP_REDUCE) { /* costs a convolution less than a pooling */
        return false;
    }
    if (contract) { /* else an epilogue of what makes it */
        return ls_class_of(x) == LS_CLASS_MAP && !expensive[x->op] && ((n->simple && evals <= 2 * numel) || n->codes);
    }
    if (evals <= 1.25 * numel) {
        return true;
    }
    const ls_tensor *from = x->op == LS_OP_CAST ? x->src[0] : NULL;
    if (from && ls_class_of(from) == LS_CLASS_REDUCE && ls_dtype_size(x->dtype) < ls_dtype_size(from->dtype)) {
        return false; /* less to store, and to read again and again */
    }
    return !expensive[x->op] && (evals <= 2 * numel || (!overlap && count == 1 && depth < 4));
}

/* Integers as f32, moved by zero points. */
static bool is_codes(const ls_tensor *x) {
    while (ls_class_of(x) == LS_CLASS_MOVE && x->n_src == 1) {
        x = x->src[0];
    }
    if (x->op == LS_OP_CAST) {
        return x->dtype == LS_F32 && ls_dtype_is_int(x->src[0]->dtype);
    }
    return (x->op == LS_OP_SUB || x->op == LS_OP_ADD) && (is_codes(x->src[0]) || is_codes(x->src[1]));
}

static void mark_codes(const ls_tensor *x) {
    if (!ls_plan_node_of(x)->leaf && !ls_plan_node_of(x)->codes) {
        ls_plan_node_of(x)->codes = true;
        for (int i = 0; i < x->n_src; i++) {
            mark_codes(x->src[i]);
        }
    }
}

/* Marks what a dequantised operand of a contraction is made of, its scales apart. */
static void find_codes(ls_plan_node *n) {
    const ls_tensor *x = n->node;
    if (x->op != LS_OP_MUL || x->dtype != LS_F32 || !n->sites || !n->sites->contract) {
        return;
    }
    for (int i = 0; i < 2 && !n->codes; i++) {
        if (is_codes(x->src[i])) {
            n->codes = true;
            mark_codes(x->src[i]);
        }
    }
}

/* The group that alone uses n and that n may join; NULL when it has to be materialised. */
static ls_draft *group_to_join(const ls_planner *p, const ls_plan_node *n) {
    const ls_tensor *x = n->node;
    ls_op_class class = ls_class_of(x);
    ls_draft *d = n->sites ? n->sites->draft : NULL;
    bool one = n->sites && !n->sites->next;
    for (const ls_site *s = n->sites; s; s = s->next) {
        d = s->draft == d ? d : NULL;
    }
    if (!d || !p->fusion || d->n_nodes >= MAX_GROUP_NODES || d->root->node->math != x->math) {
        return NULL;
    }
    if (class == LS_CLASS_MAP || class == LS_CLASS_RANDOM || class == LS_CLASS_GATHER) {
        return map_joins(p, n, d) ? d : NULL;
    }
    bool plain = one && !n->sites->guarded && !n->sites->contract && !n->sites->once;
    if (class == LS_CLASS_REDUCE && plain && reduce_joins(d, x, n->sites)) {
        d->kind = LS_GROUP_REDUCE;
        d->n_reduce++;
        return d;
    }
    if (class == LS_CLASS_CONTRACT && plain && n->sites->bijective && d->kind == LS_GROUP_POINTWISE) {
        d->kind = LS_GROUP_CONTRACT;
        return d;
    }
    return NULL;
}

/* Whether every user computes a cheap map for itself, from an operand that is in memory or that several
 * users need: it costs no more to read that than to read n, and n is not stored. */
static bool each_computes(const ls_planner *p, const ls_plan_node *n) {
    const ls_tensor *x = n->node;
    const ls_plan_node *operand = NULL;
    if (!p->fusion || ls_class_of(x) != LS_CLASS_MAP || expensive[x->op]) {
        return false;
    }
    for (int i = 0; i < x->n_src; i++) {
        const ls_plan_node *src = ls_plan_node_of(x->src[i]);
        if (!src->light && operand && src != operand) {
            return false;
        }
        operand = src->light ? operand : src;
    }
    bool at_hand = operand && ls_class_of(operand->node) != LS_CLASS_MOVE &&
                   (operand->leaf || operand->users > 1) && n->again < MAX_AGAIN &&
                   ls_dtype_size(operand->node->dtype) <= ls_dtype_size(x->dtype);
    for (const ls_site *s = n->sites; s && at_hand; s = s->next) {
        at_hand = !s->contract && !s->once && s->draft->kind != LS_GROUP_SORT &&
                  s->draft->n_nodes < MAX_GROUP_NODES && s->draft->root->node->math == x->math &&
                  s->evals <= 1.25 * ls_plan_numel(&x->shape);
    }
    return at_hand;
}

/* ---- materialising ---- */
enum { MOST_LOOKED_AT = 40 }; /* nodes below a root, for a reshape that a reduction asks for */

/* Whether a reduction of something of this shape is below x, by maps and what expands its results. */
static bool is_reduced_below(const ls_tensor *x, const ls_shape *shape, int *left) {
    bool any = false;
    for (int i = 0; i < x->n_src && !any && --*left > 0; i++) {
        const ls_tensor *src = x->src[i];
        const ls_op_class class = ls_class_of(src);
        const bool through = class == LS_CLASS_MAP || src->op == LS_OP_EXPAND || src->op == LS_OP_RESHAPE;
        any = !ls_plan_node_of(src)->leaf && ((class == LS_CLASS_REDUCE && ls_shape_equal(&src->src[0]->shape, shape)) ||
                                              (through && is_reduced_below(src, shape, left)));
    }
    return any;
}

/* A reshape of x, or of what it is a map of, below which something is reduced: the groups of a group norm; or NULL. */
static const ls_tensor *reshape_to_reduce(const ls_tensor *x, int *left) {
    const ls_tensor *found = NULL;
    if (x->op == LS_OP_RESHAPE && !ls_plan_node_of(x->src[0])->leaf) {
        return ls_class_of(x->src[0]) == LS_CLASS_MAP && is_reduced_below(x->src[0], &x->src[0]->shape, left) ? x : NULL;
    }
    for (int i = 0; i < x->n_src && ls_class_of(x) == LS_CLASS_MAP && !found && --*left > 0; i++) {
        found = ls_plan_node_of(x->src[i])->leaf ? NULL : reshape_to_reduce(x->src[i], left);
    }
    return found;
}

/* The axes of a root, each split as a reshape below has it where a reduction wants some of the pieces. */
static void own_axes(const ls_planner *p, const ls_plan_node *n, ls_draft *d) {
    const ls_shape *shape = &n->node->shape;
    int left = MOST_LOOKED_AT;
    const ls_tensor *reshape = p->fusion && d->kind == LS_GROUP_POINTWISE ? reshape_to_reduce(n->node, &left) : NULL;
    ls_reshape_map map = {0};
    if (reshape) {
        ls_reshape_match(shape, &reshape->src[0]->shape, &map);
    }
    for (int i = 0; i < shape->rank; i++) {
        const ls_reshape_block *pieces = NULL;
        for (int j = 0; j < map.n_blocks; j++) {
            pieces = map.block[j].n_to == 1 && map.block[j].to[0] == i ? &map.block[j] : pieces;
        }
        const int count = pieces ? pieces->n_from : 1;
        d->axis[i] = ls_dim_is_one(shape->dim[i]) ? LS_AXIS_NONE : ((1 << count) - 1) << d->n_axes;
        for (int j = 0; j < count; j++) {
            d->extent[d->n_axes++] = pieces ? reshape->src[0]->shape.dim[pieces->from[j]] : shape->dim[i];
        }
    }
    d->n_own = d->n_axes;
}

static bool start_group(ls_planner *p, ls_plan_node *n) {
    const ls_tensor *x = n->node;
    ls_draft *d = LS_ARENA_NEW(p->arena, ls_draft);
    if (!d) {
        return false;
    }
    *d = (ls_draft){.root = n,
                    .n_roots = 1,
                    .roots = {n},
                    .kind = kind_of(ls_class_of(x)),
                    .n_nodes = 1};
    own_axes(p, n, d);
    ls_site site = {.draft = d, .evals = ls_plan_numel(&x->shape), .bijective = true};
    memcpy(site.axis, d->axis, sizeof site.axis);
    if (d->kind == LS_GROUP_REDUCE) {
        d->n_reduce = 1;
        bind_inner(d, x);
    }
    n->draft = d;
    n->stored = true;
    return ls_site_expand(p, n, &site);
}

/* The product of an attention, with all inside it. */
static bool start_attention(ls_planner *p, ls_plan_node *n) {
    ls_draft *d = LS_ARENA_NEW(p->arena, ls_draft);
    if (!d) {
        return false;
    }
    *d = (ls_draft){.root = n, .n_roots = 1, .roots = {n}, .kind = LS_GROUP_ATTENTION, .n_nodes = MAX_GROUP_NODES};
    n->draft = d;
    n->stored = true;
    ls_attention_join(p, n, d);
    return true;
}

/* The one way in which a draft computes n, when it is element for element that of its results; else NULL. */
static const ls_site *site_of_result(const ls_plan_node *n, const ls_draft *d) {
    const ls_site *only = NULL;
    for (const ls_site *s = n->sites; s; s = s->next) {
        if (s->draft == d) {
            if (only) {
                return NULL;
            }
            only = s;
        }
    }
    bool same = only && !only->contract && ls_shape_equal(&n->node->shape, &d->root->node->shape);
    for (int i = 0; same && i < n->node->shape.rank; i++) {
        same = only->axis[i] == d->axis[i];
    }
    return same ? only : NULL;
}

/* The group that may store n besides its own results. */
static ls_draft *group_to_store(ls_planner *p, const ls_plan_node *n, bool *out_ok) {
    ls_op_class class = ls_class_of(n->node);
    *out_ok = true;
    if (!p->fusion || n->light || n->buffer || (class != LS_CLASS_MAP && class != LS_CLASS_CONTRACT)) {
        return NULL;
    }
    for (const ls_site *s = n->sites; s; s = s->next) {
        ls_draft *d = s->draft;
        bool kind = d->kind == LS_GROUP_POINTWISE ||
                    (!n->contracted && (d->kind == LS_GROUP_REDUCE || d->kind == LS_GROUP_CONTRACT));
        bool free = kind && d->n_roots < LS_DRAFT_ROOTS && d->n_nodes < MAX_GROUP_NODES &&
                    d->root->node->math == n->node->math && site_of_result(n, d);
        for (const ls_site *t = n->sites; t && free; t = t->next) {
            free = t->draft == d || (!ls_draft_needs(p, d, t->draft, out_ok) && *out_ok);
        }
        if (free || !*out_ok) {
            return free ? d : NULL;
        }
    }
    return NULL;
}

static bool store_in(ls_planner *p, ls_plan_node *n, ls_draft *d) {
    n->draft = d;
    n->stored = true;
    d->roots[d->n_roots++] = n;
    d->n_nodes++;
    d->kind = ls_class_of(n->node) == LS_CLASS_CONTRACT ? LS_GROUP_CONTRACT : d->kind;
    return ls_site_expand(p, n, site_of_result(n, d));
}

/* Movement that one kernel should not look through: read in too many ways, or a long way from what it
 * moves. */
static bool move_is_cut(const ls_plan_node *n) {
    int count = 0;
    for (const ls_site *s = n->sites; s; s = s->next) {
        count++;
    }
    bool cut = count > MAX_SITES || (count && n->moves % LS_MOST_MOVES == 0);
    return cut && !n->absent && !n->light;
}

/* The joined tensors below, through movement alone, or NULL. */
static ls_plan_node *joined_below(const ls_tensor *x) {
    while (ls_class_of(x) == LS_CLASS_MOVE && !ls_plan_node_of(x)->leaf && x->op != LS_OP_CONCAT) {
        x = x->src[0];
    }
    return x->op == LS_OP_CONCAT && !ls_plan_node_of(x)->leaf ? ls_plan_node_of(x) : NULL;
}

/* Joined tensors whose channels are shuffled: what reads them reads from the first, third, ... of each tensor, and of those that they
 * are joined of in turn, which costs every reader more than one copy. */
static bool shuffles_joined(const ls_planner *p, const ls_plan_node *n) {
    bool stored = n->sites && !n->sites->next && n->sites->bijective; /* as it is */
    return p->permuted && n->node->op == LS_OP_PERMUTE && !n->absent && !n->light && n->sites && !stored &&
           joined_below(n->node->src[0]);
}

/* Joined channels that a grouped convolution reads are stored: each of its small products would look for the part that it reads. */
static void store_joined_groups(const ls_plan_node *n) {
    for (int i = 0; i < 2 && n->node->attr.contract.n_batch > 0; i++) {
        ls_plan_node *joined = ls_reads_windows(n->node->src[i]) ? joined_below(n->node->src[i]) : NULL;
        if (joined && !joined->absent && !joined->light) {
            joined->buffer = true;
        }
    }
}

/* A part of joined tensors that is stored in another order than it is read in: the anchors of a detector, channels last. Parts are looked
 * for lane by lane, and every reader would look for all of them. */
static bool turns_before_joining(const ls_planner *p, const ls_plan_node *n) {
    const ls_tensor *x = n->node;
    int rank = x->shape.rank;
    bool joined = false;
    for (const ls_site *s = n->sites; s; s = s->next) {
        joined = joined || s->joined;
    }
    return p->permuted && joined && x->op == LS_OP_PERMUTE && !n->absent && !n->light && x->attr.axes.axes[rank - 1] != rank - 1;
}

/* A convolution that only this permutation reads, and that no map follows in one kernel: it is stored as it is read. Its own order,
 * channels last, would be a stride for every reader. So is a product that another one reads with its rows in turn, as those of an
 * attention's heads. */
static bool stores_permuted(const ls_planner *p, const ls_plan_node *n) {
    const ls_site *s = n->sites;
    const ls_tensor *x = n->node;
    if (!p->permuted || x->op != LS_OP_PERMUTE || n->light || n->absent || !s) {
        return false;
    }
    while (x->op == LS_OP_PERMUTE || x->op == LS_OP_RESHAPE) {
        x = x->src[0];
        if (ls_plan_node_of(x)->users != 1) {
            return false;
        }
    }
    bool joins = !s->next && s->bijective && !s->contract && !s->guarded && s->draft->kind == LS_GROUP_POINTWISE;
    int last = n->node->shape.rank - 1;
    bool rows_in_turn = s->contract && last >= 0 && n->node->attr.axes.axes[last] == last;
    return x->op == LS_OP_CONTRACT && !joins && (rows_in_turn || ls_reads_windows(x->src[0]) || ls_reads_windows(x->src[1]));
}

enum { MOST_MAPS = 24 }; /* behind a contraction, and permutations: its kernels take few, and a stack has no room for any number */

/* Whether at most so many maps end a convolution, or another contraction, that nobody else reads. */
static bool ends_contraction(const ls_tensor *x, int most) {
    bool any = ls_class_of(x) == LS_CLASS_CONTRACT, moves = x->op == LS_OP_PERMUTE || x->op == LS_OP_RESHAPE;
    for (int i = 0; most > 0 && (moves || ls_class_of(x) == LS_CLASS_MAP) && i < x->n_src && !any; i++) {
        const ls_plan_node *src = ls_plan_node_of(x->src[i]);
        any = !src->leaf && !src->light && !src->draft && src->users == 1 && ends_contraction(x->src[i], most - 1);
    }
    return any;
}

/* What follows a contraction whose result is joined with others and copied: a kernel of the contraction can do it as it stores, and the
 * copy is nothing else. The contraction is stored either way. */
static bool ends_before_joining(const ls_planner *p, const ls_plan_node *n) {
    const ls_site *s = n->sites;
    return p->permuted && p->fusion && ls_class_of(n->node) == LS_CLASS_MAP && !n->absent && s && !s->next && s->joined && !s->contract &&
           s->draft->kind == LS_GROUP_POINTWISE && ends_contraction(n->node, MOST_MAPS);
}

static bool pass_on(ls_planner *p, ls_plan_node *n) {
    for (const ls_site *s = n->sites; s; s = s->next) {
        if (!ls_site_expand(p, n, s)) {
            return false;
        }
    }
    return true;
}

/* The operands of a convolution, in memory. */
static void lay_out_patches(const ls_plan_node *n) {
    ls_tensor *const *src = n->node->src;
    for (int i = 0; i < 2 && (ls_reads_windows(src[0]) || ls_reads_windows(src[1])); i++) {
        ls_plan_node *operand = ls_plan_node_of(src[i]);
        bool moved = !operand->leaf && !operand->light && ls_class_of(src[i]) == LS_CLASS_MOVE;
        if (moved && ls_plan_tells_absent(src[i])) {
            operand->buffer = operand->patches = true;
        }
    }
}

static bool place(ls_planner *p, ls_plan_node *n) {
    ls_op_class class = ls_class_of(n->node);
    if (n->leaf || n->draft) { /* inside an attention */
        return true;
    }
    if (n->node->op == LS_OP_RESULT) { /* the LOOP below stores it */
        n->stored = true;
        ls_plan_node_of(n->node->src[0])->wanted = true;
        return true;
    }
    bool free = class == LS_CLASS_MOVE || n->light;
    bool ok = true;
    if (p->im2col && class == LS_CLASS_CONTRACT && (n->sites || n->wanted || n->buffer)) {
        lay_out_patches(n);
    }
    if (p->permuted && class == LS_CLASS_CONTRACT) {
        store_joined_groups(n);
    }
    n->attends = class == LS_CLASS_CONTRACT && (n->sites || n->wanted || n->buffer) && ls_attention_find(p, n, &n->not_fused);
    if (n->attends && !n->not_fused && p->attention) {
        return start_attention(p, n);
    }
    ls_draft *with = n->wanted ? group_to_store(p, n, &ok) : NULL;
    if (with) {
        return store_in(p, n, with);
    }
    if (n->wanted || n->buffer || (class == LS_CLASS_MOVE && (move_is_cut(n) || stores_permuted(p, n) || shuffles_joined(p, n) || turns_before_joining(p, n)))) {
        bool computed_too = n->light || (n->absent && !n->patches);
        return start_group(p, n) && (!computed_too || !free || pass_on(p, n));
    }
    if (!n->sites) {
        return true;
    }
    if (p->sparse) {
        ls_plan_find_chosen(n);
    }
    if (free) {
        return pass_on(p, n);
    }
    if (n->each) {
        for (const ls_site *s = n->sites; s; s = s->next) {
            s->draft->n_nodes++;
        }
        return pass_on(p, n);
    }
    if (p->codes) {
        find_codes(n);
    }
    if (ends_before_joining(p, n)) {
        return start_group(p, n);
    }
    n->draft = group_to_join(p, n);
    if (!n->draft && each_computes(p, n)) {
        for (const ls_site *s = n->sites; s; s = s->next) {
            s->draft->n_nodes++;
        }
        for (int i = 0; i < n->node->n_src; i++) {
            ls_plan_node *src = ls_plan_node_of(n->node->src[i]);
            src->again = src->again > n->again ? src->again : n->again + 1;
        }
        return pass_on(p, n);
    }
    if (!n->draft) {
        with = group_to_store(p, n, &ok);
        return ok && (with ? store_in(p, n, with) : start_group(p, n));
    }
    n->draft->n_nodes++;
    return pass_on(p, n);
}

ls_status ls_plan_build(ls_arena *arena, ls_tensor *const *roots, int n_roots, int how, ls_plan *out_plan, ls_error *err) {
    ls_arena scratch;
    ls_planner p = {.arena = &scratch, .out = arena, .fusion = how & LS_PLAN_FUSION, .im2col = how & LS_PLAN_IM2COL,
                    .attention = how & LS_PLAN_ATTENTION, .permuted = how & LS_PLAN_PERMUTED,
                    .codes = how & LS_PLAN_CODES, .sparse = how & LS_PLAN_SPARSE};
    *out_plan = (ls_plan){0};
    for (int i = 0; i < n_roots; i++) {
        if (!roots[i]) {
            return LS_FAIL(err, LS_ERR_INVALID, "plan: root %d of %d is NULL: expected a tensor", i, n_roots);
        }
    }
    ls_arena_init(&scratch, arena->heap);
    bool ok = ls_plan_order(&p, roots, n_roots);
    for (int i = 0; ok && i < n_roots; i++) {
        ls_plan_node_of(roots[i])->wanted = !roots[i]->value;
    }
    for (int i = p.n_nodes; ok && i-- > 0;) {
        ok = place(&p, &p.nodes[i]);
    }
    ok = ok && ls_plan_emit(&p, out_plan);
    ls_plan_unmark(&p);
    ls_arena_free(&scratch);
    return ok ? LS_OK : LS_FAIL_MEMORY(err, "a plan");
}

static const char *const kind_names[] = {"pointwise", "reduce",  "contract", "scan",
                                         "sort",      "scatter", "loop",     "copy", "attention"};

static void print_node(ls_text *out, const ls_tensor *x) {
    char shape[LS_SHAPE_TEXT];
    if (x) {
        ls_text_printf(out, " %s#%llu %s%s", ls_ops[x->op].name, (unsigned long long)x->serial,
                       ls_dtype_name(x->dtype), ls_shape_text(&x->shape, shape));
    } else {
        ls_text_add(out, " -");
    }
}

void ls_plan_print(ls_text *out, const ls_plan *plan) {
    for (int i = 0; i < plan->n_groups; i++) {
        const ls_group *g = &plan->groups[i];
        ls_text_printf(out, "%d %s:", i, kind_names[g->kind]);
        for (int j = 0; j < g->n_roots; j++) {
            print_node(out, g->roots[j]);
        }
        ls_text_add(out, " <-");
        for (int j = 0; j < g->n_reads; j++) {
            print_node(out, g->reads[j]);
        }
        ls_text_add(out, "\n");
    }
}
