/*
 * cupti_buffer.c - the buffers of a session. They are asked of the client when a record needs room,
 * in the thread whose call or completion that is; filled; and handed back when full by CUPTI's own
 * thread, or by a flush. Records of whatever kind go into the session's one open buffer, in the
 * order in which they are made. No lock but drain and deliver is held while a client's function
 * runs. Not in signal handlers.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cupti_standin.h"

struct cp_session cp_sessions[CP_SESSIONS];

/* Guards the handing back, so that a flush that returns has seen all of it. */
static pthread_mutex_t deliver = PTHREAD_MUTEX_INITIALIZER;

static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER; /* of the worker's sleep */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static atomic_bool work_waits;
static pid_t worker_of; /* the process whose worker runs */

/* The child of a fork has no thread of CUPTI's, and locks in any state: nothing is told there. */
static void in_child(void) {
    atomic_store(&sd_tap, NULL);
    pthread_mutex_init(&deliver, NULL);
    for (int i = 0; i < CP_SESSIONS; i++)
        pthread_mutex_init(&cp_sessions[i].lock, NULL);
    cp_work_in_child();
    cp_context_in_child();
}

__attribute__((constructor)) static void prepare(void) {
    for (int i = 0; i < CP_SESSIONS; i++)
        pthread_mutex_init(&cp_sessions[i].lock, NULL);
    pthread_atfork(NULL, NULL, in_child);
}

bool cp_wants(const struct cp_session *session, int kind) {
    return kind > 0 && kind < 64 && (atomic_load(&session->kinds) >> kind & 1);
}

bool cp_anyone_wants(int kind) {
    for (int i = 0; i < CP_SESSIONS; i++)
        if (cp_wants(&cp_sessions[i], kind))
            return true;
    return false;
}

static void free_list(struct cp_buffer **list) {
    while (*list) {
        struct cp_buffer *next = (*list)->next;
        free(*list); /* the bytes are the client's */
        *list = next;
    }
}

void cp_session_reset(struct cp_session *s) {
    atomic_store(&s->kinds, 0);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < CP_CALLBACKS; j++)
            atomic_store(&s->ignored[i][j], 0);
    pthread_mutex_lock(&s->lock);
    s->request = NULL;
    s->complete = NULL;
    s->request_v2 = s->complete_v2 = NULL;
    free_list(&s->current);
    free_list(&s->spare);
    free_list(&s->full);
    s->dropped = 0;
    pthread_mutex_unlock(&s->lock);
}

/* ---- asking for buffers ---- */

/* Lock held. */
static void add_last(struct cp_buffer **list, struct cp_buffer *buffer) {
    while (*list)
        list = &(*list)->next;
    buffer->next = NULL;
    *list = buffer;
}

static void ask(struct cp_session *s, struct cp_buffer *b) {
    CUpti_BuffersCallbackRequestFunc request = s->request;
    enum cp_where outer = cp_where;
    cp_where = CP_REQUEST;
    if (s->request_v2)
        cp_request_v2(s, &b->bytes, &b->size, &b->limit);
    else if (request)
        request(&b->bytes, &b->size, &b->limit);
    cp_where = outer;
}

/* A buffer that can be used; NULL: what the client gave is none. */
static struct cp_buffer *request(struct cp_session *s) {
    struct cp_buffer *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    ask(s, b);
    if (!b->bytes || b->size < 8 || ((uintptr_t)b->bytes & 7)) {
        cp_note("refused buffer=%p size=%zu", (void *)b->bytes, b->size);
        free(b);
        return NULL;
    }
    return b;
}

/* The first record of a buffer may tell what it took to get it. */
static void tell_request(struct cp_session *s, uint64_t start) {
    if (!cp_wants(s, CUPTI_ACTIVITY_KIND_OVERHEAD))
        return;
    struct cp_record r;
    cp_begin(&r, CP_R_OVERHEAD);
    SET(&r, OVERHEAD, overheadKind,
        cp_options()->version >= CP_13_0 ? CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST
                                         : CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE);
    SET(&r, OVERHEAD, objectKind, 2); /* a thread */
    SET(&r, OVERHEAD, objectProcess, getpid());
    SET(&r, OVERHEAD, objectThread, gettid());
    SET(&r, OVERHEAD, start, start);
    SET(&r, OVERHEAD, end, cp_now());
    cp_append(s, &r);
}

/* ---- filling them ---- */

/* Lock held: puts the record where it fits; false: a buffer is needed. */
static bool place(struct cp_session *s, const struct cp_record *record) {
    for (;;) {
        struct cp_buffer *b = s->current;
        if (b && b->used + record->size <= b->size && (!b->limit || b->records < b->limit)) {
            memcpy(b->bytes + b->used, record->bytes, record->size);
            b->used += record->size;
            b->records++;
            return true;
        }
        if (b) {
            add_last(&s->full, b);
            s->current = NULL;
            atomic_store(&work_waits, true);
            pthread_cond_signal(&wake);
        }
        if (!s->spare)
            return false;
        s->current = s->spare;
        s->spare = s->current->next;
        s->current->next = NULL;
    }
}

static bool dropped_by_fault(void) {
    static atomic_uint counter;
    return cp_fault(CP_DROP) && atomic_fetch_add(&counter, 1) % 5 == 4;
}

void cp_append(struct cp_session *s, const struct cp_record *record) {
    uint64_t asked_at = 0;
    pthread_mutex_lock(&s->lock);
    bool done = false, drop = dropped_by_fault();
    while (!drop && !(done = place(s, record))) {
        pthread_mutex_unlock(&s->lock);
        asked_at = cp_now();
        struct cp_buffer *b = request(s);
        pthread_mutex_lock(&s->lock);
        drop = !b || b->size < record->size;
        if (b)
            add_last(&s->spare, b);
    }
    if (!done)
        s->dropped++;
    pthread_mutex_unlock(&s->lock);
    if (done && asked_at && record->type != CP_R_OVERHEAD)
        tell_request(s, asked_at);
}

/* ---- handing them back ---- */

/* What a broken library might hand over. */
static size_t spoil(struct cp_buffer *b) {
    static atomic_uint counter;
    unsigned n = atomic_fetch_add(&counter, 1);
    if (!cp_fault(CP_GARBAGE))
        return b->used;
    unsigned seed = n * 2654435761u + 1;
    if (n % 3 == 0)
        for (size_t i = 0; i < b->used; i++)
            b->bytes[i] = (uint8_t)rand_r(&seed);
    if (n % 3 == 1)
        for (size_t i = 0; i < b->used; i += 97)
            b->bytes[i] ^= (uint8_t)(1 + rand_r(&seed) % 255);
    return n % 4 == 3 ? b->size + 4096 : b->used;
}

static void hand_back(struct cp_session *s, struct cp_buffer *b, const char *by) {
    CUpti_BuffersCallbackCompleteFunc complete = s->complete;
    const void *function = s->complete_v2 ? s->complete_v2 : (const void *)(uintptr_t)complete;
    cp_note("buffer module=%s by=%s records=%zu bytes=%zu", cp_module(function), by, b->records,
            b->used);
    size_t valid = spoil(b);
    enum cp_where outer = cp_where;
    cp_where = CP_COMPLETE;
    if (s->complete_v2)
        cp_complete_v2(s, b, valid);
    else if (complete)
        complete(NULL, 0, b->bytes, b->size, valid);
    cp_where = outer;
    free(b);
}

static struct cp_buffer *reversed(struct cp_buffer *list) {
    struct cp_buffer *out = NULL;
    while (list) {
        struct cp_buffer *next = list->next;
        list->next = out;
        out = list;
        list = next;
    }
    return out;
}

void cp_hand_over(struct cp_session *s, bool all, const char *by) {
    pthread_mutex_lock(&deliver);
    pthread_mutex_lock(&s->lock);
    if (all && s->current) {
        add_last(&s->full, s->current);
        s->current = NULL;
    }
    struct cp_buffer *list = s->full;
    s->full = NULL;
    if (all && s->spare) { /* unused ones go back too, empty */
        struct cp_buffer **end = &list;
        while (*end)
            end = &(*end)->next;
        *end = s->spare;
        s->spare = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (cp_fault(CP_SHUFFLE))
        list = reversed(list);
    while (list) {
        struct cp_buffer *b = list;
        list = b->next;
        hand_back(s, b, by);
    }
    pthread_mutex_unlock(&deliver);
}

/* The first time only. */
static void be_slow(void) {
    static atomic_bool slow_before;
    if (!atomic_exchange(&slow_before, true))
        nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000}, NULL);
}

void cp_flush(bool forced) {
    /* A child of the process that CUPTI's thread lives in waits for it for ever. */
    while ((worker_of && worker_of != getpid()) || cp_fault(CP_HANG_FLUSH))
        pause();
    if (cp_fault(CP_SLOW_FLUSH))
        be_slow();
    cp_drain(true);
    for (int i = 0; i < CP_SESSIONS; i++) {
        if (forced)
            cp_tell_unfinished(&cp_sessions[i]);
        /* A buffer with a record that is not complete is withheld whole. */
        cp_hand_over(&cp_sessions[i], forced || !cp_unfinished(), "flush");
    }
}

int cp_next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
    if (!buffer || !record)
        return CUPTI_ERROR_INVALID_PARAMETER;
    uint8_t *at = buffer;
    if (*record) {
        uint32_t kind;
        memcpy(&kind, *record, sizeof kind);
        size_t size = cp_size_of_kind((int)kind);
        if (!size)
            return CUPTI_ERROR_INVALID_KIND;
        at = (uint8_t *)*record + size;
    }
    if (at < buffer || (size_t)(at - buffer) + 4 > valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    uint32_t kind;
    memcpy(&kind, at, sizeof kind);
    size_t size = cp_size_of_kind((int)kind);
    if (!size)
        return CUPTI_ERROR_INVALID_KIND;
    if ((size_t)(at - buffer) + size > valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)at;
    return 0;
}

/* ---- CUPTI's own thread ---- */

static void nap(unsigned ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&wake_lock);
    if (!atomic_exchange(&work_waits, false))
        pthread_cond_timedwait(&wake, &wake_lock, &until);
    pthread_mutex_unlock(&wake_lock);
}

/* With the buffers out of order, it waits until there are two. */
static bool due(struct cp_session *s) {
    if (cp_fault(CP_LATE))
        return false;
    pthread_mutex_lock(&s->lock);
    bool any = s->full && (!cp_fault(CP_SHUFFLE) || s->full->next);
    pthread_mutex_unlock(&s->lock);
    return any;
}

static void *worker(void *nothing) {
    for (;;) {
        nap(10);
        cp_drain(false);
        for (int i = 0; i < CP_SESSIONS; i++)
            if (due(&cp_sessions[i]))
                cp_hand_over(&cp_sessions[i], false, "worker");
    }
    return nothing;
}

void cp_worker_start(void) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!worker_of) {
        sigset_t all, old;
        pthread_t thread;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        if (pthread_create(&thread, NULL, worker, NULL) == 0) {
            pthread_setname_np(thread, "cupti-worker");
            pthread_detach(thread);
            worker_of = getpid();
        }
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    pthread_mutex_unlock(&once);
}

/* A late library hands over what it has when the process ends. */
__attribute__((destructor)) static void at_exit(void) {
    if (worker_of == getpid() && cp_fault(CP_LATE) && !cp_fault(CP_HANG_FLUSH))
        cp_flush(true);
    atomic_store(&sd_tap, NULL);
}
