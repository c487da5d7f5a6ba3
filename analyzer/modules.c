/*
 * modules.c - see modules.h. One thread; not async-signal-safe.
 */
#include "modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ls_module *append(struct ls_modules *modules) {
    if (modules->count == modules->room) {
        size_t room = modules->room ? 2 * modules->room : 64;
        struct ls_module **more = realloc(modules->module, room * sizeof *more);
        if (!more)
            return NULL;
        modules->module = more;
        modules->room = room;
    }
    struct ls_module *module = calloc(1, sizeof *module);
    if (!module)
        return NULL;
    modules->module[modules->count++] = module;
    module->id = (int64_t)modules->count;
    return module;
}

static void build_id_text(const struct ls_module *module, char text[65]) {
    for (uint32_t i = 0; i < module->build_id_size; i++)
        snprintf(text + 2 * i, 3, "%02x", module->build_id[i]);
    text[2 * module->build_id_size] = 0;
}

void ls_modules_add(struct ls_modules *modules, struct ls_trace_db *db,
                    const struct ls_rec_module *record) {
    char id[65];
    struct ls_module *module = append(modules);
    if (!module)
        return;
    module->path = strdup(record->path);
    memcpy(module->build_id, record->build_id, sizeof module->build_id);
    module->build_id_size = record->build_id_size;
    module->bias = record->bias;
    module->start = record->start;
    module->end = record->end;
    module->since = record->modules;
    build_id_text(module, id);
    ls_db_put(db, LS_PUT_MODULE, "issuuui", module->id, record->path, id[0] ? id : NULL,
              module->bias, module->start, module->end, (int64_t)module->since);
}

void ls_modules_set_program(struct ls_modules *modules, const char *path) {
    free(modules->program);
    modules->program = strdup(path);
}

bool ls_modules_is_program(const struct ls_modules *modules, const struct ls_module *module) {
    return modules->program && strcmp(modules->program, module->path) == 0;
}

static void read_build_id(struct ls_module *module, const char *text) {
    for (uint32_t i = 0; text && i < sizeof module->build_id; i++, text += 2) {
        unsigned byte;
        if (sscanf(text, "%2x", &byte) != 1)
            break;
        module->build_id[i] = (uint8_t)byte;
        module->build_id_size = i + 1;
        if (!text[1])
            break;
    }
}

static void load_row(sqlite3_stmt *stmt, void *context) {
    struct ls_module *module = append(context);
    if (!module)
        return;
    const char *path = (const char *)sqlite3_column_text(stmt, 0);
    module->path = strdup(path ? path : "");
    read_build_id(module, (const char *)sqlite3_column_text(stmt, 1));
    module->bias = (uint64_t)sqlite3_column_int64(stmt, 2);
    module->start = (uint64_t)sqlite3_column_int64(stmt, 3);
    module->end = (uint64_t)sqlite3_column_int64(stmt, 4);
    module->since = (uint32_t)sqlite3_column_int64(stmt, 5);
}

static void load_program(sqlite3_stmt *stmt, void *context) {
    const char *path = (const char *)sqlite3_column_text(stmt, 0);
    if (path)
        ls_modules_set_program(context, path);
}

void ls_modules_load(struct ls_modules *modules, struct ls_trace_db *db) {
    ls_db_each(db, "SELECT path,build_id,bias,start,end,since FROM module ORDER BY id", load_row,
               modules);
    ls_db_each(db, "SELECT value FROM meta WHERE key='exe'", load_program, modules);
}

struct ls_module *ls_modules_find(const struct ls_modules *modules, uint32_t generation,
                                  uint64_t address) {
    struct ls_module *found = NULL;
    for (size_t i = 0; i < modules->count; i++) {
        struct ls_module *module = modules->module[i];
        if (module->start <= address && address < module->end && module->since <= generation &&
            (!found || module->since >= found->since))
            found = module;
    }
    return found;
}

struct ls_module *ls_modules_at(const struct ls_modules *modules, int64_t id) {
    return id >= 1 && (size_t)id <= modules->count ? modules->module[id - 1] : NULL;
}

void ls_modules_destroy(struct ls_modules *modules) {
    for (size_t i = 0; i < modules->count; i++) {
        free(modules->module[i]->path);
        free(modules->module[i]);
    }
    free(modules->module);
    free(modules->program);
    memset(modules, 0, sizeof *modules);
}
