/*
 * ingest_capture.c - which streams are being captured into graphs: memory that is allocated on one
 * of them is the graph's. See ingest_block.h.
 *
 * A stream is captured from its cudaStreamBeginCapture on, and from when it waits for an event of a
 * captured stream; all that joined leave with the stream that began. A few at a time: lists.
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>

#include "common/roles.h"
#include "ingest_internal.h"

static struct ls_captured *find(struct ls_capture *capture, bool event, uint64_t handle) {
    for (size_t i = 0; i < capture->count; i++)
        if (capture->at[i].event == event && capture->at[i].handle == handle)
            return &capture->at[i];
    return NULL;
}

static void add(struct ls_capture *capture, bool event, uint64_t handle, uint64_t origin) {
    struct ls_captured *known = find(capture, event, handle);
    if (known) {
        known->origin = origin;
        return;
    }
    struct ls_captured *at =
        ls_ingest_room(capture->at, capture->count, &capture->room, sizeof *at);
    if (!at)
        return;
    capture->at = at;
    at[capture->count++] = (struct ls_captured){handle, origin, event};
}

static void leave(struct ls_capture *capture, uint64_t origin) {
    for (size_t i = 0; i < capture->count; i++)
        if (capture->at[i].origin == origin)
            capture->at[i--] = capture->at[--capture->count];
}

bool ls_capture_has(struct ls_ingest *ingest, uint64_t stream) {
    return find(&ingest->blocks.capture, false, stream) != NULL;
}

void ls_capture_track(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    struct ls_capture *capture = &ingest->blocks.capture;
    uint64_t stream = ls_role(record, roles->stream, 0), event = ls_role(record, roles->event, 0);
    const struct ls_captured *known;
    if (record->status != 0 && ls_api_info[record->head.api].cls != LS_CLASS_CAPTURE_END)
        return;
    switch (ls_api_info[record->head.api].cls) {
    case LS_CLASS_CAPTURE_BEGIN:
        add(capture, false, stream, stream);
        break;
    case LS_CLASS_CAPTURE_END:
        leave(capture, stream);
        break;
    case LS_CLASS_EVENT:
        if (capture->count && roles->stream >= 0 && (known = find(capture, false, stream)))
            add(capture, true, event, known->origin);
        break;
    case LS_CLASS_STREAM:
        if (capture->count && roles->event >= 0 && (known = find(capture, true, event)))
            add(capture, false, stream, known->origin);
        break;
    default:
        break;
    }
}
