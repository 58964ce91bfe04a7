/* What contexts, sessions and variables are inside, and the hooks of check mode.
 *
 * Threads: a context's lists are changed under its mutex and only grow, devices and symbols until the context
 * is destroyed. All else belongs to one session and its thread.
 */
#ifndef LOCKSTEP_ENGINE_SESSION_H
#define LOCKSTEP_ENGINE_SESSION_H

#include "base/array.h"
#include "base/map.h"
#include "base/numerics.h"
#include "base/thread.h"
#include "device/device.h"
#include "graph/graph.h"
#include "spec/spec.h"

/* ---- check mode: what src/verify plugs in ---- */

/* One kernel of a run. Nodes are private copies of the graph's: the group's reads and roots, with the
 * serials of the graph. */
typedef struct ls_check_event {
    ls_session *session;
    ls_check level;
    ls_device *device;
    const ls_spec *spec; /* its args are in the order of launch->args: group->reads, then group->roots */
    const ls_group *group;
    const ls_launch *launch;
    uint64_t kernel; /* launches of this run before it */
} ls_check_event;

/* `before` snapshots what the kernel reads; `after` compares what it wrote, and frees the state whatever
 * it finds; `drop` frees it when the launch itself failed. `state` may stay NULL. */
typedef struct ls_check_hooks {
    ls_status (*before)(const ls_check_event *event, void **out_state, ls_error *err);
    ls_status (*after)(const ls_check_event *event, void *state, ls_error *err);
    void (*drop)(const ls_check_event *event, void *state);
} ls_check_hooks;

/* What LOCKSTEP_CHECK and ls_context_set_check use; NULL: guard zones and poison alone. */
extern const ls_check_hooks *const ls_default_check_hooks;
void ls_engine_set_check(ls_context *context, ls_check level, const ls_check_hooks *hooks);
/* environment.c: threads (0: one a core) and checks of a context. */
ls_status ls_environment_read(const ls_context_options *options, int *out_threads, ls_check *out_check, ls_error *err);

/* A fault planted on purpose, for the checks that must catch it: kernels of `device` are compiled from what
 * `plant` makes of their specs; all else goes by the right ones. Set while nothing runs in the context; NULL:
 * none. */
typedef struct ls_spec_fault {
    ls_device *device;
    ls_status (*plant)(void *user, ls_arena *arena, const ls_spec *spec, ls_spec *out_spec, ls_error *err);
    void *user;
} ls_spec_fault;
void ls_engine_set_fault(ls_context *context, const ls_spec_fault *fault);

/* ---- context ---- */

struct ls_var {
    ls_var *next; /* of the context */
    ls_context *context;
    char *name;
    ls_dtype dtype;
    ls_shape shape;
    ls_device *device;
    ls_buffer *storage; /* NULL once destroyed; the record itself stays, since nodes point to it */
    uint64_t version;   /* counts changes of the storage: a node of another version is stale */
};

/* Data of the host: copied, or, with an owner and where the device reads it in place, kept until its last reader has gone. */
typedef struct ls_source {
    const void *bytes;
    void *owner; /* NULL: copied */
    void (*keep)(void *owner), (*drop)(void *owner);
} ls_source;
/* ls_tensor_from and ls_var_create. A variable's storage is its own from its first write on. (var.c) */
ls_tensor *ls_tensor_over(ls_session *session, ls_dtype dtype, ls_shape shape, const ls_source *source);
ls_var *ls_var_over(ls_session *session, const char *name, ls_dtype dtype, ls_shape shape, const ls_source *source);

struct ls_context {
    ls_heap heap;
    ls_log_fn log;
    void *log_user;
    int threads;
    char isa[16];
    atomic_int check; /* ls_check */
    const ls_check_hooks *_Atomic hooks;
    const ls_spec_fault *_Atomic fault;
    ls_spec_fault planted; /* what ls_device_plant points it to */
    ls_mutex *mutex;
    LS_ARRAY(ls_device *) devices;
    ls_symbol *symbols;
    atomic_int n_symbols;
    ls_var *vars;
    atomic_uint_fast64_t serial;
};

void ls_context_log(ls_context *context, ls_log_level level, const char *fmt, ...) LS_PRINTF(3, 4);
static inline ls_check ls_context_check(ls_context *context) {
    return (ls_check)atomic_load_explicit(&context->check, memory_order_relaxed);
}

/* ---- session ---- */

typedef struct ls_pending {
    ls_var *var;
    ls_tensor *value; /* retained */
} ls_pending;

typedef struct ls_exec ls_exec;
#define LS_STRATEGY_MAX 16
/* What strategies are set for: kernels by ls_group_kind, and what the graph decides before there are kernels. */
enum { LS_STRATEGY_CONV = LS_GROUP_ATTENTION + 1, LS_STRATEGY_KINDS };
typedef LS_ARRAY(ls_buffer *) ls_arena_list; /* one a device */

struct ls_session {
    ls_graph graph; /* first: ls_graph_of casts */
    ls_context *context;
    int fusion;
    char strategies[LS_STRATEGY_KINDS][LS_STRATEGY_MAX]; /* empty: the device's choice */
    int64_t *symbols;                                /* values by ls_symbol.index */
    int n_symbols;
    LS_ARRAY(ls_pending) pending;
    ls_map execs;         /* compiled graphs, by their key */
    uint64_t tick;        /* counts runs: which exec was used last */
    ls_arena_list arenas; /* temporaries of realized graphs */
    uint64_t compiles, kernels;
    ls_exec *unreported; /* its run on a late device may have met an index out of range; NULL: none */
    ls_check check;     /* this session's runs are checked at least so, whatever the context says */
    void *verification; /* src/verify: where a verified run collects its reports; else NULL */
};

/* The names that a kind knows, ending in NULL; none for one that has no strategies (strategy.c). */
const char *const *ls_strategy_names(int kind);

/* Records a failure (the session keeps the first) and returns its code. */
ls_status ls_session_fail(ls_session *session, ls_status status, const ls_error *err);
/* Takes in symbols that were created since. */
ls_status ls_session_sync(ls_session *session, ls_error *err) LS_MUST_USE;
/* The pending assignment of a variable; NULL when there is none. */
ls_pending *ls_session_pending(ls_session *session, const ls_var *var);
/* Assignments of variables that were destroyed since are none. */
void ls_session_forget_destroyed(ls_session *session);
void ls_session_clear_pending(ls_session *session);

/* Symbols as a bit set, and the hash of their values: what a computed value depends on. */
uint64_t ls_symbols_of_shape(const ls_shape *shape);
static inline uint64_t ls_symbols_of_dim(ls_dim dim) {
    return dim.symbol ? UINT64_C(1) << (dim.symbol->index < 63 ? dim.symbol->index : 63) : 0;
}
uint64_t ls_symbols_stamp(const ls_session *session, uint64_t symbols);

/* ---- transfer.c: dense at the current symbol values on the host, laid out by bounds on the device ---- */
size_t ls_shape_bytes(ls_dtype dtype, const ls_shape *shape, const int64_t *symbols);
ls_status ls_transfer_upload(ls_buffer *dst, ls_dtype dtype, const ls_shape *shape, const int64_t *symbols,
                             const void *src, ls_error *err) LS_MUST_USE;
ls_status ls_transfer_download(const ls_buffer *src, ls_dtype dtype, const ls_shape *shape,
                               const int64_t *symbols, void *dst, ls_error *err) LS_MUST_USE;
/* From one device tensor to another, of the extents that `dst_shape` has at the symbols' values; the shapes' bounds may differ. */
ls_status ls_transfer_copy(ls_buffer *dst, const ls_shape *dst_shape, const ls_buffer *src, const ls_shape *src_shape, ls_dtype dtype,
                           const int64_t *symbols, ls_error *err) LS_MUST_USE;

#endif
