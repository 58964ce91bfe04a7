/* SHA-256 of sixteen lanes (sha256.h): a lane a sum, as many at once as a vector holds. */
#include "base/sha256.h"
#include <string.h>

enum { BLOCK = 64 * LS_SHA256_LANES };

static void lanes_any(uint32_t state[8][LS_SHA256_LANES], const uint8_t *data, size_t blocks) {
    for (size_t lane = 0; lane < LS_SHA256_LANES; lane++) {
        ls_sha256 one;
        ls_sha256_init(&one);
        for (size_t at = 4 * lane; at < blocks * BLOCK; at += 4 * LS_SHA256_LANES) {
            ls_sha256_add(&one, data + at, 4);
        }
        for (int i = 0; i < 8; i++) {
            state[i][lane] = one.state[i];
        }
    }
}

#if defined(__x86_64__)
typedef uint32_t wide __attribute__((vector_size(4 * LS_SHA256_LANES)));

#define ROTR(x, n) ((x) >> (n) | (x) << (32 - (n)))

/* Lanes lie side by side, so nothing is transposed. A compiler makes of a wide vector as many as it takes. */
static inline __attribute__((always_inline)) void lanes_wide(uint32_t state[8][LS_SHA256_LANES], const uint8_t *data, size_t blocks) {
    wide sum[8], w[16];
    memcpy(sum, state, sizeof sum);
    for (; blocks > 0; blocks--, data += BLOCK) {
        wide a = sum[0], b = sum[1], c = sum[2], d = sum[3], e = sum[4], f = sum[5], g = sum[6], h = sum[7];
        memcpy(w, data, sizeof w);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) { /* big-endian */
            w[i] = (ROTR(w[i], 8) & 0xff00ff00) | (ROTR(w[i], 24) & 0x00ff00ff);
        }
        for (int first = 0;; first += 16) {
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) {
                wide t = h + (ROTR(e, 6) ^ ROTR(e, 11) ^ ROTR(e, 25)) + (g ^ (e & (f ^ g))) + ls_sha256_constants[first + i] + w[i];
                h = g, g = f, f = e, e = d + t;
                t += (ROTR(a, 2) ^ ROTR(a, 13) ^ ROTR(a, 22)) + ((a & b) | (c & (a | b)));
                d = c, c = b, b = a, a = t;
            }
            if (first == 48) {
                break;
            }
#pragma GCC unroll 16
            for (int i = 0; i < 16; i++) { /* the words of the next sixteen rounds */
                wide x = w[(i + 1) % 16], y = w[(i + 14) % 16];
                w[i] += (ROTR(x, 7) ^ ROTR(x, 18) ^ x >> 3) + w[(i + 9) % 16] + (ROTR(y, 17) ^ ROTR(y, 19) ^ y >> 10);
            }
        }
        sum[0] += a, sum[1] += b, sum[2] += c, sum[3] += d, sum[4] += e, sum[5] += f, sum[6] += g, sum[7] += h;
    }
    memcpy(state, sum, sizeof sum);
}

static __attribute__((target("avx2"))) void lanes_avx2(uint32_t state[8][LS_SHA256_LANES], const uint8_t *data, size_t blocks) {
    lanes_wide(state, data, blocks);
}
static __attribute__((target("avx512f,avx512bw"))) void lanes_avx512(uint32_t state[8][LS_SHA256_LANES], const uint8_t *data, size_t blocks) {
    lanes_wide(state, data, blocks);
}
#endif

bool ls_sha256_lanes_pay(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bw") || (__builtin_cpu_supports("avx2") && !ls_sha256_instructions());
#else
    return false;
#endif
}

static void lanes(ls_sha256_way way, uint32_t state[8][LS_SHA256_LANES], const uint8_t *data, size_t blocks) {
#if defined(__x86_64__)
    if (way == LS_SHA256_BEST && __builtin_cpu_supports("avx512bw")) {
        lanes_avx512(state, data, blocks);
        return;
    }
    if (way != LS_SHA256_PORTABLE && __builtin_cpu_supports("avx2")) {
        lanes_avx2(state, data, blocks);
        return;
    }
#endif
    (void)way;
    lanes_any(state, data, blocks);
}

bool ls_sha256_lanes(ls_sha256_way way, const void *data, size_t size, char out_hex[65]) {
    uint32_t state[8][LS_SHA256_LANES];
    size_t blocks = size / BLOCK, rest = size % BLOCK;
    ls_sha256 all, one;
    ls_sha256_init(&all);
    ls_sha256_init(&one);
    for (int i = 0; i < 8; i++) {
        for (int lane = 0; lane < LS_SHA256_LANES; lane++) {
            state[i][lane] = one.state[i];
        }
    }
    lanes(way, state, data, blocks);
    for (int lane = 0; lane < LS_SHA256_LANES; lane++) {
        char hex[65];
        for (int i = 0; i < 8; i++) {
            one.state[i] = state[i][lane];
        }
        one.length = 64 * blocks;
        ls_sha256_hex(&one, hex);
        ls_sha256_add(&all, hex, 64);
    }
    ls_sha256_add(&all, (const uint8_t *)data + size - rest, rest);
    ls_sha256_hex(&all, out_hex);
    return true;
}
