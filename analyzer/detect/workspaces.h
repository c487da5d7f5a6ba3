/*
 * workspaces.h - memory that libraries were given to work in, one piece per handle and stream.
 *
 * For `library-workspace` and `stream-keyed-growth`, which share them out: a group of pieces of one
 * site either grows with the streams (or handles) that are used, or is expected. Main thread only;
 * not for signal handlers.
 */
#ifndef LAYOUTSPY_WORKSPACES_H
#define LAYOUTSPY_WORKSPACES_H

#include "detect.h"

struct ls_workspace {
    int64_t call, ts_ns; /* the first time it was set */
    int64_t end_ns;      /* its memory was given back, or LS_NEVER */
    int64_t handle, stream, address,
        bytes;     /* handle 0: not known, and `stream` a number of its own */
    int64_t block; /* block.id, or 0: not a framework's block */
};

/* Pieces of one library, device and site. */
struct ls_workspaces {
    char *library;
    int device;
    char *site; /* of the capture that they were made for, else of the call that needed them */
    char *used; /* the site of the call that needed it */
    bool capturing;
    struct ls_workspace *at; /* in the order of time */
    size_t count, room;
    int64_t streams, handles;        /* distinct ones */
    int64_t most, bytes, most_bytes; /* most pieces (bytes) at one time; bytes of all */
    bool grows;
    bool to_the_end; /* also in the last quarter of the calls since the first one */
    struct ls_workspaces *next;
};

/* All groups, read once: they belong to `d`. SQLITE_OK or the code of the query that failed. */
int ls_workspaces_read(struct ls_detect *d, const struct ls_workspaces **list);
void ls_workspaces_free(struct ls_workspaces *list);

/* A query for what must not be taken for growth or a leak: the block (block.id) and the address of
 * each workspace, 0 where there is none. */
extern const char ls_workspaces_memory_sql[];

/* The pieces as evidence: at most LS_WORKSPACE_ROWS of them. */
#define LS_WORKSPACE_ROWS 8
json_t *ls_workspaces_rows(const struct ls_workspaces *group);

/* "cuBLAS" for "cublas". */
const char *ls_workspaces_library(const char *name);

#endif
