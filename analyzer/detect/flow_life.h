/*
 * flow_life.h - which block or allocation holds an address at a moment. Main thread only.
 */
#ifndef LAYOUTSPY_DETECT_FLOW_LIFE_H
#define LAYOUTSPY_DETECT_FLOW_LIFE_H

#include "../memory/history.h"

struct ls_lives;

/* Of one device's history, which is borrowed. */
struct ls_lives *ls_lives_new(const struct ls_history *history);
void ls_lives_free(struct ls_lives *lives);

/* NULL: nothing that was recorded. */
const struct ls_span *ls_life_at(const struct ls_lives *lives, uint64_t address, int64_t ts_ns);

/* It is one of history->direct: its id is of another table than those of the others. */
bool ls_life_is_direct(const struct ls_lives *lives, const struct ls_span *span);

#endif
