/* Renderers: legal kernels (kir/legal.h) to the languages of devices. Instruction by instruction; nothing is optimised here.
 *
 * Interface of every rendered kernel:
 *   - entry point "main", workgroup size fixed;
 *   - global memory number b (ls_kmem.binding) is storage binding b of set or group 0; PTX: parameter b, a pointer;
 *   - parameters are u32 words in the order of kernel->params, 64-bit ones as two words, low first, booleans and narrower
 *     ones widened. SPIR-V: a push-constant block, in which one more
 *     word follows, 0 at run time: what compilers must not see through stands behind it. WGSL: a uniform `array<vec4<u32>, n>` at binding n_globals. PTX: the
 *     parameter after the pointers, an array of b32;
 *   - no two bindings need be disjoint (nothing is marked restrict), nothing outside the bounds is touched.
 * The same kernel gives the same text everywhere.
 */
#ifndef LOCKSTEP_RENDER_RENDER_H
#define LOCKSTEP_RENDER_RENDER_H

#include "base/text.h"
#include "kir/kir.h"

/* Words that the parameters take, and the first word of one. */
int32_t ls_render_words(const ls_kernel *kernel);
int32_t ls_render_word(const ls_kernel *kernel, int param);

typedef struct ls_spirv_options {
    /* Float controls to declare, each where the device has it: RoundingModeRTE, DenormPreserve, SignedZeroInfNanPreserve. 16 and
     * 64 bits are declared only by kernels that hold such floats. */
    bool rte16, rte32, rte64, denorm_preserve16, denorm_preserve32, denorm_preserve64, nan_preserve32;
    bool coop_matrix; /* VK_KHR_cooperative_matrix */
    bool hide_zero;   /* float zeros are not constants: for compilers that take x + 0 for x, 0 * x and 0 / x for 0 */
} ls_spirv_options;
/* SPIR-V 1.3 words (for Vulkan 1.1). NoContraction stands on every float instruction without LS_KF_FAST. */
ls_status ls_render_spirv(ls_arena *arena, const ls_kernel *kernel, const ls_spirv_options *options, uint32_t **out_words,
                          size_t *out_n_words, ls_error *err) LS_MUST_USE;

typedef struct ls_wgsl_options {
    bool f16, subgroups; /* features that the device was opened with */
} ls_wgsl_options;
ls_status ls_render_wgsl(ls_text *out, const ls_kernel *kernel, const ls_wgsl_options *options, ls_error *err) LS_MUST_USE;

typedef struct ls_ptx_options {
    int sm;      /* 90: compute capability 9.0 */
    bool arch;   /* the device is an sm_90a: kernels may use what that architecture alone has */
    int isa;     /* PTX version times ten: 80 */
} ls_ptx_options;
/* A tensor map that a kernel takes, after the words, as a parameter of 128 bytes: a binding's u16 in `lines` lines of `line`
 * elements, in boxes of so many elements of so many lines, swizzled by 128 bytes. */
typedef struct ls_ptx_map {
    int32_t binding;
    int64_t line, lines;
    int32_t box_elements, box_lines;
} ls_ptx_map;
int ls_ptx_product_maps(const ls_kernel *kernel, ls_ptx_map out_maps[2]); /* how many */
ls_status ls_render_ptx(ls_text *out, const ls_kernel *kernel, const ls_ptx_options *options, ls_error *err) LS_MUST_USE;

#endif
