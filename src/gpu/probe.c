/* What a device's arithmetic does by itself: kernels of a few instructions over awkward bits, on the device and in the
 * interpreter. A trait whose probe comes out wrong is taken away, and the probe is run again on what legalisation does in its
 * place: that must be right, or the device may not claim locked results.
 *
 * A probe is a sample; each kernel that is compiled later is looked at again (engine/vet.c). */
#include "base/map.h"
#include "gpu/internal.h"
#include "kir/build.h"
#include <string.h>

enum { POINTS = 4096, THREADS = 64, MAX_RESULTS = 4 };

/* Builds results from two words of input; gives their number. Results are u32, but for what a probe stores itself. */
typedef int (*probe_fn)(ls_kb *kb, ls_val x, ls_val y, ls_val *out);

typedef struct probe {
    ls_ktrait trait;
    const char *name;
    uint32_t needs; /* traits without which there is nothing to ask; itself among them: the device does without it */
    ls_dtype store; /* of the results */
    probe_fn build;
} probe;

static ls_val word_of(ls_kb *kb, ls_val x) {
    return ls_kb_bitcast(kb, ls_kb_canon(kb, x), LS_U32);
}
static ls_val f32_of(ls_kb *kb, ls_val word) {
    return ls_kb_bitcast(kb, word, LS_F32);
}
/* Between 2^-16 and 2^16, so that no result of one operation is subnormal. */
static ls_val tame(ls_kb *kb, ls_val word) {
    ls_val kept = ls_kb_and(kb, word, ls_kb_u32(kb, 0x8f7fffffu));
    return f32_of(kb, ls_kb_add(kb, kept, ls_kb_u32(kb, (127 - 16) << 23)));
}

static int probe_bits(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val a = f32_of(kb, x), b = f32_of(kb, y), one = ls_kb_u32(kb, 1), zero = ls_kb_u32(kb, 0);
    out[0] = ls_kb_bitcast(kb, ls_kb_select(kb, ls_kb_lt(kb, a, b), a, b), LS_U32);
    out[1] = ls_kb_add(kb, ls_kb_select(kb, ls_kb_le(kb, a, b), one, zero),
                       ls_kb_select(kb, ls_kb_ne(kb, a, a), ls_kb_u32(kb, 2), zero));
    out[2] = word_of(kb, ls_kb_min(kb, a, b));
    out[3] = word_of(kb, ls_kb_max(kb, ls_kb_neg(kb, a), ls_kb_abs(kb, b)));
    return 4;
}
static int probe_unfused(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val a = tame(kb, x), b = tame(kb, y), c = tame(kb, ls_kb_mul(kb, ls_kb_xor(kb, x, y), ls_kb_u32(kb, 0x9e3779b1u)));
    ls_val p = ls_kb_mul(kb, a, b);
    out[0] = word_of(kb, ls_kb_add(kb, p, c));
    out[1] = word_of(kb, ls_kb_sub(kb, ls_kb_mul(kb, b, c), p));
    return 2;
}
static int probe_order(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val a = tame(kb, x), c = tame(kb, y), zero = ls_kb_f32(kb, 0);
    out[0] = word_of(kb, ls_kb_sub(kb, ls_kb_add(kb, a, c), a));
    out[1] = word_of(kb, ls_kb_add(kb, ls_kb_mul(kb, a, c), ls_kb_mul(kb, a, ls_kb_f32(kb, 3))));
    ls_val b = f32_of(kb, ls_kb_or(kb, x, ls_kb_u32(kb, 0x00800000u))); /* no subnormals */
    b = ls_kb_select(kb, ls_kb_eq(kb, ls_kb_and(kb, y, ls_kb_u32(kb, 7)), ls_kb_u32(kb, 0)), ls_kb_neg(kb, zero), b);
    out[2] = word_of(kb, ls_kb_add(kb, b, zero));
    out[3] = ls_kb_xor(kb, word_of(kb, ls_kb_mul(kb, b, zero)), ls_kb_shr(kb, word_of(kb, ls_kb_sub(kb, b, b)), ls_kb_u32(kb, 1)));
    return 4;
}
static int probe_subnormal(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val a = f32_of(kb, x), b = f32_of(kb, y);
    ls_val small = f32_of(kb, ls_kb_and(kb, x, ls_kb_u32(kb, 0x80ffffffu))); /* around the least normal number */
    ls_val factor = f32_of(kb, ls_kb_and(kb, y, ls_kb_u32(kb, 0xbfffffffu)));
    ls_val scaled = word_of(kb, ls_kb_mul(kb, a, ls_kb_f32(kb, 0x1p-132f))); /* a constant that may count as zero */
    out[0] = word_of(kb, ls_kb_add(kb, a, b));
    out[1] = word_of(kb, ls_kb_mul(kb, a, b));
    out[2] = ls_kb_add(kb, word_of(kb, ls_kb_mul(kb, small, factor)), ls_kb_mul(kb, scaled, ls_kb_u32(kb, 0x9e3779b1u)));
    out[3] = word_of(kb, ls_kb_sub(kb, small, f32_of(kb, ls_kb_and(kb, y, ls_kb_u32(kb, 0x80ffffffu)))));
    return 4;
}
static int probe_div(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    out[0] = word_of(kb, ls_kb_div(kb, f32_of(kb, x), f32_of(kb, y)));
    out[1] = word_of(kb, ls_kb_div(kb, tame(kb, x), tame(kb, y)));
    return 2;
}
static int probe_sqrt(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    out[0] = word_of(kb, ls_kb_sqrt(kb, f32_of(kb, x)));
    out[1] = word_of(kb, ls_kb_sqrt(kb, ls_kb_abs(kb, f32_of(kb, y))));
    return 2;
}
static int probe_round(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val near = f32_of(kb, ls_kb_and(kb, x, ls_kb_u32(kb, 0xcb7fffffu))), half = ls_kb_f32(kb, 0.5f);
    ls_val whole = ls_kb_cast(kb, ls_kb_shr(kb, ls_kb_bitcast(kb, y, LS_I32), ls_kb_i32(kb, 9)), LS_F32);
    out[0] = word_of(kb, ls_kb_floor(kb, near));
    out[1] = word_of(kb, ls_kb_ceil(kb, f32_of(kb, x)));
    out[2] = word_of(kb, ls_kb_trunc(kb, f32_of(kb, y)));
    out[3] = word_of(kb, ls_kb_rint(kb, ls_kb_mul(kb, whole, half)));
    return 4;
}
static int probe_cast(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    out[0] = word_of(kb, ls_kb_cast(kb, x, LS_F32));
    out[1] = word_of(kb, ls_kb_cast(kb, ls_kb_bitcast(kb, y, LS_I32), LS_F32));
    out[2] = ls_kb_bitcast(kb, ls_kb_cast(kb, f32_of(kb, x), LS_I32), LS_U32);
    out[3] = ls_kb_cast(kb, f32_of(kb, y), LS_U32);
    return 4;
}
static int probe_half(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val f = ls_kb_bitcast(kb, ls_kb_cast(kb, x, LS_U16), LS_F16);
    ls_val mid = f32_of(kb, ls_kb_add(kb, ls_kb_and(kb, y, ls_kb_u32(kb, 0x8fffffffu)), ls_kb_u32(kb, 0x30000000u)));
    out[0] = word_of(kb, ls_kb_cast(kb, f, LS_F32));
    out[1] = ls_kb_cast(kb, ls_kb_bitcast(kb, ls_kb_canon(kb, ls_kb_cast(kb, mid, LS_F16)), LS_U16), LS_U32);
    out[2] = ls_kb_cast(kb, ls_kb_bitcast(kb, ls_kb_canon(kb, ls_kb_cast(kb, f32_of(kb, x), LS_F16)), LS_U16), LS_U32);
    out[3] = word_of(kb, ls_kb_mul(kb, ls_kb_cast(kb, ls_kb_cast(kb, mid, LS_F16), LS_F32), ls_kb_f32(kb, 2))); /* there and back */
    return 4;
}
static int probe_bfloat(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    const ls_val all[3] = {x, y, ls_kb_xor(kb, x, ls_kb_shr(kb, y, ls_kb_u32(kb, 9)))};
    for (int i = 0; i < 3; i++) {
        ls_val half = ls_kb_canon(kb, ls_kb_cast(kb, f32_of(kb, all[i]), LS_BF16));
        out[i] = ls_kb_cast(kb, ls_kb_bitcast(kb, half, LS_U16), LS_U32);
    }
    return 3;
}
static ls_val wide(ls_kb *kb, ls_val x, ls_val y) {
    ls_val high = ls_kb_shl(kb, ls_kb_cast(kb, x, LS_U64), ls_kb_const_int(kb, LS_U64, 32));
    return ls_kb_or(kb, high, ls_kb_cast(kb, y, LS_U64));
}
/* Both words in one, so that a wrong bit of either shows. */
static ls_val folded(ls_kb *kb, ls_val bits) {
    ls_val high = ls_kb_cast(kb, ls_kb_shr(kb, bits, ls_kb_const_int(kb, LS_U64, 32)), LS_U32);
    ls_val spread = ls_kb_mul(kb, high, ls_kb_u32(kb, 0x9e3779b1u));
    return ls_kb_xor(kb, ls_kb_cast(kb, bits, LS_U32), spread);
}
static int probe_int64(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val a = wide(kb, x, y), b = wide(kb, ls_kb_shr(kb, y, ls_kb_and(kb, x, ls_kb_u32(kb, 63))), x);
    ls_val as = ls_kb_bitcast(kb, a, LS_I64), bs = ls_kb_bitcast(kb, b, LS_I64);
    const ls_val all[4] = {ls_kb_mul(kb, a, b), ls_kb_div(kb, a, b), ls_kb_bitcast(kb, ls_kb_rem(kb, as, bs), LS_U64),
                           ls_kb_bitcast(kb, ls_kb_shr(kb, as, ls_kb_and(kb, bs, ls_kb_i64(kb, 127))), LS_U64)};
    for (int i = 0; i < 4; i++) {
        out[i] = folded(kb, all[i]);
    }
    return 4;
}
static int probe_float64(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val a = ls_kb_bitcast(kb, wide(kb, x, y), LS_F64), b = ls_kb_bitcast(kb, wide(kb, y, x), LS_F64);
    ls_val p = ls_kb_mul(kb, a, ls_kb_cast(kb, tame(kb, y), LS_F64));
    const ls_val all[4] = {ls_kb_add(kb, p, a), ls_kb_div(kb, a, b), ls_kb_sqrt(kb, ls_kb_abs(kb, a)), ls_kb_rint(kb, p)};
    for (int i = 0; i < 4; i++) {
        out[i] = folded(kb, ls_kb_bitcast(kb, ls_kb_canon(kb, all[i]), LS_U64));
    }
    return 4;
}
/* With bits of f64 whose exponents lie about the least of f32, and there and back again. */
static int probe_cast64(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    ls_val near = wide(kb, ls_kb_add(kb, ls_kb_and(kb, x, ls_kb_u32(kb, 0x83ffffffu)), ls_kb_u32(kb, 0x36000000u)), y);
    ls_val a = ls_kb_bitcast(kb, wide(kb, x, y), LS_F64), b = ls_kb_bitcast(kb, near, LS_F64);
    ls_val back = ls_kb_mul(kb, ls_kb_cast(kb, ls_kb_cast(kb, b, LS_F32), LS_F64), ls_kb_const_float(kb, LS_F64, 3));
    out[0] = folded(kb, ls_kb_bitcast(kb, ls_kb_canon(kb, ls_kb_cast(kb, f32_of(kb, x), LS_F64)), LS_U64));
    out[1] = word_of(kb, ls_kb_cast(kb, a, LS_F32));
    out[2] = word_of(kb, ls_kb_cast(kb, b, LS_F32));
    out[3] = folded(kb, ls_kb_bitcast(kb, back, LS_U64));
    return 4;
}
static int probe_narrow(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    out[0] = x;
    out[1] = y;
    out[2] = ls_kb_xor(kb, x, y);
    return 3;
}
static int probe_fma(ls_kb *kb, ls_val x, ls_val y, ls_val *out) {
    out[0] = word_of(kb, ls_kb_fma(kb, tame(kb, x), tame(kb, y), tame(kb, ls_kb_xor(kb, x, y))));
    return 1;
}

static const probe probes[] = { /* what others stand on comes first */
    {LS_KT_FLOAT_BITS, "comparison", 0, LS_U32, probe_bits},
    {LS_KT_INT64, "64-bit integers", 0, LS_U32, probe_int64},
    {LS_KT_BYTES, "8-bit stores", 0, LS_U8, probe_narrow},
    {LS_KT_HALVES, "16-bit stores", 0, LS_U16, probe_narrow},
    {LS_KT_UNFUSED32, "multiply-add", 0, LS_U32, probe_unfused},
    {LS_KT_ORDER32, "algebra", 0, LS_U32, probe_order},
    {LS_KT_SUBNORMAL32, "subnormals", 0, LS_U32, probe_subnormal},
    {LS_KT_CAST32, "conversion", 0, LS_U32, probe_cast},
    {LS_KT_ROUND32, "rounding", 0, LS_U32, probe_round},
    {LS_KT_DIV32, "division", 0, LS_U32, probe_div},
    {LS_KT_SQRT32, "square root", 0, LS_U32, probe_sqrt},
    {LS_KT_HALF_CAST, "f16 conversion", 0, LS_U32, probe_half},
    {LS_KT_BFLOAT_CAST, "bf16 conversion", LS_KT_BFLOAT_CAST, LS_U32, probe_bfloat},
    {LS_KT_FLOAT64, "f64", LS_KT_FLOAT64 | LS_KT_INT64, LS_U32, probe_float64},
    {LS_KT_CAST64, "f64 conversion", LS_KT_FLOAT64 | LS_KT_INT64, LS_U32, probe_cast64},
    {LS_KT_FMA32, "fma", LS_KT_FMA32, LS_U32, probe_fma},
};

static ls_status build_probe(ls_arena *arena, const probe *p, ls_kernel *out_kernel, int *out_results, ls_error *err) {
    ls_kb kb;
    ls_val results[MAX_RESULTS];
    ls_kb_init(&kb, arena, "probe", err);
    int in = ls_kb_global(&kb, "in", LS_U32, LS_MEM_READ, 2 * POINTS);
    int out = ls_kb_global(&kb, "out", p->store, LS_MEM_READ_WRITE, MAX_RESULTS * POINTS);
    ls_kb_workgroup(&kb, THREADS, 1, 1);
    ls_kb_grid(&kb, 0, POINTS, LS_VAL_NONE, THREADS);
    ls_val group = ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, THREADS));
    ls_val i = ls_kb_add(&kb, group, ls_kb_local_id(&kb, 0));
    ls_val x = ls_kb_load(&kb, in, i, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_val y = ls_kb_load(&kb, in, ls_kb_add(&kb, i, ls_kb_i32(&kb, POINTS)), LS_VAL_NONE, LS_VAL_NONE, 1);
    *out_results = p->build(&kb, x, y, results);
    for (int r = 0; r < *out_results; r++) { /* results of a point side by side: neighbours share a word */
        ls_val at = ls_kb_add(&kb, ls_kb_mul(&kb, i, ls_kb_i32(&kb, *out_results)), ls_kb_i32(&kb, r));
        ls_kb_store(&kb, out, at, ls_kb_cast(&kb, results[r], p->store), LS_VAL_NONE);
    }
    return ls_kb_finish(&kb, out_kernel);
}

/* Any bits; a third of the points are pairs of special values or their neighbours. */
static void fill_input(uint32_t *in) {
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f812345,
                                       1,          0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x00ffffff,
                                       0x3f800000, 0xbf800000, 0x3f000000, 0x40000000, 0x4b000000, 0xcb800001, 0x4f000000,
                                       0x4effffff, 0x5f000000, 0x7f7fffff, 0xff7fffff, 0x33800000, 0x477fefff, 0x477ff000,
                                       0x38800000, 0x387fffff, 0x33000000, 0x33000001};
    const uint32_t n = sizeof special / sizeof *special;
    for (uint32_t i = 0; i < POINTS; i++) {
        in[i] = (uint32_t)ls_hash_u64(i, 0x70be);
        in[POINTS + i] = (uint32_t)ls_hash_u64(i, 0xc0de);
        if (i < n * n) {
            in[i] = special[i / n];
            in[POINTS + i] = special[i % n] + (i % 7 == 3);
        } else if (i % 4 == 0) { /* quotients and roots next to what is exact */
            in[POINTS + i] = in[i] + (in[POINTS + i] & 3);
        }
    }
}

typedef struct bench {
    ls_gpu *gpu;
    ls_gpu_memory in, out;
    uint32_t *input;
    uint8_t *expected, *got;
} bench;

/* Compares a kernel on the device with the interpreter. *out_at: the first point that differs, or -1. */
static ls_status try_probe(bench *b, ls_arena *arena, const probe *p, uint32_t traits, int64_t *out_at, char *out_value,
                           ls_error *err) {
    ls_gpu *gpu = b->gpu;
    ls_kernel kernel, legal;
    const ls_legal_param *params;
    ls_gpu_code code;
    void *pipeline;
    int n_results;
    uint32_t words[8] = {0};
    size_t width = ls_dtype_size(p->store), bytes = MAX_RESULTS * POINTS * sizeof(uint32_t);
    LS_TRY(err, build_probe(arena, p, &kernel, &n_results, err));
    LS_TRY(err, ls_gpu_prepare(gpu, arena, &kernel, traits, &legal, &params, &code, err));
    ls_gpu_words(&legal, params, NULL, words);
    memset(b->got, 0x5a, bytes);
    LS_TRY(err, gpu->api->write(gpu->driver, b->out.block->block, b->out.offset, b->got, bytes, err));
    LS_TRY(err, gpu->api->build(gpu->driver, &code, &pipeline, err));
    const ls_gpu_range ranges[] = {{b->in.block->block, b->in.offset, 2 * POINTS * sizeof(uint32_t)},
                                   {b->out.block->block, b->out.offset, MAX_RESULTS * POINTS * width}};
    const ls_gpu_dispatch dispatch = {.pipeline = pipeline, .kernel = &legal, .bindings = ranges, .words = words,
                                      .n_words = code.n_words, .groups = {POINTS / THREADS, 1, 1}};
    ls_status status = gpu->api->dispatch(gpu->driver, &dispatch, err);
    if (status == LS_OK) {
        status = gpu->api->read(gpu->driver, b->out.block->block, b->out.offset, b->got, bytes, err);
    }
    gpu->api->drop(gpu->driver, pipeline);
    *out_at = -1;
    const ls_interp_buffer buffers[] = {{b->input, 2 * POINTS, false}, {b->expected, MAX_RESULTS * POINTS, false}};
    memset(b->expected, 0x5a, bytes);
    if (status == LS_OK) {
        status = ls_kernel_interp(gpu->heap, &kernel, &(ls_interp_launch){.buffers = buffers}, err);
    }
    for (int64_t i = 0; status == LS_OK && i < (int64_t)n_results * POINTS && *out_at < 0; i++) {
        if (memcmp(b->got + (size_t)i * width, b->expected + (size_t)i * width, width) != 0) {
            uint32_t is = 0, want = 0, at = (uint32_t)(i / n_results);
            memcpy(&is, b->got + (size_t)i * width, width);
            memcpy(&want, b->expected + (size_t)i * width, width);
            ls_text text;
            ls_text_init(&text, gpu->heap);
            ls_text_printf(&text, "%s of %08x and %08x (result %d) gives %08x, not %08x", p->name, b->input[at],
                           b->input[POINTS + at], (int)(i % n_results), is, want);
            size_t n = text.failed ? 0 : text.len < 159 ? text.len : 159;
            memcpy(out_value, text.data ? text.data : "", n);
            out_value[n] = 0;
            ls_text_free(&text);
            *out_at = at;
        }
    }
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

static void note_way(ls_caps *caps, const char *name) {
    size_t at = strlen(caps->arithmetic), n = strlen(name);
    if (at + n + 3 < sizeof caps->arithmetic) {
        if (at) {
            memcpy(caps->arithmetic + at, ", ", 3);
            at += 2;
        }
        memcpy(caps->arithmetic + at, name, n + 1);
    }
}

static ls_status run_probe(bench *b, const probe *p, ls_error *err) {
    ls_gpu *gpu = b->gpu;
    ls_caps *caps = &gpu->device->caps;
    char value[160] = "";
    int64_t at = -1;
    if ((gpu->limits.traits & p->needs) != p->needs) {
        gpu->limits.traits &= ~(uint32_t)p->trait;
        return LS_OK;
    }
    bool had = gpu->limits.traits & p->trait, optional = p->needs & p->trait;
    for (int attempt = 0; attempt < 2; attempt++) {
        ls_arena arena;
        ls_arena_init(&arena, gpu->heap);
        ls_status status = try_probe(b, &arena, p, gpu->limits.traits, &at, value, err);
        ls_arena_free(&arena);
        LS_TRY(err, status);
        if (at < 0) {
            if (attempt || (!had && !optional)) {
                note_way(caps, p->name);
            }
            return LS_OK;
        }
        if (!(gpu->limits.traits & p->trait) || optional) {
            break;
        }
        gpu->limits.traits &= ~(uint32_t)p->trait;
    }
    if (optional) { /* nothing else depends on it: the device does without */
        gpu->limits.traits &= ~(uint32_t)p->trait;
        return LS_OK;
    }
    gpu->device->locked = -1;
    memcpy(gpu->device->locked_reason, value, sizeof value);
    return LS_OK;
}

ls_status ls_gpu_probe(ls_gpu *gpu, ls_error *err) {
    size_t bytes = MAX_RESULTS * POINTS * sizeof(uint32_t), n = sizeof probes / sizeof *probes;
    bench b = {.gpu = gpu};
    uint32_t traits = gpu->limits.traits;
    char arithmetic[sizeof gpu->device->caps.arithmetic];
    ls_arena arena;
    ls_arena_init(&arena, gpu->heap);
    memcpy(arithmetic, gpu->device->caps.arithmetic, sizeof arithmetic);
    b.input = LS_ARENA_ARRAY(&arena, uint32_t, 2 * POINTS);
    b.expected = ls_arena_alloc(&arena, bytes);
    b.got = ls_arena_alloc(&arena, bytes);
    ls_status status = b.input && b.expected && b.got ? LS_OK : LS_FAIL_MEMORY(err, "a device's probe");
    if (status == LS_OK) {
        fill_input(b.input);
        status = ls_gpu_memory_new(gpu, 2 * POINTS * sizeof(uint32_t), &b.in, err);
    }
    if (status == LS_OK) {
        status = ls_gpu_memory_new(gpu, bytes, &b.out, err);
    }
    if (status == LS_OK) {
        status = gpu->api->write(gpu->driver, b.in.block->block, b.in.offset, b.input, 2 * POINTS * sizeof(uint32_t), err);
    }
    for (size_t i = 0; i < n && (status == LS_OK || status == LS_ERR_AGAIN); i++) {
        ls_status one = run_probe(&b, &probes[i], err); /* a late device is asked for all of them at once */
        status = one == LS_OK ? status : one;
    }
    if (status == LS_ERR_AGAIN) { /* what was concluded stood on traits that the missing answers may take away */
        gpu->limits.traits = traits;
        gpu->device->locked = 0;
        memcpy(gpu->device->caps.arithmetic, arithmetic, sizeof arithmetic);
    }
    ls_gpu_memory_free(gpu, b.in);
    ls_gpu_memory_free(gpu, b.out);
    ls_arena_free(&arena);
    if (!(gpu->limits.traits & LS_KT_FLOAT64)) {
        gpu->device->caps.dtypes &= ~(UINT32_C(1) << LS_F64);
    }
    return status == LS_OK ? LS_OK : LS_FAIL(err, status, "%s: the probe of its arithmetic did not run", gpu->device->id);
}
