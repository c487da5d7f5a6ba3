/*
 * stack_sites.c - the site and the operators of stacks whose frames have names. See stacks.h.
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>

#include "now.h"
#include "operator.h"
#include "site.h"
#include "stacks.h"
#include "stacks_internal.h"

#define SITE_FRAMES_MAX (2 * LS_STACK_FRAMES_MAX) /* of one stack, inlined ones too */
#define TEXT_MAX 4096
#define WRITING_MS 10 /* at a time: an oom waits for nothing longer */

static int add_python_frame(const struct ls_frame *frame, struct ls_site_frame *out) {
    *out = (struct ls_site_frame){.python = true,
                                  .forward = frame->key.module == LS_FRAME_FORWARD,
                                  .function = frame->key.code->name,
                                  .file = frame->key.code->file,
                                  .line = (uint32_t)frame->key.offset};
    return 1;
}

static int add_site_frames(const struct ls_stacks *stacks, const struct ls_frame *frame,
                           struct ls_site_frame *out, int room) {
    if (frame->key.code)
        return room > 0 ? add_python_frame(frame, out) : 0;
    const struct ls_module *module = ls_modules_at(stacks->modules, frame->key.module);
    bool program = module && ls_modules_is_program(stacks->modules, module);
    int count = 0;
    for (const struct ls_frame_name *name = &frame->name; name && count < room; name = name->outer)
        out[count++] = (struct ls_site_frame){.module = module ? module->path : NULL,
                                              .main_program = program,
                                              .offset = frame->key.offset,
                                              .function = name->function,
                                              .function_offset = name->function_offset,
                                              .file = name->file,
                                              .line = name->line};
    return count;
}

static bool all_named(const struct ls_waiting *waiting) {
    for (uint32_t i = 0; i < waiting->depth; i++)
        if (waiting->frame[i] && waiting->frame[i]->state != LS_FRAME_NAMED)
            return false;
    return true;
}

/* Where a framework's own thread shows nobody's line, what it was doing is the better answer. */
static const char *choose_text(const struct ls_site_frame *frame, int count, const char *backward,
                               char *text, size_t size) {
    int chosen = ls_site_choose(frame, count);
    if (backward && (chosen < 0 || ls_site_level(&frame[chosen]) <= LS_SITE_PLUMBING))
        return backward;
    if (chosen < 0)
        return NULL;
    ls_site_text(&frame[chosen], text, size);
    return text;
}

static void write_site(struct ls_stacks *stacks, const struct ls_waiting *waiting,
                       struct ls_site_frame *frame) {
    char text[TEXT_MAX], backward_text[LS_OPERATOR_MAX];
    struct ls_operators operators;
    int count = 0;
    for (uint32_t i = 0; i < waiting->depth; i++)
        if (waiting->frame[i])
            count +=
                add_site_frames(stacks, waiting->frame[i], frame + count, SITE_FRAMES_MAX - count);
    const char *backward =
        ls_backward_text(frame, count, backward_text, sizeof backward_text) ? backward_text : NULL;
    const char *site = choose_text(frame, count, backward, text, sizeof text);
    bool known = ls_operators_of(frame, count, &operators);
    const char *outer = known ? operators.outer : backward != site ? backward : NULL;
    if (site || outer)
        ls_db_put(stacks->db, LS_PUT_SITE, "sssi", site, outer, known ? operators.inner : NULL,
                  waiting->id);
}

bool ls_stacks_write_sites(struct ls_stacks *stacks, bool all) {
    struct ls_site_frame *frame = NULL;
    int64_t end = ls_now_ms() + WRITING_MS;
    bool done = true;
    for (struct ls_waiting **link = &stacks->waiting; *link;) {
        struct ls_waiting *waiting = *link;
        if (!all && !all_named(waiting)) {
            link = &waiting->next;
            continue;
        }
        done = all || ls_now_ms() < end;
        if (!frame && done)
            frame = malloc(SITE_FRAMES_MAX * sizeof *frame);
        if (!frame || !done)
            break;
        write_site(stacks, waiting, frame);
        *link = waiting->next;
        free(waiting);
    }
    free(frame);
    return done;
}
