/*
 * fragmentation.c - `fragmentation`: free memory in the allocator's segments that is of no use,
 * because a few live blocks keep each of them.
 *
 * Needs: blocks and segments. At an oom it is the cause; otherwise the peaks tell, and it matters
 * where the memory was short. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "oom_advice.h"
#include "oom_facts.h"
#include "thresholds.h"
#include "unused.h"

/* ---- at an oom ---- */

static char *title_of_parts(const struct ls_oom *o, const struct ls_oom_pins *pins) {
    struct ls_human free, hole, live, asked, missing, segments;
    struct ls_oom_of_driver of_driver;
    return ls_format(
        "%s lay free in %s %s, in pieces of at most %s beside %s of live blocks: "
        "in one piece it would have served the %s asked for%s, %s were missing",
        ls_human_bytes(&free, pins->free), ls_human_count(&segments, (int64_t)pins->count),
        ls_plural((int64_t)pins->count, "segment", "segments"), ls_human_bytes(&hole, o->hole),
        ls_human_bytes(&live, pins->live), ls_human_bytes(&asked, o->requested),
        ls_oom_of_driver(&of_driver, o), ls_human_bytes(&missing, o->missing));
}

static void describe_pins(const struct ls_oom *o, const struct ls_oom_pins *pins,
                          struct ls_finding *f) {
    struct ls_human size, live, share, asked, missing, count, segments;
    struct ls_oom_of_driver of_driver;
    ls_human_bytes(&size, pins->size);
    ls_human_bytes(&live, pins->live);
    ls_human_share(&share, (double)pins->live / (double)pins->size);
    ls_human_bytes(&asked, o->requested);
    ls_human_bytes(&missing, o->missing);
    ls_oom_of_driver(&of_driver, o);
    ls_human_count(&count, pins->blocks);
    if (pins->parts)
        f->title = title_of_parts(o, pins);
    else if (pins->count == 1)
        f->title = ls_format(
            "One segment of %s is held by %s (%s) in %s %s: without them %s%s would "
            "have fitted, %s were missing",
            size.text, live.text, share.text, count.text,
            ls_plural(pins->blocks, "block", "blocks"), asked.text, of_driver.text, missing.text);
    else
        f->title =
            ls_format("%s segments, %s, are held by %s (%s) in %s %s: without them %s%s would "
                      "have fitted, %s were missing",
                      ls_human_count(&segments, (int64_t)pins->count), size.text, live.text,
                      share.text, count.text, ls_plural(pins->blocks, "block", "blocks"),
                      asked.text, of_driver.text, missing.text);
}

static char *why_of_pins(const struct ls_oom *o, const struct ls_oom_pins *pins) {
    struct ls_human asked, driver_free, missing, size;
    if (pins->parts)
        return ls_format("%s were asked for; the driver had %s. A segment goes back to the driver "
                         "whole or not at all, and a request must lie in one piece: each of these "
                         "is more than half in use, and what is left of it is too small. It comes "
                         "of requests of one size in segments that were made for another.",
                         ls_human_bytes(&asked, o->asked),
                         ls_human_bytes(&driver_free, o->driver_free));
    return ls_format(
        "%s were asked for; the driver had %s, only %s less. A segment goes back to "
        "the driver whole or not at all: releasing %s (%s) would have been enough. The "
        "device is not too small.",
        ls_human_bytes(&asked, o->asked), ls_human_bytes(&driver_free, o->driver_free),
        ls_human_bytes(&missing, o->missing),
        pins->count == 1 ? "that one segment" : "those segments",
        ls_human_bytes(&size, pins->size));
}

/* Memory that grew, and makes up half of all: whatever pieces it left, that is the cause. */
static bool growth_filled(struct ls_detect *d, const struct ls_oom *o, const char *site) {
    const struct ls_finding *f = ls_finding_at(d, "linear-growth", site);
    if (!f)
        f = ls_finding_at(d, "linear-growth", o->site);
    /* What is joined anew in each step is there twice: the gain counts both. */
    int64_t bytes = f ? (f->gain_bytes > f->bytes ? f->gain_bytes : f->bytes) : 0;
    return f && f->severity != LS_INFO && 2 * bytes >= o->capacity && o->capacity > 0;
}

/* What was told of an oom of the same device: where the same site pins, or else (NULL, for an oom
 * whose segments were not looked at) of the same request. */
static struct ls_finding *told_before(struct ls_detect *d, const struct ls_oom *o,
                                      const char *site) {
    for (size_t i = 0; i < d->finding_count; i++) {
        struct ls_finding *f = &d->finding[i];
        const char *request = json_string_value(json_object_get(f->evidence, "request_site"));
        if (strcmp(f->kind, "fragmentation") == 0 && request &&
            ls_finding_of_device(f, o->device) &&
            strcmp(site ? f->site : request, site ? site : o->site) == 0)
            return f;
    }
    return NULL;
}

static void add_of_oom(struct ls_detect *d, const struct ls_ooms *all, const struct ls_oom *o) {
    struct ls_oom_pins pins;
    const char *site;
    struct ls_finding *f = o->has_state ? NULL : told_before(d, o, NULL);
    if (f)
        f->count++;
    if (!ls_oom_pins(o, &pins))
        return;
    json_t *sites = ls_oom_pin_sites(o->history, o->ts_ns, pins.piece, pins.pieces, &site);
    f = told_before(d, o, site);
    if (f) {
        f->count++;
        json_decref(sites);
        return;
    }
    f = ls_finding_add(d, "fragmentation");
    f->severity = o->cause || growth_filled(d, o, site) ? LS_INFO : LS_PROBLEM;
    f->site = ls_format("%s", site);
    f->count = 1;
    f->bytes = f->gain_bytes = pins.free;
    describe_pins(o, &pins, f);
    char *why = why_of_pins(o, &pins);
    json_object_update_new(
        f->evidence,
        json_pack("{s:i, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
                  "device", o->device, "oom", (json_int_t)o->id, "request_site",
                  ls_json_text(o->site), "requested", (json_int_t)o->requested, "asked_of_driver",
                  (json_int_t)o->asked, "device_free", (json_int_t)o->driver_free, "missing",
                  (json_int_t)o->missing, "allocated", (json_int_t)o->allocated, "reserved",
                  (json_int_t)o->reserved, "pinned_size", (json_int_t)pins.size, "pinned_live",
                  (json_int_t)pins.live, "pinned_segments", (json_int_t)pins.count, "segments",
                  ls_pieces_json(pins.piece, pins.pieces), "pinned_by", sites));
    json_object_set_new(f->evidence, "parts", json_boolean(pins.parts));
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    f->advice = o->cause ? ls_fragmentation_advice(all, o->requested)
                         : ls_format("As for the out-of-memory error %s %s.",
                                     o->backward ? "in the backward of" : "at", o->site);
}

/* ---- by the peaks ---- */

static int by_use(const void *a, const void *b) {
    const struct ls_piece *x = *(const struct ls_piece *const *)a,
                          *y = *(const struct ls_piece *const *)b;
    double ux = (double)x->live / (double)x->size, uy = (double)y->live / (double)y->size;
    if (ux != uy)
        return ux < uy ? -1 : 1;
    return x->size > y->size ? -1 : x->size < y->size;
}

/* The segments with the lowest use that hold something; returns how many of `room`. */
static size_t least_used(const struct ls_state *state, const struct ls_piece **piece, size_t room) {
    const struct ls_piece **all = calloc(state->pieces + 1, sizeof(const struct ls_piece *));
    size_t count = 0;
    if (!all)
        ls_detect_no_memory();
    for (size_t i = 0; i < state->pieces; i++)
        if (state->piece[i].live > 0)
            all[count++] = &state->piece[i];
    qsort(all, count, sizeof(const struct ls_piece *), by_use);
    if (count > room)
        count = room;
    memcpy(piece, all, count * sizeof(const struct ls_piece *));
    free(all);
    return count;
}

static const struct ls_finding *above_info(const struct ls_detect *d, const char *const *kind,
                                           int device) {
    for (; *kind; kind++)
        for (size_t i = 0; i < d->finding_count; i++)
            if (d->finding[i].severity != LS_INFO && strcmp(d->finding[i].kind, *kind) == 0 &&
                ls_finding_of_device(&d->finding[i], device))
                return &d->finding[i];
    return NULL;
}

/* The same gap was told as what nobody used: that says more. */
static bool told(const struct ls_detect *d, int device) {
    static const char *const kind[] = {"reserved-gap", "stranded-remainder", "fragmentation",
                                       "pending-free", NULL};
    return above_info(d, kind, device) != NULL;
}

/* What makes a pool of more than is in use: then it is the consequence. NULL: nothing known does.
 */
static const struct ls_finding *explained(const struct ls_detect *d, int device) {
    static const char *const kind[] = {"linear-growth", "ratchet",     "pool-miss",
                                       "peak-overlap",  "oom-cascade", NULL};
    return above_info(d, kind, device);
}

/* The most that was in use at once: handed out, or given back and still used by other streams. */
static uint64_t most_used(const struct ls_history *h, const struct ls_state *at_most_reserved) {
    uint64_t live = 0, then = at_most_reserved->live + at_most_reserved->pending;
    ls_peak_live_ns(h, &live);
    return live > then ? live : then;
}

static void describe_peaks(struct ls_detect *d, const struct ls_ooms *all,
                           const struct ls_history *h, const struct ls_state *state,
                           uint64_t used) {
    int64_t capacity = h->capacity > 0 ? h->capacity : d->capacity;
    const struct ls_piece *piece[LS_ROWS_SHOWN];
    const char *site;
    struct ls_human gap, peak, most, share;
    size_t count = least_used(state, piece, LS_ROWS_SHOWN);
    json_t *sites = ls_oom_pin_sites(h, state->ts_ns, piece, count, &site);
    const struct ls_finding *by = explained(d, h->device);
    const char *by_name = by ? by->kind : NULL; /* kinds are not owned */
    json_t *cause = by ? json_string(by->kind) : json_null();
    bool matters = !by && ls_memory_was_short(h, capacity, 0, h->end_ns);
    struct ls_finding *f = ls_finding_add(d, "fragmentation");
    f->severity = matters ? LS_WARNING : LS_INFO;
    json_object_set_new(f->evidence, "consequence_of", cause);
    f->site = ls_format("%s", site);
    f->count = 1;
    f->bytes = f->gain_bytes = (int64_t)(state->reserved - used);
    f->title =
        ls_format("The allocator reserved %s at its peak, %s of it more than was ever in use "
                  "at once (%s)",
                  ls_human_bytes(&most, (int64_t)state->reserved), ls_human_bytes(&gap, f->bytes),
                  ls_human_share(&share, (double)f->bytes / (double)state->reserved));
    json_object_update_new(f->evidence,
                           json_pack("{s:i, s:I, s:I, s:I, s:f, s:o, s:o}", "device", h->device,
                                     "peak_allocated", (json_int_t)used, "peak_reserved",
                                     (json_int_t)state->reserved, "peak_reserved_ns",
                                     (json_int_t)state->ts_ns, "fragmentation",
                                     (double)f->bytes / (double)state->reserved, "segments",
                                     ls_pieces_json(piece, count), "pinned_by", sites));
    json_object_set_new(f->evidence, "why",
                        json_sprintf("At most %s were in use at any time. The rest lay in pieces "
                                     "between live blocks, or in segments of sizes that nothing "
                                     "asked for when more was reserved.",
                                     ls_human_bytes(&peak, (int64_t)used)));
    f->advice = by_name   ? ls_format("A consequence: see %s.", by_name)
                : matters ? ls_fragmentation_advice(all, (int64_t)state->piece[0].size)
                          : ls_format("Nothing to do while the device has room: it was not short "
                                      "of memory in this run.");
}

static void add_of_peaks(struct ls_detect *d, const struct ls_ooms *all,
                         const struct ls_history *h) {
    int64_t capacity = h->capacity > 0 ? h->capacity : d->capacity;
    uint64_t reserved = 0;
    int64_t ts_ns = ls_peak_reserved_ns(h, &reserved);
    struct ls_state state;
    if (ts_ns < 0 || told(d, h->device))
        return;
    ls_state_at(h, ts_ns, &state);
    uint64_t used = most_used(h, &state);
    if (state.live > 0 && state.reserved > used &&
        (double)(state.reserved - used) >= LS_FRAGMENTED_SHARE * (double)state.reserved &&
        (double)(state.reserved - used) >= LS_SHARE_PROBLEM * (double)capacity)
        describe_peaks(d, all, h, &state, used);
    ls_state_free(&state);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int devices[256], rc;
    const struct ls_ooms *all = ls_ooms_of(d, &rc);
    size_t count = all ? ls_detect_devices(d, devices, 256) : 0;
    (void)self;
    for (size_t i = 0; all && i < all->count; i++)
        if (all->oom[i].verdict == LS_OOM_FRAGMENTED)
            add_of_oom(d, all, &all->oom[i]);
    for (size_t i = 0; i < count; i++) {
        const struct ls_history *h = ls_detect_history(d, devices[i]);
        if (h && h->framework)
            add_of_peaks(d, all, h);
    }
    return rc;
}

const struct ls_detector ls_detect_fragmentation = {"fragmentation", run};
