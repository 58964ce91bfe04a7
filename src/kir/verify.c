/* The verifier. A body that passes has well-formed blocks, values used only where they are defined, types by the rules,
 * instructions that need all threads only under uniform control, loops that end, and every memory index in bounds by its
 * predicate, the conditions around it and the ranges of the parameters. */
#include "kir/kir.h"
#include "kir/range.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct frame {
    ls_val opener; /* LOOP, IF or ELSE; LS_VAL_NONE for the body */
    int32_t block, facts;
    bool uniform; /* all threads of the workgroup are here together */
} frame;

enum { FRAMES_MAX = 65 };

typedef struct verifier {
    ls_heap *heap;
    const ls_kernel *k;
    ls_error *err;
    int32_t *block_of; /* by instruction: the block it is in */
    bool *block_open;  /* by block */
    bool *uniform;     /* by value: the same in all threads of a workgroup; of VAR: of what it holds */
    bool *written;     /* by memory: stored to in this kernel */
    ls_ranges *ranges;
    frame frames[FRAMES_MAX];
    int depth;
    int32_t n_blocks;
} verifier;

#define FAIL_AT(v, code, at, ...) fail_at((v), (code), (at), LS_LINE, __VA_ARGS__)

static ls_status fail_at(verifier *v, ls_status code, ls_val at, int line, const char *fmt, ...)
    LS_PRINTF(5, 6);

static ls_status fail_at(verifier *v, ls_status code, ls_val at, int line, const char *fmt, ...) {
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ls_error_set(v->err, code, LS_FILE, line, "kernel %s: instruction %%%d (%s): %s", v->k->name, at,
                        ls_kops[v->k->body[at].op].name, text);
}

static ls_status check_declarations(verifier *v) {
    const ls_kernel *k = v->k;
    for (int i = 0; i < 3; i++) {
        const ls_kgrid *g = &k->grid[i];
        if (k->workgroup[i] < 1 || g->divisor < 1 || g->scale < 0 || g->param >= k->n_params) {
            return LS_FAIL(v->err, LS_ERR_INVALID, "kernel %s: workgroup or grid on axis %d is out of range",
                           k->name, i);
        }
    }
    for (int i = 0; i < k->n_mems; i++) {
        const ls_kmem *m = &k->mems[i];
        if (m->count < 0 || m->count_param >= k->n_params || (unsigned)m->dtype >= LS_DTYPE_COUNT ||
            (m->space == LS_MEM_SHARED && m->count_param >= 0)) {
            return LS_FAIL(v->err, LS_ERR_INVALID, "kernel %s: memory %s: its count or type is out of range",
                           k->name, m->name);
        }
    }
    return LS_OK;
}

/* ---- structure and dominance ---- */

static ls_status block_enter(verifier *v, ls_val at) {
    if (v->depth + 1 >= FRAMES_MAX) {
        return FAIL_AT(v, LS_ERR_INVALID, at, "blocks are nested more than %d deep", FRAMES_MAX - 2);
    }
    v->frames[++v->depth] = (frame){at, ++v->n_blocks, 0, false};
    v->block_open[v->n_blocks] = true;
    return LS_OK;
}

static ls_status block_leave(verifier *v, ls_val at, ls_kop opener, ls_kop other) {
    ls_val open = v->frames[v->depth].opener;
    ls_kop op = open == LS_VAL_NONE ? LS_K_COUNT : (ls_kop)v->k->body[open].op;
    if (op != opener && op != other) {
        return FAIL_AT(v, LS_ERR_INVALID, at, "closes %s",
                       open == LS_VAL_NONE ? "nothing" : ls_kops[op].name);
    }
    v->block_open[v->frames[v->depth].block] = false;
    v->depth--;
    return LS_OK;
}

static ls_status check_structure(verifier *v) {
    const ls_kernel *k = v->k;
    v->frames[0] = (frame){LS_VAL_NONE, 0, 0, true};
    v->block_open[0] = true;
    for (ls_val at = 0; at < k->n_body; at++) {
        const ls_ins *ins = &k->body[at];
        LS_TRY(v->err, ls_kir_check_types(k, at, v->err));
        for (int i = 0; i < ls_kops[ins->op].sources; i++) {
            if (ins->src[i] >= 0 && !v->block_open[v->block_of[ins->src[i]]]) {
                return FAIL_AT(v, LS_ERR_INVALID, at, "source %%%d is defined in a block that is closed",
                               ins->src[i]);
            }
        }
        if (ins->op == LS_K_END_LOOP) {
            LS_TRY(v->err, block_leave(v, at, LS_K_LOOP, LS_K_LOOP));
        } else if (ins->op == LS_K_ELSE) {
            LS_TRY(v->err, block_leave(v, at, LS_K_IF, LS_K_IF));
        } else if (ins->op == LS_K_END_IF) {
            LS_TRY(v->err, block_leave(v, at, LS_K_IF, LS_K_ELSE));
        }
        if (ins->op == LS_K_LOOP || ins->op == LS_K_IF || ins->op == LS_K_ELSE) {
            LS_TRY(v->err, block_enter(v, at));
        }
        v->block_of[at] = v->frames[v->depth].block; /* a loop's index is of its own block */
        if (ls_kops[ins->op].kind == LS_KC_MEMORY || ins->op == LS_K_FRAG_STORE) {
            v->written[ins->arg] |= ins->op != LS_K_LOAD;
        }
    }
    if (v->depth) {
        return FAIL_AT(v, LS_ERR_INVALID, v->frames[v->depth].opener, "is never closed");
    }
    return LS_OK;
}

/* ---- uniformity: a greatest fixpoint, because variables feed back ---- */

static bool sources_uniform(const verifier *v, const ls_ins *ins) {
    for (int i = 0; i < ls_kops[ins->op].sources; i++) {
        if (ins->src[i] >= 0 && !v->uniform[ins->src[i]]) {
            return false;
        }
    }
    return true;
}

static bool value_uniform(const verifier *v, const ls_ins *ins, bool here) {
    bool same = sources_uniform(v, ins);
    ls_kclass kind = ls_kops[ins->op].kind;
    if (kind == LS_KC_LEAF) {
        bool own = ins->op == LS_K_SUBGROUP_ID || ins->op == LS_K_LANE_ID ||
                   (ins->op == LS_K_LOCAL_ID && v->k->workgroup[ins->arg] > 1);
        return !own || ls_kernel_threads(v->k) == 1;
    }
    if (kind == LS_KC_PURE || kind == LS_KC_VECTOR || kind == LS_KC_CONTROL) {
        return same;
    }
    if (ins->op == LS_K_LOAD) { /* what nobody writes, all read alike */
        return same && v->k->mems[ins->arg].space == LS_MEM_GLOBAL && !v->written[ins->arg];
    }
    return kind == LS_KC_MATRIX && same && here;
}

/* One pass; true when something was found to differ between threads that was not before. */
static bool uniformity_pass(verifier *v) {
    const ls_kernel *k = v->k;
    bool changed = false, here[FRAMES_MAX] = {true};
    int depth = 0;
    for (ls_val at = 0; at < k->n_body; at++) {
        const ls_ins *ins = &k->body[at];
        if (ins->op == LS_K_END_LOOP || ins->op == LS_K_END_IF) {
            depth--;
        }
        bool same = value_uniform(v, ins, here[depth]);
        if (v->uniform[at] && !same) {
            v->uniform[at] = false;
            changed = true;
        }
        if (ins->op == LS_K_SET && v->uniform[ins->src[0]] && !(v->uniform[ins->src[1]] && here[depth])) {
            v->uniform[ins->src[0]] = false;
            changed = true;
        }
        if (ins->op == LS_K_LOOP || ins->op == LS_K_IF) {
            here[depth + 1] = here[depth] && v->uniform[at];
            depth++;
        } /* ELSE: as its IF */
    }
    return changed;
}

static ls_status check_uniformity(verifier *v) {
    const ls_kernel *k = v->k;
    memset(v->uniform, true, (size_t)k->n_body);
    while (uniformity_pass(v)) {
    }
    bool here[FRAMES_MAX] = {true};
    ls_val opener[FRAMES_MAX] = {LS_VAL_NONE};
    int depth = 0;
    for (ls_val at = 0; at < k->n_body; at++) {
        const ls_ins *ins = &k->body[at];
        ls_kclass kind = ls_kops[ins->op].kind;
        if (ins->op == LS_K_END_LOOP || ins->op == LS_K_END_IF) {
            depth--;
        }
        if ((kind == LS_KC_GROUP || kind == LS_KC_MATRIX) && !here[depth]) {
            return FAIL_AT(v, LS_ERR_INVALID, at, "not all threads reach it: %%%d (%s) depends on the thread",
                           opener[depth], ls_kops[k->body[opener[depth]].op].name);
        }
        if (ins->op == LS_K_PRODUCT && !(v->uniform[ins->src[0]] && v->uniform[ins->src[1]])) {
            return FAIL_AT(v, LS_ERR_INVALID, at, "where its operands begin depends on the thread");
        }
        if (ins->op == LS_K_LOOP || ins->op == LS_K_IF) {
            here[depth + 1] = here[depth] && v->uniform[at];
            opener[depth + 1] = v->uniform[at] ? opener[depth] : at;
            depth++;
        }
    }
    return LS_OK;
}

/* ---- bounds ---- */

static long long clamp(ls_wide v) {
    return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : (long long)v;
}

static ls_status check_index(verifier *v, ls_val at, int64_t mem, ls_val index, ls_wide first, ls_wide last) {
    const ls_kmem *m = &v->k->mems[mem];
    if (first > last) {
        return LS_OK; /* the facts contradict each other: never reached */
    }
    ls_wide count = m->count;
    if (m->count_param >= 0) {
        count *= v->k->params[m->count_param].lo;
        if (first >= 0 && ls_ranges_below(v->ranges, index, m->count, m->count_param)) {
            return LS_OK;
        }
    }
    if ((first < 0 || last >= count) && ls_ranges_failed(v->ranges)) {
        return LS_FAIL_MEMORY(v->err, "the facts of a verifier");
    }
    if (first < 0 || last >= count) {
        return FAIL_AT(
            v, LS_ERR_INVALID, at,
            "index %%%d is not proved in bounds: it reaches [%lld, %lld], and %s has %lld elements", index,
            clamp(first), clamp(last), m->name, clamp(count));
    }
    return LS_OK;
}

static ls_status check_access(verifier *v, ls_val at) {
    const ls_ins *ins = &v->k->body[at];
    ls_val pred = ins->op == LS_K_LOAD ? ins->src[1] : ins->src[2];
    int lanes = ins->op == LS_K_STORE ? v->k->body[ins->src[1]].lanes : ins->lanes;
    int32_t mark = ls_ranges_mark(v->ranges);
    if (pred >= 0 && !ls_ranges_assume(v->ranges, pred, true)) {
        return LS_FAIL_MEMORY(v->err, "the facts of a verifier");
    }
    ls_range index = ls_ranges_of(v->ranges, ins->src[0]);
    ls_status status =
        check_index(v, at, ins->arg, ins->src[0], index.lo, index.hi + (lanes - 1) * (index.lo <= index.hi));
    if (status == LS_OK && lanes > 1 && index.lo <= index.hi && index.divisor % lanes) {
        status = FAIL_AT(v, LS_ERR_INVALID, at, "index %%%d is not proved a multiple of the %d lanes",
                         ins->src[0], lanes);
    }
    ls_ranges_pop(v->ranges, mark);
    return status;
}

static ls_status check_fragment_access(verifier *v, ls_val at) {
    const ls_ins *ins = &v->k->body[at];
    bool store = ins->op == LS_K_FRAG_STORE;
    int rows, cols;
    ls_frag_shape(store ? v->k->body[ins->src[1]].flags : ins->flags, &rows, &cols);
    ls_range index = ls_ranges_of(v->ranges, ins->src[0]);
    ls_range stride = ls_ranges_of(v->ranges, ins->src[store ? 2 : 1]);
    int runs = ins->flags & LS_KF_FRAG_COLS ? cols : rows, run = ins->flags & LS_KF_FRAG_COLS ? rows : cols;
    if (index.lo > index.hi || stride.lo > stride.hi) {
        return LS_OK;
    }
    ls_wide low = stride.lo < 0 ? stride.lo * (runs - 1) : 0,
            high = stride.hi > 0 ? stride.hi * (runs - 1) : 0;
    ls_wide first = index.lo + low, last = index.hi + high + run - 1;
    bool words = ls_dtype_size(v->k->mems[ins->arg].dtype) > ls_dtype_size((ls_dtype)ins->dtype) && !store;
    return check_index(v, at, ins->arg, ins->src[0], words && first >= 0 ? first / 2 : first,
                       words && last >= 0 ? last / 2 : last);
}

static ls_status check_product(verifier *v, ls_val at) {
    const ls_ins *ins = &v->k->body[at];
    const ls_kproduct *p = &v->k->products[ins->arg];
    for (int i = 0; i < 2; i++) { /* what lies past the end is not read */
        ls_range first = ls_ranges_of(v->ranges, ins->src[i]);
        if (first.lo <= first.hi) {
            LS_TRY(v->err,
                   check_index(v, at, p->side[i].mem, ins->src[i], first.lo < 0 ? first.lo : first.lo / 2,
                               first.hi < 0 ? first.hi : first.hi / 2));
        }
    }
    return LS_OK;
}

static ls_status check_loop(verifier *v, ls_val at) {
    const ls_ins *ins = &v->k->body[at];
    ls_range hi = ls_ranges_of(v->ranges, ins->src[1]), step = ls_ranges_of(v->ranges, ins->src[2]);
    ls_wide most = ins->dtype == LS_I32 ? INT32_MAX : ins->dtype == LS_U32 ? UINT32_MAX : INT64_MAX;
    if (step.lo < 1) {
        return FAIL_AT(v, LS_ERR_INVALID, at, "step %%%d is not proved positive", ins->src[2]);
    }
    return hi.hi + step.hi - 1 > most
               ? FAIL_AT(v, LS_ERR_INVALID, at, "the index may wrap: the end reaches %lld and the step %lld",
                         clamp(hi.hi), clamp(step.hi))
               : LS_OK;
}

static ls_status check_bounds(verifier *v) {
    const ls_kernel *k = v->k;
    int32_t marks[FRAMES_MAX];
    ls_val opener[FRAMES_MAX];
    int depth = 0;
    for (ls_val at = 0; at < k->n_body; at++) {
        const ls_ins *ins = &k->body[at];
        bool assumed = true;
        if (ls_kops[ins->op].kind == LS_KC_MEMORY) {
            LS_TRY(v->err, check_access(v, at));
        } else if (ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE) {
            LS_TRY(v->err, check_fragment_access(v, at));
        } else if (ins->op == LS_K_PRODUCT) {
            LS_TRY(v->err, check_product(v, at));
        } else if (ins->op == LS_K_LOOP || ins->op == LS_K_IF) {
            if (ins->op == LS_K_LOOP) {
                LS_TRY(v->err, check_loop(v, at));
            }
            opener[depth] = at;
            marks[depth++] = ls_ranges_mark(v->ranges);
            assumed = ins->op == LS_K_LOOP || ls_ranges_assume(v->ranges, ins->src[0], true);
        } else if (ins->op == LS_K_ELSE) {
            ls_ranges_pop(v->ranges, marks[depth - 1]);
            assumed = ls_ranges_assume(v->ranges, k->body[opener[depth - 1]].src[0], false);
        } else if (ins->op == LS_K_END_IF || ins->op == LS_K_END_LOOP) {
            ls_ranges_pop(v->ranges, marks[--depth]);
        }
        if (!assumed) {
            return LS_FAIL_MEMORY(v->err, "the facts of a verifier");
        }
    }
    return LS_OK;
}

ls_status ls_kernel_verify(ls_heap *heap, const ls_kernel *kernel, ls_error *err) {
    size_t n = (size_t)kernel->n_body + 1;
    verifier v = {.heap = heap, .k = kernel, .err = err};
    v.block_of = ls_alloc(heap, n * sizeof *v.block_of);
    v.block_open = ls_alloc_zeroed(heap, (n + 1) * sizeof *v.block_open);
    v.uniform = ls_alloc(heap, n * sizeof *v.uniform);
    v.written = ls_alloc_zeroed(heap, (size_t)kernel->n_mems + 1);
    ls_status status = !v.block_of || !v.block_open || !v.uniform || !v.written
                           ? LS_FAIL_MEMORY(err, "a verifier")
                           : check_declarations(&v);
    if (status == LS_OK) {
        status = check_structure(&v);
    }
    if (status == LS_OK) {
        status = check_uniformity(&v);
    }
    if (status == LS_OK) {
        v.ranges = ls_ranges_create(heap, kernel);
        status = v.ranges ? check_bounds(&v) : LS_FAIL_MEMORY(err, "a verifier");
    }
    ls_ranges_destroy(v.ranges);
    ls_free(heap, v.block_of);
    ls_free(heap, v.block_open);
    ls_free(heap, v.uniform);
    ls_free(heap, v.written);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}
