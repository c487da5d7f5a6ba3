/*
 * ingest_vmm.c - the driver's virtual memory: reserved addresses and physical memory to rows of
 * `vmm_range`, mappings to rows of `allocation`. See ingest_block.h.
 *
 * A mapping's device is that of the physical memory, which is named by its handle. Handles and
 * addresses are few and live long: their rows are put at once. One thread; not async-signal-safe.
 */
#include <stdlib.h>

#include "common/roles.h"
#include "ingest_internal.h"

enum { RANGE_RESERVED = 1, RANGE_PHYSICAL }; /* vmm_range.kind */

static void begin_range(struct ls_ingest *ingest, struct ls_live *live, int kind, uint64_t address,
                        uint64_t size, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    struct ls_life *life = calloc(1, sizeof *life);
    if (!life) {
        ingest->out_of_memory = true;
        return;
    }
    life->id = call->id;
    life->address = address;
    life->size = size;
    life->born_ns = call->end_ns;
    life->device = (uint8_t)ls_role(record, ls_roles[record->head.api].device, record->head.device);
    ls_db_put(&ingest->db, LS_PUT_VMM_RANGE, "iiiiuuz", life->id, call->start_ns, (int64_t)kind,
              (int64_t)life->device, address, size, (int64_t)record->stack);
    if (!ls_live_add(live, life)) {
        free(life);
        ingest->out_of_memory = true;
    }
}

static void end_range(struct ls_ingest *ingest, struct ls_live *live, uint64_t address,
                      const struct ls_timed_call *call) {
    struct ls_life *life = ls_live_end(live, address, call->start_ns, false);
    if (!life)
        return;
    ls_db_put(&ingest->db, LS_PUT_VMM_RANGE_END, "iii", call->start_ns, call->id, life->id);
    ls_block_range_ended(life);
    free(life);
}

/* Rows of class VMM: with a handle or with addresses; those that begin something have a size, and
 * freed addresses have one too: they are in `reserved` already. */
void ls_vmm_range(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    struct ls_blocks *blocks = &ingest->blocks;
    if (record->status != 0)
        return;
    switch (record->head.api) {
    case LS_API_cuMemCreate:
        begin_range(ingest, &blocks->physical, RANGE_PHYSICAL, ls_role(record, roles->handle, 0),
                    ls_role(record, roles->size, 0), call);
        break;
    case LS_API_cuMemRelease:
        end_range(ingest, &blocks->physical, ls_role(record, roles->handle, 0), call);
        break;
    case LS_API_cuMemAddressReserve:
        begin_range(ingest, &blocks->reserved, RANGE_RESERVED, ls_role(record, roles->ptr, 0),
                    ls_role(record, roles->size, 0), call);
        break;
    case LS_API_cuMemAddressFree:
        end_range(ingest, &blocks->reserved, ls_role(record, roles->ptr, 0), call);
        break;
    default:
        break;
    }
}

void ls_vmm_map(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint64_t address = ls_role(record, roles->ptr, 0), handle = ls_role(record, roles->handle, 0);
    if (record->status != 0 || address == 0)
        return;
    const struct ls_life *physical = ls_live_find(&ingest->blocks.physical, handle);
    struct ls_life *life = ls_ingest_new_life(ingest, call, address, LS_MEMORY_VMM);
    if (!life)
        return;
    life->size = ls_role(record, roles->size, 0);
    if (physical && physical->address == handle)
        life->device = physical->device;
    ls_ingest_begin_life(ingest, &ingest->memory, life);
}

/* Every mapping that lies in the range; mappings that others have made there since stay. */
void ls_vmm_unmap(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint64_t address = ls_role(record, roles->ptr, 0);
    uint64_t end = address + ls_role(record, roles->size, 0);
    if (record->status != 0)
        return;
    while (address < end) {
        const struct ls_life *next = ls_live_next(&ingest->memory, address);
        if (!next || next->address >= end)
            return;
        address = next->address;
        struct ls_life *life = ls_live_end(&ingest->memory, address, call->start_ns, false);
        if (life)
            ls_ingest_end_life(ingest, life, call, LS_END_FREED);
        address++;
    }
}

uint64_t ls_vmm_reservation(const struct ls_ingest *ingest, uint64_t address) {
    const struct ls_life *life = ls_live_find(&ingest->blocks.reserved, address);
    return life ? life->address : 0;
}

static void load_range(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_life *life = calloc(1, sizeof *life);
    if (!life) {
        ingest->out_of_memory = true;
        return;
    }
    life->id = sqlite3_column_int64(stmt, 0);
    life->address = (uint64_t)sqlite3_column_int64(stmt, 2);
    life->size = (uint64_t)sqlite3_column_int64(stmt, 3);
    life->device = (uint8_t)sqlite3_column_int(stmt, 4);
    life->born_ns = INT64_MIN;
    bool physical = sqlite3_column_int(stmt, 1) == RANGE_PHYSICAL;
    if (!ls_live_add(physical ? &ingest->blocks.physical : &ingest->blocks.reserved, life)) {
        free(life);
        ingest->out_of_memory = true;
    }
}

void ls_vmm_load(struct ls_ingest *ingest) {
    ls_db_each(&ingest->db,
               "SELECT id,kind,address,size,device FROM vmm_range WHERE end_ns IS NULL ORDER BY id",
               load_range, ingest);
}
