/*
 * nvml_match.h - which of NVML's devices each of a CUDA program's devices is. Any thread.
 *
 * NVML numbers the machine's devices by their PCI address. CUDA numbers those that
 * CUDA_VISIBLE_DEVICES leaves, and without CUDA_DEVICE_ORDER=PCI_BUS_ID the fastest comes first:
 * where devices differ and only numbers are given, nobody can tell which is which.
 */
#ifndef LAYOUTSPY_NVML_MATCH_H
#define LAYOUTSPY_NVML_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_NVML_DEVICES 64

struct ls_nvml_device {
    char uuid[96]; /* "GPU-..."; "": not told */
    char name[96]; /* of the model */
    int64_t total;
    bool there; /* NVML has a handle to it */
    bool mig;   /* is cut into instances: the whole says nothing of a part */
};

struct ls_nvml_match {
    int index[LS_NVML_DEVICES]; /* by the program's number: NVML's, or -1: not known */
    size_t count;               /* of the program's devices */
    char why[160];              /* what is not known, and why; "": all is */
};

void ls_nvml_match(struct ls_nvml_match *match, const struct ls_nvml_device *device, size_t devices,
                   const char *visible, const char *order);

#endif
