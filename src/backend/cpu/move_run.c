/* Runs store phases that compute nothing (move.c): elements go from where they lie straight to where they are stored, a row of the innermost axes
 * after another, and through no register of a tile program. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/walk.h"
#include <string.h>

enum {
    AHEAD = 4 << 10,                  /* bytes of rows that lie anywhere, from the one at hand to the one that is fetched, */
    MOST_FETCHED = 1 << 9,            /* and bytes of that: what follows them the processor foresees */
    LEAST_FAR = LS_LIMIT(1 << 10, 16) /* bytes of a row that is stored past the caches */
};

/* The rows that follow in one group of a source's axes, or what is left of one. */
typedef struct source {
    walk w;
    const int64_t *places; /* of the rows, of a TAKE */
    int64_t lane;          /* in its row, of a TAKE */
    int64_t offset, step;  /* of the first lane, in elements, and from a row to the next */
    int64_t from, until;   /* the lanes that are there, where a row is; */
    int n_entries;         /* and what its place depends on */
    const int32_t *entries[LS_ACCESS_TABLES];
    int32_t apart[LS_ACCESS_TABLES];
} source;

/* Finds the rows from where the source is; how many lanes they have. `rows`: how many there are. */
static int64_t find_rows(source *s, int64_t *rows) {
    const ls_run *run = s->w.run;
    const ls_access *a = s->w.access;
    const int last = a->n_dims - 1;
    int64_t n = walk_room(&s->w), place[LS_ACCESS_TABLES];
    const int64_t left = s->places ? run->row_inner - s->lane : n;
    n = n < left ? n : left;
    s->offset = s->w.base;
    s->step = last > 0 ? a->dims[last - 1].stride : 0;
    s->from = s->n_entries = 0;
    s->until = n;
    *rows = last > 0 && n == s->w.extent[last] && (!s->places || n == run->row_inner) ? s->w.extent[last - 1] - s->w.pos[last - 1] : 1;
    table_places(&s->w, place);
    for (int t = 0; t < a->n_tables; t++) {
        const ls_table *table = &a->tables[t];
        if (table->inner) {
            const ls_table_row *row = &table->rows[table->n_axes > 1 ? place[t] / table->inner_extent : 0];
            const int64_t start = row->start - s->w.pos[last], end = start + row->count;
            s->from = start > 0 ? start : 0;
            s->until = end < 0 ? 0 : end < s->until ? end : s->until;
            s->from = s->from < s->until ? s->from : s->until;
            s->offset += row->base - start * row->stride;
            *rows = table->n_axes > 1 ? 1 : *rows;
        } else {
            s->entries[s->n_entries] = &table->entries[place[t]];
            s->apart[s->n_entries++] = last > 0 ? table->lane_strides[last - 1] : 0;
        }
    }
    return n;
}

/* Where row r's first lane would be; NULL: none of it is there. */
static const char *find_row(const source *s, const ls_instr *in, int64_t r) {
    const ls_access *a = s->w.access;
    const ls_run *run = s->w.run;
    int64_t offset = s->offset + r * s->step;
    bool here = true;
    for (int t = 0; t < s->n_entries; t++) {
        const int32_t entry = s->entries[t][r * s->apart[t]];
        here = here && entry != LS_TABLE_ABSENT;
        offset += entry;
    }
    if (s->places) {
        here = (uint64_t)s->places[r] < (uint64_t)a->limit;
        offset += here ? s->places[r] * a->factor : 0;
        if (!here) {
            atomic_store_explicit(run->out_of_range, 1 + (int64_t)in->bits, memory_order_relaxed);
        }
    }
    return here ? run->buffers[a->buffer] + offset * (INT64_C(1) << a->log2) : NULL;
}

/* Fetches the beginning of a row some rows behind row r, whose place no processor foresees. */
LS_FETCHING void fetch_row(const source *s, int64_t r, int64_t rows, int64_t n) {
    const ls_access *a = s->w.access;
    const int64_t size = INT64_C(1) << a->log2, bytes = n * size < MOST_FETCHED ? n * size : MOST_FETCHED, ahead = r + 1 + AHEAD / (n * size);
    if (ahead < rows && (uint64_t)s->places[ahead] < (uint64_t)a->limit) {
        const int64_t offset = s->offset + ahead * s->step + s->places[ahead] * a->factor;
        ls_fetch_lines((uintptr_t)s->w.run->buffers[a->buffer] + (uintptr_t)(offset * size), bytes / (int64_t)sizeof(float), false);
    }
}

static void go_on(source *s, int64_t rows, int64_t n) {
    if (rows > 1) {
        walk_skip(&s->w, s->w.access->n_dims - 2, rows, n);
    } else {
        walk_step(&s->w, n);
    }
    if (s->places) {
        s->lane += n;
        s->places += s->lane == s->w.run->row_inner ? rows : 0;
        s->lane = s->lane == s->w.run->row_inner ? 0 : s->lane;
    }
}

/* How elements are written. */
typedef struct writer {
    const ls_tile_isa *isa;
    const ls_instr *store;
    bool far; /* past the caches, where rows are long */
    uint64_t fill;
} writer;

static void put(const writer *w, char *to, const char *from, int64_t n) {
    if (w->far && n * (int64_t)sizeof(float) >= LEAST_FAR) {
        w->isa->far->store_f32(to, from, n);
    } else if (w->store->cast) {
        w->store->cast(to, from, n);
    } else {
        memcpy(to, from, (size_t)n << w->store->log2);
    }
}

static void put_absent(const writer *w, char *to, int64_t n) {
    if (n == 1 && w->store->log2 == 2) {
        memcpy(to, &w->fill, 4);
    } else if (n > 0) {
        w->isa->fill[w->store->log2](to, &w->fill, n);
    }
}

/* How many of the rows from r on, of n lanes each, lie one behind another in source `last`, which is where they come from: no later one has any. */
static int64_t rows_that_follow(const source *s, int last, int n_sources, const ls_instr *code, const char *first, int64_t r, int64_t rows, int64_t n) {
    int64_t m = 1;
    for (bool follows = true; m < rows - r && follows; m += follows) {
        follows = find_row(&s[last], &code[last], r + m) == first + ((m * n) << s->w.access->log2);
        for (int i = last + 1; i < n_sources; i++) {
            follows = follows && !find_row(&s[i], &code[i], r + m);
        }
    }
    return m;
}

/* Rows of n lanes of one source, which lie anywhere or have gaps at their ends. */
static void put_apart(const writer *w, char *to, const source *s, const ls_instr *code, int64_t rows, int64_t n) {
    const int log2 = w->store->log2;
    for (int64_t r = 0; r < rows; r++, to += n << log2) {
        if (s->places) {
            fetch_row(s, r, rows, n);
        }
        const char *from = find_row(s, code, r);
        const int64_t first = from ? s->from : n;
        put_absent(w, to, first);
        if (from) {
            put(w, to + (first << log2), from + (first << log2), s->until - first);
            put_absent(w, to + (s->until << log2), n - s->until);
        }
    }
}

/* Row r of n lanes, each from the last source that has it, and those after it that lie behind it; how many. */
static int64_t put_row(const writer *w, char *to, const source *s, int n_sources, const ls_instr *code, int64_t r, int64_t many, int64_t n) {
    const int log2 = w->store->log2;
    const char *rows[LS_MOVE_SOURCES];
    int last = -1;
    for (int i = 0; i < n_sources; i++) {
        rows[i] = find_row(&s[i], &code[i], r);
        last = rows[i] ? i : last;
    }
    if (last >= 0 && s[last].until - s[last].from == n) {
        const int64_t m = rows_that_follow(s, last, n_sources, code, rows[last], r, many, n);
        put(w, to, rows[last], m * n);
        return m;
    }
    for (int64_t at = 0, end; at < n; at = end) {
        const char *from = NULL;
        end = n;
        for (int i = n_sources - 1; i >= 0 && !from; i--) {
            from = at >= s[i].from && at < s[i].until ? rows[i] : NULL;
            const int64_t edge = from ? s[i].until : rows[i] ? s[i].from : 0;
            end = edge > at && edge < end ? edge : end;
        }
        if (from) {
            put(w, to + (at << log2), from + (at << log2), end - at);
        } else {
            put_absent(w, to + (at << log2), end - at);
        }
    }
    return 1;
}

static void put_joined(const writer *w, char *to, const source *s, int n_sources, const ls_instr *code, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows;) {
        r += put_row(w, to + r * (n << w->store->log2), s, n_sources, code, r, rows, n);
    }
}

void ls_move_run(ls_run *run, const ls_phase_task *task) {
    const ls_program *p = run->program;
    const int n_sources = task->phase->moves;
    const ls_instr *code = p->instrs[LS_SECTION_LANES], *store = &code[n_sources];
    const ls_access *to = &p->accesses[store->access];
    const int64_t size = INT64_C(1) << store->log2;
    const bool far = store->dtype == LS_F32 && run->isa->far && ls_is_streamed(run->spec, to->buffer);
    const writer w = {run->isa, store, far, p->accesses[code[0].access].fill};
    char *dst = run->buffers[to->buffer] + (to->offset + task->first) * size;
    source sources[LS_MOVE_SOURCES];
    int64_t most = p->row_axes ? LS_TILE - 1 : task->n; /* as many rows as registers have lanes */
    for (int i = p->row_axes; i > 0 && i < p->n_lane_axes; i++) {
        most *= run->extents[p->lane_axes[i]];
    }
    for (int64_t at = 0, n; at < task->n; at += n) {
        n = task->n - at < most ? task->n - at : most;
        ls_run_seek(run, task->first + at);
        ls_run_rows(run, task->first + at, n);
        for (int i = 0; i < n_sources; i++) {
            walk_begin(&sources[i].w, run, &p->accesses[code[i].access], n);
            sources[i].places = code[i].op == LS_TILE_OP_TAKE ? run->regs[code[i].a] : NULL;
            sources[i].lane = run->row_lane;
        }
        for (int64_t done = 0, part, rows; done < n; done += rows * part) {
            part = n - done;
            rows = part;
            for (int i = 0; i < n_sources; i++) {
                int64_t some;
                const int64_t room = find_rows(&sources[i], &some);
                rows = some < rows ? some : rows;
                rows = i && room != part ? 1 : rows;
                part = room < part ? room : part;
            }
            rows = part * rows > n - done ? (n - done) / part : rows;
            const bool apart = n_sources == 1 && (sources[0].places || sources[0].until - sources[0].from < part);
            if (apart) {
                put_apart(&w, dst, sources, code, rows, part);
            } else {
                put_joined(&w, dst, sources, n_sources, code, rows, part);
            }
            dst += rows * part * size;
            for (int i = 0; i < n_sources; i++) {
                go_on(&sources[i], rows, part);
            }
        }
    }
}
