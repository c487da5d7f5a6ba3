/*
 * oom.c - an out-of-memory error on one screen, for whoever finds the job dead. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../ending.h"
#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "device_use.h"
#include "held.h"
#include "oom_parts.h"

/* A screen has so many lines; the first of these that fits is shown, or the last. */
#define LINES_SHOWN 40
#define OTHERS_SHOWN 2
#define SAMPLE_WITHIN_NS INT64_C(2000000000) /* of the event: what it tells is of about then */
#define TINY_CHANGE 100                      /* a hundredth of the largest change tells nothing */

static const struct ls_screen levels[] = {
    {.holders = 8, .changes = 4, .storages = 4, .later = 4, .findings = 4, .advised = 4},
    {.holders = 6, .changes = 3, .storages = 3, .later = 3, .findings = 4, .advised = 2},
    {.holders = 5, .changes = 2, .storages = 2, .later = 2, .findings = 3, .advised = 2},
    {.holders = 5, .changes = 2, .storages = 2, .later = 2, .findings = 3, .advised = 1},
    {.holders = 4, .changes = 1, .storages = 1, .later = 1, .findings = 2, .advised = 1},
    {.holders = 4, .changes = 1, .storages = 1, .later = 1, .findings = 1, .advised = 1},
    {.holders = 3, .changes = 1, .storages = 1, .later = 0, .findings = 1, .advised = 1},
};
static const struct ls_screen everything = {LS_EVERY_ROW, LS_EVERY_ROW, LS_EVERY_ROW,
                                            LS_EVERY_ROW, LS_EVERY_ROW, LS_EVERY_ROW};

void ls_screen_say(FILE *out, const char *first, const char *indent, const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text)
        ls_render_wrapped(out, first, indent, text, ls_term_width(out));
    free(text);
}

void ls_screen_more(FILE *out, size_t more, const char *one, const char *many) {
    if (more)
        fprintf(out, "  ... and %zu more %s (-a)\n", more, ls_plural((int64_t)more, one, many));
}

void ls_screen_title(FILE *out, const char *text) {
    ls_term_style(out, LS_BOLD);
    fprintf(out, "%s\n", text);
    ls_term_style(out, LS_PLAIN);
}

/* ---- what happened ---- */

static void put_head(const struct ls_trace *trace, FILE *out) {
    char *program = ls_query_meta(trace->db, "cmdline"), *ending = ls_ending_text(trace->db);
    ls_term_style(out, LS_BOLD);
    fputs(trace->path, out);
    ls_term_style(out, LS_PLAIN);
    ls_screen_say(out, ": ", "  ", "%s; the program %s.", program ? program : "program unknown",
                  ending ? ending : "has no end in the trace");
    free(program);
    free(ending);
}

static void put_when(const struct ls_story *story, FILE *out) {
    struct ls_human when, left;
    char words[80];
    ls_term_style(out, LS_RED);
    fputs(story->oom->recovered ? "SHORT OF MEMORY" : "OUT OF MEMORY", out);
    ls_term_style(out, LS_PLAIN);
    fprintf(out, " on device %d, %s after the start", story->oom->device,
            ls_human_ns(&when, story->oom->ts_ns));
    if (story->holders.step)
        fprintf(out, ", %s step %zu of %zu", story->holders.in_step ? "in" : "after",
                story->holders.step, story->holders.steps);
    fputs(".\n", out);
    if (story->events.count > 1)
        fprintf(out, "  event %zu of %zu (%s)\n", story->number, story->events.count,
                ls_oom_events_words(&story->events, words, sizeof words));
    if (story->cause)
        ls_screen_say(
            out, "  ", "  ",
            "a consequence of event %zu: %s of the step that failed there were still held",
            ls_story_number(story, story->cause->id), ls_human_bytes(&left, story->cause_left));
}

/* The largest ever, or one like many: that is half of the answer. */
static void put_request(const struct ls_story *story, FILE *out) {
    const struct ls_oom_event *oom = story->oom;
    struct ls_human bytes, before;
    char who[80] = "", size[160] = "";
    if (oom->owner)
        snprintf(who, sizeof who, " by %.60s", oom->owner);
    if (!story->largest_site || oom->requested < 0)
        ;
    else if (oom->requested > (int64_t)story->largest_before)
        snprintf(size, sizeof size, " No request before it was larger than %s.",
                 ls_human_bytes(&before, (int64_t)story->largest_before));
    else if (oom->requested == (int64_t)story->largest_before)
        snprintf(size, sizeof size, " Others of that size had been served, none larger.");
    else
        snprintf(size, sizeof size, " Larger ones had been served: up to %s.",
                 ls_human_bytes(&before, (int64_t)story->largest_before));
    ls_screen_say(out, "  ", "  ", "%s asked for%s %s %s%s%s",
                  oom->requested < 0 ? "Memory was" : ls_human_bytes(&bytes, oom->requested), who,
                  ls_oom_event_at(oom), oom->site,
                  oom->recovered ? ": refused at first; a retry succeeded, so the program saw no "
                                   "error."
                                 : ": refused.",
                  size);
}

/* ---- how the device was shared ---- */

static void put_figure(FILE *out, const char *name, int64_t bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void put_figure(FILE *out, const char *name, int64_t bytes, const char *format, ...) {
    struct ls_human human;
    va_list args;
    char text[300], first[64];
    int width = ls_term_width(out);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(first, sizeof first, "  %-16s %11s  ", name,
             bytes < 0 ? "not known" : ls_human_bytes(&human, bytes));
    if (*text)
        ls_render_wrapped(out, first, "                                 ", text, width);
    else
        fprintf(out, "%.*s\n", (int)(strlen(first) - 2), first);
}

static void put_cached(const struct ls_oom_event *oom, FILE *out) {
    struct ls_human hole;
    const char *fits = "";
    if (oom->reserved < 0)
        return;
    if (oom->cached == 0) {
        put_figure(out, "cached", 0, "no free piece in what its allocator has");
        return;
    }
    if (oom->requested >= 0)
        fits = oom->largest_hole < oom->requested ? ", too small for the request"
                                                  : ", large enough for the request";
    if (oom->largest_hole < 0)
        put_figure(out, "cached", oom->cached, "the gap: its allocator has it, nobody uses it");
    else
        put_figure(out, "cached", oom->cached,
                   "the gap: its allocator has it, nobody uses it; the largest hole: %s%s",
                   ls_human_bytes(&hole, oom->largest_hole), fits);
}

static void put_others(const struct ls_story *story, FILE *out) {
    for (size_t i = 0; i < story->others.count && i < OTHERS_SHOWN; i++) {
        const struct ls_other *o = &story->others.other[i];
        const char *slash = strrchr(o->path, '/'); /* it lies beside this trace */
        put_figure(out, i ? "" : "other processes", (int64_t)o->bytes, "pid %" PRId64 ", %s%s%s",
                   o->pid, slash ? slash + 1 : o->path,
                   o->ooms ? "; it ran out of memory, too" : "",
                   o->whole ? "" : " (not all of its recording is there yet)");
    }
    if (story->others.count > OTHERS_SHOWN) {
        int64_t rest = (int64_t)story->others.bytes;
        for (size_t i = 0; i < OTHERS_SHOWN; i++)
            rest -= (int64_t)story->others.other[i].bytes;
        put_figure(out, "", rest, "in %zu more", story->others.count - OTHERS_SHOWN);
    }
}

/* What the device was full of about then, where somebody looked. */
static void put_use(const struct ls_story *story, FILE *out) {
    struct ls_samples samples;
    struct ls_human away;
    char parts[320];
    ls_samples_load(&samples, story->history->db, story->oom->device);
    const struct ls_use *use = ls_samples_near(&samples, story->oom->ts_ns, SAMPLE_WITHIN_NS);
    if (use) {
        int64_t ns = use->ts_ns - story->oom->ts_ns;
        put_figure(out, "in use", use->used, "%s %s: %s", ls_human_ns(&away, ns < 0 ? -ns : ns),
                   ns < 0 ? "before" : "later",
                   ls_render_use_parts(&samples, use, parts, sizeof parts));
    }
    ls_samples_free(&samples);
}

static void put_figures(const struct ls_story *story, FILE *out) {
    const struct ls_oom_event *oom = story->oom;
    struct ls_human blocks, share;
    uint64_t count = 0;
    char in_use[64] = "";
    for (size_t i = 0; i < story->state.holders; i++)
        count += story->state.holder[i].blocks;
    put_figure(out, "capacity", oom->device_total, "%s",
               oom->device_total < 0 ? "the program never asked the driver" : "");
    if (oom->reserved >= 0 && oom->device_total > 0)
        put_figure(out, "reserved", oom->reserved, "by its allocator: %s of the device",
                   ls_human_share(&share, (double)oom->reserved / (double)oom->device_total));
    else if (oom->reserved >= 0)
        put_figure(out, "reserved", oom->reserved, "by its allocator");
    if (count)
        snprintf(in_use, sizeof in_use, "in %s %s", ls_human_count(&blocks, (int64_t)count),
                 ls_plural((int64_t)count, "block", "blocks"));
    put_figure(out, "allocated", oom->allocated, "%s", in_use);
    if (oom->pending > 0)
        put_figure(out, "pending", oom->pending,
                   "given back, but work of other streams was not known to be done with it");
    put_cached(oom, out);
    if (story->state.direct)
        put_figure(out, "beside it", (int64_t)story->state.direct,
                   "this process's, but not its allocator's");
    put_others(story, out);
    if (story->unaccounted > 0)
        put_figure(out, "not recorded", story->unaccounted,
                   "contexts, libraries' own memory, processes that were not recorded");
    put_figure(out, "free", oom->device_free, "%s",
               oom->device_free < 0 ? "nobody asked the driver at that moment"
                                    : "as the driver said at that moment");
    put_use(story, out);
}

/* ---- who, and what changed ---- */

static void put_holders(const struct ls_story *story, size_t most, FILE *out) {
    if (story->holders.count == 0)
        ls_screen_say(out, "  ", "  ",
                      "Nobody whom the recording knows held memory on this device then.");
    else
        ls_render_holders(&story->holders, most, out);
}

/* Says in the same line how much of the list is left out: a screen has few. */
static void put_list_title(FILE *out, const char *what, size_t lines, size_t most) {
    char title[200];
    size_t more = lines > most ? lines - most : 0;
    if (more)
        snprintf(title, sizeof title, "%s (... and %zu more %s: -a):", what, more,
                 ls_plural((int64_t)more, "line", "lines"));
    else
        snprintf(title, sizeof title, "%s:", what);
    ls_screen_title(out, title);
}

static void put_change(const struct ls_holders *h, const struct ls_holder_entry *e, FILE *out) {
    struct ls_human bytes, part;
    char first[64], amount[48], where[64] = "";
    snprintf(amount, sizeof amount, "+%s", ls_human_bytes(&bytes, e->change));
    snprintf(first, sizeof first, "  %11s  ", amount);
    if (h->since_step == h->step || e->in_step <= 0)
        ;
    else if (e->in_step >= e->change)
        snprintf(where, sizeof where, ", all of it since step %zu", h->step);
    else
        snprintf(where, sizeof where, ", %s of it since step %zu",
                 ls_human_bytes(&part, e->in_step), h->step);
    ls_screen_say(out, first, "               ", "%s%s", e->site, where);
}

static void put_changes(const struct ls_holders *h, size_t most, FILE *out) {
    char title[100];
    int64_t least = h->changed_count ? h->holder[h->changed[0]].change / TINY_CHANGE : 0;
    bool in_steps = h->since_step < h->step;
    size_t count = 0;
    if (h->since_step == 0)
        return;
    if (in_steps)
        snprintf(title, sizeof title, "What grew since step %zu began, %zu %s before",
                 h->since_step, h->step - h->since_step,
                 ls_plural((int64_t)(h->step - h->since_step), "step", "steps"));
    else
        snprintf(title, sizeof title, "What grew since step %zu began", h->step);
    while (count < h->changed_count && h->holder[h->changed[count]].change >= least)
        count++;
    put_list_title(out, title, count, most);
    for (size_t i = 0; i < count && i < most; i++)
        put_change(h, &h->holder[h->changed[i]], out);
    if (h->changed_count == 0)
        fputs("  nothing\n", out);
}

static void put_group(const struct ls_storage_group *g, FILE *out) {
    struct ls_human bytes, tensors, graph;
    char first[32], behind[80] = "";
    snprintf(first, sizeof first, "  %11s  ", ls_human_bytes(&bytes, (int64_t)g->bytes));
    if (g->held_by_graph)
        snprintf(behind, sizeof behind, "; autograd's graph behind %s holds %s more",
                 g->tensors > 1 ? "them" : "it", ls_human_bytes(&graph, (int64_t)g->held_by_graph));
    ls_screen_say(out, first, "               ", "%s%s: %s %s%s",
                  *g->pattern ? g->pattern : "no path leads to it",
                  g->paths > (int64_t)g->storages ? ", and by other paths" : "",
                  ls_human_count(&tensors, (int64_t)g->tensors),
                  ls_plural((int64_t)g->tensors, "tensor", "tensors"), behind);
}

static void put_storages(const struct ls_story *story, size_t most, FILE *out) {
    const struct ls_census *c = &story->census;
    struct ls_storage_group *group;
    size_t groups = ls_census_groups(c, NULL, NULL, &group);
    char title[120], when[48] = "";
    if (c->oom && story->oom && c->oom != story->oom->id)
        snprintf(when, sizeof when, " at event %zu", ls_story_number(story, c->oom));
    snprintf(title, sizeof title, "Python objects that held most%s%s", when,
             c->state == LS_CENSUS_CUT ? " (the census was cut short)" : "");
    put_list_title(out, title, groups, most);
    for (size_t i = 0; i < groups && i < most; i++)
        put_group(&group[i], out);
    ls_census_groups_free(group, groups);
}

static void put_census(const struct ls_story *story, sqlite3 *db, size_t most, FILE *out) {
    const struct ls_census *c = &story->census;
    if (story->has_census && c->state == LS_CENSUS_FAILED)
        ls_screen_say(out, "", "  ", "No census of Python's objects: %s.",
                      c->detail ? c->detail : "it could not run");
    else if (story->has_census && c->storages)
        put_storages(story, most, out);
    else if (story->has_census)
        ls_screen_say(out, "", "  ", "The census of Python's objects found no tensor on a device.");
    else if (ls_query_int(db, 0, "SELECT EXISTS(SELECT 1 FROM census)"))
        ls_screen_say(out, "", "  ",
                      "No census of Python's objects at this event; there is one of another.");
    else if (ls_query_int(db, 0, "SELECT EXISTS(SELECT 1 FROM frame WHERE kind = 1)"))
        ls_screen_say(out, "", "  ",
                      "No census of Python's objects: it had not run when the recording ended.");
}

/* ---- the other events ---- */

static void put_later(const struct ls_story *story, size_t most, FILE *out) {
    for (size_t i = 0; i < story->after_count && i < most; i++) {
        const struct ls_aftermath *a = &story->after[i];
        struct ls_human bytes, later, left;
        char why[120] = "";
        if (a->consequence)
            snprintf(why, sizeof why, "; a consequence: %s of the failed step were still there",
                     ls_human_bytes(&left, a->outlived));
        ls_screen_say(out, "  ", "    ", "%s later: %s %s %s%s",
                      ls_human_ns(&later, a->oom->ts_ns - story->oom->ts_ns),
                      ls_human_bytes(&bytes, a->oom->requested), ls_oom_event_at(a->oom),
                      a->oom->site, why);
    }
    ls_screen_more(out, story->after_count > most ? story->after_count - most : 0, "error",
                   "errors");
}

void ls_screen_stalls(const struct ls_story *story, FILE *out) {
    const struct ls_oom_event *worst = NULL;
    struct ls_human bytes, time;
    size_t count = 0;
    int64_t spent = 0;
    for (size_t i = 0; i < story->events.count; i++) {
        const struct ls_oom_event *oom = &story->events.oom[i];
        if (!oom->recovered || oom == story->oom)
            continue;
        if (!worst || oom->requested > worst->requested)
            worst = oom;
        spent +=
            (oom->flush_ns > 0 ? oom->flush_ns : 0) + (oom->waited_ns > 0 ? oom->waited_ns : 0);
        count++;
    }
    if (count)
        ls_screen_say(out, "", "  ",
                      "%zu %s%s refused at first and served on a retry (a stall, no error), %s in "
                      "all; the largest: %s %s %s.",
                      count, story->oom ? "other " : "",
                      ls_plural((int64_t)count, "request was", "requests were"),
                      ls_human_ns(&time, spent), ls_human_bytes(&bytes, worst->requested),
                      ls_oom_event_at(worst), worst->site);
}

static void put_after(const struct ls_story *story, size_t most, FILE *out) {
    if (story->after_count) {
        ls_screen_title(out, "Errors after this one:");
        put_later(story, most, out);
    }
    ls_screen_stalls(story, out);
}

/* ---- the whole ---- */

static int put_screen(const struct ls_trace *trace, const struct ls_story *story,
                      const struct ls_screen *screen, FILE *out) {
    ls_render_incomplete(trace, out);
    put_head(trace, out);
    if (!story->oom)
        return ls_screen_none(trace, story, screen, out);
    put_when(story, out);
    put_request(story, out);
    put_figures(story, out);
    ls_screen_tried(story->oom, out);
    put_holders(story, screen->holders, out);
    put_changes(&story->holders, screen->changes, out);
    put_census(story, trace->db, screen->storages, out);
    put_after(story, screen->later, out);
    return ls_screen_advice(trace, story, screen, out);
}

/* Lines that it would take, as no terminal: as wide as one, or nearly. */
static int count_lines(const struct ls_trace *trace, const struct ls_story *story,
                       const struct ls_screen *screen) {
    char *text = NULL;
    size_t size;
    int lines = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return 0;
    put_screen(trace, story, screen, out);
    fclose(out);
    for (const char *p = text; p && *p; p++)
        lines += *p == '\n';
    free(text);
    return lines;
}

int ls_render_oom(const struct ls_trace *trace, const struct ls_story *story, bool all, FILE *out) {
    size_t level = 0;
    if (all)
        return put_screen(trace, story, &everything, out);
    while (level + 1 < sizeof levels / sizeof levels[0] &&
           count_lines(trace, story, &levels[level]) > LINES_SHOWN)
        level++;
    return put_screen(trace, story, &levels[level], out);
}
