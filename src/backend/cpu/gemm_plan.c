/*
 * Plans a matrix product: which operand is packed where, and into which blocks C is cut. One task computes
 * one block of C over all of k, so a block's sums and epilogue stay in the cache and tasks never wait for
 * each other.
 */
#include "backend/cpu/gemm_plan.h"

enum {
    DEFAULT_L2 = 1 << 20,
    SHARED_L2S = 8, /* B's panels when packed together, in L2 sizes: memory asked of the caller */
    CACHED_L2S = 12, /* of B, that a processor's last cache surely holds */
    LOCAL_BLOCKS = 3,
    MOST_RESIDENT = 4096,
    CLOSE_ROWS = 1024, /* bytes */
    FEW_ROWS = 48,
    NEAR_ROWS = 256, /* where the second-level cache is near; of both half as many in locked */
    SLOW_NEAR_ROWS = 512, /* there on Zen 4, whose multiply-adds have half the rate, and which fetches_best tells */
    LEAST_NEAR_ROWS = 16,
    KEPT_WAYS = 4,        /* as many k as stay in the first cache, so often: more are read from the second one by each tile */
    SLICE = 64,
    MOST_SLICES = 2, /* at a time */
    MANY_TILES = 4,
    MOST_TALL = 128, /* rows */
    TALL_K = LS_LIMIT(129, 33), /* in locked, where higher tiles of fewer k take longer */
    MOST_LOW = 64, /* k */
    TALL_COLUMNS = LS_LIMIT(512, 96),
    CACHE_WAY = 4096,
    MOST_WAYS = 8,
    PART_COLUMNS = 1024, /* wider rows of B are read as fast by columns */
    LEAST_TASK = LS_LIMIT(1 << 20, 1 << 6), /* multiply-adds of a task: a worker has several only where each has so many */
    ALONE_BYTES = 64 << 10, /* of B */
    EXACT_BYTES = 256, /* 255 * 255 * 256 < 2^24: float sums of so many products of bytes are exact */
};

static int64_t up(int64_t x, int64_t unit) {
    return ls_gemm_ceil_div(x, unit) * unit;
}

static bool is_view(const ls_gemm_operand *o) {
    return !o->packed && !o->pack;
}

/* Whether a kernel can read the elements where they are. */
static bool is_wide_view(const ls_gemm_operand *o) {
    return is_view(o) && ls_gemm_dtype_size(o->dtype) >= 4;
}

static bool same_for_all_batches(const ls_gemm *g, const ls_gemm_operand *o) {
    if (!is_view(o)) {
        return o->packed || o->batch_shared;
    }
    for (int d = 0; d < g->batch_rank; d++) {
        if (g->batch[d] > 1 && o->stride_batch[d] != 0) {
            return false;
        }
    }
    return true;
}

static void exchange(const ls_gemm *g, ls_gemm *out) {
    out->a = g->b;
    out->b = g->a;
    out->m = g->n;
    out->n = g->m;
    out->out.stride_i = g->out.stride_j;
    out->out.stride_j = g->out.stride_i;
}

/* The vector axis should be the one along which C is consecutive; and a column is a row transposed. */
static bool wants_exchange(const ls_gemm *g) {
    if (g->a.packed || g->b.packed) {
        return g->a.packed && g->a.packed->turned;
    }
    if (g->n == 1 && g->m > 1) {
        return true;
    }
    return !g->epilogue && g->out.data && g->out.stride_j != 1 && g->out.stride_i == 1 && g->m > 1;
}

static const ls_gemm_kernels *pick_kernels(const ls_gemm *g, ls_gemm_type type) {
    if (type == LS_GEMM_TYPE_F64) {
        return g->fast ? g->isa->f64_fast : g->isa->f64;
    }
    if (type == LS_GEMM_TYPE_I32) {
        return g->isa->i32;
    }
    if (g->a.dtype == LS_GEMM_PAIRS) {
        return g->isa->pairs->kernels;
    }
    /* Products of two f16 or two 8-bit integers are exact in f32: fused or not is the same. */
    bool f16 = g->a.dtype == LS_GEMM_F16 && g->b.dtype == LS_GEMM_F16;
    bool bytes = g->a.dtype == LS_GEMM_I8 || g->a.dtype == LS_GEMM_U8;
    return g->fast || f16 || bytes ? g->isa->f32_fast : g->isa->f32;
}

/* Whether an operand, if it is a view, is read in lines: others are packed before, where they are small. */
static bool lies_in_lines(const ls_gemm_operand *o) {
    return !o->packed && (o->pack || o->stride_i == 1 || o->stride_k == 1);
}

bool ls_gemm_turns(const ls_gemm *g) {
    enum { LEAST_SAVED = LS_LIMIT(20, 1), LEAST_K = LS_LIMIT(64, 16) }; /* so many rows take as long as packing B; turning, as a few k */
    const ls_gemm_kernels *kernels = pick_kernels(g, LS_GEMM_TYPE_F32);
    const int64_t columns = up(g->n, kernels->lanes), rows = up(g->m, kernels->lanes * kernels->vectors);
    const bool floats = g->a.dtype == LS_GEMM_F32 && g->b.dtype == LS_GEMM_F32 && g->out.dtype == LS_GEMM_F32;
    return !LS_SMALL && floats && g->batch_rank == 0 && lies_in_lines(&g->a) && lies_in_lines(&g->b) && (!g->out.data || g->out.stride_j == 1) &&
           g->n > is_view(&g->a) && g->n <= LS_GEMM_MAX_WIDTH && g->k >= LEAST_K && g->n * rows * 10 <= columns * g->m * 9 &&
           g->n * rows <= columns * (g->m - LEAST_SAVED);
}

static bool rows_are_close(const ls_gemm_operand *o) {
    int64_t step = o->stride_k < 0 ? -o->stride_k : o->stride_k;
    return step * ls_gemm_dtype_size(o->dtype) <= CLOSE_ROWS;
}

/* How many rows of a panel of B stay in the first cache together where they lie: one of CACHE_WAY bytes a way, of which rows a power of two
 * apart share few places. */
static int64_t near_rows(const ls_gemm *g, const ls_gemm_plan *plan) {
    int64_t step = g->b.stride_k * plan->elem, apart = ls_gemm_larger(step & -step, plan->cols * plan->elem);
    return MOST_WAYS * CACHE_WAY / ls_gemm_smaller(apart, CACHE_WAY);
}

/*
 * Rows of B that lie close are read where they are, at the speed of panels. So are rows further apart, for as few rows of A as make
 * packing a panel cost what tiles lose by them, or where they are few themselves. Tiles lose little where the second-level cache is
 * near, most of it with one line of each row, all in one place of the first; elsewhere such a line is gone before the next tile wants it, and packing
 * costs many tiles little (Zen 3: 256 cubed 0.85 of the time).
 */
static bool reads_b_directly(const ls_gemm *g, const ls_gemm_plan *plan) {
    const int64_t near = near_rows(g, plan), part = g->fast ? 1 : 2;
    int64_t rows = FEW_ROWS / part;
    if (g->l2_is_near && g->k > SLICE) {
        const bool spread = near > MOST_WAYS || plan->cols * plan->elem > LS_GEMM_LINE;
        rows = !spread ? LEAST_NEAR_ROWS : g->fetches_best ? SLOW_NEAR_ROWS : NEAR_ROWS / part;
    }
    const bool kept = g->l2_is_near || plan->cols * plan->elem > LS_GEMM_LINE || g->k <= KEPT_WAYS * near;
    return (rows_are_close(&g->b) && kept) || g->m <= rows || (!LS_SMALL && g->k <= ls_gemm_smaller(near, SLICE));
}

/* Of rows further apart, how many k at a time: so many that what a panel has of them stays in the first cache and its translations,
 * where that is needed; else all of a chunk. */
static int64_t far_depth(const ls_gemm *g, const ls_gemm_plan *plan, bool b_is_far) {
    const int64_t tiles = ls_gemm_ceil_div(g->m, plan->rows), slices = ls_gemm_smaller(near_rows(g, plan) / SLICE, MOST_SLICES);
    return !g->l2_is_near || (tiles == 1 && b_is_far) ? SLICE : slices > 0 && tiles < MANY_TILES ? slices * SLICE : LS_GEMM_CHUNK;
}

static bool reads_a_directly(const ls_gemm *g, const ls_gemm_plan *plan) {
    int64_t step = g->a.stride_k == 1 ? g->a.stride_i : g->a.stride_k;
    step = (step < 0 ? -step : step) * plan->elem;
    if (g->a.stride_k ==
        1) { /* as many streams as rows; at such strides they share lines of the cache with C's */
        return g->n <= 16 * plan->cols || step % 2048;
    }
    return g->n <= 2 * plan->cols || (g->n <= 8 * plan->cols && step <= CLOSE_ROWS);
}

/* Also how many rows a block has at most, given how many of A's stay in the second-level cache. */
static int64_t plan_sources(const ls_gemm *g, ls_gemm_plan *plan, int64_t resident, int64_t shared_budget, bool b_is_far) {
    plan->a_source = LS_GEMM_LOCAL;
    plan->b_source = LS_GEMM_LOCAL;
    if (!plan->masks && is_wide_view(&g->a) && reads_a_directly(g, plan)) {
        plan->a_source = LS_GEMM_DIRECT;
    }
    /* So many rows read panels that each task packs just before: A's come from further away then, which costs less than all of B packed beforehand,
     * where that passes through the last cache (Zen 3: 0.9 to 0.98 of the time). */
    const int64_t local = resident * (g->l2_is_near ? 1 : LOCAL_BLOCKS);
    /* Sums are stored once where `plus` may be what they replace. */
    const int64_t depth = far_depth(g, plan, b_is_far);
    bool once = LS_GEMM_FOLLOWS && plan->follows && g->follow.adds && !g->follow.columns && g->k > depth;
    if (!plan->masks && is_wide_view(&g->b) && g->b.stride_i == 1 && (once ? rows_are_close(&g->b) : reads_b_directly(g, plan))) {
        plan->b_source = LS_GEMM_DIRECT;
    } else if (g->m > local && g->k > 0 && g->k * plan->elem * 256 <= shared_budget) {
        plan->b_source = LS_GEMM_SHARED;
    }
    const bool once_packed = plan->b_source == LS_GEMM_LOCAL && !g->b.packed && g->m <= local;
    if (g->a.packed) {
        plan->a_source = LS_GEMM_BEFORE;
    }
    if (g->b.packed) {
        plan->b_source = LS_GEMM_BEFORE;
    }
    if (plan->b_source == LS_GEMM_SHARED && plan->batches > 1 && !same_for_all_batches(g, &g->b)) {
        plan->outer_batches = plan->batches;
        plan->batches = 1;
    }
    plan->depth = plan->panel != plan->sum ? EXACT_BYTES : LS_GEMM_CHUNK;
    if (plan->b_source == LS_GEMM_DIRECT && !rows_are_close(&g->b) && g->m > plan->rows / 2) {
        const int64_t tiles = ls_gemm_ceil_div(g->m, plan->rows);
        if (tiles > 1 && b_is_far) { /* each fetches a line of each row of the next panel */
            plan->cols = ls_gemm_smaller(plan->cols, tiles * plan->kernels->lanes);
        }
        plan->depth = depth;
        plan->resumes = !g->fast && ls_gemm_smaller(g->k, LS_GEMM_CHUNK) > depth;
    }
    return once_packed ? local : resident;
}

static int64_t l2_bytes(const ls_gemm *g) {
    return g->l2_bytes > 0 ? g->l2_bytes : DEFAULT_L2;
}

static int64_t entries_of(const ls_gemm *g) {
    int64_t entries = 1;
    for (int d = 0; d < g->batch_rank; d++) {
        entries *= g->batch[d];
    }
    return entries;
}

static int64_t b_bytes(const ls_gemm *g, int64_t columns) {
    const int64_t element = ls_gemm_larger(ls_gemm_dtype_size(g->b.dtype), 4); /* panels of halves are f32 */
    return g->k * columns * element * (same_for_all_batches(g, &g->b) ? 1 : entries_of(g));
}

/* Whether so many bytes of B come from too far for the tiles that share a panel not to wait. */
static bool is_far(const ls_gemm *g, int64_t bytes) {
    return !g->l2_is_near || bytes > SHARED_L2S * l2_bytes(g);
}

bool ls_gemm_is_low(const ls_gemm *g, const ls_gemm_kernels *kernels) {
    const bool whole = g->m >= 4 * LS_GEMM_LOW_ROWS && g->m % LS_GEMM_LOW_ROWS == 0;
    return !LS_SMALL && g->fast && ls_gemm_stores_far(g) && kernels->vectors == 4 && g->k <= MOST_LOW && whole;
}

bool ls_gemm_is_tall(const ls_gemm *g, const ls_gemm_kernels *kernels, int64_t columns) {
    const bool in_place = is_wide_view(&g->b) && g->b.stride_i == 1 && g->m <= (g->l2_is_near ? MOST_TALL : FEW_ROWS);
    const bool worth = g->fast || (g->l2_is_near && g->k >= TALL_K) || (g->m == 2 * kernels->rows && !is_far(g, b_bytes(g, columns)));
    return !LS_SMALL && worth && kernels->rows > kernels->widest_rows && in_place && columns >= TALL_COLUMNS &&
           !ls_gemm_is_low(g, kernels) && g->m % kernels->rows == 0 && g->m % kernels->widest_rows != 0;
}

/* Panels of each operand are as wide as each other. The widest tiles are less high: two of them take longer than one of all rows. If B
 * is far, there are not two of A's panels: tiles share the fetching of the next panel of B where it lies, a line for each k, and it is
 * three wide or more; but for two that are as high as tiles can be. */
static void plan_panels(const ls_gemm *g, ls_gemm_plan *plan, bool b_is_far) {
    const ls_gemm_kernels *kernels = plan->kernels;
    int64_t widest = kernels->vectors * kernels->lanes, rows = kernels->rows;
    const bool tall = g->a.packed ? g->a.packed->width > kernels->widest_rows : ls_gemm_is_tall(g, kernels, g->n);
    plan->cols = g->b.packed ? g->b.packed->width : ls_gemm_panel_columns(kernels, kernels->vectors - tall, g->n);
    if (plan->cols == widest && !g->b.packed && g->m > kernels->widest_rows && g->m <= rows) {
        plan->cols -= kernels->lanes;
    }
    rows = plan->cols < widest ? rows : ls_gemm_is_low(g, kernels) ? LS_GEMM_LOW_ROWS : kernels->widest_rows;
    int64_t panels = ls_gemm_larger(ls_gemm_ceil_div(g->m, rows), 1);
    panels = panels == 2 && !g->b.packed && !tall && b_is_far ? 3 : panels;
    plan->streamed = plan->b_place == LS_GEMM_MEMORY && g->l2_is_near && ls_gemm_in_lines(plan) && g->m <= LS_GEMM_STREAMED_ROWS;
    plan->rows = g->a.packed ? g->a.packed->width : plan->streamed ? ls_gemm_smaller(g->m, rows) : ls_gemm_larger(ls_gemm_ceil_div(g->m, panels), 1);
}

int64_t ls_gemm_load(int64_t units, int64_t blocks, int64_t others, int64_t workers) {
    int64_t size = ls_gemm_ceil_div(units, blocks);
    return size * ls_gemm_ceil_div(ls_gemm_ceil_div(units, size) * others, workers);
}

int64_t ls_gemm_blocks(int64_t units, int64_t others, int64_t workers, int64_t each, int64_t least) {
    int64_t best = least, least_load = INT64_MAX / 65;
    for (; each > 0; each--) {
        int64_t blocks = ls_gemm_larger(least, ls_gemm_smaller(ls_gemm_ceil_div(each * workers, others), units));
        int64_t load = ls_gemm_load(units, blocks, others, workers);
        if (load * 65 < least_load * 64) {
            least_load = load;
            best = blocks;
        }
    }
    return best;
}

int64_t ls_gemm_even_blocks(int64_t units, int64_t others, int64_t workers, int64_t each, int64_t least) {
    int64_t tasks = ls_gemm_larger(each * workers, up(least * others, workers)), best = least, least_load = INT64_MAX / 65;
    for (int64_t blocks = ls_gemm_smaller(ls_gemm_ceil_div(tasks, others), units); blocks >= least; blocks--) {
        int64_t load = ls_gemm_ceil_div(ls_gemm_ceil_div(blocks * others, workers) * units, blocks);
        if (load * 65 < least_load * 64) {
            least_load = load;
            best = blocks;
        }
    }
    return best;
}

/* Cuts C into blocks no larger than mc_max x nc_max, enough of them to keep the workers busy. */
static void plan_blocks(const ls_gemm *g, ls_gemm_plan *plan, int64_t mc_max, int64_t nc_max) {
    int64_t m_units = ls_gemm_ceil_div(g->m, plan->rows), n_units = ls_gemm_ceil_div(plan->slab, plan->cols);
    int64_t m_blocks = ls_gemm_ceil_div(g->m, mc_max), n_blocks = ls_gemm_ceil_div(plan->slab, nc_max);
    if (plan->workers > 1 && !plan->inline_run && plan->parts == 0) {
        /* Tasks beside each other read, and may pack, the same part of the other operand: best the much smaller, else what is not
         * packed, else the smaller. */
        bool a_free = plan->a_source != LS_GEMM_LOCAL && !plan->vector, b_free = plan->b_source != LS_GEMM_LOCAL;
        bool m_first = b_free ? g->n < 4 * g->m : !a_free && g->n < g->m;
        int64_t worth = g->m * g->n * plan->batches / plan->workers / (LEAST_TASK / ls_gemm_larger(g->k, 1) + 1);
        int64_t each = (m_first ? b_free : a_free) ? ls_gemm_larger(ls_gemm_smaller(worth, LS_TASKS_PER_WORKER), 1) : 1;
        for (int turn = 0; turn < 2; turn++) {
            bool split_m = (turn == 0) == m_first;
            int64_t *blocks = split_m ? &m_blocks : &n_blocks;
            int64_t units = split_m ? m_units : n_units;
            int64_t others = plan->batches * (split_m ? n_blocks : m_blocks);
            *blocks = ls_gemm_even_blocks(units, others, plan->workers, turn == 0 ? each : 1, *blocks);
        }
    }
    plan->mc = ls_gemm_ceil_div(m_units, m_blocks) * plan->rows;
    plan->nc = ls_gemm_ceil_div(n_units, n_blocks) * plan->cols;
    plan->m_blocks = m_blocks;
    plan->n_blocks = n_blocks;
}

/*
 * A row's product by a matrix of few columns is cut along k, so that each worker reads consecutive memory, which comes fastest: the sums of
 * each chunk are kept, and added in order at the end. Not where workers would have more than an eighth more to do than by columns.
 */
static int64_t row_parts(const ls_gemm *g, const ls_gemm_plan *plan) {
    const int64_t chunks = ls_gemm_ceil_div(g->k, LS_GEMM_CHUNK), columns = ls_gemm_ceil_div(g->n, plan->cols);
    const int64_t by_k = ls_gemm_ceil_div(chunks, plan->workers) * LS_GEMM_CHUNK * columns,
                  by_columns = ls_gemm_ceil_div(columns, plan->workers) * g->k;
    const bool cut = !LS_SMALL && plan->vector && !plan->inline_run && g->b.stride_i == 1 && plan->batches == 1;
    return cut && plan->workers > 1 && g->n <= PART_COLUMNS && by_k * 8 <= by_columns * 9 ? ls_gemm_smaller(chunks, plan->workers) : 0;
}

static void plan_workspace(const ls_gemm *g, ls_gemm_plan *plan) {
    int64_t kc = ls_gemm_smaller(g->k, LS_GEMM_CHUNK), at = 0;
    if (plan->a_source == LS_GEMM_LOCAL) {
        at = up(plan->mc * kc * plan->elem, LS_GEMM_ALIGN);
    }
    plan->b_at = at;
    if (plan->b_source == LS_GEMM_LOCAL || (plan->b_source == LS_GEMM_DIRECT && !plan->vector)) {
        at += up(plan->cols * kc * plan->elem, LS_GEMM_ALIGN); /* a panel: where read directly, the last columns */
    }
    plan->c_at = at;
    plan->ldc = plan->nc;
    if (plan->through_tile) {
        at += up(plan->mc * plan->ldc * plan->elem, LS_GEMM_ALIGN);
    }
    plan->turned_at = at;
    if (plan->turned) {
        at += up(plan->mc * plan->nc * plan->elem, LS_GEMM_ALIGN);
    }
    plan->sums_at = at;
    if (plan->resumes && g->k > LS_GEMM_CHUNK) {
        at += up(plan->mc * plan->ldc * plan->elem, LS_GEMM_ALIGN);
    }
    plan->tile_at = at;
    if (plan->vector) {
        at += up(plan->nc * plan->elem, LS_GEMM_ALIGN);
    } else {
        at += up(plan->rows * plan->cols * plan->elem, LS_GEMM_ALIGN);
    }
    plan->mask_at = at;
    if (plan->masks) {
        at += up((plan->rows + plan->cols) * kc * (plan->elem + 1), LS_GEMM_ALIGN);
    }
    plan->worker_bytes = ls_gemm_worker_step(at, plan->workers);
    plan->part_bytes = up(g->n * plan->elem, LS_GEMM_ALIGN);
    plan->shared_bytes = plan->parts > 0 ? ls_gemm_ceil_div(g->k, LS_GEMM_CHUNK) * plan->part_bytes : 0;
    if (plan->b_source == LS_GEMM_SHARED) {
        plan->shared_bytes = up(up(plan->slab, plan->cols) * g->k * plan->elem, LS_GEMM_ALIGN);
    }
}

/* Whether the product is no more than the tiles of a few panels of B in one task and one slice, which need nothing fetched, and what those are. */
static void plan_alone(const ls_gemm *g, ls_gemm_plan *plan) {
    bool floats = plan->panel == LS_GEMM_TYPE_F32 && plan->sum == LS_GEMM_TYPE_F32 && plan->kernels->most_tiles > 1;
    bool in_place = plan->a_source != LS_GEMM_LOCAL && (plan->b_source == LS_GEMM_DIRECT || plan->b_source == LS_GEMM_BEFORE);
    bool small = plan->m_blocks * plan->n_blocks == 1 && g->n * g->k * plan->elem <= ALONE_BYTES && g->k <= plan->depth;
    if (LS_SMALL || !floats || !in_place || !small || !plan->inline_run || plan->masks || plan->vector || plan->through_tile || g->epilogue ||
        plan->kernels->whole_rows || g->batch_rank > 0 || plan->swapped || g->n % plan->cols || g->k <= 0) {
        return;
    }
    ls_gemm_alone *alone = &plan->alone;
    const ls_gemm_operand *a = &g->a;
    const bool panels = a->packed && !a->packed->by_rows;
    const int64_t row = a->packed ? g->k : a->stride_i; /* of A, from one to the next as tiles go on */
    alone->tiles = (ls_gemm_tiles){.kc = g->k,
                                   .a_row = panels ? 1 : row,
                                   .a_k = panels ? plan->rows : a->packed ? 1 : a->stride_k,
                                   .b_k = g->b.packed ? plan->cols : g->b.stride_k,
                                   .ldc = g->out.stride_i};
    if (LS_GEMM_FOLLOWS && plan->follows) {
        alone->tiles.add = g->follow.add;
        alone->tiles.add_step = g->follow.step;
        alone->tiles.plus_row = g->follow.columns ? 0 : g->out.stride_i;
        alone->tiles.floor = g->follow.floor;
    }
    alone->columns = g->n;
    alone->width = plan->cols;
    alone->b_next = plan->cols * (g->b.packed ? g->k : 1);
    const int64_t whole = ls_gemm_whole_tiles(plan, g->m), rest = ls_gemm_last_rows(plan, g->m - whole * plan->rows);
    const int vectors = (int)(plan->cols / plan->kernels->lanes);
    for (int64_t left = g->m; left > 0; alone->n_parts++) {
        const bool tall = left == g->m && whole > 0;
        const int64_t height = tall ? plan->rows : ls_gemm_smaller(rest, left), tiles = tall ? whole : 1;
        const ls_gemm_kernel kernel = plan->kernels->tile[height][vectors];
        alone->parts[alone->n_parts] = (ls_gemm_alone_part){kernel, tiles, tiles * height, height * row, tiles * height * row};
        left -= tiles * height;
    }
}

/* Columns of a row's product whose k are consecutive: as kernels have them, or, where k is one chunk, some that are still near when the next launch
 * begins with them. */
static int64_t row_columns(const ls_gemm *g) {
    enum { AS_KERNELS = 16, PIECE = 64 << 10 };
    const int64_t bytes = g->k * ls_gemm_dtype_size(g->b.dtype) * AS_KERNELS;
    return g->k > LS_GEMM_CHUNK ? g->fast ? AS_KERNELS / 2 : AS_KERNELS : (PIECE / ls_gemm_larger(bytes, 1) + 1) * AS_KERNELS;
}

void ls_gemm_plan_make(const ls_gemm *given, ls_gemm *g, ls_gemm_plan *out_plan) {
    *g = *given;
    ls_gemm_plan *plan = out_plan;
    *plan = (ls_gemm_plan){.g = g, .swapped = wants_exchange(given)};
    if (plan->swapped) {
        exchange(given, g);
        plan->turned = given->a.packed != NULL;
    }
    plan->panel = ls_gemm_panel_type(g->a.dtype);
    if (ls_gemm_in_fours(g->isa, g->a.dtype)) {
        plan->panel = LS_GEMM_TYPE_I32;
        plan->bytes_k = g->k;
        plan->flip_a = ls_gemm_flip(LS_GEMM_A, g->a.dtype);
        plan->flip_b = ls_gemm_flip(LS_GEMM_B, g->b.dtype);
        g->k = ls_gemm_ceil_div(g->k, 4);
    }
    plan->sum = g->a.dtype == LS_GEMM_I8 || g->a.dtype == LS_GEMM_U8 ? LS_GEMM_TYPE_I32 : plan->panel;
    plan->elem = plan->panel == LS_GEMM_TYPE_F64 ? 8 : 4;
    plan->kernels = plan->bytes_k ? g->isa->dots->kernels : pick_kernels(g, plan->panel);
    plan->workers = g->parallel.run && g->parallel.workers > 1 ? g->parallel.workers : 1;
    plan->batches = entries_of(g);
    plan->outer_batches = 1;
    plan->masks = (g->a.absent || g->b.absent) && plan->sum != LS_GEMM_TYPE_I32;
    int out_type = g->out.dtype == LS_GEMM_F32   ? LS_GEMM_TYPE_F32
                   : g->out.dtype == LS_GEMM_F64 ? LS_GEMM_TYPE_F64
                   : g->out.dtype == LS_GEMM_I32 ? LS_GEMM_TYPE_I32
                                                 : -1;
    /* Of one row memory is the limit, and parts of the matrix stay in the workers' caches. */
    int64_t far = LS_INLINE_WORK / (g->m == 1 ? 4 : 1), each = ls_gemm_larger(g->k, 1), results = g->m * g->n * plan->batches;
    plan->inline_run = plan->workers == 1 || results <= ls_least_work(far, g->parallel.near) / each;
    plan->asks = plan->workers > 1 && plan->inline_run && results > ls_least_work(far, true) / each;

    if (g->m == 1 && !plan->masks && plan->panel == plan->sum && is_view(&g->b)) {
        int half = g->b.dtype == LS_GEMM_F16 ? 1 : g->b.dtype == LS_GEMM_BF16 ? 2 : 0;
        const ls_gemm_vector_kernel *rows = g->fast && plan->kernels->row_parts[half] ? plan->kernels->row_parts : plan->kernels->vector_rows;
        const ls_gemm_vector_kernel lines = half == 0 && g->fetches_best ? plan->kernels->vector_lines : NULL;
        plan->vector = g->b.stride_i == 1 ? (lines ? lines : plan->kernels->vector[half]) : g->b.stride_k == 1 ? rows[half] : NULL;
    }
    if (LS_GEMM_FOLLOWS && g->follow.add) {
        plan->follows = plan->kernels->follows && plan->panel == LS_GEMM_TYPE_F32 && out_type == LS_GEMM_TYPE_F32 && g->out.stride_j == 1 &&
                        g->k > 0 && g->k <= LS_GEMM_CHUNK && !plan->vector && !plan->masks && !plan->swapped;
        plan->part = g->epilogue;
        g->epilogue = plan->follows ? NULL : g->epilogue;
        g->out.data = plan->follows ? g->out.data : NULL;
    }
    plan->through_tile = !g->out.data || g->out.stride_j != 1 || out_type != (int)plan->sum;
    const int64_t l2 = l2_bytes(g), bytes = b_bytes(g, g->n);
    const bool b_is_far = is_far(g, bytes);
    if (g->b.packed) {
        plan->b_place = bytes > CACHED_L2S * l2 ? LS_GEMM_MEMORY : bytes > LS_GEMM_NEAREST_CACHE ? LS_GEMM_CACHED : LS_GEMM_NEAREST;
    }
    plan_panels(g, plan, b_is_far);

    /* A's block is read once for every panel of B and stays in the L2 cache; so does B's, if local. */
    int64_t depth = ls_gemm_larger(ls_gemm_smaller(g->k, LS_GEMM_CHUNK), 1);
    int64_t resident = ls_gemm_larger(ls_gemm_smaller(l2 * 3 / 8 / (depth * plan->elem), MOST_RESIDENT), plan->cols);
    int64_t shared_budget = ls_gemm_larger(SHARED_L2S * l2, 256 << 10);
    int64_t mc_max = plan_sources(g, plan, up(resident, plan->rows), shared_budget, b_is_far);
    int64_t nc_max = up(plan->b_source == LS_GEMM_LOCAL && g->epilogue ? resident : 1024, plan->cols);
    if (plan->through_tile) {
        nc_max = ls_gemm_smaller(nc_max, up(512, plan->cols));
    }
    plan->slab = up(ls_gemm_larger(g->n, 1), plan->cols);
    if (plan->vector) {
        plan->a_source = g->a.packed ? LS_GEMM_BEFORE : is_wide_view(&g->a) && g->a.stride_k == 1 ? LS_GEMM_DIRECT : LS_GEMM_LOCAL;
        plan->at_once = g->b.stride_i == 1 || plan->a_source == LS_GEMM_LOCAL ? g->n : row_columns(g);
        plan->b_source = LS_GEMM_DIRECT;
        nc_max = up(4096, plan->cols);
    } else if (plan->b_source == LS_GEMM_SHARED) {
        int64_t fits = shared_budget / (g->k * plan->elem) / plan->cols * plan->cols;
        int64_t slabs = ls_gemm_ceil_div(plan->slab, ls_gemm_larger(fits, plan->cols));
        plan->slab = up(ls_gemm_ceil_div(plan->slab, slabs), plan->cols);
        nc_max = ls_gemm_larger(nc_max, plan->through_tile ? 0 : ls_gemm_smaller(plan->slab, up(4096, plan->cols)));
    }
    if (plan->through_tile) { /* the block of sums stays in the cache as well, for the epilogue */
        int64_t columns = ls_gemm_smaller(plan->slab, nc_max);
        mc_max = ls_gemm_smaller(mc_max, up(ls_gemm_larger(l2 / 4 / (columns * plan->elem), 1), plan->rows));
    }
    plan->parts = row_parts(g, plan);
    plan_blocks(g, plan, mc_max, nc_max);
    plan_workspace(g, plan);
    plan_alone(g, plan);
}

void ls_gemm_plan_move(const ls_gemm_plan *plan, const ls_gemm *g, ls_gemm *problem) {
    for (int s = 0; s < 2; s++) {
        const ls_gemm_operand *from = s ? &g->b : &g->a;
        ls_gemm_operand *to = (s != plan->swapped) ? &problem->b : &problem->a;
        to->data = from->data;
        to->packed = from->packed;
    }
    problem->out.data = !LS_GEMM_FOLLOWS || plan->follows || !g->follow.add ? g->out.data : NULL;
    problem->follow.plus = g->follow.plus;
}

bool ls_gemm_reads_directly(const ls_gemm *g, ls_gemm_side side) {
    const ls_gemm_kernels *kernels = pick_kernels(g, ls_gemm_panel_type(g->a.dtype));
    const bool one_panel = g->n <= kernels->vectors * kernels->lanes && g->n % kernels->lanes == 0;
    return side == LS_GEMM_B && is_wide_view(&g->b) && g->b.stride_i == 1 && rows_are_close(&g->b) && one_panel && !g->a.absent;
}

bool ls_gemm_empty(const ls_gemm *g) {
    bool empty = g->m <= 0 || g->n <= 0;
    for (int d = 0; d < g->batch_rank; d++) {
        empty = empty || g->batch[d] <= 0;
    }
    return empty;
}

size_t ls_gemm_workspace(const ls_gemm *g) {
    if (ls_gemm_empty(g)) {
        return 0;
    }
    ls_gemm problem;
    ls_gemm_plan plan;
    ls_gemm_plan_make(g, &problem, &plan);
    return ls_gemm_plan_bytes(&plan);
}
