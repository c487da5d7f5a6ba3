/*
 * phases.c - see phases.h. One thread; not async-signal-safe.
 *
 * Pushed ranges nest within a thread and a domain: each list of those is a forest in order of
 * begin. Started ranges belong to no thread and overlap as they like.
 */
#include "phases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "begun.h"
#include "layoutspy/format.h"

#define STARTED_BACK 256 /* started ranges that are looked at per event, the latest ones */

/* --- from marks to rows -------------------------------------------------------------------- */

struct pending {
    int64_t start_ns, value;
    char *name;
    struct pending *outer;
};

struct nest {
    struct {
        int64_t thread, domain; /* thread 0: started ranges */
    } key;
    struct pending *open; /* innermost first; started ranges: latest first */
    int depth;
    UT_hash_handle hh;
};

struct builder {
    struct ls_trace_db *db;
    struct domain {
        int64_t handle;
        char *name;
        struct domain *next;
    } * domains;
    struct nest *nests;
    int64_t id;
    bool out_of_memory;
};

static struct nest *nest_of(struct builder *b, int64_t thread, int64_t domain) {
    struct nest *nest, key = {.key = {thread, domain}};
    HASH_FIND(hh, b->nests, &key.key, sizeof key.key, nest);
    if (nest || !(nest = calloc(1, sizeof *nest)))
        return nest;
    nest->key.thread = thread;
    nest->key.domain = domain;
    HASH_ADD(hh, b->nests, key, sizeof nest->key, nest);
    return nest;
}

static const char *domain_name(const struct builder *b, int64_t handle) {
    const struct domain *d = b->domains;
    while (d && d->handle != handle)
        d = d->next;
    return d ? d->name : "";
}

static void take_domain(sqlite3_stmt *stmt, void *context) {
    struct builder *b = context;
    const char *text = (const char *)sqlite3_column_text(stmt, 1);
    struct domain *d = malloc(sizeof *d);
    if (d)
        *d = (struct domain){sqlite3_column_int64(stmt, 0), strdup(text ? text : ""), b->domains};
    if (!d || !d->name) {
        free(d);
        b->out_of_memory = true;
        return;
    }
    b->domains = d;
}

/* One row; end_ns NULL where `open`. */
static void put(struct builder *b, const struct nest *nest, const struct pending *p, int64_t end_ns,
                bool open) {
    int64_t depth = nest->key.thread ? nest->depth : 0;
    ls_db_put(b->db, LS_PUT_PHASE, open ? "izsinisz" : "izsiiisz", ++b->id, nest->key.thread,
              domain_name(b, nest->key.domain), p->start_ns, end_ns, depth, p->name, p->value);
}

static void drop(struct pending *p) {
    free(p->name);
    free(p);
}

static void begin(struct builder *b, struct nest *nest, int64_t ns, int64_t value,
                  const char *name) {
    struct pending *p = malloc(sizeof *p);
    if (p)
        *p = (struct pending){ns, value, strdup(name), nest->open};
    if (!p || !p->name) {
        free(p);
        b->out_of_memory = true;
        return;
    }
    nest->open = p;
    nest->depth++;
}

/* Of a pushed range: the innermost. Of a started one: that of the id. */
static void end(struct builder *b, struct nest *nest, int64_t ns, int64_t value) {
    struct pending **at = &nest->open, *p;
    while ((p = *at) && p->value != value)
        at = &p->outer;
    if (!p) /* its begin was not seen */
        return;
    *at = p->outer;
    nest->depth--;
    put(b, nest, p, ns, false);
    drop(p);
}

static void take_mark(sqlite3_stmt *stmt, void *context) {
    struct builder *b = context;
    int64_t ns = sqlite3_column_int64(stmt, 0), thread = sqlite3_column_int64(stmt, 1);
    int64_t value = sqlite3_column_int64(stmt, 3);
    const char *text = (const char *)sqlite3_column_text(stmt, 5);
    bool pushed = value == 0;
    struct nest *nest = nest_of(b, pushed ? thread : 0, sqlite3_column_int64(stmt, 4));
    if (!nest) {
        b->out_of_memory = true;
        return;
    }
    switch (sqlite3_column_int(stmt, 2)) {
    case LS_MARK_RANGE_PUSH:
    case LS_MARK_RANGE_START:
        begin(b, nest, ns, value, text ? text : "");
        break;
    case LS_MARK_RANGE_POP:
    case LS_MARK_RANGE_END:
        end(b, nest, ns, value);
        break;
    default:
        break;
    }
}

static void finish_nests(struct builder *b) {
    struct nest *nest, *next;
    HASH_ITER(hh, b->nests, nest, next) {
        struct pending *p;
        while ((p = nest->open)) {
            nest->open = p->outer;
            nest->depth--;
            put(b, nest, p, 0, true);
            drop(p);
        }
        HASH_DEL(b->nests, nest);
        free(nest);
    }
}

#define COLUMNS "ts_ns, thread, kind, COALESCE(value, 0), domain, text"

void ls_phases_build(struct ls_trace_db *db) {
    struct builder b = {.db = db};
    ls_db_exec(db, "DELETE FROM phase");
    ls_db_each(db, "SELECT DISTINCT domain, text FROM mark WHERE kind = 7", take_domain, &b);
    /* A thread's marks come in order; those of different threads need not. */
    ls_db_each(db, "SELECT " COLUMNS " FROM mark WHERE kind IN (2, 3) ORDER BY id", take_mark, &b);
    ls_db_each(db, "SELECT " COLUMNS " FROM mark WHERE kind IN (4, 5) ORDER BY ts_ns, id",
               take_mark, &b);
    finish_nests(&b);
    while (b.domains) {
        struct domain *d = b.domains;
        b.domains = d->next;
        free(d->name);
        free(d);
    }
    if (b.out_of_memory)
        ls_db_put(db, LS_PUT_COVERAGE, "sss", "nvtx", "partial", "no memory for all its ranges");
    else if (b.id)
        ls_db_put(db, LS_PUT_COVERAGE, "sss", "nvtx", "on", "");
}

/* --- look-ups -------------------------------------------------------------------------------- */

struct name {
    char *text, *domain;
    double weight; /* of the events inside */
    double begins; /* sum of weight times begin: an inner range began later */
    uint64_t last; /* the last event that was counted: a range inside one of its name counts once */
    UT_hash_handle hh;
    char key[]; /* domain, separator, text */
};

struct phase {
    int64_t start_ns, end_ns;
    struct name *name;
    uint32_t parent; /* of a pushed one: place in the list plus 1, 0 none */
    int depth;
};

struct list {
    struct {
        int64_t thread;            /* 0: started ranges */
        const struct name *domain; /* the name of its domain and no text */
    } key;
    struct phase *phase;
    uint32_t count, room;
    UT_hash_handle hh;
};

struct ls_phases {
    struct list *lists;
    struct name *names;
    uint64_t events; /* numbers of events, over all calls */
};

static struct name *name_of(struct ls_phases *phases, const char *domain, const char *text) {
    size_t domain_length = strlen(domain), length = strlen(text), size = domain_length + length + 2;
    struct name *name = calloc(1, sizeof *name + size), *known;
    if (!name)
        return NULL;
    memcpy(name->key, domain, domain_length);
    memcpy(name->key + domain_length + 1, text, length);
    HASH_FIND(hh, phases->names, name->key, size, known);
    if (known) {
        free(name);
        return known;
    }
    name->domain = name->key;
    name->text = name->key + domain_length + 1;
    HASH_ADD(hh, phases->names, key, size, name);
    return name;
}

static struct list *list_of(struct ls_phases *phases, int64_t thread, const struct name *domain) {
    struct list *list, key = {.key = {thread, domain}};
    HASH_FIND(hh, phases->lists, &key.key, sizeof key.key, list);
    if (list || !(list = calloc(1, sizeof *list)))
        return list;
    list->key.thread = thread;
    list->key.domain = domain;
    HASH_ADD(hh, phases->lists, key, sizeof list->key, list);
    return list;
}

/* In order of begin, outer before inner. */
static bool append(struct ls_phases *phases, sqlite3_stmt *row) {
    const char *text = (const char *)sqlite3_column_text(row, 5);
    const char *domain_text = (const char *)sqlite3_column_text(row, 1);
    const struct name *domain = name_of(phases, domain_text ? domain_text : "", "");
    struct name *name = domain ? name_of(phases, domain->domain, text ? text : "") : NULL;
    struct list *list = name ? list_of(phases, sqlite3_column_int64(row, 0), domain) : NULL;
    if (!list)
        return false;
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 16;
        struct phase *more = realloc(list->phase, room * sizeof *more);
        if (!more)
            return false;
        list->phase = more;
        list->room = room;
    }
    struct phase *phase = &list->phase[list->count];
    bool open = sqlite3_column_type(row, 3) == SQLITE_NULL;
    *phase = (struct phase){sqlite3_column_int64(row, 2),
                            open ? INT64_MAX : sqlite3_column_int64(row, 3), name, 0,
                            sqlite3_column_int(row, 4)};
    if (list->key.thread) {
        uint32_t parent = list->count;
        while (parent && list->phase[parent - 1].depth >= phase->depth)
            parent = list->phase[parent - 1].parent;
        phase->parent = parent;
    }
    list->count++;
    return true;
}

struct ls_phases *ls_phases_load(sqlite3 *db) {
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db,
                           "SELECT COALESCE(thread, 0), domain, start_ns, end_ns, depth, name"
                           " FROM phase ORDER BY 1, 2, start_ns, depth",
                           -1, &stmt, NULL) != SQLITE_OK)
        return NULL;
    struct ls_phases *phases = NULL;
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        if (!phases && !(phases = calloc(1, sizeof *phases)))
            break;
        if (!append(phases, stmt))
            break;
    }
    sqlite3_finalize(stmt);
    return phases;
}

void ls_phases_free(struct ls_phases *phases) {
    struct list *list, *next_list;
    struct name *name, *next_name;
    if (!phases)
        return;
    HASH_ITER(hh, phases->lists, list, next_list) {
        HASH_DEL(phases->lists, list);
        free(list->phase);
        free(list);
    }
    HASH_ITER(hh, phases->names, name, next_name) {
        HASH_DEL(phases->names, name);
        free(name);
    }
    free(phases);
}

static void count_in(const struct phase *phase, uint64_t event, double weight) {
    struct name *name = phase->name;
    if (name->last == event)
        return;
    name->last = event;
    name->weight += weight;
    name->begins += weight * (double)phase->start_ns;
}

static void count_event(struct ls_phases *phases, int64_t ns, int64_t thread, double weight) {
    struct list *list, *next;
    uint64_t event = ++phases->events;
    HASH_ITER(hh, phases->lists, list, next) {
        size_t at = LS_BEGUN(list->phase, list->count, start_ns, ns);
        if (list->key.thread == thread) {
            for (; at; at = list->phase[at - 1].parent)
                if (list->phase[at - 1].end_ns > ns)
                    count_in(&list->phase[at - 1], event, weight);
        } else if (list->key.thread == 0) {
            for (uint32_t back = 0; at && back < STARTED_BACK; at--, back++)
                if (list->phase[at - 1].end_ns > ns)
                    count_in(&list->phase[at - 1], event, weight);
        }
    }
}

int ls_phases_share(struct ls_phases *phases, sqlite3_stmt *events, struct ls_phase_share *share) {
    struct name *name, *next, *best = NULL;
    double whole = 0;
    int rc;
    *share = (struct ls_phase_share){NULL, NULL, 0};
    HASH_ITER(hh, phases->names, name, next)
    name->weight = name->begins = 0;
    while ((rc = sqlite3_step(events)) == SQLITE_ROW) {
        double weight = sqlite3_column_double(events, 2);
        whole += weight;
        count_event(phases, sqlite3_column_int64(events, 0), sqlite3_column_int64(events, 1),
                    weight);
    }
    HASH_ITER(hh, phases->names, name, next) {
        if (name->weight < LS_PHASE_SHARE * whole || name->weight <= 0 || !*name->text)
            continue;
        if (!best || name->begins / name->weight > best->begins / best->weight)
            best = name;
    }
    if (best)
        *share = (struct ls_phase_share){best->text, best->domain, best->weight / whole};
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
