/*
 * modules.h - which code is mapped where, as far as recorded stacks need to know.
 *
 * An address means the same code only within one generation: the number of dlclose() calls so far
 * (dlclose is interposed for this alone). Modules are found per address, by _dl_find_object, which
 * takes no lock: dl_iterate_phdr holds one that fork() would copy into the child, held.
 */
#ifndef LS_MODULES_H
#define LS_MODULES_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* The module that holds some code. False: none does. No lock from glibc 2.35 on. */
struct ls_module {
    const struct link_map *map;
    const char *start, *end;
};
bool ls_module_find(void *code, struct ls_module *found);

/* The generation that addresses taken now belong to. One load. */
uint32_t ls_modules_generation(void);

/* Write MODULE records for those of the addresses' modules that have none in this generation.
 * Before the STACK record that holds the addresses. */
void ls_modules_describe(struct ls_thread *self, void *const *address, uint32_t count,
                         uint32_t generation);

void ls_modules_fork_reset(void);

#endif
