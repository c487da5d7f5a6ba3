/*
 * storage_held_by_views.c - memory that tensors hold and nobody uses, as a census saw it.
 *
 * Four shapes: small views that keep whole storages; parts of one packed storage; kept tensors
 * whose autograd graph holds more than they; and what only reference cycles hold. What belongs to
 * the step that is running is no finding: it goes when the step is over. Nor is what an exception
 * alone holds of a step that failed: that is oom-cascade's matter. A list that grew over many steps
 * is kept, whether a global variable, a running function's or that of an exception's frame holds
 * it.
 *
 * Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../census.h"
#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "detect.h"
#include "held_age.h"
#include "thresholds.h"

struct held {
    struct ls_detect *d;
    const char *kind;
    struct ls_census census;
    struct ls_held_age age;
    int problems, notes;
};

/* ---- what a storage's tensors make use of ---- */

/* Bytes that a tensor reaches; of an expanded one not more than there are. */
static uint64_t reach(const struct ls_counted_storage *s, const struct ls_counted_tensor *t) {
    return t->bytes < s->bytes ? t->bytes : s->bytes;
}

/* The tensor that a view was taken of lives on in the view alone: nothing else leads to it. */
static bool is_reached(const struct ls_counted_tensor *t) {
    return t->held || t->paths;
}

static bool same_part(const struct ls_counted_tensor *a, const struct ls_counted_tensor *b) {
    return a->offset == b->offset && a->bytes == b->bytes && strcmp(a->dims, b->dims) == 0 &&
           strcmp(a->strides, b->strides) == 0;
}

/* Different parts of a storage, and their bytes: parts that overlap count twice, so that what is
 * said to be unused is. A few thousand views of one storage are all looked at, more are not. */
#define PARTS_COMPARED 2000
static size_t parts_of(const struct ls_counted_storage *s, uint64_t *covered) {
    size_t parts = 0;
    *covered = 0;
    for (size_t i = 0; i < s->tensors; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && i < PARTS_COMPARED && !seen; k++)
            seen = same_part(&s->tensor[i], &s->tensor[k]);
        if (seen || !is_reached(&s->tensor[i]))
            continue;
        parts++;
        *covered += reach(s, &s->tensor[i]);
    }
    if (*covered > s->bytes)
        *covered = s->bytes;
    return parts;
}

static bool only(const struct ls_counted_storage *s, int held) {
    return s->held && !(s->held & ~held);
}

/* The frames of an exception hold it, and nobody else. */
static bool only_raised(const struct ls_counted_storage *s) {
    return s->held & LS_HELD_RAISED && only(s, LS_HELD_RAISED | LS_HELD_GRAPH);
}

static bool wasted(const struct ls_counted_storage *s, void *context) {
    const struct held *h = context;
    uint64_t covered;
    if (!s->held || s->held & LS_HELD_LOST || only(s, LS_HELD_GRAPH) ||
        (only_raised(s) && !ls_held_outlived(&h->age, s)))
        return false;
    parts_of(s, &covered);
    return (double)covered <= LS_VIEWS_COVER * (double)s->bytes;
}

static bool packed(const struct ls_counted_storage *s, void *context) {
    uint64_t covered;
    return s->bytes >= LS_CENSUS_BYTES && s->tensors >= LS_STORAGE_PARTS && !wasted(s, context) &&
           !only(s, LS_HELD_GRAPH | LS_HELD_RAISED | LS_HELD_LOST) &&
           parts_of(s, &covered) >= LS_STORAGE_PARTS;
}

/* Bytes that only this tensor's graph holds, of before the running step, and of before a failed one
 * where an exception holds the tensor. */
static uint64_t old_behind(const struct held *h, const struct ls_counted_storage *holder) {
    const char *path = ls_census_path(holder);
    size_t length = path ? strlen(path) : 0;
    uint64_t bytes = 0;
    for (size_t i = 0; path && i < h->census.storages; i++) {
        const struct ls_counted_storage *s = &h->census.storage[i];
        bool counts = only(s, LS_HELD_GRAPH) && (only_raised(holder) ? ls_held_outlived(&h->age, s)
                                                                     : ls_held_old(&h->age, s));
        const char *way = counts ? ls_census_path(s) : NULL;
        if (way && strncmp(way, path, length) == 0 && strncmp(way + length, ".grad_fn", 8) == 0)
            bytes += s->bytes;
    }
    return bytes;
}

/* total += loss: made anew in each step, but its graph reaches back. */
static bool reaches_back_from(const struct held *h, const struct ls_counted_storage *s) {
    if (only_raised(s) && h->age.remains)
        return false; /* where the loop found is one within the failed step, all of it looks old */
    return 2 * old_behind(h, s) >= s->held_by_graph;
}

static bool has_graph(const struct ls_counted_storage *s, void *context) {
    const struct held *h = context;
    return s->held_by_graph > 0 && s->held && !(s->held & LS_HELD_LOST) &&
           !only(s, LS_HELD_GRAPH) &&
           (!only_raised(s) || ls_held_outlived(&h->age, s) || reaches_back_from(h, s));
}

static bool in_cycle(const struct ls_counted_storage *s, void *context) {
    (void)context;
    return only(s, LS_HELD_LOST | LS_HELD_GRAPH) && s->held & LS_HELD_LOST;
}

/* ---- is it kept, or of the running step ---- */

enum kept { RECENT, UNKNOWN, KEPT };

static enum kept kept(const struct held *h, const struct ls_storage_group *g) {
    size_t old = 0;
    for (size_t i = 0; i < g->storages; i++)
        old += ls_held_old(&h->age, g->storage[i]);
    if (2 * old > g->storages || (old && g->storages >= LS_KEPT_COUNT && strchr(g->pattern, '*')))
        return h->age.steps || !only_raised(g->storage[0]) ? KEPT : UNKNOWN;
    return h->age.steps ? RECENT : UNKNOWN;
}

/* Of graphs: a long forward pass is old as well, and its layers' outputs may be in a list. Many
 * numbers in one are no layers' outputs. */
static enum kept kept_graph(const struct held *h, const struct ls_storage_group *g) {
    enum kept is_kept = kept(h, g);
    bool numbers = g->storages >= LS_REPEATED && g->storage[0]->bytes <= LS_TINY_BYTES;
    return is_kept == KEPT && !h->age.steps && !numbers ? UNKNOWN : is_kept;
}

/* By the share of the device, at most `highest`. */
static enum ls_severity severity_of(const struct held *h, int64_t bytes, enum ls_severity highest) {
    double share = ls_share_of_memory(h->d, bytes);
    enum ls_severity severity = share >= LS_SHARE_PROBLEM   ? LS_PROBLEM
                                : share >= LS_SHARE_WARNING ? LS_WARNING
                                                            : LS_INFO;
    if (highest == LS_PROBLEM && h->census.state != LS_CENSUS_COMPLETE)
        highest = LS_WARNING; /* who else holds it may not have been seen */
    return severity < highest ? severity : highest;
}

/* ---- findings ---- */

/* NULL: enough were told. */
static struct ls_finding *add(struct held *h, const char *shape, enum ls_severity severity,
                              const struct ls_storage_group *g, int64_t bytes) {
    if ((severity == LS_INFO && h->notes >= LS_CENSUS_NOTES) ||
        (severity > LS_INFO && h->problems >= LS_CENSUS_FINDINGS))
        return NULL;
    if (severity == LS_INFO)
        h->notes++;
    else
        h->problems++;
    struct ls_finding *f = ls_finding_add(h->d, h->kind);
    f->severity = severity;
    f->site = ls_format("%s", g->storage[0]->site);
    f->count = (int64_t)g->storages;
    f->bytes = bytes;
    if (severity > LS_INFO)
        f->gain_bytes = bytes;
    if (h->census.state != LS_CENSUS_COMPLETE)
        json_object_set_new(f->evidence, "confidence", json_string("estimated"));
    json_object_set_new(f->evidence, "shape", json_string(shape));
    json_object_set_new(f->evidence, "census", json_integer(h->census.id));
    json_object_set_new(f->evidence, "census_ns", json_integer(h->census.ts_ns));
    if (h->census.oom)
        json_object_set_new(f->evidence, "oom", json_integer(h->census.oom));
    json_object_set_new(f->evidence, "path", ls_json_text(g->pattern));
    json_object_set_new(f->evidence, "storage_bytes", json_integer((json_int_t)g->bytes));
    return f;
}

static void why(struct ls_finding *f, char *text) {
    json_object_set_new(f->evidence, "why", ls_json_text(text));
    free(text);
}

#define ROWS 5
static void add_rows(struct ls_finding *f, const struct ls_storage_group *g) {
    json_t *rows = json_array();
    for (size_t i = 0; i < g->storages && i < ROWS; i++) {
        const struct ls_counted_storage *s = g->storage[i];
        const struct ls_counted_tensor *t = ls_census_tensor(s);
        const char *path = ls_census_path(s);
        json_array_append_new(
            rows,
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s}", "storage", (json_int_t)s->id,
                      "address", (json_int_t)s->address, "bytes", (json_int_t)s->bytes, "tensors",
                      (json_int_t)s->tensors, "held_by_graph", (json_int_t)s->held_by_graph, "path",
                      path ? ls_json_text(path) : json_null(), "dims",
                      t ? json_loads(t->dims, 0, NULL) : json_null(), "dtype", t ? t->dtype : ""));
    }
    json_object_set_new(f->evidence, "rows", rows);
}

/* "losses[*]", or words where no path is known. A variable of an exception's frame is told like any
 * other function's: "train.py:13 main: losses[*]". */
static const char *named(const struct ls_storage_group *g) {
    const char *at = strncmp(g->pattern, "exception ", 10) == 0 ? strstr(g->pattern, " at ") : NULL;
    return at ? at + 4 : *g->pattern ? g->pattern : "something that no path leads to";
}

/* "float32 [1,1024]" of what stands for the group. */
static char *shape_text(const struct ls_storage_group *g) {
    const struct ls_counted_tensor *t = ls_census_tensor(g->storage[0]);
    return t ? ls_format("%s %s", t->dtype, t->dims) : ls_format("unknown shape");
}

static void tell_waste(struct held *h, const struct ls_storage_group *g) {
    struct ls_human used_text, bytes_text, count, waste_text;
    uint64_t used = 0, covered;
    size_t parts = 0;
    for (size_t i = 0; i < g->storages; i++) {
        parts += parts_of(g->storage[i], &covered);
        used += covered;
    }
    int64_t waste = (int64_t)(g->bytes - used);
    enum kept is_kept = kept(h, g);
    if (waste < LS_CENSUS_BYTES || is_kept == RECENT)
        return;
    struct ls_finding *f =
        add(h, "views", severity_of(h, waste, is_kept == KEPT ? LS_PROBLEM : LS_INFO), g, waste);
    if (!f)
        return;
    char *shape = shape_text(g);
    ls_human_bytes(&used_text, (int64_t)used);
    ls_human_bytes(&bytes_text, (int64_t)g->bytes);
    f->title = parts > LS_STORAGE_PARTS * g->storages
                   ? ls_format("%s views that make use of %s hold %s in %s %s: %s",
                               ls_human_count(&count, (int64_t)parts), used_text.text,
                               bytes_text.text, g->storages > 1 ? "packed" : "one",
                               ls_plural((int64_t)g->storages, "storage", "storages"), named(g))
                   : ls_format("%s small %s of %s %s %s alive: %s, %s",
                               ls_human_count(&count, (int64_t)parts),
                               ls_plural((int64_t)parts, "view", "views"), used_text.text,
                               ls_plural((int64_t)parts, "keeps", "keep"), bytes_text.text,
                               named(g), shape);
    why(f, ls_format("A view holds the whole storage that it was taken from. Nothing else in the "
                     "program reaches the other %s.",
                     ls_human_bytes(&waste_text, waste)));
    json_object_set_new(f->evidence, "used_bytes", json_integer((json_int_t)used));
    json_object_set_new(f->evidence, "views", json_integer((json_int_t)parts));
    json_object_set_new(f->evidence, "tensor", ls_json_text(shape));
    f->advice = ls_format(
        "Keep a copy of the part, not a view of the whole: .clone() it where it goes into "
        "%s (.contiguous() copies only what is not contiguous already). Of numbers that are "
        "only read, .item() or .cpu() keeps nothing on the device.",
        named(g));
    add_rows(f, g);
    free(shape);
}

/* Paths without their last part: the modules, objects and lists that hold a storage's tensors. */
static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t holders_of(const struct ls_counted_storage *s) {
    char **parent = calloc(s->tensors + 1, sizeof *parent);
    size_t count = 0, different = 0;
    if (!parent)
        ls_detect_no_memory();
    for (size_t i = 0; i < s->tensors; i++) {
        if (!s->tensor[i].path_count)
            continue;
        char *path = ls_format("%s", s->tensor[i].path[0]);
        char *name = strstr(path, ": "); /* behind a frame's place */
        name = name ? name : path;
        char *dot = strrchr(name, '.'), *bracket = strrchr(name, '[');
        char *end = dot > bracket ? dot : bracket;
        if (end)
            *end = 0;
        parent[count++] = path;
    }
    if (count)
        qsort(parent, count, sizeof *parent, by_text);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || strcmp(parent[i - 1], parent[i]) != 0;
    for (size_t i = 0; i < count; i++)
        free(parent[i]);
    free(parent);
    return different;
}

static void tell_packed(struct held *h, const struct ls_storage_group *g) {
    struct ls_human bytes, count, more;
    const struct ls_counted_storage *s = g->storage[0];
    uint64_t covered;
    size_t holders = holders_of(s), parts = parts_of(s, &covered);
    if (kept(h, g) == RECENT)
        return;
    struct ls_finding *f = add(h, "packed", LS_INFO, g, (int64_t)g->bytes);
    if (!f)
        return;
    char *others = g->storages > 1 ? ls_format(", and so in %s more",
                                               ls_human_count(&more, (int64_t)g->storages - 1))
                                   : ls_format("%s", "");
    f->title = ls_format("%s %s one storage of %s in %zu parts%s: %s",
                         ls_human_count(&count, (int64_t)holders),
                         ls_plural((int64_t)holders, "object holds", "objects hold"),
                         ls_human_bytes(&bytes, (int64_t)s->bytes), parts, others, named(g));
    free(others);
    why(f, ls_format("Expected where parameters are packed on purpose (flattened by FSDP, DDP's "
                     "buckets, an RNN's weights) or loaded from one buffer. Their memory is freed "
                     "when the last of them is: freeing some frees nothing."));
    json_object_set_new(f->evidence, "parts", json_integer((json_int_t)parts));
    json_object_set_new(f->evidence, "holders", json_integer((json_int_t)holders));
    f->advice =
        ls_format("Nothing to do while all of it is in use. Where some parts are dropped to "
                  "save memory, .clone() those that stay.");
    add_rows(f, g);
}

static void tell_graph(struct held *h, const struct ls_storage_group *g) {
    struct ls_human own, graph, count;
    int64_t bytes = (int64_t)g->held_by_graph;
    enum kept is_kept = kept_graph(h, g);
    bool reaches_back =
        is_kept == RECENT && g->storages == 1 && reaches_back_from(h, g->storage[0]);
    if (bytes < LS_CENSUS_BYTES || (is_kept == RECENT && !reaches_back))
        return;
    if (is_kept == UNKNOWN && ls_share_of_memory(h->d, bytes) < LS_SHARE_PROBLEM)
        return; /* what a forward pass makes, before its backward */
    struct ls_finding *f =
        add(h, "graph", severity_of(h, bytes, is_kept == UNKNOWN ? LS_INFO : LS_PROBLEM), g, bytes);
    if (!f)
        return;
    char *shape = shape_text(g);
    f->title = g->storages > 1
                   ? ls_format("%s kept tensors of %s hold %s in their autograd graphs: %s, %s",
                               ls_human_count(&count, (int64_t)g->storages),
                               ls_human_bytes(&own, (int64_t)g->bytes),
                               ls_human_bytes(&graph, bytes), named(g), shape)
                   : ls_format("A kept tensor of %s holds its whole graph, %s: %s, %s",
                               ls_human_bytes(&own, (int64_t)g->bytes),
                               ls_human_bytes(&graph, bytes), named(g), shape);
    why(f,
        is_kept == UNKNOWN
            ? ls_format("Its grad_fn leads to what the forward pass saved. That is as it should "
                        "be until the backward pass is over; after it, or without one, nobody "
                        "needs it.")
        : reaches_back
            ? ls_format("Its grad_fn leads to what earlier steps saved for their backward pass: "
                        "it was made of their tensors, so that it grows with each step.")
            : ls_format("The grad_fn of each leads to what its forward pass saved for a backward "
                        "pass. They are kept from step to step, and all of that with them."));
    json_object_set_new(f->evidence, "held_by_graph", json_integer(bytes));
    json_object_set_new(f->evidence, "tensor", ls_json_text(shape));
    json_object_set_new(f->evidence, "pattern",
                        json_string(is_kept == KEPT ? "kept from step to step"
                                    : reaches_back  ? "reaches back to earlier steps"
                                                    : "one graph"));
    f->advice =
        ls_format("Keep the number, not the tensor: .item(), or .detach() where it must stay "
                  "on the device. Where nothing is to be differentiated, run the forward pass "
                  "under torch.no_grad().");
    add_rows(f, g);
    free(shape);
}

/* What the program was denied, of the census's oom; 0: none. */
static int64_t denied(const struct held *h) {
    char *sql = ls_format("SELECT requested FROM oom WHERE id = %" PRId64 " AND recovered = 0",
                          h->census.oom);
    int64_t requested = ls_query_int(h->d->db, 0, sql);
    free(sql);
    return requested;
}

static void tell_cycles(struct held *h, const struct ls_storage_group *g, size_t groups) {
    struct ls_human bytes_text, count, request;
    int64_t bytes = 0, storages = 0, requested = denied(h);
    for (size_t i = 0; i < groups; i++) {
        bytes += (int64_t)g[i].bytes;
        storages += (int64_t)g[i].storages;
    }
    if (bytes < LS_CENSUS_BYTES)
        return;
    bool enough = requested && bytes >= requested;
    enum ls_severity severity = severity_of(h, bytes, enough ? LS_PROBLEM : LS_WARNING);
    if (enough && severity < LS_WARNING)
        severity = LS_WARNING;
    struct ls_finding *f = add(h, "cycle", severity, g, bytes);
    if (!f)
        return;
    f->count = storages;
    f->title = ls_format("Only reference cycles hold %s in %s %s, until the garbage collector runs",
                         ls_human_bytes(&bytes_text, bytes), ls_human_count(&count, storages),
                         ls_plural(storages, "storage", "storages"));
    why(f, enough
               ? ls_format("The request that failed was for %s: less than what the garbage "
                           "collector would have given back.",
                           ls_human_bytes(&request, requested))
               : ls_format("Nothing in the program reaches them any more, but they refer to each "
                           "other. Python's collector runs by the number of objects, not by the "
                           "bytes on the device."));
    f->advice = ls_format(
        "Break the cycle where the object is let go: a closure, a bound method, an exception kept "
        "in a local variable or a parent link is the usual one; weakref, or del, ends it. Until "
        "then gc.collect() at the end of a step frees it.");
    json_object_set_new(f->evidence, "storage_bytes", json_integer(bytes));
    add_rows(f, g);
}

/* ---- the census ---- */

/* The one at which the most was held. */
static const char best_sql[] =
    "SELECT census.id FROM census JOIN census_storage ON census_storage.census = census.id"
    " GROUP BY census.id ORDER BY state = 2 DESC, SUM(bytes) DESC, census.id DESC";

static int skip(struct ls_detect *d, const char *kind) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        d->db, "SELECT COALESCE(detail, ''), state FROM census ORDER BY id DESC", -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(stmt);
    const char *detail = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : "";
    int state = rc == SQLITE_ROW ? sqlite3_column_int(stmt, 1) : 0;
    if (state == LS_CENSUS_FAILED)
        ls_detect_skip(d, kind, "the census could not run: %s", detail);
    else if (state == LS_CENSUS_BEGINS)
        ls_detect_skip(d, kind, "the census never ended: the program did before it");
    else if (state)
        ls_detect_skip(d, kind, "the census found no device memory%s%s", *detail ? ": " : "",
                       detail);
    else
        ls_detect_skip(
            d, kind,
            d->out_of_memory
                ? "no census in this trace, though memory ran out: no Python with "
                  "PyTorch, or the program ended before it could be made"
                : "no census in this trace: one is made after an out-of-memory error, by "
                  "`layoutspy census PID`, or at exit with LAYOUTSPY_CENSUS=exit");
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void look(struct held *h, bool (*want)(const struct ls_counted_storage *, void *),
                 void (*tell)(struct held *, const struct ls_storage_group *)) {
    struct ls_storage_group *group;
    size_t groups = ls_census_groups(&h->census, want, h, &group);
    for (size_t i = 0; i < groups; i++)
        tell(h, &group[i]);
    ls_census_groups_free(group, groups);
}

static void look_for_cycles(struct held *h) {
    struct ls_storage_group *group;
    size_t groups = ls_census_groups(&h->census, in_cycle, h, &group);
    if (groups)
        tell_cycles(h, group, groups);
    ls_census_groups_free(group, groups);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct held h = {.d = d, .kind = self->kind};
    int64_t id = ls_query_int(d->db, 0, best_sql);
    if (!id)
        return skip(d, self->kind);
    if (!ls_census_load(&h.census, d->db, id))
        return sqlite3_errcode(d->db);
    int rc = ls_held_age_find(&h.age, d, h.census.ts_ns);
    look(&h, wasted, tell_waste);
    look(&h, has_graph, tell_graph);
    look_for_cycles(&h);
    look(&h, packed, tell_packed);
    ls_census_free(&h.census);
    return rc;
}

const struct ls_detector ls_detect_storage_held_by_views = {"storage-held-by-views", run};
