/* Memory of the system's own, in large pages where it has them. */
#ifndef LOCKSTEP_BASE_PAGES_H
#define LOCKSTEP_BASE_PAGES_H

#include <stddef.h>

/* Blocks of so many bytes and more are better there than in the C library's heap; SIZE_MAX: none are. */
extern const size_t ls_pages_from;
void *ls_pages_map(size_t size); /* cleared; NULL: there is no more */
void ls_pages_unmap(void *memory, size_t size);
/* A new block of the heap (or NULL), whose pages the system has placed at once where that pays: a fault for each costs several times as much. */
void *ls_pages_placed(void *block, size_t size);

#endif
