/*
 * on_capture.c - is any stream of this process capturing? See on_call.h.
 */
#include "on_call.h"

_Atomic int ls_capturing;

/* cudaErrorStreamCaptureUnsupported (900) to cudaErrorCapturedEvent (907): the capture was there,
 * was broken, and is over after the call. Other errors left whatever there was. */
static bool ends_capture(int status) {
    return status == 0 || (status >= 900 && status <= 907);
}

void ls_on_capture(enum ls_class cls, int status) {
    if (cls == LS_CLASS_CAPTURE_BEGIN) {
        if (status == 0)
            atomic_fetch_add(&ls_capturing, 1);
        return;
    }
    int now = atomic_load(&ls_capturing);
    while (ends_capture(status) && now > 0 &&
           !atomic_compare_exchange_weak(&ls_capturing, &now, now - 1)) {
    }
}
