/* Planted museum faults on a device. */
#ifndef LOCKSTEP_TESTS_SUPPORT_PLANTS_H
#define LOCKSTEP_TESTS_SUPPORT_PLANTS_H

#include "support/world.h"
#include <stdbool.h>

/* Runs the museum with a fault: whether its own case failed, locked and fast, and no other, with a message that names device, kernel,
 * node, element, what was expected and what came (a kernel only where one is at fault). Prints what is not so; `say`: always. */
bool plants_caught(world *w, const char *fault, const char *where, bool say);

#endif
