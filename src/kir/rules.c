/* The instruction table and how types fit: one function a rule of ins.def. A rule sees only types; structure, dominance
 * and bounds are verify.c's. */
#include "kir/kir.h"

const ls_kop_info ls_kops[LS_K_COUNT] = {
#define INS(ID, name, class, rule, sources, doc) [LS_K_##ID] = {#name, LS_KC_##class, sources, doc},
#include "kir/ins.def"
#undef INS
};

void ls_frag_shape(uint32_t flags, int *out_rows, int *out_cols) {
    int role = flags >> 3 & 3, m = flags >> 8 & 255, n = flags >> 16 & 255, k = flags >> 24;
    *out_rows = role == LS_FRAG_B ? k : m;
    *out_cols = role == LS_FRAG_A ? k : n;
}

int64_t ls_kmem_count(const ls_kernel *kernel, int mem, const int64_t *params) {
    const ls_kmem *m = &kernel->mems[mem];
    return m->count_param < 0 ? m->count : m->count * params[m->count_param];
}

int64_t ls_kgrid_size(const ls_kernel *kernel, int axis, const int64_t *params) {
    const ls_kgrid *g = &kernel->grid[axis];
    int64_t units = g->param < 0 ? g->scale : g->scale * params[g->param];
    return units <= 0 ? 0 : (units - 1) / g->divisor + 1;
}

bool ls_kir_has_result(const ls_ins *ins) {
    ls_kclass kind = ls_kops[ins->op].kind;
    return ins->lanes != 0 && (kind != LS_KC_CONTROL || ins->op == LS_K_LOOP || ins->op == LS_K_GET);
}

/* What a rule looks at. `s` are the sources' instructions, NULL where there is none. */
typedef struct rule_args {
    const ls_kernel *kernel;
    const ls_ins *ins;
    const ls_ins *s[3];
} rule_args;

static bool same_type(const ls_ins *a, const ls_ins *b) {
    return a && b && a->dtype == b->dtype && a->lanes == b->lanes &&
           (a->lanes != LS_LANES_FRAG || (a->flags & LS_KF_FRAG_TYPE) == (b->flags & LS_KF_FRAG_TYPE));
}

static bool is_vector(const ls_ins *a) { /* not a fragment, not without result */
    return a && (a->lanes == 1 || a->lanes == 2 || a->lanes == 4);
}

static bool is_bool(const ls_ins *a) {
    return a && a->dtype == LS_BOOL && a->lanes == 1;
}

static bool is_index(const ls_ins *a) {
    return a && a->lanes == 1 && (a->dtype == LS_I32 || a->dtype == LS_U32 || a->dtype == LS_I64);
}

static bool all_same(const rule_args *r) {
    for (int i = 0; i < ls_kops[r->ins->op].sources; i++) {
        if (!same_type(r->ins, r->s[i])) {
            return false;
        }
    }
    return is_vector(r->ins);
}

/* Each rule gives NULL when all is well, else what was expected. */
static const char *rule_NONE(const rule_args *r) {
    return r->ins->lanes ? "no result" : NULL;
}

static const char *rule_LOOP(const rule_args *r) {
    return is_index(r->ins) && all_same(r) ? NULL : "bounds and step of one index type (i32, u32, i64)";
}

static const char *rule_IF(const rule_args *r) {
    return is_bool(r->s[0]) && !r->ins->lanes ? NULL : "a bool scalar";
}

static const char *rule_VAR(const rule_args *r) {
    return same_type(r->ins, r->s[0]) ? NULL : "a variable of its first value's type";
}

static const char *rule_GET(const rule_args *r) {
    return r->s[0] && r->s[0]->op == LS_K_VAR && same_type(r->ins, r->s[0]) ? NULL : "a var and its type";
}

static const char *rule_SET(const rule_args *r) {
    return r->s[0] && r->s[0]->op == LS_K_VAR && same_type(r->s[0], r->s[1]) && !r->ins->lanes
               ? NULL
               : "a var and a value of its type";
}

static const char *rule_CONST(const rule_args *r) {
    ls_dtype t = (ls_dtype)r->ins->dtype;
    if (!is_vector(r->ins)) {
        return "1, 2 or 4 lanes";
    }
    return ls_kir_wrap(t, (uint64_t)r->ins->arg) == (uint64_t)r->ins->arg ? NULL : "bits that the type has";
}

static const char *rule_PARAM(const rule_args *r) {
    int64_t p = r->ins->arg;
    return p >= 0 && p < r->kernel->n_params && r->kernel->params[p].dtype == r->ins->dtype &&
                   r->ins->lanes == 1
               ? NULL
               : "the number of a parameter, and its type";
}

static const char *rule_ID(const rule_args *r) {
    return r->ins->dtype == LS_I32 && r->ins->lanes == 1 && r->ins->arg >= 0 && r->ins->arg < 3
               ? NULL
               : "an i32 and an axis of 0 to 2";
}

static const ls_kmem *memory_of(const rule_args *r) {
    return r->ins->arg >= 0 && r->ins->arg < r->kernel->n_mems ? &r->kernel->mems[r->ins->arg] : NULL;
}

static const char *rule_LOAD(const rule_args *r) {
    const ls_kmem *m = memory_of(r);
    if (!m || !(m->access & LS_MEM_READ)) {
        return "a memory that may be read";
    }
    if (!is_index(r->s[0]) || r->ins->dtype != m->dtype || !is_vector(r->ins)) {
        return "an index and the memory's type";
    }
    if (!r->s[1] != !r->s[2]) {
        return "a predicate and an else-value, or neither";
    }
    return !r->s[1] || (is_bool(r->s[1]) && same_type(r->ins, r->s[2]))
               ? NULL
               : "a bool and an else-value of the result's type";
}

static const char *rule_STORE(const rule_args *r) {
    const ls_kmem *m = memory_of(r);
    if (!m || !(m->access & LS_MEM_WRITE)) {
        return "a memory that may be written";
    }
    if (!is_index(r->s[0]) || !is_vector(r->s[1]) || r->s[1]->dtype != m->dtype || r->ins->lanes) {
        return "an index and a value of the memory's type";
    }
    return !r->s[2] || is_bool(r->s[2]) ? NULL : "a bool predicate";
}

static const char *rule_ATOMIC(const rule_args *r) {
    const ls_kmem *m = memory_of(r);
    if (!m || m->access != LS_MEM_READ_WRITE) {
        return "a memory that may be read and written";
    }
    if (!ls_dtype_is_int(m->dtype) || ls_dtype_size(m->dtype) < 4) {
        return "a memory of 32- or 64-bit integers";
    }
    if (!is_index(r->s[0]) || !same_type(r->ins, r->s[1]) || r->ins->lanes != 1 ||
        r->ins->dtype != m->dtype) {
        return "an index and a scalar of the memory's type";
    }
    return !r->s[2] || is_bool(r->s[2]) ? NULL : "a bool predicate";
}

static const char *rule_SHUFFLE(const rule_args *r) {
    return is_vector(r->ins) && same_type(r->ins, r->s[0]) && r->s[1] && r->s[1]->dtype == LS_I32 &&
                   r->s[1]->lanes == 1
               ? NULL
               : "a value of the result's type and an i32 lane";
}

static const char *rule_SHUFFLE_XOR(const rule_args *r) {
    return is_vector(r->ins) && same_type(r->ins, r->s[0]) && r->ins->arg >= 0 && r->ins->arg < 128
               ? NULL
               : "a value of the result's type and a mask of 0 to 127";
}

static const char *rule_SUBGROUP(const rule_args *r) {
    if (!is_vector(r->ins) || !same_type(r->ins, r->s[0]) || r->ins->dtype == LS_BOOL) {
        return "a number of the result's type";
    }
    bool ordered = ls_dtype_is_float((ls_dtype)r->ins->dtype) && r->ins->op == LS_K_SUBGROUP_ADD;
    return !ordered || (r->ins->flags & LS_KF_FAST) ? NULL : "the fast flag for a sum of floats";
}

static const char *rule_NUM(const rule_args *r) {
    return all_same(r) && r->ins->dtype != LS_BOOL ? NULL : "numbers, all of the result's type";
}

static const char *rule_FLOAT(const rule_args *r) {
    return all_same(r) && ls_dtype_is_float((ls_dtype)r->ins->dtype) ? NULL
                                                                     : "floats, all of the result's type";
}

static const char *rule_INT(const rule_args *r) {
    return all_same(r) && !ls_dtype_is_float((ls_dtype)r->ins->dtype)
               ? NULL
               : "integers or bools, all of the result's type";
}

static const char *rule_INTEGER(const rule_args *r) {
    return all_same(r) && ls_dtype_is_int((ls_dtype)r->ins->dtype) ? NULL : "integers, all of the result's type";
}

static const char *rule_WORD(const rule_args *r) {
    return all_same(r) && (r->ins->dtype == LS_U32 || r->ins->dtype == LS_U64) ? NULL : "u32 or u64";
}

static const char *rule_COMPARE(const rule_args *r) {
    return is_vector(r->s[0]) && same_type(r->s[0], r->s[1]) && r->ins->dtype == LS_BOOL &&
                   r->ins->lanes == r->s[0]->lanes
               ? NULL
               : "two operands of one type, and a bool result of as many lanes";
}

static const char *rule_SELECT(const rule_args *r) {
    return is_vector(r->ins) && same_type(r->ins, r->s[1]) && same_type(r->ins, r->s[2]) && r->s[0] &&
                   r->s[0]->dtype == LS_BOOL && (r->s[0]->lanes == 1 || r->s[0]->lanes == r->ins->lanes)
               ? NULL
               : "a bool (one, or one a lane) and two values of the result's type";
}

static const char *rule_CAST(const rule_args *r) {
    return is_vector(r->s[0]) && r->ins->lanes == r->s[0]->lanes ? NULL : "as many lanes as its source";
}

static const char *rule_BITCAST(const rule_args *r) {
    return is_vector(r->s[0]) && r->ins->lanes == r->s[0]->lanes && r->ins->dtype != LS_BOOL &&
                   r->s[0]->dtype != LS_BOOL &&
                   ls_dtype_size((ls_dtype)r->ins->dtype) == ls_dtype_size((ls_dtype)r->s[0]->dtype)
               ? NULL
               : "types of one size, not bool, and as many lanes";
}

static const char *rule_SPLAT(const rule_args *r) {
    return is_vector(r->ins) && r->s[0] && r->s[0]->lanes == 1 && r->s[0]->dtype == r->ins->dtype
               ? NULL
               : "a scalar of the result's type";
}

static const char *rule_JOIN(const rule_args *r) {
    return is_vector(r->ins) && same_type(r->s[0], r->s[1]) && r->ins->dtype == r->s[0]->dtype &&
                   r->ins->lanes == 2 * r->s[0]->lanes
               ? NULL
               : "two halves of one type";
}

static const char *rule_EXTRACT(const rule_args *r) {
    return is_vector(r->s[0]) && r->ins->dtype == r->s[0]->dtype && r->ins->lanes == 1 && r->ins->arg >= 0 &&
                   r->ins->arg < r->s[0]->lanes
               ? NULL
               : "a lane that the source has";
}

static const char *rule_INSERT(const rule_args *r) {
    return is_vector(r->ins) && same_type(r->ins, r->s[0]) && r->s[1] && r->s[1]->dtype == r->ins->dtype &&
                   r->s[1]->lanes == 1 && r->ins->arg >= 0 && r->ins->arg < r->ins->lanes
               ? NULL
               : "a vector, a scalar of its type and a lane that it has";
}

static bool is_fragment(const ls_ins *a) {
    int rows, cols;
    if (!a || a->lanes != LS_LANES_FRAG) {
        return false;
    }
    ls_frag_shape(a->flags, &rows, &cols);
    return rows > 0 && cols > 0 && (a->flags >> 3 & 3) <= LS_FRAG_C;
}

static const char *rule_FRAG_FILL(const rule_args *r) {
    return is_fragment(r->ins) && r->s[0] && r->s[0]->lanes == 1 && r->s[0]->dtype == r->ins->dtype
               ? NULL
               : "a fragment and a scalar of its type";
}

static const char *rule_FRAG_LOAD(const rule_args *r) {
    const ls_kmem *m = memory_of(r);
    bool halves = m && m->dtype == LS_U32 && (r->ins->dtype == LS_F16 || r->ins->dtype == LS_BF16);
    return is_fragment(r->ins) && m && (m->access & LS_MEM_READ) && (m->dtype == r->ins->dtype || halves) &&
                   is_index(r->s[0]) && same_type(r->s[0], r->s[1])
               ? NULL
               : "a readable memory of the fragment's type (or words of its halves), an index and a stride";
}

static const char *rule_FRAG_MMA(const rule_args *r) {
    const ls_ins *a = r->s[0], *b = r->s[1], *c = r->s[2];
    if (!is_fragment(a) || !is_fragment(b) || !is_fragment(c) || !same_type(r->ins, c)) {
        return "three fragments, and the result's type that of C";
    }
    bool roles = (a->flags >> 3 & 3) == LS_FRAG_A && (b->flags >> 3 & 3) == LS_FRAG_B &&
                 (c->flags >> 3 & 3) == LS_FRAG_C;
    return roles && a->flags >> 8 == b->flags >> 8 && b->flags >> 8 == c->flags >> 8 && a->dtype == b->dtype
               ? NULL
               : "A, B and C of one shape, A and B of one type";
}

static const char *rule_FRAG_STORE(const rule_args *r) {
    const ls_kmem *m = memory_of(r);
    return is_fragment(r->s[1]) && m && (m->access & LS_MEM_WRITE) && m->dtype == r->s[1]->dtype &&
                   is_index(r->s[0]) && same_type(r->s[0], r->s[2]) && !r->ins->lanes
               ? NULL
               : "a writable memory of the fragment's type, an index and a stride";
}

static const char *rule_PRODUCT(const rule_args *r) {
    const ls_kernel *k = r->kernel;
    if (r->ins->arg < 0 || r->ins->arg >= k->n_products || r->ins->lanes) {
        return "the number of a product of the kernel";
    }
    const ls_kproduct *p = &k->products[r->ins->arg];
    for (int i = 0; i < 2; i++) {
        int32_t mem = p->side[i].mem;
        if (!is_index(r->s[i]) || mem < 0 || mem >= k->n_mems || k->mems[mem].space != LS_MEM_GLOBAL ||
            k->mems[mem].dtype != LS_U32 || !(k->mems[mem].access & LS_MEM_READ)) {
            return "two indices into global memories of words that may be read";
        }
        bool lines = p->side[i].line > 0 && 2 * k->mems[mem].count % p->side[i].line == 0 &&
                     k->mems[mem].count_param < 0;
        if (p->side[i].size < 1 || p->k < 1 || !lines) {
            return "rows, columns, contracted elements, and operands of whole lines";
        }
    }
    bool shared = p->sums >= 0 && p->sums < k->n_mems && k->mems[p->sums].space == LS_MEM_SHARED &&
                  k->mems[p->sums].dtype == LS_F32;
    return shared && (p->type == LS_F16 || p->type == LS_BF16) && p->stride >= p->side[1].size &&
                   (int64_t)p->stride * p->side[0].size <= k->mems[p->sums].count
               ? NULL
               : "f16 or bf16, and a shared memory of f32 that has room for the sums";
}

static const char *(*const rules[LS_K_COUNT])(const rule_args *) = {
#define INS(ID, name, class, rule, sources, doc) [LS_K_##ID] = rule_##rule,
#include "kir/ins.def"
#undef INS
};

ls_status ls_kir_check_types(const ls_kernel *kernel, int32_t at, ls_error *err) {
    const ls_ins *ins = &kernel->body[at];
    if (ins->op >= LS_K_COUNT || ins->dtype >= LS_DTYPE_COUNT) {
        return LS_FAIL(err, LS_ERR_INVALID,
                       "kernel %s: instruction %%%d: no such instruction or type (%d, %d)", kernel->name, at,
                       ins->op, ins->dtype);
    }
    rule_args r = {kernel, ins, {NULL, NULL, NULL}};
    for (int i = 0; i < 3; i++) {
        ls_val src = ins->src[i];
        if (src == LS_VAL_NONE) {
            continue;
        }
        if (src < 0 || src >= at || i >= ls_kops[ins->op].sources) {
            return LS_FAIL(err, LS_ERR_INVALID,
                           "kernel %s: instruction %%%d (%s): source %d is %%%d, which is not before it",
                           kernel->name, at, ls_kops[ins->op].name, i, src);
        }
        r.s[i] = &kernel->body[src];
        if (!r.s[i]->lanes ||
            (r.s[i]->op == LS_K_VAR && (i || (ins->op != LS_K_GET && ins->op != LS_K_SET)))) {
            return LS_FAIL(err, LS_ERR_INVALID,
                           "kernel %s: instruction %%%d (%s): source %%%d (%s) has no value", kernel->name,
                           at, ls_kops[ins->op].name, src, ls_kops[r.s[i]->op].name);
        }
    }
    const char *expected = rules[ins->op](&r);
    if (expected) {
        return LS_FAIL(err, LS_ERR_DTYPE, "kernel %s: instruction %%%d (%s of %s x%d): expected %s",
                       kernel->name, at, ls_kops[ins->op].name, ls_dtype_name((ls_dtype)ins->dtype),
                       ins->lanes, expected);
    }
    return LS_OK;
}
