/*
 * pool.c - memory pools. See pool.h.
 */
#include "pool.h"

#include <stdlib.h>

#include "handles.h"

struct pool_block {
    struct pool_block *next;
    uint64_t offset, span; /* in the device's arena */
    struct stream *stream; /* that freed it; compared, never followed */
    uint64_t stream_id;
    struct marker *freed; /* done once the free's place in the stream is reached; NULL: now */
};

struct pool *sd_pool_new(struct device *device) {
    struct pool *p = sd_handle_new(HANDLE_POOL, sizeof *p);
    if (!p)
        abort();
    p->device = device;
    for (int i = 0; i < 3; i++)
        p->reuse[i] = 1;
    return p;
}

static void release_block(struct pool *pool, struct pool_block **link) {
    struct pool_block *b = *link;
    *link = b->next;
    pool->reserved -= b->span;
    sd_arena_free(&pool->device->arena, b->offset, b->span);
    if (b->freed)
        sd_marker_drop(b->freed);
    free(b);
}

static bool settled(const struct pool_block *b) {
    return !b->freed || b->freed->done;
}

void sd_pool_trim(struct pool *pool, uint64_t keep) {
    for (struct pool_block **link = &pool->kept; *link && pool->reserved > keep;)
        if (settled(*link))
            release_block(pool, link);
        else
            link = &(*link)->next;
}

int sd_pool_delete(struct pool *pool) {
    if (pool == pool->device->default_pool)
        return SD_INVALID_VALUE;
    if (pool->device->current_pool == pool)
        pool->device->current_pool = pool->device->default_pool;
    sd_pool_trim(pool, 0);
    sd_handle_retire(pool);
    pool->deleted = true;
    if (pool->used == 0 && !pool->kept)
        sd_handle_free(pool);
    return SD_OK;
}

/* The block that fits best without wasting more than half. */
static struct pool_block **find_kept(struct pool *pool, const struct stream *stream,
                                     uint64_t size) {
    struct pool_block **best = NULL;
    for (struct pool_block **link = &pool->kept; *link; link = &(*link)->next) {
        struct pool_block *b = *link;
        bool ours = b->stream == stream && b->stream_id == stream->id;
        if (b->span < size || b->span / 2 > size || !(ours || settled(b)))
            continue;
        if (!best || b->span < (*best)->span)
            best = link;
    }
    return best;
}

static void grow(uint64_t *value, uint64_t *high, uint64_t by) {
    *value += by;
    if (*value > *high)
        *high = *value;
}

static struct memory *take(struct pool *pool, const struct stream *stream, uint64_t size) {
    struct arena *arena = &pool->device->arena;
    uint64_t offset, span = (size + ARENA_UNIT - 1) & ~(ARENA_UNIT - 1);
    struct pool_block **link = find_kept(pool, stream, span);
    if (link) {
        struct pool_block *b = *link;
        *link = b->next;
        offset = b->offset;
        span = b->span;
        if (b->freed)
            sd_marker_drop(b->freed);
        free(b);
    } else {
        offset = sd_arena_alloc(arena, span);
        if (offset == UINT64_MAX)
            return NULL;
        grow(&pool->reserved, &pool->reserved_high, span);
    }
    grow(&pool->used, &pool->used_high, span);
    struct memory *m = sd_memory_note(pool->device, arena->base + offset, size, STANDIN_ASYNC,
                                      arena->view + offset);
    if (m) {
        m->span = span;
        m->pool = pool;
    }
    return m;
}

static void trim_all(void *object, void *data) {
    struct pool *p = object;
    if (p->device == data)
        sd_pool_trim(p, 0);
}

struct memory *sd_pool_alloc(struct pool *pool, struct stream *stream, uint64_t size) {
    if (size > pool->device->arena.capacity)
        return NULL;
    struct memory *m = take(pool, stream, size);
    if (m)
        return m;
    /* Full: what the pools keep goes back, first what is free now, then what will be. */
    sd_handle_each(HANDLE_POOL, trim_all, pool->device);
    m = take(pool, stream, size);
    if (m)
        return m;
    sd_device_wait(pool->device);
    sd_handle_each(HANDLE_POOL, trim_all, pool->device);
    return take(pool, stream, size);
}

static struct pool_block *keep(struct memory *m) {
    struct pool *pool = m->pool;
    struct pool_block *b = calloc(1, sizeof *b);
    if (!b)
        abort();
    b->offset = m->node.key - (uintptr_t)pool->device->arena.base;
    b->span = m->span;
    b->next = pool->kept;
    pool->kept = b;
    pool->used -= m->span;
    sd_memory_forget(m);
    return b;
}

static void drop_if_last(struct pool *pool) {
    if (!pool->deleted || pool->used)
        return;
    sd_pool_trim(pool, 0);
    if (!pool->kept)
        sd_handle_free(pool);
}

void sd_pool_adopt(struct memory *m) {
    struct pool *pool = sd_device(m->device)->default_pool;
    m->pool = pool;
    m->span = (m->size + ARENA_UNIT - 1) & ~(ARENA_UNIT - 1);
    grow(&pool->used, &pool->used_high, m->span);
    grow(&pool->reserved, &pool->reserved_high, m->span);
}

void sd_pool_free(struct memory *m, struct stream *stream) {
    struct pool *pool = m->pool;
    struct pool_block *b = keep(m);
    b->stream = stream;
    b->stream_id = stream->id;
    if (!sd_stream_idle(stream)) {
        struct marker *mark = sd_marker_new();
        sd_marker_hold(mark);
        b->freed = mark;
        sd_stream_push(stream, (struct work){.kind = WORK_RECORD, .event.marker = mark});
    }
    drop_if_last(pool);
}

void sd_pool_free_now(struct memory *m) {
    struct pool *pool = m->pool;
    keep(m);
    sd_pool_trim(pool, pool->threshold > pool->used ? pool->threshold : pool->used);
    drop_if_last(pool);
}

static void settle(void *object, void *data) {
    struct pool *p = object;
    if (p->device == data)
        sd_pool_trim(p, p->threshold);
}

void sd_pools_settle(struct device *device) {
    sd_handle_each(HANDLE_POOL, settle, device);
}

static void reset(void *object, void *data) {
    struct pool *p = object;
    if (p->device != data)
        return;
    while (p->kept)
        release_block(p, &p->kept);
    sd_handle_delete(p);
}

void sd_pools_reset(struct device *device) {
    sd_handle_each(HANDLE_POOL, reset, device);
    device->default_pool = device->current_pool = NULL;
}
