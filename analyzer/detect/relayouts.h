/*
 * relayouts.h - relayouts (flow.h) put together by the line that made them and by the call that
 * reads them: what the detectors of copies judge and tell.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_DETECT_RELAYOUTS_H
#define LAYOUTSPY_DETECT_RELAYOUTS_H

#include "../human.h"
#include "flow.h"

/* How the source lies, seen from the copy. */
enum ls_source_order {
    LS_SOURCE_ALIKE,    /* as the destination: a cast, or a copy of bytes */
    LS_SOURCE_PERMUTED, /* the dimensions lie in another order */
    LS_SOURCE_SLICE,    /* in the same order, with gaps */
    LS_SOURCE_STEPPED,  /* the same, and of the innermost dimension only every n-th element */
    LS_SOURCE_EXPANDED, /* elements are read again and again: a stride of 0 */
    LS_SOURCE_SPREAD,   /* it lies in one piece, the destination does not */
};

struct ls_relayouts {
    char *site;     /* of the copy; never NULL */
    char *operator; /* the framework's around the copy, inside of what the program called: NULL */
    char *called;   /* the outermost one, which the program called: NULL */
    char *reader;   /* the function that read it; "": none was seen */
    char *reader_role;   /* what it is to that */
    char *reader_site;   /* where, NULL: unknown or nobody */
    char *reader_called; /* the outermost operator that it ran in: NULL */
    char *library;       /* the reader's, "" */
    int64_t count, bytes, ns;
    int64_t without_times; /* launches whose time on the GPU is not known */
    int64_t steps;         /* in so many different ones */
    int64_t shapes;        /* so many different pairs of source and destination, up to 16 */
    int64_t sources;       /* so many different addresses that they were read from, up to 64 */
    int64_t touched;       /* of so many an unknown kernel was given the result before the reader */
    int64_t rewritten, source_touched; /* since the copy before of the same source */
    int64_t lasting;                   /* sources that outlive their step */
    int64_t largest_bytes;             /* of the largest copy, in all its pieces */
    int64_t largest_source;            /* what that read, each element once */
    const struct ls_relayout *largest; /* its first piece */
    const struct ls_relayout *first, *last;
};

struct ls_relayouts_list {
    struct ls_relayouts *group;
    size_t count;
};

/* Those that `wanted` says so of, by site, reader and role; `with` is handed to it. */
typedef bool ls_relayout_wanted(const struct ls_flow *flow, size_t index, const void *with);
int ls_relayouts_read(struct ls_detect *d, const struct ls_flow *flow, ls_relayout_wanted *wanted,
                      const void *with, struct ls_relayouts_list *list);
void ls_relayouts_free(struct ls_relayouts_list *list);

/* Mark all of one group as told by this kind: no later detector tells of them. */
void ls_relayouts_tell(const struct ls_flow *flow, ls_relayout_wanted *wanted, const void *with,
                       const char *kind);

/* False: nothing is known of copies in this trace; where there may be some, `skipped` says why. */
bool ls_relayouts_known(struct ls_detect *d, const struct ls_flow *flow, const char *kind);

/* The run's share of it is below what anybody would notice. */
bool ls_copies_negligible(const struct ls_detect *d, int64_t ns, int64_t bytes);
bool ls_relayouts_negligible(const struct ls_detect *d, const struct ls_relayouts *g);
enum ls_severity ls_relayouts_severity(const struct ls_detect *d, int64_t gain_ns,
                                       int64_t gain_bytes);

enum ls_source_order ls_source_order(const struct ls_relayout *r);

/* Of any order but SPREAD and EXPANDED: the innermost dimension is read in steps. */
bool ls_source_is_stepped(const struct ls_relayout *r);

/* Whether it is an operator that the program calls for the copy alone. */
bool ls_copy_is_asked_for(const char *operator);

/* The copy is what another operator than the reader's does (pixel_shuffle, pad): it was not made
 * for the reader, whose layout has no part in it. */
bool ls_copy_is_the_work(const struct ls_relayouts *g);

/* The reader could take the source as it lies: a product's matrix of which one stride is 1. */
bool ls_reader_takes_source(const struct ls_relayout *r);

/* The advice then; to be freed. */
char *ls_needless_words(const struct ls_relayouts *g);

/* "a permuted view", "every 2nd element of a row" ...; to be freed. */
char *ls_source_words(const struct ls_relayout *r);

/* "once", "1,234 times". */
const char *ls_times_words(struct ls_human *h, int64_t count);

/* A new finding of the group: count, bytes, time, gain, site, and the evidence that all have. */
struct ls_finding *ls_relayouts_finding(struct ls_detect *d, const struct ls_flow *flow,
                                        const struct ls_relayouts *g, const char *kind,
                                        int64_t gain_ns);

/* A copy's two sides, for the evidence. */
json_t *ls_relayout_json(const struct ls_relayout *r);

/* " (operand b)", or "" where the role says nothing. In `into`, which is handed back. */
const char *ls_operand_words(const struct ls_relayouts *g, char *into, size_t size);

#endif
