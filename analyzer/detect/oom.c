/*
 * oom.c - `oom`: the program asked for memory and there was none, by site and cause.
 *
 * Needs: the ooms (oom_facts.h). Cost: the request that failed. Ooms that are consequences of an
 * earlier one's remains are told as info: `oom-cascade` has the cause. A warning where the program
 * went on after the last one. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "oom_advice.h"
#include "oom_after.h"
#include "oom_facts.h"
#include "thresholds.h"

static bool same_group(const struct ls_oom *x, const struct ls_oom *y) {
    return x->verdict == y->verdict && x->device == y->device && !x->cause == !y->cause &&
           x->backward == y->backward && strcmp(x->site, y->site) == 0;
}

static void put_known(json_t *evidence, const char *name, int64_t value) {
    json_object_set_new(evidence, name, value >= 0 ? json_integer(value) : json_null());
}

/* What happened in it, in order. */
static json_t *sequence_of(sqlite3 *db, const struct ls_oom *o) {
    static const char *const what[] = {NULL,
                                       "request failed",
                                       "memory given back",
                                       "waited for the device",
                                       "asked what is free",
                                       "request succeeded",
                                       "allocator reported it"};
    json_t *list = json_array();
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, "SELECT kind, bytes, id FROM oom_call WHERE oom = ? ORDER BY id", -1,
                           &stmt, NULL) != SQLITE_OK)
        return list;
    sqlite3_bind_int64(stmt, 1, o->id);
    while (sqlite3_step(stmt) == SQLITE_ROW && json_array_size(list) < 4 * LS_ROWS_SHOWN) {
        int kind = sqlite3_column_int(stmt, 0);
        if (kind < 1 || (size_t)kind >= sizeof what / sizeof what[0])
            continue;
        json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "what", what[kind], "bytes",
                                              (json_int_t)sqlite3_column_int64(stmt, 1), "call",
                                              (json_int_t)sqlite3_column_int64(stmt, 2)));
    }
    sqlite3_finalize(stmt);
    return list;
}

static json_t *holders_of(const struct ls_oom *o) {
    json_t *list = json_array();
    for (size_t i = 0; o->has_state && i < o->state.holders && i < LS_SITES_SHOWN; i++) {
        const struct ls_holder_of *h = &o->state.holder[i];
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:I}", "site",
                            ls_json_text(ls_history_site(o->history, h->site)), "bytes",
                            (json_int_t)h->bytes, "blocks", (json_int_t)h->blocks, "oldest_age_ns",
                            (json_int_t)(h->oldest ? o->ts_ns - h->oldest->start_ns : 0)));
    }
    return list;
}

static void put_figures(sqlite3 *db, const struct ls_oom *o, json_t *evidence) {
    json_object_set_new(evidence, "verdict", json_string(ls_oom_verdict_name(o->verdict)));
    put_known(evidence, "device", o->device);
    put_known(evidence, "requested", o->requested);
    put_known(evidence, "asked_of_driver", o->asked);
    put_known(evidence, "capacity", o->capacity);
    put_known(evidence, "allocated", o->allocated);
    put_known(evidence, "reserved", o->reserved);
    put_known(evidence, "gap", o->reserved - o->allocated);
    put_known(evidence, "pending", o->pending);
    put_known(evidence, "cached", o->cached);
    put_known(evidence, "device_free", o->driver_free);
    json_object_set_new(evidence, "device_free_told", json_boolean(o->driver_free_told));
    put_known(evidence, "missing", o->missing);
    put_known(evidence, "largest_hole", o->hole);
    put_known(evidence, "beside_the_allocator", o->direct);
    put_known(evidence, "held_by_others", o->others);
    put_known(evidence, "attempts", o->attempts);
    put_known(evidence, "given_back_bytes", o->flushed_bytes);
    json_object_set_new(evidence, "sequence", sequence_of(db, o));
    json_object_set_new(evidence, "holders", holders_of(o));
}

static void put_rows(const struct ls_ooms *all, size_t first, struct ls_finding *f) {
    json_t *rows = json_array();
    for (size_t i = first; i < all->count; i++) {
        const struct ls_oom *o = &all->oom[i];
        if (!same_group(o, &all->oom[first]))
            continue;
        f->count++;
        if (json_array_size(rows) < LS_ROWS_SHOWN)
            json_array_append_new(rows, json_pack("{s:I, s:I, s:I}", "oom", (json_int_t)o->id,
                                                  "ts_ns", (json_int_t)o->ts_ns, "requested",
                                                  (json_int_t)o->requested));
    }
    json_object_set_new(f->evidence, "rows", rows);
}

/* A figure that was worked out and not told, or events that are missing. */
static const char *confidence_of(const struct ls_detect *d, const struct ls_oom *o) {
    if (d->lost)
        return "estimated";
    return o->verdict == LS_OOM_FITTING || o->verdict == LS_OOM_OTHER_POOL || !o->driver_free_told
               ? "linked"
               : "seen";
}

static const struct ls_oom *last_of(const struct ls_ooms *all, size_t first) {
    size_t last = first;
    for (size_t i = first; i < all->count; i++)
        if (same_group(&all->oom[i], &all->oom[first]))
            last = i;
    return &all->oom[last];
}

#define BACKWARD " in the backward of this line"
#define TITLE_BEGINS "Out of memory" /* as each of ls_oom_title()'s */

static char *backward_title(const struct ls_oom *o) {
    char *plain = ls_oom_title(o);
    char *title = ls_format(TITLE_BEGINS BACKWARD "%s", plain + strlen(TITLE_BEGINS));
    free(plain);
    return title;
}

/* The program caught the error and went on: that is worth a change, but no end. */
static void soften(struct ls_finding *f, const struct ls_oom_after *after) {
    struct ls_human steps, launches, time;
    char *title = f->title, *advice = f->advice;
    f->severity = LS_WARNING;
    if (after->steps >= LS_WENT_ON_STEPS)
        f->title = ls_format("%s; the program caught it and went on for %s steps", title,
                             ls_human_count(&steps, after->steps));
    else
        f->title =
            ls_format("%s; the program caught it and went on (%s launches in %s)", title,
                      ls_human_count(&launches, after->launches), ls_human_ns(&time, after->ns));
    f->advice = ls_format("%s What the attempt had done until then is lost each time, and so is "
                          "the allocator's cache.",
                          advice);
    json_object_set_new(f->evidence, "went_on",
                        json_pack("{s:I, s:I, s:I, s:I}", "steps", (json_int_t)after->steps,
                                  "launches", (json_int_t)after->launches, "allocations",
                                  (json_int_t)after->allocations, "ns", (json_int_t)after->ns));
    free(title);
    free(advice);
}

static void add(struct ls_detect *d, const struct ls_ooms *all, size_t at) {
    const struct ls_oom *o = &all->oom[at];
    struct ls_oom_after after = ls_oom_after(d, all, last_of(all, at));
    struct ls_finding *f = ls_finding_add(d, "oom");
    struct ls_human count, asked;
    f->severity = o->cause ? LS_INFO : LS_PROBLEM;
    f->site = ls_format("%s", o->site);
    f->bytes = o->requested;
    json_object_set_new(f->evidence, "confidence", json_string(confidence_of(d, o)));
    json_object_set_new(f->evidence, "backward", json_boolean(o->backward));
    put_figures(d->db, o, f->evidence);
    put_rows(all, at, f);
    char *why = ls_oom_why(o);
    if (o->cause) {
        f->title =
            ls_format("Out of memory again%s, %s %s, after a failed step whose memory was still "
                      "held: %s asked for",
                      o->backward ? BACKWARD : "", ls_human_count(&count, f->count),
                      ls_plural(f->count, "time", "times"), ls_human_bytes(&asked, o->requested));
        f->advice = ls_format("A consequence: see oom-cascade. Without what the first one left, "
                              "this request would have had room.");
        json_object_set_new(f->evidence, "cause", json_integer(o->cause->id));
    } else {
        f->title = o->backward ? backward_title(o) : ls_oom_title(o);
        f->advice = ls_oom_advice(d, all, o);
        if (after.went_on)
            soften(f, &after);
    }
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int rc;
    const struct ls_ooms *all = ls_ooms_of(d, &rc);
    size_t *first = all ? calloc(all->count + 1, sizeof *first) : NULL, groups = 0;
    (void)self;
    if (all && !first)
        ls_detect_no_memory();
    for (size_t i = 0; all && i < all->count; i++) {
        size_t g = 0;
        while (g < groups && !same_group(&all->oom[first[g]], &all->oom[i]))
            g++;
        if (g == groups)
            first[groups++] = i;
    }
    for (size_t g = 0; g < groups; g++)
        add(d, all, first[g]);
    free(first);
    return rc;
}

const struct ls_detector ls_detect_oom = {"oom", run};
