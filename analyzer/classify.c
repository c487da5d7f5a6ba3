/*
 * classify.c - see classify.h. One thread; not async-signal-safe.
 */
#include "classify.h"

#include <stdbool.h>

#include "clamp.h"
#include "common/roles.h"

enum copy_kind { KIND_H2H, KIND_H2D, KIND_D2H, KIND_D2D, KIND_DEFAULT }; /* cudaMemcpyKind */

#define NO_DEVICE -1

struct side {
    uint64_t address;
    enum ls_side_kind kind;
    int device;       /* of memory on a device, or NO_DEVICE */
    uint64_t element; /* arrays: bytes per element */
};

static enum ls_side_kind kind_of_life(const struct ls_life *life) {
    switch (life->kind) {
    case LS_MEMORY_MANAGED:
        return LS_SIDE_MANAGED;
    case LS_MEMORY_PINNED:
    case LS_MEMORY_REGISTERED:
        return LS_SIDE_PINNED;
    case LS_MEMORY_ARRAY:
        return LS_SIDE_ARRAY;
    default:
        return LS_SIDE_DEVICE;
    }
}

/* An address that no recorded allocation holds. `on_device`: the side that the kind puts there. */
static enum ls_side_kind kind_of_stranger(const struct ls_rec_call *call, unsigned asked,
                                          bool on_device) {
    switch (asked) {
    case LS_ASKED_PAGEABLE:
    case LS_ASKED_BEFORE:
        return LS_SIDE_PAGEABLE;
    case LS_ASKED_FAILED: /* an error of the program's was pending, say: nothing could be asked */
        return LS_SIDE_UNKNOWN;
    case LS_ASKED_PINNED:
        return LS_SIDE_PINNED;
    case LS_ASKED_DEVICE:
        return LS_SIDE_DEVICE;
    case LS_ASKED_MANAGED:
        return LS_SIDE_MANAGED;
    default:
        break;
    }
    if (call->head.flags & LS_CALL_CAPTURING)
        return LS_SIDE_UNKNOWN;
    return on_device ? LS_SIDE_DEVICE : LS_SIDE_PAGEABLE;
}

static void array_side(struct side *side, uint64_t handle, const struct ls_live *arrays) {
    const struct ls_life *life = ls_live_find(arrays, handle);
    side->address = handle;
    side->kind = LS_SIDE_ARRAY;
    if (life && life->address == handle) {
        side->device = life->device;
        side->element = life->element;
    }
}

static void memory_side(struct side *side, const struct ls_rec_call *call, unsigned asked,
                        bool on_device, const struct ls_live *memory) {
    const struct ls_life *life = ls_live_find(memory, side->address);
    side->kind = life ? kind_of_life(life) : kind_of_stranger(call, asked, on_device);
    if (life && side->kind == LS_SIDE_DEVICE)
        side->device = life->device;
}

static bool host_side(enum ls_side_kind kind) {
    return kind == LS_SIDE_PAGEABLE || kind == LS_SIDE_PINNED;
}

/* Only plain device memory and arrays stay where they are: managed memory has no device. */
static bool between_devices(const struct side *dst, const struct side *src) {
    return dst->device != NO_DEVICE && src->device != NO_DEVICE && dst->device != src->device;
}

static enum ls_direction direction(uint64_t kind, const struct side *dst, const struct side *src) {
    if (kind == KIND_DEFAULT) {
        if (dst->kind == LS_SIDE_UNKNOWN || src->kind == LS_SIDE_UNKNOWN)
            return LS_DIRECTION_UNKNOWN;
        if (host_side(src->kind))
            kind = host_side(dst->kind) ? KIND_H2H : KIND_H2D;
        else
            kind = host_side(dst->kind) ? KIND_D2H : KIND_D2D;
    }
    switch (kind) {
    case KIND_H2H:
        return LS_DIRECTION_H2H;
    case KIND_H2D:
        return LS_DIRECTION_H2D;
    case KIND_D2H:
        return LS_DIRECTION_D2H;
    case KIND_D2D:
        return between_devices(dst, src) ? LS_DIRECTION_P2P : LS_DIRECTION_D2D;
    default:
        return LS_DIRECTION_UNKNOWN;
    }
}

static uint64_t moved_bytes(const struct ls_rec_call *call, const struct ls_roles *roles,
                            const struct side *dst, const struct side *src) {
    if (roles->bytes >= 0)
        return call->field[roles->bytes];
    uint64_t width = ls_role(call, roles->width, 0);
    uint64_t height = ls_role(call, roles->height, 1), depth = ls_role(call, roles->depth, 1);
    bool array = dst->kind == LS_SIDE_ARRAY || src->kind == LS_SIDE_ARRAY;
    if (!array)
        return width * height * depth;
    uint64_t element = src->kind == LS_SIDE_ARRAY ? src->element : dst->element;
    return width * (height ? height : 1) * (depth ? depth : 1) * element;
}

/* The runtime's 3D functions count elements where an array takes part. */
static void tell_rows(struct ls_copy *copy, const struct ls_rec_call *call,
                      const struct ls_roles *roles, const struct side *dst,
                      const struct side *src) {
    uint64_t element = 1;
    if (roles->bytes < 0 && src->kind == LS_SIDE_ARRAY)
        element = src->element;
    else if (roles->bytes < 0 && dst->kind == LS_SIDE_ARRAY)
        element = dst->element;
    copy->dst_pitch = dst->kind == LS_SIDE_ARRAY ? 0 : ls_role(call, roles->dpitch, 0);
    copy->src_pitch = src->kind == LS_SIDE_ARRAY ? 0 : ls_role(call, roles->spitch, 0);
    copy->width = copy->dst_pitch || copy->src_pitch ? ls_role(call, roles->width, 0) * element : 0;
}

void ls_classify(const struct ls_rec_call *call, const struct ls_live *memory,
                 const struct ls_live *arrays, struct ls_copy *copy) {
    const struct ls_roles *roles = &ls_roles[call->head.api];
    uint64_t kind = ls_role(call, roles->kind, KIND_DEFAULT);
    uint64_t symbol = ls_role(call, roles->symbol, 0);
    struct side dst = {ls_role(call, roles->dst, symbol), LS_SIDE_DEVICE, NO_DEVICE, 1};
    struct side src = {ls_role(call, roles->src, symbol), LS_SIDE_DEVICE, NO_DEVICE, 1};
    bool peer = roles->dst_device >= 0; /* named devices: both sides are theirs */

    if (ls_role(call, roles->dst_array, 0))
        array_side(&dst, call->field[roles->dst_array], arrays);
    else if (roles->dst >= 0)
        memory_side(&dst, call, call->head.kinds >> 4, peer || kind == KIND_H2D || kind == KIND_D2D,
                    memory);
    if (ls_role(call, roles->src_array, 0))
        array_side(&src, call->field[roles->src_array], arrays);
    else if (roles->src >= 0)
        memory_side(&src, call, call->head.kinds & 15, peer || kind == KIND_D2H || kind == KIND_D2D,
                    memory);
    if (dst.device == NO_DEVICE && peer)
        dst.device = (int)call->field[roles->dst_device];
    if (src.device == NO_DEVICE && roles->src_device >= 0)
        src.device = (int)call->field[roles->src_device];

    copy->dst = dst.address;
    copy->src = src.address;
    copy->dst_kind = dst.kind;
    copy->src_kind = src.kind;
    copy->direction = direction(kind, &dst, &src);
    copy->bytes = moved_bytes(call, roles, &dst, &src);
    if (copy->bytes > LS_LARGEST) /* only of a damaged record: readers add up */
        copy->bytes = LS_LARGEST;
    tell_rows(copy, call, roles, &dst, &src);
}
