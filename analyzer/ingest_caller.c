/*
 * ingest_caller.c - whose code called: by the module of a stack's innermost frame; and through
 * which call PyTorch's allocator was entered: libc10_cuda does more than allocate, events of the
 * program's own are recorded through it too. See ingest_block.h.
 *
 * A stack comes before the call that has it, but the module it lies in may come later, in another
 * thread's chunk: then it is looked up when it is needed first. One thread; not async-signal-safe.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "detect/owner.h"
#include "ingest_internal.h"

#define STACKS_MAX (1u << 24) /* a higher number is damage */
#define ENTRY_DEPTH 16        /* the allocator's own frames are fewer */

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

static enum ls_holder holder_of(const char *path) {
    return path && fnmatch(LS_PYTORCH_ALLOCATOR, path, 0) == 0 ? LS_HOLDER_PYTORCH
                                                               : LS_HOLDER_CALLER;
}

/* A return address belongs to the call before it. */
static bool lies_in(const struct ls_module *module, uint64_t address) {
    return address - 1 >= module->start && address - 1 < module->end;
}

/* Past those that forward for somebody else. */
static const char *owner_of(struct ls_ingest *ingest, const struct ls_caller *caller) {
    for (int i = 0; i < caller->depth; i++) {
        const struct ls_module *module =
            ls_modules_find(&ingest->modules, caller->modules, caller->address[i] - 1);
        struct ls_owner owner = ls_owner_of_module(module ? module->path : NULL, LS_MEMORY_DEVICE);
        if (owner.rule != LS_OWNER_PASS)
            return owner.rule == LS_OWNER_LIBRARY ? owner.name : NULL;
    }
    return NULL;
}

static void resolve(struct ls_ingest *ingest, struct ls_caller *caller) {
    const struct ls_module *module =
        ls_modules_find(&ingest->modules, caller->modules, caller->address[0] - 1);
    if (!module)
        return;
    uint64_t *address = caller->address;
    int depth = caller->depth, i = 1;
    caller->holder = (uint8_t)holder_of(module->path);
    caller->owner = owner_of(ingest, caller);
    caller->depth = 0;
    while (i < depth && lies_in(module, address[i]))
        i++;
    caller->entry = caller->holder == LS_HOLDER_PYTORCH && i < depth ? address[i] : 0;
    free(address);
}

static void add(struct ls_ingest *ingest, uint32_t stack, uint32_t modules, const void *addresses,
                uint32_t depth) {
    struct ls_caller *caller = place(&ingest->blocks.callers, stack);
    if (!caller || depth == 0)
        return;
    if (caller->depth)
        free(caller->address);
    *caller = (struct ls_caller){.modules = modules};
    uint64_t *kept = malloc(ENTRY_DEPTH * sizeof *kept);
    if (!kept)
        return;
    caller->depth = depth < ENTRY_DEPTH ? (uint8_t)depth : ENTRY_DEPTH;
    memcpy(kept, addresses, caller->depth * sizeof *kept);
    caller->address = kept;
    resolve(ingest, caller);
}

void ls_caller_add(struct ls_ingest *ingest, const struct ls_rec_stack *record) {
    add(ingest, record->id, record->modules, record->address, record->depth);
}

static const struct ls_caller *find(struct ls_ingest *ingest, uint32_t stack) {
    struct ls_callers *callers = &ingest->blocks.callers;
    if (stack >= callers->room)
        return NULL;
    struct ls_caller *caller = &callers->at[stack];
    if (caller->depth)
        resolve(ingest, caller);
    return caller->depth ? NULL : caller;
}

enum ls_holder ls_caller_of(struct ls_ingest *ingest, uint32_t stack) {
    const struct ls_caller *caller = find(ingest, stack);
    return caller ? (enum ls_holder)caller->holder : LS_HOLDER_UNKNOWN;
}

uint64_t ls_caller_entry(struct ls_ingest *ingest, uint32_t stack) {
    const struct ls_caller *caller = find(ingest, stack);
    return caller ? caller->entry : 0;
}

const char *ls_caller_owner(struct ls_ingest *ingest, uint32_t stack) {
    const struct ls_caller *caller = find(ingest, stack);
    if (!caller || !caller->settled)
        return caller ? caller->owner : NULL;
    struct ls_owner owner = ls_owner_of(ingest->db.db, stack, LS_MEMORY_DEVICE);
    return owner.rule == LS_OWNER_LIBRARY ? owner.name : NULL;
}

static void load_raw(sqlite3_stmt *stmt, void *context) {
    add(context, (uint32_t)sqlite3_column_int64(stmt, 0), (uint32_t)sqlite3_column_int64(stmt, 1),
        sqlite3_column_blob(stmt, 2), (uint32_t)sqlite3_column_bytes(stmt, 2) / sizeof(uint64_t));
}

/* Frame by frame, innermost first. */
static void load_settled(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_caller *caller =
        place(&ingest->blocks.callers, (uint32_t)sqlite3_column_int64(stmt, 0));
    enum ls_holder holder = holder_of((const char *)sqlite3_column_text(stmt, 1));
    if (!caller)
        return;
    caller->settled = true;
    if (caller->holder == LS_HOLDER_UNKNOWN)
        caller->holder = (uint8_t)holder;
    else if (holder != LS_HOLDER_PYTORCH)
        caller->entry = (uint64_t)sqlite3_column_int64(stmt, 2);
}

void ls_caller_load(struct ls_ingest *ingest) {
    ls_db_each(&ingest->db, "SELECT id,modules,addresses FROM raw_stack", load_raw, ingest);
    ls_db_each(&ingest->db,
               "WITH RECURSIVE walk(id,depth,parent,path,address) AS ("
               "SELECT s.id,0,n.parent,m.path,f.offset+m.bias FROM stack_site AS s "
               "JOIN stack AS n ON n.id=s.stack JOIN frame AS f ON f.id=n.frame "
               "JOIN module AS m ON m.id=f.module "
               "UNION ALL SELECT w.id,w.depth+1,n.parent,m.path,f.offset+IFNULL(m.bias,0) "
               "FROM walk AS w JOIN stack AS n ON n.id=w.parent JOIN frame AS f ON f.id=n.frame "
               "LEFT JOIN module AS m ON m.id=f.module "
               "WHERE w.path GLOB '" LS_PYTORCH_ALLOCATOR "') "
               "SELECT id,path,address FROM walk ORDER BY id,depth",
               load_settled, ingest);
}

void ls_caller_close(struct ls_callers *callers) {
    for (uint32_t i = 0; i < callers->room; i++)
        if (callers->at[i].depth)
            free(callers->at[i].address);
    free(callers->at);
}
