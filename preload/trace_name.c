/*
 * trace_name.c - naming and claiming the trace. See trace_name.h.
 * Runs at the start of a recording, under the session's start lock.
 */
#include "trace_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/pattern.h"
#include "common/proc_stat.h"

#define TRIES 1000 /* of ".2", ".3", ... */

static char parent[LS_PATH_MAX]; /* survives the fork that makes us a child */

void ls_trace_name_fork(const char *trace) {
    if (trace[0])
        memcpy(parent, trace, sizeof parent);
}

const char *ls_trace_name_parent(void) {
    return parent[0] ? parent : NULL;
}

static bool create(const char *path) {
    if (strlen(path) > LS_TRACE_PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

/* `base`.N for the first N that is free, or base itself where `plain` asks to try it first. */
static bool create_numbered(char *out, const char *base, bool plain) {
    if (plain && create(base)) {
        memmove(out, base, strlen(base) + 1);
        return true;
    }
    for (unsigned long n = 2; n < TRIES && errno == EEXIST; n++)
        if (ls_pattern_insert(out, LS_PATH_MAX, base, n) == 0 && create(out))
            return true;
    return false;
}

static bool create_child(char *out, const char *base) {
    char own[LS_PATH_MAX];
    if (ls_pattern_insert(own, sizeof own, base, (unsigned long)getpid()) != 0)
        return false;
    return create_numbered(out, own, true);
}

/* /proc/PID/FILE into `out`; the number of bytes. */
static ssize_t read_proc(pid_t pid, const char *file, char *out, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t n;
    while (used < size && (n = read(fd, out + used, size - used)) > 0)
        used += (size_t)n;
    close(fd);
    return (ssize_t)used;
}

/* Was it started with this LAYOUTSPY_OUT in its environment? */
static bool has_setting(pid_t pid, const char *out) {
    static char text[128 << 10]; /* under the start lock */
    ssize_t n = read_proc(pid, "environ", text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = 0;
    for (const char *p = text; p < text + n; p += strlen(p) + 1)
        if (strncmp(p, "LAYOUTSPY_OUT=", 14) == 0 && strcmp(p + 14, out) == 0)
            return true;
    return false;
}

/* The run that we belong to: our oldest ancestor, or ourselves, with the same setting. */
static void find_run(struct ls_session *session) {
    pid_t pid = getpid();
    struct ls_proc_stat process;
    if (!ls_proc_stat(pid, &process))
        return;
    do {
        session->run_pid = pid;
        session->run_start = process.start;
        pid = process.parent;
    } while (pid > 0 && has_setting(pid, session->env.out) && ls_proc_stat(pid, &process));
}

/* While its spool is there, a trace says itself which run it belongs to. */
static bool spool_is_of_run(const char *path, const struct ls_session *session) {
    char spool[LS_PATH_MAX + 8];
    static union {
        struct ls_spool_header header;
        char text[4096];
    } page; /* under the start lock */
    snprintf(spool, sizeof spool, "%s.spool", path);
    for (int hop = 0; hop < 2; hop++) {
        int fd = open(spool, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, &page, sizeof page - 1);
        if (fd >= 0)
            close(fd);
        if (n >= (ssize_t)sizeof page.header &&
            memcmp(page.header.magic, LS_SPOOL_MAGIC, sizeof page.header.magic) == 0)
            return page.header.run_pid == (uint32_t)session->run_pid &&
                   page.header.run_start == session->run_start;
        size_t prefix = strlen(LS_SPOOL_POINTER);
        if (n <= (ssize_t)prefix || memcmp(page.text, LS_SPOOL_POINTER, prefix) != 0)
            return false;
        page.text[n] = 0;
        snprintf(spool, sizeof spool, "%.*s", (int)strcspn(page.text + prefix, "\n"),
                 page.text + prefix);
    }
    return false;
}

/* How exact the times below are: a start is known to 10 ms (rounded down), a file's to a tick. */
#define TICK_NS 10000000u

static uint64_t timestamp_ns(struct statx_timestamp t) {
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

/* When the run began, by the clock that files have. */
static uint64_t run_began_ns(const struct ls_session *session) {
    struct timespec real, boot;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    return ((uint64_t)real.tv_sec - (uint64_t)boot.tv_sec) * 1000000000u + (uint64_t)real.tv_nsec -
           (uint64_t)boot.tv_nsec +
           session->run_start * (1000000000u / (unsigned long)sysconf(_SC_CLK_TCK));
}

/*
 * Afterwards its times must do. A file born close to the start is ours if it was written to later:
 * what lay there before is not written to by anybody.
 */
static bool born_in_run(const char *path, const struct ls_session *session) {
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_BTIME | STATX_MTIME, &st) != 0 ||
        !(st.stx_mask & STATX_BTIME) || session->run_pid == 0)
        return false;
    uint64_t began = run_began_ns(session), born = timestamp_ns(st.stx_btime);
    if (born >= began + TICK_NS)
        return true;
    return born + TICK_NS >= began && timestamp_ns(st.stx_mtime) >= began + 2 * TICK_NS;
}

enum empty { NOT_EMPTY, OF_NOBODY, PERHAPS_CLAIMED };

/* An empty file without a spool holds nothing that could be lost (`touch`; a database's shell that
 * looked for the trace too early). But another process of the run claims its trace by one, for as
 * long as it takes it to make its spool: only what is older than the run is nobody's. */
static enum empty empty_file(const char *path, const struct ls_session *session) {
    char spool[LS_PATH_MAX + 8];
    struct statx st;
    snprintf(spool, sizeof spool, "%s.spool", path);
    if (faccessat(AT_FDCWD, spool, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
        statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_SIZE | STATX_MTIME, &st) !=
            0 ||
        !S_ISREG(st.stx_mode) || st.stx_size != 0 || access(path, W_OK) != 0)
        return NOT_EMPTY;
    return session->run_pid && timestamp_ns(st.stx_mtime) + TICK_NS < run_began_ns(session)
               ? OF_NOBODY
               : PERHAPS_CLAIMED;
}

/* Relative names are taken from where the program is now. */
static bool make_absolute(char *path) {
    char cwd[LS_PATH_MAX];
    if (path[0] == '/')
        return true;
    if (!getcwd(cwd, sizeof cwd))
        return false;
    size_t prefix = strlen(cwd), length = strlen(path);
    if (prefix + 1 + length >= LS_PATH_MAX)
        return false;
    memmove(path + prefix + 1, path, length + 1);
    memcpy(path, cwd, prefix);
    path[prefix] = '/';
    return true;
}

static bool expand(char *out, const char *pattern) {
    char host[256] = "", program[256] = "";
    ssize_t n;
    gethostname(host, sizeof host - 1);
    n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n == (ssize_t)sizeof program - 1) /* longer: its end is what names it */
        snprintf(program, sizeof program, "%s", program_invocation_short_name);
    const struct ls_pattern_values values = {
        .pid = (unsigned long)getpid(),
        .host = host,
        .rank = ls_pattern_rank(environ),
        .program = program,
    };
    return ls_pattern_expand(out, LS_PATH_MAX, pattern, &values) == 0 && make_absolute(out);
}

bool ls_trace_name_claim(struct ls_session *session) {
    char name[LS_PATH_MAX];
    const char *out = session->env.out;
    if (parent[0])
        return create_child(session->trace, parent);
    if (!expand(name, out ? out : LS_PATTERN_DEFAULT))
        return false;
    if (!out)
        return create_numbered(session->trace, name, true);
    find_run(session);
    if (create(name)) {
        memcpy(session->trace, name, sizeof name);
        return true;
    }
    if (errno != EEXIST)
        return false;
    enum empty empty = empty_file(name, session);
    if (empty == OF_NOBODY) {
        memcpy(session->trace, name, sizeof name);
        return true;
    }
    return (empty == PERHAPS_CLAIMED || spool_is_of_run(name, session) ||
            born_in_run(name, session)) &&
           create_child(session->trace, name);
}
