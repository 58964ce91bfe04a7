/* Looking into compiled graphs, as text and as counters. */
#ifndef LOCKSTEP_INSPECT_H
#define LOCKSTEP_INSPECT_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is printed: any of these, or-ed. */
enum {
    LS_INSPECT_GRAPH = 1,   /* the graph as it is compiled: simplified, its leaves numbered */
    LS_INSPECT_GROUPS = 2,  /* which nodes share a kernel, in execution order */
    LS_INSPECT_SPECS = 4,   /* what each kernel means */
    LS_INSPECT_KERNELS = 8, /* what the device made of it */
    LS_INSPECT_MEMORY = 16, /* where each value lives, and every copy */
    LS_INSPECT_ALL = 31
};

/* Gets a piece of the text; not NUL-terminated. */
typedef void (*ls_text_fn)(void *user, const char *text, size_t size);

/* Compiles tensors and pending assignments as ls_realize would, computes nothing, and prints what was
 * compiled. Inputs need no values. The session's thread. */
LS_API ls_status ls_inspect(ls_session *session, ls_tensor *const *tensors, int count, unsigned parts,
                            ls_text_fn write, void *user);
LS_API ls_status ls_program_inspect(ls_program *program, unsigned parts, ls_text_fn write, void *user);

/* Counters of a program. */
typedef struct ls_program_stats {
    int kernels, copies, loops; /* steps; those of a loop's body count once */
    size_t temporary_bytes;     /* of the arenas: what temporaries share */
    size_t separate_bytes;      /* what they would take if none shared */
    uint64_t runs;
    uint64_t launches;  /* over all runs */
    uint64_t kernel_ns; /* of launches, by the clocks that ls_program_kernels names, and */
    uint64_t host_ns;   /* our own work beside them; both count while the profile is on */
} ls_program_stats;
LS_API ls_program_stats ls_program_get_stats(const ls_program *program);
/* Whether runs are timed, kernel by kernel. Off at first. A timed run waits for its devices. */
LS_API void ls_program_set_profile(ls_program *program, int on);
/* What was measured of a kernel of a program while the profile was on. */
typedef struct ls_kernel_profile {
    const char *kernel, *device;
    const char *strategy; /* how it was computed; "" when there is one way only, or it has not run */
    /* What measured it: "CUDA events", "Vulkan timestamps" or "WebGPU timestamps", the device's own clock around each of its
     * dispatches; or "host", the time inside launches, for devices that compute in them or that have no clock. */
    const char *clock;
    uint64_t launches, nanoseconds;
    double bytes; /* of its arguments, each once, symbols at their bounds: what a launch moves at least */
    double flops; /* of a launch: two for each term of its contractions, likewise; 0 without contractions */
} ls_kernel_profile;
typedef void (*ls_kernel_fn)(void *user, const ls_kernel_profile *profile);
/* In execution order; the pointers hold during the call. The program's thread. */
LS_API void ls_program_kernels(const ls_program *program, ls_kernel_fn each, void *user);

/* What compiling one kernel took: our own part (lowering, legalising, rendering), and the driver's, with what it made before
 * from the disk cache (`cached`) or not. */
typedef struct ls_compile_info {
    const char *kernel;
    uint64_t make_ns, driver_ns;
    int cached;
} ls_compile_info;
typedef void (*ls_compile_fn)(void *user, const ls_compile_info *info);
/* Every kernel compiled for a device since it was opened, newest first; those of its probe apart. The text holds during the call.
 * Any thread. */
LS_API void ls_device_compiles(const ls_device *device, ls_compile_fn each, void *user);
/* Their sums, and those of vets: kernels compared with the reference before their first locked use, and verdicts that were
 * found in the disk cache instead. */
typedef struct ls_device_work {
    uint64_t compiled, cached, make_ns, driver_ns;
    uint64_t vetted, verdicts, vet_ns;
} ls_device_work;
LS_API ls_device_work ls_device_get_work(const ls_device *device);

/* The ways to compute a program's kernels. A wrong one is never chosen by the library. */
typedef enum ls_strategy_state {
    LS_STRATEGY_AVAILABLE,
    LS_STRATEGY_UNAVAILABLE, /* `reason`: why not for this kernel on this device */
    LS_STRATEGY_WRONG        /* `reason`: the element that it got wrong */
} ls_strategy_state;
typedef void (*ls_strategy_fn)(void *user, const char *kernel, const char *device, const char *strategy,
                               ls_strategy_state state, const char *reason);
/* Compiles each of a program's kernels by every strategy of its kind (ls_session_set_strategy), checks (on GPUs) what comes
 * out on awkward numbers, and reports them in execution order, the strategies of a kernel one after another. `reason` is
 * empty for one that is available. Slow. The program's thread. */
LS_API ls_status ls_strategy_list(ls_program *program, ls_strategy_fn each, void *user);

#ifdef __cplusplus
}
#endif
#endif
