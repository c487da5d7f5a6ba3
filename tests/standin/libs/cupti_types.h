/*
 * cupti_types.h - the types of CUPTI's API, for building without a toolkit. As cublas_types.h:
 * STANDIN_NVIDIA_HEADERS compares with NVIDIA's.
 */
#ifndef STANDIN_CUPTI_TYPES_H
#define STANDIN_CUPTI_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef STANDIN_NVIDIA_HEADERS
#include <cupti.h>
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "cupti_values.def"
#else
enum {
#define VALUE(name, value) name = value,
#include "cupti_values.def"
};
typedef int CUptiResult, CUpti_CallbackDomain, CUpti_ActivityKind, CUpti_ActivityAttribute;
typedef int CUpti_ExternalCorrelationKind, CUpti_ActivityThreadIdType, CUpti_ApiCallbackSite;
typedef uint32_t CUpti_CallbackId;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUpti_Subscriber_st *CUpti_SubscriberHandle;
typedef CUpti_CallbackDomain *CUpti_DomainTable;
typedef void (*CUpti_CallbackFunc)(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void *data);
typedef struct {
    CUpti_ApiCallbackSite callbackSite;
    const char *functionName;
    const void *functionParams;
    void *functionReturnValue;
    const char *symbolName;
    CUcontext context;
    uint32_t contextUid;
    uint64_t *correlationData;
    uint32_t correlationId;
} CUpti_CallbackData;
typedef struct {
    CUcontext context;
    union {
        CUstream stream;
    } resourceHandle;
    void *resourceDescriptor;
} CUpti_ResourceData;
typedef struct {
    size_t structSize;
    const char *subscriberName;
    char *oldSubscriberName;
    size_t oldSubscriberSize;
} CUpti_SubscriberParams;
typedef struct {
    CUpti_ActivityKind kind;
} CUpti_Activity;
typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **buffer, size_t *size, size_t *records);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext context, uint32_t stream,
                                                  uint8_t *buffer, size_t size, size_t valid);
typedef uint64_t (*CUpti_TimestampCallbackFunc)(void);
#endif

_Static_assert(sizeof(CUpti_SubscriberParams) == 32, "subscriber parameters");
_Static_assert(sizeof(CUpti_CallbackData) == 72, "data of a callback");
_Static_assert(sizeof(CUpti_ResourceData) == 24, "data of a resource's callback");

#endif
