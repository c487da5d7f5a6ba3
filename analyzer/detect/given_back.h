/*
 * given_back.h - memory that was given back to the driver and asked for again: by whom, how often,
 * how much, and what the calls took.
 *
 * For `cache-flush-stall`. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_GIVEN_BACK_H
#define LAYOUTSPY_GIVEN_BACK_H

#include "detect.h"

enum ls_give_trigger {
    LS_GIVE_PRESSURE, /* a request had failed: to make it succeed */
    LS_GIVE_EXPLICIT, /* a pool was told to (torch.cuda.empty_cache) */
    LS_GIVE_LIMIT,    /* a pool by itself, at a limit set for it */
    LS_GIVE_OWN,      /* no pool: the program's own frees */
};

/* Returns of one device and trigger; of one site, but under pressure of all. */
struct ls_give {
    int device;
    enum ls_give_trigger trigger;
    const char *pool; /* its name, static; NULL: the program itself */
    char *site;       /* that gave back; "" under pressure */
    char *caller; /* EXPLICIT, of Python: "FILE:LINE FUNCTION" that called empty_cache(), or NULL */
    bool framework;  /* and that is the framework itself */
    int64_t flushes; /* times: frees with no request of the same pool in between. OWN: frees that
                        were asked for again */
    int64_t frees, bytes;        /* given back. OWN: as for flushes */
    int64_t requests, again;     /* calls that asked again, and bytes of it */
    int64_t free_ns, request_ns; /* in both */
    int64_t first_ns, last_ns;   /* of the flushes */
    int64_t request_stack;       /* of the largest request, stack_site.id or 0 */
    int64_t request_size;
    struct ls_give *next;
};

/* Everything that was given back; SQLITE_OK or the code of the query that failed. Free the list,
 * also then, with ls_give_free(). */
int ls_give_read(struct ls_detect *d, struct ls_give **list);
void ls_give_free(struct ls_give *list);

/* The site of a stack (stack_site.id), to be freed. */
char *ls_give_site(sqlite3 *db, int64_t stack);

#endif
