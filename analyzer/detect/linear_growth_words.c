/*
 * linear_growth_words.c - the findings `linear-growth`, in words and figures. See linear_growth.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../human.h"
#include "../json_text.h"
#include "linear_growth.h"
#include "thresholds.h"

#define SITES_MOST 16 /* of the lines that grow together, those that are listed */

/* Copies into or out of regions after the step that made them: whether they were ever used again.
 * -1 where there is no copy to tell by. */
static int64_t reuses(const struct ls_history *h, const struct ls_grower *g) {
    size_t count, asked = 0;
    int64_t copies = 0;
    sqlite3_stmt *stmt;
    if (g->course->history->framework && !g->course->direct)
        return -1; /* its blocks are used by kernels; nobody tells which */
    if (sqlite3_prepare_v2(h->db,
                           "SELECT COUNT(*) FROM copy WHERE start_ns > ?1 AND start_ns < ?2 AND"
                           " (dst >= ?3 AND dst < ?3 + ?4 OR src >= ?3 AND src < ?3 + ?4)",
                           -1, &stmt, NULL) != SQLITE_OK)
        return -1;
    const struct ls_span **span = ls_course_of_site(g->course, g->site, &count);
    for (size_t i = 0; i < count && asked < LS_LINEAR_PROBES; i++) {
        const struct ls_span *s = span[i];
        if (s->start_ns < g->from_ns || s->end_ns <= g->to_ns || s->stack != g->stack)
            continue;
        asked++;
        sqlite3_bind_int64(stmt, 1, s->start_ns + (int64_t)g->turn_ns);
        sqlite3_bind_int64(stmt, 2, g->to_ns);
        sqlite3_bind_int64(stmt, 3, (int64_t)s->address);
        sqlite3_bind_int64(stmt, 4, (int64_t)s->size);
        if (sqlite3_step(stmt) == SQLITE_ROW)
            copies += sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    free(span);
    return asked ? copies : -1;
}

static const char *turn_word(const struct ls_grower *g) {
    return g->loop ? "step" : "interval";
}

static double seconds_left(const struct ls_grower *g) {
    return g->left * g->turn_ns / 1e9;
}

static enum ls_severity severity_of(const struct ls_detect *d, const struct ls_grower *g,
                                    uint64_t held) {
    double share = (double)held / (double)(g->capacity > 0 ? g->capacity : d->capacity);
    bool soon = g->capacity > 0 && g->left >= 0 && g->left <= LS_LINEAR_SOON * (double)g->done;
    enum ls_severity severity = share >= LS_SHARE_PROBLEM || soon ? LS_PROBLEM
                                : share >= LS_SHARE_NEGLIGIBLE    ? LS_WARNING
                                                                  : LS_INFO;
    if (g->bare && !g->joined && severity == LS_PROBLEM)
        return LS_WARNING; /* what looks like steps may be the layers of one */
    if (g->oom)
        return LS_PROBLEM;
    if (g->released && severity == LS_PROBLEM)
        return LS_WARNING; /* it did fit, and went away */
    return severity;
}

/* "memory ran out in step 36", "the device is full at about step 60", or nothing. */
static char *when_full(const struct ls_grower *g) {
    struct ls_human a, b;
    if (g->oom && g->oom_step)
        return ls_format("; memory ran out in step %s", ls_human_count(&a, (int64_t)g->oom_step));
    if (g->oom)
        return ls_format("; then memory ran out");
    if (g->released)
        return ls_format("; then it was given back");
    if (g->left < 0 || g->left > 1e12)
        return ls_format("%s", "");
    int64_t ns = g->left * g->turn_ns > 9e18 ? INT64_MAX : (int64_t)(g->left * g->turn_ns);
    if (!g->loop)
        return ls_format("; the device is full after about %s more", ls_human_ns(&b, ns));
    return ls_format("; the device is full at about step %s",
                     ls_human_count(&a, (int64_t)((double)g->done + g->left)));
}

static void add_figures(const struct ls_history *h, const struct ls_grower *g, json_t *e) {
    json_t *callers = ls_course_callers(h->db, g->stack);
    struct ls_owner owner = ls_owner_of(h->db, g->stack, LS_MEMORY_DEVICE);
    json_object_set_new(e, "device", json_integer(h->device));
    json_object_set_new(e, g->loop ? "bytes_per_step" : "bytes_per_interval",
                        json_integer((json_int_t)(g->per_turn + 0.5)));
    json_object_set_new(e, g->loop ? "steps" : "intervals", json_integer((json_int_t)g->turns));
    if (g->loop)
        json_object_set_new(e, "loop", json_integer(g->loop));
    json_object_set_new(e, "from_bytes", json_integer((json_int_t)g->first));
    json_object_set_new(e, "to_bytes", json_integer((json_int_t)g->last));
    json_object_set_new(e, "from_ns", json_integer(g->from_ns));
    json_object_set_new(e, "to_ns", json_integer(g->to_ns));
    json_object_set_new(e, "made", json_integer((json_int_t)g->made));
    json_object_set_new(e, "made_per_turn", json_real((double)g->made / (double)g->turns));
    json_object_set_new(e, "live", json_integer((json_int_t)g->blocks));
    json_object_set_new(e, "smallest", json_integer((json_int_t)g->smallest));
    json_object_set_new(e, "largest", json_integer((json_int_t)g->largest));
    json_object_set_new(e, "peak_factor", json_integer(g->joined ? 2 : 1));
    if (g->joined)
        json_object_set_new(e, "peak_bytes", json_integer((json_int_t)(2 * g->last)));
    if (!h->framework || g->course->direct)
        json_object_set_new(e, "owner", json_string(owner.name ? owner.name : "the program"));
    int64_t copies = reuses(h, g);
    if (copies >= 0)
        json_object_set_new(e, "reuses_seen", json_integer(copies));
    json_object_set_new(e, "stack", json_integer(g->stack));
    json_object_set_new(e, "callers", callers);
    if (g->capacity > 0)
        json_object_set_new(e, "capacity", json_integer(g->capacity));
    if (g->oom) {
        json_object_set_new(e, "oom", json_integer(g->oom->id));
        if (g->oom_step)
            json_object_set_new(e, "exhausted_at_step", json_integer((json_int_t)g->oom_step));
    }
    if (g->left >= 0 && g->left < 1e12) {
        if (g->loop)
            json_object_set_new(e, "exhausts_at_step",
                                json_integer((json_int_t)((double)g->done + g->left)));
        json_object_set_new(e, "exhausts_in_s", json_real(seconds_left(g)));
    }
}

static char *why_of(const struct ls_grower *g, size_t together) {
    struct ls_human a, b, c, from, to;
    const char *shape =
        g->joined ? "Each one is a new block for the old contents and the new piece, and the old "
                    "block is there until it is filled: at its peak twice the sum is held."
        : g->regrown ? "It is one block, made larger each time."
        : together ? "These lines grow by as much in each step, as the graph behind a kept tensor "
                     "does: what one step computed for its backward pass stays."
                   : "What is made there is kept: nothing of it is given back.";
    char *sizes = g->smallest == g->largest
                      ? ls_format(" Each of the %s has %s, whatever the step's input.",
                                  ls_human_count(&a, (int64_t)g->blocks),
                                  ls_human_bytes(&b, (int64_t)g->largest))
                      : ls_format("%s", "");
    char *why = ls_format("From %s to %s, %s %s long, it grew from %s on. %s%s",
                          ls_human_ns(&from, g->from_ns), ls_human_ns(&to, g->to_ns),
                          ls_human_count(&c, (int64_t)g->turns), g->loop ? "steps" : "intervals",
                          ls_human_bytes(&a, (int64_t)g->first), shape,
                          g->blocks > 1 && !g->regrown ? sizes : "");
    free(sizes);
    return why;
}

static char *advice_of(const struct ls_detect *d, const struct ls_history *h,
                       const struct ls_grower *g, size_t together) {
    bool blocks = h->framework && !g->course->direct;
    struct ls_owner owner = ls_owner_of(h->db, g->stack, LS_MEMORY_DEVICE);
    if (blocks && g->joined)
        return ls_format(
            "Keep the pieces on the host (.cpu() for each batch, or for every few), and "
            "join them once, at the end; or reduce each piece to what is needed of it.");
    if (blocks && together)
        return ls_format(
            "Keep a number (loss.item()) or loss.detach() instead of the loss itself: a "
            "kept tensor that requires grad keeps its step's graph.");
    if (blocks)
        return ls_format(
            "Move what is kept to the host (.detach().cpu()) every few steps, or bound "
            "the list or cache that holds it. `layoutspy census` names the variable.");
    if (owner.rule == LS_OWNER_POOL)
        return ls_format(
            "Memory that %s takes and does not use again: limit its arena or let its "
            "users share one. Why it takes a new region each time is not in this trace.",
            owner.name);
    return ls_format(
        "Give each back when its work is done, or allocate once before the loop and use "
        "it again%s.",
        d->pytorch ? "" : "; bound the cache or arena that asks for them");
}

static void describe(struct ls_detect *d, const char *kind, const struct ls_history *h,
                     const struct ls_growers *all, const struct ls_grower *g, size_t together) {
    struct ls_human per, held, turns;
    struct ls_finding *f = ls_finding_add(d, kind);
    double per_turn = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < (together ? all->count : 1); i++) {
        const struct ls_grower *one = together ? &all->at[i] : g;
        per_turn += one->per_turn;
        bytes += one->last;
    }
    char *full = when_full(g);
    char *lines = together ? ls_format(", from %zu lines", all->count) : ls_format("%s", "");
    f->site = ls_format("%s", ls_history_site(h, g->site));
    f->count = (int64_t)g->blocks;
    f->bytes = (int64_t)bytes;
    f->gain_bytes = (int64_t)((double)bytes * (g->joined ? 2 : 1) - per_turn);
    if (f->gain_bytes < 0)
        f->gain_bytes = 0;
    f->severity = severity_of(d, g, bytes);
    f->title =
        ls_format("memory grows by %s a %s%s: %s after %s %ss%s%s",
                  ls_human_bytes(&per, (int64_t)(per_turn + 0.5)), turn_word(g), lines,
                  ls_human_bytes(&held, (int64_t)bytes),
                  ls_human_count(&turns, (int64_t)(g->loop ? g->done : g->turns)), turn_word(g),
                  g->joined ? ", and twice that while it is joined anew" : "", full);
    free(full);
    free(lines);
    add_figures(h, g, f->evidence);
    char *why = why_of(g, together);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    if (g->bare)
        json_object_set_new(f->evidence, "confidence", json_string("linked"));
    if (d->lost || d->abrupt)
        json_object_set_new(f->evidence, "confidence", json_string("estimated"));
    json_object_set_new(
        f->evidence, "gain",
        json_pack("{s:s}", "assumes", "that no more than one step's part has to be on the device"));
    f->advice = advice_of(d, h, g, together);
    if (!together)
        return;
    json_t *sites = json_array();
    for (size_t i = 0; i < all->count && i < SITES_MOST; i++)
        json_array_append_new(sites,
                              json_pack("{s:o, s:I, s:I}", "site",
                                        ls_json_text(ls_history_site(h, all->at[i].site)),
                                        "bytes_per_step", (json_int_t)(all->at[i].per_turn + 0.5),
                                        "bytes", (json_int_t)all->at[i].last));
    json_object_set_new(f->evidence, "sites", sites);
    json_object_set_new(f->evidence, "bytes_per_step", json_integer((json_int_t)(per_turn + 0.5)));
}

void ls_growers_report(struct ls_detect *d, const char *kind, const struct ls_history *history,
                       const struct ls_growers *all) {
    if (all->large > LS_LINEAR_SITES) {
        describe(d, kind, history, all, &all->at[0], all->count);
        return;
    }
    for (size_t i = 0; i < all->large && i < all->count; i++)
        describe(d, kind, history, all, &all->at[i], 0);
}
