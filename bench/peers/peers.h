/*
 * Lockstep beside other engines in one run. A case is one piece of work; an engine prepares it, then computes
 * it as often as it is told. main.c interleaves the engines round by round.
 *
 * Values of operands are the same for all engines: element i of operand `which` is bench_value(which, i).
 */
#ifndef LOCKSTEP_BENCH_PEERS_H
#define LOCKSTEP_BENCH_PEERS_H

#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum bench_kind {
    BENCH_GEMM,      /* x[m,k] @ w[k,n] */
    BENCH_CONV,      /* x[batch,in,side,side], w[out,in/groups,kernel,kernel], "same" padding */
    BENCH_LAYERNORM, /* the rest of x[m,n]: over rows */
    BENCH_SOFTMAX,
    BENCH_GELU,
    BENCH_TRANSPOSE,
    BENCH_SUM_ROWS, /* one sum a row */
    BENCH_SUM_COLUMNS,
    BENCH_SUM_ALL,
    BENCH_MAX_ROWS, /* the largest of each row */
    BENCH_MAX_COLUMNS,
    BENCH_SOFTMAX_COLUMNS,
    BENCH_GATHER, /* m rows, in no order */
    BENCH_JOIN,   /* x[m,n] beside w[m,n] */
    BENCH_PAD,    /* x[batch,in,side,side], a zero on each side of a line and of a plane */
    BENCH_NHWC,   /* x[batch,in,side,side], channels last */
    BENCH_MAX_POOL, /* x[batch,in,side,side] by kernel and stride, padded as "same" has it where the kernel is odd; averages count no padding */
    BENCH_AVERAGE_POOL,
    BENCH_CNN,     /* mnist:cnn, inference, batch m */
    BENCH_TRAIN,   /* mnist:cnn, a step of Adam, batch m */
    BENCH_ENCODER, /* x[1,m,n]: attention of k heads, then 4n GELU units, each with a residual and a layer norm */
    BENCH_LSTM,    /* x[k,m,n]: k steps of n units, a batch of m; h of all steps */
    BENCH_BLOCKS,  /* x[m,k] times block-quantised weights of k x n, `bits` each */
} bench_kind;

typedef struct bench_case {
    const char *group, *name;
    bench_kind kind;
    int64_t m, n, k;
    bool constant; /* weights stay the same: an engine may keep them packed */
    int64_t batch, in, out, side, kernel, stride, groups;
    int bits;
    bool bf16; /* a product that may round its operands to bf16 */
} bench_case;

/* Floating-point operations of one computation; bytes that it must read and write (counted for what memory bounds). */
double bench_flops(const bench_case *c);
double bench_bytes(const bench_case *c);
bool bench_is_memory(const bench_case *c);
/* How many operands, x first, are written anew after every BENCH_UNSEEN computations, for every engine: Lockstep does not keep them
 * packed then (backend/cpu/kept.c), and no thread finds its share of them in a cache of its own from one computation to the next. The
 * matrix of a row's product is not written: it is read in place, and writing would send it out of the caches. */
enum { BENCH_UNSEEN = 4 };
int bench_written(const bench_case *c);
bool bench_is_timed(const bench_case *c); /* reported in ms, not as a rate */
int64_t bench_out_side(const bench_case *c);
int64_t bench_padding(const bench_case *c); /* of an image, on each side */
int64_t bench_row(const bench_case *c, int64_t i); /* of x, that BENCH_GATHER has as row i */
/* Elements of x (0), w (1) and the result (2). */
int64_t bench_elements(const bench_case *c, int which);
extern const bench_case bench_cases[]; /* ends in a NULL name */

float bench_value(int which, int64_t index);
float *bench_operand(int which, int64_t n);   /* filled; ends the program when out of memory */
void *bench_memory(size_t bytes);             /* aligned to 64, zeros; freed by free */
double bench_now(void);                       /* seconds */
double bench_core_seconds(void);              /* that the process has had a core */
void bench_write_anew(void *at, size_t bytes); /* each line of the cache, with what it holds */
extern bool bench_cpu_clock;                  /* of the process's time on cores, not of the wall: for one thread on a busy machine */
/* A number that tells results apart: the cosine of y and a pattern. */
double bench_digest(const float *y, int64_t n);

typedef struct bench_state bench_state; /* an engine's, of one case */
typedef struct bench_engine {
    const char *name;
    bool ours;
    /* Finds the engine; what is missing goes to `reason`. Called once. */
    bool (*find)(char *reason, size_t room);
    /* NULL: this engine does not do that; `reason` says why when it is more than that. */
    bench_state *(*open)(const struct bench_engine *e, const bench_case *c, int threads, char *reason, size_t room);
    /* The calling thread writes anew the first bench_written operands, outside the time taken. NULL: `run` sees to it. */
    bool (*renew)(bench_state *s);
    /* Computes n times; seconds of all of them, or a negative number. */
    double (*run)(bench_state *s, int n);
    /* The digest of the last result; NAN when it cannot be compared. */
    double (*digest)(bench_state *s);
    void (*close)(bench_state *s);
    int variant;
} bench_engine;

extern const bench_engine bench_locked, bench_fast, bench_reduced, bench_onednn, bench_onednn_plain, bench_openblas, bench_onnxruntime,
    bench_onnxruntime_f32, bench_ggml, bench_pytorch;
extern const bench_engine *const bench_engines[]; /* ends in NULL */
enum { BENCH_MOST_ENGINES = 12 };
/* What was found, for the report. */
extern char bench_openblas_about[80], bench_onednn_about[80], bench_onnxruntime_about[80], bench_ggml_about[80], bench_pytorch_about[80];

/* Where things lie; main.c sets them before `find`. */
extern const char *bench_onnxruntime_path, *bench_ggml_folder, *bench_pytorch_command;
extern char **bench_arguments; /* argv: OpenBLAS may have to be told its core, which takes a new start */

/* roof.c: what the machine could do, measured between the engines. */
typedef struct bench_roof bench_roof;
bench_roof *bench_roof_open(int threads);
void bench_roof_close(bench_roof *r);
void bench_roof_begin(bench_roof *r, const bench_case *c);
double bench_roof_seconds(bench_roof *r, const bench_case *c, double seconds, bool rested); /* measures for about so long */
/* How many were measured meanwhile: the rate of multiplications and additions, which locked arithmetic is made of, by that of fused ones. It is
 * below 1 where they share ports, and where another machine's thread shares the core, for which they leave less. */
int bench_roof_unfused(const bench_roof *r, const double **out_ratios);

/* Whether the cores do `share` of the most that they were seen to do, which is not looked at for 0; that, in operations a second. */
bool bench_roof_is_own(bench_roof *r, double share);
double bench_roof_whole(const bench_roof *r);

/* lockstep.c: the case's graph as an .onnx file, in memory that `free` takes; NULL with a reason. */
void *bench_encode(const bench_case *c, size_t *out_size, char *reason, size_t room);
/* blocks.c: w of BENCH_BLOCKS, n rows of blocks, freed by `free`; the case as a tensor, and as a file for ONNX Runtime. */
uint8_t *bench_quantised(const bench_case *c, size_t *out_size);
ls_tensor *bench_blocks(ls_session *s, const bench_case *c, ls_tensor *x);
void *bench_encode_blocks(const bench_case *c, int accuracy, size_t *out_size); /* 0: f32; 4: x in 8 bits */

#endif
