/*
 * human.h - sizes, times and counts as a person reads them.
 *
 * Each function writes into the caller's buffer and returns it, so several fit one printf():
 * use a `struct ls_human` of its own for each. Any thread; not for signal handlers.
 */
#ifndef LAYOUTSPY_HUMAN_H
#define LAYOUTSPY_HUMAN_H

#include <stdint.h>

struct ls_human {
    char text[40];
};

const char *ls_human_bytes(struct ls_human *h, int64_t bytes);  /* 512 bytes, 1.50 MiB */
const char *ls_human_ns(struct ls_human *h, int64_t ns);        /* 850 ns, 12.4 ms, 3 min 20 s */
const char *ls_human_count(struct ls_human *h, int64_t count);  /* 1,234,567 */
const char *ls_human_share(struct ls_human *h, double share);   /* 0.042 is "4.2 %" */
const char *ls_human_date(struct ls_human *h, int64_t real_ns); /* local time, to the second */

/* "copy" or "copies": the word for `count`. */
const char *ls_plural(int64_t count, const char *one, const char *many);

#endif
