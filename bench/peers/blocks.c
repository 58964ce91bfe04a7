/* Weights quantised in blocks of 32: ours (ls_linear_q) and, for ONNX Runtime, a file of one MatMulNBits. */
#include <lockstep/quant.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/peers.h"

static ls_quant kind_of(const bench_case *c) {
    return c->bits == 4 ? LS_Q4_0 : LS_Q8_0;
}

uint8_t *bench_quantised(const bench_case *c, size_t *out_size) {
    ls_quant kind = kind_of(c);
    float *numbers = bench_operand(1, c->n * c->k);
    *out_size = (size_t)(c->n * ls_quant_bytes(kind, c->k));
    uint8_t *codes = bench_memory(*out_size);
    ls_error err = {.code = LS_OK};
    if (ls_quantize(kind, c->n, c->k, numbers, codes, &err) != LS_OK) {
        fprintf(stderr, "peers: %s\n", err.message);
        exit(2);
    }
    free(numbers);
    return codes;
}

ls_tensor *bench_blocks(ls_session *s, const bench_case *c, ls_tensor *x) {
    ls_quant kind = kind_of(c);
    size_t size;
    uint8_t *codes = bench_quantised(c, &size);
    ls_tensor *w = ls_tensor_from(s, LS_U8, LS_SHAPE(c->n, ls_quant_bytes(kind, c->k)), codes);
    free(codes);
    return ls_linear_q(s, x, w, kind, NULL);
}

/* ---- a file of one MatMulNBits: just enough of protobuf ---- */

typedef struct message {
    uint8_t *bytes;
    size_t size, room;
} message;

static void put(message *m, const void *bytes, size_t n) {
    if (m->size + n > m->room) {
        m->room = 2 * (m->size + n);
        m->bytes = realloc(m->bytes, m->room);
        if (!m->bytes) {
            exit(2);
        }
    }
    memcpy(m->bytes + m->size, bytes, n);
    m->size += n;
}

static void varint(message *m, uint64_t x) {
    for (; x >= 128; x >>= 7) {
        put(m, &(uint8_t){(uint8_t)(x | 128)}, 1);
    }
    put(m, &(uint8_t){(uint8_t)x}, 1);
}

static void number(message *m, int field, int64_t x) {
    varint(m, (uint64_t)field << 3);
    varint(m, (uint64_t)x);
}

static void bytes(message *m, int field, const void *at, size_t n) {
    varint(m, (uint64_t)field << 3 | 2);
    varint(m, n);
    put(m, at, n);
}

static void text(message *m, int field, const char *t) {
    bytes(m, field, t, strlen(t));
}

static void part(message *m, int field, message *inner) { /* which it frees */
    bytes(m, field, inner->bytes, inner->size);
    free(inner->bytes);
}

static void attribute(message *node, const char *name, int64_t value) {
    message a = {0};
    text(&a, 1, name);
    number(&a, 3, value);
    number(&a, 20, 2); /* INT */
    part(node, 5, &a);
}

static void port(message *graph, int field, const char *name, int64_t rows, int64_t columns) {
    message value = {0}, type = {0}, tensor = {0}, shape = {0};
    for (int i = 0; i < 2; i++) {
        message extent = {0};
        number(&extent, 1, i ? columns : rows);
        part(&shape, 1, &extent);
    }
    number(&tensor, 1, 1); /* FLOAT */
    part(&tensor, 2, &shape);
    part(&type, 1, &tensor);
    text(&value, 1, name);
    part(&value, 2, &type);
    part(graph, field, &value);
}

static void initialiser(message *graph, const char *name, int type, int rank, const int64_t *dims, const void *at, size_t n) {
    message t = {0};
    for (int i = 0; i < rank; i++) {
        number(&t, 1, dims[i]);
    }
    number(&t, 2, type);
    text(&t, 8, name);
    bytes(&t, 9, at, n);
    part(graph, 5, &t);
}

static float from_half(const uint8_t *at) { /* a scale: normal, or 0 */
    uint32_t h = (uint32_t)at[0] | (uint32_t)at[1] << 8, e = h >> 10 & 31, bits = (h & 0x8000) << 16;
    bits |= e ? (e + 112) << 23 | (h & 1023) << 13 : 0;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Our blocks in the operator's layout: codes with zero at 8 or 128, neighbours in a byte, scales apart in f32. */
static void split(const bench_case *c, const uint8_t *from, uint8_t *codes, float *scales) {
    int64_t blocks = c->n * c->k / LS_QUANT_BLOCK;
    for (int64_t b = 0; b < blocks; b++) {
        const uint8_t *at = from + b * (2 + 4 * c->bits);
        uint8_t *to = codes + b * 4 * c->bits;
        scales[b] = from_half(at);
        for (int j = 0; j < 4 * c->bits; j++) {
            int shift = 2 * j < 16 ? 0 : 4; /* ours: element j low, j + 16 high */
            to[j] = c->bits == 8 ? (uint8_t)(at[2 + j] + 128)
                                 : (uint8_t)((at[2 + 2 * j % 16] >> shift & 15) | (at[2 + (2 * j + 1) % 16] >> shift & 15) << 4);
        }
    }
}

void *bench_encode_blocks(const bench_case *c, int accuracy, size_t *out_size) {
    int64_t blocks = c->k / LS_QUANT_BLOCK;
    size_t size;
    uint8_t *ours = bench_quantised(c, &size), *codes = bench_memory((size_t)(c->n * blocks * 4 * c->bits));
    float *scales = bench_memory((size_t)(c->n * blocks) * 4);
    split(c, ours, codes, scales);
    message node = {0}, graph = {0}, model = {0};
    text(&node, 1, "x");
    text(&node, 1, "codes");
    text(&node, 1, "scales");
    text(&node, 2, "y");
    text(&node, 4, "MatMulNBits");
    attribute(&node, "K", c->k);
    attribute(&node, "N", c->n);
    attribute(&node, "bits", c->bits);
    attribute(&node, "block_size", LS_QUANT_BLOCK);
    attribute(&node, "accuracy_level", accuracy);
    text(&node, 7, "com.microsoft");
    part(&graph, 1, &node);
    text(&graph, 2, "blocks");
    initialiser(&graph, "codes", 2, 3, (const int64_t[]){c->n, blocks, 4 * c->bits}, codes, (size_t)(c->n * blocks * 4 * c->bits));
    initialiser(&graph, "scales", 1, 1, (const int64_t[]){c->n * blocks}, scales, (size_t)(c->n * blocks) * 4);
    port(&graph, 11, "x", c->m, c->k);
    port(&graph, 12, "y", c->m, c->n);
    number(&model, 1, 8);
    part(&model, 7, &graph);
    for (int i = 0; i < 2; i++) {
        message set = {0};
        text(&set, 1, i ? "com.microsoft" : "");
        number(&set, 2, i ? 1 : 20);
        part(&model, 8, &set);
    }
    free(ours);
    free(codes);
    free(scales);
    *out_size = model.size;
    return model.bytes;
}
