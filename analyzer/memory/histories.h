/*
 * histories.h - the histories of all devices, each loaded at the first wish and kept: a million
 * blocks take a second to read. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_HISTORIES_H
#define LAYOUTSPY_HISTORIES_H

#include "history.h"

#define LS_DEVICES_MOST 256

/* Set `db`, the rest to 0; free with ls_histories_free(). */
struct ls_histories {
    sqlite3 *db;
    struct ls_history *of[LS_DEVICES_MOST]; /* by device; NULL: not loaded yet */
    int device[LS_DEVICES_MOST];            /* that memory was recorded on */
    size_t devices;
    bool told; /* `device` is set */
};

/* NULL: the trace cannot be read (sqlite3_errmsg tells), or there is no device of that number. */
const struct ls_history *ls_histories_get(struct ls_histories *all, int device);

/* As ls_history_devices(), looked for once. */
size_t ls_histories_devices(struct ls_histories *all, int *device, size_t room);

void ls_histories_free(struct ls_histories *all);

#endif
