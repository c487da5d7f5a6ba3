/*
 * copy.h - copies and memsets: checked as real CUDA checks them, then put on a stream.
 *
 * These functions take the core lock themselves.
 */
#ifndef STANDIN_COPY_H
#define STANDIN_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "work.h"

/* One side of a copy: linear memory, or an array with a place in it (x in bytes). */
struct side {
    const void *address;
    uint64_t pitch; /* bytes between rows; linear memory only */
    uint64_t rows;  /* rows of a slice; linear memory only */
    const void *array;
    uint64_t x, y, z;
    int device; /* of a peer copy, else -1 */
};

/* cudaMemcpyKind */
enum copy_kind {
    COPY_H2H,
    COPY_H2D,
    COPY_D2H,
    COPY_D2D,
    COPY_DEFAULT,
};

struct copy {
    struct side dst, src;
    uint64_t width, height, depth; /* width in bytes, or in elements where `elements` is set */
    bool elements;
    int kind;
    const void *stream;
    bool per_thread;
    bool async;
};

/* What a copy turned out to be, for the log; zeros where it was refused before that was known. */
struct copied {
    bool known;
    enum standin_kind src_kind, dst_kind;
    const char *direction;
    uint64_t bytes;
};

/* Statuses: 0, 1, 12, 21, 400, 9xx and those of sd_begin_context(). */
int sd_copy(const struct copy *copy, struct copied *out);

/* Bytes of an array's elements; 1 for a handle that is none. Takes the lock. */
uint64_t sd_copy_element(const void *array);

/* The work of a copy, for a graph's node; lock held, no stream and no context needed. */
int sd_copy_work(const struct copy *copy, struct work *work);

/* What a listener is told of a copy's sides (tap.h); `kind` as passed. */
void sd_copy_tell(struct work *work, int kind, const struct span *dst, const struct span *src);

struct set {
    void *address;
    uint64_t pitch, rows;          /* rows of a slice */
    uint64_t width, height, depth; /* width in bytes */
    uint32_t value;
    unsigned element; /* bytes of the value: 1, 2 or 4 */
    const void *stream;
    bool per_thread;
    bool async;
};
/* `kind` is set to what lies at the address. */
int sd_set(const struct set *set, enum standin_kind *kind);

/* The word for a kind in the log: pageable, pinned, device, managed or array. */
const char *sd_side_word(enum standin_kind kind);

#endif
