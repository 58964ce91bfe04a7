/* SHA-256 as FIPS 180-4 states it; big-endian words are put together by shifts, so it runs on any machine. On x86 the SHA
 * extensions do it where the processor has them: files of weights are checked while a program starts. */
#include "base/sha256.h"
#include <string.h>

#if defined(__x86_64__)
#include "base/known.h"
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n) {
    return (x >> n) | (x << (32 - n));
}

/* One round; the letters move on by the order in which they are given. */
#define ROUND_(a, b, c, d, e, f, g, h, i)                                                                              \
    {                                                                                                                  \
        uint32_t t = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) + constants[i] + w[i];         \
        d += t;                                                                                                        \
        h = t + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));                                  \
    }

static void compress_any(uint32_t state[8], const uint8_t *block, size_t blocks) {
    uint32_t w[64];
    for (; blocks > 0; blocks--, block += 64) {
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 16; i++) {
            const uint8_t *p = block + 4 * i;
            w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        }
        for (int i = 16; i < 64; i++) {
            uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + (rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3)) + w[i - 7] + (rotr(y, 17) ^ rotr(y, 19) ^ (y >> 10));
        }
        for (int i = 0; i < 64; i += 8) {
            ROUND_(a, b, c, d, e, f, g, h, i)
            ROUND_(h, a, b, c, d, e, f, g, i + 1)
            ROUND_(g, h, a, b, c, d, e, f, i + 2)
            ROUND_(f, g, h, a, b, c, d, e, i + 3)
            ROUND_(e, f, g, h, a, b, c, d, i + 4)
            ROUND_(d, e, f, g, h, a, b, c, i + 5)
            ROUND_(c, d, e, f, g, h, a, b, i + 6)
            ROUND_(b, c, d, e, f, g, h, a, i + 7)
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

#if defined(__x86_64__)
/* By the SHA extensions, which hold the state as (a, b, e, f) and (c, d, g, h), the first in the highest lane. */
static __attribute__((target("sha,sse4.1"))) void compress_sha(uint32_t state[8], const uint8_t *block, size_t blocks) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);
    for (; blocks > 0; blocks--, block += 64) {
        __m128i w[4], abef0 = abef, cdgh0 = cdgh;
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            if (i < 4) {
                w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * i)), swap);
            } else {
                __m128i last = w[(i + 3) % 4], sum = _mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]);
                sum = _mm_add_epi32(sum, _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
                w[i % 4] = _mm_sha256msg2_epu32(sum, last);
            }
            __m128i m = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, m);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(m, 0x0e));
        }
        abef = _mm_add_epi32(abef, abef0);
        cdgh = _mm_add_epi32(cdgh, cdgh0);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

static bool ask(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c >> 19 & 1 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1; /* SSE4.1 and SHA */
}
static bool instructions(void) {
    static atomic_int known;
    return ls_known(&known, ask);
}
#endif

static void compress(ls_sha256 *sha, const uint8_t *block, size_t blocks) {
#if defined(__x86_64__)
    if (!sha->portable && instructions()) {
        compress_sha(sha->state, block, blocks);
        return;
    }
#endif
    compress_any(sha->state, block, blocks);
}

void ls_sha256_init(ls_sha256 *sha) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof start);
    sha->length = 0;
    sha->portable = false;
}

void ls_sha256_add(ls_sha256 *sha, const void *data, size_t size) {
    const uint8_t *bytes = data;
    size_t held = (size_t)(sha->length % 64);
    sha->length += size;
    while (size) {
        if (!held && size >= 64) {
            compress(sha, bytes, size / 64);
            bytes += size / 64 * 64;
            size %= 64;
            continue;
        }
        size_t n = size < 64 - held ? size : 64 - held;
        memcpy(sha->block + held, bytes, n);
        bytes += n;
        size -= n;
        held = (held + n) % 64;
        if (!held) {
            compress(sha, sha->block, 1);
        }
    }
}

void ls_sha256_hex(ls_sha256 *sha, char out_hex[65]) {
    static const uint8_t pad[64] = {0x80};
    uint64_t bits = sha->length * 8;
    uint8_t tail[8];
    for (int i = 0; i < 8; i++) {
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    ls_sha256_add(sha, pad, 1 + (size_t)((119 - sha->length % 64) % 64));
    ls_sha256_add(sha, tail, 8);
    for (int i = 0; i < 64; i++) {
        out_hex[i] = "0123456789abcdef"[sha->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    }
    out_hex[64] = 0;
}
