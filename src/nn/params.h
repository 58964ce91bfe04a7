/* What an ls_params is inside, and variables in files: shared by parameters and the state of optimisers. */
#ifndef LOCKSTEP_NN_PARAMS_H
#define LOCKSTEP_NN_PARAMS_H

#include "base/array.h"
#include <lockstep/io.h>
#include <lockstep/nn.h>

struct ls_params {
    ls_heap *heap;
    uint64_t seed;
    LS_ARRAY(ls_var *) vars;
    ls_archive *archive; /* of first values; NULL: they come from the seed */
    char *path;
};

#endif
