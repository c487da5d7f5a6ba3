/*
 * text.c - the report, as one colleague would tell it to another. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../ending.h"
#include "../failures.h"
#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "device_use.h"
#include "render.h"

/* A report that nobody reads to its end helps nobody; `sql` shows the rest. */
#define FINDINGS_SHOWN 20

#define INDENT "   "

void ls_render_wrapped(FILE *out, const char *first, const char *indent, const char *text,
                       int width) {
    int column = (int)strlen(first);
    bool start = true;
    fputs(first, out);
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!start && column + 1 + (int)word > width) {
            fprintf(out, "\n%s", indent);
            column = (int)strlen(indent);
        } else if (!start) {
            putc(' ', out);
            column++;
        }
        fwrite(text, 1, word, out);
        column += (int)word;
        text += word;
        text += strspn(text, " \n");
        start = false;
    }
    putc('\n', out);
}

void ls_render_incomplete(const struct ls_trace *trace, FILE *out) {
    if (!trace->partial)
        return;
    ls_term_style(out, LS_RED);
    fputs("INCOMPLETE", out);
    ls_term_style(out, LS_PLAIN);
    fputs(": part of the recording could not be taken into this trace (why: see stderr)\n", out);
}

#define DEVICES_SHOWN 8

/* How full the devices were, and of what. */
static void put_use(sqlite3 *db, FILE *out) {
    int device[DEVICES_SHOWN];
    size_t devices = ls_samples_devices(db, device, DEVICES_SHOWN);
    for (size_t i = 0; i < devices; i++) {
        char first[40];
        snprintf(first, sizeof first, INDENT "Device %d: at most", device[i]);
        ls_render_use(db, device[i], first, INDENT "  ", out);
    }
}

static void put_header(const struct ls_trace *trace, FILE *out) {
    struct ls_human date, length;
    char *ending = ls_ending_text(trace->db);
    char *program = ls_query_meta(trace->db, "cmdline"), *pid = ls_query_meta(trace->db, "pid");
    char *host = ls_query_meta(trace->db, "host");
    ls_term_style(out, LS_BOLD);
    fprintf(out, "%s", trace->path);
    ls_term_style(out, LS_PLAIN);
    fprintf(out, ": %s\n", program ? program : "program unknown");
    fprintf(out, INDENT "%s, %s recorded, pid %s on %s\n",
            ls_human_date(&date, ls_query_meta_int(trace->db, 0, "start_real_ns")),
            ls_human_ns(&length, ls_recorded_ns(trace->db)), pid ? pid : "?", host ? host : "?");
    fprintf(out, INDENT "The program %s.\n", ending ? ending : "has no end in the trace");
    put_use(trace->db, out);
    fputc('\n', out);
    free(ending);
    free(program);
    free(pid);
    free(host);
}

int ls_render_coverage(sqlite3 *db, FILE *out) {
    sqlite3_stmt *stmt;
    char first[80];
    int rc = sqlite3_prepare_v2(db,
                                "SELECT layer, state, COALESCE(detail, '') FROM coverage"
                                " ORDER BY layer, state, detail",
                                -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *detail = (const char *)sqlite3_column_text(stmt, 2);
        snprintf(first, sizeof first, *detail ? "  %-14s %-11s " : "  %-14s %s",
                 sqlite3_column_text(stmt, 0), sqlite3_column_text(stmt, 1));
        ls_render_wrapped(out, first, "                             ", detail, ls_term_width(out));
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void ls_render_severity(const char *severity, FILE *out) {
    if (strcmp(severity, "problem") == 0) {
        ls_term_style(out, LS_RED);
        fputs("PROBLEM", out);
    } else if (strcmp(severity, "warning") == 0) {
        ls_term_style(out, LS_YELLOW);
        fputs("WARNING", out);
    } else {
        ls_term_style(out, LS_CYAN);
        fputs("NOTE", out);
    }
    ls_term_style(out, LS_PLAIN);
}

static void put_threads(sqlite3 *db, char *text, size_t size) {
    int64_t threads = ls_query_int(db, 0, "SELECT COUNT(*) FROM thread");
    if (threads > 1)
        snprintf(text, size, ", summed over %" PRId64 " threads", threads);
}

/* What the change would give back, as its own line; nothing where there is nothing to gain. */
static void put_gain(const struct ls_trace *trace, sqlite3_stmt *row, json_t *evidence, int width,
                     FILE *out) {
    struct ls_human amount, percent;
    int64_t ns = sqlite3_column_int64(row, 5), bytes = sqlite3_column_int64(row, 6);
    int64_t run_ns = ls_recorded_ns(trace->db);
    const char *assumes =
        json_string_value(json_object_get(json_object_get(evidence, "gain"), "assumes"));
    const char *of = json_string_value(json_object_get(json_object_get(evidence, "gain"), "of"));
    char text[400], share[100] = "";
    if (ns > run_ns) /* only threads side by side can spend more than the run's length */
        put_threads(trace->db, share, sizeof share);
    else if (run_ns > 0)
        snprintf(share, sizeof share, " (%s of the run)",
                 ls_human_share(&percent, (double)ns / (double)run_ns));
    if (ns > 0)
        snprintf(text, sizeof text, "about %s of %s time%s, estimated%s%s",
                 ls_human_ns(&amount, ns), of ? of : "host", share, assumes ? ": " : "",
                 assumes ? assumes : "");
    else if (bytes > 0)
        snprintf(text, sizeof text, "%s of memory", ls_human_bytes(&amount, bytes));
    else
        return;
    ls_render_wrapped(out, INDENT "Gain: ", INDENT "      ", text, width);
}

static void put_neighbours(json_t *evidence, int width, FILE *out) {
    json_t *list = json_object_get(evidence, "pinned_in_same_function"), *one;
    size_t i;
    json_array_foreach(list, i, one) {
        char text[400];
        snprintf(text, sizeof text,
                 "%s in the same function is page-locked already (%" PRId64 " %s).",
                 json_string_value(json_object_get(one, "site")),
                 (int64_t)json_integer_value(json_object_get(one, "count")),
                 ls_plural(json_integer_value(json_object_get(one, "count")), "copy", "copies"));
        ls_render_wrapped(out, INDENT "See:  ", INDENT "      ", text, width);
    }
}

/* The program's own word for when it happened. */
static void put_phase(json_t *evidence, int width, FILE *out) {
    struct ls_human share;
    json_t *phase = json_object_get(evidence, "nvtx_phase");
    const char *domain = json_string_value(json_object_get(phase, "domain"));
    char text[600];
    if (!phase)
        return;
    snprintf(text, sizeof text, "%s of it in the phase \"%s\"%s%s.",
             ls_human_share(&share, json_real_value(json_object_get(phase, "share"))),
             json_string_value(json_object_get(phase, "name")), *domain ? " of " : "", domain);
    ls_render_wrapped(out, INDENT "When: ", INDENT "      ", text, width);
}

/* One finding: problem and amount, where, why it costs, what to change, what that would give. */
static void put_finding(const struct ls_trace *trace, sqlite3_stmt *row, int number, FILE *out) {
    int width = ls_term_width(out);
    char first[16];
    const char *evidence_text = (const char *)sqlite3_column_text(row, 7);
    json_t *evidence = json_loads(evidence_text ? evidence_text : "{}", 0, NULL);
    const char *why = json_string_value(json_object_get(evidence, "why"));
    const char *advice = (const char *)sqlite3_column_text(row, 4);
    snprintf(first, sizeof first, "%2d ", number);
    fputs(first, out);
    ls_render_severity((const char *)sqlite3_column_text(row, 1), out);
    fprintf(out, " %s  ", sqlite3_column_text(row, 0));
    ls_term_style(out, LS_BOLD);
    fprintf(out, "%s\n", sqlite3_column_text(row, 3));
    ls_term_style(out, LS_PLAIN);
    ls_render_wrapped(out, INDENT, INDENT, (const char *)sqlite3_column_text(row, 2), width);
    if (why)
        ls_render_wrapped(out, INDENT "Why:  ", INDENT "      ", why, width);
    if (advice)
        ls_render_wrapped(out, INDENT "Do:   ", INDENT "      ", advice, width);
    put_phase(evidence, width, out);
    put_neighbours(evidence, width, out);
    put_gain(trace, row, evidence, width, out);
    fputc('\n', out);
    json_decref(evidence);
}

static const char findings_sql[] =
    "SELECT kind, severity, title, COALESCE(site, 'site unknown'), advice, gain_ns, gain_bytes,"
    " evidence FROM finding ORDER BY id";

/* An error that the program met is no finding, but "no problems" would be the wrong word. */
static void put_failures(const char *failures, FILE *out) {
    if (!failures)
        return;
    ls_term_style(out, LS_YELLOW);
    fputs("FAILED", out);
    ls_term_style(out, LS_PLAIN);
    ls_render_wrapped(out, " ", INDENT, failures, ls_term_width(out) - (int)strlen("FAILED"));
    fputc('\n', out);
}

static int put_findings(const struct ls_trace *trace, const char *none, FILE *out) {
    sqlite3_stmt *stmt;
    int shown = 0, more = 0, real = 0, rc;
    rc = sqlite3_prepare_v2(trace->db, findings_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        bool note = strcmp((const char *)sqlite3_column_text(stmt, 1), "info") == 0;
        if (note && real == 0 && shown == 0)
            fprintf(out, "%s. Worth knowing:\n\n", none);
        real += !note;
        if (shown < FINDINGS_SHOWN)
            put_finding(trace, stmt, ++shown, out);
        else
            more++;
    }
    sqlite3_finalize(stmt);
    if (shown == 0)
        fprintf(out, "%s.\n\n", none);
    if (more)
        fprintf(out, INDENT "... and %d smaller ones: layoutspy sql %s 'SELECT * FROM finding'\n\n",
                more, trace->path);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* One paragraph a reason: it often holds for many kinds. */
static int put_skipped(sqlite3 *db, FILE *out) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT group_concat(kind, ', ') || ': ' || reason FROM (SELECT kind, reason FROM "
        "skipped ORDER BY kind) GROUP BY reason ORDER BY MIN(kind)",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        ls_render_wrapped(out, "SKIPPED ", INDENT, (const char *)sqlite3_column_text(stmt, 0),
                          ls_term_width(out));
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int ls_render_text(const struct ls_trace *trace, FILE *out) {
    char *failures = ls_failures_text(trace->db), none[LS_NONE_TEXT];
    ls_render_incomplete(trace, out);
    put_header(trace, out);
    int rc = ls_render_lost(trace->db, out);
    ls_render_cost_warning(trace->db, "", out);
    put_failures(failures, out);
    if (rc == SQLITE_OK)
        rc = put_findings(trace, ls_render_none(trace->db, failures || trace->partial, none), out);
    free(failures);
    if (rc == SQLITE_OK)
        rc = put_skipped(trace->db, out);
    if (rc == SQLITE_OK) {
        ls_term_style(out, LS_BOLD);
        fputs("What was seen:\n", out);
        ls_term_style(out, LS_PLAIN);
        rc = ls_render_coverage(trace->db, out);
    }
    return rc;
}
