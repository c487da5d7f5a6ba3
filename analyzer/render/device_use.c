/*
 * device_use.c - see device_use.h. Main thread only; not for signal handlers.
 */
#include "device_use.h"

#include "../human.h"
#include "../term.h"
#include "render.h"

const char *ls_render_use_parts(const struct ls_samples *samples, const struct ls_use *use,
                                char *text, size_t size) {
    struct ls_human tracked, context, others, unknown;
    char beside[80] = "";
    if (use->others > 0)
        snprintf(beside, sizeof beside, "%s other processes', ",
                 ls_human_bytes(&others, use->others));
    snprintf(text, size, "%s of it recorded, %s %s, %s%s unknown (by %s)",
             ls_human_bytes(&tracked, use->tracked), ls_human_bytes(&context, use->context),
             samples->alone ? "the context" : "there at first: contexts and other processes",
             beside, use->unknown > 0 ? ls_human_bytes(&unknown, use->unknown) : "nothing",
             samples->nvml ? "NVML" : "the program's own cudaMemGetInfo");
    return text;
}

void ls_render_use(sqlite3 *db, int device, const char *first, const char *indent, FILE *out) {
    struct ls_samples samples;
    struct ls_human used, total, when;
    char parts[320], text[480];
    ls_samples_load(&samples, db, device);
    const struct ls_use *use = ls_samples_fullest(&samples);
    if (use) {
        snprintf(text, sizeof text, "%s in use of %s at %s, %s", ls_human_bytes(&used, use->used),
                 ls_human_bytes(&total, use->total), ls_human_ns(&when, use->ts_ns),
                 ls_render_use_parts(&samples, use, parts, sizeof parts));
        ls_render_wrapped(out, first, indent, text, ls_term_width(out));
    }
    ls_samples_free(&samples);
}

static json_t *or_null(int64_t bytes) {
    return bytes < 0 ? json_null() : json_integer(bytes);
}

json_t *ls_render_use_json(sqlite3 *db, int device) {
    struct ls_samples samples;
    ls_samples_load(&samples, db, device);
    const struct ls_use *use = ls_samples_fullest(&samples);
    json_t *json =
        !use ? json_null()
             : json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "source",
                         samples.nvml ? "nvml" : "program", "samples", (json_int_t)samples.count,
                         "ts_ns", (json_int_t)use->ts_ns, "used", or_null(use->used), "total",
                         or_null(use->total), "tracked", or_null(use->tracked), "context",
                         or_null(use->context), "other_processes", or_null(use->others), "unknown",
                         or_null(use->unknown), "uncertain", or_null(use->uncertain));
    ls_samples_free(&samples);
    return json;
}
