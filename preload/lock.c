/*
 * lock.c - futex locks on the page that a fork wipes. See lock.h.
 */
#include "lock.h"

#include <errno.h>
#include <pthread.h>

#include "clock.h"
#include "state.h"

/* 0 free, 1 held, 2 held and waited for */
void ls_lock(enum ls_lock_name name) {
    _Atomic uint32_t *word = &ls_live_page()->lock[name];
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(word, &seen, 1))
        return;
    while (atomic_exchange(word, 2) != 0)
        ls_futex(word, FUTEX_WAIT_PRIVATE, 2, NULL);
}

bool ls_lock_within(enum ls_lock_name name, unsigned ms) {
    _Atomic uint32_t *word = &ls_live_page()->lock[name];
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(word, &seen, 1))
        return true;
    for (uint64_t now = ls_ns(CLOCK_MONOTONIC), end = now + ms * UINT64_C(1000000); now < end;
         now = ls_ns(CLOCK_MONOTONIC)) {
        struct timespec left = {(time_t)((end - now) / 1000000000),
                                (long)((end - now) % 1000000000)};
        if (atomic_exchange(word, 2) == 0)
            return true;
        ls_futex(word, FUTEX_WAIT_PRIVATE, 2, &left);
    }
    return false;
}

void ls_unlock(enum ls_lock_name name) {
    _Atomic uint32_t *word = &ls_live_page()->lock[name];
    if (atomic_exchange(word, 0) == 2)
        ls_futex(word, FUTEX_WAKE_PRIVATE, 1, NULL);
}

struct ls_slow ls_slow_begin(void) {
    struct ls_slow slow = {.saved_errno = errno};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &slow.cancel);
    return slow;
}

void ls_slow_end(struct ls_slow slow) {
    pthread_setcancelstate(slow.cancel, NULL);
    errno = slow.saved_errno;
}
