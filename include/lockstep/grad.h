/* Reverse-mode differentiation, graph to graph: the gradients are tensors like any other, so they
 * differentiate again.
 *
 * Adjoints accumulate in reverse post-order from the root, operands left to right, so their bits do not
 * depend on the order in which the graph was built. At points without a derivative the one-sided choice of
 * docs/ops.md is taken.
 * */
#ifndef LOCKSTEP_GRAD_H
#define LOCKSTEP_GRAD_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out_grads[i] is d(loss)/d(xs[i]), of xs[i]'s shape and dtype; zeros where loss does not depend on it.
 * `loss` is any floating tensor: a non-scalar is differentiated as its sum would be, or weighted by `seed`
 * (of loss's shape; NULL: ones). */
LS_API ls_status ls_grad(ls_session *session, ls_tensor *loss, ls_tensor *seed, int count, ls_tensor *const *xs,
                         ls_tensor **out_grads);
/* x as a constant of differentiation. */
LS_API ls_tensor *ls_stop_gradient(ls_session *session, ls_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
