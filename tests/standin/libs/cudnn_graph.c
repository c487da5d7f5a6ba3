/*
 * cudnn_graph.c - cuDNN's graph API: its descriptors and their attributes. Any thread (references
 * are counted atomically; a descriptor itself belongs to one thread at a time, as in the real
 * library); not safe in a signal handler.
 */
#include <stdlib.h>
#include <string.h>

#include "cudnn_graph.h"

#define NODE_MAGIC 0x444e4744 /* 'DNGD' */

static size_t value_size(int type) {
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    case CUDNN_TYPE_FRACTION:
        return sizeof(cudnnFraction_t);
    default:
        return 4;
    }
}

/* ---- nodes ---- */

struct dn_node *dn_node_of(cudnnBackendDescriptor_t descriptor) {
    struct dn_node *node = descriptor;
    return node && node->magic == NODE_MAGIC ? node : NULL;
}

struct dn_node *dn_node_create(int type) {
    struct dn_node *node = calloc(1, sizeof *node);
    if (node) {
        node->magic = NODE_MAGIC;
        node->type = type;
        atomic_init(&node->references, 1);
    }
    return node;
}

static void drop_values(struct dn_attribute *attribute) {
    struct dn_node **links = attribute->values;
    for (int64_t i = 0; attribute->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < attribute->count;
         i++)
        dn_node_release(links[i]);
    free(attribute->values);
    attribute->values = NULL;
    attribute->count = 0;
}

void dn_node_release(struct dn_node *node) {
    if (!node || atomic_fetch_sub(&node->references, 1) > 1)
        return;
    while (node->attributes) {
        struct dn_attribute *attribute = node->attributes;
        node->attributes = attribute->next;
        drop_values(attribute);
        free(attribute);
    }
    node->magic = 0;
    free(node);
}

static struct dn_attribute *find(const struct dn_node *node, int name) {
    struct dn_attribute *attribute = node->attributes;
    while (attribute && attribute->name != name)
        attribute = attribute->next;
    return attribute;
}

const struct dn_attribute *dn_node_find(const struct dn_node *node, int name) {
    return find(node, name);
}

/* The attribute to write to: an old one is emptied. NULL without memory. */
static struct dn_attribute *slot(struct dn_node *node, int name) {
    struct dn_attribute *attribute = find(node, name);
    if (attribute) {
        drop_values(attribute);
        return attribute;
    }
    attribute = calloc(1, sizeof *attribute);
    if (!attribute)
        return NULL;
    attribute->name = name;
    attribute->next = node->attributes;
    node->attributes = attribute;
    return attribute;
}

static int check_links(struct dn_node *const *links, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!dn_node_of(links[i]))
            return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

int dn_node_set(struct dn_node *node, int name, int type, int64_t count, const void *values) {
    struct dn_node *const *links = values;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        int status = check_links(links, count);
        if (status)
            return status;
        for (int64_t i = 0; i < count; i++) /* before the old ones go: they may be the same */
            atomic_fetch_add(&links[i]->references, 1);
    }
    size_t size = (size_t)count * value_size(type);
    void *copy = malloc(size ? size : 1);
    struct dn_attribute *attribute = slot(node, name);
    if (!copy || !attribute) {
        free(copy);
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    if (size)
        memcpy(copy, values, size);
    attribute->type = type;
    attribute->count = count;
    attribute->values = copy;
    return 0;
}

int dn_node_become(struct dn_node *node, const struct dn_node *model) {
    for (const struct dn_attribute *a = model->attributes; a; a = a->next) {
        int status = dn_node_set(node, a->name, a->type, a->count, a->values);
        if (status)
            return status;
    }
    node->finalized = true;
    return 0;
}

struct dn_node *dn_node_link(const struct dn_node *node, int name) {
    const struct dn_attribute *attribute = find(node, name);
    if (!attribute || attribute->type != CUDNN_TYPE_BACKEND_DESCRIPTOR || attribute->count < 1)
        return NULL;
    return *(struct dn_node **)attribute->values;
}

int64_t dn_node_int64(const struct dn_node *node, int name, int64_t otherwise) {
    const struct dn_attribute *attribute = find(node, name);
    if (!attribute || attribute->type != CUDNN_TYPE_INT64 || attribute->count < 1)
        return otherwise;
    return *(int64_t *)attribute->values;
}

/* ---- which attributes a descriptor has, and of which type ---- */

#define TYPES 44 /* of descriptors: all that the real library makes */

/* Descriptors that are not listed take any attribute. */
static bool has_attribute(int type, int name) {
    static const struct {
        int type, first, last;
    } ranges[] = {
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 100, 199},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 200, 299},
        {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 300, 399},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 400, 499},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 700, 705},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 706, 711},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 712, 717},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 800, 899},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, 900, 999},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 1000, 1099},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1300, 1399},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].type == type)
            return name >= ranges[i].first && name <= ranges[i].last;
    return true;
}

/* The type of an attribute that this library reads, or -1. */
static int type_of_attribute(int name) {
    switch (name) {
    case CUDNN_ATTR_CONVOLUTION_DILATIONS:
    case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
    case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
    case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
    case CUDNN_ATTR_TENSOR_STRIDES:
    case CUDNN_ATTR_TENSOR_VECTOR_COUNT:
    case CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION:
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
    case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        return CUDNN_TYPE_INT64;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
        return CUDNN_TYPE_BOOLEAN;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
        return CUDNN_TYPE_VOID_PTR;
    case CUDNN_ATTR_OPERATIONGRAPH_OPS:
    case CUDNN_ATTR_ENGINE_OPERATION_GRAPH:
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG:
        return CUDNN_TYPE_BACKEND_DESCRIPTOR;
    default:
        return -1;
    }
}

static int check_attribute(const struct dn_node *node, int name, int type) {
    int expected = type_of_attribute(name);
    if (!has_attribute(node->type, name))
        return CUDNN_STATUS_BAD_PARAM;
    return expected < 0 || expected == type ? 0 : CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
}

/* ---- the entry points ---- */

STANDIN_EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                          cudnnBackendDescriptor_t *descriptor) {
    LIB_ENTER(call);
    standin_put_signed(&call, "type", (int)type);
    int status = lib_status(&call, descriptor ? 0 : CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    bool known = (int)type >= 0 && (int)type < TYPES;
    if (status == 0 && (!known || !(*descriptor = dn_node_create((int)type))))
        status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    lib_put_pointer(&call, "descriptor", status ? NULL : *descriptor);
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", descriptor);
    struct dn_node *node = dn_node_of(descriptor);
    int status = lib_status(&call, node ? 0 : CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    if (status == 0)
        dn_node_release(node);
    return standin_leave(&call, status);
}

static int set_attribute(struct dn_node *node, int name, int type, int64_t count,
                         const void *values) {
    if (!node)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (node->finalized || count < 0 || (count > 0 && !values))
        return CUDNN_STATUS_BAD_PARAM;
    int status = check_attribute(node, name, type);
    if (status)
        return status;
    return dn_node_set(node, name, type, count, values);
}

STANDIN_EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                      cudnnBackendAttributeName_t name,
                                                      cudnnBackendAttributeType_t type,
                                                      int64_t count, const void *values) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", descriptor);
    standin_put_signed(&call, "attribute", (int)name);
    standin_put_signed(&call, "count", count);
    int status = call.fault
                     ? call.fault
                     : set_attribute(dn_node_of(descriptor), (int)name, (int)type, count, values);
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", descriptor);
    struct dn_node *node = dn_node_of(descriptor);
    int status = lib_status(&call, node ? 0 : CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    if (status == 0)
        status = node->finalized ? CUDNN_STATUS_BAD_PARAM : dn_node_finalize(node);
    return standin_leave(&call, status);
}

/* Nodes are told by turning the caller's own ones into likenesses. */
static int tell_links(const struct dn_attribute *attribute, int64_t count, void *out) {
    struct dn_node **from = attribute->values;
    cudnnBackendDescriptor_t *to = out;
    for (int64_t i = 0; i < count; i++) {
        struct dn_node *node = dn_node_of(to[i]);
        int status = node ? dn_node_become(node, from[i]) : CUDNN_STATUS_BAD_PARAM;
        if (status)
            return status;
    }
    return 0;
}

static int get_attribute(struct dn_node *node, int name, int type, int64_t wanted, int64_t *count,
                         void *out) {
    if (!node)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!node->finalized)
        return CUDNN_STATUS_NOT_INITIALIZED;
    int64_t ignored;
    if (!count)
        count = &ignored;
    int status = check_attribute(node, name, type);
    if (status)
        return status;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return dn_heuristics(node, wanted, count, out);
    const struct dn_attribute *attribute = dn_node_find(node, name);
    *count = attribute ? attribute->count : 0; /* notes, knobs and the like: there are none */
    if (!attribute || !out || wanted <= 0)
        return 0;
    if (attribute->type != type)
        return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    int64_t told = *count = wanted < attribute->count ? wanted : attribute->count;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return tell_links(attribute, told, out);
    memcpy(out, attribute->values, (size_t)told * value_size(type));
    return 0;
}

STANDIN_EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                      cudnnBackendAttributeName_t name,
                                                      cudnnBackendAttributeType_t type,
                                                      int64_t wanted, int64_t *count, void *out) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", descriptor);
    standin_put_signed(&call, "attribute", (int)name);
    int status = call.fault ? call.fault
                            : get_attribute(dn_node_of(descriptor), (int)name, (int)type, wanted,
                                            count, out);
    return standin_leave(&call, status);
}
