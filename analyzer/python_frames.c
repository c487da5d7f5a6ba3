/*
 * python_frames.c - see python_frames.h. One thread; not async-signal-safe.
 */
#include "python_frames.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct ls_code_text {
    struct ls_code code;
    UT_hash_handle hh;
    size_t size;
    char text[]; /* the key: name, NUL, file, NUL */
};

struct ls_code_number {
    uint32_t id;
    const struct ls_code *code;
    UT_hash_handle hh;
};

struct ls_python_stack {
    uint32_t id, depth;
    bool truncated;
    UT_hash_handle hh;
    struct ls_python_frame frame[];
};

/* `text`: name, NUL, file, NUL. */
static const struct ls_code *intern_text(struct ls_python *python, const char *text, size_t size) {
    struct ls_code_text *known;
    HASH_FIND(hh, python->texts, text, size, known);
    if (known)
        return &known->code;
    known = calloc(1, sizeof *known + size);
    if (!known)
        return NULL;
    memcpy(known->text, text, size);
    known->size = size;
    known->code.name = known->text;
    known->code.file = known->text + strlen(known->text) + 1;
    HASH_ADD_KEYPTR(hh, python->texts, known->text, size, known);
    if (known->hh.tbl)
        return &known->code;
    free(known);
    return NULL;
}

const struct ls_code *ls_python_code_named(struct ls_python *python, const char *name,
                                           const char *file) {
    if (!file)
        return &python->unknown;
    size_t name_size = strlen(name ? name : "") + 1, file_size = strlen(file) + 1;
    char *text = malloc(name_size + file_size);
    if (!text)
        return NULL;
    memcpy(text, name ? name : "", name_size);
    memcpy(text + name_size, file, file_size);
    const struct ls_code *code = intern_text(python, text, name_size + file_size);
    free(text);
    return code;
}

static void keep_code(struct ls_python *python, uint32_t id, const struct ls_code *code) {
    struct ls_code_number *number;
    HASH_FIND(hh, python->numbers, &id, sizeof id, number);
    if (number || !code) /* told twice only by a damaged spool */
        return;
    number = calloc(1, sizeof *number);
    if (!number)
        return;
    number->id = id;
    number->code = code;
    HASH_ADD(hh, python->numbers, id, sizeof number->id, number);
    if (!number->hh.tbl)
        free(number);
}

static void keep_stack(struct ls_python *python, uint32_t id, const void *frames, uint32_t depth,
                       bool truncated) {
    struct ls_python_stack *stack;
    HASH_FIND(hh, python->stacks, &id, sizeof id, stack);
    if (stack)
        return;
    stack = calloc(1, sizeof *stack + depth * sizeof stack->frame[0]);
    if (!stack)
        return;
    stack->id = id;
    stack->depth = depth;
    stack->truncated = truncated;
    if (depth)
        memcpy(stack->frame, frames, depth * sizeof stack->frame[0]);
    HASH_ADD(hh, python->stacks, id, sizeof stack->id, stack);
    if (!stack->hh.tbl)
        free(stack);
}

void ls_python_add_code(struct ls_python *python, struct ls_trace_db *db,
                        const struct ls_rec_code *record) {
    const char *name = record->text, *file = name + strlen(name) + 1;
    ls_db_put(db, LS_PUT_RAW_CODE, "iss", (int64_t)record->id, name, file);
    keep_code(python, record->id, ls_python_code_named(python, name, file));
}

void ls_python_add_stack(struct ls_python *python, struct ls_trace_db *db,
                         const struct ls_rec_python *record) {
    ls_db_put(db, LS_PUT_RAW_PYTHON, "ibi", (int64_t)record->id, record->frame,
              (int)(record->depth * sizeof record->frame[0]), (int64_t)record->truncated);
    keep_stack(python, record->id, record->frame, record->depth, record->truncated);
}

static void load_code(sqlite3_stmt *stmt, void *context) {
    struct ls_python *python = context;
    const char *name = (const char *)sqlite3_column_text(stmt, 1);
    const char *file = (const char *)sqlite3_column_text(stmt, 2);
    keep_code(python, (uint32_t)sqlite3_column_int64(stmt, 0),
              ls_python_code_named(python, name, file));
}

static void load_stack(sqlite3_stmt *stmt, void *context) {
    keep_stack(context, (uint32_t)sqlite3_column_int64(stmt, 0), sqlite3_column_blob(stmt, 1),
               (uint32_t)sqlite3_column_bytes(stmt, 1) / sizeof(struct ls_python_frame),
               sqlite3_column_int(stmt, 2));
}

void ls_python_load(struct ls_python *python, struct ls_trace_db *db) {
    ls_db_each(db, "SELECT id,name,file FROM raw_code", load_code, python);
    ls_db_each(db, "SELECT id,frames,truncated FROM raw_python", load_stack, python);
}

struct ls_python_list ls_python_frames(const struct ls_python *python, uint32_t id) {
    struct ls_python_stack *stack = NULL;
    if (id)
        HASH_FIND(hh, python->stacks, &id, sizeof id, stack);
    if (!stack)
        return (struct ls_python_list){.known = id == 0};
    return (struct ls_python_list){stack->frame, stack->depth, stack->truncated, true};
}

const struct ls_code *ls_python_code(const struct ls_python *python, uint32_t id) {
    struct ls_code_number *number;
    HASH_FIND(hh, python->numbers, &id, sizeof id, number);
    return number ? number->code : &python->unknown;
}

void ls_python_destroy(struct ls_python *python) {
    struct ls_code_text *text, *next_text;
    struct ls_code_number *number, *next_number;
    struct ls_python_stack *stack, *next_stack;
    HASH_ITER(hh, python->numbers, number, next_number) {
        HASH_DEL(python->numbers, number);
        free(number);
    }
    HASH_ITER(hh, python->stacks, stack, next_stack) {
        HASH_DEL(python->stacks, stack);
        free(stack);
    }
    HASH_ITER(hh, python->texts, text, next_text) {
        HASH_DEL(python->texts, text);
        free(text);
    }
    memset(python, 0, sizeof *python);
}
