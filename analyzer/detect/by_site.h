/*
 * by_site.h - what detectors gather findings by: lines of the program, and in them shapes.
 *
 * With shapes that change from call to call (a token more in each step) one line has thousands of
 * them, so they are looked up by hash; and it is the line's sum that is judged. Main thread only;
 * not for signal handlers.
 */
#ifndef LAYOUTSPY_DETECT_BY_SITE_H
#define LAYOUTSPY_DETECT_BY_SITE_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* Keys and their numbers: 0, 1, 2 ... in the order in which they came. All zero: empty. */
struct ls_numbers {
    struct ls_number *first;
    size_t count;
};

/* The key's number; a new one's is `count` of before. What lies between the members of a structure
 * counts, too: set it to 0 first. */
size_t ls_number_of(struct ls_numbers *numbers, const void *key, size_t size);
void ls_numbers_free(struct ls_numbers *numbers);

/* Numbers of sites: stacks of one line have the same one. All but `db` zero: empty. */
struct ls_sites {
    sqlite3 *db;
    struct ls_numbers stacks, texts;
    size_t *of_stack, stack_room;
    char **text; /* by number */
    size_t text_room;
};

size_t ls_site_number(struct ls_sites *sites, int64_t stack);
void ls_sites_free(struct ls_sites *sites);

#endif
