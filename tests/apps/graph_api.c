/*
 * graph_api.c [ROUNDS] - cuDNN's graph API, by hand: a convolution with bias and ReLU in one graph,
 * its gradients, a matrix product, attention, a normalisation; each plan by the heuristics, as
 * PyTorch does it, or by an engine of the program's choice. All but the plans is destroyed before
 * they are executed, ROUNDS times (3), each time with a new variant pack. Then what is refused.
 * Prints "done".
 */
#include <stdbool.h>

#include "cuda_app.h"

enum { TYPE_HANDLE, TYPE_DATA, TYPE_BOOLEAN, TYPE_INT64, TYPE_DOUBLE = 5, TYPE_POINTER };
enum { TYPE_CONV_MODE = 7, TYPE_HEUR_MODE, TYPE_POINTWISE_MODE = 14, TYPE_DESCRIPTOR };
enum { TYPE_NORM_MODE = 27, TYPE_NORM_PHASE };
enum { F32 = 0, F16 = 2, BF16 = 9 };
enum { CONVOLUTION = 1, ENGINE, CONFIG, HEURISTICS, PLAN, GRAPH = 15, PACK, TENSOR };
enum { FORWARD = 10, BACKWARD_FILTER, BACKWARD_DATA, POINTWISE };
enum { MATMUL = 18, OP_MATMUL, NORM_FORWARD = 29, SDPA = 41 };

typedef cudnnBackendDescriptor_t node;

static cudnnHandle_t handle;
static char *memory;
static size_t used;

static void *room(size_t bytes) {
    used = (used + 255) & ~(size_t)255;
    EXPECT(used + bytes < 64u << 20);
    used += bytes;
    return memory + used - bytes;
}

static node make(int type) {
    node made;
    CHECK(cudnnBackendCreateDescriptor(type, &made));
    return made;
}

static void set(node of, int name, int type, int64_t count, const void *values) {
    CHECK(cudnnBackendSetAttribute(of, name, type, count, values));
}

static node finish(node made) {
    CHECK(cudnnBackendFinalize(made));
    return made;
}

/* Everything but the plans: destroyed before these are used. */
static node made[128];
static int count;

static node keep(node one) {
    EXPECT(count < 128);
    return made[count++] = one;
}

static void destroy_all(void) {
    while (count > 0)
        CHECK(cudnnBackendDestroyDescriptor(made[--count]));
}

static node tensor_with(int64_t uid, int type, int dims, const int64_t *size,
                        const int64_t *strides, bool is_virtual, bool by_value) {
    node t = make(TENSOR);
    const int64_t align = 16;
    set(t, 901, TYPE_DATA, 1, &type);
    set(t, 902, TYPE_INT64, dims, size);
    set(t, 903, TYPE_INT64, dims, strides);
    set(t, 906, TYPE_INT64, 1, &uid);
    set(t, 900, TYPE_INT64, 1, &align);
    if (is_virtual)
        set(t, 907, TYPE_BOOLEAN, 1, &is_virtual);
    if (by_value)
        set(t, 908, TYPE_BOOLEAN, 1, &by_value);
    return keep(finish(t));
}

#define TENSOR4(uid, type, a, b, c, d, e, f, g, h)                                                 \
    tensor_with(uid, type, 4, (const int64_t[]){a, b, c, d}, (const int64_t[]){e, f, g, h}, false, \
                false)
#define VIRTUAL4(uid, type, a, b, c, d, e, f, g, h)                                                \
    tensor_with(uid, type, 4, (const int64_t[]){a, b, c, d}, (const int64_t[]){e, f, g, h}, true,  \
                false)

static node convolution(void) {
    node c = make(CONVOLUTION);
    const int64_t ones[] = {1, 1}, two = 2;
    const int type = F32, mode = 1;
    set(c, 100, TYPE_DATA, 1, &type);
    set(c, 101, TYPE_CONV_MODE, 1, &mode);
    set(c, 102, TYPE_INT64, 2, ones);
    set(c, 103, TYPE_INT64, 2, ones);
    set(c, 104, TYPE_INT64, 2, ones);
    set(c, 105, TYPE_INT64, 2, ones);
    set(c, 106, TYPE_INT64, 1, &two);
    return keep(finish(c));
}

/* An operation with these tensors and the like, by attribute; ends with 0. */
static node operation(int type, const int *names, const node *links) {
    node o = make(type);
    for (int i = 0; names[i]; i++)
        set(o, names[i], TYPE_DESCRIPTOR, 1, &links[i]);
    return keep(o);
}
#define OPERATION(type, names, ...) operation(type, (const int[])names, (const node[]){__VA_ARGS__})
#define NAMES(...)                                                                                 \
    { __VA_ARGS__, 0 }

static node graph_of(int operations, const node *operation_list) {
    node g = make(GRAPH);
    set(g, 800, TYPE_HANDLE, 1, &handle);
    set(g, 801, TYPE_DESCRIPTOR, operations, operation_list);
    return keep(finish(g));
}

static node plan_of_config(node config) {
    node p = make(PLAN);
    set(p, 401, TYPE_DESCRIPTOR, 1, &config);
    set(p, 400, TYPE_HANDLE, 1, &handle);
    return finish(p);
}

/* The first that the heuristics offer, or an engine by its number. */
static node plan_of(node graph, int64_t engine) {
    if (engine < 0) {
        const int mode = 0;
        int64_t offered = 0;
        node heuristics = make(HEURISTICS), results[4];
        set(heuristics, 201, TYPE_DESCRIPTOR, 1, &graph);
        set(heuristics, 200, TYPE_HEUR_MODE, 1, &mode);
        keep(finish(heuristics));
        for (int i = 0; i < 4; i++)
            results[i] = keep(make(CONFIG));
        CHECK(cudnnBackendGetAttribute(heuristics, 202, TYPE_DESCRIPTOR, 4, &offered, results));
        EXPECT(offered > 0);
        return plan_of_config(results[0]);
    }
    node e = make(ENGINE), config = make(CONFIG);
    set(e, 1300, TYPE_DESCRIPTOR, 1, &graph);
    set(e, 1301, TYPE_INT64, 1, &engine);
    keep(finish(e));
    set(config, 300, TYPE_DESCRIPTOR, 1, &e);
    return plan_of_config(keep(finish(config)));
}

static void execute(node plan, int tensors, const int64_t *uids, void *const *addresses) {
    int64_t size = 0, told;
    node pack = make(PACK);
    CHECK(cudnnBackendGetAttribute(plan, 402, TYPE_INT64, 1, &told, &size));
    void *workspace = size ? room((size_t)size) : NULL;
    set(pack, 1001, TYPE_POINTER, tensors, addresses);
    set(pack, 1000, TYPE_INT64, tensors, uids);
    set(pack, 1003, TYPE_POINTER, 1, &workspace);
    finish(pack);
    CHECK(cudnnBackendExecute(handle, plan, pack));
    CHECK(cudnnBackendDestroyDescriptor(pack));
}

/* ---- what PyTorch has: one convolution, cached by what it works on ---- */

enum { X = 'x', W = 'w', Y = 'y', B = 'b' };

static node convolution_plan(int type, int64_t groups, bool channels_last) {
    node x = channels_last ? TENSOR4(X, type, 2, 8, 6, 5, 240, 1, 40, 8)
                           : TENSOR4(X, type, 2, 8, 6, 5, 240, 30, 5, 1);
    node w = TENSOR4(W, type, 12, 8 / groups, 3, 3, 72 / groups, 9, 3, 1);
    node y = TENSOR4(Y, type, 2, 12, 6, 5, 360, 30, 5, 1);
    node op = OPERATION(FORWARD, NAMES(702, 704, 703, 705), convolution(), x, w, y);
    return plan_of(graph_of(1, (node[]){finish(op)}), -1);
}

static node gradient_plan(bool of_filter) {
    node x = TENSOR4(X, F32, 2, 8, 6, 5, 240, 30, 5, 1);
    node w = TENSOR4(W, F32, 12, 8, 3, 3, 72, 9, 3, 1);
    node dy = TENSOR4(Y, F32, 2, 12, 6, 5, 360, 30, 5, 1);
    node op = of_filter
                  ? OPERATION(BACKWARD_FILTER, NAMES(714, 716, 717, 715), convolution(), x, dy, w)
                  : OPERATION(BACKWARD_DATA, NAMES(708, 709, 711, 710), convolution(), w, dy, x);
    return plan_of(graph_of(1, (node[]){finish(op)}), 0);
}

static void run_convolution(node plan) {
    void *addresses[] = {room(8192), room(8192), room(8192)};
    execute(plan, 3, (const int64_t[]){X, Y, W}, addresses);
}

/* ---- fused: convolution, bias, ReLU; between them tensors without memory ---- */

static node pointwise(int mode, const int *names, const node *links) {
    node setting = make(0), op = operation(POINTWISE, names, links);
    const int type = F32;
    set(setting, 0, TYPE_POINTWISE_MODE, 1, &mode);
    set(setting, 1, TYPE_DATA, 1, &type);
    keep(finish(setting));
    set(op, 750, TYPE_DESCRIPTOR, 1, &setting);
    return finish(op);
}

static node fused_plan(void) {
    node x = TENSOR4(X, BF16, 2, 8, 6, 5, 240, 1, 40, 8);
    node w = TENSOR4(W, BF16, 12, 8, 3, 3, 72, 1, 24, 8);
    node b = TENSOR4(B, BF16, 1, 12, 1, 1, 12, 1, 12, 12);
    node y = TENSOR4(Y, BF16, 2, 12, 6, 5, 360, 1, 60, 12);
    node between = VIRTUAL4(100, F32, 2, 12, 6, 5, 360, 1, 60, 12);
    node biased = VIRTUAL4(101, F32, 2, 12, 6, 5, 360, 1, 60, 12);
    node ops[] = {
        finish(OPERATION(FORWARD, NAMES(702, 704, 703, 705), convolution(), x, w, between)),
        pointwise(0, (const int[]){751, 752, 753, 0}, (node[]){between, b, biased}),
        pointwise(100, (const int[]){751, 753, 0}, (node[]){biased, y})};
    return plan_of(graph_of(3, ops), 1);
}

/* ---- products and attention ---- */

static node product_plan(void) {
    const int64_t a[] = {4, 16, 32}, as[] = {512, 32, 1}, b[] = {4, 32, 24}, bs[] = {768, 1, 32};
    const int64_t c[] = {4, 16, 24}, cs[] = {384, 24, 1};
    const int type = F32;
    node setting = make(MATMUL);
    set(setting, 1500, TYPE_DATA, 1, &type);
    keep(finish(setting));
    node op = OPERATION(OP_MATMUL, NAMES(1520, 1521, 1522, 1523),
                        tensor_with(1, F16, 3, a, as, false, false),
                        tensor_with(2, F16, 3, b, bs, false, false),
                        tensor_with(-3, F16, 3, c, cs, false, false), setting);
    return plan_of(graph_of(1, (node[]){finish(op)}), -1);
}

static node attention_plan(void) {
    const int64_t one[] = {1, 1, 1, 1};
    node q = TENSOR4(1, F16, 2, 4, 16, 64, 4096, 64, 256, 1);
    node k = TENSOR4(2, F16, 2, 4, 16, 64, 4096, 64, 256, 1);
    node v = TENSOR4(3, F16, 2, 4, 16, 64, 4096, 1024, 64, 1);
    node o = TENSOR4(4, F16, 2, 4, 16, 64, 4096, 64, 256, 1);
    node scale = tensor_with(5, F32, 4, one, one, false, true);
    node op = OPERATION(SDPA, NAMES(2800, 2801, 2802, 2803, 2805), q, k, v, o, scale);
    return plan_of(graph_of(1, (node[]){finish(op)}), -1);
}

static node norm_plan(void) {
    const int layer = 0, training = 1;
    node x = TENSOR4(1, F16, 8, 32, 1, 1, 32, 1, 32, 32),
         y = TENSOR4(2, F16, 8, 32, 1, 1, 32, 1, 32, 32);
    node scale = TENSOR4(3, F32, 1, 32, 1, 1, 32, 1, 32, 32),
         shift = TENSOR4(4, F32, 1, 32, 1, 1, 32, 1, 32, 32);
    node mean = TENSOR4(5, F32, 8, 1, 1, 1, 1, 1, 1, 1),
         inverse = TENSOR4(6, F32, 8, 1, 1, 1, 1, 1, 1, 1);
    node op = OPERATION(NORM_FORWARD, NAMES(2002, 2003, 2004, 2005, 2006, 2013), x, mean, inverse,
                        scale, shift, y);
    set(op, 2000, TYPE_NORM_MODE, 1, &layer);
    set(op, 2001, TYPE_NORM_PHASE, 1, &training);
    return plan_of(graph_of(1, (node[]){finish(op)}), 0);
}

/* ---- what is refused ---- */

static void wrong(node plan) {
    const int64_t uid = X;
    node t = make(TENSOR), pack = make(PACK), nothing = NULL;
    void *address = room(8192);
    EXPECT(cudnnBackendFinalize(t) != 0); /* told nothing */
    EXPECT(cudnnBackendFinalize(NULL) != 0);
    EXPECT(cudnnBackendCreateDescriptor(1000, &nothing) != 0);
    EXPECT(cudnnBackendCreateDescriptor(TENSOR, NULL) != 0);
    EXPECT(cudnnBackendSetAttribute(NULL, 906, TYPE_INT64, 1, &uid) != 0);
    EXPECT(cudnnBackendSetAttribute(t, 906, TYPE_DOUBLE, 1, &uid) != 0);
    EXPECT(cudnnBackendSetAttribute(t, 906, TYPE_INT64, -1, &uid) != 0);
    EXPECT(cudnnBackendSetAttribute(t, 906, TYPE_INT64, 1, NULL) != 0);
    set(pack, 1000, TYPE_INT64, 1, &uid);
    EXPECT(cudnnBackendFinalize(pack) != 0); /* a number without an address */
    EXPECT(cudnnBackendExecute(handle, plan, pack) != 0);
    set(pack, 1001, TYPE_POINTER, 1, &address);
    finish(pack);
    EXPECT(cudnnBackendExecute(handle, plan, pack) != 0); /* two of the three have none */
    EXPECT(cudnnBackendExecute(handle, NULL, pack) != 0);
    EXPECT(cudnnBackendExecute(handle, plan, NULL) != 0);
    EXPECT(cudnnBackendExecute(handle, pack, plan) != 0);
    EXPECT(cudnnBackendExecute(NULL, plan, pack) != 0);
    EXPECT(cudnnBackendSetAttribute(pack, 1000, TYPE_INT64, 1, &uid) != 0); /* it is done */
    CHECK(cudnnBackendDestroyDescriptor(pack));
    CHECK(cudnnBackendDestroyDescriptor(t));
    EXPECT(cudnnBackendDestroyDescriptor(NULL) != 0);
}

/* The plan's work as nodes of a graph of CUDA, then with other addresses. */
static void into_graph(node plan) {
    const int64_t uids[] = {X, W, Y};
    cudaGraph_t graph, other;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&other, 0));
    for (int i = 0; i < 2; i++) {
        void *places[] = {room(8192), room(8192), room(8192)}, *space = room(1u << 20);
        node pack = make(PACK);
        set(pack, 1000, TYPE_INT64, 3, uids);
        set(pack, 1001, TYPE_POINTER, 3, places);
        set(pack, 1003, TYPE_POINTER, 1, &space);
        finish(pack);
        CHECK(i ? cudnnBackendUpdateCudaGraph(handle, plan, pack, graph)
                : cudnnBackendPopulateCudaGraph(handle, plan, pack, graph));
        EXPECT(cudnnBackendUpdateCudaGraph(handle, plan, pack, other) != 0); /* it is empty */
        EXPECT(cudnnBackendPopulateCudaGraph(handle, plan, pack, NULL) != 0);
        EXPECT(cudnnBackendPopulateCudaGraph(handle, NULL, pack, graph) != 0);
        CHECK(cudnnBackendDestroyDescriptor(pack));
    }
    CHECK(cudaGraphDestroy(other));
    CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    void *all;
    static float scale = 0.125f;
    CHECK(cudaMalloc(&all, 64u << 20));
    memory = all;
    CHECK(cudnnCreate(&handle));
    node plans[] = {convolution_plan(F32, 1, false), convolution_plan(F16, 1, true),
                    convolution_plan(F32, 4, false), gradient_plan(false), gradient_plan(true)};
    node fused = fused_plan(), product = product_plan(), attention = attention_plan();
    node norm = norm_plan();
    destroy_all();
    for (int i = 0; i < rounds; i++) {
        used = 0;
        for (int k = 0; k < 5; k++)
            run_convolution(plans[k]);
        execute(fused, 4, (const int64_t[]){X, W, B, Y},
                (void *[]){room(8192), room(8192), room(8192), room(8192)});
        execute(product, 3, (const int64_t[]){-3, 2, 1},
                (void *[]){room(65536), room(65536), room(65536)});
        execute(attention, 5, (const int64_t[]){1, 2, 3, 4, 5},
                (void *[]){room(65536), room(65536), room(65536), room(65536), &scale});
        execute(norm, 6, (const int64_t[]){1, 2, 3, 4, 5, 6},
                (void *[]){room(8192), room(8192), room(8192), room(8192), room(8192), room(8192)});
    }
    into_graph(plans[0]);
    wrong(plans[0]);
    for (int k = 0; k < 5; k++)
        CHECK(cudnnBackendDestroyDescriptor(plans[k]));
    CHECK(cudnnBackendDestroyDescriptor(fused));
    CHECK(cudnnBackendDestroyDescriptor(product));
    CHECK(cudnnBackendDestroyDescriptor(attention));
    CHECK(cudnnBackendDestroyDescriptor(norm));
    CHECK(cudnnDestroy(handle));
    CHECK(cudaFree(all));
    puts("done");
    return 0;
}
