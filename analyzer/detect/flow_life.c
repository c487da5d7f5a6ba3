/*
 * flow_life.c - see flow_life.h. Main thread only.
 *
 * Spans are kept by address, then by begin: those of one address follow each other in time, so of
 * each address one span at most is looked at. An address inside a block is looked for downwards.
 */
#include "flow_life.h"

#include <stdlib.h>

#include "../room.h"

#define ADDRESSES_MOST 4096 /* that begin between a block's begin and an address in it */

struct ls_lives {
    const struct ls_history *history;
    const struct ls_span **span; /* by address, then start_ns */
    size_t spans;
    size_t *first; /* of each address: its first span; one more at the end */
    size_t addresses;
};

static int by_address(const void *a, const void *b) {
    const struct ls_span *x = *(const struct ls_span *const *)a;
    const struct ls_span *y = *(const struct ls_span *const *)b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static void add(struct ls_lives *lives, const struct ls_span *span, size_t count) {
    for (size_t i = 0; i < count; i++)
        lives->span[lives->spans++] = &span[i];
}

struct ls_lives *ls_lives_new(const struct ls_history *history) {
    struct ls_lives *lives = ls_new(1, sizeof *lives);
    size_t count = history->spans + history->directs;
    lives->history = history;
    lives->span = ls_new(count, sizeof(struct ls_span *));
    lives->first = ls_new(count + 1, sizeof *lives->first);
    add(lives, history->span, history->spans);
    add(lives, history->direct, history->directs);
    qsort(lives->span, count, sizeof(struct ls_span *), by_address);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || lives->span[i]->address != lives->span[i - 1]->address)
            lives->first[lives->addresses++] = i;
    lives->first[lives->addresses] = count;
    return lives;
}

void ls_lives_free(struct ls_lives *lives) {
    if (!lives)
        return;
    free(lives->span);
    free(lives->first);
    free(lives);
}

/* The last span of the n-th address that had begun by then, if it had not ended; else NULL. */
static const struct ls_span *alive(const struct ls_lives *lives, size_t n, int64_t ts_ns) {
    size_t low = lives->first[n], high = lives->first[n + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lives->span[middle]->start_ns <= ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    const struct ls_span *span = low > lives->first[n] ? lives->span[low - 1] : NULL;
    return span && ts_ns < span->free_ns ? span : NULL;
}

const struct ls_span *ls_life_at(const struct ls_lives *lives, uint64_t address, int64_t ts_ns) {
    size_t low = 0, high = lives->addresses; /* the first address above */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lives->span[lives->first[middle]]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t n = low, looked = 0; n > 0 && looked < ADDRESSES_MOST; looked++) {
        const struct ls_span *span = alive(lives, --n, ts_ns);
        if (span)
            return address - span->address < span->size ? span : NULL;
    }
    return NULL;
}

bool ls_life_is_direct(const struct ls_lives *lives, const struct ls_span *span) {
    const struct ls_history *history = lives->history;
    return history->directs && span >= history->direct && span < history->direct + history->directs;
}
