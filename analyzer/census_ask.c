/*
 * census_ask.c - see census_ask.h. Main thread only; not for signal handlers.
 */
#include "census_ask.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "collect.h"
#include "common/proc_stat.h"
#include "complain.h"
#include "human.h"
#include "now.h"
#include "query.h"
#include "spool_read.h"
#include "term.h"
#include "trace.h"

#define POLL_MS 50

static int refuse(pid_t pid, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int refuse(pid_t pid, const char *format, ...) {
    char process[32], why[PATH_MAX + 512];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    snprintf(process, sizeof process, "process %d", (int)pid);
    ls_progress_stop();
    ls_complain(process, "%s", why);
    return LS_EXIT_INPUT;
}

/* ---- finding ---- */

/* A path of that process as one that can be opened here: it may have another root. */
static void place(char *out, size_t size, pid_t pid, const char *path) {
    struct stat ours, theirs;
    snprintf(out, size, "/proc/%d/root%s", (int)pid, path);
    bool seen = stat(out, &theirs) == 0;
    if (!seen ||
        (stat(path, &ours) == 0 && ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino))
        snprintf(out, size, "%s", path);
}

struct search {
    bool library;   /* liblayoutspy.so is mapped */
    bool removed;   /* a spool is, whose file is gone */
    uint32_t other; /* the process that a spool belongs to, of which this one was forked */
};

/* Whether the file is the spool of that very process. */
static bool is_its_spool(struct ls_recorded *recorded, const char *path, struct search *search) {
    struct ls_proc_stat line;
    char why[512];
    struct ls_spool *spool = calloc(1, sizeof *spool);
    bool found = false;
    place(recorded->spool, sizeof recorded->spool, recorded->pid, path);
    if (spool && ls_spool_open(spool, recorded->spool, why, sizeof why) == LS_SPOOL_OK) {
        found = ls_proc_stat(recorded->pid, &line) && line.start == spool->start.pid_start;
        if (found)
            place(recorded->trace, sizeof recorded->trace, recorded->pid, spool->start.trace_path);
        else
            search->other = spool->start.pid;
        ls_spool_close(spool);
    }
    free(spool);
    return found;
}

/* A line of maps: the file of a shared mapping of its first bytes that can be written to; or NULL.
 */
static char *shared_file(char *line, struct search *search) {
    static const char gone[] = " (deleted)";
    unsigned long long offset;
    char access[8];
    int at = 0;
    line[strcspn(line, "\n")] = 0;
    if (strstr(line, "/liblayoutspy.so"))
        search->library = true;
    if (sscanf(line, "%*s %7s %llx %*s %*s %n", access, &offset, &at) != 2 || !at ||
        strcmp(access, "rw-s") != 0 || offset != 0 || line[at] != '/')
        return NULL;
    size_t length = strlen(line + at), end = sizeof gone - 1;
    if (length > end && strcmp(line + at + length - end, gone) == 0) {
        search->removed |= strstr(line + at, ".spool") != NULL;
        return NULL;
    }
    return line + at;
}

static int not_found(pid_t pid, const struct search *search) {
    if (search->other)
        return refuse(
            pid,
            "has no recording of its own yet: it was forked by process %u and has made no "
            "CUDA call since",
            search->other);
    if (search->removed)
        return refuse(pid, "its recording was ended and removed; nothing can be asked of it");
    if (search->library)
        return refuse(pid, "has made no CUDA call yet, or its recording is switched off: "
                           "there is nothing to ask");
    return refuse(pid, "is not recorded; start it by `layoutspy run`, or with "
                       "LD_PRELOAD=liblayoutspy.so");
}

pid_t ls_recorded_pid(const char *word) {
    size_t digits = strspn(word, "0123456789");
    errno = 0;
    long pid = digits && !word[digits] ? strtol(word, NULL, 10) : 0;
    return errno || pid > INT_MAX ? INT_MAX : (pid_t)pid;
}

int ls_recorded_find(struct ls_recorded *recorded, pid_t pid) {
    char path[64], *line = NULL;
    size_t size = 0;
    struct search search = {0};
    bool found = false;
    *recorded = (struct ls_recorded){.pid = pid};
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    if (!maps && (errno == ENOENT || errno == ESRCH))
        return refuse(pid, "there is no such process");
    if (!maps)
        return refuse(pid, "cannot be looked at: %s; ask as the user who runs it, or as root",
                      strerror(errno));
    errno = 0;
    while (!found && getline(&line, &size, maps) > 0) {
        char *file = shared_file(line, &search);
        found = file && is_its_spool(recorded, file, &search);
    }
    int error = errno;
    bool failed = ferror(maps);
    free(line);
    fclose(maps);
    if (!found && failed)
        return refuse(pid, "cannot be looked at: %s; ask as the user who runs it, or as root",
                      strerror(error));
    return found ? LS_EXIT_OK : not_found(pid, &search);
}

/* ---- asking ---- */

/* Take in what there is. The spool is gone, or nobody will fill it any more: false. */
static bool drain(const struct ls_recorded *recorded) {
    char why[512];
    enum ls_collected result =
        ls_collect_once(recorded->spool, recorded->trace, 0, why, sizeof why);
    return result == LS_COLLECTED_LIVE || result == LS_COLLECTED_ELSEWHERE ||
           result == LS_COLLECTED_BUSY;
}

static sqlite3 *open_trace(const struct ls_recorded *recorded) {
    sqlite3 *db = NULL;
    if (sqlite3_open_v2(recorded->trace, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(db, 1000);
        return db;
    }
    sqlite3_close(db);
    return NULL;
}

/* The newest census that was asked for, with an end where `ended`; 0: none. */
static int64_t newest(const struct ls_recorded *recorded, bool ended) {
    sqlite3 *db = open_trace(recorded);
    int64_t id = db ? ls_query_int(db, 0,
                                   ended ? "SELECT MAX(id) FROM census WHERE reason = 2 AND "
                                           "end_ns IS NOT NULL"
                                         : "SELECT MAX(id) FROM census")
                    : 0;
    sqlite3_close(db);
    return id;
}

static bool ask(const struct ls_recorded *recorded, char *why, size_t size) {
    struct ls_spool *spool = calloc(1, sizeof *spool);
    bool good = false;
    snprintf(why, size, "out of memory");
    if (spool && ls_spool_open(spool, recorded->spool, why, size) == LS_SPOOL_OK) {
        if (spool->writable) {
            atomic_fetch_add(&spool->header->census_wanted, 1);
            atomic_fetch_add(&spool->header->requests, 1);
            good = true;
        } else {
            snprintf(why, size,
                     "its spool %s cannot be written: ask as the user who runs it, or "
                     "as root",
                     recorded->spool);
        }
        ls_spool_close(spool);
    }
    free(spool);
    return good;
}

int ls_census_ask(const struct ls_recorded *recorded, int64_t wait_ms, int64_t *census) {
    char why[PATH_MAX + 512];
    struct ls_human waited;
    ls_progress_start("waiting for the program's next CUDA call");
    bool alive = drain(recorded);
    int64_t before = newest(recorded, false), end = ls_now_ms() + wait_ms;
    if (alive && !ask(recorded, why, sizeof why))
        return refuse(recorded->pid, "%s", why);
    do {
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
        ls_progress_tick();
        alive = alive && drain(recorded); /* after its end is seen, once more: what it left */
        *census = newest(recorded, true);
        if (*census > before) {
            ls_progress_stop();
            return LS_EXIT_OK;
        }
    } while (alive && ls_now_ms() < end);
    if (!alive)
        return refuse(recorded->pid, "ended before it made the census");
    return refuse(recorded->pid,
                  "made no census within %s: it makes it at its next CUDA call, in Python's main "
                  "thread, and then it is in %s",
                  ls_human_ns(&waited, wait_ms * 1000000), recorded->trace);
}
