/* ONNX Runtime, opened by dlopen: the library inside npm's onnxruntime-node, through its C interface, so that no JavaScript is in the
 * time taken. The case is an .onnx file that Lockstep wrote. Of the interface only the functions below are used; it is a
 * table that only ever grows, so their places in it are fixed. Operands are handed over and nothing is copied. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/peers/peers.h"

typedef struct api_base {
    void *const *(*get_api)(uint32_t version);
    const char *(*version)(void);
} api_base;

enum place {
    ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION_FROM_ARRAY = 8,
    RUN = 9,
    CREATE_OPTIONS = 10,
    SET_INTRA_THREADS = 24,
    SET_INTER_THREADS = 25,
    CREATE_TENSOR_WITH_DATA = 49,
    CREATE_CPU_MEMORY_INFO = 69,
    RELEASE_STATUS = 93,
    RELEASE_SESSION = 95,
    RELEASE_VALUE = 96,
    RELEASE_OPTIONS = 100,
};
enum { F32 = 1, ERRORS_ONLY = 3, DEVICE_ALLOCATOR = 0, DEFAULT_MEMORY = 0, API_VERSION = 13 };
typedef void *(*fn_make)(void *out);
typedef void (*fn_release)(void *object);

const char *bench_onnxruntime_path;
char bench_onnxruntime_about[80];
static void *const *api;
static void *env, *memory_info;

struct bench_state {
    const bench_case *c;
    void *file, *session, *values[2], *y_value;
    const char *names[2];
    int n_inputs;
    float *operands[2], *y;
};

#define CALL(place, type) ((type)api[place])

/* True when there is no status; its message goes to `reason`. */
static bool fine(void *status, char *reason, size_t room) {
    if (status) {
        snprintf(reason, room, "%s", CALL(ERROR_MESSAGE, const char *(*)(void *))(status));
        CALL(RELEASE_STATUS, fn_release)(status);
    }
    return !status;
}

static bool find(char *reason, size_t room) {
    if (api) {
        return true;
    }
    void *library = dlopen(bench_onnxruntime_path, RTLD_NOW | RTLD_LOCAL);
    const api_base *(*base)(void) = NULL;
    if (library) {
        *(void **)&base = dlsym(library, "OrtGetApiBase");
    }
    if (!base) {
        snprintf(reason, room, "%s is not there (make models)", bench_onnxruntime_path);
        return false;
    }
    api = base()->get_api(API_VERSION);
    snprintf(bench_onnxruntime_about, sizeof bench_onnxruntime_about, "%s", base()->version());
    return fine(CALL(CREATE_ENV, void *(*)(int, const char *, void *))(ERRORS_ONLY, "peers", &env), reason, room) &&
           fine(CALL(CREATE_CPU_MEMORY_INFO, void *(*)(int, int, void *))(DEVICE_ALLOCATOR, DEFAULT_MEMORY, &memory_info), reason,
                room);
}

static void close_state(bench_state *s) {
    for (int i = 0; i < 2; i++) {
        CALL(RELEASE_VALUE, fn_release)(s->values[i]);
        free(s->operands[i]);
    }
    CALL(RELEASE_VALUE, fn_release)(s->y_value);
    CALL(RELEASE_SESSION, fn_release)(s->session);
    free(s->file);
    free(s->y);
    free(s);
}

static bool tensor(float *data, int64_t n, int rank, const int64_t *dims, void *out, char *reason, size_t room) {
    return fine(CALL(CREATE_TENSOR_WITH_DATA, void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void *))(
                    memory_info, data, (size_t)n * 4, dims, (size_t)rank, F32, out),
                reason, room);
}

static int dims_of(const bench_case *c, int which, int64_t *d) {
    int64_t o = c->side ? bench_out_side(c) : 0;
    int rank = 2;
    d[0] = c->m, d[1] = c->n;
    switch (c->kind) {
    case BENCH_GEMM:
    case BENCH_BLOCKS:
        d[0] = which == 1 ? c->k : c->m;
        d[1] = which == 0 ? c->k : c->n;
        break;
    case BENCH_NHWC:
        rank = 4;
        d[0] = c->batch, d[1] = which == 0 ? c->in : o, d[2] = o, d[3] = which == 0 ? o : c->in;
        break;
    case BENCH_JOIN:
        d[1] = which == 2 ? 2 * c->n : c->n;
        break;
    case BENCH_CONV:
    case BENCH_PAD:
    case BENCH_MAX_POOL:
    case BENCH_AVERAGE_POOL:
        rank = 4;
        d[0] = c->batch, d[1] = which == 0 ? c->in : c->out;
        d[2] = d[3] = which == 0 ? c->side : o;
        break;
    case BENCH_CNN:
        rank = which == 0 ? 4 : 2;
        d[1] = which == 0 ? 1 : 10;
        d[2] = d[3] = 28;
        break;
    case BENCH_ENCODER:
        rank = 3;
        d[0] = 1, d[1] = c->m, d[2] = c->n;
        break;
    case BENCH_LSTM:
        rank = 3;
        d[0] = c->k, d[1] = c->m, d[2] = c->n;
        break;
    case BENCH_SUM_ROWS:
    case BENCH_SUM_COLUMNS:
    case BENCH_SUM_ALL:
    case BENCH_MAX_ROWS:
    case BENCH_MAX_COLUMNS:
        rank = which == 0 ? 2 : c->kind != BENCH_SUM_ALL;
        d[0] = which == 2 && (c->kind == BENCH_SUM_COLUMNS || c->kind == BENCH_MAX_COLUMNS) ? c->n : c->m;
        break;
    case BENCH_TRANSPOSE:
        d[0] = which == 0 ? c->m : c->n;
        d[1] = which == 0 ? c->n : c->m;
        break;
    default:
        break;
    }
    return rank;
}

static bool prepare(bench_state *s, int threads, int accuracy, char *reason, size_t room) {
    const bench_case *c = s->c;
    static const char *const names[] = {"x", "w"};
    size_t size = 0;
    int64_t d[8];
    void *options = NULL;
    s->file = c->kind == BENCH_BLOCKS ? bench_encode_blocks(c, accuracy, &size) : bench_encode(c, &size, reason, room);
    if (!s->file || !fine(CALL(CREATE_OPTIONS, fn_make)(&options), reason, room)) {
        return false;
    }
    bool ready = fine(CALL(SET_INTRA_THREADS, void *(*)(void *, int))(options, threads), reason, room) &&
                 fine(CALL(SET_INTER_THREADS, void *(*)(void *, int))(options, 1), reason, room) &&
                 fine(CALL(CREATE_SESSION_FROM_ARRAY, void *(*)(void *, const void *, size_t, void *, void *))(
                          env, s->file, size, options, &s->session),
                      reason, room);
    CALL(RELEASE_OPTIONS, fn_release)(options);
    s->n_inputs = bench_elements(c, 1) && !c->constant ? 2 : 1;
    for (int i = 0; i < s->n_inputs && ready; i++) {
        s->names[i] = names[i];
        s->operands[i] = bench_operand(i, bench_elements(c, i));
        int rank = dims_of(c, i, d);
        ready = tensor(s->operands[i], bench_elements(c, i), rank, d, &s->values[i], reason, room);
    }
    s->y = bench_memory((size_t)bench_elements(c, 2) * 4);
    int rank = dims_of(c, 2, d);
    return ready && tensor(s->y, bench_elements(c, 2), rank, d, &s->y_value, reason, room);
}

static void *compute(bench_state *s) {
    static const char *const y[] = {"y"};
    return CALL(RUN, void *(*)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **))(
        s->session, NULL, s->names, s->values, (size_t)s->n_inputs, y, 1, &s->y_value);
}

static bench_state *open_case(const bench_engine *e, const bench_case *c, int threads, char *reason, size_t room) {
    if (c->kind == BENCH_TRAIN || c->bf16 || (e == &bench_onnxruntime_f32 && c->kind != BENCH_BLOCKS)) {
        return NULL;
    }
    bench_state *s = bench_memory(sizeof *s);
    s->c = c;
    if (!prepare(s, threads, e->variant, reason, room) || !fine(compute(s), reason, room)) {
        close_state(s);
        return NULL;
    }
    return s;
}

static bool renew(bench_state *s) {
    for (int i = 0; i < bench_written(s->c); i++) {
        bench_write_anew(s->operands[i], (size_t)bench_elements(s->c, i) * 4);
    }
    return true;
}

static double run(bench_state *s, int n) {
    char reason[200];
    double begin = bench_now();
    for (int i = 0; i < n; i++) {
        if (!fine(compute(s), reason, sizeof reason)) {
            fprintf(stderr, "peers: ONNX Runtime: %s\n", reason);
            return -1;
        }
    }
    return bench_now() - begin;
}

static double digest(bench_state *s) {
    return bench_digest(s->y, bench_elements(s->c, 2));
}

const bench_engine bench_onnxruntime = {"ONNX Runtime", false, find, open_case, renew, run, digest, close_state, 4};
const bench_engine bench_onnxruntime_f32 = {"ONNX Runtime, x in f32", false, find, open_case, renew, run, digest, close_state, 0};
