/* Strings: on the host, UTF-8. Regular expressions and letter case are PCRE2's. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "io/onnx/onnx.h"
#include <pcre2.h>
#include <string.h>

static ls_onnx_value *strings_new(ls_onnx_node *n, int rank, const int64_t *dims) {
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    size_t count = 1;
    if (!v) {
        return NULL;
    }
    v->known = true;
    v->rank = rank;
    for (int i = 0; i < rank; i++) {
        v->dims[i] = dims[i];
        count *= (size_t)dims[i];
    }
    v->strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, count + 1);
    return v->strings ? v : NULL;
}

static int64_t numel(const ls_onnx_value *v) {
    int64_t dims[LS_MAX_RANK], count = 1;
    int rank = ls_onnx_value_dims(v, dims);
    for (int i = 0; i < rank; i++) {
        count *= dims[i];
    }
    return count;
}

static ls_status strings_in(ls_onnx_node *n, int i, const ls_onnx_value **out) {
    *out = n->in[i];
    return n->in[i]->kind == ONNX_STRINGS
               ? LS_OK
               : ls_onnx_fail(n, LS_ERR_DTYPE, "operand %d: expected a tensor of strings", i);
}

static const char *copy_of(ls_onnx_node *n, const char *from, size_t length) {
    char *text = ls_arena_alloc(ls_onnx_arena(n), length + 1);
    if (text) {
        memcpy(text, from, length);
    }
    return text;
}

/* ---- PCRE2, on the context's heap ---- */

static void *regex_alloc(size_t size, void *heap) {
    return ls_alloc(heap, size);
}
static void regex_free(void *block, void *heap) {
    ls_free(heap, block);
}

typedef struct regex {
    pcre2_general_context *memory;
    pcre2_compile_context *options;
    pcre2_code *code;
    pcre2_match_data *match;
} regex;

static void regex_close(regex *r) {
    pcre2_match_data_free(r->match);
    pcre2_code_free(r->code);
    pcre2_compile_context_free(r->options);
    pcre2_general_context_free(r->memory);
}

/* Closed by the caller, after a failure too. */
static ls_status regex_open(ls_onnx_node *n, const char *pattern, uint32_t flags, regex *r) {
    int code = 0;
    PCRE2_SIZE at = 0;
    memset(r, 0, sizeof *r);
    r->memory = pcre2_general_context_create(regex_alloc, regex_free, ls_context_heap(ls_onnx_context(n)));
    r->options = r->memory ? pcre2_compile_context_create(r->memory) : NULL;
    if (!r->options) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a regular expression");
    }
    r->code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | flags, &code, &at, r->options);
    if (!r->code) {
        PCRE2_UCHAR reason[160];
        pcre2_get_error_message(code, reason, sizeof reason);
        return ls_onnx_fail(n, code == PCRE2_ERROR_HEAP_FAILED ? LS_ERR_MEMORY : LS_ERR_FORMAT,
                            "regular expression \"%s\", at %zu: %s", pattern, (size_t)at,
                            (const char *)reason);
    }
    r->match = pcre2_match_data_create_from_pattern(r->code, r->memory);
    return r->match ? LS_OK : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a regular expression");
}

static ls_status match_all(ls_onnx_node *n, const ls_onnx_value *x, regex *r, uint8_t *yes) {
    for (int64_t i = 0; i < numel(x); i++) {
        int code = pcre2_match(r->code, (PCRE2_SPTR)x->strings[i], strlen(x->strings[i]), 0,
                               PCRE2_ANCHORED | PCRE2_ENDANCHORED, r->match, NULL);
        if (code < 0 && code != PCRE2_ERROR_NOMATCH) {
            PCRE2_UCHAR reason[160];
            pcre2_get_error_message(code, reason, sizeof reason);
            return ls_onnx_fail(n, code == PCRE2_ERROR_NOMEMORY ? LS_ERR_MEMORY : LS_ERR_UNSUPPORTED,
                                "element %lld cannot be matched: %s", (long long)i, (const char *)reason);
        }
        yes[i] = code >= 0;
    }
    return LS_OK;
}

static ls_status regex_full_match(ls_onnx_node *n) {
    const ls_onnx_value *x;
    const char *pattern = ls_onnx_attr_string(n, "pattern", NULL);
    LS_TRY(n->err, strings_in(n, 0, &x));
    uint8_t *yes = ls_arena_alloc(ls_onnx_arena(n), (size_t)numel(x) + 1);
    regex r;
    if (!pattern || !yes) {
        return ls_onnx_fail(n, pattern ? LS_ERR_MEMORY : LS_ERR_FORMAT,
                            pattern ? "out of memory for matches" : "attribute pattern is missing");
    }
    /* `$` is the very end, as RE2 has it. */
    ls_status status = regex_open(n, pattern, PCRE2_DOLLAR_ENDONLY, &r);
    status = status == LS_OK ? match_all(n, x, &r, yes) : status;
    regex_close(&r);
    return status == LS_OK ? ls_onnx_out_from(n, 0, ONNX_BOOL, x->rank, x->dims, yes) : status;
}

/* ---- normalizing ---- */

/* The letters of `text` in upper or lower case, one for one. */
static ls_status change_case(ls_onnx_node *n, regex *r, bool upper, const char *text, const char **out_text) {
    PCRE2_SIZE size = 4 * strlen(text) + 1; /* a letter may be longer in the other case */
    char *changed = ls_arena_alloc(ls_onnx_arena(n), size);
    if (!changed) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
    }
    int code = pcre2_substitute(r->code, (PCRE2_SPTR)text, strlen(text), 0, PCRE2_SUBSTITUTE_EXTENDED,
                                r->match, NULL, (PCRE2_SPTR)(upper ? "\\U$0" : "\\L$0"),
                                PCRE2_ZERO_TERMINATED, (PCRE2_UCHAR *)changed, &size);
    if (code < 0) {
        return ls_onnx_fail(n, code == PCRE2_ERROR_NOMEMORY ? LS_ERR_MEMORY : LS_ERR_FORMAT,
                            "\"%s\" is no UTF-8", text);
    }
    *out_text = changed;
    return LS_OK;
}

typedef struct normalizer {
    const char *const *stop;
    int n_stop;
    bool sensitive, upper, lower;
    int64_t kept;
} normalizer;

static ls_status normalize(ls_onnx_node *n, regex *r, normalizer *z, const ls_onnx_value *x,
                           ls_onnx_value *y) {
    const char **stop = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, z->n_stop + 1);
    if (!stop) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for stopwords");
    }
    for (int i = 0; i < z->n_stop; i++) {
        stop[i] = z->stop[i];
        if (!z->sensitive) {
            LS_TRY(n->err, change_case(n, r, false, z->stop[i], &stop[i]));
        }
    }
    for (int64_t i = 0; i < numel(x); i++) {
        const char *text = x->strings[i], *compared = text;
        bool keep = true;
        if (!z->sensitive && z->n_stop) {
            LS_TRY(n->err, change_case(n, r, false, text, &compared));
        }
        for (int k = 0; k < z->n_stop && keep; k++) {
            keep = strcmp(compared, stop[k]) != 0;
        }
        if (keep && (z->upper || z->lower)) {
            LS_TRY(n->err, change_case(n, r, z->upper, text, &text));
        }
        if (keep) {
            y->strings[z->kept++] = text;
        }
    }
    return LS_OK;
}

static ls_status string_normalizer(ls_onnx_node *n) {
    const ls_onnx_value *x;
    const char *action = ls_onnx_attr_string(n, "case_change_action", "NONE");
    normalizer z = {.sensitive = ls_onnx_attr_int(n, "is_case_sensitive", 0) != 0,
                    .upper = !strcmp(action, "UPPER"),
                    .lower = !strcmp(action, "LOWER")};
    z.stop = ls_onnx_attr_strings(n, "stopwords", &z.n_stop);
    LS_TRY(n->err, strings_in(n, 0, &x));
    if ((x->rank != 1 && (x->rank != 2 || x->dims[0] != 1)) ||
        (!z.upper && !z.lower && strcmp(action, "NONE") != 0)) {
        return ls_onnx_fail(n, LS_ERR_INVALID,
                            "expected an operand [C] or [1, C], and case_change_action LOWER, UPPER or NONE");
    }
    ls_onnx_value *y = strings_new(n, x->rank, x->dims);
    if (!y) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
    }
    regex r;
    ls_status status = regex_open(n, "(?s).+", PCRE2_UCP, &r);
    status = status == LS_OK ? normalize(n, &r, &z, x, y) : status;
    regex_close(&r);
    LS_TRY(n->err, status);
    if (z.kept == 0) { /* one empty string stands for none; there is room for one more than x has */
        y->strings[z.kept++] = "";
    }
    y->dims[y->rank - 1] = z.kept;
    return ls_onnx_out_value(n, 0, y);
}

/* ---- concatenating, splitting ---- */

/* NumPy's broadcast; the steps of an operand are 0 where it is repeated. */
static bool broadcast(const ls_onnx_value *const *x, int64_t *dims, int *out_rank,
                      int64_t steps[2][LS_MAX_RANK]) {
    int rank = x[0]->rank > x[1]->rank ? x[0]->rank : x[1]->rank;
    int64_t step[2] = {1, 1};
    *out_rank = rank;
    for (int i = rank - 1; i >= 0; i--) {
        int64_t d[2];
        for (int k = 0; k < 2; k++) {
            int at = i - rank + x[k]->rank;
            d[k] = at < 0 ? 1 : x[k]->dims[at];
            steps[k][i] = d[k] == 1 ? 0 : step[k];
            step[k] *= d[k];
        }
        if (d[0] != d[1] && d[0] != 1 && d[1] != 1) {
            return false;
        }
        dims[i] = d[0] == 1 ? d[1] : d[0];
    }
    return true;
}

static ls_status string_concat(ls_onnx_node *n) {
    const ls_onnx_value *x[2];
    int64_t dims[LS_MAX_RANK] = {0}, steps[2][LS_MAX_RANK];
    int rank;
    LS_TRY(n->err, strings_in(n, 0, &x[0]));
    LS_TRY(n->err, strings_in(n, 1, &x[1]));
    if (!broadcast(x, dims, &rank, steps)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "the shapes of the operands do not broadcast");
    }
    ls_onnx_value *y = strings_new(n, rank, dims);
    if (!y) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
    }
    for (int64_t i = 0; i < numel(y); i++) {
        int64_t rest = i, at[2] = {0, 0};
        for (int k = rank - 1; k >= 0; k--) {
            at[0] += rest % dims[k] * steps[0][k];
            at[1] += rest % dims[k] * steps[1][k];
            rest /= dims[k];
        }
        y->strings[i] = ls_arena_printf(ls_onnx_arena(n), "%s%s", x[0]->strings[at[0]], x[1]->strings[at[1]]);
        if (!y->strings[i]) {
            return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
        }
    }
    return ls_onnx_out_value(n, 0, y);
}

/* Bytes of the white space that `text` begins with; Unicode's, as Python's str.split takes it. */
static size_t blank(const char *text) {
    static const char *const wide[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
                                       "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    unsigned char c = (unsigned char)*text;
    if ((c >= 9 && c <= 13) || (c >= 28 && c <= 32)) {
        return 1;
    }
    for (size_t i = 0; c >= 0x80 && i < sizeof wide / sizeof *wide; i++) {
        if (!strncmp(text, wide[i], strlen(wide[i]))) {
            return strlen(wide[i]);
        }
    }
    return !strncmp(text, "\xe2\x80", 2) && (unsigned char)text[2] >= 0x80 && (unsigned char)text[2] <= 0x8a
               ? 3
               : 0;
}

/* The next part of *text, which moves behind it and what ends it; NULL at the end. `last`: all that is
 * left. */
static const char *next_part(const char **text, const char *delimiter, bool last, size_t *out_length) {
    const char *start = *text, *end;
    size_t skip = 0;
    if (!start) {
        return NULL;
    }
    if (*delimiter) {
        end = last ? NULL : strstr(start, delimiter);
        *out_length = end ? (size_t)(end - start) : strlen(start);
        *text = end ? end + strlen(delimiter) : NULL;
        return start;
    }
    while ((skip = blank(start)) > 0) {
        start += skip;
    }
    if (!*start) {
        return NULL;
    }
    for (end = start; *end && (last || !blank(end));) {
        end++;
    }
    *out_length = (size_t)(end - start);
    *text = end;
    return start;
}

static int64_t count_parts(const char *text, const char *delimiter, int64_t most) {
    int64_t count = 0;
    size_t length;
    while (next_part(&text, delimiter, most >= 0 && count == most, &length)) {
        count++;
    }
    return count;
}

static ls_status string_split(ls_onnx_node *n) {
    const ls_onnx_value *x;
    const char *delimiter = ls_onnx_attr_string(n, "delimiter", "");
    int64_t most = ls_onnx_attr_int(n, "maxsplit", -1), dims[LS_MAX_RANK], longest = 0;
    LS_TRY(n->err, strings_in(n, 0, &x));
    int64_t total = numel(x), *counts = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, total + 1);
    if (!counts || x->rank == LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a result of %d axes, or out of memory", x->rank + 1);
    }
    for (int64_t i = 0; i < total; i++) {
        counts[i] = count_parts(x->strings[i], delimiter, most);
        longest = counts[i] > longest ? counts[i] : longest;
    }
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank] = longest;
    ls_onnx_value *y = strings_new(n, x->rank + 1, dims);
    if (!y) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
    }
    for (int64_t i = 0; i < total; i++) {
        const char *text = x->strings[i];
        for (int64_t k = 0; k < longest; k++) {
            size_t length = 0;
            const char *part =
                k < counts[i] ? next_part(&text, delimiter, most >= 0 && k == most, &length) : "";
            y->strings[i * longest + k] = copy_of(n, part, length);
            if (!y->strings[i * longest + k]) {
                return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
            }
        }
    }
    LS_TRY(n->err, ls_onnx_out_value(n, 0, y));
    return ls_onnx_out_from(n, 1, ONNX_INT64, x->rank, x->dims, counts);
}

/* ---- n-grams ---- */

/* Words of the pool, and the n-grams of them: words and grams are numbered by maps. */
typedef struct word {
    const char *text; /* NULL: a number */
    int64_t number;
    int32_t id;
} word;
typedef struct gram {
    int size;
    const int32_t *words;
    int64_t column;
} gram;

static bool same_word(const void *a, const void *b) {
    const word *x = a, *y = b;
    return x->text && y->text ? !strcmp(x->text, y->text) : !x->text && !y->text && x->number == y->number;
}
static uint64_t hash_word(const word *w) {
    return w->text ? ls_hash(w->text, strlen(w->text), 1) : ls_hash_u64((uint64_t)w->number, 0);
}
static bool same_gram(const void *a, const void *b) {
    const gram *x = a, *y = b;
    return x->size == y->size && !memcmp(x->words, y->words, sizeof *x->words * (size_t)x->size);
}
static uint64_t hash_gram(const gram *g) {
    return ls_hash(g->words, sizeof *g->words * (size_t)g->size, 0);
}

typedef struct tfidf {
    int64_t shortest, longest, skips, columns;
    ls_map words, grams;
    int32_t *scratch;
} tfidf;

/* The pool: n-grams of 1 word, of 2, ..., those of n + 1 words from counts[n] on, each with its column. */
static ls_status read_pool(ls_onnx_node *n, tfidf *t) {
    int n_strings, n_ints, n_counts, n_columns, made = 0;
    const char *const *strings = ls_onnx_attr_strings(n, "pool_strings", &n_strings);
    const int64_t *ints = ls_onnx_attr_ints(n, "pool_int64s", &n_ints),
                  *counts = ls_onnx_attr_ints(n, "ngram_counts", &n_counts);
    const int64_t *columns = ls_onnx_attr_ints(n, "ngram_indexes", &n_columns);
    ls_arena *arena = ls_onnx_arena(n);
    int total = n_strings ? n_strings : n_ints;
    int32_t *ids = LS_ARENA_ARRAY(arena, int32_t, total + 1);
    word *pool = LS_ARENA_ARRAY(arena, word, total + 1);
    gram *grams = LS_ARENA_ARRAY(arena, gram, n_columns + 1);
    if (!ids || !pool || !grams) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for n-grams");
    }
    for (int i = 0; i < total; i++) {
        pool[i] = (word){n_strings ? strings[i] : NULL, n_strings ? 0 : ints[i], i};
        const word *known = ls_map_get(&t->words, hash_word(&pool[i]), &pool[i]);
        ids[i] = known ? known->id : i;
        if (!known && !ls_map_put(&t->words, hash_word(&pool[i]), &pool[i], &pool[i])) {
            return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for n-grams");
        }
    }
    for (int k = 0; k < n_counts; k++) {
        int64_t from = counts[k], to = k + 1 < n_counts ? counts[k + 1] : total;
        if (from < 0 || to < from || to > total || (to - from) % (k + 1)) {
            return ls_onnx_fail(n, LS_ERR_FORMAT, "ngram_counts[%d] is %lld, in a pool of %d", k,
                                (long long)from, total);
        }
        for (int64_t at = from; at < to; at += k + 1) {
            if (made >= n_columns || columns[made] < 0 || columns[made] > 1 << 28) {
                return ls_onnx_fail(n, LS_ERR_FORMAT,
                                    "ngram_indexes: %d of them, and no valid one for n-gram %d", n_columns,
                                    made);
            }
            gram *g = &grams[made];
            *g = (gram){k + 1, ids + at, columns[made++]};
            t->columns = g->column >= t->columns ? g->column + 1 : t->columns;
            ls_map_remove(&t->grams, hash_gram(g), g); /* the last of equal ones counts */
            if (!ls_map_put(&t->grams, hash_gram(g), g, g)) {
                return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for n-grams");
            }
        }
    }
    return LS_OK;
}

/* Adds to counts[columns] the n-grams of a row of words: consecutive ones, and those with up to `skips`
 * words left out between neighbours. */
static void count_row(tfidf *t, const int32_t *row, int64_t length, float *counts) {
    for (int64_t size = t->shortest; size <= t->longest; size++) {
        for (int64_t step = 1; step <= (size == 1 ? 1 : t->skips + 1); step++) {
            for (int64_t start = 0; start + (size - 1) * step < length; start++) {
                for (int64_t i = 0; i < size; i++) {
                    t->scratch[i] = row[start + i * step];
                }
                const gram key = {(int)size, t->scratch, 0};
                const gram *found = ls_map_get(&t->grams, hash_gram(&key), &key);
                if (found) {
                    counts[found->column] += 1;
                }
            }
        }
    }
}

/* Operand 0's elements as words of the pool, -1 for others. */
static ls_status words_in(ls_onnx_node *n, tfidf *t, int64_t total, int32_t **out_row) {
    int64_t *ints = NULL;
    int count;
    bool text = n->in[0]->kind == ONNX_STRINGS;
    *out_row = LS_ARENA_ARRAY(ls_onnx_arena(n), int32_t, total + 1);
    if (!*out_row) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for words");
    }
    if (!text) {
        LS_TRY(n->err, ls_onnx_ints(n, 0, &ints, &count));
    }
    for (int64_t i = 0; i < total; i++) {
        const word key = {text ? n->in[0]->strings[i] : NULL, text ? 0 : ints[i], 0};
        const word *known = ls_map_get(&t->words, hash_word(&key), &key);
        (*out_row)[i] = known ? known->id : -1;
    }
    return LS_OK;
}

static ls_status vectorize(ls_onnx_node *n, tfidf *t) {
    int64_t dims[LS_MAX_RANK] = {1, 1}, shape[2];
    int rank = ls_onnx_value_dims(n->in[0], dims), n_weights;
    const char *mode = ls_onnx_attr_string(n, "mode", "");
    const float *weights = ls_onnx_attr_floats(n, "weights", &n_weights);
    bool idf = !strcmp(mode, "IDF"), both = !strcmp(mode, "TFIDF");
    int32_t *row;
    LS_TRY(n->err, read_pool(n, t));
    int n_sizes;
    ls_onnx_attr_ints(n, "ngram_counts", &n_sizes);
    t->longest = t->longest < n_sizes ? t->longest : n_sizes; /* the pool has no longer ones */
    if (rank > 2 || (!idf && !both && strcmp(mode, "TF") != 0) || (n_weights && n_weights < t->columns)) {
        return ls_onnx_fail(
            n, LS_ERR_INVALID,
            "expected an operand [C] or [B, C], mode TF, IDF or TFIDF, and a weight for each column");
    }
    int64_t rows = rank == 2 ? dims[0] : 1, length = rank ? dims[rank - 1] : 1;
    float *counts = LS_ARENA_ARRAY(ls_onnx_arena(n), float, (size_t)rows *(size_t)t->columns + 1);
    t->scratch = LS_ARENA_ARRAY(ls_onnx_arena(n), int32_t, t->longest + 1);
    if (!counts || !t->scratch) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %lld columns", (long long)t->columns);
    }
    LS_TRY(n->err, words_in(n, t, rows * length, &row));
    for (int64_t b = 0; b < rows; b++) {
        float *out = counts + b * t->columns;
        count_row(t, row + b * length, length, out);
        for (int64_t i = 0; i < t->columns && (idf || both); i++) {
            float weight = n_weights ? weights[i] : 1;
            out[i] = idf ? (out[i] > 0 ? weight : 0) : out[i] * weight;
        }
    }
    shape[0] = rank == 2 ? rows : t->columns;
    shape[1] = t->columns;
    return ls_onnx_out_from(n, 0, ONNX_FLOAT, rank == 2 ? 2 : 1, shape, counts);
}

static ls_status tfidf_vectorizer(ls_onnx_node *n) {
    tfidf t = {.shortest = ls_onnx_attr_int(n, "min_gram_length", 1),
               .longest = ls_onnx_attr_int(n, "max_gram_length", 1),
               .skips = ls_onnx_attr_int(n, "max_skip_count", 0)};
    if (t.shortest < 1 || t.longest < t.shortest || t.longest > 1 << 16 || t.skips < 0 || t.skips > 1 << 16) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "n-grams of %lld to %lld words, %lld skipped",
                            (long long)t.shortest, (long long)t.longest, (long long)t.skips);
    }
    ls_map_init(&t.words, ls_onnx_arena(n)->heap, same_word);
    ls_map_init(&t.grams, ls_onnx_arena(n)->heap, same_gram);
    ls_status status = vectorize(n, &t);
    ls_map_free(&t.words);
    ls_map_free(&t.grams);
    return status;
}

const ls_onnx_op ls_onnx_text_ops[] = {
    {"", "StringNormalizer", 10, 1, 1, string_normalizer, ONNX_HOST},
    {"", "StringConcat", 20, 2, 2, string_concat, ONNX_HOST},
    {"", "StringSplit", 20, 1, 1, string_split, ONNX_HOST},
    {"", "RegexFullMatch", 20, 1, 1, regex_full_match, ONNX_HOST},
    {"", "TfIdfVectorizer", 9, 1, 1, tfidf_vectorizer, ONNX_HOST},
    {0},
};
