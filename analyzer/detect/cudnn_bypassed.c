/*
 * cudnn_bypassed.c - `cudnn-bypassed`: convolutions that were not done by cuDNN: a kernel lays out
 * all patches of the input as columns, and a product multiplies them with the filter.
 *
 * Told by a kernel of that name and a product of the same thread that follows it: one that reads
 * memory which the kernel was given, or else one of the same operator and line; and no call of
 * cuDNN between. What only lays out patches (unfold) is none. The columns' size is that of the
 * block that the product reads. Needs: launches with names, operands of cuBLAS's calls. Cost: the
 * kernels that make the columns, and the columns' memory; what cuDNN would take is not known. Main
 * thread only; not for signal handlers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "by_site.h"
#include "convolutions.h"
#include "detect.h"
#include "flow.h"
#include "layout_cost.h"
#include "products.h"
#include "thresholds.h"

/* All of one line's, with products of one type. */
struct bypass {
    const char *site; /* of looking.sites */
    char *operator_name, *kernel, dtype[24];
    int64_t launches, products, columns; /* columns: buffers, one for each convolution */
    int64_t last_block, most_bytes;
    int64_t columns_ns, products_ns;
    bool timed, linked_by_address;
    int64_t bytes_in_all;
};

struct looking {
    struct ls_detect *d;
    const struct ls_products *products;
    sqlite3_stmt *blocks;
    struct ls_sites sites;
    struct ls_numbers bypasses; /* by line and type */
    struct bypass *at;          /* by number */
    size_t room;
};

/* A launch of a kernel that makes columns. */
struct launch {
    int64_t call, thread, stack, gpu_ns;
    const char *kernel, *operator_name;
};

/* ---- the product ---- */

/* The first product of the thread after this call. */
static const struct ls_product_call *product_after(const struct ls_products *p, int64_t thread,
                                                   int64_t call) {
    size_t low = 0, high = p->calls;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct ls_product_call *at = &p->call[middle];
        if (at->thread < thread || (at->thread == thread && at->call < call))
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->calls && p->call[low].thread == thread ? &p->call[low] : NULL;
}

/* The product reads memory that the kernel was given: its block, or its address. bytes: how large
 * the block is that holds it; 0 where it is not known. */
static bool reads_columns(struct looking *look, const struct launch *launch,
                          const struct ls_product_call *product, int64_t *block, int64_t *bytes) {
    bool found = false;
    *block = *bytes = 0;
    sqlite3_bind_int64(look->blocks, 1, launch->call);
    while (sqlite3_step(look->blocks) == SQLITE_ROW) {
        uint64_t address = (uint64_t)sqlite3_column_int64(look->blocks, 0);
        uint64_t start = (uint64_t)sqlite3_column_int64(look->blocks, 2);
        uint64_t size = (uint64_t)sqlite3_column_int64(look->blocks, 3);
        for (int m = LS_PRODUCT_IN_A; m <= LS_PRODUCT_IN_B; m++) {
            uint64_t read = product->address[m];
            if (read != address && !(size && read - start < size))
                continue;
            found = true;
            if ((int64_t)size > *bytes) {
                *block = sqlite3_column_int64(look->blocks, 1);
                *bytes = (int64_t)size;
            }
        }
    }
    sqlite3_reset(look->blocks);
    return found;
}

/* The largest block that the same line made shortly before the product reads from it. */
static void columns_of_line(struct looking *look, const struct ls_product_call *product,
                            int64_t *block, int64_t *bytes) {
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(
            look->d->db,
            "SELECT id, size FROM (SELECT block.id AS id, size FROM operand AS o JOIN"
            " block ON block.id = o.block WHERE o.call = ?1 AND o.role IN (SELECT id"
            " FROM role WHERE direction = 'in')) ORDER BY size DESC LIMIT 1",
            -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, product->call);
        if (sqlite3_step(stmt) == SQLITE_ROW) {
            *block = sqlite3_column_int64(stmt, 0);
            *bytes = sqlite3_column_int64(stmt, 1);
        }
    }
    sqlite3_finalize(stmt);
}

/* Of one line and operator, both of which are known. */
static bool same_place(struct looking *look, int64_t x, int64_t y) {
    if (x == y)
        return true;
    size_t site = ls_site_number(&look->sites, x);
    if (site != ls_site_number(&look->sites, y) || !strcmp(look->sites.text[site], LS_SITE_UNKNOWN))
        return false;
    char *a = ls_operator_of(look->d->db, x), *b = ls_operator_of(look->d->db, y);
    bool same = a && b && !strcmp(a, b);
    free(a);
    free(b);
    return same;
}

/* ---- launches ---- */

static struct bypass *bypass_of(struct looking *look, const struct launch *launch,
                                const char *dtype) {
    struct {
        size_t site;
        char dtype[sizeof look->at->dtype];
    } key;
    memset(&key, 0, sizeof key);
    key.site = ls_site_number(&look->sites, launch->stack);
    snprintf(key.dtype, sizeof key.dtype, "%s", dtype);
    size_t known = look->bypasses.count, number = ls_number_of(&look->bypasses, &key, sizeof key);
    if (number < known)
        return &look->at[number];
    look->at = ls_room(look->at, known, &look->room, sizeof *look->at);
    look->at[number] = (struct bypass){
        .site = look->sites.text[key.site],
        .operator_name = launch->operator_name ? ls_copied(launch->operator_name) : NULL,
        .kernel = ls_copied(launch->kernel)};
    memcpy(look->at[number].dtype, key.dtype, sizeof key.dtype);
    return &look->at[number];
}

static void take_launch(struct looking *look, const struct launch *launch) {
    int64_t block = 0, bytes = 0;
    const struct ls_product_call *product =
        product_after(look->products, launch->thread, launch->call);
    if (!product)
        return;
    bool linked = reads_columns(look, launch, product, &block, &bytes);
    if (!linked && !(product->call - launch->call <= LS_COLUMNS_CALLS &&
                     same_place(look, launch->stack, product->stack)))
        return;
    if (bytes == 0)
        columns_of_line(look, product, &block, &bytes);
    struct bypass *b = bypass_of(look, launch, product->shape->dtype);
    b->launches++;
    b->products++;
    b->linked_by_address |= linked;
    /* A framework's block is there for one convolution, whose samples share it. */
    if (block != b->last_block || block == 0) {
        b->columns++;
        b->bytes_in_all += bytes;
    }
    b->last_block = block;
    b->most_bytes = bytes > b->most_bytes ? bytes : b->most_bytes;
    b->timed |= launch->gpu_ns >= 0;
    b->columns_ns += launch->gpu_ns >= 0 ? launch->gpu_ns : ls_moved_ns(bytes);
    b->products_ns += product->gpu_ns >= 0 ? product->gpu_ns : 0;
}

static int read_launches(struct looking *look) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        look->d->db,
        "WITH columns AS (SELECT id, short FROM kernel WHERE name LIKE '%im2col%' OR"
        "   name LIKE '%vol2col%')"
        " SELECT c.id, c.thread, COALESCE(c.stack, 0), w.ns, k.short, s.operator"
        " FROM call AS c JOIN columns AS k ON k.id = c.f0"
        "   LEFT JOIN stack_site AS s ON s.id = c.stack"
        "   LEFT JOIN (SELECT call, SUM(end_ns - start_ns) AS ns FROM gpu_work WHERE kind = 1 AND v0"
        "     IN (SELECT id FROM columns) GROUP BY call) AS w ON w.call = c.id"
        " WHERE c.status = 0 AND c.flags & 1 = 0 AND c.api IN (SELECT id FROM api WHERE"
        "   class = 'launch')"
        " AND COALESCE(s.operator, '') NOT LIKE '%im2col%' AND"
        " COALESCE(s.operator, '') NOT LIKE '%unfold%' ORDER BY c.id",
        -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(
            look->d->db,
            "SELECT o.address, COALESCE(o.block, 0), COALESCE(b.address, a.address, 0),"
            " COALESCE(b.size, a.size, 0) FROM operand AS o LEFT JOIN block AS b ON b.id = o.block"
            " LEFT JOIN allocation AS a ON a.id = o.allocation AND a.holder <> 3 WHERE o.call = ?1 AND o.address <> 0",
            -1, &look->blocks, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(stmt)) != SQLITE_ROW)
            break;
        const char *kernel = (const char *)sqlite3_column_text(stmt, 4);
        take_launch(look,
                    &(struct launch){.call = sqlite3_column_int64(stmt, 0),
                                     .thread = sqlite3_column_int64(stmt, 1),
                                     .stack = sqlite3_column_int64(stmt, 2),
                                     .gpu_ns = sqlite3_column_type(stmt, 3) == SQLITE_NULL
                                                   ? -1
                                                   : sqlite3_column_int64(stmt, 3),
                                     .kernel = kernel ? kernel : "im2col",
                                     .operator_name = (const char *)sqlite3_column_text(stmt, 5)});
    }
    sqlite3_finalize(stmt);
    sqlite3_finalize(look->blocks);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* ---- the finding ---- */

/* Calls of cuDNN for the same operator (or, where there is none, any) in another type, or 0. */
static int64_t by_cudnn(struct looking *look, const struct bypass *b, const char **dtype) {
    const struct ls_convolutions *convs = ls_detect_convolutions(look->d);
    int64_t count = 0;
    for (size_t i = 0; convs && i < convs->layers; i++) {
        const struct ls_conv_layer *l = &convs->layer[i];
        if (!l->x || !strcmp(l->x->dtype, b->dtype))
            continue;
        char *other = ls_operator_of(look->d->db, l->stack);
        bool same = b->operator_name && other && !strcmp(other, b->operator_name);
        free(other);
        if (!same)
            continue;
        count += l->count;
        *dtype = l->x->dtype;
    }
    return count;
}

static char *advice_of(const struct bypass *b, const char *other) {
    bool half = !strcmp(b->dtype, "bfloat16") || !strcmp(b->dtype, "float16");
    if (!b->operator_name)
        return ls_copied(
            "Call cuDNN (cudnnConvolutionForward or its graphs) instead of laying out the "
            "patches: its implicit GEMM needs no columns.");
    char *elsewhere =
        other ? ls_format("In %s the same operator did go to cuDNN. ", other) : ls_copied("");
    char *advice = ls_format(
        "%s%sCheck that cuDNN is on (torch.backends.cudnn.enabled and is_available()) and its version; "
        "PyTorch 2.9 bypasses it for conv3d in 16 bits with some. Weights and input in "
        "channels_last_3d (channels_last in 2-D) bring it back in many cases. A conv3d whose stride "
        "is its kernel's size (patch embedding) is a reshape and a linear layer.",
        elsewhere, half ? "The type is what turns it away in most cases. " : "");
    free(elsewhere);
    return advice;
}

static void add(struct looking *look, const struct ls_detector *self, const struct bypass *b) {
    struct ls_detect *d = look->d;
    struct ls_human count, columns, ns;
    const char *other = NULL;
    int64_t in_other = by_cudnn(look, b, &other);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = b->columns;
    f->bytes = f->gain_bytes = b->most_bytes;
    f->time_ns = b->columns_ns + b->products_ns;
    f->gain_ns = b->columns_ns;
    f->severity = ls_severity_of(d, f->time_ns);
    if (f->severity == LS_INFO && b->columns >= LS_REPEATED)
        f->severity = LS_WARNING;
    f->site = ls_copied(b->site);
    f->title = ls_format(
        "%s %s in %s without cuDNN: %s and products instead, columns of up to %s, %s in "
        "all",
        ls_human_count(&count, b->columns), ls_plural(b->columns, "convolution", "convolutions"),
        b->dtype, b->kernel, ls_human_bytes(&columns, b->most_bytes), ls_human_ns(&ns, f->time_ns));
    f->advice = advice_of(b, other);
    json_object_set_new(
        f->evidence, "why",
        json_string("Every element of the input is written once for each place of the "
                    "filter that it meets (27 times for 3 x 3 x 3), and read back by the "
                    "product; cuDNN's kernels do without."));
    ls_finding_basis(f, b->timed, "GPU",
                     "the kernels that make the columns go, and the rest stays as it is; "
                     "cuDNN's own kernels may be much faster than the products");
    json_object_set_new(f->evidence, "confidence", json_string("linked"));
    json_object_update_new(
        f->evidence,
        json_pack("{s:o, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I}", "operator",
                  b->operator_name ? ls_json_text(b->operator_name) : json_null(), "dtype",
                  b->dtype, "kernel", ls_json_text(b->kernel), "launches", (json_int_t)b->launches,
                  "products", (json_int_t)b->products, "convolutions", (json_int_t)b->columns,
                  "columns_bytes", (json_int_t)b->most_bytes, "columns_bytes_in_all",
                  (json_int_t)b->bytes_in_all, "columns_ns", (json_int_t)b->columns_ns,
                  "products_ns", (json_int_t)b->products_ns, "linked_by",
                  b->linked_by_address ? "address" : "operator and line",
                  "cudnn_calls_in_other_dtype", (json_int_t)in_other));
    if (other)
        json_object_set_new(f->evidence, "other_dtype", json_string(other));
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d, .sites.db = d->db};
    if (!ls_operands_told(d, self->kind))
        return SQLITE_OK;
    look.products = ls_detect_products(d);
    if (!look.products)
        return SQLITE_ERROR;
    int rc = look.products->calls ? read_launches(&look) : SQLITE_OK;
    for (size_t i = 0; i < look.bypasses.count; i++) {
        struct bypass *b = &look.at[i];
        if (rc == SQLITE_OK)
            add(&look, self, b);
        free(b->operator_name);
        free(b->kernel);
    }
    free(look.at);
    ls_numbers_free(&look.bypasses);
    ls_sites_free(&look.sites);
    return rc;
}

const struct ls_detector ls_detect_cudnn_bypassed = {"cudnn-bypassed", run};
