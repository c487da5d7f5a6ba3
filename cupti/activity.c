/*
 * activity.c - see activity.h.
 *
 * Buffers lie in two mappings, large ones and small ones, and are known by their address. Free ones
 * are on stacks, large ones whose pages are there, large ones whose pages are not, and small ones,
 * all without a lock. A buffer is cleared by the thread that has read it, never by the one that
 * asks for it.
 *
 * Where there is none, CUPTI is given NULL. Versions before CUDA 12.9 may crash on that (Kineto's
 * sources say so), so these are given the scrap buffer, again and again: what several threads write
 * there at once is worth nothing, and is counted as far as it can be told apart.
 */
#include "activity.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "abi.h"
#include "describe.h"
#include "load.h"
#include "pages.h"
#include "spool.h"
#include "state.h"
#include "wrap.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define PAGE 4096u
#define READING_SIZE ((sizeof(struct ls_gpu_reading) + PAGE - 1) / PAGE * PAGE)
#define COUNT (LS_BUFFERS + LS_SMALL_BUFFERS)
#define TAKES_NONE 27             /* cuptiGetVersion() from which on NULL is taken */
#define FEW (LS_BUFFERS_WARM / 2) /* warm ones: another one is warmed up */

enum buffer_state { FREE, OUT, READING };

/* Indexes from 1, linked by `next`. The upper half of a head counts its changes: a buffer that was
 * taken and came back meanwhile is no longer the one that was seen. */
struct stack {
    _Atomic uint64_t head;
    _Atomic int32_t count; /* about */
};

/* Behind each buffer lies what reading it needs. */
struct region {
    uint8_t *base; /* NULL: not mapped */
    size_t size;   /* of each buffer */
    uint32_t first, count;
};

static struct region large = {.size = LS_BUFFER_SIZE, .first = 1, .count = LS_BUFFERS};
static struct region small = {
    .size = LS_SMALL_SIZE, .first = LS_BUFFERS + 1, .count = LS_SMALL_BUFFERS};
static uint8_t *scrap;   /* NULL: there is none, */
static bool gives_scrap; /* and this version needs none */
static struct stack warm, cold, used_small;
static _Atomic uint32_t new_small; /* small ones that were never given out: from here on */
static _Atomic uint32_t next[COUNT + 1];
static _Atomic int state[COUNT + 1]; /* enum buffer_state */
static _Atomic uint64_t refused;     /* requests, not told yet */
static _Atomic(ls_cupti_completed_fn) foreign;
static void *_Atomic subscriber;      /* see ls_activity_reads_as() */
static _Atomic int out;               /* buffers that are OUT */
static _Atomic uint64_t told_ignored; /* the session that was told of records that are not ours */

static const struct region *region_of(uint32_t index) {
    return index < small.first ? &large : &small;
}

static size_t stride_of(const struct region *region) {
    return region->size + READING_SIZE;
}

static uint8_t *buffer_of(uint32_t index) {
    const struct region *region = region_of(index);
    return region->base + (index - region->first) * stride_of(region);
}

/* 0: none of this region. */
static uint32_t index_in(const struct region *region, const uint8_t *buffer) {
    uintptr_t at = (uintptr_t)buffer - (uintptr_t)region->base;
    size_t stride = stride_of(region);
    bool ours = region->base && at < region->count * stride && at % stride == 0;
    return ours ? region->first + (uint32_t)(at / stride) : 0;
}

/* 0: not one of ours. */
static uint32_t index_of(const uint8_t *buffer) {
    uint32_t index = index_in(&large, buffer);
    return index ? index : index_in(&small, buffer);
}

/* ---- free buffers ---- */

static void push(struct stack *stack, uint32_t index) {
    uint64_t head = atomic_load(&stack->head);
    do
        atomic_store(&next[index], (uint32_t)head);
    while (!atomic_compare_exchange_weak(&stack->head, &head, ((head >> 32) + 1) << 32 | index));
    atomic_fetch_add(&stack->count, 1);
}

static uint32_t pop(struct stack *stack) {
    uint64_t head = atomic_load(&stack->head);
    uint32_t index;
    do {
        index = (uint32_t)head;
        if (!index)
            return 0;
    } while (!atomic_compare_exchange_weak(&stack->head, &head,
                                           ((head >> 32) + 1) << 32 | atomic_load(&next[index])));
    atomic_fetch_sub(&stack->count, 1);
    return index;
}

/* Its pages are there from here on. */
static void warm_up(uint8_t *buffer) {
    if (madvise(buffer, LS_BUFFER_SIZE, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t at = 0; at < LS_BUFFER_SIZE; at += PAGE)
        ((volatile uint8_t *)buffer)[at] = 0;
}

/* Free again: zeroed as far as CUPTI may have written, by giving the pages back where there are
 * enough warm ones. */
static void give_back(uint32_t index, size_t used) {
    const struct region *region = region_of(index);
    uint8_t *buffer = buffer_of(index);
    bool cools = (region == &small || atomic_load(&warm.count) >= LS_BUFFERS_WARM) &&
                 madvise(buffer, stride_of(region), MADV_DONTNEED) == 0;
    /* A record that was begun and is not valid yet may lie behind the others. */
    if (!cools)
        memset(buffer, 0, used + PAGE < region->size ? used + PAGE : region->size);
    atomic_store(&state[index], FREE);
    push(region == &small ? &used_small : cools ? &cold : &warm, index);
}

static uint32_t take_small(void) {
    uint32_t index = pop(&used_small);
    if (index || !small.base || atomic_load(&new_small) >= LS_SMALL_BUFFERS)
        return index;
    uint32_t n = atomic_fetch_add(&new_small, 1);
    return n < LS_SMALL_BUFFERS ? small.first + n : 0;
}

/* Few are left: have one ready before the next request. Not in a thread that is inside a call of
 * the program's. */
static void keep_warm(const struct ls_thread *self) {
    if (self->frame || atomic_load(&warm.count) >= FEW)
        return;
    uint32_t index = pop(&cold);
    if (!index)
        return;
    warm_up(buffer_of(index));
    push(&warm, index);
}

static bool takes_none(void) {
    uint32_t version = 0;
    return ls_cupti.cuptiGetVersion(&version) == LS_CUPTI_OK && version >= TAKES_NONE;
}

static bool make_buffers(void) {
    large.base = ls_map_pages(LS_BUFFERS * stride_of(&large));
    if (!large.base)
        return false;
    small.base = ls_map_pages(LS_SMALL_BUFFERS * stride_of(&small)); /* without them if need be */
    for (uint32_t index = LS_BUFFERS; index > 0; index--) {
        if (index <= LS_BUFFERS_WARM)
            warm_up(buffer_of(index));
        push(index <= LS_BUFFERS_WARM ? &warm : &cold, index);
    }
    return true;
}

bool ls_activity_prepare(void) {
    if (!large.base && !make_buffers())
        return false;
    gives_scrap = !takes_none();
    if (gives_scrap && !scrap)
        scrap = ls_map_pages(LS_SMALL_SIZE);
    return true;
}

void ls_activity_reclaim(void) {
    for (uint32_t index = 1; index <= COUNT; index++) {
        int expected = OUT;
        if (atomic_compare_exchange_strong(&state[index], &expected, READING)) {
            atomic_fetch_sub(&out, 1);
            give_back(index, region_of(index)->size);
        }
    }
}

void ls_activity_requested(uint8_t **buffer, size_t *size, size_t *records) {
    uint32_t index = pop(&warm);
    if (!index)
        index = pop(&cold);
    if (!index)
        index = take_small();
    *records = 0; /* as many as fit */
    if (index) {
        atomic_fetch_add(&out, 1);
        atomic_store(&state[index], OUT);
        *buffer = buffer_of(index);
        *size = region_of(index)->size;
    } else {
        *buffer = gives_scrap ? scrap : NULL;
        *size = *buffer ? LS_SMALL_SIZE : 0;
        atomic_fetch_add(&refused, *buffer == NULL);
    }
}

/* ---- full buffers ---- */

/* The next record after *record (NULL: the first), and whether there is one. What lies outside of
 * the buffer, or does not lead on, ends it as an error does. */
static int next_record(uint8_t *buffer, size_t valid, const uint8_t **record) {
    void *at = (void *)*record, *as = atomic_load(&subscriber);
    int result = as ? ls_cupti.cuptiActivityGetNextRecord_v2(as, buffer, valid, &at)
                    : ls_cupti.cuptiActivityGetNextRecord(buffer, valid, &at);
    const uint8_t *found = at;
    if (result != LS_CUPTI_OK)
        return result;
    if (found < (*record ? *record + 1 : buffer) || found >= buffer + valid)
        return -1;
    *record = found;
    return LS_CUPTI_OK;
}

/* Nobody knows how many more records there were. What CUPTI gave is said once in a session. */
static void lose_rest(struct ls_thread *self, int result) {
    static _Atomic uint64_t said;
    char text[100];
    uint64_t epoch = atomic_load(&ls_live->epoch);
    ls_spool_lost(self, LS_LOST_GPU_RECORDS, 1);
    if (atomic_exchange(&said, epoch) == epoch)
        return;
    snprintf(text, sizeof text,
             "cuptiActivityGetNextRecord gave %d: what followed in its buffer is missing", result);
    ls_describe_coverage(self, "cupti", "partial", text);
}

void ls_activity_read(struct ls_thread *self, struct ls_gpu_reading *reading, uint8_t *buffer,
                      size_t valid) {
    const uint8_t *record = NULL;
    int result = valid ? next_record(buffer, valid, &record) : LS_CUPTI_NO_MORE;
    while (result == LS_CUPTI_OK) {
        const uint8_t *at = record;
        result = next_record(buffer, valid, &record);
        const uint8_t *end = result == LS_CUPTI_OK ? record : buffer + valid;
        ls_gpu_record(self, reading, at, (size_t)(end - at));
    }
    if (result != LS_CUPTI_NO_MORE)
        lose_rest(self, result);
}

/* What CUPTI had no buffer for. Its own count is of records; where it has none, of requests. */
static void tell_dropped(struct ls_thread *self, void *context, uint32_t stream) {
    size_t dropped = 0;
    uint64_t requests = atomic_exchange(&refused, 0);
    if (!ls_cupti.cuptiActivityGetNumDroppedRecords ||
        ls_cupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) != LS_CUPTI_OK ||
        dropped == 0)
        dropped = requests;
    if (dropped)
        ls_spool_lost(self, LS_LOST_GPU_RECORDS, dropped);
}

/* Nobody here can write: the thread is inside layoutspy itself, or has no memory for its state. Or
 * it is the scrap buffer, of which nobody can read more than that. */
static void count_lost(uint8_t *buffer, size_t valid) {
    uint64_t epoch = atomic_load(&ls_live->epoch), lost = 0;
    const uint8_t *record = NULL;
    if (epoch == 0 || epoch == LS_EPOCH_OFF)
        return;
    while (valid && next_record(buffer, valid, &record) == LS_CUPTI_OK)
        lost++;
    lost = valid && !lost ? 1 : lost;
    atomic_fetch_add(&ls_session.header->lost[LS_LOST_GPU_RECORDS], lost);
}

/* Of kinds that are none of ours: somebody who cannot be seen (manners.h) has switched them on. */
static void tell_ignored(struct ls_thread *self) {
    uint64_t epoch = atomic_load(&ls_live->epoch);
    if (atomic_exchange(&told_ignored, epoch) != epoch)
        ls_describe_coverage(self, "cupti", "partial",
                             "another CUPTI client, which could not be seen, has switched on "
                             "records of its own: they came to layoutspy and are left out");
}

static void take(void *context, uint32_t stream, uint32_t index, size_t valid) {
    uint8_t *buffer = buffer_of(index);
    struct ls_thread *self = ls_enter_callback();
    if (!self) {
        count_lost(buffer, valid);
        give_back(index, valid);
        return;
    }
    struct ls_gpu_reading *reading = (void *)(buffer + region_of(index)->size);
    ls_busy(self);
    ls_gpu_clock_if_due(self);
    ls_activity_read(self, reading, buffer, valid);
    if (reading->ignored)
        tell_ignored(self);
    memset(reading, 0, sizeof *reading);
    tell_dropped(self, context, stream);
    give_back(index, valid);
    keep_warm(self);
    ls_not_busy(self);
}

void ls_activity_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                           size_t valid) {
    int saved = errno, expected = OUT;
    uint32_t index = index_of(buffer);
    ls_cupti_completed_fn owner = atomic_load(&foreign);
    if (buffer && buffer == scrap)
        count_lost(buffer, valid < LS_SMALL_SIZE ? valid : LS_SMALL_SIZE);
    else if (!index && owner && buffer)
        owner(context, stream, buffer, size, valid);
    else if (index && atomic_compare_exchange_strong(&state[index], &expected, READING)) {
        atomic_fetch_sub(&out, 1);
        size_t most = region_of(index)->size;
        take(context, stream, index, valid < most ? valid : most);
    }
    errno = saved;
}

void ls_activity_reads_as(void *of) {
    atomic_store(&subscriber, of);
}

int ls_activity_out(void) {
    return atomic_load(&out);
}

void ls_activity_foreign(void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t)) {
    atomic_store(&foreign, completed);
}
