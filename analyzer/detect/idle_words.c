/*
 * idle_words.c - what findings of idle memory have in common. See idle.h. Main thread only.
 */
#include <stdlib.h>

#include "../human.h"
#include "../json_text.h"
#include "idle.h"
#include "thresholds.h"

static bool oom_avoided(const struct ls_idle *idle) {
    return idle->oom && idle->oom_bytes >= idle->oom->requested;
}

static enum ls_severity severity_of(const struct ls_detect *d, const struct ls_idle *idle) {
    int64_t capacity = idle->history->capacity > 0 ? idle->history->capacity : d->capacity;
    double share = (double)idle->gain / (double)capacity;
    bool good_part = (double)idle->gain >= LS_IDLE_PEAK_SHARE * (double)idle->peak_bytes;
    if (oom_avoided(idle) || (good_part && share >= LS_SHARE_PROBLEM))
        return LS_PROBLEM;
    return share >= LS_SHARE_WARNING || (good_part && idle->gain >= LS_IDLE_WARNING_BYTES)
               ? LS_WARNING
               : LS_INFO;
}

static json_t *rows(const struct ls_idle *idle) {
    json_t *list = json_array();
    for (size_t i = 0; i < idle->count && i < LS_ROWS_SHOWN; i++) {
        const struct ls_stretch *s = &idle->at[i];
        json_array_append_new(
            list,
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id", (json_int_t)s->span->id,
                      "address", (json_int_t)s->span->address, "size", (json_int_t)s->span->size,
                      "from_ns", (json_int_t)s->from_ns, "to_ns", (json_int_t)s->to_ns, "steps",
                      (json_int_t)s->steps, "uses", (json_int_t)s->used->count));
    }
    return list;
}

struct ls_finding *ls_idle_finding(struct ls_detect *d, const char *kind,
                                   const struct ls_idle *idle) {
    struct ls_finding *f = ls_finding_add(d, kind);
    const struct ls_history *h = idle->history;
    bool blocks = h->framework && !idle->direct;
    f->site = ls_format("%s", ls_history_site(h, idle->at[0].span->site));
    f->count = (int64_t)idle->count;
    f->bytes = idle->bytes;
    f->gain_bytes = idle->gain;
    f->severity = severity_of(d, idle);
    json_object_set_new(f->evidence, "confidence", json_string("linked"));
    json_object_update_new(
        f->evidence, json_pack("{s:i, s:s, s:I, s:I, s:I, s:o}", "device", h->device, "memory",
                               blocks ? "blocks" : "allocations", "peak",
                               (json_int_t)idle->peak_bytes, "peak_ns", (json_int_t)idle->peak_ns,
                               "steps", (json_int_t)idle->at[0].steps, "rows", rows(idle)));
    if (idle->oom)
        json_object_update_new(f->evidence,
                               json_pack("{s:I, s:I, s:b}", "oom", (json_int_t)idle->oom->id,
                                         "idle_at_oom", (json_int_t)idle->oom_bytes,
                                         "enough_without_it", oom_avoided(idle)));
    json_object_set_new(
        f->evidence, "gain",
        json_pack("{s:s}", "assumes",
                  blocks ? "that the peak falls by it; the allocator keeps the memory it has got "
                           "from the device for later requests"
                         : "that the peak falls by it"));
    json_object_set_new(
        f->evidence, "assumes",
        json_string("that no kernel got the address from device or host memory, from a texture "
                    "object, or in an argument that was NULL in each of its first launches"));
    return f;
}

json_t *ls_idle_call(struct ls_detect *d, int64_t call, char **words) {
    sqlite3_stmt *stmt;
    json_t *object = json_object();
    *words = NULL;
    if (sqlite3_prepare_v2(
            d->db,
            "SELECT (SELECT name FROM api WHERE api.id = call.api), (SELECT site FROM stack_site"
            " WHERE stack_site.id = call.stack), CASE WHEN api IN (SELECT id FROM api WHERE"
            " class = 'launch') THEN (SELECT short FROM kernel WHERE kernel.id = f0) END, start_ns,"
            " (SELECT (SELECT site FROM stack_site WHERE stack_site.id = b.stack) FROM call AS b"
            " WHERE b.id < call.id AND b.id > call.id - ?2 AND b.thread = call.thread AND b.stack"
            " NOT NULL ORDER BY b.id DESC LIMIT 1) FROM call WHERE id = ?1",
            -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(stmt, 1, call);
        sqlite3_bind_int64(stmt, 2, LS_STREAM_CALLS);
        if (sqlite3_step(stmt) == SQLITE_ROW) {
            const char *api = (const char *)sqlite3_column_text(stmt, 0);
            api = api ? api : "a call";
            const char *site = (const char *)sqlite3_column_text(stmt, 1);
            const char *kernel = (const char *)sqlite3_column_text(stmt, 2);
            json_object_update_new(object, json_pack("{s:I, s:o, s:I}", "call", (json_int_t)call,
                                                     "api", ls_json_text(api), "ts_ns",
                                                     (json_int_t)sqlite3_column_int64(stmt, 3)));
            if (site)
                json_object_set_new(object, "site", ls_json_text(site));
            if (kernel)
                json_object_set_new(object, "kernel", ls_json_text(kernel));
            const char *before = (const char *)sqlite3_column_text(stmt, 4);
            const char *where = site ? " at " : before ? " launched after " : "";
            if (before && !site)
                json_object_set_new(object, "after_site", ls_json_text(before));
            *words =
                ls_format("%s%s%s%s", kernel ? "the kernel " : "", kernel ? kernel : api, where,
                          site     ? site
                          : before ? before
                                   : "");
        }
    }
    sqlite3_finalize(stmt);
    if (!*words)
        *words = ls_format("a call");
    return object;
}

char *ls_idle_long(const struct ls_stretch *s) {
    struct ls_human a, b;
    ls_human_ns(&a, s->to_ns - s->from_ns);
    return s->steps ? ls_format("%s (%s %s)", a.text, ls_human_count(&b, s->steps),
                                ls_plural(s->steps, "step", "steps"))
                    : ls_format("%s", a.text);
}

char *ls_idle_matter(const struct ls_idle *idle) {
    struct ls_human a, b;
    if (idle->oom)
        return ls_format("; %s of it lay there when memory ran out%s",
                         ls_human_bytes(&a, idle->oom_bytes),
                         oom_avoided(idle) ? ": without it there was enough" : "");
    if (idle->gain > 0)
        return ls_format("; without it the peak of %s would be %s less",
                         ls_human_bytes(&a, idle->peak_bytes), ls_human_bytes(&b, idle->gain));
    return ls_format(", through most of the run; the peak lies elsewhere");
}
