/*
 * dlsym.c - liblayoutspy-dlsym.so: programs that look the driver's functions up with dlsym() are
 * handed liblayoutspy.so's wrappers. A preload of its own, beside liblayoutspy.so; without that one
 * it passes everything on.
 *
 * It takes part only in lookups of a driver's function by its exact name in a library's handle, and
 * gives a wrapper only for the very function that the wrapper calls. Every other lookup reaches the
 * next dlsym() by a jump: its handle, its arguments and its return address, by which RTLD_NEXT and
 * RTLD_DEFAULT are told, are the caller's own. Names by a prefix would not do: libraries look up
 * names of their own that begin with "cu" (cuDNN's front, in the libraries behind it).
 *
 * dlvsym() is left alone: libcuda has no versions of symbols to ask for.
 *
 * Any thread that calls dlsym(); not async-signal-safe, as dlsym() is not. errno is kept.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* preload/driver.c; NULL where liblayoutspy.so is not loaded. */
__attribute__((weak)) void *layoutspy_driver_wrapper(const char *symbol, void *function);

typedef void *(*lookup)(void *handle, const char *name);
__attribute__((visibility("hidden"))) lookup _Atomic ls_next_dlsym;
__attribute__((visibility("hidden"))) void *ls_take(void *handle, const char *name, void *caller);

/* ls_take() may answer; otherwise on to the next one as if we had never been here. */
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    movq 24(%rsp), %rdx\n"
        "    call ls_take\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jne 1f\n"
        "    jmp *ls_next_dlsym(%rip)\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, . - dlsym\n");

/* Of the C library, or of another interposer behind us. */
static lookup next_dlsym(void) {
    lookup next = atomic_load_explicit(&ls_next_dlsym, memory_order_acquire);
    if (next)
        return next;
    void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    memcpy(&next, &found, sizeof next);
    atomic_store_explicit(&ls_next_dlsym, next, memory_order_release);
    return next;
}

static const char *file_of(const void *address, Dl_info *info) {
    if (!dladdr(address, info) || !info->dli_fname)
        return "";
    const char *slash = strrchr(info->dli_fname, '/');
    return slash ? slash + 1 : info->dli_fname;
}

/* Their calls of the driver are part of calls that are recorded, or are the driver's own. */
static bool is_apart(const void *caller) {
    static const char *const files[] = {"liblayoutspy", "libcudart.", "libcuda.",
                                        "libcupti.",    "libnv",      "libcudadebugger."};
    Dl_info info;
    const char *file = file_of(caller, &info);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strncmp(file, files[i], strlen(files[i])) == 0)
            return true;
    return strncmp(file, "libcudart-", 10) == 0; /* as wheels rename it */
}

/* ---- cuGetProcAddress: the driver's own way to ask --------------------------------------------
 */

typedef int (*get_old)(const char *, void **, int, unsigned long long);
typedef int (*get_new)(const char *, void **, int, unsigned long long, void *);
static void *_Atomic real_old, *_Atomic real_new;

static void *substitute(const char *symbol, void *function);

static int our_old(const char *symbol, void **function, int version, unsigned long long flags) {
    void *address = atomic_load(&real_old);
    get_old real;
    memcpy(&real, &address, sizeof real);
    int status = real(symbol, function, version, flags);
    if (status == 0 && symbol && function && *function)
        *function = substitute(symbol, *function);
    return status;
}

static int our_new(const char *symbol, void **function, int version, unsigned long long flags,
                   void *found) {
    void *address = atomic_load(&real_new);
    get_new real;
    memcpy(&real, &address, sizeof real);
    int status = real(symbol, function, version, flags, found);
    if (status == 0 && symbol && function && *function)
        *function = substitute(symbol, *function);
    return status;
}

static void *substitute(const char *symbol, void *function) {
    if (function == atomic_load(&real_new))
        return (void *)our_new;
    if (function == atomic_load(&real_old))
        return (void *)our_old;
    void *wrapper = layoutspy_driver_wrapper(symbol, function);
    return wrapper ? wrapper : function;
}

/* The first one that lies in libcuda is the driver's; there is one driver in a process. */
static void learn(void *_Atomic *real, void *function) {
    Dl_info info;
    void *none = NULL;
    if (strncmp(file_of(function, &info), "libcuda.so", 10) == 0)
        atomic_compare_exchange_strong(real, &none, function);
}

/* ---- the lookup -------------------------------------------------------------------------------
 */

static void *look(void *handle, const char *name) {
    void *found = next_dlsym()(handle, name);
    if (!found)
        return NULL;
    if (strcmp(name, "cuGetProcAddress_v2") == 0)
        learn(&real_new, found);
    else if (strcmp(name, "cuGetProcAddress") == 0)
        learn(&real_old, found);
    return substitute(name, found);
}

/* What dlsym() is to return; NULL: what the next one says. */
void *ls_take(void *handle, const char *name, void *caller) {
    int saved = errno;
    void *found = NULL;
    bool driver = name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
    next_dlsym();
    if (driver && handle != RTLD_NEXT && handle != RTLD_DEFAULT && layoutspy_driver_wrapper &&
        !is_apart(caller))
        found = look(handle, name);
    errno = saved;
    return found;
}
