/* Legal kernels as WGSL text.
 *
 * Every value is a `let` (v7 is %7), so a value is run-time to the language even where its sources are constants; constants are
 * written in place, but not where all sources of an instruction are constants: WGSL evaluates such expressions itself and
 * calls an overflow, a NaN or an infinity an error. Floats that no literal can say (NaN, infinity, -0, subnormals) are
 * bitcasts of a named word for the same reason.
 *
 * A load whose predicate fails reads a place in the same binding (the language clamps indices) and the value is dropped:
 * nothing outside the bounds is touched, and no branch is needed. */
#include "render/render.h"
#include <inttypes.h>
#include <string.h>

/* How a memory is declared: elements of one lane or of 2 or 4, atomic or not. */
typedef struct form {
    int lanes; /* 0: no instruction uses it */
    bool atomic;
} form;

typedef struct wgsl {
    ls_text *out;
    const ls_kernel *k;
    const ls_wgsl_options *options;
    ls_error *err;
    form *forms; /* by memory */
    bool *named; /* by instruction: a constant that needs a name */
    int depth;
    bool subgroups;
} wgsl;

static bool is_atomic(int op) {
    return op == LS_K_ATOMIC_ADD || op == LS_K_ATOMIC_MIN || op == LS_K_ATOMIC_MAX || op == LS_K_ATOMIC_OR;
}

static void find_forms(wgsl *w) {
    const ls_kernel *k = w->k;
    for (int32_t at = 0; at < k->n_body; at++) {
        const ls_ins *ins = &k->body[at];
        if (ls_kops[ins->op].kind == LS_KC_MEMORY) {
            form *f = &w->forms[ins->arg];
            int lanes = ins->op == LS_K_STORE ? k->body[ins->src[1]].lanes : ins->lanes;
            f->atomic |= is_atomic(ins->op);
            f->lanes = f->lanes && f->lanes != lanes ? 1 : lanes;
        }
    }
    for (int m = 0; m < k->n_mems; m++) {
        form *f = &w->forms[m];
        if (f->lanes && (f->atomic || (k->mems[m].space == LS_MEM_SHARED && k->mems[m].count % f->lanes))) {
            f->lanes = 1;
        }
    }
}

/* ---- types and operands ---- */

static const char *scalar_name(ls_dtype t) {
    return t == LS_I32 ? "i32" : t == LS_U32 ? "u32" : t == LS_F32 ? "f32" : t == LS_BOOL ? "bool" : NULL;
}

static void add_type(wgsl *w, ls_dtype t, int lanes) {
    if (lanes == 1) {
        ls_text_add(w->out, scalar_name(t));
    } else {
        ls_text_printf(w->out, "vec%d<%s>", lanes, scalar_name(t));
    }
}

/* Exactly, by a literal: a float that is normal or +0. */
static bool has_literal(const ls_ins *c) {
    uint32_t bits = (uint32_t)c->arg, exponent = bits >> 23 & 255;
    return c->dtype != LS_F32 || bits == 0 || (exponent != 0 && exponent != 255);
}

static void add_literal(wgsl *w, const ls_ins *c) {
    if (c->lanes > 1) {
        add_type(w, (ls_dtype)c->dtype, c->lanes);
        ls_text_add(w->out, "(");
    }
    if (c->dtype == LS_BOOL) {
        ls_text_add(w->out, c->arg ? "true" : "false");
    } else if (c->dtype == LS_F32) {
        uint32_t bits = (uint32_t)c->arg;
        float f;
        memcpy(&f, &bits, sizeof f);
        if (f < 0) {
            ls_text_add(w->out, "(");
        }
        ls_text_double(w->out, (double)f);
        ls_text_add(w->out, f < 0 ? "f)" : "f");
    } else if (c->dtype == LS_U32) {
        ls_text_printf(w->out, "%" PRIu32 "u", (uint32_t)c->arg);
    } else if (c->arg == INT32_MIN) {
        ls_text_add(w->out, "i32(-2147483648)");
    } else {
        ls_text_printf(w->out, c->arg < 0 ? "(%" PRId32 "i)" : "%" PRId32 "i", (int32_t)c->arg);
    }
    if (c->lanes > 1) {
        ls_text_add(w->out, ")");
    }
}

/* Constants that need a name: those that no literal says, and those of instructions of nothing but constants. */
static void find_named(wgsl *w) {
    const ls_kernel *k = w->k;
    for (int32_t at = 0; at < k->n_body; at++) {
        const ls_ins *ins = &k->body[at];
        bool all = ls_kops[ins->op].kind == LS_KC_PURE;
        for (int i = 0; i < ls_kops[ins->op].sources; i++) {
            all = all && (ins->src[i] < 0 || k->body[ins->src[i]].op == LS_K_CONST);
        }
        for (int i = 0; i < ls_kops[ins->op].sources && all; i++) {
            if (ins->src[i] >= 0) {
                w->named[ins->src[i]] = true;
            }
        }
        if (ins->op == LS_K_CONST) {
            w->named[at] = !has_literal(ins);
        }
    }
}

static void add_operand(wgsl *w, ls_val src) {
    const ls_ins *s = &w->k->body[src];
    if (s->op == LS_K_CONST && !w->named[src]) {
        add_literal(w, s);
    } else {
        ls_text_printf(w->out, "v%d", src);
    }
}

static void indent(wgsl *w) {
    ls_text_printf(w->out, "%*s", 4 * w->depth, "");
}

static void begin_let(wgsl *w, ls_val at) {
    indent(w);
    ls_text_printf(w->out, "let v%d = ", at);
}

/* A pattern: $0 to $2 are operands, $T the result's type; $I, $U and $F types of as many lanes, $L their number. */
static void add_pattern(wgsl *w, const ls_ins *ins, const char *pattern) {
    for (const char *p = pattern; *p; p++) {
        if (*p != '$') {
            ls_text_add_n(w->out, p, 1);
        } else if (*++p == 'T') {
            add_type(w, (ls_dtype)ins->dtype, ins->lanes);
        } else if (*p == 'I' || *p == 'U' || *p == 'F') {
            add_type(w, *p == 'I' ? LS_I32 : *p == 'U' ? LS_U32 : LS_F32, ins->lanes);
        } else if (*p == 'L') {
            ls_text_printf(w->out, "%d", ins->lanes);
        } else {
            add_operand(w, ins->src[*p - '0']);
        }
    }
}

/* ---- instructions that are one expression: by the type of the first operand (select: of the result) ---- */

typedef struct expression {
    const char *i, *u, *f, *b; /* i32, u32, f32, bool; NULL: not legal */
    const char *fast;          /* f32 with LS_KF_FAST, where that differs */
} expression;

#define ALL(p) {p, p, p, p, NULL}
#define NUMBERS(p) {p, p, p, NULL, NULL}
#define INTEGERS(p) {p, p, NULL, NULL, NULL}
#define FLOATS(p) {NULL, NULL, p, NULL, NULL}

static const expression expressions[LS_K_COUNT] = {
    [LS_K_ADD] = NUMBERS("$0 + $1"),
    [LS_K_SUB] = NUMBERS("$0 - $1"),
    [LS_K_MUL] = NUMBERS("$0 * $1"),
    [LS_K_FMA] = FLOATS("fma($0, $1, $2)"),
    [LS_K_DIV] = NUMBERS("$0 / $1"),
    [LS_K_REM] = INTEGERS("$0 % $1"),
    [LS_K_NEG] = {"-$0", "$T() - $0", "-$0", NULL, NULL},
    [LS_K_ABS] = NUMBERS("abs($0)"),
    [LS_K_MIN] = {"min($0, $1)", "min($0, $1)", "least$L($0, $1)", NULL, "min($0, $1)"},
    [LS_K_MAX] = {"max($0, $1)", "max($0, $1)", "most$L($0, $1)", NULL, "max($0, $1)"},
    [LS_K_CANON] = FLOATS("canon$L($0)"),
    [LS_K_SQRT] = FLOATS("sqrt($0)"),
    [LS_K_FLOOR] = FLOATS("floor($0)"),
    [LS_K_CEIL] = FLOATS("ceil($0)"),
    [LS_K_TRUNC] = FLOATS("trunc($0)"),
    [LS_K_RINT] = FLOATS("round($0)"),
    [LS_K_UMULHI] = {NULL, "umulhi$L($0, $1)", NULL, NULL, NULL},
    [LS_K_POPCOUNT] = INTEGERS("countOneBits($0)"),
    [LS_K_AND] = {"$0 & $1", "$0 & $1", NULL, "$0 & $1", NULL},
    [LS_K_OR] = {"$0 | $1", "$0 | $1", NULL, "$0 | $1", NULL},
    [LS_K_XOR] = {"$0 ^ $1", "$0 ^ $1", NULL, "$0 != $1", NULL},
    [LS_K_NOT] = {"~$0", "~$0", NULL, "!$0", NULL},
    [LS_K_SHL] = {"$0 << $U($1)", "$0 << $1", NULL, NULL, NULL},
    [LS_K_SHR] = {"$0 >> $U($1)", "$0 >> $1", NULL, NULL, NULL},
    [LS_K_EQ] = ALL("$0 == $1"),
    [LS_K_NE] = ALL("$0 != $1"),
    [LS_K_LT] = {"$0 < $1", "$0 < $1", "$0 < $1", "!$0 & $1", NULL},
    [LS_K_LE] = {"$0 <= $1", "$0 <= $1", "$0 <= $1", "!$0 | $1", NULL},
    [LS_K_SELECT] = ALL("select($2, $1, $0)"),
    [LS_K_CAST] = ALL("$T($0)"),
    [LS_K_BITCAST] = NUMBERS("bitcast<$T>($0)"),
    [LS_K_SPLAT] = ALL("$T($0)"),
    [LS_K_JOIN] = ALL("$T($0, $1)"),
    [LS_K_SHUFFLE] = NUMBERS("subgroupShuffle($0, u32($1))"),
    [LS_K_SUBGROUP_ADD] = NUMBERS("subgroupAdd($0)"),
    [LS_K_SUBGROUP_MIN] = {"subgroupMin($0)", "subgroupMin($0)", NULL, NULL, "subgroupMin($0)"},
    [LS_K_SUBGROUP_MAX] = {"subgroupMax($0)", "subgroupMax($0)", NULL, NULL, "subgroupMax($0)"},
    [LS_K_GROUP_ID] = {"i32(group", NULL, NULL, NULL, NULL},
    [LS_K_LOCAL_ID] = {"i32(local", NULL, NULL, NULL, NULL},
};

static const char *pattern_of(const wgsl *w, const ls_ins *ins) {
    const expression *e = &expressions[ins->op];
    const ls_ins *by = ins->src[0] >= 0 && ins->op != LS_K_SELECT ? &w->k->body[ins->src[0]] : ins;
    if (by->dtype == LS_F32 && ins->flags & LS_KF_FAST && e->fast) {
        return e->fast;
    }
    return by->dtype == LS_I32 ? e->i : by->dtype == LS_U32 ? e->u : by->dtype == LS_F32 ? e->f : by->dtype == LS_BOOL ? e->b : NULL;
}

static ls_status refuse(wgsl *w, ls_val at, const char *why) {
    const ls_ins *ins = &w->k->body[at];
    return LS_FAIL(w->err, LS_ERR_UNSUPPORTED, "kernel %s: instruction %%%d (%s of %s) in WGSL: %s", w->k->name, at,
                   ls_kops[ins->op].name, ls_dtype_name((ls_dtype)ins->dtype), why);
}

/* ---- leaves ---- */

static void put_const(wgsl *w, ls_val at) {
    const ls_ins *c = &w->k->body[at];
    if (!has_literal(c)) {
        indent(w);
        ls_text_printf(w->out, "let b%d = %" PRIu32 "u;\n", at, (uint32_t)c->arg);
        begin_let(w, at);
        if (c->lanes > 1) {
            add_type(w, LS_F32, c->lanes);
            ls_text_printf(w->out, "(bitcast<f32>(b%d));\n", at);
        } else {
            ls_text_printf(w->out, "bitcast<f32>(b%d);\n", at);
        }
        return;
    }
    begin_let(w, at);
    add_literal(w, c);
    ls_text_add(w->out, ";\n");
}

static void put_param(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    int32_t word = ls_render_word(w->k, (int)ins->arg);
    begin_let(w, at);
    const char *form = ins->dtype == LS_U32    ? "params[%d].%c;\n"
                       : ins->dtype == LS_BOOL ? "params[%d].%c != 0u;\n"
                       : ins->dtype == LS_I32  ? "bitcast<i32>(params[%d].%c);\n"
                                               : "bitcast<f32>(params[%d].%c);\n";
    ls_text_printf(w->out, form, word / 4, "xyzw"[word % 4]);
}

/* ---- memory ---- */

/* The element that lane `lane` of an access begins at, as the memory is declared. */
static void add_place(wgsl *w, const ls_ins *ins, form f, int lane) {
    ls_text_printf(w->out, "m%d[", (int)ins->arg);
    add_operand(w, ins->src[0]);
    if (f.lanes > 1) {
        ls_text_printf(w->out, " / %d%c", f.lanes, w->k->body[ins->src[0]].dtype == LS_I32 ? 'i' : 'u');
    } else if (lane) {
        ls_text_printf(w->out, " + %d%c", lane, w->k->body[ins->src[0]].dtype == LS_I32 ? 'i' : 'u');
    }
    ls_text_add(w->out, "]");
}

static void add_read(wgsl *w, const ls_ins *ins, form f, int lane) {
    ls_text_add(w->out, f.atomic ? "atomicLoad(&" : "");
    add_place(w, ins, f, lane);
    ls_text_add(w->out, f.atomic ? ")" : "");
}

static void put_load(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    form f = w->forms[ins->arg];
    begin_let(w, at);
    if (ins->src[1] >= 0) {
        ls_text_add(w->out, "select(");
        add_operand(w, ins->src[2]);
        ls_text_add(w->out, ", ");
    }
    if (ins->lanes == f.lanes) {
        add_read(w, ins, f, 0);
    } else {
        add_type(w, (ls_dtype)ins->dtype, ins->lanes);
        for (int lane = 0; lane < ins->lanes; lane++) {
            ls_text_add(w->out, lane ? ", " : "(");
            add_read(w, ins, f, lane);
        }
        ls_text_add(w->out, ")");
    }
    if (ins->src[1] >= 0) {
        ls_text_add(w->out, ", ");
        add_operand(w, ins->src[1]);
        ls_text_add(w->out, ")");
    }
    ls_text_add(w->out, ";\n");
}

static void begin_predicate(wgsl *w, const ls_ins *ins) {
    if (ins->src[2] >= 0) {
        indent(w);
        ls_text_add(w->out, "if (");
        add_operand(w, ins->src[2]);
        ls_text_add(w->out, ") {\n");
        w->depth++;
    }
}

static void end_predicate(wgsl *w, const ls_ins *ins) {
    if (ins->src[2] >= 0) {
        w->depth--;
        indent(w);
        ls_text_add(w->out, "}\n");
    }
}

static void put_store(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    form f = w->forms[ins->arg];
    int lanes = w->k->body[ins->src[1]].lanes;
    begin_predicate(w, ins);
    for (int lane = 0; lane < (f.lanes > 1 ? 1 : lanes); lane++) {
        indent(w);
        ls_text_add(w->out, f.atomic ? "atomicStore(&" : "");
        add_place(w, ins, f, lane);
        ls_text_add(w->out, f.atomic ? ", " : " = ");
        add_operand(w, ins->src[1]);
        if (f.lanes == 1 && lanes > 1) {
            ls_text_printf(w->out, ".%c", "xyzw"[lane]);
        }
        ls_text_add(w->out, f.atomic ? ");\n" : ";\n");
    }
    end_predicate(w, ins);
}

static void put_atomic(wgsl *w, ls_val at) {
    static const char *const names[] = {"Add", "Min", "Max", "Or"};
    const ls_ins *ins = &w->k->body[at];
    form f = w->forms[ins->arg];
    indent(w);
    ls_text_printf(w->out, "var v%d = %s();\n", at, scalar_name((ls_dtype)ins->dtype));
    begin_predicate(w, ins);
    indent(w);
    ls_text_printf(w->out, "v%d = atomic%s(&", at, names[ins->op - LS_K_ATOMIC_ADD]);
    add_place(w, ins, f, 0);
    ls_text_add(w->out, ", ");
    add_operand(w, ins->src[1]);
    ls_text_add(w->out, ");\n");
    end_predicate(w, ins);
}

/* ---- control ---- */

static void open_block(wgsl *w, const char *text) {
    ls_text_add(w->out, text);
    w->depth++;
}

static void put_control(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    bool closes = ins->op == LS_K_END_LOOP || ins->op == LS_K_END_IF || ins->op == LS_K_ELSE;
    w->depth -= closes;
    indent(w);
    switch (ins->op) {
    case LS_K_LOOP:
        ls_text_printf(w->out, "for (var v%d = ", at);
        add_pattern(w, ins, "$0");
        ls_text_printf(w->out, "; v%d < ", at);
        add_pattern(w, ins, "$1");
        ls_text_printf(w->out, "; v%d += ", at);
        add_pattern(w, ins, "$2");
        open_block(w, ") {\n");
        break;
    case LS_K_IF:
        add_pattern(w, ins, "if ($0");
        open_block(w, ") {\n");
        break;
    case LS_K_ELSE:
        open_block(w, "} else {\n");
        break;
    case LS_K_VAR:
        ls_text_printf(w->out, "var v%d = ", at);
        add_pattern(w, ins, "$0;\n");
        break;
    case LS_K_GET:
        ls_text_printf(w->out, "let v%d = v%d;\n", at, ins->src[0]);
        break;
    case LS_K_SET:
        ls_text_printf(w->out, "v%d = ", ins->src[0]);
        add_pattern(w, ins, "$1;\n");
        break;
    default:
        ls_text_add(w->out, "}\n");
    }
}

/* ---- lanes ---- */

static void put_insert(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    begin_let(w, at);
    add_type(w, (ls_dtype)ins->dtype, ins->lanes);
    for (int lane = 0; lane < ins->lanes; lane++) {
        ls_text_add(w->out, lane ? ", " : "(");
        add_operand(w, ins->src[lane == ins->arg]);
        if (lane != ins->arg && ins->lanes > 1) {
            ls_text_printf(w->out, ".%c", "xyzw"[lane]);
        }
    }
    ls_text_add(w->out, ");\n");
}

static ls_status put_pure(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    const char *pattern = pattern_of(w, ins);
    if (!pattern) {
        return refuse(w, at, "no such operation");
    }
    bool turns = ins->op == LS_K_CAST && ins->dtype == w->k->body[ins->src[0]].dtype;
    begin_let(w, at);
    add_pattern(w, ins, turns ? "$0" : pattern);
    ls_text_add(w->out, ";\n");
    return LS_OK;
}

static ls_status put_group(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    if (ins->op == LS_K_BARRIER) {
        indent(w);
        ls_text_add(w->out, "storageBarrier();\n");
        indent(w);
        ls_text_add(w->out, "workgroupBarrier();\n");
        return LS_OK;
    }
    if (!w->options->subgroups) {
        return refuse(w, at, "the device was opened without subgroups");
    }
    if (ins->op != LS_K_SHUFFLE_XOR) {
        return put_pure(w, at);
    }
    begin_let(w, at);
    add_pattern(w, ins, "subgroupShuffleXor($0, ");
    ls_text_printf(w->out, "%du);\n", (int)ins->arg);
    return LS_OK;
}

static ls_status put_leaf(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    switch (ins->op) {
    case LS_K_CONST:
        if (w->named[at]) {
            put_const(w, at);
        }
        return LS_OK;
    case LS_K_PARAM:
        put_param(w, at);
        return LS_OK;
    case LS_K_GROUP_ID:
    case LS_K_LOCAL_ID:
        begin_let(w, at);
        ls_text_printf(w->out, "%s.%c);\n", expressions[ins->op].i, "xyz"[ins->arg]);
        return LS_OK;
    case LS_K_LANE_ID:
    case LS_K_SUBGROUP_SIZE:
        if (!w->options->subgroups) {
            return refuse(w, at, "the device was opened without subgroups");
        }
        begin_let(w, at);
        ls_text_add(w->out, ins->op == LS_K_LANE_ID ? "i32(lane);\n" : "i32(lanes);\n");
        return LS_OK;
    default:
        return refuse(w, at, "the language does not say which subgroup a thread is in");
    }
}

static ls_status put_vector(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    if (ins->op == LS_K_INSERT) {
        put_insert(w, at);
    } else if (ins->op == LS_K_EXTRACT) {
        begin_let(w, at);
        add_pattern(w, ins, "$0");
        ls_text_printf(w->out, w->k->body[ins->src[0]].lanes > 1 ? ".%c;\n" : ";\n", "xyzw"[ins->arg]);
    } else {
        return put_pure(w, at);
    }
    return LS_OK;
}

static ls_status put_ins(wgsl *w, ls_val at) {
    const ls_ins *ins = &w->k->body[at];
    if (ins->lanes && ins->lanes != LS_LANES_FRAG && !scalar_name((ls_dtype)ins->dtype)) {
        return refuse(w, at, "the language has no such type");
    }
    switch (ls_kops[ins->op].kind) {
    case LS_KC_CONTROL:
        put_control(w, at);
        return LS_OK;
    case LS_KC_LEAF:
        return put_leaf(w, at);
    case LS_KC_PURE:
        return put_pure(w, at);
    case LS_KC_VECTOR:
        return put_vector(w, at);
    case LS_KC_MEMORY:
        if (ins->op == LS_K_LOAD) {
            put_load(w, at);
        } else if (ins->op == LS_K_STORE) {
            put_store(w, at);
        } else {
            put_atomic(w, at);
        }
        return LS_OK;
    case LS_KC_GROUP:
        return put_group(w, at);
    default:
        return refuse(w, at, "matrix fragments have no instructions here");
    }
}

/* ---- functions that the language lacks, for each number of lanes in use ---- */

#define ORDERED_TEXT(name, sign)                                                                    \
    "fn " name "$L(a: $F, b: $F) -> $F {\n"                                                         \
    "    let x = bitcast<$I>(a);\n"                                                                 \
    "    let y = bitcast<$I>(b);\n"                                                                 \
    "    let m = $I(2147483647i);\n"                                                                \
    "    let inf = $I(2139095040i);\n"                                                              \
    "    let first = (x ^ ((x >> $U(31u)) & m)) " sign " (y ^ ((y >> $U(31u)) & m));\n"             \
    "    return bitcast<$F>(select(select(select(y, x, first), y, (y & m) > inf), x, (x & m) > inf));\n" \
    "}\n"

static const struct {
    ls_kop op;
    ls_dtype dtype;
    const char *text;
} functions[] = {
    {LS_K_UMULHI, LS_U32,
     "fn umulhi$L(a: $U, b: $U) -> $U {\n"
     "    let m = $U(65535u);\n"
     "    let s = $U(16u);\n"
     "    let al = a & m;\n"
     "    let ah = a >> s;\n"
     "    let bl = b & m;\n"
     "    let bh = b >> s;\n"
     "    let c = al * bh + ((al * bl) >> s);\n"
     "    let d = ah * bl + (c & m);\n"
     "    return ah * bh + (c >> s) + (d >> s);\n"
     "}\n"},
    {LS_K_CANON, LS_F32,
     "fn canon$L(a: $F) -> $F {\n"
     "    let x = bitcast<$U>(a);\n"
     "    return bitcast<$F>(select(x, $U(2143289344u), (x & $U(2147483647u)) > $U(2139095040u)));\n"
     "}\n"},
    {LS_K_MIN, LS_F32, ORDERED_TEXT("least", "<")},
    {LS_K_MAX, LS_F32, ORDERED_TEXT("most", ">")},
};

static void put_functions(wgsl *w) {
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        bool done[5] = {false};
        for (int32_t at = 0; at < w->k->n_body; at++) {
            const ls_ins *ins = &w->k->body[at];
            bool fast = ins->flags & LS_KF_FAST && expressions[ins->op].fast;
            if (ins->op == (int)functions[f].op && ins->dtype == (int)functions[f].dtype && !fast && !done[ins->lanes]) {
                done[ins->lanes] = true;
                add_pattern(w, ins, functions[f].text);
            }
        }
    }
}

/* ---- the whole ---- */

static void add_name(wgsl *w, const char *name) {
    for (; *name; name++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') || *name == '_';
        ls_text_add_n(w->out, plain ? name : "_", 1);
    }
    ls_text_add(w->out, "\n");
}

static ls_status put_memory(wgsl *w, int mem) {
    const ls_kmem *m = &w->k->mems[mem];
    form f = w->forms[mem];
    bool shared = m->space == LS_MEM_SHARED;
    if (!f.lanes) {
        return LS_OK;
    }
    if (!scalar_name(m->dtype) || (!shared && m->dtype == LS_BOOL)) {
        return LS_FAIL(w->err, LS_ERR_UNSUPPORTED, "kernel %s: memory %s of %s: WGSL has no such memory", w->k->name, m->name,
                       ls_dtype_name(m->dtype));
    }
    if (shared) {
        ls_text_printf(w->out, "var<workgroup> m%d: array<", mem);
    } else {
        ls_text_printf(w->out, "@group(0) @binding(%d) var<storage, read_write> m%d: array<", m->binding, mem);
    }
    ls_text_add(w->out, f.atomic ? "atomic<" : "");
    add_type(w, m->dtype, f.lanes);
    ls_text_add(w->out, f.atomic ? ">" : "");
    if (shared) {
        ls_text_printf(w->out, ", %" PRId64, m->count / f.lanes);
    }
    ls_text_add(w->out, ">; // ");
    add_name(w, m->name);
    return LS_OK;
}

static ls_status put_kernel(wgsl *w) {
    const ls_kernel *k = w->k;
    ls_text *out = w->out;
    find_forms(w);
    find_named(w);
    for (int32_t at = 0; at < k->n_body; at++) {
        int op = k->body[at].op;
        w->subgroups |= (ls_kops[op].kind == LS_KC_GROUP && op != LS_K_BARRIER) || op == LS_K_LANE_ID || op == LS_K_SUBGROUP_SIZE;
    }
    if (w->subgroups) {
        ls_text_add(out, "enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n");
    }
    ls_text_add(out, "// ");
    add_name(w, k->name);
    for (int m = 0; m < k->n_mems; m++) {
        LS_TRY(w->err, put_memory(w, m));
    }
    int32_t words = ls_render_words(k);
    if (words) {
        ls_text_printf(out, "@group(0) @binding(%d) var<uniform> params: array<vec4<u32>, %d>;\n", k->n_globals, (words + 3) / 4);
    }
    put_functions(w);
    ls_text_printf(out,
                   "@compute @workgroup_size(%d, %d, %d)\n"
                   "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>",
                   k->workgroup[0], k->workgroup[1], k->workgroup[2]);
    if (w->subgroups) {
        ls_text_add(out, ",\n        @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) lanes: u32");
    }
    ls_text_add(out, ") {\n");
    w->depth = 1;
    for (int32_t at = 0; at < k->n_body; at++) {
        LS_TRY(w->err, put_ins(w, at));
    }
    ls_text_add(out, "}\n");
    return LS_OK;
}

ls_status ls_render_wgsl(ls_text *out, const ls_kernel *kernel, const ls_wgsl_options *options, ls_error *err) {
    wgsl w = {.out = out, .k = kernel, .options = options, .err = err};
    w.forms = ls_alloc_zeroed(out->heap, sizeof *w.forms * (size_t)kernel->n_mems);
    w.named = ls_alloc_zeroed(out->heap, sizeof *w.named * (size_t)kernel->n_body);
    bool memory = w.forms && w.named;
    ls_status status = memory ? put_kernel(&w) : LS_OK;
    ls_free(out->heap, w.forms);
    ls_free(out->heap, w.named);
    if (status == LS_OK && (!memory || out->failed)) {
        return LS_FAIL_MEMORY(err, "the text of a kernel");
    }
    return status;
}
