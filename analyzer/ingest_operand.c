/*
 * ingest_operand.c - operands of calls to rows. See ingest_shape.h. One thread; not
 * async-signal-safe.
 */
#include <stdlib.h>

#include "ingest_internal.h"
#include "layoutspy/table.h"

#define WAITING_MOST (1u << 16) /* more than are on their way: their shapes are lost */

static void wait_for_shape(struct ls_ingest *ingest, int64_t call, uint8_t position, uint8_t role,
                           uint32_t told) {
    struct ls_operands *operands = &ingest->operands;
    if (operands->count >= WAITING_MOST)
        return;
    void *more = ls_ingest_room(operands->waiting, operands->count, &operands->room,
                                sizeof *operands->waiting);
    if (!more) {
        ingest->out_of_memory = true;
        return;
    }
    operands->waiting = more;
    operands->waiting[operands->count++] = (struct ls_operand_waiting){call, told, position, role};
    ls_db_put(&ingest->db, LS_PUT_RAW_OPERAND, "iiii", call, (int64_t)position, (int64_t)role,
              (int64_t)told);
}

/* The block that begins there, or else the allocation that holds the address. */
static void find_memory(const struct ls_ingest *ingest, uint64_t address,
                        struct ls_operand_row *row) {
    if (!address)
        return;
    row->block = ls_block_at(ingest, address);
    if (row->block)
        return;
    const struct ls_life *life = ls_live_find(&ingest->memory, address);
    row->allocation = life ? life->id : 0;
}

void ls_operand_put(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    unsigned fields = (unsigned)ls_api_info[call->record->head.api].field_count;
    unsigned count = (unsigned)LS_CALL_OPERAND_COUNT(call->record, fields);
    const struct ls_operand *operand = LS_CALL_OPERAND_LIST(call->record, fields);
    struct ls_operand_row row[LS_OPERANDS_MOST];
    if (count > LS_OPERANDS_MOST) /* it was checked: no record has more */
        return;
    for (unsigned i = 0; i < count; i++) {
        uint32_t told = LS_OPERAND_SHAPE(operand[i].what);
        row[i] = (struct ls_operand_row){.address = operand[i].address,
                                         .role = LS_OPERAND_ROLE(operand[i].what),
                                         .flags = LS_OPERAND_FLAGS(operand[i].what)};
        row[i].shape = ls_shape_of(ingest, told, row[i].role);
        find_memory(ingest, row[i].address, &row[i]);
        if (told && !row[i].shape)
            wait_for_shape(ingest, call->id, (uint8_t)i, row[i].role, told);
    }
    ls_db_put_operands(&ingest->db, call->id, row, count);
}

void ls_operand_store(struct ls_ingest *ingest) {
    struct ls_operands *operands = &ingest->operands;
    size_t left = 0;
    for (size_t i = 0; i < operands->count; i++) {
        const struct ls_operand_waiting *waiting = &operands->waiting[i];
        uint32_t shape = ls_shape_of(ingest, waiting->told, waiting->role);
        if (!shape) {
            operands->waiting[left++] = *waiting;
            continue;
        }
        ls_db_put(&ingest->db, LS_PUT_OPERAND_SHAPE, "iii", (int64_t)shape, waiting->call,
                  (int64_t)waiting->position);
        ls_db_put(&ingest->db, LS_PUT_RAW_OPERAND_DONE, "ii", waiting->call,
                  (int64_t)waiting->position);
    }
    operands->count = left;
}

static void load(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_operands *operands = &ingest->operands;
    void *more = ls_ingest_room(operands->waiting, operands->count, &operands->room,
                                sizeof *operands->waiting);
    if (!more) {
        ingest->out_of_memory = true;
        return;
    }
    operands->waiting = more;
    operands->waiting[operands->count++] = (struct ls_operand_waiting){
        sqlite3_column_int64(stmt, 0), (uint32_t)sqlite3_column_int64(stmt, 3),
        (uint8_t)sqlite3_column_int(stmt, 1), (uint8_t)sqlite3_column_int(stmt, 2)};
}

void ls_operand_load(struct ls_ingest *ingest) {
    ls_db_each(&ingest->db, "SELECT call,position,role,told FROM raw_operand", load, ingest);
}

void ls_operand_close(struct ls_operands *operands) {
    free(operands->waiting);
}
