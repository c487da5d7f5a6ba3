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
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "ingest_internal.h"

#define THREADS_MAX (1u << 20) /* a higher number is damage */
#define CALLS_TAKEN_UP 200000  /* what threads did last, and captures, are in the last calls */

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
    track->busy = track->asked = track->info = track->crowded = false;
    track->count = 0;
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

static void track_recorded(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    if (record->status != 0 || record->head.flags & LS_CALL_CAPTURING ||
        ls_caller_of(ingest, record->stack) == LS_HOLDER_CALLER)
        return;
    struct ls_track *track = ls_wait_of_thread(ingest, call->thread);
    if (!track)
        return;
    track->busy = true;
    track->asked = track->info = false;
    if (track->count == LS_TRACK_EVENTS) {
        track->crowded = true;
        return;
    }
    track->event[track->count].event = ls_role(record, roles->event, 0);
    track->event[track->count].stream = ls_role(record, roles->stream, 0);
    track->event[track->count].id = call->id;
    track->event[track->count].done_ns = 0;
    track->event[track->count++].device = record->head.device;
}

static void track_asked(struct ls_ingest *ingest, const struct ls_timed_call *call,
                        struct ls_track *track) {
    const struct ls_rec_call *record = call->record;
    uint64_t event = ls_role(record, ls_roles[record->head.api].event, 0);
    if (track)
        track->asked = true;
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
    struct ls_blocks *blocks = &ingest->blocks;
    struct ls_track *track = call->thread < blocks->tracks && blocks->track[call->thread].busy
                                 ? &blocks->track[call->thread]
                                 : NULL;
    switch (ls_api_info[record->head.api].cls) {
    case LS_CLASS_EVENT:
        if (ls_roles[record->head.api].stream >= 0)
            track_recorded(ingest, call);
        return;
    case LS_CLASS_SYNC:
        if (ls_roles[record->head.api].event >= 0) {
            track_asked(ingest, call, track);
            return;
        }
        break;
    case LS_CLASS_DEVICE:
    case LS_CLASS_BLOCK: /* these see to it themselves */
    case LS_CLASS_OOM:
    case LS_CLASS_MEM_INFO:
        return;
    default:
        break;
    }
    if (track)
        ls_wait_deferred(ingest, track, call->start_ns);
}

/* ---- blocks ---- */

static void add_wait(struct ls_ingest *ingest, struct ls_block *block, const struct ls_track *track,
                     int i) {
    uint64_t event = track->event[i].event;
    int64_t done_ns = track->event[i].done_ns;
    struct ls_wait *wait = find(ingest, event);
    if (wait) /* that it has passed was not seen */
        passed(ingest, wait, block->end_ns);
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

void ls_wait_begin(struct ls_ingest *ingest, struct ls_block *block, uint32_t thread,
                   bool capturing) {
    struct ls_track *track = ls_wait_of_thread(ingest, thread);
    struct ls_audit *audit = ls_audit_of(ingest, block->device);
    if (track && track->count && !track->asked && !track->crowded && !capturing) {
        wait_for(ingest, block, track, 0, track->count);
        forget(track);
        return;
    }
    if (track)
        ls_wait_deferred(ingest, track, block->end_ns);
    if (capturing && audit) {
        block->waited = LS_WAITED_UNDECIDED;
        audit->undecided++;
        ls_block_changed(ingest, block);
    } else {
        block->waited = 0;
        ls_block_freed(ingest, block, block->end_ns);
    }
}

void ls_wait_decide(struct ls_ingest *ingest, uint8_t device, int64_t now_ns) {
    struct ls_audit *audit = ls_audit_of(ingest, device);
    struct ls_block *block, *next;
    if (!audit || audit->undecided == 0)
        return;
    HASH_ITER(hh, ingest->blocks.limbo, block, next) {
        if (block->device != device || block->waited != LS_WAITED_UNDECIDED)
            continue;
        block->waited = LS_WAITED_UNKNOWN;
        ls_block_freed(ingest, block, now_ns);
    }
    audit->undecided = 0;
}

/* In the order in which they were given back; there are no more than fit. */
static int list_undecided(struct ls_ingest *ingest, uint8_t device,
                          struct ls_block *undecided[LS_TRACK_EVENTS]) {
    int count = 0;
    struct ls_block *block, *next;
    HASH_ITER(hh, ingest->blocks.limbo, block, next)
    if (block->device == device && block->waited == LS_WAITED_UNDECIDED && count < LS_TRACK_EVENTS)
        undecided[count++] = block;
    return count;
}

void ls_wait_deferred(struct ls_ingest *ingest, struct ls_track *track, int64_t now_ns) {
    int count = track->count;
    struct ls_audit *audit = count ? ls_audit_of(ingest, track->event[0].device) : NULL;
    if (audit && audit->undecided > 0 && !track->crowded &&
        (audit->undecided == count || audit->undecided == 1)) {
        struct ls_block *undecided[LS_TRACK_EVENTS];
        int blocks = list_undecided(ingest, track->event[0].device, undecided);
        for (int i = 0, each = blocks ? count / blocks : 0; i < blocks; i++)
            wait_for(ingest, undecided[i], track, i * each, (i + 1) * each);
        audit->undecided = 0;
    } else if (audit && audit->undecided > 0) {
        audit->unattributed += count;
        audit->dirty = true;
        ls_wait_decide(ingest, track->event[0].device, now_ns);
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
        (cls == LS_CLASS_SYNC && roles->event >= 0)) {
        ls_wait_track(ingest, call);
    } else if (track) {
        forget(track);
        track->busy = track->info = cls == LS_CLASS_MEM_INFO && record->status == 0;
        track->free_bytes = ls_role(record, roles->free, 0);
        track->total_bytes = ls_role(record, roles->total, 0);
    }
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
    ls_replay(ingest, CALLS_TAKEN_UP, take_up);
    /* After that: old calls say nothing of the waits that are still open. */
    ls_db_each(&ingest->db, "SELECT id,block,event FROM block_wait WHERE done_ns IS NULL",
               load_wait, ingest);
}
