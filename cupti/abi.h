/*
 * abi.h - the part of CUPTI's interface that is used, declared here: layoutspy is built without a
 * toolkit, and the library that is met at run time may be of any version from 11 to 13.
 *
 * What is here is the same in all of them; tests/device and cupti/check_abi.c compare it with
 * NVIDIA's headers where there are some. Names in comments are NVIDIA's.
 */
#ifndef LS_CUPTI_ABI_H
#define LS_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    LS_CUPTI_OK = 0,                    /* CUPTI_SUCCESS */
    LS_CUPTI_NO_MORE = 12,              /* CUPTI_ERROR_MAX_LIMIT_REACHED: of records */
    LS_CUPTI_MULTIPLE_SUBSCRIBERS = 39, /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
};

enum ls_cupti_domain { LS_CUPTI_DRIVER = 1, LS_CUPTI_RUNTIME = 2, LS_CUPTI_RESOURCE = 3 };

enum ls_cupti_site { LS_CUPTI_ENTER = 0, LS_CUPTI_EXIT = 1 };

/* CUpti_CallbackData */
struct ls_cupti_api_data {
    int site; /* enum ls_cupti_site */
    const char *function;
    const void *params; /* the call's parameters, as the members of a struct */
    const void *result; /* at exit: where the status is, an int */
    const char *symbol; /* of launches: the kernel's mangled name */
    void *context;
    uint32_t context_number;
    uint64_t *data; /* ours, from enter to exit */
    uint32_t correlation;
};

/* CUpti_SubscriberParams, to its last member, of 13.3: only where `size` reaches that far is it
 * there. */
struct ls_cupti_subscriber_params {
    size_t size;
    const char *name;
    char *old_name;
    size_t old_size;
    uint8_t several;
};

/* CUpti_ActivityKind */
enum ls_cupti_activity {
    LS_ACTIVITY_COPY = 1,          /* MEMCPY */
    LS_ACTIVITY_SET = 2,           /* MEMSET */
    LS_ACTIVITY_KERNEL_SERIAL = 3, /* KERNEL */
    LS_ACTIVITY_KERNEL = 10,       /* CONCURRENT_KERNEL */
    LS_ACTIVITY_OVERHEAD = 17,     /* OVERHEAD */
    LS_ACTIVITY_PEER_COPY = 22,    /* MEMCPY2 */
    LS_ACTIVITY_SYNC = 38,         /* SYNCHRONIZATION */
    LS_ACTIVITY_MEMORY = 49,       /* MEMORY2 */
    LS_ACTIVITY_POOL = 50,         /* MEMORY_POOL: MEMORY_POOL2's records */
    LS_ACTIVITY_GRAPH = 51,        /* GRAPH_TRACE */
};

/* CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC, ..._MEMSET_ASYNC */
enum { LS_ACTIVITY_ASYNC = 1 };

/* CUpti_ActivityObjectKind */
enum ls_cupti_object {
    LS_OBJECT_THREAD = 2,
    LS_OBJECT_DEVICE = 3,
    LS_OBJECT_CONTEXT = 4,
    LS_OBJECT_STREAM = 5,
};

typedef void (*ls_cupti_callback_fn)(void *user, int domain, uint32_t id, const void *data);
typedef void (*ls_cupti_requested_fn)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*ls_cupti_completed_fn)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                      size_t valid);

#endif
