/*
 * ingest_block.c - blocks of a framework's allocator, and the segments that hold them. See
 * ingest_block.h.
 *
 * Memory is a segment once a block in it was reported: the allocator may ask for memory that it
 * then does not get, and may let go of its lock while it asks, but when it reports a block, what it
 * got for it counts as reserved. Rows as in ingest_memory.c: put before a commit, updated only
 * where a block outlives one. One thread; not async-signal-safe.
 */
#include <stdlib.h>

#include "common/roles.h"
#include "ingest_internal.h"

/* ---- rows ---- */

void ls_block_changed(struct ls_ingest *ingest, struct ls_block *block) {
    if (!block->stored)
        return;
    char types[] = "iiziiii";
    types[1] = block->free ? 'i' : 'n';
    types[3] = block->end_call ? 'i' : 'n';
    types[5] = block->waited >= 0 ? 'i' : 'n';
    ls_db_put(&ingest->db, LS_PUT_BLOCK_END, types, block->end_ns, block->free_ns,
              (int64_t)block->free_stack, block->end_call, (int64_t)block->end_reason,
              (int64_t)block->waited, block->id);
    if (block->free)
        free(block);
}

static void put_block(struct ls_ingest *ingest, const struct ls_block *block) {
    char types[] = "iinniuuzzznini";
    if (block->ended) {
        types[2] = types[12] = 'i';
        types[3] = block->free ? 'i' : 'n';
        types[10] = block->end_call ? 'i' : 'n';
    } else {
        types[12] = 'n';
    }
    types[13] = block->ended && block->waited >= 0 ? 'i' : 'n';
    ls_db_put(&ingest->db, LS_PUT_BLOCK, types, block->id, block->start_ns, block->end_ns,
              block->free_ns, (int64_t)block->device, block->address, block->size, block->segment,
              (int64_t)block->stack, (int64_t)block->free_stack, block->end_call,
              (int64_t)block->thread, (int64_t)block->end_reason, (int64_t)block->waited);
}

void ls_block_store(struct ls_ingest *ingest) {
    struct ls_blocks *blocks = &ingest->blocks;
    for (size_t i = 0; i < blocks->born_count; i++) {
        struct ls_block *block = blocks->born[i];
        put_block(ingest, block);
        block->stored = true;
        if (block->free)
            free(block);
    }
    blocks->born_count = 0;
    ls_audit_store(ingest);
}

/* ---- segments ---- */

static void drop_fresh(struct ls_life *life) {
    if (!life->fresh_link)
        return;
    *life->fresh_link = life->fresh;
    if (life->fresh)
        life->fresh->fresh_link = life->fresh_link;
    life->fresh = NULL;
    life->fresh_link = NULL;
}

/* The list of the reserved range that holds `address`: other people map memory too, and a look at
 * the allocator's must not take the longer for it. */
static struct ls_life **fresh_at(struct ls_ingest *ingest, uint64_t address) {
    struct ls_life *range = ls_live_find(&ingest->blocks.reserved, address);
    return range ? &range->fresh : &ingest->blocks.fresh;
}

static void add_fresh(struct ls_ingest *ingest, struct ls_life *life) {
    struct ls_life **list = fresh_at(ingest, life->address);
    life->fresh = *list;
    life->fresh_link = list;
    if (life->fresh)
        life->fresh->fresh_link = &life->fresh;
    *list = life;
}

void ls_block_range_ended(struct ls_life *range) {
    while (range->fresh)
        drop_fresh(range->fresh);
}

void ls_block_life_loaded(struct ls_ingest *ingest, struct ls_life *life) {
    struct ls_audit *audit = ls_audit_of(ingest, life->device);
    if (!audit)
        return;
    if (life->kind == LS_MEMORY_ASYNC)
        audit->async_bytes += (int64_t)life->size;
    if (life->holder == LS_HOLDER_SEGMENT)
        audit->reserved += (int64_t)life->size;
    else if (life->kind == LS_MEMORY_VMM)
        add_fresh(ingest, life);
}

void ls_block_life_began(struct ls_ingest *ingest, struct ls_life *life) {
    if (life->kind != LS_MEMORY_ASYNC && life->kind != LS_MEMORY_VMM &&
        life->holder != LS_HOLDER_PYTORCH)
        return;
    ls_block_life_loaded(ingest, life);
    struct ls_audit *audit = ls_audit_of(ingest, life->device);
    if (audit && life->holder == LS_HOLDER_PYTORCH) {
        audit->async += life->kind == LS_MEMORY_ASYNC;
        audit->uncached += life->kind == LS_MEMORY_DEVICE;
        audit->dirty = true;
    }
}

void ls_block_life_ended(struct ls_ingest *ingest, struct ls_life *life) {
    struct ls_audit *audit = ingest->blocks.audit[life->device];
    if (!audit)
        return;
    if (life->kind == LS_MEMORY_ASYNC)
        audit->async_bytes -= (int64_t)life->size;
    if (life->holder == LS_HOLDER_SEGMENT)
        audit->reserved -= (int64_t)life->size;
    else if (life->kind == LS_MEMORY_VMM)
        drop_fresh(life);
}

/* A block was reported in it. It counts where it lies: a damaged report may say another device. */
static void become_segment(struct ls_ingest *ingest, struct ls_life *life) {
    struct ls_audit *audit = ls_audit_of(ingest, life->device);
    if (!audit)
        return;
    if (life->holder == LS_HOLDER_PYTORCH && life->kind == LS_MEMORY_DEVICE)
        audit->uncached--;
    life->holder = LS_HOLDER_SEGMENT;
    audit->reserved += (int64_t)life->size;
    audit->native += life->kind != LS_MEMORY_VMM;
    audit->expandable += life->kind == LS_MEMORY_VMM;
    audit->dirty = true;
    if (life->stored)
        ls_db_put(&ingest->db, LS_PUT_ALLOCATION_HOLDER, "ii", (int64_t)life->holder, life->id);
}

/* What this thread has mapped in the reservation by now: all of it is for this block. */
static void take_mappings(struct ls_ingest *ingest, uint64_t address, uint32_t thread) {
    struct ls_life *next;
    for (struct ls_life *life = *fresh_at(ingest, address); life; life = next) {
        next = life->fresh;
        if (life->thread != thread)
            continue;
        become_segment(ingest, life);
        drop_fresh(life);
    }
}

static uint64_t find_segment(struct ls_ingest *ingest, uint64_t address, uint32_t thread) {
    struct ls_life *life = ls_live_find(&ingest->memory, address);
    if (!life)
        return 0;
    if (life->kind == LS_MEMORY_VMM) {
        uint64_t reservation = ls_vmm_reservation(ingest, address);
        take_mappings(ingest, address, thread);
        return reservation ? reservation : life->address;
    }
    if (life->holder != LS_HOLDER_SEGMENT)
        become_segment(ingest, life);
    return life->address;
}

/* ---- blocks ---- */

void ls_block_freed(struct ls_ingest *ingest, struct ls_block *block, int64_t free_ns) {
    HASH_DEL(ingest->blocks.limbo, block);
    block->free = true;
    block->free_ns = free_ns > block->end_ns ? free_ns : block->end_ns;
    ls_block_changed(ingest, block);
}

/* Out of the live ones, into those that may be waited for. */
static void end_block(struct ls_ingest *ingest, struct ls_audit *audit, struct ls_block *block,
                      int64_t end_ns) {
    struct ls_blocks *blocks = &ingest->blocks;
    audit->allocated -= (int64_t)block->size;
    HASH_DEL(blocks->live, block);
    block->ended = true;
    block->end_ns = end_ns;
    HASH_ADD(hh, blocks->limbo, address, sizeof block->address, block);
}

static struct ls_block *find(struct ls_block *among, uint64_t address) {
    struct ls_block *block;
    HASH_FIND(hh, among, &address, sizeof address, block);
    return block;
}

int64_t ls_block_at(const struct ls_ingest *ingest, uint64_t address) {
    const struct ls_block *block = find(ingest->blocks.live, address);
    return block ? block->id : 0;
}

/* The memory is handed out: whoever had it before has it no more. */
static void end_earlier(struct ls_ingest *ingest, struct ls_audit *audit, uint64_t address,
                        uint64_t size, int64_t now_ns, bool capturing) {
    struct ls_blocks *blocks = &ingest->blocks;
    struct ls_block *old = find(blocks->limbo, address);
    if (old && old->waited >= 0) {
        ls_wait_drop(ingest, old, now_ns);
        ls_block_freed(ingest, old, now_ns);
    }
    if (capturing)
        ls_wait_reused(ingest, audit, address, size);
    if ((old = find(blocks->live, address))) {
        end_block(ingest, audit, old, now_ns);
        old->end_reason = LS_END_REUSED;
        old->waited = LS_WAITED_UNKNOWN;
        if (audit->allocated_unseen <= -(int64_t)old->size)
            audit->allocated_unseen += (int64_t)old->size;
        ls_block_freed(ingest, old, now_ns);
    }
}

static void begin_block(struct ls_ingest *ingest, struct ls_audit *audit,
                        const struct ls_timed_call *call, uint8_t device, uint64_t address,
                        uint64_t size) {
    struct ls_blocks *blocks = &ingest->blocks;
    struct ls_track *track = ls_wait_of_thread(ingest, call->thread);
    if (track)
        ls_wait_deferred(ingest, track, call);
    bool capturing = call->record->head.flags & LS_CALL_CAPTURING;
    end_earlier(ingest, audit, address, size, call->start_ns, capturing);
    if (!capturing)
        ls_wait_decide(ingest, device, call->start_ns);
    struct ls_block **born =
        ls_ingest_room(blocks->born, blocks->born_count, &blocks->born_room, sizeof *born);
    if (born)
        blocks->born = born;
    struct ls_block *block = born ? calloc(1, sizeof *block) : NULL;
    if (!block) {
        ingest->out_of_memory = true;
        return;
    }
    born[blocks->born_count++] = block;
    block->id = call->id;
    block->address = address;
    block->size = size;
    block->segment = find_segment(ingest, address, call->thread);
    block->start_ns = call->start_ns;
    block->stack = call->record->stack;
    block->thread = call->thread;
    block->device = device;
    HASH_ADD(hh, blocks->live, address, sizeof block->address, block);
    audit->allocated += (int64_t)size;
}

static void give_back(struct ls_ingest *ingest, struct ls_audit *audit,
                      const struct ls_timed_call *call, uint64_t address, uint64_t size) {
    struct ls_block *block = find(ingest->blocks.live, address);
    if (!block) { /* began before the recording, or was lost */
        audit->allocated_unseen -= (int64_t)size;
        return;
    }
    end_block(ingest, audit, block, call->start_ns);
    block->end_call = call->id;
    block->free_stack = call->record->stack;
    ls_wait_begin(ingest, block, call);
}

/* ---- totals ---- */

static void put_memory(struct ls_ingest *ingest, const struct ls_timed_call *call, uint8_t device,
                       uint64_t allocated, uint64_t reserved) {
    ls_db_put(&ingest->db, LS_PUT_MEMORY, "iiiuunn", call->id, call->start_ns, (int64_t)device,
              allocated, reserved, (int64_t)0, (int64_t)0);
}

void ls_block_report(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint8_t device = (uint8_t)ls_role(record, roles->device, record->head.device);
    uint64_t address = ls_role(record, roles->ptr, 0), size = ls_role(record, roles->size, 0);
    uint64_t allocated = ls_role(record, roles->allocated, 0);
    uint64_t reserved = ls_role(record, roles->reserved, 0);
    struct ls_audit *audit = ls_audit_of(ingest, device);
    if (!audit)
        return;
    if ((int64_t)size > 0)
        begin_block(ingest, audit, call, device, address, size);
    else if (size != 0)
        give_back(ingest, audit, call, address, -size);
    ls_audit_report(audit, (int64_t)allocated, (int64_t)reserved);
    put_memory(ingest, call, device, allocated, reserved);
}

void ls_block_device_size(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    if (record->status == 0)
        ls_db_put(&ingest->db, LS_PUT_MEMORY, "iiinnnu", call->id, call->start_ns,
                  (int64_t)(uint8_t)ls_role(record, roles->device, record->head.device), (int64_t)0,
                  (int64_t)0, (int64_t)0, ls_role(record, roles->total, 0));
}

void ls_block_mem_info(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    if (record->status != 0)
        return;
    uint64_t unused = ls_role(record, roles->free, 0), total = ls_role(record, roles->total, 0);
    ls_db_put(&ingest->db, LS_PUT_MEMORY, "iiinnuu", call->id, call->start_ns,
              (int64_t)record->head.device, (int64_t)0, (int64_t)0, unused, total);
}

enum { RESERVED_NOW = 5, USED_NOW = 7 }; /* cudaMemPoolAttrReservedMemCurrent, UsedMemCurrent */

/* The stream-ordered allocator has no reports: what it holds is known where it is asked for. */
void ls_block_pool(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    struct ls_audit *audit = ls_audit_of(ingest, record->head.device);
    if (!audit || record->status != 0 || roles->value < 0)
        return;
    uint64_t value = record->field[roles->value];
    if (record->field[roles->attr] == RESERVED_NOW)
        put_memory(ingest, call, record->head.device, (uint64_t)audit->async_bytes, value);
    else if (record->field[roles->attr] == USED_NOW)
        ls_db_put(&ingest->db, LS_PUT_MEMORY, "iiiunnn", call->id, call->start_ns,
                  (int64_t)record->head.device, value, (int64_t)0, (int64_t)0, (int64_t)0);
}

/* ---- taking up what is in the tables ---- */

static void load_block(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_blocks *blocks = &ingest->blocks;
    struct ls_block *block = calloc(1, sizeof *block);
    if (!block) {
        ingest->out_of_memory = true;
        return;
    }
    block->id = sqlite3_column_int64(stmt, 0);
    block->start_ns = sqlite3_column_int64(stmt, 1);
    block->ended = sqlite3_column_type(stmt, 2) != SQLITE_NULL;
    block->end_ns = sqlite3_column_int64(stmt, 2);
    block->device = (uint8_t)sqlite3_column_int(stmt, 3);
    block->address = (uint64_t)sqlite3_column_int64(stmt, 4);
    block->size = (uint64_t)sqlite3_column_int64(stmt, 5);
    block->end_call = sqlite3_column_int64(stmt, 6);
    block->free_stack = (uint32_t)sqlite3_column_int64(stmt, 7);
    block->waited = sqlite3_column_int(stmt, 8);
    block->stored = true;
    struct ls_audit *audit = ls_audit_of(ingest, block->device);
    if (!audit) {
        free(block);
    } else if (!block->ended) {
        HASH_ADD(hh, blocks->live, address, sizeof block->address, block);
        audit->allocated += (int64_t)block->size;
    } else {
        if (sqlite3_column_type(stmt, 8) == SQLITE_NULL)
            ls_wait_undecided(ingest, audit, block);
        HASH_ADD(hh, blocks->limbo, address, sizeof block->address, block);
    }
}

void ls_block_load(struct ls_ingest *ingest) {
    struct ls_trace_db *db = &ingest->db;
    ls_caller_load(ingest);
    ls_audit_load(ingest);
    ls_db_each(
        db,
        "SELECT id,start_ns,end_ns,device,address,size,end_call,free_stack,waited FROM block "
        "WHERE free_ns IS NULL ORDER BY IFNULL(end_call,id)",
        load_block, ingest);
    ls_oom_load(ingest);
    ls_wait_load(ingest);
}

/* ---- the end ---- */

static void free_all(struct ls_block **blocks) {
    struct ls_block *block, *next;
    HASH_ITER(hh, *blocks, block, next) {
        HASH_DEL(*blocks, block);
        free(block);
    }
}

void ls_block_close(struct ls_ingest *ingest) {
    struct ls_blocks *blocks = &ingest->blocks;
    for (size_t i = 0; i < blocks->born_count; i++)
        if (blocks->born[i]->free)
            free(blocks->born[i]);
    free(blocks->born);
    free_all(&blocks->live);
    free_all(&blocks->limbo);
    ls_wait_close(ingest);
    for (int device = 0; device < 256; device++)
        free(blocks->audit[device]);
    ls_caller_close(&blocks->callers);
    free(blocks->capture.at);
    ls_live_destroy(&blocks->reserved);
    ls_live_destroy(&blocks->physical);
}
