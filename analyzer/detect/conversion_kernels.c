/*
 * conversion_kernels.c - `conversion-kernels`: a library that was called converts layouts by
 * kernels of its own, before and after the one that computes; by function and line. What its
 * descriptors said tells whose choice that was.
 *
 * Needs: kernels' names; times where CUPTI gave them. Cost: all of the conversions' time. What
 * frameworks copy outside of library calls is not looked at here. Main thread only; not for signal
 * handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "detect.h"
#include "layout_cost.h"
#include "thresholds.h"

enum whose {
    NOT_KNOWN,
    LIBRARY, /* it was given channels last throughout, and converts all the same */
    TENSORS, /* it was given channels first throughout */
    MIXED,   /* some of both */
    PROGRAM, /* the call is a conversion: the program asked for it */
    NO_CALL, /* no library call is seen around them */
};

static const char *const whose_name[] = {"not known", "library", "tensors",
                                         "mixed",     "program", "no call"};

/* All conversions under one function at one site. */
struct group {
    char *site, *under; /* under NULL: no library call around them */
    int64_t count, ns, launches, to_nhwc, to_nchw;
    bool timed;
    enum whose whose;
    char *kernel; /* with most of the time */
    int64_t kernel_ns;
    json_t *rows, *descriptors;
};

struct groups {
    struct group *at;
    size_t count, room;
};

static bool equal(const char *x, const char *y) {
    return x && y ? strcmp(x, y) == 0 : x == y;
}

static struct group *group_of(struct groups *all, const char *site, const char *under) {
    for (size_t i = 0; i < all->count; i++)
        if (equal(all->at[i].site, site) && equal(all->at[i].under, under))
            return &all->at[i];
    all->at = ls_room(all->at, all->count, &all->room, sizeof *all->at);
    struct group *made = &all->at[all->count++];
    *made = (struct group){.site = ls_copied(site),
                           .under = under ? ls_copied(under) : NULL,
                           .rows = json_array(),
                           .descriptors = json_array()};
    return made;
}

/* ---- reading ---- */

static void take_row(struct groups *all, sqlite3_stmt *stmt) {
    const char *kernel = (const char *)sqlite3_column_text(stmt, 0);
    const char *from = (const char *)sqlite3_column_text(stmt, 3);
    const char *to = (const char *)sqlite3_column_text(stmt, 4);
    const char *site = (const char *)sqlite3_column_text(stmt, 6);
    int64_t count = sqlite3_column_int64(stmt, 1), ns = sqlite3_column_int64(stmt, 2);
    bool timed = sqlite3_column_type(stmt, 2) != SQLITE_NULL;
    struct group *g =
        group_of(all, site ? site : LS_SITE_UNKNOWN, (const char *)sqlite3_column_text(stmt, 5));
    if (!timed)
        ns = count * LS_KERNEL_NS;
    g->count += count;
    g->ns += ns;
    g->timed |= timed;
    g->launches += sqlite3_column_int64(stmt, 7);
    g->to_nhwc += equal(to, "nhwc") && !equal(from, "nhwc") ? count : 0;
    g->to_nchw += equal(to, "nchw") ? count : 0;
    if (!g->kernel || ns > g->kernel_ns) {
        free(g->kernel);
        g->kernel = ls_copied(kernel ? kernel : "unknown");
        g->kernel_ns = ns;
    }
    if (json_array_size(g->rows) < LS_ROWS_SHOWN)
        json_array_append_new(g->rows, json_pack("{s:o, s:o, s:o, s:I, s:o}", "kernel",
                                                 ls_json_text(kernel ? kernel : "unknown"), "from",
                                                 ls_json_text(from ? from : "unknown"), "to",
                                                 ls_json_text(to ? to : "unknown"), "count",
                                                 (json_int_t)count, "gpu_ns",
                                                 timed ? json_integer(ns) : json_null()));
}

static int read_rows(struct groups *all, struct ls_detect *d) {
    sqlite3_stmt *stmt = NULL;
    bool told = false; /* copy-dominated tells of those that no call is around */
    for (size_t i = 0; i < d->finding_count; i++)
        told |= !strcmp(d->finding[i].kind, "copy-dominated");
    int rc = sqlite3_prepare_v2(
        d->db,
        "SELECT short, count, gpu_ns, from_layout, to_layout, under_call, site, launches"
        " FROM layout_conversion AS c WHERE under_call NOT NULL OR (?1 = 0 AND EXISTS"
        "   (SELECT 1 FROM kernel_layout AS k WHERE k.kernel = c.kernel_id AND k.change = 'layout'))"
        " ORDER BY gpu_ns DESC",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_int(stmt, 1, told);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        take_row(all, stmt);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* How the images lay that calls with conversions inside were told of: one row for each different
 * set of layouts of a site and function. */
static const char descriptors_sql[] =
    "WITH held AS (SELECT DISTINCT under_id AS id FROM conversion_run WHERE under_id NOT NULL),"
    " one AS (SELECT h.id AS id, role.name || ' ' || CASE WHEN s.ambiguous AND s.layout <> 'none'"
    "     THEN 'nchw or nhwc' ELSE COALESCE(s.layout, 'unknown') END || ' ' ||"
    "     COALESCE(s.dtype, '') AS said,"
    "     CASE WHEN s.ambiguous THEN NULL ELSE s.layout END AS layout, s.dtype AS dtype"
    "   FROM held AS h JOIN operand AS o ON o.call = h.id JOIN role ON role.id = o.role"
    "     JOIN shape AS s ON s.id = o.shape WHERE role.images AND s.kind = 'tensor'"
    "     AND json_array_length(s.dims) BETWEEN 4 AND 5 ORDER BY o.call, o.position),"
    " calls AS (SELECT id, group_concat(said, ', ') AS said, SUM(layout = 'nchw') AS nchw,"
    "     SUM(layout = 'nhwc') AS nhwc, SUM(layout NOT IN ('nchw', 'nhwc')) AS other FROM one"
    "     GROUP BY id)"
    " SELECT COALESCE((SELECT site FROM stack_site WHERE stack_site.id = c.stack),"
    "     '" LS_SITE_UNKNOWN "') AS site, (SELECT name FROM api WHERE api.id = c.api) AS api, said,"
    "     COUNT(*), MAX(nchw > 0), MAX(nhwc > 0), MAX(other > 0)"
    " FROM calls JOIN call AS c ON c.id = calls.id GROUP BY 1, 2, 3 ORDER BY 4 DESC";

static void take_descriptors(struct group *g, sqlite3_stmt *stmt) {
    bool nchw = sqlite3_column_int(stmt, 4), nhwc = sqlite3_column_int(stmt, 5);
    enum whose whose = sqlite3_column_int(stmt, 6) || (!nchw && !nhwc) ? NOT_KNOWN
                       : nchw && nhwc                                  ? MIXED
                       : nhwc                                          ? LIBRARY
                                                                       : TENSORS;
    bool first = json_array_size(g->descriptors) == 0;
    if (first)
        g->whose = whose;
    else if (g->whose != whose && whose != NOT_KNOWN)
        g->whose = g->whose == NOT_KNOWN ? whose : MIXED;
    if (json_array_size(g->descriptors) < LS_ROWS_SHOWN)
        json_array_append_new(g->descriptors,
                              json_pack("{s:o, s:I}", "tensors",
                                        ls_json_text((const char *)sqlite3_column_text(stmt, 2)),
                                        "calls", (json_int_t)sqlite3_column_int64(stmt, 3)));
}

static int read_descriptors(struct groups *all, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, descriptors_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        for (size_t i = 0; i < all->count; i++)
            if (equal(all->at[i].site, (const char *)sqlite3_column_text(stmt, 0)) &&
                equal(all->at[i].under, (const char *)sqlite3_column_text(stmt, 1)))
                take_descriptors(&all->at[i], stmt);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void settle(struct group *g) {
    if (!g->under)
        g->whose = NO_CALL;
    else if (!strncmp(g->under, "cudnnTransform", 14) ||
             !strcmp(g->under, "cublasLtMatrixTransform") || strstr(g->under, "geam"))
        g->whose = PROGRAM;
}

/* ---- the finding ---- */

static char *advice_of(const struct group *g) {
    switch (g->whose) {
    case LIBRARY:
        return ls_copied(
            "The tensors are channels last already; the library has no kernel for these in that "
            "layout, and works in the other one. In float32 without Tensor Cores that is the rule: "
            "use bfloat16 or float16 (autocast), allow TF32, or leave these layers channels first. "
            "In 16 bits look at groups, at channels that are no multiple of 8, and let cuDNN try "
            "its kernels (torch.backends.cudnn.benchmark).");
    case TENSORS:
        return ls_copied(
            "The tensors are channels first, and the kernel that was chosen (Tensor Cores) works "
            "channels last. Keep model and input channels last from the start: "
            "model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last); "
            "in TensorFlow data_format. Where that was asked for already, something in between made "
            "them channels first again (a layout optimiser, a layer without a channels-last kernel). "
            "It helps if the layers around can stay channels last, too; one that cannot moves the "
            "conversions next to it.");
    case MIXED:
        return ls_copied(
            "Input, filter and output, or one call and the next, do not lie alike: see "
            "evidence.descriptors. Give all of them one layout; convert filters once, "
            "when the model is made.");
    case PROGRAM:
        return ls_copied("The program asks for these conversions itself. Make what is converted in "
                         "the layout that its reader wants, or convert it once and keep it.");
    case NO_CALL:
        return ls_copied(
            "No library call is seen around them: an engine's or the program's own "
            "(TensorRT's reformat layers: give inputs and plugins the formats that the "
            "layers around them use, or allow more formats when the engine is built).");
    default:
        return ls_copied(
            "What the tensors of these calls looked like is not known. Keep them in the "
            "layout that the computing kernel wants (channels last for Tensor Cores), "
            "from the start to the end of the network.");
    }
}

static char *direction_of(const struct group *g) {
    struct ls_human there, back;
    if (g->to_nhwc && g->to_nchw)
        return ls_format("%s to nhwc, %s to nchw", ls_human_count(&there, g->to_nhwc),
                         ls_human_count(&back, g->to_nchw));
    return ls_format("%s", g->to_nhwc   ? "all to nhwc"
                           : g->to_nchw ? "all to nchw"
                                        : "layouts not in their names");
}

static void put_why(const struct group *g, struct ls_finding *f) {
    static const char *const why[] = {
        [NOT_KNOWN] = "Each reads and writes a whole tensor and computes nothing.",
        [LIBRARY] = "All images that these calls were given are channels last (nhwc): it is the "
                    "library that converts.",
        [TENSORS] = "All images that these calls were given are channels first (nchw), and the "
                    "library's kernel wants them channels last.",
        [MIXED] = "The images that these calls were given do not lie alike.",
        [PROGRAM] = "The call itself is a conversion.",
        [NO_CALL] = "Each reads and writes a whole tensor and computes nothing."};
    json_object_set_new(f->evidence, "why", json_string(why[g->whose]));
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct group *g) {
    struct ls_human count, ns, share;
    int64_t all = ls_kernels_ns(d);
    const struct ls_finding *mismatch = ls_finding_at(d, "layout-mismatch", g->site);
    bool told = mismatch && g->under &&
                json_is_true(json_object_get(mismatch->evidence, "conversions_are_inside"));
    char *direction = direction_of(g);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = g->count;
    f->time_ns = g->ns;
    f->gain_ns = told ? 0 : g->ns; /* counted there */
    f->severity = g->count < LS_CONVERSIONS ? LS_INFO : ls_severity_of(d, f->gain_ns);
    f->site = ls_copied(g->site);
    f->title = ls_format(
        "%s %s of layouts inside of %s (%s; mostly %s): %s%s%s", ls_human_count(&count, g->count),
        ls_plural(g->count, "conversion", "conversions"),
        g->under ? g->under : "what the program runs", direction, g->kernel,
        ls_human_ns(&ns, g->ns), all && g->timed ? ", of all kernels' time " : "",
        all && g->timed ? ls_human_share(&share, (double)g->ns / (double)all) : "");
    f->advice = advice_of(g);
    put_why(g, f);
    ls_finding_basis(f, g->timed, "GPU",
                     "none of them is needed, and the computing kernel stays as fast");
    if (g->timed)
        ls_finding_gpu_share(d, f, g->ns);
    json_object_update_new(f->evidence,
                           json_pack("{s:o, s:s, s:I, s:I, s:O, s:O}", "under_call",
                                     g->under ? ls_json_text(g->under) : json_null(),
                                     "whose_choice", whose_name[g->whose], "to_nhwc",
                                     (json_int_t)g->to_nhwc, "to_nchw", (json_int_t)g->to_nchw,
                                     "conversions", g->rows, "descriptors", g->descriptors));
    if (told)
        json_object_set_new(f->evidence, "told_by", json_string("layout-mismatch"));
    free(direction);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct groups all = {0};
    if (ls_query_int(d->db, 0,
                     "SELECT 1 FROM call WHERE api IN (SELECT id FROM api WHERE library = 'cudnn'"
                     " AND class = 'library_call') LIMIT 1") &&
        ls_kernels_ns(d) == 0)
        ls_detect_skip(d, self->kind,
                       "no times of kernels are in this trace: what libraries convert inside of "
                       "their calls is not seen");
    int rc = read_rows(&all, d);
    if (rc == SQLITE_OK && all.count)
        rc = read_descriptors(&all, d->db);
    for (size_t i = 0; i < all.count; i++) {
        struct group *g = &all.at[i];
        settle(g);
        if (rc == SQLITE_OK)
            add(d, self, g);
        free(g->site);
        free(g->under);
        free(g->kernel);
        json_decref(g->rows);
        json_decref(g->descriptors);
    }
    free(all.at);
    return rc;
}

const struct ls_detector ls_detect_conversion_kernels = {"conversion-kernels", run};
