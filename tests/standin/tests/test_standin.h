/*
 * test_standin.h - the simulated device's own tests: one cmocka group per file, run in one process
 * on a device of 1 GiB (two of them) whose kernels take 20 ms.
 */
#ifndef TEST_STANDIN_H
#define TEST_STANDIN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../apps/cuda_app.h"

#define OK(call) assert_int_equal((int)(call), 0)
#define REFUSED(call, status) assert_int_equal((int)(call), status)

#define KERNEL_MS 20

int test_memory(void);
int test_copies(void);
int test_streams(void);
int test_capture(void);
int test_graph_memory(void);

/* A kernel of the test program's: registered in test_standin.c. */
extern const char some_kernel, unknown_kernel;
extern char some_variable[64];
static inline int launch(cudaStream_t stream) {
    return (int)cudaLaunchKernel(&some_kernel, dim(1, 1, 1), dim(32, 1, 1), NULL, 0, stream);
}

/* Milliseconds since some start. */
double now_ms(void);

/* What is not in the table. */
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, int *type);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value);
cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode);
cudaError_t cudaGetSymbolAddress(void **address, const void *symbol);

#endif
