/*
 * uses.c - see uses.h. Main thread only; not for signal handlers.
 *
 * That a launch has no operands means one of two things: it was given no address, or nobody could
 * read what it was given. Both are taken for the latter, unless it is a part of a library's call
 * whose operands are known.
 */
#include "uses.h"

#include <stdlib.h>
#include <string.h>

#include "../query.h"
#include "../room.h"
#include "flow_life.h"
#include "thresholds.h"

enum { FLAG_NESTED = 1, FLAG_ARRAY = 1, FLAG_MORE = 2 };

/* Work of a thread: of a library's call of which all operands are known, or of a launch. */
struct work {
    int64_t thread, from_ns, to_ns;
};

struct works {
    struct work *at;
    size_t count, room;
};

struct reading {
    struct ls_detect *d;
    struct ls_uses *uses;
    struct ls_lives *lives[LS_DEVICES_MOST];
    struct works known;  /* calls of libraries */
    struct works unread; /* launches */
    int64_t *told;       /* launches with operands, call.id in order */
    size_t tolds, told_room;
    size_t unknown_room, launch_room, table_room;
};

/* ---- uses ---- */

static struct ls_used *used_at(struct reading *r, size_t device, uint64_t address, int64_t ts_ns) {
    const struct ls_uses_of *of = &r->uses->of[device];
    const struct ls_span *span = ls_life_at(r->lives[device], address, ts_ns);
    if (!span)
        return NULL;
    return ls_life_is_direct(r->lives[device], span) ? &of->direct[span - of->history->direct]
                                                     : &of->span[span - of->history->span];
}

/* Addresses of all devices are apart; a call may be given another device's memory. */
static struct ls_used *find(struct reading *r, uint64_t address, int64_t ts_ns) {
    struct ls_used *used = NULL;
    for (size_t i = 0; address && !used && i < r->uses->devices; i++)
        used = used_at(r, i, address, ts_ns);
    return used;
}

static void use(struct reading *r, uint64_t address, int64_t ts_ns, int64_t call) {
    struct ls_used *used = find(r, address, ts_ns);
    if (!used)
        return;
    if (used->count == 0 || ts_ns < used->first_ns) {
        used->first_ns = ts_ns;
        used->first_call = call;
    }
    if (used->count == 0 || ts_ns > used->last_ns) {
        used->last_ns = ts_ns;
        used->last_call = call;
    }
    used->count++;
}

static void unknown(struct reading *r, int64_t from_ns, int64_t to_ns) {
    struct ls_uses *uses = r->uses;
    uses->unknown = ls_room(uses->unknown, uses->unknowns, &r->unknown_room, sizeof *uses->unknown);
    uses->unknown[uses->unknowns++] =
        (struct ls_unknown){from_ns, to_ns > from_ns ? to_ns : from_ns + 1};
}

static void add_work(struct works *works, int64_t thread, int64_t from_ns, int64_t to_ns) {
    works->at = ls_room(works->at, works->count, &works->room, sizeof *works->at);
    works->at[works->count++] = (struct work){thread, from_ns, to_ns};
}

/* ---- operands ---- */

enum class { OTHER, LAUNCH, LIBRARY };
struct call {
    int64_t id, start_ns, duration_ns, thread;
    enum class class;
    int operands, arguments;
    bool more, array;
};

static void end_call(struct reading *r, const struct call *c) {
    int64_t end_ns = c->start_ns + c->duration_ns;
    bool known = !c->more && !c->array && c->arguments != LS_USES_ARGUMENTS;
    if (c->id == 0)
        return;
    r->uses->arrays += c->array;
    if (known && c->class == LIBRARY)
        add_work(&r->known, c->thread, c->start_ns, end_ns);
    if (known && c->class == LAUNCH) {
        r->told = ls_room(r->told, r->tolds, &r->told_room, sizeof *r->told);
        r->told[r->tolds++] = c->id;
    }
}

static int read_operands(struct reading *r) {
    sqlite3_stmt *stmt;
    struct call c = {0};
    int rc = sqlite3_prepare_v2(
        r->d->db,
        "SELECT o.call, o.address, o.flags,"
        " o.role IN (SELECT id FROM role WHERE name = 'argument'),"
        " c.start_ns, c.duration_ns, c.thread,"
        " c.api IN (SELECT id FROM api WHERE class = 'launch'),"
        " c.api IN (SELECT id FROM api WHERE class = 'library_call')"
        " FROM operand AS o CROSS JOIN call AS c ON c.id = o.call ORDER BY o.call, o.position",
        -1, &stmt, NULL);
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(stmt, 0);
        int flags = sqlite3_column_int(stmt, 2);
        if (id != c.id) {
            end_call(r, &c);
            c = (struct call){.id = id,
                              .start_ns = sqlite3_column_int64(stmt, 4),
                              .duration_ns = sqlite3_column_int64(stmt, 5),
                              .thread = sqlite3_column_int64(stmt, 6),
                              .class = sqlite3_column_int(stmt, 7)   ? LAUNCH
                                       : sqlite3_column_int(stmt, 8) ? LIBRARY
                                                                     : OTHER};
        }
        c.operands++;
        c.arguments += sqlite3_column_int(stmt, 3);
        c.more |= flags & FLAG_MORE;
        c.array |= flags & FLAG_ARRAY;
        use(r, (uint64_t)sqlite3_column_int64(stmt, 1), c.start_ns, id);
    }
    end_call(r, &c);
    return sqlite3_finalize(stmt);
}

/* ---- work of which nothing is known ---- */

static void add_launch(struct reading *r, int64_t ts_ns) {
    struct ls_uses *uses = r->uses;
    uses->launch_ns =
        ls_room(uses->launch_ns, uses->launches, &r->launch_room, sizeof *uses->launch_ns);
    uses->launch_ns[uses->launches++] = ts_ns;
}

/* Launches, graphs and libraries' calls: those of which operands are known are left out. */
static int read_work(struct reading *r) {
    sqlite3_stmt *stmt;
    size_t told = 0;
    int rc = sqlite3_prepare_v2(
        r->d->db,
        "SELECT c.id, c.start_ns, c.duration_ns, c.thread, c.flags,"
        " (SELECT class FROM api WHERE api.id = c.api) FROM call AS c WHERE status = 0 AND api IN"
        " (SELECT id FROM api WHERE class IN ('launch', 'graph', 'library_call')) ORDER BY c.id",
        -1, &stmt, NULL);
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(stmt, 0), start = sqlite3_column_int64(stmt, 1);
        int64_t end = start + sqlite3_column_int64(stmt, 2);
        char class = (char)*sqlite3_column_text(stmt, 5);
        bool graph = class == 'g', library = class == 'l' && sqlite3_column_text(stmt, 5)[1] == 'i';
        if (!library && !(sqlite3_column_int(stmt, 4) & FLAG_NESTED))
            add_launch(r, start);
        if (graph) {
            r->uses->graphs++;
            unknown(r, start, end);
            continue;
        }
        if (library)
            continue;
        while (told < r->tolds && r->told[told] < id)
            told++;
        if (told == r->tolds || r->told[told] != id)
            add_work(&r->unread, sqlite3_column_int64(stmt, 3), start, end);
    }
    return sqlite3_finalize(stmt);
}

static int by_thread(const void *a, const void *b) {
    const struct work *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static void sort_works(struct works *works) {
    if (works->count)
        qsort(works->at, works->count, sizeof *works->at, by_thread);
}

/* Launches that are no part of a library's call of which all operands are known. */
static void tell_unread(struct reading *r) {
    size_t next = 0;
    int64_t thread = -1, until_ns = 0;
    sort_works(&r->known);
    sort_works(&r->unread);
    for (size_t i = 0; i < r->unread.count; i++) {
        const struct work *launch = &r->unread.at[i];
        if (launch->thread != thread) {
            thread = launch->thread;
            until_ns = INT64_MIN;
        }
        for (; next < r->known.count && by_thread(&r->known.at[next], launch) <= 0; next++)
            if (r->known.at[next].thread == thread && r->known.at[next].to_ns > until_ns)
                until_ns = r->known.at[next].to_ns;
        if (launch->from_ns <= until_ns)
            continue;
        r->uses->unread++;
        unknown(r, launch->from_ns, launch->to_ns);
    }
}

/* ---- copies and memsets ---- */

static int read_addresses(struct reading *r, const char *sql) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(r->d->db, sql, -1, &stmt, NULL);
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW)
        for (int i = 2; i < sqlite3_column_count(stmt); i++)
            use(r, (uint64_t)sqlite3_column_int64(stmt, i), sqlite3_column_int64(stmt, 1),
                sqlite3_column_int64(stmt, 0));
    return sqlite3_finalize(stmt);
}

/* Calls of several copies tell of the first one; what CUPTI has no reason to tell is a gap. */
static int read_gaps(struct reading *r) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        r->d->db,
        "SELECT start_ns, COALESCE(end_ns, 1 << 62) FROM cupti_gap"
        " UNION ALL SELECT start_ns, start_ns + duration_ns FROM call WHERE status = 0 AND api IN"
        " (SELECT id FROM api WHERE class = 'copy' AND fields LIKE '%\"count\"%')",
        -1, &stmt, NULL);
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW)
        unknown(r, sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1));
    return sqlite3_finalize(stmt);
}

/* Copies from the host that could be a table of addresses, or a structure with some. */
static int read_tables(struct reading *r) {
    sqlite3_stmt *stmt;
    struct ls_uses *uses = r->uses;
    int rc = sqlite3_prepare_v2(
        r->d->db,
        "SELECT start_ns FROM copy WHERE status = 0 AND direction IN (?1, ?2) AND bytes % 8 = 0"
        " AND bytes BETWEEN 8 AND ?3 UNION ALL SELECT start_ns FROM allocation WHERE kind = ?4",
        -1, &stmt, NULL);
    sqlite3_bind_int(stmt, 1, LS_DIRECTION_H2D);
    sqlite3_bind_int(stmt, 2, LS_DIRECTION_UNKNOWN);
    sqlite3_bind_int64(stmt, 3, LS_USES_TABLE);
    sqlite3_bind_int(stmt, 4, LS_MEMORY_MANAGED);
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        uses->table_ns =
            ls_room(uses->table_ns, uses->tables, &r->table_room, sizeof *uses->table_ns);
        uses->table_ns[uses->tables++] = sqlite3_column_int64(stmt, 0);
    }
    return sqlite3_finalize(stmt);
}

static int read_shared(struct reading *r) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        r->d->db,
        "SELECT start_ns, f0 FROM call WHERE status = 0 AND api IN (SELECT id FROM api WHERE"
        " class = 'ipc' AND fields LIKE '[{\"name\":\"ptr\"%')",
        -1, &stmt, NULL);
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        struct ls_used *used =
            find(r, (uint64_t)sqlite3_column_int64(stmt, 1), sqlite3_column_int64(stmt, 0));
        if (used)
            used->shared = true;
    }
    return sqlite3_finalize(stmt);
}

/* ---- the whole ---- */

/* What must be there for anything to be known at all. */
static char *why_not(const struct ls_detect *d) {
    sqlite3 *db = d->db;
    if (ls_query_int(db, 0, "SELECT EXISTS(SELECT 1 FROM operand)") == 0)
        return ls_format("no operands and arguments in this trace (LAYOUTSPY_LAYOUTS)");
    if (ls_query_int(db, 0, "SELECT SUM(count) FROM gpu_count WHERE kind = 'kernel'") == 0)
        return ls_format("no GPU times of kernels: without CUPTI nobody knows whether kernels were "
                         "launched beside the hooks (LAYOUTSPY_CUPTI=full)");
    if (ls_query_int(db, 0,
                     "SELECT SUM(count) FROM gpu_count WHERE kind = 'kernel' AND status IN"
                     " ('unmatched', 'no call')") > 0)
        return ls_format("the GPU ran kernels whose launches are not in this trace");
    if (d->lost > 0 || ls_query_int(db, 0,
                                    "SELECT EXISTS(SELECT 1 FROM coverage WHERE layer = 'recording'"
                                    " AND state = 'partial')") > 0)
        return ls_format("a part of the recording is missing: what was used in it is not known");
    return NULL;
}

static void load_devices(struct reading *r) {
    int device[LS_DEVICES_MOST];
    size_t count = ls_detect_devices(r->d, device, LS_DEVICES_MOST);
    r->uses->of = ls_new(count, sizeof *r->uses->of);
    for (size_t i = 0; i < count; i++) {
        const struct ls_history *h = ls_detect_history(r->d, device[i]);
        if (!h)
            continue;
        struct ls_uses_of *of = &r->uses->of[r->uses->devices];
        of->history = h;
        of->span = ls_new(h->spans, sizeof *of->span);
        of->direct = ls_new(h->directs, sizeof *of->direct);
        r->lives[r->uses->devices++] = ls_lives_new(h);
    }
}

static int by_begin(const void *a, const void *b) {
    const struct ls_unknown *x = a, *y = b;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void put_in_order(struct ls_uses *uses) {
    size_t kept = 0;
    if (uses->launches)
        qsort(uses->launch_ns, uses->launches, sizeof *uses->launch_ns, by_time);
    if (uses->tables)
        qsort(uses->table_ns, uses->tables, sizeof *uses->table_ns, by_time);
    if (uses->unknowns == 0)
        return;
    qsort(uses->unknown, uses->unknowns, sizeof *uses->unknown, by_begin);
    for (size_t i = 1; i < uses->unknowns; i++) {
        if (uses->unknown[i].from_ns > uses->unknown[kept].to_ns)
            uses->unknown[++kept] = uses->unknown[i];
        else if (uses->unknown[i].to_ns > uses->unknown[kept].to_ns)
            uses->unknown[kept].to_ns = uses->unknown[i].to_ns;
    }
    uses->unknowns = kept + 1;
}

static int read_all(struct reading *r) {
    int rc = read_operands(r);
    if (rc == SQLITE_OK)
        rc = read_work(r);
    if (rc == SQLITE_OK)
        rc = read_addresses(r, "SELECT id, start_ns, dst, src FROM copy WHERE status = 0");
    if (rc == SQLITE_OK)
        rc = read_addresses(r, "SELECT id, start_ns, f0 FROM call WHERE status = 0 AND api IN"
                               " (SELECT id FROM api WHERE class = 'memset')");
    if (rc == SQLITE_OK)
        rc = read_gaps(r);
    if (rc == SQLITE_OK)
        rc = read_shared(r);
    if (rc == SQLITE_OK)
        rc = read_tables(r);
    tell_unread(r);
    put_in_order(r->uses);
    return rc;
}

const struct ls_uses *ls_detect_uses(struct ls_detect *d) {
    if (d->uses)
        return d->uses;
    struct ls_uses *uses = ls_new(1, sizeof *uses);
    uses->why_not = why_not(d);
    if (!uses->why_not) {
        struct reading *r = ls_new(1, sizeof *r);
        r->d = d;
        r->uses = uses;
        load_devices(r);
        int rc = read_all(r);
        for (size_t i = 0; i < uses->devices; i++)
            ls_lives_free(r->lives[i]);
        free(r->known.at);
        free(r->unread.at);
        free(r->told);
        free(r);
        if (rc != SQLITE_OK) {
            ls_uses_free(uses);
            return NULL;
        }
    }
    d->uses = uses;
    return uses;
}

void ls_uses_free(struct ls_uses *uses) {
    if (!uses)
        return;
    for (size_t i = 0; i < uses->devices; i++) {
        free(uses->of[i].span);
        free(uses->of[i].direct);
    }
    free(uses->of);
    free(uses->why_not);
    free(uses->unknown);
    free(uses->launch_ns);
    free(uses->table_ns);
    free(uses);
}

/* ---- asking ---- */

/* The first one that ends after ts_ns. */
static size_t unknown_after(const struct ls_uses *uses, int64_t ts_ns) {
    size_t low = 0, high = uses->unknowns;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (uses->unknown[middle].to_ns <= ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t ls_uses_known_until(const struct ls_uses *uses, int64_t from_ns, int64_t to_ns) {
    size_t i = unknown_after(uses, from_ns);
    if (i == uses->unknowns || uses->unknown[i].from_ns >= to_ns)
        return to_ns;
    return uses->unknown[i].from_ns > from_ns ? uses->unknown[i].from_ns : from_ns;
}

int64_t ls_uses_known_since(const struct ls_uses *uses, int64_t from_ns, int64_t to_ns) {
    size_t i = unknown_after(uses, to_ns - 1); /* this one, if it has begun, or the one before */
    if (i < uses->unknowns && uses->unknown[i].from_ns < to_ns)
        return to_ns;
    return i > 0 && uses->unknown[i - 1].to_ns > from_ns ? uses->unknown[i - 1].to_ns : from_ns;
}

/* How many moments lie before ts_ns. */
static size_t before(const int64_t *moment_ns, size_t count, int64_t ts_ns) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (moment_ns[middle] < ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t ls_uses_table_after(const struct ls_uses *uses, int64_t from_ns) {
    size_t next = before(uses->table_ns, uses->tables, from_ns);
    return next < uses->tables ? uses->table_ns[next] : LS_NEVER;
}

size_t ls_uses_launches(const struct ls_uses *uses, int64_t from_ns, int64_t to_ns) {
    size_t until = before(uses->launch_ns, uses->launches, to_ns);
    size_t since = before(uses->launch_ns, uses->launches, from_ns);
    return until > since ? until - since : 0;
}
