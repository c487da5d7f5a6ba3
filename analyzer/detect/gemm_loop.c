/*
 * gemm_loop.c - `gemm-loop`: equal small products one after the other, by one line, of which only
 * the addresses differ: one batched call does them all.
 *
 * In a row: of one thread, with no other product between. What is launched between must be copies
 * that are known not to write what the next products read; a product that reads what one before it
 * in the row wrote, or writes there again, ends the row. Needs: operands of cuBLAS's calls. Cost:
 * the launches but one of each row. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "detect.h"
#include "flow.h"
#include "layout_cost.h"
#include "products.h"
#include "thresholds.h"

struct written {
    uint64_t address;
    UT_hash_handle hh;
};

/* All rows of one line, type and shape, or of all shapes: a finding. */
struct loop {
    int64_t stack;
    const struct ls_product_shape *shape; /* of a line the one that costs most */
    size_t line;
    int64_t count, rows, longest, copies;
    int64_t timed, gpu_ns, host_ns, gain_ns;
    int64_t shapes, shape_gain_ns; /* a line's: how many, and what the shown one costs */
    bool same_a, same_b;           /* in all rows one of the matrices was the same one throughout */
    bool even;                     /* in all rows the addresses are evenly apart */
};

struct looking {
    struct ls_detect *d;
    const struct ls_flow *flow;
    const struct ls_products *products;
    sqlite3_stmt *between;
    struct written *written;
    struct ls_product_lines lines;
    struct loop *loop; /* by part's number */
    size_t room;
};

/* ---- rows ---- */

static bool alike(const struct ls_product_call *x, const struct ls_product_call *y) {
    return x->thread == y->thread && x->stack == y->stack && x->api == y->api &&
           x->shape == y->shape;
}

static bool is_written(const struct looking *look, uint64_t address) {
    struct written *at;
    HASH_FIND(hh, look->written, &address, sizeof address, at);
    return at != NULL;
}

static void write_to(struct looking *look, uint64_t address) {
    if (is_written(look, address))
        return;
    struct written *at = ls_new(1, sizeof *at);
    at->address = address;
    HASH_ADD(hh, look->written, address, sizeof at->address, at);
}

static void unwrite(struct looking *look, uint64_t address) {
    struct written *at;
    HASH_FIND(hh, look->written, &address, sizeof address, at);
    if (!at)
        return;
    HASH_DEL(look->written, at);
    free(at);
}

static void forget(struct looking *look) {
    struct written *at, *next;
    HASH_ITER(hh, look->written, at, next) {
        HASH_DEL(look->written, at);
        free(at);
    }
}

/* The call between two products is a copy on the device. */
static bool copy_of(const struct looking *look, uint64_t *src, uint64_t *dst) {
    int64_t call = sqlite3_column_int64(look->between, 0);
    if (sqlite3_column_type(look->between, 1) != SQLITE_NULL) {
        *dst = (uint64_t)sqlite3_column_int64(look->between, 1);
        *src = (uint64_t)sqlite3_column_int64(look->between, 2);
        return sqlite3_column_int(look->between, 3) == LS_DIRECTION_D2D;
    }
    const struct ls_relayout *copy = ls_flow_relayout_of(look->flow, call);
    if (!copy)
        return false;
    *src = (uint64_t)copy->src_address;
    *dst = (uint64_t)copy->dst_address;
    return true;
}

/* What the thread launched between the two: the copies, or -1 where anything else is among it. */
static int64_t copies_between(struct looking *look, const struct ls_product_call *from,
                              const struct ls_product_call *to) {
    int64_t copies = 0;
    sqlite3_bind_int64(look->between, 1, from->call);
    sqlite3_bind_int64(look->between, 2, to->call);
    sqlite3_bind_int64(look->between, 3, from->thread);
    while (copies >= 0 && sqlite3_step(look->between) == SQLITE_ROW) {
        uint64_t src, dst;
        if (!copy_of(look, &src, &dst) || ++copies > LS_GEMM_COPIES) {
            copies = -1;
            break;
        }
        /* What was copied away may be written anew: temporary memory is used again. */
        unwrite(look, src);
        write_to(look, dst);
    }
    sqlite3_reset(look->between);
    return copies;
}

/* The row that begins with this product ends before the one that is returned. */
static size_t row_end(struct looking *look, size_t first, int64_t *copies) {
    const struct ls_product_call *call = look->products->call;
    size_t i = first;
    *copies = 0;
    for (;; i++) {
        const struct ls_product_call *now = &call[i];
        if (is_written(look, now->address[LS_PRODUCT_IN_A]) ||
            is_written(look, now->address[LS_PRODUCT_IN_B]) ||
            is_written(look, now->address[LS_PRODUCT_OUT]))
            break;
        write_to(look, now->address[LS_PRODUCT_OUT]);
        if (i + 1 == look->products->calls || !alike(now, &call[i + 1])) {
            i++;
            break;
        }
        int64_t made = copies_between(look, now, &call[i + 1]);
        if (made < 0) {
            i++;
            break;
        }
        *copies += made;
    }
    forget(look);
    return i > first ? i : first + 1;
}

/* ---- loops ---- */

static struct loop *loop_of(struct looking *look, const struct ls_product_call *call) {
    size_t known = look->lines.parts.count;
    struct ls_product_place place = ls_product_place(&look->lines, call);
    if (place.part == known) {
        look->loop = ls_room(look->loop, known, &look->room, sizeof *look->loop);
        look->loop[known] = (struct loop){.stack = call->stack,
                                          .shape = call->shape,
                                          .line = place.line,
                                          .same_a = true,
                                          .same_b = true,
                                          .even = true};
    }
    return &look->loop[place.part];
}

static void take_row(struct looking *look, size_t first, size_t end, int64_t copies) {
    const struct ls_product_call *call = look->products->call;
    struct loop *loop = loop_of(look, &call[first]);
    int64_t count = (int64_t)(end - first);
    loop->rows++;
    loop->count += count;
    loop->copies += copies;
    loop->longest = count > loop->longest ? count : loop->longest;
    loop->host_ns += call[end - 1].end_ns - call[first].start_ns;
    for (size_t i = first; i < end; i++) {
        loop->timed += call[i].gpu_ns >= 0;
        loop->gpu_ns += call[i].gpu_ns >= 0 ? call[i].gpu_ns : 0;
        loop->same_a &= call[i].address[LS_PRODUCT_IN_A] == call[first].address[LS_PRODUCT_IN_A];
        loop->same_b &= call[i].address[LS_PRODUCT_IN_B] == call[first].address[LS_PRODUCT_IN_B];
        for (int m = 0; m < LS_PRODUCT_MATRICES && i > first; m++)
            loop->even &= call[i].address[m] - call[i - 1].address[m] ==
                          call[first + 1].address[m] - call[first].address[m];
    }
}

static bool small(const struct loop *l) {
    if (l->timed)
        return l->gpu_ns / l->timed <= LS_GEMM_SMALL_NS;
    return ls_product_flops(l->shape) <= LS_GEMM_SMALL_FLOPS;
}

/* What one call for each row would save: launches, and no more than the host's time. */
static int64_t gain_of(const struct loop *l) {
    int64_t launches = (l->count - l->rows + l->copies) * LS_ASYNC_LAUNCH_NS;
    return launches < l->host_ns ? launches : l->host_ns;
}

/* To the line's. */
static void add_shape(struct loop *line, const struct loop *l) {
    int64_t gain = gain_of(l);
    bool first = !line->shape;
    if (first || ls_product_heavier(gain, l->shape, line->shape_gain_ns, line->shape)) {
        line->stack = l->stack;
        line->shape = l->shape;
        line->shape_gain_ns = gain;
    }
    line->shapes++;
    line->count += l->count;
    line->rows += l->rows;
    line->longest = l->longest > line->longest ? l->longest : line->longest;
    line->copies += l->copies;
    line->timed += l->timed;
    line->gpu_ns += l->gpu_ns;
    line->host_ns += l->host_ns;
    line->gain_ns += gain;
    line->same_a = (first || line->same_a) && l->same_a;
    line->same_b = (first || line->same_b) && l->same_b;
    line->even = (first || line->even) && l->even;
}

/* ---- the finding ---- */

static char *title_of(const struct loop *l) {
    struct ls_human count, saved, rows;
    char *words = ls_product_words(l->shape, l->shapes);
    char *title = ls_format(
        "%s %sproducts of %s (%s) one by one, up to %lld %sin a row, in %s %s: one "
        "batched call for each would save about %s",
        ls_human_count(&count, l->count), l->shapes > 1 ? "" : "equal ", words, l->shape->dtype,
        (long long)l->longest, l->shapes > 1 ? "equal ones " : "", ls_human_count(&rows, l->rows),
        ls_plural(l->rows, "loop", "loops"), ls_human_ns(&saved, l->gain_ns));
    free(words);
    return title;
}

static char *advice_of(const struct loop *l) {
    if (l->same_a || l->same_b)
        return ls_format(
            "One matrix (%s) is the same for all of them: put the other ones beside each "
            "other (torch.cat or one tensor from the start) and multiply once, a larger "
            "product instead of a batch.",
            l->same_a ? "A" : "B");
    return ls_format(
        "Stack the matrices into one tensor of one more dimension and multiply once: torch.bmm, "
        "matmul or einsum over the batch, %s; torch.vmap does it for a function. %sThat needs no "
        "copies where the matrices are made in one tensor from the start. It does not help where the "
        "sizes really differ (grouped products, or padding, then), nor where a CUDA graph replays the "
        "loop and the GPU is what is waited for.",
        l->even ? "cublasGemmStridedBatchedEx in C" : "cublasGemmBatchedEx in C",
        l->even ? "They lie evenly apart already. " : "");
}

static void add(struct looking *look, const struct ls_detector *self, const struct loop *l) {
    struct ls_detect *d = look->d;
    int64_t steps = ls_query_int(d->db, 0, "SELECT COUNT(*) FROM step");
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = l->count;
    f->time_ns = l->host_ns;
    f->gain_ns = l->gain_ns;
    f->severity = ls_severity_of(d, f->gain_ns);
    f->site = ls_site_of(d->db, l->stack);
    f->title = title_of(l);
    f->advice = advice_of(l);
    json_object_set_new(
        f->evidence, "why",
        json_string("Each costs a call and a launch of its own, and a matrix so small "
                    "occupies a fraction of the GPU; nothing in them depends on the "
                    "others."));
    ls_finding_basis(
        f, false, "host",
        "each further call of a row costs a launch, and the host is what is waited for");
    json_object_set_new(f->evidence, "confidence", json_string("linked"));
    json_object_update_new(
        f->evidence, json_pack("{s:o, s:I, s:I, s:I, s:f, s:o, s:I, s:b, s:b, s:b, s:I}", "product",
                               ls_product_json(l->shape), "shapes", (json_int_t)l->shapes, "rows",
                               (json_int_t)l->rows, "longest", (json_int_t)l->longest, "per_step",
                               steps ? (double)l->count / (double)steps : 0.0, "gpu_ns",
                               l->timed ? json_integer(l->gpu_ns) : json_null(), "host_ns",
                               (json_int_t)l->host_ns, "same_a", l->same_a, "same_b", l->same_b,
                               "evenly_apart", l->even, "copies_between", (json_int_t)l->copies));
}

static void add_lines(struct looking *look, const struct ls_detector *self) {
    struct loop *line = ls_new(look->lines.lines.count, sizeof *line);
    for (size_t i = 0; i < look->lines.parts.count; i++)
        if (small(&look->loop[i]))
            add_shape(&line[look->loop[i].line], &look->loop[i]);
    for (size_t i = 0; i < look->lines.lines.count; i++)
        if (line[i].shapes)
            add(look, self, &line[i]);
    free(line);
}

static void look_for(struct looking *look, const struct ls_detector *self) {
    const struct ls_products *p = look->products;
    for (size_t i = 0; i < p->calls;) {
        const struct ls_product_call *call = &p->call[i];
        bool more = i + 1 < p->calls && alike(call, &p->call[i + 1]);
        if (!more || call->shape->batch > 1 || call->added || call->arrays) {
            i++;
            continue;
        }
        int64_t copies;
        size_t end = row_end(look, i, &copies);
        if (end - i >= LS_GEMM_RUN)
            take_row(look, i, end, copies);
        i = end;
    }
    add_lines(look, self);
    free(look->loop);
    ls_product_lines_free(&look->lines);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d, .lines.sites.db = d->db};
    if (!ls_operands_told(d, self->kind))
        return SQLITE_OK;
    look.products = ls_detect_products(d);
    look.flow = look.products ? ls_detect_flow(d) : NULL;
    if (!look.flow)
        return SQLITE_ERROR;
    int rc = sqlite3_prepare_v2(
        d->db,
        "SELECT call.id, copy.dst, copy.src, copy.direction FROM call LEFT JOIN copy ON copy.id = call.id"
        " WHERE call.id > ?1 AND call.id < ?2 AND call.thread = ?3 AND flags & 1 = 0 AND call.api IN"
        " (SELECT id FROM api WHERE class IN ('launch', 'library_call', 'graph', 'copy', 'memset'))",
        -1, &look.between, NULL);
    if (rc == SQLITE_OK)
        look_for(&look, self);
    sqlite3_finalize(look.between);
    return rc;
}

const struct ls_detector ls_detect_gemm_loop = {"gemm-loop", run};
