/* A context and a session on a device, for tests. */
#ifndef LOCKSTEP_TESTS_SUPPORT_WORLD_H
#define LOCKSTEP_TESTS_SUPPORT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <lockstep/device.h>
#include <lockstep/grad.h>
#include <lockstep/ops.h>
#include <lockstep/verify.h>

typedef struct world {
    const char *id;
    ls_context *context;
    ls_device *device;
    ls_session *session;
} world;

/* The device under test: LOCKSTEP_DEVICE, else "cpu". */
const char *world_device(void);
/* Fails the test when it cannot be had. */
world world_open(const char *device);
world world_open_with(const char *device, int threads, const char *isa);
void world_close(world *w);
/* Fails the test with the session's message unless status is LS_OK. */
void world_ok(world *w, ls_status status);

#endif
