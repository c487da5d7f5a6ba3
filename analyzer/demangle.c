/*
 * demangle.c - see demangle.h. Any thread; not for signal handlers.
 */
#include "demangle.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MANGLED_MAX 4096 /* longer ones nest deeper than the demangler's stack is sure to hold */

/* libstdc++'s; its header is for C++ only. */
char *__cxa_demangle(const char *mangled, char *buffer, size_t *size, int *status);

char *ls_demangle(const char *name) {
    if (strncmp(name, "_Z", 2) == 0 && strnlen(name, MANGLED_MAX) < MANGLED_MAX) {
        int status = 0;
        char *text = __cxa_demangle(name, NULL, NULL, &status);
        if (text && status == 0)
            return text;
        free(text);
    }
    return strdup(name);
}
