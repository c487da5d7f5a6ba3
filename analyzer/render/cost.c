/*
 * cost.c - what recording itself cost the program. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <inttypes.h>

#include "../detect/thresholds.h"
#include "../ending.h"
#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "render.h"

struct cost {
    int64_t run_ns, start_ns, calls, calls_ns, buffers, buffers_ns, flushes;
    double share; /* of the run, in the program's own threads */
};

/* False: the trace does not say. */
static bool read_cost(sqlite3 *db, struct cost *cost) {
    *cost = (struct cost){
        .run_ns = ls_recorded_ns(db),
        .start_ns = ls_query_meta_int(db, 0, "cost.start_ns"),
        .calls = ls_query_meta_int(db, 0, "cost.calls"),
        .calls_ns = ls_query_meta_int(db, 0, "cost.calls_ns"),
        .buffers = ls_query_meta_int(db, 0, "cost.buffers"),
        .buffers_ns = ls_query_meta_int(db, 0, "cost.buffers_ns"),
        .flushes = ls_query_meta_int(db, 0, "cost.flushes"),
    };
    if (cost->run_ns <= 0 || ls_query_meta_int(db, 0, "cost.samples") < LS_COST_SAMPLES)
        return false;
    cost->share = (double)cost->calls_ns / (double)cost->run_ns;
    return true;
}

/* Steps with and without recording, where the program ran both (LAYOUTSPY_MEASURE). */
static void put_measured(sqlite3 *db, FILE *out) {
    int64_t with = ls_query_meta_int(db, 0, "cost.step_with_ns");
    int64_t without = ls_query_meta_int(db, 0, "cost.step_without_ns");
    struct ls_human ns[2];
    if (with > 0 && without > 0)
        fprintf(
            out,
            "           measured: a step takes %.3f times as long as without recording (medians "
            "of %" PRId64 " and %" PRId64 " steps, %s and %s)\n",
            (double)with / (double)without, ls_query_meta_int(db, 0, "cost.steps_with"),
            ls_query_meta_int(db, 0, "cost.steps_without"), ls_human_ns(&ns[0], with),
            ls_human_ns(&ns[1], without));
}

int ls_render_cost(sqlite3 *db, FILE *out) {
    struct ls_human share, run, calls, each, start, buffers, spent;
    struct cost cost;
    if (!read_cost(db, &cost)) {
        fputs("unknown: too few calls were timed\n", out);
        put_measured(db, out);
        return SQLITE_OK;
    }
    const char *part = ls_human_share(&share, cost.share); /* it may begin with "less than" */
    fprintf(out, "%s%s of %s (%s %s at %s)", *part == 'l' ? "" : "about ", part,
            ls_human_ns(&run, cost.run_ns), ls_human_count(&calls, cost.calls),
            ls_plural(cost.calls, "call", "calls"),
            ls_human_ns(&each, cost.calls ? cost.calls_ns / cost.calls : 0));
    fprintf(out, "; %s to start", ls_human_ns(&start, cost.start_ns));
    if (cost.buffers)
        fprintf(out, "; %s of CUPTI's buffers read in %s, beside the program",
                ls_human_count(&buffers, cost.buffers), ls_human_ns(&spent, cost.buffers_ns));
    fputc('\n', out);
    put_measured(db, out);
    return SQLITE_OK;
}

void ls_render_cost_warning(sqlite3 *db, const char *indent, FILE *out) {
    struct ls_human share, spent;
    struct cost cost;
    if (!read_cost(db, &cost) || cost.share < LS_OWN_COST_SHARE || cost.calls_ns < LS_OWN_COST_NS)
        return;
    fputs(indent, out);
    ls_term_style(out, LS_YELLOW);
    fputs("recording itself", out);
    ls_term_style(out, LS_PLAIN);
    fprintf(out,
            " took about %s, %s of the run: times of calls are longer than without it. "
            "LAYOUTSPY_STACKS=off saves most of it, LAYOUTSPY_CUPTI=copies what kernels cost\n",
            ls_human_ns(&spent, cost.calls_ns), ls_human_share(&share, cost.share));
}
