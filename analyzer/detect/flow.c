/*
 * flow.c - see flow.h. Main thread only; not for signal handlers.
 */
#include "flow.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "../memory/growth.h"
#include "../room.h"
#include "flow_life.h"
#include "flow_shape.h"
#include "thresholds.h"

/* What is known of an address that a relayout wrote or read. */
struct place {
    uint64_t address;
    size_t written; /* the relayout that wrote there last; LS_NO_RELAYOUT: somebody else did */
    int64_t written_life; /* and what it wrote into */
    size_t read;          /* the last relayout whose source it was */
    bool rewritten;       /* since then */
    UT_hash_handle hh;
};

/* One operand of the call that is being looked at. */
struct given {
    int role;
    int64_t shape;
    uint64_t address;
    enum { NOTHING, IN, OUT, INOUT, TOUCHED } way;
    bool is_dst, is_src;
};

#define GIVEN_MOST 64

struct reading {
    struct ls_detect *d;
    struct ls_flow *flow;
    size_t room;
    struct place *places;
    struct ls_lives *lives[LS_DEVICES_MOST];
    /* The call, and what it was given. */
    int64_t call, start_ns, stack, api, kernel;
    int device;
    bool library, launch;
    struct given given[GIVEN_MOST];
    size_t count;
};

static struct place *place_of(struct reading *r, uint64_t address, bool make) {
    struct place *place;
    HASH_FIND(hh, r->places, &address, sizeof address, place);
    if (place || !make)
        return place;
    place = ls_new(1, sizeof *place);
    *place = (struct place){.address = address, .written = LS_NO_RELAYOUT, .read = LS_NO_RELAYOUT};
    HASH_ADD(hh, r->places, address, sizeof place->address, place);
    return place;
}

static const struct ls_history *history_of(struct reading *r) {
    return r->device >= 0 && r->device < LS_DEVICES_MOST ? ls_detect_history(r->d, r->device)
                                                         : NULL;
}

static const struct ls_span *life_of(struct reading *r, uint64_t address) {
    const struct ls_history *history = history_of(r);
    if (!history)
        return NULL;
    if (!r->lives[r->device])
        r->lives[r->device] = ls_lives_new(history);
    return ls_life_at(r->lives[r->device], address, r->start_ns);
}

static int64_t id_of(const struct ls_span *span) {
    return span ? span->id : 0;
}

/* ---- one call ---- */

static bool outlives_step(const struct ls_history *history, const struct ls_span *span,
                          size_t step) {
    bool inside;
    if (!history || !span || step == 0)
        return false;
    return ls_growth_step(history, span->start_ns, &inside) < step &&
           (span->end_ns == LS_NEVER || ls_growth_step(history, span->end_ns, &inside) > step);
}

static struct ls_relayout *new_relayout(struct reading *r) {
    struct ls_flow *flow = r->flow;
    flow->relayout = ls_room(flow->relayout, flow->count, &r->room, sizeof *flow->relayout);
    struct ls_relayout *made = &flow->relayout[flow->count++];
    *made = (struct ls_relayout){.call = r->call,
                                 .start_ns = r->start_ns,
                                 .stack = r->stack,
                                 .kernel = r->kernel,
                                 .gpu_ns = -1,
                                 .from = LS_NO_RELAYOUT,
                                 .before = LS_NO_RELAYOUT};
    return made;
}

static void say_source(struct reading *r, struct ls_relayout *made, size_t index) {
    struct place *at = place_of(r, (uint64_t)made->src_address, true);
    const struct ls_span *span = life_of(r, at->address);
    const struct ls_history *history = history_of(r);
    bool inside = false;
    size_t step = history ? ls_growth_step(history, made->start_ns, &inside) : 0;
    made->step = inside ? (int64_t)step : 0;
    made->src_life = id_of(span);
    made->src_is_lasting = outlives_step(history, span, (size_t)made->step);
    if (at->written != LS_NO_RELAYOUT && at->written_life == made->src_life)
        made->from = at->written;
    if (at->read != LS_NO_RELAYOUT) {
        const struct ls_relayout *before = &r->flow->relayout[at->read];
        if (before->src_life == made->src_life && before->src == made->src) {
            made->before = at->read;
            made->src_rewritten = at->rewritten;
        }
    }
    at->read = index;
    at->rewritten = false;
}

static void take_relayout(struct reading *r, const struct given *dst, const struct given *src) {
    const struct ls_flow_shape *to = ls_flow_shape(r->flow->own, dst->shape);
    const struct ls_flow_shape *from = ls_flow_shape(r->flow->own, src->shape);
    if (!to || !from || !dst->address || !src->address)
        return;
    size_t index = r->flow->count;
    struct ls_relayout *made = new_relayout(r);
    made->src_address = (int64_t)src->address;
    made->dst_address = (int64_t)dst->address;
    made->src = from;
    made->dst = to;
    made->turned = ls_flow_turned(from, to);
    made->repeated = ls_flow_repeated(from);
    say_source(r, made, index);
}

/* A library's call reads what a relayout wrote; another relayout does so by its source. */
static void take_read(struct reading *r, const struct given *given) {
    struct place *at = place_of(r, given->address, false);
    if (!r->library || !at || at->written == LS_NO_RELAYOUT)
        return;
    if (at->written_life != id_of(life_of(r, at->address))) {
        at->written = LS_NO_RELAYOUT;
        return;
    }
    struct ls_relayout *relayout = &r->flow->relayout[at->written];
    if (relayout->readers++ > 0)
        return;
    relayout->reader = r->call;
    relayout->reader_api = r->api;
    relayout->reader_stack = r->stack;
    relayout->reader_role = given->role;
}

static void take_write(struct reading *r, uint64_t address) {
    struct place *at = place_of(r, address, false);
    if (!at)
        return;
    at->written = LS_NO_RELAYOUT;
    at->rewritten = true;
}

static void take_touch(struct reading *r, uint64_t address) {
    struct place *at = place_of(r, address, false);
    if (at && at->written != LS_NO_RELAYOUT && r->flow->relayout[at->written].readers == 0)
        r->flow->relayout[at->written].touched = true;
}

static void take_call(struct reading *r) {
    const struct given *dst = NULL, *src = NULL;
    size_t sources = 0;
    r->flow->operand_calls++;
    for (size_t i = 0; i < r->count; i++) {
        const struct given *given = &r->given[i];
        if (given->is_dst)
            dst = given;
        if (given->is_src && sources++ == 0)
            src = given;
        if (given->way == IN || given->way == INOUT)
            take_read(r, given);
    }
    size_t made = r->flow->count;
    if (dst && src && sources == 1)
        take_relayout(r, dst, src);
    for (size_t i = 0; i < r->count; i++) {
        if (r->given[i].way == OUT || r->given[i].way == INOUT)
            take_write(r, r->given[i].address);
        else if (r->given[i].way == TOUCHED && r->launch)
            take_touch(r, r->given[i].address);
    }
    if (r->flow->count > made) {
        struct place *at = place_of(r, dst->address, true);
        at->written = made;
        at->written_life = id_of(life_of(r, at->address));
    }
    r->count = 0;
}

/* ---- reading ---- */

static int way_of(const char *direction) {
    return !strcmp(direction, "in")        ? IN
           : !strcmp(direction, "out")     ? OUT
           : !strcmp(direction, "inout")   ? INOUT
           : !strcmp(direction, "touched") ? TOUCHED
                                           : NOTHING;
}

static void take_row(struct reading *r, sqlite3_stmt *stmt) {
    const char *class = (const char *)sqlite3_column_text(stmt, 6);
    const char *role = (const char *)sqlite3_column_text(stmt, 11);
    if (r->count == 0) {
        r->call = sqlite3_column_int64(stmt, 0);
        r->start_ns = sqlite3_column_int64(stmt, 1);
        r->stack = sqlite3_column_int64(stmt, 2);
        r->api = sqlite3_column_int64(stmt, 3);
        r->device = sqlite3_column_int(stmt, 4);
        r->library = class && !strcmp(class, "library_call");
        r->launch = class && !strcmp(class, "launch");
        r->kernel = r->launch ? sqlite3_column_int64(stmt, 5) : 0;
    }
    if (r->count == GIVEN_MOST)
        return;
    r->given[r->count++] = (struct given){
        .role = sqlite3_column_int(stmt, 7),
        .shape = sqlite3_column_int64(stmt, 8),
        .address = (uint64_t)sqlite3_column_int64(stmt, 9),
        .way = way_of((const char *)sqlite3_column_text(stmt, 10)),
        .is_dst = role && !strcmp(role, "dst"),
        .is_src = role && !strcmp(role, "src"),
    };
}

/* Copies are writes, too: those that ended before the call with this number. */
static int take_copies(struct reading *r, sqlite3_stmt *copies, int *rc, int64_t before) {
    while (*rc == SQLITE_ROW && sqlite3_column_int64(copies, 0) < before) {
        take_write(r, (uint64_t)sqlite3_column_int64(copies, 1));
        *rc = sqlite3_step(copies);
    }
    return *rc;
}

static int read_calls(struct reading *r) {
    sqlite3_stmt *stmt = NULL, *copies = NULL;
    int rc = sqlite3_prepare_v2(
        r->d->db,
        "SELECT o.call, c.start_ns, COALESCE(c.stack, 0), c.api, c.device, c.f0, a.class, o.role,"
        " COALESCE(o.shape, 0), o.address, role.direction, role.name"
        " FROM operand AS o CROSS JOIN call AS c ON c.id = o.call JOIN api AS a ON a.id = c.api"
        " JOIN role ON role.id = o.role WHERE c.status = 0 ORDER BY o.call, o.position",
        -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(r->d->db, "SELECT id, dst FROM copy WHERE status = 0 ORDER BY id",
                                -1, &copies, NULL);
    if (rc == SQLITE_OK) {
        int copied = sqlite3_step(copies);
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            int64_t call = sqlite3_column_int64(stmt, 0);
            if (r->count && call != r->call)
                take_call(r);
            if (r->count == 0)
                take_copies(r, copies, &copied, call);
            take_row(r, stmt);
        }
        if (r->count)
            take_call(r);
    }
    sqlite3_finalize(stmt);
    sqlite3_finalize(copies);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- times ---- */

static int by_call(const void *key, const void *element) {
    int64_t call = *(const int64_t *)key, other = ((const struct ls_relayout *)element)->call;
    return call < other ? -1 : call > other;
}

static void time_runs(struct ls_flow *flow, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(
            db,
            "SELECT call, SUM(end_ns - start_ns) FROM gpu_work WHERE kind = 1"
            " AND call IS NOT NULL AND end_ns IS NOT NULL GROUP BY call"
            " UNION ALL SELECT call, gpu_ns FROM library_gpu WHERE gpu_ns IS NOT NULL",
            -1, &stmt, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        int64_t call = sqlite3_column_int64(stmt, 0);
        flow->timed = true;
        struct ls_relayout *found = flow->count ? bsearch(&call, flow->relayout, flow->count,
                                                          sizeof *flow->relayout, by_call)
                                                : NULL;
        if (found)
            found->gpu_ns = sqlite3_column_int64(stmt, 1);
    }
    sqlite3_finalize(stmt);
}

/* Of those whose own run has no row (LAYOUTSPY_KERNEL_ROWS): the mean of their kernel. */
static void time_means(struct ls_flow *flow, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    int64_t kernel = -1, mean = -1;
    if (sqlite3_prepare_v2(db,
                           "SELECT SUM(total_ns) / SUM(count) FROM kernel_total WHERE kernel = ?"
                           " AND count > 0",
                           -1, &stmt, NULL) != SQLITE_OK)
        return;
    for (size_t i = 0; i < flow->count; i++) {
        struct ls_relayout *r = &flow->relayout[i];
        if (r->gpu_ns >= 0 || !r->kernel)
            continue;
        if (r->kernel != kernel) {
            sqlite3_bind_int64(stmt, 1, kernel = r->kernel);
            mean = sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL
                       ? sqlite3_column_int64(stmt, 0)
                       : -1;
            sqlite3_reset(stmt);
        }
        r->gpu_ns = mean;
        r->gpu_is_mean = mean >= 0;
        flow->timed |= mean >= 0;
    }
    sqlite3_finalize(stmt);
}

int64_t ls_relayout_bytes(const struct ls_relayout *r) {
    return r->dst->bytes;
}

int64_t ls_relayout_ns(const struct ls_relayout *r) {
    if (r->gpu_ns >= 0)
        return r->gpu_ns;
    double moved = 2.0 * (double)r->dst->bytes;
    return (int64_t)(moved / LS_DEVICE_BYTES_PER_NS) + LS_KERNEL_NS;
}

/* ---- the whole ---- */

static void clean(struct reading *r) {
    struct place *place, *next;
    HASH_ITER(hh, r->places, place, next) {
        HASH_DEL(r->places, place);
        free(place);
    }
    for (int i = 0; i < LS_DEVICES_MOST; i++)
        ls_lives_free(r->lives[i]);
}

const struct ls_flow *ls_detect_flow(struct ls_detect *d) {
    if (d->flow)
        return d->flow;
    struct reading *r = ls_new(1, sizeof *r);
    struct ls_flow *flow = ls_new(1, sizeof *flow);
    r->d = d;
    r->flow = flow;
    flow->own = ls_flow_shapes_load(d->db);
    bool read = flow->own && read_calls(r) == SQLITE_OK;
    clean(r);
    free(r);
    if (!read) {
        ls_flow_free(flow);
        return NULL;
    }
    time_runs(flow, d->db);
    time_means(flow, d->db);
    d->flow = flow;
    return flow;
}

void ls_flow_free(struct ls_flow *flow) {
    if (!flow)
        return;
    ls_flow_shapes_free(flow->own);
    free(flow->relayout);
    free(flow);
}
