/*
 * lost.c - what is missing from a trace, and why. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <string.h>

#include "../human.h"
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
