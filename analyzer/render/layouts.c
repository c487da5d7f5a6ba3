/*
 * layouts.c - layouts of library calls' operands, and conversions, as text. See layouts.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "layouts.h"

#include <stdlib.h>
#include <string.h>

#include "../ending.h"
#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "render.h"

/* What a screen takes. */
#define CHANGES_SHOWN 8
#define SITES_SHOWN 10
#define SHAPES_SHOWN 2 /* different ones of one operand */
#define COPIERS_SHOWN 6

static void bold(FILE *out, const char *text) {
    ls_term_style(out, LS_BOLD);
    fputs(text, out);
    ls_term_style(out, LS_PLAIN);
}

static void dim(FILE *out, const char *text) {
    ls_term_style(out, LS_DIM);
    fputs(text, out);
    ls_term_style(out, LS_PLAIN);
}

/* "  12.3 ms   4.1 %", or as many blanks where no time is known. */
static void put_time(const struct ls_layouts *l, int64_t ns, FILE *out) {
    struct ls_human time;
    if (ns == LS_NO_TIME) {
        fprintf(out, "%10s %7s", "-", "");
        return;
    }
    fprintf(out, "%10s ", ls_human_ns(&time, ns));
    if (l->kernel_ns > 0)
        fprintf(out, "%5.1f %%", 100.0 * (double)ns / (double)l->kernel_ns);
    else
        fprintf(out, "%7s", "");
}

static void put_rest(size_t count, size_t shown, const char *what, FILE *out) {
    struct ls_human more;
    if (count > shown)
        fprintf(out, "  and %s more %s; --all shows them\n",
                ls_human_count(&more, (int64_t)(count - shown)), what);
}

static void put_changes(const struct ls_layouts *l, size_t most, FILE *out) {
    struct ls_human count;
    const char *why = l->no_times && *l->no_times ? l->no_times : "CUPTI was not there";
    bold(out, "Conversions of layouts");
    if (l->changes == 0) {
        fputs(": none was seen", out);
        if (!l->timed)
            fprintf(out, ", but those inside libraries show with CUPTI alone (%s)", why);
        fputs(".\n\n", out);
        return;
    }
    if (l->timed)
        fputs(", by GPU time and its share of all kernels'\n", out);
    else
        ls_render_wrapped(out, ", without GPU times: ", "  ", why, ls_term_width(out));
    for (size_t i = 0; i < l->changes && i < most; i++) {
        const struct ls_layout_change *c = &l->change[i];
        put_time(l, c->gpu_ns, out);
        fprintf(out, " %8s x  %s -> %s  %s", ls_human_count(&count, c->count), c->from, c->to,
                c->kernel);
        if (c->under)
            fprintf(out, " in %s", c->under);
        fputs("   ", out);
        dim(out, c->site);
        fputc('\n', out);
    }
    put_rest(l->changes, most, "conversions", out);
    fputc('\n', out);
}

static void put_operand(const struct ls_layout_operand *o, int64_t calls, FILE *out) {
    struct ls_human count;
    fprintf(out, "%19s%-8s %-10s %-12s", "", o->role, o->dtype, o->layout);
    if (o->dims)
        fprintf(out, " %s", o->dims);
    if (o->strides)
        fprintf(out, " strides %s", o->strides);
    if (o->count != calls)
        fprintf(out, ", in %s %s", ls_human_count(&count, o->count),
                ls_plural(o->count, "call", "calls"));
    fputc('\n', out);
}

/* Of each operand the shapes that came most often. */
static void put_operands(const struct ls_layout_site *site, bool all, FILE *out) {
    struct ls_human count;
    size_t most = all ? site->operands : SHAPES_SHOWN;
    for (size_t i = 0, of = 0; i < site->operands; i++) {
        const struct ls_layout_operand *o = &site->operand[i];
        of = i > 0 && o[-1].position == o->position ? of + 1 : 0;
        bool last = i + 1 == site->operands || o[1].position != o->position;
        if (!all && !o->dims && !strcmp(o->role, "workspace"))
            continue;
        if (of < most || (last && of == most)) /* one more takes no more room than its number */
            put_operand(o, site->calls, out);
        else if (last)
            fprintf(out, "%19s%-8s %s other %s\n", "", o->role,
                    ls_human_count(&count, (int64_t)(of + 1 - most)),
                    ls_plural((int64_t)(of + 1 - most), "shape", "shapes"));
    }
}

static void put_sites(const struct ls_layouts *l, bool all, FILE *out) {
    struct ls_human count;
    size_t most = all ? l->sites : SITES_SHOWN;
    bold(out, "Library calls by site, and what they were given\n");
    for (size_t i = 0; i < l->sites && i < most; i++) {
        const struct ls_layout_site *site = &l->site[i];
        put_time(l, site->gpu_ns, out);
        fprintf(out, " %s x %s", ls_human_count(&count, site->calls), site->api);
        if (site->operator)
            fprintf(out, " of %s", site->operator);
        fputs("   ", out);
        dim(out, site->site);
        fputc('\n', out);
        put_operands(site, all, out);
    }
    put_rest(l->sites, most, "sites", out);
}

static void put_copiers(const struct ls_layouts *l, size_t most, FILE *out) {
    struct ls_human count, changed;
    if (l->copiers == 0)
        return;
    bold(out, "\nCopies and casts by kernels, by operator\n");
    for (size_t i = 0; i < l->copiers && i < most; i++) {
        const struct ls_layout_copier *c = &l->copier[i];
        put_time(l, c->gpu_ns, out);
        fprintf(out, " %8s x  %s", ls_human_count(&count, c->count), c->operator);
        if (c->changed)
            fprintf(out, ", %s of them to another layout", ls_human_count(&changed, c->changed));
        fputc('\n', out);
    }
    put_rest(l->copiers, most, "operators", out);
}

static void put_replays(const struct ls_layouts *l, FILE *out) {
    struct ls_human count, ns;
    char text[300], took[60] = "";
    if (l->graph_launches == 0)
        return;
    if (l->graph_ns > 0)
        snprintf(took, sizeof took, ", in %s of the GPU", ls_human_ns(&ns, l->graph_ns));
    snprintf(
        text, sizeof text,
        "%s %s again what was captured%s. Calls and operators count that once here, "
        "conversions %s.",
        ls_human_count(&count, l->graph_launches),
        ls_plural(l->graph_launches, "launch of a CUDA graph ran", "launches of CUDA graphs ran"),
        took, l->timed ? "as often as their kernels were seen to run" : "not at all");
    fputc('\n', out);
    ls_render_wrapped(out, "", "", text, ls_term_width(out));
}

void ls_render_layouts(const struct ls_trace *trace, const struct ls_layouts *l, bool all,
                       FILE *out) {
    char *program = ls_query_meta(trace->db, "cmdline"), text[1000];
    struct ls_human time, share;
    ls_render_incomplete(trace, out);
    bold(out, trace->path);
    snprintf(text, sizeof text, "%.800s", program ? program : "program unknown");
    ls_render_wrapped(out, ": ", "  ", text, ls_term_width(out));
    if (l->kernel_ns > 0)
        fprintf(out, "Kernels took %s of GPU time, conversions of layouts %s of it.\n\n",
                ls_human_ns(&time, l->kernel_ns),
                l->change_ns == LS_NO_TIME ? "none" : ls_human_ns(&share, l->change_ns));
    else
        fputs("No kernel's GPU time is in this trace.\n\n", out);
    if (l->sites == 0) {
        fputs("No library call is in this trace.\n\n", out);
        put_changes(l, all ? l->changes : CHANGES_SHOWN, out);
    } else {
        put_changes(l, all ? l->changes : CHANGES_SHOWN, out);
        put_sites(l, all, out);
        if (!l->told)
            fputs("  Their operands were not recorded (LAYOUTSPY_LAYOUTS=off).\n", out);
    }
    put_copiers(l, all ? l->copiers : COPIERS_SHOWN, out);
    put_replays(l, out);
    free(program);
}
