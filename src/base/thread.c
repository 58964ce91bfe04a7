/* A pool of workers that draw tasks from an atomic counter. The caller is worker 0 and begins at once: a batch waits for
 * tasks that other workers have begun, never for workers that have not come, so a core that is busy elsewhere costs
 * nothing but its help. Workers look for the next batch for a while, since a wake-up takes longer than a small kernel, and
 * then sleep; where they outnumber the cores they sleep at once. Workers that sleep are kept off their caller's core: a system
 * that wakes one there, as those of virtual machines do, runs it after the batch.
 *
 * Invariants: `serial` is held for a whole batch; what describes a batch changes only while `seats` is 0, and a worker reads it only
 * between taking a seat and leaving it. Nobody who is awake needs a lock for that: between two cores that share no cache each
 * costs as much as a small task. Who is about to sleep says so (`sleeping`, `waits`) before it looks a last time, and who has
 * something to tell says it before it looks whether somebody sleeps, both in one order for all threads (seq_cst), and says it by
 * an exchange or a sum: emulators let a load pass a store (docs/devices.md). */
#define _GNU_SOURCE
#include "base/thread.h"
#include "base/numerics.h"
#include "base/os.h"

#if defined(__wasi__) /* WebAssembly without threads: the caller is the only worker */

struct ls_pool {
    ls_heap *heap;
};

struct ls_mutex {
    char nothing;
};

ls_pool *ls_pool_create(ls_heap *heap, int threads) {
    (void)threads;
    ls_pool *pool = ls_alloc(heap, sizeof *pool);
    if (pool) {
        pool->heap = heap;
    }
    return pool;
}

void ls_pool_destroy(ls_pool *pool) {
    if (pool) {
        ls_free(pool->heap, pool);
    }
}

int ls_pool_threads(const ls_pool *pool) {
    (void)pool;
    return 1;
}

bool ls_pool_is_near(const ls_pool *pool) {
    (void)pool;
    return false;
}

bool ls_pool_would_be_near(ls_pool *pool) {
    (void)pool;
    return false;
}

void ls_pool_run(ls_pool *pool, long n, ls_pool_fn fn, void *ctx) {
    (void)pool;
    for (long task = 0; task < n; task++) {
        fn(ctx, task, 0);
    }
}

ls_mutex *ls_mutex_create(ls_heap *heap) {
    return ls_alloc(heap, sizeof(ls_mutex));
}

void ls_mutex_destroy(ls_heap *heap, ls_mutex *mutex) {
    ls_free(heap, mutex);
}

void ls_mutex_lock(ls_mutex *mutex) {
    (void)mutex;
}

void ls_mutex_unlock(ls_mutex *mutex) {
    (void)mutex;
}

#else

#include <pthread.h>
#include <sched.h>

/* Nanoseconds of looking for a batch, or for its end, before sleeping: while batches follow within the longer time, and else. */
enum { LOOK_LONG = 200000, LOOK_SHORT = 20000 };
/* Nanoseconds that a batch of nothing takes: fewer where cores share a cache, more where they do not; how often and after how many batches it is tried. */
enum { NEAR = 400, FAR = 600, LONGEST_TRY = 5000, TRIES = 3, TRY_EVERY = 256 };
/* Nanoseconds that workers get to wake up first where no batch came before, and after how many questions: four times as many each time that
 * they are not near, since all of that is lost then. */
enum { LONGEST_WAKE = 200000, ASK_EVERY = 1024, ASK_SELDOM = 1 << 16 };

struct ls_mutex {
    pthread_mutex_t handle;
};

/* Worker w begins with the w-th of equal parts of a batch, so that what it touched in the last one is still in its caches, and takes
 * from the next parts when its own is empty. */
typedef struct pool_worker {
    ls_pool *pool;
    int number;
    pthread_t thread;
    int away;                       /* the core that was taken from it, -1: none */
    bool often;                     /* the last batch came soon */
    _Alignas(64) _Atomic long next; /* of its part, which others take from too */
    long end;
} pool_worker;

struct ls_pool {
    ls_heap *heap;
    int count, started;   /* workers with the caller; threads that run */
    int core;             /* of the caller at the last wake-up, -1: not all workers know it */
    bool crowded;         /* there are more workers than cores */
    int untried;          /* batches that are left until the next tries */
    int asks;             /* questions until the next tries without a batch */
    _Atomic int unasked;  /* of which so many are left */
    _Atomic bool near;
    pool_worker *workers; /* [count], from 1 */
    pthread_mutex_t serial, lock;
    pthread_cond_t begin, end;
    ls_pool_fn fn;
    void *ctx;
    int parts;
    _Atomic int sleeping;                /* workers; changes under `lock` */
    _Atomic bool stop, waits;            /* all threads end; the caller sleeps until no seat is taken */
    _Alignas(64) _Atomic uint64_t seats; /* of the batch: free ones times FREE_SEAT, and those taken */
    _Atomic unsigned batch;              /* counts them */
};

static const uint64_t FREE_SEAT = UINT64_C(1) << 32;

/* The batches that this thread is inside of, innermost first. */
typedef struct pool_frame {
    const struct pool_frame *outer;
    const ls_pool *pool;
    int worker;
} pool_frame;

static _Thread_local const pool_frame *current;

static void pause_core(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool init_locks(ls_pool *pool) {
    int made = !pthread_mutex_init(&pool->serial, NULL);
    made += made == 1 && !pthread_mutex_init(&pool->lock, NULL);
    made += made == 2 && !pthread_cond_init(&pool->begin, NULL);
    made += made == 3 && !pthread_cond_init(&pool->end, NULL);
    if (made < 4) {
        (void)(made > 2 && pthread_cond_destroy(&pool->begin));
        (void)(made > 1 && pthread_mutex_destroy(&pool->lock));
        (void)(made > 0 && pthread_mutex_destroy(&pool->serial));
    }
    return made == 4;
}

ls_pool *ls_pool_create(ls_heap *heap, int threads) {
    ls_pool *pool = ls_alloc_zeroed(heap, sizeof *pool);
    int cores = ls_os_cores(), count = threads > 0 ? threads : cores;
    pool_worker *workers = pool ? ls_alloc_zeroed(heap, sizeof *workers * (size_t)count) : NULL;
    if (!workers || !init_locks(pool)) {
        ls_free(heap, workers);
        ls_free(heap, pool);
        return NULL;
    }
    pool->heap = heap;
    pool->count = count;
    pool->workers = workers;
    pool->crowded = count > cores;
    pool->untried = TRIES;
    pool->unasked = pool->asks = ASK_EVERY;
    return pool;
}

void ls_pool_destroy(ls_pool *pool) {
    if (!pool) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->batch, 1);
    pthread_cond_broadcast(&pool->begin);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_cond_destroy(&pool->end);
    pthread_cond_destroy(&pool->begin);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->serial);
    ls_free(pool->heap, pool->workers);
    ls_free(pool->heap, pool);
}

int ls_pool_threads(const ls_pool *pool) {
    return pool->count;
}

static void run_tasks(ls_pool *pool, int number) {
    ls_numerics numerics = ls_numerics_enter();
    pool_frame frame = {current, pool, number};
    current = &frame;
    for (int i = 0; i < pool->parts; i++) {
        pool_worker *part = &pool->workers[(number + i) % pool->parts];
        for (long task;
             (task = atomic_fetch_add_explicit(&part->next, 1, memory_order_relaxed)) < part->end;) {
            pool->fn(pool->ctx, task, number);
        }
    }
    current = frame.outer;
    ls_numerics_leave(numerics);
}

/* Waits, asleep after some looks, until there is a batch after number `seen`. */
static void await_batch(pool_worker *worker, unsigned seen) {
    ls_pool *pool = worker->pool;
    uint64_t began = ls_os_nanoseconds(), until = began + (pool->crowded   ? 0
                                                           : worker->often ? LOOK_LONG
                                                                           : LOOK_SHORT);
    while (atomic_load_explicit(&pool->batch, memory_order_acquire) == seen && ls_os_nanoseconds() < until) {
        pause_core();
    }
    if (atomic_load_explicit(&pool->batch, memory_order_acquire) == seen) {
        pthread_mutex_lock(&pool->lock);
        atomic_fetch_add(&pool->sleeping, 1);
        while (atomic_load(&pool->batch) == seen) {
            pthread_cond_wait(&pool->begin, &pool->lock);
        }
        atomic_fetch_sub(&pool->sleeping, 1);
        pthread_mutex_unlock(&pool->lock);
    }
    worker->often = ls_os_nanoseconds() - began < LOOK_LONG;
}

static bool take_seat(ls_pool *pool) {
    uint64_t seats = atomic_load_explicit(&pool->seats, memory_order_relaxed);
    while (seats >= FREE_SEAT) {
        if (atomic_compare_exchange_weak_explicit(&pool->seats, &seats, seats - FREE_SEAT + 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static void leave_seat(ls_pool *pool) {
    if (atomic_fetch_sub(&pool->seats, 1) == 1 && atomic_load(&pool->waits)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->end);
        pthread_mutex_unlock(&pool->lock);
    }
}

static void *worker_main(void *arg) {
    pool_worker *worker = arg;
    ls_pool *pool = worker->pool;
    for (;;) {
        /* Before `stop`, which is set before the last batch is counted: either it is seen, or its batch is one to wait for. */
        unsigned seen = atomic_load_explicit(&pool->batch, memory_order_acquire);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire)) {
            return NULL;
        }
        if (take_seat(pool)) {
            run_tasks(pool, worker->number);
            leave_seat(pool);
        }
        await_batch(worker, seen);
    }
}

/* Starts the threads when they are first wanted; fewer of them when the system gives no more. */
static void start_threads(ls_pool *pool, int wanted) {
    while (pool->started < wanted) {
        pool_worker *worker = &pool->workers[pool->started + 1];
        *worker = (pool_worker){.pool = pool, .number = pool->started + 1, .away = -1};
        if (pthread_create(&worker->thread, NULL, worker_main, worker)) {
            return;
        }
        pool->started++;
        pool->core = -1;
    }
}

/* -1 where the system does not tell. */
static int this_core(void) {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

/* Takes a core out of those that a thread may run on, if it has others, and gives back the one that was taken before; what else was
 * asked of the thread, from outside, stays. */
static void keep_thread_off(pool_worker *worker, int core) {
#if defined(__linux__)
    cpu_set_t set;
    if (pthread_getaffinity_np(worker->thread, sizeof set, &set)) {
        return;
    }
    if (worker->away >= 0) {
        CPU_SET((unsigned)worker->away, &set);
    }
    bool can = core >= 0 && core < CPU_SETSIZE && CPU_ISSET((unsigned)core, &set) && CPU_COUNT(&set) > 1;
    if (can) {
        CPU_CLR((unsigned)core, &set);
    }
    if (!pthread_setaffinity_np(worker->thread, sizeof set, &set)) {
        worker->away = can ? core : -1;
    }
#else
    (void)worker, (void)core;
#endif
}

static void keep_off(ls_pool *pool, int core) {
    for (int i = 1; i <= pool->started && core != pool->core; i++) {
        keep_thread_off(&pool->workers[i], core);
    }
    pool->core = core;
}

/* The worker that this thread already is in `pool`, or -1. */
static int worker_inside(const ls_pool *pool) {
    for (const pool_frame *frame = current; frame; frame = frame->outer) {
        if (frame->pool == pool) {
            return frame->worker;
        }
    }
    return -1;
}

static void open_batch(ls_pool *pool, int helpers) {
    atomic_store_explicit(&pool->seats, (uint64_t)helpers * FREE_SEAT, memory_order_release);
    atomic_fetch_add(&pool->batch, 1);
    if (atomic_load(&pool->sleeping)) {
        pthread_mutex_lock(&pool->lock);
        keep_off(pool, this_core());
        pthread_cond_broadcast(&pool->begin);
        pthread_mutex_unlock(&pool->lock);
    }
}

static bool has_taken_seats(ls_pool *pool) {
    return atomic_load(&pool->seats) != 0;
}

/* Nobody joins any more; waits for those who did. */
static void end_batch(ls_pool *pool) {
    if (atomic_fetch_and(&pool->seats, FREE_SEAT - 1) % FREE_SEAT == 0) {
        return;
    }
    uint64_t until = pool->crowded ? 0 : ls_os_nanoseconds() + LOOK_LONG;
    while (has_taken_seats(pool) && ls_os_nanoseconds() < until) {
        pause_core();
    }
    if (has_taken_seats(pool)) {
        pthread_mutex_lock(&pool->lock);
        (void)atomic_exchange(&pool->waits, true);
        while (has_taken_seats(pool)) {
            pthread_cond_wait(&pool->end, &pool->lock);
        }
        atomic_store(&pool->waits, false);
        pthread_mutex_unlock(&pool->lock);
    }
}

static void run_batch(ls_pool *pool, long n, int helpers, ls_pool_fn fn, void *ctx) {
    pool->fn = fn;
    pool->ctx = ctx;
    pool->parts = helpers + 1;
    for (int i = 0; i < pool->parts; i++) {
        pool->workers[i].end =
            n / pool->parts * (i + 1) + (n % pool->parts < i + 1 ? n % pool->parts : i + 1);
        atomic_store_explicit(&pool->workers[i].next, i > 0 ? pool->workers[i - 1].end : 0,
                              memory_order_relaxed);
    }
    if (helpers > 0) {
        open_batch(pool, helpers);
    }
    run_tasks(pool, 0);
    if (helpers > 0) {
        end_batch(pool);
    }
}

/* A batch of nothing, which ends when all workers are there. */
typedef struct pool_try {
    int workers;
    _Atomic int came;
    uint64_t until;
} pool_try;

static void come(void *ctx, long task, int worker) {
    pool_try *t = ctx;
    (void)task, (void)worker;
    atomic_fetch_add(&t->came, 1);
    while (atomic_load_explicit(&t->came, memory_order_relaxed) < t->workers && ls_os_nanoseconds() < t->until) {
        pause_core();
    }
}

/* How long all workers take to come, for which they have so long. */
static uint64_t time_try(ls_pool *pool, int helpers, uint64_t longest) {
    uint64_t began = ls_os_nanoseconds();
    pool_try t = {.workers = helpers + 1, .until = began + longest};
    run_batch(pool, helpers + 1, helpers, come, &t);
    return ls_os_nanoseconds() - began;
}

/* After a batch, whose workers are still awake. What takes too long, as when a core is busy elsewhere, is far. */
static void try_workers(ls_pool *pool, int helpers) {
    uint64_t best = LONGEST_TRY;
    for (int i = 0; i < TRIES; i++) {
        uint64_t took = time_try(pool, helpers, LONGEST_TRY);
        best = took < best ? took : best;
    }
    if (best < NEAR || best > FAR) {
        atomic_store_explicit(&pool->near, best < NEAR, memory_order_relaxed);
    }
    pool->untried = TRY_EVERY;
}

bool ls_pool_is_near(const ls_pool *pool) {
    return atomic_load_explicit(&pool->near, memory_order_relaxed);
}

/* Without a batch, whose workers are asleep then. */
static void try_sleepers(ls_pool *pool) {
    start_threads(pool, pool->count - 1);
    if (pool->started > 0) {
        (void)time_try(pool, pool->started, LONGEST_WAKE);
        try_workers(pool, pool->started);
    }
    pool->asks = ls_pool_is_near(pool) ? ASK_EVERY : pool->asks < ASK_SELDOM ? 4 * pool->asks : ASK_SELDOM;
    atomic_store_explicit(&pool->unasked, pool->asks, memory_order_relaxed);
}

bool ls_pool_would_be_near(ls_pool *pool) {
    if (ls_pool_is_near(pool) || pool->count == 1 || pool->crowded) {
        return ls_pool_is_near(pool);
    }
    int left = atomic_load_explicit(&pool->unasked, memory_order_relaxed) - 1; /* one that comes meanwhile may not count */
    atomic_store_explicit(&pool->unasked, left > 0 ? left : 0, memory_order_relaxed);
    if (left <= 0 && worker_inside(pool) < 0) {
        pthread_mutex_lock(&pool->serial);
        if (atomic_load_explicit(&pool->unasked, memory_order_relaxed) == 0) { /* else another thread has just tried */
            try_sleepers(pool);
        }
        pthread_mutex_unlock(&pool->serial);
    }
    return ls_pool_is_near(pool);
}

void ls_pool_run(ls_pool *pool, long n, ls_pool_fn fn, void *ctx) {
    if (n <= 0) {
        return;
    }
    int inside = worker_inside(pool);
    if (inside >= 0) {
        for (long task = 0; task < n; task++) {
            fn(ctx, task, inside);
        }
        return;
    }
    int helpers = (n < pool->count ? (int)n : pool->count) - 1;
    pthread_mutex_lock(&pool->serial);
    start_threads(pool, helpers);
    run_batch(pool, n, helpers, fn, ctx);
    if (helpers > 0 && !pool->crowded && --pool->untried <= 0) {
        try_workers(pool, helpers);
    }
    pthread_mutex_unlock(&pool->serial);
}

ls_mutex *ls_mutex_create(ls_heap *heap) {
    ls_mutex *mutex = ls_alloc(heap, sizeof *mutex);
    if (mutex && pthread_mutex_init(&mutex->handle, NULL)) {
        ls_free(heap, mutex);
        return NULL;
    }
    return mutex;
}

void ls_mutex_destroy(ls_heap *heap, ls_mutex *mutex) {
    if (mutex) {
        pthread_mutex_destroy(&mutex->handle);
        ls_free(heap, mutex);
    }
}

void ls_mutex_lock(ls_mutex *mutex) {
    pthread_mutex_lock(&mutex->handle);
}

void ls_mutex_unlock(ls_mutex *mutex) {
    pthread_mutex_unlock(&mutex->handle);
}

#endif
