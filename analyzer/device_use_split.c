/*
 * device_use_split.c - what of a full device the program is known to hold: completes the rows of
 * `device_use` when a recording is finished. See device_use.h. One thread; not async-signal-safe.
 *
 * One pass over the lifetimes, without sorting them: each adds to the samples between its begin and
 * its end. Can be done twice.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clamp.h"
#include "device_use.h"
#include "ingest_internal.h"

#define DEVICES 256
#define PAGE (INT64_C(2) << 20)        /* what the driver takes memory in, from half of it on */
#define PROGRAM_ROWS_MOST 100000       /* a program that asks more often is read every 10 ms */
#define ASYNC_EVENTS_MOST 4000000      /* beyond, pools' peaks between samples are not looked for */
#define TOTAL_TOLERANCE 32             /* what the driver keeps may be a 32nd of the device */
#define HELD_TOLERANCE 20              /* and timing, and sharing, a 20th of what is held */
#define HELD_LEAST (INT64_C(64) << 20) /* of less it cannot be told */

enum part { DIRECT, ASYNC, MANAGED, SLACK, PHYSICAL, MAPPED, PARTS };

struct row {
    int64_t id, ts_ns, used, own, others; /* own, others -1: not known */
    bool nvml;
};

struct event {
    int64_t ts_ns, bytes;
};

struct series {
    struct row *row;
    size_t count, room;
    size_t hint;          /* where the last lifetime began */
    int64_t *part[PARTS]; /* at each row; while they are gathered, the change at it; count + 1 */
    struct event *async;
    size_t async_count, async_room;
    int64_t *async_peak; /* until each row */
    int64_t program_total, nvml_total;
};

struct split {
    struct ls_trace_db *db;
    struct series *of[DEVICES];
    bool peaks; /* of pools are looked for */
    bool out_of_memory;
};

static int64_t or_unknown(sqlite3_stmt *stmt, int column) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL
               ? -1
               : ls_clamped(sqlite3_column_int64(stmt, column), LS_LARGEST);
}

static void load_row(sqlite3_stmt *stmt, void *context) {
    struct split *split = context;
    int device = sqlite3_column_int(stmt, 0);
    if (device < 0 || device >= DEVICES)
        return;
    if (!split->of[device])
        split->of[device] = calloc(1, sizeof *split->of[device]);
    struct series *s = split->of[device];
    struct row *row = s ? ls_ingest_room(s->row, s->count, &s->room, sizeof *row) : NULL;
    if (!row) {
        split->out_of_memory = true;
        return;
    }
    s->row = row;
    s->row[s->count++] = (struct row){.id = sqlite3_column_int64(stmt, 1),
                                      .ts_ns = sqlite3_column_int64(stmt, 2),
                                      .used = or_unknown(stmt, 3),
                                      .own = or_unknown(stmt, 5),
                                      .others = or_unknown(stmt, 6),
                                      .nvml = sqlite3_column_int(stmt, 7)};
    if (sqlite3_column_int(stmt, 7))
        s->nvml_total = or_unknown(stmt, 4);
}

static void load_total(sqlite3_stmt *stmt, void *context) {
    struct split *split = context;
    int device = sqlite3_column_int(stmt, 0);
    if (device >= 0 && device < DEVICES && split->of[device])
        split->of[device]->program_total = or_unknown(stmt, 1);
}

/* The first row at `ts_ns` or later. */
static size_t first_at(const struct series *s, int64_t ts_ns) {
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->row[middle].ts_ns < ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add(struct series *s, enum part part, int64_t start_ns, int64_t end_ns, int64_t bytes) {
    size_t from = s->hint;
    if (from > s->count || (from > 0 && s->row[from - 1].ts_ns >= start_ns) ||
        (from < s->count && s->row[from].ts_ns < start_ns))
        from = s->hint = first_at(s, start_ns);
    if (bytes <= 0 || from == s->count || s->row[from].ts_ns >= end_ns)
        return; /* most lives are short */
    s->part[part][from] += bytes;
    s->part[part][first_at(s, end_ns)] -= bytes;
}

static bool add_async(struct series *s, int64_t ts_ns, int64_t bytes) {
    struct event *async = ls_ingest_room(s->async, s->async_count, &s->async_room, sizeof *async);
    if (!async)
        return false;
    s->async = async;
    s->async[s->async_count++] = (struct event){ts_ns, bytes};
    return true;
}

/* Of large memory, what lies between its end and that of its last page. */
static int64_t slack_of(int64_t size) {
    return size < PAGE / 2 ? 0 : (PAGE - size % PAGE) % PAGE;
}

static void load_life(sqlite3_stmt *stmt, void *context) {
    struct split *split = context;
    int device = sqlite3_column_int(stmt, 0), kind = sqlite3_column_int(stmt, 1);
    struct series *s = device >= 0 && device < DEVICES ? split->of[device] : NULL;
    int64_t size = ls_clamped(sqlite3_column_int64(stmt, 2), LS_LARGEST);
    int64_t start_ns = sqlite3_column_int64(stmt, 3);
    int64_t end_ns =
        sqlite3_column_type(stmt, 4) == SQLITE_NULL ? INT64_MAX : sqlite3_column_int64(stmt, 4);
    if (!s)
        return;
    switch (kind) {
    case LS_MEMORY_ASYNC:
        add(s, ASYNC, start_ns, end_ns, size);
        if (split->peaks && (!add_async(s, start_ns, size) || !add_async(s, end_ns, -size)))
            split->out_of_memory = true;
        break;
    case LS_MEMORY_MANAGED:
        add(s, MANAGED, start_ns, end_ns, size);
        break;
    case LS_MEMORY_VMM:
        add(s, MAPPED, start_ns, end_ns, size);
        break;
    case 0: /* of vmm_range */
        add(s, PHYSICAL, start_ns, end_ns, size);
        break;
    default:
        add(s, DIRECT, start_ns, end_ns, size);
        add(s, SLACK, start_ns, end_ns, slack_of(size));
        break;
    }
}

static int by_time(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* what is given back comes first */
}

/* Changes become amounts; and the most that a pool ever had to hold until each row. */
static void add_up(struct series *s) {
    int64_t live = 0, peak = 0;
    size_t next = 0;
    for (int p = 0; p < PARTS; p++)
        for (size_t i = 1; i < s->count; i++)
            s->part[p][i] = ls_plus(s->part[p][i], s->part[p][i - 1]);
    if (s->async_count)
        qsort(s->async, s->async_count, sizeof *s->async, by_time);
    for (size_t i = 0; i < s->count; i++) {
        for (; next < s->async_count && s->async[next].ts_ns <= s->row[i].ts_ns; next++) {
            live = ls_plus(live, s->async[next].bytes);
            peak = live > peak ? live : peak;
        }
        if (s->part[ASYNC][i] > peak)
            peak = s->part[ASYNC][i];
        s->async_peak[i] = peak;
    }
}

static int64_t tracked_at(const struct series *s, size_t i) {
    int64_t physical = s->part[PHYSICAL][i], mapped = s->part[MAPPED][i];
    return s->part[DIRECT][i] + s->part[ASYNC][i] + (physical > mapped ? physical : mapped);
}

static int64_t positive(int64_t bytes) {
    return bytes > 0 ? bytes : 0;
}

/* What was there beside the tracked when the first sample of a source was taken, by NVML's figure
 * for the process alone where there is one: the context. */
static int64_t context_of(const struct series *s, bool nvml) {
    int64_t first = -1, alone = -1;
    for (size_t i = 0; i < s->count; i++) {
        const struct row *r = &s->row[i];
        if (r->nvml != nvml)
            continue;
        if (first < 0)
            first = positive(r->used - tracked_at(s, i) - positive(r->others));
        if (r->own > 0 && tracked_at(s, i) > 0)
            return positive(r->own - tracked_at(s, i));
        if (r->own > 0 && alone < 0)
            alone = r->own;
    }
    return alone >= 0 ? alone : first;
}

/* False: NVML speaks of another device. */
static bool is_same_device(const struct series *s, int device, char *note, size_t size) {
    size_t asked = 0, less = 0;
    int64_t difference = s->nvml_total - s->program_total;
    if (s->nvml_total <= 0)
        return true;
    if (s->program_total > 0 &&
        (difference < 0 ? -difference : difference) > s->nvml_total / TOTAL_TOLERANCE) {
        snprintf(note, size,
                 "NVML's device for device %d has %" PRId64 " bytes, the program's %" PRId64
                 ": NVML's samples were left out",
                 device, s->nvml_total, s->program_total);
        return false;
    }
    for (size_t i = 0; i < s->count; i++) {
        int64_t held = tracked_at(s, i);
        if (!s->row[i].nvml || s->row[i].own < 0 || held < HELD_LEAST)
            continue;
        asked++;
        less += s->row[i].own < held - held / HELD_TOLERANCE;
    }
    if (2 * less > asked) {
        snprintf(note, size,
                 "by NVML the process has less on device %d than it was seen to allocate: NVML's "
                 "samples were left out",
                 device);
        return false;
    }
    return true;
}

static void put_rows(struct ls_trace_db *db, const struct series *s) {
    int64_t context[2] = {context_of(s, false), context_of(s, true)};
    for (size_t i = 0; i < s->count; i++) {
        const struct row *r = &s->row[i];
        int64_t tracked = tracked_at(s, i), of = context[r->nvml];
        if (r->own >= 0 && of > positive(r->own - tracked)) /* it is not there yet */
            of = positive(r->own - tracked);
        ls_db_put(db, LS_PUT_DEVICE_USE_SPLIT, "iiii", tracked, positive(of),
                  s->part[MANAGED][i] + s->part[SLACK][i] +
                      positive(s->async_peak[i] - s->part[ASYNC][i]),
                  r->id);
    }
}

/* Where NVML tells of the process, it has what was seen to be allocated: it is the device. */
static bool is_unchecked(const struct series *s) {
    bool held = false, own = false;
    for (size_t i = 0; i < s->count; i++) {
        held |= s->row[i].nvml && tracked_at(s, i) > 0;
        own |= s->row[i].own > 0;
    }
    return s->nvml_total > 0 && s->program_total <= 0 && held && !own;
}

/* Only the program's own rows. */
static void drop_nvml(struct series *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->row[i].nvml)
            continue;
        s->row[kept] = s->row[i];
        for (int p = 0; p < PARTS; p++)
            s->part[p][kept] = s->part[p][i];
        s->async_peak[kept++] = s->async_peak[i];
    }
    s->count = kept;
}

/* One device that is another one's shows that the order of all is not what it was taken for. */
static void finish(struct split *split, char *note, size_t size) {
    bool same = true;
    for (int i = 0; i < DEVICES; i++)
        if (split->of[i]) {
            add_up(split->of[i]);
            same = same && is_same_device(split->of[i], i, note, size);
        }
    if (!same)
        ls_db_exec(split->db, "DELETE FROM device_use WHERE source='nvml'");
    for (int i = 0; i < DEVICES; i++) {
        struct series *s = split->of[i];
        if (!s)
            continue;
        if (!same)
            drop_nvml(s);
        else if (!*note && is_unchecked(s))
            snprintf(note, size,
                     "the program never told the size of device %d, so that it is NVML's device "
                     "was not checked",
                     i);
        put_rows(split->db, s);
    }
}

/* The program's own questions are samples, too. */
static void put_programs(struct ls_trace_db *db) {
    static const char all[] =
        "INSERT INTO device_use(ts_ns,device,used,total,source) SELECT ts_ns,device,"
        "device_total-device_free,device_total,'program' FROM memory"
        " WHERE device_free NOT NULL AND device_total >= device_free";
    ls_db_exec(db, "DELETE FROM device_use WHERE source='program'");
    bool many = ls_db_number(db, "SELECT COUNT(device_free) FROM memory") > PROGRAM_ROWS_MOST;
    char sql[sizeof all + 64];
    snprintf(sql, sizeof sql, "%s%s", all, many ? " GROUP BY device, ts_ns/10000000" : "");
    ls_db_exec(db, sql);
}

static void release(struct split *split) {
    for (int i = 0; i < DEVICES; i++) {
        struct series *s = split->of[i];
        if (!s)
            continue;
        for (int p = 0; p < PARTS; p++)
            free(s->part[p]);
        free(s->async_peak);
        free(s->async);
        free(s->row);
        free(s);
    }
}

/* Where the changes at each row are gathered. */
static void make_parts(struct split *split) {
    for (int i = 0; i < DEVICES; i++) {
        struct series *s = split->of[i];
        for (int p = 0; s && p < PARTS; p++) {
            s->part[p] = calloc(s->count + 1, sizeof *s->part[p]);
            split->out_of_memory |= !s->part[p];
        }
        if (s)
            s->async_peak = calloc(s->count + 1, sizeof *s->async_peak);
        split->out_of_memory |= s && !s->async_peak;
    }
}

static void load_lives(struct split *split) {
    struct ls_trace_db *db = split->db;
    split->peaks =
        2 * ls_db_number(db, "SELECT COUNT(*) FROM allocation WHERE kind=2") <= ASYNC_EVENTS_MOST;
    ls_db_each(db,
               "SELECT device,kind,size,start_ns,end_ns FROM allocation"
               " WHERE kind IN (1,2,3,6,7,9)",
               load_life, split);
    ls_db_each(db, "SELECT device,0,size,start_ns,end_ns FROM vmm_range WHERE kind=2", load_life,
               split);
}

bool ls_device_use_split(struct ls_trace_db *db, char *note, size_t size) {
    struct split split = {.db = db};
    put_programs(db);
    if (ls_db_number(db, "SELECT EXISTS(SELECT 1 FROM device_use)") == 0)
        return true;
    ls_db_each(db,
               "SELECT device,id,ts_ns,used,total,own_process,other_processes,source='nvml'"
               " FROM device_use ORDER BY device,ts_ns,id",
               load_row, &split);
    ls_db_each(db,
               "SELECT device,MAX(device_total) FROM memory WHERE device_total NOT NULL"
               " GROUP BY device",
               load_total, &split);
    if (!split.out_of_memory)
        make_parts(&split);
    if (!split.out_of_memory)
        load_lives(&split);
    if (!split.out_of_memory)
        finish(&split, note, size);
    release(&split);
    return !split.out_of_memory;
}
