/*
 * collect.c - see collect.h. One thread; not async-signal-safe.
 */
#include "collect.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "complain.h"
#include "ingest.h"
#include "term.h"
#include "trace.h"
#include "watch.h"

#define DRAIN_MS 50        /* between looks at the spool */
#define DRAIN_BUSY_MS 5    /* when much has come: an oom waits for all that came before it */
#define DRAIN_QUIET_MS 200 /* when nothing has come for a while */
#define QUIET_DRAINS 40
#define BUSY_RECORDS 500
#define LOCK_WAIT_MS 5000
#define LOCK_POLL_MS 20
#define LIVE_DRAIN_MS 1000 /* for a live target's collector to answer */

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, int ms) {
    struct timespec timeout = {ms / 1000, ms % 1000 * 1000000L};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- finding and removing ---- */

/* The path in a pointer file; false: `path` is none. */
static bool read_pointer(const char *path, char *target, size_t size) {
    char text[sizeof LS_SPOOL_POINTER + LS_PATH_MAX + 1];
    size_t word = sizeof LS_SPOOL_POINTER - 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= (ssize_t)word || memcmp(text, LS_SPOOL_POINTER, word) != 0)
        return false;
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    return (size_t)snprintf(target, size, "%s", text + word) < size;
}

bool ls_spool_find(const char *trace, char *spool, size_t size) {
    char beside[LS_PATH_MAX + 8];
    if ((size_t)snprintf(beside, sizeof beside, "%s.spool", trace) >= sizeof beside ||
        access(beside, F_OK) != 0)
        return false;
    if (read_pointer(beside, spool, size))
        return true;
    return (size_t)snprintf(spool, size, "%s", beside) < size;
}

static void remove_spool(struct ls_spool *spool) {
    char pointer[LS_PATH_MAX + 8], target[LS_PATH_MAX];
    if (spool->writable)
        atomic_store(&spool->header->state, LS_RUN_OFF);
    unlink(spool->path);
    snprintf(pointer, sizeof pointer, "%s.spool", spool->start.trace_path);
    if (read_pointer(pointer, target, sizeof target) && strcmp(target, spool->path) == 0)
        unlink(pointer);
}

/* ---- reading ---- */

/* One drain: what came, and an answer to whoever asked for it. */
static int64_t drain(struct ls_ingest *ingest, bool all, char *why, size_t size) {
    struct ls_spool *spool = ingest->spool;
    uint32_t wanted = atomic_load(&spool->header->wake);
    int64_t count = ls_ingest_drain(ingest, all, why, size);
    if (count >= 0 && spool->writable) {
        atomic_store(&spool->header->drained, wanted);
        futex_wake(&spool->header->drained);
    }
    return count;
}

static bool finish(struct ls_ingest *ingest, char *why, size_t size) {
    if (!ls_ingest_finish(ingest, why, size))
        return false;
    remove_spool(ingest->spool);
    return true;
}

/* Drain until the target is dead. The last drain comes after its death was seen. */
static bool follow(struct ls_ingest *ingest, struct ls_watch *watch, char *why, size_t size) {
    struct ls_spool *spool = ingest->spool; /* its header moves when the mapping grows */
    for (int quiet = 0;; quiet++) {
        uint32_t wake = atomic_load(&spool->header->wake);
        bool dead = ls_watch_dead(watch);
        int64_t count = ingest->finished ? 0 : drain(ingest, dead, why, size);
        if (count < 0)
            return false;
        ingest->replaced = watch->replaced;
        if (dead)
            return finish(ingest, why, size);
        if (!ingest->finished)
            ls_device_use_tick(ingest, watch->elsewhere ? 0 : watch->pid);
        if (count > 0)
            quiet = 0;
        if (atomic_load(&spool->header->wake) != wake)
            continue; /* somebody waits */
        if (!ls_ingest_idle(ingest, why, size))
            return false;
        futex_wait(&spool->header->wake, wake,
                   !ingest->idle          ? 0
                   : count > BUSY_RECORDS ? DRAIN_BUSY_MS
                   : quiet < QUIET_DRAINS ? DRAIN_MS
                                          : DRAIN_QUIET_MS);
    }
}

static struct ls_ingest *new_ingest(char *why, size_t size) {
    struct ls_ingest *ingest = calloc(1, sizeof *ingest);
    if (!ingest)
        snprintf(why, size, "out of memory");
    return ingest;
}

static int follow_locked(struct ls_spool *spool, char *why, size_t size) {
    struct ls_watch watch;
    struct ls_ingest *ingest = new_ingest(why, size);
    int status = LS_EXIT_OUTPUT;
    if (spool->writable)
        atomic_store(&spool->header->collector_pid, (uint32_t)getpid());
    ls_watch_init(&watch, (pid_t)spool->start.pid, spool->start.pid_start, spool->start.image,
                  spool->start.pid_space);
    if (ingest) {
        if (ls_ingest_open(ingest, spool, why, size) && follow(ingest, &watch, why, size))
            status = LS_EXIT_OK;
        ls_ingest_close(ingest);
        free(ingest);
    }
    if (status != LS_EXIT_OK)
        ls_complain(spool->start.trace_path, "%s", why);
    ls_watch_destroy(&watch);
    return status;
}

static bool lock_within(struct ls_spool *spool, int wait_ms) {
    for (; !ls_spool_lock(spool); wait_ms -= LOCK_POLL_MS) {
        if (wait_ms <= 0 || ls_spool_removed(spool))
            return false;
        sleep_ms(LOCK_POLL_MS);
        ls_progress_tick();
    }
    return true;
}

int ls_collect_follow(const char *path, int pid) {
    char why[512];
    struct ls_spool *spool = calloc(1, sizeof *spool);
    if (!spool) {
        ls_complain(path, "out of memory");
        return LS_EXIT_OUTPUT;
    }
    int status = LS_EXIT_INPUT;
    if (ls_spool_open(spool, path, why, sizeof why) != LS_SPOOL_OK) {
        ls_complain(path, "%s", why);
    } else {
        if (pid && (uint32_t)pid != spool->start.pid)
            ls_complain(path, "is the spool of process %u, not %d", spool->start.pid, pid);
        else if (lock_within(spool, LOCK_WAIT_MS) && !ls_spool_removed(spool))
            status = follow_locked(spool, why, sizeof why);
        else if (ls_spool_removed(spool))
            status = LS_EXIT_OK;
        else
            ls_complain(path, "another collector is reading this spool; nothing to do here");
        ls_spool_close(spool);
    }
    free(spool);
    return status;
}

/* ---- once ---- */

/* Ask the collector of a live target for a drain, and wait for it. */
static void request_drain(struct ls_spool *spool) {
    if (!spool->writable)
        return;
    uint32_t wanted = atomic_fetch_add(&spool->header->wake, 1) + 1;
    futex_wake(&spool->header->wake);
    for (int waited = 0; waited < LIVE_DRAIN_MS; waited += LOCK_POLL_MS) {
        uint32_t drained = atomic_load(&spool->header->drained);
        if ((int32_t)(drained - wanted) >= 0)
            return;
        futex_wait(&spool->header->drained, drained, LOCK_POLL_MS);
    }
}

static enum ls_collected once_locked(struct ls_spool *spool, const struct ls_watch *watch,
                                     char *why, size_t size) {
    bool dead = watch->dead;
    enum ls_collected result = LS_COLLECTED_FAILED;
    struct ls_ingest *ingest = new_ingest(why, size);
    if (!ingest)
        return result;
    bool opened = ls_ingest_open(ingest, spool, why, size);
    ingest->replaced = watch->replaced;
    if (opened && (ingest->finished || drain(ingest, dead, why, size) >= 0)) {
        if (!dead)
            result = !ls_ingest_name(ingest, why, size) ? LS_COLLECTED_FAILED
                     : watch->elsewhere                 ? LS_COLLECTED_ELSEWHERE
                                                        : LS_COLLECTED_LIVE;
        else if (finish(ingest, why, size))
            result = LS_COLLECTED;
    }
    ls_ingest_close(ingest);
    free(ingest);
    return result;
}

static enum ls_collected once_open(struct ls_spool *spool, int wait_ms, char *why, size_t size) {
    struct ls_watch watch;
    enum ls_collected result;
    ls_watch_init(&watch, (pid_t)spool->start.pid, spool->start.pid_start, spool->start.image,
                  spool->start.pid_space);
    bool dead = ls_watch_dead(&watch);
    if (lock_within(spool, dead ? wait_ms : 0)) {
        result =
            ls_spool_removed(spool) ? LS_COLLECTED_NOTHING : once_locked(spool, &watch, why, size);
    } else if (!dead) {
        request_drain(spool);
        result = watch.elsewhere ? LS_COLLECTED_ELSEWHERE : LS_COLLECTED_LIVE;
    } else {
        result = ls_spool_removed(spool) ? LS_COLLECTED_NOTHING : LS_COLLECTED_BUSY;
    }
    ls_watch_destroy(&watch);
    return result;
}

/* The trace where it lies now, not where the spool says. */
static void place_trace(struct ls_spool *spool, const char *trace) {
    char *path = spool->start.trace_path;
    char folder[PATH_MAX] = "";
    if (trace[0] != '/' && !getcwd(folder, sizeof folder))
        return;
    size_t before = strlen(folder), length = strlen(trace);
    if (before + 1 + length >= sizeof spool->start.trace_path)
        return;
    memcpy(path, folder, before);
    if (before)
        path[before++] = '/';
    memcpy(path + before, trace, length + 1);
}

enum ls_collected ls_collect_once(const char *path, const char *trace, int wait_ms, char *why,
                                  size_t size) {
    struct ls_spool *spool = calloc(1, sizeof *spool);
    enum ls_collected result = LS_COLLECTED_FAILED;
    if (!spool) {
        snprintf(why, size, "out of memory");
        return result;
    }
    enum ls_spool_result opened = ls_spool_open(spool, path, why, size);
    if (opened == LS_SPOOL_OK) {
        place_trace(spool, trace);
        result = once_open(spool, wait_ms, why, size);
        ls_spool_close(spool);
    } else if (opened == LS_SPOOL_MISSING) {
        result = LS_COLLECTED_NOTHING;
    }
    free(spool);
    return result;
}
