/*
 * flow_place.h - what is known of memory that relayouts wrote or read: places, by the life of the
 * memory that they lie in. For flow.c alone. Main thread only.
 */
#ifndef LAYOUTSPY_DETECT_FLOW_PLACE_H
#define LAYOUTSPY_DETECT_FLOW_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../memory/history.h"

/* An address that a relayout wrote or read. */
struct ls_place {
    uint64_t address;
    uint64_t write_end;      /* of what it wrote */
    uint64_t read_end;       /* of what it read */
    size_t written;          /* the relayout whose result lies here; LS_NO_RELAYOUT: none's */
    size_t read;             /* the last relayout whose source it was; LS_NO_RELAYOUT */
    bool rewritten, touched; /* since that */
};

/* Those in one piece of memory, by address. */
struct ls_home;
struct ls_homes;

struct ls_homes *ls_homes_new(void);
void ls_homes_free(struct ls_homes *homes);

/* Of the memory that `span` is (NULL: not known), of which `address` is a part. NULL: no relayout
 * has written or read there, and none is to be made. What was known of an earlier life of the same
 * addresses is forgotten. */
struct ls_home *ls_home_of(struct ls_homes *homes, const struct ls_span *span, uint64_t address,
                           bool make);

/* The place at exactly this address, made where there is none. */
struct ls_place *ls_place_at(struct ls_home *home, uint64_t address);

/* The next place after `after` (NULL: the first one) that may reach into address to end; the caller
 * looks at its ends. NULL: there is none. */
struct ls_place *ls_place_next(struct ls_home *home, struct ls_place *after, uint64_t address,
                               uint64_t end);

/* It wrote, or read, up to there: ls_place_next() must know. */
void ls_place_reaches(struct ls_home *home, const struct ls_place *place);

#endif
