/*
 * batch_degraded.c - `batch-degraded`: one batched product under which the GPU ran about one kernel
 * for each matrix: the library had no batched kernel for it, and loops.
 *
 * Needs: operands of cuBLAS's calls, and runs of kernels. Cost: the launches but one of each call.
 * Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "detect.h"
#include "layout_cost.h"
#include "products.h"
#include "thresholds.h"

/* One line's products of one type and shape, or of all shapes: a finding. */
struct degraded {
    int64_t stack;
    const struct ls_product_shape *shape; /* of a line the one that costs most */
    size_t line;
    char *kernel; /* a line's: its shape's */
    int64_t calls, kernels, ns, gain_ns;
    int64_t shapes, shape_gain_ns; /* a line's: how many, and what the shown one costs */
};

struct looking {
    struct ls_detect *d;
    struct ls_product_lines lines;
    struct degraded *at; /* by part's number */
    size_t room;
};

static struct degraded *of(struct looking *look, const struct ls_product_call *call) {
    size_t known = look->lines.parts.count;
    struct ls_product_place place = ls_product_place(&look->lines, call);
    if (place.part == known) {
        look->at = ls_room(look->at, known, &look->room, sizeof *look->at);
        look->at[known] =
            (struct degraded){.stack = call->stack, .shape = call->shape, .line = place.line};
    }
    return &look->at[place.part];
}

static int by_number(const void *x, const void *y) {
    int64_t a = (*(const struct ls_product_call *const *)x)->call;
    int64_t b = (*(const struct ls_product_call *const *)y)->call;
    return a < b ? -1 : a > b;
}

static int find(const void *key, const void *element) {
    int64_t call = *(const int64_t *)key,
            other = (*(const struct ls_product_call *const *)element)->call;
    return call < other ? -1 : call > other;
}

/* The batched calls, by number. */
static const struct ls_product_call **batched(const struct ls_products *p, size_t *count) {
    const struct ls_product_call **list = NULL;
    size_t room = 0;
    for (size_t i = 0; i < p->calls; i++) {
        if (p->call[i].shape->batch < LS_GEMM_RUN)
            continue;
        list = ls_room(list, *count, &room, sizeof *list);
        list[(*count)++] = &p->call[i];
    }
    if (*count)
        qsort(list, *count, sizeof *list, by_number);
    return list;
}

static int read_runs(struct looking *look, const struct ls_product_call **list, size_t count) {
    sqlite3_stmt *stmt = NULL;
    int rc =
        sqlite3_prepare_v2(look->d->db,
                           "SELECT under, n, ns, (SELECT short FROM kernel WHERE kernel.id = k)"
                           " FROM (SELECT under, COUNT(*) AS n, SUM(end_ns - start_ns) AS ns,"
                           " MAX(v0) AS k FROM gpu_work WHERE kind = 1 AND under NOT NULL"
                           " GROUP BY under)",
                           -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        int64_t id = sqlite3_column_int64(stmt, 0), kernels = sqlite3_column_int64(stmt, 1);
        const struct ls_product_call **found = bsearch(&id, list, count, sizeof *list, find);
        if (!found || (double)kernels < LS_BATCH_KERNELS * (double)(*found)->shape->batch)
            continue;
        struct degraded *x = of(look, *found);
        const char *kernel = (const char *)sqlite3_column_text(stmt, 3);
        x->calls++;
        x->kernels += kernels;
        x->ns += sqlite3_column_int64(stmt, 2);
        if (!x->kernel && kernel)
            x->kernel = ls_copied(kernel);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* To the line's. */
static void add_shape(struct degraded *line, const struct degraded *x) {
    int64_t launches = (x->kernels - x->calls) * LS_KERNEL_NS;
    int64_t gain = launches < x->ns ? launches : x->ns;
    if (!line->shape || ls_product_heavier(gain, x->shape, line->shape_gain_ns, line->shape)) {
        line->stack = x->stack;
        line->shape = x->shape;
        line->kernel = x->kernel;
        line->shape_gain_ns = gain;
    }
    line->shapes++;
    line->calls += x->calls;
    line->kernels += x->kernels;
    line->ns += x->ns;
    line->gain_ns += gain;
}

static char *title_of(const struct degraded *x) {
    struct ls_human calls, kernels, saved;
    char *words = ls_product_words(x->shape, x->shapes);
    char *title =
        ls_format("%s batched %s of %lld matrices (%s, %s) ran as %s kernels, one for each matrix "
                  "or so: %s could be saved",
                  ls_human_count(&calls, x->calls), ls_plural(x->calls, "product", "products"),
                  (long long)x->shape->batch, words, x->shape->dtype,
                  ls_human_count(&kernels, x->kernels), ls_human_ns(&saved, x->gain_ns));
    free(words);
    return title;
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct degraded *x) {
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = x->calls;
    f->time_ns = x->ns;
    f->gain_ns = x->gain_ns;
    f->severity = ls_severity_of(d, f->gain_ns);
    f->site = ls_site_of(d->db, x->stack);
    f->title = title_of(x);
    f->advice = ls_copied(
        "The library has no batched kernel for this one. What brings it back: matrices that lie "
        "evenly apart (one contiguous tensor, the strided form), leading dimensions and addresses at "
        "multiples of 16 bytes, one type for A and B, batches below 65,536, and a newer cuBLAS. "
        "cuBLASLt's heuristics, asked for this layout, tell whether there is any.");
    json_object_set_new(
        f->evidence, "why",
        json_string("A kernel of one small matrix costs its launch and leaves most of "
                    "the GPU idle; that is what batching is for."));
    ls_finding_basis(f, true, "GPU",
                     "one kernel does the whole batch, and the rest of the time stays");
    json_object_set_new(f->evidence, "confidence", json_string("seen"));
    json_object_update_new(
        f->evidence, json_pack("{s:o, s:I, s:I, s:f, s:o}", "product", ls_product_json(x->shape),
                               "shapes", (json_int_t)x->shapes, "kernels", (json_int_t)x->kernels,
                               "kernels_per_call", (double)x->kernels / (double)x->calls, "kernel",
                               ls_json_text(x->kernel ? x->kernel : "unknown")));
    ls_finding_gpu_share(d, f, x->ns);
}

static void add_lines(struct looking *look, const struct ls_detector *self) {
    struct degraded *line = ls_new(look->lines.lines.count, sizeof *line);
    for (size_t i = 0; i < look->lines.parts.count; i++)
        add_shape(&line[look->at[i].line], &look->at[i]);
    for (size_t i = 0; i < look->lines.lines.count; i++)
        add(look->d, self, &line[i]);
    free(line);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d, .lines.sites.db = d->db};
    const struct ls_products *products = ls_detect_products(d);
    size_t count = 0;
    if (!products)
        return SQLITE_ERROR;
    const struct ls_product_call **list = batched(products, &count);
    int rc = SQLITE_OK;
    if (count)
        ls_say_replays(d, self->kind);
    if (count && ls_kernels_ns(d) == 0)
        ls_detect_skip(d, self->kind, "no runs of kernels are in this trace");
    else if (count)
        rc = read_runs(&look, list, count);
    if (rc == SQLITE_OK)
        add_lines(&look, self);
    for (size_t i = 0; i < look.lines.parts.count; i++)
        free(look.at[i].kernel);
    free(look.at);
    ls_product_lines_free(&look.lines);
    free(list);
    return rc;
}

const struct ls_detector ls_detect_batch_degraded = {"batch-degraded", run};
