/*
 * merge.c - k-way merge of the threads' chunks. See merge.h. One thread; not async-signal-safe.
 *
 * A stream is one thread's chunks in order of their sequence number. Its current chunk is copied
 * to a buffer of our own before its records are checked. The heap holds the streams whose head is
 * a record with a moment (a call, a clock's reading) that may be taken; `fresh` streams have not
 * been looked at yet.
 */
#include "merge.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "record_check.h"

struct stream {
    const struct ls_chunk_view *chunk; /* into merge->view, sorted by sequence */
    uint32_t count;
    uint32_t current;
    bool loaded; /* buffer holds chunk[current] from `base` on */
    uint8_t *buffer;
    uint64_t base; /* chunk offset of buffer[0] */
    uint64_t key;  /* moment of the head, where it is in the heap */
};

struct ls_merge {
    struct ls_spool *spool;
    struct ls_progress *progress;
    uint64_t limit;
    struct ls_chunk_view *view;
    struct stream *stream;
    uint32_t streams;
    uint32_t fresh; /* streams below this were settled once */
    struct stream **heap;
    uint32_t heap_count;
    struct stream *running; /* gave the last record: its next one is to be looked at */
    uint64_t damage;
    bool checksum_failed;
};

static int compare_views(const void *a, const void *b) {
    const struct ls_chunk_view *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return x->slot < y->slot ? -1 : 1;
}

static void move_on(struct ls_merge *merge, const struct ls_chunk_view *view, uint64_t offset) {
    struct ls_progress *progress = &merge->progress[view->slot];
    progress->generation = view->generation;
    progress->offset = (uint32_t)offset;
    progress->dirty = true;
    if (view->sealed && offset >= view->claimed)
        progress->hand_back = true;
}

/* Count what can never be read, once. */
static void write_off(struct ls_merge *merge, const struct ls_chunk_view *view, uint64_t from) {
    merge->damage += view->claimed - from;
    move_on(merge, view, view->claimed);
}

static uint32_t snapshot(struct ls_merge *merge, uint32_t slots) {
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        struct ls_chunk_view *view = &merge->view[count];
        enum ls_view state = ls_spool_view(merge->spool, slot, view);
        if (state == LS_VIEW_NONE)
            continue;
        struct ls_progress *progress = &merge->progress[slot];
        if (progress->generation != view->generation || progress->offset == 0) {
            progress->generation = view->generation;
            progress->offset = state == LS_VIEW_GOOD ? sizeof(struct ls_chunk) : 0;
        }
        if (progress->offset >= view->claimed) {
            /* Ingested earlier, maybe by a collector that was killed before it handed it back. */
            if (view->sealed)
                progress->hand_back = true;
        } else if (state == LS_VIEW_DAMAGED) {
            write_off(merge, view, progress->offset);
        } else {
            count++;
        }
    }
    return count;
}

static void split_streams(struct ls_merge *merge, uint32_t count) {
    qsort(merge->view, count, sizeof merge->view[0], compare_views);
    for (uint32_t i = 0; i < count;) {
        struct stream *stream = &merge->stream[merge->streams++];
        stream->chunk = &merge->view[i];
        while (i < count && merge->view[i].thread == stream->chunk->thread) {
            stream->count++;
            i++;
        }
    }
}

struct ls_merge *ls_merge_begin(struct ls_spool *spool, struct ls_progress *progress,
                                uint64_t limit) {
    struct ls_merge *merge = calloc(1, sizeof *merge);
    if (!merge)
        return NULL;
    uint32_t slots = ls_spool_refresh(spool);
    merge->spool = spool;
    merge->progress = progress;
    merge->limit = limit;
    merge->view = calloc(slots + 1, sizeof merge->view[0]);
    merge->stream = calloc(slots + 1, sizeof merge->stream[0]);
    merge->heap = calloc(slots + 1, sizeof merge->heap[0]);
    if (!merge->view || !merge->stream || !merge->heap) {
        ls_merge_end(merge);
        return NULL;
    }
    split_streams(merge, snapshot(merge, slots));
    return merge;
}

static void unload(struct stream *stream) {
    free(stream->buffer);
    stream->buffer = NULL;
    stream->loaded = false;
}

/* Copy the current chunk's new part; all of a sealed one, for its checksum. */
static bool load(struct ls_merge *merge, struct stream *stream) {
    const struct ls_chunk_view *view = &stream->chunk[stream->current];
    bool verify = view->sealed && view->committed == view->claimed;
    stream->base = verify ? sizeof(struct ls_chunk) : merge->progress[view->slot].offset;
    if (stream->base > view->committed)
        stream->base = view->committed;
    size_t size = view->committed - stream->base;
    stream->buffer = malloc(size + 1);
    if (!stream->buffer)
        return false;
    ls_spool_copy(merge->spool, view->slot, stream->base, view->committed, stream->buffer);
    if (verify && XXH3_64bits(stream->buffer, size) != view->checksum)
        merge->checksum_failed = true;
    stream->loaded = true;
    return true;
}

/*
 * The stream's head, checked, or NULL. A later chunk is entered only when the one before was read
 * to its sealed end: an unsealed one may have grown since the snapshot.
 */
static const struct ls_record *head(struct ls_merge *merge, struct stream *stream) {
    while (stream->current < stream->count) {
        const struct ls_chunk_view *view = &stream->chunk[stream->current];
        uint64_t at = merge->progress[view->slot].offset;
        if (at < view->committed) {
            if (!stream->loaded && !load(merge, stream))
                return NULL;
            const uint8_t *data = stream->buffer + (at - stream->base);
            uint32_t size = ls_record_check(data, view->committed - at);
            if (size == 0) {
                write_off(merge, view, at);
                continue;
            }
            if (((const struct ls_record *)data)->type != LS_REC_PAD)
                return (const struct ls_record *)data;
            move_on(merge, view, at + size);
            continue;
        }
        if (at < view->claimed)
            write_off(merge, view, at);
        if (!view->sealed && merge->limit != UINT64_MAX)
            break;
        unload(stream);
        stream->current++;
    }
    unload(stream);
    stream->current = stream->count;
    return NULL;
}

static bool before(const struct stream *a, const struct stream *b) {
    if (a->key != b->key)
        return a->key < b->key;
    return a->chunk->thread < b->chunk->thread;
}

static void heap_push(struct ls_merge *merge, struct stream *stream) {
    uint32_t i = merge->heap_count++;
    for (; i > 0 && before(stream, merge->heap[(i - 1) / 2]); i = (i - 1) / 2)
        merge->heap[i] = merge->heap[(i - 1) / 2];
    merge->heap[i] = stream;
}

static struct stream *heap_pop(struct ls_merge *merge) {
    struct stream *top = merge->heap[0];
    struct stream *last = merge->heap[--merge->heap_count];
    uint32_t i = 0;
    for (uint32_t child = 1; child < merge->heap_count; child = 2 * i + 1) {
        if (child + 1 < merge->heap_count && before(merge->heap[child + 1], merge->heap[child]))
            child++;
        if (!before(merge->heap[child], last))
            break;
        merge->heap[i] = merge->heap[child];
        i = child;
    }
    merge->heap[i] = last;
    return top;
}

static const struct ls_record *take(struct ls_merge *merge, struct stream *stream,
                                    const struct ls_record *record, uint32_t *thread) {
    const struct ls_chunk_view *view = &stream->chunk[stream->current];
    move_on(merge, view, merge->progress[view->slot].offset + record->size);
    *thread = view->thread;
    merge->running = stream;
    return record;
}

/* When a record was made, which is its place among those of other threads; false: it says nothing
 * of that. What follows a reading of CUPTI's clock in its thread, work of the GPU, was brought
 * about by calls that had completed by then. */
static bool moment(const struct ls_record *record, uint64_t *ticks) {
    const struct ls_rec_call *call = (const struct ls_rec_call *)record;
    switch (record->type) {
    case LS_REC_CALL:
        *ticks = call->start + call->duration;
        return true;
    case LS_REC_GPU_CLOCK:
        *ticks = ((const struct ls_rec_gpu_clock *)record)->ticks;
        return true;
    case LS_REC_GPU_STATE:
        *ticks = ((const struct ls_rec_gpu_state *)record)->ticks;
        return true;
    default:
        return false;
    }
}

/* Look at a stream's head: hand it out at once, queue it by its moment, or let it wait. */
static const struct ls_record *settle(struct ls_merge *merge, struct stream *stream,
                                      uint32_t *thread) {
    const struct ls_record *record = head(merge, stream);
    if (!record)
        return NULL;
    if (!moment(record, &stream->key))
        return take(merge, stream, record, thread);
    if (stream->key <= merge->limit)
        heap_push(merge, stream);
    else
        unload(stream);
    return NULL;
}

const struct ls_record *ls_merge_next(struct ls_merge *merge, uint32_t *thread) {
    const struct ls_record *record;
    if (merge->running) {
        struct stream *stream = merge->running;
        merge->running = NULL;
        if ((record = settle(merge, stream, thread)))
            return record;
    }
    while (merge->fresh < merge->streams)
        if ((record = settle(merge, &merge->stream[merge->fresh++], thread)))
            return record;
    if (merge->heap_count == 0)
        return NULL;
    struct stream *stream = heap_pop(merge);
    return take(merge, stream, head(merge, stream), thread);
}

uint64_t ls_merge_damage(struct ls_merge *merge) {
    uint64_t damage = merge->damage;
    merge->damage = 0;
    return damage;
}

bool ls_merge_checksum_failed(const struct ls_merge *merge) {
    return merge->checksum_failed;
}

void ls_merge_end(struct ls_merge *merge) {
    for (uint32_t i = 0; i < merge->streams; i++)
        unload(&merge->stream[i]);
    free(merge->view);
    free(merge->stream);
    free(merge->heap);
    free(merge);
}
