/* Kernel specs to kernels for devices with threads: by templates where one fits, else by the generic lowering.
 *
 * A spec becomes a list of kernels, to be run in order, each after the one before has ended. A kernel's global buffers are
 * arguments of the spec, scratch buffers (their contents need not be initialised), or the status word. Kernels keep the
 * contract's order of arithmetic, so that they give the bits of `ref`.
 *
 * How (docs/contract.md has the orders):
 *   pointwise   one thread an element of the store's space, or four neighbours where loads or stores can be of four lanes.
 *   reductions  over more than 32 elements that depend on the axes of the store alone: 32 to 256 threads a row, which own
 *               whole ones of the 256 partials, then the halving in shared memory; all reductions of one row are phases of one
 *               kernel, and what they load stays in registers (row.c). Over more than one block of 4096: one workgroup a (row,
 *               block), block results in scratch, and further kernels by the same rule. Where results lie side by side in
 *               memory, and not elements: 32 results a workgroup (column.c). All other reductions: serial in the thread that
 *               needs them, the tree walked in order with one variable a level.
 *   argmin/max  pairs of value and index, combined in any order.
 *   contract    naive: one thread an output element, serial in chunks of 512. tiled (contract.c): a workgroup a tile of
 *               the output, operands through shared memory; the choice where both sides have 8 elements or more.
 *               gemv (the same with a tile of all of the fewer side, 8 at most). Chunks of few tiles are shared among workgroups.
 *               matrix: fragments, in fast and reduced arithmetic on halves; whole tiles of plain matrices by matrix.c, any
 *               other operands by fragment.c.
 *   scatter     the base pointwise; then the updates in order: one thread an element of the result that goes through them, or one
 *               for each point of the axes that place them apart (scatter.c).
 *   scan        one thread a line, serial in blocks of 512; the scan of their totals goes along.
 *   sort        one thread an element, which counts what goes before it: work by the square of the line.
 *
 * Symbols are i64 parameters; the launch covers their bounds, and what lies beyond their values ends early. The name of the
 * graph node is no part of a kernel: an index out of range puts a number into the status word (the host clears it before
 * the first kernel), 1 + value id for a load, 1 + n_values + store number for a store, the largest when there are several.
 *
 * In-place arguments (one place read and written) are the same as two that do not overlap, but need a device that lets two
 * bindings alias. */
#ifndef LOCKSTEP_EMIT_EMIT_H
#define LOCKSTEP_EMIT_EMIT_H

#include "kir/kir.h"
#include "spec/spec.h"

/* A product of fragments that the device has: m x k times k x n of `type`, added up in f32. */
typedef struct ls_emit_frag {
    ls_dtype type;
    uint8_t m, n, k;
} ls_emit_frag;

enum { LS_EMIT_FRAGS = 8, LS_EMIT_STRATEGIES = 12 };

typedef struct ls_emit_caps {
    int32_t max_groups;  /* workgroups on one axis of the grid; 0: 65535 */
    int32_t max_threads; /* of a workgroup; 0: 256 */
    int64_t max_shared;  /* bytes of a workgroup's shared memory; 0: 32768 */
    int32_t subgroup;    /* threads of a subgroup, the same in every kernel; 0: not known */
    int32_t n_frags;
    ls_emit_frag frags[LS_EMIT_FRAGS];
    bool frag_words; /* halves may lie in shared memory as words, in two slabs: copies go on beside arithmetic */
    bool products;   /* whole products of halves by a workgroup: PRODUCT */
} ls_emit_caps;

/* A way to lower a spec: of contractions "naive", "tiled", "gemv", "matrix"; of what is element-wise "naive", "quad", "turn";
 * of reductions "naive" (a workgroup a row), "serial", "row", "column"; of scatters "naive", "update", "element"; of attention
 * "fused". */
typedef struct ls_emit_strategy {
    const char *name;
    const char *reason; /* why it is not available here; NULL: it is */
} ls_emit_strategy;

typedef enum ls_emit_place { LS_EMIT_ARG, LS_EMIT_SCRATCH, LS_EMIT_STATUS } ls_emit_place;
typedef struct ls_emit_binding {
    ls_emit_place place;
    int32_t number; /* of the spec's argument or of the scratch buffer */
} ls_emit_binding;

typedef struct ls_emit_kernel {
    ls_kernel kernel;
    ls_emit_binding *bindings;     /* by binding: kernel.n_globals of them */
    const ls_symbol **symbols;     /* by parameter: whose value it takes */
} ls_emit_kernel;

typedef struct ls_emit_scratch {
    ls_dtype dtype;
    int64_t count;
} ls_emit_scratch;

/* What of emit/cover.def a list of kernels holds, as bits. */
typedef enum ls_cover {
#define COVER(ID, text) LS_COVER_##ID,
#include "emit/cover.def"
#undef COVER
    LS_COVERS
} ls_cover;
_Static_assert(LS_COVERS < 32, "covers are bits of a u32, and all of them one less than another");
extern const char *const ls_cover_text[LS_COVERS];

typedef struct ls_kernel_list {
    uint32_t cover; /* bits 1 << ls_cover */
    int32_t n_kernels, n_scratch;
    ls_emit_kernel *kernels; /* none when no store has a point */
    ls_emit_scratch *scratch;
    bool status; /* some kernel binds the status word: one u32 */
} ls_kernel_list;

/* Everything is the arena's. LS_ERR_UNSUPPORTED, with the reason, for what has no lowering. The kernels pass
 * ls_kernel_verify; they are not simplified. `caps` NULL takes the defaults. `strategy` NULL chooses; a name is that or
 * LS_ERR_UNSUPPORTED with the reason: nothing else is taken instead ("implicit": the first of "matrix", "tiled" and "gemv"). Any thread, one an arena. */
ls_status ls_emit(ls_arena *arena, const ls_spec *spec, const ls_emit_caps *caps, const char *strategy,
                  ls_kernel_list *out_list, ls_error *err) LS_MUST_USE;

/* A batch of products in memory: a of m x k times b of k x n. Strides in elements: from row to row, from column to column, from
 * one of the batch to the next; of an extent of 1 any. */
typedef struct ls_emit_matrices {
    ls_dtype from, to;
    int64_t m, n, k, batch;
    int32_t arg[3]; /* arguments of the spec: a, b, result */
    int64_t first[3], row[3], column[3], next[3];
} ls_emit_matrices;
/* Whether a spec is just that: *out_reason NULL, or why not. */
ls_status ls_emit_plain(ls_arena *arena, const ls_spec *spec, ls_emit_matrices *out_matrices, const char **out_reason,
                        ls_error *err) LS_MUST_USE;

/* Every strategy, and why the spec cannot have it. Reasons are the arena's. */
ls_status ls_emit_strategies(ls_arena *arena, const ls_spec *spec, const ls_emit_caps *caps,
                             ls_emit_strategy out_strategies[LS_EMIT_STRATEGIES], ls_error *err) LS_MUST_USE;

#endif
