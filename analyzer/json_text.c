/*
 * json_text.c - JSON strings of any bytes: sites and paths hold whatever a file name holds. See
 * json_text.h. Any thread; not for signal handlers.
 */
#include "json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

json_t *ls_json_text(const char *text) {
    json_t *json = json_string(text);
    char *clean = json ? NULL : strdup(text);
    for (char *p = clean; p && *p; p++)
        if (*p & 0x80)
            *p = '?';
    if (clean)
        json = json_string(clean);
    free(clean);
    if (!json) {
        fputs("layoutspy: out of memory\n", stderr);
        exit(LS_EXIT_INPUT);
    }
    return json;
}
