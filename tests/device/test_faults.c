/* What can go wrong under a program, on LOCKSTEP_DEVICE: a driver call that fails, memory that is short on the device or on the
 * host, a limit that is exceeded, the device lost in the middle of a run, a broken disk cache. Always an error or the right
 * bits, never a hang or an exit, and what is left can be used. */
#define _GNU_SOURCE
#include "backend/cuda/cuda.h"
#include "backend/vulkan/driver.h"
#include "backend/webgpu/webgpu.h"
#include "base/sha256.h"
#include "engine/session.h"
#include "gpu/internal.h"
#include "support/world.h"
#include <dirent.h>
#include <lockstep/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECONDS = 240 }; /* no test may hang */
static char self[4096];

static const char *device_id(void) {
    const char *id = getenv("LOCKSTEP_DEVICE");
    return id && *id ? id : "sim:2";
}

static bool is(const char *backend) {
    return strncmp(device_id(), backend, strlen(backend)) == 0;
}

/* A contraction, rows reduced, indices that could be out of range: results of n rows. */
enum { MOST = 400, COLUMNS = 24 };
static ls_tensor *graph(ls_session *s, int n) {
    static float x[MOST * 40];
    for (int i = 0; i < MOST * 40; i++) {
        x[i] = (float)(i * 7919 % 251) / 64.0f - 2;
    }
    ls_tensor *a = ls_tensor_from(s, LS_F32, LS_SHAPE(n, 40), x), *b = ls_tensor_from(s, LS_F32, LS_SHAPE(40, COLUMNS), x + 11);
    ls_tensor *y = ls_softmax(s, ls_matmul(s, a, b), 1);
    ls_tensor *index = ls_rem(s, ls_iota(s, LS_I32, LS_SHAPE(n), 0), ls_full(s, LS_I32, LS_SHAPE(n), 5));
    return ls_add(s, y, ls_gather(s, y, index, 0));
}

static ls_status compute(world *w, int n, float *out) {
    ls_tensor *y = graph(w->session, n);
    return y ? ls_read(w->session, y, out, sizeof(float) * (size_t)n * COLUMNS) : ls_session_error(w->session)->code;
}

static float got[MOST * COLUMNS], want[MOST * COLUMNS];

static void right(world *w, world *ref, int n) {
    memset(got, 0xcc, sizeof got);
    world_ok(w, compute(w, n, got));
    world_ok(ref, compute(ref, n, want));
    assert_memory_equal(got, want, sizeof(float) * (size_t)n * COLUMNS);
}

/* ---- every call of the driver fails once ---- */

static ls_gpu_api real, broken;
static int calls, fail_at;
static ls_status fail_with;

static bool fails(void) {
    return calls++ == fail_at;
}
#define FAIL_OR(name, ...) return fails() ? LS_FAIL(err, fail_with, "planted") : real.name(__VA_ARGS__)

static ls_status a_block_new(void *d, size_t size, void **out, ls_error *err) { FAIL_OR(block_new, d, size, out, err); }
static ls_status a_write(void *d, void *block, size_t at, const void *data, size_t size, ls_error *err) {
    FAIL_OR(write, d, block, at, data, size, err);
}
static ls_status a_read(void *d, void *block, size_t at, void *data, size_t size, ls_error *err) {
    FAIL_OR(read, d, block, at, data, size, err);
}
static ls_status a_copy(void *d, void *to, size_t to_at, void *from, size_t from_at, size_t size, ls_error *err) {
    FAIL_OR(copy, d, to, to_at, from, from_at, size, err);
}
static ls_status a_build(void *d, const ls_gpu_code *code, void **out, ls_error *err) { FAIL_OR(build, d, code, out, err); }
static ls_status a_dispatch(void *d, const ls_gpu_dispatch *dispatch, ls_error *err) { FAIL_OR(dispatch, d, dispatch, err); }
static ls_status a_flush(void *d, uint64_t *out, ls_error *err) { FAIL_OR(flush, d, out, err); }
static ls_status a_wait(void *d, uint64_t ticket, int blocking, int *out, ls_error *err) {
    FAIL_OR(wait, d, ticket, blocking, out, err);
}

static void each_driver_call_fails_once(void **state) {
    (void)state;
    static const ls_status with[] = {LS_ERR_MEMORY, LS_ERR_INTERNAL};
    world w = world_open(device_id()), ref = world_open("cpu");
    ls_gpu *gpu = w.device->state;
    const ls_gpu_api *own = gpu->api;
    int failed = 0, n = 0;
    real = broken = *own;
    broken.block_new = a_block_new;
    broken.write = a_write;
    broken.read = a_read;
    broken.copy = a_copy;
    broken.build = a_build;
    broken.dispatch = a_dispatch;
    broken.flush = a_flush;
    broken.wait = a_wait;
    for (bool met = true; met; n++) {
        gpu->api = &broken;
        calls = 0;
        fail_at = n;
        fail_with = with[n % 2];
        memset(got, 0xcc, sizeof got);
        ls_status status = compute(&w, 20 + n, got); /* a new size: compiled anew */
        met = calls > n;
        gpu->api = own;
        if (status != LS_OK) {
            assert_int_equal(status, fail_with);
            assert_non_null(strstr(ls_session_error(w.session)->message, "planted"));
            ls_session_clear_error(w.session);
            failed++;
        } else {
            world_ok(&ref, compute(&ref, 20 + n, want));
            assert_memory_equal(got, want, sizeof(float) * (size_t)(20 + n) * COLUMNS);
        }
        if (met) {
            right(&w, &ref, 20 + n);
        }
    }
    printf("%s: %d driver calls, %d failures seen\n", w.id, n, failed);
    assert_true(failed >= 8);
    world_close(&w);
    world_close(&ref);
}

/* ---- memory of the host ---- */

static void each_allocation_fails_once(void **state) {
    (void)state;
    world w = world_open(device_id()), ref = world_open("cpu");
    int failed = 0, n = 20;
    bool reached = true;
    for (long after = 0; reached && n < MOST; after += 1 + after / 6, n++) {
        atomic_store(&w.context->heap.fail_after, after);
        ls_status status = compute(&w, n, got);
        reached = atomic_load(&w.context->heap.fail_after) < 0;
        atomic_store(&w.context->heap.fail_after, -1);
        if (status != LS_OK) {
            assert_int_equal(status, LS_ERR_MEMORY);
            assert_true(ls_session_error(w.session)->message[0]);
            ls_session_clear_error(w.session);
            failed++;
        }
        if (n % 4 == 0 || !reached) {
            right(&w, &ref, n);
        }
    }
    assert_false(reached);
    assert_true(failed >= 10);
    world_close(&w);
    world_close(&ref);
}

/* ---- limits ---- */

static void limits_are_looked_at_before_a_launch(void **state) {
    (void)state;
    world w = world_open(device_id()), ref = world_open("cpu");
    ls_gpu *gpu = w.device->state;
    const ls_gpu_limits own = gpu->limits;
    ls_gpu_limits tight[] = {own, own, own, own, own, own, own};
    tight[0].max_shared = 16;
    tight[1].max_threads = 2;
    tight[2].max_bindings = 1;
    tight[3].max_bindings = 2;
    tight[4].max_words = -1;
    tight[5].max_groups = 1;
    tight[6].max_binding = 64;
    int refused = 0;
    for (size_t i = 0; i < sizeof tight / sizeof *tight; i++) {
        int n = 30 + (int)i;
        gpu->limits = tight[i];
        memset(got, 0xcc, sizeof got);
        ls_status status = compute(&w, n, got);
        gpu->limits = own;
        if (status == LS_OK) {
            world_ok(&ref, compute(&ref, n, want));
            assert_memory_equal(got, want, sizeof(float) * (size_t)n * COLUMNS);
        } else {
            const char *message = ls_session_error(w.session)->message;
            if (status != LS_ERR_UNSUPPORTED || !strstr(message, ls_device_id(w.device))) {
                fail_msg("limit %zu: %s: %s", i, ls_status_name(status), message);
            }
            ls_session_clear_error(w.session);
            refused++;
        }
        right(&w, &ref, n);
    }
    printf("%s: %d of %zu limits refused\n", w.id, refused, sizeof tight / sizeof *tight);
    assert_true(refused >= 3);
    world_close(&w);
    world_close(&ref);
}

/* ---- a device that is lost ---- */

/* As when the driver says so: what it still runs, it ends first. */
static VkDevice vulkan_device;
static VkResult (*vulkan_idle)(VkDevice);
static VkResult lost_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *submits, VkFence fence) {
    (void)queue, (void)n, (void)submits, (void)fence;
    vulkan_idle(vulkan_device);
    return VK_ERROR_DEVICE_LOST;
}
static VkResult lost_wait(VkDevice dev, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t timeout) {
    (void)n, (void)fences, (void)all, (void)timeout;
    vulkan_idle(dev);
    return VK_ERROR_DEVICE_LOST;
}
static ls_cu_result (*cuda_idle)(ls_cu_stream);
static ls_cu_stream cuda_stream;
static ls_cu_result lost_launch(ls_cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                unsigned shared, ls_cu_stream stream, void **params, void **extra) {
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)params, (void)extra;
    cuda_idle(stream);
    return 719;
}
static ls_cu_result lost_event(ls_cu_event event) {
    (void)event;
    cuda_idle(cuda_stream);
    return 700;
}

/* false: this device cannot be lost in so many ways. */
static bool lose(ls_gpu *gpu, int way) {
    if (is("vulkan") && way < 2) {
        vk_driver *d = gpu->driver;
        vulkan_device = d->dev;
        vulkan_idle = d->vkDeviceWaitIdle;
        if (way == 0) {
            d->vkQueueSubmit = lost_submit;
        } else {
            d->vkWaitForFences = lost_wait;
        }
        return true;
    }
    if (is("cuda") && way < 2) {
        ls_cuda *c = gpu->driver;
        cuda_idle = c->api.stream_synchronize;
        cuda_stream = c->stream;
        if (way == 0) {
            c->api.launch = lost_launch;
        } else {
            c->api.event_synchronize = lost_event;
        }
        return true;
    }
    if (is("webgpu") && way < 1) {
        ls_webgpu_lose(gpu->driver);
        return true;
    }
    return false;
}

static void a_lost_device_is_an_error(void **state) {
    (void)state;
    world ref = world_open("cpu");
    int ways = 0;
    for (int way = 0; way < 2; way++) {
        world w = world_open(device_id());
        ls_device *cpu;
        ls_error err = {.code = LS_OK};
        assert_int_equal(ls_device_open(w.context, "cpu", &cpu, &err), LS_OK);
        right(&w, &ref, 20);
        ls_program *program;
        ls_tensor *y = graph(w.session, 21);
        void *out = got;
        world_ok(&w, ls_program_compile(w.session, NULL, 0, &y, 1, &program));
        ls_program_set_profile(program, 1);
        world_ok(&w, ls_program_run(program, NULL, &out));
        if (!lose(w.device->state, way)) {
            ls_program_destroy(program);
            world_close(&w);
            continue;
        }
        ways++;
        ls_status status = ls_program_run(program, NULL, &out);
        assert_int_equal(status, LS_ERR_DEVICE);
        printf("%s: %s\n", w.id, ls_session_error(w.session)->message);
        ls_session_clear_error(w.session);
        for (int again = 0; again < 2; again++) { /* and stays one */
            assert_int_equal(ls_program_run(program, NULL, &out), LS_ERR_DEVICE);
            assert_non_null(strstr(ls_session_error(w.session)->message, "lost"));
            ls_session_clear_error(w.session);
            assert_int_equal(compute(&w, 22, got), LS_ERR_DEVICE);
            ls_session_clear_error(w.session);
        }
        ls_session *other; /* the context's other devices know nothing of it */
        assert_int_equal(ls_session_create(w.context, cpu, &other, &err), LS_OK);
        world beside = {.id = "cpu", .context = w.context, .device = cpu, .session = other};
        right(&beside, &ref, 23);
        ls_session_destroy(other);
        ls_program_destroy(program);
        world_close(&w);
        w = world_open(device_id()); /* opened anew it computes */
        right(&w, &ref, 20);
        world_close(&w);
    }
    world_close(&ref);
    if (!ways) {
        print_message("skipped: nothing loses %s\n", device_id());
        skip();
    }
}

/* ---- the disk cache, from one process to the next ---- */

typedef struct counts {
    unsigned compiled, cached, vetted, verdicts;
    char hash[65];
} counts;

/* What `self count` runs. */
static int count(void) {
    world w = world_open(device_id());
    char hex[65];
    ls_sha256 sha;
    ls_sha256_init(&sha);
    world_ok(&w, compute(&w, 33, got));
    ls_sha256_add(&sha, got, sizeof(float) * 33 * COLUMNS);
    ls_sha256_hex(&sha, hex);
    ls_device_work work = ls_device_get_work(w.device);
    printf("counts %u %u %u %u %s\n", (unsigned)work.compiled, (unsigned)work.cached, (unsigned)work.vetted,
           (unsigned)work.verdicts, hex);
    world_close(&w);
    return 0;
}

static counts process(void) {
    char command[4200], line[512];
    counts c = {.compiled = UINT32_MAX};
    snprintf(command, sizeof command, "'%s' count", self);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        (void)!sscanf(line, "counts %u %u %u %u %64s", &c.compiled, &c.cached, &c.vetted, &c.verdicts, c.hash);
    }
    assert_int_equal(pclose(f), 0);
    assert_int_not_equal(c.compiled, UINT32_MAX);
    return c;
}

/* Drivers on processors whose pipeline caches are empty: there is nothing to find. */
static bool keeps_nothing(void) {
    world w = world_open(device_id());
    const char *name = ls_device_caps(w.device)->name;
    bool empty = is("sim") || (is("vulkan") && (strstr(name, "llvmpipe") || strstr(name, "SwiftShader")));
    world_close(&w);
    return empty;
}

static char folder[64];
static int own_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/lockstep-faults-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("LOCKSTEP_CACHE", folder, 1);
    setenv("LOCKSTEP_VET", "on", 1);
    return 0;
}
static int no_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    setenv("LOCKSTEP_CACHE", "off", 1);
    setenv("LOCKSTEP_VET", "off", 1);
    return system(command);
}

static void a_second_process_compiles_nothing(void **state) {
    (void)state;
    bool empty = keeps_nothing();
    counts first = process(), second = process();
    printf("%s: %u compiled, %u vetted; then %u compiled, %u cached, %u vetted, %u verdicts found\n", device_id(), first.compiled,
           first.vetted, second.compiled, second.cached, second.vetted, second.verdicts);
    assert_string_equal(first.hash, second.hash);
    assert_true(first.compiled + first.cached >= 3);
    assert_int_equal(first.compiled + first.cached, second.compiled + second.cached);
    assert_int_equal(second.compiled, empty ? first.compiled : 0);
    assert_true(first.vetted > 0);
    assert_int_equal(second.vetted, 0);
    assert_int_equal(second.verdicts, first.vetted + first.verdicts);
}

/* Breaks every entry in the way number `way`; how many there were. */
static int break_all(int way) {
    char path[600];
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.' || stat(path, &st) || !S_ISREG(st.st_mode)) {
            continue;
        }
        long at = way == 0 ? 3 : way == 1 ? 10 : way == 2 ? 40 : (long)st.st_size - 1; /* magic, size, digest, last byte */
        n++;
        if (way < 4) {
            FILE *f = fopen(path, "r+b");
            fseek(f, at, SEEK_SET);
            int c = fgetc(f);
            fseek(f, at, SEEK_SET);
            fputc(c ^ 0x10, f);
            fclose(f);
        } else if (way < 7) {
            assert_int_equal(truncate(path, way == 4 ? 0 : way == 5 ? 50 : st.st_size / 2), 0);
        } else {
            assert_int_equal(unlink(path), 0);
            assert_int_equal(way == 7 ? mkdir(path, 0700) : mkfifo(path, 0600), 0);
        }
    }
    closedir(d);
    return n;
}

static void a_broken_cache_is_made_again(void **state) {
    (void)state;
    counts sound = process();
    for (int way = 0; way < 9; way++) {
        int broken_entries = break_all(way);
        assert_true(broken_entries > 0);
        counts after = process();
        printf("%s: way %d: %d entries; %u compiled, %u vetted\n", device_id(), way, broken_entries, after.compiled, after.vetted);
        assert_string_equal(after.hash, sound.hash);
        assert_int_equal(after.compiled, sound.compiled); /* nothing of it was believed */
        assert_int_equal(after.vetted, sound.vetted);
        if (way == 7) { /* nothing can take the place of a folder: the next way needs files again */
            char command[128];
            snprintf(command, sizeof command, "rm -r '%s'/*", folder);
            assert_int_equal(system(command), 0);
            (void)process();
        }
    }
    assert_int_equal(chmod(folder, 0777), 0); /* not its owner's alone any more: not used, and not a reason to fail */
    counts after = process();
    assert_string_equal(after.hash, sound.hash);
    assert_int_equal(after.compiled, sound.compiled);
    assert_int_equal(chmod(folder, 0700), 0);
}

static int setup(void **state) {
    (void)state;
    alarm(SECONDS);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "count") == 0) {
        return count();
    }
    cmocka_set_test_filter(argc == 2 ? argv[1] : NULL); /* a pattern of names */
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    setenv("LOCKSTEP_CACHE", "off", 1);
    setenv("LOCKSTEP_VET", "off", 1);
    setup(NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_driver_call_fails_once, setup),
        cmocka_unit_test_setup(each_allocation_fails_once, setup),
        cmocka_unit_test_setup(limits_are_looked_at_before_a_launch, setup),
        cmocka_unit_test_setup(a_lost_device_is_an_error, setup),
        cmocka_unit_test_setup_teardown(a_second_process_compiles_nothing, own_folder, no_folder),
        cmocka_unit_test_setup_teardown(a_broken_cache_is_made_again, own_folder, no_folder),
    };
    return n <= 0 ? 1 : cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
