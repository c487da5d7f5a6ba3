/*
 * nvtx_ranges.c - the ranges that are open, and their MARK records. See nvtx.h.
 *
 * Any thread. Each thread's open ranges lie in a block of its own (mapped at its first push, gone
 * at its end). From a signal handler that interrupts a push or pop of the same thread, ranges are
 * not tracked.
 */
#include "nvtx.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "nvtx_abi.h"
#include "state.h"

#define OPEN_MAX 48    /* nested ranges of a thread that are told late; deeper ones are not */
#define STARTED_MAX 64 /* process-wide ranges begun before the recording, likewise */

#define BEFORE 0 /* ticks of what was begun before the recording */

struct open_range {
    uint64_t told; /* epoch of the session that knows it */
    uint32_t domain;
    int32_t level;
    char text[LS_MARK_TEXT + 8];
};

struct ranges {
    bool busy;
    uint32_t count;
    int32_t level[LS_NVTX_DOMAINS]; /* ranges that are open, by domain */
    struct open_range open[OPEN_MAX];
};

struct started_range {
    _Atomic uint64_t id; /* 0 free, UINT64_MAX being written */
    uint32_t domain;
    char text[LS_MARK_TEXT + 8];
};

static struct ls_nvtx_domain domains[LS_NVTX_DOMAINS];
static struct started_range started[STARTED_MAX];
static _Atomic uint64_t last_id;

static pthread_key_t key; /* of each thread's struct ranges */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool have_key;

/* The session that marks go to now, 0: none. */
static uint64_t session(void) {
    uint64_t epoch = atomic_load_explicit(&ls_live->epoch, memory_order_acquire);
    return epoch == LS_EPOCH_OFF ? 0 : epoch;
}

static void thread_ended(void *block) {
    munmap(block, sizeof(struct ranges));
}

static void make_key(void) {
    have_key = pthread_key_create(&key, thread_ended) == 0;
}

static struct ranges *make_ranges(void) {
    struct ls_slow slow = ls_slow_begin();
    struct ranges *block =
        mmap(NULL, sizeof *block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
        block = NULL;
    } else if (pthread_setspecific(key, block) != 0) {
        munmap(block, sizeof *block);
        block = NULL;
    }
    ls_slow_end(slow);
    return block;
}

/* The calling thread's ranges, nobody else's until leave(); NULL: not tracked. */
static struct ranges *enter(void) {
    pthread_once(&key_once, make_key);
    if (!have_key)
        return NULL;
    struct ranges *self = pthread_getspecific(key);
    if (!self)
        self = make_ranges();
    if (!self || self->busy)
        return NULL;
    self->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    return self;
}

static void leave(struct ranges *self) {
    atomic_signal_fence(memory_order_seq_cst);
    self->busy = false;
}

static void copy_text(char to[LS_MARK_TEXT + 8], const char *text) {
    uint32_t length = ls_mark_length(text);
    memcpy(to, text, length);
    to[length] = '\0';
}

static uint64_t handle_of(uint32_t domain) {
    return (uint64_t)(uintptr_t)ls_nvtx_domain_handle(domain);
}

/* A mark of a domain; its name comes before the first. */
static void put(enum ls_mark kind, uint64_t ticks, uint64_t id, uint32_t domain, const char *text,
                uint64_t epoch) {
    struct ls_nvtx_domain *entry = &domains[domain];
    if (domain && atomic_load_explicit(&entry->told, memory_order_acquire) != epoch) {
        ls_mark_at(LS_MARK_DOMAIN, ticks, 0, handle_of(domain), entry->name);
        atomic_store_explicit(&entry->told, epoch, memory_order_release);
    }
    ls_mark_at(kind, ticks, id, handle_of(domain), text);
}

/* Ranges that this session has not been told of, outermost first. */
static void tell_open(struct ranges *self, uint64_t epoch) {
    for (uint32_t i = 0; i < self->count; i++) {
        struct open_range *open = &self->open[i];
        if (open->told == epoch)
            continue;
        open->told = epoch;
        put(LS_MARK_RANGE_PUSH, BEFORE, 0, open->domain, open->text, epoch);
    }
}

int ls_nvtx_push(uint32_t domain, const char *text) {
    struct ranges *self = enter();
    if (!self)
        return LS_NVTX_NO_TRACKING;
    uint64_t epoch = session();
    int level = self->level[domain]++;
    if (epoch)
        tell_open(self, epoch);
    if (self->count < OPEN_MAX) {
        struct open_range *open = &self->open[self->count++];
        open->told = epoch;
        open->domain = domain;
        open->level = level;
        copy_text(open->text, text);
    }
    if (epoch)
        put(LS_MARK_RANGE_PUSH, ls_ticks(), 0, domain, text, epoch);
    leave(self);
    return level;
}

int ls_nvtx_pop(uint32_t domain) {
    struct ranges *self = enter();
    if (!self)
        return LS_NVTX_NO_TRACKING;
    if (self->level[domain] == 0) {
        leave(self);
        return -1;
    }
    uint64_t epoch = session();
    int level = --self->level[domain];
    if (epoch) {
        tell_open(self, epoch);
        put(LS_MARK_RANGE_POP, ls_ticks(), 0, domain, "", epoch);
    }
    for (uint32_t i = self->count; i > 0; i--) {
        struct open_range *open = &self->open[i - 1];
        if (open->domain != domain || open->level != level)
            continue;
        memmove(open, open + 1, (self->count - i) * sizeof *open);
        self->count--;
        break;
    }
    leave(self);
    return level;
}

uint64_t ls_nvtx_start(uint32_t domain, const char *text) {
    uint64_t id = atomic_fetch_add(&last_id, 1) + 1, epoch = session();
    if (epoch) {
        put(LS_MARK_RANGE_START, ls_ticks(), id, domain, text, epoch);
        return id;
    }
    for (uint32_t i = 0; i < STARTED_MAX; i++) {
        uint64_t nobody = 0;
        if (!atomic_compare_exchange_strong(&started[i].id, &nobody, UINT64_MAX))
            continue;
        started[i].domain = domain;
        copy_text(started[i].text, text);
        atomic_store_explicit(&started[i].id, id, memory_order_release);
        break;
    }
    return id;
}

void ls_nvtx_end(uint32_t domain, uint64_t id) {
    uint64_t epoch = session();
    for (uint32_t i = 0; i < STARTED_MAX && id != 0 && id != UINT64_MAX; i++) {
        if (atomic_load_explicit(&started[i].id, memory_order_acquire) != id)
            continue;
        if (epoch)
            put(LS_MARK_RANGE_START, BEFORE, id, started[i].domain, started[i].text, epoch);
        atomic_store_explicit(&started[i].id, 0, memory_order_release);
    }
    if (epoch)
        put(LS_MARK_RANGE_END, ls_ticks(), id, domain, "", epoch);
}

void ls_nvtx_point(uint32_t domain, const char *text) {
    uint64_t epoch = session();
    if (epoch)
        put(LS_MARK_POINT, ls_ticks(), 0, domain, text, epoch);
}

/* Entries are never given back: a library that makes its domain anew finds the same one. */
uint32_t ls_nvtx_domain(const char *name) {
    uint32_t length = (uint32_t)strnlen(name, LS_NVTX_DOMAIN_NAME - 1);
    for (uint32_t i = 1; i < LS_NVTX_DOMAINS; i++) {
        struct ls_nvtx_domain *entry = &domains[i];
        uint32_t nobody = 0;
        if (length == 0)
            break;
        if (atomic_compare_exchange_strong(&entry->named, &nobody, 1)) {
            memcpy(entry->name, name, length);
            atomic_store_explicit(&entry->named, 2, memory_order_release);
            return i;
        }
        /* A few stores; for ever, where a fork or a signal came between them: not ours, then. */
        for (int spin = 0; spin < 10000; spin++) {
            if (atomic_load_explicit(&entry->named, memory_order_acquire) == 2)
                break;
            __builtin_ia32_pause();
        }
        if (atomic_load_explicit(&entry->named, memory_order_acquire) != 2)
            continue;
        if (strncmp(entry->name, name, length) == 0 && entry->name[length] == '\0')
            return i;
    }
    return length == 0 ? 0 : LS_NVTX_DOMAINS - 1; /* full: as the last one */
}

uint32_t ls_nvtx_domain_of(const void *handle) {
    uintptr_t at = (uintptr_t)handle - (uintptr_t)domains;
    return at < sizeof domains && at % sizeof domains[0] == 0 ? (uint32_t)(at / sizeof domains[0])
                                                              : 0;
}

void *ls_nvtx_domain_handle(uint32_t domain) {
    return domain ? &domains[domain] : NULL;
}
