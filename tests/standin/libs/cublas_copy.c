/*
 * cublas_copy.c - cublasSet/Get Vector and Matrix: these really copy. Inside they run on a stream
 * as the real ones' cudaMemcpy2D does, so they come after the stream's pending work; the plain
 * forms use the legacy stream and wait. Any thread; not safe in a signal handler.
 */
#include <string.h>

#include "cublas.h"

/* `columns` runs of `run` bytes; both sides advance by their pitch. */
struct copy {
    const char *from;
    char *to;
    size_t run, columns, from_pitch, to_pitch;
};

static void do_copy(void *data) {
    const struct copy *copy = data;
    for (size_t i = 0; i < copy->columns; i++)
        memcpy(copy->to + i * copy->to_pitch, copy->from + i * copy->from_pitch, copy->run);
}

static size_t span(size_t run, size_t columns, size_t pitch) {
    return (columns - 1) * pitch + run;
}

static int start(const struct copy *request, const void *device_side, size_t device_span,
                 cudaStream_t stream, bool wait) {
    if (request->run == 0 || request->columns == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!standin_reachable(device_side, device_span))
        return CUBLAS_STATUS_MAPPING_ERROR;
    struct copy copy = *request;
    copy.from = standin_host_view(copy.from);
    copy.to = standin_host_view(copy.to);
    if (standin_launch((standin_stream)stream, "cublas_copy_kernel", do_copy, &copy, sizeof copy))
        return CUBLAS_STATUS_MAPPING_ERROR;
    if (wait && standin_stream_wait((standin_stream)stream))
        return CUBLAS_STATUS_MAPPING_ERROR;
    return CUBLAS_STATUS_SUCCESS;
}

static const char *host_word(const void *address) {
    struct standin_memory memory;
    if (!standin_memory_at(address, &memory))
        return "pageable";
    return memory.kind == STANDIN_PINNED || memory.kind == STANDIN_REGISTERED ? "pinned"
           : memory.kind == STANDIN_MANAGED                                   ? "managed"
                                                                              : "device";
}

/* The words of the runtime's copies. */
static void put_as_copy(struct standin_call *call, bool to_device, int64_t rows, int64_t cols,
                        int64_t element, const void *from, int64_t from_ld, const void *to,
                        int64_t to_ld) {
    standin_put_signed(call, "bytes", rows * cols * element);
    standin_put_signed(call, "kind", to_device ? 1 : 2);
    standin_put_signed(call, "dpitch", to_ld * element);
    standin_put_signed(call, "spitch", from_ld * element);
    standin_put_signed(call, "width", rows * element);
    standin_put_signed(call, "height", cols);
    standin_put_text(call, "src_kind", to_device ? host_word(from) : "device");
    standin_put_text(call, "dst_kind", to_device ? "device" : host_word(to));
    standin_put_text(call, "direction", to_device ? "H2D" : "D2H");
    standin_put_signed(call, "device", standin_current_device());
}

static int copy_matrix(struct standin_call *call, bool to_device, int64_t rows, int64_t cols,
                       int64_t element, const void *from, int64_t from_ld, void *to, int64_t to_ld,
                       cudaStream_t stream, bool wait) {
    lib_put_pointer(call, "dst", to);
    lib_put_pointer(call, "src", from);
    standin_put_signed(call, "rows", rows);
    standin_put_signed(call, "cols", cols);
    standin_put_signed(call, "element", element);
    standin_put_signed(call, "dst_ld", to_ld);
    standin_put_signed(call, "src_ld", from_ld);
    lib_put_pointer(call, "stream", stream);
    put_as_copy(call, to_device, rows, cols, element, from, from_ld, to, to_ld);
    if (call->fault)
        return call->fault;
    if (rows < 0 || cols < 0 || element <= 0 || from_ld < rows || to_ld < rows || from_ld <= 0 ||
        to_ld <= 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct copy copy = {.from = from,
                        .to = to,
                        .run = (size_t)(rows * element),
                        .columns = (size_t)cols,
                        .from_pitch = (size_t)(from_ld * element),
                        .to_pitch = (size_t)(to_ld * element)};
    if (to_device)
        return start(&copy, to, span(copy.run, copy.columns, copy.to_pitch), stream, wait);
    return start(&copy, from, span(copy.run, copy.columns, copy.from_pitch), stream, wait);
}

/* A strided vector is a matrix of one row. */
#define VECTOR(name, INT, to_device, wait, stream, ...)                                            \
    STANDIN_EXPORT cublasStatus_t name(INT n, INT elemSize, const void *x, INT incx, void *y,      \
                                       INT incy __VA_ARGS__) {                                     \
        LIB_ENTER(call);                                                                           \
        return standin_leave(                                                                      \
            &call, copy_matrix(&call, to_device, 1, n, elemSize, x, incx, y, incy, stream, wait)); \
    }
#define MATRIX(name, INT, to_device, wait, stream, ...)                                            \
    STANDIN_EXPORT cublasStatus_t name(INT rows, INT cols, INT elemSize, const void *A, INT lda,   \
                                       void *B, INT ldb __VA_ARGS__) {                             \
        LIB_ENTER(call);                                                                           \
        return standin_leave(&call, copy_matrix(&call, to_device, rows, cols, elemSize, A, lda, B, \
                                                ldb, stream, wait));                               \
    }
#define STREAM_PARAMETER , cudaStream_t stream

VECTOR(cublasSetVector, int, true, true, NULL)
VECTOR(cublasSetVector_64, int64_t, true, true, NULL)
VECTOR(cublasGetVector, int, false, true, NULL)
VECTOR(cublasGetVector_64, int64_t, false, true, NULL)
VECTOR(cublasSetVectorAsync, int, true, false, stream, STREAM_PARAMETER)
VECTOR(cublasSetVectorAsync_64, int64_t, true, false, stream, STREAM_PARAMETER)
VECTOR(cublasGetVectorAsync, int, false, false, stream, STREAM_PARAMETER)
VECTOR(cublasGetVectorAsync_64, int64_t, false, false, stream, STREAM_PARAMETER)
MATRIX(cublasSetMatrix, int, true, true, NULL)
MATRIX(cublasSetMatrix_64, int64_t, true, true, NULL)
MATRIX(cublasGetMatrix, int, false, true, NULL)
MATRIX(cublasGetMatrix_64, int64_t, false, true, NULL)
MATRIX(cublasSetMatrixAsync, int, true, false, stream, STREAM_PARAMETER)
MATRIX(cublasSetMatrixAsync_64, int64_t, true, false, stream, STREAM_PARAMETER)
MATRIX(cublasGetMatrixAsync, int, false, false, stream, STREAM_PARAMETER)
MATRIX(cublasGetMatrixAsync_64, int64_t, false, false, stream, STREAM_PARAMETER)
