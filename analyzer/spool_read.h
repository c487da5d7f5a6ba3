/*
 * spool_read.h - the spool as its reader sees it: mapped, checked, and never trusted.
 *
 * Everything in the file may be wrong: cut off, scribbled over by a wild write of the target, or
 * from another version. What is read is checked here or in record_check.h before anybody uses it,
 * and records are copied out before they are checked, because a live target can still write.
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_SPOOL_READ_H
#define LAYOUTSPY_SPOOL_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layoutspy/format.h"

struct ls_spool {
    int fd;
    char path[LS_PATH_MAX];
    uint8_t *map;
    size_t mapped;                  /* bytes mapped */
    size_t file_size;               /* bytes in the file, when last looked at */
    bool writable;                  /* chunks can be handed back and drains acknowledged */
    struct ls_spool_header *header; /* shared with the target: only its atomics are read; moves
                                     * when ls_spool_refresh() finds the file grown */
    struct ls_spool_header start;   /* a private copy from the time of opening, strings ended */
    struct ls_slot_place {
        uint64_t offset;
        uint32_t size;
        uint8_t state; /* enum slot_state of spool_read.c */
    } slot[LS_CHUNK_MAX];
    uint8_t *unit_used; /* one byte per LS_CHUNK_MIN of the file: two chunks cannot overlap */
    size_t units;
};

/* A chunk as it was at one moment. */
struct ls_chunk_view {
    uint32_t slot;
    uint32_t generation;
    uint32_t thread;
    uint32_t sequence;
    bool sealed;        /* then `committed` is final and `checksum` set */
    uint64_t committed; /* bytes that can be read, chunk header included */
    uint64_t claimed;   /* bytes that were written: more where the file was cut off */
    uint64_t checksum;
};

enum ls_view {
    LS_VIEW_NONE, /* free, never used, or being claimed right now */
    LS_VIEW_GOOD,
    LS_VIEW_DAMAGED, /* only slot, generation, sealed and claimed are set: `claimed` bytes gone */
};

enum ls_spool_result {
    LS_SPOOL_OK,
    LS_SPOOL_MISSING,    /* no such file: nothing to complain of, maybe */
    LS_SPOOL_UNREADABLE, /* no permission, a directory, an I/O error */
    LS_SPOOL_BAD,        /* not a spool, cut off in its header, or of another version */
};

/*
 * Open and check the spool at `path`; `why` (of `size` bytes) gets the rest of an error line.
 * On LS_SPOOL_OK release it with ls_spool_close().
 */
enum ls_spool_result ls_spool_open(struct ls_spool *spool, const char *path, char *why,
                                   size_t size);
void ls_spool_close(struct ls_spool *spool);

/* Become the one reader. False: somebody else is. The lock ends with the process. */
bool ls_spool_lock(struct ls_spool *spool);

/* True once another reader has ingested and removed the file. */
bool ls_spool_removed(const struct ls_spool *spool);

/* Look for growth. Returns the number of slots to look at. */
uint32_t ls_spool_refresh(struct ls_spool *spool);

enum ls_view ls_spool_view(const struct ls_spool *spool, uint32_t slot, struct ls_chunk_view *view);

/* Copy bytes [from, to) of a viewed chunk; offsets count from the chunk's start. */
void ls_spool_copy(const struct ls_spool *spool, uint32_t slot, uint64_t from, uint64_t to,
                   void *out);

/* Hand a sealed chunk back to the target. Only after its rows are committed. */
void ls_spool_free_chunk(struct ls_spool *spool, uint32_t slot);

#endif
