/* Tests allocate and free megabytes many thousand times. Memory that goes back to the system each time, to be asked for again and cleared, would
 * take up to nine tenths of a test's time. */
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>

static __attribute__((constructor)) void keep_memory(void) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
}
#else
typedef int nothing; /* a file may not be empty */
#endif
