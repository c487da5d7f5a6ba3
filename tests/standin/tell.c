/*
 * tell.c - tells of work and memory. See tell.h. Runs in the devices' threads too.
 */
#include "tell.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "truth.h"

static const struct sd_tap *listener(void) {
    return atomic_load_explicit(&sd_tap, memory_order_acquire);
}

/* The same moment on the clock that traces are dated by. */
static uint64_t real_ns(uint64_t monotonic) {
    static int64_t apart;
    if (!apart) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        apart = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - (int64_t)sd_now_ns();
    }
    return monotonic + (uint64_t)apart;
}

uint32_t sd_tap_memory(enum standin_kind kind) {
    static const uint32_t numbers[] = {
        [STANDIN_PAGEABLE] = 1, [STANDIN_PINNED] = 2, [STANDIN_REGISTERED] = 2,
        [STANDIN_DEVICE] = 3,   [STANDIN_ASYNC] = 3,  [STANDIN_MANAGED] = 5,
        [STANDIN_ARRAY] = 4,    [STANDIN_VMM] = 3,    [STANDIN_IPC] = 3};
    return numbers[kind];
}

static const char *memory_word(uint32_t number) {
    static const char *const words[] = {"", "pageable", "pinned", "device", "array", "managed"};
    return words[number];
}

/* ---- work ----------------------------------------------------------------------------------- */

static void log_work(const struct sd_work_done *w) {
    static const char *const kinds[] = {"", "kernel", "copy", "memset", "graph", "wait"};
    static const char *const copies[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                         "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    char more[256] = "";
    size_t room = sizeof more;
    switch (w->kind) {
    case SD_WORK_KERNEL:
        snprintf(more, room, " grid=%u,%u,%u block=%u,%u,%u shared=%u", w->grid[0], w->grid[1],
                 w->grid[2], w->block[0], w->block[1], w->block[2], w->shared);
        break;
    case SD_WORK_COPY:
        snprintf(more, room, " bytes=%" PRIu64 " copy=%s src=%s dst=%s src_device=%d dst_device=%d",
                 w->bytes, copies[w->copy], memory_word(w->src_kind), memory_word(w->dst_kind),
                 w->src_device, w->dst_device);
        break;
    case SD_WORK_SET:
        snprintf(more, room, " bytes=%" PRIu64 " dst=%s value=%u", w->bytes,
                 memory_word(w->dst_kind), w->value);
        break;
    case SD_WORK_GRAPH:
        break;
    case SD_WORK_WAIT:
        snprintf(more, room, " wait=%u", w->wait);
        break;
    }
    sd_truth_note("#gpu %d kind=%s device=%d stream=%u correlation=%u start=%" PRIu64
                  " end=%" PRIu64 " start_real=%" PRIu64 " end_real=%" PRIu64 "%s graph=%u"
                  " node=%" PRIu64 " async=%d name=%s",
                  (int)getpid(), kinds[w->kind], w->device, w->stream, w->correlation, w->start_ns,
                  w->end_ns, real_ns(w->start_ns), real_ns(w->end_ns), more, w->graph, w->node,
                  w->async, w->name ? w->name : "");
}

static void tell(const struct sd_work_done *w) {
    const struct sd_tap *to = listener();
    if (to)
        to->work(w);
    if (sd_options()->log_gpu)
        log_work(w);
}

static void fill_kernel(struct sd_work_done *w, const struct work *work) {
    w->kind = SD_WORK_KERNEL;
    w->name = work->kernel.name;
    for (int i = 0; i < 3; i++) {
        w->grid[i] = work->kernel.grid[i];
        w->block[i] = work->kernel.block[i];
    }
    w->shared = work->kernel.shared;
}

static void fill_copy(struct sd_work_done *w, const struct work *work) {
    w->kind = SD_WORK_COPY;
    w->bytes = work->copy.width * work->copy.height * work->copy.depth;
    w->copy = work->copy.number;
    w->src_kind = work->copy.src_kind;
    w->dst_kind = work->copy.dst_kind;
    /* Pageable memory is no device's: the stream's takes part. */
    w->src_device = work->copy.src_device < 0 ? w->device : work->copy.src_device;
    w->dst_device = work->copy.dst_device < 0 ? w->device : work->copy.dst_device;
}

static void fill_set(struct sd_work_done *w, const struct work *work) {
    w->kind = SD_WORK_SET;
    w->bytes = work->set.width * work->set.height * work->set.depth;
    w->dst_kind = work->set.dst_kind;
    w->value = work->set.value;
    w->src_device = w->dst_device = w->device;
}

void sd_tell_work(const struct stream *s, const struct work *work, uint64_t end) {
    struct sd_work_done w = {.device = s->device->ordinal,
                             .stream = s->number,
                             .correlation = work->correlation,
                             .start_ns = end - work->duration_ns,
                             .end_ns = end,
                             .graph = work->graph,
                             .node = work->node,
                             .async = !work->awaited};
    struct graph_run *run = work->run;
    if (run) {
        if (!run->start_ns)
            run->start_ns = w.start_ns;
        run->end_ns = end;
    }
    switch (work->kind) {
    case WORK_KERNEL:
        fill_kernel(&w, work);
        break;
    case WORK_COPY:
        fill_copy(&w, work);
        break;
    case WORK_SET:
        fill_set(&w, work);
        break;
    default:
        return;
    }
    tell(&w);
}

struct graph_run *sd_graph_run_new(uint32_t graph, const struct stream *stream) {
    struct graph_run *run = calloc(1, sizeof *run);
    if (!run)
        abort();
    *run = (struct graph_run){.references = 1,
                              .graph = graph,
                              .correlation = sd_tap_correlation(),
                              .stream = stream->number,
                              .device = stream->device->ordinal};
    return run;
}

void sd_graph_run_drop(struct graph_run *run) {
    if (--run->references)
        return;
    if (!run->start_ns) /* none of its work is told of */
        run->start_ns = run->end_ns = sd_now_ns();
    tell(&(struct sd_work_done){.kind = SD_WORK_GRAPH,
                                .device = run->device,
                                .stream = run->stream,
                                .correlation = run->correlation,
                                .start_ns = run->start_ns,
                                .end_ns = run->end_ns,
                                .graph = run->graph,
                                .async = true});
    free(run);
}

void sd_tell_wait(enum sd_wait wait, int device, uint32_t stream, uint64_t start_ns) {
    if (!start_ns || !sd_told())
        return;
    tell(&(struct sd_work_done){.kind = SD_WORK_WAIT,
                                .device = device,
                                .stream = stream,
                                .correlation = sd_tap_correlation(),
                                .start_ns = start_ns,
                                .end_ns = sd_now_ns(),
                                .wait = wait});
}

/* ---- memory --------------------------------------------------------------------------------- */

void sd_tell_memory(enum sd_came_or_went operation, const struct memory *m,
                    const struct stream *stream) {
    if (!sd_told())
        return;
    struct sd_memory_change c = {.operation = operation,
                                 .device = m->device,
                                 .kind = sd_tap_memory(m->kind),
                                 .correlation = sd_tap_correlation(),
                                 .stream = stream ? stream->number : 0,
                                 .address = m->node.key,
                                 .bytes = m->size,
                                 .at_ns = sd_now_ns(),
                                 .pool = (uintptr_t)m->pool,
                                 .async = stream != NULL};
    const struct sd_tap *to = listener();
    if (to)
        to->memory(&c);
    if (sd_options()->log_gpu)
        sd_truth_note("#gpu %d kind=memory operation=%d device=%d stream=%u correlation=%u"
                      " at=%" PRIu64 " at_real=%" PRIu64 " memory=%s ptr=%" PRIu64 " size=%" PRIu64
                      " pool=%" PRIu64 " async=%d",
                      (int)getpid(), c.operation, c.device, c.stream, c.correlation, c.at_ns,
                      real_ns(c.at_ns), memory_word(c.kind), c.address, c.bytes, c.pool, c.async);
}

void sd_tell_pool(enum sd_pool_operation operation, const struct pool *pool, uint64_t keep) {
    if (!sd_told())
        return;
    struct sd_pool_change c = {.operation = operation,
                               .device = pool->device->ordinal,
                               .correlation = sd_tap_correlation(),
                               .pool = (uintptr_t)pool,
                               .size = pool->reserved,
                               .keep = keep,
                               .at_ns = sd_now_ns()};
    const struct sd_tap *to = listener();
    if (to)
        to->pool(&c);
    if (sd_options()->log_gpu)
        sd_truth_note("#gpu %d kind=pool operation=%d device=%d correlation=%u at=%" PRIu64
                      " at_real=%" PRIu64 " pool=%" PRIu64 " size=%" PRIu64 " keep=%" PRIu64,
                      (int)getpid(), c.operation, c.device, c.correlation, c.at_ns,
                      real_ns(c.at_ns), c.pool, c.size, c.keep);
}

void sd_tell_context(int device, bool made) {
    const struct sd_tap *to = listener();
    if (to)
        to->context(device, made);
    if (sd_options()->log_gpu)
        sd_truth_note("#gpu %d kind=context operation=%d device=%d correlation=%u", (int)getpid(),
                      made ? SD_CAME : SD_WENT, device, sd_tap_correlation());
}
