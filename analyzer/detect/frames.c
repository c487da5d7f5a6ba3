/*
 * frames.c - stacks as lists of Python frames. See frames.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../room.h"
#include "../stack_walk.h"
#include "detect.h"

struct entry {
    uint32_t stack;
    struct ls_frames frames;
    UT_hash_handle hh;
};

struct ls_frame_cache {
    sqlite3_stmt *stmt;
    struct entry *entries;
};

struct ls_frame_cache *ls_frame_cache_new(sqlite3 *db) {
    struct ls_frame_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        ls_detect_no_memory();
    sqlite3_prepare_v2(
        db,
        LS_STACK_WALK
        "SELECT COALESCE(function, '?\?'), COALESCE(file, '?'), COALESCE(line, 0), kind = 2 FROM walk "
        "JOIN stack ON stack.id = node JOIN frame ON frame.id = stack.frame WHERE kind <> 0 "
        "ORDER BY depth DESC",
        -1, &cache->stmt, NULL);
    return cache;
}

void ls_frame_cache_free(struct ls_frame_cache *cache) {
    struct entry *e, *next;
    if (!cache)
        return;
    HASH_ITER(hh, cache->entries, e, next) {
        HASH_DEL(cache->entries, e);
        for (size_t i = 0; i < e->frames.count; i++) {
            free(e->frames.at[i].function);
            free(e->frames.at[i].file);
        }
        free(e->frames.at);
        free(e);
    }
    sqlite3_finalize(cache->stmt);
    free(cache);
}

static void read_frames(struct ls_frame_cache *cache, struct entry *e) {
    size_t room = 0;
    if (!cache->stmt || e->stack == 0)
        return;
    sqlite3_bind_int64(cache->stmt, 1, e->stack);
    while (sqlite3_step(cache->stmt) == SQLITE_ROW) {
        e->frames.at = ls_room(e->frames.at, e->frames.count, &room, sizeof *e->frames.at);
        e->frames.at[e->frames.count++] = (struct ls_frame_line){
            ls_format("%s", sqlite3_column_text(cache->stmt, 0)),
            ls_format("%s", sqlite3_column_text(cache->stmt, 1)),
            sqlite3_column_int(cache->stmt, 2),
            sqlite3_column_int(cache->stmt, 3) != 0,
        };
    }
    sqlite3_reset(cache->stmt);
}

const struct ls_frames *ls_frames_of(struct ls_frame_cache *cache, uint32_t stack) {
    struct entry *e;
    HASH_FIND(hh, cache->entries, &stack, sizeof stack, e);
    if (!e) {
        e = calloc(1, sizeof *e);
        if (!e)
            ls_detect_no_memory();
        e->stack = stack;
        read_frames(cache, e);
        HASH_ADD(hh, cache->entries, stack, sizeof e->stack, e);
    }
    return &e->frames;
}

bool ls_frame_same_function(const struct ls_frame_line *x, const struct ls_frame_line *y) {
    return strcmp(x->function, y->function) == 0 && strcmp(x->file, y->file) == 0;
}

bool ls_frame_same_line(const struct ls_frame_line *x, const struct ls_frame_line *y) {
    return x->line == y->line && ls_frame_same_function(x, y);
}

size_t ls_frames_common(const struct ls_frames *x, const struct ls_frames *y) {
    size_t common = 0;
    while (common < x->count && common < y->count &&
           ls_frame_same_line(&x->at[common], &y->at[common]))
        common++;
    return common;
}

char *ls_frame_text(const struct ls_frame_line *frame) {
    return ls_format("%s:%d %s", frame->file, frame->line, frame->function);
}
