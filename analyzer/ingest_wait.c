/*
 * ingest_wait.c - blocks that were given back while work of other streams still used them. See
 * ingest_block.h.
 *
 * PyTorch's allocator, when a block that other streams used is given back, records an event on each
 * of them (cudaEventRecord out of libc10_cuda), and then reports the block. The block is free once
 * cudaEventQuery or cudaEventSynchronize has succeeded for all of them. While a stream captures it
 * only notes the block: the events are recorded by the next call that may, mostly a malloc before
 * its report. Which block they are for is told by number and order alone. Where none are recorded
 * (the other streams used it in the capture alone) nothing shows that it was not free at once.
 *
 * The program's own events may come out of libc10_cuda too (torch.Event). Only those count that
 * were recorded in the same call into it as the report: the stacks of both go through one return
 * address outside of it. Without stacks nobody can tell.
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "ingest_internal.h"

#define THREADS_MAX (1u << 20) /* a higher number is damage */

struct ls_track *ls_wait_of_thread(struct ls_ingest *ingest, uint32_t thread) {
    struct ls_blocks *blocks = &ingest->blocks;
    if (thread >= blocks->tracks) {
        if (thread > THREADS_MAX)
            return NULL;
        uint32_t tracks = 2 * thread + 16;
        struct ls_track *more = realloc(blocks->track, tracks * sizeof *more);
        if (!more)
            return NULL;
        memset(more + blocks->tracks, 0, (tracks - blocks->tracks) * sizeof *more);
        blocks->track = more;
        blocks->tracks = tracks;
    }
    return &blocks->track[thread];
}

static void forget(struct ls_track *track) {
    track->busy = track->asked = track->crowded = false;
    track->count = 0;
}

/* A call without a stack: whether it belongs to the events of `track` is told by the next one. */
static bool told_later(struct ls_track *track, const struct ls_rec_call *record) {
    if (record->stack || track->count == 0 || track->entry == 0)
        return false;
    track->asked = true;
    return true;
}

/* ---- events ---- */

static void put_done(struct ls_ingest *ingest, struct ls_wait *wait, int64_t done_ns) {
    ls_db_put(&ingest->db, LS_PUT_BLOCK_WAIT_DONE, "ii", done_ns, wait->id);
    HASH_DEL(ingest->blocks.waits, wait);
    free(wait);
}

static void passed(struct ls_ingest *ingest, struct ls_wait *wait, int64_t done_ns) {
    struct ls_block *block = wait->block;
    put_done(ingest, wait, done_ns);
    if (--block->waiting == 0)
        ls_block_freed(ingest, block, done_ns);
}

static struct ls_wait *find(struct ls_ingest *ingest, uint64_t event) {
    struct ls_wait *wait;
    HASH_FIND(hh, ingest->blocks.waits, &event, sizeof event, wait);
    return wait;
}

static struct ls_track *busy_track(struct ls_ingest *ingest, uint32_t thread) {
    struct ls_blocks *blocks = &ingest->blocks;
    return thread < blocks->tracks && blocks->track[thread].busy ? &blocks->track[thread] : NULL;
}

/* The allocator has no flags for its events. */
static bool may_be_the_allocators(struct ls_ingest *ingest, const struct ls_rec_call *record) {
    bool plain = record->head.api == LS_API_cudaEventRecord ||
                 record->head.api == LS_API_cudaEventRecord_ptsz;
    return plain && record->status == 0 && !(record->head.flags & LS_CALL_CAPTURING) &&
           ls_caller_of(ingest, record->stack) != LS_HOLDER_CALLER;
}

/* Recorded once more: the newer one is the event now. */
static void forget_event(struct ls_track *track, uint64_t event) {
    for (int i = 0; i < track->count; i++) {
        if (track->event[i].event != event)
            continue;
        track->count--;
        memmove(&track->event[i], &track->event[i + 1],
                (size_t)(track->count - i) * sizeof track->event[0]);
        return;
    }
}

static void track_recorded(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    if (!may_be_the_allocators(ingest, record))
        return;
    struct ls_track *track = ls_wait_of_thread(ingest, call->thread);
    if (!track)
        return;
    uint64_t entry = ls_caller_entry(ingest, record->stack);
    uint64_t event = ls_role(record, roles->event, 0);
    if (track->count && track->entry != entry)
        forget(track);
    forget_event(track, event);
    track->entry = entry;
    track->busy = true;
    track->asked = false;
    if (track->count == LS_TRACK_EVENTS) {
        track->crowded = true;
        return;
    }
    track->event[track->count].event = event;
    track->event[track->count].stream = ls_role(record, roles->stream, 0);
    track->event[track->count].id = call->id;
    track->event[track->count].done_ns = 0;
    track->event[track->count++].device = record->head.device;
}

static void track_asked(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    uint64_t event = ls_role(record, ls_roles[record->head.api].event, 0);
    struct ls_track *track = busy_track(ingest, call->thread);
    if (track)
        ls_wait_deferred(ingest, track, call);
    if (record->status != 0)
        return;
    struct ls_wait *wait = ingest->blocks.waits ? find(ingest, event) : NULL;
    if (wait)
        passed(ingest, wait, call->end_ns);
    for (int i = 0; track && i < track->count; i++)
        if (track->event[i].event == event)
            track->event[i].done_ns = call->end_ns;
}

void ls_wait_track(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    struct ls_track *track = busy_track(ingest, call->thread);
    switch (ls_api_info[record->head.api].cls) {
    case LS_CLASS_EVENT:
        if (ls_roles[record->head.api].stream >= 0)
            track_recorded(ingest, call);
        return;
    case LS_CLASS_SYNC:
        if (ls_roles[record->head.api].event >= 0) {
            track_asked(ingest, call);
            return;
        }
        break;
    case LS_CLASS_DEVICE:
    case LS_CLASS_BLOCK: /* these see to it themselves */
        return;
    default:
        break;
    }
    if (track)
        ls_wait_deferred(ingest, track, call);
}

/* ---- blocks ---- */

static void add_wait(struct ls_ingest *ingest, struct ls_block *block, const struct ls_track *track,
                     int i) {
    uint64_t event = track->event[i].event;
    int64_t done_ns = track->event[i].done_ns;
    struct ls_wait *wait = find(ingest, event);
    if (wait && wait->block == block) { /* of damage: recorded for it once more */
        put_done(ingest, wait, block->end_ns);
        block->waiting--;
    } else if (wait) { /* that it has passed was not seen */
        passed(ingest, wait, block->end_ns);
    }
    ls_db_put(&ingest->db, LS_PUT_BLOCK_WAIT, done_ns ? "iiuui" : "iiuun", track->event[i].id,
              block->id, event, track->event[i].stream, done_ns);
    block->waited++;
    if (done_ns)
        return;
    wait = calloc(1, sizeof *wait);
    if (!wait) {
        ingest->out_of_memory = true;
        return;
    }
    wait->event = event;
    wait->block = block;
    wait->id = track->event[i].id;
    HASH_ADD(hh, ingest->blocks.waits, event, sizeof wait->event, wait);
    block->waiting++;
}

static void wait_for(struct ls_ingest *ingest, struct ls_block *block, const struct ls_track *track,
                     int from, int to) {
    int64_t last = block->end_ns;
    block->waited = 0;
    for (int i = from; i < to; i++) {
        add_wait(ingest, block, track, i);
        if (track->event[i].done_ns > last)
            last = track->event[i].done_ns;
    }
    if (block->waiting == 0)
        ls_block_freed(ingest, block, last);
    else
        ls_block_changed(ingest, block);
}

/* It was free at once, as far as anybody can tell. */
static void freed_at_once(struct ls_ingest *ingest, struct ls_block *block, int32_t waited) {
    block->waited = waited;
    ls_block_freed(ingest, block, block->end_ns);
}

/* Whether the thread's events and `call`, the next one after them, are of one call into the
 * allocator. */
static bool same_entry(struct ls_ingest *ingest, const struct ls_track *track,
                       const struct ls_timed_call *call) {
    return track->entry && track->entry == ls_caller_entry(ingest, call->record->stack);
}

void ls_wait_begin(struct ls_ingest *ingest, struct ls_block *block,
                   const struct ls_timed_call *call) {
    struct ls_track *track = ls_wait_of_thread(ingest, call->thread);
    struct ls_audit *audit = ls_audit_of(ingest, block->device);
    bool capturing = call->record->head.flags & LS_CALL_CAPTURING;
    if (track && track->count && !track->asked && !capturing) {
        bool same = same_entry(ingest, track, call);
        bool known = track->entry && ls_caller_entry(ingest, call->record->stack);
        if (same && !track->crowded)
            wait_for(ingest, block, track, 0, track->count);
        else
            freed_at_once(ingest, block, same || !known ? LS_WAITED_UNKNOWN : 0);
        forget(track);
        return;
    }
    if (track)
        ls_wait_deferred(ingest, track, call);
    if (capturing && audit) {
        ls_wait_undecided(ingest, audit, block);
        ls_block_changed(ingest, block);
    } else {
        freed_at_once(ingest, block, 0);
    }
}

/* ---- blocks that are undecided ---- */

/* By address: a capture hands out and takes back as many as any other work. */
struct ls_undecided {
    struct ls_life life; /* first: the tree's pointers are to both */
    struct ls_block *block;
};

static struct ls_block *take_block(struct ls_life *life) {
    struct ls_block *block = ((struct ls_undecided *)life)->block;
    free(life);
    return block;
}

void ls_wait_undecided(struct ls_ingest *ingest, struct ls_audit *audit, struct ls_block *block) {
    struct ls_undecided *undecided = calloc(1, sizeof *undecided);
    block->waited = LS_WAITED_UNDECIDED;
    if (undecided) {
        undecided->life.address = block->address;
        undecided->life.size = block->size;
        undecided->block = block;
    }
    if (!undecided || !ls_live_add(&audit->undecided, &undecided->life)) {
        free(undecided);
        ingest->out_of_memory = true;
    }
}

void ls_wait_reused(struct ls_ingest *ingest, struct ls_audit *audit, uint64_t address,
                    uint64_t size) {
    while (audit->undecided.count > 0) {
        struct ls_life *life = ls_live_find(&audit->undecided, address);
        if (!life)
            life = ls_live_next(&audit->undecided, address);
        if (!life || life->address >= address + size)
            return;
        life = ls_live_end(&audit->undecided, life->address, INT64_MAX, false);
        freed_at_once(ingest, take_block(life), 0);
    }
}

struct decision {
    struct ls_ingest *ingest;
    int64_t now_ns;
};

static bool decide(struct ls_life *life, void *context) {
    const struct decision *decision = context;
    struct ls_block *block = take_block(life);
    block->waited = LS_WAITED_UNKNOWN;
    ls_block_freed(decision->ingest, block, decision->now_ns);
    return true;
}

void ls_wait_decide(struct ls_ingest *ingest, uint8_t device, int64_t now_ns) {
    struct ls_audit *audit = ls_audit_of(ingest, device);
    struct decision decision = {ingest, now_ns};
    if (audit && audit->undecided.count > 0)
        ls_live_sweep(&audit->undecided, decide, &decision);
}

struct listing {
    struct ls_block *block[LS_TRACK_EVENTS]; /* in the order in which they were given back */
    int count;
};

static bool list_one(struct ls_life *life, void *context) {
    struct listing *listing = context;
    struct ls_block *block = take_block(life);
    int at = listing->count++;
    for (; at > 0 && listing->block[at - 1]->end_call > block->end_call; at--)
        listing->block[at] = listing->block[at - 1];
    listing->block[at] = block;
    return true;
}

/* All the undecided ones of a device wait for the track's events, an equal share each. */
static void share_out(struct ls_ingest *ingest, struct ls_audit *audit,
                      const struct ls_track *track) {
    struct listing listing = {.count = 0};
    int each = track->count / (int)audit->undecided.count;
    ls_live_sweep(&audit->undecided, list_one, &listing);
    for (int i = 0; i < listing.count; i++)
        wait_for(ingest, listing.block[i], track, i * each, (i + 1) * each);
}

void ls_wait_deferred(struct ls_ingest *ingest, struct ls_track *track,
                      const struct ls_timed_call *call) {
    struct ls_audit *audit = track->count ? ls_audit_of(ingest, track->event[0].device) : NULL;
    if (told_later(track, call->record))
        return;
    if (audit && audit->undecided.count > 0 && same_entry(ingest, track, call)) {
        uint64_t blocks = audit->undecided.count;
        if (!track->crowded && (blocks == track->count || blocks == 1)) {
            share_out(ingest, audit, track);
        } else {
            audit->unattributed += track->count;
            audit->dirty = true;
            ls_wait_decide(ingest, track->event[0].device, call->start_ns);
        }
    }
    forget(track);
}

void ls_wait_drop(struct ls_ingest *ingest, struct ls_block *block, int64_t done_ns) {
    struct ls_wait *wait, *next;
    if (block->waiting == 0)
        return;
    HASH_ITER(hh, ingest->blocks.waits, wait, next)
    if (wait->block == block)
        put_done(ingest, wait, done_ns);
    block->waiting = 0;
}

/* ---- taking up what is in the tables ---- */

/* Events and questions as they were; whatever came after them has been seen to. */
static void take_up(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    enum ls_class cls = ls_api_info[record->head.api].cls;
    struct ls_track *track = ls_wait_of_thread(ingest, call->thread);
    ls_capture_track(ingest, call);
    if (cls == LS_CLASS_ARRAY_LEVEL)
        ls_ingest_array_level(ingest, call);
    if (cls == LS_CLASS_DEVICE || cls == LS_CLASS_EVENT ||
        (cls == LS_CLASS_SYNC && roles->event >= 0 && !record->stack)) {
        ls_wait_track(ingest, call);
    } else if (track) {
        if (!told_later(track, record))
            forget(track);
    }
    ls_oom_take_up(ingest, call);
}

static void load_wait(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_wait *wait = calloc(1, sizeof *wait);
    int64_t block_id = sqlite3_column_int64(stmt, 1);
    struct ls_block *block, *next;
    if (!wait) {
        ingest->out_of_memory = true;
        return;
    }
    wait->id = sqlite3_column_int64(stmt, 0);
    wait->event = (uint64_t)sqlite3_column_int64(stmt, 2);
    HASH_ITER(hh, ingest->blocks.limbo, block, next)
    if (block->id == block_id)
        wait->block = block;
    if (!wait->block) {
        free(wait);
        return;
    }
    wait->block->waiting++;
    HASH_ADD(hh, ingest->blocks.waits, event, sizeof wait->event, wait);
}

void ls_wait_load(struct ls_ingest *ingest) {
    ls_replay(ingest, LS_CALLS_TAKEN_UP, take_up);
    ls_oom_taken_up(ingest);
    /* After that: old calls say nothing of the waits that are still open. */
    ls_db_each(&ingest->db, "SELECT id,block,event FROM block_wait WHERE done_ns IS NULL",
               load_wait, ingest);
}

void ls_wait_close(struct ls_ingest *ingest) {
    struct ls_blocks *blocks = &ingest->blocks;
    struct ls_wait *wait, *next;
    HASH_ITER(hh, blocks->waits, wait, next) {
        HASH_DEL(blocks->waits, wait);
        free(wait);
    }
    for (int device = 0; device < 256; device++)
        if (blocks->audit[device])
            ls_live_destroy(&blocks->audit[device]->undecided);
    free(blocks->track);
}
