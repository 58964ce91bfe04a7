/* Setting up the interpreter: what can be wrong before anything runs is found here. */
#include "kir/machine.h"

int ls_machine_lanes(const ls_machine *m, const ls_ins *ins) {
    int rows, cols;
    if (ins->lanes != LS_LANES_FRAG) {
        return ins->lanes;
    }
    ls_frag_shape(ins->flags, &rows, &cols);
    return (rows * cols + m->width - 1) / m->width;
}

static ls_status match_blocks(ls_machine *m) {
    ls_val open[LS_MACHINE_DEPTH];
    int depth = 0;
    for (ls_val at = 0; at < m->k->n_body; at++) {
        const ls_ins *ins = &m->k->body[at];
        LS_TRY(m->err, ls_kir_check_types(m->k, at, m->err));
        bool opens = ins->op == LS_K_LOOP || ins->op == LS_K_IF;
        bool closes = ins->op == LS_K_END_LOOP || ins->op == LS_K_END_IF || ins->op == LS_K_ELSE;
        if (closes) {
            ls_kop opener = depth ? (ls_kop)m->k->body[open[depth - 1]].op : LS_K_COUNT;
            bool fits = ins->op == LS_K_END_LOOP
                            ? opener == LS_K_LOOP
                            : opener == LS_K_IF || (opener == LS_K_ELSE && ins->op == LS_K_END_IF);
            if (!fits) {
                return LS_FAIL(m->err, LS_ERR_INVALID, "kernel %s: instruction %%%d (%s) closes nothing",
                               m->k->name, at, ls_kops[ins->op].name);
            }
            m->match[open[--depth]] = at;
        }
        if (opens || ins->op == LS_K_ELSE) {
            if (depth == LS_MACHINE_DEPTH - 2) {
                return LS_FAIL(m->err, LS_ERR_INVALID, "kernel %s: blocks are nested too deeply", m->k->name);
            }
            open[depth++] = at;
        }
    }
    return depth ? LS_FAIL(m->err, LS_ERR_INVALID, "kernel %s: instruction %%%d is never closed", m->k->name,
                           open[depth - 1])
                 : LS_OK;
}

static ls_status check_params(ls_machine *m) {
    for (int i = 0; i < m->k->n_params; i++) {
        const ls_kparam *p = &m->k->params[i];
        int64_t v = m->launch->params[i];
        if (!ls_dtype_is_float(p->dtype) && (v < p->lo || v > p->hi)) {
            return LS_FAIL(m->err, LS_ERR_INVALID, "kernel %s: parameter %s is %lld, expected %lld to %lld",
                           m->k->name, p->name, (long long)v, (long long)p->lo, (long long)p->hi);
        }
    }
    return LS_OK;
}

static ls_status bind_memories(ls_machine *m) {
    for (int i = 0; i < m->k->n_mems; i++) {
        const ls_kmem *mem = &m->k->mems[i];
        ls_machine_memory *out = &m->mems[i];
        out->count = ls_kmem_count(m->k, i, m->launch->params);
        out->size = ls_dtype_sizes[mem->dtype];
        size_t size = (size_t)out->count * out->size;
        if (mem->space == LS_MEM_SHARED) {
            out->data = ls_alloc(m->heap, size);
            out->poisoned = true;
        } else {
            const ls_interp_buffer *b = &m->launch->buffers[mem->binding];
            if (b->count < out->count) {
                return LS_FAIL(m->err, LS_ERR_INVALID,
                               "kernel %s: the buffer for %s has %lld elements, expected %lld", m->k->name,
                               mem->name, (long long)b->count, (long long)out->count);
            }
            out->data = b->data;
            out->poisoned = b->uninitialised;
        }
        out->cells = ls_alloc_zeroed(m->heap, ((size_t)out->count + 1) * sizeof *out->cells);
        if (!out->cells || (!out->data && size)) {
            return LS_FAIL_MEMORY(m->err, mem->name);
        }
        for (int j = 0; j < i; j++) {
            uintptr_t a = (uintptr_t)out->data, b = (uintptr_t)m->mems[j].data;
            size_t b_size = (size_t)m->mems[j].count * ls_dtype_size(m->k->mems[j].dtype);
            bool both_read = mem->access == LS_MEM_READ && m->k->mems[j].access == LS_MEM_READ;
            if (!both_read && size && b_size && a < b + b_size && b < a + size) {
                return LS_FAIL(m->err, LS_ERR_INVALID, "kernel %s: %s and %s overlap", m->k->name, mem->name,
                               m->k->mems[j].name);
            }
        }
    }
    return LS_OK;
}

ls_status ls_machine_init(ls_machine *m) {
    const ls_kernel *k = m->k;
    size_t n = (size_t)k->n_body + 1, slots = 0, bytes;
    m->slot = ls_alloc_zeroed(m->heap, n * sizeof *m->slot);
    m->match = ls_alloc_zeroed(m->heap, n * sizeof *m->match);
    m->masks = ls_alloc_zeroed(m->heap, (size_t)LS_MACHINE_DEPTH * (size_t)m->threads);
    m->mems = ls_alloc_zeroed(m->heap, ((size_t)k->n_mems + 1) * sizeof *m->mems);
    if (!m->slot || !m->match || !m->masks || !m->mems) {
        return LS_FAIL_MEMORY(m->err, "an interpreter");
    }
    LS_TRY(m->err, match_blocks(m));
    LS_TRY(m->err, check_params(m));
    for (int32_t i = 0; i < k->n_body; i++) {
        m->slot[i] = (int64_t)slots;
        slots += (size_t)ls_machine_lanes(m, &k->body[i]);
    }
    if (!ls_size_mul(slots + 1, (size_t)m->threads * sizeof *m->regs, &bytes)) {
        return LS_FAIL_MEMORY(m->err, "an interpreter");
    }
    m->regs = ls_alloc_zeroed(m->heap, bytes);
    return m->regs ? bind_memories(m) : LS_FAIL_MEMORY(m->err, "an interpreter");
}

void ls_machine_free(ls_machine *m) {
    for (int i = 0; m->mems && i < m->k->n_mems; i++) {
        ls_free(m->heap, m->mems[i].cells);
        if (m->k->mems[i].space == LS_MEM_SHARED) {
            ls_free(m->heap, m->mems[i].data);
        }
    }
    ls_free(m->heap, m->slot);
    ls_free(m->heap, m->match);
    ls_free(m->heap, m->masks);
    ls_free(m->heap, m->mems);
    ls_free(m->heap, m->regs);
}
