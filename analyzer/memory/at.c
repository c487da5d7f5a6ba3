/*
 * at.c - moments as a person names them. See at.h.
 *
 * One thread; not async-signal-safe.
 */
#include "at.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "growth.h"

static bool parse_seconds(const char *text, struct ls_at *at) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || (*end && strcmp(end, "s") != 0) || !(seconds >= 0 && seconds < 9e9))
        return false;
    at->kind = LS_AT_TIME;
    at->ts_ns = (int64_t)(seconds * 1e9 + 0.5);
    return true;
}

/* "WORD" or, where it may have one, "WORD:N". */
static bool parse_word(const char *text, const char *word, bool numbered, struct ls_at *at) {
    size_t length = strlen(word);
    char *end;
    if (strncmp(text, word, length) != 0)
        return false;
    if (!text[length])
        return true;
    if (!numbered || text[length] != ':' || text[length + 1] < '0' || text[length + 1] > '9')
        return false;
    errno = 0;
    at->number = strtoll(text + length + 1, &end, 10);
    return !*end && !errno && at->number > 0;
}

bool ls_at_parse(const char *text, struct ls_at *at) {
    static const struct {
        const char *word;
        enum ls_at_kind kind;
        bool numbered;
    } words[] = {{"peak", LS_AT_PEAK, false},
                 {"reserved", LS_AT_RESERVED, false},
                 {"end", LS_AT_END, false},
                 {"oom", LS_AT_OOM, true},
                 {"step", LS_AT_STEP, true}};
    *at = (struct ls_at){0};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (parse_word(text, words[i].word, words[i].numbered, at)) {
            at->kind = words[i].kind;
            return at->kind != LS_AT_STEP || at->number > 0;
        }
    return parse_seconds(text, at);
}

static int64_t find_oom(const struct ls_at *at, const struct ls_oom_events *events, char *why,
                        size_t size) {
    const struct ls_oom_event *oom = ls_oom_events_first_lost(events);
    char words[80];
    if (at->number)
        oom = (size_t)at->number <= events->count ? &events->oom[at->number - 1] : NULL;
    if (oom)
        return oom->ts_ns;
    if (events->count)
        snprintf(why, size, "the recording has %zu %s where memory ran out: %s", events->count,
                 ls_plural((int64_t)events->count, "event", "events"),
                 ls_oom_events_words(events, words, sizeof words));
    else
        snprintf(why, size, "memory never ran out");
    return -1;
}

static int64_t find_step(const struct ls_at *at, const struct ls_history *h, char *why,
                         size_t size) {
    size_t steps;
    int loop = ls_growth_loop(h, &steps);
    int64_t n = 0;
    for (size_t i = 0; i < h->steps && steps; i++)
        if (h->step[i].loop == loop && ++n == at->number)
            return h->step[i].start_ns;
    snprintf(why, size, steps ? "the recording has %zu steps" : "the recording has no steps",
             steps);
    return -1;
}

int64_t ls_at_find(const struct ls_at *at, const struct ls_history *history,
                   const struct ls_oom_events *events, char *why, size_t size) {
    int64_t ts_ns = -1;
    switch (at->kind) {
    case LS_AT_TIME:
        if (at->ts_ns <= history->end_ns)
            return at->ts_ns;
        snprintf(why, size, "the recording has %.9g seconds", (double)history->end_ns / 1e9);
        return -1;
    case LS_AT_PEAK:
        ts_ns = ls_peak_live_ns(history, NULL);
        break;
    case LS_AT_RESERVED:
        ts_ns = ls_peak_reserved_ns(history, NULL);
        break;
    case LS_AT_END:
        return history->end_ns;
    case LS_AT_OOM:
        return find_oom(at, events, why, size);
    case LS_AT_STEP:
        return find_step(at, history, why, size);
    }
    if (ts_ns < 0)
        snprintf(why, size, "no memory was recorded on the device");
    return ts_ns;
}
