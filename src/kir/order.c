/* Dead code and numbering. What is kept is what a store, an atomic or a barrier needs. Instructions whose order matters
 * stay in it; the others are written where they are first used, operands left to right, so that the order in which a
 * builder made them leaves no trace.
 *
 * A movable value stays in the block where it stands: it is written before the first instruction of that block, or the
 * first inner block, that uses it. */
#include "kir/simplify.h"
#include <string.h>

typedef struct order {
    ls_heap *heap;
    const ls_ins *in;
    int32_t n;
    ls_val *match;
    ls_val *parent;   /* the LOOP, IF or ELSE around it, LS_VAL_NONE at the top; of ELSE its IF */
    ls_val *next_set; /* chains the SETs of a VAR */
    bool *live;
    ls_val *number; /* the new number, or LS_VAL_NONE while it has none */
    int32_t *seen;  /* stamps of walks through inner blocks */
    int32_t stamp;
    ls_val *stack;
    ls_ins *out;
    int32_t n_out;
} order;

/* A SET that another SET of the same block overwrites, with nothing in between that looks, is dead at once. */
static void drop_overwritten(order *o, bool *dead) {
    ls_val *last =
        o->number; /* free until numbers are given: by VAR its last SET, if in this straight line */
    int32_t *line = o->seen, now = 1;
    for (ls_val at = 0; at < o->n; at++) {
        const ls_ins *ins = &o->in[at];
        ls_kclass kind = ls_kops[ins->op].kind;
        if (ins->op == LS_K_GET) {
            line[ins->src[0]] = 0;
        } else if (ins->op == LS_K_SET) {
            if (line[ins->src[0]] == now) {
                dead[last[ins->src[0]]] = true;
            }
            line[ins->src[0]] = now;
            last[ins->src[0]] = at;
        } else if (kind == LS_KC_CONTROL && ins->op != LS_K_VAR) {
            now++;
        }
    }
    memset(o->seen, 0, (size_t)o->n * sizeof *o->seen);
}

static void mark(order *o, ls_val v, int32_t *top) {
    if (v >= 0 && !o->live[v]) {
        o->live[v] = true;
        o->stack[(*top)++] = v;
    }
}

static void mark_needs(order *o, const bool *dead) {
    int32_t top = 0;
    for (ls_val at = 0; at < o->n; at++) {
        ls_kop op = (ls_kop)o->in[at].op;
        bool root = (ls_kops[op].kind == LS_KC_MEMORY && op != LS_K_LOAD) || op == LS_K_BARRIER ||
                    op == LS_K_FRAG_STORE || op == LS_K_PRODUCT;
        if (root) {
            mark(o, at, &top);
        }
    }
    while (top) {
        ls_val at = o->stack[--top];
        const ls_ins *ins = &o->in[at];
        mark(o, o->parent[at], &top);
        for (int i = 0; i < ls_kops[ins->op].sources; i++) {
            mark(o, ins->src[i], &top);
        }
        if (ins->op == LS_K_VAR) {
            for (ls_val set = o->next_set[at]; set >= 0; set = o->next_set[set]) {
                if (!dead[set]) {
                    mark(o, set, &top);
                }
            }
        }
    }
}

static void write(order *o, ls_val at) {
    ls_ins ins = o->in[at];
    for (int i = 0; i < 3; i++) {
        ins.src[i] = ins.src[i] >= 0 ? o->number[ins.src[i]] : LS_VAL_NONE;
    }
    o->number[at] = o->n_out;
    o->out[o->n_out++] = ins;
}

/* Writes what `v` needs of the movable values that stand in `block`, operands first. */
static void need(order *o, ls_val v, ls_val block) {
    int32_t top = 0;
    o->stack[top++] = v;
    while (top) {
        ls_val at = o->stack[top - 1];
        const ls_ins *ins = &o->in[at];
        bool waits = false;
        if (o->number[at] != LS_VAL_NONE || !ls_kir_movable(ins) ||
            (o->parent[at] != block && o->seen[at] == o->stamp)) {
            top--;
            continue;
        }
        for (int i = 0; i < ls_kops[ins->op].sources && !waits; i++) {
            ls_val src = ins->src[i];
            if (src >= 0 && o->number[src] == LS_VAL_NONE && ls_kir_movable(&o->in[src]) &&
                o->seen[src] != o->stamp) {
                o->stack[top++] = src;
                waits = true;
            }
        }
        if (!waits) {
            o->seen[at] = o->stamp;
            if (o->parent[at] == block) {
                write(o, at);
            }
            top--;
        }
    }
}

static void need_sources(order *o, ls_val at, ls_val block) {
    for (int i = 0; i < ls_kops[o->in[at].op].sources; i++) {
        if (o->in[at].src[i] >= 0) {
            need(o, o->in[at].src[i], block);
        }
    }
}

static void write_block(order *o, ls_val first, ls_val end, ls_val block) {
    for (ls_val at = first; at < end; at++) {
        ls_kop op = (ls_kop)o->in[at].op;
        bool opens = op == LS_K_LOOP || op == LS_K_IF;
        ls_val last = opens ? o->match[at] : at;
        last = opens && o->in[last].op == LS_K_ELSE ? o->match[last] : last;
        if (ls_kir_movable(&o->in[at]) || !o->live[at]) {
            at = last; /* written where it is used, or dead with all that is inside */
            continue;
        }
        o->stamp++;
        need_sources(o, at, block);
        for (ls_val in = at + 1; in < last; in++) { /* what blocks inside use must stand before they open */
            if (o->live[in] && !ls_kir_movable(&o->in[in])) {
                need_sources(o, in, block);
            }
        }
        write(o, at);
        if (opens) {
            ls_val middle = o->match[at];
            write_block(o, at + 1, middle, at);
            if (middle != last) {
                if (o->live[middle]) {
                    write(o, middle);
                    write_block(o, middle + 1, last, middle);
                }
            }
            write(o, last);
            at = last;
        }
    }
}

static void find_blocks(order *o) {
    ls_val block = LS_VAL_NONE;
    for (ls_val at = 0; at < o->n; at++) {
        ls_kop op = (ls_kop)o->in[at].op;
        if (op == LS_K_END_IF && o->in[block].op == LS_K_ELSE) {
            block = o->parent[block]; /* an ELSE has its IF for a parent */
        }
        o->parent[at] = block;
        if (op == LS_K_LOOP || op == LS_K_IF || op == LS_K_ELSE) {
            block = at;
        } else if (op == LS_K_END_LOOP || op == LS_K_END_IF) {
            block = o->parent[block];
        }
        o->next_set[at] = LS_VAL_NONE;
        if (op == LS_K_SET) {
            o->next_set[at] = o->next_set[o->in[at].src[0]];
            o->next_set[o->in[at].src[0]] = at;
        }
    }
}

ls_status ls_kir_order(ls_heap *heap, ls_ins **body, int32_t *n_body, ls_error *err) {
    size_t n = (size_t)*n_body + 1;
    order o = {.heap = heap, .in = *body, .n = *n_body};
    o.match = ls_alloc_zeroed(heap, n * sizeof *o.match);
    o.parent = ls_alloc(heap, n * sizeof *o.parent);
    o.next_set = ls_alloc(heap, n * sizeof *o.next_set);
    o.live = ls_alloc_zeroed(heap, n * sizeof *o.live);
    o.number = ls_alloc(heap, n * sizeof *o.number);
    o.seen = ls_alloc_zeroed(heap, n * sizeof *o.seen);
    o.stack = ls_alloc(heap, n * sizeof *o.stack);
    o.out = ls_alloc(heap, n * sizeof *o.out);
    bool *dead = ls_alloc_zeroed(heap, n);
    ls_status status = LS_OK;
    if (!o.match || !o.parent || !o.next_set || !o.live || !o.number || !o.seen || !o.stack || !o.out ||
        !dead) {
        status = LS_FAIL_MEMORY(err, "a simplifier");
        ls_free(heap, o.out);
    } else {
        ls_kir_match(o.in, o.n, o.match);
        find_blocks(&o);
        drop_overwritten(&o, dead);
        mark_needs(&o, dead);
        memset(o.number, 0xff, n * sizeof *o.number);
        write_block(&o, 0, o.n, LS_VAL_NONE);
        ls_free(heap, *body);
        *body = o.out;
        *n_body = o.n_out;
    }
    if (status != LS_OK) {
        ls_free(heap, *body);
        *body = NULL;
        *n_body = 0;
    }
    ls_free(heap, o.match);
    ls_free(heap, o.parent);
    ls_free(heap, o.next_set);
    ls_free(heap, o.live);
    ls_free(heap, o.number);
    ls_free(heap, o.seen);
    ls_free(heap, o.stack);
    ls_free(heap, dead);
    return status;
}
