/*
 * histories.c - the histories of all devices. See histories.h.
 *
 * One thread; not async-signal-safe.
 */
#include "histories.h"

#include <stdlib.h>
#include <string.h>

#include "../room.h"
#include "history_own.h"

const struct ls_history *ls_histories_get(struct ls_histories *all, int device) {
    if (device < 0 || device >= LS_DEVICES_MOST)
        return NULL;
    if (!all->of[device]) {
        struct ls_history *history = ls_new(1, sizeof *history);
        if (!ls_history_load(history, all->db, device)) {
            free(history);
            return NULL;
        }
        all->of[device] = history;
    }
    return all->of[device];
}

size_t ls_histories_devices(struct ls_histories *all, int *device, size_t room) {
    if (!all->told)
        all->devices = ls_history_devices(all->db, all->device, LS_DEVICES_MOST);
    all->told = true;
    size_t count = all->devices < room ? all->devices : room;
    memcpy(device, all->device, count * sizeof *device);
    return count;
}

void ls_histories_free(struct ls_histories *all) {
    for (int i = 0; i < LS_DEVICES_MOST; i++) {
        if (all->of[i])
            ls_history_free(all->of[i]);
        free(all->of[i]);
    }
    *all = (struct ls_histories){0};
}
