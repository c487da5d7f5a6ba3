/*
 * oom_remains.h - what a failed step leaves behind when its exception is kept, into the retry.
 *
 * An exception holds the frames that it came through, and they hold their tensors. Main thread
 * only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OOM_REMAINS_H
#define LAYOUTSPY_OOM_REMAINS_H

#include "oom_facts.h"

/* One oom whose step left something. */
struct ls_oom_left {
    const struct ls_oom *first;
    int64_t bytes, blocks; /* of the failed step, still live when the retry began */
    int64_t proven;        /* of them: held by an exception, as the census saw; -1: no census */
    int64_t retry_ns;      /* when the retry made its first block */
    int64_t until_ns;      /* when the last of them was given back, or LS_NEVER */
    int64_t made_after;    /* bytes of blocks made since the retry began, while they were there */
    size_t consequences;   /* ooms that would not have been without them */
    char *below;           /* the frame below which all of them were made */
    char *site;            /* the line that called it */
    bool backward;         /* it failed in a backward pass */
    json_t *holders;       /* array of site, bytes, blocks */
    json_t *later;         /* array of oom, ts_ns, requested, site, outlived, consequence */
};

struct ls_oom_remains {
    struct ls_oom_left *left;
    size_t count;
};

/* Sets `cause` of ooms that are consequences. To be freed. */
struct ls_oom_remains *ls_oom_remains_find(struct ls_detect *d, struct ls_ooms *all);
void ls_oom_remains_free(struct ls_oom_remains *remains);

#endif
