/*
 * early_allocation.c - `early-allocation`: memory that was made long before its first use.
 *
 * Needs: operands and arguments of all work until its first use (uses.h). Cost: its bytes at the
 * peak, if that came before. Main thread only; not for signal handlers.
 */
#include <stdlib.h>

#include "../human.h"
#include "../json_text.h"
#include "idle.h"

static void tell(struct ls_detect *d, const struct ls_detector *self, const struct ls_idle *idle) {
    struct ls_human a;
    struct ls_finding *f = ls_idle_finding(d, self->kind, idle);
    const struct ls_stretch *s = &idle->at[0];
    char *words, *matter = ls_idle_matter(idle);
    json_object_set_new(f->evidence, "first_use", ls_idle_call(d, s->used->first_call, &words));
    json_object_set_new(f->evidence, "known_until_use",
                        json_boolean(s->to_ns == s->used->first_ns));
    char *how_long = ls_idle_long(s);
    f->title = ls_format("%s made %s before its first use%s", ls_human_bytes(&a, f->bytes),
                         how_long, matter);
    char *why = ls_format("The first that used it is %s.", words);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    f->advice =
        idle->gain || idle->oom
            ? ls_format(
                  "Make it just before %s. If it was made early to be sure of the memory, that "
                  "is what it costs.",
                  words)
            : ls_format("Make it just before %s; but the peak does not come before that, so the "
                        "program will not fit into less memory.",
                        words);
    free(how_long);
    free(why);
    free(words);
    free(matter);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    return ls_idle_each(d, self, LS_IDLE_EARLY, tell);
}

const struct ls_detector ls_detect_early_allocation = {"early-allocation", run};
