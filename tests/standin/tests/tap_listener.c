/*
 * tap_listener.c - a library for CUDA_INJECTION64_PATH that listens to the simulated device (tap.h)
 * and writes a line for all that it is told to the file that STANDIN_TAP_OUT names.
 * ../../e2e/test_tap.py reads it.
 *
 * Lines: WHAT key=value ..., see below. `words` are the first words of a call's parameters, of
 * the calls whose structs are known here.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../standin.h"
#include "../tap.h"

static int out = -1;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* How many words the parameters of some calls have, from the twins' common name on. */
static const struct {
    const char *name;
    int words;
} sizes[] = {
    {"cudaMallocAsync", 3},      {"cudaMalloc", 2},          {"cudaFree", 1},
    {"cudaMemcpyAsync", 5},      {"cudaLaunchKernel", 7},    {"cuMemAlloc_v2", 2},
    {"cuMemAllocAsync", 3},      {"cuMemFree_v2", 1},        {"cuMemcpyHtoDAsync_v2", 4},
    {"cuMemcpyDtoHAsync_v2", 4}, {"cuMemcpyHtoD_v2", 3},     {"cuLaunchKernel", 8},
    {"cuGraphLaunch", 2},        {"cuStreamSynchronize", 1}, {"cudaSetDevice", 0},
};

static int put_words(char *to, size_t room, const struct sd_tapped *c) {
    for (size_t i = 0; c->params && i < sizeof sizes / sizeof *sizes; i++) {
        size_t length = strlen(sizes[i].name);
        if (strncmp(c->name, sizes[i].name, length) != 0 ||
            (c->name[length] && strncmp(c->name + length, "_pt", 3) != 0))
            continue;
        const uint64_t *word = c->params;
        int used = snprintf(to, room, " words=");
        for (int w = 0; w < sizes[i].words; w++)
            used += snprintf(to + used, room - (size_t)used, "%s%" PRIu64, w ? "," : "", word[w]);
        return used;
    }
    return 0;
}

static void put_call(const char *what, const struct sd_tapped *c, int status) {
    char line[8192];
    int used = snprintf(line, sizeof line,
                        "%s at=%" PRIu64 " tid=%ld domain=%d name=%s correlation=%u device=%d "
                        "context=%d status=%d data=%" PRIu64 " same=%d kernel=%s",
                        what, now(), syscall(SYS_gettid), c->domain, c->name, c->correlation,
                        c->device, c->context, status, c->data,
                        sd_tap_correlation() == c->correlation, c->kernel ? c->kernel : "");
    used += put_words(line + used, sizeof line - (size_t)used - 1, c);
    line[used++] = '\n';
    if (write(out, line, (size_t)used) != used)
        abort();
}

static uint64_t count;

static void enter(struct sd_tapped *c) {
    c->data = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    put_call("enter", c, -1);
}

/* What a callback may do: ask the device. */
static void leave(struct sd_tapped *c) {
    struct standin_memory memory;
    standin_memory_at(c, &memory);
    put_call("exit", c, c->status);
}

static void work(const struct sd_work_done *w) {
    dprintf(out,
            "work at=%" PRIu64 " kind=%d device=%d stream=%u correlation=%u start=%" PRIu64
            " end=%" PRIu64 " graph=%u node=%" PRIu64 " async=%d grid=%u,%u,%u block=%u,%u,%u"
            " shared=%u bytes=%" PRIu64 " copy=%u src=%u dst=%u value=%u src_device=%d"
            " dst_device=%d wait=%u name=%s\n",
            now(), w->kind, w->device, w->stream, w->correlation, w->start_ns, w->end_ns, w->graph,
            w->node, w->async, w->grid[0], w->grid[1], w->grid[2], w->block[0], w->block[1],
            w->block[2], w->shared, w->bytes, w->copy, w->src_kind, w->dst_kind, w->value,
            w->src_device, w->dst_device, w->wait, w->name ? w->name : "");
}

static void memory(const struct sd_memory_change *m) {
    dprintf(out,
            "memory operation=%d device=%d kind=%u correlation=%u stream=%u address=%" PRIu64
            " bytes=%" PRIu64 " pool=%" PRIu64 " async=%d\n",
            m->operation, m->device, m->kind, m->correlation, m->stream, m->address, m->bytes,
            m->pool, m->async);
}

static void pool(const struct sd_pool_change *p) {
    dprintf(out, "pool operation=%d device=%d correlation=%u pool=%" PRIu64 " keep=%" PRIu64 "\n",
            p->operation, p->device, p->correlation, p->pool, p->keep);
}

static void context(int device, bool made) {
    dprintf(out, "context device=%d made=%d\n", device, made);
}

static const struct sd_tap tap = {enter, leave, work, memory, pool, context};

int InitializeInjection(void);
__attribute__((visibility("default"))) int InitializeInjection(void) {
    const char *path = getenv("STANDIN_TAP_OUT");
    out = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (out < 0)
        return 0;
    dprintf(out, "injected pid=%d\n", (int)getpid());
    atomic_store(&sd_tap, &tap);
    return 1;
}
