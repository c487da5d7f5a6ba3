#!/usr/bin/env python3
"""Calls cuBLAS, cuDNN, CUPTI and NCCL on the simulated device and checks what they answer.

Run by test_libraries.py under on-standin, with a truth log. Fails with an assertion.
"""

import ctypes
import os
import sys
from ctypes import byref, c_float, c_int64, c_size_t, c_void_p

N, T = 0, 1
F32 = 0
COLUMNS, ROWS = 3, 5


def load(prefix):
    """The simulated device's library of a soname that ends in any version."""
    for folder in os.environ["LD_LIBRARY_PATH"].split(":")[:2]:  # on-standin's
        for version in (13, 12, 9, 2):
            if os.path.isfile(f"{folder}/{prefix}.so.{version}"):
                return ctypes.CDLL(f"{prefix}.so.{version}")
    sys.exit(f"no {prefix}")


cudart, cublas, cudnn, cupti, nccl = map(load, ("libcudart", "libcublas", "libcudnn", "libcupti", "libnccl"))


def malloc(size):
    pointer = c_void_p()
    assert cudart.cudaMalloc(byref(pointer), c_size_t(size)) == 0
    return pointer


def floats(*values):
    return (c_float * len(values))(*values)


def copies(device):
    """A matrix goes into a larger one on the device and comes back."""
    source = floats(*range(ROWS * COLUMNS))
    back = floats(*[0] * (ROWS * COLUMNS))
    assert cublas.cublasSetMatrix(ROWS, COLUMNS, 4, source, ROWS, device, 8) == 0
    assert cublas.cublasGetMatrix(ROWS, COLUMNS, 4, device, 8, back, ROWS) == 0
    assert list(back) == list(source)
    every_second = floats(*[-1] * 6)
    assert cublas.cublasGetVector(3, 4, device, 1, every_second, 2) == 0
    assert list(every_second) == [0, -1, 1, -1, 2, -1]
    assert cublas.cublasSetMatrix(ROWS, COLUMNS, 4, source, 1, device, 8) == 7  # lda too small
    assert cublas.cublasSetVector(1 << 20, 4, source, 1, device, 1) == 11  # past the allocation


def products(device):
    handle, one = c_void_p(), floats(1)

    def gemm(ops, sizes, lda, ldb, ldc, a=device):
        return cublas.cublasSgemm_v2(handle, *ops, *sizes, one, a, lda, device, ldb, one, device,
                                     ldc)

    assert gemm((N, N), (4, 3, 2), 4, 2, 4) == 1  # no handle yet
    assert cublas.cublasCreate_v2(byref(handle)) == 0
    assert gemm((N, T), (4, 3, 2), 4, 3, 4) == 0
    assert gemm((N, N), (4, 3, 2), 3, 2, 4) == 7  # lda < m
    assert gemm((T, N), (4, 3, 2), 2, 2, 4) == 0
    assert gemm((N, N), (-1, 3, 2), 4, 2, 4) == 7
    assert gemm((N, N), (0, 3, 2), 4, 2, 4) == 0
    assert gemm((N, N), (4, 3, 2), 4, 2, 4, a=one) == 13  # a host pointer
    assert gemm((N, N), (400, 300, 200), 400, 200, 400) == 13  # past the allocation
    ex = (handle, N, N, 2, 2, 2, one, device, F32, 2, device, F32, 2, one, device, F32, 2)
    assert cublas.cublasGemmEx(*ex, 68, -1) == 0
    assert cublas.cublasGemmEx(*ex, 70, -1) == 15  # single precision computed in double
    assert cublas.cublasSetWorkspace_v2(handle, c_void_p(device.value + 8), c_size_t(64)) == 7
    stream = c_void_p()
    assert cudart.cudaStreamCreate(byref(stream)) == 0
    assert cublas.cublasSetStream_v2(handle, stream) == 0
    assert cublas.cublasSscal_v2(handle, 4, one, device, 1) == 0
    assert cublas.cublasDestroy_v2(handle) == 0
    assert gemm((N, N), (4, 3, 2), 4, 2, 4) == 1


def convolution(device):
    handle, x, w, y, conv = (c_void_p() for _ in range(5))
    assert cudnn.cudnnCreate(byref(handle)) == 0
    for tensor, dims in ((x, (1, 2, 4, 4)), (y, (1, 3, 4, 4))):
        assert cudnn.cudnnCreateTensorDescriptor(byref(tensor)) == 0
        assert cudnn.cudnnSetTensor4dDescriptor(tensor, 0, F32, *dims) == 0
    assert cudnn.cudnnCreateFilterDescriptor(byref(w)) == 0
    assert cudnn.cudnnSetFilter4dDescriptor(w, F32, 0, 3, 2, 3, 3) == 0
    assert cudnn.cudnnCreateConvolutionDescriptor(byref(conv)) == 0
    assert cudnn.cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1, F32) == 0
    one, zero = floats(1), floats(0)

    def run(algo, workspace, size, out=device):
        return cudnn.cudnnConvolutionForward(handle, one, x, device, w, device, conv, algo,
                                             workspace, c_size_t(size), zero, y, out)

    size = c_size_t()
    ask = cudnn.cudnnGetConvolutionForwardWorkspaceSize
    assert ask(handle, x, w, conv, y, 1, byref(size)) == 0 and size.value > 0
    assert run(0, None, 0) == 0
    assert run(1, malloc(size.value), size.value) == 0
    assert run(1, None, 0) == 2006  # its workspace is missing
    assert run(0, None, 0, out=floats(0)) == 5000  # a host pointer
    assert cudnn.cudnnSetTensor4dDescriptor(y, 0, F32, 1, 3, 5, 4) == 0
    assert run(0, None, 0) == 2000  # that is not the output's shape
    assert cudnn.cudnnCTCLoss(handle) == 3000  # a stub
    assert cudnn.cudnnDestroy(handle) == 0


def profiler():
    first, second = c_void_p(), c_void_p()
    assert cupti.cuptiSubscribe(byref(first), None, None) == 0
    assert cupti.cuptiSubscribe(byref(second), None, None) == 39  # one subscriber only
    assert cupti.cuptiActivityEnable(10) == 0
    assert cupti.cuptiUnsubscribe(first) == 0
    assert cupti.cuptiSubscribe(byref(second), None, None) == 0
    now = c_int64()
    assert cupti.cuptiGetTimestamp(byref(now)) == 0 and now.value > 10**18


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def collectives():
    """One rank's own part is moved; a rank of two is as good as alone."""
    send, receive, got = malloc(8), malloc(16), floats(0, 0, 0, 0)
    one, two, own, wrong = UniqueId(), c_void_p(), c_void_p(), c_void_p(1)
    assert nccl.ncclGetUniqueId(byref(one)) == 0
    assert nccl.ncclCommInitRank(byref(own), 1, one, 0) == 0
    assert nccl.ncclCommInitRank(byref(two), 2, one, 1) == 0
    assert nccl.ncclCommInitRank(byref(wrong), 2, one, 2) == 4
    assert cudart.cudaMemcpy(send, floats(5, 6), c_size_t(8), 1) == 0
    assert cudart.cudaMemset(receive, 0, c_size_t(16)) == 0
    assert nccl.ncclAllReduce(send, receive, c_size_t(2), 7, 0, own, None) == 0
    assert cudart.cudaMemcpy(got, receive, c_size_t(16), 2) == 0 and list(got) == [5, 6, 0, 0]
    assert nccl.ncclAllGather(send, receive, c_size_t(2), 7, two, None) == 0
    assert cudart.cudaMemcpy(got, receive, c_size_t(16), 2) == 0 and list(got) == [5, 6, 5, 6]
    assert nccl.ncclAllGather(send, receive, c_size_t(4096), 7, two, None) == 4  # beyond the buffers
    for communicator in (own, two):
        assert nccl.ncclCommDestroy(communicator) == 0
        assert nccl.ncclCommDestroy(communicator) == 4


def main():
    device = malloc(4096)
    copies(device)
    products(device)
    convolution(device)
    profiler()
    collectives()
    assert cudart.cudaDeviceSynchronize() == 0


main()
