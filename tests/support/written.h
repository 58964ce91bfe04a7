/* Attention as files write it out, node by node: q, k and v are [2, 2, 19 or 21, 16] of f32, the mask is [19, 21], with a row of
 * -infinity. */
#ifndef LOCKSTEP_TESTS_WRITTEN_H
#define LOCKSTEP_TESTS_WRITTEN_H

#include <lockstep/lockstep.h>

typedef struct written_operands {
    ls_tensor *q, *k, *v, *mask;
} written_operands;

typedef struct written_form {
    const char *name;
    ls_tensor *(*build)(ls_session *s, const written_operands *x);
} written_form;

#define WRITTEN_FORMS 10
extern const written_form written_forms[WRITTEN_FORMS];

/* e^(x - max) / sum over the last axis, of separate steps. */
ls_tensor *written_softmax(ls_session *s, ls_tensor *x);
/* q k^T, k transposed in its last axes. */
ls_tensor *written_scores(ls_session *s, ls_tensor *q, ls_tensor *k);

#endif
