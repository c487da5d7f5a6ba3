/*
 * gpu_calls.h - the last calls that CUPTI numbered: what a record of the GPU finds its call by.
 *
 * A call that was made inside another one is open until that one has returned: only then is it
 * known under which library's call it was made. What is found by number is the nearest call that
 * began before the work did, since the numbers (32 bits) start again on very long runs. One thread;
 * not async-signal-safe.
 */
#ifndef LAYOUTSPY_GPU_CALLS_H
#define LAYOUTSPY_GPU_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_timed_call;

struct ls_gpu_call {
    int64_t id;
    int64_t start_ns;
    int64_t under; /* the outermost library's call that it was made in; 0: none */
    int64_t copy;  /* the row of `copy` that holds it; 0: none */
    uint32_t correlation;
    uint32_t older; /* the next one in its chain: its place + 1, 0 at the end */
    uint16_t under_api;
    bool graph; /* launches a graph */
    bool open;
};

/* Of a thread: calls that were made inside another one which has not returned. */
struct ls_gpu_nest {
    uint64_t *at;
    size_t count, room;
};

struct ls_gpu_calls {
    struct ls_gpu_call *at; /* a ring of `room` */
    uint32_t *head;         /* chains by correlation, of places + 1 */
    uint32_t room;
    uint64_t first, end;      /* of all that were added, those that are here */
    struct ls_gpu_nest *nest; /* by thread */
    uint32_t nests;
    /* One that is complete now. It is valid for the length of the call. */
    void (*closed)(const struct ls_gpu_call *call, void *context);
    void *context;
};

/* Work that begins a little before its call, by clocks that are a little off, is still its. */
#define LS_GPU_SLACK_NS 1000000

/* Each call, in order of completion. `copy`: as above. False: out of memory. */
bool ls_gpu_calls_take(struct ls_gpu_calls *calls, const struct ls_timed_call *call, int64_t copy);

/* The nearest of that number that began before `start_ns`, or NULL. Valid until the next call. */
const struct ls_gpu_call *ls_gpu_calls_find(const struct ls_gpu_calls *calls, uint32_t correlation,
                                            int64_t start_ns);

/* The id of the oldest that is here, or INT64_MAX / 2. */
int64_t ls_gpu_calls_oldest(const struct ls_gpu_calls *calls);

void ls_gpu_calls_destroy(struct ls_gpu_calls *calls);

#endif
