/* Lines of memory that later tiles need, fetched a few at a time between instructions: memory is at work while the processor computes.
 * Results are fetched too, since a line is read before a part of it is written; their stores then find them, where stores past the caches
 * wait for memory, as they come all at once. */
#include "backend/cpu/program.h"

enum { LINE = 64, AT_ONCE = 4 /* lines */ };

int64_t ls_fetch_ahead(const ls_spec *spec, const ls_access *access) {
    return ls_buffer_is_large(spec, access->buffer) ? LS_FETCH_AHEAD : 0;
}

void ls_fetch_results(const ls_program *p) {
    for (int i = 0; i < p->n_accesses; i++) {
        bool stored = false;
        for (int k = 0; k < p->n_instrs[LS_SECTION_LANES] && p->endless; k++) {
            stored = stored || p->fused[p->instrs[LS_SECTION_LANES][k].access]->store == i;
        }
        p->accesses[i].ahead = stored ? p->accesses[i].ahead : 0;
    }
}

void ls_fetch_next(const ls_spec *spec, ls_program *p, int axis) {
    for (int i = 0; i < p->n_accesses; i++) {
        ls_access *a = &p->accesses[i];
        for (int t = 0; t < a->n_scalar && !a->n_tables; t++) {
            if (a->scalar_axis[t] == axis && ls_fetch_ahead(spec, a)) {
                a->ahead = a->scalar_stride[t] * (INT64_C(1) << a->log2);
            }
        }
    }
}

static int64_t lines_of(const ls_program *p, int access) {
    const ls_access *a = &p->accesses[access];
    return a->ahead ? (LS_TILE << a->log2) / LINE : 0;
}

void ls_fetch_count(const ls_program *p, int64_t *lines, int64_t *instrs) {
    for (int i = 0; i < p->n_instrs[LS_SECTION_LANES] && !p->endless; i++) { /* chains alone fetch for themselves */
        const ls_instr *in = &p->instrs[LS_SECTION_LANES][i];
        const ls_fused *f = in->op == LS_TILE_OP_FUSED ? p->fused[in->access] : NULL;
        *instrs += f ? LS_TILE / LS_FUSED_PIECE : 1;
        *lines += in->op == LS_TILE_OP_LOAD || in->op == LS_TILE_OP_STORE ? lines_of(p, in->access) : 0;
        *lines += f && f->store >= 0 ? lines_of(p, f->store) : 0;
        for (int k = 0; f && k < f->n_operands; k++) {
            *lines += f->loads[k] ? lines_of(p, f->loads[k] - 1) : 0;
        }
    }
}

void ls_fetch_later(ls_fetches *f, uintptr_t at, int64_t bytes) {
    uintptr_t end = at + (uintptr_t)bytes;
    unsigned last = (f->end - 1) % LS_FETCHES;
    if (f->end != f->first && f->runs[last].end == at) {
        f->runs[last].end = end;
        return;
    }
    f->first += f->end - f->first == LS_FETCHES;
    f->runs[f->end % LS_FETCHES].at = at;
    f->runs[f->end++ % LS_FETCHES].end = end;
}

void ls_fetch(ls_fetches *f) {
    for (int64_t left = f->lines; f->first != f->end && left > 0; left -= AT_ONCE) {
        unsigned i = f->first % LS_FETCHES;
        uintptr_t at = f->runs[i].at;
        for (int line = 0; line < AT_ONCE; line++) {
            __builtin_prefetch((const void *)(at + (uintptr_t)line * LINE), 0, 2);
        }
        f->runs[i].at = at + AT_ONCE * LINE;
        f->first += f->runs[i].at >= f->runs[i].end;
    }
}
