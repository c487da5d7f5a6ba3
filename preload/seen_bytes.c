/*
 * seen_bytes.c - see seen_bytes.h.
 */
#include "seen_bytes.h"

#include <errno.h>
#include <sys/mman.h>

struct ls_seen_bytes *ls_seen_bytes_new(void) {
    int saved = errno;
    void *map = mmap(NULL, sizeof(struct ls_seen_bytes) << LS_SEEN_BITS, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    return map == MAP_FAILED ? NULL : map;
}
