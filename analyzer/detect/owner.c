/*
 * owner.c - whose memory an allocation is. See owner.h; the rules are in owners.def.
 *
 * Collector and analyzer; one thread; not for signal handlers.
 */
#include "owner.h"

#include <fnmatch.h>
#include <stdbool.h>

#include "../stack_walk.h"
#include "detect.h"

enum { ANY, HOST };

static const struct {
    const char *path;
    int kinds;
    enum ls_owner_rule rule;
    const char *name;
} rules[] = {
#define OWNER(path, kinds, rule, name) {path, kinds, LS_OWNER_##rule, name},
#include "owners.def"
};

struct ls_owner ls_owner_of_module(const char *path, int memory_kind) {
    bool host = memory_kind == LS_MEMORY_PINNED || memory_kind == LS_MEMORY_REGISTERED;
    for (size_t i = 0; path && i < sizeof rules / sizeof rules[0]; i++)
        if ((rules[i].kinds == ANY || host) && fnmatch(rules[i].path, path, 0) == 0)
            return (struct ls_owner){rules[i].rule, rules[i].name};
    return (struct ls_owner){LS_OWNER_USER, NULL};
}

struct ls_owner ls_owner_of(sqlite3 *db, int64_t stack, int memory_kind) {
    struct ls_owner owner = {LS_OWNER_USER, NULL};
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(
            db,
            LS_STACK_WALK
            "SELECT (SELECT path FROM module WHERE module.id = frame.module)"
            " FROM walk JOIN stack ON stack.id = node JOIN frame ON frame.id = stack.frame"
            " ORDER BY depth",
            -1, &stmt, NULL) != SQLITE_OK)
        return owner;
    sqlite3_bind_int64(stmt, 1, stack);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        owner = ls_owner_of_module((const char *)sqlite3_column_text(stmt, 0), memory_kind);
        if (owner.rule != LS_OWNER_PASS)
            break;
    }
    sqlite3_finalize(stmt);
    if (owner.rule == LS_OWNER_PASS)
        owner = (struct ls_owner){LS_OWNER_USER, NULL};
    return owner;
}
