/*
 * leak.c - `leak`: memory that was never freed; and `library-memory`: what a framework's pool or a
 * CUDA library still held, which is expected.
 *
 * Needs: the allocations. Cost: the bytes held. A leak is told from a buffer that is kept on
 * purpose by what else happened at its site: does it grow, were its siblings freed, does the
 * program free anything at all? Memory that cudaDeviceReset took away counts as never freed where
 * it grew. Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ending.h"
#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "course.h"
#include "detect.h"
#include "owner.h"
#include "thresholds.h"

/* The allocations of one stack, then of one site: `held` are those that nothing freed. */
struct group {
    struct ls_owner owner;
    char *site;
    char *api;
    int kind;
    int64_t stack; /* one of them, the one that holds most */
    int64_t made, freed;
    int64_t held, bytes;
    int64_t reset; /* of the held ones: ended by a device reset */
    int64_t smallest, largest;
    int64_t first_ns, last_ns;
    int64_t last_freed_ns; /* start of the youngest that was freed */
    unsigned quarters;     /* of the run, in which held ones began: bits */
};

struct groups {
    struct group *at;
    size_t count, room;
};

static struct group *add_group(struct groups *all) {
    all->at = ls_room(all->at, all->count, &all->room, sizeof *all->at);
    memset(&all->at[all->count], 0, sizeof *all->at);
    return &all->at[all->count++];
}

static const char held_sql[] =
    "SELECT stack, COALESCE((SELECT site FROM stack_site WHERE stack_site.id = g.stack), ?1),"
    " COALESCE((SELECT name FROM api WHERE api.id = g.api), 'unknown'), kind, made, freed, held,"
    " bytes, reset, smallest, largest, first_ns, last_ns, last_freed_ns, q1 + 2 * q2 + 4 * q3 + 8 * q4 FROM ("
    "SELECT stack, kind, api, COUNT(*) AS made, SUM(NOT held) AS freed, SUM(held) AS held,"
    " SUM(CASE WHEN held THEN size ELSE 0 END) AS bytes, SUM(end_reason = 1) AS reset,"
    " MIN(CASE WHEN held THEN size END) AS smallest, MAX(CASE WHEN held THEN size END) AS largest,"
    " MIN(CASE WHEN held THEN start_ns END) AS first_ns,"
    " MAX(CASE WHEN held THEN start_ns END) AS last_ns,"
    " MAX(CASE WHEN NOT held THEN start_ns END) AS last_freed_ns,"
    " MAX(held AND start_ns < ?2 + ?3) AS q1,"
    " MAX(held AND start_ns >= ?2 + ?3 AND start_ns < ?2 + 2 * ?3) AS q2,"
    " MAX(held AND start_ns >= ?2 + 2 * ?3 AND start_ns < ?2 + 3 * ?3) AS q3,"
    " MAX(held AND start_ns >= ?2 + 3 * ?3) AS q4 FROM ("
    " SELECT *, end_ns IS NULL OR COALESCE(end_reason, 0) = 1 AS held FROM allocation"
    " WHERE kind IN (1, 2, 3, 4, 5, 7) AND (end_ns IS NOT NULL OR address NOT IN ("
    /* Workspaces of handles that are still there: library_workspace.c tells of them. */
    "  SELECT address FROM library_handle WHERE kind = 4 AND address IS NOT NULL AND block IS NULL"
    "  AND handle NOT IN (SELECT handle FROM library_handle GROUP BY handle"
    "   HAVING MAX(CASE kind WHEN 2 THEN id END) > MAX(CASE kind WHEN 1 THEN id END))"
    " ))) GROUP BY stack, kind, api) AS g WHERE held > 0";

static int read_groups(struct ls_detect *d, struct groups *all) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(d->db, held_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    int64_t quarter = (d->end_ns - d->begin_ns) / 4;
    sqlite3_bind_text(stmt, 1, LS_SITE_UNKNOWN, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, d->begin_ns);
    sqlite3_bind_int64(stmt, 3, quarter > 0 ? quarter : 1);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct group *g = add_group(all);
        int64_t *const number[] = {&g->made,    &g->freed,        &g->held,    &g->bytes,
                                   &g->reset,   &g->smallest,     &g->largest, &g->first_ns,
                                   &g->last_ns, &g->last_freed_ns};
        g->stack = sqlite3_column_int64(stmt, 0);
        g->site = ls_format("%s", sqlite3_column_text(stmt, 1));
        g->api = ls_format("%s", sqlite3_column_text(stmt, 2));
        g->kind = sqlite3_column_int(stmt, 3);
        for (int i = 0; i < 10; i++)
            *number[i] = sqlite3_column_int64(stmt, 4 + i);
        g->quarters = (unsigned)sqlite3_column_int(stmt, 14);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int compare_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) : (a != NULL) - (b != NULL);
}

/* Groups that make one finding: the user's by site, kind and api; an owner's by kind. */
static int by_finding(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    int order = compare_text(x->owner.name, y->owner.name);
    if (order == 0)
        order = x->kind - y->kind;
    if (order == 0 && x->owner.rule == LS_OWNER_USER)
        order = compare_text(x->site, y->site);
    if (order == 0 && x->owner.rule == LS_OWNER_USER)
        order = compare_text(x->api, y->api);
    return order;
}

/* Add `from` to `into`; the larger one gives site and stack. */
static void merge(struct group *into, struct group *from) {
    if (from->bytes > into->bytes) {
        char *site = into->site, *api = into->api;
        into->site = from->site;
        into->api = from->api;
        into->stack = from->stack;
        from->site = site;
        from->api = api;
    }
    into->made += from->made;
    into->freed += from->freed;
    into->held += from->held;
    into->bytes += from->bytes;
    into->reset += from->reset;
    into->quarters |= from->quarters;
    if (from->smallest < into->smallest)
        into->smallest = from->smallest;
    if (from->largest > into->largest)
        into->largest = from->largest;
    if (from->first_ns < into->first_ns)
        into->first_ns = from->first_ns;
    if (from->last_ns > into->last_ns)
        into->last_ns = from->last_ns;
    if (from->last_freed_ns > into->last_freed_ns)
        into->last_freed_ns = from->last_freed_ns;
}

static const char *free_function(int kind) {
    switch (kind) {
    case LS_MEMORY_ASYNC:
        return "cudaFreeAsync";
    case LS_MEMORY_PINNED:
        return "cudaFreeHost";
    case LS_MEMORY_REGISTERED:
        return "cudaHostUnregister";
    case LS_MEMORY_ARRAY:
        return "cudaFreeArray";
    default:
        return "cudaFree";
    }
}

static bool grows(const struct group *g) {
    return g->held >= LS_GROWTH_COUNT && __builtin_popcount(g->quarters) >= LS_GROWTH_QUARTERS;
}

/* A buffer that is made anew again and again, the last one of which outlived the program. */
static bool last_ones(const struct group *g) {
    return g->freed && g->first_ns > g->last_freed_ns;
}

static json_t *evidence_of(const struct ls_detect *d, const struct group *g) {
    json_t *e =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "memory",
                  ls_memory_kind_name(g->kind), "api", g->api, "made", g->made, "freed", g->freed,
                  "held", g->held, "smallest", g->smallest, "largest", g->largest, "first_ns",
                  g->first_ns, "last_ns", g->last_ns, "stack", g->stack, "pattern",
                  grows(g)       ? "throughout the run"
                  : last_ones(g) ? "the last of many"
                  : g->freed     ? "some of many"
                                 : "kept from once on");
    if (g->reset)
        json_object_set_new(e, "ended_by_device_reset", json_integer(g->reset));
    if (d->lost)
        json_object_set_new(e, "lost_events", json_integer(d->lost));
    return e;
}

/* The largest allocations behind a finding, to start looking from. */
static void add_rows(const struct ls_detect *d, const struct group *g, json_t *evidence) {
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(d->db,
                           "SELECT id, start_ns, address, size FROM allocation WHERE stack IS ?"
                           " AND kind = ? AND (end_ns IS NULL OR end_reason = 1)"
                           " ORDER BY size DESC, id LIMIT 3",
                           -1, &stmt, NULL) != SQLITE_OK)
        return;
    if (g->stack)
        sqlite3_bind_int64(stmt, 1, g->stack);
    sqlite3_bind_int(stmt, 2, g->kind);
    json_t *rows = json_array();
    while (sqlite3_step(stmt) == SQLITE_ROW)
        json_array_append_new(rows, json_pack("{s:I, s:I, s:I, s:I}", "allocation",
                                              (json_int_t)sqlite3_column_int64(stmt, 0), "start_ns",
                                              (json_int_t)sqlite3_column_int64(stmt, 1), "address",
                                              (json_int_t)sqlite3_column_int64(stmt, 2), "size",
                                              (json_int_t)sqlite3_column_int64(stmt, 3)));
    sqlite3_finalize(stmt);
    json_object_set_new(evidence, "rows", rows);
}

static void describe_growth(const struct ls_detect *d, const struct group *g,
                            struct ls_finding *f) {
    struct ls_human bytes, count, first, last, rate;
    int64_t span = g->last_ns - g->first_ns;
    f->severity = d->abrupt ? LS_WARNING : LS_PROBLEM;
    f->title = ls_format("%s memory grows: %s allocations by %s, %s, were never freed",
                         ls_memory_kind_name(g->kind), ls_human_count(&count, g->held), g->api,
                         ls_human_bytes(&bytes, g->bytes));
    char *why = ls_format(
        "They were made throughout the run, from %s to %s after its start: %s a second. A longer "
        "run holds more, until an allocation fails.",
        ls_human_ns(&first, g->first_ns), ls_human_ns(&last, g->last_ns),
        ls_human_bytes(&rate, span > 0 ? (int64_t)((double)g->bytes * 1e9 / (double)span) : 0));
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    f->advice = ls_format("Free each with %s when its work is done, or allocate once before the "
                          "loop and reuse the buffer.",
                          free_function(g->kind));
}

static void describe_some(const struct ls_detect *d, const struct group *g, struct ls_finding *f) {
    struct ls_human bytes, made, held;
    f->severity = ls_share_of_memory(d, g->bytes) >= LS_SHARE_PROBLEM ? LS_PROBLEM : LS_WARNING;
    f->title = ls_format("%s of %s %s allocations by %s %s never freed: %s",
                         ls_human_count(&held, g->held), ls_human_count(&made, g->made),
                         ls_memory_kind_name(g->kind), g->api, ls_plural(g->held, "was", "were"),
                         ls_human_bytes(&bytes, g->bytes));
    json_object_set_new(f->evidence, "why",
                        json_string("The others of this line were freed, so one way through the "
                                    "code forgets it; each time that way is taken, more is held."));
    f->advice = ls_format("Find the way (an early return, an error branch, a pointer that is "
                          "overwritten) that does not reach %s.",
                          free_function(g->kind));
}

/* How the program treats what it allocates. */
enum manners { FREES_NOTHING, FREES_OTHERS, DIED_OF_OOM };

static void describe_kept(const struct ls_detect *d, const struct group *g, enum manners manners,
                          struct ls_finding *f) {
    static const char *const why_kept[] = {
        [FREES_NOTHING] = "The program freed nothing at all and left that to its exit: harmless "
                          "while it runs once and does not grow.",
        [FREES_OTHERS] = "The program frees other memory, so this looks forgotten; until then "
                         "nobody else could use it.",
        [DIED_OF_OOM] = "The program ended when it found no memory: what it would have freed is "
                        "not known.",
    };
    bool frees_others = manners == FREES_OTHERS;
    struct ls_human bytes, count, first;
    f->severity = !frees_others                                         ? LS_INFO
                  : ls_share_of_memory(d, g->bytes) >= LS_SHARE_PROBLEM ? LS_PROBLEM
                                                                        : LS_WARNING;
    char number[60] = "";
    if (!g->freed || g->held > 1)
        snprintf(number, sizeof number, "%s ", ls_human_count(&count, g->held));
    f->title =
        ls_format("%s%s%s %s by %s %s never freed: %s", g->freed ? "The last " : "", number,
                  ls_memory_kind_name(g->kind), ls_plural(g->held, "allocation", "allocations"),
                  g->api, ls_plural(g->held, "was", "were"), ls_human_bytes(&bytes, g->bytes));
    char *why = ls_format("%s at %s after the start and held until the program ended. %s",
                          g->held == 1 ? "Made" : "The first was made",
                          ls_human_ns(&first, g->first_ns), why_kept[manners]);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    f->advice = ls_format(
        "Call %s after its last use%s.", free_function(g->kind),
        manners == FREES_NOTHING ? ", if this code may ever run twice in one process" : "");
}

static void add_leak(struct ls_detect *d, const struct group *g, enum manners manners) {
    struct ls_finding *f = ls_finding_add(d, "leak");
    json_t *evidence = evidence_of(d, g);
    json_object_update(f->evidence, evidence);
    json_decref(evidence);
    /* A free may be among the events that are missing; a killed program may have freed it yet. */
    if (d->lost || d->abrupt)
        json_object_set_new(f->evidence, "confidence", json_string("estimated"));
    f->site = ls_format("%s", g->site);
    f->count = g->held;
    f->bytes = f->gain_bytes = g->bytes;
    if (grows(g))
        describe_growth(d, g, f);
    else if (g->freed && !last_ones(g))
        describe_some(d, g, f);
    else
        describe_kept(d, g, manners, f);
    add_rows(d, g, f->evidence);
    ls_finding_phase(d, f,
                     "SELECT a.start_ns, call.thread, a.size FROM allocation AS a JOIN call ON"
                     " call.id = a.start_call WHERE a.kind = %d AND (a.end_ns IS NULL OR"
                     " a.end_reason = 1) AND COALESCE(a.stack, 0) IN " LS_STACKS_OF_SITE,
                     g->kind, f->site, f->site);
}

/* Expected: said so that nobody looks for it, and never as a leak. */
static void add_owned(struct ls_detect *d, const struct group *g) {
    struct ls_human bytes, count;
    struct ls_finding *f = ls_finding_add(d, "library-memory");
    json_t *evidence = evidence_of(d, g);
    json_object_update(f->evidence, evidence);
    json_decref(evidence);
    json_object_set_new(f->evidence, "owner", json_string(g->owner.name));
    bool pool = g->owner.rule == LS_OWNER_POOL;
    const char *inside = g->kind == LS_MEMORY_DEVICE
                             ? "Who held blocks inside it is in the view block_lifetime, where "
                               "the pool tells (PyTorch's does)."
                             : "Who held parts of it is not in this trace.";
    f->severity = LS_INFO;
    f->site = ls_format("%s", g->site);
    f->count = g->held;
    f->bytes = g->bytes;
    f->title =
        ls_format("%s held %s of %s memory in %s %s at the end: %s, not a leak", g->owner.name,
                  ls_human_bytes(&bytes, g->bytes), ls_memory_kind_name(g->kind),
                  ls_human_count(&count, g->held), ls_plural(g->held, "piece", "pieces"),
                  !pool              ? "the library's own"
                  : d->out_of_memory ? "in use or cached"
                                     : "cached for reuse");
    json_object_set_new(
        f->evidence, "why",
        json_sprintf("%s%s",
                     pool && d->out_of_memory
                         ? "Allocations failed in this run, so the pool was full or in pieces. "
                     : pool ? "A pool keeps what the program gave back, to serve the next request "
                              "without a call to the driver. "
                            : "Workspaces and tables that the library makes once and keeps.",
                     pool ? inside : ""));
    f->advice = ls_format(
        "%s", d->out_of_memory
                  ? "See which lines held its blocks: SELECT site, SUM(size) FROM block_lifetime "
                    "WHERE end_ns IS NULL GROUP BY site ORDER BY 2 DESC. Of frameworks that do not "
                    "tell, ask their own tools."
                  : "Nothing to do, unless another program needs the memory meanwhile.");
}

/* Nothing is a leak before the end: it may be freed yet. */
static void skip_running(struct ls_detect *d, const struct ls_detector *self,
                         const struct groups *all) {
    struct ls_human bytes, count;
    int64_t live = 0, live_bytes = 0;
    for (size_t i = 0; i < all->count; i++) {
        live += all->at[i].held;
        live_bytes += all->at[i].bytes;
    }
    ls_detect_skip(d, self->kind,
                   "the recording has no end yet: what the program holds so far, %s in %s %s, may "
                   "be freed before it ends",
                   ls_human_bytes(&bytes, live_bytes), ls_human_count(&count, live),
                   ls_plural(live, "allocation", "allocations"));
}

static void report_groups(struct ls_detect *d, const struct ls_detector *self, struct groups *all) {
    bool frees_others =
        ls_query_int(d->db, 0, "SELECT EXISTS(SELECT 1 FROM allocation WHERE end_reason = 0)") > 0;
    enum manners manners = !frees_others ? FREES_NOTHING
                           : d->died_of_oom
                               ? DIED_OF_OOM /* what it would have freed is not known */
                               : FREES_OTHERS;
    int64_t live = 0, live_bytes = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct group *g = &all->at[i];
        if (g->owner.rule != LS_OWNER_USER) {
            add_owned(d, g);
        } else if (d->abrupt && !grows(g)) {
            live += g->held;
            live_bytes += g->bytes;
        } else if (ls_finding_at(d, "linear-growth", g->site) ||
                   ls_course_told_of(d, "pool-miss", g->site)) {
            continue; /* told there, with what it leads to; what a pool still holds is no leak */
        } else if (g->reset < g->held || grows(g) || g->freed) {
            add_leak(d, g, manners);
        } /* else: one that the program left to its cudaDeviceReset on purpose */
    }
    struct ls_human bytes, count;
    char *ending = live ? ls_ending_text(d->db) : NULL;
    if (live)
        ls_detect_skip(d, self->kind,
                       "the program %s: that it held %s in %s %s then is no leak by itself, so "
                       "only growth was looked for",
                       ending ? ending : "was cut off", ls_human_bytes(&bytes, live_bytes),
                       ls_human_count(&count, live), ls_plural(live, "allocation", "allocations"));
    free(ending);
}

static void merge_groups(struct groups *all) {
    size_t kept = 0;
    if (all->count)
        qsort(all->at, all->count, sizeof *all->at, by_finding);
    for (size_t i = 0; i < all->count; i++) {
        if (kept && by_finding(&all->at[kept - 1], &all->at[i]) == 0) {
            merge(&all->at[kept - 1], &all->at[i]);
            free(all->at[i].site);
            free(all->at[i].api);
        } else {
            all->at[kept++] = all->at[i];
        }
    }
    all->count = kept;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct groups all = {0};
    int rc = read_groups(d, &all);
    if (rc == SQLITE_OK) {
        for (size_t i = 0; i < all.count; i++)
            all.at[i].owner = ls_owner_of(d->db, all.at[i].stack, all.at[i].kind);
        merge_groups(&all);
        if (d->running)
            skip_running(d, self, &all);
        else
            report_groups(d, self, &all);
    }
    for (size_t i = 0; i < all.count; i++) {
        free(all.at[i].site);
        free(all.at[i].api);
    }
    free(all.at);
    return rc;
}

const struct ls_detector ls_detect_leak = {"leak", run};
