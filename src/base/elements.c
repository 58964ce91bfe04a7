/* Elements of arrays by their bits. */
#include "base/elements.h"
#include "base/half.h"
#include <string.h>

uint64_t ls_data_bits(ls_dtype dtype, const void *bytes, int64_t i) {
    size_t size = ls_dtype_size(dtype);
    uint64_t u = 0;
    memcpy(&u, (const char *)bytes + (size_t)i * size, size);
    switch (dtype) {
    case LS_F16: return (u & 0x7fff) > 0x7c00 ? LS_NAN_F16 : u;
    case LS_BF16: return (u & 0x7fff) > 0x7f80 ? LS_NAN_BF16 : u;
    case LS_F32: return (u & 0x7fffffff) > 0x7f800000 ? LS_NAN_F32 : u;
    case LS_F64: return (u & ~(UINT64_C(1) << 63)) > UINT64_C(0x7ff) << 52 ? LS_NAN_F64 : u;
    default: return u;
    }
}

void ls_sha256_elements(ls_sha256 *sha, ls_dtype dtype, const void *bytes, int64_t n) {
    size_t size = ls_dtype_size(dtype);
    uint8_t chunk[4096];
    size_t used = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = ls_data_bits(dtype, bytes, i);
        memcpy(chunk + used, &u, size);
        used += size;
        if (used == sizeof chunk || i == n - 1) {
            ls_sha256_add(sha, chunk, used);
            used = 0;
        }
    }
}
