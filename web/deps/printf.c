/* printf into memory, for modules of pages: the flags - and 0, widths, precisions of texts and doubles, and the
 * conversions c d i u x s p e f g. */
#include "decimal.h"
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct sink {
    char *text;
    size_t room, n; /* n: what it would be with room */
} sink;

typedef struct field {
    bool left, zero;
    int width, precision; /* -1: none given */
} field;

static void put(sink *s, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++, s->n++) {
        if (s->n + 1 < s->room) {
            s->text[s->n] = text[i];
        }
    }
}

static void pad(sink *s, char with, int n) {
    for (; n > 0; n--) {
        put(s, &with, 1);
    }
}

/* `sign` is what a number begins with and zeros follow. */
static void put_field(sink *s, const field *f, const char *sign, const char *text, size_t n) {
    int room = f->width - (int)(n + strlen(sign));
    if (!f->left && !f->zero) {
        pad(s, ' ', room);
    }
    put(s, sign, strlen(sign));
    if (!f->left && f->zero) {
        pad(s, '0', room);
    }
    put(s, text, n);
    if (f->left) {
        pad(s, ' ', room);
    }
}

static void put_integer(sink *s, const field *f, const char *sign, uint64_t x, unsigned base) {
    char text[24], *at = text + sizeof text;
    do {
        *--at = "0123456789abcdef"[x % base];
        x /= base;
    } while (x);
    put_field(s, f, sign, at, (size_t)(text + sizeof text - at));
}

/* The digits [from, to) of a decimal, counted from its point; zeros where it has none. */
static void put_digits(sink *s, const decimal *d, int from, int to) {
    for (int i = from; i < to; i++) {
        int at = i + d->exponent;
        put(s, at >= 0 && at < d->n ? &d->digits[at] : "0", 1);
    }
}

static void put_double(sink *s, const field *f, char kind, double x) {
    char text[DECIMAL_MOST];
    sink number = {text, sizeof text, 0};
    decimal d;
    uint64_t mantissa;
    int exponent, precision = f->precision < 0 ? 6 : f->precision;
    const char *sign = __builtin_signbit(x) ? "-" : "";
    if (x != x || x - x != 0) {
        put_field(s, &(field){f->left, false, f->width, 0}, sign, x != x ? "nan" : "inf", 3);
        return;
    }
    decimal_split(x, &mantissa, &exponent);
    decimal_of(&d, mantissa, exponent);
    precision += kind == 'g' && precision == 0;
    decimal_round(&d, kind == 'f' ? d.exponent + precision : precision + (kind == 'e'));
    int power = d.n ? d.exponent - 1 : 0; /* of the first digit */
    bool scientific = kind == 'e';
    if (kind == 'g') {
        scientific = power < -4 || power >= precision;
        int kept = d.n ? d.n - 1 : 0; /* no zeros at the end */
        precision = scientific ? kept : kept > power ? kept - power : 0;
    }
    if (scientific) {
        d.exponent = d.n ? 1 : 0;
    }
    if (d.n == 0 || d.exponent <= 0) {
        put(&number, "0", 1);
    }
    put_digits(&number, &d, d.n ? -d.exponent : 0, 0);
    if (precision > 0) {
        put(&number, ".", 1);
        put_digits(&number, &d, 0, precision);
    }
    if (scientific) {
        put(&number, power < 0 ? "e-" : "e+", 2);
        put_integer(&number, &(field){false, true, 2, -1}, "", (uint64_t)(power < 0 ? -power : power), 10);
    }
    put_field(s, f, sign, text, number.n < sizeof text ? number.n : sizeof text - 1);
}

static const char *read_field(const char *at, field *f, va_list *args) {
    *f = (field){.precision = -1};
    for (; *at == '-' || *at == '0'; at++) {
        f->left |= *at == '-';
        f->zero |= *at == '0';
    }
    for (int *number = &f->width;; number = &f->precision, at++) {
        if (*at == '*') {
            *number = va_arg(*args, int);
            at++;
        } else {
            for (*number = 0; *at >= '0' && *at <= '9'; at++) {
                *number = *number * 10 + (*at - '0');
            }
        }
        if (number == &f->precision) {
            return at;
        }
        if (*at != '.') {
            return at;
        }
    }
}

int vsnprintf(char *restrict text, size_t room, const char *restrict format, va_list list) {
    sink s = {text, room, 0};
    va_list args;
    va_copy(args, list);
    for (const char *at = format; *at; at++) {
        field f;
        if (*at != '%') {
            put(&s, at, 1);
            continue;
        }
        at = read_field(at + 1, &f, &args);
        int longs = 0;
        for (; *at == 'l' || *at == 'h' || *at == 'z' || *at == 'j' || *at == 't'; at++) {
            longs += *at == 'j' ? 2 : *at == 'h' ? 0 : *at == 'l' ? 1 : (int)(sizeof(size_t) / sizeof(long));
        }
        bool wide = longs > 1 || (longs == 1 && sizeof(long) == 8);
        if (*at == 's') {
            const char *string = va_arg(args, const char *);
            size_t n = 0;
            while ((f.precision < 0 || n < (size_t)f.precision) && string[n]) {
                n++;
            }
            put_field(&s, &f, "", string, n);
        } else if (*at == 'c') {
            char c = (char)va_arg(args, int);
            put_field(&s, &f, "", &c, 1);
        } else if (*at == 'd' || *at == 'i') {
            int64_t x = wide ? va_arg(args, int64_t) : va_arg(args, int);
            put_integer(&s, &f, x < 0 ? "-" : "", x < 0 ? 0 - (uint64_t)x : (uint64_t)x, 10);
        } else if (*at == 'u' || *at == 'x') {
            put_integer(&s, &f, "", wide ? va_arg(args, uint64_t) : va_arg(args, unsigned),
                        *at == 'x' ? 16 : 10);
        } else if (*at == 'p') {
            put_integer(&s, &f, "0x", (uintptr_t)va_arg(args, void *), 16);
        } else if (*at == 'e' || *at == 'f' || *at == 'g') {
            put_double(&s, &f, *at, va_arg(args, double));
        } else {
            put(&s, at, 1); /* %% */
        }
    }
    va_end(args);
    if (room) {
        text[s.n < room ? s.n : room - 1] = 0;
    }
    return (int)s.n;
}

int snprintf(char *restrict text, size_t room, const char *restrict format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, room, format, args);
    va_end(args);
    return n;
}

int sprintf(char *restrict text, const char *restrict format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, (size_t)1 << 30, format, args);
    va_end(args);
    return n;
}
