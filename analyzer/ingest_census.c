/*
 * ingest_census.c - records of a census into its rows. See ingest.h.
 * One thread; not async-signal-safe.
 *
 * A census may be spread over drains and over collectors: what numbers its tensors is taken up from
 * the table at its first record after either.
 */
#include <stdio.h>
#include <string.h>

#include "ingest_internal.h"

/* Times of one call can differ by this from drain to drain, where the clock's lines were redrawn.
 */
#define SAME_CALL_NS 1000000

/* How many may wait for their oom at once, and for how many commits, half a second and more: each
 * looks through all ooms at every commit. What is not found by then gets its oom at the end. */
#define WAITING_MOST 256
#define LOOKS_MOST 100

/* A census, and when the call began that told of its oom. */
struct ls_census_oom {
    uint32_t census;
    uint32_t looks; /* for the row of the oom, in vain */
    int64_t ns;
};

static void wait_for_oom(struct ls_ingest *ingest, uint32_t census, int64_t ns) {
    struct ls_censuses *all = &ingest->census;
    for (size_t i = 0; i < all->waiting_count; i++)
        if (all->waiting[i].census == census)
            return;
    if (all->waiting_count >= WAITING_MOST)
        return;
    void *more = ls_ingest_room(all->waiting, all->waiting_count, &all->waiting_room,
                                sizeof all->waiting[0]);
    if (!more) {
        ingest->out_of_memory = true;
        return;
    }
    all->waiting = more;
    all->waiting[all->waiting_count++] = (struct ls_census_oom){census, 0, ns};
}

void ls_census_put(struct ls_ingest *ingest, const struct ls_rec_census *record) {
    int64_t ns = ls_clock_ns(&ingest->clock, record->ticks);
    bool begins = record->state == LS_CENSUS_BEGINS;
    if (ns < 0)
        ns = 0;
    if (ns > ingest->end_ns)
        ingest->end_ns = ns;
    ls_db_put(&ingest->db, LS_PUT_CENSUS, begins ? "iiniinnns" : "iiiiiuuus",
              (int64_t)record->census, ns, ns, (int64_t)record->reason, (int64_t)record->state,
              record->objects, record->tensors, record->nodes,
              record->text[0] ? record->text : NULL);
    if (record->reason == LS_CENSUS_OOM)
        wait_for_oom(ingest, record->census, ls_clock_ns(&ingest->clock, record->oom_ticks));
}

struct nearest {
    int64_t id, apart;
};

static void take_nearest(sqlite3_stmt *stmt, void *context) {
    struct nearest *nearest = context;
    nearest->id = sqlite3_column_int64(stmt, 0);
    nearest->apart = sqlite3_column_int64(stmt, 1);
}

/* The rows of the oom and of the census come in any order: mostly of two threads. */
void ls_census_store(struct ls_ingest *ingest) {
    struct ls_censuses *all = &ingest->census;
    size_t kept = 0;
    for (size_t i = 0; i < all->waiting_count; i++) {
        struct nearest nearest = {0};
        char sql[128];
        snprintf(sql, sizeof sql,
                 "SELECT id, ABS(ts_ns - %lld) FROM oom ORDER BY 2, id DESC LIMIT 1",
                 (long long)all->waiting[i].ns);
        ls_db_each(&ingest->db, sql, take_nearest, &nearest);
        if (nearest.id && nearest.apart <= SAME_CALL_NS)
            ls_db_put(&ingest->db, LS_PUT_CENSUS_OOM, "ii", nearest.id,
                      (int64_t)all->waiting[i].census);
        else if (++all->waiting[i].looks < LOOKS_MOST)
            all->waiting[kept++] = all->waiting[i];
    }
    all->waiting_count = kept;
}

void ls_census_put_storage(struct ls_ingest *ingest, const struct ls_rec_storage *record) {
    ls_db_put(&ingest->db, LS_PUT_CENSUS_STORAGE, "iiiuuu", (int64_t)record->census,
              (int64_t)record->id, (int64_t)record->head.device, record->address, record->bytes,
              record->held_by_graph);
}

/* A JSON array of numbers. */
#define NUMBERS_SIZE (LS_TENSOR_DIMS * 21 + 3)
static void print_numbers(char *out, const int64_t *number, uint32_t count) {
    char *p = out;
    *p++ = '[';
    for (uint32_t i = 0; i < count; i++)
        p += sprintf(p, "%s%lld", i ? "," : "", (long long)number[i]);
    strcpy(p, "]");
}

static int64_t held(uint32_t flags) {
    return (flags & LS_TENSOR_GLOBAL ? 1 : 0) | (flags & LS_TENSOR_LOCAL ? 2 : 0) |
           (flags & LS_TENSOR_RAISED ? 4 : 0) | (flags & LS_TENSOR_GRAPH ? 8 : 0) |
           (flags & LS_TENSOR_LOST ? 16 : 0);
}

static int64_t next_tensor(struct ls_ingest *ingest, uint32_t census) {
    struct ls_censuses *all = &ingest->census;
    if (all->last != census) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT MAX(id) FROM census_tensor WHERE census=%u", census);
        all->last = census;
        all->tensors = ls_db_number(&ingest->db, sql);
    }
    return ++all->tensors;
}

void ls_census_put_tensor(struct ls_ingest *ingest, const struct ls_rec_tensor *record) {
    char dims[NUMBERS_SIZE], strides[NUMBERS_SIZE];
    const char *dtype = (const char *)(record->shape + 2 * record->dims);
    const char *class = dtype + strlen(dtype) + 1, *path = class;
    int64_t id = next_tensor(ingest, record->census);
    print_numbers(dims, record->shape, record->dims);
    print_numbers(strides, record->shape + record->dims, record->dims);
    ls_db_put(&ingest->db, LS_PUT_CENSUS_TENSOR, "iiizuussssiiiii", (int64_t)record->census, id,
              (int64_t)record->storage, record->object, record->offset, record->bytes, dtype, class,
              dims, strides, (int64_t)(record->flags & LS_TENSOR_CONTIGUOUS ? 1 : 0),
              (int64_t)(record->flags & LS_TENSOR_REQUIRES_GRAD ? 1 : 0),
              (int64_t)(record->flags & LS_TENSOR_VIEW ? 1 : 0), held(record->flags),
              (int64_t)record->paths);
    for (uint32_t i = 0; i < record->paths_told; i++) {
        path += strlen(path) + 1;
        ls_db_put(&ingest->db, LS_PUT_CENSUS_PATH, "iis", (int64_t)record->census, id, path);
    }
}

void ls_census_finish(struct ls_ingest *ingest) {
    /* One whose call is not known, which was lost or came with a collector that was killed: it was
     * made for the last one before it. */
    ls_db_exec(&ingest->db, "UPDATE census SET oom = (SELECT id FROM oom WHERE oom.ts_ns <= "
                            "census.ts_ns ORDER BY oom.ts_ns DESC, id DESC LIMIT 1) "
                            "WHERE reason = 1 AND oom IS NULL");
}
