/* Lockstep: neural networks with the same bits on every device. Includes every public header.
 *
 *     ls_context *context;
 *     ls_session *s;
 *     ls_error err = {LS_OK};
 *     float x[] = {1, 2, 3}, y[3];
 *     if (ls_context_create(NULL, &context, &err) == LS_OK && ls_session_create(context, NULL, &s, &err) == LS_OK) {
 *         ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(3), x);
 *         if (ls_read(s, ls_softmax(s, t, 0), y, sizeof y) == LS_OK) { ... }
 *     }
 * */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <lockstep/check.h>
#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/device.h>
#include <lockstep/dtype.h>
#include <lockstep/grad.h>
#include <lockstep/inspect.h>
#include <lockstep/image.h>
#include <lockstep/io.h>
#include <lockstep/model.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/quant.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>
#include <lockstep/verify.h>
#include <lockstep/version.h>

#endif
