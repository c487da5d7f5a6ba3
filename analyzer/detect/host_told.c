/*
 * host_told.c - see host_told.h. Main thread only; not for signal handlers.
 */
#include "host_told.h"

#include "layout_cost.h"
#include "thresholds.h"

int ls_host_told(struct ls_detect *d, bool anew) {
    int rc =
        sqlite3_exec(d->db, "CREATE TEMP TABLE IF NOT EXISTS host_told(id INTEGER PRIMARY KEY)",
                     NULL, NULL, NULL);
    if (rc == SQLITE_OK && anew)
        rc = sqlite3_exec(d->db, "DELETE FROM temp.host_told", NULL, NULL, NULL);
    return rc;
}

int ls_host_tell(struct ls_detect *d, const int64_t *copy, size_t count) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(d->db, "INSERT OR IGNORE INTO temp.host_told VALUES(?)", -1, &stmt,
                                NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < count; i++) {
        sqlite3_bind_int64(stmt, 1, copy[i]);
        sqlite3_step(stmt);
        rc = sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc;
}

bool ls_is_loading(const struct ls_detect *d, int64_t last_ns) {
    int64_t span = d->end_ns - d->begin_ns;
    return span > 0 && (double)(last_ns - d->begin_ns) <= LS_LOAD_FRACTION * (double)span;
}

enum ls_severity ls_host_severity(const struct ls_detect *d, int64_t count, int64_t time_ns,
                                  int64_t gain_ns, int64_t last_ns) {
    enum ls_severity severity = ls_severity_of(d, gain_ns);
    if (ls_is_loading(d, last_ns))
        return severity == LS_PROBLEM ? LS_WARNING : LS_INFO;
    if (severity == LS_INFO && count >= LS_REPEATED && time_ns >= LS_NOISE_NS &&
        ls_share_of_run(d, time_ns) >= LS_SHARE_NEGLIGIBLE)
        return LS_WARNING;
    return severity;
}
