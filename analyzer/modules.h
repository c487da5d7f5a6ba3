/*
 * modules.h - which file was mapped at an address, at which moment of the recording.
 *
 * The recording numbers its moments: each unload begins a new module generation, and the modules
 * that stacks lie in are told anew in it. A program that loads and unloads plugins all day has
 * many thousand generations of a few modules: a module has one row, however often it was told, and
 * a place knows by generation which module lay there.
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_MODULES_H
#define LAYOUTSPY_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_db.h"

struct ls_module {
    int64_t id; /* its row, from 1 */
    char *path;
    uint8_t build_id[32];
    uint32_t build_id_size;
    uint64_t bias, start, end;
    uint32_t since; /* generation in which it was told first */
};

/* A range of addresses, and which module it was from which generation on. */
struct ls_module_place {
    uint64_t start, end;
    struct ls_module_told {
        uint32_t since;
        struct ls_module *module;
    } * told; /* by generation */
    size_t count, room;
};

struct ls_modules {
    struct ls_module **module; /* in order of id */
    size_t count, room;
    struct ls_module_place *place;
    size_t places, place_room;
    char *program; /* path of the main program, once it is known */
};

/* From the records, into the table. Out of memory: the module stays unknown. */
void ls_modules_add(struct ls_modules *modules, struct ls_trace_db *db,
                    const struct ls_rec_module *record);
void ls_modules_set_program(struct ls_modules *modules, const char *path);

/* From the table, when a recording is taken up again. */
void ls_modules_load(struct ls_modules *modules, struct ls_trace_db *db);

/* The module at `address` in `generation`, or NULL. */
struct ls_module *ls_modules_find(const struct ls_modules *modules, uint32_t generation,
                                  uint64_t address);

bool ls_modules_is_program(const struct ls_modules *modules, const struct ls_module *module);

/* By row number, or NULL. */
struct ls_module *ls_modules_at(const struct ls_modules *modules, int64_t id);

void ls_modules_destroy(struct ls_modules *modules);

#endif
