/*
 * round_trip.c - `round-trip`: data that goes from a device to the host and straight back.
 *
 * What is seen is the memory, not the data: a host buffer may be freed and given out again, which
 * no call tells of. Between the moment when the host may touch what came from the device and the
 * start of the copy back it can have put something else there only as fast as it writes memory;
 * where it had less time than that, the same data goes back. Only such pairs are told as round
 * trips. Pairs with more time between are noted, with the doubt, where a step does both with the
 * same bytes again and again.
 *
 * Nor is it told where somebody else can have written: a function of the host in the stream's own
 * order, or a file that was mapped where the pageable buffer was (it would hardly begin at the same
 * byte). A copy in between from one host buffer to another is the program's own and is not seen.
 *
 * Needs: the copies with their addresses. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "by_site.h"
#include "detect.h"
#include "host_told.h"
#include "layout_cost.h"
#include "stack_walk.h"
#include "thresholds.h"

#define BUFFERS 256 /* host ranges that are remembered, the latest ones */

struct copy {
    int64_t id, start_ns, end_ns, bytes, stack, thread, device, cost_ns;
    uint64_t dst, src, extent;
    int direction;
    bool pinned, is_async, timed, rows;
};

/* Trips from one place to another. */
struct trip {
    int64_t from, to;                /* stacks */
    const char *from_site, *to_site; /* of trips.sites */
    int64_t count, bytes, cost_ns, longest_ns, last_ns;
    int64_t *told; /* copy.id of both */
    size_t tells, told_room;
    bool sure, timed, pinned, two_devices;
};

struct trips {
    struct ls_detect *d;
    struct copy buffer[BUFFERS];
    int next;
    struct ls_sites sites;
    struct ls_numbers trips; /* by both lines, and whether it is sure */
    struct trip *at;         /* by number */
    size_t room;
    int64_t *step;
    size_t steps, step_room;
    sqlite3_stmt *wait, *next_call, *host_work, *device_of;
};

/* ---- what is in a host buffer ---- */

static bool overlap(const struct copy *c, uint64_t start, uint64_t size) {
    return c->id && c->dst < start + size && start < c->dst + c->extent;
}

static void forget(struct trips *t, uint64_t start, uint64_t size) {
    for (int i = 0; i < BUFFERS; i++)
        if (overlap(&t->buffer[i], start, size))
            t->buffer[i].id = 0;
}

/* The device's time, else what so many bytes take; never more than the host spent where it waited.
 */
static int64_t cost_of(const struct copy *c, int64_t blocked_ns, int64_t gpu_ns) {
    double ns = (double)c->bytes / (c->pinned ? LS_PINNED_BYTES_PER_NS : LS_PAGEABLE_BYTES_PER_NS);
    if (c->timed)
        return gpu_ns;
    if (!(c->is_async && c->pinned) && ns > (double)blocked_ns)
        return blocked_ns;
    return (int64_t)ns;
}

static struct copy read_copy(sqlite3_stmt *row) {
    struct copy c = {.id = sqlite3_column_int64(row, 0),
                     .start_ns = sqlite3_column_int64(row, 1),
                     .direction = sqlite3_column_int(row, 3),
                     .pinned = sqlite3_column_int(row, 4) == LS_SIDE_PINNED,
                     .bytes = sqlite3_column_int64(row, 5),
                     .dst = (uint64_t)sqlite3_column_int64(row, 6),
                     .src = (uint64_t)sqlite3_column_int64(row, 7),
                     .is_async = sqlite3_column_int(row, 8) != 0,
                     .stack = sqlite3_column_int64(row, 9),
                     .device = sqlite3_column_int64(row, 10),
                     .timed = sqlite3_column_type(row, 11) != SQLITE_NULL,
                     .thread = sqlite3_column_int64(row, 12),
                     .rows = sqlite3_column_type(row, 13) != SQLITE_NULL};
    int64_t blocked_ns = sqlite3_column_int64(row, 2);
    c.end_ns = c.start_ns + blocked_ns;
    c.extent = (uint64_t)(c.rows ? sqlite3_column_int64(row, 13) : c.bytes);
    c.cost_ns = cost_of(&c, blocked_ns, sqlite3_column_int64(row, 11));
    return c;
}

/* ---- pairs ---- */

/* Since when the host may write to the buffer. A copy that the host waited for: since its end, or
 * that of a wait which the thread goes into at once, as PyTorch does after each. An asynchronous
 * one to page-locked memory: once any thread has waited for something (for this copy, or not); if
 * none did, since the call. */
static int64_t free_since(struct trips *t, const struct copy *from, const struct copy *to) {
    bool waits = !from->is_async || !from->pinned;
    sqlite3_stmt *stmt = waits ? t->next_call : t->wait;
    int64_t since = waits ? from->end_ns : from->start_ns;
    sqlite3_bind_int64(stmt, 1, from->id);
    sqlite3_bind_int64(stmt, 2, to->id);
    if (waits)
        sqlite3_bind_int64(stmt, 3, from->thread);
    if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
        since = sqlite3_column_int64(stmt, 0);
    sqlite3_reset(stmt);
    return since;
}

/* A function of the host, or a graph that may have one, is queued between them. */
static bool host_works(struct trips *t, const struct copy *from, const struct copy *to) {
    sqlite3_bind_int64(t->host_work, 1, from->id);
    sqlite3_bind_int64(t->host_work, 2, to->id);
    bool found = sqlite3_step(t->host_work) == SQLITE_ROW;
    sqlite3_reset(t->host_work);
    return found;
}

/* Of device memory; the thread's current device is another one where a program leaves it to the
 * address. */
static int64_t device_of(struct trips *t, uint64_t address, int64_t ns, int64_t otherwise) {
    sqlite3_bind_int64(t->device_of, 1, (int64_t)address);
    sqlite3_bind_int64(t->device_of, 2, ns);
    if (sqlite3_step(t->device_of) == SQLITE_ROW)
        otherwise = sqlite3_column_int64(t->device_of, 0);
    sqlite3_reset(t->device_of);
    return otherwise;
}

/* Which step a moment is in; 0: before all of them. */
static size_t step_at(const struct trips *t, int64_t ns) {
    size_t low = 0, high = t->steps;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->step[middle] <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct trip *trip_of(struct trips *t, const struct copy *from, const struct copy *to,
                            bool sure) {
    const struct {
        size_t from, to, sure;
    } key = {ls_site_number(&t->sites, from->stack), ls_site_number(&t->sites, to->stack), sure};
    size_t known = t->trips.count, number = ls_number_of(&t->trips, &key, sizeof key);
    if (number < known)
        return &t->at[number];
    bool two = t->d->several_devices && device_of(t, from->src, from->start_ns, from->device) !=
                                            device_of(t, to->dst, to->start_ns, to->device);
    t->at = ls_room(t->at, known, &t->room, sizeof *t->at);
    t->at[number] = (struct trip){.from = from->stack,
                                  .to = to->stack,
                                  .from_site = t->sites.text[key.from],
                                  .to_site = t->sites.text[key.to],
                                  .sure = sure,
                                  .two_devices = two,
                                  .timed = true};
    return &t->at[number];
}

static void tell_later(struct trip *trip, int64_t copy) {
    trip->told = ls_room(trip->told, trip->tells, &trip->told_room, sizeof *trip->told);
    trip->told[trip->tells++] = copy;
}

static void add_pair(struct trips *t, const struct copy *from, const struct copy *to) {
    int64_t between = to->start_ns - free_since(t, from, to);
    bool sure = (double)between <= (double)to->bytes / LS_HOST_WRITE_BYTES_PER_NS &&
                (from->pinned || from->dst == to->src) && !host_works(t, from, to);
    size_t step = step_at(t, from->start_ns);
    bool one_step = step > 0 && step == step_at(t, to->start_ns);
    if (between < 0 || (!sure && (!one_step || from->bytes != to->bytes)))
        return;
    struct trip *trip = trip_of(t, from, to, sure);
    trip->count++;
    trip->bytes += to->bytes;
    trip->cost_ns += (int64_t)((double)from->cost_ns * (double)to->bytes / (double)from->bytes);
    trip->cost_ns += to->cost_ns;
    trip->timed &= from->timed && to->timed;
    trip->pinned |= from->pinned;
    trip->last_ns = to->start_ns;
    if (between > trip->longest_ns)
        trip->longest_ns = between;
    tell_later(trip, from->id);
    tell_later(trip, to->id);
}

static void back_to_device(struct trips *t, const struct copy *to) {
    for (int i = 0; i < BUFFERS; i++) {
        struct copy *from = &t->buffer[i];
        if (from->id && !from->rows && to->src >= from->dst &&
            to->src + (uint64_t)to->bytes <= from->dst + (uint64_t)from->bytes) {
            add_pair(t, from, to);
            /* Once back, what is sent again from there is another matter. */
            forget(t, to->src, (uint64_t)to->bytes);
            return;
        }
    }
}

static void take(struct trips *t, const struct copy *c) {
    if (c->direction == LS_DIRECTION_H2D) {
        if (!c->rows)
            back_to_device(t, c);
        return;
    }
    forget(t, c->dst, c->extent);
    if (c->direction == LS_DIRECTION_D2H) {
        t->buffer[t->next] = *c;
        t->next = (t->next + 1) % BUFFERS;
    }
}

/* ---- reading ---- */

static int read_steps(struct trips *t) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(t->d->db, "SELECT start_ns FROM step ORDER BY start_ns", -1, &stmt,
                                NULL);
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        t->step = ls_room(t->step, t->steps, &t->step_room, sizeof *t->step);
        t->step[t->steps++] = sqlite3_column_int64(stmt, 0);
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* In the order of completion: a copy back that began before the first was over is none. */
static int read_copies(struct trips *t) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        t->d->db,
        "SELECT id, start_ns, blocked_ns, direction, CASE direction WHEN 1 THEN src_kind ELSE"
        " dst_kind END AS host, bytes, dst, src, is_async, COALESCE(stack, 0), device,"
        " gpu_ns, thread, (SELECT MAX(bytes, bytes / MAX(r.width, 1) * COALESCE(dst_pitch, 0)) FROM"
        " copy_rows AS r WHERE r.id = copy.id) FROM copy WHERE status = 0 AND bytes > ?"
        " AND direction IN (1, 2, 4) AND host IN (1, 2)"
        " AND (SELECT flags & 2 FROM call WHERE call.id = copy.id) IS NOT 2 ORDER BY id",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_int64(stmt, 1, LS_TINY_BYTES);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct copy c = read_copy(stmt);
        if (c.dst && c.src)
            take(t, &c);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int prepare(struct trips *t) {
    sqlite3 *db = t->d->db;
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT start_ns + duration_ns FROM call WHERE id > ? AND id < ? AND status = 0 AND api IN"
        " (SELECT id FROM api WHERE class = 'sync') ORDER BY id LIMIT 1",
        -1, &t->wait, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(
            db,
            "SELECT CASE WHEN api IN (SELECT id FROM api WHERE class = 'sync') THEN start_ns +"
            " duration_ns END FROM call WHERE id > ? AND id < ? AND thread = ? ORDER BY id LIMIT 1",
            -1, &t->next_call, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(
            db,
            "SELECT 1 FROM call WHERE id > ? AND id < ? AND api IN (SELECT id FROM api WHERE"
            " name LIKE '%LaunchHostFunc%' OR name LIKE '%StreamAddCallback%' OR"
            " name LIKE '%GraphLaunch%') LIMIT 1",
            -1, &t->host_work, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(
            db,
            "SELECT device FROM allocation WHERE ?1 >= address AND ?1 < address + size"
            " AND start_ns <= ?2 ORDER BY start_ns DESC LIMIT 1",
            -1, &t->device_of, NULL);
    return rc;
}

/* ---- findings ---- */

/* The copies ran in a traced or scripted model, whose devices are written into it. */
static bool in_script(sqlite3 *db, int64_t stack) {
    sqlite3_stmt *stmt = NULL;
    bool found = false;
    if (sqlite3_prepare_v2(db,
                           LS_STACK_WALK "SELECT 1 FROM walk WHERE function LIKE"
                                         " '%torch::jit::Interpreter%' LIMIT 1",
                           -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, stack);
        found = sqlite3_step(stmt) == SQLITE_ROW;
    }
    sqlite3_finalize(stmt);
    return found;
}

static char *advice_of(const struct ls_detect *d, const struct trip *t, bool script) {
    if (!t->sure)
        return ls_format(
            "Whether the same data comes back cannot be seen: host memory that is freed and given "
            "out again, or filled anew, looks the same; then nothing is to be done here. If it is "
            "an offload, to make room on the device meanwhile, this is its price. If the host "
            "works on the data, let the device do it.");
    if (script)
        return ls_format(
            "The model was traced or scripted with a device written into it (torch.jit.trace keeps "
            "what .to(...), .cpu() and device=... were given): trace it again on the device that "
            "it runs on, with devices taken from its inputs (device=x.device).");
    if (t->two_devices)
        return ls_format("Copy from one device to the other directly (%scudaMemcpyPeerAsync): "
                         "without peer access CUDA stages it through page-locked memory by itself.",
                         d->pytorch ? "x.to('cuda:1') on the tensor of the first device; in C "
                                    : "");
    return ls_format(
        "Keep the data on the device: %s. If the host changes some of it in between, let the "
        "device do that. Pinning the buffer would only make both copies shorter.",
        d->pytorch ? "leave out .cpu(), .to('cpu') or .numpy() at the first line and .cuda() or "
                     ".to(...) at the second; where a copy is wanted, .clone()"
                   : "leave out both copies; where a copy is wanted, copy from device to device");
}

static char *title_of(const struct trip *t) {
    struct ls_human count, bytes, cost;
    ls_human_count(&count, t->count);
    ls_human_bytes(&bytes, t->bytes);
    ls_human_ns(&cost, t->cost_ns);
    if (t->sure)
        return ls_format("%s of device memory went to the host and straight back%s, in %s %s: "
                         "both ways took %s",
                         bytes.text, t->two_devices ? " to another device" : "", count.text,
                         ls_plural(t->count, "round trip", "round trips"), cost.text);
    return ls_format("%s times device memory is copied to the host, and later in the same step "
                     "the same host memory to a device, %s in all; whether it is the same data "
                     "is not known",
                     count.text, bytes.text);
}

static char *why_of(const struct trip *t) {
    struct ls_human between;
    ls_human_ns(&between, t->longest_ns);
    if (t->sure)
        return ls_format("Between the two copies the host had %s at most, less than it needs to "
                         "write so many bytes: what went back is what had come. The bus was "
                         "crossed twice for nothing.",
                         between.text);
    return ls_format("The bus is crossed twice. Between the two copies the host had up to %s, "
                     "enough to put something else there.",
                     between.text);
}

static void add_finding(struct trips *all, const struct ls_detector *self, const struct trip *t) {
    struct ls_detect *d = all->d;
    bool script = in_script(d->db, t->from) || in_script(d->db, t->to);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    char *why = why_of(t);
    f->count = t->count;
    f->bytes = 2 * t->bytes;
    f->time_ns = t->cost_ns;
    f->gain_ns = t->sure ? t->cost_ns : 0;
    f->severity =
        t->sure ? ls_host_severity(d, t->count, t->cost_ns, f->gain_ns, t->last_ns) : LS_INFO;
    f->site = ls_copied(t->from_site);
    f->title = title_of(t);
    f->advice = advice_of(d, t, script);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    json_object_set_new(f->evidence, "confidence", json_string("linked"));
    ls_finding_basis(f, t->timed, "bus",
                     t->sure ? "neither copy is needed" : "nothing: it may be needed");
    json_object_update_new(f->evidence,
                           json_pack("{s:b, s:o, s:I, s:b, s:b, s:b}", "same_data_known", t->sure,
                                     "back_site", ls_json_text(t->to_site), "longest_between_ns",
                                     (json_int_t)t->longest_ns, "pinned", t->pinned, "two_devices",
                                     t->two_devices, "scripted", script));
}

/* What is only noted stays with pageable-copy as well: its advice may be the right one. */
static int add_findings(struct trips *t, const struct ls_detector *self) {
    int rc = SQLITE_OK;
    for (size_t i = 0; i < t->trips.count && rc == SQLITE_OK; i++) {
        struct trip *at = &t->at[i];
        if (at->bytes < LS_COPIES_NOISE_BYTES || (!at->sure && at->count < LS_REPEATED))
            continue;
        add_finding(t, self, at);
        if (at->sure)
            rc = ls_host_tell(t->d, at->told, at->tells);
    }
    return rc;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct trips t = {.d = d, .sites.db = d->db};
    int rc = ls_host_told(d, true);
    if (rc == SQLITE_OK)
        rc = prepare(&t);
    if (rc == SQLITE_OK)
        rc = read_steps(&t);
    if (rc == SQLITE_OK)
        rc = read_copies(&t);
    if (rc == SQLITE_OK)
        rc = add_findings(&t, self);
    for (size_t i = 0; i < t.trips.count; i++)
        free(t.at[i].told);
    ls_numbers_free(&t.trips);
    ls_sites_free(&t.sites);
    sqlite3_finalize(t.wait);
    sqlite3_finalize(t.next_call);
    sqlite3_finalize(t.host_work);
    sqlite3_finalize(t.device_of);
    free(t.at);
    free(t.step);
    return rc;
}

const struct ls_detector ls_detect_round_trip = {"round-trip", run};
