/*
 * check_abi.c - our own view of CUPTI (abi.h, record_layout.def) against NVIDIA's headers.
 *
 * Compiled (never linked) where a toolkit with CUPTI is found: drift is a compile error. Holds for
 * the headers of CUDA 11.8 and later.
 */
#include <cuda.h>
#include <cupti.h>

#include <stddef.h>

#include "abi.h"
#include "layoutspy/format.h"

/* ---- numbers ---- */

#define SAME(ours, theirs)                                                                         \
    _Static_assert((long)(ours) == (long)(theirs), "NVIDIA's header differs: " #ours);
SAME(LS_CUPTI_OK, CUPTI_SUCCESS)
SAME(LS_CUPTI_NO_MORE, CUPTI_ERROR_MAX_LIMIT_REACHED)
SAME(LS_CUPTI_MULTIPLE_SUBSCRIBERS, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
SAME(LS_CUPTI_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API)
SAME(LS_CUPTI_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API)
SAME(LS_CUPTI_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE)
SAME(LS_CUPTI_ENTER, CUPTI_API_ENTER)
SAME(LS_CUPTI_EXIT, CUPTI_API_EXIT)
SAME(LS_ACTIVITY_COPY, CUPTI_ACTIVITY_KIND_MEMCPY)
SAME(LS_ACTIVITY_SET, CUPTI_ACTIVITY_KIND_MEMSET)
SAME(LS_ACTIVITY_KERNEL_SERIAL, CUPTI_ACTIVITY_KIND_KERNEL)
SAME(LS_ACTIVITY_KERNEL, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
SAME(LS_ACTIVITY_OVERHEAD, CUPTI_ACTIVITY_KIND_OVERHEAD)
SAME(LS_ACTIVITY_PEER_COPY, CUPTI_ACTIVITY_KIND_MEMCPY2)
SAME(LS_ACTIVITY_SYNC, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)
SAME(LS_ACTIVITY_MEMORY, CUPTI_ACTIVITY_KIND_MEMORY2)
SAME(LS_ACTIVITY_POOL, CUPTI_ACTIVITY_KIND_MEMORY_POOL)
SAME(LS_ACTIVITY_GRAPH, CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
SAME(LS_ACTIVITY_ASYNC, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC)
SAME(LS_ACTIVITY_ASYNC, CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC)
SAME(LS_OBJECT_THREAD, CUPTI_ACTIVITY_OBJECT_THREAD)
SAME(LS_OBJECT_DEVICE, CUPTI_ACTIVITY_OBJECT_DEVICE)
SAME(LS_OBJECT_CONTEXT, CUPTI_ACTIVITY_OBJECT_CONTEXT)
SAME(LS_OBJECT_STREAM, CUPTI_ACTIVITY_OBJECT_STREAM)
SAME(LS_GPU_MEMORY_UNKNOWN, CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN)
SAME(LS_GPU_MEMORY_PAGEABLE, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)
SAME(LS_GPU_MEMORY_PINNED, CUPTI_ACTIVITY_MEMORY_KIND_PINNED)
SAME(LS_GPU_MEMORY_DEVICE, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE)
SAME(LS_GPU_MEMORY_ARRAY, CUPTI_ACTIVITY_MEMORY_KIND_ARRAY)
SAME(LS_GPU_MEMORY_MANAGED, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED)
SAME(LS_GPU_MEMORY_DEVICE_STATIC, CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC)
SAME(LS_GPU_MEMORY_MANAGED_STATIC, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC)

/* ---- what a callback gets ---- */

#define SAME_MEMBER(our_type, ours, their_type, theirs)                                            \
    _Static_assert(offsetof(our_type, ours) == offsetof(their_type, theirs) &&                     \
                       sizeof(((our_type *)0)->ours) == sizeof(((their_type *)0)->theirs),         \
                   "NVIDIA's " #their_type " differs: " #theirs);

#define MEMBER(ours, theirs) SAME_MEMBER(struct ls_cupti_api_data, ours, CUpti_CallbackData, theirs)
MEMBER(site, callbackSite)
MEMBER(function, functionName)
MEMBER(params, functionParams)
MEMBER(result, functionReturnValue)
MEMBER(symbol, symbolName)
MEMBER(context, context)
MEMBER(context_number, contextUid)
MEMBER(data, correlationData)
MEMBER(correlation, correlationId)

/* ---- what a subscriber says of itself ---- */

#undef MEMBER
#define MEMBER(ours, theirs)                                                                       \
    SAME_MEMBER(struct ls_cupti_subscriber_params, ours, CUpti_SubscriberParams, theirs)
#if CUPTI_API_VERSION >= 130000
MEMBER(size, structSize)
MEMBER(name, subscriberName)
MEMBER(old_name, oldSubscriberName)
MEMBER(old_size, oldSubscriberSize)
#endif
#if CUPTI_API_VERSION >= 130300
MEMBER(several, allowMultipleSubscribers)
#elif CUPTI_API_VERSION >= 130000 && CUPTI_API_VERSION < 130200
_Static_assert(sizeof(CUpti_SubscriberParams) ==
                   offsetof(struct ls_cupti_subscriber_params, several),
               "NVIDIA's CUpti_SubscriberParams has more members");
#endif

/* ---- records: the structs that the header's version hands over ---- */

#if CUPTI_API_VERSION >= 130200
#define KERNEL_RECORD CUpti_ActivityKernel11
#elif CUPTI_API_VERSION >= 130000
#define KERNEL_RECORD CUpti_ActivityKernel10
#elif CUPTI_API_VERSION >= 22
#define KERNEL_RECORD CUpti_ActivityKernel9
#else
#define KERNEL_RECORD CUpti_ActivityKernel8
#endif

#if CUPTI_API_VERSION >= 130000
#define COPY_RECORD CUpti_ActivityMemcpy6
#define MEMORY_RECORD CUpti_ActivityMemory4
#define POOL_RECORD CUpti_ActivityMemoryPool3
#define SYNC_RECORD CUpti_ActivitySynchronization2
#else
#define COPY_RECORD CUpti_ActivityMemcpy5
#define MEMORY_RECORD CUpti_ActivityMemory3
#define POOL_RECORD CUpti_ActivityMemoryPool2
#define SYNC_RECORD CUpti_ActivitySynchronization
#define LATER_13(KIND, name, offset, type, member)
#endif

#if CUPTI_API_VERSION >= 22
#define OVERHEAD_RECORD CUpti_ActivityOverhead3
#define GRAPH_RECORD CUpti_ActivityGraphTrace2
#else
#define OVERHEAD_RECORD CUpti_ActivityOverhead
#define GRAPH_RECORD CUpti_ActivityGraphTrace
#define LATER_12(KIND, name, offset, type, member)
#endif

#define PEER_COPY_RECORD CUpti_ActivityMemcpyPtoP4
#define SET_RECORD CUpti_ActivityMemset4

#define RECORD(KIND, least)                                                                        \
    _Static_assert(sizeof(KIND##_RECORD) >= (least), "NVIDIA's record is shorter: " #KIND);
#define AT(KIND, name, offset, type, member)                                                       \
    _Static_assert(offsetof(KIND##_RECORD, member) == (offset) &&                                  \
                       sizeof(((KIND##_RECORD *)0)->member) == sizeof(type),                       \
                   "NVIDIA's record differs: " #KIND " " #member);
#define LATER AT
#include "record_layout.def"
