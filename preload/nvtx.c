/*
 * nvtx.c - NVTX's calls, taken from its loader. See nvtx.h.
 *
 * Any thread. Texts are copied as they come: wide ones become UTF-8, registered ones were kept at
 * their registration. errno is kept: nothing here sets it (nvtx_ranges.c keeps it around mmap).
 */
#include "nvtx.h"

#include <dlfcn.h>
#include <string.h>
#include <wchar.h>

#include "export.h"
#include "nvtx_abi.h"
#include "utf8.h"

typedef const struct ls_nvtx_attributes *attributes;

/* What nvtx_ranges.c calls "" where it has no text. */
static char strings[LS_NVTX_STRINGS];
static _Atomic uint32_t strings_used;

/* Into `to`, which has room for what a mark keeps, cut between characters. */
static const char *narrow(char to[LS_MARK_TEXT + 8], const wchar_t *text) {
    uint32_t at = 0;
    for (; *text && at <= LS_MARK_TEXT; text++)
        at += (uint32_t)ls_utf8((uint32_t)*text, to + at);
    to[at] = '\0';
    return to;
}

static const char *plain(const char *text) {
    return text ? text : "";
}

static const char *wide(char room[LS_MARK_TEXT + 8], const wchar_t *text) {
    return text ? narrow(room, text) : "";
}

static const char *text_of(char room[LS_MARK_TEXT + 8], attributes a) {
    if (!a || a->size < sizeof *a || !a->message)
        return "";
    uintptr_t in_strings = (uintptr_t)a->message - (uintptr_t)strings;
    switch (a->message_type) {
    case LS_NVTX_ASCII:
        return a->message;
    case LS_NVTX_UNICODE:
        return narrow(room, a->message);
    case LS_NVTX_REGISTERED:
        return in_strings < sizeof strings ? a->message : "";
    default:
        return "";
    }
}

#define ROOM                                                                                       \
    char room[LS_MARK_TEXT + 8];                                                                   \
    room[0] = '\0'

static void on_MarkEx(attributes a) {
    ROOM;
    ls_nvtx_point(0, text_of(room, a));
}

static void on_MarkA(const char *text) {
    ls_nvtx_point(0, plain(text));
}

static void on_MarkW(const wchar_t *text) {
    ROOM;
    ls_nvtx_point(0, wide(room, text));
}

static uint64_t on_RangeStartEx(attributes a) {
    ROOM;
    return ls_nvtx_start(0, text_of(room, a));
}

static uint64_t on_RangeStartA(const char *text) {
    return ls_nvtx_start(0, plain(text));
}

static uint64_t on_RangeStartW(const wchar_t *text) {
    ROOM;
    return ls_nvtx_start(0, wide(room, text));
}

static void on_RangeEnd(uint64_t id) {
    ls_nvtx_end(0, id);
}

static int on_RangePushEx(attributes a) {
    ROOM;
    return ls_nvtx_push(0, text_of(room, a));
}

static int on_RangePushA(const char *text) {
    return ls_nvtx_push(0, plain(text));
}

static int on_RangePushW(const wchar_t *text) {
    ROOM;
    return ls_nvtx_push(0, wide(room, text));
}

static int on_RangePop(void) {
    return ls_nvtx_pop(0);
}

static void on_DomainMarkEx(const void *domain, attributes a) {
    ROOM;
    ls_nvtx_point(ls_nvtx_domain_of(domain), text_of(room, a));
}

static uint64_t on_DomainRangeStartEx(const void *domain, attributes a) {
    ROOM;
    return ls_nvtx_start(ls_nvtx_domain_of(domain), text_of(room, a));
}

static void on_DomainRangeEnd(const void *domain, uint64_t id) {
    ls_nvtx_end(ls_nvtx_domain_of(domain), id);
}

static int on_DomainRangePushEx(const void *domain, attributes a) {
    ROOM;
    return ls_nvtx_push(ls_nvtx_domain_of(domain), text_of(room, a));
}

static int on_DomainRangePop(const void *domain) {
    return ls_nvtx_pop(ls_nvtx_domain_of(domain));
}

/* Kept for the life of the process, as NVTX promises. The handle is the text's address; where there
 * is no room left, that of "". */
static const void *on_DomainRegisterStringA(const void *domain, const char *text) {
    (void)domain;
    static const uint32_t first = 1; /* strings[0] is "" */
    uint32_t length = ls_mark_length(plain(text)) + 1;
    uint32_t used = atomic_load(&strings_used), at;
    do {
        at = used ? used : first;
        if (length > sizeof strings - at)
            return strings;
    } while (!atomic_compare_exchange_weak(&strings_used, &used, at + length));
    memcpy(strings + at, plain(text), length - 1);
    return strings + at;
}

static const void *on_DomainRegisterStringW(const void *domain, const wchar_t *text) {
    ROOM;
    return on_DomainRegisterStringA(domain, wide(room, text));
}

static void *on_DomainCreateA(const char *name) {
    return ls_nvtx_domain_handle(ls_nvtx_domain(plain(name)));
}

static void *on_DomainCreateW(const wchar_t *name) {
    ROOM;
    return on_DomainCreateA(wide(room, name));
}

static const struct {
    int module;
    unsigned number;
    ls_nvtx_function function;
} handlers[] = {
#define HANDLED(module, number, name)                                                              \
    {LS_NVTX_MODULE_##module, number, (ls_nvtx_function)on_##name},
    LS_NVTX_HANDLED
#undef HANDLED
};

LS_EXPORT int InitializeInjectionNvtx2(ls_nvtx_get_table get_table);

/*
 * The variable may name another copy of this library than the one that is preloaded: the calls are
 * recorded there. Looked for in the program's global scope: a library that NVTX loaded is in none.
 * NULL: nothing of ours is preloaded, so nothing is recorded in this process.
 */
static int (*preloaded(void))(ls_nvtx_get_table) {
    Dl_info info;
    void *init = NULL;
    void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    void *step = program ? dlsym(program, "layoutspy_step") : NULL;
    if (step && dladdr(step, &info) && info.dli_fname) {
        void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        init = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
        if (library)
            dlclose(library);
    }
    if (program)
        dlclose(program);
    return (int (*)(ls_nvtx_get_table))init;
}

/* NVTX's loader, at the first NVTX call of each library that carries one: 1 taken, 0 not wanted. */
LS_EXPORT int InitializeInjectionNvtx2(ls_nvtx_get_table get_table) {
    int (*initialize)(ls_nvtx_get_table) = preloaded();
    if (initialize != InitializeInjectionNvtx2)
        return initialize ? initialize(get_table) : 0;
    const struct ls_nvtx_callbacks *callbacks = get_table(LS_NVTX_ETID_CALLBACKS);
    if (!callbacks || callbacks->struct_size < sizeof *callbacks)
        return 0;
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        ls_nvtx_function **table;
        unsigned count;
        if (callbacks->module_table(handlers[i].module, &table, &count) &&
            handlers[i].number < count && table[handlers[i].number])
            *table[handlers[i].number] = handlers[i].function;
    }
    return 1;
}
