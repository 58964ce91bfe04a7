/* Kernels as text, for `lockstep inspect`, golden tests and messages. Depends on nothing but the kernel. */
#include "kir/kir.h"
#include "base/half.h"
#include <inttypes.h>
#include <string.h>

static void print_type(ls_text *out, const ls_ins *ins) {
    ls_text_printf(out, " %s", ls_dtype_name((ls_dtype)ins->dtype));
    if (ins->lanes == LS_LANES_FRAG) {
        ls_text_printf(out, " %c<%u,%u,%u>", "abc?"[ins->flags >> 3 & 3], ins -> flags >> 8 & 255,
                       ins -> flags >> 16 & 255, ins -> flags >> 24);
    } else if (ins->lanes > 1) {
        ls_text_printf(out, "x%d", ins->lanes);
    }
}

static void print_const(ls_text *out, const ls_ins *ins) {
    ls_dtype t = (ls_dtype)ins->dtype;
    uint64_t bits = (uint64_t)ins->arg;
    uint32_t low = (uint32_t)bits;
    float f;
    double d;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    if (!ls_dtype_is_float(t)) {
        if (ls_dtype_is_signed_int(t)) {
            ls_text_printf(out, " %" PRId64, ins->arg);
        } else {
            ls_text_printf(out, " %" PRIu64, bits);
        }
        return;
    }
    d = t == LS_F64   ? d
        : t == LS_F32 ? (double)f
        : t == LS_F16 ? (double)ls_f16_to_f32((uint16_t)bits)
                      : (double)ls_bf16_to_f32((uint16_t)bits);
    ls_text_add(out, " ");
    if (d != d) {
        ls_text_printf(out, "nan:0x%" PRIx64, bits);
    } else {
        ls_text_double(out, d);
    }
}

/* What an instruction's arg means, by what the instruction is. */
static void print_arg(ls_text *out, const ls_kernel *k, const ls_ins *ins) {
    ls_kclass kind = ls_kops[ins->op].kind;
    bool memory = kind == LS_KC_MEMORY || ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE;
    if (memory) {
        ls_text_printf(out, " %s", k->mems[ins->arg].name);
    } else if (ins->op == LS_K_CONST) {
        print_const(out, ins);
    } else if (ins->op == LS_K_PRODUCT) {
        const ls_kproduct *p = &k->products[ins->arg];
        ls_text_printf(out, " %s[%d by %d] = %s %d x %" PRId64 " x %d of", k->mems[p->sums].name, p->side[0].size, p->stride,
                       ls_dtype_name(p->type), p->side[0].size, p->k, p->side[1].size);
        for (int i = 0; i < 2; i++) {
            ls_text_printf(out, " %s in lines of %" PRId64 " by %s%s", k->mems[p->side[i].mem].name, p->side[i].line,
                           p->side[i].by_k   ? "k" : i ? "columns" : "rows", i ? "" : ",");
        }
        ls_text_add(out, " from");
    } else if (ins->op == LS_K_PARAM) {
        ls_text_printf(out, " %s", k->params[ins->arg].name);
    } else if (ins->op == LS_K_GROUP_ID || ins->op == LS_K_LOCAL_ID) {
        ls_text_printf(out, ".%c", "xyz"[ins->arg]);
    } else if (ins->op == LS_K_EXTRACT || ins->op == LS_K_INSERT || ins->op == LS_K_SHUFFLE_XOR) {
        ls_text_printf(out, " %" PRId64, ins->arg);
    }
}

static void print_ins(ls_text *out, const ls_kernel *k, ls_val at, int depth) {
    const ls_ins *ins = &k->body[at];
    ls_text_printf(out, "%*s", 2 + 2 * depth, "");
    if (ins->lanes) {
        ls_text_printf(out, "%%%d = ", at);
    }
    ls_text_add(out, ls_kops[ins->op].name);
    if (ins->lanes) {
        print_type(out, ins);
    }
    print_arg(out, k, ins);
    for (int i = 0, first = 1; i < ls_kops[ins->op].sources; i++) {
        if (ins->src[i] != LS_VAL_NONE) {
            ls_text_printf(out, "%s %%%d", first ? "" : ",", ins->src[i]);
            first = 0;
        }
    }
    if (ins->lanes != LS_LANES_FRAG && ins->flags & LS_KF_FAST) {
        ls_text_add(out, " fast");
    }
    if (ins->op == LS_K_LOOP && ins->flags & LS_KF_UNROLL) {
        ls_text_add(out, " unroll");
    }
    if ((ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE) && ins->flags & LS_KF_FRAG_COLS) {
        ls_text_add(out, " by columns");
    }
    ls_text_add(out, "\n");
}

static void print_grid(ls_text *out, const ls_kernel *k) {
    ls_text_printf(out, "  workgroup %d x %d x %d, grid", k->workgroup[0], k->workgroup[1], k->workgroup[2]);
    for (int i = 0; i < 3; i++) {
        const ls_kgrid *g = &k->grid[i];
        ls_text_add(out, i ? " x " : " ");
        if (g->param < 0) {
            ls_text_printf(out, "%" PRId64, g->scale <= 0 ? (int64_t)0 : (g->scale - 1) / g->divisor + 1);
        } else {
            ls_text_printf(out, "ceil(%" PRId64 "*%s/%" PRId64 ")", g->scale, k->params[g->param].name,
                           g->divisor);
        }
    }
    ls_text_printf(out, ", shared %" PRId64 " bytes\n", k->shared_bytes);
}

void ls_kernel_print(ls_text *out, const ls_kernel *k) {
    ls_text_printf(out, "kernel %s\n", k->name);
    print_grid(out, k);
    for (int i = 0; i < k->n_params; i++) {
        const ls_kparam *p = &k->params[i];
        ls_text_printf(out, "  param %s: %s", p->name, ls_dtype_name(p->dtype));
        if (!ls_dtype_is_float(p->dtype)) {
            ls_text_printf(out, " in [%" PRId64 ", %" PRId64 "]", p->lo, p->hi);
        }
        ls_text_add(out, "\n");
    }
    static const char *const access[] = {"none", "read", "write", "read write"};
    for (int i = 0; i < k->n_mems; i++) {
        const ls_kmem *m = &k->mems[i];
        ls_text_printf(out, "  %s %s: %s[%" PRId64, m->space == LS_MEM_SHARED ? "shared" : "global", m->name,
                       ls_dtype_name(m->dtype), m->count);
        if (m->count_param >= 0) {
            ls_text_printf(out, "*%s", k->params[m->count_param].name);
        }
        ls_text_printf(out, "]%s%s\n", m->space == LS_MEM_SHARED ? "" : " ",
                       m->space == LS_MEM_SHARED ? "" : access[m->access & 3]);
    }
    int depth = 0;
    for (ls_val at = 0; at < k->n_body; at++) {
        ls_kop op = (ls_kop)k->body[at].op;
        bool closes = op == LS_K_END_LOOP || op == LS_K_END_IF || op == LS_K_ELSE;
        depth -= closes && depth > 0;
        print_ins(out, k, at, depth);
        depth += op == LS_K_LOOP || op == LS_K_IF || op == LS_K_ELSE;
    }
}

/* ---- docs/kir.md ---- */

static const struct {
    const char *title, *text;
} class_docs[] = {
    [LS_KC_CONTROL] = {"Control", "Blocks and variables. Their order is kept."},
    [LS_KC_LEAF] = {"Leaves", "Values without sources, the same for a thread all through the kernel."},
    [LS_KC_PURE] =
        {"Pure", "Lane by lane from their sources, total: no trap and no undefined case. They may be folded, "
                 "shared, moved and removed."},
    [LS_KC_VECTOR] = {"Lanes", "Pure too; they build and take apart vectors of 2 and 4 lanes."},
    [LS_KC_MEMORY] =
        {"Memory", "Indices count elements of the memory that is named. An access of several lanes needs an "
                   "index that is a multiple of them. Their order is kept."},
    [LS_KC_GROUP] = {"Threads together", "Only where control flow is the same for the whole workgroup."},
    [LS_KC_MATRIX] = {"Fragments",
                      "Tiles that a subgroup holds together: A of m x k, B of k x n, C of m x n; and whole products by a "
                      "workgroup. Uniform control flow only."},
};

static const char intro[] =
    "# The kernel instructions (KIR)\n"
    "\n"
    "Printed by `tools/gen_kir_doc.c` from `src/kir/ins.def`.\n"
    "\n"
    "A kernel body is linear, structured SSA for devices with threads: a list of instructions `{op, dtype, "
    "lanes, flags,\n"
    "src[3], arg}` with a table of memories (global buffers, shared arrays), scalar parameters and a launch "
    "geometry.\n"
    "Instruction number n is the value %n. Blocks are opened by `loop` and `if` and closed by `end_loop` and "
    "`end_if`; a\n"
    "value may be used in the block that defines it and the blocks inside, after its definition. There are "
    "no phis: what\n"
    "changes over iterations or branches is a `var`, read by `get` and written by `set`.\n"
    "\n"
    "A type is one of the library's data types with 1, 2 or 4 lanes, or a fragment. `bool` is a truth value. "
    "Indices are\n"
    "i32, u32 or i64. Constant folding, the interpreter and every device agree on the values below bit for "
    "bit, except\n"
    "for NaNs: an instruction may give any NaN, and `canon` makes it the canonical one before it is stored "
    "or its bits\n"
    "are looked at. The flag `fast` on an instruction takes it out of the contract of arithmetic.\n"
    "\n"
    "What is checked (`src/kir/verify.c`): types; structure; that values are used where they are defined; "
    "that\n"
    "instructions which need all threads stand under uniform control flow; that loops end; and that every "
    "memory index is\n"
    "in bounds, by its predicate, the conditions around it and the ranges of the parameters. What the "
    "interpreter reports\n"
    "besides (`src/kir/interp.c`): two threads on one element between two barriers, two workgroups on one "
    "element, reads of\n"
    "memory that nothing wrote.\n";

void ls_kir_print_doc(ls_text *out) {
    ls_text_add(out, intro);
    for (int kind = 0; kind <= LS_KC_MATRIX; kind++) {
        ls_text_printf(out, "\n## %s\n\n%s\n\n| instruction | sources | meaning |\n|---|---|---|\n",
                       class_docs[kind].title, class_docs[kind].text);
        for (int op = 0; op < LS_K_COUNT; op++) {
            if ((int)ls_kops[op].kind == kind) {
                ls_text_printf(out, "| `%s` | %d | %s |\n", ls_kops[op].name, ls_kops[op].sources,
                               ls_kops[op].doc);
            }
        }
    }
}
