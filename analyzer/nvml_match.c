/*
 * nvml_match.c - see nvml_match.h. Any thread; no memory of its own; not for signal handlers.
 */
#include "nvml_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void say(struct ls_nvml_match *match, const char *why) {
    if (!*match->why)
        snprintf(match->why, sizeof match->why, "%s", why);
}

/* All of one model: whatever CUDA takes for the fastest, it keeps their order. */
static bool alike(const struct ls_nvml_device *device, size_t devices) {
    for (size_t i = 1; i < devices; i++)
        if (strcmp(device[i].name, device[0].name) != 0 || device[i].total != device[0].total)
            return false;
    return true;
}

static void add(struct ls_nvml_match *match, const struct ls_nvml_device *device, int index) {
    if (match->count >= LS_NVML_DEVICES)
        return;
    if (index >= 0 && device[index].mig)
        say(match, "a device is cut into MIG instances, of which NVML does not tell apart");
    else if (index >= 0 && !device[index].there)
        say(match, "NVML has no handle to a device");
    else if (index >= 0) {
        match->index[match->count++] = index;
        return;
    }
    match->index[match->count++] = -1;
}

/* A word of CUDA_VISIBLE_DEVICES, which may give the beginning of a UUID alone. -1: none, or more
 * than one. */
static int by_uuid(const struct ls_nvml_device *device, size_t devices, const char *word,
                   size_t length) {
    int found = -1;
    for (size_t i = 0; i < devices; i++)
        if (strncasecmp(device[i].uuid, word, length) == 0) {
            if (found >= 0)
                return -1;
            found = (int)i;
        }
    return found;
}

static void by_number(struct ls_nvml_match *match, const struct ls_nvml_device *device,
                      size_t devices, long number, bool ordered) {
    if (!ordered)
        say(match, "devices of several models, numbered by CUDA with the fastest first: set "
                   "CUDA_DEVICE_ORDER=PCI_BUS_ID");
    add(match, device, ordered && number < (long)devices ? (int)number : -1);
}

/* CUDA reads the list up to the first word that names no device. */
static void by_list(struct ls_nvml_match *match, const struct ls_nvml_device *device,
                    size_t devices, const char *list, bool ordered) {
    for (const char *word = list; word; word = strchr(word, ',')) {
        word += strspn(word, ", ");
        size_t length = strcspn(word, ", ");
        char *end;
        long number = strtol(word, &end, 10);
        if (strncasecmp(word, "MIG-", 4) == 0) {
            say(match, "CUDA_VISIBLE_DEVICES names MIG instances, of which NVML does not tell");
            add(match, device, -1);
        } else if (strncasecmp(word, "GPU-", 4) == 0) {
            int index = by_uuid(device, devices, word, length);
            if (index < 0)
                say(match, "NVML knows no device of the UUID in CUDA_VISIBLE_DEVICES");
            add(match, device, index);
        } else if (length > 0 && end == word + length && number >= 0) {
            if (number >= (long)devices)
                return;
            by_number(match, device, devices, number, ordered);
        } else {
            return;
        }
    }
}

void ls_nvml_match(struct ls_nvml_match *match, const struct ls_nvml_device *device, size_t devices,
                   const char *visible, const char *order) {
    bool ordered = (order && strcmp(order, "PCI_BUS_ID") == 0) || alike(device, devices);
    memset(match, 0, sizeof *match);
    if (visible) {
        by_list(match, device, devices, visible, ordered);
        return;
    }
    for (size_t i = 0; i < devices; i++)
        by_number(match, device, devices, (long)i, ordered);
}
