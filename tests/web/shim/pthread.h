/* A "thread" runs to its end where it is created: what tests ask of several workers holds for one after the other too. */
#ifndef LOCKSTEP_TESTS_WEB_PTHREAD_H
#define LOCKSTEP_TESTS_WEB_PTHREAD_H

typedef int pthread_t;
__attribute__((unused)) static int pthread_create(pthread_t *thread, const void *attributes, void *(*run)(void *), void *argument) {
    (void)attributes;
    *thread = 0;
    run(argument);
    return 0;
}
__attribute__((unused)) static int pthread_join(pthread_t thread, void **result) {
    (void)thread, (void)result;
    return 0;
}

#endif
