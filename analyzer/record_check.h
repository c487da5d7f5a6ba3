/*
 * record_check.h - is a record of the spool well formed?
 *
 * Any thread; no state.
 */
#ifndef LAYOUTSPY_RECORD_CHECK_H
#define LAYOUTSPY_RECORD_CHECK_H

#include <stdint.h>

#include "layoutspy/format.h"

/*
 * The size in bytes of the record at `data`, of which `room` bytes can be read, or 0 if it is not
 * a record that this version's writer makes. After a positive answer every field can be used, and
 * every string in it ends inside it.
 */
uint32_t ls_record_check(const void *data, uint64_t room);

/* The two or three strings of META and COVERAGE. part: 0, 1 or 2. */
const char *ls_record_text(const struct ls_rec_text *record, int part);

#endif
