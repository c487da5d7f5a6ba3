/*
 * collector.c - two nested clone(CLONE_VM | CLONE_VFORK). See collector.h.
 *
 * Runs once per recording, in the thread that makes the first CUDA call, under the session's
 * start lock. The first clone leaves our session and becomes the second's parent; it exits at
 * once, so the collector belongs to init. Both have exit signal 0: no SIGCHLD, invisible to
 * wait() without __WALL; ours is reaped with __WCLONE. Sharing memory until exec makes it as
 * cheap for a 100 GB process as for a small one (a plain fork of 4 GB takes 132 ms).
 */
#include "collector.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "modules.h"

#define STACK_SIZE (64u << 10) /* of each clone */

struct ls_collector_result ls_collector_result = {"off", "not started yet"};

/* Shared by the target and both clones (they share memory). */
struct launch {
    const char *path;
    char *const *argv;
    char *const *envp;
    char *inner_stack; /* its top */
    volatile pid_t pid;
    volatile int error; /* errno of what failed, 0: the collector runs */
};

static void exit_now(int status) {
    for (;;)
        syscall(SYS_exit_group, status);
}

/* The collector-to-be. Only system calls: we run on the target's memory. */
static int inner(void *data) {
    struct launch *launch = data;
    launch->pid = (pid_t)syscall(SYS_getpid);
    if (syscall(SYS_close_range, 0u, ~0u, 0u) != 0) /* before Linux 5.9: the usual ones */
        for (int fd = 0; fd < 1024; fd++)
            syscall(SYS_close, fd);
    syscall(SYS_execve, launch->path, launch->argv, launch->envp);
    launch->error = errno;
    exit_now(127);
    return 0;
}

static int outer(void *data) {
    struct launch *launch = data;
    syscall(SYS_setsid);
    if (clone(inner, launch->inner_stack, CLONE_VM | CLONE_VFORK, launch) < 0)
        launch->error = errno;
    exit_now(0);
    return 0;
}

/* Where the command lies: as told, or beside us in a build tree or an installation. (By dladdr we
 * would wait for the loader's lock, whose holder may be a constructor that waits for ours.) */
static bool find_command(char *out, size_t size, const char *told) {
    static const char *const beside[] = {"/../analyzer/layoutspy", "/../bin/layoutspy",
                                         "/../../bin/layoutspy"};
    char real[PATH_MAX];
    struct ls_module own;
    if (told)
        return snprintf(out, size, "%s", told) < (int)size && access(out, X_OK) == 0;
    if (!ls_module_find((void *)find_command, &own) || !realpath(own.map->l_name, real))
        return false;
    *strrchr(real, '/') = 0;
    for (unsigned i = 0; i < sizeof beside / sizeof *beside; i++)
        if (snprintf(out, size, "%s%s", real, beside[i]) < (int)size && access(out, X_OK) == 0)
            return true;
    return false;
}

/* Ours without what would change the collector itself: it must not be recorded, nor find other
 * libraries than when the user runs `layoutspy`. */
static char **own_environment(size_t *bytes) {
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    *bytes = (count + 1) * sizeof(char *);
    char **copy = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_", 3) != 0)
            copy[kept++] = environ[i];
    return copy;
}

static const char *reason_not_to(const struct ls_session *session) {
    int subreaper = 0;
    if (session->env.collector && strcmp(session->env.collector, "none") == 0)
        return "LAYOUTSPY_COLLECTOR=none: the spool waits for the next layoutspy command";
    if (getpid() == 1)
        return "the program is PID 1 and would have to reap a collector: start it by `layoutspy "
               "run`, or let any layoutspy command read the spool later";
    if (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper)
        return "the program is a subreaper and would have to reap a collector: the spool waits "
               "for the next layoutspy command";
    return NULL;
}

static void launch_collector(struct ls_session *session, struct launch *launch, char *stacks) {
    sigset_t all, before;
    int status;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* no handler may run on a clone's stack */
    pid_t pid = clone(outer, stacks + STACK_SIZE, CLONE_VM | CLONE_VFORK, launch);
    if (pid < 0)
        launch->error = errno;
    while (pid > 0 && waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR) {
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    uint32_t none = 0; /* the collector may have put its pid there itself */
    if (launch->error == 0)
        atomic_compare_exchange_strong(&session->header->collector_pid, &none,
                                       (uint32_t)launch->pid);
}

void ls_collector_start(struct ls_session *session) {
    char path[LS_PATH_MAX], pid[16];
    const char *reason = reason_not_to(session);
    if (!reason && !find_command(path, sizeof path, session->env.collector))
        reason = session->env.collector ? "LAYOUTSPY_COLLECTOR names no program"
                                        : "the layoutspy command was not found beside the library";
    if (reason) {
        ls_collector_result = (struct ls_collector_result){"off", reason};
        return;
    }
    snprintf(pid, sizeof pid, "%d", (int)session->pid);
    char *argv[] = {
        (char *)"layoutspy", (char *)"collect", (char *)"--pid", pid, session->spool, NULL};
    size_t env_bytes;
    char **envp = own_environment(&env_bytes);
    char *stacks = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (envp && stacks != MAP_FAILED) {
        struct launch launch = {
            .path = path, .argv = argv, .envp = envp, .inner_stack = stacks + 2 * STACK_SIZE};
        launch_collector(session, &launch, stacks);
        ls_collector_result = launch.error == 0
                                  ? (struct ls_collector_result){"on", ""}
                                  : (struct ls_collector_result){"off", strerror(launch.error)};
    }
    if (stacks != MAP_FAILED)
        munmap(stacks, 2 * STACK_SIZE);
    if (envp)
        munmap(envp, env_bytes);
}
