/*
 * resolve.c - finding real functions. See resolve.h.
 *
 * Any thread, at the first call of each function. dlsym and dlopen(NOLOAD) take the loader's
 * locks, which the thread may hold already (they are recursive); nothing of ours is held.
 */
#include "resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "layoutspy/table.h"

void *_Atomic ls_real_function[LS_API_COUNT];

static const struct {
    const char *soname, *versions;
} libraries[LS_LIB_COUNT] = {
#define LIBRARY(ID, name, soname, versions, missing) [LS_LIB_##ID] = {soname, versions},
#include "layoutspy/api/library.def"
};

static const void *own_base(void) {
    static const void *base;
    Dl_info info;
    if (!base && dladdr((void *)own_base, &info))
        base = info.dli_fbase;
    return base;
}

/*
 * Not ours, and kept: the library that holds it must not be unloaded while we have its address,
 * so its count is raised for good.
 */
static void *keep(void *function) {
    Dl_info info;
    if (!function || !dladdr(function, &info) || info.dli_fbase == own_base())
        return NULL;
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return function;
}

static void *in_loaded_library(const char *soname, const char *name) {
    void *handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    void *function = keep(dlsym(handle, name));
    dlclose(handle);
    return function;
}

/* libcudart.so.13, libcudart.so.12, ..., libcudart.so */
static void *by_soname(enum ls_lib lib, const char *name) {
    const char *p = libraries[lib].versions;
    char soname[64];
    while (*p) {
        int length = (int)strcspn(p, " ");
        snprintf(soname, sizeof soname, "%s.%.*s", libraries[lib].soname, length, p);
        void *function = in_loaded_library(soname, name);
        if (function)
            return function;
        p += length;
        p += strspn(p, " ");
    }
    return in_loaded_library(libraries[lib].soname, name);
}

static void *by_caller(void *caller, const char *name) {
    Dl_info info;
    if (!caller || !dladdr(caller, &info) || !info.dli_fname)
        return NULL;
    return in_loaded_library(info.dli_fname, name);
}

static void *look(enum ls_lib lib, const char *name, void *caller) {
    void *function = keep(dlsym(RTLD_NEXT, name));
    if (!function)
        function = by_soname(lib, name);
    if (!function)
        function = by_caller(caller, name);
    return function;
}

void *ls_resolve(enum ls_api api, void *caller) {
    int saved = errno;
    void *function = look(ls_api_info[api].lib, ls_api_info[api].name, caller);
    if (function)
        atomic_store_explicit(&ls_real_function[api], function, memory_order_release);
    errno = saved;
    return function;
}

void *ls_resolve_other(enum ls_lib lib, const char *name) {
    int saved = errno;
    void *function = look(lib, name, NULL);
    errno = saved;
    return function;
}
