/* vector.h at the instruction set that everything is compiled for. */
#include "math_vector.h"
