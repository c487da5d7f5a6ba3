/*
 * test_graph_memory.c - memory that graphs own, and mipmapped arrays.
 */
#include "test_standin.h"

cudaError_t cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value);
cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph);

enum { USED, USED_HIGH, RESERVED, RESERVED_HIGH, PAGE = 2 << 20 };

static uint64_t graph_bytes(int attribute) {
    uint64_t value = 0;
    OK(cudaDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
}

static void *add_alloc(cudaGraph_t graph, size_t size) {
    struct cudaMemAllocNodeParams p = {.poolProps = {.allocType = (enum cudaMemAllocationType)1,
                                                     .location = {cudaMemLocationTypeDevice, 0}},
                                       .bytesize = size};
    cudaGraphNode_t node;
    OK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &p));
    return p.dptr;
}

static void memory_comes_with_the_launch(void **state) {
    (void)state;
    cudaGraph_t graph, clone;
    cudaGraphExec_t exec, twice;
    size_t before, now, total;
    OK(cudaMemGetInfo(&before, &total));
    OK(cudaGraphCreate(&graph, 0));
    void *p = add_alloc(graph, 3 * PAGE);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    REFUSED(cudaGraphInstantiate(&twice, graph, 0), 801);
    REFUSED(cudaGraphClone(&clone, graph), 801);
    OK(cudaMemGetInfo(&now, &total));
    assert_int_equal(now, before);
    REFUSED(cudaFree(p), 1);
    OK(cudaGraphLaunch(exec, NULL));
    OK(cudaMemGetInfo(&now, &total));
    assert_int_equal(now, before - 3 * PAGE);
    assert_int_equal(graph_bytes(USED), 3 * PAGE);
    REFUSED(cudaGraphLaunch(exec, NULL), 1); /* not freed since */
    OK(cudaMemset(p, 1, 3 * PAGE));
    OK(cudaFree(p));
    assert_int_equal(graph_bytes(USED), 0);
    assert_int_equal(graph_bytes(RESERVED), 3 * PAGE);
    OK(cudaDeviceGraphMemTrim(0));
    assert_int_equal(graph_bytes(RESERVED), 0);
    OK(cudaMemGetInfo(&now, &total));
    assert_int_equal(now, before);
    OK(cudaGraphLaunch(exec, NULL)); /* the address is still the graph's */
    OK(cudaFreeAsync(p, NULL));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaMemGetInfo(&now, &total));
    assert_int_equal(now, before);
    REFUSED(cudaFree(p), 1);
}

static void launch_on_a_full_device(void **state) {
    (void)state;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t available, total;
    void *rest;
    OK(cudaMemGetInfo(&available, &total));
    OK(cudaGraphCreate(&graph, 0));
    void *p = add_alloc(graph, 2 * PAGE);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaMalloc(&rest, available - PAGE));
    REFUSED(cudaGraphLaunch(exec, NULL), 2);
    OK(cudaFree(rest));
    OK(cudaGraphLaunch(exec, NULL));
    OK(cudaFree(p));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void another_graph_frees(void **state) {
    (void)state;
    cudaGraph_t maker, freer;
    cudaGraphExec_t make, end;
    cudaGraphNode_t node;
    OK(cudaGraphCreate(&maker, 0));
    OK(cudaGraphCreate(&freer, 0));
    void *p = add_alloc(maker, 100);
    OK(cudaGraphAddMemFreeNode(&node, freer, NULL, 0, p));
    REFUSED(cudaGraphAddMemFreeNode(&node, freer, NULL, 0, p), 1);
    OK(cudaGraphInstantiate(&make, maker, 0));
    OK(cudaGraphInstantiate(&end, freer, 0));
    REFUSED(cudaGraphLaunch(end, NULL), 1); /* nothing is allocated */
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(make, NULL));
        OK(cudaGraphLaunch(end, NULL));
    }
    OK(cudaGraphExecDestroy(make));
    OK(cudaGraphExecDestroy(end));
    OK(cudaGraphDestroy(maker));
    OK(cudaGraphDestroy(freer));
}

static void mipmap_levels(void **state) {
    (void)state;
    struct cudaChannelFormatDesc texel = {8, 8, 0, 0, cudaChannelFormatKindSigned};
    struct cudaExtent extent = {16, 4, 0};
    cudaMipmappedArray_t mipmap;
    cudaArray_t level;
    unsigned char host[16];
    OK(cudaMallocMipmappedArray(&mipmap, &texel, extent, 99, 0));
    REFUSED(cudaGetMipmappedArrayLevel(&level, mipmap, 5), 1);
    OK(cudaGetMipmappedArrayLevel(&level, mipmap, 4)); /* 1 x 1 */
    OK(cudaMemcpy2DFromArray(host, 2, level, 0, 0, 2, 1, cudaMemcpyDeviceToHost));
    REFUSED(cudaMemcpy2DFromArray(host, 4, level, 0, 0, 4, 1, cudaMemcpyDeviceToHost), 1);
    REFUSED(cudaFreeArray(level), 400);
    OK(cudaFreeMipmappedArray(mipmap));
    REFUSED(cudaFreeMipmappedArray(mipmap), 400);
    REFUSED(cudaMemcpy2DFromArray(host, 2, level, 0, 0, 2, 1, cudaMemcpyDeviceToHost), 400);
}

int test_graph_memory(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_comes_with_the_launch), cmocka_unit_test(launch_on_a_full_device),
        cmocka_unit_test(another_graph_frees), cmocka_unit_test(mipmap_levels)};
    return cmocka_run_group_tests_name("memory of graphs, mipmaps", tests, NULL, NULL);
}
