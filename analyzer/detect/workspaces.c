/*
 * workspaces.c - memory that libraries were given to work in. See workspaces.h.
 *
 * Frameworks set the same few again and again, so rows are made distinct first. Main thread only;
 * not for signal handlers.
 */
#include "workspaces.h"

#include <stdlib.h>
#include <string.h>

#include "../query.h"
#include "../room.h"
#include "thresholds.h"

/* ?1: for no site. The last but one: made during a capture. */
static const char piece_sql[] =
    "SELECT w.id, ts_ns, library, w.device, handle, stream, w.address, w.size, COALESCE(block, 0),"
    " COALESCE((SELECT site FROM stack_site WHERE stack_site.id = w.stack), ?1), flags & 2,"
    " (SELECT end_ns FROM block AS k WHERE k.id = block)"
    " FROM (SELECT MIN(id) AS id, ts_ns, library, device, handle, stream, address, size, block,"
    "  stack FROM library_handle WHERE kind = 4 AND size > 0 AND address <> 0"
    "  GROUP BY library, device, handle, stream, address, size, block) AS w"
    " JOIN call ON call.id = w.id ORDER BY w.id";

/* PyTorch's workspaces of cuBLASLt, which are passed with each product and told to no handle: what
 * its function for them allocated, once for each handle and stream. Columns as above. */
#define LT_STACKS                                                                                  \
    "WITH RECURSIVE inner_of(node) AS (SELECT id FROM stack WHERE frame IN"                        \
    " (SELECT id FROM frame WHERE function LIKE '%getCUDABlasLtWorkspace%')"                       \
    " UNION SELECT stack.id FROM inner_of JOIN stack ON stack.parent = inner_of.node) "
static const char lt_sql[] = LT_STACKS
    "SELECT k.id, k.start_ns, 'cublasLt', k.device, 0, -k.id, k.address, k.size, k.id,"
    " COALESCE((SELECT site FROM stack_site WHERE stack_site.id = k.stack), ?1), flags & 2,"
    " k.end_ns FROM block AS k JOIN call ON call.id = k.id WHERE EXISTS(SELECT 1 FROM inner_of)"
    " AND k.stack IN"
    " (SELECT id FROM stack_site WHERE stack IN inner_of) AND k.id NOT IN (SELECT block FROM"
    " library_handle WHERE kind = 4 AND block IS NOT NULL) ORDER BY k.id";

const char ls_workspaces_memory_sql[] = LT_STACKS
    "SELECT COALESCE(block, 0), COALESCE(address, 0) FROM library_handle WHERE kind = 4"
    " UNION SELECT id, address FROM block WHERE EXISTS(SELECT 1 FROM inner_of) AND stack IN"
    " (SELECT id FROM stack_site WHERE stack IN inner_of)";

/* What the program itself allocated for it. */
static const char memory_sql[] =
    "SELECT address, start_ns, end_ns FROM allocation WHERE end_ns IS NOT NULL AND address IN"
    " (SELECT address FROM library_handle WHERE kind = 4 AND block IS NULL)";

/* Begins of captures, in the order of calls. */
struct capture {
    int64_t call, stream;
    char *site;
};
struct captures {
    struct capture *at;
    size_t count, room;
};

static char *text(sqlite3_stmt *stmt, int column) {
    return ls_format("%s", (const char *)sqlite3_column_text(stmt, column));
}

static int read_captures(struct ls_detect *d, struct captures *c) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        d->db,
        "SELECT id, f0, COALESCE((SELECT site FROM stack_site WHERE stack_site.id = call.stack), ?1)"
        " FROM call WHERE api IN (SELECT id FROM api WHERE class = 'capture_begin') ORDER BY id",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_text(stmt, 1, LS_SITE_UNKNOWN, -1, SQLITE_STATIC);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        c->at = ls_room(c->at, c->count, &c->room, sizeof *c->at);
        c->at[c->count++] = (struct capture){sqlite3_column_int64(stmt, 0),
                                             sqlite3_column_int64(stmt, 1), text(stmt, 2)};
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The capture that a workspace was made for: the one that ran, or one on its stream, which was
 * warmed up for it. */
static const char *capture_of(const struct captures *c, int64_t call, int64_t stream, bool during) {
    const char *running = NULL;
    for (size_t i = 0; during && i < c->count && c->at[i].call < call; i++)
        running = c->at[i].site;
    for (size_t i = 0; !running && i < c->count; i++)
        if (c->at[i].stream == stream)
            running = c->at[i].site;
    return running;
}

static struct ls_workspaces *group_of(struct ls_workspaces **list, sqlite3_stmt *stmt,
                                      const struct captures *captures) {
    const char *used = (const char *)sqlite3_column_text(stmt, 9);
    const char *capture = capture_of(captures, sqlite3_column_int64(stmt, 0),
                                     sqlite3_column_int64(stmt, 5), sqlite3_column_int(stmt, 10));
    const char *library = (const char *)sqlite3_column_text(stmt, 2),
               *site = capture ? capture : used;
    int device = sqlite3_column_int(stmt, 3);
    struct ls_workspaces **end = list;
    for (; *end; end = &(*end)->next)
        if ((*end)->device == device && strcmp((*end)->library, library) == 0 &&
            strcmp((*end)->site, site) == 0)
            return *end;
    struct ls_workspaces *g = calloc(1, sizeof *g);
    if (!g)
        ls_detect_no_memory();
    *g = (struct ls_workspaces){.library = ls_format("%s", library),
                                .device = device,
                                .site = ls_format("%s", site),
                                .used = ls_format("%s", used),
                                .capturing = capture != NULL};
    *end = g;
    return g;
}

static void add_piece(struct ls_workspaces *g, struct ls_workspace piece) {
    g->at = ls_room(g->at, g->count, &g->room, sizeof *g->at);
    g->at[g->count++] = piece;
}

static void *list_of(size_t count, size_t size) {
    void *list = calloc(count ? count : 1, size);
    if (!list)
        ls_detect_no_memory();
    return list;
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int64_t distinct(int64_t *number, size_t count) {
    int64_t found = 0;
    qsort(number, count, sizeof *number, by_number);
    for (size_t i = 0; i < count; i++)
        found += i == 0 || number[i] != number[i - 1];
    return found;
}

/* What lay at one address in one block is one piece: together, the one that was read first. */
static int by_memory(const void *a, const void *b) {
    const struct ls_workspace *x = *(struct ls_workspace *const *)a,
                              *y = *(struct ls_workspace *const *)b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Handles that share one piece: it is there once. */
static void join_shared(struct ls_workspaces *g) {
    struct ls_workspace **order = list_of(g->count, sizeof(struct ls_workspace *));
    bool *again = list_of(g->count, sizeof *again);
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++)
        order[i] = &g->at[i];
    qsort(order, g->count, sizeof(struct ls_workspace *), by_memory);
    for (size_t i = 1; i < g->count; i++)
        again[order[i] - g->at] =
            order[i]->address == order[i - 1]->address && order[i]->block == order[i - 1]->block;
    for (size_t i = 0; i < g->count; i++)
        if (!again[i])
            g->at[kept++] = g->at[i];
    g->count = kept;
    free(order);
    free(again);
}

static void sum_up(struct ls_workspaces *g) {
    int64_t *number = list_of(g->count, sizeof *number);
    for (size_t i = 0; i < g->count; i++) {
        g->bytes += g->at[i].bytes;
        number[i] = g->at[i].stream;
    }
    g->streams = distinct(number, g->count);
    for (size_t i = 0; i < g->count; i++)
        number[i] = g->at[i].handle;
    g->handles = distinct(number, g->count);
    free(number);
}

struct change {
    int64_t ts_ns, count, bytes;
};

static int by_time(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return x->count < y->count ? -1 : x->count > y->count; /* what ends first makes room */
}

/* The most at one time. */
static void find_most(struct ls_workspaces *g) {
    struct change *change = list_of(2 * g->count, sizeof *change);
    size_t changes = 0;
    int64_t there = 0, bytes = 0;
    for (size_t i = 0; i < g->count; i++) {
        const struct ls_workspace *w = &g->at[i];
        if (w->end_ns <= w->ts_ns)
            continue;
        change[changes++] = (struct change){w->ts_ns, 1, w->bytes};
        if (w->end_ns != LS_NEVER)
            change[changes++] = (struct change){w->end_ns, -1, -w->bytes};
    }
    qsort(change, changes, sizeof *change, by_time);
    for (size_t i = 0; i < changes; i++) {
        there += change[i].count;
        bytes += change[i].bytes;
        if (there > g->most)
            g->most = there;
        if (bytes > g->most_bytes)
            g->most_bytes = bytes;
    }
    free(change);
}

/* Ever more of them, for ever more streams or handles, over most of the calls since the first one:
 * those that a program sets up at its start come all at once. By calls, not by time: a program that
 * had to wait for something does not grow any less. */
static bool grows(struct ls_workspaces *g, int64_t last_call) {
    int64_t keys = g->streams > g->handles ? g->streams : g->handles;
    int64_t first = g->at[0].call, span = last_call + 1 - first;
    unsigned quarters = 0;
    if (keys < LS_GROWTH_COUNT || g->most < LS_GROWTH_COUNT || g->most * 2 < (int64_t)g->count)
        return false;
    for (size_t i = 0; i < g->count; i++)
        quarters |= 1u << (g->at[i].call - first) * 4 / span;
    g->to_the_end = quarters & 8;
    return __builtin_popcount(quarters) >= LS_GROWTH_QUARTERS;
}

static int read_pieces(struct ls_detect *d, const char *sql, const struct captures *captures,
                       struct ls_workspaces **list) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(d->db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_text(stmt, 1, LS_SITE_UNKNOWN, -1, SQLITE_STATIC);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        add_piece(group_of(list, stmt, captures),
                  (struct ls_workspace){
                      .call = sqlite3_column_int64(stmt, 0),
                      .ts_ns = sqlite3_column_int64(stmt, 1),
                      .handle = sqlite3_column_int64(stmt, 4),
                      .stream = sqlite3_column_int64(stmt, 5),
                      .address = sqlite3_column_int64(stmt, 6),
                      .bytes = sqlite3_column_int64(stmt, 7),
                      .block = sqlite3_column_int64(stmt, 8),
                      .end_ns = sqlite3_column_type(stmt, 11) == SQLITE_NULL
                                    ? LS_NEVER
                                    : sqlite3_column_int64(stmt, 11),
                  });
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int by_place(const void *a, const void *b) {
    const struct ls_workspace *x = *(struct ls_workspace *const *)a,
                              *y = *(struct ls_workspace *const *)b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

/* Pieces that are no block, of all groups, by address and time. To be freed. */
static struct ls_workspace **by_address(struct ls_workspaces *list, size_t *count) {
    size_t most = 0;
    for (struct ls_workspaces *g = list; g; g = g->next)
        most += g->count;
    struct ls_workspace **piece = list_of(most, sizeof(struct ls_workspace *));
    *count = 0;
    for (struct ls_workspaces *g = list; g; g = g->next)
        for (size_t i = 0; i < g->count; i++)
            if (!g->at[i].block)
                piece[(*count)++] = &g->at[i];
    qsort(piece, *count, sizeof(struct ls_workspace *), by_place);
    return piece;
}

/* Memory at `address` was given back: that of the pieces that were set in its lifetime. */
static void end_pieces(struct ls_workspace **piece, size_t count, int64_t address, int64_t start_ns,
                       int64_t end_ns) {
    struct ls_workspace begin = {.address = address, .ts_ns = start_ns};
    struct ls_workspace *const key = &begin;
    size_t low = 0, high = count; /* the first one that was set since its begin */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_place(&piece[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < count && piece[low]->address == address && piece[low]->ts_ns < end_ns; low++)
        piece[low]->end_ns = end_ns;
}

static int read_ends(struct ls_detect *d, struct ls_workspaces *list) {
    sqlite3_stmt *stmt;
    size_t count;
    int rc = sqlite3_prepare_v2(d->db, memory_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    struct ls_workspace **piece = by_address(list, &count);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        end_pieces(piece, count, sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                   sqlite3_column_int64(stmt, 2));
    free(piece);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_all(struct ls_detect *d, struct captures *captures, struct ls_workspaces **list) {
    int64_t last_call = ls_query_int(d->db, 0, "SELECT MAX(id) FROM call");
    int rc = read_captures(d, captures);
    if (rc == SQLITE_OK)
        rc = read_pieces(d, piece_sql, captures, list);
    if (rc == SQLITE_OK && d->pytorch)
        rc = read_pieces(d, lt_sql, captures, list);
    for (struct ls_workspaces *g = *list; g; g = g->next) {
        join_shared(g);
        sum_up(g);
    }
    if (rc == SQLITE_OK)
        rc = read_ends(d, *list);
    for (struct ls_workspaces *g = *list; g; g = g->next) {
        find_most(g);
        g->grows = grows(g, last_call);
    }
    return rc;
}

int ls_workspaces_read(struct ls_detect *d, const struct ls_workspaces **list) {
    struct captures captures = {0};
    int rc = SQLITE_OK;
    /* Most traces have none: nothing that is large is looked at. */
    if (!d->workspaces_read &&
        ls_query_int(d->db, 0,
                     "SELECT EXISTS(SELECT 1 FROM library_handle WHERE kind = 4) OR EXISTS(SELECT 1"
                     " FROM frame WHERE function LIKE '%getCUDABlasLtWorkspace%')"))
        rc = read_all(d, &captures, &d->workspaces);
    d->workspaces_read = true;
    *list = d->workspaces;
    for (size_t i = 0; i < captures.count; i++)
        free(captures.at[i].site);
    free(captures.at);
    return rc;
}

void ls_workspaces_free(struct ls_workspaces *list) {
    while (list) {
        struct ls_workspaces *g = list;
        list = g->next;
        free(g->library);
        free(g->site);
        free(g->used);
        free(g->at);
        free(g);
    }
}

json_t *ls_workspaces_rows(const struct ls_workspaces *g) {
    json_t *rows = json_array();
    for (size_t i = 0; i < g->count && i < LS_WORKSPACE_ROWS; i++) {
        const struct ls_workspace *w = &g->at[i];
        json_t *row = json_pack("{s:I, s:I, s:I, s:I}", "call", w->call, "start_ns", w->ts_ns,
                                "address", w->address, "bytes", w->bytes);
        if (w->handle) {
            json_object_set_new(row, "handle", json_integer(w->handle));
            json_object_set_new(row, "stream", json_integer(w->stream));
        }
        if (w->block)
            json_object_set_new(row, "block", json_integer(w->block));
        json_array_append_new(rows, row);
    }
    return rows;
}

const char *ls_workspaces_library(const char *name) {
    return strcmp(name, "cublas") == 0     ? "cuBLAS"
           : strcmp(name, "cublasLt") == 0 ? "cuBLASLt"
                                           : name;
}
