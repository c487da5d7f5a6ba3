/*
 * device_use.c - when NVML is asked, and its answers as rows. See device_use.h.
 * One thread; not async-signal-safe.
 */
#include "device_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ingest_internal.h"
#include "now.h"
#include "nvml.h"
#include "query.h"
#include "settings.h"

#define EVERY_MS 1000      /* between samples; */
#define FIRST_EVERY_MS 100 /* at first, for what comes in the first seconds never comes again */
#define SLOWER_BY 16       /* as often as this in what has passed */
#define EAGER_EVERY_MS 80  /* after an oom, */
#define EAGER_MS 1000      /* for so long */
/* A program that has allocated nothing so soon may be one of those that only ask how many devices
 * there are: for these NVML, which takes its time to start, is not loaded. */
#define IDLE_START_MS 500

#define FIRST_PID_SPACE 0xeffffffc /* PROC_PID_INIT_INO of Linux */

static bool in_first_pid_space(void) {
    struct stat own;
    return stat("/proc/self/ns/pid", &own) == 0 && own.st_ino == FIRST_PID_SPACE;
}

static void start(struct ls_ingest *ingest, pid_t pid) {
    struct ls_device_use *use = &ingest->use;
    const char *library = ls_setting_nvml();
    use->tried = true;
    if (library && !*library) {
        snprintf(use->why, sizeof use->why, "LAYOUTSPY_NVML=off");
        return;
    }
    char *visible = ls_query_meta(ingest->db.db, "env.CUDA_VISIBLE_DEVICES");
    char *order = ls_query_meta(ingest->db.db, "env.CUDA_DEVICE_ORDER");
    struct ls_nvml_setup setup = {.library = library,
                                  .visible = visible ? visible : getenv("CUDA_VISIBLE_DEVICES"),
                                  .order = order ? order : getenv("CUDA_DEVICE_ORDER"),
                                  .pid = pid,
                                  .all_pids = pid && in_first_pid_space()};
    use->nvml = ls_nvml_start(&setup);
    if (!use->nvml)
        snprintf(use->why, sizeof use->why, "no thread to ask NVML in");
    free(visible);
    free(order);
}

static void put(struct ls_ingest *ingest, const struct ls_nvml_sample *sample) {
    int64_t ts_ns = sample->mono_ns - (int64_t)ingest->clock.origin_mono;
    for (size_t i = 0; i < sample->count; i++) {
        const struct ls_nvml_reading *r = &sample->reading[i];
        const char *types = r->own >= 0      ? r->others >= 0 ? "iiiiiis" : "iiiiins"
                            : r->others >= 0 ? "iiiinis"
                                             : "iiiinns";
        ls_db_put(&ingest->db, LS_PUT_DEVICE_USE, types, ts_ns, (int64_t)r->device, r->used,
                  r->total, r->own, r->others, "nvml");
    }
}

/* Takes what has come, and the last word where it is over. */
static void take(struct ls_ingest *ingest) {
    struct ls_device_use *use = &ingest->use;
    struct ls_nvml_sample sample;
    while (ls_nvml_take(use->nvml, &sample))
        put(ingest, &sample);
    ls_nvml_why(use->nvml, use->why, sizeof use->why);
    if (ls_nvml_state(use->nvml) == LS_NVML_OFF)
        ls_device_use_close(use);
}

static bool is_time(struct ls_ingest *ingest, int64_t now) {
    struct ls_device_use *use = &ingest->use;
    int64_t every = (now - use->first_ms) / SLOWER_BY;
    every = every < FIRST_EVERY_MS ? FIRST_EVERY_MS : every > EVERY_MS ? EVERY_MS : every;
    bool due = now - use->asked_ms >= (now < use->eager_ms ? EAGER_EVERY_MS : every);
    if (ingest->ooms.committed_ms != use->oom_ms) {
        use->oom_ms = ingest->ooms.committed_ms;
        use->eager_ms = now + EAGER_MS;
        due = true;
    }
    if (!use->asked_for_first && use->allocated) {
        use->asked_for_first = true;
        due = true;
    }
    return due;
}

void ls_device_use_tick(struct ls_ingest *ingest, pid_t pid) {
    struct ls_device_use *use = &ingest->use;
    int64_t now = ls_now_ms();
    if (!use->first_ms && ingest->next_call > 1)
        use->first_ms = now;
    if (!use->tried && use->first_ms && (use->allocated || now - use->first_ms >= IDLE_START_MS))
        start(ingest, pid);
    if (!use->nvml)
        return;
    take(ingest);
    if (use->nvml && is_time(ingest, now)) {
        use->asked_ms = now;
        ls_nvml_ask(use->nvml);
    }
}

static void put_coverage(struct ls_ingest *ingest, const char *note) {
    struct ls_device_use *use = &ingest->use;
    struct ls_trace_db *db = &ingest->db;
    long long nvml =
        (long long)ls_db_number(db, "SELECT COUNT(*) FROM device_use WHERE source='nvml'");
    long long program =
        (long long)ls_db_number(db, "SELECT COUNT(*) FROM device_use WHERE source='program'");
    const char *why = *use->why       ? use->why
                      : nvml || *note ? ""
                      : use->tried    ? "the program was over before NVML answered"
                                      : "NVML was not asked while it ran";
    const char *between = *why && *note ? "; " : "";
    char text[560];
    snprintf(text, sizeof text,
             "%lld %s of NVML's, %lld of the program's own cudaMemGetInfo%s%s%s%s", nvml,
             nvml == 1 ? "sample" : "samples", program, *why || *note ? "; " : "", why, between,
             note);
    if (nvml + program == 0)
        ls_db_put(db, LS_PUT_COVERAGE, "sss", "device-memory", "unavailable", why);
    else
        ls_db_put(db, LS_PUT_COVERAGE, "sss", "device-memory",
                  nvml && !*why && !*note ? "on" : "partial", text);
}

void ls_device_use_finish(struct ls_ingest *ingest) {
    char note[200] = "";
    if (ingest->use.nvml)
        take(ingest);
    if (!ls_device_use_split(&ingest->db, note, sizeof note))
        snprintf(note, sizeof note,
                 "the collector had no memory to work out what the program held at each");
    ls_db_exec(&ingest->db, "DELETE FROM coverage WHERE layer='device-memory'");
    put_coverage(ingest, note);
}

void ls_device_use_close(struct ls_device_use *use) {
    if (use->nvml)
        ls_nvml_stop(use->nvml);
    use->nvml = NULL;
}
