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

static void *room(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    *room = *room ? *room * 2 : 8;
    array = realloc(array, *room * size);
    if (!array)
        ls_detect_no_memory();
    return array;
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
        c->at = room(c->at, c->count, &c->room, sizeof *c->at);
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
    bool stream = true, handle = true;
    for (size_t i = 0; i < g->count; i++) {
        /* Handles that share one piece: it is there once. */
        if (g->at[i].address == piece.address && g->at[i].block == piece.block)
            return;
        stream &= g->at[i].stream != piece.stream;
        handle &= g->at[i].handle != piece.handle;
    }
    g->at = room(g->at, g->count, &g->room, sizeof *g->at);
    g->at[g->count++] = piece;
    g->bytes += piece.bytes;
    g->streams += stream;
    g->handles += handle;
}

/* The most at one time: they begin in order, so just after each begin. */
static void find_most(struct ls_workspaces *g) {
    for (size_t i = 0; i < g->count; i++) {
        int64_t there = 0, bytes = 0;
        for (size_t k = 0; k <= i; k++) {
            if (g->at[k].end_ns > g->at[i].ts_ns) {
                there++;
                bytes += g->at[k].bytes;
            }
        }
        if (there > g->most)
            g->most = there;
        if (bytes > g->most_bytes)
            g->most_bytes = bytes;
    }
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

static int read_ends(struct ls_detect *d, struct ls_workspaces *list) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(d->db, memory_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        int64_t start = sqlite3_column_int64(stmt, 1), end = sqlite3_column_int64(stmt, 2);
        for (struct ls_workspaces *g = list; g; g = g->next)
            for (size_t i = 0; i < g->count; i++)
                if (!g->at[i].block && g->at[i].address == sqlite3_column_int64(stmt, 0) &&
                    g->at[i].ts_ns >= start && g->at[i].ts_ns < end)
                    g->at[i].end_ns = end;
    }
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
