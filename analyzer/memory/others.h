/*
 * others.h - what other recorded processes held on the same device at the same moment.
 *
 * They are found by their traces, in the folder of this one: of the same boot of the same host, and
 * recording then. The wall clock joins the times. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OTHERS_H
#define LAYOUTSPY_OTHERS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_other {
    char *path;    /* of its trace */
    char *program; /* its command line; NULL: unknown */
    int64_t pid;
    uint64_t bytes; /* of device memory that it held then, as recorded */
    bool ooms;      /* it met an out-of-memory error on that device, too */
    bool whole;     /* false: some of its recording is not in its trace yet */
};

struct ls_others {
    struct ls_other *other; /* by bytes, the largest first */
    size_t count, room;
    size_t unread; /* files that look like traces and cannot be read, or have an older format */
    uint64_t bytes;
};

/* `device`: as this process numbers it; CUDA_VISIBLE_DEVICES of both is taken into account. Exits
 * with one line where there is no memory. */
void ls_others_find(struct ls_others *others, sqlite3 *db, const char *path, int device,
                    int64_t ts_ns);
void ls_others_free(struct ls_others *others);

#endif
