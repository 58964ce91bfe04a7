/* A device that can be made wrong, said to be slow, and counted. */
#define _GNU_SOURCE
#include "support/planted.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

planted_device planted;

static ls_status compile(ls_device *device, const ls_spec *spec, const char *strategy, ls_kernel_binary **out_binary,
                         ls_error *err) {
    ls_arena arena;
    ls_spec copy;
    const char *name = strategy ? strategy : "";
    if (planted.refused && strcmp(name, planted.refused) == 0) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "not available here: the test took it away");
    }
    ls_arena_init(&arena, device->heap);
    ls_status status = ls_spec_copy(&arena, spec, &copy, err);
    if (status == LS_OK && planted.fault) {
        planted.fault(&copy, name);
    }
    status = status == LS_OK ? planted.real->compile(device, &copy, strategy, out_binary, err) : status;
    ls_arena_free(&arena);
    if (status == LS_OK) {
        int at = planted.n_made++ % PLANTED_BINARIES;
        planted.made[at].binary = *out_binary;
        snprintf(planted.made[at].strategy, LS_STRATEGY_MAX, "%s", name);
        snprintf(planted.last, LS_STRATEGY_MAX, "%s", name);
    }
    return status;
}

static ls_status launch(ls_device *device, ls_kernel_binary *binary, ls_launch *l, ls_error *err) {
    const char *strategy = "";
    int n = planted.n_made;
    for (int i = n - 1; i >= 0 && i >= n - PLANTED_BINARIES; i--) { /* addresses are used again: the latest counts */
        if (planted.made[i % PLANTED_BINARIES].binary == binary) {
            strategy = planted.made[i % PLANTED_BINARIES].strategy;
            break;
        }
    }
    planted.launches++;
    if (l->profile) {
        l->profile->nanoseconds += planted.takes(strategy);
    }
    return planted.real->launch(device, binary, l, err);
}

static uint64_t even(const char *strategy) {
    (void)strategy;
    return 4000000;
}

void planted_on(ls_device *device) {
    planted.real = device->backend;
    planted.table = *planted.real;
    planted.table.compile = compile;
    planted.table.launch = launch;
    planted.fault = NULL;
    planted.takes = even;
    planted.refused = NULL;
    planted.launches = planted.n_made = 0;
    planted.last[0] = 0;
    device->backend = &planted.table;
    device->clock = "planted";
}

void planted_cache_open(void) {
    strcpy(planted.folder, "/tmp/lockstep-planted-XXXXXX");
    assert_non_null(mkdtemp(planted.folder));
    setenv("LOCKSTEP_CACHE", planted.folder, 1);
}

void planted_cache_close(void) {
    uint64_t n;
    assert_int_equal(ls_cache_clear(&n, NULL), LS_OK);
    assert_int_equal(rmdir(planted.folder), 0);
}
