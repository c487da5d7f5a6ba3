/*
 * launch.c - starting a command under liblayoutspy.so and waiting for it. See launch.h.
 *
 * The trace's name may hold the command's pid, so the child itself works it out between fork and
 * exec, and tells it, or what went wrong, through a pipe that a successful exec closes.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/pattern.h"
#include "complain.h"
#include "trace.h"

#define LIBRARY "liblayoutspy.so"
#define NUMBERS 1000 /* of names that exist already, before we give up */

/* From this program's folder: a build tree's, an installation's; then where it was configured. */
static const char *const places[] = {"../preload/" LIBRARY, "../lib/x86_64-linux-gnu/" LIBRARY,
                                     "../lib/" LIBRARY, "../lib64/" LIBRARY, LS_LIBDIR "/" LIBRARY};

/* What the child tells: the trace's name with LS_EXIT_OK, or a status and the line to print. */
struct message {
    int status;
    char text[LS_PATH_MAX + 200];
};

int ls_launch_find_library(struct ls_launch *launch) {
    char exe[PATH_MAX], path[PATH_MAX + 100];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(exe, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s%s", places[i][0] == '/' ? "" : exe, places[i]);
        if (realpath(path, launch->library))
            break;
        launch->library[0] = '\0';
    }
    if (!launch->library[0]) {
        ls_complain(LIBRARY,
                    "not found beside %slayoutspy; install layoutspy whole, or run it "
                    "from its build folder",
                    exe);
        return LS_EXIT_INPUT;
    }
    if (strpbrk(launch->library, ": ")) { /* the loader splits LD_PRELOAD there */
        ls_complain(launch->library, "cannot be preloaded from a path with a blank or a colon; "
                                     "move it");
        return LS_EXIT_INPUT;
    }
    return LS_EXIT_OK;
}

static bool exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Something that may not be lost, or followed. An empty file is nobody's trace: a name that was
 * touched, or looked for too early with a database's shell. */
static bool is_taken(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && !(S_ISREG(st.st_mode) && st.st_size == 0);
}

/* The absolute name that the pattern stands for. False: why not is in `message`. */
static bool name_trace(const struct ls_launch *launch, const char *rank, char name[LS_PATH_MAX],
                       struct message *message) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const struct ls_pattern_values values = {(unsigned long)getpid(), host, rank, launch->argv[0]};
    name[0] = 0;
    message->status = LS_EXIT_OUTPUT;
    if (launch->pattern[0] != '/' && (!getcwd(name, LS_PATH_MAX - 1) || !strcat(name, "/"))) {
        strcpy(message->text, errno == ERANGE ? "the working directory's name is too long"
                                              : "the working directory is gone");
        return false;
    }
    size_t prefix = strlen(name);
    message->status = LS_EXIT_USAGE;
    if (ls_pattern_expand(name + prefix, LS_PATH_MAX - prefix, launch->pattern, &values) != 0 ||
        strlen(name) > LS_TRACE_PATH_MAX) {
        strcpy(message->text, "the trace's name is too long");
        return false;
    }
    return true;
}

/* The trace's absolute name in `message->text`, free to be made; else a status and why not. */
static void choose_trace(const struct ls_launch *launch, struct message *message) {
    char base[LS_PATH_MAX], name[LS_PATH_MAX], spool[LS_PATH_MAX + 8];
    if (!name_trace(launch, ls_pattern_rank(environ), name, message))
        return;
    strcpy(base, name);
    for (unsigned long n = 2;; n++) {
        snprintf(spool, sizeof spool, "%s.spool", name);
        if (!is_taken(name) && !exists(spool))
            break;
        if (!launch->numbered || n == NUMBERS ||
            ls_pattern_insert(name, sizeof name, base, n) != 0) {
            message->status = LS_EXIT_OUTPUT;
            snprintf(message->text, sizeof message->text,
                     "%s: exists already; remove it or give another name",
                     is_taken(name) ? name : spool);
            return;
        }
    }
    message->status = LS_EXIT_OK;
    strcpy(message->text, name);
}

/* The library makes the file when CUDA is first called, hours from now perhaps: try it now. */
static void check_folder(struct message *message) {
    char name[LS_PATH_MAX];
    int fd = -1;
    if (unlink(message->text) == 0 || errno == ENOENT) /* it is empty: see is_taken() */
        fd = open(message->text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        close(fd);
        unlink(message->text);
        return;
    }
    int error = errno;
    strcpy(name, message->text);
    message->status = LS_EXIT_OUTPUT;
    snprintf(message->text, sizeof message->text, "%s: a trace cannot be written there: %s", name,
             strerror(error));
}

/*
 * What LAYOUTSPY_OUT is to be: the trace's name, but for the rank, which a launcher (torchrun,
 * mpirun) gives to each process that it starts and not to us.
 */
static bool make_setting(const struct ls_launch *launch, const char *trace, char *out,
                         size_t size) {
    char name[LS_PATH_MAX], *at;
    struct message unused;
    if (!name_trace(launch, "\001", name, &unused) || !strchr(name, 1))
        return ls_pattern_escape(out, size, trace) == 0;
    if (ls_pattern_escape(out, size, name) != 0)
        return false;
    while ((at = strchr(out, 1))) {
        if (strlen(out) + 2 > size)
            return false;
        memmove(at + 2, at + 1, strlen(at + 1) + 1);
        memcpy(at, "%r", 2);
    }
    return true;
}

/* An LD_PRELOAD that is set stays, behind ours; a tool of NVTX's or of the driver's that is set
 * stays alone. The driver's way in is for programs with the CUDA runtime inside them. */
static bool set_environment(const struct ls_launch *launch, const char *trace) {
    const char *others = getenv("LD_PRELOAD");
    char pattern[LS_PATH_MAX * 2], *preload;
    if (!make_setting(launch, trace, pattern, sizeof pattern) ||
        asprintf(&preload, "%s%s%s", launch->library, others && *others ? ":" : "",
                 others ? others : "") < 0)
        return false;
    return setenv("LD_PRELOAD", preload, 1) == 0 && setenv("LAYOUTSPY_OUT", pattern, 1) == 0 &&
           setenv("NVTX_INJECTION64_PATH", launch->library, 0) == 0 &&
           setenv("CUDA_INJECTION64_PATH", launch->library, 0) == 0;
}

static void tell(int pipe, const struct message *message) {
    size_t done = 0;
    while (done < sizeof *message) {
        ssize_t n = write(pipe, (const char *)message + done, sizeof *message - done);
        if (n <= 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

static void __attribute__((noreturn)) child(const struct ls_launch *launch, int pipe) {
    struct message message = {0};
    choose_trace(launch, &message);
    if (message.status == LS_EXIT_OK)
        check_folder(&message);
    if (message.status == LS_EXIT_OK && !set_environment(launch, message.text)) {
        message.status = LS_EXIT_OUTPUT;
        strcpy(message.text, "no memory for the command's environment");
    }
    tell(pipe, &message);
    if (message.status == LS_EXIT_OK) {
        execvp(launch->argv[0], launch->argv);
        message.status = errno == ENOENT ? 127 : 126;
        snprintf(message.text, sizeof message.text, "%s: %s", launch->argv[0],
                 errno == ENOENT ? "command not found" : strerror(errno));
        tell(pipe, &message);
    }
    _exit(message.status);
}

/* One message from the child; false once the pipe is closed. */
static bool listen_to(int pipe, struct message *message) {
    size_t done = 0;
    while (done < sizeof *message) {
        ssize_t n = read(pipe, (char *)message + done, sizeof *message - done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static const int passed_on[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
#define PASSED_ON (sizeof passed_on / sizeof passed_on[0])
static volatile sig_atomic_t command_pid; /* 0: not started */

static void pass_on(int signal) {
    int saved = errno;
    if (command_pid > 0)
        kill(command_pid, signal);
    errno = saved;
}

/* Ours while the command runs; `before` is what it must inherit. */
static void take_signals(struct sigaction *before) {
    struct sigaction pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &ignore, &before[0]);
    sigaction(SIGQUIT, &ignore, &before[1]);
    for (size_t i = 0; i < PASSED_ON; i++) {
        sigaction(passed_on[i], NULL, &before[2 + i]);
        if (before[2 + i].sa_handler != SIG_IGN) /* nohup */
            sigaction(passed_on[i], &pass, NULL);
    }
}

static void give_signals_back(const struct sigaction *before) {
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGQUIT, &before[1], NULL);
    for (size_t i = 0; i < PASSED_ON; i++)
        sigaction(passed_on[i], &before[2 + i], NULL);
}

int ls_launch_start(struct ls_launch *launch) {
    int pipe[2];
    struct message message;
    struct sigaction before[2 + PASSED_ON];
    sigset_t block, mask;
    struct timespec now;
    if (pipe2(pipe, O_CLOEXEC) != 0) {
        ls_complain(launch->argv[0], "cannot be started: %s", strerror(errno));
        return 126;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    launch->start_real_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    /* A signal between fork and the handlers' return must not run our handler in the child. */
    sigfillset(&block);
    sigprocmask(SIG_BLOCK, &block, &mask);
    take_signals(before);
    launch->pid = fork();
    if (launch->pid == 0) {
        give_signals_back(before);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        close(pipe[0]);
        child(launch, pipe[1]);
    }
    int error = errno;
    command_pid = launch->pid > 0 ? launch->pid : 0;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    close(pipe[1]);
    if (launch->pid < 0) {
        close(pipe[0]);
        ls_complain(launch->argv[0], "cannot be started: %s", strerror(error));
        return 126;
    }
    int status = 126; /* a child that died without a word */
    while (listen_to(pipe[0], &message)) {
        status = message.status;
        if (status == LS_EXIT_OK)
            memcpy(launch->trace, message.text, sizeof launch->trace);
        else
            fprintf(stderr, "layoutspy: %s\n", message.text);
    }
    close(pipe[0]);
    if (status != LS_EXIT_OK)
        waitpid(launch->pid, NULL, 0);
    return status;
}

int ls_launch_wait(struct ls_launch *launch) {
    bool init = getpid() == 1;
    int status = 0;
    for (;;) {
        pid_t pid = waitpid(init ? -1 : launch->pid, &status, 0);
        if (pid == launch->pid)
            break;
        if (pid < 0 && errno != EINTR)
            return 126;
    }
    launch->status = status;
    command_pid = 0;
    while (init && waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
