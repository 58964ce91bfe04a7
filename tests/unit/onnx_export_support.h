/* A graph on `cpu` with inputs that a line of text declares, and what it and a model made from it give: for tests of the export to ONNX. */
#ifndef LOCKSTEP_TESTS_UNIT_ONNX_EXPORT_SUPPORT_H
#define LOCKSTEP_TESTS_UNIT_ONNX_EXPORT_SUPPORT_H

#include "io/onnx/export.h"
#include "support/world.h"
#include <lockstep/data.h>
#include <lockstep/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IN = 7, BATCH = 3 };

typedef struct bed {
    world w;
    ls_symbol *batch;
    int n_in;
    ls_tensor *in[MOST_IN];
    ls_data *values[MOST_IN];
} bed;

/* ---- inputs: "f32[2,B,4] i64[3]"; B is a symbol ---- */

static const struct {
    const char *name;
    ls_dtype dtype;
} dtypes[] = {{"bool", LS_BOOL}, {"u8", LS_U8},   {"i8", LS_I8},   {"u16", LS_U16}, {"i16", LS_I16}, {"u32", LS_U32},
              {"i32", LS_I32},   {"u64", LS_U64}, {"i64", LS_I64}, {"f16", LS_F16}, {"bf16", LS_BF16},
              {"f32", LS_F32},   {"f64", LS_F64}};

/* Halves, thirds and some zeros between -2 and 2, or 0 to 5; made in f64 and cast, so that every dtype is covered. */
static inline ls_data *values_of(world *w, ls_dtype dtype, int rank, const int64_t *dims, int salt) {
    double list[4096];
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        n *= dims[i];
    }
    assert_true(n <= 4096);
    bool real = dtype == LS_F16 || dtype == LS_BF16 || dtype == LS_F32 || dtype == LS_F64;
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (i * 7 + salt * 5) % 25;
        list[i] = real ? (double)(k - 12) / 6 : (double)(k % (dtype == LS_BOOL ? 2 : 3));
    }
    ls_data *data = NULL;
    ls_tensor *t = ls_cast(w->session, ls_tensor_from(w->session, LS_F64, ls_shape_make(rank, dims), list), dtype);
    world_ok(w, ls_data_from_tensor(w->session, t, &data));
    return data;
}

static inline void add_input(bed *b, const char *text, size_t length) {
    ls_dtype dtype = LS_DTYPE_COUNT;
    ls_shape shape = {.rank = 0};
    int64_t dims[LS_MAX_RANK];
    size_t at = strcspn(text, "[");
    char name[8];
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strlen(dtypes[i].name) == at && strncmp(dtypes[i].name, text, at) == 0) {
            dtype = dtypes[i].dtype;
        }
    }
    assert_int_not_equal(dtype, LS_DTYPE_COUNT);
    while (at + 1 < length && text[at + 1] != ']') {
        at++;
        bool symbol = text[at] == 'B';
        int64_t n = 0;
        for (; text[at] >= '0' && text[at] <= '9'; at++) {
            n = 10 * n + text[at] - '0';
        }
        at += symbol;
        dims[shape.rank] = symbol ? BATCH : n;
        shape.dim[shape.rank++] = symbol ? ls_dim_symbol(b->batch, 1, 0) : ls_dim_of(n);
        at -= text[at] == ']';
    }
    snprintf(name, sizeof name, "x%d", b->n_in);
    b->in[b->n_in] = ls_input(b->w.session, name, dtype, shape);
    b->values[b->n_in] = values_of(&b->w, dtype, shape.rank, dims, b->n_in);
    assert_non_null(b->in[b->n_in++]);
}

static inline bed bed_open(const char *inputs) {
    bed b = {.w = world_open("cpu")};
    b.batch = ls_symbol_create(b.w.context, "batch", 8, NULL);
    world_ok(&b.w, ls_symbol_bind(b.w.session, b.batch, BATCH));
    for (const char *at = inputs; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        add_input(&b, at, n);
        at += n;
    }
    return b;
}

static inline void bed_close(bed *b) {
    for (int i = 0; i < b->n_in; i++) {
        ls_data_release(b->values[i]);
    }
    world_close(&b->w);
}

/* ---- what is compared ---- */

static inline ls_data *run_graph(bed *b, ls_tensor *y) {
    ls_program *program = NULL;
    const void *in[MOST_IN];
    int64_t dims[LS_MAX_RANK], bound = 1;
    ls_shape shape = ls_tensor_shape(y);
    for (int i = 0; i < shape.rank; i++) {
        dims[i] = shape.dim[i].symbol ? shape.dim[i].scale * BATCH + shape.dim[i].offset : shape.dim[i].offset;
        bound *= dims[i];
    }
    uint8_t *bytes = calloc((size_t)bound + 1, ls_dtype_size(ls_tensor_dtype(y)));
    for (int i = 0; i < b->n_in; i++) {
        in[i] = ls_data_bytes(b->values[i]);
    }
    world_ok(&b->w, ls_program_compile(b->w.session, b->in, b->n_in, &y, 1, &program));
    world_ok(&b->w, ls_program_run(program, in, (void *const[]){bytes}));
    ls_program_destroy(program);
    ls_data *data = NULL;
    world_ok(&b->w, ls_data_create(b->w.context, ls_tensor_dtype(y), shape.rank, dims, bytes, &data, NULL));
    free(bytes);
    return data;
}

static inline ls_data *run_model(bed *b, ls_model *model) {
    ls_named_data in[MOST_IN];
    ls_runner *runner = NULL;
    ls_data *y = NULL;
    for (int i = 0; i < b->n_in; i++) {
        in[i] = (ls_named_data){ls_model_input(model, i).name, b->values[i]};
    }
    world_ok(&b->w, ls_runner_create(b->w.session, model, &runner));
    world_ok(&b->w, ls_runner_run(runner, b->n_in, in, &y));
    ls_runner_destroy(runner);
    return y;
}

#define MAKE(name, ...)                                              \
    static ls_tensor *name(ls_session *s, ls_tensor *const *x) {     \
        (void)s;                                                     \
        (void)x;                                                     \
        return __VA_ARGS__;                                               \
    }
#define AXES(...) (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]){__VA_ARGS__}

#endif
