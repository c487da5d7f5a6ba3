/*
 * cudnn_graph_execute.c - cuDNN's graph API: running a plan. Any thread; not safe in a signal
 * handler.
 *
 * Fields: handle stream plan operations (names, comma separated), then the operands as
 * cudnn_standin.h says (those of the second operation with the prefix "2.", and so on; a tensor
 * without memory of its own has address 0), pads post_pads conv_strides dilations of a first
 * convolution, workspace workspace_size.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cudnn_graph.h"

#define USES_MOST 4

static const char *operation_name(int type) {
    static const struct {
        int type;
        const char *name;
    } names[] = {
#define OPERATION(name, type) {type, #name},
#define OPERAND(name, attribute, role)
#include "cudnn_operation.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].type == type)
            return names[i].name;
    return "OTHER";
}

static void put_operations(struct standin_call *call, const struct dn_node *graph) {
    const struct dn_attribute *operations = dn_node_find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    struct dn_node **nodes = operations->values;
    char text[256] = "";
    size_t used = 0;
    for (int64_t i = 0; i < operations->count && used < sizeof text - 40; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "",
                                 operation_name(nodes[i]->type));
    standin_put_text(call, "operations", text);
}

static void put_convolution(struct standin_call *call, const struct dn_node *graph) {
    static const int holders[] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC};
    static const struct {
        int attribute;
        const char *key;
    } lists[] = {{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, "pads"},
                 {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, "post_pads"},
                 {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, "conv_strides"},
                 {CUDNN_ATTR_CONVOLUTION_DILATIONS, "dilations"}};
    const struct dn_node *operation = dn_node_link(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    const struct dn_node *conv = NULL;
    for (int i = 0; i < 3 && !conv; i++)
        conv = dn_node_link(operation, holders[i]);
    for (int i = 0; conv && i < 4; i++) {
        const struct dn_attribute *list = dn_node_find(conv, lists[i].attribute);
        if (list)
            dn_put_list(call, lists[i].key, list->values, (int)list->count);
    }
}

struct execution {
    struct standin_call *call;
    const struct dn_node *pack;
    int status;
    /* Of the first operation. */
    struct dn_shape shape[USES_MOST];
    struct dn_use use[USES_MOST];
    size_t uses;
    int64_t input, filter; /* channels of each: what they differ by is the number of groups */
};

/* What its layouts are chosen by, where it is a convolution. */
static void take_use(struct execution *execution, const char *role, const struct dn_shape *shape) {
    bool filter = !strcmp(role, "w") || !strcmp(role, "dw");
    bool written = !strcmp(role, "y") || !strcmp(role, "dx") || !strcmp(role, "dw");
    if (!filter && !written && strcmp(role, "x") && strcmp(role, "dy"))
        return;
    if (execution->uses == USES_MOST)
        return;
    size_t at = execution->uses++;
    execution->shape[at] = *shape;
    execution->use[at] = (struct dn_use){&execution->shape[at], written};
    if (filter)
        execution->filter = shape->dims[1];
    else if (role[strlen(role) - 1] == 'x')
        execution->input = shape->dims[1];
}

/* The address that the variant pack gives to a tensor, or NULL. */
static const void *address_of(const struct dn_node *pack, int64_t id) {
    const struct dn_attribute *ids = dn_node_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct dn_attribute *data = dn_node_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int64_t i = 0; ids && data && i < ids->count; i++)
        if (((int64_t *)ids->values)[i] == id)
            return ((void **)data->values)[i];
    return NULL;
}

static bool flag(const struct dn_node *tensor, int attribute) {
    const struct dn_attribute *found = dn_node_find(tensor, attribute);
    return found && *(const bool *)found->values;
}

static void use_tensor(void *state, int operation, const char *role, const struct dn_node *tensor) {
    struct execution *execution = state;
    struct dn_shape shape;
    char prefix[16] = "";
    dn_node_shape(tensor, &shape);
    int64_t id = dn_node_int64(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    bool no_memory = flag(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    const void *address = no_memory ? NULL : address_of(execution->pack, id);
    if (operation == 0 && !no_memory)
        take_use(execution, role, &shape);
    if (operation > 0)
        snprintf(prefix, sizeof prefix, "%d.", operation + 1);
    dn_put_operand(execution->call, prefix,
                   &(struct dn_operand){role, address, &shape, true, false});
    if (no_memory || execution->status)
        return;
    if (!address)
        execution->status = CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    else if (!flag(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE) &&
             !standin_reachable(address, dn_span(&shape)))
        execution->status = CUDNN_STATUS_EXECUTION_FAILED;
}

/* The graph behind a finalized plan, or NULL. */
static const struct dn_node *graph_of(const struct dn_node *plan) {
    if (!plan || !plan->finalized || plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return NULL;
    const struct dn_node *config = dn_node_link(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct dn_node *engine = dn_node_link(config, CUDNN_ATTR_ENGINECFG_ENGINE);
    return dn_node_link(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

static bool convolves(const struct dn_node *graph) {
    const struct dn_node *operation = dn_node_link(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    return operation && strncmp(operation_name(operation->type), "CONVOLUTION", 11) == 0;
}

static int execute(struct execution *execution, const struct dn_node *plan) {
    struct standin_call *call = execution->call;
    const struct dn_node *pack = execution->pack;
    const struct dn_node *graph = graph_of(plan);
    if (!graph || !pack || !pack->finalized || pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    put_operations(call, graph);
    dn_graph_visit(graph, use_tensor, execution);
    if (!convolves(graph))
        execution->uses = 0;
    put_convolution(call, graph);
    const struct dn_attribute *given = dn_node_find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const void *workspace = given && given->count ? *(void **)given->values : NULL;
    int64_t needed = dn_node_int64(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 0);
    lib_put_pointer(call, "workspace", workspace);
    standin_put_signed(call, "workspace_size", needed);
    if (execution->status)
        return execution->status;
    if (needed && !workspace)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (needed && !standin_reachable(workspace, (uint64_t)needed))
        return CUDNN_STATUS_EXECUTION_FAILED;
    return 0;
}

/* Opens the call and checks it. */
static int begin(struct execution *execution, cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                 cudnnBackendDescriptor_t pack) {
    int status = dn_begin(execution->call, handle, NULL, 0);
    lib_put_pointer(execution->call, "plan", plan);
    execution->pack = dn_node_of(pack);
    return status ? status : execute(execution, dn_node_of(plan));
}

STANDIN_EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle,
                                                 cudnnBackendDescriptor_t plan,
                                                 cudnnBackendDescriptor_t pack) {
    LIB_ENTER(call);
    struct execution execution = {.call = &call};
    int status = begin(&execution, handle, plan, pack);
    if (execution.uses == 0)
        return dn_finish(&call, handle, status);
    int64_t groups = execution.filter ? execution.input / execution.filter : 1;
    return dn_finish_convolution(&call, handle, status, execution.use, execution.uses, groups);
}

/* ---- graphs of CUDA ---- */

/* Those that a plan has gone into: only they can be updated. */
static _Atomic uintptr_t populated[64];

static bool is_populated(cudaGraph_t graph, bool make) {
    for (size_t i = 0; i < sizeof populated / sizeof *populated; i++) {
        uintptr_t there = populated[i];
        if (there == (uintptr_t)graph)
            return true;
        if (!there)
            return make && atomic_compare_exchange_strong(&populated[i], &there, (uintptr_t)graph);
    }
    return false;
}

/* The nodes themselves are not made: nothing would compute in them. */
static cudnnStatus_t into_graph(struct standin_call *call, cudnnHandle_t handle,
                                cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                                cudaGraph_t graph, bool populates) {
    struct execution execution = {.call = call};
    int status = begin(&execution, handle, plan, pack);
    lib_put_pointer(call, "graph", graph);
    if (status == 0 && (!graph || !is_populated(graph, populates)))
        status = CUDNN_STATUS_BAD_PARAM;
    return standin_leave(call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t handle,
                                                           cudnnBackendDescriptor_t plan,
                                                           cudnnBackendDescriptor_t pack,
                                                           cudaGraph_t graph) {
    LIB_ENTER(call);
    return into_graph(&call, handle, plan, pack, graph, true);
}

STANDIN_EXPORT cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t handle,
                                                         cudnnBackendDescriptor_t plan,
                                                         cudnnBackendDescriptor_t pack,
                                                         cudaGraph_t graph) {
    LIB_ENTER(call);
    return into_graph(&call, handle, plan, pack, graph, false);
}
