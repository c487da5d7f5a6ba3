/*
 * watch.c - see watch.h. One thread; not async-signal-safe.
 */
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/proc_stat.h"
#include "now.h"

#define LOOK_MS 500 /* between looks at /proc, where there is a pidfd */

static void look(struct ls_watch *watch) {
    struct ls_proc_stat line;
    if (!ls_proc_stat(watch->pid, &line)) {
        /* Gone, or /proc is hidden from us: then the pidfd knows, or the pid itself. */
        if (watch->pidfd < 0)
            watch->dead = kill(watch->pid, 0) != 0 && errno == ESRCH;
    } else if (watch->start && line.start != watch->start) {
        watch->dead = true;
    } else if (line.state == 'X' || (line.state == 'Z' && line.threads <= 1)) {
        watch->dead = true; /* a zombie whose other threads go on has only lost its main thread */
    } else if (watch->image && line.image && line.image != watch->image && line.state != 'Z') {
        watch->dead = watch->replaced = true;
    }
}

/*
 * Is there no process in a pid namespace any more? Only the first namespace sees all others, and
 * only what we may look at counts: one link that cannot be read leaves it open.
 */
static bool space_is_gone(uint64_t space, uint64_t own) {
    const uint64_t first = 0xeffffffc; /* PROC_PID_INIT_INO of Linux */
    struct dirent *entry;
    DIR *proc = own == first ? opendir("/proc") : NULL;
    bool gone = proc != NULL;
    while (gone && (entry = readdir(proc))) {
        char path[64];
        struct stat st;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || strcmp(entry->d_name, "1") == 0)
            continue; /* 1 is in the first namespace, whether or not we may look at it */
        snprintf(path, sizeof path, "/proc/%.20s/ns/pid", entry->d_name);
        if (stat(path, &st) == 0 ? st.st_ino == space : errno != ENOENT && errno != ESRCH)
            gone = false;
    }
    if (proc)
        closedir(proc);
    return gone;
}

void ls_watch_init(struct ls_watch *watch, pid_t pid, uint64_t start, uint64_t image,
                   uint64_t space) {
    struct stat own;
    *watch = (struct ls_watch){.pid = pid, .start = start, .image = image, .pidfd = -1};
    watch->elsewhere = space && stat("/proc/self/ns/pid", &own) == 0 && own.st_ino != space;
    if (watch->elsewhere) {
        watch->dead = space_is_gone(space, own.st_ino);
        return;
    }
    watch->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (watch->pidfd < 0 && errno == ESRCH)
        watch->dead = true;
    else
        look(watch); /* after the pidfd: it is this very process that it holds */
    watch->looked_ms = ls_now_ms();
}

bool ls_watch_dead(struct ls_watch *watch) {
    if (watch->dead || watch->elsewhere)
        return watch->dead;
    if (watch->pidfd >= 0) {
        watch->dead = poll(&(struct pollfd){.fd = watch->pidfd, .events = POLLIN}, 1, 0) > 0;
        if (watch->dead || ls_now_ms() - watch->looked_ms < LOOK_MS)
            return watch->dead;
        watch->looked_ms = ls_now_ms();
    }
    look(watch);
    return watch->dead;
}

void ls_watch_destroy(struct ls_watch *watch) {
    if (watch->pidfd >= 0)
        close(watch->pidfd);
    watch->pidfd = -1;
}
