/*
 * lock.h - a small futex lock for the library's slow paths.
 *
 * Not pthread_mutex_t: a forked child must be able to declare every lock free again without
 * knowing who held it, and nothing here may allocate or call back into the target.
 * Any thread; not async-signal-safe (a handler that interrupts the holder would wait for ever;
 * ls_enter()'s guards keep handlers out).
 */
#ifndef LS_LOCK_H
#define LS_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct ls_lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and waited for */
};

static inline long ls_futex(_Atomic uint32_t *word, int op, uint32_t value,
                            const struct timespec *timeout) {
    return syscall(SYS_futex, (uint32_t *)word, op, value, timeout, NULL, 0);
}

static inline void ls_lock(struct ls_lock *lock) {
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(&lock->word, &seen, 1))
        return;
    while (atomic_exchange(&lock->word, 2) != 0)
        ls_futex(&lock->word, FUTEX_WAIT_PRIVATE, 2, NULL);
}

static inline void ls_unlock(struct ls_lock *lock) {
    if (atomic_exchange(&lock->word, 0) == 2)
        ls_futex(&lock->word, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* In a forked child only: whoever held it does not exist here. */
static inline void ls_lock_reset(struct ls_lock *lock) {
    atomic_store(&lock->word, 0);
}

#endif
