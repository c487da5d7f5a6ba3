/*
 * held_age.c - is it kept, or of a step. See held_age.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "held_age.h"

#include <inttypes.h>
#include <stdlib.h>

#include "../human.h"
#include "../query.h"
#include "oom_facts.h"
#include "oom_remains.h"
#include "thresholds.h"

/* When the step before the one that was running at `ns` began, in the loop of the most steps; -1.
 */
static int64_t step_before(sqlite3 *db, int64_t ns) {
    char *sql = ls_format("SELECT start_ns FROM step WHERE start_ns <= %" PRId64
                          " AND loop = (SELECT loop FROM step GROUP BY loop ORDER BY COUNT(*) DESC,"
                          " loop LIMIT 1) ORDER BY start_ns DESC LIMIT 1 OFFSET 1",
                          ns);
    int64_t step_ns = ls_query_int(db, -1, sql);
    free(sql);
    return step_ns;
}

/* Without steps what is of the last part of the time before `ns` is not kept; with them nothing is
 * that no two of them were begun after. */
static int64_t old_before(const struct ls_held_age *age, const struct ls_detect *d, int64_t ns) {
    int64_t old_ns = age->steps ? step_before(d->db, ns) : -1;
    if (age->steps)
        return old_ns >= 0 ? old_ns : 0;
    return ns - (int64_t)(LS_KEPT_AGE * (double)(ns - d->begin_ns));
}

int ls_held_age_find(struct ls_held_age *age, struct ls_detect *d, int64_t census_ns) {
    int rc;
    const struct ls_ooms *all = ls_ooms_of(d, &rc);
    size_t count = all ? all->count : 0;
    age->steps = step_before(d->db, census_ns) >= 0;
    age->old_ns = old_before(age, d, census_ns);
    age->remains = all && all->remains->count > 0;
    age->failures = count > LS_FAILURES ? 1 : count;
    for (size_t i = 0; i < age->failures; i++) {
        age->failure[i].from_ns = old_before(age, d, all->oom[i].ts_ns);
        age->failure[i].to_ns = all->oom[count > LS_FAILURES ? count - 1 : i].ts_ns;
    }
    return rc;
}

bool ls_held_old(const struct ls_held_age *age, const struct ls_counted_storage *s) {
    return s->start_ns >= 0 && s->start_ns < age->old_ns;
}

bool ls_held_outlived(const struct ls_held_age *age, const struct ls_counted_storage *s) {
    bool failed = false;
    for (size_t i = 0; i < age->failures && !failed; i++)
        failed = s->start_ns >= age->failure[i].from_ns && s->start_ns <= age->failure[i].to_ns;
    return ls_held_old(age, s) && !failed;
}
