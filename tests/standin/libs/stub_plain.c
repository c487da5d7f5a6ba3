/*
 * stub_plain.c - the usual answer of a stub: a line in the truth log, and the library's status for
 * "not supported". Any thread; not safe in a signal handler.
 */
#include "stub.h"

long stub_answer(const char *name, const void *caller, const void *first, int status) {
    (void)first;
    struct standin_call call;
    standin_enter(&call, name, caller);
    return standin_leave(&call, call.fault ? call.fault : status);
}
