/*
 * relayouts.c - see relayouts.h. Main thread only; not for signal handlers.
 *
 * Keys are the stack of the copy, the reader's function and its role first, which are numbers; the
 * sites of stacks are asked for once per such key, and keys of one site are put together.
 */
#include "relayouts.h"

#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "layout_cost.h"
#include "thresholds.h"

#define SHAPES_MOST 16
#define SOURCES_MOST 64

/* ---- by numbers ---- */

struct key {
    int64_t stack, api, role;
};

struct by_number {
    struct key key;
    struct ls_relayouts sum;
    const struct ls_flow_shape *pair[SHAPES_MOST][2];
    int64_t source[SOURCES_MOST];
    int64_t last_step;
    /* The copy that the last piece belongs to. */
    const struct ls_relayout *whole, *piece;
    int64_t whole_bytes, whole_source;
    UT_hash_handle hh;
};

static void take_shapes(struct by_number *n, const struct ls_relayout *r) {
    struct ls_relayouts *g = &n->sum;
    int64_t i = 0;
    while (i < g->shapes && (n->pair[i][0] != r->src || n->pair[i][1] != r->dst))
        i++;
    if (i == g->shapes && i < SHAPES_MOST) {
        n->pair[i][0] = r->src;
        n->pair[i][1] = r->dst;
        g->shapes++;
    }
    for (i = 0; i < g->sources && n->source[i] != r->src_address;)
        i++;
    if (i == g->sources && i < SOURCES_MOST)
        n->source[g->sources++] = r->src_address;
}

/* One piece more of a copy, or a new one. */
static void take_piece(struct by_number *n, const struct ls_relayout *r) {
    struct ls_relayouts *g = &n->sum;
    int64_t source = ls_relayout_bytes(r) / r->repeated;
    bool more = r->continues && n->piece;
    if (!more) {
        n->whole = r;
        n->whole_bytes = n->whole_source = 0;
        g->count++;
    }
    n->whole_bytes += ls_relayout_bytes(r);
    if (!more || r->src_address != n->piece->src_address)
        n->whole_source += source;
    n->piece = r;
    if (n->whole_bytes > g->largest_bytes) {
        g->largest = n->whole;
        g->largest_bytes = n->whole_bytes;
        g->largest_source = n->whole_source;
    }
}

static void take(struct by_number *n, const struct ls_relayout *r) {
    struct ls_relayouts *g = &n->sum;
    take_piece(n, r);
    g->bytes += ls_relayout_bytes(r);
    g->ns += ls_relayout_ns(r);
    g->without_times += r->gpu_ns < 0;
    g->touched += r->touched;
    g->rewritten += r->before != LS_NO_RELAYOUT && r->src_rewritten;
    g->source_touched += r->before != LS_NO_RELAYOUT && r->src_touched;
    g->lasting += r->src_is_lasting;
    if (r->step && r->step != n->last_step) {
        g->steps++;
        n->last_step = r->step;
    }
    if (!g->first)
        g->first = r;
    g->last = r;
    take_shapes(n, r);
}

/* ---- by names ---- */

static char *column(sqlite3_stmt *stmt, int n) {
    const char *text = (const char *)sqlite3_column_text(stmt, n);
    return text ? ls_copied(text) : NULL;
}

static int name(sqlite3 *db, const struct key *key, struct ls_relayouts *g) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT COALESCE((SELECT site FROM stack_site WHERE id = ?1), '" LS_SITE_UNKNOWN "'),"
        " (SELECT operator FROM stack_site WHERE id = ?1),"
        " (SELECT inner_operator FROM stack_site WHERE id = ?1),"
        " COALESCE((SELECT name FROM api WHERE id = ?2), ''),"
        " COALESCE((SELECT library FROM api WHERE id = ?2), ''),"
        " COALESCE((SELECT name FROM role WHERE id = ?3), ''),"
        " (SELECT site FROM stack_site WHERE id = ?4),"
        " (SELECT operator FROM stack_site WHERE id = ?4)",
        -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, key->stack);
        sqlite3_bind_int64(stmt, 2, key->api);
        sqlite3_bind_int64(stmt, 3, key->api ? key->role : 0);
        sqlite3_bind_int64(stmt, 4, g->largest->reader_stack);
        if ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            g->site = column(stmt, 0);
            g->called = column(stmt, 1);
            g->operator= column(stmt, 2);
            g->reader = column(stmt, 3);
            g->library = column(stmt, 4);
            g->reader_role = column(stmt, 5);
            g->reader_site = column(stmt, 6);
            g->reader_called = column(stmt, 7);
            rc = SQLITE_OK;
        }
    }
    sqlite3_finalize(stmt);
    return rc;
}

static void free_names(struct ls_relayouts *g) {
    free(g->site);
    free(g->operator);
    free(g->called);
    free(g->reader);
    free(g->reader_role);
    free(g->reader_site);
    free(g->reader_called);
    free(g->library);
}

static void add_to(struct ls_relayouts *g, struct ls_relayouts *more) {
    g->count += more->count;
    g->bytes += more->bytes;
    g->ns += more->ns;
    g->without_times += more->without_times;
    g->touched += more->touched;
    g->rewritten += more->rewritten;
    g->source_touched += more->source_touched;
    g->lasting += more->lasting;
    if (more->steps > g->steps)
        g->steps = more->steps;
    if (more->sources > g->sources)
        g->sources = more->sources;
    if (more->shapes > g->shapes)
        g->shapes = more->shapes;
    if (more->largest_bytes > g->largest_bytes) {
        g->largest = more->largest;
        g->largest_bytes = more->largest_bytes;
        g->largest_source = more->largest_source;
    }
    if (more->first->call < g->first->call)
        g->first = more->first;
    if (more->last->call > g->last->call)
        g->last = more->last;
    free_names(more);
}

static void put(struct ls_relayouts_list *list, size_t *room, struct ls_relayouts *more) {
    for (size_t i = 0; i < list->count; i++) {
        struct ls_relayouts *g = &list->group[i];
        if (!strcmp(g->site, more->site) && !strcmp(g->reader, more->reader) &&
            !strcmp(g->reader_role, more->reader_role)) {
            add_to(g, more);
            return;
        }
    }
    list->group = ls_room(list->group, list->count, room, sizeof *list->group);
    list->group[list->count++] = *more;
}

int ls_relayouts_read(struct ls_detect *d, const struct ls_flow *flow, ls_relayout_wanted *wanted,
                      const void *with, struct ls_relayouts_list *list) {
    struct by_number *all = NULL, *n, *next;
    size_t room = 0;
    int rc = SQLITE_OK;
    *list = (struct ls_relayouts_list){0};
    for (size_t i = 0; i < flow->count; i++) {
        const struct ls_relayout *r = &flow->relayout[i];
        if (!wanted(flow, i, with))
            continue;
        struct key key = {r->stack, r->reader_api, r->reader_role};
        HASH_FIND(hh, all, &key, sizeof key, n);
        if (!n) {
            n = ls_new(1, sizeof *n);
            n->key = key;
            HASH_ADD(hh, all, key, sizeof n->key, n);
        }
        take(n, r);
    }
    HASH_ITER(hh, all, n, next) {
        if (rc == SQLITE_OK && (rc = name(d->db, &n->key, &n->sum)) == SQLITE_OK)
            put(list, &room, &n->sum);
        HASH_DEL(all, n);
        free(n);
    }
    return rc;
}

void ls_relayouts_free(struct ls_relayouts_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free_names(&list->group[i]);
    free(list->group);
}

void ls_relayouts_tell(const struct ls_flow *flow, ls_relayout_wanted *wanted, const void *with,
                       const char *kind) {
    for (size_t i = 0; i < flow->count; i++)
        if (wanted(flow, i, with))
            flow->relayout[i].told = kind;
}

bool ls_relayouts_known(struct ls_detect *d, const struct ls_flow *flow, const char *kind) {
    if (flow->operand_calls == 0 && flow->library_calls)
        ls_detect_skip(d, kind,
                       "what libraries' calls were given is not in this trace (coverage, layouts)");
    else if (flow->count == 0 && flow->library_calls && !d->pytorch)
        ls_detect_skip(d, kind,
                       "copies by kernels of this program are not known: PyTorch's alone are");
    if (flow->operand_calls)
        ls_say_replays(d, kind);
    return flow->count > 0;
}

/* ---- judging ---- */

bool ls_copies_negligible(const struct ls_detect *d, int64_t ns, int64_t bytes) {
    double share = ls_share_of_run(d, ns);
    bool noise = ns < LS_COPIES_NOISE_NS && bytes < LS_COPIES_NOISE_BYTES;
    return share < LS_SHARE_NEGLIGIBLE || (noise && share < LS_SHARE_WARNING);
}

bool ls_relayouts_negligible(const struct ls_detect *d, const struct ls_relayouts *g) {
    return ls_copies_negligible(d, g->ns, g->bytes);
}

enum ls_severity ls_relayouts_severity(const struct ls_detect *d, int64_t gain_ns,
                                       int64_t gain_bytes) {
    double share = ls_share_of_run(d, gain_ns), memory = ls_share_of_memory(d, gain_bytes);
    if (memory > share)
        share = memory;
    return share >= LS_SHARE_PROBLEM   ? LS_PROBLEM
           : share >= LS_SHARE_WARNING ? LS_WARNING
                                       : LS_INFO;
}
