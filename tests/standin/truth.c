/*
 * truth.c - the ground-truth log and the fault switch. See truth.h and README.md.
 *
 * A line is one writev(2) to a file opened with O_APPEND, so lines of several threads and
 * processes never mix. The descriptor is looked at before each line: a program that closes all
 * descriptors and opens its own must not find our lines in its files.
 */
#include "truth.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "options.h"
#include "tell.h"

/* Guards the opening of the log only. Taken last: nothing is locked or called under it. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int log_fd = -1;
static dev_t log_dev;
static ino_t log_ino;
static pid_t log_pid; /* the process whose sequence runs; a fork child begins anew */
static atomic_uint_fast64_t sequence;

bool sd_truth_wanted(void) {
    return sd_options()->log != NULL;
}

static bool still_ours(int fd) {
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == log_dev && st.st_ino == log_ino;
}

static void cannot_log(const char *what) {
    /* A run without its truth proves nothing: end it, loudly. */
    fprintf(stderr, "simulated device: cannot %s the log %s: %s\n", what, sd_options()->log,
            strerror(errno));
    _Exit(2);
}

static int open_log(void) {
    pthread_mutex_lock(&open_lock);
    int fd = atomic_load(&log_fd);
    if (!still_ours(fd)) {
        fd = open(sd_options()->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            cannot_log("open");
        /* Out of the way of programs that count on low numbers. */
        int high = fcntl(fd, F_DUPFD_CLOEXEC, 700);
        if (high >= 0) {
            close(fd);
            fd = high;
        }
        struct stat st;
        if (fstat(fd, &st) != 0)
            cannot_log("look at");
        log_dev = st.st_dev;
        log_ino = st.st_ino;
        atomic_store(&log_fd, fd);
    }
    pthread_mutex_unlock(&open_lock);
    return fd;
}

static void write_line(const struct iovec *part, int parts) {
    int fd = atomic_load(&log_fd);
    if (!still_ours(fd))
        fd = open_log();
    size_t want = 0;
    for (int i = 0; i < parts; i++)
        want += part[i].iov_len;
    ssize_t done;
    do
        done = writev(fd, part, parts);
    while (done < 0 && errno == EINTR);
    if (done != (ssize_t)want)
        cannot_log("write");
}

/* The first line of each process image says what it is. */
static void start_once(void) {
    pid_t pid = getpid();
    if (__atomic_load_n(&log_pid, __ATOMIC_ACQUIRE) == pid)
        return;
    pthread_mutex_lock(&open_lock);
    bool first = log_pid != pid;
    if (first) {
        atomic_store(&sequence, 0);
        __atomic_store_n(&log_pid, pid, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&open_lock);
    if (first)
        sd_truth_note("#start %d %s", (int)pid, program_invocation_name);
}

void sd_truth_note(const char *format, ...) {
    if (!sd_truth_wanted())
        return;
    char line[1024], *text = line;
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int length = vsnprintf(line, sizeof line, format, values);
    if (length >= (int)sizeof line) { /* a kernel's name */
        text = malloc((size_t)length + 1);
        if (!text)
            abort();
        vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    va_end(values);
    text[length] = '\n';
    write_line(&(struct iovec){text, (size_t)length + 1}, 1);
    if (text != line)
        free(text);
}

/* ---- who called ----------------------------------------------------------------------------- */

static bool starts(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

enum sd_truth_by sd_truth_by(const void *caller) {
    static const char *const standins[] = {
        "libstandin.so", "libcuda.so",      "libcudart.so", "libcublas",   "libcudnn",
        "libcupti.so",   "libcufft",        "libcurand",    "libcusolver", "libcusparse",
        "libnccl.so",    "libnvidia-ml.so", "libnvrtc",     "libnvJitLink"};
    struct dl_find_object found;
    if (_dl_find_object((void *)(uintptr_t)caller, &found) != 0)
        return TRUTH_APP; /* code made at run time */
    const char *path = found.dlfo_link_map->l_name;
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    if (!starts(base, "lib"))
        return TRUTH_APP;
    if (starts(base, "liblayoutspy"))
        return TRUTH_LAYOUTSPY;
    for (size_t i = 0; i < sizeof standins / sizeof *standins; i++)
        if (starts(base, standins[i]))
            return TRUTH_STANDIN;
    return TRUTH_APP;
}

/* ---- the fault switch ----------------------------------------------------------------------- */

struct fault {
    char name[64];
    uint64_t which; /* 0: every call */
    int status;
    atomic_uint_fast64_t seen;
};

static struct fault faults[32];
static size_t fault_count;
static pthread_once_t faults_once = PTHREAD_ONCE_INIT;

static void read_faults(void) {
    char *text = sd_options()->fail ? strdup(sd_options()->fail) : NULL;
    char *save = NULL;
    for (char *item = text ? strtok_r(text, ",", &save) : NULL; item;
         item = strtok_r(NULL, ",", &save)) {
        struct fault *f = &faults[fault_count];
        char which[24];
        if (fault_count == sizeof faults / sizeof *faults ||
            sscanf(item, "%63[^:]:%23[^:]:%d", f->name, which, &f->status) != 3) {
            fprintf(stderr, "simulated device: STANDIN_FAIL wants NAME:WHICH:STATUS, not %s\n",
                    item);
            _Exit(2);
        }
        f->which = strcmp(which, "*") == 0 ? 0 : strtoull(which, NULL, 10);
        fault_count++;
    }
    free(text);
}

int standin_fault(const char *name) {
    pthread_once(&faults_once, read_faults);
    int status = 0;
    for (size_t i = 0; i < fault_count; i++) {
        struct fault *f = &faults[i];
        if (strcmp(f->name, "*") != 0 && strcmp(f->name, name) != 0)
            continue;
        uint64_t n = atomic_fetch_add(&f->seen, 1) + 1;
        if (!status && (f->which == 0 || f->which == n))
            status = f->status;
    }
    return status;
}

/* ---- calls ---------------------------------------------------------------------------------- */

void standin_enter(struct standin_call *call, const char *name, const void *caller) {
    call->name = name;
    call->caller = caller;
    call->fault = sd_options()->fail ? standin_fault(name) : 0;
    call->logged = sd_truth_wanted();
    call->told = sd_told();
    call->correlation = 0;
    call->per_thread = false;
    call->kernel = NULL;
    call->used = 0;
}

static void put(struct standin_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct standin_call *call, const char *format, ...) {
    if (!call->logged)
        return;
    va_list values;
    va_start(values, format);
    size_t room = sizeof call->text - call->used;
    int length = vsnprintf(call->text + call->used, room, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= room) {
        fprintf(stderr, "simulated device: the fields of %s do not fit its line\n", call->name);
        abort();
    }
    call->used += (size_t)length;
}

void standin_put(struct standin_call *call, const char *key, uint64_t value) {
    put(call, "\t%s=%" PRIu64, key, value);
}

void standin_put_signed(struct standin_call *call, const char *key, int64_t value) {
    put(call, "\t%s=%" PRId64, key, value);
}

void standin_put_text(struct standin_call *call, const char *key, const char *value) {
    put(call, "\t%s=%s", key, value);
}

void standin_put_dim3(struct standin_call *call, const char *key, unsigned x, unsigned y,
                      unsigned z) {
    put(call, "\t%s=%u,%u,%u", key, x, y, z);
}

int standin_leave(struct standin_call *call, int status) {
    if (!call->logged)
        return status;
    static const char *const by[] = {"app", "standin", "layoutspy"};
    static char kernel_key[] = "\tkernel=";
    static char newline[] = "\n";
    int saved = errno;
    start_once();
    char head[200];
    int length = snprintf(head, sizeof head, "%d\t%ld\t%" PRIu64 "\t%s\t%d\t%s", (int)getpid(),
                          syscall(SYS_gettid), (uint64_t)atomic_fetch_add(&sequence, 1) + 1,
                          call->name, status, by[sd_truth_by(call->caller)]);
    if (call->correlation && sd_options()->log_gpu)
        standin_put(call, "correlation", call->correlation);
    const char *kernel = call->kernel ? call->kernel : "";
    struct iovec part[] = {{head, (size_t)length},
                           {call->text, call->used},
                           {kernel_key, call->kernel ? sizeof kernel_key - 1 : 0},
                           {(char *)(uintptr_t)kernel, strlen(kernel)},
                           {newline, 1}};
    write_line(part, 5);
    errno = saved;
    return status;
}

void standin_log(const char *name, int status, const void *caller, const char *fields, ...) {
    if (!sd_truth_wanted())
        return;
    struct standin_call call = {.name = name, .caller = caller, .logged = true};
    if (fields) {
        va_list values;
        va_start(values, fields);
        call.text[0] = '\t';
        int length = vsnprintf(call.text + 1, sizeof call.text - 1, fields, values);
        va_end(values);
        if (length < 0 || (size_t)length >= sizeof call.text - 1)
            abort();
        call.used = (size_t)length + 1;
    }
    standin_leave(&call, status);
}
