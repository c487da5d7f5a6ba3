/*
 * count.h - a program counts its own CUDA calls: memory by kind, frees, copies by direction and
 * kinds of memory, memsets, launches, failures. What it counted is its last line of output,
 * "counts: {...}", for a comparison with the trace of the same run.
 *
 * The macros below take the place of the runtime's functions and leave the line of the call where
 * it is, so that sites stay the program's. Arguments may be evaluated more than once. A failed call
 * is only counted as failed. Any thread.
 *
 * Included before anything else (-include). COUNT_TABLE: for programs on tests/apps/cuda_app.h,
 * which bring their own prototypes; the others use the toolkit's headers.
 */
#ifndef COUNT_H
#define COUNT_H

#ifdef COUNT_TABLE
#include "cuda_app.h"
#else
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>
#endif

#include <pthread.h>

#include "expect.h"

enum count_kind { /* what memory is; the order of count_kinds and of count_sides */
                  COUNT_PAGEABLE,
                  COUNT_DEVICE,
                  COUNT_ASYNC,
                  COUNT_MANAGED,
                  COUNT_PINNED,
                  COUNT_REGISTERED,
                  COUNT_VMM,
                  COUNT_ARRAY,
                  COUNT_IPC,
                  COUNT_KINDS
};
enum count_direction { COUNT_H2D, COUNT_D2H, COUNT_D2D, COUNT_H2H, COUNT_DIRECTIONS };
enum { COUNT_SIDES = 6, COUNT_UNKNOWN = COUNT_SIDES - 1, COUNT_LIVES = 512 };

struct count_sum {
    unsigned long long calls, bytes;
};

/* Memory that is there now. unseen: made by a way that no hook records (no row, but a kind). */
struct count_life {
    const char *address;
    size_t size;
    enum count_kind kind;
    int unseen;
};

static struct {
    pthread_mutex_t lock;
    struct count_life live[COUNT_LIVES];
    struct count_sum made[COUNT_KINDS], freed[COUNT_KINDS];
    struct count_sum copies[COUNT_DIRECTIONS][COUNT_SIDES][COUNT_SIDES];
    struct count_sum memsets;
    unsigned long long launches, graph_launches, failed;
    int unasked; /* the program's error is pending: nobody may ask what unknown host memory is */
    int all; /* $COUNT_ALL: CUPTI tells of what no hook sees, and what memory is without asking */
} counted = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const count_kinds[COUNT_KINDS] = {
    "pageable", "device", "async", "managed", "pinned", "registered", "vmm", "array", "ipc"};
static const char *const count_sides[COUNT_SIDES] = {"pageable", "device", "managed",
                                                     "pinned",   "array",  "unknown"};

static inline unsigned count_side(enum count_kind kind) {
    switch (kind) {
    case COUNT_PAGEABLE:
        return 0;
    case COUNT_MANAGED:
        return 2;
    case COUNT_PINNED:
    case COUNT_REGISTERED:
        return 3;
    case COUNT_ARRAY:
        return 4;
    default:
        return 1;
    }
}

static inline void count_made(int status, const void *address, size_t size, enum count_kind kind,
                              int unseen) {
    pthread_mutex_lock(&counted.lock);
    if (status != 0) {
        counted.failed += !unseen;
    } else {
        struct count_life *free_one = counted.live;
        while (free_one->address)
            EXPECT(++free_one < counted.live + COUNT_LIVES);
        *free_one = (struct count_life){address, size, kind, unseen};
        if (!unseen) {
            counted.made[kind].calls++;
            counted.made[kind].bytes += size;
        }
    }
    pthread_mutex_unlock(&counted.lock);
}

static inline void count_freed(int status, const void *address) {
    pthread_mutex_lock(&counted.lock);
    if (status != 0) {
        counted.failed++;
    } else if (address) {
        struct count_life *life = counted.live;
        while (life->address != address)
            EXPECT(++life < counted.live + COUNT_LIVES);
        if (!life->unseen) {
            counted.freed[life->kind].calls++;
            counted.freed[life->kind].bytes += life->size;
        }
        memset(life, 0, sizeof *life);
    }
    pthread_mutex_unlock(&counted.lock);
}

/* With the lock held. */
static inline enum count_kind count_kind_at(const void *address) {
    for (const struct count_life *life = counted.live; life < counted.live + COUNT_LIVES; life++)
        if (life->address && (const char *)address >= life->address &&
            (const char *)address < life->address + life->size)
            return life->kind;
    return COUNT_PAGEABLE;
}

static inline void count_copy(int status, const void *dst, const void *src, size_t bytes,
                              enum cudaMemcpyKind kind) {
    pthread_mutex_lock(&counted.lock);
    unsigned to = count_side(count_kind_at(dst)), from = count_side(count_kind_at(src));
    int to_host = to == 0 || to == 3, from_host = from == 0 || from == 3;
    enum count_direction direction =
        from_host ? (to_host ? COUNT_H2H : COUNT_H2D) : (to_host ? COUNT_D2H : COUNT_D2D);
    if (kind != cudaMemcpyDefault)
        direction = kind == cudaMemcpyHostToDevice   ? COUNT_H2D
                    : kind == cudaMemcpyDeviceToHost ? COUNT_D2H
                    : kind == cudaMemcpyHostToHost   ? COUNT_H2H
                                                     : COUNT_D2D;
    if (counted.unasked && !counted.all) {
        from = from == 0 ? COUNT_UNKNOWN : from;
        to = to == 0 ? COUNT_UNKNOWN : to;
    }
    if (status != 0) {
        counted.failed++;
    } else {
        counted.copies[direction][from][to].calls++;
        counted.copies[direction][from][to].bytes += bytes;
    }
    pthread_mutex_unlock(&counted.lock);
}

static inline void count_memset(int status, size_t bytes) {
    pthread_mutex_lock(&counted.lock);
    counted.failed += status != 0;
    counted.memsets.calls += status == 0;
    counted.memsets.bytes += status == 0 ? bytes : 0;
    pthread_mutex_unlock(&counted.lock);
}

static inline void count_one(int status, unsigned long long *what) {
    pthread_mutex_lock(&counted.lock);
    counted.failed += status != 0;
    if (what)
        *what += status == 0;
    pthread_mutex_unlock(&counted.lock);
}

static inline void count_print_kinds(const char *name, const struct count_sum *sums) {
    const char *between = "";
    printf("\"%s\": {", name);
    for (int k = 0; k < COUNT_KINDS; k++)
        if (sums[k].calls) {
            printf("%s\"%s\": [%llu, %llu]", between, count_kinds[k], sums[k].calls, sums[k].bytes);
            between = ", ";
        }
    printf("}, ");
}

static inline void count_print_copies(void) {
    static const char *const directions[COUNT_DIRECTIONS] = {"H2D", "D2H", "D2D", "H2H"};
    const char *between = "";
    printf("\"copies\": {");
    for (int d = 0; d < COUNT_DIRECTIONS; d++)
        for (int from = 0; from < COUNT_SIDES; from++)
            for (int to = 0; to < COUNT_SIDES; to++) {
                const struct count_sum *sum = &counted.copies[d][from][to];
                if (!sum->calls)
                    continue;
                printf("%s\"%s %s %s\": [%llu, %llu]", between, directions[d], count_sides[from],
                       count_sides[to], sum->calls, sum->bytes);
                between = ", ";
            }
    printf("}, ");
}

/* At exit by itself; a program that ends otherwise calls it before. Where a check failed in here,
 * this thread has the lock. */
static inline void count_print(void) {
    if (pthread_mutex_trylock(&counted.lock) != 0)
        return;
    printf("counts: {");
    count_print_kinds("made", counted.made);
    count_print_kinds("freed", counted.freed);
    count_print_copies();
    printf("\"memsets\": [%llu, %llu], \"launches\": %llu, \"graph_launches\": %llu, "
           "\"failed\": %llu}\n",
           counted.memsets.calls, counted.memsets.bytes, counted.launches, counted.graph_launches,
           counted.failed);
    fflush(stdout);
    pthread_mutex_unlock(&counted.lock);
}

__attribute__((constructor)) static void count_at_exit(void) {
    counted.all = getenv("COUNT_ALL") != NULL;
    atexit(count_print);
}

#define COUNT_CALL(call, note)                                                                     \
    ({                                                                                             \
        int count_status = (int)(call);                                                            \
        note;                                                                                      \
        (cudaError_t) count_status;                                                                \
    })
#define COUNT_MADE(call, out, size, kind)                                                          \
    COUNT_CALL(call, count_made(count_status, count_status ? NULL : (const void *)*(out),          \
                                count_status ? 0 : (size_t)(size), kind, 0))
#define COUNT_FREED(call, ptr) COUNT_CALL(call, count_freed(count_status, ptr))
#define COUNT_COPY(call, dst, src, bytes, kind)                                                    \
    COUNT_CALL(call, count_copy(count_status, dst, src, bytes, kind))
#define COUNT_MEMSET(call, bytes) COUNT_CALL(call, count_memset(count_status, bytes))
#define COUNT_ONE(call, what) COUNT_CALL(call, count_one(count_status, what))

/* Memory that no call made which a hook sees. */
#define COUNT_UNSEEN(ptr, size, kind) count_made(0, ptr, size, kind, !counted.all)
#define COUNT_UNSEEN_FREED(ptr) count_freed(0, ptr)

#define cudaMalloc(out, size) COUNT_MADE((cudaMalloc)(out, size), out, size, COUNT_DEVICE)
#define cudaMallocPitch(out, pitch, width, height)                                                 \
    COUNT_MADE((cudaMallocPitch)(out, pitch, width, height), out, *(pitch) * (height), COUNT_DEVICE)
#define cudaMallocManaged(out, size, flags)                                                        \
    COUNT_MADE((cudaMallocManaged)(out, size, flags), out, size, COUNT_MANAGED)
#define cudaMallocAsync(out, size, stream)                                                         \
    COUNT_MADE((cudaMallocAsync)(out, size, stream), out, size, COUNT_ASYNC)
#define cudaMallocFromPoolAsync(out, size, pool, stream)                                           \
    COUNT_MADE((cudaMallocFromPoolAsync)(out, size, pool, stream), out, size, COUNT_ASYNC)
#define cudaMallocHost(out, size) COUNT_MADE((cudaMallocHost)(out, size), out, size, COUNT_PINNED)
#define cudaHostAlloc(out, size, flags)                                                            \
    COUNT_MADE((cudaHostAlloc)(out, size, flags), out, size, COUNT_PINNED)
#define cudaHostRegister(ptr, size, flags)                                                         \
    COUNT_CALL((cudaHostRegister)(ptr, size, flags),                                               \
               count_made(count_status, ptr, size, COUNT_REGISTERED, 0))
#define cudaMallocArray(out, desc, width, height, flags)                                           \
    COUNT_MADE((cudaMallocArray)(out, desc, width, height, flags), out,                            \
               (width) * ((height) ? (height) : 1) * (size_t)((desc)->x / 8), COUNT_ARRAY)
#define cudaIpcOpenMemHandle(out, handle, flags)                                                   \
    COUNT_MADE((cudaIpcOpenMemHandle)(out, handle, flags), out, COUNT_IPC_SIZE, COUNT_IPC)

#define cudaFree(ptr) COUNT_FREED((cudaFree)(ptr), ptr)
#define cudaFreeAsync(ptr, stream) COUNT_FREED((cudaFreeAsync)(ptr, stream), ptr)
#define cudaFreeHost(ptr) COUNT_FREED((cudaFreeHost)(ptr), ptr)
#define cudaFreeArray(array) COUNT_FREED((cudaFreeArray)(array), (const void *)(array))
#define cudaHostUnregister(ptr) COUNT_FREED((cudaHostUnregister)(ptr), ptr)
#define cudaIpcCloseMemHandle(ptr) COUNT_FREED((cudaIpcCloseMemHandle)(ptr), ptr)

#define cudaMemcpy(dst, src, bytes, kind)                                                          \
    COUNT_COPY((cudaMemcpy)(dst, src, bytes, kind), dst, src, bytes, kind)
#define cudaMemcpyAsync(dst, src, bytes, kind, stream)                                             \
    COUNT_COPY((cudaMemcpyAsync)(dst, src, bytes, kind, stream), dst, src, bytes, kind)
#define cudaMemcpy2D(dst, dpitch, src, spitch, width, height, kind)                                \
    COUNT_COPY((cudaMemcpy2D)(dst, dpitch, src, spitch, width, height, kind), dst, src,            \
               (width) * (height), kind)
#define cudaMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, stream)                   \
    COUNT_COPY((cudaMemcpy2DAsync)(dst, dpitch, src, spitch, width, height, kind, stream), dst,    \
               src, (width) * (height), kind)
#define cudaMemcpy2DToArray(dst, x, y, src, spitch, width, height, kind)                           \
    COUNT_COPY((cudaMemcpy2DToArray)(dst, x, y, src, spitch, width, height, kind),                 \
               (const void *)(dst), src, (width) * (height), kind)
#define cudaMemcpy2DFromArray(dst, dpitch, src, x, y, width, height, kind)                         \
    COUNT_COPY((cudaMemcpy2DFromArray)(dst, dpitch, src, x, y, width, height, kind), dst,          \
               (const void *)(src), (width) * (height), kind)

#define cudaMemset(ptr, value, bytes) COUNT_MEMSET((cudaMemset)(ptr, value, bytes), bytes)
#define cudaMemsetAsync(ptr, value, bytes, stream)                                                 \
    COUNT_MEMSET((cudaMemsetAsync)(ptr, value, bytes, stream), bytes)
#define cudaMemset2DAsync(ptr, pitch, value, width, height, stream)                                \
    COUNT_MEMSET((cudaMemset2DAsync)(ptr, pitch, value, width, height, stream), (width) * (height))

#define cudaGraphLaunch(graph, stream)                                                             \
    COUNT_ONE((cudaGraphLaunch)(graph, stream), &counted.graph_launches)
#define cudaDeviceSynchronize() COUNT_ONE((cudaDeviceSynchronize)(), NULL)
#define cudaStreamSynchronize(stream) COUNT_ONE((cudaStreamSynchronize)(stream), NULL)

#endif
