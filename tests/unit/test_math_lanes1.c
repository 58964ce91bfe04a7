/* vector.h with one lane, as the scalar objects of the CPU backend use it. */
#define LS_LANES 1
#include "math_vector.h"
