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

/* One past the last character of the function's own name: where its template's or its own arguments
 * begin, at the outermost level. `(anonymous namespace)` and `{lambda(int)#1}` are names. */
static const char *name_end(const char *text) {
    static const char anonymous[] = "(anonymous namespace)";
    const char *template_at = NULL;
    int depth = 0, braces = 0;
    for (const char *p = text; *p; p++) {
        if (strncmp(p, anonymous, sizeof anonymous - 1) == 0) {
            p += sizeof anonymous - 2;
            continue;
        }
        if (*p == '{')
            braces++;
        else if (*p == '}' && braces > 0)
            braces--;
        else if (braces > 0)
            continue;
        else if (*p == '<' && depth++ == 0)
            template_at = p;
        else if (*p == '>' && depth > 0)
            depth--;
        else if (depth == 0 && (*p == ':' || *p == ' '))
            template_at = NULL; /* of a class, or of what is returned */
        else if (depth == 0 && *p == '(')
            return template_at ? template_at : p;
    }
    return template_at ? template_at : text + strlen(text);
}

char *ls_short_name(const char *demangled) {
    const char *end = name_end(demangled), *start = end;
    int braces = 0;
    while (start > demangled) {
        char before = start[-1];
        braces += (before == '}') - (before == '{');
        if (braces <= 0 && (before == ':' || before == ' '))
            break;
        start--;
    }
    return start < end ? strndup(start, (size_t)(end - start)) : strdup(demangled);
}
