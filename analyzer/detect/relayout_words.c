/*
 * relayout_words.c - what relayouts.h says in words and JSON. Main thread only; not for signal
 * handlers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "relayouts.h"
#include "thresholds.h"

enum ls_source_order ls_source_order(const struct ls_relayout *r) {
    const struct ls_flow_shape *from = r->src, *to = r->dst;
    int64_t before_to = 0, before_from = 0, least_from = 0, least_to = 0;
    bool used[8] = {false};
    if (r->repeated > 1)
        return LS_SOURCE_EXPANDED;
    if (!r->turned)
        return LS_SOURCE_ALIKE;
    /* The dimensions as the destination has them, the outermost first: do the source's fall, too?
     */
    for (int n = 0; n < to->dims && from->dims == to->dims; n++) {
        int next = -1;
        for (int i = 0; i < to->dims; i++)
            if (!used[i] && (next < 0 || to->stride[i] > to->stride[next]))
                next = i;
        used[next] = true;
        if (to->size[next] <= 1)
            continue;
        if (before_to && from->stride[next] > before_from)
            return LS_SOURCE_PERMUTED;
        before_to = least_to = to->stride[next];
        before_from = least_from = from->stride[next];
    }
    if (from->dense && !to->dense)
        return LS_SOURCE_SPREAD;
    return least_to == 1 && least_from > 1 && !from->in_bytes ? LS_SOURCE_STEPPED : LS_SOURCE_SLICE;
}

static int64_t least_stride(const struct ls_flow_shape *shape) {
    int64_t least = 0;
    for (int i = 0; i < shape->dims; i++)
        if (shape->size[i] > 1 && (least == 0 || shape->stride[i] < least))
            least = shape->stride[i];
    return least;
}

bool ls_source_is_stepped(const struct ls_relayout *r) {
    return r->turned && r->repeated == 1 && !r->src->in_bytes && least_stride(r->src) > 1;
}

/* Operators that do nothing but copy. */
bool ls_copy_is_asked_for(const char *operator) {
    static const char *const by[] = {"aten::contiguous", "aten::clone",    "aten::copy_",
                                     "aten::to",         "aten::_to_copy", "aten::reshape",
                                     "aten::flatten"};
    for (size_t i = 0; operator&& i<sizeof by / sizeof * by; i++)
        if (!strncmp(operator, by[i], strlen(by[i])) &&
            (operator[strlen(by[i])] == 0 || operator[strlen(by[i])] == '.'))
            return true;
    return false;
}

static bool is_operator(const char *name) {
    return name && !strncmp(name, "aten::", 6);
}

bool ls_copy_is_the_work(const struct ls_relayouts *g) {
    return is_operator(g->called) && is_operator(g->reader_called) &&
           strcmp(g->called, g->reader_called) != 0 && !ls_copy_is_asked_for(g->called);
}

static char *stepped_words(const char *view, int64_t step) {
    return ls_format("a %s view, every %lld%s element", view, (long long)step,
                     step == 2   ? "nd"
                     : step == 3 ? "rd"
                                 : "th");
}

char *ls_source_words(const struct ls_relayout *r) {
    switch (ls_source_order(r)) {
    case LS_SOURCE_PERMUTED:
        return ls_source_is_stepped(r) ? stepped_words("permuted and stepped", least_stride(r->src))
                                       : ls_format("a permuted view");
    case LS_SOURCE_SLICE:
        return ls_format("a slice with gaps");
    case LS_SOURCE_STEPPED:
        return stepped_words("stepped", least_stride(r->src));
    case LS_SOURCE_EXPANDED:
        return ls_format("an expanded view");
    case LS_SOURCE_SPREAD:
        return ls_format("in one piece, the destination is not");
    default:
        return ls_format("laid out alike");
    }
}

bool ls_reader_takes_source(const struct ls_relayout *r) {
    const struct ls_flow_shape *as = r->reader_shape;
    int64_t stride[2];
    if (!as || r->cast || as->dims < 2 || as->dims > 3 || as->in_bytes ||
        strcmp(as->layout, "column-major") != 0 || as->elements != r->dst->elements ||
        r->reader_address != r->dst_address)
        return false;
    for (int i = 0; i < as->dims; i++) {
        int64_t of =
            as->size[i] <= 1 ? 1 : ls_relayout_source_stride(r, as->stride[i], as->size[i]);
        if (of < 0 || (of == 0 && i < 2))
            return false;
        if (i < 2)
            stride[i] = of;
    }
    return (stride[0] == 1 && stride[1] >= as->size[0]) ||
           (stride[1] == 1 && stride[0] >= as->size[1]);
}

char *ls_needless_words(const struct ls_relayouts *g) {
    return ls_format("%s needs no copy: it reads a transposed matrix as it lies, by its op "
                     "argument. Leave out the %s at this line.",
                     g->reader, g->called ? g->called : "copy");
}

const char *ls_times_words(struct ls_human *h, int64_t count) {
    struct ls_human number;
    if (count == 1)
        snprintf(h->text, sizeof h->text, "once");
    else
        snprintf(h->text, sizeof h->text, "%.32s times", ls_human_count(&number, count));
    return h->text;
}

static json_t *numbers(const int64_t *value, int count) {
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, json_integer(value[i]));
    return array;
}

static json_t *side(const struct ls_flow_shape *shape, int64_t address) {
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:s, s:I, s:I}", "dtype", shape->dtype, "dims",
                  numbers(shape->size, shape->dims), "strides", numbers(shape->stride, shape->dims),
                  "layout", shape->layout, "bytes", shape->bytes, "address", address);
    if (shape->in_bytes)
        json_object_set_new(object, "strides_in_bytes", json_true());
    return object;
}

/* The source, with the dimensions that the reader gave the copy of it. */
static json_t *as_read(const struct ls_relayout *r) {
    const struct ls_flow_shape *as = r->reader_shape;
    json_t *strides = json_array();
    for (int i = 0; i < as->dims; i++) {
        int64_t of = as->size[i] <= 1 ? as->stride[i]
                                      : ls_relayout_source_stride(r, as->stride[i], as->size[i]);
        json_array_append_new(strides, of < 0 ? json_null() : json_integer(of));
    }
    return json_pack("{s:o, s:o, s:o, s:s}", "dims", numbers(as->size, as->dims), "strides",
                     numbers(as->stride, as->dims), "source_strides", strides, "layout",
                     as->layout);
}

json_t *ls_relayout_json(const struct ls_relayout *r) {
    json_t *copy =
        json_pack("{s:I, s:o, s:o, s:I}", "call", r->call, "source", side(r->src, r->src_address),
                  "destination", side(r->dst, r->dst_address), "kernel", r->kernel);
    if (r->gpu_ns >= 0)
        json_object_set_new(copy, "gpu_ns", json_integer(r->gpu_ns));
    if (r->reader) {
        json_object_set_new(copy, "reader_call", json_integer(r->reader));
        if (r->reader_shape && r->reader_shape->dims)
            json_object_set_new(copy, "as_read", as_read(r));
    }
    return copy;
}

const char *ls_operand_words(const struct ls_relayouts *g, char *into, size_t size) {
    if (g->reader_role[0])
        snprintf(into, size, " (operand %s)", g->reader_role);
    else
        into[0] = 0;
    return into;
}

static void set_text(json_t *evidence, const char *name, const char *text) {
    if (text && *text)
        json_object_set_new(evidence, name, ls_json_text(text));
}

struct ls_finding *ls_relayouts_finding(struct ls_detect *d, const struct ls_flow *flow,
                                        const struct ls_relayouts *g, const char *kind,
                                        int64_t gain_ns) {
    struct ls_finding *f = ls_finding_add(d, kind);
    bool timed = flow->timed && g->without_times == 0;
    f->count = g->count;
    f->bytes = g->bytes;
    f->time_ns = g->ns;
    f->gain_ns = gain_ns;
    f->site = ls_format("%s", g->site);
    json_t *e = f->evidence;
    json_object_set_new(e, "confidence", json_string(timed ? "linked" : "estimated"));
    char *basis =
        timed ? ls_format("GPU times") : ls_format("bytes, at %.0f GB/s", LS_DEVICE_BYTES_PER_NS);
    set_text(e, "basis", basis);
    free(basis);
    json_object_set_new(e, "share_of_run", json_real(ls_share_of_run(d, g->ns)));
    set_text(e, "operator", g->operator);
    set_text(e, "called", g->called);
    set_text(e, "reader", g->reader);
    set_text(e, "operand", g->reader_role);
    set_text(e, "reader_site", g->reader_site);
    json_object_set_new(e, "copy", ls_relayout_json(g->largest));
    json_object_set_new(e, "shapes", json_integer(g->shapes));
    json_object_set_new(e, "sources", json_integer(g->sources));
    if (g->steps)
        json_object_set_new(e, "steps", json_integer(g->steps));
    if (g->touched)
        json_object_set_new(e, "unknown_kernel_between", json_integer(g->touched));
    json_object_set_new(e, "first_ns", json_integer(g->first->start_ns));
    json_object_set_new(e, "last_ns", json_integer(g->last->start_ns));
    json_object_set_new(e, "gain",
                        json_pack("{s:s, s:s, s:s}", "of", "GPU", "confidence",
                                  timed ? "linked" : "estimated", "assumes",
                                  "the copies are not made"));
    if (d->lost)
        json_object_set_new(e, "lost_events", json_integer(d->lost));
    return f;
}
