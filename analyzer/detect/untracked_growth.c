/*
 * untracked_growth.c - `untracked-growth`: what is in use on a device beside all that was recorded
 * grows, in steps or steadily. Whose it is cannot be told, so it is blamed on no line.
 *
 * Needs: samples of how full the device was (device_use). Cost: the bytes. What managed memory,
 * pools and rounding could explain is no growth, nor what other processes took, where NVML or
 * their traces tell of them. Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../memory/others.h"
#include "../memory/samples.h"
#include "../query.h"
#include "detect.h"
#include "jump_calls.h"
#include "thresholds.h"

#define QUARTERS 4

struct rise {
    int64_t from_ns, to_ns, bytes;
};

struct growth {
    const struct ls_samples *samples;
    int64_t *floor;  /* of each sample: the least that was in use beside from then on */
    size_t warm;     /* the sample that growth counts from */
    int64_t bytes;   /* by which the floor rose since */
    int64_t certain; /* of that, what nothing recorded could be */
    int64_t by_others;
    struct rise *rise; /* by time */
    size_t rises;
    int quarters;     /* of the time since with a rise, */
    bool last;        /* and the last one has one */
    int64_t since_ns; /* the first rise */
};

/* ---- measuring ---- */

/* The first steps, or the first quarter, bring contexts, modules and plans. */
static size_t warm_sample(sqlite3 *db, const struct ls_samples *s) {
    int64_t first = s->use[0].ts_ns, span = s->use[s->count - 1].ts_ns - first;
    char *sql = sqlite3_mprintf("SELECT start_ns FROM step WHERE loop = (SELECT loop FROM step"
                                " GROUP BY loop HAVING COUNT(*) > %d ORDER BY COUNT(*) DESC"
                                " LIMIT 1) ORDER BY start_ns LIMIT 1 OFFSET %d",
                                LS_WARM_UP_STEPS + LS_STEADY_STEPS, LS_WARM_UP_STEPS);
    int64_t steady = sql ? ls_query_int(db, -1, sql) : -1;
    size_t warm = 0;
    sqlite3_free(sql);
    if (steady < 0)
        steady = first + (int64_t)(LS_LOAD_FRACTION * (double)span);
    while (warm + 1 < s->count && s->use[warm].ts_ns < steady)
        warm++;
    return warm;
}

static void find_floor(struct growth *g) {
    const struct ls_samples *s = g->samples;
    int64_t least = INT64_MAX;
    for (size_t i = s->count; i-- > 0;) {
        if (s->use[i].beside < least)
            least = s->use[i].beside;
        g->floor[i] = least;
    }
}

static void find_rises(struct growth *g) {
    const struct ls_samples *s = g->samples;
    int64_t begin = s->use[g->warm].ts_ns, span = s->use[s->count - 1].ts_ns - begin;
    bool in[QUARTERS] = {false};
    for (size_t i = g->warm + 1; i < s->count; i++) {
        int64_t bytes = g->floor[i] - g->floor[i - 1];
        if (bytes < LS_UNTRACKED_JUMP)
            continue;
        int quarter = (int)((double)(s->use[i].ts_ns - begin) / ((double)span + 1) * QUARTERS);
        in[quarter] = true;
        if (g->rises == 0)
            g->since_ns = s->use[i - 1].ts_ns;
        g->rise[g->rises++] = (struct rise){s->use[i - 1].ts_ns, s->use[i].ts_ns, bytes};
    }
    for (int q = 0; q < QUARTERS; q++)
        g->quarters += in[q];
    g->last = in[QUARTERS - 1];
}

/* What traces beside this one say that their processes took meanwhile. */
static int64_t taken_by_others(sqlite3 *db, const struct growth *g) {
    const char *path = sqlite3_db_filename(db, "main");
    const struct ls_samples *s = g->samples;
    struct ls_others before, after;
    if (s->alone || !path || !*path)
        return 0;
    ls_others_find(&before, db, path, s->device, s->use[g->warm].ts_ns);
    ls_others_find(&after, db, path, s->device, s->use[s->count - 1].ts_ns);
    int64_t bytes = (int64_t)after.bytes - (int64_t)before.bytes;
    ls_others_free(&before);
    ls_others_free(&after);
    return bytes > 0 ? bytes : 0;
}

static void measure(struct growth *g, sqlite3 *db) {
    const struct ls_samples *s = g->samples;
    const struct ls_use *end = &s->use[s->count - 1];
    find_floor(g);
    g->warm = warm_sample(db, s);
    g->bytes = g->floor[s->count - 1] - g->floor[g->warm];
    g->certain = end->beside - end->uncertain - s->use[g->warm].beside;
    find_rises(g);
    if (g->bytes >= LS_UNTRACKED_BYTES && g->certain >= LS_UNTRACKED_BYTES) {
        g->by_others = taken_by_others(db, g);
        g->bytes -= g->by_others;
        g->certain -= g->by_others;
    }
}

/* ---- judging ---- */

enum course { NOTHING, ONCE, STOPPED, GOES_ON };

static enum course judge(const struct growth *g) {
    int64_t least = g->samples->alone ? LS_UNTRACKED_BYTES : LS_UNTRACKED_SHARED_BYTES;
    bool large = (double)g->certain >= LS_SHARE_PROBLEM * (double)g->samples->use[g->warm].total;
    if (g->certain < least || g->bytes < least || g->rises == 0)
        return NOTHING;
    if (g->rises >= LS_GROWTH_COUNT && g->quarters >= LS_GROWTH_QUARTERS)
        return g->last ? GOES_ON : STOPPED;
    if (!large)
        return NOTHING;
    return g->rises >= LS_GROWTH_COUNT ? STOPPED : ONCE;
}

static enum ls_severity severity_of(const struct growth *g, enum course course) {
    if (course != GOES_ON)
        return LS_INFO;
    bool large = (double)g->bytes >= LS_SHARE_PROBLEM * (double)g->samples->use[0].total;
    return g->samples->alone && large ? LS_PROBLEM : LS_WARNING;
}

/* ---- the finding ---- */

/* Steps that the main loop began after `from_ns`, until `to_ns`. */
static int64_t steps_between(sqlite3 *db, int64_t from_ns, int64_t to_ns) {
    char *sql = sqlite3_mprintf(
        "SELECT COUNT(*) FROM step WHERE loop = (SELECT loop FROM step GROUP BY loop"
        " ORDER BY COUNT(*) DESC LIMIT 1) AND start_ns > %lld AND start_ns <= %lld",
        (long long)from_ns, (long long)to_ns);
    int64_t count = sql ? ls_query_int(db, 0, sql) : 0;
    sqlite3_free(sql);
    return count;
}

static int by_bytes(const void *a, const void *b) {
    const struct rise *x = a, *y = b;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static int by_time(const void *a, const void *b) {
    const struct rise *x = a, *y = b;
    return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* The largest ones, and what was called meanwhile. */
static json_t *jumps_json(sqlite3 *db, const struct growth *g) {
    size_t shown = g->rises < LS_SITES_SHOWN ? g->rises : LS_SITES_SHOWN;
    struct ls_jump_calls calls;
    json_t *array = json_array();
    ls_jump_calls_begin(&calls, db);
    qsort(g->rise, g->rises, sizeof *g->rise, by_bytes);
    qsort(g->rise, shown, sizeof *g->rise, by_time);
    for (size_t i = 0; i < shown; i++) {
        const struct rise *r = &g->rise[i];
        int64_t before = steps_between(db, -1, r->from_ns), within;
        json_t *jump = json_pack("{s:I, s:I, s:I}", "from_ns", (json_int_t)r->from_ns, "to_ns",
                                 (json_int_t)r->to_ns, "bytes", (json_int_t)r->bytes);
        if ((within = steps_between(db, r->from_ns, r->to_ns)) > 0 || before > 0)
            json_object_update_new(jump, json_pack("{s:I, s:I}", "from_step", (json_int_t)before,
                                                   "to_step", (json_int_t)(before + within)));
        json_object_set_new(jump, "calls", ls_jump_calls_json(&calls, r->from_ns, r->to_ns));
        json_array_append_new(array, jump);
    }
    ls_jump_calls_end(&calls);
    return array;
}

static void put_figures(sqlite3 *db, const struct growth *g, enum course course, json_t *e) {
    const struct ls_samples *s = g->samples;
    const struct ls_use *from = &s->use[g->warm], *to = &s->use[s->count - 1];
    double seconds = (double)(to->ts_ns - from->ts_ns) / 1e9;
    int64_t steps = steps_between(db, from->ts_ns, to->ts_ns);
    static const char *const shape[] = {"", "once", "grew and stopped", "goes on"};
    json_object_update_new(
        e, json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "device", s->device,
                     "source", s->nvml ? "nvml" : "program", "shape", shape[course], "grew",
                     (json_int_t)g->bytes, "certain", (json_int_t)g->certain, "since_ns",
                     (json_int_t)g->since_ns, "from_bytes", (json_int_t)g->floor[g->warm],
                     "to_bytes", (json_int_t)g->floor[s->count - 1], "rises", (json_int_t)g->rises,
                     "samples", (json_int_t)s->count, "tracked", (json_int_t)to->tracked));
    if (steps > 0)
        json_object_set_new(e, "bytes_per_step", json_integer(g->bytes / steps));
    if (seconds > 0)
        json_object_set_new(e, "bytes_per_second", json_real((double)g->bytes / seconds));
    if (g->by_others)
        json_object_set_new(e, "grown_by_others", json_integer(g->by_others));
    if (course == GOES_ON && g->bytes > 0)
        json_object_set_new(e, "full_in_s",
                            json_real((double)(to->total - to->used) / (double)g->bytes * seconds));
    json_object_set_new(e, "other_processes",
                        s->alone ? json_string("not counted") : json_string("may be in it"));
    json_object_set_new(e, "confidence", json_string(s->alone ? "seen" : "linked"));
    json_object_set_new(e, "jumps", jumps_json(db, g));
}

static char *title_of(sqlite3 *db, const struct growth *g, enum course course) {
    const struct ls_samples *s = g->samples;
    struct ls_human bytes, rate, when;
    int64_t from = s->use[g->warm].ts_ns, to = s->use[s->count - 1].ts_ns;
    int64_t steps = steps_between(db, from, to);
    double seconds = (double)(to - from) / 1e9;
    ls_human_bytes(&bytes, g->bytes);
    ls_human_ns(&when, g->since_ns);
    if (course == ONCE)
        return ls_format("Device %d got fuller by %s that no recorded call asked for, after %s",
                         s->device, bytes.text, when.text);
    if (course == STOPPED)
        return ls_format("Device %d got fuller by %s that no recorded call asked for, and then no "
                         "more",
                         s->device, bytes.text);
    if (steps > 0)
        return ls_format("Device %d gets fuller by %s in each step that no recorded call asks for: "
                         "%s in %" PRId64 " steps",
                         s->device, ls_human_bytes(&rate, g->bytes / steps), bytes.text, steps);
    return ls_format("Device %d gets fuller by %s each second that no recorded call asks for: %s "
                     "since %s",
                     s->device, ls_human_bytes(&rate, (int64_t)((double)g->bytes / seconds)),
                     bytes.text, when.text);
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct growth *g,
                enum course course) {
    struct ls_finding *f = ls_finding_add(d, self->kind);
    bool others = !g->samples->alone;
    f->severity = severity_of(g, course);
    f->count = (int64_t)g->rises;
    f->bytes = g->bytes;
    f->gain_bytes = course == GOES_ON ? g->bytes : 0;
    f->site = ls_format("%s", LS_SITE_UNKNOWN);
    f->title = title_of(d->db, g, course);
    json_object_set_new(
        f->evidence, "why",
        json_sprintf("In use on the device, less what is live of all recorded allocations "
                     "(cudaMalloc and its like, pools, virtual memory, arrays, graphs), rose, and "
                     "%s. Whose it is, no recorded call tells.",
                     others ? "nothing tells how much of it is another process's"
                            : "NVML counts it for this process"));
    put_figures(d->db, g, course, f->evidence);
    f->advice = ls_format(
        "Look at what jumps in evidence.jumps: what was called between two samples. Memory of a "
        "process beside its allocations: the context; modules that are loaded when their first "
        "kernel runs (CUDA_MODULE_LOADING=EAGER brings all of it to the start); local memory, "
        "printf and heap, which grow with the kernels that need them and with "
        "cudaDeviceSetLimit; instantiated graphs; plans of cuDNN and cuFFT, buffers of NCCL's "
        "communicators, handles of cuBLAS that are made again and again; a runtime or driver call "
        "that passes beside the hooks.%s",
        others ? " And another process on the same device: nvidia-smi tells." : "");
}

static bool look_at(struct ls_detect *d, const struct ls_detector *self,
                    const struct ls_samples *samples) {
    struct growth g = {.samples = samples};
    if (samples->count < LS_UNTRACKED_SAMPLES)
        return false;
    g.floor = calloc(samples->count, sizeof *g.floor);
    g.rise = calloc(samples->count, sizeof *g.rise);
    if (!g.floor || !g.rise)
        ls_detect_no_memory();
    measure(&g, d->db);
    enum course course = judge(&g);
    if (course != NOTHING)
        add(d, self, &g, course);
    free(g.floor);
    free(g.rise);
    return true;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int device[256];
    size_t devices = ls_samples_devices(d->db, device, 256), most = 0;
    bool any = false;
    for (size_t i = 0; i < devices; i++) {
        struct ls_samples samples;
        ls_samples_load(&samples, d->db, device[i]);
        any |= look_at(d, self, &samples);
        most = samples.count > most ? samples.count : most;
        ls_samples_free(&samples);
    }
    if (!any && d->running)
        ls_detect_skip(d, self->kind, "the recording has no end yet");
    else if (!any && most == 0)
        ls_detect_skip(d, self->kind,
                       "nothing in this trace tells how full a device was (coverage, "
                       "device-memory)");
    else if (!any)
        ls_detect_skip(d, self->kind, "how full a device was is known of %zu %s only", most,
                       ls_plural((int64_t)most, "moment", "moments"));
    return SQLITE_OK;
}

const struct ls_detector ls_detect_untracked_growth = {"untracked-growth", run};
