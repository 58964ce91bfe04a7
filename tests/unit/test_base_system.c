/* The parts of base that meet the machine: threads, floating-point state, files. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/numerics.h"
#include "base/os.h"
#include "base/thread.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* ---- threads ---- */

typedef struct job {
    ls_pool *pool;
    long n;
    int *hits;        /* one a task */
    long *worker_sum; /* one a worker: two tasks of one worker never overlap */
    int nested;
} job;

static void hit(void *ctx, long task, int worker) {
    job *j = ctx;
    j->hits[task]++;
    j->worker_sum[worker] += task;
}

static void run_job(ls_pool *pool, long n) {
    job j = {pool, n, calloc((size_t)n, sizeof(int)), calloc(64, sizeof(long)), 0};
    ls_pool_run(pool, n, hit, &j);
    long sum = 0;
    for (int i = 0; i < 64; i++) {
        assert_true(i < ls_pool_threads(pool) || !j.worker_sum[i]);
        sum += j.worker_sum[i];
    }
    for (long i = 0; i < n; i++) {
        assert_int_equal(j.hits[i], 1);
    }
    assert_int_equal(sum, n * (n - 1) / 2);
    free(j.hits);
    free(j.worker_sum);
}

static void pool_runs_each_task_once(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    static const int counts[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) {
        ls_pool *pool = ls_pool_create(&heap, counts[i]);
        assert_non_null(pool);
        assert_int_equal(ls_pool_threads(pool), counts[i]);
        static const long sizes[] = {1, 2, 7, 1000};
        for (int k = 0; k < 4; k++) {
            run_job(pool, sizes[k]);
        }
        ls_pool_run(pool, 0, hit, NULL);
        ls_pool_destroy(pool);
    }
    ls_pool *all = ls_pool_create(&heap, 0);
    assert_int_equal(ls_pool_threads(all), ls_os_cores());
    ls_pool_destroy(all);
    atomic_store(&heap.fail_after, 0);
    assert_null(ls_pool_create(&heap, 2));
    assert_int_equal(atomic_load(&heap.used), 0);
}

/* Batches that come at once, while workers look for one, while they fall asleep and when they sleep. What a batch is made of is gone
 * after it: whoever is late finds a task number that no batch has. */
static void pool_batches_follow_at_any_distance(void **state) {
    (void)state;
    enum { BATCHES = 8000 };
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    for (int threads = 2; threads <= 4; threads++) {
        ls_pool *pool = ls_pool_create(&heap, threads);
        uint32_t bits = (uint32_t)threads;
        for (int i = 0; i < BATCHES; i++) {
            bits = bits * 1664525u + 1013904223u;
            int hits[9] = {0};
            long sums[4] = {0}, n = 1 + (long)(bits >> 16) % 9;
            job j = {pool, n, hits, sums, 0};
            ls_pool_run(pool, n, hit, &j);
            for (int k = 0; k < 9; k++) {
                assert_int_equal(hits[k], k < n);
            }
            j = (job){0};
            if (bits >> 8 & 1) { /* up to 0.5 ms */
                uint64_t until = ls_os_nanoseconds() + ((bits >> 9) % 64 ? (bits >> 9) % 1000 : (bits >> 3) % 500000);
                while (ls_os_nanoseconds() < until) {
                }
            }
        }
        ls_pool_destroy(pool);
    }
}

/* Two that each say something and then look: one of them at least has to see what the other said. Pools sleep by that. (With atomic_store
 * instead of an exchange it fails under qemu-aarch64 7.2.) */
typedef struct sayings {
    _Alignas(64) _Atomic int first;
    _Alignas(64) _Atomic int second;
    _Alignas(64) _Atomic int round;
    _Alignas(64) _Atomic int done;
    int seen;
} sayings;

enum { SAYINGS = 50000 };

static void await_round(_Atomic int *at, int round) {
    for (int look = 1; atomic_load_explicit(at, memory_order_acquire) != round; look++) {
        (void)(look % 1000 == 0 && sched_yield());
    }
}

static void *say_second(void *ctx) {
    sayings *s = ctx;
    for (int round = 1; round <= SAYINGS; round++) {
        await_round(&s->round, round);
        atomic_fetch_add(&s->second, 1);
        s->seen = atomic_load(&s->first);
        atomic_store_explicit(&s->done, round, memory_order_release);
    }
    return NULL;
}

static void what_is_said_before_looking_is_seen(void **state) {
    (void)state;
    static sayings s;
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, say_second, &s), 0);
    int unseen = 0;
    for (int round = 1; round <= SAYINGS; round++) {
        atomic_store(&s.first, 0);
        atomic_store(&s.second, 0);
        atomic_store_explicit(&s.round, round, memory_order_release);
        (void)atomic_exchange(&s.first, 1);
        int seen = atomic_load(&s.second);
        await_round(&s.done, round);
        unseen += !seen && !s.seen;
    }
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(unseen, 0);
}

typedef struct shares {
    _Atomic int done;
    long first[2], hits[8]; /* of a worker, plus one; of a task */
} shares;

/* Task 0 waits for all others, so whoever has it leaves the rest of its part to the other. */
static void take(void *ctx, long task, int worker) {
    shares *s = ctx;
    s->first[worker] = s->first[worker] ? s->first[worker] : task + 1;
    s->hits[task]++;
    while (task == 0 && atomic_load(&s->done) < 7) {
        sched_yield();
    }
    atomic_fetch_add(&s->done, 1);
}

static void pool_workers_keep_their_part_and_help_with_others(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_pool *pool = ls_pool_create(&heap, 2);
    for (int round = 0; round < 50; round++) {
        shares s = {0};
        ls_pool_run(pool, 8, take, &s);
        assert_int_equal(s.first[1], 4 + 1);
        for (int i = 0; i < 8; i++) {
            assert_int_equal(s.hits[i], 1);
        }
    }
    ls_pool_destroy(pool);
}

/* Workers that begin, look for a batch or fall asleep while the pool ends: none may wait for ever. */
static void pools_end_at_any_moment(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    for (int i = 0; i < 4000; i++) {
        ls_pool *pool = ls_pool_create(&heap, 2 + i % 3);
        run_job(pool, 2 + i % 7);
        uint64_t until = ls_os_nanoseconds() + (uint64_t)(i % 50 * 2000); /* looking for the next batch takes them 20 us */
        while (ls_os_nanoseconds() < until) {
        }
        ls_pool_destroy(pool);
    }
}

typedef struct nest {
    ls_pool *pool;
    int cells[8][16];
    int workers[8][16];
    int task_worker[8];
} nest;

typedef struct nest_row {
    nest *n;
    long row;
} nest_row;

static void nest_inner(void *ctx, long task, int worker) {
    nest_row *r = ctx;
    r->n->cells[r->row][task]++;
    r->n->workers[r->row][task] = worker;
}

static void nest_outer(void *ctx, long task, int worker) {
    nest *n = ctx;
    nest_row row = {n, task};
    n->task_worker[task] = worker;
    ls_pool_run(n->pool, 16, nest_inner, &row);
}

static void pool_nests_in_place(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    nest n = {.pool = ls_pool_create(&heap, 3)};
    ls_pool_run(n.pool, 8, nest_outer, &n);
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 16; k++) {
            assert_int_equal(n.cells[i][k], 1);
            assert_int_equal(n.workers[i][k], n.task_worker[i]);
        }
    }
    ls_pool_destroy(n.pool);
}

typedef struct shared_total {
    ls_pool *pool;
    ls_mutex *mutex;
    long total;
} shared_total;

static void add_locked(void *ctx, long task, int worker) {
    shared_total *s = ctx;
    (void)worker;
    ls_mutex_lock(s->mutex);
    s->total += task;
    ls_mutex_unlock(s->mutex);
}

static void *caller(void *ctx) {
    shared_total *s = ctx;
    for (int i = 0; i < 50; i++) {
        run_job(s->pool, 40);
        for (int k = 0; k < 100; k++) {
            (void)ls_pool_would_be_near(s->pool);
        }
        ls_pool_run(s->pool, 20, add_locked, s);
    }
    return NULL;
}

static void pool_takes_calls_from_several_threads(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    shared_total s = {ls_pool_create(&heap, 3), ls_mutex_create(&heap), 0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, caller, &s), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(s.total, 4 * 50 * 190);
    ls_mutex_destroy(&heap, s.mutex);
    ls_pool_destroy(s.pool);
    assert_int_equal(atomic_load(&heap.used), 0);
}

static int threads_of_process(void) {
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        n += e->d_name[0] != '.';
    }
    if (tasks) {
        closedir(tasks);
    }
    return n;
}

/* Without a batch, workers are only there once it has been tried how soon they come. */
static void pool_tries_workers_after_many_questions(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    const int before = threads_of_process();
    for (int threads = 1; threads <= ls_os_cores() + 1; threads += ls_os_cores()) { /* alone, and more than cores */
        ls_pool *pool = ls_pool_create(&heap, threads);
        for (int i = 0; i < 20000; i++) {
            assert_false(ls_pool_would_be_near(pool));
        }
        assert_int_equal(threads_of_process(), before);
        ls_pool_destroy(pool);
    }
    if (ls_os_cores() < 2 || before == 0) {
        skip();
    }
    ls_pool *pool = ls_pool_create(&heap, 2);
    assert_false(ls_pool_would_be_near(pool));
    assert_int_equal(threads_of_process(), before);
    for (int i = 0; i < 1024; i++) {
        (void)ls_pool_would_be_near(pool);
    }
    assert_int_equal(threads_of_process(), before + 1);
    assert_int_equal(ls_pool_would_be_near(pool), ls_pool_is_near(pool));
    run_job(pool, 40);
    ls_pool_destroy(pool);
    assert_int_equal(atomic_load(&heap.used), 0);
}

static void *churn(void *ctx) {
    ls_heap *heap = ctx;
    for (int i = 0; i < 2000; i++) {
        void *p = ls_alloc(heap, (size_t)i);
        ls_free(heap, p);
    }
    return NULL;
}

static void heap_counts_across_threads(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &heap), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(atomic_load(&heap.used), 0);
    assert_true(atomic_load(&heap.peak) >= 2000);
}

/* ---- floating-point state ---- */

static volatile float tiny = 0x1p-126f, half = 0.5f, one = 1.0f, ulp_part = 0x1p-30f;

static void check_contract(void) {
    volatile float subnormal = tiny * half;
    assert_true(subnormal == 0x1p-127f); /* no flush to zero */
    volatile float back = subnormal * 2.0f;
    assert_true(back == tiny); /* subnormals count as inputs */
    volatile float up = one + ulp_part, down = -one - ulp_part;
    assert_true(up == 1.0f && down == -1.0f); /* to nearest */
}

static void contract_task(void *ctx, long task, int worker) {
    (void)ctx;
    (void)task;
    (void)worker;
    check_contract();
}

static void numerics_guard(void **state) {
    (void)state;
#if defined(__SSE__)
    const unsigned before = _mm_getcsr();
    /* round up, flush to zero, denormals are zero, one sticky flag; then also a trap for division by zero */
    static const unsigned hosts[] = {0x1f80 | 0x4000 | 0x8000 | 0x40 | 0x20, 0x1f80 | 0x6000,
                                     0x1d80 | 0x2000};
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    for (int threads = 1; threads <= 3; threads++) {
        ls_pool *pool = ls_pool_create(&heap, threads);
        for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
            _mm_setcsr(hosts[i]);
            ls_numerics outer = ls_numerics_enter();
            check_contract();
            ls_numerics inner = ls_numerics_enter();
            volatile float zero = 0, infinity = one / zero; /* masked inside */
            (void)infinity;
            ls_numerics_leave(inner);
            check_contract();
            ls_numerics_leave(outer);
            unsigned after = _mm_getcsr();
            ls_pool_run(pool, 20, contract_task, NULL);
            unsigned after_pool = _mm_getcsr();
            _mm_setcsr(before);
            assert_int_equal(after, hosts[i]);
            assert_int_equal(after_pool, hosts[i]);
        }
        ls_pool_destroy(pool);
    }
#elif defined(__aarch64__)
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    static const uint64_t hosts[] = {UINT64_C(1) << 24 | UINT64_C(1) << 22, UINT64_C(3) << 22}; /* flush, up; to zero */
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_pool *pool = ls_pool_create(&heap, 2);
    assert_non_null(pool);
    for (size_t i = 0; i < 2; i++) {
        uint64_t after, after_pool;
        __asm__ volatile("msr fpcr, %0" : : "r"(hosts[i]));
        ls_numerics outer = ls_numerics_enter();
        check_contract();
        ls_numerics_leave(outer);
        __asm__ volatile("mrs %0, fpcr" : "=r"(after));
        ls_pool_run(pool, 20, contract_task, NULL);
        __asm__ volatile("mrs %0, fpcr" : "=r"(after_pool));
        __asm__ volatile("msr fpcr, %0" : : "r"(before));
        assert_true(after == hosts[i] && after_pool == hosts[i]);
    }
    ls_pool_destroy(pool);
#else
    ls_numerics outer = ls_numerics_enter();
    contract_task(NULL, 0, 0);
    ls_numerics_leave(outer);
#endif
}

/* ---- files ---- */

static char folder[] = "/tmp/lockstep-base-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[4][300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static int folder_setup(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_entries(int remove_all) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            n++;
            if (remove_all) {
                remove(in_folder(e->d_name));
            }
        }
    }
    closedir(dir);
    return n;
}

static int folder_teardown(void **state) {
    (void)state;
    folder_entries(1);
    return rmdir(folder);
}

static ls_status write_file(ls_heap *heap, const char *path, const char *text, size_t times, ls_error *err) {
    ls_file_writer *writer;
    ls_status status = ls_file_create(heap, path, &writer, err);
    if (status != LS_OK) {
        assert_null(writer);
        return status;
    }
    for (size_t i = 0; i < times; i++) {
        status = ls_file_write(writer, text, strlen(text), err);
        if (status != LS_OK) {
            ls_file_abandon(writer);
            return status;
        }
    }
    return ls_file_commit(writer, err);
}

static void assert_file(const char *path, const char *text, size_t times) {
    ls_mapping map;
    ls_error err = {0};
    assert_int_equal(ls_file_map(path, &map, &err), LS_OK);
    size_t len = strlen(text);
    assert_int_equal(map.size, len * times);
    for (size_t i = 0; i < times; i++) {
        assert_memory_equal(map.data + i * len, text, len);
    }
    ls_file_unmap(&map);
    assert_null(map.data);
}

static void files_write_and_map(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_error err = {0};
    const char *path = in_folder("a");
    assert_int_equal(write_file(&heap, path, "first", 1, &err), LS_OK);
    assert_file(path, "first", 1);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(write_file(&heap, path, "seventeen letters", 20000, &err), LS_OK);
    assert_file(path, "seventeen letters", 20000);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(write_file(&heap, in_folder("empty"), "", 1, &err), LS_OK);
    assert_file(in_folder("empty"), "", 1);
    /* through a link: the link stays, its file changes */
    assert_int_equal(symlink("a", in_folder("link")), 0);
    assert_int_equal(write_file(&heap, in_folder("link"), "linked", 1, &err), LS_OK);
    assert_int_equal(lstat(in_folder("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_file(path, "linked", 1);
    /* abandoned: as before, nothing left over */
    ls_file_writer *writer;
    assert_int_equal(ls_file_create(&heap, path, &writer, &err), LS_OK);
    assert_int_equal(ls_file_write(writer, "x", 1, &err), LS_OK);
    ls_file_abandon(writer);
    ls_file_abandon(NULL);
    assert_file(path, "linked", 1);
    assert_int_equal(folder_entries(0), 3);
    assert_int_equal(atomic_load(&heap.used), 0);
    assert_int_equal(err.code, LS_OK);
}

static void files_fail_clearly(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_error err = {0};
    ls_mapping map;
    char want[400];
    assert_int_equal(ls_file_map(in_folder("none"), &map, &err), LS_ERR_IO);
    snprintf(want, sizeof want, "cannot open %s: No such file or directory", in_folder("none"));
    assert_string_equal(err.message, want);
    ls_error_clear(&err);
    assert_int_equal(ls_file_map(folder, &map, &err), LS_ERR_IO);
    assert_non_null(strstr(err.message, "Is a directory"));
    ls_error_clear(&err);
    assert_int_equal(write_file(&heap, folder, "x", 1, &err), LS_ERR_IO);
    assert_non_null(strstr(err.message, "Is a directory"));
    ls_error_clear(&err);
    assert_int_equal(write_file(&heap, in_folder("no/such"), "x", 1, &err), LS_ERR_IO);
    assert_non_null(strstr(err.message, "No such file or directory"));
    ls_error_clear(&err);
    assert_int_equal(write_file(&heap, "/dev/full", "x", 1, &err), LS_ERR_IO);
    assert_string_equal(err.message, "cannot write /dev/full: No space left on device");
    ls_error_clear(&err);
    for (long n = 0; n < 4; n++) {
        atomic_store(&heap.fail_after, n);
        assert_int_equal(write_file(&heap, in_folder("m"), "x", 1, &err), LS_ERR_MEMORY);
        assert_int_equal(access(in_folder("m"), F_OK), -1);
        ls_error_clear(&err);
    }
    assert_int_equal(atomic_load(&heap.used), 0);
}

static void a_full_disk_keeps_the_old_file(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_error err = {0};
    const char *path = in_folder("keep");
    assert_int_equal(write_file(&heap, path, "old", 1, &err), LS_OK);
    int entries = folder_entries(0);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ls_status status = write_file(&heap, path, "new and longer than the limit allows. ", 10000, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, LS_ERR_IO);
    assert_non_null(strstr(err.message, "cannot write "));
    assert_non_null(strstr(err.message, ": File too large"));
    assert_file(path, "old", 1);
    assert_int_equal(folder_entries(0), entries);
    assert_int_equal(atomic_load(&heap.used), 0);
}

static void clocks_and_environment(void **state) {
    (void)state;
    uint64_t a = ls_os_nanoseconds(), b = ls_os_nanoseconds();
    assert_true(b >= a);
    assert_true(ls_os_cores() >= 1);
    setenv("LOCKSTEP_TEST_EMPTY", "", 1);
    setenv("LOCKSTEP_TEST_SET", "v", 1);
    assert_null(ls_os_env("LOCKSTEP_TEST_EMPTY"));
    assert_null(ls_os_env("LOCKSTEP_TEST_NONE"));
    assert_string_equal(ls_os_env("LOCKSTEP_TEST_SET"), "v");
}

static void libraries_open_or_say_why(void **state) {
    (void)state;
    const char *const names[] = {"liblockstep-no-such-library.so", "libm.so.6", NULL}, *reason = NULL;
    ls_os_library *library = ls_os_library_open(names, &reason);
    assert_non_null(library);
    assert_null(reason);
    double (*square_root)(double);
    void *symbol = ls_os_library_symbol(library, "sqrt");
    assert_non_null(symbol);
    memcpy(&square_root, &symbol, sizeof symbol);
    assert_true(square_root(9.0) == 3.0);
    assert_null(ls_os_library_symbol(library, "lockstep_no_such_symbol"));
    ls_os_library_close(library);
    ls_os_library_close(NULL);

    assert_null(ls_os_library_open((const char *const[]){names[0], NULL}, &reason));
    assert_non_null(strstr(reason, names[0]));
    assert_null(ls_os_library_open((const char *const[]){NULL}, NULL));
}

#if defined(__linux__)
typedef struct places {
    cpu_set_t worker; /* where worker 1 may run */
    _Atomic bool met;
} places;

static void look_where(void *ctx, long task, int worker) {
    (void)task;
    places *p = ctx;
    if (worker == 1 && !atomic_load(&p->met)) {
        assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof p->worker, &p->worker), 0);
        atomic_store(&p->met, true);
    }
    for (uint64_t until = ls_os_nanoseconds() + 1000000000; worker == 0 && !atomic_load(&p->met) && ls_os_nanoseconds() < until;) {
        sched_yield();
    }
}

/* Pins the caller to a core, lets the workers fall asleep, and sees where the next batch's worker may run. */
static cpu_set_t worker_beside(ls_pool *pool, int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)core, &one);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    places p = {.met = false};
    for (int round = 0; round < 20 && !p.met; round++) {
        usleep(20000);
        ls_pool_run(pool, 2, look_where, &p);
    }
    assert_true(p.met);
    return p.worker;
}

static void pool_workers_keep_off_their_callers_core(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    cpu_set_t all, found;
    assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) {
        print_message("one core: nothing to keep off\n");
        skip();
    }
    int cores[2], n = 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++) {
        if (CPU_ISSET((unsigned)i, &all)) {
            cores[n++] = i;
        }
    }
    ls_pool *pool = ls_pool_create(&heap, 2);
    places first = {.met = false};
    ls_pool_run(pool, 2, look_where, &first);
    for (int round = 0; round < 4; round++) {
        found = worker_beside(pool, cores[round % 2]);
        CPU_SET((unsigned)cores[round % 2], &found);
        assert_true(CPU_EQUAL(&found, &all));
        found = worker_beside(pool, cores[round % 2]);
        assert_false(CPU_ISSET((unsigned)cores[round % 2], &found));
    }
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof all, &all), 0);
    ls_pool_destroy(pool);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pool_runs_each_task_once),
        cmocka_unit_test(pool_batches_follow_at_any_distance),
        cmocka_unit_test(what_is_said_before_looking_is_seen),
        cmocka_unit_test(pool_workers_keep_their_part_and_help_with_others),
#if defined(__linux__)
        cmocka_unit_test(pool_workers_keep_off_their_callers_core),
#endif
        cmocka_unit_test(pools_end_at_any_moment),
        cmocka_unit_test(pool_nests_in_place),
        cmocka_unit_test(pool_takes_calls_from_several_threads),
        cmocka_unit_test(pool_tries_workers_after_many_questions),
        cmocka_unit_test(heap_counts_across_threads),
        cmocka_unit_test(numerics_guard),
        cmocka_unit_test(files_write_and_map),
        cmocka_unit_test(files_fail_clearly),
        cmocka_unit_test(a_full_disk_keeps_the_old_file),
        cmocka_unit_test(clocks_and_environment),
        cmocka_unit_test(libraries_open_or_say_why),
    };
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
