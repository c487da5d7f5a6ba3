/*
 * settings.h - what the environment says to the collector. docs/environment.md lists it.
 *
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_SETTINGS_H
#define LAYOUTSPY_SETTINGS_H

#include <stdint.h>

/* LAYOUTSPY_KERNEL_ROWS: runs of kernels that get a row each; the others are in the totals alone.
 */
#define LS_KERNEL_ROWS 2000000
int64_t ls_setting_kernel_rows(void);

/* LAYOUTSPY_NVML: the library's path; "" is off, NULL: not set, it is to be found. */
const char *ls_setting_nvml(void);

#endif
