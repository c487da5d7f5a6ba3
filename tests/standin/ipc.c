/*
 * ipc.c - memory and events of one process in another. See ipc.h.
 */
#include "ipc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"
#include "stream.h"

#define MAGIC_MEMORY 0x4d4d454d43504953ull
#define MAGIC_EVENT 0x544e564543504953ull
#define HOST_PAGE 4096ull

/* The table of another process's device, mapped once and kept. */
struct foreign {
    struct foreign *next;
    uint64_t device, inode;
    struct ipc_table *table;
};
static struct foreign *foreigners;

/* Memory of another process, mapped here. */
struct import {
    struct import *next;
    struct ipc_handle handle;
    struct memory *memory;
    unsigned references;
    char *seen, *view; /* what was mapped: the addresses that programs see, and the bytes */
    uint64_t span;
};
static struct import *imports;

static uint64_t last_id;

/* ---- handles -------------------------------------------------------------------------------- */

/* The device's file, if the program left it alone. */
static int fill(struct device *device, uint64_t magic, struct ipc_handle *out) {
    struct stat st;
    const struct arena *arena = &device->arena;
    if (arena->fd < 0 || fstat(arena->fd, &st) != 0 || st.st_ino != arena->inode)
        return SD_OPERATING_SYSTEM;
    *out = (struct ipc_handle){.magic = magic,
                               .pid = (int)getpid(),
                               .fd = arena->fd,
                               .device = st.st_dev,
                               .inode = st.st_ino,
                               .ordinal = device->ordinal};
    return SD_OK;
}

/* A descriptor of the file that a handle names, or -1. */
static int open_file(const struct ipc_handle *handle) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == handle->inode && st.st_dev == handle->device)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static struct ipc_table *table_of(const struct ipc_handle *handle, int fd) {
    for (struct foreign *f = foreigners; f; f = f->next)
        if (f->inode == handle->inode && f->device == handle->device)
            return f->table;
    struct stat st;
    struct foreign *f = calloc(1, sizeof *f);
    if (!f || fstat(fd, &st) != 0)
        abort();
    void *table = mmap(NULL, ARENA_TABLE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       st.st_size - (off_t)ARENA_TABLE);
    if (table == MAP_FAILED) {
        free(f);
        return NULL;
    }
    madvise(table, ARENA_TABLE, MADV_DONTFORK);
    *f = (struct foreign){foreigners, handle->device, handle->inode, table};
    foreigners = f;
    return table;
}

/* What every opening of a handle begins with: its device here, its file, and the table. */
static int open_handle(const struct ipc_handle *handle, uint64_t magic, struct device **device,
                       struct ipc_table **table, int *fd) {
    if (handle->magic != magic)
        return SD_INVALID_VALUE;
    if (handle->pid == (int)getpid())
        return SD_NO_CONTEXT;
    int status = sd_device_context(handle->ordinal, device);
    if (status)
        return status;
    *fd = open_file(handle);
    if (*fd < 0)
        return SD_MAP_FAILED;
    *table = table_of(handle, *fd);
    if (*table)
        return SD_OK;
    close(*fd);
    return SD_MAP_FAILED;
}

/* ---- memory --------------------------------------------------------------------------------- */

static uint32_t slot_of(struct ipc_table *table, uint64_t id) {
    uint32_t slot = 0;
    while (slot < IPC_MEMORIES && table->memory[slot] != id)
        slot++;
    return slot;
}

int sd_ipc_export(struct memory *m, struct ipc_handle *out) {
    struct device *device = sd_device(m->device);
    struct ipc_table *table = device->arena.table;
    int status = fill(device, MAGIC_MEMORY, out);
    if (status)
        return status;
    uint32_t slot = slot_of(table, m->id);
    if (slot == IPC_MEMORIES)
        slot = slot_of(table, 0);
    if (slot == IPC_MEMORIES)
        return SD_OUT_OF_MEMORY;
    __atomic_store_n(&table->memory[slot], m->id, __ATOMIC_RELEASE);
    m->exported = true;
    out->offset = m->node.key - (uintptr_t)device->arena.base;
    out->size = m->size;
    out->id = m->id;
    out->slot = slot;
    return SD_OK;
}

void sd_ipc_forget(struct memory *m) {
    struct ipc_table *table = sd_device(m->device)->arena.table;
    uint32_t slot = slot_of(table, m->id);
    if (slot < IPC_MEMORIES)
        __atomic_store_n(&table->memory[slot], 0, __ATOMIC_RELEASE);
}

static struct import *import_of(const struct ipc_handle *handle) {
    struct import *i = imports;
    while (i && memcmp(&i->handle, handle, sizeof *handle) != 0)
        i = i->next;
    return i;
}

/* The pages of the file that hold it, mapped for copies and, untouchable, for programs. */
static bool map(struct import *import, int fd) {
    const struct ipc_handle *h = &import->handle;
    uint64_t first = h->offset & ~(HOST_PAGE - 1);
    import->span = (h->offset + h->size - first + HOST_PAGE - 1) & ~(HOST_PAGE - 1);
    import->view = mmap(NULL, import->span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)first);
    if (import->view == MAP_FAILED)
        return false;
    import->seen =
        mmap(NULL, import->span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (import->seen == MAP_FAILED) {
        munmap(import->view, import->span);
        return false;
    }
    madvise(import->view, import->span, MADV_DONTDUMP);
    madvise(import->view, import->span, MADV_DONTFORK);
    return true;
}

static int new_import(const struct ipc_handle *handle, struct device *device, int fd,
                      struct import **out) {
    struct import *import = calloc(1, sizeof *import);
    if (!import)
        abort();
    import->handle = *handle;
    if (!map(import, fd)) {
        free(import);
        return SD_MAP_FAILED;
    }
    uint64_t within = handle->offset & (HOST_PAGE - 1);
    import->memory = sd_memory_note(device, import->seen + within, handle->size, STANDIN_IPC,
                                    import->view + within);
    import->next = imports;
    imports = import;
    *out = import;
    return SD_OK;
}

int sd_ipc_open(const struct ipc_handle *handle, struct memory **out) {
    struct device *device;
    struct ipc_table *table;
    int fd;
    int status = open_handle(handle, MAGIC_MEMORY, &device, &table, &fd);
    if (status)
        return status;
    struct import *import = import_of(handle);
    if (handle->slot >= IPC_MEMORIES ||
        __atomic_load_n(&table->memory[handle->slot], __ATOMIC_ACQUIRE) != handle->id)
        status = SD_MAP_FAILED;
    else if (!import)
        status = new_import(handle, device, fd, &import);
    close(fd);
    if (status)
        return status;
    import->references++;
    *out = import->memory;
    return SD_OK;
}

static void delete_import(struct import **link) {
    struct import *import = *link;
    *link = import->next;
    munmap(import->view, import->span);
    munmap(import->seen, import->span);
    sd_memory_forget(import->memory);
    free(import);
}

void sd_ipc_close(struct memory *memory) {
    struct import **link = &imports;
    while ((*link)->memory != memory)
        link = &(*link)->next;
    if (--(*link)->references == 0)
        delete_import(link);
}

void sd_ipc_reset(struct device *device) {
    for (struct import **link = &imports; *link;)
        if ((*link)->memory->device == device->ordinal)
            delete_import(link);
        else
            link = &(*link)->next;
}

/* ---- events --------------------------------------------------------------------------------- */

struct ipc_event *sd_ipc_event_new(struct device *device) {
    struct ipc_event *events = device->arena.table->event;
    for (uint32_t i = 0; i < IPC_EVENTS; i++)
        if (!events[i].id) {
            events[i].id = ++last_id; /* tickets go on: a late record of the last owner */
            return &events[i];
        }
    return NULL;
}

void sd_ipc_event_delete(struct ipc_event *event) {
    __atomic_store_n(&event->id, 0, __ATOMIC_RELEASE);
}

int sd_ipc_event_export(const struct event *event, struct ipc_handle *out) {
    if (!event->shared || event->imported)
        return SD_INVALID_HANDLE;
    int status = fill(event->device, MAGIC_EVENT, out);
    if (status)
        return status;
    out->id = event->shared->id;
    out->slot = (uint32_t)(event->shared - event->device->arena.table->event);
    return SD_OK;
}

int sd_ipc_event_open(const struct ipc_handle *handle, struct event **out) {
    struct device *device;
    struct ipc_table *table;
    int fd;
    int status = open_handle(handle, MAGIC_EVENT, &device, &table, &fd);
    if (status)
        return status;
    close(fd);
    if (handle->slot >= IPC_EVENTS ||
        __atomic_load_n(&table->event[handle->slot].id, __ATOMIC_ACQUIRE) != handle->id)
        return SD_MAP_FAILED;
    struct event *event = sd_event_new(device, 2);
    event->shared = &table->event[handle->slot];
    event->imported = true;
    *out = event;
    return SD_OK;
}

void sd_ipc_event_record(struct ipc_event *event, struct marker *marker) {
    marker->shared = event;
    marker->ticket = __atomic_add_fetch(&event->recorded, 1, __ATOMIC_ACQ_REL);
    if (marker->done)
        sd_ipc_event_reach(marker);
}

void sd_ipc_event_reach(const struct marker *marker) {
    if (!marker->shared)
        return;
    uint64_t done = __atomic_load_n(&marker->shared->done, __ATOMIC_ACQUIRE);
    while (done < marker->ticket &&
           !__atomic_compare_exchange_n(&marker->shared->done, &done, marker->ticket, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
}

static bool reached(const struct ipc_event *event, uint64_t ticket) {
    return __atomic_load_n(&event->done, __ATOMIC_ACQUIRE) >= ticket;
}

bool sd_ipc_event_done(const struct ipc_event *event) {
    return reached(event, __atomic_load_n(&event->recorded, __ATOMIC_ACQUIRE));
}

void sd_ipc_event_wait(const struct ipc_event *event) {
    uint64_t ticket = __atomic_load_n(&event->recorded, __ATOMIC_ACQUIRE);
    const struct timespec moment = {0, 20000};
    while (!reached(event, ticket)) {
        pthread_mutex_unlock(&sd_core);
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&sd_core);
    }
}
