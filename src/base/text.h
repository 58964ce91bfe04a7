/* A growing text. After a failed allocation it stays valid and `failed` is set, so that callers check once at the end. */
#ifndef LOCKSTEP_BASE_TEXT_H
#define LOCKSTEP_BASE_TEXT_H

#include "base/alloc.h"
#include <stdint.h>

typedef struct ls_text {
    ls_heap *heap;
    char *data; /* always NUL-terminated once something was added; NULL before */
    size_t len, cap;
    bool failed;
} ls_text;

void ls_text_init(ls_text *text, ls_heap *heap);
void ls_text_add(ls_text *text, const char *s);
void ls_text_add_n(ls_text *text, const char *s, size_t n);
void ls_text_printf(ls_text *text, const char *fmt, ...) LS_PRINTF(2, 3);
/* A double in its shortest decimal form that reads back the same, always with a point, whatever the locale. */
void ls_text_double(ls_text *text, double value);
void ls_text_free(ls_text *text);

/* Parses a whole string, whatever the locale; false when it is not a number or has a rest. */
bool ls_parse_double(const char *s, double *out);
bool ls_parse_i64(const char *s, int64_t *out);

#endif
