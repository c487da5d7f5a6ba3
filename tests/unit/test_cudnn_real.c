/*
 * test_cudnn_real.c - what the library keeps of cuDNN's descriptors is what NVIDIA's own cuDNN
 * answers about them: random ones, set up through our wrappers (the library's own objects, linked
 * in), then asked of the real library, which needs no GPU for that. Skipped where there is none.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layoutspy/api.h"
#include "layoutspy/api/types.h"
#include "preload/cudnn_node.h"
#include "preload/descriptors.h"
#include "preload/on_cudnn.h"
#include "preload/shape.h"

/* The wrappers. */
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) extern ret name params;
#include "layoutspy/api/all.def"

#define ROUNDS 1000
enum { DIMS = 8, FLOAT = 0 };

static void *cudnn;
static uint64_t seed = 20260417;

static uint32_t any(uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* What the wrappers do not wrap, of the real library. */
static void *real(const char *name) {
    void *function = dlsym(cudnn, name);
    assert_non_null(function);
    return function;
}
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#define ASK(name, ...) ((int (*)())real(#name))(__VA_ARGS__)

static int load(void **state) {
    (void)state;
    static const char *const paths[] = {CUDNN_PATHS};
    for (size_t i = 0; !cudnn && i < sizeof paths / sizeof *paths; i++)
        cudnn = dlopen(paths[i], RTLD_NOW | RTLD_GLOBAL);
    return 0;
}

#define NEEDS_CUDNN()                                                                              \
    do {                                                                                           \
        if (!cudnn) {                                                                              \
            print_message("skipped: no libcudnn.so.9 of NVIDIA's here\n");                         \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

static const struct ls_shape *kept(const void *descriptor) {
    uint64_t word = ls_descriptor(descriptor);
    return LS_DESCRIBED_KIND(word) == LS_DESCRIBED_SHAPE ? ls_shape_at((uint32_t)word) : NULL;
}

static void assert_values(const struct ls_shape *shape, unsigned from, int count, const int *want) {
    for (int i = 0; i < count; i++)
        assert_int_equal(shape->value[from + (unsigned)i], want[i]);
}

static void random_dims(int *dims, int count) {
    for (int i = 0; i < count; i++)
        dims[i] = any(40) ? (int)(1 + any(any(3) ? 9 : 70)) : (int)any(3) - 1;
    if (count > 1 && any(2))
        dims[1] = (dims[1] / 4 + 1) * (any(2) ? 4 : 32);
}

/* cudnnDataType_t, and sometimes none. */
static int random_type(void) {
    static const int common[] = {0, 2, 9, 3, 5, 7, 8, 1};
    return any(3) ? common[any(8)] : (int)any(30) - 1;
}

/* ---- tensors ---- */

static int set_tensor(cudnnTensorDescriptor_t tensor) {
    int dims[DIMS + 2], strides[DIMS + 2], count = any(5) ? 3 + (int)any(4) : (int)any(DIMS + 3);
    int type = random_type(), format = (int)any(any(10) ? 3 : 5);
    random_dims(dims, DIMS + 2);
    for (int i = 0; i < DIMS + 2; i++)
        strides[i] = any(30) ? (int)(1 + any(5000)) : (int)any(9) - 4;
    switch (any(4)) {
    case 0:
        return cudnnSetTensor4dDescriptor(tensor, format, type, dims[0], dims[1], dims[2], dims[3]);
    case 1:
        return cudnnSetTensor4dDescriptorEx(tensor, type, dims[0], dims[1], dims[2], dims[3],
                                            strides[0], strides[1], strides[2], strides[3]);
    case 2:
        return cudnnSetTensorNdDescriptor(tensor, type, count, dims, strides);
    default:
        return cudnnSetTensorNdDescriptorEx(tensor, format, type, count, dims);
    }
}

static void check_tensor(const void *tensor, int status) {
    int type = -9, count = -9, dims[DIMS], strides[DIMS];
    const struct ls_shape *shape = kept(tensor);
    assert_int_equal(ASK(cudnnGetTensorNdDescriptor, tensor, DIMS, &type, &count, dims, strides),
                     0);
    assert_int_equal(shape != NULL, status == 0);
    if (!shape)
        return;
    assert_int_equal(shape->kind, LS_SHAPE_TENSOR);
    assert_int_equal(shape->dims, count);
    assert_int_equal(shape->dtype_told, type);
    assert_int_equal(shape->dtype, ls_cudnn_dtype(type));
    assert_int_not_equal(shape->dtype, LS_DTYPE_UNKNOWN);
    assert_values(shape, 0, count, dims);
    assert_values(shape, (unsigned)count, count, strides);
}

static void test_tensors(void **state) {
    (void)state;
    NEEDS_CUDNN();
    enum { AT_ONCE = 20 };
    cudnnTensorDescriptor_t tensor[AT_ONCE] = {0};
    int good = 0;
    for (int i = 0; i < ROUNDS; i++) {
        cudnnTensorDescriptor_t *one = &tensor[any(AT_ONCE)];
        if (*one && any(4) == 0) { /* the address may come back at once */
            assert_int_equal(cudnnDestroyTensorDescriptor(*one), 0);
            assert_null(kept(*one));
            *one = NULL;
        }
        if (!*one) {
            assert_int_equal(cudnnCreateTensorDescriptor(one), 0);
            assert_null(kept(*one));
        }
        int status = set_tensor(*one);
        good += status == 0;
        check_tensor(*one, status);
    }
    assert_true(good > ROUNDS / 4);
    for (int i = 0; i < AT_ONCE; i++)
        assert_int_equal(cudnnDestroyTensorDescriptor(tensor[i]), 0);
}

static void test_derived_tensors(void **state) {
    (void)state;
    NEEDS_CUDNN();
    cudnnTensorDescriptor_t x, derived;
    assert_int_equal(cudnnCreateTensorDescriptor(&x), 0);
    assert_int_equal(cudnnCreateTensorDescriptor(&derived), 0);
    for (int i = 0; i < ROUNDS / 10; i++) {
        set_tensor(x);
        check_tensor(derived, cudnnDeriveBNTensorDescriptor(derived, x, (int)any(4)));
    }
    assert_int_equal(cudnnDeriveBNTensorDescriptor(NULL, x, 1) == 0, false);
    assert_int_equal(cudnnDestroyTensorDescriptor(derived), 0);
    assert_int_equal(cudnnDestroyTensorDescriptor(x), 0);
}

/* ---- filters: the library tells no strides; a tensor of the same format has them ---- */

static void check_filter(const void *filter, int status, cudnnTensorDescriptor_t like) {
    int type = -9, format = -9, count = -9, dims[DIMS], strides[DIMS], other;
    const struct ls_shape *shape = kept(filter);
    assert_int_equal(ASK(cudnnGetFilterNdDescriptor, filter, DIMS, &type, &format, &count, dims),
                     0);
    assert_int_equal(shape != NULL, status == 0);
    if (!shape)
        return;
    assert_int_equal(shape->dims, count);
    assert_int_equal(shape->dtype_told, type);
    assert_values(shape, 0, count, dims);
    if (ASK(cudnnSetTensorNdDescriptorEx, like, format, type, count, dims) != 0)
        return;
    assert_int_equal(ASK(cudnnGetTensorNdDescriptor, like, DIMS, &type, &other, dims, strides), 0);
    assert_values(shape, (unsigned)count, count, strides);
}

static void test_filters(void **state) {
    (void)state;
    NEEDS_CUDNN();
    cudnnFilterDescriptor_t filter;
    cudnnTensorDescriptor_t like;
    int dims[DIMS + 2];
    assert_int_equal(cudnnCreateFilterDescriptor(&filter), 0);
    assert_int_equal(cudnnCreateTensorDescriptor(&like), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int type = random_type(), format = (int)any(any(10) ? 3 : 5), status;
        random_dims(dims, DIMS + 2);
        if (any(2))
            status = cudnnSetFilter4dDescriptor(filter, type, format, dims[0], dims[1], dims[2],
                                                dims[3]);
        else
            status = cudnnSetFilterNdDescriptor(filter, type, format, (int)any(DIMS + 3), dims);
        check_filter(filter, status, like);
    }
    assert_int_equal(cudnnDestroyFilterDescriptor(filter), 0);
    assert_null(kept(filter));
    assert_int_equal(cudnnDestroyTensorDescriptor(like), 0);
}

/* ---- settings ---- */

static int set_convolution(cudnnConvolutionDescriptor_t conv) {
    int list[3][DIMS + 2];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < DIMS + 2; i++)
            list[k][i] = (int)any(7) + (k > 0 && any(20));
    switch (any(4)) {
    case 0:
        return cudnnSetConvolutionGroupCount(conv, (int)any(9));
    case 1:
        return cudnnSetConvolutionMathType(conv, (int)any(5));
    case 2:
        return cudnnSetConvolution2dDescriptor(conv, list[0][0], list[0][1], list[1][0], list[1][1],
                                               list[2][0], list[2][1], (int)any(3), FLOAT);
    default:
        return cudnnSetConvolutionNdDescriptor(conv, (int)any(9), list[0], list[1], list[2],
                                               (int)any(3), FLOAT);
    }
}

static void test_convolutions(void **state) {
    (void)state;
    NEEDS_CUDNN();
    cudnnConvolutionDescriptor_t conv;
    assert_int_equal(cudnnCreateConvolutionDescriptor(&conv), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int status = set_convolution(conv);
        const struct ls_shape *shape = kept(conv);
        int n, pads[DIMS], strides[DIMS], dilations[DIMS], mode, type, groups, math;
        assert_int_equal(ASK(cudnnGetConvolutionNdDescriptor, conv, DIMS - 2, &n, pads, strides,
                             dilations, &mode, &type),
                         0);
        assert_int_equal(ASK(cudnnGetConvolutionGroupCount, conv, &groups), 0);
        assert_int_equal(ASK(cudnnGetConvolutionMathType, conv, &math), 0);
        if (status == 0)
            assert_non_null(shape);
        if (!shape)
            continue;
        assert_values(shape, shape->values - 3, 1, &groups);
        assert_values(shape, shape->values - 1, 1, &math);
        if (shape->dims == 0) /* a setter that failed may have set half of it */
            continue;
        unsigned k = (unsigned)n;
        assert_int_equal(shape->kind, LS_SHAPE_CONVOLUTION);
        assert_int_equal(shape->dims, n);
        assert_values(shape, 0, n, pads);
        assert_values(shape, k, n, pads);
        assert_values(shape, 2 * k, n, strides);
        assert_values(shape, 3 * k, n, dilations);
        assert_values(shape, 4 * k, 3, (int[]){groups, mode, math});
    }
    assert_int_equal(cudnnDestroyConvolutionDescriptor(conv), 0);
}

static void test_poolings(void **state) {
    (void)state;
    NEEDS_CUDNN();
    cudnnPoolingDescriptor_t pooling;
    assert_int_equal(cudnnCreatePoolingDescriptor(&pooling), 0);
    for (int i = 0; i < ROUNDS / 2; i++) {
        int list[3][DIMS], status, mode = -9, nan, n = -9, got[3][DIMS];
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < DIMS; d++)
                list[k][d] = (int)any(6);
        if (any(2))
            status = cudnnSetPooling2dDescriptor(pooling, (int)any(5), 0, list[0][0], list[0][1],
                                                 list[1][0], list[1][1], list[2][0], list[2][1]);
        else
            status = cudnnSetPoolingNdDescriptor(pooling, (int)any(5), 0, (int)any(8), list[0],
                                                 list[1], list[2]);
        const struct ls_shape *shape = kept(pooling);
        assert_int_equal(shape != NULL, status == 0);
        if (!shape)
            continue;
        assert_int_equal(ASK(cudnnGetPoolingNdDescriptor, pooling, DIMS - 2, &mode, &nan, &n,
                             got[0], got[1], got[2]),
                         0);
        assert_int_equal(shape->dims, n);
        for (unsigned k = 0; k < 3; k++)
            assert_values(shape, k * (unsigned)n, n, got[k]);
        assert_values(shape, 3 * (unsigned)n, 1, &mode);
    }
    assert_int_equal(cudnnDestroyPoolingDescriptor(pooling), 0);
}

static void test_sequences(void **state) {
    (void)state;
    NEEDS_CUDNN();
    cudnnRNNDataDescriptor_t data;
    assert_int_equal(cudnnCreateRNNDataDescriptor(&data), 0);
    for (int i = 0; i < ROUNDS / 2; i++) {
        int lengths[8], steps = 0, length = (int)any(7), batch = (int)any(8), vector = (int)any(9);
        for (int k = 0; k < 8; k++)
            lengths[k] = length ? 1 + (int)any((uint32_t)length) : 0;
        int asked = (int)any(4);
        int status = cudnnSetRNNDataDescriptor(data, random_type(), asked, length, batch, vector,
                                               lengths, NULL);
        const struct ls_shape *shape = kept(data);
        assert_int_equal(shape != NULL, status == 0);
        if (!shape)
            continue;
        int type, layout, got[8];
        char padding[8];
        assert_int_equal(ASK(cudnnGetRNNDataDescriptor, data, &type, &layout, &length, &batch,
                             &vector, 8, got, padding),
                         0);
        for (int k = 0; k < batch; k++)
            steps += got[k];
        assert_int_equal(shape->dims, 3);
        assert_int_equal(shape->dtype_told, type);
        assert_values(shape, 0, 3,
                      layout == 1   ? (int[]){1, steps, vector}
                      : layout == 2 ? (int[]){batch, length, vector}
                                    : (int[]){length, batch, vector});
    }
    assert_int_equal(cudnnDestroyRNNDataDescriptor(data), 0);
}

/* ---- the graph API ---- */

static int tell(void *descriptor, int name, int type, int64_t count, const void *values) {
    return cudnnBackendSetAttribute(descriptor, name, type, count, values);
}

static int64_t ask(void *descriptor, int name, int type, int64_t wanted, void *values) {
    int64_t count = -1;
    assert_int_equal(ASK(cudnnBackendGetAttribute, descriptor, name, type, wanted, &count, values),
                     0);
    return count;
}

static void *random_tensor(int *status) {
    void *tensor;
    int count = any(6) ? 3 + (int)any(3) : (int)any(DIMS + 3), type = any(9) ? (int)any(4) : 9;
    int64_t dims[DIMS + 2], strides[DIMS + 2], uid = (int64_t)any(5000) - 100;
    int64_t align = 16, vector = any(2) ? 1 : 4, along = 1;
    bool yes = true;
    for (int i = 0; i < DIMS + 2; i++) {
        dims[i] = 1 + (int64_t)any(any(8) ? 60 : 3000000);
        strides[i] = any(30) ? 1 + (int64_t)any(2000000000) * 3 : (int64_t)any(3) - 1;
    }
    assert_int_equal(cudnnBackendCreateDescriptor(LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor), 0);
    if (any(10) == 0) /* told again: the last one counts */
        tell(tensor, LS_CUDNN_ATTR_TENSOR_DIMENSIONS, LS_CUDNN_TYPE_INT64, 3, strides);
    tell(tensor, LS_CUDNN_ATTR_TENSOR_DATA_TYPE, LS_CUDNN_TYPE_DATA_TYPE, 1, &type);
    tell(tensor, LS_CUDNN_ATTR_TENSOR_DIMENSIONS, LS_CUDNN_TYPE_INT64, count, dims);
    tell(tensor, LS_CUDNN_ATTR_TENSOR_STRIDES, LS_CUDNN_TYPE_INT64, count, strides);
    tell(tensor, LS_CUDNN_ATTR_TENSOR_UNIQUE_ID, LS_CUDNN_TYPE_INT64, 1, &uid);
    tell(tensor, 900, LS_CUDNN_TYPE_INT64, 1, &align);
    if (any(5) == 0) {
        tell(tensor, LS_CUDNN_ATTR_TENSOR_VECTOR_COUNT, LS_CUDNN_TYPE_INT64, 1, &vector);
        tell(tensor, LS_CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, LS_CUDNN_TYPE_INT64, 1, &along);
    }
    if (any(4) == 0)
        tell(tensor, LS_CUDNN_ATTR_TENSOR_IS_VIRTUAL, LS_CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (any(12) == 0)
        tell(tensor, LS_CUDNN_ATTR_TENSOR_IS_BY_VALUE, LS_CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (any(20) == 0) /* of the wrong type: refused */
        tell(tensor, LS_CUDNN_ATTR_TENSOR_UNIQUE_ID, 23, 1, &align);
    *status = cudnnBackendFinalize(tensor);
    return tensor;
}

static void check_graph_tensor(void *tensor) {
    const struct ls_cudnn_item *item;
    int type;
    int64_t dims[DIMS], strides[DIMS], uid, vector, along;
    bool is_virtual, by_value;
    assert_int_equal(ls_cudnn_list(ls_cudnn_list_of(tensor), &item), 1);
    const struct ls_shape *shape = ls_shape_at(item->shape);
    assert_non_null(shape);
    ask(tensor, LS_CUDNN_ATTR_TENSOR_DATA_TYPE, LS_CUDNN_TYPE_DATA_TYPE, 1, &type);
    int64_t n = ask(tensor, LS_CUDNN_ATTR_TENSOR_DIMENSIONS, LS_CUDNN_TYPE_INT64, DIMS, dims);
    ask(tensor, LS_CUDNN_ATTR_TENSOR_STRIDES, LS_CUDNN_TYPE_INT64, DIMS, strides);
    ask(tensor, LS_CUDNN_ATTR_TENSOR_UNIQUE_ID, LS_CUDNN_TYPE_INT64, 1, &uid);
    ask(tensor, LS_CUDNN_ATTR_TENSOR_VECTOR_COUNT, LS_CUDNN_TYPE_INT64, 1, &vector);
    ask(tensor, LS_CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, LS_CUDNN_TYPE_INT64, 1, &along);
    ask(tensor, LS_CUDNN_ATTR_TENSOR_IS_VIRTUAL, LS_CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    ask(tensor, LS_CUDNN_ATTR_TENSOR_IS_BY_VALUE, LS_CUDNN_TYPE_BOOLEAN, 1, &by_value);
    assert_int_equal(shape->dims, n);
    assert_int_equal(shape->dtype_told, type);
    assert_memory_equal(shape->value, dims, (size_t)n * sizeof *dims);
    assert_memory_equal(shape->value + n, strides, (size_t)n * sizeof *strides);
    assert_true(shape->flags & LS_SHAPE_UID);
    assert_int_equal(shape->uid, uid);
    assert_int_equal(item->uid, uid);
    assert_int_equal(!!(shape->flags & LS_SHAPE_SCALAR), by_value);
    assert_int_equal(item->flags & LS_CUDNN_VIRTUAL, is_virtual);
    assert_int_equal(shape->vector_count, vector > 1 ? vector : 0);
    assert_int_equal(shape->vector_dim, vector > 1 ? along : 0);
}

static void test_graph_tensors(void **state) {
    (void)state;
    NEEDS_CUDNN();
    int good = 0, status;
    for (int i = 0; i < ROUNDS; i++) {
        void *tensor = random_tensor(&status);
        if (status == 0) {
            good++;
            check_graph_tensor(tensor);
            assert_int_not_equal(
                tell(tensor, LS_CUDNN_ATTR_TENSOR_UNIQUE_ID, LS_CUDNN_TYPE_INT64, 1, &(int64_t){7}),
                0);
            check_graph_tensor(tensor);
        } else {
            assert_int_equal(ls_cudnn_list_of(tensor), 0);
        }
        assert_int_equal(cudnnBackendDestroyDescriptor(tensor), 0);
        assert_int_equal(ls_cudnn_word(tensor), 0);
    }
    assert_true(good > ROUNDS / 4);
}

/* The library does not tell what was set here. */
static void test_variant_packs(void **state) {
    (void)state;
    NEEDS_CUDNN();
    for (int i = 0; i < ROUNDS / 4; i++) {
        void *pack, *address[40], *workspace = (void *)(uintptr_t)any(1 << 30);
        int64_t uid[40], count = (int64_t)any(40);
        for (int k = 0; k < 40; k++) {
            uid[k] = k * 7 - 3;
            address[k] = (void *)(uintptr_t)(4096 + any(1 << 30));
        }
        assert_int_equal(
            cudnnBackendCreateDescriptor(LS_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack), 0);
        tell(pack, LS_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, LS_CUDNN_TYPE_VOID_PTR, count,
             address);
        tell(pack, LS_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, LS_CUDNN_TYPE_INT64, count, uid);
        tell(pack, LS_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, LS_CUDNN_TYPE_VOID_PTR, 1, &workspace);
        if (cudnnBackendFinalize(pack) == 0) {
            const struct ls_cudnn_block *block =
                ls_cudnn_block(LS_CUDNN_NUMBER(ls_cudnn_word(pack)));
            assert_non_null(block);
            assert_int_equal(block->pack.uids, count);
            assert_int_equal(block->pack.addresses, count);
            assert_memory_equal(block->pack.uid, uid, (size_t)count * sizeof *uid);
            assert_memory_equal(block->pack.address, address, (size_t)count * sizeof *address);
            assert_int_equal(block->pack.workspace, (uintptr_t)workspace);
        }
        assert_int_equal(cudnnBackendDestroyDescriptor(pack), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),       cmocka_unit_test(test_derived_tensors),
        cmocka_unit_test(test_filters),       cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_poolings),      cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_graph_tensors), cmocka_unit_test(test_variant_packs),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
