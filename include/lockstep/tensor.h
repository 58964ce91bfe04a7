/* Tensors, variables, symbols and scopes.
 *
 * A tensor is an immutable node of a graph: an operation, its operands, a dtype and a shape; equal nodes of a
 * session are one. Building computes nothing: values exist after ls_realize, ls_read, or the run of a
 * program.
 *
 * Ownership: every function that returns an ls_tensor gives it to the innermost open scope of the session
 * (the session itself when none is open), which releases it. ls_keep moves a tensor to the enclosing scope;
 * ls_retain and ls_release hold one for longer by hand.
 *
 * Errors: a builder that gets bad shapes, dtypes, devices or a NULL operand returns NULL and records the
 * first error, with the operation, the shapes and what was expected, in the session. ls_realize and ls_read
 * report it.
 *
 * Threads: a tensor belongs to its session and is used by that session's thread. Variables and symbols belong
 * to the context; a variable is used by one session at a time, except that many may read it while none
 * assigns.
 * */
#ifndef LOCKSTEP_TENSOR_H
#define LOCKSTEP_TENSOR_H

#include <lockstep/context.h>
#include <lockstep/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_MAX_RANK 8

typedef struct ls_tensor ls_tensor;
typedef struct ls_var ls_var;
typedef struct ls_symbol ls_symbol;
typedef struct ls_program ls_program;

/* An extent: `offset` when symbol is NULL, else scale * value(symbol) + offset. */
typedef struct ls_dim {
    ls_symbol *symbol;
    int64_t scale, offset;
} ls_dim;

typedef struct ls_shape {
    int rank; /* 0 to LS_MAX_RANK */
    ls_dim dim[LS_MAX_RANK];
} ls_shape;

/* A shape of fixed extents, outermost first. A rank or an extent out of range gives rank -1, which every
 * builder refuses. */
LS_API ls_shape ls_shape_make(int rank, const int64_t *dims);
/* LS_SHAPE(2, 3) is a matrix; LS_SCALAR has rank 0. */
#ifdef __cplusplus
}
template <typename... T> static inline ls_shape ls_shape_of_dims(T... dims) {
    const int64_t list[] = {static_cast<int64_t>(dims)...};
    return ls_shape_make(static_cast<int>(sizeof...(dims)), list);
}
#define LS_SHAPE(...) ls_shape_of_dims(__VA_ARGS__)
extern "C" {
#else
#define LS_SHAPE(...)                                                            \
    ls_shape_make((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
#endif
#define LS_SCALAR ls_shape_make(0, NULL)
LS_API ls_dim ls_dim_of(int64_t size);
/* scale * symbol + offset. */
LS_API ls_dim ls_dim_symbol(ls_symbol *symbol, int64_t scale, int64_t offset);

/* ---- symbols: extents that change without recompiling ---- */

/* A symbol that takes values 0 to `bound` (inclusive, at least 1). Lives as long as the context. `name` is
 * copied. */
LS_API ls_symbol *ls_symbol_create(ls_context *context, const char *name, int64_t bound, ls_error *err);
/* The value that this session's runs use from now on; each symbol starts at its bound. Where it makes an extent negative (a window or a crop
 * of too few elements), a run is LS_ERR_SHAPE. */
LS_API ls_status ls_symbol_bind(ls_session *session, ls_symbol *symbol, int64_t value);

/* ---- scopes ---- */

LS_API ls_status ls_scope_begin(ls_session *session);
/* Releases every tensor made since the matching ls_scope_begin, except those kept. Nothing where no scope is open. */
LS_API void ls_scope_end(ls_session *session);
/* Moves a tensor of the innermost scope to the enclosing one; returns it. */
LS_API ls_tensor *ls_keep(ls_session *session, ls_tensor *tensor);
LS_API ls_tensor *ls_retain(ls_tensor *tensor);
LS_API void ls_release(ls_tensor *tensor);

/* ---- facts ---- */

LS_API ls_shape ls_tensor_shape(const ls_tensor *tensor);
LS_API ls_dtype ls_tensor_dtype(const ls_tensor *tensor);
/* NULL for a constant, which joins operands of any device. */
LS_API ls_device *ls_tensor_device(const ls_tensor *tensor);
/* Elements and bytes at the session's current symbol values: 0 where they make an extent negative. */
LS_API int64_t ls_tensor_numel(const ls_session *session, const ls_tensor *tensor);
LS_API size_t ls_tensor_bytes(const ls_session *session, const ls_tensor *tensor);

/* ---- leaves ---- */

/* A tensor with a copy of `data`, dense and row-major, on the session's device. */
LS_API ls_tensor *ls_tensor_from(ls_session *session, ls_dtype dtype, ls_shape shape, const void *data);
/* Every element `value`, rounded once to dtype (integers saturate). */
LS_API ls_tensor *ls_full(ls_session *session, ls_dtype dtype, ls_shape shape, double value);
LS_API ls_tensor *ls_full_i64(ls_session *session, ls_dtype dtype, ls_shape shape, int64_t value);
/* The value of a tensor of any session of the context, from ls_tensor_from or computed, as a leaf of this session. They share the storage on
 * its device; nothing is copied. Nobody may use the other session meanwhile. */
LS_API ls_tensor *ls_tensor_share(ls_session *session, ls_tensor *tensor);
/* A placeholder that a program is given at each run (ls_program_run). `name` is copied. */
LS_API ls_tensor *ls_input(ls_session *session, const char *name, ls_dtype dtype, ls_shape shape);

/* ---- variables: mutable storage with a stable address ---- */

/* Storage on the session's device, filled from `data` (dense, row-major) or with zeros when NULL. The name is
 * copied. Lives until ls_var_destroy or the end of the context. */
LS_API ls_var *ls_var_create(ls_session *session, const char *name, ls_dtype dtype, ls_shape shape, const void *data);
/* An assignment of it that is pending is none then. */
LS_API void ls_var_destroy(ls_var *var);
LS_API const char *ls_var_name(const ls_var *var);
LS_API ls_shape ls_var_shape(const ls_var *var);
LS_API ls_dtype ls_var_dtype(const ls_var *var);
/* The value as a tensor: what was assigned last in this session, even if not yet computed. A tensor that was
 * built on an older value can be computed until, or together with, the ls_realize that replaces it; after
 * that it is an error that names the variable. */
LS_API ls_tensor *ls_var_value(ls_session *session, ls_var *var);
/* Assigns at the next ls_realize, or at every run of the program compiled next. Ordered after all reads of
 * the old value. */
LS_API ls_status ls_var_assign(ls_session *session, ls_var *var, ls_tensor *value);
/* Copies the stored value out or in, dense and row-major; `size` must be exact. */
LS_API ls_status ls_var_read(ls_session *session, ls_var *var, void *data, size_t size);
LS_API ls_status ls_var_write(ls_session *session, ls_var *var, const void *data, size_t size);

/* ---- computing ---- */

/* Computes tensors, and every pending assignment, and keeps the values for later use. An equal graph compiles
 * once. Reports an error that the session already holds, and computes nothing then. After LS_ERR_RANGE all is
 * computed: what was read outside is NaN (0 for integers). After another error in the midst of a run,
 * assigned variables hold their old or their new values. */
LS_API ls_status ls_realize(ls_session *session, ls_tensor *const *tensors, int count);
/* Computes if needed (but no assignment) and copies the value to the host, dense and row-major; `size` must
 * be its exact bytes. After LS_ERR_RANGE the value is there, as of ls_realize. */
LS_API ls_status ls_read(ls_session *session, ls_tensor *tensor, void *data, size_t size);
/* The same computation on another device: an explicit copy. */
LS_API ls_tensor *ls_to_device(ls_session *session, ls_tensor *tensor, ls_device *device);

/* A compiled graph: `inputs` (from ls_input) to `outputs`, with the assignments pending at compile time,
 * which it takes over. Runs rebuild nothing. A program is used by one thread at a time and is destroyed
 * before its session. */
LS_API ls_status ls_program_compile(ls_session *session, ls_tensor *const *inputs, int n_inputs,
                                    ls_tensor *const *outputs, int n_outputs, ls_program **out_program) LS_MUST_USE;
LS_API void ls_program_destroy(ls_program *program);
/* Host data in and out, dense and row-major at the current symbol values, in the order given at compile time;
 * an output may be NULL to leave it on the device. After LS_ERR_RANGE the outputs are there, as of ls_realize. */
LS_API ls_status ls_program_run(ls_program *program, const void *const *inputs, void *const *outputs);

/* An output of the last run, however it was asked for then. */
LS_API ls_status ls_program_read(ls_program *program, int output, void *data, size_t size);
/* Copies an output of a program's last run to an input of another's next run, or of its own, which is then given NULL for it: a state that
 * stays on the device. Of one session, device and dtype; the output has the extents that the input has at the present values of symbols. */
LS_API ls_status ls_program_carry(ls_program *from, int output, ls_program *to, int input);

/* Without blocking: ls_submit starts the computation of tensors; ls_poll says LS_OK with *out_done 0 or 1;
 * ls_wait blocks.
 *
 * On a device that must not be waited for (WebGPU in a page) these, and all that compile, compute or read, may
 * give LS_ERR_AGAIN: nothing has changed (a program that has run stays run), the session records no failure,
 * and the same call is made again once the page's events have been served. ls_submit gives it only before
 * anything was started; ls_poll never does. */
typedef struct ls_ticket {
    uint64_t value;
} ls_ticket;
LS_API ls_status ls_submit(ls_session *session, ls_tensor *const *tensors, int count, ls_ticket *out_ticket);
LS_API ls_status ls_poll(ls_session *session, ls_ticket ticket, int *out_done);
LS_API ls_status ls_wait(ls_session *session, ls_ticket ticket);

#ifdef __cplusplus
}
#endif
#endif
