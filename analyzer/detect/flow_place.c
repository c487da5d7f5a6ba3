/*
 * flow_place.c - see flow_place.h. Main thread only; not for signal handlers.
 *
 * A table by the first address of the memory; in it places sorted by address. Most pieces of memory
 * have one place, a pool that is one piece has thousands.
 */
#include "flow_place.h"

#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../room.h"
#include "flow.h"

struct ls_home {
    uint64_t begin;
    const struct ls_span *span;
    struct ls_place *place;
    size_t count, room;
    uint64_t longest; /* of any place: so far back one can lie that reaches an address */
    UT_hash_handle hh;
};

struct ls_homes {
    struct ls_home *by_begin;
};

struct ls_homes *ls_homes_new(void) {
    return ls_new(1, sizeof(struct ls_homes));
}

void ls_homes_free(struct ls_homes *homes) {
    struct ls_home *home, *next;
    if (!homes)
        return;
    HASH_ITER(hh, homes->by_begin, home, next) {
        HASH_DEL(homes->by_begin, home);
        free(home->place);
        free(home);
    }
    free(homes);
}

struct ls_home *ls_home_of(struct ls_homes *homes, const struct ls_span *span, uint64_t address,
                           bool make) {
    uint64_t begin = span ? span->address : address;
    struct ls_home *home;
    HASH_FIND(hh, homes->by_begin, &begin, sizeof begin, home);
    if (home && home->span != span) {
        home->span = span;
        home->count = 0;
        home->longest = 0;
    }
    if (home || !make)
        return home && home->count + (size_t)make ? home : NULL;
    home = ls_new(1, sizeof *home);
    home->begin = begin;
    home->span = span;
    HASH_ADD(hh, homes->by_begin, begin, sizeof home->begin, home);
    return home;
}

/* The first place that is not below the address. */
static size_t not_below(const struct ls_home *home, uint64_t address) {
    size_t low = 0, high = home->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (home->place[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct ls_place *ls_place_at(struct ls_home *home, uint64_t address) {
    size_t n = not_below(home, address);
    if (n < home->count && home->place[n].address == address)
        return &home->place[n];
    home->place = ls_room(home->place, home->count, &home->room, sizeof *home->place);
    memmove(&home->place[n + 1], &home->place[n], (home->count++ - n) * sizeof *home->place);
    home->place[n] = (struct ls_place){.address = address,
                                       .write_end = address,
                                       .read_end = address,
                                       .written = LS_NO_RELAYOUT,
                                       .read = LS_NO_RELAYOUT};
    return &home->place[n];
}

struct ls_place *ls_place_next(struct ls_home *home, struct ls_place *after, uint64_t address,
                               uint64_t end) {
    size_t n = after ? (size_t)(after - home->place) + 1
                     : not_below(home, address > home->longest ? address - home->longest : 0);
    for (; n < home->count && home->place[n].address < end; n++) {
        struct ls_place *place = &home->place[n];
        if (place->write_end > address || place->read_end > address)
            return place;
    }
    return NULL;
}

void ls_place_reaches(struct ls_home *home, const struct ls_place *place) {
    uint64_t end = place->write_end > place->read_end ? place->write_end : place->read_end;
    if (end - place->address > home->longest)
        home->longest = end - place->address;
}
