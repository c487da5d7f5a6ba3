/*
 * beside.h - the traces of a run's other processes: NAME.PID.db beside NAME.db.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_BESIDE_H
#define LAYOUTSPY_BESIDE_H

#include <stddef.h>

/* Names of traces, in order; spools that have no trace yet count. Free with ls_beside_free(). */
struct ls_beside {
    char **path;
    size_t count;
};

void ls_beside_find(const char *trace, struct ls_beside *beside);
void ls_beside_free(struct ls_beside *beside);

#endif
