/*
 * cudnn_setup.c - what the graph API's descriptors are told, and what becomes of that when they are
 * finalized. See cudnn_node.h. Any thread; no lock; async-signal-safe.
 */
#include <stddef.h>
#include <string.h>

#include "cudnn_node.h"
#include "on_cudnn.h"
#include "shape.h"

/* ---- values of attributes ---- */

/* At most LS_SHAPE_DIMS of them; where there are more, none. */
static uint8_t copy_dims(int64_t *to, int type, int64_t count, const void *values) {
    if (type != LS_CUDNN_TYPE_INT64 || count < 0 || count > LS_SHAPE_DIMS)
        return 0;
    memcpy(to, values, (size_t)count * sizeof *to);
    return (uint8_t)count;
}

static int64_t int64_of(int type, const void *values, int64_t otherwise) {
    if (type == LS_CUDNN_TYPE_INT64)
        memcpy(&otherwise, values, sizeof otherwise);
    return otherwise;
}

/* Of an enumeration of the attribute's own type. */
static int32_t enum_of(const void *values) {
    int32_t value;
    memcpy(&value, values, sizeof value);
    return value;
}

static bool bool_of(int type, const void *values) {
    return type == LS_CUDNN_TYPE_BOOLEAN && *(const uint8_t *)values != 0;
}

static const void *link_of(const void *values, int64_t i) {
    const void *link;
    memcpy(&link, (const char *)values + (size_t)i * sizeof link, sizeof link);
    return link;
}

/* ---- tensors ---- */

static void tell_tensor(struct ls_cudnn_tensor *tensor, int name, int type, int64_t count,
                        const void *values) {
    switch (name) {
    case LS_CUDNN_ATTR_TENSOR_DATA_TYPE:
        tensor->type = enum_of(values);
        break;
    case LS_CUDNN_ATTR_TENSOR_DIMENSIONS:
        tensor->dim_count = copy_dims(tensor->dims, type, count, values);
        break;
    case LS_CUDNN_ATTR_TENSOR_STRIDES:
        tensor->stride_count = copy_dims(tensor->strides, type, count, values);
        break;
    case LS_CUDNN_ATTR_TENSOR_VECTOR_COUNT:
        tensor->vector_count = int64_of(type, values, 0);
        break;
    case LS_CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION:
        tensor->vector_dim = int64_of(type, values, 0);
        break;
    case LS_CUDNN_ATTR_TENSOR_UNIQUE_ID:
        tensor->uid = int64_of(type, values, 0);
        tensor->has_uid = true;
        break;
    case LS_CUDNN_ATTR_TENSOR_IS_VIRTUAL:
        tensor->is_virtual = bool_of(type, values);
        break;
    case LS_CUDNN_ATTR_TENSOR_IS_BY_VALUE:
        tensor->by_value = bool_of(type, values);
        break;
    case LS_CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC:
        if (type == LS_CUDNN_TYPE_BACKEND_DESCRIPTOR)
            tensor->ragged = ls_cudnn_list_of(link_of(values, 0));
        break;
    default:
        break;
    }
}

static uint32_t shape_of_tensor(const struct ls_cudnn_tensor *tensor) {
    struct ls_shape shape = {.kind = LS_SHAPE_TENSOR, .dims = tensor->dim_count};
    if (tensor->dim_count != tensor->stride_count)
        return 0;
    if (tensor->has_uid) {
        shape.flags |= LS_SHAPE_UID;
        shape.uid = tensor->uid;
    }
    if (tensor->by_value)
        shape.flags |= LS_SHAPE_SCALAR;
    shape.dtype_told = tensor->type;
    shape.dtype = ls_cudnn_dtype(tensor->type);
    if (tensor->vector_count > 1 && tensor->vector_count <= UINT16_MAX && tensor->vector_dim >= 0) {
        shape.vector_count = (uint16_t)tensor->vector_count;
        shape.vector_dim = (uint16_t)tensor->vector_dim;
    }
    memcpy(shape.value, tensor->dims, tensor->dim_count * sizeof *shape.value);
    memcpy(shape.value + shape.dims, tensor->strides, tensor->dim_count * sizeof *shape.value);
    shape.values = 2u * shape.dims;
    return ls_shape_number(&shape);
}

/* The tensor itself; and the one with the offsets of its rows, where they differ in length. */
static uint32_t close_tensor(const struct ls_cudnn_tensor *tensor) {
    const struct ls_cudnn_item *ragged;
    struct ls_cudnn_item item[2] = {{.uid = tensor->uid,
                                     .shape = shape_of_tensor(tensor),
                                     .flags = tensor->is_virtual ? LS_CUDNN_VIRTUAL : 0}};
    uint32_t count = 1;
    if (ls_cudnn_list(tensor->ragged, &ragged) > 0) {
        item[count] = ragged[0];
        item[count++].role = LS_ROLE_OFFSET;
    }
    return ls_cudnn_list_number(item, count);
}

/* ---- settings of convolutions ---- */

static void tell_convolution(struct ls_cudnn_convolution *to, int name, int type, int64_t count,
                             const void *values) {
    static const struct {
        int name;
        uint8_t list;
    } lists[] = {{LS_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, LS_CUDNN_PRE},
                 {LS_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, LS_CUDNN_POST},
                 {LS_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, LS_CUDNN_STRIDE},
                 {LS_CUDNN_ATTR_CONVOLUTION_DILATIONS, LS_CUDNN_DILATION}};
    if (name == LS_CUDNN_ATTR_CONVOLUTION_CONV_MODE)
        to->mode = enum_of(values);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (lists[i].name == name)
            to->count[lists[i].list] = copy_dims(to->list[lists[i].list], type, count, values);
}

static uint32_t close_convolution(const struct ls_cudnn_convolution *told) {
    struct ls_shape shape = {.kind = LS_SHAPE_CONVOLUTION, .dims = told->count[0]};
    for (int i = 0; i < LS_CUDNN_LISTS; i++) {
        if (told->count[i] != shape.dims)
            return ls_cudnn_list_number(NULL, 0);
        memcpy(shape.value + i * shape.dims, told->list[i], shape.dims * sizeof *shape.value);
    }
    shape.values = LS_CUDNN_LISTS * shape.dims;
    shape.value[shape.values++] = 1;
    shape.value[shape.values++] = told->mode;
    shape.value[shape.values++] = -1; /* an engine's own affair */
    struct ls_cudnn_item item = {
        .shape = ls_shape_number(&shape), .role = LS_ROLE_CONVOLUTION, .flags = LS_CUDNN_SETTING};
    return ls_cudnn_list_number(&item, 1);
}

/* ---- operations ---- */

static uint8_t role_of(int attribute) {
    static const uint8_t roles[] = {
#define VALUE(name, number)
#define OPERAND(name, number, role) [number] = LS_ROLE_##role,
#include "cudnn_attribute.def"
    };
    uint8_t role = attribute >= 0 && attribute < (int)sizeof roles ? roles[attribute] : 0;
    return role ? role : LS_ROLE_TENSOR;
}

static void add_item(struct ls_cudnn_operation *to, const struct ls_cudnn_item *item) {
    if (item->flags & LS_CUDNN_VIRTUAL)
        return;
    for (uint32_t i = 0; i < to->count && i < LS_CUDNN_ITEMS; i++)
        if (memcmp(&to->item[i], item, sizeof *item) == 0)
            return;
    if (to->count < LS_CUDNN_ITEMS)
        to->item[to->count++] = *item;
}

/* An attribute that is told again has only what it is told last. */
static void drop_attribute(struct ls_cudnn_operation *of, int name) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < of->count && i < LS_CUDNN_ITEMS; i++)
        if (of->item[i].attribute != name)
            of->item[kept++] = of->item[i];
    of->count = kept;
}

static void add_operand(struct ls_cudnn_operation *to, int name, const void *descriptor) {
    int type = LS_CUDNN_TYPE(ls_cudnn_word(descriptor));
    if (type != LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR &&
        type != LS_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        return;
    const struct ls_cudnn_item *given;
    uint32_t count = ls_cudnn_list(ls_cudnn_list_of(descriptor), &given);
    for (uint32_t i = 0; i < count; i++) {
        struct ls_cudnn_item item = given[i];
        item.role = item.role ? item.role : role_of(name);
        item.attribute = (uint16_t)name;
        add_item(to, &item);
    }
}

static void tell_operation(struct ls_cudnn_operation *to, int name, int type, int64_t count,
                           const void *values) {
    if (name == LS_CUDNN_ATTR_OPERATION_NORM_FWD_PHASE && type == LS_CUDNN_TYPE_NORM_FWD_PHASE)
        to->inference = enum_of(values) == 0;
    if (type != LS_CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return;
    drop_attribute(to, name);
    for (int64_t i = 0; i < count && i < LS_CUDNN_ITEMS; i++)
        add_operand(to, name, link_of(values, i));
}

static const struct ls_shape *shape_with_role(const struct ls_cudnn_operation *in, uint8_t role,
                                              uint8_t or_role) {
    for (uint32_t i = 0; i < in->count && i < LS_CUDNN_ITEMS; i++)
        if (in->item[i].role == role || in->item[i].role == or_role)
            return ls_shape_at(in->item[i].shape);
    return NULL;
}

/* How many groups a convolution has, as its tensors say. */
static uint32_t with_groups(const struct ls_cudnn_operation *in, uint32_t convolution) {
    const struct ls_shape *x = shape_with_role(in, LS_ROLE_X, LS_ROLE_DX);
    const struct ls_shape *w = shape_with_role(in, LS_ROLE_W, LS_ROLE_DW);
    const struct ls_shape *told = ls_shape_at(convolution);
    if (!told || !x || !w || x->dims < 2 || w->dims < 2 || w->value[1] <= 0 ||
        x->value[1] / w->value[1] <= 1)
        return convolution;
    struct ls_shape shape = {0};
    memcpy(&shape, told, offsetof(struct ls_shape, value) + told->values * sizeof *told->value);
    shape.value[LS_CUDNN_LISTS * shape.dims] = x->value[1] / w->value[1];
    return ls_shape_number(&shape);
}

static uint32_t close_operation(struct ls_cudnn_operation *told) {
    uint32_t count = told->count < LS_CUDNN_ITEMS ? told->count : LS_CUDNN_ITEMS;
    for (uint32_t i = 0; i < count; i++) {
        struct ls_cudnn_item *item = &told->item[i];
        item->attribute = 0;
        if (item->role == LS_ROLE_CONVOLUTION)
            item->shape = with_groups(told, item->shape);
        if (told->inference && item->role == LS_ROLE_MEAN_OUT)
            item->role = LS_ROLE_MEAN;
        if (told->inference && item->role == LS_ROLE_VARIANCE_OUT)
            item->role = LS_ROLE_VARIANCE;
    }
    return ls_cudnn_list_number(told->item, count);
}

/* A graph has the operands of all of its operations. */
static void tell_graph(struct ls_cudnn_operation *to, int name, int type, int64_t count,
                       const void *values) {
    if (name != LS_CUDNN_ATTR_OPERATIONGRAPH_OPS || type != LS_CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return;
    to->count = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct ls_cudnn_item *item;
        uint32_t items = ls_cudnn_list(ls_cudnn_list_of(link_of(values, i)), &item);
        for (uint32_t k = 0; k < items; k++)
            add_item(to, &item[k]);
    }
}

/* ---- variant packs ---- */

static void tell_pack(struct ls_cudnn_pack *pack, int name, int type, int64_t count,
                      const void *values) {
    uint32_t some = (uint32_t)(count < LS_CUDNN_ITEMS ? count : LS_CUDNN_ITEMS);
    if (name == LS_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS && type == LS_CUDNN_TYPE_INT64) {
        memcpy(pack->uid, values, some * sizeof *pack->uid);
        pack->uids = some;
    } else if (name == LS_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS && type == LS_CUDNN_TYPE_VOID_PTR) {
        memcpy(pack->address, values, some * sizeof *pack->address);
        pack->addresses = some;
    } else if (name == LS_CUDNN_ATTR_VARIANT_PACK_WORKSPACE && type == LS_CUDNN_TYPE_VOID_PTR) {
        memcpy(&pack->workspace, values, sizeof pack->workspace);
    } else if (name == LS_CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS) {
        pack->other_shapes = true;
    }
}

/* ---- any of them ---- */

void ls_cudnn_tell(int of, struct ls_cudnn_block *block, int name, int type, int64_t count,
                   const void *values) {
    switch (of) {
    case LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        tell_tensor(&block->tensor, name, type, count, values);
        break;
    case LS_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        tell_convolution(&block->convolution, name, type, count, values);
        break;
    case LS_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        tell_graph(&block->operation, name, type, count, values);
        break;
    case LS_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        tell_pack(&block->pack, name, type, count, values);
        break;
    default:
        tell_operation(&block->operation, name, type, count, values);
    }
}

uint32_t ls_cudnn_close(int type, struct ls_cudnn_block *block) {
    switch (type) {
    case LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return close_tensor(&block->tensor);
    case LS_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return close_convolution(&block->convolution);
    default:
        return close_operation(&block->operation);
    }
}
