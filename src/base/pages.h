/* Memory of the system's own, in large pages where it has them. */
#ifndef LOCKSTEP_BASE_PAGES_H
#define LOCKSTEP_BASE_PAGES_H

#include <stddef.h>

/* Blocks of so many bytes and more are better there than in the C library's heap; SIZE_MAX: none are. */
extern const size_t ls_pages_from;
void *ls_pages_map(size_t size); /* cleared; NULL: there is no more */
void ls_pages_unmap(void *memory, size_t size);
/* Has the system place the pages of a block that is about to be written at once, which costs a fraction of a fault for each. */
void ls_pages_place(void *memory, size_t size);

#endif
