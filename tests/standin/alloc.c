/*
 * alloc.c - allocations and frees. See alloc.h.
 *
 * Whatever takes memory away (cudaFree, cudaFreeHost, cudaHostUnregister) first waits for the
 * devices, as on hardware: no work ever meets memory that is gone.
 */
#include "alloc.h"

#include <errno.h>
#include <sys/mman.h>

#include "capture.h"
#include "device.h"
#include "graph_memory.h"
#include "handles.h"
#include "memory.h"
#include "stream.h"

const char *sd_memory_word(enum standin_kind kind) {
    static const char *const words[] = {"pageable", "pinned", "registered", "device", "async",
                                        "managed",  "array",  "vmm",        "ipc"};
    return words[kind];
}

const char *sd_freed_word(const struct freed *freed) {
    return freed->graph ? "graph" : sd_memory_word(freed->kind);
}

/* The context of the current device, unless a capture forbids the call. Lock held on 0. */
static int begin(struct device **device) {
    int status = sd_begin_context(device);
    if (status)
        return status;
    status = sd_capture_refuses();
    if (status)
        sd_end();
    return status;
}

static void wait_for_devices(void) {
    for (int i = 0; i < standin_device_count(); i++)
        if (sd_device(i)->context)
            sd_device_wait(sd_device(i));
}

static int give(struct memory *m, void **out) {
    *out = m ? sd_memory_address(m) : NULL;
    return sd_end_with(m ? SD_OK : SD_OUT_OF_MEMORY);
}

int sd_malloc(uint64_t size, void **out) {
    struct device *device;
    *out = NULL;
    int status = begin(&device);
    if (status || size == 0)
        return status ? status : sd_end_with(SD_OK);
    return give(sd_memory_device(device, size, STANDIN_DEVICE), out);
}

int sd_malloc_managed(uint64_t size, unsigned flags, void **out) {
    struct device *device;
    *out = NULL;
    int status = begin(&device);
    if (status)
        return status;
    if (size == 0 || (flags != 1 && flags != 2))
        return sd_end_with(SD_INVALID_VALUE);
    return give(sd_memory_host(device, size, STANDIN_MANAGED), out);
}

int sd_malloc_host(uint64_t size, unsigned flags, void **out) {
    struct device *device;
    *out = NULL;
    int status = begin(&device);
    if (status)
        return status;
    if (flags > 7)
        return sd_end_with(SD_INVALID_VALUE);
    if (size == 0)
        return sd_end_with(SD_OK);
    struct memory *m = sd_memory_host(device, size, STANDIN_PINNED);
    if (m)
        m->flags = flags;
    return give(m, out);
}

static int malloc_async(struct device *device, uint64_t size, const void *pool_handle,
                        const void *handle, bool per_thread, void **out, bool *in_graph) {
    struct stream *stream = sd_stream(device, handle, per_thread);
    struct pool *pool = pool_handle ? sd_handle(pool_handle, HANDLE_POOL) : NULL;
    if (!stream || (pool_handle && !pool))
        return stream ? SD_INVALID_VALUE : SD_INVALID_HANDLE;
    if (!pool)
        pool = stream->device->current_pool;
    if (size == 0)
        return SD_INVALID_VALUE;
    if (stream == device->legacy || !stream->capture) {
        struct memory *m = sd_pool_alloc(pool, stream, size);
        *out = m ? sd_memory_address(m) : NULL;
        return m ? SD_OK : SD_OUT_OF_MEMORY;
    }
    struct graph *graph = stream->capture->graph;
    struct graph_node *node;
    int status = sd_submit_node(stream, (struct work){.kind = WORK_EMPTY}, NODE_MEM_ALLOC, &node);
    if (status)
        return status;
    struct memory *m = sd_graph_memory_add(graph->memory, pool->device, size);
    if (!m)
        return SD_OUT_OF_MEMORY;
    node->memory = m->node.key;
    *out = sd_memory_address(m);
    *in_graph = true;
    return SD_OK;
}

int sd_malloc_async(uint64_t size, const void *pool, const void *stream, bool per_thread,
                    void **out, bool *in_graph) {
    struct device *device;
    *out = NULL;
    *in_graph = false;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    return sd_end_with(malloc_async(device, size, pool, stream, per_thread, out, in_graph));
}

static void tell(const struct memory *m, struct freed *out) {
    *out = (struct freed){true, m->kind, m->size, m->graph != NULL};
}

int sd_free(void *address, struct freed *out) {
    struct device *device;
    int status = begin(&device);
    if (status || !address)
        return status ? status : sd_end_with(SD_OK);
    struct memory *m = sd_memory_exact(address);
    if (!m || (m->internal && !m->graph) ||
        (m->kind != STANDIN_DEVICE && m->kind != STANDIN_ASYNC && m->kind != STANDIN_MANAGED))
        return sd_end_with(SD_INVALID_VALUE);
    wait_for_devices();
    /* Another thread may have freed it while this one waited. */
    m = sd_memory_exact(address);
    if (!m)
        return sd_end_with(SD_INVALID_VALUE);
    tell(m, out);
    if (m->graph && sd_graph_memory_free(m)) {
        *out = (struct freed){0};
        return sd_end_with(SD_INVALID_VALUE);
    }
    if (m->graph)
        return sd_end_with(SD_OK);
    if (m->kind == STANDIN_ASYNC)
        sd_pool_free_now(m);
    else
        sd_memory_release(m);
    return sd_end_with(SD_OK);
}

static int free_async(struct device *device, void *address, const void *handle, bool per_thread,
                      struct freed *out) {
    struct stream *stream = sd_stream(device, handle, per_thread);
    if (!stream)
        return SD_INVALID_HANDLE;
    if (!address)
        return SD_OK;
    struct memory *m = sd_memory_exact(address);
    if (!m || (m->kind != STANDIN_ASYNC && (m->kind != STANDIN_DEVICE || m->internal)))
        return SD_INVALID_VALUE;
    if (stream->capture) {
        struct graph_node *node;
        /* Only what a graph allocated. */
        int status = sd_graph_memory_release(stream->capture->graph->memory, m);
        if (status)
            return status;
        tell(m, out);
        status = sd_submit_node(stream, (struct work){.kind = WORK_EMPTY}, NODE_MEM_FREE, &node);
        if (!status)
            node->memory = m->node.key;
        return status;
    }
    struct freed freed;
    tell(m, &freed);
    if (m->graph) {
        int status = sd_graph_memory_free(m);
        if (!status)
            *out = freed;
        return status;
    }
    *out = freed;
    if (m->kind == STANDIN_DEVICE)
        sd_pool_adopt(m);
    sd_pool_free(m, stream);
    return SD_OK;
}

int sd_free_async(void *address, const void *stream, bool per_thread, struct freed *out) {
    struct device *device;
    int status = sd_begin_context(&device);
    return status ? status : sd_end_with(free_async(device, address, stream, per_thread, out));
}

int sd_free_host(void *address, struct freed *out) {
    struct device *device;
    int status = begin(&device);
    if (status || !address)
        return status ? status : sd_end_with(SD_OK);
    wait_for_devices();
    struct memory *m = sd_memory_exact(address);
    if (!m || m->kind != STANDIN_PINNED)
        return sd_end_with(SD_INVALID_VALUE);
    tell(m, out);
    sd_memory_release(m);
    return sd_end_with(SD_OK);
}

/* Memory that is not mapped cannot be locked. */
static bool mapped(const void *address, uint64_t size) {
    uintptr_t start = (uintptr_t)address & ~(uintptr_t)4095;
    return msync((void *)start, (uintptr_t)address + size - start, MS_ASYNC) == 0 ||
           errno != ENOMEM;
}

int sd_register(void *address, uint64_t size, unsigned flags) {
    struct device *device;
    int status = begin(&device);
    if (status)
        return status;
    struct span span;
    if (!address || !size || flags > 15 || (uintptr_t)address + size < size)
        status = SD_INVALID_VALUE;
    else if (sd_memory_overlaps(address, size)) {
        struct memory *m = sd_memory_find(address);
        status = m && m->kind != STANDIN_PINNED && m->kind != STANDIN_REGISTERED
                     ? SD_INVALID_VALUE
                     : SD_ALREADY_REGISTERED;
    } else if (!sd_memory_span(address, size, &span) || !mapped(address, size)) {
        status = SD_INVALID_VALUE;
    } else {
        struct memory *m = sd_memory_note(device, address, size, STANDIN_REGISTERED, address);
        m->flags = flags;
    }
    return sd_end_with(status);
}

int sd_unregister(void *address, struct freed *out) {
    struct device *device;
    int status = begin(&device);
    if (status)
        return status;
    if (!address)
        return sd_end_with(SD_INVALID_VALUE);
    wait_for_devices();
    struct memory *m = sd_memory_exact(address);
    if (!m || m->kind != STANDIN_REGISTERED)
        return sd_end_with(SD_NOT_REGISTERED);
    tell(m, out);
    sd_memory_release(m);
    return sd_end_with(SD_OK);
}

int sd_mem_info(uint64_t *available, uint64_t *total) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    *total = device->arena.capacity;
    *available = device->arena.capacity - device->arena.used;
    return sd_end_with(SD_OK);
}
