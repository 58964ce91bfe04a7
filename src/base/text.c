/* Text building and number parsing. Numbers are written and read in the "C" locale, whatever the host program set:
 * uselocale works on this thread alone. */
#define _POSIX_C_SOURCE 200809L
#include "base/text.h"
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_text_init(ls_text *text, ls_heap *heap) {
    *text = (ls_text){.heap = heap};
}

static bool text_reserve(ls_text *text, size_t extra) {
    size_t need;
    if (text->failed || !ls_size_add(text->len, extra, &need) || !ls_size_add(need, 1, &need)) {
        text->failed = true;
        return false;
    }
    if (need > text->cap) {
        size_t cap = text->cap * 2 < 64 ? 64 : text->cap * 2;
        cap = cap < need ? need : cap;
        char *grown = ls_realloc(text->heap, text->data, cap);
        if (!grown) {
            text->failed = true;
            return false;
        }
        text->data = grown;
        text->cap = cap;
    }
    return true;
}

void ls_text_add_n(ls_text *text, const char *s, size_t n) {
    if (text_reserve(text, n)) {
        if (n) {
            memcpy(text->data + text->len, s, n);
        }
        text->len += n;
        text->data[text->len] = 0;
    }
}

void ls_text_add(ls_text *text, const char *s) {
    ls_text_add_n(text, s, strlen(s));
}

void ls_text_printf(ls_text *text, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0) {
        text->failed = true;
    } else if (text_reserve(text, (size_t)len)) {
        vsnprintf(text->data + text->len, (size_t)len + 1, fmt, again);
        text->len += (size_t)len;
    }
    va_end(again);
}

static bool in_c_locale(locale_t *out_c, locale_t *out_old) {
    *out_c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (*out_c == (locale_t)0) {
        return false;
    }
    *out_old = uselocale(*out_c);
    return true;
}

static void leave_c_locale(locale_t c, locale_t old) {
    uselocale(old);
    freelocale(c);
}

void ls_text_double(ls_text *text, double value) {
    char digits[40];
    locale_t c, old;
    if (value != value || value - value != 0) {
        ls_text_add(text, value != value ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    if (!in_c_locale(&c, &old)) {
        text->failed = true;
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    leave_c_locale(c, old);
    const char *e = strchr(digits, 'e');
    size_t head = e ? (size_t)(e - digits) : strlen(digits);
    ls_text_add_n(text, digits, head);
    if (!memchr(digits, '.', head)) {
        ls_text_add(text, ".0");
    }
    ls_text_add(text, digits + head);
}

void ls_text_free(ls_text *text) {
    ls_free(text->heap, text->data);
    *text = (ls_text){.heap = text->heap};
}

bool ls_parse_double(const char *s, double *out) {
    locale_t c, old;
    const char *first = *s == '-' || *s == '+' ? s + 1 : s;
    /* strtod would skip blanks */
    if (!((*first >= '0' && *first <= '9') || *first == '.' || *first == 'i' || *first == 'n' ||
          *first == 'I' || *first == 'N') ||
        !in_c_locale(&c, &old)) {
        return false;
    }
    char *end;
    double value = strtod(s, &end);
    leave_c_locale(c, old);
    bool infinite = value == value && value - value != 0;
    if (end == s || *end || (infinite && *first != 'i' && *first != 'I')) {
        return false;
    }
    *out = value;
    return true;
}

bool ls_parse_i64(const char *s, int64_t *out) {
    bool negative = *s == '-';
    int64_t value = 0;
    s += *s == '-' || *s == '+';
    if (!*s) {
        return false;
    }
    for (; *s; s++) {
        int digit = *s - '0';
        /* counted downwards, because INT64_MIN has no positive twin */
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digit, &value)) {
            return false;
        }
    }
    if (!negative && value == INT64_MIN) {
        return false;
    }
    *out = negative ? value : -value;
    return true;
}
