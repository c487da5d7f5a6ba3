/*
 * oom_facts.c - reads ooms and judges each by its figures. See oom_facts.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "oom_facts.h"

#include <stdlib.h>
#include <string.h>

#include "../clamp.h"
#include "../memory/oom_events.h"
#include "../query.h"
#include "../room.h"
#include "oom_pool.h"
#include "oom_remains.h"
#include "thresholds.h"

#define REQUEST_MOST (INT64_C(1) << 62) /* bytes: adds up with any device's */

static int64_t column_or(sqlite3_stmt *stmt, int column, int64_t otherwise) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? otherwise
                                                            : sqlite3_column_int64(stmt, column);
}

static char *text_or_null(sqlite3_stmt *stmt, int column) {
    const unsigned char *text = sqlite3_column_text(stmt, column);
    return text ? ls_format("%s", text) : NULL;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t bytes_or(sqlite3_stmt *stmt, int column, int64_t otherwise) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL
               ? otherwise
               : ls_clamped(sqlite3_column_int64(stmt, column), LS_LARGEST);
}

/* A request has no limit: sizes that went below 0 in the program are asked for as well. */
static int64_t request_of(sqlite3_stmt *stmt, int column) {
    int64_t bytes = column_or(stmt, column, 0);
    return bytes < 0 || bytes > REQUEST_MOST ? REQUEST_MOST : bytes;
}

static const char oom_sql[] =
    "SELECT id, ts_ns, device, requested, allocated, reserved, device_free, device_total, stack,"
    " thread, source, asked, attempts, pending, cached, largest_hole, owner, flushed_calls,"
    " flushed_bytes, (SELECT start_ns FROM call WHERE call.id = oom.first_call),"
    " COALESCE((SELECT site FROM stack_site WHERE stack_site.id = oom.stack), '" LS_SITE_UNKNOWN
    "') FROM oom WHERE recovered IS NOT 1 ORDER BY ts_ns, id";

static struct ls_oom read_row(sqlite3_stmt *stmt) {
    struct ls_oom o = {0};
    o.id = sqlite3_column_int64(stmt, 0);
    o.ts_ns = ls_clamped(sqlite3_column_int64(stmt, 1), LS_LATEST);
    o.device = sqlite3_column_int(stmt, 2);
    o.requested = request_of(stmt, 3);
    o.allocated = bytes_or(stmt, 4, -1);
    o.reserved = bytes_or(stmt, 5, -1);
    o.driver_free = bytes_or(stmt, 6, -1);
    o.driver_free_told = o.driver_free >= 0;
    o.capacity = bytes_or(stmt, 7, -1);
    o.stack = (uint32_t)column_or(stmt, 8, 0);
    o.thread = (uint32_t)column_or(stmt, 9, 0);
    o.reported = column_or(stmt, 10, 1) == 1;
    o.asked = most(request_of(stmt, 11), o.requested);
    o.attempts = column_or(stmt, 12, -1);
    o.pending = bytes_or(stmt, 13, -1);
    o.cached = bytes_or(stmt, 14, -1);
    o.hole = bytes_or(stmt, 15, -1);
    o.hole_before = -1;
    o.owner = text_or_null(stmt, 16);
    o.flushed_calls = column_or(stmt, 17, 0);
    o.flushed_bytes = bytes_or(stmt, 18, 0);
    o.begin_ns = column_or(stmt, 19, o.ts_ns);
    if (o.begin_ns > o.ts_ns)
        o.begin_ns = o.ts_ns;
    o.site = text_or_null(stmt, 20);
    return o;
}

static int read_rows(struct ls_detect *d, struct ls_ooms *all) {
    sqlite3_stmt *stmt;
    size_t room = 0;
    int rc = sqlite3_prepare_v2(d->db, oom_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        all->oom = ls_room(all->oom, all->count, &room, sizeof *all->oom);
        all->oom[all->count++] = read_row(stmt);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- the figures of the moment ---- */

bool ls_oom_same_pool(const struct ls_oom *oom, const struct ls_piece *piece) {
    bool small_request = oom->requested <= LS_TORCH_SMALL_REQUEST;
    bool small_piece = piece->segment->size <= LS_TORCH_SMALL_SEGMENT;
    return small_request == small_piece;
}

/* The largest hole in segments that were there at the oom, as it was when the call began. */
static int64_t hole_before(const struct ls_oom *o) {
    struct ls_state before;
    uint64_t hole = 0;
    ls_state_at(o->history, o->begin_ns, &before);
    for (size_t i = 0; i < before.pieces; i++) {
        const struct ls_piece *p = &before.piece[i];
        if (p->segment->end_ns > o->ts_ns && ls_oom_same_pool(o, p) && p->hole > hole)
            hole = p->hole;
    }
    ls_state_free(&before);
    return (int64_t)hole;
}

static void look_at_segments(struct ls_oom *o) {
    uint64_t hole = 0;
    for (size_t i = 0; i < o->state.pieces; i++) {
        const struct ls_piece *p = &o->state.piece[i];
        if (p->live + p->pending == 0)
            o->releasable += (int64_t)p->size;
        if (ls_oom_same_pool(o, p) && p->hole > hole)
            hole = p->hole;
    }
    o->hole = (int64_t)hole;
    o->hole_before = o->hole;
    if (o->hole >= o->requested && o->begin_ns < o->ts_ns)
        o->hole_before = hole_before(o);
}

/* What the row has not, from the history; what nobody told, from the rest. */
static void complete(struct ls_oom *o) {
    const struct ls_history *h = o->history;
    if (o->capacity <= 0 && h && h->capacity > 0)
        o->capacity = h->capacity;
    if (o->has_state) {
        if (o->allocated < 0)
            o->allocated = (int64_t)o->state.live;
        if (o->pending < 0)
            o->pending = (int64_t)o->state.pending;
        o->direct = (int64_t)o->state.direct;
        if (h->framework) {
            if (o->reserved < 0)
                o->reserved = (int64_t)o->state.reserved;
            look_at_segments(o);
        }
    }
    o->allocated = most(o->allocated, 0);
    o->pending = most(o->pending, 0);
    if (o->reserved < 0)
        o->reserved = o->allocated;
    if (o->cached < 0)
        o->cached = most(o->reserved - o->allocated - o->pending, 0);
    if (o->driver_free < 0 && o->capacity > 0)
        o->driver_free = most(o->capacity - o->reserved - o->direct, 0);
    if (o->capacity > 0 && o->driver_free_told)
        o->others = most(o->capacity - o->driver_free - o->reserved - o->direct, 0);
    o->missing = o->driver_free < 0 ? o->asked : most(o->asked - o->driver_free, 0);
}

/* ---- the verdict ---- */

/* The driver, or a limit before it, refused although this much was free. */
static bool driver_had_enough(const struct ls_oom *o) {
    return o->driver_free_told && o->driver_free >= o->asked;
}

static enum ls_oom_verdict judge_beside(const struct ls_oom *o) {
    if (driver_had_enough(o))
        return LS_OOM_UNEXPLAINED;
    if (o->history && o->history->framework && o->releasable > 0 && o->releasable >= o->missing)
        return LS_OOM_LIBRARY;
    if (o->owner)
        return LS_OOM_LIBRARY;
    return LS_OOM_LIVE;
}

static bool others_matter(const struct ls_oom *o) {
    return o->capacity > 0 && o->others >= o->missing &&
           (double)o->others >= LS_OTHERS_SHARE * (double)o->capacity;
}

/* Free bytes in the allocator's segments would do, and are more than a few scraps. */
static bool cache_would_do(const struct ls_oom *o) {
    return o->cached >= o->missing &&
           (double)o->cached >= LS_PIECES_SHARE * (double)most(o->capacity, o->reserved);
}

static enum ls_oom_verdict judge(const struct ls_oom *o) {
    struct ls_oom_pins pins;
    if (!o->reported) {
        enum ls_oom_verdict verdict = judge_beside(o);
        return verdict == LS_OOM_LIVE && others_matter(o) ? LS_OOM_OTHERS : verdict;
    }
    if (o->has_state && o->hole >= o->requested) {
        if (o->hole_before >= o->requested)
            return LS_OOM_OTHER_POOL;
        return ls_oom_fitting_usable(o) ? LS_OOM_FITTING : LS_OOM_OTHER_POOL;
    }
    if (o->attempts == 0 || (driver_had_enough(o) && o->attempts < 0))
        return LS_OOM_LIMIT;
    if (driver_had_enough(o))
        return LS_OOM_UNEXPLAINED;
    if (cache_would_do(o) && ls_oom_pins(o, &pins) && pins.free >= pins.pending)
        return LS_OOM_FRAGMENTED;
    if (o->pending > 0 && o->cached + o->pending >= o->missing &&
        o->pending >= (int64_t)(LS_PENDING_SHARE * (double)o->missing))
        return LS_OOM_PENDING;
    return others_matter(o) ? LS_OOM_OTHERS : LS_OOM_LIVE;
}

const char *ls_oom_verdict_name(enum ls_oom_verdict verdict) {
    static const char *const name[] = {
        [LS_OOM_FITTING] = "a fitting block was free",
        [LS_OOM_LIMIT] = "limit set in the program",
        [LS_OOM_OTHER_POOL] = "a fitting hole in another pool",
        [LS_OOM_FRAGMENTED] = "fragmented",
        [LS_OOM_PENDING] = "pending behind a stream",
        [LS_OOM_LIBRARY] = "asked beside the allocator",
        [LS_OOM_OTHERS] = "held by other processes or contexts",
        [LS_OOM_LIVE] = "live memory",
        [LS_OOM_UNEXPLAINED] = "unexplained",
    };
    return name[verdict];
}

/* ---- all ---- */

/* The state of a moment takes a pass over all blocks: for the first ooms of each site only. */
static bool worth_a_state(const struct ls_ooms *all, size_t at) {
    size_t same = 0;
    if (at >= LS_OOM_STATES)
        return false;
    for (size_t i = 0; i < at; i++)
        same += all->oom[i].has_state && strcmp(all->oom[i].site, all->oom[at].site) == 0;
    return same < LS_OOM_STATES_SITE;
}

/* Without a state the figures of the row must do. What those cannot tell is as with the last oom of
 * the same site that had one, unless the figures speak against it. */
static enum ls_oom_verdict judge_as(const struct ls_ooms *all, const struct ls_oom *o) {
    const struct ls_oom *like = NULL;
    enum ls_oom_verdict verdict = judge(o);
    bool pieces = o->reported && cache_would_do(o);
    for (size_t i = 0; i < all->count && i < LS_OOM_STATES && &all->oom[i] < o; i++) {
        const struct ls_oom *before = &all->oom[i];
        if (before->has_state && before->device == o->device && before->reported == o->reported &&
            strcmp(before->site, o->site) == 0)
            like = before;
    }
    if (like && (like->verdict == LS_OOM_LIVE || like->verdict == LS_OOM_FRAGMENTED))
        like = NULL;
    if (verdict != LS_OOM_LIVE)
        return verdict;
    return like ? like->verdict : pieces ? LS_OOM_FRAGMENTED : LS_OOM_LIVE;
}

/* What the rows of all ooms tell beyond ours, both in the same order. */
static void read_events(struct ls_detect *d, struct ls_ooms *all) {
    const struct ls_oom_events *events = ls_detect_oom_events(d);
    for (size_t i = 0, at = 0; events && i < events->count && at < all->count; i++)
        if (events->oom[i].id == all->oom[at].id)
            all->oom[at++].backward = events->oom[i].backward;
}

static void read_settings(struct ls_detect *d, struct ls_ooms *all) {
    char *allocator = ls_query_meta(d->db, "allocator");
    all->expandable = allocator && strcmp(allocator, "expandable_segments") == 0;
    all->split_limit = ls_query_int(d->db, 0,
                                    "SELECT COUNT(*) FROM meta WHERE key LIKE 'env.%' AND value "
                                    "LIKE '%max_split_size_mb%'") > 0;
    free(allocator);
}

const struct ls_ooms *ls_ooms_of(struct ls_detect *d, int *rc) {
    *rc = SQLITE_OK;
    if (d->ooms)
        return d->ooms;
    struct ls_ooms *all = calloc(1, sizeof *all);
    if (!all)
        ls_detect_no_memory();
    *rc = read_rows(d, all);
    if (*rc != SQLITE_OK) {
        ls_ooms_free(all);
        return NULL;
    }
    read_settings(d, all);
    read_events(d, all);
    for (size_t i = 0; i < all->count; i++) {
        struct ls_oom *o = &all->oom[i];
        o->history = ls_detect_history(d, o->device);
        if (o->history && worth_a_state(all, i)) {
            ls_state_at(o->history, o->ts_ns, &o->state);
            o->has_state = true;
        }
        complete(o);
        o->verdict = o->has_state ? judge(o) : judge_as(all, o);
    }
    d->ooms = all;
    all->remains = ls_oom_remains_find(d, all);
    return all;
}

void ls_ooms_free(struct ls_ooms *ooms) {
    if (!ooms)
        return;
    for (size_t i = 0; i < ooms->count; i++) {
        free(ooms->oom[i].site);
        free(ooms->oom[i].owner);
        if (ooms->oom[i].has_state)
            ls_state_free(&ooms->oom[i].state);
    }
    ls_oom_remains_free(ooms->remains);
    free(ooms->oom);
    free(ooms);
}
