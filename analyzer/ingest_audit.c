/*
 * ingest_audit.c - the totals that a framework's allocator reports against ours, and what they say
 * of it at the end. See ingest_block.h.
 *
 * A difference is a break once: from then on it is part of what is not seen, so that one lost
 * record does not make every later report look wrong. One thread; not async-signal-safe.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clamp.h"
#include "ingest_internal.h"

struct ls_audit *ls_audit_of(struct ls_ingest *ingest, uint8_t device) {
    struct ls_audit **audit = &ingest->blocks.audit[device];
    if (!*audit && !(*audit = calloc(1, sizeof **audit)))
        ingest->out_of_memory = true;
    return *audit;
}

static void check(int64_t *unseen, int64_t ours, int64_t reported, int64_t *breaks,
                  int64_t *worst) {
    int64_t off = ls_minus(reported, ls_plus(ours, *unseen));
    if (off == 0)
        return;
    *unseen = ls_plus(*unseen, off);
    ++*breaks;
    int64_t size = off < 0 ? ls_minus(0, off) : off;
    if (size > *worst)
        *worst = size;
}

void ls_audit_report(struct ls_audit *audit, int64_t allocated, int64_t reserved) {
    if (audit->reports++ == 0) { /* what there was before is no break */
        audit->allocated_unseen = audit->late_allocated = ls_minus(allocated, audit->allocated);
        audit->reserved_unseen = audit->late_reserved = ls_minus(reserved, audit->reserved);
    }
    check(&audit->allocated_unseen, audit->allocated, allocated, &audit->allocated_breaks,
          &audit->allocated_worst);
    check(&audit->reserved_unseen, audit->reserved, reserved, &audit->reserved_breaks,
          &audit->reserved_worst);
    audit->dirty = true;
}

static void put_audit(struct ls_ingest *ingest, int device, struct ls_audit *audit) {
    ls_db_put(&ingest->db, LS_PUT_BLOCK_AUDIT, "iiiiiiiiiiiiiii", (int64_t)device, audit->reports,
              audit->allocated_unseen, audit->allocated_breaks, audit->allocated_worst,
              audit->reserved_unseen, audit->reserved_breaks, audit->reserved_worst,
              audit->unattributed, audit->native, audit->expandable, audit->async, audit->uncached,
              audit->late_allocated, audit->late_reserved);
    audit->dirty = false;
}

void ls_audit_store(struct ls_ingest *ingest) {
    struct ls_audit **audit = ingest->blocks.audit;
    for (int device = 0; device < 256; device++)
        if (audit[device] && audit[device]->dirty)
            put_audit(ingest, device, audit[device]);
}

static void load_audit(sqlite3_stmt *stmt, void *context) {
    struct ls_audit *audit = ls_audit_of(context, (uint8_t)sqlite3_column_int(stmt, 0));
    if (!audit)
        return;
    int64_t *const number[] = {&audit->reports,
                               &audit->allocated_unseen,
                               &audit->allocated_breaks,
                               &audit->allocated_worst,
                               &audit->reserved_unseen,
                               &audit->reserved_breaks,
                               &audit->reserved_worst,
                               &audit->unattributed,
                               &audit->native,
                               &audit->expandable,
                               &audit->async,
                               &audit->uncached,
                               &audit->late_allocated,
                               &audit->late_reserved};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        *number[i] = sqlite3_column_int64(stmt, 1 + (int)i);
}

void ls_audit_load(struct ls_ingest *ingest) {
    ls_db_each(&ingest->db, "SELECT * FROM block_audit", load_audit, ingest);
}

/* ---- the end ---- */

static struct ls_audit sum_up(const struct ls_blocks *blocks) {
    struct ls_audit sum = {0};
    for (int device = 0; device < 256; device++) {
        const struct ls_audit *audit = blocks->audit[device];
        if (!audit)
            continue;
        sum.reports += audit->reports;
        sum.allocated_breaks += audit->allocated_breaks;
        sum.reserved_breaks += audit->reserved_breaks;
        if (audit->allocated_worst > sum.allocated_worst)
            sum.allocated_worst = audit->allocated_worst;
        if (audit->reserved_worst > sum.reserved_worst)
            sum.reserved_worst = audit->reserved_worst;
        sum.late_allocated = ls_plus(sum.late_allocated, audit->late_allocated);
        sum.late_reserved = ls_plus(sum.late_reserved, audit->late_reserved);
        sum.unattributed += audit->unattributed;
        sum.native += audit->native;
        sum.expandable += audit->expandable;
        sum.async += audit->async;
        sum.uncached += audit->uncached;
    }
    return sum;
}

static void put_coverage(struct ls_ingest *ingest, const struct ls_audit *sum) {
    char detail[400];
    bool sound = !sum->allocated_breaks && !sum->reserved_breaks && !sum->late_allocated &&
                 !sum->late_reserved && !sum->unattributed;
    int n = snprintf(detail, sizeof detail, "%" PRId64 " reports of blocks", sum->reports);
    if (!sum->allocated_breaks && !sum->reserved_breaks)
        n += snprintf(detail + n, sizeof detail - (size_t)n,
                      ", each with the totals that the blocks and segments seen add up to");
    else
        n += snprintf(detail + n, sizeof detail - (size_t)n,
                      "; live blocks differ from the reported total after %" PRId64
                      " (by at most %" PRId64 " bytes), segments after %" PRId64 " (%" PRId64 ")",
                      sum->allocated_breaks, sum->allocated_worst, sum->reserved_breaks,
                      sum->reserved_worst);
    if (sum->late_allocated || sum->late_reserved)
        n += snprintf(detail + n, sizeof detail - (size_t)n,
                      "; %" PRId64 " bytes of blocks and %" PRId64
                      " of segments are older than the recording",
                      sum->late_allocated, sum->late_reserved);
    if (sum->unattributed)
        snprintf(detail + n, sizeof detail - (size_t)n,
                 "; %" PRId64 " waits of blocks freed during a capture are of unknown blocks",
                 sum->unattributed);
    ls_db_put(&ingest->db, LS_PUT_COVERAGE, "sss", "pytorch-blocks", sound ? "on" : "partial",
              detail);
}

/* Without a single report: whose calls were there instead. */
static const char *name_without_reports(struct ls_ingest *ingest, const struct ls_audit *sum) {
    if (sum->async)
        return "cudaMallocAsync";
    if (sum->uncached)
        return "uncached";
    return ls_db_number(&ingest->db, "SELECT EXISTS(SELECT 1 FROM frame WHERE function LIKE "
                                     "'%CUDAPluggableAllocator%')")
               ? "pluggable"
               : "none";
}

void ls_audit_put_end(struct ls_ingest *ingest) {
    ls_block_store(ingest);
    struct ls_audit sum = sum_up(&ingest->blocks);
    const char *name = sum.reports == 0 ? name_without_reports(ingest, &sum)
                       : sum.expandable ? "expandable_segments"
                                        : "native";
    ls_db_put(&ingest->db, LS_PUT_META, "ss", "allocator", name);
    if (sum.reports == 0) {
        char detail[128];
        snprintf(detail, sizeof detail, "PyTorch's allocator (%s) does not report its blocks",
                 name);
        if (strcmp(name, "none") != 0)
            ls_db_put(&ingest->db, LS_PUT_COVERAGE, "sss", "pytorch-blocks", "off", detail);
        return;
    }
    put_coverage(ingest, &sum);
    ls_ingest_put_number(ingest, "blocks.reports", sum.reports);
    ls_ingest_put_number(ingest, "blocks.allocated_breaks", sum.allocated_breaks);
    ls_ingest_put_number(ingest, "blocks.allocated_worst_bytes", sum.allocated_worst);
    ls_ingest_put_number(ingest, "blocks.reserved_breaks", sum.reserved_breaks);
    ls_ingest_put_number(ingest, "blocks.reserved_worst_bytes", sum.reserved_worst);
    ls_ingest_put_number(ingest, "blocks.late_allocated_bytes", sum.late_allocated);
    ls_ingest_put_number(ingest, "blocks.late_reserved_bytes", sum.late_reserved);
    ls_ingest_put_number(ingest, "blocks.unattributed_waits", sum.unattributed);
}
