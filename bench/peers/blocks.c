/* Weights quantised in blocks of 32: ours (ls_linear_q) and, for ONNX Runtime, a file of one MatMulNBits. */
#include <lockstep/quant.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/peers/peers.h"

/* x[m,k] times the weights of operand 1, n rows of k, quantised. */
ls_tensor *bench_blocks(ls_session *s, const bench_case *c, ls_tensor *x) {
    ls_quant kind = c->bits == 4 ? LS_Q4_0 : LS_Q8_0;
    int64_t bytes = ls_quant_bytes(kind, c->k);
    float *numbers = bench_operand(1, c->n * c->k);
    uint8_t *codes = bench_memory((size_t)(c->n * bytes));
    ls_error err = {.code = LS_OK};
    ls_tensor *w = NULL;
    if (ls_quantize(kind, c->n, c->k, numbers, codes, &err) == LS_OK) {
        w = ls_tensor_from(s, LS_U8, LS_SHAPE(c->n, bytes), codes);
    }
    free(numbers);
    free(codes);
    return w ? ls_linear_q(s, x, w, kind, NULL) : NULL;
}

/* An .onnx file of one MatMulNBits: input "x", output "y", block 32, symmetric, accuracy level 4. */
void *bench_encode_blocks(const bench_case *c, size_t *out_size, char *reason, size_t room) {
    (void)c, (void)out_size;
    snprintf(reason, room, "no file of MatMulNBits here yet");
    return NULL;
}
