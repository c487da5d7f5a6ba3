/*
 * tap.c - calls as they begin and end, for the listener: numbers, and who is inside what.
 * See tap.h. Any thread, no lock held; not in signal handlers.
 */
#include "tap.h"

#include "device.h"
#include "handles.h"
#include "stream.h"
#include "tap_call.h"

const struct sd_tap *_Atomic sd_tap;

static atomic_uint last_correlation;
static __thread struct sd_tapped *innermost;

static bool has_context(int ordinal) {
    const struct device *d = sd_device(ordinal);
    return d && __atomic_load_n(&d->context, __ATOMIC_ACQUIRE);
}

static void look(struct sd_tapped *call) {
    call->device = sd_current_ordinal();
    call->context = has_context(call->device);
}

static void enter(struct sd_tapped *call, uint32_t correlation) {
    call->correlation = correlation;
    look(call);
    call->outer = innermost;
    innermost = call;
    call->told = atomic_load(&sd_tap);
    if (call->told)
        call->told->enter(call);
}

void sd_tap_enter(struct sd_tapped *call) {
    enter(call, atomic_fetch_add(&last_correlation, 1) + 1);
}

void sd_tap_enter_inside(struct sd_tapped *call) {
    if (innermost)
        enter(call, innermost->correlation);
    else /* another library's runtime makes the context */
        sd_tap_enter(call);
}

/* A listener that came or went meanwhile is not told of half a call. */
void sd_tap_exit(struct sd_tapped *call, int status) {
    look(call);
    call->status = status;
    if (call->told && call->told == atomic_load(&sd_tap))
        call->told->exit(call);
    innermost = call->outer;
}

uint32_t sd_tap_correlation(void) {
    return innermost ? innermost->correlation : 0;
}

void sd_tap_begin(struct sd_tap_frame *frame, enum sd_domain domain, const char *name,
                  const void *params, const char *kernel) {
    frame->call =
        (struct sd_tapped){.domain = domain, .name = name, .params = params, .kernel = kernel};
    if (!kernel)
        sd_nested_kernel(&frame->call);
    sd_tap_enter(&frame->call);
    frame->nested.call.name = NULL;
    if (domain == SD_DOMAIN_RUNTIME && frame->call.told)
        sd_nested_begin(&frame->nested, &frame->call);
}

void sd_tap_end(struct sd_tap_frame *frame, int status) {
    if (frame->nested.call.name)
        sd_tap_exit(&frame->nested.call, status);
    sd_tap_exit(&frame->call, status);
}

uint32_t sd_stream_number(const void *handle, bool per_thread) {
    if (!sd_begin_registration())
        return 0;
    struct device *d = sd_current();
    struct stream *s = d && d->context ? sd_stream(d, handle, per_thread) : NULL;
    sd_end();
    return s ? s->number : 0;
}

/*
 * The runtime makes the current device's context inside the first call that needs it. Told around
 * the making, which holds the lock.
 */
void sd_tap_make_context(int ordinal) {
    static __thread bool making; /* a listener's own call in between makes it without ado */
    struct device *device;
    if (!atomic_load(&sd_tap) || making || !sd_device(ordinal) || has_context(ordinal) ||
        sd_in_host_function || sd_driver_lost())
        return;
    void *context = NULL;
    struct {
        void **pctx;
        int dev;
    } params = {&context, ordinal};
    struct sd_tapped call = {
        .domain = SD_DOMAIN_DRIVER, .name = "cuDevicePrimaryCtxRetain", .params = &params};
    making = true;
    sd_tap_enter_inside(&call);
    int status = sd_begin();
    if (!status)
        status = sd_end_with(sd_device_context(ordinal, &device));
    if (!status)
        context = sd_context_handle(ordinal);
    sd_tap_exit(&call, status);
    making = false;
}
