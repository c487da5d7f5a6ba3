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
#include <sys/mman.h>

#include "layoutspy/table.h"
#include "lock.h"
#include "modules.h"

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

/* ---- several runtimes ---- */

_Atomic bool ls_several_runtimes;

/* What calls from one module lead to, in one generation of modules (modules.h): after an unload
 * another library may come to lie where one was. Full: the slow way each time. */
#define CALLERS_MAX 512
struct caller {
    const void *start, *end;
    void *function[LS_API_COUNT];
};
static struct caller *callers;
static uint32_t caller_count, caller_generation;

static struct caller *known_caller(const void *code) {
    for (uint32_t i = 0; i < caller_count; i++)
        if (code >= callers[i].start && code < callers[i].end)
            return &callers[i];
    return NULL;
}

static void *known_function(enum ls_api api, const void *code, uint32_t generation) {
    ls_lock(LS_LOCK_RESOLVE);
    struct caller *caller = caller_generation == generation ? known_caller(code) : NULL;
    void *function = caller ? caller->function[api] : NULL;
    ls_unlock(LS_LOCK_RESOLVE);
    return function;
}

static void remember_function(enum ls_api api, void *code, uint32_t generation, void *function) {
    struct ls_module module;
    if (!ls_module_find(code, &module))
        return;
    ls_lock(LS_LOCK_RESOLVE);
    if (!callers) {
        void *map = mmap(NULL, CALLERS_MAX * sizeof *callers, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        callers = map == MAP_FAILED ? NULL : map;
    }
    if (caller_generation != generation) {
        caller_generation = generation;
        caller_count = 0;
    }
    struct caller *caller = callers ? known_caller(code) : NULL;
    if (callers && !caller && caller_count < CALLERS_MAX) {
        caller = &callers[caller_count++];
        *caller = (struct caller){.start = module.start, .end = module.end};
    }
    if (caller)
        caller->function[api] = function;
    ls_unlock(LS_LOCK_RESOLVE);
}

/* Does the function lie in the library itself, by its file's name? */
static bool is_of(enum ls_lib lib, void *function) {
    Dl_info info;
    if (!dladdr(function, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *soname = libraries[lib].soname;
    return strncmp(slash ? slash + 1 : info.dli_fname, soname, strlen(soname)) == 0;
}

void *ls_resolve_for_caller(enum ls_api api, void *caller) {
    uint32_t generation = ls_modules_generation();
    void *function = known_function(api, caller, generation);
    if (function)
        return function;
    int saved = errno;
    void *usual = atomic_load_explicit(&ls_real_function[api], memory_order_acquire);
    if (!usual)
        usual = ls_resolve(api, caller);
    /* Another interposer behind us passes calls on as it thinks right. */
    void *own = usual && is_of(ls_api_info[api].lib, usual)
                    ? by_caller(caller, ls_api_info[api].name)
                    : NULL;
    if (own && own != usual)
        atomic_store(&ls_several_runtimes, true);
    function = own ? own : usual;
    if (function)
        remember_function(api, caller, generation, function);
    errno = saved;
    return function;
}

static bool allocators_call(const struct ls_api_info *info) {
    switch (info->cls) {
    case LS_CLASS_DEVICE_ALLOC:
    case LS_CLASS_ASYNC_ALLOC:
    case LS_CLASS_PINNED_ALLOC:
    case LS_CLASS_REGISTER:
    case LS_CLASS_FREE:
    case LS_CLASS_UNREGISTER:
    case LS_CLASS_EVENT:
    case LS_CLASS_MEM_INFO:
        return true;
    case LS_CLASS_SYNC: /* cudaEventQuery */
        return info->field_count > 0;
    case LS_CLASS_VMM:
    case LS_CLASS_VMM_MAP:
    case LS_CLASS_VMM_UNMAP:
        return true;
    default:
        return info->lib == LS_LIB_C10;
    }
}

/* The driver has one name, and looking for each of its functions where it is not loaded yet would
 * cost a recording's start milliseconds. */
static bool driver_is_loaded(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

void ls_resolve_all(void) {
    bool driver = driver_is_loaded();
    for (int api = 1; api < LS_API_COUNT; api++)
        if (allocators_call(&ls_api_info[api]) && !atomic_load(&ls_real_function[api]) &&
            (driver || ls_api_info[api].lib != LS_LIB_CUDA))
            ls_resolve((enum ls_api)api, NULL);
}

void *ls_resolve_other(enum ls_lib lib, const char *name) {
    int saved = errno;
    void *function = look(lib, name, NULL);
    errno = saved;
    return function;
}
