/*
 * settings.c - see settings.h. One thread; not async-signal-safe.
 */
#include "settings.h"

#include <stdlib.h>

#include "common/setting.h"

const char *ls_setting_nvml(void) {
    const char *text = getenv("LAYOUTSPY_NVML");
    uint64_t place = 0; /* in setting.def: on, off, a path */
    return !ls_setting_parse(LS_SETTING_NVML, text, &place) || place == 0 ? NULL
           : place == 1                                                   ? ""
                                                                          : text;
}

int64_t ls_setting_kernel_rows(void) {
    uint64_t rows = LS_KERNEL_ROWS;
    ls_setting_parse(LS_SETTING_KERNEL_ROWS, getenv("LAYOUTSPY_KERNEL_ROWS"), &rows);
    return (int64_t)rows;
}
