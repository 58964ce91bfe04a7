/* Elementwise f32 instructions of a tile program done as one: a chain (chain.h) takes a few vectors through all of them in registers,
 * where each alone goes through memory. What a row shares is splat from its one lane; operands that lie in runs are read where they
 * are, and a result that is stored in runs is made there. An instruction moves down to the one that wants its result, past nothing that
 * writes. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/program_builder.h"
#include "backend/cpu/walk.h"
#include "base/bits.h"
#include <string.h>

enum {
    LEAST_ROW = 32,         /* lanes of a run, or for which a row's number is splat */
    LEAST_FETCHED = 1 << 13 /* elements of an argument: of fewer the nearest cache has some already */
};

/* ---- planning ---- */
int ls_pb_rows_of(ls_program_builder *b, int n_axes, const uint8_t *axes) {
    for (int i = 0; i < n_axes; i++) {
        if (b->row_axes < b->n_lane_axes && b->lane_axes[b->row_axes] == axes[i]) {
            b->row_axes++;
            b->row_mask |= UINT64_C(1) << axes[i];
        }
    }
    return b->row_axes;
}

int ls_fused_uses(const ls_fused *f, int16_t *out) {
    int n = 0;
    for (int i = 0; i < f->n_operands; i++) {
        if (!(f->slots >> i & 1) && !f->loads[i]) {
            out[n++] = f->operands[i];
        }
    }
    memcpy(out + n, f->scalars, sizeof *out * (size_t)f->n_scalars);
    return n + f->n_scalars;
}

typedef struct planner {
    const ls_program_builder *b;
    ls_instr *code;
    int16_t *source;    /* by register: the one whose lane, or lane of a row, it repeats; or -1 */
    bool *by_row;       /* by register: that one has a lane a row */
    bool *summed;       /* by register: a sum is part of its value, so that its radius is wider than a division's */
    int *loads;         /* by register: 1 + the access of the LOAD in runs that makes it; else 0 */
    int *uses, *inside; /* by register: by all, and by what is marked */
    bool *marked;       /* by instruction: of the chain at hand */
    bool *gone;         /* by instruction: part of a chain */
    ls_fused out;
    bool changing; /* some number in it is not the same for all lanes of a task */
    bool calls;    /* functions are steps, too: no reduction takes one together with its sum */
} planner;

/* Whether an instruction is a function of one f32. */
static bool is_call(const planner *p, const ls_instr *in) {
    const ls_tile_isa *isa = p->b->isa;
    bool known = false;
    for (int op = 0; op < LS_OP_COUNT && in->op == LS_TILE_OP_FN && in->log2 == 2 && in->b < 0 && !known; op++) {
        known = in->fn == isa->map_f32[op] || (isa->map_fast && in->fn == isa->map_fast[op]);
    }
    return known;
}

/* The chain's operation whose running value is the instruction's left operand, or its right one; -1: there is none. */
static int chain_op(const planner *p, const ls_instr *in, bool right) {
    static const uint8_t ops[][3] = {{LS_OP_ADD, LS_CHAIN_ADD, LS_CHAIN_ADD}, {LS_OP_SUB, LS_CHAIN_SUB, LS_CHAIN_FROM},
                                     {LS_OP_MUL, LS_CHAIN_MUL, LS_CHAIN_MUL}, {LS_OP_DIV, LS_CHAIN_DIV, LS_CHAIN_INTO},
                                     {LS_OP_MIN, LS_CHAIN_MIN, LS_CHAIN_MIN}, {LS_OP_MAX, LS_CHAIN_MAX, LS_CHAIN_MAX}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops && (in->op == LS_TILE_OP_FN || in->op == LS_TILE_OP_DIVIDE); i++) {
        if (in->fn == p->b->isa->map_f32[ops[i][0]]) {
            bool lanes = p->source[in->a] < 0 || p->source[in->b] < 0, shared = in->op == LS_TILE_OP_FN || p->source[in->b] >= 0;
            return lanes && shared ? ops[i][right ? 2 : 1] : -1;
        }
    }
    return p->calls && is_call(p, in) && p->source[in->a] < 0 ? LS_CHAIN_CALL : -1;
}

static void count_uses(const planner *p, const ls_instr *in, int *uses) {
    int16_t used[LS_INSTR_USES];
    for (int i = ls_pb_uses(p->b, in, used); i-- > 0;) {
        uses[used[i]]++;
    }
}

/* Marks instruction `root`, and above it what only marked ones want; how many. */
static int mark(planner *p, int front, int root) {
    int n = 1;
    memset(p->marked, 0, sizeof *p->marked * (size_t)(root + 1));
    memset(p->inside, 0, sizeof *p->inside * (size_t)p->b->n_regs);
    p->marked[root] = true;
    count_uses(p, &p->code[root], p->inside);
    for (int i = root - 1; i >= front && !ls_instr_writes(&p->code[i]); i--) {
        const ls_instr *in = &p->code[i];
        if (!p->gone[i] && chain_op(p, in, false) >= 0 && p->inside[in->dst] && p->inside[in->dst] == p->uses[in->dst]) {
            p->marked[i] = true;
            count_uses(p, in, p->inside);
            n++;
        }
    }
    return n;
}

/* The place of a register in a list, which it joins; -1: the list is full. */
static int place_in(int16_t *list, int *n, int most, int16_t reg) {
    int i = 0;
    while (i < *n && list[i] != reg) {
        i++;
    }
    if (i == most) {
        return -1;
    }
    list[i] = reg;
    *n += i == *n;
    return i;
}

static bool step(planner *p, int op, int16_t operand) {
    ls_fused *f = &p->out;
    bool scalar = p->source[operand] >= 0, room = f->n_steps < LS_CHAIN_STEPS;
    if (room && op == LS_CHAIN_SQUARE) {
        f->steps[f->n_steps++] = (ls_chain_step){.op = LS_CHAIN_SQUARE, .kind = LS_CHAIN_NONE};
        return true;
    }
    int at = scalar ? place_in(f->scalars, &f->n_scalars, LS_CHAIN_SCALARS, p->source[operand])
                    : place_in(f->operands, &f->n_operands, LS_CHAIN_POINTERS, operand);
    if (at < 0 || !room) {
        return false;
    }
    f->by_row |= scalar && p->by_row[operand] ? 1u << at : 0;
    p->changing |= scalar && p->b->regs[p->source[operand]].section != LS_SECTION_LAUNCH;
    op = op == LS_CHAIN_DIV && scalar && p->summed[p->source[operand]] ? LS_CHAIN_DIV_NEAR : op;
    f->steps[f->n_steps++] = (ls_chain_step){
        .op = (uint8_t)op, .kind = scalar ? LS_CHAIN_SCALAR : f->slots >> at & 1 ? LS_CHAIN_SLOT : LS_CHAIN_MEMORY, .at = (uint8_t)at};
    return true;
}

static bool call(planner *p, ls_tile_fn fn) {
    ls_fused *f = &p->out;
    bool room = f->n_steps < LS_CHAIN_STEPS;
    f->calls = true;
    if (room) {
        f->steps[f->n_steps++] = (ls_chain_step){.op = LS_CHAIN_CALL, .kind = LS_CHAIN_NONE, .fn = fn};
    }
    return room;
}

/* Keeps the running value for a later step. */
static bool keep(planner *p, int16_t running) {
    ls_fused *f = &p->out;
    int at = place_in(f->operands, &f->n_operands, LS_CHAIN_POINTERS, running);
    if (at < 0 || __builtin_popcount(f->slots) == LS_CHAIN_SLOTS) {
        return false;
    }
    f->slots |= 1u << at;
    return step(p, LS_CHAIN_KEEP, running);
}

static bool squares(const planner *p, const ls_instr *in) {
    return in->a == in->b && chain_op(p, in, false) == LS_CHAIN_MUL;
}

/* Whether a marked product of a loaded value and a scalar is wanted but once, later, to multiply what was made just before: it is made there, and kept nowhere. */
static bool waits(const planner *p, int i, int root) {
    const ls_instr *in = &p->code[i];
    const bool scalar = p->source[in->a] >= 0;
    int before = -1, user = i + 1;
    if (i == root || chain_op(p, in, false) != LS_CHAIN_MUL || !p->loads[scalar ? in->b : in->a] || (!scalar && p->source[in->b] < 0) || p->uses[in->dst] != 1) {
        return false;
    }
    for (; p->code[user].a != in->dst && p->code[user].b != in->dst; user++) {
        before = p->marked[user] ? user : before;
    }
    const ls_instr *then = &p->code[user];
    return before >= 0 && chain_op(p, then, false) == LS_CHAIN_MUL && (then->a == in->dst ? then->b : then->a) == p->code[before].dst;
}

/* The running value times what waits. */
static bool product(planner *p, const ls_instr *waiting) {
    ls_fused *f = &p->out;
    const bool scalar = p->source[waiting->a] >= 0;
    if (!step(p, LS_CHAIN_MUL, scalar ? waiting->a : waiting->b) || !step(p, LS_CHAIN_PRODUCT, scalar ? waiting->b : waiting->a)) {
        return false;
    }
    ls_chain_step *last = &f->steps[--f->n_steps];
    last->by = last[-1].at;
    last[-1] = *last;
    return true;
}

/* The steps of an instruction, from the running value or, at first, from an operand. */
static bool operate(planner *p, const ls_instr *in, int16_t running) {
    bool calls = chain_op(p, in, false) == LS_CHAIN_CALL;
    bool right = !calls && (running < 0 || (running != in->a && running != in->b) ? p->source[in->a] >= 0 : running != in->a);
    int16_t left = right ? in->b : in->a;
    if (running < 0) {
        p->out.operands[p->out.n_operands++] = left;
    } else if (running != left && !step(p, LS_CHAIN_TAKE, left)) {
        return false;
    }
    return calls ? call(p, in->fn) : step(p, squares(p, in) ? LS_CHAIN_SQUARE : chain_op(p, in, right), right ? in->a : in->b);
}

static void join_sigmoids(planner *p) {
    const ls_program_builder *b = p->b;
    ls_fused *f = &p->out;
    float scalars[LS_CHAIN_SCALARS];
    for (int i = 0; i < f->n_scalars; i++) {
        scalars[i] = __builtin_nanf("");
        for (int j = 0; j < b->n_instrs[LS_SECTION_LAUNCH]; j++) {
            const ls_instr *in = &b->instrs[LS_SECTION_LAUNCH][j];
            scalars[i] = in->dst == f->scalars[i] && in->op == LS_TILE_OP_CONST ? ls_f32_of((uint32_t)in->bits) : scalars[i];
        }
    }
    f->n_steps = ls_chain_join_sigmoids(b->isa, f->steps, f->n_steps, scalars);
}

/* The steps of what is marked; false: a chain has no room for them. */
static bool make_steps(planner *p, int front, int root) {
    const ls_instr *waiting = NULL;
    int16_t running = -1;
    p->out = (ls_fused){.store = -1};
    p->changing = false;
    for (int i = front; i <= root; i++) {
        const ls_instr *in = &p->code[i];
        if (!p->marked[i]) {
            continue;
        }
        if (!waiting && waits(p, i, root)) {
            waiting = in;
            continue;
        }
        const bool last = waiting && (in->a == waiting->dst || in->b == waiting->dst);
        if (last ? !product(p, waiting) : !operate(p, in, running)) {
            return false;
        }
        waiting = last ? NULL : waiting;
        running = in->dst;
        if (i == root) {
            break;
        }
        int next = i + 1;
        while (next < root && (!p->marked[next] || (!waiting && waits(p, next, root)))) {
            next++;
        }
        const ls_instr *then = &p->code[next];
        bool at_once = then->a == running || then->b == running;
        if (!(at_once && p->uses[running] == (squares(p, then) ? 2 : 1)) && !keep(p, running)) {
            return false;
        }
    }
    join_sigmoids(p);
    return true;
}

/* Whether lanes are runs of memory that are worth their own step. */
static bool in_runs(const ls_program_builder *b, const ls_access *a) {
    int64_t run = 1;
    if (a->n_tables || a->may_be_absent || a->n_dims == 0 || a->dims[a->n_dims - 1].stride != 1) {
        return false;
    }
    for (int i = a->dims[a->n_dims - 1].first; i < b->n_lane_axes && run < LEAST_ROW; i++) {
        run *= ls_dim_bound(b->spec->extents_of_axes[b->lane_axes[i]]);
    }
    return a->n_dims == 1 || run >= LEAST_ROW;
}

/* Whether an instruction's value comes of a sum of another phase. */
static bool has_sum(const planner *p, const ls_instr *in) {
    const ls_program_builder *b = p->b;
    int16_t used[LS_INSTR_USES];
    bool any = false;
    for (int i = ls_pb_uses(b, in, used); i-- > 0;) {
        any = any || p->summed[used[i]];
    }
    for (int32_t v = 0; in->op == LS_TILE_OP_LOAD && v < b->spec->n_values && !any; v++) {
        const ls_value *x = &b->spec->values[v];
        bool loaded = b->temps[v] >= 0 && b->temps[v] == b->accesses[in->access].buffer - b->spec->n_args;
        any = loaded && x->op == LS_V_REDUCE && x->map == LS_OP_SUM && x->acc == LS_F32;
    }
    return any;
}

/* What registers repeat, are loaded from, and how often they are used. */
static bool begin(planner *p, int n_results, const int16_t *results) {
    const ls_program_builder *b = p->b;
    int n = b->n_instrs[LS_SECTION_LANES];
    int64_t row = 1;
    p->code = b->instrs[LS_SECTION_LANES];
    p->source = LS_ARENA_ARRAY(b->arena, int16_t, b->n_regs + 1);
    p->by_row = LS_ARENA_ARRAY(b->arena, bool, b->n_regs + 1);
    p->summed = LS_ARENA_ARRAY(b->arena, bool, b->n_regs + 1);
    p->loads = LS_ARENA_ARRAY(b->arena, int, b->n_regs + 1);
    p->uses = LS_ARENA_ARRAY(b->arena, int, b->n_regs + 1);
    p->inside = LS_ARENA_ARRAY(b->arena, int, b->n_regs + 1);
    p->marked = LS_ARENA_ARRAY(b->arena, bool, n + 1);
    p->gone = LS_ARENA_ARRAY(b->arena, bool, n + 1);
    if (!p->source || !p->by_row || !p->summed || !p->loads || !p->uses || !p->inside || !p->marked || !p->gone) {
        return false;
    }
    for (int i = b->row_axes; i < b->n_lane_axes && row < LEAST_ROW; i++) {
        row *= ls_dim_bound(b->spec->extents_of_axes[b->lane_axes[i]]);
    }
    memset(p->source, 0xff, sizeof *p->source * (size_t)(b->n_regs + 1));
    for (int s = 0; s < LS_SECTION_LANES; s++) {
        for (int i = 0; i < b->n_instrs[s]; i++) {
            const ls_instr *in = &b->instrs[s][i];
            bool expands = in->op == LS_TILE_OP_EXPAND && row >= LEAST_ROW;
            p->by_row[in->dst] = expands;
            p->source[in->dst] = expands || in->op == LS_TILE_OP_BROADCAST ? in->a : -1;
            p->summed[in->dst] = b->spec->math != LS_LOCKED && has_sum(p, in);
        }
    }
    for (int i = 0; i < n; i++) {
        const ls_instr *in = &p->code[i];
        count_uses(p, in, p->uses);
        if (in->op == LS_TILE_OP_LOAD && in->dtype == LS_F32 && in_runs(b, &b->accesses[in->access])) {
            p->loads[in->dst] = 1 + in->access;
        }
    }
    for (int i = 0; i < n_results; i++) {
        p->uses[results[i] < 0 ? b->n_regs : results[i]]++;
    }
    return true;
}

bool ls_pb_fuse(ls_program_builder *b, int n_periodic, int n_results, const int16_t *results) {
    planner p = {.b = b};
    int n = b->n_instrs[LS_SECTION_LANES], kept = 0;
    p.calls = true;
    for (int i = 0; i < n_results; i++) {
        p.calls = p.calls && results[i] < 0;
    }
    b->fused = LS_ARENA_ARRAY(b->arena, ls_fused *, n + 1);
    if (!b->fused || !begin(&p, n_results, results)) {
        return false;
    }
    for (int i = n - 1; i >= n_periodic; i--) {
        ls_instr *in = &p.code[i];
        if (p.gone[i] || chain_op(&p, in, false) < 0) {
            continue;
        }
        int marked = mark(&p, n_periodic, i);
        bool stores = i + 1 < n && in[1].op == LS_TILE_OP_STORE && in[1].dtype == LS_F32 && in[1].a == in->dst && p.uses[in->dst] == 1 &&
                      in_runs(b, &b->accesses[in[1].access]);
        /* Alone, it takes one pass, too, unless what it makes of memory is folded at once. */
        const bool folds = n_results > 0 && in->dst == results[0] && in->b >= 0 && p.loads[in->a] && p.loads[in->b];
        if (!make_steps(&p, n_periodic, i) || (marked == 1 && !p.changing && !stores && !folds)) {
            continue;
        }
        for (int j = n_periodic; j <= i; j++) {
            p.gone[j] |= p.marked[j];
        }
        p.gone[i] = false;
        if (stores) {
            p.gone[i + 1] = true;
            p.out.store = in[1].access;
        }
        for (int k = 0; k < p.out.n_operands; k++) {
            int16_t reg = p.out.operands[k];
            p.out.loads[k] = p.inside[reg] == p.uses[reg] ? p.loads[reg] : 0;
        }
        b->fused[b->n_fused] = LS_ARENA_NEW(b->arena, ls_fused);
        if (!b->fused[b->n_fused]) {
            return false;
        }
        *b->fused[b->n_fused] = p.out;
        *in = (ls_instr){.op = LS_TILE_OP_FUSED, .log2 = 2, .dst = stores ? -1 : in->dst, .a = -1, .b = -1, .c = -1, .access = b->n_fused++, .name = "chain"};
    }
    for (int i = 0; i < n; i++) {
        if (!p.gone[i]) {
            p.code[kept++] = p.code[i];
        }
    }
    b->n_instrs[LS_SECTION_LANES] = kept;
    return true;
}

/* ---- running ---- */
int64_t ls_run_tile(const ls_run *run) {
    int64_t row = LS_TILE;
    for (int i = run->program->row_axes; run->program->endless && i < run->program->n_lane_axes; i++) {
        row *= run->extents[run->program->lane_axes[i]];
    }
    return row > LS_TILE ? row - row / LS_TILE : ls_program_tile(run->program);
}

typedef struct fused_run {
    ls_run *run;
    const ls_fused *fused;
    ls_chain_row row;
    const float *out;            /* where the result is stored */
    bool far;                    /* past the caches, piece by piece where those begin with a line */
    int64_t inner, left, at_row; /* lanes of a row, and of this one that are left; which it is */
    float scalars[LS_CHAIN_SCALARS];
    float slots[LS_CHAIN_SLOTS * LS_CHAIN_LANES + LS_ALIGN / sizeof(float)]; /* from the first aligned one on */
    int n_walks, n_runs;
    walk walks[LS_CHAIN_POINTERS + 1];         /* of what lies in memory in pieces */
    const float **at[LS_CHAIN_POINTERS + 1];   /* whose place that is */
    const float **runs[LS_CHAIN_POINTERS + 1]; /* places in what goes on to the last lane: registers, and memory in one piece */
} fused_run;

/* `pointer`: of the chain's row. */
static void add_place(fused_run *r, const ls_access *a, int64_t n, const float **at, int pointer) {
    walk *w = &r->walks[r->n_walks];
    walk_begin(w, r->run, a, n);
    if (walk_room(w) < n) {
        r->at[r->n_walks++] = at;
        return;
    }
    *at = (const float *)(const void *)r->run->buffers[a->buffer] + w->base;
    r->runs[r->n_runs++] = at;
    if (a->ahead && !r->run->fetches.lines) {
        r->row.ahead |= UINT32_C(1) << pointer;
    } else if (a->ahead) {
        ls_fetch_later(&r->run->fetches, (uintptr_t)*at + (uintptr_t)a->ahead, n * (int64_t)sizeof(float));
    }
}

/* Sets the places of what lies in memory; as many lanes as all of them have in a run, `most` at most. */
static int64_t find_places(fused_run *r, int64_t most) {
    for (int i = 0; i < r->n_walks; i++) {
        const walk *w = &r->walks[i];
        int64_t room = walk_room(w);
        *r->at[i] = (const float *)(const void *)r->run->buffers[w->access->buffer] + w->base;
        most = room < most ? room : most;
    }
    return most;
}

/* Goes as many lanes on as find_places allowed; where functions leave memory time, the lines of the pieces that come next are fetched. */
static void step_walks(fused_run *r, int64_t n) {
    for (int i = 0; i < r->n_walks; i++) {
        walk *w = &r->walks[i];
        const int buffer = w->access->buffer;
        walk_step(w, n);
        if (r->fused->calls && buffer < r->run->spec->n_args && r->run->spec->args[buffer].numel >= LEAST_FETCHED) {
            ls_fetch_lines((uintptr_t)r->run->buffers[buffer] + (uintptr_t)w->base * sizeof(float), n, r->run->fetches_second);
        }
    }
}
static void go_on(fused_run *r, int64_t n) {
    for (int i = 0; i < r->n_runs; i++) {
        *r->runs[i] += n;
    }
}

/* Whether a large result is stored past the caches, which saves reading its lines: not where it takes an operand's place, nor where values are
 * kept in the room that a beginning of its own takes. */
static bool is_far(const fused_run *r) {
    const ls_fused *f = r->fused;
    const ls_run *run = r->run;
    const ls_access *accesses = run->program->accesses;
    const int to = accesses[f->store].buffer;
    bool far = run->isa->far && run->program->endless && ls_is_streamed(run->spec, to);
    for (int k = 0; k < f->n_operands && far; k++) {
        far = !f->loads[k] || run->buffers[accesses[f->loads[k] - 1].buffer] != run->buffers[to];
    }
    return far && (f->slots == 0 || (f->steps->op != LS_CHAIN_SUB && f->steps->op != LS_CHAIN_DIV && f->steps->op != LS_CHAIN_DIV_NEAR));
}

/* Begins a chain on n lanes from where the run is. `own`: takes the result where it is not stored. */
static void begin_fused(fused_run *r, ls_run *run, const ls_fused *f, float *own, int64_t n) {
    const ls_program *p = run->program;
    r->run = run;
    r->fused = f;
    r->out = own;
    r->n_walks = r->n_runs = 0;
    r->far = !own && is_far(r);
    r->row = (ls_chain_row){.n_steps = f->n_steps, .n_pointers = f->n_operands, .steps = f->steps, .scalars = r->scalars};
    r->row.raw = own != NULL;
    r->row.second = run->fetches_second;
    r->inner = f->by_row ? run->row_inner : n;
    r->left = f->by_row ? r->inner - run->row_lane : n;
    r->at_row = 0;
    float *slot = (float *)(void *)(((uintptr_t)r->slots + LS_ALIGN - 1) & ~(uintptr_t)(LS_ALIGN - 1));
    for (int k = 0; k < f->n_operands; k++) {
        if (f->slots >> k & 1) {
            r->row.slots[k] = slot;
            slot += LS_CHAIN_LANES;
        } else if (f->loads[k]) {
            add_place(r, &p->accesses[f->loads[k] - 1], n, &r->row.at[k], k);
        } else {
            r->row.at[k] = run->regs[f->operands[k]];
            r->runs[r->n_runs++] = &r->row.at[k];
        }
    }
    if (!own) {
        add_place(r, &p->accesses[f->store], n, &r->out, LS_CHAIN_POINTERS);
        r->row.ahead &= ~((uint32_t)r->far << LS_CHAIN_POINTERS);
    }
}

/* Does the next lanes, `most` at most, into `own` where they are not stored; how many. */
static int64_t next_fused(fused_run *r, float *own, int64_t most) {
    ls_run *run = r->run;
    const ls_fused *f = r->fused;
    bool fetches = run->fetches.lines;
    for (int k = 0; k < f->n_scalars; k++) {
        r->scalars[k] = ((const float *)run->regs[f->scalars[k]])[f->by_row >> k & 1 ? r->at_row : 0];
    }
    int64_t part = find_places(r, r->left < most ? r->left : most);
    part = fetches && part > LS_FUSED_PIECE ? LS_FUSED_PIECE : part;
    step_walks(r, part);
    r->row.middle = r->far && (uintptr_t)r->out % LS_ALIGN == 0 ? r->slots : NULL;
    run->isa->chain(&r->row, own ? own : (float *)(uintptr_t)r->out, r->row.at[0], part);
    if (fetches) {
        ls_fetch(&run->fetches);
    }
    go_on(r, part);
    r->at_row += r->left == part;
    r->left = r->left == part ? r->inner : r->left - part;
    return part;
}

void ls_run_fused(ls_run *run, const ls_instr *in, int64_t n) {
    const ls_fused *f = run->program->fused[in->access];
    float *own = in->dst < 0 ? NULL : (float *)(void *)(run->memory + run->program->reg_offsets[in->dst]);
    fused_run r; /* not cleared: walks are large */
    begin_fused(&r, run, f, own, n);
    for (int64_t at = 0, part; at < n; at += part) {
        part = next_fused(&r, own ? own + at : NULL, n - at);
    }
    if (own) {
        run->regs[in->dst] = own;
    }
}

/* ---- rows ---- */
const ls_access *ls_whole_access(const ls_program *p, int buffer) {
    const ls_access *found = NULL;
    for (int i = 0; i < p->n_accesses; i++) {
        const ls_access *a = &p->accesses[i];
        if (a->buffer == buffer) {
            bool whole = !found && !a->offset && !a->n_scalar && !a->n_tables && !a->may_be_absent && a->n_dims == 1 && a->dims[0].stride == 1;
            if (!whole) {
                return NULL;
            }
            found = a;
        }
    }
    return found;
}

int ls_kept_in_result(const ls_kernel_binary *b, int temp) {
    const ls_spec *spec = &b->spec;
    const ls_phase *last = &b->phases[b->n_phases - 1];
    bool alone = spec->n_stores == 1 && last->kind == LS_PHASE_STORE;
    for (int i = 0; i < temp; i++) {
        alone = alone && !b->temps[i].result;
    }
    const ls_access *to = alone ? ls_whole_access(&last->finish, spec->stores[0].arg) : NULL, *from = to ? ls_whole_access(&last->finish, spec->n_args + temp) : NULL;
    return from && from->log2 == to->log2 && from->dims[0].first == to->dims[0].first && from->dims[0].last == to->dims[0].last ? 1 + to->buffer : 0;
}

int ls_stream_axes(const ls_kernel_binary *b, const ls_phase *phase, uint8_t *axes) {
    const ls_value *v = &b->spec.values[phase->value];
    bool f32 = v->acc == LS_F32 && b->spec.values[v->a].dtype == LS_F32;
    if (phase->kind != LS_PHASE_ROWS || !f32 || !b->device->tiles->fold_f32[LS_FOLD_SUM] ||
        phase->n_axes + v->n_bound > LS_LANE_AXES) {
        return 0;
    }
    memcpy(axes, phase->axes, (size_t)phase->n_axes);
    memcpy(axes + phase->n_axes, v->bound, (size_t)v->n_bound);
    return phase->n_axes + v->n_bound;
}

static ls_stream stream_of(const ls_program *p) {
    const ls_instr *in = p->instrs[LS_SECTION_LANES], *end = in + p->n_instrs[LS_SECTION_LANES];
    ls_stream s = {.source = in < end ? in++ : NULL};
    if (s.source && in < end && in->op == LS_TILE_OP_FN && in->a == s.source->dst && in->b < 0 && in->log2 == 2) {
        s.fn = in++;
        s.store = in < end && in->op == LS_TILE_OP_STORE && in->a == s.fn->dst && in->dtype == LS_F32 ? in++ : NULL;
    }
    return in == end ? s : (ls_stream){0};
}

/* Whether whole rows are runs. */
static bool has_rows(const ls_program *p, int access, int rows) {
    const ls_access *a = &p->accesses[access];
    return a->n_dims > 0 && !a->n_tables && !a->may_be_absent && a->dims[a->n_dims - 1].stride == 1 && a->dims[a->n_dims - 1].first <= rows;
}

bool ls_program_streams(const ls_program *p, int n_args, int rows) {
    ls_stream s = stream_of(p);
    if (!s.source || p->n_instrs[LS_SECTION_POINT] || p->n_periodic || p->results[0] != (s.fn ? s.fn : s.source)->dst || p->results[1] >= 0) {
        return false;
    }
    if (s.store && (p->accesses[s.store->access].buffer < n_args || !has_rows(p, s.store->access, rows))) {
        return false;
    }
    if (s.source->op != LS_TILE_OP_FUSED) {
        return s.source->op == LS_TILE_OP_LOAD && s.source->dtype == LS_F32 && has_rows(p, s.source->access, rows);
    }
    const ls_fused *f = p->fused[s.source->access];
    bool all = s.source->dst >= 0;
    for (int k = 0; k < f->n_operands; k++) {
        all = all && ((f->slots >> k & 1) || (f->loads[k] && has_rows(p, f->loads[k] - 1, rows)));
    }
    return all;
}

/* Whether a chain but for its last steps takes at most a number of its row from what it loads. */
static bool is_apart(const ls_fused *f, int last) {
    int n = f->n_steps - last;
    return f->loads[0] && (n == 0 || (n == 1 && f->steps->op == LS_CHAIN_SUB && f->steps->kind == LS_CHAIN_SCALAR));
}

/* What is computed and summed at once: squares, as variances have them, and exponentials, as a softmax has. */
static bool sums_squares(const ls_tile_isa *isa, const ls_stream *s, const ls_fused *f) {
    return isa->fold_squares_f32 && !s->fn && f->n_steps > 0 && f->steps[f->n_steps - 1].op == LS_CHAIN_SQUARE && is_apart(f, 1);
}
static ls_fold_exp_fn exp_sum(const ls_tile_isa *isa, const ls_stream *s, const ls_fused *f) {
    bool fast = s->fn && isa->map_fast && s->fn->fn == isa->map_fast[LS_OP_EXP];
    return (fast || (s->fn && s->fn->fn == isa->map_f32[LS_OP_EXP])) && is_apart(f, 0) ? isa->fold_exp_f32[fast] : NULL;
}

ls_stream ls_stream_of(const ls_program *p, const ls_tile_isa *isa, int which) {
    ls_stream s = stream_of(p);
    bool loads = s.source->op == LS_TILE_OP_LOAD;
    s.load = (ls_fused){.n_operands = 1, .loads = {loads ? 1 + s.source->access : 0}, .store = -1};
    const ls_fused *f = loads ? &s.load : p->fused[s.source->access];
    s.squares = which == LS_FOLD_SUM && sums_squares(isa, &s, f);
    s.exps = which == LS_FOLD_SUM ? exp_sum(isa, &s, f) : NULL;
    s.computes = !loads && !s.squares && !s.exps;
    s.whole = s.squares ? isa->rows_squares_f32 : s.computes || s.fn ? NULL : isa->rows_f32[which];
    return s;
}

void ls_fold_by_rows(ls_run *run, int which, int64_t lane, int64_t rows, int64_t inner, float *partials, float *cells, ls_row_fn finish, void *ctx) {
    const ls_program *p = run->program;
    const ls_tile_isa *isa = run->isa;
    const ls_stream s = ls_stream_of(p, isa, which);
    const ls_fused *f = ls_stream_chain(p, &s);
    const bool squares = s.squares, computes = s.computes;
    const ls_fold_exp_fn exps = s.exps;
    float *own = (float *)(void *)(run->memory + p->reg_offsets[s.source->dst]);
    float *result = s.fn ? (float *)(void *)(run->memory + p->reg_offsets[s.fn->dst]) : NULL;
    const float *stored;
    fused_run r;
    run->expanded = -1;
    ls_run_seek(run, lane);
    ls_run_rows(run, lane, rows * inner);
    const float zero = 0, *minus = f->n_scalars ? run->regs[f->scalars[0]] : &zero;
    begin_fused(&r, run, f, own, rows * inner);
    if (s.store) {
        add_place(&r, &p->accesses[s.store->access], rows * inner, &stored, LS_CHAIN_POINTERS);
    }
    const bool fetches = !computes && run->folds_fetch && r.row.ahead & 1;
    const bool halves = which == LS_FOLD_SUM && run->reads_halves && !computes && !squares && !s.fn && isa->fold_sum_halves_f32;
    const int64_t most = computes || s.fn ? LS_TILE : LS_TILE_BLOCK, blocks = (inner + LS_TILE_BLOCK - 1) / LS_TILE_BLOCK;
    const ls_fold_rows_fn whole = s.whole && !squares && run->reads_four && isa->quarters_f32[which] ? isa->quarters_f32[which] : s.whole;
    const bool even = blocks == 1 ? !halves || inner % LS_TILE_PARTIALS == 0 : inner % LS_TILE_BLOCK == 0;
    if (whole && even && r.n_walks == 0 && !f->n_scalars) { /* one block behind another, of all rows if nobody waits for each */
        const int64_t block = blocks == 1 ? inner : LS_TILE_BLOCK, some = finish ? blocks : rows * blocks;
        for (int64_t row = 0; row < (finish ? rows : 1); row++) {
            const float *x = r.row.at[0] + row * inner;
            if (halves) {
                isa->rows_sum_halves_f32(cells, x, block, some);
            } else {
                whole(cells, x, 0, block, some, fetches && block >= LS_TILE_PARTIALS ? LS_FOLD_AHEAD : 0);
            }
            if (finish) {
                finish(ctx, row);
            }
        }
        return;
    }
    for (int64_t row = 0; row < rows; row++, cells += finish ? 0 : blocks) {
        float apart = minus[f->by_row ? row : 0];
        for (int64_t at = 0, part; at < inner; at += part) {
            bool begins = at % LS_TILE_BLOCK == 0;
            part = inner - at < most ? inner - at : most;
            find_places(&r, part);
            const float *x = computes ? own : r.row.at[0];
            result = s.store ? (float *)(uintptr_t)stored : result;
            for (int64_t done = 0; computes && done < part;) {
                done += next_fused(&r, own + done, part - done);
            }
            if (!computes) {
                step_walks(&r, part);
                go_on(&r, part);
            }
            if (s.fn && !exps) {
                s.fn->fn(result, x, NULL, NULL, part);
                x = result;
            }
            if (exps) {
                const ls_tile_beside beside = {.fetch = (uintptr_t)result + LS_FETCH_AHEAD, .second = run->fetches_second};
                exps(partials, result, x, apart, part, begins, &beside);
            } else if (squares) {
                isa->fold_squares_f32(partials, x, apart, part, begins, fetches);
            } else if (halves) {
                isa->fold_sum_halves_f32(partials, x, part, begins);
            } else {
                isa->fold_f32[which](partials, x, part, begins, fetches);
            }
            if (at + part == inner || (at + part) % LS_TILE_BLOCK == 0) {
                isa->halve_f32[which](partials);
                cells[at / LS_TILE_BLOCK] = *partials;
            }
        }
        if (finish) {
            finish(ctx, row);
        }
    }
}
