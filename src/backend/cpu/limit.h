/* Sizes from which the backend works in another way: with threads, in blocks and bands, by stores past the caches. A build for tests
 * (LOCKSTEP_SMALL_LIMITS) has them so small that little cases go the ways of large ones. */
#ifndef LOCKSTEP_BACKEND_CPU_LIMIT_H
#define LOCKSTEP_BACKEND_CPU_LIMIT_H

#if LS_SMALL_LIMITS
#define LS_LIMIT(size, in_tests) (in_tests)
#else
#define LS_LIMIT(size, in_tests) (size)
#endif

#endif
