/* Lists of what is not zero, of all elements or of those that windows chose (gemm_isa.h): exact, so the same for locked and fast. */
#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"

#include <string.h>

#if !defined(LS_ISA_SIMD128) && !defined(__wasm__) /* a page makes no lists */

/* What an instruction set does with some elements of four bytes: `load` reads as many as are left, others are 0; `put` appends entries of those that are
 * `wanted`, and may write anything behind them. */
#if defined(LS_ISA_AVX512)
enum { AT_ONCE = 16 };
typedef __m512i words;
typedef __mmask16 wanted;

static inline words load(int64_t left, const void *from) {
    return _mm512_maskz_loadu_epi32(left < AT_ONCE ? (__mmask16)((1u << left) - 1) : 0xffff, from);
}
static inline wanted not_zero(words x) {
    return _mm512_cmp_ps_mask(_mm512_castsi512_ps(x), _mm512_setzero_ps(), _CMP_NEQ_UQ);
}
static inline wanted that_are(wanted some, words x, uint32_t y) {
    return _mm512_mask_cmpeq_epi32_mask(some, x, _mm512_set1_epi32((int32_t)y));
}
static inline wanted below_four(wanted some, words x) {
    return _mm512_mask_cmplt_epu32_mask(some, x, _mm512_set1_epi32(4));
}
static inline words plus_one_of(words x, const int32_t of[4], words which) {
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)of));
    return _mm512_add_epi32(x, _mm512_permutexvar_epi32(which, table));
}
/* They are counted first: where a call comes between, as a sanitizer's, gcc 12 keeps the 16 bits of a mask in memory, and counts 32 there. */
static inline int64_t put(wanted some, words at, words x, ls_sparse_entry *list) {
    const int n = __builtin_popcount(some);
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0), high = _mm512_or_epi32(low, _mm512_set1_epi32(8));
    const __m512i y = _mm512_maskz_compress_epi32(some, x), a = _mm512_maskz_compress_epi32(some, at);
    _mm512_storeu_si512(list, _mm512_permutex2var_epi32(a, low, y));
    _mm512_storeu_si512(list + 8, _mm512_permutex2var_epi32(a, high, y));
    return n;
}
#elif defined(LS_ISA_AVX2)
enum { AT_ONCE = 8 };
typedef __m256i words, wanted;

static inline words load(int64_t left, const void *from) {
    const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    return left >= AT_ONCE ? _mm256_loadu_si256(from) : _mm256_maskload_epi32(from, _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)left), lanes));
}
static inline wanted not_zero(words x) {
    return _mm256_castps_si256(_mm256_cmp_ps(_mm256_castsi256_ps(x), _mm256_setzero_ps(), _CMP_NEQ_UQ));
}
static inline wanted that_are(wanted some, words x, uint32_t y) {
    return _mm256_and_si256(some, _mm256_cmpeq_epi32(x, _mm256_set1_epi32((int32_t)y)));
}
static inline wanted below_four(wanted some, words x) {
    return _mm256_and_si256(some, _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 2), _mm256_setzero_si256()));
}
static inline words plus_one_of(words x, const int32_t of[4], words which) {
    const __m256 table = _mm256_broadcast_ps((const __m128 *)(const void *)of);
    return _mm256_add_epi32(x, _mm256_castps_si256(_mm256_permutevar_ps(table, which)));
}
/* Four entries at a time; of each choice of them the words that come first. */
static inline int64_t put(wanted some, words at, words x, ls_sparse_entry *list) {
#define ENTRY(i) 2 * (i), 2 * (i) + 1
#define ENTRIES(i, j, k, l) {ENTRY(i), ENTRY(j), ENTRY(k), ENTRY(l)}
    static const uint8_t orders[16][8] = {ENTRIES(0, 0, 0, 0), ENTRIES(0, 0, 0, 0), ENTRIES(1, 0, 0, 0), ENTRIES(0, 1, 0, 0),
                                          ENTRIES(2, 0, 0, 0), ENTRIES(0, 2, 0, 0), ENTRIES(1, 2, 0, 0), ENTRIES(0, 1, 2, 0),
                                          ENTRIES(3, 0, 0, 0), ENTRIES(0, 3, 0, 0), ENTRIES(1, 3, 0, 0), ENTRIES(0, 1, 3, 0),
                                          ENTRIES(2, 3, 0, 0), ENTRIES(0, 2, 3, 0), ENTRIES(1, 2, 3, 0), ENTRIES(0, 1, 2, 3)};
#undef ENTRY
#undef ENTRIES
    const __m256i two = _mm256_unpacklo_epi32(at, x), more = _mm256_unpackhi_epi32(at, x);
    const __m256i fours[] = {_mm256_permute2x128_si256(two, more, 0x20), _mm256_permute2x128_si256(two, more, 0x31)};
    const unsigned lanes = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(some));
    for (int half = 0; half < 2; half++) {
        const unsigned own = lanes >> 4 * half & 15;
        const __m256i order = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)orders[own]));
        _mm256_storeu_si256((__m256i *)(void *)list, _mm256_permutevar8x32_epi32(fours[half], order));
        list += __builtin_popcount(own);
    }
    return __builtin_popcount(lanes);
}
#else
enum { AT_ONCE = 1 };
typedef uint32_t words;
typedef bool wanted;

static inline words load(int64_t left, const void *from) {
    (void)left;
    words x;
    memcpy(&x, from, sizeof x);
    return x;
}
static inline wanted not_zero(words x) {
    return x << 1 != 0;
}
static inline wanted that_are(wanted some, words x, uint32_t y) {
    return some && x == y;
}
static inline wanted below_four(wanted some, words x) {
    return some && x < 4;
}
static inline words plus_one_of(words x, const int32_t of[4], words which) {
    return x + (uint32_t)of[which % 4];
}
static inline int64_t put(wanted some, words at, words x, ls_sparse_entry *list) {
    memcpy(&list->at, &at, sizeof at);
    memcpy(&list->value, &x, sizeof x);
    return some;
}
#endif

int64_t LS_ISA_SUFFIX(ls_list_nonzeros)(int64_t n, const float *src, const int32_t *at, ls_sparse_entry *list) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += AT_ONCE) {
        const words x = load(n - i, src + i);
        count += put(not_zero(x), load(n - i, at + i), x, list + count);
    }
    return count;
}

int64_t LS_ISA_SUFFIX(ls_list_chosen)(int64_t n, const float *src, const uint32_t *places, const int32_t *at, const int32_t of[4], ls_sparse_entry *list) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += AT_ONCE) {
        const words x = load(n - i, src + i), place = load(n - i, places + i);
        count += put(below_four(not_zero(x), place), plus_one_of(load(n - i, at + i), of, place), x, list + count);
    }
    return count;
}

int64_t LS_ISA_SUFFIX(ls_list_chosen_planes)(int64_t windows, int64_t n, uint32_t place, const float *src, const uint32_t *places, const int32_t *at,
                                             ls_sparse_entry *list, int64_t count, int32_t *starts) {
    for (int64_t window = 0; window < 2 * windows; window++) {
        const int64_t from = window / 2 * n;
        starts[window] = (int32_t)count;
        for (int64_t i = 0; i < n; i += AT_ONCE) {
            const words x = load(n - i, src + from + i), own = load(n - i, places + from + i);
            count += put(that_are(not_zero(x), own, place + (uint32_t)(window % 2)), load(n - i, at + i), x, list + count);
        }
    }
    return count;
}
#endif
