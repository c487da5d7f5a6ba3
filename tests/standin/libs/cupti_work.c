/*
 * cupti_work.c - listens to the device. Its own threads tell of work with its lock held, so all
 * that happens there is a copy into a queue; records are made of it by whoever comes next: a thread
 * that calls, one that flushes, or CUPTI's own. Not in signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "cupti_standin.h"

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf: of what follows */
static struct cp_told *queue;
static size_t queued, room;

static pthread_mutex_t drain_lock = PTHREAD_MUTEX_INITIALIZER; /* of making records */

/* ---- names that stay ---- */

struct name {
    struct name *next;
    char text[];
};
static struct name *names[1024];
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

const char *cp_intern(const char *text) {
    if (!text)
        return NULL;
    uint32_t h = 2166136261u;
    for (const char *c = text; *c; c++)
        h = (h ^ (uint8_t)*c) * 16777619u;
    struct name **head = &names[h % 1024], *n;
    pthread_mutex_lock(&names_lock);
    for (n = *head; n && strcmp(n->text, text) != 0; n = n->next)
        ;
    if (!n && (n = malloc(sizeof *n + strlen(text) + 1))) {
        strcpy(n->text, text);
        n->next = *head;
        *head = n;
    }
    pthread_mutex_unlock(&names_lock);
    return n ? n->text : NULL;
}

void cp_work_in_child(void) {
    pthread_mutex_init(&names_lock, NULL);
    pthread_mutex_init(&queue_lock, NULL);
    pthread_mutex_init(&drain_lock, NULL);
}

/* ---- kernels that are not over ---- */

/* By correlation. One that a forced flush has told of is never told of again. */
#define LAUNCHES 8192
static struct launch {
    uint32_t correlation;
    int device;
    uint32_t stream;
    bool told;
    const char *name;
} launches[LAUNCHES];
static atomic_int unfinished;

bool cp_unfinished(void) {
    return atomic_load(&unfinished) > 0;
}

/* The stream of a launch whose parameters we know by name. */
static bool stream_of(const struct sd_tapped *call, void **stream) {
    if (strcmp(call->name, "cudaLaunchKernel") != 0 &&
        strcmp(call->name, "cudaLaunchKernel_ptsz") != 0)
        return false;
    memcpy(stream, (const char *)call->params + 48, sizeof *stream);
    return true;
}

void cp_launched(const struct sd_tapped *call) {
    void *stream;
    bool wanted = cp_anyone_wants(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ||
                  cp_anyone_wants(CUPTI_ACTIVITY_KIND_KERNEL);
    if (!wanted || !stream_of(call, &stream) || !standin_stream_valid(stream) ||
        standin_stream_capturing(stream))
        return;
    struct launch *l = &launches[call->correlation % LAUNCHES];
    const char *name = cp_intern(call->kernel);
    uint32_t number = sd_stream_number(stream, strstr(call->name, "_ptsz") != NULL);
    pthread_mutex_lock(&queue_lock);
    if (!l->correlation || l->told)
        atomic_fetch_add(&unfinished, 1);
    *l = (struct launch){call->correlation, call->device, number, false, name};
    pthread_mutex_unlock(&queue_lock);
}

/* Lock held. True if a flush has already told of it. */
static bool finished(uint32_t correlation) {
    struct launch *l = &launches[correlation % LAUNCHES];
    if (!correlation || l->correlation != correlation)
        return false;
    bool told = l->told;
    if (!told)
        atomic_fetch_sub(&unfinished, 1);
    l->correlation = 0;
    return told;
}

void cp_launch_failed(const struct sd_tapped *call) {
    pthread_mutex_lock(&queue_lock);
    finished(call->correlation);
    pthread_mutex_unlock(&queue_lock);
}

void cp_tell_unfinished(struct cp_session *session) {
    for (int i = 0; i < LAUNCHES; i++) {
        pthread_mutex_lock(&queue_lock);
        struct launch l = launches[i];
        bool tell = l.correlation && !l.told;
        if (tell) {
            launches[i].told = true;
            atomic_fetch_sub(&unfinished, 1);
        }
        pthread_mutex_unlock(&queue_lock);
        struct cp_told told = {.what = CP_WORK};
        told.work = (struct sd_work_done){.kind = SD_WORK_KERNEL,
                                          .device = l.device,
                                          .stream = l.stream,
                                          .correlation = l.correlation,
                                          .name = l.name,
                                          .grid = {1, 1, 1},
                                          .block = {1, 1, 1}};
        struct cp_record r;
        if (tell && cp_encode(&r, session, &told))
            cp_append(session, &r);
    }
}

/* ---- from the device, its lock held ---- */

static void enqueue(const struct cp_told *told) {
    pthread_mutex_lock(&queue_lock);
    bool known = told->what == CP_WORK && told->work.kind == SD_WORK_KERNEL && !told->work.graph &&
                 finished(told->work.correlation);
    if (!known && queued == room) {
        size_t more = room ? 2 * room : 1024;
        struct cp_told *grown = realloc(queue, more * sizeof *queue);
        if (grown) {
            queue = grown;
            room = more;
        }
    }
    if (!known && queued < room)
        queue[queued++] = *told;
    pthread_mutex_unlock(&queue_lock);
}

static void on_work(const struct sd_work_done *work) {
    struct cp_told told = {.what = CP_WORK, .work = *work};
    told.work.name = cp_intern(work->name);
    enqueue(&told);
}

static void on_memory(const struct sd_memory_change *change) {
    if (cp_anyone_wants(CUPTI_ACTIVITY_KIND_MEMORY2))
        enqueue(&(struct cp_told){.what = CP_MEMORY, .memory = *change});
}

static void on_pool(const struct sd_pool_change *change) {
    if (cp_anyone_wants(CUPTI_ACTIVITY_KIND_MEMORY_POOL))
        enqueue(&(struct cp_told){.what = CP_POOL, .pool = *change});
}

static void on_context(int device, bool made) {
    cp_note_context(device, made);
    if (made && cp_anyone_wants(CUPTI_ACTIVITY_KIND_CONTEXT))
        enqueue(&(struct cp_told){.what = CP_CONTEXT, .device = device});
}

const struct sd_tap cp_tap = {
    .enter = cp_enter,
    .exit = cp_exit,
    .work = on_work,
    .memory = on_memory,
    .pool = on_pool,
    .context = on_context,
};

/* Listening costs the device something: only while somebody wants something. */
void cp_listen(void) {
    bool wanted = false;
    for (int i = 0; i < CP_SUBSCRIBERS; i++)
        wanted |= atomic_load(&cp_subscribers[i].live) && !cp_subscribers[i].foreign;
    for (int i = 0; i < CP_SESSIONS; i++)
        wanted |= atomic_load(&cp_sessions[i].kinds) != 0;
    atomic_store(&sd_tap, wanted ? &cp_tap : NULL);
}

/* ---- records of it ---- */

static void make_records(const struct cp_told *told, size_t count) {
    struct cp_record r;
    for (size_t i = 0; i < count; i++)
        for (int s = 0; s < CP_SESSIONS; s++)
            if (atomic_load(&cp_sessions[s].kinds) && cp_encode(&r, &cp_sessions[s], &told[i]))
                cp_append(&cp_sessions[s], &r);
}

void cp_drain(bool wait) {
    if (wait)
        pthread_mutex_lock(&drain_lock);
    else if (pthread_mutex_trylock(&drain_lock) != 0)
        return;
    for (;;) {
        pthread_mutex_lock(&queue_lock);
        struct cp_told *all = queue;
        size_t count = queued;
        queue = NULL;
        queued = room = 0;
        pthread_mutex_unlock(&queue_lock);
        if (count)
            make_records(all, count);
        free(all);
        if (!count)
            break;
    }
    pthread_mutex_unlock(&drain_lock);
}
