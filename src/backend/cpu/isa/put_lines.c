/* Lines of sums on their way to where results lie (gemm_isa.h, ls_put_lines). */
#include "backend/cpu/isa/gemm_vec.h"

#if !defined(LS_ISA_SCALAR) && !defined(LS_ISA_SIMD128)
#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/chain_ops.h"

enum { L = LS_LANES_F32 };

void LS_ISA_SUFFIX(ls_put_lines)(const ls_put_lines *p, const float *src, float *dst) {
    const int64_t n = p->n, whole = n / L * L;
    const int most_at = p->bounds.after[2];
    const float *scalars = p->bounds.scalars;
    for (int64_t row = 0; row < p->rows; row++, scalars += p->bounds.n_scalars) {
        const float most_of = most_at < 0 ? __builtin_inff() : scalars[most_at];
        float plus_of, least_of;
        ls_bounds_of(&p->bounds, scalars, &plus_of, &least_of);
        const ls_vf32 plus = LS_SPLAT_F32(plus_of), least = LS_SPLAT_F32(least_of), most = LS_SPLAT_F32(-most_of), most_zero = LS_SPLAT_F32(ls_zero_above(-most_of));
        const float *from = src + row * p->src_row;
        float *to = dst + row * p->dst_row;
#define PUT(j)                                                                                               \
    {                                                                                                        \
        ls_vf32 x = LS_ABOVE(least, *(const ls_vf32_any *)(from + (j)) + plus);                              \
        x = most_at < 0 ? x : -(LS_ABOVE(most, -x) + most_zero);                                             \
        *(ls_vf32_any *)(to + (j)) = ls_canonical(x);                                                        \
    }
        for (int64_t line = 0; line < p->lines; line++, from += p->src_line, to += p->dst_line) {
            for (int64_t j = 0; j < whole; j += L) {
                PUT(j)
            }
            if (whole < n) { /* some of those before, again */
                PUT(n - L)
            }
        }
#undef PUT
    }
}
#endif
