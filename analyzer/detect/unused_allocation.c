/*
 * unused_allocation.c - `unused-allocation`: memory that was held, and that nothing ever used.
 *
 * Needs: operands and arguments of all work of its life (uses.h). Cost: its bytes at the peak. Main
 * thread only; not for signal handlers.
 */
#include <stdlib.h>

#include "../human.h"
#include "idle.h"

static void tell(struct ls_detect *d, const struct ls_detector *self, const struct ls_idle *idle) {
    struct ls_human a, b;
    struct ls_finding *f = ls_idle_finding(d, self->kind, idle);
    bool never = idle->at[0].span->end_ns == LS_NEVER;
    char *matter = ls_idle_matter(idle);
    f->title = ls_format("%s in %s %s that nothing used, from the allocation to the %s%s",
                         ls_human_bytes(&a, f->bytes), ls_human_count(&b, f->count),
                         ls_plural(f->count, "block", "blocks"), never ? "end" : "free", matter);
    json_object_set_new(
        f->evidence, "why",
        json_string("No copy, memset, library's call or kernel was given an address in it."));
    f->advice =
        idle->gain || idle->oom
            ? ls_format(
                  "Leave it out, or make it where it is needed for the first time (and only if "
                  "it is). If it is spare room for a case that did not come up in this run, "
                  "make it when the case comes up.")
            : ls_format("Leave it out; but it is no part of the peak, so the program will not fit "
                        "into less memory without it.");
    free(matter);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    return ls_idle_each(d, self, LS_IDLE_UNUSED, tell);
}

const struct ls_detector ls_detect_unused_allocation = {"unused-allocation", run};
