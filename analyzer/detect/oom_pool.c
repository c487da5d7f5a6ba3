/*
 * oom_pool.c - the pools of PyTorch's allocator, told from what the program did. See oom_pool.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "oom_pool.h"

#include "../query.h"
#include "thresholds.h"

#define STREAM_UNKNOWN (-1)
#define LOOK_AT 16 /* blocks of a kind; their streams agree, or nothing can be said */
#define FLAG_CAPTURING 2

const struct ls_piece *ls_oom_fitting_piece(const struct ls_oom *oom) {
    for (size_t i = 0; oom->has_state && i < oom->state.pieces; i++)
        if (ls_oom_same_pool(oom, &oom->state.piece[i]) &&
            (int64_t)oom->state.piece[i].hole >= oom->requested)
            return &oom->state.piece[i];
    return NULL;
}

static bool in_piece(const struct ls_span *span, const struct ls_piece *piece) {
    return span->address - piece->address < piece->size &&
           span->start_ns >= piece->segment->start_ns;
}

bool ls_piece_of_graph(const struct ls_oom *oom, const struct ls_piece *piece) {
    const struct ls_history *h = oom->history;
    for (size_t i = 0, seen = 0; i < h->spans && seen < LOOK_AT; i++) {
        if (!in_piece(&h->span[i], piece))
            continue;
        char *sql = sqlite3_mprintf("SELECT flags FROM call WHERE id = %lld",
                                    (long long)h->span[i].start_call);
        bool capturing = sql && ls_query_int(h->db, 0, sql) & FLAG_CAPTURING;
        sqlite3_free(sql);
        if (capturing)
            return true;
        seen++;
    }
    return false;
}

/* The column of a call's stream by its api's fields. */
#define STREAM_SQL                                                                                 \
    "CASE (SELECT key FROM json_each(api.fields) WHERE value LIKE '%%\"name\":\"stream\"%%') "     \
    "WHEN 0 THEN f0 WHEN 1 THEN f1 WHEN 2 THEN f2 WHEN 3 THEN f3 WHEN 4 THEN f4 WHEN 5 THEN f5 "   \
    "WHEN 6 THEN f6 WHEN 7 THEN f7 WHEN 8 THEN f8 END"

/* The stream of the first work that a block's thread gave the device after it was made. */
static int64_t stream_after(const struct ls_history *h, const struct ls_span *span) {
    char *sql = sqlite3_mprintf(
        "SELECT " STREAM_SQL " FROM call JOIN api ON api.id = call.api WHERE call.id > %lld AND"
        " call.id < %lld AND thread = %u AND api.class IN ('launch', 'copy', 'memset')"
        " ORDER BY call.id LIMIT 1",
        (long long)span->start_call, (long long)span->start_call + LS_STREAM_CALLS, span->thread);
    int64_t stream = sql ? ls_query_int(h->db, STREAM_UNKNOWN, sql) : STREAM_UNKNOWN;
    sqlite3_free(sql);
    return stream;
}

/* Whether a block waited for this stream: then it is not its own. */
static bool waited_for(const struct ls_history *h, const struct ls_span *span, int64_t stream) {
    char *sql =
        sqlite3_mprintf("SELECT COUNT(*) FROM block_wait WHERE block = %lld AND stream = %lld",
                        (long long)span->id, (long long)stream);
    bool waited = sql && ls_query_int(h->db, 0, sql) > 0;
    sqlite3_free(sql);
    return waited;
}

/* One stream that fits all of the blocks in a piece, or STREAM_UNKNOWN. */
static int64_t stream_of_piece(const struct ls_oom *oom, const struct ls_piece *piece) {
    const struct ls_history *h = oom->history;
    int64_t common = STREAM_UNKNOWN;
    for (size_t i = 0, seen = 0; i < h->spans && seen < LOOK_AT; i++) {
        const struct ls_span *s = &h->span[i];
        if (s->start_ns > oom->ts_ns || !in_piece(s, piece))
            continue;
        int64_t stream = stream_after(h, s);
        if (stream == STREAM_UNKNOWN || waited_for(h, s, stream))
            continue;
        if (common != STREAM_UNKNOWN && stream != common)
            return STREAM_UNKNOWN;
        common = stream;
        seen++;
    }
    return common;
}

/* The same of blocks that the failed request's stack made before. */
static int64_t stream_of_request(const struct ls_oom *oom) {
    const struct ls_history *h = oom->history;
    int64_t common = STREAM_UNKNOWN;
    for (size_t i = 0, seen = 0; i < h->spans && seen < LOOK_AT; i++) {
        const struct ls_span *s = &h->span[i];
        if (s->start_ns > oom->ts_ns || s->stack != oom->stack || s->stack == 0)
            continue;
        int64_t stream = stream_after(h, s);
        if (stream == STREAM_UNKNOWN)
            continue;
        if (common != STREAM_UNKNOWN && stream != common)
            return STREAM_UNKNOWN;
        common = stream;
        seen++;
    }
    return common;
}

/* What blocks in the piece waited for since the call began: those streams are not its own. */
static bool waited_for_stream(const struct ls_oom *oom, const struct ls_piece *piece,
                              int64_t stream) {
    const struct ls_history *h = oom->history;
    for (size_t i = 0; i < h->spans; i++) {
        const struct ls_span *s = &h->span[i];
        if (s->end_ns <= oom->ts_ns && s->free_ns > oom->begin_ns && s->free_ns <= oom->ts_ns &&
            s->free_ns > s->end_ns && in_piece(s, piece) && waited_for(h, s, stream))
            return true;
    }
    return false;
}

bool ls_oom_fitting_usable(const struct ls_oom *oom) {
    const struct ls_piece *piece = ls_oom_fitting_piece(oom);
    if (!piece || ls_piece_of_graph(oom, piece))
        return false;
    int64_t asked = stream_of_request(oom);
    if (asked == STREAM_UNKNOWN) /* mostly the default stream: many programs know no other */
        return !waited_for_stream(oom, piece, 0);
    if (waited_for_stream(oom, piece, asked))
        return false;
    int64_t own = stream_of_piece(oom, piece);
    return own == STREAM_UNKNOWN || own == asked;
}
