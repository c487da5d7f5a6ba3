/*
 * cupti_client.c - a client of CUPTI for test_cupti.py: does what the words on its command line
 * say, one after the other, and prints what comes of it. `cupti-client subscribe register on:5
 * malloc flush:0` prints "subscribe 0" and so on, each callback as "callback DOMAIN ID SITE ...",
 * and of each buffer that it gets back "buffer SIZE VALID" and its records as "record HEX".
 *
 * A word with a v2 in it belongs to CUPTI 13.3; such words take the last subscriber.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cupti_types.h"

/* ---- the parts of the runtime's and of CUPTI's API that it uses ---- */

struct dim3 {
    unsigned x, y, z;
};
int cudaMalloc(void **address, size_t size);
int cudaFree(void *address);
int cudaMallocAsync(void **address, size_t size, CUstream stream);
int cudaFreeAsync(void *address, CUstream stream);
int cudaMemcpy(void *to, const void *from, size_t size, int kind);
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, CUstream stream);
int cudaMemsetAsync(void *address, int value, size_t size, CUstream stream);
int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t size);
int cudaSetDevice(int device);
int cudaDeviceSynchronize(void);
int cudaDeviceReset(void);
int cudaStreamSynchronize(CUstream stream);
int cudaStreamCreate(CUstream *stream);
int cudaStreamBeginCapture(CUstream stream, int mode);
int cudaStreamEndCapture(CUstream stream, void **graph);
int cudaGraphInstantiate(void **exec, void *graph, unsigned long long flags);
int cudaGraphLaunch(void *exec, CUstream stream);
int cudaEventCreate(void **event);
int cudaEventRecord(void *event, CUstream stream);
int cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **args,
                     size_t shared, CUstream stream);
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *function, const char *name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *size);

#ifndef STANDIN_NVIDIA_HEADERS
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *data);
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
                              void *data, CUpti_SubscriberParams *params);
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle);
CUptiResult cuptiFinalize(void);
CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle handle, int domain,
                                uint32_t id);
CUptiResult cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle handle, int domain);
CUptiResult cuptiActivityEnable(int kind);
CUptiResult cuptiActivityDisable(int kind);
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                           CUpti_BuffersCallbackCompleteFunc completed);
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc timestamp);
CUptiResult cuptiActivityFlushAll(uint32_t flag);
CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record);
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped);
CUptiResult cuptiActivityPushExternalCorrelationId(int kind, uint64_t id);
CUptiResult cuptiActivityPopExternalCorrelationId(int kind, uint64_t *last);
CUptiResult cuptiGetCallbackName(int domain, uint32_t id, const char **name);
CUptiResult cuptiGetTimestamp(uint64_t *timestamp);
CUptiResult cuptiGetVersion(uint32_t *version);
#endif

/* ---- what it keeps ---- */

static const char stub;
static CUpti_SubscriberHandle subscriber;
static size_t buffer_size = 1 << 16, offset, buffers_left = SIZE_MAX;
static int meddle; /* a callback makes a call of the device (1), or of CUPTI (2) */
static void *memory[2];
static char host[1 << 20];
static CUstream stream;

__attribute__((constructor)) static void module(void) {
    void **m = __cudaRegisterFatBinary(NULL);
    __cudaRegisterFunction(m, &stub, NULL, "_Z6kernelv", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(m);
}

static void say(const char *word, int status) {
    printf("%s %d\n", word, status);
}

/* ---- its functions for CUPTI ---- */

static void on_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                        const void *data) {
    if (domain == 1 || domain == 2) {
        const CUpti_CallbackData *d = data;
        int status = d->functionReturnValue ? *(int *)d->functionReturnValue : -1;
        printf("callback %d %u %d %s %d %s %u %u %d %d\n", (int)domain, id, (int)d->callbackSite,
               d->functionName, status, d->symbolName ? d->symbolName : "-", d->correlationId,
               d->contextUid, d->context != NULL, (int)*d->correlationData);
        *d->correlationData += 5;
    } else {
        printf("callback %d %u\n", (int)domain, id);
    }
    size_t dropped;
    if (meddle == 1)
        cudaFree(NULL);
    if (meddle == 2)
        say("inside", (int)cuptiSubscribe(&subscriber, NULL, NULL));
    if (meddle == 3)
        say("inside", (int)cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped));
    (void)userdata;
}

static void on_request(uint8_t **buffer, size_t *size, size_t *records) {
    *records = 0;
    *size = buffer_size;
    *buffer = buffers_left ? (uint8_t *)aligned_alloc(64, buffer_size + 64) + offset : NULL;
    if (buffers_left != SIZE_MAX && buffers_left)
        buffers_left--;
    printf("request %d\n", gettid() == getpid());
}

static void print_record(const uint8_t *bytes, const uint8_t *end) {
    printf("record ");
    for (int i = 0; i < 256 && bytes + i < end; i++)
        printf("%02x", bytes[i]);
    uint64_t name = 0;
    uint32_t kind;
    memcpy(&kind, bytes, sizeof kind);
    if ((kind == 3 || kind == 10) && bytes + 112 <= end)
        memcpy(&name, bytes + 104, sizeof name);
    printf(" %s\n", name ? (const char *)(uintptr_t)name : "-");
}

static void on_buffer(uint8_t *buffer, size_t size, size_t valid) {
    CUpti_Activity *record = NULL;
    CUptiResult status;
    flockfile(stdout);
    printf("buffer %zu %zu %d\n", size, valid, gettid() == getpid());
    if (valid > size)
        valid = size;
    while ((status = cuptiActivityGetNextRecord(buffer, valid, &record)) == 0)
        print_record((const uint8_t *)record, buffer + valid);
    say("end", (int)status);
    funlockfile(stdout);
}

static void on_complete(CUcontext context, uint32_t id, uint8_t *buffer, size_t size,
                        size_t valid) {
    (void)context, (void)id;
    on_buffer(buffer, size, valid);
}

static void on_request_v2(uint8_t **buffer, size_t *size, size_t *records, void *info) {
    (void)info;
    on_request(buffer, size, records);
}

static void on_complete_v2(uint8_t *buffer, size_t size, size_t valid, void *info) {
    (void)info;
    on_buffer(buffer, size, valid);
}

static uint64_t ticks(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) * 3;
}

/* ---- words ---- */

static int subscribe_v2(bool share) {
    char other[64] = "";
    struct {
        CUpti_SubscriberParams params;
        uint64_t share;
    } p = {{share ? sizeof p : sizeof p.params, "client", other, sizeof other}, share};
    int status = (int)cuptiSubscribe_v2(&subscriber, on_callback, NULL, &p.params);
    printf("other %s\n", other);
    return status;
}

static int by_symbol(const char *name, uintptr_t a, uintptr_t b) {
    int (*function)(CUpti_SubscriberHandle handle, uintptr_t a, uintptr_t b);
    void *symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol)
        return -1;
    memcpy(&function, &symbol, sizeof function);
    return function(subscriber, a, b);
}

static int launch(CUstream on) {
    return cudaLaunchKernel(&stub, (struct dim3){4, 2, 1}, (struct dim3){64, 1, 1}, NULL, 128, on);
}

static int graph(void) {
    static void *exec;
    void *made;
    if (exec)
        return cudaGraphLaunch(exec, stream);
    int status = cudaStreamBeginCapture(stream, 2);
    status = status ? status : launch(stream);
    status = status ? status : cudaMemsetAsync(memory[0], 0, 64, stream);
    status = status ? status : cudaStreamEndCapture(stream, &made);
    status = status ? status : cudaGraphInstantiate(&exec, made, 0);
    return status ? status : cudaGraphLaunch(exec, stream);
}

static int child(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(cudaMalloc(memory, 1) == 3 ? 0 : 1);
    int status;
    waitpid(pid, &status, 0);
    return status;
}

static int async_memory(void) {
    void *p;
    int status = cudaMallocAsync(&p, 4096, stream);
    return status ? status : cudaFreeAsync(p, stream);
}

static int peer(void) {
    cudaSetDevice(1);
    void *there;
    int status = cudaMalloc(&there, 4096);
    cudaSetDevice(0);
    return status ? status : cudaMemcpyPeer(there, 1, memory[0], 0, 4096);
}

static void *launches(void *nothing) {
    for (int i = 0; i < 200; i++) {
        launch(NULL);
        cudaMemsetAsync(memory[0], 0, 64, NULL);
        if (i % 50 == 49)
            cudaDeviceSynchronize();
    }
    return nothing;
}

/* Threads that launch, while this one flushes. */
static int threads(int count) {
    pthread_t thread[16];
    for (int i = 0; i < count; i++)
        pthread_create(&thread[i], NULL, launches, NULL);
    for (int i = 0; i < 20; i++) {
        cuptiActivityFlushAll(0);
        usleep(1000);
    }
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

static int event(void) {
    static void *made;
    int status = made ? 0 : cudaEventCreate(&made);
    return status ? status : cudaEventRecord(made, stream);
}

/* Words of the device. -2: none of them. */
static int on_device(const char *word) {
    if (strcmp(word, "malloc") == 0)
        return cudaMalloc(&memory[0], 1 << 16);
    if (strcmp(word, "free") == 0)
        return cudaFree(memory[0]);
    if (strcmp(word, "fail") == 0)
        return cudaMalloc(NULL, 1);
    if (strcmp(word, "async-memory") == 0)
        return async_memory();
    if (strcmp(word, "stream") == 0)
        return cudaStreamCreate(&stream);
    if (strcmp(word, "h2d") == 0)
        return cudaMemcpy(memory[0], host, 1 << 16, 1);
    if (strcmp(word, "d2h-async") == 0)
        return cudaMemcpyAsync(host, memory[0], 4096, 2, stream);
    if (strcmp(word, "peer") == 0)
        return peer();
    if (strcmp(word, "set") == 0)
        return cudaMemsetAsync(memory[0], 7, 512, stream);
    if (strcmp(word, "launch") == 0)
        return launch(stream);
    if (strcmp(word, "graph") == 0)
        return graph();
    if (strcmp(word, "event") == 0)
        return event();
    if (strcmp(word, "sync") == 0)
        return cudaDeviceSynchronize();
    if (strcmp(word, "stream-sync") == 0)
        return cudaStreamSynchronize(stream);
    if (strcmp(word, "reset") == 0)
        return cudaDeviceReset();
    return strcmp(word, "fork") == 0 ? child() : -2;
}

static int ask(const char *word, int first, unsigned second) {
    uint64_t value = 0;
    const char *name = "-";
    uint32_t version = 0;
    size_t dropped = 0;
    int status = -2;
    if (strcmp(word, "name") == 0)
        status = (int)cuptiGetCallbackName(first, second, &name);
    else if (strcmp(word, "version") == 0)
        status = (int)cuptiGetVersion(&version);
    else if (strcmp(word, "dropped") == 0)
        status = (int)cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped);
    else if (strcmp(word, "time") == 0)
        status = (int)cuptiGetTimestamp(&value);
    else if (strcmp(word, "pop") == 0)
        status = (int)cuptiActivityPopExternalCorrelationId(first, &value);
    else if (strcmp(word, "push") == 0)
        status = (int)cuptiActivityPushExternalCorrelationId(first, second);
    if (status != -2)
        printf("answer %s %u %zu %llu\n", name, version, dropped, (unsigned long long)value);
    return status;
}

static int on_subscriber(const char *word, int first, unsigned second) {
    if (strcmp(word, "subscribe") == 0)
        return (int)cuptiSubscribe(&subscriber, on_callback, NULL);
    if (strcmp(word, "subscribe-v2") == 0)
        return subscribe_v2(false);
    if (strcmp(word, "share-v2") == 0)
        return subscribe_v2(true);
    if (strcmp(word, "unsubscribe") == 0)
        return (int)cuptiUnsubscribe(subscriber);
    if (strcmp(word, "finalize") == 0)
        return (int)cuptiFinalize();
    if (strcmp(word, "callback") == 0)
        return (int)cuptiEnableCallback(1, subscriber, first, second);
    if (strcmp(word, "domain") == 0)
        return (int)cuptiEnableDomain(1, subscriber, first);
    if (strcmp(word, "on-v2") == 0)
        return by_symbol("cuptiActivityEnable_v2", (uintptr_t)first, 0);
    if (strcmp(word, "register-v2") == 0)
        return by_symbol("cuptiActivityRegisterCallbacks_v2", (uintptr_t)on_request_v2,
                         (uintptr_t)on_complete_v2);
    return ask(word, first, second);
}

static int on_activity(const char *word, int first, unsigned second) {
    if (strcmp(word, "on") == 0)
        return (int)cuptiActivityEnable(first);
    if (strcmp(word, "off") == 0)
        return (int)cuptiActivityDisable(first);
    if (strcmp(word, "register") == 0)
        return (int)cuptiActivityRegisterCallbacks(on_request, on_complete);
    if (strcmp(word, "clock") == 0)
        return (int)cuptiActivityRegisterTimestampCallback(ticks);
    if (strcmp(word, "flush") == 0)
        return (int)cuptiActivityFlushAll((uint32_t)first);
    return on_subscriber(word, first, second);
}

static int on_client(const char *word, int first, unsigned second) {
    if (strcmp(word, "size") == 0)
        buffer_size = (size_t)first;
    else if (strcmp(word, "offset") == 0)
        offset = (size_t)first;
    else if (strcmp(word, "buffers") == 0)
        buffers_left = (size_t)first;
    else if (strcmp(word, "meddle") == 0)
        meddle = first;
    else if (strcmp(word, "sleep") == 0)
        usleep((unsigned)first * 1000);
    else if (strcmp(word, "threads") == 0)
        return threads(first);
    else
        return on_activity(word, first, second);
    return 0;
}

int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        char word[64] = "", before[128];
        int first = 0, times = 1;
        unsigned second = 0;
        snprintf(before, sizeof before, "%s", words[i]);
        char *times_at = strchr(before, '*');
        if (times_at)
            times = atoi(times_at + 1), *times_at = 0;
        sscanf(before, "%63[^:]:%d:%u", word, &first, &second);
        for (int n = 0; n < times; n++) {
            int status = on_device(word);
            if (status == -2)
                status = on_client(word, first, second);
            if (status == -2)
                return fprintf(stderr, "no word: %s\n", word), 2;
            say(words[i], status);
        }
    }
    fflush(stdout);
    return 0;
}
