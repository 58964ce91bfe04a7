/* Decimals of doubles by whole numbers of any length: a fraction m / 2^k is m * 5^k / 10^k. Reading is guessing, then
 * comparing what was read with the middles between the guess and its neighbours; so both ways are exact, in two
 * kilobytes. */
#include "decimal.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void decimal_split(double x, uint64_t *out_mantissa, int *out_exponent) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int biased = (int)(bits >> 52 & 2047);
    *out_mantissa = (bits & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(biased > 0) << 52;
    *out_exponent = (biased ? biased : 1) - 1075;
}

void decimal_of(decimal *out, uint64_t mantissa, int exponent) {
    enum { LIMBS = 100, BASE = 1000000000 };
    uint32_t limbs[LIMBS]; /* the lowest first */
    int n = 0, left = exponent < 0 ? -exponent : exponent, factor = exponent < 0 ? 5 : 2;
    for (; mantissa; mantissa /= BASE) {
        limbs[n++] = (uint32_t)(mantissa % BASE);
    }
    while (left > 0) {
        uint32_t by = 1, carry = 0;
        for (int i = 0; i < 12 && left > 0; i++, left--) {
            by *= (uint32_t)factor;
        }
        for (int i = 0; i < n; i++) {
            uint64_t product = (uint64_t)limbs[i] * by + carry;
            limbs[i] = (uint32_t)(product % BASE);
            carry = (uint32_t)(product / BASE);
        }
        if (carry) {
            limbs[n++] = carry;
        }
    }
    char *end = out->digits, text[9];
    for (int i = n; i-- > 0;) {
        for (int k = 9; k-- > 0; limbs[i] /= 10) {
            text[k] = (char)('0' + limbs[i] % 10);
        }
        for (int k = 0; k < 9; k++) {
            if (end != out->digits || text[k] != '0') { /* without leading zeros */
                *end++ = text[k];
            }
        }
    }
    out->exponent = (int)(end - out->digits) + (exponent < 0 ? exponent : 0);
    while (end != out->digits && end[-1] == '0') {
        end--;
    }
    out->n = (int)(end - out->digits);
}

void decimal_round(decimal *d, int digits) {
    if (digits >= d->n) {
        return;
    }
    bool up = false;
    if (digits >= 0) {
        char next = d->digits[digits];
        bool odd = digits > 0 && d->digits[digits - 1] & 1;
        up = next > '5' || (next == '5' && (d->n > digits + 1 || odd));
    }
    d->n = digits < 0 ? 0 : digits;
    while (up && d->n && d->digits[d->n - 1] == '9') {
        d->n--;
    }
    if (up && d->n) {
        d->digits[d->n - 1]++;
    } else if (up) {
        d->digits[d->n++] = '1';
        d->exponent++;
    }
    while (d->n && d->digits[d->n - 1] == '0') {
        d->n--;
    }
}

static int compare(const decimal *a, const decimal *b) {
    if (!a->n || !b->n || a->exponent != b->exponent) {
        return !a->n || !b->n ? (a->n > 0) - (b->n > 0) : a->exponent - b->exponent;
    }
    int order = memcmp(a->digits, b->digits, (size_t)(a->n < b->n ? a->n : b->n));
    return order ? order : a->n - b->n;
}

/* Near the value; the value's own double when it has at most 15 digits and a power that is itself a double: then but
 * one operation rounds. */
static double guess(const decimal *d, bool *out_exact) {
    static const double powers[] = {1e1, 1e2, 1e4, 1e8, 1e16, 1e32, 1e64, 1e128, 1e256};
    uint64_t head = 0;
    int n = d->n < 18 ? d->n : 18, power = d->exponent - n;
    for (int i = 0; i < n; i++) {
        head = head * 10 + (uint64_t)(d->digits[i] - '0');
    }
    double x = (double)head, by = 1;
    unsigned left = (unsigned)(power < 0 ? -power : power);
    *out_exact = d->n <= 15 && left <= 22;
    for (int i = 0; i < 9; i++) {
        if (left >> i & 1 && left <= 22) {
            by *= powers[i];
        } else if (left >> i & 1) {
            x = power < 0 ? x / powers[i] : x * powers[i];
        }
    }
    return power < 0 ? x / by : x * by;
}

/* The double nearest to a decimal, ties to even; infinity beyond the greatest. */
static double nearest(const decimal *d) {
    static const uint64_t infinity = UINT64_C(2047) << 52;
    uint64_t bits;
    bool exact = false;
    if (d->n == 0 || d->exponent < -400) {
        return 0;
    }
    double x = d->exponent > 400 ? 0x1.fffffffffffffp1023 : guess(d, &exact);
    if (exact) {
        return x;
    }
    memcpy(&bits, &x, sizeof bits);
    bits -= bits == infinity;
    /* m + 1/2 and m - 1/2 units; where a power of 2 ends, the lower middle is nearer, as the double below says */
    for (;;) {
        decimal middle;
        uint64_t m;
        int e, order;
        memcpy(&x, &bits, sizeof x);
        decimal_split(x, &m, &e);
        decimal_of(&middle, 2 * m + 1, e - 1);
        order = compare(d, &middle);
        if (bits != infinity && (order > 0 || (order == 0 && m & 1))) {
            bits++;
            continue;
        }
        if (bits == 0) {
            return x;
        }
        uint64_t below = bits - 1;
        double y;
        memcpy(&y, &below, sizeof y);
        decimal_split(y, &m, &e);
        decimal_of(&middle, 2 * m + 1, e - 1);
        order = compare(d, &middle);
        if (order > 0 || (order == 0 && m & 1)) {
            return x;
        }
        bits = below;
    }
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : -1;
}

/* Decimal numbers only: no "inf", no "nan", nothing hexadecimal. */
double strtod(const char *restrict text, char **restrict out_end) {
    const char *s = text, *end = text;
    decimal d = {0};
    bool point = false;
    while (*s == ' ' || (*s >= '\t' && *s <= '\r')) {
        s++;
    }
    bool negative = *s == '-';
    for (s += *s == '-' || *s == '+'; digit(*s) >= 0 || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            continue;
        }
        end = s + 1;
        d.exponent += !point && (d.n || *s != '0');
        d.exponent -= point && !d.n && *s == '0';
        if (d.n ==
            DECIMAL_MOST) { /* a double's middles have fewer: any digit but 0 says the same from here on */
            d.digits[d.n - 1] |= *s != '0';
        } else if (d.n || *s != '0') {
            d.digits[d.n++] = *s;
        }
    }
    if (end != text) {
        end = s; /* "5." has its point */
    }
    if (end != text && (*end | 32) == 'e') {
        const char *e = end + 1;
        bool down = *e == '-';
        int power = 0;
        for (e += *e == '-' || *e == '+'; digit(*e) >= 0; end = ++e) {
            power = power < 100000 ? power * 10 + digit(*e) : power;
        }
        d.exponent += down ? -power : power;
    }
    while (d.n && d.digits[d.n - 1] == '0') {
        d.n--;
    }
    if (out_end) {
        *out_end = (char *)end;
    }
    double x = nearest(&d);
    return negative && end != text ? -x : x;
}
