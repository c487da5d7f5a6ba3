/*
 * stacks.c - raw stacks to frames and nodes, and to sites. See stacks.h; the asking for names is
 * stack_names.c. One thread; not async-signal-safe.
 */
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

#include "site.h"
#include "stacks_internal.h"

#define SITE_FRAMES_MAX 2048 /* frames of one stack that are looked at, inlined ones too */

void ls_stacks_init(struct ls_stacks *stacks, struct ls_trace_db *db, struct ls_modules *modules) {
    memset(stacks, 0, sizeof *stacks);
    stacks->db = db;
    stacks->modules = modules;
    stacks->next_frame = ls_db_number(db, "SELECT MAX(id) FROM frame") + 1;
    stacks->next_node = ls_db_number(db, "SELECT MAX(id) FROM stack") + 1;
}

static void keep_raw(struct ls_stacks *stacks, uint32_t id, uint32_t modules, const void *addresses,
                     uint32_t depth) {
    struct ls_raw_stack *raw = malloc(sizeof *raw + depth * sizeof raw->address[0]);
    if (!raw)
        return; /* it is in the table: the next collector's, or without a site */
    raw->id = id;
    raw->modules = modules;
    raw->depth = depth;
    if (depth)
        memcpy(raw->address, addresses, depth * sizeof raw->address[0]);
    raw->next = stacks->raw;
    stacks->raw = raw;
}

void ls_stacks_add(struct ls_stacks *stacks, const struct ls_rec_stack *record) {
    ls_db_put(stacks->db, LS_PUT_RAW_STACK, "iib", (int64_t)record->id, (int64_t)record->modules,
              record->address, (int)(record->depth * sizeof record->address[0]));
    keep_raw(stacks, record->id, record->modules, record->address, record->depth);
}

static struct ls_frame *new_frame(struct ls_stacks *stacks, const struct ls_frame_key *key,
                                  int64_t id) {
    struct ls_frame *frame = calloc(1, sizeof *frame);
    if (!frame)
        return NULL;
    frame->key = *key;
    frame->id = id;
    HASH_ADD(hh, stacks->frames, key, sizeof frame->key, frame);
    return frame;
}

static struct ls_frame *intern_frame(struct ls_stacks *stacks, uint32_t generation,
                                     uint64_t address) {
    /* The return address of a call that is its module's last instruction lies one past it. */
    struct ls_module *module = ls_modules_find(stacks->modules, generation, address - 1);
    struct ls_frame_key key = {module ? module->id : 0, address - (module ? module->bias : 0)};
    struct ls_frame *frame;
    HASH_FIND(hh, stacks->frames, &key, sizeof key, frame);
    if (frame)
        return frame;
    frame = new_frame(stacks, &key, stacks->next_frame++);
    if (!frame)
        return NULL;
    ls_db_put(stacks->db, LS_PUT_FRAME, "izu", frame->id, key.module, key.offset);
    ls_frame_ask(stacks, frame);
    return frame;
}

static struct ls_node *find_node(struct ls_stacks *stacks, const struct ls_node_key *key) {
    struct ls_node *node;
    HASH_FIND(hh, stacks->nodes, key, sizeof *key, node);
    return node;
}

static struct ls_node *new_node(struct ls_stacks *stacks, const struct ls_node_key *key,
                                int64_t id) {
    struct ls_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->key = *key;
    node->id = id;
    HASH_ADD(hh, stacks->nodes, key, sizeof node->key, node);
    return node;
}

static int64_t intern_node(struct ls_stacks *stacks, int64_t parent, int64_t frame) {
    struct ls_node_key key = {parent, frame};
    struct ls_node *node = find_node(stacks, &key);
    if (node)
        return node->id;
    node = new_node(stacks, &key, stacks->next_node++);
    if (!node)
        return 0;
    ls_db_put(stacks->db, LS_PUT_STACK, "izi", node->id, parent, frame);
    return node->id;
}

static struct ls_waiting *new_waiting(struct ls_stacks *stacks, int64_t id, uint32_t depth) {
    struct ls_waiting *waiting = calloc(1, sizeof *waiting + depth * sizeof waiting->frame[0]);
    if (!waiting)
        return NULL;
    waiting->id = id;
    waiting->next = stacks->waiting;
    stacks->waiting = waiting;
    return waiting;
}

static void settle_one(struct ls_stacks *stacks, const struct ls_raw_stack *raw) {
    struct ls_waiting *waiting = new_waiting(stacks, raw->id, raw->depth);
    int64_t node = 0;
    if (!waiting)
        return;
    for (uint32_t i = raw->depth; i-- > 0;) {
        struct ls_frame *frame = intern_frame(stacks, raw->modules, raw->address[i]);
        if (!frame)
            continue;
        waiting->frame[i] = frame;
        node = intern_node(stacks, node, frame->id);
    }
    waiting->depth = raw->depth;
    ls_db_put(stacks->db, LS_PUT_STACK_SITE, "iz", (int64_t)raw->id, node);
    ls_db_put(stacks->db, LS_PUT_RAW_STACK_DONE, "i", (int64_t)raw->id);
}

void ls_stacks_settle(struct ls_stacks *stacks) {
    while (stacks->raw) {
        struct ls_raw_stack *raw = stacks->raw;
        stacks->raw = raw->next;
        settle_one(stacks, raw);
        free(raw);
    }
}

/* ---- sites ---- */

static int add_site_frames(const struct ls_stacks *stacks, const struct ls_frame *frame,
                           struct ls_site_frame *out, int room) {
    const struct ls_module *module = ls_modules_at(stacks->modules, frame->key.module);
    bool program = module && ls_modules_is_program(stacks->modules, module);
    int count = 0;
    for (const struct ls_frame_name *name = &frame->name; name && count < room; name = name->outer)
        out[count++] = (struct ls_site_frame){.module = module ? module->path : NULL,
                                              .main_program = program,
                                              .offset = frame->key.offset,
                                              .function = name->function,
                                              .function_offset = name->function_offset,
                                              .file = name->file,
                                              .line = name->line};
    return count;
}

static bool all_named(const struct ls_waiting *waiting) {
    for (uint32_t i = 0; i < waiting->depth; i++)
        if (waiting->frame[i] && waiting->frame[i]->state != LS_FRAME_NAMED)
            return false;
    return true;
}

static void write_site(struct ls_stacks *stacks, const struct ls_waiting *waiting,
                       struct ls_site_frame *frame) {
    char text[4096];
    int count = 0;
    for (uint32_t i = 0; i < waiting->depth; i++)
        if (waiting->frame[i])
            count +=
                add_site_frames(stacks, waiting->frame[i], frame + count, SITE_FRAMES_MAX - count);
    int chosen = ls_site_choose(frame, count);
    if (chosen < 0)
        return;
    ls_site_text(&frame[chosen], text, sizeof text);
    ls_db_put(stacks->db, LS_PUT_SITE, "si", text, waiting->id);
}

void ls_stacks_write_sites(struct ls_stacks *stacks, bool all) {
    struct ls_site_frame *frame = NULL;
    for (struct ls_waiting **link = &stacks->waiting; *link;) {
        struct ls_waiting *waiting = *link;
        if (!all && !all_named(waiting)) {
            link = &waiting->next;
            continue;
        }
        if (!frame)
            frame = malloc(SITE_FRAMES_MAX * sizeof *frame);
        if (!frame)
            return;
        write_site(stacks, waiting, frame);
        *link = waiting->next;
        free(waiting);
    }
    free(frame);
}

/* ---- taking up what is in the tables ---- */

static void load_raw(sqlite3_stmt *stmt, void *context) {
    keep_raw(context, (uint32_t)sqlite3_column_int64(stmt, 0),
             (uint32_t)sqlite3_column_int64(stmt, 1), sqlite3_column_blob(stmt, 2),
             (uint32_t)sqlite3_column_bytes(stmt, 2) / 8);
}

struct loading {
    struct ls_stacks *stacks;
    struct ls_frame **frame; /* by id */
    struct ls_node **node;   /* by id */
};

/* Only the innermost row of an address is a frame that nodes name. */
static void load_frame(sqlite3_stmt *stmt, void *context) {
    struct loading *loading = context;
    struct ls_stacks *stacks = loading->stacks;
    int64_t id = sqlite3_column_int64(stmt, 0);
    struct ls_frame_key key = {sqlite3_column_int64(stmt, 1),
                               (uint64_t)sqlite3_column_int64(stmt, 2)};
    struct ls_frame *frame;
    HASH_FIND(hh, stacks->frames, &key, sizeof key, frame);
    if (frame || id < 1 || id >= stacks->next_frame)
        return;
    loading->frame[id] = frame = new_frame(stacks, &key, id);
    if (frame)
        ls_frame_ask(stacks, frame);
}

static void load_node(sqlite3_stmt *stmt, void *context) {
    struct loading *loading = context;
    int64_t id = sqlite3_column_int64(stmt, 0);
    struct ls_node_key key = {sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 2)};
    if (id >= 1 && id < loading->stacks->next_node && !find_node(loading->stacks, &key))
        loading->node[id] = new_node(loading->stacks, &key, id);
}

static void load_waiting(sqlite3_stmt *stmt, void *context) {
    struct loading *loading = context;
    struct ls_frame *frame[1024];
    uint32_t depth = 0;
    int64_t node = sqlite3_column_int64(stmt, 1);
    while (node >= 1 && node < loading->stacks->next_node && loading->node[node] && depth < 1024) {
        const struct ls_node_key *key = &loading->node[node]->key;
        bool known = key->frame >= 1 && key->frame < loading->stacks->next_frame;
        frame[depth++] = known ? loading->frame[key->frame] : NULL;
        node = key->parent;
    }
    struct ls_waiting *waiting = new_waiting(loading->stacks, sqlite3_column_int64(stmt, 0), depth);
    if (!waiting)
        return;
    waiting->depth = depth;
    if (depth)
        memcpy(waiting->frame, frame, depth * sizeof frame[0]);
}

void ls_stacks_load(struct ls_stacks *stacks) {
    struct loading loading = {stacks, calloc((size_t)stacks->next_frame, sizeof(void *)),
                              calloc((size_t)stacks->next_node, sizeof(void *))};
    if (loading.frame && loading.node) {
        /* Names are asked for anew: the rows of inlined functions would come twice. */
        ls_db_exec(stacks->db, "UPDATE frame SET inlined_into=NULL WHERE inlined_into IS NOT NULL;"
                               "DELETE FROM frame WHERE id NOT IN (SELECT frame FROM stack)");
        ls_db_each(stacks->db, "SELECT id,modules,addresses FROM raw_stack", load_raw, stacks);
        ls_db_each(stacks->db, "SELECT id,module,offset FROM frame ORDER BY id", load_frame,
                   &loading);
        ls_db_each(stacks->db, "SELECT id,parent,frame FROM stack ORDER BY id", load_node,
                   &loading);
        ls_db_each(stacks->db, "SELECT id,stack FROM stack_site WHERE site IS NULL", load_waiting,
                   &loading);
    }
    free(loading.frame);
    free(loading.node);
}

void ls_stacks_destroy(struct ls_stacks *stacks) {
    struct ls_frame *frame, *next_frame;
    struct ls_node *node, *next_node;
    ls_symbolizer_stop(&stacks->symbolizer);
    HASH_ITER(hh, stacks->frames, frame, next_frame) {
        HASH_DEL(stacks->frames, frame);
        ls_frame_clear_name(&frame->name);
        free(frame);
    }
    HASH_ITER(hh, stacks->nodes, node, next_node) {
        HASH_DEL(stacks->nodes, node);
        free(node);
    }
    while (stacks->raw) {
        struct ls_raw_stack *raw = stacks->raw;
        stacks->raw = raw->next;
        free(raw);
    }
    while (stacks->waiting) {
        struct ls_waiting *waiting = stacks->waiting;
        stacks->waiting = waiting->next;
        free(waiting);
    }
}
