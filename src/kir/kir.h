/* Kernel bodies: linear structured SSA for devices with threads.
 *
 * A kernel is a list of instructions, a table of memories (global buffers and shared arrays), scalar parameters and a
 * launch geometry. The value of an instruction is named by its number. Blocks are opened by LOOP and IF and closed by
 * END_LOOP and END_IF; a value may be used after its instruction inside the same block, blocks within included, and
 * nowhere else. There are no phis: what changes over iterations or branches is a VAR with GET and SET.
 *
 * Types are an ls_dtype and 1, 2 or 4 lanes, or a fragment (LS_LANES_FRAG; shape in the flags). BOOL is a truth value.
 * Integer registers hold their value extended to 64 bits; floats their bits. Memory indices count elements.
 *
 * Everything a kernel points to belongs to the arena it was built in. Kernels are plain data, unchanging once built.
 */
#ifndef LOCKSTEP_KIR_KIR_H
#define LOCKSTEP_KIR_KIR_H

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/status.h"
#include "base/text.h"

typedef enum ls_kop {
#define INS(ID, name, class, rule, sources, doc) LS_K_##ID,
#include "kir/ins.def"
#undef INS
    LS_K_COUNT
} ls_kop;

typedef enum ls_kclass {
    LS_KC_CONTROL,
    LS_KC_LEAF,
    LS_KC_PURE,
    LS_KC_VECTOR,
    LS_KC_MEMORY,
    LS_KC_GROUP,
    LS_KC_MATRIX
} ls_kclass;

typedef struct ls_kop_info {
    const char *name;
    ls_kclass kind;
    int sources;
    const char *doc;
} ls_kop_info;
extern const ls_kop_info ls_kops[LS_K_COUNT];

typedef int32_t ls_val; /* the number of an instruction */
#define LS_VAL_NONE (-1)

/* Flags of one instruction. */
#define LS_KF_FAST 1u   /* arithmetic: the device may fuse, reorder and use its own functions */
#define LS_KF_UNROLL 2u /* LOOP: unroll it when its bounds are constant */
#define LS_LANES_FRAG 255

/* Fragments: role and layout, and m, n, k of the product that they are for (each 1..255). */
typedef enum ls_frag_role { LS_FRAG_A, LS_FRAG_B, LS_FRAG_C } ls_frag_role;
#define LS_KF_FRAG_COLS 4u /* FRAG_LOAD, FRAG_STORE: memory is column after column */
#define LS_KF_FRAG(role, m, n, k) \
    ((uint32_t)(role) << 3 | (uint32_t)(m) << 8 | (uint32_t)(n) << 16 | (uint32_t)(k) << 24)
#define LS_KF_FRAG_TYPE 0xfffffff8u /* the bits that are part of a fragment's type */
void ls_frag_shape(uint32_t flags, int *out_rows, int *out_cols);

typedef struct ls_ins {
    uint8_t op, dtype, lanes;
    uint32_t flags;
    ls_val src[3];
    int64_t arg;
} ls_ins;

typedef enum ls_mem_space { LS_MEM_GLOBAL, LS_MEM_SHARED } ls_mem_space;
typedef enum ls_mem_access { LS_MEM_READ = 1, LS_MEM_WRITE = 2, LS_MEM_READ_WRITE = 3 } ls_mem_access;

typedef struct ls_kmem {
    const char *name;
    ls_mem_space space;
    ls_mem_access access; /* shared: READ_WRITE */
    ls_dtype dtype;
    int64_t count;      /* elements; with a parameter, elements per unit of it */
    int32_t count_param; /* LS_VAL_NONE, or the number of a parameter that multiplies count */
    int32_t binding;    /* global: number among the globals, in order of declaration; shared: byte offset */
} ls_kmem;

typedef struct ls_kparam {
    const char *name;
    ls_dtype dtype;
    int64_t lo, hi; /* integers: the range that its value keeps, inclusive; indices are proved with it */
} ls_kparam;

/* Workgroups along one axis: ceil(scale * parameter / divisor), the parameter 1 when it is LS_VAL_NONE. */
typedef struct ls_kgrid {
    int64_t scale, divisor;
    int32_t param;
} ls_kgrid;

/* A matrix product by a whole workgroup, staged through shared memory: sums[r * stride + c] becomes the sum over i < k of
 * A(r, i) * B(i, c). An operand is halves in words of a global memory, two a word, low first, in lines of `line` halves. It
 * begins in line src / line, at place src % line: with `by_k` (lines along the contracted axis) A(r, i) lies r lines further
 * and i places, B(i, c) c lines and i places; else A(r, i) i lines and r places, B(i, c) i lines and c places. Past the end of
 * a line, and past the last line, there is +0. While it works all of `sums` may be used: what exceeds the sums is room for
 * stages, the more the better. */
typedef struct ls_kproduct {
    ls_dtype type; /* LS_F16 or LS_BF16 */
    struct {
        int32_t mem;
        int32_t size; /* rows of A, columns of B */
        int64_t line;
        bool by_k;
    } side[2];
    int64_t k;
    int32_t sums, stride; /* a shared memory of f32; elements from one row to the next */
} ls_kproduct;

typedef struct ls_kernel {
    const char *name;
    ls_ins *body;
    int32_t n_body;
    ls_kmem *mems;
    int32_t n_mems, n_globals;
    ls_kparam *params;
    int32_t n_params;
    ls_kproduct *products; /* what PRODUCT instructions mean */
    int32_t n_products;
    int32_t workgroup[3];
    ls_kgrid grid[3];
    int64_t shared_bytes;
} ls_kernel;

/* Elements of a memory and workgroups on an axis, for the parameters of a launch (integers as values). */
int64_t ls_kmem_count(const ls_kernel *kernel, int mem, const int64_t *params);
int64_t ls_kgrid_size(const ls_kernel *kernel, int axis, const int64_t *params);
static inline int ls_kernel_threads(const ls_kernel *kernel) {
    return kernel->workgroup[0] * kernel->workgroup[1] * kernel->workgroup[2];
}

/* ---- rules.c: does instruction `at` fit the types of its sources? ---- */
ls_status ls_kir_check_types(const ls_kernel *kernel, int32_t at, ls_error *err) LS_MUST_USE;
/* Whether the instruction has a result. */
bool ls_kir_has_result(const ls_ins *ins);
static inline bool ls_kir_movable(const ls_ins *ins) {
    ls_kclass kind = ls_kops[ins->op].kind;
    return kind == LS_KC_LEAF || kind == LS_KC_PURE || kind == LS_KC_VECTOR;
}

/* ---- eval.c: one lane of a PURE instruction, by the contract. Registers as described above. ---- */
uint64_t ls_kir_eval(ls_kop op, ls_dtype dtype, ls_dtype src_dtype, const uint64_t src[3]);
/* The same for each of n threads whose byte of the mask is set: out[t] from src[0][t] to src[2][t]. Operands that the instruction
 * lacks may be any. */
void ls_kir_eval_threads(ls_kop op, ls_dtype dtype, ls_dtype src_dtype, const uint64_t *const src[3], const uint8_t *mask, int n,
                         uint64_t *out);
/* v cut to the type's width and extended again. */
uint64_t ls_kir_wrap(ls_dtype dtype, uint64_t v);

/* ---- verify.c: types, structure, uniformity of barriers, and every memory index in bounds by its predicate, the
 * enclosing conditions and the ranges of parameters. ---- */
ls_status ls_kernel_verify(ls_heap *heap, const ls_kernel *kernel, ls_error *err) LS_MUST_USE;

/* ---- simplify.c: a kernel with the same results in fewer instructions: constants folded, addresses folded and hoisted,
 * constant loops unrolled, equal values shared, dead ones dropped, and numbered in order of use, so that the order in
 * which a builder made pure values leaves no trace. ---- */
typedef struct ls_simplify_options {
    int32_t unroll_trips; /* loops of at most this many trips are unrolled without a flag; 0: 4 */
    int32_t max_body;     /* no unrolling beyond this many instructions; 0: 20000 */
} ls_simplify_options;
ls_status ls_kernel_simplify(ls_arena *arena, const ls_kernel *kernel, const ls_simplify_options *options,
                             ls_kernel *out_kernel, ls_error *err) LS_MUST_USE;

/* ---- print.c: text, the same for the same kernel everywhere. ---- */
void ls_kernel_print(ls_text *out, const ls_kernel *kernel);
void ls_kir_print_doc(ls_text *out); /* docs/kir.md */

/* ---- interp.c: runs a kernel on host memory and reports, as errors, what a device would leave undefined: an index out
 * of bounds, a read of memory that nothing wrote, two threads on one element between barriers, two workgroups on one
 * element, a barrier that not all threads reach. Arithmetic NaNs come out non-canonical on purpose. ---- */
typedef struct ls_interp_buffer {
    void *data;
    int64_t count;      /* elements */
    bool uninitialised; /* reading an element before a store to it is an error */
} ls_interp_buffer;

typedef struct ls_interp_launch {
    const ls_interp_buffer *buffers; /* by binding; two that overlap are an error, unless both are only read */
    const int64_t *params;           /* integers as values, floats as bits */
    uint64_t seed;                   /* of the order of workgroups; 0: ascending */
    int subgroup;                    /* threads in a subgroup; 0: 32 */
} ls_interp_launch;

ls_status ls_kernel_interp(ls_heap *heap, const ls_kernel *kernel, const ls_interp_launch *launch, ls_error *err)
    LS_MUST_USE;

#endif
