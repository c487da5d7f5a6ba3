/*
 * layout_cost.c - see layout_cost.h. Main thread only; not for signal handlers.
 */
#include "layout_cost.h"

#include <stdio.h>
#include <stdlib.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "thresholds.h"

int64_t ls_kernels_ns(const struct ls_detect *d) {
    return ls_query_int(d->db, 0, "SELECT SUM(total_ns) FROM gpu_count WHERE kind = 'kernel'");
}

enum ls_severity ls_severity_of(const struct ls_detect *d, int64_t gain_ns) {
    double share = ls_share_of_run(d, gain_ns);
    return share >= LS_SHARE_PROBLEM && gain_ns >= LS_NOISE_NS ? LS_PROBLEM
           : share >= LS_SHARE_WARNING                         ? LS_WARNING
                                                               : LS_INFO;
}

static char *replays_words(const struct ls_detect *d) {
    struct ls_human count, took;
    char time[60] = "";
    int64_t launches = ls_query_int(d->db, 0, LS_GRAPH_LAUNCHES_SQL);
    int64_t ns = launches ? ls_query_int(d->db, 0, LS_GRAPH_NS_SQL) : 0;
    if (launches == 0)
        return ls_copied("");
    if (ns > 0)
        snprintf(time, sizeof time, ", in %s of the GPU", ls_human_ns(&took, ns));
    return ls_format(
        "%s %s again what was captured%s: a captured call counts once here at most, "
        "however often it ran",
        ls_human_count(&count, launches),
        ls_plural(launches, "launch of a CUDA graph ran", "launches of CUDA graphs ran"), time);
}

void ls_say_replays(struct ls_detect *d, const char *kind) {
    if (!d->replays)
        d->replays = replays_words(d);
    if (*d->replays)
        ls_detect_skip(d, kind, "%s", d->replays);
}

bool ls_operands_told(struct ls_detect *d, const char *kind) {
    if (ls_query_int(d->db, 0, "SELECT 1 FROM operand LIMIT 1")) {
        ls_say_replays(d, kind);
        return true;
    }
    if (ls_query_int(d->db, 0,
                     "SELECT 1 FROM call WHERE api IN (SELECT id FROM api WHERE class ="
                     " 'library_call') LIMIT 1"))
        ls_detect_skip(d, kind, "no operands of library calls are in this trace");
    return false;
}

static char *text_of_stack(sqlite3 *db, const char *sql, int64_t stack) {
    sqlite3_stmt *stmt = NULL;
    char *text = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, stack);
        if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
            text = ls_copied((const char *)sqlite3_column_text(stmt, 0));
    }
    sqlite3_finalize(stmt);
    return text;
}

char *ls_site_of(sqlite3 *db, int64_t stack) {
    char *text = text_of_stack(db, "SELECT site FROM stack_site WHERE id = ?", stack);
    return text ? text : ls_copied(LS_SITE_UNKNOWN);
}

char *ls_operator_of(sqlite3 *db, int64_t stack) {
    return text_of_stack(db, "SELECT operator FROM stack_site WHERE id = ?", stack);
}

void ls_finding_basis(struct ls_finding *f, bool gpu_times, const char *of, const char *assumes) {
    json_object_set_new(f->evidence, "basis",
                        json_string(gpu_times ? "GPU times" : "bytes and counts"));
    if (!gpu_times)
        json_object_set_new(f->evidence, "confidence", json_string("estimated"));
    json_object_set_new(f->evidence, "gain",
                        json_pack("{s:s, s:s, s:o}", "of", of, "confidence", "estimated", "assumes",
                                  ls_json_text(assumes)));
}

void ls_finding_gpu_share(const struct ls_detect *d, struct ls_finding *f, int64_t ns) {
    int64_t all = ls_kernels_ns(d);
    if (all > 0)
        json_object_set_new(f->evidence, "gpu_share", json_real((double)ns / (double)all));
}
