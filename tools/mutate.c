/* Mutants of C source, one token at a time, for tools/mutants.sh.
 *
 *     mutate FILE         the number of sites
 *     mutate FILE SITE    the whole text with the mutant of that site; what was changed goes to stderr
 *
 * A site is a token outside of comments, strings and preprocessor lines: an operator becomes its neighbour, a
 * whole number one more, a negation goes away, break becomes continue. What does not compile is no mutant. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *from, *to;
} operators[] = {
    {"<<=", ">>="}, {">>=", "<<="}, {"<<", ">>"}, {">>", "<<"}, {"<=", "<"},  {">=", ">"},  {"==", "!="},
    {"!=", "=="},   {"&&", "||"},   {"||", "&&"}, {"+=", "-="}, {"-=", "+="}, {"*=", "+="}, {"|=", "&="},
    {"&=", "|="},   {"^=", "|="},   {"<", "<="},  {">", ">="},  {"+", "-"},   {"-", "+"},   {"*", "+"},
    {"/", "*"},     {"%", "/"},     {"&", "|"},   {"|", "&"},   {"^", "|"},   {"!", ""},
};
/* Found before the operators, and left alone. */
static const char *const kept[] = {"->", "++", "--", "//"};
static const struct {
    const char *from, *to;
} words[] = {{"break", "continue"}, {"continue", "break"}, {"true", "false"},
             {"false", "true"},     {"min", "max"},        {"max", "min"}};

static char *read_all(const char *path, size_t *out_size) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        fprintf(stderr, "mutate: %s: cannot be read\n", path);
        exit(2);
    }
    long size = ftell(f);
    char *text = malloc((size_t)size + 1);
    rewind(f);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size) {
        fprintf(stderr, "mutate: %s: cannot be read\n", path);
        exit(2);
    }
    fclose(f);
    text[size] = 0;
    *out_size = (size_t)size;
    return text;
}

/* Where a comment, a string, a character or a preprocessor line that begins here ends; `at` itself when none
 * does. */
static size_t skip(const char *t, size_t at, bool line_start) {
    const char *end;
    if (t[at] == '#' && line_start) {
        size_t i = at;
        while (t[i] && t[i] != '\n') {
            i += t[i] == '\\' && t[i + 1] ? 2 : 1;
        }
        return i;
    }
    if (t[at] == '/' && t[at + 1] == '*') {
        end = strstr(t + at + 2, "*/");
        return end ? (size_t)(end - t) + 2 : strlen(t);
    }
    if (t[at] == '/' && t[at + 1] == '/') {
        return at + strcspn(t + at, "\n");
    }
    if (t[at] == '"' || t[at] == '\'') {
        size_t i = at + 1;
        while (t[i] && t[i] != t[at]) {
            i += t[i] == '\\' && t[i + 1] ? 2 : 1;
        }
        return t[i] ? i + 1 : i;
    }
    return at;
}

typedef struct site {
    size_t at, length;
    char to[32];
} site;

static void whole_number(const char *t, size_t at, size_t n, site *s) {
    char *end;
    unsigned long long v = strtoull(t + at, &end, 0);
    size_t digits = (size_t)(end - (t + at));
    s->length = 0; /* a float, or too long: none */
    if (digits <= n && digits < 18 && t[at + digits] != '.' &&
        !strchr("eEpPfF", t[at + digits] ? t[at + digits] : 'e')) {
        s->length = digits;
        snprintf(s->to, sizeof s->to, "%llu", v + 1);
    }
}

/* The next site from `*at` on; `*at` moves behind it. */
static bool next(const char *t, size_t *at, bool *line_start, site *out) {
    while (t[*at]) {
        size_t i = *at, after = skip(t, i, *line_start), n = 0;
        *out = (site){.at = i};
        if (after > i) {
            *at = after;
            continue;
        }
        *line_start = t[i] == '\n' || (*line_start && isspace((unsigned char)t[i]));
        if (isalpha((unsigned char)t[i]) || t[i] == '_') {
            while (isalnum((unsigned char)t[i + n]) || t[i + n] == '_') {
                n++;
            }
            for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
                if (strlen(words[w].from) == n && strncmp(words[w].from, t + i, n) == 0) {
                    out->length = n;
                    snprintf(out->to, sizeof out->to, "%s", words[w].to);
                }
            }
        } else if (isdigit((unsigned char)t[i])) {
            while (isalnum((unsigned char)t[i + n]) || t[i + n] == '.') {
                n++;
            }
            whole_number(t, i, n, out);
        } else {
            for (size_t k = 0; k < sizeof kept / sizeof *kept && n == 0; k++) {
                n = strncmp(kept[k], t + i, strlen(kept[k])) == 0 ? strlen(kept[k]) : 0;
            }
            for (size_t o = 0; o < sizeof operators / sizeof *operators && n == 0; o++) {
                if (strncmp(operators[o].from, t + i, strlen(operators[o].from)) == 0) {
                    n = strlen(operators[o].from);
                    bool pointer =
                        (t[i] == '*' || t[i] == '&') && n == 1 && t[i + 1] != ' '; /* as we space them */
                    out->length = pointer ? 0 : n;
                    snprintf(out->to, sizeof out->to, "%s", operators[o].to);
                }
            }
        }
        *at = i + (n ? n : 1);
        if (out->length) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: mutate FILE [SITE]\n");
        return 2;
    }
    size_t size, at = 0;
    bool line_start = true;
    char *text = read_all(argv[1], &size);
    long wanted = argc == 3 ? strtol(argv[2], NULL, 10) : -1, count = 0;
    site s;
    while (next(text, &at, &line_start, &s)) {
        if (count++ == wanted) {
            long line = 1;
            for (size_t i = 0; i < s.at; i++) {
                line += text[i] == '\n';
            }
            fprintf(stderr, "%s:%ld: %.*s -> %s\n", argv[1], line, (int)s.length, text + s.at,
                    s.to[0] ? s.to : "nothing");
            fwrite(text, 1, s.at, stdout);
            fputs(s.to, stdout);
            fwrite(text + s.at + s.length, 1, size - s.at - s.length, stdout);
        }
    }
    free(text);
    if (wanted >= count) {
        fprintf(stderr, "mutate: %s has %ld sites\n", argv[1], count);
        return 2;
    }
    if (wanted < 0) {
        printf("%ld\n", count);
    }
    return 0;
}
