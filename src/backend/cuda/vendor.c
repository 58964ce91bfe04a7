/* Products by cuBLASLt, NVIDIA's library, where it is installed: opened at run time, its ABI declared by hand from the
 * reference of cuBLAS 12 and 13. Never in locked arithmetic: its order is its own.
 *
 * Its matrices are column by column, so it is asked for the transposed product: result' = b' a'. */
#include "backend/cuda/cuda.h"
#include <stdio.h>
#include <string.h>

enum {
    WORKSPACE = 32 << 20,
    ALIGNMENT = 16,
    /* data and compute types */
    TYPE_F32 = 0,
    TYPE_F64 = 1,
    TYPE_F16 = 2,
    TYPE_BF16 = 14,
    COMPUTE_F32 = 68,
    COMPUTE_F64 = 70,
    COMPUTE_TF32 = 77,
    /* attributes */
    DESC_TRANS_A = 3,
    DESC_TRANS_B = 4,
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_BATCH_STRIDE = 6,
    PREF_WORKSPACE = 1,
    PREF_ALIGNMENT = 5 /* of A; then B, C, D */
};

typedef struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} heuristic;
_Static_assert(sizeof(heuristic) == 96, "cublasLtMatmulHeuristicResult_t has 96 bytes");

#define FUNCTIONS(FN)                                                                                                       \
    FN(create, cublasLtCreate, (void **handle))                                                                             \
    FN(destroy, cublasLtDestroy, (void *handle))                                                                            \
    FN(desc_new, cublasLtMatmulDescCreate, (void **desc, int compute, int scale))                                           \
    FN(desc_free, cublasLtMatmulDescDestroy, (void *desc))                                                                  \
    FN(desc_set, cublasLtMatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t size))               \
    FN(layout_new, cublasLtMatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride))  \
    FN(layout_free, cublasLtMatrixLayoutDestroy, (void *layout))                                                            \
    FN(layout_set, cublasLtMatrixLayoutSetAttribute, (void *layout, int attribute, const void *value, size_t size))         \
    FN(pref_new, cublasLtMatmulPreferenceCreate, (void **pref))                                                             \
    FN(pref_free, cublasLtMatmulPreferenceDestroy, (void *pref))                                                            \
    FN(pref_set, cublasLtMatmulPreferenceSetAttribute, (void *pref, int attribute, const void *value, size_t size))         \
    FN(choose, cublasLtMatmulAlgoGetHeuristic,                                                                              \
       (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int wanted, heuristic *out, int *count))  \
    FN(matmul, cublasLtMatmul,                                                                                              \
       (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,          \
        const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const uint64_t *algorithm,                \
        void *workspace, size_t size, ls_cu_stream stream))

struct ls_cuda_vendor {
    ls_os_library *library;
    void *handle;
    ls_cu_address workspace;
#define FN(member, symbol, parameters) int(*member) parameters;
    FUNCTIONS(FN)
#undef FN
};

/* One product: of what it is asked for, and by which algorithm. */
struct ls_cuda_product {
    void *desc, *layouts[3]; /* of its A (our b), its B (our a), its result */
    heuristic chosen;
    int64_t first[3]; /* bytes into a, b and the result */
    bool wide;        /* scaled by f64 */
};

static ls_status failed(ls_cuda *c, int status, const char *what, ls_error *err) {
    return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: cuBLASLt: %s: status %d", c->id, what, status);
}

/* ---- the library ---- */

void ls_cuda_vendor_close(ls_cuda *c) {
    ls_cuda_vendor *v = c->vendor;
    if (v) {
        if (v->handle && !c->lost) {
            (void)v->destroy(v->handle);
        }
        if (v->workspace) {
            (void)c->api.memory_free(v->workspace);
        }
        ls_free(c->heap, v); /* the library stays open, as the driver does */
        c->vendor = NULL;
    }
}

static ls_status find_functions(ls_cuda *c, ls_cuda_vendor *v, ls_error *err) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "cublasLt64_13.dll", "cublasLt64_12.dll", NULL};
    const char *missing = NULL;
    (void)c;
    v->library = ls_os_library_open(names, NULL);
    if (!v->library) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "not available here: libcublasLt.so.13 not found (nor libcublasLt.so.12)");
    }
#define FN(member, symbol, parameters)                           \
    {                                                            \
        void *found = ls_os_library_symbol(v->library, #symbol); \
        memcpy(&v->member, &found, sizeof found);                \
        missing = found ? missing : #symbol;                     \
    }
    FUNCTIONS(FN)
#undef FN
    return missing ? LS_FAIL(err, LS_ERR_UNSUPPORTED, "not available here: libcublasLt has no %s", missing) : LS_OK;
}

static ls_status open_library(ls_cuda *c, ls_error *err) {
    if (c->vendor) {
        return LS_OK;
    }
    ls_cuda_vendor *v = ls_alloc_zeroed(c->heap, sizeof *v);
    if (!v) {
        return LS_FAIL_MEMORY(err, "cuBLASLt");
    }
    c->vendor = v;
    ls_status status = find_functions(c, v, err);
    int code = status == LS_OK ? v->create(&v->handle) : 0;
    status = code ? failed(c, code, "it does not start", err) : status;
    if (status == LS_OK) {
        status = ls_cuda_check(c, c->api.memory_new(&v->workspace, WORKSPACE), ls_cuda_names.memory_new, err);
    }
    if (status != LS_OK) {
        ls_cuda_vendor_close(c);
    }
    return status;
}

/* ---- a product ---- */

static int type_of(ls_dtype dtype) {
    return dtype == LS_F16 ? TYPE_F16 : dtype == LS_BF16 ? TYPE_BF16 : dtype == LS_F64 ? TYPE_F64 : TYPE_F32;
}

/* A matrix of ours, rows by columns, as one of columns by rows, column by column: as it lies, or transposed. */
static bool orient(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t *out_stride, bool *out_transposed) {
    *out_transposed = !(column == 1 || columns == 1) || (columns == 1 && rows > 1 && row == 1 && column > 1);
    int64_t shorter = *out_transposed ? rows : columns, unit = *out_transposed ? row : column;
    *out_stride = *out_transposed ? column : row;
    if ((*out_transposed ? columns : rows) == 1) {
        *out_stride = shorter; /* there is no next one */
    }
    return (unit == 1 || shorter == 1) && *out_stride >= shorter;
}

static int make_layout(ls_cuda_vendor *v, ls_dtype dtype, int64_t rows, int64_t columns, int64_t stride, int64_t batch, int64_t next,
                       void **out_layout) {
    int32_t count = (int32_t)batch;
    int code = v->layout_new(out_layout, type_of(dtype), (uint64_t)rows, (uint64_t)columns, stride);
    code = code ? code : v->layout_set(*out_layout, LAYOUT_BATCH_COUNT, &count, sizeof count);
    return code ? code : v->layout_set(*out_layout, LAYOUT_BATCH_STRIDE, &next, sizeof next);
}

static int choose(ls_cuda_vendor *v, ls_cuda_product *p) {
    void *pref = NULL;
    const uint64_t workspace = WORKSPACE;
    const uint32_t alignment = ALIGNMENT;
    int count = 0, code = v->pref_new(&pref);
    code = code ? code : v->pref_set(pref, PREF_WORKSPACE, &workspace, sizeof workspace);
    for (int i = 0; i < 4 && !code; i++) {
        code = v->pref_set(pref, PREF_ALIGNMENT + i, &alignment, sizeof alignment);
    }
    code = code ? code : v->choose(v->handle, p->desc, p->layouts[0], p->layouts[1], p->layouts[2], p->layouts[2], pref, 1, &p->chosen, &count);
    if (pref) {
        (void)v->pref_free(pref);
    }
    return code ? code : count ? p->chosen.state : -1;
}

static ls_status describe(ls_cuda *c, ls_cuda_product *p, const ls_emit_matrices *m, ls_math math, ls_error *err) {
    ls_cuda_vendor *v = c->vendor;
    int64_t stride[3];
    bool turned[3];
    size_t size = ls_dtype_size(m->from), size_to = ls_dtype_size(m->to);
    bool lies = orient(m->k, m->n, m->row[1], m->column[1], &stride[0], &turned[0]) &&
                orient(m->m, m->k, m->row[0], m->column[0], &stride[1], &turned[1]) &&
                orient(m->m, m->n, m->row[2], m->column[2], &stride[2], &turned[2]) && !turned[2];
    if (!lies || m->batch > INT32_MAX) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "no matrix of its operands or result has neighbours in memory");
    }
    for (int i = 0; i < 3; i++) {
        p->first[i] = m->first[i] * (int64_t)(i < 2 ? size : size_to);
        if (p->first[i] % ALIGNMENT) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "an operand begins at no multiple of %d bytes", ALIGNMENT);
        }
    }
    p->wide = m->from == LS_F64;
    int compute = p->wide ? COMPUTE_F64 : math == LS_REDUCED && m->from == LS_F32 ? COMPUTE_TF32 : COMPUTE_F32;
    const int32_t trans_a = turned[0], trans_b = turned[1];
    int code = v->desc_new(&p->desc, compute, p->wide ? TYPE_F64 : TYPE_F32);
    code = code ? code : v->desc_set(p->desc, DESC_TRANS_A, &trans_a, sizeof trans_a);
    code = code ? code : v->desc_set(p->desc, DESC_TRANS_B, &trans_b, sizeof trans_b);
    code = code ? code : make_layout(v, m->from, turned[0] ? m->k : m->n, turned[0] ? m->n : m->k, stride[0], m->batch, m->next[1], &p->layouts[0]);
    code = code ? code : make_layout(v, m->from, turned[1] ? m->m : m->k, turned[1] ? m->k : m->m, stride[1], m->batch, m->next[0], &p->layouts[1]);
    code = code ? code : make_layout(v, m->to, m->n, m->m, stride[2], m->batch, m->next[2], &p->layouts[2]);
    code = code ? code : choose(v, p);
    return code ? failed(c, code, "no kernel for this product", err) : LS_OK;
}

void ls_cuda_product_free(ls_cuda *c, ls_cuda_product *p) {
    ls_cuda_vendor *v = c->vendor;
    for (int i = 0; i < 3; i++) {
        if (p->layouts[i]) {
            (void)v->layout_free(p->layouts[i]);
        }
    }
    if (p->desc) {
        (void)v->desc_free(p->desc);
    }
    ls_free(c->heap, p);
}

static ls_status build(void *driver, const ls_emit_matrices *matrices, ls_math math, void **out_pipeline, ls_error *err) {
    ls_cuda *c = driver;
    ls_cuda_pipeline *pipeline = ls_alloc_zeroed(c->heap, sizeof *pipeline);
    ls_cuda_product *p = ls_alloc_zeroed(c->heap, sizeof *p);
    ls_status status = pipeline && p ? ls_cuda_enter(c, err) : LS_FAIL_MEMORY(err, "a product");
    if (status == LS_OK) {
        status = open_library(c, err);
        status = status == LS_OK ? describe(c, p, matrices, math, err) : status;
        if (status != LS_OK && c->vendor) {
            ls_cuda_product_free(c, p);
            p = NULL;
        }
        ls_cuda_leave(c);
    }
    if (status != LS_OK) {
        ls_free(c->heap, p);
        ls_free(c->heap, pipeline);
        return status;
    }
    pipeline->product = p;
    *out_pipeline = pipeline;
    return LS_OK;
}

ls_status ls_cuda_product_launch(ls_cuda *c, const ls_cuda_product *p, const ls_cu_address places[3], ls_error *err) {
    static const float one = 1, zero = 0;
    static const double one_wide = 1, zero_wide = 0;
    ls_cuda_vendor *v = c->vendor;
    const void *alpha = p->wide ? (const void *)&one_wide : &one, *beta = p->wide ? (const void *)&zero_wide : &zero;
    void *at[3];
    for (int i = 0; i < 3; i++) {
        ls_cu_address place = places[i] + (ls_cu_address)p->first[i];
        if (place % ALIGNMENT) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: strategy vendor: an operand lies at no multiple of %d bytes", c->id, ALIGNMENT);
        }
        at[i] = (void *)(uintptr_t)place;
    }
    int code = v->matmul(v->handle, p->desc, alpha, at[1], p->layouts[0], at[0], p->layouts[1], beta, at[2], p->layouts[2], at[2],
                         p->layouts[2], p->chosen.algorithm, (void *)(uintptr_t)v->workspace, WORKSPACE, c->stream);
    return code ? LS_FAIL(err, LS_ERR_DEVICE, "%s: cuBLASLt: a product: status %d", c->id, code) : LS_OK;
}

const ls_gpu_vendor ls_cuda_products = {build, ls_cuda_run_product};
