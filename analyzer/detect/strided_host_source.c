/*
 * strided_host_source.c - `strided-host-source`: copies between host and device whose host side is
 * not one piece of memory, so that page-locking it does not make them fast.
 *
 * Two ways to see it. Copies in rows (cudaMemcpy2D and 3D, cublasSetMatrix, ...) say by pitch and
 * width that the host's rows have gaps: told where the rows are so short that each is a transfer of
 * its own. And PyTorch gathers a strided tensor of the host in new, pageable memory before it
 * copies that: then its copy_() calls itself, and no kernel puts the bytes into their places on the
 * device afterwards (that would be a strided destination, and what the source was is not known).
 * The stack does not tell gaps from another dtype or an expanded source, which PyTorch treats
 * alike: the advice has all three.
 *
 * Needs: the copies; for PyTorch's also native stacks with the names of its functions. Main thread
 * only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "by_site.h"
#include "detect.h"
#include "host_told.h"
#include "layout_cost.h"
#include "stack_walk.h"
#include "thresholds.h"

#define NEAR "1024" /* calls of all threads until the kernel that follows a copy */

struct copy {
    int64_t id, start_ns, blocked_ns, bytes, stack, thread, gpu_ns;
    int64_t width, pitch; /* of the host's side; 0: no rows */
    int direction, api;
    bool pinned, is_async, timed;
};

/* Copies of one line, direction and kind. */
struct group {
    struct copy first;
    const char *site; /* of looking.sites */
    int64_t count, bytes, rows, ns, gain_ns, last_ns;
    int64_t *told;
    size_t told_room;
    bool timed, pinned, pageable;
};

struct stack {
    int64_t id;
    UT_hash_handle hh;
    bool gathers;
};

struct looking {
    struct ls_detect *d;
    struct ls_sites sites;
    struct ls_numbers groups; /* by line, direction and kind */
    struct group *group;      /* by number */
    size_t group_room;
    struct stack *stacks; /* those that were looked at */
    sqlite3_stmt *functions, *next;
};

/* ---- PyTorch's own copy to the host ---- */

/* PyTorch's copy_() that its copy between devices calls for what it cannot copy as it is. */
static bool is_nested(struct looking *look, int64_t stack) {
    bool inner = false, found = false;
    sqlite3_bind_int64(look->functions, 1, stack);
    while (!found && sqlite3_step(look->functions) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(look->functions, 0);
        found = inner && name && strstr(name, "copy_kernel_cuda");
        inner = name && strstr(name, "at::_ops::copy_::call");
    }
    sqlite3_reset(look->functions);
    return found;
}

static bool gathers(struct looking *look, int64_t stack) {
    struct stack *s;
    HASH_FIND(hh, look->stacks, &stack, sizeof stack, s);
    if (!s) {
        s = ls_new(1, sizeof *s);
        s->id = stack;
        s->gathers = is_nested(look, stack);
        HASH_ADD(hh, look->stacks, id, sizeof s->id, s);
    }
    return s->gathers;
}

/* The thread's next launch or copy puts the bytes into their places, by the same copy_(). Launches
 * of kernels that copy have stacks; one that has none is another kernel. */
static bool is_put_in_place(struct looking *look, const struct copy *c) {
    bool found = false;
    sqlite3_bind_int64(look->next, 1, c->id);
    sqlite3_bind_int64(look->next, 2, c->thread);
    if (sqlite3_step(look->next) == SQLITE_ROW) {
        int64_t stack = sqlite3_column_int64(look->next, 0);
        found = sqlite3_column_int(look->next, 1) && stack && gathers(look, stack);
    }
    sqlite3_reset(look->next);
    return found;
}

/* ---- what is told ---- */

static bool has_gaps(const struct copy *c) {
    return c->width && c->pitch > c->width && c->width < LS_ROW_BYTES &&
           c->bytes / c->width >= LS_ROWS;
}

static bool was_gathered(struct looking *look, const struct copy *c) {
    return look->d->pytorch && !c->width && !c->pinned && c->stack &&
           c->direction == LS_DIRECTION_H2D && c->bytes > LS_TINY_BYTES &&
           gathers(look, c->stack) && !is_put_in_place(look, c);
}

static struct group *group_of(struct looking *look, const struct copy *c) {
    const struct {
        size_t site, direction, rows;
    } key = {ls_site_number(&look->sites, c->stack), (size_t)c->direction, c->width != 0};
    size_t known = look->groups.count, number = ls_number_of(&look->groups, &key, sizeof key);
    if (number == known) {
        look->group = ls_room(look->group, known, &look->group_room, sizeof *look->group);
        look->group[number] =
            (struct group){.first = *c, .site = look->sites.text[key.site], .timed = true};
    }
    return &look->group[number];
}

/* What it took: the device's time, else the host's where it waited, else what so many bytes take at
 * least. And what is left if the host's side is one page-locked piece. */
static void add(struct looking *look, const struct copy *c) {
    struct group *g = group_of(look, c);
    bool waits = !c->is_async || !c->pinned;
    double least = (double)c->bytes / LS_PINNED_BYTES_PER_NS;
    double ns = waits ? (double)c->blocked_ns : least;
    double after = c->is_async ? LS_ASYNC_LAUNCH_NS : LS_SYNC_CALL_NS + least;
    if (!waits && c->timed) {
        ns = (double)c->gpu_ns;
        after = least;
    }
    g->told = ls_room(g->told, (size_t)g->count, &g->told_room, sizeof *g->told);
    g->told[g->count++] = c->id;
    g->bytes += c->bytes;
    g->rows += c->width ? c->bytes / c->width : 0;
    g->ns += (int64_t)ns;
    g->gain_ns += ns > after ? (int64_t)(ns - after) : 0;
    g->last_ns = c->start_ns;
    g->timed &= waits || c->timed;
    g->pinned |= c->pinned;
    g->pageable |= !c->pinned;
}

static int read_copies(struct looking *look) {
    sqlite3_stmt *row = NULL;
    int rc = sqlite3_prepare_v2(
        look->d->db,
        "SELECT c.id, start_ns, blocked_ns, bytes, COALESCE(stack, 0), thread, gpu_ns, direction,"
        " CASE direction WHEN 1 THEN src_kind ELSE dst_kind END AS host, is_async, api,"
        " COALESCE(r.width, 0), CASE direction WHEN 1 THEN src_pitch ELSE dst_pitch END"
        " FROM copy AS c LEFT JOIN copy_rows AS r ON r.id = c.id WHERE status = 0 AND bytes > 0"
        " AND direction IN (1, 2) AND host IN (1, 2) AND (r.id NOT NULL OR host = 1 AND direction"
        " = 1) AND c.id NOT IN (SELECT id FROM temp.host_told)"
        " AND (SELECT flags & 2 FROM call WHERE call.id = c.id) IS NOT 2 ORDER BY c.id",
        -1, &row, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(row)) != SQLITE_ROW)
            break;
        struct copy c = {.id = sqlite3_column_int64(row, 0),
                         .start_ns = sqlite3_column_int64(row, 1),
                         .blocked_ns = sqlite3_column_int64(row, 2),
                         .bytes = sqlite3_column_int64(row, 3),
                         .stack = sqlite3_column_int64(row, 4),
                         .thread = sqlite3_column_int64(row, 5),
                         .timed = sqlite3_column_type(row, 6) != SQLITE_NULL,
                         .gpu_ns = sqlite3_column_int64(row, 6),
                         .direction = sqlite3_column_int(row, 7),
                         .pinned = sqlite3_column_int(row, 8) == LS_SIDE_PINNED,
                         .is_async = sqlite3_column_int(row, 9) != 0,
                         .api = sqlite3_column_int(row, 10),
                         .width = sqlite3_column_int64(row, 11),
                         .pitch = sqlite3_column_int64(row, 12)};
        if (has_gaps(&c) || was_gathered(look, &c))
            add(look, &c);
    }
    sqlite3_finalize(row);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- findings ---- */

static char *title_of(const struct group *g) {
    struct ls_human count, bytes, ns, rows;
    const char *way = g->first.direction == LS_DIRECTION_H2D ? "host to device" : "device to host";
    ls_human_count(&count, g->count);
    ls_human_bytes(&bytes, g->bytes);
    ls_human_ns(&ns, g->ns);
    ls_human_count(&rows, g->rows);
    if (g->first.width)
        return ls_format("%s %s, %s, in %s rows of %lld bytes that lie %lld apart on the host: %s, "
                         "%s",
                         count.text, ls_plural(g->count, "copy", "copies"), way, rows.text,
                         (long long)g->first.width, (long long)g->first.pitch, bytes.text, ns.text);
    return ls_format("%s %s of a host tensor that PyTorch had to gather or convert on the host "
                     "first: %s, pageable memory, %s",
                     count.text, ls_plural(g->count, "copy", "copies"), bytes.text, ns.text);
}

static const char *why_of(const struct group *g) {
    if (g->first.width)
        return "Each row crosses the bus on its own: the time goes by rows, not by bytes, and "
               "page-locked memory does not change that.";
    return "What goes to the device is not the tensor but a copy of it that PyTorch makes in new, "
           "pageable memory. Page-locking the tensor, and non_blocking=True, change nothing: the "
           "host makes the copy, and then waits for the transfer.";
}

static const char *advice_of(const struct group *g) {
    if (g->first.width && g->first.direction == LS_DIRECTION_H2D)
        return "Keep the rows together on the host (a matrix of its own with a leading dimension, "
               "or pitch, of just the rows), and page-lock that once. Where the gaps are small, or "
               "the other columns are wanted as well: one plain copy of all of it, and use the "
               "pitch on the device.";
    if (g->first.width)
        return "Let the rows lie together on the host (a leading dimension, or pitch, of just the "
               "rows), in memory that is page-locked once; or copy all of it back at once, and "
               "use the pitch on the host.";
    return "Gaps, as in base[:, ::2]: keep it contiguous on the host, made once with .contiguous() "
           "and then pin_memory() (DataLoader: in the dataset or collate_fn, so that "
           "pin_memory=True pins that), or send the whole base and slice it on the device. Another "
           "dtype: send it as it is and convert on the device: x.to(device, "
           "non_blocking=True).to(dtype). Expanded: send the small tensor and expand it on the "
           "device. Which of the three it is, the trace does not tell.";
}

static void add_finding(struct looking *look, const struct ls_detector *self,
                        const struct group *g) {
    struct ls_detect *d = look->d;
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = g->count;
    f->bytes = g->bytes;
    f->time_ns = g->ns;
    f->gain_ns = g->gain_ns;
    f->severity = ls_host_severity(d, g->count, g->ns, g->gain_ns, g->last_ns);
    f->site = ls_copied(g->site);
    f->title = title_of(g);
    f->advice = ls_copied(advice_of(g));
    json_object_set_new(f->evidence, "why", json_string(why_of(g)));
    json_object_set_new(f->evidence, "gain",
                        json_pack("{s:s, s:s, s:s}", "of", "host", "confidence", "estimated",
                                  "assumes",
                                  "the data lies together in page-locked memory as it is made"));
    if (!g->first.width)
        json_object_set_new(f->evidence, "confidence", json_string("linked"));
    if (!g->timed)
        json_object_set_new(f->evidence, "confidence", json_string("estimated"));
    json_object_update_new(f->evidence,
                           json_pack("{s:s, s:s, s:b, s:b, s:I, s:I, s:I}", "shape",
                                     g->first.width ? "rows" : "gathered by PyTorch", "direction",
                                     g->first.direction == LS_DIRECTION_H2D ? "H2D" : "D2H",
                                     "pinned", g->pinned, "pageable", g->pageable, "row_bytes",
                                     (json_int_t)g->first.width, "pitch",
                                     (json_int_t)g->first.pitch, "rows", (json_int_t)g->rows));
}

static int prepare(struct looking *look) {
    int rc =
        sqlite3_prepare_v2(look->d->db, LS_STACK_WALK "SELECT function FROM walk ORDER BY depth",
                           -1, &look->functions, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(
            look->d->db,
            "SELECT call.stack, api.class = 'launch' FROM call JOIN api ON api.id = call.api"
            " WHERE call.id > ?1 AND call.id < ?1 + " NEAR " AND call.thread = ?2"
            " AND api.class IN ('launch', 'copy') ORDER BY call.id LIMIT 1",
            -1, &look->next, NULL);
    return rc;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d, .sites.db = d->db};
    struct stack *stack, *next;
    int rc = ls_host_told(d, false);
    if (rc == SQLITE_OK)
        rc = prepare(&look);
    if (rc == SQLITE_OK)
        rc = read_copies(&look);
    for (size_t i = 0; i < look.groups.count; i++) {
        struct group *g = &look.group[i];
        if (rc == SQLITE_OK && (g->bytes >= LS_COPIES_NOISE_BYTES || g->ns >= LS_NOISE_NS)) {
            add_finding(&look, self, g);
            rc = ls_host_tell(d, g->told, (size_t)g->count);
        }
        free(g->told);
    }
    sqlite3_finalize(look.functions);
    sqlite3_finalize(look.next);
    free(look.group);
    ls_numbers_free(&look.groups);
    ls_sites_free(&look.sites);
    HASH_ITER(hh, look.stacks, stack, next) {
        HASH_DEL(look.stacks, stack);
        free(stack);
    }
    return rc;
}

const struct ls_detector ls_detect_strided_host_source = {"strided-host-source", run};
