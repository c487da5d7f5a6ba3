/*
 * witness.c - libc10-witness.so: what PyTorch's caching allocator reports, as a line of the truth
 * log each, so that blocks have a ground truth too.
 *
 * libc10_cuda.so reports every block by a call into libc10.so. on-standin puts this library into
 * LD_PRELOAD as the last one: the call comes here first, or after liblayoutspy.so has passed it on,
 * and goes on to the real libc10.so. The names are those of torch 2.0 and later (`mm`) and of 1.10
 * to 1.13 (`ll`), whose totals are signed in the same registers.
 *
 * Any thread; the allocator's lock is held in these calls, so nothing here waits for more than the
 * log. Not safe in a signal handler. Without a libc10.so nobody calls it, and it does nothing.
 */
#include <dlfcn.h>
#include <stdint.h>

#include "standin.h"

/* c10::Device, which is passed in a register. */
struct c10_device {
    int8_t type, index;
};
#define DEVICE_CUDA 1

/* The real function: libc10.so is mostly loaded RTLD_LOCAL, where RTLD_NEXT does not look. It is
 * looked up once; the library is never unloaded. */
static void *real(const char *name, void **known) {
    void *found = __atomic_load_n(known, __ATOMIC_ACQUIRE);
    if (found)
        return found;
    void *c10 = dlopen("libc10.so", RTLD_NOW | RTLD_NOLOAD);
    found = c10 ? dlsym(c10, name) : NULL;
    __atomic_store_n(known, found, __ATOMIC_RELEASE);
    return found;
}

static void put_totals(struct standin_call *call, int64_t size, uint64_t allocated,
                       uint64_t reserved, struct c10_device device) {
    standin_put_signed(call, "size", size);
    standin_put(call, "allocated", allocated);
    standin_put(call, "reserved", reserved);
    standin_put_signed(call, "device", device.index);
    standin_leave(call, 0);
}

#define BLOCK(name, total)                                                                         \
    STANDIN_EXPORT void name(void *ptr, int64_t size, total allocated, total reserved,             \
                             struct c10_device device);                                            \
    void name(void *ptr, int64_t size, total allocated, total reserved,                            \
              struct c10_device device) {                                                          \
        static void *known;                                                                        \
        struct standin_call call;                                                                  \
        void (*next)(void *, int64_t, total, total, struct c10_device) =                           \
            (void (*)(void *, int64_t, total, total, struct c10_device))real(#name, &known);       \
        if (next)                                                                                  \
            next(ptr, size, allocated, reserved, device);                                          \
        if (device.type != DEVICE_CUDA)                                                            \
            return;                                                                                \
        standin_enter(&call, #name, __builtin_return_address(0));                                  \
        standin_put(&call, "ptr", (uintptr_t)ptr);                                                 \
        put_totals(&call, size, (uint64_t)allocated, (uint64_t)reserved, device);                  \
    }

#define OOM(name, total)                                                                           \
    STANDIN_EXPORT void name(int64_t size, total allocated, total reserved,                        \
                             struct c10_device device);                                            \
    void name(int64_t size, total allocated, total reserved, struct c10_device device) {           \
        static void *known;                                                                        \
        struct standin_call call;                                                                  \
        void (*next)(int64_t, total, total, struct c10_device) =                                   \
            (void (*)(int64_t, total, total, struct c10_device))real(#name, &known);               \
        if (next)                                                                                  \
            next(size, allocated, reserved, device);                                               \
        if (device.type != DEVICE_CUDA)                                                            \
            return;                                                                                \
        standin_enter(&call, #name, __builtin_return_address(0));                                  \
        put_totals(&call, size, (uint64_t)allocated, (uint64_t)reserved, device);                  \
    }

BLOCK(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, size_t)
BLOCK(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE, int64_t)
OOM(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE, size_t)
OOM(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE, int64_t)
