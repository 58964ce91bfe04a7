/* Threads: a pool for data-parallel loops, a mutex, and one-time work. */
#ifndef LOCKSTEP_BASE_THREAD_H
#define LOCKSTEP_BASE_THREAD_H

#include "base/alloc.h"

typedef struct ls_pool ls_pool;
typedef void (*ls_pool_fn)(void *ctx, long task, int worker);

/* `threads` <= 0 takes the number of cores this process may use. Workers run under the contract's numerics. */
ls_pool *ls_pool_create(ls_heap *heap, int threads);
void ls_pool_destroy(ls_pool *pool);
int ls_pool_threads(const ls_pool *pool);
/* Calls fn(ctx, task, worker) for task 0..n-1, workers 0..threads-1, and returns when all are done. Calls from several
 * threads are serialised; a call from inside a task runs its tasks in place. */
void ls_pool_run(ls_pool *pool, long n, ls_pool_fn fn, void *ctx);
/* Whether workers that are awake join a batch soon, as those do whose cores share a cache: it is measured once in many batches. */
bool ls_pool_is_near(const ls_pool *pool);
/* The same where only near workers would be worth a batch: without batches nothing would tell that they have become that, so it is
 * measured once in many questions. */
bool ls_pool_would_be_near(ls_pool *pool);

typedef struct ls_mutex ls_mutex;
ls_mutex *ls_mutex_create(ls_heap *heap);
void ls_mutex_destroy(ls_heap *heap, ls_mutex *mutex);
void ls_mutex_lock(ls_mutex *mutex);
void ls_mutex_unlock(ls_mutex *mutex);

#endif
