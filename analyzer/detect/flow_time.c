/*
 * flow_time.c - see flow_time.h. Main thread only; not for signal handlers.
 */
#include "flow_time.h"

#include <stdlib.h>

#include "../memory/growth.h"
#include "../room.h"
#include "thresholds.h"

/* ---- what copies took ---- */

static void time_runs(struct ls_flow *flow, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(
            db,
            "SELECT call, SUM(end_ns - start_ns) FROM gpu_work WHERE kind = 1"
            " AND call IS NOT NULL AND end_ns IS NOT NULL GROUP BY call"
            " UNION ALL SELECT call, gpu_ns FROM library_gpu WHERE gpu_ns IS NOT NULL",
            -1, &stmt, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        int64_t call = sqlite3_column_int64(stmt, 0);
        flow->timed = true;
        struct ls_relayout *found = ls_flow_relayout_of(flow, call);
        if (found)
            found->gpu_ns = sqlite3_column_int64(stmt, 1);
    }
    sqlite3_finalize(stmt);
}

/* Of those whose own run has no row (LAYOUTSPY_KERNEL_ROWS): the mean of their kernel. */
static void time_means(struct ls_flow *flow, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    int64_t kernel = -1, mean = -1;
    if (sqlite3_prepare_v2(db,
                           "SELECT SUM(total_ns) / SUM(count) FROM kernel_total WHERE kernel = ?"
                           " AND count > 0",
                           -1, &stmt, NULL) != SQLITE_OK)
        return;
    for (size_t i = 0; i < flow->count; i++) {
        struct ls_relayout *r = &flow->relayout[i];
        if (r->gpu_ns >= 0 || !r->kernel)
            continue;
        if (r->kernel != kernel) {
            sqlite3_bind_int64(stmt, 1, kernel = r->kernel);
            mean = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL
                       ? sqlite3_column_int64(stmt, 0)
                       : -1;
            sqlite3_reset(stmt);
        }
        r->gpu_ns = mean;
        r->gpu_is_mean = mean >= 0;
        flow->timed |= mean >= 0;
    }
    sqlite3_finalize(stmt);
}

int64_t ls_relayout_bytes(const struct ls_relayout *r) {
    return r->dst->bytes;
}

int64_t ls_moved_ns(int64_t bytes) {
    return (int64_t)((double)bytes / LS_DEVICE_BYTES_PER_NS) + LS_KERNEL_NS;
}

int64_t ls_relayout_ns(const struct ls_relayout *r) {
    return r->gpu_ns >= 0 ? r->gpu_ns : ls_moved_ns(2 * r->dst->bytes);
}

void ls_flow_time(struct ls_flow *flow, sqlite3 *db) {
    time_runs(flow, db);
    time_means(flow, db);
}

/* ---- steps ---- */

struct ls_flow_steps {
    size_t count;
    struct {
        int64_t start_ns, end_ns;
    } step[];
};

struct ls_flow_steps *ls_flow_steps_new(const struct ls_history *history) {
    size_t most;
    int loop = ls_growth_loop(history, &most);
    struct ls_flow_steps *steps = ls_new(1, sizeof *steps + (most + 1) * sizeof steps->step[0]);
    for (size_t i = 0; i < history->steps && steps->count < most; i++) {
        if (history->step[i].loop != loop)
            continue;
        steps->step[steps->count].start_ns = history->step[i].start_ns;
        steps->step[steps->count++].end_ns = history->step[i].end_ns;
    }
    return steps;
}

size_t ls_flow_step(const struct ls_flow_steps *steps, int64_t ts_ns, bool *inside) {
    size_t low = 0, high = steps->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (steps->step[middle].start_ns <= ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    *inside = low > 0 && ts_ns < steps->step[low - 1].end_ns;
    return low;
}

void ls_flow_steps_free(struct ls_flow_steps *steps) {
    free(steps);
}
