/*
 * given_back.c - memory that was given back and asked for again. See given_back.h.
 *
 * One pass over begins and ends of allocations in the order of their calls. What is freed lies on a
 * pile; a request takes from the top. A pool has one pile, since it cuts blocks of any size from
 * what it gets; a program's own memory has one for each size, since only that could have been kept
 * in its place. Main thread only; not for signal handlers.
 */
#include "given_back.h"

#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../room.h"
#include "../stack_walk.h"
#include "owner.h"

/* Whose an allocation is, by its stack; or what a free is, by its own and the allocation's. */
struct origin {
    struct {
        int64_t stack, pool; /* pool: the name's address, 0 for a free's program */
        int32_t device, what;
    } key;
    UT_hash_handle hh;
    struct ls_owner owner;
    struct ls_give *give;
};
enum { OF_ALLOCATION, OF_FREE, OF_PRESSURE };

struct given {
    struct ls_give *give;
    int64_t bytes, ns;
};

/* What is given back and not asked for again: of a pool, or of one size. */
struct pile {
    struct {
        int64_t pool, size, device;
    } key;
    UT_hash_handle hh;
    struct given *at;
    size_t count, room;
    const struct ls_give *last; /* what was freed last, with no request since */
};

struct reader {
    struct ls_detect *d;
    struct origin *origins;
    struct pile *piles;
    struct ls_give **list;
    int64_t last_call;
};

/* One begin or end of an allocation. */
struct event {
    bool freed, pressure;
    int device, kind;
    int64_t size, stack, free_stack, ns, start_ns;
    const char *pool;
};

static const char event_sql[] =
    "SELECT freed, e.device, kind, size, e.stack, free_stack, holder, duration_ns, call.start_ns,"
    " (SELECT oom.recovered FROM oom_call JOIN oom ON oom.id = oom_call.oom"
    "  WHERE freed AND oom_call.id = e.call), e.call FROM ("
    "SELECT start_call AS call, 0 AS freed, device, kind, size, stack, free_stack, holder"
    " FROM allocation WHERE kind IN (1, 3, 6) UNION ALL "
    "SELECT end_call, 1, device, kind, size, stack, free_stack, holder"
    " FROM allocation WHERE kind IN (1, 3, 6) AND end_call IS NOT NULL AND end_reason = 0"
    ") AS e JOIN call ON call.id = e.call ORDER BY call.id";

char *ls_give_site(sqlite3 *db, int64_t stack) {
    sqlite3_stmt *stmt;
    char *site = NULL;
    if (sqlite3_prepare_v2(db, "SELECT site FROM stack_site WHERE id = ?", -1, &stmt, NULL) ==
        SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, stack);
        if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
            site = ls_format("%s", sqlite3_column_text(stmt, 0));
    }
    sqlite3_finalize(stmt);
    return site ? site : ls_format("%s", LS_SITE_UNKNOWN);
}

/* Did a pool's allocation function itself decide to give back? A pool that collects says so in the
 * name of the function that does it (PyTorch's garbage_collect_cached_blocks). */
static bool by_limit(sqlite3 *db, int64_t stack) {
    sqlite3_stmt *stmt;
    bool found = false;
    if (sqlite3_prepare_v2(
            db,
            LS_STACK_WALK
            "SELECT 1 FROM walk JOIN stack ON stack.id = node JOIN frame ON frame.id = stack.frame"
            " WHERE frame.kind = 0 AND frame.function LIKE '%garbage_collect%'",
            -1, &stmt, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_int64(stmt, 1, stack);
    found = sqlite3_step(stmt) == SQLITE_ROW;
    sqlite3_finalize(stmt);
    return found;
}

/* Who called PyTorch's empty_cache(): a library may do so for the user, and not be seen in the
 * site. */
static void find_caller(sqlite3 *db, int64_t stack, struct ls_give *g) {
    sqlite3_stmt *stmt;
    bool called = false;
    if (sqlite3_prepare_v2(
            db,
            LS_STACK_WALK
            "SELECT frame.function, frame.file, frame.line FROM walk JOIN stack ON stack.id = node"
            " JOIN frame ON frame.id = stack.frame WHERE frame.kind > 0 ORDER BY depth",
            -1, &stmt, NULL) != SQLITE_OK)
        return;
    sqlite3_bind_int64(stmt, 1, stack);
    while (!g->caller && sqlite3_step(stmt) == SQLITE_ROW) {
        const char *function = (const char *)sqlite3_column_text(stmt, 0);
        const char *file = (const char *)sqlite3_column_text(stmt, 1);
        if (called && file) {
            g->caller = ls_format("%s:%d %s", file, sqlite3_column_int(stmt, 2),
                                  function ? function : "??");
            g->framework = strstr(file, "/site-packages/torch/") != NULL;
        }
        called = function && strcmp(function, "empty_cache") == 0;
    }
    sqlite3_finalize(stmt);
}

static struct origin *origin_of(struct reader *r, int64_t stack, const char *pool, int device,
                                int what, bool *is_new) {
    struct origin key = {0}, *o;
    key.key.stack = stack;
    key.key.pool = (int64_t)(intptr_t)pool;
    key.key.device = device;
    key.key.what = what;
    HASH_FIND(hh, r->origins, &key.key, sizeof key.key, o);
    *is_new = !o;
    if (!o) {
        o = malloc(sizeof *o);
        if (!o)
            ls_detect_no_memory();
        *o = key;
        HASH_ADD(hh, r->origins, key, sizeof o->key, o);
    }
    return o;
}

/* False: a library's own, which nobody can change. */
static bool find_pool(struct reader *r, struct event *e, int holder) {
    bool is_new;
    if (holder >= LS_HOLDER_PYTORCH) {
        e->pool = "PyTorch's caching allocator";
        return true;
    }
    struct origin *o = origin_of(r, e->stack, NULL, e->kind, OF_ALLOCATION, &is_new);
    if (is_new)
        o->owner = ls_owner_of(r->d->db, e->stack, e->kind);
    e->pool = o->owner.rule == LS_OWNER_POOL ? o->owner.name : NULL;
    return o->owner.rule != LS_OWNER_LIBRARY;
}

static struct ls_give *new_give(struct reader *r, const struct event *e) {
    struct ls_give made = {.device = e->device, .pool = e->pool, .trigger = LS_GIVE_OWN};
    if (e->pressure)
        made.trigger = LS_GIVE_PRESSURE;
    else if (e->pool)
        made.trigger = by_limit(r->d->db, e->free_stack) ? LS_GIVE_LIMIT : LS_GIVE_EXPLICIT;
    made.site = e->pressure ? ls_format("%s", "") : ls_give_site(r->d->db, e->free_stack);
    if (made.trigger == LS_GIVE_EXPLICIT)
        find_caller(r->d->db, e->free_stack, &made);
    for (struct ls_give *g = *r->list; g; g = g->next) {
        if (g->device == made.device && g->trigger == made.trigger && g->pool == made.pool &&
            g->framework == made.framework && strcmp(g->site, made.site) == 0) {
            free(made.site);
            free(made.caller);
            return g;
        }
    }
    struct ls_give *g = malloc(sizeof *g);
    if (!g)
        ls_detect_no_memory();
    made.next = *r->list;
    *g = made;
    *r->list = g;
    return g;
}

static struct pile *pile_of(struct reader *r, const struct event *e) {
    struct pile key = {0}, *p;
    key.key.pool = (int64_t)(intptr_t)e->pool;
    key.key.size = e->pool ? 0 : e->size;
    key.key.device = e->device;
    HASH_FIND(hh, r->piles, &key.key, sizeof key.key, p);
    if (!p) {
        p = malloc(sizeof *p);
        if (!p)
            ls_detect_no_memory();
        *p = key;
        HASH_ADD(hh, r->piles, key, sizeof p->key, p);
    }
    return p;
}

static void count_flush(struct ls_give *g, int64_t bytes, int64_t ns, int64_t start_ns) {
    if (!g->frees || start_ns < g->first_ns)
        g->first_ns = start_ns;
    if (start_ns > g->last_ns)
        g->last_ns = start_ns;
    g->frees++;
    g->bytes += bytes;
    g->free_ns += ns;
}

static void give_back(struct reader *r, const struct event *e) {
    bool is_new;
    struct origin *o = origin_of(r, e->pressure ? 0 : e->free_stack, e->pool, e->device,
                                 e->pressure ? OF_PRESSURE : OF_FREE, &is_new);
    if (is_new)
        o->give = new_give(r, e);
    struct pile *p = pile_of(r, e);
    struct given *top = p->count ? &p->at[p->count - 1] : NULL;
    if (o->give->trigger != LS_GIVE_OWN) {
        o->give->flushes += p->last != o->give;
        p->last = o->give;
        count_flush(o->give, e->size, e->ns, e->start_ns);
        if (top && top->give == o->give) {
            top->bytes += e->size;
            return;
        }
    }
    p->at = ls_room(p->at, p->count, &p->room, sizeof *p->at);
    p->at[p->count++] = (struct given){o->give, e->size, e->ns};
}

static void ask_again(struct reader *r, const struct event *e) {
    struct pile *p = pile_of(r, e);
    int64_t wanted = e->size;
    bool counted = false;
    p->last = NULL;
    while (wanted > 0 && p->count) {
        struct given *top = &p->at[p->count - 1];
        struct ls_give *g = top->give;
        int64_t taken = top->bytes < wanted ? top->bytes : wanted;
        if (g->trigger == LS_GIVE_OWN) {
            g->flushes++;
            count_flush(g, e->size, top->ns, e->start_ns);
        }
        g->again += taken;
        if (!counted) { /* one call, however many returns it draws on */
            g->requests++;
            g->request_ns += e->ns;
            counted = true;
        }
        if (e->size > g->request_size) {
            g->request_size = e->size;
            g->request_stack = e->stack;
        }
        wanted -= taken;
        top->bytes -= taken;
        if (top->bytes == 0)
            p->count--;
    }
}

static bool read_event(struct reader *r, sqlite3_stmt *stmt, struct event *e) {
    e->freed = sqlite3_column_int(stmt, 0);
    e->device = sqlite3_column_int(stmt, 1);
    e->kind = sqlite3_column_int(stmt, 2);
    e->size = sqlite3_column_int64(stmt, 3);
    e->stack = sqlite3_column_int64(stmt, 4);
    e->free_stack = sqlite3_column_int64(stmt, 5);
    int64_t call = sqlite3_column_int64(stmt, 10);
    e->ns = call == r->last_call ? 0 : sqlite3_column_int64(stmt, 7); /* one can end several */
    r->last_call = call;
    e->start_ns = sqlite3_column_int64(stmt, 8);
    e->pressure = sqlite3_column_int(stmt, 9) == 1;
    /* What was given back in vain belongs to the OOM. */
    if (sqlite3_column_type(stmt, 9) != SQLITE_NULL && !e->pressure)
        return false;
    return find_pool(r, e, sqlite3_column_int(stmt, 6));
}

int ls_give_read(struct ls_detect *d, struct ls_give **list) {
    struct reader r = {.d = d, .list = list};
    sqlite3_stmt *stmt;
    struct origin *o, *next;
    struct pile *p, *after;
    struct event e = {0};
    *list = NULL;
    int rc = sqlite3_prepare_v2(d->db, event_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (!read_event(&r, stmt, &e))
            continue;
        if (e.freed)
            give_back(&r, &e);
        else
            ask_again(&r, &e);
    }
    sqlite3_finalize(stmt);
    HASH_ITER(hh, r.origins, o, next) {
        HASH_DEL(r.origins, o);
        free(o);
    }
    HASH_ITER(hh, r.piles, p, after) {
        HASH_DEL(r.piles, p);
        free(p->at);
        free(p);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

void ls_give_free(struct ls_give *list) {
    while (list) {
        struct ls_give *g = list;
        list = g->next;
        free(g->site);
        free(g->caller);
        free(g);
    }
}
