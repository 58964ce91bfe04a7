/* Shapes of a model's inputs of which some extents change together: each is scale * n + offset for one n.
 *
 * A pattern says which shapes one program is for; it is no claim about the model. Patterns are guessed from two shapes that were met, and a
 * program is built for one only if every operator agrees with extents that have a symbol. */
#ifndef LOCKSTEP_IO_ONNX_PATTERN_H
#define LOCKSTEP_IO_ONNX_PATTERN_H

#include <lockstep/tensor.h>
#include <stdbool.h>

/* Words an input: 0 or 1 + dtype, rank, extents. */
enum { ONNX_SHAPE_WORDS = LS_MAX_RANK + 2 };

typedef struct ls_onnx_pattern {
    int words;
    int64_t *at;    /* shapes, */
    int64_t value;  /* those of n = value; the least n is 0 */
    int64_t *scale; /* 0 where the pattern has these very words */
} ls_onnx_pattern;

/* Are these shapes of the pattern, and for which n? (A fixed pattern: 0.) */
bool ls_onnx_pattern_value(const ls_onnx_pattern *p, const int64_t *shapes, int64_t *out_value);
/* How many extents differ from the pattern's; -1: other inputs, dtypes or ranks. */
int ls_onnx_pattern_moved(const ls_onnx_pattern *p, const int64_t *shapes);

typedef enum ls_onnx_guess {
    ONNX_GUESS_STATED, /* the extents whose scale is set already */
    ONNX_GUESS_BASE,   /* those that change in another pattern */
    ONNX_GUESS_GROWN, /* those that grew (or, when none did, shrank) since other shapes, all by the same steps */
    ONNX_GUESS_IN_STEP, /* the same, each by steps of its own: of 2 where another takes steps of 1 */
    ONNX_GUESSES
} ls_onnx_guess;
/* A pattern of which `shapes` (p->at, already) are, from an earlier one: fills p->scale and p->value. false: there is none. */
bool ls_onnx_pattern_guess(ls_onnx_pattern *p, const ls_onnx_pattern *earlier, const int64_t *shapes,
                           ls_onnx_guess guess);

#endif
