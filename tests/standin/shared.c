/*
 * shared.c - the private interface for the other stand-in libraries. See standin.h.
 */
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "device.h"
#include "kernel.h"
#include "memory.h"
#include "stream.h"
#include "tap_call.h"
#include "tell.h"

int standin_cuda_version(void) {
    return CUDA_MAJOR >= 13 ? 13000 : 12080;
}

int standin_current_device(void) {
    return sd_current_ordinal();
}

int standin_need_context(void) {
    struct device *device;
    int status = sd_begin_context(&device);
    return status ? status : sd_end_with(SD_OK);
}

bool standin_memory_at(const void *address, struct standin_memory *out) {
    *out = (struct standin_memory){.kind = STANDIN_PAGEABLE, .device = -1};
    if (sd_begin() != SD_OK)
        return false;
    struct memory *m = sd_memory_find(address);
    if (m)
        *out = (struct standin_memory){m->kind, m->device, m->node.key, m->size, m->id};
    sd_end();
    return m != NULL;
}

void *standin_host_view(const void *address) {
    void *view = (void *)(uintptr_t)address;
    /* Host functions call this too, where sd_begin() would refuse. */
    if (!sd_begin_registration())
        return view;
    struct memory *m = sd_memory_find(address);
    if (m)
        view = m->view + ((uintptr_t)address - m->node.key);
    sd_end();
    return view;
}

bool standin_reachable(const void *address, uint64_t size) {
    struct span span;
    if (sd_begin() != SD_OK)
        return false;
    bool fits = sd_memory_span(address, size, &span) && span.kind != STANDIN_PAGEABLE;
    sd_end();
    return fits;
}

int standin_internal_alloc(void **out, size_t size) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    struct memory *m = sd_memory_device(device, size ? size : 1, STANDIN_DEVICE);
    if (m) {
        m->internal = true;
        *out = sd_memory_address(m);
    }
    return sd_end_with(m ? SD_OK : SD_OUT_OF_MEMORY);
}

int standin_internal_free(void *address) {
    int status = sd_begin();
    if (status)
        return status;
    struct memory *m = sd_memory_exact(address);
    if (!m || !m->internal)
        return sd_end_with(SD_INVALID_VALUE);
    sd_device_wait(sd_device(m->device));
    sd_memory_release(m);
    return sd_end_with(SD_OK);
}

/* The stream of a handle, with the lock held; NULL: not held, *status says why. */
static struct stream *begin_stream(standin_stream handle, int *status) {
    struct device *device;
    *status = sd_begin_context(&device);
    if (*status)
        return NULL;
    struct stream *s = sd_stream(device, handle, false);
    if (!s)
        *status = sd_end_with(SD_INVALID_HANDLE);
    return s;
}

bool standin_stream_valid(standin_stream stream) {
    int status;
    if (!begin_stream(stream, &status))
        return false;
    sd_end();
    return true;
}

bool standin_stream_capturing(standin_stream stream) {
    int status;
    struct stream *s = begin_stream(stream, &status);
    if (!s)
        return false;
    bool capturing = s->capture != NULL;
    sd_end();
    return capturing;
}

int standin_stream_wait(standin_stream stream) {
    int status;
    struct stream *s = begin_stream(stream, &status);
    if (!s)
        return status;
    status = sd_capture_refuses_wait(s);
    if (!status)
        sd_stream_wait(s);
    return sd_end_with(status);
}

/* The shape that a library's kernels are told to have. */
static const unsigned library_grid[3] = {1, 1, 1}, library_block[3] = {128, 1, 1};

/* Of the thread's next kernel. */
static _Thread_local struct { double bytes, operations; } next;

void standin_work(double bytes, double operations) {
    next.bytes = bytes;
    next.operations = operations;
}

static int launch(standin_stream stream, const char *name, void (*run)(void *data),
                  const void *data, size_t size) {
    int status;
    uint64_t duration_ns = sd_kernel_ns(next.bytes, next.operations);
    standin_work(0, 0);
    struct stream *s = begin_stream(stream, &status);
    if (!s)
        return status;
    struct work work = {.kind = WORK_KERNEL, .duration_ns = duration_ns};
    work.kernel.run = run;
    work.kernel.name = sd_kernel_name(name ? name : "");
    memcpy(work.kernel.grid, library_grid, sizeof library_grid);
    memcpy(work.kernel.block, library_block, sizeof library_block);
    if (size) {
        work.kernel.data = malloc(size);
        if (!work.kernel.data)
            abort();
        memcpy(work.kernel.data, data, size);
        work.kernel.size = size;
    }
    return sd_end_with(sd_submit(s, work, false, false));
}

/* The library's own runtime launches it: a call that no line of the log tells of, but a listener
 * sees. */
int standin_launch(standin_stream stream, const char *name, void (*run)(void *data),
                   const void *data, size_t size) {
    if (!sd_told())
        return launch(stream, name, run, data, size);
    struct {
        const void *function;
        unsigned grid[3], block[3];
        void **args;
        size_t shared;
        standin_stream stream;
    } params = {.stream = stream};
    if (sd_begin_registration()) {
        name = sd_kernel_name(name ? name : "");
        sd_end();
    }
    params.function = name; /* an address of its own for each kernel */
    memcpy(params.grid, library_grid, sizeof library_grid);
    memcpy(params.block, library_block, sizeof library_block);
    struct sd_tap_frame frame;
    sd_tap_begin(&frame, SD_DOMAIN_RUNTIME, "cudaLaunchKernel", &params, name ? name : "");
    int status = launch(stream, name, run, data, size);
    sd_tap_end(&frame, status);
    return status;
}
