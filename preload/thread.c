/*
 * thread.c - per-thread blocks: made, reused, let go. See thread.h.
 *
 * Any thread, at its first recorded call and at its end. Not async-signal-safe: ls_enter() keeps
 * handlers out while a thread attaches.
 */
#include "thread.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock.h"
#include "on_call.h"
#include "spool.h"
#include "state.h"

__thread struct ls_thread *ls_self __attribute__((tls_model("initial-exec")));

static struct ls_thread *pool; /* blocks of threads that have ended */
static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static bool have_key;

/* As new. Replays and copies of bytes stay: both are compared with what is there before they count.
 */
static void clear(struct ls_thread *self) {
    struct ls_replay *replay = self->replay;
    struct ls_seen_bytes *seen = self->seen;
    struct ls_cupti_call *cupti = self->cupti;
    memset(self, 0, sizeof *self);
    self->replay = replay;
    self->seen = seen;
    self->cupti = cupti;
}

/*
 * The thread is ending. Destructors of other keys may still call CUDA after this one: they find
 * ls_self NULL and attach a new block, whose destructor then runs in the next round.
 */
static void thread_ended(void *block) {
    struct ls_thread *self = block;
    if (ls_self == self)
        ls_self = NULL;
    if (self->cupti_epoch == atomic_load(&ls_live->epoch)) {
        ls_capture_thread_gone(self->tid);
        ls_spool_release(self);
    }
    ls_lock(LS_LOCK_POOL);
    self->next_free = pool;
    pool = self;
    ls_unlock(LS_LOCK_POOL);
}

static void make_key(void) {
    have_key = pthread_key_create(&end_key, thread_ended) == 0;
}

static struct ls_thread *take_block(void) {
    ls_lock(LS_LOCK_POOL);
    struct ls_thread *self = pool;
    if (self)
        pool = self->next_free;
    ls_unlock(LS_LOCK_POOL);
    if (self) {
        clear(self);
        return self;
    }
    self = mmap(NULL, sizeof *self, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return self == MAP_FAILED ? NULL : self;
}

struct ls_thread *ls_thread_attach(struct ls_thread *stale) {
    struct ls_thread *self = stale;
    uint8_t device = self ? self->device : 0;
    if (self)
        clear(self);
    else
        self = take_block();
    if (!self) {
        ls_self = NULL;
        atomic_fetch_add(&ls_session.header->lost[LS_LOST_THREADS], 1);
        return NULL;
    }
    self->cupti_epoch = atomic_load(&ls_live->epoch);
    self->epoch = ls_session.env.hooks ? self->cupti_epoch : LS_EPOCH_HOOKS_OFF;
    self->device = device;
    self->tid = (uint32_t)syscall(SYS_gettid);
    self->number = atomic_fetch_add(&ls_session.threads, 1) + 1;
    self->next_size = LS_CHUNK_MIN;
    pthread_once(&end_once, make_key);
    if (have_key)
        pthread_setspecific(end_key, self);
    ls_self = self; /* last: until here a handler finds the thread attaching */
    return self;
}

void ls_thread_fork_reset(void) {
    pool = NULL; /* it may have been half-linked when the parent forked */
}
