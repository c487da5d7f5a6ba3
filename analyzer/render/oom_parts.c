/*
 * oom_parts.c - what was tried, what to do, and the screen of a trace without an error. See
 * oom_parts.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "oom_parts.h"

#include <stdarg.h>
#include <string.h>

#include "../ending.h"
#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "held.h"

/* ---- what was tried ---- */

/* Appends to a text, as far as there is room. */
static void append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Calls of one kind in a row are one step of it. Returns how many these are. */
static size_t put_run(const struct ls_oom_event *oom, size_t i, char *text, size_t size) {
    const struct ls_oom_call *call = &oom->call[i];
    struct ls_human human;
    uint64_t bytes = 0;
    size_t run = 0;
    for (; i + run < oom->calls && call[run].kind == call->kind; run++)
        bytes += call[run].bytes > 0 ? (uint64_t)call[run].bytes : 0;
    switch (call->kind) {
    case LS_OOM_FAILED:
        append(text, size, "; %s for %s: refused", i ? "asked again" : "asked the driver",
               ls_human_bytes(&human, call->bytes));
        if (run > 1)
            append(text, size, " %zu times", run);
        break;
    case LS_OOM_GIVEN_BACK:
        append(text, size, "; gave back %zu %s of its cache, %s", run,
               ls_plural((int64_t)run, "piece", "pieces"), ls_human_bytes(&human, (int64_t)bytes));
        break;
    case LS_OOM_WAITED:
        append(text, size, "; waited for the device");
        break;
    case LS_OOM_SUCCEEDED:
        append(text, size, "; asked again for %s: served", ls_human_bytes(&human, call->bytes));
        break;
    case LS_OOM_REPORTED:
        append(text, size, "; gave up");
        break;
    default:
        break;
    }
    return run;
}

void ls_screen_tried(const struct ls_oom_event *oom, FILE *out) {
    struct ls_human time;
    char text[600] = "";
    for (size_t i = 0; i < oom->calls;)
        i += put_run(oom, i, text, sizeof text);
    if (oom->attempts == 0)
        append(text, sizeof text,
               "; refused without asking the driver: a limit is set in the program");
    else if (oom->calls == 0)
        return;
    if (oom->waited_ns > 0)
        append(text, sizeof text, "; %s of waiting", ls_human_ns(&time, oom->waited_ns));
    if (strlen(text) > 2)
        ls_screen_say(out, "  tried: ", "         ", "%s.", text + 2);
}

/* ---- what to do ---- */

/* `other`: the number of the event that it is of, where that is not the one that is told. */
static void put_finding(sqlite3_stmt *row, bool advice, size_t other, FILE *out) {
    int width = ls_term_width(out);
    const char *kind = (const char *)sqlite3_column_text(row, 0);
    const char *title = (const char *)sqlite3_column_text(row, 2);
    const char *advise = (const char *)sqlite3_column_text(row, 3);
    const char *site = (const char *)sqlite3_column_text(row, 4);
    char first[200], text[1200], of[40] = "";
    bool named = title && strstr(title, site);
    if (other)
        snprintf(of, sizeof of, " of event %zu", other);
    fputs("  ", out);
    ls_render_severity((const char *)sqlite3_column_text(row, 1), out);
    snprintf(first, sizeof first, " %.60s%s: ", kind, of);
    snprintf(text, sizeof text, "%.700s%s%.400s", title ? title : "", named ? "" : "; at ",
             named ? "" : site);
    ls_render_wrapped(out, first, "    ", text, width - (int)strlen("  PROBLEM"));
    if (advice && advise)
        ls_render_wrapped(out, "    do: ", "        ", advise, width);
}

/* Which event a finding is of, by its evidence, and whether it is (also) of the event ?1, with the
 * site ?2; ?3: that one was a stall. First what explains the event, then the event, then what is of
 * no event, then what is of others. */
static const char findings_sql[] =
    "WITH named AS (SELECT *, COALESCE(json_extract(evidence, '$.oom'),"
    "  json_extract(evidence, '$.rows[0].oom'), json_extract(evidence, '$.cause'),"
    "  (SELECT oom FROM census WHERE id = json_extract(evidence, '$.census'))) AS event"
    " FROM finding WHERE kind IN " LS_MEMORY_KINDS "),"
    " judged AS (SELECT *, event IS ?1"
    "  OR EXISTS (SELECT 1 FROM json_each(evidence, '$.rows') WHERE type = 'object'"
    "   AND json_extract(value, '$.oom') = ?1)"
    "  OR EXISTS (SELECT 1 FROM json_each(evidence, '$.later')"
    "   WHERE json_extract(value, '$.oom') = ?1 AND json_extract(value, '$.consequence'))"
    "  AS own FROM named)"
    " SELECT kind, severity, title, advice, COALESCE(site, 'site unknown'),"
    "  CASE WHEN own THEN 0 ELSE COALESCE(event, 0) END FROM judged"
    " WHERE NOT ?3 OR (kind = 'cache-flush-stall'"
    "  AND (json_extract(evidence, '$.trigger') = 'memory pressure'"
    "   OR EXISTS (SELECT 1 FROM json_each(evidence, '$.sites')"
    "    WHERE json_extract(value, '$.site') = ?2)))"
    " ORDER BY severity = 'info', CASE"
    "  WHEN NOT own AND event IS NOT NULL THEN 7"
    "  WHEN kind = 'oom-fitting-block' THEN 0"
    "  WHEN kind = 'oom-cascade' THEN 1"
    "  WHEN kind = 'linear-growth' AND own THEN 2"
    "  WHEN kind = 'storage-held-by-views' THEN 3"
    "  WHEN kind = 'oom' THEN 4"
    "  WHEN own THEN 5 ELSE 6 END, site IS NOT ?2, id";

int ls_screen_advice(const struct ls_trace *trace, const struct ls_story *story,
                     const struct ls_screen *screen, FILE *out) {
    sqlite3_stmt *stmt;
    size_t shown = 0, more = 0;
    bool all = screen->findings == LS_EVERY_ROW, notes = false;
    int rc = sqlite3_prepare_v2(trace->db, findings_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_int64(stmt, 1, story->oom ? story->oom->id : 0);
    sqlite3_bind_text(stmt, 2, story->oom ? story->oom->site : NULL, -1, SQLITE_STATIC);
    sqlite3_bind_int(stmt, 3, story->oom && story->oom->recovered);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        bool note = strcmp((const char *)sqlite3_column_text(stmt, 1), "info") == 0;
        if (shown == 0) {
            ls_screen_title(out, note ? "Worth knowing:" : "What to do:");
            notes = note;
        }
        if (shown < screen->findings && (all || note == notes)) {
            size_t other = ls_story_number(story, sqlite3_column_int64(stmt, 5));
            put_finding(stmt, shown++ < screen->advised, other, out);
        } else {
            more++;
        }
    }
    sqlite3_finalize(stmt);
    ls_screen_more(out, more, "finding", "findings");
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- what cannot be told ---- */

/* Detectors of what lies inside an allocator say so where it cannot be seen; two reasons do. */
static int put_blind(sqlite3 *db, FILE *out) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT DISTINCT reason FROM skipped WHERE kind IN ('fragmentation', 'reserved-gap',"
        " 'stranded-remainder', 'peak-overlap', 'pending-free') ORDER BY reason LIMIT 2",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        ls_screen_say(out, "", "  ", "Cannot be told: %s.",
                      (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- no error ---- */

int ls_screen_none(const struct ls_trace *trace, const struct ls_story *story,
                   const struct ls_screen *screen, FILE *out) {
    ls_screen_say(
        out, "", "  ",
        "No out-of-memory error in this trace: every request for device memory was served%s.",
        story->events.count ? " in the end" : "");
    ls_screen_stalls(story, out);
    int rc = put_blind(trace->db, out);
    return rc == SQLITE_OK ? ls_screen_advice(trace, story, screen, out) : rc;
}
