/*
 * spool_read.c - mapping and checking a spool. See spool_read.h.
 * One thread; not async-signal-safe.
 */
#include "spool_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layoutspy/table.h"

#define DIRECTORY_OFFSET (LS_SPOOL_HEADER_SIZE - LS_CHUNK_MAX * sizeof(struct ls_chunk_slot))

enum slot_state { SLOT_UNSEEN, SLOT_GOOD, SLOT_BAD };

static struct ls_chunk_slot *slot_at(const struct ls_spool *spool, uint32_t slot) {
    return (struct ls_chunk_slot *)(spool->map + DIRECTORY_OFFSET) + slot;
}

static struct ls_chunk *chunk_at(const struct ls_spool *spool, uint32_t slot) {
    return (struct ls_chunk *)(spool->map + spool->slot[slot].offset);
}

/* Map what the file holds now; growing only, since the target never cuts it. */
static bool map_file(struct ls_spool *spool) {
    struct stat st;
    if (fstat(spool->fd, &st) != 0)
        return false;
    size_t size = (size_t)st.st_size;
    if (size <= spool->file_size)
        return spool->map != NULL;
    int protection = PROT_READ | (spool->writable ? PROT_WRITE : 0);
    void *map = spool->map ? mremap(spool->map, spool->mapped, size, MREMAP_MAYMOVE)
                           : mmap(NULL, size, protection, MAP_SHARED, spool->fd, 0);
    if (map == MAP_FAILED)
        return false;
    size_t units = size / LS_CHUNK_MIN + 1;
    uint8_t *used = realloc(spool->unit_used, units);
    spool->map = map;
    spool->mapped = size;
    if (!used)
        return false;
    memset(used + spool->units, 0, units - spool->units);
    spool->unit_used = used;
    spool->units = units;
    spool->file_size = size;
    spool->header = map;
    return true;
}

static bool check_header(struct ls_spool *spool, char *why, size_t size) {
    struct ls_spool_header *start = &spool->start;
    memcpy(start, spool->header, sizeof *start);
    start->boot_id[sizeof start->boot_id - 1] = 0;
    start->trace_path[sizeof start->trace_path - 1] = 0;
    if (memcmp(start->magic, LS_SPOOL_MAGIC, sizeof start->magic) != 0) {
        snprintf(why, size, "not a layoutspy spool");
    } else if (start->version != LS_SPOOL_VERSION || start->table_hash != ls_table_hash()) {
        snprintf(why, size,
                 "a spool written by another version of layoutspy; read it with that version's "
                 "`layoutspy collect`");
    } else if (start->header_size != LS_SPOOL_HEADER_SIZE || start->trace_path[0] != '/') {
        snprintf(why, size, "the spool's header is damaged; nothing can be read from it");
    } else {
        return true;
    }
    return false;
}

enum ls_spool_result ls_spool_open(struct ls_spool *spool, const char *path, char *why,
                                   size_t size) {
    memset(spool, 0, sizeof *spool);
    snprintf(spool->path, sizeof spool->path, "%s", path);
    spool->writable = true;
    spool->fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (spool->fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
        spool->writable = false;
        spool->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    if (spool->fd < 0) {
        enum ls_spool_result result =
            errno == ENOENT || errno == ENOTDIR ? LS_SPOOL_MISSING : LS_SPOOL_UNREADABLE;
        snprintf(why, size, "cannot open the spool: %s", strerror(errno));
        return result;
    }
    struct stat st;
    enum ls_spool_result result = LS_SPOOL_BAD;
    if (fstat(spool->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        snprintf(why, size, "not a layoutspy spool");
        result = LS_SPOOL_UNREADABLE;
    } else if ((size_t)st.st_size < LS_SPOOL_HEADER_SIZE) {
        snprintf(why, size, "not a layoutspy spool, or one that is cut off in its header");
    } else if (!map_file(spool)) {
        snprintf(why, size, "cannot map the spool: %s", strerror(errno));
        result = LS_SPOOL_UNREADABLE;
    } else if (check_header(spool, why, size)) {
        return LS_SPOOL_OK;
    }
    ls_spool_close(spool);
    return result;
}

void ls_spool_close(struct ls_spool *spool) {
    if (spool->map)
        munmap(spool->map, spool->mapped);
    if (spool->fd >= 0)
        close(spool->fd);
    free(spool->unit_used);
    spool->map = NULL;
    spool->header = NULL;
    spool->unit_used = NULL;
    spool->fd = -1;
}

bool ls_spool_lock(struct ls_spool *spool) {
    return flock(spool->fd, LOCK_EX | LOCK_NB) == 0;
}

bool ls_spool_removed(const struct ls_spool *spool) {
    struct stat st;
    return fstat(spool->fd, &st) == 0 && st.st_nlink == 0;
}

/* Note where a slot's chunk lies: inside the file, and over no other chunk. */
static void place_slot(struct ls_spool *spool, uint32_t slot, uint64_t offset, uint64_t size) {
    struct ls_slot_place *place = &spool->slot[slot];
    place->state = SLOT_BAD;
    place->size = LS_CHUNK_MIN;
    if (size < LS_CHUNK_MIN || size > LS_CHUNK_LARGEST || size % LS_CHUNK_MIN != 0)
        return;
    place->size = (uint32_t)size;
    if (offset < LS_SPOOL_HEADER_SIZE || (offset - LS_SPOOL_HEADER_SIZE) % LS_CHUNK_MIN != 0 ||
        offset > spool->file_size || spool->file_size - offset < sizeof(struct ls_chunk))
        return;
    size_t first = (offset - LS_SPOOL_HEADER_SIZE) / LS_CHUNK_MIN;
    size_t end = first + size / LS_CHUNK_MIN;
    if (end > spool->units)
        end = spool->units;
    for (size_t i = first; i < end; i++)
        if (spool->unit_used[i])
            return;
    memset(spool->unit_used + first, 1, end - first);
    place->offset = offset;
    place->state = SLOT_GOOD;
}

uint32_t ls_spool_refresh(struct ls_spool *spool) {
    /* The slot count first: what it covers lies within the file as it is after that. */
    uint32_t slots = atomic_load_explicit(&spool->header->slots, memory_order_acquire);
    if (slots > LS_CHUNK_MAX)
        slots = LS_CHUNK_MAX;
    map_file(spool);
    for (uint32_t i = 0; i < slots; i++) {
        if (spool->slot[i].state != SLOT_UNSEEN)
            continue;
        /* An offset of 0: counted but not written yet; look again next time. */
        uint64_t offset = __atomic_load_n(&slot_at(spool, i)->offset, __ATOMIC_ACQUIRE);
        uint64_t size = __atomic_load_n(&slot_at(spool, i)->size, __ATOMIC_ACQUIRE);
        if (offset && size)
            place_slot(spool, i, offset, size);
    }
    return slots;
}

static enum ls_view damaged(struct ls_chunk_view *view, uint64_t bytes) {
    view->claimed = bytes;
    view->committed = 0;
    return LS_VIEW_DAMAGED;
}

enum ls_view ls_spool_view(const struct ls_spool *spool, uint32_t slot,
                           struct ls_chunk_view *view) {
    const struct ls_slot_place *place = &spool->slot[slot];
    if (place->state == SLOT_UNSEEN)
        return LS_VIEW_NONE;
    /* The state before `committed`: once sealed, it is final. */
    uint32_t state = atomic_load_explicit(&slot_at(spool, slot)->state, memory_order_acquire);
    if (state == LS_CHUNK_FREE)
        return LS_VIEW_NONE;
    view->slot = slot;
    view->sealed = state == LS_CHUNK_SEALED;
    view->generation = 0;
    if (place->state == SLOT_BAD)
        return damaged(view, place->size);
    struct ls_chunk *chunk = chunk_at(spool, slot);
    view->generation = atomic_load_explicit(&chunk->generation, memory_order_acquire);
    view->claimed = atomic_load_explicit(&chunk->committed, memory_order_acquire);
    view->thread = chunk->thread;
    view->sequence = chunk->sequence;
    view->checksum = chunk->checksum;
    uint32_t magic = chunk->magic;
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&chunk->generation, memory_order_relaxed) != view->generation)
        return LS_VIEW_NONE;
    if (view->claimed == 0)
        return LS_VIEW_NONE;
    if (magic != LS_CHUNK_MAGIC || view->thread == 0 || state > LS_CHUNK_SEALED ||
        view->claimed < sizeof *chunk || view->claimed > place->size || view->claimed % 8 != 0)
        return damaged(view, place->size);
    uint64_t room = spool->file_size - place->offset;
    view->committed = view->claimed < room ? view->claimed : room & ~(uint64_t)7;
    return LS_VIEW_GOOD;
}

void ls_spool_copy(const struct ls_spool *spool, uint32_t slot, uint64_t from, uint64_t to,
                   void *out) {
    memcpy(out, (const uint8_t *)chunk_at(spool, slot) + from, to - from);
}

void ls_spool_free_chunk(struct ls_spool *spool, uint32_t slot) {
    if (spool->writable)
        atomic_store_explicit(&slot_at(spool, slot)->state, LS_CHUNK_FREE, memory_order_release);
}
