/* A question whose answer stays and is dear to ask: what the processor has, which on a virtual machine its host tells, in microseconds. */
#ifndef LOCKSTEP_BASE_KNOWN_H
#define LOCKSTEP_BASE_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>

/* `known` begins as 0. Threads that ask at once find the same. */
static inline bool ls_known(atomic_int *known, bool (*ask)(void)) {
    enum { NO = 1, YES };
    int answer = atomic_load_explicit(known, memory_order_relaxed);
    if (!answer) {
        answer = ask() ? YES : NO;
        atomic_store_explicit(known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

#endif
