/*
 * lock.h - small futex locks for the library's slow paths.
 *
 * They lie on the page that a fork wipes (state.h), so a child finds all of them free, whoever held
 * them in the parent and whatever the child calls first. Not pthread_mutex_t: nothing here may
 * allocate or call back into the target. Holders must not be cancelled: see ls_slow_begin().
 *
 * Lock order: START or CUPTI, then KERNELS or MODULES or POOL, then GROW; INTERN and RESOLVE alone.
 * CUPTI is held while CUPTI is called: what CUPTI calls back takes none but the inner ones. No
 * other is held while the loader's locks are taken (dlopen, dlsym, dladdr): a library's
 * constructor, which runs under these, may make the call that waits for ours.
 *
 * Any thread; not async-signal-safe (ls_enter()'s guards keep handlers out).
 */
#ifndef LS_LOCK_H
#define LS_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum ls_lock_name {
    LS_LOCK_START,   /* the life of the session (state.c) */
    LS_LOCK_KERNELS, /* kernel registrations (kernels.c) */
    LS_LOCK_MODULES, /* which modules were told (modules.c) */
    LS_LOCK_POOL,    /* blocks of ended threads (thread.c) */
    LS_LOCK_INTERN,  /* replacing a table of numbers (intern.c); taken alone */
    LS_LOCK_RESOLVE, /* the CUDA runtimes seen (resolve.c); taken alone */
    LS_LOCK_CUPTI,   /* layoutspy as a client of CUPTI (cupti/client.c) */
    LS_LOCK_GROW,    /* growing the spool (spool.c); innermost */
    LS_LOCK_COUNT
};

void ls_lock(enum ls_lock_name name);
/* False: it was not to be had within `ms` milliseconds. */
bool ls_lock_within(enum ls_lock_name name, unsigned ms);
void ls_unlock(enum ls_lock_name name);

static inline long ls_futex(_Atomic uint32_t *word, int op, uint32_t value,
                            const struct timespec *timeout) {
    return syscall(SYS_futex, (uint32_t *)word, op, value, timeout, NULL, 0);
}

/*
 * Around every slow path: open, read and their like are cancellation points, and a thread that is
 * cancelled there would take its locks with it. Keeps errno, too.
 */
struct ls_slow {
    int cancel, saved_errno;
};
struct ls_slow ls_slow_begin(void);
void ls_slow_end(struct ls_slow slow);

#endif
