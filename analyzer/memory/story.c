/*
 * story.c - one out-of-memory error of a trace, and what was around it. See story.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "story.h"

#include <jansson.h>
#include <stdlib.h>

#include "../query.h"
#include "../room.h"
#include "history_own.h"

#define COMPLETED_MOST 32

static void find_largest(struct ls_story *story) {
    const struct ls_history *h = story->history;
    const struct ls_span *largest = NULL;
    for (size_t i = 0; i < h->spans && h->span[i].start_ns < story->oom->ts_ns; i++)
        if (!largest || h->span[i].size > largest->size)
            largest = &h->span[i];
    if (largest) {
        story->largest_before = largest->size;
        story->largest_site = ls_history_site(h, largest->site);
    }
}

static void find_unaccounted(struct ls_story *story) {
    const struct ls_oom_event *oom = story->oom;
    story->unaccounted = -1;
    if (oom->device_free < 0 || oom->device_total < 0)
        return;
    int64_t held = oom->reserved >= 0 ? oom->reserved : oom->allocated;
    story->unaccounted = oom->device_total - oom->device_free - (held > 0 ? held : 0) -
                         (int64_t)story->state.direct - (int64_t)story->others.bytes;
    if (story->unaccounted < 0)
        story->unaccounted = 0;
}

/* The census that was made because of it; else because of its cause; else one made for no event:
 * that of another event tells of another moment. */
static void find_census(struct ls_story *story, sqlite3 *db) {
    sqlite3_stmt *stmt;
    int64_t id = 0;
    if (sqlite3_prepare_v2(db,
                           "SELECT id FROM census WHERE oom IN (?1, ?2) OR oom IS NULL"
                           " ORDER BY oom IS NULL, oom IS NOT ?1, id DESC",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, story->oom ? story->oom->id : 0);
        sqlite3_bind_int64(stmt, 2, story->cause ? story->cause->id : 0);
        if (sqlite3_step(stmt) == SQLITE_ROW)
            id = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    if (id == 0 && !story->oom)
        id = ls_census_last(db);
    story->has_census = id > 0 && ls_census_load(&story->census, db, id);
}

/* ---- later errors ---- */

/* {"cause": oom.id, "later": [{"oom", "outlived", "consequence"}]} of a finding. */
static void judge(struct ls_story *story, json_t *evidence) {
    json_t *later = json_object_get(evidence, "later"), *one;
    size_t i;
    int64_t cause = json_integer_value(json_object_get(evidence, "cause"));
    json_array_foreach(later, i, one) {
        int64_t id = json_integer_value(json_object_get(one, "oom"));
        if (story->oom && id == story->oom->id && ls_story_number(story, cause) &&
            json_is_true(json_object_get(one, "consequence"))) {
            story->cause = &story->events.oom[ls_story_number(story, cause) - 1];
            story->cause_left = json_integer_value(json_object_get(one, "outlived"));
        }
        for (size_t k = 0; k < story->after_count && story->oom->id == cause; k++)
            if (story->after[k].oom->id == id) {
                story->after[k].consequence = json_is_true(json_object_get(one, "consequence"));
                story->after[k].outlived = json_integer_value(json_object_get(one, "outlived"));
            }
    }
}

static int find_after(struct ls_story *story, sqlite3 *db) {
    const struct ls_oom_events *events = &story->events;
    sqlite3_stmt *stmt;
    story->after = ls_new(events->count, sizeof *story->after);
    for (size_t i = story->number; story->oom && i < events->count; i++)
        if (!events->oom[i].recovered)
            story->after[story->after_count++].oom = &events->oom[i];
    int rc = sqlite3_prepare_v2(db, "SELECT evidence FROM finding WHERE kind = 'oom-cascade'", -1,
                                &stmt, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        json_t *evidence = json_loads(text ? text : "", 0, NULL);
        judge(story, evidence);
        json_decref(evidence);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- the whole ---- */

static size_t choose(const struct ls_oom_events *events, size_t number) {
    const struct ls_oom_event *first = ls_oom_events_first_lost(events);
    if (number == 0)
        return first ? (size_t)(first - events->oom) + 1 : 0;
    return number <= events->count ? number : 0;
}

static int look_around(struct ls_story *story, const struct ls_trace *trace,
                       struct ls_histories *histories) {
    struct ls_oom_event *oom = &story->events.oom[story->number - 1];
    story->oom = oom;
    story->history = ls_histories_get(histories, oom->device);
    if (!story->history)
        return sqlite3_errcode(trace->db);
    ls_state_at(story->history, oom->ts_ns, &story->state);
    ls_oom_event_complete(oom, story->history, &story->state);
    ls_growth_load(story->history, &story->growth);
    ls_holders_at(story->history, &story->growth, &story->state, &story->holders);
    ls_others_find(&story->others, trace->db, trace->path, oom->device, oom->ts_ns);
    find_largest(story);
    find_unaccounted(story);
    return SQLITE_OK;
}

static bool lacks_figures(const struct ls_oom_event *oom) {
    return oom->allocated < 0 ||
           (oom->by_allocator && (oom->reserved < 0 || oom->pending < 0 || oom->largest_hole < 0));
}

/* A recording without an end lacks figures in every row; that of many matters to nobody. */
static int complete_others(struct ls_story *story, struct ls_histories *histories) {
    int done = 0;
    for (size_t i = 0; i < story->events.count && done < COMPLETED_MOST; i++) {
        struct ls_oom_event *oom = &story->events.oom[i];
        struct ls_state state;
        if (oom == story->oom || !lacks_figures(oom))
            continue;
        const struct ls_history *history = ls_histories_get(histories, oom->device);
        if (!history)
            return sqlite3_errcode(histories->db);
        ls_state_at(history, oom->ts_ns, &state);
        ls_oom_event_complete(oom, history, &state);
        ls_state_free(&state);
        done++;
    }
    return SQLITE_OK;
}

int ls_story_load(struct ls_story *story, const struct ls_trace *trace,
                  struct ls_histories *histories, size_t number) {
    *story = (struct ls_story){.unaccounted = -1};
    if (!ls_oom_events_load(&story->events, trace->db))
        return sqlite3_errcode(trace->db);
    story->number = choose(&story->events, number);
    int rc = story->number ? look_around(story, trace, histories) : SQLITE_OK;
    if (rc == SQLITE_OK)
        rc = complete_others(story, histories);
    if (rc == SQLITE_OK)
        rc = find_after(story, trace->db);
    if (rc == SQLITE_OK)
        find_census(story, trace->db);
    return rc;
}

size_t ls_story_number(const struct ls_story *story, int64_t id) {
    for (size_t i = 0; i < story->events.count; i++)
        if (story->events.oom[i].id == id)
            return i + 1;
    return 0;
}

void ls_story_free(struct ls_story *story) {
    if (story->has_census)
        ls_census_free(&story->census);
    ls_holders_free(&story->holders);
    ls_others_free(&story->others);
    ls_growth_free(&story->growth);
    ls_state_free(&story->state);
    ls_oom_events_free(&story->events);
    free(story->after);
    *story = (struct ls_story){0};
}
