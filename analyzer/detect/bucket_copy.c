/*
 * bucket_copy.c - `bucket-copy`: what ranks reduce together is copied out of the buffer that they
 * reduce it in, after each reduction: DistributedDataParallel's buckets without
 * gradient_as_bucket_view, or a flat buffer of the program's own.
 *
 * Needs: operands of NCCL's calls, and copies on the device (by cudaMemcpy, or by kernels with
 * known source and destination that do nothing else, which are marked as told: flow.h). Cost: the
 * copies' time, and the memory of everything twice. Main thread only.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "by_site.h"
#include "layout_cost.h"
#include "relayouts.h"
#include "thresholds.h"

/* A buffer that ranks reduce something in. */
struct bucket {
    uint64_t begin, end; /* addresses are unique over all devices */
    int64_t bytes_out;   /* since its last reduction */
    int64_t most_out;    /* of one round */
    int64_t copied_rounds;
    bool copied; /* in this round */
};

/* Copies from one line. */
struct group {
    int64_t count, bytes, ns, without_times, by_kernel;
};

struct looking {
    struct ls_detect *d;
    const struct ls_flow *flow;
    struct bucket *bucket;
    size_t buckets, bucket_room, last; /* the last one that something was found in */
    size_t made;                       /* all of them, those that others took the place of too */
    int64_t held, rounds;              /* by those whose place others took */
    struct ls_sites sites;
    struct group *group; /* by site */
    size_t group_room;
    int64_t reductions;
};

static struct bucket *bucket_of(struct looking *look, uint64_t address) {
    for (size_t i = 0; i < look->buckets; i++) {
        size_t at = (look->last + i) % look->buckets;
        struct bucket *b = &look->bucket[at];
        if (address >= b->begin && address < b->end) {
            look->last = at;
            return b;
        }
    }
    return NULL;
}

/* DDP makes new buckets after the first step, so that one round is none. */
static void settle(struct looking *look, const struct bucket *b) {
    if (b->copied_rounds > 1)
        look->held += b->most_out;
    look->rounds += b->copied_rounds;
}

/* Its memory may be another one's by now: buffers that overlap it are forgotten, and it takes the
 * place of one (reductions of ever other sizes would make ever more). */
static void reduce(struct looking *look, uint64_t address, int64_t bytes) {
    uint64_t end = address + (uint64_t)bytes;
    struct bucket *same = NULL, *gone = NULL;
    look->reductions++;
    for (size_t i = 0; i < look->buckets; i++) {
        struct bucket *b = &look->bucket[i];
        if (b->begin == b->end)
            gone = b;
        if (b->begin >= end || address >= b->end)
            continue;
        if (b->begin == address && b->end == end) {
            same = b;
            continue;
        }
        settle(look, b);
        *b = (struct bucket){0};
        gone = b;
    }
    if (!same) {
        if (!gone) {
            look->bucket =
                ls_room(look->bucket, look->buckets, &look->bucket_room, sizeof *look->bucket);
            gone = &look->bucket[look->buckets++];
        }
        same = gone;
        *same = (struct bucket){.begin = address, .end = end};
        look->made++;
    }
    same->bytes_out = 0;
    same->copied = false;
}

static struct group *group_of(struct looking *look, int64_t stack) {
    size_t known = look->sites.texts.count, site = ls_site_number(&look->sites, stack);
    if (site == known) {
        look->group = ls_room(look->group, known, &look->group_room, sizeof *look->group);
        look->group[site] = (struct group){0};
    }
    return &look->group[site];
}

/* What a kernel turned, cast or repeated was wanted so: a view of the buffer is none of that. */
static bool only_moves(const struct ls_relayout *kernel) {
    return !kernel->told && !kernel->turned && !kernel->cast && kernel->repeated == 1;
}

/* A copy on the device. kernel: by one. */
static void copy(struct looking *look, uint64_t src, uint64_t dst, int64_t bytes, int64_t gpu_ns,
                 int64_t stack, struct ls_relayout *kernel) {
    struct bucket *from = bucket_of(look, src);
    if (!from || dst - from->begin < from->end - from->begin || (kernel && !only_moves(kernel)))
        return;
    struct group *g = group_of(look, stack);
    from->bytes_out += bytes;
    if (from->bytes_out > from->most_out)
        from->most_out = from->bytes_out;
    from->copied_rounds += !from->copied;
    from->copied = true;
    g->count++;
    g->bytes += bytes;
    g->ns += gpu_ns >= 0 ? gpu_ns : ls_moved_ns(2 * bytes);
    g->without_times += gpu_ns < 0;
    g->by_kernel += kernel != NULL;
    if (kernel)
        kernel->told = "bucket-copy";
}

/* Copies by kernels before this call; none of what `copy` has a row of. */
static void read_kernels(struct looking *look, size_t *next, int64_t call) {
    for (; *next < look->flow->count && look->flow->relayout[*next].call < call; (*next)++) {
        struct ls_relayout *r = &look->flow->relayout[*next];
        copy(look, (uint64_t)r->src_address, (uint64_t)r->dst_address, ls_relayout_bytes(r),
             r->gpu_ns, r->stack, r);
    }
    if (*next < look->flow->count && look->flow->relayout[*next].call == call)
        (*next)++;
}

/* Reductions and copies by cudaMemcpy, and copies by kernels between them, in the order of calls.
 */
static int read_all(struct looking *look) {
    sqlite3_stmt *stmt = NULL;
    size_t next = 0;
    int rc = sqlite3_prepare_v2(
        look->d->db,
        "SELECT o.call, 1, o.address, 0, s.bytes, NULL, 0 FROM operand AS o"
        " JOIN call AS c ON c.id = o.call JOIN shape AS s ON s.id = o.shape"
        " WHERE c.api IN (SELECT id FROM api WHERE name IN ('ncclAllReduce', 'ncclReduce',"
        "   'ncclReduceScatter')) AND c.status = 0 AND s.bytes > 0"
        " AND o.role = (SELECT id FROM role WHERE name = 'recv')"
        " UNION ALL SELECT id, 0, src, dst, bytes, gpu_ns, COALESCE(stack, 0) FROM copy"
        " WHERE direction = 3 AND status = 0 AND bytes > 0 ORDER BY 1",
        -1, &stmt, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(stmt)) != SQLITE_ROW)
            break;
        uint64_t address = (uint64_t)sqlite3_column_int64(stmt, 2);
        int64_t bytes = sqlite3_column_int64(stmt, 4);
        read_kernels(look, &next, sqlite3_column_int64(stmt, 0));
        if (sqlite3_column_int(stmt, 1))
            reduce(look, address, bytes);
        else
            copy(look, address, (uint64_t)sqlite3_column_int64(stmt, 3), bytes,
                 sqlite3_column_type(stmt, 5) == SQLITE_NULL ? -1 : sqlite3_column_int64(stmt, 5),
                 sqlite3_column_int64(stmt, 6), NULL);
    }
    read_kernels(look, &next, INT64_MAX);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- findings ---- */

static void add(struct looking *look, const struct ls_detector *self, size_t site, int64_t held) {
    struct ls_human bytes, count, rounds, ns, twice;
    struct ls_detect *d = look->d;
    const struct group *g = &look->group[site];
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = g->count;
    f->bytes = g->bytes;
    f->time_ns = f->gain_ns = g->ns;
    f->gain_bytes = held;
    f->severity = ls_relayouts_severity(d, f->gain_ns, held);
    f->site = ls_copied(look->sites.text[site]);
    f->title = ls_format("%s copied %s out of buffers that ranks had just reduced, %s reductions",
                         ls_human_bytes(&bytes, g->bytes), ls_times_words(&count, g->count),
                         ls_human_count(&rounds, look->reductions));
    f->advice = ls_format(
        "DistributedDataParallel(..., gradient_as_bucket_view=True): gradients are then views of "
        "the buckets that are reduced, and nothing is copied; detach_() on a gradient no longer "
        "works. With a flat buffer of one's own: let the gradients be views of it. It does not "
        "shorten the reductions themselves, and a parameter whose gradient lies in other strides "
        "than its bucket's view is still copied.");
    char *why = ls_format("The reduced values are there already; the copies took %s of the GPU%s, "
                          "and %s are held twice.",
                          ls_human_ns(&ns, g->ns), g->without_times ? ", by their bytes" : "",
                          ls_human_bytes(&twice, held));
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    ls_finding_basis(f, g->without_times < g->count, "GPU", "none of them is needed");
    json_object_update_new(
        f->evidence, json_pack("{s:I, s:I, s:I, s:I}", "reductions", (json_int_t)look->reductions,
                               "buckets", (json_int_t)look->made, "by_kernels",
                               (json_int_t)g->by_kernel, "held_twice", (json_int_t)held));
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d, .flow = ls_detect_flow(d), .sites.db = d->db};
    if (!look.flow)
        return SQLITE_ERROR;
    int rc = read_all(&look);
    int64_t bytes = 0;
    for (size_t i = 0; i < look.buckets; i++)
        settle(&look, &look.bucket[i]);
    for (size_t i = 0; i < look.sites.texts.count; i++)
        bytes += look.group[i].bytes;
    for (size_t i = 0; i < look.sites.texts.count; i++)
        if (rc == SQLITE_OK && look.rounds >= LS_REPEATED && look.group[i].count >= LS_REPEATED &&
            !ls_copies_negligible(d, look.group[i].ns, look.group[i].bytes))
            add(&look, self, i,
                (int64_t)((double)look.held * (double)look.group[i].bytes / (double)bytes));
    ls_sites_free(&look.sites);
    free(look.group);
    free(look.bucket);
    return rc;
}

const struct ls_detector ls_detect_bucket_copy = {"bucket-copy", run};
