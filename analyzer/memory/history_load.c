/*
 * history_load.c - a device's memory out of the trace's tables, each read once. See history.h.
 *
 * One thread; not async-signal-safe.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../ending.h"
#include "../live.h"
#include "../room.h"
#include "../trace.h"
#include "history.h"
#include "history_own.h"

#define DEVICES_MOST 256      /* the recording numbers them in a byte */
#define STACKS_MOST (1 << 26) /* numbers beyond are of a damaged trace */

/* ---- queries ---- */

/* One pass over the rows of a query, whose parameter 1 is the device. */
static bool each_row(struct ls_history *h, const char *sql,
                     void (*row)(struct ls_history *h, sqlite3_stmt *stmt, void *context),
                     void *context) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(h->db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return false;
    if (sqlite3_bind_parameter_count(stmt))
        sqlite3_bind_int(stmt, 1, h->device);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        row(h, stmt, context);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE;
}

static int64_t time_of(sqlite3_stmt *stmt, int column) {
    return ls_clamped(sqlite3_column_int64(stmt, column), LS_LATEST);
}

static int64_t time_or_never(sqlite3_stmt *stmt, int column) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? LS_NEVER : time_of(stmt, column);
}

static uint64_t size_of(sqlite3_stmt *stmt, int column) {
    return (uint64_t)ls_clamped(sqlite3_column_int64(stmt, column), LS_LARGEST);
}

static uint64_t address_of(sqlite3_stmt *stmt, int column) {
    uint64_t address = (uint64_t)sqlite3_column_int64(stmt, column);
    return address < UINT64_MAX - LS_LARGEST ? address : UINT64_MAX - LS_LARGEST;
}

/* ---- sites ---- */

static struct ls_history_text *intern(struct ls_history_own *own, const char *text) {
    struct ls_history_text *found;
    HASH_FIND_STR(own->texts, text, found);
    if (found)
        return found;
    found = ls_new(1, sizeof *found);
    found->text = ls_copied(text);
    HASH_ADD_KEYPTR(hh, own->texts, found->text, strlen(found->text), found);
    return found;
}

static void add_stack(struct ls_history *h, sqlite3_stmt *stmt, void *context) {
    struct ls_history_own *own = h->own;
    int64_t id = sqlite3_column_int64(stmt, 0);
    (void)context;
    if (id <= 0 || id >= STACKS_MOST)
        return;
    if ((size_t)id >= own->stacks) {
        size_t more = own->stacks ? own->stacks : 256;
        while (more <= (size_t)id)
            more *= 2;
        own->of_stack = realloc(own->of_stack, more * sizeof(struct ls_history_text *));
        if (!own->of_stack)
            ls_no_memory();
        memset(own->of_stack + own->stacks, 0, (more - own->stacks) * sizeof *own->of_stack);
        own->stacks = more;
    }
    own->of_stack[id] = intern(own, (const char *)sqlite3_column_text(stmt, 1));
}

/* Only sites that this device's memory has get a number: tables by site stay small. */
static uint32_t site_of(struct ls_history_own *own, uint32_t stack) {
    struct ls_history_text *text = stack < own->stacks ? own->of_stack[stack] : NULL;
    if (!text)
        return 0;
    if (!text->number) {
        size_t room = own->room;
        own->text = ls_room(own->text, own->numbers, &room, sizeof(const char *));
        own->room = (uint32_t)room;
        text->number = own->numbers++;
        own->text[text->number] = text->text;
    }
    return text->number;
}

static void begin_sites(struct ls_history_own *own) {
    size_t room = 0;
    own->text = ls_room(NULL, 0, &room, sizeof(const char *));
    own->room = (uint32_t)room;
    own->text[0] = "site unknown";
    own->numbers = 1;
}

const char *ls_history_site(const struct ls_history *history, uint32_t site) {
    const struct ls_history_own *own = history->own;
    return own && site < own->numbers ? own->text[site] : "site unknown";
}

uint32_t ls_history_site_count(const struct ls_history *history) {
    return history->own ? history->own->numbers : 1;
}

/* ---- places: what lay at an address at a time ---- */

struct place {
    uint64_t address, size;
    int64_t start_ns, end_ns;
    uint64_t reach; /* the highest end of this one and all before it */
};

/* By address, then start_ns. */
struct places {
    struct place *place;
    size_t count, room;
};

static int by_place(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static void add_place(struct places *places, struct place place) {
    places->place = ls_room(places->place, places->count, &places->room, sizeof place);
    places->place[places->count++] = place;
}

static void note_reach(struct places *places) {
    uint64_t reach = 0;
    for (size_t i = 0; i < places->count; i++) {
        struct place *p = &places->place[i];
        if (p->address + p->size > reach)
            reach = p->address + p->size;
        p->reach = reach;
    }
}

/* How many come, in their order, up to what lies at `address` since `ts_ns`. */
static size_t places_up_to(const struct places *places, uint64_t address, int64_t ts_ns) {
    const struct place key = {.address = address, .start_ns = ts_ns};
    size_t low = 0, high = places->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_place(&places->place[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* An address may have been given out many thousand times: of those at one address only the last
 * ones that began by `ts_ns` can still be there. */
static int32_t find_place(const struct places *places, uint64_t address, int64_t ts_ns) {
    size_t after = places_up_to(places, address, ts_ns);
    while (after > 0 && places->place[after - 1].reach > address) {
        uint64_t at = places->place[after - 1].address;
        after = places_up_to(places, at, ts_ns);
        for (int older = 0; older < LS_LIVE_CROWD && after > 0; older++, after--) {
            const struct place *p = &places->place[after - 1];
            if (p->address != at)
                break;
            if (address - at < p->size && ts_ns < p->end_ns)
                return (int32_t)(after - 1);
        }
        if (at == 0)
            break;
        after = places_up_to(places, at - 1, LS_NEVER);
    }
    return LS_NO_SEGMENT;
}

/* ---- spans ---- */

struct span_list {
    struct ls_span *span;
    size_t count, room;
};

/* Columns of a span, in the order of SPAN_COLUMNS. */
static void read_span(struct ls_history *h, sqlite3_stmt *stmt, struct span_list *list) {
    list->span = ls_room(list->span, list->count, &list->room, sizeof *list->span);
    struct ls_span *s = &list->span[list->count++];
    s->id = sqlite3_column_int64(stmt, 0);
    s->start_ns = time_of(stmt, 1);
    s->end_ns = time_or_never(stmt, 2);
    s->free_ns = time_or_never(stmt, 3);
    if (s->free_ns < s->end_ns || s->end_ns == LS_NEVER)
        s->free_ns = s->end_ns;
    s->start_call = sqlite3_column_int64(stmt, 4);
    s->end_call = sqlite3_column_int64(stmt, 5);
    s->address = address_of(stmt, 6);
    s->size = size_of(stmt, 7);
    s->stack = (uint32_t)sqlite3_column_int64(stmt, 8);
    s->free_stack = (uint32_t)sqlite3_column_int64(stmt, 9);
    s->thread = (uint32_t)sqlite3_column_int64(stmt, 10);
    s->site = site_of(h->own, s->stack);
    s->free_site = site_of(h->own, s->free_stack);
    s->segment = LS_NO_SEGMENT;
}

static void add_span(struct ls_history *h, sqlite3_stmt *stmt, void *list) {
    read_span(h, stmt, list);
}

static int by_start(const void *a, const void *b) {
    const struct ls_span *x = a, *y = b;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Rows come by id, the order of completion: nearly in order, and mostly quite. */
static void sort_spans(struct span_list *list) {
    for (size_t i = 1; i < list->count; i++)
        if (by_start(&list->span[i - 1], &list->span[i]) > 0) {
            qsort(list->span, list->count, sizeof *list->span, by_start);
            return;
        }
}

/* ---- segments and other allocations ---- */

struct loading {
    struct span_list span, direct;
    struct places ranges; /* of reserved addresses */
};

static void add_range(struct ls_history *h, sqlite3_stmt *stmt, void *context) {
    struct loading *l = context;
    (void)h;
    add_place(&l->ranges, (struct place){address_of(stmt, 0), size_of(stmt, 1), time_of(stmt, 2),
                                         time_or_never(stmt, 3), 0});
}

struct segment_list {
    struct ls_segment *segment;
    size_t count, room;
    const struct places *ranges;
};

static void add_segment(struct ls_history *h, sqlite3_stmt *stmt, void *context) {
    struct segment_list *list = context;
    list->segment = ls_room(list->segment, list->count, &list->room, sizeof *list->segment);
    struct ls_segment *s = &list->segment[list->count++];
    s->id = sqlite3_column_int64(stmt, 0);
    s->start_ns = time_of(stmt, 1);
    s->end_ns = time_or_never(stmt, 2);
    s->start_call = sqlite3_column_int64(stmt, 3);
    s->end_call = sqlite3_column_int64(stmt, 4);
    s->address = s->reservation = address_of(stmt, 5);
    s->size = size_of(stmt, 6);
    s->stack = (uint32_t)sqlite3_column_int64(stmt, 7);
    s->site = site_of(h->own, s->stack);
    s->expandable = sqlite3_column_int(stmt, 8) == LS_MEMORY_VMM;
    if (s->expandable) {
        int32_t range = find_place(list->ranges, s->address, s->start_ns);
        if (range != LS_NO_SEGMENT)
            s->reservation = list->ranges->place[range].address;
    }
}

static int by_segment(const void *a, const void *b) {
    const struct ls_segment *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool load_segments(struct ls_history *h, const struct places *ranges) {
    struct segment_list list = {.ranges = ranges};
    bool read = each_row(h,
                         "SELECT id, start_ns, end_ns, start_call, end_call, address, size, stack,"
                         " kind FROM allocation WHERE holder = 3 AND device = ?",
                         add_segment, &list);
    if (list.count)
        qsort(list.segment, list.count, sizeof *list.segment, by_segment);
    h->segment = list.segment;
    h->segments = list.count;
    return read;
}

/* Which segment each block lies in. */
static void place_spans(struct ls_history *h) {
    struct places places = {0};
    for (size_t i = 0; i < h->segments; i++) {
        const struct ls_segment *s = &h->segment[i];
        add_place(&places, (struct place){s->address, s->size, s->start_ns, s->end_ns, 0});
    }
    note_reach(&places);
    for (size_t i = 0; i < h->spans; i++)
        h->span[i].segment = find_place(&places, h->span[i].address, h->span[i].start_ns);
    free(places.place);
}

/* ---- the whole ---- */

#define BLOCK_COLUMNS                                                                              \
    "id, start_ns, end_ns, free_ns, id, end_call, address, size, stack, free_stack, thread"
/* Its thread is that of the call that made it. */
#define ALLOCATION_COLUMNS                                                                         \
    "id, start_ns, end_ns, end_ns, start_call, end_call, address, size, stack, free_stack,"        \
    " (SELECT thread FROM call WHERE call.id = allocation.start_call)"

static bool load_framework(struct ls_history *h, struct loading *l) {
    bool read = each_row(h, "SELECT address, size, start_ns, end_ns FROM vmm_range WHERE kind = 1",
                         add_range, l);
    if (l->ranges.count)
        qsort(l->ranges.place, l->ranges.count, sizeof *l->ranges.place, by_place);
    note_reach(&l->ranges);
    read = read && load_segments(h, &l->ranges) &&
           each_row(h,
                    "SELECT " ALLOCATION_COLUMNS " FROM allocation WHERE " LS_ON_DEVICE_SQL
                    " AND device = ? AND holder IS NOT 3",
                    add_span, &l->direct);
    free(l->ranges.place);
    return read;
}

static void add_step(struct ls_history *h, sqlite3_stmt *stmt, void *context) {
    size_t *room = context;
    h->step = ls_room(h->step, h->steps, room, sizeof *h->step);
    h->step[h->steps++] = (struct ls_history_step){
        sqlite3_column_int64(stmt, 0),
        time_of(stmt, 1),
        time_of(stmt, 2),
        sqlite3_column_int(stmt, 3),
        sqlite3_column_type(stmt, 4) == SQLITE_NULL ? -1 : sqlite3_column_int64(stmt, 4),
    };
}

static void take_capacity(struct ls_history *h, sqlite3_stmt *stmt, void *context) {
    (void)context;
    if ((int64_t)size_of(stmt, 0) > h->capacity)
        h->capacity = (int64_t)size_of(stmt, 0);
}

bool ls_history_load(struct ls_history *history, sqlite3 *db, int device) {
    struct ls_history *h = history;
    struct loading l = {0};
    size_t steps_room = 0;
    *h = (struct ls_history){.db = db, .device = device};
    h->own = ls_new(1, sizeof *h->own);
    begin_sites(h->own);
    h->end_ns = ls_clamped(ls_recorded_ns(db), LS_LATEST);
    bool read =
        each_row(h, "SELECT id, site FROM stack_site WHERE site IS NOT NULL", add_stack, NULL) &&
        each_row(h, "SELECT " BLOCK_COLUMNS " FROM block WHERE device = ?", add_span, &l.span);
    h->framework = l.span.count > 0;
    if (read && h->framework)
        read = load_framework(h, &l);
    else if (read)
        read = each_row(h,
                        "SELECT " ALLOCATION_COLUMNS " FROM allocation WHERE " LS_ON_DEVICE_SQL
                        " AND device = ?",
                        add_span, &l.span);
    sort_spans(&l.span);
    sort_spans(&l.direct);
    h->span = l.span.span;
    h->spans = l.span.count;
    h->direct = l.direct.span;
    h->directs = l.direct.count;
    if (h->segments)
        place_spans(h);
    read =
        read &&
        each_row(h, "SELECT id, start_ns, end_ns, loop, launches FROM step ORDER BY start_ns, id",
                 add_step, &steps_room) &&
        each_row(h, "SELECT MAX(device_total) FROM oom WHERE device = ?1", take_capacity, NULL);
    if (read && h->capacity == 0) /* this one has a row per block that came or went */
        read = each_row(h, "SELECT MAX(device_total) FROM memory WHERE device = ?1", take_capacity,
                        NULL);
    if (!read)
        ls_history_free(h);
    return read;
}

void ls_history_free(struct ls_history *history) {
    struct ls_history_own *own = history->own;
    struct ls_history_text *text, *next;
    if (own) {
        HASH_ITER(hh, own->texts, text, next) {
            HASH_DEL(own->texts, text);
            free(text->text);
            free(text);
        }
        free(own->of_stack);
        free(own->text);
        free(own);
    }
    free(history->span);
    free(history->segment);
    free(history->direct);
    free(history->step);
    *history = (struct ls_history){0};
}

static void note_device(sqlite3 *db, bool *found, const char *sql) {
    sqlite3_stmt *stmt = NULL;
    sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    while (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
        int device = sqlite3_column_int(stmt, 0);
        if (sqlite3_column_type(stmt, 0) != SQLITE_NULL && device >= 0 && device < DEVICES_MOST)
            found[device] = true;
    }
    sqlite3_finalize(stmt);
}

/* Mostly there is one: that no other is there is told in a quarter of the time of DISTINCT. */
#define NOTE_DEVICES(db, found, from)                                                              \
    do {                                                                                           \
        note_device(db, found, "SELECT device FROM " from " LIMIT 1");                             \
        note_device(db, found,                                                                     \
                    "SELECT DISTINCT device FROM " from " AND device <> (SELECT device FROM " from \
                    " LIMIT 1)");                                                                  \
    } while (0)

size_t ls_history_devices(sqlite3 *db, int *device, size_t room) {
    bool found[DEVICES_MOST] = {false};
    size_t count = 0;
    NOTE_DEVICES(db, found, "block WHERE device NOT NULL");
    NOTE_DEVICES(db, found, "allocation WHERE device NOT NULL AND " LS_ON_DEVICE_SQL);
    for (int i = 0; i < DEVICES_MOST && count < room; i++)
        if (found[i])
            device[count++] = i;
    return count;
}
