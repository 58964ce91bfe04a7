/* Short ones of a C library's: texts in this library are short, and so are the lists that it sorts. */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

void *memchr(const void *data, int c, size_t n) {
    for (const char *at = data; n; at++, n--) {
        if (*at == (char)c) {
            return (void *)at;
        }
    }
    return NULL;
}

size_t strlen(const char *text) {
    size_t n = 0;
    while (text[n]) {
        n++;
    }
    return n;
}

char *strchr(const char *text, int c) {
    return memchr(text, c, strlen(text) + 1);
}

char *strcpy(char *restrict to, const char *restrict from) {
    return __builtin_memcpy(to, from, strlen(from) + 1);
}

char *strncpy(char *restrict to, const char *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        to[i] = *from;
        from += *from != 0;
    }
    return to;
}

size_t strspn(const char *text, const char *set) {
    size_t n = 0;
    while (text[n] && strchr(set, text[n])) {
        n++;
    }
    return n;
}

size_t strcspn(const char *text, const char *set) {
    size_t n = 0;
    while (text[n] && !strchr(set, text[n])) {
        n++;
    }
    return n;
}

char *strstr(const char *text, const char *part) {
    size_t n = strlen(part);
    for (; strncmp(text, part, n) != 0; text++) {
        if (!*text) {
            return NULL;
        }
    }
    return (char *)text;
}

/* Decimal only, and what overflows wraps. */
long long strtoll(const char *restrict text, char **restrict out_end, int base) {
    unsigned long long value = 0;
    (void)base;
    bool negative = *text == '-';
    for (text += negative; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (unsigned)(*text - '0');
    }
    if (out_end) {
        *out_end = (char *)text;
    }
    return (long long)(negative ? 0 - value : value);
}

static void exchange(char *a, char *b, size_t size) {
    for (size_t i = 0; i < size; i++) {
        char c = a[i];
        a[i] = b[i];
        b[i] = c;
    }
}

/* Heapsort: in place, and never quadratic. */
void qsort(void *data, size_t n, size_t size, int (*compare)(const void *, const void *)) {
    char *items = data;
    for (size_t start = n / 2, left = n; left > 1;) {
        if (start) {
            start--;
        } else {
            exchange(items, items + --left * size, size);
        }
        for (size_t root = start, child; (child = 2 * root + 1) < left; root = child) {
            child += child + 1 < left && compare(items + child * size, items + (child + 1) * size) < 0;
            if (compare(items + root * size, items + child * size) >= 0) {
                break;
            }
            exchange(items + root * size, items + child * size, size);
        }
    }
}
