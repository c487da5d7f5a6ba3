/*
 * standin.h - what the stand-in libraries share: the simulated device's private interface.
 *
 * The device itself (memory, streams, kernels, the truth log, the fault switch) lives in
 * libstandin.so. libcuda.so.1, libcudart.so.N, libcublas.so.N, libcudnn.so.9 and the others are
 * thin fronts on it and need it by name. A stand-in library calls these functions only, never an
 * exported CUDA function: a call of its own would be met by an interposer and be taken for the
 * program's.
 *
 * Every function may be called from any thread but not from a signal handler; none of them writes
 * a line of the log unless it says so, and none sets a "last error".
 *
 * Statuses are numbers of the CUDA runtime (0, 1 invalid value, 2 out of memory, 400 invalid
 * handle, ...): the driver uses the same ones where both have them.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* ---- the truth log and the fault switch ---------------------------------------------------- */

/*
 * One exported call, from entry to return. Lives on the caller's stack:
 *
 *     cublasStatus_t cublasSgemm(...)
 *     {
 *         struct standin_call call;
 *         standin_enter(&call, "cublasSgemm", __builtin_return_address(0));
 *         int status = call.fault ? call.fault : sgemm(...);
 *         standin_put(&call, "m", m);
 *         return standin_leave(&call, status);
 *     }
 */
struct standin_call {
    const char *name;
    const void *caller;   /* return address: tells who called */
    int fault;            /* status that STANDIN_FAIL wants, or 0; then the call has no effect */
    bool logged;          /* false: standin_put() and standin_leave() do nothing */
    bool told;            /* somebody listens to calls: tap_call.h */
    uint32_t correlation; /* the call's number where calls are counted, to log; else 0 */
    bool per_thread;      /* set by _ptds and _ptsz entry points: stream 0 is the thread's own */
    const char *kernel;   /* mangled name to log, or NULL; must live until standin_leave() */
    size_t used;
    char text[4000]; /* the key=value fields so far */
};

/* Begins a call. `name` is the exported symbol and must be a literal. */
STANDIN_EXPORT void standin_enter(struct standin_call *call, const char *name, const void *caller);
/* Adds a field, in decimal. Fields that do not fit are a bug and abort. */
STANDIN_EXPORT void standin_put(struct standin_call *call, const char *key, uint64_t value);
STANDIN_EXPORT void standin_put_signed(struct standin_call *call, const char *key, int64_t value);
STANDIN_EXPORT void standin_put_text(struct standin_call *call, const char *key, const char *value);
STANDIN_EXPORT void standin_put_dim3(struct standin_call *call, const char *key, unsigned x,
                                     unsigned y, unsigned z);
/* Ends the call: writes its line, if a log is asked for. Returns `status`; errno is kept. */
STANDIN_EXPORT int standin_leave(struct standin_call *call, int status);

/* A whole call in one go, for stubs and for calls without fields. `fields` is NULL or
 * "key=value\tkey=value" made with printf. Keeps errno. */
STANDIN_EXPORT void standin_log(const char *name, int status, const void *caller,
                                const char *fields, ...) __attribute__((format(printf, 4, 5)));

/* The status that STANDIN_FAIL asks of this call of `name`, or 0. Counts the call. */
STANDIN_EXPORT int standin_fault(const char *name);

/* ---- memory -------------------------------------------------------------------------------- */

enum standin_kind {
    STANDIN_PAGEABLE, /* ordinary host memory: all that is not known */
    STANDIN_PINNED,   /* cudaMallocHost, cudaHostAlloc */
    STANDIN_REGISTERED,
    STANDIN_DEVICE,
    STANDIN_ASYNC, /* device memory from a pool */
    STANDIN_MANAGED,
    STANDIN_ARRAY,
    STANDIN_VMM, /* cuMemCreate + cuMemMap */
    STANDIN_IPC, /* another process's device memory */
};

struct standin_memory {
    enum standin_kind kind;
    int device;     /* -1 for pageable memory */
    uint64_t start; /* of the allocation (of the mapping, for VMM); 0 for pageable memory */
    uint64_t size;  /* as asked for; 0 for pageable memory */
    uint64_t id;    /* counts allocations, for pointer attributes; 0 for pageable memory */
};

/* What lies at an address. Interior pointers count. False for pageable memory. */
STANDIN_EXPORT bool standin_memory_at(const void *address, struct standin_memory *out);

/* The address at which the host can read and write device memory now (contiguous to the end of
 * the allocation). Host memory, managed memory included, is its own view. Reading it does not
 * wait for pending work: do that in a function given to standin_launch(). */
STANDIN_EXPORT void *standin_host_view(const void *address);

/* True if [address, address + size) lies within one allocation that kernels can reach (device,
 * async, managed, pinned, registered, VMM). */
STANDIN_EXPORT bool standin_reachable(const void *address, uint64_t size);

/* Device memory for a library's own use, on the current device: counts against its capacity, is
 * 512-byte aligned, is no allocation of the program's. Status 0 or 2. */
STANDIN_EXPORT int standin_internal_alloc(void **out, size_t size);
STANDIN_EXPORT int standin_internal_free(void *address);

/* ---- devices, streams, kernels ------------------------------------------------------------- */

typedef struct CUstream_st *standin_stream;

STANDIN_EXPORT int standin_device_count(void);
STANDIN_EXPORT int standin_current_device(void); /* of this thread */
/* Makes the current device's context, as the first call that needs one does. 0, 3, 46, 100. */
STANDIN_EXPORT int standin_need_context(void);

/* Whether the handle is a live stream; 0, 1 (legacy) and 2 (per-thread) are. */
STANDIN_EXPORT bool standin_stream_valid(standin_stream stream);
/* Whether the stream is capturing: library calls become graph nodes then. */
STANDIN_EXPORT bool standin_stream_capturing(standin_stream stream);
/* Whether any stream of the process is. Takes no lock. */
STANDIN_EXPORT bool standin_capturing(void);
/* Waits for the stream's work. Status as cudaStreamSynchronize. */
STANDIN_EXPORT int standin_stream_wait(standin_stream stream);

/* What the kernel of this thread's next standin_launch() moves and does, which says how long it
 * takes (work.c). Without this it takes as long as the shortest. */
STANDIN_EXPORT void standin_work(double bytes, double operations);

/*
 * Puts a kernel launch on a stream, as a library does inside its calls: it takes its turn, and
 * becomes a node where the stream captures. `name` is copied.
 * `run` may be NULL; else the device's thread calls it with a copy of the `size` bytes at `data`
 * when the kernel's turn comes (each time, for graphs): it must only compute on host views, and
 * must call nothing else of this header. Status 0, 3, 400, 901.
 */
STANDIN_EXPORT int standin_launch(standin_stream stream, const char *name, void (*run)(void *data),
                                  const void *data, size_t size);

/* The version that the simulated runtime and driver tell, e.g. 13000. */
STANDIN_EXPORT int standin_cuda_version(void);

#endif
