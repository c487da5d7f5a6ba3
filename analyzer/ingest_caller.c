/*
 * ingest_caller.c - whose code called: by the module of a stack's innermost frame. See
 * ingest_block.h.
 *
 * A stack comes before the call that has it, but the module it lies in may come later, in another
 * thread's chunk: it is looked up when it is needed first. One thread; not async-signal-safe.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_internal.h"

#define STACKS_MAX (1u << 24) /* a higher number is damage */
#define PYTORCH_ALLOCATOR "*/libc10_cuda.so*"

static struct ls_caller *place(struct ls_callers *callers, uint32_t stack) {
    if (stack >= STACKS_MAX)
        return NULL;
    if (stack >= callers->room) {
        uint32_t room = 2 * stack + 64;
        struct ls_caller *more = realloc(callers->at, room * sizeof *more);
        if (!more)
            return NULL;
        memset(more + callers->room, 0, (room - callers->room) * sizeof *more);
        callers->at = more;
        callers->room = room;
    }
    return &callers->at[stack];
}

static void add(struct ls_callers *callers, uint32_t stack, uint32_t modules, uint64_t address) {
    struct ls_caller *caller = place(callers, stack);
    if (caller)
        *caller = (struct ls_caller){address, modules, LS_HOLDER_UNKNOWN};
}

void ls_caller_add(struct ls_callers *callers, const struct ls_rec_stack *record) {
    if (record->depth)
        add(callers, record->id, record->modules, record->address[0]);
}

static enum ls_holder holder_of(const char *path) {
    return path && fnmatch(PYTORCH_ALLOCATOR, path, 0) == 0 ? LS_HOLDER_PYTORCH : LS_HOLDER_CALLER;
}

enum ls_holder ls_caller_of(struct ls_ingest *ingest, uint32_t stack) {
    struct ls_callers *callers = &ingest->blocks.callers;
    if (stack >= callers->room)
        return LS_HOLDER_UNKNOWN;
    struct ls_caller *caller = &callers->at[stack];
    if (caller->address) {
        const struct ls_module *module =
            ls_modules_find(&ingest->modules, caller->modules, caller->address - 1);
        if (!module)
            return LS_HOLDER_UNKNOWN;
        caller->holder = (uint8_t)holder_of(module->path);
        caller->address = 0;
    }
    return (enum ls_holder)caller->holder;
}

static void load_raw(sqlite3_stmt *stmt, void *context) {
    const void *addresses = sqlite3_column_blob(stmt, 2);
    uint64_t innermost = 0;
    if (sqlite3_column_bytes(stmt, 2) < (int)sizeof innermost)
        return;
    memcpy(&innermost, addresses, sizeof innermost);
    add(context, (uint32_t)sqlite3_column_int64(stmt, 0), (uint32_t)sqlite3_column_int64(stmt, 1),
        innermost);
}

static void load_settled(sqlite3_stmt *stmt, void *context) {
    struct ls_caller *caller = place(context, (uint32_t)sqlite3_column_int64(stmt, 0));
    if (caller)
        caller->holder = (uint8_t)holder_of((const char *)sqlite3_column_text(stmt, 1));
}

void ls_caller_load(struct ls_ingest *ingest) {
    struct ls_callers *callers = &ingest->blocks.callers;
    ls_db_each(&ingest->db, "SELECT id,modules,addresses FROM raw_stack", load_raw, callers);
    ls_db_each(&ingest->db,
               "SELECT s.id,m.path FROM stack_site AS s JOIN stack AS n ON n.id=s.stack "
               "JOIN frame AS f ON f.id=n.frame JOIN module AS m ON m.id=f.module",
               load_settled, callers);
}
