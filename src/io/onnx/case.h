/* Parts of running a test case: its files, and what they are compared with. */
#ifndef LOCKSTEP_IO_ONNX_CASE_H
#define LOCKSTEP_IO_ONNX_CASE_H

#include "base/sha256.h"
#include "io/onnx/onnx.h"

/* Values of one set of test data. */
typedef struct ls_case_values {
    ls_context *context;
    ls_arena arena;
    LS_ARRAY(ls_data *) data;
} ls_case_values;
void ls_case_values_init(ls_case_values *values, ls_context *context);
void ls_case_values_free(ls_case_values *values);

/* Reads a .pb file as what a port is: a TensorProto, SequenceProto or OptionalProto. */
ls_status ls_case_read(ls_case_values *values, const char *path, const ls_model_port *port,
                       ls_onnx_value **out_value, ls_error *err) LS_MUST_USE;
/* A value over an array, which it retains. */
ls_status ls_case_wrap(ls_case_values *values, ls_data *data, int type, ls_onnx_value **out_value,
                       ls_error *err) LS_MUST_USE;

typedef struct ls_case_difference {
    bool
        fourier; /* the file's floats come from NumPy's single-precision Fourier transform, whose error is relative to the largest */
    double worst;   /* largest share of the tolerance so far */
    char text[400]; /* the first difference; empty: none */
} ls_case_difference;
/* Compares an output, `name`, with what was expected. Tensors of both have `data`. `numbers` false: only kinds, types and shapes. */
void ls_case_compare(const char *name, const ls_onnx_value *expected, const ls_onnx_value *got, bool numbers,
                     ls_case_difference *inout_difference);
/* Whether two outputs may be draws from one distribution: of their elements by rank (Kolmogorov and Smirnov's test, at odds of about one
 * in a thousand million that equal distributions fail). */
ls_status ls_case_distribution(ls_heap *heap, const char *name, const ls_onnx_value *expected,
                               const ls_onnx_value *got, ls_case_difference *inout_difference,
                               ls_error *err) LS_MUST_USE;
void ls_case_hash(ls_sha256 *sha, const ls_onnx_value *value);

#endif
