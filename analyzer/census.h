/*
 * census.h - a census out of a trace: storages, the tensors in each, and what reaches them.
 *
 * Everything belongs to the census and is valid until ls_census_free(). Sizes in bytes, times in ns
 * since the recording's start. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_CENSUS_H
#define LAYOUTSPY_CENSUS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layoutspy/format.h" /* enum ls_census_state, enum ls_census_reason */

enum ls_held { /* census_tensor.held, a sum */
               LS_HELD_GLOBAL = 1,
               LS_HELD_LOCAL = 2,
               LS_HELD_RAISED = 4,
               LS_HELD_GRAPH = 8,
               LS_HELD_LOST = 16,
};

struct ls_counted_tensor {
    int64_t id;
    uint64_t object; /* address of the Python object, 0: none */
    uint64_t offset; /* of its first element, in elements */
    uint64_t bytes;  /* of its elements */
    const char *dtype, *class, *dims, *strides;
    bool contiguous, requires_grad, view;
    int held;      /* enum ls_held */
    int64_t paths; /* that lead to it */
    char **path;   /* the first `path_count` of them, the shortest first */
    size_t path_count;
};

struct ls_counted_storage {
    int64_t id;
    int device;
    uint64_t address, bytes, held_by_graph;
    int held; /* of all its tensors */
    struct ls_counted_tensor *tensor;
    size_t tensors, views;
    int64_t stack;    /* stack_site.id of the block or the allocation that it lies in; 0: unknown */
    const char *site; /* its text, or "site unknown" */
    int64_t start_ns; /* of that block; -1: unknown */
};

struct ls_census {
    int64_t id, ts_ns, end_ns; /* end_ns -1: it never ended */
    enum ls_census_reason reason;
    enum ls_census_state state;
    int64_t oom;                        /* oom.id, 0: none */
    int64_t objects, tensors, nodes;    /* looked at */
    const char *detail;                 /* or NULL */
    struct ls_counted_storage *storage; /* by bytes, the largest first */
    size_t storages;
    uint64_t bytes; /* of all of them */
    /* census.c's own */
    struct ls_counted_tensor *all_tensors;
    char **all_paths;
    void **owned;
    size_t owned_count, owned_room, storage_room;
};

/* The census of this number. False: there is none, or the trace cannot be read (sqlite3_errcode()
 * tells). Exits with one line where there is no memory. */
bool ls_census_load(struct ls_census *census, sqlite3 *db, int64_t id);
void ls_census_free(struct ls_census *census);

/* The one that tells the most: the last that ended with rows, or the last; 0: there is none. */
int64_t ls_census_last(sqlite3 *db);

/* The first path of a storage's tensors that is not of a local variable, if there is one; NULL: no
 * path leads to any. */
const char *ls_census_path(const struct ls_counted_storage *storage);

/*
 * Indices made '*', so that losses[0] and losses[1] are the same: in [12], in .12. and at the end,
 * .12. To be freed.
 */
char *ls_census_pattern(const char *path);

/* ---- groups (census_group.c) ---- */

/* Storages that the same code made and the same kind of path leads to: losses[0], losses[1], ... */
struct ls_storage_group {
    char *pattern;                             /* owned; "" where no path leads to them */
    const struct ls_counted_storage **storage; /* the largest first; owned */
    size_t storages;
    uint64_t bytes, held_by_graph;
    size_t tensors, views;
    int64_t paths;
    int held; /* of all of them */
};

/* Groups of those that `want` says yes to (NULL: of all), by bytes and what their graphs hold, the
 * most first. Returns how many; *group to be freed with ls_census_groups_free(). */
size_t ls_census_groups(const struct ls_census *census,
                        bool (*want)(const struct ls_counted_storage *storage, void *context),
                        void *context, struct ls_storage_group **group);
void ls_census_groups_free(struct ls_storage_group *group, size_t count);

/* The tensor that stands for a storage: the one that ls_census_path() leads to; NULL: none. */
const struct ls_counted_tensor *ls_census_tensor(const struct ls_counted_storage *storage);

/* "after an out-of-memory error", "asked for", "at exit" */
const char *ls_census_reason_text(enum ls_census_reason reason);

#endif
