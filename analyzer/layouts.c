/*
 * layouts.c - see layouts.h. One thread; not async-signal-safe.
 */
#include "layouts.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "query.h"
#include "room.h"

/* A call's stack leads to its site; several stacks lead to one. */
struct entry {
    char *key; /* site, api, operator: each with a newline behind it */
    struct ls_layout_site site;
    size_t room;
    UT_hash_handle hh;
};

struct loading {
    struct ls_layouts *layouts;
    sqlite3 *db;
    struct entry *entries;
    size_t change_room, copier_room;
};

static char *text_at(sqlite3_stmt *stmt, int column) {
    const char *text = (const char *)sqlite3_column_text(stmt, column);
    return text ? ls_copied(text) : NULL;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Of `sum` and one more, either of which may be LS_NO_TIME. */
static int64_t more_time(int64_t sum, int64_t ns) {
    if (ns == LS_NO_TIME)
        return sum;
    return sum == LS_NO_TIME ? ns : sum + ns;
}

static int64_t time_at(sqlite3_stmt *stmt, int column) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? LS_NO_TIME
                                                            : sqlite3_column_int64(stmt, column);
}

static int each(sqlite3 *db, const char *sql, void (*row)(sqlite3_stmt *, struct loading *),
                struct loading *loading) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
            row(stmt, loading);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Columns 0 to 2 are site, api, operator. */
static struct entry *entry_of(struct loading *loading, sqlite3_stmt *stmt) {
    const char *part[3];
    size_t size = 1;
    for (int i = 0; i < 3; i++) {
        part[i] = (const char *)sqlite3_column_text(stmt, i);
        size += (part[i] ? strlen(part[i]) : 0) + 1;
    }
    char *key = ls_new(size, 1);
    for (int i = 0; i < 3; i++) {
        strcat(key, part[i] ? part[i] : "");
        strcat(key, "\n");
    }
    struct entry *entry;
    HASH_FIND_STR(loading->entries, key, entry);
    if (entry) {
        free(key);
        return entry;
    }
    entry = ls_new(1, sizeof *entry);
    entry->key = key;
    entry->site = (struct ls_layout_site){.site = text_at(stmt, 0),
                                          .api = text_at(stmt, 1),
                                          .operator= text_at(stmt, 2),
                                          .gpu_ns = LS_NO_TIME};
    HASH_ADD_KEYPTR(hh, loading->entries, entry->key, strlen(entry->key), entry);
    return entry;
}

/* ---- calls and what they were given ---- */

#define CALL_GROUP                                                                                 \
    " COALESCE((SELECT site FROM stack_site WHERE stack_site.id = g.stack), 'site unknown'),"      \
    " (SELECT name FROM api WHERE api.id = g.api),"                                                \
    " (SELECT operator FROM stack_site WHERE stack_site.id = g.stack)"
#define LIBRARY_CALLS                                                                              \
    "c.api IN (SELECT id FROM api WHERE class = 'library_call') AND c.flags & 1 = 0"

static void take_calls(sqlite3_stmt *stmt, struct loading *loading) {
    struct ls_layout_site *site = &entry_of(loading, stmt)->site;
    site->calls += sqlite3_column_int64(stmt, 3);
    site->duration_ns += sqlite3_column_int64(stmt, 4);
    site->gpu_ns = more_time(site->gpu_ns, time_at(stmt, 5));
    loading->layouts->timed |= time_at(stmt, 5) != LS_NO_TIME;
}

static void take_operand(sqlite3_stmt *stmt, struct loading *loading) {
    struct entry *entry = entry_of(loading, stmt);
    struct ls_layout_operand one = {.position = sqlite3_column_int(stmt, 3),
                                    .role = text_at(stmt, 4),
                                    .dtype = text_at(stmt, 5),
                                    .layout = text_at(stmt, 6),
                                    .dims = text_at(stmt, 7),
                                    .strides = text_at(stmt, 8),
                                    .ambiguous = sqlite3_column_int(stmt, 9) != 0,
                                    .bytes = sqlite3_column_int64(stmt, 10),
                                    .count = sqlite3_column_int64(stmt, 11)};
    struct ls_layout_site *site = &entry->site;
    loading->layouts->told = true;
    for (size_t i = 0; i < site->operands; i++) {
        struct ls_layout_operand *o = &site->operand[i];
        if (o->position != one.position || !same_text(o->role, one.role) ||
            !same_text(o->dtype, one.dtype) || !same_text(o->dims, one.dims) ||
            !same_text(o->strides, one.strides))
            continue;
        o->count += one.count;
        free(one.role);
        free(one.dtype);
        free(one.layout);
        free(one.dims);
        free(one.strides);
        return;
    }
    site->operand = ls_room(site->operand, site->operands, &entry->room, sizeof one);
    site->operand[site->operands++] = one;
}

static int load_calls(struct loading *loading) {
    int rc = each(loading->db,
                  "SELECT" CALL_GROUP ", g.calls, g.ns, g.gpu_ns FROM (SELECT c.stack AS stack,"
                  " c.api AS api, COUNT(*) AS calls, SUM(c.duration_ns) AS ns, SUM(l.gpu_ns) AS"
                  " gpu_ns FROM call AS c LEFT JOIN library_gpu AS l ON l.call = c.id"
                  " WHERE " LIBRARY_CALLS " GROUP BY c.stack, c.api) AS g",
                  take_calls, loading);
    if (rc != SQLITE_OK)
        return rc;
    return each(
        loading->db,
        "SELECT" CALL_GROUP ", g.position, role.name, COALESCE(s.dtype, 'unknown'),"
        " CASE WHEN s.layout IN ('nchw', 'nhwc') AND NOT role.images"
        "  THEN CASE s.layout WHEN 'nchw' THEN 'row-major' ELSE 'strided' END"
        "  ELSE COALESCE(s.layout, 'unknown') END,"
        " s.dims, s.strides, s.ambiguous, COALESCE(s.bytes, 0), g.count"
        " FROM (SELECT c.stack AS stack, c.api AS api, o.position AS position, o.role AS role,"
        "  o.shape AS shape, COUNT(*) AS count FROM operand AS o CROSS JOIN call AS c ON"
        "  c.id = o.call WHERE " LIBRARY_CALLS " AND o.address <> 0 GROUP BY 1, 2, 3, 4, 5) AS g"
        " JOIN role ON role.id = g.role LEFT JOIN shape AS s ON s.id = g.shape"
        " WHERE COALESCE(s.kind, 'tensor') IN ('tensor', 'matrix')",
        take_operand, loading);
}

/* ---- conversions, and operators that copy ---- */

static void take_change(sqlite3_stmt *stmt, struct loading *loading) {
    struct ls_layouts *l = loading->layouts;
    l->change = ls_room(l->change, l->changes, &loading->change_room, sizeof *l->change);
    struct ls_layout_change *change = &l->change[l->changes++];
    *change = (struct ls_layout_change){.kernel = text_at(stmt, 0),
                                        .from = text_at(stmt, 1),
                                        .to = text_at(stmt, 2),
                                        .under = text_at(stmt, 3),
                                        .site = text_at(stmt, 4),
                                        .count = sqlite3_column_int64(stmt, 5),
                                        .gpu_ns = time_at(stmt, 6)};
    l->change_count += change->count;
    l->change_ns = more_time(l->change_ns, change->gpu_ns);
}

static void take_copier(sqlite3_stmt *stmt, struct loading *loading) {
    struct ls_layouts *l = loading->layouts;
    l->copier = ls_room(l->copier, l->copiers, &loading->copier_room, sizeof *l->copier);
    l->copier[l->copiers++] = (struct ls_layout_copier){.operator= text_at(stmt, 0),
                                                        .count = sqlite3_column_int64(stmt, 1),
                                                        .gpu_ns = time_at(stmt, 2),
                                                        .changed = sqlite3_column_int64(stmt, 3)};
}

static int load_changes(struct loading *loading) {
    int rc = each(loading->db,
                  "SELECT COALESCE(short, kernel), COALESCE(from_layout, 'unknown'),"
                  " COALESCE(to_layout, 'unknown'), under_call, site, SUM(count), SUM(gpu_ns)"
                  " FROM layout_conversion GROUP BY 1, 2, 3, 4, 5",
                  take_change, loading);
    if (rc != SQLITE_OK)
        return rc;
    /* A copy's time: of its runs on the GPU; launches whose runs have no row count without. */
    return each(loading->db,
                "SELECT COALESCE(operator, 'no operator'), COUNT(*), SUM(gpu_ns), SUM(changed)"
                " FROM (SELECT (SELECT operator FROM stack_site WHERE stack_site.id = c.stack) AS"
                "  operator, (SELECT SUM(w.end_ns - w.start_ns) FROM gpu_work AS w WHERE"
                "  w.call = c.id AND w.kind = 1) AS gpu_ns,"
                "  COALESCE((SELECT changed FROM copied_layout WHERE call_id = c.id), 0) AS changed"
                "  FROM call AS c JOIN kernel_layout AS k ON k.kernel = c.f0"
                "  WHERE c.api IN (SELECT id FROM api WHERE class = 'launch') AND c.status = 0"
                "  AND c.flags & 1 = 0) GROUP BY 1",
                take_copier, loading);
}

/* ---- the whole ---- */

static int more(int64_t a, int64_t b) {
    return a < b ? 1 : a > b ? -1 : 0;
}

static int by_position(const void *a, const void *b) {
    const struct ls_layout_operand *x = a, *y = b;
    if (x->position != y->position)
        return x->position - y->position;
    return more(x->count, y->count);
}

static int site_by_time(const void *a, const void *b) {
    const struct ls_layout_site *x = a, *y = b;
    int order = more(x->gpu_ns, y->gpu_ns);
    if (order == 0)
        order = more(x->calls, y->calls);
    return order ? order : strcmp(x->site, y->site);
}

static int change_by_time(const void *a, const void *b) {
    const struct ls_layout_change *x = a, *y = b;
    int order = more(x->gpu_ns, y->gpu_ns);
    return order ? order : more(x->count, y->count);
}

static int copier_by_time(const void *a, const void *b) {
    const struct ls_layout_copier *x = a, *y = b;
    int order = more(x->gpu_ns, y->gpu_ns);
    return order ? order : more(x->count, y->count);
}

static void sort(void *array, size_t count, size_t size, int (*by)(const void *, const void *)) {
    if (count)
        qsort(array, count, size, by);
}

static void take_sites(struct loading *loading) {
    struct ls_layouts *l = loading->layouts;
    struct entry *entry, *next;
    l->site = ls_new(HASH_COUNT(loading->entries), sizeof *l->site);
    HASH_ITER(hh, loading->entries, entry, next) {
        sort(entry->site.operand, entry->site.operands, sizeof *entry->site.operand, by_position);
        l->site[l->sites++] = entry->site;
        HASH_DEL(loading->entries, entry);
        free(entry->key);
        free(entry);
    }
}

static void take_no_times(sqlite3_stmt *stmt, struct loading *loading) {
    loading->layouts->no_times = text_at(stmt, 0);
}

/* Of the whole recording: what `coverage` says of CUPTI, less what it means. */
static int load_no_times(struct loading *loading) {
    return each(loading->db,
                "SELECT CASE WHEN COUNT(*) = 0 THEN NULL"
                " WHEN MAX(state = 'on') THEN 'CUPTI told of no kernel'"
                " ELSE replace(MIN(detail), ': no GPU times', '') END"
                " FROM coverage WHERE layer = 'cupti'",
                take_no_times, loading);
}

int ls_layouts_load(struct ls_layouts *layouts, sqlite3 *db) {
    struct loading loading = {.layouts = layouts, .db = db};
    *layouts = (struct ls_layouts){.change_ns = LS_NO_TIME};
    int rc = load_calls(&loading);
    take_sites(&loading);
    if (rc == SQLITE_OK)
        rc = load_changes(&loading);
    layouts->kernel_ns = ls_query_int(db, 0, "SELECT SUM(total_ns) FROM kernel_total");
    layouts->timed |= layouts->kernel_ns > 0;
    layouts->graph_ns = ls_query_int(db, 0, LS_GRAPH_NS_SQL);
    layouts->graph_launches = ls_query_int(db, 0, LS_GRAPH_LAUNCHES_SQL);
    if (rc == SQLITE_OK && !layouts->timed)
        rc = load_no_times(&loading);
    sort(layouts->site, layouts->sites, sizeof *layouts->site, site_by_time);
    sort(layouts->change, layouts->changes, sizeof *layouts->change, change_by_time);
    sort(layouts->copier, layouts->copiers, sizeof *layouts->copier, copier_by_time);
    return rc;
}

static void free_site(struct ls_layout_site *site) {
    for (size_t i = 0; i < site->operands; i++) {
        free(site->operand[i].role);
        free(site->operand[i].dtype);
        free(site->operand[i].layout);
        free(site->operand[i].dims);
        free(site->operand[i].strides);
    }
    free(site->operand);
    free(site->site);
    free(site->api);
    free(site->operator);
}

void ls_layouts_free(struct ls_layouts *layouts) {
    for (size_t i = 0; i < layouts->sites; i++)
        free_site(&layouts->site[i]);
    for (size_t i = 0; i < layouts->changes; i++) {
        free(layouts->change[i].kernel);
        free(layouts->change[i].from);
        free(layouts->change[i].to);
        free(layouts->change[i].under);
        free(layouts->change[i].site);
    }
    for (size_t i = 0; i < layouts->copiers; i++)
        free(layouts->copier[i].operator);
    free(layouts->no_times);
    free(layouts->site);
    free(layouts->change);
    free(layouts->copier);
}
