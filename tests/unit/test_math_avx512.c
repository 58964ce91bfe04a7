/* vector.h for AVX-512; elsewhere sixteen lanes of whatever there is. */
#define LS_LANES 16
#if defined(__x86_64__)
#define MATH_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#define MATH_CPU "avx512dq"
#define LS_MATH_AVX512 1
#define LS_MATH_AVX2 0
#endif
#include "math_vector.h"
