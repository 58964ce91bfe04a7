/* Vetting: a kernel that was just compiled for a device whose language promises too little is run on awkward bits and
 * compared with `ref`, before anything locked uses it. The verdict is kept with the disk cache, under the whole text of the
 * kernel, the device and its driver.
 *
 * The device runs the whole kernel, at the bounds of its symbols and once more below them; `ref` computes as many of its
 * elements as a fixed number of operations allows: every n-th (n has no factor with a tile), and of huge results a corner.
 * So the work is bounded, and a vet is a sample: check mode compares all of a run. Kernels over more than MAX_BYTES are not
 * vetted (their log line says so), nor are the variants that a launch may make for odd offsets. */
#include "engine/vet.h"
#include "base/os.h"
#include "device/cache.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BYTES = 512 << 20, MAX_POINTS = 1 << 19, VERSION = 1 };
#define BUDGET 4e5   /* operations of `ref` a pass */
#define MAX_COST 3e7 /* of one element */

typedef struct vet {
    ls_device *device, *ref;
    const ls_spec *spec;
    ls_kernel_binary *binary; /* the device's */
    ls_arena arena;
    double cost;            /* operations of one element, at most */
    ls_spec sampled;        /* what `ref` runs */
    int64_t every;          /* elements that it computes: 0, every, 2 * every ... */
    bool all;               /* it computes every one */
    int64_t *symbols;
    uint8_t *bytes, *want, *mask; /* of the largest argument */
    ls_buffer **args[2];          /* on the device, on `ref` */
    size_t *offsets;
    ls_launch_profile *profile; /* while launches are timed by the device's clock */
} vet;

/* ---- awkward bits ---- */

static uint64_t awkward_float(ls_dtype dtype, uint64_t h, uint64_t rarity) {
    const int mantissa = dtype == LS_F16 ? 10 : dtype == LS_BF16 ? 7 : dtype == LS_F32 ? 23 : 52;
    const int exponent = dtype == LS_F16 ? 5 : dtype == LS_F64 ? 11 : 8;
    const uint64_t bias = (UINT64_C(1) << (exponent - 1)) - 1, ones = (UINT64_C(1) << exponent) - 1;
    const uint64_t m = h >> 11 & ((UINT64_C(1) << mantissa) - 1), sign = (h & 1) << (exponent + mantissa);
    const uint64_t pick = h >> 1 & 1023;
    if (rarity && (h >> 40) % rarity == 0) { /* infinities, NaNs, the ends of the normal and subnormal numbers, any bits */
        const uint64_t all = (UINT64_C(1) << mantissa) - 1;
        const uint64_t special[] = {ones << mantissa, ones << mantissa | m | 1, (ones - 1) << mantissa | all, 1, all,
                                    UINT64_C(1) << mantissa, m, (pick & ones) << mantissa | m};
        return sign | special[pick >> 7];
    }
    if (pick < 48) { /* zeros and subnormals */
        return sign | (pick < 32 ? 0 : m);
    }
    return sign | (bias - 6 + pick % 10) << mantissa | m; /* 2^-6 to 2^3 */
}

static uint64_t awkward_integer(uint64_t h) {
    switch (h & 3) { /* most are good as indices */
    case 0:
    case 1:
        return h >> 2 & 7;
    case 2:
        return (h >> 2) % 1000;
    default:
        return h >> 2;
    }
}

/* -2 to 2: sums of thousands of products are exact in f32, in any order and with any fusion. */
static uint64_t small_integer(ls_dtype dtype, uint64_t h) {
    return ls_value_from_f64(dtype, (double)(h % 5) - 2);
}

enum { TAME, AWKWARD, BELOW, WHOLE, PASSES }; /* BELOW: tame, with symbols below their bounds */

static void fill(void *to, ls_dtype dtype, int64_t n, uint64_t seed, int pass, uint64_t rarity) {
    size_t size = ls_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) {
        uint64_t h = ls_hash_u64((uint64_t)i, seed);
        uint64_t x = dtype == LS_BOOL             ? h & 1
                     : pass == WHOLE && ls_dtype_is_float(dtype) ? small_integer(dtype, h)
                     : ls_dtype_is_float(dtype) ? awkward_float(dtype, h, rarity)
                                                : awkward_integer(h);
        memcpy((char *)to + (size_t)i * size, &x, size); /* the low bytes, on a little-endian host */
    }
}

/* ---- how much `ref` computes ---- */

/* Operations for one element of a store, each value once a combination of the axes that are bound above it. */
static double cost_of(const vet *v, ls_arena *scratch) {
    const ls_spec *s = v->spec;
    double *times = LS_ARENA_ARRAY(scratch, double, s->n_values), cost = 0;
    if (!times) {
        return -1;
    }
    for (int i = 0; i < s->n_stores; i++) {
        times[s->stores[i].value] = 1;
    }
    for (int32_t i = s->n_values - 1; i >= 0; i--) {
        const ls_value *x = &s->values[i];
        double inner = times[i];
        for (int b = 0; b < x->n_bound; b++) {
            inner *= (double)ls_dim_bound(s->extents_of_axes[x->bound[b]]);
        }
        const int32_t from[] = {x->a, x->b, x->c};
        for (int j = 0; j < 3; j++) {
            bool value = from[j] >= 0 && x->op != LS_V_CONST && x->op != LS_V_LOAD && x->op != LS_V_INDEX;
            if (value && times[from[j]] < inner) {
                times[from[j]] = inner;
            }
        }
        cost += inner;
    }
    return cost < 1 ? 1 : cost;
}

static uint64_t bound_axes(const ls_spec *s) {
    uint64_t bound = 0;
    for (int i = 0; i < s->n_values; i++) {
        for (int b = 0; b < s->values[i].n_bound; b++) {
            bound |= UINT64_C(1) << s->values[i].bound[b];
        }
    }
    return bound;
}

static int64_t points_of(const ls_spec *s, const ls_store *store) {
    return ls_spec_points(s, store->axes, store->n_axes);
}

/* Cuts axes of stores that no reduction runs over, the outermost first, until there are few enough points to walk. */
static bool cut_corner(vet *v) {
    ls_spec *s = &v->sampled;
    uint64_t bound = bound_axes(s);
    for (int i = 0; i < s->n_stores; i++) {
        const ls_store *store = &s->stores[i];
        for (int a = 0; a < store->n_axes && points_of(s, store) > MAX_POINTS; a++) {
            ls_dim *extent = &s->extents_of_axes[store->axes[a]];
            int64_t n = ls_dim_bound(*extent), rest = points_of(s, store) / (n ? n : 1);
            int64_t most = MAX_POINTS / (rest ? rest : 1);
            if (!(bound >> store->axes[a] & 1) && n > 1) {
                *extent = ls_dim_fixed(most > 1 ? most : 1);
                v->all = false;
            }
        }
        if (points_of(s, store) > 8 * MAX_POINTS) {
            return false;
        }
    }
    return true;
}

static int64_t gap(double wanted) {
    int64_t n = wanted < 1 ? 1 : wanted > 1e9 ? 1000000000 : (int64_t)wanted;
    while (n > 1 && (n % 2 == 0 || n % 3 == 0 || n % 5 == 0 || n % 7 == 0)) {
        n++;
    }
    return n;
}

/* The spec with one more predicate a store: its element is a multiple of `every`. */
static ls_status sample(vet *v, ls_error *err) {
    ls_spec *s = &v->sampled;
    int n = 0, at = 0;
    LS_TRY(err, ls_spec_copy(&v->arena, v->spec, s, err));
    v->all = true;
    if (!cut_corner(v)) {
        v->every = 0;
        return LS_OK;
    }
    int64_t points = 0;
    for (int i = 0; i < s->n_stores; i++) {
        points += points_of(s, &s->stores[i]);
        n += s->stores[i].n_preds + 1;
    }
    v->every = gap((double)points * v->cost / BUDGET);
    if (v->every == 1) {
        return LS_OK;
    }
    v->all = false;
    ls_pred *preds = LS_ARENA_ARRAY(&v->arena, ls_pred, s->n_preds + n);
    if (!preds) {
        return LS_FAIL_MEMORY(err, "vetting a kernel");
    }
    memcpy(preds, s->preds, sizeof *preds * (size_t)s->n_preds);
    at = s->n_preds;
    for (int i = 0; i < s->n_stores; i++) {
        ls_store *store = &s->stores[i];
        preds[at] = (ls_pred){.ix = store->ix, .limit = LS_SPEC_NONE, .multiple = v->every};
        memcpy(preds + at + 1, preds + store->first_pred, sizeof *preds * (size_t)store->n_preds);
        store->first_pred = at;
        at += ++store->n_preds;
    }
    s->preds = preds;
    s->n_preds = at;
    return LS_OK;
}

/* ---- one pass ---- */

static size_t arg_bytes(const vet *v, int i) {
    return (size_t)v->spec->args[i].numel * ls_dtype_size(v->spec->args[i].dtype);
}

static ls_status fill_args(vet *v, int pass, ls_error *err) {
    for (int i = 0; i < v->spec->n_args; i++) {
        const ls_spec_arg *arg = &v->spec->args[i];
        size_t size = arg_bytes(v, i);
        double rarity = v->cost < 4 ? 4 : v->cost; /* about one awkward value in what an element is made of */
        if (arg->written) {
            memset(v->bytes, LS_POISON, size);
        } else {
            fill(v->bytes, arg->dtype, arg->numel, (uint64_t)(i * 16 + pass), pass, pass == AWKWARD ? (uint64_t)rarity : 0);
        }
        for (int d = 0; d < 2; d++) {
            LS_TRY(err, ls_buffer_upload(v->args[d][i], 0, v->bytes, size, err));
        }
    }
    return LS_OK;
}

static ls_status launch(vet *v, int d, ls_kernel_binary *binary, ls_buffer *status_word, ls_error *err) {
    for (int i = 0; i < v->spec->n_args; i++) {
        v->offsets[i] = v->args[d][i]->base;
    }
    ls_launch l = {.n_args = v->spec->n_args, .args = v->args[d], .offsets = v->offsets, .symbols = v->symbols,
                   .profile = v->profile};
    if (status_word) { /* what it reports is not compared: `ref` saw only some elements */
        l.status = status_word;
        l.status_offset = status_word->base;
    }
    ls_device *device = d ? v->ref : v->device;
    return device->backend->launch(device, binary, &l, err);
}

/* Marks the elements that `ref` wrote: those that come out the same over any old contents. */
static ls_status mark(vet *v, ls_kernel_binary *on_ref, int arg, ls_error *err) {
    size_t size = arg_bytes(v, arg);
    memset(v->mask, 0xff, size);
    if (v->all) {
        return LS_OK;
    }
    memset(v->bytes, 0x5a, size);
    LS_TRY(err, ls_buffer_upload(v->args[1][arg], 0, v->bytes, size, err));
    LS_TRY(err, launch(v, 1, on_ref, NULL, err));
    LS_TRY(err, ls_buffer_download(v->args[1][arg], 0, v->bytes, size, err));
    for (size_t i = 0; i < size; i++) {
        v->mask[i] = v->bytes[i] == v->want[i] ? 0xff : 0;
    }
    return LS_OK;
}

/* An online softmax is exact on no numbers. Its weights are at most 1 and sum to 1; each passes at most two roundings a key
 * (its sum, and scaling down), some 64 in its exponential and the division, and one to the type of the values, which are at
 * most 2; so is the result, which is rounded once more. The same holds of `ref`. */
static bool is_near(const vet *v, ls_dtype dtype, const uint8_t *got, const uint8_t *want) {
    uint64_t g = 0, w = 0;
    double keys = 1;
    if (v->spec->kind != LS_GROUP_ATTENTION || !ls_dtype_is_float(dtype)) {
        return false;
    }
    memcpy(&g, got, ls_dtype_size(dtype));
    memcpy(&w, want, ls_dtype_size(dtype));
    for (int i = 0; i < v->spec->n_values; i++) {
        const ls_value *x = &v->spec->values[i];
        for (int b = 0; b < x->n_bound; b++) {
            keys += (double)ls_dim_bound(v->spec->extents_of_axes[x->bound[b]]);
        }
    }
    double unit = dtype == LS_F16 ? 0x1p-11 : dtype == LS_BF16 ? 0x1p-8 : 0x1p-24;
    double apart = ls_value_to_f64(dtype, g) - ls_value_to_f64(dtype, w);
    return (apart < 0 ? -apart : apart) <= 2 * 2 * ((2 * keys + 64) * 0x1p-24 + 2 * unit);
}

static ls_status compare(vet *v, ls_kernel_binary *on_ref, int arg, int64_t *inout_compared, ls_error *err) {
    const ls_spec_arg *a = &v->spec->args[arg];
    size_t size = ls_dtype_size(a->dtype), bytes = arg_bytes(v, arg);
    LS_TRY(err, ls_buffer_download(v->args[1][arg], 0, v->want, bytes, err));
    LS_TRY(err, mark(v, on_ref, arg, err));
    LS_TRY(err, ls_buffer_download(v->args[0][arg], 0, v->bytes, bytes, err));
    for (int64_t i = 0; i < a->numel; i++) {
        const uint8_t *got = v->bytes + (size_t)i * size, *want = v->want + (size_t)i * size;
        if (!v->mask[(size_t)i * size]) {
            continue;
        }
        ++*inout_compared;
        if (memcmp(got, want, size) != 0 && !is_near(v, a->dtype, got, want)) {
            uint64_t g = 0, w = 0;
            memcpy(&g, got, size);
            memcpy(&w, want, size);
            return LS_FAIL(err, LS_ERR_DIFFERS,
                           "%s gets kernel %s wrong: element %" PRId64 " of argument %d (%s) is %0*" PRIx64
                           ", ref has %0*" PRIx64,
                           v->device->id, v->spec->name, i, arg, ls_dtype_name(a->dtype), (int)(2 * size), g,
                           (int)(2 * size), w);
        }
    }
    return LS_OK;
}

/* Asks a late device for all results; LS_ERR_AGAIN until all are there. */
static ls_status ask(vet *v, ls_error *err) {
    ls_status all = LS_OK;
    for (int i = 0; v->device->late && i < v->spec->n_args; i++) {
        ls_status one = v->spec->args[i].written ? ls_buffer_download(v->args[0][i], 0, v->bytes, arg_bytes(v, i), err) : LS_OK;
        if (one != LS_OK && one != LS_ERR_AGAIN) {
            return one;
        }
        all = one == LS_OK ? all : one;
    }
    return all;
}

static ls_status run_pass(vet *v, int pass, ls_kernel_binary *on_ref, ls_buffer *status_word, int64_t *inout_compared,
                          ls_error *err) {
    LS_TRY(err, fill_args(v, pass, err));
    LS_TRY(err, ls_buffer_fill(status_word, 0, 0, status_word->size, err));
    LS_TRY(err, launch(v, 0, v->binary, status_word, err));
    LS_TRY(err, ask(v, err));
    LS_TRY(err, launch(v, 1, on_ref, NULL, err));
    for (int i = 0; i < v->spec->n_args; i++) {
        if (v->spec->args[i].written) {
            LS_TRY(err, compare(v, on_ref, i, inout_compared, err));
        }
    }
    return LS_OK;
}

/* ---- the whole ---- */

/* Values of all symbols of the context: the bounds, or (below) two thirds of them. True when the spec has any. */
static bool set_symbols(vet *v, bool below) {
    bool any = false;
    ls_mutex_lock(v->device->context->mutex);
    for (const ls_symbol *s = v->device->context->symbols; s; s = s->next) {
        v->symbols[s->index] = below ? s->bound - s->bound / 3 : s->bound;
    }
    ls_mutex_unlock(v->device->context->mutex);
    for (int i = 0; i < v->spec->n_axes; i++) {
        any = any || v->spec->extents_of_axes[i].symbol;
    }
    for (int i = 0; i < v->spec->n_dims; i++) {
        any = any || v->spec->dims[i].symbol;
    }
    return any;
}

static ls_status allocate(vet *v, ls_buffer **out_word, ls_error *err) {
    size_t most = 1;
    v->args[0] = LS_ARENA_ARRAY(&v->arena, ls_buffer *, v->spec->n_args);
    v->args[1] = LS_ARENA_ARRAY(&v->arena, ls_buffer *, v->spec->n_args);
    v->offsets = LS_ARENA_ARRAY(&v->arena, size_t, v->spec->n_args);
    if (!v->args[0] || !v->args[1] || !v->offsets) {
        return LS_FAIL_MEMORY(err, "vetting a kernel");
    }
    for (int i = 0; i < v->spec->n_args; i++) {
        most = arg_bytes(v, i) > most ? arg_bytes(v, i) : most;
        LS_TRY(err, ls_buffer_create(v->device, arg_bytes(v, i), &v->args[0][i], err));
        LS_TRY(err, ls_buffer_create(v->ref, arg_bytes(v, i), &v->args[1][i], err));
    }
    v->bytes = ls_arena_alloc(&v->arena, most);
    v->want = ls_arena_alloc(&v->arena, most);
    v->mask = ls_arena_alloc(&v->arena, most);
    v->symbols = LS_ARENA_ARRAY(&v->arena, int64_t, atomic_load(&v->device->context->n_symbols) + 1);
    if (!v->bytes || !v->want || !v->mask || !v->symbols) {
        return LS_FAIL_MEMORY(err, "vetting a kernel");
    }
    return ls_buffer_create(v->device, 256, out_word, err);
}

static void release(vet *v, ls_buffer *word) {
    for (int i = 0; i < v->spec->n_args && v->offsets; i++) {
        ls_buffer_release(v->args[0][i]);
        ls_buffer_release(v->args[1][i]);
    }
    ls_buffer_release(word);
}

static ls_status run_all(vet *v, int64_t *out_compared, ls_error *err) {
    ls_kernel_binary *on_ref = NULL;
    ls_buffer *word = NULL;
    ls_status status = allocate(v, &word, err);
    if (status == LS_OK) {
        status = v->ref->backend->compile(v->ref, &v->sampled, NULL, &on_ref, err);
    }
    for (int pass = 0; pass < PASSES && (status == LS_OK || status == LS_ERR_AGAIN); pass++) {
        bool locked = v->spec->math == LS_LOCKED; /* other kernels are exact on small integers alone */
        if ((set_symbols(v, pass == BELOW) || pass != BELOW) && (locked ? pass != WHOLE : pass == WHOLE)) {
            ls_status one = run_pass(v, pass, on_ref, word, out_compared, err);
            status = one == LS_OK ? status : one;
        }
    }
    if (on_ref) {
        v->ref->backend->destroy(v->ref, on_ref);
    }
    release(v, word);
    return status;
}

static const char *too_large(vet *v, ls_error *err, ls_status *out_status) {
    double bytes = 0;
    *out_status = LS_OK;
    for (int i = 0; i < v->spec->n_args; i++) {
        bytes += (double)v->spec->args[i].numel * (double)ls_dtype_size(v->spec->args[i].dtype);
    }
    v->cost = cost_of(v, &v->arena);
    if (v->cost < 0) {
        *out_status = LS_FAIL_MEMORY(err, "vetting a kernel");
        return NULL;
    }
    if (bytes > MAX_BYTES) {
        return "its arguments are too large";
    }
    if (v->cost > MAX_COST) {
        return "one element of it is too much work";
    }
    *out_status = sample(v, err);
    return *out_status == LS_OK && v->every == 0 ? "its result is too large" : NULL;
}

static ls_status examine(vet *v, ls_error *err) {
    ls_status status;
    int64_t compared = 0;
    LS_TRY(err, ls_device_open(v->device->context, "ref", &v->ref, err));
    const char *reason = too_large(v, err, &status);
    if (reason) {
        ls_context_log(v->device->context, LS_LOG_INFO, "%s: kernel %s is not vetted: %s", v->device->id, v->spec->name,
                       reason);
        return LS_OK;
    }
    LS_TRY(err, status);
    uint64_t begin = ls_os_nanoseconds();
    LS_TRY(err, run_all(v, &compared, err));
    ls_context_log(v->device->context, LS_LOG_DEBUG, "%s: kernel %s is vetted: %lld elements in %.1f ms", v->device->id,
                   v->spec->name, (long long)compared, (double)(ls_os_nanoseconds() - begin) * 1e-6);
    return LS_OK;
}

ls_status ls_vet_kernel(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, ls_error *err) {
    vet v = {.device = device, .spec = spec, .binary = binary};
    ls_arena_init(&v.arena, device->heap);
    ls_status status = examine(&v, err);
    ls_arena_free(&v.arena);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

/* Seconds of one launch, by the device's clock where it has one: the best of rounds, each long enough for the clock. */
static ls_status time_launches(vet *v, ls_buffer *word, double *out_seconds, ls_error *err) {
    const ls_backend *backend = v->device->backend;
    ls_launch_profile profile = {0};
    int n = 1;
    v->profile = v->device->clock ? &profile : NULL;
    *out_seconds = 1e30;
    LS_TRY(err, ls_buffer_fill(word, 0, 0, word->size, err));
    for (int round = 0; round < 7; round++) {
        uint64_t ticket = 0, begin = ls_os_nanoseconds();
        int done = 0;
        profile.nanoseconds = 0;
        for (int i = 0; i < n; i++) {
            LS_TRY(err, launch(v, 0, v->binary, word, err));
        }
        if (backend->submit) {
            LS_TRY(err, backend->submit(v->device, &ticket, err));
            LS_TRY(err, backend->wait(v->device, ticket, 1, &done, err));
        }
        uint64_t on_host = ls_os_nanoseconds() - begin; /* also for a clock too coarse to have seen anything */
        double spent = (double)(profile.nanoseconds ? profile.nanoseconds : on_host) * 1e-9;
        if (round > 0 && spent / n < *out_seconds) { /* the first warms up */
            *out_seconds = spent / n;
        }
        n = spent < 1e-3 && n < 256 ? n * 4 : n;
    }
    return LS_OK;
}

ls_status ls_vet_time(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, double *out_seconds, ls_error *err) {
    vet v = {.device = device, .spec = spec, .binary = binary, .cost = 1};
    ls_buffer *word = NULL;
    ls_arena_init(&v.arena, device->heap);
    ls_status status = ls_device_open(device->context, "ref", &v.ref, err);
    status = status == LS_OK ? allocate(&v, &word, err) : status;
    if (status == LS_OK) {
        (void)set_symbols(&v, false);
        status = fill_args(&v, TAME, err);
    }
    status = status == LS_OK ? time_launches(&v, word, out_seconds, err) : status;
    release(&v, word);
    ls_arena_free(&v.arena);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

static bool is_wanted(const ls_device *device, const ls_spec *spec) {
    const char *name = device->backend->name, *asked = ls_os_env("LOCKSTEP_VET");
    if (spec->math != LS_LOCKED || !device->defers || (asked && strcmp(asked, "off") == 0)) {
        return false;
    }
    /* PTX says what it rounds; the simulator is itself held to `ref`. */
    return (asked && strcmp(asked, "on") == 0) || (strcmp(name, "cuda") != 0 && strcmp(name, "sim") != 0);
}

static ls_status key_of(const ls_device *device, const ls_kernel_binary *binary, ls_cache_key *out_key, ls_error *err) {
    ls_text text;
    uint32_t version = VERSION;
    ls_text_init(&text, device->heap);
    device->backend->describe(binary, &text);
    bool full = text.failed;
    ls_cache_key_begin(out_key, "vet", device);
    ls_cache_key_add(out_key, &version, sizeof version);
    ls_cache_key_add(out_key, text.data, text.len);
    ls_text_free(&text);
    return full ? LS_FAIL_MEMORY(err, "vetting a kernel") : LS_OK;
}

ls_status ls_vet(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, ls_error *err) {
    ls_cache_key key;
    void *verdict;
    size_t size;
    if (!is_wanted(device, spec)) {
        return LS_OK;
    }
    if (device->backend->describe) {
        LS_TRY(err, key_of(device, binary, &key, err));
        if (ls_cache_get(device->heap, &key, &verdict, &size)) { /* only good ones are kept */
            ls_free(device->heap, verdict);
            atomic_fetch_add(&device->verdicts, 1);
            return LS_OK;
        }
    }
    uint64_t begin = ls_os_nanoseconds();
    ls_status status = ls_vet_kernel(device, spec, binary, err);
    atomic_fetch_add(&device->vets, status != LS_ERR_AGAIN);
    atomic_fetch_add(&device->vet_ns, ls_os_nanoseconds() - begin);
    if (status == LS_OK && device->backend->describe) {
        (void)ls_cache_put(device->heap, &key, "right", 5);
    }
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}
