/* vector.h for AVX2; elsewhere eight lanes of whatever there is. */
#define LS_LANES 8
#if defined(__x86_64__)
#define MATH_TARGET "avx2"
#define MATH_CPU "avx2"
#define LS_MATH_AVX512 0
#define LS_MATH_AVX2 1
#endif
#include "math_vector.h"
