/*
 * nvml.c - see nvml.h. What is marked so runs in NVML's thread, the rest in the collector's; the
 * lock guards what both touch, and is never held across a call into NVML. Not async-signal-safe.
 *
 * Declarations are our own: NVML's binary interface is stable, and its header is in no toolkit.
 */
#include "nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "now.h"

#define SAMPLES_KEPT 16         /* that nobody has taken yet */
#define PROCESSES_MOST 512      /* on a device; of more, none is told */
#define MOST (INT64_C(1) << 50) /* bytes: what is more is no device's */
#define STOP_MS 200             /* for the thread to see that it is over */
#define STACK_BYTES (1 << 20)

typedef struct nvmlDevice_st *nvmlDevice_t;
enum { NVML_OK = 0 };
#define NVML_MIG_ON 1

struct memory_v1 {
    unsigned long long total, free, used;
};
/* `used` is without what the driver keeps for itself (`reserved`), and so is CUDA's total. */
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};
#define MEMORY_V2 ((unsigned)sizeof(struct memory_v2) | 2u << 24)
struct process {
    unsigned pid;
    unsigned long long used; /* all bits set: not told */
    unsigned gpu_instance, compute_instance;
};

/* NVML's functions; those that are not there are NULL. */
struct functions {
    int (*init)(void);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, nvmlDevice_t *device);
    int (*uuid)(nvmlDevice_t device, char *text, unsigned size);
    int (*name)(nvmlDevice_t device, char *text, unsigned size);
    int (*mig)(nvmlDevice_t device, unsigned *now, unsigned *pending);
    int (*memory)(nvmlDevice_t device, struct memory_v1 *memory);
    int (*memory_v2)(nvmlDevice_t device, struct memory_v2 *memory);
    int (*compute)(nvmlDevice_t device, unsigned *count, struct process *process);
    int (*graphics)(nvmlDevice_t device, unsigned *count, struct process *process);
};

struct ls_nvml {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    /* Under the lock. */
    enum ls_nvml_state state;
    char why[200];
    bool asked, over, ended;
    int64_t called_ms; /* when the call into NVML that has not come back was made; 0: none */
    struct ls_nvml_sample sample[SAMPLES_KEPT];
    size_t first, count;
    /* The thread's own, once it runs. */
    struct functions nvml;
    char *library, *visible, *order;
    pid_t pid;
    bool pids_known;
    nvmlDevice_t handle[LS_NVML_DEVICES];
    struct ls_nvml_device device[LS_NVML_DEVICES];
    struct ls_nvml_match match;
    struct process process[2 * PROCESSES_MOST];
};

static bool hangs; /* the collector's thread alone */

/* ---- NVML's thread ---- */

static void note_call(struct ls_nvml *n, bool begins) {
    pthread_mutex_lock(&n->lock);
    n->called_ms = begins ? ls_now_ms() : 0;
    pthread_mutex_unlock(&n->lock);
}

/* A call that may hang: the collector sees since when. */
#define CALL(n, expression)                                                                        \
    ({                                                                                             \
        note_call(n, true);                                                                        \
        int call_status = (expression);                                                            \
        note_call(n, false);                                                                       \
        call_status;                                                                               \
    })

static void turn(struct ls_nvml *n, enum ls_nvml_state state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void turn(struct ls_nvml *n, enum ls_nvml_state state, const char *format, ...) {
    va_list args;
    pthread_mutex_lock(&n->lock);
    if (n->state != LS_NVML_OFF) { /* not after it was given up */
        n->state = state;
        va_start(args, format);
        vsnprintf(n->why, sizeof n->why, format, args);
        va_end(args);
    }
    pthread_mutex_unlock(&n->lock);
}

/* The collector has no LD_LIBRARY_PATH: these are where containers and distributions put it. */
static void *load(struct ls_nvml *n) {
    static const char *const usual[] = {
        "libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
        "/usr/lib/wsl/lib/libnvidia-ml.so.1", "/run/opengl-driver/lib/libnvidia-ml.so.1"};
    void *found = NULL;
    note_call(n, true);
    if (n->library)
        found = dlopen(n->library, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; !n->library && !found && i < sizeof usual / sizeof usual[0]; i++)
        found = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
    note_call(n, false);
    return found;
}

static void *find(void *library, const char *name, const char *older) {
    void *function = dlsym(library, name);
    return function || !older ? function : dlsym(library, older);
}

static bool find_functions(struct functions *f, void *library) {
    f->init = (int (*)(void))find(library, "nvmlInit_v2", NULL);
    f->count = (int (*)(unsigned *))find(library, "nvmlDeviceGetCount_v2", NULL);
    f->handle =
        (int (*)(unsigned, nvmlDevice_t *))find(library, "nvmlDeviceGetHandleByIndex_v2", NULL);
    f->uuid = (int (*)(nvmlDevice_t, char *, unsigned))find(library, "nvmlDeviceGetUUID", NULL);
    f->name = (int (*)(nvmlDevice_t, char *, unsigned))find(library, "nvmlDeviceGetName", NULL);
    f->mig =
        (int (*)(nvmlDevice_t, unsigned *, unsigned *))find(library, "nvmlDeviceGetMigMode", NULL);
    f->memory =
        (int (*)(nvmlDevice_t, struct memory_v1 *))find(library, "nvmlDeviceGetMemoryInfo", NULL);
    f->memory_v2 = (int (*)(nvmlDevice_t, struct memory_v2 *))find(
        library, "nvmlDeviceGetMemoryInfo_v2", NULL);
    f->compute = (int (*)(nvmlDevice_t, unsigned *, struct process *))find(
        library, "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetComputeRunningProcesses_v2");
    f->graphics = (int (*)(nvmlDevice_t, unsigned *, struct process *))find(
        library, "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v2");
    return f->init && f->count && f->handle && (f->memory || f->memory_v2);
}

/* Bytes that can be a device's; -1: they cannot. */
static int64_t sound(unsigned long long bytes, int64_t most) {
    return bytes <= (unsigned long long)most ? (int64_t)bytes : -1;
}

static bool read_memory(struct ls_nvml *n, nvmlDevice_t device, int64_t *used, int64_t *total) {
    struct memory_v1 old = {0};
    struct memory_v2 memory = {.version = MEMORY_V2};
    *used = *total = -1;
    if (n->nvml.memory_v2 && CALL(n, n->nvml.memory_v2(device, &memory)) == NVML_OK &&
        memory.reserved <= memory.total) {
        *total = sound(memory.total - memory.reserved, MOST);
        *used = sound(memory.used, *total);
    } else if (n->nvml.memory && CALL(n, n->nvml.memory(device, &old)) == NVML_OK) {
        *total = sound(old.total, MOST);
        *used = sound(old.used, *total);
    }
    return *total > 0 && *used >= 0;
}

static void describe(struct ls_nvml *n, unsigned index) {
    struct ls_nvml_device *d = &n->device[index];
    unsigned mig = 0, pending = 0;
    int64_t used;
    if (CALL(n, n->nvml.handle(index, &n->handle[index])) != NVML_OK)
        return;
    d->there = true;
    if (!n->nvml.uuid || CALL(n, n->nvml.uuid(n->handle[index], d->uuid, sizeof d->uuid)))
        d->uuid[0] = '\0';
    if (!n->nvml.name || CALL(n, n->nvml.name(n->handle[index], d->name, sizeof d->name)))
        d->name[0] = '\0';
    d->uuid[sizeof d->uuid - 1] = d->name[sizeof d->name - 1] = '\0';
    d->mig = n->nvml.mig && CALL(n, n->nvml.mig(n->handle[index], &mig, &pending)) == NVML_OK &&
             mig == NVML_MIG_ON;
    read_memory(n, n->handle[index], &used, &d->total);
}

static bool begin(struct ls_nvml *n) {
    unsigned count = 0;
    void *library = load(n);
    int status;
    if (!library)
        turn(n, LS_NVML_OFF, n->library ? "no NVML where LAYOUTSPY_NVML says" : "no NVML");
    else if (!find_functions(&n->nvml, library))
        turn(n, LS_NVML_OFF, "an NVML that lacks what is needed");
    else if ((status = CALL(n, n->nvml.init())) != NVML_OK)
        turn(n, LS_NVML_OFF, "NVML does not start (error %d)", status);
    else if ((status = CALL(n, n->nvml.count(&count))) != NVML_OK)
        turn(n, LS_NVML_OFF, "NVML does not count the devices (error %d)", status);
    else if (count == 0 || count > LS_NVML_DEVICES)
        turn(n, LS_NVML_OFF, "NVML tells of %u devices", count);
    else {
        bool any = false;
        for (unsigned i = 0; i < count; i++)
            describe(n, i);
        ls_nvml_match(&n->match, n->device, count, n->visible, n->order);
        for (size_t i = 0; i < n->match.count; i++)
            any |= n->match.index[i] >= 0;
        turn(n, any ? LS_NVML_READY : LS_NVML_OFF, "%s",
             any || *n->match.why ? n->match.why : "none of NVML's devices is the program's");
        return any;
    }
    return false;
}

/* Appends a list of processes; false: it is not to be had. */
static bool read_list(struct ls_nvml *n, nvmlDevice_t device,
                      int (*list)(nvmlDevice_t, unsigned *, struct process *), size_t *count) {
    unsigned more = PROCESSES_MOST;
    if (CALL(n, list(device, &more, &n->process[*count])) != NVML_OK || more > PROCESSES_MOST)
        return false;
    *count += more;
    return true;
}

/* A process that both computes and draws is in both lists, with the same figure. */
static bool told_before(const struct process *process, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (process[i].pid == process[at].pid)
            return true;
    return false;
}

static void read_processes(struct ls_nvml *n, nvmlDevice_t device, struct ls_nvml_reading *r,
                           bool *found) {
    size_t count = 0;
    bool whole = n->nvml.compute && read_list(n, device, n->nvml.compute, &count);
    r->own = r->others = -1;
    if (!whole || (n->nvml.graphics && !read_list(n, device, n->nvml.graphics, &count)))
        return;
    r->own = r->others = 0;
    for (size_t i = 0; i < count; i++) {
        const struct process *p = &n->process[i];
        int64_t bytes = sound(p->used, r->total);
        bool own = n->pid && p->pid == (unsigned)n->pid;
        *found |= own;
        if (told_before(n->process, i))
            continue;
        int64_t *sum = own ? &r->own : &r->others;
        *sum = bytes < 0 || *sum < 0 ? -1 : *sum + bytes;
    }
}

/* Where the target was never seen under its number, NVML may know it by another one. */
static void hide_processes(struct ls_nvml_sample *sample) {
    for (size_t i = 0; i < sample->count; i++)
        sample->reading[i].own = sample->reading[i].others = -1;
}

static void publish(struct ls_nvml *n, const struct ls_nvml_sample *sample) {
    pthread_mutex_lock(&n->lock);
    if (n->count == SAMPLES_KEPT) {
        n->first = (n->first + 1) % SAMPLES_KEPT;
        n->count--;
    }
    n->sample[(n->first + n->count++) % SAMPLES_KEPT] = *sample;
    n->asked = false;
    pthread_mutex_unlock(&n->lock);
}

static void take_sample(struct ls_nvml *n) {
    struct ls_nvml_sample sample = {0};
    struct timespec now;
    bool found = false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sample.mono_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    for (size_t i = 0; i < n->match.count; i++) {
        struct ls_nvml_reading *r = &sample.reading[sample.count];
        if (n->match.index[i] < 0)
            continue;
        r->device = (int)i;
        if (!read_memory(n, n->handle[n->match.index[i]], &r->used, &r->total))
            continue;
        read_processes(n, n->handle[n->match.index[i]], r, &found);
        sample.count++;
    }
    n->pids_known |= found;
    if (!n->pids_known)
        hide_processes(&sample);
    publish(n, &sample);
}

static bool wait_for_question(struct ls_nvml *n) {
    pthread_mutex_lock(&n->lock);
    while (!n->asked && !n->over)
        pthread_cond_wait(&n->wake, &n->lock);
    bool over = n->over;
    pthread_mutex_unlock(&n->lock);
    return !over;
}

static void *run(void *context) {
    struct ls_nvml *n = context;
    if (begin(n))
        while (wait_for_question(n))
            take_sample(n);
    pthread_mutex_lock(&n->lock);
    n->ended = true;
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

/* ---- the collector's ---- */

static void release(struct ls_nvml *n) {
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->wake);
    free(n->library);
    free(n->visible);
    free(n->order);
    free(n);
}

static char *copied(const char *text) {
    return text ? strdup(text) : NULL;
}

struct ls_nvml *ls_nvml_start(const struct ls_nvml_setup *setup) {
    struct ls_nvml *n = calloc(1, sizeof *n);
    pthread_attr_t attributes;
    if (!n)
        return NULL;
    n->library = copied(setup->library);
    n->visible = copied(setup->visible);
    n->order = copied(setup->order);
    n->pid = setup->pid;
    n->pids_known = setup->all_pids;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->wake, NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are the collector's own matter */
    bool started = (!setup->visible || n->visible) && (!setup->library || n->library) &&
                   pthread_create(&n->thread, &attributes, run, n) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (started)
        return n;
    release(n);
    return NULL;
}

void ls_nvml_ask(struct ls_nvml *nvml) {
    pthread_mutex_lock(&nvml->lock);
    nvml->asked = true;
    pthread_cond_signal(&nvml->wake);
    pthread_mutex_unlock(&nvml->lock);
}

/* With the lock. */
static void give_up(struct ls_nvml *n) {
    if (n->state == LS_NVML_OFF || n->called_ms == 0 ||
        ls_now_ms() - n->called_ms < LS_NVML_PATIENCE_MS)
        return;
    n->state = LS_NVML_OFF;
    snprintf(n->why, sizeof n->why, "NVML did not answer within %d s", LS_NVML_PATIENCE_MS / 1000);
}

bool ls_nvml_take(struct ls_nvml *nvml, struct ls_nvml_sample *sample) {
    pthread_mutex_lock(&nvml->lock);
    give_up(nvml);
    bool any = nvml->count > 0;
    if (any) {
        *sample = nvml->sample[nvml->first];
        nvml->first = (nvml->first + 1) % SAMPLES_KEPT;
        nvml->count--;
    }
    pthread_mutex_unlock(&nvml->lock);
    return any;
}

enum ls_nvml_state ls_nvml_state(struct ls_nvml *nvml) {
    pthread_mutex_lock(&nvml->lock);
    enum ls_nvml_state state = nvml->state;
    pthread_mutex_unlock(&nvml->lock);
    return state;
}

void ls_nvml_why(struct ls_nvml *nvml, char *why, size_t size) {
    pthread_mutex_lock(&nvml->lock);
    snprintf(why, size, "%s", nvml->why);
    pthread_mutex_unlock(&nvml->lock);
}

static bool has_ended(struct ls_nvml *n) {
    pthread_mutex_lock(&n->lock);
    bool ended = n->ended;
    pthread_mutex_unlock(&n->lock);
    return ended;
}

void ls_nvml_stop(struct ls_nvml *nvml) {
    pthread_mutex_lock(&nvml->lock);
    nvml->over = true;
    pthread_cond_signal(&nvml->wake);
    pthread_mutex_unlock(&nvml->lock);
    for (int64_t end = ls_now_ms() + STOP_MS; !has_ended(nvml) && ls_now_ms() < end;)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (has_ended(nvml)) {
        pthread_join(nvml->thread, NULL);
        release(nvml);
    } else {
        pthread_detach(nvml->thread);
        hangs = true;
    }
}

bool ls_nvml_hangs(void) {
    return hangs;
}
