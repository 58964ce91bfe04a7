/* The allocator and the text functions of pages' modules (web/deps): nothing overlaps, all that is freed is one piece
 * again, sorting sorts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { PAGE = 4096, PAGES = 400 };
static _Alignas(4096) char memory[PAGE * PAGES];
static size_t pages = 2;

static size_t more(size_t n) {
    if (n > PAGES - pages) {
        return 0;
    }
    pages += n;
    return (size_t)memory + (pages - n) * PAGE;
}
#define MALLOC_PAGE PAGE
#define MALLOC_GROW more
#define MALLOC_FIRST ((size_t)memory + 100)
#define MALLOC_END ((size_t)memory + pages * PAGE)
#define malloc web_malloc
#define calloc web_calloc
#define realloc web_realloc
#define free web_free
#define aligned_alloc web_aligned_alloc
void *web_aligned_alloc(size_t align, size_t size);
void *web_malloc(size_t size);
void *web_calloc(size_t n, size_t each);
void *web_realloc(void *data, size_t size);
void web_free(void *data);
#include "../../web/deps/malloc.c"
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef aligned_alloc

#define memchr web_memchr
#define strlen web_strlen
#define strchr web_strchr
#define strcpy web_strcpy
#define strncpy web_strncpy
#define strspn web_strspn
#define strcspn web_strcspn
#define strstr web_strstr
#define qsort web_qsort
#define strtoll web_strtoll
long long web_strtoll(const char *restrict text, char **restrict out_end, int base);
void *web_memchr(const void *data, int c, size_t n);
size_t web_strlen(const char *text);
char *web_strchr(const char *text, int c);
char *web_strcpy(char *restrict to, const char *restrict from);
char *web_strncpy(char *restrict to, const char *restrict from, size_t n);
size_t web_strspn(const char *text, const char *set);
size_t web_strcspn(const char *text, const char *set);
char *web_strstr(const char *text, const char *part);
void web_qsort(void *data, size_t n, size_t size, int (*compare)(const void *, const void *));
#include "../../web/deps/string.c"
#undef memchr
#undef strlen
#undef strchr
#undef strcpy
#undef strncpy
#undef strspn
#undef strcspn
#undef strstr
#undef qsort
#undef strtoll

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

typedef struct held {
    unsigned char *data;
    size_t size;
    unsigned char fill;
} held;

static void check(const held *h) {
    for (size_t i = 0; i < h->size; i++) {
        assert_int_equal(h->data[i], h->fill);
    }
}

static void test_allocator(void **unused) {
    (void)unused;
    static held all[300];
    size_t refused = 0;
    for (int round = 0; round < 60000; round++) {
        held *h = &all[next() % 300];
        if (h->data && next() % 3 == 0) {
            size_t size = next() % 3000;
            unsigned char *moved = web_realloc(h->data, size);
            refused += !moved;
            if (moved) {
                h->data = moved;
                h->size = size < h->size ? size : h->size;
            }
        } else if (h->data) {
            check(h);
            web_free(h->data);
            h->data = NULL;
        } else {
            size_t align = (size_t)16 << next() % 6;
            h->size = next() % 8 ? next() % 500 : next() % 200000;
            h->data = web_aligned_alloc(align, h->size);
            refused += !h->data;
            if (h->data) {
                assert_int_equal((uintptr_t)h->data % align, 0);
                assert_true((char *)h->data >= memory && (char *)h->data + h->size <= memory + pages * PAGE);
                h->fill = (unsigned char)next();
                memset(h->data, h->fill, h->size);
            }
        }
        if (h->data) {
            check(h);
        }
    }
    assert_true(refused > 0 && refused < 20000);
    for (int i = 0; i < 300; i++) {
        web_free(all[i].data);
    }
    /* one free block again, from the first byte to the end */
    block *first = (block *)(((size_t)memory + 100 + HEAD + ALIGN - 1) / ALIGN * ALIGN - HEAD);
    assert_int_equal(first->size & 1, 0);
    assert_ptr_equal(at(first, first->size), end);
    assert_null(web_malloc(SIZE_MAX - 8));
    assert_null(web_calloc(SIZE_MAX / 2, 3));
    unsigned char *zeros = web_calloc(100, 3);
    assert_non_null(zeros);
    check(&(held){zeros, 300, 0});
    web_free(zeros);
    web_free(NULL);
}

static int by_value(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void test_sort(void **unused) {
    (void)unused;
    int got[64], expected[64];
    for (size_t n = 0; n <= 64; n++) {
        for (size_t i = 0; i < n; i++) {
            got[i] = expected[i] = (int)(next() % 20);
        }
        web_qsort(got, n, sizeof *got, by_value);
        qsort(expected, n, sizeof *expected, by_value);
        assert_memory_equal(got, expected, n * sizeof *got);
    }
}

static void test_texts(void **unused) {
    (void)unused;
    static const char *const texts[] = {"",       "a",      "ab", "aab",  "abab",
                                        "ababac", "kernel", "b",  "aabb", "\xff\x80"};
    enum { N = sizeof texts / sizeof *texts };
    char got[8], expected[8];
    for (int i = 0; i < N; i++) {
        assert_int_equal(web_strlen(texts[i]), strlen(texts[i]));
        assert_ptr_equal(web_strchr(texts[i], 'b'), strchr(texts[i], 'b'));
        assert_ptr_equal(web_strchr(texts[i], 0), strchr(texts[i], 0));
        assert_ptr_equal(web_strchr(texts[i], 0x80), strchr(texts[i], 0x80));
        assert_ptr_equal(web_memchr("ab\0ab", texts[i][0], 5) ? "there" : NULL,
                         memchr("ab\0ab", texts[i][0], 5) ? "there" : NULL);
        assert_string_equal(web_strcpy(got, texts[i]), texts[i]);
        web_strncpy(got, texts[i], 4);
        memset(expected, 0, sizeof expected);
        memcpy(expected, texts[i], strlen(texts[i]) < 4 ? strlen(texts[i]) : 4);
        assert_memory_equal(got, expected, 4);
        for (int k = 0; k < N; k++) {
            assert_ptr_equal(web_strstr(texts[i], texts[k]), strstr(texts[i], texts[k]));
            assert_int_equal(web_strspn(texts[i], texts[k]), strspn(texts[i], texts[k]));
            assert_int_equal(web_strcspn(texts[i], texts[k]), strcspn(texts[i], texts[k]));
        }
    }
}

static void test_integers(void **unused) {
    (void)unused;
    static const char *const texts[] = {"",    "0",  "-0", "12x", "-345", "9223372036854775807", "-9223372036854775808",
                                        "x", "-12"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *end, *expected_end;
        assert_true(web_strtoll(texts[i], &end, 10) == strtoll(texts[i], &expected_end, 10));
        assert_ptr_equal(end, expected_end);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocator), cmocka_unit_test(test_sort),
                                       cmocka_unit_test(test_texts), cmocka_unit_test(test_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
