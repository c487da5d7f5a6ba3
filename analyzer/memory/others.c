/*
 * others.c - what other recorded processes held on the same device. See others.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "others.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../live.h"
#include "../query.h"
#include "../room.h"
#include "../trace_db.h"
#include "history_own.h"

#define OTHERS_MOST 256 /* traces that are looked at: a folder may hold a year of them */
#define ID_OFFSET 68    /* of the application id in an SQLite file: 4 bytes, big endian */

/* ---- files ---- */

/* An SQLite file that calls itself a trace, told from its first bytes alone. */
static bool looks_like_trace(int folder, const char *name) {
    unsigned char head[4];
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool found = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                 pread(fd, head, sizeof head, ID_OFFSET) == (ssize_t)sizeof head &&
                 ((int64_t)head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3]) ==
                     ls_schema_number("application_id");
    if (fd >= 0)
        close(fd);
    return found;
}

static char *join(const char *folder, size_t length, const char *name) {
    char *path = ls_new(length + strlen(name) + 8, 1);
    memcpy(path, folder, length);
    strcpy(path + length, name);
    return path;
}

/* Some of its recording is still outside of it. */
static bool has_spool(const char *path) {
    char *spool = join(path, strlen(path), ".spool");
    bool there = access(spool, F_OK) == 0;
    free(spool);
    return there;
}

/* ---- which device ---- */

/* The n-th word of CUDA_VISIBLE_DEVICES, or the number itself where that is not set. To be freed.
 */
static char *device_name(sqlite3 *db, int device) {
    char *visible = ls_query_meta(db, "env.CUDA_VISIBLE_DEVICES"), *word = visible;
    char number[16], *name;
    snprintf(number, sizeof number, "%d", device);
    for (int i = 0; word && i < device; i++)
        if ((word = strchr(word, ',')))
            word++;
    if (word) {
        word += strspn(word, " ");
        word[strcspn(word, ", ")] = '\0';
    }
    const char *found = visible ? (word ? word : "") : number;
    name = ls_new(strlen(found) + 1, 1);
    strcpy(name, found);
    free(visible);
    return name;
}

/* What the other process calls the device that `name` is; -1: it does not see it. */
static int device_there(sqlite3 *db, const char *name) {
    int found = -1;
    for (int i = 0; found < 0 && i < 64 && *name; i++) {
        char *there = device_name(db, i);
        if (strcmp(there, name) == 0)
            found = i;
        bool last = *there == '\0';
        free(there);
        if (last)
            break;
    }
    return found;
}

/* ---- one other trace ---- */

static bool same_text(sqlite3 *a, sqlite3 *b, const char *key) {
    char *x = ls_query_meta(a, key), *y = ls_query_meta(b, key);
    bool same = x && y ? strcmp(x, y) == 0 : x == y;
    free(x);
    free(y);
    return same;
}

static int64_t number_at(sqlite3 *db, const char *sql, int device, int64_t ts_ns) {
    sqlite3_stmt *stmt;
    int64_t value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return value;
    sqlite3_bind_int(stmt, 1, device);
    sqlite3_bind_int64(stmt, 2, ts_ns);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

static const char held_sql[] =
    "SELECT COALESCE(SUM(size), 0) FROM allocation WHERE " LS_ON_DEVICE_SQL " AND device = ?1"
    " AND start_ns <= ?2 AND (end_ns IS NULL OR end_ns > ?2)";
static const char oom_sql[] = "SELECT COUNT(*) FROM oom WHERE device = ?1 AND recovered IS NOT 1"
                              " AND ?2 NOT NULL";

/* It was recording at that moment of the wall clock, on the same machine. */
static bool was_there(sqlite3 *db, sqlite3 *own, int64_t ts_ns) {
    int64_t end = ls_query_meta_int(db, INT64_MAX, "end_ns");
    return ts_ns >= 0 && ts_ns <= end && same_text(db, own, "host") &&
           same_text(db, own, "boot_id");
}

/* When a recording began, ns since 1970. */
static int64_t begin_of(sqlite3 *db) {
    return ls_clamped(ls_query_meta_int(db, 0, "start_real_ns"), LS_LATEST);
}

static void look_at(struct ls_others *others, sqlite3 *db, sqlite3 *own, const char *path,
                    const char *device, int64_t real_ns) {
    int64_t ts_ns = real_ns - begin_of(db);
    int there = device_there(db, device);
    if (there < 0 || !was_there(db, own, ts_ns))
        return;
    int64_t held = number_at(db, held_sql, there, ts_ns);
    if (held < 0) {
        others->unread++;
        return;
    }
    if (held == 0)
        return;
    others->other = ls_room(others->other, others->count, &others->room, sizeof *others->other);
    others->other[others->count++] = (struct ls_other){
        .path = join(path, strlen(path), ""),
        .program = ls_query_meta(db, "cmdline"),
        .pid = ls_query_meta_int(db, 0, "pid"),
        .bytes = (uint64_t)ls_clamped(held, LS_LARGEST),
        .ooms = number_at(db, oom_sql, there, ts_ns) > 0,
        .whole = !has_spool(path),
    };
    others->bytes += (uint64_t)ls_clamped(held, LS_LARGEST);
}

static int by_bytes(const void *a, const void *b) {
    const struct ls_other *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Opened as it is: nothing is taken in, nobody is waited for. */
static void try_trace(struct ls_others *others, sqlite3 *own, const char *path, const char *device,
                      int64_t real_ns) {
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(path, &db, flags, NULL) == SQLITE_OK &&
        ls_query_int(db, 0, "PRAGMA user_version") == ls_query_int(own, 0, "PRAGMA user_version"))
        look_at(others, db, own, path, device, real_ns);
    else
        others->unread++;
    sqlite3_close(db);
}

void ls_others_find(struct ls_others *others, sqlite3 *db, const char *path, int device,
                    int64_t ts_ns) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = (size_t)(base - path);
    char *folder = length ? join(path, length, "") : join("./", 2, "");
    char *name = device_name(db, device);
    int64_t real_ns = begin_of(db) + ls_clamped(ts_ns, LS_LATEST);
    int tried = 0;
    *others = (struct ls_others){0};
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && tried < OTHERS_MOST && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, base) == 0 || !looks_like_trace(dirfd(dir), entry->d_name))
            continue;
        char *one = join(path, length, entry->d_name);
        try_trace(others, db, one, name, real_ns);
        free(one);
        tried++;
    }
    if (dir)
        closedir(dir);
    if (others->count)
        qsort(others->other, others->count, sizeof *others->other, by_bytes);
    free(folder);
    free(name);
}

void ls_others_free(struct ls_others *others) {
    for (size_t i = 0; i < others->count; i++) {
        free(others->other[i].path);
        free(others->other[i].program);
    }
    free(others->other);
    *others = (struct ls_others){0};
}
