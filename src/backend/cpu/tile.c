/* The tile functions of each instruction set in this build. */
#include "backend/cpu/tile.h"

#if LS_HAVE_ISA_SCALAR
extern const ls_tile_isa ls_tile_isa__scalar;
#endif
#if LS_HAVE_ISA_NEON
extern const ls_tile_isa ls_tile_isa__neon;
#endif
#if LS_HAVE_ISA_SIMD128
extern const ls_tile_isa ls_tile_isa__simd128;
#endif
#if LS_HAVE_ISA_AVX2
extern const ls_tile_isa ls_tile_isa__avx2;
#endif
#if LS_HAVE_ISA_AVX512
extern const ls_tile_isa ls_tile_isa__avx512;
#endif

static const ls_tile_isa *const isas[LS_CPU_ISA_COUNT] = {
#if LS_HAVE_ISA_SCALAR
    [LS_CPU_SCALAR] = &ls_tile_isa__scalar,
#endif
#if LS_HAVE_ISA_NEON
    [LS_CPU_NEON] = &ls_tile_isa__neon,
#endif
#if LS_HAVE_ISA_SIMD128
    [LS_CPU_SIMD128] = &ls_tile_isa__simd128,
#endif
#if LS_HAVE_ISA_AVX2
    [LS_CPU_AVX2] = &ls_tile_isa__avx2,
#endif
#if LS_HAVE_ISA_AVX512
    [LS_CPU_AVX512] = &ls_tile_isa__avx512,
#endif
};

const ls_tile_isa *ls_tile_isa_get(ls_cpu_isa isa) {
    return (unsigned)isa < LS_CPU_ISA_COUNT ? isas[isa] : NULL;
}

ls_tile_fn ls_tile_int_fn(const ls_tile_isa *isa, ls_op op, ls_dtype dtype) {
#define ROW(op) [LS_OP_##op] = 1 + LS_TILE_INT_##op,
    static const uint8_t rows[LS_OP_COUNT] = {LS_TILE_INT_OPS(ROW)};
    return rows[op] ? isa->map_int[rows[op] - 1][dtype] : NULL;
}
