/*
 * pending_free.c - `pending-free`: memory that was given back, but that work of another stream
 * still used, so that nobody could have it.
 *
 * Needs: blocks and their waits. Cost: the bytes, where they were missed: at an oom, or where
 * requests had to wait for them. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../search.h"
#include "detect.h"
#include "oom_facts.h"
#include "thresholds.h"
#include "unused.h"

struct of_site {
    int64_t bytes, blocks, longest_ns;
    const struct ls_span *block; /* one of them */
};

static bool pending_at(const struct ls_span *s, int64_t ts_ns) {
    return s->end_ns <= ts_ns && ts_ns < s->free_ns;
}

/* By the site that gave them back; returns the number of the one with the most. */
static uint32_t by_free_site(const struct ls_history *h, int64_t ts_ns, struct of_site *of) {
    uint32_t top = 0;
    for (size_t i = 0; i < h->spans && h->span[i].start_ns <= ts_ns; i++) {
        const struct ls_span *s = &h->span[i];
        if (!pending_at(s, ts_ns))
            continue;
        int64_t waited = (s->free_ns == LS_NEVER ? h->end_ns : s->free_ns) - s->end_ns;
        of[s->free_site].bytes += (int64_t)s->size;
        of[s->free_site].blocks++;
        of[s->free_site].block = s;
        if (waited > of[s->free_site].longest_ns)
            of[s->free_site].longest_ns = waited;
        if (of[s->free_site].bytes > of[top].bytes)
            top = s->free_site;
    }
    return top;
}

struct change {
    int64_t ts_ns, bytes;
    int64_t pending; /* what it came to */
};

static int by_time(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* what ends first makes room */
}

/* What waited over the whole recording, by time. */
struct course {
    struct change *change;
    size_t count;
};

static void read_course(const struct ls_history *h, struct course *course) {
    struct change *change = calloc(2 * h->spans + 1, sizeof *change);
    size_t count = 0;
    if (!change)
        ls_detect_no_memory();
    for (size_t i = 0; i < h->spans; i++) {
        const struct ls_span *s = &h->span[i];
        if (s->end_ns == LS_NEVER || s->free_ns <= s->end_ns)
            continue;
        change[count++] = (struct change){s->end_ns, (int64_t)s->size, 0};
        if (s->free_ns != LS_NEVER)
            change[count++] = (struct change){s->free_ns, -(int64_t)s->size, 0};
    }
    qsort(change, count, sizeof *change, by_time);
    for (size_t i = 0; i < count; i++)
        change[i].pending = change[i].bytes + (i ? change[i - 1].pending : 0);
    *course = (struct course){change, count};
}

/* When the most was pending, and how much. */
static int64_t most_pending(const struct course *course, int64_t *ts_ns) {
    int64_t most = 0;
    for (size_t i = 0; i < course->count; i++)
        if (course->change[i].pending > most) {
            most = course->change[i].pending;
            *ts_ns = course->change[i].ts_ns;
        }
    return most;
}

static int64_t pending_bytes(const struct course *course, int64_t ts_ns) {
    size_t changes = LS_UP_TO(course->change, course->count, ts_ns, ts_ns);
    return changes ? course->change[changes - 1].pending : 0;
}

static json_t *streams_of(sqlite3 *db, const struct ls_span *block) {
    json_t *list = json_array();
    sqlite3_stmt *stmt;
    if (!block || sqlite3_prepare_v2(db, "SELECT DISTINCT stream FROM block_wait WHERE block = ?",
                                     -1, &stmt, NULL) != SQLITE_OK)
        return list;
    sqlite3_bind_int64(stmt, 1, block->id);
    while (sqlite3_step(stmt) == SQLITE_ROW)
        json_array_append_new(list, json_integer(sqlite3_column_int64(stmt, 0)));
    sqlite3_finalize(stmt);
    return list;
}

/* One finding: at `oom`, or at the moment when the most waited. */
static struct ls_finding *add(struct ls_detect *d, const struct ls_history *h, int64_t ts_ns,
                              int64_t bytes, const struct ls_oom *oom, enum ls_severity severity) {
    struct of_site *of = calloc(ls_history_site_count(h), sizeof *of);
    struct ls_human text, asked, waited;
    if (!of)
        ls_detect_no_memory();
    uint32_t top = by_free_site(h, ts_ns, of);
    struct ls_finding *f = ls_finding_add(d, "pending-free");
    f->severity = severity;
    f->site = ls_format("%s", ls_history_site(h, top));
    f->count = of[top].blocks;
    f->bytes = f->gain_bytes = bytes;
    f->title =
        oom ? ls_format(
                  "%s that were given back still waited for another stream when %s were asked "
                  "for and not to be had",
                  ls_human_bytes(&text, bytes), ls_human_bytes(&asked, oom->requested))
            : ls_format(
                  "Up to %s that were given back waited for another stream before they could be "
                  "used again",
                  ls_human_bytes(&text, bytes));
    const struct ls_span *block = of[top].block;
    json_object_update_new(
        f->evidence,
        json_pack("{s:i, s:I, s:I, s:I, s:o, s:o, s:I, s:o}", "device", h->device, "ts_ns",
                  (json_int_t)ts_ns, "pending", (json_int_t)bytes, "from_this_site",
                  (json_int_t)of[top].bytes, "streams", streams_of(d->db, block), "made_at",
                  ls_json_text(block ? ls_history_site(h, block->site) : LS_SITE_UNKNOWN),
                  "longest_wait_ns", (json_int_t)of[top].longest_ns, "oom",
                  oom ? json_integer(oom->id) : json_null()));
    json_object_set_new(
        f->evidence, "why",
        json_sprintf(
            "record_stream told the allocator that another stream uses these blocks. Given "
            "back, they wait until that stream has done its queued work (up to %s here); "
            "until then new requests need other memory.",
            ls_human_ns(&waited, of[top].longest_ns)));
    f->advice =
        ls_format("The other stream is behind: let it catch up before the memory is needed "
                  "again (current_stream().wait_stream(side) before the blocks are dropped, "
                  "in place of record_stream), or let fewer batches run ahead. A split limit "
                  "or expandable segments do not help: the memory is still in use.");
    free(of);
    return f;
}

/* Where a request failed for it: once, for the first. */
static bool add_of_ooms(struct ls_detect *d, const struct ls_ooms *all,
                        const struct ls_history *h) {
    for (size_t i = 0; i < all->count; i++) {
        const struct ls_oom *o = &all->oom[i];
        if (o->device == h->device && o->verdict == LS_OOM_PENDING && o->has_state && !o->cause) {
            add(d, h, o->ts_ns, (int64_t)o->state.pending, o, LS_PROBLEM);
            return true;
        }
    }
    return false;
}

static bool told_otherwise(const struct ls_ooms *all, const struct ls_history *h) {
    for (size_t i = 0; i < all->count; i++)
        if (all->oom[i].device == h->device &&
            (all->oom[i].verdict == LS_OOM_FITTING || all->oom[i].verdict == LS_OOM_OTHER_POOL))
            return true;
    return false;
}

/* Requests that failed at first, and had room once the allocator had waited for other streams. */
static int64_t waited_for(const struct ls_history *h, const struct course *course,
                          int64_t *waited_ns) {
    sqlite3_stmt *stmt;
    int64_t count = 0;
    if (sqlite3_prepare_v2(
            h->db,
            "SELECT requested, waited_ns, (SELECT start_ns FROM call WHERE call.id = "
            "oom.first_call) FROM oom WHERE recovered = 1 AND waited_ns > 0 AND "
            "device = ?",
            -1, &stmt, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_int(stmt, 1, h->device);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        int64_t pending = pending_bytes(course, sqlite3_column_int64(stmt, 2));
        if ((double)pending < LS_PENDING_SHARE * (double)sqlite3_column_int64(stmt, 0))
            continue;
        count++;
        *waited_ns += sqlite3_column_int64(stmt, 1);
    }
    sqlite3_finalize(stmt);
    return count;
}

static void add_of_course(struct ls_detect *d, const struct ls_ooms *all,
                          const struct ls_history *h, const struct course *course) {
    int64_t capacity = h->capacity > 0 ? h->capacity : d->capacity, ts_ns = 0, waited_ns = 0;
    int64_t bytes = most_pending(course, &ts_ns);
    if ((double)bytes < LS_SHARE_PROBLEM * (double)capacity)
        return;
    int64_t waits = waited_for(h, course, &waited_ns);
    bool matters = waits && !told_otherwise(all, h);
    struct ls_finding *f = add(d, h, ts_ns, bytes, NULL, matters ? LS_WARNING : LS_INFO);
    f->time_ns = f->gain_ns = waited_ns;
    json_object_set_new(f->evidence, "requests_that_waited", json_integer(waits));
}

static void add_of_run(struct ls_detect *d, const struct ls_ooms *all, const struct ls_history *h) {
    struct course course;
    read_course(h, &course);
    add_of_course(d, all, h, &course);
    free(course.change);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int devices[256], rc;
    const struct ls_ooms *all = ls_ooms_of(d, &rc);
    size_t count = all ? ls_detect_devices(d, devices, 256) : 0;
    (void)self;
    for (size_t i = 0; i < count; i++) {
        const struct ls_history *h = ls_detect_history(d, devices[i]);
        if (h && h->framework && !add_of_ooms(d, all, h))
            add_of_run(d, all, h);
    }
    return rc;
}

const struct ls_detector ls_detect_pending_free = {"pending-free", run};
