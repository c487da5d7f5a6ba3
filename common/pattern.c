/*
 * pattern.c - names of traces. See common/pattern.h.
 *
 * Pure functions: any thread, async-signal-safe.
 */
#include "common/pattern.h"

#include <stdbool.h>
#include <string.h>

/* A bounded string under construction; `out` may be NULL, then only the length is counted. */
struct sink {
    char *out;
    size_t size;
    size_t length;
    bool full;
};

static void put(struct sink *s, char c) {
    if (s->length + 1 >= s->size) {
        s->full = true;
        return;
    }
    if (s->out)
        s->out[s->length] = c;
    s->length++;
}

static void put_range(struct sink *s, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        put(s, text[i]);
}

/* A value must not name another folder: "../x" as a rank stays one file name. */
static void put_value(struct sink *s, const char *text, const char *otherwise) {
    for (const char *p = text && *text ? text : otherwise; *p; p++)
        put(s, *p == '/' ? '_' : *p);
}

static void put_number(struct sink *s, unsigned long n) {
    char digits[24];
    size_t first = sizeof digits;
    do
        digits[--first] = (char)('0' + n % 10);
    while (n /= 10);
    put_range(s, digits + first, sizeof digits - first);
}

static int finish(struct sink *s) {
    if (s->full || s->size == 0)
        return LS_PATTERN_TOO_LONG;
    if (s->out)
        s->out[s->length] = '\0';
    return 0;
}

static const char *base_name(const char *path) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

int ls_pattern_expand(char *out, size_t size, const char *pattern,
                      const struct ls_pattern_values *values) {
    struct sink s = {out, size, 0, false};
    for (const char *p = pattern; *p; p++) {
        if (*p != '%') {
            put(&s, *p);
            continue;
        }
        switch (*++p) {
        case 'p':
            put_number(&s, values->pid);
            break;
        case 'h':
            put_value(&s, values->host, "unknown");
            break;
        case 'r':
            put_value(&s, values->rank, "0");
            break;
        case 'n':
            put_value(&s, base_name(values->program), "unknown");
            break;
        case '%':
            put(&s, '%');
            break;
        case '\0':
            return LS_PATTERN_TRAILING;
        default:
            return LS_PATTERN_UNKNOWN - (unsigned char)*p;
        }
    }
    size_t length = strlen(pattern);
    if (length == 0 || pattern[length - 1] == '/')
        return LS_PATTERN_EMPTY;
    return finish(&s);
}

/* The value of `name` (with its '='), or NULL where it is not set or empty. */
static const char *find(char *const *envp, const char *name) {
    size_t length = strlen(name);
    for (char *const *e = envp; e && *e; e++)
        if (strncmp(*e, name, length) == 0 && (*e)[length])
            return *e + length;
    return NULL;
}

const char *ls_pattern_rank(char *const *envp) {
    static const char *const name[] = {
        "OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "SLURM_PROCID=", "RANK="};
    /* torchrun and its kin set both; started by srun, their workers share its SLURM_PROCID. */
    const char *value = find(envp, "LOCAL_RANK=") ? find(envp, "RANK=") : NULL;
    for (size_t i = 0; !value && i < sizeof name / sizeof name[0]; i++)
        value = find(envp, name[i]);
    return value ? value : "0";
}

int ls_pattern_insert(char *out, size_t size, const char *path, unsigned long number) {
    struct sink s = {out, size, 0, false};
    const char *base = base_name(path);
    const char *dot = strrchr(base, '.');
    if (!dot || dot == base) /* no ending, or a hidden file's name */
        dot = base + strlen(base);
    put_range(&s, path, (size_t)(dot - path));
    put(&s, '.');
    put_number(&s, number);
    put_range(&s, dot, strlen(dot));
    return finish(&s);
}

int ls_pattern_escape(char *out, size_t size, const char *path) {
    struct sink s = {out, size, 0, false};
    for (const char *p = path; *p; p++) {
        if (*p == '%')
            put(&s, '%');
        put(&s, *p);
    }
    return finish(&s);
}
