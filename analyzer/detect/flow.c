/*
 * flow.c - see flow.h. Main thread only; not for signal handlers.
 */
#include "flow.h"

#include <stdlib.h>
#include <string.h>

#include "../query.h"
#include "../room.h"
#include "flow_life.h"
#include "flow_place.h"
#include "flow_shape.h"
#include "flow_time.h"
#include "thresholds.h"

/* One operand of the call that is being looked at. */
enum way { NOTHING, IN, OUT, INOUT, TOUCHED };
struct given {
    int role;
    int64_t shape;
    uint64_t address;
    enum way way;
    bool is_dst, is_src;
};

#define GIVEN_MOST 64  /* no record has more */
#define ROLES_MOST 256 /* a role is a byte */
#define HANDED_MOST 64 /* results that one copy of bytes hands on */

struct device {
    const struct ls_history *history;
    struct ls_lives *lives;
    struct ls_flow_steps *steps;
    bool read;
};

struct reading {
    struct ls_detect *d;
    struct ls_flow *flow;
    size_t room;
    struct ls_homes *homes;
    struct device of[LS_DEVICES_MOST];
    enum way way[ROLES_MOST]; /* by role.id */
    bool is_dst[ROLES_MOST], is_src[ROLES_MOST], is_c[ROLES_MOST];
    sqlite3_stmt *ask; /* for the call of an operand */
    /* The call, and what it was given. */
    int64_t call, start_ns, stack, api, kernel;
    int device;
    bool library, launch, nested;
    struct given given[GIVEN_MOST];
    size_t count;
};

static struct device *device_of(struct reading *r) {
    if (r->device < 0 || r->device >= LS_DEVICES_MOST)
        return NULL;
    struct device *device = &r->of[r->device];
    if (!device->read) {
        device->read = true;
        device->history = ls_detect_history(r->d, r->device);
        if (device->history) {
            device->lives = ls_lives_new(device->history);
            device->steps = ls_flow_steps_new(device->history);
        }
    }
    return device->history ? device : NULL;
}

static const struct ls_span *life_of(struct reading *r, uint64_t address) {
    struct device *device = device_of(r);
    return device ? ls_life_at(device->lives, address, r->start_ns) : NULL;
}

/* The step that the call lies in, 0: none. */
static int64_t step_of(struct reading *r) {
    struct device *device = device_of(r);
    bool inside = false;
    size_t step = device ? ls_flow_step(device->steps, r->start_ns, &inside) : 0;
    return inside ? (int64_t)step : 0;
}

static struct ls_home *home_of(struct reading *r, uint64_t address, bool make) {
    return address ? ls_home_of(r->homes, life_of(r, address), address, make) : NULL;
}

/* The end of an operand of this shape; of what is not known the first byte is meant. */
static uint64_t end_of(const struct ls_flow_shape *shape, uint64_t address) {
    return address + (shape && shape->span > 0 ? (uint64_t)shape->span : 1);
}

/* ---- what calls do to memory ---- */

static void take_write(struct reading *r, uint64_t address, uint64_t end) {
    struct ls_home *home = home_of(r, address, false);
    struct ls_place *place = NULL;
    while (home && (place = ls_place_next(home, place, address, end))) {
        if (place->write_end > address)
            place->written = LS_NO_RELAYOUT;
        if (place->read_end > address)
            place->rewritten = true;
    }
}

/* A kernel that nobody knows was given the address; what it did there, and how far, is not known.
 */
static void take_touch(struct reading *r, uint64_t address) {
    struct ls_home *home = home_of(r, address, false);
    struct ls_place *place = NULL;
    while (home && (place = ls_place_next(home, place, address, address + 1))) {
        place->touched |= place->read_end > address;
        if (place->written != LS_NO_RELAYOUT && place->write_end > address &&
            r->flow->relayout[place->written].readers == 0)
            r->flow->relayout[place->written].touched = true;
    }
}

/* A kernel read there: it is a reader of which nothing more is known. */
static void take_kernels_read(struct reading *r, const struct given *given) {
    struct ls_home *home = home_of(r, given->address, false);
    uint64_t end = end_of(ls_flow_shape(r->flow->own, given->shape), given->address);
    struct ls_place *place = NULL;
    while (home && (place = ls_place_next(home, place, given->address, end)))
        if (place->written != LS_NO_RELAYOUT && place->write_end > given->address &&
            r->flow->relayout[place->written].readers == 0)
            r->flow->relayout[place->written].touched = true;
}

static void say_reader(struct reading *r, struct ls_relayout *relayout, const struct given *given) {
    bool instead = relayout->reader && relayout->reader_nested && !r->nested;
    relayout->last_reader_step = step_of(r);
    if (!instead && relayout->reader != r->call)
        relayout->readers++;
    if (relayout->reader && !instead)
        return;
    relayout->reader = r->call;
    relayout->reader_api = r->api;
    relayout->reader_stack = r->stack;
    relayout->reader_role = given->role;
    relayout->reader_address = (int64_t)given->address;
    relayout->reader_shape = ls_flow_shape(r->flow->own, given->shape);
    relayout->reader_adds = r->is_c[given->role];
    relayout->reader_nested = r->nested;
}

/* A library's call reads what relayouts wrote. */
static void take_read(struct reading *r, const struct given *given) {
    struct ls_home *home = r->library ? home_of(r, given->address, false) : NULL;
    uint64_t end = end_of(ls_flow_shape(r->flow->own, given->shape), given->address);
    struct ls_place *place = NULL;
    while (home && (place = ls_place_next(home, place, given->address, end)))
        if (place->written != LS_NO_RELAYOUT && place->write_end > given->address)
            say_reader(r, &r->flow->relayout[place->written], given);
}

/* ---- copies by kernels ---- */

static struct ls_relayout *new_relayout(struct reading *r, const struct ls_flow_shape *src,
                                        const struct ls_flow_shape *dst) {
    struct ls_flow *flow = r->flow;
    flow->relayout = ls_room(flow->relayout, flow->count, &r->room, sizeof *flow->relayout);
    struct ls_relayout *made = &flow->relayout[flow->count++];
    *made = (struct ls_relayout){.call = r->call,
                                 .start_ns = r->start_ns,
                                 .stack = r->stack,
                                 .step = step_of(r),
                                 .kernel = r->kernel,
                                 .src = src,
                                 .dst = dst,
                                 .gpu_ns = -1,
                                 .turned = ls_flow_turned(src, dst),
                                 .cast = strcmp(src->dtype, dst->dtype) != 0,
                                 .repeated = ls_flow_repeated(src),
                                 .from = LS_NO_RELAYOUT,
                                 .before = LS_NO_RELAYOUT};
    return made;
}

static bool outlives_step(const struct device *device, const struct ls_span *span, int64_t step) {
    bool inside;
    if (!device || !span || step == 0 ||
        (int64_t)ls_flow_step(device->steps, span->start_ns, &inside) >= step)
        return false;
    if (span->end_ns == LS_NEVER)
        return true;
    int64_t end = (int64_t)ls_flow_step(device->steps, span->end_ns, &inside);
    return end > step || (end == step && !inside);
}

/* The relayout whose result the source is, or is a part of; one at the very address if there is. */
static size_t written_by(struct ls_home *home, uint64_t address, uint64_t end) {
    size_t found = LS_NO_RELAYOUT;
    struct ls_place *place = NULL;
    while ((place = ls_place_next(home, place, address, end)))
        if (place->written != LS_NO_RELAYOUT && place->write_end > address &&
            (found == LS_NO_RELAYOUT || place->address == address))
            found = place->written;
    return found;
}

static void say_source(struct reading *r, struct ls_relayout *made, size_t index) {
    uint64_t address = (uint64_t)made->src_address, end = end_of(made->src, address);
    const struct ls_span *span = life_of(r, address);
    const struct device *device = device_of(r);
    struct ls_home *home = ls_home_of(r->homes, span, address, true);
    if (span)
        made->src_life = ls_life_is_direct(device->lives, span) ? -span->id : span->id;
    made->src_is_lasting = outlives_step(device, span, made->step);
    made->from = written_by(home, address, end);
    if (made->from != LS_NO_RELAYOUT)
        r->flow->relayout[made->from].reread = true;
    struct ls_place *at = ls_place_at(home, address);
    if (at->read != LS_NO_RELAYOUT && r->flow->relayout[at->read].src == made->src) {
        made->before = at->read;
        made->src_rewritten = at->rewritten;
        made->src_touched = at->touched;
    }
    at->read = index;
    at->read_end = end;
    at->rewritten = at->touched = false;
    ls_place_reaches(home, at);
}

static void put_written(struct reading *r, uint64_t address, uint64_t end, size_t index) {
    struct ls_home *home = home_of(r, address, true);
    struct ls_place *at = ls_place_at(home, address);
    at->written = index;
    at->write_end = end;
    ls_place_reaches(home, at);
}

/* PyTorch splits what 32 bits cannot index, from two GiB on, into pieces that follow each other. */
static bool continues(const struct ls_flow *flow, size_t index) {
    const struct ls_relayout *made = &flow->relayout[index], *last = made - 1;
    return index > 0 && last->stack == made->stack && last->kernel == made->kernel &&
           last->src_life == made->src_life && !last->reader &&
           ls_relayout_bytes(last) >= LS_PIECE_BYTES &&
           (uint64_t)made->dst_address == end_of(last->dst, (uint64_t)last->dst_address);
}

static bool take_relayout(struct reading *r, const struct given *dst, const struct given *src) {
    const struct ls_flow_shape *to = ls_flow_shape(r->flow->own, dst->shape);
    const struct ls_flow_shape *from = ls_flow_shape(r->flow->own, src->shape);
    if (!to || !from || !dst->address || !src->address)
        return false;
    size_t index = r->flow->count;
    struct ls_relayout *made = new_relayout(r, from, to);
    made->src_address = (int64_t)src->address;
    made->dst_address = (int64_t)dst->address;
    say_source(r, made, index);
    made->continues = continues(r->flow, index);
    take_write(r, dst->address, end_of(to, dst->address));
    put_written(r, dst->address, end_of(to, dst->address), index);
    return true;
}

/* ---- one call ---- */

static void take_call(struct reading *r) {
    const struct given *dst = NULL, *src = NULL;
    size_t sources = 0;
    r->flow->operand_calls++;
    for (size_t i = 0; i < r->count; i++) {
        const struct given *given = &r->given[i];
        if (given->is_dst && given->way == OUT)
            dst = given;
        if (given->is_src && sources++ == 0)
            src = given;
        if (given->way == IN || given->way == INOUT)
            take_read(r, given);
    }
    bool relayout = r->launch && dst && src && sources == 1 && take_relayout(r, dst, src);
    for (size_t i = 0; i < r->count && !relayout; i++) {
        const struct given *given = &r->given[i];
        const struct ls_flow_shape *shape = ls_flow_shape(r->flow->own, given->shape);
        if (r->launch && (given->way == IN || given->way == INOUT))
            take_kernels_read(r, given);
        if (r->launch && given->way == TOUCHED)
            take_touch(r, given->address);
        else if (given->way == OUT || given->way == INOUT)
            take_write(r, given->address, end_of(shape, given->address));
    }
    r->count = 0;
}

/* ---- copies of bytes ---- */

/* What lay in the source lies in the destination now, as it did there. */
static void take_copy(struct reading *r, uint64_t dst, uint64_t src, uint64_t bytes) {
    struct {
        uint64_t offset, size;
        size_t written;
    } handed[HANDED_MOST];
    size_t count = 0;
    struct ls_home *home = src ? home_of(r, src, false) : NULL;
    struct ls_place *place = NULL;
    while (home && count < HANDED_MOST && (place = ls_place_next(home, place, src, src + bytes)))
        if (place->written != LS_NO_RELAYOUT && place->address >= src &&
            place->write_end > place->address && place->write_end <= src + bytes) {
            handed[count].offset = place->address - src;
            handed[count].size = place->write_end - place->address;
            handed[count++].written = place->written;
        }
    take_write(r, dst, dst + bytes);
    for (size_t i = 0; i < count; i++)
        put_written(r, dst + handed[i].offset, dst + handed[i].offset + handed[i].size,
                    handed[i].written);
}

/* Those that ended before the call with this number. */
static void take_copies(struct reading *r, sqlite3_stmt *copies, int *rc, int64_t before) {
    while (*rc == SQLITE_ROW && sqlite3_column_int64(copies, 0) < before) {
        bool on_device = sqlite3_column_int(copies, 4) == LS_DIRECTION_D2D;
        r->start_ns = sqlite3_column_int64(copies, 5);
        r->device = sqlite3_column_int(copies, 6);
        take_copy(r, (uint64_t)sqlite3_column_int64(copies, 1),
                  on_device ? (uint64_t)sqlite3_column_int64(copies, 2) : 0,
                  (uint64_t)sqlite3_column_int64(copies, 3));
        *rc = sqlite3_step(copies);
    }
}

/* ---- reading ---- */

static enum way way_of(const char *direction) {
    return !strcmp(direction, "in")        ? IN
           : !strcmp(direction, "out")     ? OUT
           : !strcmp(direction, "inout")   ? INOUT
           : !strcmp(direction, "touched") ? TOUCHED
                                           : NOTHING;
}

static int read_roles(struct reading *r) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(r->d->db, "SELECT id, name, direction FROM role", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            int id = sqlite3_column_int(stmt, 0);
            if (id < 0 || id >= ROLES_MOST)
                continue;
            const char *name = (const char *)sqlite3_column_text(stmt, 1);
            r->way[id] = way_of((const char *)sqlite3_column_text(stmt, 2));
            r->is_dst[id] = !strcmp(name, "dst");
            r->is_src[id] = !strcmp(name, "src");
            r->is_c[id] = !strcmp(name, "c");
        }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* False: it failed, or is not there. */
static bool ask_call(struct reading *r, int64_t call) {
    sqlite3_reset(r->ask);
    sqlite3_bind_int64(r->ask, 1, call);
    if (sqlite3_step(r->ask) != SQLITE_ROW)
        return false;
    int class = sqlite3_column_int(r->ask, 6);
    r->call = call;
    r->start_ns = sqlite3_column_int64(r->ask, 0);
    r->stack = sqlite3_column_int64(r->ask, 1);
    r->api = sqlite3_column_int64(r->ask, 2);
    r->device = sqlite3_column_int(r->ask, 3);
    r->launch = class == 1;
    r->library = class == 2;
    r->kernel = r->launch ? sqlite3_column_int64(r->ask, 4) : 0;
    r->nested = sqlite3_column_int(r->ask, 5) & 1;
    return true;
}

static void take_row(struct reading *r, sqlite3_stmt *stmt) {
    int role = sqlite3_column_int(stmt, 1);
    uint64_t address = (uint64_t)sqlite3_column_int64(stmt, 3);
    if (r->count == GIVEN_MOST || role < 0 || role >= ROLES_MOST || !address)
        return;
    r->given[r->count++] = (struct given){.role = role,
                                          .shape = sqlite3_column_int64(stmt, 2),
                                          .address = address,
                                          .way = r->way[role],
                                          .is_dst = r->is_dst[role],
                                          .is_src = r->is_src[role]};
}

static int read_operands(struct reading *r, sqlite3_stmt *operands, sqlite3_stmt *copies) {
    int rc, copied = sqlite3_step(copies);
    int64_t last = 0;
    bool good = false;
    while ((rc = sqlite3_step(operands)) == SQLITE_ROW) {
        int64_t call = sqlite3_column_int64(operands, 0);
        if (call != last) {
            if (good)
                take_call(r);
            take_copies(r, copies, &copied, call);
            good = ask_call(r, call);
            last = call;
        }
        if (good)
            take_row(r, operands);
    }
    if (good)
        take_call(r);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int read_calls(struct reading *r) {
    sqlite3_stmt *operands = NULL, *copies = NULL;
    sqlite3 *db = r->d->db;
    int rc = sqlite3_prepare_v2(db,
                                "SELECT call, role, COALESCE(shape, 0), address FROM operand"
                                " ORDER BY call, position",
                                -1, &operands, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(db,
                                "SELECT id, dst, src, bytes, direction, start_ns, device FROM copy"
                                " WHERE status = 0 AND bytes > 0 ORDER BY id",
                                -1, &copies, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(db,
                                "SELECT start_ns, COALESCE(stack, 0), api, COALESCE(device, -1),"
                                " f0, flags, (SELECT CASE class WHEN 'launch' THEN 1"
                                " WHEN 'library_call' THEN 2 END FROM api WHERE api.id = call.api)"
                                " FROM call WHERE id = ? AND status = 0",
                                -1, &r->ask, NULL);
    if (rc == SQLITE_OK)
        rc = read_operands(r, operands, copies);
    sqlite3_finalize(operands);
    sqlite3_finalize(copies);
    sqlite3_finalize(r->ask);
    return rc;
}

/* ---- the whole ---- */

static void clean(struct reading *r) {
    ls_homes_free(r->homes);
    for (int i = 0; i < LS_DEVICES_MOST; i++) {
        ls_lives_free(r->of[i].lives);
        ls_flow_steps_free(r->of[i].steps);
    }
}

const struct ls_flow *ls_detect_flow(struct ls_detect *d) {
    if (d->flow)
        return d->flow;
    struct reading *r = ls_new(1, sizeof *r);
    struct ls_flow *flow = ls_new(1, sizeof *flow);
    r->d = d;
    r->flow = flow;
    r->homes = ls_homes_new();
    flow->own = ls_flow_shapes_load(d->db);
    bool read = flow->own && read_roles(r) == SQLITE_OK && read_calls(r) == SQLITE_OK;
    clean(r);
    free(r);
    if (!read) {
        ls_flow_free(flow);
        return NULL;
    }
    flow->library_calls =
        ls_query_int(d->db, 0,
                     "SELECT EXISTS(SELECT 1 FROM call WHERE api IN (SELECT id FROM api WHERE"
                     " class = 'library_call'))") > 0;
    ls_flow_time(flow, d->db);
    d->flow = flow;
    return flow;
}

static int by_call(const void *key, const void *element) {
    int64_t call = *(const int64_t *)key, other = ((const struct ls_relayout *)element)->call;
    return call < other ? -1 : call > other;
}

struct ls_relayout *ls_flow_relayout_of(const struct ls_flow *flow, int64_t call) {
    return flow->count
               ? bsearch(&call, flow->relayout, flow->count, sizeof *flow->relayout, by_call)
               : NULL;
}

void ls_flow_free(struct ls_flow *flow) {
    if (!flow)
        return;
    ls_flow_shapes_free(flow->own);
    free(flow->relayout);
    free(flow);
}
