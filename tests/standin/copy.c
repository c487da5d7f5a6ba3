/*
 * copy.c - copies and memsets. See copy.h.
 *
 * When a copy holds up the host: always for cudaMemcpy but within and between devices; for
 * cudaMemcpyAsync when pageable memory takes part, which cannot be read or written behind the
 * program's back: then the stream's earlier work is waited for as well.
 */
#include "copy.h"

#include "array.h"
#include "capture.h"
#include "device.h"
#include "handles.h"
#include "stream.h"
#include "tell.h"

/* One side, made out. */
struct end {
    struct span span;
    struct box box;
    const struct array *array;
};

const char *sd_side_word(enum standin_kind kind) {
    static const char *const words[] = {"pageable", "pinned", "pinned", "device", "device",
                                        "managed",  "array",  "device", "device"};
    return words[kind];
}

static bool on_device(enum standin_kind kind) {
    return kind == STANDIN_DEVICE || kind == STANDIN_ASYNC || kind == STANDIN_VMM ||
           kind == STANDIN_IPC || kind == STANDIN_ARRAY;
}

/* Products that would wrap are no sizes that anything could have. */
static bool extent(uint64_t rows_apart, uint64_t rows, uint64_t width, uint64_t *out) {
    return !__builtin_mul_overflow(rows_apart, rows - 1, out) &&
           !__builtin_add_overflow(*out, width, out);
}

static int find_linear(const struct side *side, uint64_t width, uint64_t height, uint64_t depth,
                       struct end *out) {
    if (!side->address)
        return SD_INVALID_VALUE;
    uint64_t pitch = side->pitch, slice, plane, bytes;
    if ((height > 1 || depth > 1) && pitch < side->x + width)
        return SD_INVALID_PITCH;
    if (__builtin_mul_overflow(pitch, side->rows, &slice))
        return SD_INVALID_VALUE;
    if (depth > 1 && side->rows < side->y + height)
        return SD_INVALID_VALUE;
    if (!extent(pitch, height, width, &plane) || !extent(slice, depth, plane, &bytes))
        return SD_INVALID_VALUE;
    const char *at = (const char *)side->address + side->z * slice + side->y * pitch + side->x;
    if ((uintptr_t)at + bytes < bytes || !sd_memory_span(at, bytes, &out->span))
        return SD_INVALID_VALUE;
    out->box = (struct box){out->span.view, pitch, slice};
    return SD_OK;
}

static int find_array(const struct array *a, const struct side *side, uint64_t width,
                      uint64_t height, uint64_t depth, struct end *out) {
    if (side->x + width > a->width * a->element || side->y + height > sd_array_rows(a) ||
        side->z + depth > sd_array_slices(a))
        return SD_INVALID_VALUE;
    out->span = (struct span){STANDIN_ARRAY, a->memory->device, a->memory->view, a->memory};
    out->box = (struct box){a->memory->view + side->z * a->slice + side->y * a->pitch + side->x,
                            a->pitch, a->slice};
    return SD_OK;
}

/* With unified addressing the pointers tell what they are; a kind that they contradict is
 * refused. Pinned and managed memory are both sides at once. */
static bool contradicts(int kind, enum standin_kind dst, enum standin_kind src) {
    bool dst_host = kind == COPY_H2H || kind == COPY_D2H;
    bool src_host = kind == COPY_H2H || kind == COPY_H2D;
    if (kind == COPY_DEFAULT)
        return false;
    return (dst_host ? on_device(dst) : dst == STANDIN_PAGEABLE) ||
           (src_host ? on_device(src) : src == STANDIN_PAGEABLE);
}

enum { DIRECTION_P2P = COPY_D2D + 1 };

static int direction(int kind, const struct span *dst, const struct span *src) {
    if (kind == COPY_DEFAULT) {
        bool to = on_device(dst->kind) || dst->kind == STANDIN_MANAGED;
        bool from = on_device(src->kind) || src->kind == STANDIN_MANAGED;
        kind = from ? (to ? COPY_D2D : COPY_D2H) : (to ? COPY_H2D : COPY_H2H);
    }
    bool peers = dst->device != src->device && dst->device >= 0 && src->device >= 0;
    return kind == COPY_D2D && peers ? DIRECTION_P2P : kind;
}

static const char *direction_word(int direction) {
    static const char *const words[] = {"H2H", "H2D", "D2H", "D2D", "P2P"};
    return words[direction];
}

void sd_copy_tell(struct work *work, int kind, const struct span *dst, const struct span *src) {
    /* By direction, and by which of the sides is an array: none, src, dst, both. */
    static const uint8_t numbers[][4] = {[COPY_H2H] = {9, 9, 9, 9},
                                         [COPY_H2D] = {1, 1, 3, 3},
                                         [COPY_D2H] = {2, 4, 2, 4},
                                         [COPY_D2D] = {8, 6, 7, 5},
                                         [DIRECTION_P2P] = {10, 10, 10, 10}};
    int arrays = (src->kind == STANDIN_ARRAY) + 2 * (dst->kind == STANDIN_ARRAY);
    work->copy.number = numbers[direction(kind, dst, src)][arrays];
    work->copy.dst_kind = (uint8_t)sd_tap_memory(dst->kind);
    work->copy.src_kind = (uint8_t)sd_tap_memory(src->kind);
    work->copy.dst_device = (int8_t)dst->device;
    work->copy.src_device = (int8_t)src->device;
}

static enum link link_of(const struct end *dst, const struct end *src) {
    if (dst->span.kind == STANDIN_PAGEABLE || src->span.kind == STANDIN_PAGEABLE)
        return LINK_PAGEABLE;
    if (on_device(dst->span.kind) && on_device(src->span.kind))
        return dst->span.device == src->span.device ? LINK_DEVICE : LINK_PEER;
    return LINK_PINNED;
}

static int find_sides(struct copy *copy, struct end *dst, struct end *src) {
    if (copy->dst.array && !(dst->array = sd_handle(copy->dst.array, HANDLE_ARRAY)))
        return SD_INVALID_HANDLE;
    if (copy->src.array && !(src->array = sd_handle(copy->src.array, HANDLE_ARRAY)))
        return SD_INVALID_HANDLE;
    if (copy->elements) {
        /* Widths and places are in elements of the array that takes part; bytes without one. */
        const struct array *a = dst->array ? dst->array : src->array;
        uint64_t element = a ? a->element : 1;
        if (dst->array && src->array && dst->array->element != src->array->element)
            return SD_INVALID_VALUE;
        copy->width *= element;
        copy->dst.x *= dst->array ? element : 1;
        copy->src.x *= src->array ? element : 1;
    }
    int status =
        dst->array ? find_array(dst->array, &copy->dst, copy->width, copy->height, copy->depth, dst)
                   : find_linear(&copy->dst, copy->width, copy->height, copy->depth, dst);
    if (status)
        return status;
    return src->array
               ? find_array(src->array, &copy->src, copy->width, copy->height, copy->depth, src)
               : find_linear(&copy->src, copy->width, copy->height, copy->depth, src);
}

static int peers_match(const struct side *side, const struct end *end) {
    if (side->device < 0)
        return SD_OK;
    if (!sd_device(side->device))
        return SD_INVALID_DEVICE;
    return end->span.device >= 0 && on_device(end->span.kind) && end->span.device != side->device
               ? SD_INVALID_VALUE
               : SD_OK;
}

static bool must_hold_host(const struct copy *copy, const struct end *dst, const struct end *src) {
    if (copy->async)
        return dst->span.kind == STANDIN_PAGEABLE || src->span.kind == STANDIN_PAGEABLE;
    return !(on_device(dst->span.kind) && on_device(src->span.kind));
}

/* The checked work of a copy; *hold: the host has to wait for it. Width 0: nothing to do. */
static int prepare(struct copy *copy, struct copied *out, struct work *work, bool *hold) {
    if (copy->kind < COPY_H2H || copy->kind > COPY_DEFAULT)
        return SD_INVALID_DIRECTION;
    if (!copy->width || !copy->height || !copy->depth)
        return SD_OK;
    struct end dst = {0}, src = {0};
    int status = find_sides(copy, &dst, &src);
    if (!status)
        status = peers_match(&copy->dst, &dst);
    if (!status)
        status = peers_match(&copy->src, &src);
    if (status)
        return status;
    if (contradicts(copy->kind, dst.span.kind, src.span.kind))
        return SD_INVALID_VALUE;
    uint64_t bytes = copy->width * copy->height * copy->depth;
    *out = (struct copied){true, src.span.kind, dst.span.kind,
                           direction_word(direction(copy->kind, &dst.span, &src.span)), bytes};
    *work = (struct work){.kind = WORK_COPY,
                          .duration_ns = sd_copy_ns(link_of(&dst, &src), bytes),
                          .copy = {dst.box, src.box, copy->width, copy->height, copy->depth,
                                   dst.span.kind == STANDIN_REGISTERED,
                                   src.span.kind == STANDIN_REGISTERED, 0, 0, 0, 0, 0}};
    sd_copy_tell(work, copy->kind, &dst.span, &src.span);
    *hold = must_hold_host(copy, &dst, &src);
    return SD_OK;
}

static int checked_copy(struct device *device, struct copy *copy, struct copied *out) {
    struct stream *stream = sd_stream(device, copy->stream, copy->per_thread);
    struct work work = {.kind = WORK_EMPTY};
    bool hold = false;
    if (!stream)
        return SD_INVALID_HANDLE;
    int status = prepare(copy, out, &work, &hold);
    if (status || work.kind == WORK_EMPTY)
        return status;
    return sd_submit(stream, work, hold, !copy->async);
}

uint64_t sd_copy_element(const void *handle) {
    if (sd_begin())
        return 1;
    const struct array *array = sd_handle(handle, HANDLE_ARRAY);
    uint64_t element = array ? array->element : 1;
    sd_end();
    return element;
}

int sd_copy_work(const struct copy *wanted, struct work *work) {
    struct copy copy = *wanted;
    struct copied copied;
    bool hold;
    *work = (struct work){.kind = WORK_EMPTY};
    int status = prepare(&copy, &copied, work, &hold);
    if (!status && work->kind == WORK_COPY) { /* it runs later, when host memory may be gone */
        work->copy.foreign_dst = copied.dst_kind <= STANDIN_REGISTERED;
        work->copy.foreign_src = copied.src_kind <= STANDIN_REGISTERED;
    }
    return status;
}

int sd_copy(const struct copy *wanted, struct copied *out) {
    struct copy copy = *wanted;
    struct device *device;
    *out = (struct copied){0};
    int status = sd_begin_context(&device);
    return status ? status : sd_end_with(checked_copy(device, &copy, out));
}

static int checked_set(struct device *device, const struct set *set, enum standin_kind *kind) {
    struct stream *stream = sd_stream(device, set->stream, set->per_thread);
    if (!stream)
        return SD_INVALID_HANDLE;
    if (!set->width || !set->height || !set->depth)
        return SD_OK;
    struct side side = {.address = set->address, .pitch = set->pitch, .rows = set->rows};
    struct end end;
    int status = find_linear(&side, set->width, set->height, set->depth, &end);
    if (status)
        return status;
    *kind = end.span.kind;
    if (end.span.kind == STANDIN_PAGEABLE || (uintptr_t)set->address % set->element != 0)
        return SD_INVALID_VALUE;
    struct work work = {.kind = WORK_SET,
                        .duration_ns =
                            sd_copy_ns(LINK_DEVICE, set->width * set->height * set->depth),
                        .set = {end.box, set->width, set->height, set->depth, set->value,
                                set->element, (uint8_t)sd_tap_memory(end.span.kind)}};
    /* Host memory is set before cudaMemset returns; device memory later. */
    return sd_submit(stream, work, !set->async && !on_device(end.span.kind), !set->async);
}

int sd_set(const struct set *set, enum standin_kind *kind) {
    struct device *device;
    *kind = STANDIN_PAGEABLE;
    int status = sd_begin_context(&device);
    return status ? status : sd_end_with(checked_set(device, set, kind));
}
