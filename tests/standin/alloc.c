/*
 * alloc.c - allocations and frees. See alloc.h.
 *
 * Whatever takes memory away (cudaFree, cudaFreeHost, cudaHostUnregister) first waits for the
 * devices, as on hardware: no work ever meets memory that is gone.
 */
#include "alloc.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "capture.h"
#include "device.h"
#include "graph_memory.h"
#include "handles.h"
#include "memory.h"
#include "stream.h"
#include "tap_call.h"
#include "tell.h"

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
    if (m)
        sd_tell_memory(SD_CAME, m, NULL);
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
        if (m)
            sd_tell_memory(SD_CAME, m, stream);
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
    sd_tell_memory(SD_WENT, m, NULL);
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
    sd_tell_memory(SD_WENT, m, stream);
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
    sd_tell_memory(SD_WENT, m, NULL);
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

/* ---- pools ---------------------------------------------------------------------------------- */

/* A device's context, with the lock held on status 0. */
static int begin_on(int ordinal, struct device **device) {
    sd_tap_make_context(ordinal);
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(ordinal, device);
    return status ? sd_end_with(status) : SD_OK;
}

int sd_mem_pool_make(int ordinal, void **out) {
    struct device *device;
    int status = begin_on(ordinal, &device);
    if (status)
        return status;
    struct pool *pool = sd_pool_new(device);
    sd_tell_pool(SD_POOL_MADE, pool, 0);
    *out = pool;
    return sd_end_with(SD_OK);
}

/* The pool behind a handle, with the lock held on status 0. */
static int begin_pool(const void *handle, struct pool **out) {
    int status = sd_begin();
    if (status)
        return status;
    *out = sd_handle(handle, HANDLE_POOL);
    return *out ? SD_OK : sd_end_with(SD_INVALID_VALUE);
}

int sd_mem_pool_destroy(const void *handle) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    if (status)
        return status;
    if (pool != pool->device->default_pool)
        sd_tell_pool(SD_POOL_DESTROYED, pool, 0);
    return sd_end_with(sd_pool_delete(pool));
}

int sd_mem_pool_trim(const void *handle, uint64_t keep) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    if (status)
        return status;
    sd_pool_trim(pool, keep);
    sd_tell_pool(SD_POOL_TRIMMED, pool, keep);
    return sd_end_with(SD_OK);
}

/* cudaMemPoolAttr: 1 to 3 are ints that switch reuse, 4 to 8 are 64-bit sizes. */
static uint64_t *size_attribute(struct pool *pool, int number) {
    switch (number) {
    case 4:
        return &pool->threshold;
    case 5:
        return &pool->reserved;
    case 6:
        return &pool->reserved_high;
    case 7:
        return &pool->used;
    case 8:
        return &pool->used_high;
    default:
        return NULL;
    }
}

int sd_mem_pool_set(const void *handle, int number, const void *value) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    if (status)
        return status;
    uint64_t *size = size_attribute(pool, number), wanted;
    if (!value || (!size && (number < 1 || number > 3)) || number == 5 || number == 7)
        return sd_end_with(SD_INVALID_VALUE);
    if (!size) {
        memcpy(&pool->reuse[number - 1], value, sizeof(int));
        return sd_end_with(SD_OK);
    }
    memcpy(&wanted, value, sizeof wanted);
    if (number == 4)
        *size = wanted;
    else if (wanted == 0) /* a high-water mark can only be reset */
        *size = number == 6 ? pool->reserved : pool->used;
    else
        return sd_end_with(SD_INVALID_VALUE);
    return sd_end_with(SD_OK);
}

int sd_mem_pool_get(const void *handle, int number, void *value) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    if (status)
        return status;
    const uint64_t *size = size_attribute(pool, number);
    if (!value || (!size && (number < 1 || number > 3)))
        return sd_end_with(SD_INVALID_VALUE);
    if (size)
        memcpy(value, size, sizeof *size);
    else
        memcpy(value, &pool->reuse[number - 1], sizeof(int));
    return sd_end_with(SD_OK);
}

int sd_mem_pool_of(int ordinal, bool current, void **out) {
    struct device *device;
    int status = begin_on(ordinal, &device);
    if (status)
        return status;
    *out = current ? device->current_pool : device->default_pool;
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
