/*
 * modules.c - see modules.h. One thread; not async-signal-safe.
 */
#include "modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "begun.h"

/* Room for one more in an array of `size`-byte elements. False: out of memory. */
static bool make_room(void *array, size_t count, size_t *room, size_t size) {
    void **at = array;
    if (count < *room)
        return true;
    size_t more = *room ? 2 * *room : 16;
    void *moved = realloc(*at, more * size);
    if (!moved)
        return false;
    *at = moved;
    *room = more;
    return true;
}

static struct ls_module *append(struct ls_modules *modules) {
    if (!make_room(&modules->module, modules->count, &modules->room, sizeof *modules->module))
        return NULL;
    struct ls_module *module = calloc(1, sizeof *module);
    if (!module)
        return NULL;
    modules->module[modules->count++] = module;
    module->id = (int64_t)modules->count;
    return module;
}

static struct ls_module_place *place_of(struct ls_modules *modules,
                                        const struct ls_module *module) {
    for (size_t i = 0; i < modules->places; i++)
        if (modules->place[i].start == module->start && modules->place[i].end == module->end)
            return &modules->place[i];
    if (!make_room(&modules->place, modules->places, &modules->place_room, sizeof *modules->place))
        return NULL;
    struct ls_module_place *place = &modules->place[modules->places++];
    *place = (struct ls_module_place){.start = module->start, .end = module->end};
    return place;
}

/* The last one told in `generation` or before: its index + 1, 0 for none. */
static size_t told_by(const struct ls_module_place *place, uint32_t generation) {
    return LS_BEGUN(place->told, place->count, since, generation);
}

/* `module` lies in its place from `since` on. */
static void tell(struct ls_modules *modules, struct ls_module *module, uint32_t since) {
    struct ls_module_place *place = place_of(modules, module);
    if (!place || !make_room(&place->told, place->count, &place->room, sizeof *place->told))
        return;
    size_t at = told_by(place, since);
    memmove(place->told + at + 1, place->told + at, (place->count - at) * sizeof *place->told);
    place->told[at] = (struct ls_module_told){since, module};
    place->count++;
}

static bool is_same(const struct ls_module *module, const struct ls_rec_module *record) {
    return module->start == record->start && module->end == record->end &&
           module->bias == record->bias && module->build_id_size == record->build_id_size &&
           memcmp(module->build_id, record->build_id, record->build_id_size) == 0 &&
           strcmp(module->path, record->path) == 0;
}

static void build_id_text(const struct ls_module *module, char text[65]) {
    for (uint32_t i = 0; i < module->build_id_size; i++)
        snprintf(text + 2 * i, 3, "%02x", module->build_id[i]);
    text[2 * module->build_id_size] = 0;
}

void ls_modules_add(struct ls_modules *modules, struct ls_trace_db *db,
                    const struct ls_rec_module *record) {
    char id[65];
    for (size_t i = 0; i < modules->count; i++) {
        if (is_same(modules->module[i], record)) {
            tell(modules, modules->module[i], record->modules);
            return;
        }
    }
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
    tell(modules, module, module->since);
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
    tell(context, module, module->since);
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
    const struct ls_module_told *found = NULL;
    for (size_t i = 0; i < modules->places; i++) {
        const struct ls_module_place *place = &modules->place[i];
        if (address < place->start || address >= place->end)
            continue;
        size_t told = told_by(place, generation);
        if (told > 0 && (!found || place->told[told - 1].since >= found->since))
            found = &place->told[told - 1];
    }
    return found ? found->module : NULL;
}

struct ls_module *ls_modules_at(const struct ls_modules *modules, int64_t id) {
    return id >= 1 && (size_t)id <= modules->count ? modules->module[id - 1] : NULL;
}

void ls_modules_destroy(struct ls_modules *modules) {
    for (size_t i = 0; i < modules->count; i++) {
        free(modules->module[i]->path);
        free(modules->module[i]);
    }
    for (size_t i = 0; i < modules->places; i++)
        free(modules->place[i].told);
    free(modules->place);
    free(modules->module);
    free(modules->program);
    memset(modules, 0, sizeof *modules);
}
