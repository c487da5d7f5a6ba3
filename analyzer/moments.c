/*
 * moments.c - see moments.h. One thread; not async-signal-safe.
 */
#include "moments.h"

#include <setjmp.h>
#include <stdio.h>

#include "memory/history.h"
#include "room.h"

#define DEVICES_MOST 256
#define OOMS_MOST 64 /* of a device, the first ones: later ones are mostly their consequence */
/* Lifetimes that all ooms of a device may look at together, some 1 s of work: a recording of
 * tens of millions has to be there soon after the program's end, too. */
#define VISITS_MOST 64000000

struct moments {
    struct ls_trace_db *db;
    struct ls_history history;
    int64_t id; /* of the last row */
    size_t ooms;
    struct {
        int64_t id, ts_ns;
    } oom[OOMS_MOST];
};

static void put_pieces(struct moments *m, const struct ls_state *state) {
    for (size_t i = 0; i < state->pieces; i++) {
        const struct ls_piece *piece = &state->piece[i];
        ls_db_put(m->db, LS_PUT_SEGMENT_STATE, "iuuuuuuiz", m->id, piece->address, piece->size,
                  piece->live, piece->pending, piece->free, piece->hole, (int64_t)piece->blocks,
                  piece->oldest ? piece->oldest->id : 0);
    }
}

static void put_moment(struct moments *m, enum ls_moment kind, int64_t ts_ns, int64_t oom) {
    struct ls_state state;
    bool framework = m->history.framework;
    ls_state_at(&m->history, ts_ns, &state);
    ls_db_put(m->db, LS_PUT_MOMENT, framework ? "iiiizuuuu" : "iiiizunnn", ++m->id, (int64_t)kind,
              ts_ns, (int64_t)m->history.device, oom, state.live, state.pending, state.reserved,
              state.hole);
    if (framework && oom)
        ls_db_put(m->db, LS_PUT_OOM_HOLE, "ui", state.hole, oom);
    put_pieces(m, &state);
    ls_state_free(&state);
}

static void read_oom(sqlite3_stmt *stmt, void *context) {
    struct moments *m = context;
    m->oom[m->ooms].id = sqlite3_column_int64(stmt, 0);
    m->oom[m->ooms++].ts_ns = sqlite3_column_int64(stmt, 1);
}

static void find_ooms(struct moments *m) {
    char sql[128];
    size_t most = m->history.spans ? VISITS_MOST / m->history.spans + 1 : OOMS_MOST;
    m->ooms = 0;
    snprintf(sql, sizeof sql, "SELECT id,ts_ns FROM oom WHERE device=%d ORDER BY id LIMIT %zu",
             m->history.device, most < OOMS_MOST ? most : (size_t)OOMS_MOST);
    ls_db_each(m->db, sql, read_oom, m);
}

static void build(struct moments *m) {
    int64_t live = ls_peak_live_ns(&m->history, NULL);
    int64_t reserved = m->history.framework ? ls_peak_reserved_ns(&m->history, NULL) : -1;
    if (live >= 0)
        put_moment(m, LS_MOMENT_LIVE, live, 0);
    if (reserved >= 0)
        put_moment(m, LS_MOMENT_RESERVED, reserved, 0);
    find_ooms(m);
    for (size_t i = 0; i < m->ooms; i++)
        put_moment(m, LS_MOMENT_OOM, m->oom[i].ts_ns, m->oom[i].id);
    put_moment(m, LS_MOMENT_END, m->history.end_ns, 0);
}

static void build_all(struct moments *m) {
    static int device[DEVICES_MOST];
    size_t devices = ls_history_devices(m->db->db, device, DEVICES_MOST);
    for (size_t i = 0; i < devices; i++) {
        if (!ls_history_load(&m->history, m->db->db, device[i]))
            continue;
        build(m);
        ls_history_free(&m->history);
    }
}

/* Without memory the trace goes without some of this, and says so; the recording must be ended. */
void ls_moments_build(struct ls_trace_db *db) {
    static struct moments m;
    jmp_buf rescue;
    if (ls_db_error(db))
        return;
    m = (struct moments){.db = db};
    if (setjmp(rescue) == 0) {
        ls_room_rescue(&rescue);
        build_all(&m);
        ls_room_rescue(NULL);
        return;
    }
    ls_room_rescue(NULL);
    ls_db_end_reading(db);
    ls_history_free(&m.history);
    ls_db_put(db, LS_PUT_COVERAGE, "sss", "moments", "partial",
              "the collector had no memory to work out what lay where at the peaks, at "
              "out-of-memory errors, and at the end");
}
