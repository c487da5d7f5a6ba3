/*
 * load.c - see load.h. dlopen and dlsym: at a recording's start alone, no lock of ours held.
 */
#include "load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "layoutspy/api.h"
#include "resolve.h"

struct ls_cupti_functions ls_cupti;

/* Arrays, not pointers: each of these would be relocated in every process that inherits us.
 * Sonames, newest first: CUDA 11 had one for each of its releases. */
static const char versions[][6] = {"13",   "12",   "11.8", "11.7", "11.6", "11.5",
                                   "11.4", "11.3", "11.2", "11.1", "11.0", "11"};
#define VERSIONS (sizeof versions / sizeof *versions)

/* From the folder of the CUDA runtime: a toolkit's, its extras, the wheels' of PyTorch (12, 13). */
static const char beside[][40] = {"", "../extras/CUPTI/lib64/", "../../../extras/CUPTI/lib64/",
                                  "../../cuda_cupti/lib/", "../../cu13/lib/"};
#define BESIDE (sizeof beside / sizeof *beside)

static void *handle;

static bool is_whole(void *library, const char **missing) {
#define MUST(name)                                                                                 \
    if (!dlsym(library, name)) {                                                                   \
        *missing = name;                                                                           \
        return false;                                                                              \
    }
#define MAY(name)
#define FN(NEED, name, params) NEED(#name)
#include "functions.def"
#undef MUST
#undef MAY
    return true;
}

static void take(void *library) {
    handle = library;
#define FN(NEED, name, params)                                                                     \
    {                                                                                              \
        void *symbol = dlsym(library, #name);                                                      \
        memcpy(&ls_cupti.name, &symbol, sizeof symbol);                                            \
    }
#include "functions.def"
}

/* Where the CUDA runtime lies, with its slash; "" unknown. */
static void runtime_folder(char *folder, size_t size) {
    Dl_info info;
    void *function = ls_resolve_other(LS_LIB_CUDART, "cudaMalloc");
    folder[0] = 0;
    if (!function || !dladdr(function, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    if (slash)
        snprintf(folder, size, "%.*s/", (int)(slash - info.dli_fname), info.dli_fname);
}

static void *open_named(const char *folder, const char *version, int flags) {
    char name[PATH_MAX];
    if (snprintf(name, sizeof name, "%slibcupti.so.%s", folder, version) >= (int)sizeof name)
        return NULL;
    return dlopen(name, flags);
}

static void *find(void) {
    char folder[PATH_MAX], place[2 * PATH_MAX];
    void *library = NULL;
    for (size_t v = 0; v < VERSIONS && !library; v++)
        library = open_named("", versions[v], RTLD_LAZY | RTLD_NOLOAD);
    runtime_folder(folder, sizeof folder);
    for (size_t i = 0; i < BESIDE && *folder && !library; i++) {
        snprintf(place, sizeof place, "%s%s", folder, beside[i]);
        for (size_t v = 0; v < VERSIONS && !library; v++)
            library = open_named(place, versions[v], RTLD_LAZY | RTLD_LOCAL);
    }
    for (size_t v = 0; v < VERSIONS && !library; v++)
        library = open_named("", versions[v], RTLD_LAZY | RTLD_LOCAL);
    return library;
}

/*
 * Some versions of CUPTI (13.2) end the process when any of their functions is called where the
 * driver does not work. The call that starts a recording initialises the driver in any case; this
 * does it a moment earlier.
 */
static bool driver_works(char *why, size_t why_size) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned int) = NULL;
    void *symbol = driver ? dlsym(driver, "cuInit") : NULL;
    memcpy(&init, &symbol, sizeof symbol);
    int status = init ? init(0) : -1;
    if (status == -1)
        snprintf(why, why_size, "there is no CUDA driver (libcuda.so.1)");
    else if (status != 0)
        snprintf(why, why_size, "the CUDA driver does not start: cuInit gave %d", status);
    return status == 0;
}

bool ls_cupti_load(char *path, size_t path_size, char *why, size_t why_size) {
    const char *missing = NULL;
    Dl_info info;
    if (!driver_works(why, why_size))
        return false;
    void *library = handle ? handle : find();
    if (!library) {
        snprintf(why, why_size,
                 "no libcupti.so of CUDA 11 to 13 in the process, beside the CUDA runtime or where "
                 "the loader looks");
        return false;
    }
    if (!handle && !is_whole(library, &missing)) {
        snprintf(why, why_size, "the libcupti.so that was found has no %s", missing);
        dlclose(library);
        return false;
    }
    if (!handle)
        take(library);
    snprintf(path, path_size, "%s",
             dladdr((void *)ls_cupti.cuptiSubscribe, &info) && info.dli_fname ? info.dli_fname
                                                                              : "");
    return true;
}
