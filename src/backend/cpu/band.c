/* Phases taken together, block by block of the axes that all their spaces begin with: a normalisation reads its rows
 * from memory once, and from the first cache for its mean, its variance and its result. A block's values between
 * phases are a worker's own. One batch of tasks does the whole kernel.
 *
 * Invariants: a phase's points of a block are consecutive, because its space begins with the band's axes in their
 * order; a value that is kept between phases is read at the point where it was made, so within the block; nothing
 * that is stored is read in the same kernel. */
#include "backend/cpu/kernel.h"
#include <string.h>

enum {
    BLOCK_BYTES = 256 << 10, /* half of it is read again and again, from the second-level cache: what is written need not stay */
    LEAST_COLUMNS = 64       /* lanes of a block that reads columns: pieces of lines of many rows take many times as long */
};

static size_t align_up(size_t n) {
    return (n + LS_ALIGN - 1) & ~(size_t)(LS_ALIGN - 1);
}

/* Keeps what the band's axes and these have in common at their front. */
static void keep_common(const ls_spec *spec, ls_band *band, bool *first, int n, const uint8_t *axes) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (ls_dim_is_one(spec->extents_of_axes[axes[i]])) {
            continue;
        }
        if (*first && kept < LS_LANE_AXES) {
            band->axes[kept++] = axes[i];
        } else if (kept < band->n_axes && band->axes[kept] == axes[i]) {
            kept++;
        } else {
            break;
        }
    }
    band->n_axes = kept;
    *first = false;
}

static bool may_be_cut(const ls_spec *spec) {
    for (int32_t v = 0; v < spec->n_values; v++) {
        const ls_value *x = &spec->values[v];
        if (x->op == LS_V_CONTRACT || x->op == LS_V_SCAN || x->op == LS_V_SORT ||
            (x->op == LS_V_LOAD && spec->args[x->arg].written)) {
            return false;
        }
    }
    for (int i = 0; i < spec->n_stores; i++) {
        const ls_store *s = &spec->stores[i];
        if (s->combine != LS_STORE_SET || s->check != LS_SPEC_NONE) {
            return false;
        }
        for (int j = 0; j < i; j++) { /* whose second store may have to come after all of the first */
            if (spec->stores[j].arg == s->arg) {
                return false;
            }
        }
    }
    return true;
}

static void common_axes(const ls_spec *spec, ls_band *band) {
    bool first = true;
    int reductions = 0;
    *band = (ls_band){0};
    if (!may_be_cut(spec)) {
        return;
    }
    for (int32_t v = 0; v < spec->n_values; v++) {
        uint8_t axes[LS_SPEC_MAX_AXES];
        int n = 0;
        for (uint64_t left = spec->values[v].axes; left; left &= left - 1) {
            axes[n++] = (uint8_t)__builtin_ctzll(left);
        }
        if (spec->values[v].op == LS_V_REDUCE) {
            keep_common(spec, band, &first, n, axes);
            reductions++;
        }
    }
    for (int i = 0; i < spec->n_stores; i++) {
        keep_common(spec, band, &first, spec->stores[i].n_axes, spec->stores[i].axes);
    }
    for (int i = 1; i < band->n_axes;
         i++) { /* points of a block are consecutive in temporaries laid out by bounds */
        if (!ls_dim_is_fixed(spec->extents_of_axes[band->axes[i]])) {
            band->n_axes = i;
        }
    }
    band->n_axes = reductions ? band->n_axes : 0;
}

static int64_t band_points(const ls_spec *spec, const ls_band *band) { /* by bounds */
    int64_t n = ls_spec_points(spec, band->axes, band->n_axes);
    return n > 0 ? n : 1;
}

void ls_band_choose(const ls_kernel_binary *b, ls_band *band) {
    common_axes(&b->spec, band);
    if (ls_has_threads(b->device) && band_points(&b->spec, band) < 4 * (int64_t)b->device->threads) {
        band->n_axes = 0;
    }
}

bool ls_band_holds(const ls_spec *spec, const ls_band *band, int32_t value) {
    int i = 0;
    for (uint64_t left = spec->values[value].axes; left && i < band->n_axes; left &= left - 1) {
        int axis = __builtin_ctzll(left);
        if (!ls_dim_is_one(spec->extents_of_axes[axis]) && axis != band->axes[i++]) {
            return false;
        }
    }
    return band->n_axes > 0 && i == band->n_axes;
}

/* Places what a worker needs; false when out of memory. */
static bool place(ls_kernel_binary *b, size_t temps) {
    ls_band *band = &b->band;
    band->phases = LS_ARENA_ARRAY(&b->arena, size_t, b->n_phases + 1);
    if (!band->phases) {
        return false;
    }
    size_t at = align_up(sizeof(char *) * (size_t)(b->spec.n_args + b->n_temps) +
                         sizeof(ls_run) * 2 * (size_t)b->n_phases);
    band->temps = at;
    at += temps;
    for (int i = 0; i < b->n_phases; i++) {
        const ls_phase *phase = &b->phases[i];
        band->phases[i] = at;
        at += align_up(ls_run_bytes(&phase->program) + ls_run_bytes(&phase->finish) + phase->extra +
                       4 * LS_ALIGN);
    }
    band->list = at;
    band->scratch = at + (band->lines ? ls_rows_bytes() : 0) + LS_ALIGN;
    b->scratch_size = band->scratch > b->scratch_size ? band->scratch : b->scratch_size;
    return true;
}

bool ls_band_plan(ls_kernel_binary *b) {
    const ls_spec *spec = &b->spec;
    ls_band *band = &b->band;
    ls_band_choose(b, band);
    int64_t points = band_points(spec, band);
    band->n_axes = b->n_phases < 2 ? 0 : band->n_axes;
    bool shared = false;
    for (int i = 0; i < b->n_temps; i++) {
        shared = shared || spec->values[b->temps[i].value].op == LS_V_MAP; /* was kept for a block's sake */
    }
    for (int i = 0; i < b->n_phases && band->n_axes; i++) { /* a patch is larger than a block */
        band->n_axes = b->phases[i].patch < 0 || shared ? band->n_axes : 0;
    }
    for (int i = 0; i < b->n_phases && band->n_axes; i++) {
        b->phases[i].patch = -1;
    }
    const int64_t lines = ls_rows_plan(b);
    band->lines = lines > 0;
    double bytes = 0;
    for (int i = 0; i < spec->n_args && band->n_axes; i++) {
        bytes += (double)spec->args[i].numel * (double)ls_dtype_size(spec->args[i].dtype) / (double)points;
    }
    for (int i = 0; i < b->n_phases && band->n_axes; i++) {
        const bool columns = b->phases[i].kind == LS_PHASE_COLUMNS || b->phases[i].kind == LS_PHASE_ARG_COLUMNS;
        band->n_axes = columns && bytes * LEAST_COLUMNS > BLOCK_BYTES ? 0 : band->n_axes;
    }
    size_t own = 0;
    b->temps_size = 0;
    for (int i = 0; i < b->n_temps; i++) {
        ls_temp *temp = &b->temps[i];
        if (ls_band_holds(spec, band, temp->value)) {
            temp->point = temp->bytes / (size_t)points;
            temp->result = band->n_axes && !lines ? ls_kept_in_result(b, i) : 0;
            bytes += temp->result ? 0 : (double)temp->point;
        } else {
            temp->offset = b->temps_size;
            b->temps_size += align_up(temp->bytes) + LS_ALIGN;
        }
    }
    if (!band->n_axes) {
        return true;
    }
    band->block = lines       ? lines
                  : bytes < 1 ? points
                              : (int64_t)(BLOCK_BYTES / bytes) + 1;
    for (int i = 0; i < b->n_temps; i++) {
        if (b->temps[i].point && !b->temps[i].result) {
            b->temps[i].offset = own;
            own += align_up(b->temps[i].point * (size_t)band->block) + LS_ALIGN;
        }
    }
    /* Folds of rows fetch for themselves; besides, lines come in order, which the processor foresees. */
    for (int i = 0; i < b->n_phases; i++) {
        if (!b->phases[i].streams) {
            ls_fetch_results(&b->phases[i].program);
        }
        ls_fetch_results(&b->phases[i].finish);
    }
    return place(b, own);
}

/* ---- running ---- */
typedef struct band_run {
    ls_kernel_run *kernel;
    int64_t points, part; /* of a task */
} band_run;

/* Points of phase `i` for each of the band's. */
static int64_t points_within(const ls_kernel_run *kernel, int i) {
    const ls_phase *phase = &kernel->binary->phases[i];
    const ls_band *band = &kernel->binary->band;
    int64_t all = 1;
    int matched = 0;
    for (int a = 0; a < phase->n_axes; a++) {
        bool own = matched < band->n_axes && phase->axes[a] == band->axes[matched];
        matched += own;
        all *= own ? 1 : kernel->extents[phase->axes[a]];
    }
    return all;
}

void ls_band_place(ls_kernel_run *kernel, char *scratch, int64_t first) {
    const ls_kernel_binary *b = kernel->binary;
    for (int t = 0; t < b->n_temps; t++) {
        if (b->temps[t].result) {
            kernel->buffers[b->spec.n_args + t] = kernel->buffers[b->temps[t].result - 1];
        } else if (b->temps[t].point) { /* where point 0 would be */
            uintptr_t own = (uintptr_t)(scratch + b->band.temps + b->temps[t].offset);
            kernel->buffers[b->spec.n_args + t] = (char *)(own - (uintptr_t)first * b->temps[t].point);
        }
    }
}

static void run_block(ls_kernel_run *kernel, char *scratch, int64_t first, int64_t n) {
    const ls_kernel_binary *b = kernel->binary;
    ls_band_place(kernel, scratch, first);
    for (int i = 0; i < b->n_phases; i++) {
        int64_t within = points_within(kernel, i);
        ls_phase_points(
            &(ls_phase_task){kernel, &b->phases[i], scratch + b->band.phases[i], first * within, n * within});
    }
}

static void run_points(band_run *r, int64_t first, int64_t n, int worker) {
    const ls_kernel_binary *b = r->kernel->binary;
    char *scratch = b->device->scratch + (size_t)worker * b->device->scratch_size;
    ls_run *runs = (ls_run *)(void *)scratch;
    char **buffers = (char **)(void *)(runs + 2 * b->n_phases);
    memcpy(buffers, r->kernel->buffers, sizeof *buffers * (size_t)(b->spec.n_args + b->n_temps));
    ls_kernel_run own = {.binary = b, .launch = r->kernel->launch, .buffers = buffers};
    memcpy(own.extents, r->kernel->extents, sizeof own.extents);
    for (int i = 0; i < b->n_phases; i++) {
        ls_phase_task task = {&own, &b->phases[i], scratch + b->band.phases[i], 0, 0};
        size_t offset = 0;
        if (b->phases[i].kind != LS_PHASE_STORE) {
            ls_phase_begin(&task, &b->phases[i].program, &offset, &runs[2 * i]);
        }
        ls_phase_begin(&task, &b->phases[i].finish, &offset, &runs[2 * i + 1]);
    }
    own.begun = runs;
    bool done = b->band.lines && ls_rows_run(&own, scratch, first, n);
    for (int64_t at = 0; at < n && !done; at += b->band.block) {
        run_block(&own, scratch, first + at, n - at < b->band.block ? n - at : b->band.block);
    }
    if (!LS_SMALL && b->device->tiles->far) {
        b->device->tiles->far->fence();
    }
    int64_t out_of_range = atomic_load_explicit(&own.out_of_range, memory_order_relaxed);
    if (out_of_range) {
        atomic_store_explicit(&r->kernel->out_of_range, out_of_range, memory_order_relaxed);
    }
}

static void run_task(void *ctx, long task, int worker) {
    band_run *r = ctx;
    int64_t first = task * r->part, left = r->points - first;
    run_points(r, first, left < r->part ? left : r->part, worker);
}

void ls_band_run(ls_kernel_run *kernel) {
    const ls_kernel_binary *b = kernel->binary;
    band_run r = {kernel, ls_point_count(kernel->extents, b->band.n_axes, b->band.axes), 0};
    double work = 0;
    for (int i = 0; i < b->n_phases; i++) {
        work += (double)b->phases[i].cost * (double)points_within(kernel, i) * (double)r.points;
    }
    if (r.points == 0) {
        return;
    }
    if (r.points == 1 || !ls_is_worth_threads(b->device, work, LS_SMALL_WORK)) {
        run_points(&r, 0, r.points, 0);
        return;
    }
    r.part = ls_task_points(b->device, r.points, 1, work);
    ls_pool_run(b->device->pool, (long)((r.points + r.part - 1) / r.part), run_task, &r);
}
