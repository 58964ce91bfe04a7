/* f16 and bf16 on integer registers only, so that no host floating-point state can change a result. */
#include "base/bits.h"
#include "base/half.h"

/* Narrows the magnitude of an IEEE value of se exponent and sm mantissa bits to de and dm, with de < se. */
static inline uint32_t narrow(uint64_t mag, int se, int sm, int de, int dm) {
    uint64_t source_inf = ((((uint64_t)1 << se) - 1) << sm);
    uint32_t inf = ((1u << de) - 1) << dm;
    if (mag > source_inf) {
        return inf | (1u << (dm - 1));
    }
    int e = (int)(mag >> sm) - ((1 << (se - 1)) - 1) + ((1 << (de - 1)) - 1);
    uint64_t man = mag & (((uint64_t)1 << sm) - 1);
    if (e >= (1 << de) - 1) {
        return inf;
    }
    if (e >= 1) { /* a carry runs on into the exponent, at the top into infinity */
        return (uint32_t)ls_round_shift(((uint64_t)e << sm) | man, sm - dm);
    }
    int shift = sm - dm + 1 - e;
    return shift > sm + 1 ? 0 : (uint32_t)ls_round_shift(man | ((uint64_t)1 << sm), shift);
}

float ls_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, man = h & 0x3ff;
    if (e == 31) {
        return ls_f32_of(man ? LS_NAN_F32 : sign | 0x7f800000u);
    }
    if (!e) {
        if (!man) {
            return ls_f32_of(sign);
        }
        for (e = 1; !(man & 0x400); e--) { /* e may wrap below 0: it is added back below */
            man <<= 1;
        }
        man &= 0x3ff;
    }
    return ls_f32_of(sign | ((e + 112) << 23) | (man << 13));
}

uint16_t ls_f32_to_f16(float f) {
    uint32_t u = ls_f32_bits(f), mag = u & 0x7fffffffu;
    uint32_t sign = mag > 0x7f800000u ? 0 : (u >> 16) & 0x8000;
    return (uint16_t)(sign | narrow(mag, 8, 23, 5, 10));
}

uint16_t ls_f64_to_f16(double d) {
    uint64_t u = ls_f64_bits(d), mag = u & 0x7fffffffffffffffu;
    uint32_t sign = mag > 0x7ff0000000000000u ? 0 : (uint32_t)(u >> 48) & 0x8000;
    return (uint16_t)(sign | narrow(mag, 11, 52, 5, 10));
}

float ls_bf16_to_f32(uint16_t b) {
    uint32_t u = (uint32_t)b << 16;
    return ls_f32_of((u & 0x7fffffffu) > 0x7f800000u ? LS_NAN_F32 : u);
}

uint16_t ls_f32_to_bf16(float f) {
    uint32_t u = ls_f32_bits(f);
    return (u & 0x7fffffffu) > 0x7f800000u ? LS_NAN_BF16 : (uint16_t)ls_round_shift(u, 16);
}

uint16_t ls_f64_to_bf16(double d) {
    uint64_t u = ls_f64_bits(d), mag = u & 0x7fffffffffffffffu;
    uint32_t sign = mag > 0x7ff0000000000000u ? 0 : (uint32_t)(u >> 48) & 0x8000;
    return (uint16_t)(sign | narrow(mag, 11, 52, 8, 7));
}
