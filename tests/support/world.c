#include "support/world.h"
#include <stdlib.h>
#include <string.h>

const char *world_device(void) {
    const char *id = getenv("LOCKSTEP_DEVICE");
    return id && *id ? id : "cpu";
}

world world_open_with(const char *device, int threads, const char *isa) {
    world w = {.id = device};
    ls_error err = {.code = LS_OK};
    ls_context_options options = {.threads = threads, .isa = isa};
    if (ls_context_create(&options, &w.context, &err) != LS_OK || ls_device_open(w.context, device, &w.device, &err) != LS_OK ||
        ls_session_create(w.context, w.device, &w.session, &err) != LS_OK) {
        fail_msg("%s: %s", device, err.message);
    }
    return w;
}

world world_open(const char *device) {
    return world_open_with(device, 0, NULL);
}

void world_close(world *w) {
    ls_session_destroy(w->session);
    ls_context_destroy(w->context);
    memset(w, 0, sizeof *w);
}

void world_ok(world *w, ls_status status) {
    if (status != LS_OK) {
        fail_msg("%s: %s: %s", w->id, ls_status_name(status), ls_session_error(w->session)->message);
    }
}
