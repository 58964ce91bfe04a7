/* The interpreter: all threads of a workgroup step through the body together, each instruction for every active thread
 * before the next. That hides no race, because races are found from shadow cells, one an element, and not from results:
 * a cell knows who last wrote and read it, and in which phase between barriers. */
#include "kir/machine.h"
#include "base/numerics.h"
#include "base/rng.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint64_t *reg(const ls_machine *m, ls_val v) {
    return m->regs + m->slot[v] * m->threads;
}

static ls_status fail(const ls_machine *m, ls_status code, ls_val at, int thread, const char *fmt, ...)
    LS_PRINTF(5, 6);

static ls_status fail(const ls_machine *m, ls_status code, ls_val at, int thread, const char *fmt, ...) {
    char text[400], who[80] = "";
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (thread >= 0) {
        snprintf(who, sizeof who, " in thread %d", thread);
    }
    return LS_FAIL(m->err, code, "kernel %s: instruction %%%d (%s)%s of workgroup (%lld, %lld, %lld): %s",
                   m->k->name, at, ls_kops[m->k->body[at].op].name, who, (long long)m->group[0],
                   (long long)m->group[1], (long long)m->group[2], text);
}

/* ---- memory ---- */

static uint64_t element_get(ls_dtype t, const uint8_t *p) {
    uint16_t b2;
    uint32_t b4;
    uint64_t b8;
    switch (ls_dtype_sizes[t]) {
    case 1:
        return t == LS_BOOL ? *p != 0 : ls_kir_wrap(t, *p);
    case 2:
        memcpy(&b2, p, 2);
        return ls_kir_wrap(t, b2);
    case 4:
        memcpy(&b4, p, 4);
        return t == LS_I32 ? (uint64_t)(int32_t)b4 : b4;
    default:
        memcpy(&b8, p, 8);
        return b8;
    }
}

static void element_put(ls_dtype t, uint8_t *p, uint64_t v) {
    memcpy(p, &v, ls_dtype_sizes[t]); /* little-endian hosts */
}

static ls_status no_element(const ls_machine *m, ls_val at, int thread, int64_t index) {
    const int64_t mem = m->k->body[at].arg;
    return fail(m, LS_ERR_RANGE, at, thread, "index %lld is out of bounds: %s has %lld elements", (long long)index,
                m->k->mems[mem].name, (long long)m->mems[mem].count);
}

/* Finds the element of an access, or says why there is none. */
static inline ls_status element_at(const ls_machine *m, ls_val at, int thread, int64_t index, uint8_t **out_data,
                                   ls_shadow_cell **out_cell) {
    const ls_machine_memory *mem = &m->mems[m->k->body[at].arg];
    if ((uint64_t)index >= (uint64_t)mem->count) {
        *out_data = NULL;
        *out_cell = NULL;
        return no_element(m, at, thread, index);
    }
    *out_data = mem->data + (size_t)index * mem->size;
    *out_cell = &mem->cells[index];
    return LS_OK;
}

static ls_status race(ls_machine *m, ls_val at, int mem, int thread, int64_t index, int32_t other_group,
                      int other, const char *did) {
    const char *name = m->k->mems[mem].name;
    if (other_group != m->group_number) {
        return fail(m, LS_ERR_DIFFERS, at, thread, "%s[%lld] was %s by another workgroup", name,
                    (long long)index, did);
    }
    return fail(m, LS_ERR_DIFFERS, at, thread, "race: %s[%lld] was %s by thread %d since the last barrier",
                name, (long long)index, did, other);
}

static ls_status note_read(ls_machine *m, ls_val at, int mem, int thread, int64_t index, ls_shadow_cell *c) {
    if (c->writer_group &&
        (c->writer_group != m->group_number || (c->write_phase == m->phase && c->writer != thread))) {
        return race(m, at, mem, thread, index, c->writer_group, c->writer, "written");
    }
    if (!c->writer_group && m->mems[mem].poisoned) {
        return fail(m, LS_ERR_INVALID, at, thread, "reads %s[%lld], which nothing has written",
                    m->k->mems[mem].name, (long long)index);
    }
    c->many_groups |= c->reader_group && c->reader_group != m->group_number;
    bool same_phase = c->reader_group == m->group_number && c->read_phase == m->phase;
    c->many_readers = same_phase && (c->many_readers || c->reader != thread);
    c->reader_group = m->group_number;
    c->reader = thread;
    c->read_phase = m->phase;
    return LS_OK;
}

static ls_status note_write(ls_machine *m, ls_val at, int mem, int thread, int64_t index, ls_shadow_cell *c, bool atomic) {
    bool other = c->writer_group &&
                 (c->writer_group != m->group_number || (c->write_phase == m->phase && c->writer != thread));
    if (other && !(atomic && c->atomic)) {
        return race(m, at, mem, thread, index, c->writer_group, c->writer, "written");
    }
    if (c->reader_group && (c->many_groups || c->reader_group != m->group_number)) {
        return race(m, at, mem, thread, index, c->reader_group != m->group_number ? c->reader_group : 0,
                    c->reader, "read");
    }
    if (c->reader_group && c->read_phase == m->phase && (c->many_readers || c->reader != thread)) {
        return race(m, at, mem, thread, index, c->reader_group, c->reader, "read");
    }
    c->writer_group = m->group_number;
    c->writer = thread;
    c->write_phase = m->phase;
    c->atomic = atomic;
    return LS_OK;
}

static bool holds(const ls_machine *m, ls_val pred, int thread) {
    return pred == LS_VAL_NONE || reg(m, pred)[thread];
}

static ls_status check_aligned(ls_machine *m, ls_val at, int thread, int64_t index, int lanes) {
    return index % lanes ? fail(m, LS_ERR_INVALID, at, thread, "index %lld is no multiple of the %d lanes",
                                (long long)index, lanes)
                         : LS_OK;
}

typedef ls_status (*exec_fn)(ls_machine *m, ls_val at, const uint8_t *mask);
#define EXEC(ID) static ls_status exec_##ID(ls_machine *m, ls_val at, const uint8_t *mask)
#define INS_AT const ls_ins *ins = &m->k->body[at]
#define EACH_THREAD(t)                                                                                       \
    for (int t = 0; t < m->threads; t++)                                                                     \
        if (mask[t])

EXEC(LOAD) {
    INS_AT;
    const uint64_t *index = reg(m, ins->src[0]);
    uint64_t *out = reg(m, at);
    EACH_THREAD(t) {
        bool on = holds(m, ins->src[1], t);
        if (on) {
            LS_TRY(m->err, check_aligned(m, at, t, (int64_t)index[t], ins->lanes));
        }
        for (int lane = 0; lane < ins->lanes; lane++) {
            uint8_t *data;
            ls_shadow_cell *c;
            if (!on) {
                out[lane * m->threads + t] = reg(m, ins->src[2])[lane * m->threads + t];
                continue;
            }
            int64_t i = (int64_t)index[t] + lane;
            LS_TRY(m->err, element_at(m, at, t, i, &data, &c));
            LS_TRY(m->err, note_read(m, at, (int)ins->arg, t, i, c));
            out[lane * m->threads + t] = element_get((ls_dtype)ins->dtype, data);
        }
    }
    return LS_OK;
}

EXEC(STORE) {
    INS_AT;
    const uint64_t *index = reg(m, ins->src[0]), *value = reg(m, ins->src[1]);
    int lanes = m->k->body[ins->src[1]].lanes;
    EACH_THREAD(t) {
        if (!holds(m, ins->src[2], t)) {
            continue;
        }
        LS_TRY(m->err, check_aligned(m, at, t, (int64_t)index[t], lanes));
        for (int lane = 0; lane < lanes; lane++) {
            uint8_t *data;
            ls_shadow_cell *c;
            int64_t i = (int64_t)index[t] + lane;
            LS_TRY(m->err, element_at(m, at, t, i, &data, &c));
            LS_TRY(m->err, note_write(m, at, (int)ins->arg, t, i, c, false));
            element_put((ls_dtype)ins->dtype, data, value[lane * m->threads + t]);
        }
    }
    return LS_OK;
}

static ls_status atomic_with(ls_machine *m, ls_val at, const uint8_t *mask, ls_kop combine) {
    INS_AT;
    ls_dtype type = (ls_dtype)ins->dtype;
    EACH_THREAD(t) {
        uint8_t *data;
        ls_shadow_cell *c;
        reg(m, at)[t] = 0;
        if (!holds(m, ins->src[2], t)) {
            continue;
        }
        int64_t i = (int64_t)reg(m, ins->src[0])[t];
        LS_TRY(m->err, element_at(m, at, t, i, &data, &c));
        if (!c->writer_group && m->mems[ins->arg].poisoned) {
            return fail(m, LS_ERR_INVALID, at, t, "combines with %s[%lld], which nothing has written",
                        m->k->mems[ins->arg].name, (long long)i);
        }
        LS_TRY(m->err, note_write(m, at, (int)ins->arg, t, i, c, true));
        uint64_t old = element_get(type, data);
        element_put(type, data,
                    ls_kir_eval(combine, type, type, (const uint64_t[3]){old, reg(m, ins->src[1])[t], 0}));
        reg(m, at)[t] = old;
    }
    return LS_OK;
}

EXEC(ATOMIC_ADD) {
    return atomic_with(m, at, mask, LS_K_ADD);
}
EXEC(ATOMIC_MIN) {
    return atomic_with(m, at, mask, LS_K_MIN);
}
EXEC(ATOMIC_MAX) {
    return atomic_with(m, at, mask, LS_K_MAX);
}
EXEC(ATOMIC_OR) {
    return atomic_with(m, at, mask, LS_K_OR);
}

/* ---- threads together ---- */

static ls_status all_here(ls_machine *m, ls_val at, const uint8_t *mask) {
    for (int t = 0; t < m->threads; t++) {
        if (!mask[t]) {
            return fail(m, LS_ERR_INVALID, at, -1, "thread %d does not reach it, and others do", t);
        }
    }
    return LS_OK;
}

EXEC(BARRIER) {
    LS_TRY(m->err, all_here(m, at, mask));
    m->phase++;
    return LS_OK;
}

static ls_status shuffle_from(ls_machine *m, ls_val at, int t, int64_t lane) {
    INS_AT;
    int first = t / m->width * m->width;
    if (lane < 0 || lane >= m->width || first + lane >= m->threads) {
        return fail(m, LS_ERR_RANGE, at, t, "lane %lld is not in its subgroup", (long long)lane);
    }
    for (int l = 0; l < ins->lanes; l++) {
        reg(m, at)[l * m->threads + t] = reg(m, ins->src[0])[l * m->threads + first + lane];
    }
    return LS_OK;
}

EXEC(SHUFFLE) {
    INS_AT;
    LS_TRY(m->err, all_here(m, at, mask));
    for (int t = 0; t < m->threads; t++) {
        LS_TRY(m->err, shuffle_from(m, at, t, (int64_t)reg(m, ins->src[1])[t]));
    }
    return LS_OK;
}

EXEC(SHUFFLE_XOR) {
    LS_TRY(m->err, all_here(m, at, mask));
    for (int t = 0; t < m->threads; t++) {
        LS_TRY(m->err, shuffle_from(m, at, t, (t % m->width) ^ m->k->body[at].arg));
    }
    return LS_OK;
}

static ls_status subgroup_with(ls_machine *m, ls_val at, const uint8_t *mask, ls_kop combine) {
    INS_AT;
    ls_dtype type = (ls_dtype)ins->dtype;
    LS_TRY(m->err, all_here(m, at, mask));
    for (int lane = 0; lane < ins->lanes; lane++) {
        const uint64_t *in = reg(m, ins->src[0]) + lane * m->threads;
        uint64_t *out = reg(m, at) + lane * m->threads;
        for (int first = 0; first < m->threads; first += m->width) {
            int last = first + m->width < m->threads ? first + m->width : m->threads;
            uint64_t total = in[first];
            for (int t = first + 1; t < last; t++) {
                total = ls_kir_eval(combine, type, type, (const uint64_t[3]){total, in[t], 0});
            }
            for (int t = first; t < last; t++) {
                out[t] = total;
            }
        }
    }
    return LS_OK;
}

EXEC(SUBGROUP_ADD) {
    return subgroup_with(m, at, mask, LS_K_ADD);
}
EXEC(SUBGROUP_MIN) {
    return subgroup_with(m, at, mask, LS_K_MIN);
}
EXEC(SUBGROUP_MAX) {
    return subgroup_with(m, at, mask, LS_K_MAX);
}

/* ---- fragments ---- */

static uint64_t *frag_at(const ls_machine *m, ls_val v, int subgroup, int element) {
    return reg(m, v) + element / m->width * m->threads + subgroup * m->width + element % m->width;
}

static ls_status frag_ready(ls_machine *m, ls_val at, const uint8_t *mask, int n_scalars,
                            const ls_val *scalars) {
    LS_TRY(m->err, all_here(m, at, mask));
    if (m->threads % m->width) {
        return fail(m, LS_ERR_INVALID, at, -1, "%d threads are not whole subgroups of %d", m->threads,
                    m->width);
    }
    for (int i = 0; i < n_scalars; i++) {
        for (int t = 0; t < m->threads; t++) {
            if (reg(m, scalars[i])[t] != reg(m, scalars[i])[t / m->width * m->width]) {
                return fail(m, LS_ERR_INVALID, at, t, "operand %%%d differs within the subgroup", scalars[i]);
            }
        }
    }
    return LS_OK;
}

EXEC(FRAG_FILL) {
    INS_AT;
    LS_TRY(m->err, frag_ready(m, at, mask, 1, ins->src));
    for (int i = 0; i < ls_machine_lanes(m, ins) * m->threads; i++) {
        reg(m, at)[i] = reg(m, ins->src[0])[i % m->threads];
    }
    return LS_OK;
}

/* Visits each element's place in memory: loads into the fragment, or stores from it. */
static ls_status frag_move(ls_machine *m, ls_val at, ls_val fragment, ls_val stride, bool store) {
    INS_AT;
    ls_dtype type = m->k->mems[ins->arg].dtype;
    int rows, cols;
    ls_frag_shape(m->k->body[fragment].flags, &rows, &cols);
    for (int sub = 0; sub < m->threads / m->width; sub++) {
        int64_t base = (int64_t)reg(m, ins->src[0])[sub * m->width],
                step = (int64_t)reg(m, stride)[sub * m->width];
        int64_t size = (int64_t)ls_dtype_size((ls_dtype)m->k->body[fragment].dtype);
        if (m->k->mems[ins->arg].space == LS_MEM_SHARED && (base * size % 16 || step * size % 16)) {
            return fail(m, LS_ERR_INVALID, at, -1, "a fragment at %lld of %s, lines %lld apart: expected multiples of 16 bytes",
                        (long long)base, m->k->mems[ins->arg].name, (long long)step);
        }
        for (int e = 0; e < rows * cols; e++) {
            int r = e / cols, c = e % cols, thread = sub * m->width + e % m->width;
            int64_t i = base + (ins->flags & LS_KF_FRAG_COLS ? c * step + r : r * step + c);
            bool words = !store && ls_dtype_size(type) > ls_dtype_size((ls_dtype)ins->dtype), odd = words && (i & 1);
            uint8_t *data;
            ls_shadow_cell *shadow;
            i = words ? i >> 1 : i;
            LS_TRY(m->err, element_at(m, at, thread, i, &data, &shadow));
            if (store) {
                LS_TRY(m->err, note_write(m, at, (int)ins->arg, thread, i, shadow, false));
                element_put(type, data, *frag_at(m, fragment, sub, e));
            } else {
                LS_TRY(m->err, note_read(m, at, (int)ins->arg, thread, i, shadow));
                uint64_t bits = element_get(type, data) >> (odd ? 16 : 0);
                *frag_at(m, fragment, sub, e) = words ? ls_kir_wrap((ls_dtype)ins->dtype, bits) : bits;
            }
        }
    }
    return LS_OK;
}

EXEC(FRAG_LOAD) {
    INS_AT;
    LS_TRY(m->err, frag_ready(m, at, mask, 2, ins->src));
    return frag_move(m, at, at, ins->src[1], false);
}

EXEC(FRAG_STORE) {
    INS_AT;
    LS_TRY(m->err, frag_ready(m, at, mask, 2, (const ls_val[2]){ins->src[0], ins->src[2]}));
    return frag_move(m, at, ins->src[1], ins->src[2], true);
}

EXEC(FRAG_MMA) {
    INS_AT;
    LS_TRY(m->err, frag_ready(m, at, mask, 0, NULL));
    ls_dtype type = (ls_dtype)ins->dtype, from = (ls_dtype)m->k->body[ins->src[0]].dtype;
    int rows, cols, depth;
    ls_frag_shape(m->k->body[ins->src[0]].flags, &rows, &depth);
    ls_frag_shape(ins->flags, &rows, &cols);
    for (int sub = 0; sub < m->threads / m->width; sub++) {
        for (int e = 0; e < rows * cols; e++) {
            uint64_t sum = *frag_at(m, ins->src[2], sub, e);
            for (int i = 0; i < depth; i++) {
                uint64_t a[3] = {*frag_at(m, ins->src[0], sub, e / cols * depth + i), 0, 0};
                uint64_t b[3] = {*frag_at(m, ins->src[1], sub, i * cols + e % cols), 0, 0};
                uint64_t p[3] = {from == type ? a[0] : ls_kir_eval(LS_K_CAST, type, from, a),
                                 from == type ? b[0] : ls_kir_eval(LS_K_CAST, type, from, b), 0};
                uint64_t s[3] = {sum, ls_kir_eval(LS_K_MUL, type, type, p), 0};
                sum = ls_kir_eval(LS_K_ADD, type, type, s);
            }
            *frag_at(m, at, sub, e) = sum;
        }
    }
    return LS_OK;
}

/* A half of a memory of words, read by a thread of its own: nobody else is at work between two barriers. */
static ls_status product_half(ls_machine *m, ls_val at, int mem, int64_t half, ls_dtype type, float *out) {
    ls_shadow_cell *c = &m->mems[mem].cells[half / 2];
    LS_TRY(m->err, note_read(m, at, mem, m->threads, half / 2, c));
    uint64_t word = element_get(LS_U32, m->mems[mem].data + half / 2 * 4);
    uint64_t a[3] = {ls_kir_wrap(type, word >> (half & 1 ? 16 : 0)), 0, 0},
             bits = ls_kir_eval(LS_K_CAST, LS_F32, type, a);
    uint32_t low = (uint32_t)bits;
    memcpy(out, &low, sizeof low);
    return LS_OK;
}

static ls_status product_operand(ls_machine *m, ls_val at, const ls_kproduct *p, int i, float *out) {
    const ls_val src = m->k->body[at].src[i];
    const int64_t first = (int64_t)reg(m, src)[0], line = p->side[i].line,
                  lines = 2 * m->mems[p->side[i].mem].count / line;
    for (int t = 1; t < m->threads; t++) {
        if ((int64_t)reg(m, src)[t] != first) {
            return fail(m, LS_ERR_INVALID, at, t, "operand %%%d differs within the workgroup", src);
        }
    }
    if (first < 0 || first / line >= lines) {
        return fail(m, LS_ERR_RANGE, at, -1, "half %lld is out of bounds: %s has %lld lines of %lld",
                    (long long)first, m->k->mems[p->side[i].mem].name, (long long)lines, (long long)line);
    }
    for (int64_t r = 0; r < p->side[i].size; r++) {
        for (int64_t k = 0; k < p->k; k++) {
            int64_t x = first % line + (p->side[i].by_k ? k : r),
                    y = first / line + (p->side[i].by_k ? r : k);
            float *to = &out[r * p->k + k];
            *to = 0;
            if (x < line && y < lines) {
                LS_TRY(m->err, product_half(m, at, p->side[i].mem, y * line + x, p->type, to));
            }
        }
    }
    return LS_OK;
}

static ls_status product_sums(ls_machine *m, ls_val at, const ls_kproduct *p, const float *a, const float *b) {
    ls_machine_memory *sums = &m->mems[p->sums];
    for (int64_t e = 0; e < sums->count; e++) { /* all of it is written; what is no sum holds nothing */
        LS_TRY(m->err, note_write(m, at, p->sums, m->threads, e, &sums->cells[e], false));
        int64_t r = e / p->stride, c = e % p->stride;
        if (r >= p->side[0].size || c >= p->side[1].size) {
            memset(sums->data + e * 4, 0xff, 4);
            sums->cells[e] = (ls_shadow_cell){0};
            continue;
        }
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++) {
            sum += a[r * p->k + k] * b[c * p->k + k];
        }
        memcpy(sums->data + e * 4, &sum, 4);
    }
    return LS_OK;
}

EXEC(PRODUCT) {
    INS_AT;
    const ls_kproduct *p = &m->k->products[ins->arg];
    LS_TRY(m->err, all_here(m, at, mask));
    size_t n = (size_t)(p->side[0].size + p->side[1].size) * (size_t)p->k * sizeof(float);
    float *a = ls_alloc(m->heap, n), *b = a ? a + p->side[0].size * p->k : NULL;
    ls_status status = a ? product_operand(m, at, p, 0, a) : LS_FAIL_MEMORY(m->err, "a product's operands");
    status = status == LS_OK ? product_operand(m, at, p, 1, b) : status;
    status = status == LS_OK ? product_sums(m, at, p, a, b) : status;
    ls_free(m->heap, a);
    return status;
}

/* ---- leaves, lanes, pure ---- */

static ls_status fill(ls_machine *m, ls_val at, uint64_t v) {
    for (int i = 0; i < m->k->body[at].lanes * m->threads; i++) {
        reg(m, at)[i] = v;
    }
    return LS_OK;
}

EXEC(CONST) {
    (void)mask;
    return fill(m, at, (uint64_t)m->k->body[at].arg);
}
EXEC(PARAM) {
    (void)mask;
    return fill(m, at, (uint64_t)m->launch->params[m->k->body[at].arg]);
}
EXEC(GROUP_ID) {
    (void)mask;
    return fill(m, at, (uint64_t)m->group[m->k->body[at].arg]);
}
EXEC(SUBGROUP_SIZE) {
    (void)mask;
    return fill(m, at, (uint64_t)m->width);
}
EXEC(LOCAL_ID) {
    const int32_t *w = m->k->workgroup;
    int axis = (int)m->k->body[at].arg, below = axis == 0 ? 1 : axis == 1 ? w[0] : w[0] * w[1];
    EACH_THREAD(t) {
        reg(m, at)[t] = (uint64_t)(t / below % w[axis]);
    }
    return LS_OK;
}
EXEC(SUBGROUP_ID) {
    EACH_THREAD(t) {
        reg(m, at)[t] = (uint64_t)(t / m->width);
    }
    return LS_OK;
}
EXEC(LANE_ID) {
    EACH_THREAD(t) {
        reg(m, at)[t] = (uint64_t)(t % m->width);
    }
    return LS_OK;
}

static ls_status exec_pure(ls_machine *m, ls_val at, const uint8_t *mask) {
    INS_AT;
    const int n = ls_kops[ins->op].sources;
    const ls_dtype from = (ls_dtype)m->k->body[ins->src[0]].dtype;
    const bool scalar_first =
        m->k->body[ins->src[0]].lanes == 1; /* a select's bool may be one for all lanes */
    for (int lane = 0; lane < ins->lanes; lane++) {
        const uint64_t *a = reg(m, ins->src[0]) + (scalar_first ? 0 : lane * m->threads);
        const uint64_t *b = n > 1 ? reg(m, ins->src[1]) + lane * m->threads : a;
        const uint64_t *c = n > 2 ? reg(m, ins->src[2]) + lane * m->threads : a;
        ls_kir_eval_threads((ls_kop)ins->op, (ls_dtype)ins->dtype, from, (const uint64_t *const[3]){a, b, c}, mask,
                            m->threads, reg(m, at) + lane * m->threads);
    }
    return LS_OK;
}

/* Copies lane `from` of a value into lane `to` of the result, for active threads. */
static void lane_copy(ls_machine *m, ls_val at, int to, ls_val v, int from, const uint8_t *mask) {
    const uint64_t *in = reg(m, v) + from * m->threads;
    uint64_t *out = reg(m, at) + to * m->threads;
    EACH_THREAD(t) {
        out[t] = in[t];
    }
}

static void copy_all(ls_machine *m, ls_val to, ls_val from, const uint8_t *mask) {
    for (int lane = 0; lane < ls_machine_lanes(m, &m->k->body[to]); lane++) {
        lane_copy(m, to, lane, from, lane, mask);
    }
}

EXEC(SPLAT) {
    for (int lane = 0; lane < m->k->body[at].lanes; lane++) {
        lane_copy(m, at, lane, m->k->body[at].src[0], 0, mask);
    }
    return LS_OK;
}
EXEC(JOIN) {
    INS_AT;
    for (int lane = 0; lane < ins->lanes / 2; lane++) {
        lane_copy(m, at, lane, ins->src[0], lane, mask);
        lane_copy(m, at, ins->lanes / 2 + lane, ins->src[1], lane, mask);
    }
    return LS_OK;
}
EXEC(EXTRACT) {
    lane_copy(m, at, 0, m->k->body[at].src[0], (int)m->k->body[at].arg, mask);
    return LS_OK;
}
EXEC(INSERT) {
    copy_all(m, at, m->k->body[at].src[0], mask);
    lane_copy(m, at, (int)m->k->body[at].arg, m->k->body[at].src[1], 0, mask);
    return LS_OK;
}
EXEC(VAR) {
    copy_all(m, at, m->k->body[at].src[0], mask);
    return LS_OK;
}
EXEC(GET) {
    copy_all(m, at, m->k->body[at].src[0], mask);
    return LS_OK;
}
EXEC(SET) {
    copy_all(m, m->k->body[at].src[0], m->k->body[at].src[1], mask);
    return LS_OK;
}

/* Blocks are run by run_block. */
#define exec_LOOP NULL
#define exec_END_LOOP NULL
#define exec_IF NULL
#define exec_ELSE NULL
#define exec_END_IF NULL

#define EXEC_CONTROL(ID) exec_##ID
#define EXEC_LEAF(ID) exec_##ID
#define EXEC_PURE(ID) exec_pure
#define EXEC_VECTOR(ID) exec_##ID
#define EXEC_MEMORY(ID) exec_##ID
#define EXEC_GROUP(ID) exec_##ID
#define EXEC_MATRIX(ID) exec_##ID
static const exec_fn execs[LS_K_COUNT] = {
#define INS(ID, name, class, rule, sources, doc) [LS_K_##ID] = EXEC_##class(ID),
#include "kir/ins.def"
#undef INS
};

/* ---- blocks ---- */

static ls_status run_block(ls_machine *m, ls_val first, ls_val end, int depth);

static ls_status run_loop(ls_machine *m, ls_val at, int depth) {
    INS_AT;
    const uint8_t *mask = m->masks + (size_t)depth * (size_t)m->threads;
    uint8_t *inner = m->masks + (size_t)(depth + 1) * (size_t)m->threads;
    int64_t *i = (int64_t *)reg(m, at);
    const int64_t *hi = (const int64_t *)reg(m, ins->src[1]), *step = (const int64_t *)reg(m, ins->src[2]);
    EACH_THREAD(t) {
        i[t] = ((const int64_t *)reg(m, ins->src[0]))[t];
        if (step[t] < 1) {
            return fail(m, LS_ERR_INVALID, at, t, "the step is %lld", (long long)step[t]);
        }
    }
    memcpy(inner, mask, (size_t)m->threads);
    for (;;) {
        bool any = false;
        for (int t = 0; t < m->threads; t++) {
            inner[t] = inner[t] && i[t] < hi[t];
            any |= inner[t];
        }
        if (!any) {
            return LS_OK;
        }
        LS_TRY(m->err, run_block(m, at + 1, m->match[at], depth + 1));
        for (int t = 0; t < m->threads; t++) {
            if (inner[t] && __builtin_add_overflow(i[t], step[t], &i[t])) {
                inner[t] = 0; /* past every end */
            }
        }
    }
}

static ls_status run_if(ls_machine *m, ls_val at, int depth) {
    const uint8_t *mask = m->masks + (size_t)depth * (size_t)m->threads;
    uint8_t *inner = m->masks + (size_t)(depth + 1) * (size_t)m->threads;
    const uint64_t *condition = reg(m, m->k->body[at].src[0]);
    ls_val stop = m->match[at];
    for (int branch = 1; branch >= 0; branch--) {
        bool any = false;
        for (int t = 0; t < m->threads; t++) {
            inner[t] = mask[t] && condition[t] == (uint64_t)branch;
            any |= inner[t];
        }
        if (any) {
            LS_TRY(m->err, run_block(m, at + 1, stop, depth + 1));
        }
        if (m->k->body[stop].op != LS_K_ELSE) {
            break;
        }
        at = stop;
        stop = m->match[at];
    }
    return LS_OK;
}

static ls_status run_block(ls_machine *m, ls_val first, ls_val end, int depth) {
    const uint8_t *mask = m->masks + (size_t)depth * (size_t)m->threads;
    for (ls_val at = first; at < end; at++) {
        ls_kop op = (ls_kop)m->k->body[at].op;
        if (op == LS_K_LOOP) {
            LS_TRY(m->err, run_loop(m, at, depth));
            at = m->match[at];
        } else if (op == LS_K_IF) {
            LS_TRY(m->err, run_if(m, at, depth));
            at = m->match[at];
            at = m->k->body[at].op == LS_K_ELSE ? m->match[at] : at;
        } else {
            LS_TRY(m->err, execs[op](m, at, mask));
        }
    }
    return LS_OK;
}

/* ---- workgroups ---- */

static ls_status run_group(ls_machine *m, int64_t number, const int64_t grid[3]) {
    m->group[0] = number % grid[0];
    m->group[1] = number / grid[0] % grid[1];
    m->group[2] = number / grid[0] / grid[1];
    m->group_number = (int32_t)number + 1;
    m->phase = 1;
    for (int i = 0; i < m->k->n_mems; i++) {
        if (m->k->mems[i].space == LS_MEM_SHARED) {
            memset(m->mems[i].data, 0xff, (size_t)m->mems[i].count * ls_dtype_size(m->k->mems[i].dtype));
            memset(m->mems[i].cells, 0, (size_t)m->mems[i].count * sizeof *m->mems[i].cells);
        }
    }
    memset(m->masks, 1, (size_t)m->threads);
    return run_block(m, 0, m->k->n_body, 0);
}

static ls_status run_grid(ls_machine *m) {
    int64_t grid[3], total;
    for (int i = 0; i < 3; i++) {
        grid[i] = ls_kgrid_size(m->k, i, m->launch->params);
    }
    if (__builtin_mul_overflow(grid[0], grid[1], &total) || __builtin_mul_overflow(total, grid[2], &total) ||
        total > INT32_MAX - 1) {
        return LS_FAIL(m->err, LS_ERR_INVALID,
                       "kernel %s: a grid of %lld x %lld x %lld workgroups is too large", m->k->name,
                       (long long)grid[0], (long long)grid[1], (long long)grid[2]);
    }
    int32_t *order = ls_alloc(m->heap, ((size_t)total + 1) * sizeof *order);
    if (!order) {
        return LS_FAIL_MEMORY(m->err, "an interpreter");
    }
    ls_rng rng = {ls_rng_key(m->launch->seed, 0x6b6972), 0};
    for (int32_t i = 0; i < total; i++) { /* inside-out shuffle */
        int32_t j = m->launch->seed ? (int32_t)ls_rng_below(&rng, (uint64_t)i + 1) : i;
        order[i] = order[j];
        order[j] = i;
    }
    ls_status status = LS_OK;
    for (int64_t i = 0; i < total && status == LS_OK; i++) {
        status = run_group(m, order[i], grid);
    }
    ls_free(m->heap, order);
    return status;
}

ls_status ls_kernel_interp(ls_heap *heap, const ls_kernel *kernel, const ls_interp_launch *launch,
                           ls_error *err) {
    ls_machine m = {.heap = heap, .k = kernel, .launch = launch, .err = err};
    m.threads = ls_kernel_threads(kernel);
    m.width = launch->subgroup > 0 ? launch->subgroup : 32;
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = ls_machine_init(&m);
    if (status == LS_OK) {
        status = run_grid(&m);
    }
    ls_machine_free(&m);
    ls_numerics_leave(numerics);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}
