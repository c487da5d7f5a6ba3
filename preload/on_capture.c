/*
 * on_capture.c - is any stream of this process capturing? See on_call.h.
 */
#include "on_call.h"

_Atomic int ls_capturing;

/* cudaErrorStreamCaptureUnsupported (900) to cudaErrorCapturedEvent (907): the capture was there,
 * was broken, and is over after the call; but for Unmatched (903), which is another capture's
 * thread asking. Other errors left whatever there was. */
static bool ends_capture(int status) {
    return status == 0 || (status >= 900 && status <= 907 && status != 903);
}

static void count_down(void) {
    int now = atomic_load(&ls_capturing);
    while (now > 0 && !atomic_compare_exchange_weak(&ls_capturing, &now, now - 1)) {
    }
}

void ls_before_capture(void) {
    atomic_fetch_add(&ls_capturing, 1);
}

void ls_on_capture(enum ls_class cls, int status) {
    bool begun = cls == LS_CLASS_CAPTURE_BEGIN;
    if (begun ? status != 0 : ends_capture(status))
        count_down();
}
