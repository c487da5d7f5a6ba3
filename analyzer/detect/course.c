/*
 * course.c - what the detectors that follow memory from step to step share. See course.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "course.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "../json_text.h"
#include "../room.h"
#include "../stack_walk.h"
#include "workspaces.h"

#define STEPS_LOOKED_AT 8 /* for what a step usually allocates */
#define CALLERS 6         /* frames that tell which way led to a site */

/* ---- spans ---- */

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Workspaces, sorted: by their blocks where `blocks`, else by their addresses. */
struct workspaces {
    bool blocks;
    uint64_t *number;
    size_t count;
};

static void read_workspaces(const struct ls_history *h, struct workspaces *w) {
    sqlite3_stmt *stmt;
    size_t room = 0;
    if (sqlite3_prepare_v2(h->db, ls_workspaces_memory_sql, -1, &stmt, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        uint64_t number = (uint64_t)sqlite3_column_int64(stmt, w->blocks ? 0 : 1);
        if (number == 0)
            continue;
        w->number = ls_room(w->number, w->count, &room, sizeof *w->number);
        w->number[w->count++] = number;
    }
    sqlite3_finalize(stmt);
    if (w->count)
        qsort(w->number, w->count, sizeof *w->number, by_number);
}

static bool is_workspace(const struct ls_span *s, const struct workspaces *w) {
    uint64_t from = w->blocks ? (uint64_t)s->id : s->address;
    size_t low = 0, high = w->count; /* the first one that is not below */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->number[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->count && w->number[low] - from < (w->blocks ? 1 : s->size);
}

/* The spans from the first workspace on that are none, behind those before it, in a copy: there are
 * millions, and mostly no workspace is among them. */
static void leave_out(struct ls_course *course, const struct workspaces *workspaces) {
    size_t count = course->spans, first = 0;
    while (first < count && !is_workspace(&course->span[first], workspaces))
        first++;
    if (first == count)
        return;
    course->copy = ls_new(count, sizeof *course->copy);
    memcpy(course->copy, course->span, first * sizeof *course->copy);
    course->spans = first;
    for (size_t i = first + 1; i < count; i++)
        if (!is_workspace(&course->span[i], workspaces))
            course->copy[course->spans++] = course->span[i];
    course->span = course->copy;
}

static struct ls_course *make(const struct ls_history *history, bool direct) {
    struct workspaces workspaces = {.blocks = history->framework && !direct};
    struct ls_course *course = ls_new(1, sizeof *course);
    *course = (struct ls_course){.history = history,
                                 .direct = direct,
                                 .span = direct ? history->direct : history->span,
                                 .spans = direct ? history->directs : history->spans};
    if (course->spans) {
        read_workspaces(history, &workspaces);
        leave_out(course, &workspaces);
        free(workspaces.number);
    }
    return course;
}

const struct ls_course *ls_course_of(struct ls_detect *d, const struct ls_history *history,
                                     bool direct) {
    struct ls_course *course = d->courses;
    while (course && (course->history != history || course->direct != direct))
        course = course->next;
    if (!course) {
        course = make(history, direct);
        course->next = d->courses;
        d->courses = course;
    }
    return course->spans ? course : NULL;
}

void ls_courses_free(struct ls_course *list) {
    while (list) {
        struct ls_course *next = list->next;
        free(list->copy);
        free(list);
        list = next;
    }
}

const struct ls_span **ls_course_of_site(const struct ls_course *course, uint32_t site,
                                         size_t *count) {
    const struct ls_span **list = ls_new(course->spans, sizeof(const struct ls_span *));
    *count = 0;
    for (size_t i = 0; i < course->spans; i++)
        if (course->span[i].site == site)
            list[(*count)++] = &course->span[i];
    return list;
}

/* ---- sites ---- */

bool ls_course_same_function(const char *a, const char *b) {
    const char *line[] = {strrchr(a, ':'), strrchr(b, ':')};
    const char *function[] = {line[0] ? strchr(line[0], ' ') : NULL,
                              line[1] ? strchr(line[1], ' ') : NULL};
    return function[0] && function[1] && line[0] - a == line[1] - b &&
           strncmp(a, b, (size_t)(line[0] - a)) == 0 && strcmp(function[0], function[1]) == 0;
}

bool ls_course_told_of(const struct ls_detect *d, const char *kind, const char *site) {
    for (size_t i = 0; i < d->finding_count; i++)
        if (strcmp(d->finding[i].kind, kind) == 0 &&
            (strcmp(d->finding[i].site, site) == 0 ||
             ls_course_same_function(d->finding[i].site, site)))
            return true;
    return false;
}

/* ---- steps and failures ---- */

/* Spans that begin in [from, to). */
static size_t born_in(const struct ls_history *h, int64_t from, int64_t to) {
    size_t born = 0;
    for (size_t i = 0; i < h->spans && h->span[i].start_ns < to; i++)
        born += h->span[i].start_ns >= from;
    return born;
}

size_t ls_course_step(const struct ls_history *history, int loop, int64_t ts_ns) {
    int64_t begin[STEPS_LOOKED_AT + 1] = {0}, end_ns = 0; /* the last ones, by number */
    uint64_t born[STEPS_LOOKED_AT];
    size_t begun = 0, i, count = 0;
    for (i = 0; i < history->steps && history->step[i].start_ns <= ts_ns; i++)
        if (history->step[i].loop == loop) {
            begin[begun++ % (STEPS_LOOKED_AT + 1)] = history->step[i].start_ns;
            end_ns = history->step[i].end_ns;
        }
    if (begun < 2 || i < history->steps || ts_ns < end_ns)
        return begun;
    /* A step that is cut off may be none of the table's. Where as much was allocated since the last
     * one's begin as a step does, what happens then belongs to the next. */
    for (size_t n = begun > STEPS_LOOKED_AT ? begun - STEPS_LOOKED_AT : 1; n < begun; n++)
        born[count++] = born_in(history, begin[(n - 1) % (STEPS_LOOKED_AT + 1)],
                                begin[n % (STEPS_LOOKED_AT + 1)]);
    int64_t last_ns = begin[(begun - 1) % (STEPS_LOOKED_AT + 1)];
    return begun + (born_in(history, last_ns, ts_ns) >= ls_course_median(born, count));
}

const struct ls_oom_event *ls_course_oom(const struct ls_oom_events *ooms, int device,
                                         int64_t ts_ns) {
    for (size_t i = 0; i < ooms->count; i++)
        if (!ooms->oom[i].recovered && ooms->oom[i].device == device && ooms->oom[i].ts_ns >= ts_ns)
            return &ooms->oom[i];
    return NULL;
}

/* ---- stacks ---- */

#define FRAMES_OF_STACK                                                                            \
    LS_STACK_WALK                                                                                  \
    "SELECT frame.function, frame.file, frame.line, frame.kind, frame.module"                      \
    " FROM walk JOIN stack ON stack.id = node JOIN frame ON frame.id = stack.frame"                \
    " ORDER BY depth"

json_t *ls_course_callers(sqlite3 *db, uint32_t stack) {
    json_t *list = json_array();
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, FRAMES_OF_STACK, -1, &stmt, NULL) != SQLITE_OK)
        return list;
    sqlite3_bind_int64(stmt, 1, stack);
    while (sqlite3_step(stmt) == SQLITE_ROW && json_array_size(list) < CALLERS) {
        const char *function = (const char *)sqlite3_column_text(stmt, 0);
        const char *file = (const char *)sqlite3_column_text(stmt, 1);
        if (!function || !file || sqlite3_column_int(stmt, 2) == 0)
            continue;
        char *text = ls_format("%s:%d %s", file, sqlite3_column_int(stmt, 2), function);
        json_array_append_new(list, ls_json_text(text));
        free(text);
    }
    sqlite3_finalize(stmt);
    return list;
}

/* ---- Python's garbage collector ---- */

/* It runs inside of an allocation (until 3.11), between two instructions (from 3.12 on) or where it
 * is called. Its own functions have names only in an interpreter that was not stripped; those that
 * allocate are exported. A function that allocates an object on the stack of a free means that the
 * free was the collector's. */
static const char *const collectors[] = {
    "gc_collect*",
    "_PyGC_Collect*",
    "PyGC_Collect*",
    "_Py_RunGC*",
    "collect_with_call*",
    "delete_garbage*",
    "handle_weakrefs*",
    "_Py_HandlePending*",
    "_PyObject_GC_New*",
    "PyType_GenericAlloc",
    "_PyObject_GC_Alloc*",
    "_PyObject_GC_Link",
    "_PyObject_GC_TryTrack*",
    "PyDict_New",
    "PyList_New",
    "PyTuple_New",
    "_PyTuple_FromArray*",
    "_PyList_FromArray*",
    "PyCell_New",
    "PyMethod_New",
    "PySlice_New",
    "_PyFunction_FromConstructor",
    "PyFunction_New*",
    "PyCMethod_New",
    "PySet_New",
};

struct ls_collector {
    sqlite3_stmt *stmt;
    unsigned char *known; /* by stack: 0 not asked yet, 1 no, 2 yes */
    size_t room;
};

struct ls_collector *ls_collector_new(sqlite3 *db) {
    struct ls_collector *c = ls_new(1, sizeof *c);
    if (sqlite3_prepare_v2(db, FRAMES_OF_STACK, -1, &c->stmt, NULL) != SQLITE_OK)
        c->stmt = NULL;
    return c;
}

void ls_collector_free(struct ls_collector *c) {
    sqlite3_finalize(c->stmt);
    free(c->known);
    free(c);
}

static bool ask(struct ls_collector *c, uint32_t stack) {
    bool found = false;
    if (!c->stmt)
        return false;
    sqlite3_bind_int64(c->stmt, 1, stack);
    while (!found && sqlite3_step(c->stmt) == SQLITE_ROW) {
        const char *function = (const char *)sqlite3_column_text(c->stmt, 0);
        if (sqlite3_column_int(c->stmt, 3) != 0)
            break; /* Python's frames: the interpreter is reached */
        for (size_t i = 0; function && !found && i < sizeof collectors / sizeof *collectors; i++)
            found = fnmatch(collectors[i], function, 0) == 0;
    }
    sqlite3_reset(c->stmt);
    return found;
}

bool ls_collector_in(struct ls_collector *c, uint32_t stack) {
    if (stack == 0)
        return false;
    if (stack >= c->room) {
        size_t room = c->room ? c->room : 1024;
        while (room <= stack)
            room *= 2;
        c->known = realloc(c->known, room);
        if (!c->known)
            ls_detect_no_memory();
        memset(c->known + c->room, 0, room - c->room);
        c->room = room;
    }
    if (!c->known[stack])
        c->known[stack] = ask(c, stack) ? 2 : 1;
    return c->known[stack] == 2;
}

size_t ls_collector_unnamed(struct ls_collector *c, uint32_t stack) {
    size_t unnamed = 0;
    int64_t last = -1; /* module: of the native frame next to Python's it is the interpreter's */
    bool python = false;
    if (!c->stmt || stack == 0)
        return 0;
    sqlite3_bind_int64(c->stmt, 1, stack);
    while (!python && sqlite3_step(c->stmt) == SQLITE_ROW) {
        if ((python = sqlite3_column_int(c->stmt, 3) != 0))
            break;
        int64_t module = sqlite3_column_int64(c->stmt, 4);
        if (module != last)
            unnamed = 0;
        last = module;
        unnamed += sqlite3_column_type(c->stmt, 0) == SQLITE_NULL;
    }
    sqlite3_reset(c->stmt);
    return python ? unnamed : 0;
}

/* ---- numbers ---- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

uint64_t ls_course_median(uint64_t *number, size_t count) {
    if (count == 0)
        return 0;
    qsort(number, count, sizeof *number, by_value);
    return number[count / 2];
}
