/*
 * use.c - the shared file of what processes hold. See use.h. A place is taken with the first
 * context; one whose process is gone (another start time counts as gone) may be taken again. Not in
 * signal handlers.
 */
#include "use.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PLACES 64

struct place {
    atomic_int pid;
    int padding;
    _Atomic uint64_t started; /* of the process, as the kernel counts */
    _Atomic uint64_t used[STANDIN_DEVICES_MAX], context[STANDIN_DEVICES_MAX];
};

static struct place *own;  /* core lock held */
static struct place alone; /* where nothing is shared: for the process's own questions */
static pid_t owner;

static bool path_of(char *out, size_t size) {
    const char *key = getenv("STANDIN_SESSION"), *folder = getenv("TMPDIR");
    if (!key || !*key)
        key = sd_options()->log;
    if (!key)
        return false;
    uint64_t hash = 14695981039346656037u;
    for (const char *c = key; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211u;
    int length = snprintf(out, size, "%s/standin-%u-%016llx", folder && *folder ? folder : "/tmp",
                          (unsigned)getuid(), (unsigned long long)hash);
    return length > 0 && (size_t)length < size;
}

/* A file that must not grow would end the program by SIGXFSZ. */
static bool may_grow(size_t size) {
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           limit.rlim_cur >= size;
}

static struct place *open_places(bool make) {
    char path[4096];
    size_t size = PLACES * sizeof(struct place);
    if (!path_of(path, sizeof path) || (make && !may_grow(size)))
        return NULL;
    int fd = open(path, (make ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return NULL;
    struct place *places = MAP_FAILED;
    if (!make || ftruncate(fd, (off_t)size) == 0)
        places = mmap(NULL, size, make ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return places == MAP_FAILED ? NULL : places;
}

/* When a process began, in the kernel's ticks; 0: there is none. */
static uint64_t start_of(int pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *at = strrchr(text, ')'); /* of its name; the 20th word after it is the start */
    char state = at && at[1] ? at[2] : 'Z';
    for (int i = 0; at && i < 20; i++)
        at = strchr(at + 1, ' ');
    return at && state != 'Z' && state != 'X' ? strtoull(at + 1, NULL, 10) : 0;
}

static bool lives(struct place *p) {
    int pid = atomic_load(&p->pid);
    uint64_t started = atomic_load(&p->started);
    return pid > 0 && started && start_of(pid) == started;
}

static struct place *take(struct place *places) {
    for (int i = 0; places && i < PLACES; i++) {
        struct place *p = &places[i];
        int pid = atomic_load(&p->pid);
        if ((pid && lives(p)) || !atomic_compare_exchange_strong(&p->pid, &pid, getpid()))
            continue;
        for (int d = 0; d < STANDIN_DEVICES_MAX; d++) {
            atomic_store(&p->used[d], 0);
            atomic_store(&p->context[d], 0);
        }
        atomic_store(&p->started, start_of(getpid()));
        return p;
    }
    return NULL;
}

_Atomic uint64_t *sd_use_begin(int ordinal) {
    if (owner != getpid()) {
        owner = getpid();
        own = take(open_places(true));
        if (!own) {
            own = &alone;
            atomic_store(&alone.pid, getpid());
        }
    }
    atomic_store(&own->context[ordinal], 1);
    return &own->used[ordinal];
}

void sd_use_end(int ordinal) {
    if (own && owner == getpid())
        atomic_store(&own->context[ordinal], 0);
}

static void copy(struct sd_use *out, struct place *p) {
    out->pid = atomic_load(&p->pid);
    for (int d = 0; d < STANDIN_DEVICES_MAX; d++) {
        out->used[d] = atomic_load(&p->used[d]);
        out->context[d] = atomic_load(&p->context[d]);
    }
}

int sd_use_read(struct sd_use *out, int max) {
    struct place *places = open_places(false);
    int count = 0;
    if (atomic_load(&alone.pid) == getpid() && count++ < max)
        copy(out, &alone);
    for (int i = 0; places && i < PLACES; i++)
        if (lives(&places[i]) && count++ < max)
            copy(&out[count - 1], &places[i]);
    if (places)
        munmap(places, PLACES * sizeof *places);
    return count;
}

__attribute__((destructor)) static void at_exit(void) {
    if (!own || own == &alone || owner != getpid())
        return;
    atomic_store(&own->pid, 0);
    char path[4096];
    struct sd_use other;
    if (sd_use_read(&other, 1) == 0 && path_of(path, sizeof path))
        unlink(path);
}
