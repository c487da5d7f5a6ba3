#!/usr/bin/env python3
"""Calls cuDNN's and cuBLASLt's descriptor functions and prints every answer, one a line.

These functions need no GPU in NVIDIA's libraries either, so the same script shows what the real
ones answer (LD_LIBRARY_PATH decides which it gets). descriptors.expected holds the answers of
cuDNN 9.19 and cuBLASLt 13.1.
"""

import ctypes
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_void_p

FLOAT, HALF = 0, 2
NCHW, NHWC = 0, 1


def ints(*values):
    return (c_int * len(values))(*values)


def int64s(*values):
    return (c_int64 * len(values))(*values)


def say(label, *values):
    print(label, *values, flush=True)


def call(library, name, *arguments):
    function = getattr(library, name)
    plain = [a if not isinstance(a, float) else c_float(a) for a in arguments]
    return function(*plain)


def created(library, name):
    handle = c_void_p()
    say(name, call(library, name, byref(handle)))
    return handle


def show_4d(dnn, tensor):
    out = [c_int() for _ in range(9)]
    status = call(dnn, "cudnnGetTensor4dDescriptor", tensor, *map(byref, out))
    say("  4d", status, *(value.value for value in out))


def tensors(dnn):
    tensor = created(dnn, "cudnnCreateTensorDescriptor")
    say("create into NULL", call(dnn, "cudnnCreateTensorDescriptor", None))
    set4d, set4d_ex = "cudnnSetTensor4dDescriptor", "cudnnSetTensor4dDescriptorEx"
    say(set4d, call(dnn, set4d, tensor, NHWC, HALF, 2, 3, 5, 7))
    show_4d(dnn, tensor)
    say("no images", call(dnn, set4d, tensor, NCHW, FLOAT, 0, 3, 5, 7))
    say("NULL", call(dnn, set4d, None, NCHW, FLOAT, 1, 3, 5, 7))
    say("strides 0", call(dnn, set4d_ex, tensor, FLOAT, 1, 3, 5, 7, 0, 0, 0, 0))
    say("strides", call(dnn, set4d_ex, tensor, FLOAT, 2, 3, 5, 7, 1000, 100, 7, 1))
    size = c_size_t()
    say("size", call(dnn, "cudnnGetTensorSizeInBytes", tensor, byref(size)), size.value)
    dims, ones = ints(2, 3, 4, 5, 6, 7, 8, 9, 10), ints(*[1] * 9)
    for count in range(10):
        say("dimensions", count,
            call(dnn, "cudnnSetTensorNdDescriptor", tensor, FLOAT, count, dims, ones),
            call(dnn, "cudnnSetTensorNdDescriptorEx", tensor, NCHW, FLOAT, count, dims))
    say("5d", call(dnn, "cudnnSetTensorNdDescriptorEx", tensor, NHWC, FLOAT, 5, dims))
    for wanted in (3, 5, 9):
        dtype, count, got, strides = c_int(), c_int(), ints(*[0] * 8), ints(*[0] * 8)
        status = call(dnn, "cudnnGetTensorNdDescriptor", tensor, wanted, byref(dtype),
                      byref(count), got, strides)
        say("  nd", wanted, status, dtype.value, count.value, list(got)[:5], list(strides)[:5])


def convolutions(dnn):
    tensor = created(dnn, "cudnnCreateTensorDescriptor")
    kernel = created(dnn, "cudnnCreateFilterDescriptor")
    conv = created(dnn, "cudnnCreateConvolutionDescriptor")
    dims = ints(2, 3, 4, 5, 6, 7, 8, 9, 10)
    for count in range(10):
        say("filter dimensions", count,
            call(dnn, "cudnnSetFilterNdDescriptor", kernel, FLOAT, NCHW, count, dims))
    set_filter = "cudnnSetFilter4dDescriptor"
    say(set_filter, call(dnn, set_filter, kernel, FLOAT, NHWC, 8, 3, 3, 3))
    out = [c_int() for _ in range(6)]
    status = call(dnn, "cudnnGetFilter4dDescriptor", kernel, *map(byref, out))
    say("  filter", status, *(value.value for value in out))
    set_conv = "cudnnSetConvolution2dDescriptor"
    say("pad -1", call(dnn, set_conv, conv, -1, 1, 1, 1, 1, 1, 1, FLOAT))
    say("stride 0", call(dnn, set_conv, conv, 1, 1, 0, 1, 1, 1, 1, FLOAT))
    say("fits", call(dnn, set_conv, conv, 1, 1, 2, 2, 1, 1, 1, FLOAT))
    for channels, groups in ((3, 1), (3, 3), (3, 0), (5, 1)):
        call(dnn, "cudnnSetTensor4dDescriptor", tensor, NCHW, FLOAT, 4, channels, 9, 9)
        grouped = call(dnn, "cudnnSetConvolutionGroupCount", conv, groups)
        out = [c_int() for _ in range(4)]
        status = call(dnn, "cudnnGetConvolution2dForwardOutputDim", conv, tensor, kernel,
                      *map(byref, out))
        say("output", channels, groups, grouped, status,
            [value.value for value in out] if status == 0 else "")


def others(dnn):
    tensor, derived = (created(dnn, "cudnnCreateTensorDescriptor") for _ in range(2))
    pooling = created(dnn, "cudnnCreatePoolingDescriptor")
    call(dnn, "cudnnSetTensor4dDescriptor", tensor, NCHW, FLOAT, 4, 3, 9, 9)
    for window, stride in ((2, 2), (0, 2), (2, 0)):
        say("pooling", window, stride, call(dnn, "cudnnSetPooling2dDescriptor", pooling, 0, 0,
                                            window, 2, 0, 0, stride, 2))
    call(dnn, "cudnnSetPooling2dDescriptor", pooling, 0, 0, 2, 2, 0, 0, 2, 2)
    out = [c_int() for _ in range(4)]
    status = call(dnn, "cudnnGetPooling2dForwardOutputDim", pooling, tensor, *map(byref, out))
    say("pooled", status, [value.value for value in out])
    say("batch norm", call(dnn, "cudnnDeriveBNTensorDescriptor", derived, tensor, 1))
    show_4d(dnn, derived)
    say("destroy NULL", call(dnn, "cudnnDestroyTensorDescriptor", None),
        call(dnn, "cudnnDestroyFilterDescriptor", None), call(dnn, "cudnnDestroy", None))
    sequence = created(dnn, "cudnnCreateRNNDataDescriptor")
    for length in (3, 0, 2):
        say("sequence", length, call(dnn, "cudnnSetRNNDataDescriptor", sequence, FLOAT, 0, length,
                                     2, 4, ints(3, 2), None))


# ---- the graph API ----

HANDLE, DATA_TYPE, INT64, FLOATS, POINTERS, CONV_MODE, NODES = 0, 1, 3, 4, 6, 7, 15
CONVOLUTION, ENGINE, PLAN, FORWARD, GRAPH, PACK, TENSOR = 1, 2, 5, 10, 15, 16, 17


class Node:
    def __init__(self, dnn, kind):
        self.dnn, self.pointer = dnn, c_void_p()
        self.made = call(dnn, "cudnnBackendCreateDescriptor", kind, byref(self.pointer))

    def set(self, name, kind, values, count=None):
        count = len(values) if count is None else count
        return call(self.dnn, "cudnnBackendSetAttribute", self.pointer, name, kind,
                    c_int64(count), values)

    def get(self, name, kind, wanted, values):
        count = c_int64(-1)
        status = call(self.dnn, "cudnnBackendGetAttribute", self.pointer, name, kind,
                      c_int64(wanted), byref(count), values)
        return status, count.value if status == 0 else ""

    def finalize(self):
        return call(self.dnn, "cudnnBackendFinalize", self.pointer)


def graph_tensor(dnn, uid, dims, strides, finalize=True):
    node = Node(dnn, TENSOR)
    node.set(901, DATA_TYPE, ints(FLOAT))
    node.set(902, INT64, int64s(*dims))
    node.set(903, INT64, int64s(*strides))
    node.set(906, INT64, int64s(uid))
    node.set(900, INT64, int64s(16))
    if finalize:
        node.finalized = node.finalize()
    return node


def graph_tensors(dnn):
    node = Node(dnn, TENSOR)
    say("unknown kind", Node(dnn, 999).made)
    say("finalize", node.finalize(), call(dnn, "cudnnBackendFinalize", None))
    dims, strides = int64s(1, 3, 8, 8), int64s(192, 64, 8, 1)
    say("dims", node.set(902, INT64, dims), "strides", node.set(903, INT64, strides))
    say("wrong type", node.set(903, FLOATS, strides), "count -1", node.set(903, INT64, dims, -1),
        "NULL", node.set(903, INT64, None, 4), "of another", node.set(100, DATA_TYPE, ints(0)))
    say("get too early", node.get(902, INT64, 8, int64s(*[0] * 8)))
    say("finalize", node.finalize())
    say("uid", node.set(906, INT64, int64s(7)), "type", node.set(901, DATA_TYPE, ints(0)))
    say("finalize", node.finalize())
    say("alignment", node.set(900, INT64, int64s(16)))
    say("finalize", node.finalize(), "again", node.finalize())
    say("set too late", node.set(906, INT64, int64s(8)))
    for wanted in (8, 2, 0):
        say("get", wanted, node.get(902, INT64, wanted, int64s(*[0] * 8) if wanted else None))
    say("wrong type", node.get(902, FLOATS, 8, int64s(*[0] * 8)))
    say("of another", node.get(100, DATA_TYPE, 1, int64s(0)))
    for count in range(10):
        ones = [1] * count
        say("dimensions", count, graph_tensor(dnn, 1, ones, ones).finalized)


def forward(dnn, conv, x, w, y):
    node = Node(dnn, FORWARD)
    for name, link in ((704, x), (703, w), (705, y), (702, conv)):
        if link:
            node.set(name, NODES, (c_void_p * 1)(link.pointer))
    for name in (700, 701):
        node.set(name, FLOATS, (c_float * 1)(1.0))
    return node.finalize()


def graph_operations(dnn):
    x = graph_tensor(dnn, 1, (1, 4, 8, 8), (256, 64, 8, 1))
    w = graph_tensor(dnn, 2, (6, 4, 3, 3), (36, 9, 3, 1))
    y = graph_tensor(dnn, 3, (1, 6, 6, 6), (216, 36, 6, 1))
    wrong_y = graph_tensor(dnn, 4, (1, 6, 7, 6), (216, 36, 6, 1))
    raw_x = graph_tensor(dnn, 5, (1, 4, 8, 8), (256, 64, 8, 1), finalize=False)
    grouped_w = graph_tensor(dnn, 6, (6, 2, 3, 3), (18, 9, 3, 1))
    wrong_w = graph_tensor(dnn, 7, (6, 5, 3, 3), (45, 9, 3, 1))
    conv = Node(dnn, CONVOLUTION)
    say("convolution", conv.finalize())
    conv.set(106, INT64, int64s(2))
    conv.set(100, DATA_TYPE, ints(FLOAT))
    conv.set(101, CONV_MODE, ints(1))
    for name, values in ((105, (0, 0)), (104, (0, 0)), (102, (1, 1)), (103, (1, 1))):
        conv.set(name, INT64, int64s(*values))
    say("forward too early", forward(dnn, conv, x, w, y))
    say("convolution", conv.finalize())
    say("forward", forward(dnn, conv, x, w, y), "wrong y", forward(dnn, conv, x, w, wrong_y),
        "raw x", forward(dnn, conv, raw_x, w, y), "no y", forward(dnn, conv, x, w, None),
        "no convolution", forward(dnn, None, x, w, y))
    say("grouped", forward(dnn, conv, x, grouped_w, y), "wrong", forward(dnn, conv, x, wrong_w, y))
    pack = Node(dnn, PACK)
    pack.set(1000, INT64, int64s(1, 2))
    pack.set(1001, POINTERS, (c_void_p * 1)())
    say("uneven pack", pack.finalize(), "empty pack", Node(dnn, PACK).finalize())
    for kind in (GRAPH, ENGINE, PLAN):
        say("empty", kind, Node(dnn, kind).finalize())


# ---- cuBLASLt ----

def layouts(lt):
    layout = (ctypes.c_uint32 * 16)()
    say("layout", call(lt, "cublasLtMatrixLayoutInit_internal", layout, c_size_t(64), HALF,
                       c_int64(0x33), c_int64(0x55), c_int64(0x77)))
    say("  ", list(layout)[:14])
    for name, value in ((1, c_int(1)), (5, c_int(9)), (6, c_int64(11 << 32 | 5)), (7, c_int64(6))):
        say("set", name, call(lt, "cublasLtMatrixLayoutSetAttribute", layout, name, byref(value),
                              c_size_t(ctypes.sizeof(value))))
    say("  ", list(layout)[:14])
    sizes("cublasLtMatrixLayoutGetAttribute", lt, layout, 10)
    value = c_int(0)
    say("wrong size",
        call(lt, "cublasLtMatrixLayoutSetAttribute", layout, 1, byref(value), c_size_t(8)),
        call(lt, "cublasLtMatrixLayoutSetAttribute", layout, 99, byref(value), c_size_t(4)),
        call(lt, "cublasLtMatrixLayoutSetAttribute", None, 1, byref(value), c_size_t(4)))


def sizes(name, lt, descriptor, count):
    for attribute in range(count):
        written = c_size_t()
        status = call(lt, name, descriptor, attribute, None, c_size_t(0), byref(written))
        say(" ", name, attribute, status, written.value)


def products(lt):
    product = (c_int64 * 32)()
    say("product", call(lt, "cublasLtMatmulDescInit_internal", product, c_size_t(256), 68, 0))
    sizes("cublasLtMatmulDescGetAttribute", lt, product, 40)
    for attribute in (0, 1, 2, 3, 4, 6, 7, 15):
        value = c_int(-7)
        status = call(lt, "cublasLtMatmulDescGetAttribute", product, attribute, byref(value),
                      c_size_t(4), None)
        say("  default", attribute, status, value.value)
    preference = (c_int64 * 8)()
    say("preference", call(lt, "cublasLtMatmulPreferenceInit_internal", preference, c_size_t(64)))
    sizes("cublasLtMatmulPreferenceGetAttribute", lt, preference, 14)


def main():
    dnn = ctypes.CDLL("libcudnn.so.9")
    for section in (tensors, convolutions, others, graph_tensors, graph_operations):
        say(f"== {section.__name__}")
        section(dnn)
    lt = ctypes.CDLL("libcublasLt.so.13")
    for section in (layouts, products):
        say(f"== {section.__name__}")
        section(lt)


main()
