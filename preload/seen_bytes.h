/*
 * seen_bytes.h - the hash of bytes that were hashed before, by comparing them: several times
 * faster.
 *
 * Each thread keeps copies of what it hashed last. A copy counts only where every byte is still the
 * same, so that memory which was given back and holds something else is no trap. Hot: no lock, no
 * allocation, and a mapping at a thread's first use. Not async-signal-safe: callers are busy.
 */
#ifndef LS_SEEN_BYTES_H
#define LS_SEEN_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LS_SEEN_LEAST 48  /* bytes: fewer are hashed as fast */
#define LS_SEEN_MOST 2024 /* and more are not kept */
#define LS_SEEN_BITS 6

struct ls_seen_bytes {
    const char *at; /* NULL: free */
    size_t size;
    uint64_t hash;
    char copy[LS_SEEN_MOST];
};
_Static_assert(sizeof(struct ls_seen_bytes) == 2048, "found by a shift");

typedef uint64_t ls_hash_fn(const char *bytes, size_t size);

/* A thread's copies, of memory of their own; NULL: there is none. */
struct ls_seen_bytes *ls_seen_bytes_new(void);

/* `seen` may be NULL. `hash`: always the same function. */
static inline uint64_t ls_seen_hash(struct ls_seen_bytes *seen, const char *bytes, size_t size,
                                    ls_hash_fn *hash) {
    if (!seen || size < LS_SEEN_LEAST || size > LS_SEEN_MOST)
        return hash(bytes, size);
    seen += (uintptr_t)bytes * 0x9e3779b97f4a7c15u >> (64 - LS_SEEN_BITS);
    if (seen->at == bytes && seen->size == size && memcmp(seen->copy, bytes, size) == 0)
        return seen->hash;
    seen->at = bytes;
    seen->size = size;
    memcpy(seen->copy, bytes, size);
    return seen->hash = hash(bytes, size);
}

#endif
