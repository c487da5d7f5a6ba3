/*
 * late_free.c - `late-free`: memory that was held long after its last use.
 *
 * Needs: operands and arguments of all work after its last use (uses.h). Cost: its bytes at the
 * peak, if that came after. Main thread only; not for signal handlers.
 */
#include <stdlib.h>

#include "../human.h"
#include "../json_text.h"
#include "idle.h"

static void tell(struct ls_detect *d, const struct ls_detector *self, const struct ls_idle *idle) {
    struct ls_human a;
    struct ls_finding *f = ls_idle_finding(d, self->kind, idle);
    const struct ls_stretch *s = &idle->at[0];
    bool never = s->span->end_ns == LS_NEVER;
    const char *free_site = ls_history_site(idle->history, s->span->free_site);
    char *words, *matter = ls_idle_matter(idle);
    json_object_set_new(f->evidence, "last_use", ls_idle_call(d, s->used->last_call, &words));
    json_object_set_new(f->evidence, "known_from_use",
                        json_boolean(s->from_ns == s->used->last_ns + 1));
    if (!never)
        json_object_set_new(f->evidence, "free_site", ls_json_text(free_site));
    char *how_long = ls_idle_long(s);
    f->title = ls_format("%s %s %s after its last use%s", ls_human_bytes(&a, f->bytes),
                         never ? "still held" : "freed", how_long, matter);
    char *why =
        ls_format("The last that used it is %s%s%s.", words,
                  never ? "; nothing freed it" : "; it was freed at ", never ? "" : free_site);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    f->advice = ls_format(
        "%s after %s%s",
        d->pytorch && !idle->direct ? "`del` the names that hold it (or set them to None)"
                                    : "Free it",
        words,
        idle->gain || idle->oom
            ? ". If it is needed again after the run, copy it to the host and back."
            : "; but the peak does not come after that, so the program will not fit into less "
              "memory.");
    free(how_long);
    free(why);
    free(words);
    free(matter);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    return ls_idle_each(d, self, LS_IDLE_LATE, tell);
}

const struct ls_detector ls_detect_late_free = {"late-free", run};
