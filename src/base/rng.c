/* Threefry-2x32-20 and what is built on it. All state is the caller's. */
#include "base/rng.h"
#include <string.h>

static uint32_t rotl(uint32_t x, int n) {
    return (x << n) | (x >> (32 - n));
}

/* Both output words: the first in the low half. */
static uint64_t threefry(uint32_t key0, uint32_t key1, uint64_t counter) {
    static const uint8_t rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    const uint32_t keys[3] = {key0, key1, 0x1bd11bdau ^ key0 ^ key1};
    uint32_t x = (uint32_t)counter + key0, y = (uint32_t)(counter >> 32) + key1;
    for (uint32_t round = 0; round < 20; round++) {
        x += y;
        y = rotl(y, rotations[round % 8]) ^ x;
        if (round % 4 == 3) {
            uint32_t s = round / 4 + 1;
            x += keys[s % 3];
            y += keys[(s + 1) % 3] + s;
        }
    }
    return x | (uint64_t)y << 32;
}

enum { LANES = 8 };
typedef uint32_t words __attribute__((vector_size(4 * LANES)));

/* The same for LANES counters from `counter`, whose low words do not pass 2^32. */
static void threefry_lanes(uint32_t key0, uint32_t key1, uint64_t counter, uint32_t out_x[LANES], uint32_t out_y[LANES]) {
    const uint32_t keys[3] = {key0, key1, 0x1bd11bdau ^ key0 ^ key1};
    words x, y;
    for (int i = 0; i < LANES; i++) {
        x[i] = (uint32_t)counter + (uint32_t)i + key0;
        y[i] = (uint32_t)(counter >> 32) + key1;
    }
#define ROUND_(r) x += y, y = (y << (r) | y >> (32 - (r))) ^ x;
#define KEYS_(s) x += keys[(s) % 3], y += keys[((s) + 1) % 3] + (s);
#define FOUR_(a, b, c, d, s) ROUND_(a) ROUND_(b) ROUND_(c) ROUND_(d) KEYS_(s)
    FOUR_(13, 15, 26, 6, 1u)
    FOUR_(17, 29, 16, 24, 2u)
    FOUR_(13, 15, 26, 6, 3u)
    FOUR_(17, 29, 16, 24, 4u)
    FOUR_(13, 15, 26, 6, 5u)
    memcpy(out_x, &x, sizeof x);
    memcpy(out_y, &y, sizeof y);
}

uint32_t ls_threefry(uint32_t key0, uint32_t key1, uint64_t counter) {
    return (uint32_t)threefry(key0, key1, counter);
}

uint64_t ls_rng_key(uint64_t seed, uint64_t purpose) {
    return threefry((uint32_t)seed, (uint32_t)(seed >> 32), purpose);
}

uint64_t ls_rng_u64(ls_rng *rng) {
    return threefry((uint32_t)rng->key, (uint32_t)(rng->key >> 32), rng->counter++);
}

uint32_t ls_rng_u32(ls_rng *rng) {
    return (uint32_t)ls_rng_u64(rng);
}

uint64_t ls_rng_below(ls_rng *rng, uint64_t n) {
    uint64_t reject = (0 - n) % n; /* 2^64 mod n values too many */
    uint64_t v;
    do {
        v = ls_rng_u64(rng);
    } while (v < reject);
    return v % n;
}

double ls_rng_unit(ls_rng *rng) {
    return (double)(ls_rng_u64(rng) >> 11) * 0x1p-53;
}

void ls_rng_units(ls_rng *rng, double *out, int64_t n) {
    uint32_t x[LANES], y[LANES];
    int64_t i = 0;
    for (; i + LANES <= n && (uint32_t)rng->counter <= UINT32_MAX - LANES; i += LANES, rng->counter += LANES) {
        threefry_lanes((uint32_t)rng->key, (uint32_t)(rng->key >> 32), rng->counter, x, y);
        for (int j = 0; j < LANES; j++) {
            out[i + j] = (double)(int64_t)((x[j] | (uint64_t)y[j] << 32) >> 11) * 0x1p-53;
        }
    }
    for (; i < n; i++) {
        out[i] = ls_rng_unit(rng);
    }
}

/* ln(x) for 0 < x < 1, to about 1e-16, with basic operations alone: ln(2^e * m) = e ln 2 + 2 atanh((m-1)/(m+1)). */
static double log_unit(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    int e = (int)(u >> 52) - 1023;
    u = (u & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &u, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double t = (m - 1) / (m + 1), t2 = t * t, sum = 0;
    for (int k = 23; k >= 1; k -= 2) {
        sum = sum * t2 + 1.0 / k;
    }
    return e * 0.6931471805599453 + 2 * t * sum;
}

double ls_rng_normal(ls_rng *rng) { /* Marsaglia's polar method */
    double u, v, s;
    do {
        u = 2 * ls_rng_unit(rng) - 1;
        v = 2 * ls_rng_unit(rng) - 1;
        s = u * u + v * v;
    } while (s >= 1 || s == 0);
    return u * __builtin_sqrt(-2 * log_unit(s) / s);
}
