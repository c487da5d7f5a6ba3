/*
 * settings.c - see settings.h. One thread; not async-signal-safe.
 */
#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *ls_setting_nvml(void) {
    const char *text = getenv("LAYOUTSPY_NVML");
    if (!text || !*text || strcmp(text, "on") == 0)
        return NULL;
    return strcmp(text, "off") == 0 || strcmp(text, "no") == 0 || strcmp(text, "0") == 0 ? ""
                                                                                         : text;
}

int64_t ls_setting_kernel_rows(void) {
    const char *text = getenv("LAYOUTSPY_KERNEL_ROWS");
    char *end;
    if (!text || *text < '0' || *text > '9') /* no blanks, no signs */
        return LS_KERNEL_ROWS;
    errno = 0;
    long long rows = strtoll(text, &end, 10);
    return errno || *end ? LS_KERNEL_ROWS : rows;
}
