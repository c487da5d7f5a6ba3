/*
 * work.c - runs pieces of work, and says how long they take. See work.h.
 *
 * Runs in the devices' threads, and in program threads that wait for their own copy.
 */
#include "work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device.h"
#include "stream.h"

/*
 * Registered and captured host memory is the program's and may be gone by now. Hardware has the
 * pages pinned and copies on; here such a copy moves nothing, but must not end the process.
 */
static void careful_copy(char *dst, const char *src, uint64_t bytes, bool foreign_dst) {
    struct iovec to = {dst, bytes}, from = {(char *)(uintptr_t)src, bytes};
    ssize_t moved = foreign_dst ? process_vm_writev(getpid(), &from, 1, &to, 1, 0)
                                : process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (moved < 0 && errno != EFAULT) /* the system forbids it: trust the program */
        memmove(dst, src, bytes);
}

static void run_copy(const struct work *w) {
    for (uint64_t z = 0; z < w->copy.depth; z++)
        for (uint64_t y = 0; y < w->copy.height; y++) {
            char *dst = w->copy.dst.at + z * w->copy.dst.slice + y * w->copy.dst.pitch;
            const char *src = w->copy.src.at + z * w->copy.src.slice + y * w->copy.src.pitch;
            if (w->copy.foreign_dst || w->copy.foreign_src)
                careful_copy(dst, src, w->copy.width, w->copy.foreign_dst);
            else
                memmove(dst, src, w->copy.width);
        }
}

static void set_row(char *row, uint64_t width, uint32_t value, unsigned element) {
    if (element == 1) {
        memset(row, (int)value, width);
        return;
    }
    for (uint64_t i = 0; i + element <= width; i += element)
        memcpy(row + i, &value, element);
}

static void run_set(const struct work *w) {
    for (uint64_t z = 0; z < w->set.depth; z++)
        for (uint64_t y = 0; y < w->set.height; y++)
            set_row(w->set.dst.at + z * w->set.dst.slice + y * w->set.dst.pitch, w->set.width,
                    w->set.value, w->set.element);
}

void sd_work_run(struct work *w) {
    switch (w->kind) {
    case WORK_KERNEL:
        if (w->kernel.run)
            w->kernel.run(w->kernel.data);
        break;
    case WORK_COPY:
        run_copy(w);
        break;
    case WORK_SET:
        run_set(w);
        break;
    case WORK_HOST:
        sd_in_host_function = true;
        w->host.fn(w->host.data);
        sd_in_host_function = false;
        break;
    case WORK_CALLBACK:
        sd_in_host_function = true;
        w->callback.fn(w->callback.stream, 0, w->callback.data);
        sd_in_host_function = false;
        break;
    case WORK_RECORD:
    case WORK_WAIT:
    case WORK_EMPTY:
        break;
    }
}

bool sd_work_clone(struct work *to, const struct work *from) {
    *to = *from;
    to->run = NULL;
    if (from->kind == WORK_KERNEL) {
        to->kernel.data = NULL;
        if (from->kernel.size) {
            to->kernel.data = malloc(from->kernel.size);
            if (!to->kernel.data)
                return false;
            memcpy(to->kernel.data, from->kernel.data, from->kernel.size);
        }
    } else if (from->kind == WORK_RECORD || from->kind == WORK_WAIT) {
        if (from->event.marker)
            sd_marker_hold(from->event.marker);
    }
    return true;
}

void sd_work_clear(struct work *w) {
    if (w->run)
        sd_graph_run_drop(w->run);
    if (w->kind == WORK_KERNEL) {
        free(w->kernel.data);
    } else if (w->kind == WORK_RECORD || w->kind == WORK_WAIT) {
        if (w->event.marker)
            sd_marker_drop(w->event.marker);
    }
}

uint64_t sd_copy_ns(enum link link, uint64_t bytes) {
    /* Bytes per microsecond, near a card on PCIe 5 with HBM. */
    static const uint64_t rate[] = {[LINK_PAGEABLE] = 8000,
                                    [LINK_PINNED] = 50000,
                                    [LINK_DEVICE] = 2000000,
                                    [LINK_PEER] = 100000};
    return 1500 + bytes * 1000 / rate[link];
}

/*
 * Bytes and operations per nanosecond: memory's bandwidth as of copies within a device, and what a
 * good kernel reaches of a card's Tensor Cores. A kernel takes what takes longer of the two, and no
 * less than the shortest one does. The model's time is the program's: no kernel takes longer than
 * some milliseconds.
 */
#define BYTES_PER_NS 2000.0
#define OPERATIONS_PER_NS 200000.0
#define LONGEST_NS 5e6
/* Elementwise kernels read and write four floats a thread, whatever they are of. */
#define THREAD_BYTES 32.0

uint64_t sd_kernel_ns(double bytes, double operations) {
    const struct options *options = sd_options();
    double ns = bytes / BYTES_PER_NS, computing = operations / OPERATIONS_PER_NS;
    if (options->kernels_alike)
        return options->kernel_ns;
    ns = ns > computing ? ns : computing;
    ns = ns < LONGEST_NS ? ns : LONGEST_NS;
    return ns > (double)options->kernel_ns ? (uint64_t)ns : options->kernel_ns;
}

double sd_threads_bytes(const unsigned grid[3], const unsigned block[3]) {
    double threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= (double)grid[i] * block[i];
    return threads * THREAD_BYTES;
}
