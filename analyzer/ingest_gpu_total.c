/*
 * ingest_gpu_total.c - what is counted over all records of the GPU, whether they have a row or not;
 * and what the end of a recording says of them. See ingest_gpu.h. One thread; not
 * async-signal-safe.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clamp.h"
#include "human.h"
#include "ingest_internal.h"

/* ---- counting ---- */

static struct ls_gpu_total *total_of(struct ls_ingest *ingest, const struct ls_gpu_total_key *key) {
    struct ls_gpu_total *total;
    HASH_FIND(hh, ingest->gpu.totals, key, sizeof *key, total);
    if (total)
        return total;
    total = calloc(1, sizeof *total);
    if (!total) {
        ingest->out_of_memory = true;
        return NULL;
    }
    total->key = *key;
    HASH_ADD(hh, ingest->gpu.totals, key, sizeof total->key, total);
    if (!total->hh.tbl) {
        free(total);
        ingest->out_of_memory = true;
        return NULL;
    }
    return total;
}

static void set_dirty(struct ls_ingest *ingest, struct ls_gpu_total *total) {
    struct ls_gpu *gpu = &ingest->gpu;
    if (total->dirty)
        return;
    struct ls_gpu_total **dirty =
        ls_ingest_room(gpu->dirty, gpu->dirty_count, &gpu->dirty_room, sizeof *dirty);
    if (!dirty) {
        ingest->out_of_memory = true;
        return;
    }
    gpu->dirty = dirty;
    dirty[gpu->dirty_count++] = total;
    total->dirty = true;
}

/* Sums of a damaged recording stay sums. */
static int64_t sum(int64_t a, int64_t b) {
    return a > LS_LATEST - b ? LS_LATEST : a + b;
}

static void count_kernel(struct ls_ingest *ingest, const struct ls_gpu_work *work,
                         uint16_t under_api) {
    struct ls_gpu_total_key key = {(uint32_t)work->value[0], work->stream, work->device, under_api};
    struct ls_gpu_total *total = total_of(ingest, &key);
    if (!total)
        return;
    set_dirty(ingest, total);
    if (!work->timed) {
        total->untimed++;
        return;
    }
    int64_t ns = work->end_ns - work->start_ns;
    total->min_ns = total->count == 0 || ns < total->min_ns ? ns : total->min_ns;
    total->max_ns = total->count == 0 || ns > total->max_ns ? ns : total->max_ns;
    total->count++;
    total->total_ns = sum(total->total_ns, ns);
}

void ls_gpu_count(struct ls_ingest *ingest, const struct ls_gpu_work *work, enum ls_gpu_join join,
                  uint16_t under_api) {
    struct ls_gpu *gpu = &ingest->gpu;
    gpu->counted = true;
    gpu->count[work->kind][join]++;
    if (work->timed)
        gpu->total_ns[work->kind][join] =
            sum(gpu->total_ns[work->kind][join], work->end_ns - work->start_ns);
    if (work->kind == LS_GPU_KERNEL)
        count_kernel(ingest, work, under_api);
}

/* ---- rows ---- */

void ls_gpu_total_store(struct ls_ingest *ingest) {
    struct ls_gpu *gpu = &ingest->gpu;
    for (size_t i = 0; i < gpu->dirty_count; i++) {
        struct ls_gpu_total *total = gpu->dirty[i];
        total->dirty = false;
        ls_db_put(&ingest->db, LS_PUT_KERNEL_TOTAL, total->count ? "iiiiiiiii" : "iiiiiiinn",
                  (int64_t)total->key.kernel, (int64_t)total->key.device,
                  (int64_t)total->key.stream, (int64_t)total->key.under_api, total->count,
                  total->untimed, total->total_ns, total->min_ns, total->max_ns);
    }
    gpu->dirty_count = 0;
    if (!gpu->counted)
        return;
    gpu->counted = false;
    for (int kind = 1; kind < LS_GPU_KINDS; kind++)
        for (int join = 0; join < LS_GPU_JOINS; join++)
            if (gpu->count[kind][join])
                ls_db_put(&ingest->db, LS_PUT_GPU_COUNT, "ssii", ls_gpu_kind_name[kind],
                          ls_gpu_join_name[join], gpu->count[kind][join],
                          gpu->total_ns[kind][join]);
}

static void load_total(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_gpu_total_key key = {
        (uint32_t)sqlite3_column_int64(stmt, 0), (uint32_t)sqlite3_column_int64(stmt, 2),
        (uint16_t)sqlite3_column_int(stmt, 1), (uint16_t)sqlite3_column_int(stmt, 3)};
    struct ls_gpu_total *total = total_of(ingest, &key);
    if (!total)
        return;
    total->count = sqlite3_column_int64(stmt, 4);
    total->untimed = sqlite3_column_int64(stmt, 5);
    total->total_ns = sqlite3_column_int64(stmt, 6);
    total->min_ns = sqlite3_column_int64(stmt, 7);
    total->max_ns = sqlite3_column_int64(stmt, 8);
}

static int named(const char *const *names, int count, const unsigned char *name) {
    for (int i = 0; i < count && name; i++)
        if (names[i] && strcmp(names[i], (const char *)name) == 0)
            return i;
    return -1;
}

static void load_count(sqlite3_stmt *stmt, void *context) {
    struct ls_gpu *gpu = &((struct ls_ingest *)context)->gpu;
    int kind = named(ls_gpu_kind_name, LS_GPU_KINDS, sqlite3_column_text(stmt, 0));
    int join = named(ls_gpu_join_name, LS_GPU_JOINS, sqlite3_column_text(stmt, 1));
    if (kind < 0 || join < 0)
        return;
    gpu->count[kind][join] = sqlite3_column_int64(stmt, 2);
    gpu->total_ns[kind][join] = sqlite3_column_int64(stmt, 3);
}

static int64_t counted(const struct ls_gpu *gpu, int kind, unsigned joins) {
    int64_t count = 0;
    for (int join = 0; join < LS_GPU_JOINS; join++)
        if (joins & 1u << join)
            count += gpu->count[kind][join];
    return count;
}

void ls_gpu_total_load(struct ls_ingest *ingest) {
    ls_db_each(&ingest->db, "SELECT * FROM kernel_total", load_total, ingest);
    ls_db_each(&ingest->db, "SELECT * FROM gpu_count", load_count, ingest);
    ingest->gpu.rows = counted(&ingest->gpu, LS_GPU_KERNEL, ~0u);
}

/* ---- the end ---- */

static void say(struct ls_ingest *ingest, const char *layer, const char *state,
                const char *detail) {
    ls_db_put(&ingest->db, LS_PUT_COVERAGE, "sss", layer, state, detail);
}

static void say_rows(struct ls_ingest *ingest) {
    const struct ls_gpu *gpu = &ingest->gpu;
    struct ls_human have, all;
    char text[200];
    if (gpu->rows <= gpu->rows_most)
        return;
    snprintf(
        text, sizeof text,
        "%s of %s runs have rows of their own (LAYOUTSPY_KERNEL_ROWS); all are in kernel_total",
        ls_human_count(&have, gpu->rows_most), ls_human_count(&all, gpu->rows));
    say(ingest, "kernels", "partial", text);
}

/* The rows of cupti_gap: one after the other, by time. */
struct gaps {
    struct ls_ingest *ingest;
    struct {
        int64_t start_ns, end_ns;
    } * at;
    size_t count, room;
    int64_t launched, copied; /* calls that began in one */
};

static void load_gap(sqlite3_stmt *stmt, void *context) {
    struct gaps *gaps = context;
    void *more = ls_ingest_room(gaps->at, gaps->count, &gaps->room, sizeof *gaps->at);
    if (!more) {
        gaps->ingest->out_of_memory = true;
        return;
    }
    gaps->at = more;
    gaps->at[gaps->count].start_ns = sqlite3_column_int64(stmt, 0);
    gaps->at[gaps->count++].end_ns =
        sqlite3_column_type(stmt, 1) == SQLITE_NULL ? INT64_MAX : sqlite3_column_int64(stmt, 1);
}

static void count_call(sqlite3_stmt *stmt, void *context) {
    struct gaps *gaps = context;
    int64_t start_ns = sqlite3_column_int64(stmt, 0);
    size_t low = 0, high = gaps->count; /* the last one that began by then is before `low` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gaps->at[middle].start_ns <= start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && start_ns < gaps->at[low - 1].end_ns)
        ++*(sqlite3_column_int(stmt, 1) ? &gaps->copied : &gaps->launched);
}

/* Where CUPTI was never on, its own line in `coverage` says why. */
static void say_gaps(struct ls_ingest *ingest) {
    struct gaps gaps = {.ingest = ingest};
    struct ls_human launches, copies;
    char text[300];
    ls_db_each(&ingest->db, "SELECT start_ns,end_ns FROM cupti_gap ORDER BY start_ns", load_gap,
               &gaps);
    if (gaps.count > 0)
        ls_db_each(&ingest->db,
                   "SELECT start_ns,api IN (SELECT id FROM api WHERE class='copy') FROM call "
                   "WHERE status=0 AND NOT flags&3 AND api IN (SELECT id FROM api WHERE class IN "
                   "('launch','graph','copy'))",
                   count_call, &gaps);
    free(gaps.at);
    if (gaps.launched == 0 && gaps.copied == 0)
        return;
    snprintf(text, sizeof text,
             "%s %s and %s %s have no GPU times: nothing came from CUPTI for when they began "
             "(cupti_gap)",
             ls_human_count(&launches, gaps.launched),
             ls_plural(gaps.launched, "launch", "launches"), ls_human_count(&copies, gaps.copied),
             ls_plural(gaps.copied, "copy", "copies"));
    say(ingest, "gpu-times", "partial", text);
}

static void say_joins(struct ls_ingest *ingest, enum ls_gpu_join join, const char *what) {
    const struct ls_gpu *gpu = &ingest->gpu;
    char text[300], *p = text;
    struct ls_human human;
    for (int kind = 1; kind < LS_GPU_KINDS; kind++)
        if (gpu->count[kind][join])
            p += snprintf(p, sizeof text - (size_t)(p - text), "%s%s %s", p == text ? "" : ", ",
                          ls_human_count(&human, gpu->count[kind][join]), ls_gpu_kind_name[kind]);
    if (p == text)
        return;
    snprintf(p, sizeof text - (size_t)(p - text), ": %s", what);
    say(ingest, "gpu-times", "partial", text);
}

static void say_good(struct ls_ingest *ingest) {
    const struct ls_gpu *gpu = &ingest->gpu;
    struct ls_human human, error;
    char text[200];
    int64_t timed = 0;
    for (int kind = LS_GPU_KERNEL; kind <= LS_GPU_SET; kind++)
        timed += counted(gpu, kind, ~(1u << LS_GPU_INVALID));
    if (timed == 0)
        return;
    snprintf(text, sizeof text, "of %s kernels, copies and memsets, within %s of the host's clock",
             ls_human_count(&human, timed), ls_human_ns(&error, gpu->clock.error_ns));
    say(ingest, "gpu-times", "on", text);
}

void ls_gpu_total_end(struct ls_ingest *ingest) {
    say_good(ingest);
    say_rows(ingest);
    say_gaps(ingest);
    say_joins(ingest, LS_GPU_UNMATCHED, "their calls are not in the trace");
    say_joins(ingest, LS_GPU_INVALID,
              "CUPTI gave no valid times for them: they are left out of every sum");
}

void ls_gpu_total_close(struct ls_gpu *gpu) {
    struct ls_gpu_total *total, *next;
    HASH_ITER(hh, gpu->totals, total, next) {
        HASH_DEL(gpu->totals, total);
        free(total);
    }
    free(gpu->dirty);
}
