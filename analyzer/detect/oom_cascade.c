/*
 * oom_cascade.c - `oom-cascade`: what a failed step had made was still held when it was tried
 * again, because the exception holds the frames that it came through.
 *
 * Needs: the ooms, the blocks and their Python stacks; the census is the proof where there is one.
 * Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "oom_facts.h"
#include "oom_remains.h"
#include "thresholds.h"

static enum ls_severity severity_of(const struct ls_detect *d, const struct ls_oom_left *left) {
    if (left->consequences)
        return LS_PROBLEM;
    if (left->proven > 0 && ls_share_of_memory(d, left->bytes) >= LS_SHARE_PROBLEM)
        return LS_WARNING;
    return LS_INFO;
}

static char *why_of(const struct ls_oom_left *left) {
    struct ls_human proven;
    return ls_format("An exception refers to its traceback, that to the frames of the failed call, "
                     "and those to their tensors%s; until it is gone nothing of it can be given "
                     "back. %s%s%s",
                     left->backward ? " and the graph behind them" : "",
                     left->proven > 0 ? ls_human_bytes(&proven, left->proven)
                                      : "All of the blocks were made below one call that failed",
                     left->proven > 0 ? " were held by an exception alone when the census looked."
                                      : ", and outlived it.",
                     left->consequences
                         ? " The later ooms would not have been without it: they are consequences."
                         : "");
}

static void add(struct ls_detect *d, const struct ls_oom_left *left) {
    struct ls_finding *f = ls_finding_add(d, "oom-cascade");
    struct ls_human bytes, count, later;
    f->severity = severity_of(d, left);
    f->site = ls_format("%s", left->site);
    f->count = left->blocks;
    f->bytes = f->gain_bytes = left->bytes;
    f->title =
        left->consequences
            ? ls_format("%s made in the failed step were never given back before the retry, which "
                        "then ran out of memory, too (%s %s): all of it was made below %s",
                        ls_human_bytes(&bytes, left->bytes),
                        ls_human_count(&later, (int64_t)left->consequences),
                        ls_plural((int64_t)left->consequences, "time", "times"), left->below)
            : ls_format("%s made in a failed step in %s %s were still held when the program went "
                        "on: all of it was made below %s",
                        ls_human_bytes(&bytes, left->bytes), ls_human_count(&count, left->blocks),
                        ls_plural(left->blocks, "block", "blocks"), left->below);
    char *why = why_of(left);
    json_object_update_new(
        f->evidence,
        json_pack("{s:s, s:i, s:o, s:I, s:I, s:I, s:o, s:I, s:b, s:O, s:O}", "confidence",
                  left->proven > 0 ? "seen" : "linked", "device", left->first->device, "why",
                  ls_json_text(why), "cause", (json_int_t)left->first->id, "left_bytes",
                  (json_int_t)left->bytes, "left_blocks", (json_int_t)left->blocks, "below",
                  ls_json_text(left->below), "retry_ns", (json_int_t)left->retry_ns, "backward",
                  left->backward, "holders", left->holders, "later", left->later));
    free(why);
    json_object_set_new(f->evidence, "held_by_exception",
                        left->proven >= 0 ? json_integer(left->proven) : json_null());
    json_object_set_new(f->evidence, "given_back_ns",
                        left->until_ns == LS_NEVER ? json_null() : json_integer(left->until_ns));
    f->advice = ls_format("Leave the except block before trying again: only note there that it "
                          "failed, and call again after it; by then the exception and its frames "
                          "are gone. Keep no exception in a variable or a list (store str(error)), "
                          "and drop the step's own variables first. A smaller batch alone does not "
                          "help while the first one's memory is held%s.",
                          left->backward ? "; after a failed backward drop the loss as well" : "");
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int rc;
    const struct ls_ooms *all = ls_ooms_of(d, &rc);
    (void)self;
    for (size_t i = 0; all && i < all->remains->count; i++)
        add(d, &all->remains->left[i]);
    return rc;
}

const struct ls_detector ls_detect_oom_cascade = {"oom-cascade", run};
