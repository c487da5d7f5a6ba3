/*
 * modules.c - following loads and unloads. See modules.h.
 *
 * Any thread, inside a recorded call; dlclose() in any thread at any time. Lock order:
 * modules_lock, then the spool's. From glibc 2.35 on the loader's locks are never taken here.
 */
#include "modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "export.h"
#include "lock.h"
#include "spool.h"
#include "unwind.h"

#define MODULES_MAX 4096

struct module {
    uint64_t start, end;
};

static struct module told[MODULES_MAX]; /* those that have a record in `told_generation` */
static uint32_t told_count, told_generation;
static _Atomic uint32_t generation = 1;

uint32_t ls_modules_generation(void) {
    return atomic_load_explicit(&generation, memory_order_acquire);
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
bool ls_module_find(void *code, struct ls_module *found) {
    struct dl_find_object object;
    if (_dl_find_object(code, &object) != 0)
        return false;
    *found = (struct ls_module){object.dlfo_link_map, object.dlfo_map_start, object.dlfo_map_end};
    return true;
}
#else
/* Before glibc 2.35: under the loader's lock, which a fork at this moment would copy held. */
bool ls_module_find(void *code, struct ls_module *found) {
    struct link_map *map;
    Dl_info info;
    if (!dladdr1(code, &info, (void **)&map, RTLD_DL_LINKMAP))
        return false;
    const ElfW(Ehdr) *elf = info.dli_fbase;
    const ElfW(Phdr) *segment = (const void *)((const char *)elf + elf->e_phoff);
    *found = (struct ls_module){map, info.dli_fbase, info.dli_fbase};
    for (int i = 0; i < elf->e_phnum; i++)
        if (segment[i].p_type == PT_LOAD)
            found->end = (const char *)map->l_addr + segment[i].p_vaddr + segment[i].p_memsz;
    return true;
}
#endif

/* Is the library behind a dlopen handle still where it was? */
static bool is_mapped(const struct link_map *map, const void *dynamic) {
    struct ls_module found;
    return ls_module_find((void *)(uintptr_t)dynamic, &found) && found.map == map;
}

/* Interposed: after it, another library may lie where one was. Most calls only lower a count; what
 * a library brought along goes with it at the earliest. */
LS_EXPORT int dlclose(void *handle) {
    static int (*_Atomic real)(void *);
    int (*function)(void *) = atomic_load_explicit(&real, memory_order_relaxed);
    if (!function) {
        function = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
        if (!function)
            return -1;
        atomic_store_explicit(&real, function, memory_order_relaxed);
    }
    const struct link_map *map = NULL;
    const void *dynamic = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map)
        dynamic = map->l_ld;
    int result = function(handle);
    if (!dynamic || !is_mapped(map, dynamic)) {
        atomic_fetch_add(&generation, 1);
        __atomic_add_fetch(&ls_unw_generation, 1, __ATOMIC_RELEASE);
    }
    return result;
}

struct build_id {
    const uint8_t *bytes;
    uint32_t size;
};

/* From the program headers, which the first mapped page holds in every linker's output. */
static struct build_id find_build_id(const char *map_start, uint64_t bias, uint64_t map_end) {
    const ElfW(Ehdr) *elf = (const void *)map_start;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 || elf->e_phentsize != sizeof(ElfW(Phdr)) ||
        elf->e_phoff + elf->e_phnum * sizeof(ElfW(Phdr)) > 4096)
        return (struct build_id){0};
    const ElfW(Phdr) *segment = (const void *)(map_start + elf->e_phoff);
    for (int i = 0; i < elf->e_phnum; i++, segment++) {
        uint64_t at = bias + segment->p_vaddr, end = at + segment->p_memsz;
        if (segment->p_type != PT_NOTE || at < (uintptr_t)map_start || end > map_end)
            continue;
        while (at < end && end - at >= sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const void *)(uintptr_t)at;
            uint64_t bytes = at + sizeof *note + ((note->n_namesz + 3u) & ~3u);
            if (bytes + note->n_descsz > end)
                break;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz <= 32)
                return (struct build_id){(const uint8_t *)(uintptr_t)bytes, note->n_descsz};
            at = bytes + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return (struct build_id){0};
}

/* The loader's name made absolute: empty for the main program, relative as given to dlopen. */
static void absolute_path(char *out, size_t size, const char *name) {
    size_t used = 0, length = strlen(name);
    out[0] = 0;
    if (!*name) {
        ssize_t n = readlink("/proc/self/exe", out, size - 1);
        out[n > 0 ? n : 0] = 0;
        return;
    }
    if (*name != '/' && strchr(name, '/') && getcwd(out, size - 1)) {
        used = strlen(out);
        out[used++] = '/';
    }
    if (length > size - used - 1)
        length = size - used - 1;
    memcpy(out + used, name, length);
    out[used + length] = 0;
}

static void write_module(struct ls_thread *self, const struct ls_module *found, uint32_t since) {
    char path[LS_PATH_MAX];
    uint64_t bias = found->map->l_addr, end = (uintptr_t)found->end;
    absolute_path(path, sizeof path, found->map->l_name);
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_module) + strlen(path) + 1 + 7) & ~7u;
    struct ls_rec_module *record = ls_spool_reserve(self, size);
    if (!record)
        return;
    struct build_id id = find_build_id(found->start, bias, end);
    memset(record, 0, size);
    record->head.size = (uint16_t)size;
    record->head.type = LS_REC_MODULE;
    record->bias = bias;
    record->start = (uintptr_t)found->start;
    record->end = end;
    record->modules = since;
    record->build_id_size = id.size;
    if (id.size)
        memcpy(record->build_id, id.bytes, id.size);
    strcpy(record->path, path);
    ls_spool_commit(self, size);
}

static bool is_told(uint64_t address) {
    for (uint32_t i = 0; i < told_count; i++)
        if (address >= told[i].start && address < told[i].end)
            return true;
    return false;
}

void ls_modules_describe(struct ls_thread *self, void *const *address, uint32_t count,
                         uint32_t now) {
    ls_lock(LS_LOCK_MODULES);
    if (told_generation != now) { /* a late thread's older one is told again, too */
        told_generation = now;
        told_count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct ls_module found;
        void *code = (char *)address[i] - 1; /* a return address may be one past its function */
        if (is_told((uintptr_t)code) || told_count == MODULES_MAX || !ls_module_find(code, &found))
            continue;
        told[told_count++] = (struct module){(uintptr_t)found.start, (uintptr_t)found.end};
        write_module(self, &found, now);
    }
    ls_unlock(LS_LOCK_MODULES);
}

void ls_modules_fork_reset(void) {
    told_count = 0;
    told_generation = 0;
}
