/*
 * steps.c - which kind of steps a trace has. See steps.h. One thread; not async-signal-safe.
 */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layoutspy/format.h"
#include "step_stream.h"

static void take_mark(sqlite3_stmt *stmt, void *context) {
    struct ls_step_list *list = context;
    int64_t ns = sqlite3_column_int64(stmt, 0);
    if (list->count && list->step[list->count - 1].start_ns < ns)
        list->step[list->count - 1].end_ns = ns;
    ls_step_add(list, (struct ls_step){ns, ns, 1, 0});
}

/* From each mark to the next; the last one to the end of the last call. */
static bool by_marks(const struct ls_step_streams *all, struct ls_trace_db *db,
                     struct ls_step_list *list) {
    char sql[80];
    snprintf(sql, sizeof sql, "SELECT ts_ns FROM mark WHERE kind = %d ORDER BY ts_ns, id",
             LS_MARK_STEP);
    ls_db_each(db, sql, take_mark, list);
    for (uint32_t i = 0; list->count && i < all->count; i++) {
        const struct ls_step_stream *stream = &all->stream[i];
        struct ls_step *last = &list->step[list->count - 1];
        if (stream->end_ns > last->end_ns)
            last->end_ns = stream->end_ns;
    }
    list->loops = 1;
    return list->count > 0;
}

static int by_start(const void *a, const void *b) {
    const struct ls_step *x = a, *y = b;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* Loops by when they began: the search found the main one first. */
static void number_loops(struct ls_step_list *list) {
    uint32_t seen = 0, *number = calloc(list->loops + 1, sizeof *number);
    if (list->count)
        qsort(list->step, list->count, sizeof *list->step, by_start);
    for (uint32_t i = 0; number && i < list->count; i++) {
        uint32_t *mine = &number[list->step[i].loop];
        if (!*mine)
            *mine = ++seen;
        list->step[i].loop = *mine;
    }
    free(number);
}

static const char *find(struct ls_step_streams *all, struct ls_trace_db *db,
                        struct ls_step_list *list) {
    if (by_marks(all, db, list))
        return "marked";
    if (ls_steps_by_optimizer(all, db, list))
        return "optimizer";
    int64_t pid = ls_db_number(db, "SELECT value FROM meta WHERE key = 'pid'");
    if (ls_steps_by_pattern(all, pid, list))
        return "pattern";
    return "none";
}

static void put_coverage(struct ls_trace_db *db, const char *source, bool out_of_memory) {
    static const char *const told[][3] = {
        {"marked", "on", "as the program marked them (layoutspy_step)"},
        {"optimizer", "on", "told by the bursts of the program's optimizers"},
        {"pattern", "on", "told by the repetition of the program's calls"},
        {"none", "off",
         "no loop of at least 3 like iterations was found; layoutspy_step() marks them"},
    };
    if (out_of_memory)
        ls_db_put(db, LS_PUT_COVERAGE, "sss", "steps", "off", "no memory to look for them");
    for (size_t i = 0; !out_of_memory && i < sizeof told / sizeof told[0]; i++)
        if (strcmp(source, told[i][0]) == 0)
            ls_db_put(db, LS_PUT_COVERAGE, "sss", "steps", told[i][1], told[i][2]);
}

void ls_steps_build(struct ls_trace_db *db) {
    struct ls_step_streams all;
    struct ls_step_list list = {0};
    const char *source = "none";
    ls_db_exec(db, "DELETE FROM step; DELETE FROM coverage WHERE layer = 'steps'");
    ls_step_streams_load(&all, db);
    if (!all.out_of_memory)
        source = find(&all, db, &list);
    if (list.out_of_memory || all.out_of_memory) {
        list.count = 0;
        source = "none";
    }
    number_loops(&list);
    ls_steps_put(&all, &list, source, db);
    ls_db_put(db, LS_PUT_META, "ss", "steps", source);
    put_coverage(db, source, list.out_of_memory || all.out_of_memory);
    ls_step_streams_free(&all);
    free(list.step);
}
