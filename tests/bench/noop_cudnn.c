/*
 * noop_cudnn.c - a cuDNN that does nothing, so that only what surrounds a call is measured.
 */
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define NOOP(name, ...)                                                                            \
    EXPORT int name(__VA_ARGS__);                                                                  \
    int name(__VA_ARGS__)

/* Descriptors come and go at a few addresses, as an allocator gives them; the first ones stay. */
enum { STAY = 32, GO = 64 };
static char memory[STAY + GO][64];
static unsigned next;

NOOP(cudnnBackendCreateDescriptor, int type, void **descriptor) {
    *descriptor = memory[next < STAY ? next : STAY + next % GO];
    next++;
    return type < 0;
}
NOOP(cudnnBackendSetAttribute, void *descriptor, int name, int type, int64_t count,
     const void *values) {
    return !descriptor && !values && name == type && count;
}
NOOP(cudnnBackendFinalize, void *descriptor) {
    return !descriptor;
}
NOOP(cudnnBackendExecute, void *handle, void *plan, void *pack) {
    return handle && plan == pack;
}
NOOP(cudnnBackendDestroyDescriptor, void *descriptor) {
    return !descriptor;
}
