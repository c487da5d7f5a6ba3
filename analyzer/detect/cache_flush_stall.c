/*
 * cache_flush_stall.c - `cache-flush-stall`: time lost in giving memory back to the driver and
 * asking for it again.
 *
 * Needs: the allocations, and of memory pressure the table `oom`. Cost: the host's time in the
 * calls, frees above all, each of which waits for the whole device. Four triggers, with different
 * things to do: a request that failed first (memory pressure), a pool that was told to empty
 * itself, a pool at a limit set for it, and a program without a pool. Main thread only; not for
 * signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "detect.h"
#include "given_back.h"
#include "thresholds.h"

#define HOLDERS 3 /* who held most while memory was short, as evidence */
#define SITES 5   /* whose requests failed first, as evidence */

/* What a finding is made of. */
struct stall {
    const struct ls_give *give;
    int64_t time_ns, steps;
    double per_step; /* flushes; 0: the program has no steps meanwhile */
    bool in_loop;
    int64_t attempts, failed_ns, waited_ns; /* under pressure: requests that failed, waits */
    int64_t worst_ns;                       /* when the longest one was */
    int64_t unfit;   /* of the flushes: the cache held enough, but not so that it served */
    int64_t pending; /* of the flushes: a good part was given back, but in use by other streams */
    bool explained;  /* by another finding: sizes that never come again, or pending memory */
};

static const char *const trigger_name[] = {
    [LS_GIVE_PRESSURE] = "memory pressure",
    [LS_GIVE_EXPLICIT] = "explicit",
    [LS_GIVE_LIMIT] = "limit of the pool",
    [LS_GIVE_OWN] = "the program's own frees",
};

static int64_t query_int2(sqlite3 *db, const char *sql, int64_t a, int64_t b) {
    sqlite3_stmt *stmt;
    int64_t value = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, a);
        sqlite3_bind_int64(stmt, 2, b);
        if (sqlite3_step(stmt) == SQLITE_ROW)
            value = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    return value;
}

/* As often as the loop goes round, or nearly; where there is no loop to compare with, often. */
static void judge_repetition(const struct ls_detect *d, struct stall *s) {
    const struct ls_give *g = s->give;
    s->steps = query_int2(d->db, "SELECT COUNT(*) FROM step WHERE end_ns >= ?1 AND start_ns <= ?2",
                          g->first_ns, g->last_ns);
    if (s->steps > 0)
        s->per_step = (double)g->flushes / (double)s->steps;
    s->in_loop = s->steps > 0 && g->flushes >= LS_FLUSHES ? s->per_step * LS_FLUSH_EVERY >= 1
                                                          : g->flushes >= LS_REPEATED;
}

/* Requests that failed and were served in the end: their other costs. */
static void read_pressure(const struct ls_detect *d, struct stall *s) {
    int64_t device = s->give->device;
    s->attempts = query_int2(
        d->db, "SELECT SUM(attempts) FROM oom WHERE recovered = 1 AND device = ?1 AND ?2", device,
        1);
    static const char time[] =
        "SELECT SUM(duration_ns) FROM oom JOIN oom_call ON oom_call.oom = oom.id"
        " JOIN call ON call.id = oom_call.id"
        " WHERE oom.recovered = 1 AND oom.device = ?1 AND oom_call.kind = ?2";
    s->failed_ns = query_int2(d->db, time, device, 1);
    s->waited_ns = query_int2(d->db, time, device, 3);
    s->pending = query_int2(d->db,
                            "SELECT COUNT(*) FROM oom WHERE recovered = 1 AND device = ?1 AND"
                            " pending * 2 >= asked * ?2",
                            device, 1);
    s->unfit = query_int2(d->db,
                          "SELECT COUNT(*) FROM oom WHERE recovered = 1 AND device = ?1 AND"
                          " cached >= asked * ?2",
                          device, 1);
    s->worst_ns =
        query_int2(d->db,
                   "SELECT ts_ns FROM oom WHERE recovered = 1 AND device = ?1 AND ?2"
                   " ORDER BY COALESCE(flush_ns, 0) + COALESCE(waited_ns, 0) DESC LIMIT 1",
                   device, 1);
}

/* Sites whose requests failed first, the most time first; the first of them into f->site. */
static json_t *pressure_sites(const struct ls_detect *d, const struct stall *s,
                              struct ls_finding *f) {
    json_t *sites = json_array();
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(
            d->db,
            "SELECT COALESCE((SELECT site FROM stack_site WHERE stack_site.id = oom.stack), ?2) AS s,"
            " COUNT(*), SUM(COALESCE(flush_ns, 0) + COALESCE(waited_ns, 0)) AS time,"
            " MAX(requested) FROM oom WHERE recovered = 1 AND device = ?1"
            " GROUP BY s ORDER BY time DESC, s LIMIT ?3",
            -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int(stmt, 1, s->give->device);
        sqlite3_bind_text(stmt, 2, LS_SITE_UNKNOWN, -1, SQLITE_STATIC);
        sqlite3_bind_int(stmt, 3, SITES);
        while (sqlite3_step(stmt) == SQLITE_ROW) {
            const char *site = (const char *)sqlite3_column_text(stmt, 0);
            if (!f->site)
                f->site = ls_format("%s", site);
            json_array_append_new(
                sites, json_pack("{s:o, s:I, s:I, s:I}", "site", ls_json_text(site), "count",
                                 (json_int_t)sqlite3_column_int64(stmt, 1), "time_ns",
                                 (json_int_t)sqlite3_column_int64(stmt, 2), "largest_request",
                                 (json_int_t)sqlite3_column_int64(stmt, 3)));
        }
    }
    sqlite3_finalize(stmt);
    return sites;
}

/* Who held the memory when it was short: what there is to shrink. */
static json_t *pressure_holders(struct ls_detect *d, const struct stall *s, char **first) {
    json_t *holders = json_array();
    const struct ls_history *history = ls_detect_history(d, s->give->device);
    struct ls_state state;
    struct ls_human bytes;
    *first = NULL;
    if (!history)
        return holders;
    ls_state_at(history, s->worst_ns, &state);
    for (size_t i = 0; i < state.holders && i < HOLDERS; i++) {
        const struct ls_holder_of *h = &state.holder[i];
        const char *site = ls_history_site(history, h->site);
        json_array_append_new(holders,
                              json_pack("{s:o, s:I, s:I}", "site", ls_json_text(site), "bytes",
                                        (json_int_t)h->bytes, "blocks", (json_int_t)h->blocks));
        if (i == 0)
            *first = ls_format("%s holds %s", site, ls_human_bytes(&bytes, (int64_t)h->bytes));
    }
    ls_state_free(&state);
    return holders;
}

static enum ls_severity severity_of(const struct ls_detect *d, const struct stall *s) {
    const struct ls_give *g = s->give;
    double share = ls_share_of_run(d, s->time_ns);
    bool noise = s->time_ns < LS_NOISE_NS;
    if (s->explained)
        return LS_INFO;            /* another finding says why */
    if (g->trigger == LS_GIVE_OWN) /* the only cost is the time: without it this is a way to live */
        return noise || share < LS_SHARE_WARNING || !s->in_loop ? LS_INFO
               : share >= LS_SHARE_PROBLEM                      ? LS_PROBLEM
                                                                : LS_WARNING;
    if (g->again * 2 < g->bytes)
        return LS_INFO; /* somebody else had use for most of it */
    if (share >= LS_SHARE_PROBLEM && !noise)
        return s->in_loop ? LS_PROBLEM : LS_WARNING;
    if (g->trigger == LS_GIVE_PRESSURE)
        return g->flushes >= LS_FLUSHES ? LS_WARNING : LS_INFO;
    /* What a framework does for a call of its own (a capture) is no loop of the user's. */
    return s->in_loop && !g->framework && share >= LS_SHARE_NEGLIGIBLE ? LS_WARNING : LS_INFO;
}

static char *title_of(const struct stall *s) {
    const struct ls_give *g = s->give;
    struct ls_human count, bytes, again, time, rate;
    char per_step[60] = "";
    ls_human_count(&count, g->flushes);
    ls_human_bytes(&bytes, g->bytes);
    ls_human_bytes(&again, g->again);
    ls_human_ns(&time, s->time_ns);
    if (s->steps > 0 && s->in_loop)
        snprintf(per_step, sizeof per_step, " (%.1f a step)", s->per_step);
    const char *times = ls_plural(g->flushes, "time", "times");
    switch (g->trigger) {
    case LS_GIVE_PRESSURE:
        return ls_format("Memory ran short %s %s%s: %s of cache given back to make room, %s asked "
                         "for again, %s of host time",
                         count.text, times, per_step, bytes.text, again.text, time.text);
    case LS_GIVE_EXPLICIT:
        return ls_format(
            "%s was emptied %s %s%s: %s given back, %s asked for again, %s of host time", g->pool,
            count.text, times, per_step, bytes.text, again.text, time.text);
    case LS_GIVE_LIMIT:
        return ls_format(
            "%s met the limit set for it %s %s%s: %s given back, %s asked for again, %s "
            "of host time",
            g->pool, count.text, times, per_step, bytes.text, again.text, time.text);
    default:
        return ls_format("Memory was freed and allocated again in the same size %s %s%s: %s, %s of "
                         "host time (%s each)",
                         count.text, times, per_step, bytes.text, time.text,
                         ls_human_ns(&rate, s->time_ns / g->flushes));
    }
}

static char *why_of(const struct stall *s) {
    const struct ls_give *g = s->give;
    struct ls_human mean;
    ls_human_ns(&mean, g->free_ns / g->frees);
    switch (g->trigger) {
    case LS_GIVE_PRESSURE:
        return ls_format(
            "A request to the driver failed, so cached memory was given back, and the "
            "request was made again. Each free waits for all work of the device (%s on "
            "average) and the next step has to ask for the memory anew. One that "
            "finds nothing to give back is an out-of-memory error.",
            mean.text);
    case LS_GIVE_EXPLICIT:
        return ls_format("No request had failed before. What the cache held was free for the next "
                         "request without a call; given back, each piece costs a free, which waits "
                         "for all work of the device (%s on average), and another allocation.",
                         mean.text);
    case LS_GIVE_LIMIT:
        return ls_format(
            "The pool gives back what it has not used for long once it holds more than "
            "the share that was set; here the program asked for it again. Each free "
            "waits for all work of the device (%s on average).",
            mean.text);
    default:
        return ls_format("Each cudaFree waits for all work of the device (%s on average): until "
                         "then the host queues nothing, and streams that could overlap do not.",
                         mean.text);
    }
}

static bool expandable(const struct ls_detect *d) {
    return ls_query_int(d->db, 0,
                        "SELECT EXISTS(SELECT 1 FROM allocation WHERE kind = 6 AND holder = 3)") >
           0;
}

static char *advice_of(const struct ls_detect *d, const struct stall *s, const char *holder) {
    const struct ls_give *g = s->give;
    struct ls_human size;
    bool torch = d->pytorch && g->pool;
    char *request = NULL, *advice;
    switch (g->trigger) {
    case LS_GIVE_PRESSURE:
        if (s->pending * 2 > g->flushes)
            return ls_format(
                "What was missing had been given back, but other streams still used it: "
                "let their work end sooner, or free what they used later.");
        if (s->unfit * 2 > g->flushes)
            return ls_format(
                "Let the next request fit what is cached, which was enough each time: the same "
                "stream, and few different sizes%s. Emptying the cache by hand does not help: it is "
                "what happens here.",
                torch && !expandable(d) ? ", or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, "
                                          "with which pieces grow and shrink"
                                        : "");
        return ls_format(
            "Make what is held smaller%s%s%s: smaller batches%s. Emptying the cache by "
            "hand does not help: it is what happens here.",
            holder ? " (" : "", holder ? holder : "", holder ? ")" : "",
            torch ? ", or in training fewer stored activations (checkpointing)" : "");
    case LS_GIVE_EXPLICIT:
        if (!s->in_loop)
            return ls_format("Nothing to do at this rate. Inside a loop it would cost each time.");
        if (g->framework)
            return ls_format("PyTorch itself does this (%s): do once what calls it, and keep the "
                             "result.",
                             g->caller);
        if (g->caller && strcmp(g->caller, g->site) != 0)
            return ls_format("A library calls torch.cuda.empty_cache() for you (%s): look for its "
                             "option, or another version of it.",
                             g->caller);
        return ls_format(
            "Remove the call%s; if another program needs the memory, call it once "
            "where it does. It frees nothing that the program's own next request could "
            "not have used.",
            torch ? " to torch.cuda.empty_cache()" : "");
    case LS_GIVE_LIMIT:
        return ls_format("Raise the limit%s, or make what is held smaller.",
                         torch ? " (garbage_collection_threshold in PYTORCH_CUDA_ALLOC_CONF)" : "");
    default:
        request = ls_give_site(d->db, g->request_stack);
        advice = ls_format("Allocate once before the loop and keep the memory (requested at %s, %s "
                           "at most), or take it from a pool: cudaMallocAsync and cudaFreeAsync.",
                           request, ls_human_bytes(&size, g->request_size));
        free(request);
        return advice;
    }
}

static void add_evidence(struct ls_detect *d, const struct stall *s, struct ls_finding *f) {
    const struct ls_give *g = s->give;
    char *request = ls_give_site(d->db, g->request_stack);
    json_t *more = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:o, s:I, s:{s:s, s:s}}",
        "trigger", trigger_name[g->trigger], "flushes", g->flushes, "frees", g->frees,
        "returned_bytes", g->bytes, "requested_again_bytes", g->again, "requests", g->requests,
        "free_ns", g->free_ns, "request_ns", g->request_ns, "steps", s->steps, "per_step",
        s->per_step, "first_ns", g->first_ns, "last_ns", g->last_ns, "request_site",
        ls_json_text(g->requests ? request : LS_SITE_UNKNOWN), "device", (json_int_t)g->device,
        "gain", "confidence", "estimated", "assumes",
        g->trigger == LS_GIVE_PRESSURE ? "nothing has to be given back"
                                       : "the memory is kept, the device has room for it, and the "
                                         "host has other work meanwhile");
    json_object_update(f->evidence, more);
    json_decref(more);
    free(request);
    if (g->caller)
        json_object_set_new(f->evidence, "called_by", ls_json_text(g->caller));
    if (g->pool)
        json_object_set_new(f->evidence, "pool", ls_json_text(g->pool));
    if (d->lost)
        json_object_set_new(f->evidence, "lost_events", json_integer(d->lost));
}

static void add_pressure(struct ls_detect *d, const struct stall *s, struct ls_finding *f,
                         char **holder) {
    json_object_set_new(f->evidence, "sites", pressure_sites(d, s, f));
    json_object_set_new(f->evidence, "holders", pressure_holders(d, s, holder));
    json_object_set_new(f->evidence, "pending", json_integer(s->pending));
    json_object_set_new(f->evidence, "failed_requests", json_integer(s->attempts));
    json_object_set_new(f->evidence, "cache_was_enough", json_integer(s->unfit));
    json_object_set_new(f->evidence, "failed_ns", json_integer(s->failed_ns));
    json_object_set_new(f->evidence, "waited_ns", json_integer(s->waited_ns));
}

/* Ever new sizes make a pool ask and give back: that finding names the line that asks, and in its
 * evidence those that give back. */
static bool of_pool_misses(const struct ls_detect *d, const char *site) {
    for (size_t i = 0; i < d->finding_count; i++) {
        const struct ls_finding *f = &d->finding[i];
        size_t k;
        json_t *free_site;
        if (strcmp(f->kind, "pool-miss") != 0)
            continue;
        if (strcmp(f->site, site) == 0)
            return true;
        json_array_foreach(json_object_get(f->evidence, "free_sites"), k, free_site) {
            if (strcmp(json_string_value(free_site), site) == 0)
                return true;
        }
    }
    return false;
}

static void add_finding(struct ls_detect *d, const struct ls_detector *self,
                        const struct ls_give *g) {
    struct stall s = {.give = g, .time_ns = g->free_ns + g->request_ns};
    char *holder = NULL;
    judge_repetition(d, &s);
    if (g->trigger == LS_GIVE_PRESSURE) {
        read_pressure(d, &s);
        s.time_ns += s.failed_ns + s.waited_ns;
    } else if (g->flushes < 2 || !g->again ||
               (g->trigger == LS_GIVE_OWN &&
                (!s.in_loop || ls_share_of_run(d, s.time_ns) < LS_SHARE_NEGLIGIBLE))) {
        return; /* once is nothing to tell of */
    }
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = g->flushes;
    f->bytes = g->bytes;
    f->time_ns = f->gain_ns = s.time_ns;
    if (g->trigger == LS_GIVE_PRESSURE)
        add_pressure(d, &s, f, &holder);
    else
        f->site = ls_format("%s", g->site);
    if (!f->site)
        f->site = ls_format("%s", LS_SITE_UNKNOWN);
    s.explained = s.pending * 2 > g->flushes || of_pool_misses(d, f->site);
    f->severity = severity_of(d, &s);
    f->title = title_of(&s);
    f->advice = advice_of(d, &s, holder);
    free(holder);
    char *why = why_of(&s);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    add_evidence(d, &s, f);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct ls_give *list;
    int rc = ls_give_read(d, &list);
    for (const struct ls_give *g = list; rc == SQLITE_OK && g; g = g->next)
        add_finding(d, self, g);
    ls_give_free(list);
    return rc;
}

const struct ls_detector ls_detect_cache_flush_stall = {"cache-flush-stall", run};
