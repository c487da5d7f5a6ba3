/*
 * cudnn_graph_finalize.c - cuDNN's graph API: what finalizing each kind of descriptor checks and
 * derives, and the heuristics. Any thread; not safe in a signal handler.
 *
 * There are two engines: number 1 wants a workspace as large as the graph's first tensor (1 MiB
 * at least), number 0 wants none.
 */
#include <string.h>

#include "cudnn_graph.h"

#define ENGINES 2

void dn_node_shape(const struct dn_node *tensor, struct dn_shape *shape) {
    *shape = (struct dn_shape){.format = -1};
    const struct dn_attribute *type = dn_node_find(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE);
    const struct dn_attribute *dims = dn_node_find(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const struct dn_attribute *strides = dn_node_find(tensor, CUDNN_ATTR_TENSOR_STRIDES);
    if (type)
        memcpy(&shape->type, type->values, sizeof shape->type);
    if (!dims || !strides || dims->count != strides->count || dims->count > CUDNN_DIM_MAX)
        return;
    shape->count = (int)dims->count;
    memcpy(shape->dims, dims->values, (size_t)dims->count * sizeof(int64_t));
    memcpy(shape->strides, strides->values, (size_t)dims->count * sizeof(int64_t));
}

void dn_graph_visit(const struct dn_node *graph,
                    void (*visit)(void *state, int operation, const char *role,
                                  const struct dn_node *tensor),
                    void *state) {
    static const struct {
        int attribute;
        const char *role;
    } operands[] = {
#define OPERATION(name, type)
#define OPERAND(name, attribute, role) {attribute, role},
#include "cudnn_operation.def"
    };
    const struct dn_attribute *operations = dn_node_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    struct dn_node **nodes = operations ? operations->values : NULL;
    for (int64_t i = 0; operations && i < operations->count; i++) {
        for (size_t k = 0; k < sizeof operands / sizeof *operands; k++) {
            const struct dn_node *tensor = dn_node_link(nodes[i], operands[k].attribute);
            if (tensor)
                visit(state, (int)i, operands[k].role, tensor);
        }
    }
}

/* ---- checks by kind ---- */

static bool is_set(const struct dn_node *node, int attribute) {
    const struct dn_attribute *found = dn_node_find(node, attribute);
    return found && found->count && *(const bool *)found->values;
}

static int finalize_tensor(struct dn_node *node) {
    struct dn_shape shape;
    dn_node_shape(node, &shape);
    if (shape.count == 0 || !dn_node_find(node, CUDNN_ATTR_TENSOR_DATA_TYPE) ||
        !dn_node_find(node, CUDNN_ATTR_TENSOR_UNIQUE_ID) ||
        !dn_node_find(node, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT))
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < shape.count; i++)
        if (shape.dims[i] < 0 || shape.strides[i] < 0)
            return CUDNN_STATUS_BAD_PARAM;
    int64_t vector = dn_node_int64(node, CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1);
    int64_t along = dn_node_int64(node, CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, -1);
    if (vector > 1 && (along < 0 || along >= shape.count))
        return CUDNN_STATUS_BAD_PARAM;
    return is_set(node, CUDNN_ATTR_TENSOR_IS_VIRTUAL) && is_set(node, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
               ? CUDNN_STATUS_BAD_PARAM
               : 0;
}

static int finalize_convolution_descriptor(struct dn_node *node) {
    static const int needed[] = {
        CUDNN_ATTR_CONVOLUTION_COMP_TYPE,    CUDNN_ATTR_CONVOLUTION_CONV_MODE,
        CUDNN_ATTR_CONVOLUTION_DILATIONS,    CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
        CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!dn_node_find(node, needed[i]))
            return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

/* The length of an output side of a convolution, or 0. */
static int64_t output_length(const struct dn_node *conv, int64_t in, int64_t window, int64_t i) {
    const struct dn_attribute *pre = dn_node_find(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const struct dn_attribute *post = dn_node_find(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
    const struct dn_attribute *stride = dn_node_find(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const struct dn_attribute *dilation = dn_node_find(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS);
    if (!pre || !post || !stride || !dilation || i >= pre->count || i >= post->count ||
        i >= stride->count || i >= dilation->count)
        return 0;
    int64_t reach = (window - 1) * ((int64_t *)dilation->values)[i] + 1;
    int64_t room = in + ((int64_t *)pre->values)[i] + ((int64_t *)post->values)[i] - reach;
    return room < 0 ? 0 : room / ((int64_t *)stride->values)[i] + 1;
}

/* x, w and y as a forward convolution sees them. */
static int check_convolution(const struct dn_node *conv, const struct dn_node *x_node,
                             const struct dn_node *w_node, const struct dn_node *y_node) {
    if (!conv || !x_node || !w_node || !y_node)
        return CUDNN_STATUS_BAD_PARAM;
    struct dn_shape x, w, y;
    dn_node_shape(x_node, &x);
    dn_node_shape(w_node, &w);
    dn_node_shape(y_node, &y);
    if (x.count != w.count || x.count != y.count || x.dims[0] != y.dims[0] ||
        y.dims[1] != w.dims[0] || w.dims[1] == 0 || x.dims[1] % w.dims[1])
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 2; i < x.count; i++)
        if (y.dims[i] != output_length(conv, x.dims[i], w.dims[i], i - 2))
            return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

static int finalize_convolution(struct dn_node *node) {
    if (dn_node_find(node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC))
        return check_convolution(
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC),
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
    if (dn_node_find(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC))
        return check_convolution(
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC),
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX),
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
            dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
    return check_convolution(
        dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC),
        dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
        dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
        dn_node_link(node, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
}

static int finalize_graph(struct dn_node *node) {
    const struct dn_attribute *operations = dn_node_find(node, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (!operations || operations->count < 1 || operations->type != CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    int64_t engines = ENGINES;
    return dn_node_set(node, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1,
                       &engines);
}

static int finalize_engine(struct dn_node *node) {
    int64_t index = dn_node_int64(node, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
    if (!dn_node_link(node, CUDNN_ATTR_ENGINE_OPERATION_GRAPH))
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    return index >= 0 && index < ENGINES ? 0 : CUDNN_STATUS_NOT_SUPPORTED;
}

static void first_span(void *state, int operation, const char *role, const struct dn_node *tensor) {
    (void)role;
    int64_t *span = state;
    struct dn_shape shape;
    dn_node_shape(tensor, &shape);
    if (operation == 0 && *span == 0)
        *span = (int64_t)dn_span(&shape);
}

static int finalize_config(struct dn_node *node) {
    const struct dn_node *engine = dn_node_link(node, CUDNN_ATTR_ENGINECFG_ENGINE);
    if (!engine)
        return CUDNN_STATUS_BAD_PARAM;
    int64_t workspace = 0;
    if (dn_node_int64(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0) > 0) {
        dn_graph_visit(dn_node_link(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH), first_span,
                       &workspace);
        if (workspace < 1 << 20)
            workspace = 1 << 20;
    }
    int shared = 0;
    int status =
        dn_node_set(node, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace);
    return status ? status
                  : dn_node_set(node, CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32, 1,
                                &shared);
}

static int finalize_plan(struct dn_node *node) {
    const struct dn_node *config = dn_node_link(node, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (!config)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    int64_t workspace = dn_node_int64(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, 0);
    return dn_node_set(node, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                       &workspace);
}

static int finalize_pack(struct dn_node *node) {
    const struct dn_attribute *ids = dn_node_find(node, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct dn_attribute *data = dn_node_find(node, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    return (ids ? ids->count : 0) == (data ? data->count : 0) ? 0 : CUDNN_STATUS_BAD_PARAM;
}

static bool links_finalized(const struct dn_node *node) {
    for (const struct dn_attribute *a = node->attributes; a; a = a->next) {
        struct dn_node **links = a->values;
        for (int64_t i = 0; a->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < a->count; i++)
            if (!links[i]->finalized)
                return false;
    }
    return true;
}

static int check(struct dn_node *node) {
    if (!links_finalized(node))
        return CUDNN_STATUS_BAD_PARAM;
    switch (node->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return finalize_tensor(node);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return finalize_convolution_descriptor(node);
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return finalize_convolution(node);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return finalize_graph(node);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return finalize_engine(node);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return finalize_config(node);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return dn_node_link(node, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) ? 0
                                                                         : CUDNN_STATUS_BAD_PARAM;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return finalize_plan(node);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return finalize_pack(node);
    default:
        return 0;
    }
}

int dn_node_finalize(struct dn_node *node) {
    int status = check(node);
    node->finalized = status == 0;
    return status;
}

/* ---- heuristics ---- */

/* Makes `config` a finalized configuration of engine `index` for `graph`. */
static int fill_config(struct dn_node *config, struct dn_node *graph, int64_t index) {
    struct dn_node *engine = dn_node_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!engine)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    int status = dn_node_set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                             CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    if (status == 0)
        status = dn_node_set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    if (status == 0)
        status = dn_node_finalize(engine);
    if (status == 0)
        status = dn_node_set(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                             &engine);
    dn_node_release(engine); /* the configuration has its own reference */
    return status ? status : dn_node_finalize(config);
}

int dn_heuristics(const struct dn_node *heuristics, int64_t wanted, int64_t *count,
                  cudnnBackendDescriptor_t *out) {
    struct dn_node *graph = dn_node_link(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (!graph)
        return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
    *count = ENGINES;
    if (!out)
        return 0;
    for (int64_t i = 0; i < wanted && i < ENGINES; i++) {
        struct dn_node *config = dn_node_of(out[i]);
        int status = config ? fill_config(config, graph, ENGINES - 1 - i) : CUDNN_STATUS_BAD_PARAM;
        if (status)
            return status;
    }
    if (wanted < *count)
        *count = wanted;
    return 0;
}
