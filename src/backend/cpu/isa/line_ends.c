/* line_ends.h's. */
#if defined(LS_ISA_AVX2)
#include "backend/cpu/isa/line_ends.h"

line_ends LS_ISA_SUFFIX(ls_line_ends)(int64_t n, int64_t first, int64_t limit) {
    line_ends ends = {0};
    for (int64_t j = 0; j < n; j += LS_LANES_F32) {
        const int64_t at = n < LS_LANES_F32 || j + LS_LANES_F32 <= n ? j : n - LS_LANES_F32, from = first + at;
        if (at == j && j + LS_LANES_F32 <= n && from >= 0 && from + LS_LANES_F32 + 2 <= limit) {
            ends.from = ends.to ? ends.from : at;
            ends.to = at + LS_LANES_F32;
            continue;
        }
        line_end *e = &ends.of[ends.n++];
        e->at = at;
        e->which = ls_lanes_between(0, n - at);
        for (int t = 0; t < 3; t++) {
            e->there[t] = ls_lanes_between(-from - t, limit - from - t);
        }
    }
    return ends;
}
#endif
