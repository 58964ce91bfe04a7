/* The pool wraps pthreadpool: one item a worker, and workers draw tasks from an atomic counter, so that a task knows
 * its worker. Invariants: `serial` is held for a whole batch; `next`, `fn`, `ctx` and `n` change only under it. The
 * acquire and release pairs order callers and workers even for tools that cannot see into pthreadpool. */
#define _POSIX_C_SOURCE 200809L
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
#include <pthreadpool.h>

struct ls_mutex {
    pthread_mutex_t handle;
};

struct ls_pool {
    ls_heap *heap;
    pthreadpool_t threads; /* NULL: run in place */
    int count;
    uint32_t flags;
    pthread_mutex_t serial;
    ls_pool_fn fn;
    void *ctx;
    long n;
    _Atomic long next;
    _Atomic int published;
};

/* The batches that this thread is inside of, innermost first. */
typedef struct pool_frame {
    const struct pool_frame *outer;
    const ls_pool *pool;
    int worker;
} pool_frame;

static _Thread_local const pool_frame *current;

ls_pool *ls_pool_create(ls_heap *heap, int threads) {
    ls_pool *pool = ls_alloc_zeroed(heap, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    pool->heap = heap;
    pool->count = threads > 0 ? threads : ls_os_cores();
    if (pthread_mutex_init(&pool->serial, NULL)) {
        ls_free(heap, pool);
        return NULL;
    }
    if (pool->count > 1) {
        /* Waiting workers spin, since a wake-up can take longer than a small product; but not when they outnumber the
         * cores. */
        pool->flags = pool->count > ls_os_cores() ? PTHREADPOOL_FLAG_YIELD_WORKERS : 0;
        pool->threads = pthreadpool_create((size_t)pool->count);
        if (!pool->threads) {
            ls_pool_destroy(pool);
            return NULL;
        }
    }
    return pool;
}

void ls_pool_destroy(ls_pool *pool) {
    if (pool) {
        if (pool->threads) {
            pthreadpool_destroy(pool->threads);
        }
        pthread_mutex_destroy(&pool->serial);
        ls_free(pool->heap, pool);
    }
}

int ls_pool_threads(const ls_pool *pool) {
    return pool->count;
}

static void run_worker(void *arg, size_t item) {
    ls_pool *pool = arg;
    atomic_load_explicit(&pool->published, memory_order_acquire);
    ls_numerics numerics = ls_numerics_enter();
    pool_frame frame = {current, pool, (int)item};
    current = &frame;
    for (;;) {
        long task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= pool->n) {
            break;
        }
        pool->fn(pool->ctx, task, (int)item);
    }
    current = frame.outer;
    ls_numerics_leave(numerics);
    atomic_fetch_add_explicit(&pool->published, 1, memory_order_release);
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
    pthread_mutex_lock(&pool->serial);
    pool->fn = fn;
    pool->ctx = ctx;
    pool->n = n;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->published, 1, memory_order_release);
    if (pool->threads && n > 1) {
        size_t items = n < pool->count ? (size_t)n : (size_t)pool->count;
        pthreadpool_parallelize_1d(pool->threads, run_worker, pool, items, pool->flags);
    } else {
        run_worker(pool, 0);
    }
    atomic_load_explicit(&pool->published, memory_order_acquire);
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
