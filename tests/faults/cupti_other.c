/*
 * cupti_other.c - another client of CUPTI in a program that is recorded: a profiler as PyTorch's,
 * which subscribes once and keeps that, one that never subscribes, one that leaves altogether.
 *
 *   cupti_other kept|first|unsubscribed|again|refused|leaves|finalizes|callbacks|beside|
 *               waits|none [SESSIONS]
 *
 * refused: it registers functions for buffers a second time, others, which STANDIN_FAIL is to keep
 * CUPTI from taking. Prints what the client was told: copies and memsets of each session, records
 * of others, calls. Copies outside of its sessions have sizes of their own: 1000 + n before session
 * n, 1000 + SESSIONS after the last; inside they are 2000 + n.
 */
#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "cuda_app.h"

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);

enum {
    COPY = 1,
    SET = 2,
    KERNEL = 10,
    RUNTIME_DOMAIN = 2,
    RESOURCE_DOMAIN = 3,
    CONTEXT_CREATED = 1
};
enum { PIECE = 64 << 10, ROUNDS = 25, REST_US = 700000 };

static struct { int copies, sets, kernels, strangers, unknown_buffers, untimed; } seen;
static int session, calls, buffers_out;
static void *buffers[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void requested(uint8_t **buffer, size_t *size, size_t *records) {
    *buffer = aligned_alloc(8, PIECE);
    *size = PIECE;
    *records = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 256; i++)
        if (!buffers[i]) {
            buffers[i] = *buffer;
            break;
        }
    buffers_out++;
    pthread_mutex_unlock(&lock);
}

static bool is_ours(uint8_t *buffer) {
    for (int i = 0; i < 256; i++)
        if (buffers[i] == buffer) {
            buffers[i] = NULL;
            buffers_out--;
            return true;
        }
    return false;
}

static void look(const uint8_t *record) {
    uint32_t kind;
    uint64_t bytes, times[2];
    memcpy(&kind, record, sizeof kind);
    memcpy(&bytes, record + 8, sizeof bytes);
    memcpy(times, record + 16, sizeof times);
    if (kind != COPY && kind != SET && kind != KERNEL) {
        seen.strangers++;
        return;
    }
    seen.untimed += times[0] == 0 || times[1] < times[0];
    if (kind == KERNEL)
        seen.kernels++;
    else if (bytes != (uint64_t)(2000 + session))
        seen.strangers++;
    else if (kind == COPY)
        seen.copies++;
    else
        seen.sets++;
}

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    uint8_t *record = NULL;
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&lock);
    bool ours = is_ours(buffer);
    seen.unknown_buffers += !ours;
    while (ours && cuptiActivityGetNextRecord(buffer, valid, &record) == 0)
        look(record);
    pthread_mutex_unlock(&lock);
    if (ours)
        free(buffer);
}

/* In the place of the former, which CUPTI refuses: never called. */
static void refused_request(uint8_t **buffer, size_t *size, size_t *records) {
    seen.strangers++;
    requested(buffer, size, records);
}

static void refused_completion(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                               size_t valid) {
    seen.strangers++;
    completed(context, stream, buffer, size, valid);
}

static int told_contexts;
static void told(void *user, int domain, uint32_t id, const void *data) {
    (void)data;
    if (user != &seen)
        seen.strangers++;
    if (domain == RUNTIME_DOMAIN)
        calls++;
    else if (domain == RESOURCE_DOMAIN && id == CONTEXT_CREATED)
        told_contexts++;
    else
        seen.strangers++;
}

static uint64_t in_ticks(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 3 * ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

static void work(size_t bytes) {
    static char *host, *device;
    if (!host) {
        CHECK(cudaMallocHost((void **)&host, 1 << 20));
        CHECK(cudaMalloc((void **)&device, 1 << 20));
    }
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, NULL));
        CHECK(cudaMemsetAsync(device, 0, bytes, NULL));
    }
    CHECK(cudaStreamSynchronize(NULL));
}

#define CUPTI(call)                                                                                \
    do {                                                                                           \
        int status = call;                                                                         \
        if (status != 0)                                                                           \
            printf("%s: %d\n", #call, status);                                                     \
    } while (0)

static void *subscriber;
static void subscribe(void) {
    CUPTI(cuptiSubscribe(&subscriber, (void *)told, &seen));
    CUPTI(cuptiEnableCallback(1, subscriber, RESOURCE_DOMAIN, CONTEXT_CREATED));
}

static void profile(bool registers, bool registers_others) {
    static const int kinds[] = {COPY, SET, KERNEL};
    memset(&seen, 0, sizeof seen);
    if (registers) {
        CUPTI(cuptiActivityRegisterTimestampCallback((void *)in_ticks));
        CUPTI(cuptiActivityRegisterCallbacks((void *)requested, (void *)completed));
    }
    if (registers_others)
        CUPTI(cuptiActivityRegisterCallbacks((void *)refused_request, (void *)refused_completion));
    for (int i = 0; i < 3; i++)
        CUPTI(cuptiActivityEnable(kinds[i]));
    work((size_t)(2000 + session));
    for (int i = 0; i < 3; i++)
        CUPTI(cuptiActivityDisable(kinds[i]));
    CUPTI(cuptiActivityFlushAll(1));
    printf(
        "session %d: %d copies, %d sets, %d kernels, %d untimed, %d of others, %d unknown, %d out\n",
        session, seen.copies, seen.sets, seen.kernels, seen.untimed, seen.strangers,
        seen.unknown_buffers, buffers_out);
}

/* In the new way, with room for others, of which this one records nothing. */
static void subscribe_beside(void) {
    struct {
        size_t size;
        const char *name;
        char *old_name;
        size_t old_size;
        uint8_t several;
    } params = {.size = 33, .name = "other", .several = 1};
    CUPTI(cuptiSubscribe_v2(&subscriber, (void *)told, &seen, &params));
}

static void all_calls(void) {
    calls = 0;
    CUPTI(cuptiEnableDomain(1, subscriber, RUNTIME_DOMAIN));
    work((size_t)(2000 + session));
    CUPTI(cuptiEnableDomain(0, subscriber, RUNTIME_DOMAIN));
    printf("session %d: %d calls\n", session, calls);
}

int main(int argc, char **argv) {
    const char *how = argv[1];
    int sessions = argc > 2 ? atoi(argv[2]) : 2;
    bool subscribes = strcmp(how, "unsubscribed") != 0, first = strcmp(how, "first") == 0;
    bool beside = strcmp(how, "beside") == 0;
    bool ends = strcmp(how, "leaves") == 0 || strcmp(how, "finalizes") == 0;
    if (first)
        subscribe();
    for (session = 0; session < sessions; session++) {
        if (!first || session)
            work((size_t)(1000 + session));
        if (strcmp(how, "waits") == 0) {
            puts("waits");
            fflush(stdout);
            for (;;)
                pause();
        }
        usleep(REST_US);
        if (beside && !subscriber)
            subscribe_beside();
        else if (subscribes && !subscriber)
            subscribe();
        if (beside)
            printf("session %d\n", session);
        else if (strcmp(how, "callbacks") == 0)
            all_calls();
        else
            profile(strcmp(how, "again") != 0 || session == 0, strcmp(how, "refused") == 0);
        if (ends) {
            CUPTI(cuptiUnsubscribe(subscriber));
            subscriber = NULL;
        }
        if (strcmp(how, "finalizes") == 0)
            CUPTI(cuptiFinalize());
        usleep(REST_US);
    }
    work((size_t)(1000 + sessions));
    usleep(REST_US / 3);
    printf("%d contexts\n", told_contexts);
    return 0;
}
