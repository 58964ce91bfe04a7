/* CRC-32C of four lanes (crc.h): an instruction takes 8 bytes and three cycles, and one begins each cycle. */
#include "base/crc.h"
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { LANES = 4, WORD = 8 };
typedef void adder(uint32_t sums[LANES], const uint8_t *data, size_t blocks);

static void add_bytes(uint32_t *sum, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        *sum ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            *sum = *sum >> 1 ^ (0x82f63b78 & -(*sum & 1));
        }
    }
}

static void add_portable(uint32_t sums[LANES], const uint8_t *data, size_t blocks) {
    for (size_t i = 0; i < LANES * blocks; i++) {
        add_bytes(&sums[i % LANES], data + WORD * i, WORD);
    }
}

#if defined(__x86_64__) || defined(__aarch64__)
static uint64_t word(const uint8_t *data) {
    uint64_t w;
    memcpy(&w, data, WORD);
    return w;
}
#endif

#if defined(__x86_64__)
#include "base/known.h"
#include <cpuid.h>
static __attribute__((target("sse4.2"))) void add_words(uint32_t sums[LANES], const uint8_t *data, size_t blocks) {
    uint64_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (; blocks > 0; blocks--, data += LANES * WORD) {
        a = __builtin_ia32_crc32di(a, word(data));
        b = __builtin_ia32_crc32di(b, word(data + WORD));
        c = __builtin_ia32_crc32di(c, word(data + 2 * WORD));
        d = __builtin_ia32_crc32di(d, word(data + 3 * WORD));
    }
    sums[0] = (uint32_t)a, sums[1] = (uint32_t)b, sums[2] = (uint32_t)c, sums[3] = (uint32_t)d;
}
static bool ask(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c >> 20 & 1;
}
bool ls_crc_instructions(void) {
    static atomic_int known;
    return ls_known(&known, ask);
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

static void add_words(uint32_t sums[LANES], const uint8_t *data, size_t blocks) {
    uint32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (; blocks > 0; blocks--, data += LANES * WORD) {
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %4\n\tcrc32cx %w1, %w1, %5\n\tcrc32cx %w2, %w2, %6\n\tcrc32cx %w3, %w3, %7"
                : "+&r"(a), "+&r"(b), "+&r"(c), "+&r"(d)
                : "r"(word(data)), "r"(word(data + WORD)), "r"(word(data + 2 * WORD)), "r"(word(data + 3 * WORD)));
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}
bool ls_crc_instructions(void) {
    return getauxval(AT_HWCAP) & HWCAP_CRC32;
}
#else
#define add_words add_portable
bool ls_crc_instructions(void) {
    return false;
}
#endif

bool ls_crc_lanes(bool portable, const void *data, size_t size, char out_hex[LS_CRC_HEX]) {
    uint32_t sums[LANES] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    size_t blocks = size / (LANES * WORD), rest = size % (LANES * WORD);
    adder *add = portable || !ls_crc_instructions() ? add_portable : add_words;
    add(sums, data, blocks);
    add_bytes(&sums[0], (const uint8_t *)data + size - rest, rest);
    snprintf(out_hex, LS_CRC_HEX, "%08" PRIx32 "%08" PRIx32 "%08" PRIx32 "%08" PRIx32, ~sums[0], ~sums[1], ~sums[2], ~sums[3]);
    return true;
}
