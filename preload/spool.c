/*
 * spool.c - the spool file: making it, growing it, chunks claimed and sealed. See spool.h.
 *
 * The file is opened again for each growth and closed at once: a daemon's close-all must find
 * nothing of ours. Blocks are allocated before they are mapped (a sparse file on a full disk
 * would be a SIGBUS in the target), by fallocate(2) alone, and only within RLIMIT_FSIZE (beyond it
 * the kernel sends SIGXFSZ).
 */
#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/clock_pair.h"
#include "common/proc_stat.h"
#include "layoutspy/table.h"
#include "lock.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define RETRY_NS 2000000u /* after a failure, between attempts to get a chunk */

/* Where each slot's chunk is mapped in this process. Written under grow_lock, before the slot's
 * offset is published. */
static struct ls_chunk *mapped[LS_CHUNK_MAX];
static struct {
    dev_t dev;
    ino_t ino;
} identity; /* of the spool file, to know it again */

static struct ls_chunk_slot *slots(void) {
    return (struct ls_chunk_slot *)((char *)ls_session.header + 4096);
}

/* File systems whose mmap, fallocate or locking cannot be trusted with a live recording. */
static bool is_remote(int dir_fd) {
    struct statfs fs;
    if (fstatfs(dir_fd, &fs) != 0)
        return true;
    switch ((unsigned)fs.f_type) {
    case NFS_SUPER_MAGIC:
    case 0x0bd00bd0u: /* Lustre */
    case 0x47504653u: /* GPFS */
    case 0x65735546u: /* FUSE */
    case 0x00c36400u: /* Ceph */
    case 0x19830326u: /* BeeGFS */
    case 0xff534d42u: /* CIFS */
    case 0xfe534d42u: /* SMB2 */
    case AFS_SUPER_MAGIC:
    case V9FS_MAGIC:
        return true;
    default:
        return false;
    }
}

/* DataLoader workers need the little there is of /dev/shm in a container. */
static bool dir_is_good(const char *dir) {
    if (strncmp(dir, "/dev/shm", 8) == 0 && (dir[8] == '/' || dir[8] == 0))
        return false;
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = !is_remote(fd);
    close(fd);
    return good;
}

/* 0: allocated. Else an enum ls_lost, negated minus one. */
static int allocate_blocks(int fd, uint64_t offset, uint64_t size) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        offset + size > limit.rlim_cur)
        return -1 - LS_LOST_FILE_LIMIT;
    int result;
    do
        result = fallocate(fd, 0, (off_t)offset, (off_t)size);
    while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : -1 - LS_LOST_DISK;
}

static void read_boot_id(char out[40]) {
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, out, 36);
    out[n > 0 ? n : 0] = 0;
    close(fd);
}

static void fill_header(struct ls_spool_header *header, const struct ls_session *session) {
    header->version = LS_SPOOL_VERSION;
    header->header_size = LS_SPOOL_HEADER_SIZE;
    header->table_hash = ls_table_hash();
    header->pid = (uint32_t)session->pid;
    header->flags = ls_clock_tsc ? LS_SPOOL_TSC : 0;
    struct ls_proc_stat own;
    if (ls_proc_stat(session->pid, &own)) {
        header->pid_start = own.start;
        header->image = own.image;
    }
    struct stat space;
    header->pid_space = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
    header->run_pid = (uint32_t)session->run_pid;
    header->run_start = session->run_start;
    read_boot_id(header->boot_id);
    header->cap = session->env.spool_max;
    atomic_store(&header->end, LS_SPOOL_HEADER_SIZE);
    atomic_store(&header->state, LS_RUN_ACTIVE);
    ls_clock_pair_take(&header->clock[0], ls_clock_tsc);
    memcpy(header->trace_path, session->trace, sizeof header->trace_path);
    atomic_thread_fence(memory_order_release);
    memcpy(header->magic, LS_SPOOL_MAGIC, sizeof header->magic); /* last: now it is a spool */
}

/* Make `path` and map its header. False: nothing is left behind. */
static bool make_file(struct ls_session *session, const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    struct stat st;
    void *map = MAP_FAILED;
    /* Whatever the umask: the collector has to open it, and we again. */
    if (fchmod(fd, 0600) == 0 && fstat(fd, &st) == 0 &&
        allocate_blocks(fd, 0, LS_SPOOL_HEADER_SIZE) == 0)
        map = mmap(NULL, LS_SPOOL_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        unlink(path);
        return false;
    }
    identity.dev = st.st_dev;
    identity.ino = st.st_ino;
    fill_header(map, session);
    session->header = map;
    snprintf(session->spool, sizeof session->spool, "%s", path);
    return true;
}

/* The spool lies elsewhere: say where, in a file where it would have been. */
static bool make_pointer(const char *at, const char *spool) {
    char text[LS_PATH_MAX + 64];
    int n = snprintf(text, sizeof text, "%s%s\n", LS_SPOOL_POINTER, spool);
    int fd = open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    bool ok = write(fd, text, (size_t)n) == n;
    close(fd);
    if (!ok)
        unlink(at);
    return ok;
}

bool ls_spool_create(struct ls_session *session) {
    char dir[LS_PATH_MAX], beside[LS_PATH_MAX + 8], path[LS_PATH_MAX];
    memcpy(dir, session->trace, sizeof dir);
    char *slash = strrchr(dir, '/');
    slash[slash == dir ? 1 : 0] = 0;
    if (snprintf(beside, sizeof beside, "%s.spool", session->trace) >= LS_PATH_MAX)
        return false;
    if (dir_is_good(dir) && make_file(session, beside))
        return true;
    const char *const others[] = {secure_getenv("TMPDIR"), "/tmp"};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        if (!others[i] || others[i][0] != '/' || !dir_is_good(others[i]))
            continue;
        int n = snprintf(path, sizeof path, "%s/layoutspy.%d.%llx.spool", others[i],
                         (int)session->pid, (unsigned long long)ls_ticks());
        if (n >= (int)sizeof path || !make_file(session, path))
            continue;
        if (make_pointer(beside, path))
            return true;
        munmap(session->header, LS_SPOOL_HEADER_SIZE);
        session->header = NULL;
        unlink(path);
    }
    return false;
}

static void claim(struct ls_thread *self, uint32_t slot) {
    struct ls_chunk *chunk = mapped[slot];
    atomic_store_explicit(&chunk->committed, 0, memory_order_release);
    chunk->magic = LS_CHUNK_MAGIC;
    chunk->slot = slot;
    chunk->tid = self->tid;
    chunk->thread = self->number;
    chunk->sequence = self->sequence++;
    chunk->checksum = 0;
    atomic_store_explicit(&chunk->generation,
                          atomic_load_explicit(&chunk->generation, memory_order_relaxed) + 1,
                          memory_order_release);
    atomic_store_explicit(&chunk->committed, sizeof *chunk, memory_order_release);
    self->chunk = chunk;
    self->position = sizeof *chunk;
    self->limit = (uint32_t)slots()[slot].size;
}

/* A chunk that the collector has handed back, warm in memory and mapped already: of any size, since
 * a few small ones going round stay in the cache, and growing costs system calls and page faults.
 */
static bool claim_free(struct ls_thread *self) {
    static _Atomic uint32_t hint;
    struct ls_chunk_slot *table = slots();
    uint32_t count = atomic_load_explicit(&ls_session.header->slots, memory_order_acquire);
    uint32_t from = atomic_load_explicit(&hint, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (from + i) % count;
        uint32_t expected = LS_CHUNK_FREE;
        if (atomic_load_explicit(&table[slot].state, memory_order_relaxed) != LS_CHUNK_FREE ||
            !atomic_compare_exchange_strong(&table[slot].state, &expected, LS_CHUNK_ACTIVE))
            continue;
        atomic_store_explicit(&hint, slot, memory_order_relaxed);
        claim(self, slot);
        return true;
    }
    return false;
}

static int open_again(void) {
    int fd = open(ls_session.spool, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd >= 0 &&
        (fstat(fd, &st) != 0 || st.st_dev != identity.dev || st.st_ino != identity.ino)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* A new chunk at the end of the file; the lock is held. 0, or an enum ls_lost as above. */
static int grow(struct ls_thread *self) {
    struct ls_spool_header *header = ls_session.header;
    uint32_t slot = atomic_load(&header->slots);
    uint64_t offset = atomic_load(&header->end), size = self->next_size;
    if (slot == LS_CHUNK_MAX)
        return -1 - LS_LOST_SLOTS;
    if (offset + size > header->cap)
        return -1 - LS_LOST_CAP;
    int fd = open_again();
    if (fd < 0)
        return -1 - LS_LOST_REOPEN;
    int error = allocate_blocks(fd, offset, size);
    void *map = MAP_FAILED;
    if (error == 0)
        map =
            mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, (off_t)offset);
    close(fd);
    if (error != 0)
        return error;
    if (map == MAP_FAILED)
        return -1 - LS_LOST_REOPEN;
    /* Fault the pages in for writing now, in one go (MAP_POPULATE would map a file read-only). An
     * older kernel takes the faults one by one later. */
    madvise(map, size, MADV_POPULATE_WRITE);
    mapped[slot] = map;
    struct ls_chunk_slot *entry = &slots()[slot];
    entry->size = size;
    entry->offset = offset;
    atomic_store(&entry->state, LS_CHUNK_ACTIVE);
    atomic_store(&header->end, offset + size);
    claim(self, slot);
    atomic_store_explicit(&header->slots, slot + 1, memory_order_release);
    return 0;
}

static bool next_chunk(struct ls_thread *self) {
    if (claim_free(self))
        return true;
    ls_lock(LS_LOCK_GROW);
    int error = grow(self);
    if (error != 0 && self->next_size > LS_CHUNK_MIN) {
        self->next_size = LS_CHUNK_MIN; /* a small one may still fit */
        error = grow(self);
    }
    ls_unlock(LS_LOCK_GROW);
    if (error == 0) {
        if (self->next_size < LS_CHUNK_LARGEST)
            self->next_size *= 2;
        return true;
    }
    self->next_size = LS_CHUNK_MIN;
    self->chunk_error = (enum ls_lost)(-1 - error);
    return false;
}

/* Calibration pairs along the way: the collector may never have run. */
static void note_clock(void) {
    struct ls_clock_pair pair;
    ls_clock_pair_take(&pair, ls_clock_tsc);
    ls_clock_pair_publish(ls_session.header, &pair);
}

void ls_spool_release(struct ls_thread *self) {
    struct ls_chunk *chunk = self->chunk;
    if (!chunk)
        return;
    self->chunk = NULL;
    self->position = self->limit = 0;
    chunk->checksum = XXH3_64bits(chunk + 1, atomic_load(&chunk->committed) - sizeof *chunk);
    atomic_store_explicit(&slots()[chunk->slot].state, LS_CHUNK_SEALED, memory_order_release);
    note_clock();
}

static void write_thread(struct ls_thread *self) {
    struct ls_rec_thread *record = (void *)((char *)self->chunk + self->position);
    *record = (struct ls_rec_thread){
        .head = {.size = sizeof *record, .type = LS_REC_THREAD},
        .tid = self->tid,
        .thread = self->number,
    };
    int fd = open("/proc/thread-self/comm", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = read(fd, record->name, sizeof record->name); /* 15 letters, newline */
        record->name[n > 0 && record->name[n - 1] == '\n' ? n - 1 : 0] = 0;
        close(fd);
    }
    ls_spool_commit(self, sizeof *record);
}

static void write_lost(struct ls_thread *self) {
    struct ls_rec_lost *record = (void *)((char *)self->chunk + self->position);
    *record = (struct ls_rec_lost){
        .head = {.size = sizeof *record, .type = LS_REC_LOST, .api = (uint16_t)self->lost_reason},
        .count = self->lost_count,
        .start = self->lost_start,
        .end = self->lost_end,
    };
    ls_spool_commit(self, sizeof *record);
    self->lost_count = 0;
}

void ls_spool_lost(struct ls_thread *self, enum ls_lost reason, uint64_t count) {
    atomic_fetch_add_explicit(&ls_session.header->lost[reason], count, memory_order_relaxed);
    uint64_t now = ls_ticks();
    /* One reason is told at a time; what another one cost stays in the header's counter. */
    if (self->lost_count != 0 && self->lost_reason != reason)
        return;
    if (self->lost_count == 0)
        self->lost_start = now;
    self->lost_end = now;
    self->lost_count += count;
    self->lost_reason = reason;
}

static void *next_or_none(struct ls_thread *self) {
    uint64_t now = ls_ns(CLOCK_MONOTONIC);
    ls_spool_release(self);
    if (now < self->retry_at)
        return NULL;
    if (!next_chunk(self)) {
        self->retry_at = now + RETRY_NS;
        return NULL;
    }
    if (self->sequence == 1)
        write_thread(self);
    if (self->lost_count)
        write_lost(self);
    /* The smallest chunk holds the largest record beside these two. */
    return (char *)self->chunk + self->position;
}

void *ls_spool_reserve_slow(struct ls_thread *self) {
    struct ls_slow slow = ls_slow_begin();
    void *room = next_or_none(self);
    ls_slow_end(slow);
    return room;
}

void ls_spool_fork_reset(void) {
    memset(mapped, 0, sizeof mapped); /* the mappings stay, unused: they are the parent's file */
}
