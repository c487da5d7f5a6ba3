/*
 * cuda_context.c - the driver's contexts: each device has its primary one, which is also what
 * cuCtxCreate returns. See driver.h.
 */
#include "driver.h"

#include "capture.h"
#include "pool.h"
#include "stream.h"
#include "tell.h"

static int retained[STANDIN_DEVICES_MAX];

/* The thread's stack of contexts; the runtime's current device counts while it is empty. */
#define STACK_MAX 32
static __thread int stack[STACK_MAX];
static __thread int depth;
#define NO_CONTEXT (-1)

static int current(void) {
    if (depth)
        return stack[depth - 1];
    struct device *d = sd_current();
    return d && d->context ? d->ordinal : NO_CONTEXT;
}

int sd_driver_begin(struct device **out) {
    int status = sd_begin();
    if (status)
        return status;
    int ordinal = current();
    if (ordinal == NO_CONTEXT)
        return sd_end_with(SD_NO_CONTEXT);
    sd_set_current(ordinal);
    status = sd_device_context(ordinal, out);
    return status ? sd_end_with(status) : SD_OK;
}

int sd_driver_context(void) {
    struct device *device;
    int status = sd_driver_begin(&device);
    return status ? status : sd_end_with(SD_OK);
}

static CUcontext handle_of(int ordinal) {
    return ordinal == NO_CONTEXT ? NULL : (CUcontext)sd_context_handle(ordinal);
}

int sd_driver_ordinal(CUcontext context) {
    for (int i = 0; i < STANDIN_DEVICES_MAX; i++)
        if (context == handle_of(i))
            return i;
    return NO_CONTEXT;
}

DRIVER(cuCtxGetCurrent, (CUcontext * pctx), (pctx)) {
    if (!pctx)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    *pctx = handle_of(current());
    return sd_end_with(SD_OK);
}

static int set_top(CUcontext context, bool push) {
    int status = sd_begin();
    if (status)
        return status;
    int ordinal = sd_driver_ordinal(context);
    if (context && ordinal == NO_CONTEXT)
        return sd_end_with(SD_NO_CONTEXT);
    if (push && depth == STACK_MAX)
        return sd_end_with(SD_INVALID_VALUE);
    if (push || depth == 0)
        depth++;
    stack[depth - 1] = ordinal;
    if (context)
        sd_set_current(ordinal);
    return sd_end_with(SD_OK);
}

DRIVER(cuCtxSetCurrent, (CUcontext ctx), (ctx)) {
    return set_top(ctx, false);
}

DRIVER(cuCtxPushCurrent_v2, (CUcontext ctx), (ctx)) {
    return ctx ? set_top(ctx, true) : SD_NO_CONTEXT;
}

DRIVER(cuCtxPopCurrent_v2, (CUcontext * pctx), (pctx)) {
    if (!depth || stack[depth - 1] == NO_CONTEXT)
        return SD_NO_CONTEXT;
    if (pctx)
        *pctx = handle_of(stack[depth - 1]);
    depth--;
    if (depth && stack[depth - 1] != NO_CONTEXT)
        sd_set_current(stack[depth - 1]);
    return SD_OK;
}

DRIVER(cuCtxGetDevice, (CUdevice * device), (device)) {
    struct device *d;
    if (!device)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin(&d);
    if (status)
        return status;
    *device = d->ordinal;
    return sd_end_with(SD_OK);
}

static int synchronize(void) {
    struct device *d;
    int status = sd_driver_begin(&d);
    if (status)
        return status;
    status = sd_capture_refuses_device(d);
    if (!status) {
        uint64_t since = sd_wait_start();
        sd_device_wait(d);
        sd_tell_wait(WAIT_CONTEXT, d->ordinal, 0, since);
        sd_pools_settle(d);
    }
    return sd_end_with(status);
}

/* The only driver function without parameters. */
CUresult cuCtxSynchronize(void);
STANDIN_EXPORT CUresult cuCtxSynchronize(void) {
    struct standin_call call;
    standin_enter(&call, "cuCtxSynchronize", __builtin_return_address(0));
    int status;
    TAP_VOID(SD_DOMAIN_DRIVER, "cuCtxSynchronize", status,
             call.fault         ? call.fault
             : sd_driver_used() ? synchronize()
                                : SD_INITIALIZATION)
    standin_put_signed(&call, "device", sd_current_ordinal());
    return (CUresult)standin_leave(&call, status);
}

/* What a context's call tells. */
static int put_context(struct standin_call *call, int status, const CUcontext *out, CUdevice dev) {
    PUT("context", status || !out ? 0 : (uintptr_t)*out);
    standin_put_signed(call, "device", dev);
    return status;
}

static int make(CUcontext *out, CUdevice dev, bool make_current) {
    struct device *d;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(dev, &d);
    if (!status) {
        *out = handle_of(dev);
        retained[dev]++;
    }
    sd_end();
    return status || !make_current ? status : set_top(*out, true);
}

DRIVER_LOGGED(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev),
              (pctx, flags, dev)) {
    PUT("flags", flags);
    return put_context(call, ATTEMPT(make(pctx, dev, true)), pctx, dev);
}

DRIVER_LOGGED(cuCtxCreate_v3,
              (CUcontext * pctx, void *paramsArray, int numParams, unsigned int flags,
               CUdevice dev),
              (pctx, paramsArray, numParams, flags, dev)) {
    (void)paramsArray, (void)numParams;
    PUT("flags", flags);
    return put_context(call, ATTEMPT(make(pctx, dev, true)), pctx, dev);
}

#ifndef STANDIN_NVIDIA_HEADERS
typedef struct CUctxCreateParams_st CUctxCreateParams;
#endif
DRIVER_LOGGED(cuCtxCreate_v4,
              (CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
               CUdevice dev),
              (pctx, ctxCreateParams, flags, dev)) {
    (void)ctxCreateParams;
    PUT("flags", flags);
    return put_context(call, ATTEMPT(make(pctx, dev, true)), pctx, dev);
}

static int release(int ordinal) {
    if (ordinal < 0 || ordinal >= standin_device_count())
        return SD_INVALID_DEVICE;
    int status = sd_begin();
    if (status)
        return status;
    if (retained[ordinal] == 0)
        return sd_end_with(SD_NO_CONTEXT);
    retained[ordinal]--;
    return sd_end_with(SD_OK);
}

static int destroy(CUcontext ctx) {
    int ordinal = sd_driver_ordinal(ctx);
    if (ordinal == NO_CONTEXT)
        return SD_NO_CONTEXT;
    if (depth && stack[depth - 1] == ordinal)
        depth--;
    return release(ordinal);
}

DRIVER_LOGGED(cuCtxDestroy_v2, (CUcontext ctx), (ctx)) {
    int ordinal = sd_driver_ordinal(ctx);
    int status = ATTEMPT(destroy(ctx));
    PUT("context", (uintptr_t)ctx);
    standin_put_signed(call, "device", ordinal < 0 ? 0 : ordinal);
    return status;
}

DRIVER_LOGGED(cuDevicePrimaryCtxRetain, (CUcontext * pctx, CUdevice dev), (pctx, dev)) {
    return put_context(call, ATTEMPT(make(pctx, dev, false)), pctx, dev);
}

/* The memory of a released primary context stays: the runtime may be using it. */
DRIVER_LOGGED(cuDevicePrimaryCtxRelease_v2, (CUdevice dev), (dev)) {
    int status = ATTEMPT(release(dev));
    standin_put_signed(call, "device", dev);
    return status;
}

static int reset(CUdevice dev) {
    int status = sd_begin();
    if (status)
        return status;
    struct device *d = sd_device(dev);
    if (d)
        sd_device_reset(d);
    return sd_end_with(d ? SD_OK : SD_INVALID_DEVICE);
}

DRIVER_LOGGED(cuDevicePrimaryCtxReset_v2, (CUdevice dev), (dev)) {
    int status = ATTEMPT(reset(dev));
    standin_put_signed(call, "device", dev);
    return status;
}

DRIVER(cuDevicePrimaryCtxSetFlags_v2, (CUdevice dev, unsigned int flags), (dev, flags)) {
    int status = sd_begin();
    if (status)
        return status;
    struct device *d = sd_device(dev);
    if (d)
        d->flags = flags;
    return sd_end_with(d ? SD_OK : SD_INVALID_DEVICE);
}

DRIVER(cuDevicePrimaryCtxGetState, (CUdevice dev, unsigned int *flags, int *active),
       (dev, flags, active)) {
    if (!flags || !active)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    struct device *d = sd_device(dev);
    if (d) {
        *flags = d->flags;
        *active = d->context;
    }
    return sd_end_with(d ? SD_OK : SD_INVALID_DEVICE);
}

DRIVER(cuCtxGetFlags, (unsigned int *flags), (flags)) {
    struct device *d;
    if (!flags)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin(&d);
    if (status)
        return status;
    *flags = d->flags;
    return sd_end_with(SD_OK);
}

DRIVER(cuCtxGetApiVersion, (CUcontext ctx, unsigned int *version), (ctx, version)) {
    if (!version || sd_driver_ordinal(ctx) == NO_CONTEXT)
        return version ? SD_NO_CONTEXT : SD_INVALID_VALUE;
    *version = 3020;
    return SD_OK;
}

DRIVER(cuCtxGetStreamPriorityRange, (int *leastPriority, int *greatestPriority),
       (leastPriority, greatestPriority)) {
    struct device *d;
    int status = sd_driver_begin(&d);
    if (status)
        return status;
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return sd_end_with(SD_OK);
}

DRIVER(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value)) {
    struct device *d;
    (void)limit, (void)value;
    int status = sd_driver_begin(&d);
    return status ? status : sd_end_with(SD_OK);
}
