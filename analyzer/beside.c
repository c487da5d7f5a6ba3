/*
 * beside.c - the traces of a run's other processes. See beside.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "beside.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPOOL ".spool"

static void add(struct ls_beside *beside, const char *path, size_t length) {
    char **more;
    for (size_t i = 0; i < beside->count; i++)
        if (strlen(beside->path[i]) == length && memcmp(beside->path[i], path, length) == 0)
            return;
    more = realloc(beside->path, (beside->count + 1) * sizeof *more);
    if (!more)
        return;
    beside->path = more;
    if ((more[beside->count] = strndup(path, length)))
        beside->count++;
}

/* NAME.N.db, NAME.N.M.db: only numbers between the two, or it is another recording's. */
static void add_found(struct ls_beside *beside, const char *path, size_t stem, const char *end) {
    size_t length = strlen(path), ending = strlen(SPOOL);
    if (length > ending && strcmp(path + length - ending, SPOOL) == 0)
        length -= ending;
    if (length <= stem + strlen(end) + 1)
        return;
    size_t middle = length - stem - strlen(end);
    if (memcmp(path + length - strlen(end), end, strlen(end)) == 0 &&
        strspn(path + stem, ".0123456789") >= middle)
        add(beside, path, length);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void ls_beside_find(const char *trace, struct ls_beside *beside) {
    const char *slash = strrchr(trace, '/'), *base = slash ? slash + 1 : trace;
    const char *end = strrchr(base, '.');
    *beside = (struct ls_beside){0};
    if (!end || end == base)
        end = base + strlen(base);
    size_t stem = (size_t)(end - trace);
    char *pattern = malloc(strlen(trace) * 2 + 16), *p = pattern;
    glob_t found;
    if (!pattern)
        return;
    for (size_t i = 0; i < stem; i++) {
        if (strchr("\\*?[", trace[i]))
            *p++ = '\\';
        *p++ = trace[i];
    }
    strcpy(p, ".[0-9]*");
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            add_found(beside, found.gl_pathv[i], stem, end);
        globfree(&found);
    }
    free(pattern);
    if (beside->count)
        qsort(beside->path, beside->count, sizeof *beside->path, by_name);
}

void ls_beside_free(struct ls_beside *beside) {
    for (size_t i = 0; i < beside->count; i++)
        free(beside->path[i]);
    free(beside->path);
    *beside = (struct ls_beside){0};
}
