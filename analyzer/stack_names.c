/*
 * stack_names.c - asking the symbolizer for the names of frames. See stacks.h.
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "now.h"
#include "stacks.h"
#include "stacks_internal.h"

#define HUNG_MS 10000 /* a file that takes longer is taken for corrupt */

void ls_frame_ask(struct ls_stacks *stacks, struct ls_frame *frame) {
    if (frame->key.module == 0) {
        frame->state = LS_FRAME_NAMED;
        return;
    }
    frame->next = stacks->todo;
    stacks->todo = frame;
}

void ls_frame_clear_name(struct ls_frame_name *name) {
    free(name->function);
    free(name->file);
    while (name->outer) {
        struct ls_frame_name *outer = name->outer;
        name->outer = outer->outer;
        free(outer->function);
        free(outer->file);
        free(outer);
    }
}

/* Keep one symbol, and put its row: row `id`, inlined into row `into` (0: into none). */
static void keep_name(struct ls_stacks *stacks, const struct ls_frame *frame,
                      struct ls_frame_name *name, const struct ls_symbol *symbol, int64_t id,
                      int64_t into) {
    name->function = symbol->function ? strdup(symbol->function) : NULL;
    name->file = symbol->file ? strdup(symbol->file) : NULL;
    name->line = symbol->line;
    name->function_offset = symbol->function_offset;
    ls_db_put(stacks->db, LS_PUT_FRAME_RESOLVED, "iiuszszz", id, frame->key.module,
              frame->key.offset, name->function, (int64_t)name->function_offset, name->file,
              (int64_t)name->line, into);
}

static void take_answer(void *context, uint32_t index, const struct ls_symbol *symbol, int count) {
    struct ls_stacks *stacks = context;
    struct ls_frame *frame = stacks->asked[index];
    struct ls_frame_name *name = &frame->name;
    int64_t id = frame->id;
    frame->state = LS_FRAME_NAMED;
    for (int i = 0; i < count; i++) {
        struct ls_frame_name *outer = i + 1 < count ? calloc(1, sizeof *outer) : NULL;
        int64_t into = outer ? stacks->next_frame++ : 0;
        keep_name(stacks, frame, name, &symbol[i], id, into);
        name->outer = outer;
        if (!outer)
            return;
        name = outer;
        id = into;
    }
}

/* Take out of `todo` the frames of one module, as many as fit into one question. */
static void fill_question(struct ls_stacks *stacks) {
    int64_t module = stacks->todo->key.module;
    stacks->asked_count = 0;
    for (struct ls_frame **link = &stacks->todo; *link;) {
        struct ls_frame *frame = *link;
        if (frame->key.module != module || stacks->asked_count == LS_SYMBOLIZER_BATCH) {
            link = &frame->next;
            continue;
        }
        *link = frame->next;
        frame->state = LS_FRAME_ASKED;
        stacks->asked[stacks->asked_count++] = frame;
    }
}

static void give_up_question(struct ls_stacks *stacks) {
    for (uint32_t i = 0; i < stacks->asked_count; i++)
        stacks->asked[i]->state = LS_FRAME_NAMED;
    stacks->asked_count = 0;
}

/* The worker died of this file: ask nothing more about it. */
static void drop_module(struct ls_stacks *stacks) {
    int64_t module = stacks->asked[0]->key.module;
    give_up_question(stacks);
    for (struct ls_frame **link = &stacks->todo; *link;) {
        struct ls_frame *frame = *link;
        if (frame->key.module == module) {
            frame->state = LS_FRAME_NAMED;
            *link = frame->next;
        } else {
            link = &frame->next;
        }
    }
}

static bool ask(struct ls_stacks *stacks) {
    uint64_t offset[LS_SYMBOLIZER_BATCH];
    fill_question(stacks);
    const struct ls_module *module = ls_modules_at(stacks->modules, stacks->asked[0]->key.module);
    for (uint32_t i = 0; i < stacks->asked_count; i++)
        offset[i] = stacks->asked[i]->key.offset;
    stacks->asked_at_ms = ls_now_ms();
    return module && module->path[0] == '/' &&
           ls_symbolizer_ask(&stacks->symbolizer, module->path, module->build_id,
                             module->build_id_size, offset, stacks->asked_count);
}

bool ls_stacks_symbolize(struct ls_stacks *stacks, int timeout_ms) {
    if (stacks->asked_count > 0) {
        switch (ls_symbolizer_poll(&stacks->symbolizer, timeout_ms, take_answer, stacks)) {
        case LS_SYMBOLIZER_WAITING:
            if (ls_now_ms() - stacks->asked_at_ms < HUNG_MS)
                return true;
            ls_symbolizer_stop(&stacks->symbolizer);
            drop_module(stacks);
            break;
        case LS_SYMBOLIZER_FAILED:
            drop_module(stacks);
            break;
        case LS_SYMBOLIZER_DONE:
            stacks->asked_count = 0;
            break;
        }
    }
    while (stacks->todo && stacks->asked_count == 0)
        if (!ask(stacks))
            drop_module(stacks);
    stacks->more =
        stacks->asked_count == 0 && stacks->waiting && !ls_stacks_write_sites(stacks, false);
    return stacks->asked_count > 0 || stacks->more;
}

bool ls_stacks_busy(const struct ls_stacks *stacks) {
    return stacks->more;
}

void ls_stacks_give_up(struct ls_stacks *stacks) {
    ls_symbolizer_stop(&stacks->symbolizer);
    give_up_question(stacks);
    for (; stacks->todo; stacks->todo = stacks->todo->next)
        stacks->todo->state = LS_FRAME_NAMED;
    ls_stacks_write_sites(stacks, true);
}
