/*
 * lost.c - what is missing from a trace, and why. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "layoutspy/format.h"
#include "render.h"

static const struct {
    const char *reason, *text;
} meaning[LS_LOST_COUNT] = {
#define LOST(id, name, text) [LS_LOST_##id] = {name, text},
#include "layoutspy/lost.def"
};

static int number_of(const char *reason) {
    int i = 0;
    while (i < LS_LOST_COUNT && strcmp(meaning[i].reason, reason) != 0)
        i++;
    return i;
}

/* What the count counts, and what follows from it. */
static void put_count(int reason, int64_t n, FILE *out) {
    struct ls_human count;
    ls_human_count(&count, n);
    switch (reason) {
    case LS_LOST_STACKS:
        fprintf(out, " the stacks of %s %s", count.text, ls_plural(n, "call", "calls"));
        break;
    case LS_LOST_KERNELS:
        fprintf(out, " the kernel's name of %s %s", count.text, ls_plural(n, "launch", "launches"));
        break;
    case LS_LOST_DAMAGED:
        fprintf(out, " %s %s missing", count.text, ls_plural(n, "byte is", "bytes are"));
        break;
    default:
        fprintf(out, " %s %s missing", count.text, ls_plural(n, "event is", "events are"));
    }
}

int ls_render_lost(sqlite3 *db, FILE *out) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, "SELECT reason, count FROM lost_event WHERE count > 0", -1,
                                &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);
        int reason = number_of(name ? name : "");
        ls_term_style(out, LS_RED);
        fprintf(out, "LOST");
        ls_term_style(out, LS_PLAIN);
        put_count(reason, sqlite3_column_int64(stmt, 1), out);
        fprintf(out, " (%s)", name);
        if (reason < LS_LOST_COUNT)
            fprintf(out, ": %s", meaning[reason].text);
        if (reason == LS_LOST_CAP)
            fputs("; record again with a larger LAYOUTSPY_SPOOL_MAX", out);
        if (reason != LS_LOST_STACKS && reason != LS_LOST_KERNELS)
            fputs(". Counts below are lower bounds, a leak may be a free not seen", out);
        fputc('\n', out);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The first detail of a layer of the coverage that is not on, to be freed; NULL: there is none. */
static char *why_off(sqlite3 *db, const char *layer) {
    sqlite3_stmt *stmt = NULL;
    char *why = NULL;
    if (sqlite3_prepare_v2(db,
                           "SELECT detail FROM coverage WHERE layer = ? AND state <> 'on'"
                           " AND detail <> '' ORDER BY state, detail LIMIT 1",
                           -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_bind_text(stmt, 1, layer, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW)
        why = strdup((const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    return why;
}

const char *ls_render_none(sqlite3 *db, bool trouble, char text[LS_NONE_TEXT]) {
    if (ls_query_int(db, 0,
                     "SELECT EXISTS(SELECT 1 FROM call) OR EXISTS(SELECT 1 FROM gpu_work)"
                     " OR EXISTS(SELECT 1 FROM kernel_total)"))
        return trouble ? "No problems found among what this version looks for"
                       : "No problems found";
    char *hooks = why_off(db, "hooks"), *cupti = why_off(db, "cupti");
    if (hooks)
        snprintf(text, LS_NONE_TEXT, "Nothing was recorded: %s, and %s", hooks,
                 cupti ? cupti : "it told of nothing");
    else
        snprintf(text, LS_NONE_TEXT, "Nothing was recorded: the program made no call that is seen");
    free(hooks);
    free(cupti);
    return text;
}
