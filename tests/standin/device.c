/*
 * device.c - the lock, the devices and their contexts. See device.h.
 */
#include "device.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "array.h"
#include "graph_memory.h"
#include "handles.h"
#include "ipc.h"
#include "kernel.h"
#include "memory.h"
#include "pool.h"
#include "stream.h"
#include "tap_call.h"
#include "tell.h"
#include "truth.h"
#include "use.h"
#include "vmm.h"

pthread_mutex_t sd_core = PTHREAD_MUTEX_INITIALIZER;

static struct device devices[STANDIN_DEVICES_MAX];
static __thread int current_ordinal;

/*
 * The driver's state does not survive a fork. The mark is a byte in a page that the kernel wipes
 * in children, however they were forked; NULL until the driver is first used.
 */
static char *fork_mark;

bool sd_driver_lost(void) {
    char *mark = __atomic_load_n(&fork_mark, __ATOMIC_ACQUIRE);
    return mark && !*(volatile char *)mark;
}

static void fork_prepare(void) {
    if (!sd_driver_lost())
        pthread_mutex_lock(&sd_core);
}

static void fork_parent(void) {
    if (!sd_driver_lost())
        pthread_mutex_unlock(&sd_core);
}

static void fork_child(void) {
    /* Unlocking is for the thread that locked; this one is its copy. */
    sd_streams_forget_waiters();
    pthread_mutex_init(&sd_core, NULL);
}

/* Runs while the loader brings the library in; nothing is opened, mapped or started. */
__attribute__((constructor)) static void at_load(void) {
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

__attribute__((destructor)) static void at_unload(void) {
    if (!fork_mark || sd_driver_lost() || !sd_truth_wanted() || !sd_begin_registration())
        return;
    sd_memory_note_live();
    sd_array_note_live();
    sd_end();
    sd_truth_note("#exit %d", (int)getpid());
}

static void mark_used(void) {
    if (fork_mark)
        return;
    char *mark = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED)
        abort();
    madvise(mark, 4096, MADV_WIPEONFORK);
    *mark = 1;
    __atomic_store_n(&fork_mark, mark, __ATOMIC_RELEASE);
}

bool sd_driver_used(void) {
    return __atomic_load_n(&fork_mark, __ATOMIC_ACQUIRE) != NULL;
}

int sd_begin(void) {
    if (sd_in_host_function)
        return SD_NOT_PERMITTED;
    if (sd_driver_lost())
        return SD_INITIALIZATION;
    sd_inject();
    pthread_mutex_lock(&sd_core);
    mark_used();
    return SD_OK;
}

bool sd_begin_registration(void) {
    if (sd_driver_lost())
        return false;
    pthread_mutex_lock(&sd_core);
    return true;
}

int sd_begin_context(struct device **out) {
    sd_tap_make_context(current_ordinal);
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(current_ordinal, out);
    if (status)
        sd_end();
    return status;
}

void sd_end(void) {
    pthread_mutex_unlock(&sd_core);
}

int sd_end_with(int status) {
    sd_end();
    return status;
}

void *sd_context_handle(int ordinal) {
    static char contexts[STANDIN_DEVICES_MAX][16];
    return contexts[ordinal];
}

int standin_device_count(void) {
    return sd_options()->devices;
}

struct device *sd_device(int ordinal) {
    return ordinal >= 0 && ordinal < standin_device_count() ? &devices[ordinal] : NULL;
}

struct device *sd_current(void) {
    return sd_device(current_ordinal);
}

int sd_current_ordinal(void) {
    return current_ordinal;
}

int sd_set_current(int ordinal) {
    if (!sd_device(ordinal))
        return SD_INVALID_DEVICE;
    current_ordinal = ordinal;
    return SD_OK;
}

int sd_device_context(int ordinal, struct device **out) {
    if (standin_device_count() == 0)
        return SD_NO_DEVICE;
    struct device *d = sd_device(ordinal);
    if (!d)
        return SD_INVALID_DEVICE;
    if (!d->context) {
        d->ordinal = ordinal;
        if (!d->arena.base && !sd_arena_open(&d->arena, sd_options()->memory))
            return SD_OUT_OF_MEMORY;
        sd_streams_open(d);
        d->default_pool = d->current_pool = sd_pool_new(d);
        d->arena.told = sd_use_begin(ordinal);
        __atomic_store_n(&d->context, true, __ATOMIC_RELEASE);
        sd_tell_context(ordinal, true);
    }
    *out = d;
    return SD_OK;
}

void sd_device_reset(struct device *d) {
    if (!d->context)
        return;
    sd_device_wait(d);
    sd_tell_context(d->ordinal, false);
    sd_use_end(d->ordinal);
    sd_streams_reset(d);
    sd_array_reset(d);
    sd_graph_memory_reset(d);
    sd_pools_reset(d);
    sd_kernel_reset(d);
    sd_ipc_reset(d);
    sd_vmm_reset(d);
    sd_memory_release_all(d);
    for (int i = 0; i < STANDIN_DEVICES_MAX; i++)
        d->peer[i] = false;
    d->context = false;
    sd_truth_note("#reset %d", d->ordinal);
}
