/*
 * oom_advice.c - the words of an oom's finding. See oom_advice.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "oom_advice.h"

#include <stdio.h>
#include <string.h>

#include "../human.h"
#include "oom_pool.h"
#include "thresholds.h"

/* The figures that the texts are made of, as a person reads them. */
struct figures {
    struct ls_human asked, capacity, allocated, reserved, gap, pending, cached, driver_free, hole,
        missing, releasable, others, before, with;
    struct ls_oom_of_driver of_driver;
};

static struct figures figures_of(const struct ls_oom *o) {
    struct figures f;
    ls_human_bytes(&f.asked, o->requested);
    ls_human_bytes(&f.capacity, o->capacity);
    ls_human_bytes(&f.allocated, o->allocated);
    ls_human_bytes(&f.reserved, o->reserved);
    ls_human_bytes(&f.gap, o->reserved - o->allocated);
    ls_human_bytes(&f.pending, o->pending);
    ls_human_bytes(&f.cached, o->cached);
    ls_human_bytes(&f.driver_free, o->driver_free);
    ls_human_bytes(&f.hole, o->hole);
    ls_human_bytes(&f.missing, o->missing);
    ls_human_bytes(&f.releasable, o->releasable);
    ls_human_bytes(&f.others, o->others);
    ls_human_bytes(&f.before, o->hole_before);
    ls_human_bytes(&f.with, o->reserved + o->asked);
    ls_oom_of_driver(&f.of_driver, o);
    return f;
}

const char *ls_oom_of_driver(struct ls_oom_of_driver *of, const struct ls_oom *o) {
    struct ls_human requested, asked;
    ls_human_bytes(&requested, o->requested);
    ls_human_bytes(&asked, o->asked);
    if (o->asked > o->requested && strcmp(requested.text, asked.text) != 0)
        snprintf(of->text, sizeof of->text, " (%s of the driver)", asked.text);
    else
        of->text[0] = 0;
    return of->text;
}

static bool larger_than_device(const struct ls_oom *o) {
    return o->capacity > 0 && o->requested > o->capacity;
}

static char *title_of_live(const struct ls_oom *o, const struct figures *f) {
    if (larger_than_device(o))
        return ls_format("Out of memory: %s asked for at once, more than the device has (%s)",
                         f->asked.text, f->capacity.text);
    if (o->capacity > 0)
        return ls_format("Out of memory: %s asked for while %s of the device's %s were in live use",
                         f->asked.text, f->allocated.text, f->capacity.text);
    return ls_format("Out of memory: %s asked for while %s were in live use", f->asked.text,
                     f->allocated.text);
}

char *ls_oom_title(const struct ls_oom *o) {
    struct figures f = figures_of(o);
    switch (o->verdict) {
    case LS_OOM_FITTING:
        return ls_format(
            "Out of memory with a fitting block at hand: %s asked for, a free piece of "
            "%s came back inside the failing call",
            f.asked.text, f.hole.text);
    case LS_OOM_LIMIT:
        return ls_format("Out of memory at a limit that the program set: %s asked for beside %s "
                         "reserved, while the device had %s free",
                         f.asked.text, f.reserved.text, f.driver_free.text);
    case LS_OOM_OTHER_POOL:
        return ls_format("Out of memory: %s asked for, and a free piece of %s lay where the "
                         "allocator may not take it from",
                         f.asked.text, f.hole.text);
    case LS_OOM_FRAGMENTED:
        return ls_format("Out of memory, in pieces: %s asked for%s, %s missing, and %s lay free in "
                         "the allocator's own segments",
                         f.asked.text, f.of_driver.text, f.missing.text, f.cached.text);
    case LS_OOM_PENDING:
        return ls_format("Out of memory: %s asked for%s, while %s that were given back still "
                         "waited for another stream",
                         f.asked.text, f.of_driver.text, f.pending.text);
    case LS_OOM_LIBRARY:
        return ls_format("Out of memory: %s asked for by %s, beside the framework's allocator, "
                         "which held %s in its cache",
                         f.asked.text, o->owner ? o->owner : "the program itself", f.cached.text);
    case LS_OOM_OTHERS:
        return ls_format("Out of memory: %s asked for, while others than this program held %s of "
                         "the device's %s",
                         f.asked.text, f.others.text, f.capacity.text);
    case LS_OOM_UNEXPLAINED:
        return ls_format("Out of memory: %s asked for%s and refused, though the driver said to "
                         "have %s free",
                         f.asked.text, f.of_driver.text, f.driver_free.text);
    default:
        return title_of_live(o, &f);
    }
}

static char *why_of_live(const struct ls_oom *o, const struct figures *f) {
    if (larger_than_device(o))
        return ls_format("No change in what else is held can make room for one request of %s.",
                         f->asked.text);
    if (!o->reported && o->allocated == 0)
        return ls_format(
            "Nothing else of this program was live on the device: the request alone is "
            "more than it has, or others hold the rest.");
    if (!o->reported)
        return ls_format("The program's own live memory on the device was %s%s%s; who "
                         "holds it: 'who holds it' in layoutspy oom.",
                         f->allocated.text, o->capacity > 0 ? " of " : "",
                         o->capacity > 0 ? f->capacity.text : "");
    if (o->cached > 0 && o->cached >= o->missing)
        return ls_format("Live memory is the matter: %s allocated. %s lay free in the allocator's "
                         "own segments, in pieces of at most %s: in one piece it would have served "
                         "this request, but it is so little that the next one would have failed.",
                         f->allocated.text, f->cached.text, f->hole.text);
    return ls_format(
        "Live memory is the matter: %s allocated, and only %s cached. With the request "
        "that is more than the device can give; nothing lies idle that could be used "
        "instead.",
        f->allocated.text, f->cached.text);
}

char *ls_oom_why(const struct ls_oom *o) {
    struct figures f = figures_of(o);
    switch (o->verdict) {
    case LS_OOM_FITTING:
        return ls_format(
            "The block waited for another stream when the request came. On failure the allocator "
            "waited for that stream, which made a free piece of %s (%s before), but then asked the "
            "driver again and not its own pool. Neither shortage nor fragmentation.",
            f.hole.text, f.before.text);
    case LS_OOM_LIMIT:
        return ls_format(
            "%s: the memory fraction that the program set for itself was used up "
            "(%s reserved, and with the request it would have been %s). The device was "
            "not full.",
            o->attempts == 0 ? "The allocator gave up without asking the driver"
                             : "The driver had more than was asked for",
            f.reserved.text, f.with.text);
    case LS_OOM_OTHER_POOL: {
        const struct ls_piece *piece = ls_oom_fitting_piece(o);
        return ls_format("The piece is free, but %s. Only %s was left at the driver.",
                         piece && ls_piece_of_graph(o, piece)
                             ? "it belongs to the private pool of a CUDA graph, for as long as the "
                               "graph lives"
                             : "it belongs to the pool of another stream, to a private pool, or a "
                               "split limit forbids to cut it: blocks are reused by the stream "
                               "that they were made on alone",
                         f.driver_free.text);
    }
    case LS_OOM_FRAGMENTED:
        return ls_format("%s reserved, %s allocated: the rest is free, but in segments that live "
                         "blocks keep from being given back, and its largest piece is %s. The "
                         "driver had %s; only %s were missing.",
                         f.reserved.text, f.allocated.text, f.hole.text, f.driver_free.text,
                         f.missing.text);
    case LS_OOM_PENDING:
        return ls_format(
            "%s were missing. The program had given %s back, but work queued on another "
            "stream still used it (record_stream), so the allocator could not hand it "
            "out again.",
            f.missing.text, f.pending.text);
    case LS_OOM_LIBRARY:
        return ls_format(
            "The request did not go through the framework's allocator, so that did not "
            "know and gave nothing back: of %s reserved, %s were in segments without "
            "any live block. %s were missing.",
            f.reserved.text, f.releasable.text, f.missing.text);
    case LS_OOM_OTHERS:
        return ls_format("Capacity %s, of which this program's allocations take %s and the driver "
                         "had %s free: the other %s belong to other processes, or to contexts.",
                         f.capacity.text, f.reserved.text, f.driver_free.text, f.others.text);
    case LS_OOM_UNEXPLAINED:
        return ls_format("%s were free when the program asked, more than the request. Another "
                         "process may have given memory back in between, or the failure has "
                         "another reason.",
                         f.driver_free.text);
    default:
        return why_of_live(o, &f);
    }
}

/* Whether max_split_size_mb can be below `largest`: PyTorch takes whole MiB, and refuses few. */
static bool split_limit_possible(int64_t largest) {
    return ((largest - 1) & -((int64_t)1 << 20)) > LS_SPLIT_LIMIT_FLOOR;
}

char *ls_fragmentation_advice(const struct ls_ooms *all, int64_t largest) {
    struct ls_human size;
    bool limit = !(all && all->split_limit) && split_limit_possible(largest);
    if (all && all->expandable)
        return ls_format(
            "Expandable segments are on already, so that switch changes nothing. Make "
            "the tensors that stay before the large temporaries, or keep one buffer of "
            "the largest size and reuse it.");
    return ls_format(
        "PYTORCH_ALLOC_CONF=expandable_segments:True lets segments shrink around what "
        "stays%s%s%s. In the code: make the tensors that stay before the large "
        "temporary, or call torch.cuda.empty_cache() once right after it is gone and "
        "before others are cut from its segment%s.",
        limit ? "; max_split_size_mb below " : "", limit ? ls_human_bytes(&size, largest) : "",
        limit ? " keeps its segment from being cut" : "",
        "; at the failure itself it does nothing, the allocator has given back what it "
        "could");
}

static char *advice_of_live(const struct ls_detect *d, const struct ls_oom *o) {
    if (larger_than_device(o))
        return ls_format("Work in smaller pieces, or check the size: it may be a mistake in a "
                         "shape or a count.");
    if (!o->reported && !(o->history && o->history->framework))
        return ls_format("Free what is no longer needed before this point, or work in smaller "
                         "pieces; above all at the lines that hold most ('who holds it' in "
                         "layoutspy oom).");
    return ls_format(
        "Less live memory: a smaller batch, %sor drop what the lines that "
        "hold most ('who holds it' in layoutspy oom) no longer need. Settings of the allocator "
        "and emptying its cache change nothing here.",
        d->pytorch ? "activation checkpointing, a smaller type, " : "");
}

char *ls_oom_advice(const struct ls_detect *d, const struct ls_ooms *all, const struct ls_oom *o) {
    switch (o->verdict) {
    case LS_OOM_FITTING:
        return ls_format("A defect of the allocator, not of the program: catching the error and "
                         "asking once more succeeds. Or wait for the other stream (wait_stream, or "
                         "synchronize its event) before the large request, so that the block is "
                         "free by then.");
    case LS_OOM_LIMIT:
        return ls_format("Raise or drop the limit (torch.cuda.set_per_process_memory_fraction, or "
                         "per_process_memory_fraction in the settings) if nobody else needs the "
                         "rest of the device.");
    case LS_OOM_OTHER_POOL:
        return all->split_limit
                   ? ls_format("max_split_size_mb is set: blocks above it are not cut for smaller "
                               "requests. Raise or drop it; or make the large request on the "
                               "stream that freed the piece.")
                   : ls_format("Make large tensors of one purpose on one stream and share them by "
                               "record_stream, or empty the cache (torch.cuda.empty_cache()) "
                               "when a stream or a graph is no longer used.");
    case LS_OOM_FRAGMENTED:
        return ls_fragmentation_advice(all, o->requested);
    case LS_OOM_PENDING:
        return ls_format("Let the other stream catch up before so much is made anew: wait for it "
                         "(torch.cuda.current_stream().wait_stream(side), or synchronize an event) "
                         "once per step, or let fewer batches run ahead. Settings of the allocator "
                         "do not help, the memory is still in use.");
    case LS_OOM_LIBRARY:
        return o->releasable >= o->missing
                   ? ls_format("Call torch.cuda.empty_cache() once before that call, or make it "
                               "(a communicator, a handle, a plan) early, before the cache fills; "
                               "or leave it room by a memory fraction.")
                   : ls_format("Make it early, before the framework takes the device, or leave it "
                               "room by a memory fraction (set_per_process_memory_fraction).");
    case LS_OOM_OTHERS:
        return ls_format("See who is on the device (nvidia-smi): another job, a process that did "
                         "not end, or other ranks with a context here. The program alone would "
                         "have had room.");
    case LS_OOM_UNEXPLAINED:
        return ls_format("Run it once more alone on the device; if it fails again, look at the "
                         "calls before it ('tried' in layoutspy oom).");
    default:
        return advice_of_live(d, o);
    }
}
