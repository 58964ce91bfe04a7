/* One small graph for each row of src/emit/cover.def, so that a run on any device executes every template and branch of a launch
 * that the device has. Their values are small integers: any order of arithmetic is exact, and fast results have the bits of
 * locked ones. */
#ifndef LOCKSTEP_TESTS_SUPPORT_COVERS_H
#define LOCKSTEP_TESTS_SUPPORT_COVERS_H

#include "emit/emit.h"
#include "support/world.h"

/* The graph of a cover in a session; `half`: the type of the device's matrix instructions. NULL with an error in the session. */
ls_tensor *covers_build(ls_session *s, ls_cover cover, ls_dtype half);

#endif
