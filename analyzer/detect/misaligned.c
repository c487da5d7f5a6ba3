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

/* One line's products of one type and shape, or of all shapes: a finding. */
struct off {
    int64_t stack;
    const struct ls_product_shape *shape; /* of a line the one that costs most */
    size_t line;
    int64_t count, timed, gpu_ns, gain_ns;
    int64_t addresses, dimensions; /* calls with one that is off */
    int align;                     /* by the kernel's name, in elements; 0: not told */
    char *kernel;                  /* a line's: its shape's */
    int64_t shapes, shape_gain_ns; /* a line's: how many, and what the shown one costs */
};

struct looking {
    struct ls_detect *d;
    const struct ls_products *products;
    struct ls_product_lines lines;
    struct off *at; /* by part's number */
    size_t room;
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
    size_t known = look->lines.parts.count;
    struct ls_product_place place = ls_product_place(&look->lines, call);
    if (place.part == known) {
        look->at = ls_room(look->at, known, &look->room, sizeof *look->at);
        look->at[known] =
            (struct off){.stack = call->stack, .shape = call->shape, .line = place.line};
    }
    return place.part;
}

static void gather(struct looking *look) {
    const struct ls_products *p = look->products;
    look->call = ls_new(p->calls, sizeof *look->call);
    look->of = ls_new(p->calls, sizeof *look->of);
    for (size_t i = 0; i < p->calls; i++) {
        const struct ls_product_call *call = &p->call[i];
        bool address = off_address(call), dimension = off_dimension(call->shape);
        if (!matters(call) || !(address || dimension))
            continue;
        size_t at = of(look, call);
        struct off *off = &look->at[at];
        off->count++;
        off->addresses += address;
        off->dimensions += dimension;
        off->timed += call->gpu_ns >= 0;
        off->gpu_ns += call->gpu_ns >= 0 ? call->gpu_ns : 0;
        look->call[look->calls] = call->call;
        look->of[look->calls++] = at;
    }
}

/* The kernels' names, of the first call of each: "..._align1", "..._align4". */
static int read_kernels(struct looking *look) {
    sqlite3_stmt *stmt = NULL;
    if (ls_kernels_ns(look->d) == 0)
        return SQLITE_OK;
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

static int elements_of(const struct off *off) {
    return LS_ALIGN_BYTES / ls_dtype_bytes(off->shape->dtype);
}

/* A kernel that was made for full pieces lost nothing by it. */
static bool costs(const struct off *off) {
    return off->align == 0 || off->align < elements_of(off);
}

/* To the line's. */
static void add_shape(struct off *line, struct off *off) {
    off->gain_ns = costs(off) ? (int64_t)((double)off->gpu_ns * LS_MISALIGNED_GAIN) : 0;
    if (!line->shape ||
        ls_product_heavier(off->gain_ns, off->shape, line->shape_gain_ns, line->shape)) {
        line->stack = off->stack;
        line->shape = off->shape;
        line->align = off->align;
        line->kernel = off->kernel;
        line->shape_gain_ns = off->gain_ns;
    }
    line->shapes++;
    line->count += off->count;
    line->timed += off->timed;
    line->gpu_ns += off->gpu_ns;
    line->gain_ns += off->gain_ns;
    line->addresses += off->addresses;
    line->dimensions += off->dimensions;
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

static char *title_of(const struct off *line, const char *list) {
    struct ls_human count, ns;
    char *words = ls_product_words(line->shape, line->shapes);
    char *title =
        ls_format("%s %s of %s in %s off 16 bytes (%s)%s%s%s", ls_human_count(&count, line->count),
                  ls_plural(line->count, "product", "products"), words, line->shape->dtype, list,
                  line->timed ? ": " : "", line->timed ? ls_human_ns(&ns, line->gpu_ns) : "",
                  line->align && costs(line) ? ", by a kernel for smaller pieces" : "");
    free(words);
    return title;
}

static char *advice_of(const struct off *line) {
    return ls_format(
        "Pad what is off to the next multiple of %d elements: a vocabulary of 50,257 "
        "to 50,304, channels and hidden sizes likewise; rows of zeros change no result. "
        "%s%sSlices of a larger tensor that begin or have rows off that multiple are "
        "better taken at one, or made contiguous once.",
        elements_of(line), line->dimensions ? "" : "Here only addresses are off. ",
        line->shapes > 1 && line->dimensions
            ? "Where a size changes from call to call, allocate its rows at the next "
              "multiple and use a part of each. "
            : "");
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct off *line) {
    char list[120];
    list_off(list, sizeof list, line);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = line->count;
    f->time_ns = line->gpu_ns;
    f->gain_ns = line->gain_ns;
    f->severity = ls_severity_of(d, f->gain_ns);
    f->site = ls_site_of(d->db, line->stack);
    f->title = title_of(line, list);
    f->advice = advice_of(line);
    json_object_set_new(
        f->evidence, "why",
        json_string("Tensor Cores are fed by loads of 16 bytes; what does not begin at "
                    "such a multiple takes more and smaller ones, or other kernels."));
    ls_finding_basis(
        f, line->timed > 0, "GPU",
        "padding saves three tenths of the products' time, which NVIDIA's Deep Learning "
        "Performance Guide has between a fifth and two thirds");
    json_object_set_new(f->evidence, "confidence", json_string("estimated"));
    json_object_update_new(
        f->evidence,
        json_pack("{s:o, s:I, s:s, s:I, s:i, s:o, s:i}", "product", ls_product_json(line->shape),
                  "shapes", (json_int_t)line->shapes, "off", list, "addresses_off",
                  (json_int_t)line->addresses, "multiple", elements_of(line), "kernel",
                  line->kernel ? ls_json_text(line->kernel) : json_null(), "kernel_align",
                  line->align));
    if (line->timed)
        ls_finding_gpu_share(d, f, line->gpu_ns);
}

static void add_lines(struct looking *look, const struct ls_detector *self) {
    struct off *line = ls_new(look->lines.lines.count, sizeof *line);
    for (size_t i = 0; i < look->lines.parts.count; i++)
        add_shape(&line[look->at[i].line], &look->at[i]);
    for (size_t i = 0; i < look->lines.lines.count; i++)
        add(look->d, self, &line[i]);
    free(line);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d, .lines.sites.db = d->db};
    if (!ls_operands_told(d, self->kind))
        return SQLITE_OK;
    look.products = ls_detect_products(d);
    if (!look.products)
        return SQLITE_ERROR;
    gather(&look);
    int rc = read_kernels(&look);
    if (rc == SQLITE_OK)
        add_lines(&look, self);
    for (size_t i = 0; i < look.lines.parts.count; i++)
        free(look.at[i].kernel);
    free(look.at);
    free(look.call);
    free(look.of);
    ls_product_lines_free(&look.lines);
    return rc;
}

const struct ls_detector ls_detect_misaligned = {"misaligned", run};
