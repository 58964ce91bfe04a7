/* The work that is compared, and its operands. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/peers/peers.h"

#define GEMM(title, a, b, c)                                                                                \
    {.group = "gemm", .name = "sgemm " title, .kind = BENCH_GEMM, .m = a, .n = b, .k = c},                  \
        {.group = "gemm prepacked",                                                                        \
         .name = "sgemm " title " prepacked",                                                              \
         .kind = BENCH_GEMM,                                                                               \
         .m = a,                                                                                           \
         .n = b,                                                                                           \
         .k = c,                                                                                           \
         .constant = true}
#define BF16(title, a, b, c)                                                                                 \
    {.group = "bf16", .name = "bf16 " title, .kind = BENCH_GEMM, .m = a, .n = b, .k = c, .constant = true, .bf16 = true}
#define CUBE(s) GEMM(#s, s, s, s)
#define CONV_OF(of, title, n_, i, o, s, f, step, g)                                                         \
    {.group = of, .name = title, .kind = BENCH_CONV, .constant = true, .batch = n_, .in = i, .out = o,  \
     .side = s, .kernel = f, .stride = step, .groups = g}
#define SHAPE(title, i, o, s, f, step, g) CONV_OF("shapes", title, 1, i, o, s, f, step, g)
#define CONV(title, i, o, s, f, step, g)                                                                    \
    CONV_OF("conv", "conv " title ", N 1", 1, i, o, s, f, step, g), CONV_OF("conv", "conv " title ", N 8", 8, i, o, s, f, step, g)
#define MATRIX(of, title, what, rows, columns)                                                              \
    {.group = of, .name = title, .kind = what, .m = rows, .n = columns}
#define IMAGE(of, title, what, n_, channels, side_, f, step)                                                \
    {.group = of, .name = title, .kind = what, .batch = n_, .in = channels, .out = channels, .side = side_, .kernel = f, .stride = step}
#define LSTM(title, steps, units, rows)                                                                     \
    {.group = "recurrent", .name = "LSTM " title, .kind = BENCH_LSTM, .m = rows, .n = units, .k = steps, .constant = true}
#define BLOCKS(title, rows, outputs, width)                                                                 \
    {.group = "blocks", .name = title, .kind = BENCH_BLOCKS, .m = rows, .n = outputs, .k = 4096,            \
     .constant = true, .bits = width}

const bench_case bench_cases[] = {
    CUBE(64),
    CUBE(128),
    CUBE(256),
    CUBE(512),
    CUBE(1024),
    CUBE(2048),
    GEMM("16x1024x1024", 16, 1024, 1024),
    GEMM("128x3072x768", 128, 3072, 768),
    GEMM("1x4096x4096", 1, 4096, 4096),
    CONV("3x3 64ch 56", 64, 64, 56, 3, 1, 1),
    CONV("1x1 64ch 56", 64, 64, 56, 1, 1, 1),
    CONV("3x3/2 64-128ch 56", 64, 128, 56, 3, 2, 1),
    CONV("7x7/2 stem 224", 3, 64, 224, 7, 2, 1),
    CONV("depthwise 3x3 32ch 112", 32, 32, 112, 3, 1, 32),
    CONV("3x3 64ch 56, 16 groups", 64, 64, 56, 3, 1, 16),
    SHAPE("3x3/2 3-32ch 224", 3, 32, 224, 3, 2, 1),
    SHAPE("3x3 1-32ch 256", 1, 32, 256, 3, 1, 1),
    SHAPE("3x3 64ch 224", 64, 64, 224, 3, 1, 1),
    SHAPE("3x3 32ch 512", 32, 32, 512, 3, 1, 1),
    SHAPE("3x3 128ch 28", 128, 128, 28, 3, 1, 1),
    SHAPE("3x3 256ch 14", 256, 256, 14, 3, 1, 1),
    SHAPE("3x3/2 256ch 28", 256, 256, 28, 3, 2, 1),
    SHAPE("3x3/2 512ch 14", 512, 512, 14, 3, 2, 1),
    SHAPE("3x3 512ch 7", 512, 512, 7, 3, 1, 1),
    SHAPE("3x3 512ch 4", 512, 512, 4, 3, 1, 1), /* as of pictures of 32 x 32 */
    SHAPE("5x5 64-32ch 128", 64, 32, 128, 5, 1, 1),
    SHAPE("5x5 32-1ch 256", 32, 1, 256, 5, 1, 1),
    SHAPE("9x9 32-3ch 256", 32, 3, 256, 9, 1, 1),
    SHAPE("7x7 64ch 104", 64, 64, 104, 7, 1, 1),
    SHAPE("1x1 16-96ch 112", 16, 96, 112, 1, 1, 1),
    SHAPE("1x1 96-24ch 56", 96, 24, 56, 1, 1, 1),
    SHAPE("1x1 256-64ch 56", 256, 64, 56, 1, 1, 1),
    SHAPE("1x1 512-128ch 28", 512, 128, 28, 1, 1, 1),
    SHAPE("1x1 512-2048ch 7", 512, 2048, 7, 1, 1, 1),
    SHAPE("1x1/2 256-512ch 56", 256, 512, 56, 1, 2, 1),
    SHAPE("depthwise 3x3/2 96ch 112", 96, 96, 112, 3, 2, 96),
    SHAPE("depthwise 5x5 96ch 28", 96, 96, 28, 5, 1, 96),
    SHAPE("depthwise 3x3 384ch 14", 384, 384, 14, 3, 1, 384),
    MATRIX("memory", "layernorm 4096x1024", BENCH_LAYERNORM, 4096, 1024),
    MATRIX("memory", "softmax 4096x1024", BENCH_SOFTMAX, 4096, 1024),
    MATRIX("memory", "gelu 16M", BENCH_GELU, 4096, 4096),
    MATRIX("memory", "transpose 4096x4096", BENCH_TRANSPOSE, 4096, 4096),
    MATRIX("memory", "sum of rows 4096x1024", BENCH_SUM_ROWS, 4096, 1024),
    MATRIX("memory", "sum of columns 4096x1024", BENCH_SUM_COLUMNS, 4096, 1024),
    MATRIX("memory", "sum of all 16M", BENCH_SUM_ALL, 4096, 4096),
    MATRIX("folds", "max of rows 4096x1024", BENCH_MAX_ROWS, 4096, 1024),
    MATRIX("folds", "max of columns 4096x1024", BENCH_MAX_COLUMNS, 4096, 1024),
    MATRIX("folds", "softmax of columns 4096x1024", BENCH_SOFTMAX_COLUMNS, 4096, 1024),
    IMAGE("folds", "max pool 3x3/2 64ch 112, N 8", BENCH_MAX_POOL, 8, 64, 112, 3, 2),
    IMAGE("folds", "max pool 2x2/2 64ch 112, N 8", BENCH_MAX_POOL, 8, 64, 112, 2, 2),
    IMAGE("folds", "average pool 3x3 64ch 56, N 8", BENCH_AVERAGE_POOL, 8, 64, 56, 3, 1),
    MATRIX("moves", "gather of rows 4096x1024", BENCH_GATHER, 4096, 1024),
    MATRIX("moves", "gather of rows 65536x64", BENCH_GATHER, 65536, 64),
    MATRIX("moves", "join of rows 4096x512", BENCH_JOIN, 4096, 512),
    IMAGE("moves", "padding by 1, 64ch 56, N 8", BENCH_PAD, 8, 64, 56, 3, 1),
    IMAGE("moves", "channels last, 64ch 56, N 8", BENCH_NHWC, 8, 64, 56, 1, 1),
    {.group = "networks", .name = "mnist:cnn, batch 1", .kind = BENCH_CNN, .m = 1, .constant = true},
    {.group = "networks", .name = "mnist:cnn, batch 128", .kind = BENCH_CNN, .m = 128, .constant = true},
    {.group = "networks",
     .name = "encoder layer, 128 x 384, 6 heads",
     .kind = BENCH_ENCODER,
     .m = 128,
     .n = 384,
     .k = 6,
     .constant = true},
    LSTM("256, 64 steps, batch 1", 64, 256, 1),
    LSTM("256, 64 steps, batch 32", 64, 256, 32),
    {.group = "training", .name = "mnist:cnn, step of Adam, batch 128", .kind = BENCH_TRAIN, .m = 128},
    BF16("256", 256, 256, 256),
    BF16("1024", 1024, 1024, 1024),
    BF16("16x1024x1024", 16, 1024, 1024),
    BF16("128x3072x768", 128, 3072, 768),
    BLOCKS("q4_0 4096x4096, 1 row", 1, 4096, 4),
    BLOCKS("q4_0 4096x4096, 128 rows", 128, 4096, 4),
    BLOCKS("q4_0 32768x4096, 1 row", 1, 32768, 4), /* beyond the caches */
    BLOCKS("q8_0 4096x4096, 1 row", 1, 4096, 8),
    BLOCKS("q8_0 4096x4096, 128 rows", 128, 4096, 8),
    BLOCKS("q8_0 32768x4096, 1 row", 1, 32768, 8), /* beyond the caches */
    {.name = NULL},
};

bool bench_is_memory(const bench_case *c) {
    bool matvec = c->m == 1 && (c->kind == BENCH_GEMM || c->kind == BENCH_BLOCKS);
    return matvec || (c->kind >= BENCH_LAYERNORM && c->kind <= BENCH_AVERAGE_POOL);
}

int bench_written(const bench_case *c) {
    bool product = c->kind == BENCH_GEMM || c->kind == BENCH_CONV;
    return product ? 1 + (!c->constant && c->m > 1) : 0;
}

bool bench_is_timed(const bench_case *c) {
    return c->kind >= BENCH_CNN && c->kind <= BENCH_LSTM;
}

int64_t bench_out_side(const bench_case *c) {
    const bool pools = c->kind == BENCH_MAX_POOL || c->kind == BENCH_AVERAGE_POOL;
    return (c->side + bench_padding(c) * 2 - (c->kind == BENCH_CONV || pools ? c->kernel : 1)) / c->stride + 1;
}

int64_t bench_padding(const bench_case *c) {
    return c->kernel % 2 ? c->kernel / 2 : 0;
}

int64_t bench_row(const bench_case *c, int64_t i) {
    return i * INT64_C(2654435761) % c->m;
}

int64_t bench_elements(const bench_case *c, int which) {
    int64_t o = c->side ? bench_out_side(c) : 0;
    switch (c->kind) {
    case BENCH_GEMM:
    case BENCH_BLOCKS:
        return which == 0 ? c->m * c->k : which == 1 ? c->k * c->n : c->m * c->n;
    case BENCH_CONV:
        return which == 0   ? c->batch * c->in * c->side * c->side
               : which == 1 ? c->out * c->in / c->groups * c->kernel * c->kernel
                            : c->batch * c->out * o * o;
    case BENCH_CNN:
    case BENCH_TRAIN:
        return which == 0 ? c->m * 784 : which == 2 ? c->m * 10 : 0;
    case BENCH_LSTM:
        return which == 1 ? 0 : c->k * c->m * c->n;
    case BENCH_JOIN:
        return c->m * c->n * (1 + (which == 2));
    case BENCH_PAD:
    case BENCH_NHWC:
    case BENCH_MAX_POOL:
    case BENCH_AVERAGE_POOL:
        return which == 1 ? 0 : c->batch * c->in * (which == 0 ? c->side * c->side : o * o);
    case BENCH_SUM_ROWS:
    case BENCH_MAX_ROWS:
        return which == 0 ? c->m * c->n : which == 2 ? c->m : 0;
    case BENCH_SUM_COLUMNS:
    case BENCH_MAX_COLUMNS:
        return which == 0 ? c->m * c->n : which == 2 ? c->n : 0;
    case BENCH_SUM_ALL:
        return which == 0 ? c->m * c->n : which == 2 ? 1 : 0;
    default:
        return which == 1 ? 0 : c->m * c->n;
    }
}

double bench_flops(const bench_case *c) {
    double m = (double)c->m, n = (double)c->n, k = (double)c->k, o = c->kind == BENCH_CONV ? (double)bench_out_side(c) : 0;
    switch (c->kind) {
    case BENCH_GEMM:
    case BENCH_BLOCKS:
        return 2 * m * n * k;
    case BENCH_CONV:
        return 2 * (double)(c->batch * c->out * (c->in / c->groups) * c->kernel * c->kernel) * o * o;
    case BENCH_CNN:
        return 24e6 * m; /* 12 M multiply-adds an image */
    case BENCH_TRAIN:
        return 72e6 * m;
    case BENCH_ENCODER: /* four projections and two of 4n; scores and their sums of values */
        return 2 * m * n * n * 12 + 4 * m * m * n;
    case BENCH_LSTM: /* four gates of x and h */
        return 2 * m * k * 4 * n * 2 * n;
    default:
        return 0;
    }
}

double bench_bytes(const bench_case *c) {
    if (c->kind == BENCH_BLOCKS) { /* blocks of 32 with a half each */
        return (double)(c->k * c->n) * (c->bits / 8.0 + 2 / 32.0) + 4.0 * (double)(c->m * (c->k + c->n));
    }
    return 4.0 * (double)(bench_elements(c, 0) + bench_elements(c, 1) + bench_elements(c, 2));
}

/* The upper 24 bits of a product with an odd number: no run of it repeats within 2^32 elements. */
float bench_value(int which, int64_t index) {
    uint32_t bits = (uint32_t)index * UINT32_C(2654435769) + (uint32_t)which * UINT32_C(0x9e3779b1) + UINT32_C(12345);
    bits ^= bits >> 15;
    bits *= UINT32_C(0x2c1b3c6d);
    bits ^= bits >> 12;
    return (float)(bits >> 8) * 0x1p-24f - 0.5f;
}

void *bench_memory(size_t bytes) {
    size_t size = (bytes + 4095) / 4096 * 4096 + 4096;
    void *p = aligned_alloc(4096, size);
    if (!p) {
        fprintf(stderr, "peers: out of memory (%zu bytes)\n", bytes);
        exit(2);
    }
    memset(p, 0, size);
    return p;
}

float *bench_operand(int which, int64_t n) {
    float *x = bench_memory((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = bench_value(which, i);
    }
    return x;
}

bool bench_cpu_clock;

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_core_seconds(void) {
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_now(void) {
    return seconds_of(bench_cpu_clock ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
}

void bench_write_anew(void *at, size_t bytes) {
    for (volatile char *line = at; line < (volatile char *)at + bytes; line += 64) {
        *line = *line;
    }
}

double bench_digest(const float *y, int64_t n) {
    double along = 0, square = 0, pattern = 0;
    for (int64_t i = 0; i < n; i++) {
        double p = n == 1 ? 1 : bench_value(7, i);
        along += y[i] * p;
        square += (double)y[i] * y[i];
        pattern += p * p;
    }
    return n == 1 ? along : along / sqrt(square * pattern);
}
