/* What .npz files need of zlib, for modules of pages: raw deflate in one call with all of its input and room for all of
 * its output, and CRCs. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>

typedef struct reader {
    const uint8_t *at, *end;
    uint8_t *to, *begin, *limit;
    uint32_t bits;
    int n_bits; /* less than 8 between calls: no byte is read too early */
    bool bad;
} reader;

enum { LONGEST = 15, LITERALS = 288, DISTANCES = 32, STOP = 256 };

/* Codes of equal length follow each other, shorter ones come first. */
typedef struct code {
    uint16_t count[LONGEST + 1], symbols[LITERALS];
} code;

static unsigned take(reader *r, int n) {
    for (; r->n_bits < n; r->n_bits += 8) {
        if (r->at == r->end) {
            r->bad = true;
            return 0;
        }
        r->bits |= (uint32_t)*r->at++ << r->n_bits;
    }
    unsigned value = r->bits & ((1u << n) - 1);
    r->bits >>= n;
    r->n_bits -= n;
    return value;
}

/* False when there are more codes of a length than fit, or fewer than fill it: allowed is one of one bit, and none. */
static bool make_code(code *c, const uint8_t *lengths, int n, bool may_be_partial) {
    uint16_t next[LONGEST + 1] = {0};
    int left = 1, longest = 0;
    memset(c->count, 0, sizeof c->count);
    for (int i = 0; i < n; i++) {
        c->count[lengths[i]]++;
    }
    c->count[0] = 0;
    for (int length = 1; length <= LONGEST; length++) {
        left = 2 * left - c->count[length];
        longest = c->count[length] ? length : longest;
        if (left < 0) {
            return false;
        }
        next[length] = (uint16_t)(next[length - 1] + c->count[length - 1]);
    }
    for (int i = 0; i < n; i++) {
        if (lengths[i]) {
            c->symbols[next[lengths[i]]++] = (uint16_t)i;
        }
    }
    return left == 0 || (may_be_partial && longest <= 1);
}

static int read_symbol(reader *r, const code *c) {
    int value = 0,
        before = 0; /* `before`: symbols of shorter codes; value: the code, less the first of its length */
    for (int length = 1; length <= LONGEST; length++) {
        value = 2 * value + (int)take(r, 1);
        if (value < c->count[length]) {
            return c->symbols[before + value];
        }
        value -= c->count[length];
        before += c->count[length];
    }
    r->bad = true;
    return 0;
}

static bool copy_stored(reader *r) {
    r->bits = 0;
    r->n_bits = 0;
    size_t size = take(r, 16);
    if (take(r, 16) != (size ^ 0xffff) || r->bad || (size_t)(r->end - r->at) < size ||
        (size_t)(r->limit - r->to) < size) {
        return false;
    }
    memcpy(r->to, r->at, size);
    r->to += size;
    r->at += size;
    return true;
}

static bool copy_coded(reader *r, const code *literals, const code *distances) {
    for (;;) {
        int symbol = read_symbol(r, literals);
        if (r->bad || symbol == STOP) {
            return !r->bad;
        }
        if (symbol < STOP) {
            if (r->to == r->limit) {
                return false;
            }
            *r->to++ = (uint8_t)symbol;
            continue;
        }
        symbol -= STOP + 1;
        int extra = symbol < 8 || symbol == 28 ? 0 : (symbol - 4) / 4;
        size_t length = symbol < 8     ? 3 + (unsigned)symbol
                        : symbol == 28 ? 258
                                       : 3 + ((4 + ((unsigned)symbol & 3)) << extra);
        length += take(r, extra);
        int far = read_symbol(r, distances);
        extra = far < 4 ? 0 : (far - 2) / 2;
        size_t distance = far < 4 ? 1 + (unsigned)far : 1 + ((2 + ((unsigned)far & 1)) << extra);
        distance += take(r, extra);
        if (r->bad || symbol > 28 || far > 29 || distance > (size_t)(r->to - r->begin) ||
            length > (size_t)(r->limit - r->to)) {
            return false;
        }
        for (; length; length--, r->to++) {
            *r->to = r->to[-(ptrdiff_t)distance];
        }
    }
}

static bool copy_dynamic(reader *r) {
    static const uint8_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    uint8_t lengths[LITERALS + DISTANCES] = {0};
    code literals, distances;
    int n_literals = (int)take(r, 5) + 257, n_distances = (int)take(r, 5) + 1, n = (int)take(r, 4) + 4;
    if (n_literals > 286 || n_distances > 30) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        lengths[order[i]] = (uint8_t)take(r, 3);
    }
    if (!make_code(&distances, lengths, 19, false)) {
        return false;
    }
    memset(lengths, 0, sizeof lengths);
    for (int i = 0; i < n_literals + n_distances && !r->bad;) {
        int symbol = read_symbol(r, &distances), times = 1;
        uint8_t length = (uint8_t)symbol;
        if (symbol >= 16) {
            if (symbol == 16 && i == 0) {
                return false;
            }
            length = symbol == 16 ? lengths[i - 1] : 0;
            times = symbol == 16   ? 3 + (int)take(r, 2)
                    : symbol == 17 ? 3 + (int)take(r, 3)
                                   : 11 + (int)take(r, 7);
        }
        if (times > n_literals + n_distances - i) {
            return false;
        }
        for (; times; times--) {
            lengths[i++] = length;
        }
    }
    return !r->bad && lengths[STOP] && make_code(&literals, lengths, n_literals, true) &&
           make_code(&distances, lengths + n_literals, n_distances, true) &&
           copy_coded(r, &literals, &distances);
}

static bool copy_fixed(reader *r) {
    uint8_t lengths[LITERALS];
    code literals, distances;
    for (int i = 0; i < LITERALS; i++) {
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    }
    (void)make_code(&literals, lengths, LITERALS, false);
    memset(lengths, 5, DISTANCES);
    (void)make_code(&distances, lengths, DISTANCES, false);
    return copy_coded(r, &literals, &distances);
}

int inflateInit2_(z_streamp z, int window_bits, const char *version, int size) {
    (void)z, (void)version, (void)size;
    return window_bits < 0 ? Z_OK : Z_STREAM_ERROR;
}

int inflate(z_streamp z, int flush) {
    reader r = {.at = z->next_in,
                .end = z->next_in + z->avail_in,
                .to = z->next_out,
                .begin = z->next_out,
                .limit = z->next_out + z->avail_out};
    bool good = flush == Z_FINISH, last = false;
    while (good && !last) {
        last = take(&r, 1);
        unsigned kind = take(&r, 2);
        good = !r.bad && kind < 3 &&
               (kind == 0   ? copy_stored(&r)
                : kind == 1 ? copy_fixed(&r)
                            : copy_dynamic(&r));
    }
    z->next_in = (Bytef *)r.at;
    z->avail_in = (uInt)(r.end - r.at);
    z->next_out = r.to;
    z->avail_out = (uInt)(r.limit - r.to);
    return good ? Z_STREAM_END : Z_DATA_ERROR;
}

int inflateEnd(z_streamp z) {
    (void)z;
    return Z_OK;
}

uLong crc32_z(uLong crc, const Bytef *data, z_size_t size) {
    static const uint32_t steps[16] = {0,          0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t x = ~(uint32_t)crc;
    for (z_size_t i = 0; i < size; i++) {
        x ^= data[i];
        x = steps[x & 15] ^ x >> 4;
        x = steps[x & 15] ^ x >> 4;
    }
    return ~x;
}
