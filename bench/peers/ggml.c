/* ggml, opened by dlopen: the libraries inside npm's build of llama.cpp, of which the one with the highest score on this processor is taken, as
 * ggml does itself. Constant weights alone, which lie in its repacked layout where it has one. Its objects are opaque here. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "bench/peers/peers.h"

enum ggml_type { F32 = 0, Q4_0 = 2, Q8_0 = 8, BF16 = 30 };
enum { TENSORS = 8, THREADPOOL_PARAMS = 4096 }; /* more bytes than any version's parameters have */
typedef struct init_params {
    size_t mem_size;
    void *mem_buffer;
    bool no_alloc;
} init_params;

const char *bench_ggml_folder;
char bench_ggml_about[80];

static struct {
    const char *(*version)(void);
    void *(*init)(init_params);
    void (*free)(void *context);
    size_t (*tensor_overhead)(void), (*graph_overhead)(void);
    void *(*new_tensor_2d)(void *context, int type, int64_t ne0, int64_t ne1);
    void *(*mul_mat)(void *context, void *a, void *b);
    void *(*new_graph)(void *context);
    void (*build_forward_expand)(void *graph, void *tensor);
    void *(*backend_alloc_ctx_tensors_from_buft)(void *context, void *buft);
    void (*backend_buffer_free)(void *buffer);
    void (*backend_tensor_set)(void *tensor, const void *data, size_t offset, size_t size);
    void (*backend_tensor_get)(const void *tensor, void *data, size_t offset, size_t size);
    int (*backend_graph_compute)(void *backend, void *graph);
    void *(*backend_reg_dev_get)(void *reg, size_t index);
    void *(*backend_reg_get_proc_address)(void *reg, const char *name);
    void *(*backend_dev_init)(void *dev, const char *params);
    void *(*backend_dev_buffer_type)(void *dev);
    bool (*backend_dev_supports_op)(void *dev, const void *op);
    void (*backend_free)(void *backend);
    void (*threadpool_params_init)(void *params, int threads);
} base;
static struct {
    void *(*backend_init)(void);
    void *(*threadpool_new)(void *params);
    void (*threadpool_free)(void *pool);
    void (*backend_cpu_set_threadpool)(void *backend, void *pool);
    void (*backend_cpu_set_n_threads)(void *backend, int threads);
} cpu;
static void *dev, **extra_bufts;

struct bench_state {
    const bench_case *c;
    void *backend, *pool, *contexts[2], *buffers[2], *w, *x, *y, *graph;
    float *out, *host_x;
};

typedef struct symbol {
    const char *name;
    void *to;
} symbol;

static bool find_symbols(void *library, const symbol *symbols, int n) {
    for (int i = 0; i < n; i++) {
        void *at = library ? dlsym(library, symbols[i].name) : NULL;
        if (!at) {
            return false;
        }
        memcpy(symbols[i].to, &at, sizeof at);
    }
    return true;
}

/* The library of the folder that is best on this processor; 0 is a score of those that do not run on it. */
static void *best_library(char *out_name, size_t room) {
    static const char prefix[] = "libggml-cpu-";
    DIR *folder = opendir(bench_ggml_folder);
    void *best = NULL;
    int most = 0;
    for (struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder)) {
        char path[1024];
        int (*score)(void) = NULL;
        snprintf(path, sizeof path, "%s/%s", bench_ggml_folder, e->d_name);
        void *library = strncmp(e->d_name, prefix, strlen(prefix)) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!find_symbols(library, &(symbol){"ggml_backend_score", &score}, 1) || score() <= most) {
            continue;
        }
        best = library;
        most = score();
        snprintf(out_name, room, "%.*s", (int)strcspn(e->d_name + strlen(prefix), "."), e->d_name + strlen(prefix));
    }
    if (folder) {
        closedir(folder);
    }
    return best;
}

static bool find(char *reason, size_t room) {
    char path[1024], name[40] = "";
    snprintf(path, sizeof path, "%s/libggml-base.so", bench_ggml_folder);
    const symbol of_base[] = {{"ggml_version", &base.version},
                              {"ggml_init", &base.init},
                              {"ggml_free", &base.free},
                              {"ggml_tensor_overhead", &base.tensor_overhead},
                              {"ggml_graph_overhead", &base.graph_overhead},
                              {"ggml_new_tensor_2d", &base.new_tensor_2d},
                              {"ggml_mul_mat", &base.mul_mat},
                              {"ggml_new_graph", &base.new_graph},
                              {"ggml_build_forward_expand", &base.build_forward_expand},
                              {"ggml_backend_alloc_ctx_tensors_from_buft", &base.backend_alloc_ctx_tensors_from_buft},
                              {"ggml_backend_buffer_free", &base.backend_buffer_free},
                              {"ggml_backend_tensor_set", &base.backend_tensor_set},
                              {"ggml_backend_tensor_get", &base.backend_tensor_get},
                              {"ggml_backend_graph_compute", &base.backend_graph_compute},
                              {"ggml_backend_reg_dev_get", &base.backend_reg_dev_get},
                              {"ggml_backend_reg_get_proc_address", &base.backend_reg_get_proc_address},
                              {"ggml_backend_dev_init", &base.backend_dev_init},
                              {"ggml_backend_dev_buffer_type", &base.backend_dev_buffer_type},
                              {"ggml_backend_dev_supports_op", &base.backend_dev_supports_op},
                              {"ggml_backend_free", &base.backend_free},
                              {"ggml_threadpool_params_init", &base.threadpool_params_init}};
    const symbol of_cpu[] = {{"ggml_backend_init", &cpu.backend_init},
                             {"ggml_threadpool_new", &cpu.threadpool_new},
                             {"ggml_threadpool_free", &cpu.threadpool_free},
                             {"ggml_backend_cpu_set_threadpool", &cpu.backend_cpu_set_threadpool},
                             {"ggml_backend_cpu_set_n_threads", &cpu.backend_cpu_set_n_threads}};
    if (!find_symbols(dlopen(path, RTLD_NOW | RTLD_GLOBAL), of_base, sizeof of_base / sizeof *of_base) ||
        !find_symbols(best_library(name, sizeof name), of_cpu, sizeof of_cpu / sizeof *of_cpu)) {
        snprintf(reason, room, "%s has no ggml that this program knows (make bench-peers fetches one)", bench_ggml_folder);
        return false;
    }
    void *reg = cpu.backend_init(), **(*bufts)(void *) = NULL;
    dev = base.backend_reg_dev_get(reg, 0);
    void *at = base.backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    memcpy(&bufts, &at, sizeof at);
    extra_bufts = bufts ? bufts(dev) : NULL;
    snprintf(bench_ggml_about, sizeof bench_ggml_about, "%s for %s", base.version(), name);
    return true;
}

static void drop_graph(bench_state *s) {
    for (int i = 0; i < 2; i++) {
        base.backend_buffer_free(s->buffers[i]);
        base.free(s->contexts[i]);
    }
}

static void close_state(bench_state *s) {
    drop_graph(s);
    base.backend_free(s->backend);
    cpu.threadpool_free(s->pool);
    free(s->out);
    free(s->host_x);
    free(s);
}

/* y = w x, with w, n rows of k, in memory of a layout; false when nothing multiplies that. */
static bool make_graph(bench_state *s, void *layout) {
    const bench_case *c = s->c;
    for (int i = 0; i < 2; i++) {
        s->contexts[i] = base.init((init_params){TENSORS * base.tensor_overhead() + base.graph_overhead(), NULL, true});
    }
    s->w = base.new_tensor_2d(s->contexts[0], c->bf16 ? BF16 : c->kind == BENCH_GEMM ? F32 : c->bits == 4 ? Q4_0 : Q8_0, c->k, c->n);
    s->x = base.new_tensor_2d(s->contexts[1], F32, c->k, c->m);
    s->y = base.mul_mat(s->contexts[1], s->w, s->x);
    s->graph = base.new_graph(s->contexts[1]);
    base.build_forward_expand(s->graph, s->y);
    s->buffers[0] = base.backend_alloc_ctx_tensors_from_buft(s->contexts[0], layout);
    s->buffers[1] = base.backend_alloc_ctx_tensors_from_buft(s->contexts[1], base.backend_dev_buffer_type(dev));
    return s->buffers[0] && s->buffers[1] && base.backend_dev_supports_op(dev, s->y);
}

/* Repacked layouts first. */
static bool make_best_graph(bench_state *s) {
    void *const rows[] = {base.backend_dev_buffer_type(dev), NULL};
    void *const *lists[] = {extra_bufts, rows};
    for (int i = 0; i < 2; i++) {
        for (void *const *layout = lists[i]; layout && *layout; layout++) {
            if (make_graph(s, *layout)) {
                return true;
            }
            drop_graph(s);
        }
    }
    memset(s->contexts, 0, sizeof s->contexts);
    memset(s->buffers, 0, sizeof s->buffers);
    return false;
}

static void fill(bench_state *s) {
    const bench_case *c = s->c;
    s->host_x = bench_operand(0, c->m * c->k);
    base.backend_tensor_set(s->x, s->host_x, 0, (size_t)(c->m * c->k) * 4);
    if (c->kind == BENCH_BLOCKS) {
        size_t size;
        uint8_t *codes = bench_quantised(c, &size);
        base.backend_tensor_set(s->w, codes, 0, size);
        free(codes);
        return;
    }
    float *w = bench_operand(1, c->k * c->n), *turned = bench_memory((size_t)(c->k * c->n) * 4);
    for (int64_t i = 0; i < c->k; i++) {
        for (int64_t j = 0; j < c->n; j++) {
            turned[j * c->k + i] = w[i * c->n + j];
        }
    }
    for (int64_t i = 0; c->bf16 && i < c->k * c->n; i++) {
        uint16_t half = ls_f32_to_bf16(turned[i]);
        memcpy((char *)turned + 2 * i, &half, 2);
    }
    base.backend_tensor_set(s->w, turned, 0, (size_t)(c->k * c->n) * (c->bf16 ? 2 : 4));
    free(w);
    free(turned);
}

static bench_state *open_case(const bench_engine *e, const bench_case *c, int threads, char *reason, size_t room) {
    (void)e;
    if (c->kind != BENCH_BLOCKS && (c->kind != BENCH_GEMM || !c->constant)) {
        return NULL;
    }
    bench_state *s = bench_memory(sizeof *s);
    char params[THREADPOOL_PARAMS];
    s->c = c;
    s->out = bench_memory((size_t)(c->m * c->n) * 4);
    s->backend = base.backend_dev_init(dev, NULL);
    base.threadpool_params_init(params, threads);
    s->pool = cpu.threadpool_new(params);
    cpu.backend_cpu_set_n_threads(s->backend, threads);
    cpu.backend_cpu_set_threadpool(s->backend, s->pool);
    if (!make_best_graph(s)) {
        snprintf(reason, room, "no memory, or no kernel");
        close_state(s);
        return NULL;
    }
    fill(s);
    return s;
}

static bool renew(bench_state *s) {
    if (bench_written(s->c)) {
        base.backend_tensor_set(s->x, s->host_x, 0, (size_t)(s->c->m * s->c->k) * 4);
    }
    return true;
}

static double run(bench_state *s, int n) {
    double begin = bench_now();
    for (int i = 0; i < n; i++) {
        if (base.backend_graph_compute(s->backend, s->graph) != 0) {
            return -1;
        }
    }
    return bench_now() - begin;
}

static double digest(bench_state *s) {
    int64_t n = s->c->m * s->c->n;
    base.backend_tensor_get(s->y, s->out, 0, (size_t)n * 4);
    return bench_digest(s->out, n);
}

const bench_engine bench_ggml = {"ggml", false, find, open_case, renew, run, digest, close_state, 0};
