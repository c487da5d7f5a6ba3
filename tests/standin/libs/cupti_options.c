/*
 * cupti_options.c - what the environment asks of the simulated CUPTI, read once; and what its parts
 * share: notes in the truth log, the refusal of calls from a client's own functions.
 *
 *   STANDIN_CUPTI            11.8, 12.4, 13.0 or 13.3: which version it is
 *   STANDIN_CUPTI_FAULT      a comma list of cupti_faults.def
 *   STANDIN_CUPTI_MULTI      1: the driver allows several subscribers (13.3)
 *   STANDIN_CUPTI_TAKEN      the name of a tool that has subscribed before everybody
 *   STANDIN_CUPTI_OFFSET_NS  its clock against CLOCK_REALTIME
 *   STANDIN_CUPTI_DRIFT_PPM  and how much faster it runs
 *
 * Any thread; not in signal handlers.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../truth.h"
#include "cupti_standin.h"

static const struct {
    const char *name;
    uint32_t number;
    int kinds;
} versions[CP_VERSIONS] = {
    [CP_11_8] = {"11.8", 18, 53},
    [CP_12_4] = {"12.4", 22, 53},
    [CP_13_0] = {"13.0", 130001, 56},
    [CP_13_3] = {"13.3", 130301, 60},
};

static const char *const fault_names[] = {
#define FAULT(id, name) name,
#include "cupti_faults.def"
};

static struct cp_options options;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void refuse(const char *variable, const char *value) {
    fprintf(stderr, "simulated device: %s=%s is not known\n", variable, value);
    _Exit(2);
}

static const char *text(const char *name) {
    const char *value = getenv(name);
    return value && *value ? strdup(value) : NULL;
}

static int64_t number(const char *name) {
    const char *value = getenv(name);
    if (!value || !*value)
        return 0;
    char *end;
    long long result = strtoll(value, &end, 10);
    if (*end)
        refuse(name, value);
    return result;
}

static void read_version(const char *wanted) {
    int version = CUDA_MAJOR >= 13 ? CP_13_0 : CP_12_4;
    if (wanted)
        for (version = 0; version < CP_VERSIONS; version++)
            if (strcmp(versions[version].name, wanted) == 0)
                break;
    if (version == CP_VERSIONS)
        refuse("STANDIN_CUPTI", wanted);
    options.version = (enum cp_version)version;
    options.number = versions[version].number;
    options.kinds = versions[version].kinds;
}

static void read_faults(void) {
    char *list = (char *)(uintptr_t)text("STANDIN_CUPTI_FAULT");
    char *save = NULL;
    for (char *item = list ? strtok_r(list, ",", &save) : NULL; item;
         item = strtok_r(NULL, ",", &save)) {
        size_t i = 0;
        while (i < sizeof fault_names / sizeof *fault_names && strcmp(fault_names[i], item) != 0)
            i++;
        if (i == sizeof fault_names / sizeof *fault_names)
            refuse("STANDIN_CUPTI_FAULT", item);
        options.faults |= 1u << i;
    }
    free(list);
}

static void read_environment(void) {
    const char *wanted = text("STANDIN_CUPTI");
    read_version(wanted);
    read_faults();
    options.multi = number("STANDIN_CUPTI_MULTI") != 0 && options.version >= CP_13_3;
    options.taken = text("STANDIN_CUPTI_TAKEN");
    options.offset = number("STANDIN_CUPTI_OFFSET_NS");
    options.drift = number("STANDIN_CUPTI_DRIFT_PPM");
}

const struct cp_options *cp_options(void) {
    pthread_once(&once, read_environment);
    return &options;
}

bool cp_fault(enum cp_fault fault) {
    return cp_options()->faults >> fault & 1;
}

void cp_note(const char *format, ...) {
    if (!sd_truth_wanted())
        return;
    char line[400];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    int saved = errno;
    sd_truth_note("#cupti %d %s", (int)getpid(), line);
    errno = saved;
}

const char *cp_module(const void *address) {
    struct dl_find_object found;
    if (!address || _dl_find_object((void *)(uintptr_t)address, &found) != 0)
        return "?"; /* code made at run time */
    const char *path = found.dlfo_link_map->l_name;
    if (!path || !*path)
        path = program_invocation_name;
    const char *slash = strrchr(path, '/');
    return cp_intern(slash ? slash + 1 : path);
}

__thread enum cp_where cp_where;

int cp_misuse(const char *name, int allowed) {
    if (cp_where == CP_OUTSIDE || (cp_where & allowed))
        return 0;
    static const char *const places[] = {
        [CP_CALLBACK] = "callback", [CP_REQUEST] = "request", [CP_COMPLETE] = "complete"};
    int saved = errno;
    sd_truth_note("#misuse %d %s in=%s", (int)getpid(), name, places[cp_where]);
    errno = saved;
    return CUPTI_ERROR_INVALID_OPERATION;
}

CUptiResult cp_leave(struct standin_call *call, int status) {
    standin_leave(call, status);
    if (status)
        errno = ENOENT;
    return (CUptiResult)status;
}
