/*
 * tap.h - what the simulated device tells the simulated libcupti: calls as they begin and end, work
 * as it ends, memory and contexts as they come and go. There is one listener; without one nothing
 * of this costs more than a look at `sd_tap`.
 *
 * enter and exit run in the thread of the call, no lock held, and may call anything that a callback
 * of CUPTI's may. The others run in any thread, the device's own included, with the core lock held:
 * they only note what they are given, and neither wait nor call back into the device.
 *
 * Numbers are CUPTI's where it has some: of domains, copy kinds, memory kinds. Times are
 * sd_now_ns().
 */
#ifndef STANDIN_TAP_H
#define STANDIN_TAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sd_domain { SD_DOMAIN_DRIVER = 1, SD_DOMAIN_RUNTIME = 2 };

/* An exported call of the runtime or the driver, or one that another library's own runtime makes.
 * On its caller's stack. */
struct sd_tapped {
    enum sd_domain domain;
    const char *name;     /* the exported symbol: cudaMalloc, cudaMemcpyAsync_ptsz, cuMemAlloc_v2 */
    const void *params;   /* LS_PARAMS_STRUCT of layoutspy/each.h */
    const char *kernel;   /* of a launch: the mangled name; else NULL */
    uint32_t correlation; /* counts the process's calls, from 1; a call of the driver that one of
                             the runtime makes has the runtime's */
    int device;           /* the thread's current one */
    bool context;         /* it has its context (may become true between enter and exit) */
    int status;           /* at exit */
    uint64_t data;        /* the listener's own, from enter to exit */
    /* The device's own. */
    const struct sd_tap *told; /* that was told of the call's beginning */
    struct sd_tapped *outer;   /* the call of the same thread that it is part of */
};

enum sd_work { SD_WORK_KERNEL = 1, SD_WORK_COPY, SD_WORK_SET, SD_WORK_GRAPH, SD_WORK_WAIT };

/* Work that a device has done. WAIT: a thread of the host waited (cudaStreamSynchronize and its
 * kin). */
struct sd_work_done {
    enum sd_work kind;
    int device;
    uint32_t stream; /* number of the stream in its context; the legacy one has 7 */
    uint32_t correlation;
    uint64_t start_ns, end_ns;
    uint32_t graph; /* of a graph's launch: number of the executable graph; else 0 */
    uint64_t node;  /* and of its node; both 0 outside of graphs */
    bool async;     /* the call did not wait for it */
    /* KERNEL */
    const char *name; /* mangled; valid until the listener returns */
    uint32_t grid[3], block[3];
    uint32_t shared; /* dynamic shared memory, bytes */
    /* COPY, SET: bytes; copy: 1 HtoD 2 DtoH 3 HtoA 4 AtoH 5 AtoA 6 AtoD 7 DtoA 8 DtoD 9 HtoH 10
     * PtoP; kinds of memory: 1 pageable 2 pinned 3 device 4 array 5 managed (of a SET: dst) */
    uint64_t bytes;
    uint32_t copy, src_kind, dst_kind, value;
    int src_device, dst_device;
    /* WAIT: 1 event 2 stream waits for an event 3 stream 4 context */
    uint32_t wait;
};

/* Memory that came (operation 1) or went (2), as CUPTI's MEMORY2 tells it. */
struct sd_memory_change {
    int operation, device;
    uint32_t kind; /* as above: 2 pinned 3 device 5 managed */
    uint32_t correlation, stream;
    uint64_t address, bytes, at_ns;
    uint64_t pool; /* address of the pool; 0: none */
    bool async;
};

struct sd_pool_change {
    int operation, device; /* 1 made 2 destroyed 3 trimmed */
    uint32_t correlation;
    uint64_t pool, size, keep, at_ns;
};

struct sd_tap {
    void (*enter)(struct sd_tapped *call);
    void (*exit)(struct sd_tapped *call);
    void (*work)(const struct sd_work_done *work);
    void (*memory)(const struct sd_memory_change *change);
    void (*pool)(const struct sd_pool_change *change);
    /* A context was made, or is about to be destroyed. */
    void (*context)(int device, bool made);
};
extern const struct sd_tap *_Atomic sd_tap; /* NULL: nobody listens */

/* The number of a stream as CUPTI gives it (cuptiGetStreamIdEx); 0: no such stream. */
uint32_t sd_stream_number(const void *handle, bool per_thread);

/*
 * Around a call's body, by the fronts' macros: sd_tap_enter() fills in correlation, device and
 * context and tells the listener; sd_tap_exit() tells it the status. Between them work that the
 * thread puts on streams and memory that it takes carry the call's correlation.
 */
void sd_tap_enter(struct sd_tapped *call);
void sd_tap_exit(struct sd_tapped *call, int status);
uint32_t sd_tap_correlation(void); /* of the innermost call of this thread that is being told; 0 */

#endif
