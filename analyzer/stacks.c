/*
 * stacks.c - raw stacks to frames and nodes. See stacks.h; the asking for names is stack_names.c,
 * the sites are stack_sites.c. One thread; not async-signal-safe.
 */
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

#include "stacks_internal.h"

void ls_stacks_init(struct ls_stacks *stacks, struct ls_trace_db *db, struct ls_modules *modules) {
    memset(stacks, 0, sizeof *stacks);
    stacks->db = db;
    stacks->modules = modules;
    stacks->next_frame = ls_db_number(db, "SELECT MAX(id) FROM frame") + 1;
    stacks->next_node = ls_db_number(db, "SELECT MAX(id) FROM stack") + 1;
}

static void keep_raw(struct ls_raw_stack **list, const struct ls_raw_stack *head,
                     const void *addresses) {
    struct ls_raw_stack *raw = malloc(sizeof *raw + head->depth * sizeof raw->address[0]);
    if (!raw)
        return; /* it is in the table: the next collector's, or without a site */
    *raw = *head;
    if (raw->depth)
        memcpy(raw->address, addresses, raw->depth * sizeof raw->address[0]);
    raw->next = *list;
    *list = raw;
}

void ls_stacks_add(struct ls_stacks *stacks, const struct ls_rec_stack *record) {
    struct ls_raw_stack head = {.id = record->id,
                                .modules = record->modules,
                                .python = record->python,
                                .forward = record->forward,
                                .depth = record->depth,
                                .truncated = record->truncated};
    ls_db_put(stacks->db, LS_PUT_RAW_STACK, "iibzzi", (int64_t)record->id, (int64_t)record->modules,
              record->address, (int)(record->depth * sizeof record->address[0]),
              (int64_t)record->python, (int64_t)record->forward, (int64_t)record->truncated);
    keep_raw(&stacks->fresh, &head, record->address);
}

static struct ls_frame *new_frame(struct ls_stacks *stacks, const struct ls_frame_key *key,
                                  int64_t id) {
    struct ls_frame *frame = calloc(1, sizeof *frame);
    if (!frame)
        return NULL;
    frame->key = *key;
    frame->id = id;
    if (key->code)
        frame->state = LS_FRAME_NAMED;
    HASH_ADD(hh, stacks->frames, key, sizeof frame->key, frame);
    return frame;
}

static struct ls_frame *find_frame(struct ls_stacks *stacks, const struct ls_frame_key *key) {
    struct ls_frame *frame;
    HASH_FIND(hh, stacks->frames, key, sizeof *key, frame);
    return frame;
}

static struct ls_frame *intern_native(struct ls_stacks *stacks, uint32_t generation,
                                      uint64_t address) {
    /* The return address of a call that is its module's last instruction lies one past it. */
    struct ls_module *module = ls_modules_find(stacks->modules, generation, address - 1);
    struct ls_frame_key key = {NULL, module ? module->id : 0,
                               address - (module ? module->bias : 0)};
    struct ls_frame *frame = find_frame(stacks, &key);
    if (frame)
        return frame;
    frame = new_frame(stacks, &key, stacks->next_frame++);
    if (!frame)
        return NULL;
    ls_db_put(stacks->db, LS_PUT_FRAME, "izu", frame->id, key.module, key.offset);
    ls_frame_ask(stacks, frame);
    return frame;
}

static struct ls_frame *intern_python(struct ls_stacks *stacks, enum ls_frame_kind kind,
                                      const struct ls_python_frame *python) {
    const struct ls_code *code = ls_python_code(&stacks->python, python->code);
    struct ls_frame_key key = {code, kind, python->line};
    struct ls_frame *frame = find_frame(stacks, &key);
    if (frame)
        return frame;
    frame = new_frame(stacks, &key, stacks->next_frame++);
    if (frame)
        ls_db_put(stacks->db, LS_PUT_FRAME_PYTHON, "isszi", frame->id, code->name, code->file,
                  (int64_t)python->line, (int64_t)kind);
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
    waiting->depth = depth;
    waiting->next = stacks->waiting;
    stacks->waiting = waiting;
    return waiting;
}

/* Python's frames, from position `at` of the stack outwards. */
static void add_python(struct ls_stacks *stacks, struct ls_waiting *waiting, uint32_t at,
                       enum ls_frame_kind kind, const struct ls_python_list *python) {
    for (uint32_t i = 0; i < python->depth; i++)
        waiting->frame[at + i] = intern_python(stacks, kind, &python->frame[i]);
}

/* False: to be kept raw. */
static bool settle_one(struct ls_stacks *stacks, const struct ls_raw_stack *raw, bool all) {
    struct ls_python_list caller = ls_python_frames(&stacks->python, raw->python);
    struct ls_python_list forward = ls_python_frames(&stacks->python, raw->forward);
    if (!all && !(caller.known && forward.known))
        return false;
    struct ls_waiting *waiting =
        new_waiting(stacks, raw->id, raw->depth + caller.depth + forward.depth);
    int64_t node = 0;
    if (!waiting)
        return true; /* as keep_raw() */
    for (uint32_t i = 0; i < raw->depth; i++)
        waiting->frame[i] = intern_native(stacks, raw->modules, raw->address[i]);
    add_python(stacks, waiting, raw->depth, LS_FRAME_PYTHON, &caller);
    add_python(stacks, waiting, raw->depth + caller.depth, LS_FRAME_FORWARD, &forward);
    for (uint32_t i = waiting->depth; i-- > 0;)
        if (waiting->frame[i])
            node = intern_node(stacks, node, waiting->frame[i]->id);
    ls_db_put(stacks->db, LS_PUT_STACK_SITE, "izi", (int64_t)raw->id, node,
              (int64_t)(raw->truncated << LS_FRAME_NATIVE | caller.truncated << LS_FRAME_PYTHON |
                        forward.truncated << LS_FRAME_FORWARD));
    ls_db_put(stacks->db, LS_PUT_RAW_STACK_DONE, "i", (int64_t)raw->id);
    return true;
}

/* The link at the end of what is left. */
static struct ls_raw_stack **settle_list(struct ls_stacks *stacks, struct ls_raw_stack **list,
                                         bool all) {
    while (*list) {
        struct ls_raw_stack *raw = *list;
        if (!settle_one(stacks, raw, all)) {
            list = &raw->next;
            continue;
        }
        *list = raw->next;
        free(raw);
    }
    return list;
}

void ls_stacks_settle(struct ls_stacks *stacks, bool all) {
    struct ls_raw_stack **end = settle_list(stacks, &stacks->raw, all);
    *end = stacks->fresh;
    stacks->fresh = NULL;
    if (all)
        settle_list(stacks, end, all);
}

/* ---- taking up what is in the tables ---- */

static void load_raw(sqlite3_stmt *stmt, void *context) {
    struct ls_raw_stack head = {.id = (uint32_t)sqlite3_column_int64(stmt, 0),
                                .modules = (uint32_t)sqlite3_column_int64(stmt, 1),
                                .python = (uint32_t)sqlite3_column_int64(stmt, 3),
                                .forward = (uint32_t)sqlite3_column_int64(stmt, 4),
                                .depth = (uint32_t)sqlite3_column_bytes(stmt, 2) / 8,
                                .truncated = sqlite3_column_int(stmt, 5)};
    struct ls_stacks *stacks = context;
    keep_raw(&stacks->raw, &head, sqlite3_column_blob(stmt, 2)); /* of an earlier drain */
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
    struct ls_frame_key key = {NULL, sqlite3_column_int64(stmt, 1),
                               (uint64_t)sqlite3_column_int64(stmt, 2)};
    if (sqlite3_column_int(stmt, 3) != LS_FRAME_NATIVE) {
        key.module = sqlite3_column_int(stmt, 3);
        key.code = ls_python_code_named(&stacks->python, (const char *)sqlite3_column_text(stmt, 4),
                                        (const char *)sqlite3_column_text(stmt, 5));
        key.offset = (uint64_t)sqlite3_column_int64(stmt, 6);
        if (!key.code)
            return;
    }
    if (find_frame(stacks, &key) || id < 1 || id >= stacks->next_frame)
        return;
    struct ls_frame *frame = loading->frame[id] = new_frame(stacks, &key, id);
    if (frame && !key.code)
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
    struct ls_frame *frame[LS_STACK_FRAMES_MAX];
    uint32_t depth = 0;
    int64_t node = sqlite3_column_int64(stmt, 1);
    while (node >= 1 && node < loading->stacks->next_node && loading->node[node] &&
           depth < LS_STACK_FRAMES_MAX) {
        const struct ls_node_key *key = &loading->node[node]->key;
        bool known = key->frame >= 1 && key->frame < loading->stacks->next_frame;
        frame[depth++] = known ? loading->frame[key->frame] : NULL;
        node = key->parent;
    }
    struct ls_waiting *waiting = new_waiting(loading->stacks, sqlite3_column_int64(stmt, 0), depth);
    if (waiting && depth)
        memcpy(waiting->frame, frame, depth * sizeof frame[0]);
}

void ls_stacks_load(struct ls_stacks *stacks) {
    struct loading loading = {stacks, calloc((size_t)stacks->next_frame, sizeof(void *)),
                              calloc((size_t)stacks->next_node, sizeof(void *))};
    if (loading.frame && loading.node) {
        /* Names are asked for anew: the rows of inlined functions would come twice. */
        ls_db_exec(stacks->db, "UPDATE frame SET inlined_into=NULL WHERE inlined_into IS NOT NULL;"
                               "DELETE FROM frame WHERE id NOT IN (SELECT frame FROM stack)");
        ls_python_load(&stacks->python, stacks->db);
        ls_db_each(stacks->db,
                   "SELECT id,modules,addresses,python,forward,truncated FROM raw_stack", load_raw,
                   stacks);
        ls_db_each(stacks->db,
                   "SELECT id,module,offset,kind,function,file,line FROM frame ORDER BY id",
                   load_frame, &loading);
        ls_db_each(stacks->db, "SELECT id,parent,frame FROM stack ORDER BY id", load_node,
                   &loading);
        ls_db_each(stacks->db, "SELECT id,stack FROM stack_site WHERE site IS NULL", load_waiting,
                   &loading);
    }
    free(loading.frame);
    free(loading.node);
}

static void free_raw(struct ls_raw_stack *raw) {
    while (raw) {
        struct ls_raw_stack *next = raw->next;
        free(raw);
        raw = next;
    }
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
    free_raw(stacks->raw);
    free_raw(stacks->fresh);
    while (stacks->waiting) {
        struct ls_waiting *waiting = stacks->waiting;
        stacks->waiting = waiting->next;
        free(waiting);
    }
    ls_python_destroy(&stacks->python);
}
