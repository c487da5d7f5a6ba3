/*
 * mark.h - what the program itself says about its course: steps, ranges, instants.
 */
#ifndef LS_MARK_H
#define LS_MARK_H

#include <stdint.h>

#include "layoutspy/format.h"

#define LS_MARK_TEXT 240 /* bytes of a text that are kept */

/*
 * Write a MARK record now. Only where this process is being recorded: marks alone start no
 * recording. `text` is UTF-8 and may be cut. Any thread; errno is kept.
 */
void ls_mark(enum ls_mark kind, uint64_t value, uint64_t domain, const char *text);

/* The same, of something that happened at `ticks`; 0: before the recording. */
void ls_mark_at(enum ls_mark kind, uint64_t ticks, uint64_t value, uint64_t domain,
                const char *text);

/* Bytes of a text that are kept: at most LS_MARK_TEXT, and whole characters. */
uint32_t ls_mark_length(const char *text);

#endif
