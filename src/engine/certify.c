/* Certification: a device may claim locked results only after small graphs, run through all that a user's
 * graph goes through, gave the bits whose hashes are written here (the reference's: a compiler that breaks
 * that one is found too). What differs is then compared with the reference element by element. Each probe
 * is a sample of what hardware and compilers get wrong. */
#include "base/sha256.h"
#include "engine/exec.h"
#include <lockstep/ops.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 64, DEEP = 515, MAX_BYTES = 1 << 15 };

/* A number of any bit pattern, or (tame) one between 2^-8 and 2^8 of either sign. */
static uint32_t awkward_bits(uint32_t i, bool tame) {
    uint32_t bits = (uint32_t)ls_hash_u64(i, 0x10c57e9);
    return tame ? (bits & 0x807fffffu) | (119u + (bits >> 23) % 16) << 23 : bits;
}

static ls_tensor *numbers(ls_session *s, ls_shape shape, uint32_t seed, bool tame) {
    static const uint32_t special[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f800000,
                                       0xbf800001, 0x33800000, 0x477ff000, 0x38800000};
    uint32_t data[8200];
    int64_t n = ls_shape_numel(&shape, NULL);
    for (int64_t i = 0; i < n; i++) {
        bool pick = !tame && i < (int64_t)(sizeof special / sizeof *special);
        data[i] = pick ? special[i] : awkward_bits(seed + (uint32_t)i, tame);
    }
    return ls_tensor_from(s, LS_F32, shape, data);
}

static ls_tensor *any(ls_session *s, uint32_t seed) {
    return numbers(s, LS_SHAPE(LINE), seed, false);
}

static ls_tensor *probe_contract(ls_session *s) {
    return ls_matmul(s, numbers(s, LS_SHAPE(11, DEEP), 1, true), numbers(s, LS_SHAPE(DEEP, 7), 9000, true));
}

static ls_tensor *probe_reduce(ls_session *s) {
    return ls_sum(s, numbers(s, LS_SHAPE(2, 4100), 3, true), 1, (int[]){1}, 0);
}

static ls_tensor *probe_divide(ls_session *s) {
    return ls_div(s, any(s, 5), numbers(s, LS_SHAPE(LINE), 77, true));
}

static ls_tensor *probe_sqrt(ls_session *s) {
    return ls_sqrt(s, ls_abs(s, any(s, 11)));
}

static ls_tensor *probe_subnormal(ls_session *s) {
    ls_tensor *tiny =
        ls_mul(s, numbers(s, LS_SHAPE(LINE), 13, true), ls_full(s, LS_F32, LS_SHAPE(LINE), 0x1p-132));
    return ls_add(s, tiny, ls_mul(s, tiny, ls_full(s, LS_F32, LS_SHAPE(LINE), 0.5)));
}

static ls_tensor *probe_half(ls_session *s) {
    ls_tensor *x = any(s, 17);
    ls_tensor *pair[] = {ls_bitcast(s, ls_cast(s, x, LS_F16), LS_U16),
                         ls_bitcast(s, ls_cast(s, x, LS_BF16), LS_U16)};
    return ls_concat(s, pair, 2, 0);
}

static ls_tensor *probe_elementary(ls_session *s) {
    static ls_tensor *(*const functions[])(ls_session *, ls_tensor *) = {
        ls_exp, ls_log, ls_sin, ls_cos, ls_tanh, ls_erf, ls_expm1, ls_log1p, ls_cbrt, ls_atan};
    ls_tensor *parts[sizeof functions / sizeof *functions + 1], *x = any(s, 19);
    size_t n = sizeof functions / sizeof *functions;
    for (size_t i = 0; i < n; i++) {
        parts[i] = functions[i](s, x);
    }
    parts[n] = ls_pow(s, ls_abs(s, x), numbers(s, LS_SHAPE(LINE), 23, true));
    return ls_stack(s, parts, (int)n + 1, 0);
}

static ls_tensor *probe_integers(ls_session *s) {
    ls_tensor *a = ls_bitcast(s, any(s, 29), LS_I32), *b = ls_bitcast(s, any(s, 31), LS_I32);
    ls_tensor *parts[] = {ls_div(s, a, b), ls_rem(s, a, b), ls_mul(s, a, b), ls_shr(s, a, b),
                          ls_cast(s, any(s, 37), LS_I32)};
    return ls_stack(s, parts, 5, 0);
}

static ls_tensor *probe_extremes(ls_session *s) {
    ls_tensor *a = any(s, 41), *b = ls_flip(s, ls_neg(s, a), 0);
    ls_tensor *parts[] = {ls_min(s, a, b), ls_max(s, a, b), ls_rint(s, a)};
    return ls_stack(s, parts, 3, 0);
}

/* Reads outside: NaN, and the run says so. */
static ls_tensor *probe_gather(ls_session *s) {
    static const int32_t index[] = {3, -1, 63, 64, INT32_MAX, INT32_MIN, 0, 7};
    return ls_gather(s, any(s, 43), ls_tensor_from(s, LS_I32, LS_SHAPE(8), index), 0);
}

static const struct {
    const char *name;
    ls_tensor *(*build)(ls_session *s);
    ls_status expected;
    const char *sha256; /* of the reference's bytes: the first 16 digits */
} probes[] = {
    {"contraction", probe_contract, LS_OK, "d6956fb98c02fbac"},
    {"reduction", probe_reduce, LS_OK, "52c414c9d9f5733e"},
    {"division", probe_divide, LS_OK, "5cb7c9db4aad2710"},
    {"square root", probe_sqrt, LS_OK, "c0c61955d36898e4"},
    {"subnormals", probe_subnormal, LS_OK, "e9d2405a13057cc1"},
    {"rounding to f16 and bf16", probe_half, LS_OK, "18ba814a3a4e51e3"},
    {"elementary functions", probe_elementary, LS_OK, "e3a8b58a06f37f04"},
    {"integers", probe_integers, LS_OK, "393cd2d3bf618a78"},
    {"minimum and maximum", probe_extremes, LS_OK, "e7f07303cac9dc07"},
    {"reads out of range", probe_gather, LS_ERR_RANGE, "86bf7d2296823c11"},
};

/* The bytes of a probe on a device. */
static ls_status run_probe(ls_device *device, size_t probe, uint8_t *bytes, size_t *out_size, ls_error *err) {
    ls_session *session;
    LS_TRY(err, ls_session_create(device->context, device, &session, err));
    ls_tensor *result = probes[probe].build(session);
    ls_status status = ls_realize(session, &result, 1);
    if (result && status == probes[probe].expected) {
        *out_size = ls_tensor_bytes(session, result);
        ls_session_clear_error(session);
        status = *out_size <= MAX_BYTES ? ls_read(session, result, bytes, *out_size) : LS_ERR_INTERNAL;
    } else if (status == LS_OK) {
        LS_FAIL(err, LS_ERR_DEVICE, "%s reported nothing", probes[probe].name);
        status = LS_ERR_DEVICE;
    }
    if (status != LS_OK) {
        LS_FAIL(err, status, "probe %s: %s", probes[probe].name, ls_session_error(session)->message);
    }
    ls_session_destroy(session);
    return status;
}

static ls_status compare_with_ref(ls_device *device, size_t probe, const uint8_t *bytes, size_t size,
                                  ls_error *err) {
    ls_device *ref;
    size_t ref_size = 0;
    LS_TRY(err, ls_device_open(device->context, "ref", &ref, err));
    uint8_t *expected = ls_alloc(device->heap, MAX_BYTES);
    if (!expected) {
        return LS_FAIL_MEMORY(err, "certification");
    }
    ls_status status = run_probe(ref, probe, expected, &ref_size, err);
    for (size_t i = 0; status == LS_OK && i < size; i++) {
        if (size != ref_size || bytes[i] != expected[i]) {
            uint32_t have = 0, want = 0;
            memcpy(&have, bytes + i / 4 * 4, i / 4 * 4 + 4 <= size ? 4 : size - i / 4 * 4);
            memcpy(&want, expected + i / 4 * 4, i / 4 * 4 + 4 <= size ? 4 : size - i / 4 * 4);
            status = LS_FAIL(err, LS_ERR_DEVICE, "%s: word %zu is %08x, expected %08x", probes[probe].name,
                             i / 4, have, want);
        }
    }
    ls_free(device->heap, expected);
    return status;
}

static ls_status check_hash(size_t probe, const uint8_t *bytes, size_t size, ls_error *err) {
    ls_sha256 sha;
    char text[65];
    ls_sha256_init(&sha);
    ls_sha256_add(&sha, bytes, size);
    ls_sha256_hex(&sha, text);
    text[16] = 0;
    if (strcmp(text, probes[probe].sha256) != 0) {
        return LS_FAIL(err, LS_ERR_DEVICE, "%s: the bytes hash to %s, expected %s", probes[probe].name, text,
                       probes[probe].sha256);
    }
    return LS_OK;
}

static ls_status certify(ls_device *device, ls_error *err) {
    bool is_ref = strcmp(device->backend->name, "ref") == 0;
    uint8_t *bytes = ls_alloc(device->heap, MAX_BYTES);
    if (!bytes) {
        return LS_FAIL_MEMORY(err, "certification");
    }
    ls_status status = LS_OK;
    for (size_t i = 0; (status == LS_OK || status == LS_ERR_AGAIN) && i < sizeof probes / sizeof *probes; i++) {
        size_t size = 0;
        ls_status one = run_probe(device, i, bytes, &size, err);
        if (one == LS_OK && check_hash(i, bytes, size, NULL) != LS_OK) {
            one = is_ref ? LS_OK : compare_with_ref(device, i, bytes, size, err);
            one = one == LS_OK ? check_hash(i, bytes, size, err) : one;
        }
        status = one == LS_OK ? status : one; /* a late device is asked all of them at once */
    }
    ls_free(device->heap, bytes);
    return status;
}

ls_status ls_device_certify(ls_device *device, ls_error *err) {
    ls_mutex *mutex = device->context->mutex;
    ls_mutex_lock(mutex);
    int locked = device->locked;
    ls_mutex_unlock(mutex);
    if (locked == 0) { /* two threads may both try: they find the same */
        ls_error found = {0};
        ls_numerics numerics = ls_numerics_enter();
        ls_status status = certify(device, &found);
        ls_numerics_leave(numerics);
        if (status == LS_ERR_MEMORY || status == LS_ERR_AGAIN) {
            return LS_FAIL(err, status, "%s", found.message);
        }
        ls_mutex_lock(mutex);
        locked = status == LS_OK ? 1 : -1;
        if (device->locked == 0) {
            snprintf(device->locked_reason, sizeof device->locked_reason, "%.255s", found.message);
            device->locked = locked;
        }
        ls_mutex_unlock(mutex);
    }
    return locked == 1 ? LS_OK
                       : LS_FAIL(err, LS_ERR_DEVICE, "%s is refused for locked results: %s", device->id,
                                 device->locked_reason);
}

/* One entry; info->id empty when this backend has no device of this number (number 0 has an entry in any case). */
static ls_status list_entry(ls_context *context, const ls_backend *backend, int index, ls_device_info *info) {
    ls_device *device;
    ls_error err = {0};
    memset(info, 0, sizeof *info);
    snprintf(info->id, sizeof info->id, index ? "%s:%d" : "%s", backend->name, index);
    ls_status status = ls_device_open(context, info->id, &device, &err);
    if (status == LS_ERR_AGAIN) {
        return status;
    }
    if (status != LS_OK) {
        snprintf(info->reason, sizeof info->reason, "%.255s", err.message);
        info->id[0] = index ? 0 : info->id[0];
        return LS_OK;
    }
    info->available = 1;
    info->caps = device->caps;
    status = ls_device_certify(device, &err);
    info->locked = status == LS_OK ? 1 : -1;
    snprintf(info->reason, sizeof info->reason, "%.255s", info->locked == 1 ? "" : device->locked_reason);
    return status == LS_ERR_AGAIN ? status : LS_OK;
}

ls_status ls_device_list(ls_context *context, ls_device_info *out_infos, int *inout_count, ls_error *err) {
    int room = *inout_count, n = 0;
    for (int i = 0; ls_backends[i]; i++) {
        const char *name = ls_backends[i]->name;
        if (strcmp(name, "null") == 0 || strcmp(name, "sim") == 0) { /* for tests: no device of this machine */
            continue;
        }
        ls_device_info info = {.available = 1};
        for (int index = 0; index < 64 && info.available; index++) {
            if (list_entry(context, ls_backends[i], index, &info) == LS_ERR_AGAIN) {
                return LS_FAIL(err, LS_ERR_AGAIN, "%s has not answered yet", info.id);
            }
            if (info.id[0] && n++ < room) {
                out_infos[n - 1] = info;
            }
        }
    }
    *inout_count = n;
    return LS_OK;
}
