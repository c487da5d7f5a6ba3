/*
 * misaligned.c - `misaligned`: products in 16 or 8 bits whose leading dimensions or addresses are
 * no multiple of 16 bytes, so that Tensor Cores are fed in smaller pieces or not used.
 *
 * Told by what cuBLAS was given; the kernels' names (alignN of CUTLASS) say whether it mattered.
 * Needs: operands of cuBLAS's calls, and times of the GPU for what it costs. Cost: a share of the
 * products' time, from NVIDIA's guide (thresholds.h). Main thread only; not for signal handlers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "detect.h"
#include "layout_cost.h"
#include "products.h"
#include "thresholds.h"

/* All of one line's with the same shape. */
struct off {
    int64_t stack;
    const struct ls_product_shape *shape;
    int64_t count, timed, gpu_ns, addresses; /* addresses: calls with one that is off */
    int align;                               /* by the kernel's name, in elements; 0: not told */
    char *kernel;
};

struct looking {
    struct ls_detect *d;
    const struct ls_products *products;
    struct off *at;
    size_t count, room;
    int64_t *call; /* of each product that is off, by number, and which one of `at` it counts to */
    size_t *of;
    size_t calls;
};

static bool off_dimension(const struct ls_product_shape *s) {
    int a = ls_dtype_bytes(s->dtype), b = ls_dtype_bytes(s->dtype_b),
        c = ls_dtype_bytes(s->dtype_c);
    return (s->lda * a) % LS_ALIGN_BYTES || (s->ldb * (b ? b : a)) % LS_ALIGN_BYTES ||
           (s->ldc * (c ? c : a)) % LS_ALIGN_BYTES;
}

static bool off_address(const struct ls_product_call *call) {
    bool off = false;
    for (int m = 0; m < LS_PRODUCT_MATRICES && !call->arrays; m++)
        off |= call->address[m] % LS_ALIGN_BYTES != 0;
    return off;
}

/* A matrix times a vector reads each element once: memory is what it waits for. */
static bool matters(const struct ls_product_call *call) {
    const struct ls_product_shape *s = call->shape;
    int bytes = ls_dtype_bytes(s->dtype);
    if ((bytes != 1 && bytes != 2) || s->m == 1 || s->n == 1)
        return false;
    return call->gpu_ns >= 0 ? call->gpu_ns > LS_GEMM_SMALL_NS
                             : ls_product_flops(s) > LS_GEMM_SMALL_FLOPS;
}

static size_t of(struct looking *look, const struct ls_product_call *call) {
    for (size_t i = 0; i < look->count; i++)
        if (look->at[i].stack == call->stack && look->at[i].shape == call->shape)
            return i;
    look->at = ls_room(look->at, look->count, &look->room, sizeof *look->at);
    look->at[look->count] = (struct off){.stack = call->stack, .shape = call->shape};
    return look->count++;
}

static void gather(struct looking *look) {
    const struct ls_products *p = look->products;
    look->call = ls_new(p->calls, sizeof *look->call);
    look->of = ls_new(p->calls, sizeof *look->of);
    for (size_t i = 0; i < p->calls; i++) {
        const struct ls_product_call *call = &p->call[i];
        bool address = off_address(call);
        if (!matters(call) || !(address || off_dimension(call->shape)))
            continue;
        size_t at = of(look, call);
        struct off *off = &look->at[at];
        off->count++;
        off->addresses += address;
        off->timed += call->gpu_ns >= 0;
        off->gpu_ns += call->gpu_ns >= 0 ? call->gpu_ns : 0;
        look->call[look->calls] = call->call;
        look->of[look->calls++] = at;
    }
}

/* The kernels' names, of the first call of each: "..._align1", "..._align4". */
static int read_kernels(struct looking *look) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        look->d->db,
        "SELECT name, short FROM gpu_work AS w JOIN kernel ON kernel.id = w.v0"
        " WHERE w.under = ? AND w.kind = 1 ORDER BY end_ns - start_ns DESC LIMIT 1",
        -1, &stmt, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < look->calls; i++) {
        struct off *off = &look->at[look->of[i]];
        if (off->kernel)
            continue;
        sqlite3_bind_int64(stmt, 1, look->call[i]);
        if (sqlite3_step(stmt) == SQLITE_ROW) {
            const char *name = (const char *)sqlite3_column_text(stmt, 0);
            const char *align = name ? strstr(name, "align") : NULL;
            off->kernel = ls_copied(name ? (const char *)sqlite3_column_text(stmt, 1) : "unknown");
            off->align = align ? atoi(align + strlen("align")) : 0;
        }
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* "lda 50257, ldc 50257" */
static void list_off(char *text, size_t size, const struct off *off) {
    const struct ls_product_shape *s = off->shape;
    int a = ls_dtype_bytes(s->dtype), b = ls_dtype_bytes(s->dtype_b),
        c = ls_dtype_bytes(s->dtype_c);
    const struct {
        const char *name;
        int64_t value;
        int bytes;
    } all[] = {{"lda", s->lda, a}, {"ldb", s->ldb, b ? b : a}, {"ldc", s->ldc, c ? c : a}};
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && used < size; i++)
        if (all[i].value * all[i].bytes % LS_ALIGN_BYTES)
            used += (size_t)snprintf(text + used, size - used, "%s%s %lld", used ? ", " : "",
                                     all[i].name, (long long)all[i].value);
    if (off->addresses && used < size)
        snprintf(text + used, size - used, "%san address", used ? ", " : "");
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct off *off) {
    const struct ls_product_shape *s = off->shape;
    struct ls_human count, ns;
    char list[120];
    int elements = LS_ALIGN_BYTES / ls_dtype_bytes(s->dtype);
    list_off(list, sizeof list, off);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = off->count;
    f->time_ns = off->gpu_ns;
    /* A kernel that was made for full pieces lost nothing by it. */
    bool cost = off->align == 0 || off->align < elements;
    f->gain_ns = cost ? (int64_t)((double)off->gpu_ns * LS_MISALIGNED_GAIN) : 0;
    f->severity = ls_severity_of(d, f->gain_ns);
    f->site = ls_site_of(d->db, off->stack);
    f->title =
        ls_format("%s %s of %lld x %lld x %lld in %s off 16 bytes (%s)%s%s%s",
                  ls_human_count(&count, off->count), ls_plural(off->count, "product", "products"),
                  (long long)s->m, (long long)s->n, (long long)s->k, s->dtype, list,
                  off->timed ? ": " : "", off->timed ? ls_human_ns(&ns, off->gpu_ns) : "",
                  off->align && cost ? ", by a kernel for smaller pieces" : "");
    f->advice = ls_format(
        "Pad what is off to the next multiple of %d elements: a vocabulary of 50,257 "
        "to 50,304, channels and hidden sizes likewise; rows of zeros change no result. "
        "%sSlices of a larger tensor that begin or have rows off that multiple are "
        "better taken at one, or made contiguous once.",
        elements, off->addresses && !off_dimension(s) ? "Here only addresses are off. " : "");
    json_object_set_new(
        f->evidence, "why",
        json_string("Tensor Cores are fed by loads of 16 bytes; what does not begin at "
                    "such a multiple takes more and smaller ones, or other kernels."));
    ls_finding_basis(
        f, off->timed > 0, "GPU",
        "padding saves three tenths of the products' time, which NVIDIA's Deep Learning "
        "Performance Guide has between a fifth and two thirds");
    json_object_set_new(f->evidence, "confidence", json_string("estimated"));
    json_object_update_new(f->evidence,
                           json_pack("{s:o, s:s, s:I, s:i, s:o, s:i}", "product",
                                     ls_product_json(s), "off", list, "addresses_off",
                                     (json_int_t)off->addresses, "multiple", elements, "kernel",
                                     off->kernel ? ls_json_text(off->kernel) : json_null(),
                                     "kernel_align", off->align));
    if (off->timed)
        ls_finding_gpu_share(d, f, off->gpu_ns);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d};
    if (!ls_operands_told(d, self->kind))
        return SQLITE_OK;
    look.products = ls_detect_products(d);
    if (!look.products)
        return SQLITE_ERROR;
    gather(&look);
    int rc = read_kernels(&look);
    for (size_t i = 0; i < look.count; i++) {
        if (rc == SQLITE_OK)
            add(d, self, &look.at[i]);
        free(look.at[i].kernel);
    }
    free(look.at);
    free(look.call);
    free(look.of);
    return rc;
}

const struct ls_detector ls_detect_misaligned = {"misaligned", run};
