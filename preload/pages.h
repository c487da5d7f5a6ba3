/*
 * pages.h - zeroed memory of our own, which the program's allocator knows nothing of: used only as
 * far as it is touched, and kept for good.
 *
 * A system call. Any thread; async-signal-safe, but for errno.
 */
#ifndef LS_PAGES_H
#define LS_PAGES_H

#include <stddef.h>
#include <sys/mman.h>

/* NULL: there is none. */
static inline void *ls_map_pages(size_t size) {
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

#endif
